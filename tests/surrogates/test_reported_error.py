"""The error that a polynomial chaos reports of itself, beside the true one: tails of the inputs, and a battery."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tamis.surrogates.pce import fit_pce
from tests.battery import FUNCTION, Function


def test_tails_that_no_run_reached_are_told_and_widen_the_band() -> None:
    """Lognormal inputs, 100 runs: 0.06 of the true error was reported, and 0.4 of the highest outputs were inside."""
    tails = FUNCTION["heavy tails"]
    points, truth = tails.test()
    top, ratios, inside = truth > np.quantile(truth, 0.99), [], []
    told = 0
    for seed in range(5):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = fit_pce(*tails.runs(100, seed), marginals=tails.laws)
        told += any("tails of the inputs" in str(w.message) for w in caught)
        mean, var = model.predict(points)[:2]
        miss = mean[:, 0] - truth
        ratios.append(model.mse[0] / np.mean(miss**2))
        inside.append(np.mean(np.abs(miss[top]) < 1.96 * np.sqrt(var[top, 0])))
    assert told >= 3
    # 0.57 here, 0.05 before; with a decade of scatter five designs know it to a factor of two and a half
    assert 0.2 < np.exp(np.mean(np.log(ratios))) < 5
    assert np.mean(inside) > 0.6  # 0.76 over 25 designs


@pytest.mark.filterwarnings("ignore:Polynomial chaos of output")
def test_error_in_the_tails_is_that_of_an_output_which_grows_on() -> None:
    """Two designs of lognormal inputs, told at 0.16 and 15 times the error from the signs of coefficients."""
    for seed in (1, 6):
        assert (
            0.5 < _over_law(FUNCTION["heavy tails"], 200, seed) < 2
        )  # 0.70 and 1.46; how a tail goes on is a guess


def _over_law(function: Function, n: int, seed: int) -> float:
    """Return the error reported over the true one, tails included."""
    points, truth, weight = function.over_law()
    model = fit_pce(*function.runs(n, seed), marginals=function.laws)
    return float(model.mse[0] / np.average((model.predict(points).mean[:, 0] - truth) ** 2, weights=weight))


TAILS = [
    ("heavy tails", 100, 1.8),
    ("heavy tails", 200, 2.4),
    ("mixed laws", 100, 3.0),
    ("mixed laws", 200, 3.8),
]


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore:Polynomial chaos of output")
@pytest.mark.parametrize(("name", "n", "most"), TAILS)
def test_reported_error_with_tails(name: str, n: int, most: float) -> None:
    """Twenty designs, whose medians are known to a factor of 1.5 at 200 runs.

    Four sets of twenty gave medians of 0.9, 1.1, 1.3 and 2.0 with lognormal inputs, and 2.4 to 3.2 with gamma and
    normal ones beside, where the second story errs on the safe side.
    """
    ratios = np.array([_over_law(FUNCTION[name], n, seed) for seed in range(500, 520)])
    assert 0.8 / 1.2 < np.median(ratios) < most
    assert np.mean(ratios > 0.6) >= 0.7  # measured on other designs: 0.75 to 1
    assert np.mean(ratios < 10) >= 0.9


BATTERY = [
    ("OTL", 100),
    ("piston", 100),
    ("borehole", 100),
    ("wing", 100),
    ("Sobol G", 100),
    ("four kinks", 100),
    ("eight kinks", 100),
    ("varying length", 100),
    ("robot arm", 100),
    ("Morris", 100),
    ("four kinks", 200),
    ("robot arm", 200),
    ("Sobol G", 200),
]


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("name", "n"), BATTERY)
def test_reported_error_over_the_battery(name: str, n: int) -> None:
    """Twenty designs; a median of twenty ratios that scatter by a factor of 1.6 is known to 15 %."""
    function = FUNCTION[name]
    points, truth = function.test()
    ratios = []
    for seed in range(200, 220):
        u, y = function.runs(n, seed)
        model = fit_pce(u, y)
        ratios.append(model.mse[0] / np.mean((model.predict(points).mean[:, 0] - truth) ** 2))
    assert 0.8 / 1.15 < np.median(ratios) < 1.5 * 1.15
    assert np.mean(np.array(ratios) > 0.6) >= 0.8  # 0.9 within what twenty designs tell
