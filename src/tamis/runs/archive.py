"""Runs as plain files: out of a store, and into one.

A table has one row a run. Its columns are called like the simulator's inputs and outputs; ``input:x`` and
``output:x`` say which where ``x`` alone would not. Numbers are written so that they read back to the last bit.
Arrays of one length are a small table of their own, others the array file itself.

Bringing runs in is all or nothing: every row is read and checked before the first is written, because a
store half filled with wrong runs is worse than none. A fault that many rows share is said once. The arrays
are read once more for writing, so that a large import needs no more memory than its largest run. Files that a
table names must lie in its folder.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from tamis.errors import SimulationError, StudyError, nearest
from tamis.runs.keys import digest, spelled, with_defaults
from tamis.runs.store import STATUSES, Damaged, Run, RunStore, Status, read_arrays
from tamis.sheets import Row, number, read_rows, sheet_of
from tamis.simulation import Simulator, complete
from tamis.types import Inputs, Outputs, Value

RECORD = ("key", "simulator", "version", "status", "seconds", "error", "file")
KEY = re.compile("[0-9a-f]{32}")
_SHOWN = 10  # faults of a table that are listed
_README = """\
Runs of a simulator, written by `tamis export`.

runs.csv   one row a run: key, simulator, version, status, seconds, error, inputs, scalar outputs, file
status     done; failed: the physics said no; crashed: the program broke; timeout: it was too late;
           memory: it took too much
file       where the run's arrays are: a table with one column an output,
           or an .npz file (numpy.load) where their shapes differ
columns    input:x and output:x stand for x where the name alone would not be clear

Numbers are written exactly. `tamis import STUDY FOLDER` reads this folder.
"""


def export(
    store: RunStore, folder: Path, *, simulator: str | None = None, status: Status | None = None
) -> int:
    """Write runs as plain files to a new folder, and return how many; all or none are there at the end."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StudyError(f'"{folder}" exists and is not empty; name a new folder for the export')
    have = {name for name, _ in store.simulators()}
    if simulator is not None and simulator not in have:
        raise StudyError(f'no run of simulator "{simulator}" in "{store.root}"{nearest(simulator, have)}')
    runs = store.each(simulator=simulator, status=status)
    first = next(runs, None)
    if first is None:
        raise StudyError(f'"{store.root}" has no such run; nothing was written')
    part = folder.absolute().with_name(f".{folder.absolute().name}.{os.getpid()}.part")
    try:
        part.mkdir(parents=True)
        n = _write_table(part, (_exported(store, run, part) for run in chain([first], runs)))
        (part / "README.txt").write_text(_README, encoding="utf-8")
        os.replace(part, folder)
    except OSError as error:
        raise StudyError(f'cannot write "{folder}": {error.strerror}; nothing was written') from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return n


def _exported(store: RunStore, run: Run, folder: Path) -> dict[tuple[str, str], Any]:
    """Write a run's arrays, and return its row: role and name of a column to what it holds."""
    _check_key(run.key)
    row: dict[tuple[str, str], Any] = {("", name): getattr(run, name) for name in RECORD[:-1]}
    if math.isnan(run.seconds):
        del row["", "seconds"]
    row |= {("input", name): value for name, value in run.inputs.items()}
    if run.status != "done":
        return row
    outputs = store.outputs(run.key)
    plain = all(array.dtype == np.float64 and array.ndim < 2 for array in outputs.values())
    columns = {name: array.tolist() for name, array in outputs.items() if array.ndim == 1}
    if not plain or len({len(column) for column in columns.values()}) > 1:
        row["", "file"] = f"{run.key}.npz"
        (folder / f"{run.key}.npz").write_bytes(store.content(run.key) or b"")
        return row | {("array", name): None for name in outputs}
    if columns:
        row["", "file"] = f"{run.key}.csv"
        _write_csv(folder / f"{run.key}.csv", list(columns), zip(*columns.values(), strict=True))
    scalars = {("output", name): float(array) for name, array in outputs.items() if array.ndim == 0}
    return row | scalars | {("array", name): None for name in columns}


def _check_key(key: str) -> None:
    """Refuse a key that is not one: it becomes the name of a file."""
    if not KEY.fullmatch(key):
        raise StudyError(f"expected the key of a run, 32 hexadecimal digits, found {key!r} in the index")


