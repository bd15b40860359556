"""Steps of grains that are struck: gabions in their nets on a bed of springs, or loose grains, between planes.

The step is that of `kernels`: move, find contacts, jump. What is added is a ball (body 0), planes that do not move
(the last bodies), springs behind some grains, and nets that go with their grains.

A net that goes with its grains
-------------------------------
The paper gives the force of a net for a box that stands still (`net`). A gabion that is pushed takes its net along:
with a box of 1e11 N/m3 fixed in space nothing could move by more than some millimetres. A net weighs next to nothing
beside its grains, so its box goes where its forces balance, along each axis by itself; it does not turn. With ``V``
the velocity of the box over the next step, the force on a grain is ``f - h H (U+ - V)``, and ``V`` follows from the
sum over the gabion, ``sum f = h sum H (U+ - V)``.

That couples all grains of a gabion. Rather than one more full matrix, sweeps over the contacts with ``V`` held, and
``V`` from the velocities that they leave, follow each other. Both minimise the same convex function, so that this
descends; its rate is ``c/(m + c)`` with ``c = h^2 sum H`` and ``m`` the mass that goes along, which steps of 2e-4 s
keep small. ``V`` is moved by ``(m + c)/m`` of what it asks for, at most by 1.9 times: the same limit as for sweeps.
What is left of the balance is booked as an impulse of the net (`Run.imbalance`); nets above some 1e12 N/m3 leave much.

Springs (the sand behind a wall, a Winkler bed) push a grain back by ``k d``, ``d`` being how far its centre has gone
along y; they are soft (3e4 N/m: 180 rad/s for a grain of 0.9 kg) and are taken as they are at the end of the step,
which keeps their energy. Sand that gives back a share ``e`` of the work done on it comes back by ``k/e`` from the
deepest that it has been (Walton & Braun 1986, 10.1122/1.549893) and keeps the rest of the way. Grains rub on each
other and on planes, not on nets.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tamis.jit import inner, kernel
from tamis.sim.acd2.kernels import (
    DONE,
    MORE_CONTACTS,
    MORE_PAIRS,
    NOT_FINITE,
    Grains,
    Room,
    State,
    arrange,
    factorise,
    lower,
    move,
    speed_of,
    upper,
)
from tamis.sim.acd2.net import hold
from tamis.sim.acd2.solver import relax
from tamis.sim.common.broad import find_pairs
from tamis.sim.common.collide import collide
from tamis.sim.common.geometry import Floats, Ints, place
from tamis.sim.contact.problem import Contacts

CHUNK = 20  # sweeps over the contacts between two looks at the nets
LONGEST = 1.9  # of the way that a net asks for
KINETIC, WEIGHT, SAND, NET, BY_WEIGHT, BY_SAND, BY_NET, NORMAL, TANGENTIAL, FRICTION, REACTIVE = range(11)
MOMENTUM, FROM_WEIGHT, FROM_SAND, FROM_NET, FROM_PLANES = range(5)


class Wall(NamedTuple):
    """What is about the bodies besides their masses and contacts."""

    moving: int  # bodies before the planes; body 0 is the ball
    weighs: Floats  # (b,) 1 where gravity acts, 0 where it does not
    gabion: Ints  # (b,) -1: in no net
    sensor: Ints  # (b,) -1: no spring behind it; else where its force is added
    follow: Ints  # bodies whose velocities are kept
    gabions: Floats  # (g,) masses
    half: Floats  # (3,) half sides of the boxes
    box: Floats  # (g, 3) their centres, and what follows, change
    glide: Floats  # (g, 3) velocities
    ask: Floats  # (g, 3) velocities that would balance the forces
    stiff: Floats  # (g, 3) sums of H
    pull: Floats  # (g, 3) sums of f
    rest: Floats  # (b,) y at which springs are slack
    deep: Floats  # (b,) deepest that they have been pushed
    sand: Floats  # (b,) forces of springs
    base: Floats  # (b, 6) what the bodies would do with nets at rest, as momenta
    work: Floats  # (7,) works and losses since the start


class Signals(NamedTuple):
    """What is kept of every step, and of some instants."""

    every: Ints  # (1,)
    counts: Ints  # (steps, 3) contacts, sweeps, looks at the nets
    residual: Floats  # (steps,)
    overlap: Floats  # (steps,)
    books: Floats  # (steps, 11) energies, works, losses
    momentum: Floats  # (steps, 5, 3) of all bodies; what gave it in the step
    planes: Floats  # (steps, planes, 3) impulses on the grains
    force: Floats  # (steps, sensors)
    back: Floats  # (steps, 2) of the grains with a sensor but the last: mean way along y; of all: largest
    ball: Floats  # (steps, 3) its place
    v: Floats  # (steps, followed, 3)
    x: Floats  # (instants, b, 3)
    q: Floats  # (instants, b, 4)
    box: Floats  # (instants, g, 3)


@inner
def load(
    grains: Grains,
    wall: Wall,
    state: State,
    room: Room,
    gravity: float,
    k_net: float,
    sand: tuple[float, float],
    h: float,
    books: Floats,
) -> None:
    """Write forces and factors; book what is stored in nets and springs.

    ``sand`` is the stiffness of a spring and the share of work that it gives back.
    """
    wall.stiff[:] = 0.0
    wall.pull[:] = 0.0
    books[:] = 0.0
    for i in range(wall.moving):
        force, H, mass, v, base = room.force[i], room.stiff[i], grains.mass[i], state.v[i], wall.base[i]
        force[:] = 0.0
        H[:] = 0.0
        g = wall.gabion[i]
        if g >= 0:
            _, stored = hold(
                grains.geometry,
                room.world,
                i,
                state.q[i],
                wall.box[g],
                wall.half,
                k_net,
                force,
                H,
                state.push,
            )
            books[NET] += stored
            for axis in range(3):
                wall.stiff[g, axis] += H[axis, axis]
                wall.pull[g, axis] += force[axis]
        wall.sand[i] = 0.0
        if wall.sensor[i] >= 0 and sand[0] > 0.0:
            depth = state.x[i, 1] - wall.rest[i]
            wall.deep[i] = max(wall.deep[i], depth)
            push = sand[0] * (wall.deep[i] - (wall.deep[i] - depth) / sand[1])
            if push > 0.0:
                wall.sand[i] = -push
                books[SAND] += 0.5 * push * push * sand[1] / sand[0]
        factorise(mass, H, 2.0 * h * h, room.factor[i])
        weight = wall.weighs[i] * gravity
        books[WEIGHT] += mass[0] * weight * state.x[i, 2]
        for m in range(6):
            total = 2.0 * mass[m] * v[m] + h * force[m]
            for n in range(6):
                total += h * h * H[m, n] * v[n]
            base[m] = total
        base[1] += h * wall.sand[i]
        base[2] -= h * mass[2] * weight


@inner
def release(wall: Wall, room: Room, h: float) -> None:
    """Write what the bodies would do without contacts, the nets going on as they do."""
    for i in range(wall.moving):
        free, H, g = room.free[i], room.stiff[i], wall.gabion[i]
        for m in range(6):
            free[m] = wall.base[i, m]
            if g >= 0:
                for axis in range(3):
                    free[m] += h * h * H[m, axis] * wall.glide[g, axis]
        lower(room.factor[i], free)


@inner
def balance(grains: Grains, wall: Wall, state: State, room: Room, h: float) -> float:
    """Write the velocities that would balance the forces of each net; return how far the largest is from what it is."""
    ask, stiff, X = wall.ask, wall.stiff, np.empty(6)
    ask[:] = 0.0
    for i in range(wall.moving):
        g = wall.gabion[i]
        if g < 0:
            continue
        for m in range(6):
            X[m] = room.w[i, m]
        upper(room.factor[i], X)
        for axis in range(3):
            if stiff[g, axis] > 0.0:
                for n in range(6):
                    ask[g, axis] += room.stiff[i, axis, n] * (2.0 * X[n] - state.v[i, n])
            else:
                ask[g, axis] += grains.mass[i, 0] / wall.gabions[g] * (2.0 * X[axis] - state.v[i, axis])
    largest = 0.0
    for g in range(len(ask)):
        for axis in range(3):
            if stiff[g, axis] > 0.0:
                ask[g, axis] = (ask[g, axis] - wall.pull[g, axis] / h) / stiff[g, axis]
            away = abs(ask[g, axis] - wall.glide[g, axis]) * h * h * stiff[g, axis] / wall.gabions[g]
            largest = max(largest, away)
    return largest


@inner
def follow(wall: Wall, h: float) -> None:
    """Move the velocities of the nets towards balance."""
    for g in range(len(wall.glide)):
        for axis in range(3):
            share = min(1.0 + h * h * wall.stiff[g, axis] / wall.gabions[g], LONGEST)
            wall.glide[g, axis] += share * (wall.ask[g, axis] - wall.glide[g, axis])


@inner
def jump(
    grains: Grains,
    wall: Wall,
    state: State,
    room: Room,
    count: int,
    laws: tuple[float, float, float],
    gravity: float,
    h: float,
    impulses: Floats,
    given: Floats,
) -> bool:
    """Write the velocities after the jump and book impulses and works; return whether all is finite."""
    contacts, r, work = room.contacts, room.start, wall.work
    k_n, k_t, _ = laws
    impulses[:] = 0.0
    given[:] = 0.0
    for i in range(count):
        a, b = contacts.row_a[i], contacts.row_b[i]
        for p in range(3):
            u = 0.0
            for j in range(6):
                u += contacts.G[i, p, j] * room.w[a, j]
                if b < wall.moving:
                    u += contacts.G[i, p, 6 + j] * room.w[b, j]
            if p == 0:
                work[NORMAL - BY_WEIGHT] += k_n * u * u
                work[REACTIVE - BY_WEIGHT] -= (r[i, p] + k_n * u) * u
            else:
                work[TANGENTIAL - BY_WEIGHT] += k_t * u * u
                work[FRICTION - BY_WEIGHT] -= (r[i, p] + k_t * u) * u
            if b >= wall.moving:
                for j in range(3):
                    for k in range(j + 1):
                        impulses[b - wall.moving, j] += r[i, p] * room.factor[a, j, k] * contacts.G[i, p, k]
            state.r[i, p] = r[i, p]
        state.pair[i, 0], state.pair[i, 1], state.pair[i, 2] = a, b, room.found.feature[i]
    state.held[0] = count
    finite = True
    for i in range(wall.moving):
        v, X, H, force, g = state.v[i], room.w[i], room.stiff[i], room.force[i], wall.gabion[i]
        upper(room.factor[i], X)
        for m in range(6):
            if g >= 0:
                for n in range(6):
                    away = 2.0 * X[n] - v[n] - (wall.glide[g, n] if n < 3 else 0.0)
                    force[m] -= h * H[m, n] * away  # what the net gives after all
            work[BY_NET - BY_WEIGHT] += h * force[m] * X[m]
        weight = -grains.mass[i, 2] * wall.weighs[i] * gravity
        work[0] += h * weight * X[2]
        work[BY_SAND - BY_WEIGHT] += h * wall.sand[i] * X[1]
        given[FROM_WEIGHT, 2] += h * weight
        given[FROM_SAND, 1] += h * wall.sand[i]
        for m in range(6):
            v[m] = 2.0 * X[m] - v[m]
            finite &= math.isfinite(v[m])
        for j in range(3):
            given[FROM_NET, j] += h * force[j]
            given[MOMENTUM, j] += grains.mass[i, j] * v[j]
    for j in range(3):
        for plane in range(len(impulses)):
            given[FROM_PLANES, j] += impulses[plane, j]
    return finite


@inner
def keep(grains: Grains, wall: Wall, state: State, step: int, signals: Signals) -> None:
    """Write what is kept of a step."""
    books, back, force = signals.books[step], signals.back[step], signals.force[step]
    books[KINETIC], back[0], back[1], behind = 0.0, 0.0, -np.inf, 0
    force[:] = 0.0
    for i in range(wall.moving):
        for j in range(6):
            books[KINETIC] += 0.5 * grains.mass[i, j] * state.v[i, j] ** 2
        if wall.sensor[i] >= 0:
            force[wall.sensor[i]] -= wall.sand[i]
            way = state.x[i, 1] - wall.rest[i]
            back[1] = max(back[1], way)
            if wall.sensor[i] < len(force) - 1:
                back[0] += way
                behind += 1
    back[0] /= max(behind, 1)
    for j in range(len(wall.work)):
        books[BY_WEIGHT + j] = wall.work[j]
    for k in range(len(wall.follow)):
        for j in range(3):
            signals.v[step, k, j] = state.v[wall.follow[k], j]
    for j in range(3):
        signals.ball[step, j] = state.x[0, j]
    if (step + 1) % signals.every[0] == 0:
        instant = (step + 1) // signals.every[0]
        signals.x[instant] = state.x
        signals.q[instant] = state.q
        signals.box[instant] = wall.box


@kernel
def strike(
    grains: Grains,
    wall: Wall,
    state: State,
    room: Room,
    signals: Signals,
    laws: tuple[float, float, float],
    gravity: float,
    k_net: float,
    sand: tuple[float, float],
    h: float,
    touch: float,
    tolerance: float,
    limit: int,
    first: int,
    last: int,
) -> tuple[int, int, int]:
    """Take the steps ``first`` to ``last - 1``; return a status, the next step, and how much room it asks for.

    ``laws`` are k_n, k_t and mu. A step that asks for more room has moved the bodies already: it is taken up again
    after the motion.
    """
    found, pairs = room.found, room.pairs
    room.contacts.mu[:] = laws[2]
    for step in range(first, last):
        if signals.counts[step, 1] >= 0:  # -1: it has moved
            move(grains, state, h)
            for g in range(len(wall.box)):
                for axis in range(3):
                    wall.box[g, axis] += h * wall.glide[g, axis]
            signals.counts[step, 1] = -1
        place(state.x, state.q, grains.geometry, room.world)
        n_pairs = find_pairs(
            grains.geometry, room.world, grains.meet, grains.responds, touch, pairs, room.sweep
        )
        if n_pairs > len(pairs):
            return MORE_PAIRS, step, n_pairs
        n = collide(pairs, n_pairs, grains.geometry, room.world, touch, found, room.narrow)
        if n > len(found.gap):
            return MORE_CONTACTS, step, n
        load(grains, wall, state, room, gravity, k_net, sand, h, signals.books[step])
        count = arrange(state, room, n, touch)
        deepest = 0.0
        for k in range(count):
            deepest = max(deepest, -found.gap[k])
            if room.contacts.row_b[k] >= wall.moving:
                room.contacts.G[k, :, 6:] = 0.0
        contacts = Contacts(
            room.contacts.row_a[:count],
            room.contacts.row_b[:count],
            room.contacts.G[:count],
            room.contacts.bias[:count],
            room.contacts.mu[:count],
        )
        release(wall, room, h)
        scale = speed_of(contacts, room.free)
        sweeps, looks, error, away = 0, 0, 0.0, 0.0
        while True:
            more, error = relax(
                contacts,
                room.free,
                room.w,
                room.start[:count],
                laws[0],
                laws[1],
                tolerance * scale,
                CHUNK if looks == 0 or away > tolerance * scale else limit - sweeps,
                room.local,
                room.last,
            )
            sweeps += more
            looks += 1
            away = balance(grains, wall, state, room, h)
            if not max(error, away) > tolerance * scale or sweeps >= limit or looks >= limit:
                break
            if away > 0.5 * tolerance * scale:
                follow(wall, h)
                release(wall, room, h)
        finite = jump(
            grains, wall, state, room, count, laws, gravity, h, signals.planes[step], signals.momentum[step]
        )
        signals.counts[step, 0], signals.counts[step, 1], signals.counts[step, 2] = count, sweeps, looks
        signals.residual[step] = max(error, away) / scale if scale > 0.0 else 0.0
        signals.overlap[step] = deepest
        keep(grains, wall, state, step, signals)
        if not finite:
            return NOT_FINITE, step, 0
    return DONE, last, 0
