"""What the studies found beside what Gupta et al. (2023) print, as Markdown: run it after ``make rockfall``.

Errors of the surrogates (left out, and on the held-out impacts of `checks.py`), total Sobol indices, Table 5, what
another reading of the wall changes, and the errors of the calibrated model are read from results/; only the calibrated
model itself is run, once an energy.
"""

import argparse
import warnings

import numpy as np
from calibrated import told
from checks import FILE
from impacts import HERE, LOW, NUMBERS, SPEEDS, both, impact, plainly

import tamis
from tamis import Study
from tamis.errors import StudyError
from tamis.study.context import emulated, load_surrogate

TABLE5 = {  # Top Base C D at 520 kJ, the same at 1020 kJ, 520, 1020, all
    "d_z": (5.7, 9.6, 5.3, 5.4, 9.5, 6.2, 6.8, 5.0, 7.2, 6.8, 6.8),
    "v_p": (5.2, 3.8, 6.7, 6.5, 9.0, 8.0, 7.6, 7.0, 6.5, 7.1, 7.1),
    "mu_cc": (0.251, 0.419, 0.474, 0.265, 0.378, 0.512, 0.510, 0.342, 0.351, 0.323, 0.316),
    "mu_cs": (0.311, 0.304, 0.340, 0.346, 0.306, 0.351, 0.301, 0.301, 0.320, 0.308, 0.307),
    "e": (0.190, 0.194, 0.138, 0.033, 0.152, 0.290, 0.283, 0.200, 0.198, 0.220, 0.222),
}
SCALE = {"d_z": 100.0, "v_p": 100.0}  # m to cm, as the table has it


def surrogates(study):
    """Print relative errors of the 24 surrogates: left out, and held out where the checks were run."""
    found = tamis.load_results(study.results)
    try:
        own = list(both(FILE, "default").values())
    except StudyError as error:
        own = []
        print(f"nothing is held out: {error}")
    model = load_surrogate(study)
    print("\n| displacement | m/s | 1 - Q2 left out | rms error, m | 1 - Q2 held out | rms error, m |")
    print("|---" * 6 + "|")
    calibrated = [series for series in study.series if series.use == "calibrate"]
    for test, (series, speed) in enumerate(zip(calibrated, SPEEDS, strict=True)):
        if own:
            x, true = (np.array(rows) for rows in zip(*own, strict=True))
            true = true[:, len(NUMBERS) * test :][:, : len(NUMBERS)]
            miss = np.hstack([forward(x).mean for _, forward in emulated(study, series, model)]) - true
        rows = [e for e in found.emulations if e.series == series.name]
        for k, name in enumerate(NUMBERS):
            one = rows[k // 3]
            off = one.predicted[:, k % 3] - one.simulated[:, k % 3]
            left = (off**2).mean() / one.simulated[:, k % 3].var(), np.sqrt((off**2).mean())
            held = ("-", "-")
            if own:
                square = (miss[:, k] ** 2).mean()
                held = f"{square / true[:, k].var():.3f}", f"{np.sqrt(square):.4f}"
            print(f"| {name} | {speed:g} | {left[0]:.3f} | {left[1]:.4f} | {held[0]} | {held[1]} |")


def indices(study):
    """Print total Sobol indices by point and instant."""
    found = tamis.load_results(study.results)
    print("\n| displacement | test | " + " | ".join(LOW) + " |")
    print("|---" * (2 + len(LOW)) + "|")
    for one in found.influences:
        if one.total.shape[1] == 3:  # not the series in time
            for k, instant in enumerate(("init", "max", "rest")):
                cells = " | ".join(f"{value:.2f}" for value in one.total[:, k])
                print(f"| {one.label} {instant} | {one.series} | {cells} |")


def mode(posterior):
    """Return the draw of highest density."""
    flat = posterior.flat
    best = np.argmax((posterior.log_likelihood + posterior.log_prior).ravel())
    return flat[best]


def estimates(names):
    """Return the eleven estimates of Table 5: modes of single points, means otherwise, by name of the column."""
    found = {}
    for split, name in names.items():
        results = tamis.load_results(HERE / "results" / name)
        for part in results.parts or (results,):
            x = part.posterior.flat
            value = mode(part.posterior) if split == "point" else x.mean(axis=0)
            found[part.study.part or "all"] = value, x.std(axis=0)
    return found


def beside(names):
    """Print our Table 5 beside theirs: ours, its standard deviation, theirs in brackets."""
    found = estimates(names)
    print("\n| parameter | " + " | ".join(found) + " |")
    print("|---" * (1 + len(found)) + "|")
    for i, name in enumerate(LOW):
        scale = SCALE.get(name, 1.0)
        digits = 1 if name in SCALE else 3
        cells = [
            f"{scale * value[i]:.{digits}f} +- {scale * sd[i]:.{digits}f} ({theirs:g})"
            for (value, sd), theirs in zip(found.values(), TABLE5[name], strict=True)
        ]
        print(f"| {name} | {' | '.join(cells)} |")


def misfit(study):
    """Print the errors of the calibrated model against the data, over displacements of each axis."""
    x = tamis.load_results(study.results).posterior.flat.mean(axis=0)
    inputs = dict(zip(LOW, x.tolist(), strict=True))
    found = np.concatenate([impact({**inputs, "speed": speed})[: len(NUMBERS)] for speed in SPEEDS])
    data = [o.y.ravel() for s in study.series if s.use == "calibrate" for o in s.experiments[0].observations]
    told(found[None], np.concatenate(data))


def readings(names):
    """Print what the parameters owe to the reading of the wall: mean and standard deviation, of each study."""
    found = {}
    for words, name in names.items():
        if (HERE / "results" / name / "posterior.npz").exists():
            x = tamis.load_results(HERE / "results" / name).posterior.flat
            found[words] = x.mean(axis=0), x.std(axis=0)
    print("\n| parameter | " + " | ".join(found) + " |")
    print("|---" * (1 + len(found)) + "|")
    for i, name in enumerate(LOW):
        scale, digits = SCALE.get(name, 1.0), 1 if name in SCALE else 3
        cells = [f"{scale * mean[i]:.{digits}f} +- {scale * sd[i]:.{digits}f}" for mean, sd in found.values()]
        print(f"| {name} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    for name in ("point", "energy", "all"):
        parser.add_argument(f"--{name}", default=name, help="stem of its study file")
    options = parser.parse_args()
    warnings.simplefilter("ignore", tamis.TamisWarning)
    study = Study.load(HERE / f"{options.all}.toml")
    surrogates(study)
    indices(study)
    beside({name: getattr(options, name) for name in ("point", "energy", "all")})
    readings({"zigzag 22.5": options.all, "zigzag 29.4": "runner_up"})
    misfit(study)


if __name__ == "__main__":
    plainly(main)
