"""Worker processes: every way of failing costs its own run only and is recorded, and nothing outlives a campaign."""

from __future__ import annotations

import math
import os
import signal
import struct
import subprocess
import sys
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tamis.runs.campaign
import tamis.runs.pool
import tamis.runs.processes
import tamis.runs.worker
from tamis.errors import StudyError, TamisWarning
from tamis.runs.campaign import evaluate
from tamis.runs.pool import Workers
from tamis.runs.processes import descendants
from tamis.runs.store import RunStore, paths
from tamis.simulation import Port, find
from tests.shelf import contents

MODELS = Path(__file__).parent / "models"
LINE = find("plain.py:line", MODELS)
TROUBLE = find("trouble.py:trouble", MODELS)
POINTS = [{"a": float(a)} for a in (3, 1, 2, 1, 5)]


def marked(mark: str) -> list[str]:
    """Command lines of the processes that inherited a mark in their environment, other than this one and the
    reaper, which lives as long as this one."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if folder.name != str(os.getpid()) and mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return [line for line in found if "tamis.runs.processes.watch" not in line]


# --- failures are data

FATES = {
    "fine": ("done", ""),
    "raises": ("crashed", "ZeroDivisionError: no way to divide"),
    "physics": ("failed", "diverged at t = 3 s"),
    "nan": ("failed", "output z: 1 of 2 values are not finite"),
    "ragged": ("crashed", "StudyError: output z is no array: setting an array element"),
    "unknown": ("crashed", 'StudyError: simulator trouble.py:trouble returned "y"'),
    "missing": ("crashed", "StudyError: simulator trouble.py:trouble did not return its declared output z"),
    "abort": ("crashed", "the process ended during the run: SIGABRT"),
    "segfault": ("crashed", "the process ended during the run: SIGSEGV"),
    "killed": ("crashed", "the process ended during the run: SIGKILL (out of memory?)"),
    "exit3": ("crashed", "the process ended during the run: exit code 3"),
    "exit0": ("crashed", "the process ended during the run: exit code 0"),
    "stop": ("crashed", "the process ended during the run: exit code 0"),
    "sysexit": ("crashed", "SystemExit: 0"),
    "interrupt": ("crashed", "KeyboardInterrupt"),
    "hang": ("timeout", "no answer after 1.5 s"),
    "garbage": ("done", ""),
    "fork": ("done", ""),
    "fork_back": ("done", ""),
    "leaves_child": ("done", ""),
    "late_child": ("timeout", "no answer after 1.5 s"),
    "scratch": ("crashed", "RuntimeError: stopped half way"),
    "scratch_fine": ("done", ""),
    "closes": ("done", ""),
    "moves": ("done", ""),
    "daemon": ("done", ""),
    "escapes": ("crashed", "the process ended during the run: SIGSEGV"),
    "real_time": ("crashed", f"the process ended during the run: signal {signal.SIGRTMIN + 1}"),
    "names_folder": ("crashed", "FileNotFoundError: [Errno 2] No such file or directory: 'none.txt'"),
    "chatters": ("done", ""),
    "huge": ("crashed", "StudyError: the outputs take 24 MB, more than the 20 MB allowed"),
}


def test_every_way_of_failing_costs_its_own_run_only(tmp_path, monkeypatch):
    monkeypatch.setenv("TAMIS_TEST_MARK", str(tmp_path))
    store = RunStore(tmp_path / "runs")
    wanted = [point for how in FATES for point in ({"how": how}, {"a": float(len(how)) + 0.5})]
    answers = evaluate(TROUBLE, wanted, store, executor=2, timeout=1.5, max_output=20.0)
    for point, run in zip(wanted, answers, strict=True):
        status, error = FATES[point.get("how", "fine")]
        assert run.status == status and run.error.startswith(error), (point, run)
        assert "\n" not in run.error
        if status == "done":
            a = run.inputs["a"]
            np.testing.assert_array_equal(store.outputs(run.key)["z"], [a, 2 * a])
    assert marked(str(tmp_path)) == []  # neither children nor what they had started

    runs = dict(zip([point.get("how") for point in wanted], answers, strict=True))
    log = {how: store.log(run.key) for how, run in runs.items()}
    assert log["fine"] == "" and log["physics"] == ""
    assert "a Python line" in log["garbage"] and "an error line" in log["garbage"]
    assert "a program's line" in log["garbage"]
    assert log["chatters"].startswith("begin") and log["chatters"].endswith("end\n")
    assert 2e6 < len(log["chatters"]) < 2.2e6 and "bytes left out" in log["chatters"]
    assert "Traceback" in log["raises"] and "no way\nto divide" in log["raises"]
    assert "before the end" in log["abort"] and "in trouble" in log["segfault"]
    kept = paths(store.root, runs["scratch"].key)[2]
    assert (kept / "half.txt").exists() and str(kept) in log["scratch"]
    assert [folder.name for folder in (store.root / ".work").iterdir()] == [kept.name]
    assert math.isnan(runs["abort"].seconds) and runs["hang"].seconds == 1.5

    before = contents(store.root)
    again = evaluate(TROUBLE, wanted, RunStore(tmp_path / "runs"), executor=0)
    assert [(run.key, run.status, run.error) for run in again] == [
        (run.key, run.status, run.error) for run in answers
    ]
    assert contents(store.root) == before


def test_failures_are_the_same_to_the_byte_in_this_process_and_in_a_child(tmp_path):
    hows = ["raises", "physics", "nan", "ragged", "unknown", "missing", "sysexit"]
    for executor in (0, 1):
        evaluate(
            TROUBLE, [{"how": how} for how in hows], RunStore(tmp_path / str(executor)), executor=executor
        )
    assert len(contents(tmp_path / "0")) == 7 and contents(tmp_path / "0") == contents(tmp_path / "1")


@pytest.mark.slow
def test_no_crash_is_lost_however_busy_the_parent_is(tmp_path):
    """Where the pool's own bookkeeping loses runs: children that die at once, a parent slow to notice."""
    stop = threading.Event()

    def spin():
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        wanted = [{"how": "exit3", "a": float(a)} for a in range(60)]
        runs = evaluate(TROUBLE, wanted, RunStore(tmp_path), executor=2)
    finally:
        stop.set()
        thread.join()
    assert {run.error for run in runs} == {"the process ended during the run: exit code 3"}


