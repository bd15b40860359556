"""How far the surrogate may be trusted: every run against what the others say of it, and where it is worst.

Predictions of a run come from a surrogate that did not see it, so they are drawn like held-out data. Of a
signal, the cloud is shown where it is worst, beside the score along the abscissa: one cloud of all instants
would be dominated by the largest values. Scores are drawn as 1 - Q2, the share of the variance left
unexplained, on a logarithmic axis, since 0.99 and 0.9999 look alike otherwise. Instants that hardly vary
have a score too, but nobody depends on it; the worst point is sought among those that do vary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter

from tamis.report.blocks import Block, Grid, Heading, Picture, Text, grid
from tamis.report.decades import along, label_parameter, seen
from tamis.report.fidelity import fidelity_blocks
from tamis.report.parameters import short_title
from tamis.report.style import (
    COLOURS,
    DATA,
    FAILURE,
    FAINT,
    HELD_OUT,
    PRIOR,
    WIDTH,
    box,
    canvas,
    head_room,
    heading,
    label_axis,
    limits,
    note_lines,
    place,
    set_abscissa,
    shortened,
    styled,
    superscript,
)
from tamis.report.tables import Cell, count, number, percent, plain, position, record_title, unit_of
from tamis.results.verdict import rank
from tamis.space import Space
from tamis.types import Array, Mask, Table

if TYPE_CHECKING:
    from tamis.results.records import Emulation, Influence

DRAWN = 12  # observations of a kind that are drawn, the worst; tables and files hold all
MAPPED = 3  # observations whose errors are mapped, and parameters of a map
_VARYING = 0.1  # of the largest spread of a signal: what varies less has no worst point
_VECTORS = 150  # dots; beyond this they are one picture inside the SVG
_RED = "rgba(198, 40, 40, 0.18)"
_UNJUDGED = "cannot be judged"
_SHARED = 0.01  # part of an error from which on it is said to be shared


def surrogate_blocks(
    emulations: Sequence[Emulation],
    space: Space,
    influences: Sequence[Influence],
    threshold: float,
    aim: float | None = None,
) -> list[Block]:
    """Show the score of every observation, left-out predictions, where they err and how they improved.

    ``threshold`` is the score that the study asks for, ``aim`` that of its enrichment.
    """
    if not emulations:
        return []
    ranked = sorted(emulations, key=rank)
    blocks: list[Block] = [Text(summary(ranked, threshold)), score_grid(emulations)]
    blocks += fidelity_blocks(emulations)
    scalars, signals = [e for e in ranked if len(e.x) == 1], [e for e in ranked if len(e.x) > 1]
    said = "Each run as simulated, and as predicted by the surrogate of the other runs."
    if scalars:
        caption = said + _of(scalars, DRAWN) + _worst_run(scalars[0], space, influences)
        files = {"surrogate-numbers": run_numbers(scalars, space)}
        blocks.append(Picture("surrogate-numbers", scatter_figure(scalars[:DRAWN]), caption, files))
    if signals:
        caption = (
            f"{said} Left, at the point of the abscissa where the score is worst among those that vary by at "
            "least a tenth of the most varying one; right, the share of the variance left unexplained along "
            "the abscissa, paler where there is little variance to explain. Dashed: what is asked for."
        )
        caption += _of(signals, DRAWN) + _worst_run(signals[0], space, influences)
        drawn = signal_figure(signals[:DRAWN], threshold)
        files = {
            "surrogate-signals": run_numbers(signals, space),
            "surrogate-along": score_numbers(signals),
        }
        blocks.append(Picture("surrogate-signals", drawn, caption, files))
    mapped = [e for e in ranked if _errors(e).any()][:MAPPED]
    if mapped:
        blocks += [Heading("Where it is worst"), _map(mapped, len(ranked), space, influences)]
    grown = [e for e in ranked if len(e.growth) > 1]
    if grown:
        blocks += [Heading("Enrichment"), _growth(grown, threshold if aim is None else aim)]
    return blocks


def score_text(q2: float) -> str:
    """Write a score with two digits of what is missing to 1."""
    missing = max(1.0 - q2, 1e-5)
    places = 3 if math.isnan(q2) or missing > 0.1 else min(6, 1 - math.floor(math.log10(missing) + 1e-12))
    return "–" if math.isnan(q2) else f"{q2:.{places}f}".replace("-", "−")


_METHODS = {"pce": "polynomial chaos", "kriging": "Kriging", "multifidelity": "hierarchical Kriging"}


def summary(emulations: Sequence[Emulation], threshold: float) -> str:
    """Say in a few sentences what stands in for the simulator and how well."""
    kinds = dict.fromkeys(e.method.partition(" ")[0] for e in emulations)
    methods = " and ".join(_METHODS.get(kind, kind) for kind in kinds)
    used = sorted({len(e.points) for e in emulations})
    runs = f"{used[0]}" if len(used) == 1 else f"{used[0]} to {used[-1]}"
    lost = max(e.failed for e in emulations)
    failed = f" Failed runs are left out, at most {lost} of a test." if lost else " No run was left out."
    scores = sorted(e.q2 for e in emulations if e.judged)
    head = f"Surrogate: {methods}, fitted to {runs} runs.{failed}"
    if statistic := next((e.statistic for e in emulations if e.statistic), ""):
        most = max(e.chance for e in emulations)
        head = f"Surrogate: {methods}, fitted to {runs} points, each with the {statistic}.{failed}"
        head += (
            f" Chance is {percent(most)} of the variance between points at most; no surrogate can explain it."
        )
    blind = len(emulations) - len(scores)
    if blind:
        told = "It" if not scores else f"{blind} of {len(emulations)} observations"
        head += f" {told} cannot be judged: there are too few points for so many parameters."
    common = max(e.shared for e in emulations)
    if common > _SHARED:
        head += (
            f" Observations share errors, up to {common:.0%} of the error variance of one, and are taken so."
        )
    if not scores:
        return head
    ends = " to ".join(dict.fromkeys(map(score_text, (scores[0], scores[-1]))))
    score = f" Predicting each run from the others explains Q2 = {ends} of the variance"
    if scores[0] <= 0:
        score = (
            f" Q2 of runs predicted from the others is {ends}, where 0 is no better than the mean of the runs"
        )
    poor = sum(e.poor for e in emulations)
    below = f"{poor} of {len(emulations)} {'is' if poor == 1 else 'are'} below"
    asked = f"{below if poor else 'all reach'} the {threshold:g} asked for"
    return f"{head}{score}; {asked}."


def _of(records: Sequence[object], most: int) -> str:
    return f" The {most} worst of {len(records)}." if len(records) > most else ""


def _worst_run(e: Emulation, space: Space, influences: Sequence[Influence]) -> str:
    """Name the run that the surrogate of the worst observation misses most."""
    named = range(space.dim) if space.dim <= 2 * MAPPED else leading(e, space.dim, influences)
    words = [
        f"{p.name} = {plain(float(e.points[e.worst, i]))} {p.unit}".rstrip()
        for i, p in enumerate(space.parameters)
        if i in named
    ]
    at = ", ".join(words) + (", …" if len(words) < space.dim else "")
    return f" Red ring: the run predicted worst; of {record_title(e)} run {e.worst}, at {at}."


def _rms(values: Array, axis: int | None = None) -> Array:
    """Return the root of the mean square of what is there."""
    there = np.maximum(np.isfinite(values).sum(axis=axis), 1)
    return np.asarray(np.sqrt(np.nansum(values**2, axis=axis) / there))


def _spread(e: Emulation) -> Array:
    """Return how much each point of the abscissa varies over the runs."""
    there = np.maximum(np.isfinite(e.simulated).sum(axis=0), 1)
    return _rms(e.simulated - np.nansum(e.simulated, axis=0) / there, axis=0)


def _errors(e: Emulation) -> Array:
    """Return each run's error over the spread of the observation."""
    spread = float(_rms(_spread(e)))
    return _rms(e.predicted - e.simulated, axis=1) / (spread or 1.0)


