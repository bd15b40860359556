"""Model probabilities, nested models, densities: against closed forms."""

import numpy as np
import pytest
from scipy.stats import norm

import tamis
from tamis.inference.compare import density_at, model_probabilities, nested_check
from tamis.inference.posterior import Posterior


def posterior(log_evidence, draws=None, names=("a",)):
    space = tamis.Space(tuple(tamis.Parameter(name, tamis.normal(0.0, 2.0)) for name in names))
    x = np.zeros((1, 10, len(names))) if draws is None else draws[None]
    flat = np.zeros(x.shape[:2])
    return Posterior(space, x, flat, flat, log_evidence)


def test_probabilities_are_bayes_rule():
    # the figures of Hadjidoukas et al. 2014, section 4: evidences 15.46 and 16.39 give 0.28 and 0.72
    assert model_probabilities(np.array([15.46, 16.39])) == pytest.approx([0.28, 0.72], abs=0.005)
    assert model_probabilities(np.array([-1000.0, -1001.0])).sum() == pytest.approx(1.0)
    assert model_probabilities(np.zeros(2), np.array([0.9, 0.1])) == pytest.approx([0.9, 0.1])


def test_table_carries_the_evidences_errors():
    table = tamis.compare({"m1": posterior((0.0, 0.1)), "m2": posterior((1.0, 0.2))})
    p = 1 / (1 + np.e)
    assert table.column("probability") == pytest.approx([p, 1 - p])
    # dp/dlogZ = p(1-p) for each of two models
    assert table.column("its error") == pytest.approx([p * (1 - p) * np.hypot(0.1, 0.2)] * 2)
    assert table.column("log Bayes factor to best") == [-1.0, 0.0]


def test_no_evidence_no_comparison():
    with pytest.raises(tamis.StudyError, match="m1: the sampler gave no evidence"):
        tamis.compare({"m1": posterior(None), "m2": posterior((1.0, 0.1))})


@pytest.mark.statistical  # five standard errors: false alarm 6e-7
def test_density_of_a_sample_at_a_point_and_at_a_bound():
    rng = np.random.default_rng(0)
    value, error = density_at(rng.standard_normal(20_000), 0.3)
    assert abs(value - norm.pdf(0.3)) < 5 * error + 0.01 * value  # a percent of smoothing bias
    value, error = density_at(rng.random(20_000), 0.0, 0.0, 1.0)
    assert abs(value - 1.0) < 5 * error


def test_a_value_far_in_the_tail_cannot_be_checked():
    draws = np.random.default_rng(2).normal(5.0, 1.0, size=(200, 1))
    outer, inner = posterior((0.0, 0.01), draws), posterior((-7.0, 0.01), names=("b",))
    assert np.isnan(nested_check(inner, outer, "a", 0.0)[2])


@pytest.mark.statistical
def test_nested_models_agree_in_a_conjugate_case():
    """One measurement y of a, error sd 1, prior N(0, 2): the inner model holds a = 0.5."""
    y = 1.2
    inner = posterior((norm(0.5, 1.0).logpdf(y), 1e-6), names=("b",))
    rng = np.random.default_rng(1)
    variance = 1 / (1 + 1 / 4)
    draws = rng.normal(variance * y, np.sqrt(variance), size=(20_000, 1))
    outer = posterior((norm(0.0, np.sqrt(5.0)).logpdf(y), 1e-6), draws)
    by_z, _, by_p, error = nested_check(inner, outer, "a", 0.5)
    assert abs(by_z - by_p) < 5 * error + 0.01
