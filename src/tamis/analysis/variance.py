"""Where the variance of a prediction comes from: the parameters, the choice among models, the runs' own noise.

The law of total variance, twice. With answers y(k, i, r) of model k at its posterior draw i and random seed r, and
models drawn in proportion p(k) to their probabilities,

    Var y = E_k Var_i E[y | k, i]  +  Var_k E[y | k]  +  E_k E_i Var[y | k, i]
                parameters                model                  seed

Plugging sample variances in would blame each level for the noise of those below it: the mean of R replicates still
varies by a share 1/R of the seed's variance from draw to draw, the mean of draws that are worth w independent ones by
1/w of theirs from model to model. Both are subtracted, which makes all three estimates unbiased and lets a small one
come out negative; it is left so, since cutting it off would bias the others' shares. With one replicate of a stochastic
simulator nothing tells the seed from the parameters: the seed's part is unknown (NaN), and what is called parameters
holds both.

Draws of a sample that repeats itself are worth fewer than they are: n of them vary by n/(n - 1) (1 - 1/w) of the
variance they are drawn from, and their mean by 1/w of it. Standard errors are those of a bootstrap over the draws of
each model, widened by sqrt(n/w).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis.types import Array, Generator

_RESAMPLES = 300  # of the bootstrap: its standard errors are known to 4 %
_FEWEST = 2  # draws of a model, for a variance
_ROUND_OFF = 1e-12  # of a number: answers that differ by less are the same


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
    worth: Array | None = None,
) -> Split:
    """Split the variance of answers (replicates, draws, m), each draw of the model of that number.

    Models with fewer than two draws are left out. ``worth`` (models,) is how many independent draws those of each model
    are worth; as many as there are by default.
    """
    known = [k for k in np.unique(model) if (model == k).sum() >= _FEWEST]
    if not known:
        nothing = np.full((3, y.shape[2]), np.nan)
        return Split(nothing, nothing, nothing)
    counts = np.array([(model == k).sum() for k in known], dtype=float)
    values = counts if worth is None else np.clip(worth[known], _FEWEST, counts)
    replicates = len(y)
    found, resampled = [], []
    for k, value in zip(known, values, strict=True):
        mine = y[:, model == k]
        n = mine.shape[1]
        mean = mine.mean(axis=0)
        within = mine.var(axis=0, ddof=1) if replicates > 1 else np.zeros_like(mean)
        once = _levels(np.ones((1, n)), mean, within)
        again = _levels(rng.multinomial(n, np.full(n, 1 / n), size=_RESAMPLES).astype(float), mean, within)
        found.append(once)
        resampled.append(once + math.sqrt(n / value) * (again - once))
    estimate = _parts(np.stack(found), counts, values, replicates)[:, 0]
    same = np.ptp(y, axis=(0, 1)) <= _ROUND_OFF * np.abs(y).max(axis=(0, 1))
    estimate[:, same] = 0.0  # shares of round-off would mean nothing
    parts = _parts(np.stack(resampled), counts, values, replicates)
    error, share_error = parts.std(axis=1), _spread(parts)
    if stochastic and replicates == 1:
        estimate[2] = error[2] = share_error[2] = np.nan
    return Split(estimate, error, share_error)


def _spread(again: Array) -> Array:
    """Return standard deviations over resamplings; one whose whole is not positive has no shares and is left out."""
    whole = again.sum(axis=0)
    known = whole > 0
    some = np.where(known, again / np.where(known, whole, 1.0), 0.0)
    n = np.maximum(known.sum(axis=0), 1)
    mean = some.sum(axis=1) / n
    spread = np.sqrt(np.where(known, (some - mean[:, None]) ** 2, 0.0).sum(axis=1) / n)
    return np.asarray(np.where(known.any(axis=0), spread, np.nan))


def _levels(weight: Array, mean: Array, within: Array) -> Array:
    """Return mean, variance between draws and mean variance within them, (3, b, m), for b weightings of n draws."""
    n = weight.sum(axis=1, keepdims=True)
    centre = mean.mean(axis=0)  # about which squares lose no digits
    away = mean - centre
    first = weight @ away / n
    between = (weight @ away**2 - n * first**2) / (n - 1)
    return np.stack([centre + first, between, weight @ within / n])


def _parts(levels: Array, counts: Array, worth: Array, replicates: int) -> Array:
    """Return the three parts, (3, b, m), from levels (models, 3, b, m)."""
    mean, between, within = np.moveaxis(levels, 1, 0)
    n, w = counts[:, None, None], worth[:, None, None]
    p = n / n.sum()
    single = (between - within / replicates) * (n - 1) / (n * (1 - 1 / w))  # of one draw, without its seeds
    apart = (p * (mean - (p * mean).sum(axis=0)) ** 2).sum(axis=0)
    of_means = single / w + within / (replicates * n)
    model = apart - (p * (1 - p) * of_means).sum(axis=0)
    return np.stack([(p * single).sum(axis=0), model, (p * within).sum(axis=0)])
