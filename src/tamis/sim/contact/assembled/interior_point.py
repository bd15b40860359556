"""An interior-point method for the contact problems on which sweeps crawl.

Why
---
Boxes on boxes are hyperstatic: the impulses are not unique, W is singular, and which of four corners carry is
undecided until the end. Sweeps then crawl, and Newton's method on the natural map jumps between sets of
contacts (it failed on the walls here from almost anywhere). A path through the interior of the cones keeps all
contacts alive until the end: 10 to 26 steps on the published problems, each a sparse factorisation. With the
sliding term held the problem is convex (Acary, Cadoux, Lemarechal & Malick 2011, 10.1002/zamm.201000073).

Equations
---------
With ``x = L r``, ``y = L^-1 u^``, ``L = c diag(mu, 1, 1)``, the cone and its dual become the same
(Lorentz's); c makes the diagonal blocks of order one. The path is ``x o y = mu e`` (o: Jordan product), the
steps are Mehrotra's with the scaling of Nesterov and Todd (Alizadeh & Goldfarb 2003, 10.1007/s10107-002-0339-5):
with ``Q_w y = x``::

    (E W + Q_w^-1) dx = -(W x + q + |u_T| e_N) + Q_w^-1/2 (lambda \\ (sigma mu e - dx_a o dy_a))

E holds the derivative of the sliding term ``|u_T|``, so the matrix is not symmetric; leaving the term for the
next iteration instead made the method fail on half of the problems. The problem is not monotone and there is no
theorem. In practice the method may come to a standstill at a residual of some 1e-5, where it has decided who
carries; Newton's method and sweeps go on from there.

Where it begins and how it ends
-------------------------------
From the axes of the cones the path takes 10 to 26 steps on the published problems. If sweeps have brought an x, it may
begin there instead, x and y moved into the cones by some ``start``: a third of the steps less. Too near (a thousandth)
it is caught at the walls.

Where a contact is open and without load at once, x and y of that contact both go to zero as the root of the gap, and
so does the residual: by halves, however many digits are asked for. But then x is nearly linear in that root, and two
iterates give the point where it is zero, put back into the cones. Three of eight published problems take a step or
two less so to 1e-6, and own_wall_1 half as many to 1e-10.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner, kernel
from tamis.sim.contact.assembled.gauss_seidel import Problem, residual, velocities
from tamis.sim.contact.assembled.linear import PairedLU, clear, factorise_pairs, solve_pairs
from tamis.sim.contact.cone import project
from tamis.sim.contact.lorentz import (
    EARLY,
    LEAST_FRICTION,
    PATIENCE,
    Interior,
    correct,
    longest,
    scale_points,
)

Array = NDArray[np.float64]
NEAR = 1e-3  # residual below which the limit of two iterates is looked for,
SHRINKS = 0.9  # if the roots of their gaps have at most this ratio


@inner
def rescale(p: Problem, t: Problem, scale: Array) -> float:
    """Fill t with p in Lorentz's scaling and the matching scale of impulses; return the unit of velocity."""
    n = len(p.mu)
    unit = 0.0
    for i in range(n):
        mu = max(p.mu[i], LEAST_FRICTION)
        trace = p.diagonal[i, 0, 0] / (mu * mu) + p.diagonal[i, 1, 1] + p.diagonal[i, 2, 2]
        c = math.sqrt(trace / 3.0) if trace > 0.0 else 1.0
        scale[i, 0], scale[i, 1], scale[i, 2] = mu * c, c, c
        for a in range(3):
            unit = max(unit, abs(p.q[i, a]) / scale[i, a])
    unit = unit if unit > 0.0 else 1.0
    for i in range(n):
        for a in range(3):
            t.q[i, a] = p.q[i, a] / (scale[i, a] * unit)
            for b in range(3):
                t.diagonal[i, a, b] = p.diagonal[i, a, b] / (scale[i, a] * scale[i, b])
        for k in range(p.ptr[i], p.ptr[i + 1]):
            for b in range(3):
                for a in range(3):
                    t.block[k, 3 * b + a] = p.block[k, 3 * b + a] / (scale[i, a] * scale[p.col[k], b])
    return unit


