"""The events file: what a run tells other processes, and that it never stands in the run's way."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tamis.cli.main import main
from tamis.errors import StudyError
from tamis.study import events
from tamis.study.api import Study
from tamis.study.events import NAME, STUDY, follow, noted, under_way
from tamis.types import Event, silent
from tests.spring import write_study


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / NAME).read_text().splitlines()]


def test_a_run_is_written_down_from_beginning_to_end(tmp_path, monkeypatch):
    write_study(tmp_path)
    monkeypatch.chdir(tmp_path)
    heard: list[Event] = []
    results = tmp_path / "results" / "study"
    for upto in ("runs", "posterior"):  # each begins it anew
        heard.clear()
        Study.load("study.toml").run(upto, executor=0, progress=heard.append)
    found = lines(results)
    assert (found[0]["task"], found[0]["done"], found[0]["pid"]) == (STUDY, 0, os.getpid())
    assert (found[-1]["task"], found[-1]["done"], found[-1]["status"]) == (STUDY, 1, "done")
    assert {line["task"] for line in found[1:-1]} <= {event.task for event in heard}
    assert "posterior" in {line["task"] for line in found} and "runs" not in {line["task"] for line in found}
    times = [line["time"] for line in found]
    assert times == sorted(times)
    assert [(e.task, e.done) for e in follow(results)] == [(line["task"], line["done"]) for line in found]


def test_runs_of_a_prediction_are_told_of_one_by_one_and_those_of_a_sampler_are_not(tmp_path, monkeypatch):
    """An hour of runs that a prediction asks for is not spent in silence."""
    write_study(tmp_path)
    text = (tmp_path / "study.toml").read_text().replace("high = 9.0", "high = 8.0")
    text += '[[predict]]\nname = "harder"\nconditions = { force = 3.0 }\ndraws = 7\n'
    (tmp_path / "study.toml").write_text(text + 'observe = [ { output = "peak" } ]\n')
    monkeypatch.chdir(tmp_path)
    heard: list[Event] = []
    Study.load("study.toml").run("runs", executor=0)
    Study.load("study.toml").run("posterior", executor=0, progress=heard.append)
    assert "posterior" in {event.task for event in heard} and "runs" not in {event.task for event in heard}
    Study.load("study.toml").run("prediction", executor=0, progress=heard.append)
    told = [event for event in heard if event.task == "runs"]
    assert (told[-1].done, told[-1].total) == (7, 7) and told[-1].info["failed"] == 0


def test_thousands_of_events_are_few_writes_and_the_last_of_each_task_is_there(tmp_path, monkeypatch):
    written: list[bytes] = []
    write = os.write
    monkeypatch.setattr(events.os, "write", lambda handle, data: written.append(data) or write(handle, data))
    with noted(tmp_path, silent) as progress:
        for done in range(20_000):
            progress(Event("a", done, 20_000))
            progress(Event("b", done, None, {"rate": 0.5}))
    found = lines(tmp_path)
    # four a second, and the two of begin and end: a machine on which the loop takes ten seconds still passes
    assert len(written) < 50 and found[-1]["status"] == "done"
    assert [line["done"] for line in found if line["task"] == "a"][-1] == 19_999
    assert {"task": "b", "done": 19_999, "total": None, "rate": 0.5}.items() <= found[-2].items()


def test_what_comes_last_before_a_silence_is_written_without_a_next_event(tmp_path):
    with noted(tmp_path, silent) as progress:
        progress(Event("design", 1, 1))
        progress(Event("runs", 0, 8))
        seen = []
        for event in follow(tmp_path, pause=0.02):
            seen.append(event.task)
            if event.task == "runs":
                break
    assert seen[0] == STUDY


def test_who_follows_sees_the_run_end(tmp_path):
    seen: list[Event] = []
    with noted(tmp_path, silent) as progress:
        reader = threading.Thread(target=lambda: seen.extend(follow(tmp_path, pause=0.02)))
        reader.start()
        progress(Event("runs", 3, 8, {"failed": 1}))
        last = under_way(tmp_path)
        assert last is not None and last.task in (STUDY, "runs")
    reader.join(10)
    assert not reader.is_alive() and seen[-1].info["status"] == "done"
    assert any(e.task == "runs" and e.info["failed"] == 1 for e in seen) and under_way(tmp_path) is None


KILLED = """
import sys, time
from pathlib import Path
from tamis.study.events import noted
from tamis.types import Event, silent
with noted(Path(sys.argv[1]), silent) as progress:
    progress(Event("runs", 1, 8))
    time.sleep(0.5)
    print("ready", flush=True)
    time.sleep(60)
