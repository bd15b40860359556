"""What the runs of a study say: avalanche sizes against the share that exceeds them, and whose scatter it is.

``python summary.py [study | m3]`` reads data/study.csv or data/m3.csv, one row a run with the sizes of its avalanches,
and runs nothing; ``--write`` makes that file from the results of the study.
"""

import argparse
import csv
import math
from pathlib import Path

import numpy as np

import tamis
from tamis.analysis.variance import shares, variance_split

HERE = Path(__file__).parent
DATA = HERE / "data"
STUDIES = ("study", "m3")


def write(name):
    """Write flow, deepest overlap and the sizes, largest first, of every run of a study."""
    results = tamis.load_results(HERE / "results" / name)
    panels = {panel.label: panel for panel in results.panels}
    laws = [source.name for source in results.sources for _ in source.x]
    sizes, flow, deepest = (panels[k].model for k in ("avalanche size_p", "flow", "deepest overlap"))
    if lost := max(panel.failed for panel in panels.values()):
        raise SystemExit(f"{lost} draws have a run with too few avalanches: raise duration until none has")
    DATA.mkdir(exist_ok=True)
    with (DATA / f"{name}.csv").open("w", newline="") as lines:
        sheet = csv.writer(lines, lineterminator="\n")
        sheet.writerow(["law", "draw", "replicate", "flow", "deepest", *range(1, sizes.shape[1] + 1)])
        for i, row in enumerate(sizes):
            replicate, k = divmod(i, len(laws))
            numbers = [f"{flow[i, 0]:.4g}", f"{deepest[i, 0]:.3g}", *(f"{v:.0f}" for v in row)]
            sheet.writerow([laws[k], k, replicate, *numbers])


def load(name="study"):
    """Return laws, replicates, flows, overlaps (n,) and sizes (n, avalanches) of a study."""
    with (DATA / f"{name}.csv").open() as lines:
        rows = list(csv.reader(lines))[1:]
    numbers = np.array([row[2:] for row in rows], dtype=float)
    return np.array([row[0] for row in rows]), *numbers[:, :3].T, numbers[:, 3:]


def exceeded(sizes, p):
    """Return the size that a share p of the avalanches exceeds, by their order."""
    largest = np.sort(sizes, axis=None)[::-1]
    return float(np.interp(p, (np.arange(largest.size) + 0.5) / largest.size, largest))


def of_draws(replicate, sizes):
    """Return the avalanches of each draw together, (draws, avalanches)."""
    return np.hstack([sizes[replicate == r] for r in np.unique(replicate)])


def split(laws, replicate, numbers):
    """Return shares of the variance (parameters, law, seed) and their errors, (2, 3, m)."""
    y = np.stack([numbers[replicate == r] for r in np.unique(replicate)])
    model = np.unique(laws[replicate == 0], return_inverse=True)[1].astype(np.int64)
    found = variance_split(y, model, stochastic=True, rng=np.random.default_rng(1))
    return np.stack([shares(found.variance), found.share_error])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("study", nargs="?", choices=STUDIES, default="study")
    parser.add_argument(
        "--write", action="store_true", help="make its file in data/ from the study's results"
    )
    options = parser.parse_args()
    if options.write:
        write(options.study)
    laws, replicate, flow, deepest, sizes = load(options.study)
    draws = of_draws(replicate, sizes)
    n = sizes.size
    print(
        f"{len(draws)} draws, {n} avalanches, mean {sizes.mean():.1f} ± {sizes.std() / math.sqrt(n):.1f} grains"
    )
    print(f"flow {flow.mean():.0f} ± {flow.std():.0f} grains/s, deepest overlap {deepest.max():.3f}")
    resampled = np.random.default_rng(1).choice(len(draws), (500, len(draws)))
    print(
        "| p | all avalanches, with its error | draws: mean, 5 to 95 % | COV of draws, % |\n|---|---|---|---|"
    )
    for p in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8):
        again = np.std([exceeded(draws[k], p) for k in resampled])
        cells = "too few avalanches a draw | "
        if p >= 0.5 / draws.shape[1]:
            mine = np.array([exceeded(row, p) for row in draws])
            low, high = np.quantile(mine, [0.05, 0.95])
            cells = f"{mine.mean():.1f}, {low:.0f} to {high:.0f} | {100 * mine.std(ddof=1) / mine.mean():.0f}"
        print(f"| {p:g} | {exceeded(sizes, p):.0f} ± {again:.0f} | {cells} |")
    p = (np.arange(sizes.shape[1]) + 0.5) / sizes.shape[1]
    share, error = split(laws, replicate, np.column_stack([sizes, flow]))
    print("| | parameters | law | seed |\n|---|---|---|---|")
    for k, name in [*((k, f"size exceeded by {q:.3f}") for k, q in enumerate(p)), (len(p), "flow")]:
        cells = " | ".join(f"{100 * share[i, k]:.0f} ± {100 * error[i, k]:.0f} %" for i in range(3))
        print(f"| {name} | {cells} |")


if __name__ == "__main__":
    main()
