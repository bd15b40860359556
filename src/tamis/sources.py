"""What a Python file says, as a hash of syntax trees: its own and those of the files beside it that it imports."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

from tamis.errors import StudyError


def source_hash(path: Path) -> str:
    """Hash a file and what it imports from its own folder; comments and layout do not count."""
    digest = hashlib.sha256()
    for _, tree in sorted(_reached(path.resolve()).items()):
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()


def _reached(path: Path) -> dict[Path, ast.Module]:
    found: dict[Path, ast.Module] = {}
    waiting = [path]
    while waiting:
        source = waiting.pop()
        if source in found:
            continue
        try:
            found[source] = ast.parse(source.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError, ValueError) as error:
            raise StudyError(f"{source.name} is not valid Python: {error}") from error
        waiting += [near for name in _imported(found[source]) for near in _beside(path.parent, name)]
    return found


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _beside(folder: Path, name: str) -> Iterator[Path]:
    """Yield the files of a module that lies in this folder, packages on the way included."""
    parts = name.split(".")
    for i in range(1, len(parts) + 1):
        place = folder.joinpath(*parts[:i])
        for candidate in (place.with_suffix(".py"), place / "__init__.py"):
            if candidate.is_file():
                yield candidate
