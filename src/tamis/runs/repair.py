"""A new index from what is left of an old one and from the array files.

The files are believed. A row of the old index is kept if its own sum is right and the file it speaks of is where it
says; every other array file is read. So one flipped bit costs the reading of one run, a lost index that of all,
and both go the same way, in one pass. Where a key has several array files, one of its own counts, then the
last in the segments.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from tamis import files
from tamis.runs.index import Index, Row, first_seconds, salvaged
from tamis.runs.records import Damaged, Run, read_record
from tamis.runs.segments import Member, Place, array_bytes, opened, padded, segment_path, sizes, walk

_MANY = 2000  # rows that are written together


@dataclass
class Refilled:
    """How many rows were kept and how many made from array files; which files are damaged."""

    kept: int = 0
    read: int = 0
    damaged: list[str] = field(default_factory=list)


def refill(root: Path, old: Path, new: Index | Path) -> Refilled:
    """Fill a new index; one of the format of before gives the seconds of its runs, no more."""
    if isinstance(new, Path):
        with closing(Index.create(new)) as index:
            return refill(root, old, index)
    index, done = new, Refilled()
    seconds = first_seconds(old)
    ends: dict[int, int] = {}
    packed: dict[int, dict[int, Member]] = {}
    for number in sizes(root):
        members, ends[number] = walk(segment_path(root, number))
        packed[number] = {member.offset: member for member in members}
    batch: dict[str, Row] = {}

    def note(run: Run, place: Place) -> None:
        batch[run.key] = replace(run, seconds=seconds.get(run.key, run.seconds)), place
        if len(batch) >= _MANY:
            flush()

    def flush() -> None:
        index.write(batch.values(), {})
        batch.clear()

    for run, place in salvaged(old) if old.exists() else ():
        if _in_place(root, packed, run, place):
            note(run, place)
            done.kept += 1
            if place.segment is not None:  # its header may be damaged, and nobody may cut it off
                ends[place.segment] = max(ends[place.segment], place.offset + padded(place.size))
    flush()
    for path in sorted(root.glob("??/*.npz")):
        row = index.find([path.stem]).get(path.stem)
        if row is None or row[1].segment is not None:
            try:
                content = path.read_bytes()
                note(read_record(content, path.stem), Place(len(content), zlib.crc32(content)))
                done.read += 1
            except Damaged as error:
                set_aside(path)
                done.damaged.append(f"{path}: {error}")
    flush()
    for number, others in packed.items():
        known = index.find([member.key for member in others.values() if member.key])
        for member in others.values():
            try:
                run, place = read_member(root, number, member)
            except Damaged as error:
                done.damaged.append(f"{segment_path(root, number)}, byte {member.offset}: {error}")
                continue
            if not member.key:
                known |= index.find([run.key])
            if later(place, known.get(run.key)):
                note(run, place)
                known[run.key] = run, place
                done.read += 1
        flush()
    index.write([], {number: end for number, end in ends.items() if end})
    return done


def _in_place(root: Path, packed: Mapping[int, dict[int, Member]], run: Run, place: Place) -> bool:
    """Return whether a row's array file is where it says; a packed one is then taken from the list."""
    if place.segment is None:
        with suppress(OSError, ValueError):
            return (root / run.key[:2] / f"{run.key}.npz").stat().st_size == place.size
        return False
    members = packed.get(place.segment)
    if members is None:
        return False
    if members.get(place.offset) != Member(run.key, place.offset, place.size, place.log):
        with opened(segment_path(root, place.segment)) as handle:
            if array_bytes(handle, place) is None:
                return False
    members.pop(place.offset, None)
    return True


def later(place: Place, than: Row | None) -> bool:
    """Return whether a packed array file counts beside what is known of its run."""
    if than is None:
        return True
    other = than[1]
    if other.segment is None or place.segment is None:
        return False
    return (place.segment, place.offset) > (other.segment, other.offset)


def read_member(root: Path, number: int, member: Member) -> Row:
    """Read a run from a segment, with nothing to go by but itself; `Damaged` if that is not enough."""
    with opened(segment_path(root, number)) as handle:
        content = os.pread(handle, member.size, member.offset)
    run = read_record(content, member.key or None)
    return run, Place(len(content), zlib.crc32(content), number, member.offset, member.log)


def set_aside(path: Path) -> None:
    """Give a damaged array file a name under which nobody looks for it."""
    with suppress(OSError):
        files.rename(path, path.with_suffix(".npz.bad"))
