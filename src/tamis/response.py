"""Peaks of linear oscillators under a sampled acceleration: response spectra, all periods at once.

Between two samples the acceleration is a straight line, for which the motion of an oscillator is known in closed form
(Nigam & Jennings 1969, 10.1785/BSSA0590020909). One step is then a product with a 2 x 2 matrix and two weights of the
samples at its ends: no stability limit, no error of integration, whatever the period. Newmark's schemes cost as much a
step and shorten or lengthen periods; the Fourier transform answers for a motion that repeats itself.

What a step does not show is a peak *between* samples. At 16 steps a period a cubic through displacements and velocities
misses 6e-5 of it ((2 pi/16)^4/384), the samples alone 2e-2; so periods shorter than 16 samples are stepped through
parts of the interval, and where the velocity changes its sign the cubic's extremum is taken.

Oscillators are independent and each step waits for the one before, so the loop over oscillators stands inside the loop
over samples: the processor works at several of them at a time. Coefficients lie by oscillator, states side by side.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner, kernel

STEPS = 16  # a period, at least


@inner
def extremum(u0: float, d0: float, u1: float, d1: float) -> float:
    """Return the extremum inside a step of the cubic with end values ``u`` and slopes ``d`` of opposite signs."""
    a = 3.0 * (d0 + d1 - 2.0 * (u1 - u0))
    b = 3.0 * (u1 - u0) - 2.0 * d0 - d1
    root = math.sqrt(max(b * b - a * d0, 0.0))
    s = -d0 / (b + math.copysign(root, b)) if b * d0 < 0.0 else (root * math.copysign(1.0, -d0) - b) / a
    s = min(max(s, 0.0), 1.0)
    r = 1.0 - s
    return r * r * (u0 * (1.0 + 2.0 * s) + d0 * s) + s * s * (u1 * (1.0 + 2.0 * r) - d1 * r)


@kernel
def peaks(
    start: int,
    stop: int,
    a: NDArray[np.float64],
    parts: NDArray[np.int64],
    step: NDArray[np.float64],
    weights: NDArray[np.float64],
    out: NDArray[np.float64],
) -> int:
    """Write the largest relative displacement of each oscillator under motions ``start`` to ``stop``, rows of ``a``.

    ``weights`` has a row for each oscillator, its step of length ``step``: u, v from u, v, the first and the last
    acceleration of the step. ``parts`` is the number of such steps from one sample to the next.
    """
    n, count = a.shape[1], len(parts)
    u = np.empty(count)
    v = np.empty(count)
    for i in range(start, stop):
        u[:] = 0.0
        v[:] = 0.0
        largest = out[i]
        largest[:] = 0.0
        for k in range(n - 1):
            a0, slope = a[i, k], a[i, k + 1] - a[i, k]
            for j in range(count):
                w = weights[j]
                m = parts[j]
                here = a0
                for part in range(m):
                    there = a0 + slope * ((part + 1.0) / m)
                    u1 = w[0] * u[j] + w[1] * v[j] + w[2] * here + w[3] * there
                    v1 = w[4] * u[j] + w[5] * v[j] + w[6] * here + w[7] * there
                    size = abs(u1)
                    if v1 * v[j] < 0.0:
                        size = max(size, abs(extremum(u[j], step[j] * v[j], u1, step[j] * v1)))
                    if size > largest[j]:
                        largest[j] = size
                    u[j] = u1
                    v[j] = v1
                    here = there
    return 0
