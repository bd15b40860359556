from __future__ import annotations

import math

import numpy as np
import pytest

from tamis.sim.common import geometry as g
from tamis.sim.common.planes import planes
from tamis.sim.common.shapes import Box, Capsule, Contactor, Convex, Cylinder, HalfSpace, Sphere, geometry_of
from tests.sim.common.compiled import place
from tests.sim.common.poses import (
    UPRIGHT,
    Pose,
    about,
    meet,
    pose,
    product,
    random_pose,
    rotation,
    same_when_moved,
)

GROUND = pose()


def test_sphere_above_and_below():
    for height in (1.04, 1.0, 0.5, -3.0):
        found = meet([Sphere(1.0), HalfSpace()], [pose((2.0, 3.0, height)), GROUND])
        np.testing.assert_allclose(found.gap, [height - 1.0], rtol=1e-15)
        np.testing.assert_array_equal(found.normal, [[0, 0, -1]])
        np.testing.assert_allclose(found.point, [[2.0, 3.0, (height - 1.0) / 2]], atol=1e-15)
    assert len(meet([Sphere(1.0), HalfSpace()], [pose((0, 0, 1.06)), GROUND]).gap) == 0


def test_box_touches_with_the_corners_within_the_margin():
    box = Box((2.0, 4.0, 1.0))
    flat = meet([box, HalfSpace()], [pose((0, 0, 0.5)), GROUND])
    assert flat.feature.tolist() == [0, 1, 2, 3] and (flat.gap == 0.0).all()
    np.testing.assert_array_equal(flat.point, [[-1, -2, 0], [1, -2, 0], [-1, 2, 0], [1, 2, 0]])
    lean = meet([box, HalfSpace()], [pose((0, 0, 0.6), about((0, 1, 0), 0.1)), GROUND])
    low = 0.6 - 0.5 * math.cos(0.1) - math.sin(0.1)
    assert lean.feature.tolist() == [1, 3]
    np.testing.assert_allclose(lean.gap, [low, low], atol=1e-15)


def test_capsule_touches_under_both_ends():
    capsule = Capsule(0.5, 2.0)
    lying = meet([capsule, HalfSpace()], [pose((0, 0, 0.49), about((0, 1, 0), math.pi / 2)), GROUND])
    np.testing.assert_allclose(lying.gap, [-0.01, -0.01], atol=1e-15)
    np.testing.assert_allclose(lying.point, [[-1, 0, -0.005], [1, 0, -0.005]], atol=1e-15)
    standing = meet([capsule, HalfSpace()], [pose((0, 0, 1.5)), GROUND])
    assert standing.feature.tolist() == [0] and standing.gap.tolist() == [0.0]


def test_standing_cylinder_rests_on_four_points_of_its_own():
    cylinder = Cylinder(0.5, 2.0)
    for angle in (0.0, 0.3, 1.0):
        turn = about((0, 0, 1), angle)
        found = meet([cylinder, HalfSpace()], [pose((0, 0, 0.99), turn), GROUND])
        assert found.feature.tolist() == [0, 1, 2, 3]
        np.testing.assert_allclose(found.gap, -0.01, atol=1e-15)
        c, s = 0.5 * math.cos(angle), 0.5 * math.sin(angle)
        expected = [[c, s, -0.005], [-s, c, -0.005], [-c, -s, -0.005], [s, -c, -0.005]]
        np.testing.assert_allclose(found.point, expected, atol=1e-15)
    upside = meet([cylinder, HalfSpace()], [pose((0, 0, 1.0), about((1, 0, 0), math.pi)), GROUND])
    assert upside.feature.tolist() == [8, 9, 10, 11]


def test_standing_cylinder_does_not_flicker():
    rng = np.random.default_rng(1)
    for _ in range(100):
        noise = Pose(
            1e-12 * rng.standard_normal(3), product(about(rng.standard_normal(3), 1e-9), about((0, 0, 1), 1))
        )
        found = meet(
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
        found = meet([Cylinder(0.5, 2.0), HalfSpace()], [pose((0, 0, low - 1e-3), q), GROUND], margin=0.01)
        assert found.gap.min() == pytest.approx(-1e-3, abs=1e-15)
        deepest = found.gap.argmin()
        assert found.feature[deepest] == 4
        on_body = rotation(q).T @ (found.point[deepest] - [0, 0, low - 1e-3 + 0.0005])
        np.testing.assert_allclose([math.hypot(*on_body[:2]), on_body[2]], [0.5, -1.0], atol=1e-14)


def test_lying_cylinder_rests_on_two_points_while_it_rolls():
    for angle in np.linspace(0.0, 6.0, 25):
        q = product(about((0, 1, 0), math.pi / 2), about((0, 0, 1), angle))
        found = meet([Cylinder(0.5, 2.0), HalfSpace()], [pose((0, 0, 0.5), q), GROUND])
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
            same_when_moved([shape, HalfSpace()], poses, random_pose(rng, 3.0))
            found += len(meet([shape, HalfSpace()], poses).gap)
    assert found > 150


def test_no_more_is_written_than_there_is_room_for():
    geometry = geometry_of([Contactor(Box((1, 1, 1)), 0, 0), Contactor(HalfSpace(), 1, 0)])
    world, out = g.world(geometry), g.manifolds(3)
    place(np.zeros((2, 3)), np.array([UPRIGHT, UPRIGHT]), geometry, world)
    assert planes(0, 1, geometry, world, 0.1, out, 1) == 5
    assert out.gap.tolist() == [0.0, -0.5, -0.5]
