"""Prediction in a case with a closed form: a linear model, a Gaussian posterior, known errors."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

import tamis
from tamis.inference.posterior import Posterior
from tamis.types import Gauss

SPACE = tamis.Space(
    (tamis.Parameter("a", tamis.normal(0.0, 1.0)), tamis.Parameter("s", tamis.uniform(0.1, 2.0)))
)
T = np.array([0.0, 1.0, 2.0])
TEST = tamis.Experiment(
    "line", {}, (tamis.Observation(tamis.at("w", T), np.zeros(3), tamis.Gaussian("s"), coord=T),)
)


class Line:
    reads = ("a",)

    def __call__(self, x):
        return Gauss(x * T, np.zeros((len(x), 3)))


def posterior(n=100_000):
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(1.0, 0.2, n), np.full(n, 0.5)])
    return Posterior(SPACE, x[None], np.zeros((1, n)), np.zeros((1, n)))


@pytest.mark.statistical  # 1e5 draws: 1 % is more than five standard errors of a standard deviation (0.22 %)
def test_parameter_and_total_uncertainty_are_kept_apart():
    p = tamis.predict(posterior(), Line(), TEST, n=100_000, rng=np.random.default_rng(1))
    assert p.mean == pytest.approx(1.0 * T, abs=0.005)
    assert p.sd_model == pytest.approx(0.2 * T, rel=0.01, abs=1e-12)
    assert p.sd_total == pytest.approx(np.sqrt(0.25 + (0.2 * T) ** 2), rel=0.01)
    assert p.draws.std(axis=0) == pytest.approx(p.sd_total, rel=0.015)
    low, high = p.quantile((0.05, 0.95))
    assert (high - low) / 2 == pytest.approx(1.645 * p.sd_total, rel=0.02)


@pytest.mark.statistical
def test_a_prior_predicts_too():
    p = tamis.predict(SPACE, Line(), TEST, n=100_000, rng=np.random.default_rng(2))
    assert p.sd_model == pytest.approx(1.0 * T, rel=0.015, abs=1e-12)


def test_quantiles_of_the_total_are_those_of_the_mixture():
    # one draw: a plain Gaussian; the 5 and 95 % points of the normal law to the bisection's accuracy
    one = tamis.Predictive(T, np.array([[1.0, 2.0, 3.0]]), np.zeros((1, 3)), np.array([[4.0, 0.25, 0.0]]))
    middle, high = one.quantile((0.5, 0.95))
    assert high - middle == pytest.approx(1.6448536 * np.array([2.0, 0.5, 0.0]), abs=1e-6)
    assert middle == pytest.approx([1.0, 2.0, 3.0]) and one.quantile(0.5) == pytest.approx([1.0, 2.0, 3.0])
    # two equal, far apart: the 25 % point is the lower one's median
    two = tamis.Predictive(None, np.array([[0.0], [100.0]]), np.zeros((2, 1)), np.ones((2, 1)))
    assert two.quantile(0.25) == pytest.approx([0.0], abs=1e-6)


def test_coverage_counts_what_is_there():
    p = tamis.predict(posterior(2000), Line(), TEST, n=2000, rng=np.random.default_rng(3))
    assert p.coverage(np.array([0.0, np.nan, 50.0])) == 0.5
    assert np.isnan(p.coverage(np.full(3, np.nan)))


def test_failed_draws_are_counted_and_left_out():
    class Sick(Line):
        def __call__(self, x):
            mean = x * T
            mean[::4] = np.nan
            return Gauss(mean, np.zeros_like(mean))

    p = tamis.predict(posterior(400), Sick(), TEST, n=400, rng=np.random.default_rng(4))
    assert p.failed == 100 and len(p.model) == 300 and np.isfinite(p.draws).all()


def test_mixing_follows_the_weights():
    rng = np.random.default_rng(5)
    zero, one = (
        tamis.Predictive(T, np.full((1000, 3), v), np.full((1000, 3), v), np.zeros((1000, 3)))
        for v in (0.0, 1.0)
    )
    mixed = tamis.mix((zero, one), (0.25, 0.75), rng)
    assert len(mixed.draws) == 1000 and mixed.mean == pytest.approx(0.75)
    # law of total variance: p (1 - p) between the two models
    assert mixed.sd_total == pytest.approx(np.sqrt(0.25 * 0.75))


def test_exceedance_of_one_draw_is_the_normal_law():
    one = tamis.Predictive(T, np.array([[1.0, 2.0, 3.0]]), np.zeros((1, 3)), np.array([[4.0, 0.25, 0.0]]))
    # one standard deviation above, at, and without errors: 1 - Phi(1), 1/2, certainty
    assert one.exceedance(np.array([3.0, 2.0, 2.9])) == pytest.approx([0.158655254, 0.5, 1.0], abs=1e-9)
    assert one.exceedance(2.0, total=False) == pytest.approx([0.0, 0.0, 1.0])
    assert one.exceedance(3.0)[2] == 0.0  # above means above


def test_exceedance_and_quantiles_are_of_one_distribution():
    rng = np.random.default_rng(6)
    model, variance = rng.normal(size=(50, 3)), rng.exponential(size=(50, 3))
    p = tamis.Predictive(T, model, model, variance, bias=rng.normal(size=(50, 3)))
    for share in (0.01, 0.5, 0.95):
        # bisection: 3e-14 of a bracket below 100 wide, times a density below 1
        assert p.exceedance(p.quantile(share)) == pytest.approx(1 - share, abs=1e-11)


@pytest.mark.statistical  # four standard errors
def test_exceedance_of_a_linear_model_is_that_of_the_total_standard_deviation():
    p = tamis.predict(posterior(), Line(), TEST, n=20_000, rng=np.random.default_rng(7))
    level = 1.2
    found, error = p.exceedance(level), p.exceedance_error(level)
    exact = ndtr((1.0 * T - level) / np.sqrt(0.25 + (0.2 * T) ** 2))
    assert np.all(np.abs(found - exact) <= 4 * error + 1e-12)
    alone, alone_error = p.exceedance(level, total=False), p.exceedance_error(level, total=False)
    assert np.all(np.abs(alone[1:] - ndtr((1.0 - level / T[1:]) / 0.2)) < 4 * alone_error[1:])
    # a count of drawn errors scatters more: sqrt(p (1 - p) / n)
    assert np.all(error < np.sqrt(exact * (1 - exact) / 20_000))


def test_exceedance_error_is_that_of_a_mean_over_the_draws():
    two = tamis.Predictive(None, np.array([[0.0], [100.0]]), np.zeros((2, 1)), np.ones((2, 1)))
    assert two.exceedance(50.0) == pytest.approx([0.5])
    assert two.exceedance_error(50.0) == pytest.approx([0.5 / math.sqrt(2)])
    assert two.exceedance_error(50.0, total=False) == pytest.approx([0.5 / math.sqrt(2)])
    assert two.exceedance_error(-50.0) == pytest.approx([0.0])  # both agree


def test_errors_with_a_mean_shift_the_total_and_not_the_model():
    class Shifted(tamis.Gaussian):
        def bias(self, m):
            return np.arange(1.0, m + 1.0)

    shifted = tamis.Experiment(
        "line", {}, (tamis.Observation(tamis.at("w", T), np.zeros(3), Shifted("s"), coord=T),)
    )
    plain, moved = (
        tamis.predict(posterior(500), Line(), test, n=500, rng=np.random.default_rng(8))
        for test in (TEST, shifted)
    )
    shift = np.array([1.0, 2.0, 3.0])
    assert np.array_equal(moved.model, plain.model)
    assert moved.draws == pytest.approx(plain.draws + shift)  # the same errors drawn
    assert moved.mean == pytest.approx(plain.mean + shift)
    assert moved.sd_total == pytest.approx(plain.sd_total) and moved.sd_model == pytest.approx(plain.sd_model)
    # 1e-9: far above the bisection's 3e-14 of a bracket of some 10
    assert moved.quantile(0.9) == pytest.approx(plain.quantile(0.9) + shift, abs=1e-9)
    assert moved.quantile(0.9, total=False) == pytest.approx(plain.quantile(0.9, total=False))
    assert moved.exceedance(1.0 + shift) == pytest.approx(plain.exceedance(1.0))
    assert moved.exceedance(1.0, total=False) == pytest.approx(plain.exceedance(1.0, total=False))
    last = moved.part([2], None)
    assert last.mean == pytest.approx(moved.mean[2:])
    assert last.exceedance(2.0) == pytest.approx(moved.exceedance(2.0)[2:])


def test_mixing_keeps_exceedance_and_the_mean_of_the_errors():
    still, moved = (
        tamis.Predictive(T, np.zeros((1000, 3)), np.zeros((1000, 3)), np.ones((1000, 3)), bias=bias)
        for bias in (0.0, np.full((1000, 3), 2.0))
    )
    mixed = tamis.mix((still, moved), (0.25, 0.75), np.random.default_rng(9))
    assert mixed.exceedance(2.0) == pytest.approx(0.25 * ndtr(-2.0) + 0.75 * 0.5)
    assert mixed.mean == pytest.approx(1.5)
    # eq 15: variance of the errors, plus p (1 - p) of the square of what lies between the models
    assert mixed.sd_total == pytest.approx(np.sqrt(1 + 0.25 * 0.75 * 4)) and mixed.sd_model == pytest.approx(
        0
    )
