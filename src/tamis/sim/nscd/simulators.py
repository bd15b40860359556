"""The simulators of the family and their ports: each is a case with a known answer as well."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tamis.replays import Replay
from tamis.sim.nscd import cases, drive
from tamis.sim.nscd.history import History
from tamis.simulation import Port, simulator
from tamis.types import Array

_REFERENCES = (
    "Moreau 1988, doi:10.1007/978-3-7091-2624-0_1",
    "Jean 1999, doi:10.1016/S0045-7825(98)00383-1",
    "Acary 2016, doi:10.1002/zamm.201400231",
)
_STEP = Port("h", unit="s", bounds=(1e-6, 0.1), doc="time step")
_DURATION = Port("duration", unit="s", bounds=(1e-3, 1e3), doc="time simulated")
_MU = Port("mu", bounds=(0.0, 10.0), doc="coefficient of friction")
_RESTITUTION = Port("e", bounds=(0.0, 1.0), doc="coefficient of restitution")
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
    drive.run(cases.bounce(e=0.5, height=0.01), 0.01)


@simulator(
    name="tamis:nscd.slide",
    version="1",
    inputs={
        "angle": Port("angle", unit="deg", bounds=(0.0, 80.0), doc="of the plane with the horizontal"),
        "azimuth": Port(
            "azimuth", unit="deg", bounds=(-360.0, 360.0), doc="direction in which the plane falls off"
        ),
        "mu": _MU,
        "h": _STEP,
        "duration": _DURATION,
    },
    outputs={"slide": Port("slide", unit="m", doc="distance covered at the end"), **_BOOKS},
    references=_REFERENCES,
)
def slide(
    *, angle: float = 30.0, azimuth: float = 0.0, mu: float = 0.3, h: float = 1e-3, duration: float = 1.0
) -> dict[str, Array]:
    """Let a block go on an inclined plane; it slides by g (sin a - mu cos a) t^2/2, or stays."""
    history = _slide(angle, azimuth, mu, h, duration, record=duration)
    path = history.path("block")
    return {"slide": np.linalg.norm(path[-1] - path[0]), **_books(history)}


def _slide(angle: float, azimuth: float, mu: float, h: float, duration: float, *, record: float) -> History:
    scene = cases.slide(angle=angle, azimuth=azimuth, mu=mu)
    return drive.run(scene, duration, h=h, tol=1e-12, record=record)


@slide.replay
def slide_replay(*, fps: float, **inputs: Any) -> Replay:
    """Show it."""
    return _slide(**inputs, record=1.0 / fps).replay()


@simulator(
    name="tamis:nscd.bounce",
    version="1",
    inputs={
        "e": _RESTITUTION,
        "height": Port("height", unit="m", bounds=(1e-3, 1e3), doc="of the ball's lowest point at the start"),
        "h": _STEP,
        "duration": _DURATION,
    },
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
def bounce(
    *, e: float = 0.8, height: float = 1.0, h: float = 1e-3, duration: float = 3.0
) -> dict[str, Array]:
    """Drop a ball; it comes back to e^2, e^4, e^6 of its height."""
    history = _bounce(e, height, h, duration, record=h)
    z = history.path("ball")[:, 2] - cases.BALL
    turns = np.flatnonzero((z[1:-1] > z[:-2]) & (z[1:-1] >= z[2:])) + 1
    apexes = np.zeros(3)
    apexes[: len(turns[:3])] = z[turns[:3]]
    return {"t": history.times, "z": z, "apexes": apexes, **_books(history)}


def _bounce(e: float, height: float, h: float, duration: float, *, record: float) -> History:
    return drive.run(cases.bounce(e=e, height=height), duration, h=h, record=record)


@bounce.replay
def bounce_replay(*, fps: float, **inputs: Any) -> Replay:
    """Show it."""
    return _bounce(**inputs, record=1.0 / fps).replay()


@simulator(
    name="tamis:nscd.stack",
    version="1",
    inputs={
        "boxes": Port("boxes", bounds=(1, 200), doc="cubes one upon the other"),
        "mu": _MU,
        "e": _RESTITUTION,
        "ratio": Port("ratio", bounds=(0.1, 10.0), doc="mass of a cube over that of the one below"),
        "h": _STEP,
        "duration": _DURATION,
    },
    outputs={"drift": Port("drift", unit="m", doc="largest displacement of a cube from its place"), **_BOOKS},
    references=_REFERENCES,
)
def stack(
    *,
    boxes: int = 10,
    mu: float = 0.5,
    e: float = 0.0,
    ratio: float = 1.0,
    h: float = 1e-3,
    duration: float = 10.0,
) -> dict[str, Array]:
    """Leave a stack of cubes alone; it should not stir."""
    history = _stack(boxes, mu, e, ratio, h, duration, record=0.1)
    return {"drift": np.linalg.norm(history.x - history.x[0], axis=2).max(), **_books(history)}


def _stack(
    boxes: int, mu: float, e: float, ratio: float, h: float, duration: float, *, record: float
) -> History:
    return drive.run(cases.stack(boxes=boxes, mu=mu, e=e, ratio=ratio), duration, h=h, record=record)


@stack.replay
def stack_replay(*, fps: float, **inputs: Any) -> Replay:
    """Show it."""
    return _stack(**inputs, record=1.0 / fps).replay()


@simulator(
    name="tamis:nscd.rocking",
    version="1",
    inputs={
        "width": Port("width", unit="m", bounds=(1e-3, 100.0), doc="of the block"),
        "height": Port("height", unit="m", bounds=(1e-3, 100.0), doc="of the block"),
        "tilt": Port("tilt", unit="deg", bounds=(1e-3, 45.0), doc="at the start"),
        "mu": _MU,
        "h": _STEP,
        "duration": _DURATION,
    },
    outputs={
        "t": _TIMES,
        "angle": Port("angle", unit="deg", doc="tilt at t; its sign changes from corner to corner"),
        "quarter": Port("quarter", unit="s", doc="time to the first impact; 0 if there is none"),
        "kept": Port(
            "kept", doc="kinetic energy after the first impact over that before; 0 if there is none"
        ),
        **_BOOKS,
    },
    references=(*_REFERENCES, "Housner 1963, doi:10.1785/BSSA0530020403"),
)
def rocking(
    *,
    width: float = 0.5,
    height: float = 2.0,
    tilt: float = 5.0,
    mu: float = 2.0,
    h: float = 1e-3,
    duration: float = 4.0,
) -> dict[str, Array]:
    """Tilt a slender block, let it go, and let it rock to rest."""
    history = _rocking(width, height, tilt, mu, h, duration, record=h)
    axes = history.rotations(history.scene.number("block"))
    angle = np.degrees(np.arctan2(axes[:, 0, 2], axes[:, 2, 2]))
    kinetic = history.ledger.kinetic
    over = np.flatnonzero(np.abs(np.diff(history.ledger.impact.sum(axis=1))) > 1e-3 * kinetic.max())
    hit = int(over[0]) if over.size else 0
    kept = kinetic[hit + 1] / kinetic[hit] if hit else 0.0
    return {
        "t": history.times,
        "angle": angle,
        "quarter": history.times[hit],
        "kept": kept,
        **_books(history),
    }


def _rocking(
    width: float, height: float, tilt: float, mu: float, h: float, duration: float, *, record: float
) -> History:
    scene = cases.rocking(width=width, height=height, tilt=tilt, mu=mu)
    return drive.run(scene, duration, h=h, record=record)


@rocking.replay
def rocking_replay(*, fps: float, **inputs: Any) -> Replay:
    """Show it."""
    return _rocking(**inputs, record=1.0 / fps).replay()


@simulator(
    name="tamis:nscd.arch",
    version="1",
    inputs={
        "thickness": Port("thickness", bounds=(0.02, 0.5), doc="of the arch over its mean radius"),
        "voussoirs": Port("voussoirs", bounds=(5, 201), doc="equal stones from springing to springing"),
        "mu": _MU,
        "h": _STEP,
        "duration": _DURATION,
    },
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
def arch(
    *,
    thickness: float = 0.115,
    voussoirs: int = 27,
    mu: float = 1.5,
    h: float = 1e-3,
    duration: float = 2.0,
) -> dict[str, Array]:
    """Take the centring from a semicircular masonry arch; it stands if thicker than 0.1075 of its radius."""
    history = _arch(thickness, voussoirs, mu, h, duration, record=0.02)
    names = [f"v{i:03d}" for i in range(voussoirs)]
    numbers = [history.scene.number(name) for name in names]
    turns = []
    for i in numbers:
        start, end = history.rotations(i)[0], history.rotations(i)[-1]
        turned = end @ start.T
        turns.append(math.degrees(math.atan2(turned[0, 2], turned[2, 2])))
    top = history.x[:, numbers[voussoirs // 2], 2]
    return {
        "t": history.times,
        "sag": top[0] - top,
        "opening": np.diff([0.0, *turns, 0.0]),
        **_books(history),
    }


def _arch(
    thickness: float, voussoirs: int, mu: float, h: float, duration: float, *, record: float
) -> History:
    scene = cases.arch(thickness=thickness, voussoirs=voussoirs, mu=mu)
    return drive.run(scene, duration, h=h, tol=1e-6, record=record)


@arch.replay
def arch_replay(*, fps: float, **inputs: Any) -> Replay:
    """Show it."""
    return _arch(**inputs, record=1.0 / fps).replay()


@simulator(
    name="tamis:nscd.wall",
    version="1",
    inputs={
        "mu": _MU,
        "e": _RESTITUTION,
        "mu_ground": Port("mu_ground", bounds=(0.0, 10.0), doc="coefficient of friction with the ground"),
        "mass": Port("mass", unit="kg", bounds=(1.0, 1e6), doc="of the projectile"),
        "speed": Port("speed", unit="m/s", bounds=(0.0, 100.0), doc="of the projectile, along +y"),
        "height": Port("height", unit="m", bounds=(0.56, 10.0), doc="of the projectile's centre"),
        "h": _STEP,
        "duration": _DURATION,
    },
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
def wall(
    *,
    mu: float = 0.4,
    e: float = 0.15,
    mu_ground: float = 0.45,
    mass: float = 2600.0,
    speed: float = 20.0,
    height: float = 1.7,
    h: float = 1e-3,
    duration: float = 0.1,
) -> dict[str, Array]:
    """Throw a heavy block at a dry wall of 42 concrete blocks; after 0.2 s the motion is chaotic."""
    history = _wall(mu, e, mu_ground, mass, speed, height, h, duration, record=h)
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


def _wall(
    mu: float,
    e: float,
    mu_ground: float,
    mass: float,
    speed: float,
    height: float,
    h: float,
    duration: float,
    *,
    record: float,
) -> History:
    scene = cases.wall(mu=mu, e=e, mu_ground=mu_ground, mass=mass, speed=speed, height=height)
    return drive.run(scene, duration, h=h, tol=1e-6, record=record)


@wall.replay
def wall_replay(*, fps: float, **inputs: Any) -> Replay:
    """Show it."""
    return _wall(**inputs, record=1.0 / fps).replay()
