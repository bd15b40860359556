"""Signed distances of convex shapes by sampling directions: slow, and independent of what it checks."""

from __future__ import annotations

import math

import numpy as np

from tamis.sim.common.shapes import Box, Capsule, Convex, Cylinder, Sphere, hull_of
from tests.sim.common.poses import meet, pose, rotation


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


def check_random(shapes, seed, repeats, deepest=0.1, margin=0.1, near=1e-6, tolerance=1e-9):
    """Random touching poses: the least gap is the signed distance, and its two points belong to the shapes.

    The search for the oracle ends 1e-7 below the truth at worst; a higher separation than the reported gap is
    therefore an error of the reported one. ``near`` is what the search leaves open on the other side.
    """
    rng = np.random.default_rng(seed)
    seen = 0
    for _ in range(repeats):
        poses = near_pose(rng, shapes)
        found = meet(shapes, poses, margin)
        if not len(found.gap):
            assert signed_distance(shapes, poses)[0] > margin - near
            continue
        least = np.flatnonzero(
            found.gap <= found.gap.min()
        )  # the others of a manifold may be as deep, but not deeper
        k = least[separation(shapes, poses, found.normal[least]).argmax()]
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
