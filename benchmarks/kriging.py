"""Accuracy, honesty and cost of Kriging and of two fidelities, for tamis and, where they are installed, its peers.

``python benchmarks/kriging.py [--peers PYTHON] [--optimum DESIGNS]`` prints Markdown tables. PYTHON is the
interpreter of an environment with scikit-learn and SMT (see ``peers.txt``). The piston function has 500 runs with a
noise of 2 % of its spread; Park's function has few dear and more cheap runs, exact, the dear points being the first
of the cheap ones (Sobol') or designs apart (Latin). Figures are medians over five noises (piston) or nine designs
(Park); CPU seconds, on one thread, depend on the machine.

The second table is made on request, for some designs of each function: by how much the log-likelihood found is below
the best of 20 climbs from random starts on all runs (worst design), the coverage of 95 % intervals of another run
beside that of the best of 20, the reported over the true error, and the CPU time of the fit beside that of
scikit-learn with three restarts, in the same run.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from tests.battery import FUNCTION, Function  # noqa: E402
from tests.surrogates.smooth import forrester, forrester_cheap, park, park_cheap, piston  # noqa: E402

import tamis  # noqa: E402
from tamis.surrogates.kriging import Kriging, fit_kriging  # noqa: E402
from tamis.surrogates.multifidelity import fit_multifidelity  # noqa: E402
from tamis.surrogates.process import Likelihood  # noqa: E402
from tamis.types import Array, Gauss  # noqa: E402


@dataclass(frozen=True)
class Case:
    name: str
    peer: str
    kernel: str
    nugget: float | None
    levels: Callable[[int], list[tuple[Array, Array]]]  # of a seed
    truth: Callable[[Array], Array]
    points: Array
    repeats: int  # designs or noises


def piston_runs(seed: int) -> list[tuple[Array, Array]]:
    u = tamis.sobol(500, 7, np.random.default_rng(7))
    y = piston(u)
    return [(u, y + 0.02 * y.std() * np.random.default_rng(seed).standard_normal(len(y)))]


def forrester_runs(seed: int) -> list[tuple[Array, Array]]:
    cheap, dear = np.linspace(0, 1, 11)[:, None], np.linspace(0, 1, 4)[:, None]
    return [(cheap, forrester_cheap(cheap)), (dear, forrester(dear))]


def park_runs(n: int, n_cheap: int, nested: bool) -> Callable[[int], list[tuple[Array, Array]]]:
    def runs(seed: int) -> list[tuple[Array, Array]]:
        rng = np.random.default_rng(seed)
        dear = tamis.maximin(n, 4, rng)
        cheap = tamis.sobol(n_cheap, 4, rng) if nested else tamis.maximin(n_cheap, 4, rng)
        dear = cheap[:n] if nested else dear
        return [(cheap, park_cheap(cheap)), (dear, park(dear))]

    return runs


def cases() -> list[Case]:
    many, line = np.random.default_rng(123).random((100_000, 7)), np.linspace(0, 1, 1001)[:, None]
    found = [
        Case("piston, 500 runs", "scikit-learn", "matern52", None, piston_runs, piston, many, 5),
        Case("Forrester, 4 + 11", "smt", "squared_exponential", 0.0, forrester_runs, forrester, line, 1),
    ]
    for n, n_cheap, nested in ((10, 30, True), (10, 30, False), (20, 60, True), (20, 60, False)):
        name = f"Park, {n} + {n_cheap} {'Sobol' if nested else 'Latin'}"
        levels = park_runs(n, n_cheap, nested)
        found.append(Case(name, "smt", "matern52", 0.0, levels, park, many[:10_000, :4], 9))
    return found


def with_tamis(case: Case, levels: list[tuple[Array, Array]]) -> tuple[Gauss, float, float]:
    start = time.process_time()
    rng = np.random.default_rng(1)
    if len(levels) == 1:
        model = fit_kriging(*levels[0], kernel=case.kernel, nugget=case.nugget, rng=rng)
    else:
        model = fit_multifidelity(levels, kernel=case.kernel, nugget=case.nugget, rng=rng)
    fitted = time.process_time()
    found = model.predict(case.points)
    return found, fitted - start, time.process_time() - fitted


def with_peer(python: str, case: Case, levels: list[tuple[Array, Array]]) -> tuple[Gauss, float, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.npz"
        arrays = {f"u_{i}": u for i, (u, _) in enumerate(levels)}
        arrays |= {f"y_{i}": y for i, (_, y) in enumerate(levels)}
        np.savez(path, v=case.points, kernel=case.kernel, **arrays)
        command = [python, str(ROOT / "benchmarks" / "kriging_peers.py"), case.peer, str(path)]
        out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        fit, predict = json.loads(out.splitlines()[-1])
        with np.load(path.with_suffix(".answer.npz")) as answer:
            return Gauss(answer["mean"][:, None], answer["var"][:, None]), fit, predict


def version(python: str, package: str) -> str | None:
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else None


def row(case: Case, package: str, runs: list[tuple[Gauss, float, float]]) -> str:
    truth = case.truth(case.points)
    error = np.array([found.mean[:, 0] - truth for found, _, _ in runs])
    sd = np.sqrt([found.var[:, 0] for found, _, _ in runs])
    mse = np.mean(error**2, axis=1)
    inside = np.mean(np.abs(error) <= 1.96 * sd, axis=1)
    fit, predict = (np.median([run[i] for run in runs]) for i in (1, 2))
    return (
        f"| {case.name} | {package} | {np.median(1 - mse / truth.var()):.6f} | {np.median(np.sqrt(mse)):.4f} "
        f"| {np.median(inside):.3f} | {fit:.2f} | {predict:.2f} |"
    )


def restarted(fitted: Kriging, likelihood: Likelihood, seed: int) -> tuple[Kriging, float]:
    """Return the model of the best of 20 climbs from random starts, and how far the fitted one is below it."""
    n, d = fitted.u.shape
    rng, low, high = np.random.default_rng([seed, 99]), np.log([*[1 / n] * d, 1e-12]), np.log(1e3)
    climbed = []
    for _ in range(20):
        start = np.append(rng.uniform(np.log(0.1), np.log(30), d), rng.uniform(np.log(1e-8), np.log(0.3)))
        options = {"jac": True, "method": "L-BFGS-B", "bounds": [(edge, high) for edge in low]}
        climbed.append(minimize(likelihood.value_and_gradient, start, **options))
    best = min(climbed, key=lambda found: found.fun)
    variance = likelihood.variance(best.x) * fitted.y.var()
    noise = np.full((n, 1), variance * np.exp(best.x[-1]))
    other = replace(fitted, length=np.exp(best.x[None, :-1]), variance=np.array([variance]), noise=noise)
    mine = likelihood.value(np.log([*fitted.length[0], fitted.noise[0, 0] / fitted.variance[0]]))
    return other, (mine - best.fun) / 2


def optimum(function: Function, n: int, noise: float, designs: int, peers: str | None) -> str:
    v, truth = function.test(10_000)
    figures = []
    for seed in range(designs):
        u, y = function.runs(n, seed, noise)
        scatter = noise * function(u).std()
        start = time.process_time()
        model = fit_kriging(u, y, rng=np.random.default_rng(seed))
        cost = time.process_time() - start
        standard = (y - y.mean()) / y.std()
        likelihood = Likelihood("matern52", u - 0.5, np.ones((n, 1)), standard, None)
        other, below = restarted(model, likelihood, seed)
        runs = truth + scatter * np.random.default_rng([seed, 5]).standard_normal(len(truth))
        inside = []
        for each in (model, other):
            found = each.predict(v)
            inside.append(np.mean(np.abs(found.mean[:, 0] - runs) <= 1.96 * np.sqrt(found.var[:, 0])))
        true = np.mean((model.mean(v)[:, 0] - truth) ** 2) + scatter**2
        theirs = np.nan
        if peers and seed == 0:
            case = Case("", "scikit-learn, 3 restarts", "matern52", None, lambda _: [], function, v[:10], 1)
            theirs = with_peer(peers, case, [(u, y)])[1] / cost
        figures.append([below, *inside, model.score.rmse[0] ** 2 / true, cost, theirs])
    below, mine, best, ratio, cost, theirs = np.array(figures).T
    beside = f"{theirs[0]:.1f}" if np.isfinite(theirs[0]) else "-"
    return (
        f"| {function.name} | {n} | {noise:.0%} | {below.max():.2f} | {np.median(mine):.3f} | {np.median(best):.3f} "
        f"| {np.median(ratio):.2f} | {np.median(cost):.2f} | {beside} |"
    )


def optima(designs: int, peers: str | None) -> None:
    print(
        "| function | runs | noise | log-likelihood below | inside 95 % | of best of 20 | reported / true",
        end="",
    )
    print(" | fit CPU s | scikit-learn, times |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in ("wing", "OTL", "varying length", "eight kinks"):
        for n in (200, 500):
            for noise in (0.0, 0.05):
                print(optimum(FUNCTION[name], n, noise, designs, peers), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", help="interpreter of an environment with scikit-learn and SMT")
    parser.add_argument("--optimum", type=int, help="compare with 20 restarts on so many designs instead")
    options = parser.parse_args()
    if options.optimum:
        optima(options.optimum, options.peers)
        return
    print("| function | package | Q2 | rms error | inside 95 % | fit CPU s | predict CPU s |")
    print("|---|---|---|---|---|---|---|")
    for case in cases():
        levels = [case.levels(seed) for seed in range(case.repeats)]
        print(
            row(case, f"tamis {tamis.__version__}", [with_tamis(case, each) for each in levels]), flush=True
        )
        found = version(options.peers, case.peer) if options.peers else None
        if found:
            runs = [with_peer(options.peers, case, each) for each in levels]
            print(row(case, f"{case.peer} {found}", runs), flush=True)


if __name__ == "__main__":
    main()
