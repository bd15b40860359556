"""One look for every figure: palette, sizes, axis titles with the power of ten, SVG fit to share a page.

Figures are laid out by hand, in inches from the top left corner: automatic layouts draw everything twice
and move things about, while a report wants the same place for the same thing. Text stays text in the SVG;
it is laid out with the wide font that matplotlib ships and shown with the reader's own sans-serif, which is
narrower, so nothing comes to overlap. Labels are plain Unicode: a dollar sign is a dollar sign.
"""

from __future__ import annotations

import io
import math
import os
import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import Formatter, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from tamis.errors import StudyError
from tamis.files import replacing
from tamis.types import Array

SUFFIXES = (".png", ".svg", ".pdf")  # of figures by themselves

P = ParamSpec("P")
T = TypeVar("T")

PRIOR = "#9aa0a8"
PRIOR_FILL = "#e3e5e8"
POSTERIOR = "#0b5394"
PARAMETERS = "#6fa8dc"  # band of parameter uncertainty
TOTAL = "#cfe2f3"  # band of total uncertainty
DATA = "#111111"
HELD_OUT = "#e07b00"
FAILURE = "#c62828"
INK = "#24292f"
FAINT = "#6b737c"
MODELS = (
    "#0b5394",
    "#009e73",
    "#aa4499",
    "#56b4e9",
    "#7a6a00",
    "#332288",
)  # one colour a model, reserved ones left out
COLOURS = (*MODELS[1:], MODELS[0])  # for anything but models: the posterior's blue comes last

WIDTH = 8.8  # inches; what the page's text column holds at natural size
_POINTS = 220  # an inch, of what is kept as points within an SVG
FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"

_RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8.0,
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": "#8a9199",
    "axes.labelcolor": INK,
    "axes.labelsize": 8.0,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": "#8a9199",
    "ytick.color": "#8a9199",
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.3,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "figure.dpi": 144.0,
    "path.simplify": True,
}


_SETTINGS: Any = {
    **{key: value for key, value in matplotlib.rcParamsDefault.items() if not key.startswith("backend")},
    **_RC,
}


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Draw in the house style whatever the caller's settings are."""
    wrapped: Callable[P, T] = matplotlib.rc_context(_SETTINGS)(draw)
    return wrapped


def canvas(width: float, height: float) -> Figure:
    """Return an empty figure, sizes in inches."""
    return Figure(figsize=(width, height), facecolor="none")


