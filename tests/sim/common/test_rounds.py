from __future__ import annotations

import math

import numpy as np
import pytest

from tamis.sim.common.shapes import Box, Capsule, Convex, Cylinder, Sphere, hull_of
from tests.sim.common.distances import blob, check_random, near_pose
from tests.sim.common.poses import about, meet, pose, product, random_pose, rotation, same_when_moved

LYING = about((0, 1, 0), math.pi / 2)  # axis along x


PAIRS = {
    "sphere-sphere": [Sphere(0.5), Sphere(0.7)],
    "sphere-box": [Sphere(0.5), Box((1.0, 0.8, 1.4))],
    "sphere-cylinder": [Sphere(0.5), Cylinder(0.6, 1.0)],
    "sphere-capsule": [Sphere(0.5), Capsule(0.3, 1.0)],
    "sphere-convex": [Sphere(0.5), blob()],
    "box-capsule": [Box((1.0, 0.8, 1.4)), Capsule(0.3, 1.0)],
    "capsule-capsule": [Capsule(0.4, 1.2), Capsule(0.3, 1.0)],
    "capsule-convex": [Capsule(0.3, 1.0), blob()],
}


@pytest.mark.parametrize("name", PAIRS)
def test_least_gap_is_the_signed_distance(name):
    check_random(PAIRS[name], seed=1, repeats=6)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_least_gap_is_the_signed_distance_many_times(name):
    check_random(PAIRS[name], seed=2, repeats=300)


@pytest.mark.parametrize("name", PAIRS)
def test_contacts_turn_with_everything(name):
    rng = np.random.default_rng(3)
    for _ in range(10):
        same_when_moved(PAIRS[name], near_pose(rng, PAIRS[name]), random_pose(rng, 3.0))


def test_capsules_are_seen_the_same_from_both_sides():
    rng = np.random.default_rng(4)
    shapes = PAIRS["capsule-capsule"]
    for _ in range(50):
        poses = near_pose(rng, shapes)
        here, there = (meet(shapes, poses, swap=swap) for swap in (False, True))
        assert len(here.gap) == len(there.gap)
        if len(here.gap):
            k, m = here.gap.argmin(), there.gap.argmin()
            assert here.gap[k] == pytest.approx(there.gap[m], abs=1e-14)
            np.testing.assert_allclose(here.normal[k], -there.normal[m], atol=1e-13)
            np.testing.assert_allclose(here.point[k], there.point[m], atol=1e-13)


def test_spheres():
    found = meet([Sphere(1.0), Sphere(2.0)], [pose((1, 0, 0)), pose((1, 2.9, 0))])
    np.testing.assert_allclose(found.gap, [-0.1], atol=1e-15)
    np.testing.assert_array_equal(found.normal, [[0, 1, 0]])
    np.testing.assert_allclose(found.point, [[1, 0.95, 0]], atol=1e-15)


@pytest.mark.parametrize(
    ("shapes", "gap"),
    [
        ([Sphere(1.0), Sphere(2.0)], -3.0),
        ([Sphere(1.0), Capsule(0.5, 2.0)], -1.5),
        ([Sphere(0.2), Cylinder(0.5, 2.0)], -0.7),
        ([Sphere(0.2), Box((1.0, 2.0, 3.0))], -0.7),
        ([Box((1.0, 2.0, 3.0)), Capsule(0.5, 2.0)], -1.0),
        ([Capsule(0.5, 2.0), Capsule(0.25, 2.0)], -0.75),
    ],
)
def test_concentric_shapes_still_have_a_normal(shapes, gap):
    found = meet(shapes, [pose(), pose()])
    assert len(found.gap) in (1, 2) and np.allclose(found.gap, gap, atol=1e-15)


def test_sphere_inside_a_box_leaves_through_the_nearest_face():
    found = meet([Sphere(0.1), Box((2.0, 2.0, 2.0))], [pose((0.2, 0.9, 0.1)), pose()])
    np.testing.assert_allclose(found.gap, [-0.2], atol=1e-15)
    np.testing.assert_array_equal(found.normal, [[0, -1, 0]])


def test_sphere_at_corner_edge_and_face_of_a_box():
    box = Box((2.0, 2.0, 2.0))
    for x, d in (((1.3, 1.4, 1.0), 0.5), ((1.2, 1.2, 1.1), 0.3), ((0.3, 1.25, 0.9), 0.25)):
        found = meet([Sphere(0.5), box], [pose(x), pose()])
        assert found.gap[0] == pytest.approx(d - 0.5, abs=1e-15)


def test_crossed_capsules_touch_in_one_point():
    found = meet(
        [Capsule(0.5, 4.0), Capsule(0.25, 4.0)],
        [pose(q=LYING), pose((0.3, 0.4, 0.74), about((1, 0, 0), math.pi / 2))],
    )
    assert found.feature.tolist() == [0]
    np.testing.assert_allclose(found.gap, [-0.01], atol=1e-15)
    np.testing.assert_allclose(found.point, [[0.3, 0, 0.495]], atol=1e-15)


