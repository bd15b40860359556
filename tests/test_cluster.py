"""Campaigns on a Dask cluster: the same bytes, and every way of losing a part of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import tamis.runs.campaign
import tamis.runs.cluster
from tamis.errors import StudyError
from tamis.runs.campaign import check_repeatable, evaluate
from tamis.runs.cluster import Cluster
from tamis.runs.store import RunStore
from tamis.simulation import find
from tests.chained import chain_files, small_chain
from tests.shelf import contents
from tests.test_interrupt import until
from tests.test_worker import marked
from tests.test_world import BODIES, stateful

distributed = pytest.importorskip("distributed", reason="clusters need Dask: pip install tamis[cluster]")
MODELS = Path(__file__).parent / "models"
LINE = find("plain.py:line", MODELS)
TROUBLE = find("trouble.py:trouble", MODELS)
SLOWLY = find("slowly.py:slowly", MODELS)
THIRD_LOSS_IS_FINAL = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "2"}


class Machines:
    """A scheduler and workers, each a process of its own, as on a real cluster."""

    def __init__(self, folder: Path, *options: str, workers: int = 2) -> None:
        self.port = _free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.environment = {
            **os.environ,
            **THIRD_LOSS_IS_FINAL,
            "TAMIS_TEST_MARK": str(folder),
            "TAMIS_TEST_COUNT": str(folder / "done"),
            "DASK_TEMPORARY_DIRECTORY": str(folder),
        }
        self.scheduler = self._start("scheduler", "--port", str(self.port), "--no-dashboard")
        worker = ("worker", self.address, "--nthreads", "1", "--no-dashboard", *options)
        self.workers = [self._start(*worker) for _ in range(workers)]

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:]]
        nothing = subprocess.DEVNULL
        return subprocess.Popen(
            command, env=self.environment, stdout=nothing, stderr=nothing, start_new_session=True
        )

    def close(self) -> None:
        for process in (
            *self.workers,
            self.scheduler,
        ):  # with their nannies' children; how Dask ends is not ours
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    found = Machines(tmp_path_factory.mktemp("dask"))
    yield found
    found.close()


@pytest.fixture
def own_machines(tmp_path):
    found = Machines(tmp_path, "--no-nanny")  # a worker killed stays dead
    yield found
    found.close()


def connected(machines: Machines, workers: int = 2) -> Cluster:
    give_up = time.monotonic() + 30
    while True:
        try:
            cluster = Cluster(machines.address)
            if workers:
                cluster._client.wait_for_workers(workers, timeout=30)
            return cluster
        except StudyError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.2)


def when_some_are_done(folder: Path, act: Callable[[], None]) -> None:
    """Wait in the background until three runs are finished, then act."""

    def watch() -> None:
        until(lambda: len(contents(folder / "runs")) >= 3, 30.0, "three runs are finished")
        act()

    threading.Thread(target=watch).start()


def test_a_cluster_gives_the_same_bytes(machines, tmp_path):
    points = [{"a": float(a)} for a in range(16)]
    with connected(machines) as cluster:
        there = evaluate(LINE, points, RunStore(tmp_path / "there"), executor=cluster)
        evaluate(LINE, points, RunStore(tmp_path / "one"), executor=1)
        here = evaluate(LINE, points, RunStore(tmp_path / "two"), executor=2)
    assert [(run.key, run.status) for run in there] == [(run.key, run.status) for run in here]
    assert contents(tmp_path / "there") == contents(tmp_path / "one") == contents(tmp_path / "two")
    assert len(contents(tmp_path / "there")) == 16


def test_a_chain_of_studies_gives_the_same_bytes(machines, tmp_path):
    from tamis import Study

    folders = [small_chain(tmp_path / name) for name in ("there", "one", "two")]
    with connected(machines) as cluster:
        for folder, executor in zip(folders, (cluster, 1, 2), strict=True):
            Study.load(folder / "study.toml").run("fragility", executor=executor)
    found = [chain_files(folder) for folder in folders]
    assert found[0] == found[1] == found[2] and "chain/results/study/fragility.npz" in found[0]


SPOILS = """import os, random, tamis, numpy as np

@tamis.simulator(outputs={"found": ""})
def spoils(*, a: float = 0.0):
    found = [
        random.random(), np.random.random(), np.geterr()["over"] == "raise", np.sum([1.0]), "SPOILED" in os.environ,
    ]
    random.seed(a), np.seterr(all="raise"), os.environ.update(SPOILED="1"), os.chdir("/")
    np.sum = lambda *_: a
    return {"found": np.array(found, dtype=float)}
