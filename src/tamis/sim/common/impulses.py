"""Subdomains known by what was measured before: impulse responses, or receptances turned into them.

Duhamel's integral with trapezoidal weights (B.44-B.51; with the weights the multiplier of the present step enters as
dt/2 H_v(0), as in a Newmark step of the same mass)::

    u_n = sum_i w_i H_d(t_n - t_i) f_i dt,   v_n = sum_i w_i H_v(t_n - t_i) f_i dt,   w = 1/2, 1, ..., 1, 1/2

H_v(0) = M^-1: the acceleration's response is M^-1 delta(t) and a smooth part, the derivative of H_v. The force at
t = 0, load and multiplier, counts with its weight of 1/2 like any other: without it errors are of first order. H_d(0)
is zero: the present multiplier does not move the present displacement. A step costs as much as the steps before it, up
to the length of the responses.

Receptances Y(s) = (s^2 M + s C + K)^-1 become impulse responses by a Fourier series of the Bromwich integral (B.65)::

    f(t) = exp(alpha t) / T [Re F(alpha)/2 + sum_{k=1..q} Re(F(alpha + i k pi/T) exp(i k pi t/T))],  0 <= t < 2 T

with alpha to the right of all poles; it repeats itself with period 2 T, so that what is left after 2 T is folded back,
times exp(-2 alpha T). The sum is one FFT for all instants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from tamis.errors import StudyError
from tamis.types import Array

ComplexArray: TypeAlias = NDArray[np.complex128]


class Impulses:
    """Impulse responses (steps, n, n) at the step of the integration: displacement and velocity to unit impulses.

    Nothing of a run is kept here: `start` begins a sum of its own, so that responses may be shared and used again.
    """

    def __init__(self, displacement: Array, velocity: Array, dt: float) -> None:
        displacement, velocity = np.asarray(displacement, dtype=float), np.asarray(velocity, dtype=float)
        shape = displacement.shape
        if len(shape) != 3 or shape[1] != shape[2] or velocity.shape != shape:
            raise StudyError(
                f"impulse responses: expected two arrays (steps, n, n), found {shape} and {velocity.shape}"
            )
        self.mass = np.linalg.inv(0.5 * (velocity[0] + velocity[0].T))
        smooth = np.gradient(velocity, dt, axis=0)
        self.dt, self.steps = dt, len(displacement)
        # instants backwards and side by side, so that a sum over the past is one product
        self.reversed = [np.concatenate(h[::-1], axis=1) for h in (displacement, velocity, smooth)]

    def start(self, force: Array) -> Duhamel:
        """Begin at rest under the force at t = 0, that of the interface included."""
        return Duhamel(self, force)


class Duhamel:
    """The running sum of one subdomain in one run."""

    def __init__(self, responses: Impulses, force: Array) -> None:
        self._responses, self._dt = responses, responses.dt
        self._past = np.zeros((0, len(force)))
        self._now, self._acceleration = force.copy(), np.zeros(len(force))
        self._count = 0

    def free(self, load: Array) -> tuple[Array, Array, Array]:
        """Return displacement, velocity and acceleration at the next step under its loads alone."""
        if self._count == len(self._past):
            self._past = np.concatenate([self._past, np.zeros((max(64, self._count), len(load)))])
        self._past[self._count] = (0.5 if self._count == 0 else 1.0) * self._dt * self._now
        self._count += 1
        self._now = load.copy()
        return self._motion()

    def link(self, force: Array) -> Array:
        """Add the force of the interface to that of this step; return the acceleration under both."""
        self._now += force
        smooth = self._responses.reversed[2][:, -len(force) :] @ force
        self._acceleration += 0.5 * self._dt * smooth + np.linalg.solve(self._responses.mass, force)
        return self._acceleration

    def _motion(self) -> tuple[Array, Array, Array]:
        n = len(self._now)
        known = min(self._count + 1, self._responses.steps)
        recent = self._past[self._count - known + 1 : self._count]
        forces = np.concatenate([recent.ravel(), 0.5 * self._dt * self._now])
        u, v, smooth = (h[:, -n * known :] @ forces for h in self._responses.reversed)
        self._acceleration = smooth + np.linalg.solve(self._responses.mass, self._now)
        return u, v, self._acceleration


def impulse_responses(
    mass: Array, damping: Array, stiffness: Array, dt: float, steps: int
) -> tuple[Array, Array]:
    """Return the exact displacement and velocity responses to unit impulses at each step, by matrix exponentials."""
    n = len(mass)
    inverse = np.linalg.inv(mass)
    advance = expm(dt * np.block([[np.zeros((n, n)), np.eye(n)], [-inverse @ stiffness, -inverse @ damping]]))
    state = np.vstack([np.zeros((n, n)), inverse])
    both = np.empty((steps, 2 * n, n))
    for i in range(steps):
        both[i] = state
        state = advance @ state
    return both[:, :n], both[:, n:]


def from_receptances(
    receptance: Callable[[complex], Array],
    mass: Array,
    *,
    period: float,
    terms: int,
    dt: float,
    alpha: float = 0.2,
) -> tuple[Array, Array]:
    """Return impulse responses over ``period`` of a subdomain whose receptances Y(s) are known, by B.65.

    Parameters
    ----------
    mass
        High frequencies of s Y tend to M^-1 / s, a step at which a series of finite length rings; it is taken off in
        closed form and put back.
    period
        T of the series, which repeats itself after 2 T: responses must have decayed by then.
    terms
        q of the series: frequencies up to terms/(2 T) in Hz.
    alpha
        Real part of the line, 1/s, positive and to the right of all poles.
    """
    count = round(2.0 * period / dt)
    if abs(count * dt - 2.0 * period) > 1e-9 * period:
        raise StudyError(f"2 T = {2 * period:g} s must be a multiple of the step, found {dt:g} s")
    inverse = np.linalg.inv(np.atleast_2d(np.asarray(mass, dtype=float)))
    s = (alpha + 1j * np.pi / period * np.arange(terms + 1))[:, None, None]
    y = np.array([np.atleast_2d(receptance(complex(each))) for each in s.ravel()])
    t = (dt * np.arange(count // 2 + 1))[:, None, None]
    fade = 10.0 / period  # of what is taken off: gone by 2 T

    def series(transform: ComplexArray) -> Array:
        transform[0] *= 0.5
        rows = np.zeros((-(-len(transform) // count) * count, *transform.shape[1:]), dtype=complex)
        rows[: len(transform)] = transform
        folded = rows.reshape(-1, count, *transform.shape[1:]).sum(axis=0)
        total = count * np.fft.ifft(folded, axis=0)[: len(t)].real
        return np.asarray(np.exp(alpha * t) / period * total)

    displacement = series(y - inverse / (s + fade) ** 2) + t * np.exp(-fade * t) * inverse
    velocity = series(s * y - inverse / (s + fade)) + np.exp(-fade * t) * inverse
    return displacement, velocity
