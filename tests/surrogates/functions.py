"""Functions of the unit cube with known Sobol indices, on which surrogates are measured."""

from __future__ import annotations

import math

import numpy as np

from tamis.types import Array

A, B = 7.0, 0.1  # of the Ishigami function
G = np.array([1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 500.0])  # of the Sobol' G function
BOREHOLE = np.array(  # rw, r, Tu, Hu, Tl, Hl, L, Kw
    [
        (0.05, 0.15),
        (100.0, 50000.0),
        (63070.0, 115600.0),
        (990.0, 1110.0),
        (63.1, 116.0),
        (700.0, 820.0),
        (1120.0, 1680.0),
        (9855.0, 12045.0),
    ]
)


def ishigami(u: Array) -> Array:
    """Ishigami & Homma (1990, 10.1109/ISUMA.1990.151285), inputs uniform on [-pi, pi]."""
    x = math.pi * (2 * u - 1)
    y: Array = np.sin(x[:, 0]) + A * np.sin(x[:, 1]) ** 2 + B * x[:, 2] ** 4 * np.sin(x[:, 0])
    return y


def ishigami_sobol() -> tuple[Array, Array, float, float]:
    """First-order and total indices, mean and variance."""
    one = 0.5 * (1 + B * math.pi**4 / 5) ** 2
    two = A**2 / 8
    both = B**2 * math.pi**8 * (1 / 18 - 1 / 50)
    variance = one + two + both
    first, total = np.array([one, two, 0.0]), np.array([one + both, two, both])
    return first / variance, total / variance, A / 2, variance


def borehole(u: Array) -> Array:
    """Flow through a borehole (Morris, Mitchell & Ylvisaker 1993, 10.1080/00401706.1993.10485320)."""
    rw, r, tu, hu, tl, hl, length, kw = (BOREHOLE[:, 0] + u * np.diff(BOREHOLE).T).T
    log = np.log(r / rw)
    y: Array = 2 * math.pi * tu * (hu - hl) / (log * (1 + 2 * length * tu / (log * rw**2 * kw) + tu / tl))
    return y


def sobol_g(u: Array, a: Array = G) -> Array:
    """Product of kinks (Saltelli & Sobol' 1995, 10.1016/0951-8320(95)00099-2)."""
    y: Array = np.prod((np.abs(4 * u - 2) + a) / (1 + a), axis=1)
    return y


def sobol_g_sobol(a: Array = G) -> tuple[Array, Array, float, float]:
    """First-order and total indices, mean and variance."""
    each = 1 / (3 * (1 + a) ** 2)
    variance = float(np.prod(1 + each) - 1)
    total = each * np.prod(1 + each) / (1 + each)
    return each / variance, total / variance, 1.0, variance


def kinks(u: Array) -> Array:
    """Sum of absolute values with falling weights: no polynomial is exact."""
    y: Array = np.abs(2 * u - 1) @ (0.5 ** np.arange(u.shape[1]))
    return y


def front(u: Array, m: int = 200) -> Array:
    """A front of m instants: its time, width and height are the three inputs."""
    time, width, height = 0.3 + 0.4 * u[:, :1], 0.05 + 0.1 * u[:, 1:2], 1 + u[:, 2:3]
    y: Array = height * np.tanh((np.linspace(0, 1, m) - time) / width)
    return y


def contact(u: Array) -> Array:
    """Force of a contact in five inputs: zero over most of the cube, until a gap closes, then stiff."""
    closed = u @ np.array([1.0, 0.8, 0.6, 0.4, 0.2]) - 2.15
    y: Array = np.maximum(closed, 0.0) * (1 + u[:, 3])
    return y


def stop(u: Array) -> Array:
    """Force of a stop in five inputs, of which two set the gap and one the stiffness."""
    pressed = np.maximum(u[:, 0] + 0.5 * u[:, 1] - 0.4 * u[:, 2] - 0.4 * u[:, 4] - 0.9, 0.0)
    y: Array = 3 * pressed * (0.5 + u[:, 3])
    return y
