"""The index of a run store: which runs there are and where, in SQLite.

Why SQLite: finding one run among a million must not open a million files. It keeps the plain rollback journal, not
the write-ahead log: at rest it is one file to copy, and network disks suit it.

Why check sums: the index is believed by itself nowhere. Each row carries the sum of its other fields and is
compared with it whenever it is read; so does the note of how much of each segment is indexed. That finds what is
wrong in a row, but not a row that a changed key hides. So before a run is called absent, and before runs are
counted, the index as a whole is looked at once: its file's sum, taken when the last writer closed it, is compared
in a fraction of a second for a million runs; where a writer was killed, every row is. Whatever is wrong is one
exception, `Unsound`, and its answer is one too: a new index from the rows that are sound and the array files.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from tamis import files
from tamis.runs.records import Run, Status
from tamis.runs.segments import Place

INDEX = "runs.sqlite"
SUM = "runs.sqlite.sum"
FORMAT = 2
Row: TypeAlias = tuple[Run, Place]

_TEXTS = "key, simulator, version, inputs, status, error, code, warnings"
_COLUMNS = f"{_TEXTS}, seconds, bytes, crc, segment, offset, log, sum"
_RUNS = (
    "CREATE TABLE runs (key TEXT PRIMARY KEY, simulator TEXT NOT NULL, version TEXT NOT NULL, inputs TEXT NOT NULL, "
    "status TEXT NOT NULL, error TEXT NOT NULL, code TEXT NOT NULL, warnings TEXT NOT NULL, seconds REAL, "
    "bytes INTEGER NOT NULL, crc INTEGER NOT NULL, segment INTEGER, offset INTEGER NOT NULL, log INTEGER NOT NULL, "
    "sum INTEGER NOT NULL)"
)
_SEGMENTS = (
    "CREATE TABLE segments (segment INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, sum INTEGER NOT NULL)"
)
_INSERT = f"INSERT OR REPLACE INTO runs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_MAGIC = b"SQLite format 3\0\x10\x00\x01\x01\x00\x40\x20\x20"  # pages of 4096 bytes, rollback journal
_OUTSIDE = {  # errors that say nothing about what the file holds
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}


class Unsound(Exception):
    """The index cannot be trusted; the text says why."""


class Newer(Exception):
    """The index has the format of a later tamis."""


@contextmanager
def _judged() -> Iterator[None]:
    """Tell errors of what the index holds from those of the disk around it."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None or code & 0xFF in _OUTSIDE:
            raise
        raise Unsound(str(error)) from error


