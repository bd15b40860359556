"""One time step of rigid bodies in unilateral contact with friction, without stiffness and without events.

The scheme (Moreau 1988, 10.1007/978-3-7091-2624-0_1; Jean 1999, 10.1016/S0045-7825(98)00383-1; Gupta et al. 2023,
10.1016/j.engstruct.2023.116936, eqs 13-14)
--------------------------------------------------------------------------------------------------
Velocities jump, so they are not differentiated: a step ``h`` balances momentum and the unknown of each contact is
its impulse ``r`` over the step::

    predict   q* = q + h v                       where contacts are looked for
    free      v_f = v + h M^-1 F                 (spin: implicit midpoint rule)
    active    g* - (1 - gamma) h u_N <= 0        gap half a step ahead, gamma = 1/2
    solve     v+ = v_f + M^-1 G' r,   u+ = G v+
              K* contains u+ + e u_N n + mu |u+_T| n,  perpendicular to r in K(mu)
    move      q+ = q + h [(1 - theta) v + theta v_f + beta (v+ - v_f)],   beta = theta = 1/2

``u = G v`` are the relative velocities of the contacts, normal first, ``u_N`` the normal one at the start of the step.

*No drift.* The geometry ``G`` is that of the predicted end of the step. The law then says ``u+ = G(q+) v+ = 0`` where
the step before said ``G(q) v = 0``, so a lasting contact that turns moves by the trapezoidal rule, and only the rule
for the energy, below, moves its gap (with the geometry of the start or the middle it would creep by ``h |spin|^2/2``
times its arm a second). At rest it moves by nothing at all but what the solver leaves, and the solver, which goes on
from the last step's impulses (warm start) and always improves them, leaves round-off where bodies are few enough for
Newton's method, and something below its tolerance elsewhere.

*Books that close* (the energy ledger). With ``theta = 1/2`` constant forces do exactly the work that the potential
loses, the midpoint rule and the Cayley map conserve the spin of a free body, and all that is left is the work of the
impulses, ``r . (u + u+)/2`` (Acary 2016, 10.1002/zamm.201400231). It is booked contact by contact, in its normal part
(impact) and its tangential part (friction).

*Energy that does not grow.* That work can be positive: a block that is just turning back on a slope meets, in one
and the same step, the velocity of before and the friction of after. In such a step the impulses belong to its later
part, so their centre of action is moved there: ``beta`` falls below 1/2 until those of an *island*, bodies that
act on each other in this step, do no work together. The work is
``r . (u_f + u+)/2 - beta r . (u_f - u)``, with ``u_f = G v_f``. At ``beta = 0`` it is never positive if ``e = 0``, with
any friction, or if all contacts have one ``e`` and no friction: with ``u+ = u_f + W r`` and ``W`` positive,
``r . u_f <= r . u+ <= 0`` in the first case, and ``r . u+ = -e r . u < 0`` wherever ``r . u > 0`` in the second. So
there the energy cannot grow, whatever the step. Elsewhere Newton's restitution with friction may create energy by
itself (Kane & Levinson 1985; Stronge 1990, 10.1098/rspa.1990.0125); what is left at ``beta = 0`` is then a gain, and
booked as such.

*A blow* passes through links with millimetres of play in a few milliseconds. The steps while it lasts may be taken in
parts, each of them a step of the scheme; what is recorded goes on by whole steps.

How the data are arranged
-------------------------
Velocities are six numbers a body: linear in space, angular in the principal axes, so the mass matrix is a diagonal.
The solver sees them multiplied by its root (`tamis.sim.contact.solve`). Impulses are kept in space axes between
steps and found again by pair and feature: contacts are listed in the order of their pairs, so old and new ones are
matched in one pass. `advance` takes many steps in one call and comes back early only if an array has become too
small; the state is then that of the last complete step, and the caller makes room and calls again.
"""

from __future__ import annotations

import math

import numpy as np

