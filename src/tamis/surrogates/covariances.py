"""Correlation functions of one scaled distance, and how they change with each length.

Why radial and not a product of one-dimensional functions: both have one length per input and fit smooth
mechanical responses about equally well. A radial function needs one square root and one exponential per pair
of points whatever the number of inputs, the squared distances are one matrix product, and the derivatives of a
likelihood with respect to all lengths are one more (`pulls`): nothing of size (n, n, d) is ever formed. A
product would need d exponentials per pair and d passes over it for the gradient.

Every function here is one of the square of r, so that with s_k = (a_k - b_k) / length_k and r^2 = sum_k s_k^2 the
derivative with respect to log length_k is ``slope(r) s_k^2``, with slope = -(dR/dr)/r, finite at r = 0
(Rasmussen & Williams 2006, 10.7551/mitpress/3206.001.0001, eqs 4.9 and 4.17).

Squared distances by a product of matrices lose digits for points closer than about 1e-8 lengths; correlations
do not, since all three functions are flat at zero.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from scipy.linalg import blas

from tamis.errors import StudyError, nearest
from tamis.types import Array

Kernel = Literal["matern32", "matern52", "squared_exponential"]


def check_kernel(name: str) -> None:
    """Refuse a name that is no correlation function."""
    if name not in get_args(Kernel):
        raise StudyError(f'no covariance function "{name}"{nearest(name, get_args(Kernel))}')


def correlation(kernel: str, a: Array, b: Array) -> Array:
    """Correlations between two sets of points already divided by the lengths, (n, d) and (k, d) -> (n, k)."""
    return _value_and_decay(kernel, _squared(a, b))[0]


def correlation_and_slope(kernel: str, a: Array) -> tuple[Array, Array]:
    """Correlations within one set of points and their slopes, (n, n) each."""
    value, scaled, decay = _value_and_decay(kernel, _squared(a, a))
    if kernel == "matern52":
        scaled += 1.0
        scaled *= decay
        scaled *= 5 / 3
        return value, scaled
    if kernel == "matern32":
        decay *= 3.0
        return value, decay
    return value, value


def pulls(weight: Array, a: Array) -> Array:
    """Sums over all pairs of weight_ij (a_ik - a_jk)^2, for each input k.

    The weight is symmetric, of zero diagonal and in column order; only its lower triangle is read.
    """
    ones = np.ones((len(a), a.shape[1] + 1), order="F")
    ones[:, 1:] = a
    product = blas.dsymm(1.0, weight, ones, lower=1)
    sums: Array = 2 * (product[:, 0] @ a**2 - np.einsum("ik,ik->k", a, product[:, 1:]))
    return sums


def _squared(a: Array, b: Array) -> Array:
    square = (-2 * a) @ b.T
    square += np.einsum("ik,ik->i", a, a)[:, None]
    square += np.einsum("ik,ik->i", b, b)
    return np.maximum(square, 0.0, out=square)


def _value_and_decay(kernel: str, square: Array) -> tuple[Array, Array, Array]:
    """Return the correlation, the scaled distance and its exponential; overwrites the squared distances."""
    if kernel == "squared_exponential":
        square *= -0.5
        value = np.exp(square, out=square)
        return value, value, value
    order = 5 if kernel == "matern52" else 3
    square *= order
    scaled = np.sqrt(square)
    decay = np.exp(-scaled)
    if kernel == "matern52":  # (1 + a + a^2/3) exp(-a), a = sqrt(5) r
        square *= 1 / 3
        square += scaled
        square += 1.0
    else:  # (1 + a) exp(-a), a = sqrt(3) r
        np.add(scaled, 1.0, out=square)
    square *= decay
    return square, scaled, decay
