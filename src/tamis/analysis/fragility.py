"""Fragility: the probability that a demand exceeds its limit, as a function of how strong the event was.

Runs at intensities im have demands d; the limit is a number, or a law where the capacity is uncertain, and then
the probability that a run exceeds it is that law's distribution function at the demand. Where a surrogate answers,
its error is integrated as well. The curve is lognormal, P = Phi(ln(im / median) / dispersion), fitted by the
binomial likelihood (Baker 2015, 10.1193/021113EQS025M); with two intensities it is a surface, a probit of both
logarithms. Bands are credible bands (`tamis.probit`).

Beside it stands a fit that supposes less: with one intensity a curve that only rises (isotonic regression), with two a
probit of second degree. Twice the gain in log-likelihood is compared with that of data drawn from the lognormal curve
itself: where the gain is larger than theirs the curve is not lognormal, and `misfit` is the share of them it is not
larger than.

Where the likelihood has no top there is no number: no run exceeded, all did, or one threshold separates those that did
from those that did not, so that the steepest curve is the best. What can be said then is one-sided, and is said in
words. With nothing seen in n runs at im or above, P(im) is below 1 - 0.05^(1/n) with 95 % confidence, whatever the
curve, as long as it rises; so the median is above the largest im that at least five runs reached (0.5^5 < 0.05).

Over draws of uncertain parameters the curve itself is uncertain. At each level with draws j of the parameters,
repeats r of what is random in an event, and one standard normal number z for the surrogate's error, common to all
points, so that it is never averaged away, the variance of the curve's height is split into that between draws,
what z adds, and the error of finite numbers of draws and repeats.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from tamis.errors import StudyError, TamisWarning
from tamis.marginals import Marginal
from tamis.probit import Rows, climb, draw, stretched
from tamis.types import Array, Generator, Indices

_DRAWS = 4000  # of coefficients, for the band
_AGAIN = 200  # data sets drawn from the fitted curve, to judge its misfit by
_GRID = 60, 40  # points of a curve, and along each side of a surface
_NODES = 64  # of integrals over a surrogate's error or a capacity
_SURE = 0.95  # of one-sided statements
_CERTAIN = 1e-12  # a probability closer than this to 0 or 1 is taken for it
_STANDARD = ndtri((np.arange(41) + 0.5) / 41)  # values of a standard normal number that are equally probable


@dataclass(frozen=True)
class Fragility:
    """A fragility curve of one intensity, or a surface of two."""

    intensity: Array  # (n, q), of the runs it was made of
    exceeds: Array  # (n,), probability that each exceeds the limit
    median: float  # NaN where the runs do not determine it, and with two intensities
    dispersion: float
    median_interval: tuple[float, float]
    dispersion_interval: tuple[float, float]
    level: float  # of intervals and band
    coefficients: (
        Array  # (1 + q,), of 1 and the logarithms of the intensities; NaN where there is no best curve
    )
    draws: Array  # (k, 1 + q), what they may be
    at: Array  # (g, q), where the following are given
    curve: Array  # (g,), the best curve, or the mean of what it may be where there is none
    band: Array  # (2, g)
    beside: Array  # (g,), the fit that supposes less
    misfit: (
        float  # share of data drawn from the curve that the fit beside gains as much on; NaN where not judged
    )
    kind: str  # "fitted", "none", "all", "separable" or "flat"
    statement: str
    failed: int  # runs without a demand

    def probability(self, intensity: Array | float) -> Array:
        """Return the best curve, or the mean of what it may be, at intensities (k,) or (k, q)."""
        z = _forms(_columns(intensity))
        if np.isnan(self.coefficients).any():
            return np.asarray(ndtr(self.draws @ z.T).mean(axis=0))
        return np.asarray(ndtr(z @ self.coefficients))


def fragility(
    intensity: Array,
    demand: Array,
    limit: float | Marginal,
    *,
    sd: Array | None = None,
    below: bool = False,
    cluster: Indices | None = None,
    level: float = 0.9,
    at: Array | None = None,
    rng: Generator,
) -> Fragility:
    """Fit a fragility curve or surface to runs.

    Parameters
    ----------
    intensity
        Of each run, (n,), or two of each, (n, 2); above zero.
    demand
        Of each run, (n,); NaN where it failed. Failed runs are left out and counted.
    limit
        What must not be exceeded: a number, or a law (`tamis.lognormal`, any frozen distribution of SciPy).
    sd
        Standard deviations of the demands, (n,), where a surrogate gave them.
    below
        It is failure to fall below the limit, instead of exceeding it.
    cluster
        Number of the group of runs that each belongs to, (n,): those of one draw of the parameters.
    level
        Probability of intervals and band.
    at
        Intensities at which curve and band are given; spread over those of the runs by default.
    rng
        Source of the draws behind the band.
    """
    chance = exceedance(demand, limit, sd=sd, below=below)
    im = _columns(intensity)
    if len(im) != len(chance):
        raise StudyError(f"expected an intensity for each demand; found {len(im)} and {len(chance)}")
    good = np.isfinite(chance)
    clusters = np.arange(len(chance)) if cluster is None else np.asarray(cluster)
    if clusters.shape != chance.shape:
        raise StudyError(
            f"expected a group for each of {len(chance)} runs; found an array of shape {clusters.shape}"
        )
    where = np.unique(clusters[good], return_inverse=True)[1].reshape(-1)
    trials = np.ones(int(good.sum()))
    return _fitted(im[good], chance[good], trials, where, level, at, int((~good).sum()), rng)


def fragility_of_counts(
    intensity: Array,
    exceeded: Array,
    trials: Array | int,
    *,
    level: float = 0.9,
    at: Array | None = None,
    rng: Generator,
) -> Fragility:
    """Fit a fragility curve to counts: so many of so many runs exceeded the limit at each intensity."""
    im = _columns(intensity)
    exceeded = np.asarray(exceeded, dtype=float)
    trials = np.broadcast_to(np.asarray(trials, dtype=float), exceeded.shape)
    if exceeded.shape != im.shape[:1] or not ((exceeded >= 0) & (exceeded <= trials) & (trials > 0)).all():
        raise StudyError(
            f"expected counts between 0 and the number of runs at each of {len(im)} intensities; found "
            f"{exceeded.tolist()} of {trials.tolist()}"
        )
    return _fitted(im, exceeded / trials, trials, None, level, at, 0, rng)


def exceedance(
    demand: Array, limit: float | Marginal, *, sd: Array | float | None = None, below: bool = False
) -> Array:
    """Return the probability that each demand exceeds its limit; NaN where there is no demand.

    A demand at the limit does not exceed it. Uncertain capacity and the error of a surrogate are integrated.
    """
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


def _columns(intensity: Array | float) -> Array:
    im = np.asarray(intensity, dtype=float)
    im = np.atleast_1d(im)[:, None] if im.ndim < 2 else im
    if im.ndim != 2 or im.shape[1] not in (1, 2):
        raise StudyError(f"expected one or two intensities a run, (n,) or (n, 2); found shape {im.shape}")
    if not (np.isfinite(im) & (im > 0)).all():
        row = int(np.flatnonzero(~(np.isfinite(im) & (im > 0)).all(axis=1))[0])
        raise StudyError(
            f"intensities must be finite and above zero, for their logarithms are taken; row {row} is {im[row]}"
        )
    return im


def _forms(im: Array) -> Array:
    return np.column_stack([np.ones(len(im)), np.log(im)])


def _fitted(
    im: Array, share: Array, trials: Array, cluster: Indices | None, level: float, at: Array | None, failed: int,
    rng: Generator,
) -> Fragility:  # fmt: skip
    if not 0 < level < 1:
        raise StudyError(f"the level of a band lies between 0 and 1; found {level:g}")
    if len(np.unique(im, axis=0)) < 1 + im.shape[1]:
        raise StudyError(
            f"a fragility of {im.shape[1]} intensity needs runs at {1 + im.shape[1]} different ones or more; found "
            f"{len(np.unique(im, axis=0))}, from {len(im)} runs with a demand"
        )
    z = _forms(im)
    centre, scale = z[:, 1:].mean(axis=0), np.maximum(z[:, 1:].std(axis=0), 1e-12)
    if (z[:, 1:].std(axis=0) <= 1e-12 * (1 + np.abs(centre))).any():
        raise StudyError("an intensity that is the same in all runs tells no curve; leave it out, or vary it")
    scaled = np.column_stack([np.ones(len(z)), (z[:, 1:] - centre) / scale])
    rows = Rows.of(scaled, share, trials)
    kind = _kind(im, share, trials)
    best = climb(rows) if kind == "fitted" else np.full(z.shape[1], np.nan)
    if im.shape[1] == 1 and best[1] <= 0:
        kind, best = "flat", np.full(2, np.nan)
    draws = draw(rows, _DRAWS, rng)
    exact = np.isin(share, (0.0, 1.0)).all() and (cluster is None or cluster.max() + 1 == len(cluster))
    if kind == "fitted" and not exact and cluster is not None:
        draws = stretched(draws, scaled, share, cluster, best)
    if im.shape[1] == 1:
        rising = draws[:, 1] > 0
        draws = draws[rising] if rising.any() else draws
    best, draws = (_unscaled(np.atleast_2d(c), centre, scale) for c in (best, draws))
    points = _spread(im) if at is None else _columns(at)
    chances = ndtr(draws @ _forms(points).T)
    tail = (1 - level) / 2
    median, dispersion = math.nan, math.nan
    intervals = ((math.nan, math.nan), (math.nan, math.nan))
    if im.shape[1] == 1 and kind in ("fitted", "separable"):
        shape = np.exp(-draws[:, 0] / draws[:, 1]), 1 / draws[:, 1]
        intervals = tuple(tuple(map(float, np.quantile(a, (tail, 1 - tail)))) for a in shape)  # type: ignore[assignment]
    if im.shape[1] == 1 and kind == "fitted":
        median, dispersion = float(np.exp(-best[0, 0] / best[0, 1])), float(1 / best[0, 1])
    fitted = Fragility(
        im, share, median, dispersion, *intervals, level, best[0], draws, points,
        ndtr(_forms(points) @ best[0]) if kind == "fitted" else chances.mean(axis=0),
        np.quantile(chances, (tail, 1 - tail), axis=0),
        *_beside(im, share, trials, points, best[0], rng), kind, "", failed,
    )  # fmt: skip
    words = _statement(fitted, trials)
    if kind != "fitted":
        warnings.warn(words, TamisWarning, stacklevel=4)
    return Fragility(**{**vars(fitted), "statement": words})


def _unscaled(c: Array, centre: Array, scale: Array) -> Array:
    slope = c[:, 1:] / scale
    return np.column_stack([c[:, 0] - slope @ centre, slope])


def _spread(im: Array) -> Array:
    """Return intensities over the range of the runs: along a line, or over a rectangle, row by row."""
    n = _GRID[im.shape[1] - 1]
    sides = [np.geomspace(low, high, n) for low, high in zip(im.min(axis=0), im.max(axis=0), strict=True)]
    return np.column_stack([side.ravel() for side in np.meshgrid(*sides, indexing="ij")])


def _kind(im: Array, share: Array, trials: Array) -> str:
    """Say whether the likelihood has a top, and if not why."""
    some, spared = share > _CERTAIN, share < 1 - _CERTAIN
    if not some.any():
        return "none"
    if not spared.any():
        return "all"
    if im.shape[1] == 1:
        return "separable" if im[spared, 0].max() <= im[some, 0].min() else "fitted"
    return "separable" if _plane_between(np.log(im), some, spared) else "fitted"


def _plane_between(x: Array, some: Any, spared: Any) -> bool:
    """Tell whether a plane has all rows of one kind on one side and all of the other on the other, touching allowed."""
    from scipy.optimize import linprog

    forms = np.column_stack([np.ones(len(x)), (x - x.mean(axis=0)) / x.std(axis=0)])
    signed = np.vstack([forms[some], -forms[spared]])
    # the largest total distance on the right side, of planes with all rows there: zero if there is none
    found = linprog(-signed.sum(axis=0), A_ub=-signed, b_ub=np.zeros(len(signed)), bounds=[(-1, 1)] * 3)
    return bool(found.status == 0 and -found.fun > 1e-9 * len(signed))


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
) -> Split:
    """Split the variance of a fragility's height, from demands (G, J, R).

    They are those of J draws of the parameters, the same or new at each of G levels, and R repeats of what is random
    in an event given the parameters. Unless anything is ``random`` a draw either exceeds its limit or not, and one
    repeat says all. NaN is a run that failed.
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
        between = np.nanvar(np.nanmean(mean, axis=2), axis=1, ddof=1)
        heights = np.nanmean(each, axis=3)
        total = np.nanmean((heights - np.nanmean(heights, axis=(0, 2))[None, :, None]) ** 2, axis=(0, 2))
        within, all_within = np.zeros(2)
        if random and repeats > 1:
            within = np.nanmean(np.nanvar(mean, axis=2, ddof=1), axis=1) / repeats
            all_within = np.nanmean(np.nanvar(each, axis=3, ddof=1), axis=(0, 2)) / repeats
    runs = between / demand.shape[1]
    if random and repeats == 1:
        return Split(share, np.full(len(share), np.nan), np.var(np.nanmean(each, axis=(2, 3)), axis=0), runs)
    parameters = np.maximum(between - within, 0.0)
    surrogate = np.maximum(total - all_within - parameters, 0.0) if wide.any() else np.zeros_like(share)
    return Split(share, parameters, surrogate, runs)


