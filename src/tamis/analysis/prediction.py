"""Robust prediction: what the model says at conditions nobody measured, with what is left of the uncertainty.

Two bands are kept apart throughout: the parameters' (spread of the model's answers over posterior draws) and
the total, which adds the error model. Where a surrogate answers, one draw of its error is part of each answer,
so both bands hold it; errors that numbers share are one draw for all of them. Mean and variance follow Hadjidoukas
et al. 2014 (10.1016/j.cma.2014.07.017), eq 14-15: the total variance is the mean of the error's variance plus the
variance of the answers. An error model with a mean of its own shifts the answers, in the total only.

Given the parameters the total is Gaussian, so its distribution is a mixture of one Gaussian a draw (eq 11-12).
Quantiles and probabilities of exceedance are those of the mixture, not counts of drawn errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from tamis.errors import SimulationError
from tamis.experiment import Experiment
from tamis.inference.likelihood import Forward, Likelihood, answers, common_errors, part_of, with_error
from tamis.inference.posterior import Posterior
from tamis.space import Space
from tamis.types import Array, Gauss, Generator


@dataclass(frozen=True)
class Predictive:
    """Draws of a prediction: model answers alone, and with the error model's errors added."""

    coord: Array | None
    model: Array  # (n, m): parameter uncertainty only
    draws: Array  # (n, m): model + error
    error_var: Array  # (n, m): variance of the error at each draw
    failed: int = 0  # draws at which the simulator gave no answer
    bias: Array | float = 0.0  # (n, m): mean of the error at each draw
    kept: NDArray[np.intp] | None = (
        None  # which of the draws asked for had answers, in all replicates; n is so many
    )
    # times their number, one replicate after the other

    @property
    def centre(self) -> Array:
        """Means of the total at each draw, (n, m): model answers and the mean of their errors."""
        return self.model + self.bias

    def quantile(self, p: float | Sequence[float], *, total: bool = True) -> Array:
        """Quantiles of the total, or of the model alone.

        Those of the total are solved for rather than read off the draws: they carry no noise of the drawn errors.
        """
        if not total or not self.error_var.any():
            return np.asarray(np.quantile(self.centre if total else self.model, p, axis=0))
        centre, sd = self.centre, np.sqrt(self.error_var)
        safe = np.where(sd > 0, sd, 1.0)
        wanted = np.asarray(p, dtype=float).reshape((*np.shape(p), 1))
        low = np.broadcast_to((centre - 10 * sd).min(axis=0), np.shape(p) + centre.shape[1:])
        high = np.broadcast_to((centre + 10 * sd).max(axis=0), low.shape)
        for _ in range(45):  # halvings: to 3e-14 of the bracket
            middle = (low + high) / 2
            away = middle[..., None, :] - centre
            below = np.where(sd > 0, ndtr(away / safe), away >= 0).mean(axis=-2) < wanted
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray((low + high) / 2)

    def exceedance(self, level: Array | float, *, total: bool = True) -> Array:
        """Probability, (m,), that the total or the model alone is above a level, one for all numbers or one each."""
        return np.asarray(self._beyond(level, total).mean(axis=0))

    def exceedance_error(self, level: Array | float, *, total: bool = True) -> Array:
        """Return the standard error of `exceedance` over the draws, (m,).

        It is 0 where all draws agree; with n of them a probability below 3 / n may still have been missed.
        """
        beyond = self._beyond(level, total)
        return np.asarray(beyond.std(axis=0) / np.sqrt(len(beyond)))

    def _beyond(self, level: Array | float, total: bool) -> Array:
        """Probability of exceedance given each draw, (n, m): the summands of eq 12."""
        if not total:
            return np.asarray(self.model > level, dtype=float)
        above, sd = self.centre - level, np.sqrt(self.error_var)
        return np.where(sd > 0, ndtr(above / np.where(sd > 0, sd, 1.0)), above > 0)

    @property
    def mean(self) -> Array:
        """Robust mean, eq 14, with the mean of the errors."""
        return np.asarray(self.centre.mean(axis=0))

    @property
    def sd_model(self) -> Array:
        """Standard deviation due to the parameters: the second term of eq 15."""
        return np.asarray(self.model.std(axis=0))

    @property
    def sd_total(self) -> Array:
        """Robust standard deviation: both terms of eq 15."""
        return np.asarray(np.sqrt(self.error_var.mean(axis=0) + self.centre.var(axis=0)))

    def coverage(self, y: Array, level: float = 0.9) -> float:
        """Share of the measurements inside the central interval of that probability.

        NaN if there are none.
        """
        low, high = self.quantile([(1 - level) / 2, (1 + level) / 2])
        y = np.atleast_2d(y)
        there = np.isfinite(y)
        return float(((y >= low) & (y <= high))[there].mean()) if there.any() else float("nan")

    def part(self, columns: slice | Sequence[int], coord: Array | None) -> Predictive:
        """Return some of the predicted numbers, with their own abscissa."""
        bias = np.broadcast_to(self.bias, self.model.shape)
        model, draws, error_var, bias = (
            a[:, columns] for a in (self.model, self.draws, self.error_var, bias)
        )
        return Predictive(coord, model, draws, error_var, self.failed, bias, self.kept)


