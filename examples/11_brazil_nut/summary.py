"""What the runs in data/ say, as tables: the study, whose scatter it is, and what `checks.py` changed.

``python summary.py`` runs nothing. A height that a run does not reach counts with the run's whole time, as in the
studies; the share of such runs stands beside.
"""

import csv
import math
from pathlib import Path

import numpy as np

from tamis.analysis.variance import shares, variance_split

DATA = Path(__file__).parent / "data"
NUMBERS = {"z_init", "draw", "replicate", "duration", "deepest"}


def load(file):
    """Return the columns of a file by name: numbers, NaN where a cell is empty, and words."""
    with (DATA / file).open() as lines:
        head, *body = csv.reader(lines)
    columns = dict(zip(head, zip(*body, strict=True), strict=True))
    words = {name: np.array(columns.pop(name)) for name in ("check", "law")}
    return words | {name: np.array([float(v or "nan") for v in column]) for name, column in columns.items()}


def chosen(table, **conditions):
    """Return the rows in which all columns have these values."""
    keep = np.all([table[name] == value for name, value in conditions.items()], axis=0)
    return {name: column[keep] for name, column in table.items()}


def passage(table, height):
    """Return the times at which a height was first reached, censored by the duration, and the share that is so."""
    t = table[f"t({height:.2f})"]
    never = np.isnan(t)
    return np.where(never, table["duration"], t), float(never.mean())


def cov(x):
    """Return the coefficient of variation and its standard error, that of a Gaussian sample."""
    c = float(np.std(x, ddof=1) / np.mean(x))
    return c, c * math.sqrt(0.5 / (len(x) - 1) + c * c / len(x))


def first_flight(table, z_init, until):
    """Return (height, mean time, COV) in the first flight, heights that all runs reach within 0.2 s."""
    rows = chosen(table, z_init=z_init)
    answer = []
    for height in np.arange(round(100 * z_init) + 2, round(100 * until) + 1) / 100:
        t, never = passage(rows, height)
        if never or t.max() > 0.2:
            break
        answer.append((float(height), float(t.mean()), cov(t)[0]))
    return answer


def split(table, columns):
    """Return shares of the variance (parameters, law, seed) with standard errors, (2, 3, m), of a study with seeds."""
    _, order = np.unique(table["law"], return_inverse=True)
    replicates = int(table["replicate"].max()) + 1
    y = np.stack(
        [
            np.column_stack([np.where(np.isnan(column), table["duration"], column) for column in columns])[
                table["replicate"] == r
            ]
            for r in range(replicates)
        ]
    )
    model = order[table["replicate"] == 0].astype(np.int64)
    found = variance_split(y, model, stochastic=True, rng=np.random.default_rng(1))
    return np.stack([shares(found.variance), found.share_error])


def levels(table):
    """Return the names of the columns of z_p and their fractions of time."""
    return {name: float(name[4:-1]) for name in table if name.startswith("z_p")}


def print_study(table, name):
    """Print heights z_p and first passages of one study, from each start."""
    for z_init in np.unique(table["z_init"]):
        rows = chosen(table, z_init=z_init)
        if "study" in name:
            rows = chosen(rows, replicate=0.0)
        print(f"\n{name}, from {z_init:g} m: {len(rows['law'])} runs")
        print("| p | z_p, m | sd, mm | COV, % |\n|---|---|---|---|")
        for column, p in levels(rows).items():
            z = rows[column]
            c, error = cov(z)
            print(
                f"| {p:g} | {z.mean():.3f} | {1e3 * z.std(ddof=1):.1f} | {100 * c:.1f} ± {100 * error:.1f} |"
            )
        print("| height, m | mean, s | 5 to 95 %, s | COV | never |\n|---|---|---|---|---|")
        for height in [v / 100 for v in range(round(100 * z_init) + 2, 31)]:
            t, never = passage(rows, height)
            low, high = np.quantile(t, [0.05, 0.95])
            c, error = cov(t)
            print(
                f"| {height:.2f} | {t.mean():.4g} | {low:.3g} to {high:.3g} | {c:.4f} ± {error:.4f} | {never:.3f} |"
            )


def print_split(table):
    """Print whose the scatter is."""
    for z_init in np.unique(table["z_init"]):
        rows = chosen(table, z_init=z_init)
        heights = [f"t({h / 100:.2f})" for h in range(round(100 * z_init) + 2, 31, 2)]
        names = [*levels(rows), *heights]
        share, error = split(rows, [rows[name] for name in names])
        print(
            f"\nshares of the variance, from {z_init:g} m\n| | parameters | law | seed |\n|---|---|---|---|"
        )
        for k, name in enumerate(names):
            cells = " | ".join(f"{100 * share[i, k]:.0f} ± {100 * error[i, k]:.0f} %" for i in range(3))
            print(f"| {name} | {cells} |")


def print_checks(table, study):
    """Print what moduli, scalings and packings change."""
    own = chosen(study, z_init=0.02, replicate=0.0)
    for name in dict.fromkeys(table["check"]):
        rows = chosen(table, check=name)
        deepest = rows["deepest"].max()
        if name.startswith("flight"):
            for z_init in np.unique(rows["z_init"]):
                flight = first_flight(rows, z_init, 0.23)
                cells = ", ".join(f"{h:.2f}: {100 * c:.2f}" for h, _, c in flight)
                print(
                    f"\n{name}, from {z_init:g} m, {len(chosen(rows, z_init=z_init)['law'])} runs: COV in %: {cells}"
                )
            continue
        print(
            f"\n{name}: {len(rows['law'])} runs of {rows['duration'][0]:g} s, deepest overlap {deepest:.3f}"
        )
        same = {k: v.copy() for k, v in own.items()}
        for height in (0.16, 0.2, 0.24):
            t, never = passage(rows, height)
            mine, mine_never = passage(same, height)
            mine = np.minimum(mine, rows["duration"][0])
            se = math.hypot(t.std(ddof=1) / math.sqrt(len(t)), mine.std(ddof=1) / math.sqrt(len(mine)))
            low, high = np.quantile(t, [0.05, 0.95])
            print(
                f"  t({height:.2f}) {t.mean():.2f} s ({low:.2f} to {high:.2f}, COV {cov(t)[0]:.2f}, never {never:.2f});"
                f" study {mine.mean():.2f} ({mine_never:.2f}); difference {t.mean() - mine.mean():+.2f} ± {se:.2f}"
            )
        for column in levels(rows):
            z, mine = rows[column], own[column]
            se = math.hypot(z.std(ddof=1) / math.sqrt(len(z)), mine.std(ddof=1) / math.sqrt(len(mine)))
            print(
                f"  {column} {z.mean():.4f} m, COV {100 * cov(z)[0]:.1f} %; study {mine.mean():.4f}, "
                f"{100 * cov(mine)[0]:.1f} %; difference {1e3 * (z.mean() - mine.mean()):+.1f} ± {1e3 * se:.1f} mm"
            )


def main():
    study = load("study.csv")
    print_study(study, "study")
    print_study(load("m3.csv"), "m3")
    print_split(load("seeds.csv"))
    print_checks(load("checks.csv"), study)


if __name__ == "__main__":
    main()
