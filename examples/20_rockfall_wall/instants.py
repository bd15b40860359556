"""From displacement curves to the three numbers a point that the studies read, and to the curves that they show.

``python instants.py curves.csv data/520.csv``: columns ``t [s]`` after the impact has begun, ``top [m]``, ``base [m]``,
``c [m]`` and ``d [m]``. The curves must reach the instants of `observe.py` and last until the wall is at rest. They may
scatter as video does: the number at an instant and the largest are those of means over 40 ms, that at rest is the mean
of the last 0.2 s. They begin at zero and are positive along the flight. They are kept as ``data/curves-520.csv``, which
`all.toml` draws behind its bands.

Video loses points: an empty cell leaves that value out. Short gaps are interpolated over, a number in a long one is
refused. A point that was not tracked has an empty column, or none: its numbers are left empty, and the studies do
without them.
"""

import argparse
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
from observe import EARLY, INSTANTS, LATE, base, c, d, top

from tamis.errors import StudyError
from tamis.sheets import read_csv

POINTS = {"top": top, "base": base, "c": c, "d": d}
WHEN = {"top": EARLY, "base": EARLY, "c": LATE, "d": LATE}  # of their first numbers
UNITS = {"t": "s", **dict.fromkeys(POINTS, "m")}
HALF = 0.02  # s, half the time over which a curve is averaged
SETTLED = 0.2  # s at the end of a curve over which it must not move on
FAR = 30.0  # m: no wall goes so far; the curve is in another unit
ZERO = 0.1  # m, within which a curve is zero as the impact begins, and beyond which it does not go against the flight
GAP = 0.5  # of an instant: a longer gap tells nothing of it; half of 0.1 s at 10 m/s2 is 3 mm off
BLIND = 0.125  # s: a longer gap may hide the largest value, which a shorter one at 3 m/s2 does by 6 mm
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
            f"{path}, column {name}: fewer than two values in each {SETTLED:g} s before {t[-1]:g} s, where it ends, so "
            "that nobody can tell whether it is at rest; sample more often, fill gaps there, or give t in s"
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
    """Return {name: values} of a file of curves, t first, NaN where a point was not seen; say what is wrong with it."""
    sheet = read_csv(Path(path))
    for name, unit in UNITS.items():
        if sheet.units.get(name, unit) != unit:
            raise StudyError(f'{path} gives {name} in "{sheet.units[name]}"; convert it to {unit}')
    others = [name for name in sheet.cells if name not in UNITS]
    lacking = [name for name in POINTS if name not in sheet.cells]
    if lacking and (others or len(lacking) == len(POINTS)):
        sheet.text(lacking[0])  # under another name, it seems
    t = sheet.numbers("t")
    curves = {"t": t} | {
        name: np.full(len(t), np.nan) if name in lacking else sheet.numbers(name, missing=True)
        for name in POINTS
    }
    if len(t) < 3 or not np.all(np.diff(t) > 0.0):
        raise StudyError(f"{path}: t must rise, in three rows or more")
    for name, (own, values) in seen(curves).items():
        if np.abs(values).max() > FAR:
            raise StudyError(
                f"{path}, column {name}: reaches {np.abs(values).max():.4g}, which no wall does in m; convert it "
                f"to m, and head the column {name} [m]"
            )
        if len(own) < 3:
            raise StudyError(
                f"{path}, column {name}: has {len(own)} of {len(t)} values; expected three or more, or none of a point "
                "that was not tracked"
            )
        even = smooth(own, values)
        first = np.interp(0.0, own, even)
        if own[0] <= HALF and abs(first) > ZERO:
            raise StudyError(
                f"{path}, column {name}: {first:.3g} m as the impact begins, t = 0; give displacements since then"
            )
        if even.min() < -ZERO and -even.min() > even.max():
            raise StudyError(
                f"{path}, column {name}: goes to {even.min():.3g} m; displacements are positive along the flight"
            )
    if not seen(curves):
        raise StudyError(f"{path}: no point has a value; expected a column of numbers for one at least")
    return curves


def seen(curves):
    """Return {point: (t, values)} where it was seen, of the points that were."""
    there = {name: np.isfinite(curves[name]) for name in POINTS}
    return {name: (curves["t"][own], curves[name][own]) for name, own in there.items() if own.any()}


def check_gaps(path, name, t, values):
    """Refuse a curve whose first or largest number lies in a long gap: where, and what to do."""
    advice = "fill the gap, or empty the column to do without this point"
    when, even, scatter = WHEN[name], smooth(t, values), SURE * np.std(values - smooth(t, values))
    still = max(MOVES * np.abs(even).max(), scatter)
    for before, after in pairwise(t):
        gap = f"{path}, column {name}: no value between {before:g} and {after:g} s"
        if before < when < after and after - before > GAP * when:
            raise StudyError(f"{gap}, so that its displacement at {when:g} s is not known; {advice}")
        if after <= when or after - before <= BLIND:
            continue
        stood = np.ptp(even[(t > before - SETTLED) & (t <= before)]) <= still  # at rest before the gap
        later = even[t >= after]
        if (
            not stood and later.max() <= later[0] + still
        ):  # it rises no more: it was largest there, or in the gap
            raise StudyError(f"{gap}, where it may have been largest; {advice}")


def instants(path):
    """Return {point: (init, max, rest)} of a file of curves, NaN of points not seen; say which does not cover what."""
    found = {name: np.full(len(INSTANTS), np.nan) for name in POINTS}
    there = seen(read_curves(path))
    for name, (t, values) in there.items():
        try:
            found[name] = POINTS[name]({"t": t, name: smooth(t, values)})
        except ValueError as error:
            raise StudyError(f"{path}, column {name}: {error}; measure longer, or correct t") from error
    for name, (t, values) in there.items():
        check_gaps(path, name, t, values)
        found[name][-1] = at_rest(path, name, t, values)
    return found


def told(curves):
    """Return in words what was left out of curves, and what was interpolated over."""
    words, there = [], seen(curves)
    for name in POINTS:
        if name not in there:
            words.append(f"{name} was not tracked: the studies do without its numbers")
            continue
        t, gaps = there[name][0], np.diff(there[name][0])
        absent = len(curves["t"]) - len(t)
        if absent:
            k = int(np.argmax(gaps))
            longest = f"the longest gap from {t[k]:g} to {t[k + 1]:g} s"
            words.append(f"{name} lacks {absent} of {len(curves['t'])} values, {longest}: interpolated")
    return words


def cell(value):
    """Return a number as a cell of a table, empty if it is missing."""
    return "" if np.isnan(value) else f"{value:.5f}"


def written(found, path, comment=""):
    """Write the numbers as the studies read them."""
    lines = [f"# {line}" for line in comment.splitlines()]
    lines.append(",".join(["instant", *(f"{name} [m]" for name in found)]))
    for k, _ in enumerate(INSTANTS):
        lines.append(",".join([str(k + 1), *(cell(numbers[k]) for numbers in found.values())]))
    Path(path).write_text("\n".join(lines) + "\n")


def written_curves(curves, path, comment):
    """Write curves as `all.toml` reads them."""
    head = f"# {comment}\n" + ",".join(f"{name} [{unit}]" for name, unit in UNITS.items()) + "\n"
    rows = "\n".join(",".join(cell(x) for x in row) for row in zip(*curves.values(), strict=True))
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
        curves = read_curves(options.curves)
        written_curves(curves, beside, source)
        print("\n".join(told(curves)), end="\n" if told(curves) else "")
    except StudyError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
