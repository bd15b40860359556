"""Newton's method on Alart and Curnier's function: an active set is guessed from impulses and velocities together.

Why a second Newton's method
----------------------------
In ``newton.py`` who carries, sticks and slips is read from ``r - rho u`` with the ``rho`` that also pulls the law
tight. A soft ``rho`` moves impulses by little: through a bar of 10 kg between blocks of 1800 kg by a hundredth of what
is needed. A stiff one takes every error of a velocity, times ``rho``, for a change of an impulse, and sets of active
contacts go round in circles. On an articulated wall (bars through rings, 600 contacts) five steps in six were not
solved in thirty iterations so.

Here the two are apart (the primal-dual form of Alart & Curnier 1991, 10.1016/0045-7825(91)90022-X; Hintermueller, Ito &
Kunisch 2002, 10.1137/S1052623401383558). Impulses are unknowns of their own. With ``z = r - rho u`` and a mild
``rho = DECIDE / w`` a contact is open (``z_N <= 0``), sticks (``|z_T| <= mu z_N``) or slips, and its law is linearised
as such, with a softness that only keeps redundant contacts regular::

    open:    r + dr = 0
    sticks:  u + du + (w / STIFF) dr = 0
    slips:   u_N + du_N + (w / STIFF) dr_N = 0,    along d = z_T / |z_T|:  (r + dr)_d = mu (r + dr)_N,
             across d:  (1 - k) dr = -r - k rho du,    k = mu z_N / |z_T|

Each is ``dr = a - D du``, so the matrix is once more ``I + G^T D G``, a row of 6x6 blocks a body. What the two methods
take, alone and in turn, is told in ``solve.py``.

Not always downhill
-------------------
The norm of the law's errors is no good guide: a set that is nearer the right one is often further from satisfied.
So a step is shortened twice at most and then taken even if errors grow, up to `REJECT` times; beyond it is taken
again softer. Once the goal is reached one more step is taken: with the set right it brings most of the digits, and
bodies at rest stay there. ``rho`` changes from one iteration to the next, so that a set that would come back meets
another one. What is returned is the best of what was met. Where it does not end, errors that are left are local: sweeps
of Gauss-Seidel often end what it began, and it what they leave.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inlined, inner
from tamis.sim.contact.cone import project
from tamis.sim.contact.linear import BlockLU, factorise, reset, solve
from tamis.sim.contact.newton import Trial, add_contact
from tamis.sim.contact.problem import Contacts, copy, impose, push, residual, velocity
from tamis.sim.contact.tuning import (
    DECIDE,
    DIGITS,
    REJECT,
    SHORTER,
    SHORTEST,
    SOFTER,
    STIFF,
    STIFFER,
    STIFFEST,
    VARY,
)

Array = NDArray[np.float64]


class ActiveSet(NamedTuple):
    """Scratch of `active_set_newton`."""

    change: Array  # (contacts, 3) step of the impulses
    tried: Array  # (contacts, 3)
    best: Array  # (contacts, 3)
    D: Array  # (contacts, 6) first column of D, then its lower right corner, which is symmetric


@inner
def active_set_arrays(n: int) -> ActiveSet:
    """Allocate for so many contacts."""
    return ActiveSet(np.empty((n, 3)), np.empty((n, 3)), np.empty((n, 3)), np.empty((n, 6)))


@inner
def errors_of(contacts: Contacts, w: Array, r: Array, weight: Array) -> tuple[float, float]:
    """Return norm and largest of the errors of Alart and Curnier's function, as velocities."""
    total = largest = 0.0
    for i in range(contacts.mu.size):
        u0, u1, u2 = velocity(i, contacts, w)
        rho = DECIDE / weight[i]
        p0, p1, p2 = r[i, 0] - rho * u0, r[i, 1] - rho * u1, r[i, 2] - rho * u2
        if p0 <= 0.0:
            p0 = p1 = p2 = 0.0
        else:
            t, radius = math.sqrt(p1 * p1 + p2 * p2), contacts.mu[i] * p0
            if t > radius:
                p1 *= radius / t
                p2 *= radius / t
        e = (r[i, 0] - p0) ** 2 + (r[i, 1] - p1) ** 2 + (r[i, 2] - p2) ** 2
        e *= weight[i] * weight[i]
        total += e
        largest = max(largest, e)
    return math.sqrt(total), math.sqrt(largest)


Row = tuple[float, float, float]


@inlined
def linearise(
    r0: float, r1: float, r2: float, u0: float, u1: float, u2: float, mu: float, rho: float, softness: float
) -> tuple[Row, Row, Row, Row]:
    """Return ``a`` and the rows of D, so that the step of the impulse is ``a - D du``; D is nothing where open.

    Numbers only: handed arrays, this takes five times as long.
    """
    z0, z1, z2 = r0 - rho * u0, r1 - rho * u1, r2 - rho * u2
    nothing = (0.0, 0.0, 0.0)
    if z0 <= 0.0:
        return (-r0, -r1, -r2), nothing, nothing, nothing
    f = 1.0 / softness
    t = math.sqrt(z1 * z1 + z2 * z2)
    if t <= mu * z0:
        return (-f * u0, -f * u1, -f * u2), (f, 0.0, 0.0), (0.0, f, 0.0), (0.0, 0.0, f)
    d1, d2, k = z1 / t, z2 / t, mu * z0 / t
    across = 1.0 / (1.0 - k + rho * softness)  # where k is 1 it sticks, as softly as the others
    a0 = -f * u0
    along = mu * (r0 + a0) - (r1 * d1 + r2 * d2)
    aside = across * (r1 * d2 - r2 * d1)
    g = across * k * rho
    return (
        (a0, along * d1 - aside * d2, along * d2 + aside * d1),
        (f, 0.0, 0.0),
        (f * mu * d1, g * d2 * d2, -g * d1 * d2),
        (f * mu * d2, -g * d1 * d2, g * d1 * d1),
    )


