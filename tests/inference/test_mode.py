"""The mode: exact on Gaussians, at bounds, at kinks; never worse than the start."""

import numpy as np
import pytest
from scipy.stats import norm

import tamis
from tamis.inference.mode import polish
from tests import problems


def space(*priors):
    return tamis.Space(tuple(tamis.Parameter(f"p{i}", prior) for i, prior in enumerate(priors)))


def density(prior, loglike, x):
    return float((prior.logpdf(x[None]) + loglike(x[None]))[0])


@pytest.mark.parametrize("d", [2, 5, 20])
def test_conjugate_gaussian(d):
    problem = problems.linear(d, 30)
    peaks = problem.loglike
    covariance = np.linalg.inv(peaks.precision[0] + np.eye(d))
    mean = covariance @ peaks.precision[0] @ peaks.mean[0]
    x, value = polish(problem.space, peaks, np.zeros(d))
    # the optimiser stops when the log density gains less than 1e-9 of itself: 1e-4 sd or so from the top
    assert np.all(np.abs(x - mean) < 1e-3 * np.sqrt(np.diag(covariance)))
    assert value == pytest.approx(density(problem.space, peaks, mean), abs=1e-6)
    assert value == pytest.approx(density(problem.space, peaks, x), abs=1e-9)  # sums of one row or of many


def test_scales_of_physical_parameters_do_not_matter():
    # a stiffness of 2e11 known to 1e-6 beside a length of 1e-6 known to a tenth
    prior = space(tamis.normal(2e11, 5e10), tamis.lognormal(1e-6, 1.0))

    def loglike(x):
        return norm.logpdf(x[:, 0], 2.1e11, 2e5) + norm.logpdf(np.log(x[:, 1]), np.log(3e-6), 0.1)

    x, _ = polish(prior, loglike, np.array([2.1001e11, 2e-6]))
    assert x[0] == pytest.approx(2.1e11, abs=200)  # a thousandth of its sd; the prior pulls by 1e-6 sd
    # log density of ln x: -(l - m)^2/(2 0.01) - (l - l0)^2/(2 s2) - l, with s2 = ln 2
    s2 = np.log(2)
    top = (np.log(3e-6) / 0.01 + np.log(1e-6) / s2 - 1) / (1 / 0.01 + 1 / s2)
    assert np.log(x[1]) == pytest.approx(top, abs=1e-4)


def test_mode_on_a_bound():
    prior = space(tamis.uniform(0.0, 1.0), tamis.uniform(-1.0, 1.0))
    x, value = polish(
        prior, lambda x: 5 * x[:, 0] - 3 * x[:, 1] - (x[:, 0] - x[:, 1]) ** 2, np.array([0.4, 0.1])
    )
    # on the edge x0 = 1 the slope in x1 is -3 + 2 (1 - x1), zero at -1/2
    assert x == pytest.approx([1.0, -0.5], abs=1e-4)
    assert value == pytest.approx(5 + 1.5 - 2.25 - np.log(2), abs=1e-8)


def test_mode_on_a_kink():
    prior = space(tamis.uniform(-3.0, 3.0), tamis.uniform(-3.0, 3.0))
    top = np.array([0.3, -0.7])

    def loglike(x):
        a, b = (x - top).T
        return -20 * np.abs(a + 0.5 * b) - 2 * np.abs(b)

    x, value = polish(prior, loglike, np.array([1.0, 1.0]))
    assert value == pytest.approx(
        -2 * np.log(6), abs=1e-2
    )  # a hundredth of a nat: nothing beside the posterior
    assert x == pytest.approx(top, abs=5e-3)


def test_holes_of_zero_likelihood_are_avoided():
    prior = space(tamis.uniform(0.0, 1.0))

    def loglike(x):
        return np.where(x[:, 0] > 0.5, np.nan, 10 * x[:, 0])

    x, value = polish(prior, loglike, np.array([0.2]))
    assert 0.499 < x[0] <= 0.5 and value == pytest.approx(5.0, abs=0.01)


def test_never_worse_than_the_start():
    prior = space(tamis.uniform(0.0, 1.0), tamis.uniform(0.0, 1.0))
    rng = np.random.default_rng(0)
    wild = rng.normal(size=(2, 50))

    def loglike(x):  # rough at all scales
        return np.sin(1e4 * x @ wild).sum(axis=1)

    for start in rng.random((5, 2)):
        x, value = polish(prior, loglike, start)
        assert value >= density(prior, loglike, start)
        assert value == pytest.approx(density(prior, loglike, x), abs=1e-9)  # products of one row or of many


def test_a_needle_below_the_spacing_of_floats():
    prior = space(tamis.normal(1e6, 1.0))

    def loglike(x):  # sd 1e-12, where neighbouring floats are 1e-10 apart
        return -0.5 * ((x[:, 0] - 1e6) / 1e-12) ** 2

    x, value = polish(prior, loglike, np.array([1e6 + 0.3]))
    assert value >= density(prior, loglike, np.array([1e6 + 0.3])) and abs(x[0] - 1e6) < 0.3


def test_correlated_prior_without_data():
    law = tamis.normal(1.0, 2.0)
    prior = tamis.Space(
        (tamis.Parameter("a", law), tamis.Parameter("b", law)), np.array([[1.0, 0.8], [0.8, 1.0]])
    )
    x, _ = polish(prior, lambda x: np.zeros(len(x)), np.array([3.0, -2.0]))
    assert x == pytest.approx([1.0, 1.0], abs=2e-3)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (np.zeros((1, 5)), r"shape \(5,\) is expected, one point; found \(1, 5\)"),
        (np.full(5, np.nan), "density is zero at the start"),
    ],
)
def test_refusals(start, message):
    problem = problems.linear()
    with pytest.raises(tamis.StudyError, match=message):
        polish(problem.space, problem.loglike, start)
