"""From a run's raw arrays to the numbers compared with data.

Runs store raw outputs; observables are recomputed, so changing what is compared never re-runs a simulation.
Each built-in one is written once, for n runs side by side (`many`); one run is a batch of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from tamis.errors import SimulationError, StudyError, nearest
from tamis.types import Array, Mask, Outputs

_UNEVEN = 1e-6  # of a step: round-off of times that were summed up


class Observable(Protocol):
    """A function from outputs to a vector; ``needs`` names the outputs it reads."""

    @property
    def unit(self) -> str:
        """Unit of the numbers returned."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the outputs it reads."""

    @property
    def axis(self) -> str:
        """Title of the abscissa of its numbers: an output, or a title with its unit; empty where there is none."""

    def __call__(self, outputs: Outputs) -> Array:
        """Return (m,) numbers of one run; `SimulationError` where the run cannot give them."""

    def many(self, outputs: Outputs) -> Array:
        """Return (n, m) numbers of n runs whose outputs are stacked along the first axis.

        NaN rows where one cannot.
        """


class Rowwise:
    """One run is a batch of one."""

    @property
    def axis(self) -> str:
        """Title of the abscissa of its numbers."""
        return ""

    def many(self, outputs: Outputs) -> Array:
        """Return (n, m) numbers of n runs, NaN where one has none."""
        raise NotImplementedError

    def __call__(self, outputs: Outputs) -> Array:
        """Return (m,) numbers of one run."""
        row: Array = self.many({name: np.asarray(array)[None] for name, array in outputs.items()})[0]
        if not np.isfinite(row).all():
            raise SimulationError(self.why_not(outputs))
        return row

    def why_not(self, outputs: Outputs) -> str:
        """Say why a run does not give the numbers asked for."""
        return "the run does not give all the numbers asked for"


def signal_of(outputs: Outputs, name: str) -> Array:
    """Return an output as (n, T); a single number is a signal of length one."""
    array = np.asarray(outputs[name], dtype=float)
    return array.reshape(len(array), -1)


@dataclass(frozen=True)
class _OfOutput(Rowwise):
    """An observable of one output."""

    output: str

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the outputs it reads."""
        return (self.output,)

    def __call__(self, outputs: Outputs) -> Array:
        """Return (m,) numbers of one run."""
        for name in self.needs:
            if np.size(outputs[name]) == 0:
                raise SimulationError(f"{name} is empty in the run")
        return super().__call__(outputs)


@dataclass(frozen=True)
class _Sampled(_OfOutput):
    """An observable of a signal, taken at several places."""

    coord: tuple[float, ...]
    unit: str = ""
    along: str = "t"

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the outputs it reads."""
        return (self.output, self.along)

    @property
    def axis(self) -> str:
        """Title of the abscissa of its numbers."""
        return self.along


@dataclass(frozen=True)
class Value(_OfOutput):
    """An output as it is: a number, or every number of a short vector."""

    unit: str = ""

    def many(self, outputs: Outputs) -> Array:
        """Return (n, m) numbers of n runs."""
        return signal_of(outputs, self.output)


@dataclass(frozen=True)
class Final(_OfOutput):
    """The last number of a signal."""

    unit: str = ""

    def many(self, outputs: Outputs) -> Array:
        """Return (n, 1) last values."""
        return signal_of(outputs, self.output)[:, -1:]


