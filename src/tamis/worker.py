"""What happens to one run, and the child processes in which it happens.

A simulator may raise, abort, hang, fork, print anything and end its own process; none of that may cost more
than its own run. So runs happen in spawned children, each the head of its own process group: killing the
group also ends whatever the run started. A child is told the simulator's address, never its code; it writes
the array file itself and sends back a few words.

The children are Pebble's, in a context of our own that closes four gaps. A child that ends with code 0 in
the middle of a run (Fortran's STOP) goes unnoticed there, and its run never returns: here no end is clean. A
child that dies in the instant after taking a job may be seen dead before its receipt is read, and that job
never returns: here a death is admitted when seen for the third time. A late child is asked to end and given
three seconds: here its group is killed. And children outlive a parent that is killed: here a small process
waits for the parent's end on a pipe, and kills the groups that are left.
"""

from __future__ import annotations

import ctypes
import errno
import faulthandler
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from tamis.errors import SimulationError, StudyError
from tamis.simulation import Simulator, find
from tamis.store import Run, paths, write_array_file, writing
from tamis.types import Inputs, Outputs

ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA")} | {
    "PYTHONUNBUFFERED": "1"
}
_C = ctypes.CDLL(None)
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_ENDED_BY_ITSELF = 256
_REAPER = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    for kill in (os.killpg, os.kill):
        try:
            kill(group, signal.SIGKILL)
            break
        except OSError:
            pass
"""


@dataclass(frozen=True)
class Job:
    """One run to do: where to find the simulator, what to record, and inputs with files as absolute paths."""

    address: str
    root: Path
    run: Run
    inputs: Inputs


def do(job: Job, simulator: Simulator | None = None, *, capture: bool = False) -> tuple[Run, int]:
    """Run one job and write its files; return the run and the size of its array file.

    An `OSError` from here means that the store cannot be written; what the run raises is in its record.
    """
    work = paths(job.root, job.run.key)[2]
    work.mkdir(parents=True, exist_ok=True)
    printed = work.with_suffix(".log")
    printed.unlink(missing_ok=True)
    with _captured(printed) if capture else nullcontext():
        run, outputs, trace = _perform(job, simulator, work)
    return run, conclude(job.root, run, outputs, trace)


def _perform(job: Job, simulator: Simulator | None, work: Path) -> tuple[Run, Outputs, str]:
    process, folder = os.getpid(), os.getcwd()
    start = time.perf_counter()
    outputs: Outputs = {}
    trace = ""
    try:
        outputs = _arrays(_checked(job, simulator or _load(job.address)).run(job.inputs, work))
        run = job.run
    except SimulationError as error:
        run = replace(job.run, status="failed", error=_line(error))
        trace = str(error) if "\n" in str(error) else ""
    except (Exception, SystemExit) as error:
        if isinstance(error, OSError) and error.errno in _DISK_FULL:
            raise
        run = replace(job.run, status="crashed", error=_line(error, type(error).__name__))
        trace = traceback.format_exc()
    finally:
        if os.getpid() != process:  # the run forked, and this is the copy: only the original may go on
            os._exit(0)
        os.chdir(folder)
    return replace(run, seconds=time.perf_counter() - start), outputs, trace


def _checked(job: Job, simulator: Simulator) -> Simulator:
    if simulator.version != job.run.version:
        raise StudyError(
            f"the simulator's file changed during the campaign: expected version {job.run.version}, "
            f"found {simulator.version}"
        )
    return simulator


def _arrays(outputs: Outputs) -> Outputs:
    arrays = {name: np.asarray(value) for name, value in outputs.items()}
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise StudyError(f"output {name} must be an array of numbers, found Python objects")
    return arrays


def _line(error: BaseException, kind: str = "") -> str:
    text = " ".join(f"{kind}: {error}".split()).removeprefix(": ").removesuffix(":")
    return re.sub(r"0x[0-9a-f]{6,}", "0x...", text)[:500]  # memory addresses would differ between workers


@lru_cache(maxsize=8)
def _load(address: str) -> Simulator:
    simulator: Simulator = find(address)
    return simulator


def conclude(root: Path, run: Run, outputs: Outputs, trace: str) -> int:
    """Write a run's array file and its log, clear its working folder if it succeeded; return the file's size.

    The array file takes its name when all else is in place: where it is, the run is complete.
    """
    path, log, work = paths(root, run.key)
    part, printed = work.with_suffix(".part"), work.with_suffix(".log")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        size = write_array_file(part, run, outputs)
        with suppress(OSError):
            work.rmdir()
        if run.status != "done" and work.exists():
            trace += f"\nworking folder kept: {work}\n"
        if trace:
            with printed.open("a", encoding="utf-8", errors="replace") as file:
                file.write(trace)
        if printed.exists() and printed.stat().st_size:
            os.replace(printed, log)
        else:
            printed.unlink(missing_ok=True)
            log.unlink(missing_ok=True)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    os.replace(part, path)
    if run.status == "done" and work.exists():
        shutil.rmtree(work, ignore_errors=True)
    return size


@contextmanager
def _captured(path: Path) -> Iterator[None]:
    """Send what this process and the programs it starts print to a file."""
    streams = sys.stdout, sys.stderr
    saved = os.dup(1), os.dup(2)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        sys.stdout, sys.stderr = streams
        _C.fflush(None)
        for target, handle in zip((1, 2), saved, strict=True):
            os.dup2(handle, target)
            os.close(handle)


def _start_child(address: str, folder: str) -> None:
    os.setsid()
    os.chdir(folder)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    faulthandler.enable(all_threads=False)
    with suppress(Exception):  # told by the run itself; loaded here so that no time-out pays for imports
        _load(address)


class _Child(SpawnProcess):
    """A pool child: one thread, deaf to Ctrl-C, killed with all it started, its end never taken for clean."""

    context: _Children
    seen_dead = 0
    unwanted = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "context"}

    def start(self) -> None:
        before = {name: os.environ.get(name) for name in ONE_THREAD}
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited by the child
        os.environ.update(ONE_THREAD)
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        self.context.tell("+", self)

    def is_alive(self) -> bool:
        if super().is_alive():
            return True
        if self.seen_dead == 0:
            self._kill_group()
            self.context.tell("-", self)
        self.seen_dead += 1
        return self.seen_dead < 3 and not self.unwanted

    @property
    def exitcode(self) -> int | None:
        code = super().exitcode
        return _ENDED_BY_ITSELF if code == 0 and not self.unwanted else code

    def terminate(self) -> None:
        self.unwanted = True
        if self.seen_dead == 0:
            self._kill_group()
        if super().is_alive():  # not yet the head of its group
            self.kill()

    def _kill_group(self) -> None:
        assert self.pid
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)


class _Children(SpawnContext):
    """Where Pebble gets its children from; knows them all, and tells the process that outlives us."""

    def __init__(self) -> None:
        self._all: list[_Child] = []
        self._reaper = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _REAPER],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def Process(self, *args: Any, **kwargs: Any) -> _Child:  # type: ignore[override]
        child = _Child(*args, **kwargs)
        child.context = self
        self._all = [*(other for other in self._all if other.seen_dead == 0), child]
        return child

    def tell(self, what: str, child: _Child) -> None:
        assert self._reaper.stdin
        with suppress(OSError, ValueError):
            self._reaper.stdin.write(f"{what}{child.pid}\n")
            self._reaper.stdin.flush()

    def kill(self) -> None:
        for child in self._all:
            if child.pid is not None:
                child.terminate()

    def close(self) -> None:
        self.kill()
        self._reaper.communicate()


def in_children(
    jobs: Iterable[Job], count: int, address: str, timeout: float | None
) -> Iterator[tuple[Run, int]]:
    """Do the jobs in ``count`` child processes; yield each run and its file's size as they end."""
    from pebble import ProcessPool

    context = _Children()
    waiting = deque[Job]()
    source = iter(jobs)
    fruitless = 0
    try:
        while True:
            pool: Any = ProcessPool(
                count, initializer=_start_child, initargs=(address, os.getcwd()), context=context
            )
            pending: dict[Future[tuple[Run, int]], Job] = {}
            try:
                for job, future in _driven(pool, waiting, source, pending, count, timeout):
                    yield _outcome(job, future, timeout)
                    fruitless = 0
                return
            except (BrokenProcessPool, Empty):
                # all children died between runs, or an answer was lost: once more with other children
                waiting.extendleft(reversed(pending.values()))
                fruitless += 1
                if fruitless > 1:
                    raise StudyError(
                        "worker processes end before they begin; a script that starts a campaign must do so "
                        'below `if __name__ == "__main__":`, and its imports must work in a new process'
                    ) from None
            finally:
                pool.stop()
                context.kill()
                pool.join()
    finally:
        context.close()


