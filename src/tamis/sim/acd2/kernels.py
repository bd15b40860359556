"""Steps of many grains by the A-CD2 method: move, find contacts, jump.

Bodies move at constant velocity for a step ``h``, contacts and forces are those of where they end, and there the
velocities jump (Dimnet et al. 2013, 10.1007/s00707-013-0900-8; `solver` has the jump, `net` the force of the net).
Between jumps a body without torque keeps its momentum, not its angular velocity: its spin goes on by the midpoint rule.

Velocities are six numbers a body: linear in space, angular in its principal axes, where the mass is a diagonal. What
the net adds to it, ``2 h^2 H``, is one more 6x6 block a body, so the matrix ``A`` of the jump is factored body by body
and the solver sees velocities times that factor. Impulses of the last step are the start of the next: contacts come in
the order of their pairs, and both lists are passed once.

The box of a gabion closes side by side until it has its size, the slower the harder grains push against it.

A jump keeps contacts from closing; it never opens what overlaps, and grains that meet at 1 m/s overlap by a millimetre
before their contact is found. While a gabion comes to rest, contacts that overlap deeply are asked to part at a small
speed, which is work done by nobody in particular, in the books like any other. A slight overlap stays, since contacts
that just touch come and go.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tamis.jit import inner, kernel
from tamis.sim.acd2.net import hold_rough
from tamis.sim.acd2.solver import Local, relax
from tamis.sim.common.broad import Flags, Sweep, find_pairs
from tamis.sim.common.collide import Narrow, collide
from tamis.sim.common.geometry import Floats, Geometry, Ints, Manifolds, World, place
from tamis.sim.common.rotations import matrix, spun, turned
from tamis.sim.common.vectors import tangents
from tamis.sim.contact.gauss_seidel import Last
from tamis.sim.contact.problem import Contacts

DONE, MORE_PAIRS, MORE_CONTACTS, NOT_FINITE = range(4)
KINETIC, WEIGHT, NET, VISCOUS, REACTIVE, GIVEN, FRICTION = range(7)  # columns of the books
LEAST_PACE = 0.05  # of the closing speed, at the end of the way
FORGET = 0.05  # share of the last step in the mean push on the sides


class Grains(NamedTuple):
    """What does not change about the grains; each has one contactor, in its principal axes."""

    geometry: Geometry
    mass: Floats  # (b, 6)
    meet: Flags  # (1, 1)
    responds: Flags  # (b,)


class State(NamedTuple):
    """What a step changes."""

    x: Floats  # (b, 3)
    q: Floats  # (b, 4)
    v: Floats  # (b, 6)
    half: Floats  # (3,) half sides of the box
    push: Floats  # (6,) forces on its sides, k V: low and high x, y, z
    press: Floats  # (3,) what the net gives to each pair of sides in the jump, a mean over some steps
    work: Floats  # (4,) since the start: lost to viscosity and by reaction, given by gravity and net, lost to friction
    rubbed: Floats  # (3,) percussion of the net on all grains by friction, in the last jump
    held: Ints  # (1,) impulses of the last step, by pair and feature
    pair: Ints  # (n, 3)
    r: Floats  # (n, 3)


class Room(NamedTuple):
    """Work arrays of a step."""

    world: World
    sweep: Sweep
    pairs: Ints
    narrow: Narrow
    found: Manifolds
    contacts: Contacts
    local: Local
    last: Last
    factor: Floats  # (b, 6, 6) L of A = L L'
    stiff: Floats  # (b, 6, 6) H
    force: Floats  # (b, 6)
    free: Floats  # (b, 6)
    w: Floats  # (b, 6)
    start: Floats  # (n, 3)
    drag: Floats  # (b, 6, 6) D, friction of the net


class Record(NamedTuple):
    """What is kept of every step, and of some instants."""

    every: Ints  # (1,)
    counts: Ints  # (steps, 2) contacts, sweeps
    residual: Floats  # (steps,)
    overlap: Floats  # (steps,) deepest
    half: Floats  # (steps, 3)
    push: Floats  # (steps, 6)
    books: Floats  # (steps, 7)
    momentum: Floats  # (steps, 2, 3) of the grains, and what gravity and net have given in the step
    x: Floats  # (instants, b, 3)
    q: Floats  # (instants, b, 4)


@inner
def move(grains: Grains, state: State, h: float) -> None:
    """Go on at constant velocity for a step; spins keep their momentum."""
    v = state.v
    for i in range(len(v)):
        a, b, c = v[i, 3], v[i, 4], v[i, 5]
        v[i, 3], v[i, 4], v[i, 5] = spun(grains.mass[i, 3:], h, a, b, c)
        for j in range(3):
            state.x[i, j] += h * v[i, j]
        a, b, c = 0.5 * (a + v[i, 3]), 0.5 * (b + v[i, 4]), 0.5 * (c + v[i, 5])
        turned(state.q[i], h * a, h * b, h * c, state.q[i])


@inner
def close_box(state: State, goal: float, way: float, speed: float, hardest: float, h: float) -> None:
    """Move the sides in: slower towards the goal, and where grains push back."""
    for axis in range(3):
        left = state.half[axis] - goal
        if left > 0.0:
            slower = max(0.0, 1.0 - state.press[axis] / hardest)
            pace = speed * min(1.0, LEAST_PACE + left / way) * slower
            state.half[axis] = max(goal, state.half[axis] - h * pace)


@inner
def factorise(mass: Floats, H: Floats, twice: float, L: Floats) -> None:
    """Write the lower factor of ``2M + twice H``."""
    for m in range(6):
        for n in range(m + 1):
            total = twice * H[m, n] + (2.0 * mass[m] if m == n else 0.0)
            for k in range(n):
                total -= L[m, k] * L[n, k]
            L[m, n] = math.sqrt(total) if m == n else total / L[n, n]


@inner
def lower(L: Floats, b: Floats) -> None:
    """Solve ``L y = b`` in place."""
    for m in range(6):
        total = b[m]
        for k in range(m):
            total -= L[m, k] * b[k]
        b[m] = total / L[m, m]


@inner
def upper(L: Floats, b: Floats) -> None:
    """Solve ``L' x = b`` in place."""
    for m in range(5, -1, -1):
        total = b[m]
        for k in range(m + 1, 6):
            total -= L[k, m] * b[k]
        b[m] = total / L[m, m]


