from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

from tamis.sim.common import geometry as g
from tamis.sim.common.planes import planes
from tamis.sim.common.shapes import Box, Capsule, Contactor, Convex, Cylinder, HalfSpace, Sphere, geometry_of

UPRIGHT = (1.0, 0.0, 0.0, 0.0)


class Pose(NamedTuple):
    """Where a shape is."""

    x: np.ndarray
    q: np.ndarray


class Found(NamedTuple):
    """The contacts of one pair."""

    feature: np.ndarray
    point: np.ndarray
    normal: np.ndarray
    gap: np.ndarray


def pose(x=(0.0, 0.0, 0.0), q=UPRIGHT) -> Pose:
    return Pose(np.array(x, dtype=float), np.array(q, dtype=float) / np.linalg.norm(q))


def about(axis, angle) -> np.ndarray:
    """The quaternion of a turn about an axis."""
    axis = np.array(axis, dtype=float) / np.linalg.norm(axis)
    return np.array([math.cos(angle / 2), *(math.sin(angle / 2) * axis)])


def product(p, q) -> np.ndarray:
    v = p[0] * q[1:] + q[0] * p[1:] + np.cross(p[1:], q[1:])
    return np.array([p[0] * q[0] - p[1:] @ q[1:], *v])


def rotation(q) -> np.ndarray:
    w, v = q[0], q[1:]
    hat = np.cross(np.eye(3), v)
    return np.eye(3) + 2.0 * w * hat + 2.0 * hat @ hat


def moved(at: Pose, by: Pose) -> Pose:
    """The pose after everything has been moved."""
    return Pose(rotation(by.q) @ at.x + by.x, product(by.q, at.q))


def random_pose(rng, spread=1.0) -> Pose:
    return pose(rng.standard_normal(3) * spread, rng.standard_normal(4))


def meet(function, shapes, poses, margin=0.05, capacity=64, swap=False) -> Found:
    """Place two shapes and let one narrow-phase function look at them, the contactors in the given order."""
    geometry = geometry_of([Contactor(shape, body, 0) for body, shape in enumerate(shapes)])
    world, out = g.world(geometry), g.manifolds(capacity)
    g.place(np.array([p.x for p in poses]), np.array([p.q for p in poses]), geometry, world)
    i, j = (1, 0) if swap or geometry.kind[0] > geometry.kind[1] else (0, 1)
    n = function(i, j, geometry, world, margin, out, 0)
    assert n <= capacity and (out.a[:n] == i).all() and (out.b[:n] == j).all()
    assert len(set(out.feature[:n])) == n and (out.feature[:n] >= 0).all() and (out.gap[:n] <= margin).all()
    assert np.allclose(np.linalg.norm(out.normal[:n], axis=1), 1.0, atol=1e-14)
    order = np.argsort(out.feature[:n])
    return Found(*(array[:n][order] for array in (out.feature, out.point, out.normal, out.gap)))


def same_when_moved(function, shapes, poses, by: Pose, margin=0.05, tolerance=1e-12) -> None:
    """Check that contacts turn with everything."""
    here = meet(function, shapes, poses, margin)
    there = meet(function, shapes, [moved(p, by) for p in poses], margin)
    turn = rotation(by.q)
    np.testing.assert_array_equal(there.feature, here.feature)
    np.testing.assert_allclose(there.gap, here.gap, atol=tolerance)
    np.testing.assert_allclose(there.normal, here.normal @ turn.T, atol=tolerance)
    np.testing.assert_allclose(there.point, here.point @ turn.T + by.x, atol=tolerance)


GROUND = pose()


def test_sphere_above_and_below():
    for height in (1.04, 1.0, 0.5, -3.0):
        found = meet(planes, [Sphere(1.0), HalfSpace()], [pose((2.0, 3.0, height)), GROUND])
        np.testing.assert_allclose(found.gap, [height - 1.0], rtol=1e-15)
        np.testing.assert_array_equal(found.normal, [[0, 0, -1]])
        np.testing.assert_allclose(found.point, [[2.0, 3.0, (height - 1.0) / 2]], atol=1e-15)
    assert len(meet(planes, [Sphere(1.0), HalfSpace()], [pose((0, 0, 1.06)), GROUND]).gap) == 0


def test_box_touches_with_the_corners_within_the_margin():
    box = Box((2.0, 4.0, 1.0))
    flat = meet(planes, [box, HalfSpace()], [pose((0, 0, 0.5)), GROUND])
    assert flat.feature.tolist() == [0, 1, 2, 3] and (flat.gap == 0.0).all()
    np.testing.assert_array_equal(flat.point, [[-1, -2, 0], [1, -2, 0], [-1, 2, 0], [1, 2, 0]])
    lean = meet(planes, [box, HalfSpace()], [pose((0, 0, 0.6), about((0, 1, 0), 0.1)), GROUND])
    low = 0.6 - 0.5 * math.cos(0.1) - math.sin(0.1)
    assert lean.feature.tolist() == [1, 3]
    np.testing.assert_allclose(lean.gap, [low, low], atol=1e-15)


