"""Six instants of a replay in one picture, so that one can look.

One camera for all frames, fitted to everything the shapes do, so that frames compare and lengths can be measured with
the scale bar; it stands where most of what moves is seen, and what stands still before a body that is alone in its
group, a rock behind the wall that it hits, lets it through, unless it is a line, which hides nothing. Colours are
groups, or a field; what has moved since the first frame is stronger and has a dark rim, because in a wall of three
hundred blocks the eye does not find the five that fell.
"""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from tamis.errors import StudyError, TamisWarning, nearest
from tamis.interfaces import Port, Simulator
from tamis.replays import Replay
from tamis.report.camera import FRAME, best_view
from tamis.report.solids import (
    Floor,
    Pen,
    Polygon,
    Seen,
    Solid,
    floor,
    look,
    order,
    paint,
    piece,
    segments,
    shadow,
    slices,
    solid,
)
from tamis.report.style import (
    COLOURS,
    FAINT,
    INK,
    PRIOR_FILL,
    WIDTH,
    canvas,
    check_figure_path,
    fit,
    label_axis,
    letters,
    place,
    styled,
    write_figure,
)
from tamis.runs.pool import Workers
from tamis.runs.replaying import to_look_at
from tamis.types import Array, Inputs, Value

FRAMES = 6
_LISTED = 10  # groups in the legend: two rows
_UNNAMED = {"default": "bodies"}  # the group of bodies that were given none
_MUCH = 0.1  # of its own size: a shape that moved that far is drawn stronger
_EDGE, _GAP, _HEAD, _TITLE, _FOOT = 0.14, 0.14, 0.27, 0.42, 0.56  # inches
_MORE, _LINES = 0.16, 4  # inches of a further line of the title, and how many there are at most
_TIED = "\xa0"  # a space at which no line ends
_GROUND, _SHADOW, _BORDER = "#e3e6e9", "#c9ced3", "#b4babf"
_MAP = "viridis_r"  # what has little of a field is light
_GLASS, _VEIL = (
    0.12,
    0.3,
)  # of its colour keeps a group that is seen through, and what stands still before a lone body
_LEVEL = 1e-6  # m, of poses kept in single precision: no nearer than that is as near
_PLENTY = 4000  # polygons of a frame, above which it is kept as points: 20 000 are 4.5 MB
_LYING = 0.7  # cosine of the steepest slope that shadows fall on


class _View(NamedTuple):
    """What all frames share."""

    camera: Array
    low: Array  # (2,), corner of the picture in the camera's axes
    high: Array
    around: Array  # (8, 3), corners of a box around all that moves, below which half-spaces are drawn
    margin: float


def write_storyboard(
    simulator: Simulator,
    inputs: Inputs,
    path: Path,
    *,
    field: str | None = None,
    through: Sequence[str] = (),
) -> tuple[int, float]:
    """Replay one point of a simulator and draw it to a file; return the number of frames and the time they span."""
    check_figure_path(path, "storyboard")
    name = simulator.name
    with Workers(1) as workers:  # a crash of the simulator is told there
        warned: list[str] = []
        replay = to_look_at(simulator, inputs, workers, warned=warned)
    for text in warned:
        warnings.warn(text, TamisWarning, stacklevel=2)
    pairs = [f"{key} = {_written(value, simulator.inputs[key])}" for key, value in inputs.items()]
    given = ", ".join(pair.replace(" ", _TIED) for pair in pairs)
    figure = storyboard(replay, f"{name}: {given}" if given else name, field=field, through=through)
    write_figure(figure, path, "storyboard")
    return len(instants(replay.times)), float(replay.times[-1] - replay.times[0])


def _written(value: Value, port: Port) -> str:
    number = int(value) if isinstance(port.default, int) else value  # the command line reads floats
    shown = f"{number:g}" if isinstance(number, float) else str(number)
    return f"{shown} {port.unit}".rstrip()


def instants(times: Array, n: int = FRAMES) -> list[int]:
    """Return which instants to show: equally spaced in time, first and last included, fewer if there are fewer."""
    wanted = np.linspace(times[0], times[-1], n)
    return sorted({int(np.argmin(np.abs(times - t))) for t in wanted})


