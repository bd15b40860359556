"""The figures of Gupta et al. (2023) that the report does not have, from the results of ``make rockfall``.

design: the points that were run, and draws of the posterior over them (theirs 12 and 18); envelope: all that the prior
allows, with the run at its mean (13); calibrated: bands of the posterior with the run at its mean (19); point: what the
calibration with Base at 520 kJ alone says of all the rest (20). Six impacts are run; the figures go to results/figures.

``python figures.py --stored`` takes the table of runs (`stored.py`) instead of results: it holds three instants of each
run and no curve, so that the envelope is drawn there, and the bands of `calibrated` are not.
"""

import argparse
import warnings

import calibrated
import matplotlib
import numpy as np
from evaluate import mode
from impacts import HERE, HIGH, LOW, NUMBERS, SPEEDS, STUDY, known, plainly, run
from instants import WHEN
from matplotlib.figure import Figure
from stored import runs

import tamis
from tamis.report import style
from tamis.sheets import read_csv

POINTS = {"top": "Top", "base": "Base", "c": "C", "d": "D"}
TITLES = {"d_z": "d_z, cm", "v_p": "v_p, cm", "mu_cc": "mu_cc", "mu_cs": "mu_cs", "e": "e"}
SCALE = np.array([100.0, 100.0, 1.0, 1.0, 1.0])
BESIDE = (2.12, 2.36)  # where the ranges of the largest displacement and of that at rest are drawn
FOLDER = HERE / "results" / "figures"


def curves(x):
    """Return the outputs of both tests at parameters x (5,)."""
    return [run({**dict(zip(LOW, np.asarray(x).tolist(), strict=True)), "speed": speed}) for speed in SPEEDS]


def design(points, x):
    """Draw the points of the design and draws of the posterior, parameter against parameter."""
    names = list(LOW)
    asked = points * SCALE
    drawn = x[np.linspace(0, len(x) - 1, 300).astype(int)] * SCALE
    figure = Figure(figsize=(8.8, 8.2), layout="constrained")
    axes = figure.subplots(5, 5)
    for i, row in enumerate(axes):
        for j, ax in enumerate(row):
            if i == j:
                bins = np.linspace(LOW[names[i]], HIGH[names[i]], 25) * SCALE[i]
                ax.hist(asked[:, i], bins, density=True, color=style.PRIOR_FILL)
                ax.hist(x[:, i] * SCALE[i], bins, density=True, color=style.POSTERIOR, alpha=0.6)
                ax.set_yticks([])
            else:
                ax.plot(asked[:, j], asked[:, i], ".", ms=2, color=style.PRIOR)
                ax.plot(drawn[:, j], drawn[:, i], ".", ms=2, color=style.POSTERIOR)
                ax.plot(x[:, j].mean() * SCALE[j], x[:, i].mean() * SCALE[i], "+", ms=9, color=style.FAILURE)
            if i == 4:
                ax.set_xlabel(TITLES[names[j]])
            if j == 0:
                ax.set_ylabel(TITLES[names[i]])
    figure.suptitle(f"{len(asked)} points of the prior, draws of the posterior of all data, and its mean (+)")
    return figure


def against_time(title, bands, lines, ranges=None):
    """Draw four points in both tests: bands {words: (colour, function of test and point)}, runs, the data.

    Where there are no curves, ranges (3, 2) at the three instants are a function of test and point: the first is drawn
    at its instant, the largest displacement and that at rest beside the curves.
    """
    figure = Figure(figsize=(8.8, 9.0), layout="constrained")
    axes = figure.subplots(4, 2, sharex=True, sharey="row")
    for k, test in enumerate(STUDY.calibrated):
        sheet = read_csv(HERE / "data" / f"curves-{test.name.split()[0]}.csv")
        for i, (name, words) in enumerate(POINTS.items()):
            ax = axes[i, k]
            for label, (colour, between) in bands.items():
                t, low, high = between(k, i)
                ax.fill_between(t, low, high, color=colour, label=label)
            for label, (colour, found) in lines.items():
                ax.plot(found[k]["t"], found[k][name], color=colour, lw=1.2, label=label)
            measured = sheet.numbers(name, missing=True)
            ax.plot(sheet.numbers("t"), measured, "o", ms=2.5, color=style.DATA, label="data")
            ax.set_xlim(0.0, 2.0)
            if ranges is not None:
                for at, between in zip((WHEN[name], *BESIDE), ranges(k, i), strict=True):
                    ax.plot(
                        [at, at], between, color=style.PRIOR, alpha=0.5, lw=6, solid_capstyle="butt", zorder=3
                    )
                ax.set_xlim(0.0, BESIDE[-1] + 0.12)
                ax.axvline(2.0, color="0.8", lw=0.6)
                ax.set_xticks([0.0, 0.5, 1.0, 1.5, *BESIDE], ["0", "0.5", "1", "1.5", "most", "rest"])
            if k == 0:
                ax.set_ylabel(f"{words}, m")
        axes[0, k].set_title(test.name)
        axes[-1, k].set_xlabel("t, s")
    axes[0, 1].legend(fontsize=7)
    figure.suptitle(title)
    return figure


