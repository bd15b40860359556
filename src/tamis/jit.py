"""The one module that calls the compiler.

Numba's disk cache notices a change in the file of the compiled function, not in the files of the functions it
calls; a stale hit would silently return the numbers of yesterday's code. And it notices a comment: a function is known
there by the bytes of its file and by its line. So every kernel is compiled through `kernel`, whose cache is a folder
named by a hash of the code of its file and of every file that this one imports (`families.code_hash`), with Numba's
version, this file and ``simd.py``. A changed line in any of them is another folder, so that a stale hit cannot happen;
a comment, or a line in a file that the kernel does not import, changes nothing.

A hash is that of files, and what is compiled is what was loaded: a file that is edited in a running session would
have its old code kept under the hash of the new. So the code of each file is noted when it is loaded, and where one of
those behind a kernel has changed since, the kernel is compiled for this process alone.

No ``fastmath`` and no ``parallel``: both trade reproducibility for speed that a campaign already gets by
running points side by side. Kernels release the interpreter lock, so a batch may be split over threads.

What a first run waits for
--------------------------
Numba compiles every function it meets to the end, with an entry through which Python can call it, and then once more
as a part of each caller. What only kernels call is therefore marked `inner`: it has no such entry, it is compiled
once whether a number is handed to it as a constant or not, and it does not go to disk, where nobody would ask for
it. That is a fifth of the time. Nor is it optimised or turned into machine code by itself, but only in the kernel that
it becomes part of (`_Part`), which is another fifth. A number that is written in a call, or named in capitals, has a
type of its own, for which Numba would compile a kernel once more; it is told that it is a number, which is a tenth.
Python's garbage collector goes again and again through the hundreds of thousands of objects that Numba works with and
finds next to nothing: it waits meanwhile, an eighth. Lower levels of optimisation, no vectorisation and no counting of
references save less than a tenth each, if anything, and were left alone.

A kernel that another one calls is linked into it, and all of it is optimised and turned into machine code again: what
lies four calls deep is made four times. A large stage that not every run needs is therefore called by its `Address`:
it is compiled by itself, once, when a run first asks for it, and the caller stays small. Such a call takes 5 ns.

Processes that need the same kernels at the same time wait for the one that came first, and then find them: it would
take each of them as long, and Numba's index of a function is not made for two that write different types into it.

LLVM could also join the scalar operations of a line into vectors (SLP). That takes a fifth to a third off the solvers
of contact problems and returns the same bits, but Numba keeps it off since it was found to miscompile
(numba/numba#8852), and so it is off here.
"""

from __future__ import annotations

import fcntl
import gc
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import numba.experimental.function_type  # registers addresses as values
from numba.core import caching, codegen
from numba.core import types as _types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.typing.templates import signature
from numba.extending import register_jitable, typeof_impl

from tamis.families import cache_folder, closure, code_hash, own_code

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: Any = {
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,  # an entry for C that nobody uses, and a twentieth of the time to compile
}
_COMPILER = (Path(__file__), Path(__file__).with_name("simd.py"))  # what kernels are compiled by
_KEEP_SECONDS = 30 * 86400.0
_OURS = re.compile(r"[\w.-]+-[0-9a-f]{16}")  # folders of compiled files
_held: set[Path] = set()  # the caches that this process holds
_compiling: list[str] = []  # what is being compiled, outermost first
_listeners: list[Callable[[str], None]] = []
_addresses: dict[Callable[..., Any], Address] = {}
_loaded: dict[Path, str] = {}  # hash of the code of each compiled file, when it was loaded


