"""Error, honesty and cost of sparse polynomial chaos on known functions, for tamis and OpenTURNS.

``python benchmarks/pce.py [--peers PYTHON] [--seeds N] [--large]`` prints a Markdown table of medians over designs.
PYTHON is the interpreter of an environment with OpenTURNS, which makes the same search over degrees and q-norms on
the design of seed 7. Errors are mean squared over the variance at 1e5 points; CPU seconds depend on the machine,
their ratio hardly. Set OPENBLAS_NUM_THREADS=1.
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
from tests.surrogates import functions  # noqa: E402

from tamis.design import sobol  # noqa: E402
from tamis.surrogates.pce import fit_pce  # noqa: E402

SMALL = [
    ("ishigami", 3, 100),
    ("ishigami", 3, 200),
    ("borehole", 8, 100),
    ("borehole", 8, 200),
    ("sobol_g", 8, 200),
]
LARGE = [("borehole", 8, 500), ("sobol_g", 8, 500)]  # a quarter of an hour for OpenTURNS


def with_tamis(name: str, d: int, n: int, seed: int) -> tuple[float, float, float]:
    """Return true error, reported error and CPU seconds."""
    function = getattr(functions, name)
    u = sobol(n, d, np.random.default_rng(seed))
    y = function(u)
    start = time.process_time()
    model = fit_pce(u, y)
    seconds = time.process_time() - start
    test = np.random.default_rng(123).random((100_000, d))
    truth = function(test)
    error = np.mean((model.predict(test).mean[:, 0] - truth) ** 2) / truth.var()
    return float(error), float(model.mse[0] / y.var()), seconds


def with_peer(python: str, name: str, n: int) -> tuple[float, float, float]:
    command = [python, str(ROOT / "benchmarks" / "pce_peers.py"), name, str(n), "7"]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    runs = [json.loads(line) for line in out.splitlines() if line.startswith("[")]
    best = min(runs, key=lambda run: run[4])
    return best[5], best[4], sum(run[6] for run in runs)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", help="interpreter of an environment with OpenTURNS")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--large", action="store_true", help="500 runs too")
    options = parser.parse_args()
    print("| function | runs | package | designs | error | reported / true | CPU s |")
    print("|---|---|---|---|---|---|---|")
    for name, d, n in SMALL + (LARGE if options.large else []):
        runs = np.array([with_tamis(name, d, n, seed) for seed in range(options.seeds)])
        error, _, seconds = np.median(runs, axis=0)
        ratio = np.median(runs[:, 1] / runs[:, 0])
        print(
            f"| {name} | {n} | tamis | {options.seeds} | {error:.2g} | {ratio:.2f} | {seconds:.2f} |",
            flush=True,
        )
        if options.peers:
            error, claimed, seconds = with_peer(options.peers, name, n)
            print(
                f"| {name} | {n} | OpenTURNS | 1 | {error:.2g} | {claimed / error:.2f} | {seconds:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
