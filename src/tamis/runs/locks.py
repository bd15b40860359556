"""One writer at a time: a lock on a folder that the system releases when its holder dies.

The lock file says who holds it, for the message that a second writer gets; whether anybody does, only the system
knows: a killed writer leaves his name. To ask it is to share the lock for an instant, so a writer who is refused
tries again before he believes it. Only those who may write the folder may
open it: whoever can open a file can lock it, and keep others out for as long as he likes.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import time
from contextlib import suppress
from pathlib import Path

LOCK = ".lock"
_TRIES = 5
_PAUSE = 0.01  # seconds between two; who asks has the lock for a thousandth of that


def seized(root: Path) -> int:
    """Take the lock of a folder and return its handle; `BlockingIOError` says who has it."""
    path = root / LOCK
    new = not path.exists()
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if new:
            writers = root.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            os.fchmod(handle, 0o600 | writers | writers << 1)
        for left in reversed(range(_TRIES)):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                said = _holder(handle)
                if not left:
                    raise BlockingIOError(f"process {said}" if _alive(said) else "another process") from None
            time.sleep(_PAUSE)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        return handle  # inside, or an interrupt here would keep the lock for the life of the process
    except BaseException:
        os.close(handle)
        raise


def released(handle: int) -> None:
    """Give the lock back."""
    with suppress(OSError):
        os.ftruncate(handle, 0)
        fcntl.flock(handle, fcntl.LOCK_UN)  # also if some forked process still has a copy of the handle
    os.close(handle)


def held(root: Path) -> bool:
    """Return whether somebody holds a folder's lock; no if we may not ask."""
    try:
        handle = os.open(root / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(handle, fcntl.LOCK_UN)  # as in `released`
        return False
    except BlockingIOError:
        return True
    except OSError:  # a disk without locks
        return _alive(_holder(handle))
    finally:
        os.close(handle)


def _holder(handle: int) -> str:
    return os.pread(handle, 200, 0).decode(errors="replace").strip()


def _alive(said: str) -> bool:
    """Return whether the process that a lock file names lives, as far as this machine knows."""
    pid, _, host = said.partition(" on ")
    if not pid.isdigit():
        return False
    if host != socket.gethostname():
        return True
    return alive(int(pid))


def alive(pid: int) -> bool:
    """Return whether a process of this machine lives."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