def test_capsule_touches_under_both_ends():
    capsule = Capsule(0.5, 2.0)
    lying = meet(planes, [capsule, HalfSpace()], [pose((0, 0, 0.49), about((0, 1, 0), math.pi / 2)), GROUND])
    np.testing.assert_allclose(lying.gap, [-0.01, -0.01], atol=1e-15)
    np.testing.assert_allclose(lying.point, [[-1, 0, -0.005], [1, 0, -0.005]], atol=1e-15)
    standing = meet(planes, [capsule, HalfSpace()], [pose((0, 0, 1.5)), GROUND])
    assert standing.feature.tolist() == [0] and standing.gap.tolist() == [0.0]


def test_standing_cylinder_rests_on_four_points_of_its_own():
    cylinder = Cylinder(0.5, 2.0)
    for angle in (0.0, 0.3, 1.0):
        turn = about((0, 0, 1), angle)
        found = meet(planes, [cylinder, HalfSpace()], [pose((0, 0, 0.99), turn), GROUND])
        assert found.feature.tolist() == [0, 1, 2, 3]
        np.testing.assert_allclose(found.gap, -0.01, atol=1e-15)
        c, s = 0.5 * math.cos(angle), 0.5 * math.sin(angle)
        expected = [[c, s, -0.005], [-s, c, -0.005], [-c, -s, -0.005], [s, -c, -0.005]]
        np.testing.assert_allclose(found.point, expected, atol=1e-15)
    upside = meet(planes, [cylinder, HalfSpace()], [pose((0, 0, 1.0), about((1, 0, 0), math.pi)), GROUND])
    assert upside.feature.tolist() == [8, 9, 10, 11]


def test_standing_cylinder_does_not_flicker():
    rng = np.random.default_rng(1)
    for _ in range(100):
        noise = Pose(
            1e-12 * rng.standard_normal(3), product(about(rng.standard_normal(3), 1e-9), about((0, 0, 1), 1))
        )
        found = meet(
            planes,
            [Cylinder(0.5, 2.0), HalfSpace()],
            [Pose(noise.x + np.array([0, 0, 1.0]), noise.q), GROUND],
        )
        assert found.feature.tolist() == [0, 1, 2, 3]


def test_leaning_cylinder_has_the_exact_lowest_point():
    rng = np.random.default_rng(2)
    for _ in range(200):
        angle = rng.uniform(1e-6, 0.5 * math.pi)
        q = product(about(rng.standard_normal(3) * [1, 1, 0], angle), about((0, 0, 1), rng.uniform(0, 6)))
        low = math.cos(angle) + 0.5 * math.sin(angle)
        found = meet(
            planes, [Cylinder(0.5, 2.0), HalfSpace()], [pose((0, 0, low - 1e-3), q), GROUND], margin=0.01
        )
        assert found.gap.min() == pytest.approx(-1e-3, abs=1e-15)
        deepest = found.gap.argmin()
        assert found.feature[deepest] == 4
        on_body = rotation(q).T @ (found.point[deepest] - [0, 0, low - 1e-3 + 0.0005])
        np.testing.assert_allclose([math.hypot(*on_body[:2]), on_body[2]], [0.5, -1.0], atol=1e-14)


def test_lying_cylinder_rests_on_two_points_while_it_rolls():
    for angle in np.linspace(0.0, 6.0, 25):
        q = product(about((0, 1, 0), math.pi / 2), about((0, 0, 1), angle))
        found = meet(planes, [Cylinder(0.5, 2.0), HalfSpace()], [pose((0, 0, 0.5), q), GROUND])
        assert found.feature.tolist() == [4, 12]
        np.testing.assert_allclose(found.point, [[-1, 0, 0], [1, 0, 0]], atol=1e-15)


def test_contacts_turn_with_everything():
    rng = np.random.default_rng(3)
    shapes = [
        Sphere(0.5),
        Box((1, 2, 3)),
        Capsule(0.3, 1.0),
        Cylinder(0.4, 1.0),
        Convex(rng.standard_normal((12, 3))),
    ]
    found = 0
    for shape in shapes:
        for _ in range(20):
            poses = [pose((0, 0, 0.4), rng.standard_normal(4)), GROUND]
            same_when_moved(planes, [shape, HalfSpace()], poses, random_pose(rng, 3.0))
            found += len(meet(planes, [shape, HalfSpace()], poses).gap)
    assert found > 150


def test_no_more_is_written_than_there_is_room_for():
    geometry = geometry_of([Contactor(Box((1, 1, 1)), 0, 0), Contactor(HalfSpace(), 1, 0)])
    world, out = g.world(geometry), g.manifolds(3)
    g.place(np.zeros((2, 3)), np.array([UPRIGHT, UPRIGHT]), geometry, world)
    assert planes(0, 1, geometry, world, 0.1, out, 1) == 5
    assert out.gap.tolist() == [0.0, -0.5, -0.5]
