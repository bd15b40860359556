"""The surrogate of a study: fitted to the runs of its design, scored, and given more runs where it asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.design import sobol
from tamis.files import save_arrays
from tamis.inference.likelihood import Likelihood
from tamis.inference.tmcmc import tmcmc
from tamis.results.records import Emulation, save_records
from tamis.study.context import Context, designed, emulated
from tamis.study.definition import Study
from tamis.study.layout import Block, layout
from tamis.study.reader import emulates_loglike
from tamis.study.stages.enrichment import Round, Runs, enriched, statistic_of
from tamis.study.stages.loglike import run_loglike
from tamis.surrogates.base import Surrogate, varies
from tamis.surrogates.joined import Joined, Part
from tamis.surrogates.kriging import fit_kriging
from tamis.surrogates.pce import fit_pce
from tamis.surrogates.reduced import Reduced, fit_reduced, kind_of
from tamis.surrogates.success import Success, fit_success
from tamis.types import Array, Event, Generator, LogDensity, Progress

_SHORT = 20  # numbers of one observation above which its principal components are fitted instead
_CANDIDATES = 2048  # points among which the next are chosen
_SKETCH = 512  # draws of the posterior in whose region they are chosen


def blocks(study: Study) -> list[Block]:
    """Return the observations that the surrogate gives."""
    return layout(designed(study), study.simulator)


def calibrated(study: Study) -> NDArray[np.int64]:
    """Return which of the surrogate's outputs are calibrated against."""
    return np.concatenate([block.columns for block in blocks(study) if block.series.use == "calibrate"])


def fit(study: Study, runs: Runs, rng: Generator, progress: Progress) -> Joined:
    """Fit a surrogate to every observed number.

    Short observations whose runs ended well at the same points are fitted together; long ones by their
    principal components.
    """
    together: dict[bytes, list[int]] = {}
    alone: list[list[int]] = []
    for block in blocks(study):
        for owner in np.unique(block.owners):
            columns = block.columns[block.owners == owner]
            if len(columns) > _SHORT:
                alone.append(columns.tolist())
            else:
                key = runs.good[:, columns[0]].tobytes()
                together.setdefault(key, []).extend(columns.tolist())
    groups = [*together.values(), *alone]
    parts = []
    for i, columns in enumerate(groups):
        progress(Event("surrogate", i, len(groups)))
        rows = np.flatnonzero(runs.good[:, columns[0]])
        u, y = runs.u[rows], runs.y[rows][:, columns]
        if i >= len(together):
            model: Surrogate = fit_reduced(
                u, y, _fitter(study, rng), energy=float(study.tables.surrogate.energy)
            )
        else:
            model = _fitter(study, rng)(u, y)
        parts.append(Part(model, np.array(columns), rows))
    progress(Event("surrogate", len(groups), len(groups)))
    return Joined(tuple(parts), *runs.y.shape).sharing(runs.u)


def _fitter(study: Study, rng: Generator) -> Callable[[Array, Array], Surrogate]:
    table = study.tables.surrogate
    priors = [parameter.prior for parameter in study.model_space.parameters]
    if table.method == "pce":
        q = None if table.hyperbolic is None else float(table.hyperbolic)
        return lambda u, y: fit_pce(u, y, marginals=priors, degree=table.degree, hyperbolic=q)
    kernel, trend = table.kernel or "matern52", table.trend or "constant"
    nugget = None if table.nugget is None else float(table.nugget)

    def krige(u: Array, y: Array) -> Surrogate:
        options: Any = {"marginals": priors, "kernel": kernel, "trend": trend, "nugget": nugget}
        return replace(fit_kriging(u, y, **options, rng=rng), of_runs=True)

    return krige


def run(context: Context) -> None:
    """Fit, enrich if asked, and leave the surrogate with the record of its score."""
    study = context.study
    if emulates_loglike(study.raw):
        run_loglike(context)
        return

    def one_round(runs: Runs, turn: int) -> Round[Joined]:
        model = fit(study, runs, context.rng("surrogate", turn), context.progress)
        scores = [
            _score(block, runs, model) for block in blocks(study)
        ]  # NaN where too few points to judge by
        rng = context.rng("surrogate", turn, 1)
        return Round(
            model, runs.u, runs.y, scores, "Q2", lambda where: _candidates(study, runs, model, where, rng)
        )

    found = enriched(context, one_round)
    arrays = {**found.surrogate.arrays(), **vars(found.runs), "added": found.added}
    save_arrays(study.results / "surrogate.npz", arrays)
    records = _records(study, found.runs, found.surrogate, found.growth)
    save_records(study.results / "emulation.npz", records)


def cost(study: Study, seconds: float, duration: Callable[[float], str]) -> Iterator[str]:
    """Say how many runs an enrichment may ask for."""
    if table := study.tables.surrogate.enrich:
        n = table.budget * study.tables.design.replicates * len(study.experiments)
        yield f"enrichment: up to {n} runs more, about {duration(n * seconds)} on one core"


