"""Lorentz's cone and its Jordan algebra, for interior-point methods: scaling, step lengths, corrections.

Two methods follow a path through the interior of the cones, in impulses (``assembled_interior.py``) and in the
velocities of bodies (``path.py``). What they do at one contact is the same and is here: the scaling of Nesterov and
Todd ``Q_w y = x``, its square root, the longest step that stays inside, Mehrotra's second-order terms (Alizadeh &
Goldfarb 2003, 10.1007/s10107-002-0339-5). Three numbers a contact, unrolled by hand: no array is made.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import kernel

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


@kernel
def root_det(v: Array) -> float:
    """Return the square root of Lorentz's form ``v_0^2 - |v_1|^2`` of an interior vector."""
    t = math.sqrt(v[1] * v[1] + v[2] * v[2])
    return math.sqrt(max((v[0] - t) * (v[0] + t), 1e-26 * v[0] * v[0]))


@kernel
def longest(v: Array, d: Array) -> float:
    """Return the largest step, up to 1, for which all ``v + step d`` stay in the cone."""
    most = 1.0
    for i in range(len(v)):
        a = d[i, 0] * d[i, 0] - d[i, 1] * d[i, 1] - d[i, 2] * d[i, 2]
        b = v[i, 0] * d[i, 0] - v[i, 1] * d[i, 1] - v[i, 2] * d[i, 2]
        c = root_det(v[i]) ** 2
        rest = b * b - a * c
        if rest >= 0.0 and (b < 0.0 or a < 0.0):
            s = math.sqrt(rest)
            step = c / (s - b) if b < 0.0 else -(b + s) / a
            if step > 0.0:
                most = min(most, step)
    return most


@kernel
def scale_point(w: Interior, i: int) -> float:
    """Fill the unit scaling point, its square root and the scaled iterate of contact i; return its size."""
    sx, sy = root_det(w.x[i]), root_det(w.y[i])
    total = 0.0
    for c in range(3):
        total += (w.x[i, c] / sx) * (w.y[i, c] / sy)
    f = 1.0 / math.sqrt(2.0 * (1.0 + total))
    w.centre[i, 0] = f * (w.x[i, 0] / sx + w.y[i, 0] / sy)
    w.centre[i, 1] = f * (w.x[i, 1] / sx - w.y[i, 1] / sy)
    w.centre[i, 2] = f * (w.x[i, 2] / sx - w.y[i, 2] / sy)
    a = math.sqrt(0.5 * (w.centre[i, 0] + 1.0))
    w.half[i, 0], w.half[i, 1], w.half[i, 2] = a, 0.5 * w.centre[i, 1] / a, 0.5 * w.centre[i, 2] / a
    eta = sx / sy
    quadratic(w.half[i], math.sqrt(eta), w.y[i], w.scaled[i])
    return eta


@kernel
def quadratic(h: Array, size: float, v: Array, out: Array) -> None:
    """Apply ``size (2 h h' - J)``, the quadratic representation of a unit vector, to v."""
    f = 2.0 * (h[0] * v[0] + h[1] * v[1] + h[2] * v[2])
    out[0], out[1], out[2] = size * (f * h[0] - v[0]), size * (f * h[1] + v[1]), size * (f * h[2] + v[2])


@kernel
def inverse_quadratic(h: Array, size: float, v: Array, out: Array) -> None:
    """Apply the inverse of `quadratic`."""
    f = 2.0 * (h[0] * v[0] - h[1] * v[1] - h[2] * v[2]) / size
    out[0], out[1], out[2] = f * h[0] - v[0] / size, -f * h[1] + v[1] / size, -f * h[2] + v[2] / size


@kernel
def correct(w: Interior, i: int, eta: float, target: float, out: Array) -> None:
    """Add the centring and second-order terms of contact i to its right-hand side."""
    h, size, s = w.half[i], math.sqrt(eta), w.scaled[i]
    a, b = w.dx[i], w.dy[i]  # free until the step itself is computed
    inverse_quadratic(h, size, w.ax[i], a)
    quadratic(h, size, w.ay[i], b)
    c0 = target - (a[0] * b[0] + a[1] * b[1] + a[2] * b[2])
    c1 = -(a[0] * b[1] + b[0] * a[1])
    c2 = -(a[0] * b[2] + b[0] * a[2])
    v0 = (s[0] * c0 - s[1] * c1 - s[2] * c2) / root_det(s) ** 2
    a[0], a[1], a[2] = v0, (c1 - v0 * s[1]) / s[0], (c2 - v0 * s[2]) / s[0]
    inverse_quadratic(h, size, a, b)
    for c in range(3):
        out[c] += b[c]
