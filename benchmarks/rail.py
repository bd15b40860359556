"""A train on an irregular track: CPU time of a run, of its parts and of a campaign of stretches.

``python benchmarks/rail.py`` prints Markdown: the cost of 12.5 s of running, how it grows with the number of cars, and
a campaign of 40 stretches by 10 points with two workers, extrapolated to 500 by 200.
"""

from __future__ import annotations

import os
import resource
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

REPEATS, STRETCHES, POINTS = 20, 40, 10


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


def campaign(folder: Path) -> float:
    """Return the CPU time of a run in a campaign, in ms: everything counted, workers and store."""
    track, vehicle = find("tamis:rail.track"), find("tamis:rail.vehicle")
    files = []
    for seed in range(STRETCHES):
        made = track.run({"length": 840.0, "seed": seed}, folder)
        files.append(folder / f"{seed}.csv")
        names = ("s", *tracks.NAMES)
        table = np.column_stack([made[name] for name in names])
        np.savetxt(files[-1], table, "%.7g", ",", header=",".join(names), comments="")
    w = np.random.default_rng(0).random((POINTS, 7))
    points = [
        {"track": str(file), "seed": 1, **{f"w{k + 1}": float(row[k]) for k in range(7)}}
        for file in files
        for row in w
    ]
    start = spent()
    runs = evaluate(vehicle, points, RunStore(folder / "runs"), executor=2)
    assert all(run.status == "done" for run in runs)
    return 1e3 * (spent() - start) / len(points)


def main() -> None:
    """Print the tables."""
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
        each = campaign(Path(folder))
    hours = each * 1e-3 * 500 * 200 / 2 / 3600
    print(
        f"\nA campaign of {STRETCHES} stretches by {POINTS} points, two workers, signals kept: {each:.0f} ms of CPU "
        f"time a run, workers and store included; 500 by 200 on two cores: {hours:.2f} h."
    )


if __name__ == "__main__":
    main()
