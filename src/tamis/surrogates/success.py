"""The probability that a run succeeds: a small classifier of the runs that did and those that failed.

Why: a surrogate is fitted to the runs that succeeded and answers where others failed all the same, so that a posterior
may lie where the simulator has no answer. The likelihood of a failed run is zero; where no run was made it is the
surrogate's times the probability of success, which this gives.

What: a Gaussian process f of the parameters, with success of probability Phi(f) (Rasmussen & Williams 2006, Gaussian
Processes for Machine Learning, chapter 3). It needs no shape of the failed region, knows less the farther the runs are,
and where runs of both kinds mix at random it says with which frequency. The process given the runs is approximated by
Laplace's method, its lengths and size by the top of the evidence so approximated (their algorithm 5.1) times a weak
prior, without which a region that one threshold separates would have an infinitely steep one.

The mean of the process is unknown, with the variance `_LEVEL`: far from all runs success is as likely as not.

Laplace's method is too modest where the failed region has a sharp edge: regions of three shapes, from 30 to 120 runs,
had 0.9 where all runs succeed (20 designs each). So the probability is calibrated by the runs themselves (Platt 1999):
each point, left out with all its runs, has a latent number z, and success is a probit of these with a level and a slope
(`tamis.probit`), which is applied to all points.

Replicates tell of their point no more than how many were good and how many failed, and the cost grows with the cube of
the rows: runs of one point are one row with two counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize
from scipy.special import log_ndtr, ndtr

from tamis.blas import one_thread
from tamis.errors import StudyError
from tamis.marginals import Marginal
from tamis.probit import Rows, top
from tamis.surrogates.base import distinct
from tamis.surrogates.kriging import checked, checked_runs, coordinates, families_of
from tamis.surrogates.polynomials import Family
from tamis.types import Array, Mask

_LEVEL = 1.0  # variance of the mean of the process
_NEWTON = 50  # steps to the mode of the process
_USUAL = (
    0.0,
    math.log(3.0),
)  # logarithms of a length (the cube's side being 1) and of the size, that are usual
_SPREAD = 1.0  # standard deviation of these logarithms
_JITTER = 1e-8


@dataclass(frozen=True)
class Success:
    """Probability of success over the unit cube, from runs at n different points."""

    families: tuple[Family, ...]  # of the inputs' coordinates
    u: Array  # (n, d)
    good: Array  # (n,), number of runs at each point that succeeded
    failed: Array  # (n,), and of those that did not
    length: Array  # (d,)
    size: float  # standard deviation of the process
    scale: Array  # (2,), level and slope by which runs left out calibrate it

    @cached_property
    def _mode(self) -> _Mode:
        x = coordinates(self.u, self.families)
        return _climb(_among(x, self.length, self.size), self.good, self.failed)

    @one_thread
    def predict(self, u: Array) -> Array:
        """Return the probability of success, (N,), at points (N, d)."""
        x, at = (coordinates(points, self.families) for points in (self.u, checked(u, self.families)))
        across, mode = _covariance(at, x, self.length, self.size), self._mode
        mean = across @ mode.slope
        inside = solve_triangular(mode.root, mode.weight[:, None] * across.T, lower=True, check_finite=False)
        variance = np.maximum(self.size**2 + _LEVEL - np.sum(inside**2, axis=0), 0.0)
        return np.asarray(ndtr(self.scale[0] + self.scale[1] * mean / np.sqrt(1 + variance)))

    def arrays(self) -> dict[str, Any]:
        """Return all there is as arrays, for a file."""
        return {name: np.asarray(getattr(self, name)) for name in self.__dataclass_fields__}

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> Success:
        """Make it again from what `arrays` returned."""
        u, good, failed, length, scale = (arrays[key] for key in ("u", "good", "failed", "length", "scale"))
        return cls(families_of(arrays), u, good, failed, length, float(arrays["size"]), scale)


@one_thread
def fit_success(u: Array, good: Array | Mask, *, marginals: Sequence[Marginal] | None = None) -> Success:
    """Fit to runs at points u (n, d) of the unit cube that were ``good`` (n,) or failed; there must be both.

    Runs at the same point are gathered.
    """
    u, fine = np.asarray(u, dtype=float), np.array(good, dtype=np.float64)
    if u.ndim != 2 or fine.shape != u.shape[:1]:
        raise StudyError(
            f"expected points (n, d) and whether each run was good; found {u.shape}, {fine.shape}"
        )
    if not 0 < fine.sum() < len(fine):
        raise StudyError(
            f"a classifier needs runs of both kinds; found {fine.sum():.0f} good ones of {len(fine)}"
        )
    u, _, families = checked_runs(u, fine, marginals)
    first, point = distinct(u)
    u, well, badly = u[first], *(np.bincount(point, weights=kind).astype(float) for kind in (fine, 1 - fine))
    x, d = coordinates(u, families), u.shape[1]
    usual = np.append(np.full(d, _USUAL[0] + 0.5 * math.log(d)), _USUAL[1])

    def below(log: Array) -> tuple[float, Array]:
        evidence, slope = _evidence(x, well, badly, np.exp(log[:d]), math.exp(log[d]))
        away = (log - usual) / _SPREAD
        return 0.5 * float(away @ away) - evidence, away / _SPREAD - slope

    starts = [usual, usual - np.append(np.full(d, 1.0), 0.0)]
    bounds: Any = [(v - 4 * _SPREAD, v + 4 * _SPREAD) for v in usual]
    found = [minimize(below, start, jac=True, method="L-BFGS-B", bounds=bounds) for start in starts]
    best = min(found, key=lambda result: float(result.fun)).x
    length, size = np.exp(best[:d]), float(np.exp(best[d]))
    return Success(families, u, well, badly, length, size, _calibrated(x, well, badly, length, size))


def _calibrated(x: Array, good: Array, failed: Array, length: Array, size: float) -> Array:
    """Return level and slope of success over what each point, left out, is predicted to be."""
    covariance = _among(x, length, size)
    mode = _climb(covariance, good, failed)
    left = solve_triangular(mode.root, mode.weight[:, None] * covariance, lower=True, check_finite=False)
    variance = np.diagonal(covariance) - np.sum(left**2, axis=0)
    # the point's own factor, exp(-W (f - f0 - g / W)^2 / 2), divided out again (their eq. 3.56)
    without = 1 / np.maximum(1 / variance - mode.weight**2, 1e-12)
    mean = without * (mode.at / variance - mode.weight**2 * mode.at - mode.slope)
    z = mean / np.sqrt(1 + without)
    trials = good + failed
    level, slope = top(Rows(np.column_stack([np.ones(len(z)), z]), good / trials, trials))
    return np.array([level, slope]) if slope > 0 else np.array([0.0, 1.0])


@dataclass(frozen=True)
class _Mode:
    """The process at the runs, given them, by Laplace's method."""

    at: Array  # (n,)
    slope: Array  # (n,), of the log-likelihood there; K^-1 of the mode
    weight: Array  # (n,), roots of its curvature
    root: Array  # (n, n), Cholesky's factor of 1 + W^1/2 K W^1/2
    height: float  # log evidence


