"""What the studies take for granted: when a silo is blocked, how it flows, what the scaling of the law changes.

``python checks.py rest`` follows avalanches by the paper's rule, a second without a grain out, and writes down for
every pause when all grains would have been called at rest, at several limits: data/rest.csv. ``python checks.py
filling`` lets silos of several fillings flow through a wide outlet and counts the grains out in windows of time:
data/filling.csv; ``--mu`` and ``--softening`` say with what friction and modulus. ``python checks.py beverloo`` does
so for several outlets, too wide to clog: data/beverloo.csv. ``python checks.py scalings [-j N]`` follows avalanches as
the studies do, at the mean parameters of the second law, for each of SCALINGS: data/scalings.csv. Rows of
beverloo.csv that are there are not made again, nor runs of scalings, which lie in the store of the studies. ``--table``
prints what the files say, and runs nothing.
"""

import argparse
import csv
import math
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.optimize import curve_fit

import tamis
from tamis.sim.dem.disks.cases import GRAVITY
from tamis.sim.dem.disks.silo import LOOK, QUIET, REST, Discharge, Silo

DATA = Path(__file__).parent / "data"
LIMITS = (0.02, 0.01, 0.005, 0.002)  # of sqrt(g d)
ARCHES = {"grains": 100, "width": 0.02, "outlet": 0.0038, "softening": 1e4, "settling": 0.2, "duration": 1e3}
WIDE = {"width": 0.048, "outlet": 0.013, "avalanches": 0, "duration": 1.0}
EDGES = (0.0, 0.1, 0.3, 0.6, 1.0)  # s, of the windows
OUTLETS = (5.0, 6.5, 8.0, 10.0)  # diameters
MANY = 2400  # grains of these: 800 have run through the widest once in a third of a second, and then fall
FILLINGS = [
    (6.5, 800, 1e4),
    (6.5, 800, 1e3),
    (6.5, MANY, 1e3),
]  # beside one of these: what filling and modulus do
SETTLED = 2  # windows after which flow has forgotten its start
DIAMETER = Silo().diameter
SECOND_LAW = {
    "mu": 0.1039,
    "gamma": 9.03e4,
    "alpha": 0.5,
    "k_t": 1.234e8,
}  # means of 10_steel_contact/m2.toml
STUDY = {
    "grains": 300,
    "width": 0.032,
    "outlet": 0.004,
    "avalanches": 20,
    "duration": 600.0,
    "blocked": "rest",
}
SCALINGS = (
    ("restitution", 1e4),
    ("material", 1e4),
    ("literal", 1e4),
    ("restitution", 1e3),
    ("restitution", 1e5),
)


class Watched(Discharge):
    """A silo that is blocked after a second, whose pauses are kept: greatest speed at each look, and how they ended."""

    def __init__(self, case):
        super().__init__(case, None, 0.0)
        self.speeds, self.pauses = [], []

    def _blocked(self):
        speed = np.hypot(*self.disks.velocities()[:, :2].T).max()
        self.speeds.append(speed / math.sqrt(GRAVITY * self.case.diameter))
        return self.quiet * LOOK >= QUIET

    def _look(self):
        before = len(self.exits)
        super()._look()
        if len(self.exits) > before or self.quiet == 0:
            self.pauses.append(("opened" if len(self.exits) > before else "blocked", self.speeds))
            self.speeds = []


def called(speeds, limit):
    """Return the time at which all grains had been slower than a limit for long enough, or NaN."""
    slow = np.asarray(speeds) < limit
    looks = round(REST / LOOK)
    run = np.convolve(slow, np.ones(looks), "valid") > looks - 0.5 if len(slow) >= looks else np.zeros(0)
    return (np.argmax(run) + looks) * LOOK if run.any() else math.nan


def rest(events, first_seed):
    """Write pauses of at least the time that a call takes, until so many were blocked for a second."""
    blocked, seed = 0, first_seed
    DATA.mkdir(exist_ok=True)
    with (DATA / "rest.csv").open("w", newline="") as lines:
        sheet = csv.writer(lines, lineterminator="\n")
        sheet.writerow(["seed", "ended", "lasted [s]", *(f"called({limit:g}) [s]" for limit in LIMITS)])
        while blocked < events:
            run = Watched(Silo(**ARCHES, seed=seed, avalanches=25))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", tamis.TamisWarning)
                run.run()
            for ended, speeds in run.pauses:
                if len(speeds) * LOOK < REST or blocked == events:
                    continue
                blocked += ended == "blocked"
                times = [called(speeds, limit) for limit in LIMITS]
                cells = ["" if math.isnan(t) else f"{t:.3f}" for t in times]
                sheet.writerow([seed, ended, f"{len(speeds) * LOOK:.3f}", *cells])
            lines.flush()
            print(seed, blocked, flush=True)
            seed += 1


