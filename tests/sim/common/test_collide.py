from __future__ import annotations

import itertools

import numpy as np
import pytest

from tamis.sim.common import geometry as g
from tamis.sim.common.broad import sweep
from tamis.sim.common.collide import narrow
from tamis.sim.common.shapes import (
    Box,
    Capsule,
    Contactor,
    Convex,
    Cylinder,
    HalfSpace,
    Ring,
    Sphere,
    geometry_of,
)
from tests.sim.common.compiled import collide, find_pairs, place

MARGIN = 2e-3
CUBE_POINTS = tuple(itertools.product((-0.5, 0.5), repeat=3))
ONE_HIGH = [Sphere(0.5), Box((0.9, 0.8, 1.0)), Cylinder(0.4, 1.0), Capsule(0.3, 0.4), Convex(CUBE_POINTS)]


def detect(contactors: list[Contactor], x: np.ndarray, room: int = 1000) -> tuple[int, int, g.Manifolds]:
    """All three stages, upright bodies."""
    geometry = geometry_of(contactors)
    world = g.world(geometry)
    place(x, np.tile([1.0, 0.0, 0.0, 0.0], (len(x), 1)), geometry, world)
    pairs, out = np.zeros((room, 2), dtype=np.int64), g.manifolds(room)
    meet, moves = np.ones((2, 2), dtype=bool), np.ones(len(x), dtype=bool)
    n_pairs = find_pairs(geometry, world, meet, moves, MARGIN, pairs, sweep(len(contactors)))
    return n_pairs, collide(pairs, n_pairs, geometry, world, MARGIN, out, narrow(geometry, world, out)), out


@pytest.mark.parametrize("lower", ONE_HIGH, ids=lambda shape: type(shape).__name__)
@pytest.mark.parametrize("upper", ONE_HIGH, ids=lambda shape: type(shape).__name__)
def test_one_on_top_of_another(lower, upper) -> None:
    """Whatever the shapes, the gap is the distance of the middles less one; the lower kind is a, the order is kept."""
    n_pairs, n, out = detect(
        [Contactor(lower, 0, 0), Contactor(upper, 1, 0)], np.array([[0, 0, 0], [0, 0, 1.001]])
    )
    assert n_pairs == 1 and n >= 1
    swapped = ONE_HIGH.index(lower) > ONE_HIGH.index(upper)
    assert (out.a[:n] == (1 if swapped else 0)).all() and (out.b[:n] == (0 if swapped else 1)).all()
    np.testing.assert_allclose(
        out.gap[:n], 0.001, atol=1e-9
    )  # 1e-9: an iteration may stand behind a cylinder
    np.testing.assert_allclose(out.normal[:n], [[0, 0, -1 if swapped else 1]] * n, atol=1e-9)
    np.testing.assert_allclose(out.point[:n, 2], 0.5005, atol=1e-9)
    assert len(set(out.feature[:n].tolist())) == n


@pytest.mark.parametrize("shape", ONE_HIGH, ids=lambda shape: type(shape).__name__)
def test_on_the_ground(shape) -> None:
    _, n, out = detect(
        [Contactor(HalfSpace(), 0, 0), Contactor(shape, 1, 0)], np.array([[0, 0, 0], [0, 0, 0.499]])
    )
    assert n >= 1 and (out.a[:n] == 1).all() and (out.b[:n] == 0).all()
    np.testing.assert_allclose(out.gap[:n], -0.001, atol=1e-15)
    np.testing.assert_allclose(out.normal[:n], [[0, 0, -1]] * n, atol=1e-15)


def test_planes_and_rings_do_not_touch_each_other() -> None:
    """Nor does a ring touch what is not a bar."""
    shapes = [HalfSpace(), HalfSpace(), Ring(0.4), Ring(0.4), Sphere(0.3), Box((0.5, 0.5, 0.5))]
    pairs = np.array(
        [(i, j) for i, j in itertools.combinations(range(6), 2) if (i, j) != (4, 5) and not (i < 2 < 4 <= j)]
    )
    geometry = geometry_of([Contactor(shape, k, 0) for k, shape in enumerate(shapes)])
    world = g.world(geometry)
    place(np.zeros((6, 3)), np.tile([1.0, 0.0, 0.0, 0.0], (6, 1)), geometry, world)
    out = g.manifolds(10)
    assert collide(pairs, len(pairs), geometry, world, MARGIN, out, narrow(geometry, world, out)) == 0


def wall() -> tuple[list[Contactor], np.ndarray]:
    """Four rows in running bond with joints of 5 mm, on the ground: 42 blocks."""
    block, half, pitch = Box((1.56, 0.76, 0.8)), Box((0.78, 0.76, 0.8)), 1.565
    contactors, x = [Contactor(HalfSpace(), 0, 1)], [(0.0, 0.0, 0.0)]
    for row in range(4):
        places = [(block, (k - 4.5) * pitch) for k in range(10)]
        if row % 2:
            ends = 4.5 * pitch + 0.39
            places = [(half, -ends), *((block, (k - 4) * pitch) for k in range(9)), (half, ends)]
        for shape, along in places:
            contactors.append(Contactor(shape, len(x), 0))
            x.append((along, 0.0, 0.4 + 0.8 * row))
    return contactors, np.array(x)


def test_dry_wall() -> None:
    """Four points on each bed joint, four under each block of the lowest row; head joints are open."""
    contactors, x = wall()
    _, n, out = detect(contactors, x)
    # between two rows nine whole blocks rest on two blocks each and two halves on one: 20 bed joints
    assert n == 4 * (3 * 20 + 10)
    assert abs(out.gap[:n]).max() < 1e-15
    assert (np.abs(out.normal[:n, 2]) == 1.0).all()
    keys = list(zip(out.a[:n].tolist(), out.b[:n].tolist(), out.feature[:n].tolist(), strict=True))
    assert len(set(keys)) == n
    _, again, other = detect(contactors, x)
    assert again == n and all((p == q).all() for p, q in zip(out, other, strict=True))


def test_contacts_beyond_the_room_are_counted() -> None:
    contactors, x = wall()
    _, n, out = detect(contactors, x)
    geometry = geometry_of(contactors)
    world = g.world(geometry)
    place(x, np.tile([1.0, 0.0, 0.0, 0.0], (len(x), 1)), geometry, world)
    pairs = np.unique(np.sort(np.column_stack([out.a[:n], out.b[:n]]), axis=1), axis=0)
    some = g.manifolds(50)
    assert collide(pairs, len(pairs), geometry, world, MARGIN, some, narrow(geometry, world, some)) == n
    assert (some.feature == out.feature[:50]).all()
