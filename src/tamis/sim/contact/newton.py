"""Newton's method on the contact problem, in the bodies' velocities and without any softness left at the end.

The equations
-------------
With ``u^ = u + mu |u_T| e_N`` the contact law reads ``r = P_K(r - rho u^)`` for any ``rho > 0`` (Alart & Curnier
1991, 10.1016/0045-7825(91)90022-X, in the form of de Saxce). Solved as it stands, its derivative is singular
wherever more contacts hold a body than needed: four corners of a face, a block between two others. So the
centre is held while Newton's method works, and moved afterwards (proximal point, Rockafellar 1976,
10.1137/0314056)::

    F(w) = w - w_free - G^T p(w) = 0,    p_i(w) = P_K(r_i - rho_i u^_i(w)),    then r = p(w), and again

The unknowns are velocities, which are unique where impulses are not; the matrix ``I + G^T D G`` has one row of
6x6 blocks a body, and the identity keeps it regular whatever the contacts. When nothing changes any more the
law holds exactly: ``1 / rho`` is a softness that has been moved out of the solution.

How stiff
---------
``rho_i = c / w_i``. A soft problem (c = 10) takes three or four Newton steps from wherever one comes; a stiff
one leaves less to the next centre but, begun too early, wanders between sets of active contacts. So c starts at
10 and grows as fast as the steps get easy, up to 1e8; it falls back if a problem resists. Where blocks are
wedged, impulses must travel far while velocities hardly change, and only a large c brings them there.

The derivative of ``mu |u_T|`` is kept: held fixed during Newton's method, it makes the problem convex and the
matrix symmetric, but then converges by halves only, and slip costs twenty centres instead of five. The step
is shortened while the imbalance F would grow. Projecting the linearised impulses after a single Newton step,
without the inner iteration, is cheaper on easy problems and does not end on hard ones.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inlined, inner
from tamis.sim.contact.cone import project, slope
from tamis.sim.contact.linear import BlockLU, factorise, reset, solve
from tamis.sim.contact.problem import Contacts, copy, impose, push, residual, velocity
from tamis.simd import put, six

Array = NDArray[np.float64]

FIRST, LARGEST, SMALLEST = 10.0, 1e8, 1.0  # stiffness c
ROUND_OFF = 1e15  # c times the round-off of a velocity stays below a share of the goal
INNER = 12  # Newton steps with one centre
SHARE = 0.1  # of the residual, to which F is brought before the centre is moved


class Trial(NamedTuple):
    """Scratch of `proximal_newton`, and the free velocities it starts from."""

    free: Array  # (bodies, 6) free velocities
    w: Array  # (bodies, 6) velocities tried
    step: Array  # (bodies, 6) Newton step
    force: Array  # (bodies, 6) imbalance F
    r: Array  # (contacts, 3) projected impulses
    errors: Array  # (contacts,) residuals


@inner
def trial_arrays(free: Array, n_contacts: int) -> Trial:
    """Allocate for the bodies of these free velocities and so many contacts."""
    w, step, force = np.empty(free.shape), np.empty(free.shape), np.empty(free.shape)
    return Trial(free, w, step, force, np.empty((n_contacts, 3)), np.empty(n_contacts))


@inner
def imbalance(contacts: Contacts, w: Array, r: Array, weight: Array, c: float, trial: Trial) -> float:
    """Fill ``F(w)`` and ``p(w)`` for the centre ``r``; return the norm of F."""
    F, p, mu = trial.force, trial.r, contacts.mu
    for k in range(w.shape[0]):
        for j in range(6):
            F[k, j] = w[k, j] - trial.free[k, j]
    for i in range(contacts.row_a.size):
        u0, u1, u2 = velocity(i, contacts, w)
        rho = c / weight[i]
        t = math.sqrt(u1 * u1 + u2 * u2)
        p0, p1, p2 = project(r[i, 0] - rho * (u0 + mu[i] * t), r[i, 1] - rho * u1, r[i, 2] - rho * u2, mu[i])
        p[i, 0], p[i, 1], p[i, 2] = p0, p1, p2
        push(i, contacts, F, -p0, -p1, -p2)
    total = 0.0
    for k in range(w.shape[0]):
        for j in range(6):
            total += F[k, j] * F[k, j]
    return math.sqrt(total)


@inlined
def add_contact(
    contacts: Contacts,
    i: int,
    lu: BlockLU,
    D: tuple[float, float, float, float, float, float, float, float, float],
) -> None:
    """Add ``G_i^T D G_i``, row by row, to the blocks of the bodies of contact ``i``."""
    G, blocks, place = contacts.G, lu.blocks, lu.place
    d00, d01, d02, d10, d11, d12, d20, d21, d22 = D
    for side in range(2):
        o = 6 * side
        x, y = (contacts.row_a[i], contacts.row_b[i]) if side == 0 else (contacts.row_b[i], contacts.row_a[i])
        if x < 0:
            continue
        s = place[x, x]
        t = place[x, y] if y >= 0 else -1
        g0, g1, g2 = six(G, i, 0, o), six(G, i, 1, o), six(G, i, 2, o)
        f0 = d00 * g0 + d10 * g1 + d20 * g2
        f1 = d01 * g0 + d11 * g1 + d21 * g2
        f2 = d02 * g0 + d12 * g1 + d22 * g2
        for j in range(6):
            put(six(blocks, s, j) + f0[j] * g0 + f1[j] * g1 + f2[j] * g2, blocks, s, j)
        if t >= 0:
            g0, g1, g2 = six(G, i, 0, 6 - o), six(G, i, 1, 6 - o), six(G, i, 2, 6 - o)
            for j in range(6):
                put(six(blocks, t, j) + f0[j] * g0 + f1[j] * g1 + f2[j] * g2, blocks, t, j)


@inner
def fill_matrix(
    contacts: Contacts, w: Array, r: Array, weight: Array, c: float, count: int, lu: BlockLU
) -> None:
    """Fill the blocks of ``I + G^T D G``, D the derivative of ``-p`` with respect to u."""
    reset(w.shape[0], count, lu)
    for i in range(contacts.row_a.size):
        u0, u1, u2 = velocity(i, contacts, w)
        D = slope(r[i, 0], r[i, 1], r[i, 2], u0, u1, u2, contacts.mu[i], c / weight[i])
        if D[0] == 0.0:
            continue
        add_contact(contacts, i, lu, D)


@inner
def line_search(
    contacts: Contacts, w: Array, r: Array, weight: Array, c: float, size: float, lu: BlockLU, trial: Trial
) -> float:
    """Move w along the Newton step, as far as F gets smaller than ``size``; return what it is then."""
    m = w.shape[0]
    for k in range(m):
        for j in range(6):
            trial.step[k, j] = -trial.force[k, j]
    solve(m, lu, trial.step)
    length = 1.0
    while True:
        for k in range(m):
            for j in range(6):
                trial.w[k, j] = w[k, j] + length * trial.step[k, j]
        reached = imbalance(contacts, trial.w[:m], r, weight, c, trial)
        if reached < (1.0 - 1e-3 * length) * size or length < 0.02:
            break
        length *= 0.4
    copy(trial.w, w)
    return reached


@inner
def proximal_newton(
    contacts: Contacts,
    w: Array,
    r: Array,
    weight: Array,
    goal: float,
    budget: int,
    c: float,
    count: int,
    lu: BlockLU,
    trial: Trial,
) -> tuple[int, float, int]:
    """Improve w and r until the residual is below ``goal``; return iterations, residual, worst contact.

    The first centre has the stiffness ``c``; once ``budget`` iterations are spent no further one is begun.
    """
    m, n = w.shape[0], contacts.row_a.size
    compliance = 0.0
    for i in range(n):
        compliance = max(compliance, weight[i])
    speed = 0.0
    for k in range(m):
        for j in range(6):
            speed = max(speed, abs(w[k, j]))
    speed *= math.sqrt(compliance)
    ceiling = min(max(ROUND_OFF * goal / max(speed, goal), FIRST), LARGEST)
    error, worst = residual(contacts, w, r, weight, trial.errors)
    iterations = 0
    while error > goal and iterations < budget:
        target = max(SHARE * error, 0.1 * goal) / math.sqrt(compliance)
        size = imbalance(contacts, w, r, weight, c, trial)
        inner = 0
        while size > target and inner < INNER:
            fill_matrix(contacts, w, r, weight, c, count, lu)
            if not factorise(m, lu):
                break
            size = line_search(contacts, w, r, weight, c, size, lu, trial)
            inner += 1
        iterations += max(inner, 1)
        if not size <= target:  # the centre stays: what does not balance is no better one
            impose(contacts, r, trial.free, w)
            c = max(0.2 * c, SMALLEST)
            continue
        copy(trial.r, r)
        impose(contacts, r, trial.free, w)
        error, worst = residual(contacts, w, r, weight, trial.errors)
        if inner <= 3:
            c = min(4.0 * c, ceiling)
        elif inner <= 6:
            c = min(2.0 * c, ceiling)
    return iterations, error, worst