def test_a_point_out_of_bounds_is_a_failed_run(tmp_path):
    store = RunStore(tmp_path)
    runs = evaluate(LINE, [{"a": math.nan}, {"a": 1.0}], store, executor=0)
    assert [run.status for run in runs] == ["failed", "done"] and "outside" in runs[0].error
    assert evaluate(LINE, [{"a": math.nan}], store, executor=0)[0].error == runs[0].error


def test_failed_runs_are_repeated_only_on_request(tmp_path, monkeypatch):
    (tmp_path / "flaky.py").write_text(
        "import os, time, tamis\n"
        "@tamis.simulator(outputs={'left': ''})\n"
        "def flaky(*, late=0, workdir=None):\n"
        "    left = len(list(workdir.iterdir()))\n"
        "    (workdir / 'half').write_text('half a result')\n"
        "    if not os.environ.get('TAMIS_TEST_WELL'):\n"
        "        time.sleep(1000 * late)\n"
        "        raise RuntimeError('ill')\n"
        "    return {'left': left}\n"
    )
    flaky = find("flaky.py:flaky", tmp_path)
    store = RunStore(tmp_path / "runs")
    ill = evaluate(flaky, [{}, {"late": 1}], store, executor=1, timeout=0.5)
    assert [run.status for run in ill] == ["crashed", "timeout"]
    monkeypatch.setenv("TAMIS_TEST_WELL", "1")
    assert evaluate(flaky, [{}, {"late": 1}], store, executor=0) == ill
    runs = evaluate(flaky, [{}, {"late": 1}], store, executor=0, retry_failed=True)
    assert store.counts() == {"done": 2} and [store.log(run.key) for run in runs] == ["", ""]
    left = [store.outputs(run.key)["left"].item() for run in runs]
    assert left == [0.0, 1.0]  # what crashed begins afresh, what was late may go on from where it was


