"""One Gaussian process: its lengths found, its runs taken in, its values foretold.

Why the restricted likelihood: with few runs, the likelihood that is maximised over the trend's coefficients
takes the residuals to be smaller than they are, and error bars come out too short; integrating the coefficients
out instead costs one small determinant (Harville 1974, 10.1093/biomet/61.2.383). The process variance is found in
closed form as long as the noise is estimated as a share of it; where the noise is given, the variance is one
more unknown.

How the optimum is found: the surface has flat ends (all runs independent; all lengths infinite) and many hills, each
a story of which inputs act: what a weak input does may be called noise, and once its length is long and the noise
large no climb leads back. Parts of the runs tell these stories apart badly: chosen on 128 runs, the hill was the
wrong one for most generators (eight kinks, 500 runs: 17 to 42 log units too low). So climbs begin with all inputs
acting alike, at four pairs of length and noise, on all runs up to 512; after a few steps the highest goes on alone.
Where the noise found is next to nothing, the story of exact runs with weak inputs instead of noise is climbed as
well. Up to 512 points nothing depends on the generator. Lengths and noise are bounded: exact data end at the least
noise, which also keeps the factorisation in range. And log lengths have a weak normal prior, between a fiftieth and a
hundred times the range of an input: with ten runs the likelihood alone will call an input inert, or all of them, on
the strength of one unit, and the error bar collapses (Gu, Wang & Berger 2018, 10.1214/17-AOS1648, study such
estimates). On Park's function with 10 expensive and 30 cheap runs at Sobol' points the prior raises the coverage of
95 % intervals from 0.5 to 0.75 and lowers the error by a sixth; with 500 runs it changes nothing.

Everything is expressed with the factor L of the correlation matrix K (noise included) and the orthogonal
basis Q of L^-1 F, F being the trend at the runs: L^-1 F = Q G, residuals e = (1 - QQ') L^-1 y, weights L^-T e.
The projected inverse P = K^-1 - B B', B = L^-T Q, then gives the gradient of the likelihood, the
leave-one-out residuals, and the share of the trend in the variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack
from scipy.optimize import minimize

from tamis.surrogates.base import varies
from tamis.surrogates.covariances import correlation, correlation_and_slope, pulls
from tamis.surrogates.replicates import Gathered, gather
from tamis.types import Array, Generator, Indices

_LEAST_NOISE = 1e-12  # of the process variance; n times the rounding of the factorisation for n = 1e3
_MOST_NOISE = 1e3
_LONGEST = 1e3  # inputs have a range of about one: beyond this the process is straight along them
_SHORTEST = 20  # the shortest length is 1 / n, or 1 / this for fewer runs
_PRIOR = (np.log(2.0), 2.0)  # mean and spread of log lengths
_PART = 512  # runs on which starts are compared
_STARTS = ((3.0, 1e-2), (3.0, 1e-4), (1.0, 1e-2), (10.0, 1e-4))  # lengths over root of d, and noise share
_STARTS_KNOWN = ((3.0, 30.0), (0.3, 1.0), (1.0, 1.0), (10.0, 1e3))  # the same and variance
_NEARLY_EXACT = 1e-4  # noise over the outputs' variance below which exact runs are tried
_WEAK = 50.0  # length of an input that acts weakly
_FIRST = 10  # steps of a climb before the highest is chosen
_TIGHT, _LOOSE = 2.2e-9, 1e-5  # change of the objective, over itself, at which a climb ends
_BLOCK = 2**17  # correlations in one block of predictions: they stay in the cache


@dataclass(frozen=True)
class Hyper:
    """What is estimated: one length per input, the variance of the process, the variance of each run's noise."""

    length: Array  # (d,)
    variance: float
    noise: Array  # (n,)


