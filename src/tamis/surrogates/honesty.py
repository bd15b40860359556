"""What a process says of its own error, corrected by what its runs say when they are left out.

A run left out is predicted from the others without a new fit, but its error is not that of the surrogate, for two
reasons which have nothing to do with each other.

It leaves a hole. In a design that fills the cube every point is far from all others, and the cube's mean is nearer to
some run than a run is to the others: left-out errors of smooth functions are up to three times too large. How much is
known to the process without any fit: it is the ratio of its mean variance over the cube to that of the runs left out.
Both are wrong by the same factor where the process is, which the left-out errors measure. Where these are smaller
than the process expects, half of that is believed (of its logarithm): a few points of a hundred bear most of the
error, and a design may have missed them. (Were all of it believed, the error of 100 runs of the wing function would be
reported below 0.6 of its size for 8 of 20 designs instead of 4; but 4 of 30 inputs that act are then judged at 1.9
times their error, with half at 3.2.)

And the lengths were fitted to it. With many inputs and few runs some lengths follow the runs' own chance: of 60 runs
of pure noise in 20 inputs 0.4 of the variance is "explained" although each is left out. Lengths have to be found
again without the runs that they are judged by. That is done in five parts where there are fewer than 30 points for
each input, or than 100 in all; the ratio of held-out errors to what the process expects there, over the same ratio of
the left-out errors that this fit claims, is the optimism. With more points it is one within what can be told.
"""

from __future__ import annotations

import numpy as np

from tamis.design import sobol
from tamis.surrogates.base import distinct
from tamis.surrogates.process import Process, condition, estimate
from tamis.types import Array

_FOLDS = 5
_ENOUGH = 30  # points for each input beyond which lengths are not found again
_FEW = 100  # points below which they are, whatever the number of inputs
_MOST = 10.0  # factor that runs left out can tell
_ELSEWHERE = 512  # points for the mean variance over the cube
_APART = (5, 12, 1983)  # seed of these
_PARTS = 10  # in which runs are held out to choose among trends


def distance_factor(process: Process, x: Array, basis: Array) -> float:
    """Return by what squared left-out errors are to be multiplied to be those of runs at points x.

    At most one but for the half that is not believed: more would be the share of the cube that the runs leave out, of
    which they cannot tell anything (of what lies in tails `tamis.surrogates.tails` tells).
    """
    if process.hyper.variance <= 0:
        return 1.0
    expected = float(process.predict(x, basis)[1].mean() + process.hyper.noise.mean())
    return filled(expected, float(process.spread.mean()), process.surprise)


def filled(expected: float, spread: float, surprise: float) -> float:
    """Return that factor from the mean variance over the cube, that of runs left out, and what these miss by of it."""
    hole = min(1.0, expected / max(spread, 1e-300))
    return hole / float(np.sqrt(np.clip(surprise, 1 / _MOST, 1.0)))


def away_from_runs(d: int) -> Array:
    """Return points for the mean variance over the cube, which are none of any design: at runs it is nothing."""
    return sobol(_ELSEWHERE, d, np.random.default_rng(_APART))


def refitted(kernel: str, x: Array, basis: Array, y: Array, noise: Array | None) -> tuple[float, bool]:
    """Fit without a fifth of the points each: return the optimism, and whether the mean predicts them as well."""
    first, point = distinct(x)
    n, d = len(first), x.shape[1]
    if n >= max(_ENOUGH * d, _FEW) or n < 2 * _FOLDS:
        return 1.0, False
    part = np.random.default_rng(0).permutation(n)[point] % _FOLDS
    held, claimed, about = np.zeros(2), np.zeros(2), 0.0  # squared errors and what was expected of them
    for fold in range(_FOLDS):
        out, rest = part == fold, part != fold
        if np.linalg.matrix_rank(basis[rest]) < basis.shape[1] or rest.sum() <= basis.shape[1] + 1:
            return 1.0, False
        given = None if noise is None else noise[rest]
        hyper = estimate(kernel, x[rest], basis[rest], y[rest], given, np.random.default_rng(0), judge=True)
        process = condition(kernel, x[rest], basis[rest], y[rest], hyper)
        mean, var = process.predict(x[out], basis[out])
        held += np.sum((y[out] - mean) ** 2), np.sum(var) + hyper.noise.mean() * out.sum()
        claimed += np.sum(process.residuals**2), np.sum(process.spread)
        about += float(np.sum((y[out] - y[rest].mean()) ** 2))
    if min(*held, *claimed) <= 0:
        return 1.0, False
    ratio = held[0] / held[1] * claimed[1] / claimed[0]
    return float(np.clip(ratio, 1.0, _MOST)), bool(held[0] >= about)


def held_out(
    kernel: str, x: Array, basis: Array, unseen: Array, y: Array, noise: Array | None, seed: int = 0
) -> Array:
    """Return what runs are missed by when a tenth of the points at a time is held out and lengths are found again.

    For choosing among trends, which left-out errors with lengths kept cannot do: more functions fit more of the
    chance of the runs. ``unseen`` are the trend's functions as they would be known at a point that was not run. NaN
    where too few points are left to fit.
    """
    first, point = distinct(x)
    n = len(first)
    parts = min(_PARTS, n)
    part = np.random.default_rng(seed).permutation(n)[point] % parts
    residuals = np.full(len(y), np.nan)
    for fold in range(parts):
        out, rest = part == fold, part != fold
        if np.linalg.matrix_rank(basis[rest]) < basis.shape[1] or rest.sum() <= basis.shape[1] + 1:
            return np.full(len(y), np.nan)
        given = None if noise is None else noise[rest]
        hyper = estimate(kernel, x[rest], basis[rest], y[rest], given, np.random.default_rng(0), judge=True)
        process = condition(kernel, x[rest], basis[rest], y[rest], hyper)
        residuals[out] = y[out] - process.mean(x[out], unseen[out])
    return residuals
