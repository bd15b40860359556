"""Irregular tracks: four signals from spectra with random amplitudes, or from a file.

Spectra are one-sided in the spatial circular frequency (m2 / (rad/m): the variance is the integral over positive
frequencies), form and figures of ERRI B176 (docs/theory/rail.md). A realisation is the real part of a sum of waves with
complex Gaussian amplitudes, by fast Fourier transform over more than twice the length asked for, of which a part is
kept: amplitudes are random and not the phases alone, and the ends of a track have nothing to do with each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft
from scipy.interpolate import CubicSpline

from tamis.errors import SimulationError, StudyError
from tamis.interfaces import Case, port
from tamis.sheets import read_csv
from tamis.types import Array

NAMES = ("lateral", "gauge", "vertical", "cross_level")
HALF_GAUGE = 0.75  # m, half of the distance of the contact points
_CORNER, _ROLL_OFF, _SHORT = 0.8246, 0.0206, 0.438  # rad/m
_ROUGHNESS = {  # m rad: alignment, gauge, vertical
    "low": (2.119e-7, 5.32e-8, 4.032e-7),
    "high": (6.125e-7, 1.032e-7, 1.08e-6),
}
SPECTRA = tuple(_ROUGHNESS)
_BLOCK = 2**14  # samples; half of them are used, 2 km at the default spacing
_UNEVEN = 1e-3  # of the spacing: places are printed with a few digits


@dataclass(frozen=True)
class Track(Case):
    """A straight track with four irregularities, from the spectra of ERRI B176 or from a file."""

    spectrum: str = port("low", choices=SPECTRA, doc="disturbance of the track, ERRI B176")
    length: float = port(1000.0, unit="m", bounds=(1.0, 1e5), doc="from the first to the last sample")
    spacing: float = port(0.25, unit="m", bounds=(0.01, 10.0), doc="of the samples")
    shortest: float = port(2.0, unit="m", bounds=(0.1, 100.0), doc="shortest wavelength that is there")
    longest: float = port(120.0, unit="m", bounds=(2.0, 1e4), doc="longest wavelength that is there")
    coherence: float = port(
        0.25,
        bounds=(0.0, 0.999),
        doc="ordinary coherence of lateral and gauge, and of vertical and cross-level",
    )
    variation: float = port(
        0.0,
        bounds=(0.0, 1.0),
        doc="standard deviation of the logarithm of the level along the line; 0: stationary",
    )
    variation_length: float = port(
        100.0, unit="m", bounds=(10.0, 1e4), doc="over which the level loses its memory"
    )
    amplitude: float = port(1.0, bounds=(0.0, 100.0), doc="factor on all irregularities")
    seed: int = port(
        1, bounds=(0, 2**63 - 1), doc="of the random amplitudes; one track for all lengths up to 8192 samples"
    )
    file: str = port(
        "",
        kind="file",
        doc="CSV with columns s, lateral, gauge, vertical, cross_level in m; empty: from the spectra",
    )


class Line(NamedTuple):
    """Irregularities at equally spaced places, (n, 4) in the order of `NAMES`; cross-level as a height difference."""

    s: Array
    signals: Array

    @property
    def spacing(self) -> float:
        """Distance of the samples, in m."""
        return float(self.s[1] - self.s[0])


def spectra(name: str, omega: Array) -> Array:
    """Return the spectra of the four signals, (4, n), at spatial frequencies in rad/m.

    The cross-level's is that of the angle in the source times the square of the distance of the contact points.
    """
    alignment, gauge, vertical = _ROUGHNESS[name]
    square = np.square(omega)
    base = _CORNER**2 / ((square + _ROLL_OFF**2) * (square + _CORNER**2))
    short = base * square / (square + _SHORT**2)
    return np.stack(
        [
            alignment * base,
            gauge * short,
            vertical * base,
            vertical / HALF_GAUGE**2 * (2.0 * HALF_GAUGE) ** 2 * short,
        ]
    )


def made(track: Track) -> Line:
    """Return the track of a case."""
    if track.file:
        line = load(track.file)
        n = round(track.length / track.spacing) + 1
        s = track.spacing * np.arange(n, dtype=float)
        if s[-1] > line.s[-1] * (1.0 + 1e-12):
            raise SimulationError(
                f"{Path(track.file).name} is {line.s[-1]:g} m long, less than the length asked for, "
                f"{track.length:g} m; lower length"
            )
        return Line(s, track.amplitude * CubicSpline(line.s, line.signals)(np.minimum(s, line.s[-1])))
    return synthesised(track)


def synthesised(track: Track) -> Line:
    """Return a realisation of the spectra within the wavelengths asked for."""
    if track.shortest >= track.longest:
        raise SimulationError(
            f"shortest wavelength {track.shortest:g} m is not below the longest, {track.longest:g} m"
        )
    if track.shortest < 2.0 * track.spacing:
        raise SimulationError(
            f"samples every {track.spacing:g} m cannot show the shortest wavelength, {track.shortest:g} m; "
            f"lower spacing to {0.5 * track.shortest:g} m or less"
        )
    n = round(track.length / track.spacing) + 1
    # Periods longer than the longest wave several times: its third octave has enough lines to be a random sum. A power
    # of two and no less than _BLOCK: a seed is one track, of which a longer run sees more.
    size = 1 << (max(2 * n, math.ceil(8.0 * track.longest / track.spacing), _BLOCK) - 1).bit_length()
    step = 2.0 * math.pi / (size * track.spacing)
    omega = step * np.arange(size // 2 + 1)
    inside = (omega >= 2.0 * math.pi / track.longest) & (omega <= 2.0 * math.pi / track.shortest)
    rng = np.random.default_rng(track.seed)
    noise = rng.standard_normal((2, 4, len(omega)))
    waves = (noise[0] + 1j * noise[1]) * math.sqrt(0.5)
    share = math.sqrt(track.coherence)  # coherence is the square of the correlation of two waves
    for first, second in ((0, 1), (2, 3)):
        waves[second] = share * waves[first] + math.sqrt(1.0 - track.coherence) * waves[second]
    amplitudes = np.sqrt(2.0 * spectra(track.spectrum, np.where(inside, omega, 1.0)) * step) * inside
    signals = irfft(0.5 * size * amplitudes * waves, size, axis=1)[
        :, :n
    ]  # which divides by the size, and adds both signs
    s = track.spacing * np.arange(n, dtype=float)
    return Line(s, track.amplitude * _level(track, s, rng) * signals.T)


def _level(track: Track, s: Array, rng: np.random.Generator) -> Array:
    """Return the factor of the level along the line, (n, 1): log-normal, its square one on average."""
    if track.variation == 0.0:
        return np.ones((len(s), 1))
    knots = math.ceil(s[-1] / track.variation_length) + 4
    rough = rng.standard_normal(knots)
    places = (s / track.variation_length)[:, None] + 1.0 - np.arange(knots)
    weights = np.where(np.abs(places) < 2.0, np.cos(0.25 * math.pi * places) ** 2, 0.0)
    smooth = weights @ rough / np.sqrt(np.square(weights).sum(axis=1))
    return np.asarray(np.exp(track.variation * smooth - track.variation**2)[:, None])


def load(path: str) -> Line:
    """Read a track from a CSV file with columns s, lateral, gauge, vertical, cross_level in m."""
    state = Path(path).stat()
    return _read(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)  # the runs of a stretch follow each other
def _read(path: str, *state: int) -> Line:
    sheet = read_csv(path)
    for name in ("s", *NAMES):
        if (unit := sheet.units.get(name, "m")) != "m":
            raise StudyError(f'{sheet.path.name}: column "{name}" must be in m, found {unit}')
    s = sheet.numbers("s")
    if len(s) < 8:
        raise StudyError(f"{sheet.path.name}: expected at least 8 samples of a track, found {len(s)}")
    spacing = float(s[-1] - s[0]) / (len(s) - 1)
    uneven = np.flatnonzero(np.abs(np.diff(s) - spacing) > _UNEVEN * abs(spacing))
    if not spacing > 0.0 or len(uneven):
        at = int(uneven[0]) if len(uneven) else 0
        raise StudyError(
            f'{sheet.path.name}, line {sheet.lines[at + 1]}: samples of a track are equally spaced along "s", found '
            f"{s[at + 1] - s[at]:g} m after {spacing:g} m on average; resample it"
        )
    return Line(
        spacing * np.arange(len(s), dtype=float), np.column_stack([sheet.numbers(name) for name in NAMES])
    )


def pieces(line: Line) -> Array:
    """Return cubic pieces through the samples, (n - 1, 4, 4), ascending powers; cross-level becomes the rails' roll."""
    spline = CubicSpline(line.s, line.signals / np.array([1.0, 1.0, 1.0, 2.0 * HALF_GAUGE]))
    return np.ascontiguousarray(np.transpose(spline.c[::-1], (1, 2, 0)))
