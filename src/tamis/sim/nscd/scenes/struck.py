"""What a struck wall of hinged blocks did: how far its points went, where the energy is, and whether it held."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from tamis.errors import TamisWarning
from tamis.interfaces import Port
from tamis.sim.nscd.history import History
from tamis.sim.nscd.scenes.hinged import Hinged
from tamis.sim.nscd.scenes.rockfall import STILL, ArticulatedWall
from tamis.types import Array

EVERY = 5e-3  # s between recorded instants
LOST = 0.5  # of its height: a block that sank so far has come off the wall
FAR = 10.0  # m: a block so far from where the wall as a whole has gone has come off it, or the wall has left the scene
SLOW = 1.0  # m/s: a rock on the wall that is not faster is stopped
# Points of the impact axis and of the distant axis, the latter on the rock's left: rows of blocks counted from below,
# or from above if negative, and the face, lower (-1) or upper (+1). Where a and b are is not printed: the interfaces
# below the topmost and above the lowest row are taken.
POINTS = {"top": (-1, 1), "a": (-1, -1), "b": (0, 1), "base": (0, -1), "c": (0, -1), "d": (-1, 1)}
# Mechanisms of the ledger: who rubs or strikes whom.
_BLOCKS = ("round-round", "end0-end0", "end1-end1")
_ROCK = ("round-rock", "core-rock")
_FALL = ("ground-rock",)
_GROUND = ("round-ground",)


def _drop(what: str, of: str) -> Port:
    return Port(what, unit="J", doc=f"energy lost {of} until the end")


PORTS = {
    "t": Port(
        "t", unit="s", doc="instants after the rock has struck; a wall at rest is held to the duration"
    ),
    **{
        name: Port(name, unit="m", doc=f"displacement along x at t, {where}")
        for name, where in (
            ("top", "impact axis, upper face of the topmost row"),
            ("a", "impact axis, lower face of the topmost row"),
            ("b", "impact axis, upper face of the lowest row"),
            ("base", "impact axis, lower face of the lowest row"),
            ("c", "distant axis, lower face of the lowest row"),
            ("d", "distant axis, upper face of the topmost row"),
        )
    },
    "rock_v": Port("rock_v", unit="m/s", doc="velocity of the rock along x at t"),
    "kinetic": Port("kinetic", unit="J", doc="kinetic energy at t"),
    "struck": Port("struck", unit="J", doc="kinetic energy of the rock at the start"),
    "friction_blocks": _drop("friction_blocks", "by friction of blocks on blocks"),
    "friction_ground": _drop("friction_ground", "by friction of blocks on the ground"),
    "friction_steel": _drop("friction_steel", "by friction of bars in holes, on bars and on the ground"),
    "friction_rock": _drop("friction_rock", "by friction of the rock on blocks and ground"),
    "impact_blocks": _drop("impact_blocks", "in impacts of blocks on blocks and on the ground"),
    "impact_rock": _drop("impact_rock", "in impacts of the rock on blocks"),
    "impact_fall": _drop(
        "impact_fall", "in impacts of the rock on the ground, where it falls after the blow"
    ),
    "impact_steel": _drop("impact_steel", "in impacts of bars, and of slings as they become taut"),
    "lifted": Port(
        "lifted", unit="J", doc="potential energy gained until the end; the fall of the rock counts too"
    ),
    "rest": Port(
        "rest", unit="s", doc="since when no block moves, after the rock has struck; else the duration"
    ),
    "at_rest": Port("at_rest", doc="1 if no block moves at the end, be the rock still rolling; else 0"),
    "stopped": Port(
        "stopped",
        doc="1 if the rock ends before the wall or on it, wherever that has gone; 0 if beyond or on its way there",
    ),
    "beyond": Port(
        "beyond", unit="m", doc="how far the rock ends beyond the blocks nearest to it; negative: before"
    ),
    "lost": Port(
        "lost", doc="blocks that have come off the wall; one that is thrown with all of its blocks loses none"
    ),
    "broken": Port("broken", doc="blocks that the rock broke"),
    "blow": Port(
        "blow",
        unit="N s",
        doc="largest impulse on the rock in a step, along x; how long it lasts is not known",
    ),
    "contacts": Port("contacts", doc="contacts that may carry, mean of all steps"),
    "unsolved": Port("unsolved", doc="steps whose contact problem was not solved to the residual allowed"),
}


def profile(history: History, plan: Hinged, row: int, side: int) -> tuple[Array, Array]:
    """Return y (lines,) of the holes of a row at the start, and the displacement (t, lines) along x of their ends.

    The side is that of the face at which the ends are taken, -1 the lower and +1 the upper.
    """
    paths = []
    for line in range(plan.lines):
        name, x = plan.block(row, line)
        paths.append(history.path(name, (x, 0.0, 0.5 * side * plan.course)))
    at = np.stack(paths, axis=1)
    return at[0, :, 1], at[:, :, 0] - at[0, :, 0]


def displacement(history: History, case: ArticulatedWall, point: str) -> Array:
    """Return (t,): how far a point moved along x, between the two hinge lines next to it."""
    row, side = POINTS[point]
    y = case.aside if point in ("c", "d") else case.impact
    places, moved = profile(history, case.plan, row % case.rows, side)
    return np.array([np.interp(y, places, now) for now in moved])


def outcome(history: History, case: ArticulatedWall) -> dict[str, Any]:
    """Return the outputs of the simulator, all but the books that each of the family keeps."""
    hit = struck_at(history)
    if hit is None:
        warnings.warn("the rock has not touched a block", TamisWarning, stacklevel=3)
        hit = 0.0
    t = EVERY * np.arange(1 + round(case.duration / EVERY))
    v = history.velocity("rock")[:, 0]
    signals = {name: displacement(history, case, name) for name in POINTS}
    signals |= {"rock_v": v, "kinetic": history.ledger.kinetic}
    still, lost, beyond = rest_of(history, case), lost_blocks(history, case.plan), _beyond(history)
    if lost:
        warnings.warn(
            f"{lost} blocks have come off the wall; what its points did after that has little meaning",
            TamisWarning,
            stacklevel=3,
        )
    if gone := thrown(history):
        warnings.warn(gone, TamisWarning, stacklevel=3)
    through, passing = beyond >= 0.5 * case.width, _passing(history, case)
    if still is None or (passing and not through):
        what = "the wall is not at rest" if still is None else f"the rock still passes at {v[-1]:.2g} m/s"
        warnings.warn(
            f"{what} after {history.times[-1]:.3g} s: whether it is stopped and where all comes to rest wants a "
            "longer duration",
            TamisWarning,
            stacklevel=3,
        )
    return {
        "t": t,
        **{name: np.interp(t, history.times - hit, values) for name, values in signals.items()},
        **books(history),
        "rest": case.duration if still is None else max(still - hit, 0.0),
        "at_rest": float(still is not None),
        "stopped": float(not (through or passing)),
        "beyond": beyond,
        "lost": float(lost),
        "broken": float(len(case.broken)),
        "blow": case.mass * float(np.max(-np.diff(v))),
        "contacts": history.solver.contacts.mean(),
        "unsolved": float(np.count_nonzero(history.solver.converged == 0)),
    }


def _passing(history: History, case: ArticulatedWall) -> bool:
    """Say whether the rock flies forward with enough energy to rise above the wall."""
    v, z = history.velocity("rock")[-1], history.path("rock")[-1, 2]
    return bool(v[0] >= SLOW and 0.5 * float(v @ v) >= 9.81 * (case.plan.height - z))


def struck_at(history: History) -> float | None:
    """Return when the rock met a block, before the step in which their contacts first did work; None if never."""
    ledger = history.ledger
    own = [i for i, law in enumerate(ledger.laws) if law in _ROCK]
    worked = np.flatnonzero(
        (ledger.impact[:, own] != 0.0).any(axis=1) | (ledger.friction[:, own] != 0.0).any(axis=1)
    )
    return float(history.times[worked[0] - 1]) if worked.size else None


def rest_of(history: History, case: ArticulatedWall) -> float | None:
    """Return since when no block has moved; None if one did shortly before the end."""
    numbers, reach = _blocks(history), 0.5 * math.hypot(case.pitch + case.width, case.course)
    v = history.v[:, numbers]
    speed = np.linalg.norm(v[:, :, :3], axis=2) + reach * np.linalg.norm(v[:, :, 3:], axis=2)
    moving = np.flatnonzero(speed.max(axis=1) > STILL.speed)
    since = float(history.times[moving[-1]]) if moving.size else 0.0
    return since if history.times[-1] - since >= STILL.time * (1.0 - 1e-9) else None


def books(history: History) -> dict[str, float]:
    """Return where the rock's energy went, by mechanism; the parts add up to it, with what still moves."""
    ledger = history.ledger
    friction = dict(zip(ledger.laws, 0.0 - ledger.friction[-1], strict=True))
    impact = dict(zip(ledger.laws, 0.0 - ledger.impact[-1], strict=True))
    steel = [law for law in ledger.laws if law not in (*_BLOCKS, *_GROUND, *_ROCK, *_FALL)]

    def total(works: dict[str, float], laws: Sequence[str]) -> float:
        return float(sum(works[law] for law in laws if law in works))

    return {
        "struck": float(ledger.kinetic[0]),
        "friction_blocks": total(friction, _BLOCKS),
        "friction_ground": total(friction, _GROUND),
        "friction_steel": total(friction, steel),
        "friction_rock": total(friction, (*_ROCK, *_FALL)),
        "impact_blocks": total(impact, (*_BLOCKS, *_GROUND)),
        "impact_rock": total(impact, _ROCK),
        "impact_fall": total(impact, _FALL),
        "impact_steel": total(impact, steel),
        "lifted": float(ledger.potential[-1] - ledger.potential[0]),
    }