@inner
def fill_matrix(t: Problem, f: PairedLU, w: Interior, eta: Array) -> None:
    """Fill ``E W + Q_w^-1``."""
    blocks, place = f.lu.blocks, f.lu.place
    clear(f)
    for i in range(len(t.mu)):
        u1, u2 = w.velocity[i, 1], w.velocity[i, 2]
        s = math.sqrt(u1 * u1 + u2 * u2)
        d1, d2 = (u1 / s, u2 / s) if s > 0.0 else (0.0, 0.0)
        x, o = f.slot[i] // 2, 3 * (f.slot[i] % 2)
        for k in range(t.ptr[i], t.ptr[i + 1]):
            s_k = f.slot[t.col[k]]
            z, c = place[x, s_k // 2], 3 * (s_k % 2)
            for b in range(3):
                m1, m2 = t.block[k, 3 * b + 1], t.block[k, 3 * b + 2]
                blocks[z, o, c + b] = t.block[k, 3 * b] + d1 * m1 + d2 * m2
                blocks[z, o + 1, c + b] = m1
                blocks[z, o + 2, c + b] = m2
        z, g = place[x, x], w.centre[i]
        for a in range(3):
            for b in range(3):
                m = t.diagonal[i, a, b]
                if a == 0:
                    m += d1 * t.diagonal[i, 1, b] + d2 * t.diagonal[i, 2, b]
                sign = 1.0 if (a == 0) == (b == 0) else -1.0
                m += 2.0 * sign * g[a] * g[b] / eta[i]
                if a == b:
                    m += (1.0 if a > 0 else -1.0) / eta[i] + 1e-12
                blocks[z, o + a, o + b] = m


@inner
def step_dual(t: Problem, w: Interior, dx: Array, dy: Array) -> None:
    """Compute ``dy = E W dx + (residual of y)``."""
    velocities(t, dx, dy)
    for i in range(len(dx)):
        u1, u2 = w.velocity[i, 1], w.velocity[i, 2]
        s = math.sqrt(u1 * u1 + u2 * u2)
        for c in range(3):
            dy[i, c] -= t.q[i, c]
        if s > 0.0:
            dy[i, 0] += (u1 * dy[i, 1] + u2 * dy[i, 2]) / s
        for c in range(3):
            dy[i, c] += w.dual[i, c] - w.y[i, c]


@inner
def place(p: Problem, w: Interior, x: Array, u: Array, unit: float, start: float) -> None:
    """Put the iterates where the path begins."""
    if start >= 1.0:
        for i in range(len(x)):
            for c in range(3):
                w.x[i, c] = w.y[i, c] = start if c == 0 else 0.0
        return
    velocities(p, x, u)
    for i in range(len(x)):
        s0, s1, s2 = w.scale[i, 0], w.scale[i, 1], w.scale[i, 2]
        v0, v1, v2 = u[i, 0] / (s0 * unit), u[i, 1] / (s1 * unit), u[i, 2] / (s2 * unit)
        v0 += math.sqrt(v1 * v1 + v2 * v2)
        x0, x1, x2 = project(x[i, 0] * s0 / unit, x[i, 1] * s1 / unit, x[i, 2] * s2 / unit, 1.0)
        y0, y1, y2 = project(v0, v1, v2, 1.0)
        w.x[i, 0], w.x[i, 1], w.x[i, 2] = start + x0, x1, x2
        w.y[i, 0], w.y[i, 1], w.y[i, 2] = start + y0, y1, y2


@kernel
def interior_point(
    p: Problem,
    t: Problem,
    f: PairedLU,
    w: Interior,
    x: Array,
    u: Array,
    start: float,
    tol: float,
    most: int,
) -> tuple[int, float, int]:
    """Follow the path and leave the best x, in p's scaling.

    It begins at ``start`` times the axes of the cones, or if that is below 1 so far into the cones from x.

    Ends where the residual of p is within tol or stands still; returns steps, residual and worst contact.
    """
    n = len(p.mu)
    unit = rescale(p, t, w.scale)
    eta = np.empty(n)
    trial, old = np.empty((n, 3)), np.empty((n, 3))
    wide = 0.0
    place(p, w, x, u, unit, start)
    best, worst, seen, narrow, since = math.inf, 0, math.inf, math.inf, 0
    for iteration in range(1, most + 1):
        velocities(t, w.x, w.velocity)
        gap = 0.0
        for i in range(n):
            v = w.velocity[i]
            w.dual[i, 0] = v[0] + math.sqrt(v[1] * v[1] + v[2] * v[2])
            w.dual[i, 1], w.dual[i, 2] = v[1], v[2]
            gap += (w.x[i, 0] * w.y[i, 0] + w.x[i, 1] * w.y[i, 1] + w.x[i, 2] * w.y[i, 2]) / n
            for c in range(3):
                trial[i, c] = unit * w.x[i, c] / w.scale[i, c]
                u[i, c] = unit * w.scale[i, c] * v[c]
        e, at = residual(p, trial, u)
        if not e < math.inf:
            return iteration - 1, best, worst
        if e < best:
            best, worst = e, at
            for i in range(n):
                for c in range(3):
                    x[i, c] = trial[i, c]
        root = math.sqrt(gap)
        if e < NEAR and root < SHRINKS * wide:
            ahead = root / (wide - root)
            for i in range(n):
                for c in range(3):
                    trial[i, c] += ahead * unit * (w.x[i, c] - old[i, c]) / w.scale[i, c]
                trial[i, 0], trial[i, 1], trial[i, 2] = project(
                    trial[i, 0], trial[i, 1], trial[i, 2], p.mu[i]
                )
            velocities(p, trial, u)
            e, at = residual(p, trial, u)
            if e < best:
                best, worst = e, at
                for i in range(n):
                    for c in range(3):
                        x[i, c] = trial[i, c]
        wide = root
        for i in range(n):
            for c in range(3):
                old[i, c] = w.x[i, c]
        since += 1
        if best < 0.7 * seen or (best > EARLY and gap < 0.7 * narrow):
            seen, narrow, since = best, gap, 0
        if best <= tol or since > PATIENCE:
            return iteration - 1, best, worst
        scale_points(n, w, eta)
        for i in range(n):
            for c in range(3):
                w.ax[i, c] = -w.dual[i, c]
        fill_matrix(t, f, w, eta)
        if not factorise_pairs(f):
            return iteration - 1, best, worst
        solve_pairs(f, w.ax)
        step_dual(t, w, w.ax, w.ay)
        step = min(longest(w.x, w.ax), longest(w.y, w.ay))
        ahead = 0.0
        for i in range(n):
            for c in range(3):
                ahead += (w.x[i, c] + step * w.ax[i, c]) * (w.y[i, c] + step * w.ay[i, c]) / n
        sigma = min(max(ahead / gap, 0.0), 1.0) ** 3
        if step < 0.1:  # the affine step says nothing: recentre
            sigma = max(sigma, 0.3)
            for i in range(n):
                for c in range(3):
                    w.ax[i, c] = 0.0
        for i in range(n):
            for c in range(3):
                w.work[i, c] = -w.dual[i, c]
        correct(n, w, eta, sigma * gap, w.work)
        for i in range(n):
            for c in range(3):
                w.dx[i, c] = w.work[i, c]
        solve_pairs(f, w.dx)
        step_dual(t, w, w.dx, w.dy)
        step = 0.99 * min(longest(w.x, w.dx), longest(w.y, w.dy))
        for i in range(n):
            for c in range(3):
                w.x[i, c] += step * w.dx[i, c]
                w.y[i, c] += step * w.dy[i, c]
    return most, best, worst
