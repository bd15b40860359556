"""Possible experiments and exceedance: what is ranked, drawn and written."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from tamis.report import next as information
from tamis.report import prediction
from tamis.report.blocks import Block, Grid, Picture, Text
from tamis.report.style import COLOURS, PARAMETERS, POSTERIOR
from tamis.results.records import Candidate, Panel
from tests.report import samples

SPACE = samples.space()  # e, k_t, sigma


def candidate(**changes: Any) -> Candidate:
    values: dict[str, Any] = {
        "name": "heavy ball",
        "label": "mass = 2 kg",
        "xlabel": "",
        "x": math.nan,
        "gain": 0.5,
        "error": 0.02,
        "failed": 0,
        "narrowing": np.array([0.1, 0.3, 0.0]),
    }
    return Candidate(**{**values, **changes})


def sweep(gains: tuple[float, ...] = (0.9, 0.4, 0.2), **changes: Any) -> list[Candidate]:
    return [
        candidate(
            **{
                "name": "tilted",
                "label": f"angle = {10 * k:g} deg",
                "xlabel": "angle [deg]",
                "x": 10.0 * k,
                "gain": gain,
                "narrowing": np.array([0.1 * gain, 0.6 * gain, 0.0]),
                **changes,
            }
        )
        for k, gain in enumerate(gains, start=1)
    ]


def table(blocks: list[Block], name: str) -> Grid:
    return next(b for b in blocks if isinstance(b, Grid) and b.name == name)


def pictures(blocks: list[Block]) -> dict[str, Picture]:
    return {b.name: b for b in blocks if isinstance(b, Picture)}


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_best_is_named_first_with_what_it_is_good_for() -> None:
    blocks = information.information_blocks([candidate(), *sweep()], SPACE)
    lead = blocks[0]
    assert isinstance(lead, Text) and lead.lead
    assert lead.text == (
        "Best: tilted, angle = 10 deg. It is expected to add 0.900 ± 0.020 nats and to reduce the standard "
        "deviation of k_t by 54\u00a0% and of e by 9\u00a0%."
    )
    ranking = table(blocks, "next-ranking")
    assert [row[2].text for row in ranking.rows] == [
        "angle = 10 deg",
        "mass = 2 kg",
        "angle = 20 deg",
        "angle = 30 deg",
    ]
    assert ranking.rows[1][3].text == "0.500 ± 0.020" and ranking.rows[1][3].key == 0.5
    assert ranking.rows[1][4].text == "k_t 30\u00a0%, e 10\u00a0%"
    assert "failed draws" not in ranking.columns


def test_an_experiment_that_narrows_nothing_says_so() -> None:
    nothing = candidate(gain=0.001, narrowing=np.zeros(3))
    blocks = information.information_blocks([nothing], SPACE)
    assert isinstance(blocks[0], Text) and "standard deviation" not in blocks[0].text
    assert table(blocks, "next-ranking").rows[0][4].text == "none"
    assert not information.sweeps_figure([sweep(narrowing=np.zeros(3))], SPACE).legends


def test_failures_are_counted_where_there_are_any() -> None:
    ranking = table(
        information.information_blocks([candidate(failed=7), candidate(gain=0.1)], SPACE), "next-ranking"
    )
    assert ranking.columns[-1] == "failed draws"
    assert [row[-1].text for row in ranking.rows] == ["7", "0"]


def test_a_sweep_is_drawn_in_its_order_with_errors_and_its_best_marked() -> None:
    group = sweep()
    blocks = information.information_blocks(group[::-1], SPACE)
    gain, narrowing = pictures(blocks)["next-1"].figure.axes
    line, best = gain.lines[0], gain.lines[-1]
    np.testing.assert_array_equal(line.get_xdata(), [10.0, 20.0, 30.0])
    np.testing.assert_array_equal(line.get_ydata(), [0.9, 0.4, 0.2])
    assert list(best.get_xdata()) == [10.0]
    bars = np.array(gain.collections[0].get_segments())[:, :, 1]
    np.testing.assert_allclose(bars.mean(axis=1), [0.9, 0.4, 0.2])
    np.testing.assert_allclose(np.ptp(bars, axis=1), 2 * 1.96 * 0.02)  # a 95 % interval
    assert (gain.get_xlabel(), gain.get_ylabel()) == ("angle [deg]", "expected gain [nat]")
    assert narrowing.get_ylabel() == "narrowing [%]"
    assert len(narrowing.lines) == 2  # sigma is not narrowed by any
    np.testing.assert_allclose(narrowing.lines[1].get_ydata(), 100 * 0.6 * np.array([0.9, 0.4, 0.2]))
    assert legend(gain.get_figure()) == ["e", "k_t"]
    low, high = gain.get_ylim()
    assert low == 0.0 and high > 0.9 + 1.96 * 0.02


def test_parameters_keep_their_colours_and_those_narrowed_most_come_first() -> None:
    assert information.parameter_colours(sweep(), SPACE) == {0: COLOURS[0], 1: COLOURS[1]}
    many = samples.Space(
        tuple(samples.Parameter(f"p{k}", SPACE.parameters[0].prior) for k in range(len(COLOURS) + 2))
    )
    some = candidate(narrowing=np.linspace(0.0, 0.9, many.dim))
    assert list(information.parameter_colours([some], many)) == list(range(2, many.dim))


def test_single_experiments_are_bars_beside_their_narrowing() -> None:
    worse = candidate(name="light ball", label="light ball", gain=0.2, narrowing=np.array([0.0, 0.004, 0.2]))
    blocks = information.information_blocks([worse, candidate()], SPACE)
    bars, shares = pictures(blocks)["next-single"].figure.axes
    assert [patch.get_width() for patch in bars.patches] == [0.5, 0.2]
    assert [t.get_text() for t in bars.get_yticklabels()] == ["heavy ball\nmass = 2 kg", "light ball"]
    np.testing.assert_array_equal(shares.images[0].get_array(), [[0.1, 0.3, 0.0], [0.0, 0.004, 0.2]])
    assert [t.get_text() for t in shares.texts] == ["10 %", "30 %", "20 %"]
    assert [t.get_text() for t in shares.get_xticklabels()] == ["e", "k_t", "sigma"]
    assert "next-1" not in pictures(blocks)


def test_long_rankings_are_cut_and_their_files_are_not() -> None:
    many = [candidate(name=f"n{k}", gain=1.0 - 0.01 * k) for k in range(50)]
    blocks = information.information_blocks(many, SPACE)
    ranking = table(blocks, "next-ranking")
    assert len(ranking.rows) == 20 and "The best 20 of 50" in ranking.caption
    assert ranking.numbers is not None and len(ranking.numbers.rows) == 50
    single = pictures(blocks)["next-single"]
    assert len(single.figure.axes[0].patches) == 30 and "The best 30 of 50." in single.caption
    assert len(single.files["next-single"].rows) == 50


def test_many_sweeps_are_spread_over_figures() -> None:
    groups = [c for k in range(5) for c in sweep(name=f"sweep {k}")]
    drawn = pictures(information.information_blocks(groups, SPACE))
    assert [len(p.figure.axes) for p in drawn.values()] == [8, 2]


def test_numbers_hold_every_figure() -> None:
    numbers = information.candidate_numbers(sweep(), SPACE)
    assert numbers.columns[-3:] == ("narrowing e", "narrowing k_t", "narrowing sigma")
    assert numbers.column("gain") == [0.9, 0.4, 0.2] and numbers.column("x") == [10.0, 20.0, 30.0]
    assert numbers.column("narrowing k_t") == pytest.approx([0.54, 0.24, 0.12])


def limited(panel: Panel, alone: np.ndarray, total: np.ndarray) -> Panel:
    """A panel with a limit, from 1000 draws."""
    drawn = np.zeros((1000, len(panel.x)))
    share = np.stack([alone, total])
    error = np.sqrt(share * (1 - share) / 1000)
    return replace(panel, limit=0.6, exceedance=share, exceedance_error=error, model=drawn)


def swept() -> Panel:
    return limited(samples.sweep_panel(), np.linspace(0.0, 0.2, 35), np.linspace(0.1, 0.3, 35))


def scalar(alone: float, total: float) -> Panel:
    words = {"series": "drop-5.0", "label": "peak force", "xlabel": "", "ylabel": "F [kN]"}
    return limited(samples.panel(np.zeros(1), np.full(1, 0.4), **words), np.full(1, alone), np.full(1, total))


def test_exceedance_along_an_abscissa() -> None:
    panel = swept()
    blocks = prediction.exceedance_blocks([samples.sweep_panel(), panel])
    picture = pictures(blocks)["exceedance-1"]
    (ax,) = picture.figure.axes
    model, total = ax.lines
    np.testing.assert_allclose(model.get_ydata(), 100 * panel.exceedance[0])
    np.testing.assert_allclose(total.get_ydata(), 100 * panel.exceedance[1])
    assert (model.get_color(), total.get_color()) == (PARAMETERS, POSTERIOR)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("angle [deg]", "exceedance [%]")
    assert 30.0 < ax.get_ylim()[1] < 40.0 and legend(picture.figure) == ["parameters", "with errors"]
    assert [t.get_text() for t in ax.texts] == ["ctr-by-angle", "limit 0.6"]
    row = table(blocks, "exceedance").rows[0]
    assert [cell.text for cell in row] == ["ctr-by-angle", "0.6", "angle = 70 deg", "20 ± 1 %", "30 ± 1 %"]
    assert picture.files["exceedance-1"].column("with errors") == panel.exceedance[1].tolist()


@pytest.mark.parametrize(
    ("model", "total", "said"),
    [
        (0.25, 0.5, ["25 ± 1 %", "50 ± 2 %"]),
        (0.0, 0.001, ["below 0.3 % (none of 1000 draws)", "below 0.3 %"]),  # 3 of 1000 draws
        (1.0, 0.999, ["above 99.7 %", "above 99.7 %"]),
        (0.003, 0.006, ["0.3 ± 0.2 %", "0.6 ± 0.2 %"]),
    ],
)
def test_a_probability_is_no_nearer_to_none_or_all_than_draws_can_tell(
    model: float, total: float, said: list[str]
) -> None:
    blocks = prediction.exceedance_blocks([scalar(model, total)])
    grid = table(blocks, "exceedance")
    assert not pictures(blocks)
    assert grid.columns == ("number", "limit", "parameters", "with errors")
    assert [cell.text for cell in grid.rows[0]] == ["drop-5.0: peak force", "0.6 kN", *said]
    assert grid.numbers is not None and grid.numbers.column("parameters") == [model]


def test_nothing_asked_nothing_shown() -> None:
    assert information.information_blocks((), SPACE) == []
    assert prediction.exceedance_blocks([samples.sweep_panel()]) == []


def test_a_bound_is_written_as_a_bound():
    bound = candidate(gain=5.298, error=0.0, at_least=True)
    assert "is expected to add at least 5.30 nats" in information.advice([bound], SPACE)
    table = information.ranking_grid([bound, candidate()], SPACE)
    assert table.rows[0][3].text == "at least 5.30" and table.rows[1][3].text == "0.500 ± 0.020"
    assert "nor which of such candidates is best" in table.caption
    assert "nor which" not in information.ranking_grid([candidate()], SPACE).caption
