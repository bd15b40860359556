"""What a study drew from the posteriors of others, and where the variance of its predictions comes from.

The robust prediction averages over all draws; the best fit of each posterior is one point of it, drawn and listed
beside (Hadjidoukas et al. 2014, 10.1016/j.cma.2014.07.017, figures 12 and 14): where the two differ, a calibration
that keeps the best point only would have misled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from tamis.report.blocks import Block, Grid, Heading, Picture, Text, grid
from tamis.report.style import (
    COLOURS,
    PARAMETERS,
    POSTERIOR,
    PRIOR,
    PRIOR_FILL,
    WIDTH,
    canvas,
    fit,
    head_room,
    heading,
    label_axis,
    place,
    shortened,
    styled,
)
from tamis.report.tables import (
    Cell,
    count,
    number,
    percent,
    plain,
    position,
    record_title,
    variation,
    with_error,
    with_interval,
)
from tamis.types import Array, Table

if TYPE_CHECKING:
    from tamis.results.records import Panel, Source

_PARTS = (("parameters", PARAMETERS), ("choice of model", COLOURS[0]), ("run-to-run noise", PRIOR))
_DRAWN = 6  # panels of shares, to a figure
_BARS = 24  # single numbers, to a figure
_MOST = 200.0  # % that a coefficient of variation is drawn to: where a mean passes zero it has no bound


def source_blocks(sources: Sequence[Source], used: Sequence[str]) -> list[Block]:
    """List the studies that were drawn from, their weights, and what was drawn of the parameters that are used here."""
    if not sources:
        return []
    blocks: list[Block] = [source_grid(sources), drawn_grid(sources, used)]
    if any(source.reweighted for source in sources):
        text = (
            "These draws were weighted by their posterior density once more, as Hadjidoukas et al. (2014) do. "
            "Posterior samples are distributed like the posterior already: weighting again targets its square."
        )
        blocks += [Heading("What weighting again does"), Text(text), reweighting_grid(sources)]
    return blocks


def source_grid(sources: Sequence[Source]) -> Grid:
    """Return the table of studies: weight, evidence, draws."""
    columns = (
        "study",
        "file",
        "weight",
        "log evidence",
        "draws",
        "worth",
        "posterior worth",
        "hash of its posterior",
    )
    shown = [
        (
            s.name,
            s.file,
            number(s.weight, percent(s.weight)),
            Cell(with_error(*s.log_evidence), s.log_evidence[0]),
            count(len(s.x)),
            count(round(s.worth)),
            count(round(s.effective)),
            s.content[:12],
        )
        for s in sources
    ]
    rows = tuple(
        (s.name, s.file, s.weight, *s.log_evidence, len(s.x), s.worth, s.effective, s.content)
        for s in sources
    )
    numbers = Table((*columns[:4], "its error", *columns[4:]), rows)
    caption = "Draws are shared out by weight. Worth: as many independent draws, of these and of the whole posterior."
    return grid(columns, shown, name="sources", numbers=numbers, caption=caption)


def drawn_grid(sources: Sequence[Source], used: Sequence[str]) -> Grid:
    """Return mean and standard deviation of what was drawn, and the point of highest density."""
    columns = ("parameter", "study", "mean", "standard deviation", "best fit", "unit")
    rows: list[tuple[Any, ...]] = [
        (name, s.name, *map(float, (*s.drawn_moments[:, i], s.best[i])), s.units[i])
        for name in used
        for s in sources
        for i in [s.names.index(name) if name in s.names else -1]
        if i >= 0
    ]
    shown = [
        (name, study, *(number(v, plain(v, 4)) for v in numbers), unit)
        for name, study, *numbers, unit in rows
    ]
    caption = "Parameters that were drawn; best fit: the joint point of highest posterior density."
    return grid(
        columns, shown, name="sources-parameters", numbers=Table(columns, tuple(rows)), caption=caption
    )


def reweighting_grid(sources: Sequence[Source]) -> Grid:
    """Return mean and standard deviation of every parameter before and after weighting again."""
    columns = (
        "parameter",
        "study",
        "mean of the posterior",
        "when weighted again",
        "its sd",
        "when weighted again",
    )
    rows: list[tuple[Any, ...]] = [
        (
            name,
            s.name,
            *(float(v) for pair in zip(s.moments[:, i], s.drawn_moments[:, i], strict=True) for v in pair),
        )
        for s in sources
        for i, name in enumerate(s.names)
    ]
    shown = [(name, study, *(number(v, plain(v, 4)) for v in numbers)) for name, study, *numbers in rows]
    return grid(columns, shown, name="sources-reweighted", numbers=Table(columns, tuple(rows)))


def robust_blocks(panels: Sequence[Panel]) -> list[Block]:
    """Set the robust prediction beside the best fits, and show where its variance comes from."""
    mine = [panel for panel in panels if panel.split.size]
    if not mine:
        return []
    along = [panel for panel in mine if len(panel.x) > 1]
    single = [panel for panel in mine if len(panel.x) == 1]
    blocks: list[Block] = [Heading("Robust prediction and best fit"), robust_grid(mine)]
    for k, start in enumerate(range(0, len(along), _DRAWN), start=1):
        some, key = along[start : start + _DRAWN], f"variation-{k}"
        blocks.append(Picture(key, variation_figure(some), _VARIATION, {key: variation_numbers(some)}))
    blocks.append(Heading("Where the variance comes from"))
    for k, start in enumerate(range(0, len(along), _DRAWN), start=1):
        some, key = along[start : start + _DRAWN], f"variance-{k}"
        blocks.append(Picture(key, shares_figure(some), _caption(some), {key: split_numbers(some)}))
    for k, start in enumerate(range(0, len(single), _BARS), start=1):
        some, key = single[start : start + _BARS], f"variance-numbers-{k}"
        blocks.append(Picture(key, bars_figure(some), _caption(some), {key: split_numbers(some)}))
    return [*blocks, split_grid(mine)]


_VARIATION = (
    "Coefficient of variation along the abscissa: standard deviation over the size of the mean, with errors."
)


def variation_numbers(panels: Sequence[Panel]) -> Table:
    """Return mean, standard deviation and coefficient of variation, a row per panel and abscissa."""
    rows = tuple(
        (p.series, p.label, *map(float, (p.x[j], p.mean[j], p.sd_total[j], p.cov[j])))
        for p in panels
        for j in range(len(p.x))
    )
    return Table(("series", "label", "x", "mean", "sd total", "COV"), rows)


def _caption(panels: Sequence[Panel]) -> str:
    text = (
        "Share of the variance of the model's answers that is due to the parameters, to the choice of model and to the "
        "runs' own noise; estimates below zero are drawn as zero."
    )
    if any(np.isnan(panel.split[2]).any() for panel in panels):
        text += (
            " With one run a draw the noise cannot be told from the parameters: what is called parameters holds both "
            "([parameters] replicates = 2 tells them apart)."
        )
    return text


def robust_grid(panels: Sequence[Panel]) -> Grid:
    """Return mean, standard deviation, COV, band and best fits; of signals where they vary most."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.best_of))
    titles = ("number", "mean", "standard deviation", "COV", "90 % band", *(f"best fit, {n}" for n in names))
    shown = []
    for p in panels:
        j = int(np.argmax(p.sd_total))
        low, high = map(float, p.total_band[:, j])
        where = f", {position(p.xlabel, float(p.x[j]))}" if len(p.x) > 1 else ""
        best = dict(zip(p.best_of, p.best[:, j], strict=True))
        mean, band = with_interval(float(p.mean[j]), low, high)
        cells = [number(float(best[n]), plain(float(best[n]), 4)) if n in best else Cell("–") for n in names]
        shown.append(
            (
                record_title(p) + where,
                Cell(mean, float(p.mean[j])),
                number(float(p.sd_total[j])),
                variation(float(p.cov[j])),
                Cell(band, low),
                *cells,
            )
        )
    columns = ("series", "label", "x", "mean", "sd model", "sd total", "COV", "total q05", "total q95")
    rows = tuple(
        (
            *(p.series, p.label),
            *map(float, (p.x[j], p.mean[j], p.sd_model[j], p.sd_total[j], p.cov[j], *p.total_band[:, j])),
            *(float(dict(zip(p.best_of, p.best[:, j], strict=True)).get(n, math.nan)) for n in names),
        )
        for p in panels
        for j in range(len(p.x))
    )
    caption = "All draws, errors included, beside the runs at the points of highest posterior density."
    if any(len(p.x) > 1 for p in panels):
        caption += " Along an abscissa, where the prediction varies most; the file lists all."
    numbers = Table((*columns, *(f"best fit {n}" for n in names)), rows)
    return grid(titles, shown, name="robust", numbers=numbers, caption=caption)


