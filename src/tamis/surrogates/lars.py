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
matrices, several times faster than as many products with a vector. The loop is compiled
(`tamis.surrogates.kernels`); a path that is finished leaves it. A path may leave rows out (``train``): inner products
then skip them, but q and the residual are carried on them too, so that the error on held-out runs comes at no extra
cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tamis.surrogates.kernels import follow
from tamis.types import Array, Indices


class Paths(NamedTuple):
    """M paths in step: terms in their order of entry, and the errors of the least-squares fits on them."""

    order: Indices  # (M, K), term that entered at each step; -1 where none could
    loo: Array  # (M, K + 1), corrected leave-one-out error after each step, over the variance; infinite after the last
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
    (m, n), p = y.shape, len(phi)
    most = min(most, p)
    w = np.ones((m, n)) if train is None else train
    length = np.sqrt(np.maximum(np.einsum("pn,pn->p", phi, phi) - n * phi.mean(axis=1) ** 2, 0.0))
    usable = length > 1e-7 * np.sqrt(n)
    scale = usable / np.where(usable, length, 1.0)
    x = phi * scale[:, None]
    lean = np.ones((m, 1)) if favour is None else favour
    sizes = np.full(m, p) if sizes is None else sizes
    residual = y - ((w * y).sum(axis=1) / w.sum(axis=1))[:, None]
    total = np.maximum((w * residual**2).sum(axis=1), 1e-300)
    blocked = np.where(usable & (np.arange(p) < sizes[:, None]), 0.0, np.inf)
    correlation = ((w * residual) @ x.T) * lean
    j = (np.abs(correlation) - blocked).argmax(axis=1)
    order = np.full((m, most), -1)
    loo, held = np.full((2, m, most + 1), np.inf)
    k = follow(x, scale, lean, w, patience, residual, total, correlation, blocked, sizes, j, order, loo, held)
    return Paths(order[:, :k], loo[:, : k + 1], held[:, : k + 1])