def kernel(function: F, **options: Any) -> F:
    """Compile a function over plain numbers and arrays, cached on disk under a hash of the code behind it."""
    _note_loaded(function)
    compiled: Any = numba.njit(**(_OPTIONS | options))(function)
    if not hasattr(compiled, "get_call_template"):  # compilation is switched off
        return function
    compiled._cache = _Cache(function)  # type: ignore[no-untyped-call]
    template, build = compiled.get_call_template, compiled.compile
    folder = _folder(Path(function.__code__.co_filename))
    number: Any = _types.unliteral

    def plain(args: Any, kws: dict[str, Any]) -> Any:
        return template(tuple(map(number, args)), {name: number(given) for name, given in kws.items()})

    def build_alone(signature: Any) -> Any:
        with _alone(folder), _sparingly(), _noted(f"{function.__module__}.{function.__name__}"):
            return build(signature)

    compiled.get_call_template, compiled.compile = plain, build_alone
    return compiled  # type: ignore[no-any-return]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a file's cache while something is looked up in it or compiled into it; others wait, then find it there.

    Files are held in the order of their imports, which go in no circle, so that no two processes wait for each other.
    """
    with (
        global_compiler_lock
    ):  # which the compiler takes too: one lock of our own beside it would be one too many
        if folder in _held:
            yield
            return
        with ExitStack() as until_then:
            with suppress(OSError):  # a disk without locks: compile side by side
                handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
                until_then.callback(os.close, handle)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    _say(f"waiting for another process that compiles {folder.name.rpartition('-')[0]}")
                    fcntl.flock(handle, fcntl.LOCK_EX)
                until_then.callback(fcntl.flock, handle, fcntl.LOCK_UN)  # though a fork may have a copy of it
            _held.add(folder)
            until_then.callback(_held.discard, folder)
            yield


def watch(tell: Callable[[str], None]) -> None:
    """Have ``tell`` called with what is being compiled, and when another process that compiles is waited for."""
    _listeners[:] = [tell]


def _say(what: str) -> None:
    for tell in _listeners:
        tell(what)


@contextmanager
def _noted(name: str) -> Iterator[None]:
    """Note what is being compiled, and within what."""
    _compiling.append(name)
    try:
        yield
    finally:
        _compiling.pop()


def apart(function: F) -> F:
    """Compile a function as `kernel` does, to be called by its `Address`."""
    return kernel(function, no_cfunc_wrapper=False)


class Address(_types.WrapperAddressProtocol):
    """The place of a function made by `apart`, as a value that kernels take among their arguments and call.

    It is compiled for arguments like the examples by `compile`, or before in this process; until then nobody may call.
    """

    @classmethod
    def of(cls, function: Callable[..., Any], returns: Any, *examples: Any) -> Address:
        """Return the one address of a function that is always called with arguments of the same types."""
        if function not in _addresses:
            _addresses[function] = cls(function, returns, *examples)
        return _addresses[function]

    def __init__(self, function: Callable[..., Any], returns: Any, *examples: Any) -> None:
        self._function = function
        typeof: Any = numba.typeof
        self._signature: Any = signature(typeof(returns), *map(typeof, examples))  # type: ignore[no-untyped-call]
        self.type = _types.FunctionType(self._signature)
        self._place = self._found()

    def _found(self) -> int:
        made = getattr(self._function, "overloads", {}).get(self._signature.args)
        if made is None:
            return -1
        return int(made.library.get_pointer_to_function(made.fndesc.llvm_cfunc_wrapper_name))

    @property
    def ready(self) -> bool:
        """Whether it may be called."""
        return self._place > 0 or not hasattr(self._function, "overloads")  # compilation is switched off

    def compile(self) -> Address:
        """Compile it, or load what was compiled before."""
        if not self.ready:
            self._function.compile(self._signature.args)  # type: ignore[attr-defined]
            self._place = self._found()
        return self

    def __call__(self, *args: Any) -> Any:
        """Call it from Python."""
        return self._function(*args)

    def __wrapper_address__(self) -> int:
        return self._place

    def signature(self) -> Any:
        """Return the types of its arguments and of what it returns."""
        return self._signature


@typeof_impl.register(Address)
def _type_of_address(address: Address, _: Any) -> Any:
    return address.type  # Numba would make one in every call


def inner(function: F) -> F:
    """Compile a function into the kernels that call it; called from Python it stays Python."""
    _note_loaded(function)
    return register_jitable(**_OPTIONS)(function)


def inlined(function: F) -> F:
    """Compile a function as `inner` does, and always into its callers: a few lines over many arrays, hot ones.

    A call hands over every number of every array, and takes as long as such lines do.
    """
    _note_loaded(function)
    return register_jitable(**_OPTIONS, forceinline=True)(function)


def _note_loaded(function: Callable[..., Any]) -> None:
    """Note the code of a file while it is being loaded."""
    file = Path(function.__code__.co_filename)
    code = own_code(file)
    if _loaded.get(file, code) != code:  # loaded again, edited
        _folder.cache_clear()
    _loaded[file] = code


class _Part(codegen.JITCodeLibrary):
    """Code that others link in; it becomes machine code only where it can be called from outside."""

    def _is_entry(self) -> bool:
        names = [f.name for f in self._final_module.functions if not f.is_declaration]
        loaded = not names  # from disk, as machine code
        return loaded or any("cpython" in name[:12] or name.startswith("cfunc.") for name in names)

    def _optimize_final_module(self) -> None:
        if self._is_entry():
            super()._optimize_final_module()  # type: ignore[no-untyped-call]

    def _finalize_final_module(self) -> None:
        if self._is_entry():
            super()._finalize_final_module()  # type: ignore[no-untyped-call]
        else:
            self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
            self._finalized = True


@contextmanager
def _sparingly() -> Iterator[None]:
    """Compile without machine code that nobody calls, and without garbage collection; the compiler's lock is held."""
    makes = cpu_target.target_context.codegen()
    usual, collects = makes._library_class, gc.isenabled()

    def set_environment(name: str, environment: Any) -> None:
        if makes._engine.is_symbol_defined(name):  # not that of a part
            type(makes).set_env(makes, name, environment)

    makes._library_class, makes.set_env = _Part, set_environment
    gc.disable()
    try:
        yield
    finally:
        makes._library_class = usual
        if usual is not _Part:
            del makes.set_env
        if collects:
            gc.enable()


