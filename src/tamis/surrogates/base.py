"""What all surrogates have in common: their score, by leaving out one point at a time, and their files.

A point, not a run: the runs of one point tell of each other whatever lies between the points, so that a model which
follows every point and nothing else would predict each run from its replicates without error. A score is a number only
where there are some runs for every input: below three points an input a few of many directions fit by chance whatever
is done, and what is left out has no way to tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from tamis.errors import StudyError
from tamis.files import load_arrays
from tamis.types import Array, Gauss, Indices, Mask

Made = TypeVar("Made")

POINTS_PER_INPUT = 3  # below which no score can be judged
_ROUNDING = 32  # ulps of its largest magnitude, up to which the spread of an output is rounding


@dataclass(frozen=True)
class Score:
    """How well runs are predicted without the runs of their point, output by output.

    ``q2`` is 1 minus the mean squared error over the variance (NaN for a constant output), ``rmse`` the root of
    the mean squared error, ``worst`` the row of the run that is predicted worst, in units of each output's spread.
    Where there are too few points to judge by (``judged`` is false), the numbers are not to be shown.
    """

    q2: Array  # (m,)
    rmse: Array  # (m,)
    worst: int
    residuals: Array  # (n, m), simulated minus predicted without the runs of that point
    judged: bool = True


def distinct(u: Array) -> tuple[Indices, Indices]:
    """Return the rows of u (n, d) at which a point occurs for the first time, (k,), and the point of each run, (n,)."""
    _, first, point = np.unique(u, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[point.reshape(-1)]


def judged(points: int, inputs: int) -> bool:
    """Return whether there are points enough for a score to mean anything."""
    return points >= POINTS_PER_INPUT * inputs


def varies(y: Array) -> Mask:
    """Mark the outputs of y (n, m) that spread by more than rounding; NaN where a run failed, no column all of it.

    Rounding is as large as the numbers, whatever their mean square about another origin: 1e12 + x still tells of x
    to four digits.
    """
    there = np.isfinite(y)
    n = np.maximum(there.sum(axis=0), 1)
    centred = np.where(there, y - np.where(there, y, 0.0).sum(axis=0) / n, 0.0)
    return np.asarray(np.sqrt((centred**2).sum(axis=0) / n) > rounding(y))


def rounding(y: Array) -> Array:
    """Return what outputs y (n, m) may be wrong by for being written with 53 bits."""
    largest = np.max(np.where(np.isfinite(y), np.abs(y), 0.0), axis=0, initial=0.0)
    return np.asarray(_ROUNDING * np.finfo(float).eps * largest)


def score(y: Array, residuals: Array, judged: bool = True) -> Score:
    """Make a score from residuals (n, m) of outputs y (n, m), each predicted without the runs of its point."""
    mse = np.mean(residuals**2, axis=0)
    variance = y.var(axis=0)
    constant = ~varies(y) | (variance <= 0)
    spread = np.where(constant, 1.0, np.sqrt(variance))
    q2 = np.where(constant, np.nan, 1 - mse / np.where(constant, 1.0, variance))
    worst = int(np.argmax(np.max(np.abs(residuals) / spread, axis=1)))
    return Score(q2, np.sqrt(mse), worst, residuals, judged)


def score_arrays(found: Score) -> dict[str, Any]:
    """Return a score as arrays, for a file."""
    return {f"score_{name}": np.asarray(getattr(found, name)) for name in found.__dataclass_fields__}


def score_of(arrays: Mapping[str, Any]) -> Score:
    """Make a score again from what `score_arrays` returned."""
    worst = int(arrays["score_worst"])
    judged = bool(arrays.get("score_judged", True))  # files from before it was asked
    return Score(arrays["score_q2"], arrays["score_rmse"], worst, arrays["score_residuals"], judged)


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
