"""A campaign meets a full disk, a read-only folder, a rival, a wrong clock, a copy taken under way.

After each the index is sound, and the same campaign goes on to its end without running anything twice.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tamis.errors import StudyError
from tamis.runs.campaign import evaluate
from tamis.runs.keys import run_key
from tamis.runs.store import INDEX, RunStore
from tamis.simulation import Port, find
from tests.shelf import spots

MODELS = Path(__file__).parent / "models"
LINE = find("plain.py:line", MODELS)
SMALL = [{"a": float(i), "n": 3} for i in range(300)]
CAMPAIGN = f"""
import os, resource, sys
from pathlib import Path
from tamis.runs.campaign import evaluate
from tamis.errors import StudyError
from tamis.simulation import find
from tamis.runs.store import RunStore
simulator = find("plain.py:line", Path({str(MODELS)!r}))
{{before}}
try:
    evaluate(simulator, eval(sys.argv[1]), RunStore("runs"), executor=0)
except StudyError as error:
    sys.exit(f"refused: {{{{error}}}}")
{{after}}
"""


def started(folder: Path, points: list[dict], before: str = "", after: str = "") -> subprocess.Popen[str]:
    environment = {**os.environ, "TAMIS_TEST_COUNT": str(folder / "calls")}
    code = CAMPAIGN.format(before=before, after=after).replace("{{", "{").replace("}}", "}")
    command = [sys.executable, "-c", code, repr(points)]
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> str:
    _, said = process.communicate(timeout=60)
    return said


def calls(folder: Path) -> Counter[str]:
    path = folder / "calls"
    return Counter(path.read_text().split()) if path.exists() else Counter()


def assert_sound(root: Path) -> None:
    db = sqlite3.connect(root / INDEX)
    try:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        db.close()


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.002)


# --- full disk


def test_a_disk_too_full_for_one_array_file(tmp_path):
    points = [{"a": float(i), "n": 10} for i in range(5)] + [{"a": 5.0, "n": 10_000}, {"a": 6.0, "n": 10}]
    said = ended(started(tmp_path, points, "resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))"))
    assert "refused: cannot write to the run store" in said and "File too large" in said
    assert_sound(tmp_path / "runs")
    assert calls(tmp_path) == {f"{float(i)}": 1 for i in range(6)}
    assert ended(started(tmp_path, points)) == ""
    # what could not be written was run again, nothing else was
    assert calls(tmp_path) == {f"{float(i)}": 2 if i == 5 else 1 for i in range(7)}
    assert RunStore(tmp_path / "runs").counts() == {"done": 7}


def test_a_disk_too_full_for_a_segment_or_the_index(tmp_path):
    said = ended(started(tmp_path, SMALL, "resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))"))
    assert "refused: cannot write to the run store" in said
    kept = len(spots(tmp_path / "runs"))
    before = list(calls(tmp_path))
    assert 0 < kept <= len(before) <= kept + 1
    assert ended(started(tmp_path, SMALL)) == ""
    assert_sound(tmp_path / "runs")
    again = [a for a, times in calls(tmp_path).items() if times > 1]
    assert len(calls(tmp_path)) == len(SMALL) and again in ([], [before[-1]])  # the one that found no room
    assert RunStore(tmp_path / "runs").counts() == {"done": len(SMALL)}


def may_mount() -> bool:
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("mount"):
        return False
    command = ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not may_mount(), reason="a small disk can be mounted only by root, where that is allowed")
def test_a_real_disk_that_fills_and_is_enlarged(tmp_path):
    (tmp_path / "disk").mkdir()
    body = CAMPAIGN.format(before="", after="").replace("{{", "{").replace("}}", "}")
    (tmp_path / "campaign.py").write_text(body)
    campaign = f"{sys.executable} {tmp_path}/campaign.py '{SMALL!r}'".replace("'[", '"[').replace("]'", ']"')
    script = f"""
        mount -t tmpfs -o size=400k tmpfs {tmp_path}/disk && cd {tmp_path}/disk
        {campaign} 2> {tmp_path}/first; cp {tmp_path}/calls {tmp_path}/before
        mount -o remount,size=20m {tmp_path}/disk
        {campaign} 2> {tmp_path}/second
        cp -r runs {tmp_path}/runs
    """
    environment = {**os.environ, "TAMIS_TEST_COUNT": str(tmp_path / "calls")}
    subprocess.run(["unshare", "-m", "sh", "-c", script], env=environment, check=True, timeout=60)
    first, second = ((tmp_path / name).read_text() for name in ("first", "second"))
    assert "refused: cannot write to the run store" in first and second == ""
    before = (tmp_path / "before").read_text().split()
    assert 0 < len(before) < len(SMALL)
    again = [a for a, times in calls(tmp_path).items() if times > 1]
    assert len(calls(tmp_path)) == len(SMALL) and again in ([], [before[-1]])  # the one that found no room
    assert_sound(tmp_path / "runs")
    assert RunStore(tmp_path / "runs").counts() == {"done": len(SMALL)}


# --- read-only folder


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user can reach, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="tamis-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_read_only_folder_is_read_and_explained(open_folder):
    evaluate(LINE, SMALL[:5], RunStore(open_folder / "runs"), executor=0)
    (open_folder / "calls").touch()
    (open_folder / "calls").chmod(0o666)
    folders = [open_folder / "runs", *(open_folder / "runs").glob("*/")]
    for folder in folders:
        folder.chmod(0o555)
    drop = "os.setuid(65534)" if os.geteuid() == 0 else ""
    try:
        assert ended(started(open_folder, SMALL[:5], drop)) == ""  # all there: nothing to write
        said = ended(started(open_folder, SMALL[:6], drop))
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert "refused: cannot write to the run store" in said and "ermission denied" in said
    assert calls(open_folder) == {}
    assert ended(started(open_folder, SMALL[:6])) == ""
    assert calls(open_folder) == {"5.0": 1}
    assert_sound(open_folder / "runs")


# --- two at once

GATED = """
import os, time
from pathlib import Path
import numpy as np
import tamis