@inner
def newton_step(
    contacts: Contacts,
    w: Array,
    r: Array,
    weight: Array,
    decide: float,
    stiff: float,
    count: int,
    lu: BlockLU,
    step: Array,
    scratch: ActiveSet,
) -> bool:
    """Fill the steps of impulses and velocities; False if the matrix cannot be factorised."""
    m, n = w.shape[0], contacts.mu.size
    D, change = scratch.D, scratch.change
    reset(m, count, lu)
    for k in range(m):
        for j in range(6):
            step[k, j] = 0.0
    for i in range(n):
        u0, u1, u2 = velocity(i, contacts, w)
        a, first, second, third = linearise(
            *(r[i, 0], r[i, 1], r[i, 2], u0, u1, u2), contacts.mu[i], decide / weight[i], weight[i] / stiff
        )
        change[i, 0], change[i, 1], change[i, 2] = a
        D[i, 0], D[i, 1], D[i, 2] = first[0], second[0], third[0]
        D[i, 3], D[i, 4], D[i, 5] = second[1], second[2], third[2]
        push(i, contacts, step, a[0], a[1], a[2])
        if first[0] > 0.0:
            add_contact(contacts, i, lu, (*first, *second, *third))
    if not factorise(m, lu):
        return False
    solve(m, lu, step)
    for i in range(n):
        if D[i, 0] > 0.0:
            u0, u1, u2 = velocity(i, contacts, step)
            u0, u1, u2 = u0 - contacts.bias[i, 0], u1 - contacts.bias[i, 1], u2 - contacts.bias[i, 2]
            change[i, 0] -= D[i, 0] * u0
            change[i, 1] -= D[i, 1] * u0 + D[i, 3] * u1 + D[i, 4] * u2
            change[i, 2] -= D[i, 2] * u0 + D[i, 4] * u1 + D[i, 5] * u2
    for k in range(m):
        for j in range(6):
            step[k, j] = 0.0
    for i in range(n):
        push(i, contacts, step, change[i, 0], change[i, 1], change[i, 2])
    return True


@inner
def line_search(
    contacts: Contacts, w: Array, r: Array, weight: Array, size: float, trial: Trial, scratch: ActiveSet
) -> tuple[float, float, float]:
    """Try the step, shortened while errors grow; return their norm and largest then, and the length."""
    length = 1.0
    while True:
        for k in range(w.shape[0]):
            for j in range(6):
                trial.w[k, j] = w[k, j] + length * trial.step[k, j]
        for i in range(contacts.mu.size):
            for j in range(3):
                scratch.tried[i, j] = r[i, j] + length * scratch.change[i, j]
        reached, largest = errors_of(contacts, trial.w, scratch.tried, weight)
        if reached < size or not length >= SHORTEST:
            return reached, largest, length
        length *= SHORTER


@inner
def settle(contacts: Contacts, r: Array, weight: Array, trial: Trial, w: Array) -> tuple[float, int]:
    """Put the impulses into their cones and w to the velocities that belong to them; return residual, worst contact."""
    for i in range(contacts.mu.size):
        r[i, 0], r[i, 1], r[i, 2] = project(r[i, 0], r[i, 1], r[i, 2], contacts.mu[i])
    impose(contacts, r, trial.free, w)
    return residual(contacts, w, r, weight, trial.errors)


@inner
def active_set_newton(
    contacts: Contacts,
    w: Array,
    r: Array,
    weight: Array,
    goal: float,
    budget: int,
    count: int,
    lu: BlockLU,
    trial: Trial,
    scratch: ActiveSet,
) -> tuple[int, float, int]:
    """Improve w and r until the residual is below ``goal``; return iterations, residual, worst contact."""
    n = contacts.mu.size
    size, largest = errors_of(contacts, w, r, weight)
    least, stiff, iterations = size, STIFF, 0
    copy(r, scratch.best)
    ended = False
    while iterations < budget or ended:
        turn = iterations % 3
        decide = DECIDE * (1.0 if turn == 0 else VARY if turn == 1 else 1.0 / VARY)
        iterations += 1
        if not newton_step(contacts, w, r, weight, decide, stiff, count, lu, trial.step, scratch):
            break
        reached, largest, length = line_search(contacts, w, r, weight, size, trial, scratch)
        if ended:  # the settled impulses stay unless those of one more step are settled too
            if reached < least:
                copy(scratch.tried[:n], r)
                if settle(contacts, scratch.tried[:n], weight, trial, trial.w)[0] <= goal:
                    copy(r, scratch.best)
            break
        if not reached <= REJECT * size and stiff > 1.0:
            stiff *= SOFTER
            continue
        if length < 1.0 or reached > DIGITS * size:
            stiff = min(stiff, STIFF)
        else:
            stiff = min(STIFFER * stiff, STIFFEST)
        size = reached
        copy(scratch.tried[:n], r)
        copy(trial.w, w)
        if size < least:
            least = size
            copy(r, scratch.best)
        if largest <= 2.0 * DECIDE * goal:  # near enough to look at the residual proper
            copy(r, scratch.tried)
            ended = settle(contacts, scratch.tried[:n], weight, trial, trial.w)[0] <= goal
            if ended:
                least = size
                copy(r, scratch.best)
    copy(scratch.best[:n], r)
    error, worst = settle(contacts, r, weight, trial, w)
    return iterations, error, worst