@dataclass(frozen=True)
class Process:
    """A Gaussian process given its runs; ``basis`` means the trend's functions at the points asked, (N, p)."""

    kernel: str
    hyper: Hyper
    points: Array  # (k, d), those that differ, divided by the lengths
    factor: Array  # (k, k), L
    weight: Array  # (k,), K^-1 (y - F coefficient)
    coefficient: Array  # (p,), of the trend
    lift: Array  # (k, p), B
    root: Array  # (p, p), G^-1
    residuals: Array  # (n,), of each run predicted without the runs of its point
    spread: Array  # (n,), variances of these residuals as the process has them

    @property
    def surprise(self) -> float:
        """Squared left-out errors over what the process expects of them."""
        expected = float(self.spread.mean())
        return float(np.mean(self.residuals**2)) / expected if expected > 0 else 1.0

    def predict(self, x: Array, basis: Array) -> tuple[Array, Array]:
        """Return mean and variance (without noise) at points x (N, d)."""
        mean, var = np.empty(len(x)), np.empty(len(x))
        step = max(16, _BLOCK // len(self.points))
        for first in range(0, len(x), step):
            block = slice(first, first + step)
            k = correlation(self.kernel, x[block] / self.hyper.length, self.points)
            mean[block] = basis[block] @ self.coefficient + k @ self.weight
            trend = basis[block] @ self.root - k @ self.lift
            half = blas.dtrsm(1.0, self.factor, k.T, lower=1, overwrite_b=1)
            var[block] = 1 - np.einsum("ij,ij->j", half, half) + np.einsum("ij,ij->i", trend, trend)
        return mean, self.hyper.variance * np.maximum(var, 0.0)

    def mean(self, x: Array, basis: Array) -> Array:
        """Return the mean alone, bit for bit that of `predict`."""
        mean = np.empty(len(x))
        step = max(16, _BLOCK // len(self.points))
        for first in range(0, len(x), step):
            block = slice(first, first + step)
            k = correlation(self.kernel, x[block] / self.hyper.length, self.points)
            mean[block] = basis[block] @ self.coefficient + k @ self.weight
        return mean

    def covariance(self, x: Array, basis: Array) -> Array:
        """Return the covariance (without noise) between points x (N, d), (N, N)."""
        scaled, half, trend = self._parts(x, basis)
        answer = correlation(self.kernel, scaled, scaled) - half.T @ half + trend @ trend.T
        return np.asarray(self.hyper.variance * answer)

    def rise(self, x: Array, basis: Array) -> tuple[Array, Array]:
        """Return mean and variance of the value at points x (N, d) less the value at the first of them.

        Neighbours err together: the variance of a difference is the sum of the variances less twice the covariance.
        """
        scaled, half, trend = self._parts(x, basis)
        half -= half[:, :1]
        trend -= trend[0]
        k = correlation(self.kernel, scaled, scaled[:1])[:, 0]
        var = 2 - 2 * k - np.einsum("ij,ij->j", half, half) + np.einsum("ij,ij->i", trend, trend)
        mean = self.mean(x, basis)
        return mean - mean[0], self.hyper.variance * np.maximum(var, 0.0)

    def _parts(self, x: Array, basis: Array) -> tuple[Array, Array, Array]:
        """Return scaled points (N, d), L^-1 k (n, N) and what the trend adds to the variance, (N, p)."""
        scaled = x / self.hyper.length
        k = correlation(self.kernel, scaled, self.points)
        trend = basis @ self.root - k @ self.lift
        return scaled, blas.dtrsm(1.0, self.factor, k.T, lower=1), trend

    def draw(self, n: int, rng: Generator, x: Array, basis: Array) -> Functions:
        """Draw n values of the process at points x and return the n functions.

        Each is the mean of the process given its runs and those values (Lebel et al. 2019,
        10.1016/j.jsv.2019.06.024, eq. 12). With S = C C' the covariance at x and z normal numbers, the values are
        mean + C z and the functions mean + cov(., x) C^-T z, which are linear in the trend and in
        the correlations with runs and x: one product for all n. Points that the others settle to rounding are left
        out by pivoting.
        """
        rank = 0
        if self.hyper.variance > 0 and len(x):
            scaled = self.covariance(x, basis) / self.hyper.variance
            root, pivots, rank, _ = lapack.dpstrf(scaled, lower=1, tol=_LEAST_NOISE)
        if rank == 0:
            mean = (np.repeat(a[:, None], n, axis=1) for a in (self.coefficient, self.weight))
            return Functions(self, x[:0], *mean)
        kept = pivots[:rank] - 1
        normal = rng.standard_normal((len(x), n))[:rank]
        push = np.sqrt(self.hyper.variance) * blas.dtrsm(1.0, root[:rank, :rank], normal, lower=1, trans_a=1)
        at = x[kept] / self.hyper.length
        k = correlation(self.kernel, at, self.points)
        trend = basis[kept] @ self.root - k @ self.lift
        tilt = trend.T @ push  # (p, n)
        through = blas.dtrsm(1.0, self.factor, np.asarray(k.T @ push), lower=1)
        inverse = blas.dtrsm(1.0, self.factor, through, lower=1, trans_a=1)
        return Functions(
            self,
            at,
            self.coefficient[:, None] + self.root @ tilt,
            np.vstack([self.weight[:, None] - inverse - self.lift @ tilt, push]),
        )


@dataclass(frozen=True)
class Functions:
    """Fixed functions drawn of a process, n of them."""

    process: Process
    at: Array  # points of the values drawn, divided by the lengths
    coefficient: Array  # (p, n)
    weight: Array  # (runs + points, n)

    @cached_property
    def centres(self) -> Array:
        """Runs and points, divided by the lengths."""
        return np.vstack([self.process.points, self.at])

    def __call__(self, x: Array, basis: Array) -> Array:
        """Return every function at points (N, d) with trend (N, p), (n, N)."""
        answer = np.empty((self.coefficient.shape[1], len(x)))
        step = max(16, _BLOCK // len(self.centres))
        for first in range(0, len(x), step):
            block = slice(first, first + step)
            answer[:, block] = (basis[block] @ self.coefficient + self._k(x[block]) @ self.weight).T
        return answer

    def each(self, x: Array, basis: Array) -> Array:
        """Return the i-th function at the i-th of n equal blocks of points, (N,).

        A sampler's chains each follow their own function: all functions at all points would be n times the work.
        """
        n = self.coefficient.shape[1]
        size = len(x) // n
        answer = np.empty((n, size))
        step = max(1, _BLOCK // (len(self.centres) * max(size, 1)))
        for first in range(0, n, step):
            mine = slice(first, first + step)
            rows = slice(first * size, (first + step) * size)
            k = self._k(x[rows]).reshape(-1, size, len(self.centres))
            f = basis[rows].reshape(-1, size, basis.shape[1])
            answer[mine] = np.einsum("isp,pi->is", f, self.coefficient[:, mine])
            answer[mine] += np.einsum("isk,ik->is", k, self._by_function[mine])
        return answer.ravel()

    @cached_property
    def _by_function(self) -> Array:
        return np.ascontiguousarray(self.weight.T)

    def _k(self, x: Array) -> Array:
        return correlation(self.process.kernel, x / self.process.hyper.length, self.centres)


def condition(kernel: str, x: Array, basis: Array, y: Array, hyper: Hyper) -> Process:
    """Take in the runs: points x (n, d), trend's functions there (n, p), values y (n,)."""
    offset = float(y.mean())
    runs = gather(x, y - offset, hyper.noise)
    assert runs.noise is not None
    points, basis = x[runs.first] / hyper.length, basis[runs.first]
    one = np.asarray(
        np.linalg.lstsq(basis, np.ones(len(points)), rcond=None)[0], dtype=np.float64
    )  # of the trend, for the value 1
    if hyper.variance <= 0:
        return _mean_alone(kernel, hyper, points, offset * one, runs, y - offset)
    matrix = correlation(kernel, points, points)
    share = _share(runs.noise, hyper.variance)
    matrix.flat[:: len(points) + 1] += share
    factor = _factor(matrix)
    q, g, e = _projected(factor, basis, runs.y)
    weight = blas.dtrsm(1.0, factor, e[:, None], lower=1, trans_a=1)[:, 0]
    lift = blas.dtrsm(1.0, factor, q, lower=1, trans_a=1)
    root = np.asarray(np.linalg.inv(g))
    coefficient = root @ (q.T @ blas.dtrsm(1.0, factor, runs.y[:, None], lower=1)[:, 0]) + offset * one
    inverse = blas.dtrsm(1.0, factor, np.eye(len(points)), lower=1)
    # Dubrule 1983, 10.1007/BF01033030: what point i misses by is (P y)_i / P_ii, of variance 1 / P_ii
    diagonal = np.maximum(np.einsum("ij,ij->j", inverse, inverse) - np.einsum("ij,ij->i", lift, lift), 1e-14)
    residuals = y - offset - (runs.y - weight / diagonal)[runs.point]
    spread = hyper.variance * np.maximum(1 / diagonal - share, 0.0)[runs.point] + hyper.noise
    return Process(kernel, hyper, points, factor, weight, coefficient, lift, root, residuals, spread)


def _mean_alone(
    kernel: str, hyper: Hyper, points: Array, coefficient: Array, runs: Gathered, y: Array
) -> Process:
    """Return the process that does not vary: the mean of the runs, whatever the trend, and noise about it."""
    k, p = len(points), len(coefficient)
    each = np.bincount(runs.point, y), np.bincount(runs.point)
    others = [total.sum() - total for total in each]
    residuals = y - (others[0] / np.maximum(others[1], 1))[runs.point]
    nothing = np.zeros((k, p))
    return Process(
        kernel,
        hyper,
        points,
        np.eye(k, order="F"),
        np.zeros(k),
        coefficient,
        nothing,
        np.zeros((p, p)),
        residuals,
        hyper.noise,
    )


def estimate(
    kernel: str, x: Array, basis: Array, y: Array, noise: Array | None, rng: Generator, *, judge: bool = False
) -> Hyper:
    """Find lengths, variance and (unless given, (n,)) noise by restricted maximum likelihood.

    To ``judge`` another fit by, two starts do, and the optimum to a thousandth of a log unit.
    """
    n, d = x.shape
    if not varies(y[:, None])[0]:
        return Hyper(np.ones(d), 0.0, np.zeros(n) if noise is None else noise)
    scale = float(y.std())
    y = (y - y.mean()) / scale
    runs = gather(x, y, None if noise is None else noise / scale**2)
    if len(runs.first) <= basis.shape[1]:
        return Hyper(np.ones(d), 0.0, np.full(n, scale**2) if noise is None else noise)
    likelihood = Likelihood(
        kernel, x[runs.first], basis[runs.first], runs.y, runs.noise, runs.counts, runs.within
    )
    best = search(likelihood, rng, judge)
    length = np.exp(best[:d])
    if noise is not None:
        return Hyper(length, scale**2 * float(np.exp(best[-1])), noise)
    variance = scale**2 * likelihood.variance(best)
    return Hyper(length, variance, np.full(n, variance * float(np.exp(best[-1]))))


def search(likelihood: Likelihood, rng: Generator, judge: bool = False) -> Array:
    """Return log lengths and log noise share (or variance) of the highest of some hills."""
    n, d = likelihood.x.shape
    known = likelihood.noise is not None
    low, high = limits(n, d, known)
    most = max(_PART, 3 * likelihood.basis.shape[1])
    some = likelihood if n <= most else likelihood.part(rng.permutation(n)[:most])
    level = np.log((_STARTS_KNOWN if known else _STARTS)[: 2 if judge else 4])
    begin = np.column_stack([np.repeat(level[:, :1] + np.log(d) / 2, d, axis=1), level[:, 1]])
    begun = [_climb(some, np.clip(start, low, high), low, high, _FIRST) for start in begin]
    best, _ = min(begun, key=lambda pair: pair[1])
    loose = _LOOSE if judge else _TIGHT
    found = _climb(likelihood, best, low, high, tolerance=loose)
    if not known and likelihood.variance(found[0]) * np.exp(found[0][-1]) < _NEARLY_EXACT:
        exact = np.append(np.minimum(found[0][:-1], np.log(_WEAK)), low[-1] + 1)
        other = _climb(likelihood, exact, low, high, tolerance=loose)
        found = min(found, other, key=lambda pair: pair[1])
    return found[0]


def limits(n: int, d: int, known: bool = False) -> tuple[Array, Array]:
    """Return bounds of log lengths and log noise share (or, the noise known, variance), (d + 1,) each."""
    last = (1e-6, 1e8) if known else (_LEAST_NOISE, _MOST_NOISE)
    ends = zip((1 / max(n, _SHORTEST), _LONGEST), last, strict=True)
    low, high = (np.log(np.append(np.full(d, edge), end)) for edge, end in ends)
    return low, high


@dataclass(frozen=True)
class Likelihood:
    """Minus twice the log of restricted likelihood and prior, of log lengths and, last, log noise share or variance.

    With the noise unknown the last unknown is its share g of the process variance, which is profiled out; with the
    noise given it is the process variance.
    """

    kernel: str
    x: Array
    basis: Array
    y: Array
    noise: Array | None
    counts: Array | None = None  # (k,), runs at each point where y are their means
    within: Array | None = None  # (k,), sums of squares about these

    @property
    def freedom(self) -> int:
        """Runs less coefficients of the trend."""
        return int(len(self.y) + self._more - self.basis.shape[1])

    def part(self, rows: Indices) -> Likelihood:
        """Return the same of some of the points."""
        these = (None if a is None else a[rows] for a in (self.noise, self.counts, self.within))
        return Likelihood(self.kernel, self.x[rows], self.basis[rows], self.y[rows], *these)

    @property
    def _within(self) -> float:
        return 0.0 if self.within is None else float(self.within.sum())

    @property
    def _runs(self) -> Array | float:
        """Runs at each point."""
        return 1.0 if self.counts is None else self.counts

    @property
    def _more(self) -> int:
        """Runs beyond one a point."""
        return 0 if self.noise is not None or self.counts is None else int(self.counts.sum()) - len(self.y)

    def value(self, theta: Array) -> float:
        """Return the objective alone."""
        return self._solve(theta, correlation(self.kernel, *2 * (self._scaled(theta),)))[0]

    def variance(self, theta: Array) -> float:
        """Return the variance of the process."""
        return self._solve(theta, correlation(self.kernel, *2 * (self._scaled(theta),)))[1]

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """Return the objective and its derivatives."""
        return self.value_and_slopes(theta)[:2]

    def value_and_slopes(self, theta: Array) -> tuple[float, Array, Array]:
        """Return the objective, its derivatives, and those by the values y (for unknown noise)."""
        scaled = self._scaled(theta)
        matrix, slope = correlation_and_slope(self.kernel, scaled)
        slope = slope.copy() if slope is matrix else slope
        value, variance, factor, q, e = self._solve(theta, matrix)
        lift = np.empty((len(e), q.shape[1] + 1), order="F")
        lift[:, :-1], lift[:, -1] = q, e / np.sqrt(variance)
        lift = blas.dtrsm(1.0, factor, lift, lower=1, trans_a=1, overwrite_b=1)
        inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        # d(-2 log L) = tr(P dK) - y'P dK P y / variance, Harville 1977, 10.1080/01621459.1977.10480998
        middle = blas.dsyrk(-1.0, lift, beta=1.0, c=inverse, lower=1, overwrite_c=1)
        diagonal = middle.diagonal().copy()
        by_value = 2 * lift[:, -1] / np.sqrt(variance)
        middle *= slope.T
        middle.T.flat[:: len(middle) + 1] = 0.0
        mean, spread = _PRIOR
        gradient = np.append(pulls(middle, scaled) + 2 * (theta[:-1] - mean) / spread**2, 0.0)
        if self.noise is None:
            share = np.exp(theta[-1])
            gradient[-1] = (
                share * (diagonal / self._runs).sum() + self._more - self._within / (share * variance)
            )
        else:
            gradient[-1] = self.freedom - e @ e / variance - diagonal @ self.noise / variance
        return value, gradient, by_value

    def _scaled(self, theta: Array) -> Array:
        return np.asarray(self.x / np.exp(theta[:-1]))

    def _solve(self, theta: Array, matrix: Array) -> tuple[float, float, Array, Array, Array]:
        last = float(np.exp(theta[-1]))
        share = last / self._runs if self.noise is None else _share(self.noise, last)
        matrix.flat[:: len(matrix) + 1] += share
        factor = _factor(matrix)
        q, g, e = _projected(factor, self.basis, self.y)
        square = float(e @ e) + (self._within / last if self.noise is None else 0.0)
        variance = max(square / self.freedom, 1e-20) if self.noise is None else last
        corner = np.maximum(np.abs(g.diagonal()), 1e-150)
        value = (
            2 * np.log(factor.diagonal()).sum() + 2 * np.log(corner).sum() + self.freedom * np.log(variance)
        )
        value += (((theta[:-1] - _PRIOR[0]) / _PRIOR[1]) ** 2).sum() + self._more * theta[-1]
        if self.noise is not None:
            value += square / variance
        return float(value), variance, factor, q, e


def _share(noise: Array, variance: float) -> Array:
    return np.asarray(np.maximum(noise / variance if variance > 0 else 0 * noise, _LEAST_NOISE))


def _factor(matrix: Array) -> Array:
    """Cholesky factor in column order, with as much more noise as it takes; overwrites the matrix."""
    spare = 0.0
    kept = matrix.diagonal().copy()
    while True:
        factor, failed = lapack.dpotrf(matrix.T, lower=1)
        if not failed:
            return np.asarray(factor)
        spare = max(10 * spare, _LEAST_NOISE)
        matrix.flat[:: len(matrix) + 1] = kept + spare


def _projected(factor: Array, basis: Array, y: Array) -> tuple[Array, Array, Array]:
    """Return Q, G and e; a constant trend, the usual one, is not worth a factorisation."""
    p = basis.shape[1]
    both = np.empty((len(y), p + 1), order="F")
    both[:, :p], both[:, p] = basis, y
    both = blas.dtrsm(1.0, factor, both, lower=1, overwrite_b=1)
    if p == 1:
        g = np.sqrt(both[:, :1].T @ both[:, :1])
        q = both[:, :1] / g
    else:
        q, g = np.linalg.qr(both[:, :p])
    e = both[:, p] - q @ (q.T @ both[:, p])
    return q, g, e


def _climb(
    likelihood: Likelihood,
    start: Array,
    low: Array,
    high: Array,
    most: int = 15_000,
    tolerance: float = _TIGHT,
) -> tuple[Array, float]:
    bounds: Any = np.column_stack([low, high])
    options: Any = {"maxiter": most, "ftol": tolerance}
    found = minimize(
        likelihood.value_and_gradient, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return np.asarray(found.x), float(found.fun)
