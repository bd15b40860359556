"""What a process may miss beyond its runs, where inputs have no ends.

A stationary process returns to its mean where there are no runs, within a few of its standard deviations. An output
that grows like exp(z) of a normal input does not, and a few inputs in a hundred thousand bear most of its mean squared
error. No run left out tells of them (of the product of two lognormal inputs, 100 runs tell of 0.005 to 2 times the
true error), nor do outer runs predicted from inner ones, whose error is another.

What tells is how the same runs fit another story, which goes on differently: that a bent image of the output,
w = asinh((y - c) / s), is the stationary process. For s beyond the range of y this is the process of y itself, for c
outside of the range and small s that of log(y - c) or -log(c - y), and between them lie outputs with two heavy tails.
Centre c and scale s are found with the lengths by the restricted likelihood, which both stories share once
the Jacobian is counted (Box & Cox 1964, 10.1111/j.2517-6161.1964.tb00553.x; for processes Snelson, Rasmussen &
Ghahramani 2003, "Warped Gaussian processes", Advances in Neural Information Processing Systems 16). Where the two
stories differ, the first may be wrong by that much: the second's squared difference from the first's mean, and its own
variance, are what is to be expected of the error at a point.

How far it is believed. For the share 1 - exp(-2 dl / n) of a gain of dl in log-likelihood: a likelihood
is that of runs foretold one after the other, and this is by how much the variances of these shrink (the same number
serves as a coefficient of determination: Nagelkerke 1991, 10.1093/biomet/78.3.691). Taken at its word the likelihood
would believe all of the second story for a gain of three, and an output that grows like a cube would be judged
by what an exponential does far away. And w is followed beyond the runs as far again as it ranges over them, no
further, its variance to first order: the mean of sinh(w) over all that w may be has no bound that means anything.
Reported over true error of 100 runs, without and with it, six designs each (on which share and limit were chosen; 20
other designs of the first give 0.9 to 1.5):

    x1 x2^1.5 / (1 + x3) + sqrt(x1), x1, x2 lognormal    0.005 to 2.1    1.2 to 1.4
    10 - exp(.8 z1 + .5 z2) (1 + .3 sin z3)              0.05 to 1.6     0.99 to 1.03
    exp(z1) - exp(z2)                                    0.09 to 1.4     1.0 to 2.9
    sinh(z1 + z2) + z3                                   0.02 to 1.2     0.4 to 3.9
    z1^3 + z2 z3                                         0.03 to 1.3     0.5 to 3.9
    z1^2 z2^2 + z3                                       0.17 to 3.9     0.25 to 4.1

The mean over the law of what lies in tails needs points there: half of them are drawn twice as wide, and weighted.
(From as many Sobol' points of the law itself this mean is wrong by up to four.)

Predictions remain those of the process itself: this is only to judge them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr, ndtri

from tamis.design import sobol
from tamis.surrogates.process import Hyper, Likelihood, Process, condition, limits, search
from tamis.surrogates.replicates import gather
from tamis.types import Array, Mask

_MOST = 512  # points by which the second story is found
_PRIOR = (np.log(3.0), 2.0)  # mean and spread of the scale's logarithm, in spreads of the output
_RANGE = ((-5.0, 5.0), (np.log(0.01), np.log(100.0)))  # of centre and log scale, in these
_CLOSE = 1e-6  # relative change of the likelihood at which a climb ends
_FIRST = 10  # steps of a climb before the highest is chosen
_POINTS = 4096
_WIDER = 2.0
_APART = (19, 5, 1964)  # seed of these


@dataclass(frozen=True)
class Tail:
    """A process of w = asinh((y - centre) / scale) that judges a process of y."""

    share: float  # of belief
    centre: float
    scale: float
    process: Process
    reach: tuple[float, float]  # what w is at least and at most, however far the point
    noise: float  # variance of a run about the process of y, below which nothing is expected

    def expected(self, x: Array, basis: Array, mean: Array) -> Array:
        """Return the expected square of a run at points x (N, d) about a mean (N,), to first order in w."""
        w, var = self.process.predict(x, basis)
        w = np.clip(w, *self.reach)
        apart, slope = self.centre + self.scale * np.sinh(w) - mean, self.scale * np.cosh(w)
        noise = np.maximum(slope**2 * self.process.hyper.noise.mean(), self.noise)
        return np.asarray(apart**2 + slope**2 * var + noise)


def second_story(kernel: str, x: Array, basis: Array, y: Array, hyper: Hyper) -> Array:
    """Return share, centre, scale, variance, noise and lengths of the second story for a process found, (5 + d,)."""
    nothing = np.append([0.0, 0.0, 1.0, 0.0, 0.0], hyper.length)
    if hyper.variance <= 0:
        return nothing
    offset, spread = float(y.mean()), float(y.std())
    runs = gather(x, (y - offset) / spread, None)
    rows = np.random.default_rng(0).permutation(len(runs.first))[:_MOST]
    z, first = runs.y[rows], runs.first[rows]
    likelihood = Likelihood(kernel, x[first], basis[first], z, None)
    low, high = limits(len(z), x.shape[1])
    share = np.log(np.clip(hyper.noise.mean() / hyper.variance, *np.exp([low[-1], high[-1]])))
    own = np.append(np.log(hyper.length), share)
    if len(runs.first) < len(
        x
    ):  # means of runs, whose noise is another: the first story is found anew as well
        own = search(likelihood, np.random.default_rng(0), judge=True)
    bounds: Any = [*zip(low, high, strict=True), *_RANGE]
    starts = ((0.0, 10.0), (z.min() - 0.1, 0.1), (z.max() + 0.1, 0.1))
    begun = [_climb(likelihood, np.concatenate([own, [c, np.log(s)]]), bounds, _FIRST) for c, s in starts]
    climbed, least = _climb(likelihood, min(begun, key=lambda pair: pair[1])[0], bounds)
    gain = (likelihood.value(own) - least) / 2
    if gain <= 0:
        return nothing
    c, s = climbed[-2], np.exp(climbed[-1])
    variance = replace(likelihood, y=np.arcsinh((z - c) / s)).variance(climbed[:-2])
    believed = 1 - np.exp(-2 * gain / len(z))
    estimates = believed, offset + spread * c, spread * s, variance, variance * np.exp(climbed[-3])
    return np.append(estimates, np.exp(climbed[:-3]))


def taken_in(kernel: str, x: Array, basis: Array, y: Array, estimates: Array, noise: float) -> Tail | None:
    """Take in the runs, with estimates (5 + d,) as they were found; None where they are not believed at all."""
    if not len(estimates) or estimates[0] <= 0:
        return None
    share, centre, scale, variance, noise = (float(e) for e in estimates[:5])
    runs = gather(x, y, None)
    hyper = Hyper(estimates[5:], variance, np.full(len(runs.y), noise))
    w = np.arcsinh((runs.y - centre) / scale)
    reach = float(w.min() - np.ptp(w)), float(w.max() + np.ptp(w))
    process = condition(kernel, x[runs.first], basis[runs.first], w, hyper)
    return Tail(share, centre, scale, process, reach, noise)


def over_law(normal: Mask) -> tuple[Array, Array]:
    """Return points (N, d) of the cube, half of them far out in unbounded inputs, and weights (N,) of mean one."""
    u = sobol(_POINTS, len(normal), np.random.default_rng(_APART))
    wide = np.random.default_rng(_APART).permutation(_POINTS) % 2 == 0
    z = ndtri(u[:, normal])
    z[wide] *= _WIDER
    u[:, normal] = ndtr(z)
    ratio = np.exp(0.5 * (1 - _WIDER**-2) * np.sum(z**2, axis=1)) / _WIDER ** z.shape[1]
    return u, 2 / (1 + ratio)


def _climb(likelihood: Likelihood, start: Array, bounds: Any, most: int = 15_000) -> tuple[Array, float]:
    start = np.clip(start, *np.transpose(bounds))
    options: Any = {"maxiter": most, "ftol": _CLOSE}
    objective = _objective(likelihood)
    best = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(best.x), float(best.fun)


def _objective(likelihood: Likelihood) -> Callable[[Array], tuple[float, Array]]:
    """Return minus twice the log of likelihood and prior, and its gradient, the last of theta centre and log scale."""
    y = likelihood.y

    def call(theta: Array) -> tuple[float, Array]:
        from_centre, s = y - theta[-2], np.exp(theta[-1])
        root = np.hypot(s, from_centre)
        bent = replace(likelihood, y=np.arcsinh(from_centre / s))
        value, gradient, pull = bent.value_and_slopes(theta[:-2])
        mean, spread = _PRIOR
        away = (theta[-1] - mean) / spread
        by_centre = -np.sum(pull / root + 2 * from_centre / root**2)
        by_scale = np.sum(2 * s**2 / root**2 - pull * from_centre / root) + 2 * away / spread
        return float(value + 2 * np.log(root).sum() + away**2), np.append(gradient, [by_centre, by_scale])

    return call
