# ruff: noqa: NPY002, SIM115
"""A model that says what world it finds, then leaves something behind for the next run of its process."""

from __future__ import annotations

import asyncio
import atexit
import builtins
import codecs
import contextlib
import contextvars
import copyreg
import csv
import ctypes
import decimal
import faulthandler
import gc
import hashlib
import io
import json
import locale
import logging
import multiprocessing
import os
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
import types
import warnings

import numpy as np
import threadpoolctl

import tamis

_STARTED = threading.active_count()


def _thread() -> None:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


def _warn() -> None:
    warnings.simplefilter("error")


def _close() -> None:
    for handle in (0, 1, 2):
        os.close(handle)


def _open_many() -> None:
    globals()["_handles"] = [os.open(os.devnull, os.O_RDONLY) for _ in range(200)]


def _trace() -> None:
    sys.settrace(lambda *_: None)
    sys.setprofile(lambda *_: None)


def _locale() -> None:
    with contextlib.suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, "C.UTF-8")


def _limit(which: int, soft: int) -> None:
    resource.setrlimit(which, (soft, resource.getrlimit(which)[1]))


def _raise_at_exit() -> None:
    atexit.register(lambda: 1 / 0)


def _temporary() -> None:
    tempfile.tempdir = "/nowhere"


def _mask_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM})


def _lose_folder() -> None:
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)


def _rounding() -> None:
    ctypes.CDLL(None).fesetround(0x400)  # downward


def _tiny_is_zero() -> None:
    library, state = ctypes.CDLL(None), (ctypes.c_uint32 * 8)()
    library.fegetenv(state)
    state[7] |= 0x8040
    library.fesetenv(state)


def _zone() -> None:
    os.environ["TZ"] = "XYZ+7"
    time.tzset()
    del os.environ["TZ"]


def _alarm_of_the_system() -> None:
    library = ctypes.CDLL(None)
    event = struct.pack("Pii48x", 0, signal.SIGUSR1, 0)
    timer = ctypes.c_void_p()
    library.timer_create(1, event, ctypes.byref(timer))
    library.timer_settime(timer, 0, (ctypes.c_long * 4)(0, 0, 60, 0), None)


def _zombie() -> None:
    if os.fork() == 0:
        os._exit(0)


class _Refuses:
    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "colorsys":
            raise ImportError(name)


def _unhook() -> None:
    sys.path_hooks.clear()
    sys.path_importer_cache.clear()
    sys.modules.pop("colorsys", None)


NOTED = contextvars.ContextVar("NOTED", default=0)

