"""Small scenes for the tests of solids and storyboards."""

from __future__ import annotations

import numpy as np

from tamis.replays import Replay, Shape
from tamis.types import Array

UP = (1.0, 0.0, 0.0, 0.0)
RNG = np.random.default_rng(6)


def quaternion(axis: tuple[float, float, float], angle: float) -> Array:
    unit = np.array(axis) / np.linalg.norm(axis)
    return np.array([np.cos(angle / 2), *np.sin(angle / 2) * unit])


def posed(positions: Array, quaternions: Array | tuple[float, ...] = UP) -> Array:
    positions = np.atleast_2d(positions)
    turned = np.broadcast_to(quaternions, (*positions.shape[:-1], 4))
    return np.concatenate([positions, turned], axis=-1).astype(np.float32)


def still(shapes: list[Shape], poses: Array, n: int = 2) -> Replay:
    return Replay(tuple(shapes), np.arange(float(n)), np.repeat(poses[None], n, axis=0))


def falling_box(n: int = 26) -> Replay:
    t = np.linspace(0.0, 1.0, n)
    poses = np.stack([posed(np.array([[0, 0, 0], [0.2 * s, 0, 1.1 - s]])) for s in t])
    shapes = (Shape("halfspace"), Shape("box", (0.3, 0.2, 0.2), "block"))
    return Replay(shapes, t, poses, {"speed [m/s]": np.column_stack([np.full(n, np.nan), t])})


def wall(columns: int, courses: int) -> tuple[list[Shape], Array]:
    places = [(0.4 * i + 0.2 * (k % 2), 0.0, 0.1 + 0.2 * k) for k in range(courses) for i in range(columns)]
    return [Shape("box", (0.4, 0.2, 0.2), f"row {k % 2}") for k in range(len(places))], posed(
        np.array(places)
    )
