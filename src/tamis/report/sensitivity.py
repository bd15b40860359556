"""Which parameters the variance of the answers comes from.

A few numbers get bars of first and total Sobol indices with their intervals; many numbers a matrix, since
forty panels cannot be compared. Along an abscissa the variance is split into areas, one for each set of
parameters that acts together; they add up to all of it, while total indices count an interaction once for
each of its members and cannot be stacked. An index says nothing where the answer hardly varies, so
the standard deviation stands above, on the same abscissa.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from tamis.report.blocks import Block, Grid, Heading, Picture, Text, grid
from tamis.report.style import (
    COLOURS,
    INK,
    MODELS,
    PRIOR,
    PRIOR_FILL,
    WIDTH,
    canvas,
    head_room,
    heading,
    label_axis,
    place,
    set_abscissa,
    shortened,
    styled,
)
from tamis.report.tables import Cell, number, plain, position, record_title, unit_of
from tamis.space import Space
from tamis.types import Array, Table

if TYPE_CHECKING:
    from tamis.results.records import Influence

Number = tuple["Influence", int]  # a record and a point of its abscissa
Subset = tuple[int, ...]

_SEPARATE = 6  # points of an abscissa up to which each is a number of its own
_BARS = 12  # numbers drawn with bars; more make a matrix
_AREAS = 6  # panels of areas in a figure
_VERTICES = 200
_KEYS = 4  # of a legend in a row
_LISTED = 60  # rows of the table shown
_FELT = 0.005  # share of the variance from which an influence is listed
_FIRST = MODELS[1]
_TOTAL = "#a9dccb"
_OTHER = "#ddd8cd"
_SHARE = LinearSegmentedColormap.from_list("share", ["#ffffff", _TOTAL, _FIRST])


def influence_blocks(influences: Sequence[Influence], space: Space) -> list[Block]:
    """Show Sobol indices of numbers and of signals, and other measures of influence beside them."""
    if not influences:
        return []
    blocks: list[Block] = [Heading("Where the variance comes from")]
    blocks += [Text(record.doubt) for record in influences if record.doubt]
    drawn = [i for i in influences if i.total.size]
    numbers = [(i, j) for i in drawn if len(i.x) <= _SEPARATE for j in range(len(i.x))]
    signals = [i for i in drawn if len(i.x) > _SEPARATE]
    if numbers:
        blocks.append(_numbers_picture(numbers, space))
    colours = palette(signals)
    for k, start in enumerate(range(0, len(signals), _AREAS), start=1):
        some = signals[start : start + _AREAS]
        caption = (
            "Where the variance over the prior comes from along the abscissa: areas are shares of the variance "
            f"due to these parameters together ({_sources(some)}); above, the standard deviation of the answer, "
            "which tells where the shares matter. Blank where the answer is constant."
        )
        key = f"influence-signals-{k}"
        files = {key: share_numbers(some, space, colours)}
        blocks.append(Picture(key, areas_figure(some, space, colours), caption, files))
    found = comparison_grid(influences, space)
    return [*blocks, found] if found.rows else blocks


def _numbers_picture(numbers: Sequence[Number], space: Space) -> Picture:
    files = {"influence-numbers": influence_numbers([i for i, j in numbers if j == 0], space)}
    sources = _sources([i for i, _ in numbers])
    if len(numbers) > _BARS:
        caption = (
            f"Total Sobol indices ({sources}): the share of the variance over the prior that a parameter has "
            "a part in. Blank: below 0.005, or constant."
        )
        return Picture("influence-numbers", matrix_figure(numbers, space), caption, files)
    caption = (
        f"Sobol indices ({sources}). First: the share of the variance over the prior that a parameter causes "
        "alone; total: with all interactions it takes part in. Whiskers span the 90 % interval."
    )
    return Picture("influence-numbers", bars_figure(numbers, space), caption, files)


def _sources(records: Sequence[Influence]) -> str:
    return " and ".join(dict.fromkeys(record.source for record in records))


def number_title(record: Influence, j: int) -> str:
    """Name a number by its observation and, if there are several, its place on the abscissa."""
    where = f", {position(record.xlabel, float(record.x[j]))}" if record.xlabel or len(record.x) > 1 else ""
    return record_title(record) + where


@styled
def bars_figure(numbers: Sequence[Number], space: Space) -> Figure:
    """Draw first and total indices with whiskers, a panel for each number and a row for each parameter."""
    columns = min(3, len(numbers))
    margin = 0.25 + min(1.6, 0.075 * max(len(name) for name in space.names))
    width = (WIDTH - margin) / 3
    side = max(0.7, 0.24 * space.dim)
    cell = head_room(1) + side + 0.25
    rows = -(-len(numbers) // columns)
    figure = canvas(WIDTH, 0.3 + rows * cell + 0.3)
    bands = [band for i, _ in numbers for band in (i.first_band, i.total_band)]
    low, high = _range(np.array([0.0, 1.0]), *bands)
    for k, (record, j) in enumerate(numbers):
        ax = place(
            figure,
            margin + (k % columns) * width,
            0.3 + (k // columns) * cell + head_room(1),
            width - 0.3,
            side,
        )
        _draw_bars(ax, record, j)
        ax.set_xlim(low, high + 0.01)
        ax.set_ylim(space.dim - 0.5, -0.5)
        names = (
            [shortened(name, margin - 0.1, 7.5) for name in space.names]
            if k % columns == 0
            else [""] * space.dim
        )
        ax.set_yticks(range(space.dim), names)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="x", color=PRIOR_FILL, lw=0.5)
        bottom = k + columns >= len(numbers)
        label_axis(ax.xaxis, "share of the variance" if bottom else "", ticks=3)
        spread = float(record.sd[j])
        note = f"sd {plain(spread)} {unit_of(record.ylabel).strip('[]')}".rstrip()
        known = np.isfinite(record.total[:, j]).any()
        heading(ax, shortened(number_title(record, j), width - 0.3, 8.5), note if known else "constant", 1)
    handles = [Patch(color=_FIRST, label="first"), Patch(color=_TOTAL, label="total")]
    figure.legend(handles=handles, loc="upper left", ncols=2, handlelength=1.3, borderaxespad=0.1)
    return figure


def _draw_bars(ax: Axes, record: Influence, j: int) -> None:
    rows = np.arange(len(record.total))
    pairs = (
        (record.first, record.first_band, _FIRST, -0.18),
        (record.total, record.total_band, _TOTAL, 0.18),
    )
    for values, band, colour, shift in pairs:
        ax.barh(rows + shift, values[:, j], height=0.34, color=colour)
        low, high = np.where(np.isfinite(values[:, j]), band[:, :, j], np.nan)
        ax.hlines(rows + shift, low, high, color=INK, lw=0.8)


@styled
def matrix_figure(numbers: Sequence[Number], space: Space) -> Figure:
    """Draw total indices as a matrix, a row for each number and a column for each parameter."""
    total = np.array([record.total[:, j] for record, j in numbers])
    left, row = 2.6, 0.21
    step = min(0.9, (WIDTH - left - 0.5) / space.dim)
    top = 0.2 + 0.05 * min(12, max(len(name) for name in space.names))
    figure = canvas(WIDTH, top + row * len(numbers) + 0.1)
    ax = place(figure, left, top, step * space.dim, row * len(numbers))
    ax.imshow(total, cmap=_SHARE, norm=Normalize(0.0, 1.0), aspect="auto", interpolation="nearest")
    for (r, c), value in np.ndenumerate(total):
        if math.isfinite(value) and value >= 0.005:
            ax.text(c, r, f"{value:.2f}", ha="center", va="center", fontsize=7.0, color=INK)
    ax.set_yticks(range(len(numbers)), [shortened(number_title(*n), left - 0.1, 7.5) for n in numbers])
    ax.set_xticks(
        range(space.dim), [shortened(name, 1.0, 7.5) for name in space.names], rotation=35, ha="left"
    )
    ax.tick_params(length=0, labeltop=True, labelbottom=False)
    for side in ax.spines.values():
        side.set_visible(False)
    return figure


def palette(records: Sequence[Influence]) -> dict[Subset, str]:
    """Give the sets of parameters with the largest shares of the variance in any panel a colour each."""
    weight: dict[Subset, float] = {}
    for record in records:
        parts = np.nansum(record.shares * record.sd**2, axis=1) / max(float(np.sum(record.sd**2)), 1e-300)
        for subset, share in zip(record.subsets, parts, strict=True):
            weight[subset] = max(weight.get(subset, 0.0), float(share))
    ranked = sorted(weight, key=lambda subset: -weight[subset])
    return dict(zip([s for s in ranked if weight[s] > 0.005], COLOURS, strict=False))


@styled
def areas_figure(records: Sequence[Influence], space: Space, colours: Mapping[Subset, str]) -> Figure:
    """Draw shares of the variance over an abscissa as stacked areas, each below its standard deviation."""
    handles = [
        Patch(color=colour, label=shortened(subset_name(subset, space), 1.7, 8.0))
        for subset, colour in colours.items()
    ]
    if any(_unnamed(record, colours) for record in records):
        handles.append(Patch(color=_OTHER, label="all others"))
    head = 0.18 + 0.18 * -(-len(handles) // _KEYS)
    columns = 1 if len(records) == 1 else 2
    width, main, strip = WIDTH / columns, 1.6, 0.4
    inner = width - 0.85
    cell = head_room(0) + strip + 0.16 + main + 0.5
    figure = canvas(WIDTH, head + cell * -(-len(records) // columns))
    for k, record in enumerate(records):
        left, top = (k % columns) * width + 0.7, head + (k // columns) * cell + head_room(0)
        x, order, xlabel = _abscissa(record)
        above = place(figure, left, top, inner, strip)
        _draw_sd(above, x, record, order)
        heading(above, shortened(record_title(record), inner, 8.5))
        ax = place(figure, left, top + strip + 0.16, inner, main)
        _draw_areas(ax, x, record, order, colours)
        ax.set_ylim(0.0, 1.0)
        label_axis(ax.yaxis, "share of the variance", ticks=4)
        for each in (above, ax):
            set_abscissa(each, [x], 0.0)
            each.yaxis.set_label_coords(-0.45 / inner, 0.5)
        label_axis(above.xaxis, "", ticks=6)
        above.tick_params(labelbottom=False)
        label_axis(ax.xaxis, xlabel, ticks=6, room=inner)
    options = {"handlelength": 1.2, "columnspacing": 1.2, "borderaxespad": 0.1}
    figure.legend(handles=handles, loc="upper left", ncols=_KEYS, **options)
    return figure


def _unnamed(record: Influence, colours: Mapping[Subset, str]) -> bool:
    """Tell whether a visible part of the variance has no colour of its own."""
    named = record.shares[[subset in colours for subset in record.subsets]].sum(axis=0)
    return bool((named < 0.995).any())


def _range(*values: Array) -> tuple[float, float]:
    known = np.concatenate([v[np.isfinite(v)] for v in values])
    return float(known.min()), float(known.max())


def _abscissa(record: Influence) -> tuple[Array, NDArray[np.intp], str]:
    """Return where to draw, which points, and a title; tests that share an abscissa stand side by side."""
    order = np.argsort(record.x, kind="stable")
    order = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), _VERTICES)).round().astype(int))]
    x = record.x[order]
    if (np.diff(x) == 0).any():
        return np.arange(len(x), dtype=float), order, f"index, in the order of {record.xlabel}"
    return x, order, record.xlabel or "index"


def _draw_sd(ax: Axes, x: Array, record: Influence, order: NDArray[np.intp]) -> None:
    sd = record.sd[order]
    ax.fill_between(x, sd, color=PRIOR_FILL, lw=0)
    ax.plot(x, sd, color=PRIOR, lw=1.0)
    ax.set_ylim(0.0, 1.15 * (float(np.nanmax(record.sd)) or 1.0))
    label_axis(ax.yaxis, f"sd {unit_of(record.ylabel)}".rstrip(), ticks=2)
    ax.yaxis.label.set_fontsize(7.0)


def _draw_areas(
    ax: Axes, x: Array, record: Influence, order: NDArray[np.intp], colours: Mapping[Subset, str]
) -> None:
    found = dict(zip(record.subsets, record.shares[:, order], strict=True))
    base = np.zeros(len(order))
    for subset, colour in colours.items():
        if subset in found:
            ax.fill_between(x, base, base + found[subset], color=colour, lw=0)
            base = base + found[subset]
    ax.fill_between(x, base, np.maximum(base, 1.0), color=_OTHER, lw=0)


def subset_name(subset: Subset, space: Space) -> str:
    """Name parameters that act together."""
    return " × ".join(space.names[i] for i in subset)


_COLUMNS = (
    "first",
    "first q05",
    "first q95",
    "total",
    "total q05",
    "total q95",
    "sampled first",
    "sampled total",
    "regression",
    "regression R2",
    "FOSM",
)


def _measures(record: Influence, d: int) -> Array:
    """Return all that is known of each parameter's influence, (columns, d, m); NaN for what is not."""
    arrays = (
        record.first,
        *record.first_band,
        record.total,
        *record.total_band,
        record.sampled_first,
        record.sampled_total,
        record.src,
        np.broadcast_to(record.src_r2, record.src.shape),
        record.fosm,
    )
    return np.stack([a if a.size else np.full((d, len(record.x)), np.nan) for a in arrays])


