"""The runs behind the results: counted, timed, what failed and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from tamis.quantities import duration
from tamis.report.blocks import Block, Grid, Heading, Picture, Text, grid
from tamis.report.decades import along, label_parameter, seen
from tamis.report.parameters import short_title
from tamis.report.style import (
    FAILURE,
    PARAMETERS,
    PRIOR,
    WIDTH,
    canvas,
    label_axis,
    limits,
    place,
    styled,
)
from tamis.report.tables import count, number, plain
from tamis.runs.store import Run, failure_groups
from tamis.space import Space
from tamis.types import Array, Mask, Table

if TYPE_CHECKING:
    from tamis.inference.posterior import Posterior
    from tamis.results.records import DesignRuns

MAPPED = 4  # inputs whose pairs are mapped; six pairs fill two rows


def run_blocks(
    design: DesignRuns | None, space: Space, sampled: Sequence[Run], posterior: Posterior | None = None
) -> list[Block]:
    """Count the runs, time them, list what failed and show where."""
    if design is None or not design.runs:
        return []
    numbers = run_numbers(design)
    blocks: list[Block] = [_status_grid(design, sampled)]
    caption = "Time taken by one run of the simulator."
    blocks.append(Picture("durations", durations_figure(design), caption, {"runs": numbers}))
    blocks += _failures(design, sampled)
    if design.names:
        caption = "Points of the design in the space of the inputs that vary"
        caption += f" (the first {MAPPED})." if len(design.names) > MAPPED else "."
        weighed = {} if posterior is None else posterior.diagnostics
        if "success_map" in weighed:
            caption += (
                " Shaded, with lines at 10, 50 and 90 %: the probability that a run succeeds, by which the "
            )
            caption += "likelihood is multiplied, averaged over the inputs that are not shown."
        picture = design_figure(design, space, sampled, weighed)
        blocks.append(Picture("design", picture, caption, {"runs": numbers}))
    return blocks


_LISTED = 12  # tests named one by one
_STATUS = ("done", "failed", "crashed", "timeout", "memory")


def _status_grid(design: DesignRuns, sampled: Sequence[Run]) -> Grid:
    columns = ("test", "runs", *_STATUS, "time in all")
    rows: list[tuple[Any, ...]] = []
    for name, made in _groups(design, sampled):
        found = Counter(str(run.status) for run in made)
        time = float(np.nansum([run.seconds for run in made]))
        rows.append((name, len(made), *(found[status] for status in _STATUS), time))
    every = f"all {len(design.experiments)} tests" + (
        " and more" if len(rows) > len(design.experiments) else ""
    )
    sums = (every, *(sum(column) for column in list(zip(*rows, strict=True))[1:]))
    listed = rows if len(rows) <= _LISTED else [sums, *[row for row in rows if row[1] > row[2]][:_LISTED]]
    shown = [(name, *map(count, counts), number(time, duration(time))) for name, *counts, time in listed]
    caption = "" if len(rows) <= _LISTED else "Tests with runs that did not end well; the file lists all."
    return grid(columns, shown, name="run-counts", numbers=Table(columns, tuple(rows)), caption=caption)


def _groups(design: DesignRuns, sampled: Sequence[Run]) -> list[tuple[str, Sequence[Run]]]:
    """Return all runs by what they were made for: each test, each cheaper simulator, the sampler."""
    below = [(f"cheaper: {name}", made) for name, made in design.cheaper]
    of_sampler = [("sampler", sampled)] if sampled else []
    return [*zip(design.experiments, design.runs, strict=True), *below, *of_sampler]


def _failures(design: DesignRuns, sampled: Sequence[Run]) -> list[Block]:
    where = {run.key: name for name, made in reversed(_groups(design, sampled)) for run in made}
    groups = failure_groups([run for _, made in _groups(design, sampled) for run in made])
    if not groups:
        return [Text("Every run ended well.")]
    rows = []
    for group in groups:
        first = group[0]
        at = ", ".join(f"{n} = {plain(float(first.inputs[n]))}" for n in design.names)
        rows.append(
            (first.status, first.error or "no reason given", count(len(group)), f"{where[first.key]}: {at}")
        )
    return [Heading("Failed runs by reason"), grid(("status", "reason", "runs", "for instance"), rows)]


@styled
def durations_figure(design: DesignRuns) -> Figure:
    """Draw how long the runs took, on a logarithmic axis."""
    seconds = np.array([run.seconds for row in design.runs for run in row], dtype=float)
    good = np.array([run.status == "done" for row in design.runs for run in row])
    known = np.isfinite(seconds) & (seconds > 0)
    figure = canvas(WIDTH, 2.2)
    ax = place(figure, 0.66, 0.3, WIDTH - 0.8, 1.35)
    low, high = (
        (float(v) for v in np.log10((seconds[known].min(), seconds[known].max())))
        if known.any()
        else (0.0, 1.0)
    )
    edges = np.logspace(low - 0.05, max(high, low + 0.4) + 0.05, 33)
    stacks = [seconds[known & good], seconds[known & ~good]]
    ax.hist(stacks, bins=edges.tolist(), stacked=True, color=[PARAMETERS, FAILURE], label=["done", "failed"])
    ax.set_xscale("log")
    ax.set_xlim(edges[0], edges[-1])
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: duration(v).replace(".0 ", " ")))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.minorticks_off()
    ax.set_xlabel("time of one run")
    label_axis(ax.yaxis, "runs", ticks=4)
    if not good.all():
        ax.legend(loc="upper right", ncols=2)
    return figure


def failed_points(design: DesignRuns) -> Mask:
    """Mark the design points of which at least one run did not end well."""
    bad = np.array([[run.status != "done" for run in row] for row in design.runs])
    return np.asarray(bad.any(axis=0))


@styled
def design_figure(
    design: DesignRuns,
    space: Space,
    sampled: Sequence[Run] = (),
    weighed: Mapping[str, Array] | None = None,
) -> Figure:
    """Draw the design points, those with a failed run in red, over pairs of inputs or along a single one.

    Failures of the sampler's runs are drawn small, as many as there are. Below lies the probability of success, where
    the posterior was weighed by it (`success_map` of its diagnostics).
    """
    bad = failed_points(design)
    lost = [[float(run.inputs[name]) for name in design.names] for run in sampled if run.status != "done"]
    laws = [seen(space.parameters[space.index(name)]) for name in design.names]
    points, later = (
        np.stack([along(law, x[:, k]) for k, law in enumerate(laws)], axis=1)
        for x in (design.x, np.reshape(lost, (-1, len(laws))))
    )
    pairs: list[tuple[int, int | None]] = list(combinations(range(min(len(design.names), MAPPED)), 2))
    pairs = pairs or [(0, None)]
    columns = min(3, len(pairs))
    rows = -(-len(pairs) // columns)
    side, cell = 1.75, 1.75 + 0.65
    figure = canvas(WIDTH, 0.35 + rows * cell)
    width = WIDTH / 3
    for k, (i, j) in enumerate(pairs):
        ax = place(figure, (k % columns) * width + 0.7, 0.4 + (k // columns) * cell, width - 0.9, side)
        if weighed and "success_map" in weighed and j is not None:
            places = [along(laws[c], weighed["success_at"][c]) for c in (i, j)]
            _shade(ax, places[0], places[1], weighed["success_map"][k])
        x = points[:, i]
        y = np.zeros(len(x)) if j is None else points[:, j]
        ax.plot(x[~bad], y[~bad], ls="", marker="o", ms=2.8, mew=0, color=PRIOR)
        ax.plot(x[bad], y[bad], ls="", marker="x", ms=5, mew=1.3, color=FAILURE)
        here = np.zeros(len(later)) if j is None else later[:, j]
        ax.plot(later[:, i], here, ls="", marker="x", ms=2.5, mew=0.6, color=FAILURE, alpha=0.6)
        ax.set_xlim(*limits([x, later[:, i]], 0.05))
        label_parameter(ax.xaxis, laws[i], ticks=4)
        ax.set_xlabel(short_title(laws[i], ax.get_xlim(), width - 0.8))
        if j is None:
            ax.set_yticks([])
            continue
        ax.set_ylim(*limits([y, here], 0.05))
        label_parameter(ax.yaxis, laws[j], ticks=4)
        ax.set_ylabel(short_title(laws[j], ax.get_ylim(), side))
    handles = [
        Line2D([], [], ls="", marker="o", ms=3.5, color=PRIOR, label="all runs of the point done"),
        Line2D([], [], ls="", marker="x", ms=5, mew=1.3, color=FAILURE, label="a run failed"),
    ]
    small = Line2D(
        [], [], ls="", marker="x", ms=3, mew=0.6, color=FAILURE, label="a run of the sampler failed"
    )
    shown = [*handles[: 1 + bad.any()], *([small] if len(later) else [])]
    figure.legend(handles=shown, loc="upper left", ncols=3, borderaxespad=0.1)
    return figure


def _shade(ax: Axes, x: Array, y: Array, chance: Array) -> None:
    """Shade where runs are improbable to succeed, with lines of equal probability."""
    levels = np.linspace(0.0, 1.0, 11)
    shades = [to_rgba(FAILURE, 0.3 * (1 - level)) for level in levels[:-1]]
    ax.contourf(x, y, chance.T, levels=levels.tolist(), colors=shades)
    lines = ax.contour(x, y, chance.T, levels=[0.1, 0.5, 0.9], colors=[FAILURE], linewidths=0.7)
    ax.clabel(lines, fmt=lambda p: f"{p:.0%}", fontsize=6)


def run_numbers(design: DesignRuns) -> Table:
    """Return every run: experiment, point, status, seconds, reason, inputs varied."""
    rows = [
        (name, point, run.status, float(run.seconds), run.error, run.key, *map(float, design.x[point]))
        for name, runs in zip(design.experiments, design.runs, strict=True)
        for point, run in enumerate(runs)
    ]
    return Table(("experiment", "point", "status", "seconds", "error", "key", *design.names), tuple(rows))
