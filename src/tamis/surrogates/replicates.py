"""Runs of one point gathered: their mean, what it is worth, and what they differ by.

Why: the runs of one point tell of the process nothing beyond their mean, weighted by precision, and of the noise what
they differ by. So a process is conditioned on the means, whose matrix is smaller and stays regular, and the likelihood
of all runs is that of the means times that of the differences (Binois, Gramacy & Ludkovski 2018,
10.1080/10618600.2018.1458625, section 3): nothing is lost. And what is left out to be predicted is a point with all its
runs, since a run told by its own replicates says nothing about the surrogate.

Replicates that are equal, of a simulator without chance, are one run written down several times. Taken for several they
would say that there is no noise at all, and a nugget stands for what a smooth function cannot follow as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tamis.surrogates.base import distinct, rounding
from tamis.types import Array, Indices

_EQUAL = 1e-9  # of the spread of the outputs: what equal runs may differ by
_EXACT = 1e-280  # variance that stands for none


@dataclass(frozen=True)
class Gathered:
    """Runs by points: k points, n runs."""

    first: Indices  # (k,), the row of each point's first run
    point: Indices  # (n,), the point of each run
    y: Array  # (k,), means
    noise: Array | None  # (k,), variances of the means where those of the runs are given
    counts: Array  # (k,), runs that differ by chance
    within: Array  # (k,), sums of squares of the runs about the means


def gather(x: Array, y: Array, noise: Array | None) -> Gathered:
    """Gather runs at points x (n, d) with outputs y (n,) and, if given, variances of their noise (n,)."""
    first, point = distinct(x)
    k = len(first)
    if k == len(x):
        return Gathered(first, point, y, noise, np.ones(k), np.zeros(k))
    if not apart(y, y[first][point], y).any():
        least = None
        if noise is not None:
            least = np.full(k, np.inf)
            np.minimum.at(least, point, noise)
        return Gathered(first, point, y[first], least, np.ones(k), np.zeros(k))
    weight = np.ones(len(y)) if noise is None else 1 / np.maximum(noise, _EXACT)
    total = np.bincount(point, weight)
    mean = np.bincount(point, weight * y) / total
    counts = np.bincount(point).astype(np.float64)
    within = np.bincount(point, (y - mean[point]) ** 2).astype(np.float64)
    return Gathered(first, point, mean, None if noise is None else 1 / total, counts, within)


def apart(one: Array, other: Array, y: Array) -> Array:
    """Say which of some outputs (k,) or (k, m) differ by more than rounding, given all of them, (n,) or (n, m)."""
    return np.asarray(np.abs(one - other) > np.maximum(_EQUAL * np.ptp(y, axis=0), rounding(y)))
