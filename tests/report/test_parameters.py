"""Marginals and pairs: axes, titles, ranges, marks."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex

from tamis.inference.posterior import Posterior
from tamis.marginals import gamma, uniform
from tamis.report import parameters
from tamis.report.style import PARAMETERS, POSTERIOR, PRIOR_FILL
from tamis.results.study import Reference
from tamis.space import Parameter, Space
from tests.report import samples


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    return samples.posterior()


def wide(d: int) -> Posterior:
    """A posterior of many parameters, each narrower than the one before."""
    rng = np.random.default_rng(5)
    space = Space(tuple(Parameter(f"p{i}", uniform(-20.0, 20.0)) for i in range(d)))
    x = rng.standard_normal((500, d)) * 0.8 ** np.arange(d)
    return Posterior(space, x[None], -0.5 * (x**2).sum(axis=1)[None], space.logpdf(x)[None])


def test_marginals_have_a_density_each_over_its_prior(posterior: Posterior) -> None:
    figure = parameters.marginals_figure(posterior)
    titles = [ax.get_xlabel() for ax in figure.axes]
    assert titles == ["restitution", "k_t [10⁸ N/m]", "sigma [m]"]
    for ax in figure.axes:
        colours = {to_hex(c.get_facecolor()[0]) for c in ax.collections if len(c.get_facecolor())}
        assert {PRIOR_FILL, PARAMETERS} <= colours
    row = dict(zip(posterior.summary().columns, posterior.summary().rows[1], strict=True))
    shade = next(c for c in figure.axes[1].collections if to_hex(c.get_facecolor()[0]) == PARAMETERS)
    x = np.concatenate([path.vertices[:, 0] for path in shade.get_paths()])
    step = 2e8 / 100  # a curve has 170 points over less than the prior's range
    assert x.min() == pytest.approx(row["q05"], abs=step) and x.max() == pytest.approx(row["q95"], abs=step)


def test_marginal_shows_the_prior_unless_it_would_be_a_needle(posterior: Posterior) -> None:
    low, high = parameters.marginals_figure(posterior).axes[1].get_xlim()
    assert low < 1.1e7 and high > 1.9e8
    low, high = parameters.marginals_figure(wide(12)).axes[11].get_xlim()
    assert -2.0 < low < 0.0 < high < 2.0


def test_published_means_are_marked_with_their_spread(posterior: Posterior) -> None:
    references = (Reference("them", None, {"k_t": 1e8}, {"k_t": 0.3}), Reference("others", None, {"e": 0.8}))
    figure = parameters.marginals_figure(posterior, references)
    k_t = [line for line in figure.axes[1].lines if line.get_marker() == "D"]
    assert [float(line.get_xdata()[0]) for line in k_t] == [1e8]
    bar = figure.axes[1].collections[-1].get_paths()[0].vertices[:, 0]
    np.testing.assert_allclose(bar, [0.7e8, 1.3e8])
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend[-2:] == ["mean ± sd: them", "mean ± sd: others"]


def test_pairs_have_clouds_above_and_densities_below(posterior: Posterior) -> None:
    figure = parameters.pairs_figure(posterior)
    axes = figure.axes[:9]
    assert len(figure.axes) == 9 + 2  # and two colour bars
    for i in range(3):
        for j in range(3):
            ax = axes[3 * i + j]
            assert len(ax.images) == (i > j), (i, j)
            clouds = [c for c in ax.collections if c.get_rasterized()]
            assert len(clouds) == (i < j), (i, j)
    assert [ax.get_xlabel() for ax in axes[6:]] == ["restitution", "k_t [10⁸ N/m]", "sigma [10⁻³ m]"]
    assert [axes[k].get_ylabel() for k in (0, 3, 6)] == ["restitution", "k_t [10⁸ N/m]", "sigma [10⁻³ m]"]
    assert axes[1].get_xlabel() == "" and axes[4].get_ylabel() == ""
    assert [ax.get_ylabel() for ax in figure.axes[9:]] == ["log-likelihood", "density / peak"]


def test_cloud_is_a_sample_with_the_likeliest_on_top(posterior: Posterior) -> None:
    many = replace(
        posterior,
        x=np.repeat(posterior.x, 4, axis=1),
        log_likelihood=np.repeat(posterior.log_likelihood, 4, axis=1),
        log_prior=np.repeat(posterior.log_prior, 4, axis=1),
    )
    cloud = parameters.pairs_figure(many).axes[1].collections[0]
    assert len(cloud.get_offsets()) == 2000
    assert (np.diff(cloud.get_array()) >= 0).all()


def test_diagonal_marks_mean_and_95_percent(posterior: Posterior) -> None:
    ax = parameters.pairs_figure(posterior).axes[4]
    bar = next(c for c in ax.collections if len(c.get_linewidths()) and c.get_linewidths()[0] == 5)
    draws = posterior.flat[:, 1]
    np.testing.assert_allclose(bar.get_paths()[0].vertices[:, 0], np.quantile(draws, (0.025, 0.975)))
    tick = next(line for line in ax.lines if line.get_marker() == "|")
    assert tick.get_xdata()[0] == draws.mean()
    curve = next(line for line in ax.lines if line.get_color() == POSTERIOR)
    assert len(curve.get_xdata()) > 100


def test_only_the_most_narrowed_parameters_are_paired() -> None:
    posterior = wide(12)
    assert parameters.pair_columns(posterior) == [4, 5, 6, 7, 8, 9, 10, 11]
    assert len(parameters.pairs_figure(posterior).axes) == 64 + 2


def test_sparkline_stays_in_its_box(posterior: Posterior) -> None:
    for i, parameter in enumerate(posterior.space.parameters):
        svg = parameters.sparkline(posterior.flat[:, i], parameter)
        points = np.array([p.split(",") for p in re.findall(r"[\d.]+,[\d.]+", svg)], dtype=float)
        assert points[:, 0].min() >= 0 and points[:, 0].max() <= 150
        assert points[:, 1].min() >= 0 and points[:, 1].max() <= 22
        assert "nan" not in svg


def test_prior_that_is_infinite_at_its_bound() -> None:
    parameter = Parameter("x", gamma(mean=1.0, cov=2.0))
    _, height = parameters.prior_curve(parameter, 0.0, 5.0)
    assert np.isfinite(height).all() and height[0] == height[1] == height.max()
    assert "nan" not in parameters.sparkline(np.linspace(0.01, 2.0, 300), parameter)


def test_numbers_of_densities_and_draws(posterior: Posterior) -> None:
    table = parameters.marginal_numbers(posterior)
    assert set(table.column("parameter")) == {"e", "k_t", "sigma"}
    rows = [row for row in table.rows if row[0] == "k_t"]
    assert all(row[2] == pytest.approx(1 / 1.9e8) for row in rows)
    draws = parameters.draw_numbers(posterior)
    assert draws.columns == ("e", "k_t", "sigma", "log likelihood", "log prior")
    np.testing.assert_array_equal(np.array(draws.rows)[:, :3], posterior.flat)
