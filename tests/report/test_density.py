"""Smoothed histograms against the laws they were drawn from."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.marginals import normal, uniform
from tamis.report import density


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def test_area_is_one() -> None:
    x, height = density.curve(np.linspace(0.0, 1.0, 1000), -0.5, 1.5)
    step = x[1] - x[0]
    assert height.sum() * step == pytest.approx(1.0, abs=2e-3)  # the rectangles' error at the edges of a box


@pytest.mark.statistical
def test_normal_law_is_recovered(rng: np.random.Generator) -> None:
    """Four thousand draws give the peak to about 3 %; 12 % is four such deviations: false alarms 1e-4 a seed."""
    x, height = density.curve(rng.standard_normal(4000), -5.0, 5.0)
    exact = np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)
    assert np.abs(height - exact).max() < 0.12 * exact.max()


@pytest.mark.statistical
def test_second_mode_stays_apart(rng: np.random.Generator) -> None:
    """The valley between modes 18 deviations apart is empty; a rule-of-thumb width would fill it.

    Only a width above a third of the gap could fail: never with 4000 draws.
    """
    draws = np.concatenate([rng.normal(0.42, 0.05, 1000), rng.normal(1.32, 0.05, 3000)])
    x, height = density.curve(draws, 0.0, 2.0)
    valley = height[(x > 0.7) & (x < 1.0)].max()
    assert valley < 0.01 * height.max()


@pytest.mark.statistical
def test_density_is_not_bent_down_at_a_bound(rng: np.random.Generator) -> None:
    """At the edge of a uniform law a plain kernel gives half; mirrored it gives 1 within 0.15 (five deviations)."""
    x, height = density.curve(rng.random(20_000), 0.0, 1.0)
    assert height[x < 0.02] == pytest.approx(1.0, abs=0.15)


def test_repeated_draws_do_not_become_needles() -> None:
    draws = np.repeat(np.random.default_rng(2).standard_normal(300), 20)
    _, height = density.curve(draws, -4.0, 4.0)
    assert (
        height.max() < 3 * 0.3989
    )  # the peak of the law; needles one bin wide would reach 0.2 / (8/510) = 13


def test_constant_draws_are_drawn() -> None:
    x, height = density.curve(np.full(100, 0.5), 0.0, 1.0)
    assert np.isfinite(height).all() and abs(x[height.argmax()] - 0.5) < 0.01  # one bin of 510


def test_span_stays_in_the_support() -> None:
    draws = np.linspace(0.01, 0.99, 500)
    low, high = density.span(draws, uniform(0.0, 1.0))
    assert (low, high) == (0.0, 1.0)
    low, high = density.span(draws, normal(0.5, 1.0))
    assert low < 0.01 and high > 0.99


def test_plane_peaks_where_the_draws_are() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.normal(2.0, 0.1, 3000), rng.normal(-1.0, 0.2, 3000)
    grid = density.plane(x, y, (0.0, 4.0), (-3.0, 1.0))
    row, column = np.unravel_index(grid.argmax(), grid.shape)
    cell = 4.0 / grid.shape[0]
    assert grid.max() == 1.0 and grid.min() >= 0.0
    assert (column + 0.5) * cell == pytest.approx(2.0, abs=0.15)  # the mode within 1.5 standard deviations
    assert -3.0 + (row + 0.5) * cell == pytest.approx(-1.0, abs=0.3)  # likewise


@pytest.mark.parametrize("n", [200, 2000])
def test_a_flat_law_has_a_curve(n: int) -> None:
    """Draws of a parameter that data say nothing about, at random and evenly spread: no fixed point for the width."""
    samples = [np.random.default_rng(seed).random(n) for seed in range(100)]
    for draws in (*samples, (np.arange(n) + 0.5) / n):
        x, height = density.curve(draws, 0.0, 1.0)
        assert np.isfinite(height).all() and height.sum() * (x[1] - x[0]) == pytest.approx(1.0, abs=0.02)
