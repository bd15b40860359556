"""What the campaign costs beside the simulations: seconds a trivial run, and finding runs in a large store.

Run it alone on an idle machine: ``python benchmarks/campaign.py [runs]``. Targets: 10 000 trivial runs at 5 ms each
with two workers, at 10 ms on two Dask workers, with flat memory; `tamis status` of them within 1 s; a store of
100 000 runs opens within 1 s and one run is found in it within 5 ms.

``--million [runs]`` fills a store with small runs through its own API and asks it what people ask. Targets: opened
within 1 s, one run found within 5 ms, `tamis status` within 2 s, copied by ``cp -r`` within 2 min, and the
memory that opening, finding and counting take does not grow with the number of runs.
``--large`` does both. ``--overhead SRC [runs]`` times trivial runs, in turn with those of another version, whose
sources are in that folder.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

import tamis
from tamis import RunStore, evaluate, run_key  # public names: `--overhead` has other versions run this file


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


def main(arguments: list[str]) -> None:
    """Call the command line."""
    from tamis.cli.main import main

    main(arguments)


def status(n: int) -> dict[str, float]:
    """Time `tamis status` of the ball with n runs done, and under way."""
    from tamis.study.reader import read
    from tamis.study.stages.table import stage_hashes

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


_TRUE = 50_000  # runs whose array files are their own; the others repeat the last, to fill the store in time


def million(n: int) -> None:
    """Fill a store with n runs and time what is asked of it."""
    from tamis.cli.stores import merge
    from tamis.runs.segments import segment_path, sizes, walk
    from tamis.runs.store import Files, Run, array_file

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "ball" / "runs"
        with redirect_stdout(StringIO()):
            main(["new", str(root.parent)])
        keys = []
        start = cpu()
        with RunStore(root) as store, store.lock():
            for i in range(n):
                inputs = {"a": float(i)}
                run = Run(run_key(trivial, inputs), trivial.name, trivial.version, inputs, "done", 0.001)
                if i < _TRUE:
                    content = array_file(run, {"z": np.array([float(i)])})
                store.record(run, Files.of(content))
                if i % 5000 == 0:
                    store.flush()
                if i < 100_000:
                    keys.append(run.key)
        files = [path for path in root.rglob("*") if path.is_file()]
        times = {"CPU us a run": 1e6 * (cpu() - start) / n, "files": len(files)}
        times["MB of segments"] = sum(path.stat().st_size for path in files if path.suffix == ".tar") / 1e6
        times["MB of index"] = (root / "runs.sqlite").stat().st_size / 1e6
        line(f"{n} runs packed", times)
        code = f"""
import sys, time
from tamis.runs.store import RunStore
sys.path.insert(0, {str(Path(__file__).parent)!r})
from campaign import megabytes
before = megabytes()
def timed(what, ask):
    start = time.process_time()
    ask()
    print(f"{{1e3 * (time.process_time() - start):.3g}} ms {{what}}", end=", ")
store = RunStore({str(root)!r})
timed("open and find one", lambda: store.get({keys[7]!r}))
timed("find another", lambda: store.get({keys[77]!r}))
timed("read one", lambda: store.outputs({keys[777]!r}))
timed("find that one is absent", lambda: store.get("0" * 32))
timed("count", store.counts)
print(f"{{megabytes() - before:.1f}} MB more memory")
"""
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        print(f"- {n} runs: {said.strip()}", flush=True)
        study = [sys.executable, "-m", "tamis", "status", str(root.parent / "study.toml")]
        asked(["run", study[-1], "--to", "runs", "-j", "1"])
        timed(
            f"{n} runs, `tamis status` beside them",
            lambda: subprocess.run(study, check=True, capture_output=True),
        )
        timed(f"{n} runs, the same without starting Python", lambda: asked(study[3:]))
        copy = ["cp", "-r", str(root), str(Path(folder) / "copy")]
        timed(f"{n} runs, `cp -r`", lambda: subprocess.run(copy, check=True))
        store = RunStore(root)
        timed(f"{n} runs, {len(keys)} of them looked for and read", lambda: store.recover(keys))
        part = RunStore(Path(folder) / "part")
        for number in list(sizes(root))[:2]:
            (part.root / "segments").mkdir(parents=True, exist_ok=True)
            shutil.copy(segment_path(root, number), segment_path(part.root, number))
        warnings.simplefilter("ignore")
        some = sum(len(walk(segment_path(part.root, number))[0]) for number in sizes(part.root))
        timed(f"a new index from {some} of them", lambda: len(part))
        timed(f"merging {some} runs", lambda: merge(RunStore(Path(folder) / "merged"), part.root))


def asked(arguments: list[str]) -> None:
    with redirect_stdout(StringIO()):
        main(arguments)


def timed(what: str, action: Callable[[], object]) -> None:
    """Print what an action takes: seconds of CPU, whatever else the machine does, and of the clock."""
    start = time.perf_counter(), cpu()
    action()
    line(what, {"CPU s": cpu() - start[1], "s": time.perf_counter() - start[0]})


def beside(other: str, n: int) -> None:
    """Time n trivial runs of this version and of another, in turn, and print the ratio of their CPU seconds a run."""
    for workers in (0, 2):
        cost: dict[str, list[float]] = {"this": [], "other": []}
        for _ in range(3):
            for which, sources in (("this", str(Path(tamis.__file__).parents[1])), ("other", other)):
                command = [sys.executable, __file__, "--once", str(n), str(workers)]
                environment = {**os.environ, "PYTHONPATH": sources}
                said = subprocess.run(
                    command, env=environment, capture_output=True, text=True, check=True
                ).stdout
                cost[which].append(float(said))
        this, before = min(cost["this"]), min(cost["other"])
        line(
            f"{n} trivial runs, {workers} worker processes, beside {other}",
            {"CPU ms a run": this, "before": before, "times": this / before},
        )


def once(n: int, workers: int) -> None:
    """Print the CPU milliseconds of one of n trivial runs, those of worker processes included."""
    points = [{"a": float(i)} for i in range(n)]
    with tempfile.TemporaryDirectory() as folder, RunStore(folder) as store:
        evaluate(trivial, points[:10], store, executor=workers)
        start = cpu()
        evaluate(trivial, points, store, executor=workers)
    print(1e3 * (cpu() - start) / n)


def cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def line(what: str, figures: dict[str, float]) -> None:
    text = ", ".join(f"{value:.3g} {unit}" for unit, value in figures.items())
    print(f"- {what}: {text}", flush=True)


def usual(n: int) -> None:
    for workers in (0, 1, 2):
        line(f"{n} trivial runs, {workers} worker processes", overhead(n, workers))
    line(f"{n} trivial runs, 2 Dask workers", on_dask(n))
    line(f"`tamis status`, {n} runs", status(n))
    line(f"a store of {10 * n} runs", large_store(10 * n))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--million", *given]:
            million(int(given[0]) if given else 1_000_000)
        case ["--overhead", other, *given]:
            beside(other, int(given[0]) if given else 10_000)
        case ["--once", given, workers]:
            once(int(given), int(workers))
        case ["--large"]:
            usual(10_000)
            million(1_000_000)
        case given:
            usual(int(given[0]) if given else 10_000)