def split_grid(panels: Sequence[Panel]) -> Grid:
    """Return the shares of the variance with their standard errors; of signals where they vary most."""
    shown = []
    for p in panels:
        j = int(np.argmax(p.sd_model))
        where = f", {position(p.xlabel, float(p.x[j]))}" if len(p.x) > 1 else ""
        said = [_share(float(v), float(e)) for v, e in zip(p.shares[:, j], p.share_error[:, j], strict=True)]
        shown.append((record_title(p) + where, number(float(p.sd_model[j] ** 2)), *said))
    columns = ("number", "variance", *(name for name, _ in _PARTS))
    if _one_model(panels):
        columns = (*columns[:3], *columns[4:])
        shown = [(*row[:3], *row[4:]) for row in shown]
    caption = (
        "Unbiased estimates, with standard errors over the draws: a small share may come out below zero."
    )
    return grid(columns, shown, name="variance", numbers=split_numbers(panels), caption=caption)


def _share(value: float, error: float) -> Cell:
    if math.isnan(value):
        return Cell("unknown")
    spread = f"± {100 * error:.1f}" if math.isfinite(error) else "± unknown"
    return number(value, f"{100 * value:.1f} {spread} %".replace("-", "−"))


def split_numbers(panels: Sequence[Panel]) -> Table:
    """Return variances, shares and their errors, a row per panel and abscissa."""
    kinds = ("variance", "its error", "share", "error of the share")
    columns = ("series", "label", "x", *(f"{name}: {kind}" for name, _ in _PARTS for kind in kinds))
    rows = tuple(
        (
            *(p.series, p.label, float(p.x[j])),
            *(
                float(a[k, j])
                for k in range(len(_PARTS))
                for a in (p.split, p.split_error, p.shares, p.share_error)
            ),
        )
        for p in panels
        for j in range(len(p.x))
    )
    return Table(columns, rows)


