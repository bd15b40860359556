"""Block Gauss-Seidel in body space: the contacts are visited in turn, the velocities are updated in place.

Why no Delassus matrix
----------------------
The step's problem is ``u = W r + q`` with ``W = G G^T`` and Coulomb's law at each contact (see
``sim/common/cone.py``). Row i of W couples a contact with all contacts of its two bodies, twenty 3x3 blocks
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

Residual
--------
Impulses are made comparable with velocities by the local effective mass, ``w_i = trace(W_ii) / 3``::

    e_i = | w_i r_i - P_K(w_i r_i - u_i - mu |u_T,i| e_N) | / s,    s = max_j (|u_free,j|, w_j |r_j|)

It has no unit, does not change when the scene is scaled, and sees a light body beside a heavy one. The impulses
belong into the scale: under a heap of grains they are many times what the free velocities of one step suggest, and
an error is small where it is small beside them. But only up to 30 times: a body pressed between two walls that move
has no solution, its impulses grow without end, and that must not pass for one. And not below a millionth of the
velocities of the points that touch: two bodies that fly on together have no relative velocity but round-off.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import kernel
from tamis.sim.common.cone import natural, solve_local

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

MOMENTUM = 0.9  # largest share of the last change that is added to the next start
RESTART = 1.1  # growth of the changes at which it is dropped
NEAR = 4  # steps to a root that is near
STILL = 1e-6  # share of the velocities in space below which relative ones are round-off
LOAD = 30.0  # how many times the free velocities the impulses may count in the scale
CLOSE = 1e-3  # share by which the cone may be missed before the impulse is scaled back to it


class Contacts(NamedTuple):
    """The active contacts of a step: ``u_i = G_i (w_a, w_b) + bias_i``, normal first, friction ``mu_i``."""

    a: Indices
    b: Indices
    G: Array  # (contacts, 3, 12)
    bias: Array  # (contacts, 3)
    mu: Array


class Local(NamedTuple):
    """What each contact keeps about itself."""

    W: Array  # (contacts, 3, 3) blocks W_ii
    inverse: Array  # (contacts, 3, 3) and their inverses
    weight: Array  # (contacts,) mean diagonal w_i
    slip: Array  # (contacts,) lambda of the last visit, u_T = -lambda r_T


def local_arrays(n: int) -> Local:
    """Allocate for so many contacts."""
    return Local(np.zeros((n, 3, 3)), np.zeros((n, 3, 3)), np.zeros(n), np.zeros(n))


class Last(NamedTuple):
    """Velocities and impulses after the sweep before, and what the momentum has come to."""

    w: Array  # (bodies, 6)
    r: Array  # (contacts, 3)
    pace: Array  # (2,): Nesterov's number, and the sum of squares of the last changes


@kernel
def copy(source: Array, target: Array) -> None:
    """Copy as many rows as the smaller array has; compiles ten times faster than an assignment of slices."""
    for i in range(min(source.shape[0], target.shape[0])):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]


@kernel
def velocity(i: int, contacts: Contacts, w: Array) -> tuple[float, float, float]:
    """Return the relative velocity (N, T1, T2) at contact ``i``."""
    G, bias = contacts.G, contacts.bias
    u0, u1, u2 = bias[i, 0], bias[i, 1], bias[i, 2]
    body = contacts.a[i]
    if body >= 0:
        for k in range(6):
            u0 += G[i, 0, k] * w[body, k]
            u1 += G[i, 1, k] * w[body, k]
            u2 += G[i, 2, k] * w[body, k]
    body = contacts.b[i]
    if body >= 0:
        for k in range(6):
            u0 += G[i, 0, 6 + k] * w[body, k]
            u1 += G[i, 1, 6 + k] * w[body, k]
            u2 += G[i, 2, 6 + k] * w[body, k]
    return u0, u1, u2


@kernel
def normal_velocity(i: int, contacts: Contacts, w: Array) -> float:
    """Return the first of the three components of `velocity`."""
    G = contacts.G
    u = float(contacts.bias[i, 0])
    body = contacts.a[i]
    if body >= 0:
        for k in range(6):
            u += G[i, 0, k] * w[body, k]
    body = contacts.b[i]
    if body >= 0:
        for k in range(6):
            u += G[i, 0, 6 + k] * w[body, k]
    return u


@kernel
def push(i: int, contacts: Contacts, w: Array, d0: float, d1: float, d2: float) -> None:
    """Add the impulse ``d`` at contact ``i`` to the velocities of its bodies."""
    G = contacts.G
    body = contacts.a[i]
    if body >= 0:
        for k in range(6):
            w[body, k] += G[i, 0, k] * d0 + G[i, 1, k] * d1 + G[i, 2, k] * d2
    body = contacts.b[i]
    if body >= 0:
        for k in range(6):
            w[body, k] += G[i, 0, 6 + k] * d0 + G[i, 1, 6 + k] * d1 + G[i, 2, 6 + k] * d2


@kernel
def prepare(contacts: Contacts, w: Array, local: Local) -> float:
    """Fill `Local`; return the scale ``s`` of the free velocities ``w``."""
    G, W, inverse = contacts.G, local.W, local.inverse
    scale = 0.0
    for i in range(contacts.a.size):
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
        A, B, C = d * f - e * e, c * e - b * f, b * e - c * d
        det = a * A + b * B + c * C
        over = 1.0 / det if det > 1e-14 * a * d * f else 0.0
        inverse[i, 0, 0], inverse[i, 1, 1], inverse[i, 2, 2] = (
            over * A,
            over * (a * f - c * c),
            over * (a * d - b * b),
        )
        inverse[i, 0, 1] = inverse[i, 1, 0] = over * B
        inverse[i, 0, 2] = inverse[i, 2, 0] = over * C
        inverse[i, 1, 2] = inverse[i, 2, 1] = over * (b * c - a * e)
        local.weight[i] = (a + d + f) / 3.0
        local.slip[i] = 0.0
        u0, u1, u2 = velocity(i, contacts, w)
        scale = max(scale, u0 * u0 + u1 * u1 + u2 * u2)
        body = contacts.a[i] if contacts.a[i] >= 0 else contacts.b[i]
        o = 0 if contacts.a[i] >= 0 else 6
        u0 = u1 = u2 = 0.0
        for k in range(6 if body >= 0 else 0):
            u0 += G[i, 0, o + k] * w[body, k]
            u1 += G[i, 1, o + k] * w[body, k]
            u2 += G[i, 2, o + k] * w[body, k]
        scale = max(scale, STILL * STILL * (u0 * u0 + u1 * u1 + u2 * u2))
    return math.sqrt(scale) if scale != 0.0 else 1.0


@kernel
def slide(
    W: Array, q0: float, q1: float, q2: float, mu: float, slip: float
) -> tuple[float, float, float, float]:
    """Solve a contact that slips, from its last slip number; return the impulse and the number.

    The root of ``mu r_N = |r_T|`` in lambda (see ``sim/common/cone.py``) moves little from sweep to sweep, so a step
    or two of Newton's method find it; where they do not, it is sought from the beginning.
    """
    w00 = W[0, 0]
    c1, c2 = W[0, 1] / w00, W[0, 2] / w00
    s11, s12, s22 = W[1, 1] - c1 * W[0, 1], W[1, 2] - c1 * W[0, 2], W[2, 2] - c2 * W[0, 2]
    free, b1, b2 = -q0 / w00, q1 - c1 * q0, q2 - c2 * q0
    for _ in range(NEAR if slip > 0.0 else 0):
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
    n, t1, t2 = solve_local(W, q0, q1, q2, mu)
    square = t1 * t1 + t2 * t2
    if square > 0.0:
        slip = -((b1 + s11 * t1 + s12 * t2) * t1 + (b2 + s12 * t1 + s22 * t2) * t2) / square
    return n, t1, t2, slip


@kernel
def visit(
    i: int, local: Local, u0: float, u1: float, u2: float, r0: float, r1: float, r2: float, mu: float
) -> tuple[float, float, float]:
    """Return the impulse that solves contact ``i``, now at ``u`` under ``r``; sticking is tried first."""
    W, V = local.W, local.inverse
    q0 = u0 - W[i, 0, 0] * r0 - W[i, 0, 1] * r1 - W[i, 0, 2] * r2
    if q0 >= 0.0:
        return 0.0, 0.0, 0.0
    n = r0 - V[i, 0, 0] * u0 - V[i, 0, 1] * u1 - V[i, 0, 2] * u2
    s = r1 - V[i, 1, 0] * u0 - V[i, 1, 1] * u1 - V[i, 1, 2] * u2
    t = r2 - V[i, 2, 0] * u0 - V[i, 2, 1] * u1 - V[i, 2, 2] * u2
    if n > 0.0 and s * s + t * t <= mu * mu * n * n and V[i, 0, 0] > 0.0:
        return n, s, t
    q1 = u1 - W[i, 1, 0] * r0 - W[i, 1, 1] * r1 - W[i, 1, 2] * r2
    q2 = u2 - W[i, 2, 0] * r0 - W[i, 2, 1] * r1 - W[i, 2, 2] * r2
    n, s, t, local.slip[i] = slide(W[i], q0, q1, q2, mu, local.slip[i])
    return n, s, t


@kernel
def sweep(contacts: Contacts, w: Array, r: Array, local: Local) -> tuple[float, float]:
    """Visit each contact once; return the largest change, as a velocity, and the sum of squares in energy."""
    largest = total = 0.0
    for i in range(contacts.a.size):
        p0, p1, p2 = r[i, 0], r[i, 1], r[i, 2]
        if p0 == 0.0 and p1 == 0.0 and p2 == 0.0 and normal_velocity(i, contacts, w) >= 0.0:
            continue  # open and staying so: one row of three read
        u0, u1, u2 = velocity(i, contacts, w)
        n, t1, t2 = visit(i, local, u0, u1, u2, p0, p1, p2, contacts.mu[i])
        d0, d1, d2 = n - p0, t1 - p1, t2 - p2
        if d0 != 0.0 or d1 != 0.0 or d2 != 0.0:
            r[i, 0], r[i, 1], r[i, 2] = n, t1, t2
            push(i, contacts, w, d0, d1, d2)
            square = local.weight[i] * (d0 * d0 + d1 * d1 + d2 * d2)
            total += square
            largest = max(largest, local.weight[i] * square)
    return math.sqrt(largest), total


@kernel
def begin(w: Array, r: Array, last: Last) -> None:
    """Forget earlier sweeps: the next has no momentum."""
    copy(w, last.w)
    copy(r, last.r)
    last.pace[0], last.pace[1] = 0.0, math.inf


@kernel
def extrapolate(now: Array, before: Array, beta: float) -> None:
    """Go on by ``beta`` times the last change; remember where from."""
    for i in range(now.shape[0]):
        for j in range(now.shape[1]):
            new = now[i, j]
            now[i, j] = new + beta * (new - before[i, j])
            before[i, j] = new


@kernel
def relax(contacts: Contacts, w: Array, r: Array, local: Local, goal: float, limit: int, last: Last) -> int:
    """Sweep until the changes are below ``goal``, with momentum from the sweeps before; return how often."""
    momentum, before = last.pace[0], last.pace[1]
    count = 0
    while count < limit:
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        beta = min(max(momentum - 1.0, 0.0) / following, MOMENTUM)
        momentum = following
        extrapolate(w, last.w, beta)
        extrapolate(r, last.r, beta)
        largest, total = sweep(contacts, w, r, local)
        count += 1
        if total > RESTART * before:
            momentum = 1.0
        before = total
        if not largest > goal:
            break
    last.pace[0], last.pace[1] = momentum, before
    return count


@kernel
def impose(contacts: Contacts, r: Array, free: Array, w: Array) -> None:
    """Set ``w = w_free + G^T r``."""
    copy(free, w)
    for i in range(contacts.a.size):
        push(i, contacts, w, r[i, 0], r[i, 1], r[i, 2])


@kernel
def scale_of(speed: float, r: Array, weight: Array) -> float:
    """Return the scale ``s`` of residuals: the largest free velocity or impulse, the latter as a velocity."""
    load = 0.0
    for i in range(r.shape[0]):
        c = weight[i]
        load = max(load, c * c * (r[i, 0] * r[i, 0] + r[i, 1] * r[i, 1] + r[i, 2] * r[i, 2]))
    return max(speed, min(math.sqrt(load), LOAD * speed))


@kernel
def residual(contacts: Contacts, w: Array, r: Array, weight: Array, errors: Array) -> tuple[float, int]:
    """Fill the residuals, as velocities; return the largest (not a number if any is not) and its contact."""
    largest, worst = 0.0, 0
    for i in range(contacts.a.size):
        u0, u1, u2 = velocity(i, contacts, w)
        c = weight[i]
        e = natural(u0, u1, u2, c * r[i, 0], c * r[i, 1], c * r[i, 2], contacts.mu[i], 1.0)
        errors[i] = e
        if not e <= largest:
            largest, worst = e, i
            if math.isnan(e):
                break
    return largest, worst
