"""Three-vectors as tuples of numbers: the compiler keeps them in registers and nothing is allocated."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner

Floats = NDArray[np.float64]
Vector = tuple[float, float, float]

FLAT = 1e-7  # sine of an angle below which two directions count as one

X, Y, Z = range(3)


@inner
def dot(a: Vector, b: Vector) -> float:
    """Return the scalar product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inner
def cross(a: Vector, b: Vector) -> Vector:
    """Return the vector product."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@inner
def minus(a: Vector, b: Vector) -> Vector:
    """Return ``a - b``."""
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@inner
def along(a: Vector, s: float, b: Vector) -> Vector:
    """Return ``a + s b``."""
    return a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]


@inner
def scaled(s: float, a: Vector) -> Vector:
    """Return ``s a``."""
    return s * a[0], s * a[1], s * a[2]


@inner
def norm(a: Vector) -> float:
    """Return the length."""
    return math.sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2])


@inner
def row(array: Floats, k: int) -> Vector:
    """Return row ``k`` of an array of vectors."""
    return array[k, 0], array[k, 1], array[k, 2]


@inner
def axis(axes: Floats, k: int, i: int) -> Vector:
    """Return axis ``i`` of contactor ``k`` in space."""
    return axes[k, 0, i], axes[k, 1, i], axes[k, 2, i]


@inner
def tangents(normal: Floats, frame: Floats) -> None:
    """Write an orthonormal frame whose first row is the normal (Duff et al. 2017, JCGT 6(1))."""
    x, y, z = normal[0], normal[1], normal[2]
    sign = math.copysign(1.0, z)
    a = -1.0 / (sign + z)
    b = x * y * a
    frame[0, 0], frame[0, 1], frame[0, 2] = x, y, z
    frame[1, 0], frame[1, 1], frame[1, 2] = 1.0 + sign * x * x * a, sign * b, -sign * x
    frame[2, 0], frame[2, 1], frame[2, 2] = b, sign + y * y * a, -y
