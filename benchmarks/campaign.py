"""What the campaign costs beside the simulations: seconds a trivial run, and finding runs in a large store.

Run it alone on an idle machine: ``python benchmarks/campaign.py [runs]``. Targets: 10 000 trivial runs at 5 ms each
with two workers, at 10 ms on two Dask workers, with flat memory; `tamis status` of them within 1 s; a store of
100 000 runs opens within 1 s and one run is found in it within 5 ms.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

import tamis
from tamis.campaign import evaluate
from tamis.cli import main
from tamis.keys import run_key
from tamis.store import RunStore
from tamis.study.reader import read, stage_hashes


@tamis.simulator(outputs={"z": "m"})
def trivial(*, a=1.0):
    return {"z": np.array([a])}


def overhead(n: int, workers: Any) -> dict[str, float]:
    """Time n trivial runs, and asking for them again; the memory grown over the second half tells a leak."""
    points = [{"a": float(i)} for i in range(n)]
    with tempfile.TemporaryDirectory() as folder, RunStore(folder) as store:
        start = time.perf_counter()
        evaluate(trivial, points[: n // 2], store, executor=workers)
        half = megabytes()
        evaluate(trivial, points, store, executor=workers)
        first = time.perf_counter()
        grown = megabytes() - half
        evaluate(trivial, points, store, executor=workers)
        second = time.perf_counter()
    return {
        "ms a run": 1e3 * (first - start) / n,
        "ms a stored run": 1e3 * (second - first) / n,
        "MB grown over the second half": grown,
    }


def megabytes() -> float:
    """Return the memory this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def on_dask(n: int) -> dict[str, float]:
    """Time n trivial runs on two Dask workers, each a process."""
    from distributed import LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as machines,
        tamis.Cluster(machines.scheduler_address) as cluster,
    ):
        return overhead(n, cluster)


def status(n: int) -> dict[str, float]:
    """Time `tamis status` of the ball with n runs done, and under way."""
    with tempfile.TemporaryDirectory() as folder:
        with redirect_stdout(StringIO()):
            main(["new", f"{folder}/ball"])
            study = Path(folder) / "ball" / "study.toml"
            study.write_text(study.read_text().replace("n = 64", f"n = {n // 2}"))
            main(["run", str(study), "--to", "observables", "-j", "2"])
        times = {}
        for what in ("done", "under way"):
            start = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "tamis", "status", str(study)], check=True, capture_output=True
            )
            times[f"s {what}"] = time.perf_counter() - start
            results = study.parent / "results" / "study"
            hashed = stage_hashes(read(study))["runs"][:12]
            (results / "runs.npz").rename(results / f"asked-{hashed}.npz") if what == "done" else None
    return times


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


def line(what: str, figures: dict[str, float]) -> None:
    text = ", ".join(f"{value:.3g} {unit}" for unit, value in figures.items())
    print(f"- {what}: {text}", flush=True)


if __name__ == "__main__":
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    for workers in (0, 1, 2):
        line(f"{n} trivial runs, {workers} worker processes", overhead(n, workers))
    line(f"{n} trivial runs, 2 Dask workers", on_dask(n))
    line(f"`tamis status`, {n} runs", status(n))
    line(f"a store of {10 * n} runs", large_store(10 * n))
