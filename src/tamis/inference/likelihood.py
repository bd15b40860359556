"""Likelihoods: how probable the measurements are at each of n points, computed for all of them at once.

A `Forward` answers for one experiment. `Direct` asks the simulator: through its batch door if it has one for
the outputs needed, else through the store, where every point stays. `Emulated` asks a surrogate, whose own
variance comes with the answer and is added to the noise. All direct terms of a likelihood are gathered into one
call, so that a generation of a sampler keeps every core busy; terms that share a surrogate share its evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from tamis.errors import SimulationError, StudyError, TamisError
from tamis.experiment import Experiment
from tamis.runs.campaign import evaluate
from tamis.runs.keys import append_keys, digest
from tamis.runs.pool import Executors
from tamis.runs.store import RunStore
from tamis.simulation import Batched, Simulator, batched
from tamis.space import Space
from tamis.surrogates.base import Surrogate
from tamis.types import Array, Gauss, Generator, Inputs, Value


class Forward(Protocol):
    """All observed numbers of one experiment, for n points at once."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The parameters it takes, in this order."""

    def __call__(self, x: Array) -> Gauss:
        """Map (n, len(reads)) points to answers; NaN rows where the simulator failed."""


@dataclass(frozen=True)
class Direct:
    """The simulator itself as a forward model of one experiment."""

    simulator: Simulator
    experiment: Experiment
    reads: tuple[str, ...]
    fixed: Inputs
    store: RunStore | None = None
    executor: Executors = 1
    timeout: float | None = None
    on_crash: Literal["stop", "reject"] = "stop"
    retry_failed: bool = False
    max_output: float = 256.0
    record: Path | None = None  # file to which the keys of all runs asked for are added
    memory: float | None = None  # bytes that one run may take
    vary_seed: bool = False  # a stochastic simulator draws anew at every point, instead of being a function

    @property
    def needs(self) -> set[str]:
        """The outputs its observables read."""
        return {name for o in self.experiment.observations for name in o.observable.needs}

    def __call__(self, x: Array) -> Gauss:
        """Answer for n points."""
        return gather((self,), (x,))[0]

    def inputs(self, row: Array) -> dict[str, Value]:
        """Return the simulator's inputs at one point.

        Parameters win over conditions, conditions over fixed inputs.
        """
        parameters = {name: float(v) for name, v in zip(self.reads, row, strict=True)}
        drawn = {"seed": self.seed(row)} if self.redraws else {}
        return {**self.fixed, **drawn, **self.experiment.conditions, **parameters}

    @property
    def redraws(self) -> bool:
        """Whether each point has a seed of its own."""
        return self.vary_seed and "seed" in self.simulator.inputs and "seed" in self.fixed

    def seed(self, row: Array) -> int:
        """Return the seed of a point, made from the fixed one and the point itself."""
        return int(digest(self.fixed["seed"], [float(v).hex() for v in row])[:8], 16) >> 1


@dataclass(frozen=True)
class Emulated:
    """A surrogate as the forward model of one experiment, whose numbers may be some of the surrogate's outputs."""

    space: Space  # of the simulator's inputs
    surrogate: Surrogate
    columns: slice | None = None  # all

    @property
    def reads(self) -> tuple[str, ...]:
        """The parameters it takes, in this order."""
        return self.space.names

    def __call__(self, x: Array) -> Gauss:
        """Answer for n points."""
        return some(self.surrogate.predict(self.space.to_unit(x)), self.columns)


def some(found: Gauss, columns: slice | None) -> Gauss:
    """Return some of the numbers of an answer; modes that do not touch them are left out."""
    if columns is None:
        return found
    mean, var = found.mean[:, columns], found.var[:, columns]
    if found.modes is None or found.weight is None:
        return Gauss(mean, var)
    modes = found.modes[:, columns]
    mine = modes.any(axis=1)
    return Gauss(mean, var, modes[mine], found.weight[:, mine]) if mine.any() else Gauss(mean, var)


