"""Shapes as flat polygons in the order a painter would lay them down.

Every shape is convex, so its faces that look at the viewer never hide each other, and all that is left is to order
whole shapes. Sorting them by the depth of their centres fails for a plain brick wall (a brick that lies half a length
to the back on another is above it and yet deeper). Two convex shapes apart have a plane between them, though, and the
one on the viewer's side of it is painted later; planes are looked for among the faces of both and across the line of
centres. The order is then one that respects all pairs whose pictures meet (Newell, Newell & Sancha 1972,
10.1145/800193.569954). The projection is orthographic: lengths compare over the whole picture.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.replays import Shape
from tamis.types import Array

LIGHT = np.array([-0.42, 0.66, 0.62])  # in the camera's axes: from above, the left and behind the viewer
SIDES = 32  # of a circle
ORDERED = 4000  # shapes; above, the depth of centres has to do
_CHUNK = 20_000  # pairs tested at a time
_INK = 0.45  # outlines are that dark
_WALL = 2.2  # points, of a line at most: a wall as thick as a grain hides where they touch
_CLEAR = (0.0, 0.0, 0.0, 0.0)
_SHADE = (0.0, 0.0, 0.0, 0.16)


@dataclass(frozen=True)
class Solid:
    """A shape made ready for drawing, in its own axes: the hull of ``points``, ``radius`` thicker all around."""

    kind: str
    points: Array  # (v, 3)
    faces: tuple[tuple[int, ...], ...]  # none of round shapes, whose picture is an outline
    normals: Array  # (f, 3), outward
    axes: Array  # (a, 3), directions along which it may be separated from a neighbour
    radius: float = 0.0

    @property
    def reach(self) -> float:
        """Greatest distance from the origin."""
        return float(np.linalg.norm(self.points, axis=1).max()) + self.radius


class Polygon(NamedTuple):
    """What is handed to the drawing library."""

    points: Array  # (k, 2)
    face: tuple[float, float, float, float]
    edge: tuple[float, float, float, float]
    width: float


def solid(shape: Shape) -> Solid:
    """Return the mesh of a shape; a half-space has none, see `floor`."""
    if shape.kind == "box":
        return _polyhedron("box", *_prism(_RECTANGLE * shape.size[:2], shape.size[2]))
    if shape.kind == "cylinder":
        return _polyhedron("cylinder", *_prism(_CIRCLE * shape.size[0], shape.size[1]))
    if shape.kind == "ring":
        rim = np.column_stack([_CIRCLE * shape.size[0], np.zeros(SIDES)])
        return Solid("ring", rim, (tuple(range(SIDES)),), np.eye(3)[2:], np.eye(3)[2:])
    if shape.kind == "disk":  # seen from both sides
        rim = np.column_stack([_CIRCLE * shape.size[0], np.zeros(SIDES)])
        both = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]])
        return Solid("disk", rim, (tuple(range(SIDES)),) * 2, both, both[:1])
    if shape.kind == "convex":
        assert shape.points is not None
        return _polyhedron("convex", shape.points, shape.faces)
    half = 0.5 * shape.size[1] if shape.kind == "capsule" else 0.0  # a sphere is a capsule of one point
    ends = np.array([[0.0, 0.0, -half], [0.0, 0.0, half]]) if half else np.zeros((1, 3))
    return Solid(shape.kind, ends, (), np.zeros((0, 3)), np.eye(3)[2:], shape.size[0])


def segments(shape: Shape) -> list[Solid]:
    """Cut a line into its straight pieces: a net as a whole would hide what lies in it."""
    assert shape.points is not None
    strands = shape.faces or (tuple(range(len(shape.points))),)
    pairs = {(min(pair), max(pair)) for strand in strands for pair in pairwise(strand)}
    flat = np.zeros((0, 3))
    return [Solid("line", shape.points[list(pair)], (), flat, np.eye(3)[2:]) for pair in sorted(pairs)]


def slices(bar: Solid) -> list[Solid]:
    """Cut a cylinder across, so that what it is stuck through can be painted between its ends."""
    low, high = float(bar.points[0, 2]), float(bar.points[-1, 2])
    n = max(1, round((high - low) / float(np.linalg.norm(bar.points[0, :2]))))
    cuts = np.linspace(low, high, n + 1)
    upper = bar.points[:, 2] > 0.5 * (low + high)
    parts = []
    for k in range(n):
        points = np.column_stack([bar.points[:, :2], np.where(upper, cuts[k + 1], cuts[k])])
        ends = [f for f, here in ((0, k == 0), (1, k == n - 1)) if here]
        kept = [*ends, *range(2, len(bar.faces))]
        faces = tuple(bar.faces[f] for f in kept)
        parts.append(Solid("slice", points, faces, bar.normals[kept], bar.axes))
    return parts


_TURN = 2 * np.pi * np.arange(SIDES) / SIDES
_CIRCLE = np.column_stack([np.cos(_TURN), np.sin(_TURN)])
_RECTANGLE = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])


def _prism(outline: Array, height: float) -> tuple[Array, tuple[tuple[int, ...], ...]]:
    """Extrude an outline along z; its two ends come first among the faces."""
    n = len(outline)
    points = np.vstack([np.column_stack([outline, np.full(n, z)]) for z in (-0.5 * height, 0.5 * height)])
    sides = [(i, (i + 1) % n, n + (i + 1) % n, n + i) for i in range(n)]
    return points, (tuple(range(n)), tuple(range(n, 2 * n)), *sides)


def _polyhedron(kind: str, points: Array, faces: tuple[tuple[int, ...], ...]) -> Solid:
    normals = np.array([_normal(points[list(face)]) for face in faces])
    outward = np.sum(normals * (points[[face[0] for face in faces]] - points.mean(axis=0)), axis=1)
    normals *= np.where(outward < 0, -1.0, 1.0)[:, None]
    again = np.tril(np.abs(normals @ normals.T) > 1 - 1e-9, -1).any(axis=1)  # opposite faces have one axis
    return Solid(kind, points, faces, normals, normals[~again])


def _normal(points: Array) -> Array:
    """Return the unit normal of a flat polygon: the sum of a fan of triangles, so corners may be in line."""
    (ax, ay, az), (bx, by, bz) = (points[1:-1] - points[0]).T, (points[2:] - points[0]).T
    normal = np.array([ay @ bz - az @ by, az @ bx - ax @ bz, ax @ by - ay @ bx])
    return np.asarray(normal / (math.sqrt(normal @ normal) or 1.0))


def rotations(quaternions: Array) -> Array:
    """Return the matrices (..., 3, 3) of unit quaternions (..., 4), w first."""
    w, x, y, z = np.moveaxis(np.asarray(quaternions, dtype=np.float64), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


class Seen(NamedTuple):
    """Solids of one instant in the camera's axes."""

    turn: Array  # (b, 3, 3), from a shape's axes to the camera's
    points: Array  # (b, v, 3), the last repeated where a solid has fewer
    low: Array  # (b, 3), corners of bounding boxes
    high: Array


