"""Tables whose rows name files: a track that was run and the signals that were measured on it, by the hundred.

Measured signals go through the same observable as simulated ones, so that what is compared is made alike. The tables of
tests and of reference tests have the same columns and are read by the same rules.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tamis.bands import Bands, Filtered
from tamis.errors import StudyError, nearest
from tamis.observables import Observable
from tamis.sheets import Sheet, read_csv, read_numbers
from tamis.types import Array, Value

_SAME = 1e-6  # of a step: times are printed with a few digits


@dataclass(frozen=True)
class Stretches:
    """How the rows of such a table are read."""

    base: Path
    columns: Mapping[str, str]  # inputs of the simulator, and the columns that give them
    kinds: Mapping[str, str]  # of these inputs
    conditions: Mapping[str, Value]  # the same in all rows
    data: str  # the column that names the files of signals
    observable: Observable
    units: Mapping[str, str]  # of the outputs it reads
    steps: dict[str, tuple[float, str]] = field(default_factory=dict)  # of the first file, and its row

    def measured(self, sheet: Sheet, row: int) -> Array:
        """Return the observed numbers of one row's file of signals."""
        name = sheet.text(self.data)[row]
        if not (self.base / name).is_file():
            raise StudyError(_no_file(sheet, row, name, self.base))
        where = f"{sheet.path.name}, row {row + 1}"
        try:
            y, step = levels(self.base, name, self.observable, self.units)
        except StudyError as error:
            raise StudyError(f"{where}: {error}") from error
        first, said = self.steps.setdefault("step", (step, where))
        if abs(step - first) > _SAME * first:
            raise StudyError(
                f"{where}: {name} has samples every {step:g} s, and {said} every {first:g} s; all rows must have the "
                "same sampling rate: resample them"
            )
        return y

    def imposed(self, sheet: Sheet, row: int) -> dict[str, Value]:
        """Return the conditions of one row."""
        found = dict(self.conditions)
        for name, column in self.columns.items():
            value = cell(self.base, sheet, row, column, self.kinds[name])
            found[name] = str((self.base / str(value)).resolve()) if self.kinds[name] == "file" else value
        return found


def levels(base: Path, name: str, observable: Observable, units: Mapping[str, str]) -> tuple[Array, float]:
    """Return the observed numbers of a file of signals, and its step; ``units`` are those of the outputs."""
    if not (base / name).is_file():
        raise StudyError(f'no file "{name}"{_beside(name, base)}')
    state = (base / name).stat()
    marks = state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
    assert isinstance(observable, Hashable)
    return _levels(base / name, name, observable, tuple(units.items()), *marks)


@lru_cache(maxsize=4096)
def _levels(
    path: Path, name: str, observable: Observable, outputs: tuple[tuple[str, str], ...], *marks: int
) -> tuple[Array, float]:
    """Read a file of signals, once however often a study is built."""
    numbers, units = read_numbers(path, observable.needs)
    for column, unit in outputs:
        if units.get(column) and unit and units[column] != unit:
            raise StudyError(
                f'{name} gives "{column}" in "{units[column]}", but output {column} is in "{unit}"; convert the column'
            )
    model = bands_of(observable)
    t = numbers[model.along]
    step = float(t[-1] - t[0]) / max(len(t) - 1, 1)
    # times are written with a few digits: the step is even where they allow it
    if not step > 0 or np.abs(np.diff(t) - step).max() > 1e-3 * step:
        raise StudyError(f'{name}: samples must be at a constant step of "{model.along}"; resample them')
    if fault := model.fault(len(t), step):
        raise StudyError(f"{name}: {fault}")
    even = {**numbers, model.along: step * np.arange(len(t))}
    return np.asarray(observable(even)), step


def bands_of(observable: Any) -> Bands:
    """Return the bands that an observable takes, filtered before or not."""
    of = observable.of if isinstance(observable, Filtered) else observable
    assert isinstance(of, Bands)
    return of


def cell(base: Path, sheet: Sheet, row: int, column: str, kind: str) -> Value:
    """Return what a row of a table gives for an input of a kind; a file must be there."""
    if kind == "number":
        return float(sheet.numbers(column)[row])
    text = sheet.text(column)[row]
    if kind == "file" and not (base / text).is_file():
        raise StudyError(_no_file(sheet, row, text, base))
    return text


def _no_file(sheet: Sheet, row: int, name: str, base: Path) -> str:
    """Say that a row names a file that is not there."""
    return (
        f'{sheet.path.name}, row {row + 1} (line {sheet.lines[row]}): no file "{name}"{_beside(name, base)}'
    )


def _beside(name: str, base: Path) -> str:
    return (
        nearest(name, [str(path.relative_to(base)) for path in (base / name).parent.glob("*")])
        if name
        else ""
    )


def reference_table(path: Path, reader: Stretches | None) -> Sheet | None:
    """Return a table of reference tests with their own files; None where it holds numbers."""
    if reader is None:
        return None
    sheet = read_csv(path)
    return sheet if reader.data in sheet.cells else None
