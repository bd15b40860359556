"""What all surrogates have in common: their score, by leaving out one run at a time, and their files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from tamis.errors import StudyError
from tamis.files import load_arrays
from tamis.types import Array, Gauss

Made = TypeVar("Made")


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


def score_arrays(found: Score) -> dict[str, Any]:
    """Return a score as arrays, for a file."""
    return {f"score_{name}": np.asarray(getattr(found, name)) for name in found.__dataclass_fields__}


def score_of(arrays: Mapping[str, Any]) -> Score:
    """Make a score again from what `score_arrays` returned."""
    worst = int(arrays["score_worst"])
    return Score(arrays["score_q2"], arrays["score_rmse"], worst, arrays["score_residuals"])


class Surrogate(Protocol):
    """A fitted stand-in for the simulator: there is no unfitted state."""

    @property
    def score(self) -> Score:
        """How well it predicts runs it has not seen."""

    def predict(self, u: Array) -> Gauss:
        """Return means and variances, (n, m) each, at points of the unit cube, (n, d)."""

    def arrays(self) -> dict[str, Any]:
        """Return all there is as arrays, for a file; the classmethod ``of`` makes it again."""


def read(path: Path, make: Callable[[Mapping[str, Any]], Made], what: str) -> Made:
    """Read a surrogate's file; say so if it is none."""
    arrays = load_arrays(path)
    try:
        return make(arrays)
    except (KeyError, ValueError) as error:
        raise StudyError(f'"{path}" holds no {what} ({error}); delete it and run again') from error
