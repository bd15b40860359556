"""Two shapes in given poses, and the contacts found between them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tamis.sim.common import geometry as g
from tamis.sim.common.collide import narrow
from tamis.sim.common.shapes import Contactor, geometry_of
from tests.sim.common.compiled import collide, place

UPRIGHT = (1.0, 0.0, 0.0, 0.0)


class Pose(NamedTuple):
    """Where a shape is."""

    x: np.ndarray
    q: np.ndarray


class Found(NamedTuple):
    """The contacts of one pair."""

    feature: np.ndarray
    point: np.ndarray
    normal: np.ndarray
    gap: np.ndarray


def pose(x=(0.0, 0.0, 0.0), q=UPRIGHT) -> Pose:
    return Pose(np.array(x, dtype=float), np.array(q, dtype=float) / np.linalg.norm(q))


def about(axis, angle) -> np.ndarray:
    """The quaternion of a turn about an axis."""
    axis = np.array(axis, dtype=float) / np.linalg.norm(axis)
    return np.array([math.cos(angle / 2), *(math.sin(angle / 2) * axis)])


def product(p, q) -> np.ndarray:
    v = p[0] * q[1:] + q[0] * p[1:] + np.cross(p[1:], q[1:])
    return np.array([p[0] * q[0] - p[1:] @ q[1:], *v])


def rotation(q) -> np.ndarray:
    w, v = q[0], q[1:]
    hat = np.cross(np.eye(3), v)
    return np.eye(3) + 2.0 * w * hat + 2.0 * hat @ hat


def moved(at: Pose, by: Pose) -> Pose:
    """The pose after everything has been moved."""
    return Pose(rotation(by.q) @ at.x + by.x, product(by.q, at.q))


def random_pose(rng, spread=1.0) -> Pose:
    return pose(rng.standard_normal(3) * spread, rng.standard_normal(4))


def meet(shapes, poses, margin=0.05, capacity=64, swap=False) -> Found:
    """Place two shapes and look for their contacts, the contactors in the given order."""
    geometry = geometry_of([Contactor(shape, body, 0) for body, shape in enumerate(shapes)])
    world, out = g.world(geometry), g.manifolds(capacity)
    place(np.array([p.x for p in poses]), np.array([p.q for p in poses]), geometry, world)
    i, j = (1, 0) if swap or geometry.kind[0] > geometry.kind[1] else (0, 1)
    n = collide(np.array([[i, j]]), 1, geometry, world, margin, out, narrow(geometry, world, out))
    assert n <= capacity and (out.a[:n] == i).all() and (out.b[:n] == j).all()
    assert len(set(out.feature[:n])) == n and (out.feature[:n] >= 0).all() and (out.gap[:n] <= margin).all()
    assert np.allclose(np.linalg.norm(out.normal[:n], axis=1), 1.0, atol=1e-14)
    order = np.argsort(out.feature[:n])
    return Found(*(array[:n][order] for array in (out.feature, out.point, out.normal, out.gap)))


def same_when_moved(shapes, poses, by: Pose, margin=0.05, tolerance=1e-12) -> None:
    """Check that contacts turn with everything."""
    here = meet(shapes, poses, margin)
    there = meet(shapes, [moved(p, by) for p in poses], margin)
    turn = rotation(by.q)
    np.testing.assert_array_equal(there.feature, here.feature)
    np.testing.assert_allclose(there.gap, here.gap, atol=tolerance)
    np.testing.assert_allclose(there.normal, here.normal @ turn.T, atol=tolerance)
    np.testing.assert_allclose(there.point, here.point @ turn.T + by.x, atol=tolerance)
