"""Weighing models: evidences, probabilities, Bayes factors, and a check that nested models must pass."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tamis.errors import StudyError
from tamis.inference.posterior import Posterior
from tamis.types import Array, Table

_NEAR = 30  # draws within two kernel widths of a value before a density there is worth anything


def model_probabilities(log_evidence: Array, prior: Array | None = None) -> Array:
    """Posterior probabilities of models, by Bayes' rule; equal prior probabilities unless given."""
    logs = np.asarray(log_evidence, dtype=float) + (0.0 if prior is None else np.log(prior))
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def compare(posteriors: Mapping[str, Posterior]) -> Table:
    """Log evidence with its error, probability with its error, Bayes factor against the best.

    The error of a probability follows from the evidences' errors to first order.
    """
    missing = [name for name, posterior in posteriors.items() if posterior.log_evidence is None]
    if missing:
        raise StudyError(
            f'{", ".join(missing)}: the sampler gave no evidence; use method = "tmcmc" to compare models'
        )
    evidence = np.array([p.log_evidence for p in posteriors.values()], dtype=float)
    p = model_probabilities(evidence[:, 0])
    jacobian = np.diag(p) - np.outer(p, p)  # dp_i / dlogZ_j
    errors = np.sqrt((jacobian**2) @ evidence[:, 1] ** 2)
    rows = tuple(
        (
            name,
            *map(float, evidence[i]),
            float(p[i]),
            float(errors[i]),
            float(evidence[i, 0] - evidence[:, 0].max()),
        )
        for i, name in enumerate(posteriors)
    )
    return Table(
        ("model", "log evidence", "error", "probability", "its error", "log Bayes factor to best"), rows
    )


def density_at(
    draws: Array, value: float, low: float = -math.inf, high: float = math.inf
) -> tuple[float, float]:
    """Density of a sample at a value and its standard error; NaN where too few draws lie near to tell.

    Gaussian kernels, mirrored at the bounds of the law.
    """
    n = len(draws)
    spread = min(draws.std(ddof=1), float(np.subtract(*np.quantile(draws, (0.75, 0.25)))) / 1.349)
    width = 0.9 * spread * n**-0.2  # Silverman 1986, eq 3.31
    if (np.abs(draws - value) < 2 * width).sum() < _NEAR:
        return math.nan, math.inf
    heights = _bump(draws, value, width)
    for edge in (low, high):
        if math.isfinite(edge):
            heights = heights + _bump(2 * edge - draws, value, width)
    return float(heights.mean()), float(heights.std(ddof=1) / math.sqrt(n))


def _bump(centre: Array, value: float, width: float) -> Array:
    return np.asarray(np.exp(-0.5 * ((value - centre) / width) ** 2) / (width * math.sqrt(2 * math.pi)))


def nested_check(
    inner: Posterior, outer: Posterior, name: str, value: float
) -> tuple[float, float, float, float]:
    """Check two evidences against each other: the inner model is the outer one with ``name`` held at ``value``.

    With the same other priors, log Z(inner) - log Z(outer) = log of the posterior over the prior density of
    that parameter at that value (Dickey 1971, 10.1214/aoms/1177693507). Returns both sides, each with its
    standard error; the second is NaN where the value lies too far in the tail for the draws to tell.
    """
    if inner.log_evidence is None or outer.log_evidence is None:
        raise StudyError("both models need an evidence for the nested check")
    parameter = outer.space.parameters[outer.space.index(name)]
    column = outer.flat[:, outer.space.index(name)]
    low, high = (float(v) for v in parameter.prior.ppf(np.array([0.0, 1.0])))
    density, error = density_at(column, value, low, high)
    ess = float(outer.diagnostics.get("ess", np.full(outer.space.dim, len(column)))[outer.space.index(name)])
    error *= math.sqrt(max(1.0, len(column) / max(ess, 1.0)))
    prior = float(parameter.prior.logpdf(np.array([value]))[0])
    difference = inner.log_evidence[0] - outer.log_evidence[0]
    spread = math.hypot(inner.log_evidence[1], outer.log_evidence[1])
    return difference, spread, math.log(density) - prior, error / density
