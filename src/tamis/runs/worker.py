"""What happens to one run: it is performed, whatever it does is caught, and its files are written.

A simulator may raise, abort, hang, fork, print anything and end its own process; none of that may cost more
than its own run. `do` deals with what can be dealt with in the process that runs it; `pool` has the processes, and
deals with their ends. A process is told the simulator's address, never its code; it writes the array file itself and
sends back a few words. Small files it sends back too, for the campaign to pack.
"""

from __future__ import annotations

import ctypes
import errno
import math
import os
import re
import shutil
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tamis import files
from tamis.errors import SimulationError, StudyError, TamisWarning, Unavailable, error_text, without_figures
from tamis.interfaces import replayable
from tamis.replays import without_replay
from tamis.runs.segments import SMALL, Files
from tamis.runs.store import Run, array_file, paths
from tamis.runs.world import World
from tamis.simulation import Simulator, find, numbers
from tamis.types import Inputs, Outputs

_C = ctypes.CDLL(None)
attending = False  # whether this process is a child that does jobs
importing = False  # whether it is importing a simulator's file just now
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_KINDS = 20  # of warnings kept with a run
_PRINTED = 2**20  # bytes of a print-out kept at its beginning, and as many at its end


@dataclass(frozen=True)
class Job:
    """One run to do: where to find the simulator, what to record, and inputs with files as absolute paths.

    With ``fps`` the point is not run but replayed: its array file then holds the bytes of a `Replay`.
    """

    address: str
    root: Path
    run: Run
    inputs: Inputs
    max_output: float = math.inf  # megabytes
    memory: float = math.inf  # bytes, of the run and all that it starts
    salt: int = 0  # where the global random generators begin: no run may depend on it
    pack: bool = False  # whether small files are sent back instead of being put in their places
    fps: float = 0.0  # instants a second of a replay


def given(simulator: Simulator, full: Inputs) -> Inputs:
    """Return complete inputs for a job: files as absolute paths."""
    files = {name for name, port in simulator.inputs.items() if port.kind == "file"}
    return {
        name: os.path.abspath(str(value)) if name in files and value else value
        for name, value in full.items()
    }


def run_job(
    job: Job, simulator: Simulator | None = None, *, capture: bool = False, world: World | None = None
) -> tuple[Run, Files]:
    """Run one job and write its files; return the run and what it left.

    ``world`` is put back before the files are written, since a run may have forbidden that too. An `OSError` from
    here means that the store cannot be written; what the run raises is in its record.
    """
    work = paths(job.root, job.run.key)[2]
    work.mkdir(parents=True, exist_ok=True)
    printed = work.with_suffix(".log")
    printed.unlink(missing_ok=True)
    with _captured(printed) if capture else nullcontext(), _noted(printed) as warned:
        try:
            run, outputs, trace = _perform(job, simulator, work)
        finally:
            if world is not None:
                world.restore()
    run = replace(run, warnings=tuple(_line(text, work) for text in warned.values()))
    return run, conclude(job, run, outputs, trace)


def _perform(job: Job, simulator: Simulator | None, work: Path) -> tuple[Run, Outputs, str]:
    process, folder = os.getpid(), os.getcwd()
    start = time.perf_counter()
    outputs: Outputs = {}
    trace = ""
    try:
        found = _checked(job, simulator or load(job.address))
        outputs = _arrays(copy_context().run(_asked, job, found, work), job.max_output)
        run = job.run
    except Unavailable:
        raise
    except SimulationError as error:
        run = replace(job.run, status="failed", error=_line(error, work))
        trace = error_text(error) if "\n" in error_text(error) else ""
    except BaseException as error:
        disk_full = isinstance(error, OSError) and error.errno in _DISK_FULL
        if disk_full or not (attending or isinstance(error, (Exception, SystemExit))):
            raise
        run = replace(job.run, status="crashed", error=_line(error, work, type(error).__name__))
        if isinstance(error, MemoryError) and math.isfinite(job.memory):
            run = replace(run, status="memory", error=too_much(job.memory))
        trace = _trace(error)
    finally:
        if os.getpid() != process:  # the run forked, and this is the copy: only the original may go on
            os._exit(0)
        os.chdir(folder)
    return replace(run, seconds=time.perf_counter() - start), outputs, trace


def _asked(job: Job, simulator: Simulator, work: Path) -> Outputs:
    if not job.fps:
        return simulator.run(job.inputs, work)
    if (shown := replayable(simulator)) is None:
        raise without_replay(simulator.name)
    return {"replay": np.frombuffer(shown.replay(job.inputs, job.fps).to_bytes(), dtype=np.uint8)}


