"""Figures of recorded ground motions: one record beside the model identified from it, or the parameters of a set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tamis.report.style import (
    DATA,
    FAINT,
    PARAMETERS,
    POSTERIOR,
    WIDTH,
    canvas,
    head_room,
    heading,
    label_axis,
    legend_row,
    limits,
    place,
    set_abscissa,
    styled,
)
from tamis.types import Array


@dataclass(frozen=True)
class Motion:
    """A record, and what the model with its parameters gives."""

    title: str
    t: Array
    a: Array
    q: Array  # modulating function at t
    sample: Array  # one simulated motion at t
    periods: Array
    spectrum: Array  # of the record
    spectra: Array  # (n, periods), of simulated motions


@styled
def motion_figure(motion: Motion) -> Figure:
    """Draw a record and a simulated motion under the modulating function, and their response spectra."""
    inner, main = WIDTH / 2 - 0.8, 1.15
    figure = canvas(WIDTH, 0.3 + 2 * (main + 0.34) + 0.5)
    peak = 1.05 * max(float(np.abs(motion.a).max()), float(np.abs(motion.sample).max()))
    for row, (signal, title) in enumerate(
        ((motion.a, motion.title), (motion.sample, "one simulated motion"))
    ):
        ax = place(figure, 0.66, 0.3 + head_room(0) + row * (main + 0.34), inner, main)
        ax.fill_between(motion.t, -1.645 * motion.q, 1.645 * motion.q, color=PARAMETERS, lw=0, alpha=0.6)
        ax.plot(motion.t, signal, color=DATA if row == 0 else POSTERIOR, lw=0.5)
        ax.set_xlim(0.0, float(motion.t[-1]))
        ax.set_ylim(-peak, peak)
        heading(ax, title)
        label_axis(ax.yaxis, "a [m/s2]", ticks=4)
        label_axis(ax.xaxis, "t [s]" if row else "", ticks=6)
        ax.tick_params(labelbottom=bool(row))
    ax = place(figure, WIDTH / 2 + 0.66, 0.3 + head_room(0), inner, 2 * main + 0.34)
    low, middle, high = np.quantile(motion.spectra, (0.05, 0.5, 0.95), axis=0)
    ax.fill_between(motion.periods, low, high, color=PARAMETERS, lw=0, alpha=0.6)
    ax.plot(motion.periods, middle, color=POSTERIOR)
    ax.plot(motion.periods, motion.spectrum, color=DATA, lw=1.0)
    set_abscissa(ax, [motion.periods], 0.0)
    ax.set_ylim(0.0, limits([high, motion.spectrum])[1])
    heading(ax, "response spectrum, 5 % damping")
    label_axis(ax.yaxis, "pseudo-acceleration [m/s2]", ticks=6)
    label_axis(ax.xaxis, "period [s]", ticks=6)
    keys = (("record", DATA, 1.2), ("model, 90 % of all motions", PARAMETERS, 5.0), ("model", POSTERIOR, 1.4))
    legend_row(figure, [Line2D([], [], color=colour, lw=lw, label=text) for text, colour, lw in keys], 3)
    return figure


@styled
def scatter_figure(names: Sequence[str], values: Array, correlation: Array) -> Figure:
    """Draw the parameters of a set of records against each other, with their linear correlations."""
    d = len(names)
    side = (WIDTH - 0.75) / d
    figure = canvas(WIDTH, side * d + 0.6)
    spans = [limits([values[:, j]], 0.1) for j in range(d)]
    for i in range(d):
        for j in range(d):
            ax = place(figure, 0.68 + j * side, 0.05 + i * side, side - 0.08, side - 0.08)
            ax.set_xlim(*spans[j])
            if j < i:
                ax.plot(
                    values[:, j], values[:, i], ls="", marker="o", ms=2.6, mew=0, color=POSTERIOR, alpha=0.8
                )
                ax.set_ylim(*spans[i])
            elif j == i:
                ax.hist(values[:, j], bins=min(10, max(4, len(values) // 5)), color=PARAMETERS)
                ax.set_yticks([])
            else:
                ax.set_axis_off()
                r = float(correlation[i, j])
                text = "" if np.isnan(r) else f"{r:.2f}".replace("-", "−")
                ax.text(
                    0.5,
                    0.5,
                    text,
                    transform=ax.transAxes,
                    ha="center",
                    va="center",
                    color=FAINT,
                    fontsize=9.0,
                )
            label_axis(ax.xaxis, names[j] if i == d - 1 else "", ticks=2, room=side)
            ax.tick_params(labelbottom=i == d - 1, labelleft=j == 0 and i > 0)
            if i > j:
                label_axis(ax.yaxis, names[i] if j == 0 else "", ticks=2, room=side)
    return figure
