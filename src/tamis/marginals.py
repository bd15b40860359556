"""The laws a study file may name, as frozen `scipy.stats` distributions.

Any frozen `scipy.stats` distribution is a marginal; this module only gives engineers' parameters (median and
coefficient of variation, bounds) to the common ones and checks them. `scipy.stats` is slow to import, so it
is imported when a law is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtr, ndtri

from tamis.errors import StudyError
from tamis.types import Array

Quantile = Callable[[Array], Array]


class Marginal(Protocol):
    """One-dimensional law: what a prior must know of itself."""

    def logpdf(self, x: Array) -> Array:
        """Log density; minus infinity outside the support."""

    def cdf(self, x: Array) -> Array:
        """Distribution function."""

    def ppf(self, q: Array) -> Array:
        """Inverse of the distribution function."""


def _need(condition: bool, law: str, wanted: str, **found: float) -> None:
    if not condition:
        values = ", ".join(f"{name} = {value:g}" for name, value in found.items())
        raise StudyError(f"{law} law needs {wanted}; found {values}")


def uniform(low: float, high: float) -> Any:
    """Uniform between two bounds."""
    from scipy import stats

    _need(low < high, "uniform", "low < high", low=low, high=high)
    return stats.uniform(low, high - low)


def loguniform(low: float, high: float) -> Any:
    """Uniform in the logarithm between two positive bounds."""
    from scipy import stats

    _need(0 < low < high, "loguniform", "0 < low < high", low=low, high=high)
    return stats.loguniform(low, high)


def normal(mean: float, sd: float) -> Any:
    """Gaussian."""
    from scipy import stats

    _need(sd > 0, "normal", "sd > 0", sd=sd)
    return stats.norm(mean, sd)


def lognormal(median: float, cov: float) -> Any:
    """Lognormal by its median and coefficient of variation."""
    from scipy import stats

    _need(median > 0 and cov > 0, "lognormal", "median > 0 and cov > 0", median=median, cov=cov)
    return stats.lognorm(math.sqrt(math.log1p(cov**2)), scale=median)


def gamma(mean: float, cov: float) -> Any:
    """Gamma by its mean and coefficient of variation."""
    from scipy import stats

    _need(mean > 0 and cov > 0, "gamma", "mean > 0 and cov > 0", mean=mean, cov=cov)
    return stats.gamma(cov**-2, scale=mean * cov**2)


def beta(a: float, b: float, low: float = 0.0, high: float = 1.0) -> Any:
    """Beta with shapes a and b, stretched between two bounds."""
    from scipy import stats

    _need(a > 0 and b > 0 and low < high, "beta", "a > 0, b > 0, low < high", a=a, b=b, low=low, high=high)
    return stats.beta(a, b, loc=low, scale=high - low)


def exponential(mean: float) -> Any:
    """Exponential by its mean."""
    from scipy import stats

    _need(mean > 0, "exponential", "mean > 0", mean=mean)
    return stats.expon(scale=mean)


def triangular(low: float, mode: float, high: float) -> Any:
    """Triangle with its top at the mode."""
    from scipy import stats

    _need(
        low <= mode <= high and low < high, "triangular", "low <= mode <= high", low=low, mode=mode, high=high
    )
    return stats.triang((mode - low) / (high - low), loc=low, scale=high - low)


def truncnormal(mean: float, sd: float, low: float = -math.inf, high: float = math.inf) -> Any:
    """Gaussian cut at two bounds; mean and sd are those before the cut."""
    from scipy import stats

    _need(sd > 0 and low < high, "truncnormal", "sd > 0 and low < high", sd=sd, low=low, high=high)
    return stats.truncnorm((low - mean) / sd, (high - mean) / sd, loc=mean, scale=sd)


LAWS: dict[str, Callable[..., Any]] = {
    law.__name__: law
    for law in (uniform, loguniform, normal, lognormal, gamma, beta, exponential, triangular, truncnormal)
}


_SHAPES = {"uniform": (), "norm": (), "lognorm": ("s",)}


def quick(marginal: Marginal) -> tuple[Quantile, Quantile] | None:
    """Return the inverse and the distribution function of the commonest laws without SciPy's checks, else None.

    The same operations in the same order, hence the same bits; on a hundred points SciPy takes twenty times as long.
    The inverse takes numbers between 0 and 1 only.
    """
    dist = getattr(marginal, "dist", None)
    name = getattr(dist, "name", "")
    if name not in _SHAPES or not type(dist).__module__.startswith("scipy."):
        return None
    frozen: Any = marginal
    if any(np.ndim(value) for value in (*frozen.args, *frozen.kwds.values())):
        return None
    order = (*_SHAPES[name], "loc", "scale")
    given = {"loc": 0.0, "scale": 1.0, **dict(zip(order, frozen.args, strict=False)), **frozen.kwds}
    loc, scale = float(given["loc"]), float(given["scale"])
    if name == "uniform":
        return (lambda u: u * scale + loc), (lambda x: np.clip((x - loc) / scale, 0.0, 1.0))
    if name == "norm":
        return (lambda u: ndtri(u) * scale + loc), (lambda x: ndtr((x - loc) / scale))
    s = float(given["s"])

    def below(x: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(x <= loc, 0.0, ndtr(np.log((x - loc) / scale) / s))

    return (lambda u: np.exp(s * ndtri(u)) * scale + loc), below


def check_marginal(marginal: Marginal) -> None:
    """Assert the contract of a marginal.

    Monotone distribution, its inverse, and a density that is its derivative.
    """
    u = np.linspace(0.01, 0.99, 99)
    x = np.asarray(marginal.ppf(u))
    assert np.all(np.diff(x) > 0), "ppf is not increasing"
    np.testing.assert_allclose(marginal.cdf(x), u, rtol=0, atol=1e-9)  # round trip of scipy's inversions
    fine = np.linspace(x[0], x[-1], 20001)
    density = np.exp(marginal.logpdf(fine))
    mass = np.sum((density[1:] + density[:-1]) / 2 * np.diff(fine))
    np.testing.assert_allclose(
        mass, 0.98, atol=1e-4
    )  # trapezoids; 20 000 of them on a smooth or kinked density