def isotonic(intensity: Array, share: Array, trials: Array, at: Array) -> Array:
    """Return the curve that only rises and fits shares best, at intensities (g,); NaN outside those of the runs."""
    from scipy.optimize import isotonic_regression

    rows = Rows.of(intensity[:, None], share, trials)
    found = isotonic_regression(rows.share, weights=rows.trials).x
    return np.asarray(np.interp(np.log(at), np.log(rows.z[:, 0]), found, left=np.nan, right=np.nan))


def _beside(
    im: Array, share: Array, trials: Array, at: Array, best: Array, rng: Generator
) -> tuple[Array, float]:
    """Return the fit that supposes less, at points, and how often lognormal data would gain as much from it."""
    beside = _rising if im.shape[1] == 1 else _second_degree
    if im.shape[1] == 1:
        curve = isotonic(im[:, 0], share, trials, at[:, 0])
    else:
        curve = (
            _second_degree(im, share, trials, at)[1] if not np.isnan(best).any() else np.full(len(at), np.nan)
        )
    counts = np.rint(share * trials)
    whole = np.abs(counts - share * trials).max() < 1e-9
    if np.isnan(best).any() or not whole:
        return curve, math.nan
    gain = beside(im, share, trials, at)[0] - _height(im, share, trials, best)
    chance, larger, judged = ndtr(_forms(im) @ best), 0, 0
    for _ in range(_AGAIN):
        again = rng.binomial(trials.astype(int), chance) / trials
        if not 0 < again.sum() < len(again):
            continue
        fit = climb(Rows.of(_forms(im), again, trials))
        gained = beside(im, again, trials, at)[0] - _height(im, again, trials, fit)
        larger, judged = larger + (gained >= gain), judged + 1
    return curve, (larger + 1) / (judged + 1) if judged else math.nan