def filling(cases, seeds):
    """Write the grains out in each window of time, by friction, modulus, filling and seed."""
    DATA.mkdir(exist_ok=True)
    file = DATA / "filling.csv"
    new = not file.exists()
    with file.open("a", newline="") as lines:
        sheet = csv.writer(lines, lineterminator="\n")
        if new:
            windows = [f"{a:g}-{b:g} s" for a, b in pairwise(EDGES)]
            sheet.writerow(["mu", "softening", "grains", "seed", "deepest", *windows])
        for mu, softening, grains in cases:
            for seed in seeds:
                out, _ = Silo(**WIDE, mu=mu, grains=grains, softening=softening, seed=seed).play()
                counts = np.histogram(out["exits"], EDGES)[0]
                case = [f"{mu:g}", f"{softening:g}", grains, seed]
                sheet.writerow([*case, f"{float(out['deepest']):.4f}", *counts])
                lines.flush()
                print(*case, counts, flush=True)


def beverloo(cases, seeds):
    """Write the grains out in each window of time, by outlet, filling, modulus and seed."""
    DATA.mkdir(exist_ok=True)
    file = DATA / "beverloo.csv"
    done = {tuple(r[:4]) for r in rows("beverloo.csv")[1]} if file.exists() else set()
    with file.open("a", newline="") as lines:
        sheet = csv.writer(lines, lineterminator="\n")
        if not file.stat().st_size:
            windows = [f"{a:g}-{b:g} s" for a, b in pairwise(EDGES)]
            sheet.writerow(["outlet [d]", "grains", "softening", "seed", "deepest", *windows])
        for outlet, grains, softening in cases:
            for seed in seeds:
                case = (f"{outlet:g}", str(grains), f"{softening:g}", str(seed))
                if case in done:
                    continue
                wide = {**WIDE, "outlet": outlet * DIAMETER, "softening": softening}
                out, _ = Silo(**wide, grains=grains, seed=seed).play()
                counts = np.histogram(out["exits"], EDGES)[0]
                sheet.writerow([*case, f"{float(out['deepest']):.4f}", *counts])
                lines.flush()
                print(*case, counts, flush=True)


def scalings(seeds, workers):
    """Write flow, deepest overlap and the sizes of avalanches, largest first, by scaling, modulus and seed."""
    simulator = tamis.find("tamis:dem.silo")
    cases = [(how, softening, seed) for how, softening in SCALINGS for seed in seeds]
    asked = [
        {**STUDY, **SECOND_LAW, "scaling": how, "softening": softening, "seed": seed}
        for how, softening, seed in cases
    ]
    answer = []
    with tamis.RunStore(Path(__file__).parent / "runs") as store:
        runs = tamis.evaluate(simulator, asked, store, executor=workers, progress=_say)
        for (how, softening, seed), one in zip(cases, runs, strict=True):
            if one.status != "done":
                raise SystemExit(f"{how}, E/{softening:g}, seed {seed}: {one.error}")
            out = store.outputs(one.key)
            numbers = [f"{float(out['flow']):.4g}", f"{float(out['deepest']):.3g}"]
            if len(out["size_p"]) < STUDY["avalanches"]:
                raise SystemExit(
                    f"{how}, E/{softening:g}, seed {seed}: too few avalanches; raise the duration"
                )
            sizes = [f"{v:.0f}" for v in out["size_p"]]
            answer.append([how, f"{softening:g}", seed, *numbers, *sizes])
    print()
    DATA.mkdir(exist_ok=True)
    with (DATA / "scalings.csv").open("w", newline="") as lines:
        sheet = csv.writer(lines, lineterminator="\n")
        sheet.writerow(
            ["scaling", "softening", "seed", "flow", "deepest", *range(1, STUDY["avalanches"] + 1)]
        )
        sheet.writerows(answer)


def _say(event):
    print(f"\r{event.done}/{event.total}", end="", flush=True)


