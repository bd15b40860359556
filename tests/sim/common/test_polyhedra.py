from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest

from tamis.sim.common import geometry as g
from tamis.sim.common.collide import narrow
from tamis.sim.common.polyhedra import polyhedra
from tamis.sim.common.shapes import Box, Contactor, Convex, Shape, geometry_of, hull_of
from tests.sim.common.compiled import collide, place
from tests.sim.common.poses import UPRIGHT, about, rotation

MARGIN = 0.01
CUBE = Box((1.0, 1.0, 1.0))
CUT_CUBE = Convex(
    tuple(
        tuple(s * c for s, c in zip(signs, corner, strict=True))
        for corner in ((0.55, 0.55, 0.3), (0.55, 0.3, 0.55), (0.3, 0.55, 0.55))
        for signs in itertools.product((-1.0, 1.0), repeat=3)
    )
)
GOLD = (1.0 + math.sqrt(5.0)) / 2.0
DODECAHEDRON = Convex(
    (
        *itertools.product((-1.0, 1.0), repeat=3),
        *((0.0, a / GOLD, b * GOLD) for a, b in itertools.product((-1, 1), repeat=2)),
        *((a / GOLD, b * GOLD, 0.0) for a, b in itertools.product((-1, 1), repeat=2)),
        *((b * GOLD, 0.0, a / GOLD) for a, b in itertools.product((-1, 1), repeat=2)),
    )
)


class Found(NamedTuple):
    """The contacts of one pair."""

    feature: np.ndarray
    point: np.ndarray
    normal: np.ndarray
    gap: np.ndarray
    geometry: g.Geometry
    world: g.World


def found(a: Shape, b: Shape, xa, xb, qa=UPRIGHT, qb=UPRIGHT, margin: float = MARGIN) -> Found:
    """Find the contacts of two shapes, with normals from the first towards the second."""
    geometry = geometry_of([Contactor(a, 0, 0), Contactor(b, 1, 0)])
    world = g.world(geometry)
    place(np.array([xa, xb], dtype=float), np.array([qa, qb], dtype=float), geometry, world)
    out = g.manifolds(64)
    n = collide(np.array([[0, 1]]), 1, geometry, world, margin, out, narrow(geometry, world, out))
    swapped = int(geometry.kind[0] > geometry.kind[1])  # the lower kind is a
    assert (out.a[:n] == swapped).all() and (out.b[:n] == 1 - swapped).all()
    normal = -out.normal[:n] if swapped else out.normal[:n]
    return Found(out.feature[:n], out.point[:n], normal, out.gap[:n], geometry, world)


def same_points(point: np.ndarray, expected, tol: float = 1e-14) -> bool:
    """Whether two sets of points are the same; a few roundings of coordinates of order one."""
    expected = np.array(expected)
    if point.shape != expected.shape:
        return False
    distance = np.linalg.norm(point[:, None] - expected[None], axis=2)
    return bool(distance.min(axis=1).max() < tol and distance.min(axis=0).max() < tol)


def square(x0: float, x1: float, y0: float, y1: float, z: float) -> list[tuple[float, float, float]]:
    return [(x0, y0, z), (x1, y0, z), (x1, y1, z), (x0, y1, z)]


@pytest.mark.parametrize("gap", [-0.1, -1e-9, 0.0, 1e-9, 0.004])
def test_equal_cubes_touch_at_their_corners(gap: float) -> None:
    c = found(CUBE, CUBE, (0, 0, 0), (0, 0, 1 + gap))
    assert same_points(c.point, square(-0.5, 0.5, -0.5, 0.5, 0.5 + gap / 2))
    assert (c.normal == [0, 0, 1]).all()
    np.testing.assert_allclose(c.gap, gap, atol=3e-16)


def test_beyond_the_margin_is_none() -> None:
    assert len(found(CUBE, CUBE, (0, 0, 0), (0, 0, 1.0101)).gap) == 0
    assert len(found(CUBE, CUBE, (0, 0, 0), (0, 0, 1.0099)).gap) == 4
    assert len(found(CUBE, CUBE, (0, 0, 0), (1.008, 1.008, 0)).gap) == 0  # each axis within, the distance not


