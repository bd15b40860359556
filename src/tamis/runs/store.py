"""The run store: array files that explain themselves, and an index that can be made anew from them.

A run that took hours must survive a kill at any instant, a power cut, a full disk, a copy to another machine and
ten years. A large run is a file of its own, written under another name and renamed, whole or not there at all.
Small ones are packed into segments that grow at their end, whole up to the last one. Either is synced before
the run is reported as done: runs that end within a quarter of a second share one sync (`flush`).

The files are the truth. The index says where each run is and what its bytes sum up to; rows carry sums of their
own, and where index and file disagree the file is believed. What is wrong is reported once and repaired in one pass.

One campaign writes at a time, under a lock that the system releases when its holder dies. Readers need none; what
they find out of order they repair for themselves, and for all if nobody writes.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from heapq import merge
from pathlib import Path

from tamis import files
from tamis.errors import SetAside, StudyError, TamisWarning
from tamis.runs import segments
from tamis.runs.index import INDEX, Index, Row
from tamis.runs.ledger import SHOWN, Ledger, paths, writing
from tamis.runs.records import (
    STATUSES,
    Damaged,
    Run,
    Status,
    array_file,
    failure_groups,
    read_arrays,
    read_record,
    reason,
)
from tamis.runs.repair import set_aside
from tamis.runs.segments import SMALL, Files, Place, array_bytes, opened, segment_path
from tamis.types import Outputs

__all__ = [
    "INDEX",
    "STATUSES",
    "Damaged",
    "Files",
    "Run",
    "RunStore",
    "Status",
    "array_file",
    "failure_groups",
    "paths",
    "read_arrays",
    "read_record",
    "reason",
    "writing",
]
_MANY = 1000  # rows read at a time


class RunStore(Ledger):
    """A folder of runs, safe to copy, merge and keep for years.

    Nothing is created before the first run is added. `close` it, or use it as a context manager.
    """

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
        if self._index is not None:
            self._settle()
        if self._index is not None and self._index.unsealed:
            with (
                suppress(StudyError),
                self.lock(),
            ):  # without the sum, the next one to open it looks at all rows
                self._index.seal()
        self._let_go()

    # --- reading

    def get(self, key: str) -> Run | None:
        """Return one run, or None if the store lacks it."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, Run]:
        """Return those of these runs that the store has, by key, in one query."""
        return {key: run for key, (run, _) in self._rows(list(keys)).items()}

    def runs(self, *, simulator: str | None = None, status: Status | None = None) -> list[Run]:
        """List the runs in the order of their keys, all or those of one simulator or one status."""
        return list(self.each(simulator=simulator, status=status))

    def each(self, *, simulator: str | None = None, status: Status | None = None) -> Iterator[Run]:
        """Yield what `runs` lists, however many there are; the store may change meanwhile."""
        self._settle()
        mine = {
            key: run
            for key, (run, _) in sorted(self._adopted.items())
            if simulator in (None, run.simulator) and status in (None, run.status)
        }
        known = (run for run in self._indexed(simulator, status) if run.key not in self._adopted)
        return merge(known, mine.values(), key=lambda run: run.key)

    def _indexed(self, simulator: str | None, status: Status | None) -> Iterator[Run]:
        last = ""
        while rows := self._ask(Index.after, last, simulator, status, _MANY):
            yield from (run for run, _ in rows)
            last = rows[-1][0].key

    def counts(self) -> dict[str, int]:
        """Return the number of runs of each status."""
        self._settle()
        found = self._ask(Index.counts) or {}
        known = (self._ask(Index.find, list(self._adopted)) if self._adopted else None) or {}
        for key, (run, _) in self._adopted.items():
            found[run.status] = found.get(run.status, 0) + 1
            if key in known:
                found[known[key][0].status] -= 1
        return {status: found[status] for status in sorted(found) if found[status]}

    def simulators(self) -> dict[tuple[str, str], int]:
        """Return the names and versions of the simulators, and how many runs each has."""
        self._settle()
        return self._ask(Index.simulators) or {}

    def outputs(self, key: str, names: Sequence[str] | None = None) -> Outputs:
        """Read a run's arrays, all or only those named."""
        row = self._rows([key]).get(key)
        try:
            source = self._source(key, row)
            try:
                found = read_arrays(source, names)
            except StudyError as error:
                if not _whole(source, row):
                    raise Damaged("a name in it has changed") from None
                if read_arrays(source):
                    raise StudyError(f"run {key} has {error}") from None
                found = {}
            if not found and names != []:
                run = row[0] if row else read_record(source, key)
                raise StudyError(f"run {key} has no outputs; {run.status}: {run.error}")
            return found
        except FileNotFoundError:
            path = paths(self.root, key)[0]
            raise StudyError(f'run {key} has no array file "{path}"; run again to compute it') from None
        except Damaged as error:
            if row is None or row[1].segment is None:
                set_aside(paths(self.root, key)[0])
            others = self.damaged({key})
            more = f", and those of {len(others)} other runs: {', '.join(others[:SHOWN])}" if others else ""
            raise SetAside(
                f"the array file of run {key} is damaged ({error}){more}; run again to repeat what is damaged"
            ) from error

    def _source(self, key: str, row: Row | None) -> bytes | Path:
        """Return a run's array file: its content if that is small, then compared with its sum; `Damaged`."""
        if row is None or row[1].size > SMALL:
            path = paths(self.root, key)[0]
            return path if path.exists() else _missing(path)
        content = self.content(key, row)
        if content is None:
            raise Damaged("its bytes are not those that were written")
        return content

    def content(self, key: str, row: Row | None = None) -> bytes | None:
        """Return the bytes of a run's array file; None if they are not what was written."""
        row = row or self._rows([key]).get(key)
        if row is None or row[1].segment is None:
            content = paths(self.root, key)[0].read_bytes()
            return content if row is None or zlib.crc32(content) == row[1].crc else None
        with opened(segment_path(self.root, row[1].segment)) as handle:
            return array_bytes(handle, row[1])

    def log(self, key: str) -> str:
        """Return what a run printed, and its traceback if it crashed; empty if there was nothing."""
        row = self._rows([key]).get(key)
        path = paths(self.root, key)[1]
        if row is not None and row[1].segment is not None:
            with opened(segment_path(self.root, row[1].segment)) as handle:
                content = segments.read_log(handle, row[1].offset, row[1].log)
        else:
            content = path.read_bytes() if path.exists() else b""
        return content.decode(errors="replace")

    def log_place(self, key: str) -> str:
        """Say where a run's log is, a file or a command that prints it; empty if there is none."""
        row = self._rows([key]).get(key)
        if row is not None and row[1].segment is not None:
            path = segment_path(self.root, row[1].segment)
            return f"tar xOf {path} {key}.log" if row[1].log else ""
        path = paths(self.root, key)[1]
        return str(path) if path.exists() else ""

    # --- finding out what is there

    def recover(self, keys: Sequence[str]) -> dict[str, Run]:
        """Return those of these runs whose array files are in place, whatever the index says.

        A file the index does not know (a kill came between the two) is adopted. A missing or damaged one is
        reported, and its run counts as absent. Small array files are read for it, large ones only looked for.
        """
        self._look()
        rows = self._rows(keys)
        found: dict[str, Run] = {}
        lost: list[str] = []
        packed: dict[int, list[Row]] = {}
        for key in keys:
            row = rows.get(key)
            if row is not None and row[1].segment is not None and not self._redone(row):
                packed.setdefault(row[1].segment, []).append(row)
                continue
            path = paths(self.root, key)[0]
            try:
                found[key] = self._found(key, row, path)
            except FileNotFoundError:
                if row is not None:
                    lost.append(f"{path}: missing")
            except Damaged as error:
                set_aside(path)
                lost.append(f"{path}: {error}")
        for number, those in packed.items():
            bad = self._bad(number, those)
            lost += [f"{run.key} in {segment_path(self.root, number)}: damaged" for run, _ in bad]
            gone = {run.key for run, _ in bad}
            found |= {run.key: run for run, _ in those if run.key not in gone}
        _warn_of(lost, "these runs are repeated")
        return {key: found[key] for key in keys if key in found}

    def sized(self) -> Iterator[tuple[Run, int]]:
        """Yield every run whose array file is there, and how many bytes it and its log take."""
        for run, place in self._each_row():
            own = [path.stat().st_size for path in paths(self.root, run.key)[:2] if path.exists()]
            if place.segment is not None:
                yield run, place.size + place.log
            elif own:
                yield run, sum(own)

    def _each_row(self) -> Iterator[Row]:
        last = ""
        while rows := self._ask(Index.after, last, None, None, _MANY):
            yield from rows
            last = rows[-1][0].key

    def without_file(self) -> list[str]:
        """Return the keys of the runs that the index has and no file."""
        lost, last = [], ""
        while rows := self._ask(Index.loose, last, _MANY):
            lost += [run.key for run, _ in rows if not paths(self.root, run.key)[0].exists()]
            last = rows[-1][0].key
        have = segments.sizes(self.root)
        for number in {*(self._ask(Index.covered) or {})} - {*have}:
            lost += [run.key for run, _ in self._ask(Index.packed, number) or []]
        return lost

    def replaced(self) -> dict[int, int]:
        """Return the segments that hold array files which no longer count, and how many bytes these take."""
        live = self._ask(Index.live) or {}
        ends = self._ask(Index.covered) or {}
        spare = {number: end - live.get(number, 0) for number, end in ends.items()}
        return {number: size for number, size in spare.items() if size > 0}

    def _bad(self, number: int, rows: Iterable[Row]) -> list[Row]:
        """Return the runs of a segment whose array files are not what was written."""
        try:
            with opened(segment_path(self.root, number)) as handle:
                return [row for row in rows if array_bytes(handle, row[1]) is None]
        except FileNotFoundError:
            return list(rows)

    def damaged(self, but: Iterable[str] = ()) -> list[str]:
        """Read every array file there is; set aside and name those that are not what was written."""
        found = []
        for number in segments.sizes(self.root):
            rows = self._ask(Index.packed, number) or []
            found += [run.key for run, _ in self._bad(number, rows)]
        last = ""
        while loose := self._ask(Index.loose, last, _MANY):
            for run, place in loose:
                path = paths(self.root, run.key)[0]
                if path.exists() and not _whole(path, (run, place)):
                    set_aside(path)
                    found.append(run.key)
            last = loose[-1][0].key
        return sorted({*found} - {*but})

    # --- writing

    def add(self, run: Run, outputs: Outputs | None) -> None:
        """Add or replace one run; whoever reads meanwhile sees the old state or the new one."""
        with self.lock():
            self.record(run, self.put(run.key, array_file(run, outputs or {})))

    def put(self, key: str, content: bytes, log: bytes = b"") -> Files:
        """Write array file and log of a large run, each whole or not at all; a small one is left to `record`."""
        left = Files.of(content, log)
        if left.content is None:
            path, log_path, work = paths(self.root, key)
            with writing(self.root):
                for folder in (path.parent, work.parent):
                    files.make_folder(folder)
                files.put(log_path, log, work.with_suffix(".part")) if log else files.remove(log_path)
                files.put(path, content, work.with_suffix(".part"))
        return left

    def record(self, run: Run, left: Files) -> None:
        """Note a run that left these files, and pack them unless they are in place; `flush` makes it last."""
        place = Place(left.size, left.crc)
        if left.content is not None:
            assert self._handle is not None, "packed without the lock"
            with writing(self.root):
                place = self._tail.append(run.key, left.content, left.log)
            self._ends[self._tail.number] = self._tail.end
            self._behind.add(self._tail.number)
        self._noted[run.key] = run, place

    def flush(self) -> None:
        """Sync what was noted since the last time and write it to the index."""
        if self._noted:
            with self.lock():
                self._write_rows()

    def _settle(self) -> None:
        """Write what was noted, and what was adopted if nobody else writes."""
        self.flush()
        self._rows(list(self._adopted))
        if self._connect() is not None and self._adopted:
            with suppress(StudyError), self.lock():
                pass

    def forget(self, keys: Iterable[str], rewrite: Iterable[int] = ()) -> None:
        """Remove runs: their array files and logs first, then their rows; and what does not count in some segments."""
        lost: list[str] = []
        with self.lock(), writing(self.root):
            self._ask(Index.verify)  # what a damaged row hides would be lost with its segment
            self._write_rows()
            gone = set(keys)
            rows = self._rows(list(gone))
            for key in gone:
                for path in paths(self.root, key)[:2]:
                    files.remove(path)
            places = {place.segment for _, place in rows.values() if place.segment is not None}
            self._tail.take(max(self._ends, default=0), segments.FULL)
            for number in sorted(places | {*rewrite}):
                lost += self._rewrite(number, gone)
            self._change([], {}, gone)
        _warn_of(lost, "these runs are no longer in it")

    def _rewrite(self, number: int, gone: set[str]) -> list[str]:
        """Copy the runs of a segment that count to the end, then remove it; say which could not be copied."""
        moved: list[Row] = []
        ends: dict[int, int] = {}
        path = segment_path(self.root, number)
        rows = self._ask(Index.packed, number) or []
        there = path.exists()
        with opened(path) if there else nullcontext(-1) as handle:
            for run, place in rows if there else ():
                content = array_bytes(handle, place)
                if run.key not in gone and content is not None:
                    log = segments.read_log(handle, place.offset, place.log)
                    moved.append((run, self._tail.append(run.key, content, log)))
                    ends[self._tail.number] = self._tail.end
        lost = {run.key for run, _ in rows} - {run.key for run, _ in moved}
        self._tail.sync()
        self._change(moved, {**ends, number: 0}, lost)
        self._ends |= ends
        self._ends.pop(number, None)
        self._behind.discard(number)
        if there:
            files.remove(path)
            files.sync_folder(path.parent)
        return [f"{key} in {path}: {'damaged' if there else 'missing'}" for key in sorted(lost - gone)]


def _warn_of(lost: Sequence[str], so: str) -> None:
    if lost:
        warnings.warn(
            f"{len(lost)} array files of the run store are missing or damaged, {so}: {'; '.join(lost[:SHOWN])}",
            TamisWarning,
            stacklevel=4,
        )


def _missing(path: Path) -> Path:
    raise FileNotFoundError(path)


def _whole(source: bytes | Path, row: Row | None) -> bool:
    """Return whether an array file is what was written, as far as that is known."""
    return isinstance(source, bytes) or row is None or files.checksum(source) == row[1].crc
