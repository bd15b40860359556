"""Replays: the grains of a gabion or of a wall, the ball, and the frames of the nets."""

from __future__ import annotations

import itertools

import numpy as np

from tamis.replays import Replay, Shape
from tamis.sim.acd2 import drive, layer, wall
from tamis.sim.acd2.scene import Gabion, GabionWall, Layer
from tamis.sim.acd2.striking import Run
from tamis.sim.common.shapes import Convex, hull_of
from tamis.types import Array


def _grains(shapes: list[Convex]) -> list[Shape]:
    hulls = [hull_of(shape) for shape in shapes]
    return [Shape("convex", (), "grain", hull.vertices, hull.loops) for hull in hulls if hull is not None]


def _frame(low: Array, high: Array, role: str) -> Shape:
    """Return the twelve edges of a box."""
    ends = np.array(list(itertools.product(*zip(low, high, strict=True))))
    edges = tuple((i, i + (1 << bit)) for bit in range(3) for i in range(8) if not i >> bit & 1)
    return Shape("line", (), role, ends, edges)


def _net(side: float) -> Shape:
    half = np.full(3, 0.5 * side)
    return _frame(-half, half, "net")


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
    shapes = [*_grains(packing.shapes), _net(case.side)]
    poses = np.zeros((len(times), len(shapes), 7), dtype=np.float32)
    poses[:, :-1, :3], poses[:, :-1, 3:], poses[:, -1, 3] = x, q, 1.0
    height = np.full(poses.shape[:2], np.nan)
    height[:, :-1] = x[..., 2]
    return Replay(tuple(shapes), times, poses, {"height [m]": height})


def show_wall(case: GabionWall, fps: float) -> Replay:
    """Return the wall from the first impact to the end of the last: ball, grains, and the boxes of the nets."""
    every = max(1, round(1.0 / (fps * case.dt)))
    run = wall.strike(case, every)
    return _struck(run, case.ball_diameter, [_net(case.side)] * len(run.wall.box), case.dt, every)


def show_layer(case: Layer, fps: float) -> Replay:
    """Return the layer during its impact, and its pit as far as it is filled."""
    every = max(1, round(1.0 / (fps * case.dt)))
    run = layer.strike(case, every)
    half, top = 0.5 * case.width, float(run.settled_at[:, 2].max())
    pit = _frame(np.array([-half, -half, 0.0]), np.array([half, half, top]), "pit")
    return _struck(run, case.ball_diameter, [pit], case.dt, every)


def _struck(run: Run, diameter: float, frames: list[Shape], dt: float, every: int) -> Replay:
    """Return the impacts of a run; frames go with the boxes of the nets, or stay where they are if there are none."""
    signals, moving = run.signals, run.wall.moving
    first = run.settled // every + 1  # before that the ball waits
    x, q, box = signals.x[first:, :moving], signals.q[first:, :moving], signals.box[first:]
    times: Array = dt * (every * np.arange(first, first + len(x), dtype=np.float64) - run.settled)
    if run.done % every:
        x = np.concatenate([x, run.state.x[None, :moving]])
        q = np.concatenate([q, run.state.q[None, :moving]])
        box, times = (
            np.concatenate([box, run.wall.box[None]]),
            np.append(times, dt * (run.done - run.settled)),
        )
    shapes = [Shape("sphere", (0.5 * diameter,), "ball"), *_grains(run.shapes)]
    shapes += frames
    poses = np.zeros((len(x), len(shapes), 7), dtype=np.float32)
    poses[:, :moving, :3], poses[:, :moving, 3:] = x, q
    poses[:, moving:, 3] = 1.0
    if box.shape[1]:
        poses[:, moving:, :3] = box
    way = np.full(poses.shape[:2], np.nan)
    way[:, 1:moving] = x[:, 1:, 1] - x[:1, 1:, 1]
    return Replay(tuple(shapes), times, poses, {"way along y [m]": way})
