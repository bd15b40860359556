"""The simulators of the family and their ports."""

from __future__ import annotations

from pathlib import Path

from tamis.interfaces import Port
from tamis.sim.dem.disks.heap import Heap
from tamis.sim.dem.disks.nut import BrazilNut
from tamis.sim.dem.disks.silo import Silo
from tamis.sim.dem.impact import drive
from tamis.sim.dem.impact.scene import Impact
from tamis.simulation import simulator
from tamis.types import Array

warm = drive.warm

_OUTPUTS = {
    "cnr": Port("cnr", doc="coefficient of normal restitution: normal speed after over before"),
    "ctr": Port(
        "ctr",
        doc="coefficient of tangential restitution: tangential velocity of the centre after over before; at "
        "angle 0 without spin, its limit",
    ),
    "spin_out": Port("spin_out", unit="rad/s", doc="angular velocity after impact, signed as spin"),
    "contact_time": Port(
        "contact_time", unit="s", doc="from touch until the normal force has come back to zero"
    ),
    "peak_force": Port("peak_force", unit="N", doc="greatest normal force"),
    "t": Port("t", unit="s", doc="201 equally spaced instants of the contact"),
    "F_n": Port("F_n", unit="N", doc="normal force on the sphere at t, away from the wall"),
    "F_t": Port("F_t", unit="N", doc="tangential force on the sphere at t, along its tangential velocity"),
    "xi": Port("xi", unit="m", doc="overlap of sphere and wall at t"),
}


@simulator(
    name="tamis:dem.impact",
    version="2",
    inputs=Impact,
    outputs=_OUTPUTS,
    references=(
        "Hadjidoukas et al. 2014, doi:10.1016/j.cma.2014.07.017",
        "Cundall & Strack 1979, doi:10.1680/geot.1979.29.1.47",
        "Tsuji, Tanaka & Ishida 1992, doi:10.1016/0032-5910(92)88030-L",
        "Kuwabara & Kono 1987, doi:10.1143/JJAP.26.1230",
        "Schwager & Poeschel 2007, doi:10.1007/s10035-007-0065-z",
    ),
)
def impact(case: Impact) -> dict[str, Array]:
    """Throw a sphere at a wall of its own material; return restitution coefficients and contact forces.

    Hertz spring and power-law dashpot along the normal, never attractive; tangential spring capped by
    friction. Contact ends when the normal force vanishes. The defaults are the steel sphere calibrated by
    Hadjidoukas et al. (2014), near its posterior mean.
    """
    return drive.simulate(case)


impact.batch(outputs=drive.RESULTS)(drive.simulate_many)


_DISKS = (
    "Hadjidoukas et al. 2014, doi:10.1016/j.cma.2014.07.017",
    "Cundall & Strack 1979, doi:10.1680/geot.1979.29.1.47",
)
_DEEPEST = Port(
    "deepest", doc="deepest overlap in the run, over the distance at which the two would just touch"
)
_STEP = Port("dt", unit="s", doc="time step taken")


@simulator(
    name="tamis:dem.brazil_nut",
    version="3",
    inputs=BrazilNut,
    outputs={
        "t": Port("t", unit="s", doc="instants recorded, from the start of the shaking"),
        "z": Port("z", unit="m", doc="height of the nut's centre at t, above where the floor began"),
        "highest": Port(
            "highest", unit="m", doc="greatest height up to t: below a limit as long as that is not reached"
        ),
        "p": Port("p", doc="fractions of time"),
        "z_p": Port("z_p", unit="m", doc="height that the nut is above for the fraction p of the time"),
        "height": Port("height", unit="m", doc="heights to be reached"),
        "t_exit": Port(
            "t_exit", unit="s", doc="when the nut first reaches each height; the duration where it does not"
        ),
        "reached": Port("reached", doc="1 where the nut reaches the height, 0 where t_exit is censored"),
        "escaped": Port("escaped", doc="grains that have left the box"),
        "deepest": _DEEPEST,
        "dt": _STEP,
    },
    references=_DISKS,
)
def brazil_nut(case: BrazilNut, workdir: Path) -> dict[str, Array]:
    """Shake a box of 72 disks and one twice as large; return how high the large one is, and when it got there.

    The defaults are the experiment of Hadjidoukas et al. (2014, section 5.2) with the posterior means of their third
    law, at a hundredth of the modulus of steel.
    """
    return case.play(workdir)[0]


