"""Five hundred stretches in one study: time to check, time and size of the report, memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import lfilter

ROWS, SAMPLES, REFERENCES = 500, 2500, 40
MODEL = """
import numpy as np
import tamis
from scipy.signal import lfilter

SIGNALS = ("p", "q", "r", "s")


@tamis.simulator(
    version="1",
    inputs={"road": tamis.Port("road", kind="file")},
    outputs={"t": "s", **{name: "m/s2" for name in SIGNALS}},
)
def ride(road, a=0.5, gain=1.0):
    u = np.load(road)
    return {
        "t": 0.005 * np.arange(len(u)),
        **{name: gain * lfilter([1.0], [1.0, -a / (k + 1)], u) for k, name in enumerate(SIGNALS)},
    }
"""
STUDY = """
tamis = 1
title = "Five hundred roads"
[model]
simulator = "model.py:ride"
keep = "observed"
[parameters]
a = { prior = "uniform", low = 0.0, high = 0.95 }
gain = { prior = "uniform", low = 0.5, high = 2.0 }
[design]
method = "sobol"
n = 12
[[experiment]]
name = "roads"
table = "stretches.csv"
conditions = { road = "road" }
draws = 4
[[experiment.observe]]
output = "p"
also = ["q", "r", "s"]
how = "bands"
bands = { start = 0.5, stop = 80.0, n = 20, spacing = "log" }
data = "signals"
noise = { kind = "lowrank", reference = "reference.csv", nominal = { a = 0.5, gain = 1.0 }, components = 4 }
[surrogate]
method = "kriging"
target = "loglike"
[inference]
method = "mct"
trajectories = 10
draws = 200
"""


def measured(*words: str, cwd: Path) -> tuple[float, float]:
    """Run a command; return CPU seconds, its children's included, and the peak of memory in MB."""
    program = (
        "import resource, subprocess, sys\n"
        "code = subprocess.run([sys.executable, '-m', 'tamis', *sys.argv[1:]], stdout=subprocess.DEVNULL).returncode\n"
        "use = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(use.ru_utime + use.ru_stime, use.ru_maxrss / 1024)\n"
        "sys.exit(code if code > 1 else 0)"  # 1: done, with reservations
    )
    run = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=cwd, capture_output=True, text=True, check=True
    )
    seconds, peak = map(float, run.stdout.split())
    return seconds, peak


@pytest.mark.slow
def test_five_hundred_rows(tmp_path: Path) -> None:
    """CPU times, so that they mean something on a busy machine; the simulator takes microseconds and costs nothing."""
    rng = np.random.default_rng(0)
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "study.toml").write_text(STUDY)
    for kind, count, a, gain in (("stretches", ROWS, 0.7, 1.3), ("reference", REFERENCES, 0.5, 1.0)):
        rows = ["road,signals"]
        for k in range(count):
            road = rng.standard_normal(SAMPLES)
            np.save(tmp_path / f"{kind}{k}.npy", road)
            signals = [gain * lfilter([1.0], [1.0, -a / (j + 1)], road) for j in range(4)]
            noisy = np.array(signals) * (1.0 + 0.1 * rng.standard_normal((4, 1)))
            noisy += 0.05 * rng.standard_normal(noisy.shape)
            table = np.column_stack([0.005 * np.arange(SAMPLES), noisy.T])
            np.savetxt(tmp_path / f"{kind}{k}.csv", table, "%.6g", ",", header="t,p,q,r,s", comments="")
            rows.append(f"{kind}{k}.npy,{kind}{k}.csv")
        (tmp_path / f"{kind}.csv").write_text("\n".join(rows) + "\n")
    check, _ = measured("check", "study.toml", cwd=tmp_path)
    before, peak = measured("run", "study.toml", "--to", "prediction", "--force", "-j", "1", cwd=tmp_path)
    report, peak_of_report = measured("run", "study.toml", "--force", "-j", "1", cwd=tmp_path)
    page = tmp_path / "results" / "study" / "report.html"
    size = page.stat().st_size / 1e6
    print(
        f"check {check:.1f} s, stages {before:.0f} s, report {report:.1f} s, {size:.2f} MB, "
        f"memory {max(peak, peak_of_report):.0f} MB"
    )
    assert check <= 5.0
    assert report <= 60.0
    assert size <= 10.0
    assert max(peak, peak_of_report) <= 2048.0
    worst = (tmp_path / "results" / "study" / "tables" / "data-roads-levels-of-p-q-r-s-worst.csv").read_text()
    assert len(worst.splitlines()) == 6