def test_parallel_capsules_touch_in_the_ends_of_their_overlap():
    shapes = [Capsule(0.5, 4.0), Capsule(0.25, 4.0)]
    rng = np.random.default_rng(5)
    for _ in range(50):
        noise = about(rng.standard_normal(3), 1e-9)
        found = meet(shapes, [pose(q=LYING), pose((1.5, 0, 0.74), product(noise, LYING))])
        assert found.feature.tolist() == [1, 2]
        np.testing.assert_allclose(found.point, [[-0.5, 0, 0.495], [2, 0, 0.495]], atol=1e-8)
        np.testing.assert_allclose(found.gap, -0.01, atol=1e-8)


def test_capsules_end_to_end():
    found = meet([Capsule(0.5, 4.0), Capsule(0.25, 4.0)], [pose(), pose((0, 0, 4.76))])
    np.testing.assert_allclose(found.gap, [0.01], atol=1e-15)
    np.testing.assert_allclose(found.normal, [[0, 0, 1]], atol=1e-15)


@pytest.mark.parametrize("solid", [Box((2.0, 2.0, 2.0)), Convex(hull_of(Box((2.0, 2.0, 2.0))).vertices)])
def test_capsule_lying_on_a_face_and_over_its_edge(solid):
    """The contact is the part of the axis over the face, from its own end to the edge of the face."""
    sign = 1.0 if isinstance(solid, Box) else -1.0  # the box comes first, the convex second
    rng = np.random.default_rng(6)
    for _ in range(20):
        q = product(about(rng.standard_normal(3), 1e-9), LYING)
        found = meet([solid, Capsule(0.5, 3.0)], [pose(), pose((1.2, 0.3, 1.49), q)])
        assert found.feature.tolist() == [1, 2]
        np.testing.assert_allclose(found.point, [[-0.3, 0.3, 0.995], [1.0, 0.3, 0.995]], atol=1e-8)
        np.testing.assert_allclose(found.normal, [[0, 0, sign]] * 2, atol=1e-8)
        np.testing.assert_allclose(found.gap, -0.01, atol=1e-8)


def test_tilted_capsule_keeps_both_ends_and_the_exact_least_gap():
    """Tilted down over the edge, it touches the edge with a normal across both; the other end stays in view."""
    tilt = 0.01
    q = about((0, 1, 0), math.pi / 2 + tilt)
    c, s = math.cos(tilt), math.sin(tilt)
    # the axis passes at 0.5 from the edge x = z = 1
    centre = np.array([1.0, 0.3, 1.0]) + 0.5 * np.array([s, 0, c]) - 0.5 * np.array([c, 0, -s])
    found = meet([Box((2.0, 2.0, 2.0)), Capsule(0.5, 3.0)], [pose(), pose(centre, q)])
    assert found.feature.tolist() == [1, 2]
    assert found.gap[1] == pytest.approx(0.0, abs=1e-15)
    np.testing.assert_allclose(found.normal[1], [s, 0, c], atol=1e-14)
    assert 0.0 < found.gap[0] < 0.02


def test_capsule_along_an_edge_rests_on_two_points():
    away = math.sqrt(0.5) * 0.499
    found = meet(
        [Box((2.0, 2.0, 2.0)), Capsule(0.5, 3.0)],
        [pose(), pose((1 + away, 0, 1 + away), about((1, 0, 0), math.pi / 2))],
    )
    assert found.feature.tolist() == [1, 2]
    np.testing.assert_allclose(found.gap, -0.001, atol=1e-14)
    np.testing.assert_allclose(sorted(found.point[:, 1]), [-1, 1], atol=1e-12)


def test_capsule_through_a_thin_plate_is_pushed_out_across_it():
    found = meet([Box((2.0, 2.0, 0.1)), Capsule(0.2, 3.0)], [pose(), pose((0, 0, 0.02), LYING)])
    np.testing.assert_allclose(found.gap, -0.23, atol=1e-15)
    np.testing.assert_allclose(found.normal, [[0, 0, 1]] * 2, atol=1e-15)


def test_against_an_independent_library():
    """Distances of separate shapes; the other library's iteration stops at 1e-6."""
    coal = pytest.importorskip("coal")
    rng = np.random.default_rng(7)
    theirs = {Sphere: lambda s: coal.Sphere(s.radius), Box: lambda s: coal.Box(*s.sides)}
    theirs[Cylinder] = lambda s: coal.Cylinder(s.radius, s.length)
    theirs[Capsule] = lambda s: coal.Capsule(s.radius, s.length)
    seen = 0
    for shapes in PAIRS.values():
        if any(isinstance(shape, Convex) for shape in shapes):
            continue
        for _ in range(30):
            poses = near_pose(rng, shapes)
            placed = [coal.Transform3s(rotation(p.q), p.x) for p in poses]
            result = coal.DistanceResult()
            a, b = (theirs[type(shape)](shape) for shape in shapes)
            d = coal.distance(a, placed[0], b, placed[1], coal.DistanceRequest(), result)
            if 1e-3 < d < 0.09:
                found = meet(shapes, poses, margin=0.1)
                assert found.gap.min() == pytest.approx(d, abs=1e-5)
                seen += 1
    assert seen > 30
