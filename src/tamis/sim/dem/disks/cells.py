"""Who may touch whom until the next rebuild: cells, sorted grains, and Verlet lists that keep the slip of each contact.

Grains are sorted by the cell they lie in, row by row, so that the neighbours of a grain lie near it in memory: a row of
cells of the widest silo here is a few kilobytes. A pair is listed once, under the grain that comes first (its partners
are then all in the same cell, the one to the right and the three above), with a slot for the stretch of its tangential
spring beside the partner's number. A list is good until something has moved by half the skin. The slip is carried over
by looking the pair up in the old list: rows are of three or so, so that looking is scanning.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner

Floats = NDArray[np.float64]
Indices = NDArray[np.uint32]
Ints = NDArray[np.int32]

DONE, MORE_PAIRS, MORE_TOUCHES, NOT_FINITE = 0, 1, 2, 3
X, Y, VX, VY, W, R, ANGLE, WIDTH = 0, 1, 2, 3, 4, 5, 6, 8  # of a row of a grain: one cache line


class Grains(NamedTuple):
    """Grains in the order of their cells; those that have left the domain come last and rest."""

    state: Floats  # (8 n,): place, velocity, spin, radius, angle
    past: Floats  # (6 n,): acceleration and its rate, linear and angular; empty unless Gear's scheme runs
    kind: Ints  # (n,): row of the tables of masses and laws
    ident: Ints  # (n,): number at the start
    present: NDArray[np.int64]  # (1,): how many are still there


class Lists(NamedTuple):
    """Pairs and touches of walls that are near enough to be watched, each with the stretch of its spring."""

    first: Ints  # (n + 1,): rows of the pairs
    other: Indices  # partner, of a higher number
    slip: Floats
    touches: NDArray[np.int64]  # (1,): entries of the walls' list
    grain: Indices  # in the order of grains
    wall: Ints
    wall_slip: Floats


class Room(NamedTuple):
    """Scratch of a rebuild: the new lists until they are known to fit, and what sorting needs."""

    state: Floats
    past: Floats
    kind: Ints
    ident: Ints
    lists: Lists
    cell: NDArray[np.int64]
    start: NDArray[np.int64]
    was: Indices  # number before sorting
    head: Ints  # first entry in the old list of walls


@inner
def fill_cells(grains: Grains, room: Room, domain: Floats, size: float) -> tuple[int, int, int]:
    """Sort grains by cell into the scratch arrays; return how many are there and the numbers of columns and rows.

    Cells are ``size`` wide, or wider where grains are so scattered that there would be more than can be counted.
    Grains outside the domain come last and are no longer counted; -1 if one is nowhere at all.
    """
    state, start, before = grains.state, room.start, grains.present[0]
    left, right, low, high = domain[1], domain[0], domain[3], domain[2]
    for i in range(before):
        x, y = state[WIDTH * i + X], state[WIDTH * i + Y]
        if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(state[WIDTH * i + W])):
            return -1, 0, 0
        room.cell[i] = 0 if domain[0] <= x <= domain[1] and domain[2] <= y <= domain[3] else -1
        if room.cell[i] == 0:
            left, right = min(left, x), max(right, x)
            low, high = min(low, y), max(high, y)
    right, high = max(right, left), max(high, low)
    while (1.0 + (right - left) / size) * (1.0 + (high - low) / size) > start.size - 2:
        size *= 1.5
    columns, rows = int((right - left) / size) + 1, int((high - low) / size) + 1
    cells = columns * rows
    for k in range(cells + 2):
        start[k] = 0
    for i in range(before):
        k = cells
        if room.cell[i] == 0:
            k = int((state[WIDTH * i + X] - left) / size) + columns * int((state[WIDTH * i + Y] - low) / size)
        room.cell[i] = k
        start[k + 1] += 1
    for k in range(cells + 1):
        start[k + 1] += start[k]
    for i in range(before):  # stable: grains of one cell keep their order
        k = room.cell[i]
        at = start[k]
        start[k] += 1
        room.was[at] = i
        for q in range(WIDTH):
            room.state[WIDTH * at + q] = state[WIDTH * i + q]
        room.kind[at], room.ident[at] = grains.kind[i], grains.ident[i]
        if grains.past.size > 0:
            for q in range(6):
                room.past[6 * at + q] = grains.past[6 * i + q]
    for k in range(cells, 0, -1):
        start[k] = start[k - 1]
    start[0] = 0
    return start[cells], columns, rows


@inner
def old_slip(lists: Lists, a: int, b: int) -> float:
    """Return the stretch that a pair has in the lists of before."""
    i, j = (a, b) if a < b else (b, a)
    for k in range(lists.first[i], lists.first[i + 1]):
        if lists.other[k] == j:
            return float(lists.slip[k])
    return 0.0


@inner
def list_pairs(n: int, columns: int, rows: int, room: Room, old: Lists, skin: float) -> bool:
    """List the pairs whose gap is below the skin; say whether they fit."""
    state, new, start = room.state, room.lists, room.start
    m = 0
    for row in range(rows):
        for column in range(columns):
            k = row * columns + column
            for i in range(start[k], start[k + 1]):
                new.first[i] = m
                x, y, r = state[WIDTH * i + X], state[WIDTH * i + Y], state[WIDTH * i + R] + skin
                for part in range(2):  # this cell and the next one, then the three above
                    if part == 0:
                        low, high = i + 1, start[k + 1 + (1 if column + 1 < columns else 0)]
                    elif row + 1 < rows:
                        above = k + columns
                        low = start[above - (1 if column > 0 else 0)]
                        high = start[above + 1 + (1 if column + 1 < columns else 0)]
                    else:
                        continue
                    for j in range(low, high):
                        dx, dy = state[WIDTH * j + X] - x, state[WIDTH * j + Y] - y
                        near = r + state[WIDTH * j + R]
                        if dx * dx + dy * dy < near * near:
                            if m >= new.other.size:
                                return False
                            new.other[m] = j
                            new.slip[m] = old_slip(old, room.was[i], room.was[j])
                            m += 1
    new.first[n] = m
    return True


@inner
def to_segment(x: float, y: float, placed: Floats, w: int) -> tuple[float, float, float]:
    """Return the vector from a point to the nearest one of a wall, and where that is along it: 0 and 1 are its ends."""
    ax, ay = placed[4 * w], placed[4 * w + 1]
    ex, ey = placed[4 * w + 2] - ax, placed[4 * w + 3] - ay
    along = ((x - ax) * ex + (y - ay) * ey) / (ex * ex + ey * ey)
    along = min(max(along, 0.0), 1.0)
    return ax + along * ex - x, ay + along * ey - y, along


@inner
def hidden(
    k: int,
    along: float,
    grains: Grains,
    lists: Lists,
    corners: Floats,
    placed: Floats,
    shut: NDArray[np.bool_],
) -> bool:
    """Say whether a grain that touches a wall at its end touches the wall that goes on from there instead.

    Of walls that share an end one counts: the one that is touched between its ends, else the first of them. The stretch
    of the spring goes over to it, so that a grain crosses the joint of a polyline as if it were one wall.
    """
    grain, at = lists.grain[k], 4 * lists.wall[k] + (0 if along == 0.0 else 2)
    x, y = grains.state[WIDTH * grain + X], grains.state[WIDTH * grain + Y]
    first = k
    while first > 0 and lists.grain[first - 1] == grain:
        first -= 1
    for other in range(first, lists.touches[0]):
        if lists.grain[other] != grain:
            break
        w = lists.wall[other]
        if other == k or not shut[w]:
            continue
        shares = False
        for end in range(4 * w, 4 * w + 4, 2):
            shares |= corners[end] == corners[at] and corners[end + 1] == corners[at + 1]
        if shares:
            _, _, there = to_segment(x, y, placed, w)
            if 0.0 < there < 1.0 or other < k:
                lists.wall_slip[other] += lists.wall_slip[k]
                return True
    return False


@inner
def list_touches(
    n: int, room: Room, old: Lists, placed: Floats, shut: NDArray[np.bool_], skin: float
) -> bool:
    """List the grains whose gap to a wall is below the skin; say whether they fit."""
    state, new, head = room.state, room.lists, room.head
    for i in range(n):
        head[i] = -1
    for k in range(old.touches[0] - 1, -1, -1):
        head[old.grain[k]] = k
    m = 0
    for i in range(n):
        x, y, near = state[WIDTH * i + X], state[WIDTH * i + Y], state[WIDTH * i + R] + skin
        for w in range(shut.size):
            if not shut[w]:
                continue
            dx, dy, _ = to_segment(x, y, placed, w)
            if dx * dx + dy * dy < near * near:
                if m >= new.grain.size:
                    return False
                new.grain[m], new.wall[m], new.wall_slip[m] = i, w, 0.0
                before = room.was[i]
                k = head[before]
                while 0 <= k < old.touches[0] and old.grain[k] == before:
                    if old.wall[k] == w:
                        new.wall_slip[m] = old.wall_slip[k]
                    k += 1
                m += 1
    new.touches[0] = m
    return True


@inner
def rebuild(
    grains: Grains,
    lists: Lists,
    room: Room,
    placed: Floats,
    shut: NDArray[np.bool_],
    domain: Floats,
    size: float,
    skin: float,
) -> int:
    """Sort grains and list anew who is near; all stays as it was if the lists do not fit."""
    before = grains.present[0]
    n, columns, rows = fill_cells(grains, room, domain, size)
    if n < 0:
        return NOT_FINITE
    if not list_pairs(n, columns, rows, room, lists, skin):
        return MORE_PAIRS
    if not list_touches(n, room, lists, placed, shut, skin):
        return MORE_TOUCHES
    new = room.lists
    grains.present[0] = n
    grains.state[: WIDTH * before] = room.state[: WIDTH * before]
    grains.kind[:before] = room.kind[:before]
    grains.ident[:before] = room.ident[:before]
    if grains.past.size > 0:
        grains.past[: 6 * before] = room.past[: 6 * before]
    m, t = new.first[n], new.touches[0]
    lists.first[: n + 1] = new.first[: n + 1]
    lists.other[:m] = new.other[:m]
    lists.slip[:m] = new.slip[:m]
    lists.touches[0] = t
    lists.grain[:t] = new.grain[:t]
    lists.wall[:t] = new.wall[:t]
    lists.wall_slip[:t] = new.wall_slip[:t]
    return DONE
