"""Kriging against formulas evaluated the long way, and on functions others have used."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tamis
from tamis.errors import StudyError
from tamis.surrogates.covariances import correlation, correlation_and_slope
from tamis.surrogates.kriging import Kriging, coordinates, fit_kriging, functions
from tamis.surrogates.polynomials import HERMITE, Family
from tamis.surrogates.process import Hyper, Likelihood, condition
from tamis.surrogates.replicates import gather
from tamis.types import Array
from tests.surrogates.smooth import piston

KERNELS = ("matern32", "matern52", "squared_exponential")
TRENDS = ("constant", "linear", "quadratic")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def bumps(u: Array) -> Array:
    answer: Array = np.sin(5 * u[:, 0]) + u[:, 1] ** 2 * u[:, 0]
    return answer


def known(kernel: str = "matern52", trend: str = "linear", noise: float = 1e-3) -> Kriging:
    """Return a model of 14 runs with parameters given, not estimated; two of the runs are replicates."""
    u = tamis.lhs(14, 2, rng(1))
    u[5] = u[4]
    y = bumps(u) + 0.03 * rng(2).standard_normal(14)
    each = np.linspace(noise, 2 * noise, 14)[:, None]
    return Kriging(
        kernel,
        trend,
        (Family(), Family(HERMITE)),
        u,
        y[:, None],
        np.array([[0.4, 0.9]]),
        np.array([1.7]),
        each,
        np.ones(1),
        np.empty((1, 0)),
        of_runs=False,
    )


def exact(
    model: Kriging, u: Array, more: Array | None = None, values: Array | None = None
) -> tuple[Array, Array]:
    """Mean and covariance by the textbook's block system [[K, F], [F', 0]], noiseless values added at will."""
    length, sill = model.length[0], model.variance[0]
    runs = model.u if more is None else np.vstack([model.u, more])
    y = model.y[:, 0] if values is None else np.append(model.y[:, 0], values)
    noise = np.append(model.noise[:, 0], np.zeros(len(runs) - len(model.u)))
    a, b = (coordinates(points, model.families) for points in (runs, u))
    cov = [[sill * correlation(model.kernel, p / length, q / length) for q in (a, b)] for p in (a, b)]
    f, g = functions(model.trend, a), functions(model.trend, b)
    system = np.block([[cov[0][0] + np.diag(noise), f], [f.T, np.zeros((f.shape[1],) * 2)]])
    right = np.vstack([cov[0][1], g.T])
    solved = np.linalg.solve(system, right)
    return solved[: len(y)].T @ y, cov[1][1] - right.T @ solved


@pytest.mark.parametrize("kernel", KERNELS)
def test_correlations_are_the_textbook_ones(kernel: str) -> None:
    a, b = rng(0).random((6, 3)), rng(1).random((4, 3))
    r = np.sqrt(((a[:, None] - b[None]) ** 2).sum(axis=2))
    wanted = {
        "matern32": (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
        "matern52": (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r),
        "squared_exponential": np.exp(-(r**2) / 2),
    }[kernel]
    np.testing.assert_allclose(correlation(kernel, a, b), wanted, rtol=1e-13)  # rounding
    value, slope = correlation_and_slope(kernel, a)
    np.testing.assert_allclose(value, correlation(kernel, a, a), rtol=1e-13)
    step = 1e-6
    longer = correlation(kernel, a / [1 + step, 1, 1], a / [1 + step, 1, 1])
    shorter = correlation(kernel, a * [1 + step, 1, 1], a * [1 + step, 1, 1])
    difference = (longer - shorter) / (2 * np.log1p(step))
    # central difference: rounding 1e-16 / step
    np.testing.assert_allclose(slope * (a[:, None, 0] - a[:, 0]) ** 2, difference, atol=1e-9)


@pytest.mark.parametrize(("kernel", "given"), list(product(KERNELS, (False, True))))
def test_gradient_of_the_likelihood(kernel: str, given: bool) -> None:
    x = rng(0).random((25, 3)) - 0.5
    y = np.sin(4 * x[:, 0]) + x[:, 1] + 0.1 * rng(1).standard_normal(25)
    noise = np.linspace(0.01, 0.02, 25) if given else None
    counts, within = (
        1 + np.arange(25.0) % 3,
        0.01 * (np.arange(25.0) % 3),
    )  # without effect where noise is given
    likelihood = Likelihood(kernel, x, functions("linear", x), y, noise, counts, within)
    theta = np.log([0.5, 1.0, 2.0, 0.7 if given else 0.01])
    value, gradient = likelihood.value_and_gradient(theta)
    assert value == pytest.approx(likelihood.value(theta), rel=1e-12)
    step = 1e-5 * np.eye(4)
    numeric = [(likelihood.value(theta + h) - likelihood.value(theta - h)) / 2e-5 for h in step]
    # central differences of a value of about 100: truncation 1e-10, rounding 1e-14 * 100 / 1e-5
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6)


def test_restricted_likelihood_is_that_of_contrasts() -> None:
    # the law of y projected on the complement of the trend does not know the coefficients
    x = rng(0).random((12, 2)) - 0.5
    y = rng(1).standard_normal(12)
    basis, noise = functions("linear", x), np.full(12, 0.3)
    contrasts = np.linalg.svd(basis)[0][:, 3:]

    def difference(theta: Array) -> float:
        scaled = x / np.exp(theta[:2])
        cov = np.exp(theta[2]) * correlation("matern52", scaled, scaled) + np.diag(noise)
        inner, z = contrasts.T @ cov @ contrasts, contrasts.T @ y
        direct = np.linalg.slogdet(inner)[1] + z @ np.linalg.solve(inner, z)
        prior = (((theta[:2] - np.log(2)) / 2) ** 2).sum()
        return float(Likelihood("matern52", x, basis, y, noise).value(theta) - direct - prior)

    constant = difference(np.log([0.3, 0.8, 1.0]))  # log det F'F, which depends on nothing estimated
    assert difference(np.log([1.0, 0.2, 3.0])) == pytest.approx(constant, abs=1e-10)
    assert constant == pytest.approx(np.linalg.slogdet(basis.T @ basis)[1], abs=1e-10)


@pytest.mark.parametrize(("kernel", "trend"), list(product(KERNELS, TRENDS)))
def test_prediction_is_the_block_system(kernel: str, trend: str) -> None:
    model, u = known(kernel, trend), rng(3).random((40, 2))
    mean, cov = exact(model, u)
    found, run = model.predict(u), replace(model, of_runs=True).predict(u)
    # conditioning of the block system, about 1e5, times rounding
    np.testing.assert_allclose(found.mean[:, 0], mean, atol=1e-9)
    np.testing.assert_allclose(found.var[:, 0], np.diag(cov), atol=1e-9)
    # widened where the runs left out miss by more than the process expects
    wider = max(1.0, model.processes[0].surprise) * (found.var + model.noise.mean())
    np.testing.assert_allclose(run.var, wider, rtol=1e-12)


@pytest.mark.parametrize(("kernel", "trend"), list(product(KERNELS, TRENDS)))
def test_leave_one_out_is_what_refits_give(kernel: str, trend: str) -> None:
    model = known(kernel, trend)
    for i in range(len(model.u)):
        rest = np.any(model.u != model.u[i], axis=1)  # the replicate goes with its point
        x = coordinates(model.u, model.families)
        hyper = Hyper(model.length[0], float(model.variance[0]), model.noise[rest, 0])
        without = condition(kernel, x[rest], functions(trend, x[rest]), model.y[rest, 0], hyper)
        mean, _ = without.predict(x[i : i + 1], functions(trend, x[i : i + 1]))
        assert model.processes[0].residuals[i] == pytest.approx(model.y[i, 0] - mean[0], abs=1e-9)


def test_trajectories_are_means_given_their_values() -> None:
    model, at, u = known(), rng(4).random((9, 2)), rng(5).random((30, 2))
    function = model.draw(3, rng(6), at)
    for values, row in zip(function(at), function(u), strict=True):
        # values of a noiseless process at nine points more: conditioning 1e6 times rounding
        np.testing.assert_allclose(row, exact(model, u, at, values)[0], atol=1e-7)


@pytest.mark.statistical
def test_trajectories_have_the_conditional_law() -> None:
    # conditioned at the very points looked at, their law is exactly that of the process; 20 000 draws,
    # five standard errors on 12 means and 144 covariances: false alarm 1e-4
    model, u, n = known(), rng(5).random((12, 2)), 20_000
    drawn = model.draw(n, rng(7), u)(u)
    mean, cov = exact(model, u)
    sd = np.sqrt(np.diag(cov))
    assert np.abs((drawn.mean(axis=0) - mean) / sd).max() < 5 / np.sqrt(n)
    error = np.sqrt((cov**2 + np.outer(sd, sd) ** 2) / n)
    assert np.abs((np.cov(drawn.T) - cov) / error).max() < 5


def test_trajectories_bear_points_that_are_known_already() -> None:
    u = tamis.lhs(20, 2, rng(1))
    model = fit_kriging(u, bumps(u), nugget=0.0, rng=rng())
    at = np.vstack([u[:5], u[:5], rng(2).random((10, 2)), u[3:4] + 1e-12])
    function = model.draw(50, rng(3), at)
    # runs are exact: least noise, 1e-12 of the process variance
    allowed = 1e-4 * np.sqrt(model.variance[0])
    np.testing.assert_allclose(function(u), np.tile(bumps(u), (50, 1)), atol=allowed)
    assert function(rng(4).random((3, 2))).shape == (50, 3)
    v = rng(5).random((7, 2))
    nothing = model.draw(2, rng(3), np.empty((0, 2)))(v)
    np.testing.assert_allclose(nothing, np.tile(model.predict(v).mean[:, 0], (2, 1)), rtol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS)
def test_exact_runs_are_interpolated(kernel: str) -> None:
    u = tamis.lhs(30, 2, rng(0))
    for nugget in (0.0, None):  # a noise that wants to be zero ends at its least value
        model = fit_kriging(u, bumps(u), kernel=kernel, nugget=nugget, rng=rng())
        found = model.predict(u)
        # the least noise, 1e-12 of a variance of at most 1e4 times the output's
        np.testing.assert_allclose(found.mean[:, 0], bumps(u), atol=1e-4)
        assert found.var.max() < 1e-7
        assert model.score.q2[0] > 0.95


def test_a_polynomial_trend_is_found_exactly() -> None:
    u = tamis.lhs(20, 2, rng(0))
    y = 1 + 2 * u[:, 0] - u[:, 1] + 3 * u[:, 0] * u[:, 1] - u[:, 1] ** 2
    model = fit_kriging(u, y, trend="quadratic", rng=rng())
    v = rng(1).random((50, 2))
    wanted = 1 + 2 * v[:, 0] - v[:, 1] + 3 * v[:, 0] * v[:, 1] - v[:, 1] ** 2
    np.testing.assert_allclose(model.predict(v).mean[:, 0], wanted, atol=1e-8)  # least squares of 6 monomials


def test_parameters_of_a_known_process_are_found() -> None:
    # 400 values of a process of lengths 0.3 and 1, variance 4, noise 0.01. The likelihood's own curvature
    # gives errors of about 6 % for the lengths, 20 % for the variance, 8 % for the noise; four of each
    u = tamis.sobol(400, 2, rng(0))
    cov = 4 * correlation("matern52", (u - 0.5) / [0.3, 1.0], (u - 0.5) / [0.3, 1.0]) + 0.01 * np.eye(400)
    y = np.linalg.cholesky(cov) @ rng(1).standard_normal(400)
    model = fit_kriging(u, y, rng=rng())
    np.testing.assert_allclose(model.length[0], [0.3, 1.0], rtol=0.25)
    np.testing.assert_allclose(model.variance, 4, rtol=0.8)
    np.testing.assert_allclose(model.noise[0], 0.01, rtol=0.32)


def test_noise_can_be_given_per_run_and_weighs() -> None:
    u = np.array([[0.2], [0.5], [0.5], [0.8]])
    y = np.array([0.0, 1.0, 3.0, 0.0])
    noise = np.array([1e-6, 1e-6, 1.0, 1e-6])
    found = fit_kriging(u, y, nugget=noise, rng=rng()).predict(np.array([[0.5]]))
    assert found.mean[0, 0] == pytest.approx(1.0, abs=0.01)  # the exact replicate wins


def test_unbounded_inputs_are_taken_to_normal_ones() -> None:
    laws = [tamis.normal(0.0, 1.0), tamis.lognormal(1.0, 0.5), tamis.uniform(2.0, 3.0)]
    u = tamis.sobol(64, 3, rng(0))
    z = laws[0].ppf(u[:, 0])
    model = fit_kriging(u, z, marginals=laws, trend="linear", rng=rng())
    assert model.families == (Family(HERMITE), Family(HERMITE), Family())
    v = rng(1).random((100, 3))
    # linear in the normal coordinate, hence exact, which it is not in u
    np.testing.assert_allclose(model.predict(v).mean[:, 0], laws[0].ppf(v[:, 0]), atol=1e-6)
    assert np.isfinite(model.predict(np.array([[0.0, 1.0, 0.0]])).mean).all()


def test_outputs_are_fitted_each_by_itself(tmp_path: Path) -> None:
    u = tamis.lhs(25, 2, rng(0))
    y = np.column_stack([bumps(u), np.full(25, 3.0), 1e6 * u[:, 1]])
    both, first = (fit_kriging(u, values, rng=rng(4)) for values in (y, y[:, 0]))
    v = rng(1).random((30, 2))
    assert np.array_equal(both.predict(v).mean[:, 0], first.predict(v).mean[:, 0])
    assert (
        both.predict(v).mean[:, 1] == pytest.approx(3.0, abs=1e-12) and both.predict(v).var[:, 1].max() == 0.0
    )
    assert np.isnan(both.score.q2[1]) and both.score.residuals.shape == (25, 3)
    both.save(tmp_path / "kriging.npz")
    again = Kriging.load(tmp_path / "kriging.npz")
    for mine, theirs in zip(both.predict(v)[:2], again.predict(v)[:2], strict=True):
        assert np.array_equal(mine, theirs)
    with pytest.raises(StudyError, match="one output"):
        both.draw(1, rng(), v)
    constant = fit_kriging(u, y[:, 1], rng=rng()).draw(4, rng(), v)(v)
    np.testing.assert_allclose(constant, 3.0, atol=1e-12)


def test_scales_do_not_matter() -> None:
    u = tamis.lhs(25, 2, rng(0))
    v = rng(1).random((30, 2))
    plain, large = (fit_kriging(u, f * bumps(u) + s, rng=rng(4)) for f, s in ((1.0, 0.0), (1e8, 1e9)))
    # the optimum is found to about 1e-4 of a length
    np.testing.assert_allclose(large.predict(v).mean, 1e8 * plain.predict(v).mean + 1e9, atol=1e8 * 1e-3)


def test_fewer_runs_than_inputs_and_collinear_inputs() -> None:
    u = tamis.lhs(6, 10, rng(0))
    found = fit_kriging(u, u[:, 0], rng=rng()).predict(rng(1).random((5, 10)))
    assert np.isfinite(found.mean).all() and np.isfinite(found.var).all()
    two = fit_kriging(u[:2], u[:2, 0], rng=rng()).predict(u)
    assert np.isfinite(two.mean).all() and np.isfinite(two.var).all()
    line = np.repeat(tamis.lhs(12, 1, rng(0)), 2, axis=1)
    model = fit_kriging(line, np.sin(3 * line[:, 0]), rng=rng())
    assert model.score.q2[0] > 0.99


def test_runs_all_at_one_point_give_their_mean() -> None:
    y = 5 + rng(0).standard_normal(30)
    found = fit_kriging(np.full((30, 2), 0.5), y, rng=rng()).predict(np.full((1, 2), 0.5))
    assert found.mean[0, 0] == pytest.approx(y.mean(), abs=0.05)  # a prior on lengths only, none on the mean


def test_replicates_give_the_noise() -> None:
    u = np.repeat(tamis.lhs(40, 1, rng(0)), 5, axis=0)
    y = np.sin(6 * u[:, 0]) + 0.1 * rng(1).standard_normal(200)
    model = fit_kriging(u, y, rng=rng())
    # 160 degrees of freedom: standard error of a variance 11 %, four of them
    np.testing.assert_allclose(model.noise[0], 0.01, rtol=0.45)


@pytest.mark.parametrize("given", [False, True])
def test_the_likelihood_of_means_and_differences_is_that_of_all_runs(given: bool) -> None:
    x = np.repeat(rng(0).random((8, 2)), [1, 2, 3, 1, 4, 1, 1, 2], axis=0) - 0.5
    y = np.sin(4 * x[:, 0]) + 0.1 * rng(1).standard_normal(15)
    noise = np.linspace(0.01, 0.03, 15) if given else None
    basis, runs = functions("linear", x), gather(x, y, noise)
    every = Likelihood("matern52", x, basis, y, noise)
    means = Likelihood(
        "matern52", x[runs.first], basis[runs.first], runs.y, runs.noise, runs.counts, runs.within
    )
    apart = [every.value(theta) - means.value(theta) for theta in np.log([[0.5, 1.0, 0.1], [0.2, 3.0, 2.0]])]
    assert apart[0] == pytest.approx(apart[1], abs=1e-9)  # a constant, of 15 runs to rounding


@pytest.mark.parametrize("nugget", [None, 0.0])
def test_copies_of_runs_change_nothing(nugget: float | None) -> None:
    u = tamis.lhs(20, 2, rng(0))
    plain, copied = (
        fit_kriging(points, bumps(points), nugget=nugget, rng=rng()) for points in (u, np.tile(u, (3, 1)))
    )
    assert copied.score.q2[0] == pytest.approx(plain.score.q2[0], rel=0.01)
    v = rng(1).random((30, 2))
    np.testing.assert_allclose(copied.predict(v).mean, plain.predict(v).mean, atol=1e-3)
    np.testing.assert_allclose(copied.score.residuals[20:40], copied.score.residuals[:20], rtol=1e-6)


def test_a_point_is_left_out_with_all_its_runs() -> None:
    # a point far from the others with ten runs: what they agree on says nothing of how well it is foretold
    u = np.vstack([tamis.lhs(15, 1, rng(0)) * 0.5, np.full((10, 1), 0.95)])
    y = np.where(u[:, 0] > 0.9, 5.0, np.sin(9 * u[:, 0])) + 0.05 * rng(1).standard_normal(25)
    model = fit_kriging(u, y, rng=rng())
    assert np.abs(model.processes[0].residuals[15:]).min() > 1


@pytest.mark.parametrize("trend", TRENDS)
def test_a_large_offset_is_no_constant(trend: str) -> None:
    u, v = tamis.lhs(30, 2, rng(0)), rng(1).random((50, 2))
    plain, moved = (fit_kriging(u, bumps(u) + offset, trend=trend, rng=rng()) for offset in (0.0, 1e12))
    assert moved.variance[0] > 0
    # values of 1e12 are rounded to 1.2e-4, which the fit takes for noise and smooths
    np.testing.assert_allclose(moved.predict(v).mean - 1e12, plain.predict(v).mean, atol=0.02)


def test_a_file_from_before_optimism_is_read() -> None:
    arrays = known().arrays()
    for name in ("optimism", "tails", "families"):
        del arrays[name]
    again = Kriging.of(arrays | {"normal": np.array([False, True])})
    assert np.array_equal(again.optimism, np.ones(1)) and not again.of_runs
    assert again.families == known().families and again.tails.shape == (1, 0)


def test_a_score_needs_three_points_an_input() -> None:
    u = tamis.sobol(12, 4, rng(0))
    copied = np.repeat(u[:11], 2, axis=0)
    scores = [fit_kriging(points, points[:, 0], rng=rng()).score for points in (u, u[:11], copied)]
    assert [score.judged for score in scores] == [True, False, False]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": np.full(9, np.nan)}, "run 0 .* not finite"),
        ({"u": 2 * rng(0).random((9, 2))}, "unit cube"),
        ({"y": np.zeros(8)}, r"found \(9, 2\) and \(8, 1\)"),
        ({"kernel": "matern53"}, 'did you mean "matern52"'),
        ({"trend": "square"}, "no trend"),
        ({"trend": "quadratic", "u": rng(0).random((9, 3))}, "9 runs cannot tell the 10 coefficients"),
        ({"trend": "linear", "u": np.repeat(rng(0).random((9, 1)), 2, axis=1)}, "vary together"),
        ({"nugget": -1.0}, "negative"),
        ({"nugget": np.ones(3)}, "one per run"),
        ({"nugget": 0.0, "u": np.full((9, 2), 0.5)}, "runs 0 and 1 are at the same point"),
        ({"marginals": [tamis.uniform(0, 1)]}, "found 1 marginals for 2 inputs"),
    ],
)
def test_what_cannot_be_fitted_is_refused(change: dict[str, Any], words: str) -> None:
    request: dict[str, Any] = {"u": rng(0).random((9, 2)), "y": np.arange(9.0), "rng": rng()} | change
    with pytest.raises(StudyError, match=words):
        fit_kriging(request.pop("u"), request.pop("y"), **request)


def test_another_file_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", u=np.zeros(3))
    with pytest.raises(StudyError, match="holds no Kriging model"):
        Kriging.load(tmp_path / "other.npz")


@pytest.mark.statistical
def test_piston_is_predicted_with_an_honest_error() -> None:
    # one noise; over three (seeds 8 to 10) Q2 was 0.99964 to 0.99967 and the coverage 0.958 to 0.966
    u = tamis.sobol(500, 7, rng(7))
    truth = piston(u)
    noisy = truth + 0.02 * truth.std() * rng(8).standard_normal(500)
    model = fit_kriging(u, noisy, of_runs=False, rng=rng(1))
    v = rng(123).random((10_000, 7))
    found, truth = model.predict(v), piston(v)
    error = found.mean[:, 0] - truth
    assert 1 - np.mean(error**2) / truth.var() > 0.9996
    assert 0.93 < np.mean(np.abs(error) < 1.96 * np.sqrt(found.var[:, 0])) < 0.98