def varying(e: Emulation) -> Mask:
    """Mark the points of the abscissa that vary enough for a score to matter."""
    spread = _spread(e)
    return np.asarray((spread >= _VARYING * spread.max()) & np.isfinite(e.q2_points))


def worst_point(e: Emulation) -> int:
    """Return the point of the abscissa with the lowest score, of those that vary."""
    there = varying(e)
    return int(np.argmin(np.where(there, e.q2_points, np.inf))) if there.any() else 0


def score_grid(emulations: Sequence[Emulation]) -> Grid:
    """Return the table of scores, poor ones in red."""
    rows, shown = [], []
    for e in emulations:
        at = worst_point(e)
        error = float(_rms(e.predicted - e.simulated)) if e.judged else math.nan
        worst, where = float(e.q2_points[at]), float(e.x[at])
        rows.append((e.series, e.label, e.method, len(e.points), e.failed, e.q2, worst, where, error, e.poor))
        shown.append(
            (
                e.series,
                e.label,
                e.method,
                count(len(e.points)),
                count(e.failed),
                Cell(score_text(e.q2) if e.judged else _UNJUDGED, e.q2, _RED if e.poor else ""),
                Cell(score_text(worst), worst) if len(e.x) > 1 else Cell("", math.nan),
                position(e.xlabel, where) if len(e.x) > 1 else "",
                number(error, f"{plain(error)} {unit_of(e.ylabel).strip('[]')}".rstrip())
                if e.judged
                else Cell("–", math.nan),
            )
        )
    titles = (
        "test",
        "observed",
        "method",
        "runs",
        "failed",
        "Q2",
        "at its worst point",
        "where",
        "rms error",
    )
    columns = ("test", "observed", "method", "runs", "failed", "q2", "worst q2", "at", "rms error", "poor")
    caption = "Q2: share of the variance explained when each run is predicted from the others; 1 is perfect."
    if any(e.poor for e in emulations):
        caption += " Red: poorer than asked for."
    numbers = Table(columns, tuple(rows))
    return grid(titles, shown, name="surrogate-scores", numbers=numbers, caption=caption)


