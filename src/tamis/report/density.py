"""Smoothed histograms for the eye: how draws are spread over one or two parameters.

A histogram's cosine transform damped by a Gaussian is a kernel estimate that is mirrored at the ends of its
range, so a density that leans against a bound of its prior is not bent down there. The width comes from the
fixed point of Botev, Grotowski & Kroese 2010 (10.1214/10-AOS799), which does not assume one peak: the usual
rule of thumb washes out the second mode of a bimodal posterior. These curves are drawn, never reported as
numbers.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import fft
from scipy.optimize import brentq

from tamis.marginals import Marginal
from tamis.types import Array

_BINS = 510
_THIN = 3  # every third bin is drawn; the kernel is wider than that
_PLANE = 80
_FINEST = 1e-9  # of a number, the least range that is cut into bins
_STAGES = 7  # Botev et al. 2010, section 4: more change nothing


def span(draws: Array, prior: Marginal) -> tuple[float, float]:
    """Return the range to draw: of all but one per mille of the draws, widened, in the prior's support."""
    low, high = (float(q) for q in np.quantile(draws, (0.0005, 0.9995)))
    bounds = np.asarray(prior.ppf(np.array([0.0, 1.0])), dtype=float)
    pad = 0.12 * (high - low) or 0.1 * abs(high) or 1.0
    pad = max(pad, _FINEST * max(abs(low), abs(high)))  # a posterior that is a point has no width to draw
    return max(low - pad, float(bounds[0])), min(high + pad, float(bounds[1]))


def curve(draws: Array, low: float, high: float) -> tuple[Array, Array]:
    """Return abscissae and density of draws between two bounds."""
    counts, edges = np.histogram(draws, bins=_BINS, range=(low, high))
    wave = fft.dct(counts / len(draws))
    time = (_width(draws, low, high) / (high - low)) ** 2
    damped = wave * np.exp(-0.5 * (np.pi * np.arange(_BINS)) ** 2 * time)
    height = np.maximum(fft.idct(damped), 0.0) * _BINS / (high - low)
    some = slice(_THIN // 2, None, _THIN)
    return (0.5 * (edges[1:] + edges[:-1]))[some], height[some]


def plane(x: Array, y: Array, xspan: tuple[float, float], yspan: tuple[float, float]) -> Array:
    """Return the joint density of two parameters on a regular grid, rows along y, its peak scaled to 1."""
    counts, _, _ = np.histogram2d(y, x, bins=_PLANE, range=(yspan, xspan))
    wave = fft.dctn(counts)
    k2 = (np.pi * np.arange(_PLANE)) ** 2
    slim = max(
        0.3, math.sqrt(max(0.0, 1.0 - float(np.corrcoef(x, y)[0, 1]) ** 2))
    )  # a ridge is thinner than its shadows
    times = [
        max(slim * _width(draws, low, high) / (high - low), 0.7 / _PLANE) ** 2
        for draws, (low, high) in ((y, yspan), (x, xspan))
    ]
    damping = np.exp(-0.5 * (k2[:, None] * times[0] + k2[None, :] * times[1]))
    height = np.maximum(fft.idctn(wave * damping), 0.0)
    return np.asarray(height / (height.max() or 1.0))


def _width(draws: Array, low: float, high: float) -> float:
    """Return the kernel's standard deviation."""
    n = len(np.unique(draws))  # a sampler repeats its draws, which would otherwise look like very sharp peaks
    counts, _ = np.histogram(draws, bins=_BINS, range=(low, high))
    power = (fft.dct(counts / max(counts.sum(), 1))[1:] / 2) ** 2
    k2 = np.arange(1.0, _BINS) ** 2
    smallest = (1.0 / _BINS) ** 2
    try:
        time = float(brentq(_fixed_point, smallest, 0.1, args=(n, k2, power)))
    except (ValueError, ZeroDivisionError):  # no fixed point: too few draws, or a flat law
        spread = min(float(draws.std()), float(np.subtract(*np.quantile(draws, (0.75, 0.25)))) / 1.349)
        time = (0.9 * spread * n**-0.2 / (high - low)) ** 2  # Silverman 1986, eq 3.31
    return math.sqrt(max(time, smallest)) * (high - low)


def _fixed_point(time: float, n: int, k2: Array, power: Array) -> float:
    """Botev et al. 2010, algorithm 1: zero at the best squared width, for a range of length 1."""
    norm = 2 * np.pi ** (2 * _STAGES) * float(np.sum(k2**_STAGES * power * np.exp(-k2 * np.pi**2 * time)))
    for s in range(_STAGES - 1, 1, -1):
        odd = math.prod(range(1, 2 * s, 2)) / math.sqrt(2 * np.pi)
        step = (2 * (1 + 0.5 ** (s + 0.5)) / 3 * odd / (n * norm)) ** (2 / (3 + 2 * s))
        norm = 2 * np.pi ** (2 * s) * float(np.sum(k2**s * power * np.exp(-k2 * np.pi**2 * step)))
    return time - float((2 * n * math.sqrt(np.pi) * norm) ** -0.4)
