"""Least-angle regression of many outputs at once, with the leave-one-out error of every model it passes through.

Why least angles: of a few thousand polynomials a few dozen matter, and there are fewer runs than polynomials.
Least-angle regression (Efron, Hastie, Johnstone & Tibshirani 2004, 10.1214/009053604000000067) orders them; at each
step ordinary least squares on the terms so far gives the coefficients (the hybrid of Blatman & Sudret 2011,
10.1016/j.jcp.2010.12.021), and the step of least corrected leave-one-out error is the model. Greedier orders
(orthogonal matching pursuit, orthogonal least squares) chase noise: on the Sobol' G function with 200 runs their
leave-one-out error is 300 times too small.

Why one orthonormal basis: let x_1, x_2, ... be the terms in their order of entry and x_k = sum_i r_ik q_i their
Gram-Schmidt factors. The equiangular direction u has x_i.u = s_i (the signs), so u = sum_i v_i q_i with
R'v = s: a new term appends one number to v and changes none before it. Hence u, the products of all candidates
with u, the residual, the leverages and the trace of the inverse information matrix all grow by one
rank-one term a step, and the one large cost is a product of all candidates with q_k. (With u so scaled every
active correlation falls at unit rate, which makes the length of a step a ratio of two numbers.)

Why paths go in step: several outputs, nested sets or favours over the same candidates turn that product into one of
matrices, and share the interpreter's overhead. A path may leave rows out (``train``): inner products then skip
them, but q and the residual are carried on them too, so that the error on held-out runs comes at no extra cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tamis.surrogates.polynomials import Indices
from tamis.types import Array

_DEPENDENT = 1e-6  # what is left of a unit column, below which it is a combination of those already in
_EXHAUSTED = 1e-14  # correlation with the residual, that with the output being 1
_MOSTLY = 0.1  # of the square of a column left by its projection, below which it is projected again
_LEAST = 1e-300  # instead of zero in a denominator


class Paths(NamedTuple):
    """M paths in step: terms in their order of entry, and the errors of the least-squares fits on them."""

    order: Indices  # (M, K), term that entered at each step; -1 where none could
    loo: Array  # (M, K + 1), corrected leave-one-out squared error after each step, over the variance
    held: Array  # (M, K + 1), mean squared error on the rows held out, same unit; NaN without such rows


def least_angle(
    phi: Array,
    y: Array,
    most: int,
    patience: int,
    *,
    sizes: Indices | None = None,
    favour: Array | None = None,
    train: Array | None = None,
) -> Paths:
    """Follow the path of each output (M, n) over candidate terms (P, n), without the constant, which is always in.

    At most ``most`` steps, and ``patience`` of them without gain. Path i uses the first ``sizes[i]`` candidates,
    which enter the earlier the larger their ``favour[i]``, (M, P), and the rows where ``train[i]``, (M, n), is one.
    """
    (m, n), p, rows = y.shape, len(phi), np.arange(len(y))
    most = min(most, p)
    w = np.ones((m, n)) if train is None else train
    size = w.sum(axis=1)
    length = np.sqrt(np.maximum(np.einsum("pn,pn->p", phi, phi) - n * phi.mean(axis=1) ** 2, 0.0))
    usable = length > 1e-7 * np.sqrt(n)
    scale = usable / np.where(usable, length, 1.0)
    x = phi * scale[:, None]
    lean = np.ones((m, 1)) if favour is None else favour

    q = np.repeat(1 / np.sqrt(size)[:, None], n, axis=1)
    basis = np.zeros((m, most + 1, n))
    seen = (
        basis if train is None else np.zeros_like(basis)
    )  # the same on the rows of the path, zero on others
    inverse = np.zeros((m, most + 1, most + 1))  # of R, in units of the terms themselves
    basis[:, 0], seen[:, 0], inverse[:, 0, 0] = q, q * w, q[:, 0]
    spread, leverage, terms = 1 / size, q * q, np.ones(m)
    residual = y - ((w * y).sum(axis=1) / size)[:, None]
    total = np.maximum((w * residual**2).sum(axis=1), _LEAST)
    order = np.full((m, most), -1)
    loo, held = np.full((2, m, most + 1), np.nan)

    def note(k: int) -> None:
        """Write the errors of the least-squares fit.

        Correction of Chapelle, Vapnik & Bengio (2002, 10.1023/A:1013943418833), as Blatman & Sudret use it.
        """
        left_out = residual / np.maximum(1 - leverage, 1e-10)
        left_out *= w
        correction = size / np.maximum(size - terms, 1e-9) * (1 + spread)
        loo[:, k] = np.einsum("mn,mn->m", left_out, left_out) / total * correction
        if train is not None:
            held[:, k] = ((1 - w) * residual**2).sum(axis=1) / (n - size) * size / total

    note(0)
    best, idle, k = loo[:, 0].copy(), np.zeros(m), 0
    blocked = np.zeros((m, p))
    blocked[:, ~usable] = np.inf
    if sizes is not None:
        blocked[np.arange(p) >= sizes[:, None]] = np.inf
    slope, v = np.zeros((m, p)), np.zeros((m, most + 1))
    correlation = ((w * residual) @ x.T) * lean
    j = (np.abs(correlation) - blocked).argmax(axis=1)
    sign, level = np.sign(correlation[rows, j]), np.abs(correlation[rows, j])
    floor = _EXHAUSTED * level
    for k in range(1, most + 1):
        weight = lean[rows, j if favour is not None else 0]
        r, z = _orthogonal(x[j] * weight[:, None], basis[:, :k], seen[:, :k])
        rho = np.sqrt(np.einsum("mn,mn,mn->m", z, z, w))
        enters = (rho > _DEPENDENT * weight) & (level > floor) & (blocked[rows, j] == 0)
        over = enters / np.where(enters, rho, 1.0)
        q = z * over[:, None]
        inner = q if train is None else q * w
        basis[:, k], seen[:, k] = q, inner
        blocked[rows, j] = np.inf
        order[enters, k - 1] = j[enters]
        column = np.matmul(inverse[:, :k, :k], r[:, :, None])[:, :, 0] * -over[:, None]
        corner = scale[j] * weight * over
        inverse[:, :k, k], inverse[:, k, k] = column, corner
        spread = spread + np.einsum("mk,mk->m", column, column) + corner**2
        leverage += q * q
        residual -= q * np.einsum("mn,mn->m", inner, residual)[:, None]
        terms += enters
        note(k)
        idle = np.where(loo[:, k] < best, 0, idle + 1)
        best = np.minimum(best, loo[:, k])
        if ((idle > patience) | (level <= floor)).all():
            break
        v[:, k] = (sign - np.einsum("mk,mk->m", r, v[:, :k])) * over
        gain = inner @ x.T
        gain *= v[:, k, None] if favour is None else v[:, k, None] * lean
        slope += gain
        rise = np.maximum(level[:, None] - correlation, 0) / np.maximum(1 - slope, _LEAST)
        fall = np.maximum(level[:, None] + correlation, 0) / np.maximum(1 + slope, _LEAST)
        step = np.minimum(rise, fall) + blocked  # Efron et al. (2004), eq. 2.13
        j = step.argmin(axis=1)
        go = np.minimum(step[rows, j], level)
        sign = np.where(rise[rows, j] < fall[rows, j], 1.0, -1.0)
        correlation -= go[:, None] * slope
        level = level - go
    return Paths(order[:, :k], loo[:, : k + 1], held[:, : k + 1])


def _orthogonal(x: Array, basis: Array, seen: Array) -> tuple[Array, Array]:
    """Take from each row of x (M, n) what its basis (M, k, n) holds of it, again if that was most of it.

    Twice is enough: Giraud, Langou & Rozloznik (2005, 10.1016/j.camwa.2005.08.009).
    """
    r = np.matmul(seen, x[:, :, None])[:, :, 0]
    z = x - np.matmul(r[:, None], basis)[:, 0]
    if (np.einsum("mn,mn->m", z, z) < _MOSTLY * np.einsum("mn,mn->m", x, x)).any():
        again = np.matmul(seen, z[:, :, None])[:, :, 0]
        z -= np.matmul(again[:, None], basis)[:, 0]
        r += again
    return r, z
