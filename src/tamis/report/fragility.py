"""How probable it is that a limit is passed, over the intensity of the event.

One intensity is a curve with its band, the shares that runs show by themselves, and a fit that only rises: where that
leaves the band the curve is not lognormal. Beside it, where parameters were calibrated, stands what the band of
the height at each level is made of. Two intensities are a surface with level lines.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tamis.analysis.fragility import FragilityRecord
from tamis.report.blocks import Block, Grid, Picture, Screen, Text, grid
from tamis.report.style import (
    COLOURS,
    DATA,
    FAILURE,
    FAINT,
    PARAMETERS,
    POSTERIOR,
    PRIOR,
    TOTAL,
    WIDTH,
    canvas,
    heading,
    label_axis,
    limits,
    place,
    styled,
)
from tamis.report.tables import Cell, columns_table, count, number, percent, plain, with_interval
from tamis.types import Array, Table

if TYPE_CHECKING:
    from tamis.results.records import Results

_PARTS = (("parameters", PARAMETERS), ("surrogate", COLOURS[1]), ("number of runs", PRIOR))
_LEVELS = (0.1, 0.5, 0.9)
_DECADE = 8.0  # ratio of intensities from which on the axis is logarithmic
_DOUBTED = 0.05  # misfit below which a curve is said not to be lognormal


def fragility_blocks(record: FragilityRecord) -> list[Block]:
    """Show the curve or surface, its table, and the numbers of both."""
    blocks: list[Block] = [Text(told(record), lead=True)]
    if len(record.intensity) == 1:
        files = {"fragility": curve_numbers(record), "fragility-runs": seen_numbers(record)}
        caption = _CURVE
        if len(record.split):
            files["fragility-split"] = split_numbers(record)
            caption += _SPLIT
        blocks.append(Picture("fragility", curve_figure(record), caption, files))
    else:
        files = {"fragility": curve_numbers(record), "fragility-runs": seen_numbers(record)}
        blocks.append(Picture("fragility", surface_figure(record), _SURFACE, files))
    return [*blocks, number_grid(record)]


_CURVE = (
    "Line and band: lognormal fit by the binomial likelihood and its credible band. Dots: share of the runs that "
    "pass the limit at each intensity, or in bins of equally many runs, with 90 % intervals. Dashed: the curve that "
    "fits best of all that rise."
)
_SPLIT = (
    " Light: the band of the height at each level with all that is uncertain. Right: its standard deviation due to the "
    "calibrated parameters, to the error of the surrogate, taken as common to all points, and to the number of runs, "
    "squares added."
)
_SURFACE = (
    "Probability of passing the limit: a probit of both logarithms, with level lines at 10, 50 and 90 % (dashed: of "
    "one of second degree); dots: runs, filled where they pass."
)


def told(record: FragilityRecord) -> str:
    """Say in a few sentences what the fragility is of and what came out."""
    who = "the surrogate" if record.emulated else "the simulator"
    many = f"{count(record.draws).text} draws of the {record.source}"
    many += f", each {record.repeats} times" if record.repeats > 1 else ""
    text = f"Probability that {record.demand} is {record.limit}, by {who} at {many}."
    if record.failed:
        text += f" {record.failed} runs failed and are left out."
    if record.statement:
        return f"{text} There is no number: {record.statement}."
    if record.misfit < _DOUBTED:
        better = "a curve that only rises" if len(record.intensity) == 1 else "a surface of second degree"
        text += f" It is not lognormal: {better} fits better than chance explains (p = {plain(record.misfit, 2)})."
    return text


def number_grid(record: FragilityRecord) -> Grid:
    """Return median, dispersion and their intervals."""
    columns = ("number", "value", f"{percent(record.level)} interval")
    shown, rows = [], []
    for name, value, (low, high) in (
        (f"median, {record.intensity[0]}", record.median, record.median_interval),
        ("dispersion", record.dispersion, record.dispersion_interval),
    ):
        if len(record.intensity) == 1 and math.isfinite(value):
            text, interval = with_interval(value, low, high)
            shown.append((name, Cell(text, value), interval))
            rows.append((name, value, low, high))
    shown.append(("lognormal, p", number(record.misfit, "–" if math.isnan(record.misfit) else None), ""))
    rows.append(("misfit", record.misfit, math.nan, math.nan))
    numbers = Table(("number", "value", "low", "high"), tuple(rows))
    return grid(columns, shown, name="fragility-numbers", numbers=numbers)


def curve_numbers(record: FragilityRecord) -> Table:
    """Return curve or surface, band and the fit beside it."""
    columns = (*record.intensity, "probability", "low", "high", "beside")
    return columns_table(columns, [*record.at.T, record.curve, *record.band, record.beside])


def seen_numbers(record: FragilityRecord) -> Table:
    """Return what runs show by themselves."""
    interval = ("low", "high") if len(record.intensity) == 1 else ()
    return columns_table((*record.intensity, "share", *interval, "runs"), [*record.seen.T])


def split_numbers(record: FragilityRecord) -> Table:
    """Return where the variance of the height comes from."""
    columns = (record.intensity[0], "probability", "of parameters", "of surrogate", "of runs", "low", "high")
    return columns_table(columns, [*record.split.T, *record.split_band])


@styled
def curve_figure(record: FragilityRecord) -> Figure:
    """Draw the curve, its band, what runs show, and what the band is made of."""
    both = len(record.split) > 0
    wide = WIDTH * (0.58 if both else 0.75)
    figure = canvas(WIDTH, 3.9)
    ax = place(figure, 0.66, 0.55, wide - 0.8, 2.75)
    x = record.at[:, 0]
    if both:
        ax.fill_between(record.split[:, 0], *record.split_band, color=TOTAL, lw=0)
    ax.fill_between(x, *record.band, color=PARAMETERS, alpha=0.45, lw=0)
    ax.plot(x, record.curve, color=POSTERIOR, lw=1.6)
    ax.plot(x, record.beside, color=FAINT, lw=1.0, ls=(0, (4, 2)))
    at, share, *reach = record.seen[:, :4].T
    error = np.abs(np.array(reach) - share)
    ax.errorbar(at, share, yerr=error, ls="", marker="o", ms=3.2, color=DATA, lw=0.7)
    _abscissa(ax, x, record.intensity[0])
    ax.set_ylim(-0.03, 1.03)
    label_axis(ax.yaxis, "probability of exceedance", ticks=5)
    if both:
        _draw_split(place(figure, wide + 0.6, 0.55, WIDTH - wide - 0.75, 2.75), record)
    handles = [
        Line2D([], [], color=POSTERIOR, lw=1.6, label="lognormal" if record.kind == "fitted" else "mean"),
        Patch(color=PARAMETERS, alpha=0.45, label=f"{percent(record.level)} band"),
        Line2D([], [], color=FAINT, lw=1.0, ls=(0, (4, 2)), label="only rising"),
        Line2D([], [], ls="", marker="o", ms=3.2, color=DATA, label="runs"),
    ]
    whole = Patch(color=TOTAL, label=f"{percent(record.level)} of all")
    shown = [whole, *(Patch(color=colour, label=name) for name, colour in _PARTS)] if both else []
    figure.legend(handles=[*handles, *shown], loc="upper left", ncols=8, borderaxespad=0.1)
    return figure


def _abscissa(ax: Axes, x: Array, title: str) -> None:
    if x.max() > _DECADE * x.min():
        ax.set_xscale("log")
    if ax.get_xscale() == "log":
        ax.set_xlim(*np.exp(limits([np.log(x)], 0.02)))
    else:
        ax.set_xlim(*limits([x], 0.02))
    label_axis(ax.xaxis, title, ticks=5)


def _draw_split(ax: Axes, record: FragilityRecord) -> None:
    level = record.split[:, 0]
    parts = np.sqrt(np.cumsum(np.nan_to_num(record.split[:, 2:5]), axis=1))
    below = np.zeros(len(level))
    for k, (_, colour) in enumerate(_PARTS):
        ax.fill_between(level, below, parts[:, k], color=colour, alpha=0.85, lw=0)
        below = parts[:, k]
    note = (
        "Parameters and chance cannot be told apart: repeats = 1."
        if np.isnan(record.split[:, 2]).any()
        else ""
    )
    heading(ax, "standard deviation of the height", note)
    _abscissa(ax, level, record.intensity[0])
    ax.set_ylim(0.0, 1.08 * max(float(below.max()), 1e-3))
    label_axis(ax.yaxis, "", ticks=4)


@styled
def surface_figure(record: FragilityRecord) -> Figure:
    """Draw the surface with level lines, and the runs."""
    figure = canvas(WIDTH, 5.0)
    ax = place(figure, 0.8, 0.45, 6.2, 3.9)
    sides = [np.unique(column) for column in record.at.T]
    shape = len(sides[0]), len(sides[1])
    height, other = record.curve.reshape(shape).T, record.beside.reshape(shape).T
    shades = ax.contourf(*sides, height, levels=np.linspace(0, 1, 11).tolist(), cmap="Blues", alpha=0.8)
    lines = ax.contour(*sides, height, levels=_LEVELS, colors=[POSTERIOR], linewidths=1.2)
    ax.clabel(lines, fmt=percent, fontsize=7)
    if np.isfinite(other).all():
        ax.contour(*sides, other, levels=_LEVELS, colors=[FAINT], linewidths=0.9, linestyles="dashed")
    passed = record.seen[:, 2] > 0.5
    for some, face in ((~passed, "none"), (passed, FAILURE)):
        ax.plot(
            *record.seen[some, :2].T, ls="", marker="o", ms=2.6, mew=0.5, mec=FAILURE, mfc=face, alpha=0.6
        )
    for axis, side, title in zip("xy", sides, record.intensity, strict=True):
        if side.max() > _DECADE * side.min():
            getattr(ax, f"set_{axis}scale")("log")
        getattr(ax, f"set_{axis}lim")(*limits([side], 0.0))
        label_axis(getattr(ax, f"{axis}axis"), title, ticks=5)
    bar = place(figure, 7.3, 0.45, 0.16, 3.9)
    figure.colorbar(shades, cax=bar, ticks=[0, 0.5, 1])
    heading(bar, "p")
    return figure


def screen(results: Results) -> list[Block]:
    """Show the fragility of the study."""
    return [
        b for record in results.records("fragility", FragilityRecord) or () for b in fragility_blocks(record)
    ]


SCREEN: Screen[Results] = Screen("fragility", "Fragility", screen)
