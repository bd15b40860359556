"""What a study file takes of a run: its observables, their units and abscissae, and where in the file an error is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tamis.bands import Filtered, bands
from tamis.errors import StudyError, TamisError, nearest
from tamis.observables import MEASURES, SCALARS, SIGNALS, Observable, check_taken, load_custom
from tamis.simulation import Simulator
from tamis.study.reader import Raw
from tamis.study.schema import GridTable, ObserveTable
from tamis.study.stretches import bands_of
from tamis.types import Array

Fault = Callable[[str, str], StudyError]

_NAMES = {
    "peak_time": "time of the peak of {}",
    "max": "largest {}",
    "min": "least {}",
    "peak_abs": "largest |{}|",
    **{how: f"{how} of {{}}" for how in MEASURES},
    "response_spectrum": "response spectrum of {}",
    "bands": "levels of {}",
}


def named(table: ObserveTable) -> str:
    """Return the label of what is observed: that of the file, or what is taken of which output."""
    return table.label or _NAMES.get(table.how, "{}").format(", ".join([table.output, *table.also]))


class Taking:
    """Build the observables of one study file."""

    def __init__(self, fail: Fault, raw: Raw, simulator: Simulator) -> None:
        self.fail = fail
        self.raw = raw
        self.simulator = simulator

    def _observable(self, where: str, table: ObserveTable, coord: Array | None) -> Observable:
        for key, only in (("also", "bands"), ("bands", "bands")):
            if getattr(table, key) and table.how != only:
                raise self.fail(
                    f"{where}.{key}", f'is for how = "{only}", found how = "{table.how}"; remove it'
                )
        model = self._taken(where, table, coord)
        if table.filter is None:
            return model
        self._output(f"{where}.along", table.along)
        return Filtered(model, float(table.filter), table.along)

    def _taken(self, where: str, table: ObserveTable, coord: Array | None) -> Observable:
        port = self._output(where, table.output)
        with self._at(where):
            check_taken(table.how, table.output, port.unit, table.damping)
        if ".py:" in table.how:
            with self._at(f"{where}.how"):
                needs = tuple(self.simulator.outputs)
                return load_custom(table.how, self.raw.base, needs, port.unit, table.x or "")
        if table.how in SCALARS:
            times = {"along": table.along} if table.how in ("peak_time", *MEASURES) else {}
            return SCALARS[table.how](table.output, unit=self._unit(where, table), **times)
        self._check_how(where, table.how)
        self._output(f"{where}.along", table.along)
        if table.how == "bands":
            for name in table.also:
                self._output(f"{where}.also", name)
            with self._at(f"{where}.bands"):
                return bands(table.output, self._edges(where, table), table.also, table.along)
        options: dict[str, Any] = {"extend": table.extend} if table.how == "at" else {}
        if table.damping is not None:
            options = {"damping": float(table.damping)}
        with self._at(where):
            return SIGNALS[table.how](table.output, coord, along=table.along, unit=port.unit, **options)

    def _unit(self, where: str, table: ObserveTable) -> str:
        if table.how == "bands":
            return "dB"
        if table.how in MEASURES:
            return MEASURES[table.how]
        return str(self._output(where, table.along if table.how == "peak_time" else table.output).unit)

    def _coord(self, where: str, table: ObserveTable) -> Array | None:
        """Return the abscissae of what is observed where no data give them."""
        if table.how in SCALARS:
            return None
        if table.how == "bands":
            return bands_of(self._taken(where, table, None)).coord
        self._check_how(where, table.how)
        if table.times is None:
            raise self.fail(
                f"{where}.times", f'missing; how = "{table.how}" needs times = {{ start, stop, n }} or a list'
            )
        with self._at(f"{where}.times"):
            return _grid(table.times)

    def _edges(self, where: str, table: ObserveTable) -> Array:
        if table.bands is None:
            raise self.fail(
                f"{where}.bands",
                'missing; how = "bands" needs bands = { start, stop, n } or a list of edges in Hz',
            )
        return _grid(table.bands, more=1)

    def _check_how(self, where: str, how: str) -> None:
        """Refuse what is neither built in nor a function of the user's own."""
        if ".py:" not in how and how not in (*SCALARS, *SIGNALS, "bands"):
            known = [*SCALARS, *SIGNALS, "bands"]
            raise self.fail(f"{where}.how", f'no observable "{how}"{nearest(how, known)}')

    def _output(self, where: str, name: str) -> Any:
        if name not in self.simulator.outputs:
            message = f'simulator {self.simulator.name} has no output "{name}"{nearest(name, self.simulator.outputs)}'
            raise self.fail(where if where.endswith("along") else f"{where}.output", message)
        return self.simulator.outputs[name]

    @contextmanager
    def _at(self, where: str) -> Iterator[None]:
        """Add the file and the field to an error that lacks them."""
        try:
            yield
        except TamisError as error:
            if str(error).startswith(f"{self.raw.path.name}: "):
                raise
            raise self.fail(where, str(error)) from error


def _grid(grid: GridTable | list[Any], more: int = 0) -> Array:
    """Return the numbers of a list or a grid, ``more`` than its n."""
    if isinstance(grid, list):
        return np.array(grid, dtype=float)
    if grid.spacing == "linear":
        return np.linspace(grid.start, grid.stop, grid.n + more)
    if grid.start <= 0 or grid.stop <= 0:
        raise StudyError('spacing = "log" needs a start and a stop above zero')
    return np.geomspace(grid.start, grid.stop, grid.n + more)
