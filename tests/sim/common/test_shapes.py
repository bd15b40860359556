from __future__ import annotations

import math
import time

import numpy as np
import pytest

from tamis.errors import StudyError
from tamis.sim.common import geometry as g
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
    hull_of,
    mass_of,
    reach_of,
)

CUBE = np.array([[x, y, z] for z in (-1, 1) for y in (-1, 1) for x in (-1, 1)], dtype=float)


def turn_of(rng: np.random.Generator) -> np.ndarray:
    return np.linalg.qr(rng.standard_normal((3, 3)))[0]


def check_hull(hull, tolerance=1e-12):
    """Euler's formula, outward loops and normals, edges that belong to their faces, convexity."""
    v, loops, e = hull.vertices, hull.loops, hull.edges
    assert len(v) - len(e) + len(loops) == 2
    for f, loop in enumerate(loops):
        height = (v - v[loop[0]]) @ hull.normals[f]
        assert np.abs(height[list(loop)]).max() < tolerance  # in the plane
        assert height.max() < tolerance  # nothing beyond
        assert np.sum(height > -tolerance) == len(loop)  # whole face
        corners = v[list(loop)]
        turns = np.cross(np.roll(corners, -1, 0) - corners, np.roll(corners, -2, 0) - np.roll(corners, -1, 0))
        assert (turns @ hull.normals[f] > 0.0).all()
    for (a, b), (f, h) in zip(e, hull.edge_faces, strict=True):
        assert a < b
        runs = [(loop[i - 1], loop[i]) for loop in (loops[f],) for i in range(len(loop))]
        against = [(loop[i], loop[i - 1]) for loop in (loops[h],) for i in range(len(loop))]
        assert (a, b) in runs and (a, b) in against


def test_box_hull_numbers_are_as_documented():
    hull = hull_of(Box((2.0, 4.0, 6.0)))
    check_hull(hull)
    np.testing.assert_array_equal(hull.vertices[1 + 4], [1.0, -2.0, 3.0])
    expected = [[-1, 0, 0], [1, 0, 0], [0, -1, 0], [0, 1, 0], [0, 0, -1], [0, 0, 1]]
    np.testing.assert_array_equal(hull.normals, expected)


def test_cube_of_points_has_six_whole_faces():
    extra = [
        [0.3, 0.2, 1.0],
        [1.0, 1.0, 0.1],
        [0.0, 0.0, 0.0],
        [1.0, 1.0, 1.0],
    ]  # on a face, an edge, inside, twice
    rng = np.random.default_rng(1)
    for _ in range(20):
        turn = turn_of(rng)
        hull = hull_of(Convex(np.vstack([CUBE, extra]) @ turn.T + rng.standard_normal(3)))
        check_hull(hull)
        assert len(hull.vertices) == 8 and sorted(map(len, hull.loops)) == [4] * 6 and len(hull.edges) == 12


def test_noise_along_an_edge_neither_adds_corners_nor_joins_faces():
    rng = np.random.default_rng(2)
    along = np.array([[1.0, 1.0, z] for z in np.linspace(-0.9, 0.9, 7)])
    for _ in range(20):
        noisy = np.vstack([CUBE, along + 1e-10 * rng.standard_normal(along.shape)])
        hull = hull_of(Convex(noisy))
        assert len(hull.vertices) == 8 and len(hull.loops) == 6
        check_hull(hull, tolerance=1e-9)


def test_random_hulls_are_sound():
    rng = np.random.default_rng(3)
    for n in (4, 5, 8, 20, 100):
        for _ in range(5):
            points = rng.standard_normal((n, 3))
            hull = hull_of(Convex(points))
            check_hull(hull)
            assert hull is hull_of(Convex(points.tolist()))  # equal shapes share one hull


def test_hull_of_a_prism_with_many_sides():
    turns = np.linspace(0.0, 2.0 * math.pi, 24, endpoint=False)
    rim = np.column_stack([np.cos(turns), np.sin(turns), np.zeros(24)])
    hull = hull_of(Convex(np.vstack([rim, rim + np.array([0.0, 0.0, 2.0])])))
    check_hull(hull)
    assert sorted(map(len, hull.loops)) == [4] * 24 + [24, 24]


