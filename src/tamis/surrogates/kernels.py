"""The inner loops of polynomial chaos, compiled: least-angle paths, and the values of polynomials.

What the paths compute and why so is said in `tamis.surrogates.lars`.

Why compiled: a step takes a few passes over short arrays, path by path, and the interpreter costs more than they do.
Why chunks: the products of a few paths with some hundred candidates stay in the cache until the path has used them,
and the matrix library is at its best on them.
Why paths leave one by one: a finished path costs nothing while others go on.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner, kernel

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

_DEPENDENT = 1e-6  # what is left of a unit column, below which it is a combination of those already in
_EXHAUSTED = 1e-14  # correlation with the residual, that with the output being 1
_MOSTLY = 0.1  # of the square of a column left by its projection, below which it is projected again
_LEAST = 1e-300  # instead of zero in a denominator
_CHUNK = 256  # candidates


@kernel
def follow(
    x: Array,
    scale: Array,
    lean: Array,
    w: Array,
    patience: int,
    residual: Array,
    total: Array,
    correlation: Array,
    blocked: Array,
    sizes: Indices,
    j: Indices,
    order: Indices,
    loo: Array,
    held: Array,
) -> int:
    """Follow M paths over P candidates (P, n) and write order, (M, K), loo and held, (M, K + 1); return the steps.

    Candidate ``j[i]`` enters path i first. ``residual`` (M, n), ``correlation`` and ``blocked`` (M, P) are used up.
    Candidates a path may take have ``blocked`` zero, others infinity.
    """
    m, n, p, most = len(residual), residual.shape[1], correlation.shape[1], order.shape[1]
    basis = np.empty((m, most + 1, n))
    inverse = np.empty((m, most + 1, most + 1))  # of R, transposed, in units of the terms themselves
    slope, leverage, inner = np.zeros((m, p)), np.empty((m, n)), np.empty((m, n))
    v, z, inside = np.zeros((m, most + 1)), np.empty(n), np.empty(n)
    size, spread, terms, level, sign = np.empty(m), np.empty(m), np.ones(m), np.empty(m), np.empty(m)
    go, best, floor, idle = np.zeros(m), np.empty(m), np.empty(m), np.zeros(m)
    alive = np.arange(m)
    many = m
    for i in range(m):
        size[i] = 0.0
        for t in range(n):
            size[i] += w[i, t]
        spread[i] = 1 / size[i]
        for t in range(n):
            basis[i, 0, t], leverage[i, t] = math.sqrt(spread[i]), spread[i]
        inverse[i, 0, 0] = math.sqrt(spread[i])
        best[i] = _errors(
            residual[i], leverage[i], w[i], size[i], 1.0, spread[i], total[i], loo[i], held[i], 0
        )
        level[i] = abs(correlation[i, j[i]])
        sign[i] = 1.0 if correlation[i, j[i]] > 0 else -1.0
        floor[i] = _EXHAUSTED * level[i]
    for k in range(1, most + 1):
        still = 0
        for a in range(many):
            i = alive[a]
            if level[i] <= floor[i] or blocked[i, j[i]] > 0:
                continue
            weight = lean[i, j[i] if lean.shape[1] > 1 else 0]
            for t in range(n):
                z[t] = x[j[i], t] * weight
            r, rho = _orthogonal(z, basis[i, :k], w[i], inside)
            over = 1 / rho if rho > _DEPENDENT * weight else 0.0
            blocked[i, j[i]] = np.inf
            spread[i] += _inverted(inverse[i], r, over, scale[j[i]] * weight)
            if over > 0:
                order[i, k - 1] = j[i]
                terms[i] += 1
            along = 0.0
            for t in range(n):
                basis[i, k, t] = z[t] * over
                inner[still, t] = basis[i, k, t] * w[i, t]
                leverage[i, t] += basis[i, k, t] ** 2
                along += inner[still, t] * residual[i, t]
            for t in range(n):
                residual[i, t] -= along * basis[i, k, t]
            found = _errors(
                residual[i], leverage[i], w[i], size[i], terms[i], spread[i], total[i], loo[i], held[i], k
            )
            idle[i] = 0 if found < best[i] else idle[i] + 1
            best[i] = min(best[i], found)
            if idle[i] <= patience:
                rest = sign[i]
                for t in range(k):
                    rest -= r[t] * v[i, t]
                v[i, k] = rest * over
                alive[still] = i
                still += 1
        many = still
        if many == 0 or k == most:
            break
        _stride(x, lean, inner[:many], alive, v[:, k], go, correlation, slope, blocked, sizes, level, sign, j)
    return k


@inner
def _orthogonal(z: Array, basis: Array, w: Array, inside: Array) -> tuple[Array, float]:
    """Take from z what the basis (k, n) holds of it on the rows of the path, again if that was most of it.

    Return the products with the basis, and the length that is left. Twice is enough: Giraud, Langou &
    Rozloznik (2005, 10.1016/j.camwa.2005.08.009).
    """
    r = np.zeros(len(basis))
    after = 0.0
    for t in range(len(z)):
        after += w[t] * z[t] ** 2
    for _ in range(2):
        before = after
        for t in range(len(z)):
            inside[t] = z[t] * w[t]
        found = np.dot(basis, inside)
        for i in range(len(basis)):
            r[i] += found[i]
            factor, row = found[i], basis[i]
            for t in range(len(z)):
                z[t] -= factor * row[t]
        after = 0.0
        for t in range(len(z)):
            after += w[t] * z[t] ** 2
        if after > _MOSTLY * before:
            break
    return r, math.sqrt(after)


@inner
def _inverted(inverse: Array, r: Array, over: float, corner: float) -> float:
    """Append a column to the inverse of R (its transpose is stored) and return the sum of its squares."""
    k = len(r)
    column = inverse[k]
    for t in range(k):
        column[t] = 0.0
    column[k] = corner * over
    for i in range(k):
        factor, row = r[i] * over, inverse[i]
        for t in range(i + 1):
            column[t] -= factor * row[t]
    squares = 0.0
    for t in range(k + 1):
        squares += column[t] ** 2
    return squares


@inner
def _errors(
    residual: Array,
    leverage: Array,
    w: Array,
    size: float,
    terms: float,
    spread: float,
    total: float,
    loo: Array,
    held: Array,
    k: int,
) -> float:
    """Write and return the corrected leave-one-out error, and write that on the rows held out.

    Correction of Chapelle, Vapnik & Bengio (2002, 10.1023/A:1013943418833), as Blatman & Sudret use it.
    """
    inside = outside = 0.0
    for i in range(len(residual)):
        inside += w[i] * (residual[i] / max(1 - leverage[i], 1e-10)) ** 2
        outside += (1 - w[i]) * residual[i] ** 2
    loo[k] = inside / total * size / max(size - terms, 1e-9) * (1 + spread)
    rest = len(residual) - size
    held[k] = outside / rest * size / total if rest > 0 else np.nan
    found: float = loo[k]
    return found


@inner
def _stride(
    x: Array,
    lean: Array,
    inner: Array,
    alive: Indices,
    v: Array,
    go: Array,
    correlation: Array,
    slope: Array,
    blocked: Array,
    sizes: Indices,
    level: Array,
    sign: Array,
    j: Indices,
) -> None:
    """Go along the equiangular direction of each path until the next candidate joins.

    Efron et al. (2004), eq. 2.13; what correlations lose on the way is booked at the next visit.
    """
    many, most = len(inner), 0
    chunk = _CHUNK if many > 16 else 1024 // many
    nearest, step = np.empty(many), np.empty(chunk)
    for a in range(many):
        nearest[a] = np.inf
        most = max(most, sizes[alive[a]])
    for first in range(0, most, chunk):
        last = min(first + chunk, most)
        gain = np.dot(inner, x[first:last].T)
        for a in range(many):
            i = alive[a]
            if lean.shape[1] > 1:
                for p in range(last - first):
                    gain[a, p] *= lean[i, first + p]
            _ratios(
                correlation[i, first:last],
                slope[i, first:last],
                blocked[i, first:last],
                gain[a],
                v[i],
                go[i],
                level[i],
                step,
            )
            for p in range(last - first):
                if step[p] < nearest[a]:
                    nearest[a], j[i] = step[p], first + p
    for a in range(many):
        i = alive[a]
        p = j[i]
        rise = max(level[i] - correlation[i, p], 0.0) / max(1 - slope[i, p], _LEAST)
        sign[i] = 1.0 if rise <= nearest[a] else -1.0
        go[i] = min(nearest[a], level[i])
        level[i] -= go[i]


@inner
def _ratios(
    correlation: Array,
    slope: Array,
    blocked: Array,
    gain: Array,
    v: float,
    go: float,
    level: float,
    step: Array,
) -> None:
    """Bring correlations and slopes of some candidates up to date and write how far off each of them joins."""
    for p in range(len(gain)):
        c = correlation[p] - go * slope[p]
        s = slope[p] + v * gain[p]
        correlation[p], slope[p] = c, s
        up, down, over, under = level - c, level + c, 1 - s, 1 + s
        up = up if up > 0 else 0.0
        down = down if down > 0 else 0.0
        up /= over if over > _LEAST else _LEAST
        down /= under if under > _LEAST else _LEAST
        step[p] = (up if up < down else down) + blocked[p]


@kernel
def recur(x: Array, alpha: Array, root: Array, values: Array) -> None:
    """Write orthonormal polynomials (degree + 1, n) from their recurrence, with the roots of its beta."""
    for p in range(len(x)):
        values[0, p] = 1.0
    for k in range(len(values) - 1):
        now, after, a, b, c = values[k], values[k + 1], alpha[k], root[k], 1 / root[k + 1]
        if k == 0:
            for p in range(len(x)):
                after[p] = (x[p] - a) * c
        else:
            before = values[k - 1]
            for p in range(len(x)):
                after[p] = ((x[p] - a) * now[p] - b * before[p]) * c


@kernel
def products(table: Array, indices: Indices, out: Array) -> None:
    """Write terms (P, n) with exponents (P, d) as products of rows of a table (d, degree + 1, n)."""
    for t in range(len(indices)):
        row = out[t]
        for p in range(len(row)):
            row[p] = 1.0
        for i in range(indices.shape[1]):
            if indices[t, i] > 0:
                factor = table[i, indices[t, i]]
                for p in range(len(row)):
                    row[p] *= factor[p]
