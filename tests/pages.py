"""The fenced code of README and docs, taken apart so that tests can run it.

A page is one program: its Python blocks run in order, as one module whose lines have the numbers of the page. What
cannot run says so in an HTML comment on the line above its fence, with the reason: ``<!-- not run: ... -->``.
"""

from __future__ import annotations

import re
import runpy
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGES = sorted(p.relative_to(ROOT).as_posix() for p in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))
_MARK = re.compile(r"<!-- not run: (\S.+) -->")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, the line of the page on which that starts."""

    page: str
    language: str
    line: int
    text: str
    why_not: str = ""  # the reason why it is not run

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str, language: str | None = None) -> list[Block]:
    """Return the fenced blocks of a page, of one language or of all."""
    return [b for b in _blocks(page) if language is None or b.language == language]


def _blocks(page: str) -> Iterator[Block]:
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    start, language = 0, None
    for i, line in enumerate(lines):
        fence = re.fullmatch(r"\s*```(\w*)\s*", line)
        if not fence:
            continue
        if language is None:
            start, language = i + 1, fence[1]
            continue
        assert not fence[1], f"{page}:{start}: this block has no end"
        above = next((text for text in reversed(lines[: start - 1]) if text.strip()), "")
        mark = _MARK.fullmatch(above.strip())
        yield Block(page, language, start + 1, "\n".join(lines[start:i]), mark[1] if mark else "")
        language = None
    assert language is None, f"{page}:{start}: this block has no end"


def run_python(page: str, folder: Path, known: Mapping[str, Any]) -> dict[str, Any]:
    """Run the Python of a page in a folder, with some names known beforehand, and return what it leaves."""
    lines = ["from __future__ import annotations"]
    for block in blocks(page, "python"):
        if not block.why_not:
            lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    script = folder / f"{Path(page).stem.replace('-', '_')}.py"
    script.write_text("\n".join(lines) + "\n", encoding="utf-8")
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        return runpy.run_path(str(script), dict(known))
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(folder):
                del sys.modules[name]


def ball(folder: Path) -> Path:
    """Copy the dropped ball to a folder, for pages that go on from it."""
    ignore = shutil.ignore_patterns("runs", "results", "__pycache__", "expected.toml")
    return Path(shutil.copytree(ROOT / "examples" / "01_ball", folder, ignore=ignore, dirs_exist_ok=True))
