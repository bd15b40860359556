"""Carbon steel at high temperature, EN 1993-1-2:2005: reduction factors, elongation, stress-strain law with unloading.

Unloading
---------
The code gives the stress ``f(e)`` of a first loading and says nothing of what comes after. Here, as in most programs
for fire (Franssen 1990, 10.1016/0045-7949(90)90129-S), plastic strain is what stays when the temperature changes: a
fibre unloads with the slope ``E`` of the moment towards its plastic strain ``p``. Loaded the other way it begins a
curve of first loading of its own, from the farthest plastic strain ever reached on that side. With ``low <= p <=
high`` these farthest strains, the stress is three curves and no iteration::

    s = E (e - p),  not above  f(e - low),  not below  -f(high - e);      then  p = e - s/E

The slope of ``f`` never exceeds ``E``, so that plastic strain grows in the direction of the stress only and work is
dissipated, never gained, at constant temperature. Elongation and stress-strain law see the same temperature; creep is
in the law of the code implicitly, as it is in the tests behind it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner, kernel

COLDEST, HOTTEST = 20.0, 1200.0  # C: what the code covers
ELASTIC, BILINEAR, EN = 0, 1, 2
LINEAR = 3  # elastic, in an element that takes no notice of its displacements

# Table 3.1 at 20, 100, 200 ... 1200 C: proportional limit, effective yield strength, modulus, in parts of those at 20 C
_LIMIT = np.array([1.0, 1.0, 0.807, 0.613, 0.42, 0.36, 0.18, 0.075, 0.05, 0.0375, 0.025, 0.0125, 0.0])
_YIELD = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.78, 0.47, 0.23, 0.11, 0.06, 0.04, 0.02, 0.0])
_MODULUS = np.array([1.0, 1.0, 0.9, 0.8, 0.7, 0.6, 0.31, 0.13, 0.09, 0.0675, 0.045, 0.0225, 0.0])
_FULL, _LAST, _NONE = 0.02, 0.15, 0.20  # strains at which the strength is reached, begins to fall, is gone

Vector = NDArray[np.float64]


@inner
def reduction(temperature: float) -> tuple[float, float, float]:
    """Return the factors of proportional limit, strength and modulus (Table 3.1)."""
    t = min(max(temperature, COLDEST), HOTTEST)
    if t <= 100.0:
        return 1.0, 1.0, 1.0
    i = min(int(t / 100.0), 11)
    x = t / 100.0 - i
    return (
        _LIMIT[i] + x * (_LIMIT[i + 1] - _LIMIT[i]),
        _YIELD[i] + x * (_YIELD[i + 1] - _YIELD[i]),
        _MODULUS[i] + x * (_MODULUS[i + 1] - _MODULUS[i]),
    )


@inner
def elongation(t: float) -> float:
    """Return the thermal strain from 20 C on (3.4.1.1)."""
    if t < 750.0:
        return 1.2e-5 * t + 0.4e-8 * t * t - 2.416e-4
    if t < 860.0:
        return 1.1e-2
    return 2e-5 * t - 6.2e-3


@inner
def first_loading(
    e: float, modulus: float, limit: float, strength: float, slope: float
) -> tuple[float, float]:
    """Return stress and tangent of a first loading; a positive ``slope`` is that of bilinear steel."""
    elastic = limit / modulus if modulus > 0.0 else 0.0
    if e <= elastic:
        return modulus * e, modulus
    if slope >= 0.0:
        return limit + slope * (e - elastic), slope
    if e < _FULL:  # Table 3.2: an ellipse from the proportional limit to the strength
        rest = strength - limit
        if rest <= 0.0:
            return strength, 0.0
        wide = _FULL - elastic
        c = rest * rest / (wide * modulus - 2.0 * rest)
        a = math.sqrt(wide * (wide + c / modulus))
        b = math.sqrt(c * wide * modulus + c * c)
        root = math.sqrt(a * a - (_FULL - e) ** 2)
        return limit - c + b / a * root, b * (_FULL - e) / (a * root)
    if e <= _LAST:
        return strength, 0.0
    if e < _NONE:
        return strength * (_NONE - e) / (_NONE - _LAST), -strength / (_NONE - _LAST)
    return 0.0, 0.0


@inner
def properties(steel: Vector, temperature: float) -> tuple[float, float, float, float, float]:
    """Return modulus, limit, strength, slope after the limit and thermal strain at a temperature.

    ``steel`` is a row of law, modulus and yield strength at 20 C, ratio of hardening, expansion of the elastic law.
    """
    if steel[0] == ELASTIC or steel[0] == LINEAR:
        return steel[1], math.inf, math.inf, 0.0, steel[4] * (temperature - COLDEST)
    limit, strength, modulus = reduction(temperature)
    thermal = elongation(temperature)
    if steel[0] == BILINEAR:
        most = strength * steel[2]
        return modulus * steel[1], most, most, steel[3] * modulus * steel[1], thermal
    return modulus * steel[1], limit * steel[2], strength * steel[2], -1.0, thermal


@inner
def stress(
    e: float, p: float, low: float, high: float, modulus: float, limit: float, strength: float, slope: float
) -> tuple[float, float]:
    """Return stress and tangent at a mechanical strain, with what a fibre remembers of plastic strains."""
    s = modulus * (e - p)
    tangent = modulus
    if s > 0.0:
        most, along = first_loading(e - low, modulus, limit, strength, slope)
        if s > most:
            s, tangent = most, along
    elif s < 0.0:
        most, along = first_loading(high - e, modulus, limit, strength, slope)
        if -s > most:
            s, tangent = -most, along
    return s, tangent


@kernel
def loaded(strains: Vector, temperatures: Vector, steel: Vector, out: Vector) -> int:
    """Write the stresses of one fibre through a history of total strains and temperatures."""
    p, low, high = 0.0, 0.0, 0.0
    for i in range(len(strains)):
        modulus, limit, strength, slope, thermal = properties(steel, temperatures[i])
        e = strains[i] - thermal
        out[i], _ = stress(e, p, low, high, modulus, limit, strength, slope)
        if modulus > 0.0:
            p = e - out[i] / modulus
        low, high = min(low, p), max(high, p)
    return 0
