"""The surrogate screen: scores, left-out predictions, where they err, how they grew."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from tamis.report import surrogate as surrogates
from tamis.report.blocks import Grid, Picture, Text
from tamis.report.style import FAILURE, HELD_OUT
from tests.report import samples

SIGNAL = np.linspace(0.0, 1.5, 120)


def dots(ax: Axes, colour: str) -> Line2D:
    return next(
        line for line in ax.lines if colour in (line.get_color(), line.get_mec()) and line.get_marker() == "o"
    )


def cube(d: int) -> samples.Space:
    names = [f"p{i}" for i in range(d)]
    return samples.Space(tuple(samples.Parameter(name, samples.uniform(0.0, 1.0)) for name in names))


def test_every_run_is_drawn_against_its_left_out_prediction() -> None:
    e = samples.emulation(np.zeros(1))
    (ax,) = surrogates.scatter_figure([e]).axes
    line = dots(ax, HELD_OUT)
    np.testing.assert_array_equal(line.get_xdata(), e.simulated[:, 0])
    np.testing.assert_array_equal(line.get_ydata(), e.predicted[:, 0])
    assert ax.get_xlim() == ax.get_ylim()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("simulated [kN]", "predicted [kN]")


def test_worst_run_is_ringed_and_named() -> None:
    e = samples.emulations()[0]
    ring = dots(surrogates.scatter_figure([e]).axes[0], FAILURE)
    assert list(np.ravel(ring.get_xdata())) == [e.simulated[e.worst, 0]]
    space = samples.study().model_space
    (picture, *_) = (b for b in surrogates.surrogate_blocks([e], space, (), 0.95) if isinstance(b, Picture))
    assert (
        f"of drop-1.0: peak force run {e.worst}, at e = {e.points[e.worst, 0]:.3f}, k_t = " in picture.caption
    )


def test_poor_scores_are_red_in_the_table_and_in_the_title() -> None:
    good, poor, *_ = samples.emulations()
    grid = surrogates.score_grid([good, poor])
    assert [row[5].tint != "" for row in grid.rows] == [False, True]
    titles = [ax.texts[1].get_color() == FAILURE for ax in surrogates.scatter_figure([good, poor]).axes]
    assert titles == [False, True]


def test_score_table_has_the_record_s_numbers() -> None:
    e = samples.emulation(SIGNAL)
    grid = surrogates.score_grid([e])
    assert grid.numbers is not None
    row = dict(zip(grid.numbers.columns, grid.numbers.rows[0], strict=True))
    assert (row["runs"], row["failed"], row["q2"], row["poor"]) == (60, 3, e.q2, False)
    assert row["rms error"] == pytest.approx(float(np.sqrt(((e.predicted - e.simulated) ** 2).mean())))
    assert row["worst q2"] == e.q2_points[surrogates.worst_point(e)]


def test_worst_point_is_sought_where_the_signal_varies() -> None:
    e = samples.emulation(SIGNAL)
    simulated = e.simulated.copy()
    simulated[:, 7] = 1e-9 * simulated[:, 50]
    q2 = np.full(120, 0.99)
    q2[7], q2[80], q2[90] = -5.0, 0.8, np.nan
    e = replace(e, simulated=simulated, q2_points=q2)
    assert surrogates.worst_point(e) == 80
    scatter, along, _ = surrogates.signal_figure([e], 0.9).axes
    np.testing.assert_array_equal(dots(scatter, HELD_OUT).get_xdata(), simulated[:, 80])
    pale, bold = (line for line in along.lines if len(line.get_ydata()) == 120)
    assert pale.get_ydata()[7] == 6.0 and np.isnan(bold.get_ydata()[[7, 90]]).all()
    assert along.get_ylim()[1] == 1.0  # the score of what does not vary, 6, does not set the scale


def test_unexplained_share_is_logarithmic_with_the_threshold_on_it() -> None:
    _, along, _ = surrogates.signal_figure([samples.emulation(SIGNAL)], 0.9).axes
    assert along.get_yscale() == "log" and along.get_ylabel() == "1 − Q2"
    assert any(np.allclose(line.get_ydata(), 0.1) and line.get_color() == FAILURE for line in along.lines)
    labels = [label.get_text() for label in along.get_yticklabels()]
    assert labels == ["10⁻³", "10⁻²", "10⁻¹"] and along.get_xlabel() == "t [s]"


def test_errors_are_mapped_over_the_parameters_that_matter() -> None:
    e = samples.emulation(np.zeros(1), d=5)
    total = np.array([0.1, 0.5, 0.0, 0.3, 0.2])[:, None]
    matters = samples.influence(np.zeros(1), d=5, total=total)
    assert surrogates.leading(e, 5, [matters]) == [1, 3, 4]
    assert surrogates.leading(e, 5, [replace(matters, label="other")]) == [0, 1, 2]
    figure = surrogates.map_figure([e], cube(5), [[1, 3, 4]])
    assert [(ax.get_xlabel(), ax.get_ylabel()) for ax in figure.axes] == [
        ("p1", "p3"),
        ("p1", "p4"),
        ("p3", "p4"),
    ]
    cloud = figure.axes[0].collections[0]
    error = np.abs(e.predicted - e.simulated)[:, 0]
    np.testing.assert_array_equal(cloud.get_offsets(), e.points[:, [1, 3]])
    assert np.argmax(cloud.get_sizes()) == np.argmax(error) == e.worst


def test_one_parameter_gets_its_error_along_it() -> None:
    e = samples.emulation(np.zeros(1), d=1)
    (ax,) = surrogates.map_figure([e], cube(1), [[0]]).axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("p0", "error / spread")


def test_growth_is_drawn_where_there_was_enrichment() -> None:
    enriched = [e for e in samples.emulations() if len(e.growth) > 1]
    (ax,) = surrogates.growth_figure(enriched, 0.95).axes
    first = next(line for line in ax.lines if line.get_marker() == "o")
    np.testing.assert_allclose(first.get_ydata(), [0.38, 0.29, 0.12, 0.07])
    assert ax.get_xlabel() == "runs" and ax.get_yscale() == "log"
    names = [
        b.name
        for b in surrogates.surrogate_blocks([samples.emulation(SIGNAL)], cube(2), (), 0.95)
        if isinstance(b, Picture)
    ]
    assert names == ["surrogate-signals", "surrogate-map"]


def test_only_the_worst_of_many_are_drawn_and_all_are_listed() -> None:
    many = [samples.emulation(np.zeros(1), series=f"test {i}", q2=1 - 0.001 * i) for i in range(40)]
    blocks = surrogates.surrogate_blocks(many, cube(2), (), 0.95)
    picture = next(b for b in blocks if isinstance(b, Picture))
    grid = next(b for b in blocks if isinstance(b, Grid))
    assert len(picture.figure.axes) == surrogates.DRAWN and "The 12 worst of 40." in picture.caption
    assert len(grid.rows) == 40 and len(picture.files["surrogate-numbers"].rows) == 40 * 60
    assert picture.figure.axes[0].texts[0].get_text() == "test 39: peak force"


def test_sentence_says_method_runs_failures_and_threshold() -> None:
    said = surrogates.surrogate_blocks(samples.emulations(), samples.study().model_space, (), 0.95)[0]
    assert isinstance(said, Text)
    for words in ("polynomial chaos, fitted to 60 runs", "at most 3 of a test", "1 of 4 is below the 0.95"):
        assert words in said.text
    fine = surrogates.summary([samples.emulation(np.zeros(1), failed=0)], 0.9)
    assert "No run was left out." in fine and "all reach the 0.9 asked for" in fine


def test_constant_output_and_perfect_prediction_are_drawn() -> None:
    e = samples.emulation(SIGNAL)
    flat = np.ones_like(e.simulated)
    nothing = np.full(120, np.nan)
    constant = replace(e, simulated=flat, predicted=flat, q2=1.0, q2_points=nothing)
    blocks = surrogates.surrogate_blocks([constant], cube(2), (), 0.95)
    assert [b.name for b in blocks if isinstance(b, Picture)] == ["surrogate-signals"]  # no error to map
    perfect = replace(e, predicted=e.simulated, q2=1.0, q2_points=np.ones(120))
    surrogates.surrogate_blocks([perfect, constant], cube(2), (), 0.95)


def test_missing_runs_of_a_table_are_left_out() -> None:
    e = samples.emulation(np.arange(8.0))
    simulated, predicted = e.simulated.copy(), e.predicted.copy()
    simulated[3, 2] = predicted[3, 2] = np.nan
    grid = surrogates.score_grid([replace(e, simulated=simulated, predicted=predicted)])
    assert grid.numbers is not None
    error = np.sqrt(np.nanmean((predicted - simulated) ** 2))
    assert grid.numbers.column("rms error")[0] == pytest.approx(float(error))


def test_no_surrogate_no_screen() -> None:
    assert surrogates.surrogate_blocks((), cube(2), (), 0.95) == []


@pytest.mark.parametrize(
    ("q2", "text"),
    [
        (0.5, "0.500"),
        (0.9312, "0.931"),
        (0.99987, "0.99987"),
        (1.0, "1.000000"),
        (-3.2, "−3.200"),
        (math.nan, "–"),
    ],
)
def test_scores_show_two_digits_of_what_is_missing(q2: float, text: str) -> None:
    assert surrogates.score_text(q2) == text
