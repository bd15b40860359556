"""What heats a member: a ramp of the steel itself, or a gas through the member's surface, as ports and as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.errors import SimulationError
from tamis.interfaces import port
from tamis.sim.fire import thermal
from tamis.sim.fire.sections import Section
from tamis.sim.fire.steel import COLDEST, HOTTEST
from tamis.types import Array

CURVES = {"iso834": thermal.ISO834, "hydrocarbon": thermal.HYDROCARBON, "parametric": thermal.PARAMETRIC}
_CONVECTION = {"iso834": 25.0, "hydrocarbon": 50.0, "parametric": 35.0}  # W/(m2 K), EN 1991-1-2, 3.2 and 3.3
_THINNEST = 1e-4  # m of protection: below, members are bare
_SHADOW = {"iso834": 0.9, "hydrocarbon": 0.9, "parametric": 1.0}  # of the box's section factor (4.26a, 4.26b)


def fire(default: str = "ramp") -> Any:
    """Declare what heats."""
    return port(
        default,
        choices=("ramp", *CURVES),
        doc="what heats: a ramp of the steel temperature itself, or a gas: ISO 834, hydrocarbons, parametric fire of "
        "EN 1991-1-2 annex A",
    )


def rate() -> Any:
    """Declare the rate of the ramp."""
    return port(0.75, unit="K/s", bounds=(1e-3, 10.0), doc="of the ramp")


def emissivity() -> Any:
    """Declare the emissivity."""
    return port(0.7, bounds=(0.0, 1.0), doc="of bare steel; that of the fire is 1")


def section_factor() -> Any:
    """Declare the factor on section factors."""
    return port(
        1.0,
        bounds=(0.1, 10.0),
        doc="factor on the section factors that follow from the dimensions, of bare and of protected members",
    )


def protection(default: float = 0.0) -> Any:
    """Declare the thickness of protection."""
    return port(
        default, unit="m", bounds=(0.0, 0.2), doc="thickness of the protection; below 0.1 mm members are bare"
    )


def conductivity() -> Any:
    """Declare the conductivity of the protection."""
    return port(0.2, unit="W/(m K)", bounds=(0.01, 10.0), doc="thermal conductivity of the protection")


def density() -> Any:
    """Declare the density of the protection."""
    return port(800.0, unit="kg/m3", bounds=(1.0, 5000.0), doc="density of the protection")


def heat() -> Any:
    """Declare the specific heat of the protection."""
    return port(1700.0, unit="J/(kg K)", bounds=(1.0, 1e4), doc="specific heat of the protection")


def fire_load() -> Any:
    """Declare the fire load."""
    return port(
        200.0,
        unit="MJ/m2",
        bounds=(1.0, 2000.0),
        doc="of the parametric fire, over the whole enclosing surface; annex A is meant for 50 to 1000",
    )


def opening() -> Any:
    """Declare the opening factor."""
    return port(0.06, unit="m0.5", bounds=(0.01, 0.3), doc="opening factor of the parametric fire")


def inertia() -> Any:
    """Declare the thermal inertia of the enclosure."""
    return port(
        1160.0, unit="J/(m2 s0.5 K)", bounds=(100.0, 2200.0), doc="of the enclosure, in the parametric fire"
    )


def until(default: float = 7200.0) -> Any:
    """Declare the end."""
    return port(default, unit="s", bounds=(1.0, 4e4), doc="when the calculation ends, failed or not")


def record() -> Any:
    """Declare how often a state is kept."""
    return port(
        5.0, unit="K", bounds=(1e-4, 100.0), doc="change of the hottest member between recorded states"
    )


@dataclass(frozen=True)
class Heating:
    """What a case says of its fire; see the ports."""

    fire: str = "ramp"
    rate: float = 0.75
    emissivity: float = 0.7
    section_factor: float = 1.0
    protection: float = 0.0
    conductivity: float = 0.2
    density: float = 800.0
    heat: float = 1700.0
    fire_load: float = 200.0
    opening: float = 0.06
    inertia: float = 1160.0
    until: float = 7200.0

    @classmethod
    def of(cls, case: Any) -> Heating:
        """Return the part of a case that is its fire."""
        return cls(**{name: getattr(case, name) for name in cls.__dataclass_fields__})

    def times(self) -> Array:
        """Return the instants of the tables of temperatures."""
        if self.fire == "ramp":
            return np.array([0.0, min(self.until, (HOTTEST - COLDEST) / self.rate)])
        n = max(1, round(self.until / thermal.STEP))
        return np.linspace(0.0, self.until, n + 1)

    def gas(self) -> Array:
        """Return the temperatures of the gas at these instants; those of the steel itself for a ramp."""
        times = self.times()
        if self.fire == "ramp":
            return COLDEST + self.rate * times
        out = np.empty(len(times))
        thermal.gas(CURVES[self.fire], times, self.fire_load, self.opening, self.inertia, 20.0 * 60.0, out)
        return out

    def steel(self, section: Section, sides: int, thickness: float | None = None) -> Array:
        """Return temperatures of a member heated from three or four sides, with its protection or with another."""
        times, around = self.times(), self.gas()
        if self.fire == "ramp":
            return around
        out, step = np.empty(len(times)), float(times[1] - times[0])
        layer = self.protection if thickness is None else thickness
        if layer >= _THINNEST:
            factor = self.section_factor * section.section_factor(sides)
            thermal.protected(step, around, factor, layer, self.conductivity, self.density, self.heat, out)
        else:
            factor = self.section_factor * _SHADOW[self.fire] * section.box_factor(sides)
            thermal.bare(step, around, factor, self.emissivity, _CONVECTION[self.fire], out)
        return np.minimum(out, HOTTEST)  # nothing is left of the steel there


def checked(temperatures: Array, name: str) -> Array:
    """Return temperatures of steel that the code covers, or say which is not."""
    low, high = float(temperatures.min()), float(temperatures.max())
    if not (low >= COLDEST - 1e-9 and high <= HOTTEST + 1e-9):
        found = low if low < COLDEST - 1e-9 else high
        raise SimulationError(
            f"{name}: EN 1993-1-2 gives properties of steel from {COLDEST:g} to {HOTTEST:g} C, found {found:.4g} C"
        )
    return np.clip(temperatures, COLDEST, HOTTEST)


def instants(times: Array, hottest: Array, record: float) -> Array:
    """Return the times between which the hottest temperature changes by ``record``, both ends included."""
    travelled = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(hottest)))])
    if travelled[-1] == 0.0:
        return times[[0, -1]]
    count = int(travelled[-1] / record + 1e-9)
    rising = np.concatenate([[True], np.diff(travelled) > 0.0])
    out = np.interp(record * np.arange(count + 1), travelled[rising], times[rising])
    return out if times[-1] - out[-1] < 1e-9 * times[-1] else np.append(out, times[-1])
