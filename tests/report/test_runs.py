"""Sampler and runs: what was drawn of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tamis.report import posterior, runs
from tamis.report.style import FAILURE, PRIOR
from tests.report import samples


def test_ladder_climbs_from_0_to_1() -> None:
    figure = posterior.sampler_figure(samples.posterior().diagnostics)
    ladder, acceptance, gains = figure.axes
    np.testing.assert_array_equal(ladder.lines[0].get_xdata(), range(8))
    assert ladder.lines[0].get_ydata()[0] == 0.0 and ladder.lines[0].get_ydata()[-1] == 1.0
    assert [t.get_text() for t in ladder.get_yticklabels()] == ["0", "10⁻³", "10⁻²", "10⁻¹", "10⁰"]
    np.testing.assert_array_equal(acceptance.lines[0].get_xdata(), range(1, 8))
    assert len(gains.patches) == 7
    assert [ax.get_xlabel() for ax in figure.axes] == ["stage"] * 3


def test_missing_diagnostics_are_left_out() -> None:
    some = {"exponents": np.array([1e-7, 0.2, 1.0]), "ess": np.array([3.0])}
    figure = posterior.sampler_figure(some)
    assert len(figure.axes) == 1
    np.testing.assert_array_equal(
        figure.axes[0].lines[0].get_xdata(), [1, 2, 3]
    )  # no exponent 0: after the prior
    assert posterior.ladder({"acceptance": np.array([0.3])}) == {}


def test_sampler_numbers_keep_stages_in_step() -> None:
    table = posterior.sampler_numbers(samples.posterior().diagnostics)
    assert table.column("stage") == list(range(8))
    assert table.column("acceptance")[:2] == [None, 0.42]
    assert table.column("exponents")[-1] == 1.0


def test_every_run_is_in_the_histogram() -> None:
    design = samples.design()
    ax = runs.durations_figure(design).axes[0]
    heights = [bar.get_height() for container in ax.containers for bar in container]
    assert sum(heights) == 128
    assert ax.get_xscale() == "log" and ax.get_ylabel() == "runs"
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["done", "failed"]


def test_unknown_durations_are_left_out() -> None:
    design = samples.design(failures=False)
    row = tuple(replace(run, seconds=float("nan")) for run in design.runs[0])
    ax = runs.durations_figure(replace(design, runs=(row, design.runs[1]))).axes[0]
    assert sum(bar.get_height() for container in ax.containers for bar in container) == 64
    assert ax.get_legend() is None
    runs.durations_figure(replace(design, runs=(row, row)))


def test_failures_are_red_crosses_where_they_happened() -> None:
    design = samples.design()
    figure = runs.design_figure(design, samples.space())
    ax = figure.axes[0]
    crosses = next(line for line in ax.lines if line.get_color() == FAILURE)
    dots = next(line for line in ax.lines if line.get_color() == PRIOR)
    bad = runs.failed_points(design)
    np.testing.assert_array_equal(crosses.get_xdata(), design.x[bad, 0])
    assert len(dots.get_xdata()) == 64 - bad.sum()
    assert ax.get_xlabel() == "restitution" and ax.get_ylabel() == "k_t [10⁸ N/m]"


def test_failures_of_the_sampler_are_drawn_too() -> None:
    design = samples.design()
    lost = replace(design.runs[0][0], status="failed", inputs=dict.fromkeys(design.names, 0.75))
    figure = runs.design_figure(design, samples.space(), [lost, replace(lost, status="done")])
    assert any(list(line.get_xdata()) == [0.75] for line in figure.axes[0].lines)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[-1] == "a run of the sampler failed" and len(labels) == 3


def test_one_input_and_many_inputs() -> None:
    design = samples.design()
    one = replace(design, names=("e",), x=design.x[:, :1])
    assert len(runs.design_figure(one, samples.space()).axes) == 1
    many = replace(design, names=tuple("abcdef"), x=np.hstack([design.x] * 3))
    space = samples.Space(tuple(samples.Parameter(name, samples.uniform(0.0, 1.0)) for name in "abcdef"))
    figure = runs.design_figure(many, space)
    assert len(figure.axes) == 6 and figure.axes[0].get_xlabel() == "a"


def test_run_numbers_list_every_run() -> None:
    table = runs.run_numbers(samples.design())
    assert len(table.rows) == 128
    assert table.column("status").count("timeout") == 1
    assert table.columns[-2:] == ("e", "k_t")
