from __future__ import annotations

import math

import numpy as np
import pytest

from tamis.sim.common.shapes import Box, Capsule, Cylinder, HalfSpace, Ring, Sphere
from tests.sim.common.poses import about, meet, moved, pose, random_pose, rotation, same_when_moved

R, r = 0.077, 0.06985  # the hole and the bar of an articulated wall: 154 mm and 139.7 mm across
BAR = Cylinder(r, 0.8)
HERE = pose()


def play(bar, ring, n=50_000):
    """The least distance from the rim to the surface of the bar, by looking everywhere along the rim."""
    phi = np.linspace(0.0, 2.0 * math.pi, n, endpoint=False)
    turn = rotation(ring.q)
    rim = ring.x + R * (np.outer(np.cos(phi), turn[:, 0]) + np.outer(np.sin(phi), turn[:, 1]))
    u = rotation(bar.q)[:, 2]
    v = rim - bar.x
    return (np.linalg.norm(v - np.outer(v @ u, u), axis=1) - r).min()


@pytest.mark.parametrize("bar", [BAR, Capsule(r, 0.8)])
def test_straight_bar_plays_by_the_difference_of_the_radii(bar):
    for angle in (0.0, 0.4, 2.0, 5.0):
        way = np.array([math.cos(angle), math.sin(angle), 0.0])
        for offset in (0.003, R - r, 0.008):
            found = meet([bar, Ring(R)], [pose(offset * way + [0, 0, 0.1]), HERE])
            assert found.feature.tolist() == [0]
            np.testing.assert_allclose(found.gap, [R - r - offset], atol=1e-16)
            np.testing.assert_allclose(found.normal, [way], atol=1e-13)
            np.testing.assert_allclose(found.point, [(0.5 * (R + r + offset)) * way], atol=1e-14)


def test_concentric_bar_has_a_gap_and_a_direction():
    rng = np.random.default_rng(1)
    for noise in (0.0, 1e-16, 1e-15):
        found = meet([BAR, Ring(R)], [pose(noise * rng.standard_normal(3)), HERE])
        assert found.feature.tolist() == [0]
        np.testing.assert_allclose(found.gap, [R - r], atol=1e-14)
        np.testing.assert_allclose(found.normal, [[1, 0, 0]], atol=1e-13)


def test_centred_tilted_bar_jams_between_two_opposite_points():
    """The ellipse has the half axis r/cos t along the tilt; the gap across the bar is R cos t - r."""
    for tilt in (0.1, math.acos(r / R), 0.5):
        found = meet([BAR, Ring(R)], [pose(q=about((0, 1, 0), tilt)), HERE], margin=0.05)
        assert found.feature.tolist() == [0, 1]
        np.testing.assert_allclose(found.gap, R * math.cos(tilt) - r, atol=1e-15)
        c, s = math.cos(tilt), math.sin(tilt)
        order = np.argsort(-found.normal[:, 0])
        np.testing.assert_allclose(found.normal[order], [[c, 0, -s], [-c, 0, s]], atol=1e-14)


def test_tilted_bar_pushed_along_and_across_its_tilt():
    tilt, offset = 0.05, 0.004
    q = about((0, 1, 0), tilt)  # leans along x
    ahead = meet([BAR, Ring(R)], [pose((offset, 0, 0), q), HERE])
    assert ahead.gap.min() == pytest.approx((R - offset) * math.cos(tilt) - r, abs=1e-15)
    aside = meet([BAR, Ring(R)], [pose((0, offset, 0), q), HERE])
    assert aside.gap.min() == pytest.approx(R - offset - r, abs=1e-15)  # k^2 R < offset: the side is nearest


def test_least_gap_against_looking_everywhere():
    rng = np.random.default_rng(2)
    for _ in range(20):
        q = about(rng.standard_normal(3) * [1, 1, 0], rng.uniform(0, 0.4))
        bar = pose(np.append(rng.uniform(-0.006, 0.006, 2), rng.uniform(-0.2, 0.2)), q)
        by = random_pose(rng)
        poses = [moved(bar, by), by]
        found = meet([BAR, Ring(R)], poses)
        assert found.gap.min() == pytest.approx(play(*poses), abs=1e-9)  # R (2 pi/50 000)^2/8 = 2e-10
        k = found.gap.argmin()
        u = rotation(poses[0].q)[:, 2]
        assert abs(found.normal[k] @ u) < 1e-13
        on_bar = found.point[k] - 0.5 * found.gap[k] * found.normal[k] - poses[0].x
        assert np.linalg.norm(np.cross(on_bar, u)) == pytest.approx(r, abs=1e-14)
        on_ring = rotation(by.q).T @ (found.point[k] + 0.5 * found.gap[k] * found.normal[k] - by.x)
        np.testing.assert_allclose([math.hypot(*on_ring[:2]), on_ring[2]], [R, 0.0], atol=1e-14)


def test_two_rings_limit_the_tilt():
    """Rings 0.4 m apart, bar turned about the middle: it touches both when r = R cos t - 0.2 sin t."""
    low, high = 0.0, 0.5
    for _ in range(60):
        tilt = 0.5 * (low + high)
        gap = min(
            meet([BAR, Ring(R)], [pose(q=about((0, 1, 0), tilt)), pose((0, 0, z))]).gap.min()
            for z in (-0.2, 0.2)
        )
        low, high = (tilt, high) if gap > 0.0 else (low, tilt)
    assert R * math.cos(tilt) - 0.2 * math.sin(tilt) == pytest.approx(r, abs=1e-15)


def test_no_contact_where_the_bar_does_not_pass_through():
    assert len(meet([BAR, Ring(R)], [pose((0, 0, 0.401)), HERE]).gap) == 0  # ends above the plane
    assert len(meet([BAR, Ring(R)], [pose((0, 0, 0.399)), HERE]).gap) == 1
    assert len(meet([BAR, Ring(R)], [pose((0.1, 0, 0)), HERE]).gap) == 0  # beside the hole
    assert len(meet([BAR, Ring(R)], [pose(q=about((1, 0, 0), math.pi / 2)), HERE]).gap) == 0  # in its plane
    assert len(meet([BAR, Ring(R)], [pose(), HERE], margin=0.007).gap) == 0  # R - r = 7.15 mm


@pytest.mark.parametrize("other", [Sphere(r), Box((0.1, 0.1, 0.8)), HalfSpace(), Ring(0.05)])
def test_only_bars_feel_a_ring(other):
    assert len(meet([other, Ring(R)], [pose((0.01, 0, 0)), HERE]).gap) == 0


def test_resting_bar_keeps_its_feature():
    rng = np.random.default_rng(3)
    for _ in range(200):
        q = about(rng.standard_normal(3), 1e-9)
        bar = pose([R - r, 0, 0] + 1e-10 * rng.standard_normal(3), q)
        found = meet([BAR, Ring(R)], [bar, HERE])
        assert found.feature.tolist() == [0]
        np.testing.assert_allclose(found.normal, [[1, 0, 0]], atol=1e-7)  # noise over offset


def test_contacts_turn_with_everything():
    rng = np.random.default_rng(4)
    for _ in range(50):
        poses = [pose(rng.uniform(-0.005, 0.005, 3), about(rng.standard_normal(3), 0.1)), HERE]
        same_when_moved([BAR, Ring(R)], poses, random_pose(rng))