def _write_table(folder: Path, rows: Iterable[Mapping[tuple[str, str], Any]]) -> int:
    """Write rows whose columns are known when all have been seen; they wait in a file, for there may be a million."""
    every: dict[tuple[str, str], None] = {}
    n = 0
    waiting = folder / "rows.tmp"
    with waiting.open("w", encoding="utf-8") as file:
        for row in rows:
            every |= dict.fromkeys(row)
            file.write(json.dumps([[*column, value] for column, value in row.items()]) + "\n")
            n += 1
    inputs = [name for role, name in every if role == "input"]
    outputs = [name for role, name in every if role == "output"]
    clear = {*inputs} - {*RECORD} - {name for role, name in every if role in ("output", "array")}
    titles = {("", name): name for name in RECORD[:-1]}
    titles |= {("input", name): name if name in clear else f"input:{name}" for name in inputs}
    taken = {*inputs, *RECORD}
    titles |= {("output", name): f"output:{name}" if name in taken else name for name in outputs}
    titles["", "file"] = "file"
    with waiting.open(encoding="utf-8") as file:
        table = ({(role, name): value for role, name, value in json.loads(line)} for line in file)
        cells = ([row.get(column, "") for column in titles] for row in table)
        _write_csv(folder / "runs.csv", list(titles.values()), cells)
    waiting.unlink()
    return n


def _write_csv(path: Path, header: Sequence[str], rows: Any) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)  # it writes numbers by repr, which reads back exactly
        writer.writerow(header)
        writer.writerows(rows)


@dataclass(frozen=True)
class Imported:
    """What an import did, and where the inputs came from that the table does not give."""

    keys: tuple[str, ...]
    added: int
    replaced: int
    failed: int
    fixed: tuple[str, ...]
    defaults: tuple[str, ...]


@dataclass(frozen=True)
class _Row:
    line: int
    run: Run
    scalars: Mapping[str, float]
    file: Path | None