def rows(name):
    """Return the head and the rows of a file."""
    with (DATA / name).open() as lines:
        head, *body = csv.reader(lines)
    return head, body


def rest_table():
    """Return by limit: blocked arches called, pauses called that then opened, mean time from the first call to this."""
    _, body = rows("rest.csv")
    ended = np.array([r[1] for r in body])
    times = np.array([[float(cell) if cell else math.nan for cell in r[3:]] for r in body])
    there = np.isfinite(times)
    answer = []
    for k, limit in enumerate(LIMITS):
        right, wrong = (int(there[ended == how, k].sum()) for how in ("blocked", "opened"))
        answer.append(
            (
                limit,
                int((ended == "blocked").sum()),
                right,
                wrong,
                float(np.nanmean(times[ended == "blocked", k])),
            )
        )
    return answer


def filling_table():
    """Return by friction, modulus and filling: flow in each window and after the first, with errors over seeds."""
    _, body = rows("filling.csv")
    answer = {}
    for case in dict.fromkeys(tuple(r[:3]) for r in body):
        counts = np.array([r[5:] for r in body if tuple(r[:3]) == case], dtype=float)
        deepest = max(float(r[4]) for r in body if tuple(r[:3]) == case)
        flow = np.column_stack([counts / np.diff(EDGES), counts[:, 1:].sum(axis=1) / (EDGES[-1] - EDGES[1])])
        error = flow.std(axis=0, ddof=1) / math.sqrt(len(flow))
        answer[float(case[0]), float(case[1]), int(case[2])] = (flow.mean(axis=0), error, deepest)
    return answer


def filling_trend():
    """Return by window what a thousand grains more add to the flow, over its mean, and the error of that.

    One slope for all frictions and moduli, each about its own mean; the error is that of the scatter of fillings, since
    seeds displace grains of the same lattice by little.
    """
    sets = {}
    for (mu, softening, grains), (flow, _, _) in filling_table().items():
        sets.setdefault((mu, softening), []).append((grains / 1e3, *flow[:-1]))
    x, y = [], []
    for rows_of in sets.values():
        columns = np.array(rows_of)
        x.append(columns[:, 0] - columns[:, 0].mean())
        y.append(columns[:, 1:] / columns[:, 1:].mean(axis=0) - 1.0)
    x, y = np.concatenate(x), np.vstack(y)
    slope = x @ y / (x @ x)
    scatter = np.sqrt(((y - np.outer(x, slope)) ** 2).sum(axis=0) / (len(x) - len(sets) - 1))
    return slope, scatter / math.sqrt(x @ x)


def beverloo_table(grains=MANY, softening=1e4):
    """Return by outlet in diameters the flow of the last windows, its error over seeds, and the deepest overlap."""
    _, body = rows("beverloo.csv")
    answer = {}
    for outlet in sorted({r[0] for r in body}, key=float):
        mine = [r for r in body if r[:3] == [outlet, str(grains), f"{softening:g}"]]
        if not mine:
            continue
        counts = np.array([r[5:] for r in mine], dtype=float)
        flow = counts[:, SETTLED:].sum(axis=1) / (EDGES[-1] - EDGES[SETTLED])
        deepest = max(float(r[4]) for r in mine)
        answer[float(outlet)] = (flow.mean(), flow.std(ddof=1) / math.sqrt(len(flow)), deepest)
    return answer


def beverloo_fit():
    """Return k and the power of flow = C (D - k d)^power: k with its error at 3/2, and the power with that at k = 1.4.

    Also what 3/2 leaves of the flows, over them. All outlets count alike: their errors over seeds do not hold what
    other fillings would change.
    """
    found = beverloo_table()
    wide, flow = np.array(list(found)), np.array([mean for mean, _, _ in found.values()])
    law = lambda d, c, k: c * (d - k) ** 1.5  # noqa: E731
    free = lambda d, c, power: c * (d - 1.4) ** power  # noqa: E731
    start = float(flow[0] / (wide[0] - 1.4) ** 1.5)
    (c, k), known = curve_fit(law, wide, flow, p0=(start, 1.4), sigma=flow)
    (_, power), known_power = curve_fit(free, wide, flow, p0=(start, 1.5), sigma=flow)
    left = flow / law(wide, c, k) - 1.0
    return (k, math.sqrt(known[1, 1])), (power, math.sqrt(known_power[1, 1])), left


