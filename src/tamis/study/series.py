"""Experiments and predictions of a study file, gathered into series: what is drawn in one picture belongs together.

A single test, the rows of a table of tests, or the conditions of a sweep: each is one series of experiments
that differ in at most one condition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tamis.errors import StudyError, nearest
from tamis.experiment import Experiment, Observation, imposed
from tamis.observables import SCALARS
from tamis.sheets import Sheet, read_csv
from tamis.simulation import Simulator
from tamis.space import Space
from tamis.study.noises import Noises, Observed, Place, Places
from tamis.study.reader import Raw, emulates_loglike, emulates_observables
from tamis.study.schema import ExperimentTable, NextTable, ObserveTable, PredictTable, StudyFile
from tamis.study.stretches import Stretches, bands_of, cell, levels
from tamis.study.taking import Taking, named
from tamis.types import Array, Inputs, Value

Fault = Callable[[str, str], StudyError]
Use = Literal["calibrate", "validate", "predict", "next"]


@dataclass(frozen=True)
class Series:
    """Experiments that are drawn together: one test, a table of tests, a sweep over a condition."""

    name: str
    use: Use
    experiments: tuple[Experiment, ...]
    along: str = ""  # the condition that varies
    values: tuple[float, ...] = ()
    overlay: tuple[Array, ...] = ()  # (k, 3) per observation: data shown beside a prediction
    where: Mapping[str, tuple[float, float]] | None = None
    draws: int | None = None  # None: as many as the simulator's speed allows
    synthetic: bool = False
    emulate: bool = False  # a surrogate answers instead of the simulator
    part: str = ""  # the data it is calibrated with, where a study is split
    limits: tuple[float, ...] = ()  # one per observation, NaN where none: the level not to be exceeded

    @property
    def designed(self) -> bool:
        """Whether its experiments are run at the points of the design."""
        return self.use in ("calibrate", "validate") or self.emulate


class Builder(Taking):
    """Build the series of one study file."""

    def __init__(
        self, fail: Fault, raw: Raw, simulator: Simulator, space: Space, fixed: Inputs, places: Places
    ) -> None:
        super().__init__(fail, raw, simulator)
        self.space = space
        self.fixed = fixed
        self.places = places
        self.noises = Noises(fail, raw, simulator, space, fixed, places)

    def series(self, file: StudyFile) -> tuple[Series, ...]:
        """Build every experiment and prediction."""
        found = [
            self._emulated(f"experiment[{i}]", table, self._experiment(f"experiment[{i}]", table))
            for i, table in enumerate(file.experiment)
        ]
        found += [
            self._emulated(f"predict[{i}]", table, self._predict(f"predict[{i}]", table))
            for i, table in enumerate(file.predict)
        ]
        found += [
            self._emulated(f"next[{i}]", table, self._undone(f"next[{i}]", table, "next"))
            for i, table in enumerate(file.next)
        ]
        found = split(found, file.inference.split)
        names = [s.name for s in found]
        for name in names:
            if names.count(name) > 1:
                raise self.fail(
                    "experiment", f'two experiments or predictions are called "{name}"; rename one'
                )
        return tuple(found)

    def _emulated(
        self, where: str, table: ExperimentTable | PredictTable | NextTable, series: Series
    ) -> Series:
        """Say who answers: the surrogate where the likelihood uses it too, else the simulator unless asked."""
        exists = emulates_observables(self.raw)
        if table.emulate and not exists:
            message = 'needs a surrogate: [surrogate] method = "pce" or "kriging"'
            of = ' with target = "observables"' if emulates_loglike(self.raw) else ""
            raise self.fail(f"{where}.emulate", message + of)
        return replace(
            series, emulate=exists and (table.emulate or series.use == "calibrate"), draws=table.draws
        )

    def _experiment(self, where: str, table: ExperimentTable) -> Series:
        if table.table is not None:
            return self._rows(where, table)
        if not table.name:
            raise self.fail(f"{where}.name", "missing; name the test (or give a table of tests)")
        conditions = self._conditions(where, table.conditions)
        observed = self._observations(where, table.observe, table.synthetic, conditions)
        draft = Experiment(table.name, conditions, observed, table.use)
        limits = _limits(table.observe)
        if table.synthetic is None:
            return Series(table.name, table.use, (draft,), limits=limits)
        made = self._synthesise(where, table, draft)
        return Series(table.name, table.use, (made,), synthetic=True, limits=limits)

    def _rows(self, where: str, table: ExperimentTable) -> Series:
        if table.synthetic is not None:
            raise self.fail(
                f"{where}.synthetic", "a table of tests has measurements; give a numerical experiment by name"
            )
        sheet = self._sheet(f"{where}.table", str(table.table))
        name = table.name or sheet.path.stem
        columns = {key: v for key, v in table.conditions.items() if isinstance(v, str) and v in sheet.cells}
        if not columns:
            message = (
                f"no condition names a column of {sheet.path.name}; valid names: {', '.join(sheet.cells)}"
            )
            raise self.fail(f"{where}.conditions", message)
        for key, column in columns.items():
            self._same_unit(
                f"{where}.conditions.{key}", sheet, column, self._port(where, key).unit, f"input {key}"
            )
        signals = any(o.how == "bands" for o in table.observe)
        readers = [
            self._stretches(f"{where}.observe[{j}]", sheet, table, o, columns)
            for j, o in enumerate(table.observe)
        ]
        tests = []
        for row in range(len(sheet)):
            imposed = {
                **table.conditions,
                **{k: self._cell(where, sheet, c, row, k) for k, c in columns.items()},
            }
            conditions = self._conditions(where, imposed)
            observed = tuple(
                self._row_observation(f"{where}.observe[{j}]", sheet, row, o, conditions, reader)
                for j, (o, reader) in enumerate(zip(table.observe, readers, strict=True))
            )
            title = ", ".join(f"{key} = {imposed[key]}" for key in columns)
            tests.append(Experiment(f"{name}: {title}", conditions, observed, table.use))
        along = next((key for key in columns if self._port(where, key).kind == "number" and not signals), "")
        values = tuple(float(t.conditions[along]) for t in tests) if along else ()
        return Series(name, table.use, tuple(tests), along, values, limits=_limits(table.observe))

    def _cell(self, where: str, sheet: Sheet, column: str, row: int, name: str) -> Value:
        with self._at(f"{where}.conditions.{name}"):
            return cell(self.raw.base, sheet, row, column, self.simulator.inputs[name].kind)

    def _stretches(
        self,
        where: str,
        sheet: Sheet,
        table: ExperimentTable,
        observe: ObserveTable,
        columns: Mapping[str, str],
    ) -> Stretches | None:
        """Return how rows that name a file of signals each are read; None for a column of numbers."""
        if observe.how != "bands":
            return None
        if observe.data is None:
            message = f"missing; name the column of {sheet.path.name} that names each test's file of signals"
            raise self.fail(f"{where}.data", message)
        with self._at(f"{where}.data"):
            sheet.text(observe.data)
        rest = {
            k: v
            for k, v in self._conditions(where, table.conditions, leave=columns).items()
            if k not in columns
        }
        model = self._observable(where, observe, None)
        outputs = {name: self._output(where, name).unit for name in model.needs}
        kinds = {name: self._port(where, name).kind for name in columns}
        return Stretches(self.raw.base, dict(columns), kinds, rest, observe.data, model, outputs)

    def _row_observation(
        self,
        where: str,
        sheet: Sheet,
        row: int,
        table: ObserveTable,
        conditions: Inputs,
        reader: Stretches | None,
    ) -> Observation:
        if reader is not None:
            with self._at(f"{where}.data"):
                y = reader.measured(sheet, row)
            coord = bands_of(reader.observable).coord
            observed = Observed(
                f"{where}, row {row + 1}", reader.observable, len(y), coord, conditions, 1, reader
            )
            noise = self.noises.build(
                where, table.noise, self._expected(where, table, len(y)), observed, required=True
            )
            return Observation(observed.observable, y[None], noise, coord, named(table), table.group)
        if table.how not in SCALARS:
            has = 'a table of tests holds one number a test, or names a file of signals a test: how = "bands"'
            raise self.fail(f"{where}.how", f"{has}{nearest(table.how, SCALARS)}")
        columns = [table.y] if isinstance(table.y, str) else table.y or []
        if not columns:
            raise self.fail(
                f"{where}.y", f"missing; name the column of {sheet.path.name} that holds the measurements"
            )
        unit = self._unit(where, table)
        for column in columns:
            self._same_unit(f"{where}.y", sheet, column, unit, f"output {table.output}")
        y = np.array([[self._numbers(f"{where}.y", sheet, column, missing=True)[row]] for column in columns])
        sd = self._known(where, table, sheet)
        mine = None if sd is None else sd[row : row + 1]
        place = f"{where}, row {row + 1}"
        observed = Observed(place, self._observable(where, table, None), 1, None, conditions)
        noise = self.noises.build(where, table.noise, mine, observed, required=True)
        return Observation(observed.observable, y, noise, None, named(table), table.group)

    def _predict(self, where: str, table: PredictTable) -> Series:
        """Build experiments nobody has done, with the data to be shown beside them."""
        for j, o in enumerate(table.observe):
            if "group" in o.model_fields_set:
                message = "groups are parts of the data to calibrate with; a prediction is of none: remove it"
                raise self.fail(f"{where}.observe[{j}].group", message)
        series = self._undone(where, table, "predict")
        overlay = [
            self._overlay(f"{where}.observe[{j}]", o, series.along) for j, o in enumerate(table.observe)
        ]
        for name, bounds in table.where.items():
            if name not in self.space.names:
                raise self.fail(
                    f"{where}.where.{name}", f'no parameter "{name}"{nearest(name, self.space.names)}'
                )
            if len(bounds) != 2 or bounds[0] >= bounds[1]:
                raise self.fail(f"{where}.where.{name}", f"expected [low, high], found {bounds}")
        inside = {name: (float(low), float(high)) for name, (low, high) in table.where.items()}
        return replace(series, overlay=tuple(overlay), where=inside, limits=_limits(table.observe))

    def _undone(self, where: str, table: PredictTable | NextTable, use: Use) -> Series:
        """Build experiments nobody has done; of those that might be, the error must be given."""
        conditions = self._conditions(where, table.conditions)
        along, values = self._sweep(f"{where}.sweep", table, conditions)
        observed = self._unmeasured(where, table, conditions, required=use == "next")
        points: list[dict[str, Value]] = [{**conditions, along: v} for v in values] if along else [conditions]
        tests = tuple(Experiment(table.name, point, observed) for point in points)
        return Series(table.name, use, tests, along, values)

    def _unmeasured(
        self, where: str, table: PredictTable | NextTable, conditions: Inputs, *, required: bool
    ) -> tuple[Observation, ...]:
        """Build what is observed where there are no measurements."""
        found = []
        for j, o in enumerate(table.observe):
            place = f"{where}.observe[{j}]"
            coord = self._coord(place, o)
            m = 1 if coord is None else len(coord)
            for key in ("data", "x", "y", "group", "limit") if required else ():
                if getattr(o, key):
                    raise self.fail(
                        f"{place}.{key}", "a possible experiment has no measurements yet; remove it"
                    )
            known = self._expected(place, o, m) if required else None
            observed = Observed(place, self._observable(place, o, coord), m, coord, conditions)
            noise = self.noises.build(place, o.noise, known, observed, required=required)
            y = np.full(m, np.nan)
            found.append(Observation(observed.observable, y, noise, coord, named(o)))
        return tuple(found)

    def _expected(self, where: str, table: ObserveTable, m: int) -> Array | None:
        """Return the known error of measurements that have one for all."""
        if table.sd is None:
            return None
        if isinstance(table.sd, str) or table.sd <= 0:
            raise self.fail(f"{where}.sd", f"expected a positive number, found {table.sd!r}")
        return np.full(m, float(table.sd))

    def _sweep(
        self, where: str, table: PredictTable | NextTable, conditions: Inputs
    ) -> tuple[str, tuple[float, ...]]:
        """Return the condition that varies and its values, none where none does."""
        sweep = table.sweep
        if sweep is None:
            return "", ()
        self._conditions(where, {sweep.input: 0.0})
        if sweep.input in conditions:
            raise self.fail(where, f'"{sweep.input}" is also a condition; remove it there')
        if any(o.how not in SCALARS for o in table.observe):
            raise self.fail(where, f"a sweep observes single numbers: how = {', '.join(SCALARS)}")
        if sweep.values is not None:
            return sweep.input, tuple(float(v) for v in sweep.values)
        if sweep.start is None or sweep.stop is None or sweep.n is None:
            raise self.fail(where, "needs start, stop and n, or values")
        return sweep.input, tuple(np.linspace(sweep.start, sweep.stop, sweep.n).tolist())

    def _overlay(self, where: str, table: ObserveTable, along: str) -> Array:
        if table.data is None:
            return np.empty((0, 3))
        sheet = self._sheet(f"{where}.data", table.data)
        if table.x is None or not isinstance(table.y, str):
            raise self.fail(where, f"data to show need x and y, columns of {sheet.path.name}")
        abscissa = self.simulator.inputs[along].unit if along else self.simulator.outputs[table.along].unit
        self._same_unit(f"{where}.x", sheet, table.x, abscissa, along or table.along)
        self._same_unit(f"{where}.y", sheet, table.y, self._unit(where, table), table.output)
        sd = self._known(where, table, sheet)
        rows = np.column_stack(
            [
                self._numbers(f"{where}.x", sheet, table.x),
                self._numbers(f"{where}.y", sheet, table.y, missing=True),
                np.full(len(sheet), np.nan) if sd is None else sd,
            ]
        )
        measured: Array = rows[~np.isnan(rows[:, 1])]
        return measured

    def _observations(
        self, where: str, tables: Sequence[ObserveTable], synthetic: Any, conditions: Inputs
    ) -> tuple[Observation, ...]:
        return tuple(
            self._observation(f"{where}.observe[{j}]", o, synthetic is not None, conditions)
            for j, o in enumerate(tables)
        )

    def _observation(
        self, where: str, table: ObserveTable, synthetic: bool, conditions: Inputs
    ) -> Observation:
        label = named(table)
        if synthetic:
            coord = self._coord(where, table)
            y = np.full(1 if coord is None else len(coord), np.nan)
            observed = Observed(where, self._observable(where, table, coord), len(y), coord, conditions)
            noise = self.noises.build(where, table.noise, None, observed, required=True)
            return Observation(observed.observable, y, noise, coord, label, table.group)
        if table.data is None:
            raise self.fail(f"{where}.data", "missing; name the CSV file that holds the measurements")
        if table.how == "bands":
            return self._levels(where, table, conditions)
        sheet = self._sheet(f"{where}.data", table.data)
        columns = [table.y] if isinstance(table.y, str) else table.y or [table.output]
        unit = self._unit(where, table)
        for column in columns:
            self._same_unit(f"{where}.y", sheet, column, unit, f"output {table.output}")
        y = np.array([self._numbers(f"{where}.y", sheet, column, missing=True) for column in columns])
        if (np.isnan(y).any(axis=0) & ~np.isnan(y).all(axis=0)).any():
            message = f"{sheet.path.name}: a value missing in one replicate must be missing in all"
            raise self.fail(f"{where}.y", f"{message}; give the tests as separate experiments")
        coord = None
        if table.how not in SCALARS:
            x = table.x or table.along
            abscissa = self.simulator.outputs[table.along].unit if table.how == "at" else ""
            self._same_unit(f"{where}.x", sheet, x, abscissa, f"output {table.along}")
            coord = self._numbers(f"{where}.x", sheet, x)
        model = self._observable(where, table, coord)
        observed = Observed(where, model, len(y.T), coord, conditions, len(y))
        known = self._known(where, table, sheet)
        noise = self.noises.build(where, table.noise, known, observed, required=True)
        return Observation(observed.observable, y, noise, coord, label, table.group)

    def _levels(self, where: str, table: ObserveTable, conditions: Inputs) -> Observation:
        """Observe bands of signals that one file holds."""
        model = self._observable(where, table, None)
        outputs = {name: self._output(where, name).unit for name in model.needs}
        with self._at(f"{where}.data"):
            y, _ = levels(self.raw.base, str(table.data), model, outputs)
        coord = bands_of(model).coord
        observed = Observed(where, model, len(y), coord, conditions)
        noise = self.noises.build(
            where, table.noise, self._expected(where, table, len(y)), observed, required=True
        )
        return Observation(model, y[None], noise, coord, named(table), table.group)

    def _synthesise(self, where: str, table: ExperimentTable, draft: Experiment) -> Experiment:
        assert table.synthetic is not None
        for name in table.synthetic.inputs:
            self._port(f"{where}.synthetic.inputs", name)
        truth = imposed(self.fixed, draft.conditions, table.synthetic.inputs)
        field, what = f"{where}.synthetic", "the numerical experiment itself"
        rng = np.random.default_rng([table.synthetic.seed, 977])
        observed = []
        for j, o in enumerate(draft.observations):
            name = f"{where}.observe[{j}]"
            mine = Observed(name, o.observable, o.size, o.coord, draft.conditions)
            noise = self.noises.build(field, table.synthetic.noise, None, mine, required=False)
            exact = self.places.numbers(Place(name, field, what, truth, o.observable, o.size))
            y = o.y if exact is None else noise.draw(exact[None], {}, o.coord, rng)
            observed.append(replace(o, y=y))
        return replace(draft, observations=tuple(observed))

    def _known(self, where: str, table: ObserveTable, sheet: Sheet) -> Array | None:
        if table.sd is None:
            return None
        if isinstance(table.sd, str):
            sd = self._numbers(f"{where}.sd", sheet, table.sd)
            unit = self._unit(where, table)
            self._same_unit(f"{where}.sd", sheet, table.sd, unit, f"output {table.output}")
        else:
            sd = np.full(len(sheet), float(table.sd))
        if (sd <= 0).any():
            raise self.fail(f"{where}.sd", "standard deviations must be positive")
        return sd

    def _conditions(
        self, where: str, conditions: Mapping[str, Any], leave: Collection[str] = ()
    ) -> dict[str, Value]:
        full: dict[str, Value] = {}
        for name, value in conditions.items():
            port = self._port(where, name)
            if name in leave:
                continue
            if name in self.space.names:
                message = "is a condition and a parameter at once; it is either imposed or unknown"
                raise self.fail(f"{where}.conditions.{name}", message)
            if port.kind == "number" and isinstance(value, str):
                raise self.fail(f"{where}.conditions.{name}", f'expected a number, found "{value}"')
            full[name] = str((self.raw.base / str(value)).resolve()) if port.kind == "file" else value
        return full

    def _port(self, where: str, name: str) -> Any:
        if name not in self.simulator.inputs:
            message = (
                f'simulator {self.simulator.name} has no input "{name}"{nearest(name, self.simulator.inputs)}'
            )
            raise self.fail(f"{where}.{name}" if "inputs" in where else f"{where}.conditions.{name}", message)
        return self.simulator.inputs[name]

    def _sheet(self, where: str, name: str) -> Sheet:
        with self._at(where):
            return read_csv(self.raw.base / name)

    def _numbers(self, where: str, sheet: Sheet, column: str, *, missing: bool = False) -> Array:
        with self._at(where):
            return sheet.numbers(column, missing=missing)

    def _same_unit(self, where: str, sheet: Sheet, column: str, unit: str, what: str) -> None:
        with self._at(where):
            sheet.text(column)
        found = sheet.units.get(column, "")
        if found and unit and found != unit:
            message = f'{sheet.path.name} gives "{column}" in "{found}", but {what} is in "{unit}"; convert the column'
            raise self.fail(where, message)


def _limits(tables: Sequence[ObserveTable]) -> tuple[float, ...]:
    return tuple(np.nan if o.limit is None else float(o.limit) for o in tables)


def split(series: Sequence[Series], by: str) -> list[Series]:
    """Say which part of the data each series belongs to, taking series apart that belong to several.

    By experiment, every table of the file is a part. By group, observations of one ``group`` are, wherever they were
    measured; an observation that names none is a part by itself.
    """
    found: list[Series] = []
    for one in series:
        if by == "none" or one.use != "calibrate":
            found.append(one)
        elif by == "experiment":
            found.append(replace(one, part=one.name))
        else:
            found += _by_group(one)
    return found


def _by_group(series: Series) -> list[Series]:
    observations = series.experiments[0].observations
    names = [o.group or f"{series.name} {o.label}" for o in observations]
    found = []
    for part in dict.fromkeys(names):
        mine = [j for j, name in enumerate(names) if name == part]
        tests = tuple(
            replace(e, observations=tuple(e.observations[j] for j in mine)) for e in series.experiments
        )
        limits = tuple(series.limits[j] for j in mine)
        whole = len(mine) == len(names)
        alone = not observations[mine[0]].group  # its name begins with the test's
        name = series.name if whole else part if alone else f"{series.name}, {part}"
        found.append(replace(series, name=name, experiments=tests, part=part, limits=limits))
    return found
