from __future__ import annotations

import math

import numpy as np
import pytest

from tamis.sim.common.rounds import rounds
from tamis.sim.common.shapes import Box, Capsule, Convex, Cylinder, Sphere, hull_of
from tests.sim.common.test_planes import about, meet, pose, product, random_pose, rotation, same_when_moved

LYING = about((0, 1, 0), math.pi / 2)  # axis along x


def support(shape, at, directions):
    """The farthest points of a placed shape, straight from the definitions of the shapes."""
    turn = rotation(at.q)
    d = directions @ turn
    match shape:
        case Sphere(r):
            x = r * d
        case Box() | Convex():
            vertices = hull_of(shape).vertices
            x = vertices[(d @ vertices.T).argmax(axis=1)]
        case Cylinder(r, length) | Capsule(r, length):
            x = np.zeros_like(d)
            x[:, 2] = 0.5 * length * np.sign(d[:, 2])
            if isinstance(shape, Capsule):
                x += r * d
            else:
                x[:, :2] += r * d[:, :2] / np.maximum(np.linalg.norm(d[:, :2], axis=1), 1e-300)[:, None]
    return x @ turn.T + at.x


def separation(shapes, poses, normals):
    """How far the shapes are apart along directions from the first to the second."""
    normals = normals / np.linalg.norm(normals, axis=1)[:, None]
    near, far = support(shapes[0], poses[0], normals), support(shapes[1], poses[1], -normals)
    return np.einsum("ni,ni->n", far - near, normals)


def sphere_of_directions(n):
    k = np.arange(n) + 0.5
    z, turn = 1.0 - 2.0 * k / n, math.pi * (1.0 + math.sqrt(5.0)) * k
    return np.column_stack([np.sqrt(1 - z * z) * np.cos(turn), np.sqrt(1 - z * z) * np.sin(turn), z])


DIRECTIONS = sphere_of_directions(4000)
STEPS = sphere_of_directions(200)


def ridges(shapes, poses):
    """The axes and edges across which a support function has a kink."""
    found = []
    for shape, at in zip(shapes, poses, strict=True):
        if isinstance(shape, Box | Convex):
            hull = hull_of(shape)
            runs = hull.vertices[hull.edges[:, 1]] - hull.vertices[hull.edges[:, 0]]
            found.append((runs / np.linalg.norm(runs, axis=1)[:, None]) @ rotation(at.q).T)
        elif isinstance(shape, Cylinder | Capsule):
            found.append(rotation(at.q).T[2:])
    return np.vstack([*found, np.zeros((0, 3))])


def signed_distance(shapes, poses, also=()):
    """The largest separation over all directions and its direction, by sampling ever nearer to the best ones.

    Kinks are where the best ones like to be, so samples are put on them too.
    """
    axes = ridges(shapes, poses)
    crossings = np.cross(axes[:, None], axes[None]).reshape(-1, 3)
    sharp = np.vstack([axes, crossings[np.linalg.norm(crossings, axis=1) > 1e-6]])
    ball = np.vstack([DIRECTIONS, sharp, -sharp, *also])
    ball /= np.linalg.norm(ball, axis=1)[:, None]
    found = separation(shapes, poses, ball)
    best, normal = -math.inf, ball[0]
    for start in np.argsort(-found)[:4]:
        at, size = ball[start], 0.05
        while size > 1e-10:
            near = at + size * STEPS
            on = [near - np.outer(near @ w, w) for w in axes if abs(at @ w) < 2.0 * size]
            near = np.vstack([at, near, *on])
            values = separation(shapes, poses, near)
            at = near[values.argmax()] / np.linalg.norm(near[values.argmax()])
            size *= 0.6
        if values.max() > best:
            best, normal = values.max(), at
    return best, normal