from tamis.jit import apart, inner, kernel
from tamis.sim.common.broad import find_pairs
from tamis.sim.common.collide import collide
from tamis.sim.common.geometry import Geometry, Manifolds, place
from tamis.sim.common.rotations import matrix, spun, turned
from tamis.sim.common.vectors import tangents
from tamis.sim.contact.problem import Contacts
from tamis.sim.contact.solve import NEEDS_DIRECT
from tamis.sim.nscd.arrays import (
    Active,
    Bodies,
    Books,
    Bools,
    Detection,
    Floats,
    Impulses,
    Ints,
    Islands,
    Laws,
    Model,
    Motion,
    Record,
    Scratch,
    State,
    Stops,
)
from tamis.sim.nscd.recording import enlist, keep, tell
from tamis.sim.nscd.stops import taut

DONE, MORE_PAIRS, MORE_CONTACTS, MORE_RECORDS, MORE_METHODS, NOT_FINITE, AT_REST = range(7)
GAMMA = 0.5


@inner
def lever(x: Floats, axes: Floats, point: Floats, frame: Floats, sign: float, G: Floats, first: int) -> None:
    """Write, from column ``first``, the three rows by which a body enters the relative velocity of a contact."""
    p0, p1, p2 = point[0] - x[0], point[1] - x[1], point[2] - x[2]
    for row in range(3):
        d0, d1, d2 = sign * frame[row, 0], sign * frame[row, 1], sign * frame[row, 2]
        m0, m1, m2 = p1 * d2 - p2 * d1, p2 * d0 - p0 * d2, p0 * d1 - p1 * d0
        G[row, first], G[row, first + 1], G[row, first + 2] = d0, d1, d2
        for i in range(3):
            G[row, first + 3 + i] = axes[0, i] * m0 + axes[1, i] * m1 + axes[2, i] * m2


@inner
def predict(
    bodies: Bodies, x: Floats, q: Floats, v: Floats, h: float, passed: Floats, motion: Motion
) -> None:
    """Move every body ahead with its present velocity; contacts are looked for there."""
    for i in range(len(x)):
        for j in range(3):
            motion.x[i, j] = x[i, j] + h * v[i, j]
        turned(q[i], h * v[i, 3], h * v[i, 4], h * v[i, 5], motion.q[i])
        speed = math.sqrt(v[i, 0] ** 2 + v[i, 1] ** 2 + v[i, 2] ** 2)
        turn = 0.0
        for j in range(3):
            turn += (bodies.arm[i, j] * v[i, 3 + j]) ** 2
        length = h * (speed + math.sqrt(turn))
        if length > passed[0] * bodies.stride[i]:
            passed[0], passed[1] = length / bodies.stride[i], i


@inner
def free_velocities(
    bodies: Bodies, q: Floats, v: Floats, h: float, step: int, left: int, motion: Motion
) -> None:
    """Write the velocities before contacts: ``before``, with the spin alone, and ``free``, with all other forces.

    Of the step ``left`` parts are left; a prescribed velocity is a line within it.
    """
    axes = np.empty((3, 3))
    before, free = motion.before, motion.free
    for i in range(len(q)):
        if bodies.number[i] < 0:
            row = bodies.motion[i]
            for j in range(6):
                before[i, j] = v[i, j]
                end = bodies.driven[row, step + 1, j] if row >= 0 else v[i, j]
                free[i, j] = end if left == 1 else v[i, j] + (end - v[i, j]) / left
            continue
        s0, s1, s2 = spun(bodies.mass[i, 3:], h, v[i, 3], v[i, 4], v[i, 5])
        before[i, 3], before[i, 4], before[i, 5] = s0, s1, s2
        matrix(q[i], axes)
        for j in range(3):
            before[i, j] = v[i, j]
            free[i, j] = v[i, j] + h * bodies.force[i, j] / bodies.mass[i, j]
            torque = (
                axes[0, j] * bodies.force[i, 3]
                + axes[1, j] * bodies.force[i, 4]
                + axes[2, j] * bodies.force[i, 5]
            )
            free[i, 3 + j] = before[i, 3 + j] + h * torque / bodies.mass[i, 3 + j]
        for j in range(6):
            motion.w[bodies.number[i], j] = bodies.root[i, j] * free[i, j]


