"""The world that a run finds in its process, put back after each run as the first one found it.

A run may leave much behind that the next one of its worker would meet: NumPy's reaction to a division by zero, an
alarm that is still to ring, a signal's handler, another folder, a changed variable of the environment, the state of
the global random generators, a function of NumPy that was replaced. Which run comes next depends on the number of
workers, so a result would too. A new process for each run would be the simple way, and costs too much: importing
takes a second, a fork with the usual libraries loaded some milliseconds, and either forgets what a simulator rightly
keeps from run to run, such as a compiled kernel or a mesh.

So all that can be put back is put back, and where something is found that cannot be, the process is replaced. Each
thing is looked at in the cheapest way that shows a change (the addresses of the variables of the environment, the
number that a module's dictionary gets with every change), since ten thousand trivial runs look ten thousand times. What
only the simulator itself knows, its own global variables, cannot be seen here; its contract forbids them to matter, and
`tamis.check_simulator` asks. Threads of compiled libraries and files left open are let be, up to a number: libraries
keep both, and no result depends on them. So is what changes only how fast a run is.
"""

from __future__ import annotations

import _thread
import builtins
import codecs
import copyreg
import csv
import ctypes
import decimal
import faulthandler
import gc
import importlib
import locale
import logging
import math
import multiprocessing
import os
import platform
import random
import re
import resource
import signal
import socket
import stat
import sys
import tempfile
import threading
import time
import tracemalloc
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

_C = ctypes.CDLL(None)
_handler_of: Callable[[int], Any] = importlib.import_module("_signal").getsignal  # without looking up names
_HANDLED = [int(one) for one in signal.valid_signals() if one not in (signal.SIGKILL, signal.SIGSTOP)]
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_LIMITS = [value for name, value in sorted(vars(resource).items()) if name.startswith("RLIMIT_")]
_COUNTER = 24  # bytes into a dictionary, after what every object has and its length
_HANDLES = 64  # files that runs may leave open, in all
_KERNEL = re.compile(
    rb"^(?:Uid|Gid|Groups|SigIgn|SigCgt|CapEff|NoNewPrivs|Seccomp|Cpus_allowed):.*$", re.MULTILINE
)
_OF_THREADS = 0b11 << 31  # signals that the C library takes for itself with the first thread
_WATCHED = re.compile(
    r"(os|posixpath|json(\.(en|de)coder)?|c?math|random|time|io|pathlib|zlib|struct|signal|_signal|resource|tempfile"
    r"|subprocess|socket|shutil|threading|logging|locale|decimal|gc|pickle|hashlib|re|string|ctypes|operator|traceback"
    r"|numpy(\.(linalg|random|fft|ma|polynomial))?|scipy(\.[a-z]+)?|numba(\.core\.config)?"
    r"|tamis\.(files|simulation|errors|runs\.(worker|records|store|segments|pool|world|processes|keys)))"
)
_CLASSES = (
    *("json.encoder.JSONEncoder", "json.decoder.JSONDecoder", "pathlib.Path", "pathlib.PurePath"),
    *("random.Random", "threading.Thread", "subprocess.Popen", "logging.Logger"),
)
_OF_SYSTEM = (
    *("path", "meta_path", "path_hooks", "modules", "argv", "dont_write_bytecode", "exit", "stdin", "stdout"),
    *("stderr", "__stdin__", "__stdout__", "__stderr__", "excepthook", "displayhook", "unraisablehook"),
    "breakpointhook",
)
_OF_WARNINGS = ["formatwarning", "warn", "warn_explicit", "simplefilter", "filterwarnings", "catch_warnings"]


