"""Which contactors may touch: all pairs of bounding boxes that come within the margin, in a fixed order.

A sweep along one axis looks, for each body, at all bodies in a slice of the scene, and slices grow with the scene:
twenty thousand grains would cost 5/3 powers. A grid of cells is linear but wants bodies of one size; a floor, a
long wall and gravel do not share a cell. A tree of boxes needs neither.

The tree is rebuilt at each step, as that is cheap and no history can then change a result: middles are sorted
along a Z-shaped curve through space (Morton 1966; Lauterbach et al. 2009, 10.1111/j.1467-8659.2009.01377.x) by a
radix sort, and every four neighbours on the curve become one box, every four of those one above, up to the top.
Large bodies spoil only the few boxes above them. Four neighbours then walk the tree together, to meet what comes
after them on the curve. Half-spaces have no box: they stay out of the tree and are tested by their plane.

The pairs come in the order of the curve, which a small motion may change, and leave in the order of their numbers,
which it does not: they are put in rows by their first number, in place, and each row is sorted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner
from tamis.sim.common.geometry import HALFSPACE, Floats, Geometry, Ints, World

Flags = NDArray[np.bool_]

WIDTH = 4  # boxes gathered into one
CELLS = 1023.0  # along the longest side of the scene
LONG = 32  # a longer row is sorted by marks, not by insertion


class Sweep(NamedTuple):
    """Work arrays of `find_pairs`."""

    order: Ints  # (n,) contactors along the curve, then the half-spaces
    spare: Ints  # (n,)
    code: Ints  # (n,) places along the curve, by contactor
    digits: Ints  # (257,) how often each occurs
    bounds: Floats  # (boxes, 6) low and high corners, of contactors in order, then of groups; half the margin wider
    parts: Ints  # (boxes + 1,) first of the boxes that a box holds
    last: Ints  # (boxes,) last of the groups of the lowest level that a box holds
    stack: Ints  # boxes still to open
    row: Ints  # (n + 1,) where the row of a contactor starts
    fill: Ints  # (n,) how far it is filled
    mark: Flags  # (n,)


def sweep(n_contactors: int) -> Sweep:
    """Make the work arrays for so many contactors."""
    boxes, level, levels = n_contactors, n_contactors, 1
    while level > 1:
        level = -(-level // WIDTH)
        boxes += level
        levels += 1

    def ints(n: int) -> Ints:
        return np.zeros(n, dtype=np.int64)

    return Sweep(
        order=ints(n_contactors),
        spare=ints(n_contactors),
        code=ints(n_contactors),
        digits=ints(257),
        bounds=np.zeros((boxes, 6)),
        parts=ints(boxes + 1),
        last=ints(boxes),
        stack=ints(WIDTH * levels),
        row=ints(n_contactors + 1),
        fill=ints(n_contactors),
        mark=np.zeros(n_contactors, dtype=np.bool_),
    )


@inner
def spread(number: int) -> int:
    """Put two zeros before each of ten bits."""
    number = (number | (number << 16)) & 0x030000FF
    number = (number | (number << 8)) & 0x0300F00F
    number = (number | (number << 4)) & 0x030C30C3
    return (number | (number << 2)) & 0x09249249


@inner
def arrange(geometry: Geometry, world: World, work: Sweep) -> int:
    """Order the bounded contactors along the curve and put the half-spaces last; return how many are bounded."""
    n = 0
    x0 = y0 = z0 = np.inf
    x1 = y1 = z1 = -np.inf
    for k in range(len(geometry.kind)):
        if geometry.kind[k] != HALFSPACE:
            work.order[n] = k
            n += 1
            x, y, z = world.centre[k, 0], world.centre[k, 1], world.centre[k, 2]
            x0, y0, z0 = min(x0, x), min(y0, y), min(z0, z)
            x1, y1, z1 = max(x1, x), max(y1, y), max(z1, z)
    corner = (x0, y0, z0)
    longest = max(x1 - x0, y1 - y0, z1 - z0)
    scale = CELLS / longest if 0.0 < longest < np.inf else 0.0
    for m in range(n):
        k = work.order[m]
        code = 0
        for axis in range(3):
            cell = scale * (world.centre[k, axis] - corner[axis])
            if 0.0 <= cell <= CELLS:  # not so if a position is not a number
                code |= spread(int(cell)) << axis
        work.code[k] = code
    here, there = work.order, work.spare
    for shift in (0, 8, 16, 24):
        work.digits[:] = 0
        for m in range(n):
            work.digits[(work.code[here[m]] >> shift & 255) + 1] += 1
        for digit in range(256):
            work.digits[digit + 1] += work.digits[digit]
        for m in range(n):
            digit = work.code[here[m]] >> shift & 255
            there[work.digits[digit]] = here[m]
            work.digits[digit] += 1
        here, there = there, here
    last = n
    for k in range(len(geometry.kind)):
        if geometry.kind[k] == HALFSPACE:
            work.order[last] = k
            last += 1
    return n


@inner
def grow(world: World, n: int, margin: float, work: Sweep) -> int:
    """Build the boxes of all levels over the ``n`` contactors in order; return the number of boxes."""
    bounds, order = work.bounds, work.order
    for m in range(n):
        for axis in range(3):
            bounds[m, axis] = world.low[order[m], axis] - 0.5 * margin
            bounds[m, axis + 3] = world.high[order[m], axis] + 0.5 * margin
    first, last = 0, n
    while last - first > 1:
        box = last
        for m in range(first, last, WIDTH):
            end = min(m + WIDTH, last)
            for axis in range(3):
                low, high = np.inf, -np.inf
                for part in range(m, end):
                    low = min(low, bounds[part, axis])
                    high = max(high, bounds[part, axis + 3])
                bounds[box, axis], bounds[box, axis + 3] = low, high
            work.parts[box] = m
            work.last[box] = box if first == 0 else work.last[end - 1]
            box += 1
        work.parts[box] = last
        first, last = last, box
    return last


@inner
def overlap(bounds: Floats, a: int, b: int) -> bool:
    """Tell whether two boxes have a point in common."""
    return bool(
        bounds[a, 0] <= bounds[b, 3]
        and bounds[b, 0] <= bounds[a, 3]
        and bounds[a, 1] <= bounds[b, 4]
        and bounds[b, 1] <= bounds[a, 4]
        and bounds[a, 2] <= bounds[b, 5]
        and bounds[b, 2] <= bounds[a, 5]
    )


@inner
def near_plane(k: int, other: int, world: World, margin: float) -> bool:
    """Tell whether the bounding box of ``other`` comes within the margin of half-space ``k``."""
    height = 0.0
    for axis in range(3):
        up = world.axes[k, axis, 2]
        end = world.low[other, axis] if up > 0.0 else world.high[other, axis]
        height += up * (end - world.centre[k, axis])
    return height <= margin


@inner
def allowed(i: int, j: int, body: Ints, group: Ints, meet: Flags, responds: Flags) -> bool:
    """Tell whether two contactors are of groups that meet and of different bodies of which one responds to forces."""
    a, b = body[i], body[j]
    return bool(a != b and meet[group[i], group[j]] and (responds[a] or responds[b]))


@inner
def put(pairs: Ints, n: int, i: int, j: int) -> int:
    """Write a pair if there is room, and count it in any case."""
    if n < len(pairs):
        pairs[n, 0], pairs[n, 1] = min(i, j), max(i, j)
    return n + 1


@inner
def sort(pairs: Ints, n: int, work: Sweep) -> None:
    """Sort the first ``n`` pairs."""
    row, fill, mark = work.row, work.fill, work.mark
    row[:] = 0
    for m in range(n):
        row[pairs[m, 0] + 1] += 1
    for i in range(len(fill)):
        row[i + 1] += row[i]
        fill[i] = row[i]
    for i in range(len(fill)):
        while fill[i] < row[i + 1]:  # exchange until the pair here belongs here
            here = fill[i]
            k = pairs[here, 0]
            there = fill[k]
            fill[k] += 1
            if k != i:
                j = pairs[here, 1]
                pairs[here, 0], pairs[here, 1] = pairs[there, 0], pairs[there, 1]
                pairs[there, 0], pairs[there, 1] = k, j
    for i in range(len(fill)):
        first, last = row[i], row[i + 1]
        if last - first <= LONG:
            for m in range(first + 1, last):
                j, at = pairs[m, 1], m
                while at > first and pairs[at - 1, 1] > j:
                    pairs[at, 1] = pairs[at - 1, 1]
                    at -= 1
                pairs[at, 1] = j
        else:
            for m in range(first, last):
                mark[pairs[m, 1]] = True
            at = first
            for j in range(i + 1, len(mark)):
                if mark[j]:
                    mark[j] = False
                    pairs[at, 1] = j
                    at += 1


@inner
def find_pairs(
    geometry: Geometry, world: World, meet: Flags, responds: Flags, margin: float, pairs: Ints, work: Sweep
) -> int:
    """Write the pairs ``i < j`` that may touch, sorted; return their number, which may exceed the room.

    Left out are pairs of groups that do not meet, of one body with itself and of two bodies that do not move.
    """
    order, bounds, parts, last, stack = work.order, work.bounds, work.parts, work.last, work.stack
    body, kin = geometry.body, geometry.group
    n = arrange(geometry, world, work)
    boxes = grow(world, n, margin, work)
    found = 0 * n  # a literal 0 would have all that follows compiled twice
    for plane in range(n, len(order)):
        i = order[plane]
        for m in range(n):
            j = order[m]
            if allowed(i, j, body, kin, meet, responds) and near_plane(i, j, world, margin):
                found = put(pairs, found, i, j)
    groups = n + (n + WIDTH - 1) // WIDTH if n > 1 else n
    for group in range(n, groups):
        stack[0] = boxes - 1
        top = 1
        while top > 0:
            top -= 1
            box = stack[top]
            if box >= groups:
                for part in range(parts[box], parts[box + 1]):
                    if last[part] >= group and overlap(bounds, part, group):
                        stack[top] = part
                        top += 1
                continue
            for p in range(parts[group], parts[group + 1]):
                if not overlap(bounds, p, box):
                    continue
                for q in range(max(parts[box], p + 1), parts[box + 1]):
                    if overlap(bounds, p, q) and allowed(order[p], order[q], body, kin, meet, responds):
                        found = put(pairs, found, order[p], order[q])
    sort(pairs, min(found, len(pairs)), work)
    return found