def look(solids: Sequence[Solid], poses: NDArray[np.float32], camera: Array) -> Seen:
    """Turn solids (b) with poses (b, 7) into the axes of a camera, see `tamis.report.camera`."""
    turn = camera @ rotations(poses[:, 3:].astype(np.float64))
    centre = poses[:, :3].astype(np.float64) @ camera.T
    points = _padded([s.points for s in solids]) @ np.swapaxes(turn, 1, 2) + centre[:, None]
    thick = np.array([s.radius for s in solids])[:, None]
    return Seen(turn, points, points.min(axis=1) - thick, points.max(axis=1) + thick)


def _padded(rows: Sequence[Array]) -> Array:
    longest = max(len(row) for row in rows)
    return np.stack([row[np.minimum(np.arange(longest), len(row) - 1)] for row in rows])


def order(solids: Sequence[Solid], seen: Seen) -> list[int]:
    """Return the solids from the one to paint first to the one to paint last."""
    n = len(solids)
    depth = 0.5 * (seen.low[:, 2] + seen.high[:, 2])
    if n > ORDERED:
        return [int(i) for i in np.argsort(depth, kind="stable")]
    later: list[list[int]] = [[] for _ in range(n)]
    waits = [0] * n
    pairs, hidden = _before(solids, seen)
    for first, second in pairs:
        if second not in hidden:  # which need not wait for anything
            later[first].append(second)
            waits[second] += 1
    ready = [(float(depth[i]), i) for i in range(n) if not waits[i]]
    heapq.heapify(ready)
    found: list[int] = []
    left = set(range(n))
    while left:
        if not ready:  # three shapes may hide each other in a ring: cut it at the deepest
            ready = [min((float(depth[i]), i) for i in left)]
        i = heapq.heappop(ready)[1]
        if i not in left:
            continue
        left.remove(i)
        found.append(i)
        for j in later[i]:
            waits[j] -= 1
            if not waits[j]:
                heapq.heappush(ready, (float(depth[j]), j))
    return found


