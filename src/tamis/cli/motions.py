"""The verb about recorded ground motions: what they measure, and the parameters of the stochastic model behind them."""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tamis.cli import DONE
from tamis.cli.terminal import say, table
from tamis.errors import StudyError
from tamis.files import replacing
from tamis.observables import MEASURES
from tamis.signals import MEASURES as TAKEN
from tamis.signals import arias_times, response_spectrum
from tamis.sim.common.records import Record, read_record, times_of
from tamis.sim.motions import drive
from tamis.sim.motions.identify import NAMES, Fitted, fit
from tamis.sim.motions.simulators import filtered_noise
from tamis.types import Array

if TYPE_CHECKING:
    from tamis.report.motions import Motion as Drawn

_SHOWN = ("pga", "pgv", "arias", "cav", "d5_95", "t45")
_PERIODS = np.geomspace(0.05, 5.0, 60)
_DRAWN = 200  # motions of a figure


def describe(arguments: argparse.Namespace) -> int:
    """Read records, print measures and parameters; of a set, priors that hold it and correlations."""
    if arguments.figure:
        from tamis.report.style import check_figure_path

        check_figure_path(arguments.figure, "figure")
    timed = [_timed(path, arguments) for path in arguments.files]
    if arguments.dt is not None and all(timed):
        raise StudyError("--dt: every file gives its own times; remove it")
    records = [
        _record(path, arguments, None if own else arguments.dt)
        for path, own in zip(arguments.files, timed, strict=True)
    ]
    units = [MEASURES[how] for how in _SHOWN]
    rows = [
        (
            path.name,
            f"{r.duration:.1f} s",
            f"{r.dt:g} s",
            *(f"{float(TAKEN[how](r.a, r.dt)):.3g}" for how in _SHOWN),
        )
        for path, r in zip(arguments.files, records, strict=True)
    ]
    table(
        ("record", "length", "step", *(f"{how} [{unit}]" for how, unit in zip(_SHOWN, units, strict=True))),
        rows,
    )
    fitted = fit((r.a, r.dt) for r in records)
    say("\nParameters of motions.filtered_noise:")
    table(("record", *NAMES), _numbered([path.name for path in arguments.files], fitted.values))
    if len(records) > 1:
        _print_set(fitted)
    if arguments.csv:
        _write_csv(arguments.csv, [path.name for path in arguments.files], fitted)
    if arguments.figure:
        _draw(arguments.figure, records, fitted)
    return DONE


def _timed(path: Path, arguments: argparse.Namespace) -> bool:
    """Return whether a file says when its samples were taken, so that --dt is for others."""
    return path.suffix.lower() == ".at2" or (
        arguments.dt is not None and times_of(path, arguments.time) is not None
    )


def _record(path: Path, arguments: argparse.Namespace, dt: float | None) -> Record:
    given = {"column": arguments.column, "time": arguments.time, "dt": dt, "unit": arguments.unit}
    record = read_record(path) if path.suffix.lower() == ".at2" else read_record(path, **given)
    return record if arguments.step is None else record.at_step(arguments.step)


def _numbered(names: list[str], values: Array) -> list[tuple[str, ...]]:
    return [(name, *(f"{value:.4g}" for value in row)) for name, row in zip(names, values, strict=True)]


def _print_set(fitted: Fitted) -> None:
    say("\nUniform priors that hold all of them:\n\n[parameters]")
    ports = filtered_noise.inputs
    for name, (low, high) in zip(NAMES, fitted.bounds, strict=True):
        unit = f', unit = "{ports[name].unit}"' if ports[name].unit else ""
        say(f'{name} = {{ prior = "uniform", low = {low:.4g}, high = {high:.4g}{unit} }}')
    if len(fitted.values) > 2:
        say("\nLinear correlation:")
        table(("", *NAMES), _numbered(list(NAMES), np.round(fitted.correlation, 2)))


def _write_csv(path: Path, names: list[str], fitted: Fitted) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("record", *NAMES), *_numbered(names, fitted.values)])
    with replacing(path) as stream:
        stream.write(text.getvalue().encode())
    say(f"{path}: {len(names)} rows")


def _draw(path: Path, records: list[Record], fitted: Fitted) -> None:
    from tamis.report.motions import motion_figure, scatter_figure
    from tamis.report.style import write_figure

    if len(records) > 1:
        figure = scatter_figure(NAMES, fitted.values, fitted.correlation)
    else:
        figure = motion_figure(_beside(records[0], fitted.values[0]))
    write_figure(figure, path, "motions")
    say(f"{path}: written")


def _beside(record: Record, values: Array) -> Drawn:
    """Return a record with motions of its parameters, for the figure."""
    from tamis.report.motions import Motion

    given = {name: np.full(_DRAWN, value) for name, value in zip(NAMES, values, strict=True)}
    noise = drive.noise(np.arange(_DRAWN), len(record.a))
    made = drive.modulated({**given, "floor": np.full(_DRAWN, 0.3)}, noise, record.dt)
    end = int(arias_times(record.a, record.dt, (0.995,))[0] / record.dt) + 1
    spectra = [response_spectrum(a, record.dt, _PERIODS) for a in (record.a, made["a"])]
    signals = (record.t[:end], record.a[:end], made["q"][0, :end], made["a"][0, :end])
    return Motion(record.title, *signals, _PERIODS, *spectra)
