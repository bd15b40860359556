"""From displacement curves to the three numbers a point that the studies read, and to the curves that they show.

``python instants.py curves.csv data/520.csv``: columns ``t [s]`` after the impact has begun, ``top [m]``, ``base [m]``,
``c [m]`` and ``d [m]``. The curves must reach the instants of `observe.py` and last until the wall is at rest. They may
scatter as video does: the number at an instant and the largest are those of means over 40 ms, that at rest is the mean
of the last 0.2 s. They begin at zero and are positive along the flight. They are kept as ``data/curves-520.csv``, which
`all.toml` draws behind its bands.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from observe import INSTANTS, base, c, d, top

from tamis.errors import StudyError
from tamis.sheets import read_csv

POINTS = {"top": top, "base": base, "c": c, "d": d}
UNITS = {"t": "s", **dict.fromkeys(POINTS, "m")}
HALF = 0.02  # s, half the time over which a curve is averaged
SETTLED = 0.2  # s at the end of a curve over which it must not move on
FAR = 30.0  # m: no wall goes so far; the curve is in another unit
ZERO = 0.1  # m, within which a curve is zero as the impact begins, and beyond which it does not go against the flight
MOVES, SURE = 0.02, 3.0  # of its largest value, or as many standard errors of what it scatters by


def smooth(t, values):
    """Return the mean of a curve over 40 ms about each of its instants."""
    area = np.concatenate([[0.0], np.cumsum(0.5 * (values[1:] + values[:-1]) * np.diff(t))])
    first, last = np.maximum(t - HALF, t[0]), np.minimum(t + HALF, t[-1])
    return (np.interp(last, t, area) - np.interp(first, t, area)) / (last - first)


def at_rest(path, name, t, values):
    """Return the mean of the end of a curve; refuse one that has not come to rest."""
    late, before = t > t[-1] - SETTLED, (t > t[-1] - 2 * SETTLED) & (t <= t[-1] - SETTLED)
    if before.sum() < 2 or late.sum() < 2:
        raise StudyError(
            f"{path}, column {name}: fewer than two values in each {SETTLED:g} s at its end, so that nobody can tell "
            "whether it is at rest; sample more often, or give t in s"
        )
    moved = abs(values[late].mean() - values[before].mean())
    scatter = np.hypot(*(values[part].std(ddof=1) / np.sqrt(part.sum()) for part in (late, before)))
    if moved > max(MOVES * np.abs(values).max(), SURE * scatter):
        raise StudyError(
            f"{path}, column {name}: still moves by {moved:.3g} m in the last {SETTLED:g} s, so that it has no "
            "displacement at rest; give the curve until it has come to rest"
        )
    return values[late].mean()


def read_curves(path):
    """Return {name: values} of a file of curves, t first; say what is wrong with it."""
    sheet = read_csv(Path(path))
    for name, unit in UNITS.items():
        if sheet.units.get(name, unit) != unit:
            raise StudyError(f'{path} gives {name} in "{sheet.units[name]}"; convert it to {unit}')
    curves = {name: sheet.numbers(name) for name in UNITS}
    for name in POINTS:
        if np.abs(curves[name]).max() > FAR:
            raise StudyError(
                f"{path}, column {name}: reaches {np.abs(curves[name]).max():.4g}, which no wall does in m; convert it "
                f"to m, and head the column {name} [m]"
            )
    t = curves["t"]
    if len(t) < 3 or not np.all(np.diff(t) > 0.0):
        raise StudyError(f"{path}: t must rise, in three rows or more")
    for name in POINTS:
        even = smooth(t, curves[name])
        first = np.interp(0.0, t, even)
        if t[0] <= HALF and abs(first) > ZERO:
            raise StudyError(
                f"{path}, column {name}: {first:.3g} m as the impact begins, t = 0; give displacements since then"
            )
        if even.min() < -ZERO and -even.min() > even.max():
            raise StudyError(
                f"{path}, column {name}: goes to {even.min():.3g} m; displacements are positive along the flight"
            )
    return curves


def instants(path):
    """Return {point: (init, max, rest)} of a file of curves; say which curve does not cover what."""
    curves = read_curves(path)
    t, found = curves["t"], {}
    for name, read in POINTS.items():
        try:
            found[name] = read({"t": t, name: smooth(t, curves[name])})
        except ValueError as error:
            raise StudyError(f"{path}, column {name}: {error}; measure longer, or correct t") from error
    for name, numbers in found.items():
        numbers[-1] = at_rest(path, name, t, curves[name])
    return found


def written(found, path, comment=""):
    """Write the numbers as the studies read them."""
    lines = [f"# {line}" for line in comment.splitlines()]
    lines.append(",".join(["instant", *(f"{name} [m]" for name in found)]))
    for k, _ in enumerate(INSTANTS):
        lines.append(",".join([str(k + 1), *(f"{numbers[k]:.5f}" for numbers in found.values())]))
    Path(path).write_text("\n".join(lines) + "\n")


def written_curves(curves, path, comment):
    """Write curves as `all.toml` reads them."""
    head = f"# {comment}\n" + ",".join(f"{name} [{unit}]" for name, unit in UNITS.items()) + "\n"
    rows = "\n".join(",".join(f"{x:.5f}" for x in row) for row in zip(*curves.values(), strict=True))
    Path(path).write_text(head + rows + "\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("curves", help="CSV file with t, top, base, c, d")
    parser.add_argument("out", type=Path, help="CSV file to write, such as data/520.csv")
    options = parser.parse_args()
    try:
        if not options.out.parent.is_dir():
            raise StudyError(f"{options.out}: there is no folder {options.out.parent}")
        source = f"from {Path(options.curves).name}"
        written(instants(options.curves), options.out, f"{source}; instant 1: init, 2: largest, 3: at rest")
        beside = options.out.with_name(f"curves-{options.out.name}")
        written_curves(read_curves(options.curves), beside, source)
    except StudyError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
