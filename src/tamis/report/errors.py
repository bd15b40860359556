"""Errors that were identified from reference tests: their sizes, and mean, modes and residual along the abscissa."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tamis.report.blocks import Block, Heading, Picture, grid
from tamis.report.signals import apart, divide
from tamis.report.style import (
    COLOURS,
    DATA,
    FAINT,
    PRIOR_FILL,
    WIDTH,
    canvas,
    label_axis,
    legend_row,
    place,
    styled,
)
from tamis.report.tables import Cell, count, number, plain
from tamis.types import Table

if TYPE_CHECKING:
    from tamis.results.study import IdentifiedError

_MODES = 4  # whose sizes are listed


def error_blocks(errors: Sequence[IdentifiedError]) -> list[Block]:
    """Show what was found from reference tests."""
    if not errors:
        return []
    columns = ("test", "observed", "mean error", "modes", "sd of the modes", "residual sd", "unit", "alpha")
    shown = []
    for e in errors:
        listed = ", ".join(plain(sd, 3) for sd in e.modes[:_MODES])
        listed += f" and {len(e.modes) - _MODES} smaller" if len(e.modes) > _MODES else ""
        left = number(e.residual) if e.residual else Cell("none", 0.0)
        share = Cell("–", 0.0) if e.alpha is None else number(e.alpha)
        named = (e.series, e.label, number(e.mean), count(len(e.modes)), listed or "none", left, e.unit)
        shown.append((*named, share))
    rows = [
        (e.series, e.label, part, size, e.unit)
        for e in errors
        for part, size in (("mean", e.mean), *_numbered(e.modes), ("residual", e.residual))
    ]
    caption = (
        "Errors found from reference tests. Each size is a root mean square over the measurements of a test; their "
        "squares, but for the mean's, add up to the error's variance. Alpha: the share of the realisations' own "
        "covariance in the basis of the modes, the rest being made stationary."
    )
    numbers = Table(("test", "observed", "part", "size", "unit"), tuple(rows))
    blocks: list[Block] = [
        Heading("Identified errors"),
        grid(columns, shown, name="errors", numbers=numbers, caption=caption),
    ]
    for k, e in enumerate((e for e in errors if len(e.x) > 1), start=1):
        text = (
            f"{e.series}, {e.label}: the identified error along the abscissa: its mean, the largest modes at one "
            "standard deviation, and the independent residual, ± one standard deviation."
        )
        blocks.append(Picture(f"errors-{k}", error_figure(e), text, {f"errors-{k}": _curves(e)}))
    return blocks


@styled
def error_figure(error: IdentifiedError) -> Figure:
    """Draw mean, modes and residual of an identified error."""
    figure = canvas(WIDTH, 2.9)
    ax = place(figure, 0.66, 0.36, WIDTH - 0.8, 1.95)
    x, left = (apart(np.array(values), error.names) for values in (error.x, error.residual_curve))
    ax.fill_between(x, -left, left, color=PRIOR_FILL, lw=0, zorder=1)
    ax.axhline(0.0, color=FAINT, lw=0.6, zorder=2)
    handles = [
        Line2D([], [], color=PRIOR_FILL, lw=6, label="residual, ± sd"),
        Line2D([], [], color=DATA, lw=1.4, label="mean"),
    ]
    ax.plot(x, apart(np.array(error.mean_curve), error.names), color=DATA, lw=1.4, zorder=4)
    for k, (curve, colour) in enumerate(zip(error.mode_curves, COLOURS, strict=False), start=1):
        ax.plot(x, apart(np.array(curve), error.names), color=colour, lw=1.0, zorder=3)
        handles.append(Line2D([], [], color=colour, lw=1.0, label=f"mode {k}"))
    ax.set_xlim(min(error.x), max(error.x))
    divide(ax, np.array(error.x), error.names, WIDTH - 0.8)
    label_axis(ax.xaxis, error.xlabel, ticks=8, room=WIDTH - 0.8)
    label_axis(ax.yaxis, f"error [{error.unit}]" if error.unit else "error", ticks=5)
    legend_row(figure, handles, len(handles))
    return figure


def _curves(error: IdentifiedError) -> Table:
    modes = tuple(f"mode {k + 1}" for k in range(len(error.mode_curves)))
    columns = zip(error.x, error.mean_curve, *error.mode_curves, error.residual_curve, strict=True)
    return Table((error.xlabel or "x", "mean", *modes, "residual sd"), tuple(columns))


def _numbered(modes: Sequence[float]) -> list[tuple[str, float]]:
    return [(f"mode {k}", sd) for k, sd in enumerate(modes, start=1)]