@styled
def storyboard(
    replay: Replay, title: str, columns: int = 3, field: str | None = None, through: Sequence[str] = ()
) -> Figure:
    """Draw six instants of a replay, coloured by group or by one of its fields; some groups like glass."""
    field = None if field is None else _named(replay, field)
    _check_through(replay, through)
    drawn, solids = _solids(replay)
    shown = instants(replay.times)
    columns = min(columns, len(shown))
    rows = -(-len(shown) // columns)
    moved = _moved(replay, dict(zip(drawn, (part.reach for part in solids), strict=True)))
    now = np.ix_(shown, drawn)
    groups = [replay.shapes[b].group for b in drawn]
    alone = {i for i, group in enumerate(groups) if groups.count(group) == 1 and moved[:, drawn[i]].any()}
    opaque = [i for i, group in enumerate(groups) if group not in through]
    camera = best_view(
        [solids[i] for i in opaque],
        replay.poses[now][:, opaque],
        moved[now][:, opaque],
        _floors(replay, 0),
        [groups[i] for i in opaque],
    )
    view = _fitted(replay, solids, drawn, camera)
    width = (WIDTH - 2 * _EDGE - (columns - 1) * _GAP) / columns
    height = width * float(np.clip(np.divide(*(view.high - view.low)[::-1]), *FRAME))
    scale = float(np.min(np.array([width, height]) / (view.high - view.low)))  # inches a metre
    lines = _title(title)
    above = _TITLE + _MORE * (len(lines) - 1)
    figure = canvas(WIDTH, above + rows * (height + _HEAD) + _FOOT)
    _head(figure, lines, field, replay, moving=len(shown) > 1)

    colours, norm = _colours(replay, field)
    stamps = _stamps(replay.times[shown])
    middle, half = 0.5 * (view.low + view.high), 0.5 * np.array([width, height]) / scale
    (left, bottom), (right, top) = middle - half, middle + half
    for k, t in enumerate(shown):
        row, column = divmod(k, columns)
        inches = (_EDGE + column * (width + _GAP), above + _HEAD + row * (height + _HEAD), width, height)
        ax = place(figure, *inches)
        ax.set(xlim=(left, right), ylim=(bottom, top))
        _frame(ax, stamps[k])
        seen = look(solids, replay.poses[t, drawn], camera)
        polygons = _ground(solids, seen, _floors(replay, t), view)
        behind: list[int] = []  # bodies alone in their group that are painted already
        for i in order(solids, seen):
            strong = moved[t, drawn[i]]
            colour = colours[t, drawn[i]] if strong or field else 0.5 * colours[t, drawn[i]] + 0.5
            corners = seen.points[i, : len(solids[i].points)]
            painted = paint(solids[i], corners, seen.turn[i], colour, _pen(solids[i].reach * scale, strong))
            clear = _GLASS if groups[i] in through else 1.0
            if not strong and solids[i].kind != "line" and any(_before(seen, i, j) for j in behind):
                clear = min(clear, _VEIL)
            polygons += painted if clear == 1.0 else [_clearer(polygon, clear) for polygon in painted]
            behind += [i] if i in alone else []
        _add(ax, polygons)
    _foot(figure, scale, camera)
    if field is not None and norm is not None:
        _colour_bar(figure, field, norm)
    else:
        _legend(figure, replay)
    return figure


def _check_through(replay: Replay, through: Sequence[str]) -> None:
    known = {shape.group for shape in replay.shapes if shape.kind != "halfspace"}
    for group in through:
        if group not in known:
            raise StudyError(f'the replay has no group "{group}"{nearest(group, sorted(known))}')
    if known and known <= set(through):
        raise StudyError(
            "all groups of the replay are to be seen through, so there is nothing to look at; leave one"
        )


def _clearer(polygon: Polygon, share: float) -> Polygon:
    """Return a polygon that one can see through."""
    (r, g, b, a), (p, q, s, t) = polygon.face, polygon.edge
    return Polygon(
        polygon.points, (r, g, b, share * a), (p, q, s, min(1.0, 2 * share) * t), min(polygon.width, 0.4)
    )


def _before(seen: Seen, i: int, j: int) -> bool:
    """Say whether the boxes of two pictures overlap and the first is nearer; in a plane of disks none is."""
    meet = (seen.low[i, :2] < seen.high[j, :2]).all() and (seen.low[j, :2] < seen.high[i, :2]).all()
    return bool(meet and seen.high[i, 2] > seen.high[j, 2] + _LEVEL)


def _named(replay: Replay, field: str) -> str:
    """Return the key of a field; its unit may be left out."""
    found = [key for key in replay.fields if field in (key, key.partition(" [")[0])]
    if not found:
        raise StudyError(f'the replay has no field "{field}"{nearest(field, replay.fields)}')
    return found[0]


def _solids(replay: Replay) -> tuple[list[int], list[Solid]]:
    """Return what is painted and of which shape each piece is: lines are in segments, bars in a ring in slices."""
    rings = any(shape.kind == "ring" for shape in replay.shapes)
    drawn: list[int] = []
    solids: list[Solid] = []
    for b, shape in enumerate(replay.shapes):
        if shape.kind != "halfspace":
            parts = segments(shape) if shape.kind == "line" else [solid(shape)]
            if rings and shape.kind == "cylinder":
                parts = slices(parts[0])
            solids += parts
            drawn += [b] * len(parts)
    if not solids:
        raise StudyError("the replay has nothing but half-spaces, so there is nothing to draw")
    return drawn, solids


def _fitted(replay: Replay, solids: Sequence[Solid], drawn: Sequence[int], camera: Array) -> _View:
    """Fit the picture to all poses.

    A shape that never moves and is larger than twice the room of all that does is a backdrop: it may leave the picture.
    """
    poses = replay.poses[:, drawn]
    still = (np.ptp(poses, axis=0) < 1e-6).all(axis=-1)
    reach = np.array([part.reach for part in solids])
    back = np.zeros(len(solids), dtype=bool)
    if not still.all():
        room = np.ptp(poses[:, ~still, :3], axis=(0, 1)).max() + 2 * reach[~still].max()
        back = still & (reach > room)
    kept = np.flatnonzero(~back).tolist()
    parts = [solids[i] for i in kept]
    thick = np.array([part.radius for part in parts])[:, None]
    flat, world = [], []
    for now in poses[:, kept]:
        seen = look(parts, now, camera)
        flat += [seen.low[:, :2].min(axis=0), seen.high[:, :2].max(axis=0)]
        points = seen.points @ camera
        world += [(points.min(axis=1) - thick).min(axis=0), (points.max(axis=1) + thick).max(axis=0)]
    low, high = np.min(world, axis=0), np.max(world, axis=0)
    around = np.array(
        [[x, y, z] for x in (low[0], high[0]) for y in (low[1], high[1]) for z in (low[2], high[2])]
    )
    floors = _floors(replay, 0)
    margin = (0.08 if len(floors) < 2 else 0.2) * float((high - low).max())  # walls of a box should meet
    for surface in floors:
        ground = piece(surface, around, margin, [other for other in floors if other is not surface], camera)
        flat += [] if ground is None else list(ground)
    pad = 0.03 * float(np.ptp(flat, axis=0).max())
    return _View(camera, np.min(flat, axis=0) - pad, np.max(flat, axis=0) + pad, around, margin)


def _floors(replay: Replay, t: int) -> list[Floor]:
    return [floor(replay.poses[t, b]) for b, s in enumerate(replay.shapes) if s.kind == "halfspace"]


def _ground(solids: Sequence[Solid], seen: Seen, floors: Sequence[Floor], view: _View) -> list[Polygon]:
    """Return the surfaces of half-spaces that are seen, and on those that lie rather than stand the shadows."""
    found = []
    for surface in floors:
        others = [other for other in floors if other is not surface]
        ground = piece(surface, view.around, view.margin, others, view.camera)
        if ground is None:
            continue
        r, g, b = (c * (0.94 + 0.06 * float(surface.normal[2])) for c in to_rgb(_GROUND))
        found.append(Polygon(ground, (r, g, b, 1.0), (*to_rgb(_BORDER), 1.0), 0.5))
        if surface.normal[2] > _LYING:
            for part, points in zip(solids, seen.points, strict=True):
                if part.kind == "line":
                    continue
                dark = shadow(part, points[: len(part.points)], surface, view.camera)
                found.append(Polygon(dark, (*to_rgb(_SHADOW), 1.0), (0.0, 0.0, 0.0, 0.0), 0.0))
    return found


def _pen(inches: float, strong: bool) -> Pen:
    """Return lines as thick as suits a shape of this half size on paper."""
    return Pen(min(0.4, max(0.15, 3.0 * inches)), min(1.8, max(0.6, 9.0 * inches)) if strong else 0.0)


def _add(ax: Axes, polygons: Sequence[Polygon]) -> None:
    ax.add_collection(
        PolyCollection(
            [polygon.points for polygon in polygons],
            facecolors=[polygon.face for polygon in polygons],
            edgecolors=[polygon.edge for polygon in polygons],
            linewidths=[polygon.width for polygon in polygons],
            joinstyle="round",
            rasterized=len(polygons) > _PLENTY,
        ),
        autolim=False,
    )


def _colours(replay: Replay, field: str | None) -> tuple[Array, Normalize | None]:
    """Return a colour of each shape at each instant, and the scale of the field."""
    if field is None:
        of = _groups(replay)
        row = np.array([of.get(shape.group, (0.5, 0.5, 0.5)) for shape in replay.shapes])
        return np.broadcast_to(row, (len(replay.times), *row.shape)), None
    values = np.asarray(replay.fields[field], dtype=np.float64)
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    norm = Normalize(low, high if high > low else low + (abs(low) or 1.0))
    rgb = np.asarray(colormaps[_MAP](norm(np.where(np.isfinite(values), values, low))))[..., :3]
    return np.where(np.isfinite(values)[..., None], rgb, 0.75), norm


def _groups(replay: Replay) -> dict[str, tuple[float, float, float]]:
    """Return the colour of each group, in order of appearance; darker where the palette begins anew."""
    names = dict.fromkeys(shape.group for shape in replay.shapes if shape.kind != "halfspace")
    found = {}
    for i, name in enumerate(names):
        turn, k = divmod(i, len(COLOURS))
        r, g, b = to_rgb(COLOURS[k])
        found[name] = (r * 0.6**turn, g * 0.6**turn, b * 0.6**turn)
    return found


def _moved(replay: Replay, reaches: Mapping[int, float]) -> NDArray[np.bool_]:
    """Mark (T, B) the shapes that have moved or turned by much of their size since the first instant."""
    poses = replay.poses.astype(np.float64)
    reach = np.array([reaches.get(b, np.inf) for b in range(len(replay.shapes))])
    path = np.linalg.norm(poses[..., :3] - poses[:1, :, :3], axis=-1)
    cosine = np.abs(np.sum(poses[..., 3:] * poses[:1, :, 3:], axis=-1))
    angle = 2 * np.arccos(np.clip(cosine, 0.0, 1.0))  # of the turn between two quaternions, of either sign
    return np.asarray(path / reach + angle > 2 * _MUCH)


def _stamps(times: Array) -> list[str]:
    """Write the instants with one unit and as many decimals as tell them apart."""
    longest = float(np.abs(times).max()) or 1.0
    units = ((1.0, "s"), (1e3, "ms"), (1e6, "µs"))
    factor, unit = next(((f, u) for f, u in units if longest * f >= 0.1), units[-1])
    shown = times * factor
    step = float(np.diff(shown).min()) if len(times) > 1 else max(1.0, longest)
    most = max(0, 2 - math.floor(math.log10(step)))
    decimals = next((n for n in range(most) if np.abs(shown - shown.round(n)).max() < 1e-3 * step), most)
    return [f"t = {t:.{decimals}f} {unit}" for t in shown]


def _frame(ax: Axes, stamp: str) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set(visible=True, color=PRIOR_FILL, linewidth=0.8)
    ax.annotate(
        stamp, (0, 1), (1, 4), xycoords="axes fraction", textcoords="offset points", annotation_clip=False
    )


def _title(title: str) -> list[str]:
    """Return the lines of a title: an input and its value stay together."""
    room = letters(WIDTH - 2 * _EDGE, 9.5)
    lines = textwrap.wrap(title, room, max_lines=_LINES, placeholder=" …", break_on_hyphens=False)
    return [line.replace(_TIED, " ") for line in lines] or [""]


def _head(figure: Figure, title: Sequence[str], field: str | None, replay: Replay, *, moving: bool) -> None:
    tall = figure.get_size_inches()[1]
    for k, line in enumerate(title):
        figure.text(_EDGE / WIDTH, 1 - (0.22 + _MORE * k) / tall, line, fontsize=9.5, fontweight="bold")
    enlarged = replay.enlarged
    notes = [] if enlarged == 1.0 else [f"displacements drawn {enlarged:g} times as large as they are"]
    if moving:
        how = "dark rim" if field else "strong colour and dark rim"
        drawn = "" if enlarged == 1.0 else ", as drawn"
        notes.append(f"{how}: moved by more than a tenth of its size since the first frame{drawn}")
        if any(shape.kind == "disk" for shape in replay.shapes):
            notes.append("darker half: how a disk turns")
    below = 0.38 + _MORE * (len(title) - 1)
    figure.text(_EDGE / WIDTH, 1 - below / tall, "; ".join(notes), fontsize=7.0, color=FAINT)


def _foot(figure: Figure, scale: float, camera: Array) -> None:
    """Draw the scale bar and the directions; the unit of these axes is the inch."""
    wide, high = WIDTH - 2 * _EDGE, _FOOT - 0.12
    ax = place(figure, _EDGE, figure.get_size_inches()[1] - high - 0.04, wide, high)
    ax.set(xlim=(0, wide), ylim=(0, high))
    ax.axis("off")
    length = _round_length(1.3 / scale)
    bar = length * scale
    ax.plot([0.02, 0.02 + bar], [0.1, 0.1], color=INK, lw=1.6, solid_capstyle="butt")
    ax.text(0.02 + 0.5 * bar, 0.15, f"{length:g} m", ha="center", va="bottom", fontsize=7.5)
    x, y = bar + 0.4, 0.17
    for name, (dx, dy) in zip("xyz", 0.2 * camera[:2].T, strict=True):
        if math.hypot(dx, dy) < 0.02:  # towards the viewer
            continue
        arrow = {"arrowstyle": "-|>", "mutation_scale": 6, "lw": 0.7, "color": FAINT, "shrinkA": 0}
        ax.annotate("", (x + dx, y + dy), (x, y), arrowprops=arrow)
        ax.text(x + 1.3 * dx, y + 1.3 * dy, name, fontsize=7.0, color=FAINT, ha="center", va="center")


def _legend(figure: Figure, replay: Replay) -> None:
    named = {_UNNAMED.get(name, name): colour for name, colour in _groups(replay).items() if name}
    if len(named) < 2:
        return
    handles = [Patch(facecolor=c, label=fit(name, 0.85, 8.0)) for name, c in list(named.items())[:_LISTED]]
    if len(named) > _LISTED:
        handles[-1] = Patch(facecolor="none", label=f"and {len(named) - _LISTED + 1} more")
    where = (1 - _EDGE / WIDTH, 0.05 / figure.get_size_inches()[1])
    figure.legend(
        handles=handles, loc="lower right", bbox_to_anchor=where, ncols=5, handlelength=1.0, borderaxespad=0.0
    )


def _colour_bar(figure: Figure, title: str, norm: Normalize) -> None:
    low, high = float(norm.vmin or 0.0), float(norm.vmax or 0.0)
    ax = place(figure, WIDTH - _EDGE - 3.3, figure.get_size_inches()[1] - 0.46, 3.2, 0.09)
    ax.imshow(np.linspace(0, 1, 128)[None], cmap=_MAP, aspect="auto", extent=(low, high, 0.0, 1.0))
    ax.set_yticks([])
    label_axis(ax.xaxis, title, room=3.2)
    ax.xaxis.labelpad = 1.0


def _round_length(most: float) -> float:
    """Return the greatest of 1, 2, 5 times a power of ten that is not above ``most``."""
    ten = 10.0 ** math.floor(math.log10(most))
    return max(float(f"{k * ten:.3g}") for k in (1, 2, 5) if k * ten <= most * (1 + 1e-12))
