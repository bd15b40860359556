"""Normal scores of the prior, the coordinates in which samplers move.

A point's scores z are the normal quantiles of its place in the unit cube. In them the prior is a standard Gaussian
without walls whatever its marginals, so that a bounded or a skewed parameter needs no treatment of its own.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from scipy.special import ndtr, ndtri

from tamis.errors import StudyError, TamisWarning
from tamis.space import Space
from tamis.types import Array, LogDensity

NAN = "the log-likelihood is not a number"  # of the warning
EDGE = 8.2  # scores beyond it leave the unit cube in floating point; the prior's mass there is 2e-16


def from_unit(u: Array) -> Array:
    """Return the scores of points of the unit cube, (n, d)."""
    z: Array = np.clip(ndtri(u), -EDGE, EDGE)
    return z


def physical(space: Space, z: Array) -> Array:
    """Return the physical points (n, d) of scores."""
    return space.from_unit(ndtr(z))


class Target:
    """The log-likelihood as a function of scores, minus infinity beyond the edge; it counts what is not a number.

    A likelihood that is not a number is treated as zero, which is right for a model that has no answer and hides a
    mistake elsewhere. So samplers keep the count in their state, and `tell_nan` warns of it.
    """

    def __init__(self, space: Space, loglike: LogDensity) -> None:
        self._space, self._loglike = space, loglike
        self.nan = 0  # points so far

    def __call__(self, z: Array) -> Array:
        """Map scores (n, d) to (n,) log-likelihoods."""
        outside = np.abs(z).max(axis=1) > EDGE
        x = physical(self._space, np.where(outside[:, None], 0.0, z))
        values: Array = np.asarray(self._loglike(x), dtype=np.float64)
        if values.shape != (len(z),):
            raise StudyError(
                f"the log-likelihood of {len(z)} points must have shape ({len(z)},), found {values.shape}"
            )
        if np.isposinf(values).any():
            where = zip(self._space.names, x[int(np.argmax(values))], strict=True)
            raise StudyError(
                f"the log-likelihood is infinite at {', '.join(f'{name} = {v:.6g}' for name, v in where)}; "
                "give the noise a lower bound"
            )
        unknown = np.isnan(values)
        self.nan += int((unknown & ~outside).sum())
        return np.where(outside | unknown, -np.inf, values)


def tell_nan(nan: int, calls: int) -> None:
    """Tell the user of log-likelihoods that are not numbers, so many of the points asked for."""
    if nan:
        warnings.warn(
            f"{NAN} (NaN) at {nan} of {calls} points, where it was treated as likelihood "
            "zero; look at the model's answers and the sizes of errors there, and give minus infinity where zero is "
            "meant",
            TamisWarning,
            stacklevel=4,
        )


def log_prior(z: Array) -> Array:
    """Return the log density of the prior at scores (n, d), with respect to scores."""
    density: Array = -0.5 * (z**2).sum(axis=1) - 0.5 * z.shape[1] * math.log(2 * math.pi)
    return density