@pytest.mark.parametrize(
    ("points", "says"),
    [
        (CUBE[:3], "too few points, 3"),
        (np.vstack([CUBE[:3], CUBE[:3]]), "too few points, 3"),
        (np.outer(np.arange(5.0), [1.0, 2.0, 3.0]), "on one line"),
        (CUBE[:4] @ turn_of(np.random.default_rng(0)), "flat"),
    ],
)
def test_degenerate_hulls_are_refused_with_words(points, says):
    with pytest.raises(StudyError, match=says):
        hull_of(Convex(points))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sphere(0.0),
        lambda: Sphere(math.nan),
        lambda: Box((1.0, -1.0, 1.0)),
        lambda: Box((1.0, 1.0)),
        lambda: Cylinder(1.0, 0.0),
        lambda: Capsule(-1.0, 1.0),
        lambda: Ring(math.inf),
        lambda: Convex([[0.0, 0.0], [1.0, 1.0]]),
        lambda: Convex([[0.0, 0.0, math.nan]] * 4),
        lambda: geometry_of([Contactor(Sphere(1.0), 0, 0, turn=(0.0, 0.0, 0.0, 0.0))]),
        lambda: geometry_of([Contactor(Sphere(1.0), 0, 0, centre=(0.0, math.nan, 0.0))]),
    ],
)
def test_bad_shapes_are_refused(make):
    with pytest.raises(StudyError):
        make()


def test_mass_of_a_box_as_points_equals_that_of_the_box():
    box = Box((1.0, 2.0, 3.0))
    exact = mass_of(box)
    assert exact.volume == 6.0
    np.testing.assert_allclose(np.diag(exact.inertia), [6.5, 5.0, 2.5], rtol=1e-15)  # V (b^2 + c^2)/12
    rng = np.random.default_rng(4)
    turn, shift = turn_of(rng), rng.standard_normal(3)
    found = mass_of(Convex(hull_of(box).vertices @ turn.T + shift))
    assert found.volume == pytest.approx(6.0, rel=1e-13)
    np.testing.assert_allclose(found.centre, shift, atol=1e-13)
    np.testing.assert_allclose(found.inertia, turn @ exact.inertia @ turn.T, atol=1e-12)


def test_mass_of_the_corner_tetrahedron():
    found = mass_of(Convex([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]))
    assert found.volume == pytest.approx(1.0 / 6.0, rel=1e-15)
    np.testing.assert_allclose(found.centre, [0.25] * 3, rtol=1e-14)
    # int x^2 = 1/60, int x y = 1/120 about the corner; minus V/16 about the centre
    square, product = 1.0 / 60.0 - 1.0 / 96.0, 1.0 / 120.0 - 1.0 / 96.0
    expected = np.full((3, 3), -product) + np.eye(3) * (2.0 * square + product)
    np.testing.assert_allclose(found.inertia, expected, atol=1e-16)


def test_mass_of_round_shapes_by_slices():
    """Each shape is a stack of discs: integrate them by Gauss-Legendre, exact for these polynomials."""
    nodes, weights = np.polynomial.legendre.leggauss(8)

    def stack(radius_squared, low, high):
        z = 0.5 * (high + low) + 0.5 * (high - low) * nodes
        area = math.pi * radius_squared(z) * weights * 0.5 * (high - low)
        return np.array(
            [area.sum(), (area * (radius_squared(z) / 4 + z * z)).sum(), (area * radius_squared(z) / 2).sum()]
        )

    r, length = 0.7, 1.9
    half = 0.5 * length
    ball = stack(lambda z: r * r - z * z, -r, r)
    bar = stack(lambda z: 0.0 * z + r * r, -half, half)
    ends = 2.0 * stack(lambda z: r * r - (z - half) ** 2, half, half + r)
    for shape, expected in ((Sphere(r), ball), (Cylinder(r, length), bar), (Capsule(r, length), bar + ends)):
        found = mass_of(shape)
        inertia = found.inertia
        np.testing.assert_allclose([found.volume, inertia[0, 0], inertia[2, 2]], expected, rtol=1e-13)
        assert inertia[1, 1] == inertia[0, 0] and np.count_nonzero(inertia) == 3 and not found.centre.any()


