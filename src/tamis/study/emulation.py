"""The surrogate of a study: fitted to the runs of its design, scored, and given more runs where it asks for them.

The one loop of the whole pipeline is here, in `enriched`, whatever the surrogate is of: fit, score, choose points, run
the simulator there, fit again, until the score or the budget is reached. Every choice follows from the seed and the
runs, and runs stay in the store, so an interrupted loop goes over its rounds again without a single simulation and
ends with the same bytes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tamis.design import sobol
from tamis.errors import TamisWarning
from tamis.experiment import Experiment
from tamis.files import load_arrays, save_arrays
from tamis.inference.likelihood import Emulated, Forward, Likelihood
from tamis.inference.tmcmc import tmcmc
from tamis.results.records import Emulation, save_records
from tamis.runs.campaign import observe
from tamis.study.context import Context, design_points
from tamis.study.definition import Study
from tamis.study.layout import Block, layout, places
from tamis.study.reader import applies, emulates_loglike, emulates_observables
from tamis.study.series import Series
from tamis.surrogates.base import Surrogate, varies
from tamis.surrogates.enrich import enrich
from tamis.surrogates.joined import Joined, Part
from tamis.surrogates.kriging import fit_kriging
from tamis.surrogates.pce import fit_pce
from tamis.surrogates.reduced import Reduced, fit_reduced, kind_of
from tamis.types import Array, Event, Generator, Mask, Progress

_SHORT = 20  # numbers of one observation above which its principal components are fitted instead
_CANDIDATES = 2048  # points among which the next are chosen
_SKETCH = 512  # draws of the posterior in whose region they are chosen


Fitted = TypeVar("Fitted", bound=Surrogate)


@dataclass(frozen=True)
class Runs:
    """The runs of a design: every experiment's numbers side by side, at the same points."""

    u: Array  # (n, d)
    y: Array  # (n, m), NaN where a run gave none
    good: Mask  # (n, m)

    def joined(self, other: Runs) -> Runs:
        """Return the runs of both."""
        return Runs(
            *(np.concatenate(pair) for pair in zip(vars(self).values(), vars(other).values(), strict=True))
        )


def design_runs(study: Study) -> Runs:
    """Read the points of the design and what was observed there."""
    u = np.repeat(load_arrays(study.results / "design.npz")["u"], study.settings.replicates, axis=0)
    found = load_arrays(study.results / "observables.npz")
    return _runs(u, [(found[f"{i}.y"], found[f"{i}.good"]) for i in range(len(study.experiments))])


def _runs(u: Array, observed: list[tuple[Array, Mask]]) -> Runs:
    good = np.hstack([np.repeat(fine[:, None], y.shape[1], axis=1) for y, fine in observed])
    return Runs(u, np.where(good, np.hstack([y for y, _ in observed]), np.nan), good)


def designed(study: Study) -> list[Series]:
    """Return the series that are run at the design, whose numbers stand side by side in `Runs`."""
    return [series for series in study.series if series.designed]


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
                u, y, _fitter(study, rng), energy=float(study.settings.surrogate.energy)
            )
        else:
            model = _fitter(study, rng)(u, y)
        parts.append(Part(model, np.array(columns), rows))
    progress(Event("surrogate", len(groups), len(groups)))
    return Joined(tuple(parts), *runs.y.shape)


def _fitter(study: Study, rng: Generator) -> Callable[[Array, Array], Surrogate]:
    table = study.settings.surrogate
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


@dataclass(frozen=True)
class Round(Generic[Fitted]):
    """One round of enrichment: a surrogate of the runs so far, its scores, and where it may ask for more."""

    surrogate: Fitted
    u: Array  # (n, d), the runs it was fitted to
    y: Array  # (n, m)
    scores: Sequence[float]  # all of which are to reach what the study asks for
    measure: str  # what they are, for the news
    candidates: Callable[[str], Array] | None = None  # for the next points; None if none are asked for


@dataclass(frozen=True)
class Enriched(Generic[Fitted]):
    """The surrogate of the last round, and how it came about."""

    surrogate: Fitted
    runs: Runs
    growth: Array  # (rounds, scores, 2), number of runs and score
    added: Any  # (experiments, runs), keys of the runs beyond the design


def enriched(context: Context, one_round: Callable[[Runs, int], Round[Fitted]]) -> Enriched[Fitted]:
    """Fit a surrogate to the design and, if asked, run the simulator where it says until it is good enough.

    ``one_round`` is given the runs and the number of the round.
    """
    study = context.study
    table = study.settings.surrogate.enrich
    runs = design_runs(study)
    first, keys = len(runs.u), [np.empty((len(study.experiments), 0), dtype="U1")]
    growth: list[list[list[float]]] = []
    while True:
        last = one_round(runs, len(growth))
        growth.append([[len(runs.u), score] for score in last.scores])
        judged = np.isfinite(last.scores).all()
        worst = min(last.scores) if judged else -np.inf
        spent = (len(runs.u) - first) // study.settings.replicates
        if table is None or spent >= table.budget or worst >= table.q2:
            break
        told = {last.measure: worst, "asked for": float(table.q2)} if judged else {}
        context.progress(Event("enrichment", spent, table.budget, told))
        assert last.candidates is not None
        n = min(table.batch, table.budget - spent)
        candidates = last.candidates(table.where)
        chosen = enrich(last.surrogate, last.u, last.y, candidates, n, criterion=table.where)
        new_keys, more = _run_at(context, chosen)
        keys.append(new_keys)
        runs = runs.joined(more)
    if table is not None and worst < table.q2:
        spent = len(runs.u) - first
        reached = (
            f"{worst:.4f}, short of the {table.q2:g} asked for"
            if judged
            else "unknown, with too few points to judge by"
        )
        text = f"Enrichment spent its {spent} runs a test; {last.measure} is {reached}."
        warnings.warn(text, TamisWarning, stacklevel=2)
    return Enriched(last.surrogate, runs, np.array(growth), np.hstack(keys))