def influence_numbers(influences: Sequence[Influence], space: Space) -> Table:
    """Return every measure of influence, a row for each observation, point of its abscissa and parameter."""
    rows: list[tuple[Any, ...]] = []
    for record in influences:
        known = _measures(record, space.dim).T.tolist()  # (m, d, columns)
        for x, at in zip(record.x.tolist(), known, strict=True):
            pairs = zip(space.names, at, strict=True)
            rows += [(record.series, record.label, x, name, *values) for name, values in pairs]
    return Table(("test", "observed", "x", "parameter", *_COLUMNS), tuple(rows))


def share_numbers(influences: Sequence[Influence], space: Space, colours: Mapping[Subset, str]) -> Table:
    """Return the standard deviation and the areas that were drawn, a row for each point of the abscissa."""
    rows: list[tuple[Any, ...]] = []
    for record in influences:
        found = dict(zip(record.subsets, record.shares, strict=True))
        nothing = np.where(np.isfinite(record.shares).all(axis=0), 0.0, np.nan)
        named = [found.get(subset, nothing) for subset in colours]
        columns = (record.x, record.sd, *named, 1.0 - np.sum([nothing, *named], axis=0))
        rows += [(record.series, record.label, *map(float, row)) for row in zip(*columns, strict=True)]
    names = (subset_name(subset, space) for subset in colours)
    return Table(("test", "observed", "x", "sd", *names, "all others"), tuple(rows))


