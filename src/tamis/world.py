"""The world that a run finds in its process, put back after each run as the first one found it.

A run may leave much behind that the next one of its worker would meet: NumPy's reaction to a division by zero, an
alarm that is still to ring, a signal's handler, another folder, a changed variable of the environment, the state of
the global random generators. Which run comes next depends on the number of workers, so a result would too. A new
process for each run would be the simple way, and costs too much: importing takes a second, a fork with the usual
libraries loaded some milliseconds, and either forgets what a simulator rightly keeps from run to run, such as a
compiled kernel or a mesh.

So all that can be put back is put back, and where something is found that cannot be, the process is replaced. What
only the simulator itself knows, its own global variables, cannot be seen here; its contract forbids them to matter,
and `tamis.check_simulator` asks.
"""

from __future__ import annotations

import builtins
import ctypes
import decimal
import gc
import locale
import logging
import math
import os
import random
import resource
import signal
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

_HANDLED = [
    one
    for one in signal.valid_signals()
    if one not in (signal.SIGKILL, signal.SIGSTOP) and one < signal.SIGRTMIN
]
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_LIMITS = [value for name, value in sorted(vars(resource).items()) if name.startswith("RLIMIT_")]
_HANDLES = 64  # files that runs may leave open, in all


class World:
    """What stands when the simulator is loaded; `restore` puts it back."""

    def __init__(self) -> None:
        self._folder = os.getcwd()
        self._environment = dict(os.environ)
        self._mask = _mask()
        self._handlers = [(one, signal.getsignal(one)) for one in _HANDLED]
        self._limits = [resource.getrlimit(one) for one in _LIMITS]
        self._kept = [(look, put, look()) for look, put in _VALUES]
        self._filters = list(warnings.filters)
        self._path = list(sys.path)
        self._builtins = dict(vars(builtins))
        self._threads = threading.active_count()
        self._nice = os.nice(0)
        self._handles = _handles()

    def begin(self, salt: int, memory: float) -> None:
        """Start the global random generators, and limit the memory that this process may ask for."""
        self.sound = False
        random.seed(salt)
        np.random.seed(salt)  # noqa: NPY002  # the one that a run may use without being told
        if math.isfinite(memory):
            _, hard = resource.getrlimit(resource.RLIMIT_DATA)
            resource.setrlimit(resource.RLIMIT_DATA, (int(memory), hard))

    def restore(self) -> None:
        """Put all back as it was, and note in ``sound`` whether the process may go on."""
        for timer in _TIMERS:
            if signal.getitimer(timer)[0]:
                signal.setitimer(timer, 0.0)
        for one, handler in self._handlers:
            if signal.getsignal(one) is not handler and handler is not None:
                signal.signal(one, handler)
        with suppress(OSError):
            os.chdir(self._folder)
        if dict(os.environ) != self._environment:
            os.environ.clear()
            os.environ.update(self._environment)
        os.umask(self._mask)
        for look, put, value in self._kept:
            if look() != value:
                put(value)
        if warnings.filters != self._filters:
            warnings.filters[:] = self._filters  # type: ignore[index]
            warnings._filters_mutated()  # type: ignore[attr-defined]
        sys.path[:] = self._path
        for one, limit in zip(_LIMITS, self._limits, strict=True):
            if resource.getrlimit(one) != limit:
                with suppress(OSError, ValueError):
                    resource.setrlimit(one, limit)
        self.sound = self._as_before()

    def _as_before(self) -> bool:
        """Say whether all is as it was that cannot be put back."""
        return (
            threading.active_count() <= self._threads
            and os.nice(0) == self._nice
            and [resource.getrlimit(one) for one in _LIMITS] == self._limits
            and vars(builtins) == self._builtins
            and _handles() <= self._handles + _HANDLES
        )


def _mask() -> int:
    mask = os.umask(0o22)
    os.umask(mask)
    return mask


def _handles() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


def _tracing(value: tuple[Any, Any]) -> None:
    sys.settrace(value[0])
    sys.setprofile(value[1])


def _hooks(value: tuple[Any, Any]) -> None:
    sys.excepthook, sys.displayhook = value


_C = ctypes.CDLL(None)
_VALUES: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
    (getattr(_C, "fegetround", lambda: 0), getattr(_C, "fesetround", lambda _: None)),
    (
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        lambda value: signal.pthread_sigmask(signal.SIG_SETMASK, value),
    ),
    (lambda: logging.root.manager.disable, logging.disable),
    (lambda: logging.root.level, logging.root.setLevel),
    (lambda: tempfile.tempdir, lambda value: setattr(tempfile, "tempdir", value)),
    (lambda: (sys.excepthook, sys.displayhook), _hooks),
    (np.geterr, lambda value: np.seterr(**value)),
    (np.geterrcall, np.seterrcall),
    (np.getbufsize, np.setbufsize),
    (np.get_printoptions, lambda value: np.set_printoptions(**value)),
    (lambda: decimal.getcontext().copy().__reduce__(), lambda value: decimal.setcontext(value[0](*value[1]))),
    (lambda: locale.setlocale(locale.LC_ALL), lambda value: locale.setlocale(locale.LC_ALL, value)),
    (socket.getdefaulttimeout, socket.setdefaulttimeout),
    (sys.getrecursionlimit, sys.setrecursionlimit),
    (sys.getswitchinterval, sys.setswitchinterval),
    (gc.isenabled, lambda value: gc.enable() if value else gc.disable()),
    (lambda: (sys.gettrace(), sys.getprofile()), _tracing),
]
