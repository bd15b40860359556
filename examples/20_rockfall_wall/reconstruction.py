"""Which reading of the wall fits what Gupta et al. (2023) print: variants of pattern, ends and rings, one row each.

``python reconstruction.py [--points N]`` runs each variant at the parameters of Table 5 'all' and at N points of the
prior, at both speeds, and keeps the 24 displacements in data/reconstruction.csv. Runs that are there are not made
again. ``--table`` prints what follows from them, as Markdown.
"""

import argparse

import numpy as np
from impacts import ALL, HERE, NUMBERS, SPEEDS, fill, known, plainly, prior
from scipy.stats import spearmanr

from tamis.sim.nscd.scenes.rockfall import ArticulatedWall

FILE = HERE / "data" / "reconstruction.csv"
VARIANTS = {
    "zigzag 22.5; flat 40 mm; rings": {},
    "zigzag 22.5; round; rings": {"ends": "round"},
    "rows 45; flat 40 mm; rings": {"pattern": "rows", "angle": 45.0},
    "zigzag 22.5; flat 40 mm; faces": {"holes": "faces"},
    "zigzag 22.5; flat 15 mm; rings": {"gap": 0.015},
    "zigzag 22.5; flat 40 mm; bores": {"holes": "bores"},
    "zigzag 29.4; flat 40 mm; rings": {"angle": 29.4},
    "rows 45; flat 40 mm; faces": {"pattern": "rows", "angle": 45.0, "holes": "faces"},
    "zigzag 22.5; flat 15 mm; faces": {"gap": 0.015, "holes": "faces"},
    "zigzag 22.5; round; faces": {"ends": "round", "holes": "faces"},
    "rows 45; round; rings": {"pattern": "rows", "angle": 45.0, "ends": "round"},
    "zigzag 22.5; flat 40 mm, 0.40 m wide; rings": {"flat": 0.40},
}
FIRST = len(ALL)  # column of the first displacement
TITLES = ("length, m", "largest, axis / distant, m", "mean, axis / distant, m", "points", "C rest, mu_cs")
TITLES += ("Top init 20 m/s, v_p", "D init, v_p", "Top init 28 m/s, e", "CPU s")


def correlation(rows, number, parameter, speed):
    """Return the rank correlation of a displacement with a parameter over the points of the prior, in words."""
    own = np.array([row for (point, at), row in rows.items() if point > 0 and at == speed])
    if len(own) < 6:
        return "-"
    column = FIRST + NUMBERS.index(number)
    return f"{spearmanr(own[:, list(ALL).index(parameter)], own[:, column]).statistic:.2f}"


def told(variant, rows):
    """Return the cells of a variant."""
    table5 = np.array([rows[0, speed][FIRST : FIRST + len(NUMBERS)] for speed in SPEEDS])
    axis, far = table5[:, :6], table5[:, 6:]
    counted = np.concatenate([axis[0], axis[1, 3:]])  # without Top at 1020 kJ, as the paper
    points = min(max(point for point, speed in rows if speed == at) for at in SPEEDS)
    return [
        f"{ArticulatedWall(**VARIANTS[variant]).plan.length:.2f}",
        f"{axis.max():.2f} / {far.max():.2f}",
        f"{counted.mean():.2f} / {far.mean():.2f}",
        str(points),
        ", ".join(correlation(rows, "c rest", "mu_cs", speed) for speed in SPEEDS),
        correlation(rows, "top init", "v_p", 20.0),
        ", ".join(correlation(rows, "d init", "v_p", speed) for speed in SPEEDS),
        correlation(rows, "top init", "e", 28.0),
        f"{np.mean([row[-1] for row in rows.values()]):.1f}",
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--points", type=int, default=0, help="points of the prior, besides Table 5")
    parser.add_argument(
        "--only", nargs="+", default=list(VARIANTS), choices=VARIANTS, help="that have the points"
    )
    parser.add_argument("--table", action="store_true", help="print what the runs say, and run nothing")
    options = parser.parse_args()
    if not options.table:
        asked = [ALL, *(prior(options.points, 1) if options.points else [])]
        fill(
            FILE,
            (
                (variant, k, speed, parameters, more)
                for k, parameters in enumerate(asked)
                for variant, more in VARIANTS.items()
                if k == 0 or variant in options.only
                for speed in SPEEDS
            ),
        )
    there = known(FILE)
    print(f"| variant | {' | '.join(TITLES)} |\n{'|---' * (1 + len(TITLES))}|")
    for variant in VARIANTS:
        rows = {key[1:]: row for key, row in there.items() if key[0] == variant}
        if all((0, speed) in rows for speed in SPEEDS):
            print(f"| {variant} | {' | '.join(told(variant, rows))} |")


if __name__ == "__main__":
    plainly(main)
