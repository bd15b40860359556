from __future__ import annotations

import math

import numpy as np
import pytest

from tamis.sim.common.shapes import Box, Capsule, Convex, Cylinder, hull_of
from tests.sim.common.distances import (
    DIRECTIONS,
    blob,
    check_random,
    holds,
    near_pose,
    separation,
    signed_distance,
)
from tests.sim.common.poses import about, meet, pose, product, random_pose, rotation, same_when_moved

LYING = about((0, 1, 0), math.pi / 2)  # axis along x
ACROSS = about((1, 0, 0), -math.pi / 2)  # axis along y
PAIRS = {
    "box-cylinder": [Box((1.0, 0.8, 1.4)), Cylinder(0.5, 1.2)],
    "cylinder-cylinder": [Cylinder(0.5, 1.2), Cylinder(0.4, 0.9)],
    "cylinder-capsule": [Cylinder(0.5, 1.2), Capsule(0.3, 1.0)],
    "cylinder-convex": [Cylinder(0.5, 1.2), blob()],
}


def shaken(rng, at, size=1e-9):
    """The pose with round-off's big sister added to it."""
    q = product(about(rng.standard_normal(3), size * rng.uniform()), at.q)
    return pose(at.x + size * rng.standard_normal(3), q)


def check_rest(shapes, poses, features, points, gap, normal=(0, 0, 1), margin=0.05):
    """Check a resting configuration, also when everything is shaken a little: nothing may come, go or be renamed."""
    rng = np.random.default_rng(0)
    found = meet(shapes, poses, margin)
    assert found.feature.tolist() == features
    np.testing.assert_allclose(found.gap, gap, atol=1e-14)
    np.testing.assert_allclose(found.normal, [normal] * len(features), atol=1e-14)
    np.testing.assert_allclose(found.point, points, atol=1e-14)
    for _ in range(100):
        again = meet(shapes, [shaken(rng, at) for at in poses], margin)
        assert again.feature.tolist() == features
        np.testing.assert_allclose(again.point, found.point, atol=1e-6)
        np.testing.assert_allclose(again.gap, found.gap, atol=1e-7)
        np.testing.assert_allclose(again.normal, found.normal, atol=1e-7)


