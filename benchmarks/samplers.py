"""Samplers: seconds and effective draws of adaptive Metropolis on 24 polynomial chaoses, beside transitional MCMC.

``python benchmarks/samplers.py [--seeds N]`` prints two Markdown tables. The first has the size of Gupta et al. (2023,
10.1016/j.engstruct.2023.116936): 100 chains of 1000 steps, five parameters, 24 outputs, each a polynomial chaos fitted
to 300 runs of an analytic function; the noise has one unknown standard deviation. Their polynomials have leave-one-out
errors of 1e-2 to 1e-1, those of a simulator with contacts: the runs are made to scatter likewise. Without scatter each
output has as many terms as 300 runs can bear, and the likelihood takes most of the time. The second table is what a
call of the likelihood buys on posteriors of several shapes. CPU seconds depend on the machine; draws and calls do not.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from tests import problems  # noqa: E402

import tamis  # noqa: E402
from tamis.inference.diagnostics import ess  # noqa: E402
from tamis.inference.metropolis import metropolis  # noqa: E402

Loglike = Callable[[np.ndarray], np.ndarray]


class Timed:
    """A likelihood that counts the CPU seconds it takes."""

    def __init__(self, loglike: Loglike) -> None:
        self.loglike = loglike
        self.seconds = 0.0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        start = time.process_time()
        values = self.loglike(x)
        self.seconds += time.process_time() - start
        return values


def response(x: np.ndarray) -> np.ndarray:
    """Twenty-four instants of a decaying oscillation that drifts, in five parameters of order 1."""
    t = np.linspace(0.1, 3.0, 24)
    stiffness, damping, mass, push, slip = (column[:, None] for column in x.T)
    rate = np.sqrt(stiffness / mass)
    swing = np.exp(-0.3 * damping * t / mass) * np.cos(rate * t)
    return push * (1 - swing) / stiffness + 0.2 * slip * np.sqrt(t)


def calibration(scatter: float) -> tuple[Any, Any]:
    """Fit the surrogate to runs that scatter by so much of their spread; return the space and the likelihood."""
    rng = np.random.default_rng(0)
    inputs = tamis.Space(tuple(tamis.Parameter(f"p{i}", tamis.uniform(0.7, 1.3)) for i in range(5)))
    noise = tamis.Parameter("sigma", tamis.lognormal(0.02, 1.0))
    space = tamis.Space((*inputs.parameters, noise))
    u = tamis.sobol(300, 5, rng)
    runs = response(inputs.from_unit(u))
    runs = runs + scatter * runs.std(axis=0) * rng.standard_normal(runs.shape)
    surrogate = tamis.fit_pce(u, runs)
    y = response(np.array([[1.1, 0.9, 1.05, 0.95, 1.2]]))[0] + rng.normal(0, 0.02, 24)
    observation = tamis.Observation(tamis.at("z", np.arange(24.0)), y, tamis.Gaussian("sigma"))
    experiment = tamis.Experiment("impact", {}, (observation,))
    return space, tamis.Likelihood(space, ((experiment, tamis.Emulated(inputs, surrogate)),))


def shapes() -> list[tuple[str, Any, Loglike]]:
    found = [
        problems.linear(),
        problems.linear(20, 30, 0.3, 2),
        problems.banana(),
        problems.two_modes(),
        problems.shells(5),
    ]
    steel, loglike, _ = problems.steel("M2")
    return [*((p.name, p.space, p.loglike) for p in found), ("steel contact, 5-D", steel, loglike)]


def run(sampler: str, space: Any, loglike: Loglike, seed: int) -> tuple[np.ndarray, float, float, float]:
    """Return the draws' effective number (d,), rhat, likelihood calls and CPU seconds."""
    rng = np.random.default_rng(seed)
    start = time.process_time()
    if sampler == "metropolis":
        posterior = metropolis(space, loglike, rng=rng)
    else:
        posterior = tamis.tmcmc(space, loglike, n=4096, rng=rng)
    seconds = time.process_time() - start
    found = posterior.diagnostics
    rhat = float(found["rhat"].max()) if "rhat" in found else np.nan
    return found["ess"], rhat, float(found["likelihood_calls"]), seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(parser.parse_args().seeds)
    warnings.simplefilter("ignore", tamis.TamisWarning)  # rhat stands in the table
    ess(np.random.default_rng(0).normal(size=(2, 20, 1)))  # imports
    print(
        "| runs scatter by | leave-one-out error | terms an output | seed | CPU s | of which the likelihood "
        "| effective draws | rhat |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for scatter in (0.25, 0.1, 0.0):
        space, likelihood = calibration(scatter)
        likelihood(space.sample(100, np.random.default_rng(0)))  # compiles
        surrogate = likelihood.terms[0][1].surrogate
        terms = np.mean([len(t) for t in surrogate.terms])
        for seed in seeds:
            timed = Timed(likelihood)
            effective, rhat, _, seconds = run("metropolis", space, timed, seed)
            print(
                f"| {scatter:.0%} | {1 - surrogate.score.q2.mean():.1g} | {terms:.0f} | {seed} | {seconds:.2f} "
                f"| {timed.seconds / seconds:.0%} | {effective.min():,.0f} | {rhat:.3f} |",
                flush=True,
            )
    print("\n| posterior | sampler | effective draws per 1000 calls | rhat | likelihood calls | CPU s |")
    print("|---|---|---|---|---|---|")
    for name, space, loglike in shapes():
        for sampler in ("metropolis", "tmcmc"):
            runs = [run(sampler, space, loglike, seed) for seed in seeds]
            worth = np.mean([1000 * effective.min() / calls for effective, _, calls, _ in runs])
            rhat, calls, seconds = np.mean([r[1:] for r in runs], axis=0)
            mixed = f"{rhat:.3f}" if np.isfinite(rhat) else "-"
            print(
                f"| {name} | {sampler} | {worth:.1f} | {mixed} | {calls:,.0f} | {seconds:.1f} |", flush=True
            )


if __name__ == "__main__":
    main()
