"""Polynomials orthonormal in the law of each input, the sets of them worth trying, and their fast evaluation.

Why by law: a polynomial chaos converges fastest, and its mean, variance and Sobol indices are sums of squares of
coefficients, when its terms are orthonormal in the law of the inputs (Xiu & Karniadakis 2002,
10.1137/S1064827501387826). The laws with classical polynomials are recognised: uniform (Legendre), normal (Hermite),
gamma and exponential (Laguerre), beta (Jacobi); lognormal inputs are normal in their logarithm, loguniform ones
uniform. Cut normals and triangles have polynomials of their own, without a name. Any other law is met through its own
distribution function: uniform again, and Legendre. (For a normal law cut at three standard deviations that would be
poor: its inverse distribution function is nearly vertical at both ends, and what a polynomial leaves out there no run
shows. With 64 runs of the borehole function the error was 3e4 times that in polynomials of its own, and reported at a
third of its size, or less than a tenth.) A family is three small numbers, so that a fitted surrogate can be written
to disk without its priors.

Why recurrences: all families obey one three-term recurrence, stable for rising degree, with coefficients known
in closed form (Gautschi 2004, Orthogonal polynomials, 10.1093/oso/9780198506720.001.0001, table 1.1), or, for
the laws without a name, found by Stieltjes' procedure on a Gauss rule that is exact to rounding (its section 2.2.3).

Why terms are rows: each is a product of contiguous rows, one for each of its few variables. Points come in blocks
small enough that the rows stay in cache.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv, gammaincinv, ndtr, ndtri

from tamis.marginals import Marginal
from tamis.surrogates.kernels import products, recur
from tamis.types import Array, Indices

LEGENDRE, HERMITE, LAGUERRE, JACOBI, CUT_NORMAL, TRIANGLE = range(6)
_EDGE = 2.0**-53  # keeps unbounded inputs finite at the edges of the cube
DEGREE = 20  # of a polynomial in one input, at most
_FAR = 16.0  # standard deviations beyond which polynomials of degree 20 find nothing of a normal law
_NODES = 400  # of the Gauss rule on each smooth piece of a density


class Family(NamedTuple):
    """The standard law of one input: its polynomials, and its shapes (those of SciPy: of a cut normal, where)."""

    kind: int = LEGENDRE
    a: float = 1.0
    b: float = 1.0

    @property
    def unbounded(self) -> bool:
        """Whether it has a tail."""
        cut = self.kind == CUT_NORMAL and bool(np.isfinite([self.a, self.b]).all())
        return self.kind in (HERMITE, LAGUERRE, CUT_NORMAL) and not cut


def family(marginal: Marginal | None) -> Family:
    """Return the family of a law; None is uniform."""
    law = getattr(getattr(marginal, "dist", None), "name", "")
    shapes: list[float] = _shapes(marginal)
    if law in ("norm", "lognorm"):
        return Family(HERMITE)
    if law == "expon":
        return Family(LAGUERRE, 1.0)
    if law == "gamma":
        return Family(LAGUERRE, shapes[0])
    if law == "beta" and shapes != [1.0, 1.0]:
        return Family(JACOBI, shapes[0], shapes[1])
    if law == "truncnorm":
        return Family(CUT_NORMAL, shapes[0], shapes[1])
    if law == "triang":
        return Family(TRIANGLE, shapes[0])
    return Family()


def _shapes(marginal: Any) -> list[float]:
    names = getattr(getattr(marginal, "dist", None), "shapes", None)
    if not names:
        return []
    named = dict(zip(names.split(", "), marginal.args, strict=False)) | marginal.kwds
    return [float(named[name]) for name in names.split(", ")]


def standard(u: Array, law: Family) -> Array:
    """Map numbers of the unit interval to the standard law: [-1, 1], normal, unit gamma, cut normal, or [0, 1]."""
    if law.kind == LEGENDRE:
        return 2 * u - 1
    inside = np.clip(u, _EDGE, 1 - _EDGE)
    if law.kind == HERMITE:
        x = ndtri(inside)
    elif law.kind == LAGUERRE:
        x = gammaincinv(law.a, inside)
    elif law.kind == CUT_NORMAL:
        side = -1.0 if law.a > 0 else 1.0  # of zero, where the distribution function keeps its digits
        low, high = sorted((ndtr(side * law.a), ndtr(side * law.b)))
        x = side * ndtri(low + (inside if side > 0 else 1 - inside) * (high - low))
        x = np.clip(x, law.a, law.b)
    elif law.kind == TRIANGLE:
        below = np.sqrt(law.a * inside)
        x = np.where(inside < law.a, below, 1 - np.sqrt((1 - law.a) * (1 - inside)))
    else:
        x = 2 * betaincinv(law.a, law.b, inside) - 1
    return np.asarray(x, dtype=np.float64)


def recurrence(law: Family, degree: int) -> tuple[Array, Array]:
    """Return alpha and beta of the monic polynomials: p_{k+1} = (x - alpha_k) p_k - beta_k p_{k-1}."""
    if law.kind in (CUT_NORMAL, TRIANGLE):
        alpha, beta = _stieltjes(law, max(degree, DEGREE))
        return alpha[: degree + 1], beta[: degree + 1]
    k = np.arange(degree + 1, dtype=np.float64)
    alpha, beta = np.zeros(degree + 1), np.ones(degree + 1)
    if law.kind == LEGENDRE:
        beta[1:] = k[1:] ** 2 / (4 * k[1:] ** 2 - 1)
    elif law.kind == HERMITE:
        beta[1:] = k[1:]
    elif law.kind == LAGUERRE:
        alpha = 2 * k + law.a
        beta[1:] = k[1:] * (k[1:] + law.a - 1)
    else:  # density proportional to (1 - x)^p (1 + x)^q
        p, q = law.b - 1, law.a - 1
        s = 2 * k + p + q
        alpha[0] = (q - p) / (p + q + 2)
        alpha[1:] = (q * q - p * p) / (s[1:] * (s[1:] + 2))
        if degree > 0:  # the general formula is 0/0 here when p + q = -1
            beta[1] = 4 * (1 + p) * (1 + q) / ((2 + p + q) ** 2 * (3 + p + q))
        n, t = k[2:], s[2:]
        beta[2:] = 4 * n * (n + p) * (n + q) * (n + p + q) / (t**2 * (t + 1) * (t - 1))
    return alpha, beta


@lru_cache(maxsize=64)
def _stieltjes(law: Family, degree: int) -> tuple[Array, Array]:
    """Return alpha and beta of a law with a density but no name, by quadrature."""
    if law.kind == CUT_NORMAL:
        near = min(max(law.a, 0.0), law.b)  # where the density is largest
        ends = np.clip((law.a, law.b), near - _FAR, near + _FAR)
    else:
        ends = np.unique([0.0, law.a, 1.0])
    node, weight = np.polynomial.legendre.leggauss(_NODES)
    half = np.diff(ends)[:, None] / 2
    x = (ends[:-1, None] + half * (1 + node)).ravel()
    if law.kind == CUT_NORMAL:
        density = np.exp((near**2 - x**2) / 2)
    else:
        density = np.minimum(x / max(law.a, _EDGE), (1 - x) / max(1 - law.a, _EDGE))
    mass = (half * weight).ravel() * density
    mass /= mass.sum()
    alpha, beta = np.zeros(degree + 1), np.ones(degree + 1)
    before, now = np.zeros_like(x), np.ones_like(x)  # orthonormal, so that nothing overflows
    for k in range(degree + 1):
        alpha[k] = mass @ (x * now**2)
        following = (x - alpha[k]) * now - np.sqrt(beta[k]) * before * (k > 0)
        if k < degree:
            beta[k + 1] = mass @ following**2
            before, now = now, following / np.sqrt(beta[k + 1])
    return alpha, beta


def univariate(x: Array, law: Family, degree: int) -> Array:
    """Evaluate the orthonormal polynomials of degree 0 to ``degree`` at standard points, (degree + 1, n)."""
    alpha, beta = recurrence(law, degree)
    values = np.empty((degree + 1, len(x)))
    recur(np.ascontiguousarray(x), alpha, np.sqrt(beta), values)
    return values


def hyperbolic(d: int, degree: int, q: float, most: int) -> Indices | None:
    """Return the exponents (P, d) with (sum_i alpha_i^q)^(1/q) <= degree; None if more than ``most``.

    Sets of Blatman & Sudret (2011, 10.1016/j.jcp.2010.12.021); the constant comes first.
    """
    cost = np.arange(degree + 1, dtype=np.float64) ** q
    found = _within(np.tile(cost, (d, 1)), degree**q + 1e-9, most)
    return None if found is None else found[0]


def anisotropic(cost: Array, most: int) -> Indices:
    """Return about ``most`` exponents, never more, of smallest sum_i cost[i, alpha_i], in rising order of it."""
    low, high = 0.0, float(cost[:, -1].sum())
    found = _within(cost, high, most)
    if found is None:
        for _ in range(40):
            middle = math.sqrt(max(low, 1e-3 * high) * high)
            tried = _within(cost, middle, most)
            low, high = (low, middle) if tried is None else (middle, high)
            found = tried or found
            if tried is not None and len(tried[0]) > 0.95 * most:
                break
    return np.zeros((1, len(cost)), dtype=np.int64) if found is None else found[0]


def _within(cost: Array, limit: float, most: int) -> tuple[Indices, Array] | None:
    """Return exponents whose costs add up to at most the limit, cheapest first, with their costs."""
    rows, spent = np.zeros((1, 0), dtype=np.int64), np.zeros(1)
    for each in cost:
        total = spent[:, None] + each
        row, power = np.nonzero(total <= limit)
        if len(row) > most:
            return None
        rows, spent = np.column_stack([rows[row], power]), total[row, power]
    order = np.argsort(spent, kind="stable")
    return rows[order], spent[order]


def evaluate(u: Array, families: tuple[Family, ...], indices: Indices) -> Array:
    """Evaluate terms at points (n, d) of the unit cube, (P, n)."""
    if len(indices) == 0:
        return np.empty((0, len(u)))
    table = np.zeros((len(families), int(indices.max()) + 1, len(u)))
    for i, law in enumerate(families):
        degree = int(indices[:, i].max())
        table[i, : degree + 1] = univariate(standard(u[:, i], law), law, degree)
    answer = np.empty((len(indices), len(u)))
    products(table, indices, answer)
    return answer
