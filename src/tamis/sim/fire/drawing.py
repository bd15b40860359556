"""Deformed frames to look at: each element a flat bar along its chord, coloured by its temperature."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tamis.replays import Replay, Shape
from tamis.sim.fire.drive import History

_SEEN = 0.12  # of the structure's size: displacements are enlarged to this at most
_MOST = 50.0  # times
_FLAT = 1e-4  # of its size: a plane frame is seen from straight ahead


def replay_of(history: History, groups: Mapping[int, str], fps: float) -> Replay:
    """Return the recorded states, thinned to ``fps``; displacements are enlarged so that they are seen.

    The unloaded structure stays as lines.
    """
    path = history.path
    structure, frame = path.structure, path.frame
    places = np.array(structure.places)
    size = float(np.ptp(places, axis=0).max())
    kept = _thinned(history.times, fps)
    moved = np.zeros((len(kept), len(places), 2))
    for node in range(len(places)):
        for direction in range(2):
            moved[:, node, direction] = history.u[kept, structure.number(node, direction)]
    largest = float(np.abs(moved).max())
    factor = min(_MOST, _SEEN * size / largest) if largest > 0.0 else 1.0
    factor = float(f"{factor:.1g}") if factor > 1.0 else 1.0
    ends = np.array([(a, b) for a, b, *_ in structure.ends])
    now = places + factor * moved
    first, last = now[:, ends[:, 0]], now[:, ends[:, 1]]
    middle, along = 0.5 * (first + last), last - first
    angle = np.arctan2(along[..., 1], along[..., 0])
    n = len(ends)
    poses = np.zeros((len(kept), n + 1, 7))
    poses[:, :n, 0], poses[:, :n, 2] = middle[..., 0], middle[..., 1]
    poses[:, :n, 3], poses[:, :n, 5] = np.cos(0.5 * angle), -np.sin(0.5 * angle)
    poses[:, n, 3] = 1.0
    depth = frame.depth[frame.section]
    shapes = [
        Shape("box", (float(length), _FLAT * size, float(d)), groups[int(heat)])
        for length, d, heat in zip(frame.length, depth, frame.heat, strict=True)
    ]
    points = np.stack([places[:, 0], np.zeros(len(places)), places[:, 1]], axis=1)
    shapes.append(Shape("line", (), "unloaded", points, tuple((int(a), int(b)) for a, b in ends)))
    temperature = np.full((len(kept), n + 1), math.nan)
    temperature[:, :n] = history.temperatures()[kept].mean(axis=2)[:, frame.heat]
    return Replay(
        tuple(shapes), history.times[kept], poses.astype(np.float32), {"temperature [C]": temperature}, factor
    )


def _thinned(times: np.ndarray, fps: float) -> list[int]:
    """Return instants at least 1/fps apart, the first and the last among them."""
    kept = [0]
    for i in range(1, len(times) - 1):
        if times[i] - times[kept[-1]] >= 1.0 / fps and times[-1] - times[i] >= 0.5 / fps:
            kept.append(i)
    return [*kept, len(times) - 1] if len(times) > 1 else kept