def comparison_grid(influences: Sequence[Influence], space: Space) -> Grid:
    """Return the measures of influence side by side; of a signal, where it varies most."""
    rows = []
    for record in influences:
        points = (
            range(len(record.x)) if len(record.x) <= _SEPARATE else [int(np.argmax(np.nan_to_num(record.sd)))]
        )
        measures = _measures(record, space.dim)
        for j in points:
            for i, name in enumerate(space.names):
                known = dict(zip(_COLUMNS, measures[:, i, j].tolist(), strict=True))
                rows.append(((number_title(record, j), name), known))
    caption = (
        "First and total: Sobol indices, shares of the variance."
        if any(i.first.size for i in influences)
        else ""
    )
    if any(len(i.src) for i in influences):
        caption += (
            " SRC: standardised regression coefficient, with the share R2 that the regression explains."
        )
    if any(len(i.fosm) for i in influences):
        caption += (
            " FOSM: importance factor at the mean. Such factors carry the sign of the effect; their squares "
        )
        caption += "are shares of the variance."
    if any(len(i.x) > _SEPARATE for i in influences):
        caption += " Of a signal, where its standard deviation is largest."
    ranked = sorted(range(len(rows)), key=lambda k: -_strength(rows[k][1]))
    kept = sorted(k for k in ranked[:_LISTED] if _strength(rows[k][1]) >= _FELT)
    if len(kept) < len(rows):
        caption += f" The {len(kept)} strongest of {len(rows)} influences; the file lists all."
    rows = [rows[k] for k in kept]
    shown = {
        title: cell for title, cell in _SHOWN.items() if any(cell(known).text != "–" for _, known in rows)
    }
    return grid(
        ("observation", "parameter", *shown),
        [(*words, *(cell(known) for cell in shown.values())) for words, known in rows],
        name="influence",
        numbers=influence_numbers(influences, space),
        caption=caption,
    )


def _strength(known: Mapping[str, float]) -> float:
    sizes = [known["total"], known["sampled total"], known["regression"] ** 2, known["FOSM"] ** 2]
    return next((size for size in sizes if math.isfinite(size)), 0.0)


def _index(name: str) -> Callable[[Mapping[str, float]], Cell]:
    return lambda known: number(known[name], decimal(known[name]))


def _interval(known: Mapping[str, float]) -> Cell:
    low, high = known["total q05"], known["total q95"]
    return number(low, "–" if math.isnan(low) else f"{decimal(low)} to {decimal(high)}")


_SHOWN: Mapping[str, Callable[[Mapping[str, float]], Cell]] = {
    "first": _index("first"),
    "total": _index("total"),
    "90 % of total": _interval,
    "sampled total": _index("sampled total"),
    "SRC": _index("regression"),
    "R2": _index("regression R2"),
    "FOSM": _index("FOSM"),
}


def decimal(value: float) -> str:
    """Write an index or a coefficient, in three decimals."""
    return "–" if math.isnan(value) else f"{value:.3f}".replace("-", "−")
