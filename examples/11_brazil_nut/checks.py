"""What the study's answer hangs on: modulus, scaling, the packing at the start, the box's way sideways.

``python checks.py [-j N] [NAME ...]`` takes draws of `study.toml` (run it first, or ``tamis run study.toml --to
sources``), runs them as each of CHECKS says, and keeps one row a run in data/checks.csv; the runs themselves lie in the
store of the studies, so that the same command goes on where it was. ``--study NAME`` writes the runs of a study to
data/NAME.csv instead, and of `study` those at the best parameters of each law to data/best.csv. All these files hold
the same columns; `summary.py` reads them and `figures.py` draws them.
"""

import argparse
import csv
from pathlib import Path

import numpy as np

import tamis
from tamis.sim.dem.disks.nut import HEIGHTS

HERE = Path(__file__).parent
DATA = HERE / "data"
LAW = ("mu", "gamma", "alpha", "k_t")
EXPONENTS = {"m1": 0.25, "m2": 0.5}  # that these laws hold, and the third samples
P = [0.02, 0.1, 0.26, 0.5, 0.74, 0.82, 0.9, 0.98]
HEAD = ["check", "z_init", "law", "draw", "replicate", "duration", "deepest"]
HEAD += [f"z_p({p:g})" for p in P] + [f"t({h:.2f})" for h in HEIGHTS]
FLIGHT = {"duration": 0.3, "record": 0.001}
SOFT = {"softening": 1000.0}  # as in the study

# name: inputs, every how many-th of the 500 draws, heights that the nut begins at, how seeds are given
CHECKS = {
    "E/10000": ({"softening": 10000.0}, 20, (0.02,), "own"),
    "E/100": ({"softening": 100.0}, 25, (0.02,), "own"),
    "E/10": ({"softening": 10.0}, 50, (0.02,), "own"),
    "E": ({"softening": 1.0}, 20, (0.02,), "own"),
    "material": ({**SOFT, "duration": 10.0, "scaling": "material"}, 20, (0.02,), "own"),
    "literal": ({**SOFT, "duration": 10.0, "scaling": "literal"}, 20, (0.02,), "own"),
    "flight, E/1000, one packing": ({**SOFT, **FLIGHT}, 20, (0.02, 0.1), "one"),
    "flight, E/100, one packing": ({**FLIGHT, "softening": 100.0}, 20, (0.02, 0.1), "one"),
    "flight, E, one packing": ({**FLIGHT, "softening": 1.0}, 25, (0.02, 0.1), "one"),
    "flight, E/100, one draw": ({**FLIGHT, "softening": 100.0}, 20, (0.02, 0.1), "own, of one draw"),
    "flight, E/100, one packing, not sideways": (
        {**FLIGHT, "softening": 100.0, "r_1": 0.0},
        20,
        (0.02, 0.1),
        "one",
    ),
}


def draws() -> list[tuple[str, dict[str, float]]]:
    """Return name of the law and its parameters for every draw of the study."""
    found = tamis.load_results(HERE / "results" / "study").sources
    if not found:
        raise SystemExit("no draws: tamis run study.toml --to sources")
    answer = []
    for source in found:
        for row in source.x.tolist():
            known = dict(zip(source.names, row, strict=True))
            fixed = {"alpha": EXPONENTS[source.name]} if source.name in EXPONENTS else {}
            answer.append((source.name, {name: (known | fixed)[name] for name in LAW}))
    return answer


