"""What uncertain parameters make of a predicted number: first-order second moments, Monte Carlo, response surfaces.

The three ways of SERA deliverable D27.1 (section 5.1.3), from the cheapest.

**First-order second moments.** The model is replaced by its tangent at the mean, for which mean and variance are exact
and every input has an importance factor. Derivatives are central differences, and all their points are one call, so
that a stochastic simulator can hold its random numbers the same at all of them; otherwise the difference of two
draws is divided by a small step. The step is a share of each standard deviation, not of the mean (the report moved each
input by 5 % of its mean): it does not depend on where the input has its zero, stays inside the region that the
variance speaks about, and keeps its meaning for inputs of mean zero. At 0.05 the slope errs by 0.05^2 / 6 = 4e-4 of
the third derivative, both per standard deviation: far less than the tangent itself neglects. With correlated
inputs the variance g'Cg has no unique split. The one used here is between the standardised inputs made uncorrelated
by the symmetric root of their correlation matrix R, which of all such inputs are the nearest to the original
ones (Kessy, Lewin & Strimmer 2018, 10.1080/00031305.2016.1277159): importance = sqrt(R) (s g) / sd. Its squares always
add up to one, it keeps a sign, does not depend on the order of the inputs, and is s_i g_i / sd when they are
independent.

**Monte Carlo.** Batches are added until half of the 95 % interval of the mean, 1.96 sd / sqrt(n), is at most a given
share of the mean. An output with a mean near zero never gets there: n grows like (sd / mean)^2, and shifting
the zero of its scale changes it. So the error is compared with the mean or the standard deviation, whichever is
larger: where the scatter exceeds the mean, a mean known to 5 % of the scatter (1537 draws) counts as known. Looking
after every batch favours samples whose deviation happens to be small, and stops a little too early on them: for
the lognormal output of the report, with two batches of 20 to 100 draws at least, the interval then holds the mean in 94
% of the cases. The draws do not depend on the tolerance: a smaller one continues the same sequence, whose
first part the run store already has.

Draws of a posterior are rows of a sample, drawn again with replacement. The error of the mean then has two
independent parts: that of n draws about the mean of the rows, sd^2 / n, and that of the mean of the rows about the
posterior's, sd^2 / ``effective``, since rows that depend on one another are worth so many independent ones. So half of
the interval is 1.96 sd sqrt(1/n + 1/effective); left out, the second part would let 200 rows claim any precision.
No number of draws brings it below 1.96 sd / sqrt(effective). Where this floor is above the tolerance, drawing
ends at n = effective, where the error is within a factor sqrt(2) of the floor. A draw that fails takes its
rows along: an output with answers at a share f of the draws knows f times ``effective`` rows.

**Response surface.** A second-order polynomial of standardised inputs by least squares, with or without products,
to be compared with the other two by its R2 and adjusted R2.

**Laws.** All fitted laws have two parameters, so the order by Akaike's criterion is that of the likelihood. A law is
one opinion among several: where its fit fails (SciPy's roots do for coefficients of variation below 1e-6, the
moments of a lognormal overflow for very heavy tails), the others are still worth showing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.special import ndtri

from tamis import marginals
from tamis.errors import SimulationError, StudyError, nearest
from tamis.space import Space
from tamis.surrogates.base import varies
from tamis.types import Array, Event, Generator, Mask, Progress, silent

Model: TypeAlias = Callable[[Array], Array]  # (n, d) -> (n, m); NaN where it failed

_LARGEST_COV = 0.3  # of an input, for a tangent to do (SERA D27.1, 5.1.3.1)
_HALF = 1.96  # half of the 95 % interval, in standard errors (SERA D27.1, 5.1.3.2)


@dataclass(frozen=True)
class Fosm:
    """First-order second moments of m outputs over d inputs."""

    mean: Array  # (m,)
    variance: Array  # (m,)
    gradient: Array  # (d, m)
    importance: Array  # (d, m), signed, squares add up to 1; NaN where the variance is zero


def fosm(
    model: Model,
    mean: Array,
    covariance: Array,
    *,
    step: float = 0.05,
    bounds: Array | None = None,
    names: Sequence[str] = (),
) -> Fosm:
    """Propagate mean (d,) and covariance (d, d) through the tangent of the model, by 2 d + 1 points in one call.

    Points are moved by ``step`` standard deviations, but not beyond ``bounds`` (d, 2): the slope is then that between
    the points cut short, one-sided where the mean lies on a bound. The ``names`` of the inputs are for messages.
    """
    mean, covariance = np.asarray(mean, dtype=np.float64), np.asarray(covariance, dtype=np.float64)
    d = len(mean)
    called = [names[i] if names else f"input {i + 1} of {d}" for i in range(d)]
    low, high = np.tile([[-np.inf], [np.inf]], d) if bounds is None else np.asarray(bounds).T
    _check_moments(mean, covariance, low, high, called)
    sd = np.sqrt(np.diag(covariance))
    above, below = np.minimum(mean + step * sd, high), np.maximum(mean - step * sd, low)
    points, each = np.tile(mean, (2 * d + 1, 1)), np.arange(d)
    points[1 + each, each], points[1 + d + each, each] = above, below
    y = model(points)
    y = y[:, None] if y.ndim == 1 else y
    failed = np.flatnonzero(~np.isfinite(y).all(axis=1))
    if len(failed):
        i = (failed[0] - 1) % d
        where = f"{called[i]} = {points[failed[0], i]:g}, others at their means" if failed[0] else "the mean"
        raise SimulationError(f"first-order second moments need every point; the model failed at {where}")
    gradient = (y[1 : d + 1] - y[d + 1 :]) / (above - below)[:, None]
    values, vectors = np.linalg.eigh(covariance / np.outer(sd, sd))
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    scores = root @ (gradient * sd[:, None])
    variance = np.sum(scores**2, axis=0)  # g'Cg; SERA D27.1 prints s_i s_i for s_i s_j
    importance = scores / np.where(variance > 0, np.sqrt(variance), np.nan)
    return Fosm(y[0], variance, gradient, importance)


def _check_moments(mean: Array, covariance: Array, low: Array, high: Array, called: Sequence[str]) -> None:
    d = len(mean)
    if covariance.shape != (d, d):
        raise StudyError(f"the covariance of {d} inputs must be {(d, d)}; found {covariance.shape}")
    for name, m, v, least, most in zip(called, mean, np.diag(covariance), low, high, strict=True):
        if not least <= m <= most:
            raise StudyError(f"{name}: the mean {m:g} lies outside the bounds {least:g} to {most:g}")
        if not (v > 0 and least < most):
            raise StudyError(
                f"{name} does not vary (variance {v:g}, bounds {least:g} to {most:g}); leave it out"
            )


def fosm_conditions(space: Space, mean: Array, covariance: Array, *, prior: bool) -> list[str]:
    """Return a sentence for each condition of first-order second moments that fails; none if all hold.

    Small and Gaussian uncertainties (SERA D27.1, 5.1.3.1); the laws are looked at where they are the ``prior``'s.
    """
    sentences = []
    sd = np.sqrt(np.diag(covariance))
    wide = [
        f"{name} ({s / abs(m):.3g})" if m else f"{name} (mean zero)"
        for name, m, s in zip(space.names, mean, sd, strict=True)
        if s > _LARGEST_COV * abs(m)
    ]
    if wide:
        sentences.append(
            f"First-order second moments suppose coefficients of variation below {_LARGEST_COV:g}; "
            f"not so: {', '.join(wide)}."
        )
    skewed = [p.name for p in space.parameters if prior and not _gaussian(p.prior)]
    if skewed:
        sentences.append(f"First-order second moments suppose Gaussian inputs; not so: {', '.join(skewed)}.")
    return sentences


def _gaussian(law: Any) -> bool:
    """Tell whether quantiles lie on a line over those of the normal law, to 1 % of a standard deviation."""
    p = np.array([0.01, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 0.99])
    z, x = ndtri(p), np.asarray(law.ppf(p))
    slope = (x @ z) / (z @ z)
    return bool(np.all(np.abs(x - x.mean() - slope * z) <= 0.01 * slope))


@dataclass(frozen=True)
class MonteCarlo:
    """Draws of the inputs, answers, and how the mean of each output settled."""

    x: Array  # (n, d)
    y: Array  # (n, m), NaN where the model failed
    steps: Array  # (k,), draws after each batch
    means: Array  # (k, m)
    errors: Array  # (k, m), half of the 95 % interval of the mean
    converged: Mask  # (m,)
    failed: int  # draws with at least one output missing


def monte_carlo(
    draw: Callable[[int, Generator], Array],
    model: Model,
    *,
    tolerance: float = 0.05,
    batch: int = 100,
    most: int = 10_000,
    effective: float = math.inf,
    rng: Generator,
    progress: Progress | None = None,
) -> MonteCarlo:
    """Add batches of draws, at least two, until the mean of every output is known, or there are ``most`` draws.

    Known: half of its 95 % interval is at most ``tolerance`` times the mean or the standard deviation, whichever is
    larger. ``effective`` is how many independent rows a sample is worth that ``draw`` redraws; where they are too few
    for an output to get known, it is not waited for beyond as many draws. Draws depend on ``rng``, ``batch`` and
    ``most`` alone.
    """
    if not (tolerance > 0 and 2 <= 2 * batch <= most and effective > 0):
        raise StudyError(
            "Monte Carlo needs tolerance and effective size above 0 and room for two batches; "
            f"found tolerance = {tolerance:g}, batch = {batch}, most = {most}, effective = {effective:g}"
        )
    progress = progress or silent
    x, y = np.empty((0, 0)), np.empty((0, 0))
    steps: list[int] = []
    means: list[Array] = []
    errors: list[Array] = []
    while True:
        new = draw(min(batch, most - len(y)), rng)
        answer = model(new)
        answer = answer[:, None] if answer.ndim == 1 else answer
        x, y = (np.concatenate([x, new]), np.concatenate([y, answer])) if steps else (new, answer)
        there = np.isfinite(y)
        count = there.sum(axis=0)
        if len(steps) == 1 and (count < 2).any():
            raise SimulationError(
                f"an output has {count.min()} answers at {len(y)} draws; see why the runs failed"
            )
        mean = np.sum(y, axis=0, where=there) / np.maximum(count, 1)
        sd = np.sqrt(np.sum((y - mean) ** 2, axis=0, where=there) / np.maximum(count - 1, 1))
        n, share = len(y), np.maximum(count, 1) / len(y)
        error = _HALF * sd * np.sqrt((1 / n + 1 / effective) / share)
        allowed = tolerance * np.maximum(np.abs(mean), sd)
        known = error <= allowed
        hopeless = (n >= effective) & (_HALF * sd / np.sqrt(effective * share) > allowed)
        steps.append(n)
        means.append(mean)
        errors.append(error)
        progress(Event("propagation", n, most, {"known": int(known.sum()), "of": len(known)}))
        if len(steps) > 1 and ((known | hopeless).all() or n == most):
            failed = int((~there).any(axis=1).sum())
            return MonteCarlo(x, y, np.array(steps), np.array(means), np.array(errors), known, failed)


@dataclass(frozen=True)
class Surface:
    """A second-order polynomial of standardised inputs."""

    centre: Array  # (d,)
    scale: Array  # (d,)
    interactions: bool
    coefficients: Array  # (p, m): constant, inputs, squares, products in order of the first input
    r2: Array  # (m,), NaN for a constant output
    adjusted: Array  # (m,), R2 adjusted for the number of terms

    def predict(self, x: Array) -> Array:
        """Return the surface, (n, m), at points (n, d)."""
        return _quadratic((x - self.centre) / self.scale, self.interactions) @ self.coefficients


def response_surface(x: Array, y: Array, *, interactions: bool) -> Surface:
    """Fit a second-order polynomial to outputs y (n, m) at points x (n, d); failed runs are left out."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    y = y[:, None] if y.ndim == 1 else y
    good = np.isfinite(y).all(axis=1)
    x, y = x[good], y[good]
    n, d = x.shape
    p = 1 + 2 * d + (d * (d - 1) // 2 if interactions else 0)
    if n <= p:
        raise StudyError(
            f"a response surface of {d} inputs {'with' if interactions else 'without'} products has {p} terms and "
            f"needs more runs than that; found {n}"
        )
    centre, spread = x.mean(axis=0), x.std(axis=0)
    scale = np.where(spread > 1e-12 * np.abs(x).max(axis=0), spread, 1.0)
    terms = _quadratic((x - centre) / scale, interactions)
    coefficients: Array = np.linalg.lstsq(terms, y, rcond=None)[0].astype(np.float64, copy=False)
    total = np.sum((y - y.mean(axis=0)) ** 2, axis=0)
    total[~varies(y)] = np.nan
    r2 = 1 - np.sum((y - terms @ coefficients) ** 2, axis=0) / total
    return Surface(centre, scale, interactions, coefficients, r2, 1 - (1 - r2) * (n - 1) / (n - p))


def _quadratic(z: Array, interactions: bool) -> Array:
    i, j = np.triu_indices(z.shape[1], 1)
    products = z[:, i] * z[:, j] if interactions else z[:, :0]
    return np.hstack([np.ones((len(z), 1)), z, z**2, products])


@dataclass(frozen=True)
class Fit:
    """A law fitted to a sample by maximum likelihood."""

    law: str
    parameters: dict[str, float]
    log_likelihood: float
    distance: float  # of Kolmogorov and Smirnov
    quantiles: Array  # (n,), at the plotting positions (i - 1/2) / n of the ordered sample


def _normal(y: Array) -> tuple[dict[str, float], Any]:
    parameters = {"mean": float(y.mean()), "sd": float(y.std())}
    return parameters, marginals.normal(**parameters)


def _lognormal(y: Array) -> tuple[dict[str, float], Any]:
    log = np.log(y)
    parameters = {"median": math.exp(log.mean()), "cov": math.sqrt(math.expm1(log.var()))}
    return parameters, marginals.lognormal(**parameters)


def _gamma(y: Array) -> tuple[dict[str, float], Any]:
    from scipy import stats

    mean = float(y.mean())
    shape, _, _ = stats.gamma.fit(y / mean, floc=0)
    parameters = {"mean": mean, "cov": float(shape) ** -0.5}
    return parameters, marginals.gamma(**parameters)


def _weibull(y: Array) -> tuple[dict[str, float], Any]:
    """Fit through the logarithm, whose law is that of Gumbel for minima: SciPy has a root for it, not a search."""
    from scipy import stats

    log = np.log(y)
    location, width = stats.gumbel_l.fit((log - log.mean()) / log.std())
    parameters = {
        "shape": float(1 / (width * log.std())),
        "scale": math.exp(log.mean() + location * log.std()),
    }
    return parameters, stats.weibull_min(parameters["shape"], scale=parameters["scale"])


def _gumbel(y: Array) -> tuple[dict[str, float], Any]:
    from scipy import stats

    location, width = stats.gumbel_r.fit((y - y.mean()) / y.std())
    parameters = {"location": float(y.mean() + location * y.std()), "scale": float(width * y.std())}
    return parameters, stats.gumbel_r(parameters["location"], parameters["scale"])


LAWS: dict[str, Callable[[Array], tuple[dict[str, float], Any]]] = {
    "normal": _normal,
    "lognormal": _lognormal,
    "gamma": _gamma,
    "weibull": _weibull,
    "gumbel": _gumbel,
}
_POSITIVE = ("lognormal", "gamma", "weibull")


def fit_laws(y: Array, laws: Sequence[str] = tuple(LAWS)) -> tuple[Fit, ...]:
    """Fit laws to a sample (n,) by maximum likelihood, the best first; those of positive numbers only where it is.

    Names and parameters are those of `tamis.marginals`; ``weibull`` has shape and scale, ``gumbel`` (of maxima)
    location and scale. A law that cannot be fitted is left out.
    """
    y = np.sort(np.asarray(y, dtype=np.float64))
    for law in laws:
        if law not in LAWS:
            raise StudyError(f'no law "{law}" to fit{nearest(law, LAWS)}')
    if y.ndim != 1 or len(y) < 3 or not np.isfinite(y).all():
        raise StudyError(
            f"laws are fitted to three or more finite numbers, (n,); found an array {y.shape}, or NaN"
        )
    if y[-1] - y[0] <= 1e-12 * np.abs(y).max():
        raise StudyError(f"all {len(y)} numbers are {y[0]:g}; a constant has no law to fit")
    tried = [_fit(law, y) for law in laws if y[0] > 0 or law not in _POSITIVE]
    found = [fit for fit in tried if fit is not None]
    return tuple(sorted(found, key=lambda fit: -fit.log_likelihood))


def _fit(law: str, y: Array) -> Fit | None:
    """Return the fit of one law, or None where its equations have no solution in floating point."""
    n = len(y)
    with np.errstate(all="ignore"):  # what is out of range shows in the likelihood
        try:
            parameters, fitted = LAWS[law](y)
        except (ArithmeticError, ValueError, RuntimeError, StudyError):  # overflow, no root, no scale
            return None
        below, likelihood = fitted.cdf(y), float(np.sum(fitted.logpdf(y)))
        quantiles = fitted.ppf((np.arange(n) + 0.5) / n)
    if not (math.isfinite(likelihood) and np.isfinite(quantiles).all()):
        return None
    distance = max(np.max(np.arange(1, n + 1) / n - below), np.max(below - np.arange(n) / n))
    return Fit(law, parameters, likelihood, float(distance), quantiles)


def moments(y: Array) -> Array:
    """Return mean, standard deviation, skewness and excess kurtosis along the first axis, (4,) or (4, m).

    The deviation is the unbiased one of n - 1; a constant has NaN for the last two.
    """
    y = np.asarray(y, dtype=np.float64)
    away = y - y.mean(axis=0)
    second = np.mean(away**2, axis=0)
    second = np.where(np.reshape(varies(y.reshape(len(y), -1)), second.shape), second, np.nan)
    skewness, kurtosis = np.mean(away**3, axis=0) / second**1.5, np.mean(away**4, axis=0) / second**2 - 3
    return np.stack([y.mean(axis=0), y.std(axis=0, ddof=1), skewness, kurtosis])
