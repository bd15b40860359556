"""The vehicle: data of the Manchester benchmark passenger vehicle, and the seven suspension parameters.

Sources and what could not be checked are listed in docs/theory/rail.md.
"""

from __future__ import annotations

import numpy as np

from tamis.signals import GRAVITY
from tamis.sim.rail.kernels import Bogies, Car
from tamis.types import Array

AXLE_BOX = 155.0  # kg, two a wheelset, 1 m from its centre: 1503 + 310 = 1813 kg, 810 + 310 = 1120 kg m2
_LENGTHS = {
    "pivot": 9.5,
    "axle": 1.28,
    "end": 13.2,
    "car_height": 1.8,
    "bogie_height": 0.6,
    "radius": 0.46,
    "secondary_height": 0.8275,
    "stop_height": 0.65,
    "secondary_side": 1.0,
    "yaw_side": 1.3,
    "primary_side": 1.0,
    "contact_side": 0.75,
}
_INERTIAS = {
    "mass": 32000.0,
    "roll": 56800.0,
    "pitch": 1.97e6,
    "yaw": 1.97e6,
    "bogie_mass": 2615.0,
    "bogie_roll": 1722.0,
    "bogie_pitch": 1476.0,
    "bogie_yaw": 3067.0,
    "wheelset_mass": 1503.0 + 2 * AXLE_BOX,
    "wheelset_roll": 810.0 + 2 * AXLE_BOX,
    "wheelset_spin": 112.0,
    "wheelset_yaw": 810.0 + 2 * AXLE_BOX,
}
_SUSPENSIONS = {
    "primary_vertical": 1.22e6,
    "primary_lateral": 3.884e6,
    "primary_lateral_damping": 2e3,
    "primary_longitudinal_damping": 15e3,
    "primary_series": 1e6,
    "secondary_shear": 0.16e6,
    "roll_bar": 0.94e6,
    "secondary_series": 6e6,
    "yaw_series": 5e6,
    "lateral_ratio": 4.0,
    "yaw_ratio": 25.0,
    "vertical_ratio": 3.0,
    "stop_play": 0.025,
    "stop_rate": 1.91e7,
    "stop_end": 0.034,
    "stop_end_rate": 5.5e9,
    "coupling": 1e5,
    "coupling_damping": 3e4,
}
_CONTACT = {
    "clearance": 0.007,
    "flange": 1.46e7,
    "flange_onset": 0.0005,
    "gravity_scale": 1.0,
}
_YOUNG, _POISSON, _HEAD = 2.07e11, 0.27, 0.3  # Pa, -, m: steel, radius of the rail's head
_KALKER = (4.12, 3.67, 1.47)  # C11, C22, C23 of a circular patch, Poisson's ratio 1/4, Kalker 1967
_NOMINAL = {
    "yaw_rate": 250e3,
    "yaw_force": 8e3,
    "lateral_rate": 32e3,
    "lateral_force": 6e3,
    "vertical_stiffness": 0.43e6,
    "vertical_rate": 20e3,
    "vertical_force": 6e3,
    "primary_rate": 4e3,
    "longitudinal": 31.391e6,
}
_SCALED_BY = {  # on the bogie that carries the sensors
    "w1": ("yaw_rate", "yaw_force"),
    "w3": ("lateral_rate", "lateral_force"),
    "w4": ("vertical_stiffness",),
    "w5": ("vertical_rate", "vertical_force"),
    "w6": ("primary_rate",),
    "w7": ("longitudinal",),
}


def weight() -> float:
    """Return the weight of a car, in N."""
    inertia = _INERTIAS
    return GRAVITY * (inertia["mass"] + 2.0 * inertia["bogie_mass"] + 4.0 * inertia["wheelset_mass"])


def car(conicity: float, friction: float, **changed: float) -> Car:
    """Return a car of the benchmark, whose cars are symmetric: each of its eight wheels carries the same."""
    load = weight() / 8.0
    curvature = 0.5 * (1.0 / _LENGTHS["radius"] + 1.0 / _HEAD)
    patch = (1.5 * load * (1.0 - _POISSON**2) / (_YOUNG * curvature)) ** (
        1.0 / 3.0
    )  # Hertz, sqrt(a b) within 1 %
    shear = 0.5 * _YOUNG / (1.0 + _POISSON)
    c11, c22, c23 = _KALKER
    creep = {"f11": shear * patch**2 * c11, "f22": shear * patch**2 * c22, "f23": shear * patch**3 * c23}
    contact = {**_CONTACT, **creep, "load": load}
    values = {**_LENGTHS, **_INERTIAS, **_SUSPENSIONS, **contact, "conicity": conicity, "friction": friction}
    return Car(**{**values, **changed})


def bogies(cars: int, measured: int, w: dict[str, float]) -> Bogies:
    """Return nominal bogies; the parameters scale that with the sensors, w2 the lateral dampers at its car's other end.

    A parameter of 0, 0.5 and 1 is half, once and one and a half times the nominal value; a damper's law is scaled as a
    whole.
    """
    arrays: dict[str, Array] = {name: np.full(2 * cars, value) for name, value in _NOMINAL.items()}
    for name, laws in _SCALED_BY.items():
        for scaled in laws:
            arrays[scaled][measured] *= 0.5 + w[name]
    for scaled in _SCALED_BY["w3"]:
        arrays[scaled][measured ^ 1] *= 0.5 + w["w2"]
    return Bogies(**arrays)


def leads(cars: int) -> Array:
    """Return how far behind the first wheelset each wheelset is, in m."""
    sizes = _LENGTHS
    own = [k * 2 * sizes["pivot"] + j * 2 * sizes["axle"] for k in range(2) for j in range(2)]
    return np.array([c * 2.0 * sizes["end"] + each for c in range(cars) for each in own])
