"""Progress of a run, for other processes to follow: one JSON event a line in ``events.jsonl`` among the results.

The lines are what ``--json`` prints, each with its time; the first and the last are of the task ``study`` and say which
process runs and how it ended. The file is begun anew by every run. It is written at most four times a second, however
many events there are: of those that come between, the last of each task counts. Nothing about it may fail or slow a
run: where it cannot be written, it is not. The writer holds a lock on it, which the system gives back should he be
killed, so that whoever follows knows an end that nobody wrote down; a line that was cut short is passed over.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tamis.errors import StudyError, error_text
from tamis.types import Event, Progress

NAME = "events.jsonl"
STUDY = "study"  # the task whose events are the first and the last
_PAUSE = 0.25  # seconds between two writes
_TRIES = 5  # to get the lock: who asks whether somebody writes has it for an instant
_MOST = 1 << 20  # bytes at the end of the file in which the last event is looked for


def fields(event: Event) -> dict[str, Any]:
    """Return an event as it is written down."""
    return {"task": event.task, "done": event.done, "total": event.total, **event.info}


@contextmanager
def noted(results: Path, progress: Progress) -> Iterator[Progress]:
    """Give a progress callback that also writes the events file of a results folder, until the run ends."""
    journal = _Journal(results / NAME)

    def both(event: Event) -> None:
        journal.note(event)
        progress(event)

    end: Mapping[str, str] = {"status": "done"}
    journal.note(Event(STUDY, 0, 1, {"pid": os.getpid()}))
    try:
        yield both
    except KeyboardInterrupt:
        end = {"status": "interrupted"}
        raise
    except BaseException as error:
        end = {"status": "stopped", "error": error_text(error)}
        raise
    finally:
        journal.note(Event(STUDY, 1, 1, end))
        journal.close()


class _Journal:
    """The file being written; without a handle it is not."""

    def __init__(self, path: Path) -> None:
        self.guard = threading.RLock()
        self.pending: dict[str, tuple[Event, float]] = {}
        self.timer: threading.Timer | None = None
        self.last = 0.0
        self.torn = False  # the last line may be cut short
        self.handle: int | None = None
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            self.handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            if not _locked(self.handle):  # another run of the study writes it
                self._drop()
            else:
                os.ftruncate(self.handle, 0)

    def note(self, event: Event) -> None:
        """Write an event, at once or together with the next ones."""
        with self.guard:
            if self.handle is None:
                return
            self.pending.pop(event.task, None)
            self.pending[event.task] = (event, time.time())
            wait = self.last + _PAUSE - time.monotonic()
            if wait <= 0:
                self.flush()
            elif self.timer is None:
                self.timer = threading.Timer(wait, self.flush)
                self.timer.daemon = True
                self.timer.start()

    def flush(self) -> None:
        """Write what waits."""
        with self.guard:
            self._stop_timer()
            if self.handle is None or not self.pending:
                return
            lines = [json.dumps({**fields(e), "time": t}, default=str) for e, t in self.pending.values()]
            data = ("\n" * self.torn + "\n".join(lines) + "\n").encode()
            self.pending.clear()
            self.last = time.monotonic()
            try:
                self.torn = os.write(self.handle, data) < len(data)
            except OSError:
                self.torn = True

    def close(self) -> None:
        """Write what waits, and let go of the file."""
        with self.guard:
            self.flush()
            self._stop_timer()
            if self.handle is not None:
                self._drop()

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _drop(self) -> None:
        assert self.handle is not None
        with suppress(OSError):
            fcntl.flock(
                self.handle, fcntl.LOCK_UN
            )  # also if some forked process still has a copy of the handle
        with suppress(OSError):
            os.close(self.handle)
        self.handle = None


def follow(
    path: Path | str, *, wait: float = 60.0, after: float = 0.0, pause: float = 0.5
) -> Iterator[Event]:
    """Yield the events of the last run from its beginning, and those to come until it ends.

    Parameters
    ----------
    path
        The results folder of a study, which need not be there yet, or ``events.jsonl`` in it.
    wait
        Seconds to wait for a run to begin where there is none; then `StudyError` is raised.
    after
        Runs that began before this time (that of `time.time`) are passed over, and a later one is waited for. Without
        it, the events of a run that has ended are yielded again.
    pause
        Seconds between two looks at the file.
    """
    path = Path(path) if Path(path).name == NAME else Path(path) / NAME
    until = time.monotonic() + wait
    while not _begun(path, after):
        if time.monotonic() >= until:
            raise StudyError(f"{path}: no run of this study began within {wait:g} s; is it the right folder?")
        time.sleep(min(pause, max(until - time.monotonic(), 0.0)))
    place, rest = 0, b""
    while True:
        going = _writing(path)  # asked first, so that what an ended run wrote last is read below
        try:
            with path.open("rb") as file:
                if file.seek(0, os.SEEK_END) < place:  # begun anew
                    place, rest = 0, b""
                file.seek(place)
                new = file.read()
        except OSError:
            return
        place += len(new)
        *lines, rest = (rest + new).split(b"\n")
        for event in filter(None, map(_parsed, lines)):
            yield event
            if event.task == STUDY and event.done:
                return
        if not going:
            return
        time.sleep(pause)


def _begun(path: Path, after: float) -> bool:
    """Return whether a run that began after a time has written its first event."""
    try:
        with path.open("rb") as file:
            first = next(filter(None, map(_parsed, file)), None)
    except OSError:
        return False
    return first is not None and float(first.info.get("time", 0.0)) >= after


def under_way(results: Path) -> Event | None:
    """Return the last event of a run that is under way now, of any process."""
    path = results / NAME
    if not _writing(path):
        return None
    with suppress(OSError), path.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - _MOST, 0))
        found = [event for event in map(_parsed, file.read().split(b"\n")) if event]
        return found[-1] if found else None
    return None


def _parsed(line: bytes) -> Event | None:
    """Return the event of a line, or nothing where the line is not whole."""
    try:
        said = json.loads(line)
        return Event(said.pop("task"), said.pop("done"), said.pop("total"), said)
    except (ValueError, KeyError, AttributeError, TypeError):
        return None


def _locked(handle: int) -> bool:
    for _ in range(_TRIES):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
        except OSError:  # a disk without locks
            return True
        else:
            return True
    return False


def _writing(path: Path) -> bool:
    """Return whether some process writes the file now; yes where the disk has no locks to ask."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(handle, fcntl.LOCK_UN)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