class _Table:
    """A table of runs being read: what its columns mean, and the faults found so far."""

    def __init__(
        self,
        path: Path,
        simulator: Simulator,
        fixed: Inputs,
        base: Path,
        named: Mapping[str, str],
        max_output: float,
    ) -> None:
        self.path = path
        self.simulator = simulator
        self.fixed = fixed
        self.base = base
        self.named = named
        self.most = max_output * 1e6
        self.faults: dict[str, list[int]] = {}  # what is wrong, and on which lines
        header, self.lines = _read_table(path)
        self.used = set(header)
        self.columns = [self._meaning(title) for title in header]
        self.inputs = [name for role, name in self.columns if role == "input"]
        self._check_once([column for column in self.columns if column[1]])
        if ("", "file") not in self.columns:
            self.check_map()

    def blame(self, text: str, line: int) -> None:
        """Note a fault of a row."""
        self.faults.setdefault(text, []).append(line)

    def _check_once(self, columns: Sequence[tuple[str, str]]) -> None:
        for role, name in sorted({column for column in columns if columns.count(column) > 1}):
            self.blame(f"two columns give {role or 'column'} {name}", 1)

    def check_map(self) -> None:
        """Refuse a map of columns that were met nowhere; often it is the wrong way round."""
        ports = {*self.simulator.inputs, *self.simulator.outputs}
        for column in sorted(self.named.keys() - self.used):
            name = self.named[column]
            swapped = column in ports and name in self.used - ports
            order = f"; the order is column=name, did you mean {name}={column}?"
            hint = order if swapped else nearest(column, self.used)
            raise StudyError(f'--map: the table has no column "{column}"{hint}')

    def _meaning(self, title: str) -> tuple[str, str]:
        """Return what a column holds: its role and its name, both empty if it is to be left out."""
        meant = self.named.get(title, title)
        said = f"--map {title}={meant}: " if title in self.named else ""
        role, colon, name = meant.partition(":")
        ports = {"input": self.simulator.inputs, "output": self.simulator.outputs}
        if colon and role in ports:
            if name in ports[role]:
                return role, name
            self.blame(f'{said}no {role} "{name}"{nearest(name, ports[role])}', 1)
            return "", ""
        if meant in RECORD:
            return "", meant
        roles = [role for role, names in ports.items() if meant in names]
        if len(roles) == 1:
            return roles[0], meant
        valid = [*ports["input"], *ports["output"], *RECORD]
        if roles:
            self.blame(f'{said}"{meant}" is an input and an output; write input:{meant} or output:{meant}', 1)
        elif said and meant:
            self.blame(f'{said}no input or output "{meant}"{nearest(meant, valid)}', 1)
        elif meant:
            how = f"(--map {title}=NAME says what it is, --map {title}= leaves it out)"
            self.blame(f'unknown column "{title}"{nearest(title, valid)} {how}', 1)
        return "", ""

    def rows(self) -> Iterator[_Row]:
        """Yield the sound rows; the others are among the faults."""
        for line, cells in self.lines:
            try:
                if len(cells) != len(self.columns):
                    raise StudyError(f"expected {len(self.columns)} cells, found {len(cells)}")
                yield self._row(line, dict(zip(self.columns, cells, strict=True)))
            except (StudyError, SimulationError, OSError) as error:
                self.blame(str(error), line)

    def _row(self, line: int, cells: Mapping[tuple[str, str], str]) -> _Row:
        said = {name: cells.get(("", name), "") for name in RECORD}
        status = said["status"] or ("failed" if said["error"] else "done")
        if status not in STATUSES:
            raise StudyError(f'no status "{status}"{nearest(status, STATUSES)}')
        for name, mine in (("simulator", self.simulator.name), ("version", self.simulator.version)):
            if said[name] not in ("", mine):
                raise StudyError(
                    f"a run of {name} {said[name]}, but the study's is {mine}; delete the columns {name} and "
                    "key if the run may count as one of these"
                )
        given = {
            name: self._value(name, text) for (role, name), text in cells.items() if role == "input" and text
        }
        inputs = (complete if status == "done" else with_defaults)(self.simulator, {**self.fixed, **given})
        key = digest(self.simulator.name, self.simulator.version, spelled(self.simulator, inputs))
        if said["key"] not in ("", key):
            raise StudyError(f"key {said['key']} is not that of these inputs; delete the column key")
        seconds = number("seconds", said["seconds"]) if said["seconds"] else math.nan
        scalars = {
            name: number(name, text) for (role, name), text in cells.items() if role == "output" and text
        }
        file = self._inside(said["file"]) if said["file"] else None
        run = Run(key, self.simulator.name, self.simulator.version, inputs, status, seconds, said["error"])
        row = _Row(line, Run(**{**vars(run), "code": "imported"}), scalars, file)
        self.outputs(row)
        return row

    def _value(self, name: str, text: str) -> Value:
        port = self.simulator.inputs[name]
        if port.kind == "number":
            try:
                return int(text)
            except ValueError:
                return number(name, text, finite=False)
        return str((self.base / text).resolve()) if port.kind == "file" and text else text

    def _inside(self, name: str) -> Path:
        folder = self.path.parent.resolve()
        path = (folder / name).resolve()
        if Path(name).is_absolute() or ".." in Path(name).parts or not path.is_relative_to(folder):
            raise StudyError(f'file "{name}" is not inside "{self.path.parent}"')
        if not path.is_file():
            raise StudyError(f'no file "{name}" in "{self.path.parent}"')
        return path

    def outputs(self, row: _Row) -> Outputs:
        """Return the outputs of a row: all that the simulator declares, finite, or none if the run failed."""
        found: dict[str, np.ndarray[Any, Any]] = {
            name: np.array(value) for name, value in row.scalars.items()
        }
        arrays = self._read_file(row.file) if row.file else {}
        twice = sorted(found.keys() & arrays.keys())
        if twice:
            raise StudyError(f"output {twice[0]} is both a column and in the file")
        found |= arrays
        if row.run.status != "done":
            if found:
                raise StudyError(f"a run with status {row.run.status} has no outputs; leave them empty")
            return {}
        lacking = [name for name in self.simulator.outputs if name not in found]
        if lacking:
            raise StudyError(
                f"no value for {counted(len(lacking), 'output')}: {', '.join(lacking)}; every output of "
                f"{self.simulator.name} is needed, as a column or in the file that the column `file` names"
            )
        for name in self.simulator.outputs:
            if found[name].dtype.kind not in "fiu":
                raise StudyError(f"output {name} is {_kind(found[name].dtype)}, expected numbers")
            if not np.isfinite(found[name]).all():
                raise StudyError(f'output "{name}" is not finite everywhere; give status failed and an error')
        return {name: found[name] for name in self.simulator.outputs}

    def _read_file(self, path: Path) -> dict[str, np.ndarray[Any, Any]]:
        if path.suffix == ".npz":
            arrays = _read_npz(path, self.most)
        elif path.suffix == ".csv":
            sheet = sheet_of(path, *_read_table(path))
            arrays = {title: sheet.numbers(title) for title in sheet.cells}
        else:
            raise StudyError(f'"{path.name}": expected a .csv or .npz file')
        found = {}
        for title, array in arrays.items():
            self.used.add(title)
            name = self.named.get(title, title).removeprefix("output:")
            if name and name not in self.simulator.outputs:
                raise StudyError(f'{path.name}: no output "{name}"{nearest(name, self.simulator.outputs)}')
            if name in found:
                raise StudyError(f"{path.name}: two columns give output {name}")
            if name:
                found[name] = array
        return found

    def fail(self) -> None:
        """Raise if there are faults."""
        if self.faults:
            shown = [f"{_lines(lines)}: {text}" for text, lines in self.faults.items()][:_SHOWN]
            more = [f"and {len(self.faults) - _SHOWN} more"] if len(self.faults) > _SHOWN else []
            raise StudyError("\n  ".join([f'"{self.path}": nothing was imported', *shown, *more]))


