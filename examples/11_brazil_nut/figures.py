"""Draw what was predicted in the layout of Figures 10 to 12 of Hadjidoukas et al. (2014).

``python figures.py [FOLDER]`` reads data/study.csv and data/best.csv and draws nut-heights.svg (Figure 10: the height
that the nut is above for a fraction of the time), nut-passages.svg (Figure 11: when it first reaches a height) and
nut-exceedance.svg (Figure 12: the probability that it has not reached it yet). It runs nothing. What the paper prints
in words is shaded; its curves are not printed as numbers.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from summary import chosen, cov, levels, load, passage

STARTS = (0.02, 0.1)
BAND, MEAN, PAPER, COLOURS = "#b9d7b0", "#a0308c", "#eeeae2", ("#0b5394", "#009e73", "#e07b00", "#aa4499")
LEGEND = {"fontsize": 7, "frameon": False}
HEIGHTS = {0.02: (0.12, 0.16, 0.20, 0.26), 0.1: (0.21, 0.23, 0.26, 0.30)}


def grid(rows):
    """Return a figure with a column for each height at which the nut begins."""
    figure = Figure(figsize=(8.4, 0.6 + 2.5 * rows), layout="constrained")
    return figure, figure.subplots(rows, 2, sharex="col", sharey="row", squeeze=False)


def curves(ax, below, x, y, rows):
    """Draw mean and 5 to 95 % of columns of runs over x, and below that their coefficients of variation."""
    ax.fill_between(x, *np.quantile(y, [0.05, 0.95], axis=0), color=BAND, lw=0, label="5 to 95 %")
    ax.plot(x, y.mean(axis=0), color=MEAN, lw=1.4, label="mean of the draws")
    ax.set_title(f"from {rows['z_init'][0]:.2f} m, {len(y)} draws", fontsize=9)
    found = np.array([cov(column) for column in y.T])
    below.errorbar(
        x, found[:, 0], found[:, 1], color=MEAN, lw=1.1, elinewidth=0.6, label="with its standard error"
    )


def heights(study):
    """Draw Figure 10."""
    figure, axes = grid(2)
    for z_init, ax, below in zip(STARTS, *axes, strict=True):
        rows = chosen(study, z_init=z_init)
        p = np.array(list(levels(rows).values()))
        below.axhspan(0.04, 0.16, color=PAPER, lw=0, label="paper: 4 to 16 %")
        curves(ax, below, p, np.column_stack([rows[name] for name in levels(rows)]), rows)
        below.legend(loc="upper left", **LEGEND)
        below.set(xlabel="fraction p of the time", ylim=(0.0, 0.4))  # at p = 0.98 the mean is next to nothing
    axes[0, 0].set_ylabel("height z_p [m]")
    axes[1, 0].set_ylabel("COV of z_p")
    return figure, axes


def passages(study):
    """Draw Figure 11."""
    figure, axes = grid(2)
    for z_init, ax, below in zip(STARTS, *axes, strict=True):
        rows = chosen(study, z_init=z_init)
        z = np.arange(round(100 * z_init) + 2, 31) / 100
        quiet = 0.14 if z_init == 0.02 else 0.22
        below.axvspan(z_init, quiet, color=PAPER, lw=0, label=f"paper: negligible below {quiet} m")
        if z_init == 0.02:
            ax.plot(
                [0.2, 0.2],
                [3.0, 10.0],
                color="0.3",
                lw=2.5,
                zorder=5,
                solid_capstyle="butt",
                label="paper: 3 to 10 s",
            )
        curves(ax, below, z, np.column_stack([passage(rows, height)[0] for height in z]), rows)
        ax.set_yscale("log")
        below.set(xlabel="height z [m]", ylim=(0.0, 1.2), xlim=(z_init, 0.3))
    axes[0, 0].set_ylabel("first passage t_exit [s]")
    axes[1, 0].set_ylabel("COV of t_exit")
    return figure, axes


def exceedance(study, best):
    """Draw Figure 12: all draws, and the run at the best parameters of the law that is most probable."""
    figure, axes = grid(1)
    t = np.linspace(0.0, 20.0, 801)
    for z_init, ax in zip(STARTS, axes[0], strict=True):
        rows, mine = chosen(study, z_init=z_init), chosen(best, z_init=z_init)
        law = max(set(rows["law"]), key=list(rows["law"]).count)
        for height, colour in zip(HEIGHTS[z_init], COLOURS, strict=True):
            exits = rows[f"t({height:.2f})"]  # NaN: not within the run, so later than any t
            later = 1.0 - (exits[:, None] <= t).mean(axis=0)
            ax.step(t, later, where="post", color=colour, lw=1.3, label=f"z = {height:.2f} m")
            one = chosen(mine, law=law)[f"t({height:.2f})"]
            ax.step(t, 1.0 - (one[:, None] <= t).mean(axis=0), where="post", color=colour, lw=0.8, ls="--")
        ax.set(xlabel="t [s]", ylim=(0.0, 1.03), xlim=(t[0], t[-1]))
        ax.plot([], [], color="0.4", lw=0.8, ls="--", label=f"best parameters of {law}, one run")
        ax.set_title(f"from {z_init:.2f} m, {len(rows['law'])} draws", fontsize=9)
    axes[0, 0].set_ylabel("P(t_exit > t)")
    return figure, axes


def main():
    """Draw the three figures into a folder, or beside this file."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    study = load("study.csv")
    drawn = {
        "heights": heights(study),
        "passages": passages(study),
        "exceedance": exceedance(study, load("best.csv")),
    }
    for name, (figure, axes) in drawn.items():
        for ax in axes.flat:
            ax.spines[["top", "right"]].set_visible(False)
            if ax.get_legend() is None:
                ax.legend(loc="upper right" if name == "exceedance" else "best", **LEGEND)
        figure.savefig(folder / f"nut-{name}.svg")


if __name__ == "__main__":
    main()
