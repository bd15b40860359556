from __future__ import annotations

import numpy as np
import pytest

from tamis.sim.common import geometry as g
from tamis.sim.common.broad import LONG, sweep
from tamis.sim.common.shapes import Box, Contactor, HalfSpace, Sphere, geometry_of
from tests.sim.common.compiled import find_pairs, place

MARGIN = 0.1


class Scene:
    """Contactors at random places, many of them small, a few large, some half-spaces."""

    def __init__(self, n: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        bodies = max(1, 2 * n // 3)
        contactors = []
        for k in range(n):
            if k % 23 == 3:
                shape = HalfSpace()
            elif k % 2:
                shape = Box(tuple(rng.uniform(0.1, 10.0 if k % 50 == 1 else 1.0, 3)))
            else:
                shape = Sphere(rng.uniform(0.1, 0.5))
            at = tuple(rng.uniform(-0.1, 0.1, 3))
            contactors.append(Contactor(shape, int(rng.integers(bodies)), int(rng.integers(3)), at))
        self.geometry = geometry_of(contactors)
        self.world = g.world(self.geometry)
        self.x = rng.uniform(0.0, 1.2 * max(1, n) ** (1 / 3), (bodies, 3))
        self.q = rng.standard_normal((bodies, 4))
        self.q /= np.linalg.norm(self.q, axis=1)[:, None]
        self.meet = rng.random((3, 3)) < 0.7
        self.meet |= self.meet.T
        self.moves = rng.random(bodies) < 0.8
        self.place()

    def place(self) -> None:
        place(self.x, self.q, self.geometry, self.world)

    def found(self, work=None, room: int = 20_000) -> list[tuple[int, int]]:
        pairs = np.full((room, 2), -1)
        work = work or sweep(len(self.geometry.kind))
        n = find_pairs(self.geometry, self.world, self.meet, self.moves, MARGIN, pairs, work)
        assert n <= room
        return [(int(i), int(j)) for i, j in pairs[:n]]

    def expected(self) -> list[tuple[int, int]]:
        """All pairs by the definition, one at a time."""
        s, w, n = self.geometry, self.world, len(self.geometry.kind)
        found = []
        for i in range(n):
            for j in range(i + 1, n):
                a, b = s.body[i], s.body[j]
                if a == b or not self.meet[s.group[i], s.group[j]] or not (self.moves[a] or self.moves[b]):
                    continue
                planes = [k for k in (i, j) if s.kind[k] == g.HALFSPACE]
                if len(planes) == 2:
                    continue
                if planes:
                    k, o = planes[0], i + j - planes[0]
                    up = w.axes[k][:, 2]
                    corners = np.array(np.meshgrid(*zip(w.low[o], w.high[o], strict=True))).reshape(3, -1)
                    near = (up @ corners).min() - up @ w.centre[k] <= MARGIN
                else:
                    near = max((w.low[i] - w.high[j]).max(), (w.low[j] - w.high[i]).max()) <= MARGIN
                if near:
                    found.append((i, j))
        return found


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 16, 17, 65, 130])
def test_pairs_are_those_of_the_definition_in_order(n: int) -> None:
    for seed in range(2):
        scene = Scene(n, seed)
        assert scene.found() == scene.expected()


def test_scene_has_pairs_of_all_sorts() -> None:
    scene = Scene(130)
    kinds = {
        tuple(sorted((int(scene.geometry.kind[i]), int(scene.geometry.kind[j])))) for i, j in scene.found()
    }
    assert kinds == {(0, 0), (0, 1), (1, 1), (0, 5), (1, 5)}
    assert not scene.meet.all() and not scene.moves.all()


def test_history_does_not_matter() -> None:
    scene = Scene(200)
    work = sweep(200)
    first = scene.found(work)
    x = scene.x.copy()
    scene.x += np.random.default_rng(1).standard_normal(x.shape)
    scene.place()
    assert scene.found(work) == scene.expected() != first
    scene.x = x
    scene.place()
    assert scene.found(work) == first


def test_long_row_is_sorted() -> None:
    """A slab under grains numbered at random: one row with a partner each."""
    n = 10 * LONG
    x = np.zeros((n + 1, 3))
    x[1:, 0] = np.random.default_rng(0).permutation(n)
    x[1:, 2] = 1.0
    shapes = [Box((4.0 * n, 1.0, 1.0)), *[Sphere(0.45)] * n]
    geometry = geometry_of([Contactor(shape, k, 0) for k, shape in enumerate(shapes)])
    world = g.world(geometry)
    place(x, np.tile([1.0, 0.0, 0.0, 0.0], (n + 1, 1)), geometry, world)
    pairs = np.zeros((2 * n, 2), dtype=np.int64)
    meet, moves = np.ones((1, 1), dtype=bool), np.ones(n + 1, dtype=bool)
    assert find_pairs(geometry, world, meet, moves, 0.06, pairs, sweep(n + 1)) == n
    assert (pairs[:n] == [(0, k + 1) for k in range(n)]).all()


def test_pairs_beyond_the_room_are_counted_not_written() -> None:
    scene = Scene(100)
    whole = scene.expected()
    room = len(whole) // 2
    pairs = np.full((room + 1, 2), -1)
    work = sweep(100)
    n = find_pairs(scene.geometry, scene.world, scene.meet, scene.moves, MARGIN, pairs[:room], work)
    assert n == len(whole)
    assert (pairs[room] == -1).all() and {tuple(pair) for pair in pairs[:room]} <= set(whole)


def test_body_that_is_nowhere_meets_none_and_hides_none() -> None:
    scene = Scene(100)
    lost = int(scene.geometry.body[7])
    scene.x[lost] = np.nan
    scene.place()
    gone = {k for k in range(100) if scene.geometry.body[k] == lost}
    planes = {k for k in range(100) if scene.geometry.kind[k] == g.HALFSPACE}
    found = [pair for pair in scene.found() if not planes & set(pair)]
    assert not any(gone & set(pair) for pair in found)
    scene.x[lost] = 1e6
    scene.place()
    assert found == [pair for pair in scene.expected() if not planes & set(pair)]