@apart
def detect(
    x: Floats,
    q: Floats,
    geometry: Geometry,
    meet: Bools,
    responds: Bools,
    stops: Stops,
    margin: float,
    room: Detection,
    found: Manifolds,
) -> int:
    """Find the contacts of a configuration; return their number, which may exceed the room, or minus that of pairs."""
    place(x, q, geometry, room.world)
    n_pairs = find_pairs(geometry, room.world, meet, responds, margin, room.pairs, room.sweep)
    if n_pairs > len(room.pairs):
        return -n_pairs
    n = collide(room.pairs, n_pairs, geometry, room.world, margin, found, room.narrow)
    return taut(stops, x, q, margin, found, n)


@inner
def activate(
    bodies: Bodies,
    laws: Laws,
    owner: Ints,
    group: Ints,
    motion: Motion,
    found: Manifolds,
    n: int,
    h: float,
    touch: float,
    active: Active,
) -> int:
    """Select the contacts that close within half a step and write their rows of ``G`` and ``bias``."""
    axes_a, axes_b = np.empty((3, 3)), np.empty((3, 3))
    before, free = motion.before, motion.free
    count = 0
    for k in range(n):
        a, b = owner[found.a[k]], owner[found.b[k]]
        frame, G = active.frame[count], active.G[count]
        tangents(found.normal[k], frame)
        matrix(motion.q[a], axes_a)
        matrix(motion.q[b], axes_b)
        lever(motion.x[a], axes_a, found.point[k], frame, -1.0, G, 0)
        lever(motion.x[b], axes_b, found.point[k], frame, 1.0, G, 6)
        approach = 0.0
        for j in range(6):
            approach += G[0, j] * before[a, j] + G[0, 6 + j] * before[b, j]
        if found.gap[k] - (1.0 - GAMMA) * h * approach > touch:
            continue
        law = laws.number[group[found.a[k]], group[found.b[k]]]
        active.row[count], active.law[count], active.mu[count] = k, law, laws.mu[law]
        active.bodies[count, 0], active.bodies[count, 1] = a, b
        active.row_a[count], active.row_b[count] = bodies.number[a], bodies.number[b]
        for row in range(3):
            apart, bias = 0.0, 0.0
            for j in range(6):
                if bodies.number[a] < 0:
                    apart += 0.5 * G[row, j] * (before[a, j] + free[a, j])
                    bias += G[row, j] * free[a, j]
                if bodies.number[b] < 0:
                    apart += 0.5 * G[row, 6 + j] * (before[b, j] + free[b, j])
                    bias += G[row, 6 + j] * free[b, j]
                G[row, j] *= bodies.inverse[a, j]
                G[row, 6 + j] *= bodies.inverse[b, j]
            active.apart[count, row] = apart
            active.bias[count, row] = bias
        active.bias[count, 0] += laws.e[law] * approach
        count += 1
    return count


@inner
def problem_of(active: Active, count: int) -> Contacts:
    """Return the first contacts as the solver takes them."""
    return Contacts(
        active.row_a[:count], active.row_b[:count], active.G[:count], active.bias[:count], active.mu[:count]
    )


@inner
def recall(old: Impulses, found: Manifolds, active: Active, count: int, contactors: int) -> None:
    """Warm start: give every active contact the impulse that the same contact had in the last step."""
    first = 0
    for i in range(count):
        k = active.row[i]
        a, b = found.a[k], found.b[k]
        key = min(a, b) * contactors + max(a, b)
        while (
            first < old.held[0]
            and min(old.a[first], old.b[first]) * contactors + max(old.a[first], old.b[first]) < key
        ):
            first += 1
        for row in range(3):
            active.r[i, row] = 0.0
        at = first
        while at < old.held[0] and old.a[at] == a and old.b[at] == b:
            if old.feature[at] == found.feature[k]:
                for row in range(3):
                    active.r[i, row] = (
                        active.frame[i, row, 0] * old.value[at, 0]
                        + active.frame[i, row, 1] * old.value[at, 1]
                        + active.frame[i, row, 2] * old.value[at, 2]
                    )
                break
            at += 1


