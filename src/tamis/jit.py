"""The one door to the compiler.

Numba's disk cache notices a change in the file of the compiled function, not in the files of the functions it
calls; a stale hit would silently return the numbers of yesterday's code. So every kernel is compiled through
`kernel`, which points the cache at a folder named by a hash of all the sources the kernel can reach: its
family, ``sim/common`` and this file. A changed line anywhere in them is another folder, and a stale hit
cannot happen.

No ``fastmath`` and no ``parallel``: both trade reproducibility for speed that a campaign already gets by
running points side by side. Kernels release the interpreter lock, so a batch may be split over threads.

What a first run waits for
--------------------------
Numba compiles every function it meets to the end, with a door through which Python can call it, and then once more
as a part of each caller. What only kernels call is therefore marked `inner`: it has no such door, it is compiled
once whether a number is handed to it as a constant or not, and it does not go to disk, where nobody would ask for
it. That is a fifth of the time. A number that is written in a call, or named in capitals, has a type of its own, for
which Numba would compile a kernel once more; it is told that it is a number, which is a tenth. Lower levels of
optimisation, no vectorisation, no counting of references and no garbage collection meanwhile save less than a tenth
each, if anything, and were left alone.

Processes that need the same kernels at the same time wait for the one that came first, and then find them: it would
take each of them as long, and Numba's index of a function is not made for two that write different types into it.

LLVM could also join the scalar operations of a line into vectors (SLP). That takes a fifth to a third off the solvers
of contact problems and returns the same bits, but Numba keeps it off since it was found to miscompile
(numba/numba#8852), and so it is off here.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import config as _config
from numba.core import types as _types
from numba.extending import register_jitable

F = TypeVar("F", bound=Callable[..., Any])

_SIM = Path(__file__).parent / "sim"
_OPTIONS: Any = {
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,  # a door for C that nobody uses, and a twentieth of the time to compile
}
_KEEP_SECONDS = 30 * 86400.0
_threads = threading.RLock()
_held: set[Path] = set()  # the families whose caches this process holds


def kernel(function: F) -> F:
    """Compile a function over plain numbers and arrays, cached on disk under a hash of its family's sources."""
    folder = _cache_folder(Path(function.__code__.co_filename).parent)
    config: Any = _config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder)
    try:
        compiled: Any = numba.njit(cache=True, **_OPTIONS)(function)
    finally:
        config.CACHE_DIR = before
    if not hasattr(compiled, "get_call_template"):  # compilation is switched off
        return function
    template, build = compiled.get_call_template, compiled.compile
    number: Any = _types.unliteral

    def plain(args: Any, kws: dict[str, Any]) -> Any:
        return template(tuple(map(number, args)), {name: number(given) for name, given in kws.items()})

    def build_alone(signature: Any) -> Any:
        with _alone(folder):
            return build(signature)

    compiled.get_call_template, compiled.compile = plain, build_alone
    return compiled  # type: ignore[no-any-return]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a family's cache while something is looked up in it or compiled into it; others wait, then find it there."""
    with _threads:
        if folder in _held:
            yield
            return
        with ExitStack() as until_then:
            with suppress(OSError):  # a disk without locks: compile side by side
                handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
                until_then.callback(os.close, handle)
                fcntl.flock(handle, fcntl.LOCK_EX)
            _held.add(folder)
            until_then.callback(_held.discard, folder)
            yield


def inner(function: F) -> F:
    """Compile a function into the kernels that call it; called from Python it stays Python."""
    return register_jitable(**_OPTIONS)(function)


def family_hash(folder: Path) -> str:
    """Hash every source a kernel in this folder may call; recorded with each run, for information."""
    sources = sorted({*folder.glob("*.py"), *(_SIM / "common").glob("*.py"), Path(__file__)})
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sources:
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def is_cold(folder: Path) -> bool:
    """Say whether nothing of a family has been compiled on this machine yet."""
    return not any(_cache_folder(folder).rglob("*.nbc"))


@lru_cache
def _cache_folder(family: Path) -> Path:
    folder = _root() / f"{family.name}-{family_hash(family)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
    except OSError:  # a home that cannot be written: compile anew in each process rather than fail
        return Path(tempfile.mkdtemp(prefix="tamis-"))
    for old in folder.parent.glob(f"{family.name}-*"):
        if old != folder and time.time() - old.stat().st_mtime > _KEEP_SECONDS:
            shutil.rmtree(old, ignore_errors=True)
    return folder


def _root() -> Path:
    """Return the folder of compiled kernels: ``TAMIS_CACHE``, or tamis in the user's cache folder."""
    chosen = os.environ.get("TAMIS_CACHE")
    return (
        Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tamis"
    )
