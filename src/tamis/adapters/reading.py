"""Numbers out of the files a program leaves behind.

Four formats cover most programs: a CSV table with names in its header, lines of numbers between lines of text, a
JSON file, and the last line that holds a number. What a program writes is not trusted. A file that leads out of
the scratch folder is not read, nor one beyond a gigabyte, and nothing is guessed: a row too short, a NaN or a
field of stars (Fortran's overflow) fails the run with the file and the line, instead of being skipped.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from tamis.errors import SimulationError, StudyError, nearest
from tamis.sheets import Sheet, read_csv
from tamis.types import Array

MAX_BYTES = 1_000_000_000
FORMATS = ("csv", "table", "json", "last")
_TAKES = {"csv": ("column",), "table": ("column", "after"), "json": ("key",), "last": ("column",)}
_DIGITS = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[ed][+-]?\d+)?|[+-]?\d*\.\d*[+-]\d{3}"  # 1.5-103: Fortran's 1.5e-103
_BAD = r"[+-]?(?:nan|inf(?:inity)?)"
_FIELD = re.compile(rf"{_DIGITS}|{_BAD}|\*{{2,}}", re.IGNORECASE)
# in a line of words, stars are a number only where one is due; elsewhere they frame a title
_ANYWHERE = re.compile(rf"(?<![\w.+-])(?:{_DIGITS}|{_BAD})(?![\w.])|(?<=[=:\d])\s*\*{{4,}}", re.IGNORECASE)


@dataclass(frozen=True)
class Read:
    """Where an output is found; ``column`` is a name in a CSV table and counts from 1 elsewhere."""

    file: str
    format: str = ""
    column: str | int | None = None
    key: str | None = None
    after: str | None = None
    unit: str = ""
    doc: str = ""


def reading(where: str, table: Mapping[str, Any]) -> Read:
    """Check the table of one output and settle its format."""
    known = [field.name for field in fields(Read)]
    for key in table:
        if key not in known:
            raise StudyError(f'{where}: unknown key "{key}"{nearest(key, known)}')
    if not isinstance(table.get("file"), str):
        raise StudyError(f'{where}: say where it is found: file = "out.csv" (or "stdout")')
    confined(table["file"], f"{where}.file")
    suffix = PurePosixPath(table["file"]).suffix.lower().removeprefix(".")
    read = Read(
        **{**table, "format": table.get("format") or (suffix if suffix in ("csv", "json") else "table")}
    )
    if read.format not in FORMATS:
        raise StudyError(f'{where}.format: no format "{read.format}"{nearest(read.format, FORMATS)}')
    for key in ("column", "key", "after"):
        if getattr(read, key) is not None and key not in _TAKES[read.format]:
            raise StudyError(
                f'{where}: format {read.format} takes no "{key}"; it takes {_TAKES[read.format]}'
            )
    if read.format == "csv" and not isinstance(read.column, str):
        raise StudyError(
            f'{where}: name the column of "{read.file}": column = "force"; found {read.column!r}'
        )
    if read.format == "json" and read.key is None:
        raise StudyError(f'{where}: name the value in "{read.file}": key = "a.b"')
    if read.format == "table" or (read.format == "last" and read.column is not None):
        whole = isinstance(read.column, int) and not isinstance(read.column, bool)
        if not whole or int(read.column or 0) < 1:
            raise StudyError(f"{where}.column: expected a number counted from 1, found {read.column!r}")
    return read


def confined(name: str, where: str) -> str:
    """Refuse a name that does not stay inside the scratch folder."""
    parts = PurePosixPath(name).parts
    if not parts or parts[0] == "/" or ".." in parts or "\0" in name:
        raise StudyError(
            f'{where}: "{name}" must lie inside the scratch folder; give a relative path without ".."'
        )
    return name


def read_all(reads: Mapping[str, Read], folder: Path) -> dict[str, Array]:
    """Read every output from the scratch folder; each file is opened once."""
    sheet = cache(read_csv)
    lines = cache(_lines)
    found: dict[str, Array] = {}
    for name, read in reads.items():
        try:
            path = _checked(read.file, folder)
            if read.format == "csv":
                found[name] = _column(path, read, sheet)
            elif read.format == "json":
                found[name] = _json(path, read)
            else:
                take = _rows if read.format == "table" else _last
                found[name] = take(lines(path), read)
        except (SimulationError, UnicodeDecodeError) as error:
            raise SimulationError(f"output {name}: {error}") from error
    return found


def _checked(file: str, folder: Path) -> Path:
    path = (folder / file).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise SimulationError(f'"{file}" is a link that leads out of the scratch folder; it is not read')
    if not path.exists():
        beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        raise SimulationError(f'the program wrote no file "{file}"{nearest(path.name, beside)}')
    if not path.is_file():
        raise SimulationError(f'"{file}" is not a file')
    if path.stat().st_size > MAX_BYTES:
        raise SimulationError(f'"{file}" is larger than {MAX_BYTES / 1e9:g} GB; let the program write less')
    return path


def _column(path: Path, read: Read, open_sheet: Callable[[Path], Sheet]) -> Array:
    try:
        sheet = open_sheet(path)
        values = sheet.numbers(str(read.column))
    except StudyError as error:  # a reader of measurements blames the study; here the program wrote the file
        raise SimulationError(str(error)) from error
    unit = sheet.units.get(str(read.column), "")
    if unit and read.unit and unit != read.unit:
        raise StudyError(f'{read.file}, column "{read.column}": unit [{unit}], the study says "{read.unit}"')
    return values


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def _number(text: str) -> float:
    if "*" in text:
        return math.nan
    text = text.lower().replace("d", "e")
    try:
        return float(text)
    except ValueError:  # an exponent without its letter
        return float(re.sub(r"([+-]\d{3})$", r"e\1", text))


def _numbers(line: str) -> list[float] | None:
    """Return the fields of a line, None if one of them is not a number; stars are NaN."""
    if re.search(r"\d,\d", line) and re.search(r"\d\s+[-+.\d]", line):
        return None  # a decimal comma, or a separator? nobody can tell
    parts = line.replace(",", " ").replace(";", " ").split()
    if not parts or all(part.startswith("*") for part in parts):
        return None
    if all(_FIELD.fullmatch(part) for part in parts):
        return [_number(part) for part in parts]
    return None


def _counted(number: int) -> str:
    return "1 number" if number == 1 else f"{number} numbers"


def _rows(lines: list[str], read: Read) -> Array:
    first, block = 0, read.after is not None
    if read.after is not None:
        first = max((i for i, line in enumerate(lines, 1) if read.after in line), default=0)
        if not first:
            raise SimulationError(f'{read.file}: no line contains "{read.after}"')
    column = int(read.column or 0)
    values: list[float] = []
    width = width_line = 0
    for i, line in enumerate(lines[first:], first + 1):
        row = _numbers(line)
        if row is None:
            if block and line.strip():
                break
            continue
        if not values:
            width, width_line = len(row), i
        if len(row) != width:
            raise SimulationError(
                f"{read.file}, line {i}: found {_counted(len(row))}, but {width} on line {width_line}"
            )
        if column > width:
            raise SimulationError(
                f"{read.file}, line {i}: no column {column}, the line has {_counted(width)}"
            )
        if not math.isfinite(row[column - 1]):
            raise SimulationError(
                f'{read.file}, line {i}, column {column}: not a finite number: "{line.strip()}"'
            )
        values.append(row[column - 1])
    if not values:
        behind = f' directly after line {first}, which contains "{read.after}"' if block else ""
        raise SimulationError(f"{read.file}: no line of numbers{behind}")
    return np.array(values)


def _last(lines: list[str], read: Read) -> Array:
    for i in range(len(lines), 0, -1):
        values = [_number(text) for text in _ANYWHERE.findall(lines[i - 1])]
        if values:
            break
    else:
        raise SimulationError(f"{read.file}: no line has a number")
    column = int(read.column or 0)
    if column > len(values):
        raise SimulationError(f"{read.file}, line {i}: no number {column}, the line has {len(values)}")
    taken = np.array(values[column - 1 : column] if column else values)
    if not np.isfinite(taken).all():
        raise SimulationError(f'{read.file}, line {i}: not a finite number: "{lines[i - 1].strip()}"')
    return taken


def _json(path: Path, read: Read) -> Array:
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise SimulationError(f"{read.file}, line {error.lineno}: not JSON: {error.msg}") from error
    except RecursionError:
        raise SimulationError(f"{read.file}: nested too deeply") from None
    for part in (read.key or "").split("."):
        if not isinstance(value, dict) or part not in value:
            valid = nearest(part, value) if isinstance(value, dict) else f" in {type(value).__name__}"
            raise SimulationError(f'{read.file}: no key "{part}" of "{read.key}"{valid}')
        value = value[part]
    if not _all(value, lambda item: isinstance(item, (int, float)) and not isinstance(item, bool)):
        raise SimulationError(f'{read.file}: "{read.key}" is not a number or a list of numbers')
    try:
        array = np.asarray(value, dtype=np.float64)
    except (ValueError, OverflowError) as error:
        raise SimulationError(f'{read.file}: "{read.key}" is not an array of numbers: {error}') from None
    if not array.size:
        raise SimulationError(f'{read.file}: "{read.key}" is empty')
    if not np.isfinite(array).all():
        raise SimulationError(f'{read.file}: "{read.key}" holds numbers that are not finite')
    return array


def _all(value: Any, test: Callable[[Any], bool]) -> bool:
    return all(_all(item, test) for item in value) if isinstance(value, list) else test(value)