@dataclass(frozen=True)
class Peak(_OfOutput):
    """The number of largest magnitude in a signal, with its sign, or the time when it occurs."""

    unit: str = ""
    along: str = "t"
    when: bool = False

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the outputs it reads."""
        return (self.output, self.along) if self.when else (self.output,)

    @property
    def how(self) -> str:
        """What a study file calls it."""
        return "peak_time" if self.when else "peak"

    def many(self, outputs: Outputs) -> Array:
        """Return (n, 1) peaks or their times."""
        signal = signal_of(outputs, self.output)
        where = np.argmax(np.abs(signal), axis=1)[:, None]
        taken = signal_of(outputs, self.along) if self.when else signal
        return np.take_along_axis(np.broadcast_to(taken, signal.shape), where, axis=1)


@dataclass(frozen=True)
class Extreme(_OfOutput):
    """The largest or the least number of a signal, or its largest magnitude without a sign."""

    how: Literal["max", "min", "peak_abs"]
    unit: str = ""

    def many(self, outputs: Outputs) -> Array:
        """Return (n, 1) extremes."""
        signal = signal_of(outputs, self.output)
        if self.how == "min":
            return np.asarray(signal.min(axis=1, keepdims=True))
        return np.asarray((signal if self.how == "max" else np.abs(signal)).max(axis=1, keepdims=True))


@dataclass(frozen=True)
class At(_Sampled):
    """A signal read at given abscissae, by linear interpolation along another output.

    Outside the run's span there is no value, unless ``extend`` is ``hold``: then the first or last one.
    """

    extend: Literal["none", "hold"] = "none"

    def many(self, outputs: Outputs) -> Array:
        """Return (n, m) interpolated values."""
        signal = signal_of(outputs, self.output)
        along = np.broadcast_to(signal_of(outputs, self.along), signal.shape)
        want = np.asarray(self.coord, dtype=float)
        if (along == along[0]).all():
            return self._shared(signal, along[0], want)
        return np.concatenate([self._shared(s[None], t, want) for s, t in zip(signal, along, strict=True)])

    def why_not(self, outputs: Outputs) -> str:
        """Say which abscissae the run lacks."""
        along = np.asarray(outputs[self.along], dtype=float)
        asked = f"{self.output} is asked for at {self.along} from {min(self.coord):g} to {max(self.coord):g}"
        return f"{asked}, outside its span in the run, {along.min():g} to {along.max():g}"

    def _shared(self, signal: Array, along: Array, want: Array) -> Array:
        if len(along) < 2 or not np.all(np.diff(along) > 0):
            return np.full((len(signal), len(want)), np.nan)
        right = np.clip(np.searchsorted(along, want), 1, len(along) - 1)
        part = np.clip((want - along[right - 1]) / (along[right] - along[right - 1]), 0.0, 1.0)
        values: Array = signal[:, right - 1] * (1 - part) + signal[:, right] * part
        if self.extend == "none":
            slack = 1e-9 * (
                along[-1] - along[0]
            )  # a sample time read from a file may differ in its last digits
            values[:, (want < along[0] - slack) | (want > along[-1] + slack)] = np.nan
        return values


@dataclass(frozen=True)
class Spectrum(_Sampled):
    """Amplitude of a signal at given frequencies: the sine that would show the same line, mean removed."""

    @property
    def axis(self) -> str:
        """Title of the abscissa of its numbers."""
        return "frequency [Hz]"

    def many(self, outputs: Outputs) -> Array:
        """Return (n, m) amplitudes; NaN above the Nyquist frequency."""
        signal = signal_of(outputs, self.output)
        along = np.broadcast_to(signal_of(outputs, self.along), signal.shape)
        step = (along[:, -1] - along[:, 0]) / (along.shape[1] - 1)
        want = np.asarray(self.coord, dtype=float)
        common = (
            along[:1] if (along == along[0]).all() else along
        )  # one table of turns where all share the abscissa
        turn = np.exp(-2j * np.pi * (common - common[:, :1])[:, :, None] * want)
        centred = signal - signal.mean(axis=1, keepdims=True)
        amplitude: Array = 2.0 / signal.shape[1] * np.abs((centred[:, None, :] @ turn)[:, 0])
        return np.where(want[None] <= 0.5 / step[:, None], amplitude, np.nan)


@dataclass(frozen=True)
class Envelope(_Sampled):
    """Instantaneous amplitude of an oscillating signal at given abscissae, from its analytic signal."""

    def many(self, outputs: Outputs) -> Array:
        """Return (n, m) amplitudes."""
        from scipy.signal import hilbert

        signal = signal_of(outputs, self.output)
        amplitude = np.abs(hilbert(signal, axis=1))
        return At(self.output, self.coord, along=self.along).many(
            {self.output: amplitude, self.along: outputs[self.along]}
        )


def by_step(name: str, along: str, outputs: Outputs) -> Iterator[tuple[Mask, Array, float]]:
    """Yield runs by their step: which they are, their signals, the step; none where it is not constant."""
    signal = signal_of(outputs, name)
    times = np.broadcast_to(signal_of(outputs, along), signal.shape)
    if signal.shape[1] < 2:
        return
    steps = (times[:, -1] - times[:, 0]) / (signal.shape[1] - 1)
    even = (np.abs(np.diff(times, axis=1) - steps[:, None]) <= _UNEVEN * np.abs(steps[:, None])).all(axis=1)
    good = even & (steps > 0) & np.isfinite(signal).all(axis=1)
    for step in np.unique(steps[good]):
        rows = good & (steps == step)
        yield rows, signal[rows], float(step)


@dataclass(frozen=True)
class Measure(_OfOutput):
    """An intensity measure of an acceleration: see `signals.MEASURES`."""

    how: str
    unit: str = ""
    along: str = "t"

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the outputs it reads."""
        return (self.output, self.along)

    def many(self, outputs: Outputs) -> Array:
        """Return (n, 1) measures; NaN where the step of a signal is not constant."""
        from tamis.signals import MEASURES

        measures = np.full((len(outputs[self.output]), 1), np.nan)
        for rows, a, dt in by_step(self.output, self.along, outputs):
            measures[rows, 0] = MEASURES[self.how](a, dt)
        return measures

    def why_not(self, outputs: Outputs) -> str:
        """Say what a measure needs."""
        return (
            f"{self.how} of {self.output} needs samples at a constant step of {self.along}, and some motion"
        )


