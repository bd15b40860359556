"""The index and the segments of a store in step: who may write, what is known, and what to do where they differ.

Three things know of a run: its bytes, the index, and whoever has just written it. Bytes come first. A kill can leave
bytes that the index lacks; they are adopted when the store is next opened, by a reader for himself, by a writer for
all. It can leave half a run at the end of a segment; the next writer cuts it off. An index that is not sound is
made anew, in the same call that found it so.
"""

from __future__ import annotations

import os
import sqlite3
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from tamis import files
from tamis.errors import StudyError, TamisWarning
from tamis.runs import segments
from tamis.runs.index import FORMAT, INDEX, Index, Newer, Row, Unsound, replace_file
from tamis.runs.locks import held, released, seized
from tamis.runs.records import Damaged, Run, read_record
from tamis.runs.repair import later, read_member, refill
from tamis.runs.segments import SMALL, Member, Place, Tail, opened, segment_path

SHOWN = 5  # damaged files that are named
Answer = TypeVar("Answer")
Given = ParamSpec("Given")


def paths(root: Path, key: str) -> tuple[Path, Path, Path]:
    """Return where a run's own array file and log are, if it is not packed, and its working folder."""
    return root / key[:2] / f"{key}.npz", root / key[:2] / f"{key}.log", root / ".work" / key


