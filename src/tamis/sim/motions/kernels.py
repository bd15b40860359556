"""White noise through a filter whose frequency changes with time, modulated: 4000 samples in a millisecond.

The equations (Rezaeian & Der Kiureghian 2010, 10.1002/eqe.997; numbers D.n: SERA deliverable D27.1, 2019)
---------------------------------------------------------------------------------------------------------
Pulses ``u_i`` of unit variance at ``t_i = i dt`` ring a filter of their own, with the frequency at *their* time::

    a(t) = q(t) x(t),   x(t_k) = sum_i s_i(t_k) u_i,   s_i = h_i(t_k - t_i) / (sum_j h_j(t_k - t_j)^2)^(1/2)    D.1, D.8
    h_i(s) = omega_i exp(-zeta omega_i s) sin(omega_i s (1 - zeta^2)^(1/2)),  omega_i = omega(t_i)              D.6
    omega(t) = max(omega_mid + rate (t - t45), floor)                                                          D.7
    q(t)^2 = (2 g/pi) Ia r^k t^(k-1) exp(-r t) / Gamma(k)                                                       D.2

``x`` has unit variance at every instant, by division by what is summed and not by an integral of it. ``q^2`` is a gamma
density, so that intensity, duration and middle time are its scale and two quantiles. Its first sample carries the
energy of the first step and a half, which is finite where ``q`` itself is not (k < 1; the printed model wants k > 1,
but a sixth of the ranges printed with it, Table D.3, asks for 1/2 < k < 1).

Why no recursion, and what there is instead
-------------------------------------------
A filter of constant frequency is a recursion of two terms: 4000 samples, 20 microseconds. With a frequency frozen at
the time of each pulse, as the model has it, no pulse rings like its neighbour, and all pairs of pulse and instant
count: 8 million for 40 s. So a pair has to be cheap. Lags stand in the outer loop and pulses in the inner one, where
nothing waits for anything: ``h_i`` follows from its two values before (two products), and is added to the sample
``i + lag``, next to that of the neighbour. So several pairs go into an instruction, in tiles of pulses that fit the
first cache: 0.5 ns a pair on one core, against 1.6 pulse by pulse and 11 with an exponential and a sine each. A tile
ends when its slowest pulse has decayed to `FAINT`, for most parameters long before the motion does. Pulses at the
floor, or all of them without a rate, share one frequency: they are the recursion after all.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner, kernel

TILE = 256  # pulses: seven arrays of 2 kB
FAINT = 1e-8  # of the first amplitude: what is left out of a sum changes the process by as much

Vector = NDArray[np.float64]


@inner
def frequencies(
    omega: Vector, dt: float, middle: float, rate: float, t45: float, floor: float
) -> tuple[int, int]:
    """Fill in the frequency at each pulse (D.7); return the span of pulses that share one."""
    first, last = len(omega), 0
    for i in range(len(omega)):
        omega[i] = middle + rate * (i * dt - t45)
        if rate == 0.0 or omega[i] <= floor:
            omega[i] = max(omega[i], floor)
            first, last = min(first, i), i + 1
    return first, max(first, last)


@inner
def start_pulses(
    omega: Vector, zeta: float, dt: float, h: Vector, before: Vector, turn: Vector, fade: Vector
) -> int:
    """Prepare a tile of pulses: amplitudes at lags 0 and 1, factors of the recurrence; return the last lag."""
    root = math.sqrt(1.0 - zeta * zeta)
    slowest = omega[0]
    for i in range(len(omega)):
        e = math.exp(-zeta * omega[i] * dt)
        before[i] = 0.0
        h[i] = omega[i] * e * math.sin(omega[i] * root * dt)
        turn[i] = 2.0 * e * math.cos(omega[i] * root * dt)
        fade[i] = e * e
        slowest = min(slowest, omega[i])
    return int(min(-math.log(FAINT) / (zeta * slowest * dt), 1e9)) + 2


@inner
def ring(
    u: Vector, omega: Vector, zeta: float, dt: float, x: Vector, v: Vector, work: NDArray[np.float64]
) -> None:
    """Add pulses of different frequencies to the signal and to its variance; ``x[k]`` is the sample after pulse k - 1.

    ``x`` begins at the first pulse's own instant.
    """
    n = len(x)
    for begin in range(0, len(omega), TILE):
        end = min(begin + TILE, len(omega))
        size = end - begin
        h, before, turn, fade = work[0, :size], work[1, :size], work[2, :size], work[3, :size]
        pulses = u[begin:end]
        last = start_pulses(omega[begin:end], zeta, dt, h, before, turn, fade)
        for lag in range(1, min(last, n - 1 - begin) + 1):
            xs, vs = x[begin + lag :], v[begin + lag :]
            for i in range(min(size, n - begin - lag)):
                now = h[i]
                xs[i] += pulses[i] * now
                vs[i] += now * now
                h[i] = turn[i] * now - fade[i] * before[i]
                before[i] = now


@inner
def ring_alike(u: Vector, omega: float, zeta: float, dt: float, x: Vector, v: Vector) -> None:
    """Add pulses of one frequency: a rotation that decays, and the sum of squares of its impulse response."""
    root = math.sqrt(1.0 - zeta * zeta)
    e = math.exp(-zeta * omega * dt)
    c, s = e * math.cos(omega * root * dt), e * math.sin(omega * root * dt)
    re, im, p, q, total = 0.0, 0.0, omega, 0.0, 0.0
    squares = np.empty(len(x))
    for k in range(len(x)):
        total += q * q
        squares[k] = total
        x[k] += im
        v[k] += total - (squares[k - len(u)] if k > len(u) else 0.0)
        re += omega * u[k] if k < len(u) else 0.0
        re, im = c * re - s * im, c * im + s * re
        p, q = c * p - s * q, c * q + s * p


@inner
def modulation(q: Vector, dt: float, energy: float, k: float, r: float, scale: float, first: float) -> None:
    """Fill in the modulating function (D.2); ``scale`` is log of r^k/Gamma(k), ``first`` the share in 1.5 steps."""
    q[0] = 0.0
    for i in range(1, len(q)):
        t = i * dt
        q[i] = math.sqrt(energy * math.exp(scale + (k - 1.0) * math.log(t) - r * t))
    if len(q) > 1:
        q[1] = math.sqrt(energy * first / dt)


@kernel
def motions(
    start: int,
    stop: int,
    dt: float,
    points: NDArray[np.float64],
    noise: NDArray[np.float64],
    q: NDArray[np.float64],
    a: NDArray[np.float64],
) -> int:
    """Write modulating functions and accelerations of points ``start`` to ``stop``.

    A row of ``points``: integral of q^2, k, r, log of r^k/Gamma(k), share of the first step and a half in the integral,
    middle frequency, rate, t45, zeta, floor.
    """
    n = a.shape[1]
    omega, v = np.empty(n), np.empty(n)
    work = np.empty((4, TILE))
    for row in range(start, stop):
        energy, k, r, scale, first, middle, rate, t45, zeta, floor = points[row]
        x = a[row]
        x[:] = 0.0
        v[:] = 0.0
        u = noise[row]
        low, high = frequencies(omega, dt, middle, rate, t45, floor)
        ring(u[:low], omega[:low], zeta, dt, x, v, work)
        ring_alike(u[low:high], omega[min(low, n - 1)], zeta, dt, x[low:], v[low:])
        ring(u[high:], omega[high:], zeta, dt, x[high:], v[high:], work)
        modulation(q[row], dt, energy, k, r, scale, first)
        for i in range(1, n):
            x[i] *= q[row, i] / math.sqrt(v[i])
    return 0


@kernel
def correlations(
    dt: float, middle: float, rate: float, t45: float, zeta: float, floor: float, out: NDArray[np.float64]
) -> int:
    """Write variances of the unmodulated motion, and covariances with the next sample and the one after it."""
    n = out.shape[1]
    omega = np.empty(n)
    frequencies(omega, dt, middle, rate, t45, floor)
    work = np.empty((4, TILE))
    out[:] = 0.0
    for begin in range(0, n, TILE):
        end = min(begin + TILE, n)
        size = end - begin
        h, before, turn, fade = work[0, :size], work[1, :size], work[2, :size], work[3, :size]
        last = start_pulses(omega[begin:end], zeta, dt, h, before, turn, fade)
        for lag in range(1, min(last, n - 1 - begin) + 1):
            v0, v1, v2 = out[0, begin + lag :], out[1, begin + lag :], out[2, begin + lag :]
            for i in range(min(size, n - begin - lag)):
                now = h[i]
                later = turn[i] * now - fade[i] * before[i]
                v0[i] += now * now
                v1[i] += now * later
                v2[i] += now * (turn[i] * later - fade[i] * now)
                h[i] = later
                before[i] = now
    return 0
