"""Where the variance of each observation comes from, by the methods a study asks for.

Sobol indices follow from the coefficients of a polynomial chaos; those of a Kriging model, or of a simulator quick
enough to have a batch interface, are sampled. Regression reads the runs of the design and costs nothing. FOSM makes
2 d + 1 runs of its own about the prior mean, all with the same random numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.analysis.propagation import fosm, fosm_conditions
from tamis.analysis.sensitivity import Intervals, bootstrap, regression, sampled
from tamis.design import sobol
from tamis.errors import SimulationError, StudyError, TamisWarning
from tamis.inference.likelihood import Simulated, means
from tamis.results.records import Influence, save_records
from tamis.space import Space
from tamis.study.context import Context, load_surrogate
from tamis.study.definition import Study
from tamis.study.layout import size
from tamis.study.schema import SensitivityTable
from tamis.study.stages.enrichment import Runs, design_runs, load_runs
from tamis.study.stages.surrogate import blocks
from tamis.surrogates.joined import Joined, Part
from tamis.surrogates.pce import PCE, sobol_indices
from tamis.surrogates.reduced import Reduced
from tamis.types import Array, Event, Generator

_QUADRATURE = 2**14  # points by which the moments of the prior are integrated


@dataclass(frozen=True)
class _Shares:
    """Sobol indices of m numbers, with their intervals and the shares of parameters that act together."""

    found: Intervals
    subsets: tuple[tuple[int, ...], ...]
    shares: Array  # (len(subsets), m)
    sources: tuple[str, ...]  # of each number


def run(context: Context) -> None:
    """Leave one record an observation."""
    study = context.study
    methods = _table(study).methods
    runs, model = load_runs(study), load_surrogate(study)
    design = design_runs(study)  # without the runs of an enrichment, which do not follow the prior
    m = runs.y.shape[1]
    sobol_shares = _Shares(_nothing(m), (), np.empty((0, m)), ("",) * m)
    cross, src, r2, importance = _nothing(m), np.empty((0, m)), np.full(m, np.nan), np.empty((0, m))
    for i, method in enumerate(methods):
        context.progress(Event("sensitivity", i, len(methods), {"method": method}))
        if method == "sobol":
            sobol_shares = _sobol(context, runs, model)
        elif method == "sampling":
            cross, _ = _sampled(context, model, context.rng("sensitivity", 2))
        elif method == "regression":
            src, r2 = _regressed(context, design)
        else:
            importance = _importance(context)
    context.progress(Event("sensitivity", len(methods), len(methods)))
    found = sobol_shares.found
    records = []
    for block in blocks(study):
        mine = block.columns
        shares = sobol_shares.shares[:, mine]
        order = np.argsort(-np.nan_to_num(shares).sum(axis=1), kind="stable")
        records.append(
            Influence(
                series=block.series.name,
                label=block.label,
                xlabel=block.xlabel,
                ylabel=block.ylabel,
                source=" and ".join(sorted({sobol_shares.sources[j] for j in mine})),
                subsets=tuple(sobol_shares.subsets[i] for i in order),
                x=block.x,
                sd=np.nanstd(design.y[:, mine], axis=0),
                first=found.first[:, mine],
                total=found.total[:, mine],
                first_band=found.first_band[:, :, mine],
                total_band=found.total_band[:, :, mine],
                shares=shares[order],
                sampled_first=cross.first[:, mine],
                sampled_total=cross.total[:, mine],
                src=src[:, mine],
                src_r2=r2[mine],
                fosm=importance[:, mine],
            )
        )
    save_records(study.results / "sensitivity.npz", records)


def cost(study: Study, seconds: float, duration: Callable[[float], str]) -> Iterator[str]:
    """Say how many runs FOSM asks for."""
    if "fosm" in _table(study).methods:
        n = (2 * study.model_space.dim + 1) * len(study.experiments)
        yield f"sensitivity by FOSM: {n} runs, about {duration(n * seconds)} on one core"


def _table(study: Study) -> SensitivityTable:
    return study.tables.sensitivity or SensitivityTable()


def _nothing(m: int) -> Intervals:
    return Intervals(np.empty((0, m)), np.empty((0, m)), np.empty((2, 0, m)), np.empty((2, 0, m)))


def _sobol(context: Context, runs: Runs, model: Joined | None) -> _Shares:
    """Return the indices of all numbers: from coefficients where there are any, else by sampling."""
    study = context.study
    if study.model_space.correlation is not None:
        text = "Parameters are correlated; Sobol indices are those of the independent scores behind them."
        warnings.warn(text, TamisWarning, stacklevel=2)
    rng = context.rng("sensitivity", 1)
    if model is None:
        found, source = _sampled(context, None, rng)
        return _Shares(found, *_alone(found), (source,) * runs.y.shape[1])
    pieces = [_of_part(part, runs, _table(study), rng) for part in model.parts]
    d, m = study.model_space.dim, model.m
    subsets = sorted({s for piece in pieces for s in piece.subsets}, key=lambda s: (len(s), s))
    place = {subset: i for i, subset in enumerate(subsets)}
    joined = Intervals(*np.full((2, d, m), np.nan), *np.full((2, 2, d, m), np.nan))
    shares, sources = np.zeros((len(subsets), m)), [""] * m
    for part, piece in zip(model.parts, pieces, strict=True):
        for name in ("first", "total", "first_band", "total_band"):
            getattr(joined, name)[..., part.columns] = getattr(piece.found, name)
        rows = np.array([place[subset] for subset in piece.subsets], dtype=np.int64)
        shares[np.ix_(rows, part.columns)] = piece.shares
        for column, source in zip(part.columns, piece.sources, strict=True):
            sources[column] = source
    return _Shares(joined, tuple(subsets), shares, tuple(sources))


def _of_part(part: Part, runs: Runs, table: SensitivityTable, rng: Generator) -> _Shares:
    model = part.surrogate
    inner = model.inner if isinstance(model, Reduced) else model
    if not isinstance(inner, PCE):
        found = sampled(lambda u: model.predict(u).mean, runs.u.shape[1], n=table.n, rng=rng)
        return _Shares(found, *_alone(found), ("Kriging, by sampling",) * len(part.columns))
    indices, coefficients = inner.expansion()
    modes = model.modes if isinstance(model, Reduced) else None
    u, y = runs.u[part.rows], runs.y[np.ix_(part.rows, part.columns)]
    found = bootstrap(
        u,
        y,
        inner.families,
        indices,
        coefficients,
        mse=inner.mse,
        modes=modes,
        n=table.bootstrap,
        rng=rng,
    )
    exact = sobol_indices(indices, coefficients if modes is None else coefficients @ modes)
    return _Shares(found, exact.subsets, exact.shares, ("polynomial chaos",) * len(part.columns))


def _alone(found: Intervals) -> tuple[tuple[tuple[int, ...], ...], Array]:
    """Return the shares of single parameters, all that sampling tells; the rest is interactions."""
    return tuple((i,) for i in range(len(found.first))), np.clip(found.first, 0.0, 1.0)


def _sampled(context: Context, model: Joined | None, rng: Generator) -> tuple[Intervals, str]:
    """Sample the indices through the simulator's batch interface, or through the surrogate."""
    study = context.study
    space, n = study.model_space, _table(study).n
    forwards = [Simulated(study.query(e)) for e in study.experiments]
    if study.batched(study.experiments):
        found = sampled(lambda u: means(space, forwards, space.from_unit(u)), space.dim, n=n, rng=rng)
        return found, "simulator, by sampling"
    assert model is not None  # otherwise the study was refused when it was built
    return sampled(lambda u: model.predict(u).mean, space.dim, n=n, rng=rng), "surrogate, by sampling"