@pytest.mark.parametrize("name", PAIRS)
def test_least_gap_is_the_signed_distance(name):
    check_random(PAIRS[name], seed=1, repeats=6)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_least_gap_is_the_signed_distance_many_times(name):
    check_random(PAIRS[name], seed=2, repeats=300)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_no_gap_is_less_than_the_largest_separation_found(name):
    """A cheap bound, for many poses: the separation along any direction. A normal that is as good but
    for 1e-10 (TIE) may be 1e-5 off, and so may the points."""
    shapes = PAIRS[name]
    rng = np.random.default_rng(9)
    for _ in range(6000):
        poses = near_pose(rng, shapes)
        found = meet(shapes, poses, margin=0.1)
        if not len(found.gap) or found.gap.min() < -0.1:
            continue
        least = np.flatnonzero(found.gap <= found.gap.min())
        k = least[separation(shapes, poses, found.normal[least]).argmax()]
        gap, half = found.gap[k], 0.5 * found.gap[k] * found.normal[k]
        assert gap > separation(shapes, poses, DIRECTIONS).max() - 1e-9
        assert abs(separation(shapes, poses, found.normal[k][None])[0] - gap) < 1e-9
        assert holds(shapes[0], poses[0], found.point[k] - half, 1e-5)
        assert holds(shapes[1], poses[1], found.point[k] + half, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_nearly_aligned_shapes_still_have_the_least_gap(name):
    """Tilts from 1e-10 to 0.25, where ends, sides and edges are reported as intervals and outlines."""
    rng = np.random.default_rng(8)
    shapes = PAIRS[name]
    turns = [
        about((0, 0, 1), 0.0),
        LYING,
        ACROSS,
        about((1, 0, 0), math.pi / 4),
        about((0, 1, 0), math.pi / 4),
    ]
    for _ in range(80):
        q, p = (turns[k] for k in rng.integers(5, size=2))
        first = pose(q=q)
        second = pose(
            rng.standard_normal(3), product(about(rng.standard_normal(3), 10 ** rng.uniform(-10, -0.6)), p)
        )
        for _ in range(3):
            d, normal = signed_distance(shapes, [first, second])
            second = pose(second.x + (rng.uniform(-0.02, 0.02) - d) * normal, second.q)
        found = meet(shapes, [first, second])
        true = signed_distance(shapes, [first, second], also=[found.normal])[0]
        k = found.gap.argmin()
        half = 0.5 * found.gap[k] * found.normal[k]
        assert abs(found.gap[k] - true) < 2e-6  # what the search for the oracle leaves open at a kink
        assert abs(separation(shapes, [first, second], found.normal[k][None])[0] - found.gap[k]) < 1e-7
        assert holds(
            shapes[0], first, found.point[k] - half, 2e-6
        )  # a point within 1e-6 r of an outline is on it
        assert holds(shapes[1], second, found.point[k] + half, 2e-6)


@pytest.mark.parametrize("name", PAIRS)
def test_contacts_turn_with_everything(name):
    """The search over angles ends at 1e-13 of the sizes; a normal along a rim at the square root of round-off's gap."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        poses = near_pose(rng, PAIRS[name])
        same_when_moved(PAIRS[name], poses, random_pose(rng, 3.0), tolerance=1e-9)


def test_cylinders_are_seen_the_same_from_both_sides():
    rng = np.random.default_rng(4)
    shapes = PAIRS["cylinder-cylinder"]
    for _ in range(50):
        poses = near_pose(rng, shapes)
        here, there = (meet(shapes, poses, margin=0.1, swap=swap) for swap in (False, True))
        k, m = here.gap.argmin(), there.gap.argmin()
        assert here.gap[k] == pytest.approx(there.gap[m], abs=1e-12)
        np.testing.assert_allclose(here.normal[k], -there.normal[m], atol=1e-7)


def marks(x, y, z, r=0.5):
    return [[x + r, y, z], [x, y + r, z], [x - r, y, z], [x, y - r, z]]


def test_cylinder_standing_on_a_box():
    features = [16, 18, 20, 22]
    check_rest(
        [Box((4, 4, 2)), Cylinder(0.5, 2.0)],
        [pose(), pose((0.2, 0.3, 1.99))],
        features,
        marks(0.2, 0.3, 0.995),
        -0.01,
    )


def test_cylinder_standing_over_the_edge_of_a_box():
    """Marks at +y, -x, -y lie on the box, the one at +x not; the edge x = 2 cuts the rim at y = +-0.3."""
    found = meet([Box((4, 4, 2)), Cylinder(0.5, 2.0)], [pose(), pose((1.6, 0, 2.0))])
    points = sorted(map(tuple, np.round(found.point, 12) + 0.0))
    assert points == sorted([(1.1, 0, 1), (1.6, 0.5, 1), (1.6, -0.5, 1), (2, 0.3, 1), (2, -0.3, 1)])
    check_rest(
        [Box((4, 4, 2)), Cylinder(0.5, 2.0)],
        [pose(), pose((1.6, 0, 2.0))],
        found.feature.tolist(),
        found.point,
        0.0,
    )


def test_box_standing_on_a_cylinder():
    shapes, poses = [Box((1, 1, 2)), Cylinder(2.0, 2.0)], [pose((0.1, 0.2, 1.99)), pose()]
    found = meet(shapes, poses)
    assert len(found.gap) == 4
    np.testing.assert_allclose(sorted(found.point[:, 0]), [-0.4, -0.4, 0.6, 0.6], atol=1e-14)
    check_rest(shapes, poses, found.feature.tolist(), found.point, -0.01, normal=(0, 0, -1))


def test_cylinder_as_wide_as_the_box_below_does_not_flicker():
    shapes, poses = [Box((1, 1, 1)), Cylinder(0.5, 1.0)], [pose(), pose((0, 0, 1))]
    check_rest(shapes, poses, [16, 18, 20, 22], marks(0, 0, 0.5), 0.0)


def test_leaning_cylinder_on_a_box_has_the_exact_lowest_point():
    rng = np.random.default_rng(5)
    for _ in range(50):
        tilt, turn = rng.uniform(1e-6, 1.2), rng.uniform(0, 6)
        q = product(about((math.cos(turn), math.sin(turn), 0), tilt), about((0, 0, 1), rng.uniform(0, 6)))
        low = math.cos(tilt) + 0.5 * math.sin(tilt)
        found = meet([Box((9, 9, 2)), Cylinder(0.5, 2.0)], [pose(), pose((0, 0, 1 + low - 1e-3), q)])
        k = found.gap.argmin()
        assert found.gap[k] == pytest.approx(-1e-3, abs=1e-14)
        np.testing.assert_allclose(found.normal[k], [0, 0, 1], atol=1e-15)
        assert np.hypot(*found.point[k, :2]) == pytest.approx(
            abs(0.5 * math.cos(tilt) - math.sin(tilt)), abs=1e-9
        )


def test_cylinder_lying_on_a_face_and_over_its_edge():
    shapes, poses = [Box((2, 2, 2)), Cylinder(0.5, 3.0)], [pose(), pose((1.2, 0.3, 1.49), LYING)]
    check_rest(shapes, poses, [1, 2], [[-0.3, 0.3, 0.995], [1.0, 0.3, 0.995]], -0.01)


def test_cylinder_along_an_edge_rests_on_two_points():
    away = math.sqrt(0.5) * 0.499
    shapes, poses = [Box((2, 2, 2)), Cylinder(0.5, 3.0)], [pose(), pose((1 + away, 0, 1 + away), ACROSS)]
    found = meet(shapes, poses)
    np.testing.assert_allclose(sorted(found.point[:, 1]), [-1, 1], atol=1e-12)
    h = math.sqrt(0.5)
    check_rest(shapes, poses, [1, 2], found.point, -0.001, normal=(h, 0, h))


def test_cylinder_standing_on_an_edge():
    """The edge along x, 0.3 off the axis, lies under the end from x = -0.4 to 0.4."""
    top = math.sqrt(2.0)
    shapes = [Box((2, 2, 2)), Cylinder(0.5, 2.0)]
    poses = [pose(q=about((1, 0, 0), math.pi / 4)), pose((0, 0.3, top + 0.99))]
    found = meet(shapes, poses)
    np.testing.assert_allclose(np.sort(found.point[:, 0]), [-0.4, 0.4], atol=1e-14)
    np.testing.assert_allclose(found.point[:, 1:], [[0, top - 0.005]] * 2, atol=1e-14)
    check_rest(shapes, poses, [1, 2], found.point, -0.01)


def test_edge_across_the_side_is_a_point():
    h = math.sqrt(0.5)
    turned = about((1, 0, 0), math.pi / 4)  # an edge along x on top, at z = sqrt 2
    found = meet(
        [Box((2, 2, 2)), Cylinder(0.5, 3.0)],
        [pose(q=turned), pose((0.2, 0.1, 2 * h + 0.499), ACROSS)],
    )
    assert found.feature.tolist() == [0]
    np.testing.assert_allclose(found.gap, [-0.001], atol=1e-14)
    np.testing.assert_allclose(found.point, [[0.2, 0, 2 * h - 0.0005]], atol=1e-14)
    np.testing.assert_allclose(found.normal, [[0, 0, 1]], atol=1e-14)


@pytest.mark.parametrize("solid", [Box((1.0, 1.0, 1.0)), Convex(hull_of(Box((1.0, 1.0, 1.0))).vertices)])
def test_box_and_the_same_as_points(solid):
    rng = np.random.default_rng(6)
    for _ in range(30):
        poses = near_pose(rng, [Box((1.0, 1.0, 1.0)), Cylinder(0.5, 1.0)])
        box = meet([Box((1.0, 1.0, 1.0)), Cylinder(0.5, 1.0)], poses)
        found = meet([solid, Cylinder(0.5, 1.0)], poses)
        assert len(found.gap) == len(box.gap)
        np.testing.assert_allclose(np.sort(found.gap), np.sort(box.gap), atol=1e-12)


def test_equal_discs_one_upon_the_other_keep_the_marks_of_the_first():
    """Round block ends on one hinge line, turned against each other: the outlines coincide."""
    shapes = [Cylinder(0.38, 0.8), Cylinder(0.38, 0.8)]
    check_rest(
        shapes,
        [pose(), pose((0, 0, 0.8), about((0, 0, 1), 0.7))],
        [34, 38, 42, 46],
        marks(0, 0, 0.4, 0.38),
        0.0,
    )


def test_offset_discs_touch_in_their_lens():
    """Marks of each within the other, and the crossings of the circles at 0.3 from the middle line."""
    found = meet([Cylinder(0.5, 1.0), Cylinder(0.5, 1.0)], [pose(), pose((0.8, 0, 1.0))])
    points = sorted(map(tuple, np.round(found.point, 12) + 0.0))
    assert points == sorted([(0.5, 0, 0.5), (0.3, 0, 0.5), (0.4, 0.3, 0.5), (0.4, -0.3, 0.5)])
    np.testing.assert_allclose(found.gap, 0.0, atol=1e-15)
    check_rest(
        [Cylinder(0.5, 1.0)] * 2, [pose(), pose((0.8, 0, 1.0))], found.feature.tolist(), found.point, 0.0
    )


def test_offset_stack_with_play_is_held_over_its_whole_lens():
    """Seven millimetres of play: the points span nearly the whole disc, whatever the turn of the bodies."""
    for turn in np.linspace(0.0, 1.5, 7):
        poses = [pose(q=about((0, 0, 1), turn)), pose((0.007, 0, 0.8), about((0, 0, 1), 0.4))]
        found = meet([Cylinder(0.38, 0.8)] * 2, poses)
        assert 4 <= len(found.gap) <= 10
        angles = np.sort(np.arctan2(found.point[:, 1], found.point[:, 0] - 0.0035))
        gaps = np.diff(np.append(angles, angles[0] + 2 * math.pi))
        assert gaps.max() < 0.51 * math.pi
        assert (np.hypot(found.point[:, 0], found.point[:, 1]) < 0.38 + 1e-6).all()
        assert (np.hypot(found.point[:, 0] - 0.007, found.point[:, 1]) < 0.38 + 1e-6).all()


def test_small_disc_within_a_large_one():
    found = meet([Cylinder(2.0, 1.0), Cylinder(0.5, 1.0)], [pose(), pose((0.3, 0, 0.99))])
    np.testing.assert_allclose(sorted(found.point[:, 0]), [-0.2, 0.3, 0.3, 0.8], atol=1e-14)
    np.testing.assert_allclose(found.gap, -0.01, atol=1e-15)


def test_cylinders_side_by_side():
    shapes, poses = [Cylinder(0.5, 2.0), Cylinder(0.25, 2.0)], [pose(), pose((0.74, 0, 1.5))]
    check_rest(shapes, poses, [1, 2], [[0.495, 0, 0.5], [0.495, 0, 1.0]], -0.01, normal=(1, 0, 0))


def test_a_thin_cylinder_deep_in_another_still_touches_it():
    """Deeper than its own radius; and a corner that has gone through a thin disc."""
    found = meet([Cylinder(1.0, 2.0), Cylinder(0.01, 1.0)], [pose(), pose((0.98, 0, 0))])
    assert found.feature.tolist() == [1, 2]
    np.testing.assert_allclose(found.gap, -0.03, atol=1e-14)
    np.testing.assert_allclose(found.normal, [(1, 0, 0)] * 2, atol=1e-14)
    down = math.acos(1.0 / math.sqrt(3.0))  # the box stands on a corner, at z = -0.8 below the disc
    turned = product(about((1, -1, 0), down), about((0, 0, 1), 0.0))
    tip = (rotation(turned) @ (np.array(np.meshgrid(*[[-2, 2]] * 3)).reshape(3, -1))).T
    at = -tip[tip[:, 2].argmin()] - np.array([0.0, 0.0, 0.8])
    found = meet([Box((4, 4, 4)), Cylinder(1.0, 0.02)], [pose(at, turned), pose()], margin=0.01)
    assert len(found.gap) > 0 and found.gap.min() < -0.5


def test_crossed_cylinders_touch_in_a_point():
    poses = [pose(q=LYING), pose((0.3, 0.4, 0.74), ACROSS)]
    check_rest([Cylinder(0.5, 4.0), Cylinder(0.25, 4.0)], poses, [0], [[0.3, 0, 0.495]], -0.01)


def test_cylinder_lying_on_the_end_of_another():
    """The line of the side is cut by the disc at x = +-0.4."""
    shapes, poses = [Cylinder(0.5, 2.0), Cylinder(0.25, 4.0)], [pose(), pose((0, 0.3, 1.25), LYING)]
    check_rest(shapes, poses, [1, 2], [[-0.4, 0.3, 1.0], [0.4, 0.3, 1.0]], 0.0)


def test_rim_against_the_side_of_another():
    """The rim of a cylinder tilted by 45 degrees touches the side of a standing one."""
    h = math.sqrt(0.5)
    reach = h * 1.0 + h * 0.25
    found = meet(
        [Cylinder(0.5, 4.0), Cylinder(0.25, 2.0)],
        [pose(), pose((0.5 + reach - 1e-3, 0, 0.2), about((0, 1, 0), math.pi / 4))],
    )
    assert found.feature.tolist() == [0]
    np.testing.assert_allclose(found.gap, [-1e-3], atol=1e-14)
    np.testing.assert_allclose(found.normal, [[1, 0, 0]], atol=1e-12)
    np.testing.assert_allclose(found.point[0], [0.4995, 0, 0.2 - h + 0.25 * h], atol=1e-12)


def test_capsule_beside_and_upon_a_cylinder():
    beside = meet([Cylinder(0.5, 2.0), Capsule(0.25, 2.0)], [pose(), pose((0.74, 0, 0.5))])
    assert beside.feature.tolist() == [1, 2]
    np.testing.assert_allclose(beside.point, [[0.495, 0, -0.5], [0.495, 0, 1.0]], atol=1e-14)
    upon = meet([Cylinder(0.5, 2.0), Capsule(0.25, 4.0)], [pose(), pose((0, 0.3, 1.25), LYING)])
    np.testing.assert_allclose(upon.point, [[-0.4, 0.3, 1.0], [0.4, 0.3, 1.0]], atol=1e-14)


def test_against_an_independent_library():
    """Distances of separate shapes; the other library's iteration stops at 1e-6."""
    coal = pytest.importorskip("coal")
    rng = np.random.default_rng(7)
    theirs = {Box: lambda s: coal.Box(*s.sides), Cylinder: lambda s: coal.Cylinder(s.radius, s.length)}
    theirs[Capsule] = lambda s: coal.Capsule(s.radius, s.length)
    seen = 0
    for shapes in (PAIRS[name] for name in PAIRS if name != "cylinder-convex"):
        for _ in range(40):
            poses = near_pose(rng, shapes)
            placed = [coal.Transform3s(rotation(p.q), p.x) for p in poses]
            a, b = (theirs[type(shape)](shape) for shape in shapes)
            d = coal.distance(a, placed[0], b, placed[1], coal.DistanceRequest(), coal.DistanceResult())
            if 1e-3 < d < 0.09:
                assert meet(shapes, poses, margin=0.1).gap.min() == pytest.approx(d, abs=1e-5)
                seen += 1
    assert seen > 30
