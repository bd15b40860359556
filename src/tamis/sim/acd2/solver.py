"""The velocity jump of the A-CD2 method: Gauss-Seidel over contacts in body space, with momentum.

The problem (Dimnet et al. 2013, 10.1007/s00707-013-0900-8, eqs 21-27)
----------------------------------------------------------------------
Bodies move at constant velocity for a step and jump at its end. The unknown is the mean of the velocities before and
after, ``X = (U+ + U-)/2``, which minimises ``<X|X> + Phi(X) - <2U- + T|X>`` under ``B X >= B U-/2``: no contact
closes after the jump. ``Phi = 1/2 sum(k_N v_N^2 + k_T |v_T|^2)`` dissipates at every contact, so that

    (2M + K) X = M (2U- + T) + B' lambda,    0 <= lambda perpendicular to B X - B U-/2 >= 0,    U+ = 2X - U-.

Why Gauss-Seidel and not the paper's method
-------------------------------------------
Uzawa's iteration needs a step below ``2/lambda_max(B (2M+K)^-1 B')``; the mean mass of the grains, which the paper
advises, is above it wherever a grain has several contacts. The matrix of the dual problem is full if ``K`` couples
all bodies. Both difficulties go if the dissipative impulses are unknowns too: the impulse of a contact is
``r = (lambda - k_N v_N, -k_T v_T)``, ``A X = b + G' r`` with ``A`` one 6x6 block a body (``2M``, and the stiffness of
what is treated implicitly), and a contact is solved exactly, the others held. That is a descent by blocks on the dual
of a strictly convex problem: it cannot diverge, and has nothing to choose. Between sweeps the impulses go on by a
share of the last change, as in `tamis.sim.contact.gauss_seidel`.

One contact
-----------
With ``W`` the 3x3 block of the contact and ``free = v - W r``, the tangential impulse is eliminated,
``Q = (1 + k_T W_TT)^-1`` and ``y = Q W_TN``, which leaves one number: ``v_N = f + S r_N`` with ``f = free_N - k_T
y.free_T`` and ``S = W_NN - k_T W_NT.y``. The contact is open, ``r_N = -k_N v_N``, if that leaves ``v_N`` above its
floor ``B U-/2``, and else ``v_N`` is at the floor.

Velocities are scaled by the factor of ``A = L L'``, ``w = L' X``, so that ``w = w_free + G' r`` and one block of
3x12 numbers serves both ways; a body that does not respond has the number -1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tamis.jit import inner, kernel
from tamis.sim.common.geometry import Floats
from tamis.sim.contact.gauss_seidel import Last, extrapolate, restart_momentum
from tamis.sim.contact.problem import Contacts, impose, push, velocity
from tamis.sim.contact.tuning import MOMENTUM, RESTART

LOOK = 10  # sweeps between two looks at the residual


class Local(NamedTuple):
    """What each contact keeps about itself."""

    floor: Floats  # (contacts,) least normal component of X: B U-/2
    parts: Floats  # (contacts, 6) y, Q and S
    W: Floats  # (contacts, 3, 3)


def local_arrays(n: int) -> Local:
    """Allocate for so many contacts."""
    return Local(np.zeros(n), np.zeros((n, 6)), np.zeros((n, 3, 3)))


def last_arrays(bodies: int, contacts: int) -> Last:
    """Allocate what momentum remembers."""
    return Last(np.zeros((bodies, 6)), np.zeros((contacts, 3)), np.zeros(2))


@inner
def prepare(contacts: Contacts, k_t: float, local: Local) -> None:
    """Fill the parts of every contact."""
    G, W, parts = contacts.G, local.W, local.parts
    for i in range(contacts.row_a.size):
        for p in range(3):
            for q in range(p, 3):
                total = 0.0
                for k in range(12):
                    total += G[i, p, k] * G[i, q, k]
                W[i, p, q] = W[i, q, p] = total
        a, b, c = 1.0 + k_t * W[i, 1, 1], k_t * W[i, 1, 2], 1.0 + k_t * W[i, 2, 2]
        over = 1.0 / (a * c - b * b)
        q11, q12, q22 = over * c, -over * b, over * a
        y1 = q11 * W[i, 0, 1] + q12 * W[i, 0, 2]
        y2 = q12 * W[i, 0, 1] + q22 * W[i, 0, 2]
        parts[i, 0], parts[i, 1], parts[i, 2], parts[i, 3], parts[i, 4] = y1, y2, q11, q12, q22
        parts[i, 5] = W[i, 0, 0] - k_t * (W[i, 0, 1] * y1 + W[i, 0, 2] * y2)


@inner
def visit(
    i: int, contacts: Contacts, w: Floats, r: Floats, k_n: float, k_t: float, local: Local
) -> tuple[float, float, float]:
    """Return the impulse that solves contact ``i``, the others held."""
    W, parts = local.W[i], local.parts[i]
    v0, v1, v2 = velocity(i, contacts, w)
    r0, r1, r2 = r[i, 0], r[i, 1], r[i, 2]
    if parts[5] <= 0.0:
        return 0.0, 0.0, 0.0  # neither body responds
    f0 = v0 - W[0, 0] * r0 - W[0, 1] * r1 - W[0, 2] * r2
    f1 = v1 - W[0, 1] * r0 - W[1, 1] * r1 - W[1, 2] * r2
    f2 = v2 - W[0, 2] * r0 - W[1, 2] * r1 - W[2, 2] * r2
    f = f0 - k_t * (parts[0] * f1 + parts[1] * f2)
    normal = f / (1.0 + k_n * parts[5])
    n = -k_n * normal if normal >= local.floor[i] else (local.floor[i] - f) / parts[5]
    f1 += W[0, 1] * n
    f2 += W[0, 2] * n
    return n, -k_t * (parts[2] * f1 + parts[3] * f2), -k_t * (parts[3] * f1 + parts[4] * f2)


@inner
def sweep(contacts: Contacts, w: Floats, r: Floats, k_n: float, k_t: float, local: Local) -> float:
    """Visit every contact in turn; return the sum of the squares of the changes, in energy."""
    total = 0.0
    for i in range(contacts.row_a.size):
        n, t1, t2 = visit(i, contacts, w, r, k_n, k_t, local)
        d0, d1, d2 = n - r[i, 0], t1 - r[i, 1], t2 - r[i, 2]
        r[i, 0], r[i, 1], r[i, 2] = n, t1, t2
        if d0 != 0.0 or d1 != 0.0 or d2 != 0.0:
            push(i, contacts, w, d0, d1, d2)
        total += local.W[i, 0, 0] * (d0 * d0 + d1 * d1 + d2 * d2)
    return total


@inner
def residual(contacts: Contacts, w: Floats, r: Floats, k_n: float, k_t: float, local: Local) -> float:
    """Return the largest change, as a velocity, that a visit would make; not a number if any is not."""
    largest = 0.0
    for i in range(contacts.row_a.size):
        n, t1, t2 = visit(i, contacts, w, r, k_n, k_t, local)
        square = (n - r[i, 0]) ** 2 + (t1 - r[i, 1]) ** 2 + (t2 - r[i, 2]) ** 2
        change = local.W[i, 0, 0] * math.sqrt(square)
        if not change <= largest:
            largest = change
            if math.isnan(change):
                break
    return largest


@kernel
def relax(
    contacts: Contacts,
    free: Floats,
    w: Floats,
    r: Floats,
    k_n: float,
    k_t: float,
    goal: float,
    limit: int,
    local: Local,
    last: Last,
) -> tuple[int, float]:
    """Sweep from the impulses ``r`` until the residual is below ``goal``; return the sweeps and the residual."""
    prepare(contacts, k_t, local)
    impose(contacts, r, free, w)
    restart_momentum(w, r, last)
    momentum, before, count = 0.0, math.inf, 0
    error = residual(contacts, w, r, k_n, k_t, local)
    while not error <= goal and count < limit:
        for _ in range(LOOK):
            following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
            beta = min(max(momentum - 1.0, 0.0) / following, MOMENTUM)
            momentum = following
            extrapolate(w, last.w, beta)
            extrapolate(r, last.r, beta)
            total = sweep(contacts, w, r, k_n, k_t, local)
            count += 1
            if total > RESTART * before:
                momentum = 1.0
            before = total
        impose(contacts, r, free, w)  # round-off of many sweeps does not add up
        error = residual(contacts, w, r, k_n, k_t, local)
        if math.isnan(error):
            break
    return count, error