@contextmanager
def writing(root: Path) -> Iterator[None]:
    """Explain why a store cannot be written: a full disk, a read-only folder, a file in the way."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        where = getattr(error, "filename", None) or root
        said = getattr(error, "strerror", None) or str(error)
        raise StudyError(
            f'cannot write to the run store "{root}": {said} ("{where}"); make room or give a writable '
            "folder, then run again: what was finished is kept"
        ) from error


class Ledger:
    """What is known of the runs of a folder, and the right to add to it."""

    _index: Index | None = None
    _handle: int | None = None  # of the lock, while it is ours

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        self._noted: dict[str, Row] = {}  # to be written to the index
        self._adopted: dict[str, Row] = {}  # found in files; whoever writes next notes them
        self._ends: dict[int, int] = {}  # where the last whole run of each segment ends
        self._behind: set[int] = set()  # segments of which the index lacks the end
        self._tail = Tail(self.root)

    def _let_go(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None

    def _adopt(self, run: Run, place: Place) -> None:
        (self._noted if self._handle is not None else self._adopted)[run.key] = run, place

    def _look(self) -> None:
        """Take in what segments hold beyond what the index knows: a kill came between the two."""
        if self._connect() is None:
            return
        covered = self._ask(Index.covered) or {}
        sizes = segments.sizes(self.root)
        lost = covered.keys() - sizes.keys()
        self._ends |= dict.fromkeys(lost, segments.FULL)  # no other takes their numbers
        for number, size in sizes.items():
            known = max(covered.get(number, 0), self._ends.get(number, 0))
            if size < known:
                self._ends[number] = segments.FULL  # it was cut short: nothing more is written there
            elif size > known:
                members, self._ends[number] = segments.walk(segment_path(self.root, number), known)
                self._behind.add(number)
                self._take_in(number, members)
            else:
                self._ends[number] = size

    def _look_again(self) -> None:
        """Find anew what the index lacks: since it was last looked for, others may have written."""
        own = [key for key, (_, place) in self._adopted.items() if place.segment is None]
        left = {key: row for key, row in self._noted.items() if row[1].segment is not None}  # of a full disk
        for outdated in (self._adopted, self._behind, self._ends):
            outdated.clear()
        self._noted = {key: row for key, row in self._noted.items() if key not in left}
        self._connect(create=True)
        self._look()
        for key, row in left.items():
            if key in self._noted and self._noted[key][1] == row[1]:
                self._noted[key] = row  # the same, and how long it took
        rows = self._rows(own)
        for key in own:
            known = rows.get(key)
            if known is None or known[1].segment is None or self._redone(known):
                with suppress(FileNotFoundError, Damaged):
                    self._found(key, known, paths(self.root, key)[0])

    def _redone(self, row: Row) -> bool:
        """Return whether a packed run that failed was done again, with more to tell, before a kill came."""
        return row[0].status != "done" and paths(self.root, row[0].key)[0].exists()

    def _found(self, key: str, row: Row | None, path: Path) -> Run:
        """Return a run that has a file of its own."""
        size = os.stat(path).st_size
        if row is not None and row[1].segment is None and row[1].size == size:
            if size > SMALL or zlib.crc32(path.read_bytes()) == row[1].crc:
                return row[0]
            raise Damaged("its bytes are not those that were written")
        content = path.read_bytes()
        run = read_record(content, key)
        self._adopt(run, Place(len(content), zlib.crc32(content)))
        return run

    def _take_in(self, number: int, members: Iterable[Member]) -> None:
        rows = self._rows([member.key for member in members if member.key])
        for member in members:
            with suppress(Damaged):  # what was not synced may be anything
                run, place = read_member(self.root, number, member)
                if not member.key:
                    rows |= self._rows([run.key])
                if later(place, rows.get(run.key)):
                    self._adopt(run, place)
                    rows[run.key] = run, place

    def _change(self, rows: list[Row], covered: dict[int, int], gone: set[str]) -> None:
        index = self._connect(create=True)
        assert index is not None
        try:
            index.write(rows, covered, gone)
        except Unsound as error:
            self._rebuild(str(error)).write(rows, covered, gone)

    def _write_rows(self) -> None:
        if not self._noted or self._handle is None or self._index is None:
            return
        with writing(self.root):
            self._tail.sync()
            for number in self._behind - {self._tail.number}:
                with opened(segment_path(self.root, number)) as handle:
                    files.sync(handle)
            for key, (_, place) in self._noted.items():
                if place.segment is not None and (path := paths(self.root, key)[0]).exists():
                    files.remove(path)
                    files.remove(path.with_suffix(".log"))
            self._change(list(self._noted.values()), {n: self._ends[n] for n in self._behind}, set())
        self._behind.clear()
        self._noted.clear()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the only writer or be refused; what was noted is synced and written to the index at the end."""
        outermost = self._handle is None
        with self._locked():
            if self._index is not None and self._index.path is None:
                self._let_go()  # repaired for ourselves; now for all
            if outermost:
                self._look_again()
                last = max(self._ends, default=0)
                with writing(self.root):
                    self._tail.take(last, self._ends.get(last, 0))
            else:
                self._connect(create=True)
            yield

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._handle is not None:
            yield
            return
        try:
            with writing(self.root):
                self.root.mkdir(parents=True, exist_ok=True)
                try:
                    self._handle = seized(self.root)
                except BlockingIOError as error:
                    raise StudyError(
                        f'the run store "{self.root}" is being written by {error}; wait until it ends or stop it'
                    ) from None
            yield
            self._write_rows()
        except BaseException:
            with suppress(StudyError):  # the first error is the one to tell; rows lost here are adopted later
                self._write_rows()
            raise
        finally:
            self._tail.close()
            self._release()

    def _release(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            released(handle)

    def _rows(self, keys: Sequence[str]) -> dict[str, Row]:
        found = (self._ask(Index.find, keys) or {}) if keys else {}
        for key in found.keys() & self._adopted.keys():
            place = self._adopted[key][1]
            if place.segment is not None and not later(place, found[key]):
                del self._adopted[key]  # the index has it by now, or what came after it
        for more in (self._adopted, self._noted):
            found.update({key: more[key] for key in keys if key in more} if more else {})
        return found

    def _ask(
        self, question: Callable[Concatenate[Index, Given], Answer], *given: Given.args, **more: Given.kwargs
    ) -> Answer | None:
        """Ask the index, None if there is none; one that is not sound is repaired first."""
        index = self._connect()
        if index is None:
            return None
        try:
            try:
                return question(index, *given, **more)
            except Unsound as error:
                return question(self._rebuild(str(error)), *given, **more)
        except (sqlite3.Error, Unsound) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, why: object) -> StudyError:
        return StudyError(f'cannot read the index "{self.root / INDEX}" of the run store: {why}')

    def _connect(self, *, create: bool = False) -> Index | None:
        if self._index is not None:
            return self._index
        path = self.root / INDEX
        if self.root.exists() and not self.root.is_dir():
            raise StudyError(f'expected a folder of runs, found a file: "{self.root}"; give another folder')
        if not path.exists():
            there = create or any(self.root.glob("??/*.npz")) or segments.sizes(self.root)
            return self._rebuild("it is missing") if there else None
        try:
            self._index = Index.open(path, self._busy)
        except Newer as error:
            raise self._unreadable(
                f"it has format {error}, this tamis {FORMAT}; install a newer one"
            ) from None
        except Unsound as error:
            return self._rebuild(str(error))
        except (sqlite3.Error, OSError) as error:
            raise self._unreadable(error) from error
        self._look()
        return self._index

    def _busy(self) -> bool:
        return self._handle is None and held(self.root)

    def _rebuild(self, why: str) -> Index:
        """Make a new index of the old one's sound rows and the array files; for ourselves if we may not write."""
        self._let_go()
        mine = self._handle is not None
        path, fresh = self.root / INDEX, self.root / f"{INDEX}.new"
        try:
            with self._locked(), writing(self.root):
                files.remove(fresh)
                done = refill(self.root, path, fresh)
                replace_file(fresh, path)
                self._index = index = Index.open(path, self._busy)
        except StudyError:
            if mine:
                raise
            self._index = index = Index.create(None)
            done = refill(self.root, path, index)
        index.mark_new()
        if done.damaged or (why and done.kept + done.read):
            named = f"; damaged and set aside: {'; '.join(done.damaged[:SHOWN])}" if done.damaged else ""
            warnings.warn(
                f'the index of the run store "{self.root}" was rebuilt ({why or "it had the format of before"}): '
                f"{done.kept} of its rows are sound, {done.read} runs were read from their array files again and "
                f"their durations are unknown{named}",
                TamisWarning,
                stacklevel=2,
            )
        return index
