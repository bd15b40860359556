"""What to measure next.

Possible experiments are ranked in a table. Those of a sweep make two pictures side by side, the expected
gain over the swept condition and the narrowing of each parameter: the first says where to measure, the second what
for. Single ones are bars, with a row of the narrowing of each parameter beside every bar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tamis.report.blocks import Block, Grid, Picture, Screen, Text, grid
from tamis.report.style import (
    COLOURS,
    INK,
    PARAMETERS,
    POSTERIOR,
    PRIOR_FILL,
    TOTAL,
    WIDTH,
    canvas,
    head_room,
    heading,
    label_axis,
    legend_row,
    limits,
    place,
    shortened,
    styled,
)
from tamis.report.tables import (
    Cell,
    count,
    percent,
    readable,
    with_error,
)
from tamis.space import Space
from tamis.types import Array, Table

if TYPE_CHECKING:
    from tamis.results.records import Candidate, Results

_LISTED = 20  # rows of the ranking shown
_NARROWED = 2  # parameters named in it
_FELT = 0.01  # narrowing from which a parameter is named or drawn
_SWEEPS = 4  # to a figure
_SINGLE = 30  # bars drawn, the best ones
_KEYS = 3  # of a legend in a row
_SHARE = LinearSegmentedColormap.from_list("narrowing", ["#ffffff", TOTAL, PARAMETERS])


def information_blocks(candidates: Sequence[Candidate], space: Space) -> list[Block]:
    """Rank possible experiments and draw what each is expected to teach."""
    if not candidates:
        return []
    ranked = sorted(candidates, key=lambda c: -c.gain)
    blocks: list[Block] = [Text(advice(ranked, space), lead=True)]
    sweeps: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        if candidate.xlabel:
            sweeps.setdefault(candidate.name, []).append(candidate)
    groups = [sorted(group, key=lambda c: c.x) for group in sweeps.values()]
    for k, start in enumerate(range(0, len(groups), _SWEEPS), start=1):
        some = groups[start : start + _SWEEPS]
        numbers = candidate_numbers([c for group in some for c in group], space)
        blocks.append(Picture(f"next-{k}", sweeps_figure(some, space), _SWEPT, {f"next-{k}": numbers}))
    single = [c for c in ranked if not c.xlabel]
    if single:
        numbers = candidate_numbers(single, space)
        caption = _SINGLES + (f" The best {_SINGLE} of {len(single)}." if len(single) > _SINGLE else "")
        figure = single_figure(single[:_SINGLE], space)
        blocks.append(Picture("next-single", figure, caption, {"next-single": numbers}))
    return [*blocks, ranking_grid(ranked, space)]


_SWEPT = (
    "Left: information that one more measurement is expected to add to the posterior, with 95 % intervals of the "
    "estimate. Right: share by which the standard deviation of each parameter is expected to fall."
)
_SINGLES = (
    "Information that each experiment is expected to add to the posterior, with 95 % intervals of the estimate, and "
    "the share by which the standard deviation of each parameter is expected to fall."
)


def candidate_title(candidate: Candidate) -> str:
    """Name a possible experiment and its conditions."""
    said = candidate.label in ("", candidate.name)
    return candidate.name if said else f"{candidate.name}, {readable(candidate.label)}"


def gained(candidate: Candidate) -> str:
    """Write an expected gain with its error, or as the bound that it is."""
    if candidate.at_least:
        return f"at least {candidate.gain:.2f}"
    return with_error(candidate.gain, candidate.error)


def advice(ranked: Sequence[Candidate], space: Space) -> str:
    """Say in a sentence which experiment is best and what it is good for."""
    best = ranked[0]
    text = f"Best: {candidate_title(best)}. It is expected to add {gained(best)} nats"
    narrowed = _narrowed(best, space)
    if narrowed:
        falls = " and ".join(f"of {name} by {percent(share)}" for name, share in narrowed)
        text += f" and to reduce the standard deviation {falls}"
    return f"{text}."


def _narrowed(candidate: Candidate, space: Space) -> list[tuple[str, float]]:
    """Return the parameters narrowed most, and by how much."""
    order = np.argsort(-candidate.narrowing, kind="stable")[:_NARROWED]
    shares = [(space.names[k], float(candidate.narrowing[k])) for k in order]
    return [(name, share) for name, share in shares if share >= _FELT]


def ranking_grid(ranked: Sequence[Candidate], space: Space) -> Grid:
    """Return the table of possible experiments, the best first."""
    failures = any(c.failed for c in ranked)
    shown = []
    for k, c in enumerate(ranked[:_LISTED], start=1):
        narrowing = ", ".join(f"{name} {percent(share)}" for name, share in _narrowed(c, space)) or "none"
        row = [count(k), c.name, readable(c.label), Cell(gained(c), c.gain), narrowing]
        shown.append([*row, count(c.failed)] if failures else row)
    titles = ["rank", "experiment", "conditions", "expected gain [nat]", "narrowed most"]
    caption = (
        "Expected information gain, ± its standard error; 1 nat leaves about a third of the plausible volume. "
        "Candidates share draws and errors, so that neighbours differ less by chance than their errors say."
    )
    if any(c.at_least for c in ranked):
        caption += (
            ' "At least": draws are too few to tell how much more, nor which of such candidates is best.'
        )
    if len(ranked) > _LISTED:
        caption += f" The best {_LISTED} of {len(ranked)}; the file lists all."
    columns = [*titles, "failed draws"] if failures else titles
    numbers = candidate_numbers(ranked, space)
    return grid(columns, shown, caption=caption, name="next-ranking", numbers=numbers)


def candidate_numbers(candidates: Sequence[Candidate], space: Space) -> Table:
    """Return every figure of possible experiments, a row each."""
    columns = ("experiment", "conditions", "along", "x", "gain", "error", "at least", "failed")
    rows = tuple(
        (c.name, c.label, c.xlabel, c.x, c.gain, c.error, c.at_least, c.failed, *map(float, c.narrowing))
        for c in candidates
    )
    return Table((*columns, *(f"narrowing {name}" for name in space.names)), rows)


def parameter_colours(candidates: Sequence[Candidate], space: Space) -> dict[int, str]:
    """Give the parameters that any experiment narrows noticeably a colour each, the first by name in the space."""
    most = np.max([c.narrowing for c in candidates], axis=0)
    felt = [int(k) for k in np.argsort(-most, kind="stable") if most[k] >= _FELT]
    return dict(zip(sorted(felt[: len(COLOURS)]), COLOURS, strict=False))


@styled
def sweeps_figure(groups: Sequence[Sequence[Candidate]], space: Space) -> Figure:
    """Draw sweeps, one a row: gain over the condition beside the narrowing of the parameters."""
    colours = parameter_colours([c for group in groups for c in group], space)
    width, main = WIDTH / 2, 1.75
    inner, head = width - 0.85, 0.14 + 0.18 * max(1, -(-len(colours) // _KEYS))
    cell = head_room(0) + main + 0.55
    figure = canvas(WIDTH, head + cell * len(groups))
    for k, group in enumerate(groups):
        top = head + k * cell + head_room(0)
        left = place(figure, 0.7, top, inner, main)
        right = place(figure, width + 0.7, top, inner, main)
        x = np.array([c.x for c in group])
        _draw_gain(left, x, group)
        _draw_narrowing(right, x, group, colours)
        heading(left, shortened(group[0].name, inner, 8.5))
        for ax in (left, right):
            ax.set_xlim(*limits([x], 0.02 if len(x) > 1 else 0.25))
            ax.yaxis.set_label_coords(-0.45 / inner, 0.5)
            label_axis(ax.xaxis, group[0].xlabel, ticks=6, room=inner)
    if colours:
        handles = [
            Line2D([], [], color=colour, label=shortened(space.names[k], 1.1, 8.0))
            for k, colour in colours.items()
        ]
        legend_row(figure, handles, _KEYS, (width + 0.6) / WIDTH)
    return figure


def _draw_gain(ax: Axes, x: Array, group: Sequence[Candidate]) -> None:
    gain, reach = _gains(group)
    ax.errorbar(
        x,
        gain,
        yerr=reach,
        color=POSTERIOR,
        lw=1.2,
        marker="o",
        ms=3.2,
        elinewidth=0.8,
        capsize=1.5,
        zorder=3,
    )
    best = int(np.argmax(gain))
    ax.plot(x[best], gain[best], ls="", marker="o", ms=7, mfc="none", mec=INK, mew=0.9, zorder=4)
    ax.set_ylim(0.0, 1.08 * max(float((gain + reach).max()), 1e-3))
    ax.grid(axis="y", color=PRIOR_FILL, lw=0.5)
    label_axis(ax.yaxis, "expected gain [nat]", ticks=5)


def _gains(group: Sequence[Candidate]) -> tuple[Array, Array]:
    """Return gains and half of their 95 % intervals."""
    return np.array([c.gain for c in group]), 1.96 * np.array([c.error for c in group])


def _draw_narrowing(ax: Axes, x: Array, group: Sequence[Candidate], colours: Mapping[int, str]) -> None:
    narrowing = 100.0 * np.array([c.narrowing for c in group])
    for k, colour in colours.items():
        ax.plot(x, narrowing[:, k], color=colour, lw=1.3, marker="o", ms=2.4, zorder=3)
    ax.set_ylim(min(0.0, float(narrowing.min())), 1.08 * max(float(narrowing.max()), 1.0))
    ax.grid(axis="y", color=PRIOR_FILL, lw=0.5)
    label_axis(ax.yaxis, "narrowing [%]", ticks=5)


@styled
def single_figure(ranked: Sequence[Candidate], space: Space) -> Figure:
    """Draw experiments of no sweep: a bar of the gain and a row of the narrowing of each parameter."""
    row, left, bars = 0.36, 2.4, 2.7
    start = left + bars + 0.3
    step = min(0.6, (WIDTH - start - 0.35) / space.dim)
    top = 0.25 + 0.05 * min(12, max(len(name) for name in space.names))
    height = row * len(ranked)
    figure = canvas(WIDTH, top + height + 0.5)
    ax = place(figure, left, top, bars, height)
    gain, reach = _gains(ranked)
    rows = np.arange(len(ranked))
    ax.barh(rows, gain, height=0.62, color=PARAMETERS)
    ax.errorbar(gain, rows, xerr=reach, ls="", color=POSTERIOR, elinewidth=1.0, capsize=2.0)
    ax.set_yticks(rows, [_two_lines(c, left - 0.1) for c in ranked])
    ax.set_ylim(len(ranked) - 0.5, -0.5)
    ax.set_xlim(0.0, 1.05 * max(float((gain + reach).max()), 1e-3))
    ax.tick_params(axis="y", length=0)
    label_axis(ax.xaxis, "expected gain [nat]", ticks=5)
    shares = place(figure, start, top, step * space.dim, height)
    _draw_shares(shares, np.array([c.narrowing for c in ranked]), space)
    return figure


def _two_lines(candidate: Candidate, room: float) -> str:
    words = dict.fromkeys((candidate.name, readable(candidate.label)))
    return "\n".join(shortened(text, room, 7.5) for text in words if text)


def _draw_shares(ax: Axes, narrowing: Array, space: Space) -> None:
    ax.imshow(narrowing, cmap=_SHARE, norm=Normalize(0.0, 1.0), aspect="auto", interpolation="nearest")
    for (r, c), value in np.ndenumerate(narrowing):
        if value >= _FELT:
            ax.text(c, r, f"{100 * value:.0f} %", ha="center", va="center", fontsize=7.0, color=INK)
    names = [shortened(name, 1.0, 7.5) for name in space.names]
    ax.set_xticks(range(space.dim), names, rotation=35, ha="left")
    ax.set_yticks([])
    ax.tick_params(length=0, labeltop=True, labelbottom=False)
    for side in ax.spines.values():
        side.set_visible(False)


def screen(results: Results) -> list[Block]:
    """Rank the experiments that might be done next."""
    return information_blocks(results.candidates or (), results.study.space)


SCREEN: Screen[Results] = Screen("next", "The next experiment", screen)