@inner
def remember(old: Impulses, found: Manifolds, active: Active, count: int) -> None:
    """Keep the impulses in space axes for the next step."""
    old.held[0] = count
    for i in range(count):
        k = active.row[i]
        old.a[i], old.b[i], old.feature[i] = found.a[k], found.b[k], found.feature[k]
        for j in range(3):
            old.value[i, j] = (
                active.r[i, 0] * active.frame[i, 0, j]
                + active.r[i, 1] * active.frame[i, 1, j]
                + active.r[i, 2] * active.frame[i, 2, j]
            )


@inner
def join(active: Active, count: int, root: Ints) -> None:
    """Number the islands: bodies joined by contacts have one root, the lowest of them."""
    for i in range(len(root)):
        root[i] = i
    for i in range(count):
        a, b = active.row_a[i], active.row_b[i]
        if a < 0 or b < 0:
            continue
        while root[a] != a:
            root[a] = root[root[a]]
            a = root[a]
        while root[b] != b:
            root[b] = root[root[b]]
            b = root[b]
        root[max(a, b)] = min(a, b)
    for i in range(len(root)):
        root[i] = root[root[i]]  # lower ones are done already


@inner
def book(
    bodies: Bodies,
    motion: Motion,
    active: Active,
    count: int,
    theta: float,
    islands: Islands,
    books: Books,
) -> None:
    """Find the centre of action of each island and book the work of every contact."""
    work, late = np.zeros((count, 3)), np.zeros((count, 3))
    join(active, count, islands.root)
    for i in range(len(islands.root)):
        islands.work[i] = islands.late[i] = islands.gained[i] = 0.0
    for i in range(count):
        island = islands.root[max(active.row_a[i], active.row_b[i])]
        for row in range(3):
            before, free, after = 0.0, 0.0, 0.0  # relative velocities, of bodies that respond
            for side in range(2):
                body = active.bodies[i, side]
                number = bodies.number[body]
                if number >= 0:
                    for j in range(6):
                        g = active.G[i, row, 6 * side + j]
                        root = bodies.root[body, j]
                        before += g * root * motion.before[body, j]
                        free += g * root * motion.free[body, j]
                        after += g * motion.w[number, j]
            given = -active.r[i, row] * active.apart[i, row]  # by what holds the bodies that do not respond
            books.driver[0] += given
            work[i, row] = 0.5 * active.r[i, row] * (free + after) - given
            late[i, row] = active.r[i, row] * (free - before)
            islands.work[island] += work[i, row]
            islands.late[island] += late[i, row]
    for i in range(len(islands.root)):
        total, slope = islands.work[i], islands.late[i]
        islands.beta[i] = theta
        if total - theta * slope > 0.0 and slope < 0.0:
            islands.beta[i] = min(theta, max(0.0, total / slope))
    for i in range(count):
        island = islands.root[max(active.row_a[i], active.row_b[i])]
        for row in range(3):
            work[i, row] -= islands.beta[island] * late[i, row]
            books.work[active.law[i], 0 if row == 0 else 1] += work[i, row]
        islands.gained[island] += max(0.0, work[i, 0] + work[i, 1] + work[i, 2])
    for i in range(count):
        island = islands.root[max(active.row_a[i], active.row_b[i])]
        net = islands.work[island] - islands.beta[island] * islands.late[island]
        own = work[i, 0] + work[i, 1] + work[i, 2]
        if net > 0.0 and own > 0.0:
            books.work[active.law[i], 2] += net * own / islands.gained[island]


@inner
def move(
    bodies: Bodies,
    x: Floats,
    q: Floats,
    v: Floats,
    h: float,
    theta: float,
    motion: Motion,
    islands: Islands,
    books: Books,
) -> bool:
    """Update positions and velocities; return whether all is finite."""
    finite = True
    mean = np.empty(6)
    for i in range(len(x)):
        number = bodies.number[i]
        beta = islands.beta[islands.root[number]] if number >= 0 else theta
        for j in range(6):
            before, free = motion.before[i, j], motion.free[i, j]
            if number < 0:
                mean[j] = 0.5 * (v[i, j] + free)
                v[i, j] = free
                continue
            after = bodies.inverse[i, j] * motion.w[number, j]
            mean[j] = (1.0 - theta) * v[i, j] + theta * free + beta * (after - free)
            if j >= 3:
                torque = bodies.mass[i, j] * (free - before)
                books.driver[1] += torque * (0.5 * (before + free) + beta * (after - free))
            v[i, j] = after
            finite &= math.isfinite(after)
        if bodies.moves[i]:
            for j in range(3):
                x[i, j] += h * mean[j]
            turned(q[i], h * mean[3], h * mean[4], h * mean[5], q[i])
    return finite


