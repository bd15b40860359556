"""Models side by side: evidence and probability, predictions by each and mixed, shared parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tamis.report import density
from tamis.report.decades import along, label_parameter, physical, seen
from tamis.report.parameters import prior_curve
from tamis.report.prediction import add_legend, draw_panel, panel_limits, panel_note
from tamis.report.style import (
    INK,
    MODELS,
    PARAMETERS,
    POSTERIOR,
    PRIOR_FILL,
    TOTAL,
    WIDTH,
    canvas,
    fit,
    head_room,
    heading,
    label_axis,
    limits,
    note_lines,
    place,
    styled,
)
from tamis.report.tables import percent, record_title
from tamis.space import Parameter
from tamis.types import Array, Table

if TYPE_CHECKING:
    from tamis.inference.posterior import Posterior
    from tamis.results.records import Panel

Bounds = tuple[float, float]
_PRIOR_LEVEL = 0.25  # height of a prior where every posterior has height 1
_MAIN = 1.75  # inches, height of the axes


def model_colour(i: int) -> str:
    """Return the colour of the i-th model, the same in every figure."""
    return MODELS[i % len(MODELS)]


@styled
def evidence_figure(table: Table) -> Figure:
    """Draw log evidences with two standard errors, and the models' probabilities as bars."""
    names = table.column("model")
    k = len(names)
    height = 0.34 * k + 0.15
    figure = canvas(WIDTH, height + 0.95)
    left = place(figure, 1.5, 0.35, 3.2, height)
    right = place(figure, 5.15, 0.35, 3.0, height)
    for i in range(k):
        value, error = table.column("log evidence")[i], table.column("error")[i]
        left.errorbar(
            [value], [i], xerr=2 * error, fmt="o", ms=5, color=model_colour(i), elinewidth=1.3, capsize=3
        )
        share, spread = table.column("probability")[i], table.column("its error")[i]
        right.barh(i, share, color=model_colour(i), height=0.55, alpha=0.85)
        right.errorbar([share], [i], xerr=2 * spread, fmt="none", ecolor=INK, elinewidth=0.9, capsize=2)
        at = min(share + 2 * spread, 1.0)
        right.annotate(
            percent(share), (at, i), (5, 0), textcoords="offset points", va="center", annotation_clip=False
        )
    values, errors = (np.array(table.column(c), dtype=float) for c in ("log evidence", "error"))
    left.set_xlim(*limits([values - 2 * errors, values + 2 * errors], 0.1))
    right.set_xlim(0, 1.0)
    for ax, title in (
        (left, "log evidence (± 2 standard errors)"),
        (right, "probability, all models equally likely before"),
    ):
        ax.set_ylim(k - 0.5, -0.5)
        ax.tick_params(axis="y", length=0)
        label_axis(ax.xaxis, title, ticks=5)
    left.set_yticks(range(k), [fit(name, 1.4, 8.0) for name in names])
    right.set_yticks([])
    return figure


@styled
def beside_figure(rows: Sequence[Sequence[Panel]], columns: Sequence[str]) -> Figure:
    """Draw the same predictions by several models: a column a model, a row a prediction, one scale a row."""
    gutter = 0.72
    width = (WIDTH - gutter) / len(columns)
    head = head_room(note_lines([record_title(panel) for row in rows for panel in row], width - 0.22))
    cell = head + _MAIN + 0.55
    figure = canvas(WIDTH, 0.36 + len(rows) * cell)
    for r, row in enumerate(rows):
        ylim = panel_limits(row)
        for c, (panel, name) in enumerate(zip(row, columns, strict=True)):
            ax = place(figure, gutter + c * width, 0.36 + head + r * cell, width - 0.22, _MAIN)
            draw_panel(ax, panel, ylim=ylim)
            heading(ax, name, record_title(panel))
            label_axis(ax.xaxis, panel.xlabel or "index", ticks=4, room=width)
            if c:
                ax.set_ylabel("")
                ax.tick_params(labelleft=False)
    add_legend(figure, [panel for row in rows for panel in row])
    return figure


@styled
def modes_figure(
    rows: Sequence[Sequence[tuple[Panel, Mapping[str, Bounds]]]], posterior: Posterior
) -> Figure:
    """Draw predictions from parts of a posterior around the density that tells them apart."""
    columns = max(len(row) for row in rows) + 1
    width = WIDTH / columns
    inner = width - 0.8
    lines = note_lines([panel_note(panel) for row in rows for panel, _ in row], inner)
    cell = head_room(lines) + _MAIN + 0.55
    figure = canvas(WIDTH, 0.36 + len(rows) * cell)
    for r, row in enumerate(rows):
        ylim = panel_limits([panel for panel, _ in row])
        top = 0.36 + head_room(lines) + r * cell
        middle = (len(row) + 1) // 2
        for c, (panel, _) in enumerate(row):
            ax = place(figure, (c + (c >= middle)) * width + 0.66, top, inner, _MAIN)
            draw_panel(ax, panel, ylim=ylim)
            heading(ax, record_title(panel), panel_note(panel), lines)
            label_axis(ax.xaxis, panel.xlabel or "index", ticks=4, room=inner)
        ax = place(figure, middle * width + 0.66, top, inner, _MAIN)
        _draw_parts(ax, [bounds for _, bounds in row], posterior)
        heading(ax, f"posterior of {next(iter(row[0][1]))}", "shaded: the parts used beside", lines)
    add_legend(figure, [panel for row in rows for panel, _ in row])
    return figure


