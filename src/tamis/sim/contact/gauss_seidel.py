"""Block Gauss-Seidel in body space: the contacts are visited in turn, the velocities are updated in place.

Why no Delassus matrix
----------------------
The step's problem is ``u = W r + q`` with the Delassus operator ``W = G G^T`` and Coulomb's law at each contact (see
``cone.py``). Row i of W couples a contact with all contacts of its two bodies, twenty 3x3 blocks
in a wall; the same row through the velocities of the two bodies is one 3x12 block and its transpose. Nothing
is assembled, and a visit reads 36 numbers that lie side by side. The method itself is that of Jourdan, Alart &
Jean (1998, 10.1016/S0045-7825(97)00137-0): each visit solves its contact, the others held. Slip is solved to a
thousandth and put on the cone, and exactly where the sweeps come to rest.

Velocities are mass-scaled, ``w = M^(1/2) v``, six numbers a body: then ``w = w_free + G^T r`` and the same
block serves both ways. A body that does not respond has the number -1 and is skipped.

Momentum
--------
Between two sweeps the impulses, and the velocities with them, go on by a share of the last change, growing as in
Nesterov's method (Mazhar, Heyn, Negrut & Tasora 2015, 10.1145/2735627, use it on the projected gradient) and
dropped when the changes grow (O'Donoghue & Candes 2015, 10.1007/s10208-013-9150-3). Sweeps needed on six
colliding packs of 1900 to 3500 contacts, residual 1e-4: 580 to more than 1500 without, 130 to 480 with. Plain
over-relaxation by 1.5 does not end on two of them. The share is kept below 0.9 and a growth of a tenth is let
pass: dropping it at the first growth, and letting it come close to 1, takes half as many sweeps again.

Waiting (sleeping contacts)
---------------------------
Most contacts settle long before the last one does. One whose visit changes next to nothing is left out of the next
sweep, then of two, up to eight, until a visit finds something to do: a fifth to a half of the visits. The same
counters hold a whole sweep to the *surroundings* of the contacts that are not settled, two bodies deep. Errors in a
heap are mostly of that size, and momentum works them off there for a tenth of the price; what they push outwards is
little, and falls to a few sweeps over all contacts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner
from tamis.sim.contact.cone import project, solve_local
from tamis.sim.contact.problem import Contacts, copy, velocity
from tamis.sim.contact.tuning import CLOSE, DEPTH, LONGEST, MOMENTUM, RESTART, SLIP_STEPS, STILL

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

AWAY = 1 << 40  # sweeps that a contact outside them waits: until it is woken


class Local(NamedTuple):
    """What each contact keeps about itself."""

    W: Array  # (contacts, 3, 3) blocks W_ii
    parts: Array  # (contacts, 9) 1/W_NN; c = W_TN/W_NN; S = W_TT - c W_NT, three numbers; its inverse, three
    weight: Array  # (contacts,) mean diagonal w_i
    slip: Array  # (contacts,) lambda of the last visit, u_T = -lambda r_T
    wait: Indices  # (contacts,) sweeps still to be left out,
    span: Indices  # (contacts,) and how many were last asked for


def local_arrays(n: int) -> Local:
    """Allocate for so many contacts."""
    return Local(np.zeros((n, 3, 3)), np.zeros((n, 9)), np.zeros(n), np.zeros(n), *np.zeros((2, n), np.int64))


class Last(NamedTuple):
    """Velocities and impulses after the sweep before, and what the momentum has come to."""

    w: Array  # (bodies, 6)
    r: Array  # (contacts, 3)
    pace: Array  # (2,): Nesterov's number, and the sum of squares of the last changes


@inner
def prepare(contacts: Contacts, w: Array, local: Local) -> float:
    """Fill `Local`; return the scale ``s`` of the free velocities ``w``."""
    G, W, parts = contacts.G, local.W, local.parts
    scale = 0.0
    for i in range(contacts.row_a.size):
        a = b = c = d = e = f = 0.0
        for k in range(12):
            g0, g1, g2 = G[i, 0, k], G[i, 1, k], G[i, 2, k]
            a += g0 * g0
            b += g0 * g1
            c += g0 * g2
            d += g1 * g1
            e += g1 * g2
            f += g2 * g2
        W[i, 0, 0], W[i, 1, 1], W[i, 2, 2] = a, d, f
        W[i, 0, 1] = W[i, 1, 0] = b
        W[i, 0, 2] = W[i, 2, 0] = c
        W[i, 1, 2] = W[i, 2, 1] = e
        over = 1.0 / a if a > 0.0 else 0.0
        c1, c2 = over * b, over * c
        s11, s12, s22 = d - c1 * b, e - c1 * c, f - c2 * c
        det = s11 * s22 - s12 * s12
        inverse = 1.0 / det if det > 1e-14 * d * f else 0.0
        parts[i, 0], parts[i, 1], parts[i, 2] = over, c1, c2
        parts[i, 3], parts[i, 4], parts[i, 5] = s11, s12, s22
        parts[i, 6], parts[i, 7], parts[i, 8] = inverse * s22, -inverse * s12, inverse * s11
        local.weight[i] = (a + d + f) / 3.0
        local.slip[i] = 0.0
        u0, u1, u2 = velocity(i, contacts, w)
        scale = max(scale, u0 * u0 + u1 * u1 + u2 * u2)
        body = contacts.row_a[i] if contacts.row_a[i] >= 0 else contacts.row_b[i]
        o = 0 if contacts.row_a[i] >= 0 else 6
        u0 = u1 = u2 = 0.0
        for k in range(6 if body >= 0 else 0):
            u0 += G[i, 0, o + k] * w[body, k]
            u1 += G[i, 1, o + k] * w[body, k]
            u2 += G[i, 2, o + k] * w[body, k]
        scale = max(scale, STILL * STILL * (u0 * u0 + u1 * u1 + u2 * u2))
    return math.sqrt(scale) if scale != 0.0 else 1.0


@inner
def slide(
    c1: float,
    c2: float,
    s11: float,
    s12: float,
    s22: float,
    free: float,
    b1: float,
    b2: float,
    mu: float,
    slip: float,
) -> tuple[float, float, float, float]:
    """Solve a contact that slips, from its last slip number; return the impulse and the number, -1 if it is not near.

    The root of ``mu r_N = |r_T|`` in lambda (see ``cone.py``) moves little from sweep to sweep, so a step
    or two of Newton's method find it. ``free`` is the normal impulse without friction, ``b`` the slip then.
    """
    for _ in range(SLIP_STEPS if slip > 0.0 else 0):
        over = 1.0 / ((s11 + slip) * (s22 + slip) - s12 * s12)
        t1, t2 = over * (s12 * b2 - (s22 + slip) * b1), over * (s12 * b1 - (s11 + slip) * b2)
        n = free - c1 * t1 - c2 * t2
        square = t1 * t1 + t2 * t2
        over_t = 1.0 / math.sqrt(square)
        f = mu * n * over_t
        d1, d2 = over * (s12 * t2 - (s22 + slip) * t1), over * (s12 * t1 - (s11 + slip) * t2)
        slope = -mu * over_t * (c1 * d1 + c2 * d2 + n * (t1 * d1 + t2 * d2) / square)
        slip += (1.0 - f) / slope
        if not (slip > 0.0 and n > 0.0):
            break
        if abs(f - 1.0) < CLOSE:
            return n, f * t1, f * t2, slip
    return 0.0, 0.0, 0.0, -1.0


@inner
def slide_anew(
    i: int, W: Array, free: float, b1: float, b2: float, mu: float
) -> tuple[float, float, float, float]:
    """Solve a contact that slips from the beginning; return as `slide` does."""
    q0 = -free * W[i, 0, 0]
    n, t1, t2 = solve_local(W[i], q0, b1 - W[i, 0, 1] * free, b2 - W[i, 0, 2] * free, mu)
    square = t1 * t1 + t2 * t2
    if square == 0.0:
        return n, t1, t2, 0.0
    u1 = b1 - W[i, 0, 1] * free + W[i, 0, 1] * n + W[i, 1, 1] * t1 + W[i, 1, 2] * t2
    u2 = b2 - W[i, 0, 2] * free + W[i, 0, 2] * n + W[i, 1, 2] * t1 + W[i, 2, 2] * t2
    return n, t1, t2, -(u1 * t1 + u2 * t2) / square


@inner
def sweep(contacts: Contacts, w: Array, r: Array, local: Local, quiet: float) -> tuple[float, float]:
    """Visit each contact that does not wait; return the largest change, as a velocity, and the squares' sum in energy.

    A contact that changes by less than ``quiet`` waits.

    `velocity` and `push` are written out here: as calls, with their arrays, they double the time of a visit.
    """
    of_a, of_b, G, bias, mu = contacts.row_a, contacts.row_b, contacts.G, contacts.bias, contacts.mu
    parts, weight, slip = local.parts, local.weight, local.slip
    wait, span = local.wait, local.span
    largest = total = 0.0
    for i in range(of_a.size):
        if wait[i] > 0:
            wait[i] -= 1
            continue
        a, b = of_a[i], of_b[i]
        u0, u1, u2 = bias[i, 0], bias[i, 1], bias[i, 2]
        v0 = v1 = v2 = 0.0
        if a >= 0:
            for k in range(6):
                u0 += G[i, 0, k] * w[a, k]
                u1 += G[i, 1, k] * w[a, k]
                u2 += G[i, 2, k] * w[a, k]
        if b >= 0:
            for k in range(6):
                v0 += G[i, 0, 6 + k] * w[b, k]
                v1 += G[i, 1, 6 + k] * w[b, k]
                v2 += G[i, 2, 6 + k] * w[b, k]
        u0 += v0
        r0, r1, r2 = r[i, 0], r[i, 1], r[i, 2]
        c1, c2 = parts[i, 1], parts[i, 2]
        free = r0 + c1 * r1 + c2 * r2 - parts[i, 0] * u0
        n = t1 = t2 = 0.0
        if free > 0.0:
            e1, e2 = u1 + v1 - c1 * u0, u2 + v2 - c2 * u0
            t1 = r1 - parts[i, 6] * e1 - parts[i, 7] * e2
            t2 = r2 - parts[i, 7] * e1 - parts[i, 8] * e2
            n = free - c1 * t1 - c2 * t2
            sticks = n > 0.0 and t1 * t1 + t2 * t2 <= mu[i] * mu[i] * n * n and parts[i, 6] > 0.0
            if not sticks:
                s11, s12, s22 = parts[i, 3], parts[i, 4], parts[i, 5]
                b1, b2 = e1 - s11 * r1 - s12 * r2, e2 - s12 * r1 - s22 * r2
                n, t1, t2, number = slide(c1, c2, s11, s12, s22, free, b1, b2, mu[i], slip[i])
                if number < 0.0:
                    n, t1, t2, number = slide_anew(i, local.W, free, b1, b2, mu[i])
                slip[i] = number
        d0, d1, d2 = n - r0, t1 - r1, t2 - r2
        square = weight[i] * (d0 * d0 + d1 * d1 + d2 * d2)
        if weight[i] * square < quiet * quiet:
            span[i] = min(span[i] + 1, LONGEST)
            wait[i] = span[i]
            if square == 0.0:
                continue
        else:
            span[i] = 0
        r[i, 0], r[i, 1], r[i, 2] = n, t1, t2
        if a >= 0:
            for k in range(6):
                w[a, k] += G[i, 0, k] * d0 + G[i, 1, k] * d1 + G[i, 2, k] * d2
        if b >= 0:
            for k in range(6):
                w[b, k] += G[i, 0, 6 + k] * d0 + G[i, 1, 6 + k] * d1 + G[i, 2, 6 + k] * d2
        total += square
        largest = max(largest, weight[i] * square)
    return math.sqrt(largest), total


@inner
def restart_momentum(w: Array, r: Array, last: Last) -> None:
    """Forget earlier sweeps: the next has no momentum."""
    copy(w, last.w)
    copy(r, last.r)
    last.pace[0], last.pace[1] = 0.0, math.inf


@inner
def extrapolate(now: Array, before: Array, beta: float) -> None:
    """Go on by ``beta`` times the last change; remember where from."""
    x, y = now.reshape(-1), before.reshape(-1)  # in one row it is four times as fast
    for i in range(x.size):
        new = x[i]
        x[i] = new + beta * (new - y[i])
        y[i] = new


@inner
def visit_all(local: Local, n: int) -> None:
    """Let none of the first ``n`` contacts wait."""
    for i in range(n):
        local.wait[i] = local.span[i] = 0


@inner
def visit_near(contacts: Contacts, errors: Array, goal: float, ring: Indices, local: Local) -> None:
    """Let all contacts wait that are not near one above the goal: `DEPTH` bodies away, or fewer.

    ``ring`` is scratch, one number a body.
    """
    of_a, of_b = contacts.row_a, contacts.row_b
    for k in range(ring.size):
        ring[k] = DEPTH + 1
    for i in range(of_a.size):
        if errors[i] > goal:
            for k in (of_a[i], of_b[i]):
                if k >= 0:
                    ring[k] = 0
    for depth in range(DEPTH):
        for i in range(of_a.size):
            a, b = of_a[i], of_b[i]
            if a >= 0 and b >= 0 and min(ring[a], ring[b]) == depth:
                ring[a], ring[b] = min(ring[a], depth + 1), min(ring[b], depth + 1)
    for i in range(of_a.size):
        a, b = of_a[i], of_b[i]
        near = (a >= 0 and ring[a] <= DEPTH) or (b >= 0 and ring[b] <= DEPTH)
        local.wait[i], local.span[i] = 0 if near else AWAY, 0


@inner
def relax(
    contacts: Contacts,
    w: Array,
    r: Array,
    local: Local,
    goal: float,
    quiet: float,
    limit: int,
    last: Last,
) -> int:
    """Sweep until the changes are below ``goal``, with momentum from the sweeps before; return how often.

    Contacts that change by less than ``quiet`` wait.
    """
    momentum, before = last.pace[0], last.pace[1]
    count = 0
    while count < limit:
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        beta = min(max(momentum - 1.0, 0.0) / following, MOMENTUM)
        momentum = following
        extrapolate(w, last.w, beta)
        extrapolate(r, last.r, beta)
        largest, total = sweep(contacts, w, r, local, quiet)
        count += 1
        if total > RESTART * before:
            momentum = 1.0
        before = total
        if not largest > goal:
            break
    last.pace[0], last.pace[1] = momentum, before
    return count


@inner
def project_impulses(contacts: Contacts, r: Array) -> None:
    """Put the impulses back into their cones, which momentum has made some leave that wait."""
    for i in range(contacts.row_a.size):
        r[i, 0], r[i, 1], r[i, 2] = project(r[i, 0], r[i, 1], r[i, 2], contacts.mu[i])
