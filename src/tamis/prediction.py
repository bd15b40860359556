"""Robust prediction: what the model says at conditions nobody measured, with what is left of the uncertainty.

Two bands are kept apart throughout: the parameters' (spread of the model's answers over posterior draws) and
the total, which adds the error model. Where a surrogate answers, one draw of its error is part of each answer,
so both bands hold it. Mean and variance follow Hadjidoukas et al. 2014
(10.1016/j.cma.2014.07.017), eq 14-15: the total variance is the mean of the error's variance plus the
variance of the answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from tamis.errors import SimulationError
from tamis.experiment import Experiment
from tamis.inference.likelihood import Forward, answers, some
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

    def quantile(self, p: float | Sequence[float], *, total: bool = True) -> Array:
        """Quantiles of the total, or of the model alone.

        The total is a mixture of one Gaussian a draw, so its quantiles are solved for rather than read off
        the draws: they carry no noise of the drawn errors.
        """
        if not total or not self.error_var.any():
            return np.asarray(np.quantile(self.model, p, axis=0))
        sd = np.sqrt(self.error_var)
        safe = np.where(sd > 0, sd, 1.0)
        wanted = np.asarray(p, dtype=float).reshape((*np.shape(p), 1))
        low = np.broadcast_to((self.model - 10 * sd).min(axis=0), np.shape(p) + self.model.shape[1:])
        high = np.broadcast_to((self.model + 10 * sd).max(axis=0), low.shape)
        for _ in range(45):  # halvings: to 3e-14 of the bracket
            middle = (low + high) / 2
            away = middle[..., None, :] - self.model
            below = np.where(sd > 0, ndtr(away / safe), away >= 0).mean(axis=-2) < wanted
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray((low + high) / 2)

    @property
    def mean(self) -> Array:
        """Robust mean, eq 14."""
        return np.asarray(self.model.mean(axis=0))

    @property
    def sd_model(self) -> Array:
        """Standard deviation due to the parameters: the second term of eq 15."""
        return np.asarray(self.model.std(axis=0))

    @property
    def sd_total(self) -> Array:
        """Robust standard deviation: both terms of eq 15."""
        return np.asarray(np.sqrt(self.error_var.mean(axis=0) + self.model.var(axis=0)))

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
        return Predictive(
            coord, self.model[:, columns], self.draws[:, columns], self.error_var[:, columns], self.failed
        )


def predict(
    source: Posterior | Space, forward: Forward, experiment: Experiment, *, n: int, rng: Generator
) -> Predictive:
    """Predict one experiment from n draws of a posterior, or of a prior."""
    space, x = _draws(source, n, rng)
    model = forward(x[:, [space.index(name) for name in forward.reads]])
    return _predictive(space, x, [experiment], [model], rng)


def predict_series(
    source: Posterior | Space,
    terms: Sequence[tuple[Experiment, Forward]],
    *,
    n: int,
    rng: Generator,
    draws: Array | None = None,
) -> Predictive:
    """Predict several conditions with the same draws, in one batch.

    The numbers of all experiments side by side.
    """
    space, x = _draws(source, n, rng) if draws is None else (_space(source), draws)
    models = answers(space, [forward for _, forward in terms], x)
    return _predictive(space, x, [experiment for experiment, _ in terms], models, rng)


def _space(source: Posterior | Space) -> Space:
    return source.space if isinstance(source, Posterior) else source


def _draws(source: Posterior | Space, n: int, rng: Generator) -> tuple[Space, Array]:
    return _space(source), source.draws(n, rng) if isinstance(source, Posterior) else source.sample(n, rng)


def _predictive(
    space: Space, x: Array, experiments: Sequence[Experiment], models: Sequence[Gauss], rng: Generator
) -> Predictive:
    good = np.all([np.isfinite(model.mean).all(axis=1) for model in models], axis=0)
    if not good.any():
        raise SimulationError(f"{experiments[0].name}: the simulator failed at all {len(x)} draws")
    theta = {name: x[good, i] for i, name in enumerate(space.names)}
    told, errors, variances = [], [], []
    for experiment, model in zip(experiments, models, strict=True):
        for observation, part in zip(experiment.observations, experiment.parts(), strict=True):
            mean = with_error(some(model, part), rng)[good]
            told.append(mean)
            errors.append(observation.noise.draw(mean, theta, observation.coord, rng))
            variances.append(observation.noise.error_variance(mean, theta, observation.coord))
    coord = experiments[0].observations[0].coord if len(experiments) == 1 else None
    return Predictive(coord, np.hstack(told), np.hstack(errors), np.hstack(variances), int((~good).sum()))


def with_error(model: Gauss, rng: Generator) -> Array:
    """Add to the answers of a surrogate one draw of its error; those of the simulator itself have none."""
    mean = model.mean
    if model.var.any():
        mean = mean + np.sqrt(model.var) * rng.standard_normal(mean.shape)
    if model.modes is not None and model.weight is not None:
        mean = mean + (np.sqrt(model.weight) * rng.standard_normal(model.weight.shape)) @ model.modes
    return mean


def mix(predictives: Sequence[Predictive], weights: Sequence[float], rng: Generator) -> Predictive:
    """Mix the predictions of several models in proportion to their probabilities."""
    n = max(len(p.draws) for p in predictives)
    probabilities = np.asarray(weights, dtype=float) / np.sum(weights)
    counts = np.floor(probabilities * n).astype(int)
    rest = probabilities * n - counts
    counts[np.argsort(-rest, kind="stable")[: n - counts.sum()]] += 1
    rows = [
        rng.choice(len(p.draws), size=k, replace=k > len(p.draws))
        for p, k in zip(predictives, counts, strict=True)
    ]
    picked = [(p.model[r], p.draws[r], p.error_var[r]) for p, r in zip(predictives, rows, strict=True)]
    model, draws, error = (np.concatenate(parts) for parts in zip(*picked, strict=True))
    return Predictive(predictives[0].coord, model, draws, error, sum(p.failed for p in predictives))