@simulator(
    name="tamis:dem.silo",
    version="4",
    inputs=Silo,
    outputs={
        "sizes": Port(
            "sizes", doc="grains out in each avalanche, from the opening or an arch broken to an arch"
        ),
        "t": Port(
            "t", unit="s", doc="when each avalanche was seen to have ended, from the opening of the outlet"
        ),
        "exits": Port(
            "exits", unit="s", doc="when each grain was seen to be out, from the opening of the outlet"
        ),
        "unfinished": Port(
            "unfinished", doc="grains out in the avalanche that the end of the run has cut off"
        ),
        "p": Port("p", doc="shares of the avalanches, (k - 1/2)/N for the k-th largest of N"),
        "size_p": Port("size_p", doc="grains in an avalanche that a share p of them exceeds"),
        "n": Port("n", doc="numbers of grains"),
        "beyond": Port("beyond", doc="share of the avalanches with more than n grains; empty without any"),
        "flow": Port(
            "flow", unit="1/s", doc="grains out in a second of flow, pauses between avalanches left out"
        ),
        "arch": Port("arch", unit="m", doc="places of the grains of the last arch, seen from below"),
        "emptied": Port(
            "emptied",
            doc="1 if the silo has run empty or is closed, or nothing more came out, before all avalanches were done",
        ),
        "floor": Port("floor", unit="N", doc="load on the floor at the end, downwards"),
        "deepest": _DEEPEST,
        "dt": _STEP,
    },
    references=(*_DISKS, "Beverloo, Leniger & van de Velde 1961, doi:10.1016/0009-2509(61)85030-6"),
)
def silo(case: Silo, workdir: Path) -> dict[str, Array]:
    """Let grains run out of a silo, avalanche by avalanche; return how many come out until an arch blocks the outlet.

    After each avalanche one grain of the arch is moved to the top. The defaults are a small silo with the law of
    `dem.brazil_nut`; the one of Hadjidoukas et al. (2014, section 5.3) has 16 000 grains and is 0.128 m wide.
    """
    return case.play(workdir)[0]


@simulator(
    name="tamis:dem.heap",
    version="3",
    inputs=Heap,
    outputs={
        "a": Port("a", doc="height of the settled column over half its width"),
        "runout": Port(
            "runout", doc="half the width of the heap less that of the column, over that of the column"
        ),
        "top": Port("top", doc="height of the heap over half the width of the column"),
        "angle": Port("angle", unit="deg", doc="angle of repose: mean slope of both flanks of the heap"),
        "x": Port("x", unit="m", doc="101 places from one end of the heap to the other"),
        "y": Port("y", unit="m", doc="height of its surface at x"),
        "apart": Port(
            "apart", doc="grains that have rolled away from the heap, those that have left the plane too"
        ),
        "escaped": Port("escaped", doc="grains that have left the plane"),
        "floor": Port("floor", unit="N", doc="load on the floor at the end, downwards"),
        "weight": Port("weight", unit="N", doc="weight of the grains that are on the plane"),
        "t_rest": Port(
            "t_rest", unit="s", doc="when the heap was seen to have come to rest, or the duration"
        ),
        "rests": Port("rests", doc="1 if the heap came to rest within the duration"),
        "deepest": _DEEPEST,
        "dt": _STEP,
    },
    references=(
        *_DISKS,
        "Staron & Hinch 2005, doi:10.1017/S0022112005006415",
        "Lube et al. 2005, doi:10.1103/PhysRevE.72.041301",
    ),
)
def heap(case: Heap, workdir: Path) -> dict[str, Array]:
    """Let a column of grains fall apart; return the run-out and the angle of repose of the heap that is left."""
    return case.play(workdir)[0]
