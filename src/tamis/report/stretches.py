"""Many tests of one kind in one picture: quantiles over the tests, and the worst ones by name.

Hundreds of stretches of a line are no hundreds of panels: what they have in common is drawn, and the few that the model
follows worst.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tamis.report.blocks import Block, Picture, grid
from tamis.report.signals import apart, divide
from tamis.report.style import (
    COLOURS,
    DATA,
    FAINT,
    PARAMETERS,
    POSTERIOR,
    PRIOR_FILL,
    TOTAL,
    WIDTH,
    canvas,
    label_axis,
    limits,
    place,
    styled,
)
from tamis.report.tables import number, position
from tamis.types import Array, Table

if TYPE_CHECKING:
    from tamis.results.records import Panel

WORST = 5
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def stretches_blocks(name: str, panel: Panel) -> list[Block]:
    """Show all tests of a panel in one picture, and the worst in a table."""
    key = f"{name}-{panel.series}-{panel.label}".replace(" ", "-").replace("/", "-").replace(",", "")
    worst = worst_tests(panel)
    residual = _by_test(panel, panel.residual)
    caption = (
        f"{len(panel.tests)} tests of {panel.series}, quantiles over them. Above: 5 to 95 % of the measurements and "
        "of the model's posterior means, with their medians. Below: residuals in units of the total standard "
        f"deviation, 5 to 95 % and 25 to 75 % of the tests, and the {len(worst)} tests with the largest ones."
    )
    rows = []
    for i in worst:
        at = int(np.nanargmax(np.abs(residual[i])))
        size = float(np.sqrt(np.nanmean(np.square(residual[i]))))
        where = panel.names[at] if panel.names else position(panel.xlabel, float(panel.coord[at]))
        rows.append((short_name(panel, i), size, float(residual[i, at]), where))
    columns = ("test", "residual, rms [sd]", "largest [sd]", "at")
    shown = [(test, number(rms), number(most), where) for test, rms, most, where in rows]
    worst_name = f"{key}-worst"
    return [
        Picture(key, stretches_figure(panel), caption, {key: quantile_numbers(panel)}),
        grid(
            columns, shown, name=worst_name, numbers=Table(columns, tuple(rows)), caption="The worst tests."
        ),
    ]


def short_name(panel: Panel, i: int) -> str:
    """Return the name of a test without that of its table."""
    return panel.tests[i].removeprefix(f"{panel.series}: ")


def worst_tests(panel: Panel) -> list[int]:
    """Return the tests with the largest residuals, the worst first."""
    residual = _by_test(panel, panel.residual)
    if not residual.size:
        return []
    sizes = np.nan_to_num(np.square(residual)).mean(axis=1)
    return [int(i) for i in np.argsort(-sizes, kind="stable")[:WORST]]


def _by_test(panel: Panel, numbers: Array) -> Array:
    """Return (tests, abscissae)."""
    return np.asarray(numbers).reshape(len(panel.tests) if np.size(numbers) else 0, len(panel.coord))


def _measured(panel: Panel) -> Array:
    with np.errstate(invalid="ignore"):
        return _by_test(panel, np.nanmean(panel.y, axis=0) if len(panel.y) else np.empty(0))


@styled
def stretches_figure(panel: Panel) -> Figure:
    """Draw quantiles over the tests of measurements, model and residuals."""
    worst = worst_tests(panel)
    measured, model, residual = (
        apart(numbers, panel.names)
        for numbers in (_measured(panel), _by_test(panel, panel.mean), _by_test(panel, panel.residual))
    )
    rows = -(-len(worst) // 2)
    figure = canvas(WIDTH, 5.1 + 0.17 * rows)
    x, ends = apart(panel.coord, panel.names), (panel.coord.min(), panel.coord.max())
    upper = place(figure, 0.66, 0.36, WIDTH - 0.8, 2.1)
    if len(measured):
        _fill(upper, x, measured, (0.05, 0.95), PRIOR_FILL)
        upper.plot(x, _quantiles(measured, 0.5), color=DATA, lw=1.3)
    for q, width in ((0.05, 0.8), (0.5, 1.4), (0.95, 0.8)):
        style = "-" if q == 0.5 else (0, (4, 2))
        upper.plot(x, _quantiles(model, q), color=POSTERIOR, lw=width, ls=style)
    upper.set_xlim(*ends)
    upper.set_ylim(*limits([_quantiles(v, (0.05, 0.95)) for v in (measured, model) if len(v)]))
    divide(upper, panel.coord, panel.names, WIDTH - 0.8)
    upper.tick_params(labelbottom=False)
    label_axis(upper.yaxis, panel.ylabel, ticks=5)
    handles: list[Line2D | Patch] = [
        Patch(color=PRIOR_FILL, label="measured, 5 to 95 % of the tests"),
        Line2D([], [], color=DATA, lw=1.3, label="their median"),
        Line2D([], [], color=POSTERIOR, lw=1.4, label="model, median, 5 and 95 %"),
    ]
    figure.legend(handles=handles, loc="upper left", ncols=3, handlelength=1.3, borderaxespad=0.1)
    lower = place(figure, 0.66, 2.6, WIDTH - 0.8, 1.7)
    if len(residual):
        _fill(lower, x, residual, (0.05, 0.95), TOTAL)
        _fill(lower, x, residual, (0.25, 0.75), PARAMETERS)
        lower.axhline(0.0, color=FAINT, lw=0.6)
        named = []
        for i, colour in zip(worst, COLOURS, strict=False):
            lower.plot(x, residual[i], color=colour, lw=0.9)
            named.append(Line2D([], [], color=colour, lw=0.9, label=short_name(panel, i)))
        figure.legend(handles=named, loc="lower left", ncols=2, handlelength=1.3, borderaxespad=0.1)
    lower.set_xlim(*ends)
    divide(lower, panel.coord, panel.names)
    label_axis(lower.xaxis, panel.xlabel or "index", ticks=8, room=WIDTH - 0.8)
    label_axis(lower.yaxis, "residual [sd]", ticks=5)
    return figure


def _quantiles(values: Array, q: float | tuple[float, ...]) -> Array:
    """Return quantiles over the tests, NaN where nothing is."""
    found = np.full((*np.shape(q), values.shape[1]), np.nan)
    there = np.isfinite(values).any(axis=0)
    found[..., there] = np.nanquantile(values[:, there], q, axis=0)
    return found


def _fill(ax: Axes, x: Array, values: Array, between: tuple[float, float], colour: str) -> None:
    low, high = _quantiles(values, between)
    ax.fill_between(x, low, high, color=colour, lw=0)


def quantile_numbers(panel: Panel) -> Table:
    """Return the quantiles that were drawn, a row per abscissa."""
    parts = (
        ("measured", _measured(panel)),
        ("model", _by_test(panel, panel.mean)),
        ("residual", _by_test(panel, panel.residual)),
    )
    columns, values = [panel.xlabel or "x"], [panel.coord]
    for name, rows in parts:
        if len(rows):
            columns += [f"{name} q{100 * q:02.0f}" for q in _QUANTILES]
            values += list(np.nanquantile(rows, _QUANTILES, axis=0))
    return Table(tuple(columns), tuple(tuple(row) for row in np.column_stack(values).tolist()))