def _height(im: Array, share: Array, trials: Array, c: Array) -> float:
    return float(Rows.of(_forms(im), share, trials).log_likelihood(c[None])[0])


def _rising(im: Array, share: Array, trials: Array, at: Array) -> tuple[float, Array]:
    """Return the log-likelihood of the isotonic curve, and its heights at the runs."""
    from scipy.special import xlogy

    fit = isotonic(im[:, 0], share, trials, im[:, 0])
    return float(np.sum(trials * (xlogy(share, fit) + xlogy(1 - share, 1 - fit)))), fit


def _second_degree(im: Array, share: Array, trials: Array, at: Array) -> tuple[float, Array]:
    """Return the log-likelihood of a probit of second degree, and its heights at points."""
    x, there = np.log(im), np.log(at)
    centre, scale = x.mean(axis=0), x.std(axis=0)

    def forms(points: Array) -> Array:
        a, b = ((points - centre) / scale).T
        return np.column_stack([np.ones(len(a)), a, b, a**2, b**2, a * b])

    rows = Rows.of(forms(x), share, trials)
    c = climb(rows)
    return float(rows.log_likelihood(c[None])[0]), np.asarray(ndtr(forms(there) @ c))


def _statement(found: Fragility, trials: Array) -> str:
    """Say in words what the runs tell."""
    if found.intensity.shape[1] == 2:
        return {"fitted": "", "none": "no run exceeded the limit: there is no surface",
                "all": "all runs exceeded the limit: there is no surface",
                "separable": "one line separates the runs that exceeded from those that did not: the surface is at "
                "least as steep as can be told"}[found.kind]  # fmt: skip
    im, n = found.intensity[:, 0], int(trials.sum())
    if found.kind == "fitted":
        return ""
    if found.kind == "flat":
        return "exceedance does not rise with the intensity: there is no fragility curve of it"
    if found.kind == "separable":
        low, high = im[found.exceeds < 0.5].max(), im[found.exceeds > 0.5].min()
        steep = float(np.quantile(1 / found.draws[:, 1], _SURE))
        return (
            f"all runs up to {low:.4g} stayed below the limit and all from {high:.4g} exceeded it: the median lies "
            f"there, and the dispersion is below {steep:.2g} with {_SURE:.0%} probability"
        )
    order = np.argsort(im)
    bound = 1 - (1 - _SURE) ** (1 / n)
    if found.kind == "none":
        reach = _reached(im[order[::-1]], trials[order[::-1]])
        more = "" if math.isnan(reach) else f"; the median is above {reach:.4g}"
        return (
            f"none of {n} runs exceeded the limit: at {im.min():.4g} the probability is below {bound:.2g}{more}, with "
            f"{_SURE:.0%} confidence for any curve that rises"
        )
    reach = _reached(im[order], trials[order])
    more = "" if math.isnan(reach) else f"; the median is below {reach:.4g}"
    return (
        f"all {n} runs exceeded the limit: at {im.max():.4g} the probability is above {1 - bound:.2g}{more}, with "
        f"{_SURE:.0%} confidence for any curve that rises"
    )


def _reached(im: Array, trials: Array) -> float:
    """Return the first of intensities, taken in this order, by which there were runs enough to tell a half."""
    enough = math.ceil(math.log(1 - _SURE) / math.log(0.5))
    there = np.flatnonzero(np.cumsum(trials) >= enough)
    return float(im[there[0]]) if len(there) else math.nan
