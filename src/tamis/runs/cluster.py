"""Runs on other machines: a Dask cluster seen as an executor.

A cluster is no second kind of campaign. `evaluate` hands it the same function that any foreign executor gets,
`pool.run_in_child`, which does a run in a child process of the worker and returns the array file's bytes; the
store, its index and the order of answers stay here, so results are the same to the byte. What is particular to a
cluster is in this file: machines may differ, so every worker is asked for its versions before it does a run;
they come and go, so a run whose worker is lost is done again by another (Dask does that); and the scheduler
itself may be lost, which ends the campaign with a word on how to go on.

A run that loses one worker after another is a suspect, no more: Dask counts a loss against whatever the worker
had at hand, the runs that waited behind the one that took it down among them. Suspects are therefore tried once
more when everything else is done, one at a time with the cluster to themselves; what loses workers there too is
recorded as crashed.
"""

from __future__ import annotations

import json
import logging
import math
import os
import platform
import re
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from dataclasses import replace
from functools import lru_cache, partial
from importlib import import_module
from importlib.metadata import version
from typing import Any

from tamis.errors import StudyError
from tamis.interfaces import warm
from tamis.runs.pool import ONE_THREAD
from tamis.runs.processes import python
from tamis.runs.provenance import code_of
from tamis.runs.store import Run, array_file
from tamis.runs.worker import Job
from tamis.simulation import Simulator, find

_LIBRARIES = ("tamis", "numpy", "scipy", "numba")
_CONNECT_SECONDS = 5


class Cluster(Executor):
    """The workers of a Dask scheduler, for `evaluate`, ``Study.run`` and the samplers; a context manager."""

    def __init__(self, address: str) -> None:
        try:
            distributed: Any = import_module("distributed")
        except ImportError as error:
            raise StudyError('a cluster needs Dask: pip install "tamis[cluster]"') from error
        self.address = address
        try:
            self._client = distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise StudyError(
                f"no Dask scheduler at {address} ({_short(error)}); start one with `dask scheduler`, and give "
                "the address it prints, as tcp://host:8786"
            ) from error
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what it has to say, we say in one line
        self._executor: Executor = self._client.get_executor(pure=False)
        self._expected: dict[str, str] = {}
        self._lock = threading.Lock()
        self._under_way = 0
        self._suspects: list[_Answer] = []

    def prepare(self, simulator: Simulator) -> None:
        """Ask every worker for its versions, and to compile what it needs, before the first run."""
        self._expected = describe(simulator)
        try:
            answers = self._client.run(_described, simulator.address, simulator.version, on_error="return")
        except (OSError, CancelledError) as error:
            raise self._gone(error) from error
        if not answers:
            logging.getLogger("tamis").warning("no workers yet at %s; waiting for them", self.address)
        for name, answer in sorted(answers.items()):
            if isinstance(answer, BaseException):
                raise StudyError(f"worker {name} is not ready: {_short(answer)}")
            compare(name, answer, self._expected)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Hand over one job; a lost worker is made good, a lost scheduler ends the campaign."""
        answer = _Answer(args[0], partial(_checked, self._expected, function, *args, **kwargs))
        self._begin(answer)
        return answer

    def _begin(self, answer: _Answer) -> None:
        try:
            there = self._executor.submit(answer.work)
        except Exception as error:  # whatever a client that lost its scheduler raises
            raise self._gone(error) from error
        answer.there = there
        with self._lock:
            self._under_way += 1
        there.add_done_callback(partial(self._end, answer))

    def _end(self, answer: _Answer, done: Future[Any]) -> None:
        """Settle an answer, or put it among the suspects; try the next of these once nothing else is under way."""
        error = CancelledError() if done.cancelled() else done.exception()
        suspected = type(error).__name__ == "KilledWorker" and not answer.alone
        if not suspected:
            self._settle(answer, done, error)
        with self._lock:
            if suspected:
                self._suspects.append(answer)
            self._under_way -= 1
            self._suspects = [waits for waits in self._suspects if not waits.cancelled()]
            if self._under_way or not self._suspects:
                return
            suspect = self._suspects.pop(0)
        suspect.alone = True
        try:
            self._begin(suspect)
        except StudyError as gone:
            if suspect.set_running_or_notify_cancel():
                suspect.set_exception(gone)

    def _settle(self, answer: _Answer, done: Future[Any], error: BaseException | None) -> None:
        if not answer.set_running_or_notify_cancel():
            return
        try:
            if error is None:
                answer.set_result(done.result())
            elif type(error).__name__ == "KilledWorker":
                lost = f"each of {_workers_tried(error)} workers was lost during this run"
                answer.set_result(_lost(answer.job, lost))
            elif isinstance(error, CancelledError) or type(error).__module__.startswith("distributed"):
                answer.set_exception(self._gone(error))
            else:
                answer.set_exception(error)
        except Exception as failure:
            answer.set_exception(failure)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster, which goes on without us."""
        self._client.close(timeout=_CONNECT_SECONDS)

    def _gone(self, error: BaseException) -> StudyError:
        return StudyError(
            f"lost the cluster at {self.address} ({_short(error)}); what was finished is kept, "
            "the same command goes on once the scheduler is back"
        )


