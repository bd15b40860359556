"""Replays: the grains of a gabion and the frame of its net."""

from __future__ import annotations

import itertools

import numpy as np

from tamis.replays import Replay, Shape
from tamis.sim.acd2 import drive
from tamis.sim.acd2.scene import Gabion
from tamis.sim.common.shapes import hull_of
from tamis.types import Array


def show_gabion(case: Gabion, fps: float) -> Replay:
    """Return the grains from the lattice to rest, and the box that they are packed into at its final size."""
    every = max(1, round(1.0 / (fps * case.dt)))
    packing = drive.pack(case, every)
    record, state, last = packing.record, packing.state, packing.steps
    shown = last // every + 1
    x, q = record.x[:shown], record.q[:shown]
    times: Array = case.dt * every * np.arange(shown, dtype=np.float64)
    if last % every:
        x, q = np.concatenate([x, state.x[None]]), np.concatenate([q, state.q[None]])
        times = np.append(times, case.dt * last)
    shapes = []
    for shape in packing.shapes:
        hull = hull_of(shape)
        assert hull is not None
        shapes.append(Shape("convex", (), "grain", hull.vertices, hull.loops))
    ends = 0.5 * case.side * np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    edges = tuple((i, i + (1 << bit)) for bit in range(3) for i in range(8) if not i >> bit & 1)
    shapes.append(Shape("line", (), "net", ends, edges))
    poses = np.zeros((len(times), len(shapes), 7), dtype=np.float32)
    poses[:, :-1, :3], poses[:, :-1, 3:], poses[:, -1, 3] = x, q, 1.0
    height = np.full(poses.shape[:2], np.nan)
    height[:, :-1] = x[..., 2]
    return Replay(tuple(shapes), times, poses, {"height [m]": height})
