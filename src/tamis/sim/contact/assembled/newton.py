"""Newton's method with a proximal centre, in the impulses of an assembled problem.

The path through the interior of the cones (``interior_point.py``) decides who carries, but where impulses are not
unique it comes to a standstill some digits early, and sweeps crawl from there. This is what supplies them: the method
of bodies (``..newton``), with W instead of bodies. In scaled impulses, the centre ``x_c`` held::

    F(x) = x - P_K(x_c - c u^(x)) = 0,    u^ = W x + q + mu |u_T| e_N,    then x_c = x, and again

Its matrix ``I + D W``, D the derivative of the projection times c, has the pattern of W, and the identity keeps it
regular where W is not. How the stiffness c is led, and why, is told there.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tamis.jit import kernel
from tamis.sim.contact.assembled.gauss_seidel import Problem, residual, velocities
from tamis.sim.contact.assembled.linear import PairedLU, clear, factorise_pairs, fill_row, solve_pairs
from tamis.sim.contact.cone import project, slope
from tamis.sim.contact.newton import INNER, LARGEST, SHARE, SMALLEST

Array = NDArray[np.float64]


@kernel
def imbalance(p: Problem, x: Array, centre: Array, c: float, u: Array, force: Array) -> float:
    """Fill the velocities of x and ``F(x)``; return its norm."""
    velocities(p, x, u)
    total = 0.0
    for i in range(len(p.mu)):
        mu = p.mu[i]
        t = math.sqrt(u[i, 1] * u[i, 1] + u[i, 2] * u[i, 2])
        z0 = centre[i, 0] - c * (u[i, 0] + mu * t)
        p0, p1, p2 = project(z0, centre[i, 1] - c * u[i, 1], centre[i, 2] - c * u[i, 2], mu)
        force[i, 0], force[i, 1], force[i, 2] = x[i, 0] - p0, x[i, 1] - p1, x[i, 2] - p2
        total += force[i, 0] ** 2 + force[i, 1] ** 2 + force[i, 2] ** 2
    return math.sqrt(total)


@kernel
def fill_matrix(p: Problem, centre: Array, c: float, u: Array, f: PairedLU) -> None:
    """Fill ``I + D W``."""
    clear(f)
    for i in range(len(p.mu)):
        D = slope(*(centre[i, 0], centre[i, 1], centre[i, 2]), *(u[i, 0], u[i, 1], u[i, 2]), p.mu[i], c)
        fill_row(p, i, f, D)


@kernel
def proximal_newton(
    p: Problem,
    f: PairedLU,
    x: Array,
    u: Array,
    scratch: Array,
    tol: float,
    budget: int,
    c: float,
) -> tuple[int, float, int]:
    """Improve x until its residual is within tol; return iterations, residual and worst contact.

    The first centre has the stiffness ``c``; once ``budget`` iterations are spent no further one is begun. ``scratch``
    is (5, n, 3).
    """
    n = len(p.mu)
    centre, force, step = scratch[0], scratch[1], scratch[2]
    trial, kept = scratch[3], scratch[4]
    unit = 0.0  # of scaled impulses: a velocity over the root of w
    for i in range(n):
        unit = max(unit, p.root[i])
    unit = p.speed / unit
    velocities(p, x, u)
    error, worst = residual(p, x, u)
    best, where = error, worst
    for i in range(n):
        for j in range(3):
            centre[i, j] = kept[i, j] = x[i, j]
    iterations = 0
    while best > tol and iterations < budget:
        target = 0.1 * max(SHARE * error, 0.1 * tol) * unit
        size = imbalance(p, x, centre, c, u, force)
        spent = 0
        while size > target and spent < INNER:
            fill_matrix(p, centre, c, u, f)
            if not factorise_pairs(f):
                break
            for i in range(n):
                for j in range(3):
                    step[i, j] = -force[i, j]
            solve_pairs(f, step)
            length = 1.0
            while True:
                for i in range(n):
                    for j in range(3):
                        trial[i, j] = x[i, j] + length * step[i, j]
                reached = imbalance(p, trial, centre, c, u, force)
                if reached < (1.0 - 1e-3 * length) * size or not length >= 0.02:
                    break
                length *= 0.4
            for i in range(n):
                for j in range(3):
                    x[i, j] = trial[i, j]
            size = reached
            spent += 1
        iterations += max(spent, 1)
        if not size <= target:  # the centre stays: what does not balance is no better one
            for i in range(n):
                for j in range(3):
                    x[i, j] = centre[i, j]
            c = max(0.2 * c, SMALLEST)
            continue
        for i in range(n):
            for j in range(3):
                x[i, j] -= force[i, j]
        velocities(p, x, u)
        error, worst = residual(p, x, u)
        if not error < math.inf:
            break
        for i in range(n):
            for j in range(3):
                centre[i, j] = x[i, j]
                if error < best:
                    kept[i, j] = x[i, j]
        if error < best:
            best, where = error, worst
        if spent <= 3:
            c = min(4.0 * c, LARGEST)
        elif spent <= 6:
            c = min(2.0 * c, LARGEST)
    for i in range(n):
        for j in range(3):
            x[i, j] = kept[i, j]
    return iterations, best, where
