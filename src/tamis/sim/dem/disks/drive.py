"""Disks under way: from a scene to arrays, steps taken, what is asked of them between, what is kept on disk."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tamis.errors import SimulationError, StudyError
from tamis.sim.dem.disks import cells, kernels
from tamis.sim.dem.disks.cells import Grains, Lists, Room
from tamis.sim.dem.disks.kernels import Block, Laws, Walls
from tamis.sim.dem.disks.scene import Scene, Sine
from tamis.types import Array

SKIN = 0.3  # of the least radius twice: in a dense plane the next shell of neighbours begins at 1.4 diameters
_TOUCH = 1e-9  # overlap over distance: more than that at the start is a mistake, not round-off
_CELLS = 4  # a grain, at most


class Disks:
    """A scene that is under way: advance it, look at it, change it between, keep it on disk.

    Grains have the numbers that the scene gave them, whatever the order in which the arrays hold them.
    """

    def __init__(self, scene: Scene) -> None:
        scene.check()
        self.scene, self.h, self.step = scene, scene.time_step(), 0
        n, kinds = len(scene.places), (*scene.kinds, scene.wall)
        radii = scene.radii
        self.skin = SKIN * 2 * float(radii.min())
        self._size = 2 * float(radii.max()) + self.skin
        self._scheme = kernels.GEAR if scene.scheme == "gear" else kernels.LEAPFROG
        state = np.zeros((n, cells.WIDTH))
        state[:, cells.X], state[:, cells.Y] = np.asarray(scene.places, dtype=np.float64).T
        state[:, cells.R] = radii
        if scene.velocities is not None:
            state[:, cells.VX : cells.W + 1] = scene.velocities
        self._grains = Grains(
            state.ravel(),
            np.zeros(6 * n if self._scheme == kernels.GEAR else 0),
            np.asarray(scene.kind, dtype=np.int32).copy(),
            np.arange(n, dtype=np.int32),
            np.array([n], dtype=np.int64),
        )
        self._force = np.zeros(4 * n)
        self._block = Block(
            np.ones(14 * kernels.B),
            np.zeros(2 * kernels.B, dtype=np.uint32),
            np.zeros(kernels.B, dtype=np.uint32),
        )
        self._laws = Laws(
            scene.law.table(kinds),
            np.array([kind.inverses() for kind in kinds]).ravel(),
            float(scene.law.alpha),
            scene.law.number,
        )
        corners = np.array([(*wall.start, *wall.end) for wall in scene.walls], dtype=np.float64).reshape(-1)
        self._walls = Walls(
            corners,
            np.full(len(scene.walls), len(kinds) - 1, dtype=np.int32),
            np.array([wall.shut for wall in scene.walls], dtype=np.bool_),
            _motion(scene.centre, scene.motion),
            np.zeros_like(corners),
            np.zeros(2 * len(scene.walls)),
        )
        self._gravity = np.array(scene.gravity, dtype=np.float64)
        self._domain = np.array(scene.domain, dtype=np.float64)
        self._gauges = np.array([math.inf, 1.0, 0.0])
        self._lists = _lists(n, 8 * n + 64, 4 * n + 64)
        self._room = self._scratch()
        self._begin()

    def _scratch(self) -> Room:
        grains, lists = self._grains, self._lists
        n = len(grains.ident)
        return Room(
            np.empty_like(grains.state),
            np.empty_like(grains.past),
            np.empty_like(grains.kind),
            np.empty_like(grains.ident),
            _lists(n, len(lists.other), len(lists.grain)),
            np.empty(n, dtype=np.int64),
            np.empty(_CELLS * n + 64, dtype=np.int64),
            np.empty(n, dtype=np.uint32),
            np.empty(n, dtype=np.int32),
        )

    def _begin(self) -> None:
        """Look for overlaps, then give the scheme the velocities or accelerations that it begins with."""
        self.renew()
        force = self.forces()
        if self._gauges[kernels.LEAST] < 1.0 - _TOUCH:
            raise StudyError(self._overlap())
        inverse = self._laws.inverse.reshape(-1, 3)[self._grains.kind]
        gravity = np.array([*self.scene.gravity, 0.0])
        acceleration = force * inverse[:, [0, 0, 1]] + gravity * inverse[:, 2:]
        if self._scheme == kernels.LEAPFROG:
            self._rows[:, cells.VX : cells.W + 1] -= 0.5 * self.h * acceleration
        else:
            self._grains.past.reshape(-1, 6)[:, :3] = acceleration

    @property
    def t(self) -> float:
        """Time since the start, in s."""
        return self.step * self.h

    @property
    def _rows(self) -> Array:
        return self._grains.state.reshape(-1, cells.WIDTH)

    @property
    def here(self) -> Array:
        """Numbers of the grains that are still in the domain, increasing."""
        return np.sort(self._grains.ident[: self._grains.present[0]])

    @property
    def particle_steps(self) -> float:
        """Steps of grains taken so far."""
        return float(self._gauges[kernels.STEPS])

    @property
    def deepest(self) -> float:
        """Deepest overlap so far, over the distance at which the two would just touch."""
        return float(1.0 - self._gauges[kernels.LEAST])

    def column(self, name: int) -> Array:
        """Return one column of the state by the grains' numbers: `cells.X`, `cells.VX`, ..."""
        return self.by_number(self._rows[:, name])

    def by_number(self, rows: Array) -> Array:
        """Return what comes in the order of the arrays by the grains' numbers."""
        values = np.empty_like(rows)
        values[self._grains.ident] = rows
        return values

    def places(self) -> Array:
        """Return (n, 2), by the grains' numbers."""
        return np.stack([self.column(cells.X), self.column(cells.Y)], axis=1)

    def velocities(self) -> Array:
        """Return (n, 3), velocity and spin by the grains' numbers; half a step behind with the leapfrog scheme."""
        return np.stack([self.column(name) for name in (cells.VX, cells.VY, cells.W)], axis=1)

    def put(self, grain: int, place: tuple[float, float], velocity: tuple[float, float, float]) -> None:
        """Put a grain elsewhere; also one that had left. Call `renew` when all are put."""
        grains = self._grains
        row = int(np.flatnonzero(grains.ident == grain)[0])
        count = int(grains.present[0])
        if row >= count:  # back among those that are there
            for array, width in (
                (grains.state, cells.WIDTH),
                (grains.past, 6),
                (grains.kind, 1),
                (grains.ident, 1),
            ):
                rows = array.reshape(-1, width)
                if len(rows):
                    rows[[row, count]] = rows[[count, row]]
            row, grains.present[0] = count, count + 1
            self._lists.first[count + 1] = self._lists.first[count]  # it comes without contacts
        self._rows[row, [cells.X, cells.Y, cells.VX, cells.VY, cells.W]] = *place, *velocity
        grains.past[6 * row : 6 * row + 6] = 0.0

    @property
    def shut(self) -> list[bool]:
        """Which walls are there."""
        return [bool(shut) for shut in self._walls.shut]

    def container(self) -> tuple[float, float, float]:
        """Return centre and angle of the container."""
        x, y, angle, *_ = kernels.pose(self._walls.motion, self.t)
        return x, y, angle

    def shake(self, motion: tuple[Sine, Sine, Sine]) -> None:
        """Let the container move from now on, time zero, and the grains with it as if they were part of it."""
        self.step = 0
        self._walls = self._walls._replace(motion=_motion(self.scene.centre, motion))
        x, y, _, vx, vy, w = kernels.pose(self._walls.motion, 0.0)
        rows = self._rows
        rows[:, cells.VX] += vx - w * (rows[:, cells.Y] - y)
        rows[:, cells.VY] += vy + w * (rows[:, cells.X] - x)
        rows[:, cells.W] += w

    def open(self, wall: int, shut: bool = False) -> None:
        """Take a wall away, or put it back."""
        self._walls.shut[wall] = shut
        self.renew()

    def renew(self) -> None:
        """List anew who is near, after grains were put elsewhere."""
        while True:
            status = kernels.renew(
                self._grains,
                self._lists,
                self._room,
                self._walls,
                self._gauges,
                self._domain,
                self._size,
                self.skin,
                self.t,
            )
            if status == cells.DONE:
                return
            self._answer(status)

    def advance(self, steps: int, drag: float = 0.0) -> None:
        """Take so many steps; ``drag`` slows everything down at that rate, in 1/s, to let grains come to rest."""
        if not 0.0 <= drag * self.h < 1.0:
            raise StudyError(f"a drag must be from 0 to below 1/{self.h:.3g} s, one step, found {drag:g}/s")
        stop = self.step + steps
        while self.step < stop:
            status, self.step = kernels.advance(
                self._grains,
                self._force,
                self._lists,
                self._room,
                self._laws,
                self._block,
                self._walls,
                self._gauges,
                self._gravity,
                self._domain,
                self._size,
                self.skin,
                drag,
                self._scheme,
                self.h,
                self.step,
                stop,
            )
            if status != cells.DONE:
                self._answer(status)
        if not np.isfinite(self._grains.state).all():
            self._answer(cells.NOT_FINITE)

    def _answer(self, status: int) -> None:
        """Make the lists roomier, or say that the motion has gone astray."""
        if status == cells.NOT_FINITE:
            raise SimulationError(
                f"the motion is no longer finite after t = {self.t:g} s; forces or masses are out of proportion"
            )
        pairs, touches = len(self._lists.other), len(self._lists.grain)
        larger = _lists(
            len(self._grains.ident),
            2 * pairs if status == cells.MORE_PAIRS else pairs,
            2 * touches if status == cells.MORE_TOUCHES else touches,
        )
        for name, old in self._lists._asdict().items():
            getattr(larger, name)[: len(old)] = old
        self._lists = larger
        self._room = self._scratch()

    def forces(self) -> Array:
        """Return (n, 3), forces and torques of contacts now, in the order of the arrays; nothing else changes."""
        kept = [self._lists.slip.copy(), self._lists.wall_slip.copy()]
        kernels.measure(
            self._grains,
            self._force,
            self._lists,
            self._laws,
            self._block,
            self._walls,
            self._gauges,
            self.t,
            0.5 * self.h if self._scheme == kernels.GEAR else 0.0,
        )
        force = self._force.reshape(-1, 4)[:, :3].copy()
        self._force[:] = 0.0
        self._lists.slip[:], self._lists.wall_slip[:] = kept
        return force

    def loads(self) -> Array:
        """Return (walls, 2): the force of the grains on each wall now."""
        self.forces()
        return self._walls.load.reshape(-1, 2).copy()

    def contacts(self, margin: float = 0.0) -> tuple[Array, Array, Array]:
        """Return pairs of grains that touch (m, 2), by their numbers, their overlaps and tangential stretches.

        With Gear's scheme stretches are those of half a step later.
        With a margin also those that are so near, if they were within the skin when lists were made: surely up to a
        tenth of the skin, or where grains hardly move.
        """
        grains, lists = self._grains, self._lists
        n = int(grains.present[0])
        m = int(lists.first[n])
        a = np.repeat(np.arange(n), np.diff(lists.first[: n + 1]))
        b = lists.other[:m].astype(np.int64)
        rows = self._rows
        gap = np.hypot(*(rows[b, :2] - rows[a, :2]).T) - rows[a, cells.R] - rows[b, cells.R]
        touching = gap < margin
        pairs = np.stack([grains.ident[a], grains.ident[b]], axis=1)[touching]
        return pairs, -gap[touching], lists.slip[:m][touching]

    def _overlap(self) -> str:
        pairs, depths, _ = self.contacts()
        if len(depths) and depths.max() > _TOUCH * self._rows[:, cells.R].min():
            a, b = pairs[np.argmax(depths)]
            return f"grains {a} and {b} overlap by {depths.max():.3g} m at the start; place them apart"
        return (
            f"a grain overlaps a wall by {self.deepest:.3g} of its radius at the start; place it apart or enlarge "
            "the container"
        )

    def arrays(self) -> dict[str, Any]:
        """Return all that it takes to go on, bit for bit, for a file."""
        walls = self._walls
        kept = {
            "step": np.array(self.step),
            "gauges": self._gauges,
            "shut": walls.shut,
            "motion": walls.motion,
        }
        for name, part in (("grains", self._grains), ("lists", self._lists)):
            kept |= {f"{name}.{field}": array for field, array in part._asdict().items()}
        return kept

    def restore(self, arrays: dict[str, Any]) -> None:
        """Go on from what `arrays` returned."""
        self.step = int(arrays["step"])
        self._gauges = arrays["gauges"]
        self._walls = self._walls._replace(shut=arrays["shut"], motion=arrays["motion"])
        self._grains = Grains(*(arrays[f"grains.{field}"] for field in Grains._fields))
        self._lists = Lists(*(arrays[f"lists.{field}"] for field in Lists._fields))
        self._room = self._scratch()


def _motion(centre: tuple[float, float], motion: tuple[Sine, Sine, Sine]) -> Array:
    sines = [(sine.rate, sine.amplitude, sine.frequency, sine.phase) for sine in motion]
    return np.array([*centre, *sum(sines, ())], dtype=np.float64)


def _lists(n: int, pairs: int, touches: int) -> Lists:
    return Lists(
        np.zeros(n + 1, dtype=np.int32),
        np.zeros(pairs, dtype=np.uint32),
        np.zeros(pairs),
        np.zeros(1, dtype=np.int64),
        np.zeros(touches, dtype=np.uint32),
        np.zeros(touches, dtype=np.int32),
        np.zeros(touches),
    )
