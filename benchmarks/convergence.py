"""The steel-contact evidence against the number of samples: ten seeds each, errors beside the exact quadrature.

``python benchmarks/convergence.py [--seeds 10]`` takes about an hour on two cores; it rewrites
docs/images/convergence.svg from docs/theory/convergence.csv, to which it adds the rows that are missing.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from tests.steel import MODELS, calibrate, figures  # noqa: E402

SIZES = (2048, 8192, 32768)
TABLE = ROOT / "docs" / "theory" / "convergence.csv"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options = parser.parse_args()
    done = {(r["model"], r["n"], r["seed"]) for r in read()} if TABLE.exists() else set()
    for n in options.sizes:
        for seed in range(options.seeds):
            for model in MODELS:
                if (model, str(n), str(seed)) not in done:
                    append(
                        {"model": model, "n": n, "seed": seed, **figures(model, calibrate(model, n, seed))}
                    )
    draw()


def read() -> list[dict[str, str]]:
    with TABLE.open() as stream:
        return list(csv.DictReader(stream))


def append(row: dict[str, float]) -> None:
    """Add a row to the table, so that an interrupted run goes on."""
    row = {key: f"{value:.5g}" if isinstance(value, float) else value for key, value in row.items()}
    print(row, flush=True)
    fresh = not TABLE.exists()
    with TABLE.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, row)
        if fresh:
            writer.writeheader()
        writer.writerow(row)


def draw() -> None:
    """Draw the table: every run a dot, with the bounds asked of 8192 samples."""
    from matplotlib.figure import Figure

    rows = read()
    panels = (
        ("evidence_error", "error of the log evidence", 0.2),
        ("k_t_mean", "mean of k_t, relative error", 0.03),
        ("k_t_cov", "COV of k_t, relative error", 0.10),
        ("lower_mode", "mass of the lower mode, rel. error", 0.25),
    )
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    colours = dict(zip(MODELS, ("#0b5394", "#12a071", "#a83f9b"), strict=True))
    for ax, (key, label, bound) in zip(figure.subplots(1, 4), panels, strict=True):
        ax.axhspan(
            -bound,
            bound,
            color="#eceff3",
            label="asked of 8192 samples" if ax.get_subplotspec().colspan.start == 0 else None,
        )
        ax.axhline(0, color="#8a9199", lw=0.8)
        for i, model in enumerate(MODELS):
            mine = [(float(r["n"]) * 1.12 ** (i - 1), float(r[key])) for r in rows if r["model"] == model]
            first = ax.get_subplotspec().colspan.start == 0
            ax.plot(
                *np.array(mine).T, "o", ms=3, color=colours[model], alpha=0.7, label=model if first else None
            )
        largest = max(abs(float(r[key])) for r in rows)
        ax.set(xscale="log", xlabel="samples", ylabel=label, ylim=(-1.15 * largest, 1.15 * largest))
        ax.set_title(f"asked: ±{bound:g}", fontsize=9, color="#555d66")
        ax.set_xticks(sorted({int(r["n"]) for r in rows}), sorted({r["n"] for r in rows}, key=int))
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(ROOT / "docs" / "images" / "convergence.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
