"""Smoothed histograms for the eye: how draws are spread over one or two parameters.

A histogram's cosine transform damped by a Gaussian is a kernel estimate that is mirrored at the ends of its
range, so a density that leans against a bound of its prior is not bent down there. The width comes from the
fixed point of Botev, Grotowski & Kroese 2010 (10.1214/10-AOS799), which does not assume one peak: the usual
rule of thumb, to which arviz-stats falls back where there is no fixed point, washes out the second mode of a
bimodal posterior. Only the width is taken from there: its `kde` counts repeated draws as new ones, mirrors a
fifth of the range only, and draws nothing where all draws are equal. These curves are drawn, never reported as
numbers.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import fft

from tamis.inference.diagnostics import arviz
from tamis.marginals import Marginal
from tamis.types import Array

_BINS = 510
_THIN = 3  # every third bin is drawn; the kernel is wider than that
_PLANE = 80
_FINEST = 1e-9  # of a number, the least range that is cut into bins


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
    """Return the kernel's standard deviation, the width of a bin at least."""
    stats = arviz()
    counts, _ = np.histogram(draws, bins=_BINS, range=(low, high))
    apart = np.unique(draws)  # a sampler repeats its draws, which would otherwise look like very sharp peaks
    counts = counts * (len(apart) / max(counts.sum(), 1))
    narrow = (high - low) / _BINS
    with np.errstate(
        all="ignore"
    ):  # a flat law has no fixed point, one on two scales may have it below a bin
        width = stats.get_bw(apart, "isj", grid_counts=counts, x_range=high - low)
        if not width > narrow:
            width = stats.get_bw(apart, "silverman")
    return max(float(width), narrow)
