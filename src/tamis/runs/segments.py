"""Small runs packed into segments: plain tar files that only ever grow at their end.

Why: a million files of a kilobyte take a million directory entries and blocks of four, and copying or listing them
takes longer than making them. Why tar: ``tar xf`` and numpy read it without tamis, in ten years too. Each
member is the array file of one run, ``<key>.npz``, its log just before it; owner and dates are fixed. A key that
comes twice counts where it comes last, as it does for ``tar xf``.

Why nothing more: a header is worth exactly one name and one size, so `header` can be compared byte by byte, and
that finds the end of what was written whole. After a kill or a power cut the end may hold half a member; whoever writes
next cuts it off. A bad header is damage: the walk goes on at the next good one, and the array files that lie
between, or after the last good one, are found by how a zip file ends. Each knows its own key.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tamis import files

FOLDER = "segments"
SMALL = 2**16  # bytes of an array file, and of a log, up to which a run is packed
FULL = 2**25  # bytes of a segment that takes no more runs
_BLOCK = 512
_NAME = re.compile(rb"([0-9a-f]{32})\.(npz|log)\0*")
_MAGIC = b"ustar\x0000"
_END = struct.Struct("<4s8xII2x")  # of a zip file: size and place of the directory before it


class Place(NamedTuple):
    """Where a run's array file is, and what it must be: a file of its own, or so many bytes of a segment."""

    size: int
    crc: int
    segment: int | None = None
    offset: int = 0
    log: int = 0  # bytes of the log in the segment


@dataclass(frozen=True)
class Files:
    """What a finished run leaves: array file and log to be packed, or, without content, files that are in place."""

    size: int
    crc: int
    content: bytes | None = None
    log: bytes = b""

    @classmethod
    def of(cls, content: bytes, log: bytes = b"") -> Files:
        """Describe an array file, with its content if it is to be packed."""
        small = max(len(content), len(log)) <= SMALL
        return cls(len(content), zlib.crc32(content), content if small else None, log if small else b"")


def segment_path(root: Path, number: int) -> Path:
    """Return where a segment is."""
    return Path(f"{root}/{FOLDER}/{number:06}.tar")


def sizes(root: Path) -> dict[int, int]:
    """Return the segments of a store and their sizes, in the order of their numbers."""
    try:
        with os.scandir(root / FOLDER) as entries:
            found = {
                int(e.name[:6]): e.stat().st_size for e in entries if re.fullmatch(r"\d{6}\.tar", e.name)
            }
    except FileNotFoundError:
        return {}
    return dict(sorted(found.items()))


def header(name: str, size: int) -> bytes:
    """Return the header of a member in the POSIX format, the same for the same name and size."""
    start = name.encode().ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + b"%011o\0" % size
    rest = b"0".ljust(101, b"\0") + _MAGIC + bytes(64) + b"0000000\0" * 2 + bytes(167)
    total = sum(start) + sum(rest) + sum(b"%011o\0" % 0) + 8 * ord(" ")
    return start + b"%011o\0" % 0 + b"%06o\0 " % total + rest


