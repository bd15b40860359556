"""What was done in the laboratory and what was measured, and reading it from a table."""

from __future__ import annotations

import csv
import itertools
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tamis.errors import SimulationError, StudyError, nearest
from tamis.noise import Noise
from tamis.observables import Observable
from tamis.types import Array, Inputs, Outputs


class WrongCount(StudyError):
    """The model gives another count of numbers than was measured."""


@dataclass(frozen=True)
class Observation:
    """Measured numbers, how the model gives the same numbers, and what error may lie between them."""

    observable: Observable
    y: Array  # (m,) or (replicates, m); NaN is missing
    noise: Noise
    coord: Array | None = None
    label: str = ""
    group: str = ""  # which data it is calibrated with where a study is split; its label if empty

    @property
    def size(self) -> int:
        """Number of values observed in one test."""
        return int(np.asarray(self.y).shape[-1])


@dataclass(frozen=True)
class Experiment:
    """One test: what was imposed and what was observed; held-out tests are declared, not improvised."""

    name: str
    conditions: Inputs
    observations: tuple[Observation, ...]
    use: Literal["calibrate", "validate"] = "calibrate"

    @property
    def needs(self) -> set[str]:
        """The outputs its observables read."""
        return {name for o in self.observations for name in o.observable.needs}

    def numbers(self, outputs: Outputs) -> Array:
        """Return all that is observed in one run, (m,); an error says which observation cannot be taken from it."""
        row = []
        for i, o in enumerate(self.observations):
            try:
                found = np.atleast_1d(np.asarray(o.observable(outputs), dtype=float))
            except (SimulationError, StudyError) as error:
                raise type(error)(f"{self._where(i)}: {error}") from error
            except ValueError as error:
                shapes = ", ".join(f"{name} {np.shape(outputs[name])}" for name in o.observable.needs)
                what = f"the outputs do not fit each other ({shapes})"
                raise StudyError(f"{self._where(i)}: {what}: {error}") from error
            row.append(self._fitting(i, found[None]))
        numbers: Array = np.hstack(row)[0]
        return numbers

    def rows(self, outputs: Outputs) -> Array:
        """Return all that is observed in each of n runs stacked along the first axis, (n, m)."""
        each = [o.observable.many(outputs) for o in self.observations]
        return np.hstack([self._fitting(i, block) for i, block in enumerate(each)])

    def _fitting(self, i: int, block: Array) -> Array:
        m = self.observations[i].size
        if block.shape[1:] != (m,):
            raise WrongCount(
                f"{self._where(i)}: the model gives {np.prod(block.shape[1:])} numbers where "
                f'{m} are expected; a signal is observed with how = "at"'
            )
        return block

    def _where(self, i: int) -> str:
        return f"{self.name}, {self.observations[i].label or f'observation {i + 1}'}"

    def parts(self) -> list[slice]:
        """Return the columns of each observation in the vector of all observed numbers."""
        edges = np.cumsum([0, *(o.size for o in self.observations)])
        return [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]


def imposed(
    fixed: Inputs, conditions: Inputs, parameters: Mapping[str, Any], seed: Any = None
) -> dict[str, Any]:
    """Return what a simulator is given: parameters win over conditions, conditions over a drawn seed and what is fixed.

    Values may be columns, one number a point.
    """
    drawn = {} if seed is None else {"seed": seed}
    return {**fixed, **drawn, **conditions, **parameters}


def draws_seed(inputs: Iterable[str], *given: Iterable[str]) -> bool:
    """Say whether a seed is to be drawn: a simulator with these inputs has one, and nothing gives its value."""
    return "seed" in inputs and not any("seed" in names for names in given)


@dataclass(frozen=True)
class Sheet:
    """A table read from a CSV file: text cells by column, units from the headers."""

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
                continue
            try:
                values[i] = float(cell)
            except ValueError:
                what = "an empty cell" if cell == "" else f'"{cell}"'
                raise StudyError(
                    f'{self.path.name}, line {line}, column "{column}": expected a number, found {what}'
                ) from None
            if not math.isfinite(values[i]):
                raise StudyError(
                    f'{self.path.name}, line {line}, column "{column}": {cell} is not a finite number'
                )
        return values


def read_csv(path: Path | str) -> Sheet:
    """Read a table with one header line; ``z [m]`` in it gives column z its unit.

    Comma, semicolon or tab separate the cells, ``#`` starts a comment line.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        beside = [other.name for other in path.parent.glob("*.csv")] if path.parent.is_dir() else []
        raise StudyError(f'no data file "{path}"{nearest(path.name, beside)}') from None
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path} cannot be read as text: {error}") from error
    numbered = [
        (i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip() and not line.startswith("#")
    ]
    if len(numbered) < 2:
        raise StudyError(
            f"{path.name}: expected a header line and at least one row, found {len(numbered)} line(s)"
        )
    separator = max(",;\t", key=numbered[0][1].count)
    rows = [(i, next(csv.reader([line], delimiter=separator))) for i, line in numbered]
    names, units = [], {}
    for cell in rows[0][1]:
        found = re.fullmatch(r"\s*(.*?)\s*(?:\[(.*)\])?\s*", cell)
        assert found
        names.append(found[1])
        if found[2] is not None:
            units[found[1]] = found[2].strip()
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise StudyError(f'{path.name}: column "{sorted(twice)[0]}" appears twice in the header')
    for line, row in rows[1:]:
        if len(row) != len(names):
            raise StudyError(
                f"{path.name}, line {line}: expected {len(names)} cells as in the header, found {len(row)}"
            )
    body = rows[1:]
    cells = {name: tuple(row[j].strip() for _, row in body) for j, name in enumerate(names)}
    return Sheet(path, cells, units, tuple(line for line, _ in body))