def _before(solids: Sequence[Solid], seen: Seen) -> tuple[list[tuple[int, int]], set[int]]:
    """Return pairs of solids whose pictures meet, the one to be painted first in front, and those inside another."""
    found: list[tuple[int, int]] = []
    hidden: set[int] = set()
    slack = 1e-6 * float((seen.high - seen.low).max())
    meet = (seen.low[:, None, :2] + slack < seen.high[None, :, :2] - slack).all(axis=-1)
    pairs = np.argwhere(np.triu(meet & meet.T, 1))
    for a, b in (pairs.T, pairs[:, ::-1].T):
        apart = seen.high[a, 2] <= seen.low[b, 2]  # nothing to look for
        found += zip(a[apart].tolist(), b[apart].tolist(), strict=True)
    a, b = pairs.T
    pairs = pairs[(seen.high[a, 2] > seen.low[b, 2]) & (seen.high[b, 2] > seen.low[a, 2])]
    axes = _padded([s.axes for s in solids]) @ np.swapaxes(seen.turn, 1, 2)
    thick = np.array([s.radius for s in solids])
    hole = np.array([s.kind == "ring" for s in solids])
    middle = 0.5 * (seen.low + seen.high)
    for start in range(0, len(pairs), _CHUNK):
        a, b = pairs[start : start + _CHUNK].T
        tried = np.concatenate([axes[a], axes[b], _unit(middle[b] - middle[a])[:, None]], axis=1)  # (p, k, 3)
        along = [tried @ np.swapaxes(seen.points[i], 1, 2) for i in (a, b)]
        least = [along[k].min(axis=-1) - thick[i][:, None] for k, i in enumerate((a, b))]
        most = [along[k].max(axis=-1) + thick[i][:, None] for k, i in enumerate((a, b))]
        ahead, behind = least[1] - most[0], least[0] - most[1]  # gaps, where b or a is further along
        gap = np.maximum(ahead, behind)
        best, row = np.argmax(gap, axis=1), np.arange(len(a))
        side = np.where(ahead > behind, tried[..., 2], -tried[..., 2])[row, best]  # positive: b is nearer
        buried = np.zeros(len(a), dtype=bool)
        for k, i, first in ((0, a, 1.0), (1, b, -1.0)):
            free = np.where(hole[i], -slack, slack)[:, None]  # a hole in a face is not inside
            within = (least[k] > least[1 - k] - free) & (most[k] < most[1 - k] + free)
            inside = within.all(axis=1)
            side[inside], buried[inside] = first, True
            hidden.update(i[inside].tolist())
        holed = (gap[row, best] < -slack) & (hole[a] != hole[b]) & ~buried  # else it is shown
        side[holed] = np.where(hole[b], 1.0, -1.0)[holed]
        found += zip(a[side > 1e-9].tolist(), b[side > 1e-9].tolist(), strict=True)
        found += zip(b[side < -1e-9].tolist(), a[side < -1e-9].tolist(), strict=True)
    return found, hidden


def _unit(vectors: Array) -> Array:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-300))


class Pen(NamedTuple):
    """Widths of lines in points; a rim of 0 is none."""

    edge: float
    rim: float


