"""What happens to one run, and the child processes in which it happens.

A simulator may raise, abort, hang, fork, print anything and end its own process; none of that may cost more
than its own run. So runs happen in spawned children, each the head of its own process group: killing the
group also ends whatever the run started. A child is told the simulator's address, never its code; it writes
the array file itself and sends back a few words.

Parent and child hold one conversation over one socket: a job, the word that it begins, the answer. One job is
under way in a child at a time, so whatever happens to the child happens to that job; no end is clean (Fortran's
STOP ends a process with code 0) and none goes unnoticed, whoever still holds a copy of the socket. The clock of
a time-out starts when the run begins, not while modules are imported. Orphans of a run become the child's
own children and are ended after it. And if the parent itself is killed, a small process that waits for its
end on a pipe kills what is left.
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
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from tamis.errors import SimulationError, StudyError
from tamis.processes import adopt_orphans, below, end_all_but, kill_tree, python, reaper_of
from tamis.simulation import Simulator, find
from tamis.store import Run, paths, write_array_file, writing
from tamis.types import Inputs, Outputs

ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA")} | {
    "PYTHONUNBUFFERED": "1"
}
_C = ctypes.CDLL(None)
attending = False  # whether this process is a child that does jobs
importing = False  # whether it is importing a simulator's file just now
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_GLANCE = 0.2  # seconds between two looks at whether a silent child is alive
_START = 60.0  # seconds that a child may take to import a simulator, where runs have a time-out


@dataclass(frozen=True)
class Job:
    """One run to do: where to find the simulator, what to record, and inputs with files as absolute paths."""

    address: str
    root: Path
    run: Run
    inputs: Inputs
    max_output: float = math.inf  # megabytes


class Unguarded(StudyError):
    """A script starts a campaign whenever it is imported, also by the workers of that campaign."""


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
        outputs = _arrays(
            _checked(job, simulator or _load(job.address)).run(job.inputs, work), job.max_output
        )
        run = job.run
    except Unguarded:
        raise
    except SimulationError as error:
        run = replace(job.run, status="failed", error=_line(error))
        trace = str(error) if "\n" in str(error) else ""
    except BaseException as error:
        disk_full = isinstance(error, OSError) and error.errno in _DISK_FULL
        if disk_full or not (attending or isinstance(error, (Exception, SystemExit))):
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


def _arrays(outputs: Outputs, max_output: float) -> Outputs:
    arrays = {name: np.asarray(value) for name, value in outputs.items()}
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise StudyError(f"output {name} must be an array of numbers, found Python objects")
    size = sum(array.nbytes for array in arrays.values()) / 1e6
    if size > max_output:
        raise StudyError(
            f"the outputs take {size:.0f} MB, more than the {max_output:g} MB allowed; "
            "return less, or raise max_output"
        )
    return arrays


def _line(error: BaseException, kind: str = "") -> str:
    text = " ".join(f"{kind}: {error}".split()).removeprefix(": ").removesuffix(":")
    return re.sub(r"0x[0-9a-f]{6,}", "0x...", text)[:500]  # memory addresses would differ between workers


@lru_cache(maxsize=8)
def _load(address: str) -> Simulator:
    global importing  # noqa: PLW0603
    importing = True
    try:
        simulator: Simulator = find(address)
    finally:
        importing = False
    return simulator


def warm(simulator: Simulator) -> None:
    """Fill the compiler's cache, if the simulator's module can, before several processes try at once."""
    prepare = getattr(sys.modules.get(module_of(simulator)), "warm", None)
    if callable(prepare):
        prepare()


def module_of(simulator: Simulator) -> str:
    """Return the name of the module a simulator is defined in."""
    return str(getattr(getattr(simulator, "function", simulator), "__module__", ""))


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


class _Child:
    """A process that does one job after another: one thread, deaf to Ctrl-C, killed with all it started."""

    def __init__(self) -> None:
        here, there = socket.socketpair()
        self.line = Connection(here.detach())
        with there:
            self.process = subprocess.Popen(
                python(f"import tamis.worker; tamis.worker.attend({there.fileno()})"),
                env=os.environ | ONE_THREAD,
                pass_fds=(there.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        reaper_of(os.getpid()).tell("+", self.process.pid)
        self.job: Job | None = None
        self._begun = False  # its job
        self.proven = False  # whether it ever began one
        self.due = math.inf

    def give(self, job: Job, timeout: float | None) -> None:
        """Hand over a job; its time-out counts from when its simulator is loaded."""
        self.job, self._begun = job, False
        self.due = time.monotonic() + timeout + _START if timeout else math.inf
        with suppress(OSError):  # a child that is gone is noticed when it is listened to
            self.line.send(job)

    def listen(self, timeout: float | None) -> tuple[Run, int] | BaseException | None:
        """Return the run and its file's size, or why there are none, or None while it is under way."""
        gone = self.process.poll() is not None  # asked before the line is read for the last time
        try:
            while self.line.poll():
                answer = self.line.recv()
                if answer != "begins":
                    self.job, self.due = None, math.inf
                    return cast("tuple[Run, int] | BaseException", answer)
                self._begun = self.proven = True
                self.due = time.monotonic() + timeout if timeout else math.inf
        except (EOFError, OSError):
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_GLANCE)
            gone = True
        late = time.monotonic() > self.due
        return self._lost(timeout if late else None) if gone or late else None

    def _lost(self, timeout: float | None) -> tuple[Run, int] | BaseException:
        """Kill the child, and write the record of a run that cannot write its own."""
        assert self.job
        root, run = self.job.root, self.job.run
        code = self.process.poll()
        self.end()
        self.job = None
        if timeout:
            run = replace(run, status="timeout", seconds=timeout, error=f"no answer after {timeout:g} s")
        elif not self._begun:
            return BrokenPipeError()
        else:
            error = f"the process ended during the run: {_ending(code)}"
            run = replace(run, status="crashed", seconds=math.nan, error=error)
        with writing(root):
            return run, conclude(root, run, {}, f"{run.error}\n")

    @property
    def ended(self) -> bool:
        """Whether it was killed and takes no more jobs."""
        return self.line.closed

    def end(self) -> None:
        """Kill it, and all it started."""
        if not self.ended:
            self.line.close()
            kill_tree(self.process.pid)
            self.process.wait()
            reaper_of(os.getpid()).tell("-", self.process.pid)


