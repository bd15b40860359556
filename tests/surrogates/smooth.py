"""Functions on the unit cube that others have used to judge surrogates, most of them smooth."""

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


def wing(u: Array) -> Array:
    """Weight of a light aircraft's wing, ten inputs (Forrester, Sobester & Keane 2008, 10.1002/9780470770801)."""
    low = np.array([150, 220, 6, -10, 16, 0.5, 0.08, 2.5, 1700, 0.025])
    high = np.array([200, 300, 10, 10, 45, 1, 0.18, 6, 2500, 0.08])
    s, fuel, a, sweep, q, taper, tc, n, gross, paint = (low + (high - low) * u).T
    cos = np.cos(np.deg2rad(sweep))
    answer: Array = 0.036 * s**0.758 * fuel**0.0035 * (a / cos**2) ** 0.6 * q**0.006 * taper**0.04
    return answer * (100 * tc / cos) ** -0.3 * (n * gross) ** 0.49 + s * paint


def otl(u: Array) -> Array:
    """Midpoint voltage of a push-pull circuit, six inputs (Ben-Ari & Steinberg 2007, 10.1080/08982110701580930)."""
    low, high = np.array([50, 25, 0.5, 1.2, 0.25, 50]), np.array([150, 70, 3, 2.5, 1.2, 300])
    b1, b2, f, c1, c2, beta = (low + (high - low) * u).T
    base, gain = 12 * b2 / (b1 + b2), beta * (c2 + 9)
    answer: Array = ((base + 0.74) * gain + 11.35 * f) / (gain + f) + 0.74 * f * gain / ((gain + f) * c1)
    return answer


def robot(u: Array) -> Array:
    """Reach of an arm of four links, eight inputs (An & Owen 2001, 10.1006/jcom.2001.0588): no polynomial is near."""
    turn = np.cumsum(2 * np.pi * u[:, :4], axis=1)
    answer: Array = np.hypot((u[:, 4:] * np.cos(turn)).sum(axis=1), (u[:, 4:] * np.sin(turn)).sum(axis=1))
    return answer


def morris(u: Array) -> Array:
    """Twenty inputs, interactions of up to four (Morris 1991, 10.1080/00401706.1991.10484804).

    The coefficients that he draws are -1 and 1 in turn here.
    """
    w = 2 * (u - 0.5)
    bent = [2, 4, 6]
    w[:, bent] = 2 * (1.1 * u[:, bent] / (u[:, bent] + 0.1) - 0.5)
    i = np.arange(20)
    two = np.where((i[:, None] < 6) & (i < 6), -15.0, (-1.0) ** (i[:, None] + i))
    answer: Array = w @ np.where(i < 10, 20.0, (-1.0) ** i)
    answer += np.einsum("ni,ij,nj->n", w, np.triu(two, 1), w)
    triples = [(a, b, c) for a in range(5) for b in range(a + 1, 5) for c in range(b + 1, 5)]
    answer += -10 * sum(w[:, a] * w[:, b] * w[:, c] for a, b, c in triples)
    return answer + 5 * w[:, :4].prod(axis=1)


def varying(u: Array) -> Array:
    """Three inputs: fast at one end and slow at the other (along each as Xiong et al. 2007, 10.1002/nme.1969)."""
    answer: Array = (np.sin(30 * (u - 0.9) ** 4) * np.cos(2 * (u - 0.9)) + (u - 0.9) / 2) @ np.array(
        [1, 0.6, 0.3]
    )
    return answer + u[:, 0] * u[:, 1]


def few_active(u: Array) -> Array:
    """Four inputs that act, whatever the others do."""
    answer: Array = 2 * np.sin(3 * u[:, 0]) + 3 * u[:, 1] ** 2 + 2 * u[:, 2] * u[:, 3] + np.exp(u[:, 3])
    return answer


def hundred(u: Array) -> Array:
    """A hundred inputs (Marelli & Sudret, UQLab sensitivity manual): rising weights and a few interactions."""
    x = 1 + u
    x[:, 19] += u[:, 19]
    k = np.arange(1, 101)
    answer: Array = 3 + (-5 * x + x**3 + np.log(x**2 + x**4) / 3) @ k / 100
    answer += (
        x[:, 0] * x[:, 1] ** 2 + x[:, 1] * x[:, 3] - x[:, 2] * x[:, 4] + x[:, 50] + x[:, 49] * x[:, 53] ** 2
    )
    return answer


def tailed(x: Array) -> Array:
    """Three physical inputs, the first two lognormal: what is rare is large."""
    answer: Array = x[:, 0] * x[:, 1] ** 1.5 / (1 + x[:, 2]) + np.sqrt(x[:, 0])
    return answer
