"""Smooth functions on the unit cube that others have used to judge Kriging."""

from __future__ import annotations

import numpy as np

from tamis.types import Array


def piston(u: Array) -> Array:
    """Cycle time of a piston, seven inputs (Ben-Ari & Steinberg 2007, 10.1080/08982110701580930)."""
    low = np.array([30, 0.005, 0.002, 1000, 90_000, 290, 340])
    high = np.array([60, 0.020, 0.010, 5000, 110_000, 296, 360])
    m, s, v0, k, p0, ta, t0 = (low + (high - low) * u).T
    a = p0 * s + 19.62 * m - k * v0 / s
    v = s / (2 * k) * (np.sqrt(a**2 + 4 * k * p0 * v0 / t0 * ta) - a)
    answer: Array = 2 * np.pi * np.sqrt(m / (k + s**2 * p0 * v0 / t0 * ta / v**2))
    return answer


def forrester(u: Array) -> Array:
    """One input (Forrester, Sobester & Keane 2007, 10.1098/rspa.2007.1900)."""
    answer: Array = (6 * u[:, 0] - 2) ** 2 * np.sin(12 * u[:, 0] - 4)
    return answer


def forrester_cheap(u: Array) -> Array:
    """Its cheap version."""
    answer: Array = 0.5 * forrester(u) + 10 * (u[:, 0] - 0.5) - 5
    return answer


def park(u: Array) -> Array:
    """Four inputs (Xiong, Qian & Wu 2013, 10.1080/00401706.2012.723572); the first kept from zero."""
    a, b, c, d = u.T
    a = np.maximum(a, 1e-8)
    answer: Array = a / 2 * (np.sqrt(1 + (b + c**2) * d / a**2) - 1) + (a + 3 * d) * np.exp(1 + np.sin(c))
    return answer


def park_cheap(u: Array) -> Array:
    """Its cheap version."""
    a, b, c, _ = u.T
    answer: Array = (1 + np.sin(a) / 10) * park(u) - 2 * a + b**2 + c**2 + 0.5
    return answer
