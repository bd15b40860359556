"""Do struck blocks break? Evidence of a wall whose blocks do against one whose do not, for measurements of either.

``python breaking.py``: both walls answer by surrogates of 100 points (`stored.py`), the measurements are the two
numerical experiments (data/520.csv and its like, data/broken-520.csv and its like), each with all 24 displacements and
without Top in the stronger test. Nothing is run. For your own measurements: ``tamis compare unbreakable.toml
breakable.toml``.
"""

import warnings

import numpy as np
from impacts import HERE, NUMBERS, plainly
from stored import surrogate, tests

import tamis
from tamis.sheets import read_csv

WALLS = {"unbreakable": "default", "breakable": "breakable"}
POINTS = 100  # of each wall
DATA = {"of the unbreakable wall": "", "of the breakable wall": "broken-"}


def measured(stem):
    """Return the 24 measurements of a numerical experiment, NaN where there is none."""
    sheets = [read_csv(HERE / "data" / f"{stem}{energy}.csv") for energy in (520, 1020)]
    points = ("top", "base", "c", "d")
    return np.concatenate([sheet.numbers(name, missing=True) for sheet in sheets for name in points])


def evidences(seed=5):
    """Return {(measurements, whether with Top at 1020 kJ): {wall: (log evidence, its error)}}."""
    models = {wall: surrogate(variant, POINTS) for wall, variant in WALLS.items()}
    found = {}
    for words, stem in DATA.items():
        for whole in (True, False):
            y = measured(stem)
            if not whole:
                y[len(NUMBERS) : len(NUMBERS) + 3] = np.nan  # a measurement that is not there
            for wall, model in models.items():
                space, terms = tests(model, y)
                one = tamis.tmcmc(
                    space, tamis.Likelihood(space, terms), n=2000, rng=np.random.default_rng(seed)
                )
                found.setdefault((words, whole), {})[wall] = one.log_evidence
    return found


def main():
    warnings.simplefilter("ignore", tamis.TamisWarning)
    print("| measurements | Top at 1020 kJ | log evidence, unbreakable | breakable | log of their ratio |")
    print("|---" * 5 + "|")
    for (words, whole), walls in evidences().items():
        cells = [f"{value:.1f} +- {error:.1f}" for value, error in walls.values()]
        ratio = walls["breakable"][0] - walls["unbreakable"][0]
        print(f"| {words} | {'with' if whole else 'without'} | {' | '.join(cells)} | {ratio:+.1f} |")


if __name__ == "__main__":
    plainly(main)
