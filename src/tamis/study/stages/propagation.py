"""Predicted numbers as random variables: Monte Carlo to a stated error, beside cheaper estimates of the same.

Draws come from the posterior, or from the prior where there are no data, and go through the simulator or, where the
prediction is emulated, through the surrogate with its error. First-order second moments and response surfaces are
set beside them so that one sees what the cheap ways would have said. Signals are left to the bands of the
prediction: observe their peak or final value to propagate it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.analysis.propagation import (
    Fosm,
    MonteCarlo,
    fit_laws,
    fosm,
    fosm_conditions,
    moments,
    monte_carlo,
    response_surface,
)
from tamis.errors import SimulationError, StudyError, TamisError, TamisWarning
from tamis.inference.likelihood import answers, means, with_error
from tamis.inference.posterior import Posterior
from tamis.results.records import Propagation, save_records
from tamis.study.context import Context, behind, load_posterior, load_surrogate
from tamis.study.definition import Study
from tamis.study.layout import Block, layout
from tamis.study.parts import IDLE, with_idle
from tamis.study.schema import PropagateTable
from tamis.study.series import Series
from tamis.study.stages.prediction import by_runs, condition
from tamis.study.stages.sensitivity import prior_bounds, prior_moments
from tamis.surrogates.joined import Joined
from tamis.types import Array, Gauss, Generator

_NO_SURFACE: Array = np.empty((0, 2))


def run(context: Context) -> None:
    """Leave one record for each predicted number."""
    study = context.study
    posterior, model = load_posterior(study), load_surrogate(study)
    if posterior is not None:
        posterior = with_idle(study, posterior, context.rng("propagation", IDLE))
    records = []
    for k, series in enumerate(study.series):
        numbers = [block for block in layout([series], study.simulator) if not block.signal]
        if series.use == "predict" and numbers:
            records += _propagate(context, series, numbers, model, posterior, k)
    save_records(study.folder / "propagation.npz", records)


def cost(study: Study, seconds: float, duration: Callable[[float], str]) -> Iterator[str]:
    """Say how many runs propagation may ask for."""
    table = study.tables.propagate
    assert table is not None
    for series, hint in by_runs(study, "predict"):
        n = (table.most + (2 * study.model_space.dim + 1) * table.fosm) * len(series.experiments)
        yield f"propagation of {series.name}: up to {n} runs, {duration(n * seconds)} on one core{hint}"


def _propagate(
    context: Context,
    series: Series,
    numbers: Sequence[Block],
    model: Joined | None,
    posterior: Posterior | None,
    k: int,
) -> list[Propagation]:
    study = context.study
    table = study.tables.propagate
    assert table is not None
    space = study.space if posterior is None else posterior.space
    forwards = [forward for _, forward in context.terms(series, model, vary=True)]
    columns = np.concatenate([block.columns for block in numbers])
    rows, effective = None, math.inf
    if posterior is not None:
        inside = posterior.where(series.where or {})
        rows = posterior.flat[inside]
        if not len(rows):
            raise TamisError(f"{series.name}: no posterior draw lies in {condition(series)}; widen `where`")
        effective = float(np.min(posterior.diagnostics.get("ess", len(inside)))) * float(inside.mean())
    errors = context.rng("propagation", k, 1)
    given = None if posterior is None or study.origins else behind(study, model)

    def draw(n: int, rng: Generator) -> Array:
        return space.sample(n, rng) if rows is None else rows[rng.integers(len(rows), size=n)]

    def answered(x: Array) -> list[Gauss]:
        models = answers(space, forwards, x)
        return models if given is None else given.informed(x, forwards, models, space)

    def simulate(x: Array) -> Array:
        return np.hstack([with_error(model, errors) for model in answered(x)])[:, columns]

    found = monte_carlo(
        draw,
        simulate,
        tolerance=float(table.tolerance),
        batch=table.batch,
        most=table.most,
        effective=effective,
        rng=context.rng("propagation", k),
        progress=context.progress,
    )
    inputs = [space.index(name) for name in study.model_space.names]
    local = _fosm(context, series, model, columns, None if rows is None else rows[:, inputs])
    at = [(block, i) for block in numbers for i in range(len(block.columns))]
    source = "prior" if rows is None else "posterior"
    # surfaces follow the model; the error of a surrogate, drawn at each point, no surface can follow
    smooth = found.y
    if series.emulate and table.surface:
        smooth = np.hstack([model.mean for model in answered(found.x)])[:, columns]
    x = found.x[:, inputs]
    return [
        _record(
            table,
            block,
            i,
            found,
            j,
            local,
            _surfaces(x, smooth[:, j]) if table.surface else _NO_SURFACE,
            source,
        )
        for j, (block, i) in enumerate(at)
    ]


def _fosm(
    context: Context, series: Series, model: Joined | None, columns: NDArray[np.int64], rows: Array | None
) -> Fosm | None:
    """Propagate the tangent, all points with the same random numbers; None where not asked for or not possible."""
    study = context.study
    if study.tables.propagate is None or not study.tables.propagate.fosm:
        return None
    space = study.model_space
    forwards = [forward for _, forward in context.terms(series, model)]
    try:
        mean, covariance = prior_moments(space) if rows is None else _moments(rows)
        broken = fosm_conditions(space, mean, covariance, prior=rows is None)
        if broken:
            warnings.warn(f"Propagation: {' '.join(broken)}", TamisWarning, stacklevel=2)
        options: Any = {"bounds": prior_bounds(space), "names": space.names}
        return fosm(lambda x: means(space, forwards, x)[:, columns], mean, covariance, **options)
    except (SimulationError, StudyError) as error:
        warnings.warn(f"Propagation: {series.name}: no FOSM: {error}.", TamisWarning, stacklevel=2)
        return None


def _moments(rows: Array) -> tuple[Array, Array]:
    if len(rows) < 2:
        raise StudyError("one draw has no variance")
    return rows.mean(axis=0), np.atleast_2d(np.cov(rows.T))


def _record(
    table: PropagateTable,
    block: Block,
    place: int,
    found: MonteCarlo,
    j: int,
    local: Fosm | None,
    surface: Array,
    source: str,
) -> Propagation:
    series = block.series
    fine = np.isfinite(found.y[:, j])
    y = found.y[fine, j]
    laws = fit_laws(y, table.laws) if y.std() > 1e-12 * abs(y.mean()) else ()
    words = tuple(", ".join(f"{k} = {v:.4g}" for k, v in law.parameters.items()) for law in laws)
    return Propagation(
        series=series.name,
        label=block.label,
        ylabel=block.ylabel,
        at=_place(block, place),
        source=source,
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
        surface=surface,
        law_scores=np.array([[law.log_likelihood, law.distance] for law in laws]).reshape(-1, 2),
        law_quantiles=np.array([law.quantiles for law in laws]).reshape(-1, len(y)),
    )


def _place(block: Block, place: int) -> str:
    """Say in words which number it is, and from which part of the posterior."""
    along = f"{block.xlabel} = {block.x[place]:g}" if block.xlabel else ""
    return ", ".join(words for words in (along, condition(block.series)) if words)


def _surfaces(x: Array, y: Array) -> Array:
    """Return R2 and adjusted R2 of second-order surfaces without and with interactions; none for too few draws."""
    fine = np.isfinite(y)
    x, y = x[fine], y[fine]
    try:
        both = [response_surface(x, y, interactions=cross) for cross in (False, True)]
    except StudyError:
        return _NO_SURFACE
    return np.array([[float(np.ravel(s.r2)[0]), float(np.ravel(s.adjusted)[0])] for s in both])