class Index:
    """An open index; ``path`` is None for one that lasts as long as this object."""

    def __init__(self, path: Path | None, busy: Callable[[], bool] = lambda: False) -> None:
        self.path = path
        self._busy = busy  # whether somebody else writes at this moment
        self._db = sqlite3.connect(path or "", timeout=30.0, check_same_thread=False)
        self._db.text_factory = bytes  # decoded once the row is found to be sound
        self._verified = False
        self.unsealed = False  # whether something was written since the file's sum was taken

    @classmethod
    def open(cls, path: Path, busy: Callable[[], bool]) -> Index:
        """Open an index that is there; `Unsound` if it cannot be one of ours, `Newer` if it may be of a later tamis."""
        _check_head(path)
        index = cls(path, busy)
        try:
            with _judged():
                index._db.execute("PRAGMA synchronous = FULL")
                found = index._db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
                if [sql for (sql,) in found] != [_RUNS.encode(), _SEGMENTS.encode()]:
                    raise Unsound("its tables are not those of an index")
        except BaseException:
            index.close()
            raise
        return index

    @classmethod
    def create(cls, path: Path | None) -> Index:
        """Make an empty index."""
        index = cls(path)
        script = f"BEGIN; {_RUNS}; {_SEGMENTS}; PRAGMA user_version = {FORMAT}; COMMIT;"
        index._db.executescript(f"PRAGMA page_size = 4096; PRAGMA synchronous = FULL; {script}")
        index._verified = True
        return index

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    # --- reading

    def find(self, keys: Sequence[str]) -> dict[str, Row]:
        """Return those of these runs that are there."""
        one = len(keys) == 1
        sql = f"SELECT {_COLUMNS} FROM runs WHERE key " + (
            "= ?" if one else "IN (SELECT value FROM json_each(?))"
        )
        found = {row[0].key: row for row in self._rows(sql, (keys[0] if one else json.dumps(keys),))}
        if len(found) < len(set(keys)):
            self.verify()
        return found

    def after(self, key: str, simulator: str | None, status: Status | None, many: int) -> list[Row]:
        """Return the next runs in the order of their keys, all or those of one simulator or one status."""
        sql = (
            f"SELECT {_COLUMNS} FROM runs WHERE key > ? AND simulator = ifnull(?, simulator) "
            "AND status = ifnull(?, status) ORDER BY key LIMIT ?"
        )
        self.verify()
        return self._rows(sql, (key, simulator, status, many))

    def counts(self) -> dict[str, int]:
        """Return the number of runs of each status."""
        self.verify()
        with _judged():
            rows = self._db.execute("SELECT status, count(*) FROM runs GROUP BY status ORDER BY status")
            return {status.decode(): number for status, number in rows}

    def simulators(self) -> dict[tuple[str, str], int]:
        """Return the names and versions of the simulators, and how many runs each has."""
        self.verify()
        with _judged():
            rows = self._db.execute(
                "SELECT simulator, version, count(*) FROM runs GROUP BY simulator, version"
            )
            return {(name.decode(), version.decode()): number for name, version, number in rows}

    def packed(self, segment: int) -> list[Row]:
        """Return the runs of one segment, in the order in which they lie there."""
        return self._rows(f"SELECT {_COLUMNS} FROM runs WHERE segment = ? ORDER BY offset", (segment,))

    def loose(self, after: str, many: int) -> list[Row]:
        """Return the next runs that have a file of their own, in the order of their keys."""
        sql = f"SELECT {_COLUMNS} FROM runs WHERE segment IS NULL AND key > ? ORDER BY key LIMIT ?"
        return self._rows(sql, (after, many))

    def live(self) -> dict[int, int]:
        """Return how many bytes of each segment count: array files and logs with their headers, in blocks of 512."""
        block = "(({0} + 511) / 512 + 1) * 512"
        size = f"{block.format('bytes')} + CASE WHEN log THEN {block.format('log')} ELSE 0 END"
        with _judged():
            sql = f"SELECT segment, sum({size}) FROM runs WHERE segment IS NOT NULL GROUP BY segment"
            return dict(self._db.execute(sql).fetchall())

    def covered(self) -> dict[int, int]:
        """Return up to where each segment is indexed."""
        with _judged():
            rows = self._db.execute("SELECT segment, bytes, sum FROM segments").fetchall()
        if any(_sum((), row[:2]) != row[2] for row in rows):
            raise Unsound("a note of a segment is damaged")
        return {segment: size for segment, size, _ in rows}

    def _rows(self, sql: str, values: Sequence[Any]) -> list[Row]:
        with _judged():
            rows = self._db.execute(sql, values).fetchall()
        if not all(map(_sound, rows)):
            raise Unsound("rows are damaged")
        return [_decoded(row) for row in rows]

    # --- trust

    def verify(self) -> None:
        """Look at the index as a whole, once; `Unsound` if anything in it is wrong.

        Where the file's sum is not up to date every row is looked at, unless somebody writes: he looked before.
        """
        if self._verified or self.path is None:
            return
        with _judged():
            self._db.execute("BEGIN")  # nobody writes the file while its sum is taken
            try:
                self._db.execute("SELECT count(*) FROM segments").fetchone()
                sealed = _sealed(self.path)
                if sealed is False:
                    raise Unsound("the sum of its file is wrong")
                if sealed is None and self._busy():
                    return  # to be looked at when he is gone
                if sealed is None:
                    if self._db.execute("PRAGMA integrity_check(1)").fetchone() != (b"ok",):
                        raise Unsound("its pages are damaged")
                    if not all(map(_sound, self._db.execute(f"SELECT {_COLUMNS} FROM runs"))):
                        raise Unsound("rows are damaged")
            finally:
                self._db.rollback()
        self._verified = True

    def seal(self) -> None:
        """Take the file's sum; nobody else may be writing."""
        if self.path is not None:
            text = f"{FORMAT} {_counter(self.path)} {self.path.stat().st_size} {files.checksum(self.path)}\n"
            fresh = self.path.with_name(f"{SUM}.new")
            with suppress(OSError):  # it saves time, no more
                fresh.write_text(text)
                files.share(fresh)
                fresh.replace(self.path.parent / SUM)
            self.unsealed = False

    # --- writing

    def mark_new(self) -> None:
        """Note that it was just made and needs no looking at, but has no sum yet."""
        self._verified = self.unsealed = True

    def write(self, rows: Iterable[Row], covered: Mapping[int, int], gone: Iterable[str] = ()) -> None:
        """Add or replace runs, note up to where segments are indexed (nowhere: forget them), and remove runs."""
        with _judged(), self._db as db:
            db.executemany("DELETE FROM runs WHERE key = ?", [(key,) for key in gone])
            db.executemany(_INSERT, (_encoded(*row) for row in rows))
            for segment, size in covered.items():
                sql = "INSERT OR REPLACE INTO segments VALUES (?, ?, ?)"
                db.execute(sql, (segment, size, _sum((), (segment, size))))
                if not size:
                    db.execute("DELETE FROM segments WHERE segment = ?", (segment,))
        self.unsealed = True


