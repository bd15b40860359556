"""What a page is made of: screens of blocks, each block a plain record that one template knows how to show.

A screen is a title and a function from records to blocks; one that returns nothing is left out of the page
and of its numbering, so a new screen is one more row in a list. Figures and tables bring their own numbers,
and the writer puts these beside the page as CSV.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import jinja2
from matplotlib.figure import Figure

from tamis._version import __version__
from tamis.files import replacing
from tamis.report.style import inline, to_svg
from tamis.report.tables import Cell, cells, to_csv
from tamis.types import Table

R = TypeVar("R")


@dataclass(frozen=True)
class Heading:
    """A title inside a screen."""

    kind: ClassVar[str] = "heading"
    text: str


@dataclass(frozen=True)
class Text:
    """A paragraph; ``lead`` makes it the sentence to remember."""

    kind: ClassVar[str] = "text"
    text: str
    lead: bool = False


@dataclass(frozen=True)
class Facts:
    """A row of figures with their names."""

    kind: ClassVar[str] = "facts"
    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Concerns:
    """The "what to worry about" box: texts, and whether each is serious."""

    kind: ClassVar[str] = "concerns"
    items: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Code:
    """A file shown as it is."""

    kind: ClassVar[str] = "code"
    title: str
    text: str


@dataclass(frozen=True)
class Links:
    """Files that come with the page: text and relative address."""

    kind: ClassVar[str] = "links"
    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Grid:
    """A table to read and to sort; ``numbers`` are written as ``tables/<name>.csv``."""

    kind: ClassVar[str] = "grid"
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    name: str = ""
    numbers: Table | None = None
    markup: frozenset[int] = frozenset()  # columns whose text is HTML made here

    @property
    def files(self) -> Mapping[str, Table]:
        """Numbers to write beside the page, by file name."""
        return {} if self.numbers is None else {self.name: self.numbers}


@dataclass(frozen=True)
class Picture:
    """A figure, its caption, and the numbers it was drawn from."""

    kind: ClassVar[str] = "picture"
    name: str
    figure: Figure
    caption: str
    files: Mapping[str, Table] = field(default_factory=dict)

    @cached_property
    def svg(self) -> str:
        """The figure as a file of its own."""
        return to_svg(self.figure, self.name)

    @property
    def inline(self) -> str:
        """The figure as part of the page."""
        return inline(self.svg, self.caption)


Block = Heading | Text | Facts | Concerns | Code | Links | Grid | Picture


@dataclass(frozen=True)
class Screen(Generic[R]):
    """One part of a page, made from records of type R."""

    key: str
    title: str
    build: Callable[[R], Sequence[Block]]


def grid(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    caption: str = "",
    name: str = "",
    numbers: Table | None = None,
    markup: Sequence[int] = (),
) -> Grid:
    """Make a table of anything: what is not a `Cell` becomes one."""
    return Grid(tuple(columns), tuple(cells(row) for row in rows), caption, name, numbers, frozenset(markup))


def write_page(path: Path, screens: Sequence[Screen[R]], records: R, *, title: str, subtitle: str) -> None:
    """Write the page, its figures and its numbers; each file is whole or absent, the page comes last."""
    built = [(screen, list(screen.build(records))) for screen in screens]
    shown = [(screen, blocks) for screen, blocks in built if blocks]
    files = dict(_files(block for _, blocks in shown for block in blocks))
    for address, content in files.items():
        with replacing(path.parent / address) as stream:
            stream.write(content)
    for stale in (*path.parent.glob("figures/*.svg"), *path.parent.glob("tables/*.csv")):
        if str(stale.relative_to(path.parent)) not in files:
            stale.unlink()
    html = (
        _environment()
        .get_template("page.html")
        .render(title=title, subtitle=subtitle, screens=shown, version=__version__)
    )
    with replacing(path) as stream:
        stream.write(html.encode())


def _files(blocks: Iterator[Block]) -> Iterator[tuple[str, bytes]]:
    for block in blocks:
        if isinstance(block, Picture):
            yield f"figures/{block.name}.svg", block.svg.encode()
        if isinstance(block, Picture | Grid):
            yield from ((f"tables/{name}.csv", to_csv(table)) for name, table in block.files.items())


def _environment() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(Path(__file__).parent / "templates")
    return jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