def _draw_parts(ax: Axes, parts: Sequence[Mapping[str, Bounds]], posterior: Posterior) -> None:
    """Draw the density of the parameter that tells the parts apart, each part shaded."""
    name = next(iter(parts[0]))
    index = posterior.space.index(name)
    parameter = seen(posterior.space.parameters[index])
    draws = along(parameter, posterior.flat[:, index])
    x, height = density.curve(draws, *density.span(draws, parameter.prior))
    ax.fill_between(x, height, color=TOTAL, lw=0)
    for bounds in parts:
        if name in bounds:
            low, high = along(parameter, np.array(bounds[name]))
            ax.fill_between(x, height, where=((x >= low) & (x <= high)).tolist(), color=PARAMETERS, lw=0)
    ax.plot(x, height, color=POSTERIOR, lw=1.2)
    ax.set_xlim(x[0], x[-1])
    ax.set_ylim(0, 1.1 * float(height.max()))
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    label_parameter(ax.xaxis, parameter, ticks=4)


@styled
def shared_figure(
    shared: Sequence[tuple[Parameter, Sequence[tuple[int, Array]]]], names: Sequence[str]
) -> Figure:
    """Draw each shared parameter's posterior in all models that have it; draws come with their model."""
    columns = min(3, len(shared))
    cell = 1.35 + 0.6
    figure = canvas(WIDTH, 0.36 + cell * -(-len(shared) // columns))
    width = WIDTH / max(columns, 2)
    for k, (parameter, found) in enumerate(shared):
        ax = place(figure, (k % columns) * width + 0.3, 0.4 + (k // columns) * cell, width - 0.5, 1.35)
        _draw_overlaid(ax, found, parameter)
    handles: list[Patch | Line2D] = [Patch(color=PRIOR_FILL, label="prior")]
    for i, name in enumerate(names):
        handles.append(
            Line2D([], [], color=model_colour(i), lw=1.6, ls=line_style(i), label=fit(name, 1.6, 8.0))
        )
    figure.legend(handles=handles, loc="upper left", ncols=len(handles), borderaxespad=0.1)
    return figure


def line_style(i: int) -> str | tuple[int, tuple[float, ...]]:
    """Return the dashes of the i-th model, so that colour is not the only difference."""
    dashes: tuple[str | tuple[int, tuple[float, ...]], ...] = (
        "-",
        (0, (5, 1.5)),
        (0, (1.5, 1.2)),
        (0, (5, 1.5, 1.5, 1.5)),
    )
    return dashes[i % len(dashes)]


def _draw_overlaid(ax: Axes, found: Sequence[tuple[int, Array]], parameter: Parameter) -> None:
    parameter = seen(parameter)
    found = [(i, along(parameter, draws)) for i, draws in found]
    spans = [density.span(draws, parameter.prior) for _, draws in found]
    low, high = min(s[0] for s in spans), max(s[1] for s in spans)
    x, height = prior_curve(parameter, low, high)
    ax.fill_between(x, _PRIOR_LEVEL * height / height.max(), color=PRIOR_FILL, lw=0)
    for (i, draws), span in zip(found, spans, strict=True):
        x, height = density.curve(draws, *span)
        height = height / height.max()
        ax.fill_between(x, height, color=model_colour(i), alpha=0.08, lw=0)
        ax.plot(x, height, color=model_colour(i), lw=1.4, ls=line_style(i))
    ax.set_xlim(low, high)
    ax.set_ylim(0, 1.1)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    label_parameter(ax.xaxis, parameter, ticks=5)


def shared_numbers(
    shared: Sequence[tuple[Parameter, Sequence[tuple[int, Array]]]], names: Sequence[str]
) -> Table:
    """Return the densities drawn: parameter, model, abscissa, density."""
    rows: list[tuple[str, str, float, float]] = []
    for parameter, found in shared:
        law = seen(parameter)
        for i, values in found:
            draws = along(law, values)
            x, height = physical(law, *density.curve(draws, *density.span(draws, law.prior)))
            rows += [(parameter.name, names[i], float(a), float(b)) for a, b in zip(x, height, strict=True)]
    return Table(("parameter", "model", "x", "posterior density"), tuple(rows))
