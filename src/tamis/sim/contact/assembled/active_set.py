"""Newton's method with an active set, in the impulses of an assembled problem.

The method of bodies (``..active_set``) with W instead of bodies: each contact is open, sticks or slips by its impulse
and velocity, and its law, linearised as such, is ``dx + D (W dx) = a``. The matrix ``I + D W`` has the pattern of W.
Impulses are scaled so that diagonal blocks are of order one, so rho and softness are plain numbers here.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tamis.jit import kernel
from tamis.sim.contact.active_set import linearise
from tamis.sim.contact.assembled.gauss_seidel import Problem, residual, velocities
from tamis.sim.contact.assembled.linear import PairedLU, clear, factorise_pairs, fill_row, solve_pairs
from tamis.sim.contact.cone import project
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


@kernel
def errors_of(p: Problem, x: Array, u: Array) -> float:
    """Fill the velocities of x; return the norm of the errors of Alart and Curnier's function, as velocities."""
    velocities(p, x, u)
    total = 0.0
    for i in range(len(p.mu)):
        p0, p1, p2 = x[i, 0] - DECIDE * u[i, 0], x[i, 1] - DECIDE * u[i, 1], x[i, 2] - DECIDE * u[i, 2]
        if p0 <= 0.0:
            p0 = p1 = p2 = 0.0
        else:
            t, radius = math.sqrt(p1 * p1 + p2 * p2), p.mu[i] * p0
            if t > radius:
                p1 *= radius / t
                p2 *= radius / t
        total += p.root[i] ** 2 * ((x[i, 0] - p0) ** 2 + (x[i, 1] - p1) ** 2 + (x[i, 2] - p2) ** 2)
    return math.sqrt(total)


@kernel
def active_set_newton(
    p: Problem, f: PairedLU, x: Array, u: Array, scratch: Array, tol: float, budget: int
) -> tuple[int, float, int]:
    """Improve x until its residual is within tol; return iterations, residual and worst contact.

    ``scratch`` is (5, n, 3).
    """
    n = len(p.mu)
    change, tried, settled, best = scratch[0], scratch[1], scratch[2], scratch[3]
    for i in range(n):
        for j in range(3):
            best[i, j] = x[i, j]
    size = errors_of(p, x, u)
    least, where = residual(p, x, u)
    stiff, iterations = STIFF, 0
    while least > tol and iterations < budget:
        turn = iterations % 3
        rho = DECIDE * (1.0 if turn == 0 else VARY if turn == 1 else 1.0 / VARY)
        iterations += 1
        clear(f)
        for i in range(n):
            a, first, second, third = linearise(
                *(x[i, 0], x[i, 1], x[i, 2], u[i, 0], u[i, 1], u[i, 2]), p.mu[i], rho, 1.0 / stiff
            )
            change[i, 0], change[i, 1], change[i, 2] = a
            fill_row(p, i, f, (*first, *second, *third))
        if not factorise_pairs(f):
            break
        solve_pairs(f, change)
        length = 1.0
        while True:
            for i in range(n):
                for j in range(3):
                    tried[i, j] = x[i, j] + length * change[i, j]
            reached = errors_of(p, tried, u)
            if reached < size or not length >= SHORTEST:
                break
            length *= SHORTER
        if not reached < math.inf:
            break
        if reached > REJECT * size and stiff > 1.0:
            stiff *= SOFTER
            velocities(p, x, u)
            continue
        stiff = (
            min(stiff, STIFF) if length < 1.0 or reached > DIGITS * size else min(STIFFER * stiff, STIFFEST)
        )
        size = reached
        for i in range(n):
            for j in range(3):
                x[i, j] = tried[i, j]
            settled[i, 0], settled[i, 1], settled[i, 2] = project(x[i, 0], x[i, 1], x[i, 2], p.mu[i])
        velocities(p, settled, u)
        error, worst = residual(p, settled, u)
        if error < least:
            least, where = error, worst
            for i in range(n):
                for j in range(3):
                    best[i, j] = settled[i, j]
        velocities(p, x, u)
    for i in range(n):
        for j in range(3):
            x[i, j] = best[i, j]
    velocities(p, x, u)
    return iterations, least, where
