"""Draw avalanche sizes in the layout of Figure 14 of Hadjidoukas et al. (2014), beside the numbers that it prints.

``python figures.py [FOLDER]`` reads data/study.csv and draws silo-avalanches.svg: the size that a share p of the
avalanches exceeds, for each draw and for all of them together, and the coefficient of variation over draws, beside
that of as many avalanches taken from all draws alike. It runs nothing.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from summary import exceeded, load, of_draws

DRAW, BAND, ROBUST, PAPER = "#6fa8dc", "#4c9a52", "#a0308c", "#111111"


def shares(n):
    """Return the shares that n sizes in order stand for."""
    return (np.arange(n) + 0.5) / n


def avalanches():
    """Draw Figure 14."""
    _, replicate, _, _, sizes = load()
    draws = -np.sort(-of_draws(replicate, sizes), axis=1)
    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    p = shares(draws.shape[1])
    left.plot(p, draws.T, color=DRAW, lw=0.6)
    left.plot([], [], color=DRAW, lw=0.6, label=f"{len(draws)} draws of {draws.shape[1]} avalanches")
    for k, level in enumerate(np.quantile(draws, [0.05, 0.95], axis=0)):
        left.plot(p, level, color=BAND, lw=1.2, label="5 and 95 % of the draws" if k == 0 else None)
    every = shares(sizes.size)
    left.plot(every, [exceeded(sizes, q) for q in every], color=ROBUST, lw=1.4, label="robust: all of them")
    left.errorbar(
        [0.01], [45], [[10], [7]], fmt="o", ms=4, color=PAPER, capsize=2, lw=0.9, label="paper: 45, 35 to 52"
    )
    left.set(
        xscale="log", xlabel="exceedance probability p", ylabel="avalanche size N_p [grains]", ylim=(0, None)
    )
    right.plot(p, draws.std(axis=0, ddof=1) / draws.mean(axis=0), color=ROBUST, lw=1.2, label="of the draws")
    again = np.random.default_rng(1).choice(sizes.ravel(), (2000, draws.shape[1]))
    chance = -np.sort(-again, axis=1)
    right.plot(
        p, chance.std(axis=0) / chance.mean(axis=0), color="0.45", lw=1.0, ls="--", label="chance alone"
    )
    right.set(xscale="log", xlabel="exceedance probability p", ylabel="COV of N_p", ylim=(0, None))
    return figure, (left, right)


def main():
    """Draw the figure into a folder, or beside this file."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    figure, axes = avalanches()
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(fontsize=7, frameon=False)
    figure.savefig(folder / "silo-avalanches.svg")


if __name__ == "__main__":
    main()
