"""What all surrogates have in common: their score, by leaving out one run at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tamis.types import Array, Gauss


@dataclass(frozen=True)
class Score:
    """How well runs left out one at a time are predicted, output by output.

    ``q2`` is 1 minus the mean squared error over the variance (NaN for a constant output), ``rmse`` the root of
    the mean squared error, ``worst`` the row of the run that is predicted worst, in units of each output's spread.
    """

    q2: Array  # (m,)
    rmse: Array  # (m,)
    worst: int
    residuals: Array  # (n, m), simulated minus predicted without that run


def score(y: Array, residuals: Array) -> Score:
    """Make a score from leave-one-out residuals (n, m) of outputs y (n, m)."""
    mse = np.mean(residuals**2, axis=0)
    variance = y.var(axis=0)
    constant = variance <= 1e-24 * np.maximum(np.mean(y**2, axis=0), 1e-300)
    spread = np.where(constant, 1.0, np.sqrt(variance))
    q2 = np.where(constant, np.nan, 1 - mse / np.where(constant, 1.0, variance))
    worst = int(np.argmax(np.max(np.abs(residuals) / spread, axis=1)))
    return Score(q2, np.sqrt(mse), worst, residuals)


class Surrogate(Protocol):
    """A fitted stand-in for the simulator: there is no unfitted state."""

    @property
    def score(self) -> Score:
        """How well it predicts runs it has not seen."""

    def predict(self, u: Array) -> Gauss:
        """Return means and variances, (n, m) each, at points of the unit cube, (n, d)."""
