"""Impacts that the surrogates never saw: what time step, accuracy and chance do to the 24 displacements.

``python checks.py`` runs fresh points of the prior at both speeds as the studies do, most of them in half their step
too, and some with the rock moved by a micrometre and to a tenth of the residual, and keeps them in data/checks.csv;
``--table`` prints what they say. They are also the truths that `recovery.py` calibrates against.
"""

import argparse

import numpy as np
from impacts import FIRST, HERE, NUMBERS, SPEEDS, fill, known, plainly, prior

FILE = HERE / "data" / "checks.csv"
POINTS = 32  # of the sequence that fresh points are taken from
VARIANTS = {
    "default": {},
    "half step": {"h": 5e-4},
    "rock moved by 1e-6 m": {"impact": 1e-6},
    "tenth of the residual": {"residual": 1e-5},
}


def numbers(variant):
    """Return {(point, speed): 12 displacements} of a variant."""
    rows = {key[1:]: row for key, row in known(FILE).items() if key[0] == variant}
    return {key: row[FIRST : FIRST + len(NUMBERS)] for key, row in rows.items()}


def table():
    """Print, by number and speed, rms and mean (with its standard error) of each variant minus the default, in m."""
    own = numbers("default")
    print("| displacement | m/s | sd over points | " + " | ".join(list(VARIANTS)[1:]) + " |")
    print("|---" * (2 + len(VARIANTS)) + "|")
    for k, name in enumerate(NUMBERS):
        for speed in SPEEDS:
            cells = [f"{np.std([row[k] for key, row in own.items() if key[1] == speed]):.3f}"]
            for variant in list(VARIANTS)[1:]:
                other = numbers(variant)
                off = np.array(
                    [other[key][k] - own[key][k] for key in other if key in own and key[1] == speed]
                )
                if len(off) < 3:
                    cells.append("-")
                    continue
                error = off.std(ddof=1) / np.sqrt(len(off))
                cells.append(f"{np.sqrt(np.mean(off**2)):.4f}, mean {off.mean():+.4f} +- {error:.4f}")
            print(f"| {name} | {speed:g} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--points", type=int, nargs=len(VARIANTS), default=(32, 30, 12, 12), help=f"of {', '.join(VARIANTS)}"
    )
    parser.add_argument("--table", action="store_true", help="print what the runs say, and run nothing")
    options = parser.parse_args()
    if not options.table:
        fresh = prior(POINTS, 2)
        fill(
            FILE,
            (
                (variant, k, speed, fresh[k], VARIANTS[variant])
                for variant, count in zip(VARIANTS, options.points, strict=True)
                for k in range(count)
                for speed in SPEEDS
            ),
        )
    table()


if __name__ == "__main__":
    plainly(main)
