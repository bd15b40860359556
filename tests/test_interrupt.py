"""A campaign is stopped at several instants, gently and not, and goes on to the same bytes."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import tamis.runs.campaign
from tamis.runs.campaign import evaluate
from tamis.runs.store import RunStore, read_record
from tamis.simulation import find
from tests.shelf import contents, spots

MODELS = Path(__file__).parent / "models"
LINE = find("plain.py:line", MODELS)
SOURCES = str(Path(tamis.__file__).parent)
POINTS = [{"a": float(i), "n": 50, "wait": 0.03} for i in range(40)]
CAMPAIGN = f"""
import sys
from pathlib import Path
from tamis.runs.campaign import evaluate
from tamis.simulation import find
from tamis.runs.store import RunStore
simulator = find(sys.argv[1], Path({str(MODELS)!r}))
evaluate(simulator, eval(sys.argv[2]), RunStore("runs"), executor=int(sys.argv[3]))
"""

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for orphans in /proc")


def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.005)


def family(folder: Path) -> list[str]:
    """Command lines of the processes whose environment carries the mark of this test."""
    mark = f"TAMIS_TEST_MARK={folder}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def finished(folder: Path) -> int:
    return len(spots(folder / "runs"))


@contextmanager
def campaign(
    folder: Path, simulator: str, points: list[dict], workers: int
) -> Iterator[subprocess.Popen[str]]:
    environment = {
        **os.environ,
        "TAMIS_TEST_MARK": str(folder),
        "TAMIS_TEST_COUNT": str(folder / "calls"),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", CAMPAIGN, simulator, repr(points), str(workers)],
        cwd=folder,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
        until(lambda: not family(folder), 5.0, "the campaign's processes end")
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def stop(process: subprocess.Popen[str], how: signal.Signals) -> str:
    start = time.monotonic()
    process.send_signal(how)
    _, said = process.communicate(timeout=10)
    assert process.returncode == -how, said
    assert time.monotonic() - start < 3.0  # the runs are not waited for; an idle machine needs 0.2 s
    return said


def test_a_campaign_stopped_again_and_again_ends_with_the_same_bytes(tmp_path):
    reference = RunStore(tmp_path / "reference")
    evaluate(LINE, POINTS, reference, executor=0)

    folder = tmp_path / "stopped"
    folder.mkdir()
    moments = [(0, signal.SIGKILL), (4, signal.SIGINT), (11, signal.SIGKILL), (19, signal.SIGINT)]
    for number, how in moments:
        with campaign(folder, "plain.py:line", POINTS, 2) as process:
            until((folder / "runs" / ".lock").exists, 20.0, "the campaign begins")
            until(lambda number=number: finished(folder) >= number, 20.0, f"{number} runs are finished")
            said = stop(process, how)
            if how == signal.SIGINT:
                assert said.splitlines()[-1] == "KeyboardInterrupt"
                with RunStore(folder / "runs") as store:
                    assert len(store) == finished(folder)
        assert number <= finished(folder) < len(POINTS)

    before, done = len((folder / "calls").read_text().split()), finished(folder)
    assert before <= done + 2 * len(moments)  # two workers: each stop costs two runs at most
    runs = evaluate(LINE, POINTS, RunStore(folder / "runs"), executor=1)
    assert [run.inputs["a"] for run in runs] == [point["a"] for point in POINTS]
    assert contents(folder / "runs") == contents(reference.root) and len(contents(reference.root)) == 40
    assert list((folder / "runs" / ".work").iterdir()) == []


TELLING = f"""
import sys
from pathlib import Path
from tamis.runs.campaign import evaluate
from tamis.simulation import find
from tamis.runs.store import RunStore
simulator = find("plain.py:line", Path({str(MODELS)!r}))
points = [{{"a": float(i), "n": 5000 if i % 50 == 49 else 20}} for i in range(3000)]
evaluate(simulator, points, RunStore("runs"), executor=0, progress=lambda event: print(event.done, flush=True))
"""


def test_a_kill_while_runs_are_packed_costs_none_that_was_told(tmp_path):
    """Half a millisecond a run: the kills come in the middle of appends, syncs and commits."""
    moments = np.random.default_rng(5).uniform(0.02, 0.5, size=6)
    kept: dict[str, bytes] = {}
    told = 0
    for moment in moments:
        process = subprocess.Popen(
            [sys.executable, "-c", TELLING], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        said = (
            process.stdout.readline() + process.stdout.readline()
        )  # what is stored, and the first that are synced
        time.sleep(moment)
        process.kill()
        told = max(told, *map(int, (said + process.communicate()[0]).split()))
        now = contents(tmp_path / "runs")
        assert kept.items() <= now.items() and len(now) >= told
        with RunStore(tmp_path / "runs") as store:
            assert len(store.recover(list(now))) == len(now)
            assert len(store) == len(now) and all(read_record(c, key).key == key for key, c in now.items())
        kept = now
    assert told > 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_outlives_the_campaign(tmp_path, how):
    """Neither workers in the middle of a run, nor programs that the runs have started."""
    points = [{"how": "late_child", "a": 1.0}, {"how": "hang", "a": 2.0}]
    with campaign(tmp_path, "trouble.py:trouble", points, 2) as process:
        until(lambda: any("sleep 1000" in line for line in family(tmp_path)), 20.0, "a run starts a program")
        stop(process, how)
    assert finished(tmp_path) == 0
    with RunStore(tmp_path / "runs") as store, store.lock():  # the lock is free
        assert len(store) == 0


def test_an_interrupt_in_this_process_keeps_what_was_done(tmp_path):
    with campaign(tmp_path, "plain.py:line", POINTS, 0) as process:
        until(lambda: finished(tmp_path) >= 3, 20.0, "three runs are finished")
        assert stop(process, signal.SIGINT).splitlines()[-1] == "KeyboardInterrupt"
    with RunStore(tmp_path / "runs") as store:
        assert len(store) == finished(tmp_path) >= 3


def test_a_second_campaign_names_the_process_that_holds_the_store(tmp_path):
    with campaign(tmp_path, "trouble.py:trouble", [{"how": "hang"}], 0) as first:
        lock = tmp_path / "runs" / ".lock"
        until(lambda: lock.exists() and lock.read_text() != "", 20.0, "the first campaign begins")
        with campaign(tmp_path, "plain.py:line", POINTS, 0) as second:
            _, said = second.communicate(timeout=20)
            assert f"is being written by process {first.pid} on" in said.splitlines()[-1]
            first.kill()
            first.wait()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file that was just opened
@pytest.mark.parametrize("stops", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_an_interrupt_at_any_line_is_told_as_such_and_costs_nothing(tmp_path, stops):
    """The interrupt is raised at one line after another of those that a small campaign executes in tamis."""
    points = [{"a": float(i)} for i in range(3)]
    evaluate(LINE, points, RunStore(tmp_path / "first"), executor=0)  # what is done once a process
    gc.freeze()  # of what was imported up to here nothing will go: it is not looked through at every stop
    executed = interrupted(tmp_path / "reference", points, None)
    reference = contents(tmp_path / "reference")
    lines = sorted(set(np.random.default_rng(stops).integers(1, int(0.9 * executed), stops).tolist()))
    for line in lines:  # a campaign does not always execute the same number of lines: not the last of them
        assert interrupted(tmp_path / str(line), points, line) == line
        evaluate(LINE, points, RunStore(tmp_path / str(line)), executor=0)
        assert contents(tmp_path / str(line)) == reference


def interrupted(root: Path, points: list[dict], line: int | None) -> int:
    """Begin a campaign and interrupt it at the given line, if any; return how many were executed."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        if not frame.f_code.co_filename.startswith(SOURCES):
            return None
        count += event == "line"
        if count == line:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    store = RunStore(root)
    gc.collect()  # no store of before is to be cleared away meanwhile: an interrupt there is nobody's
    sys.settrace(trace)
    try:
        evaluate(LINE, points, store, executor=0)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return count
