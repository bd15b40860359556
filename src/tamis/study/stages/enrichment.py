"""The one loop of the whole pipeline: a surrogate asks for more runs, whatever it is of.

Fit, score, choose points, run the simulator there, fit again, until the score or the budget is reached. Every choice
follows from the seed and the runs, and runs stay in the store, so an interrupted loop goes over its rounds again
without a single simulation and ends with the same bytes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from tamis.analysis.statistic import Statistic, over_replicates
from tamis.errors import TamisWarning
from tamis.experiment import Experiment
from tamis.files import load_arrays
from tamis.runs.campaign import observe
from tamis.runs.keys import append_keys
from tamis.runs.store import Run
from tamis.study.context import Context
from tamis.study.definition import Fidelity, Study
from tamis.study.keeping import adopt
from tamis.study.reader import emulates_loglike
from tamis.study.stages.design import design_points, level_inputs
from tamis.study.stages.table import STAGES, applies
from tamis.surrogates.base import Surrogate
from tamis.surrogates.enrich import enrich
from tamis.types import Array, Event, Mask

_MOST_CHEAP = 200  # points of a cheaper level in one round

Fitted = TypeVar("Fitted", bound=Surrogate)


@dataclass(frozen=True)
class Runs:
    """The runs of a design: every experiment's numbers side by side, at the same points."""

    u: Array  # (n, d)
    y: Array  # (n, m), NaN where a run gave none
    good: Mask  # (n, m)
    error: Array  # (n, m), standard errors where a row is a statistic over replicates; else 0
    cheaper: tuple[Runs, ...] = ()  # those of cheaper simulators, cheapest first

    def joined(self, other: Runs) -> Runs:
        """Return the runs of both, with the cheaper ones of the first."""
        mine, more = self.own(), other.own()
        return Runs(**{name: np.concatenate([mine[name], more[name]]) for name in mine}, cheaper=self.cheaper)

    def own(self) -> dict[str, Any]:
        """Return what belongs to these runs alone."""
        return {"u": self.u, "y": self.y, "good": self.good, "error": self.error}

    @classmethod
    def of(cls, arrays: Mapping[str, Any], head: str = "") -> Runs:
        """Make runs again from what `arrays` returned, under names that begin so; without the cheaper ones."""
        return cls(*(arrays[f"{head}{name}"] for name in ("u", "y", "good", "error")))

    def with_cheaper(self, k: int, more: Runs) -> Runs:
        """Return the runs with some more of cheaper level k."""
        levels = [level.joined(more) if i == k else level for i, level in enumerate(self.cheaper)]
        return replace(self, cheaper=tuple(levels))

    def arrays(self) -> dict[str, Any]:
        """Return all runs as arrays, for a file."""
        return self.own() | {
            f"cheap.{k}.{name}": array
            for k, level in enumerate(self.cheaper)
            for name, array in level.arrays().items()
        }


def design_runs(study: Study) -> Runs:
    """Read the points of the design and what was observed there."""
    u = load_arrays(study.results / "design.npz")["u"]
    found = load_arrays(study.results / "observables.npz")
    runs = _runs(study, u, [(found[f"{i}.y"], found[f"{i}.good"]) for i in range(len(study.experiments))])
    if not study.cheap:
        return runs
    cheap = load_arrays(study.results / "cheap.npz")
    return replace(runs, cheaper=tuple(Runs.of(cheap, f"{k}.") for k in range(len(study.cheap))))


def _runs(study: Study, u: Array, observed: list[tuple[Array, Mask]]) -> Runs:
    """Return the runs at points u of every experiment: each by itself, or one statistic of all that a point has."""
    table = study.tables.design
    if table.statistic is not None:
        return _statistics(study, u, observed)
    good = np.hstack([np.repeat(fine[:, None], y.shape[1], axis=1) for y, fine in observed])
    y = np.where(good, np.hstack([y for y, _ in observed]), np.nan)
    return Runs(np.repeat(u, table.replicates, axis=0), y, good, np.zeros(y.shape))


def _statistics(study: Study, u: Array, observed: list[tuple[Array, Mask]]) -> Runs:
    statistic, replicates = statistic_of(study), study.tables.design.replicates
    assert statistic is not None
    rng = np.random.default_rng([study.seed, STAGES["observables"].number])
    found = [over_replicates(y, good, replicates, statistic, rng) for y, good in observed]
    if lost := max(each.partial for each in found):
        text = f"At {lost} points some of the {replicates} runs failed; the {statistic} there is over the others."
        warnings.warn(text, TamisWarning, stacklevel=2)
    y, error = np.hstack([each.y for each in found]), np.hstack([each.error for each in found])
    return Runs(u, y, np.isfinite(y), error)


def statistic_of(study: Study) -> Statistic | None:
    """Return what is taken over the runs of a point before a surrogate is fitted; None where each run counts."""
    table = study.tables.design
    if table.statistic is None:
        return None
    return Statistic(table.statistic, 0.5 if table.level is None else float(table.level))


@dataclass(frozen=True)
class Round(Generic[Fitted]):
    """One round of enrichment: a surrogate of the runs so far, its scores, and where it may ask for more."""

    surrogate: Fitted
    u: Array  # (n, d), the runs it was fitted to
    y: Array  # (n, m)
    scores: Sequence[float]  # all of which are to reach what the study asks for
    measure: str  # what they are, for the news
    candidates: Callable[[str], Array] | None = None  # for the next points; None if none are asked for
    worth: Callable[[int, Array, Array], float] | None = (
        None  # error that runs of a level take away (cheaper levels)
    )