def _regressed(context: Context, runs: Runs) -> tuple[Array, Array]:
    """Return regression coefficients and R2, observation by observation since each has its own failed runs."""
    x = context.study.model_space.from_unit(runs.u)
    m = runs.y.shape[1]
    src, r2 = np.full((x.shape[1], m), np.nan), np.full(m, np.nan)
    for block in blocks(context.study):
        try:
            found = regression(x, runs.y[:, block.columns])
        except StudyError as error:
            text = f"{block.series.name}, {block.label}: no regression coefficients: {error}."
            warnings.warn(text, TamisWarning, stacklevel=2)
            continue
        src[:, block.columns], r2[block.columns] = found.src, found.r2
    return src, r2


def _importance(context: Context) -> Array:
    """Return FOSM importance factors about the prior mean."""
    study = context.study
    space = study.model_space
    mean, covariance = prior_moments(space)
    broken = fosm_conditions(space, mean, covariance, prior=True)
    if broken:
        warnings.warn(f"Sensitivity: {' '.join(broken)}", TamisWarning, stacklevel=2)
    forwards = [context.forward(e) for e in study.experiments]
    options: Any = {"bounds": prior_bounds(space), "names": space.names}
    try:
        return fosm(lambda x: means(space, forwards, x), mean, covariance, **options).importance
    except SimulationError as error:
        warnings.warn(f"Sensitivity: no FOSM importance factors: {error}.", TamisWarning, stacklevel=2)
        return np.full((space.dim, sum(size(e.observations) for e in study.experiments)), np.nan)


def prior_moments(space: Space) -> tuple[Array, Array]:
    """Return mean and covariance of the prior, by quasi-Monte Carlo."""
    x = space.from_unit(sobol(_QUADRATURE, space.dim, np.random.default_rng(0)))
    return x.mean(axis=0), np.atleast_2d(np.cov(x.T))


def prior_bounds(space: Space) -> Array:
    """Return the ends of each parameter's prior, (d, 2)."""
    return np.array([np.ravel(p.prior.ppf(np.array([0.0, 1.0]))) for p in space.parameters])