"""


@pytest.mark.slow  # a process is put right alike wherever it is: tests/test_world.py
def test_a_model_that_spoils_its_process_gives_the_bytes_of_any_number_of_workers(machines, tmp_path):
    (tmp_path / "spoils.py").write_text(SPOILS)
    model = find("spoils.py:spoils", tmp_path)
    points = [{"a": float(a)} for a in range(6)]
    with connected(machines) as cluster:
        for name, executor in (("there", cluster), ("one", 1), ("two", 2)):
            runs = evaluate(model, points, RunStore(tmp_path / name), executor=executor)
            assert {run.status for run in runs} == {"done"}
    assert contents(tmp_path / "there") == contents(tmp_path / "one") == contents(tmp_path / "two")


@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=[pytest.mark.slow] * (how != "counts")) for how in BODIES]
)
def test_a_model_that_depends_on_more_than_its_inputs_is_refused_there_too(machines, tmp_path, how):
    model = stateful(tmp_path, how)
    store = RunStore(tmp_path / "runs")
    with connected(machines) as cluster:
        runs = evaluate(model, [{"x": float(x)} for x in range(1, 7)], store, executor=cluster)
        with pytest.raises(
            StudyError, match=r"gives another z when it is run once more at x = \d.0; a run may depend"
        ):
            check_repeatable(model, [runs[0], runs[-1]], store, executor=cluster)


def test_a_run_that_fails_there_costs_its_own_run_only(machines, tmp_path):
    store = RunStore(tmp_path / "runs")
    hows = ("fine", "raises", "segfault", "hang", "late_child", "daemon", "garbage", "parent")
    with connected(machines) as cluster:
        runs = evaluate(TROUBLE, [{"how": how} for how in hows], store, executor=cluster, timeout=2.0)
    found = {run.inputs["how"]: (run.status, run.error) for run in runs}
    assert found["fine"][0] == found["daemon"][0] == "done"
    assert found["raises"] == ("crashed", "ZeroDivisionError: no way to divide")
    assert found["segfault"] == ("crashed", "the process ended during the run: SIGSEGV")
    assert found["hang"] == found["late_child"] == ("timeout", "no answer after 2 s")
    assert found["parent"] == ("crashed", "each of 3 workers was lost during this run")
    assert "a program's line" in store.log(runs[6].key)
    mark = machines.environment["TAMIS_TEST_MARK"]
    until(
        lambda: not any("sleep 1000" in line for line in marked(mark)), 5.0, "what the runs started is ended"
    )


def test_who_shared_a_worker_with_the_run_that_took_it_down_is_not_to_blame(tmp_path):
    machines = Machines(tmp_path, "--nthreads", "2", workers=1)
    try:
        with connected(machines, workers=1) as cluster:
            points = [{"how": "parent"}, {"how": "hang"}]
            runs = evaluate(TROUBLE, points, RunStore(tmp_path / "runs"), executor=cluster, timeout=2.0)
    finally:
        machines.close()
    assert [run.error for run in runs] == [
        "each of 3 workers was lost during this run",
        "no answer after 2 s",
    ]


def test_a_worker_killed_in_the_middle_is_made_good(own_machines, tmp_path):
    points = [{"a": float(a), "seconds": 0.2} for a in range(12)]
    with connected(own_machines) as cluster:
        when_some_are_done(tmp_path, own_machines.workers[0].kill)
        runs = evaluate(SLOWLY, points, RunStore(tmp_path / "runs"), executor=cluster)
    assert {run.status for run in runs} == {"done"}
    evaluate(SLOWLY, points, RunStore(tmp_path / "here"), executor=2)
    assert contents(tmp_path / "runs") == contents(tmp_path / "here")


def test_a_lost_scheduler_ends_the_campaign_which_goes_on_later(own_machines, tmp_path):
    points = [{"a": float(a), "seconds": 0.2} for a in range(12)]
    store = RunStore(tmp_path / "runs")
    with connected(own_machines) as cluster:
        when_some_are_done(tmp_path, own_machines.scheduler.kill)
        with pytest.raises(StudyError, match=r"lost the cluster at tcp://.*what was finished is kept"):
            evaluate(SLOWLY, points, store, executor=cluster)
    finished = contents(store.root)
    assert 0 < len(finished) < 12 and len(store) == len(finished)
    runs = evaluate(SLOWLY, points, RunStore(tmp_path / "runs"), executor=2)
    assert {run.status for run in runs} == {"done"}
    assert finished.items() <= contents(store.root).items()


class Wire:
    """A connection that can be cut: passes bytes between a port of its own and another."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._ends: list[socket.socket] = []
        self._cut = False
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return
            self._ends += [near, far]
            if self._cut:
                return self.cut()
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)

    def cut(self) -> None:
        self._cut = True
        self._server.close()
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def test_a_cut_connection_ends_the_campaign_which_goes_on_later(machines, tmp_path):
    points = [{"a": float(a), "seconds": 0.2} for a in range(12)]
    store = RunStore(tmp_path / "runs")
    connected(machines).shutdown()
    wire = Wire(machines.port)
    with Cluster(f"tcp://127.0.0.1:{wire.port}") as cluster:
        when_some_are_done(tmp_path, wire.cut)
        with pytest.raises(StudyError, match=r"lost the cluster at tcp://.*what was finished is kept"):
            evaluate(SLOWLY, points, store, executor=cluster)
    finished = contents(store.root)
    with connected(machines) as cluster:
        runs = evaluate(SLOWLY, points, RunStore(tmp_path / "runs"), executor=cluster)
    assert {run.status for run in runs} == {"done"} and finished.items() <= contents(store.root).items()


