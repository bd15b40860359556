"""What struck scenes share: how bodies are laid out, steps with as much room as they ask for, the books."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.errors import SimulationError, TamisWarning
from tamis.sim.acd2 import kernels, struck
from tamis.sim.acd2.drive import TOUCH, grown, room_of, state_of
from tamis.sim.acd2.kernels import Grains, Room, State
from tamis.sim.acd2.packing import grains_of
from tamis.sim.acd2.struck import Signals, Wall
from tamis.sim.common.rotations import matrices, quaternion_of
from tamis.sim.common.shapes import Contactor, Convex, HalfSpace, Sphere, geometry_of
from tamis.types import Array, Indices

CLEAR = 0.01  # of its diameter: how far from the grains a ball starts
AWAY = 3.0  # m: where a ball waits
MOVING = 0.05  # of the first ball's energy: what grains have before it that is worth a word
UNEVEN = (
    0.01  # of the ball's momentum: what nets may give in a step without a word; solved to 1e-3 it is 0.0025
)
BOOKS = {  # outputs: the change of kinetic energy is the work of the weight, of nets and sand, less what is lost
    "kinetic": struck.KINETIC,
    "weight_work": struck.BY_WEIGHT,
    "lost_normal": struck.NORMAL,
    "lost_tangential": struck.TANGENTIAL,
    "lost_friction": struck.FRICTION,
    "lost_reactive": struck.REACTIVE,
}
DEEPEST = 0.1  # of the size of a grain: an overlap at the start that is not taken for one of corners


@dataclass(frozen=True)
class Laws:
    """What acts between and on the bodies, and how steps are taken."""

    k_n: float
    k_t: float
    mu: float
    gravity: float
    k_net: float
    sand: tuple[float, float]  # N/m, and the share of work given back
    dt: float
    touch: float
    tolerance: float
    sweeps: int


@dataclass(frozen=True, eq=False)
class Built:
    """A wall before anything moves."""

    shapes: list[Convex]
    grains: Grains
    wall: Wall
    state: State


def bodies(
    shapes: list[Convex], density: float, mass: float, diameter: float, planes: int, inside: bool
) -> Grains:
    """Lay out the ball, the grains and the planes, in that order: contacts then come in the order of their pairs.

    The ball is ``inside`` the planes and meets them, or comes from beyond.
    """
    about = grains_of(shapes, density)
    contactors = [Contactor(Sphere(0.5 * diameter), 0, 0)]
    contactors += [Contactor(shape, 1 + i, 1) for i, shape in enumerate(shapes)]
    contactors += [Contactor(HalfSpace(), 1 + len(shapes) + i, 2) for i in range(planes)]
    spin = 0.1 * mass * diameter**2
    masses = np.concatenate([[[mass] * 3 + [spin] * 3], about.mass, np.ones((planes, 6))])
    responds = np.arange(len(masses)) < 1 + len(shapes)
    meet = np.ones((3, 3), dtype=np.bool_)
    meet[0, 2] = meet[2, 0] = inside
    return Grains(geometry_of(contactors), masses, meet, responds)


def start(x: Array, q: Array, planes: list[Any]) -> State:
    """Return the grains and planes at rest, the ball out of the way."""
    upright = np.array([1.0, 0.0, 0.0, 0.0])
    places, turned = [np.array([0.0, -AWAY, AWAY]), *x], [upright, *q]
    for point, normal in planes:
        places.append(np.array(point))
        turned.append(towards(np.array(normal)))
    return state_of(np.array(places), np.array(turned), 0.0, 64 + 8 * len(x))


def towards(normal: Array) -> Array:
    """Return the quaternion that turns z to a direction."""
    one = np.cross(normal, [0.0, 1.0, 0.0] if abs(normal[1]) < 0.5 else [1.0, 0.0, 0.0])
    one /= np.linalg.norm(one)
    return np.array(quaternion_of(np.stack([one, np.cross(normal, one), normal], axis=1)))


def around(
    grains: Grains, moving: int, gabion: Indices, sensor: Indices, follow: list[int], box: Array, side: float
) -> Wall:
    """Return what is about the bodies, the nets at rest."""
    b, count = len(grains.mass), len(box)
    of = np.full((2, b), -1)
    of[:, 1:moving] = gabion, sensor
    weighs = np.zeros(b)
    weighs[1:moving] = 1.0
    masses = np.zeros(count)
    np.add.at(masses, gabion[gabion >= 0], grains.mass[1:moving, 0][gabion >= 0])
    return Wall(
        moving, weighs, of[0], of[1], np.array(follow), masses, np.full(3, 0.5 * side), box.copy(),
        np.zeros((count, 3)), np.zeros((count, 3)), np.zeros((count, 3)), np.zeros((count, 3)), np.zeros(b),
        np.zeros(b), np.zeros(b), np.zeros((b, 6)), np.zeros(7),
    )  # fmt: skip


class Run:
    """Steps of a struck scene: some to settle, then as many for each impact; with as much room as they ask for."""

    def __init__(
        self, built: Built, laws: Laws, spans: tuple[float, float], impacts: int, every: int
    ) -> None:
        self.shapes, self.grains, self.wall, self.state = built.shapes, built.grains, built.wall, built.state
        self.laws = laws
        self.settled, self.each = (max(1, math.ceil(t / laws.dt - 1e-9)) for t in spans)
        steps = self.settled + impacts * self.each
        every = every or steps
        b, n, followed = len(built.grains.mass), len(built.state.r), len(built.wall.follow)
        self.room = self._room(4 * n, n)
        instants, planes = steps // every + 1, b - built.wall.moving
        self.signals = Signals(
            np.array([every]), np.zeros((steps, 3), np.int64), np.zeros(steps), np.zeros(steps), np.zeros((steps, 11)),
            np.zeros((steps, 5, 3)), np.zeros((steps, planes, 3)), np.zeros((steps, 5)), np.zeros((steps, 2)),
            np.zeros((steps, 3)), np.zeros((steps, followed, 3)), np.zeros((instants, b, 3)),
            np.zeros((instants, b, 4)), np.zeros((instants, *built.wall.box.shape)),
        )  # fmt: skip
        self.signals.x[0], self.signals.q[0] = self.state.x, self.state.q
        self.signals.box[0] = self.wall.box
        self.done = 0
        self.settled_at = np.zeros((0, 3))  # places of the grains before the first impact
        self.starts = np.zeros((impacts, 2, 3))  # place and velocity of the ball
        self.momentum = np.zeros((impacts, 3))  # of all bodies at the start of an impact
        self.kinetic = np.zeros(impacts)
        self.work = np.zeros((impacts, 7))

    def _room(self, pairs: int, contacts: int) -> Room:
        room = room_of(self.grains, pairs, contacts)
        room.factor[:] = np.eye(6)  # of the planes; that of others is written in each step
        return room

    def settle(self) -> None:
        """Let the scene come to rest, and refuse one that overlaps from the start."""
        self.wall.rest[:] = self.state.x[:, 1]
        self._advance(1)
        deepest, size = self.signals.overlap[0], self.laws.touch / TOUCH
        if deepest > DEEPEST * size:
            raise SimulationError(
                f"grains overlap by {1e3 * deepest:.3g} mm at the start, more than {DEEPEST:g} of their size of "
                f"{1e3 * size:.3g} mm: leave a larger gap between them"
            )
        self._advance(self.settled - 1)
        self.wall.rest[:], self.wall.deep[:] = self.state.x[:, 1], 0.0
        self.settled_at = self.state.x[1 : self.wall.moving].copy()

    def strike(self, number: int, place: Array, velocity: Array) -> None:
        """Start the ball for one impact and take its steps."""
        state, moving = self.state, slice(0, self.wall.moving)
        if number == 0:
            self._look_at_rest(velocity)
        state.x[0], state.v[0, :3], state.v[0, 3:] = place, velocity, 0.0
        mass, v = self.grains.mass[moving], state.v[moving]
        self.starts[number] = place, velocity
        self.momentum[number] = (mass * v)[:, :3].sum(axis=0)
        self.kinetic[number] = 0.5 * (mass * v**2).sum()
        self.work[number] = self.wall.work
        self._advance(self.each)

    def _look_at_rest(self, velocity: Array) -> None:
        """Say so where grains have not come to rest before the first ball."""
        grains = slice(1, self.wall.moving)
        kinetic = 0.5 * float((self.grains.mass[grains] * self.state.v[grains] ** 2).sum())
        ball = 0.5 * float(self.grains.mass[0, 0] * (velocity**2).sum())
        if ball > 0.0 and kinetic > MOVING * ball:
            warnings.warn(
                f"the grains are not at rest when the ball comes: they have {kinetic:.3g} J, it has {ball:.3g} J; let "
                f"them settle for longer than {self.laws.dt * self.settled:.3g} s",
                TamisWarning,
                stacklevel=4,
            )

    def _advance(self, steps: int) -> None:
        laws, last = self.laws, self.done + steps
        while self.done < last:
            status, self.done, need = struck.strike(
                self.grains, self.wall, self.state, self.room, self.signals, (laws.k_n, laws.k_t, laws.mu),
                laws.gravity, laws.k_net, laws.sand, laws.dt, laws.touch, laws.tolerance, laws.sweeps, self.done, last,
            )  # fmt: skip
            if status == kernels.NOT_FINITE:
                raise SimulationError(
                    f"the motion is no longer finite after {self.done * laws.dt:g} s; forces or masses are out of "
                    "proportion"
                )
            if status in (kernels.MORE_PAIRS, kernels.MORE_CONTACTS):
                more = status == kernels.MORE_CONTACTS
                contacts = 2 * need if more else len(self.room.found.gap)
                self.room = self._room(len(self.room.pairs) if more else 2 * need, contacts)
                self.state = grown(self.state, contacts)

    def warn(self) -> None:
        """Say so where jumps are not solved, and where the step is too long for the impact."""
        residual, laws = self.signals.residual, self.laws
        slow = np.flatnonzero(residual > laws.tolerance)
        found, nets = [], len(self.wall.box) > 0
        remedy = "allow more sweeps"
        if nets:
            remedy += f", take a smaller step than {laws.dt:g} s (dt) or softer nets than {laws.k_net:g} N/m3 (k_net)"
        if slow.size:
            found.append(
                f"the jump was not solved to {laws.tolerance:g} in {slow.size} of {len(residual)} steps; the "
                f"largest residual is {residual.max():.2g}: {remedy}"
            )
        uneven = self.imbalance() if nets else np.zeros(1)
        if uneven.max() > UNEVEN:
            found.append(
                f"the forces of nets do not balance: in a step of an impact they gave up to {uneven.max():.2g} of the "
                f"ball's momentum to the grains, {uneven.sum():.2g} this way and that in all steps: {remedy}"
            )
        deepest, size = float(self.signals.overlap[self.settled :].max()), laws.touch / TOUCH
        if deepest > DEEPEST * size:
            found.append(
                f"bodies overlap by up to {1e3 * deepest:.3g} mm in an impact, more than {DEEPEST:g} of the size "
                f"of a grain, {1e3 * size:.3g} mm: take a smaller step than {laws.dt:g} s (dt)"
            )
        for text in found:
            warnings.warn(text, TamisWarning, stacklevel=3)

    def corners(self) -> Array:
        """Return where all corners of the grains are."""
        places = zip(self.state.x[1:], matrices(self.state.q[1:]), self.shapes, strict=False)
        return np.concatenate([at + np.asarray(shape.points) @ R.T for at, R, shape in places])

    def rates(self) -> Array:
        """Return (steps of the impacts, followed, 3): changes of velocity in the jumps over the step."""
        v, begin = self.signals.v[self.settled - 1 :], self.each * np.arange(len(self.starts))
        change = np.diff(v, axis=0)
        change[begin, 0] = v[1 + begin, 0] - self.starts[:, 1]
        return np.asarray(change / self.laws.dt)

    def way(self) -> Array:
        """Return (steps of the impacts, 3): how far the ball has gone since its start."""
        each = self.signals.ball[self.settled :].reshape(len(self.starts), self.each, 3)
        return np.asarray((each - self.starts[:, :1]).reshape(-1, 3))

    def closure(self) -> float:
        """Return the largest gap between kinetic energy and the works that make it, over the largest entry."""
        books = self.signals.books[self.settled :].reshape(len(self.starts), self.each, -1)
        signs = np.array([1.0] * 3 + [-1.0] * 4)
        since = (books[:, :, struck.BY_WEIGHT :] - self.work[:, None]) @ signs
        gap = books[:, :, struck.KINETIC] - self.kinetic[:, None] - since
        return float(
            np.abs(gap).max() / np.abs(books[:, :, [struck.KINETIC, *range(struck.BY_WEIGHT, 11)]]).max()
        )

    def imbalance(self) -> Array:
        """Return (steps of the impacts,): what is left of the nets' balance in a jump, over the ball's momentum."""
        given = self.signals.momentum[self.settled :, struck.FROM_NET]
        return np.asarray(np.linalg.norm(given, axis=1) / np.abs(self.momentum).max())

    def momentum_closure(self) -> float:
        """Return the largest gap between the change of momentum and the impulses in a step, over that of the ball.

        What is left of the nets' balance (`imbalance`) counts as an impulse, so that a bad balance shows no gap here.
        """
        momentum = self.signals.momentum[self.settled :].reshape(len(self.starts), self.each, 5, 3)
        was = np.concatenate([self.momentum[:, None], momentum[:, :-1, struck.MOMENTUM]], axis=1)
        gap = momentum[:, :, struck.MOMENTUM] - was - momentum[:, :, struck.FROM_WEIGHT :].sum(axis=2)
        return float(np.abs(gap).max() / np.abs(self.momentum).max())


def stand(corners: Array, at: Array, way: int, sign: float, radius: float) -> Array:
    """Return where a ball stands clear of all corners before it, coming along an axis by a sign."""
    across = [k for k in range(3) if k != way]
    beside = np.linalg.norm(corners[:, across] - at[across], axis=1)
    near = beside < radius
    if not near.any():
        raise SimulationError("the ball would meet no grain: it strikes beside them")
    found = at.copy()
    depth = sign * corners[near, way] - np.sqrt(radius**2 - beside[near] ** 2)
    found[way] = sign * (depth.min() - CLEAR * 2.0 * radius)
    return found