def run(name: str, workers: int) -> list[list[str]]:
    """Run one check and return its rows."""
    inputs, stride, starts, seeds = CHECKS[name]
    known, simulator = draws(), tamis.find("tamis:dem.brazil_nut")
    chosen = range(0, len(known), stride)
    asked, labels = [], []
    for z_init in starts:
        for k in chosen:
            law, values = known[len(known) // 2 if seeds.endswith("one draw") else k]
            asked.append({**values, **inputs, "z_init": z_init, "seed": 0 if seeds == "one" else 1 + k})
            labels.append((z_init, law, k))
    rows = []
    with tamis.RunStore(HERE / "runs") as store:
        runs = tamis.evaluate(simulator, asked, store, executor=workers, progress=_say)
        for (z_init, law, k), one in zip(labels, runs, strict=True):
            if one.status != "done":
                raise SystemExit(f"{name}, draw {k}: {one.error}")
            out = store.outputs(one.key)
            at = np.interp(P, out["p"], out["z_p"])
            t = np.where(out["reached"] > 0, out["t_exit"], np.nan)
            rows.append(row(name, z_init, law, k, 0, float(out["t"][-1]), float(out["deepest"]), at, t))
    return rows


def of_study(name: str) -> tuple[list[list[str]], list[list[str]]]:
    """Return the rows of a study that was run, and those of the best parameters of each law, means of their seeds."""
    results = tamis.load_results(HERE / "results" / name)
    panels = {(p.series, p.label): p for p in results.panels}
    laws = [s.name for s in results.sources for _ in s.x]
    rows, best = [], []
    for series in dict.fromkeys(p.series for p in results.panels):
        z_p, t_exit, reached = (
            panels[series, label] for label in ("height z_p", "exit time", "share that exits")
        )
        deepest = panels.get((series, "deepest overlap"))
        z_init = float(series.split()[1])
        at = [np.interp(P, z_p.x, z) for z in (*z_p.model, *z_p.best)]
        t = np.full((len(at), len(HEIGHTS)), np.nan)
        there = np.vstack([reached.model, reached.best]) > 0
        t[:, np.searchsorted(HEIGHTS, t_exit.x - 1e-9)] = np.where(
            there, np.vstack([t_exit.model, t_exit.best]), np.nan
        )
        n = len(z_p.model)
        for i in range(n):
            replicate, k = divmod(i, len(laws))
            overlap = float(deepest.model[i, 0]) if deepest is not None else np.nan
            rows.append(row(name, z_init, laws[k], k, replicate, 30.0, overlap, at[i], t[i]))
        for i, law in enumerate(z_p.best_of, n):
            best.append(row(name, z_init, law, 0, 0, 30.0, np.nan, at[i], t[i]))
    return rows, best


def row(check, z_init, law, k, replicate, duration, deepest, at, t) -> list[str]:
    """Return a row of the file; a height that was not reached, or not asked for, is left empty."""
    times = ("" if np.isnan(v) else f"{v:.5g}" for v in t)
    words = [check, f"{z_init:g}", law, str(k), str(replicate), f"{duration:g}", f"{deepest:.3g}"]
    return [*words, *(f"{v:.4g}" for v in at), *times]


def write(file: Path, rows: list[list[str]], replace: set[str]) -> None:
    """Write rows to a file, in the place of those of the same checks."""
    old = []
    if file.exists():
        with file.open() as lines:
            old = [r for r in list(csv.reader(lines))[1:] if r[0] not in replace]
    file.parent.mkdir(exist_ok=True)
    with file.open("w", newline="") as lines:
        csv.writer(lines, lineterminator="\n").writerows([HEAD, *old, *rows])


def _say(event: tamis.Event) -> None:
    print(f"\r{event.done}/{event.total}", end="", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CHECKS)}; all without any")
    parser.add_argument("-j", type=int, default=1, help="worker processes")
    parser.add_argument("--study", help="write the runs of this study instead")
    options = parser.parse_args()
    if options.study:
        rows, best = of_study(options.study)
        write(DATA / f"{options.study}.csv", rows, {options.study})
        if options.study == "study":  # others begin with its draws, and have the same best parameters
            write(DATA / "best.csv", best, {options.study})
        return
    for name in options.names or CHECKS:
        print(name)
        write(DATA / "checks.csv", run(name, options.j), {name})
        print()


if __name__ == "__main__":
    main()