def predict(
    source: Posterior | Space, forward: Forward, experiment: Experiment, *, n: int, rng: Generator
) -> Predictive:
    """Predict one experiment from n draws of a posterior, or of a prior."""
    space, x = _draws(source, n, rng)
    model = forward(x[:, [space.index(name) for name in forward.reads]])
    return _predictive(space, x, [(experiment, forward)], [model], rng)


def predict_series(
    source: Posterior | Space,
    terms: Sequence[tuple[Experiment, Forward]],
    *,
    n: int,
    rng: Generator,
    draws: Array | None = None,
    given: Likelihood | None = None,
    again: Sequence[Sequence[Forward]] = (),
) -> Predictive:
    """Predict several conditions with the same draws, in one batch.

    The numbers of all experiments side by side. Data of the likelihood that is ``given`` inform about errors of a
    surrogate that they share with them. A stochastic simulator may be asked ``again``, with other random numbers, by as
    many more lists of forward models; a draw at which one of them fails has failed.
    """
    space, x = _draws(source, n, rng) if draws is None else (_space(source), draws)
    forwards = [forward for _, forward in terms]
    asked = [forwards, *again]
    found = answers(space, [forward for each in asked for forward in each], x)
    k, r = len(terms), len(asked)
    if given is not None and r == 1:
        found = given.informed(x, forwards, found, space)
    models = [_stacked([found[i * k + j] for i in range(r)]) for j in range(k)]
    return _predictive(space, np.tile(x, (r, 1)), terms, models, rng, r)


def _stacked(replicates: Sequence[Gauss]) -> Gauss:
    """Return the answers of all replicates below each other; several are runs, which have no error of a surrogate."""
    if len(replicates) == 1:
        return replicates[0]
    mean = np.vstack([found.mean for found in replicates])
    return Gauss(mean, np.zeros_like(mean))


def _space(source: Posterior | Space) -> Space:
    return source.space if isinstance(source, Posterior) else source


def _draws(source: Posterior | Space, n: int, rng: Generator) -> tuple[Space, Array]:
    return _space(source), source.draws(n, rng) if isinstance(source, Posterior) else source.sample(n, rng)


def _predictive(
    space: Space,
    x: Array,
    terms: Sequence[tuple[Experiment, Forward]],
    models: Sequence[Gauss],
    rng: Generator,
    replicates: int = 1,
) -> Predictive:
    experiments = [experiment for experiment, _ in terms]
    answered = np.all([np.isfinite(model.mean).all(axis=1) for model in models], axis=0)
    kept = answered.reshape(replicates, -1).all(axis=0)
    if not kept.any():
        raise SimulationError(f"{experiments[0].name}: the simulator failed at all {len(kept)} draws")
    good = np.tile(kept, replicates)
    theta = {name: x[good, i] for i, name in enumerate(space.names)}
    told, errors, variances, biases = [], [], [], []
    common = common_errors([forward for _, forward in terms], models, rng)
    for experiment, model, shared in zip(experiments, models, common, strict=True):
        for observation, part in zip(experiment.observations, experiment.parts(), strict=True):
            mean = with_error(part_of(model, part), rng, shared)[good]
            told.append(mean)
            errors.append(observation.noise.draw(mean, theta, observation.coord, rng))
            variances.append(observation.noise.error_variance(mean, theta, observation.coord))
            biases.append(np.broadcast_to(observation.noise.bias(mean.shape[1]), mean.shape))
    coord = experiments[0].observations[0].coord if len(experiments) == 1 else None
    mean, draws, error_var, bias = (np.hstack(parts) for parts in (told, errors, variances, biases))
    failed = int((~kept).sum())
    return Predictive(coord, mean, draws, error_var, failed, bias, np.flatnonzero(kept))


def mix(predictives: Sequence[Predictive], weights: Sequence[float], rng: Generator) -> Predictive:
    """Mix the predictions of several models in proportion to their probabilities."""
    n = max(len(p.draws) for p in predictives)
    counts = shared_out(weights, n)
    rows = [
        rng.choice(len(p.draws), size=k, replace=k > len(p.draws))
        for p, k in zip(predictives, counts, strict=True)
    ]
    picked = [
        (p.model[r], p.draws[r], p.error_var[r], np.broadcast_to(p.bias, p.model.shape)[r])
        for p, r in zip(predictives, rows, strict=True)
    ]
    model, draws, error, bias = (np.concatenate(parts) for parts in zip(*picked, strict=True))
    return Predictive(predictives[0].coord, model, draws, error, sum(p.failed for p in predictives), bias)


def shared_out(weights: Sequence[float] | Array, n: int) -> NDArray[np.int64]:
    """Share out n draws in proportion to weights, what is left over to the largest remainders."""
    probabilities = np.asarray(weights, dtype=float) / np.sum(weights)
    counts = np.floor(probabilities * n).astype(np.int64)
    rest = probabilities * n - counts
    counts[np.argsort(-rest, kind="stable")[: n - counts.sum()]] += 1
    return counts