@tamis.simulator(outputs={"z": "m"})
def gated(*, a=1.0):
    with Path(os.environ["TAMIS_TEST_COUNT"]).open("a") as file:
        file.write(f"{a!r}\\n")
    while not Path(os.environ["TAMIS_TEST_GATE"]).exists():
        time.sleep(0.01)
    return {"z": np.array([a, a])}
"""
STUDY = """
tamis = 1
[model]
simulator = "gated.py:gated"
[parameters]
a = { prior = "uniform", low = 0.0, high = 1.0 }
[[experiment]]
name = "one"
observe = [ { output = "z", how = "final", data = "one.csv", y = "z", noise = { kind = "known", sd = 0.1 } } ]
[design]
method = "lhs"
n = 20
"""


def test_the_second_of_two_campaigns_is_told_of_the_first(tmp_path):
    (tmp_path / "gated.py").write_text(GATED)
    for name in ("study.toml", "other.toml"):  # one store, results of their own
        (tmp_path / name).write_text(STUDY)
    (tmp_path / "one.csv").write_text("z\n1.0\n")
    marks = {"TAMIS_TEST_COUNT": str(tmp_path / "calls"), "TAMIS_TEST_GATE": str(tmp_path / "gate")}
    environment = {**os.environ, **marks}

    def run(name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tamis", "run", name, "--to", "runs", "-j", "1"]
        return subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)

    with run("study.toml") as first:
        try:
            until(lambda: bool(calls(tmp_path)))
            again, second = run("study.toml"), run("other.toml")
            said = ended(again), ended(second)
        finally:
            (tmp_path / "gate").touch()
        assert again.returncode == 2 and f"results are being written by process {first.pid} on" in said[0]
        assert second.returncode == 2 and f"is being written by process {first.pid} on" in said[1]
        assert ended(first).splitlines()[-1].startswith("  runs: 20/20") and first.returncode == 0
    # each once, but for the first and the last, which are made once more to see that they give the same
    assert len(calls(tmp_path)) == 20 and sum(calls(tmp_path).values()) <= 22
    assert_sound(tmp_path / "runs")


# --- a clock that goes back


class Reader:
    """As much of a simulator as a key needs."""

    name, version = "reader", "1"
    inputs = {"f": Port("f", kind="file")}  # noqa: RUF012


@pytest.mark.parametrize("shift", [-3600.0, 0.0, 3600.0], ids=["past", "now", "future"])
def test_an_edited_file_is_another_input_whatever_its_date(tmp_path, shift):
    path = tmp_path / "mesh"
    when = time.time() + shift
    keys = set()
    for text in ("one", "two", "six"):  # of one size
        path.write_text(text)
        os.utime(path, (when, when))
        keys |= {run_key(Reader, {"f": str(path)}), run_key(Reader, {"f": str(path)})}
    assert len(keys) == 3


def test_a_file_long_unchanged_is_read_once_and_again_when_replaced(tmp_path, monkeypatch):
    path, other = tmp_path / "mesh", tmp_path / "other"
    path.write_text("one")
    other.write_text("two")
    later = time.time_ns() + 10_000_000_000
    monkeypatch.setattr("tamis.runs.keys.time.time_ns", lambda: later)  # ten seconds have passed
    reads = []
    hashed = sys.modules["tamis.runs.keys"]._hashed
    monkeypatch.setattr("tamis.runs.keys._hashed", lambda name: (reads.append(name), hashed(name))[1])
    first = {run_key(Reader, {"f": str(path)}) for _ in range(5)}
    assert len(first) == 1 and len(reads) == 1
    shutil.copystat(path, other)
    other.replace(path)
    assert run_key(Reader, {"f": str(path)}) not in first


def test_runs_dated_in_the_future_are_found(tmp_path):
    evaluate(LINE, SMALL[:5], RunStore(tmp_path / "runs"), executor=0)
    later = time.time() + 86400
    for path in (tmp_path / "runs").rglob("*"):
        os.utime(path, (later, later))
    assert ended(started(tmp_path, SMALL[:6])) == ""
    assert calls(tmp_path) == {"5.0": 1}
    assert_sound(tmp_path / "runs")


# --- a copy taken under way


@pytest.mark.filterwarnings("ignore:the index of the run store:tamis.errors.TamisWarning")
@pytest.mark.filterwarnings("ignore:.*array files of the run store:tamis.errors.TamisWarning")
def test_a_copy_taken_while_a_campaign_writes_is_a_store(tmp_path):
    points = [{"a": float(i), "n": 3, "wait": 0.005} for i in range(300)]
    with started(tmp_path, points) as process:
        until(lambda: (tmp_path / "runs" / INDEX).exists())
        copies = 0
        while process.poll() is None and copies < 5:
            subprocess.run(["cp", "-r", "runs", f"copy{copies}"], cwd=tmp_path, check=False, stderr=-3)
            copies += 1
            time.sleep(0.2)
        assert ended(process) == ""
    assert copies > 2  # the campaign lasts 1.5 s and more
    keys = [run_key(LINE, point) for point in points]
    for i in range(copies):
        root = tmp_path / f"copy{i}"
        whole = set(spots(root))
        with RunStore(root) as store:
            store.runs()
            assert set(store.recover(keys)) == whole
        assert_sound(root)
    (tmp_path / "last").mkdir()
    shutil.move(root, tmp_path / "last" / "runs")
    assert ended(started(tmp_path / "last", points)) == ""
    assert len(calls(tmp_path / "last")) == len(points) - len(whole)
    assert_sound(tmp_path / "last" / "runs")


def test_a_store_that_is_a_file_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "runs").write_text("")
    with pytest.raises(StudyError, match=r"found a file|cannot write"):
        evaluate(LINE, SMALL[:1], RunStore(tmp_path / "runs"), executor=0)
