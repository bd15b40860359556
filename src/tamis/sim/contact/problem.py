"""The contact problem of a step in body space: what every method reads, and how a solution is judged.

Each contact acts on at most two bodies: ``u_i = G_i (w_a, w_b) + bias_i`` with mass-scaled velocities
``w = M^(1/2) v``, six numbers a body, so that ``w = w_free + G^T r`` and the same block serves both ways. A body
that does not respond has the number -1 and is skipped. Coulomb's law at each contact is that of ``cone.py``.

Residual
--------
Impulses are made comparable with velocities by the local effective mass, ``w_i = trace(W_ii) / 3``::

    e_i = | w_i r_i - P_K(w_i r_i - u_i - mu |u_T,i| e_N) | / s,    s = max_j (|u_free,j|, w_j |r_j|)

It has no unit, does not change when the scene is scaled, and sees a light body beside a heavy one. The impulses
belong into the scale: under a heap of grains they are many times what the free velocities of one step suggest, and
an error is small where it is small beside them. But only up to 30 times: a body pressed between two walls that move
has no solution, its impulses grow without end, and that must not pass for one. And not below a millionth of the
velocities of the points that touch: two bodies that fly on together have no relative velocity but round-off.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inlined, inner
from tamis.sim.contact.cone import natural
from tamis.sim.contact.tuning import LOAD
from tamis.simd import put, six

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


class Contacts(NamedTuple):
    """The active contacts of a step: ``u_i = G_i (w_a, w_b) + bias_i``, normal first, friction ``mu_i``."""

    row_a: Indices  # (contacts,) rows of w, -1 for a body that does not respond
    row_b: Indices
    G: Array  # (contacts, 3, 12)
    bias: Array  # (contacts, 3)
    mu: Array


@inner
def copy(source: Array, target: Array) -> None:
    """Copy as many rows as the smaller array has; compiles ten times faster than an assignment of slices."""
    for i in range(min(source.shape[0], target.shape[0])):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]


@inlined
def velocity(i: int, contacts: Contacts, w: Array) -> tuple[float, float, float]:
    """Return the relative velocity (N, T1, T2) at contact ``i``."""
    G, bias = contacts.G, contacts.bias
    u0, u1, u2 = bias[i, 0], bias[i, 1], bias[i, 2]
    body = contacts.row_a[i]
    if body >= 0:
        for k in range(6):
            u0 += G[i, 0, k] * w[body, k]
            u1 += G[i, 1, k] * w[body, k]
            u2 += G[i, 2, k] * w[body, k]
    body = contacts.row_b[i]
    if body >= 0:
        for k in range(6):
            u0 += G[i, 0, 6 + k] * w[body, k]
            u1 += G[i, 1, 6 + k] * w[body, k]
            u2 += G[i, 2, 6 + k] * w[body, k]
    return u0, u1, u2


@inlined
def push(i: int, contacts: Contacts, w: Array, d0: float, d1: float, d2: float) -> None:
    """Add the impulse ``d`` at contact ``i`` to the velocities of its bodies."""
    G = contacts.G
    a, b = contacts.row_a[i], contacts.row_b[i]
    if a >= 0:
        put(six(w, a) + (d0 * six(G, i, 0) + d1 * six(G, i, 1) + d2 * six(G, i, 2)), w, a)
    if b >= 0:
        put(six(w, b) + (d0 * six(G, i, 0, 6) + d1 * six(G, i, 1, 6) + d2 * six(G, i, 2, 6)), w, b)


@inner
def impose(contacts: Contacts, r: Array, free: Array, w: Array) -> None:
    """Set ``w = w_free + G^T r``."""
    copy(free, w)
    for i in range(contacts.row_a.size):
        push(i, contacts, w, r[i, 0], r[i, 1], r[i, 2])


@inner
def scale_of(speed: float, r: Array, weight: Array) -> float:
    """Return the scale ``s`` of residuals: the largest free velocity or impulse, the latter as a velocity."""
    load = 0.0
    for i in range(r.shape[0]):
        c = weight[i]
        load = max(load, c * c * (r[i, 0] * r[i, 0] + r[i, 1] * r[i, 1] + r[i, 2] * r[i, 2]))
    return max(speed, min(math.sqrt(load), LOAD * speed))


@inner
def residual(contacts: Contacts, w: Array, r: Array, weight: Array, errors: Array) -> tuple[float, int]:
    """Fill the residuals, as velocities; return the largest (not a number if any is not) and its contact."""
    largest, worst = 0.0, 0
    for i in range(contacts.row_a.size):
        u0, u1, u2 = velocity(i, contacts, w)
        c = weight[i]
        e = natural(u0, u1, u2, c * r[i, 0], c * r[i, 1], c * r[i, 2], contacts.mu[i], 1.0)
        errors[i] = e
        if not e <= largest:
            largest, worst = e, i
            if math.isnan(e):
                break
    return largest, worst