def run_surrogate(context: Context) -> None:
    """Fit, enrich if asked, and leave the surrogate with the record of its score."""
    study = context.study

    def one_round(runs: Runs, turn: int) -> Round[Joined]:
        model = fit(study, runs, context.rng("surrogate", turn), context.progress)
        scores = [
            _score(block, runs, model) for block in blocks(study)
        ]  # NaN where too few points to judge by
        rng = context.rng("surrogate", turn, 1)
        return Round(model, runs.u, runs.y, scores, "Q2", lambda where: _candidates(study, model, where, rng))

    found = enriched(context, one_round)
    arrays = {**found.surrogate.arrays(), **vars(found.runs), "added": found.added}
    save_arrays(study.results / "surrogate.npz", arrays)
    records = _records(study, found.runs, found.surrogate, found.growth)
    save_records(study.results / "emulation.npz", records)


def _candidates(study: Study, model: Joined, where: str, rng: Generator) -> Array:
    """Return points of the unit cube: all over it, or a sketch of the posterior."""
    space = study.model_space
    if where == "error":
        return sobol(_CANDIDATES, space.dim, rng)
    model = model.only(calibrated(study))
    tests = [s for s in study.series if s.use == "calibrate"]
    likelihood = Likelihood(study.space, tuple(t for s in tests for t in emulated(study, s, model)))
    posterior = tmcmc(study.space, likelihood, n=_SKETCH, rng=rng)
    x = posterior.flat[:, [study.space.index(name) for name in space.names]]
    return np.unique(space.to_unit(x), axis=0)


def _run_at(context: Context, u: Array) -> tuple[Any, Runs]:
    """Run the simulator of every experiment at new points; return the keys (experiments, runs) and the runs."""
    study = context.study
    asked = [inputs for i in range(len(study.experiments)) for inputs in design_points(study, u, i)]
    made = context.evaluate(asked)
    n = len(made) // len(study.experiments)
    rows = [made[i * n : (i + 1) * n] for i in range(len(study.experiments))]
    observed = [observe(e, row, context.store) for e, row in zip(study.experiments, rows, strict=True)]
    keys = np.array([[run.key for run in row] for row in rows])
    return keys, _runs(np.repeat(u, study.settings.replicates, axis=0), observed)


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
            )
        )
    return answer


def _judged(model: Joined, block: Block) -> bool:
    mine = [part.surrogate for part in model.parts if np.isin(part.columns, block.columns).any()]
    return all(surrogate.score.judged for surrogate in mine)


def _method(model: Joined, column: int) -> str:
    part = next(part.surrogate for part in model.parts if column in part.columns)
    if isinstance(part, Reduced):
        k = len(part.modes)
        return f"{kind_of(part.inner)} of {k} principal component{'s' if k != 1 else ''}"
    return kind_of(part)


def emulated(study: Study, series: Series, model: Joined) -> list[tuple[Experiment, Emulated]]:
    """Return the surrogate as the forward model of each experiment of a series."""
    return [
        (experiment, Emulated(study.model_space, model, columns))
        for one, experiment, columns in places(designed(study))
        if one is series
    ]


def terms(
    context: Context, series: Series, model: Joined | None, *, record: Path | None = None, vary: bool = False
) -> list[tuple[Experiment, Forward]]:
    """Return who answers for each experiment of a series: the surrogate, or the simulator.

    With ``vary`` a stochastic simulator draws new random numbers at every point, as nature does.
    """
    if series.emulate:
        assert model is not None
        return [*emulated(context.study, series, model)]
    return [(e, context.forward(e, record=record, vary=vary)) for e in series.experiments]


def load_surrogate(study: Study) -> Joined | None:
    """Read the surrogate of the observables; None where there is none."""
    emulated = applies(study.raw, "surrogate") and emulates_observables(study.raw)
    return Joined.load(study.results / "surrogate.npz") if emulated else None


def load_runs(study: Study) -> Runs:
    """Read the runs that the surrogate was fitted to, those of the enrichment included, or the design's."""
    if not applies(study.raw, "surrogate"):
        return design_runs(study)
    found = load_arrays(study.results / "surrogate.npz")
    kept = (
        "runs." if emulates_loglike(study.raw) else ""
    )  # beside those that the log-likelihood was fitted to
    return Runs(*(found[f"{kept}{name}"] for name in ("u", "y", "good")))