def with_error(model: Gauss, rng: Generator) -> Array:
    """Add to the answers of a surrogate one draw of its error; those of the simulator itself have none."""
    mean = model.mean
    if model.var.any():
        mean = mean + np.sqrt(model.var) * rng.standard_normal(mean.shape)
    if model.modes is not None and model.weight is not None:
        mean = mean + (np.sqrt(model.weight) * rng.standard_normal(model.weight.shape)) @ model.modes
    return mean


def gather(terms: Sequence[Direct], points: Sequence[Array]) -> list[Gauss]:
    """Answer for several experiments of one simulator in a single batch, or a single campaign."""
    simulator = terms[0].simulator
    needs = {name for term in terms for name in term.needs}
    door = batched(simulator, needs)
    rows = _through_batch(door, terms, points) if door else _through_store(terms, points)
    return [Gauss(mean, np.zeros_like(mean)) for mean in rows]


def _through_batch(door: Batched, terms: Sequence[Direct], points: Sequence[Array]) -> list[Array]:
    sizes = [len(x) for x in points]
    names = list(dict.fromkeys(n for t in terms for n in (*t.fixed, *t.experiment.conditions, *t.reads)))
    columns: dict[str, Any] = {}
    for name in names:
        parts = [_column(term, x, name) for term, x in zip(terms, points, strict=True)]
        if any(isinstance(part, str) for part in parts):
            if len(set(map(str, parts))) > 1:
                raise StudyError(
                    f'the batch door takes one "{name}" at a time, found {sorted(set(map(str, parts)))}'
                )
            columns[name] = parts[0]
        else:
            columns[name] = np.concatenate(
                [np.broadcast_to(p, (size,)) for p, size in zip(parts, sizes, strict=True)]
            )
    outputs = door.batch(columns)
    edges = np.cumsum([0, *sizes])
    answers = []
    for term, a, b in zip(terms, edges[:-1], edges[1:], strict=True):
        mine = {name: outputs[name][a:b] for name in term.needs}
        blocks = [o.observable.many(mine) for o in term.experiment.observations]
        answers.append(np.hstack([_fitting(term, i, block) for i, block in enumerate(blocks)]))
    return answers


def _fitting(term: Direct, i: int, block: Array) -> Array:
    """Return an observation's numbers if there are as many as expected."""
    observation = term.experiment.observations[i]
    if block.shape[1] != observation.size:
        raise StudyError(
            f"{term.experiment.name}, {observation.label or i}: the model gives {block.shape[1]} numbers where "
            f'{observation.size} are expected; a signal is observed with how = "at"'
        )
    return block


def _column(term: Direct, x: Array, name: str) -> Any:
    if name in term.reads:
        return x[:, term.reads.index(name)]
    if name in term.experiment.conditions:
        return term.experiment.conditions[name]
    if name == "seed" and term.redraws:
        return np.array([term.seed(row) for row in x])
    if name in term.fixed:
        return term.fixed[name]
    default = term.simulator.inputs[name].default
    if default is None:
        raise StudyError(f'experiment {term.experiment.name} gives no "{name}", which has no default')
    return default


