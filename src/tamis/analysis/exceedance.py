"""Whether a demand exceeds its limit, and where the uncertainty of the answer comes from.

The limit is a number, or the law of an uncertain capacity, which is integrated, as is the error of a surrogate.

Over draws of uncertain parameters a fragility is itself uncertain. At each level of intensity with draws j of the
parameters, repeats r of what is random in an event, and one standard normal number z for the surrogate's error, common
to all points, so that it is never averaged away, the variance of the curve's height is split into that between draws,
what z adds, and the error of finite numbers of draws and repeats.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from tamis.errors import StudyError
from tamis.marginals import Marginal
from tamis.types import Array

_NODES = 64  # of integrals over a surrogate's error or a capacity
_STANDARD = ndtri((np.arange(41) + 0.5) / 41)  # values of a standard normal number that are equally probable


def exceedance(
    demand: Array, limit: float | Marginal, *, sd: Array | float | None = None, below: bool = False
) -> Array:
    """Return the probability that each demand exceeds its limit; NaN where there is no demand.

    A demand at the limit does not exceed it. Uncertain capacity and the error of a surrogate are integrated.
    """
    if isinstance(limit, np.generic):
        limit = limit.item()
    demand = np.asarray(demand, dtype=float)
    wide = np.zeros_like(demand) if sd is None else np.broadcast_to(np.asarray(sd, dtype=float), demand.shape)
    if not (wide[np.isfinite(demand)] >= 0).all():
        raise StudyError("standard deviations of demands must not be negative, nor NaN")
    above = (
        _above_number(demand, wide, limit)
        if isinstance(limit, float | int)
        else _above_law(demand, wide, limit)
    )
    if below:
        at_limit = (
            (demand == limit) & (wide == 0)
            if isinstance(limit, float | int)
            else np.zeros(demand.shape, bool)
        )
        above = np.where(at_limit, 0.0, 1 - above)
    return np.where(np.isfinite(demand), above, np.nan)


def _above_number(demand: Array, sd: Array, limit: float) -> Array:
    if not math.isfinite(limit):
        raise StudyError(f"expected a finite limit, found {limit}")
    return np.where(sd > 0, ndtr((demand - limit) / np.where(sd > 0, sd, 1.0)), demand > limit)


def _above_law(demand: Array, sd: Array, law: Marginal) -> Array:
    """Integrate over whichever of capacity and error is wider, the other's distribution function being smooth."""
    if not (hasattr(law, "cdf") and hasattr(law, "ppf")):
        raise StudyError(f"expected a number or a law for the limit, found {type(law).__name__}")
    above = np.asarray(law.cdf(demand), dtype=float)
    if not sd.any():
        return above
    low, high = law.ppf(np.array([0.25, 0.75]))
    wide = sd > (high - low)
    node, weight = np.polynomial.hermite_e.hermegauss(_NODES)
    weight = weight / weight.sum()
    over_error = sum(w * np.asarray(law.cdf(demand + x * sd)) for x, w in zip(node, weight, strict=True))
    node, weight = np.polynomial.legendre.leggauss(_NODES)
    capacity = np.asarray(law.ppf(0.5 * (node + 1)))
    safe = np.where(wide, sd, 1.0)
    over_capacity = sum(w / 2 * ndtr((demand - c) / safe) for c, w in zip(capacity, weight, strict=True))
    return np.where(wide, over_capacity, np.where(sd > 0, over_error, above))


@dataclass(frozen=True)
class Split:
    """Where the uncertainty of a fragility comes from, at each of G levels of intensity."""

    share: Array  # (G,), the mean curve
    parameters: (
        Array  # (G,), variance of its height between draws of the parameters; NaN where not told apart
    )
    surrogate: Array  # (G,), what the surrogate's error adds
    runs: Array  # (G,), variance left by finite numbers of draws and repeats

    @property
    def total(self) -> Array:
        """Variance of the height of the curve."""
        return np.asarray(np.nan_to_num(self.parameters) + self.surrogate + self.runs)

    def band(self, level: float = 0.9) -> Array:
        """Return central intervals of the height, (2, G), of the beta law with this mean and variance."""
        tail = np.array([[(1 - level) / 2], [(1 + level) / 2]])
        room = self.share * (1 - self.share)
        size = room / np.maximum(self.total, 1e-300) - 1  # of the beta law: the sum of its exponents
        proper = (room > 0) & (size > 0) & (self.total > 0)
        size = np.where(proper, size, 1.0)
        share = np.where(proper, self.share, 0.5)
        inside = betaincinv(share * size, (1 - share) * size, tail)
        # nothing known beyond 0 and 1: either, with the probability of the mean
        either = np.where(tail > 1 - self.share, 1.0, 0.0)
        return np.where(proper, inside, np.where(self.total > 0, either, self.share))


def split(
    demand: Array,
    limit: float | Marginal,
    *,
    sd: Array | None = None,
    below: bool = False,
    random: bool = True,
    worth: float = math.inf,
) -> Split:
    """Split the variance of a fragility's height, from demands (G, J, R).

    They are those of J draws of the parameters, the same or new at each of G levels, and R repeats of what is random
    in an event given the parameters. Unless anything is ``random`` a draw either exceeds its limit or not, and one
    repeat says all. NaN is a run that failed. ``worth`` is how many independent draws the J are worth,
    where that is fewer.
    """
    demand = np.asarray(demand, dtype=float)
    if demand.ndim != 3:
        raise StudyError(f"expected demands (levels, draws, repeats), found shape {demand.shape}")
    wide = np.zeros_like(demand) if sd is None else np.asarray(sd, dtype=float)
    shifts = _STANDARD if wide.any() else np.zeros(1)
    each = np.stack([exceedance(demand + z * wide, limit, below=below) for z in shifts])  # (z, G, J, R)
    share = np.nanmean(exceedance(demand, limit, sd=wide, below=below), axis=(1, 2))
    mean = each.mean(axis=0)
    repeats = demand.shape[2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a draw of which all runs failed
        heights = np.nanmean(each, axis=3)
        between = np.nanvar(np.nanmean(mean, axis=2), axis=1, ddof=1)
        single = np.nanmean(np.nanvar(heights, axis=2, ddof=1), axis=0)
        shifted = np.var(np.nanmean(heights, axis=2), axis=0)
        within, all_within = np.zeros(2)
        if random and repeats > 1:
            within = np.nanmean(np.nanvar(mean, axis=2, ddof=1), axis=1) / repeats
            all_within = np.nanmean(np.nanvar(each, axis=3, ddof=1), axis=(0, 2)) / repeats
    draws = np.maximum(np.isfinite(mean).any(axis=2).sum(axis=1), 1)
    runs = between / np.minimum(draws, worth)
    # what z moves of the mean of all draws, less what it moves because they are finitely many
    shifted = np.maximum(shifted - (single - between) / draws, 0.0)
    if random and repeats == 1:
        return Split(share, np.full(len(share), np.nan), shifted, runs)
    parameters = np.maximum(between - within, 0.0)
    total = single - all_within + shifted
    surrogate = np.maximum(total - parameters, 0.0) if wide.any() else np.zeros_like(share)
    return Split(share, parameters, surrogate, runs)