def padded(size: int) -> int:
    """Return how many bytes so many take in a segment."""
    return -(-size // _BLOCK) * _BLOCK


def _member(name: str, content: bytes) -> bytes:
    return header(name, len(content)) + content.ljust(padded(len(content)), b"\0")


@dataclass(frozen=True)
class Member:
    """A run found in a segment: its key, where its array file begins, its size, and that of its log before it.

    Without a key its header is damaged: it is an array file that must say its key itself, or no array file at all.
    """

    key: str
    offset: int
    size: int
    log: int = 0


def walk(path: Path, start: int = 0) -> tuple[list[Member], int]:
    """Return what a segment holds from a place on, and where its last whole run ends."""
    found: list[Member] = []
    with opened(path) as handle:
        end = os.fstat(handle).st_size
        good = place = start
        log: tuple[str, int] | None = None
        while place + _BLOCK <= end:
            key, kind, size = _named(os.pread(handle, _BLOCK, place))
            if not key:
                after = _next(handle, place + _BLOCK, end)
                pieces, whole = _between(handle, place, end if after is None else after)
                found += pieces
                if after is None:
                    good = whole or good
                    break
                if whole < after:
                    found.append(Member("", (whole or place) + _BLOCK, after - (whole or place) - _BLOCK))
                good, place, log = after, after, None
                continue
            if place + _BLOCK + padded(size) > end:
                break
            if kind == "npz":
                said = log[1] if log and log[0] == key else 0
                found.append(Member(key, place + _BLOCK, size, said))
                good = place + _BLOCK + padded(size)
            log = (key, size) if kind == "log" else None
            place += _BLOCK + padded(size)
    return found, good


def _named(block: bytes) -> tuple[str, str, int]:
    """Return the key, kind and size that a header says, nothing if it is not one of ours to the last bit."""
    match = _NAME.fullmatch(block[:100])
    if match and block[257:265] == _MAGIC:
        with suppress(ValueError):
            key, kind, size = match[1].decode(), match[2].decode(), int(block[124:135], 8)
            if header(f"{key}.{kind}", size) == block:
                return key, kind, size
    return "", "", 0


def _next(handle: int, place: int, end: int) -> int | None:
    """Return where the next good header is."""
    rest = os.pread(handle, end - place, place)
    at = rest.find(_MAGIC)
    while at >= 0:
        begin = at - 257
        if begin >= 0 and begin % _BLOCK == 0 and _named(rest[begin : begin + _BLOCK])[0]:
            return place + begin
        at = rest.find(_MAGIC, at + 1)
    return None


def _between(handle: int, place: int, end: int) -> tuple[list[Member], int]:
    """Return the array files after a bad header, what lies before each of them, and where the last ends, else 0."""
    found: list[Member] = []
    content = os.pread(handle, end - place, place)
    last, at = 0, content.find(b"PK\5\6")
    while 0 <= at <= len(content) - _END.size:
        _, size, before = _END.unpack_from(content, at)
        begin, stop = at - size - before, at + _END.size
        if (
            begin >= last + _BLOCK
            and begin % _BLOCK == 0
            and content.startswith(b"PK\3\4", begin)
            and padded(stop) <= len(content)
        ):
            if begin > last + _BLOCK:
                found.append(Member("", place + last + _BLOCK, begin - last - 2 * _BLOCK))
            found.append(Member("", place + begin, stop - begin))
            last = padded(stop)
        at = content.find(b"PK\5\6", at + 1)
    return found, place + last if last else 0


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """Open a file for reading."""
    handle = os.open(path, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


def array_bytes(handle: int, place: Place) -> bytes | None:
    """Read a packed array file; None if it is not what it was."""
    content = os.pread(handle, place.size, place.offset)
    return content if len(content) == place.size and zlib.crc32(content) == place.crc else None


def read_log(handle: int, offset: int, size: int) -> bytes:
    """Read the log that lies before the array file at a place of a segment."""
    return os.pread(handle, size, offset - _BLOCK - padded(size)) if size else b""


class Tail:
    """The end of the last segment, to which its only writer appends; nothing counts before it is synced."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._handle: int | None = None
        self._new = False
        self.number = 0
        self.end = 0

    def take(self, number: int, end: int) -> None:
        """Go on after the last whole run of the last segment, of which the rest is cut off; none is number 0."""
        self.close()
        self.number, self.end = number, end
        if number and end < FULL:
            with suppress(PermissionError):  # another member of the team may append to his own segment only
                self._handle = files.opened(segment_path(self._root, number))
                if os.fstat(self._handle).st_size > end:
                    files.cut(self._handle, end)

    def new_segment(self) -> None:
        """Go on in a new segment."""
        self.close()
        files.make_folder(self._root / FOLDER)
        self.number += 1
        self._handle = files.opened(segment_path(self._root, self.number))
        self._new = True
        self.end = 0

    def append(self, key: str, content: bytes, log: bytes) -> Place:
        """Write a run at the end in one piece; return where its array file is."""
        piece = (_member(f"{key}.log", log) if log else b"") + _member(f"{key}.npz", content)
        if self._handle is None or self.end + len(piece) > FULL:
            self.sync()
            self.new_segment()
        assert self._handle is not None
        try:
            files.write(self._handle, piece, self.end)
        except OSError:
            with suppress(OSError):
                files.cut(self._handle, self.end)
            raise
        self.end += len(piece)
        offset = self.end - padded(len(content))
        return Place(len(content), zlib.crc32(content), self.number, offset, len(log))

    def sync(self) -> None:
        """Return when what was appended is on the disk."""
        if self._handle is not None:
            files.sync(self._handle)
            if self._new:
                files.sync_folder(self._root / FOLDER)
                self._new = False

    def close(self) -> None:
        """Let go of the segment."""
        handle, self._handle = self._handle, None
        if handle is not None:
            files.closed(handle)
