"""One number for all runs of a point: mean, standard deviation or a quantile over the seeds of a stochastic simulator.

What is built is often judged by most of the cases and not by all, such as the 80th percentile of a displacement over
200 ground motions of the same parameters. That is a function of the parameters with little noise, of which surrogates
and Sobol indices can be had. The little that is left is known: the bootstrap draws the runs of a point again and again,
and its standard error says how much of the variance between points no surrogate can explain.

Quantiles are the median-unbiased ones of Hyndman & Fan (1996, 10.2307/2684934, definition 8).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tamis.errors import StudyError
from tamis.types import Array, Generator, Mask

RESAMPLES = 200  # of a bootstrap: its own standard error is a twentieth of what it gives
FEWEST = 5  # runs of a point that make a statistic


@dataclass(frozen=True)
class Statistic:
    """What is taken over the runs of a point."""

    kind: Literal["mean", "sd", "quantile"]
    level: float = 0.5  # of a quantile

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise StudyError(f"the level of a quantile lies between 0 and 1, found {self.level:g}")

    def __str__(self) -> str:
        return f"{100 * self.level:g} % quantile" if self.kind == "quantile" else self.kind

    def __call__(self, y: Array, axis: int = 0) -> Array:
        """Return the statistic along an axis."""
        if self.kind == "mean":
            return np.asarray(np.mean(y, axis=axis))
        if self.kind == "sd":
            return np.asarray(np.std(y, axis=axis, ddof=1))
        return np.asarray(np.quantile(y, self.level, axis=axis, method="median_unbiased"))


@dataclass(frozen=True)
class Responses:
    """The responses of n points, m numbers each."""

    y: Array  # (n, m), NaN where too few runs gave one
    error: Array  # (n, m), standard errors by bootstrap
    partial: int  # points at which runs failed, so that the statistic is over the others


def over_replicates(y: Array, good: Mask, replicates: int, statistic: Statistic, rng: Generator) -> Responses:
    """Return a statistic of runs y (n r, m), the r of a point side by side, of which the ``good`` (n r,) count.

    A point at which less than half of the runs, or fewer than `FEWEST`, gave an answer has none.
    """
    from scipy.stats import bootstrap

    n, m = len(y) // replicates, y.shape[1]
    response, error = np.full((n, m), np.nan), np.full((n, m), np.nan)
    runs, there = y.reshape(n, replicates, m), good.reshape(n, replicates)
    counts = there.sum(axis=1)
    least = max(min(FEWEST, replicates), replicates / 2)
    for i in np.flatnonzero(counts >= least):
        mine = runs[i, there[i]]
        response[i] = statistic(mine)
        if len(mine) > 1:
            options = {"n_resamples": RESAMPLES, "method": "percentile", "rng": rng}
            error[i] = bootstrap((mine,), statistic, axis=0, **options).standard_error
    return Responses(response, error, int(((counts < replicates) & (counts >= least)).sum()))
