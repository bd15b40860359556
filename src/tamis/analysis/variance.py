"""Where the variance of a prediction comes from: the parameters, the choice among models, the runs' own noise.

The law of total variance, twice. With answers y(k, i, r) of model k at its posterior draw i and random seed r, and
models drawn in proportion p(k) to their probabilities,

    Var y = E_k Var_i E[y | k, i]  +  Var_k E[y | k]  +  E_k E_i Var[y | k, i]
                parameters                model                  seed

Plugging sample variances in would blame each level for the noise of those below it: the mean of R replicates still
varies by a share 1/R of the seed's variance from draw to draw, the mean of n draws by 1/n of theirs from model to
model. Both are subtracted, which makes all three estimates unbiased and lets a small one come out negative; it is left
so, since cutting it off would bias the others' shares. With one replicate of a stochastic simulator nothing tells the
seed from the parameters: the seed's part is unknown (NaN), and what is called parameters holds both.

Standard errors are those of a bootstrap over the draws of each model. The draws are in turn rows of a sample that is
worth so many independent ones, which widens the errors by the factor sqrt(1 + n / worth).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis.types import Array, Generator

PARTS = ("parameters", "choice of model", "run-to-run noise")
_RESAMPLES = 300  # of the bootstrap: its standard errors are known to 4 %
_FEWEST = 2  # draws of a model, for a variance


@dataclass(frozen=True)
class Split:
    """The variance of m numbers, in three parts: parameters, choice of model, run-to-run noise."""

    variance: Array  # (3, m), unbiased; NaN where it cannot be known
    error: Array  # (3, m) standard errors
    share_error: Array  # (3, m) and those of the shares of the whole


def shares(variance: Array) -> Array:
    """Return parts of a variance over the whole, along the first axis; a part that is unknown stays so."""
    whole = np.nansum(variance, axis=0)
    return np.asarray(variance / np.where(whole > 0, whole, np.nan))


def variance_split(
    y: Array,
    model: NDArray[np.int64],
    *,
    stochastic: bool,
    rng: Generator,
    worth: float = math.inf,
) -> Split:
    """Split the variance of answers (replicates, draws, m), each draw of the model of that number.

    Models with fewer than two draws are left out. ``worth`` is how many independent draws the rows are worth that these
    were drawn from.
    """
    known = [k for k in np.unique(model) if (model == k).sum() >= _FEWEST]
    if not known:
        nothing = np.full((3, y.shape[2]), np.nan)
        return Split(nothing, nothing, nothing)
    counts = np.array([(model == k).sum() for k in known], dtype=float)
    replicates = len(y)
    found, resampled = [], []
    for k in known:
        mine = y[:, model == k]
        n = mine.shape[1]
        mean = mine.mean(axis=0)
        within = mine.var(axis=0, ddof=1) if replicates > 1 else np.zeros_like(mean)
        found.append(_levels(np.ones((1, n)), mean, within))
        resampled.append(
            _levels(rng.multinomial(n, np.full(n, 1 / n), size=_RESAMPLES).astype(float), mean, within)
        )
    estimate = _parts(found, counts, replicates)[:, 0]
    again = _parts(resampled, counts, replicates)
    wider = math.sqrt(1 + counts.sum() / worth)
    error, share_error = again.std(axis=1) * wider, _spread(again) * wider
    if stochastic and replicates == 1:
        estimate[2] = error[2] = share_error[2] = np.nan
    return Split(estimate, error, share_error)


def _spread(again: Array) -> Array:
    whole = again.sum(axis=0)
    return np.asarray((again / np.where(whole > 0, whole, np.nan)).std(axis=1))


def _levels(weight: Array, mean: Array, within: Array) -> tuple[Array, Array, Array]:
    """Return mean, variance between draws and mean variance within them, (b, m) each, for b weightings of n draws."""
    n = weight.sum(axis=1, keepdims=True)
    centre = mean.mean(axis=0)  # about which squares lose no digits
    away = mean - centre
    first = weight @ away / n
    between = (weight @ away**2 - n * first**2) / (n - 1)
    return centre + first, between, weight @ within / n


def _parts(levels: list[tuple[Array, Array, Array]], counts: Array, replicates: int) -> Array:
    """Return the three parts, (3, b, m)."""
    p = (counts / counts.sum())[:, None, None]
    mean, between, within = (np.stack(each) for each in zip(*levels, strict=True))  # (models, b, m)
    seed = (p * within).sum(axis=0)
    parameters = (p * (between - within / replicates)).sum(axis=0)
    apart = (p * (mean - (p * mean).sum(axis=0)) ** 2).sum(axis=0)
    model = apart - (p * (1 - p) * between / counts[:, None, None]).sum(axis=0)
    return np.stack([parameters, model, seed])