@inner
def load(
    grains: Grains, state: State, room: Room, mu: float, gravity: float, stiffness: float, h: float
) -> float:
    """Write forces, factors and what the bodies would do without contacts; return the energy of the net."""
    state.push[:] = 0.0
    energy, centre, both = 0.0, np.zeros(3), np.empty((6, 6))
    for i in range(len(state.x)):
        force, H, mass, v, free = room.force[i], room.stiff[i], grains.mass[i], state.v[i], room.free[i]
        D = room.drag[i]
        force[:] = 0.0
        H[:] = 0.0
        D[:] = 0.0
        _, stored = hold_rough(
            grains.geometry, room.world, i, state.q[i], centre, state.half, stiffness, force, H, state.push,
            v, h * mu, D,
        )  # fmt: skip
        energy += stored
        force[2] -= mass[0] * gravity
        for m in range(6):
            for n in range(6):
                both[m, n] = h * h * H[m, n] + D[m, n]
        factorise(mass, both, 2.0, room.factor[i])
        for m in range(6):
            total = 2.0 * mass[m] * v[m] + h * force[m]
            for n in range(6):
                total += both[m, n] * v[n]
            free[m] = total
        lower(room.factor[i], free)
    return energy


@inner
def arrange(
    state: State, room: Room, n: int, touch: float, ease: float = 0.0, slop: float = 0.0, h: float = 1.0
) -> int:
    """Write the rows of the contacts that touch, their floors and the impulses to start from; return how many.

    Those that overlap by more than ``slop`` are asked to part, at the speed ``ease`` or as fast as ends it in a step.
    """
    found, contacts = room.found, room.contacts
    frame, R, arm = np.empty((3, 3)), np.empty((3, 3)), np.empty(3)
    count, old = 0, 0
    for k in range(n):
        if found.gap[k] > touch:
            continue
        a, b = found.a[k], found.b[k]
        contacts.row_a[count], contacts.row_b[count] = a, b
        tangents(found.normal[k], frame)
        for p in range(3):
            contacts.bias[count, p] = 0.0
        for side in range(2):
            body, sign = (a, -1.0) if side == 0 else (b, 1.0)
            matrix(state.q[body], R)
            for i in range(3):
                arm[i] = found.point[k, i] - state.x[body, i]
            for p in range(3):
                block = contacts.G[count, p, 6 * side : 6 * side + 6]
                d = frame[p]
                for i in range(3):
                    block[i] = sign * d[i]
                    # the moment arm x d about principal axis i
                    block[3 + i] = sign * (
                        R[0, i] * (arm[1] * d[2] - arm[2] * d[1])
                        + R[1, i] * (arm[2] * d[0] - arm[0] * d[2])
                        + R[2, i] * (arm[0] * d[1] - arm[1] * d[0])
                    )
                for i in range(6):
                    contacts.bias[count, p] -= 0.5 * block[i] * state.v[body, i]
                lower(room.factor[body], block)
        contacts.bias[count, 0] -= 0.5 * min(ease, max(0.0, -(found.gap[k] + slop) / h))
        for p in range(3):
            room.start[count, p] = 0.0
        while old < state.held[0] and (state.pair[old, 0], state.pair[old, 1]) < (a, b):
            old += 1
        at = old
        while at < state.held[0] and state.pair[at, 0] == a and state.pair[at, 1] == b:
            if state.pair[at, 2] == found.feature[k]:
                for p in range(3):
                    room.start[count, p] = state.r[at, p]
                break
            at += 1
        found.feature[count] = found.feature[k]
        found.gap[count] = found.gap[k]
        count += 1
    return count


