"""The next experiment: how much a measurement nobody has made yet would teach, before it is made.

A possible experiment is worth the information it is expected to add to what is known (Lindley 1956,
10.1214/aoms/1177728069): draw parameters from the posterior, simulate a measurement with its errors, update the
posterior with it, and average the Kullback-Leibler divergence of the updated posterior from the present one,

    gain = E_y KL(p(theta | y) || p(theta)) = E log p(y | theta) - log p(y).

It is computed by nested Monte Carlo (Ryan 2003, 10.1198/1061860032012; Huan & Marzouk 2013,
10.1016/j.jcp.2012.08.013), and nothing is asked of the simulator beyond one answer a draw: the draws that simulate
measurements are also the ones that each measurement weighs. With w_ij the weight that measurement i, simulated at
draw i, gives to draw j of N,

    w_ij = p(y_i | theta_j) / sum_k p(y_i | theta_k),     KL_i = log N + sum_j w_ij log w_ij.

Given the draws and y_i, the draw that made y_i is any of them with probability w_ij, so KL_i is the mean of the usual
log p(y_i | theta_i) / p(y_i) over what is not known and scatters less, far less where an experiment teaches little.

Bias. With C = E_y E_theta (p(y | theta) / p(y))^2 - 1, Jensen's inequality makes log p(y_i) too small by C / 2N if
draw i is left out of its own average, and too large by C / 2N if it is kept, as here (the two bounds of Foster et
al. 2020, 10.48550/arXiv.1911.00294; Rainforth et al. 2018, 10.48550/arXiv.1709.06181, give the order). The same
argument about who made y_i gives E sum_j w_ij^2 = (1 + C) / N, so half of what the mean squared weights exceed 1 / N is
added: what is left is of order 1 / N^2. No more than log N + 1/2 can ever be found, which shows in time: one
over the mean sum of squared weights is the number of draws that a measurement leaves in play, the `effective` size.
Below ten of them what is left is no longer small (linear Gaussian models of 1 to 5 parameters: a third of a nat over
the effective size, and beyond log N everything that exceeds it). Then the estimate without correction is given, which
is too small on average whatever the model (Foster et al.), less 1.96 standard errors, and said to be a lower bound.

Error. Each draw acts twice, by its measurement and by its weight under the measurements of all others. Both are
linearised (the Hajek projection of the estimate), added draw by draw, and summed in squares. The correction of the bias
is added in squares too, as an allowance for what it leaves.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tamis.blas import one_thread
from tamis.errors import SimulationError, StudyError, TamisWarning
from tamis.experiment import Experiment, Observation
from tamis.gaussians import joint_log_density
from tamis.inference.likelihood import (
    Forward,
    Likelihood,
    answers,
    common_errors,
    part_of,
    sources,
    with_error,
)
from tamis.inference.posterior import Posterior
from tamis.noise import Gaussian, Known, Noise, Relative, Sum, Theta
from tamis.types import Array, Gauss, Generator, Mask

Pairs = Callable[[slice], Array]

_BLOCK = 2**17  # multiplications in one matrix product; OpenBLAS starts its threads beyond 2**18
_ENOUGH = 10.0  # effective draws; with fewer, more than some hundredths of a nat of bias are left
_LEAST = -745.0  # logarithm of the smallest number


@dataclass(frozen=True)
class Gain:
    """What a possible experiment is expected to teach."""

    gain: float  # nats
    error: float  # standard error
    at_least: bool  # the gain is a lower bound: draws are too few to tell how much more it is
    narrowing: Array  # (d,), 1 - E[sd after] / sd now: 0 teaches nothing, 1 everything
    effective: float  # draws that a simulated measurement leaves in play
    failed: int  # draws at which the simulator gave no answer


@one_thread
def expected_gain(
    posterior: Posterior,
    terms: Sequence[tuple[Experiment, Forward]],
    *,
    n: int = 2000,
    rng: Generator,
    given: Likelihood | None = None,
) -> Gain:
    """Estimate the information that experiments, done together once each, would add to a posterior.

    Candidates compared with generators of the same seed share draws and errors, so that their differences are
    known better than their gains.

    Parameters
    ----------
    posterior
        What is known now. Draws of it should be independent, or the standard error is too small.
    terms
        The experiments and the models that answer for them; measurements they may hold are not read.
    n
        Number of draws at which measurements are simulated, each of which weighs all of them; at most that of the
        posterior's draws.
    rng
        Source of draws and errors.
    given
        The likelihood behind the posterior, whose data tell of errors of a surrogate that they share with the
        experiments; needed where they do.
    """
    if n < 2:
        raise StudyError(f"expected at least 2 draws to simulate measurements at, found n = {n}")
    name = ", ".join(experiment.name for experiment, _ in terms)
    x = posterior.draws(min(n, len(posterior.flat)), rng)
    forwards = [forward for _, forward in terms]
    found = answers(posterior.space, forwards, x)
    if given is not None:
        found = given.informed(x, forwards, found, posterior.space)
    good = np.all([np.isfinite(model.mean).all(axis=1) for model in found], axis=0)
    if good.sum() < 2:
        raise SimulationError(f"{name}: the simulator failed at {int((~good).sum())} of {len(x)} draws")
    x = x[good]
    theta = {parameter: x[:, k] for k, parameter in enumerate(posterior.space.names)}
    pairs: list[Pairs] = []
    sharing: dict[int, list[tuple[Observation, Gauss, Array]]] = {}
    found = [_rows(model, good) for model in found]
    common = common_errors(forwards, found, rng)
    for (experiment, _), model, drawn, source in zip(terms, found, common, sources(forwards), strict=True):
        for observation, part in zip(experiment.observations, experiment.parts(), strict=True):
            mine = part_of(model, part)
            y = _simulated(observation, mine, theta, rng, drawn)
            if mine.common is None:
                pairs.append(_pairs(observation, mine, theta, y))
            else:
                sharing.setdefault(source, []).append((observation, mine, y))
    pairs += [_shared(members, theta) for members in sharing.values()]
    bound, correction, error, narrowing, effective = _average(pairs, x, name)
    failed = int((~good).sum())
    if effective >= _ENOUGH:
        error = math.hypot(error, correction)
        return Gain(bound + correction, error, False, narrowing, effective, failed)
    gain = max(0.0, bound - 1.96 * error)
    warnings.warn(
        f"{name}: a simulated measurement leaves {effective:.1f} of {len(x)} draws in play, fewer than "
        f"{_ENOUGH:.0f}, so that the expected gain is known to be at least {gain:.2f} and may be far larger; raise "
        "draws.",
        TamisWarning,
        stacklevel=2,
    )
    return Gain(gain, error, True, narrowing, effective, failed)


def _average(pairs: Sequence[Pairs], x: Array, name: str) -> tuple[float, float, float, Array, float]:
    """Weigh all draws by each measurement, and average.

    Return the gain, what corrects its bias, the standard error of their sum, narrowing and effective size.
    """
    size, known = len(x), np.ptp(x, axis=0) == 0
    z = (x - x.mean(axis=0)) / np.where(known, 1.0, x.std(axis=0, ddof=1))
    moments = np.hstack([z, z**2])
    divergence, squares, spread = np.empty(size), np.empty(size), np.empty((size, z.shape[1]))
    influence = np.zeros(size)
    step = max(1, _BLOCK // (size * moments.shape[1]))
    for start in range(0, size, step):
        rows = slice(start, min(start + step, size))
        log = np.sum([each(rows) for each in pairs], axis=0)
        if np.isnan(log).any() or not np.isfinite(np.diagonal(log, start)).all():
            raise StudyError(
                f"{name}: a simulated measurement has no finite density under the model that made it; expected an "
                "error model of positive variance, since without errors one measurement tells everything"
            )
        log -= log.max(axis=1, keepdims=True)
        log -= np.log(np.exp(log).sum(axis=1, keepdims=True))
        np.maximum(log, _LEAST, out=log)
        weight = np.exp(log)
        divergence[rows] = math.log(size) + np.einsum("ij,ij->i", weight, log)
        squares[rows] = np.einsum("ij,ij->i", weight, weight)
        first, second = np.hsplit(weight @ moments, 2)
        spread[rows] = np.sqrt(
            np.maximum(second - first**2, 0.0) / np.maximum(1 - squares[rows, None], 1 / size)
        )
        influence += np.einsum("ij,ij->j", weight, log + (math.log(size) - divergence[rows, None]))
    values = divergence + 0.5 * (squares - 1 / size)
    influence = influence / size + (values - values.mean()) / size
    narrowing = np.where(known, 0.0, 1 - spread.mean(axis=0))
    correction = 0.5 * float(squares.mean() - 1 / size)
    error = float(np.sqrt(np.sum(influence**2)))
    return float(divergence.mean()), correction, error, narrowing, float(1 / squares.mean())


def _simulated(
    observation: Observation, model: Gauss, theta: Theta, rng: Generator, common: Array | None
) -> Array:
    """Simulate a measurement at every draw, (n, m)."""
    drawn = observation.noise.draw(model.mean, theta, observation.coord, rng)
    return np.asarray(drawn + (with_error(model, rng, common) - model.mean))


def _shared(members: Sequence[tuple[Observation, Gauss, Array]], theta: Theta) -> Pairs:
    """Return log densities of measurements that share errors of a surrogate under all draws, some rows at a time."""

    def one(i: int) -> Array:
        return joint_log_density([o.noise.witness(y[i : i + 1], m, theta, o.coord) for o, m, y in members])

    return lambda rows: np.stack([one(i) for i in range(rows.start, rows.stop)])


def _pairs(observation: Observation, model: Gauss, theta: Theta, y: Array) -> Pairs:
    """Return log densities of measurements y (n, m) under all draws, some rows at a time."""
    noise, coord = observation.noise, observation.coord
    if model.modes is None and _plain(noise):
        return _white(y, model.mean, noise.error_variance(model.mean, theta, coord) + model.var)

    def each(rows: slice) -> Array:
        return np.stack([noise.loglike(one[None], model, theta, coord) for one in y[rows]])

    return each


def _plain(noise: Noise) -> bool:
    """Whether errors are independent and Gaussian, of a variance that the measurement has no part in."""
    if isinstance(noise, Sum):
        return all(map(_plain, noise.parts))
    return isinstance(noise, Known | Gaussian) or (isinstance(noise, Relative) and noise.of == "model")


def _white(y: Array, mean: Array, variance: Array) -> Pairs:
    """Log densities of independent errors as one matrix product: the square is multiplied out about the mean answer."""
    centre = mean.mean(axis=0)
    left, offset = np.hstack([(y - centre) ** 2, y - centre]), mean - centre
    variance = np.where(variance > 0, variance, np.nan)
    right = np.hstack([1 / variance, -2 * offset / variance]).T
    constant = (offset**2 / variance + np.log(2 * math.pi * variance)).sum(axis=1)
    step = max(1, _BLOCK // right.size)

    def each(rows: slice) -> Array:
        blocks = [left[k : min(k + step, rows.stop)] @ right for k in range(rows.start, rows.stop, step)]
        return np.asarray(-0.5 * (np.concatenate(blocks) + constant))

    return each


def _rows(model: Gauss, rows: Mask) -> Gauss:
    weight = None if model.weight is None else model.weight[rows]
    common = None if model.common is None else model.common[rows]
    return Gauss(model.mean[rows], model.var[rows], model.modes, weight, common)
