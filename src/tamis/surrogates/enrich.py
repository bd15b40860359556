"""Where to run next: points that tell most about what the surrogate still gets wrong.

The error of a surrogate is taken as a random function of zero mean that the runs pin to zero: a size that
varies slowly over the inputs, times a stationary process of unit variance. A further run at c then takes from the mean
squared error over the candidates, up to a constant,

    sum_i  w_i C(i, c)^2 / C(c, c),

with w the squared size and C the covariance of the process given the runs (Cohn 1996,
10.1016/0893-6080(95)00137-9; for processes Gramacy & Lee 2009, 10.1198/TECH.2009.0015). Points are taken one by one and
the covariance conditioned on each, so that a batch does not cluster. What counts is the error that a run takes away
and not the error where it is made: in several dimensions the largest variance is in the corners, which are many,
and where a run helps nobody else. Without weights, taking the largest variance instead left errors larger by 4 to 20 %
after 200 runs of five functions with kinks (five inputs, means of two designs).

The process is a Matern 3/2, for kinks, whose lengths are estimated from the runs (several outputs: from their leading
principal component), so that inert inputs are no distance. Of the surrogate only predictions are used, so that
any will do. The variance of a polynomial chaos is nearly flat, and that of a stationary Kriging knows nothing of
kinks; neither would do for the weight.

The weight is read off the surrogate's bending: what the chord between two points about a run's spacing apart misses
in their middle, over many directions. Interpolation errs where the response bends, and at a kink a surrogate bends
too, only less sharply. The weight is the root of the mean square: the square itself trusts a rough estimate too much.
Left-out residuals smoothed over neighbouring runs, and what each run left out moves, were tried as weights, alone and
times the bending; neither gained over the bending in general.

What is gained depends on how much of the cube bends. Kriging of five inputs, 60 Sobol' runs and 140 chosen by tens,
mean squared error over the variance: contacts that close in 7 % of the cube come to 0.032 and 0.041 (medians of five
designs), 300 Sobol' runs to 0.043 and 0.071. Where they close in a fifth or a quarter: 0.015 and 0.0096 (of three);
200 Sobol' runs give 0.017 and 0.0137, 300 give 0.012 and 0.0086: a gain, but less than a hundred runs. With kinks
all over, as in the largest of four linear functions, it is smaller still: 0.020, against 0.024 and 0.017.

Posterior draws as candidates ask another question: not the whole cube but the part that the data left is to be
known. There the draws are the region, and points are spread over it as Lebel et al. (2019,
10.1016/j.jsv.2019.06.024, section 3.3) spread their conditioning set, by the largest smallest distance; in units of
the draws' own spread, so that a narrow ridge is filled along its length, and times the predicted error, so that
what is known already is left alone.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np

from tamis.blas import one_thread
from tamis.errors import StudyError, nearest
from tamis.surrogates.base import Surrogate, varies
from tamis.surrogates.covariances import correlation
from tamis.surrogates.process import Hyper, estimate
from tamis.types import Array, Mask

Criterion: TypeAlias = Literal["error", "posterior"]

_MOST = 2000  # candidates looked at
_KERNEL = "matern32"
_DIRECTIONS = 12
_STEP = 0.2  # half the distance over which bending is measured, along the shortest length
_EVEN = 0.05  # of the mean square is added everywhere
_NOISE = 1e-6  # of the process, at least


@one_thread
def enrich(
    surrogate: Surrogate, u: Array, y: Array, candidates: Array, n: int, *, criterion: Criterion
) -> Array:
    """Return n of the candidates (N, d), points of the unit cube to run next.

    The runs so far are points u (k, d) with outputs y (k, m), NaN where a run failed; outputs count in units of their
    spread. "error" lowers the mean error over the candidates, "posterior" fills the region they are drawn from.
    """
    u, y, candidates = (np.asarray(a, dtype=np.float64) for a in (u, y, candidates))
    if criterion not in get_args(Criterion):
        raise StudyError(f'no criterion "{criterion}"{nearest(criterion, get_args(Criterion))}')
    if u.ndim != 2 or candidates.ndim != 2 or u.shape[1] != candidates.shape[1] or len(y) != len(u):
        raise StudyError(
            "enrichment needs runs (k, d), their outputs (k, m) and candidates (N, d); "
            f"found {u.shape}, {y.shape} and {candidates.shape}"
        )
    candidates = candidates[~_among(candidates, u)]
    if not 1 <= n <= len(candidates):
        raise StudyError(
            f"cannot choose {n} of {len(candidates)} candidates that were not run yet; give more"
        )
    if len(candidates) > max(_MOST, n):
        candidates = candidates[np.random.default_rng(0).permutation(len(candidates))[: max(_MOST, n)]]
    worth = scaled_worth(y)
    if criterion == "posterior":
        return candidates[_spread(surrogate, u, candidates, n, worth)]
    hyper = _process(u, y, worth)
    length, noise = hyper.length, max(float(hyper.noise[0]) / max(hyper.variance, 1e-300), _NOISE)
    return candidates[_reducing(surrogate, u, candidates, length, noise, worth, n)]


def _among(candidates: Array, u: Array) -> Mask:
    known = {row.tobytes() for row in u}
    return np.array([row.tobytes() in known for row in candidates], dtype=bool)


def scaled_worth(y: Array) -> Array:
    """Return the inverse variance of each output over the runs, zero for those that do not vary."""
    variance = np.nanvar(y, axis=0)
    there = varies(y) & (variance > 0)
    return np.asarray(np.where(there, 1 / np.where(there, variance, 1.0), 0.0))


def _process(u: Array, y: Array, worth: Array) -> Hyper:
    """Estimate lengths and noise from the leading principal component of the outputs."""
    scaled = np.nan_to_num((y - np.nanmean(y, axis=0)) * np.sqrt(worth))
    left, size, _ = np.linalg.svd(scaled, full_matrices=False)
    first = left[:, 0] * size[0]
    return estimate(_KERNEL, u, np.ones((len(u), 1)), first, None, np.random.default_rng(0))


def _reducing(
    surrogate: Surrogate, u: Array, points: Array, length: Array, noise: float, worth: Array, n: int
) -> list[int]:
    """Choose points that take most from the weighted error."""
    a, b = points / length, u / length
    within = correlation(_KERNEL, b, b)
    within.flat[:: len(b) + 1] += noise
    cross = correlation(_KERNEL, a, b)
    half = np.linalg.solve(np.linalg.cholesky(within), cross.T)
    cov = correlation(_KERNEL, a, a) - half.T @ half
    weight = _bending(surrogate, points, length, worth)
    chosen: list[int] = []
    for _ in range(n):
        gain = weight @ cov**2 / (np.maximum(np.diag(cov), 0.0) + noise)
        gain[chosen] = -1.0
        best = int(np.argmax(gain))
        chosen.append(best)
        column = cov[:, best] / np.sqrt(max(cov[best, best], 0.0) + noise)
        cov -= np.outer(column, column)
    return chosen


def _bending(surrogate: Surrogate, points: Array, length: Array, worth: Array) -> Array:
    """Return how much a chord through each point misses the surrogate in the middle, over many directions."""
    normal = np.random.default_rng(0).standard_normal((_DIRECTIONS, points.shape[1]))
    reaches = (
        _STEP * np.minimum(length / length.min(), 5) * normal / np.linalg.norm(normal, axis=1, keepdims=True)
    )
    square = np.zeros(len(points))
    for reach in reaches:
        ends = [np.clip(points + sign * reach, 0, 1) for sign in (-1, 1)]
        below, above, middle = (surrogate.predict(p).mean for p in (*ends, (ends[0] + ends[1]) / 2))
        square += ((below + above) / 2 - middle) ** 2 @ worth
    return np.asarray(np.sqrt(square + _EVEN * square.mean() + 1e-300))


def _spread(surrogate: Surrogate, u: Array, points: Array, n: int, worth: Array) -> list[int]:
    """Choose points far from the runs and from each other, in units of the points' spread, where errors are large."""
    variance = surrogate.predict(points).total @ worth
    size = np.sqrt(variance / max(variance.max(), 1e-300)) + 1e-6
    spread, axes = np.linalg.eigh(np.cov(points.T, ddof=0).reshape(points.shape[1], -1))
    scale = axes / np.sqrt(np.maximum(spread, 1e-6 * max(spread.max(), 1e-12)))
    near = np.full(len(points), np.inf)
    white = points @ scale
    for run in u @ scale:
        near = np.minimum(near, np.sum((white - run) ** 2, axis=1))
    chosen: list[int] = []
    for _ in range(n):
        merit = size * np.sqrt(near)
        merit[chosen] = -1.0
        chosen.append(int(np.argmax(merit)))
        near = np.minimum(near, np.sum((white - white[chosen[-1]]) ** 2, axis=1))
    return chosen
