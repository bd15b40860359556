"""Sampled accelerations: intensity measures, response spectra, scaling, resampling, correction of the base line.

Every function takes ``a``, accelerations in m/s2 along the last axis at a constant step ``dt`` in s, and treats one
motion and thousands of them alike. Integrals are trapezoidal sums: of a square, that is exact for whatever has no
frequencies above half of the Nyquist frequency, whereas a straight line between samples loses energy (1.5 % at 5 Hz of
100 samples a second).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np
from scipy.integrate import cumulative_trapezoid

from tamis.errors import StudyError
from tamis.response import STEPS, peaks
from tamis.types import Array, Mask

GRAVITY = 9.80665  # m/s2, the standard value
DAMPING = 0.05  # of a response spectrum, unless another is asked for
_TERMS = 24  # of an exponential: 1.5^24/24! is below rounding


def velocity(a: Array, dt: float) -> Array:
    """Return the velocity of a motion that starts at rest."""
    return np.asarray(cumulative_trapezoid(a, dx=dt, initial=0.0))


def displacement(a: Array, dt: float) -> Array:
    """Return the displacement of a motion that starts at rest."""
    return velocity(velocity(a, dt), dt)


def pga(a: Array, dt: float) -> Array:
    """Return the peak ground acceleration, in m/s2."""
    return np.asarray(np.abs(a).max(axis=-1))


def pgv(a: Array, dt: float) -> Array:
    """Return the peak ground velocity, in m/s."""
    return np.asarray(np.abs(velocity(a, dt)).max(axis=-1))


def pgd(a: Array, dt: float) -> Array:
    """Return the peak ground displacement, in m; correct the base line first, or drift is what is found."""
    return np.asarray(np.abs(displacement(a, dt)).max(axis=-1))


def cav(a: Array, dt: float) -> Array:
    """Return the cumulative absolute velocity, the integral of the magnitude, in m/s."""
    return np.asarray(np.trapezoid(np.abs(a), dx=dt, axis=-1))


def arias_curve(a: Array, dt: float) -> Array:
    """Return the Arias intensity up to each sample, pi/(2 g) times the integral of the square, in m/s."""
    return np.asarray(math.pi / (2.0 * GRAVITY) * cumulative_trapezoid(np.square(a), dx=dt, initial=0.0))


def arias(a: Array, dt: float) -> Array:
    """Return the Arias intensity, in m/s."""
    return arias_curve(a, dt)[..., -1]


def arias_times(a: Array, dt: float, shares: Sequence[float]) -> Array:
    """Return when these shares of the Arias intensity are reached, in s, along a last axis of their own."""
    curve = arias_curve(a, dt)
    rows = curve.reshape(-1, curve.shape[-1])
    t = dt * np.arange(rows.shape[1])
    times = np.array(
        [
            np.interp(np.multiply(shares, row[-1]), row, t) if row[-1] > 0 else np.full(len(shares), np.nan)
            for row in rows
        ]
    )
    return times.reshape(*curve.shape[:-1], len(shares))


def d5_95(a: Array, dt: float) -> Array:
    """Return the significant duration, from 5 to 95 % of the Arias intensity, in s."""
    return np.asarray(np.diff(arias_times(a, dt, (0.05, 0.95)))[..., 0])


def t45(a: Array, dt: float) -> Array:
    """Return when 45 % of the Arias intensity is reached, in s."""
    return arias_times(a, dt, (0.45,))[..., 0]


def up_crossings(a: Array, dt: float, shares: tuple[float, float]) -> Array:
    """Return zero up-crossings a second between two shares of the Arias intensity: the frequency there, in Hz."""
    return _rate((a[..., :-1] < 0) & (a[..., 1:] >= 0), a, dt, shares)


def reversals(a: Array, dt: float, shares: tuple[float, float]) -> Array:
    """Return negative maxima and positive minima a second between two shares of the Arias intensity, in Hz.

    A narrow band of frequencies has few of them, a broad one many, and the finer the step the more.
    """
    before, here, after = a[..., :-2], a[..., 1:-1], a[..., 2:]
    return _rate((here * (here - before) < 0) & (here * (here - after) < 0), a, dt, shares)


def _rate(events: Mask, a: Array, dt: float, shares: tuple[float, float]) -> Array:
    times = arias_times(a, dt, shares)
    counts = np.cumsum(events, axis=-1, dtype=float).reshape(-1, events.shape[-1])
    t = dt * (np.arange(counts.shape[1]) + 0.5 * (a.shape[-1] - counts.shape[1]))
    spans = times.reshape(-1, 2)
    rates = [np.ptp(np.interp(span, t, row)) / np.ptp(span) for row, span in zip(counts, spans, strict=True)]
    return np.asarray(rates).reshape(times.shape[:-1])


MEASURES: dict[str, Callable[[Array, float], Array]] = {
    "pga": pga,
    "pgv": pgv,
    "pgd": pgd,
    "arias": arias,
    "cav": cav,
    "d5_95": d5_95,
    "t45": t45,
    "crossings_5_45": partial(up_crossings, shares=(0.05, 0.45)),
    "crossings_45_95": partial(up_crossings, shares=(0.45, 0.95)),
    "reversals_5_95": partial(reversals, shares=(0.05, 0.95)),
}


def response_spectrum(
    a: Array, dt: float, periods: Sequence[float] | Array, damping: float = DAMPING
) -> Array:
    """Return pseudo-accelerations, in m/s2: the largest displacement of an oscillator times its frequency squared.

    The largest one during the motion: an oscillator that swings higher after its end is not followed.
    """
    a = np.asarray(a, dtype=float)
    rows = np.ascontiguousarray(a.reshape(-1, a.shape[-1]))
    omega = 2.0 * math.pi / _periods(periods)
    parts = np.maximum(1, np.ceil(STEPS * dt * omega / (2.0 * math.pi) - 1e-9)).astype(np.int64)
    step = dt / parts
    out = np.empty((len(rows), len(omega)))
    peaks(0, len(rows), rows, parts, step, oscillator_weights(omega, damping, step), out)
    return (omega**2 * out).reshape(*a.shape[:-1], len(omega))


def _periods(periods: Sequence[float] | Array) -> Array:
    given = np.atleast_1d(np.asarray(periods, dtype=float))
    if not (given > 0).all():
        raise StudyError(f"periods of a response spectrum must be positive, found {given.min():g} s")
    return given


def oscillator_weights(omega: Array, damping: float, step: Array) -> Array:
    """Return rows of 8 numbers: u, v after a step from u, v and the accelerations at its ends.

    The exponential of the equation of motion over one step, which is at most a sixteenth of the period, by its series.
    The closed form has differences of numbers larger by (period / step)^3 and no digit left at long periods.
    """
    if not 0.0 <= damping < 1.0:
        raise StudyError(f"damping of an oscillator must be from 0 to below 1, found {damping:g}")
    angle = np.asarray(omega * step, dtype=float)
    motion = np.zeros(
        (len(angle), 4, 4)
    )  # of displacement, velocity, acceleration of the ground and its slope
    motion[:, 0, 1] = motion[:, 2, 3] = 1.0
    motion[:, 1, 0], motion[:, 1, 1], motion[:, 1, 2] = -(angle**2), -2.0 * damping * angle, -1.0
    term = np.broadcast_to(np.eye(4), motion.shape)
    whole = term.copy()
    for k in range(1, _TERMS):
        term = term @ motion / k
        whole += term
    (u, uv, u0, slope_u), (vu, v, v0, slope_v) = np.moveaxis(whole[:, :2], 0, -1)
    rows = [u, uv * step, (u0 - slope_u) * step**2, slope_u * step**2,
            vu / step, v, (v0 - slope_v) * step, slope_v * step]  # fmt: skip
    return np.ascontiguousarray(np.array(rows).T)


def scaled_to_pga(a: Array, target: float) -> Array:
    """Return a motion multiplied so that its peak acceleration is ``target``, in m/s2."""
    return _scaled(a, np.abs(a).max(axis=-1), target)


def scaled_to_spectrum(a: Array, dt: float, period: float, target: float, damping: float = DAMPING) -> Array:
    """Return a motion multiplied so that its pseudo-acceleration at one period is ``target``, in m/s2."""
    return _scaled(a, response_spectrum(a, dt, [period], damping)[..., 0], target)


def _scaled(a: Array, found: Array, target: float) -> Array:
    if target <= 0:
        raise StudyError(f"a motion is scaled to a positive value, found {target:g}")
    if not np.all(found > 0):
        raise StudyError("a motion that is zero everywhere cannot be scaled")
    return np.asarray(a) * (target / np.asarray(found))[..., None]


def resampled(a: Array, dt: float, step: float) -> Array:
    """Return a motion at another step without aliasing: what the new step cannot show is filtered out before.

    A polyphase filter of linear phase; the steps must be in the ratio of whole numbers up to 1000.
    """
    from scipy.signal import resample_poly

    if step <= 0:
        raise StudyError(f"the step of a motion must be positive, found {step:g} s")
    ratio = Fraction(dt / step).limit_denominator(1000)
    if ratio == 0 or abs(float(ratio) * step / dt - 1.0) > 1e-9:
        raise StudyError(
            f"steps of {dt:g} and {step:g} s are not in the ratio of whole numbers up to 1000; choose a step that is"
        )
    if ratio == 1:
        return np.array(a, dtype=float)
    return np.asarray(resample_poly(a, ratio.numerator, ratio.denominator, axis=-1))


def without_drift(a: Array, dt: float, degree: int = 1) -> Array:
    """Correct the base line: take off the polynomial whose integral fits the velocity best.

    ``degree`` is that of what is taken off the acceleration: 0 a constant, 1 a straight line.
    """
    if degree < 0:
        raise StudyError(f"the degree of a base line is 0 or more, found {degree}")
    a = np.asarray(a, dtype=float)
    s = np.linspace(-1.0, 1.0, a.shape[-1])
    slopes: Array = np.asarray(np.polynomial.legendre.legvander(s, degree), dtype=float)
    integrals = velocity(slopes.T, dt).T
    part, *_ = np.linalg.lstsq(integrals, velocity(a, dt).reshape(-1, len(s)).T, rcond=None)
    return a - (slopes @ part).T.reshape(a.shape)


def high_passed(a: Array, dt: float, corner: float) -> Array:
    """Return a motion without what is slow: the acceleration relative to a critically damped oscillator of this corner.

    So are the residual velocity and displacement of a simulated motion removed (Rezaeian & Der Kiureghian 2008,
    10.1002/eqe.831); ``corner`` is in Hz, and both die out within about two of its periods after the motion.
    """
    from scipy.signal import cont2discrete, lfilter

    omega = 2.0 * math.pi * corner
    numerator, denominator, _ = cont2discrete(
        ([1.0, 0.0, 0.0], [1.0, 2.0 * omega, omega**2]), dt, method="foh"
    )
    return np.asarray(lfilter(numerator.ravel(), denominator, a, axis=-1))
