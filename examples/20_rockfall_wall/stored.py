"""The runs of the studies as a table of displacements, data/runs.csv: surrogates from it take seconds and no run.

``python stored.py`` prints errors left out, by polynomials and beside them by Kriging, and total Sobol indices of the
24 displacements, from the table alone; ``--keep`` writes it anew from the runs of the studies in this folder.
`recovery.py` and `breaking.py` read it.
"""

import argparse
from dataclasses import replace

import numpy as np
from impacts import ALL, HEAD, HERE, HIGH, LOW, NUMBERS, SPEEDS, STUDY, both, known, plainly, twelve, written

from tamis.errors import StudyError
from tamis.inference.likelihood import Emulated
from tamis.runs.store import RunStore
from tamis.surrogates.joined import share_errors
from tamis.surrogates.kriging import fit_kriging
from tamis.surrogates.pce import fit_pce

FILE = HERE / "data" / "runs.csv"
STUDIES = {"default": "energy", "zigzag 29.4": "runner_up", "breakable": "breakable"}  # variant: study
DEGREE = STUDY.tables.surrogate.degree  # of the polynomials


def keep():
    """Write the table from the runs that the studies have asked for; rows of its other variants stay."""
    store, there = RunStore(HERE / "runs"), {}
    for variant, stem in STUDIES.items():
        file = HERE / "results" / stem / "runs.npz"
        if file.exists():
            there[variant] = np.load(file)["keys"]
        else:
            print(f"{variant}: no results of {stem}.toml")
    if not there:
        raise StudyError(f"{FILE.name} stays as it is: no study has results; `make rockfall` makes them")
    others = {key: row for key, row in known(FILE).items() if key[0] not in there}
    with FILE.open("w", newline="") as out:
        out.write(",".join(HEAD) + "\n")
        for variant, tests in there.items():
            for speed, keys in zip(SPEEDS, tests, strict=True):
                runs = store.get_many(keys.tolist())
                for point, key in enumerate(keys.tolist()):
                    found, inputs = store.outputs(key), runs[key].inputs
                    state = [float(found[name]) for name in ("lost", "at_rest", "unsolved")]
                    row = [inputs[name] for name in ALL], twelve(found), state, [runs[key].seconds]
                    written(out, variant, point, speed, np.concatenate(row))
        for key, row in others.items():
            written(out, *key, row)


def runs(variant="default"):
    """Return points u (n, 5) of the unit cube of a variant, and its displacements (n, 24), the weaker test first."""
    rows = both(FILE, variant).values()
    low, high = (np.array(list(bound.values())) for bound in (LOW, HIGH))
    u = (np.array([x for x, _ in rows]) - low) / (high - low)
    if u.min() < -1e-4 or u.max() > 1.0 + 1e-4:  # six digits are stored
        raise StudyError(f"{FILE.name} holds points of a wider prior than that of common.toml")
    return u, np.array([y for _, y in rows])


def surrogate(variant="default", n=None):
    """Return the polynomial chaos of the first n runs of a variant, which shares errors as that of a study does."""
    u, y = (rows[:n] for rows in runs(variant))
    return share_errors(fit_pce(u, y, degree=DEGREE), u)


def tests(model, measured):
    """Return what a likelihood is made of: the two tests with these measurements (24,), and who answers for them."""
    terms, m = [], len(NUMBERS)
    for k, test in enumerate(STUDY.calibrated):
        rows = measured[m * k : m * (k + 1)].reshape(-1, 1, len(NUMBERS) // 4)
        observations = [replace(one, y=row) for one, row in zip(test.observations, rows, strict=True)]
        answers = Emulated(STUDY.space, model, slice(m * k, m * (k + 1)))
        terms.append((replace(test, observations=tuple(observations)), answers))
    return STUDY.space, tuple(terms)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--keep", action="store_true", help="write the table from the runs in this folder")
    parser.add_argument("--variant", default="default", choices=STUDIES, help="of the wall")
    options = parser.parse_args()
    if options.keep:
        keep()
    u, y = runs(options.variant)
    model, other = fit_pce(u, y, degree=DEGREE), fit_kriging(u, y, rng=np.random.default_rng(0))
    titles = ("displacement", "m/s", "mean, m", "1 - Q2 left out", "rms error, m", "1 - Q2, Kriging", *LOW)
    print(f"{len(u)} points\n| {' | '.join(titles)} |\n{'|---' * len(titles)}|")
    total = model.sobol().total
    for k, name in enumerate([*NUMBERS, *NUMBERS]):
        cells = " | ".join(f"{value:.2f}" for value in total[:, k])
        left = f"{1 - model.score.q2[k]:.3f} | {model.score.rmse[k]:.4f} | {1 - other.score.q2[k]:.3f}"
        print(f"| {name} | {SPEEDS[k // 12]:g} | {y[:, k].mean():.3f} | {left} | {cells} |")


if __name__ == "__main__":
    plainly(main)