def salvaged(path: Path, mode: str = "rw") -> Iterator[Row]:
    """Yield the sound rows of an index that may not be sound as a whole."""
    with suppress(sqlite3.Error, OSError), closing(_connection(path, mode)) as db:
        db.text_factory = bytes
        for row in db.execute(f"SELECT {_COLUMNS} FROM runs"):
            if _sound(row):
                yield _decoded(row)


def first_seconds(path: Path) -> dict[str, float]:
    """Read how long runs took from an index of the first format, all that is taken from it; from others nothing."""
    with suppress(sqlite3.Error, OSError, ValueError), closing(_connection(path, "ro")) as db:
        if db.execute("PRAGMA user_version").fetchone() == (1,):
            rows = db.execute("SELECT key, seconds FROM runs WHERE seconds >= 0")
            return {key: float(seconds) for key, seconds in rows}
    return {}


def seconds_of(path: Path) -> dict[str, float]:
    """Read how long runs took from an index that must not be touched; `Newer` if it is of a later tamis."""
    if not path.is_file():
        return {}
    with suppress(Unsound):
        _check_head(path)
    rows = salvaged(path, "ro")
    return first_seconds(path) or {run.key: run.seconds for run, _ in rows if run.seconds == run.seconds}


def _connection(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=30.0)


def _check_head(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(100)
    if len(head) < 100:
        raise Unsound("it is empty")
    version = int.from_bytes(head[60:64])
    fixed = head[:24] == _MAGIC and head[52:60] == bytes([0, 0, 0, 0, 0, 0, 0, 1]) and not any(head[64:92])
    if version == 1 and fixed:
        raise Unsound("")  # an index of the first format: nothing is wrong with it
    if version > FORMAT and fixed and _sealed(path) is not False:
        raise Newer(f"{version}")
    if version != FORMAT or not fixed:
        raise Unsound("its first bytes are damaged")


def _sealed(path: Path) -> bool | None:
    """Return whether the sum of an index's file is right; None if it was not taken since the last change."""
    try:
        said, counter, size, crc = (path.parent / SUM).read_text().split()
    except (OSError, ValueError):
        return None
    if [said, counter, size] != [f"{FORMAT}", _counter(path), f"{path.stat().st_size}"]:
        return None
    return crc == f"{files.checksum(path)}"


def _counter(path: Path) -> str:
    """Return what SQLite counts up with every change of the file."""
    with path.open("rb") as file:
        return file.read(28)[24:].hex()


def _sum(texts: Sequence[bytes], numbers: tuple[Any, ...]) -> int:
    return zlib.crc32(b"\x1f".join(texts) + repr(numbers).encode())


def _sound(row: tuple[Any, ...]) -> bool:
    try:
        return bool(_sum(row[:8], row[8:14]) == row[14])
    except TypeError:
        return False


def _encoded(run: Run, place: Place) -> tuple[Any, ...]:
    seconds = None if math.isnan(run.seconds) else float(run.seconds)
    asked = run.key, run.simulator, run.version, json.dumps(dict(run.inputs))
    texts = (*asked, run.status, run.error, run.code, json.dumps(run.warnings))
    numbers = seconds, place.size, place.crc, place.segment, place.offset, place.log
    return (*texts, *numbers, _sum([text.encode() for text in texts], numbers))


_made = object.__new__
_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


def _decoded(row: tuple[Any, ...]) -> Row:
    key, simulator, version, inputs, status, error, code, warned = map(bytes.decode, row[:8])
    run = _made(Run)  # in half the time of its constructor: its texts are encodable since it was written
    run.__dict__.update(
        key=key,
        simulator=simulator,
        version=version,
        inputs=_scan(inputs, 0)[0],
        status=status,
        seconds=math.nan if row[8] is None else row[8],
        error=error,
        code=code,
        warnings=() if warned == "[]" else tuple(_scan(warned, 0)[0]),
    )
    return run, Place(*row[9:14])


def replace_file(fresh: Path, path: Path) -> None:
    """Put a new index in the place of an old one, with what belongs to the old one removed."""
    files.share(fresh)
    for other in (path.with_name(f"{path.name}-journal"), path.with_name(SUM)):
        files.remove(other)
    os.replace(fresh, path)
    files.sync_folder(path.parent)
