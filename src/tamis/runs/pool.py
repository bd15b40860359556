"""The processes in which runs happen.

Parent and child hold one conversation over one socket: a job, the word that it begins, the answer. One job is
under way in a child at a time, so whatever happens to the child happens to that job; no end is clean (Fortran's
STOP ends a process with code 0) and none goes unnoticed, whoever still holds a copy of the socket. The clock of
a time-out starts when the run begins, not while modules are imported.

Each child heads its own session and adopts the orphans below it. What a run leaves running is ended before its
answer is sent, and the child with it: it may hold what belonged to them (a pool of processes, say), and the next run
must find the same world whatever ran before. What the simulator's module started when it was imported lasts. If the
parent itself is killed, a small process that waits for its end on a pipe kills what is left.
"""

from __future__ import annotations

import atexit
import faulthandler
import math
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast
from weakref import WeakSet

from tamis.errors import StudyError
from tamis.runs import worker
from tamis.runs.processes import MARK, adopt_orphans, below, end_all_but, kill_tree, memory, python, reaper
from tamis.runs.segments import Files
from tamis.runs.store import Run, paths, writing
from tamis.runs.worker import Job, conclude, run_job, too_much
from tamis.runs.world import World

ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA")} | {
    "PYTHONUNBUFFERED": "1"
}
_GLANCE = 0.2  # seconds between two looks at whether a silent child is alive
_START = 60.0  # seconds that a child may take to import a simulator, where runs have a time-out
_LAST = 2**16  # bytes of what a program printed that are kept when it is killed
_WORDS = struct.pack("ll", 10, 0)  # seconds to wait for the rest of a message


class _Child:
    """A process that does one job after another: one thread, deaf to Ctrl-C, killed with all it started."""

    def __init__(self) -> None:
        here, there = socket.socketpair()
        here.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _WORDS)
        self.line = Connection(here.detach())
        self._said = tempfile.TemporaryFile()  # noqa: SIM115, closed by `end`
        self._mark = uuid.uuid4().hex
        with there:
            self.process = subprocess.Popen(
                python(f"import tamis.runs.pool; tamis.runs.pool.attend({there.fileno()})"),
                env=os.environ | ONE_THREAD | {MARK: self._mark},
                pass_fds=(there.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                start_new_session=True,
            )
        reaper().notify("+", self.process.pid, self._mark)
        self.job: Job | None = None
        self._begun = False  # its job
        self.proven = False  # whether it ever began one
        self.due = math.inf
        self._looked = 0.0  # at its memory

    def give(self, job: Job, timeout: float | None) -> None:
        """Hand over a job; its time-out counts from when its simulator is loaded."""
        self.job, self._begun = job, False
        self.due = time.monotonic() + timeout + _START if timeout else math.inf
        with suppress(OSError):  # a child that is gone is noticed when it is listened to
            self.line.send(job)

    def listen(self, timeout: float | None) -> tuple[Run, Files] | BaseException | None:
        """Return the run and what it left, or why there are none, or None while it is under way."""
        gone = self.process.poll() is not None  # asked before the line is read for the last time
        try:
            while self.line.poll():
                answer = self.line.recv()
                if answer != "begins":
                    self.job, self.due = None, math.inf
                    return cast("tuple[Run, Files] | BaseException", answer)
                self._begun = self.proven = True
                self.due = time.monotonic() + timeout if timeout else math.inf
        except Exception:  # no more words, half a word, or none that we know
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_GLANCE)
            gone = True
        late = time.monotonic() > self.due
        if not gone and not late and self._begun and self._took_too_much():
            return self._lost(None, status="memory")
        return self._lost(timeout if late else None) if gone or late else None

    def _took_too_much(self) -> bool:
        """Look, five times a second at most, at the memory of the run and of all that it started."""
        assert self.job
        if math.isinf(self.job.memory) or time.monotonic() < self._looked + _GLANCE:
            return False
        self._looked = time.monotonic()
        return memory(self.process.pid) > self.job.memory

    def _lost(
        self, timeout: float | None, status: Literal["crashed", "memory"] = "crashed"
    ) -> tuple[Run, Files] | BaseException:
        """Kill the child, and write the record of a run that cannot write its own."""
        assert self.job
        job, run = self.job, self.job.run
        code = self.process.poll()
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip().rpartition("\n")[2]
        self.end()
        self.job = None
        if not self._begun:
            slow = (
                f"importing {run.simulator} takes more than {_START:g} s; import less, or raise the time-out"
            )
            return StudyError(slow) if timeout else BrokenPipeError(said)
        if timeout:
            run = replace(run, status="timeout", seconds=timeout, error=f"no answer after {timeout:g} s")
        elif status == "memory":
            run = replace(run, status=status, seconds=math.nan, error=too_much(job.memory))
        else:
            error = f"the process ended during the run: {_ending(code)}"
            run = replace(run, status="crashed", seconds=math.nan, error=error)
        with writing(job.root):
            return run, conclude(job, run, {}, f"{run.error}\n{_last_words(paths(job.root, run.key)[2])}")

    @property
    def ended(self) -> bool:
        """Whether it was killed and takes no more jobs."""
        return self.line.closed

    def end(self) -> None:
        """Kill it, and all it started."""
        if not self.ended:
            self.line.close()
            self._said.close()
            kill_tree(self.process.pid, self._mark)
            self.process.wait()
            reaper().notify("-", self.process.pid, self._mark)