def scalings_table():
    """Return by scaling and modulus the means over runs of what is asked of each, their errors, the deepest overlap.

    Asked are the mean size of the avalanches, those that a tenth and a half of them exceed, and the flow.
    """
    _, body = rows("scalings.csv")
    answer = {}
    for case in dict.fromkeys(tuple(r[:2]) for r in body):
        mine = [r for r in body if tuple(r[:2]) == case]
        found = []
        for r in mine:
            sizes = np.array(r[5:], dtype=float)
            p = (np.arange(len(sizes)) + 0.5) / len(sizes)
            found.append([sizes.mean(), *np.interp([0.1, 0.5], p, sizes), float(r[3])])
        table = np.array(found)
        error = table.std(axis=0, ddof=1) / math.sqrt(len(table))
        answer[case[0], float(case[1])] = (table.mean(axis=0), error, max(float(r[4]) for r in mine))
    return answer


def print_rest():
    """Print what limits of rest would have called."""
    for limit, blocked, right, wrong, when in rest_table():
        print(
            f"{limit:g}: {right} of {blocked} called, after {when:.3f} s on average; {wrong} that opened were"
        )


def print_filling():
    """Print flows by filling, and what a thousand grains add."""
    for (mu, softening, grains), (flow, error, deepest) in filling_table().items():
        cells = ", ".join(f"{f:.0f} +- {e:.0f}" for f, e in zip(flow, error, strict=True))
        print(f"mu {mu:g}, E/{softening:g}, {grains} grains: {cells}; deepest overlap {deepest:.3f}")
    for (a, b), slope, error in zip(pairwise(EDGES), *filling_trend(), strict=True):
        print(f"{a:g} to {b:g} s: {100 * slope:+.1f} +- {100 * error:.1f} % for a thousand grains")


def print_beverloo():
    """Print flows by outlet, and how they follow Beverloo's law."""
    (k, k_error), (power, power_error), left = beverloo_fit()
    for (outlet, (flow, error, deepest)), rest_of in zip(beverloo_table().items(), left, strict=True):
        print(
            f"{outlet:g} d: {flow:.0f} +- {error:.0f} grains/s, {100 * rest_of:+.1f} % above the law; deepest overlap "
            f"{deepest:.3f}"
        )
    for outlet, grains, softening in FILLINGS:
        flow, error, deepest = beverloo_table(grains, softening)[outlet]
        print(
            f"{outlet:g} d, {grains} grains, E/{softening:g}: {flow:.0f} +- {error:.0f}; deepest overlap {deepest:.3f}"
        )
    print(f"k = {k:.2f} +- {k_error:.2f} at the power 3/2; power {power:.3f} +- {power_error:.3f} at k = 1.4")


def print_scalings():
    """Print a table of what scalings and moduli change."""
    print("| scaling, modulus | mean size | exceeded by .1 | by .5 | flow, grains/s | deepest overlap |")
    print("|---|---|---|---|---|---|")
    for (how, softening), (mean, error, deepest) in scalings_table().items():
        cells = " | ".join(f"{m:.1f} ± {e:.1f}" for m, e in zip(mean, error, strict=True))
        print(f"| {how}, E/{softening:g} | {cells} | {100 * deepest:.0f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", choices=("rest", "filling", "beverloo", "scalings"))
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--seeds", type=int, help="4 of each filling and outlet, 8 of each scaling")
    parser.add_argument("--first", type=int, default=1000, help="seed")
    parser.add_argument("--mu", type=float, default=Silo().mu)
    parser.add_argument("--softening", type=float, default=1e4)
    parser.add_argument("--grains", type=int, nargs="+", default=(400, 800, 1200), help="of fillings")
    parser.add_argument("-j", type=int, default=1, help="worker processes, of scalings")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    seeds = range(options.first, options.first + (options.seeds or (8 if options.what == "scalings" else 4)))
    if options.table:
        pass
    elif options.what == "rest":
        rest(options.events, options.first)
    elif options.what == "filling":
        filling([(options.mu, options.softening, grains) for grains in options.grains], seeds)
    elif options.what == "beverloo":
        beverloo([(outlet, MANY, 1e4) for outlet in OUTLETS] + FILLINGS, seeds)
    else:
        scalings(seeds, options.j)
    {"rest": print_rest, "filling": print_filling, "beverloo": print_beverloo, "scalings": print_scalings}[
        options.what
    ]()


if __name__ == "__main__":
    main()