def from_results():
    """Return what is drawn of results: points, posterior, the mode of Base alone and its name, bands, ranges."""
    found = tamis.load_results(HERE / "results" / "all")
    panels = {(panel.series, panel.label): panel for panel in found.panels}
    tests = [test.name for test in STUDY.calibrated]
    stored = np.load(HERE / "results" / "all" / "observables.npz")

    def prior(k, i):
        t = panels[f"{tests[k]} in time", list(POINTS.values())[i]].x
        y = stored[f"{k + len(tests)}.y"][:, i * len(t) : (i + 1) * len(t)]
        return t, y.min(axis=0), y.max(axis=0)

    def after(k, i):
        panel = panels[f"{tests[k]} in time", list(POINTS.values())[i]]
        return panel.x, *panel.total_band

    base = next(
        part for part in tamis.load_results(HERE / "results" / "point").parts if "Base" in part.study.part
    )
    x = found.posterior.flat
    return found.design.x, x, x.mean(axis=0), mode(base.posterior), base.study.part, (prior, after), None


def from_table():
    """Return the same of the table of runs: bands against time there are none of, ranges at the three instants."""
    u, y = runs()
    low, high = (np.array(list(bound.values())) for bound in (LOW, HIGH))

    def ranges(k, i):
        own = y[:, len(NUMBERS) * k + 3 * i :][:, :3]
        return np.stack([own.min(axis=0), own.max(axis=0)], axis=1)

    x = calibrated.posterior().flat
    alone = mode(calibrated.posterior(slice(3, 6)))
    mean = next(iter(known(calibrated.FILE).values()))[: len(LOW)]  # whose impacts are kept
    return low + u * (high - low), x, mean, alone, f"{STUDY.calibrated[0].name} Base", None, ranges


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--stored", action="store_true", help="from the table of runs, instead of results")
    warnings.simplefilter("ignore", tamis.TamisWarning)
    matplotlib.rcParams.update({"font.size": 8})
    stored = parser.parse_args().stored
    points, x, mean, base, part, bands, ranges = from_table() if stored else from_results()
    middle = np.array([0.5 * (LOW[name] + HIGH[name]) for name in LOW])
    best, alone, count = curves(mean), curves(base), len(points)
    drawn = {
        "design": design(points, x),
        "envelope": against_time(
            f"All that {count} runs of the prior give, and the run at its mean",
            {f"{count} runs": (style.PRIOR_FILL, bands[0])} if bands else {},
            {"mean of the prior": (style.FAILURE, curves(middle))},
            ranges,
        ),
        "point": against_time(
            f"Calibrated with {part} alone, and with all data",
            {},
            {f"{part} alone": (style.FAILURE, alone), "all data": (style.POSTERIOR, best)},
        ),
    }
    if bands:
        drawn["calibrated"] = against_time(
            "Calibrated with all data",
            {
                f"{count} runs of the prior": (style.PRIOR_FILL, bands[0]),
                "posterior, 90 %": (style.TOTAL, bands[1]),
            },
            {"mean of the posterior": (style.POSTERIOR, best)},
        )
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, figure in drawn.items():
        style.write_figure(figure, FOLDER / f"{name}.png", name)
        print(FOLDER / f"{name}.png")


if __name__ == "__main__":
    plainly(main)
