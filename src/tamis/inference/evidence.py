"""The evidence, twice, with standard errors that know where the points came from.

*Bridge*, between the posterior and a normalised density q that resembles it: every independence proposal of
the last sweeps is a draw of q whose likelihood is known already, so this estimate is free. It depends on the
final points only, not on the path that led to them.

*Stepping*: the sum over tempering stages of the log mean weight (Del Moral, Doucet & Jasra 2006,
10.1111/j.1467-9868.2006.00553.x). It needs no q, but carries the noise of all stages.

Points of a population are not independent: many descend from one ancestor in the first population and inherit
what the moves could not make them forget, such as the mode they live in. All errors here therefore count
*families*, the points with a common first ancestor, where the text-book counts points; the genealogy carries
the variance (Chan & Lai 2013, 10.1214/13-AOS1172; Lee & Whiteley 2018, 10.1093/biomet/asy028). Where the moves
mix well both give the same. A variance taken from a few families is itself uncertain: the error of the bridge is the
standard deviation of the Student law with as many degrees of freedom as there are families, less one.

All this is the error of a population that has the law of the posterior. Whether it has is for `reported` to say:
where the two estimates contradict each other, or the population was still moving, that much is added to the error.
A funnel whose neck the points never reached looks sound to the bridge, which sees the final points only; the product
of stages, which lost the neck again and again, is further off still, and the distance between the two tells.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_expit, logsumexp

from tamis.types import Array, Indices

_APART = 2.5  # standard errors between two estimates of which at least one is wrong: 1 % by chance
_FEWEST = 3.0  # degrees of freedom at least, below which a Student law has no variance worth the name


def bridge(visited: Array, drawn: Array, half: int, family: Indices) -> tuple[float, float]:
    """Return log evidence and standard error from r = log(prior x likelihood / q).

    Two halves give an estimate each; the error is never less than half their difference, and infinite where
    no draw of q has any likelihood.

    Parameters
    ----------
    visited, drawn
        r at posterior points and at draws of q, each (sweeps, n). The first ``half`` columns and the others
        each had a q of their own.
    half
        Where the second half begins.
    family
        First ancestor of each column's points, (n,).
    """
    n = visited.shape[1]
    if not all(np.isfinite(drawn[:, part]).any() for part in (slice(0, half), slice(half, n))):
        return math.nan, math.inf
    values, influence = [], np.empty(n)
    for part in (slice(0, half), slice(half, n)):
        here, there = visited[:, part], drawn[:, part]
        value = _balance(here, there)
        values.append(value)
        # The slope of the balance at its root is -1, so the relative deviations of its two sides are those of
        # Z. They are added chain by chain: a lucky draw is accepted, visited, and counts on both sides.
        each = _relative(there - value).mean(axis=0) - _relative(value - here).mean(axis=0)
        influence[part] = each * n / (2 * here.shape[1])
    freedom = max(family_count(family) - 1, _FEWEST)
    error = math.sqrt(variance_of_mean(influence, family) * freedom / (freedom - 2))
    return float(logsumexp(values)) - math.log(2), max(error, abs(values[0] - values[1]) / 2)


def _relative(x: Array) -> Array:
    """Return the logistic function of x over its mean, also where it underflows."""
    log_s = log_expit(x)
    return np.asarray(np.exp(log_s - logsumexp(log_s) + math.log(x.size)), dtype=np.float64)


def _balance(here: Array, there: Array) -> float:
    """Return the log Z at which as much of q passes to the posterior as of the posterior to q.

    Meng & Wong (1996, Statistica Sinica 6, 831-860), the optimal bridge for samples of equal size:
    mean over q of s(r - log Z) = mean over the posterior of s(log Z - r), s the logistic function.
    """

    def excess(value: float) -> float:
        forth = logsumexp(log_expit(there - value)) - math.log(there.size)
        back = logsumexp(log_expit(value - here)) - math.log(here.size)
        return float(forth - back)

    known = np.concatenate([here.ravel(), there[np.isfinite(there)]])
    return float(brentq(excess, known.min() - 1, known.max() + 1, xtol=1e-9))


def stepping(increments: Array, family: Indices) -> tuple[float, float]:
    """Return log evidence and standard error from the log mean weight of every stage.

    The error is that of a mean over families of unequal size: as if a family's weight had been decided once.
    """
    size = np.bincount(family) / len(family)
    return float(increments.sum()), math.sqrt(float((size**2).sum()))


def reported(
    bridge: tuple[float, float], stepping: tuple[float, float], shift: float
) -> tuple[tuple[float, float], float]:
    """Return the more precise estimate with an error that bears what contradicts it, and the disagreement.

    Parameters
    ----------
    bridge, stepping
        Each log evidence and standard error.
    shift
        How far a mean still moved when sampling ended, in standard deviations of the posterior; 0 if it did not.
        Mass that comes to lie a standard deviation away moves the mean by its share, and log Z by about as much.

    Returns
    -------
    tuple
        Log evidence and standard error, and the distance of the two estimates in standard errors.
    """
    value, error = min(bridge, stepping, key=lambda estimate: estimate[1])
    apart = abs(bridge[0] - stepping[0])
    disagreement = apart / math.hypot(bridge[1], stepping[1])
    contradiction = apart if disagreement > _APART else 0.0
    return (value, math.hypot(error, contradiction, shift)), disagreement


def variance_of_mean(values: Array, family: Indices) -> float:
    """Return the variance of the mean of values (n,) whose families, not points, are independent."""
    total = np.bincount(family, weights=values - values.mean())
    return float((total**2).sum()) / len(values) ** 2


def effective_size(values: Array, family: Indices) -> float:
    """Return how many independent draws would give the mean of these values as precisely; at most n."""
    n, variance = len(values), float(values.var())
    return n if variance == 0 else min(float(n), variance / variance_of_mean(values, family))


def family_count(family: Indices) -> float:
    """Return the effective number of families: as many of equal size would be as diverse."""
    size = np.bincount(family) / len(family)
    return 1 / float((size**2).sum())
