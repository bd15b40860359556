"""From where a replay is seen.

A fixed camera sees nothing of what falls behind a wall, and only the underside of what slides down a slope that falls
away from it. So some views are tried and marked, on the frames that will be drawn, by how much of what moves is not
behind other shapes, how much of its way lies across the line of sight, and how large everything is drawn. The first
of them whose mark is nearly the best is taken: most replays keep the view from the front.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tamis.report.solids import Floor, Solid, rotations
from tamis.types import Array

FRAME = (0.5, 1.3)  # least and greatest height over width of a frame
_AZIMUTHS = (25, -25, 65, -65, 115, -115, 155, -155)  # from the front; along an axis boxes look flat
_ELEVATIONS = (20, 35)
_GRAZED = 0.2  # sine of the angle below which one looks along a half-space rather than at it
_NEARLY = 0.85  # of the best mark
_THIN = 1e-3  # of its size: a scene that is no thicker is flat
_RAYS, _PAIRS = 500, 40_000  # lines of sight, and lines of sight by shapes that may be in the way
_INNER = 0.8  # of its box: where the lines of sight of a shape start


def camera(azimuth: float, elevation: float) -> Array:
    """Return the world's axes to the camera's: right, up, towards the viewer; from the front right is mostly x."""
    a, e = math.radians(azimuth), math.radians(elevation)
    ca, sa, ce, se = math.cos(a), math.sin(a), math.cos(e), math.sin(e)
    return np.array([[ca, sa, 0.0], [-sa * se, ca * se, ce], [sa * ce, -ca * ce, se]])


VIEWS = [camera(azimuth, elevation) for elevation in _ELEVATIONS for azimuth in _AZIMUTHS]
FRONT = VIEWS[0]


def best_view(
    solids: Sequence[Solid],
    poses: NDArray[np.float32],
    moved: NDArray[np.bool_],
    floors: Sequence[Floor],
    groups: Sequence[str] | None = None,
) -> Array:
    """Return the camera for solids (b) with poses (t, b, 7) that have moved (t, b), on the free side of floors.

    Each of the groups (b) counts as much as any other, so that one rock is not lost among the blocks it throws. A plane
    motion, of nothing but disks and lines, and what is flat from front to back are seen from straight ahead.
    """
    if (ahead := _straight(solids, poses)) is not None:
        return ahead
    if _flat(solids, poses):
        return camera(0.0, 0.0)
    behind = [sum(view[2] @ surface.normal < _GRAZED for surface in floors) for view in VIEWS]
    views = [view for view, n in zip(VIEWS, behind, strict=True) if n == min(behind)]
    if not moved.any():
        return views[0]
    centres = poses[..., :3].astype(np.float64)
    way = (centres - centres[0])[moved]
    reach = np.array([part.reach for part in solids])[:, None]
    visible = _sight(solids, poses, moved, [""] * len(solids) if groups is None else groups)
    marks = [visible(view) * _across(view, way) * _size(view, centres, reach) for view in views]
    return next(view for view, mark in zip(views, marks, strict=True) if mark >= _NEARLY * max(marks))


def _straight(solids: Sequence[Solid], poses: NDArray[np.float32]) -> Array | None:
    """Return the camera that looks along the normal of all disks, if nothing else but lines is to be seen."""
    disks = np.array([part.kind == "disk" for part in solids])
    if not disks.any() or any(part.kind not in ("disk", "line") for part in solids):
        return None
    normals = rotations(poses[:, disks, 3:].astype(np.float64))[..., 2]
    if (np.abs(normals @ normals[0, 0]) < 1 - 1e-6).any():
        return None
    ahead, up = normals[0, 0], np.eye(3)[2 if abs(normals[0, 0, 2]) < 0.9 else 1]
    right = np.cross(up, ahead)
    ahead, right = (ahead, right) if right[0] >= 0 else (-ahead, -right)
    right = right / np.linalg.norm(right)
    return np.array([right, np.cross(ahead, right), ahead])


def _flat(solids: Sequence[Solid], poses: NDArray[np.float32]) -> bool:
    """Say whether all that is seen lies in a plane across y and stays there."""
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    for b, part in enumerate(solids):
        turned = np.einsum("tij,pj->tpi", rotations(poses[:, b, 3:].astype(np.float64)), part.points)
        places = poses[:, b, None, :3] + turned
        low = np.minimum(low, places.min(axis=(0, 1)) - part.radius)
        high = np.maximum(high, places.max(axis=(0, 1)) + part.radius)
    return bool(high[1] - low[1] < _THIN * (high - low).max())


def _across(view: Array, way: Array) -> float:
    """Return which part of the ways (n, 3) is seen; all if nothing goes anywhere."""
    length = float(np.linalg.norm(way, axis=1).sum())
    return float(np.linalg.norm(way @ view[:2].T, axis=1).sum()) / length if length else 1.0


def _size(view: Array, centres: Array, reach: Array) -> float:
    """Return the root of the scale of the picture: a row seen from its end is drawn larger and yet shows less."""
    flat = centres @ view[:2].T
    wide, high = (flat + reach).max(axis=(0, 1)) - (flat - reach).min(axis=(0, 1))
    return math.sqrt(min(1 / wide, np.clip(high / wide, *FRAME) / high))


def _sight(
    solids: Sequence[Solid], poses: NDArray[np.float32], moved: NDArray[np.bool_], groups: Sequence[str]
) -> Callable[[Array], float]:
    """Return the function from a view to the part of what moves that is in sight, before it moves as well as after.

    Lines of sight start at points spread evenly over the groups and what moves of each; shapes in the way are taken
    for boxes.
    """
    kind = np.unique(np.asarray(groups), return_inverse=True)[1]
    ever = np.flatnonzero(moved.any(axis=0))
    share = max(1, min(_RAYS, 1 + _PAIRS // len(solids)) // len(np.unique(kind[ever])))
    rows = []
    for k in np.unique(kind[ever]):
        t, b = (
            grid.ravel() for grid in np.meshgrid(np.arange(len(moved)), ever[kind[ever] == k], indexing="ij")
        )
        chosen = np.arange(share) * len(t) // share
        rows.append(np.array([t[chosen], b[chosen]]))
    t, b = np.concatenate(rows, axis=1)
    n = len(t)
    low = np.array([part.points.min(axis=0) - part.radius for part in solids])
    high = np.array([part.points.max(axis=0) + part.radius for part in solids])
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    turn = rotations(poses[..., 3:].astype(np.float64))
    spread = _INNER * (2 * ((np.arange(1, n + 1)[:, None] * _STEPS) % 1.0) - 1)
    start = poses[t, b, :3] + np.einsum("nij,nj->ni", turn[t, b], middle[b] + spread * half[b])
    seen = np.einsum("nbi,nbij->nbj", start[:, None] - poses[t, :, :3], turn[t])  # in each shape's axes
    away = seen - middle

    def visible(view: Array) -> float:
        way = (view[2] @ turn)[t]
        speed = np.maximum(np.abs(way), 1e-9)
        along = np.copysign(away, away * way)
        enters = ((-half - along) / speed).max(axis=-1)
        leaves = ((half - along) / speed).min(axis=-1)
        hit = leaves > np.maximum(enters, 0.0)
        hit[np.arange(n), b] = False
        return 1.0 - float(hit.any(axis=1).mean())

    return visible


_STEPS = np.array([0.8191725, 0.6710436, 0.5497005])  # powers of 1 / 1.2207: points that fill a cube evenly
