"""The point of highest posterior density, found from the best draw of a sampler.

Why after sampling: the best of many draws lies in the right basin, but in d dimensions about d/2 nats below the top of
it. Why two optimisers: quasi-Newton steps with bounds (Byrd, Lu, Nocedal & Zhu 1995, 10.1137/0916069) need few calls
where the density is smooth; posteriors of mechanical models have kinks (a contact that opens, a limit of friction),
where gradients mislead, and the simplex of Nelder & Mead (1965, 10.1093/comjnl/7.4.308) still creeps upwards.

Every parameter is measured in units of the width of the posterior along it, which one batch of points on both sides of
the start shows, from the width of the prior down. Gradients are central differences, all in one call. The best point
ever evaluated is returned, so the answer is never worse than the start.

The density is that of the physical parameters: it depends on the choice of parameters, as every mode does.
"""

from __future__ import annotations

import numpy as np

from tamis.blas import one_thread
from tamis.errors import StudyError
from tamis.space import Space
from tamis.types import Array, LogDensity

_QUARTERINGS = 18  # of the prior's width, down to 6e-11 of it, in search of the posterior's
_DIFFERENCE = 1e-3  # step of central differences, in widths
_ROUNDING = 1e-12  # least step of them, in units of the parameter itself
_SIMPLEX = 0.1  # first edge of the simplex, in widths
_CALLS = 400  # of the simplex at most


class _Density:
    """Log posterior density of physical points (n, d), with the best one seen."""

    def __init__(self, space: Space, loglike: LogDensity, start: Array) -> None:
        self.space, self.loglike = space, loglike
        self.x, self.value = start, -np.inf

    def __call__(self, x: Array) -> Array:
        prior = self.space.logpdf(x)
        inside = np.isfinite(prior)
        values = prior + self.loglike(
            np.where(inside[:, None], x, self.x)
        )  # no model is asked outside the prior
        values = np.where(inside & np.isfinite(values), values, -np.inf)
        best = int(np.argmax(values))
        if values[best] > self.value:
            self.x, self.value = x[best].copy(), float(values[best])
        return values


@one_thread
def polish(space: Space, loglike: LogDensity, start: Array) -> tuple[Array, float]:
    """Climb from a physical point (d,) to a maximum of the posterior density; return it and the log density there."""
    from scipy.optimize import minimize

    start = np.asarray(start, dtype=np.float64)
    if start.shape != (space.dim,):
        raise StudyError(f"a start of shape ({space.dim},) is expected, one point; found {start.shape}")
    density = _Density(space, loglike, start)
    if not np.isfinite(density(start[None])[0]):
        raise StudyError(f"the posterior density is zero at the start {start.tolist()}; start from a draw")
    low, high = (np.array([float(p.prior.ppf(np.array(u))) for p in space.parameters]) for u in (0.0, 1.0))
    width = _widths(density, start, low, high)
    below = 1e3 * (1 + abs(density.value))  # stands for minus infinity, which stops a line search

    def descent(y: Array) -> tuple[float, Array]:
        x = np.clip(start + width * y, low, high)
        step = np.diag(np.maximum(_DIFFERENCE * width, _ROUNDING * np.abs(x)))
        points = np.clip(np.concatenate([x[None], x + step, x - step]), low, high)
        values = np.maximum(density(points), density.value - below)
        d = len(x)
        apart = np.diagonal(points[1 : d + 1] - points[d + 1 :]) / width
        return -values[0], -(values[1 : d + 1] - values[d + 1 :]) / apart

    bounds = np.column_stack([(low - start) / width, (high - start) / width])
    minimize(descent, np.zeros(space.dim), jac=True, method="L-BFGS-B", bounds=bounds)
    top = density.x
    corners = np.concatenate([np.zeros((1, space.dim)), _SIMPLEX * np.eye(space.dim)])
    inwards = np.where(top + _SIMPLEX * width > high, -1.0, 1.0)
    minimize(
        lambda y: -density(np.clip(top + width * y, low, high)[None])[0],
        np.zeros(space.dim),
        method="Nelder-Mead",
        options={
            "initial_simplex": corners * inwards,
            "maxfev": _CALLS,
            "xatol": 1e-4,
            "fatol": 1e-6,
        },
    )
    return density.x, density.value


def _widths(density: _Density, x: Array, low: Array, high: Array) -> Array:
    """Return how far each parameter may move before the log density changes by 1, the widest by quartering."""
    d = len(x)
    middle = [[float(p.prior.ppf(np.array(u))) for u in (0.16, 0.84)] for p in density.space.parameters]
    steps = 0.25 ** np.arange(_QUARTERINGS)[:, None] * np.diff(middle)[:, 0]  # (quarterings, d)
    offsets = steps[:, :, None] * np.eye(d)
    points = np.clip(x + np.stack([offsets, -offsets]), low, high)
    change = np.abs(density(points.reshape(-1, d)) - density(x[None])).reshape(2, _QUARTERINGS, d).max(axis=0)
    fine = change <= 1
    first = np.where(fine.any(axis=0), fine.argmax(axis=0), _QUARTERINGS - 1)
    return np.asarray(steps[first, np.arange(d)])
