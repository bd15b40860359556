"""Assembled contact problems ``u = W r + q``: storage, residuals and accelerated Gauss-Seidel.

Storage
-------
W comes as scalar CSR and is kept as 3x3 blocks by rows, the diagonal apart. Impulses and velocities are scaled
by the square root of the contact's own effective mass, ``x = sqrt(w) r`` with ``w = trace(W_ii)/3``: cones are
unchanged, diagonal blocks become of order one, and light and heavy bodies weigh the same. W need not be exactly
symmetric: an implicit gyroscopic term makes it slightly not so, and a solver that assumes symmetry then stalls
at that level.

Two residuals of the natural map ``r - P_K(r - rho u^)``, ``u^ = u + mu |u_T| e_N``: the dimensionless one per
contact (``rho = 1/w``, relative to the largest free velocity or impulse, as in the one of bodies), and the norm over
all contacts with ``rho = 1`` relative to ``max(|q|, |u|, |r|)`` which the published comparisons use (Acary,
Bremond & Huber 2018, 10.1007/978-3-319-75972-2_10). The larger of the two counts, and neither is taken to be below
the round-off of the impulses: where a problem has no solution they grow until the velocities are lost in them.

Gauss-Seidel, and why Anderson
------------------------------
A sweep solves each contact exactly, the others held (Jourdan, Alart & Jean 1998,
10.1016/S0045-7825(97)00137-0). It is cheap, needs no start and never makes nonsense, but in a stack the load
travels one contact a sweep. Anderson's mixing (``mixing.py``) mends that. In large piles whose contacts keep
opening and closing it may get nowhere: the caller then lets plain sweeps go on for a while.

Contacts are not taken in the order given, in which neighbours follow each other, but in strides of 0.618 of
their number, so that successive ones are far apart. That is the idea of colouring, which suits acceleration
better than a front that travels with the sweep: 61 sweeps instead of 108 in the tower.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner, kernel
from tamis.sim.contact.assembled.mixing import Mixing, begin, combine
from tamis.sim.contact.cone import natural, solve_local
from tamis.sim.contact.tuning import LOAD

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
CHECK = 16
ROUND_OFF = 4e-16


class Problem(NamedTuple):
    """A scaled problem: blocks off the diagonal by rows, diagonal and its inverse, q, friction, sqrt(w).

    ``speed`` is the largest free velocity of a contact, ``size`` the norm of q, ``stride`` the step of a sweep.
    """

    ptr: Ints
    col: Ints
    block: Array
    diagonal: Array
    inverse: Array
    q: Array
    mu: Array
    root: Array
    speed: float
    size: float
    stride: int


@kernel
def fill_blocks(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    data: Array,
    place: Ints,
    ptr: Ints,
    col: Ints,
    block: Array,
    diagonal: Array,
    root: Array,
) -> None:
    """Collect the blocks (each stored by columns) and scale them; ``place`` is filled with -1."""
    n = len(ptr) - 1
    for i in range(n):
        start = ptr[i]
        end = start
        for a in range(3):
            for k in range(indptr[3 * i + a], indptr[3 * i + a + 1]):
                j = indices[k] // 3
                b = indices[k] - 3 * j
                if j == i:
                    diagonal[i, a, b] += data[k]
                    continue
                if place[j] < start:
                    place[j] = end
                    col[end] = j
                    for c in range(9):
                        block[end, c] = 0.0
                    end += 1
                block[place[j], 3 * b + a] += data[k]
        ptr[i + 1] = end
        trace = diagonal[i, 0, 0] + diagonal[i, 1, 1] + diagonal[i, 2, 2]
        root[i] = math.sqrt(trace / 3.0) if trace > 0.0 else 1.0
    for i in range(n):
        for a in range(3):
            for b in range(3):
                diagonal[i, a, b] /= root[i] * root[i]
        for k in range(ptr[i], ptr[i + 1]):
            scale = 1.0 / (root[i] * root[col[k]])
            for a in range(9):
                block[k, a] *= scale


@inner
def invert(m: Array, out: Array) -> None:
    """Invert a 3x3 matrix."""
    c0 = m[1, 1] * m[2, 2] - m[1, 2] * m[2, 1]
    c1 = m[1, 2] * m[2, 0] - m[1, 0] * m[2, 2]
    c2 = m[1, 0] * m[2, 1] - m[1, 1] * m[2, 0]
    det = m[0, 0] * c0 + m[0, 1] * c1 + m[0, 2] * c2
    f = 1.0 / det
    out[0, 0], out[1, 0], out[2, 0] = f * c0, f * c1, f * c2
    out[0, 1] = f * (m[0, 2] * m[2, 1] - m[0, 1] * m[2, 2])
    out[1, 1] = f * (m[0, 0] * m[2, 2] - m[0, 2] * m[2, 0])
    out[2, 1] = f * (m[0, 1] * m[2, 0] - m[0, 0] * m[2, 1])
    out[0, 2] = f * (m[0, 1] * m[1, 2] - m[0, 2] * m[1, 1])
    out[1, 2] = f * (m[0, 2] * m[1, 0] - m[0, 0] * m[1, 2])
    out[2, 2] = f * (m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0])


@kernel
def invert_all(diagonal: Array, inverse: Array) -> None:
    """Invert the diagonal blocks; not-a-number, which sends a sweep to `solve_local`, where nearly singular."""
    for i in range(len(diagonal)):
        m = diagonal[i]
        invert(m, inverse[i])
        if not abs(inverse[i, 0, 0]) * m[0, 0] < 1e8:
            inverse[i, 0, 0] = math.nan


@inner
def row(p: Problem, x: Array, i: int) -> tuple[float, float, float]:
    """Return the velocity of contact i from q and all impulses but its own."""
    u0, u1, u2 = p.q[i, 0], p.q[i, 1], p.q[i, 2]
    for k in range(p.ptr[i], p.ptr[i + 1]):
        j = p.col[k]
        a, b, c = x[j, 0], x[j, 1], x[j, 2]
        u0 += p.block[k, 0] * a + p.block[k, 3] * b + p.block[k, 6] * c
        u1 += p.block[k, 1] * a + p.block[k, 4] * b + p.block[k, 7] * c
        u2 += p.block[k, 2] * a + p.block[k, 5] * b + p.block[k, 8] * c
    return u0, u1, u2


@kernel
def velocities(p: Problem, x: Array, u: Array) -> None:
    """Compute the (scaled) velocities ``u = W x + q``."""
    for i in range(len(p.mu)):
        u[i, 0], u[i, 1], u[i, 2] = row(p, x, i)
        for a in range(3):
            for b in range(3):
                u[i, a] += p.diagonal[i, a, b] * x[i, b]


@kernel
def residual(p: Problem, x: Array, u: Array) -> tuple[float, int]:
    """Return the larger of the two residuals and the worst contact, with ``u`` the velocities of x."""
    worst, largest, load, squares, rr, uu = 0, -1.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(p.mu)):
        s, mu = p.root[i], p.mu[i]
        e = s * natural(u[i, 0], u[i, 1], u[i, 2], x[i, 0], x[i, 1], x[i, 2], mu, 1.0)
        if math.isnan(e):
            return math.nan, i
        if e > largest:
            worst, largest = i, e
        u0, u1, u2 = s * u[i, 0], s * u[i, 1], s * u[i, 2]
        r0, r1, r2 = x[i, 0] / s, x[i, 1] / s, x[i, 2] / s
        load = max(load, s * s * (x[i, 0] * x[i, 0] + x[i, 1] * x[i, 1] + x[i, 2] * x[i, 2]))
        squares += natural(u0, u1, u2, r0, r1, r2, mu, 1.0) ** 2
        rr += r0 * r0 + r1 * r1 + r2 * r2
        uu += u0 * u0 + u1 * u1 + u2 * u2
    norm = max(p.size, math.sqrt(rr), math.sqrt(uu))
    scale = max(p.speed, min(math.sqrt(load), LOAD * p.speed))
    if largest < ROUND_OFF * math.sqrt(load):
        largest = ROUND_OFF * math.sqrt(load)
    return max(largest / scale, math.sqrt(squares) / norm if norm > 0.0 else 0.0), worst


@inner
def sweep(p: Problem, x: Array) -> float:
    """Solve every contact once, ``stride`` apart; return the largest change, dimensionless."""
    n = len(p.mu)
    largest, i = 0.0, 0
    for _ in range(n):
        u0, u1, u2 = row(p, x, i)
        r0, r1, r2 = 0.0, 0.0, 0.0
        if u0 < 0.0:
            r0 = -p.inverse[i, 0, 0] * u0 - p.inverse[i, 0, 1] * u1 - p.inverse[i, 0, 2] * u2
            r1 = -p.inverse[i, 1, 0] * u0 - p.inverse[i, 1, 1] * u1 - p.inverse[i, 1, 2] * u2
            r2 = -p.inverse[i, 2, 0] * u0 - p.inverse[i, 2, 1] * u1 - p.inverse[i, 2, 2] * u2
            if not (r0 >= 0.0 and r1 * r1 + r2 * r2 <= p.mu[i] * p.mu[i] * r0 * r0):
                r0, r1, r2 = solve_local(p.diagonal[i], u0, u1, u2, p.mu[i])
        change = (r0 - x[i, 0]) ** 2 + (r1 - x[i, 1]) ** 2 + (r2 - x[i, 2]) ** 2
        largest = max(largest, p.root[i] * p.root[i] * change)
        x[i, 0], x[i, 1], x[i, 2] = r0, r1, r2
        i += p.stride
        if i >= n:
            i -= n
    return math.sqrt(largest) / p.speed


@kernel
def relax(
    p: Problem, memory: Mixing, x: Array, u: Array, tol: float, most: int, mixing: bool
) -> tuple[int, float, int]:
    """Sweep at most ``most`` times, mixed or plain; return the number of sweeps, residual and worst contact.

    x leaves ready for the next sweep; where the residual is within tol it is the result of a plain one. The
    residual and the velocities u belong to the last plain result, ``memory.result``. The residual costs as much
    as a sweep, so it is taken now and then, and when the change of a sweep says that it may be small enough.
    """
    trust, e, worst = 1.0, math.inf, 0
    for sweeps in range(1, most + 1):
        begin(memory, x)
        change = sweep(p, x)
        if change <= trust * tol or sweeps % CHECK == 0 or sweeps == most:
            velocities(p, x, u)
            e, worst = residual(p, x, u)
            if e <= tol:
                return sweeps, e, worst
            trust = min(max(change / e, 0.3), 10.0)
        combine(memory, p.mu, x, mixing)
    return most, e, worst