HOWS = {
    "nothing": lambda: None,
    "seterr": lambda: np.seterr(all="raise"),
    "errcall": lambda: np.seterrcall(lambda *_: None),
    "bufsize": lambda: np.setbufsize(8192 * 4),
    "printoptions": lambda: np.set_printoptions(precision=2),
    "itimer": lambda: signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05),
    "virtual": lambda: signal.setitimer(signal.ITIMER_VIRTUAL, 0.01, 0.01),
    "prof": lambda: signal.setitimer(signal.ITIMER_PROF, 0.01, 0.01),
    "alarm": lambda: signal.alarm(1),
    "handler": lambda: signal.signal(signal.SIGALRM, lambda *_: None),
    "ignored": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "interrupt": lambda: signal.signal(signal.SIGINT, lambda *_: os._exit(3)),
    "masked signals": _mask_signals,
    "folder": lambda: os.chdir("/"),
    "lost folder": _lose_folder,
    "environment": lambda: os.environ.update(POISON="1"),
    "less environment": lambda: os.environ.pop("PATH", None),
    "umask": lambda: os.umask(0o777),
    "seed": lambda: np.random.seed(7),
    "drawn": lambda: np.random.random(1000),
    "python seed": lambda: random.seed(7),
    "python drawn": random.random,
    "warnings": _warn,
    "path": lambda: sys.path.insert(0, "/nowhere"),
    "recursion": lambda: sys.setrecursionlimit(200),
    "switch": lambda: sys.setswitchinterval(1.0),
    "decimal": lambda: setattr(decimal.getcontext(), "prec", 3),
    "locale": _locale,
    "socket": lambda: socket.setdefaulttimeout(0.001),
    "collector": gc.disable,
    "trace": _trace,
    "thread": _thread,
    "nice": lambda: os.nice(5),
    "files": lambda: _limit(resource.RLIMIT_NOFILE, 32),
    "file size": lambda: _limit(resource.RLIMIT_FSIZE, 10),
    "processor": lambda: _limit(resource.RLIMIT_CPU, 10_000),
    "builtins": lambda: setattr(builtins, "sum", lambda *_: 0),
    "closed": _close,
    "opened": _open_many,
    "child": lambda: subprocess.Popen(["sleep", "60"]),
    "stdout": lambda: setattr(sys, "stdout", open(os.devnull, "w")),
    "at exit": _raise_at_exit,
    "fault": faulthandler.disable,
    "logging": lambda: logging.disable(logging.CRITICAL),
    "temporary": _temporary,
    "loop": lambda: asyncio.set_event_loop(asyncio.new_event_loop()),
    "rounding": _rounding,
    "hooks": lambda: setattr(sys, "excepthook", lambda *_: os._exit(9)),
    "numpy patched": lambda: setattr(np, "sum", lambda *_: 42.0),
    "linear algebra patched": lambda: setattr(np.linalg, "solve", lambda *_: np.zeros(2)),
    "json patched": lambda: setattr(json, "dumps", lambda *_, **__: "{}"),
    "folder patched": lambda: setattr(os, "getcwd", lambda: "/nowhere"),
    "writing patched": lambda: setattr(os, "pwrite", lambda *_: 1 / 0),
    "clock patched": lambda: setattr(time, "perf_counter", lambda: 0.0),
    "drawing patched": lambda: setattr(random, "random", lambda: 0.5),
    "recording patched": lambda: setattr(sys.modules["tamis.runs.worker"], "conclude", None),
    "class patched": lambda: setattr(json.JSONEncoder, "encode", lambda *_: "{}"),
    "import patched": lambda: setattr(builtins, "__import__", None),
    "more builtins": lambda: setattr(builtins, "spoiled", True),
    "generator": lambda: np.random.set_bit_generator(np.random.PCG64(1)),
    "putenv": lambda: os.putenv("POISON", "1"),
    "environment replaced": lambda: setattr(os, "environ", {}),
    "zone": _zone,
    "tiny": _tiny_is_zero,
    "input": lambda: setattr(sys, "stdin", io.StringIO("poison")),
    "output closed": lambda: sys.stdout.close(),
    "importer": lambda: (sys.modules.pop("colorsys", None), sys.meta_path.insert(0, _Refuses)),
    "no importers": _unhook,
    "module removed": lambda: [sys.modules.pop(name) for name in ("json", "tamis.runs.segments")],
    "module made up": lambda: sys.modules.update(colorsys=types.ModuleType("colorsys")),
    "module replaced": lambda: sys.modules.update(json=types.ModuleType("json")),
    "digits": lambda: sys.set_int_max_str_digits(640),
    "context": lambda: NOTED.set(1),
    "fields": lambda: csv.field_size_limit(10),
    "pickle": lambda: copyreg.pickle(complex, lambda _: (complex, (0.0,))),
    "encoding": lambda: codecs.register_error("strict", lambda error: ("?", error.end)),
    "start method": lambda: multiprocessing.set_start_method("spawn", force=True),
    "allocations": lambda: tracemalloc.start(),
    "traced threads": lambda: threading.settrace(lambda *_: None),
    "collections": lambda: (gc.set_threshold(1, 1, 1), gc.callbacks.append(lambda *_: None), gc.freeze()),
    "handlers": lambda: logging.basicConfig(level=logging.DEBUG, force=True),
    "arguments": lambda: setattr(sys, "argv", ["poison"]),
    "threads of linear algebra": lambda: threadpoolctl.threadpool_limits(2),
    "processors": lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
    "zombie": _zombie,
    "real-time signal": lambda: signal.signal(signal.SIGRTMIN + 3, lambda *_: None),
    "signal of the system": lambda: ctypes.CDLL(None).signal(signal.SIGUSR1, ctypes.c_void_p(1)),
    "alarm of the system": _alarm_of_the_system,
    "itself": lambda: setattr(poison, "version", "another"),
}


