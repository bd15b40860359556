"""Error models of a study file: names resolved, matrices and reference measurements read.

Reading a file runs nothing. What needs numbers of the simulator, numerical experiments and reference tests less a
nominal run, is left open, and filled in from the artifact of the stage `synthetic`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tamis.errors import StudyError, TamisError, nearest
from tamis.experiment import imposed
from tamis.inference.error_model import identify
from tamis.noise import Correlated, Covariance, Gaussian, Known, LowRank, Noise, Relative, Sum
from tamis.observables import Observable
from tamis.sheets import Sheet, read_csv, read_matrix
from tamis.simulation import Simulator
from tamis.space import Space
from tamis.study.reader import Raw
from tamis.study.schema import NoiseTable
from tamis.study.stretches import Stretches, reference_table
from tamis.types import Array, Inputs

Fault = Callable[[str, str], StudyError]

_FEWEST = 5  # reference tests from which an error is identified
_KEYS = {
    "known": ("sd",),
    "gaussian": ("sd", "variance"),
    "relative": ("sd", "variance", "of"),
    "correlated": ("sd", "variance", "length"),
    "covariance": ("matrix", "scale"),
    "lowrank": ("reference", "nominal", "components", "residual"),
}


@dataclass(frozen=True)
class Place:
    """One place of the file, and the run whose numbers belong there."""

    name: str  # under which the numbers are kept
    field: str  # of the file, for messages
    what: str  # "the numerical experiment itself", "the run at the nominal parameters"
    inputs: Inputs
    observable: Observable
    size: int


@dataclass(frozen=True)
class Places:
    """The numbers that are there, and the places that are still open."""

    known: Mapping[str, Array]
    open: list[Place] = field(default_factory=list)

    def numbers(self, place: Place) -> Array | None:
        """Return the numbers of a place; where there are none, take note of it."""
        if place.name not in self.known:
            self.open.append(place)
            return None
        return self.known[place.name]


@dataclass(frozen=True)
class Observed:
    """What an error model may need to know of the observation it belongs to."""

    place: str  # of the file, with the row of a table of tests
    observable: Observable
    size: int
    coord: Array | None
    conditions: Inputs
    replicates: int = 1
    reader: Stretches | None = None  # of tables of tests that name files


@dataclass(frozen=True)
class Noises:
    """Build the error models of one study file."""

    fail: Fault
    raw: Raw
    simulator: Simulator
    space: Space
    fixed: Inputs
    places: Places
    shared: dict[str, LowRank] = field(default_factory=dict)  # errors that all rows of a table have

    def build(
        self,
        where: str,
        tables: NoiseTable | Sequence[NoiseTable] | None,
        known: Array | None,
        observed: Observed,
        *,
        required: bool,
    ) -> Noise:
        """Return the sum of all sources of error that an observation names."""
        listed = [] if tables is None else [tables] if isinstance(tables, NoiseTable) else list(tables)
        parts: list[Any] = [] if known is None else [Known(tuple(known.tolist()))]
        for i, table in enumerate(listed):
            place = f"{where}.noise" if isinstance(tables, NoiseTable) else f"{where}.noise[{i}]"
            parts.append(self._part(place, table, observed))
        if not parts:
            if required:
                message = 'missing; say what error they carry: noise = { kind = "gaussian", sd = ... }, or sd'
                raise self.fail(f"{where}.noise", message)
            return Known(0.0)
        try:
            return parts[0] if len(parts) == 1 else Sum(tuple(parts))
        except StudyError as error:
            raise self.fail(f"{where}.noise", str(error)) from error

    def _part(self, where: str, table: NoiseTable, observed: Observed) -> Any:
        for key in ("sd", "variance", "length", "scale"):
            size = getattr(table, key)
            if isinstance(size, str):
                self._positive(f"{where}.{key}", size)
            elif size is not None and size <= 0:
                raise self.fail(f"{where}.{key}", f"expected a positive number, found {size:g}")
        for key in NoiseTable.model_fields:
            if key != "kind" and getattr(table, key) is not None and key not in _KEYS[table.kind]:
                has = ", ".join(_KEYS[table.kind])
                raise self.fail(f"{where}.{key}", f"{table.kind} noise takes no {key}, only {has}")
        try:
            return self._noise(where, table, observed)
        except TamisError as error:
            raise self.fail(where, str(error)) from error

    def _positive(self, where: str, name: str) -> None:
        """Refuse the name of no parameter, and of one that may be negative."""
        if name not in self.space.names:
            raise self.fail(where, f'no parameter "{name}"{nearest(name, self.space.names)}')
        prior = self.space.parameters[self.space.index(name)].prior
        low = float(np.ravel(prior.ppf(np.array([0.0])))[0])
        if low < 0:
            message = f'the prior of "{name}" reaches down to {low:g}, but it is the size of an error'
            raise self.fail(where, f"{message}; use lognormal, uniform or truncnormal with low = 0")

    def _noise(self, where: str, table: NoiseTable, observed: Observed) -> Any:
        if table.kind == "known":
            if not isinstance(table.sd, (int, float)):
                raise StudyError('known noise needs a number sd; kind = "gaussian" takes a parameter')
            return Known(float(table.sd))
        if table.kind == "gaussian":
            return Gaussian(table.sd, table.variance)
        if table.kind == "relative":
            return Relative(table.sd, table.variance, table.of or "data")
        if table.kind == "correlated":
            if table.length is None:
                raise StudyError("correlated noise needs a length along the abscissa")
            return Correlated(table.length, table.sd, table.variance)
        if table.kind == "covariance":
            return Covariance(self._matrix(table, observed.size), 1.0 if table.scale is None else table.scale)
        return self._identified(where, table, observed)

    def _matrix(self, table: NoiseTable, m: int) -> Array:
        """Return the covariance of one test, written in the file or read from a table without a header."""
        if table.matrix is None:
            raise StudyError("covariance noise needs a matrix: rows of numbers, or the name of a CSV file")
        if isinstance(table.matrix, str):
            matrix = read_matrix(self.raw.base / table.matrix)
        else:
            if len({len(row) for row in table.matrix}) > 1:
                raise StudyError("the rows of the matrix are not equally long")
            matrix = np.array(table.matrix, dtype=float)
        if matrix.shape != (m, m):
            raise StudyError(f"expected a matrix of {m} by {m} for {m} measurements, found {matrix.shape}")
        return matrix

    def _identified(self, where: str, table: NoiseTable, observed: Observed) -> Noise:
        """Identify the error from reference tests: columns of errors, or of measurements at known parameters."""
        if table.reference is None:
            raise StudyError("lowrank noise needs reference, a CSV file with one column a reference test")
        _components(table, observed)
        if table_of := reference_table(self.raw.base / table.reference, observed.reader):
            if where not in self.shared:
                self.shared[where] = self._stretches(where, table, table_of, observed)
            return self.shared[where]
        sheet = read_csv(self.raw.base / table.reference)
        unit = observed.observable.unit
        for name in self._realisations(sheet, observed):
            if unit and sheet.units.get(name, unit) != unit:
                found = sheet.units[name]
                raise StudyError(
                    f'{table.reference}: column "{name}" is in "{found}", the measurements in "{unit}"'
                )
        errors = np.array([sheet.numbers(name) for name in self._realisations(sheet, observed)])
        if errors.shape[1] != observed.size:
            raise StudyError(
                f"{table.reference} has {errors.shape[1]} rows, the observation {observed.size} numbers"
            )
        if len(errors) < _FEWEST:
            raise StudyError(
                f"{table.reference} has {len(errors)} reference tests, one a column; at least {_FEWEST} are needed"
            )
        if table.nominal is not None:
            errors = errors - self._nominal(where, table.nominal, observed)
        return self._found(table, errors, observed)

    def _found(self, table: NoiseTable, errors: Array, observed: Observed) -> LowRank:
        """Identify the error of which realisations are given."""
        assert table.reference is not None
        residual = True if table.residual is None else table.residual
        alone = self.raw.table("inference").get("split", "none") != "none"
        tests = observed.replicates if alone else max(observed.replicates, self._judged(table.reference))
        return identify(errors, components=_components(table, observed), residual=residual, tests=tests)

    def _stretches(self, where: str, table: NoiseTable, sheet: Sheet, observed: Observed) -> LowRank:
        """Identify the error from reference tests with their own files, each less its own nominal run (B.3)."""
        assert observed.reader is not None
        if table.nominal is None:
            raise StudyError(
                f"{table.reference} names the files of reference tests; say at which parameters they were measured: "
                "nominal = { ... }"
            )
        if len(sheet) < _FEWEST:
            raise StudyError(
                f"{table.reference} has {len(sheet)} reference tests; at least {_FEWEST} are needed"
            )
        self._check_nominal(table.nominal)
        errors, known = np.empty((len(sheet), observed.size)), True
        for row in range(len(sheet)):
            inputs = imposed(self.fixed, observed.reader.imposed(sheet, row), table.nominal)
            errors[row] = observed.reader.measured(sheet, row)
            name = f"{where} of {table.reference}, row {row + 1}"
            what = f"the run of {table.reference}, row {row + 1}, at the nominal parameters"
            model = self.places.numbers(Place(name, where, what, inputs, observed.observable, observed.size))
            known = known and model is not None
            errors[row] -= 0.0 if model is None else model
        if not known:  # nothing to identify yet, and the runs that are waited for may take hours
            return LowRank(np.zeros(observed.size), np.zeros((1, observed.size)), 1.0)
        return self._found(table, errors, observed)

    def _judged(self, reference: str) -> int:
        """Return how many tests, replicates included, are calibrated with the error of these reference tests."""
        total = 0
        for test in self.raw.tables_of("experiment"):
            for observe in test.get("observe", []) if test.get("use", "calibrate") == "calibrate" else []:
                noise = observe.get("noise", {})
                named = [part.get("reference") for part in (noise if isinstance(noise, list) else [noise])]
                if reference in named:
                    rows = len(read_csv(self.raw.base / str(test["table"]))) if "table" in test else 1
                    total += rows * (len(observe["y"]) if isinstance(observe.get("y"), list) else 1)
        return total

    def _realisations(self, sheet: Sheet, observed: Observed) -> list[str]:
        """Return the columns that hold reference tests; the first is the abscissa where there is one."""
        names = list(sheet.cells)
        if observed.coord is None:
            return names
        at = sheet.numbers(names[0])
        if at.shape != observed.coord.shape or not np.allclose(at, observed.coord, rtol=1e-9, atol=0):
            raise StudyError(
                f'{sheet.path.name}: its first column, "{names[0]}", must be the abscissa of the measurements, '
                "row by row"
            )
        return names[1:]

    def _nominal(self, where: str, values: Inputs, observed: Observed) -> Array:
        """Return what the model gives at the known parameters of the reference tests; zeros until it is known."""
        self._check_nominal(values)
        inputs = imposed(self.fixed, observed.conditions, values)
        what = "the run at the nominal parameters"
        place = Place(f"{where} of {observed.place}", where, what, inputs, observed.observable, observed.size)
        found = self.places.numbers(place)
        return np.zeros(observed.size) if found is None else found

    def _check_nominal(self, values: Inputs) -> None:
        for name in values:
            if name not in self.simulator.inputs:
                known = self.simulator.inputs
                raise StudyError(
                    f'nominal: simulator {self.simulator.name} has no input "{name}"{nearest(name, known)}'
                )


def _components(table: NoiseTable, observed: Observed) -> int:
    """Return the number of signals that the numbers are made of: as said, or those of the observable."""
    signals = getattr(observed.observable, "signals", ())
    components = table.components or len(signals) or 1
    if observed.size % components:
        named = f": {', '.join(signals)}" if signals else ""
        raise StudyError(
            f"components = {components}, but {observed.size} numbers are not so many equally long signals{named}"
        )
    return components
