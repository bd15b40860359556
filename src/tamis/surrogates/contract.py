"""The battery that every surrogate, ours or a user's, must pass.

It asks what the rest of tamis relies on: predictions of the right shape, finite, the same for one point as for many;
a straight line found; a score in the promised form; a file that gives the same answers; and for runs that no
design would make, but campaigns with failures and inert inputs do, an answer or a `StudyError`, never a NaN.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from tamis.errors import StudyError
from tamis.files import load_arrays, save_arrays
from tamis.surrogates.base import Surrogate
from tamis.surrogates.reduced import Fit
from tamis.types import Array

_OFFSET, _FACTOR = np.array([3.0, -1.0, 2.0]), np.array([1.0, -5.0, 0.0])  # the last output is constant


def check_surrogate(fit: Fit, *, d: int = 2) -> None:
    """Assert the contract of a surrogate, given the function that fits it to points (n, d) and outputs (n, m)."""
    rng = np.random.default_rng(0)
    u, new = rng.random((20 * d, d)), rng.random((50, d))
    given = u.copy(), _bent(u)
    straight, surrogate = fit(u, _line(u)), fit(*given)
    name = type(surrogate).__name__
    _check_line(name, straight, new)
    _check_score(name, straight, len(u))
    _check_prediction(name, surrogate, new, 3)
    _check_rows(name, surrogate, new)
    _check_file(name, surrogate, new)
    _check_fixed(name, surrogate, given, new)
    _check_hard_runs(name, fit, u, new)


def _line(u: Array) -> Array:
    """Three multiples of one straight line, so that a single principal component has them all."""
    along = u @ np.linspace(1.0, 2.0, u.shape[1])
    line: Array = _OFFSET + along[:, None] * _FACTOR
    return line


def _bent(u: Array) -> Array:
    bent: Array = _line(u) + np.sin(6 * u[:, :1]) * _FACTOR
    return bent


def _check_prediction(name: str, surrogate: Surrogate, u: Array, m: int) -> None:
    found = surrogate.predict(u)
    shape = (len(u), m)
    assert found.mean.shape == shape and found.var.shape == shape, (
        f"{name}: expected means and variances of shape {shape}; found {found.mean.shape}, {found.var.shape}"
    )
    assert np.isfinite(found.mean).all() and np.isfinite(found.var).all(), (
        f"{name}: predictions are not finite"
    )
    assert (found.var >= 0).all(), f"{name}: a variance is negative"
    assert (found.modes is None) == (found.weight is None), f"{name}: modes come with weights, or not at all"
    if found.modes is not None and found.weight is not None:
        k = len(found.modes)
        assert found.modes.shape == (k, m) and found.weight.shape == (len(u), k), (
            f"{name}: expected modes (k, {m}) and weights ({len(u)}, k); "
            f"found {found.modes.shape}, {found.weight.shape}"
        )
        assert np.isfinite(found.modes).all() and np.isfinite(found.weight).all(), (
            f"{name}: modes are not finite"
        )
        assert (found.weight >= 0).all(), f"{name}: the variance of a mode is negative"
    if found.common is not None:
        assert found.common.shape[::2] == (len(u), m) and np.isfinite(found.common).all(), (
            f"{name}: expected finite common errors (n, f, {m}); found {found.common.shape}"
        )


def _check_line(name: str, surrogate: Surrogate, u: Array) -> None:
    _check_prediction(name, surrogate, u, 3)
    # a process with a constant trend comes near a straight line between its runs, but is none beyond them
    wanted, spread = _line(u), np.abs(_FACTOR)
    miss = np.abs(surrogate.predict(u).mean - wanted).max(axis=0)
    assert (miss <= 1e-2 * spread + 1e-9).all(), f"{name}: a straight line is missed by {miss} of {spread}"


def _check_rows(name: str, surrogate: Surrogate, u: Array) -> None:
    many, one = surrogate.predict(u), surrogate.predict(u[7:8])
    spread = np.maximum(np.abs(_FACTOR), 1e-9)
    # products of matrices round differently with the number of rows, and a variance is a small difference
    off = np.abs(many.mean[7] - one.mean[0]) / spread
    assert off.max() <= 1e-6, f"{name}: the mean of one point differs from that in a batch by {off}"
    off = np.abs(np.sqrt(many.var[7]) - np.sqrt(one.var[0])) / spread
    assert off.max() <= 1e-5, (
        f"{name}: the standard deviation of one point differs from that in a batch by {off}"
    )
    assert len(surrogate.predict(u[:0]).mean) == 0, f"{name}: no points should give no predictions"
    try:
        surrogate.predict(np.hstack([u, u]))
    except (StudyError, ValueError):
        return
    raise AssertionError(f"{name} predicts at points of another dimension")


def _check_score(name: str, surrogate: Surrogate, n: int) -> None:
    found = surrogate.score
    assert found.q2.shape == found.rmse.shape == (3,) and found.residuals.shape == (n, 3), (
        f"{name}: expected a score of 3 outputs and {n} runs"
    )
    assert np.isfinite(found.residuals).all() and np.isfinite(found.rmse).all(), (
        f"{name}: its score is not finite"
    )
    assert (found.rmse >= 0).all() and 0 <= found.worst < n, f"{name}: its score is out of range"
    assert (found.q2[:2] > 0.99).all() and (found.q2[:2] <= 1).all(), (
        f"{name}: the q2 of a straight line should be just below 1; found {found.q2[:2]}"
    )
    assert np.isnan(found.q2[2]), f"{name}: the q2 of a constant output is NaN; found {found.q2[2]}"


def _check_file(name: str, surrogate: Surrogate, u: Array) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "surrogate.npz"
        save_arrays(path, surrogate.arrays())
        again = type(surrogate).of(load_arrays(path))  # type: ignore[attr-defined]
    before, after = surrogate.predict(u), again.predict(u)
    for mine, theirs in zip(before, after, strict=True):
        assert np.array_equal(np.asarray(mine), np.asarray(theirs)), (
            f"{name}: predictions change through a file"
        )
    same = np.array_equal(surrogate.score.residuals, again.score.residuals)
    assert same, f"{name}: the score changes through a file"


def _check_fixed(name: str, surrogate: Surrogate, given: tuple[Array, Array], u: Array) -> None:
    before = surrogate.predict(u).mean
    for array in given:
        array[:] = 0.5
    assert np.array_equal(before, surrogate.predict(u).mean), (
        f"{name} changes with the arrays it was fitted to"
    )
    try:
        surrogate.score = None  # type: ignore[misc, assignment]
    except (AttributeError, TypeError):
        return
    raise AssertionError(f"{name}: a fitted surrogate must not be changed; make it a frozen dataclass")


def _check_hard_runs(name: str, fit: Fit, u: Array, new: Array) -> None:
    bent = _bent(u)
    doubled = np.repeat(np.arange(len(u) // 2), 2)
    along = np.repeat(u[:, :1], u.shape[1], axis=1)
    fixed = np.hstack([u[:, :-1], np.full((len(u), 1), 0.5)])
    few = max(u.shape[1] - 1, 1)
    cases = {
        "every run made twice": (u[doubled], bent[doubled]),
        f"{few} runs of {u.shape[1]} inputs": (u[:few], bent[:few]),
        f"{few + 2} runs of {u.shape[1]} inputs": (u[: few + 2], bent[: few + 2]),
        "inputs that vary together": (along, bent),
        "an input that does not vary": (fixed, bent),
        "outputs that do not vary": (u, np.tile(_OFFSET, (len(u), 1))),
        "outputs that are all zero": (u, np.zeros((len(u), 3))),
    }
    for case, (points, outputs) in cases.items():
        try:
            surrogate = fit(points, outputs)
        except StudyError:
            continue
        _check_prediction(f"{name}, {case}", surrogate, new, 3)
        assert np.isfinite(surrogate.score.rmse).all(), f"{name}, {case}: the score is not finite"
    bent[3, 1] = np.nan
    try:
        fit(u, bent)
    except StudyError:
        return
    raise AssertionError(f"{name}: a run that is not finite must be refused with a StudyError")
