"""Where the rock's energy goes, by mechanism: impacts at draws of the posterior of all data, kept in data/books.csv.

``python books.py`` calibrates by surrogates of the table of runs (`stored.py`) against the numerical experiment, runs
30 draws and the mode at both speeds, and keeps what each mechanism took; ``--table`` prints shares and runs nothing.
`books.toml` asks the same of the posterior of `all.toml`, for a wall of your own, with a report.
"""

import argparse
import csv
import warnings

import numpy as np
from breaking import measured
from evaluate import mode
from impacts import HERE, LOW, SPEEDS, STUDY, run
from stored import surrogate, tests

import tamis

FILE = HERE / "data" / "books.csv"
DRAWS = 30
MECHANISMS = {
    "impact_rock": "impacts of the rock on blocks",
    "impact_steel": "impacts of bars in holes, slings becoming taut",
    "friction_blocks": "friction of blocks on blocks",
    "friction_ground": "friction of blocks on the ground",
    "impact_blocks": "impacts of blocks on blocks and ground",
    "impact_fall": "the rock's fall to the ground after the blow",
    "friction_steel": "friction of steel",
    "friction_rock": "friction of the rock",
    "lifted": "lifted (mostly the rock, which falls from 1.7 m)",
    "kinetic": "still moving at the end (the rock rolls)",
}
HEAD = ["version", "speed", "draw", "struck", *MECHANISMS, *LOW]


def points(seed=4):
    """Return draws of the posterior of all data and its mode, (31, 5)."""
    space, terms = tests(surrogate(), measured(""))
    posterior = tamis.metropolis(space, tamis.Likelihood(space, terms), rng=np.random.default_rng(seed))
    chosen = np.linspace(0, len(posterior.flat) - 1, DRAWS).astype(int)
    return np.vstack([posterior.flat[chosen], mode(posterior)])


def known():
    """Return the rows of this version of the simulator by speed and draw: what struck, what each mechanism took."""
    if not FILE.exists():
        return {}
    with FILE.open() as lines:
        rows = [row for row in list(csv.reader(lines))[1:] if row[0] == STUDY.simulator.version]
    return {(float(row[1]), int(row[2])): np.array(row[3:], dtype=float) for row in rows}


def fill():
    """Run what the file lacks, and add it as it comes."""
    there = known()
    if not there:
        FILE.write_text(",".join(HEAD) + "\n")
    for draw, x in enumerate(points()):
        for speed in SPEEDS:
            if (speed, draw) in there:
                continue
            inputs = dict(zip(LOW, x.tolist(), strict=True))
            found = run({**inputs, "speed": speed})
            taken = [float(np.ravel(found[name])[-1]) for name in ("struck", *MECHANISMS)]
            row = [f"{value:.12g}" for value in (*taken, *inputs.values())]
            with FILE.open("a", newline="") as out:
                csv.writer(out, lineterminator="\n").writerow(
                    [STUDY.simulator.version, f"{speed:g}", draw, *row]
                )


def shares(speed):
    """Return the share of each mechanism in each run at a speed, (31, 10)."""
    rows = np.array([row for (at, _), row in known().items() if at == speed])
    return rows[:, 1 : 1 + len(MECHANISMS)] / rows[:, :1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--table", action="store_true", help="print what the runs say, and run nothing")
    warnings.simplefilter("ignore", tamis.TamisWarning)
    if not parser.parse_args().table:
        fill()
    both = [100.0 * shares(speed) for speed in SPEEDS]
    print("| mechanism | " + " | ".join(f"{speed:g} m/s" for speed in SPEEDS) + " |\n|---|---|---|")
    for k, words in enumerate(MECHANISMS.values()):
        cells = []
        for rows in both:
            low, middle, high = np.quantile(rows[:, k], [0.05, 0.5, 0.95])
            cells.append(f"{middle:.1f} % ({low:.1f} to {high:.1f})")
        print(f"| {words} | {' | '.join(cells)} |")
    gaps = [np.abs(rows.sum(axis=1) - 100.0).max() / 100.0 for rows in both]
    print(f"\nlargest gap of a run's sum: {max(gaps):.0e} of what struck")


if __name__ == "__main__":
    main()