def _checked(job: Job, simulator: Simulator) -> Simulator:
    if simulator.version != job.run.version:
        raise StudyError(
            f"the simulator's file changed during the campaign: expected version {job.run.version}, "
            f"found {simulator.version}"
        )
    return simulator


def _arrays(outputs: Outputs, max_output: float) -> Outputs:
    arrays = {name: numbers(name, value) for name, value in outputs.items()}
    size = sum(array.nbytes for array in arrays.values()) / 1e6
    if size > max_output:
        raise StudyError(
            f"the outputs take {size:.0f} MB, more than the {max_output:g} MB allowed; "
            "return less, or raise max_output"
        )
    return arrays


def _line(error: BaseException | str, work: Path, kind: str = "") -> str:
    """Write an error or a warning as one line that is the same wherever the run was done."""
    text = f"{kind}: {error_text(error)}".replace(f"{work}/", "").replace(str(work), "its working folder")
    text = " ".join(text.split()).removeprefix(": ").removesuffix(":")
    return re.sub(r"0x[0-9a-f]{6,}", "0x...", text)[:500]  # memory addresses would differ between workers


def _trace(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except BaseException:
        return "".join(traceback.format_tb(error.__traceback__)) + error_text(error)


def too_much(memory: float) -> str:
    """Say that a run took more memory than it may."""
    return f"it took more than the {memory / 1e9:g} GB of memory allowed"


@lru_cache(maxsize=8)
def load(address: str) -> Simulator:
    """Find a simulator, once in the life of this process."""
    global importing  # noqa: PLW0603
    importing = True
    try:
        simulator: Simulator = find(address)
    finally:
        importing = False
    return simulator


def conclude(job: Job, run: Run, outputs: Outputs, trace: str) -> Files:
    """Write a run's log and array file and clear its working folder if it succeeded; small files go back to be packed.

    The array file takes its name when all else is in place, and synced: where it is, the run is complete.
    """
    path, log, work = paths(job.root, run.key)
    part, printed = work.with_suffix(".part"), work.with_suffix(".log")
    content = array_file(run, outputs)
    with suppress(OSError):
        work.rmdir()
    if run.status != "done" and work.exists():
        trace += f"\nworking folder kept: {work}\n"
    if trace:
        printed.parent.mkdir(parents=True, exist_ok=True)
        with printed.open("a", encoding="utf-8", errors="replace") as file:
            file.write(trace)
    _shorten(printed)
    said = printed.stat().st_size if printed.exists() else 0
    if (
        job.pack and max(len(content), said) <= SMALL
    ):  # the folder may hold a checkpoint until the run is kept
        left = Files.of(content, printed.read_bytes() if said else b"")
        printed.unlink(missing_ok=True)
        return left
    for folder in (job.root, path.parent, part.parent):
        files.make_folder(folder)
    if said:
        files.put(log, printed.read_bytes(), part)
    else:
        files.remove(log)
    printed.unlink(missing_ok=True)
    files.put(path, content, part)
    if run.status == "done" and work.exists():
        shutil.rmtree(work, ignore_errors=True)
    return replace(Files.of(content), content=None)


def _shorten(printed: Path) -> None:
    """Keep the beginning and the end of a print-out that is too long."""
    size = printed.stat().st_size if printed.exists() else 0
    if size > 2 * _PRINTED:
        with printed.open("r+b") as file:
            head = file.read(_PRINTED)
            file.seek(-_PRINTED, os.SEEK_END)
            tail = file.read()
            left_out = f"\n... {size - 2 * _PRINTED} bytes left out ...\n".encode()
            file.seek(0)
            file.write(head + left_out + tail)
            file.truncate()


@contextmanager
def _noted(log: Path) -> Iterator[dict[str, str]]:
    """Collect our own warnings by kind, the first of each, and write them to a run's log; others go where they went.

    Python shows a warning once in the life of a process, which would make a run's record depend on the runs before
    it. The filters belong to the whole process, in which one run at a time is under way.
    """
    kinds: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("always", TamisWarning)
        show = warnings.showwarning

        def note(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if not issubclass(category, TamisWarning):
                show(message, category, *where, **more)
            elif (kind := without_figures(str(message))) not in kinds and len(kinds) < _KINDS:
                kinds[kind] = str(message)
                with log.open("a", encoding="utf-8", errors="replace") as file:
                    file.write(warnings.formatwarning(message, category, *where[:2]))

        warnings.showwarning = note
        yield kinds


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
