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
carries, and sweeps from there finish quickly: that is how the solver uses it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import kernel
from tamis.sim.nscd.assembled import Problem, residual, velocities
from tamis.sim.nscd.assembled_factor import Factor, Pattern, factorise, solve

Array = NDArray[np.float64]
LEAST_FRICTION = 1e-6  # a frictionless cone is a line without an interior
PATIENCE = 4  # steps without progress
EARLY = 1e-3  # above this residual a narrower gap is progress


class Interior(NamedTuple):
    """Vectors of the method, (n, 3) each: iterate, steps, affine steps, scaling, and so on."""

    scale: Array
    x: Array
    y: Array
    dx: Array
    dy: Array
    ax: Array
    ay: Array
    velocity: Array
    dual: Array
    centre: Array
    half: Array
    scaled: Array
    work: Array


@kernel
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


@kernel
def root_det(v: Array) -> float:
    """Return the square root of Lorentz's form ``v_0^2 - |v_1|^2`` of an interior vector."""
    t = math.sqrt(v[1] * v[1] + v[2] * v[2])
    return math.sqrt(max((v[0] - t) * (v[0] + t), 1e-26 * v[0] * v[0]))


@kernel
def longest(v: Array, d: Array) -> float:
    """Return the largest step, up to 1, for which all ``v + step d`` stay in the cone."""
    most = 1.0
    for i in range(len(v)):
        a = d[i, 0] * d[i, 0] - d[i, 1] * d[i, 1] - d[i, 2] * d[i, 2]
        b = v[i, 0] * d[i, 0] - v[i, 1] * d[i, 1] - v[i, 2] * d[i, 2]
        c = root_det(v[i]) ** 2
        rest = b * b - a * c
        if rest >= 0.0 and (b < 0.0 or a < 0.0):
            s = math.sqrt(rest)
            step = c / (s - b) if b < 0.0 else -(b + s) / a
            if step > 0.0:
                most = min(most, step)
    return most


@kernel
def scale_point(w: Interior, i: int) -> float:
    """Fill the unit scaling point, its square root and the scaled iterate of contact i; return its size."""
    sx, sy = root_det(w.x[i]), root_det(w.y[i])
    total = 0.0
    for c in range(3):
        total += (w.x[i, c] / sx) * (w.y[i, c] / sy)
    f = 1.0 / math.sqrt(2.0 * (1.0 + total))
    w.centre[i, 0] = f * (w.x[i, 0] / sx + w.y[i, 0] / sy)
    w.centre[i, 1] = f * (w.x[i, 1] / sx - w.y[i, 1] / sy)
    w.centre[i, 2] = f * (w.x[i, 2] / sx - w.y[i, 2] / sy)
    a = math.sqrt(0.5 * (w.centre[i, 0] + 1.0))
    w.half[i, 0], w.half[i, 1], w.half[i, 2] = a, 0.5 * w.centre[i, 1] / a, 0.5 * w.centre[i, 2] / a
    eta = sx / sy
    quadratic(w.half[i], math.sqrt(eta), w.y[i], w.scaled[i])
    return eta


@kernel
def quadratic(h: Array, size: float, v: Array, out: Array) -> None:
    """Apply ``size (2 h h' - J)``, the quadratic representation of a unit vector, to v."""
    f = 2.0 * (h[0] * v[0] + h[1] * v[1] + h[2] * v[2])
    out[0], out[1], out[2] = size * (f * h[0] - v[0]), size * (f * h[1] + v[1]), size * (f * h[2] + v[2])


@kernel
def inverse_quadratic(h: Array, size: float, v: Array, out: Array) -> None:
    """Apply the inverse of `quadratic`."""
    f = 2.0 * (h[0] * v[0] - h[1] * v[1] - h[2] * v[2]) / size
    out[0], out[1], out[2] = f * h[0] - v[0] / size, -f * h[1] + v[1] / size, -f * h[2] + v[2] / size


