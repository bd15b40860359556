"""Mass properties of parts that overlap, against closed forms and against counting points."""

import math

import numpy as np
import pytest

from tamis.sim.common.rotations import rotation
from tamis.sim.common.shapes import Box, Capsule, Convex, Cylinder, Sphere, mass_of
from tamis.sim.common.unions import may_overlap, union_mass

UPRIGHT = (1.0, 0.0, 0.0, 0.0)
HERE = (0.0, 0.0, 0.0)
ASKEW = (0.3, 0.5, -0.2, 0.7)
POINTS = tuple(map(tuple, np.random.default_rng(0).normal(size=(12, 3)).tolist()))


def stadium(turn=UPRIGHT, half=False):
    """A box with half-discs on two sides: parts, and volume, centre along x and moments by closed forms."""
    R, H = 0.38, 0.8
    length = 0.4 if half else 0.8
    start = 0.0 if half else -0.4
    parts = [(Box((length, 2 * R, H)), (start + 0.5 * length, 0.0, 0.0), turn)]
    parts += [(Cylinder(R, H), (x, 0.0, 0.0), turn) for x in ((0.0,) if half else (-0.4, 0.4))]
    end, middle = 0.5 * math.pi * R**2, 4.0 * R / (3.0 * math.pi)
    pieces = [(2 * R * length, start + 0.5 * length, length**2 / 12.0, R**2 / 3.0)]
    for x, side in ((start, -1.0), (start + length, 1.0))[: 1 if half else 2]:
        pieces.append((end, x + side * middle, 0.25 * R**2 - middle**2, 0.25 * R**2))
    area = sum(piece[0] for piece in pieces)
    centre = sum(a * x for a, x, _, _ in pieces) / area
    xx = sum(a * (own + (x - centre) ** 2) for a, x, own, _ in pieces)
    yy = sum(a * own for a, _, _, own in pieces)
    zz = area * H**2 / 12.0
    return parts, area * H, centre, H * np.array([yy + zz, xx + zz, xx + yy])


@pytest.mark.parametrize("half", [False, True])
def test_a_block_with_round_ends(half):
    """1e-6: half of the cells' share is what is left at the ends of the half-discs, where the chord is a root.

    The half-block, a box of 0.4 m, also has what its cylinder adds within the box counted once.
    """
    parts, volume, centre, moments = stadium(half=half)
    found = union_mass(tuple(parts))
    assert found.volume == pytest.approx(volume, rel=1e-6)
    np.testing.assert_allclose(found.centre, [centre, 0.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(np.diag(found.inertia), moments, rtol=3e-6)
    assert np.abs(found.inertia - np.diag(np.diag(found.inertia))).max() < 1e-12


@pytest.mark.parametrize(
    "shape", [Box((0.3, 0.5, 0.7)), Cylinder(0.3, 0.5), Sphere(0.4), Capsule(0.2, 0.5), Convex(POINTS)]
)
def test_one_shape_askew_and_twice_the_same(shape):
    """3e-5: corners of cells that no point of the rule sees, as the module says."""
    at, R, exact = (0.1, 0.2, 0.3), rotation(ASKEW), mass_of(shape)
    for parts in (((shape, at, ASKEW),), ((shape, at, ASKEW), (shape, at, ASKEW))):
        found = union_mass(parts)
        assert found.volume == pytest.approx(exact.volume, rel=3e-5)
        np.testing.assert_allclose(found.centre, np.array(at) + R @ exact.centre, atol=3e-5)
        np.testing.assert_allclose(found.inertia, R @ exact.inertia @ R.T, atol=6e-5 * exact.inertia.max())


def test_two_spheres_share_a_lens():
    d, r = 0.5, 0.4
    lens = math.pi * (4 * r + d) * (2 * r - d) ** 2 / 12.0
    found = union_mass(((Sphere(r), HERE, UPRIGHT), (Sphere(r), (0.3, 0.4, 0.0), UPRIGHT)))
    assert found.volume == pytest.approx(2 * mass_of(Sphere(r)).volume - lens, rel=3e-5)
    np.testing.assert_allclose(found.centre, [0.15, 0.2, 0.0], atol=1e-5)


def test_a_block_turned_is_a_block_turned():
    straight = union_mass(tuple(stadium()[0]))
    R = rotation(ASKEW)
    parts = tuple((s, tuple((R @ np.array(at)).tolist()), ASKEW) for s, at, _ in stadium()[0])
    found = union_mass(parts)
    assert found.volume == pytest.approx(straight.volume, rel=1e-5)
    np.testing.assert_allclose(found.inertia, R @ straight.inertia @ R.T, atol=1e-5 * straight.inertia.max())


def test_parts_apart_need_no_looking():
    apart = [(Sphere(0.1), HERE, UPRIGHT), (Box((0.1, 0.1, 0.1)), (0.3, 0.0, 0.0), UPRIGHT)]
    assert not may_overlap(apart)
    assert may_overlap([*apart, (Sphere(0.15), HERE, UPRIGHT)])
