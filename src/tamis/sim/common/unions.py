"""Volume, centre and inertia of a body whose parts overlap: what several count is counted once.

Along a line every convex part is one interval, so along y the union of the parts is integrated exactly, and what is
left is an integral over the x-z plane. Its integrand has kinks and jumps along the outlines of the parts, which a
regular grid would meet everywhere. So cells of that plane are quartered where a Gauss rule on the cell and on its
quarters disagree, level by level: parts that lie along the axes, whose outlines are the first cells' edges, cost
next to nothing, and others are refined along their outlines alone. A block of a box and two cylinders is known to 5e-7
so, parts in any direction to 3e-5, where a corner of a cell that no point of the rule sees is what is missed: less
than is known of any real body, and what parts count twice by less is not looked for.

It is done once for each set of parts and kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from tamis.sim.common.geometry import Floats
from tamis.sim.common.rotations import rotation
from tamis.sim.common.shapes import Capsule, Cylinder, Mass, Shape, Sphere, hull_of, mass_of, reach_of

Placed: TypeAlias = tuple[Shape, tuple[float, float, float], tuple[float, float, float, float]]

TOLERANCE = 1e-7  # of the volume, left to a cell by the root of its share of the plane
OVERLAPPING = 1e-4  # of the volume: what parts share beyond that is looked for
FIRST, LEVELS = 4, 11  # a cell is quartered so often at least, lest a corner be missed, and at most
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(3)
_CELL = np.array([(a, b) for a in _NODES for b in _NODES])
_SHARE = np.array([a * b for a in _WEIGHTS for b in _WEIGHTS]) / 4.0


@lru_cache(maxsize=65536)
def union_mass(parts: tuple[Placed, ...]) -> Mass:
    """Return volume, centre of mass and inertia about it of the union of parts, for unit density."""
    sums, whole = np.zeros(10), sum(mass_of(shape).volume for shape, _, _ in parts)
    cells = _first_cells(parts)
    values = _integrals(parts, cells)
    for level in range(LEVELS + 1):
        quarters = _quartered(cells)
        finer = _integrals(parts, quarters).reshape(-1, 4, 10)
        wrong = np.abs(finer[:, :, 0].sum(axis=1) - values[:, 0])
        allowed = TOLERANCE * whole * np.sqrt(cells[:, 2] * cells[:, 3] / (cells[:, 2] * cells[:, 3]).sum())
        open_ = ((wrong > allowed) | (level < FIRST)) & (level < LEVELS)
        sums += finer[~open_].sum(axis=(0, 1))
        if not open_.any():
            break
        cells, values = quarters.reshape(-1, 4, 4)[open_].reshape(-1, 4), finer[open_].reshape(-1, 10)
    volume, centre = float(sums[0]), sums[1:4] / sums[0]
    xx, yy, zz, xy, xz, yz = sums[4:]
    second = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) - volume * np.outer(centre, centre)
    return Mass(volume, centre, np.trace(second) * np.eye(3) - second)


def may_overlap(parts: Sequence[Placed]) -> bool:
    """Say whether the bounding spheres of any two parts do."""
    for i, (shape, centre, _) in enumerate(parts):
        for other, at, _ in parts[i + 1 :]:
            if np.linalg.norm(np.subtract(centre, at)) < reach_of(shape) + reach_of(other):
                return True
    return False


def _first_cells(parts: Sequence[Placed]) -> Floats:
    """Return cells (n, 4) of the x-z plane, middles and half sides, between the extents of all the parts."""
    edges: list[list[float]] = [[], []]
    for shape, centre, turn in parts:
        R = rotation(turn)
        for side, k in enumerate((0, 2)):
            spread = _half_width(shape, R[k])
            edges[side] += [centre[k] - spread[0], centre[k] + spread[1]]
    x, z = (_distinct(values) for values in edges)
    half = [0.5 * np.diff(v) for v in (x, z)]
    middle = [0.5 * (v[1:] + v[:-1]) for v in (x, z)]
    a, b = np.indices((len(half[0]), len(half[1]))).reshape(2, -1)
    return np.column_stack([middle[0][a], middle[1][b], half[0][a], half[1][b]])


def _distinct(values: list[float]) -> Floats:
    ordered = np.sort(np.array(values))
    kept: Floats = ordered[np.append(True, np.diff(ordered) > 1e-12 * np.ptp(ordered))]
    return kept


def _half_width(shape: Shape, way: Floats) -> tuple[float, float]:
    """Return how far a shape reaches against and along a direction given in its own axes."""
    hull = hull_of(shape)
    if hull is not None:
        heights = hull.vertices @ way
        return -float(heights.min()), float(heights.max())
    across, along = float(np.hypot(way[0], way[1])), abs(float(way[2]))
    match shape:
        case Cylinder(radius, length):
            spread = radius * across + 0.5 * length * along
        case Capsule(radius, length):
            spread = radius + 0.5 * length * along
        case _:
            spread = reach_of(shape)
    return spread, spread


def _quartered(cells: Floats) -> Floats:
    signs = np.array([(-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0)])
    half = 0.5 * cells[:, None, 2:] * np.ones((1, 4, 1))
    found: Floats = np.concatenate([cells[:, None, :2] + signs * half, half], axis=2)
    return found.reshape(-1, 4)


def _integrals(parts: Sequence[Placed], cells: Floats) -> Floats:
    """Return (cells, 10): the integrals of 1, x, y, z, xx, yy, zz, xy, xz, yz over the union above each cell."""
    at = cells[:, None, :2] + _CELL * cells[:, None, 2:]
    x, z = at[..., 0].ravel(), at[..., 1].ravel()
    low, high = (np.array(side) for side in zip(*(_chord(part, x, z) for part in parts), strict=True))
    order = np.argsort(low, axis=0)
    low, high = np.take_along_axis(low, order, axis=0), np.take_along_axis(high, order, axis=0)
    one, first, second = np.zeros((3, len(x)))
    reached = np.full(len(x), -np.inf)
    for start, end in zip(low, high, strict=True):
        fresh = np.maximum(start, reached)
        more = end > fresh
        a, b = np.where(more, fresh, 0.0), np.where(more, end, 0.0)
        one += b - a
        first += (b**2 - a**2) / 2.0
        second += (b**3 - a**3) / 3.0
        reached = np.maximum(reached, end)
    rows = [one, x * one, first, z * one, x * x * one, second, z * z * one, x * first, x * z * one, z * first]
    weight = _SHARE * (4.0 * cells[:, 2] * cells[:, 3])[:, None]
    found: Floats = np.einsum("rcn,cn->cr", np.array(rows).reshape(10, len(cells), -1), weight)
    return found


def _chord(part: Placed, x: Floats, z: Floats) -> tuple[Floats, Floats]:
    """Return where lines along y enter and leave a part; where they miss it, the first exceeds the second."""
    shape, centre, turn = part
    R = rotation(turn)
    start = np.column_stack([x - centre[0], np.full(len(x), -centre[1]), z - centre[2]]) @ R
    way = R[1]  # the y axis in the shape's own axes
    match shape:
        case Sphere(radius):
            return _in_ball(start, way, radius, 0.0)
        case Cylinder(radius, length):
            return _in_bar(start, way, radius, 0.5 * length)
        case Capsule(radius, length):
            low, high = _in_bar(start, way, radius, 0.5 * length)
            low, high = np.where(low <= high, low, np.inf), np.where(low <= high, high, -np.inf)
            for end in (-0.5 * length, 0.5 * length):
                a, b = _in_ball(start, way, radius, end)
                low, high = (
                    np.minimum(low, np.where(a <= b, a, np.inf)),
                    np.maximum(high, np.where(a <= b, b, -np.inf)),
                )
            return low, high
    hull = hull_of(shape)
    if hull is None:
        return np.full(len(x), np.inf), np.full(len(x), -np.inf)
    low, high = np.full(len(x), -np.inf), np.full(len(x), np.inf)
    for normal, loop in zip(hull.normals, hull.loops, strict=True):
        low, high = _cut(low, high, hull.vertices[loop[0]] @ normal - start @ normal, float(way @ normal))
    return low, high


def _cut(low: Floats, high: Floats, room: Floats, rate: float) -> tuple[Floats, Floats]:
    """Keep of intervals what satisfies ``rate t <= room``."""
    if abs(rate) < 1e-14:
        return np.where(room >= 0.0, low, np.inf), np.where(room >= 0.0, high, -np.inf)
    return (low, np.minimum(high, room / rate)) if rate > 0.0 else (np.maximum(low, room / rate), high)


def _in_ball(start: Floats, way: Floats, radius: float, end: float) -> tuple[Floats, Floats]:
    off = start - np.array([0.0, 0.0, end])
    half = off @ way
    square = half**2 - np.einsum("ni,ni->n", off, off) + radius**2
    root = np.sqrt(np.maximum(square, 0.0))
    return np.where(square > 0.0, -half - root, np.inf), np.where(square > 0.0, -half + root, -np.inf)


def _in_bar(start: Floats, way: Floats, radius: float, half: float) -> tuple[Floats, Floats]:
    across = float(way[:2] @ way[:2])
    inside = radius**2 - np.einsum("ni,ni->n", start[:, :2], start[:, :2])
    if across < 1e-28:
        low, high = np.where(inside >= 0.0, -np.inf, np.inf), np.where(inside >= 0.0, np.inf, -np.inf)
    else:
        middle = start[:, :2] @ way[:2] / across
        square = middle**2 + inside / across
        root = np.sqrt(np.maximum(square, 0.0))
        low = np.where(square > 0.0, -middle - root, np.inf)
        high = np.where(square > 0.0, -middle + root, -np.inf)
    low, high = _cut(low, high, half - start[:, 2], float(way[2]))
    return _cut(low, high, half + start[:, 2], -float(way[2]))