@dataclass(frozen=True)
class ResponseSpectrum(_Sampled):
    """Pseudo-acceleration response spectrum of an acceleration at given periods."""

    damping: float = 0.05

    @property
    def axis(self) -> str:
        """Title of the abscissa of its numbers."""
        return "period [s]"

    def many(self, outputs: Outputs) -> Array:
        """Return (n, m) pseudo-accelerations; NaN where the step of a signal is not constant."""
        from tamis.signals import response_spectrum

        spectra = np.full((len(outputs[self.output]), len(self.coord)), np.nan)
        for rows, a, dt in by_step(self.output, self.along, outputs):
            spectra[rows] = response_spectrum(a, dt, self.coord, self.damping)
        return spectra

    def why_not(self, outputs: Outputs) -> str:
        """Say what a spectrum needs."""
        return f"the response spectrum of {self.output} needs samples at a constant step of {self.along}"


@dataclass(frozen=True)
class Custom:
    """A function of the user's own, from the outputs of one run to a vector."""

    function: Callable[[Outputs], Any]
    needs: tuple[str, ...]
    unit: str = ""
    name: str = ""
    axis: str = ""  # title of the abscissa: the column of the data that gives it

    def __call__(self, outputs: Outputs) -> Array:
        """Return (m,) numbers of one run."""
        try:
            return np.atleast_1d(np.asarray(self.function(outputs), dtype=float))
        except SimulationError:
            raise
        except Exception as error:
            raise StudyError(f"observable {self.name} raised {type(error).__name__}: {error}") from error

    def many(self, outputs: Outputs) -> Array:
        """Return (n, m) numbers, one run after the other: the function knows only one."""
        rows = [
            {name: array[i] for name, array in outputs.items()} for i in range(len(outputs[self.needs[0]]))
        ]
        good = [all(np.isfinite(array).all() for array in row.values()) for row in rows]
        found = {i: self(row) for i, row in enumerate(rows) if good[i]}
        m = len(next(iter(found.values()))) if found else 1
        return np.array([found.get(i, np.full(m, np.nan)) for i in range(len(rows))])


def value(output: str, unit: str = "") -> Value:
    """Observe an output as it is."""
    return Value(output, unit)


def final(output: str, unit: str = "") -> Final:
    """Observe the last number of a signal."""
    return Final(output, unit)


def peak(output: str, unit: str = "") -> Peak:
    """Observe the number of largest magnitude of a signal."""
    return Peak(output, unit)


def largest(output: str, unit: str = "") -> Extreme:
    """Observe the largest number of a signal: `how = "max"` in a study file."""
    return Extreme(output, "max", unit)


def least(output: str, unit: str = "") -> Extreme:
    """Observe the least number of a signal: `how = "min"` in a study file."""
    return Extreme(output, "min", unit)


def peak_abs(output: str, unit: str = "") -> Extreme:
    """Observe the largest magnitude of a signal, whatever its sign."""
    return Extreme(output, "peak_abs", unit)