def _last_words(work: Path) -> str:
    """Return the ends of what an external program printed; its adapter can no longer do so."""
    words = ""
    for path in (work / "stdout", work / "stderr"):
        with suppress(OSError), path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LAST))
            printed = file.read().decode(errors="replace").strip()
            words += f"{path.name}:\n{printed}\n" if printed else ""
    return words


def _ending(code: int | None) -> str:
    if code is None:
        return "it no longer answered"
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"{name} (out of memory?)" if name == "SIGKILL" else name


_open: WeakSet[Workers] = WeakSet()


@atexit.register
def _close_all() -> None:
    for workers in list(_open):
        if workers._owner == os.getpid():
            workers.close()


class Workers:
    """Child processes that do jobs, started as needed and kept for the next campaign until closed."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._owner = os.getpid()
        self._children: list[_Child] = []
        _open.add(self)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._owner == os.getpid() and not sys.is_finalizing():  # at exit, the reaper ends them
            self.close()

    def close(self) -> None:
        """End the children; a later campaign starts others."""
        for child in self._children:
            child.end()
        self._children.clear()

    def perform(
        self,
        jobs: Iterable[Job],
        timeout: float | None,
        taken: Callable[[Run, Files], None] | None = None,
        idle: Callable[[], None] | None = None,
    ) -> Iterator[tuple[Run, Files]]:
        """Do the jobs, one campaign at a time; yield each run and what it left as they end.

        ``taken`` is called with each before its child gets another job, so that no child is ever ahead of what is kept;
        ``idle`` is called a few times a second at least.
        """
        source = iter(jobs)
        again: list[Job] = []
        fruitless = 0
        said = ""
        try:
            while busy := self._employed(again, source, timeout):
                wait(
                    [child.line for child in busy],
                    max(0.0, min(_GLANCE, *(c.due - time.monotonic() for c in busy))),
                )
                ended: list[tuple[Run, Files]] = []
                for child in busy:
                    job = child.job
                    assert job
                    answer = child.listen(timeout)
                    if isinstance(answer, BrokenPipeError):  # it died before the run began
                        again.append(job)
                        fruitless += not child.proven
                        said = str(answer)
                    elif isinstance(answer, BaseException):
                        with writing(job.root):
                            raise answer
                    elif answer:
                        if taken:
                            taken(*answer)
                        ended.append(answer)
                        fruitless = 0
                if fruitless > 2:
                    raise StudyError(
                        f"worker processes end before they begin: {said or 'they do not say why'}"
                    )
                self._employed(again, source, timeout)  # before the answers are dealt with: nobody waits
                yield from ended
                if idle:
                    idle()
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
    worker.attending = True
    os.set_inheritable(handle, False)
    line = Connection(handle)
    faulthandler.enable(all_threads=False)
    versions: dict[str, str] = {}
    worlds: dict[str, World] = {}
    while True:
        try:
            job: Job = line.recv()
        except (EOFError, OSError):
            os._exit(0)
        if versions.setdefault(job.address, job.run.version) != job.run.version:
            os._exit(0)  # what this process imported is out of date; another will do the job
        with suppress(
            Exception
        ):  # reported by the run itself; loaded here so that no time-out pays for imports
            worker.load(job.address)
        world = worlds.get(job.address) or worlds.setdefault(job.address, World())
        world.prepare_run(job.salt, job.memory)
        adopt_orphans()
        kept = below()
        line.send("begins")
        try:
            answer: Any = run_job(job, capture=True, world=world)
        except BaseException as error:
            if world.touched:
                os._exit(os.EX_SOFTWARE)  # it spoiled what would have recorded it; the parent does
            answer = error
        clean = end_all_but(kept) and world.sound and _unchanged(job)
        line.send(answer)
        if not clean:
            os._exit(0)


def _unchanged(job: Job) -> bool:
    """Return whether a run let its simulator be; what could not be loaded has told so."""
    with suppress(Exception):
        return worker.load(job.address).version == job.run.version
    return True


_own = threading.local()


def run_in_child(job: Job, timeout: float | None, workers: Workers | None = None) -> tuple[Run, bytes, bytes]:
    """Do a job in a child of these workers, or of one that a foreign executor's thread keeps; return its files."""
    if workers is None:
        if not hasattr(_own, "workers"):
            _own.workers = Workers(1)
        workers = _own.workers
    folder = Path(tempfile.mkdtemp(prefix="tamis-"))
    kept = False
    try:
        ((run, left),) = workers.perform([replace(job, root=folder)], timeout)
        path, log, work = paths(folder, run.key)
        if run.status == "done":
            shutil.rmtree(work, ignore_errors=True)
        kept = work.exists() or any(work.parent.glob("*.kept"))
        if left.content is not None:
            return run, left.content, left.log
        return run, path.read_bytes(), log.read_bytes() if log.exists() else b""
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