def place(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Add axes by the inches of their box from the figure's top left corner."""
    w, h = figure.get_size_inches()
    return figure.add_axes((left / w, 1.0 - (top + height) / h, width / w, height / h), facecolor="none")


def heading(ax: Axes, title: str, note: str = "", lines: int = 0) -> None:
    """Write a bold title and grey notes above axes, within their width.

    ``lines`` is the room of neighbours' notes, so that titles of one row stand at one height.
    """
    width = box(ax)[0]
    notes = _wrapped(note, width)
    lines = max(lines, len(notes))
    where: dict[str, Any] = {
        "xycoords": "axes fraction",
        "textcoords": "offset points",
        "annotation_clip": False,
    }
    ax.annotate(fit(title, width, 8.5), (0, 1), (0, 4 + 9 * lines), fontsize=8.5, fontweight="bold", **where)
    for k, line in enumerate(notes, start=1):
        ax.annotate(line, (0, 1), (0, 4 + 9 * (lines - k)), fontsize=7.0, color=FAINT, **where)


def note_lines(notes: Sequence[str], width: float) -> int:
    """Return how many lines the longest of some notes takes above axes of a width."""
    return max((len(_wrapped(note, width)) for note in notes), default=0)


def head_room(lines: int) -> float:
    """Return the inches that a title and some lines of notes take above axes."""
    return 0.24 + 0.125 * lines


def _wrapped(note: str, width: float) -> list[str]:
    return textwrap.wrap(note, letters(width, 7.0), max_lines=2, placeholder=" …")


def box(ax: Axes) -> tuple[float, float]:
    """Return width and height of axes in inches."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    size = figure.get_size_inches() * ax.get_position().size
    return float(size[0]), float(size[1])


def fit(text: str, inches: float, size: float) -> str:
    """Cut a text to a width, with an ellipsis."""
    room = letters(inches, size)
    return text if len(text) <= room else text[: room - 1].rstrip() + "…"


def shortened(text: str, inches: float, size: float) -> str:
    """Cut a text to a width in its middle: long names often differ in their last letters only."""
    room = letters(inches, size)
    return text if len(text) <= room else f"{text[: room - room // 2 - 1]}…{text[-(room // 2) :]}"


def letters(inches: float, size: float) -> int:
    """Return how many letters of a size go into a width."""
    return max(8, int(inches * 72 / (0.58 * size)))


def superscript(n: int) -> str:
    """Write an integer in raised digits."""
    return str(n).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def power(low: float, high: float) -> int:
    """Return the power of ten to take out of an axis from ``low`` to ``high``, 0 for none."""
    biggest = max(abs(low), abs(high))
    if not math.isfinite(biggest) or biggest == 0.0:
        return 0
    exponent = math.floor(math.log10(biggest / 1.2))  # 10.5 rather than 1.05: fewer digits on the ticks
    return exponent if exponent >= 4 or exponent <= -3 else 0


def scaled_title(title: str, exponent: int) -> str:
    """Put a power of ten into an axis title: ``k [N/m]`` becomes ``k [10⁸ N/m]``."""
    if not exponent or not title:
        return title
    ten = f"10{superscript(exponent)}"
    return (
        f"{title[:-1].replace('[', f'[{ten} ')}]"
        if title.endswith("]") and title.count("[") == 1
        else f"{title} [{ten}]"
    )


class Scaled(Formatter):
    """Tick labels with the power of ten taken out and as many decimals as the step needs."""

    def __init__(self, exponent: int) -> None:
        self.exponent = exponent

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Write one tick alone."""
        return self.format_ticks([x])[0]

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """Write all ticks of an axis with the same decimals."""
        scaled = np.asarray(values, dtype=float) / 10.0**self.exponent
        decimals = next(
            (n for n in range(9) if np.allclose(scaled, np.round(scaled, n), rtol=0, atol=1e-9)), 9
        )
        return [f"{value + 0.0:.{decimals}f}".replace("-", "−") for value in np.round(scaled, decimals)]


def folded(title: str, inches: float) -> str:
    """Put the unit of a long title on a second line, or what comes after a space."""
    room = letters(inches, 8.0)
    name, bracket, unit = title.partition(" [")
    if len(title) <= room:
        return title
    if bracket and max(len(name), len(unit) + 1) <= room:
        return f"{name}\n[{unit}"
    return "\n".join(textwrap.wrap(title, room, max_lines=2, placeholder="…"))


def label_axis(
    axis: Axis, title: str, *, ticks: int = 5, room: float | None = None, whole: bool = False
) -> None:
    """Title an axis whose limits are set, its power of ten taken from the ticks into the title.

    Ticks of what is counted are ``whole`` numbers.
    """
    low, high = sorted(axis.get_view_interval())
    if axis.get_scale() == "log":
        axis.set_major_locator(
            LogLocator(subs=(1.0,) if high > 2000.0 * low else (1.0, 2.0, 5.0), numticks=2 * ticks)
        )
        axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axis.set_minor_formatter(NullFormatter())
        axis.set_label_text(title if room is None else fit(title, room, 8.0))
        return
    exponent = power(low, high)
    axis.set_major_locator(
        MaxNLocator(nbins=ticks, steps=[1, 2, 5, 10] if whole else [1, 2, 2.5, 5, 10], integer=whole)
    )
    axis.set_major_formatter(Scaled(exponent))
    text = scaled_title(title, exponent)
    axis.set_label_text(text if room is None else fit(text, room, 8.0))


def set_abscissa(ax: Axes, values: Sequence[Array], margin: float) -> None:
    """Set the range of the abscissa; where the first values are in a constant ratio, on a logarithmic axis.

    Periods and frequencies are often spaced so, and on a linear axis half of them would share its first tenth.
    """
    if is_geometric(values[0]):
        ax.set_xscale("log")
        ax.set_xlim(*np.exp(limits([np.log(v[v > 0]) for v in values], margin)))
    else:
        ax.set_xlim(*limits(values, margin))


def is_geometric(x: Array) -> bool:
    """Return whether positive numbers over at least a decade are in a constant ratio, as far as they are rounded."""
    if len(x) < 4 or not (np.isfinite(x).all() and np.min(x) > 0):
        return False
    steps = np.diff(np.log(np.unique(x)))
    return bool(len(steps) > 2 and steps.sum() >= np.log(10.0) and np.ptp(steps) < 0.25 * steps.mean())


def limits(values: Sequence[Array], margin: float = 0.06) -> tuple[float, float]:
    """Return the range of all finite values, a little widened."""
    flat = np.concatenate([np.ravel(v) for v in values])
    flat = flat[np.isfinite(flat)]
    if not len(flat):
        return 0.0, 1.0
    low, high = float(flat.min()), float(flat.max())
    pad = margin * (high - low) if high > low else 0.1 * abs(high) or 1.0
    return low - pad, high + pad


def to_svg(figure: Figure, name: str) -> str:
    """Return a figure as a standalone SVG; the same figure gives the same text, ids start with its name."""
    buffer = io.StringIO()
    with matplotlib.rc_context({**_SETTINGS, "svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, dpi=_POINTS)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("xlink:href", "href").replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "")
    svg = svg.replace("'DejaVu Sans'", FONT)
    svg = re.sub(r' (?:d|points)="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path.group()), svg)
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "", svg)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", svg)


def check_figure_path(path: Path, what: str) -> None:
    """Refuse a file that a figure cannot be written to, before it is drawn."""
    if path.suffix.lower() not in SUFFIXES:
        raise StudyError(f'{what} "{path}": expected a file name that ends in {", ".join(SUFFIXES)}')
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        why = "is a folder" if path.is_dir() else f'no folder "{path.parent}" that can be written to'
        raise StudyError(f'{what} "{path}": {why}; give the name of a file in one')


def write_figure(figure: Figure, path: Path, name: str) -> None:
    """Write a figure on white to a file of its own; the same figure gives the same bytes."""
    figure.set_facecolor("white")
    with replacing(path) as stream:
        if path.suffix.lower() == ".svg":
            stream.write(to_svg(figure, name).encode())
        else:
            figure.savefig(stream, format=path.suffix[1:].lower(), metadata={"CreationDate": None})


def inline(svg: str, description: str) -> str:
    """Make a standalone SVG fit for a page: no namespace, no fixed size, a description for screen readers."""
    width = re.search(r'width="([\d.]+)pt"', svg)
    assert width is not None
    svg = svg.replace(' xmlns="http://www.w3.org/2000/svg"', "", 1)
    svg = re.sub(r' width="[\d.]+pt"', "", svg, count=1)
    svg = re.sub(r' height="[\d.]+pt"', "", svg, count=1)
    quoted = description.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    size = f"max-width:{float(width[1]) / 0.75:.0f}px"
    return svg.replace("<svg", f'<svg role="img" aria-label="{quoted}" style="{size}"', 1)


def legend_row(figure: Figure, handles: Sequence[Line2D], columns: int, left: float = 0.0) -> None:
    """Lay the keys of a figure in rows along its top."""
    options: dict[str, Any] = {"handlelength": 1.3, "columnspacing": 1.4, "borderaxespad": 0.1}
    figure.legend(handles=handles, loc="upper left", bbox_to_anchor=(left, 1.0), ncols=columns, **options)