def test_shapes_without_mass():
    assert mass_of(HalfSpace()).volume == 0.0 == mass_of(Ring(1.0)).volume
    assert hull_of(Ring(1.0)) is None and hull_of(Sphere(1.0)) is None


def test_reach():
    assert reach_of(Sphere(2.0)) == 2.0 == reach_of(Ring(2.0))
    assert reach_of(Box((2.0, 4.0, 4.0))) == 3.0
    assert reach_of(Cylinder(3.0, 8.0)) == 5.0
    assert reach_of(Capsule(3.0, 8.0)) == 7.0
    assert reach_of(Convex(CUBE + np.array([3.0, 0.0, 0.0]))) == pytest.approx(math.sqrt(18.0))
    assert reach_of(HalfSpace()) == math.inf


def test_geometry_holds_what_was_given():
    tetrahedron = Convex([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    shapes = [
        Ring(0.3),
        Box((2, 4, 6)),
        Sphere(2.0),
        tetrahedron,
        Capsule(1.0, 3.0),
        Cylinder(1.0, 3.0),
        HalfSpace(),
    ]
    shapes.append(tetrahedron)
    found = geometry_of([Contactor(s, 10 + i, i % 3, (i, 0, 0), (0, 0, 2, 0)) for i, s in enumerate(shapes)])
    kinds = [g.RING, g.BOX, g.SPHERE, g.CONVEX, g.CAPSULE, g.CYLINDER, g.HALFSPACE, g.CONVEX]
    assert found.kind.tolist() == kinds
    assert found.body.tolist() == list(range(10, 18)) and found.group.tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    np.testing.assert_array_equal(
        found.size[[0, 1, 2, 4, 5]], [[0.3, 0, 0], [1, 2, 3], [2, 0, 0], [1, 1.5, 0], [1, 1.5, 0]]
    )
    np.testing.assert_array_equal(found.turn, [[0, 0, 1, 0]] * 8)
    np.testing.assert_array_equal(found.centre[:, 0], np.arange(8))
    assert found.vertex_start.tolist() == [0, 0, 8, 8, 12, 12, 12, 12, 16]
    assert found.face_start.tolist() == [0, 0, 6, 6, 10, 10, 10, 10, 14]
    assert found.edge_start.tolist() == [0, 0, 12, 12, 18, 18, 18, 18, 24]
    for k in (1, 3, 7):
        first, faces = found.vertex_start[k], found.face_start[k]
        hull = hull_of(shapes[k])
        np.testing.assert_array_equal(found.vertices[first : found.vertex_start[k + 1]], hull.vertices)
        np.testing.assert_array_equal(found.normals[faces : found.face_start[k + 1]], hull.normals)
        np.testing.assert_array_equal(
            found.edges[found.edge_start[k] : found.edge_start[k + 1]], hull.edges + first
        )
        np.testing.assert_array_equal(
            found.edge_faces[found.edge_start[k] : found.edge_start[k + 1]], hull.edge_faces + faces
        )
        for f, loop in enumerate(hull.loops):
            part = found.loops[found.loop_start[faces + f] : found.loop_start[faces + f + 1]]
            assert tuple(part - first) == loop
    assert all(
        getattr(found, name).dtype == np.int64
        for name in ("kind", "loops", "loop_start", "edges", "edge_faces")
    )


def test_geometry_without_polyhedra_has_empty_arrays_of_the_right_shape():
    found = geometry_of([Contactor(Sphere(1.0), 0, 0)])
    assert found.vertices.shape == (0, 3) and found.edges.shape == (0, 2) and found.loop_start.tolist() == [0]


def test_twenty_thousand_equal_grains_cost_one_hull():
    shape = Convex(np.random.default_rng(5).standard_normal((20, 3)))
    start = time.process_time()
    found = geometry_of([Contactor(shape, i, 0) for i in range(20_000)])
    assert time.process_time() - start < 5.0  # 0.7 s where it was written; one hull each would be over 20 s
    assert len(found.kind) == 20_000 and found.loops.max() == len(found.vertices) - 1
