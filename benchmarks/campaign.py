"""What the campaign costs beside the simulations: seconds a trivial run, and finding runs in a large store.

Run it alone on an idle machine: ``python benchmarks/campaign.py [runs]``. Targets: 10 000 trivial runs at 5 ms each
with two workers; a store of 100 000 runs opens within 1 s and one run is found in it within 5 ms.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import tamis
from tamis.campaign import evaluate
from tamis.store import RunStore, run_key


@tamis.simulator(outputs={"z": "m"})
def trivial(*, a=1.0):
    return {"z": np.array([a])}


def overhead(n: int, workers: int) -> dict[str, float]:
    """Time n trivial runs, and asking for them again."""
    points = [{"a": float(i)} for i in range(n)]
    with tempfile.TemporaryDirectory() as folder, RunStore(folder) as store:
        start = time.perf_counter()
        evaluate(trivial, points, store, executor=workers)
        first = time.perf_counter()
        evaluate(trivial, points, store, executor=workers)
        second = time.perf_counter()
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "ms a run": 1e3 * (first - start) / n,
        "ms a stored run": 1e3 * (second - first) / n,
        "peak MB": megabytes,
    }


def large_store(n: int) -> dict[str, float]:
    """Time opening a store of n runs and finding things in it."""
    points = [{"a": float(i)} for i in range(n)]
    with tempfile.TemporaryDirectory() as folder:
        with RunStore(folder) as store:
            evaluate(trivial, points, store, executor=0)
        times = {}

        def timed(what, function):
            start = time.perf_counter()
            function()
            times[f"ms {what}"] = 1e3 * (time.perf_counter() - start)

        store = RunStore(folder)
        key = run_key(trivial, points[n // 2])
        timed("open and count", store.counts)
        timed("find one", lambda: store.get(key))
        timed("read one", lambda: store.outputs(key))
        timed("find all", lambda: store.get_many([run_key(trivial, point) for point in points]))
        store.close()
        times["MB on disk of the index"] = (Path(folder) / "runs.sqlite").stat().st_size / 2**20
    return times


if __name__ == "__main__":
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    for workers in (0, 1, 2):
        print(
            f"{n} trivial runs, {workers} workers:", {k: round(v, 3) for k, v in overhead(n, workers).items()}
        )
    print(f"store of {10 * n} runs:", {k: round(v, 2) for k, v in large_store(10 * n).items()})
