"""Several surrogates side by side answer as each would alone."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.errors import StudyError
from tamis.files import save_arrays
from tamis.surrogates.joined import Joined, Part
from tamis.surrogates.kriging import fit_kriging
from tamis.surrogates.pce import fit_pce
from tamis.surrogates.reduced import fit_reduced


@pytest.fixture(scope="module")
def pieces():
    rng = np.random.default_rng(3)
    u = rng.random((50, 2))
    t = np.linspace(0, 1, 30)
    numbers = np.column_stack([u[:, 0] ** 2, np.sin(3 * u[:, 1])])
    signal = np.exp(-((t - u[:, :1]) ** 2) * 8) * (1 + u[:, 1:])
    rows = np.arange(5, 50)  # five runs of the third output failed
    third = u.sum(axis=1) + 0.1 * u[:, 0] * u[:, 1]
    pce = fit_pce(u, numbers)
    kriging = fit_kriging(u[rows], third[rows], rng=rng)
    reduced = fit_reduced(u, signal, fit_pce, energy=0.99)
    parts = (
        Part(pce, np.array([1, 32]), np.arange(50)),
        Part(kriging, np.array([0]), rows),
        Part(reduced, np.r_[2:32], np.arange(50)),
    )
    return Joined(parts, 50, 33), pce, kriging, reduced


def test_each_part_answers_for_its_own_columns(pieces):
    joined, pce, kriging, reduced = pieces
    at = np.random.default_rng(4).random((9, 2))
    found = joined.predict(at)
    np.testing.assert_array_equal(found.mean[:, [1, 32]], pce.predict(at).mean)
    np.testing.assert_array_equal(found.var[:, [0]], kriging.predict(at).var)
    alone = reduced.predict(at)
    np.testing.assert_array_equal(found.mean[:, 2:32], alone.mean)
    np.testing.assert_array_equal(found.modes[:, 2:32], alone.modes)
    np.testing.assert_array_equal(found.weight, alone.weight)
    assert not found.modes[:, [0, 1, 32]].any()


def test_scores_are_the_parts_and_unused_runs_have_none(pieces):
    joined, pce, kriging, _ = pieces
    assert joined.score.q2[32] == pce.score.q2[1]
    assert joined.score.rmse[0] == kriging.score.rmse[0]
    assert np.isnan(joined.score.residuals[:5, 0]).all() and np.isfinite(joined.score.residuals[5:, 0]).all()
    assert 0 <= joined.score.worst < 50


def test_saved_and_loaded(pieces, tmp_path):
    joined = pieces[0]
    save_arrays(tmp_path / "s.npz", {**joined.arrays(), "u": np.ones((50, 2))})
    again = Joined.load(tmp_path / "s.npz")
    at = np.random.default_rng(5).random((4, 2))
    for one, two in zip(joined.predict(at), again.predict(at), strict=True):
        np.testing.assert_array_equal(one, two)
    np.savez(tmp_path / "other.npz", x=1)
    with pytest.raises(StudyError, match="holds no surrogate"):
        Joined.load(tmp_path / "other.npz")
