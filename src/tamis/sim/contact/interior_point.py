"""The interior-point method: a path through the interior of the cones, in the velocities of the bodies.

Where Newton's method (``newton.py``) wanders between sets of open, sticking and slipping contacts, a path through
the interior of the cones keeps all of them alive until the end. Where that path comes from, and why the derivative
of the sliding term is kept, is told in ``assembled``: there the unknowns are impulses and the matrix is
``E W + Q^-1``, a block row a contact. With ``W = G G^T`` the same step can be taken in the velocities (Sherman,
Morrison & Woodbury)::

    (I + G^T D G) dw = G^T L^-1 Q c,    D = L^-1 Q E L^-1,    dr = L^-1 Q (c - E L^-1 G dw)

``L`` maps Coulomb's cone to Lorentz's, ``Q`` is the scaling of Nesterov and Todd at the present iterate, ``E`` the
derivative of the sliding term and ``c`` the right-hand side. The matrix is that of Newton's method with another
``D``: one row of blocks a body, and regular however large ``Q`` gets at contacts that carry. That size also limits
the digits: dr is a difference of large numbers, and the path often stands still at 1e-5 of the scale, where it has
decided who carries. Newton's method goes on from there in a few steps.

On piles of 200 grains (430 to 640 contacts) 14 to 17 steps reach a residual of 1e-4, where 60 steps of Newton's
method do not end; but the path has no use for a warm start, and costs more where Newton's method works.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import apart, inner
from tamis.sim.contact.linear import BlockLU, factorise, reset, solve
from tamis.sim.contact.lorentz import (
    EARLY,
    LEAST_FRICTION,
    Interior,
    correct,
    longest,
    quadratic,
    scale_points,
)
from tamis.sim.contact.newton import add_contact, trial_arrays
from tamis.sim.contact.problem import Contacts, copy, impose, push, residual, velocity
from tamis.sim.contact.tuning import PATH_STEPS

Array = NDArray[np.float64]
STANDSTILL = 8  # steps without progress
CENTRE, SHORT = 0.1, 0.9  # least centring, share of the way to the boundary


class Path(NamedTuple):
    """Scratch of `interior_point`."""

    vectors: Interior
    eta: Array  # (contacts,)


@inner
def path_arrays(n: int) -> Path:
    """Allocate for so many contacts."""
    v = np.empty((13, n, 3))
    vectors = Interior(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12])
    return Path(vectors, np.empty(n))


@inner
def lorentz(contacts: Contacts, W: Array, w: Array, scale: Array) -> float:
    """Write the diagonal of L for each contact; return the unit of velocity, from the free velocities ``w``."""
    unit = 0.0
    for i in range(contacts.row_a.size):
        mu = contacts.mu[i]
        u0, u1, u2 = velocity(i, contacts, w)
        if mu < LEAST_FRICTION:
            c = math.sqrt(W[i, 0, 0])
            scale[i, 0], scale[i, 1], scale[i, 2] = c, c, c
            unit = max(unit, abs(u0) / c)
            continue
        c = math.sqrt((W[i, 0, 0] / (mu * mu) + W[i, 1, 1] + W[i, 2, 2]) / 3.0)
        scale[i, 0], scale[i, 1], scale[i, 2] = mu * c, c, c
        unit = max(unit, abs(u0) / (mu * c), abs(u1) / c, abs(u2) / c)
    return unit if unit > 0.0 else 1.0


@inner
def fill_matrix(contacts: Contacts, m: int, count: int, scratch: Path, lu: BlockLU) -> None:
    """Fill the blocks of ``I + G^T D G``."""
    v = scratch.vectors
    reset(m, count, lu)
    for i in range(contacts.row_a.size):
        eta, g0, g1, g2 = scratch.eta[i], v.centre[i, 0], v.centre[i, 1], v.centre[i, 2]
        u1, u2 = v.velocity[i, 1], v.velocity[i, 2]
        s = math.sqrt(u1 * u1 + u2 * u2)
        d1, d2 = (u1 / s, u2 / s) if s > 0.0 else (0.0, 0.0)
        a, b = v.scale[i, 0], v.scale[i, 1]
        if contacts.mu[i] < LEAST_FRICTION:
            add_contact(contacts, i, lu, (eta / (a * a), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
            continue
        q00, q01, q02 = eta * (2.0 * g0 * g0 - 1.0) / a, eta * 2.0 * g0 * g1 / a, eta * 2.0 * g0 * g2 / a
        q10, q11, q12 = eta * 2.0 * g1 * g0 / b, eta * (2.0 * g1 * g1 + 1.0) / b, eta * 2.0 * g1 * g2 / b
        q20, q21, q22 = eta * 2.0 * g2 * g0 / b, eta * 2.0 * g2 * g1 / b, eta * (2.0 * g2 * g2 + 1.0) / b
        D = (
            *(q00 / a, (q01 + q00 * d1) / b, (q02 + q00 * d2) / b),
            *(q10 / a, (q11 + q10 * d1) / b, (q12 + q10 * d2) / b),
            *(q20 / a, (q21 + q20 * d1) / b, (q22 + q20 * d2) / b),
        )
        add_contact(contacts, i, lu, D)


@inner
def step_of(
    contacts: Contacts,
    m: int,
    unit: float,
    c: Array,
    dx: Array,
    dy: Array,
    scratch: Path,
    lu: BlockLU,
    dw: Array,
) -> None:
    """Solve for the steps dx and dy that belong to the right-hand side ``c``."""
    v = scratch.vectors
    for k in range(m):
        for j in range(6):
            dw[k, j] = 0.0
    for i in range(contacts.row_a.size):
        g0, g1, g2 = v.centre[i, 0], v.centre[i, 1], v.centre[i, 2]
        p0, p1, p2 = quadratic(g0, g1, g2, unit * scratch.eta[i], c[i, 0], c[i, 1], c[i, 2])
        push(i, contacts, dw, p0 / v.scale[i, 0], p1 / v.scale[i, 1], p2 / v.scale[i, 2])
    solve(m, lu, dw)
    for i in range(contacts.row_a.size):
        u0, u1, u2 = velocity(i, contacts, dw)
        d0 = (u0 - contacts.bias[i, 0]) / (v.scale[i, 0] * unit)
        d1 = (u1 - contacts.bias[i, 1]) / (v.scale[i, 1] * unit)
        d2 = (u2 - contacts.bias[i, 2]) / (v.scale[i, 2] * unit)
        t1, t2 = v.velocity[i, 1], v.velocity[i, 2]
        if contacts.mu[i] < LEAST_FRICTION:
            d1 = d2 = 0.0
        s = math.sqrt(t1 * t1 + t2 * t2)
        if s > 0.0:
            d0 += (t1 * d1 + t2 * d2) / s
        g0, g1, g2 = v.centre[i, 0], v.centre[i, 1], v.centre[i, 2]
        dx[i, 0], dx[i, 1], dx[i, 2] = quadratic(
            g0, g1, g2, scratch.eta[i], c[i, 0] - d0, c[i, 1] - d1, c[i, 2] - d2
        )
        dy[i, 0] = d0 + v.dual[i, 0] - v.y[i, 0]
        dy[i, 1] = d1 + v.dual[i, 1] - v.y[i, 1]
        dy[i, 2] = d2 + v.dual[i, 2] - v.y[i, 2]


@apart
def interior_point(
    contacts: Contacts,
    w: Array,
    r: Array,
    W: Array,
    weight: Array,
    free: Array,
    goal: float,
    scale: float,
    count: int,
    lu: BlockLU,
) -> tuple[int, float]:
    """Follow the path from its beginning; leave the best impulses in r and their velocities in w.

    Ends where the residual, a velocity, is within ``goal`` or stands still; returns steps and residual.
    """
    m, n = w.shape[0], contacts.row_a.size
    trial, scratch = trial_arrays(free, n), path_arrays(n)
    v = scratch.vectors
    x, y, c = v.x[:n], v.y[:n], v.work[:n]
    copy(trial.free, w)
    unit = lorentz(contacts, W, w, v.scale)
    for i in range(n):
        for j in range(3):
            x[i, j] = y[i, j] = 1.0 if j == 0 else 0.0
    best, seen, narrow, since, steps = math.inf, math.inf, math.inf, 0, 0
    while True:
        gap = 0.0
        for i in range(n):
            for j in range(3):
                trial.r[i, j] = unit * x[i, j] / v.scale[i, j]
                gap += x[i, j] * y[i, j] / n
        impose(contacts, trial.r[:n], trial.free, trial.w)
        for i in range(n):
            u0, u1, u2 = velocity(i, contacts, trial.w)
            s0, s1, s2 = u0 / (v.scale[i, 0] * unit), u1 / (v.scale[i, 1] * unit), u2 / (v.scale[i, 2] * unit)
            if contacts.mu[i] < LEAST_FRICTION:
                s1 = s2 = 0.0
            v.velocity[i, 0], v.velocity[i, 1], v.velocity[i, 2] = s0, s1, s2
            v.dual[i, 0], v.dual[i, 1], v.dual[i, 2] = s0 + math.sqrt(s1 * s1 + s2 * s2), s1, s2
        error, _ = residual(contacts, trial.w, trial.r[:n], weight, trial.errors)
        if error < best:
            best = error
            copy(trial.r, r)
        since += 1
        if best < 0.7 * seen or (best > EARLY * scale and gap < 0.7 * narrow):
            seen, narrow, since = best, gap, 0
        if not error < math.inf or best <= goal or since > STANDSTILL or steps == PATH_STEPS:
            break
        scale_points(n, v, scratch.eta)
        for i in range(n):
            for j in range(3):
                c[i, j] = -v.dual[i, j]
        fill_matrix(contacts, m, count, scratch, lu)
        if not factorise(m, lu):
            break
        steps += 1
        step_of(contacts, m, unit, c, v.ax, v.ay, scratch, lu, trial.step)
        length = min(longest(x, v.ax[:n]), longest(y, v.ay[:n]))
        ahead = 0.0
        for i in range(n):
            for j in range(3):
                ahead += (x[i, j] + length * v.ax[i, j]) * (y[i, j] + length * v.ay[i, j]) / n
        sigma = max(min(max(ahead / gap, 0.0), 1.0) ** 3, CENTRE)
        if length < 0.1:  # the affine step says nothing: recentre
            sigma = max(sigma, 0.3)
            for i in range(n):
                for j in range(3):
                    v.ax[i, j] = 0.0
        correct(n, v, scratch.eta, sigma * gap, c)
        step_of(contacts, m, unit, c, v.dx, v.dy, scratch, lu, trial.step)
        length = SHORT * min(longest(x, v.dx[:n]), longest(y, v.dy[:n]))
        for i in range(n):
            for j in range(3):
                x[i, j] += length * v.dx[i, j]
                y[i, j] += length * v.dy[i, j]
    impose(contacts, r, trial.free, w)
    return steps, best
