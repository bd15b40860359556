"""What is rounding and what is variance, and that a score which cannot be judged is so in the whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tamis.surrogates.base import Score, Surrogate, score, varies
from tamis.surrogates.enrich import scaled_worth
from tamis.surrogates.joined import Joined, Part
from tamis.surrogates.pce import fit_pce
from tamis.surrogates.reduced import fit_reduced
from tamis.types import Array, Gauss


@pytest.fixture
def x() -> Array:
    return np.random.default_rng(3).random((50, 1))


def test_an_offset_is_no_reason_to_call_an_output_constant(x: Array) -> None:
    y = np.hstack([1e12 + x, 1e12 + 0 * x, x, 0 * x, 1e-200 * x])
    assert varies(y).tolist() == [True, False, True, False, False]
    found = score(y[:, :3], 0.1 * np.hstack([x, 0 * x, x]))
    # the mean square of 0.1 x over the variance of x is the same with the offset, to the four digits that 1e12 leaves
    assert np.isnan(found.q2[1]) and found.q2[0] == pytest.approx(found.q2[2], abs=1e-4)
    worth = scaled_worth(y[:, :3])
    assert worth[1] == 0 and worth[0] == pytest.approx(worth[2], rel=1e-3)


def test_the_last_digits_of_a_constant_are_rounding(x: Array) -> None:
    y = 1.25 * np.sqrt(1 + x) * (1 / np.sqrt(1 + x))
    assert np.ptp(y) > 0 and not varies(y)[0]
    assert not varies(1e12 + 1e-4 * x)[0]  # one ulp of 1e12
    y[3] = np.nan
    assert not varies(y)[0] and varies(np.where(np.isnan(y), y, x))[0]


@dataclass(frozen=True)
class _Unjudged:
    """A surrogate of too few runs."""

    inner: Surrogate

    @property
    def score(self) -> Score:
        return replace(self.inner.score, judged=False)

    def predict(self, u: Array) -> Gauss:
        return self.inner.predict(u)

    def arrays(self) -> dict[str, Any]:
        return self.inner.arrays()


def test_a_whole_is_judged_only_where_all_its_parts_are(x: Array) -> None:
    rows = np.arange(50)
    good = fit_pce(x, x)
    poor = _Unjudged(good)
    parts = [Part(one, np.array([i]), rows) for i, one in enumerate((good, poor))]
    assert not Joined(tuple(parts), 50, 2).score.judged
    assert Joined((parts[0],), 50, 2).score.judged == good.score.judged
    signal = np.sin(3 * x * np.linspace(0, 1, 30))
    assert not fit_reduced(x, signal, lambda u, y: _Unjudged(fit_pce(u, y))).score.judged
