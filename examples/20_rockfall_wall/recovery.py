"""How often the calibration with all data finds the parameters of impacts that it was given as measurements.

``python recovery.py [STUDY] [--variant "half step"]``: the truths are the first 20 points of `checks.py`, which no
surrogate has seen; errors of the size that the studies assume are added to their 24 displacements, and the surrogates
of the study calibrate against each. Nothing is run.
"""

import argparse
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from checks import POINTS, numbers
from impacts import HIGH, LOW, SPEEDS, prior

import tamis
from tamis import Study
from tamis.study.context import emulated, load_surrogate

HERE = Path(__file__).parent
TRUTHS, LEVEL = 20, 0.9


def measured(series, values):
    """Return the series with these twelve numbers instead of its data."""
    experiment, k, observations = series.experiments[0], 0, []
    for one in experiment.observations:
        observations.append(replace(one, y=values[None, k : k + one.size]))
        k += one.size
    return replace(series, experiments=(replace(experiment, observations=tuple(observations)),))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("study", nargs="?", default="all.toml")
    parser.add_argument("--variant", default="default", help="of checks.py, whose runs are the measurements")
    options = parser.parse_args()
    warnings.simplefilter("ignore", tamis.TamisWarning)
    study, fine = Study.load(HERE / options.study), numbers(options.variant)
    truths = [
        point for k, point in enumerate(prior(POINTS, 2)[:TRUTHS]) if all((k, v) in fine for v in SPEEDS)
    ]
    model, rng = load_surrogate(study), np.random.default_rng(3)
    sd = np.repeat([0.01, 0.01, 0.005, 0.005], 3)
    calibrated = [series for series in study.series if series.use == "calibrate"]
    inside, off = np.zeros(len(LOW)), []
    for k, truth in enumerate(truths):
        terms = []
        for series, speed in zip(calibrated, SPEEDS, strict=True):
            values = fine[k, speed] + sd * rng.standard_normal(12)
            data = measured(series, values).experiments[0]
            [(_, forward)] = emulated(study, series, model)
            terms.append((data, forward))
        found = tamis.metropolis(study.space, tamis.Likelihood(study.space, tuple(terms)), rng=rng).flat
        low, high = np.quantile(found, [0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL], axis=0)
        x = np.array([truth[name] for name in LOW])
        inside += (low <= x) & (x <= high)
        off.append(found.mean(axis=0) - x)
        print(f"{k}: {np.array2string(np.array(off[-1]), precision=3)}", flush=True)
    titles = ("parameter", "truths within the 90 % interval", "rms error of the mean", "of the prior's range")
    print(f"\n| {' | '.join(titles)} |\n{'|---' * len(titles)}|")
    for i, name in enumerate(LOW):
        rms = np.sqrt(np.mean(np.array(off)[:, i] ** 2))
        print(
            f"| {name} | {inside[i]:.0f} of {len(truths)} | {rms:.3g} | {rms / (HIGH[name] - LOW[name]):.0%} |"
        )


if __name__ == "__main__":
    main()
