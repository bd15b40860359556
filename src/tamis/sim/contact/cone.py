"""Coulomb's cone at one contact: projection, residual, exact solution.

One contact carries ``r = (r_N, r_T1, r_T2)`` and moves with ``u = W r + q``. Signorini's and Coulomb's laws
together say (de Saxce & Feng 1998, 10.1016/S0895-7177(98)00119-8), with ``K = {|r_T| <= mu r_N}``::

    u + mu |u_T| e_N in K*,   r in K,   perpendicular to each other

Why exact
---------
Gauss-Seidel visits a contact a hundred times; a local iteration that stops early spoils the global one, and
one that may fail needs a second method behind it. The solution is direct but for one number. Either the
contact opens (``q_N >= 0``: no impulse), or eliminating the normal line leaves for the tangent plane::

    (S + lambda I) r_T = -b,   S = W_TT - W_TN W_NT / W_NN,   b = q_T - W_TN q_N / W_NN

where ``u_T = -lambda r_T``: ``lambda = 0`` is sticking, ``lambda > 0`` slip against the force. Sticking holds
if the result lies in the cone. If not, ``mu r_N / |r_T| - 1`` is negative at 0 and positive beyond a bound
known in closed form, and it is continuous: there always is a root between, hence a solution, whatever mu. The
function is the secular equation of trust-region methods (More & Sorensen 1983, 10.1137/0904038): nearly
straight and concave, so that Newton's steps from 0 hardly overshoot and a few of them give all the
digits. A bracket stands guard where strong coupling of normal and tangent bends it. No direction of the
tangent plane is preferred.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner, kernel

Array = NDArray[np.float64]
MAX_ROOT = 100


@kernel
def project(z0: float, z1: float, z2: float, mu: float) -> tuple[float, float, float]:
    """Return the point of the cone K(mu) nearest to z."""
    t = math.sqrt(z1 * z1 + z2 * z2)
    if mu * t <= -z0:  # first: without friction what is below the axis also has t <= mu z0
        return 0.0, 0.0, 0.0
    if t <= mu * z0:
        return z0, z1, z2
    p = (z0 + mu * t) / (1.0 + mu * mu)
    f = mu * p / t
    return p, f * z1, f * z2


@kernel
def natural(u0: float, u1: float, u2: float, r0: float, r1: float, r2: float, mu: float, rho: float) -> float:
    """Return ``|r - P_K(r - rho (u + mu |u_T| e_N))|``: zero exactly where the contact law holds."""
    t = math.sqrt(u1 * u1 + u2 * u2)
    p0, p1, p2 = project(r0 - rho * (u0 + mu * t), r1 - rho * u1, r2 - rho * u2, mu)
    return math.sqrt((r0 - p0) ** 2 + (r1 - p1) ** 2 + (r2 - p2) ** 2)


@inner
def slope(
    r0: float, r1: float, r2: float, u0: float, u1: float, u2: float, mu: float, rho: float
) -> tuple[float, float, float, float, float, float, float, float, float]:
    """Return, by rows, the derivative of ``-P_K(r - rho (u + mu |u_T| e_N))`` with respect to u; nothing where open."""
    slip = math.sqrt(u1 * u1 + u2 * u2)
    z0, z1, z2 = r0 - rho * (u0 + mu * slip), r1 - rho * u1, r2 - rho * u2
    t = math.sqrt(z1 * z1 + z2 * z2)
    if mu * t <= -z0:
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    e1, e2 = (mu * u1 / slip, mu * u2 / slip) if slip > 0.0 else (0.0, 0.0)
    if t <= mu * z0:
        return rho, rho * e1, rho * e2, 0.0, rho, 0.0, 0.0, 0.0, rho
    d1, d2 = z1 / t, z2 / t
    n = rho / (1.0 + mu * mu)
    f = n * mu * (z0 + mu * t) / t
    g = mu * mu * n - f
    n1, n2 = n * mu * d1, n * mu * d2
    return (
        *(n, n1 + n * e1, n2 + n * e2),
        *(n1, f + g * d1 * d1 + n1 * e1, g * d1 * d2 + n1 * e2),
        *(n2, g * d1 * d2 + n2 * e1, f + g * d2 * d2 + n2 * e2),
    )


@kernel
def solve_local(W: Array, q0: float, q1: float, q2: float, mu: float) -> tuple[float, float, float]:
    """Return the impulse of a single contact ``u = W r + q``, W (3, 3) positive and symmetric or nearly so."""
    w00 = W[0, 0]
    if q0 >= 0.0 or w00 <= 0.0:
        return 0.0, 0.0, 0.0
    free = -q0 / w00
    if mu <= 0.0:
        return free, 0.0, 0.0
    c1, c2 = W[0, 1] / w00, W[0, 2] / w00
    b1, b2 = q1 + W[1, 0] * free, q2 + W[2, 0] * free
    guard = 4e-15 * (
        w00 + W[1, 1] + W[2, 2]
    )  # keeps S invertible where only round-off is left of it, or nothing
    s11 = max(W[1, 1] - c1 * W[1, 0], 0.0) + guard
    s22 = max(W[2, 2] - c2 * W[2, 0], 0.0) + guard
    s12 = W[1, 2] - c2 * W[1, 0]
    s21 = W[2, 1] - c1 * W[2, 0]
    least = guard * (s11 + s22)
    det = max(s11 * s22 - s12 * s21, least)
    t1, t2 = (s12 * b2 - s22 * b1) / det, (s21 * b1 - s11 * b2) / det
    n = free - c1 * t1 - c2 * t2
    t = math.sqrt(t1 * t1 + t2 * t2)
    if t <= mu * n:
        return n, t1, t2
    b = math.sqrt(b1 * b1 + b2 * b2)
    slip, low, high = 0.0, 0.0, b * (1.0 + mu * math.sqrt(c1 * c1 + c2 * c2)) / (mu * free)
    if high > 1e150:  # no friction worth the name
        return free, 0.0, 0.0
    for _ in range(MAX_ROOT):
        f = mu * n / t - 1.0
        if f < 0.0:
            low = slip
        else:
            high = slip
        if abs(f) < 4e-16 or high - low <= 4e-16 * high:
            break
        d1, d2 = (s12 * t2 - (s22 + slip) * t1) / det, (s21 * t1 - (s11 + slip) * t2) / det
        slope = -mu * (c1 * d1 + c2 * d2 + n * (t1 * d1 + t2 * d2) / (t * t)) / t
        step = -f / slope if slope > 0.0 else math.inf
        if abs(step) <= 1e-15 * slip:
            break
        slip += step
        if not low < slip < high:
            slip = math.sqrt(low * high) if low > 1e-3 * high else 0.03 * high
        det = max((s11 + slip) * (s22 + slip) - s12 * s21, least)
        t1, t2 = (s12 * b2 - (s22 + slip) * b1) / det, (s21 * b1 - (s11 + slip) * b2) / det
        n = free - c1 * t1 - c2 * t2
        t = math.sqrt(t1 * t1 + t2 * t2)
    f = mu * n / t
    return n, f * t1, f * t2
