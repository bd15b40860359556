"""Soft disks in a plane: forces between grains and with walls, and their motion, step by step.

The equations (Hadjidoukas et al. 2014, 10.1016/j.cma.2014.07.017, eqs 1-3 and Table 1)
---------------------------------------------------------------------------------------
With the overlap ``d`` of two grains, ``n`` from the first to the second and ``t`` = ``n`` turned to the left::

    F_n = k_n d^(3/2) + gamma d^alpha d'   (linear law: k_n d + gamma d'),  never attractive
    z' = u_t,  |z| <= mu F_n / k_t,        F_t = -k_t z                     (Cundall & Strack 1979)

``u_t`` is the velocity of the first grain against the second at the point of contact, which divides the line of centres
as the radii do: spin and orbit then exchange angular momentum without loss. In a plane the stretch ``z`` is a number
that does not care which grain is the first. A wall does not yield: its contacts act at the distance R, as in
`dem.impact`.

Why the data lie so
-------------------
A step of a grain costs about three looks at neighbours, two or so contacts of some sixty operations, and one update.
A grain is one cache line of eight numbers (place, velocity, spin, radius, angle, one spare), so that a partner is one
line to fetch, mostly from the first cache because grains are sorted along cells; a pair is visited once and acts on
both; a pair that does not touch costs one comparison of squares, without a root. Parameters are looked up by the kinds
of both partners, so that sizes and materials may be mixed. Indices of partners are unsigned, which spares the compiler
the case of negative ones.

What a contact costs is its chain of roots, divisions and, for a free exponent, a power. So contacts are collected
in blocks of 256, whose numbers lie one column after the other in one array: a compiler that sees one array with
constant distances knows that nothing overlaps, and computes eight contacts at a time; forces are then added grain by
grain, in the order of the list. Nanoseconds of one core for a grain of a dense silo (2.2 contacts) in one step:

    =========================================  ============  =============
    forces of grains                           alpha = 1/2   alpha free
    =========================================  ============  =============
    one contact after the other, libm          26            47
    one contact after the other, `power`       26            62
    blocks of contacts, `power`                21            25
    =========================================  ============  =============

Time steps
----------
Leapfrog, by default: velocities live between the instants at which places and forces do. One evaluation of forces a
step, symplectic where there is no damping, and the stretch of the tangential spring is summed from velocities at
the middle of each step. The third-order Gear scheme of the paper (Allen & Tildesley 1987, section 3.2: predict from the
derivatives, correct by the error of the acceleration) costs as much but keeps a jump of the force, which every first
touch is, in its derivatives; docs/theory/disks.md shows both. Its velocities are those of the step's end, and so the
stretch grows by the mean of the old and the new ones: half a step at one before forces are taken, half a step after.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner, kernel
from tamis.sim.dem.disks.cells import (
    ANGLE,
    DONE,
    VX,
    VY,
    WIDTH,
    Floats,
    Grains,
    Indices,
    Ints,
    Lists,
    R,
    Room,
    W,
    X,
    Y,
    hidden,
    rebuild,
    to_segment,
)

LINEAR, QUARTER, HALF, FREE = 0, 1, 2, 3
LEAPFROG, GEAR = 0, 1
TRAVEL, LEAST, STEPS = 0, 1, 2  # of the gauges
Span = tuple[float, float]  # how long springs stretch at these velocities, before forces are taken and after
B = 256  # contacts of a block: its numbers stay in the first cache
ROOT_HALF = 4604544271217802189  # bits of sqrt(1/2)
LN_2, TWICE_LOG2_E = math.log(2.0), 2.0 / math.log(2.0)
LEAST_EXPONENT = -1000.0  # of 2: below it a power is taken for that
SPENT = 0.9  # of the skin at which lists are made again: what moves in the step under way is not counted yet


class Laws(NamedTuple):
    """Contact laws and masses, by kinds."""

    pair: Floats  # (4 kinds^2,): k_n, gamma, k_t, mu/k_t of a pair of kinds
    inverse: Floats  # (3 kinds,): 1/mass, 1/inertia, 1 if gravity acts
    exponent: float
    law: int


class Block(NamedTuple):
    """Contacts that are computed together."""

    values: Floats  # (14 B,): see `block_forces`
    ends: Indices  # (2 B,): both grains
    slot: Indices  # (B,): where the slip is kept


class Walls(NamedTuple):
    """Segments that move together as one rigid container."""

    corners: Floats  # (4 w,): both ends, in the container's own axes
    kind: Ints
    shut: NDArray[np.bool_]  # an open wall is not there
    motion: Floats  # (14,): centre; then of x, y and the angle: rate, amplitude, frequency, phase of a sine
    placed: Floats  # (4 w,): both ends, now
    load: Floats  # (2 w,): force of the grains on each wall, at the last evaluation


@inner
def pose(motion: Floats, t: float) -> tuple[float, float, float, float, float, float]:
    """Return centre and angle of the container at a time, and their rates."""
    x = motion[0] + motion[2] * t + motion[3] * math.sin(motion[4] * t + motion[5])
    y = motion[1] + motion[6] * t + motion[7] * math.sin(motion[8] * t + motion[9])
    a = motion[10] * t + motion[11] * math.sin(motion[12] * t + motion[13])
    vx = motion[2] + motion[3] * motion[4] * math.cos(motion[4] * t + motion[5])
    vy = motion[6] + motion[7] * motion[8] * math.cos(motion[8] * t + motion[9])
    w = motion[10] + motion[11] * motion[12] * math.cos(motion[12] * t + motion[13])
    return x, y, a, vx, vy, w


@inner
def place_walls(walls: Walls, x: float, y: float, a: float) -> float:
    """Put the walls where the container is; return the distance of the farthest corner from its centre."""
    c, s = math.cos(a), math.sin(a)
    far = 0.0
    for k in range(0, walls.corners.size, 2):
        px, py = walls.corners[k], walls.corners[k + 1]
        walls.placed[k], walls.placed[k + 1] = x + c * px - s * py, y + s * px + c * py
        far = max(far, px * px + py * py)
    return math.sqrt(far)


@inner
def power(d: float, alpha: float) -> float:
    """Return ``d^alpha`` for a positive normal number, to 1e-14, by operations that compilers make vectors of.

    The binary exponent is taken off and the rest brought near 1, where the series of the logarithm in (m-1)/(m+1)
    is short; the same backwards with the exponential. The library's functions are calls, one number at a time.
    """
    bits = np.float64(d).view(np.int64)
    e = (bits - ROOT_HALF) >> 52
    m = np.int64(bits - (e << 52)).view(np.float64)  # from sqrt(1/2) to sqrt(2)
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    q2 = q * q
    q4 = q2 * q2
    low = (1.0 + q * (1 / 3)) + q2 * ((1 / 5) + q * (1 / 7))
    high = ((1 / 9) + q * (1 / 11)) + q2 * ((1 / 13) + q * (1 / 15)) + q4 * (1 / 17)
    y = max(alpha * (e + TWICE_LOG2_E * (s * (low + q4 * high))), LEAST_EXPONENT)
    n = math.floor(y + 0.5)
    r = (y - n) * LN_2
    r2 = r * r
    r4 = r2 * r2
    a = (1.0 + r) + r2 * ((1 / 2) + r * (1 / 6))
    b = ((1 / 24) + r * (1 / 120)) + r2 * ((1 / 720) + r * (1 / 5040))
    c = ((1 / 40320) + r * (1 / 362880)) + r2 * ((1 / 3628800) + r * (1 / 39916800)) + r4 * (1 / 479001600)
    v = np.float64(a + r4 * (b + r4 * c))
    return np.int64(v.view(np.int64) + (np.int64(n) << 52)).view(np.float64)


@inner
def damping(d: float, law: int, exponent: float) -> float:
    """Return ``d^alpha``."""
    if law == HALF:
        return math.sqrt(d)
    if law == QUARTER:
        return math.sqrt(math.sqrt(d))
    if law == LINEAR:
        return 1.0
    return power(d, exponent)


@inner
def block_dampings(m: int, v: Floats, law: int, exponent: float) -> None:
    """Replace squared distances by overlaps, and leave ``d^alpha`` of each: one loop for each law, all of vectors."""
    for c in range(m):
        apart = math.sqrt(v[c + 2 * B])
        v[c + 8 * B] = apart
        v[c + 2 * B] = v[c + 6 * B] - apart
    if law == HALF:
        for c in range(m):
            v[c + 9 * B] = math.sqrt(v[c + 2 * B])
    elif law == QUARTER:
        for c in range(m):
            v[c + 9 * B] = math.sqrt(math.sqrt(v[c + 2 * B]))
    elif law == LINEAR:
        for c in range(m):
            v[c + 9 * B] = 1.0
    else:
        for c in range(m):
            v[c + 9 * B] = power(v[c + 2 * B], exponent)


@inner
def block_forces(m: int, v: Floats, linear: bool, before: float, after: float) -> None:
    """Turn overlaps and velocities of a block of contacts into forces, vectors at a time.

    Columns: 0, 1 from the first grain to the second; 2 overlap; 3, 4 velocity of the first against the second; 5 sum
    of spin times radius; 6 sum of radii; 7 slip; 8 distance; 9 d^alpha; 10-13 the law. Force comes back in 3 and 4,
    tangential force times the share of the radii in 5, that share in 6, the slip in 7: it grows at these velocities for
    a time before forces are taken, and for another one after.
    """
    for c in range(m):
        inverse = 1.0 / v[c + 8 * B]
        nx, ny = v[c] * inverse, v[c + B] * inverse
        share = v[c + 8 * B] / v[c + 6 * B]
        ux, uy = v[c + 3 * B], v[c + 4 * B]
        d = v[c + 2 * B]
        spring = v[c + 10 * B] * d
        spring = spring if linear else spring * math.sqrt(d)
        normal = max(spring + v[c + 11 * B] * v[c + 9 * B] * (ux * nx + uy * ny), 0.0)
        limit = v[c + 13 * B] * normal
        sliding = uy * nx - ux * ny + v[c + 5 * B] * share
        slip = min(max(v[c + 7 * B] + sliding * before, -limit), limit)
        tangential = -v[c + 12 * B] * slip
        v[c + 7 * B] = slip + sliding * after
        v[c + 3 * B] = -normal * nx - tangential * ny
        v[c + 4 * B] = -normal * ny + tangential * nx
        v[c + 5 * B] = tangential * share
        v[c + 6 * B] = share


@inner
def grain_forces(
    n: int, state: Floats, force: Floats, kind: Ints, lists: Lists, laws: Laws, block: Block, span: Span
) -> float:
    """Add the forces between grains; return the least distance of two centres over the sum of their radii."""
    kinds, v = laws.inverse.size // 3, block.values
    least = 1.0
    i = k = 0
    while i < n:
        m = 0
        while i < n and m < B:
            x, y, vx, vy = (
                state[WIDTH * i + X],
                state[WIDTH * i + Y],
                state[WIDTH * i + VX],
                state[WIDTH * i + VY],
            )
            r, rim = state[WIDTH * i + R], state[WIDTH * i + W] * state[WIDTH * i + R]
            row, end = 4 * kinds * kind[i], lists.first[i + 1]
            while k < end and m < B:
                j = lists.other[k]
                dx, dy = state[WIDTH * j + X] - x, state[WIDTH * j + Y] - y
                reach = r + state[WIDTH * j + R]
                square = dx * dx + dy * dy
                if square < reach * reach:
                    v[m], v[m + B], v[m + 2 * B] = dx, dy, square
                    v[m + 3 * B], v[m + 4 * B] = vx - state[WIDTH * j + VX], vy - state[WIDTH * j + VY]
                    v[m + 5 * B] = rim + state[WIDTH * j + W] * state[WIDTH * j + R]
                    v[m + 6 * B], v[m + 7 * B] = reach, lists.slip[k]
                    at = row + 4 * kind[j]
                    v[m + 10 * B], v[m + 11 * B] = laws.pair[at], laws.pair[at + 1]
                    v[m + 12 * B], v[m + 13 * B] = laws.pair[at + 2], laws.pair[at + 3]
                    block.ends[2 * m], block.ends[2 * m + 1], block.slot[m] = i, j, k
                    m += 1
                else:
                    lists.slip[k] = 0.0
                k += 1
            if k == end:
                i += 1
        block_dampings(m, v, laws.law, laws.exponent)
        block_forces(m, v, laws.law == LINEAR, span[0], span[1])
        for c in range(m):
            a, j = block.ends[2 * c], block.ends[2 * c + 1]
            gx, gy, torque = v[c + 3 * B], v[c + 4 * B], v[c + 5 * B]
            lists.slip[block.slot[c]] = v[c + 7 * B]
            least = min(least, v[c + 6 * B])
            force[4 * a] += gx
            force[4 * a + 1] += gy
            force[4 * a + 2] += torque * state[WIDTH * a + R]
            force[4 * j] -= gx
            force[4 * j + 1] -= gy
            force[4 * j + 2] += torque * state[WIDTH * j + R]
    return least


@inner
def wall_forces(
    grains: Grains,
    force: Floats,
    lists: Lists,
    laws: Laws,
    walls: Walls,
    centre: tuple[float, float],
    velocity: tuple[float, float, float],
    span: Span,
) -> float:
    """Add the forces of walls that move with the container; return the least distance of a grain over its radius."""
    state, law, kinds = grains.state, laws.law, laws.inverse.size // 3
    least = 1.0
    walls.load[:] = 0.0
    for k in range(lists.touches[0]):
        i, wall = lists.grain[k], lists.wall[k]
        x, y, r = state[WIDTH * i + X], state[WIDTH * i + Y], state[WIDTH * i + R]
        dx, dy, along = to_segment(x, y, walls.placed, wall)
        square = dx * dx + dy * dy
        away = square >= r * r or not walls.shut[wall]
        if away or (
            (along == 0.0 or along == 1.0)
            and hidden(k, along, grains, lists, walls.corners, walls.placed, walls.shut)
        ):
            lists.wall_slip[k] = 0.0
            continue
        at = 4 * (kinds * grains.kind[i] + walls.kind[wall])
        k_n, gamma, k_t, cap = laws.pair[at], laws.pair[at + 1], laws.pair[at + 2], laws.pair[at + 3]
        apart = math.sqrt(square)
        nx, ny = dx / apart, dy / apart
        d = r - apart
        least = min(least, apart / r)
        ux = state[WIDTH * i + VX] - (velocity[0] - velocity[2] * (y + dy - centre[1]))
        uy = state[WIDTH * i + VY] - (velocity[1] + velocity[2] * (x + dx - centre[0]))
        closing = ux * nx + uy * ny
        sliding = uy * nx - ux * ny + state[WIDTH * i + W] * r
        spring = k_n * d if law == LINEAR else k_n * d * math.sqrt(d)
        normal = max(spring + gamma * damping(d, law, laws.exponent) * closing, 0.0)
        limit = cap * normal
        slip = min(max(lists.wall_slip[k] + sliding * span[0], -limit), limit)
        lists.wall_slip[k] = slip + sliding * span[1]
        tangential = -k_t * slip
        gx, gy = -normal * nx - tangential * ny, -normal * ny + tangential * nx
        force[4 * i] += gx
        force[4 * i + 1] += gy
        force[4 * i + 2] += tangential * r
        walls.load[2 * wall] -= gx
        walls.load[2 * wall + 1] -= gy
    return least


@inner
def leap(grains: Grains, force: Floats, laws: Laws, gravity: Floats, drag: float, h: float) -> float:
    """Kick and drift: velocities to the middle of the step, places to its end; return the greatest squared speed."""
    state, kept = grains.state, 1.0 - drag * h
    fastest = 0.0
    for i in range(grains.present[0]):
        mass, inertia, falls = (
            3 * grains.kind[i],
            3 * grains.kind[i] + 1,
            laws.inverse[3 * grains.kind[i] + 2],
        )
        vx = (state[WIDTH * i + VX] + (force[4 * i] * laws.inverse[mass] + gravity[0] * falls) * h) * kept
        vy = (state[WIDTH * i + VY] + (force[4 * i + 1] * laws.inverse[mass] + gravity[1] * falls) * h) * kept
        w = (state[WIDTH * i + W] + force[4 * i + 2] * laws.inverse[inertia] * h) * kept
        state[WIDTH * i + VX], state[WIDTH * i + VY], state[WIDTH * i + W] = vx, vy, w
        state[WIDTH * i + X] += vx * h
        state[WIDTH * i + Y] += vy * h
        state[WIDTH * i + ANGLE] += w * h
        force[4 * i] = force[4 * i + 1] = force[4 * i + 2] = 0.0
        fastest = max(fastest, vx * vx + vy * vy)
    return fastest


@inner
def predict(grains: Grains, h: float) -> float:
    """Expand places, velocities and accelerations over a step; return the greatest squared speed."""
    state, past = grains.state, grains.past
    fastest = 0.0
    for i in range(grains.present[0]):
        for q in range(3):  # x, y, angle
            at, rate = WIDTH * i + (q if q < 2 else ANGLE), WIDTH * i + VX + q
            a, b = past[6 * i + q], past[6 * i + 3 + q]
            state[at] += h * (state[rate] + h * (0.5 * a + h * b / 6.0))
            state[rate] += h * (a + 0.5 * h * b)
            past[6 * i + q] = a + h * b
        vx, vy = state[WIDTH * i + VX], state[WIDTH * i + VY]
        fastest = max(fastest, vx * vx + vy * vy)
    return fastest


@inner
def correct(grains: Grains, force: Floats, laws: Laws, gravity: Floats, drag: float, h: float) -> None:
    """Correct what `predict` made by the error of the acceleration, with the factors 1/6, 5/6, 1, 1/3."""
    state, past = grains.state, grains.past
    for i in range(grains.present[0]):
        for q in range(3):
            at, rate = WIDTH * i + (q if q < 2 else ANGLE), WIDTH * i + VX + q
            a = force[4 * i + q] * laws.inverse[3 * grains.kind[i] + (0 if q < 2 else 1)]
            a += (gravity[q] * laws.inverse[3 * grains.kind[i] + 2] if q < 2 else 0.0) - drag * state[rate]
            error = a - past[6 * i + q]
            state[at] += h * h * error / 12.0
            state[rate] += 5.0 * h * error / 12.0
            past[6 * i + q] = a
            past[6 * i + 3 + q] += error / h
            force[4 * i + q] = 0.0


@inner
def evaluate(
    grains: Grains,
    force: Floats,
    lists: Lists,
    laws: Laws,
    block: Block,
    walls: Walls,
    gauges: Floats,
    t: float,
    span: Span,
) -> float:
    """Add all forces at a time, return the greatest speed of a wall."""
    x, y, a, vx, vy, w = pose(walls.motion, t)
    far = place_walls(walls, x, y, a)
    least = grain_forces(grains.present[0], grains.state, force, grains.kind, lists, laws, block, span)
    touch = wall_forces(grains, force, lists, laws, walls, (x, y), (vx, vy, w), span)
    gauges[LEAST] = min(gauges[LEAST], least, touch)
    return math.hypot(vx, vy) + abs(w) * far


@kernel
def renew(
    grains: Grains,
    lists: Lists,
    room: Room,
    walls: Walls,
    gauges: Floats,
    domain: Floats,
    size: float,
    skin: float,
    t: float,
) -> int:
    """Sort grains and list anew who is near at a time."""
    x, y, a, _, _, _ = pose(walls.motion, t)
    place_walls(walls, x, y, a)
    status = rebuild(grains, lists, room, walls.placed, walls.shut, domain, size, skin)
    if status == DONE:
        gauges[TRAVEL] = 0.0
    return status


@kernel
def advance(
    grains: Grains,
    force: Floats,
    lists: Lists,
    room: Room,
    laws: Laws,
    block: Block,
    walls: Walls,
    gauges: Floats,
    gravity: Floats,
    domain: Floats,
    size: float,
    skin: float,
    drag: float,
    scheme: int,
    h: float,
    step: int,
    stop: int,
) -> tuple[int, int]:
    """Take steps of ``h`` from ``step`` until ``stop``; return a status and the step that is reached.

    Forces are zero between steps. With the scheme of Gear a step begins by predicting, so that forces are those of its
    end; else by the forces of its start, with velocities that are half a step behind.
    """
    while step < stop:
        if 2.0 * gauges[TRAVEL] > SPENT * skin:
            status = renew(grains, lists, room, walls, gauges, domain, size, skin, step * h)
            if status != DONE:
                return status, step
        if scheme == GEAR:
            fastest = predict(grains, h)
            now, half = (step + 1) * h, 0.5 * h
            speed = evaluate(grains, force, lists, laws, block, walls, gauges, now, (half, half))
            correct(grains, force, laws, gravity, drag, h)
        else:
            speed = evaluate(grains, force, lists, laws, block, walls, gauges, step * h, (h, 0.0))
            fastest = leap(grains, force, laws, gravity, drag, h)
        gauges[TRAVEL] += max(speed, math.sqrt(fastest)) * h
        gauges[STEPS] += float(grains.present[0])
        step += 1
    return DONE, step


@kernel
def measure(
    grains: Grains,
    force: Floats,
    lists: Lists,
    laws: Laws,
    block: Block,
    walls: Walls,
    gauges: Floats,
    t: float,
    ahead: float,
) -> None:
    """Leave the forces of this instant in ``force`` and ``walls.load``; stretches are cut back to the caps of now.

    They are kept ``ahead`` of the instant: by half a step with the scheme of Gear.
    """
    force[:] = 0.0
    evaluate(grains, force, lists, laws, block, walls, gauges, t, (-ahead, 0.0))
