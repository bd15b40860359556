"""Trees of processes, and the one that outlives us to clear them away; standard library only.

A simulator may start programs, which start others, which leave their group and their parent. Signals to a
process group miss those that left it. So a worker adopts the orphans below it (Linux's child subreaper), which
keeps everything a run started in one tree, and the whole tree is killed. Where the system shows no tree (no
/proc), the group is what is killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


def descendants(pid: int) -> list[int]:
    """List the processes below one, as far as the system shows them."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found[1:]


def kill_tree(pid: int) -> None:
    """Kill a process, its group if it heads one, and everything below it."""
    below = descendants(pid)
    for kill, target in [(os.killpg, pid), *((os.kill, one) for one in (pid, *below))]:
        with suppress(OSError):
            kill(target, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every process below this one whose own parent ends."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def below() -> frozenset[int]:
    """Return the processes below this one; costs next to nothing where there are none."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:  # buries the dead
            pass
    except ChildProcessError:
        return frozenset()
    return frozenset(descendants(os.getpid()))


def end_all_but(kept: frozenset[int]) -> None:
    """Kill what runs below this process, except what is to be kept."""
    give_up = time.monotonic() + 5.0
    while (left := below() - kept) and time.monotonic() < give_up:
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def python(code: str) -> list[str]:
    """Return the command line of a Python process that finds the modules this one finds."""
    return [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"]


class Reaper:
    """A process that is told of our children, waits for our end on a pipe, and kills those that are left."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            python("import tamis.processes; tamis.processes.watch()"),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def tell(self, sign: str, pid: int) -> None:
        """Say that a child has begun (+) or ended (-)."""
        assert self._process.stdin
        with self._lock, suppress(OSError, ValueError):
            self._process.stdin.write(f"{sign}{pid}\n")
            self._process.stdin.flush()

    def close(self) -> None:
        """Let it end, and wait for that."""
        with self._lock:
            self._process.communicate()


@lru_cache(maxsize=1)
def reaper_of(pid: int) -> Reaper:
    """Return the reaper of this process, one for its whole life; ``pid`` is its own, so that a fork gets another."""
    import atexit

    reaper = Reaper()
    atexit.register(reaper.close)
    return reaper


def watch() -> None:
    """Live the life of a reaper."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    left: set[int] = set()
    for line in sys.stdin:
        (left.add if line[0] == "+" else left.discard)(int(line[1:]))
    for pid in left:
        kill_tree(pid)
