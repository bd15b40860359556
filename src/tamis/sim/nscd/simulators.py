"""The simulators of the family and their ports: each is a case with a known answer as well."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tamis.interfaces import Port
from tamis.sim.nscd.history import History
from tamis.sim.nscd.scenes import basic, masonry, rockfall, struck
from tamis.simulation import simulator
from tamis.types import Array

_REFERENCES = (
    "Moreau 1988, doi:10.1007/978-3-7091-2624-0_1",
    "Jean 1999, doi:10.1016/S0045-7825(98)00383-1",
    "Acary 2016, doi:10.1002/zamm.201400231",
)
_BOOKS = {
    "energy_gain": Port(
        "energy_gain",
        unit="J",
        doc="energy that contacts have created, summed over steps and laws; 0 is sound",
    ),
    "closure": Port(
        "closure", doc="largest gap in the energy ledger over the initial energy; round-off if all is well"
    ),
    "residual": Port("residual", doc="largest dimensionless residual of the contact problem in any step"),
    "iterations": Port("iterations", doc="most iterations that a step took"),
}
_TIMES = Port("t", unit="s", doc="instants recorded")


def _books(history: History) -> dict[str, Any]:
    return {
        "energy_gain": history.ledger.gain[-1].sum(),
        "closure": history.ledger.closure,
        "residual": history.solver.residual.max(),
        "iterations": history.solver.iterations.max(),
    }


def warm() -> None:
    """Compile every kernel that a run needs, once, before several processes or threads need them."""
    basic.Bounce(e=0.5, height=0.01, duration=0.01).history()


@simulator(
    name="tamis:nscd.slide",
    version="1",
    inputs=basic.Slide,
    outputs={"slide": Port("slide", unit="m", doc="distance covered at the end"), **_BOOKS},
    references=_REFERENCES,
)
def slide(case: basic.Slide) -> dict[str, Array]:
    """Let a block go on an inclined plane; it slides by g (sin a - mu cos a) t^2/2, or stays."""
    history = case.history(case.duration)
    path = history.path("block")
    return {"slide": np.linalg.norm(path[-1] - path[0]), **_books(history)}


@simulator(
    name="tamis:nscd.bounce",
    version="1",
    inputs=basic.Bounce,
    outputs={
        "t": _TIMES,
        "z": Port("z", unit="m", doc="height of the ball's lowest point at t"),
        "apexes": Port(
            "apexes", unit="m", doc="height after the first, second and third impact; 0 if not reached"
        ),
        **_BOOKS,
    },
    references=_REFERENCES,
)
def bounce(case: basic.Bounce) -> dict[str, Array]:
    """Drop a ball; it comes back to e^2, e^4, e^6 of its height."""
    history = case.history()
    z = history.path("ball")[:, 2] - basic.BALL
    turns = np.flatnonzero((z[1:-1] > z[:-2]) & (z[1:-1] >= z[2:])) + 1
    apexes = np.zeros(3)
    apexes[: len(turns[:3])] = z[turns[:3]]
    return {"t": history.times, "z": z, "apexes": apexes, **_books(history)}


@simulator(
    name="tamis:nscd.stack",
    version="2",
    inputs=basic.Stack,
    outputs={"drift": Port("drift", unit="m", doc="largest displacement of a cube from its place"), **_BOOKS},
    references=_REFERENCES,
)
def stack(case: basic.Stack) -> dict[str, Array]:
    """Leave a stack of cubes alone; it should not stir."""
    history = case.history(0.1)
    return {"drift": np.linalg.norm(history.x - history.x[0], axis=2).max(), **_books(history)}


@simulator(
    name="tamis:nscd.rocking",
    version="2",
    inputs=masonry.Rocking,
    outputs={
        "t": _TIMES,
        "angle": Port("angle", unit="deg", doc="tilt at t; its sign changes from corner to corner"),
        "largest": Port("largest", unit="deg", doc="tilt, whichever way, at most"),
        "overturned": Port("overturned", doc="1 if it ends beyond the tilt from which it falls, else 0"),
        "quarter": Port(
            "quarter", unit="s", doc="time to the first impact of a block let go; 0 if there is none"
        ),
        "kept": Port(
            "kept", doc="kinetic energy after the first impact over that before; 0 if there is none"
        ),
        **_BOOKS,
    },
    references=(*_REFERENCES, "Housner 1963, doi:10.1785/BSSA0530020403"),
)
def rocking(case: masonry.Rocking) -> dict[str, Array]:
    """Tilt a slender block and let it go, or shake the ground under it, and let it rock to rest or fall."""
    history = case.history()
    axes = history.rotations(history.scene.number("block"))
    angle = np.degrees(np.arctan2(axes[:, 0, 2], axes[:, 2, 2]))
    kinetic = history.ledger.kinetic
    over = np.flatnonzero(np.abs(np.diff(history.ledger.impact.sum(axis=1))) > 1e-3 * kinetic.max())
    hit = int(over[0]) if over.size else 0
    kept = kinetic[hit + 1] / kinetic[hit] if hit else 0.0
    return {
        "t": history.times,
        "angle": angle,
        "largest": np.abs(angle).max(),
        "overturned": float(abs(angle[-1]) > case.slenderness),
        "quarter": history.times[hit],
        "kept": kept,
        **_books(history),
    }


@simulator(
    name="tamis:nscd.arch",
    version="3",
    inputs=masonry.Arch,
    outputs={
        "t": _TIMES,
        "sag": Port("sag", unit="m", doc="of the highest voussoir at t; the mean radius is 1 m"),
        "opening": Port(
            "opening", unit="deg", doc="angle of each joint at the end, from the right springing"
        ),
        **_BOOKS,
    },
    references=(*_REFERENCES, "Heyman 1966, doi:10.1016/0020-7683(66)90018-7"),
)
def arch(case: masonry.Arch) -> dict[str, Array]:
    """Take the centring from a semicircular masonry arch; it stands if thicker than 0.1075 of its radius."""
    history = case.history(0.02)
    names = [f"v{i:03d}" for i in range(case.voussoirs)]
    numbers = [history.scene.number(name) for name in names]
    turns = []
    for i in numbers:
        start, end = history.rotations(i)[0], history.rotations(i)[-1]
        turned = end @ start.T
        turns.append(math.degrees(math.atan2(turned[0, 2], turned[2, 2])))
    top = history.x[:, numbers[case.voussoirs // 2], 2]
    return {
        "t": history.times,
        "sag": top[0] - top,
        "opening": np.diff([0.0, *turns, 0.0]),
        **_books(history),
    }


@simulator(
    name="tamis:nscd.wall",
    version="3",
    inputs=rockfall.Wall,
    outputs={
        "t": _TIMES,
        "projectile_v": Port("projectile_v", unit="m/s", doc="velocity of the projectile along y at t"),
        **{
            f"dy_{name}": Port(f"dy_{name}", unit="m", doc=f"displacement of block {name} along y at t")
            for name in ("r1_b4", "r2_b4", "r2_b5", "r3_b4")
        },
        "kinetic": Port("kinetic", unit="J", doc="kinetic energy at t"),
        "lost_impact": Port("lost_impact", unit="J", doc="energy lost in impacts until t"),
        "lost_friction": Port("lost_friction", unit="J", doc="energy lost by friction until t"),
        **_BOOKS,
    },
    references=(*_REFERENCES, "Gupta et al. 2023, doi:10.1016/j.engstruct.2023.116936"),
)
def wall(case: rockfall.Wall) -> dict[str, Array]:
    """Throw a heavy block at a dry wall of 42 concrete blocks; after 0.2 s the motion is chaotic."""
    history = case.history()
    moved = {
        f"dy_{name}": history.path(name)[:, 1] - history.path(name)[0, 1]
        for name in ("r1_b4", "r2_b4", "r2_b5", "r3_b4")
    }
    return {
        "t": history.times,
        "projectile_v": history.velocity("projectile")[:, 1],
        **moved,
        "kinetic": history.ledger.kinetic,
        "lost_impact": 0.0 - history.ledger.impact.sum(axis=1),
        "lost_friction": 0.0 - history.ledger.friction.sum(axis=1),
        **_books(history),
    }


@simulator(
    name="tamis:nscd.rockfall_wall",
    version="5",
    inputs=rockfall.ArticulatedWall,
    outputs={**struck.PORTS, **_BOOKS},
    references=(*_REFERENCES, "Gupta et al. 2023, doi:10.1016/j.engstruct.2023.116936"),
)
def rockfall_wall(case: rockfall.ArticulatedWall) -> dict[str, Array]:
    """Throw a rock at a wall of concrete blocks that turn about bars, until all is at rest."""
    history = case.history()
    return {**struck.outcome(history, case), **_books(history)}
