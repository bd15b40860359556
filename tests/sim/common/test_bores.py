from __future__ import annotations

import math

import numpy as np
import pytest

from tamis.sim.common.shapes import Bore, Box, Capsule, Cylinder, HalfSpace, Ring, Sphere
from tests.sim.common.poses import about, meet, moved, pose, random_pose, rotation, same_when_moved

R, r, DEEP = 0.077, 0.06985, 0.3  # a hole 154 mm wide and 0.6 m long, a bar of 139.7 mm
PLAY = R - r
HOLE = Bore(R, 2 * DEEP)
HERE = pose()
LONG, SHORT = Cylinder(r, 0.8), Cylinder(r, 0.4)


def fit(bar, at, n=2000, lengths=400):
    """How far the bar's surface within the length of the hole stays off its wall, by looking everywhere."""
    phi = np.linspace(0.0, 2.0 * math.pi, n, endpoint=False)
    z = np.linspace(-0.5 * bar.length, 0.5 * bar.length, lengths)
    ring = np.column_stack([r * np.cos(phi), r * np.sin(phi), np.zeros(n)])
    points = (ring[None] + z[:, None, None] * np.array([0.0, 0.0, 1.0])).reshape(-1, 3)
    points = at.x + points @ rotation(at.q).T
    inside = np.abs(points[:, 2]) <= DEEP
    return R - np.linalg.norm(points[inside, :2], axis=1).max()


@pytest.mark.parametrize(
    ("bar", "shift", "ends"),
    [
        (LONG, 0.0, (-DEEP, DEEP)),  # through the hole: the rims of the hole
        (SHORT, 0.0, (-0.2, 0.2)),  # in the hole: the rims of the bar
        (SHORT, 0.25, (0.05, DEEP)),  # half out
        (LONG, -0.5, (-DEEP, -0.1)),
        (Cylinder(r, 2 * DEEP), 0.0, (-DEEP, DEEP)),  # flush: no contact twice
    ],
)
def test_a_bar_along_the_wall_touches_at_both_ends_of_what_they_share(bar, shift, ends):
    for angle in (0.0, 0.4, 2.0, 5.0):
        way = np.array([math.cos(angle), math.sin(angle), 0.0])
        for offset in (0.003, PLAY, 0.008):
            found = meet([bar, HOLE], [pose(offset * way + [0, 0, shift]), HERE])
            assert len(found.gap) == 2 and len(set(found.feature)) == 2
            np.testing.assert_allclose(found.gap, PLAY - offset, atol=1e-15)
            np.testing.assert_allclose(found.normal, [way, way], atol=1e-12)
            np.testing.assert_allclose(np.sort(found.point[:, 2]), ends, atol=1e-14)
            np.testing.assert_allclose(found.point[:, :2], [0.5 * (R + r + offset) * way[:2]] * 2, atol=1e-13)


def largest_tilt(bar):
    low, high = 0.0, 0.5
    for _ in range(60):
        tilt = 0.5 * (low + high)
        gap = meet([bar, HOLE], [pose(q=about((0, 1, 0), tilt)), HERE]).gap.min()
        low, high = (tilt, high) if gap > 0.0 else (low, tilt)
    return tilt


def test_the_length_bounds_the_tilt():
    """Through the hole R cos t - DEEP sin t = r; a bar of half length l within it, r cos t + l sin t = R."""
    tilt = largest_tilt(LONG)
    assert R * math.cos(tilt) - DEEP * math.sin(tilt) == pytest.approx(r, abs=1e-15)
    assert tilt == pytest.approx(2 * PLAY / (2 * DEEP), rel=0.005)  # to first order, t^2 R / 2 / play of it
    tilt = largest_tilt(SHORT)
    assert r * math.cos(tilt) + 0.2 * math.sin(tilt) == pytest.approx(R, abs=1e-15)
    assert tilt == pytest.approx(2 * PLAY / 0.4, rel=0.01)


