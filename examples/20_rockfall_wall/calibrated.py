"""The calibrated wall against its data: impacts at the mean of the posterior, kept in data/calibrated.csv.

``python calibrated.py [--repeats N]`` calibrates by surrogates of the table of runs (`stored.py`) against the numerical
experiment, runs both tests at the mean of the posterior of all data, and N times more with the rock moved by some
micrometres, which tells what chance makes of it; ``--table`` prints the errors and runs nothing.

Gupta et al. (2023) give errors as shares of "representative displacements" and do not say which: 8.6 % on the impact
axis, 5.6 % on the distant one. Shares of the largest displacement of each axis and of the mean one are both printed.
"""

import argparse
import warnings

import numpy as np
from breaking import measured
from impacts import FIRST, HERE, LOW, NUMBERS, SPEEDS, fill, known, plainly
from stored import surrogate, tests

import tamis
from tamis.errors import StudyError

FILE = HERE / "data" / "calibrated.csv"
MEAN = "mean of the posterior of all data"
PRINTED = {"impact": 0.086, "distant": 0.056}


def posterior(counted=slice(None), seed=4):
    """Return the posterior of some of the 24 measurements, by the table of runs."""
    y = np.full(len(SPEEDS) * len(NUMBERS), np.nan)
    y[counted] = measured("")[counted]
    space, terms = tests(surrogate(), y)
    return tamis.metropolis(space, tamis.Likelihood(space, terms), rng=np.random.default_rng(seed))


def run_all(repeats):
    """Run what the file lacks: both tests at the mean, and as often again with the rock a little aside."""
    there = known(FILE)
    if there:  # its parameters: chance would move the mean of another chain
        x = next(iter(there.values()))[: len(LOW)]
    else:
        x = posterior().flat.mean(axis=0)
    mean = {name: float(f"{value:.6g}") for name, value in zip(LOW, x, strict=True)}  # as it is kept
    asked = [(MEAN, k, speed, mean, {"impact": k * 1e-6}) for k in range(1 + repeats) for speed in SPEEDS]
    fill(FILE, asked)


def runs():
    """Return the 24 displacements of each repetition, (k, 24), the rock as aimed first."""
    rows = {key[1:]: row[FIRST : FIRST + len(NUMBERS)] for key, row in known(FILE).items()}
    whole = [k for k in sorted({k for k, _ in rows}) if all((k, speed) in rows for speed in SPEEDS)]
    if not whole:
        raise StudyError(f"{FILE.name} has no runs of this wall; python calibrated.py makes them")
    return np.array([np.concatenate([rows[k, speed] for speed in SPEEDS]) for k in whole])


def axes():
    """Return {axis: which of the 24 numbers are on it}."""
    half = len(NUMBERS) // 2
    impact = np.tile(np.arange(2 * half) < half, len(SPEEDS))
    paper = impact.copy()
    paper[2 * half : 2 * half + 3] = False  # Top in the stronger test, which the paper leaves out
    return {"impact": impact, "impact, without Top at 1020 kJ": paper, "distant": ~impact}


def misfits(found, data):
    """Return {axis: (rms error in m, its share of the largest displacement, of the mean one)}; NaN is not measured."""
    table = {}
    for name, own in axes().items():
        rms = float(np.sqrt(np.nanmean((found - data)[own] ** 2)))
        table[name] = rms, rms / float(np.nanmax(data[own])), rms / float(np.nanmean(data[own]))
    return table


def told(found, data):
    """Print errors of repetitions (k, 24): those of the first, and from least to most of all."""
    rows = [misfits(one, data) for one in found]
    print("\n| axis | rms error, m | of the largest displacement | of the mean | printed |")
    print("|---" * 5 + "|")
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        cells = []
        for form, column in zip((".4f", ".1%", ".1%"), values.T, strict=True):
            span = f" ({column.min():{form}} to {column.max():{form}})" if len(column) > 1 else ""
            cells.append(f"{column[0]:{form}}{span}")
        print(f"| {name} | {' | '.join(cells)} | {PRINTED[name.partition(',')[0]]:.1%} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=0, help="with the rock moved by 1, 2, ... micrometres")
    parser.add_argument("--table", action="store_true", help="print what the runs say, and run nothing")
    options = parser.parse_args()
    warnings.simplefilter("ignore", tamis.TamisWarning)
    if not options.table:
        run_all(options.repeats)
    told(runs(), measured(""))


if __name__ == "__main__":
    plainly(main)
