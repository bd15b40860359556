"""Recorded accelerations from files: AT2 of the PEER strong-motion databases, and CSV.

An AT2 file has three lines of words, one with the number of samples and the step, and then the samples, in multiples of
the standard gravity. Its count is believed by nobody who has seen a file cut short: more or fewer numbers than it says
are a fault, told with the line. A CSV file has a header with units: a column of accelerations and either a column of
times or a step that is given. Whatever the file, a record is in m/s2 at a constant step.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tamis.errors import StudyError, nearest
from tamis.sheets import Sheet, read_csv
from tamis.signals import GRAVITY, resampled
from tamis.types import Array

UNITS = {
    "m/s2": 1.0,
    "m/s^2": 1.0,
    "m/s²": 1.0,
    "cm/s2": 0.01,
    "cm/s^2": 0.01,
    "cm/s²": 0.01,
    "gal": 0.01,
    "g": GRAVITY,
}
GENERATED = (
    Path(__file__).parent / "motion.csv"
)  # made by motions.filtered_noise: a default for who has no record
_HEADER = 4  # lines of an AT2 file before its numbers
_UNEVEN = 1e-3  # of a step: times are printed with a few digits


@dataclass(frozen=True)
class Record:
    """A recorded acceleration, in m/s2, from 0 s on at a constant step."""

    a: Array
    dt: float
    title: str = ""

    @property
    def t(self) -> Array:
        """Times of the samples, in s."""
        return self.dt * np.arange(len(self.a), dtype=float)

    @property
    def duration(self) -> float:
        """Time from the first to the last sample, in s."""
        return self.dt * (len(self.a) - 1)

    def at_step(self, dt: float) -> Record:
        """Return the record at another step, filtered before so that nothing is aliased."""
        return replace(self, a=resampled(self.a, self.dt, dt), dt=dt)


def read_record(
    path: Path | str,
    *,
    column: str | None = None,
    time: str | None = None,
    dt: float | None = None,
    unit: str | None = None,
) -> Record:
    """Read an accelerogram: AT2 by the ending of its name, else CSV.

    Parameters
    ----------
    column
        Of the accelerations, in a CSV file; where there is one besides the times, it need not be named.
    time
        Column of the times; by default that called ``t`` or ``time``, if any.
    dt
        The step, where no column gives times.
    unit
        Of the accelerations, where the header has none: m/s2, cm/s2, gal or g.
    """
    path = Path(path)
    if path.suffix.lower() == ".at2":
        if column or time or dt or unit:
            raise StudyError(
                f"{path.name}: an AT2 file says its own step and unit; give no column, time, dt or unit"
            )
        return _read_at2(path)
    return _read_csv(path, column, time, dt, unit)


def _read_at2(path: Path) -> Record:
    try:
        lines = path.read_text(encoding="latin-1").splitlines()
    except FileNotFoundError:
        beside = [other.name for other in path.parent.glob("*.[aA][tT]2")] if path.parent.is_dir() else []
        raise StudyError(f'no record "{path}"{nearest(path.name, beside)}') from None
    except OSError as error:
        raise StudyError(f'"{path}" cannot be read: {error}') from error
    if len(lines) < _HEADER:
        raise StudyError(
            f"{path.name} ends at line {len(lines)}: expected {_HEADER} lines of header and the accelerations"
        )
    count, dt = _count_and_step(path.name, lines[_HEADER - 1])
    numbers: list[float] = []
    for i, line in enumerate(lines[_HEADER:], _HEADER + 1):
        try:
            numbers += map(float, line.split())
        except ValueError:
            raise StudyError(f'{path.name}, line {i}: expected numbers, found "{line.strip()}"') from None
        if len(numbers) > count:
            raise StudyError(
                f"{path.name}, line {i}: more than the {count} accelerations that line {_HEADER} says (NPTS)"
            )
    if len(numbers) < count:
        raise StudyError(
            f"{path.name} ends at line {len(lines)} after {len(numbers)} accelerations, "
            f"line {_HEADER} says {count} (NPTS): the file was cut short; fetch it again"
        )
    if not np.isfinite(numbers).all():
        raise StudyError(f"{path.name}: an acceleration is not a finite number")
    return Record(GRAVITY * np.array(numbers), dt, lines[1].strip())


def _count_and_step(name: str, line: str) -> tuple[int, float]:
    """Return what the fourth line says: ``NPTS= 5372, DT= .0100 SEC``, or the two numbers alone as in older files."""
    found = re.search(r"NPTS\s*=\s*(\d+)\s*,?\s*DT\s*=\s*([0-9.Ee+-]+)", line, re.IGNORECASE)
    found = found or re.match(r"\s*(\d+)\s+([0-9.Ee+-]+)", line)
    try:
        count, dt = (int(found[1]), float(found[2])) if found else (0, 0.0)
    except ValueError:
        count, dt = 0, 0.0
    if count < 2 or not dt > 0:
        raise StudyError(
            f'{name}, line {_HEADER}: expected "NPTS= count, DT= step SEC", found "{line.strip()}"'
        )
    return count, dt


def times_of(path: Path | str, time: str | None = None) -> str | None:
    """Return the column of times of a CSV file: the one given, or that called ``t`` or ``time``; None without."""
    return _times(read_csv(path), time)


def _times(sheet: Sheet, time: str | None) -> str | None:
    return time or next((name for name in sheet.cells if name.lower() in ("t", "time")), None)


def _read_csv(path: Path, column: str | None, time: str | None, dt: float | None, unit: str | None) -> Record:
    sheet = read_csv(path)
    time = _times(sheet, time)
    if time is None and dt is None:
        raise StudyError(
            f"{path.name} has no column t or time; name the column of times (time; --time of tamis motions), or give "
            "the step (dt; --dt)"
        )
    if time is not None and dt is not None:
        raise StudyError(
            f'{path.name} has times, column "{time}", and a step dt = {dt:g} was given: one of them is too many'
        )
    others = [name for name in sheet.cells if name != time]
    if column is None and len(others) != 1:
        raise StudyError(
            f"{path.name} has {len(others)} columns besides the times; name the one to read: {', '.join(others)}"
        )
    column = column or others[0]
    if dt is not None and not dt > 0:
        raise StudyError(f"{path.name}: the step must be positive, found dt = {dt:g} s")
    a = sheet.numbers(column) * _factor(sheet, column, unit)
    if len(a) < 2:
        raise StudyError(f"{path.name}: expected at least two accelerations, found {len(a)}")
    return Record(a, dt if dt is not None else _constant_step(sheet, str(time)), path.stem)


def _factor(sheet: Sheet, column: str, unit: str | None) -> float:
    said = sheet.units.get(column) or unit
    if said is None:
        raise StudyError(
            f'{sheet.path.name} gives column "{column}" no unit; write it in the header, {column} [m/s2], or give unit'
        )
    if unit and sheet.units.get(column, unit) != unit:
        raise StudyError(
            f'{sheet.path.name} gives "{column}" in "{sheet.units[column]}", and unit = "{unit}" was given'
        )
    if said.lower() not in UNITS:
        raise StudyError(f'{sheet.path.name}: "{said}" is no unit of an acceleration{nearest(said, UNITS)}')
    return UNITS[said.lower()]


def _constant_step(sheet: Sheet, time: str) -> float:
    if sheet.units.get(time, "s") != "s":
        raise StudyError(
            f'{sheet.path.name}: times are expected in s, found column "{time}" in "{sheet.units[time]}"'
        )
    t = sheet.numbers(time)
    step = (t[-1] - t[0]) / max(len(t) - 1, 1)
    steps = np.diff(t)
    if not (len(t) > 1 and step > 0):
        raise StudyError(f'{sheet.path.name}: times, column "{time}", do not increase')
    digits = 1e-12 * np.abs(t).max() + _UNEVEN * step
    uneven = np.flatnonzero(np.abs(t - (t[0] + step * np.arange(len(t)))) > digits)
    if len(uneven):
        i = int(np.argmax(np.abs(steps - np.median(steps))))
        raise StudyError(
            f"{sheet.path.name}, line {sheet.lines[i + 1]}: the step is not constant, {steps[i]:g} s here and "
            f"{np.median(steps):g} s elsewhere; resample the record to a constant one"
        )
    return float(step)
