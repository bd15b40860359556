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

How the band of a curve over uncertain parameters is made of these, the surrogate and the number of runs is in
`tamis.analysis.exceedance`.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from tamis.analysis.exceedance import exceedance
from tamis.errors import StudyError, TamisWarning
from tamis.marginals import Marginal
from tamis.probit import Rows, climb, draw, stretched
from tamis.types import Array, Generator, Indices

_DRAWS = 4000  # of coefficients, for the band
_AGAIN = 200  # data sets drawn from the fitted curve, to judge its misfit by
_GRID = 60, 40  # points of a curve, and along each side of a surface
_SURE = 0.95  # of one-sided statements
_GROUPS = 10  # of runs, whose scatter tells a band: the scores of k groups have rank k - 1 and scatter by 1/sqrt(2k)
_CERTAIN = 1e-12  # a probability closer than this to 0 or 1 is taken for it


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


@dataclass(frozen=True)
class FragilityRecord:
    """A fragility of a study, as it is kept and reported."""

    series: str  # the prediction it is of
    demand: str  # title with unit
    limit: str  # in words
    intensity: tuple[str, ...]  # titles with units, one or two
    source: str  # "prior" or "posterior"
    emulated: bool
    draws: int  # of the parameters
    repeats: int  # of each, of what is random
    failed: int  # runs without a demand
    kind: str
    statement: str
    median: float
    dispersion: float
    median_interval: tuple[float, float]
    dispersion_interval: tuple[float, float]
    level: float
    misfit: float
    at: Array  # (g, q)
    curve: Array  # (g,)
    band: Array  # (2, g)
    beside: Array  # (g,)
    seen: Array  # (k, 5): intensity, share that exceeds, its interval, runs; with two, (n, 4) as `seen` says
    split: (
        Array  # (G, 5): level, share, variances due to parameters, surrogate, runs; NaN where not separable
    )
    split_band: Array  # (2, G)


def seen(intensity: Array, chance: Array, level: float = 0.9, most: int = 20) -> Array:
    """Return what runs show by themselves, (k, 5): intensity, share that exceeds, its interval, runs.

    At each intensity if there are few, else over bins of equally many runs; intervals are those of Wilson (1927,
    10.1080/01621459.1927.10502953). With two intensities every run, (n, 4): both, its chance, 1.
    """
    im = _columns(intensity)
    good = np.isfinite(chance)
    im, chance = im[good], chance[good]
    if im.shape[1] == 2:
        return np.column_stack([im, chance, np.ones(len(im))])
    each = np.unique(im[:, 0])
    if len(each) > most:
        order = np.argsort(im[:, 0], kind="stable")
        groups = np.array_split(order, min(most, max(len(order) // 10, 2)))
    else:
        groups = [np.flatnonzero(im[:, 0] == value) for value in each]
    at = np.array([np.exp(np.log(im[g, 0]).mean()) for g in groups])
    share, n = np.array([(chance[g].mean(), len(g)) for g in groups]).T
    z2 = ndtri(0.5 * (1 + level)) ** 2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n**2))) / (1 + z2 / n)
    return np.column_stack([at, share, centre - half, centre + half, n])


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
        if cluster.max() + 1 < _GROUPS:
            raise StudyError(
                f"runs in {cluster.max() + 1} groups do not tell how uncertain the curve is: expected at least "
                f"{_GROUPS}, found {np.bincount(cluster).tolist()} runs in each; leave the groups out, or make more"
            )
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