def test_running_bond_is_cut_at_the_joint() -> None:
    block = Box((1.56, 0.76, 0.8))
    c = found(block, block, (0, 0, 0), (0.7825, 0, 0.8))
    assert same_points(c.point, square(0.0025, 0.78, -0.38, 0.38, 0.4))
    np.testing.assert_allclose(c.gap, 0.0, atol=1e-15)


@pytest.mark.parametrize("small_first", [True, False])
def test_face_inside_a_face(small_first: bool) -> None:
    small, large = Box((0.4, 0.2, 0.2)), Box((2.0, 3.0, 1.0))
    if small_first:
        c = found(small, large, (0.3, 0.5, 0.602), (0, 0, 0))
    else:
        c = found(large, small, (0, 0, 0), (0.3, 0.5, 0.602))
    assert same_points(c.point, square(0.1, 0.5, 0.4, 0.6, 0.501))
    np.testing.assert_allclose(c.gap, 0.002, atol=1e-15)
    assert (c.normal == [0, 0, -1 if small_first else 1]).all()


def test_crossed_planks_touch_over_their_crossing() -> None:
    """Half the corners are cuts of edges by edges; turned by 30 degrees the crossing is a parallelogram."""
    plank = Box((4.0, 0.5, 0.2))
    angle = math.pi / 6
    c = found(plank, plank, (0, 0, 0), (0, 0, 0.2), qb=about((0, 0, 1), angle))
    long, across = 0.25 / math.sin(angle), 0.25 / math.tan(angle)
    assert same_points(
        c.point, [(s * long - t * -across, t * 0.25, 0.1) for s, t in itertools.product((-1, 1), repeat=2)]
    )
    assert (c.feature >> 60 == 2).all()  # edge on edge, all of them


def test_corner_on_face() -> None:
    """A cube on its corner: the way from corner to middle is half the space diagonal."""
    tip = about((1, -1, 0), math.atan(math.sqrt(2.0)))
    for b in (CUBE, Convex(tuple(map(tuple, hull_of(CUBE).vertices)))):
        c = found(Box((4.0, 4.0, 1.0)), b, (0, 0, 0), (0.1, 0.2, 0.5 + math.sqrt(0.75) - 0.003), qb=tip)
        assert same_points(c.point, [(0.1, 0.2, 0.4985)])
        np.testing.assert_allclose(c.gap, [-0.003], atol=1e-15)
        np.testing.assert_allclose(c.normal, [[0, 0, 1]], atol=1e-15)


def test_edge_on_face() -> None:
    c = found(
        Box((4.0, 4.0, 1.0)),
        CUBE,
        (0, 0, 0),
        (0, 0, 0.501 + math.sqrt(0.5)),
        qb=about((1, 0, 0), math.pi / 4),
    )
    assert same_points(c.point, [(-0.5, 0, 0.5005), (0.5, 0, 0.5005)])
    np.testing.assert_allclose(c.gap, 0.001, atol=1e-15)


@pytest.mark.parametrize("gap", [-0.05, -1e-6, 1e-6, 0.005])
def test_edge_across_edge(gap: float) -> None:
    """Two cubes on their edges, one along x, one along y, the upper one moved a little along both."""
    for a, b in itertools.product((CUBE, Convex(tuple(map(tuple, hull_of(CUBE).vertices)))), repeat=2):
        c = found(
            *(a, b, (0, 0, 0), (0.2, 0.1, math.sqrt(2.0) + gap)),
            *(about((1, 0, 0), math.pi / 4), about((0, 1, 0), math.pi / 4)),
        )
        assert same_points(c.point, [(0.2, 0.0, math.sqrt(0.5) + gap / 2)])
        np.testing.assert_allclose(c.normal, [[0, 0, 1]], atol=1e-15)
        np.testing.assert_allclose(c.gap, [gap], atol=1e-15)


def test_parallel_edges_apart() -> None:
    """No axis separates edge from edge: the distance is told all the same, at both ends of the common stretch."""
    for shape in (CUBE, Convex(tuple(map(tuple, hull_of(CUBE).vertices)))):
        c = found(CUBE, shape, (0, 0, 0), (0.3, 1.003, 1.004))
        assert same_points(c.point, [(-0.2, 0.5015, 0.502), (0.5, 0.5015, 0.502)])
        np.testing.assert_allclose(c.gap, 0.005, rtol=1e-12)
        np.testing.assert_allclose(c.normal, [[0, 0.6, 0.8]] * 2, atol=1e-12)