def test_no_scheduler_is_said_at_once(monkeypatch):
    monkeypatch.setattr(tamis.runs.cluster, "_CONNECT_SECONDS", 1.0)
    with pytest.raises(StudyError, match=r"no Dask scheduler at tcp://127.0.0.1:1 .*dask scheduler"):
        Cluster("tcp://127.0.0.1:1")


def test_a_worker_that_differs_is_refused_before_any_run(machines, tmp_path, monkeypatch):
    honest = tamis.runs.cluster.describe
    monkeypatch.setattr(
        tamis.runs.cluster, "describe", lambda simulator: {**honest(simulator), "numpy": "1.0"}
    )
    store = RunStore(tmp_path / "runs")
    with connected(machines) as cluster, pytest.raises(StudyError, match=r"worker tcp.* has numpy .*1\.0"):
        evaluate(LINE, [{}], store, executor=cluster)
    assert contents(store.root) == {}


def test_a_worker_that_cannot_see_the_model_says_so(machines, tmp_path, monkeypatch):
    monkeypatch.setattr(
        tamis.runs.campaign, "_check_address", lambda simulator: None
    )  # this machine would say it first
    (tmp_path / "here.py").write_text(
        "import tamis\n@tamis.simulator(outputs={'z': ''})\ndef f(*, a=1.0):\n    return {'z': a}\n"
    )
    model = find("here.py:f", tmp_path)
    (tmp_path / "here.py").unlink()
    with connected(machines) as cluster, pytest.raises(StudyError, match=r"worker .* is not ready.*no file"):
        evaluate(model, [{}], RunStore(tmp_path / "runs"), executor=cluster)


def test_the_command_line_takes_a_cluster(machines, tmp_path):
    from tamis.cli.main import main

    connected(machines).shutdown()
    assert main(["new", str(tmp_path / "ball")]) == 0
    study = tmp_path / "ball" / "study.toml"
    study.write_text(study.read_text().replace("n = 128", "n = 16"))
    assert main(["run", str(study), "--to", "observables", "--cluster", machines.address]) == 0
    assert main(["new", str(tmp_path / "twin")]) == 0
    twin = tmp_path / "twin" / "study.toml"
    twin.write_text(study.read_text())
    assert main(["run", str(twin), "--to", "observables", "-j", "2"]) == 0
    name = "results/study/observables.npz"
    assert (study.parent / name).read_bytes() == (twin.parent / name).read_bytes()
    assert main(["run", str(study), "--cluster", machines.address, "-j", "2"]) == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_edited_model_is_run_anew_by_workers_that_knew_the_old_one(machines, tmp_path):
    text = (
        "import tamis\n@tamis.simulator(outputs={'z': ''})\ndef f(*, a=1.0):\n    return {'z': FACTOR * a}\n"
    )
    store = RunStore(tmp_path / "runs")
    for factor in (1, 2):
        (tmp_path / "edited.py").write_text(text.replace("FACTOR", str(factor)))
        for name in [name for name in sys.modules if name.startswith("_tamis_user_")]:
            if getattr(sys.modules[name], "__file__", "") == str(tmp_path / "edited.py"):
                del sys.modules[name]
        model = find("edited.py:f", tmp_path)
        with connected(machines) as cluster:
            (run,) = evaluate(model, [{"a": 3.0}], store, executor=cluster)
        assert run.status == "done" and store.outputs(run.key)["z"] == 3.0 * factor


def test_a_campaign_that_is_stopped_stops_on_the_cluster_too(machines, tmp_path):
    points = [{"a": float(a), "seconds": 0.3} for a in range(40)]
    done = Path(machines.environment["TAMIS_TEST_COUNT"])
    before = len(done.read_text()) if done.exists() else 0

    def interrupt(event):
        if event.done >= 2:
            raise KeyboardInterrupt

    with connected(machines) as cluster:
        with pytest.raises(KeyboardInterrupt):
            evaluate(SLOWLY, points, RunStore(tmp_path / "runs"), executor=cluster, progress=interrupt)
        time.sleep(2.0)
    assert (
        len(done.read_text()) - before <= 8
    )  # two workers: what was under way, and what they had at hand; all 40 would be 6 s


def test_a_cluster_without_workers_is_said(tmp_path, caplog):
    scheduler = Machines(tmp_path, workers=0)
    try:
        with connected(scheduler, workers=0) as cluster:
            cluster.prepare(LINE)
    finally:
        scheduler.close()
    assert "no workers yet at tcp://" in caplog.text