class _Answer(Future[Any]):
    """What a job will give; nobody wants a job done whose answer nobody wants."""

    there: Future[Any]

    def __init__(self, job: Job, work: Callable[[], Any]) -> None:
        super().__init__()
        self.job = job
        self.work = work
        self.alone = False

    def cancel(self) -> bool:
        self.there.cancel()
        return super().cancel()


def describe(simulator: Simulator) -> dict[str, str]:
    """Return what must be the same on every machine for results to be the same to the byte."""
    found = {name: version(name) for name in _LIBRARIES}
    python_version = ".".join(platform.python_version_tuple()[:2])
    return {
        **found,
        "Python": python_version,
        "machine": platform.machine(),
        "simulator": simulator.version,
        "kernels": code_of(simulator),
    }


@lru_cache(maxsize=8)
def _described(address: str, wanted: str) -> dict[str, str]:
    """Describe a worker in a new process, which reads the model's file as it is now and compiles its kernels.

    Asked again for every version that somebody wants.
    """
    code = f"import tamis.runs.cluster; tamis.runs.cluster.print_description({address!r})"
    told = subprocess.run(
        python(code), env=os.environ | ONE_THREAD, capture_output=True, text=True, check=False
    )
    if told.returncode:
        raise StudyError(told.stderr.strip().rpartition("\n")[2])
    found: dict[str, str] = json.loads(told.stdout.splitlines()[-1])
    return found


def print_description(address: str) -> None:
    """Print what `describe` finds, with the simulator ready to run."""
    simulator: Simulator = find(address)
    warm(simulator)
    print(json.dumps(describe(simulator)))


def compare(worker: str, there: dict[str, str], here: dict[str, str]) -> None:
    """Refuse a worker that differs from this machine."""
    for what, ours in here.items():
        if there[what] != ours:
            raise StudyError(
                f"worker {worker} has {what} {there[what]}, this machine {ours}; results would depend on where a run "
                "was done. Install the same on both, or let both see the same files"
            )


def _checked(expected: dict[str, str], function: Callable[..., Any], job: Job, *args: Any) -> Any:
    """Do a job on a worker, also one that joined the cluster later, only if it is like the machine that asks."""
    compare(platform.node(), _described(job.address, job.run.version), expected)
    return function(job, *args)


def _lost(job: Job, error: str) -> tuple[Run, bytes, bytes]:
    """Return the files of a run that ended the machine it was on."""
    run = replace(job.run, status="crashed", seconds=math.nan, error=error)
    return run, array_file(run, {}), f"{error}\n".encode()


def _workers_tried(error: BaseException) -> str:
    count = re.search(r"on (\d+) different workers", str(error))
    return count.group(1) if count else "several"


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300] if text else type(error).__name__
