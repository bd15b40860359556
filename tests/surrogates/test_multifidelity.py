"""Hierarchical Kriging against Kriging itself, against formulas, and on pairs of functions others have used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tamis
from tamis.errors import StudyError
from tamis.surrogates.honesty import held_out
from tamis.surrogates.kriging import coordinates, fit_kriging, functions
from tamis.surrogates.multifidelity import MultiFidelity, fit_multifidelity, held_out_squares
from tamis.surrogates.process import Hyper, condition
from tamis.types import Array
from tests.surrogates.smooth import forrester, forrester_cheap, park, park_cheap


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def rmse(found: Array, truth: Array) -> float:
    return float(np.sqrt(np.mean((found[:, 0] - truth) ** 2)))


def forrester_model(kernel: str = "squared_exponential") -> MultiFidelity:
    cheap, dear = np.linspace(0, 1, 11)[:, None], np.linspace(0, 1, 4)[:, None]
    levels = [(cheap, forrester_cheap(cheap)), (dear, forrester(dear))]
    return fit_multifidelity(levels, kernel=kernel, nugget=0.0, rng=rng())


def test_one_level_is_kriging() -> None:
    u = tamis.lhs(20, 4, rng(0))
    v = rng(1).random((50, 4))
    one, plain = fit_multifidelity([(u, park(u))], rng=rng(2)), fit_kriging(u, park(u), rng=rng(2))
    for mine, theirs in zip(one.predict(v)[:2], plain.predict(v)[:2], strict=True):
        assert np.array_equal(mine, theirs)
    assert np.array_equal(one.processes[0][0].residuals, plain.processes[0].residuals)
    assert np.array_equal(one.draw(3, rng(5), v)(u), plain.draw(3, rng(5), v)(u))


def test_runs_held_out_know_the_noise_that_is_given() -> None:
    u = tamis.lhs(12, 1, rng(0))
    y = forrester(u) + 0.5 * rng(1).standard_normal(12)
    given = fit_multifidelity([(u, forrester_cheap(u)), (u, y)], nugget=[0.0, 0.25], rng=rng(2))
    x, one = coordinates(u, given.families), np.ones((12, 1))
    told, guessed = (np.mean(held_out("matern52", x, one, one, y, n) ** 2) for n in (np.full(12, 0.25), None))
    assert held_out_squares(given)[1] == pytest.approx([told])
    assert told != pytest.approx(guessed, rel=1e-3)
    again = MultiFidelity.of(given.arrays())
    assert np.array_equal(held_out_squares(again), held_out_squares(given))
    free = fit_multifidelity([(u, forrester_cheap(u)), (u, y)], rng=rng(2))
    assert held_out_squares(free)[1] == pytest.approx([guessed])


def test_a_multiple_of_the_cheap_level_is_found_exactly() -> None:
    cheap, dear = tamis.lhs(40, 2, rng(0)), tamis.lhs(5, 2, rng(1))
    lower = fit_kriging(cheap, np.sin(4 * cheap[:, 0]) + cheap[:, 1], nugget=0.0, rng=rng(2))
    y = 3 * lower.predict(dear).mean[:, 0] - 7
    levels = [(cheap, lower.y[:, 0]), (dear, y)]
    model = fit_multifidelity(levels, nugget=0.0, rng=rng(2))
    v = rng(3).random((50, 2))
    below, found = lower.predict(v), model.predict(v)
    # two coefficients by least squares from five values; rounding of the lower level, 1e-12 of its variance
    np.testing.assert_allclose(model.factors(v), 3.0, atol=1e-6)
    np.testing.assert_allclose(found.mean, 3 * below.mean - 7, atol=1e-5)
    np.testing.assert_allclose(found.var, 9 * below.var, rtol=1e-3, atol=1e-8)


def test_mean_and_variance_are_those_of_the_recursion() -> None:
    model = forrester_model("matern52")
    v = rng(0).random((30, 1))
    low, high = model.levels
    x, at = coordinates(v, model.families), coordinates(high.u, model.families)
    lower = model.processes[0][0]
    mean, var = lower.predict(x, functions("constant", x))
    seen, _ = lower.predict(at, functions("constant", at))
    hyper = Hyper(high.length[0], float(high.variance[0]), high.noise[:, 0])
    process = condition("matern52", at, np.column_stack([seen, np.ones(4)]), high.y[:, 0], hyper)
    own_mean, own_var = process.predict(x, np.column_stack([mean, np.ones(30)]))
    factor, error = process.coefficient[0], hyper.variance * (process.root[0] ** 2).sum()
    found = replace(model, of_runs=False).predict(v)
    np.testing.assert_allclose(found.mean[:, 0], own_mean, rtol=1e-12)
    np.testing.assert_allclose(found.var[:, 0], own_var + (factor**2 + error) * var, rtol=1e-12)
    wider = model.predict(v).var / (found.var + high.noise.mean())  # where runs left out miss by more
    assert np.ptp(wider) < 1e-9 and wider[0, 0] >= 1
    assert len(low.u) == 11


def test_leave_one_out_is_what_refits_give() -> None:
    cheap, dear = tamis.sobol(30, 4, rng(0)), tamis.sobol(10, 4, rng(1))
    model = fit_multifidelity([(cheap, park_cheap(cheap)), (dear, park(dear))], rng=rng(2))
    top, lower = model.levels[-1], model.processes[0][0]
    x = coordinates(dear, model.families)
    basis = np.column_stack([lower.predict(x, functions("constant", x))[0], np.ones(10)])
    for i in range(10):
        rest = np.arange(10) != i
        hyper = Hyper(top.length[0], float(top.variance[0]), top.noise[rest, 0])
        without = condition(model.kernel, x[rest], basis[rest], top.y[rest, 0], hyper)
        mean, _ = without.predict(x[i : i + 1], basis[i : i + 1])
        # conditioning of ten runs of a long process, up to 1e7, times rounding
        assert model.left_out[-1][0][i, 0] == pytest.approx(top.y[i, 0] - mean[0], abs=1e-6)


def test_a_point_is_left_out_at_all_levels() -> None:
    # the cheap level bends more than its runs follow, so that it matters whether its run at the point is there
    u = tamis.sobol(24, 2, rng(0))
    cheap = np.sin(9 * u[:, 0]) + np.cos(7 * u[:, 1])
    model = fit_multifidelity([(u, cheap), (u[:12], 2 * cheap[:12] + u[:12, 0])], rng=rng(2))
    low, top = model.levels
    x, y = coordinates(u, model.families), top.y[:, 0]
    exact = []
    for i in range(12):
        rest, upper = np.arange(24) != i, np.arange(12) != i
        hyper = Hyper(low.length[0], float(low.variance[0]), low.noise[rest, 0])
        lower = condition(model.kernel, x[rest], np.ones((23, 1)), cheap[rest], hyper)
        basis = np.column_stack([lower.mean(x[:12], np.ones((12, 1))), np.ones(12)])
        hyper = Hyper(top.length[0], float(top.variance[0]), top.noise[upper, 0])
        process = condition(model.kernel, x[:12][upper], basis[upper], y[upper], hyper)
        exact.append(y[i] - process.mean(x[i : i + 1], basis[i : i + 1])[0])
    found = model.left_out[-1][0][:, 0]
    # the factor is that of all runs, exact here up to the cheap level's own trend: a few per cent
    assert np.allclose(found, exact, atol=0.1 * np.sqrt(np.mean(np.square(exact))))
    alone = np.array([p.residuals for p in model.processes[-1]])[0]
    assert np.sqrt(np.mean(found**2)) > 3 * np.sqrt(
        np.mean(alone**2)
    )  # what leaving out one level only would say


@pytest.mark.statistical
def test_trajectories_have_the_mean_and_variance() -> None:
    # 4000 draws, conditioned where they are looked at; five standard errors on 6 means and variances: 1e-5. The
    # variance leaves out the product of two errors, of the factor and of the level below
    model, u, n = forrester_model("matern52"), np.linspace(0.03, 0.93, 6)[:, None], 4000
    drawn = model.draw(n, rng(3), u)(u)
    mean, var = replace(model, of_runs=False).predict(u)[:2]
    assert np.abs((drawn.mean(axis=0) - mean[:, 0]) / np.sqrt(var[:, 0])).max() < 5 / np.sqrt(n)
    assert np.abs(drawn.var(axis=0) / var[:, 0] - 1).max() < 5 * np.sqrt(2 / n)


def test_forrester() -> None:
    # reached by other packages with the same runs: 0.055
    model, v = forrester_model(), np.linspace(0, 1, 1001)[:, None]
    assert rmse(model.predict(v).mean, forrester(v)) < 0.055
    # cheap = dear / 2 + a straight line, which the trend does not have
    np.testing.assert_allclose(model.factors(v), 2.0, atol=0.02)


@pytest.mark.parametrize(("n", "n_cheap", "limit"), [(10, 30, 0.17), (20, 60, 0.032)])
def test_park(n: int, n_cheap: int, limit: float) -> None:
    # medians of five designs; those of twenty are 0.153 and 0.031, and 0.28 and 0.041 without cheap runs
    v, errors = rng(123).random((2000, 4)), []
    for seed in range(5):
        both = rng(seed)
        dear, cheap = tamis.maximin(n, 4, both), tamis.maximin(n_cheap, 4, both)
        model = fit_multifidelity([(cheap, park_cheap(cheap)), (dear, park(dear))], rng=rng(2))
        alone = fit_kriging(dear, park(dear), rng=rng(2))
        errors.append([rmse(each.predict(v).mean, park(v)) for each in (model, alone)])
    with_cheap, without = np.median(errors, axis=0)
    assert with_cheap < limit and with_cheap < without


def test_a_factor_that_varies_is_found() -> None:
    cheap, dear = tamis.lhs(60, 1, rng(0)), tamis.lhs(12, 1, rng(1))
    lower = fit_kriging(cheap, np.sin(9 * cheap[:, 0]), nugget=0.0, rng=rng(2))
    y = (2 + 3 * dear[:, 0]) * lower.predict(dear).mean[:, 0] + 1
    model = fit_multifidelity([(cheap, lower.y[:, 0]), (dear, y)], nugget=0.0, rng=rng(2))
    v = rng(3).random((20, 1))
    # three coefficients by least squares; rounding of the lower level, 1e-12 of its variance
    np.testing.assert_allclose(model.factors(v)[0], 2 + 3 * v, atol=1e-4)
    drawn = model.draw(5, rng(4), v)
    below = lower.predict(v)
    np.testing.assert_allclose(drawn(v), np.tile((2 + 3 * v[:, 0]) * below.mean[:, 0] + 1, (5, 1)), atol=0.05)


def test_outputs_constants_and_files(tmp_path: Path) -> None:
    cheap, dear = tamis.lhs(20, 2, rng(0)), tamis.lhs(7, 2, rng(1))
    levels = [
        (u, np.column_stack([np.sin(3 * u[:, 0]) * (1 + i), np.full(len(u), 2.0), u[:, 1] * i + i]))
        for i, u in enumerate((cheap, dear))
    ]  # the second output is constant on both levels, the third on the cheap one
    model = fit_multifidelity(levels, rng=rng(2))
    v = rng(3).random((40, 2))
    found = model.predict(v)
    assert model.levels[1].terms.tolist() == [1, 0, 0]
    np.testing.assert_allclose(found.mean[:, 1], 2.0, atol=1e-12)
    np.testing.assert_allclose(found.mean[:, 2], 1 + v[:, 1], atol=1e-2)  # a straight line from seven runs
    model.save(tmp_path / "levels.npz")
    again = MultiFidelity.load(tmp_path / "levels.npz").predict(v)
    assert np.array_equal(found.mean, again.mean) and np.array_equal(found.var, again.var)


def test_three_levels() -> None:
    u = [tamis.lhs(n, 1, rng(n)) for n in (30, 12, 5)]
    y = [forrester_cheap(u[0]), 0.8 * forrester(u[1]) + 3, forrester(u[2])]
    model = fit_multifidelity(
        list(zip(u, y, strict=True)), kernel="squared_exponential", nugget=0.0, rng=rng()
    )
    v = np.linspace(0, 1, 101)[:, None]
    assert (
        rmse(model.predict(v).mean, forrester(v)) < 0.3
    )  # of a range of 22: a tenth of what 5 runs alone give
    drawn = model.draw(20, rng(1), v[::10])(v)
    assert drawn.shape == (20, 101)


def test_what_cannot_be_fitted_is_refused(tmp_path: Path) -> None:
    u = tamis.lhs(8, 2, rng(0))
    with pytest.raises(StudyError, match="at least one level"):
        fit_multifidelity([], rng=rng())
    with pytest.raises(StudyError, match="level 1 has 1 inputs and 1 outputs, level 0 has 2 and 1"):
        fit_multifidelity([(u, u[:, 0]), (u[:, :1], u[:, 0])], rng=rng())
    with pytest.raises(StudyError, match="2 runs cannot tell the 2 coefficients"):
        fit_multifidelity([(u, u[:, 0] ** 2), (u[:2], u[:2, 0])], rng=rng())
    with pytest.raises(StudyError, match="found 1 nuggets for 2 levels"):
        fit_multifidelity([(u, u[:, 0]), (u, u[:, 0])], nugget=[0.0], rng=rng())
    np.savez(tmp_path / "other.npz", u=np.zeros(3))
    with pytest.raises(StudyError, match="holds no multi-fidelity model"):
        MultiFidelity.load(tmp_path / "other.npz")