def success(study: Study, runs: Runs) -> Success | None:
    """Return how probable it is that the runs of all calibrated tests succeed; None where none failed, or not asked."""
    good = np.asarray(runs.good[:, calibrated(study)].all(axis=1))
    if good.all() or not good.any() or study.tables.surrogate.failures == "ignore":
        return None
    priors = [parameter.prior for parameter in study.model_space.parameters]
    return fit_success(runs.u, good, marginals=priors)


def log_success(study: Study, weighed: Success) -> LogDensity:
    """Return the logarithm of that probability as a function of the study's parameters."""
    space = study.model_space
    columns = [study.space.index(name) for name in space.names]

    def log(x: Array) -> Array:
        return np.asarray(np.log(np.maximum(weighed.predict(space.to_unit(x[:, columns])), 1e-300)))

    return log


def _candidates(study: Study, runs: Runs, model: Joined, where: str, rng: Generator) -> Array:
    """Return points of the unit cube: all over it, or a sketch of the posterior."""
    space = study.model_space
    if where == "error":
        return sobol(_CANDIDATES, space.dim, rng)
    model = model.subset(calibrated(study))
    tests = [s for s in study.series if s.use == "calibrate"]
    terms = tuple(t for s in tests for t in emulated(study, s, model))
    weighed = success(study, runs)
    likelihood = Likelihood(study.space, terms, None if weighed is None else log_success(study, weighed))
    posterior = tmcmc(study.space, likelihood, n=_SKETCH, rng=rng)
    x = posterior.flat[:, [study.space.index(name) for name in space.names]]
    return np.unique(space.to_unit(x), axis=0)


def _score(block: Block, runs: Runs, model: Joined) -> float:
    """Return the Q2 of the worst single observation of a block, each over the runs that its own test has.

    Squared errors and variances are summed over its numbers; those that do not vary are known and left out. NaN where
    there are too few points to judge by.
    """
    if not _judged(model, block):
        return np.nan
    y = runs.y[:, block.columns]
    squares, variances = (
        np.nanmean(model.score.residuals[:, block.columns] ** 2, axis=0),
        np.nanvar(y, axis=0),
    )
    there = varies(y) & (variances > 0)
    single = [(block.owners == owner) & there for owner in np.unique(block.owners)]
    return min(
        float(1 - squares[mine].sum() / variances[mine].sum()) if mine.any() else 1.0 for mine in single
    )


def _records(study: Study, runs: Runs, model: Joined, growth: Array) -> list[Emulation]:
    """Say how well each observation is given by runs that it was not fitted to.

    ``growth`` (rounds, blocks, 2) holds the number of runs and the score of every round, the last being this one.
    """
    x = study.model_space.from_unit(runs.u)
    statistic = statistic_of(study)
    answer = []
    for i, block in enumerate(blocks(study)):
        judged = _judged(model, block)
        good = runs.good[:, block.columns]
        rows = np.flatnonzero(good.any(axis=1))
        y, left_out = runs.y[rows][:, block.columns], model.score.residuals[rows][:, block.columns]
        answer.append(
            Emulation(
                series=block.series.name,
                label=block.label,
                xlabel=block.xlabel,
                ylabel=block.ylabel,
                q2=float(growth[-1, i, 1]),
                failed=int((~good).sum(axis=0).max()),
                worst=int(np.argmax(np.nansum(left_out**2, axis=1))),
                method=_method(model, int(block.columns[0])),
                x=block.x,
                points=x[rows],
                simulated=y,
                predicted=y - left_out,
                q2_points=model.score.q2[block.columns] if judged else np.full(len(block.x), np.nan),
                growth=growth[:, i],
                judged=judged,
                shared=float(model.shared[block.columns].mean()),
                statistic=f"{statistic} over {study.tables.design.replicates} runs" if statistic else "",
                chance=_chance(runs, block) if statistic else np.nan,
            )
        )
    return answer


def _chance(runs: Runs, block: Block) -> float:
    """Return the share of an observation's variance over the points that is the error of a statistic."""
    y, error = runs.y[:, block.columns], runs.error[:, block.columns]
    return float(np.nanmean(error**2, axis=0).sum() / max(np.nanvar(y, axis=0).sum(), 1e-300))


def _judged(model: Joined, block: Block) -> bool:
    mine = [part.surrogate for part in model.parts if np.isin(part.columns, block.columns).any()]
    return all(surrogate.score.judged for surrogate in mine)


def _method(model: Joined, column: int) -> str:
    part = next(part.surrogate for part in model.parts if column in part.columns)
    if isinstance(part, Reduced):
        k = len(part.modes)
        return f"{kind_of(part.inner)} of {k} principal component{'s' if k != 1 else ''}"
    return kind_of(part)
