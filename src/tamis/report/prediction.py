"""Data and model over an abscissa: what the prior allowed, what is left, what errors add, what was measured.

Two bands are kept apart everywhere (Hadjidoukas et al. 2014, 10.1016/j.cma.2014.07.017, figures 5-7): the
darker one is the spread of the model's answers over the posterior draws, the lighter one adds the error
model. Observations that are one number without an abscissa go together in a chart of dots and intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from tamis.report.blocks import Block, Grid, Heading, Picture, grid
from tamis.report.style import (
    COLOURS,
    DATA,
    FAINT,
    HELD_OUT,
    PARAMETERS,
    POSTERIOR,
    PRIOR,
    PRIOR_FILL,
    TOTAL,
    WIDTH,
    box,
    canvas,
    fit,
    head_room,
    heading,
    label_axis,
    legend_row,
    limits,
    note_lines,
    place,
    set_abscissa,
    shortened,
    styled,
)
from tamis.report.tables import Cell, percent, position, readable, record_title, unit_of
from tamis.results.verdict import decisions, passing_errors
from tamis.types import Array, Table

if TYPE_CHECKING:
    from tamis.results.records import Panel

_BEST: dict[str, Any] = {"lw": 1.1, "ls": (0, (3, 2)), "zorder": 4.5}
_VERTICES = 400  # of a band; more cannot be seen
_VECTORS = 150  # beyond this they are one picture inside the SVG
_LIMITED = 6  # panels of exceedance, to a figure
_STRIP = 0.6  # inches, of residuals and of autocorrelations
_MARKERS = 80  # beyond this measurements are dots without bars
PER_FIGURE = 6


def is_scalar(panel: Panel) -> bool:
    """Tell whether a panel is one number without an abscissa."""
    return not panel.xlabel and len(panel.x) == 1


def panel_note(panel: Panel) -> str:
    """Say in a few words what else there is to know: condition, share of draws, coverage, failures."""
    share = f" ({percent(panel.share)} of the draws)" if panel.share < 1 else ""
    notes = [readable(panel.condition) + share] if panel.condition else []
    if math.isfinite(panel.coverage):
        notes.append(f"90 % band holds {percent(panel.coverage)} of the data")
    if panel.synthetic:
        notes.append("numerical experiment")
    if panel.emulated:
        notes.append("by the surrogate")
    if panel.failed:
        notes.append(f"{panel.failed} draws failed")
    return "; ".join(notes)


@styled
def bands_figure(panels: Sequence[Panel]) -> Figure:
    """Draw panels with an abscissa on a grid, each over its residuals and their autocorrelation, if any."""
    columns = {1: 1, 2: 2, 4: 2}.get(len(panels), 3)
    rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    main = {1: 2.7, 2: 2.0, 3: 1.7}[columns]
    width = WIDTH / columns
    inner = width - 0.8
    lines = [note_lines([panel_note(panel) for panel in row], inner) for row in rows]
    heights = [
        head_room(n) + max(_height(panel, main) for panel in row) for n, row in zip(lines, rows, strict=True)
    ]
    figure = canvas(WIDTH, 0.36 + sum(heights))
    for r, row in enumerate(rows):
        for c, panel in enumerate(row):
            left, top = c * width + 0.66, 0.36 + sum(heights[:r]) + head_room(lines[r])
            ax = low = place(figure, left, top, inner, main)
            draw_panel(ax, panel)
            heading(ax, record_title(panel), panel_note(panel), lines[r])
            top += main
            if panel.residual.size:
                ax.tick_params(labelbottom=False)
                low = place(figure, left, top + 0.08, inner, _STRIP)
                low.set_xscale(ax.get_xscale())
                _draw_residual(low, panel, ax.get_xlim())
                top += 0.08 + _STRIP
            for each in (ax, low):
                each.yaxis.set_label_coords(-0.45 / inner, 0.5)
                title = (panel.xlabel or "index") if each is low else ""
                whole = bool((panel.x % 1.0 == 0.0).all())
                label_axis(each.xaxis, title, ticks=6 if columns < 3 else 4, room=inner, whole=whole)
            if panel.autocorrelation.size:
                last = place(figure, left, top + 0.5, inner, _STRIP)
                _draw_autocorrelation(last, panel)
                last.yaxis.set_label_coords(-0.45 / inner, 0.5)
    add_legend(figure, panels)
    return figure


def _height(panel: Panel, main: float) -> float:
    """Return the inches that a panel takes with all that goes below it."""
    height = main + 0.55
    height += _STRIP + 0.08 if panel.residual.size else 0.0
    return height + (_STRIP + 0.5 if panel.autocorrelation.size else 0.0)


def draw_panel(ax: Axes, panel: Panel, *, ylim: tuple[float, float] | None = None) -> None:
    """Draw bands, mean and measurements, and title the ordinate."""
    order = np.argsort(panel.x, kind="stable")
    x = panel.x[order]
    if len(x) == 1 or (np.diff(x) == 0).any():
        _draw_bars(ax, panel, order)
    else:
        keep = order[np.unique(np.linspace(0, len(x) - 1, min(len(x), _VERTICES)).round().astype(int))]
        px = panel.x[keep]
        if panel.prior.shape[0]:
            ax.fill_between(px, panel.prior[0, keep], panel.prior[2, keep], color=PRIOR_FILL, lw=0, zorder=1)
            ax.plot(px, panel.prior[1, keep], color=PRIOR, lw=0.9, ls=(0, (4, 2)), zorder=1.5)
        ax.fill_between(px, *panel.total_band[:, keep], color=TOTAL, lw=0, alpha=0.85, zorder=2)
        ax.fill_between(px, *panel.model_band[:, keep], color=PARAMETERS, lw=0, zorder=3)
        ax.plot(px, panel.mean[keep], color=POSTERIOR, lw=1.2, zorder=4)
        for row, colour in zip(panel.best, COLOURS, strict=False):
            ax.plot(px, row[keep], color=colour, **_BEST)
    _draw_data(ax, panel)
    everything = [panel.x, panel.overlay[:, 0]]
    set_abscissa(ax, everything, 0.25 if len(x) == 1 else 0.02 if len(x) > 30 else 0.05)
    ax.set_ylim(*(ylim or panel_limits([panel])))
    label_axis(ax.yaxis, panel.ylabel, ticks=5, room=box(ax)[1] + 0.3)


def panel_limits(panels: Sequence[Panel]) -> tuple[float, float]:
    """Return a range for the ordinate: data and total band in full, the prior unless it dwarfs them."""
    low, high = limits([v for p in panels for v in (p.total_band, p.model_band, p.best, *_measured(p))])
    priors = [p.prior for p in panels if p.prior.size]
    if priors:
        plow, phigh = limits(priors, 0.02)
        reach = high - low
        low, high = min(low, max(plow, low - reach)), max(high, min(phigh, high + reach))
    return low, high


def _measured(panel: Panel) -> list[Array]:
    sd = np.nan_to_num(panel.y_sd) if panel.y_sd.size else np.zeros(len(panel.x))
    beside = np.nan_to_num(panel.overlay[:, 2])
    return [panel.y - sd, panel.y + sd, panel.overlay[:, 1] - beside, panel.overlay[:, 1] + beside]


def _draw_bars(ax: Axes, panel: Panel, order: NDArray[np.intp]) -> None:
    """Bands at separate points, where the abscissa has one value or repeats itself."""
    x = panel.x[order]
    if panel.prior.shape[0]:
        ax.vlines(x, panel.prior[0, order], panel.prior[2, order], color=PRIOR_FILL, lw=14, zorder=1)
    ax.vlines(x, *panel.total_band[:, order], color=TOTAL, lw=9, zorder=2)
    ax.vlines(x, *panel.model_band[:, order], color=PARAMETERS, lw=5, zorder=3)
    ax.plot(x, panel.mean[order], ls="", marker="_", ms=9, mew=1.4, color=POSTERIOR, zorder=4)


def _draw_data(ax: Axes, panel: Panel) -> None:
    colour = HELD_OUT if panel.use == "validate" else DATA
    for replicate in panel.y:
        _draw_points(ax, panel.x, replicate, panel.y_sd, colour)
    if (
        len(panel.overlay) > _VECTORS and (np.diff(panel.overlay[:, 0]) > 0).all()
    ):  # a signal beside a prediction
        ax.plot(panel.overlay[:, 0], panel.overlay[:, 1], color=colour, lw=0.5, zorder=5)
    elif len(panel.overlay):
        _draw_points(ax, panel.overlay[:, 0], panel.overlay[:, 1], panel.overlay[:, 2], colour)


def _draw_points(ax: Axes, x: Array, y: Array, sd: Array, colour: str) -> None:
    if len(x) > _MARKERS:
        ax.plot(
            x,
            y,
            ls="",
            marker="o",
            ms=_dot(ax, len(x)),
            mew=0,
            color=colour,
            zorder=5,
            rasterized=len(x) > _VECTORS,
        )
        return
    bars = _bars(sd)
    marks: dict[str, Any] = {
        "ms": 4.2,
        "mec": "white",
        "mew": 0.4,
        "elinewidth": 0.9,
        "capsize": 1.8,
        "capthick": 0.7,
    }
    ax.errorbar(x, y, yerr=bars, fmt="o", color=colour, zorder=5, **marks)


def _dot(ax: Axes, m: int) -> float:
    """Return the size of one dot among m: as large as the room between two allows."""
    return min(max(1.1 * box(ax)[0] * 72 / m, 1.2), 2.4 if m > _MARKERS else 3.4)


def _bars(sd: Array) -> Array | None:
    """Return the half lengths of error bars, or None where no standard deviation is known."""
    return np.nan_to_num(sd) if np.isfinite(sd).any() else None


def _draw_residual(ax: Axes, panel: Panel, xlim: tuple[float, float]) -> None:
    colour = HELD_OUT if panel.use == "validate" else DATA
    size = float(np.nan_to_num(np.abs(panel.residual)).max())
    ax.axhspan(-2, 2, color="#eef1f4", lw=0, zorder=0)
    ax.axhline(0, color=FAINT, lw=0.6, zorder=1)
    m = len(panel.x)
    ax.plot(
        panel.x,
        panel.residual,
        ls="",
        marker="o",
        ms=_dot(ax, m),
        mew=0,
        color=colour,
        rasterized=m > _VECTORS,
    )
    ax.set_xlim(*xlim)
    reach = max(3.0, 1.15 * size)
    ax.set_ylim(-reach, reach)
    label_axis(ax.yaxis, "resid. [sd]", ticks=3)
    ax.yaxis.label.set_fontsize(7.0)


def _draw_autocorrelation(ax: Axes, panel: Panel) -> None:
    r = panel.autocorrelation
    lags = np.arange(len(r))
    if math.isfinite(panel.white_limit):
        ax.axhspan(-panel.white_limit, panel.white_limit, color="#eef1f4", lw=0, zorder=0)
    ax.axhline(0, color=FAINT, lw=0.6, zorder=1)
    ax.vlines(lags, 0, r, color=DATA, lw=1.0 if len(r) < 60 else 0.6)
    ax.set_xlim(-0.5, max(len(r) - 0.5, 1.0))
    ax.set_ylim(min(-0.5, 1.1 * float(np.nan_to_num(r).min())), 1.08)
    label_axis(ax.yaxis, "autocorr.", ticks=3)
    ax.yaxis.label.set_fontsize(7.0)
    label_axis(ax.xaxis, "lag of the residuals", ticks=6)


def add_legend(figure: Figure, panels: Sequence[Panel]) -> None:
    """Explain the colours that these panels use, in one line at the top."""
    handles: list[Patch | Line2D] = []
    if any(p.prior.size for p in panels):
        handles.append(Patch(color=PRIOR_FILL, label="prior, 90 %"))
    whole = any(p.split.size for p in panels)  # the choice of model and the runs' noise are in it as well
    handles.append(Patch(color=PARAMETERS, label="model alone, 90 %" if whole else "parameters, 90 %"))
    handles.append(Patch(color=TOTAL, label="with errors, 90 %"))
    handles.append(Line2D([], [], color=POSTERIOR, lw=1.4, label="mean"))
    for name, colour in zip(dict.fromkeys(n for p in panels for n in p.best_of), COLOURS, strict=False):
        handles.append(
            Line2D([], [], color=colour, marker="D", ms=3.2, mfc="white", label=f"best fit, {name}", **_BEST)
        )
    for use, colour in (("fit", DATA), ("validate", HELD_OUT)):
        mine = [
            p for p in panels if (p.use == "validate") == (use == "validate") and (p.y.size or len(p.overlay))
        ]
        if mine:
            what = "numerical experiment" if all(p.synthetic for p in mine) else "measured"
            spread = any(np.isfinite(p.y_sd).any() or np.isfinite(p.overlay[:, 2]).any() for p in mine)
            text = what + (" ± sd" if spread else "") + (", held out" if use == "validate" else "")
            handles.append(Line2D([], [], ls="", marker="o", ms=4, color=colour, label=text))
    options = {"handlelength": 1.3, "columnspacing": 1.5, "handletextpad": 0.5, "borderaxespad": 0.1}
    figure.legend(handles=handles, loc="upper left", ncols=len(handles), **options)


@styled
def scalars_figure(panels: Sequence[Panel]) -> Figure:
    """Draw single numbers as dots and intervals, a row each; those of one quantity and unit share an axis."""
    groups: dict[str, list[Panel]] = {}
    for panel in panels:
        groups.setdefault(panel.ylabel, []).append(panel)
    row = 0.3
    figure = canvas(WIDTH, 0.4 + sum(0.6 + row * len(group) for group in groups.values()))
    residuals = any(p.residual.size for p in panels)
    width = 4.4 if residuals else 6.1
    top = 0.4
    for ylabel, group in groups.items():
        ax = place(figure, 2.5, top, width, row * len(group))
        for at, panel in enumerate(group):
            _draw_row(ax, panel, at)
        ax.set_yticks(range(len(group)), [_row_title(p) for p in group])
        ax.set_ylim(len(group) - 0.5, -0.5)
        ax.set_xlim(*panel_limits(group))
        ax.tick_params(axis="y", length=0)
        label_axis(ax.xaxis, ylabel, ticks=6, room=width)
        if residuals:
            _draw_row_residuals(place(figure, 2.5 + width + 0.25, top, 1.5, row * len(group)), group)
        top += 0.6 + row * len(group)
    add_legend(figure, panels)
    return figure


def _row_title(panel: Panel) -> str:
    title = fit(record_title(panel), 2.35, 7.5)
    return f"{title}\nby the surrogate" if panel.emulated else title


def _draw_row(ax: Axes, panel: Panel, at: int) -> None:
    colour = HELD_OUT if panel.use == "validate" else DATA
    if panel.prior.size:
        ax.hlines(at, panel.prior[0], panel.prior[2], color=PRIOR_FILL, lw=14)
    ax.hlines(at, *panel.total_band, color=TOTAL, lw=9)
    ax.hlines(at, *panel.model_band, color=PARAMETERS, lw=5)
    ax.plot(panel.mean, [at], ls="", marker="|", ms=10, mew=1.4, color=POSTERIOR)
    for value, colour in zip(panel.best[:, 0] if panel.best.size else (), COLOURS, strict=False):
        ax.plot([value], [at], ls="", marker="D", ms=3.6, mfc="white", mec=colour, zorder=4.5)
    bars = _bars(panel.y_sd)
    for value in panel.y:
        ax.errorbar(
            value,
            [at],
            xerr=bars,
            fmt="o",
            ms=4,
            mec="white",
            mew=0.4,
            color=colour,
            elinewidth=0.9,
            zorder=5,
        )


def _draw_row_residuals(ax: Axes, group: Sequence[Panel]) -> None:
    values = [float(p.residual[0]) if p.residual.size else math.nan for p in group]
    reach = max(3.0, 1.15 * float(np.nan_to_num(np.abs(values)).max()))
    ax.axvspan(-2, 2, color="#eef1f4", lw=0, zorder=0)
    ax.axvline(0, color=FAINT, lw=0.6)
    for at, (panel, value) in enumerate(zip(group, values, strict=True)):
        ax.plot([value], [at], ls="", marker="o", ms=3.6, color=HELD_OUT if panel.use == "validate" else DATA)
    ax.set_ylim(len(group) - 0.5, -0.5)
    ax.set_yticks([])
    ax.set_xlim(-reach, reach)
    label_axis(ax.xaxis, "residual [sd]", ticks=4)


def band_numbers(panels: Sequence[Panel]) -> Table:
    """Return what was drawn, a row per panel and abscissa; measurements at other abscissae have their own."""
    most = max([p.y.shape[0] for p in panels] + [1 if len(p.overlay) else 0 for p in panels])
    measured = tuple(f"measured {i + 1}" for i in range(most))
    columns = ("series", "label", "use", "x", *measured, "measured sd", "mean", "sd model", "sd total")
    columns += (
        "model q05",
        "model q95",
        "total q05",
        "total q95",
        "prior q05",
        "prior q50",
        "prior q95",
        "residual",
    )
    rows = []
    for p in panels:
        names = (p.series, p.label, p.use)
        for i in range(len(p.x)):
            y = [float(v) for v in p.y[:, i]] + [None] * (most - p.y.shape[0])
            prior = [float(v) for v in p.prior[:, i]] if p.prior.shape[0] else [None] * 3
            bands = [
                float(v)
                for v in (p.mean[i], p.sd_model[i], p.sd_total[i], *p.model_band[:, i], *p.total_band[:, i])
            ]
            sd = float(p.y_sd[i]) if p.y_sd.size else None
            residual = float(p.residual[i]) if p.residual.size else None
            rows.append((*names, float(p.x[i]), *y, sd, *bands, *prior, residual))
        for x, y, sd in p.overlay:
            first = [float(y)] + [None] * (most - 1)
            rows.append((*names, float(x), *first, float(sd), *[None] * 11))
    return Table(columns, tuple(rows))


def autocorrelation_numbers(panels: Sequence[Panel]) -> Table:
    """Return the autocorrelation of the residuals, lag by lag."""
    rows = tuple(
        (p.series, p.label, lag, float(r), p.white_limit)
        for p in panels
        for lag, r in enumerate(p.autocorrelation)
    )
    return Table(("series", "label", "lag", "autocorrelation", "white limit"), rows)


def exceedance_blocks(panels: Sequence[Panel]) -> list[Block]:
    """Show how likely predicted numbers are to be above their limits."""
    limited = [p for p in panels if math.isfinite(p.limit)]
    if not limited:
        return []
    blocks: list[Block] = [Heading("Probability of exceedance")]
    drawn = [p for p in limited if len(p.x) > 1]
    for k, start in enumerate(range(0, len(drawn), _LIMITED), start=1):
        some, key = drawn[start : start + _LIMITED], f"exceedance-{k}"
        blocks.append(Picture(key, exceedance_figure(some), _EXCEEDED, {key: exceedance_numbers(some)}))
    return [*blocks, exceedance_grid(limited)]


_EXCEEDED = (
    "Probability of being above the limit (of a least value: below it), point by point: of the model's answers over "
    "the draws, and with errors added."
)


@styled
def exceedance_figure(panels: Sequence[Panel]) -> Figure:
    """Draw the probability of exceedance along the abscissa of each panel."""
    columns = min(2, len(panels))
    width, main = WIDTH / columns, 1.7
    inner, cell = width - 0.85, head_room(1) + main + 0.55
    figure = canvas(WIDTH, 0.32 + cell * -(-len(panels) // columns))
    for k, panel in enumerate(panels):
        top = 0.32 + (k // columns) * cell + head_room(1)
        ax = place(figure, (k % columns) * width + 0.7, top, inner, main)
        order = np.argsort(panel.x, kind="stable")
        x = panel.x[order]
        mark = "o" if len(x) <= 40 else ""
        for row, colour in ((0, PARAMETERS), (1, POSTERIOR)):
            share = 100.0 * panel.exceedance[row, order]
            ax.plot(x, share, color=colour, lw=1.4, marker=mark, ms=2.6, zorder=2 + row)
        set_abscissa(ax, [x], 0.02)
        ax.set_ylim(-0.02 * _top(panel), _top(panel))
        ax.grid(axis="y", color=PRIOR_FILL, lw=0.5)
        ax.yaxis.set_label_coords(-0.45 / inner, 0.5)
        label_axis(ax.yaxis, "exceedance [%]", ticks=5)
        label_axis(ax.xaxis, panel.xlabel or "index", ticks=6, room=inner)
        heading(ax, shortened(record_title(panel), inner, 8.5), f"limit {limit_words(panel)}", 1)
    legend_row(
        figure,
        [
            Line2D([], [], color=PARAMETERS, lw=1.4, label="parameters"),
            Line2D([], [], color=POSTERIOR, lw=1.4, label="with errors"),
        ],
        2,
    )
    return figure


def _top(panel: Panel) -> float:
    """Return the end of the ordinate: 100 %, or a little above the largest of small probabilities."""
    return min(104.0, max(112.0 * float(panel.exceedance.max()), 1.0))


def limit_words(panel: Panel) -> str:
    """Write a limit with its unit."""
    return f"{readable(f'{panel.limit:g}')} {unit_of(panel.ylabel).strip('[]')}".rstrip()


def exceedance_grid(panels: Sequence[Panel]) -> Grid:
    """Return the table of probabilities, each where the total is largest on its abscissa."""
    shown = []
    for d in decisions(panels):
        p, j = d.panel, d.at
        where = position(p.xlabel, float(p.x[j])) if len(p.x) > 1 else ""
        shares = (Cell(odds.text, odds.value) for odds in (d.model, d.total))
        shown.append((record_title(p), limit_words(p), where, *shares))
    along = any(len(p.x) > 1 for p in panels)
    columns = ("number", "limit", "where largest", "parameters", "with errors")
    rows = shown if along else [(title, limit, *rest) for title, limit, _, *rest in shown]
    caption = "Probability of being above the limit, with the standard error of the draws"
    caption += "; of being below it, for a least value" if any(p.below for p in panels) else ""
    caption += "; at the point of the abscissa where it is largest." if along else "."
    caption += " Nearer to 0 or 1 than 3 over the number of draws it is given as a bound, of 95 % confidence."
    titles = columns if along else (*columns[:2], *columns[3:])
    return grid(titles, rows, caption=caption, name="exceedance", numbers=exceedance_numbers(panels))


def exceedance_numbers(panels: Sequence[Panel]) -> Table:
    """Return the probabilities, a row per panel and abscissa."""
    rows = tuple(
        (p.series, p.label, float(x), p.limit, *map(float, (model, total, *errors)))
        for p in panels
        for x, model, total, *errors in zip(p.x, *p.exceedance, *passing_errors(p), strict=True)
    )
    errors = ("standard error", "standard error with errors")
    return Table(("series", "label", "x", "limit", "parameters", "with errors", *errors), rows)
