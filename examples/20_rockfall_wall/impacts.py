"""One impact after the other, kept in a CSV file with its twelve displacements: what the scripts beside it share."""

import csv
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from observe import INSTANTS, base, c, d, top

import tamis
from tamis.design import sobol
from tamis.simulation import find

ALL = {"d_z": 0.068, "v_p": 0.071, "mu_cc": 0.316, "mu_cs": 0.307, "e": 0.222}  # Table 5, 'all'
LOW = {"d_z": 0.05, "v_p": 0.01, "mu_cc": 0.25, "mu_cs": 0.3, "e": 0.0}  # Table 4
HIGH = {"d_z": 0.10, "v_p": 0.10, "mu_cc": 0.55, "mu_cs": 0.6, "e": 0.3}
SPEEDS = (20.0, 28.0)
NUMBERS = [f"{point} {instant}" for point in ("top", "base", "c", "d") for instant in INSTANTS]
HEAD = ["variant", "point", "speed", *ALL, *NUMBERS, "lost", "at_rest", "unsolved", "cpu"]


def prior(n, seed):
    """Return n points of the prior, by name."""
    low, high = np.array(list(LOW.values())), np.array(list(HIGH.values()))
    u = sobol(n, len(LOW), np.random.default_rng(seed))
    return [dict(zip(LOW, (low + row * (high - low)).tolist(), strict=True)) for row in u]


def twelve(outputs):
    """Return init, max and rest of Top, Base, C and D."""
    return np.concatenate([read(outputs) for read in (top, base, c, d)])


def impact(inputs):
    """Run one impact and return its numbers."""
    start = time.process_time()
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore", tamis.TamisWarning)
        found = find("tamis:nscd.rockfall_wall").run(inputs, Path(scratch))
    told = [float(found[name]) for name in ("lost", "at_rest", "unsolved")]
    return [*twelve(found), *told, time.process_time() - start]


def known(file):
    """Return the rows of a file by variant, number of the point and speed: parameters, displacements, the rest."""
    if not file.exists():
        return {}
    with file.open() as lines:
        rows = list(csv.reader(lines))[1:]
    return {(row[0], int(row[1]), float(row[2])): np.array(row[3:], dtype=float) for row in rows}


def fill(file, asked):
    """Run what a file lacks of (variant, number, speed, parameters, other inputs), and add it as it comes."""
    there = known(file)
    if not file.exists():
        file.write_text(",".join(HEAD) + "\n")
    for variant, number, speed, parameters, more in asked:
        if (variant, number, speed) not in there:
            row = impact({**more, **parameters, "speed": speed})
            with file.open("a") as out:
                numbers = [f"{x:.6g}" for x in (*parameters.values(), *row)]
                csv.writer(out, lineterminator="\n").writerow([variant, number, f"{speed:g}", *numbers])