def test_a_simulator_of_another_kind_is_held_to_arrays(tmp_path):
    odd = SimpleNamespace(
        name="odd",
        version="1",
        address="odd",
        inputs={},
        outputs={"z": Port("z")},
        run=lambda inputs, workdir: {"z": [{}]},
    )
    (run,) = evaluate(odd, [{}], RunStore(tmp_path), executor=0)
    assert run.status == "crashed" and run.error == (
        "StudyError: output z must be an array of numbers, found Python objects"
    )


def test_a_run_that_moves_leaves_this_process_where_it_was(tmp_path):
    here = os.getcwd()
    (run,) = evaluate(TROUBLE, [{"how": "moves"}], RunStore(tmp_path), executor=0)
    assert run.status == "done" and os.getcwd() == here


def test_a_time_out_needs_worker_processes(tmp_path):
    with pytest.warns(TamisWarning, match="not enforced"):
        evaluate(LINE, POINTS, RunStore(tmp_path), executor=0, timeout=5.0)


# --- processes


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")
def test_a_child_has_one_thread_and_this_process_keeps_its_environment(tmp_path, monkeypatch):
    (tmp_path / "threads.py").write_text(
        "import os, numpy as np, tamis\n"
        "@tamis.simulator(outputs={'threads': '', 'omp': ''})\n"
        "def threads(*, n=400):\n"
        "    np.ones((n, n)) @ np.ones((n, n))\n"
        "    return {'threads': len(os.listdir('/proc/self/task')), 'omp': int(os.environ['OMP_NUM_THREADS'])}\n"
    )
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    store = RunStore(tmp_path / "runs")
    (run,) = evaluate(find("threads.py:threads", tmp_path), [{}], store)
    assert {name: array.item() for name, array in store.outputs(run.key).items()} == {"threads": 1, "omp": 1}
    assert os.environ["OMP_NUM_THREADS"] == "7" and "MKL_NUM_THREADS" not in os.environ


def test_files_and_the_working_directory_are_those_of_the_parent(tmp_path, monkeypatch):
    (tmp_path / "reader.py").write_text(
        "import os, tamis\n"
        "@tamis.simulator(outputs={'n': '', 'here': ''}, inputs={'f': tamis.Port('f', kind='file')})\n"
        "def reader(*, f):\n"
        "    return {'n': len(open(f).read()), 'here': float(os.path.exists('data.txt'))}\n"
    )
    (tmp_path / "data.txt").write_text("four")
    monkeypatch.chdir(tmp_path)
    reader = find("reader.py:reader")
    store = RunStore("runs")
    (run,) = evaluate(reader, [{"f": "data.txt"}], store)
    assert run.inputs == {"f": "data.txt"}
    assert {name: array.item() for name, array in store.outputs(run.key).items()} == {"n": 4, "here": 1}


def test_a_model_that_changes_during_the_campaign_is_noticed(tmp_path):
    text = "import tamis\n@tamis.simulator(outputs={'z': ''})\ndef f(*, a=1.0):\n    return {'z': a}\n"
    (tmp_path / "f.py").write_text(text)
    model = find("f.py:f", tmp_path)
    (tmp_path / "f.py").write_text(text.replace("'z': a}", "'z': 2 * a}"))
    (run,) = evaluate(model, [{}], RunStore(tmp_path / "runs"))
    assert run.status == "crashed" and "file changed during the campaign" in run.error


def test_a_simulator_without_an_address_needs_this_process(tmp_path):
    nowhere = SimpleNamespace(
        name="x", version="1", address=str(tmp_path / "none.py:x"), inputs={}, outputs={}, run=None
    )
    with pytest.raises(StudyError, match=r"no file.*define it at the top of a \.py file"):
        evaluate(nowhere, [{}], RunStore(tmp_path))


SCRIPT = """
import tamis
from tamis.runs.campaign import evaluate
from tamis.runs.store import RunStore

@tamis.simulator(outputs={"z": ""})
def double(*, a=1.0):
    return {"z": 2 * a}

GUARD
    store = RunStore("runs")
    runs = evaluate(double, [{"a": 1.0}, {"a": 2.0}], store, executor=2)
    print([store.outputs(run.key)["z"].item() for run in runs])
"""