def lost_blocks(history: History, plan: Hinged) -> int:
    """Return how many blocks sank by half their height, or left the others."""
    numbers = _blocks(history)
    way = history.x[-1, numbers] - history.x[0, numbers]
    apart = np.linalg.norm(way - np.median(way, axis=0), axis=1)
    return int(np.sum((way[:, 2] < -LOST * plan.course) | (apart > FAR)))


def thrown(history: History) -> str:
    """Say what has left the scene, which is `FAR` from where it stood, in whatever company; empty if nothing has."""
    numbers = _blocks(history)
    way = history.x[-1, numbers] - history.x[0, numbers]
    far = np.linalg.norm(way, axis=1)
    if not (gone := int(np.sum(far > FAR))):
        return ""
    speed, up = np.linalg.norm(history.v[-1, numbers, :3], axis=1).max(), way[:, 2].max()
    still = f", still moving at up to {speed:.2g} m/s" if speed > SLOW else ""
    still += f" and up to {up:.2g} m above their places" if speed > SLOW and up > 0.1 else ""
    ends = f"{far.min():.3g} to {far.max():.3g} m from where they stood{still}"
    if gone < len(far):
        return f"{gone} of {len(far)} blocks were thrown out of the scene: the blocks end {ends}"
    return (
        f"the wall as a whole was thrown out of the scene: its blocks end {ends}; "
        "`stopped` and `lost`, of blocks that left the others, say nothing of such a wall"
    )


def _blocks(history: History) -> list[int]:
    return [i for i, body in enumerate(history.scene.bodies) if body.name[0] == "r" and body.name != "rock"]


def _beyond(history: History) -> float:
    """Return how far the rock ends beyond the line through the blocks of the lowest row."""
    row = [i for i in _blocks(history) if history.scene.bodies[i].name.startswith("r0_")]
    at = history.x[-1, row]
    order = np.argsort(at[:, 1])
    rock = history.x[-1, history.scene.number("rock")]
    return float(rock[0] - np.interp(rock[1], at[order, 1], at[order, 0]))
