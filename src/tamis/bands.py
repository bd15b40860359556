"""Observables in the frequency domain that need whole signals: levels in bands, and signals filtered before.

`Bands` is equation 14 of Lebel et al. 2019 (10.1016/j.jsv.2019.06.024), for several signals one after the other: the
amplitude of the Fourier integral of a signal over the square root of its duration, which does not depend on the
duration where a signal is stationary, in decibels of an amplitude (20 log10; the paper prints 10), averaged over the
lines of each band. Phases do not enter, so that measured and simulated signals need not start at the same instant.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tamis.errors import SimulationError, StudyError
from tamis.observables import Observable, Rowwise, by_step, signal_of
from tamis.types import Array, Outputs

_QUIET = 1e-12  # amplitude that stands for none at all: -240 dB
_ORDER = 4  # of the Butterworth filter, forwards and backwards


@dataclass(frozen=True)
class Bands(Rowwise):
    """Levels of one or several signals in bands of frequency, in dB; ``edges`` in Hz, one more than bands."""

    output: str
    edges: tuple[float, ...]
    also: tuple[str, ...] = ()  # further signals
    along: str = "t"
    unit: str = "dB"

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the outputs it reads."""
        return (*self.signals, self.along)

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the signals, one after the other."""
        return (self.output, *self.also)

    @property
    def axis(self) -> str:
        """Title of the abscissa of its numbers."""
        return "frequency [Hz]" if not self.also else f"band, {len(self.edges) - 1} a signal"

    @property
    def names(self) -> tuple[str, ...]:
        """What each of its numbers is: a signal and a band."""
        bands = [f"{low:g} to {high:g} Hz" for low, high in pairwise(self.edges)]
        return tuple(f"{signal}, {band}" for signal in self.signals for band in bands)

    @property
    def coord(self) -> Array:
        """Abscissae of its numbers: middles of the bands; of several signals, numbers of the bands."""
        edges = np.asarray(self.edges)
        if self.also:
            return np.arange(1.0, (len(edges) - 1) * len(self.signals) + 1.0)
        middles = np.sqrt(edges[:-1] * edges[1:]) if edges[0] > 0 else 0.5 * (edges[:-1] + edges[1:])
        return np.asarray(middles, dtype=float)

    def many(self, outputs: Outputs) -> Array:
        """Return (n, m) levels; NaN where a signal is too short, too coarse or unevenly sampled."""
        found = []
        for name in self.signals:
            levels = np.full((len(outputs[name]), len(self.edges) - 1), np.nan)
            for rows, a, dt in by_step(name, self.along, outputs):
                if not self.fault(a.shape[1], dt):
                    levels[rows] = _levels(a, dt, self.edges)
            found.append(levels)
        return np.hstack(found)

    def fault(self, samples: int, dt: float) -> str:
        """Say why a signal of so many samples has no level in some band; empty if it has all."""
        f = np.fft.rfftfreq(samples, dt)
        if self.edges[-1] > f[-1] * (1.0 + 1e-9):
            return f"samples every {dt:g} s show nothing above {f[-1]:g} Hz, and the bands end at {self.edges[-1]:g} Hz"
        for low, high in pairwise(self.edges):
            if not ((f >= low) & (f < high)).any():
                return (
                    f"{samples * dt:g} s are too short for the band from {low:g} to {high:g} Hz: "
                    f"lines are {1.0 / (samples * dt):.3g} Hz apart; give longer signals or wider bands"
                )
        return ""

    def why_not(self, outputs: Outputs) -> str:
        """Say why a run does not give the levels asked for."""
        t = np.asarray(outputs[self.along], dtype=float)
        step = float(t[-1] - t[0]) / max(len(t) - 1, 1)
        fault = self.fault(len(t), step) if step > 0 else ""
        return f"bands of {self.output}: " + (
            fault or f"samples must be finite and at a constant step of {self.along}"
        )


def _levels(a: Array, dt: float, edges: tuple[float, ...]) -> Array:
    """Return (n, bands) mean levels of signals (n, samples), eq 14."""
    n = a.shape[1]
    f = np.fft.rfftfreq(n, dt)
    amplitude = np.abs(np.fft.rfft(a - a.mean(axis=1, keepdims=True), axis=1)) * dt / np.sqrt(n * dt)
    level = 20.0 * np.log10(np.maximum(amplitude, _QUIET))
    at = np.searchsorted(f, edges)
    total = np.concatenate([np.zeros((len(a), 1)), np.cumsum(level, axis=1)], axis=1)
    return np.asarray((total[:, at[1:]] - total[:, at[:-1]]) / np.diff(at))


@dataclass(frozen=True)
class Filtered:
    """An observable of signals without what is above a frequency: a Butterworth filter without shift, -6 dB there."""

    of: Observable
    cutoff: float  # Hz
    along: str = "t"

    @property
    def unit(self) -> str:
        """Unit of the numbers."""
        return self.of.unit

    @property
    def how(self) -> str:
        """What a study file calls it."""
        return str(getattr(self.of, "how", ""))

    @property
    def axis(self) -> str:
        """Title of the abscissa of its numbers."""
        return self.of.axis

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the signals whose numbers stand one after the other, where there are several."""
        return tuple(getattr(self.of, "signals", ()))

    @property
    def names(self) -> tuple[str, ...]:
        """What each of its numbers is, where they have names."""
        return tuple(getattr(self.of, "names", ()))

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the outputs it reads."""
        return self.of.needs if self.along in self.of.needs else (*self.of.needs, self.along)

    def __call__(self, outputs: Outputs) -> Array:
        """Return (m,) numbers of one run."""
        taken = self._filtered({name: np.asarray(outputs[name])[None] for name in self.needs})
        if not all(np.isfinite(array).all() for array in taken.values()):
            raise SimulationError(
                f"a low-pass filter at {self.cutoff:g} Hz needs samples at a constant step of {self.along}, more than "
                "twice as many a second"
            )
        return self.of({name: array[0] for name, array in taken.items()})

    def many(self, outputs: Outputs) -> Array:
        """Return (n, m) numbers of n runs."""
        return self.of.many(self._filtered({name: np.asarray(outputs[name]) for name in self.needs}))

    def _filtered(self, outputs: Outputs) -> dict[str, Any]:
        from scipy.signal import butter, sosfiltfilt

        found: dict[str, Any] = {self.along: outputs[self.along]}
        for name in self.needs:
            if name == self.along:
                continue
            smooth = np.full_like(signal_of(outputs, name), np.nan)
            for rows, a, dt in by_step(name, self.along, outputs):
                if self.cutoff < 0.5 / dt:
                    sections = butter(_ORDER, self.cutoff, fs=1.0 / dt, output="sos")
                    pad = min(3 * (2 * len(sections) + 1), a.shape[1] - 1)
                    smooth[rows] = sosfiltfilt(sections, a, axis=1, padlen=pad)
            found[name] = smooth
        return found


def bands(output: str, edges: Any, also: Any = (), along: str = "t") -> Bands:
    """Observe levels of one or several signals in bands of frequency."""
    if len({output, *also}) < 1 + len(also):
        raise StudyError(f"expected different signals, found {output} and {', '.join(also)}")
    limits = tuple(np.asarray(edges, dtype=float).tolist())
    if len(limits) < 2 or limits[0] < 0 or any(high <= low for low, high in pairwise(limits)):
        raise StudyError(f"bands need two increasing frequencies or more, from 0 Hz on, found {list(limits)}")
    return Bands(output, limits, tuple(also), along)
