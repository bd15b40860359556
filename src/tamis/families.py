"""The families of built-in simulators: where they live, what they offer, and which code lies behind a file of theirs.

A family is a folder below ``sim`` whose ``simulators.py`` declares its simulators. All that is asked here is read from
sources, without importing them, so that an unchanged study is recognised in a fraction of a second.

Code is what the syntax trees of a file and of everything it imports from its own part of tamis say, without comments,
layout and documentation. That one hash decides which kernels are compiled again (`tamis.jit`), which stages of a study
are run again (`tamis.study.reader`) and which runs of a simulator are made again (`tamis.runs.provenance`). Parsing a
family takes a tenth of a second, so what a file says is remembered in the cache folder, under a hash of its bytes.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from tamis.sources import Imported, dump, imported, parsed, reached

_PACKAGE = Path(__file__).parent.resolve()
_SIM = _PACKAGE / "sim"
_OWN = b"".join(Path(file).read_bytes() for file in (__file__, str(Path(__file__).with_name("sources.py"))))
_TREES = f"trees-{hashlib.sha256(_OWN).hexdigest()[:8]}.json"  # of trees that are read in this way
_REMEMBERED = 2000  # files
_unwritten: set[str] = set()


def builtins() -> dict[str, str]:
    """List the simulators shipped with tamis and the first line of their documentation, without importing them."""
    return {
        f"{file.parent.name}.{function.name}": (ast.get_docstring(function) or "").split("\n")[0]
        for file in sorted(_SIM.glob("*/simulators.py"))
        for function in _simulators(ast.parse(file.read_bytes()))
    }


def folder_of(address: str) -> Path | None:
    """Return the folder of the family that a simulator's address names; None if it is not built in."""
    if not address.startswith("tamis:"):
        return None
    return _SIM / address.removeprefix("tamis:").partition(".")[0]


def file_of(address: str) -> Path | None:
    """Return the file that declares a built-in simulator; None if there is no such family."""
    family = folder_of(address)
    return file if family and (file := family / "simulators.py").is_file() else None


def input_names(address: str) -> set[str] | None:
    """Return the names of a built-in simulator's inputs; None if there is no such simulator."""
    file = file_of(address)
    module = ast.parse(file.read_bytes()) if file else ast.Module([], [])
    for function in _simulators(module):
        if function.name == address.rpartition(".")[2]:
            named = arguments(function)
            return _fields(module, _case(function)) if named is None else named
    return None


def arguments(function: ast.FunctionDef) -> set[str] | None:
    """Return the names of a simulator's inputs if its arguments are; None where it takes a case that declares them."""
    names = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)} - {"workdir"}
    return None if len(names) == 1 and _case(function) else names


def code_hash(path: Path) -> str:
    """Hash the code of a file and of all it imports from its own part of tamis."""
    return hashlib.sha256(json.dumps(code_files(path)).encode()).hexdigest()[:16]


def code_files(path: Path) -> dict[str, str]:
    """Return the files behind a file, itself included, each with a hash of its code."""
    return {
        file.relative_to(_PACKAGE).as_posix() if file.is_relative_to(_PACKAGE) else str(file): said
        for file, said in closure(path).items()
    }


def closure(path: Path) -> dict[Path, str]:
    """Return the paths of a file and of all it imports, each with a hash of its code."""
    found = reached(path, _code_and_imports)
    _remember()
    return dict(sorted(found.items()))


def own_code(file: Path) -> str:
    """Hash the code of one file, without what it imports; empty if there is no such file."""
    return _code_and_imports(file, file.read_bytes())[0] if file.is_file() else ""


def cache_folder() -> Path:
    """Return the folder of what can be made again: ``TAMIS_CACHE``, or tamis in the user's cache folder."""
    chosen = os.environ.get("TAMIS_CACHE")
    return (
        Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tamis"
    )


def _simulators(module: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in module.body if isinstance(node, ast.FunctionDef) and _declaration(node)]


def _declaration(function: ast.FunctionDef) -> ast.Call | None:
    """Return the call that makes a function a simulator."""
    calls = [node for node in function.decorator_list if isinstance(node, ast.Call)]
    return next((c for c in calls if ast.unparse(c.func).rpartition(".")[2] == "simulator"), None)


def _case(function: ast.FunctionDef) -> str:
    """Return the name of the case that declares the inputs of a simulator; empty if its arguments do."""
    declaration = _declaration(function)
    given = [word.value for word in declaration.keywords if word.arg == "inputs"] if declaration else []
    return ast.unparse(given[0]) if given and isinstance(given[0], (ast.Name, ast.Attribute)) else ""


def _fields(module: ast.Module, case: str) -> set[str] | None:
    """Return the fields of a case that are inputs, those that a call declares, from the file it is imported from."""
    first, _, rest = case.partition(".")
    imports = [node for node in module.body if isinstance(node, ast.ImportFrom)]
    for place, name in ((node.module, a.name) for node in imports for a in node.names if a.name == first):
        file = _PACKAGE.parent.joinpath(*f"{place}.{name if rest else ''}".split(".")).with_suffix(".py")
        for part in ast.parse(file.read_bytes()).body:
            if isinstance(part, ast.ClassDef) and part.name == (rest or name):
                lines = [line for line in part.body if isinstance(line, ast.AnnAssign)]
                return {ast.unparse(line.target) for line in lines if isinstance(line.value, ast.Call)}
    return None


def _code_and_imports(file: Path, content: bytes) -> tuple[str, Imported]:
    """Return the hash of a file's code and what it imports, remembered if it was ever read before."""
    key = hashlib.sha256(content).hexdigest()
    if key not in _memory():
        tree = parsed(file, content)
        names = [] if tree is None else sorted(set(imported(tree)))
        code = content if tree is None else dump(_undocumented(tree)).encode()
        _memory()[key] = (hashlib.sha256(code).hexdigest()[:16], names)
        _unwritten.add(key)
    return _memory()[key]


def _undocumented(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node, False):
            del node.body[0]
    return tree


@lru_cache
def _memory() -> dict[str, tuple[str, Imported]]:
    """Return what is remembered of files, by the hash of their bytes."""
    try:
        kept = json.loads((cache_folder() / _TREES).read_bytes())
        return {key: (said, [(level, name) for level, name in found]) for key, (said, found) in kept.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _remember() -> None:
    """Keep what has been read for the next process; a folder that cannot be written costs it a tenth of a second."""
    if not _unwritten:
        return
    _unwritten.clear()
    part = cache_folder() / f"{_TREES}.{os.getpid()}"
    with suppress(OSError):
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(dict(list(_memory().items())[-_REMEMBERED:])))
        part.replace(cache_folder() / _TREES)
