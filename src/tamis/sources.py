"""What lies behind a Python file: its own syntax tree and those of all the files of its author that it imports.

A run is known by what made it, so an edited file anywhere behind a simulator has to be seen: imported by name or
relatively, from beside the file, from its package or from any folder on the path, in the middle of a function, or by
``import_module`` of a plain string; a compiled module by its bytes. What is installed with the interpreter or under
``site-packages`` is another author's and is not followed, unless the file itself is there: then its own package is.
What no import shows (a library opened by ctypes, a table read at run time) has to be an input of kind "file", or told
by a version of its own.

Comments and layout do not count. Nothing is imported here: names are looked up among files, and only for the first
part of a name on the interpreter's path.
"""

from __future__ import annotations

import ast
import hashlib
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from pathlib import Path
from typing import TypeAlias, TypeVar

from tamis.errors import StudyError

T = TypeVar("T")
Imported: TypeAlias = Sequence[
    tuple[int, str]
]  # how many folders up a name is looked for, 0 for none; the name

_PACKAGE = Path(__file__).parent.resolve()


def source_hash(path: Path) -> str:
    """Hash a file and everything of its author that it imports."""
    digest = hashlib.sha256()
    for code in sorted(reached(path, _code_and_imports).values()):  # the same wherever the folders lie
        digest.update(code)
    return digest.hexdigest()


def sources(path: Path) -> dict[str, str]:
    """Return the files behind a Python file, each under its name as seen from there, with a hash of what it says."""
    path = path.resolve()
    return {
        str(source.relative_to(path.parent))
        if source.is_relative_to(path.parent)
        else str(source): hashlib.sha256(said).hexdigest()
        for source, said in sorted(reached(path, _code_and_imports).items())
    }


def reached(path: Path, read: Callable[[Path, bytes], tuple[T, Imported]]) -> dict[Path, T]:
    """Follow the imports of a file; ``read`` returns what is wanted of each file and what it imports."""
    path = path.resolve()
    found: dict[Path, T] = {}
    waiting = [path]
    while waiting:
        source = waiting.pop()
        if source in found:
            continue
        found[source], names = read(source, source.read_bytes())
        for level, name in names:
            folders = [_above(source.parent, level)] if level else _roots(path.parent, source, name)
            waiting += [
                near for folder in folders for near in _below(folder, name) if not _index(source, near)
            ]
    return found


def _index(source: Path, near: Path) -> bool:
    """Return whether a file is a list of names for users; modules of tamis import them from where they stand.

    A kernel would be compiled anew else whenever anything in its folder changes.
    """
    return near.name == "__init__.py" and all(file.is_relative_to(_PACKAGE) for file in (source, near))


def parsed(source: Path, content: bytes) -> ast.Module | None:
    """Return the syntax tree of a file; None where it is compiled."""
    if source.name.endswith(tuple(EXTENSION_SUFFIXES)):
        return None
    try:
        return ast.parse(content)
    except (SyntaxError, ValueError) as error:
        raise StudyError(f"{source.name} is not valid Python: {error}") from error


def _code_and_imports(source: Path, content: bytes) -> tuple[bytes, Imported]:
    """Return what a file says: its syntax tree, or its bytes where it is compiled."""
    tree = parsed(source, content)
    return (content, []) if tree is None else (dump(tree).encode(), list(imported(tree)))


def dump(tree: ast.Module) -> str:
    """Write a syntax tree in the same way whatever the version of Python, or another one would make all runs anew."""
    more: dict[str, bool] = {"show_empty": True} if sys.version_info >= (3, 13) else {}
    return ast.dump(tree, **more).replace(", type_params=[]", "")  # which Python 3.12 began to write


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield how many folders up a name is to be looked for, 0 where it is no relative one, and the name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield node.level, module
            yield from ((node.level, f"{module}.{alias.name}".strip(".")) for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            name = node.args[0].value
            if called in ("import_module", "__import__") and isinstance(name, str):
                yield len(name) - len(name.lstrip(".")), name.lstrip(".")


def _above(folder: Path, level: int) -> Path:
    return folder if level == 1 else folder.parents[min(level, len(folder.parents) + 1) - 2]


def _roots(beside: Path, source: Path, name: str) -> Iterator[Path]:
    """Yield the folders where a module of this name may be: beside the first file, around the package, on the path."""
    first, _, rest = name.partition(".")
    inside = source.is_relative_to(_PACKAGE)
    if (
        first == "tamis"
    ):  # of tamis itself only the kernels that a scene is made for, and its own part for a file of it
        part = rest.partition(".")[0]
        if rest.startswith("sim.") or (inside and source.is_relative_to(_PACKAGE / part)):
            yield _PACKAGE.parent
    if not inside:
        yield beside
    if first == "tamis" or inside:
        return
    package = source.parent
    while (package / "__init__.py").is_file() and package != package.parent:
        if package.name == first:
            yield package.parent
        package = package.parent
    if first in sys.stdlib_module_names:
        return
    try:
        spec = PathFinder.find_spec(first)
    except Exception:  # whatever lies on the path
        return
    places = (
        [*(spec.submodule_search_locations or ()), *([spec.origin] if spec.origin else [])] if spec else []
    )
    yield from {Path(place).resolve().parent for place in places if not _installed(Path(place).resolve())}


def _installed(place: Path) -> bool:
    paths = sysconfig.get_paths()
    shared = {Path(paths[name]).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    beside = {"site-packages", "dist-packages"} & set(place.parts)
    return bool(beside) or any(place.is_relative_to(folder) for folder in shared)


def _below(folder: Path, name: str) -> Iterator[Path]:
    """Yield the files of a module in a folder, packages on the way included."""
    parts = name.split(".") if name else []
    if not parts and (folder / "__init__.py").is_file():
        yield folder / "__init__.py"
    look = _known_module if folder == _PACKAGE.parent else _module
    for i in range(1, len(parts) + 1):
        yield from look(os.path.join(folder, *parts[:i]))


def _module(place: str) -> list[Path]:
    """Return the files of a module or package, given its path without a suffix."""
    candidates = (*(place + suffix for suffix in (".py", *EXTENSION_SUFFIXES)), f"{place}/__init__.py")
    return [Path(candidate).resolve() for candidate in candidates if os.path.isfile(candidate)]


_known_module = lru_cache(maxsize=None)(_module)  # files of tamis itself stay where they are