def _covariance(a: Array, b: Array, length: Array, size: float) -> Array:
    """Return the covariance of the process, squared exponential over a constant."""
    apart = np.sum(((a[:, None] - b) / length) ** 2, axis=2)
    return np.asarray(_LEVEL + size**2 * np.exp(-0.5 * apart))


def _among(x: Array, length: Array, size: float) -> Array:
    return _covariance(x, x, length, size) + _JITTER * np.eye(len(x))


def _log_likelihood(f: Array, good: Array, failed: Array) -> float:
    return float(good @ log_ndtr(f) + failed @ log_ndtr(-f))


def _derivatives(f: Array, good: Array, failed: Array) -> Array:
    """Return the first three derivatives, (3, n), of the log-likelihood of so many good and failed runs."""
    total = np.zeros((3, len(f)))
    for sign, count in ((1.0, good), (-1.0, failed)):
        ratio = np.exp(-0.5 * f**2 - 0.5 * math.log(2 * math.pi) - log_ndtr(sign * f))
        third = (2 * ratio + sign * f) * (f * ratio + sign * ratio**2) - sign * ratio
        total += count * np.stack([sign * ratio, -(ratio**2) - sign * f * ratio, third])
    return total


def _climb(covariance: Array, good: Array, failed: Array) -> _Mode:
    """Climb to the mode of the process by Newton's method (algorithm 3.1), steps halved where they go too far."""
    n = len(good)
    f, a, height = np.zeros(n), np.zeros(n), -math.inf
    for _ in range(_NEWTON):
        first, second, _ = _derivatives(f, good, failed)
        weight = np.sqrt(np.maximum(-second, 1e-300))
        root = np.linalg.cholesky(np.eye(n) + weight[:, None] * covariance * weight)
        b = weight**2 * f + first
        new = b - weight * cho_solve((root, True), weight * (covariance @ b), check_finite=False)
        step, size = new - a, 1.0
        while True:
            trial = a + size * step
            at = covariance @ trial
            reached = -0.5 * float(trial @ at) + _log_likelihood(at, good, failed)
            if reached >= height - 1e-12 * abs(height) or size < 1e-4:
                break
            size /= 2
        gained, f, a, height = reached - height, at, trial, reached
        if gained < 1e-9:
            break
    first, second, _ = _derivatives(f, good, failed)
    weight = np.sqrt(np.maximum(-second, 1e-300))
    root = np.linalg.cholesky(np.eye(n) + weight[:, None] * covariance * weight)
    return _Mode(
        f, first, weight, np.asarray(root, dtype=np.float64), height - float(np.log(np.diagonal(root)).sum())
    )


def _evidence(x: Array, good: Array, failed: Array, length: Array, size: float) -> tuple[float, Array]:
    """Return the approximate log evidence and its slope in the logarithms of lengths and size (algorithm 5.1)."""
    n, d = x.shape
    covariance = _among(x, length, size)
    mode = _climb(covariance, good, failed)
    first, _, third = _derivatives(mode.at, good, failed)
    inside = solve_triangular(mode.root, np.diag(mode.weight), lower=True, check_finite=False)
    inverse = inside.T @ inside  # R = W^1/2 B^-1 W^1/2
    left = solve_triangular(mode.root, mode.weight[:, None] * covariance, lower=True, check_finite=False)
    shift = -0.5 * (np.diagonal(covariance) - np.sum(left**2, axis=0)) * third
    varying = covariance - _LEVEL - _JITTER * np.eye(n)
    changes = [varying * ((x[:, None, j] - x[:, j]) / length[j]) ** 2 for j in range(d)] + [2 * varying]
    slopes = []
    for change in changes:
        b = change @ first
        explicit = 0.5 * float(first @ b) - 0.5 * float(np.sum(inverse * change))
        slopes.append(explicit - float(shift @ (b - covariance @ (inverse @ b))))
    return mode.height, np.array(slopes)
