"""Other packages on the problems of known evidence; run by their own interpreter, which needs no tamis.

``python benchmarks/evidence_peers.py package problem seeds n`` prints one JSON line a run: value, reported error,
likelihood calls, CPU seconds. Default settings, except the size of the population where there is one.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.problems import KNOWN, Problem


def with_dynesty(problem: Problem, seed: int, n: int) -> tuple[float, float, int]:
    import dynesty
    from scipy.special import ndtri

    def transform(u):
        return ndtri(u) if problem.box is None else problem.box[0] + (problem.box[1] - problem.box[0]) * u

    sampler = dynesty.NestedSampler(
        lambda x: float(problem.loglike(x[None])[0]),
        transform,
        problem.dim,
        rstate=np.random.default_rng(seed),
    )
    sampler.run_nested(print_progress=False)
    found = sampler.results
    return float(found.logz[-1]), float(found.logzerr[-1]), int(np.sum(found.ncall))


def with_pymc(problem: Problem, seed: int, n: int) -> tuple[float, float, int]:
    import pymc as pm
    import pytensor.tensor as pt

    peaks = problem.loglike
    calls = n  # the first population

    class Counting(pm.smc.IMH):
        def mutate(self):
            nonlocal calls
            super().mutate()
            calls += n * (self.n_steps - 1)

    with pm.Model():
        if problem.box is None:
            x = pm.Normal("x", 0.0, 1.0, shape=problem.dim)
        else:
            x = pm.Uniform("x", *problem.box, shape=problem.dim)
        each = [
            h - 0.5 * pt.dot(x - m, pt.dot(p, x - m))
            for h, m, p in zip(peaks.height, peaks.mean, peaks.precision, strict=True)
        ]
        pm.Potential("likelihood", pt.logsumexp(pt.stack(each)))
        trace = pm.sample_smc(
            draws=n,
            kernel=Counting,
            chains=1,
            cores=1,
            random_seed=seed,
            progressbar=False,
            compute_convergence_checks=False,
        )
    stages = np.ravel(trace.sample_stats["log_marginal_likelihood"].values)  # NaN before the last
    values = np.concatenate([np.atleast_1d(np.asarray(stage, dtype=float)) for stage in stages])
    return float(values[np.isfinite(values)][-1]), float("nan"), calls


PACKAGES = {"dynesty": with_dynesty, "pymc": with_pymc}


def main() -> None:
    package, problem, seeds, n = sys.argv[1], KNOWN[int(sys.argv[2])](), int(sys.argv[3]), int(sys.argv[4])
    warnings.simplefilter("ignore")
    logging.disable()
    for seed in range(seeds):
        start = time.process_time()
        value, error, calls = PACKAGES[package](problem, seed, n)
        print(json.dumps([value, error, calls, time.process_time() - start]), flush=True)


if __name__ == "__main__":
    main()
