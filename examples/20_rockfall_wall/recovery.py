"""How often the calibration with all data finds the parameters of impacts that it was given as measurements.

``python recovery.py [--variant "half step"]``: the truths are the first 20 points of `checks.py`, which no surrogate
has seen; errors of the size that the studies assume are added to their 24 displacements, and surrogates of the table
of runs (`stored.py`) calibrate against each. Nothing is run.
"""

import argparse
import warnings

import numpy as np
from checks import FILE
from impacts import HIGH, LOW, SD, both, plainly
from stored import surrogate, tests

import tamis

TRUTHS, LEVEL = 20, 0.9


def recovered(variant="default", truths=TRUTHS, seed=3):
    """Return the errors of posterior means, (truths, 5), and whether the 90 % intervals hold the truths."""
    there, model, rng = both(FILE, variant), surrogate(), np.random.default_rng(seed)
    off, inside, known = [], [], []
    for truth, exact in [there[k] for k in range(truths) if k in there]:
        space, terms = tests(model, exact + SD * rng.standard_normal(len(SD)))
        x = tamis.metropolis(space, tamis.Likelihood(space, terms), rng=rng).flat
        low, high = np.quantile(x, [0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL], axis=0)
        off.append(x.mean(axis=0) - truth)
        inside.append((low <= truth) & (truth <= high))
        known.append(truth)
    return np.array(off), np.array(inside), np.array(known)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--variant", default="default", help="of checks.py, whose runs are the measurements")
    warnings.simplefilter("ignore", tamis.TamisWarning)
    off, inside, _ = recovered(parser.parse_args().variant)
    titles = ("parameter", "truths within the 90 % interval", "rms error of the mean", "of the prior's range")
    print(f"| {' | '.join(titles)} | largest error |\n{'|---' * (1 + len(titles))}|")
    for i, name in enumerate(LOW):
        rms, most = np.sqrt(np.mean(off[:, i] ** 2)), np.abs(off[:, i]).max()
        cells = f"{inside[:, i].sum()} of {len(off)} | {rms:.3g} | {rms / (HIGH[name] - LOW[name]):.0%} | {most:.3g}"
        print(f"| {name} | {cells} |")


if __name__ == "__main__":
    plainly(main)
