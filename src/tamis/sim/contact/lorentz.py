"""Lorentz's cone and its Jordan algebra, for interior-point methods: scaling, step lengths, corrections.

Two methods follow a path through the interior of the cones, in impulses (``assembled``) and in the
velocities of bodies (interior_point). What they do at one contact is the same and is here: the scaling of Nesterov and
Todd ``Q_w y = x``, its square root, the longest step that stays inside, Mehrotra's second-order terms (Alizadeh &
Goldfarb 2003, 10.1007/s10107-002-0339-5). Three numbers a contact, unrolled by hand: no array is made.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner

Array = NDArray[np.float64]
LEAST_FRICTION = 1e-6  # a frictionless cone is a line without an interior
PATIENCE = 4  # steps without progress
EARLY = 1e-3  # above this residual a narrower gap is progress


class Interior(NamedTuple):
    """Vectors of the method, (n, 3) each: iterate, steps, affine steps, scaling, and so on."""

    scale: Array
    x: Array
    y: Array
    dx: Array
    dy: Array
    ax: Array
    ay: Array
    velocity: Array
    dual: Array
    centre: Array
    half: Array
    scaled: Array
    work: Array


@inner
def root_det(v0: float, v1: float, v2: float) -> float:
    """Return the square root of Lorentz's form ``v_0^2 - |v_1|^2`` of an interior vector."""
    t = math.sqrt(v1 * v1 + v2 * v2)
    return math.sqrt(max((v0 - t) * (v0 + t), 1e-26 * v0 * v0))


@inner
def quadratic(
    h0: float, h1: float, h2: float, size: float, v0: float, v1: float, v2: float
) -> tuple[float, float, float]:
    """Return ``size (2 h h' - J) v``, the quadratic representation of a unit vector h."""
    f = 2.0 * (h0 * v0 + h1 * v1 + h2 * v2)
    return size * (f * h0 - v0), size * (f * h1 + v1), size * (f * h2 + v2)


@inner
def inverse_quadratic(
    h0: float, h1: float, h2: float, size: float, v0: float, v1: float, v2: float
) -> tuple[float, float, float]:
    """Return what `quadratic` takes to ``v``."""
    f = 2.0 * (h0 * v0 - h1 * v1 - h2 * v2) / size
    return f * h0 - v0 / size, -f * h1 + v1 / size, -f * h2 + v2 / size


@inner
def longest(v: Array, d: Array) -> float:
    """Return the largest step, up to 1, for which all ``v + step d`` stay in the cone."""
    most = 1.0
    for i in range(len(v)):
        a = d[i, 0] * d[i, 0] - d[i, 1] * d[i, 1] - d[i, 2] * d[i, 2]
        b = v[i, 0] * d[i, 0] - v[i, 1] * d[i, 1] - v[i, 2] * d[i, 2]
        c = root_det(v[i, 0], v[i, 1], v[i, 2]) ** 2
        rest = b * b - a * c
        if rest >= 0.0 and (b < 0.0 or a < 0.0):
            s = math.sqrt(rest)
            step = c / (s - b) if b < 0.0 else -(b + s) / a
            if step > 0.0:
                most = min(most, step)
    return most


@inner
def scale_points(n: int, w: Interior, eta: Array) -> None:
    """Fill the unit scaling points of the first n contacts, their square roots, sizes and the scaled iterates."""
    x, y, centre, half, scaled = w.x, w.y, w.centre, w.half, w.scaled
    for i in range(n):
        sx, sy = root_det(x[i, 0], x[i, 1], x[i, 2]), root_det(y[i, 0], y[i, 1], y[i, 2])
        x0, x1, x2 = x[i, 0] / sx, x[i, 1] / sx, x[i, 2] / sx
        y0, y1, y2 = y[i, 0] / sy, y[i, 1] / sy, y[i, 2] / sy
        f = 1.0 / math.sqrt(2.0 * (1.0 + (x0 * y0 + x1 * y1 + x2 * y2)))
        c0, c1, c2 = f * (x0 + y0), f * (x1 - y1), f * (x2 - y2)
        a = math.sqrt(0.5 * (c0 + 1.0))
        h1, h2 = 0.5 * c1 / a, 0.5 * c2 / a
        centre[i, 0], centre[i, 1], centre[i, 2] = c0, c1, c2
        half[i, 0], half[i, 1], half[i, 2] = a, h1, h2
        eta[i] = sx / sy
        scaled[i, 0], scaled[i, 1], scaled[i, 2] = quadratic(
            a, h1, h2, math.sqrt(eta[i]), y[i, 0], y[i, 1], y[i, 2]
        )


@inner
def correct(n: int, w: Interior, eta: Array, target: float, out: Array) -> None:
    """Add the centring and second-order terms of the first n contacts to their right-hand sides."""
    half, scaled, ax, ay = w.half, w.scaled, w.ax, w.ay
    for i in range(n):
        h0, h1, h2, size = half[i, 0], half[i, 1], half[i, 2], math.sqrt(eta[i])
        s0, s1, s2 = scaled[i, 0], scaled[i, 1], scaled[i, 2]
        a0, a1, a2 = inverse_quadratic(h0, h1, h2, size, ax[i, 0], ax[i, 1], ax[i, 2])
        b0, b1, b2 = quadratic(h0, h1, h2, size, ay[i, 0], ay[i, 1], ay[i, 2])
        c0 = target - (a0 * b0 + a1 * b1 + a2 * b2)
        c1, c2 = -(a0 * b1 + b0 * a1), -(a0 * b2 + b0 * a2)
        v0 = (s0 * c0 - s1 * c1 - s2 * c2) / root_det(s0, s1, s2) ** 2
        d0, d1, d2 = inverse_quadratic(h0, h1, h2, size, v0, (c1 - v0 * s1) / s0, (c2 - v0 * s2) / s0)
        out[i, 0] += d0
        out[i, 1] += d1
        out[i, 2] += d2
