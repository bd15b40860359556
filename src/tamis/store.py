"""The run store: one array file a run, and an index that can be rebuilt from them.

Why files: a run that took hours must survive a kill at any instant, a full disk, a copy to another machine
and ten years. A file written under another name and renamed exists whole or not at all; one growing file can
be lost at once. Each array file is a plain ``.npz`` that holds its own record, ``run.json``, so it explains
itself. It holds no times (they live in the index) and its zip dates are fixed: same run, same bytes.

Why SQLite beside them: finding one run among 100 000 must not open 100 000 files. The index keeps the plain
rollback journal, not the write-ahead log: at rest it is one file to copy, and network disks suit it. Rows
are written in small batches; what a kill takes from the index is found again by looking for the array file.
Where index and file disagree the file is believed.

One campaign writes at a time, under a lock that the system releases when its holder dies. Readers need none.
"""

from __future__ import annotations

import errno
import fcntl
import io
import json
import math
import os
import socket
import sqlite3
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from tamis.errors import StudyError, TamisWarning, nearest, without_figures
from tamis.types import Inputs, Outputs

Status: TypeAlias = Literal["done", "failed", "crashed", "timeout", "memory"]

INDEX = "runs.sqlite"
FORMAT = 1
_COLUMNS = "key, simulator, version, inputs, status, seconds, error, code, bytes, warnings"
_ADDED = "warnings TEXT NOT NULL DEFAULT '[]'"  # lacking in the first indexes: whoever writes adds it
_SCHEMA = f"""
BEGIN;
CREATE TABLE runs (key TEXT PRIMARY KEY, simulator TEXT NOT NULL, version TEXT NOT NULL, inputs TEXT NOT NULL,
    status TEXT NOT NULL, seconds REAL, error TEXT NOT NULL, code TEXT NOT NULL, bytes INTEGER NOT NULL,
    {_ADDED});
CREATE INDEX runs_by_status ON runs (simulator, status);
PRAGMA user_version = {FORMAT};
COMMIT;
"""
_INSERT = f"INSERT OR REPLACE INTO runs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True)
class Run:
    """One evaluation of a simulator: what was asked, how it ended, why it failed.

    ``failed`` means that the physics said no (`SimulationError`), ``crashed`` that the program broke; a
    likelihood treats them differently. ``error`` is one line; tracebacks and print-outs are in the run's log.
    ``seconds`` is NaN where nobody measured it. ``warnings`` holds one line of each kind of `TamisWarning`.
    """

    key: str
    simulator: str
    version: str
    inputs: Inputs
    status: Status
    seconds: float
    error: str = ""
    code: str = ""
    warnings: tuple[str, ...] = ()


def failure_groups(runs: Iterable[Run]) -> list[list[Run]]:
    """Group the runs that failed by their reason, whatever the numbers in it; the largest group first."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        if run.status != "done":
            groups.setdefault(reason(run), []).append(run)
    return sorted(groups.values(), key=len, reverse=True)


def reason(run: Run) -> tuple[str, str]:
    """Return how a run ended and why, whatever the numbers in it."""
    return run.status, without_figures(run.error)


def write_array_file(path: Path, run: Run, outputs: Outputs) -> int:
    """Write one run's record and arrays, the same bytes every time; return their number."""
    record = {**vars(run), "inputs": dict(run.inputs)}
    del record["seconds"], record["warnings"]
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            for name, array in outputs.items():
                buffer = io.BytesIO()
                np.lib.format.write_array(buffer, np.asarray(array, order="C"), allow_pickle=False)
                _write_member(archive, f"{name}.npy", buffer.getvalue())
            _write_member(archive, "run.json", json.dumps(record, indent=1).encode())
            if run.warnings:  # beside the record, where earlier versions of tamis look past them
                _write_member(archive, "warnings.json", json.dumps(run.warnings).encode())
    except ValueError as error:  # closing an archive interrupted inside a member hides the interrupt
        raise error.__context__ or error from None
    return path.stat().st_size


