"""The simulators of the family and their ports."""

from __future__ import annotations

from tamis.interfaces import Port
from tamis.sim.rail import drive
from tamis.sim.rail.scene import Vehicle
from tamis.sim.rail.tracks import Track
from tamis.simulation import simulator
from tamis.types import Array

warm = drive.warm

_REFERENCES = (
    "Lebel, Soize, Funfschilling & Perrin 2019, doi:10.1016/j.jsv.2019.06.024",
    "Iwnicki 1998, doi:10.1080/00423119808969454",
    "Vermeulen & Johnson 1964, doi:10.1115/1.3629610",
)


@simulator(
    name="tamis:rail.track",
    version="1",
    inputs=Track,
    outputs={
        "s": Port("s", unit="m", doc="places along the line, the first at 0"),
        "lateral": Port("lateral", unit="m", doc="alignment of the track's centre at s, to the left"),
        "gauge": Port("gauge", unit="m", doc="excess of the gauge at s"),
        "vertical": Port("vertical", unit="m", doc="height of the track's centre at s"),
        "cross_level": Port("cross_level", unit="m", doc="left rail's height above the right one at s"),
    },
    references=(
        "Perrin, Soize, Duhamel & Funfschilling 2013, doi:10.1016/j.probengmech.2013.08.006",
        *_REFERENCES[:1],
    ),
)
def track(case: Track) -> dict[str, Array]:
    """Make a track with four irregularities: lateral, gauge, vertical, cross-level.

    Gaussian signals of the spectra of ERRI B176, low or high disturbance, with random amplitudes; stationary, or with a
    level that varies along the line; or the signals of a file.
    """
    return drive.track(case)


@simulator(
    name="tamis:rail.vehicle",
    version="1",
    inputs=Vehicle,
    outputs={
        "t": Port("t", unit="s", doc="instants of the samples, the first at 0, after the run-up"),
        "car_lateral": Port(
            "car_lateral", unit="m/s2", doc="lateral acceleration of the car's floor above the measured bogie"
        ),
        "car_vertical": Port("car_vertical", unit="m/s2", doc="vertical acceleration at the same place"),
        "bogie_lateral": Port(
            "bogie_lateral", unit="m/s2", doc="lateral acceleration of the bogie frame, near the car's end"
        ),
        "bogie_vertical": Port("bogie_vertical", unit="m/s2", doc="vertical acceleration at the same place"),
        "wheel_loads": Port(
            "wheel_loads",
            unit="N",
            doc="at t, of the eight wheels of the car: left and right, from the front",
        ),
        "derailment": Port(
            "derailment",
            doc="greatest quotient of a wheel's lateral force and load; a load below a twentieth of the static one "
            "counts as that",
        ),
        "ride_lateral": Port("ride_lateral", doc="Sperling's ride index of car_lateral"),
        "ride_vertical": Port("ride_vertical", doc="Sperling's ride index of car_vertical"),
        "growth": Port(
            "growth",
            unit="1/s",
            doc="greatest growth rate of the linearised train; positive above its critical speed",
        ),
    },
    references=_REFERENCES,
)
def vehicle(case: Vehicle) -> dict[str, Array]:
    """Run a train on an irregular track; return accelerations of a car and a bogie frame.

    Cars of 23 degrees of freedom with nonlinear suspensions and wheel-rail creep forces (the Manchester benchmark's
    passenger vehicle), coupled at their ends, at constant speed. Seven parameters scale the suspensions of the bogie
    that carries the sensors.
    """
    return drive.simulate(case)