@kernel
def fill_matrix(t: Problem, pattern: Pattern, f: Factor, w: Interior, eta: Array) -> None:
    """Write ``E W + Q_w^-1`` into the places of the factor."""
    first = 2 * len(pattern.later)
    for k in range(len(f.block)):
        for c in range(9):
            f.block[k, c] = 0.0
    for step in range(len(pattern.order)):
        i = pattern.order[step]
        u1, u2 = w.velocity[i, 1], w.velocity[i, 2]
        s = math.sqrt(u1 * u1 + u2 * u2)
        d1, d2 = (u1 / s, u2 / s) if s > 0.0 else (0.0, 0.0)
        for k in range(t.ptr[i], t.ptr[i + 1]):
            out = pattern.source[k]
            for b in range(3):
                m1, m2 = t.block[k, 3 * b + 1], t.block[k, 3 * b + 2]
                f.block[out, b] = t.block[k, 3 * b] + d1 * m1 + d2 * m2
                f.block[out, 3 + b] = m1
                f.block[out, 6 + b] = m2
        g = w.centre[i]
        for a in range(3):
            for b in range(3):
                m = t.diagonal[i, a, b]
                if a == 0:
                    m += d1 * t.diagonal[i, 1, b] + d2 * t.diagonal[i, 2, b]
                sign = 1.0 if (a == 0) == (b == 0) else -1.0
                m += 2.0 * sign * g[a] * g[b] / eta[i]
                if a == b:
                    m += (1.0 if a > 0 else -1.0) / eta[i] + 1e-12
                f.block[first + step, 3 * a + b] = m


@kernel
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


@kernel
def correct(w: Interior, i: int, eta: float, target: float, out: Array) -> None:
    """Add the centring and second-order terms of contact i to its right-hand side."""
    h, size, s = w.half[i], math.sqrt(eta), w.scaled[i]
    a, b = w.dx[i], w.dy[i]  # free until the step itself is computed
    inverse_quadratic(h, size, w.ax[i], a)
    quadratic(h, size, w.ay[i], b)
    c0 = target - (a[0] * b[0] + a[1] * b[1] + a[2] * b[2])
    c1 = -(a[0] * b[1] + b[0] * a[1])
    c2 = -(a[0] * b[2] + b[0] * a[2])
    v0 = (s[0] * c0 - s[1] * c1 - s[2] * c2) / root_det(s) ** 2
    a[0], a[1], a[2] = v0, (c1 - v0 * s[1]) / s[0], (c2 - v0 * s[2]) / s[0]
    inverse_quadratic(h, size, a, b)
    for c in range(3):
        out[c] += b[c]


@kernel
def follow_path(
    p: Problem,
    t: Problem,
    pattern: Pattern,
    f: Factor,
    w: Interior,
    x: Array,
    u: Array,
    start: float,
    tol: float,
    most: int,
) -> tuple[int, float, int]:
    """Follow the path from ``start`` times the axes of the cones; leave the best x, in p's scaling.

    Ends where the residual of p is within tol or stands still; returns steps, residual and worst contact.
    """
    n = len(p.mu)
    unit = rescale(p, t, w.scale)
    eta = np.empty(n)
    trial = np.empty((n, 3))
    for i in range(n):
        w.x[i, 0], w.x[i, 1], w.x[i, 2] = start, 0.0, 0.0
        w.y[i, 0], w.y[i, 1], w.y[i, 2] = start, 0.0, 0.0
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
        since += 1
        if best < 0.7 * seen or (best > EARLY and gap < 0.7 * narrow):
            seen, narrow, since = best, gap, 0
        if best <= tol or since > PATIENCE:
            return iteration - 1, best, worst
        for i in range(n):
            eta[i] = scale_point(w, i)
            for c in range(3):
                w.ax[i, c] = -w.dual[i, c]
        fill_matrix(t, pattern, f, w, eta)
        factorise(pattern, f)
        solve(pattern, f, w.ax, w.work)
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
            correct(w, i, eta[i], sigma * gap, w.work[i])
        for i in range(n):
            for c in range(3):
                w.dx[i, c] = w.work[i, c]
        solve(pattern, f, w.dx, w.work)
        step_dual(t, w, w.dx, w.dy)
        step = 0.99 * min(longest(w.x, w.dx), longest(w.y, w.dy))
        for i in range(n):
            for c in range(3):
                w.x[i, c] += step * w.dx[i, c]
                w.y[i, c] += step * w.dy[i, c]
    return most, best, worst