@inner
def speed_of(contacts: Contacts, free: Floats) -> float:
    """Return the largest normal velocity of a contact without impulses."""
    largest = 0.0
    for i in range(contacts.row_a.size):
        u = 0.0
        for side in range(2):
            body = contacts.row_a[i] if side == 0 else contacts.row_b[i]
            for j in range(6):
                u += contacts.G[i, 0, 6 * side + j] * free[body, j]
        largest = max(largest, abs(u))
    return largest


@inner
def jump(
    grains: Grains, state: State, room: Room, count: int, k_n: float, k_t: float, gravity: float, h: float
) -> bool:
    """Write the velocities after the jump and book the work of contacts and net; return whether all is finite."""
    contacts, r = room.contacts, room.start
    for i in range(count):
        for p in range(3):
            u = 0.0
            for side in range(2):
                body = contacts.row_a[i] if side == 0 else contacts.row_b[i]
                for j in range(6):
                    u += contacts.G[i, p, 6 * side + j] * room.w[body, j]
            k = k_n if p == 0 else k_t
            state.work[0] += k * u * u
            state.work[1 if p == 0 else 3] -= (r[i, p] + k * u) * u
        for p in range(3):
            state.r[i, p] = r[i, p]
        state.pair[i, 0], state.pair[i, 1] = contacts.row_a[i], contacts.row_b[i]
        state.pair[i, 2] = room.found.feature[i]
    state.held[0] = count
    finite = True
    for axis in range(3):
        state.press[axis] *= 1.0 - FORGET
        state.rubbed[axis] = 0.0
    for i in range(len(state.v)):
        upper(room.factor[i], room.w[i])
        v, X, H, D = state.v[i], room.w[i], room.stiff[i], room.drag[i]
        for m in range(6):
            implicit = rough = 0.0
            for n in range(6):
                implicit += H[m, n] * (2.0 * X[n] - v[n])
                rough += D[m, n] * (2.0 * X[n] - v[n])
            room.force[i, m] -= h * implicit  # what the net gives after all
            if m < 3:
                state.rubbed[m] -= rough
            state.work[3] += rough * X[m]
        for axis in range(3):
            weight = grains.mass[i, 0] * gravity if axis == 2 else 0.0
            state.press[axis] += 0.5 * FORGET * abs(room.force[i, axis] + weight)
        for m in range(6):
            v[m] = 2.0 * X[m] - v[m]
            state.work[2] += h * room.force[i, m] * X[m]
            finite &= math.isfinite(v[m])
    return finite