def peak_time(output: str, along: str = "t", unit: str = "") -> Peak:
    """Observe when the largest magnitude of a signal occurs."""
    return Peak(output, unit, along, when=True)


def at(
    output: str, coord: Any, along: str = "t", extend: Literal["none", "hold"] = "none", unit: str = ""
) -> At:
    """Observe a signal at given abscissae."""
    return At(output, tuple(np.asarray(coord, dtype=float).tolist()), unit, along, extend)


def spectrum(output: str, coord: Any, along: str = "t", unit: str = "") -> Spectrum:
    """Observe the amplitude of a signal at given frequencies."""
    return Spectrum(output, tuple(np.asarray(coord, dtype=float).tolist()), unit, along)


def envelope(output: str, coord: Any, along: str = "t", unit: str = "") -> Envelope:
    """Observe the instantaneous amplitude of a signal at given abscissae."""
    return Envelope(output, tuple(np.asarray(coord, dtype=float).tolist()), unit, along)


def measure(output: str, how: str, along: str = "t", unit: str | None = None) -> Measure:
    """Observe an intensity measure of an acceleration, one of MEASURES."""
    if how not in MEASURES:
        raise StudyError(f'no intensity measure "{how}"{nearest(how, MEASURES)}')
    return Measure(output, how, MEASURES[how] if unit is None else unit, along)


def response_spectrum(
    output: str, coord: Any, along: str = "t", damping: float = 0.05, unit: str = ""
) -> ResponseSpectrum:
    """Observe the pseudo-acceleration response spectrum of an acceleration at given periods."""
    periods = tuple(np.asarray(coord, dtype=float).tolist())
    if not periods or min(periods) <= 0:
        raise StudyError(
            f"periods of a response spectrum must be positive, found {min(periods, default=0.0):g} s"
        )
    if not 0 <= damping < 1:
        raise StudyError(f"damping of a response spectrum must be from 0 to below 1, found {damping:g}")
    return ResponseSpectrum(output, periods, unit, along, damping)


MEASURES = {
    "pga": "m/s2",
    "pgv": "m/s",
    "pgd": "m",
    "arias": "m/s",
    "cav": "m/s",
    "d5_95": "s",
    "t45": "s",
    "crossings_5_45": "Hz",
    "crossings_45_95": "Hz",
    "reversals_5_95": "Hz",
}  # names of `signals.MEASURES` and their units: that module is not imported to read a study file
SCALARS: dict[str, Callable[..., Observable]] = {
    "value": value,
    "final": final,
    "max": largest,
    "min": least,
    "peak": peak,
    "peak_abs": peak_abs,
    "peak_time": peak_time,
    **{how: partial(measure, how=how) for how in MEASURES},
}
SIGNALS: dict[str, Callable[..., Observable]] = {
    "at": at,
    "spectrum": spectrum,
    "envelope": envelope,
    "response_spectrum": response_spectrum,
}


def check_taken(how: str, output: str, unit: str, damping: float | None) -> None:
    """Refuse to take for an acceleration what has another unit, and damping for what is no response spectrum."""
    if damping is not None and how != "response_spectrum":
        raise StudyError(f'damping is for how = "response_spectrum", found how = "{how}"; remove it')
    if how in (*MEASURES, "response_spectrum") and unit not in ("", "m/s2"):
        raise StudyError(f"{how} is taken of an acceleration in m/s2, and output {output} is in {unit}")


def load_custom(how: str, base: Path, needs: tuple[str, ...], unit: str = "", axis: str = "") -> Custom:
    """Load an observable of the user's own, ``observe.py:name``, from a file beside the study."""
    import importlib.util

    file, _, name = how.rpartition(":")
    path = (base / file).resolve()
    if not path.is_file():
        raise StudyError(f'no file "{path}" to take observable "{name}" from')
    spec = importlib.util.spec_from_file_location(f"_tamis_observe_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    functions = [key for key, item in vars(module).items() if callable(item) and not key.startswith("_")]
    if name not in functions:
        raise StudyError(f'{path.name} has no function "{name}"{nearest(name, functions)}')
    return Custom(getattr(module, name), needs, unit, how, axis)
