"""Panels: what was drawn, with which labels, over which range."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from tamis.report import prediction as bands
from tamis.report.style import DATA, HELD_OUT, PARAMETERS, POSTERIOR, PRIOR_FILL, TOTAL
from tests.report import samples


def fills(ax: Axes) -> list[str]:
    return [to_hex(c.get_facecolor()[0]) for c in ax.collections if len(c.get_facecolor())]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_panel_has_three_bands_a_mean_and_the_data() -> None:
    panel = samples.table_panel()
    figure = bands.bands_figure([panel])
    main, residual = figure.axes
    assert {PRIOR_FILL, TOTAL, PARAMETERS} <= set(fills(main))
    mean = next(line for line in main.lines if line.get_color() == POSTERIOR)
    np.testing.assert_array_equal(mean.get_ydata(), panel.mean)
    points = next(line for line in main.lines if line.get_color() == DATA and line.get_marker() == "o")
    np.testing.assert_array_equal(points.get_ydata(), panel.y[0])
    assert main.get_ylabel() == "ctr" and residual.get_xlabel() == "angle [deg]"
    low, high = main.get_ylim()
    assert low < panel.total_band.min() and high > panel.total_band.max()


def test_bands_are_where_the_record_says() -> None:
    panel = samples.table_panel()
    main = bands.bands_figure([panel]).axes[0]
    band = next(c for c in main.collections if to_hex(c.get_facecolor()[0]) == PARAMETERS)
    y = band.get_paths()[0].vertices[:, 1]
    assert (y.min(), y.max()) == (panel.model_band.min(), panel.model_band.max())


def test_autocorrelation_is_drawn_where_there_is_one() -> None:
    figure = bands.bands_figure([samples.signal_panel(), samples.table_panel()])
    titles = [ax.get_xlabel() for ax in figure.axes]
    assert titles.count("lag of the residuals") == 1
    lags = next(ax for ax in figure.axes if ax.get_xlabel() == "lag of the residuals")
    assert len(lags.collections[0].get_paths()) == 41


def test_held_out_data_are_orange() -> None:
    figure = bands.bands_figure([samples.signal_panel(use="validate")])
    colours = {line.get_color() for line in figure.axes[0].lines}
    assert HELD_OUT in colours and DATA not in colours
    assert "measured, held out" in legend(figure)


def test_numerical_experiment_is_called_one() -> None:
    figure = bands.bands_figure([samples.signal_panel(synthetic=True)])
    assert "numerical experiment" in legend(figure)
    assert any("numerical experiment" in text.get_text() for text in figure.axes[0].texts)


def test_prediction_without_data_has_no_residuals_and_shows_the_overlay() -> None:
    panel = samples.sweep_panel()
    figure = bands.bands_figure([panel])
    assert len(figure.axes) == 1
    points = next(line for line in figure.axes[0].lines if line.get_marker() == "o")
    np.testing.assert_array_equal(points.get_xdata(), panel.overlay[:, 0])
    assert legend(figure) == ["parameters, 90 %", "with errors, 90 %", "mean", "measured ± sd"]


def test_condition_and_share_are_said() -> None:
    panel = samples.sweep_panel(condition="k_t between 1e+07 and 8e+07", share=0.25, failed=3)
    note = bands.panel_note(panel).replace("\u00a0", " ")
    assert note == "k_t between 1 × 10⁷ and 8 × 10⁷ (25 % of the draws); 3 draws failed"


def test_title_does_not_say_twice_what_is_observed() -> None:
    titled = [samples.sweep_panel(series=series) for series in ("ctr against angle", "spectra")]
    titles = [ax.texts[0].get_text() for ax in bands.bands_figure(titled).axes]
    assert titles == ["ctr against angle", "spectra: ctr"]


def test_wild_prior_does_not_dwarf_the_data() -> None:
    calm = samples.table_panel()
    wild = samples.table_panel(prior=np.stack([calm.mean - 1e6, calm.mean, calm.mean + 1e6]))
    low, high = bands.panel_limits([wild])
    reach = np.ptp(bands.panel_limits([samples.table_panel(prior=np.empty((0, 6)))]))
    assert high - low == pytest.approx(3 * reach)  # the data's own range and once that on each side


def test_repeated_abscissa_is_drawn_as_bars() -> None:
    panel = samples.panel(np.array([1.0, 1.0, 2.0]), np.array([0.1, 0.2, 0.3]))
    main = bands.bands_figure([panel]).axes[0]
    assert not any(line.get_color() == POSTERIOR and len(line.get_xdata()) > 3 for line in main.lines)
    assert len(main.collections[1].get_paths()) == 3


def test_one_point_on_an_abscissa() -> None:
    panel = samples.panel(np.array([30.0]), np.array([0.5]), xlabel="angle [deg]")
    assert not bands.is_scalar(panel)
    low, high = bands.bands_figure([panel]).axes[0].get_xlim()
    assert low < 30.0 < high


def test_unsorted_abscissa_is_sorted() -> None:
    panel = samples.panel(np.array([3.0, 1.0, 2.0]), np.array([0.3, 0.1, 0.2]))
    mean = next(ln for ln in bands.bands_figure([panel]).axes[0].lines if ln.get_color() == POSTERIOR)
    np.testing.assert_array_equal(mean.get_xdata(), [1.0, 2.0, 3.0])


def test_missing_measurements_and_unknown_errors() -> None:
    panel = samples.table_panel(y=np.full((2, 6), np.nan), y_sd=np.full(6, np.nan))
    low, high = bands.panel_limits([panel])
    assert np.isfinite([low, high]).all()
    assert "measured" in legend(bands.bands_figure([panel]))


def test_long_signals_are_thinned_and_rasterised() -> None:
    t = np.linspace(0.0, 1.0, 5000)
    main = bands.bands_figure([samples.panel(t, np.sin(9 * t))]).axes[0]
    mean = next(line for line in main.lines if line.get_color() == POSTERIOR)
    assert len(mean.get_xdata()) == 400 and mean.get_xdata()[-1] == 1.0
    assert next(line for line in main.lines if line.get_color() == DATA).get_rasterized()


@pytest.mark.parametrize(("n", "columns"), [(1, 1), (2, 2), (3, 3), (4, 2), (6, 3)])
def test_grid(n: int, columns: int) -> None:
    figure = bands.bands_figure([samples.sweep_panel() for _ in range(n)])
    assert len({round(ax.get_position().x0, 6) for ax in figure.axes}) == columns


def test_no_axes_overlap() -> None:
    figure = bands.bands_figure([samples.signal_panel() for _ in range(6)])
    boxes = [ax.get_position() for ax in figure.axes]
    for i, a in enumerate(boxes):
        assert min(a.x0, a.y0) >= 0 and max(a.x1, a.y1) <= 1
        for b in boxes[:i]:
            assert a.x1 <= b.x0 or b.x1 <= a.x0 or a.y1 <= b.y0 or b.y1 <= a.y0


def test_scalars_of_one_unit_share_an_axis() -> None:
    panels = [p for p in samples.panels() if bands.is_scalar(p) and p.use == "calibrate"]
    figure = bands.scalars_figure(panels)
    titles = [ax.get_xlabel() for ax in figure.axes]
    assert titles == ["force [kN]", "residual [sd]", "time [s]", "residual [sd]"]
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["plate: peak force", "plate: second peak"]
    replicates = [line for line in figure.axes[2].lines if line.get_marker() == "o"]
    assert [float(line.get_xdata()[0]) for line in replicates] == [3.0, 3.3]


def test_numbers_by_the_surrogate_say_so() -> None:
    panels = [
        samples.scalar_panel(1.0, "range", "range [m]", emulated=emulated) for emulated in (False, True)
    ]
    figure = bands.scalars_figure(panels)
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["plate: range", "plate: range\nby the surrogate"]


def test_scalar_predictions_have_no_residuals() -> None:
    nothing = {"y": np.empty((0, 1)), "y_sd": np.empty(0), "residual": np.empty(0), "use": "predict"}
    figure = bands.scalars_figure([samples.scalar_panel(1.0, "range", "range [m]", **nothing)])
    assert len(figure.axes) == 1


def test_numbers_are_those_of_the_record() -> None:
    measured, swept = samples.table_panel(), samples.sweep_panel()
    table = bands.band_numbers([measured, swept])
    assert len(table.rows) == 6 + 35 + 6  # both abscissae, and the overlay
    np.testing.assert_array_equal(table.column("mean")[:6], measured.mean)
    np.testing.assert_array_equal(table.column("total q95")[:6], measured.total_band[1])
    np.testing.assert_array_equal(table.column("measured 1")[-6:], swept.overlay[:, 1])
    assert table.column("prior q05")[6] is None and table.column("residual")[0] == measured.residual[0]


def test_autocorrelation_numbers() -> None:
    table = bands.autocorrelation_numbers([samples.signal_panel(), samples.table_panel()])
    assert table.column("lag") == list(range(41))
    np.testing.assert_array_equal(table.column("autocorrelation"), 0.8 ** np.arange(41))