def test_corner_towards_corner() -> None:
    c = found(CUBE, CUBE, (0, 0, 0), (1.002, 1.003, 1.006))
    assert same_points(c.point, [(0.501, 0.5015, 0.503)])
    np.testing.assert_allclose(c.gap, [0.007], rtol=1e-12)
    np.testing.assert_allclose(c.normal, [[2 / 7, 3 / 7, 6 / 7]], rtol=1e-12)


def test_eight_corners_of_the_projectile() -> None:
    """The cut cube has octagons for faces; one lies whole on a block."""
    c = found(Box((1.56, 0.76, 0.8)), CUT_CUBE, (0, 0, 0), (0, 0.38 + 0.55 + 1e-3, 0), margin=2e-3)
    hull = hull_of(CUT_CUBE)
    face = hull.vertices[np.abs(hull.vertices[:, 1] + 0.55) < 1e-12]
    inside = face[np.abs(face[:, 2]) <= 0.4]
    assert len(face) == 8 and len(hull.loops) == 14 and len(inside) == 4
    # the block is 0.8 high: it cuts the slanting sides at z = +-0.4, where |x| = 0.55 - (0.4 - 0.3) = 0.45
    expected = [(x, 0.3805, z) for x, _, z in inside] + [
        (s * 0.45, 0.3805, t * 0.4) for s in (-1, 1) for t in (-1, 1)
    ]
    assert same_points(c.point, expected)
    np.testing.assert_allclose(c.gap, 1e-3, atol=1e-15)


def test_least_overlap_decides_the_normal() -> None:
    """Overlaps 0.20, 0.15, 0.18 along x, y, z: a fifth of the size, and still along y."""
    c = found(CUBE, CUBE, (0, 0, 0), (0.8, 0.85, -0.82))
    assert (c.normal == [0, 1, 0]).all() and len(c.gap) == 4
    np.testing.assert_allclose(c.gap, -0.15, atol=1e-15)


def test_room_is_respected_and_all_are_counted() -> None:
    geometry = geometry_of([Contactor(CUBE, 0, 0), Contactor(CUBE, 1, 0)])
    world = g.world(geometry)
    place(np.array([[0, 0, 0], [0, 0, 1.0]]), np.array([UPRIGHT, UPRIGHT]), geometry, world)
    out = g.manifolds(6)
    out.feature[:] = -1
    assert polyhedra(0, 1, geometry, world, MARGIN, g.Manifolds(*(part[:5] for part in out)), 3) == 7
    assert (out.feature[:3] == -1).all() and (out.feature[3:5] >= 0).all() and out.feature[5] == -1


def resting() -> list[tuple[str, tuple]]:
    """Pairs at rest in positions full of ties."""
    edge = about((1, 0, 0), math.pi / 4)
    normal = hull_of(DODECAHEDRON).normals[0]
    flat = about(tuple(np.cross(normal, [0, 0, -1])), math.acos(-normal[2]))
    height = hull_of(DODECAHEDRON).vertices @ normal
    return [
        ("flush cubes", (CUBE, CUBE, (0, 0, 0), (0, 0, 1.0))),
        ("running bond", (Box((1.56, 0.76, 0.8)), Box((1.56, 0.76, 0.8)), (0, 0, 0), (0.7825, 0, 0.8))),
        ("half block", (Box((1.56, 0.76, 0.8)), Box((0.78, 0.76, 0.8)), (0, 0, 0), (-0.39, 0, 0.8))),
        ("quarter turn", (CUBE, CUBE, (0, 0, 0), (0, 0, 1.0), UPRIGHT, about((0, 0, 1), math.pi / 2))),
        ("eighth turn", (CUBE, CUBE, (0, 0, 0), (0, 0, 1.0), UPRIGHT, about((0, 0, 1), math.pi / 4))),
        ("on edge", (CUBE, CUBE, (0, 0, 0), (0, 0, 0.5 + math.sqrt(0.5)), UPRIGHT, edge)),
        ("edge on edge", (CUBE, CUBE, (0, 0, 0), (0, 0, math.sqrt(2.0)), edge, edge)),
        ("projectile on block", (Box((3.0, 3.0, 1.0)), CUT_CUBE, (0, 0, 0), (0, 0, 1.05))),
        ("two projectiles", (CUT_CUBE, CUT_CUBE, (0, 0, 0), (0, 0, 1.1))),
        ("two grains", (DODECAHEDRON, DODECAHEDRON, (0, 0, 0), tuple(2 * height.max() * normal))),
        (
            "grain on block",
            (Box((9.0, 9.0, 1.0)), DODECAHEDRON, (0, 0, 0), (0, 0, 0.5 + height.max()), UPRIGHT, flat),
        ),
    ]


