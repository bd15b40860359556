"""CSV tables: measurements, outputs of programs, exported runs.

All are read by one rule, whoever wrote them. Comma, semicolon or tab separate the cells, whichever the first line has
most of; a cell in quotes may hold separators and line breaks; blank lines are left out. Nothing is guessed: a row
of another length, a cell that is no number or a quote that never ends is a fault with its file and line.
"""

from __future__ import annotations

import csv
import itertools
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tamis.errors import StudyError, nearest
from tamis.types import Array


class Row(NamedTuple):
    """One row of a table as text, and the line of the file on which it starts."""

    line: int
    cells: list[str]


@dataclass(frozen=True)
class Sheet:
    """A table with a header: text cells by column, units from the header."""

    path: Path
    cells: Mapping[str, tuple[str, ...]]
    units: Mapping[str, str] = field(default_factory=dict)
    lines: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.lines)

    def text(self, column: str) -> tuple[str, ...]:
        """Return the cells of a column as they stand."""
        if column not in self.cells:
            raise StudyError(f'{self.path.name} has no column "{column}"{nearest(column, self.cells)}')
        return self.cells[column]

    def numbers(self, column: str, *, missing: bool = False) -> Array:
        """Return a column as numbers; empty cells are NaN where ``missing`` is allowed."""
        values = np.empty(len(self))
        for i, (line, cell) in enumerate(zip(self.lines, self.text(column), strict=True)):
            if cell == "" and missing:
                values[i] = math.nan
            else:
                values[i] = number(f'{self.path.name}, line {line}, column "{column}"', cell)
        return values


def read_csv(path: Path | str) -> Sheet:
    """Read a table with one header line; ``z [m]`` in it gives column z its unit.

    Comma, semicolon or tab separate the cells, ``#`` starts a comment line.
    """
    path = Path(path)
    rows = read_rows(path)
    if len(rows) < 2:
        raise StudyError(
            f"{path.name}: expected a header line and at least one row, found {len(rows)} line(s)"
        )
    if all(_is_number(cell) for cell in rows[0].cells):
        shown = ", ".join(rows[0].cells[:4])
        raise StudyError(
            f"{path.name}, line {rows[0].line}: expected a header with the names of the columns, found numbers "
            f"({shown}); write one above them, such as t [s], a [m/s2]"
        )
    names, units = [], {}
    for cell in rows[0].cells:
        found = re.fullmatch(r"(.*?)\s*(?:\[(.*)\])?", cell, re.DOTALL)
        assert found
        names.append(found[1])
        if found[2] is not None:
            units[found[1]] = found[2].strip()
    return sheet_of(path, names, rows[1:], units)


def read_numbers(path: Path, columns: Sequence[str]) -> tuple[dict[str, Array], dict[str, str]]:
    """Read some columns of a large table of numbers, and the units of all: `read_csv` at a tenth of its time.

    Where anything is unusual, `read_csv` reads it instead, which says what is wrong and where.
    """
    path = Path(path)
    try:
        with path.open(encoding="utf-8-sig") as file:
            head = file.readline().strip()
            names = [re.fullmatch(r"\s*(.*?)\s*(?:\[(.*)\])?\s*", cell) for cell in head.split(",")]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of no rows, which is said below
                table = np.loadtxt(file, delimiter=",", ndmin=2)
        titles = [found[1] for found in names if found]
        if len(set(titles)) == table.shape[1] == len(names) and len(table) and np.isfinite(table).all():
            units = {found[1]: found[2].strip() for found in names if found and found[2] is not None}
            if set(columns) <= set(titles):
                return {name: np.ascontiguousarray(table[:, titles.index(name)]) for name in columns}, units
    except (OSError, ValueError):
        pass
    sheet = read_csv(path)
    return {name: sheet.numbers(name) for name in columns}, dict(sheet.units)


def sheet_of(path: Path, names: list[str], rows: list[Row], units: Mapping[str, str] | None = None) -> Sheet:
    """Return rows as named columns; `StudyError` for a name that comes twice and a row of another length."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise StudyError(f'{path.name}: column "{twice[0]}" appears twice in the header')
    for line, cells in rows:
        if len(cells) != len(names):
            raise StudyError(
                f"{path.name}, line {line}: expected {len(names)} cells as in the header, found {len(cells)}"
            )
    columns = {name: tuple(row.cells[j] for row in rows) for j, name in enumerate(names)}
    return Sheet(path, columns, units or {}, tuple(row.line for row in rows))


def read_matrix(path: Path) -> Array:
    """Read a table of numbers without a header."""
    rows = read_rows(path)
    for line, cells in rows:
        if len(cells) != len(rows[0].cells):
            first = f"{len(rows[0].cells)} cells as on line {rows[0].line}"
            raise StudyError(f"{path.name}, line {line}: expected {first}, found {len(cells)}")
    try:
        return np.array(
            [[number(f"{path.name}, line {line}", cell) for cell in cells] for line, cells in rows]
        )
    except StudyError as error:
        raise StudyError(f"{error}; a matrix is rows of numbers only, without a header") from None


def read_rows(path: Path, *, comment: str = "#") -> list[Row]:
    """Read all rows of a table as text, without blanks around it; ``comment`` starts a line to leave out."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(_records(enumerate(file, 1), comment))
        if any("\0" in cell for row in rows for cell in row.cells):
            raise csv.Error("it contains a zero byte")
    except FileNotFoundError:
        beside = [other.name for other in path.parent.glob("*.csv")] if path.parent.is_dir() else []
        raise StudyError(f'no data file "{path}"{nearest(path.name, beside)}') from None
    except csv.Error as error:
        raise StudyError(f'"{path}" cannot be read as a table: {error}') from error
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f'"{path}" cannot be read as text: {error}') from error
    return rows


def _records(lines: Iterator[tuple[int, str]], comment: str) -> Iterator[Row]:
    """Yield the rows; a comment is one only between rows, not within a quoted cell of several lines."""
    separator = ""
    for start, line in lines:
        if not line.strip() or (comment and line.startswith(comment)):
            continue
        separator = separator or max(",;\t", key=line.count)
        rest = (more for _, more in lines)  # a quoted cell goes on there
        try:
            cells = next(csv.reader(itertools.chain([line], rest), delimiter=separator, strict=True))
        except csv.Error as error:
            raise csv.Error(f"line {start}: {error}") from None
        yield Row(start, [cell.strip() for cell in cells])


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def number(where: str, cell: str, *, finite: bool = True) -> float:
    """Return a cell as a number; ``where`` says whose it is if it is none."""
    try:
        value = float(cell)
    except ValueError:
        what = "an empty cell" if cell == "" else f'"{cell}"'
        raise StudyError(f"{where}: expected a number, found {what}") from None
    if finite and not math.isfinite(value):
        raise StudyError(f"{where}: {cell} is not a finite number")
    return value