def _write_member(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.create_system = 3
    archive.writestr(info, content)


class Damaged(Exception):
    """An array file cannot be read, or is not what its name says."""


@contextmanager
def _reading(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except StudyError:
        raise
    except Exception as error:
        # a broken zip file raises nearly anything; a true error of the system has a number
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise Damaged(f"{type(error).__name__}: {error}") from error


def read_record(path: Path) -> Run:
    """Return the run that an array file says it holds, its seconds unknown; `Damaged` if it cannot."""
    with _reading(path) as archive:
        warned = json.loads(archive.read("warnings.json")) if "warnings.json" in archive.namelist() else ()
        run = Run(**json.loads(archive.read("run.json")), seconds=math.nan, warnings=tuple(warned))
        if run.key != path.stem:
            raise ValueError(f"it holds run {run.key}")
    return run


def read_arrays(path: Path) -> Outputs:
    """Read all arrays of an array file, none for a run that failed; `Damaged` if they cannot be read."""
    with _reading(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        return {name: _read_array(archive, name) for name in names}


def _read_array(archive: zipfile.ZipFile, name: str) -> Any:
    return np.lib.format.read_array(io.BytesIO(archive.read(f"{name}.npy")), allow_pickle=False)


def paths(root: Path, key: str) -> tuple[Path, Path, Path]:
    """Return where a run's array file, its log and its working folder are."""
    return root / key[:2] / f"{key}.npz", root / key[:2] / f"{key}.log", root / ".work" / key


@contextmanager
def writing(root: Path) -> Iterator[None]:
    """Explain why a store cannot be written: a full disk, a read-only folder, a file in the way."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        where = getattr(error, "filename", None) or root
        reason = getattr(error, "strerror", None) or str(error)
        raise StudyError(
            f'cannot write to the run store "{root}": {reason} ("{where}"); make room or give a writable '
            "folder, then run again: what was finished is kept"
        ) from error


class RunStore:
    """A folder of runs, safe to copy, merge and keep for years.

    Nothing is created before the first run is added. `close` it, or use it as a context manager.
    """

    _db: sqlite3.Connection | None = None
    _handle: int | None = None  # of the lock, while it is ours

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        self._unwritten: dict[str, tuple[Run, int]] = {}

    def __enter__(self) -> RunStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._let_go()
        self._release()

    def __len__(self) -> int:
        return sum(self.counts().values())

    def close(self) -> None:
        """Write what is left to write and let go of the index."""
        self.flush()
        self._let_go()

    def _let_go(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def get(self, key: str) -> Run | None:
        """Return one run, or None if the store lacks it."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, Run]:
        """Return those of these runs that the store has, by key, in one query."""
        return {key: run for key, (run, _) in self._rows(list(keys)).items()}

    def runs(self, *, simulator: str | None = None, status: Status | None = None) -> list[Run]:
        """List the runs in the order of their keys, all or those of one simulator or one status."""
        self.flush()
        rows = self._query(
            "SELECT * FROM runs WHERE simulator = ifnull(?, simulator) AND status = ifnull(?, status) ORDER BY key",
            (simulator, status),
        )
        return [_run(row)[0] for row in rows]

    def counts(self) -> dict[str, int]:
        """Return the number of runs of each status."""
        self.flush()
        return dict(self._query("SELECT status, count(*) FROM runs GROUP BY status ORDER BY status"))

    def outputs(self, key: str, names: Sequence[str] | None = None) -> Outputs:
        """Read a run's arrays, all or only those named."""
        path = paths(self.root, key)[0]
        try:
            with _reading(path) as archive:
                have = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
                if not have:
                    run = read_record(path)
                    raise StudyError(f"run {key} has no outputs; {run.status}: {run.error}")
                for name in names or ():
                    if name not in have:
                        raise StudyError(f'run {key} has no output "{name}"{nearest(name, have)}')
                return {name: _read_array(archive, name) for name in (have if names is None else names)}
        except FileNotFoundError:
            raise StudyError(f'run {key} has no array file "{path}"; run again to compute it') from None
        except Damaged as error:
            _set_aside(path)
            raise StudyError(
                f'array file "{path}" is damaged ({error}) and was set aside; run again to repeat this run'
            ) from error

    def log(self, key: str) -> str:
        """Return what a run printed, and its traceback if it crashed; empty if there was nothing."""
        path = paths(self.root, key)[1]
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def add(self, run: Run, outputs: Outputs | None) -> None:
        """Add or replace one run; whoever reads meanwhile sees the old state or the new one."""
        with self.lock(), writing(self.root):
            path, _, work = paths(self.root, run.key)
            part = work.with_suffix(".part")
            for folder in (path.parent, part.parent):
                folder.mkdir(exist_ok=True)
            size = write_array_file(part, run, outputs or {})
            os.replace(part, path)
            self.record(run, size)

    def record(self, run: Run, size: int) -> None:
        """Note a run whose array file of this size is in place; `flush` writes the notes to the index."""
        self._unwritten[run.key] = (run, size)

    def flush(self) -> None:
        """Write to the index what was noted since the last time."""
        if self._unwritten:
            with self.lock():
                self._write_rows()

    def forget(self, keys: Iterable[str]) -> None:
        """Remove runs: their array files and logs first, then their rows."""
        gone = list(keys)
        with self.lock(), writing(self.root):
            self._write_rows()
            for key in gone:
                for path in paths(self.root, key)[:2]:
                    path.unlink(missing_ok=True)
            db = self._connect()
            assert db is not None
            with db:
                db.executemany("DELETE FROM runs WHERE key = ?", [(key,) for key in gone])

    def recover(self, keys: Sequence[str]) -> dict[str, Run]:
        """Return those of these runs whose array files are in place, whatever the index says.

        A file the index does not know (a kill came between the two) is adopted. A missing or damaged one is
        reported, and its run counts as absent.
        """
        rows = self._rows(keys)
        found: dict[str, Run] = {}
        lost: list[str] = []
        for key in keys:
            path = f"{self.root}/{key[:2]}/{key}.npz"
            try:
                size = os.stat(path).st_size
                if key in rows and rows[key][1] == size:
                    found[key] = rows[key][0]
                else:
                    found[key] = read_record(Path(path))
                    self.record(found[key], size)
            except FileNotFoundError:
                if key in rows:
                    lost.append(f"{path}: missing")
            except Damaged as error:
                _set_aside(Path(path))
                lost.append(f"{path}: {error}")
        if lost:
            warnings.warn(
                f"{len(lost)} array files of the run store are missing or damaged, these runs are repeated: "
                + "; ".join(lost[:5]),
                TamisWarning,
                stacklevel=3,
            )
        return found

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the only writer or be refused; what was noted is written to the index at the end."""
        with self._locked():
            self._connect(create=True)
            yield

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._handle is not None:
            yield
            return
        try:
            self._seize()
            yield
            self._write_rows()
        except BaseException:
            with suppress(StudyError):  # the first error is the one to tell; rows lost here are adopted later
                self._write_rows()
            raise
        finally:
            self._release()

    def _seize(self) -> None:
        with writing(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(self._handle, 200, 0).decode(errors="replace").strip() or "(unknown)"
                self._release()
                raise StudyError(
                    f'the run store "{self.root}" is being written by process {holder}; '
                    "wait until it ends or stop it"
                ) from None
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, f"{os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def _release(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            with suppress(OSError):  # also if some forked process still has a copy of the handle
                fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)

    def _write_rows(self) -> None:
        if not self._unwritten or self._handle is None or self._db is None:
            return
        rows = [_row(run, size) for run, size in self._unwritten.values()]
        with writing(self.root):
            try:
                with self._db as db:
                    if len(db.execute("PRAGMA table_info(runs)").fetchall()) < len(_COLUMNS.split()):
                        db.execute(f"ALTER TABLE runs ADD COLUMN {_ADDED}")
                    db.executemany(_INSERT, rows)
            except sqlite3.DatabaseError as error:
                if not _corrupt(error):
                    raise
                self._rebuild(str(error))
        self._unwritten.clear()

    def _rows(self, keys: Sequence[str]) -> dict[str, tuple[Run, int]]:
        rows = self._query(
            "SELECT * FROM runs WHERE key IN (SELECT value FROM json_each(?))", (json.dumps(keys),)
        )
        found = {row[0]: _run(row) for row in rows}
        found.update({key: self._unwritten[key] for key in keys if key in self._unwritten})
        return found

    def _query(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        db = self._connect()
        if db is None:
            return []
        try:
            return db.execute(sql, values).fetchall()
        except sqlite3.DatabaseError as error:
            if not _corrupt(error):
                raise self._unreadable(error) from error
            return self._rebuild(str(error)).execute(sql, values).fetchall()

    def _unreadable(self, reason: object) -> StudyError:
        return StudyError(f'cannot read the index "{self.root / INDEX}" of the run store: {reason}')

    def _connect(self, *, create: bool = False) -> sqlite3.Connection | None:
        if self._db is not None:
            return self._db
        path = self.root / INDEX
        if self.root.exists() and not self.root.is_dir():
            raise StudyError(f'expected a folder of runs, found a file: "{self.root}"; give another folder')
        if path.exists():
            self._db, reason = self._opened()
            return self._db or self._rebuild(reason)
        if create or any(self.root.glob("??/*.npz")):
            return self._rebuild("it is missing")
        return None

    def _opened(self) -> tuple[sqlite3.Connection | None, str]:
        db = None
        try:
            db = sqlite3.connect(self.root / INDEX, timeout=30.0, check_same_thread=False)
            version = db.execute("PRAGMA user_version").fetchone()[0]
            db.execute("PRAGMA synchronous = NORMAL")
            if version == FORMAT:
                return db, ""
            reason = "it is empty"
        except sqlite3.DatabaseError as error:
            if not _corrupt(error):
                raise self._unreadable(error) from error
            version, reason = 0, str(error)
        if db is not None:
            db.close()
        if version > FORMAT:
            raise self._unreadable(f"it has format {version}, this tamis {FORMAT}; install a newer one")
        return None, reason

    def _rebuild(self, reason: str) -> sqlite3.Connection:
        """Make a new index from the array files; the old one's seconds are lost."""
        self._let_go()
        with self._locked(), writing(self.root):
            rows, bad = {}, 0
            for path in sorted(self.root.glob("??/*.npz")):
                try:
                    rows[path.stem] = _row(read_record(path), path.stat().st_size)
                except Damaged:
                    _set_aside(path)
                    bad += 1
            rows.update({key: _row(*noted) for key, noted in self._unwritten.items()})
            fresh = self.root / f"{INDEX}.new"
            fresh.unlink(missing_ok=True)
            db = sqlite3.connect(fresh)
            try:
                db.executescript(_SCHEMA)
                with db:
                    db.executemany(_INSERT, rows.values())
            finally:
                db.close()
            (self.root / f"{INDEX}-journal").unlink(missing_ok=True)  # it belongs to the index replaced here
            os.replace(fresh, self.root / INDEX)
            self._db, _ = self._opened()
        if rows or bad:
            warnings.warn(
                f'the index of the run store "{self.root}" was rebuilt from {len(rows)} array files '
                f"({reason}); their durations are unknown; {bad} damaged files were set aside",
                TamisWarning,
                stacklevel=2,
            )
        assert self._db is not None
        return self._db


def _row(run: Run, size: int) -> tuple[Any, ...]:
    seconds = None if math.isnan(run.seconds) else run.seconds
    asked = run.key, run.simulator, run.version, json.dumps(dict(run.inputs))
    return (*asked, run.status, seconds, run.error, run.code, size, json.dumps(run.warnings))


def _run(row: tuple[Any, ...]) -> tuple[Run, int]:
    key, simulator, version, inputs, status, seconds, error, code, size, *added = row
    seconds = math.nan if seconds is None else seconds
    warned = tuple(json.loads(added[0])) if added else ()
    return Run(key, simulator, version, json.loads(inputs), status, seconds, error, code, warned), size


def _corrupt(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _set_aside(path: Path) -> None:
    with suppress(OSError):
        os.replace(path, path.with_suffix(".npz.bad"))
