"""A split study: what each part of the data says of the parameters, and how well it predicts the other parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from tamis.report.blocks import Block, Grid, Heading, Links, Picture, grid
from tamis.report.decades import along, label_parameter, seen
from tamis.report.parameters import prior_range
from tamis.report.style import (
    DATA,
    FAILURE,
    INK,
    POSTERIOR,
    PRIOR_FILL,
    WIDTH,
    canvas,
    fit,
    place,
    shortened,
    styled,
)
from tamis.report.tables import Cell, with_interval
from tamis.space import Parameter
from tamis.types import Array, Table

if TYPE_CHECKING:
    from tamis.results.records import Results

_NAMES = 1.75  # inches for the names of parts
_ROW = 0.2  # inches a part
_COVERED = LinearSegmentedColormap.from_list("covered", ["#f4c7a1", "#f5f1e6", "#cfe2f3", "#6fa8dc"])


def part_blocks(parts: Sequence[Results]) -> list[Block]:
    """Return the table and the figures across parts, and links to the report of each."""
    known = [part for part in parts if part.posterior is not None]
    if not known:
        return []
    blocks: list[Block] = [_estimates(known)]
    caption = (
        "Each row one part of the data, calibrated alone on the same runs. Thick bars: 50 %, thin ones: 90 % "
        "intervals; dot: median; diamond: point of highest density. Grey: 90 % of the prior. Bars that do not overlap "
        "say that the parts ask for different values: the model cannot follow both, or their errors were taken too "
        "small."
    )
    blocks.append(Picture("parts", forest_figure(known), caption, {"parts": _numbers(known)}))
    matrix, seen = coverage(known)
    if matrix.size:
        caption = (
            "Share of the measurements inside the 90 % band. Rows: what the model was calibrated on (framed: its own "
            "data). Columns: what it predicts."
        )
        table = Table(
            ("calibrated on", *seen),
            tuple((p.study.part, *map(float, row)) for p, row in zip(known, matrix, strict=True)),
        )
        names = [part.study.part for part in known]
        blocks.append(Heading("What each part says of the others"))
        own = [[_is_own(part, column) for column in seen] for part in known]
        picture = coverage_figure(names, seen, matrix, np.array(own))
        blocks.append(Picture("parts-coverage", picture, caption, {"parts-coverage": table}))
    folders = [(part.study.part, f"{part.folder.name}/report.html") for part in known]
    blocks += [Heading("The report of each part"), Links(tuple(folders))]
    return blocks


def shared_parameters(parts: Sequence[Results]) -> list[Parameter]:
    """Return the parameters of all parts, those that every part has first."""
    spaces = [part.study.space for part in parts]
    found = {p.name: p for space in spaces for p in space.parameters}
    common = [name for name in found if all(name in space.names for space in spaces)]
    return [found[name] for name in (*common, *(name for name in found if name not in common))]


def _estimates(parts: Sequence[Results]) -> Grid:
    """Return medians, a row for each parameter and a column for each part."""
    parameters = shared_parameters(parts)
    known = {part.study.part: _by_name(part) for part in parts}
    rows = []
    for parameter in parameters:
        cells: list[Cell | str] = []
        for found in known.values():
            if parameter.name not in found:
                cells.append("")
                continue
            row = found[parameter.name]
            median, _ = with_interval(row["median"], row["q05"], row["q95"])
            cells.append(Cell(median, row["median"]))
        rows.append((parameter.title, *cells))
    return grid(
        ("median, calibrated on", *known),
        rows,
        name="part-estimates",
        numbers=_numbers(parts),
        caption="Intervals are drawn below; the file has them too, with means and points of highest density.",
    )


def _by_name(part: Results) -> dict[str, dict[str, Any]]:
    assert part.posterior is not None
    table = part.posterior.summary()
    return {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}


def _numbers(parts: Sequence[Results]) -> Table:
    columns: tuple[str, ...] = ()
    rows: list[tuple[object, ...]] = []
    for part in parts:
        assert part.posterior is not None
        table = part.posterior.summary()
        columns = ("part", *table.columns)
        rows += [(part.study.part, *row) for row in table.rows]
    return Table(columns, tuple(rows))


@styled
def forest_figure(parts: Sequence[Results]) -> Figure:
    """Draw every parameter's intervals, a row for each part."""
    parameters = shared_parameters(parts)
    columns = min(3, len(parameters))
    height = max(0.5, _ROW * len(parts))
    cell = height + 0.85
    figure = canvas(WIDTH, 0.3 + cell * -(-len(parameters) // columns))
    width = (WIDTH - _NAMES) / columns
    for k, parameter in enumerate(parameters):
        ax = place(
            figure, _NAMES + (k % columns) * width + 0.05, 0.42 + (k // columns) * cell, width - 0.3, height
        )
        _forest(ax, parts, parameter, named=k % columns == 0)
    handles = [
        Line2D([], [], color=POSTERIOR, marker="o", ms=4, lw=3.5, label="median, 50 %"),
        Line2D([], [], color=POSTERIOR, lw=1.2, label="90 %"),
        Line2D([], [], color=DATA, marker="D", ms=3.5, ls="", mfc="none", label="highest density"),
        Line2D([], [], color=PRIOR_FILL, lw=6, label="90 % of the prior"),
    ]
    figure.legend(handles=handles, loc="upper left", ncols=4, borderaxespad=0.1)
    return figure


def _forest(ax: Axes, parts: Sequence[Results], parameter: Parameter, *, named: bool) -> None:
    parameter = seen(parameter)
    low, high = (float(v) for v in np.ravel(parameter.prior.ppf(np.array([0.05, 0.95]))))
    ax.axvspan(low, high, color=PRIOR_FILL, lw=0)
    for i, part in enumerate(parts):
        posterior = part.posterior
        assert posterior is not None
        if parameter.name not in posterior.space.names:
            continue
        column = posterior.space.index(parameter.name)
        q = np.quantile(along(parameter, posterior.flat[:, column]), (0.05, 0.25, 0.5, 0.75, 0.95))
        ax.plot(q[[0, 4]], [i, i], color=POSTERIOR, lw=1.2, solid_capstyle="butt")
        ax.plot(q[[1, 3]], [i, i], color=POSTERIOR, lw=3.5, solid_capstyle="butt")
        ax.plot(q[2], i, color=POSTERIOR, marker="o", ms=4)
        ax.plot(
            along(parameter, posterior.best()[column]), i, color=DATA, marker="D", ms=3.5, mfc="none", mew=0.9
        )
    ax.set_ylim(len(parts) - 0.5, -0.5)
    ax.set_yticks(range(len(parts)))
    names = [shortened(part.study.part, _NAMES - 0.15, 7.5) for part in parts]
    ax.set_yticklabels(names if named else [])
    ax.set_xlim(*prior_range(parameter))
    label_parameter(ax.xaxis, parameter, ticks=4, room=1.9)


def coverage(parts: Sequence[Results]) -> tuple[Array, list[str]]:
    """Return the share of measurements inside the 90 % band, (parts, series), and what the columns are called."""
    seen = list(
        dict.fromkeys(
            panel.series for part in parts for panel in part.panels or () if np.isfinite(panel.coverage)
        )
    )
    matrix = np.full((len(parts), len(seen)), np.nan)
    for i, part in enumerate(parts):
        for j, series in enumerate(seen):
            mine = [p for p in part.panels or () if p.series == series and np.isfinite(p.coverage)]
            counts = [int(np.isfinite(p.y).sum()) for p in mine]
            if sum(counts):
                inside = sum(p.coverage * n for p, n in zip(mine, counts, strict=True))
                matrix[i, j] = inside / sum(counts)
    return matrix, seen


def _is_own(part: Results, series: str) -> bool:
    return any(one.name == series and one.use == "calibrate" for one in part.study.series)


@styled
def coverage_figure(names: Sequence[str], seen: Sequence[str], matrix: Array, own: Array) -> Figure:
    """Draw how much of each series lies inside the bands of each part's calibration."""
    cell = min(0.75, (WIDTH - _NAMES - 0.2) / len(seen))
    width, height = cell * len(seen), 0.28 * len(names)
    longest = max(len(name) for name in seen)
    foot = min(1.6, 0.2 + 0.065 * longest)
    figure = canvas(WIDTH, 0.15 + height + foot)
    ax = place(figure, _NAMES, 0.1, width, height)
    ax.imshow(matrix, cmap=_COVERED, vmin=0, vmax=1, aspect="auto")
    for i, row in enumerate(matrix):
        for j, share in enumerate(row):
            if np.isfinite(share):
                colour = FAILURE if share < 0.5 else INK
                ax.text(j, i, f"{share:.0%}", ha="center", va="center", fontsize=7, color=colour)
            if own[i, j]:
                frame = Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, edgecolor=DATA, lw=1.2)
                ax.add_patch(frame)
    ax.set_yticks(range(len(names)))
    ax.set_yticklabels([shortened(name, _NAMES - 0.15, 7.5) for name in names])
    ax.set_xticks(range(len(seen)))
    ax.set_xticklabels(
        [fit(name, foot - 0.1, 7.5) for name in seen], rotation=40, ha="right", rotation_mode="anchor"
    )
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
    return figure
