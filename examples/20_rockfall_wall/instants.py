"""From displacement curves to the three numbers a point that the studies read.

``python instants.py curves.csv out.csv``: columns ``t`` (s after the impact has begun), ``top``, ``base``, ``c`` and
``d`` (m); the curves must reach the instants of `observe.py` and last until the wall is at rest.
"""

import argparse
from pathlib import Path

import numpy as np
from observe import INSTANTS, base, c, d, top

from tamis.errors import StudyError
from tamis.sheets import read_csv

POINTS = {"top": top, "base": base, "c": c, "d": d}
SETTLED = 0.1  # s at the end of a curve over which it must not move on
MOVES = 0.02  # of its largest value


def instants(path):
    """Return {point: (init, max, rest)} of a file of curves; say which curve does not cover what."""
    sheet = read_csv(Path(path))
    curves = {name: sheet.numbers(name) for name in ("t", *POINTS)}
    t = curves["t"]
    if len(t) < 3 or not np.all(np.diff(t) > 0.0):
        raise StudyError(f"{path}: t must rise, in three rows or more")
    found = {}
    for name, read in POINTS.items():
        try:
            found[name] = read(curves)
        except ValueError as error:
            raise StudyError(f"{path}, column {name}: {error}; measure longer, or correct t") from error
    for name in POINTS:
        late = curves[name][t >= t[-1] - SETTLED]
        if np.ptp(late) > MOVES * np.abs(curves[name]).max():
            raise StudyError(
                f"{path}, column {name}: still moves by {np.ptp(late):.3g} m in the last {SETTLED:g} s, so that it "
                "has no displacement at rest; give the curve until it has come to rest"
            )
    return found


def written(found, path, comment=""):
    """Write the numbers as the studies read them."""
    lines = [f"# {line}" for line in comment.splitlines()]
    lines.append(",".join(["instant", *(f"{name} [m]" for name in found)]))
    for k, _ in enumerate(INSTANTS):
        lines.append(",".join([str(k + 1), *(f"{numbers[k]:.5f}" for numbers in found.values())]))
    Path(path).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("curves", help="CSV file with t, top, base, c, d")
    parser.add_argument("out", help="CSV file to write")
    options = parser.parse_args()
    written(instants(options.curves), options.out, f"from {Path(options.curves).name}")
