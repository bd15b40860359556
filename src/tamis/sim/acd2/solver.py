"""The velocity jump of the A-CD2 method: Gauss-Seidel over contacts in body space, with momentum.

The problem (Dimnet et al. 2013, 10.1007/s00707-013-0900-8, eqs 21-27)
----------------------------------------------------------------------
Bodies move at constant velocity for a step and jump at its end. The unknown is the mean of the velocities before and
after, ``X = (U+ + U-)/2``, which minimises ``<X|X> + Phi(X) - <2U- + T|X>`` under ``B X >= B U-/2``: no contact
closes after the jump. ``Phi = 1/2 sum(k_N v_N^2 + k_T |v_T|^2)`` dissipates at every contact, so that

    (2M + K) X = M (2U- + T) + B' p,    0 <= p_N perpendicular to (B X - B U-/2)_N >= 0,    U+ = 2X - U-.

Dry friction, which the paper does not have, adds ``mu s |(B X - B U-/2)_T|`` to ``Phi``, convex for a given
threshold ``s``: ``p_T`` opposes the slip after the jump and is at most ``mu s``. The threshold is the normal
percussion of the same jump, ``s = p_N``, Coulomb's law, by a fixed point that goes on within each visit. Both halves
of the law are those of ``u = B X - B U-/2 = B U+/2``.

Why Gauss-Seidel and not the paper's method
-------------------------------------------
Uzawa's iteration needs a step below ``2/lambda_max(B (2M+K)^-1 B')``; the mean mass of the grains, which the paper
advises, is above it wherever a grain has several contacts. The matrix of the dual problem is full if ``K`` couples
all bodies. Both difficulties go if the dissipative impulses are unknowns too: the impulse of a contact is
``r = p - K v`` with ``v = B X``, ``A X = b + G' r`` with ``A`` one 6x6 block a body (``2M``, and the stiffness of
what is treated implicitly), and a contact is solved exactly, the others held. Without friction that is a descent by
blocks on the dual of a strictly convex problem: it cannot diverge, and has nothing to choose. Between sweeps the
impulses go on by a share of the last change, as in `tamis.sim.contact.gauss_seidel`.

One contact
-----------
With ``W`` the 3x3 block of the contact, a change ``d`` of ``p`` changes its velocity by ``W' d``,
``W' = (W^-1 + K)^-1``, and its impulse by ``d - K W' d``. So in ``u`` and ``p`` it is a contact with Coulomb's law and
the block ``W'``, solved as `tamis.sim.contact.gauss_seidel` does: open, sticking, or slipping by one number.

Velocities are scaled by the factor of ``A = L L'``, ``w = L' X``, so that ``w = w_free + G' r`` and one block of
3x12 numbers serves both ways; a body that does not respond has the number -1. `Contacts.bias` is ``-B U-/2``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tamis.jit import inlined, inner, kernel
from tamis.sim.common.geometry import Floats, Ints
from tamis.sim.contact.gauss_seidel import (
    Last,
    extrapolate,
    restart_momentum,
    slide,
    slide_anew,
    visit_all,
    visit_near,
)
from tamis.sim.contact.problem import Contacts, impose, push, velocity
from tamis.sim.contact.tuning import (
    FEW,
    LONGEST,
    MOMENTUM,
    NEARBY,
    QUIET,
    RESTART,
    ROUND,
    SETTLED,
    SHORT,
    SOME,
)

CALM = 500  # sweeps after which as many follow without momentum and surroundings, in turn: friction can go in circles


class Local(NamedTuple):
    """What each contact keeps about itself."""

    W: Floats  # (contacts, 3, 3) W'
    parts: Floats  # (contacts, 9) of W': 1/W_NN; c = W_TN/W_NN; S = W_TT - c W_NT, three numbers; its inverse, three
    slip: Floats  # (contacts,) slip number of the last visit
    errors: Floats  # (contacts,) residuals, as velocities
    wait: Ints  # (contacts,) sweeps still to be left out,
    span: Ints  # (contacts,) and how many were last asked for
    ring: Ints  # (bodies,) scratch of `visit_near`


def local_arrays(bodies: int, n: int) -> Local:
    """Allocate for so many bodies and contacts."""
    return Local(
        np.zeros((n, 3, 3)), np.zeros((n, 9)), np.zeros(n), np.zeros(n), np.zeros(n, np.int64), np.zeros(n, np.int64),
        np.zeros(bodies, np.int64),
    )  # fmt: skip


def last_arrays(bodies: int, contacts: int) -> Last:
    """Allocate what momentum remembers."""
    return Last(np.zeros((bodies, 6)), np.zeros((contacts, 3)), np.zeros(2))


@inner
def prepare(contacts: Contacts, k_n: float, k_t: float, local: Local) -> None:
    """Fill the parts of every contact."""
    G, parts = contacts.G, local.parts
    for i in range(contacts.row_a.size):
        W = local.W[i]
        for p in range(3):
            for q in range(p, 3):
                total = 0.0
                for k in range(12):
                    total += G[i, p, k] * G[i, q, k]
                W[p, q] = W[q, p] = total
        for j in range(3):  # (W^-1 + K)^-1, one direction after the other (Sherman & Morrison)
            k_j = k_n if j == 0 else k_t
            over = 1.0 / (1.0 + k_j * W[j, j])
            for p in range(3):
                for q in range(3):
                    if p != j and q != j:
                        W[p, q] -= k_j * over * W[p, j] * W[j, q]
            for p in range(3):
                if p != j:
                    W[p, j] *= over
                    W[j, p] = W[p, j]
            W[j, j] *= over
        over = 1.0 / W[0, 0] if W[0, 0] > 0.0 else 0.0
        c1, c2 = over * W[0, 1], over * W[0, 2]
        s11, s12, s22 = W[1, 1] - c1 * W[0, 1], W[1, 2] - c1 * W[0, 2], W[2, 2] - c2 * W[0, 2]
        det = s11 * s22 - s12 * s12
        inverse = 1.0 / det if det > 1e-14 * W[1, 1] * W[2, 2] else 0.0
        parts[i, 0], parts[i, 1], parts[i, 2] = over, c1, c2
        parts[i, 3], parts[i, 4], parts[i, 5] = s11, s12, s22
        parts[i, 6], parts[i, 7], parts[i, 8] = inverse * s22, -inverse * s12, inverse * s11
        local.slip[i] = 0.0


@inlined
def visit(
    i: int, contacts: Contacts, w: Floats, r: Floats, k_n: float, k_t: float, local: Local
) -> tuple[float, float, float]:
    """Return the change of ``p`` that solves contact ``i``, the others held."""
    parts, slip, bias, mu = local.parts, local.slip, contacts.bias, contacts.mu[i]
    u0, u1, u2 = velocity(i, contacts, w)
    p0 = r[i, 0] + k_n * (u0 - bias[i, 0])
    p1, p2 = r[i, 1] + k_t * (u1 - bias[i, 1]), r[i, 2] + k_t * (u2 - bias[i, 2])
    c1, c2 = parts[i, 1], parts[i, 2]
    free = p0 + c1 * p1 + c2 * p2 - parts[i, 0] * u0
    n = t1 = t2 = 0.0
    if free > 0.0 and parts[i, 0] > 0.0:
        n = free
        if mu > 0.0:
            e1, e2 = u1 - c1 * u0, u2 - c2 * u0
            t1 = p1 - parts[i, 6] * e1 - parts[i, 7] * e2
            t2 = p2 - parts[i, 7] * e1 - parts[i, 8] * e2
            n = free - c1 * t1 - c2 * t2
            if not (n > 0.0 and t1 * t1 + t2 * t2 <= mu * mu * n * n and parts[i, 6] > 0.0):
                s11, s12, s22 = parts[i, 3], parts[i, 4], parts[i, 5]
                b1, b2 = e1 - s11 * p1 - s12 * p2, e2 - s12 * p1 - s22 * p2
                n, t1, t2, number = slide(c1, c2, s11, s12, s22, free, b1, b2, mu, slip[i])
                if number < 0.0:
                    n, t1, t2, number = slide_anew(i, local.W, free, b1, b2, mu)
                slip[i] = number
    return n - p0, t1 - p1, t2 - p2


@inner
def sweep(
    contacts: Contacts, w: Floats, r: Floats, k_n: float, k_t: float, local: Local, quiet: float
) -> tuple[float, float]:
    """Visit each contact that does not wait; return the largest change, as a velocity, and the squares' sum in energy.

    A contact that changes by less than ``quiet`` waits.
    """
    W, wait, span = local.W, local.wait, local.span
    largest = total = 0.0
    for i in range(contacts.row_a.size):
        if wait[i] > 0:
            wait[i] -= 1
            continue
        d0, d1, d2 = visit(i, contacts, w, r, k_n, k_t, local)
        square = W[i, 0, 0] * (d0 * d0 + d1 * d1 + d2 * d2)
        if W[i, 0, 0] * square < quiet * quiet:
            span[i] = min(span[i] + 1, LONGEST)
            wait[i] = span[i]
            if square == 0.0:
                continue
        else:
            span[i] = 0
        total += square
        largest = max(largest, W[i, 0, 0] * square)
        v0 = W[i, 0, 0] * d0 + W[i, 0, 1] * d1 + W[i, 0, 2] * d2
        v1 = W[i, 1, 0] * d0 + W[i, 1, 1] * d1 + W[i, 1, 2] * d2
        v2 = W[i, 2, 0] * d0 + W[i, 2, 1] * d1 + W[i, 2, 2] * d2
        d0, d1, d2 = d0 - k_n * v0, d1 - k_t * v1, d2 - k_t * v2
        r[i, 0] += d0
        r[i, 1] += d1
        r[i, 2] += d2
        push(i, contacts, w, d0, d1, d2)
    return math.sqrt(largest), total


@inner
def residual(contacts: Contacts, w: Floats, r: Floats, k_n: float, k_t: float, local: Local) -> float:
    """Fill the changes, as velocities, that visits would make; return the largest, not a number if any is not."""
    largest = 0.0
    for i in range(contacts.row_a.size):
        d0, d1, d2 = visit(i, contacts, w, r, k_n, k_t, local)
        change = local.W[i, 0, 0] * math.sqrt(d0 * d0 + d1 * d1 + d2 * d2)
        local.errors[i] = change
        if not change <= largest:
            largest = change
            if math.isnan(change):
                break
    return largest


@inner
def bout(
    contacts: Contacts,
    w: Floats,
    r: Floats,
    k_n: float,
    k_t: float,
    goal: float,
    limit: int,
    share: float,
    local: Local,
    last: Last,
) -> int:
    """Sweep until changes are well below the goal, with momentum up to a share of them; return how often."""
    momentum, before, count = last.pace[0], last.pace[1], 0
    while count < limit:
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        beta = min(max(momentum - 1.0, 0.0) / following, share)
        momentum = following
        extrapolate(w, last.w, beta)
        extrapolate(r, last.r, beta)
        largest, total = sweep(contacts, w, r, k_n, k_t, local, QUIET * goal)
        count += 1
        if total > RESTART * before:
            momentum = 1.0
        before = total
        if not largest > SETTLED * goal:
            break
    last.pace[0], last.pace[1] = momentum, before
    return count


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
    """Sweep from the impulses ``r`` until the residual is below ``goal``; return the sweeps and the residual.

    Once few contacts are left above it, sweeps keep to their surroundings in turn with sweeps over all. With friction
    neither need to end; so every other `CALM` sweeps are plain ones.
    """
    n, count = contacts.row_a.size, 0
    waits: Any = local  # it has what the library's sweeps wait by
    prepare(contacts, k_n, k_t, local)
    impose(contacts, r, free, w)
    restart_momentum(w, r, last)
    error = residual(contacts, w, r, k_n, k_t, local)
    while not error <= goal and count < limit and not math.isnan(error):
        left, most = 0, ROUND
        share = MOMENTUM if count // CALM % 2 == 0 else 0.0
        for i in range(n):
            if local.errors[i] > goal:
                left += 1
        if left <= max(FEW * n, SOME) and count > 0 and share > 0.0:
            visit_near(contacts, local.errors, goal, local.ring, waits)
            restart_momentum(w, r, last)
            count += bout(contacts, w, r, k_n, k_t, goal, min(NEARBY, limit - count), share, local, last)
            restart_momentum(w, r, last)
            most = SHORT
        visit_all(waits, n)
        count += bout(contacts, w, r, k_n, k_t, goal, min(most, limit - count), share, local, last)
        impose(contacts, r, free, w)  # round-off of many sweeps does not add up
        error = residual(contacts, w, r, k_n, k_t, local)
    return count, error
