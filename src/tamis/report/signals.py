"""Numbers of several signals one after the other on one axis: lines that do not join them, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes

from tamis.report.style import FAINT, PRIOR_FILL, fit
from tamis.types import Array

_SIZE = 7.0  # of the names


def _starts(names: Sequence[str]) -> list[int]:
    """Return where another signal begins; a name is "signal, band"."""
    signals = [name.partition(", ")[0] for name in names]
    return [i + 1 for i, (this, after) in enumerate(pairwise(signals)) if after != this]


def apart(values: Array, names: Sequence[str]) -> Array:
    """Return values with a gap between signals, along the last axis: nothing is drawn across."""
    return np.insert(np.asarray(values, dtype=float), _starts(names), np.nan, axis=-1)


def divide(ax: Axes, x: Array, names: Sequence[str], room: float | None = None) -> None:
    """Draw a line between signals; with ``room``, the width of the axes in inches, write their names along the top."""
    starts = _starts(names)
    if not starts:
        return
    low, high = ax.get_xlim()
    cuts = [low, *(0.5 * float(x[i - 1] + x[i]) for i in starts), high]
    for left, right, i in zip(cuts, cuts[1:], [0, *starts], strict=False):
        if i:
            ax.axvline(left, color=PRIOR_FILL, lw=0.8, zorder=0)
        if room is not None:
            name = fit(names[i].partition(", ")[0], room * (right - left) / (high - low), _SIZE)
            at = (0.5 * (left + right), 1.0)
            ax.annotate(
                name, at, (0, 2), ax.get_xaxis_transform(), "offset points",
                ha="center", va="bottom", fontsize=_SIZE, color=FAINT, annotation_clip=False,
            )  # fmt: skip
