"""How often the calibration with all data finds the parameters of impacts that it was given as measurements.

``python recovery.py [--variant "half step"]``: the truths are the first 20 points of `checks.py`, which no surrogate
has seen; errors of the size that the studies assume are added to their 24 displacements, and surrogates of the table
of runs (`stored.py`) calibrate against each. Nothing is run.
"""

import argparse
import warnings

import numpy as np
from checks import POINTS, numbers
from impacts import HIGH, LOW, SD, SPEEDS, prior
from stored import surrogate, tests

import tamis

TRUTHS, LEVEL = 20, 0.9


def recovered(variant="default", truths=TRUTHS, seed=3):
    """Return the errors of posterior means, (truths, 5), and whether the 90 % intervals hold the truths."""
    there, model, rng = numbers(variant), surrogate(), np.random.default_rng(seed)
    points = [k for k in range(truths) if all((k, speed) in there for speed in SPEEDS)]
    fresh, off, inside = prior(POINTS, 2), [], []
    for k in points:
        exact = np.concatenate([there[k, speed] for speed in SPEEDS])
        space, terms = tests(model, exact + np.tile(SD, 2) * rng.standard_normal(24))
        x = tamis.metropolis(space, tamis.Likelihood(space, terms), rng=rng).flat
        low, high = np.quantile(x, [0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL], axis=0)
        truth = np.array([fresh[k][name] for name in LOW])
        off.append(x.mean(axis=0) - truth)
        inside.append((low <= truth) & (truth <= high))
    return np.array(off), np.array(inside), np.array([[fresh[k][name] for name in LOW] for k in points])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--variant", default="default", help="of checks.py, whose runs are the measurements")
    warnings.simplefilter("ignore", tamis.TamisWarning)
    off, inside, truth = recovered(parser.parse_args().variant)
    titles = ("parameter", "truths within the 90 % interval", "rms error of the mean", "of the prior's range")
    print(f"| {' | '.join(titles)} | largest error, of the truth |\n{'|---' * (1 + len(titles))}|")
    for i, name in enumerate(LOW):
        rms, most = np.sqrt(np.mean(off[:, i] ** 2)), np.abs(off[:, i] / truth[:, i]).max()
        cells = f"{inside[:, i].sum()} of {len(off)} | {rms:.3g} | {rms / (HIGH[name] - LOW[name]):.0%} | {most:.1%}"
        print(f"| {name} | {cells} |")


if __name__ == "__main__":
    main()