class _Locator(caching._CacheLocator):
    """Where the compiled form of a function is: told by the code behind it, not by its file's date or its line."""

    def __init__(self, file: str) -> None:
        self._py_file, self._kept_in = file, _folder(Path(file))

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _Locator:
        return cls(py_file)

    def get_cache_path(self) -> str:
        return str(self._kept_in)

    def get_source_stamp(self) -> str:
        return self._kept_in.name

    def get_disambiguator(self) -> str:
        return ""  # functions of one file have different names


class _Kept(caching.CompileResultCacheImpl):
    _locator_classes = [_Locator]  # type: ignore[list-item] # noqa: RUF012


class _Cache(caching.FunctionCache):
    _impl_class = _Kept

    def load_overload(self, signature: Any, context: Any) -> Any:
        found = super().load_overload(signature, context)  # type: ignore[no-untyped-call]
        if found is None and len(_compiling) == 1:  # not a part of another
            _say(f"compiling {_compiling[0]}, once on this machine")
        return found


@lru_cache
def _folder(file: Path) -> Path:
    """Return the folder of what is compiled of a file."""
    said = "".join([numba.__version__, *map(code_hash, _COMPILER), code_hash(file)])
    name = f"{file.parent.name}.{file.stem}-{hashlib.sha256(said.encode()).hexdigest()[:16]}"
    folder = _root() / name
    if any(_loaded.get(other, code) != code for other, code in closure(file).items()):
        folder = Path(tempfile.mkdtemp(prefix="tamis-")) / name
    try:
        folder.mkdir(exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        os.utime(folder)
    except OSError:  # of another user, or gone meanwhile: compile anew rather than fail
        folder = Path(tempfile.mkdtemp(prefix="tamis-")) / name
        folder.mkdir()
    return folder


@lru_cache
def _root() -> Path:
    """Return where compiled files are kept, and remove there what nobody has asked for in a month."""
    root = cache_folder() / "kernels"
    try:
        root.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=root).close()
    except OSError:  # a home that cannot be written: compile anew in each process rather than fail
        return Path(tempfile.mkdtemp(prefix="tamis-"))
    for old in root.iterdir():
        with suppress(OSError):
            if _OURS.fullmatch(old.name) and time.time() - old.stat().st_mtime > _KEEP_SECONDS:
                shutil.rmtree(old, ignore_errors=True)
    return root
