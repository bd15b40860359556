"""Writing that is never half done: a temporary neighbour, then a rename; and nothing counts before it is synced.

What a process wrote survives its kill, because the system has it; a power cut takes what the system has not yet
written. So whatever is reported as done was synced before: the file, then the folder that names it. All that
the run store and the results write to disk goes through the few functions here (SQLite syncs its own), so that a test
can cut the power at any of them.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from tamis.errors import StudyError


def opened(path: Path) -> int:
    """Open a file for writing, as it is or empty if it is new."""
    new = not path.exists()
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    if new:
        share(path)
    return handle


def write(handle: int, content: bytes, offset: int) -> None:
    """Write all of it at a place of an open file."""
    while content:
        written = os.pwrite(handle, content, offset)
        content, offset = content[written:], offset + written


def cut(handle: int, size: int) -> None:
    """Make an open file so long."""
    os.ftruncate(handle, size)


def sync(handle: int) -> None:
    """Return when an open file is on the disk."""
    os.fsync(handle)


def closed(handle: int) -> None:
    """Let go of an open file."""
    os.close(handle)


def rename(old: Path, new: Path) -> None:
    """Give a file a name, in place of what had it; lasting once its folder is synced."""
    os.replace(old, new)


def remove(path: Path) -> None:
    """Remove a file if it is there."""
    path.unlink(missing_ok=True)


def sync_folder(path: Path) -> None:
    """Return when the names in a folder are on the disk, where its file system can say so."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some network disks cannot
            os.fsync(handle)
    finally:
        os.close(handle)


def checksum(path: Path) -> int:
    """Sum up a file of any size."""
    total = 0
    with path.open("rb") as file:
        while piece := file.read(2**20):
            total = zlib.crc32(piece, total)
    return total


def make_folder(path: Path) -> None:
    """Make a folder inside one that is there, unless it exists."""
    try:
        path.mkdir()
    except FileExistsError:
        return
    share(path)
    sync_folder(path.parent)


def share(path: Path) -> None:
    """Let those write a file or folder who may write the folder it is in: a team, whatever its members' umasks."""
    writers = path.parent.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    mode = path.stat().st_mode
    if writers & ~mode:
        with suppress(PermissionError):
            path.chmod(stat.S_IMODE(mode) | writers | writers << 1)


def put(path: Path, content: bytes, part: Path) -> None:
    """Write a file whole under another name, sync it, rename it and sync its folder."""
    handle = opened(part)
    try:
        cut(handle, 0)
        write(handle, content, 0)
        sync(handle)
    except BaseException:
        with suppress(OSError):
            remove(part)
        raise
    finally:
        closed(handle)
    rename(part, path)
    sync_folder(path.parent)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary neighbour of ``path`` for writing and rename it when all went well."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        rename(temporary, path)
        sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise StudyError(
                f'cannot write "{path}": {reason}; make room or give a writable folder, then run again: '
                "what was finished is kept"
            ) from error
        raise


def save_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write named arrays as ``.npz``; the same arrays give the same bytes."""
    with replacing(path) as stream:
        np.savez(stream, **{name: np.asarray(array) for name, array in arrays.items()})  # type: ignore[arg-type]


def load_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Read what `save_arrays` wrote; pickled objects are refused."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            return dict(archive)
    except OSError as error:
        raise StudyError(f'"{path}" cannot be read ({error}); delete it and run again') from error
    except Exception as error:  # a damaged zip file raises nearly anything
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise StudyError(f'"{path}" is damaged ({what}); delete it and run again') from error
