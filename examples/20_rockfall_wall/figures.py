"""The figures of Gupta et al. (2023) that the report does not have, from the results of ``make rockfall``.

design: the points that were run, and draws of the posterior over them (theirs 12 and 18); envelope: all that the prior
allows, with the run at its mean (13); calibrated: bands of the posterior with the run at its mean (19); point: what the
calibration with Base at 520 kJ alone says of all the rest (20). Six impacts are run; the figures go to results/figures.
"""

import warnings

import matplotlib
import numpy as np
from evaluate import mode
from impacts import HERE, HIGH, LOW, SPEEDS, STUDY, plainly, run
from matplotlib.figure import Figure

import tamis
from tamis.report import style
from tamis.sheets import read_csv

POINTS = {"top": "Top", "base": "Base", "c": "C", "d": "D"}
TITLES = {"d_z": "d_z, cm", "v_p": "v_p, cm", "mu_cc": "mu_cc", "mu_cs": "mu_cs", "e": "e"}
SCALE = np.array([100.0, 100.0, 1.0, 1.0, 1.0])
FOLDER = HERE / "results" / "figures"


def curves(x):
    """Return the outputs of both tests at parameters x (5,)."""
    return [run({**dict(zip(LOW, np.asarray(x).tolist(), strict=True)), "speed": speed}) for speed in SPEEDS]


def design(found):
    """Draw the points of the design and draws of the posterior, parameter against parameter."""
    names, x = list(LOW), found.posterior.flat
    asked = found.design.x * SCALE
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


def against_time(title, bands, lines):
    """Draw four points in both tests: bands {words: (colour, function of test and point)}, runs, the data."""
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
            if k == 0:
                ax.set_ylabel(f"{words}, m")
        axes[0, k].set_title(test.name)
        axes[-1, k].set_xlabel("t, s")
    axes[0, 1].legend(fontsize=7)
    figure.suptitle(title)
    return figure


def main():
    warnings.simplefilter("ignore", tamis.TamisWarning)
    matplotlib.rcParams.update({"font.size": 8})
    found = tamis.load_results(HERE / "results" / "all")
    panels = {(panel.series, panel.label): panel for panel in found.panels}
    tests = [test.name for test in STUDY.calibrated]
    stored = np.load(HERE / "results" / "all" / "observables.npz")

    def prior(k, i):
        t = panels[f"{tests[k]} in time", list(POINTS.values())[i]].x
        y = stored[f"{k + len(tests)}.y"][:, i * len(t) : (i + 1) * len(t)]
        return t, y.min(axis=0), y.max(axis=0)

    def posterior(k, i):
        panel = panels[f"{tests[k]} in time", list(POINTS.values())[i]]
        return panel.x, *panel.total_band

    middle = np.array([0.5 * (LOW[name] + HIGH[name]) for name in LOW])
    best = curves(found.posterior.flat.mean(axis=0))
    base = next(
        part for part in tamis.load_results(HERE / "results" / "point").parts if "Base" in part.study.part
    )
    alone = curves(mode(base.posterior))
    grey, blue = (style.PRIOR_FILL, prior), (style.TOTAL, posterior)
    count = len(found.design.x)
    drawn = {
        "design": design(found),
        "envelope": against_time(
            "All that the prior allows, and the run at its mean",
            {f"{count} runs": grey},
            {"mean of the prior": (style.FAILURE, curves(middle))},
        ),
        "calibrated": against_time(
            "Calibrated with all data",
            {f"{count} runs of the prior": grey, "posterior, 90 %": blue},
            {"mean of the posterior": (style.POSTERIOR, best)},
        ),
        "point": against_time(
            f"Calibrated with {base.study.part} alone, and with all data",
            {},
            {f"{base.study.part} alone": (style.FAILURE, alone), "all data": (style.POSTERIOR, best)},
        ),
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, figure in drawn.items():
        style.write_figure(figure, FOLDER / f"{name}.png", name)
        print(FOLDER / f"{name}.png")


if __name__ == "__main__":
    plainly(main)
