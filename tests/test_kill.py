"""A study killed twenty times at random moments ends with the bytes of one that was left alone."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tamis.runs.store import INDEX, RunStore
from tests.chained import chain_files, small_chain
from tests.shelf import Spot, contents, spots
from tests.test_interrupt import family, until

EXAMPLE = Path(__file__).parent.parent / "examples" / "01_ball"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for orphans in /proc"),
]


def study(folder: Path, *changes: tuple[str, str]) -> Path:
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("runs", "results", "__pycache__"))
    for name in ("study.toml", "model.py"):
        text = (folder / name).read_text()
        for old, new in changes:
            text = text.replace(old, new)
        (folder / name).write_text(text)
    return folder


def begin(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "TAMIS_TEST_MARK": str(folder)}
    command = [sys.executable, "-m", "tamis", "run", "study.toml", *options]
    nothing = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=nothing, stderr=nothing)


def files(folder: Path) -> dict[str, bytes]:
    """Return all that a study leaves, but for what holds times: the manifest, the index and the report."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("results/**/*.npz")}
    return found | contents(folder / "runs")


def killed_again_and_again(folder: Path, options: tuple[str, ...], first: float, last: float) -> int:
    """Run the study, kill it at a moment between two of its life; return how often it was before it ended."""
    moments = np.random.default_rng(20).uniform(first, last, size=60)
    finished: dict[str, Spot] = {}  # a run that was done again would lie elsewhere
    kills = 0
    for moment in moments:
        process = begin(folder, *options)
        try:
            process.wait(moment)
            assert process.returncode == 0
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        until(lambda: not family(folder), 5.0, "all processes end")
        now = spots(folder / "runs")
        assert finished.items() <= now.items()
        finished = now
        if (folder / "runs" / INDEX).exists():
            with RunStore(folder / "runs") as store, store.lock():  # nobody holds it any more
                pass
            with sqlite3.connect(folder / "runs" / INDEX) as index:
                assert index.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert begin(folder, *options).wait(300) == 0
    assert finished.items() <= spots(folder / "runs").items()
    return kills


def test_a_campaign_killed_twenty_times(tmp_path):
    # a run takes a tenth of a second: about sixteen seconds of work on two processes
    slow = (
        ("import tamis\n", "import time\n\nimport tamis\n"),
        ('    return {"t"', '    time.sleep(0.1)\n    return {"t"'),
    )
    folders = [study(tmp_path / name, ("n = 128", "n = 160"), *slow) for name in ("left", "killed")]
    assert begin(folders[0], "-j", "2", "--to", "observables").wait(300) == 0
    start = time.monotonic()
    begin(folders[1], "--to", "design").wait()
    load = time.monotonic() - start
    kills = killed_again_and_again(folders[1], ("-j", "2", "--to", "observables"), load, load + 1.2)
    assert kills >= 20
    assert files(folders[0]) == files(folders[1])


def test_a_sampler_killed_twenty_times(tmp_path):
    more = (("n = 2000", "n = 16000"), ('method = "pce"', 'method = "none"'))
    folders = [study(tmp_path / name, *more) for name in ("left", "killed")]
    assert begin(folders[0], "-j", "2").wait(600) == 0
    start = time.monotonic()
    begin(folders[1], "-j", "2", "--to", "observables").wait()
    load = time.monotonic() - start
    kills = killed_again_and_again(folders[1], ("-j", "2"), 0.5 * load, load + 1.0)
    assert kills >= 20
    assert files(folders[0]) == files(folders[1])


def test_a_chain_of_studies_killed_ten_times(tmp_path):
    # its sources first, two runs of a design and a sampler; then 192 runs of a tenth of a second
    folders = [small_chain(tmp_path / name, delay=0.1) for name in ("left", "killed")]
    options = ("-j", "2", "--to", "fragility")
    assert begin(folders[0], *options).wait(300) == 0
    start = time.monotonic()
    begin(folders[1], "--to", "design").wait()
    load = time.monotonic() - start
    kills = killed_again_and_again(folders[1], options, 0.7 * load, load + 1.5)
    assert kills >= 10
    found = chain_files(folders[0])
    assert found == chain_files(folders[1]) and "chain/results/study/fragility.npz" in found