def _drawn(panel: Panel) -> Array:
    """Return shares of 100 to be drawn on each other, (3, m): none below zero."""
    parts = np.maximum(np.nan_to_num(panel.shares), 0.0)
    return np.asarray(100 * parts / np.maximum(parts.sum(axis=0), 1e-300))


def _along(
    panels: Sequence[Panel], draw: Callable[[Axes, Panel, NDArray[np.intp]], str], legend: float
) -> Figure:
    """Draw something along the abscissa of each panel; ``draw`` returns the title of the ordinate."""
    columns = min(2, len(panels))
    width, main = WIDTH / columns, 1.6
    inner, cell = width - 0.85, head_room(0) + main + 0.55
    figure = canvas(WIDTH, legend + cell * -(-len(panels) // columns))
    for k, panel in enumerate(panels):
        top = legend + (k // columns) * cell + head_room(0)
        ax = place(figure, (k % columns) * width + 0.7, top, inner, main)
        title = draw(ax, panel, np.argsort(panel.x, kind="stable"))
        ax.set_xlim(panel.x.min(), panel.x.max())
        label_axis(ax.yaxis, title, ticks=5)
        label_axis(ax.xaxis, panel.xlabel or "index", ticks=6, room=inner)
        heading(ax, shortened(record_title(panel), inner, 8.5))
    return figure


@styled
def variation_figure(panels: Sequence[Panel]) -> Figure:
    """Draw the coefficient of variation along the abscissa of each panel."""

    def draw(ax: Axes, panel: Panel, order: NDArray[np.intp]) -> str:
        cov = 100.0 * np.abs(panel.cov[order])
        ax.plot(panel.x[order], cov, color=POSTERIOR, lw=1.4)
        top = float(np.max(cov[np.isfinite(cov)], initial=0.0))
        ax.set_ylim(0.0, min(1.08 * top, _MOST) or 1.0)
        ax.grid(axis="y", color=PRIOR_FILL, lw=0.5)
        return "COV [%]"

    return _along(panels, draw, 0.1)


@styled
def shares_figure(panels: Sequence[Panel]) -> Figure:
    """Draw the shares along the abscissa of each panel, on each other."""

    def draw(ax: Axes, panel: Panel, order: NDArray[np.intp]) -> str:
        colours = [colour for _, colour in _PARTS]
        ax.stackplot(panel.x[order], _drawn(panel)[:, order], colors=colours, lw=0)
        ax.set_ylim(0, 100)
        return "variance [%]"

    figure = _along(panels, draw, 0.36)
    _legend(figure, panels)
    return figure


@styled
def bars_figure(panels: Sequence[Panel]) -> Figure:
    """Draw the shares of single numbers, a bar each."""
    row = 0.28
    figure = canvas(WIDTH, 0.4 + row * len(panels) + 0.5)
    ax = place(figure, 2.6, 0.4, WIDTH - 2.8, row * len(panels))
    for at, panel in enumerate(panels):
        _draw_bar(ax, at, _drawn(panel)[:, 0])
    ax.set_yticks(range(len(panels)), [fit(record_title(p), 2.4, 7.5) for p in panels])
    ax.set_ylim(len(panels) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(0, 100)
    label_axis(ax.xaxis, "variance [%]", ticks=6)
    _legend(figure, panels)
    return figure


def _draw_bar(ax: Axes, at: int, shares: Array) -> None:
    left = 0.0
    for (_, colour), share in zip(_PARTS, shares, strict=True):
        ax.barh(at, share, left=left, height=0.66, color=colour, lw=0)
        left += float(share)


def _parts(panels: Sequence[Panel]) -> list[tuple[str, str]]:
    """Return name and colour of the parts there are: one model is no choice, and one run a draw tells no noise."""
    parts = list(_PARTS)
    if all(np.isnan(panel.split[2]).all() for panel in panels):
        parts = [("parameters and run-to-run noise", PARAMETERS), parts[1]]
    if _one_model(panels):
        del parts[1]
    return parts


def _one_model(panels: Sequence[Panel]) -> bool:
    return all(len(panel.best_of) == 1 for panel in panels)


def _legend(figure: Figure, panels: Sequence[Panel]) -> None:
    handles = [Patch(color=colour, label=name) for name, colour in _parts(panels)]
    figure.legend(handles=handles, loc="upper left", ncols=3, handlelength=1.3, borderaxespad=0.1)
