"""How the answer was come by: the sampler's ladder, and the runs that stand behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from tamis.report.parameters import short_title
from tamis.report.style import (
    FAILURE,
    PARAMETERS,
    POSTERIOR,
    PRIOR,
    WIDTH,
    canvas,
    heading,
    label_axis,
    limits,
    place,
    styled,
    superscript,
)
from tamis.report.tables import duration
from tamis.runs.store import Run
from tamis.space import Space
from tamis.types import Array, Mask, Table

if TYPE_CHECKING:
    from tamis.results.records import DesignRuns

MAPPED = 4  # inputs whose pairs are mapped; six pairs fill two rows

_LADDER = {
    "exponents": ("Tempering ladder", "exponent"),
    "acceptance": ("Accepted moves", "share"),
    "log_evidence_increments": ("Log evidence gained", "increment"),
}


def ladder(diagnostics: Mapping[str, Array]) -> dict[str, Array]:
    """Return what a tempering sampler says of each stage, of what there is."""
    found = {
        key: np.ravel(np.asarray(diagnostics[key], dtype=float)) for key in _LADDER if key in diagnostics
    }
    return {key: values for key, values in found.items() if len(values) > 1}


def _first(key: str, values: Array) -> int:
    """Return the stage of the first value: 0 is the prior, with exponent 0 and nothing moved yet."""
    return 0 if key == "exponents" and values[0] == 0 else 1


@styled
def sampler_figure(diagnostics: Mapping[str, Array]) -> Figure:
    """Draw tempering exponent, acceptance and gained log evidence, stage by stage."""
    shown = ladder(diagnostics)
    figure = canvas(WIDTH, 2.5)
    width = WIDTH / len(_LADDER)
    for i, (key, values) in enumerate(shown.items()):
        title, ylabel = _LADDER[key]
        ax = place(figure, i * width + 0.62, 0.32, width - 0.8, 1.6)
        stage = np.arange(len(values)) + _first(key, values)
        if key == "log_evidence_increments":
            ax.bar(stage, values, color=PARAMETERS, width=0.7)
            ax.axhline(0, color=PRIOR, lw=0.6)
        else:
            ax.plot(stage, values, color=POSTERIOR, marker="o", ms=3)
        ax.set_xlim(-0.5, max(float(stage[-1]), 1.0) + 0.5)
        if key == "exponents":
            ax.set_yscale("symlog", linthresh=float(values[values > 0].min()), linscale=0.3)
            ax.set_ylim(0, 1.3)
            powers = np.arange(math.ceil(math.log10(values[values > 0].min()) - 1e-9), 1)
            ticks = 10.0 ** powers[:: -(-len(powers) // 5) or 1]
            ax.set_yticks(
                [0.0, *ticks], ["0", *(f"10{superscript(int(p))}" for p in np.log10(ticks).round())]
            )
            ax.minorticks_off()
            ax.set_ylabel(ylabel)
        else:
            ax.set_ylim(*((0.0, 1.0) if key == "acceptance" else limits([values, np.zeros(1)])))
            label_axis(ax.yaxis, ylabel)
        label_axis(ax.xaxis, "stage", ticks=6)
        ax.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
        heading(ax, title)
    return figure


def sampler_numbers(diagnostics: Mapping[str, Array]) -> Table:
    """Return what was drawn of the sampler, a row per stage."""
    shown = ladder(diagnostics)
    length = max(len(values) + _first(key, values) for key, values in shown.items())
    rows = []
    for stage in range(length):
        at = {key: stage - _first(key, values) for key, values in shown.items()}
        row = (float(v[at[key]]) if 0 <= at[key] < len(v) else None for key, v in shown.items())
        rows.append((stage, *row))
    return Table(("stage", *shown), tuple(rows))


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
def design_figure(design: DesignRuns, space: Space, sampled: Sequence[Run] = ()) -> Figure:
    """Draw the design points, those with a failed run in red, over pairs of inputs or along a single one.

    Failures of the sampler's runs are drawn small, as many as there are.
    """
    bad = failed_points(design)
    lost = [[float(run.inputs[name]) for name in design.names] for run in sampled if run.status != "done"]
    later = np.reshape(lost, (-1, len(design.names)))
    pairs: list[tuple[int, int | None]] = list(combinations(range(min(len(design.names), MAPPED)), 2))
    pairs = pairs or [(0, None)]
    columns = min(3, len(pairs))
    rows = -(-len(pairs) // columns)
    side, cell = 1.75, 1.75 + 0.65
    figure = canvas(WIDTH, 0.35 + rows * cell)
    width = WIDTH / 3
    for k, (i, j) in enumerate(pairs):
        ax = place(figure, (k % columns) * width + 0.7, 0.4 + (k // columns) * cell, width - 0.9, side)
        x = design.x[:, i]
        y = np.zeros(len(x)) if j is None else design.x[:, j]
        ax.plot(x[~bad], y[~bad], ls="", marker="o", ms=2.8, mew=0, color=PRIOR)
        ax.plot(x[bad], y[bad], ls="", marker="x", ms=5, mew=1.3, color=FAILURE)
        here = np.zeros(len(later)) if j is None else later[:, j]
        ax.plot(later[:, i], here, ls="", marker="x", ms=2.5, mew=0.6, color=FAILURE, alpha=0.6)
        ax.set_xlim(*limits([x, later[:, i]], 0.05))
        label_axis(ax.xaxis, "", ticks=4)
        ax.set_xlabel(short_title(space.parameters[space.index(design.names[i])], ax.get_xlim(), width - 0.8))
        if j is None:
            ax.set_yticks([])
            continue
        ax.set_ylim(*limits([y, here], 0.05))
        label_axis(ax.yaxis, "", ticks=4)
        ax.set_ylabel(short_title(space.parameters[space.index(design.names[j])], ax.get_ylim(), side))
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


def run_numbers(design: DesignRuns) -> Table:
    """Return every run: experiment, point, status, seconds, reason, inputs varied."""
    rows = [
        (name, point, run.status, float(run.seconds), run.error, run.key, *map(float, design.x[point]))
        for name, runs in zip(design.experiments, design.runs, strict=True)
        for point, run in enumerate(runs)
    ]
    return Table(("experiment", "point", "status", "seconds", "error", "key", *design.names), tuple(rows))
