"""Simulation-based calibration of every sampler: rank histograms beside the band of uniform ranks.

``python benchmarks/calibration.py`` takes about ten minutes on one core; it prints the p-values as a Markdown table and
rewrites docs/images/calibration.svg. Problems, sizes and seeds are those of tests/inference/test_calibration.py.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import binom

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from tests.inference.test_calibration import CALIBRATED, DRAWS, REPLICATIONS, calibrated  # noqa: E402

from tamis.inference.calibration import Ranks, histogram, uniformity  # noqa: E402

BINS = 20


def main() -> None:
    found = {}
    print("| sampler | quantity | p |\n|---|---|---|")
    for name in CALIBRATED:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some of the short runs say that they are short
            found[name] = calibrated(name)
        for quantity, p in zip(quantities(name), uniformity(found[name], DRAWS, BINS), strict=True):
            print(f"| {name} | {quantity} | {p:.3f} |", flush=True)
    draw(found)


def quantities(name: str) -> tuple[str, ...]:
    return (*CALIBRATED[name][0]()[0].names, "log-likelihood")


def draw(found: dict[str, Ranks]) -> None:
    """Draw a row of histograms for each sampler, with the band that holds 99 of 100 bars if ranks are uniform."""
    from matplotlib.figure import Figure

    columns = max(ranks.shape[1] for ranks in found.values())
    low, high = binom.interval(0.99, REPLICATIONS, 1 / BINS)
    figure = Figure(figsize=(2.4 * columns, 1.7 * len(found)), layout="constrained")
    axes = figure.subplots(len(found), columns, squeeze=False, sharey=True)
    edges = np.arange(BINS) * (DRAWS + 1) / BINS
    for row, (name, ranks) in zip(axes, found.items(), strict=True):
        p = uniformity(ranks, DRAWS, BINS)
        for ax in row:
            ax.spines[["top", "right"]].set_visible(False)
        for ax in row[len(p) :]:
            ax.axis("off")
        row[0].set_ylabel(name)
        for ax, quantity, counts, value in zip(
            row, quantities(name), histogram(ranks, DRAWS, BINS), p, strict=False
        ):
            ax.bar(edges, counts, width=(DRAWS + 1) / BINS, align="edge", color="#7fa8d1")
            ax.axhspan(low, high, color="#555d66", alpha=0.15, lw=0)
            ax.axhline(REPLICATIONS / BINS, color="#555d66", lw=0.8)
            ax.set_title(f"{quantity}, p = {value:.2f}", fontsize=8)
            ax.set(xlim=(0, DRAWS + 1), xticks=(0, 50, 100))
            ax.tick_params(labelsize=7)
    for ax in axes[-1]:
        ax.set_xlabel("rank of the truth", fontsize=8)
    figure.savefig(ROOT / "docs" / "images" / "calibration.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
