"""Normal scores of the prior, the coordinates in which samplers move.

A point's scores z are the normal quantiles of its place in the unit cube. In them the prior is a standard Gaussian
without walls whatever its marginals, so that a bounded or a skewed parameter needs no treatment of its own.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri

from tamis.errors import StudyError
from tamis.space import Space
from tamis.types import Array, LogDensity

EDGE = 8.2  # scores beyond it leave the unit cube in floating point; the prior's mass there is 2e-16


def from_unit(u: Array) -> Array:
    """Return the scores of points of the unit cube, (n, d)."""
    z: Array = np.clip(ndtri(u), -EDGE, EDGE)
    return z


def physical(space: Space, z: Array) -> Array:
    """Return the physical points (n, d) of scores."""
    return space.from_unit(ndtr(z))


def target(space: Space, loglike: LogDensity) -> LogDensity:
    """Return the log-likelihood as a function of scores; it is zero beyond the edge."""

    def of_scores(z: Array) -> Array:
        outside = np.abs(z).max(axis=1) > EDGE
        x = physical(space, np.where(outside[:, None], 0.0, z))
        values: Array = np.asarray(loglike(x), dtype=np.float64)
        if values.shape != (len(z),):
            raise StudyError(
                f"the log-likelihood of {len(z)} points must have shape ({len(z)},), found {values.shape}"
            )
        if np.isposinf(values).any():
            raise StudyError("the log-likelihood is infinite at some points; give the noise a lower bound")
        return np.where(outside | np.isnan(values), -np.inf, values)

    return of_scores


def log_prior(z: Array) -> Array:
    """Return the log density of the prior at scores (n, d), with respect to scores."""
    density: Array = -0.5 * (z**2).sum(axis=1) - 0.5 * z.shape[1] * math.log(2 * math.pi)
    return density
