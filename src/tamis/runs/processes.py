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
from pathlib import Path

MARK = "TAMIS_CHILD"  # variable that everything a child starts inherits
_PR_SET_CHILD_SUBREAPER = 36
_ONE = threading.Lock()
_C = ctypes.CDLL(None)


def descendants(pid: int) -> list[int]:
    """List the living processes below one, as far as the system shows them."""
    children: dict[int, list[int]] = {}
    dead = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            state, parent, *_ = stat.read_text(errors="replace").rpartition(")")[2].split()
            one = int(stat.parent.name)
            children.setdefault(int(parent), []).append(one)
            if state == "Z":
                dead.add(one)
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return [one for one in found[1:] if one not in dead]


def memory(pid: int) -> int:
    """Return the bytes that a process and those below it hold for themselves, as far as the system shows them."""
    held = 0
    for one in (pid, *descendants(pid)):
        with suppress(OSError, ValueError, IndexError):
            _, resident, shared, *_ = map(int, Path(f"/proc/{one}/statm").read_text().split())
            held += resident - shared
    return held * os.sysconf("SC_PAGE_SIZE")


def bearing(mark: str) -> list[int]:
    """List the processes that inherited a mark in their environment."""
    text = f"{MARK}={mark}".encode()
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if text in environment.read_bytes():
                found.append(int(environment.parent.name))
    return found


def kill_tree(pid: int, mark: str) -> None:
    """Kill a process, its group if it heads one, everything below it and everything that bears its mark."""
    others = (*descendants(pid), *bearing(mark))
    for kill, target in [(os.killpg, pid), *((os.kill, one) for one in (pid, *others))]:
        with suppress(OSError):
            kill(target, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every process below this one whose own parent ends."""
    with suppress(AttributeError, OSError):
        _C.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def below() -> frozenset[int]:
    """Return the living processes below this one; costs next to nothing where there are none."""
    try:
        # WNOWAIT: takes no exit code from whoever waits for it
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return frozenset()
    return frozenset(descendants(os.getpid()))


def end_all_but(kept: frozenset[int]) -> bool:
    """Kill what runs below this process, except what is to be kept; return whether there was nothing to kill."""
    if not (left := below() - kept):
        _bury(kept)
        return True
    give_up = time.monotonic() + 5.0
    while left and time.monotonic() < give_up:
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
        left = below() - kept
    return False


def _bury(kept: frozenset[int]) -> None:
    """Take the exit codes that nobody asked for: the next to wait for any child would get them."""
    with suppress(ChildProcessError):
        while (
            dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        ) and dead.si_pid not in kept:
            os.waitpid(dead.si_pid, 0)


def python(code: str) -> list[str]:
    """Return the command line of a Python process that finds the modules this one finds."""
    path = [str(entry) for entry in sys.path]
    return [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}; {code}"]


class Reaper:
    """A process that is notified of our children, waits for our end on a pipe, and kills those that are left."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            python("import tamis.runs.processes; tamis.runs.processes.watch()"),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def notify(self, sign: str, pid: int, mark: str) -> None:
        """Say that a child has begun (+) or ended (-)."""
        assert self._process.stdin
        with self._lock, suppress(OSError, ValueError):
            self._process.stdin.write(f"{sign} {pid} {mark}\n")
            self._process.stdin.flush()

    def close(self) -> None:
        """Let it end, and wait for that."""
        with self._lock:
            self._process.communicate()


_reapers: dict[int, Reaper] = {}


def reaper() -> Reaper:
    """Return the reaper of this process, one for its whole life; a fork gets another."""
    import atexit

    with _ONE:
        if os.getpid() not in _reapers:
            _reapers.clear()
            _reapers[os.getpid()] = Reaper()
            atexit.register(_reapers[os.getpid()].close)
        return _reapers[os.getpid()]


def watch() -> None:
    """Live the life of a reaper."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    left: dict[int, str] = {}
    for line in sys.stdin:
        sign, pid, mark = line.split()
        if sign == "+":
            left[int(pid)] = mark
        else:
            left.pop(int(pid), None)
    for child, mark in left.items():
        kill_tree(child, mark)