@dataclass(frozen=True)
class Enriched(Generic[Fitted]):
    """The surrogate of the last round, and how it came about."""

    surrogate: Fitted
    runs: Runs
    growth: Array  # (rounds, scores, 2), number of runs and score
    added: Any  # (experiments, runs), keys of the runs beyond the design
    added_cheap: tuple[Any, ...]  # the same of each cheaper level


def enriched(context: Context, one_round: Callable[[Runs, int], Round[Fitted]]) -> Enriched[Fitted]:
    """Fit a surrogate to the design and, if asked, run the simulator where it says until it is good enough.

    ``one_round`` is given the runs and the number of the round.
    """
    study = context.study
    table, design = study.tables.surrogate.enrich, study.tables.design
    runs = design_runs(study)
    none = np.empty((len(study.experiments), 0), dtype="U1")
    first, keys, below_keys = len(runs.u), [none], [[none] for _ in study.cheap]
    growth: list[list[list[float]]] = []
    cheaply = 0.0  # spent on cheaper levels, in points of the study's own simulator
    while True:
        last = one_round(runs, len(growth))
        growth.append([[len(runs.u) + cheaply, score] for score in last.scores])
        judged = np.isfinite(last.scores).all()
        worst = min(last.scores) if judged else -np.inf
        spent = (len(runs.u) - first) // (1 if design.statistic else design.replicates) + cheaply
        if table is None or spent > table.budget - 1 or worst >= table.q2:
            break
        told = {last.measure: worst, "asked for": float(table.q2)} if judged else {}
        context.progress(Event("enrichment", int(spent), table.budget, told))
        assert last.candidates is not None
        n = min(table.batch, int(table.budget - spent))
        candidates = last.candidates(table.where)
        level, chosen = _next(study, last, runs, candidates, n)
        # every point of a level is run at all levels below it, at no charge to the budget
        for k, below in enumerate(study.cheap[: None if level is None else level + 1]):
            new_keys, more = run_level(context, below, chosen)
            below_keys[k].append(new_keys)
            runs = runs.with_cheaper(k, more)
        if level is not None:
            cheaply += len(chosen) * float(study.cheap[level].cost or 1.0)
            continue
        new_keys, more = _run_at(context, chosen)
        keys.append(new_keys)
        runs = runs.joined(more)
    if table is not None and worst < table.q2:
        spent = len(runs.u) - first
        cheap = f", and cheaper ones that take as long as {cheaply:.3g}," if cheaply else ""
        reached = (
            f"{worst:.4f}, short of the {table.q2:g} asked for"
            if judged
            else "unknown, with too few points to judge by"
        )
        text = f"Enrichment spent its {spent} runs a test{cheap}; {last.measure} is {reached}."
        warnings.warn(text, TamisWarning, stacklevel=2)
    below_all = tuple(np.hstack(each) for each in below_keys)
    return Enriched(last.surrogate, runs, np.array(growth), np.hstack(keys), below_all)


def _next(
    study: Study, last: Round[Fitted], runs: Runs, candidates: Array, n: int
) -> tuple[int | None, Array]:
    """Choose the next points, and the cheaper level to run them at, None for the study's own simulator.

    As many points of each level as take the time of n expensive ones; the level that takes most error away in the time
    that its points take, runs at the levels below included.
    """
    assert study.tables.surrogate.enrich is not None
    criterion = study.tables.surrogate.enrich.where
    chosen = enrich(last.surrogate, last.u, last.y, candidates, n, criterion=criterion)
    if last.worth is None:
        return None, chosen
    costs = [float(level.cost or 1.0) for level in study.cheap] + [1.0]

    def rate(level: int, points: Array) -> float:
        assert last.worth is not None
        removed = sum(last.worth(k, points, candidates) for k in range(level + 1))
        return removed / (len(points) * sum(costs[: level + 1]))

    best: tuple[int | None, Array] = None, chosen
    most = rate(len(study.cheap), chosen)
    for k, have in enumerate(runs.cheaper):
        many = min(max(1, int(n / costs[k])), _MOST_CHEAP, len(candidates) // 2)
        points = enrich(last.surrogate, have.u, have.y, candidates, many, criterion=criterion)
        if (removed := rate(k, points)) > most:
            best, most = (k, points), removed
    return best


def _run_at(context: Context, u: Array) -> tuple[Any, Runs]:
    """Run the simulator of every experiment at new points; return the keys (experiments, runs) and the runs."""
    study = context.study
    asked = [inputs for i in range(len(study.experiments)) for inputs in design_points(study, u, i)]
    return _observed(context, study.experiments, u, context.evaluate(asked))


def run_level(context: Context, level: Fidelity, u: Array) -> tuple[Any, Runs]:
    """Do the same with a cheaper simulator."""
    study = context.study
    asked = level_inputs(study, level, u)
    adopt(level.simulator, asked, context.store)
    made = context.asking().runs(level.simulator, asked, context.progress)
    if context.record:
        append_keys(context.record, [run.key for run in made])
    return _observed(context, [e for s in level.series for e in s.experiments], u, made)


def _observed(
    context: Context, experiments: Sequence[Experiment], u: Array, made: list[Run]
) -> tuple[Any, Runs]:
    n = len(made) // len(experiments)
    rows = [made[i * n : (i + 1) * n] for i in range(len(experiments))]
    observed = [observe(e, row, context.store) for e, row in zip(experiments, rows, strict=True)]
    keys = np.array([[run.key for run in row] for row in rows])
    return keys, _runs(context.study, u, observed)


def load_runs(study: Study) -> Runs:
    """Read the runs that the surrogate was fitted to, those of the enrichment included, or the design's."""
    if not applies(study.raw, "surrogate"):
        return design_runs(study)
    found = load_arrays(study.results / "surrogate.npz")
    kept = (
        "runs." if emulates_loglike(study.raw) else ""
    )  # beside those that the log-likelihood was fitted to
    return Runs.of(found, kept)