def _lines(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    more = f" and {len(numbers) - 3} more" if len(numbers) > 3 else ""
    return f"lines {', '.join(map(str, numbers[:3]))}{more}"


def counted(number: int, what: str) -> str:
    """Return a number of things in words: 1 run, 2 runs."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _read_table(path: Path) -> tuple[list[str], list[Row]]:
    """Return titles and rows; nothing is a comment, as a run may be called ``#1``."""
    rows = read_rows(path, comment="")
    if not rows:
        raise StudyError(f'"{path}" is empty; expected a row of names, then one row a run')
    return rows[0].cells, rows[1:]


def _read_npz(path: Path, most: float) -> dict[str, np.ndarray[Any, Any]]:
    try:
        return dict(read_arrays(path, most=most))
    except Damaged as error:
        raise StudyError(f"{path.name} is not a plain .npz file: {error}") from error
    except StudyError as error:
        raise StudyError(f"{path.name}: {error}; raise max_output") from error


def _kind(dtype: np.dtype[Any]) -> str:
    """Say what an array holds instead of numbers."""
    kinds = {
        "c": "complex",
        "U": "text",
        "S": "text",
        "V": "a table of its own",
        "M": "dates",
        "m": "durations",
    }
    return kinds.get(dtype.kind, "true or false" if dtype.kind == "b" else f"of type {dtype}")


def import_runs(
    simulator: Simulator,
    source: Path,
    store: RunStore,
    *,
    fixed: Inputs,
    base: Path,
    named: Mapping[str, str],
    replace: bool = False,
    max_output: float = 256.0,
) -> Imported:
    """Bring a table of existing runs, or a folder with ``runs.csv``, into a store; all of it or nothing.

    Parameters
    ----------
    fixed
        Inputs that the table need not give; the others have the simulator's defaults.
    base
        Folder from which file names among the inputs start.
    named
        What columns mean that are called otherwise: the name of an input or output, ``input:x`` or ``output:x``
        where it is both, or nothing to leave one out.
    replace
        Replace runs that the store already has with other outputs, which are refused otherwise.
    max_output
        Megabytes that the arrays of one run may take.
    """
    path = source / "runs.csv" if source.is_dir() else source
    table = _Table(path, simulator, fixed, base, named, max_output)
    table.fail()
    rows: dict[str, _Row] = {}
    for row in table.rows():
        first = rows.setdefault(row.run.key, row)
        if first is not row and not alike(table.outputs(first), table.outputs(row)):
            table.blame(f"the inputs of line {first.line} with other outputs", row.line)
    table.fail()
    table.check_map()
    with store.lock():
        old = store.recover(list(rows))
        todo = [row for key, row in rows.items() if key not in old or _differs(table, row, old[key], store)]
        over = [row for row in todo if row.run.key in old]
        if not replace:
            for row in over:
                if old[row.run.key].status == "done":
                    table.blame(
                        "the store has this run with other outputs; --replace prefers the table's", row.line
                    )
            table.fail()
        for row in todo:
            store.add(row.run, table.outputs(row))
    lacking = [name for name in simulator.inputs if name not in table.inputs]
    return Imported(
        keys=tuple(rows),
        added=len(todo) - len(over),
        replaced=len(over),
        failed=sum(row.run.status != "done" for row in rows.values()),
        fixed=tuple(name for name in lacking if name in fixed),
        defaults=tuple(name for name in lacking if name not in fixed),
    )


def _differs(table: _Table, row: _Row, old: Run, store: RunStore) -> bool:
    """Return whether a row is another outcome than the store's; two failures are not."""
    if old.status != "done" or row.run.status != "done":
        return (old.status == "done") != (row.run.status == "done")
    return not alike(table.outputs(row), store.outputs(old.key))


def alike(a: Outputs, b: Outputs) -> bool:
    """Return whether outputs are the same to the last bit."""
    return a.keys() == b.keys() and all(
        (a[name].dtype, a[name].shape, a[name].tobytes()) == (b[name].dtype, b[name].shape, b[name].tobytes())
        for name in a
    )