@pytest.mark.parametrize(
    ("name", "pair"), resting(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_noise_changes_no_feature(name: str, pair: tuple) -> None:
    """Places and turns shaken by 1e-9: contacts keep their number, names and order, and hardly move."""
    a, b, xa, xb, qa, qb = (*pair, UPRIGHT, UPRIGHT)[:6]
    still = found(a, b, xa, xb, qa, qb)
    assert len(still.gap) >= 2 and abs(still.gap).max() < 1e-14
    rng = np.random.default_rng(0)
    for _ in range(100):
        shaken = [np.array(v) + 1e-9 * rng.standard_normal(len(v)) for v in (xa, xb, qa, qb)]
        shaken[2:] = [q / np.linalg.norm(q) for q in shaken[2:]]
        c = found(a, b, *shaken)
        assert c.feature.tolist() == still.feature.tolist()
        # a point on the joint of two nearly parallel sides moves along it; here noise / angle stays below 1e-7
        assert abs(c.point - still.point).max() < 1e-7 and abs(c.gap).max() < 1e-7


def test_slow_sliding_changes_features_only_at_events() -> None:
    """A cube slides off another one by 0.9 in 900 steps: one change, when its corners leave the face."""
    names = [found(CUBE, CUBE, (0, 0, 0), (0.9 * k / 900, 0, 1.0)).feature.tolist() for k in range(901)]
    assert sum(a != b for a, b in itertools.pairwise(names)) == 1


def random_shape(rng: np.random.Generator) -> Shape:
    kind = rng.integers(3)
    if kind == 0:
        return Box(tuple(rng.uniform(0.3, 2.0, 3)))
    if kind == 1:
        return DODECAHEDRON
    return Convex(tuple(map(tuple, rng.standard_normal((rng.integers(4, 20), 3)) * rng.uniform(0.3, 1.0, 3))))


def best_axis(geometry: g.Geometry, world: g.World) -> float:
    """The greatest gap over all face normals and all products of edges, without any short cut."""
    corners, axes, edges = [], [], []
    for k, sign in ((0, 1.0), (1, -1.0)):
        corners.append(world.vertices[geometry.vertex_start[k] : geometry.vertex_start[k + 1]])
        axes.append(sign * world.normals[geometry.face_start[k] : geometry.face_start[k + 1]])
        ends = geometry.edges[geometry.edge_start[k] : geometry.edge_start[k + 1]]
        edges.append(world.vertices[ends[:, 1]] - world.vertices[ends[:, 0]])
    crossed = np.cross(edges[0][:, None], edges[1][None]).reshape(-1, 3)
    length = np.linalg.norm(crossed, axis=1)
    crossed = crossed[length > 1e-6] / length[length > 1e-6, None]
    along = np.concatenate([*axes, crossed, -crossed])
    return float(((corners[1] @ along.T).min(axis=0) - (corners[0] @ along.T).max(axis=0)).max())


def random_pairs(n: int, seed: int, low: float, high: float):
    """Pairs in random turns whose best axis has a gap between ``low`` and ``high``."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        a, b = sorted((random_shape(rng), random_shape(rng)), key=lambda shape: isinstance(shape, Convex))
        q = rng.standard_normal((2, 4))
        q /= np.linalg.norm(q, axis=1)[:, None]
        way = rng.standard_normal(3)
        way /= np.linalg.norm(way)
        wanted, near, far = rng.uniform(low, high), 0.0, 20.0
        geometry = geometry_of([Contactor(a, 0, 0), Contactor(b, 1, 0)])
        world = g.world(geometry)
        for _ in range(25):
            x = np.array([np.zeros(3), 0.5 * (near + far) * way])
            place(x, q, geometry, world)
            near, far = (x[1] @ way, far) if best_axis(geometry, world) < wanted else (near, x[1] @ way)
        yield a, b, x + rng.standard_normal(3), q


def height_over(c: Found, k: int, points: np.ndarray) -> np.ndarray:
    """How far points are outside of polyhedron ``k``."""
    faces = range(c.geometry.face_start[k], c.geometry.face_start[k + 1])
    corner = c.world.vertices[c.geometry.loops[c.geometry.loop_start[list(faces)]]]
    normal = c.world.normals[list(faces)]
    return (points @ normal.T - (corner * normal).sum(axis=1)).max(axis=1)


def test_overlaps_against_all_axes() -> None:
    for a, b, x, q in random_pairs(40, 1, -0.1, 0.0):
        c = found(a, b, *x, *q)
        best = best_axis(c.geometry, c.world)
        # a face stands for an edge axis within 2.6 degrees of it, and its gap is greater by 1/cos, 1e-3, at most
        assert 1.0011 * best - 1e-5 <= c.gap.min() <= 0.9999 * best + 1e-5
        np.testing.assert_allclose(np.linalg.norm(c.normal, axis=1), 1.0, rtol=1e-14)
        assert (
            len(set(c.feature.tolist())) == len(c.gap)
            and (c.feature >= 0).all()
            and (c.feature < 2**62).all()
        )


def test_points_lie_on_both_bodies() -> None:
    """Half the gap to either side of a point there is a point of each polyhedron; ties are 1e-6 of the size."""
    for a, b, x, q in random_pairs(40, 2, -0.05, 0.01):
        c = found(a, b, *x, *q)
        for k, side in ((0, -0.5), (1, 0.5)):
            if len(c.gap):
                assert height_over(c, k, c.point + side * c.gap[:, None] * c.normal).max() < 2e-6


def test_distances_against_coal() -> None:
    coal = pytest.importorskip("coal")

    def solid(shape: Shape):
        points = coal.StdVec_Vec3s()
        points.extend([np.array(v) for v in hull_of(shape).vertices])
        return coal.Convex.convexHull(points, False, "Qt")

    seen = set()
    request = coal.DistanceRequest()
    request.gjk_tolerance = 1e-10
    for a, b, x, q in random_pairs(50, 3, 0.0, 0.035):
        places = [coal.Transform3s(rotation(q[k]), x[k]) for k in range(2)]
        distance = coal.distance(solid(a), places[0], solid(b), places[1], request, coal.DistanceResult())
        c = found(a, b, *x, *q, margin=0.03)
        seen.add(len(c.gap) > 0)
        if len(c.gap) == 0:
            assert distance > 0.03 - 1e-6
        else:
            assert distance - 1e-6 <= c.gap.min() <= 1.1 * distance + 2e-6  # 1.1: the slack of the search
    assert seen == {True, False}


def test_exchange_of_the_two() -> None:
    """The same points and gaps, opposite normals, where the choice of face is no tie."""
    for a, b, x, q in random_pairs(25, 4, -0.05, 0.005):
        c, d = found(a, b, *x, *q), found(b, a, *x[::-1], *q[::-1])
        assert same_points(c.point, d.point, 1e-9)
        np.testing.assert_allclose(np.sort(c.gap), np.sort(d.gap), atol=1e-12)
        np.testing.assert_allclose(c.normal[0], -d.normal[0], atol=1e-12)


def test_rotation_of_everything() -> None:
    rng = np.random.default_rng(5)
    pairs = [(a, b, np.array(x), np.array(q)) for a, b, x, q in random_pairs(20, 6, -0.05, 0.01)]
    pairs += [
        (a, b, np.array([xa, xb]), np.array([*q, UPRIGHT, UPRIGHT][:2]))
        for _, (a, b, xa, xb, *q) in resting()
    ]
    for a, b, x, q in pairs:
        r = rng.standard_normal(4)
        r /= np.linalg.norm(r)
        turned = np.empty((2, 4))
        for k in range(2):
            g.times(r, q[k], turned[k])
        c, d = found(a, b, *x, *q), found(a, b, *(x @ rotation(r).T), *turned)
        assert c.feature.tolist() == d.feature.tolist()
        np.testing.assert_allclose(d.point, c.point @ rotation(r).T, atol=1e-11)
        np.testing.assert_allclose(d.normal, c.normal @ rotation(r).T, atol=1e-11)
        np.testing.assert_allclose(d.gap, c.gap, atol=1e-13)