def test_a_simulator_may_be_defined_in_the_script_that_runs_it(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT.replace("GUARD", 'if __name__ == "__main__":'))
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("[2.0, 4.0]\n", "")


def test_a_script_without_a_guard_is_told_to_have_one(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT.replace("GUARD", "if True:"))
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("tamis.errors.Unavailable: a script starts a campaign")
    assert 'if __name__ == "__main__":' in done.stderr.splitlines()[-1]


def test_the_compiler_is_warmed_once_in_this_process(tmp_path, monkeypatch):
    (tmp_path / "warmed.py").write_text(
        "import os, tamis\n"
        "def warm():\n"
        "    with open(os.environ['TAMIS_TEST_WARM'], 'a') as file:\n"
        "        file.write(f'{os.getpid()} ')\n"
        "@tamis.simulator(outputs={'z': ''})\n"
        "def f(*, a=1.0):\n"
        "    return {'z': a}\n"
    )
    model, store, told = find("warmed.py:f", tmp_path), RunStore(tmp_path / "runs"), tmp_path / "told"
    monkeypatch.setenv("TAMIS_TEST_WARM", str(told))
    for _ in range(2):
        evaluate(model, [{}], store, executor=1)
    assert told.read_text() == f"{os.getpid()} "


# --- foreign executors


class Slow(Executor):
    """Does a job when the next one is handed over, and remembers how many were waiting."""

    def __init__(self):
        self.waiting = []
        self.most = 0

    def submit(self, function, /, *args, **kwargs):
        future: Future = Future()
        self.waiting.append((future, function, args))
        self.most = max(self.most, len(self.waiting))
        if len(self.waiting) == 3:
            for future_, function_, args_ in self.waiting:
                future_.set_result(function_(*args_))
            self.waiting.clear()
        return future


def test_jobs_are_handed_over_a_few_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(tamis.runs.campaign, "_AHEAD", 3)
    executor = Slow()
    runs = evaluate(LINE, [{"a": float(i)} for i in range(12)], RunStore(tmp_path), executor=executor)
    assert len(runs) == 12 and executor.most == 3


def test_a_foreign_executor_gets_time_outs_and_logs_too(tmp_path):
    store = RunStore(tmp_path)
    wanted = [{"how": how} for how in ("fine", "hang", "garbage", "abort")]
    with ThreadPoolExecutor(4) as threads:
        runs = evaluate(TROUBLE, wanted, store, executor=threads, timeout=1.5)
    assert [run.status for run in runs] == ["done", "timeout", "done", "crashed"]
    assert "a program's line" in store.log(runs[2].key) and store.log(runs[0].key) == ""
    with ThreadPoolExecutor(1) as threads:
        (run,) = evaluate(TROUBLE, [{"how": "raises"}], store, executor=threads)
    assert run.error == "ZeroDivisionError: no way to divide" and "Traceback" in store.log(run.key)


def test_a_broken_executor_is_explained_and_finished_runs_stay(tmp_path):
    store = RunStore(tmp_path)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        wanted = [{"a": 1.0}, {"how": "parent"}, {"a": 2.0}]
        with pytest.raises(StudyError, match="the executor lost a run"):
            evaluate(TROUBLE, wanted, store, executor=processes)
    assert store.counts() == {"done": 1}


# --- children are kept


def test_children_are_kept_between_campaigns_and_replaced_when_they_die(tmp_path):
    (tmp_path / "who.py").write_text(
        "import os, subprocess, tamis\n"
        "HELPER = subprocess.Popen(['sleep', '1000'])\n"
        "@tamis.simulator(outputs={'pid': '', 'helper': ''})\n"
        "def who(*, a=1.0):\n"
        "    return {'pid': os.getpid(), 'helper': float(HELPER.poll() is None)}\n"
    )
    who, store = find("who.py:who", tmp_path), RunStore(tmp_path / "runs")
    with Workers(1) as workers:

        def pid(a):
            (run,) = evaluate(who, [{"a": a}], store, executor=workers)
            outputs = store.outputs(run.key)
            assert outputs["helper"] == 1.0  # what the module started lasts
            return int(outputs["pid"])

        first = pid(1.0)
        assert pid(2.0) == first
        os.kill(first, signal.SIGKILL)
        second = pid(3.0)
        assert second not in (first, os.getpid())
        assert descendants(second)
    assert not Path(f"/proc/{second}").exists()
    who.function.__globals__["HELPER"].kill()
    who.function.__globals__["HELPER"].wait()


