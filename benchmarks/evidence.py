"""Error and cost of the evidence on problems where it is known, for tamis and, where they are installed, its peers.

``python benchmarks/evidence.py [--peers PYTHON] [--seeds N] [--n N]`` prints a Markdown table. PYTHON is the
interpreter of an environment with PyMC and dynesty (see ``peers.txt``); each runs there with its default settings. CPU
seconds depend on the machine; errors and likelihood calls do not.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from tests.problems import KNOWN, Problem  # noqa: E402

import tamis  # noqa: E402

PEERS = ("pymc", "dynesty")


def with_tamis(problem: Problem, seed: int, n: int) -> tuple[float, float, int, float]:
    start = time.process_time()
    posterior = tamis.tmcmc(problem.space, problem.loglike, n=n, rng=np.random.default_rng(seed))
    calls = int(posterior.diagnostics["likelihood_calls"])
    return *posterior.log_evidence, calls, time.process_time() - start


def version(python: str, package: str) -> str | None:
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else None


def with_peer(python: str, package: str, problem: int, seeds: int, n: int) -> list[list[float]]:
    command = [
        python,
        str(ROOT / "benchmarks" / "evidence_peers.py"),
        package,
        str(problem),
        str(seeds),
        str(n),
    ]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith("[")]


def row(problem: Problem, package: str, runs: list[list[float]]) -> str:
    value, reported, calls, seconds = np.array(runs, dtype=float).T
    error = value - problem.log_evidence
    se = f"{reported.mean():.4f}" if np.isfinite(reported).all() else "-"
    return (
        f"| {problem.name} | {package} | {np.sqrt(np.mean(error**2)):.4f} | {np.abs(error).max():.4f} | {se} "
        f"| {calls.mean():,.0f} | {seconds.mean():.1f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", help="interpreter of an environment with PyMC and dynesty")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--n", type=int, default=8192, help="population of tamis and PyMC")
    options = parser.parse_args()
    peers = {p: version(options.peers, p) for p in PEERS} if options.peers else {}
    print("| problem | package | rms error | largest | reported error | likelihood calls | CPU s |")
    print("|---|---|---|---|---|---|---|")
    for index, make in enumerate(KNOWN):
        problem = make()
        runs = [list(with_tamis(problem, seed, options.n)) for seed in range(options.seeds)]
        print(row(problem, f"tamis {tamis.__version__}", runs), flush=True)
        for package, found in peers.items():
            if found:
                runs = with_peer(options.peers, package, index, options.seeds, options.n)
                print(row(problem, f"{package} {found}", runs), flush=True)


if __name__ == "__main__":
    main()
