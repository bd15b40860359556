"""A Gaussian process of the log-likelihood, and the posterior given everything it may be.

Why the likelihood: where the output is a long signal, or a stochastic one that takes hundreds of runs to average, a
surrogate of the output is laborious and one of the log-likelihood is a single number. The method is that of Lebel,
Soize, Fuenfschilling & Perrin (2019, 10.1016/j.jsv.2019.06.024). A sampler that follows the predictor alone ("KP")
takes the surrogate for the truth, and its intervals are too short. Here the process is drawn: each of N functions
that it may be has a posterior, and their draws put together are the posterior given what is known ("MCT", Monte Carlo
on the trajectories, eq. 11).

A function is fixed by its values at some points more (eq. 12), and away from those it returns to the mean. So the
points have to lie where functions may have their top: in the region P of eq. 13, where the process exceeds its value
at the predictor's top with probability rho or more. Neighbours err together, so this needs the variance of the
difference of the two values, not that of the value. The region is walked by many points at once and thinned to
those farthest apart, in units of the process's lengths.

How the chains begin: a population is carried to the predictor's posterior, tempered wherever the process is unsure
of the fall from the top by more than one unit, so that it covers every function's posterior. It shows the walkers of
the region their scales, gives the region's size by importance, and each function picks its starts from it by its own
weights. Where functions have several tops, chains so start in each in proportion. A chain evaluates
its own function only: 100 functions of 900 centres cost what one costs.

What was measured. With seven parameters and 500 runs, 400 points at rho = 0.01 have 0.99 and 0.94 of the process's
variance where the posterior lies (a region of 7e-6 of the prior, and one of 8e-3); at rho = 0.1 0.96 and 0.91, at
0.001 0.99 and 0.93; 200 points at 0.01 0.98 and 0.89. A larger region spreads its points too thinly, a smaller one
leaves the flanks out. A quadratic trend is exact where the model is linear. Elsewhere it gains nothing: it misses the
log-likelihood at posterior draws by 1.9 and 0.66 (rms, median of 60 data sets; a signal of three parameters, 40 and 80
runs), a constant one by 1.5 and 0.54; with seven parameters and 500 runs they are equal. Two ways to favour the top
were tried with the quadratic trend. Noise that grows with the distance below it missed by 1.7 and 0.73 (5 % of it)
or 2.6 and 1.0 (20 %). Leaving out the lower half of the runs made error bars about a quarter too short.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtri

from tamis.blas import one_thread
from tamis.design import sobol
from tamis.errors import StudyError, TamisWarning
from tamis.inference import diagnostics
from tamis.inference.metropolis import UNMIXED, metropolis, mixed
from tamis.inference.posterior import Posterior
from tamis.inference.tmcmc import tmcmc
from tamis.space import Space
from tamis.surrogates.kriging import Kriging, Trajectories, coordinates, fit_kriging
from tamis.types import Array, Generator, Indices, LogDensity, Mask, Progress

_RHO = 1e-2
_POINTS = 400  # that fix a trajectory
_POOL = 1024  # draws from which chains start
_WALKERS = 1024  # in the region
_STEPS = 50  # of each
_CHAINS = 4  # a trajectory
_LONGER = 3  # steps of a chain, the draws asked of its trajectory being 1
_TRIES = 8  # climbs to the predictor's top
_LITTLE = 0.5  # of the process's variance in the trajectories, below which the user is warned
_HARMLESS = 0.1  # variance of a log-likelihood that may be missed
_SLOPE = 1e-5  # half the distance over which a slope is measured, in the unit cube


@dataclass(frozen=True)
class EmulatedLikelihood:
    """The predictor of a Kriging model of the log-likelihood, as samplers take it."""

    space: Space
    surrogate: Kriging

    def __post_init__(self) -> None:
        d, m = self.surrogate.u.shape[1], self.surrogate.y.shape[1]
        if (d, m) != (self.space.dim, 1):
            raise StudyError(
                f"expected a surrogate of one output of {self.space.dim} parameters "
                f"({', '.join(self.space.names)}); found {m} outputs of {d}"
            )

    def __call__(self, x: Array) -> Array:
        """Map (n, d) points to (n,) predicted log-likelihoods."""
        return self.surrogate.mean(self.space.to_unit(x))[:, 0]


@one_thread
def fit_loglike(
    space: Space,
    u: Array,
    values: Array,
    *,
    kernel: str = "matern52",
    trend: str | None = None,
    nugget: float | Array | None = None,
    rng: Generator,
) -> EmulatedLikelihood:
    """Fit a Kriging model to log-likelihoods (n,) at points u (n, d) of the unit cube.

    Runs without a finite value (failed, or of likelihood zero) are left out. The trend is quadratic unless given, where
    there are two runs a coefficient or more, else constant: the log-likelihood of a linear model is a quadratic, and
    what the trend takes the process need not vary by. The nugget is estimated unless given (appendix A.5).
    """
    u, values = np.asarray(u, dtype=float), np.asarray(values, dtype=float)
    if u.ndim != 2 or values.shape != u.shape[:1] or u.shape[1] != space.dim:
        raise StudyError(
            f"expected points (n, {space.dim}) and a log-likelihood for each; found {u.shape} and {values.shape}"
        )
    if np.isposinf(values).any():
        raise StudyError("the log-likelihood is infinite at some points; give the noise a lower bound")
    good = np.isfinite(values)
    if not good.any():
        raise StudyError(f"none of the {len(u)} log-likelihoods is finite; check the model's failures")
    if not good.all():
        warnings.warn(
            f"{np.sum(~good)} of {len(good)} runs have no likelihood and are left out of its surrogate, which knows "
            "nothing of them: look whether the posterior lies among them",
            TamisWarning,
            stacklevel=2,
        )
        u, values = u[good], values[good]
        nugget = nugget if nugget is None or np.ndim(nugget) == 0 else np.asarray(nugget)[good]
    coefficients = (space.dim + 1) * (space.dim + 2) // 2
    trend = trend or ("quadratic" if len(u) >= 2 * coefficients else "constant")
    marginals = [parameter.prior for parameter in space.parameters]
    options: Any = {"marginals": marginals, "kernel": kernel, "trend": trend, "nugget": nugget}
    fitted = fit_kriging(u, values, **options, of_runs=False, rng=rng)
    return EmulatedLikelihood(space, fitted)


@dataclass(frozen=True)
class Region:
    """Where functions of the process may have their top (eq. 13)."""

    top: Array  # (d,), of the predictor, in the unit cube
    points: Array  # (k, d), spread over it
    size: float  # its share of the prior
    pool: Array  # (n, d), draws of the predictor's posterior, widened by the process's uncertainty
    height: Array  # (n,), their log density


def explore(emulated: EmulatedLikelihood, rng: Generator) -> Region:
    """Find the top of the predictor and the region of other tops, and spread points over it."""
    surrogate = emulated.surrogate
    top = _top(surrogate, rng)
    drawn = _quietly(emulated.space, lambda x: _widened(surrogate, emulated.space.to_unit(x), top), rng)
    pool, height = emulated.space.to_unit(drawn.flat), drawn.log_likelihood[0]
    inside = _inside(surrogate, pool, top)
    # the integral of the indicator over the prior, by importance
    assert drawn.log_evidence is not None
    evidence = math.exp(drawn.log_evidence[0])
    size = evidence * float(np.exp(-height[inside]).sum()) / len(pool)
    first = np.vstack([pool[inside], top])
    walked = _walk(surrogate, first, pool, top, rng)
    scaled = coordinates(walked, surrogate.families) / surrogate.length[0]
    return Region(top, walked[farthest(scaled, _POINTS)], size, pool, height)


@one_thread
def mct(
    space: Space,
    emulated: EmulatedLikelihood,
    *,
    trajectories: int = 100,
    draws: int = 1000,
    rng: Generator,
    checkpoint: Path | None = None,
    progress: Progress | None = None,
) -> Posterior:
    """Sample the posterior of every trajectory of a log-likelihood's surrogate.

    Parameters
    ----------
    space
        The prior.
    emulated
        Surrogate of the log-likelihood.
    trajectories
        Number of functions drawn.
    draws
        Draws kept of each, in several chains; rounded up to a multiple of these.
    rng
        Gives one integer; the result depends on nothing else of it.
    checkpoint
        File from which an interrupted run goes on; the caller removes it afterwards.
    progress
        Called after every block of steps.

    Returns
    -------
    Posterior
        The chains of all trajectories, those of one side by side. Its diagnostics hold, besides those of
        `metropolis` (``rhat`` and ``ess`` of the worst trajectory): ``surrogate_share``, the part of each parameter's
        variance that lies between trajectories; ``carried``, the part of the process's variance that the
        trajectories have, where the draws lie; ``region_size``, as a share of the prior, and ``region_points``;
        ``predictor_mean`` and ``predictor_sd`` of the posterior that takes the predictor for the truth.
    """
    _check(space, emulated, trajectories, draws)
    root = int(rng.integers(2**63))
    generators = [np.random.default_rng([root, k]) for k in range(5)]
    predictor = _quietly(space, emulated, generators[0])
    region = explore(emulated, generators[1])
    drawn = emulated.surrogate.draw(trajectories, generators[2], region.points)
    start = _starts(drawn(region.pool) - region.height, generators[3])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=UNMIXED, category=TamisWarning)  # warned of below
        found = metropolis(
            space,
            lambda x: drawn.each(space.to_unit(x)),
            chains=trajectories * _CHAINS,
            draws=_LONGER * draws,
            rng=generators[4],
            checkpoint=checkpoint,
            progress=progress,
            start=space.from_unit(region.pool[start]),
            groups=trajectories,
            extend=1,  # three times the draws already
        )
    if not mixed(found.diagnostics["rhat"], found.diagnostics["ess"]):
        text = "the sampler did not mix on all trajectories of the log-likelihood (rhat {:.3g}, {:.0f} effective draws "
        text += "in the worst); raise draws (now {}), or give the surrogate more runs near the posterior"
        worst = found.diagnostics["rhat"].max(), found.diagnostics["ess"].min(), draws
        warnings.warn(text.format(*worst), TamisWarning, stacklevel=2)
    thinned = _thinned(found, -(-draws // _CHAINS))
    more = {
        "ess": np.min([diagnostics.ess(group) for group in np.split(thinned.x, trajectories)], axis=0),
        "surrogate_share": _share(thinned.x, trajectories),
        "carried": np.array(_carried(emulated, drawn, thinned.flat)),
        "region_size": np.array(region.size),
        "region_points": np.array(len(region.points), dtype=float),
        "predictor_mean": predictor.flat.mean(axis=0),
        "predictor_sd": predictor.flat.std(axis=0, ddof=1),
    }
    return replace(thinned, diagnostics={**found.diagnostics, **more})


def _check(space: Space, emulated: EmulatedLikelihood, trajectories: int, draws: int) -> None:
    middle = np.linspace(0.1, 0.9, 3)[:, None]
    here, there = (s.from_unit(middle * np.linspace(0.5, 1.0, s.dim)) for s in (space, emulated.space))
    if space.names != emulated.space.names or not np.array_equal(here, there):
        raise StudyError(
            f"expected the space in which the surrogate was fitted ({', '.join(emulated.space.names)}); found one of "
            f"other parameters or priors ({', '.join(space.names)})"
        )
    if trajectories < 2 or draws < 2 * _CHAINS:
        raise StudyError(
            f"expected at least 2 trajectories and {2 * _CHAINS} draws of each; found {trajectories} and {draws}"
        )


def _thinned(posterior: Posterior, draws: int) -> Posterior:
    """Keep so many draws of each chain, evenly spaced."""
    kept = np.linspace(0, posterior.x.shape[1] - 1, draws).round().astype(int)
    x, log_likelihood, log_prior = (
        np.ascontiguousarray(a[:, kept]) for a in (posterior.x, posterior.log_likelihood, posterior.log_prior)
    )
    return replace(posterior, x=x, log_likelihood=log_likelihood, log_prior=log_prior)


def _share(x: Array, trajectories: int) -> Array:
    """Return the part of the variance that lies between trajectories, (d,), from their chains' draws.

    The variance of their means is the covariance of the means of two halves of their chains, which err independently.
    """
    d = x.shape[2]
    halves = x.reshape(trajectories, 2, -1, d).mean(axis=2)
    one, two = np.moveaxis(halves - halves.mean(axis=0), 1, 0)
    between = (one * two).sum(axis=0) / (trajectories - 1)
    return np.asarray(np.clip(between / np.maximum(x.reshape(-1, d).var(axis=0), 1e-300), 0.0, 1.0))


def _carried(emulated: EmulatedLikelihood, drawn: Trajectories, x: Array) -> float:
    """Return the trajectories' variance at posterior draws as a part of the process's."""
    u = emulated.space.to_unit(x[:: max(1, len(x) // _POOL)])
    process = float(emulated.surrogate.predict(u).var.mean())
    own = float(drawn(u).var(axis=0, ddof=1).mean())
    part = own / process if process > 0 else 1.0
    if part < _LITTLE and process - own > _HARMLESS:
        warnings.warn(
            f"the trajectories have {part:.0%} of the surrogate's variance where the posterior lies, so that intervals "
            "are too short; the surrogate varies over distances too short for the points that fix them: add runs",
            TamisWarning,
            stacklevel=3,
        )
    return part


def farthest(x: Array, n: int) -> Indices:
    """Return the indices of n of the points (N, d), each the farthest from those before it; the last comes first.

    The greedy answer to the largest smallest distance (Gonzalez 1985, 10.1016/0304-3975(85)90224-5). Points that
    coincide with chosen ones are left out.
    """
    chosen = [len(x) - 1]
    near = np.sum((x - x[-1]) ** 2, axis=1)
    while len(chosen) < n and near.max() > 0:
        chosen.append(int(np.argmax(near)))
        near = np.minimum(near, np.sum((x - x[chosen[-1]]) ** 2, axis=1))
    return np.array(chosen, dtype=np.int64)


def _top(surrogate: Kriging, rng: Generator) -> Array:
    """Climb the predictor from the best of many points."""
    d = surrogate.u.shape[1]
    many = np.vstack([surrogate.u, sobol(_POOL, d, rng)])
    order = np.argsort(-surrogate.mean(many)[:, 0], kind="stable")[:_TRIES]
    stencil = np.vstack([np.zeros(d), _SLOPE * np.eye(d), -_SLOPE * np.eye(d)])

    def descent(u: Array) -> tuple[float, Array]:
        value = -surrogate.mean(np.clip(u + stencil, 0, 1))[:, 0]
        reach = np.clip(u + _SLOPE, 0, 1) - np.clip(u - _SLOPE, 0, 1)
        return float(value[0]), (value[1 : d + 1] - value[d + 1 :]) / reach

    bounds: Any = [(0.0, 1.0)] * d
    climbed = [minimize(descent, many[i], jac=True, method="L-BFGS-B", bounds=bounds) for i in order]
    return np.asarray(min(climbed, key=lambda found: float(found.fun)).x)


def _inside(surrogate: Kriging, u: Array, top: Array) -> Mask:
    """Tell which points are in the region, P(L(w) > L(top)) >= rho."""
    mean, var = surrogate.rise(u, top)
    return np.asarray(mean >= ndtri(_RHO) * np.sqrt(var))


def _widened(surrogate: Kriging, u: Array, top: Array) -> Array:
    """Return the predictor's fall from its top, in units of its error where that is larger than one."""
    mean, var = surrogate.rise(u, top)
    return np.asarray(mean / np.sqrt(1 + var))