@styled
def scatter_figure(emulations: Sequence[Emulation]) -> Figure:
    """Draw left-out predictions against simulations, a panel for each number."""
    columns = {1: 1, 2: 2, 4: 2}.get(len(emulations), 3)
    width, side = WIDTH / 3, 1.65
    cell = head_room(1) + side + 0.5
    figure = canvas(WIDTH, cell * -(-len(emulations) // columns))
    for k, e in enumerate(emulations):
        top = (k // columns) * cell + head_room(1)
        ax = place(figure, (k % columns) * width + 0.66, top, width - 0.85, side)
        _draw_scatter(ax, e, 0)
        _title(ax, e, f"Q2 {score_text(e.q2)}" if e.judged else _UNJUDGED, 1)
    return figure


@styled
def signal_figure(emulations: Sequence[Emulation], threshold: float) -> Figure:
    """Draw signals, two a row: the cloud at the worst point, and what is left unexplained along the abscissa."""
    width, side, wide = WIDTH / 2, 1.5, 1.55
    notes = []
    for e in emulations:
        at = worst_point(e)
        where = position(e.xlabel, float(e.x[at]))
        known = f"Q2 {score_text(e.q2)}; {score_text(float(e.q2_points[at]))} at {where}"
        notes.append(known if e.judged else _UNJUDGED)
    lines = note_lines(notes, 0.6 + side + wide)
    cell = head_room(lines) + side + 0.5
    figure = canvas(WIDTH, cell * -(-len(emulations) // 2))
    for k, (e, note) in enumerate(zip(emulations, notes, strict=True)):
        left, top = (k % 2) * width + 0.62, (k // 2) * cell + head_room(lines)
        _draw_scatter(place(figure, left, top, side, side), e, worst_point(e))
        _draw_along(place(figure, left + side + 0.6, top + 0.1, wide, side - 0.1), e, threshold)
        frame = place(figure, left, top, side + 0.6 + wide, side)
        frame.set_axis_off()
        _title(frame, e, note, lines)
    return figure


def _title(ax: Axes, e: Emulation, note: str, lines: int) -> None:
    heading(ax, shortened(record_title(e), box(ax)[0], 8.5), note, lines)
    for text in ax.texts[1:]:
        text.set_color(FAILURE if e.poor else FAINT)


def _draw_scatter(ax: Axes, e: Emulation, at: int) -> None:
    x, y = e.simulated[:, at], e.predicted[:, at]
    span = limits([x, y])
    ax.plot(span, span, color=FAINT, lw=0.7, zorder=1)
    many = len(x) > _VECTORS
    ax.plot(
        x, y, ls="", marker="o", ms=2.2 if many else 3.2, mew=0, color=HELD_OUT, rasterized=many, zorder=2
    )
    ax.plot(x[e.worst], y[e.worst], ls="", marker="o", ms=7, mfc="none", mec=FAILURE, mew=1.1, zorder=3)
    ax.set_xlim(*span)
    ax.set_ylim(*span)
    unit = unit_of(e.ylabel)
    label_axis(ax.xaxis, f"simulated {unit}".rstrip(), ticks=4)
    label_axis(ax.yaxis, f"predicted {unit}".rstrip(), ticks=4)
    ax.yaxis.set_label_coords(-0.4 / (ax.get_position().width * WIDTH), 0.5)


def _draw_along(ax: Axes, e: Emulation, threshold: float) -> None:
    order = np.argsort(e.x, kind="stable")
    x, left = e.x[order], _left(e.q2_points)[order]
    _unexplained(ax, left[varying(e)[order]], threshold)
    mark = "o" if len(x) <= 40 else ""
    ax.plot(x, left, color=HELD_OUT, lw=0.8, alpha=0.35)
    ax.plot(x, np.where(varying(e)[order], left, np.nan), color=HELD_OUT, lw=1.3, marker=mark, ms=2.5)
    at = worst_point(e)
    ax.plot([e.x[at]], [_left(e.q2_points)[at]], ls="", marker="o", ms=4, color=DATA)
    set_abscissa(ax, [x], 0.02 if len(x) > 30 else 0.05)
    label_axis(ax.xaxis, e.xlabel or "index", ticks=4, room=1.5)


def _left(q2: Array) -> Array:
    """Return the share of the variance left unexplained, no less than a rounding error."""
    return np.maximum(1.0 - q2, 1e-16)


def _unexplained(ax: Axes, values: Array, threshold: float) -> None:
    """Set a logarithmic ordinate of whole decades for 1 - Q2, with the threshold on it."""
    shown = np.append(values[np.isfinite(values)], 1.0 - threshold)
    first = math.floor(math.log10(shown.min()) + 1e-9)
    last = max(math.ceil(math.log10(shown.max()) - 1e-9), first + 1)
    ax.set_yscale("log")
    ax.set_ylim(10.0**first, 10.0**last)
    powers = range(first, last + 1, -(-(last - first) // 5))
    ax.yaxis.set_major_locator(FixedLocator([10.0**p for p in powers]))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"10{superscript(round(math.log10(v)))}"))
    ax.minorticks_off()
    ax.set_ylabel("1 − Q2", labelpad=1)
    ax.axhline(1.0 - threshold, color=FAILURE, lw=0.8, ls=(0, (4, 2)))


def _map(mapped: Sequence[Emulation], of: int, space: Space, influences: Sequence[Influence]) -> Picture:
    caption = (
        "Error of each run when it is left out, over the parameters: the larger the dot, the larger the "
        "error; red ring: the worst run."
    )
    if of > MAPPED:
        caption += f" The {MAPPED} observations with the lowest scores."
    if space.dim > MAPPED:
        known = any(found.total.size for found in influences)
        said = "that matter most to the observation" if known else "named first in the study"
        caption += f" Of {space.dim} parameters, the {MAPPED} {said}."
    axes = [leading(e, space.dim, influences) for e in mapped]
    files = {"surrogate-map": run_numbers(mapped, space)}
    return Picture("surrogate-map", map_figure(mapped, space, axes), caption, files)


def leading(e: Emulation, d: int, influences: Sequence[Influence]) -> list[int]:
    """Return the parameters to map an observation over: by total index where known, else the first ones."""
    for found in influences:
        if (found.series, found.label) == (e.series, e.label) and found.total.size:
            weight = np.nansum(found.total * found.sd**2, axis=1)
            return sorted(np.argsort(-weight, kind="stable")[:MAPPED].tolist())
    return list(range(min(d, MAPPED)))


@styled
def map_figure(emulations: Sequence[Emulation], space: Space, axes: Sequence[Sequence[int]]) -> Figure:
    """Draw left-out errors over pairs of parameters, three a row, or along a single one."""
    cells: list[tuple[Emulation, int, int | None]] = []
    for e, chosen in zip(emulations, axes, strict=True):
        cells += [(e, i, j) for i, j in combinations(chosen, 2)] or [(e, chosen[0], None)]
    width, side = WIDTH / 3, 1.6
    cell = head_room(1) + side + 0.6
    figure = canvas(WIDTH, cell * -(-len(cells) // 3))
    for k, (e, i, j) in enumerate(cells):
        ax = place(figure, (k % 3) * width + 0.7, (k // 3) * cell + head_room(1), width - 0.9, side)
        errors = _errors(e)
        law, other = seen(space.parameters[i]), None if j is None else seen(space.parameters[j])
        x = along(law, e.points[:, i])
        y = errors if other is None else along(other, e.points[:, j])
        size = 40.0 * errors / errors.max() + 1.0
        ax.scatter(x, y, s=size, color=HELD_OUT, alpha=0.6, lw=0, rasterized=len(x) > _VECTORS)
        ax.plot(x[e.worst], y[e.worst], ls="", marker="o", ms=8, mfc="none", mec=FAILURE, mew=1.1)
        ax.set_xlim(*limits([x]))
        ax.set_ylim(*limits([y]))
        label_parameter(ax.xaxis, law, ticks=4)
        ax.set_xlabel(short_title(law, ax.get_xlim(), width - 0.8))
        if other is None:
            label_axis(ax.yaxis, "error / spread", ticks=4)
        else:
            label_parameter(ax.yaxis, other, ticks=4)
            ax.set_ylabel(short_title(other, ax.get_ylim(), side))
        if k == 0 or cells[k - 1][0] is not e:
            note = f"largest error {plain(errors.max(), 2)} of the spread"
            heading(ax, shortened(record_title(e), width - 0.9, 8.5), note, 1)
    return figure


def _growth(grown: Sequence[Emulation], threshold: float) -> Picture:
    most = len(COLOURS)
    scored = grown[0].measure == "Q2"
    caption = (
        "Share of the variance left unexplained"
        if scored
        else "Share of the posterior's variance that is due "
    )
    caption += (
        "" if scored else "to the surrogate and not to the data, of the parameter for which it is largest"
    )
    caption += ", round by round of enrichment." + _of(grown, most)
    rows = tuple((e.series, e.label, int(runs), float(value)) for e in grown for runs, value in e.growth)
    files = {"surrogate-growth": Table(("test", "observed", "runs", "q2" if scored else "due to data"), rows)}
    return Picture("surrogate-growth", growth_figure(grown[:most], threshold), caption, files)


@styled
def growth_figure(emulations: Sequence[Emulation], threshold: float) -> Figure:
    """Draw what is left unexplained against the number of runs, a line for each observation."""
    figure = canvas(WIDTH, 2.7)
    ax = place(figure, 0.7, 0.15, 4.6, 2.0)
    _unexplained(ax, np.concatenate([_left(e.growth[:, 1]) for e in emulations]), threshold)
    if emulations[0].measure != "Q2":
        ax.set_ylabel("due to the surrogate", labelpad=1)
    handles = []
    for e, colour in zip(emulations, COLOURS, strict=False):
        ax.plot(e.growth[:, 0], _left(e.growth[:, 1]), color=colour, marker="o", ms=3, clip_on=False)
        handles.append(
            Line2D([], [], color=colour, marker="o", ms=3, label=shortened(record_title(e), 2.7, 8.0))
        )
    dashed = Line2D([], [], color=FAILURE, lw=0.8, ls=(0, (4, 2)), label=f"asked for: {threshold:g}")
    ax.set_xlim(*limits([e.growth[:, 0] for e in emulations]))
    ax.grid(axis="y", color=PRIOR, lw=0.3, alpha=0.6)
    label_axis(ax.xaxis, "runs", ticks=6)
    ax.legend(handles=[*handles, dashed], loc="upper left", bbox_to_anchor=(1.03, 1.03), handlelength=1.6)
    return figure


def run_numbers(emulations: Sequence[Emulation], space: Space) -> Table:
    """Return what was drawn of every run: simulated and predicted at the worst point, error, parameters."""
    rows: list[tuple[object, ...]] = []
    for e in emulations:
        at = worst_point(e)
        errors = _errors(e)
        columns = (e.simulated[:, at], e.predicted[:, at], errors, *e.points.T)
        where = (e.series, e.label, float(e.x[at]))
        rows += [(*where, i, *map(float, row)) for i, row in enumerate(zip(*columns, strict=True))]
    names = ("test", "observed", "x", "run", "simulated", "predicted", "error over spread", *space.names)
    return Table(names, tuple(rows))


def score_numbers(emulations: Sequence[Emulation]) -> Table:
    """Return the score along the abscissa."""
    rows = tuple(
        (e.series, e.label, float(x), float(q2))
        for e in emulations
        for x, q2 in zip(e.x, e.q2_points, strict=True)
    )
    return Table(("test", "observed", "x", "q2"), rows)