def holds(shape, at, x, tolerance):
    """Whether a point belongs to a placed shape, give or take."""
    y = rotation(at.q).T @ (x - at.x)
    match shape:
        case Sphere(r):
            return np.linalg.norm(y) <= r + tolerance
        case Box() | Convex():
            hull = hull_of(shape)
            corners = hull.vertices[[loop[0] for loop in hull.loops]]
            return (np.einsum("fi,fi->f", y - corners, hull.normals) <= tolerance).all()
        case Cylinder(r, length):
            return math.hypot(y[0], y[1]) <= r + tolerance and abs(y[2]) <= 0.5 * length + tolerance
        case Capsule(r, length):
            y[2] -= min(max(y[2], -0.5 * length), 0.5 * length)
            return np.linalg.norm(y) <= r + tolerance


def near_pose(rng, shapes, spread=0.1):
    """Poses in which the second shape is about as far from the first as asked, or as deep in it."""
    first, second = pose(q=rng.standard_normal(4)), pose(rng.standard_normal(3), rng.standard_normal(4))
    for _ in range(3):
        found = separation(shapes, [first, second], DIRECTIONS)
        normal = DIRECTIONS[found.argmax()]
        second = pose(second.x + (rng.uniform(-spread, spread) - found.max()) * normal, second.q)
    return [first, second]


def check_random(function, shapes, seed, repeats, deepest=0.1, margin=0.1, near=1e-6, tolerance=1e-9):
    """Random touching poses: the least gap is the signed distance, and its two points belong to the shapes.

    The search for the oracle ends 1e-7 below the truth at worst; a higher separation than the reported gap is
    therefore an error of the reported one. ``near`` is what the search leaves open on the other side.
    """
    rng = np.random.default_rng(seed)
    seen = 0
    for _ in range(repeats):
        poses = near_pose(rng, shapes)
        found = meet(function, shapes, poses, margin)
        if not len(found.gap):
            assert signed_distance(shapes, poses)[0] > margin - near
            continue
        k = found.gap.argmin()
        gap, normal, point = found.gap[k], found.normal[k], found.point[k]
        true = signed_distance(shapes, poses, also=[normal[None]])[0]
        if true < -deepest:
            continue
        seen += 1
        assert abs(gap - true) < near
        assert abs(separation(shapes, poses, normal[None])[0] - gap) < tolerance
        assert holds(shapes[0], poses[0], point - 0.5 * gap * normal, tolerance)
        assert holds(shapes[1], poses[1], point + 0.5 * gap * normal, tolerance)
    assert seen > 0.3 * repeats


def blob(seed=0, n=14, size=0.7):
    return Convex(size * np.random.default_rng(seed).standard_normal((n, 3)))


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
    check_random(rounds, PAIRS[name], seed=1, repeats=6)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_least_gap_is_the_signed_distance_many_times(name):
    check_random(rounds, PAIRS[name], seed=2, repeats=300)


@pytest.mark.parametrize("name", PAIRS)
def test_contacts_turn_with_everything(name):
    rng = np.random.default_rng(3)
    for _ in range(10):
        same_when_moved(rounds, PAIRS[name], near_pose(rng, PAIRS[name]), random_pose(rng, 3.0))


def test_capsules_are_seen_the_same_from_both_sides():
    rng = np.random.default_rng(4)
    shapes = PAIRS["capsule-capsule"]
    for _ in range(50):
        poses = near_pose(rng, shapes)
        here, there = (meet(rounds, shapes, poses, swap=swap) for swap in (False, True))
        assert len(here.gap) == len(there.gap)
        if len(here.gap):
            k, m = here.gap.argmin(), there.gap.argmin()
            assert here.gap[k] == pytest.approx(there.gap[m], abs=1e-14)
            np.testing.assert_allclose(here.normal[k], -there.normal[m], atol=1e-13)
            np.testing.assert_allclose(here.point[k], there.point[m], atol=1e-13)


def test_spheres():
    found = meet(rounds, [Sphere(1.0), Sphere(2.0)], [pose((1, 0, 0)), pose((1, 2.9, 0))])
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
    found = meet(rounds, shapes, [pose(), pose()])
    assert len(found.gap) in (1, 2) and np.allclose(found.gap, gap, atol=1e-15)


