"""A train on an irregular track: CPU time of a run, of its parts, of a campaign and of a study of 500 stretches.

``python benchmarks/rail.py`` prints Markdown: the cost of 12.5 s of running, how it grows with the number of cars, and
a campaign with two workers, extrapolated to 500 stretches by 200 points: 40 by 10 runs, with ``--large`` a tenth of
it (five CPU minutes). ``--large`` adds a study of 500 stretches whose simulator is the train itself, short stretches
and few points (two CPU minutes).
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
)

import numpy as np

from tamis.runs.campaign import evaluate
from tamis.runs.store import RunStore
from tamis.sim.rail import drive, tracks
from tamis.sim.rail.scene import Vehicle
from tamis.simulation import find
from tamis.types import Array

REPEATS = 20
ROWS, REFERENCES = 500, 20
STUDY = """
tamis = 1
title = "Five hundred stretches"
[model]
simulator = "tamis:rail.vehicle"
inputs = { seed = 1, speed = 40.0, duration = 2.5, runup = 0.5, rate = 80.0 }
keep = "observed"
[parameters]
w3 = { prior = "uniform", low = 0.0, high = 1.0 }
w5 = { prior = "uniform", low = 0.0, high = 1.0 }
[design]
method = "sobol"
n = 8
[[experiment]]
name = "line"
table = "stretches.csv"
conditions = { track = "track" }
draws = 2
[[experiment.observe]]
output = "car_lateral"
also = ["car_vertical", "bogie_lateral", "bogie_vertical"]
how = "bands"
bands = [0.4, 4.0, 8.0, 12.0, 16.0, 20.0]
data = "signals"
noise = { kind = "lowrank", reference = "reference.csv", nominal = { w3 = 0.5, w5 = 0.5 } }
[surrogate]
method = "kriging"
target = "loglike"
[inference]
method = "mct"
trajectories = 5
draws = 100
"""


def cpu(work: Callable[[], object]) -> float:
    """Return the least CPU time of some calls, in ms."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def spent() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    return sum(
        use.ru_utime + use.ru_stime
        for use in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def write(path: Path, columns: dict[str, Array]) -> Path:
    """Write a table of numbers."""
    np.savetxt(
        path, np.column_stack(list(columns.values())), "%.7g", ",", header=",".join(columns), comments=""
    )
    return path


def campaign(folder: Path, stretches: int, points_each: int) -> str:
    """Return what a run of a campaign costs: everything counted, workers and store."""
    vehicle = find("tamis:rail.vehicle")
    made = [drive.track(tracks.Track(length=840.0, seed=seed)) for seed in range(stretches)]
    files = [write(folder / f"{seed}.csv", columns) for seed, columns in enumerate(made)]
    w = np.random.default_rng(0).random((points_each, 7))
    points = [
        {"track": str(file), "seed": 1, **{f"w{k + 1}": float(row[k]) for k in range(7)}}
        for file in files
        for row in w
    ]
    start = spent()
    runs = evaluate(vehicle, points, RunStore(folder / "runs"), executor=2)
    assert all(run.status == "done" for run in runs)
    each = (spent() - start) / len(points)
    return (
        f"A campaign of {stretches} stretches by {points_each} points, two workers, signals kept: {1e3 * each:.0f} ms "
        f"of CPU time a run, workers and store included; 500 by 200 on two cores: {each * 500 * 200 / 2 / 3600:.2f} h."
    )


def rows(folder: Path) -> str:
    """Return what a study of many stretches costs: to check, to run, to report."""
    (folder / "study.toml").write_text(STUDY)
    rng = np.random.default_rng(0)
    for kind, count, worn in (("stretches", ROWS, {"w3": 0.25, "w5": 0.35}), ("reference", REFERENCES, {})):
        listed = ["track,signals"]
        for k in range(count):
            seed = k if kind == "stretches" else ROWS + k
            line = drive.track(tracks.Track(length=145.0, seed=seed))
            path = write(folder / f"{kind}{k}_track.csv", line)
            run = drive.simulate(
                Vehicle(
                    track=str(path), speed=40.0, duration=2.5, runup=0.5, rate=80.0, conicity=0.12, **worn
                )
            )
            signals = {name: run[name] * rng.lognormal(0.0, 0.05) for name in drive.SENSORS}
            write(folder / f"{kind}{k}_signals.csv", {"t": run["t"], **signals})
            listed.append(f"{kind}{k}_track.csv,{kind}{k}_signals.csv")
        (folder / f"{kind}.csv").write_text("\n".join(listed) + "\n")
    check, _ = commanded(folder, "check", "study.toml")
    before, peak = commanded(folder, "run", "study.toml", "--to", "prediction", "--force", "-j", "2")
    report, last = commanded(folder, "run", "study.toml", "--force", "-j", "2")
    size = (folder / "results" / "study" / "report.html").stat().st_size
    return (
        f"A study of {ROWS} stretches of 2.5 s and 8 points: `check` {check:.1f}, all stages {before:.0f}, report "
        f"{report:.1f} CPU s; report of {1e-6 * size:.2f} MB; memory {max(peak, last):.0f} MB."
    )


def commanded(folder: Path, *words: str) -> tuple[float, float]:
    """Run a command; return its CPU seconds and the largest memory of any of its processes so far, in MB."""
    start = spent()
    code = subprocess.run(
        [sys.executable, "-m", "tamis", *words], cwd=folder, stdout=subprocess.DEVNULL, check=False
    ).returncode
    assert code in (0, 1), words  # 1: done, with reservations
    return spent() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--large", action="store_true", help="a tenth of the campaign, and a study of 500 rows"
    )
    large = parser.parse_args().large
    drive.warm()
    print("| 12.5 s of running, default track | CPU time [ms] |\n|---|---|")
    for cars in (1, 2, 3):
        print(
            f"| {cars} car{'s' * (cars > 1)} | {cpu(lambda cars=cars: drive.simulate(Vehicle(cars=cars))):.1f} |"
        )
    train = drive.train_of(Vehicle())
    eigenvalues = cpu(lambda: np.linalg.eigvals(drive.jacobian(train, 60.0)))
    print(f"| of one car: eigenvalues of the linearised train | {eigenvalues:.1f} |")
    with tempfile.TemporaryDirectory() as folder:
        print("\n- " + campaign(Path(folder), *((50, 200) if large else (40, 10))))
    if large:
        with tempfile.TemporaryDirectory() as folder:
            print("- " + rows(Path(folder)))


if __name__ == "__main__":
    main()