class World:
    """What stands when the simulator is loaded; `restore` puts it back."""

    def __init__(self) -> None:
        self._names, self._builtins = vars(builtins), dict(vars(builtins))
        self._tables = _tables()
        self._folder = os.getcwd()
        self._environment = dict(os.environ)
        self._addresses = _addresses()
        self._mask = _mask()
        self._handlers = [(one, _handler_of(one)) for one in _HANDLED]
        self._limits = _limits()
        self._limited = True
        threads = [
            (lambda one=one: one.num_threads, one.set_num_threads)
            for one in ThreadpoolController().lib_controllers
        ]
        self._kept = [(look, put, look()) for look, put in (*_VALUES, *threads)]
        self._lists = [(one, list(one)) for one in _LISTS]
        self._modules, self._loaded = dict(sys.modules), list(sys.modules.values())
        self._threads = _thread._count()
        self._nice = os.nice(0)
        self._told = _opened("/proc/self/status"), _opened("/proc/self/timers")
        self._handles = _handles()
        self._streams = _streams()
        self._kernel = _kernel(*self._told)
        self.touched = False  # whether anything was out of place when it was last put back

    def prepare_run(self, salt: int, memory: float) -> None:
        """Start the global random generators, and limit the memory that this process may ask for."""
        self.sound = False
        random.seed(salt)
        np.random.seed(salt)  # noqa: NPY002  # the one that a run may use without being told
        if math.isfinite(memory):
            _, hard = resource.getrlimit(resource.RLIMIT_DATA)
            most = int(memory) if hard == resource.RLIM_INFINITY else min(int(memory), hard)
            resource.setrlimit(resource.RLIMIT_DATA, (most, hard))

    def restore(self) -> None:
        """Put all back as it was, and note in ``sound`` whether the process may go on."""
        self._names.update(self._builtins)  # first, and without any of them: what follows needs them
        self.touched = False
        for name in [*self._names] if len(self._names) > len(self._builtins) else ():
            if name not in self._builtins:
                del self._names[name]
        for table in self._tables:
            self.touched |= table.restore()
        for timer in _TIMERS:
            if signal.getitimer(timer)[0]:
                signal.setitimer(timer, 0.0)
        for one, handler in self._handlers:
            if _handler_of(one) is not handler and handler is not None:
                signal.signal(one, handler)
        with suppress(OSError):
            os.chdir(self._folder)
        os.umask(self._mask)
        if _addresses() != self._addresses or (
            self._addresses is None and dict(os.environ) != self._environment
        ):
            os.environ.clear()
            getattr(_C, "clearenv", lambda: None)()  # and what was put there behind Python's back
            os.environ.update(self._environment)
            self._addresses = _addresses()
        for mine, was in self._lists:
            if mine != was:
                mine[:] = was
                sys.path_importer_cache.clear()
                importlib.invalidate_caches()
        self._restore_modules()
        for look, put, value in self._kept:
            if look() != value:
                put(value)
        faulthandler.cancel_dump_traceback_later()
        if _limits() != self._limits:
            for one, limit in zip(_LIMITS, self._limits, strict=True):
                with suppress(OSError, ValueError):
                    resource.setrlimit(one, limit)
            self._limited = _limits() == self._limits
        self.sound = self._as_before()
        self.touched |= not self.sound

    def _restore_modules(self) -> None:
        """Put modules back, with those that were imported since; what came from nowhere goes there."""
        if list(sys.modules.values()) == self._loaded:
            return
        for name, module in list(sys.modules.items()):
            if name not in self._modules and getattr(module, "__spec__", None) is None:
                del sys.modules[name]
            else:
                self._modules.setdefault(name, module)
        sys.modules.update(self._modules)
        self._loaded = list(sys.modules.values())

    def _as_before(self) -> bool:
        """Return whether all is as it was that cannot be put back."""
        return (
            _thread._count() <= self._threads
            and os.nice(0) == self._nice
            and self._limited
            and _streams() == self._streams
            and _kernel(*self._told) == self._kernel
            and _handles() <= self._handles + _HANDLES
        )


class _Table:
    """Names, and what they stood for; of a module or a class functions, classes and constants.

    Names that are added are let be: a module imported later is one. So is what is filled in later, None at first.
    """

    def __init__(
        self, now: Mapping[str, Any], put: Callable[[str, Any], None], names: Sequence[str] = ()
    ) -> None:
        self._now, self._put = now, put
        self._was = {
            name: value
            for name, value in now.items()
            if name in names
            or (not names and (callable(value) or (value is not None and not name.startswith("_"))))
        }
        self._look = itemgetter(*names) if names else _values
        self._seen = self._look(now)
        self._changes = ctypes.c_uint64.from_address(id(now) + _COUNTER) if _counts_changes(now) else None
        self._change = self._changes and self._changes.value

    def restore(self) -> bool:
        """Put names back; return whether one of them stood for something else."""
        if self._changes is not None and self._changes.value == self._change:
            return False
        differs = self._put_back()
        self._change = self._changes and self._changes.value
        return differs

    def _put_back(self) -> bool:
        try:
            if self._look(self._now) == self._seen:
                return False
        except (KeyError, ValueError):
            pass  # a name is gone, or arrays do not say whether they are equal
        other = [name for name, value in self._was.items() if self._now.get(name) is not value]
        for name in other:
            self._put(name, self._was[name])
        self._seen = self._look(self._now)
        return bool(other)


