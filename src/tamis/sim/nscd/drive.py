"""From a scene to its history: the time loop, what is recorded, and what a person should be told."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.errors import SimulationError, StudyError, TamisWarning
from tamis.jit import kernel
from tamis.sim.common.rotations import turned
from tamis.sim.contact import solve
from tamis.sim.nscd import kernels, layout
from tamis.sim.nscd.arrays import Model, Record, Scratch, State, Stops
from tamis.sim.nscd.history import History
from tamis.sim.nscd.scene import Scene
from tamis.types import Array

MARGIN = 2e-3  # of the reach of the smallest shape: contacts nearer than that are watched
TOUCH = 1e-8  # of the same: nearer than that is touching
OVERLAP = 1e-6  # of the same: deeper than that at the start is a mistake, not round-off
_CHUNK = 256
_ROUNDS = 100
_LOOKS = 200
_activate = kernel(kernels.activate)


@dataclass(frozen=True)
class Rest:
    """When a run may end: no point of any body has moved faster than ``speed`` (m/s) for ``time`` (s).

    Bodies may have limits of their own: ``but`` has their names and speeds.
    """

    speed: float = 0.01
    time: float = 0.1
    but: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if not (0.0 < self.speed < math.inf and 0.0 < self.time < math.inf):
            raise StudyError(
                f"rest needs a speed and a time that are positive and finite; found {self.speed} and {self.time}"
            )


@dataclass(frozen=True)
class Finer:
    """Until when, in s from the start, steps are taken in so many parts: while a blow lasts."""

    until: float
    parts: int

    def __post_init__(self) -> None:
        if not (0.0 <= self.until < math.inf and self.parts >= 1):
            raise StudyError(
                f"finer steps need a time of 0 s or more and 1 part or more; found {self.until} and {self.parts}"
            )


def run(
    scene: Scene,
    duration: float,
    *,
    h: float = 1e-3,
    theta: float = 0.5,
    tol: float = 1e-8,
    record: float | None = None,
    contacts: bool = False,
    rest: Rest | None = None,
    finer: Finer | None = None,
    overlap: str = "refuse",
    progress: Callable[[int, int], None] | None = None,
) -> History:
    """Let a scene go for a while, or until it has come to rest.

    Parameters
    ----------
    scene
        Bodies, laws, gravity.
    duration, h
        Time to simulate and time step, in seconds.
    theta
        1/2 keeps the books exact; towards 1 the scheme damps.
    tol
        Bound of the dimensionless residual of the contact problem in each step.
    record
        Time between recorded instants; every step by default.
    contacts
        Whether to record the contacts of those instants: points, gaps and impulses.
    rest
        Ends the run before ``duration`` once everything has been still for a while.
    finer
        Takes the first steps in parts, which is cheaper than a smaller ``h`` throughout where a run begins with a blow.
        Contacts of an instant are then listed once a part, and the residual is the largest of the parts.
    overlap
        What to do if bodies overlap at the start: ``refuse``, or ``separate`` them by the smallest displacement.
    progress
        Called with the steps done and all steps.
    """
    _check_request(duration, h, theta, tol, record, overlap)
    steps = math.ceil(duration / h - 1e-9)
    h = duration / steps  # the end is where it was asked for
    every = 1 if record is None else max(1, round(record / h))
    model, state, frames = layout.lay_out(scene, h, steps)
    size = smallest(model)
    room = layout.room(model, 64 + 8 * len(model.geometry.kind), 64 + 16 * len(model.geometry.kind))
    room = _apart(scene, model, state, room, size, overlap)
    room, state = (
        layout.room(model, len(room.detection.pairs), len(room.found.gap)),
        layout.grown(state, len(room.found.gap)),
    )
    kept = layout.record(model, steps, every, 1024 if contacts else 0)
    calm = steps + 1 if rest is None else max(1, math.ceil(rest.time / h - 1e-9))
    limit = np.full(len(scene.bodies), 0.0 if rest is None else rest.speed)
    for name, speed in rest.but if rest else ():
        limit[scene.number(name)] = speed
    step, status = 0, kernels.DONE
    while step < steps and status != kernels.AT_REST:
        status, step, need = kernels.advance(
            model,
            state,
            room,
            kept,
            h,
            theta,
            tol,
            MARGIN * size,
            TOUCH * size,
            limit,
            calm,
            finer.parts if finer else 1,
            math.ceil(finer.until / h - 1e-9) if finer else 0,
            step,
            min(step + _CHUNK, steps),
        )
        if status in (kernels.MORE_PAIRS, kernels.MORE_CONTACTS):
            room, state = _roomier(model, state, room, status, need)
        elif status == kernels.MORE_RECORDS:
            kept = layout.roomier(kept, 2 * need)
        elif status == kernels.MORE_METHODS:
            solve.provide(need, room.solver.methods)
        elif status == kernels.NOT_FINITE:
            raise SimulationError(
                f"the motion is no longer finite after t = {h * step:g} s; forces or masses are out of proportion"
            )
        if progress is not None:
            progress(step, steps)
    if status == kernels.AT_REST:
        kept = layout.ended(kept, step)
    _tell(scene, model, state, kept, room, h, size)
    still = h * (step - int(state.books.quiet[0])) if status == kernels.AT_REST else math.nan
    return History.of(scene, model, state, frames, kept, h, size, still)


def smallest(model: Model) -> float:
    """Return the reach of the smallest shape, the length by which near and touching are judged."""
    finite = model.geometry.reach[np.isfinite(model.geometry.reach)]
    return float(finite.min()) if finite.size else 1.0


def _check_request(
    duration: float, h: float, theta: float, tol: float, record: float | None, overlap: str
) -> None:
    if not (math.isfinite(duration) and duration > 0.0 and math.isfinite(h) and 0.0 < h <= duration):
        raise StudyError(
            f"expected 0 < h <= duration, both finite; found h = {h} s and duration = {duration} s"
        )
    if not 0.5 <= theta <= 1.0:
        raise StudyError(f"theta must lie between 1/2 (exact books) and 1 (most damping), found {theta}")
    if not 1e-14 <= tol < 1.0:
        raise StudyError(f"tol, the residual allowed in a step, must lie between 1e-14 and 1, found {tol}")
    if record is not None and not (math.isfinite(record) and record > 0.0):
        raise StudyError(
            f"record, the time between recorded instants, must be positive and finite, found {record}"
        )
    if overlap not in ("refuse", "separate"):
        raise StudyError(f'overlap is "refuse" or "separate", found "{overlap}"')


def _roomier(model: Model, state: State, room: Scratch, status: int, need: int) -> tuple[Scratch, State]:
    pairs, contacts = len(room.detection.pairs), len(room.found.gap)
    if status == kernels.MORE_PAIRS:
        pairs = 2 * need
    else:
        contacts = 2 * need
    return layout.room(model, pairs, contacts), layout.grown(state, contacts)


def _found(
    model: Model, x: Array, q: Array, meet: Any, stops: Stops, margin: float, room: Scratch
) -> tuple[Scratch, int]:
    """Detect in a given configuration, with as much room as it takes."""
    while True:
        n = room.detect(
            x, q, model.geometry, meet, model.bodies.responds, stops, margin, room.detection, room.found
        )
        if 0 <= n <= len(room.found.gap):
            return room, n
        pairs, contacts = len(room.detection.pairs), len(room.found.gap)
        room = layout.room(model, max(pairs, -2 * n), max(contacts, 2 * n))


def _apart(scene: Scene, model: Model, state: State, room: Scratch, size: float, overlap: str) -> Scratch:
    """Refuse or separate bodies that overlap at the start; return room that was enough."""
    start, fault = state.x.copy(), ""
    for _ in range(_ROUNDS):
        room, n = _found(model, state.x, state.q, model.laws.meet, model.stops, MARGIN * size, room)
        gaps = room.found.gap[:n]
        if n == 0 or gaps.min() >= -OVERLAP * size:
            if fault:
                _tell_of_separation(scene, fault, np.linalg.norm(state.x - start, axis=1))
            return room
        if not fault:
            k = int(gaps.argmin())
            one, other = (scene.bodies[i].name for i in _pair(model, room, k))
            what = "overlap" if room.found.a[k] < len(model.geometry.kind) else "pass the limit of their stop"
            deep = len({tuple(_pair(model, room, int(i))) for i in np.flatnonzero(gaps < -OVERLAP * size)})
            more = f" ({deep} pairs overlap)" if deep > 1 else ""
            fault = f'bodies "{one}" and "{other}" {what} by {-gaps[k]:.3g} m at the start{more}'
        if overlap == "refuse":
            raise StudyError(
                f'{fault}; move them apart, or let overlap="separate" push them apart by the smallest displacement'
            )
        _separate(model, state, room, n)
    raise StudyError(
        f"bodies still overlap by {-gaps.min():.3g} m after {_ROUNDS} rounds of pushing them apart: there is no room "
        "for all of them; give them more"
    )


def _tell_of_separation(scene: Scene, fault: str, moved: Array) -> None:
    furthest = int(moved.argmax())
    warnings.warn(
        f"{fault}; {np.count_nonzero(moved)} bodies were moved to separate them, "
        f"{scene.bodies[furthest].name} furthest, by {moved[furthest]:.3g} m",
        TamisWarning,
        stacklevel=4,
    )


def _pair(model: Model, room: Scratch, k: int) -> tuple[int, int]:
    return int(model.stops.owner[room.found.a[k]]), int(model.stops.owner[room.found.b[k]])


def _separate(model: Model, state: State, room: Scratch, n: int) -> None:
    """Move bodies by the displacement of least mass-weighted square that opens every gap, without friction."""
    motion, active = room.motion, room.active
    motion.x[:], motion.q[:] = state.x, state.q
    motion.before[:], motion.free[:], motion.w[:] = 0.0, 0.0, 0.0
    owner, group = model.stops.owner, model.stops.group
    count = _activate(model.bodies, model.laws, owner, group, motion, room.found, n, 0.0, math.inf, active)
    active.bias[:count] = 0.0
    active.bias[:count, 0] = room.found.gap[active.row[:count]]
    active.mu[:count], active.r[:count] = 0.0, 0.0
    contacts = kernels.problem_of(active, count)
    if solve.solve(contacts, motion.w, active.r[:count], 1e-6, room.solver) == solve.NOT_FINITE:
        raise SimulationError(
            "bodies that overlap at the start cannot be moved apart: the displacement is not finite; look for "
            "positions, sizes or masses out of proportion, or move them apart by hand"
        )
    for i in np.flatnonzero(model.bodies.number >= 0):
        shift = model.bodies.inverse[i] * motion.w[model.bodies.number[i]]
        state.x[i] += shift[:3]
        turned(state.q[i], shift[3], shift[4], shift[5], state.q[i])


def _tell(
    scene: Scene, model: Model, state: State, kept: Record, room: Scratch, h: float, size: float
) -> None:
    """Warn of what a person would want to know, each thing once."""
    steps, (share, body) = kept.steps, state.books.passed
    failed = np.flatnonzero(steps.status != solve.CONVERGED)
    if failed.size:
        worst = int(failed[steps.residual[failed].argmax()])
        one, other = (scene.bodies[i].name for i in steps.worst[worst])
        warnings.warn(
            f"the contact problem was not solved to the end in {failed.size} of {len(steps.status)} steps; the "
            f"largest residual is {steps.residual[worst]:.2g}, at t = {h * (worst + 1):g} s between {one} and {other}: "
            "look there for extreme mass ratios or bodies pressed together, or allow more with tol",
            TamisWarning,
            stacklevel=3,
        )
    if share > 1.0:
        stride = model.bodies.stride[int(body)]
        warnings.warn(
            f"{scene.bodies[int(body)].name} moves by {share * stride:.3g} m in a step, turning included; above "
            f"{stride:.3g} m, half its thickness and half that of the thinnest thing it may meet, it may pass through: "
            f"take h < {h / share:.2g} s",
            TamisWarning,
            stacklevel=3,
        )
    _tell_of_lawless(scene, model, kept, room, size)
    scale = History.energy_scale(model, kept, size)
    gain = float(state.books.work[:, 2].sum())
    if gain > 1e-6 * scale:
        pair = scene.law_names()[int(state.books.work[:, 2].argmax())]
        warnings.warn(
            f"contacts have created {gain:.3g} J, {gain / scale:.2g} of the initial energy, most of it in {pair}: "
            "Newton's restitution with friction can do that (see energy_gain, or ledger.gain); a smaller e gains less",
            TamisWarning,
            stacklevel=3,
        )


def _tell_of_lawless(scene: Scene, model: Model, kept: Record, room: Scratch, size: float) -> None:
    """Say which groups touch and have no law, and were not declared to be ignored.

    Some hundred recorded instants are looked at, and for the groups that have not yet been seen to touch only.
    """
    unseen = layout.unlawful(scene, len(model.laws.meet))
    none = model.stops._replace(axis=model.stops.axis[:0])
    said: list[tuple[str, str, str, str]] = []
    instants = len(kept.track.x)
    for instant in np.unique(np.linspace(0, instants - 1, min(instants, _LOOKS)).astype(int)):
        if not unseen.any():
            break
        x, q = kept.track.x[instant], kept.track.q[instant]
        room, n = _found(model, x, q, unseen, none, OVERLAP * size, room)
        a, b = room.found.a[:n], room.found.b[:n]
        for k in np.unique(model.geometry.group[np.column_stack([a, b])], axis=0, return_index=True)[1]:
            i, j = int(model.geometry.group[a[k]]), int(model.geometry.group[b[k]])
            if unseen[i, j]:
                unseen[i, j] = unseen[j, i] = False
                one, other = sorted((scene.groups[i], scene.groups[j]))
                first, second = (scene.bodies[m].name for m in _pair(model, room, int(k)))
                said.append((one, other, first, second))
    if said:
        one, other, first, second = said[0]
        more = ", ".join(f"{one}-{other}" for one, other, *_ in said[1:])
        warnings.warn(
            f'bodies "{first}" and "{second}" touch, but there is no law between {one} and {other}'
            f"{f' (nor for {more}, which touch too)' if more else ''}: they do not see each other; add "
            f'Law("{one}", "{other}", ...) if they should, or Scene(..., ignore=[("{one}", "{other}")]) if not',
            TamisWarning,
            stacklevel=4,
        )