def paint(part: Solid, points: Array, turn: Array, colour: Array, pen: Pen) -> Iterator[Polygon]:
    """Yield the polygons of a solid, given its corners in the camera's axes; the pen's rim goes all around it."""
    ink = _rgba(_INK * colour)
    normals = part.normals @ turn.T
    if part.kind == "ring":
        yield Polygon(points[:, :2], _CLEAR, ink, 2 * max(pen))
        return
    if part.kind == "line":
        yield Polygon(points[:, :2], _CLEAR, _rgba(colour), min(2.5 * max(pen), _WALL))
        return
    if not part.faces:
        yield from _round(part, points, turn, colour, max(pen))
        return
    if pen.rim and part.kind != "slice":
        yield Polygon(hull(points[:, :2]), ink, ink, pen.rim)
    for f in np.flatnonzero(normals[:, 2] > 1e-9):
        face = part.faces[f]
        fill = _rgba(_lit(colour, max(0.0, float(normals[f] @ LIGHT))))
        curved = part.kind in ("cylinder", "slice") and len(face) == 4
        yield Polygon(points[list(face), :2], fill, fill if curved else ink, pen.edge)
        if part.kind == "disk":  # half of it darker, so that one sees it turn
            yield Polygon(points[: SIDES // 2 + 1, :2], _SHADE, _CLEAR, 0.0)


def _round(part: Solid, points: Array, turn: Array, colour: Array, width: float) -> Iterator[Polygon]:
    """Yield a sphere or capsule as outlines that shrink towards the light.

    A sphere's lower half in its own axes is darker, so that one sees it roll.
    """
    ink = _rgba(_INK * colour)
    for k, bright in enumerate((0.1, 0.45, 0.75, 1.0)):
        thin = part.radius * (1 - 0.24 * k)
        outline = _stadium(points[:, :2] + 0.17 * k * part.radius * LIGHT[:2], thin)
        fill = _rgba(_lit(colour, bright))
        yield Polygon(outline, fill, fill if k else ink, 0.0 if k else width)
    if part.kind == "sphere":
        axis = turn[:, 2]
        flat = math.hypot(axis[0], axis[1])
        ends = np.array([axis[1], -axis[0], 0.0]) / flat if flat > 1e-9 else np.array([1.0, 0.0, 0.0])
        half = np.cross(axis, ends)
        half *= 1.0 if half[2] >= 0 else -1.0
        limb = -axis[:2] / flat if flat > 1e-9 else np.array([0.0, 1.0])
        turns = np.linspace(0.0, np.pi, SIDES // 2 + 1)[:, None]
        seam = np.cos(turns) * ends[:2] + np.sin(turns) * half[:2]
        rim = np.cos(turns[::-1]) * ends[:2] + np.sin(turns[::-1]) * limb
        yield Polygon(points[0, :2] + part.radius * np.vstack([seam, rim]), _SHADE, _CLEAR, 0.0)


def _stadium(centres: Array, radius: float) -> Array:
    """Return the outline of two equal discs and what lies between them, or of one disc."""
    line = centres[-1] - centres[0]
    start = math.atan2(line[1], line[0]) + 0.5 * np.pi
    turns = np.linspace(start, start + np.pi, SIDES // 2 + 1)
    cap = radius * np.column_stack([np.cos(turns), np.sin(turns)])
    return np.vstack([centres[0] + cap, centres[-1] - cap])


def hull(points: Array) -> Array:
    """Return the convex outline of points in the plane (Andrew 1979, 10.1016/0020-0190(79)90072-3)."""
    ordered = sorted(map(tuple, points.tolist()))
    outline: list[tuple[float, float]] = []
    for sweep in (ordered, ordered[::-1]):
        chain: list[tuple[float, float]] = []
        for x, y in sweep:
            while len(chain) > 1:
                (x0, y0), (x1, y1) = chain[-2:]
                if (x1 - x0) * (y - y0) > (y1 - y0) * (x - x0):
                    break
                chain.pop()
            chain.append((x, y))
        outline += chain[:-1]
    return np.array(outline)


def _lit(colour: Array, bright: float) -> Array:
    """Darken a colour away from the light and whiten it towards it."""
    return np.asarray(colour * (0.62 + 0.38 * bright) + (1 - colour) * 0.22 * bright)


def _rgba(colour: Array) -> tuple[float, float, float, float]:
    r, g, b = (float(c) for c in np.clip(colour, 0.0, 1.0))
    return r, g, b, 1.0


class Floor(NamedTuple):
    """The surface of a half-space, in the world's axes."""

    origin: Array
    basis: Array  # (2, 3), along the surface
    normal: Array


def floor(pose: NDArray[np.float32]) -> Floor:
    """Return the surface of a half-space with this pose."""
    normal = rotations(pose[3:].astype(np.float64))[:, 2]
    guide = np.eye(3)[0] if abs(normal[0]) < 0.9 else np.eye(3)[1]
    first = _unit(guide - (guide @ normal) * normal)
    return Floor(pose[:3].astype(np.float64), np.array([first, np.cross(normal, first)]), normal)


def piece(
    surface: Floor, around: Array, margin: float, others: Sequence[Floor], camera: Array
) -> Array | None:
    """Return the picture (k, 2) of a surface below some world points and a margin around, cut by other half-spaces.

    None if it is seen from its solid side.
    """
    if camera[2] @ surface.normal < 1e-3:
        return None
    flat = (around - surface.origin) @ surface.basis.T
    low, high = flat.min(axis=0) - margin, flat.max(axis=0) + margin
    corners = surface.origin + (low + (_RECTANGLE + 0.5) * (high - low)) @ surface.basis
    for other in others:
        corners = _cut(corners, other)
    return corners @ camera[:2].T if len(corners) else None


def shadow(part: Solid, points: Array, surface: Floor, camera: Array) -> Array:
    """Return the picture of a solid's shadow on a surface lit along its normal, given the solid's corners."""
    world = points @ camera - surface.origin
    flat = world @ surface.basis.T
    if part.radius:
        flat = (flat[:, None] + part.radius * _CIRCLE).reshape(-1, 2)
    return np.asarray((surface.origin + hull(flat) @ surface.basis) @ camera[:2].T)


def _cut(polygon: Array, surface: Floor) -> Array:
    """Keep what lies outside a half-space (Sutherland & Hodgman 1974, 10.1145/360767.360802)."""
    kept: list[Array] = []
    heights = (polygon - surface.origin) @ surface.normal
    for i in range(len(polygon)):
        h, g = float(heights[i - 1]), float(heights[i])
        if h * g < 0:
            kept.append(polygon[i - 1] + h / (h - g) * (polygon[i] - polygon[i - 1]))
        if g >= 0:
            kept.append(polygon[i])
    return np.array(kept).reshape(-1, 3)