def _counts_changes(names: object) -> bool:
    """Return whether this Python gives a dictionary another number with every change, where we look for it; 3.11 does.

    Looking at every value of the usual modules takes a third of the time of a trivial run, at one number a hundredth.
    """
    if type(names) is not dict or sys.implementation.name != "cpython":
        return False
    tried = {f"name {i}": i for i in range(100)}
    number = ctypes.c_uint64.from_address(id(tried) + _COUNTER)
    seen = [number.value]
    for change in (
        lambda: tried.update({"name 7": -1}),
        lambda: tried.pop("name 8"),
        lambda: tried.setdefault("another", 1),
        lambda: tried.__setitem__("name 9", -1),
        tried.clear,
    ):
        change()
        seen.append(number.value)
    return len({*seen}) == len(seen)


def _values(now: Mapping[str, Any]) -> list[Any]:
    return list(now.values())


def _tables() -> list[_Table]:
    watched: list[Any] = [module for name, module in sys.modules.items() if _WATCHED.fullmatch(name)]
    for where, _, name in (one.rpartition(".") for one in _CLASSES):
        watched += [getattr(sys.modules[where], name)] if where in sys.modules else []
    return [
        _Table(vars(sys), partial(setattr, sys), _OF_SYSTEM),
        *(_Table(vars(one), partial(setattr, one)) for one in watched),
        _Table(vars(warnings), partial(setattr, warnings), _OF_WARNINGS),
        *(_Table(one, one.__setitem__) for one in _DICTS),
    ]


def _addresses() -> bytes | None:
    """Return where the variables of the environment are: one that changes moves. None where that is not to be had."""
    try:
        where = ctypes.POINTER(ctypes.c_void_p).in_dll(_C, "environ")
    except ValueError:
        return None
    return ctypes.string_at(where, 8 * (len(os.environ) + 1)) if where else b""  # up to the null at their end


def _mask() -> int:
    mask = os.umask(0o22)
    os.umask(mask)
    return mask


def _limits() -> list[tuple[int, int]]:
    return [resource.getrlimit(one) for one in _LIMITS]


def _handles() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


def _opened(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except OSError:
        return -1


def _read(handle: int) -> bytes:
    try:
        return os.pread(handle, 8192, 0)  # what the system says now; opening it each time takes as long again
    except OSError:
        return b""


def _kernel(status: int, timers: int) -> tuple[object, ...]:
    """Return what the system knows of this process: user, rights, signals as they truly are, timers."""
    found = _KERNEL.findall(_read(status))
    caught = [int(line[7:], 16) & ~_OF_THREADS if line.startswith(b"SigCgt") else line for line in found]
    return *caught, _read(timers)


def _streams() -> list[object]:
    """Return what the streams are, as far as nobody can put them back."""
    found: list[object] = []
    for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__):
        if stream is not None:
            found += [stream.closed, stream.encoding, stream.errors, getattr(stream, "line_buffering", None)]
    with suppress(OSError):
        about = os.fstat(0)
        found += [stat.S_IFMT(about.st_mode), about.st_rdev, os.get_blocking(0)]
    return found


def _tracing(value: tuple[Any, Any]) -> None:
    sys.settrace(value[0])
    sys.setprofile(value[1])


def _thread_tracing(value: tuple[Any, Any]) -> None:
    threading.settrace(value[0])
    threading.setprofile(value[1])


def _arithmetic() -> tuple[int, ...]:
    """Return how the processor rounds, what it makes of tiny numbers, and what it stops at."""
    if platform.machine() != "x86_64":
        return (_rounding(),)
    _C.fegetenv(_ENV)
    return _ENV[0] & 0x0F3F, _ENV[7] & 0xFFC0  # control words of the old unit and of the new, without flags


