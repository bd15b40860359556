"""One impact after the other, kept in a CSV file with its twelve displacements: what the scripts beside it share.

Wall, prior, speeds and errors of measurement are those of `common.toml`, so that a wall of your own is said there only.
"""

import csv
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from observe import INSTANTS, base, c, d, top

import tamis
from tamis import Study
from tamis.design import sobol
from tamis.errors import StudyError, TamisError

HERE = Path(__file__).parent
STUDY = Study.load(HERE / "common.toml")
ALL = {"d_z": 0.068, "v_p": 0.071, "mu_cc": 0.316, "mu_cs": 0.307, "e": 0.222}  # Table 5, 'all'
LOW, HIGH = ({one.name: float(one.prior.ppf(q)) for one in STUDY.space.parameters} for q in (0.0, 1.0))
SPEEDS = tuple(float(test.conditions["speed"]) for test in STUDY.calibrated)
SD = np.array([one.noise.sd for test in STUDY.calibrated for one in test.observations for _ in INSTANTS])
NUMBERS = [f"{point} {instant}" for point in ("top", "base", "c", "d") for instant in INSTANTS]
FIRST = len(ALL)  # column of the first displacement in a row of `known`
HEAD = ["variant", "version", "point", "speed", *ALL, *NUMBERS, "lost", "at_rest", "unsolved", "cpu"]


def prior(n, seed):
    """Return n points of the prior, by name."""
    low, high = np.array(list(LOW.values())), np.array(list(HIGH.values()))
    u = sobol(n, len(LOW), np.random.default_rng(seed))
    return [dict(zip(LOW, (low + row * (high - low)).tolist(), strict=True)) for row in u]


def twelve(outputs):
    """Return init, max and rest of Top, Base, C and D."""
    return np.concatenate([read(outputs) for read in (top, base, c, d)])


def run(inputs):
    """Return the outputs of one impact on the wall of the studies."""
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore", tamis.TamisWarning)
        return STUDY.simulator.run({**STUDY.fixed, **inputs}, Path(scratch))


def impact(inputs):
    """Run one impact and return its numbers."""
    start = time.process_time()
    found = run(inputs)
    told = [float(found[name]) for name in ("lost", "at_rest", "unsolved")]
    return [*twelve(found), *told, time.process_time() - start]


def version():
    """Return whose rows count: the version of the simulator, and the inputs by which a wall is not the default one."""
    return "; ".join([STUDY.simulator.version, *(f"{name} = {x}" for name, x in sorted(STUDY.fixed.items()))])


def known(file):
    """Return the rows of a file by variant, number of the point and speed: parameters, displacements, the rest.

    Rows of another version of the simulator, or of another wall, count for nothing.
    """
    if not file.exists():
        return {}
    with file.open() as lines:
        rows = [row for row in list(csv.reader(lines))[1:] if row[1] == version()]
    return {(row[0], int(row[2]), float(row[3])): np.array(row[4:], dtype=float) for row in rows}


def both(file, variant):
    """Return {point: (parameters (5,), displacements (24,) by test)} of a variant run at both speeds."""
    rows = {key[1:]: row for key, row in known(file).items() if key[0] == variant}
    points = sorted({point for point, _ in rows if all((point, speed) in rows for speed in SPEEDS)})
    if not points:
        raise StudyError(
            f'{file.name} has no runs "{variant}" of this wall (version {version()}) at both '
            f"{' and '.join(f'{speed:g}' for speed in SPEEDS)} m/s"
        )
    return {
        point: (
            rows[point, SPEEDS[0]][:FIRST],
            np.concatenate([rows[point, speed][FIRST : FIRST + len(NUMBERS)] for speed in SPEEDS]),
        )
        for point in points
    }


def written(out, variant, number, speed, numbers):
    """Add a row: parameters, displacements, the rest."""
    start = [variant, version(), number, f"{speed:g}"]
    csv.writer(out, lineterminator="\n").writerow([*start, *(f"{x:.6g}" for x in numbers)])


def fill(file, asked):
    """Run what a file lacks of (variant, number, speed, parameters, other inputs), and add it as it comes."""
    there = known(file)
    if not there:
        file.write_text(",".join(HEAD) + "\n")
    for variant, number, speed, parameters, more in asked:
        if (variant, number, speed) not in there:
            row = impact({**more, **parameters, "speed": speed})
            with file.open("a") as out:
                written(out, variant, number, speed, [*parameters.values(), *row])


def plainly(main):
    """Run a script; what is missing or wrong is said in a sentence."""
    try:
        main()
    except TamisError as error:
        sys.exit(str(error))
