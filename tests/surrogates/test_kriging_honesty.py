"""Kriging where it could claim too much: pure noise, rough functions, lesser hills of the likelihood."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import ndtri

import tamis
from tamis.surrogates.kriging import Kriging, coordinates, fit_kriging, functions
from tamis.surrogates.process import Likelihood
from tamis.surrogates.tails import _objective
from tamis.types import Array
from tests.battery import FUNCTION
from tests.surrogates.test_kriging import bumps


def rng(seed: int | list[int] = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def of_noise(n: int, d: int, draws: int) -> Array:
    """Return what is claimed to be explained of pure noise."""
    claimed = []
    for seed in range(draws):
        y = 7 + rng(seed).standard_normal(n)
        model = fit_kriging(tamis.sobol(n, d, rng([seed, d])), y, rng=rng())
        claimed.append(model.score.q2[0])
        if model.variance[0] == 0:
            found = model.predict(rng(1).random((5, d)))
            np.testing.assert_allclose(found.mean, y.mean(), rtol=1e-12)
            np.testing.assert_allclose(found.var, y.var(), rtol=0.05)  # and the mean's own error
            assert claimed[-1] <= 0
    return np.array(claimed)


@pytest.mark.statistical
@pytest.mark.parametrize("d", [2, 10, 20])
def test_of_pure_noise_nothing_is_claimed(d: int) -> None:
    # left out with the lengths kept, 60 runs in 10 and 20 inputs claimed 0.16 and 0.41 in the median of 20 draws
    claimed = of_noise(60, d, 3)
    assert np.median(claimed) <= 0.05 and claimed.max() < 0.2


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("n", "d"), [(60, 1), (60, 2), (60, 5), (60, 10), (60, 20), (100, 5), (100, 20)])
def test_of_pure_noise_nothing_is_claimed_in_fifty_draws(n: int, d: int) -> None:
    assert np.mean(of_noise(n, d, 50) <= 0.1) >= 0.95


def test_the_error_is_that_of_points_which_are_no_runs() -> None:
    # for any seed that a design may have; at the runs themselves the variance is zero
    for seed in range(3):
        u = tamis.sobol(64, 2, rng(seed))
        model = fit_kriging(u, bumps(u), nugget=0.0, rng=rng())
        error = model.mean(rng(9).random((500, 2)))[:, 0] - bumps(rng(9).random((500, 2)))
        assert model.score.rmse[0] ** 2 > 0.3 * np.mean(error**2)


@pytest.mark.statistical
def test_bands_of_a_rough_function_hold() -> None:
    # what a smooth function cannot follow is part of the error
    function = FUNCTION["four kinks"]
    v, truth = function.test(2000)
    inside = []
    for seed in range(5):
        model = fit_kriging(*function.runs(50, seed), rng=rng())
        error = np.abs(model.mean(v)[:, 0] - truth)
        x = coordinates(v, model.families)
        smooth = model.processes[0].predict(x, functions("constant", x))[1]
        variances = (model.predict(v).var[:, 0], smooth)
        inside.append([np.mean(error < 1.96 * np.sqrt(var)) for var in variances])
    with_noise, without = np.median(inside, axis=0)
    # five designs gave 0.72 to 0.97; the smooth function's own error alone holds clearly less
    assert with_noise > 0.88 and with_noise > without + 0.03


def judged(name: str, n: int, seeds: Iterable[int]) -> Array:
    """Return reported over true mean squared error, and the share of the highest 1 % that 95 % bands hold, of fits."""
    function = FUNCTION[name]
    v, truth, weight = function.over_law()
    w, seen = function.test()
    top = seen >= np.quantile(seen, 0.99)
    answer = []
    for seed in seeds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tamis.TamisWarning)
            model = fit_kriging(*function.runs(n, seed), marginals=function.laws, rng=rng())
        true = np.mean(weight * (model.mean(v)[:, 0] - truth) ** 2)
        found = model.predict(w[top])
        inside = np.abs(found.mean[:, 0] - seen[top]) < 1.96 * np.sqrt(found.var[:, 0])
        answer.append([model.score.rmse[0] ** 2 / true, inside.mean()])
    return np.array(answer).T


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["heavy tails", "mixed laws"])
def test_the_error_in_the_tails_is_reported(name: str) -> None:
    # the runs alone tell of 0.006 to 0.04 of it in these designs, and bands held 0.03 to 0.15 of the highest 1 %
    ratio, inside = judged(name, 100, (0, 1))
    assert ((ratio > 0.6) & (ratio < 1.8)).all() and (inside > 0.8).all()


def test_an_error_that_is_a_guess_is_warned_of_and_kept_in_the_file() -> None:
    function = FUNCTION["heavy tails"]
    with pytest.warns(tamis.TamisWarning, match="in the tails of the inputs"):
        model = fit_kriging(*function.runs(60, 0), marginals=function.laws, rng=rng())
    again = Kriging.of(model.arrays())
    v = rng(1).random((20, 3))
    assert np.array_equal(again.predict(v).var, model.predict(v).var)
    assert np.array_equal(again.score.rmse, model.score.rmse)


def test_bounded_inputs_have_no_tails_and_a_straight_output_none_that_matter() -> None:
    u = tamis.sobol(40, 2, rng())
    assert fit_kriging(u, bumps(u), rng=rng()).tails.shape == (1, 0)
    z = np.column_stack([tamis.normal(0.0, 1.0).ppf(column) for column in u.T])
    laws = [tamis.normal(0.0, 1.0)] * 2
    model = fit_kriging(u, z @ [1.0, 0.5] + 0.1 * rng(1).standard_normal(40), marginals=laws, rng=rng())
    assert model.tails[0, 0] < 0.1 and model.of_tails[0] < 0.2 * model.score.rmse[0] ** 2


def test_the_slopes_of_the_second_story_are_those_of_its_objective() -> None:
    u, y = FUNCTION["heavy tails"].runs(30, 0)
    y = (y - y.mean()) / y.std()
    objective = _objective(Likelihood("matern52", u - 0.5, np.ones((30, 1)), y, None))
    theta = np.array([0.3, 0.1, 0.5, -5.0, 0.2, -0.4])
    steps = 1e-5 * np.eye(6)
    slopes = [(objective(theta + h)[0] - objective(theta - h)[0]) / 2e-5 for h in steps]
    np.testing.assert_allclose(objective(theta)[1], slopes, rtol=1e-5)


def test_an_input_cut_far_out_has_the_coordinate_of_its_law() -> None:
    # in its distribution function, vertical at both ends, the error was 0.018 to 0.025 of the variance
    laws = [tamis.truncnormal(0.0, 1.0, -3.1, 3.1), tamis.beta(2.0, 5.0), tamis.triangular(0.0, 0.3, 1.0)]

    def smooth(u: Array) -> Array:
        a, b, c = (law.ppf(column) for law, column in zip(laws, u.T, strict=True))
        answer: Array = np.exp(0.5 * a) * (1 + b) + c**2
        return answer

    u, v = tamis.sobol(64, 3, rng(0)), rng(1).random((2000, 3))
    model = fit_kriging(u, smooth(u), marginals=laws, rng=rng())
    assert np.mean((model.mean(v)[:, 0] - smooth(v)) ** 2) < 2e-4 * smooth(v).var()


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(
    "name",
    [
        "Ishigami",
        "OTL",
        "piston",
        "wing",
        "four kinks",
        "eight kinks",
        "robot arm",
        "heavy tails",
        "mixed laws",
    ],
)
def test_the_error_reported_is_the_true_one(name: str) -> None:
    # mean squared errors of 100 runs, reported over true: ten designs; eight of ten, for nine expected, once in four
    ratio, inside = judged(name, 100, range(100, 110))
    assert 0.8 < np.median(ratio) < 1.5 and np.sum(ratio > 0.6) >= 8
    assert np.median(inside) > 0.8 or FUNCTION[name].laws is None


def shortfall(name: str, n: int, noise: float, restarts: int) -> float:
    """Return by how much the log-likelihood found is below the best of climbs from random starts, all runs used."""
    u, y = FUNCTION[name].runs(n, 0, noise)
    d, z = u.shape[1], (y - y.mean()) / y.std()
    likelihood = Likelihood("matern52", u - 0.5, np.ones((n, 1)), z, None)
    low, high = np.log([*[1 / n] * d, 1e-12]), np.log([*[1e3] * d, 1e3])
    draws, best = rng(99), np.inf
    for _ in range(restarts):
        start = np.append(draws.uniform(np.log(0.1), np.log(30), d), draws.uniform(np.log(1e-8), np.log(0.3)))
        bounds = list(zip(low, high, strict=True))
        climbed = minimize(likelihood.value_and_gradient, start, jac=True, method="L-BFGS-B", bounds=bounds)
        best = min(best, float(climbed.fun))
    models = [fit_kriging(u, y, rng=rng(seed)) for seed in range(2)]
    found = [
        likelihood.value(np.log([*model.length[0], model.noise[0, 0] / model.variance[0]]))
        for model in models
    ]
    return (max(found) - best) / 2


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_the_optimum_does_not_depend_on_the_generator(noise: float) -> None:
    # a start compared on 128 runs ended 2 to 16 below, for most generators
    assert shortfall("eight kinks", 200, noise, 6) < 1


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("name", ["wing", "OTL", "varying length", "eight kinks"])
def test_the_optimum_is_that_of_twenty_restarts(name: str, noise: float) -> None:
    assert shortfall(name, 500, noise, 20) < 1


@pytest.mark.filterwarnings("ignore:Kriging of output")
def test_noise_of_replicates_is_not_lost_in_the_tails() -> None:
    """Ten runs at each of 40 points of normal inputs: the second story is judged on means, as the first one is."""
    rng = np.random.default_rng(2)
    u = np.repeat(tamis.lhs(40, 2, rng), 10, axis=0)
    z = ndtri(u)
    y = np.sin(z[:, 0]) + 0.5 * z[:, 1] + rng.standard_normal(len(u))
    fitted = fit_kriging(u, y, marginals=[tamis.normal(0.0, 1.0)] * 2, rng=np.random.default_rng(1))
    new = rng.random((2000, 2))
    truth = np.sin(ndtri(new[:, 0])) + 0.5 * ndtri(new[:, 1]) + rng.standard_normal(2000)
    mean, var = (a[:, 0] for a in fitted.predict(new)[:2])
    assert np.mean(np.abs(truth - mean) < 1.96 * np.sqrt(var)) > 0.92  # of 0.95, by 40 points
    assert fitted.score.rmse[0] == pytest.approx(1.0, abs=0.15)