@inner
def at_rest(bodies: Bodies, v: Floats, rest: Floats) -> bool:
    """Say whether no point of any body is faster than ``rest`` allows, its spin times its extent included."""
    for i in range(len(v)):
        spin = math.sqrt(v[i, 3] ** 2 + v[i, 4] ** 2 + v[i, 5] ** 2)
        speed = math.sqrt(v[i, 0] ** 2 + v[i, 1] ** 2 + v[i, 2] ** 2)
        if speed + bodies.extent[i] * spin > rest[i]:
            return False
    return True


@kernel
def advance(
    model: Model,
    state: State,
    room: Scratch,
    record: Record,
    h: float,
    theta: float,
    tol: float,
    margin: float,
    touch: float,
    rest: Floats,
    quiet: int,
    pieces: int,
    finer: int,
    first: int,
    last: int,
) -> tuple[int, int, int]:
    """Take the steps ``first`` to ``last - 1``; return a status, the next step, and how much room it asks for.

    The first ``finer`` of them are taken in ``pieces`` parts each. It ends earlier if in ``quiet`` steps in a row no
    body has moved faster than its ``rest``.
    """
    geometry, bodies, laws, stops = model.geometry, model.bodies, model.laws, model.stops
    motion, found, active = room.motion, room.found, room.active
    track, steps, listed = record.track, record.steps, record.listed
    calm, listing = state.books.quiet, len(listed.gap) > 0
    if first == 0 and calm[1] == 0:
        keep(bodies, state, 0, track)
    for step in range(first, last):
        parts = pieces if step < finer else 1
        own = h / parts
        instant = -(-(step + 1) // track.every[0])
        while calm[1] < parts:
            predict(bodies, state.x, state.q, state.v, own, state.books.passed, motion)
            n = room.detect(
                motion.x, motion.q, geometry, laws.meet, bodies.responds, stops, margin, room.detection, found
            )
            if n < 0:
                return MORE_PAIRS, step, -n
            if n > len(found.gap):
                return MORE_CONTACTS, step, n
            if listing and listed.used[0] + n > len(listed.gap):
                return MORE_RECORDS, step, listed.used[0] + n
            free_velocities(bodies, state.q, state.v, own, step, parts - calm[1], motion)
            count = activate(bodies, laws, stops.owner, stops.group, motion, found, n, own, touch, active)
            recall(state.impulses, found, active, count, len(stops.owner))
            if count > 0:
                status = room.solve(problem_of(active, count), motion.w, active.r[:count], tol, room.solver)
                if status >= NEEDS_DIRECT:
                    return MORE_METHODS, step, status
                tell(room.solver, status, active, step, steps)
            steps.active[step] = count
            book(bodies, motion, active, count, theta, room.islands, state.books)
            remember(state.impulses, found, active, count)
            if not move(bodies, state.x, state.q, state.v, own, theta, motion, room.islands, state.books):
                return NOT_FINITE, step, 0
            calm[1] += 1
            if listing:
                enlist(instant, found, active, state.impulses, listed)
        calm[1] = 0
        calm[0] = calm[0] + 1 if at_rest(bodies, state.v, rest) else 0
        ended = calm[0] >= quiet
        if ended or step + 1 == len(steps.status) or (step + 1) % track.every[0] == 0:
            keep(bodies, state, instant, track)
            listed.used[1] = listed.used[0]
        listed.used[0] = listed.used[1]
        if ended:
            return AT_REST, step + 1, 0
    return DONE, last, 0
