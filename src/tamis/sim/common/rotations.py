"""Rotations as unit quaternions ``(w, x, y, z)``, and the step that keeps spin energy and momentum.

A step turns a body by the Cayley map of its mean angular velocity (`turned`): the quaternion of ``(1, h Omega/2)``,
normalised. Together with the implicit midpoint rule for Euler's equations (`spun`) it conserves both the energy
and the momentum in space of a free body to round-off, because the same rotation that turns the body by
``cay(h Omega)`` turns its momentum, seen from the body, by ``cay(-h Omega)`` (Simo & Wong 1991,
10.1002/nme.1620310103).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner

Floats = NDArray[np.float64]


@inner
def entries(
    w: Any, x: Any, y: Any, z: Any
) -> tuple[tuple[Any, Any, Any], tuple[Any, Any, Any], tuple[Any, Any, Any]]:
    """Return the rows of the rotation matrix of a unit quaternion; of many, where the components are arrays."""
    return (
        (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)),
        (2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)),
        (2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)),
    )


@inner
def matrix(q: Floats, out: Floats) -> None:
    """Write the rotation matrix of a unit quaternion: its columns are the body's axes in space."""
    rows = entries(q[0], q[1], q[2], q[3])
    for i in range(3):
        out[i, 0], out[i, 1], out[i, 2] = rows[i]


def matrices(quaternions: Any) -> Floats:
    """Return the rotation matrices (..., 3, 3) of unit quaternions (..., 4)."""
    w, x, y, z = np.moveaxis(np.asarray(quaternions, dtype=np.float64), -1, 0)
    return np.moveaxis(np.array(entries(w, x, y, z)), (0, 1), (-2, -1))


def rotation(quaternion: Any) -> Floats:
    """Return the rotation matrix of a quaternion of any length but zero."""
    return matrices(np.asarray(quaternion, dtype=np.float64) / np.linalg.norm(quaternion))


@inner
def hamilton(p: Any, q: Any) -> tuple[Any, Any, Any, Any]:
    """Return the product of two quaternions: first the rotation ``q``, then ``p``."""
    return (
        p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3],
        p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2],
        p[0] * q[2] - p[1] * q[3] + p[2] * q[0] + p[3] * q[1],
        p[0] * q[3] + p[1] * q[2] - p[2] * q[1] + p[3] * q[0],
    )


@inner
def times(p: Floats, q: Floats, out: Floats) -> None:
    """Write the product: first the rotation ``q``, then ``p``."""
    out[0], out[1], out[2], out[3] = hamilton(p, q)


@inner
def turned(q: Floats, a: float, b: float, c: float, out: Floats) -> None:
    """Write ``q`` turned by the Cayley map of the angle vector ``(a, b, c)`` in the body's own axes."""
    x, y, z = 0.5 * a, 0.5 * b, 0.5 * c
    w = q[0] - q[1] * x - q[2] * y - q[3] * z
    i = q[0] * x + q[1] + q[2] * z - q[3] * y
    j = q[0] * y - q[1] * z + q[2] + q[3] * x
    k = q[0] * z + q[1] * y - q[2] * x + q[3]
    scale = 1.0 / math.sqrt(w * w + i * i + j * j + k * k)
    out[0], out[1], out[2], out[3] = scale * w, scale * i, scale * j, scale * k


@inner
def spun(inertia: Floats, h: float, a: float, b: float, c: float) -> tuple[float, float, float]:
    """Advance a torque-free angular velocity in the principal axes by the implicit midpoint rule.

    Solves ``I (Omega+ - Omega) + h Omega_m x I Omega_m = 0`` for the mean ``Omega_m`` by Newton's method; the change
    is of order ``h Omega`` and three to five iterations reach round-off.
    """
    i, j, k = inertia[0], inertia[1], inertia[2]
    if i == j and j == k:
        return a, b, c
    x, y, z = a, b, c
    p, q, s = 0.5 * h * (k - j), 0.5 * h * (i - k), 0.5 * h * (j - i)
    size = abs(a) + abs(b) + abs(c)
    for _ in range(30):
        f = i * (x - a) + p * y * z
        g = j * (y - b) + q * z * x
        e = k * (z - c) + s * x * y
        # Jacobian [[i, p z, p y], [q z, j, q x], [s y, s x, k]]
        m00, m01, m02 = i, p * z, p * y
        m10, m11, m12 = q * z, j, q * x
        m20, m21, m22 = s * y, s * x, k
        c00, c01, c02 = m11 * m22 - m12 * m21, m12 * m20 - m10 * m22, m10 * m21 - m11 * m20
        det = m00 * c00 + m01 * c01 + m02 * c02
        dx = (f * c00 + g * (m02 * m21 - m01 * m22) + e * (m01 * m12 - m02 * m11)) / det
        dy = (f * c01 + g * (m00 * m22 - m02 * m20) + e * (m02 * m10 - m00 * m12)) / det
        dz = (f * c02 + g * (m01 * m20 - m00 * m21) + e * (m00 * m11 - m01 * m10)) / det
        x, y, z = x - dx, y - dy, z - dz
        if abs(dx) + abs(dy) + abs(dz) <= 4e-16 * size:
            break
    return 2.0 * x - a, 2.0 * y - b, 2.0 * z - c


def quaternion_of(R: Floats) -> tuple[float, float, float, float]:
    """Return the unit quaternion of a rotation matrix (Shepperd's choice of the largest component)."""
    trace = R[0, 0] + R[1, 1] + R[2, 2]
    four = np.array([trace, 2 * R[0, 0] - trace, 2 * R[1, 1] - trace, 2 * R[2, 2] - trace])
    k = int(four.argmax())
    s = math.sqrt(1.0 + four[k])
    w, x, y, z = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1], 0.0
    xy, xz, yz = R[0, 1] + R[1, 0], R[0, 2] + R[2, 0], R[1, 2] + R[2, 1]
    w, x, y, z = (
        (s * s, w, x, y),
        (w, s * s, xy, xz),
        (x, xy, s * s, yz),
        (y, xz, yz, s * s),
    )[k]
    return (0.5 * w / s, 0.5 * x / s, 0.5 * y / s, 0.5 * z / s)
