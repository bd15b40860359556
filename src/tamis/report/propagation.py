"""What the uncertain parameters make of predicted numbers: their moments, their law, and when to stop drawing.

Two pictures a number. The probability plot sets the ordered answers against quantiles of fitted laws: a law
fits where its dots follow the diagonal, and the tails, which a histogram hides, stand apart at the ends. The
running mean is drawn with its 95 % interval and the tolerance: drawing may stop when the
interval lies between the dashed lines. The tables hold cheaper answers beside these, first-order second-moment
(FOSM) and response surfaces.
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
    FAILURE,
    FAINT,
    PARAMETERS,
    POSTERIOR,
    PRIOR,
    PRIOR_FILL,
    WIDTH,
    canvas,
    head_room,
    heading,
    label_axis,
    limits,
    note_lines,
    place,
    shortened,
    styled,
)
from tamis.report.tables import Cell, count, number, percent, plain, record_title, unit_of, with_error
from tamis.space import Space
from tamis.types import Table

if TYPE_CHECKING:
    from tamis.results.records import Propagation

PER_FIGURE = 6
DRAWN = 12  # numbers drawn; tables and files hold all
_LAWS = 3  # drawn, the best ones
_DOTS = 100  # of a probability plot, and the outermost ones
_TAIL = 10
_DASHED: dict[str, Any] = {"lw": 0.8, "ls": (0, (4, 2))}
_RED = "rgba(198, 40, 40, 0.18)"


def propagation_blocks(propagations: Sequence[Propagation], space: Space) -> list[Block]:
    """Show laws and convergence of predicted numbers, and tables of moments, fits and cheaper methods."""
    if not propagations:
        return []
    blocks: list[Block] = [Heading("Propagation")]
    ranked = sorted(propagations, key=lambda p: p.converged)[:DRAWN]
    for k, start in enumerate(range(0, len(ranked), PER_FIGURE), start=1):
        some = ranked[start : start + PER_FIGURE]
        caption = f"{_CAPTION} {remarks(propagations)}"
        if len(propagations) > DRAWN:
            caption += f" {DRAWN} of {len(propagations)} numbers, those that did not converge first."
        key = f"propagation-{k}"
        files = {f"{key}-laws": dot_numbers(some), f"{key}-means": mean_numbers(some)}
        blocks.append(Picture(key, propagation_figure(some), caption, files))
    blocks.append(moment_grid(propagations))
    if any(p.laws for p in propagations):
        blocks.append(law_grid(propagations))
    if any(p.surface.size for p in propagations):
        blocks.append(surface_grid(propagations))
    if any(p.fosm_importance.size for p in propagations):
        blocks.append(importance_grid(propagations, space))
    return blocks


_CAPTION = (
    "Left: ordered answers against quantiles of fitted laws; a law fits where its dots follow the line. Right: "
    "running mean of the answers with its 95 % interval; dashed, the tolerance around the last mean, a share of"
    " the mean or of the standard deviation, whichever is larger."
)


def remarks(propagations: Sequence[Propagation]) -> str:
    """Say what a reader must know of the draws: not converged, emulated, failed."""
    loose = [number_title(p) for p in propagations if not p.converged]
    emulated = sum(p.emulated for p in propagations)
    failed = max(p.failed for p in propagations)
    said = []
    if loose:
        more = f" and {len(loose) - 4} more" if len(loose) > 4 else ""
        said.append(f"Not converged to the tolerance: {'; '.join(loose[:4])}{more}.")
    if emulated:
        all_of_them = emulated == len(propagations)
        which = (
            "All values come" if all_of_them else f"Values of {emulated} of {len(propagations)} numbers come"
        )
        said.append(f"{which} from the surrogate, not from the simulator.")
    said.append(f"At most {failed} draws of a number failed." if failed else "No draw failed.")
    said.append("The draws are others than those of the predictions; the two differ by chance.")
    return " ".join(said)


def number_title(p: Propagation) -> str:
    """Name a predicted number, with its place on the abscissa."""
    return f"{record_title(p)}, {p.at}" if p.at else record_title(p)


def number_note(p: Propagation) -> str:
    """Say in a few words how often it was drawn, from what, and how that went."""
    notes = [f"{count(len(p.values)).text} draws of the {p.source}"]
    if p.emulated:
        notes.append("by the surrogate")
    if p.failed:
        notes.append(f"{p.failed} failed")
    if not p.converged:
        notes.append(f"not converged to {percent(p.tolerance)}".replace("\u00a0", " "))
    return ", ".join(notes)


@styled
def propagation_figure(propagations: Sequence[Propagation]) -> Figure:
    """Draw numbers, two a row: probability plot beside the running mean."""
    width, side, wide = WIDTH / 2, 1.5, 1.5
    lines = note_lines([number_note(p) for p in propagations], side + 0.65 + wide)
    cell = head_room(lines) + side + 0.5
    figure = canvas(WIDTH, 0.36 + cell * -(-len(propagations) // 2))
    colours = law_colours(propagations)
    for k, p in enumerate(propagations):
        left, top = (k % 2) * width + 0.62, 0.36 + (k // 2) * cell + head_room(lines)
        _draw_laws(place(figure, left, top, side, side), p, colours)
        _draw_mean(place(figure, left + side + 0.65, top, wide, side), p)
        frame = place(figure, left, top, side + 0.65 + wide, side)
        frame.set_axis_off()
        heading(frame, shortened(number_title(p), side + 0.65 + wide, 8.5), number_note(p), lines)
        for text in frame.texts[1:]:
            text.set_color(FAINT if p.converged else FAILURE)
    handles: list[Line2D | Patch] = [
        Line2D([], [], ls="", marker="o", ms=3.5, color=colour, label=law) for law, colour in colours.items()
    ]
    for source, line, fill in _sources(propagations):
        handles.append(Patch(facecolor=fill, edgecolor=line, label=f"mean over the {source}, 95 %"))
    handles.append(Line2D([], [], color=FAINT, label="tolerance", **_DASHED))
    figure.legend(handles=handles, loc="upper left", ncols=len(handles), handlelength=1.2, borderaxespad=0.1)
    return figure


def _sources(propagations: Sequence[Propagation]) -> list[tuple[str, str, str]]:
    shades = (("prior", PRIOR, PRIOR_FILL), ("posterior", POSTERIOR, PARAMETERS))
    return [shade for shade in shades if any(p.source == shade[0] for p in propagations)]


def law_colours(propagations: Sequence[Propagation]) -> dict[str, str]:
    """Give each law that is drawn a colour, the same in every panel of a figure."""
    laws = dict.fromkeys(law for p in propagations for law in p.laws[:_LAWS])
    return dict(zip(laws, COLOURS, strict=False))


def _thinned(n: int) -> NDArray[np.intp]:
    """Return which of n ordered dots to draw: evenly spread ones, and every one of the tails."""
    even = np.linspace(0, n - 1, min(n, _DOTS)).round().astype(np.intp)
    return np.unique(np.concatenate([even, np.arange(min(n, _TAIL)), np.arange(max(n - _TAIL, 0), n)]))


def _draw_laws(ax: Axes, p: Propagation, colours: dict[str, str]) -> None:
    values = np.sort(p.values)
    some = _thinned(len(values))
    span = limits([values, *p.law_quantiles[:1]])
    ax.plot(span, span, color=FAINT, lw=0.7, zorder=1)
    for k in reversed(range(min(len(p.laws), _LAWS))):  # the best one on top
        x = p.law_quantiles[k, some]
        ax.plot(
            x, values[some], ls="", marker="o", ms=2.4, mew=0, color=colours[p.laws[k]], zorder=4 - 0.5 * k
        )
    ax.set_xlim(*span)
    ax.set_ylim(*span)
    unit = unit_of(p.ylabel)
    label_axis(ax.xaxis, f"law's quantile {unit}".rstrip(), ticks=4)
    label_axis(ax.yaxis, f"drawn {unit}".rstrip(), ticks=4)


def _draw_mean(ax: Axes, p: Propagation) -> None:
    _, line, fill = _sources([p])[0]
    last = float(p.means[-1])
    reach = p.tolerance * max(abs(last), float(p.moments[1]))
    for level in (last - reach, last + reach):
        ax.axhline(level, color=FAINT, **_DASHED)
    mark = "o" if len(p.steps) <= 20 else ""
    ax.fill_between(p.steps, p.means - p.errors, p.means + p.errors, color=fill, lw=0, zorder=1)
    ax.plot(p.steps, p.means, color=line, lw=1.2, marker=mark, ms=2.5, zorder=2)
    ax.set_xlim(0, 1.03 * float(p.steps[-1]))
    ax.set_ylim(*limits([p.means - p.errors, p.means + p.errors, np.array([last - reach, last + reach])]))
    label_axis(ax.xaxis, "draws", ticks=3)
    label_axis(ax.yaxis, f"mean {unit_of(p.ylabel)}".rstrip(), ticks=4)


def moment_grid(propagations: Sequence[Propagation]) -> Grid:
    """Return the table of moments, by Monte Carlo and by FOSM."""
    rows, shown = [], []
    linear = any(p.fosm.size for p in propagations)
    for p in propagations:
        mean, sd, skewness, kurtosis = map(float, p.moments)
        error = float(p.errors[-1])
        fosm = tuple(map(float, p.fosm)) if p.fosm.size else (math.nan, math.nan)
        rows.append(
            (*_words(p), len(p.values), p.failed, p.converged, mean, error, sd, skewness, kurtosis, *fosm)
        )
        cells = [
            number_title(p),
            unit_of(p.ylabel).strip("[]"),
            count(len(p.values)),
            Cell(with_error(mean, error), mean, "" if p.converged else _RED),
            number(sd, plain(sd)),
            number(skewness, plain(skewness, 2)),
            number(kurtosis, plain(kurtosis, 2)),
        ]
        shown.append(cells + ([number(v, plain(v)) for v in fosm] if linear else []))
    titles: tuple[str, ...] = ("number", "unit", "draws", "mean ± 95 %", "sd", "skewness", "excess kurtosis")
    titles += ("FOSM mean", "FOSM sd") if linear else ()
    columns = (
        *_WORDS,
        "draws",
        "failed",
        "converged",
        "mean",
        "error 95 %",
        "sd",
        "skewness",
        "excess kurtosis",
    )
    caption = (
        "" if all(p.converged for p in propagations) else "Red: the mean is not yet known to the tolerance."
    )
    numbers = Table((*columns, "FOSM mean", "FOSM sd"), tuple(rows))
    return grid(titles, shown, name="propagation-moments", numbers=numbers, caption=caption)


_WORDS = ("series", "label", "at", "source")


def _words(p: Propagation) -> tuple[str, str, str, str]:
    return p.series, p.label, p.at, p.source


def law_grid(propagations: Sequence[Propagation]) -> Grid:
    """Return the table of fitted laws, the best first."""
    rows = [
        (*_words(p), law, said, *map(float, scores))
        for p in propagations
        for law, said, scores in zip(p.laws, p.law_parameters, p.law_scores, strict=True)
    ]
    shown = [
        (
            number_title(p),
            law,
            said,
            number(float(likely), f"{likely:.1f}".replace("-", "−")),
            number(float(apart)),
        )
        for p in propagations
        for law, said, (likely, apart) in list(zip(p.laws, p.law_parameters, p.law_scores, strict=True))[
            :_LAWS
        ]
    ]
    titles = ("number", "law", "parameters", "log-likelihood", "distance")
    caption = "Laws fitted to the answers, the best first; distance: Kolmogorov and Smirnov's, the smaller the better."
    if any(len(p.laws) > _LAWS for p in propagations):
        caption += f" The best {_LAWS}; the file lists all."
    columns = (*_WORDS, "law", "parameters", "log-likelihood", "Kolmogorov-Smirnov distance")
    return grid(titles, shown, name="propagation-laws", numbers=Table(columns, tuple(rows)), caption=caption)


def surface_grid(propagations: Sequence[Propagation]) -> Grid:
    """Return how well second-order polynomials give the answers, without and with interactions."""
    rows = [(*_words(p), *map(float, p.surface.ravel())) for p in propagations if p.surface.size]
    shown = [
        (number_title(p), *(number(float(v), f"{v:.4f}".replace("-", "−")) for v in p.surface.ravel()))
        for p in propagations
        if p.surface.size
    ]
    said = ("R2", "adjusted R2", "R2 with interactions", "adjusted R2 with interactions")
    caption = "Second-order response surfaces of the draws."
    numbers = Table((*_WORDS, *said), tuple(rows))
    return grid(("number", *said), shown, name="propagation-surfaces", numbers=numbers, caption=caption)


def importance_grid(propagations: Sequence[Propagation], space: Space) -> Grid:
    """Return the signed importance of each parameter by FOSM."""
    known = [p for p in propagations if p.fosm_importance.size]
    rows = [(*_words(p), *map(float, p.fosm_importance)) for p in known]
    shown = [
        (number_title(p), *(number(float(v), f"{v:.2f}".replace("-", "−")) for v in p.fosm_importance))
        for p in known
    ]
    caption = "Importance of each parameter by FOSM, with the sign of its effect; the squares add up to 1."
    numbers = Table((*_WORDS, *space.names), tuple(rows))
    return grid(("number", *space.names), shown, name="propagation-fosm", numbers=numbers, caption=caption)


def dot_numbers(propagations: Sequence[Propagation]) -> Table:
    """Return the dots of the probability plots: rank among the ordered answers, answer, quantile of the law."""
    rows: list[tuple[object, ...]] = []
    for p in propagations:
        some = _thinned(len(p.values))
        values = np.sort(p.values)[some]
        for law, quantiles in zip(p.laws[:_LAWS], p.law_quantiles, strict=False):
            dots = zip(some + 1, values, quantiles[some], strict=True)
            rows += [(*_words(p), law, int(rank), float(y), float(x)) for rank, y, x in dots]
    return Table((*_WORDS, "law", "rank", "value", "quantile"), tuple(rows))


def mean_numbers(propagations: Sequence[Propagation]) -> Table:
    """Return the running means and their errors."""
    rows = tuple(
        (*_words(p), int(n), float(mean), float(error))
        for p in propagations
        for n, mean, error in zip(p.steps, p.means, p.errors, strict=True)
    )
    return Table((*_WORDS, "draws", "mean", "error 95 %"), rows)
