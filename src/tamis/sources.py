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
import sys
import sysconfig
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from pathlib import Path

from tamis.errors import StudyError


def source_hash(path: Path) -> str:
    """Hash a file and everything of its author that it imports."""
    digest = hashlib.sha256()
    for said in sorted(_reached(path).values()):  # by what they say: the same wherever the folders lie
        digest.update(said)
    return digest.hexdigest()


def sources(path: Path) -> dict[str, str]:
    """Return the files behind a Python file, each under its name as seen from there, with a hash of what it says."""
    path = path.resolve()
    return {
        str(source.relative_to(path.parent))
        if source.is_relative_to(path.parent)
        else str(source): hashlib.sha256(said).hexdigest()
        for source, said in sorted(_reached(path).items())
    }


def _reached(path: Path) -> dict[Path, bytes]:
    """Return what each file says: its syntax tree, or its bytes where it is compiled."""
    path = path.resolve()
    found: dict[Path, bytes] = {}
    waiting = [path]
    while waiting:
        source = waiting.pop()
        if source in found:
            continue
        content = source.read_bytes()
        if source.name.endswith(tuple(EXTENSION_SUFFIXES)):
            found[source] = content
            continue
        try:
            tree = ast.parse(content)
        except (SyntaxError, ValueError) as error:
            raise StudyError(f"{source.name} is not valid Python: {error}") from error
        found[source] = _dump(tree).encode()
        for level, name in _imported(tree):
            folders = [_above(source.parent, level)] if level else _roots(path.parent, source, name)
            waiting += [near for folder in folders for near in _below(folder, name)]
    return found


def _dump(tree: ast.Module) -> str:
    """Write a syntax tree in the same way whatever the version of Python, or another one would make all runs anew."""
    more: dict[str, bool] = {"show_empty": True} if sys.version_info >= (3, 13) else {}
    return ast.dump(tree, **more).replace(", type_params=[]", "")  # which Python 3.12 began to write


def _imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
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
    yield beside
    first, _, rest = name.partition(".")
    if first == "tamis":  # of tamis itself only the kernels that a scene is made for
        if rest.startswith("sim."):
            yield Path(__file__).parent.parent
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
    for i in range(1, len(parts) + 1):
        place = folder.joinpath(*parts[:i])
        candidates = [place.with_name(place.name + suffix) for suffix in (".py", *EXTENSION_SUFFIXES)]
        for candidate in (*candidates, place / "__init__.py"):
            if candidate.is_file():
                yield candidate.resolve()