def test_a_bar_that_is_tilted_as_far_as_it_can_be_touches_opposite_sides_at_opposite_ends():
    for bar in (LONG, SHORT):
        tilt = largest_tilt(bar)
        found = meet([bar, HOLE], [pose(q=about((0, 1, 0), tilt)), HERE], margin=1e-6)
        assert len(found.gap) == 2
        assert found.normal[0] @ found.normal[1] < -0.999
        assert (np.sign(found.point[:, 2]) == np.sign(found.point[:, 0])).all()
    # a ring alone lets it tilt until it jams between two points of one rim, at acos(r/R): twenty times as far
    assert math.acos(r / R) > 18 * largest_tilt(LONG)


def test_gaps_against_looking_everywhere():
    rng = np.random.default_rng(2)
    for trial in range(24):
        bar = (LONG, SHORT)[trial % 2]
        tilt = rng.uniform(0, 0.03)
        q = about(rng.standard_normal(3) * [1, 1, 0], tilt)
        at = pose(np.append(rng.uniform(-0.004, 0.004, 2), rng.uniform(-0.3, 0.3)), q)
        by = random_pose(rng)
        found = meet([bar, HOLE], [moved(at, by), by], margin=0.02)
        # the rim of the hole is measured across the bar: t^2/2 of R; 400 places along the bar: 2 mm times the tilt
        assert found.gap.min() == pytest.approx(fit(bar, at), abs=0.5 * tilt**2 * R + 2e-3 * tilt + 1e-6)


def test_points_lie_on_rims_and_normals_across_what_they_touch():
    rng = np.random.default_rng(3)
    for _ in range(20):
        q = about(rng.standard_normal(3) * [1, 1, 0], rng.uniform(0.001, 0.02))
        at = pose(np.append(rng.uniform(-0.004, 0.004, 2), 0.2), q)  # one end of the bar is in, the other out
        found = meet([SHORT, HOLE], [at, HERE], margin=0.05)
        u = rotation(at.q)[:, 2]
        for feature, point, normal, gap in zip(*found, strict=True):
            on_bar, on_hole = point - 0.5 * gap * normal, point + 0.5 * gap * normal
            assert math.hypot(*on_hole[:2]) == pytest.approx(R, abs=1e-14)
            assert np.linalg.norm(np.cross(on_bar - at.x, u)) == pytest.approx(r, abs=1e-14)
            if feature < 4:
                assert abs(on_hole[2]) == pytest.approx(DEEP, abs=1e-14) and abs(normal @ u) < 1e-13
            else:
                assert abs((on_bar - at.x) @ u) == pytest.approx(0.2, abs=1e-14) and abs(normal[2]) < 1e-13


def test_the_ball_of_a_capsule_touches_the_wall():
    bar = Capsule(r, 0.2)
    found = meet([bar, HOLE], [pose((0.005, 0.0, 0.1)), HERE])
    np.testing.assert_allclose(np.sort(found.point[:, 2]), [0.0, 0.2], atol=1e-14)
    np.testing.assert_allclose(found.gap, PLAY - 0.005, atol=1e-15)


def test_a_concentric_bar_has_a_gap_and_a_direction():
    found = meet([SHORT, HOLE], [HERE, HERE])
    np.testing.assert_allclose(found.gap, [PLAY, PLAY], atol=1e-14)
    assert len(meet([SHORT, HOLE], [HERE, HERE], margin=0.007).gap) == 0


def test_no_contact_outside_the_hole():
    assert len(meet([SHORT, HOLE], [pose((0.0, 0, 0.501)), HERE]).gap) == 0  # above it
    assert len(meet([SHORT, HOLE], [pose((0.2, 0, 0)), HERE]).gap) == 0  # beside it
    assert len(meet([SHORT, HOLE], [pose(q=about((1, 0, 0), math.pi / 2)), HERE]).gap) == 0  # across it


@pytest.mark.parametrize("other", [Sphere(r), Box((0.1, 0.1, 0.8)), HalfSpace(), Ring(0.05), Bore(0.05, 0.1)])
def test_only_bars_feel_a_bore(other):
    assert len(meet([other, HOLE], [pose((0.01, 0, 0)), HERE]).gap) == 0


def test_contacts_turn_with_everything():
    rng = np.random.default_rng(4)
    for _ in range(20):
        poses = [pose(rng.uniform(-0.005, 0.005, 3), about(rng.standard_normal(3), 0.02)), HERE]
        same_when_moved([SHORT, HOLE], poses, random_pose(rng))
