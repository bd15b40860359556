# ruff: noqa: NPY002, SIM115
"""A model that says what world it finds, then leaves something behind for the next run of its process."""

from __future__ import annotations

import asyncio
import atexit
import builtins
import contextlib
import ctypes
import decimal
import faulthandler
import gc
import hashlib
import json
import locale
import logging
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings

import numpy as np

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
}


def _world() -> dict[str, object]:
    """Say what a run might meet."""
    mask = os.umask(0o22)
    os.umask(mask)
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
        "children": len(os.listdir("/proc/self/task")) - threading.active_count(),
        "logging": logging.root.manager.disable,
        "temporary": tempfile.tempdir,
    }


def changed(a: dict, b: dict) -> list[str]:
    return [name for name in a if a[name] != b[name]]


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