def test_many_children_that_died_while_idle_are_no_worry(tmp_path):
    with Workers(4) as workers:
        evaluate(LINE, [{"a": float(a), "wait": 0.3} for a in range(4)], RunStore(tmp_path), executor=workers)
        for child in workers._children:
            child.process.kill()
        runs = evaluate(LINE, [{"a": float(a)} for a in range(8)], RunStore(tmp_path), executor=workers)
    assert {run.status for run in runs} == {"done"} and len(runs) == 8


POOLS = """
import os, tamis
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
POOL = ProcessPoolExecutor(1, mp_context=get_context("fork"))
OPENED = None

@tamis.simulator(outputs={"z": ""})
def top(*, a=1.0):
    return {"z": POOL.submit(pow, a, 2).result()}

@tamis.simulator(outputs={"z": ""})
def inside(*, a=1.0):
    global OPENED
    OPENED = OPENED or ProcessPoolExecutor(1, mp_context=get_context("fork"))
    return {"z": OPENED.submit(pow, a, 2).result()}
"""


@pytest.mark.parametrize("name", ["top", "inside"])
def test_a_model_with_processes_of_its_own_gives_the_same_for_any_number_of_workers(tmp_path, name):
    (tmp_path / "pools.py").write_text(POOLS)
    model = find(f"pools.py:{name}", tmp_path)
    for workers in (1, 2):
        store = RunStore(tmp_path / f"runs{workers}")
        runs = evaluate(model, [{"a": float(a)} for a in range(4)], store, executor=workers, timeout=20.0)
        assert [store.outputs(run.key)["z"].item() for run in runs] == [0.0, 1.0, 4.0, 9.0]


def test_noise_on_the_line_costs_its_own_run(tmp_path, monkeypatch):
    monkeypatch.setattr(tamis.runs.pool, "_WORDS", struct.pack("ll", 1, 0))  # for the rest of the message
    wanted = [{"how": "stray"}, {"a": 3.0}]
    runs = evaluate(TROUBLE, wanted, RunStore(tmp_path), executor=1, timeout=60.0)
    assert [run.status for run in runs] == ["crashed", "done"]


def test_a_failure_that_names_its_folder_is_the_same_everywhere(tmp_path):
    wanted = [{"how": "names_folder"}]
    evaluate(TROUBLE, wanted, RunStore(tmp_path / "here"), executor=1)
    with ThreadPoolExecutor(1) as threads:
        evaluate(TROUBLE, wanted, RunStore(tmp_path / "there"), executor=threads)
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_a_file_that_takes_too_long_to_import_is_said(tmp_path, monkeypatch):
    (tmp_path / "lengthy.py").write_text(
        "import os, time, tamis\n"
        "time.sleep(float(os.environ.get('TAMIS_TEST_SLEEP', 0)))\n"
        "@tamis.simulator(outputs={'z': ''})\ndef f(*, a=1.0):\n    return {'z': a}\n"
    )
    model = find("lengthy.py:f", tmp_path)
    monkeypatch.setenv("TAMIS_TEST_SLEEP", "1000")
    monkeypatch.setattr(tamis.runs.pool, "_START", 1.0)
    with pytest.raises(StudyError, match=r"importing lengthy\.py:f takes more than 1 s"):
        evaluate(model, [{}], RunStore(tmp_path / "runs"), executor=1, timeout=0.5)


def test_a_worker_that_cannot_start_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(
        tamis.runs.pool, "python", lambda code: [sys.executable, "-c", "raise SystemExit('no luck')"]
    )
    with pytest.raises(StudyError, match="worker processes end before they begin: no luck"):
        evaluate(LINE, [{}], RunStore(tmp_path), executor=1)


def test_all_threads_share_one_reaper():
    with ThreadPoolExecutor(8) as threads:
        found = {id(reaper) for reaper in threads.map(lambda _: tamis.runs.processes.reaper(), range(64))}
    assert len(found) == 1