@inner
def keep(
    grains: Grains, state: State, room: Room, step: int, gravity: float, h: float, net: float, record: Record
) -> None:
    """Write what is kept of a step."""
    books = record.books[step]
    books[:] = 0.0
    books[NET] = net
    for i in range(len(state.x)):
        for j in range(6):
            books[KINETIC] += 0.5 * grains.mass[i, j] * state.v[i, j] ** 2
        books[WEIGHT] += grains.mass[i, 0] * gravity * state.x[i, 2]
        for j in range(3):
            record.momentum[step, 0, j] += grains.mass[i, 0] * state.v[i, j]
            record.momentum[step, 1, j] += h * room.force[i, j]
    for j in range(3):
        record.momentum[step, 1, j] += state.rubbed[j]
    for j in range(4):
        books[VISCOUS + j] = state.work[j]
    for j in range(3):
        record.half[step, j] = state.half[j]
    for j in range(6):
        record.push[step, j] = state.push[j]
    if (step + 1) % record.every[0] == 0:
        instant = (step + 1) // record.every[0]
        record.x[instant] = state.x
        record.q[instant] = state.q


@kernel
def advance(
    grains: Grains,
    state: State,
    room: Room,
    record: Record,
    closing: Any,
    ease: Any,
    k_n: float,
    k_t: float,
    mu: float,
    gravity: float,
    stiffness: float,
    h: float,
    touch: float,
    tolerance: float,
    limit: int,
    first: int,
    last: int,
) -> tuple[int, int, int]:
    """Take the steps ``first`` to ``last - 1``; return a status, the next step, and how much room it asks for.

    ``closing`` is the goal of the half side, the way over which the box slows down, its speed, and the hardest push;
    ``ease`` the speed at which overlaps are undone, 0 wherever the motion is that of the method, and what stays.
    A step that asks for more room has moved the bodies already: it is taken up again after the motion.
    """
    goal, way, speed, hardest = closing
    room.contacts.mu[:] = mu
    found, pairs = room.found, room.pairs
    for step in range(first, last):
        if record.counts[step, 1] >= 0:  # -1: it has moved
            move(grains, state, h)
            close_box(state, goal, way, speed, hardest, h)
            record.counts[step, 1] = -1
        place(state.x, state.q, grains.geometry, room.world)
        n_pairs = find_pairs(
            grains.geometry, room.world, grains.meet, grains.responds, touch, pairs, room.sweep
        )
        if n_pairs > len(pairs):
            return MORE_PAIRS, step, n_pairs
        n = collide(pairs, n_pairs, grains.geometry, room.world, touch, found, room.narrow)
        if n > len(found.gap):
            return MORE_CONTACTS, step, n
        net = load(grains, state, room, mu, gravity, stiffness, h)
        count = arrange(state, room, n, touch, ease[0], ease[1], h)
        deepest = 0.0
        for k in range(count):
            deepest = max(deepest, -found.gap[k])
        contacts = Contacts(
            room.contacts.row_a[:count],
            room.contacts.row_b[:count],
            room.contacts.G[:count],
            room.contacts.bias[:count],
            room.contacts.mu[:count],
        )
        scale = speed_of(contacts, room.free)
        goal_error = tolerance * scale
        sweeps, error = relax(
            contacts,
            room.free,
            room.w,
            room.start[:count],
            k_n,
            k_t,
            goal_error,
            limit,
            room.local,
            room.last,
        )
        finite = jump(grains, state, room, count, k_n, k_t, gravity, h)
        record.counts[step, 0], record.counts[step, 1] = count, sweeps
        record.residual[step] = error / scale if scale > 0.0 else 0.0
        record.overlap[step] = deepest
        keep(grains, state, room, step, gravity, h, net, record)
        if not finite:
            return NOT_FINITE, step, 0
    return DONE, last, 0
