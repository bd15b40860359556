"""Propagated numbers: probability plots, running means, tables."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from tamis.report import propagation
from tamis.report.blocks import Grid, Picture
from tamis.report.style import FAILURE, FAINT, PARAMETERS, POSTERIOR, PRIOR, PRIOR_FILL
from tests.report import samples


def grids(*records: samples.Propagation) -> dict[str, Grid]:
    blocks = propagation.propagation_blocks(records, samples.study().model_space)
    return {block.name: block for block in blocks if isinstance(block, Grid)}


def tolerance(ax: Axes) -> list[float]:
    return [float(line.get_ydata()[0]) for line in ax.lines if line.get_color() == FAINT]


def test_ordered_answers_against_the_best_laws() -> None:
    p = samples.propagation(100)
    laws, _, _ = propagation.propagation_figure([p]).axes
    colours = propagation.law_colours([p])
    for k, law in enumerate(p.laws):
        dots = next(line for line in laws.lines if line.get_color() == colours[law])
        np.testing.assert_array_equal(dots.get_xdata(), p.law_quantiles[k])
        np.testing.assert_array_equal(dots.get_ydata(), np.sort(p.values))
    assert laws.get_xlim() == laws.get_ylim()
    assert (laws.get_xlabel(), laws.get_ylabel()) == ("law's quantile [kN]", "drawn [kN]")


def test_many_draws_are_thinned_but_not_their_tails() -> None:
    p = samples.propagation(5000)
    laws, _, _ = propagation.propagation_figure([p]).axes
    drawn = laws.lines[-1].get_ydata()
    ordered = np.sort(p.values)
    assert len(drawn) < 130
    np.testing.assert_array_equal(drawn[:10], ordered[:10])
    np.testing.assert_array_equal(drawn[-10:], ordered[-10:])


def test_only_three_laws_are_drawn() -> None:
    p = samples.propagation(
        100,
        laws=("a", "b", "c", "d"),
        law_parameters=("",) * 4,
        law_scores=np.zeros((4, 2)),
        law_quantiles=np.zeros((4, 100)),
    )
    figure = propagation.propagation_figure([p])
    assert [t.get_text() for t in figure.legends[0].get_texts()][:3] == ["a", "b", "c"]
    assert len(figure.axes[0].lines) == 4  # with the diagonal
    table = grids(p)["propagation-laws"]
    assert table.numbers is not None and len(table.rows) == 3 and len(table.numbers.rows) == 4


@pytest.mark.parametrize(
    ("source", "line", "fill"), [("prior", PRIOR, PRIOR_FILL), ("posterior", POSTERIOR, PARAMETERS)]
)
def test_running_mean_in_the_colour_of_its_source(source: str, line: str, fill: str) -> None:
    p = samples.propagation(source=source)
    figure = propagation.propagation_figure([p])
    mean = figure.axes[1]
    drawn = next(each for each in mean.lines if each.get_color() == line)
    np.testing.assert_array_equal(drawn.get_ydata(), p.means)
    np.testing.assert_array_equal(drawn.get_xdata(), p.steps)
    (band,) = mean.collections
    edges = band.get_paths()[0].vertices[:, 1]
    assert to_hex(band.get_facecolor()[0]) == fill
    assert (edges.min(), edges.max()) == ((p.means - p.errors).min(), (p.means + p.errors).max())
    assert (mean.get_xlabel(), mean.get_ylabel()) == ("draws", "mean [kN]")
    assert f"mean over the {source}, 95 %" in [t.get_text() for t in figure.legends[0].get_texts()]


def test_tolerance_is_a_share_of_the_mean_or_of_the_scatter() -> None:
    p = samples.propagation()
    last = p.means[-1]
    assert tolerance(propagation.propagation_figure([p]).axes[1]) == pytest.approx([0.95 * last, 1.05 * last])
    around_zero = samples.propagation(means=p.means - last, moments=np.array([0.0, 1.0, 0.0, 0.0]))
    assert tolerance(propagation.propagation_figure([around_zero]).axes[1]) == pytest.approx([-0.05, 0.05])


def test_what_went_wrong_is_said() -> None:
    good, bad = samples.propagations()
    blocks = propagation.propagation_blocks([good, bad], samples.study().model_space)
    picture = next(b for b in blocks if isinstance(b, Picture))
    assert "Not converged to the tolerance: drop-5.0: z, t = 0.5 s." in picture.caption
    assert "Values of 1 of 2 numbers come from the surrogate" in picture.caption
    assert "At most 7 draws of a number failed." in picture.caption
    titles = [ax for ax in picture.figure.axes if ax.texts]
    assert [ax.texts[0].get_text() for ax in titles] == ["drop-5.0: z, t = 0.5 s", "drop-5.0: peak force"]
    assert [ax.texts[1].get_color() for ax in titles] == [FAILURE, FAINT]
    fine = next(
        b
        for b in propagation.propagation_blocks([good], samples.study().model_space)
        if isinstance(b, Picture)
    )
    assert "converged" not in fine.caption and "surrogate" not in fine.caption
    assert "No draw failed." in fine.caption


def test_moments_stand_beside_those_of_fosm() -> None:
    good, bad = samples.propagations()
    grid = grids(good, bad)["propagation-moments"]
    assert grid.columns[-2:] == ("FOSM mean", "FOSM sd") and grid.numbers is not None
    assert [row[3].tint != "" for row in grid.rows] == [False, True]
    assert grid.numbers.column("mean") == [good.moments[0], bad.moments[0]]
    assert grid.numbers.column("error 95 %") == [good.errors[-1], bad.errors[-1]]
    assert grid.numbers.column("FOSM sd") == [0.9, 0.9]
    assert (
        grids(samples.propagation(fosm=np.empty(0)))["propagation-moments"].columns[-1] == "excess kurtosis"
    )


def test_laws_surfaces_and_importance() -> None:
    found = grids(samples.propagation())
    assert [cell.text for cell in found["propagation-laws"].rows[0]] == [
        "drop-5.0: peak force",
        "lognormal",
        "median = 3, cov = 0.307",
        "−1020.3",
        "0.0180",
    ]
    assert [cell.text for cell in found["propagation-surfaces"].rows[0]][1:] == [
        "0.9810",
        "0.9800",
        "0.9920",
        "0.9910",
    ]
    assert found["propagation-fosm"].columns == ("number", "e", "k_t")
    assert [cell.text for cell in found["propagation-fosm"].rows[0]][1:] == ["0.80", "−0.60"]


def test_what_was_not_asked_for_has_no_table() -> None:
    bare = samples.propagation(
        fosm=np.empty(0),
        fosm_importance=np.empty(0),
        surface=np.empty((0, 2)),
        laws=(),
        law_parameters=(),
        law_scores=np.empty((0, 2)),
        law_quantiles=np.empty((0, 900)),
    )
    assert list(grids(bare)) == ["propagation-moments"]


def test_many_numbers_are_spread_over_two_figures() -> None:
    many = [samples.propagation(200, series=f"p{i}", converged=i != 30) for i in range(40)]
    blocks = propagation.propagation_blocks(many, samples.study().model_space)
    pictures = [b for b in blocks if isinstance(b, Picture)]
    assert [p.name for p in pictures] == ["propagation-1", "propagation-2"]
    assert pictures[0].figure.axes[2].texts[0].get_text() == "p30: peak force"
    assert "12 of 40 numbers" in pictures[0].caption


def test_all_draws_failed() -> None:
    nothing = np.full(1, np.nan)
    empty = {"values": np.empty(0), "laws": (), "law_parameters": (), "law_scores": np.empty((0, 2))}
    means = {"steps": np.array([100.0]), "means": nothing, "errors": nothing, "moments": np.full(4, np.nan)}
    record = samples.propagation(failed=100, law_quantiles=np.empty((0, 0)), **empty, **means)
    assert [cell.text for cell in grids(record)["propagation-moments"].rows[0]][2:5] == ["0", "–", "–"]


def test_numbers_are_what_was_drawn() -> None:
    p = samples.propagation(5000)
    dots, means = propagation.dot_numbers([p]), propagation.mean_numbers([p])
    first = dots.rows[0]
    assert first[4:] == ("lognormal", 1, float(p.values.min()), float(p.law_quantiles[0, 0]))
    assert len(dots.rows) == 2 * len(propagation.propagation_figure([p]).axes[0].lines[-1].get_ydata())
    assert means.column("mean") == p.means.tolist() and means.column("draws")[-1] == 5000


def test_no_propagation_no_block() -> None:
    assert propagation.propagation_blocks((), samples.study().model_space) == []