def test_sphere_inside_a_box_leaves_through_the_nearest_face():
    found = meet(rounds, [Sphere(0.1), Box((2.0, 2.0, 2.0))], [pose((0.2, 0.9, 0.1)), pose()])
    np.testing.assert_allclose(found.gap, [-0.2], atol=1e-15)
    np.testing.assert_array_equal(found.normal, [[0, -1, 0]])


def test_sphere_at_corner_edge_and_face_of_a_box():
    box = Box((2.0, 2.0, 2.0))
    for x, d in (((1.3, 1.4, 1.0), 0.5), ((1.2, 1.2, 1.1), 0.3), ((0.3, 1.25, 0.9), 0.25)):
        found = meet(rounds, [Sphere(0.5), box], [pose(x), pose()])
        assert found.gap[0] == pytest.approx(d - 0.5, abs=1e-15)


def test_crossed_capsules_touch_in_one_point():
    found = meet(
        rounds,
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
        found = meet(rounds, shapes, [pose(q=LYING), pose((1.5, 0, 0.74), product(noise, LYING))])
        assert found.feature.tolist() == [1, 2]
        np.testing.assert_allclose(found.point, [[-0.5, 0, 0.495], [2, 0, 0.495]], atol=1e-8)
        np.testing.assert_allclose(found.gap, -0.01, atol=1e-8)


def test_capsules_end_to_end():
    found = meet(rounds, [Capsule(0.5, 4.0), Capsule(0.25, 4.0)], [pose(), pose((0, 0, 4.76))])
    np.testing.assert_allclose(found.gap, [0.01], atol=1e-15)
    np.testing.assert_allclose(found.normal, [[0, 0, 1]], atol=1e-15)


@pytest.mark.parametrize("solid", [Box((2.0, 2.0, 2.0)), Convex(hull_of(Box((2.0, 2.0, 2.0))).vertices)])
def test_capsule_lying_on_a_face_and_over_its_edge(solid):
    """The contact is the part of the axis over the face, from its own end to the edge of the face."""
    sign = 1.0 if isinstance(solid, Box) else -1.0  # the box comes first, the convex second
    rng = np.random.default_rng(6)
    for _ in range(20):
        q = product(about(rng.standard_normal(3), 1e-9), LYING)
        found = meet(rounds, [solid, Capsule(0.5, 3.0)], [pose(), pose((1.2, 0.3, 1.49), q)])
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
    found = meet(rounds, [Box((2.0, 2.0, 2.0)), Capsule(0.5, 3.0)], [pose(), pose(centre, q)])
    assert found.feature.tolist() == [1, 2]
    assert found.gap[1] == pytest.approx(0.0, abs=1e-15)
    np.testing.assert_allclose(found.normal[1], [s, 0, c], atol=1e-14)
    assert 0.0 < found.gap[0] < 0.02


def test_capsule_along_an_edge_rests_on_two_points():
    away = math.sqrt(0.5) * 0.499
    found = meet(
        rounds,
        [Box((2.0, 2.0, 2.0)), Capsule(0.5, 3.0)],
        [pose(), pose((1 + away, 0, 1 + away), about((1, 0, 0), math.pi / 2))],
    )
    assert found.feature.tolist() == [1, 2]
    np.testing.assert_allclose(found.gap, -0.001, atol=1e-14)
    np.testing.assert_allclose(sorted(found.point[:, 1]), [-1, 1], atol=1e-12)


def test_capsule_through_a_thin_plate_is_pushed_out_across_it():
    found = meet(rounds, [Box((2.0, 2.0, 0.1)), Capsule(0.2, 3.0)], [pose(), pose((0, 0, 0.02), LYING)])
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
                found = meet(rounds, shapes, poses, margin=0.1)
                assert found.gap.min() == pytest.approx(d, abs=1e-5)
                seen += 1
    assert seen > 30
