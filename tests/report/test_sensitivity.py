"""Where the variance comes from: bars, matrix, areas, and the table of measures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from tamis.report import sensitivity as influence
from tamis.report.blocks import Grid, Picture
from tamis.report.style import PRIOR
from tests.report import samples

TIME = np.linspace(0.0, 1.5, 120)
NUMBER = np.zeros(1)


def cube(d: int) -> samples.Space:
    return samples.Space(tuple(samples.Parameter(f"p{i}", samples.uniform(0.0, 1.0)) for i in range(d)))


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def areas(records: list[samples.Influence], space: samples.Space) -> Figure:
    return influence.areas_figure(records, space, influence.palette(records))


def tops(ax: Axes) -> list[float]:
    """The upper edge of each area at the right end."""
    found = []
    for area in ax.collections:
        x, y = area.get_paths()[0].vertices.T
        found.append(float(y[x == x.max()].max()))
    return found


def test_bars_are_first_and_total_indices_with_whiskers() -> None:
    record = samples.influence(NUMBER)
    figure = influence.bars_figure([(record, 0)], cube(2))
    (ax,) = figure.axes
    assert [bar.get_width() for bar in ax.patches] == [*record.first[:, 0], *record.total[:, 0]]
    ends = [segment[:, 0] for lines in ax.collections for segment in lines.get_segments()]
    bands = np.concatenate([record.first_band[:, :, 0].T, record.total_band[:, :, 0].T])
    np.testing.assert_allclose(ends, bands)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["p0", "p1"] and legend(figure) == [
        "first",
        "total",
    ]
    assert ax.get_xlabel() == "share of the variance"
    assert [t.get_text() for t in ax.texts] == ["drop-1.0: peak force", "sd 0.0200 kN"]


def test_constant_number_is_left_blank_and_called_so() -> None:
    nothing = np.full((2, 1), np.nan)
    record = samples.influence(NUMBER, first=nothing, total=nothing, sd=np.zeros(1))
    (ax,) = influence.bars_figure([(record, 0)], cube(2)).axes
    assert ax.texts[1].get_text() == "constant"
    assert np.isnan([bar.get_width() for bar in ax.patches]).all()
    assert not any(segment.size for lines in ax.collections for segment in lines.get_segments())


def test_a_few_points_of_an_abscissa_are_numbers_of_their_own() -> None:
    record = samples.influence(
        np.array([10.0, 20.0, 30.0]), xlabel="angle [deg]", series="tests", label="ctr"
    )
    blocks = influence.influence_blocks([record], cube(2))
    picture = next(b for b in blocks if isinstance(b, Picture))
    titles = [ax.texts[0].get_text() for ax in picture.figure.axes]
    assert titles == [f"tests: ctr, angle = {a} deg" for a in (10, 20, 30)]
    names = [[t.get_text() for t in ax.get_yticklabels()] for ax in picture.figure.axes]
    assert names == [["p0", "p1"], ["", ""], ["", ""]]  # once a row


def test_many_numbers_make_a_matrix() -> None:
    many = [samples.influence(NUMBER, d=3, series=f"test {i}") for i in range(13)]
    blocks = influence.influence_blocks(many, cube(3))
    (ax,) = next(b for b in blocks if isinstance(b, Picture)).figure.axes
    (image,) = ax.images
    np.testing.assert_array_equal(image.get_array(), [record.total[:, 0] for record in many])
    assert [t.get_text() for t in ax.texts][:2] == ["0.80", "0.30"]  # zeros are left blank
    assert [t.get_text() for t in ax.get_xticklabels()] == ["p0", "p1", "p2"]


def test_areas_stack_the_shares_below_the_standard_deviation() -> None:
    record = samples.influence(TIME)
    figure = areas([record], cube(2))
    above, ax = figure.axes
    assert tops(ax) == pytest.approx([0.6, 0.8, 1.0, 1.0])  # p1, then p0, then both together
    assert legend(figure) == ["p1", "p0", "p0 × p1"]
    line = next(line for line in above.lines if line.get_color() == PRIOR)
    np.testing.assert_array_equal(line.get_ydata(), record.sd)
    assert above.get_ylabel() == "sd [m]" and ax.get_xlabel() == "t [s]" and ax.get_ylim() == (0.0, 1.0)
    assert above.get_xlim() == ax.get_xlim() == (0.0, 1.5)


def test_colours_are_the_same_in_every_panel() -> None:
    one = samples.influence(TIME)
    other = samples.influence(TIME, subsets=((1,), (0,), (0, 1)))
    figure = areas([one, other], cube(2))
    colours = influence.palette([one, other])
    for ax, record in zip(figure.axes[1::2], (one, other), strict=True):
        drawn = [to_hex(area.get_facecolor()[0]) for area in ax.collections]
        assert drawn[:3] == [colours[s] for s in colours if s in record.subsets]


def test_small_shares_go_together() -> None:
    shares = np.full((9, 120), 0.05)
    shares[0] = 0.6
    record = samples.influence(TIME, d=9, subsets=tuple((i,) for i in range(9)), shares=shares)
    figure = areas([record], cube(9))
    assert legend(figure) == [*(f"p{i}" for i in range(6)), "all others"]
    assert tops(figure.axes[1])[-1] == pytest.approx(1.0) and len(figure.axes[1].collections) == 7


def test_constant_instants_are_left_blank() -> None:
    record = samples.influence(TIME)
    shares = record.shares.copy()
    shares[:, :40] = np.nan
    figure = areas([replace(record, shares=shares)], cube(2))
    for area in figure.axes[1].collections:
        assert area.get_paths()[0].vertices[:, 0].min() == TIME[40]


def test_what_is_not_told_apart_fills_up_to_one() -> None:
    record = samples.influence(TIME)
    alone = replace(
        record, shares=record.shares[:2], subsets=record.subsets[:2], source="Kriging, by sampling"
    )
    figure = areas([alone], cube(2))
    assert tops(figure.axes[1]) == pytest.approx([0.6, 0.8, 1.0]) and legend(figure) == [
        "p1",
        "p0",
        "all others",
    ]
    caption = next(b.caption for b in influence.influence_blocks([alone], cube(2)) if isinstance(b, Picture))
    assert "(Kriging, by sampling)" in caption


def test_tests_that_share_an_abscissa_stand_side_by_side() -> None:
    angle = np.array([60.0, 10.0, 20.0, 20.0, 30.0, 40.0, 50.0])
    record = samples.influence(angle, xlabel="angle [deg]")
    above, ax = areas([record], cube(2)).axes
    assert ax.get_xlabel() == "index, in the order of angle [deg]" and ax.get_xlim() == (0.0, 6.0)
    np.testing.assert_array_equal(above.lines[0].get_ydata(), record.sd[[1, 2, 3, 4, 5, 6, 0]])


def test_table_sets_the_measures_side_by_side() -> None:
    record = samples.influence(TIME)
    grid = influence.influence_blocks([record], cube(2))[-1]
    assert isinstance(grid, Grid) and grid.numbers is not None
    head = (
        "observation",
        "parameter",
        "first",
        "total",
        "90 % of total",
        "sampled total",
        "SRC",
        "R2",
        "FOSM",
    )
    assert grid.columns == head
    shown = [cell.text for cell in grid.rows[1]]
    assert shown[:6] == ["drop-1.0: z, t = 1.5 s", "p1", "0.600", "0.800", "0.760 to 0.840", "0.790"]
    assert shown[6:] == ["−0.775", "0.900", "0.816"]
    assert len(grid.numbers.rows) == 240
    assert grid.numbers.column("regression")[-1] == record.src[1, -1]


def test_measures_that_were_not_made_have_no_column() -> None:
    none = np.empty((0, 1))
    record = samples.influence(NUMBER, sampled_first=none, sampled_total=none, src=none, fosm=none)
    grid = influence.influence_blocks([record], cube(2))[-1]
    assert isinstance(grid, Grid)
    assert grid.columns == ("observation", "parameter", "first", "total", "90 % of total")


def test_regression_alone_gives_a_table_and_no_figure() -> None:
    none, bands = np.empty((0, 1)), np.empty((2, 0, 1))
    record = samples.influence(
        NUMBER,
        first=none,
        total=none,
        first_band=bands,
        total_band=bands,
        shares=none,
        subsets=(),
        sampled_first=none,
        sampled_total=none,
        fosm=none,
    )
    blocks = influence.influence_blocks([record], cube(2))
    assert not any(isinstance(b, Picture) for b in blocks)
    assert isinstance(blocks[-1], Grid) and blocks[-1].columns == ("observation", "parameter", "SRC", "R2")


def test_long_table_shows_the_strongest() -> None:
    total = np.linspace(0.0, 0.22, 12)[:, None]
    many = [samples.influence(NUMBER, d=12, series=f"test {i}", total=total) for i in range(10)]
    grid = influence.influence_blocks(many, cube(12))[-1]
    assert isinstance(grid, Grid) and grid.numbers is not None
    assert len(grid.rows) == 60 and len(grid.numbers.rows) == 120
    assert {row[1].text for row in grid.rows} == {f"p{i}" for i in range(6, 12)}
    assert "60 strongest of 120" in grid.caption


def test_parameters_without_influence_are_not_listed() -> None:
    grid = influence.influence_blocks([samples.influence(NUMBER, d=5)], cube(5))[-1]
    assert isinstance(grid, Grid)
    assert [row[1].text for row in grid.rows] == ["p0", "p4"] and "2 strongest of 5" in grid.caption


def test_share_numbers_are_the_areas() -> None:
    record = samples.influence(TIME)
    table = influence.share_numbers([record], cube(2), influence.palette([record]))
    assert table.columns[2:] == ("x", "sd", "p1", "p0", "p0 × p1", "all others")
    assert table.column("p1") == record.shares[1].tolist() and table.column("sd") == record.sd.tolist()
    assert table.column("all others") == pytest.approx(np.zeros(120), abs=1e-12)  # they add up to 1


def test_no_influence_no_block() -> None:
    assert influence.influence_blocks((), cube(2)) == []