"""


def test_a_killed_run_has_ended_too_and_half_a_line_is_passed_over(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    assert under_way(tmp_path) is not None
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    with (tmp_path / NAME).open("a") as file:
        file.write('{"task": "runs", "done": 2, "to')
    assert [e.task for e in follow(tmp_path, pause=0.02)] == [STUDY, "runs"] and under_way(tmp_path) is None


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt(), "interrupted"), (ValueError("no convergence"), "stopped")]
)
def test_how_it_ended(tmp_path, error, status):
    with pytest.raises(type(error)), noted(tmp_path, silent):
        raise error
    assert lines(tmp_path)[-1]["status"] == status and lines(tmp_path)[-1].get("error", "") == str(error)


def test_a_full_disk_costs_lines_and_nothing_else(tmp_path, monkeypatch):
    write, full = os.write, [False]

    def half(handle: int, data: bytes) -> int:
        if full[0]:
            write(handle, data[:9])
            raise OSError(errno.ENOSPC, "no space left")
        return write(handle, data)

    monkeypatch.setattr(events.os, "write", half)
    monkeypatch.setattr(events, "_PAUSE", 0.0)
    with noted(tmp_path, silent) as progress:
        full[0] = True
        progress(Event("runs", 1, 2))
        full[0] = False
        progress(Event("runs", 2, 2))
    assert [(e.task, e.done) for e in follow(tmp_path)] == [(STUDY, 0), ("runs", 2), (STUDY, 1)]


@pytest.mark.parametrize("obstacle", ["file", "folder", "unwritable"])
def test_where_it_cannot_be_written_the_run_goes_on(tmp_path, obstacle):
    results = tmp_path / "results"
    if obstacle == "file":
        results.write_text("in the way")
    elif obstacle == "folder":
        (results / NAME).mkdir(parents=True)
    else:
        results.mkdir()
        results.chmod(0o500)
    heard: list[Event] = []
    with noted(results, heard.append) as progress:
        progress(Event("runs", 1, 2, {"odd": Path("x")}))  # type: ignore[dict-item]
    results.chmod(0o700)
    assert [e.task for e in heard] == ["runs"]
    if obstacle != "unwritable":  # root may write anywhere
        with pytest.raises(StudyError, match="no run of this study began within 0 s"):
            next(follow(results, wait=0))


def test_who_follows_before_a_run_begins_waits_for_it(tmp_path):
    results, seen = tmp_path / "results" / "study", []
    for k in range(2):  # the second finds the file of the first, which has ended
        after = time.time()
        waiting = follow(results, after=after, pause=0.02, wait=30)
        reader = threading.Thread(target=lambda events=waiting: seen.extend(events))
        reader.start()
        time.sleep(0.1)
        assert len(seen) == 2 * k
        with noted(results, silent):
            pass
        reader.join(30)
        assert [(e.task, e.done) for e in seen[2 * k :]] == [(STUDY, 0), (STUDY, 1)]
        assert seen[2 * k].info["time"] >= after
    assert len(list(follow(results))) == 2  # told again
    with pytest.raises(StudyError, match="right folder"):
        next(follow(results, after=time.time(), wait=0.05, pause=0.02))


def test_a_second_run_of_the_study_leaves_the_first_ones_file_alone(tmp_path):
    with noted(tmp_path, silent) as progress:
        with noted(tmp_path, silent) as other:
            other(Event("runs", 1, 9))
        progress(Event("runs", 2, 8))
    assert [(e.task, e.done) for e in follow(tmp_path)] == [(STUDY, 0), ("runs", 2), (STUDY, 1)]


def test_a_reader_notices_that_it_was_begun_anew(tmp_path):
    with noted(tmp_path, silent):
        pass
    with noted(tmp_path, silent) as progress:
        reader = follow(tmp_path, pause=0.02)
        assert next(reader).done == 0
        os.truncate(tmp_path / NAME, 0)
        progress(Event("runs", 5, 8))
        assert next(reader).task in (STUDY, "runs")


def test_status_shows_what_is_under_way(tmp_path, monkeypatch, capsys):
    write_study(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(events, "_PAUSE", 0.0)
    with noted(tmp_path / "results" / "study", silent) as progress:
        progress(Event("runs", 3, 8, {"seconds_left": 125.0}))
        assert main(["status", "study.toml"]) == 0
    assert "under way: runs, 3 of 8, about 2.1 min left" in capsys.readouterr().out
    assert main(["status", "study.toml"]) == 0
    assert "under way" not in capsys.readouterr().out