def _through_store(terms: Sequence[Direct], points: Sequence[Array]) -> list[Array]:
    first = terms[0]
    if first.store is None:
        raise StudyError(
            f"simulator {first.simulator.name} has no batch door; give a run store to sample it directly"
        )
    asked = [term.inputs(row) for term, x in zip(terms, points, strict=True) for row in x]
    runs = evaluate(
        first.simulator,
        asked,
        first.store,
        executor=first.executor,
        timeout=first.timeout,
        max_output=first.max_output,
        memory=first.memory,
        retry_failed=first.retry_failed,
    )
    if first.record:
        append_keys(first.record, [run.key for run in runs])
    for run in runs:
        if run.status in ("crashed", "timeout", "memory") and first.on_crash == "stop":
            values = (
                f"{k} = {v:.6g}" if isinstance(v, float) else f"{k} = {v}" for k, v in run.inputs.items()
            )
            log = first.store.log_place(run.key) or "none"
            raise TamisError(
                f"{first.simulator.name}: {run.status} at {', '.join(values)}: {run.error} (log: {log}); "
                'mend it and go on with --retry-failed, or set [inference] on_crash = "reject" to leave such points '
                "out (a likelihood is zero there)"
            )
    answers = []
    k = 0
    for term, x in zip(terms, points, strict=True):
        rows = np.full((len(x), sum(o.size for o in term.experiment.observations)), np.nan)
        odd = []  # runs that give other numbers than observed; some are failed rows, all are a wrong study
        for i in range(len(x)):
            if runs[k].status == "done":
                outputs = first.store.outputs(runs[k].key, tuple(term.needs))
                with suppress(SimulationError):  # a run that does not span the data is a failed row
                    blocks = [o.observable(outputs)[None] for o in term.experiment.observations]
                    if all(
                        b.shape[1] == o.size
                        for b, o in zip(blocks, term.experiment.observations, strict=True)
                    ):
                        rows[i] = np.hstack(blocks)[0]
                    else:
                        odd.append(blocks)
            k += 1
        if odd and np.isnan(rows).all():
            for j, block in enumerate(odd[0]):
                _fitting(term, j, block)
        answers.append(rows)
    return answers


@dataclass(frozen=True)
class Likelihood:
    """The log density of all measurements at each of n points of a space.

    A failed run, which has no answer to an experiment, has likelihood zero. Where some of the numbers of an answer are
    missing the likelihood is not a number, for the sampler to tell.
    """

    space: Space
    terms: tuple[tuple[Experiment, Forward], ...]

    def __call__(self, x: Array) -> Array:
        """Map (n, d) points to (n,) log-likelihoods."""
        theta = {name: x[:, i] for i, name in enumerate(self.space.names)}
        total, failed, partly = np.zeros(len(x)), np.zeros(len(x), dtype=bool), np.zeros(len(x), dtype=bool)
        for (experiment, _), model in zip(self.terms, self.answers(x), strict=True):
            missing = np.isnan(model.mean)
            failed |= missing.all(axis=1)
            partly |= missing.any(axis=1)
            for observation, part in zip(experiment.observations, experiment.parts(), strict=True):
                mine = some(model, part)
                total += observation.noise.loglike(
                    np.atleast_2d(observation.y), mine, theta, observation.coord
                )
        return np.where(failed, -np.inf, np.where(partly, np.nan, total))

    def answers(self, x: Array) -> list[Gauss]:
        """Return every experiment's model answers."""
        return answers(self.space, [forward for _, forward in self.terms], x)


def means(space: Space, forwards: Sequence[Forward], x: Array) -> Array:
    """Return the means of several forward models side by side, (n, m); NaN rows where one failed."""
    return np.hstack([found.mean for found in answers(space, forwards, x)])


def answers(space: Space, forwards: Sequence[Forward], x: Array) -> list[Gauss]:
    """Ask several forward models at points (n, d) of a space, together where they can be."""
    points = [x[:, [space.index(name) for name in forward.reads]] for forward in forwards]
    direct = [i for i, forward in enumerate(forwards) if isinstance(forward, Direct)]
    found: dict[int, Gauss] = {}
    if direct:
        together = gather(
            [f for f in forwards if isinstance(f, Direct)],
            [points[i] for i in direct],
        )
        found = dict(zip(direct, together, strict=True))
    shared: dict[tuple[int, int], Gauss] = {}
    for i, forward in enumerate(forwards):
        if isinstance(forward, Emulated):
            key = id(forward.surrogate), id(forward.space)
            if key not in shared:
                shared[key] = forward.surrogate.predict(forward.space.to_unit(points[i]))
            found[i] = some(shared[key], forward.columns)
        elif i not in found:
            found[i] = forward(points[i])
    return [found[i] for i in range(len(forwards))]
