"""The simulators of the family and their ports."""

from __future__ import annotations

from tamis.interfaces import Port
from tamis.replays import Replay
from tamis.sim.hybrid import drawing, drive, rig
from tamis.sim.hybrid.scene import Late, Plant, Rig
from tamis.simulation import simulator
from tamis.types import Array

_SERA = "SERA deliverable D27.1 2019 (mixed actuator control, partitioned dynamic substructuring)"
_GC = "Gravouil & Combescure 2001, doi:10.1002/1097-0207(20010110)50:1<199::AID-NME132>3.0.CO;2-A"


def warm() -> None:
    """Compile every kernel of the family, once, before several processes or threads need them."""
    rig.two_actuators(Rig(cycles=1, period=0.1))
    drive.plant(Plant(duration=0.01, dt=1e-3))


@simulator(
    name="tamis:hybrid.two_actuators",
    version="1",
    inputs=Rig,
    outputs={
        "cycle": Port("cycle", doc="numbers of the cycles, from 1"),
        "least": Port("least", unit="m", doc="least displacement of the specimen, by cycle"),
        "largest": Port("largest", unit="N", doc="largest force + slope x displacement, by cycle"),
        "error_low": Port("error_low", doc="least displacement over its range, by cycle: wanted 0"),
        "error_high": Port(
            "error_high", doc="largest force + slope x displacement over target, less 1, by cycle"
        ),
        "error": Port("error", doc="the larger of both errors, by cycle"),
        "tension": Port("tension", unit="N", doc="least tension of either actuator, by cycle"),
        "unmet": Port("unmet", doc="last cycle in which a constraint was missed by more than 0.5 %"),
        "t": Port("t", unit="s", doc="instants of the last cycle"),
        "y_1": Port("y_1", unit="m", doc="displacement of the first actuator at t"),
        "y_2": Port("y_2", unit="m", doc="displacement of the second actuator at t"),
        "y_s": Port("y_s", unit="m", doc="displacement of the specimen at t"),
        "y_ref": Port("y_ref", unit="m", doc="reference of the mean displacement of the actuators at t"),
        "f_1": Port("f_1", unit="N", doc="force of the first actuator at t, negative when it pulls"),
        "f_2": Port("f_2", unit="N", doc="force of the second actuator at t, positive when it pulls"),
        "f_d": Port("f_d", unit="N", doc="tension of the beam at t"),
    },
    references=(_SERA, "Plummer 2010, Control Engineering Practice 18, 598-607"),
)
def two_actuators(case: Rig) -> dict[str, Array]:
    """Load a specimen by two actuators in line: displacement and beam tension under mixed control, cycle by cycle.

    The reference learns from cycle to cycle until the specimen's least displacement is zero and its largest
    force + slope x displacement is the target.
    """
    return rig.two_actuators(case)


@two_actuators.replay
def _show_rig(case: Rig, fps: float) -> Replay:
    return drawing.show_rig(case, rig.two_actuators(case), fps)


@simulator(
    name="tamis:hybrid.plant",
    version="1",
    inputs=Plant,
    outputs={
        "t": Port("t", unit="s", doc="kept instants, the first at 0"),
        "u": Port("u", unit="m", doc="displacement of the sliding base over the ground at t"),
        "v": Port("v", unit="m/s", doc="velocity of the sliding base over the ground at t"),
        "force": Port("force", unit="N", doc="force of all four bearings at t"),
        "force_tested": Port("force_tested", unit="N", doc="force of the bearings in the laboratory at t"),
        "u_impulsive": Port("u_impulsive", unit="m", doc="displacement of the impulsive mass at t"),
        "u_convective": Port("u_convective", unit="m", doc="displacement of the convective mass at t"),
        "u_pipe": Port("u_pipe", unit="m", doc="displacement of the middle of the piping at t"),
        "peak": Port("peak", unit="m", doc="largest displacement of the base over all steps"),
        "t_peak": Port("t_peak", unit="s", doc="when it is reached"),
        "residual": Port("residual", unit="m", doc="displacement of the base at the last kept instant"),
        "force_peak": Port("force_peak", unit="N", doc="largest force of all four bearings over all steps"),
        "gap": Port("gap", unit="m/s", doc="largest difference of velocity between subdomains at the base"),
        "drift": Port("drift", unit="m", doc="largest difference of displacement between subdomains at the base"),
    },
    references=(
        _SERA, _GC, "Bonelli, Bursi, He, Magonette & Pegon 2008, doi:10.1002/nme.2285",
        "Malhotra, Wenk & Wieland 2000, doi:10.2749/101686600780481509",
        "Mostaghel 1999, Journal of Engineering Mechanics 125, 216-224",
    ),
)  # fmt: skip
def plant(case: Plant) -> dict[str, Array]:
    """Shake a tank of sloshing liquid on sliding bearings with its piping, in parts that a laboratory could test.

    Two of the bearings are in the laboratory and their force is multiplied; tank and piping are computed. The default
    piping is the chain of the independent reference.
    """
    return drive.plant(case)


@plant.replay
def _show_plant(case: Plant, fps: float) -> Replay:
    return drawing.show_plant(case, fps)


@simulator(
    name="tamis:hybrid.delay",
    version="2",
    inputs=Late,
    outputs={
        "t": Port("t", unit="s", doc="instants, of the structure's time"),
        "u": Port("u", unit="m", doc="displacement at t"),
        "force": Port("force", unit="N", doc="force of the specimen at t"),
        "u_exact": Port("u_exact", unit="m", doc="displacement at t if the actuator were on time"),
        "growth": Port("growth", unit="1/s", doc="rate at which the amplitude grows after the pulse"),
        "growth_expected": Port(
            "growth_expected",
            unit="1/s",
            doc="the same by theory, of a specimen late by delay + hold/2",
        ),
    },
    references=(
        _SERA,
        "Horiuchi, Inoue, Konno & Namita 1999, Earthquake Engineering and Structural Dynamics 28, 1121-1141",
    ),
)
def delay(case: Late) -> dict[str, Array]:
    """Test a spring in real time or slower with an actuator that is late: negative damping of about k_p x delay.

    A command may be followed continuously or held for a time, which makes it late by half of that.
    """
    return drive.late(case)
