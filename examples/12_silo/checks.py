"""What the studies take for granted: that grains at rest stay blocked, and that the flow does not know the filling.

``python checks.py rest`` follows avalanches by the paper's rule, a second without a grain out, and writes down for
every pause when all grains would have been called at rest, at several limits: data/rest.csv. ``python checks.py
filling`` lets silos of several fillings flow through a wide outlet and counts the grains out in windows of time:
data/filling.csv; ``--mu`` and ``--softening`` say with what friction and modulus. ``--table`` prints what the files
say, and runs nothing.
"""

import argparse
import csv
import math
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np

import tamis
from tamis.sim.dem.disks.cases import GRAVITY
from tamis.sim.dem.disks.silo import LOOK, QUIET, REST, Discharge, Silo

DATA = Path(__file__).parent / "data"
LIMITS = (0.02, 0.01, 0.005, 0.002)  # of sqrt(g d)
ARCHES = {"grains": 100, "width": 0.02, "outlet": 0.0038, "softening": 1e4, "settling": 0.2, "duration": 1e3}
WIDE = {"width": 0.048, "outlet": 0.013, "avalanches": 0, "duration": 1.0}
EDGES = (0.0, 0.1, 0.3, 0.6, 1.0)  # s, of the windows


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", choices=("rest", "filling"))
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first", type=int, default=1000, help="seed")
    parser.add_argument("--mu", type=float, default=Silo().mu)
    parser.add_argument("--softening", type=float, default=1e4)
    parser.add_argument("--grains", type=int, nargs="+", default=(400, 800, 1200))
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.what == "rest":
        if not options.table:
            rest(options.events, options.first)
        for limit, blocked, right, wrong, when in rest_table():
            print(
                f"{limit:g}: {right} of {blocked} called, after {when:.3f} s on average; {wrong} that opened were"
            )
        return
    if not options.table:
        cases = [(options.mu, options.softening, grains) for grains in options.grains]
        filling(cases, range(options.first, options.first + options.seeds))
    for (mu, softening, grains), (flow, error, deepest) in filling_table().items():
        cells = ", ".join(f"{f:.0f} +- {e:.0f}" for f, e in zip(flow, error, strict=True))
        print(f"mu {mu:g}, E/{softening:g}, {grains} grains: {cells}; deepest overlap {deepest:.3f}")
    for (a, b), slope, error in zip(pairwise(EDGES), *filling_trend(), strict=True):
        print(f"{a:g} to {b:g} s: {100 * slope:+.1f} +- {100 * error:.1f} % for a thousand grains")


if __name__ == "__main__":
    main()