def _driven(
    pool: Any,
    waiting: deque[Job],
    source: Iterator[Job],
    pending: dict[Future[tuple[Run, int]], Job],
    count: int,
    timeout: float | None,
) -> Iterator[tuple[Job, Future[tuple[Run, int]]]]:
    ended: SimpleQueue[Future[tuple[Run, int]]] = SimpleQueue()
    # One job ahead keeps a child busy; not with a time-out, which may strike a child just gone on to it.
    slots = count if timeout else 2 * count
    while True:
        while len(pending) < slots:
            job = waiting.popleft() if waiting else next(source, None)
            if job is None:
                break
            try:
                future = pool.schedule(do, args=(job,), kwargs={"capture": True}, timeout=timeout)
            except RuntimeError:
                waiting.appendleft(job)
                raise BrokenProcessPool from None
            pending[future] = job
            future.add_done_callback(ended.put)
        if not pending:
            return
        future = ended.get(timeout=2 * timeout + 60 if timeout else None)
        if isinstance(future.exception(), BrokenProcessPool):
            raise BrokenProcessPool
        yield pending.pop(future), future


def _outcome(job: Job, future: Future[tuple[Run, int]], timeout: float | None) -> tuple[Run, int]:
    from pebble import ProcessExpired

    error = future.exception()
    if error is None:
        return future.result()
    run = replace(job.run, status="crashed", seconds=math.nan)
    if isinstance(error, ProcessExpired):
        run = replace(run, error=f"the process ended during the run: {_ending(error.exitcode)}")
    elif isinstance(error, TimeoutError):
        assert timeout
        run = replace(run, status="timeout", seconds=timeout, error=f"no answer after {timeout:g} s")
    elif not isinstance(error, OSError):
        run = replace(run, error=_line(error, type(error).__name__))
    with writing(job.root):
        if not run.error:
            raise error
        return run, conclude(job.root, run, {}, f"{run.error}\n")


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code % _ENDED_BY_ITSELF}"
    name = signal.Signals(-code).name
    return f"{name} (out of memory?)" if name == "SIGKILL" else name


def elsewhere(job: Job, timeout: float | None) -> tuple[Run, bytes, bytes]:
    """Do a job for a foreign executor, in a child of its own if there is a time-out; return its files."""
    with tempfile.TemporaryDirectory(prefix="tamis-") as folder:
        job = replace(job, root=Path(folder))
        if timeout is None:
            run, _ = do(job)
        else:
            ((run, _),) = in_children([job], 1, job.address, timeout)
        path, log, _ = paths(job.root, run.key)
        return run, path.read_bytes(), log.read_bytes() if log.exists() else b""
