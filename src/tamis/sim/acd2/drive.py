"""From scenes to outputs: one jump of one grain, the packing of a gabion."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np

from tamis.errors import SimulationError, TamisWarning
from tamis.sim.acd2 import kernels
from tamis.sim.acd2.jump import Step, solve_jump
from tamis.sim.acd2.kernels import Grains, Record, Room, State
from tamis.sim.acd2.packing import grains_of, lattice, read_vertices, scatter
from tamis.sim.acd2.scene import Gabion, Impact
from tamis.sim.acd2.solver import last_arrays, local_arrays
from tamis.sim.common.broad import sweep
from tamis.sim.common.collide import narrow
from tamis.sim.common.geometry import manifolds, world
from tamis.sim.common.rotations import matrices
from tamis.sim.common.shapes import Convex, mass_of
from tamis.sim.contact.problem import Contacts
from tamis.types import Array

TOUCH = 1e-4  # of the size of a grain: nearer than that is touching
BEAT = 0.02  # s between two percussions on the grains while the box closes
EASE = 0.01  # m/s at which overlaps are undone while the grains come to rest
SLOP = 0.005  # of the size of a grain: overlaps that stay
DEEP = 0.01  # of the size of a grain: an overlap of a packing that is worth a word, twice what easing leaves
CLOSING = 0.1  # of the side: the last part of the way, over which a box closes slower and slower


def simulate_impact(scene: Impact) -> dict[str, Array]:
    """Solve the one jump of a grain on a plane."""
    rows = np.zeros((1, 3, 12))
    rows[0, :, 6:9] = np.eye(3)[[2, 0, 1]]  # no entry for rotation: it is locked
    before = np.array([[scene.v_t, 0.0, -scene.v_n, 0.0, 0.0, 0.0]])
    none, grain = np.array([-1]), np.array([0])
    step = Step(
        np.full((1, 6), scene.mass), before, np.zeros((1, 6)), none, grain, rows, scene.k_n, scene.k_t
    )
    jump = solve_jump(step)
    return {
        "u_n": jump.after[0, 2],
        "u_t": jump.after[0, 0],
        "multiplier": jump.multiplier[0],
        "dissipated": jump.dissipated(step)[0],
    }


@dataclass(frozen=True, eq=False)
class Packing:
    """A gabion from the lattice to rest: what is kept of all steps, and where its three stages end."""

    shapes: list[Convex]
    grains: Grains
    state: State
    record: Record
    closed: int  # steps until the box had its size
    settled: int  # and until it had been left to come to rest
    steps: int
    rest: Array  # (b, 3) places at the end of settling


def pack(scene: Gabion, every: int = 0) -> Packing:
    """Pack a gabion; places are kept every so many steps, 0: at the end only."""
    rng = np.random.default_rng(scene.seed)
    mean = np.array([scene.a, scene.b, scene.c, scene.d])
    shapes = scatter(scene.grains, mean, scene.dispersion, scene.volume, rng, read_vertices(scene.vertices))
    grains = grains_of(shapes, scene.density)
    x, q, side = lattice(shapes, rng)
    counts = [max(1, math.ceil(t / scene.dt - 1e-9)) for t in (scene.patience, scene.settling, scene.hold)]
    steps, b, n = sum(counts), scene.grains, 64 + 8 * scene.grains
    state = state_of(x, q, max(0.5 * side, 0.5 * scene.side), n)
    room, record = room_of(grains, 4 * n, n), record_of(b, steps, every or steps)
    record.x[0], record.q[0] = x, q
    run = _Run(scene, grains, scene.volume ** (1.0 / 3.0))
    done = 0
    beat = max(1, round(BEAT / scene.dt))
    while done < counts[0] and state.half.max() > 0.5 * scene.side * (1.0 + 1e-12):
        before = float((grains.mass * state.v**2).sum())
        state.v[:, :3] += scene.shake * rng.standard_normal((b, 3))
        state.work[2] += 0.5 * (float((grains.mass * state.v**2).sum()) - before)
        state, room, done = run.advance(state, room, record, done, min(done + beat, counts[0]), 0.0, 0.0)
    if state.half.max() > 0.5 * scene.side * (1.0 + 1e-12):
        solid = scene.grains * scene.volume / scene.side**3
        raise SimulationError(
            f"the grains cannot be packed: after {scene.patience:g} s the box still measures "
            f"{2 * state.half.max():.4g} m instead of {scene.side:g} m, of which they would fill {solid:.2g}; take a "
            "larger box, or fewer or smaller grains (a box of few grains holds less); acd2.gabion may also be given "
            "more time (patience) or a harder push (hardest)"
        )
    closed, settled = done, done + counts[1]
    state, room, done = run.advance(state, room, record, closed, settled, scene.gravity, scene.mu, EASE)
    rest = state.x.copy()
    last = settled + counts[2]
    state, room, done = run.advance(state, room, record, settled, last, scene.gravity, scene.mu)
    _tell(scene, record, settled, done)
    return Packing(shapes, grains, state, record, closed, settled, done, rest)


def _tell(scene: Gabion, record: Record, settled: int, done: int) -> None:
    """Say so where jumps are not solved, and where grains overlap deeply once they should be at rest."""
    slow = np.flatnonzero(record.residual[:done] > scene.tolerance)
    if slow.size:
        warnings.warn(
            f"the jump was not solved to {scene.tolerance:g} in {slow.size} of {done} steps; the largest residual is "
            f"{record.residual[:done].max():.2g}: allow more sweeps",
            TamisWarning,
            stacklevel=3,
        )
    deepest, size = float(record.overlap[settled:done].max()), scene.volume ** (1.0 / 3.0)
    if deepest > DEEP * size:
        warnings.warn(
            f"grains of the packing overlap by up to {1e3 * deepest:.3g} mm, more than {DEEP:g} of their size, "
            f"{1e3 * size:.3g} mm: close the box in smaller steps (dt) or more slowly (speed), or let overlaps open "
            f"for longer than {scene.settling:g} s (settling)",
            TamisWarning,
            stacklevel=3,
        )


@dataclass(frozen=True, eq=False)
class _Run:
    """Steps of one scene, with as much room as they ask for."""

    scene: Gabion
    grains: Grains
    size: float

    def advance(
        self,
        state: State,
        room: Room,
        record: Record,
        first: int,
        last: int,
        gravity: float,
        mu: float,
        ease: float = 0.0,
    ) -> tuple[State, Room, int]:
        scene = self.scene
        closing = (0.5 * scene.side, CLOSING * 0.5 * scene.side, scene.speed, scene.hardest)
        laws = (scene.k_n, scene.k_t, mu, gravity, scene.k_net)
        while first < last:
            status, first, need = kernels.advance(
                self.grains, state, room, record, closing, (ease, SLOP * self.size), *laws, scene.dt,
                TOUCH * self.size, scene.tolerance,
                scene.sweeps, first, last,
            )  # fmt: skip
            if status == kernels.NOT_FINITE:
                raise SimulationError(
                    f"the motion is no longer finite after t = {first * scene.dt:g} s; forces or masses are out of "
                    "proportion"
                )
            if status in (kernels.MORE_PAIRS, kernels.MORE_CONTACTS):
                more = status == kernels.MORE_CONTACTS
                contacts = 2 * need if more else len(room.found.gap)
                room = room_of(self.grains, len(room.pairs) if more else 2 * need, contacts)
                state = grown(state, contacts)
        return state, room, first


def state_of(x: Array, q: Array, half: float, contacts: int) -> State:
    """Return bodies at rest, in a box of such half sides."""
    none = np.zeros(1, np.int64), np.zeros((contacts, 3), np.int64), np.zeros((contacts, 3))
    return State(
        x.copy(),
        q.copy(),
        np.zeros((len(x), 6)),
        np.full(3, half),
        np.zeros(6),
        np.zeros(3),
        np.zeros(4),
        np.zeros(3),
        *none,
    )


def grown(state: State, contacts: int) -> State:
    """Return the state with room for more contacts."""
    more = state_of(state.x, state.q, 0.0, contacts)
    held = len(state.r)
    more.pair[:held], more.r[:held] = state.pair, state.r
    return state._replace(pair=more.pair, r=more.r)


def room_of(grains: Grains, pairs: int, contacts: int) -> Room:
    """Allocate for so many pairs and contacts."""
    b, n, at, found = len(grains.mass), contacts, world(grains.geometry), manifolds(contacts)
    rows = Contacts(
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros((n, 3, 12)),
        np.zeros((n, 3)),
        np.zeros(n),
    )
    return Room(
        at, sweep(b), np.zeros((pairs, 2), np.int64), narrow(grains.geometry, at, found), found, rows,
        local_arrays(b, n), last_arrays(b, n), np.zeros((b, 6, 6)), np.zeros((b, 6, 6)), np.zeros((b, 6)),
        np.zeros((b, 6)), np.zeros((b, 6)), np.zeros((n, 3)), np.zeros((b, 6, 6)),
    )  # fmt: skip


def record_of(bodies: int, steps: int, every: int) -> Record:
    """Allocate for so many steps, and for an instant every so many of them."""
    instants = steps // every + 1
    return Record(
        np.array([every]), np.zeros((steps, 2), np.int64), np.zeros(steps), np.zeros(steps), np.zeros((steps, 3)),
        np.zeros((steps, 6)), np.zeros((steps, 7)), np.zeros((steps, 2, 3)), np.zeros((instants, bodies, 3)),
        np.zeros((instants, bodies, 4)),
    )  # fmt: skip


def simulate_gabion(scene: Gabion) -> dict[str, Array]:
    """Pack a gabion and measure it at rest."""
    packing = pack(scene)
    n, record, state = packing.steps, packing.record, packing.state
    points = [
        at + np.asarray(shape.points) @ R.T
        for at, R, shape in zip(state.x, matrices(state.q), packing.shapes, strict=True)
    ]
    every = np.concatenate(points)
    solid = (
        sum(mass_of(shape).volume for shape in packing.shapes) - float(record.push[n - 1].sum()) / scene.k_net
    )
    books = record.books[:n]
    return {
        "t": scene.dt * np.arange(1, n + 1),
        "side": 2.0 * record.half[:n],
        "contacts": record.counts[:n, 0],
        "sweeps": record.counts[:n, 1],
        "residual": record.residual[:n],
        "deepest": record.overlap[:n],
        "kinetic": books[:, kernels.KINETIC],
        "net_energy": books[:, kernels.NET],
        "friction": books[:, kernels.FRICTION],
        "outside": record.push[:n].sum(axis=1) / scene.k_net,
        "closed": np.float64(scene.dt * packing.closed),
        "extent": np.ptp(every, axis=0),
        "solid_fraction": np.float64(solid / scene.side**3),
        "overlap": np.float64(record.overlap[packing.settled : n].max()),
        "drift": np.float64(np.linalg.norm(state.x - packing.rest, axis=1).max()),
        "closure": np.float64(closure(books)),
        "x": state.x,
        "q": state.q,
    }


def closure(books: Array) -> float:
    """Return the largest gap between kinetic energy and the works that make it, over the largest work."""
    lost = books[:, [kernels.VISCOUS, kernels.REACTIVE, kernels.FRICTION]].sum(axis=1)
    given = books[:, kernels.GIVEN] - lost
    return float(np.abs(books[:, kernels.KINETIC] - given).max() / max(np.abs(books).max(), 1e-300))