def _set_arithmetic(value: tuple[int, ...]) -> None:
    if len(value) == 1:
        getattr(_C, "fesetround", lambda _: None)(value[0])
        return
    _C.fegetenv(_ENV)
    _ENV[0] = _ENV[0] & ~0x0F3F | value[0]
    _ENV[7] = _ENV[7] & ~0xFFC0 | value[1]
    _C.fesetenv(_ENV)


_ENV = (ctypes.c_uint32 * 8)()
_rounding: Callable[[], int] = getattr(_C, "fegetround", lambda: 0)
_LISTS: list[list[Any]] = [sys.path, sys.meta_path, sys.path_hooks, gc.callbacks, logging.root.handlers]
_DICTS: list[Any] = [copyreg.dispatch_table, np.typecodes]
_VALUES: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
    (_arithmetic, _set_arithmetic),
    (
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        lambda value: signal.pthread_sigmask(signal.SIG_SETMASK, value),
    ),
    (lambda: logging.root.manager.disable, logging.disable),
    (lambda: logging.root.level, logging.root.setLevel),
    (lambda: logging.getLogger("tamis").level, lambda value: logging.getLogger("tamis").setLevel(value)),
    (
        lambda: getattr(logging, "_warnings_showwarning", None) is not None,
        logging.captureWarnings,
    ),
    (lambda: tempfile.tempdir, lambda value: setattr(tempfile, "tempdir", value)),
    (lambda: (time.tzname, time.localtime(0)), lambda _: time.tzset()),
    (np.geterr, lambda value: np.seterr(**value)),
    (np.geterrcall, np.seterrcall),
    (np.getbufsize, np.setbufsize),
    (np.get_printoptions, lambda value: np.set_printoptions(**value)),
    (np.random.get_bit_generator, np.random.set_bit_generator),  # type: ignore[attr-defined]
    (lambda: decimal.getcontext().copy().__reduce__(), lambda value: decimal.setcontext(value[0](*value[1]))),
    (lambda: decimal.DefaultContext.prec, lambda value: setattr(decimal.DefaultContext, "prec", value)),
    (lambda: locale.setlocale(locale.LC_ALL), lambda value: locale.setlocale(locale.LC_ALL, value)),
    (lambda: codecs.lookup_error("strict"), lambda value: codecs.register_error("strict", value)),
    (csv.field_size_limit, csv.field_size_limit),
    (socket.getdefaulttimeout, socket.setdefaulttimeout),
    (
        lambda: multiprocessing.get_start_method(allow_none=True),
        lambda value: multiprocessing.set_start_method(value, force=True),
    ),
    (
        lambda: getattr(os, "sched_getaffinity", lambda _: None)(0),
        lambda value: os.sched_setaffinity(0, value),
    ),
    (sys.getrecursionlimit, sys.setrecursionlimit),
    (sys.getswitchinterval, sys.setswitchinterval),
    (sys.get_int_max_str_digits, sys.set_int_max_str_digits),
    (sys.getdlopenflags, sys.setdlopenflags),
    (sys.get_asyncgen_hooks, lambda value: sys.set_asyncgen_hooks(*value)),
    (sys.get_coroutine_origin_tracking_depth, sys.set_coroutine_origin_tracking_depth),
    (threading.stack_size, threading.stack_size),
    (gc.isenabled, lambda value: gc.enable() if value else gc.disable()),
    (gc.get_threshold, lambda value: gc.set_threshold(*value)),
    (gc.get_debug, gc.set_debug),
    (lambda: gc.get_freeze_count() > 0, lambda value: None if value else gc.unfreeze()),
    (tracemalloc.is_tracing, lambda value: tracemalloc.start() if value else tracemalloc.stop()),
    (
        faulthandler.is_enabled,
        lambda value: faulthandler.enable(all_threads=False) if value else faulthandler.disable(),
    ),
    (lambda: (sys.gettrace(), sys.getprofile()), _tracing),
    (lambda: (threading.gettrace(), threading.getprofile()), _thread_tracing),
]
