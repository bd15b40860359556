"""Prediction in a case with a closed form: a linear model, a Gaussian posterior, known errors."""

import numpy as np
import pytest

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
