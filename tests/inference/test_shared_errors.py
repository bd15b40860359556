"""Errors of a surrogate that tests share: one joint density, intervals that hold the truth, predictions that know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import tamis
from tamis.analysis.prediction import predict_series
from tamis.inference.likelihood import Emulated, Likelihood, part_of, with_error
from tamis.surrogates.base import Score
from tamis.surrogates.joined import Joined, share_errors
from tamis.surrogates.shared import factors
from tamis.types import Array, Gauss

SPACE = tamis.Space(tuple(tamis.Parameter(name, tamis.uniform(0.0, 1.0)) for name in "ab"))
LEVELS = 60
GRID = tamis.grid(LEVELS, 2)
TESTS = 10
SD = 0.05  # of a measurement; the ripples that a surrogate misses have the same


def model(x: Array) -> Array:
    """Ten tests of two numbers, which differ by what a few runs show; in all the same ripples, which they do not."""
    a, b = x.T
    ripples = np.sqrt(2) * SD * np.sin(40 * a + 17 * b), np.sqrt(2) * SD * np.cos(23 * a - 35 * b)
    more = np.linspace(0, 0.5, TESTS)
    return np.hstack([np.column_stack([a + ripples[0] + t * b, b + ripples[1] + t * a]) for t in more])


def observed(y: Array, space: tamis.Space, surrogate: Any) -> tuple[tuple[tamis.Experiment, Emulated], ...]:
    terms = []
    for i in range(TESTS):
        seen = tamis.Observation(tamis.value("y"), y[2 * i : 2 * i + 2], tamis.Known(SD))
        test = tamis.Experiment(f"test {i}", {}, (seen,))
        terms.append((test, Emulated(space, surrogate, slice(2 * i, 2 * i + 2))))
    return tuple(terms)


def interval(log_likelihood: Array) -> Array:
    """Return the 5 and 95 % quantiles of both parameters, (2, 2); the prior is uniform."""
    weight = np.exp(log_likelihood - log_likelihood.max()).reshape(LEVELS, LEVELS)
    edges, found = np.linspace(0, 1, LEVELS + 1), []
    for k in range(2):
        below = np.append(0.0, np.cumsum(weight.sum(axis=1 - k)))
        found.append(np.interp([0.05, 0.95], below / below[-1], edges))
    return np.array(found)


def covered(repetitions: int, method: str) -> tuple[Array, Array, Array]:
    """Count intervals that hold the truth, with errors shared and as if independent, and how much wider they are."""
    hits, wider = np.zeros((2, 2)), []
    for repetition in range(repetitions):
        rng = np.random.default_rng([11, repetition])
        truth = SPACE.sample(1, rng)
        y = model(truth)[0] + SD * rng.standard_normal(2 * TESTS)
        u = tamis.sobol(32, 2, rng)
        alone: Any = (
            tamis.fit_kriging(u, model(u), rng=rng)
            if method == "kriging"
            else tamis.fit_pce(u, model(u), degree=2)
        )
        found = []
        for i, surrogate in enumerate((tamis.share_errors(alone, u), alone)):
            low, high = interval(Likelihood(SPACE, observed(y, SPACE, surrogate))(GRID)).T
            hits[i] += (low <= truth[0]) & (truth[0] <= high)
            found.append(high - low)
        wider.append(found[0] / found[1])
    return hits[0], hits[1], np.array(wider)


@pytest.mark.statistical
def test_tests_that_share_an_error_are_not_ten_witnesses_of_it() -> None:
    shared, independent, wider = covered(20, "pce")
    # honest 90 % intervals hold fewer than 30 of 40 once in 300; both parameters, fixed seeds
    assert shared.sum() >= 30
    assert independent.sum() < shared.sum()
    assert np.median(wider) == pytest.approx(
        2.0, rel=0.15
    )  # sqrt(1.1 / 0.2) = 2.3 where the error is as large


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("method", ["kriging", "pce"])
def test_tests_that_share_an_error_in_a_hundred(method: str) -> None:
    shared, independent, wider = covered(100, method)
    assert ((shared >= 83) & (shared <= 97)).all()  # an honest interval leaves these once in 60
    assert (independent < 70).all()
    assert np.median(wider) == pytest.approx(2.0, rel=0.1)


def test_independent_errors_stay_so_to_the_bit() -> None:
    rng = np.random.default_rng(5)
    u = tamis.sobol(32, 2, rng)
    ripples = np.column_stack([np.sin(rng.uniform(20, 40, 2) @ u.T + k) for k in range(8)])
    alone = tamis.fit_kriging(u, u[:, :1] + 0.05 * ripples, rng=rng)
    shared = tamis.share_errors(alone, u)
    assert shared.factors == 0
    found, expected = shared.predict(GRID[:50]), alone.predict(GRID[:50])
    np.testing.assert_array_equal(found.mean, expected.mean)
    np.testing.assert_array_equal(found.var, expected.var)
    assert found.common is None


@pytest.mark.statistical
def test_coins_are_taken_for_factors_once_in_a_hundred() -> None:
    rng = np.random.default_rng(6)
    for n, m in ((12, 3), (40, 12)):
        tails = [rng.standard_normal((n, m)) * rng.standard_t(3, (n, 1)) for _ in range(100)]
        assert sum(factors(residuals).any() for residuals in tails) <= 5  # more of 100 once in 2000


def test_loadings_are_those_that_made_the_residuals() -> None:
    rng = np.random.default_rng(7)
    exact = np.zeros((9, 2))
    exact[:5, 0], exact[5:8, 1] = 0.95, -0.8
    errors = rng.standard_normal((1500, 2)) @ exact.T
    errors += np.sqrt(1 - np.sum(exact**2, axis=1)) * rng.standard_normal((1500, 9))
    errors *= rng.standard_t(4, (1500, 1)) * 10.0 ** np.arange(-4, 5)  # heavy tails, units of any size
    errors[:700, 3] = np.nan  # runs that failed
    found = factors(errors)
    assert found.shape[1] == 2
    off = found @ found.T - exact @ exact.T
    np.fill_diagonal(off, 0.0)
    assert (
        np.abs(off).max() < 0.12
    )  # correlations of 1500 runs with heavy tails, 3 standard errors of the worst
    assert not factors(np.full((20, 3), np.nan)).any()
    assert not factors(np.zeros((20, 3))).any()
    assert not factors(rng.standard_normal((5, 3))).any()  # too few runs to tell


@dataclass(frozen=True)
class Linear:
    """A surrogate that is a line in a, with errors of its own, along a signal, and common to all."""

    slope: Array  # (m,)
    common: Array  # (f, m)
    modes: Array | None = None
    own: float = 0.0

    @property
    def score(self) -> Score:
        raise NotImplementedError

    def predict(self, u: Array) -> Gauss:
        n, m = len(u), len(self.slope)
        weight = None if self.modes is None else 0.5 + u[:, :1] * np.ones((1, len(self.modes)))
        common = (0.5 + u[:, :1, None]) * self.common
        return Gauss(u[:, :1] * self.slope, np.full((n, m), self.own), self.modes, weight, common)

    def arrays(self) -> dict[str, Any]:
        return {}


def covariance(found: Gauss, i: int) -> Array:
    total = np.diag(found.var[i])
    if found.modes is not None and found.weight is not None:
        total = total + found.modes.T @ np.diag(found.weight[i]) @ found.modes
    assert found.common is not None
    return np.asarray(total + found.common[i].T @ found.common[i])


def scene() -> tuple[Linear, Likelihood, Array, Array]:
    """Two tests: replicates of a fading error and a short signal; two numbers, one missing. What all have, and S."""
    rng = np.random.default_rng(8)
    modes = np.zeros((2, 8))
    modes[:, :4] = rng.standard_normal((2, 4))
    surrogate = Linear(rng.standard_normal(8), rng.standard_normal((2, 8)), modes, 0.1)
    at = np.array([0.0, 0.3, 0.4, 0.9])
    fading = tamis.Sum((tamis.Correlated(length=0.5, sd=0.4), tamis.Gaussian(sd=0.3)))
    y1, y2, y3 = rng.standard_normal((3, 4)), rng.standard_normal(1), np.array([0.3, np.nan, -0.2])
    matrix = np.array([[1.0, 0.5, 0.2], [0.5, 2.0, 0.1], [0.2, 0.1, 1.0]])
    one = tamis.Experiment(
        "one",
        {},
        (
            tamis.Observation(tamis.value("y"), y1, fading, at),
            tamis.Observation(tamis.value("z"), y2, tamis.Known(0.2)),
        ),
    )
    two = tamis.Experiment("two", {}, (tamis.Observation(tamis.value("w"), y3, tamis.Covariance(matrix)),))
    terms = ((one, Emulated(SPACE, surrogate, slice(0, 5))), (two, Emulated(SPACE, surrogate, slice(5, 8))))
    # three replicates are three rows of noise about one error of the surrogate
    first = 0.16 * np.exp(-np.abs(at[:, None] - at) / 0.5) + 0.09 * np.eye(4)
    rows = [0, 1, 2, 3] * 3 + [4, 5, 7]
    noise = np.zeros((15, 15))
    for r in range(3):
        noise[4 * r : 4 * r + 4, 4 * r : 4 * r + 4] = first
    noise[12, 12] = 0.04
    noise[13:, 13:] = matrix[np.ix_([0, 2], [0, 2])]
    pick = np.eye(8)[rows]
    return (
        surrogate,
        Likelihood(SPACE, terms),
        pick,
        np.append(noise, [np.r_[y1.ravel(), y2, 0.3, -0.2]], axis=0),
    )


def test_the_joint_density_is_that_of_one_large_gaussian() -> None:
    surrogate, likelihood, pick, rest = scene()
    noise, y = rest[:-1], rest[-1]
    x = np.random.default_rng(9).random((7, 2))
    found = surrogate.predict(x)
    expected = [
        multivariate_normal(pick @ found.mean[i], noise + pick @ covariance(found, i) @ pick.T).logpdf(y)
        for i in range(7)
    ]
    np.testing.assert_allclose(likelihood(x), expected, rtol=1e-10)  # rounding


def test_what_the_data_leave_of_a_common_error_is_the_conditional_law() -> None:
    surrogate, likelihood, pick, rest = scene()
    noise, y = rest[:-1], rest[-1]
    x = np.random.default_rng(10).random((5, 2))
    other = Emulated(SPACE, surrogate, slice(5, 8))
    before = part_of(surrogate.predict(x), slice(5, 8))
    (after,) = likelihood.informed(x, [other], [before], SPACE)
    whole = surrogate.predict(x)
    assert whole.common is not None
    assert after.common is not None
    for i in range(5):
        # an error of its own is new in a new test; the common one is what the old tests have told of
        cross = whole.common[i][:, 5:8].T @ whole.common[i] @ pick.T
        inverse = np.linalg.inv(noise + pick @ covariance(whole, i) @ pick.T)
        mean = before.mean[i] + cross @ inverse @ (y - pick @ whole.mean[i])
        spread = whole.common[i][:, 5:8].T @ whole.common[i][:, 5:8] - cross @ inverse @ cross.T
        np.testing.assert_allclose(after.mean[i], mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(after.common[i].T @ after.common[i], spread, atol=1e-9)


def line() -> tuple[Likelihood, tamis.Posterior, Emulated, tamis.Experiment, tamis.Space]:
    """Ten tests of a normal unknown through a surrogate with one error common to them, and draws of the posterior."""
    space = tamis.Space((tamis.Parameter("a", tamis.normal(0.0, 1.0)),))

    @dataclass(frozen=True)
    class Straight(Linear):
        def predict(self, u: Array) -> Gauss:
            x, m = space.from_unit(u), len(self.slope)
            common = np.broadcast_to(self.common, (len(u), *self.common.shape))
            return Gauss(x * self.slope, np.zeros((len(u), m)), None, None, common)

    surrogate = Straight(np.ones(11), np.full((1, 11), 0.5))
    y = 0.3 + 0.1 * np.random.default_rng(12).standard_normal(10)
    tests = tuple(
        tamis.Experiment(f"{i}", {}, (tamis.Observation(tamis.value("y"), y[i : i + 1], tamis.Known(0.5)),))
        for i in range(10)
    )
    terms = tuple((test, Emulated(space, surrogate, slice(i, i + 1))) for i, test in enumerate(tests))
    variance = 1 / (1 + 1 / (0.25 + 0.025))  # of the unknown: error common to all, noise averaged over ten
    mean = variance * y.mean() / (0.25 + 0.025)
    x = mean + np.sqrt(variance) * np.random.default_rng(13).standard_normal((1, 4000, 1))
    none = np.zeros((1, 4000))
    posterior = tamis.Posterior(space, x, none, none)
    more = tamis.Experiment("more", {}, (tamis.Observation(tamis.value("y"), np.zeros(1), tamis.Known(0.5)),))
    return Likelihood(space, terms), posterior, Emulated(space, surrogate, slice(10, 11)), more, space


def test_a_prediction_knows_what_the_tests_told_of_a_shared_error() -> None:
    likelihood, posterior, forward, test, _ = line()
    y = np.array([experiment.observations[0].y[0] for experiment, _ in likelihood.terms])
    rng = np.random.default_rng(14)
    found = predict_series(posterior, [(test, forward)], n=4000, rng=rng, given=likelihood)
    # unknown plus common error, prior variance 1.25, seen through noise of variance 0.25 / 10
    variance = 1 / (1 / 1.25 + 1 / 0.025)
    assert found.mean[0] == pytest.approx(variance * y.mean() / 0.025, abs=4 * np.sqrt(variance / 4000))
    assert found.sd_model[0] ** 2 == pytest.approx(variance, rel=0.09)  # 4 standard errors
    blind = predict_series(posterior, [(test, forward)], n=4000, rng=rng)
    assert blind.sd_model[0] > 2 * found.sd_model[0]


def test_an_eleventh_test_that_shares_the_error_teaches_what_the_closed_form_says() -> None:
    likelihood, posterior, forward, test, _ = line()
    found = tamis.expected_gain(
        posterior, [(test, forward)], n=2000, rng=np.random.default_rng(15), given=likelihood
    )
    prior = 1 / (1 / 1.25 + 1 / 0.025)  # of unknown plus error, given ten tests
    error = 1 / (1 / 0.25 + 1 / 0.025)  # of the error, given these and the unknown
    assert found.gain == pytest.approx(
        0.5 * np.log((prior + 0.25) / (error + 0.25)), abs=4 * found.error + 1e-3
    )
    assert found.gain < 0.01 < tamis.expected_gain(
        posterior, [(test, forward)], n=2000, rng=np.random.default_rng(15)
    ).gain  # fmt: skip


def test_shared_errors_are_kept_in_files(tmp_path: Any) -> None:
    rng = np.random.default_rng(16)
    u = tamis.sobol(32, 2, rng)
    surrogate = tamis.share_errors(tamis.fit_pce(u, model(u), degree=2), u)
    assert surrogate.factors == 2
    again = Joined.of(surrogate.arrays())
    before, after = surrogate.predict(GRID[:9]), again.predict(GRID[:9])
    assert before.common is not None
    assert after.common is not None
    np.testing.assert_array_equal(before.common, after.common)
    whole = before.var + np.sum(before.common**2, axis=1)
    alone = surrogate.parts[0].surrogate.predict(GRID[:9]).var
    np.testing.assert_allclose(whole, alone, rtol=1e-12)  # only divided
    assert (surrogate.shared > 0.8).all()


@pytest.mark.parametrize("seed", range(6))
def test_outputs_that_err_exactly_alike_have_no_negative_variance(seed: int) -> None:
    """Force and stress of one run: all of their error is shared, and what is left of it is zero, not round-off."""
    u = np.random.default_rng(seed).random((24, 2))
    first, second = np.sin(7 * u[:, 0] + 3 * u[:, 1]), np.cos(5 * u[:, 1] - 2 * u[:, 0])
    y = np.column_stack([c * f for f in (first, second) for c in (1.0, 3.0, 0.1)])
    found = share_errors(tamis.fit_kriging(u, y, rng=np.random.default_rng(1)), u).predict(GRID)
    assert found.common is not None and (found.var >= 0).all()
    assert np.isfinite(with_error(found, np.random.default_rng(2))).all()
