"""The surrogate of a study: fitted to the runs of its design, scored, and given more runs where it asks for them."""

from __future__ import annotations

import math
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
from tamis.surrogates.enrich import scaled_worth
from tamis.surrogates.fidelity import Bought, Levels, fit_fidelities, removed
from tamis.surrogates.joined import Joined, Part
from tamis.surrogates.kriging import fit_kriging
from tamis.surrogates.multifidelity import MultiFidelity, fit_multifidelity
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


def fit(study: Study, runs: Runs, rng: Generator, progress: Progress) -> tuple[Joined, Bought]:
    """Fit a surrogate to every observed number, and say what cheaper runs bought, if there are any.

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
    m = runs.y.shape[1]
    bought = Bought(np.full(m, np.nan), np.full(m, np.nan), np.zeros(m, dtype=bool))
    for i, columns in enumerate(groups):
        progress(Event("surrogate", i, len(groups)))
        rows = np.flatnonzero(runs.good[:, columns[0]])
        levels = [_usable(level, columns) for level in runs.cheaper] + [
            (runs.u[rows], runs.y[rows][:, columns])
        ]
        for model, mine in _fitted(study, levels, rng, i >= len(together), bought, np.array(columns)):
            parts.append(Part(model, mine, rows))
    progress(Event("surrogate", len(groups), len(groups)))
    return Joined(tuple(parts), *runs.y.shape).sharing(runs.u), bought


def _usable(runs: Runs, columns: list[int]) -> tuple[Array, Array]:
    """Return points and outputs of cheaper runs that gave all of some numbers."""
    rows = np.flatnonzero(runs.good[:, columns].all(axis=1))
    return runs.u[rows], runs.y[rows][:, columns]


def _fitted(
    study: Study, levels: Levels, rng: Generator, signal: bool, bought: Bought, columns: NDArray[np.int64]
) -> Iterator[tuple[Surrogate, NDArray[np.int64]]]:
    """Fit some columns by one surrogate, or by two where cheaper runs help some of them only; note what they bought."""
    fitter = _fitter(study, rng)
    energy = float(study.tables.surrogate.energy)
    if len(levels) == 1:
        u, y = levels[0]
        yield (fit_reduced(u, y, fitter, energy=energy) if signal else fitter(u, y)), columns
        return
    if not signal:
        parts, found = fit_fidelities(levels, fitter, _joiner(study, rng))
        bought.joint[columns], bought.alone[columns], bought.used[columns] = (
            found.joint,
            found.alone,
            found.used,
        )
        for model, mine in parts:
            yield model, columns[mine]
        return
    last: list[Bought] = []

    def components(u: Array, z: Array, *below: tuple[Array, Array]) -> Surrogate:
        [(model, _)], found = fit_fidelities([*below, (u, z)], fitter, _joiner(study, rng), together=True)
        last.append(found)
        return model

    reduced = fit_reduced(*levels[-1], components, energy=energy, cheaper=levels[:-1])
    left_out = reduced.rest + (reduced.tail**2).sum(axis=0)
    bought.joint[columns] = last[-1].joint @ reduced.modes**2 + left_out
    bought.alone[columns] = last[-1].alone @ reduced.modes**2 + left_out
    bought.used[columns] = last[-1].used.any()
    yield reduced, columns


def _joiner(study: Study, rng: Generator) -> Callable[[Levels], MultiFidelity]:
    """Return what fits hierarchical Kriging to runs of several levels."""
    table = study.tables.surrogate
    options: Any = {
        "marginals": [parameter.prior for parameter in study.model_space.parameters],
        "kernel": table.kernel or "matern52",
        "trend": table.trend or "constant",
        "nugget": None if table.nugget is None else float(table.nugget),
    }
    return lambda levels: fit_multifidelity(levels, **options, rng=rng)


def _fitter(study: Study, rng: Generator) -> Callable[[Array, Array], Any]:
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

    last: list[Bought] = []

    def one_round(runs: Runs, turn: int) -> Round[Joined]:
        model, bought = fit(study, runs, context.rng("surrogate", turn), context.progress)
        last.append(bought)
        scores = [
            _score(block, runs, model) for block in blocks(study)
        ]  # NaN where too few points to judge by
        rng = context.rng("surrogate", turn, 1)
        top = len(study.cheap)
        counts = scaled_worth(runs.y)

        def worth(level: int, points: Array, at: Array) -> float:
            return removed(model, level, top, points, at, counts)

        return Round(
            model,
            runs.u,
            runs.y,
            scores,
            "Q2",
            lambda where: _candidates(study, runs, model, where, rng),
            worth if top else None,
        )

    found = enriched(context, one_round)
    arrays = {**found.surrogate.arrays(), **found.runs.arrays(), "added": found.added}
    arrays |= {f"added.{k}": keys for k, keys in enumerate(found.added_cheap)}
    save_arrays(study.results / "surrogate.npz", arrays)
    records = _records(study, found.runs, found.surrogate, found.growth, last[-1])
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


def _records(study: Study, runs: Runs, model: Joined, growth: Array, bought: Bought) -> list[Emulation]:
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
                **_levels(study, runs, block, bought),
            )
        )
    return answer


def _levels(study: Study, runs: Runs, block: Block, bought: Bought) -> dict[str, Any]:
    """Say what cheaper runs bought of an observation: Q2 of expensive runs held out, with and without them."""
    if not runs.cheaper:
        return {}
    columns = block.columns
    variance = np.nanvar(runs.y[:, columns], axis=0)
    there = varies(runs.y[:, columns]) & (variance > 0)
    total = float(variance[there].sum())
    q2 = [
        1 - float(a[columns][there].sum()) / total if total else math.nan
        for a in (bought.joint, bought.alone)
    ]
    return {
        "levels": tuple(level.name for level in study.cheap),
        "level_runs": tuple(len(level.u) for level in runs.cheaper),
        "joint": q2[0],
        "alone": q2[1],
        "used": float(bought.used[columns][there].mean()) if there.any() else 0.0,
    }


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
