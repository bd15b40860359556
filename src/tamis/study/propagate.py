"""Predicted numbers as random variables: Monte Carlo to a stated error, beside cheaper estimates of the same.

Draws come from the posterior, or from the prior where there are no data, and go through the simulator or, where the
prediction is emulated, through the surrogate with its error. First-order second moments and response surfaces are
set beside them so that one sees what the cheap ways would have said. Signals are left to the bands of the
prediction: observe their peak or final value to propagate it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from tamis.errors import StudyError, TamisError, TamisWarning
from tamis.experiment import Experiment
from tamis.inference.likelihood import Forward, answers
from tamis.inference.posterior import Posterior
from tamis.prediction import with_error
from tamis.propagation import (
    Fosm,
    MonteCarlo,
    fit_laws,
    fosm,
    fosm_conditions,
    moments,
    monte_carlo,
    response_surface,
)
from tamis.study.artifacts import Propagation, save_records
from tamis.study.build import Study
from tamis.study.context import Context, load_posterior
from tamis.study.emulation import load_surrogate, terms
from tamis.study.influence import prior_bounds, prior_moments
from tamis.study.layout import Block, layout
from tamis.study.panels import condition
from tamis.study.schema import PropagateTable
from tamis.study.series import Series
from tamis.types import Array, Generator


def run_propagation(context: Context) -> None:
    """Leave one record for each predicted number."""
    study = context.study
    posterior, model = load_posterior(study), load_surrogate(study)
    records = []
    for k, series in enumerate(study.series):
        numbers = [block for block in layout([series], study.simulator) if not block.signal]
        if series.use == "predict" and numbers:
            told = terms(context, series, model)
            records += _propagate(context, series, numbers, told, posterior, k)
    save_records(study.results / "propagation.npz", records)


def _propagate(
    context: Context,
    series: Series,
    numbers: Sequence[Block],
    told: Sequence[tuple[Experiment, Forward]],
    posterior: Posterior | None,
    k: int,
) -> list[Propagation]:
    study = context.study
    table = study.settings.propagate
    assert table is not None
    space = study.space
    forwards = [forward for _, forward in told]
    columns = np.concatenate([block.columns for block in numbers])
    rows = None
    if posterior is not None:
        rows = posterior.flat[posterior.where(series.where or {})]
        if not len(rows):
            raise TamisError(f"{series.name}: no posterior draw lies in {condition(series)}; widen `where`")
    errors = context.rng("propagation", k, 1)

    def draw(n: int, rng: Generator) -> Array:
        return space.sample(n, rng) if rows is None else rows[rng.integers(len(rows), size=n)]

    def simulate(x: Array) -> Array:
        return np.hstack([with_error(found, errors) for found in answers(space, forwards, x)])[:, columns]

    found = monte_carlo(
        draw,
        simulate,
        tolerance=float(table.tolerance),
        batch=table.batch,
        most=table.most,
        rng=context.rng("propagation", k),
        progress=context.progress,
    )
    inputs = [space.index(name) for name in study.model_space.names]
    local = None
    if table.fosm:
        local = _fosm(context, forwards, columns, None if rows is None else rows[:, inputs])
    at = [(block, i) for block in numbers for i in range(len(block.columns))]
    return [
        _record(study, table, series, *at[j], found, j, local, inputs, rows is None) for j in range(len(at))
    ]


def _fosm(context: Context, forwards: Sequence[Forward], columns: Array, rows: Array | None) -> Fosm:
    space = context.study.model_space
    mean, covariance = (
        prior_moments(space) if rows is None else (rows.mean(axis=0), np.atleast_2d(np.cov(rows.T)))
    )
    for text in fosm_conditions(space, mean, covariance, prior=rows is None):
        warnings.warn(f"Propagation: {text}", TamisWarning, stacklevel=2)

    def simulate(x: Array) -> Array:
        return np.hstack([found.mean for found in answers(space, forwards, x)])[:, columns]

    return fosm(simulate, mean, covariance, bounds=prior_bounds(space), names=space.names)


def _record(
    study: Study,
    table: PropagateTable,
    series: Series,
    block: Block,
    place: int,
    found: MonteCarlo,
    j: int,
    local: Fosm | None,
    inputs: Sequence[int],
    prior: bool,
) -> Propagation:
    fine = np.isfinite(found.y[:, j])
    y, x = found.y[fine, j], found.x[fine][:, list(inputs)]
    laws = fit_laws(y, table.laws) if y.std() > 1e-12 * abs(y.mean()) else ()
    words = tuple(", ".join(f"{k} = {v:.4g}" for k, v in law.parameters.items()) for law in laws)
    return Propagation(
        series=series.name,
        label=block.label,
        ylabel=block.ylabel,
        at=f"{block.xlabel} = {block.x[place]:g}" if block.xlabel else "",
        source="prior" if prior else "posterior",
        tolerance=float(table.tolerance),
        converged=bool(found.converged[j]),
        failed=found.failed,
        emulated=series.emulate,
        laws=tuple(law.law for law in laws),
        law_parameters=words,
        values=y,
        steps=found.steps,
        means=found.means[:, j],
        errors=found.errors[:, j],
        moments=moments(y),
        fosm=np.empty(0) if local is None else np.array([local.mean[j], np.sqrt(local.variance[j])]),
        fosm_importance=np.empty(0) if local is None else local.importance[:, j],
        surface=_surfaces(x, y) if table.surface else np.empty((0, 2)),
        law_scores=np.array([[law.log_likelihood, law.distance] for law in laws]).reshape(-1, 2),
        law_quantiles=np.array([law.quantiles for law in laws]).reshape(-1, len(y)),
    )


def _surfaces(x: Array, y: Array) -> Array:
    """Return R2 and adjusted R2 of second-order surfaces without and with interactions; none for too few draws."""
    try:
        both = [response_surface(x, y, interactions=cross) for cross in (False, True)]
    except StudyError:
        return np.empty((0, 2))
    return np.array([[float(np.ravel(s.r2)[0]), float(np.ravel(s.adjusted)[0])] for s in both])