def _quietly(space: Space, loglike: LogDensity, rng: Generator) -> Posterior:
    """Sample where to start from; whether the chains that start there mix, they say themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TamisWarning)
        return tmcmc(space, loglike, n=_POOL, rng=rng)


def _walk(surrogate: Kriging, first: Array, pool: Array, top: Array, rng: Generator) -> Array:
    """Walk from some points of the region uniformly over it, by differences of the pool at all scales."""
    d = len(top)
    u = first[rng.integers(len(first), size=_WALKERS)]
    for _ in range(_STEPS):
        a, b = pool[rng.integers(len(pool), size=(2, _WALKERS))]
        reach = 2.38 / math.sqrt(2 * d) * 10 ** rng.uniform(-2, 0, size=(_WALKERS, 1))
        to = u + reach * (a - b)
        taken = np.all((to > 0) & (to < 1), axis=1)
        taken[taken] = _inside(surrogate, to[taken], top)
        u = np.where(taken[:, None], to, u)
    return np.vstack([u, top])


def _starts(log_weight: Array, rng: Generator) -> Indices:
    """Pick starts of each trajectory's chains from the pool, by weights (trajectories, n)."""
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    edges = np.cumsum(weight, axis=1)
    level = rng.random((len(weight), _CHAINS)) * edges[:, -1:]
    picked = [np.searchsorted(edge, at, side="right") for edge, at in zip(edges, level, strict=True)]
    return np.asarray(np.minimum(np.ravel(picked), weight.shape[1] - 1))