def _dead() -> int:
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(-1, os.WNOHANG)[0]
    return 0


def _world() -> dict[str, object]:
    """Say what a run might meet."""
    mask = os.umask(0o22)
    os.umask(mask)
    import colorsys
    import json as again

    handlers = [str(signal.getsignal(s)) for s in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT)]
    return {
        "errors": [np.geterr(), str(np.geterrcall()), np.getbufsize(), np.get_printoptions()["precision"]],
        "timers": [
            signal.getitimer(t)[0] for t in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
        ],
        "signals": [handlers, sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))],
        "folder": os.getcwd(),
        "environment": [k for k in sorted(os.environ) if k not in ("TAMIS_CHILD",)],
        "mask": mask,
        "random": [float(np.random.random()), random.random()],
        "warnings": [str(w[:2]) for w in warnings.filters],
        "python": [sys.path, sys.getrecursionlimit(), sys.getswitchinterval(), gc.isenabled(), sum([1, 2])],
        "hooks": [str(sys.gettrace()), str(sys.getprofile()), sys.excepthook is sys.__excepthook__],
        "decimal": decimal.getcontext().prec,
        "locale": locale.setlocale(locale.LC_ALL),
        "socket": socket.getdefaulttimeout(),
        "threads": threading.active_count() - _STARTED,
        "process": [os.nice(0), ctypes.CDLL(None).fegetround()],
        "limits": [
            resource.getrlimit(r)
            for r in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU)
        ],
        "patched": [
            float(np.sum([1.0, 2.0])),
            float(np.linalg.solve(np.eye(1), [3.0])[0]),
            json.JSONEncoder().encode([1]),
            json.dumps([1]),
            time.perf_counter() > 0.0,
            hasattr(builtins, "spoiled"),
            os.pwrite.__name__,
            hasattr(colorsys, "rgb_to_hsv"),
            hasattr(again, "dumps"),
            "tamis.runs.segments" in sys.modules,
        ],
        "arithmetic": float(np.float64(1e-310) / 10.0),
        "variables": "POISON=1" in subprocess.run(["env"], capture_output=True, text=True).stdout,
        "zone": time.localtime(0)[:5],
        "streams": [sys.stdin.read(), sys.stdout.closed, sys.argv],
        "limits of Python": [sys.get_int_max_str_digits(), csv.field_size_limit(), NOTED.get()],
        "tracing": [
            str(threading.gettrace()),
            tracemalloc.is_tracing(),
            multiprocessing.get_start_method(True),
        ],
        "collector": [gc.get_threshold(), len(gc.callbacks), gc.get_freeze_count()],
        "handlers": [len(logging.root.handlers), str(signal.getsignal(signal.SIGRTMIN + 3))],
        "copies": [complex in copyreg.dispatch_table and str(copyreg.dispatch_table[complex].__name__)],
        "encoding": codecs.lookup_error("strict").__name__,
        "processors": sorted(os.sched_getaffinity(0)),
        "linear algebra": [found["num_threads"] for found in threadpoolctl.threadpool_info()],
        "dead": _dead(),
        "true signals": [line for line in open("/proc/self/status") if line.startswith("SigIgn")],
        "alarms of the system": open("/proc/self/timers").read()
        if os.path.exists("/proc/self/timers")
        else "",
        "threads that Python does not name": len(sys._current_frames()) - threading.active_count(),
        "logging": logging.root.manager.disable,
        "temporary": tempfile.tempdir,
    }


@tamis.simulator(outputs={"world": ""}, inputs={"how": tamis.Port("how", choices=tuple(HOWS))})
def poison(*, how: str = "nothing", number: float = 0.0):
    text = json.dumps(_world(), sort_keys=True)
    said = os.environ.get("POISON_LOG")
    if said:
        with open(said, "a") as file:
            file.write(f"{how} {number} {text}\n")
    HOWS[how]()
    digest = hashlib.sha256(text.encode()).digest()[:8]
    return {"world": np.frombuffer(digest, dtype=np.uint32).astype(float)}