def _ending(code: int | None) -> str:
    if code is None:
        return "it no longer answered"
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    return f"{name} (out of memory?)" if name == "SIGKILL" else name


class Workers:
    """Child processes that do jobs, started as needed and kept for the next campaign until closed."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._children: list[_Child] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """End the children; a later campaign starts others."""
        for child in self._children:
            child.end()
        self._children.clear()

    def perform(self, jobs: Iterable[Job], timeout: float | None) -> Iterator[tuple[Run, int]]:
        """Do the jobs, one campaign at a time; yield each run and its file's size as they end."""
        source = iter(jobs)
        again: list[Job] = []
        fruitless = 0
        try:
            while busy := self._employed(again, source, timeout):
                wait(
                    [child.line for child in busy],
                    max(0.0, min(_GLANCE, *(c.due - time.monotonic() for c in busy))),
                )
                ended: list[tuple[Run, int]] = []
                for child in busy:
                    job = child.job
                    assert job
                    answer = child.listen(timeout)
                    if isinstance(answer, BrokenPipeError):  # it died before the run began
                        again.append(job)
                        fruitless += not child.proven
                    elif isinstance(answer, BaseException):
                        with writing(job.root):
                            raise answer
                    elif answer:
                        ended.append(answer)
                        fruitless = 0
                if fruitless > 2:
                    raise StudyError(
                        "worker processes end before they begin; a simulator's file must be importable in a new process"
                    )
                self._employed(again, source, timeout)  # before the answers are dealt with: nobody waits
                yield from ended
        finally:
            for child in self._children:
                if child.job:
                    child.end()
            self._children = [child for child in self._children if not child.ended]

    def _employed(self, again: list[Job], source: Iterator[Job], timeout: float | None) -> list[_Child]:
        """Give jobs to the children that have none, start others up to their number; return those at work."""
        self._children = [child for child in self._children if not child.ended]
        idle = [child for child in self._children if not child.job]
        for _ in range(self._count - len(self._children) + len(idle)):
            job = again.pop() if again else next(source, None)
            if job is None:
                break
            if not idle:
                idle.append(_Child())
                self._children.append(idle[0])
            idle.pop().give(job, timeout)
        return [child for child in self._children if child.job]


Executors: TypeAlias = Executor | Workers | int


def attend(handle: int) -> None:
    """Do the jobs that come over a socket until it closes; the life of a child."""
    global attending  # noqa: PLW0603
    attending = True
    os.set_inheritable(handle, False)
    line = Connection(handle)
    adopt_orphans()
    faulthandler.enable(all_threads=False)
    versions: dict[str, str] = {}
    while True:
        try:
            job: Job = line.recv()
        except (EOFError, OSError):
            os._exit(0)
        if versions.setdefault(job.address, job.run.version) != job.run.version:
            os._exit(0)  # what this process imported is out of date; another will do the job
        with suppress(Exception):  # told by the run itself; loaded here so that no time-out pays for imports
            _load(job.address)
        kept = (
            below()
        )  # what the simulator's module started when it was imported lasts, what the run starts does not
        line.send("begins")
        try:
            answer: Any = do(job, capture=True)
        except BaseException as error:
            answer = error
        end_all_but(kept)
        line.send(answer)


_own = threading.local()


def elsewhere(job: Job, timeout: float | None) -> tuple[Run, bytes, bytes]:
    """Do a job for a foreign executor, in a child that its thread keeps for the next; return its files."""
    if not hasattr(_own, "workers"):
        _own.workers = Workers(1)
    folder = Path(tempfile.mkdtemp(prefix="tamis-"))
    job = replace(job, root=folder)
    ((run, _),) = _own.workers.perform([job], timeout)
    path, log, work = paths(folder, run.key)
    array, printed = path.read_bytes(), log.read_bytes() if log.exists() else b""
    if run.status == "done" or not work.exists():
        shutil.rmtree(folder, ignore_errors=True)
    return run, array, printed


def lost(job: Job, error: str) -> tuple[Run, bytes, bytes]:
    """Return the files of a run that ended the machine it was on."""
    run = replace(job.run, status="crashed", seconds=math.nan, error=error)
    with tempfile.TemporaryDirectory(prefix="tamis-") as folder:
        part = Path(folder) / "run.npz"
        write_array_file(part, run, {})
        return run, part.read_bytes(), f"{error}\n".encode()
