"""Likelihoods: how probable the measurements are at each of n points, computed for all of them at once.

A `Forward` answers for one experiment. `Simulated` asks the simulator: through its batch interface if it has one for
the outputs needed, else whoever runs it for us. `Emulated` asks a surrogate, whose own variance comes with the answer
and is added to the noise; errors that its answers share, in one test or several, make these one joint density. All
simulated terms of a likelihood are asked in one call, so that a generation of a sampler
keeps every core busy; terms that share a surrogate share its evaluation. What is asked is a `Query`, which knows of no
store and no process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np

from tamis.errors import SimulationError, StudyError
from tamis.experiment import Experiment, WrongCount, imposed
from tamis.gaussians import Witness, common_given, joint_log_density
from tamis.runs.keys import digest
from tamis.simulation import Simulator, batched
from tamis.space import Space
from tamis.surrogates.base import Surrogate
from tamis.types import Array, Gauss, Generator, Inputs, LogDensity, Outputs, Value


class Forward(Protocol):
    """All observed numbers of one experiment, for n points at once."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The parameters it takes, in this order."""

    def __call__(self, x: Array) -> Gauss:
        """Map (n, len(reads)) points to answers; NaN rows where the simulator failed."""


class Ask(Protocol):
    """Who runs a simulator: from inputs to what reads the outputs of each run, None where it failed."""

    def __call__(
        self, simulator: Simulator, points: Sequence[Inputs], needs: Sequence[Sequence[str]], /
    ) -> Sequence[Callable[[], Outputs] | None]:
        """Run a simulator at points, of each of which these outputs are needed."""


@dataclass(frozen=True)
class Query:
    """What one experiment asks of a simulator: which inputs at a point, which outputs, which numbers of them."""

    simulator: Simulator
    experiment: Experiment
    reads: tuple[str, ...]  # the parameters it takes, in this order
    fixed: Inputs
    vary_seed: bool = False  # a stochastic simulator draws anew at every point, instead of being a function
    replicate: int = 0  # which of several runs at the same point, each with a seed of its own

    def inputs(self, row: Array) -> dict[str, Value]:
        """Return the simulator's inputs at one point."""
        parameters = {name: float(v) for name, v in zip(self.reads, row, strict=True)}
        seed = self._seed(row) if self._redraws else None
        return imposed(self.fixed, self.experiment.conditions, parameters, seed)

    def columns(self, x: Array) -> dict[str, Any]:
        """Return the simulator's inputs at n points: a column of each parameter, one value of what does not vary."""
        parameters = {name: x[:, j] for j, name in enumerate(self.reads)}
        seeds = np.array([self._seed(row) for row in x]) if self._redraws else None
        return imposed(self.fixed, self.experiment.conditions, parameters, seeds)

    @property
    def _redraws(self) -> bool:
        return self.vary_seed and "seed" in self.simulator.inputs and "seed" in self.fixed

    def _seed(self, row: Array) -> int:
        """Return the seed of a point, made from the fixed one and the point itself."""
        again = [self.replicate] if self.replicate else []
        return int(digest(self.fixed["seed"], [float(v).hex() for v in row], *again)[:8], 16) >> 1


@dataclass(frozen=True)
class Simulated:
    """The simulator itself as a forward model of one experiment.

    It is asked through its batch interface if it has one for the outputs needed, else by ``ask``.
    """

    query: Query
    ask: Ask | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """The parameters it takes, in this order."""
        return self.query.reads

    def __call__(self, x: Array) -> Gauss:
        """Answer for n points."""
        return respond((self,), (x,))[0]


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
        return part_of(self.surrogate.predict(self.space.to_unit(x)), self.columns)


def part_of(found: Gauss, columns: slice | None) -> Gauss:
    """Return these columns of an answer; modes that do not touch them are left out, but for common ones."""
    if columns is None:
        return found
    answer = Gauss(found.mean[:, columns], found.var[:, columns])
    if found.common is not None and (common := found.common[:, :, columns]).any():
        answer = answer._replace(common=common)
    if found.modes is None or found.weight is None:
        return answer
    modes = found.modes[:, columns]
    mine = modes.any(axis=1)
    return answer._replace(modes=modes[mine], weight=found.weight[:, mine]) if mine.any() else answer


def with_error(model: Gauss, rng: Generator, common: Array | None = None) -> Array:
    """Add to the answers of a surrogate one draw of its error; those of the simulator itself have none.

    ``common`` (n, f) are the standard normal numbers behind what the answers share with others of the surrogate.
    """
    mean = model.mean
    if model.var.any():
        mean = mean + np.sqrt(model.var) * rng.standard_normal(mean.shape)
    if model.modes is not None and model.weight is not None:
        mean = mean + (np.sqrt(model.weight) * rng.standard_normal(model.weight.shape)) @ model.modes
    if model.common is not None:
        drawn = rng.standard_normal(model.common.shape[:2]) if common is None else common
        mean = mean + np.einsum("nf,nfm->nm", drawn, model.common)
    return mean


def sources(forwards: Sequence[Forward]) -> list[int]:
    """Return, for each forward model, the first that asks the same surrogate: those share its common errors."""
    first: dict[tuple[int, int], int] = {}
    return [
        first.setdefault((id(f.surrogate), id(f.space)), i) if isinstance(f, Emulated) else i
        for i, f in enumerate(forwards)
    ]


def common_errors(forwards: Sequence[Forward], models: Sequence[Gauss], rng: Generator) -> list[Array | None]:
    """Draw the standard normal numbers behind common errors, (n, f), for each answer: one draw a surrogate."""
    drawn: dict[int, Array] = {}
    for source, model in zip(sources(forwards), models, strict=True):
        if model.common is not None and source not in drawn:
            drawn[source] = rng.standard_normal(model.common.shape[:2])
    return [drawn.get(source) for source in sources(forwards)]


def _joined_columns(queries: Sequence[Query], points: Sequence[Array]) -> dict[str, Any]:
    """Return the inputs of several experiments of one simulator as the columns of a single batch."""
    each = [query.columns(x) for query, x in zip(queries, points, strict=True)]
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for found in each for name in found):
        parts: list[Any] = [found.get(name, queries[0].simulator.inputs[name].default) for found in each]
        for query, part in zip(queries, parts, strict=True):
            if part is None:
                raise StudyError(
                    f'experiment {query.experiment.name} gives no "{name}", which has no default'
                )
        if any(isinstance(part, str) for part in parts):
            if len(set(map(str, parts))) > 1:
                raise StudyError(
                    f'the batch interface takes one "{name}" at a time, found {sorted(set(map(str, parts)))}'
                )
            columns[name] = parts[0]
        else:
            sized = zip(parts, points, strict=True)
            columns[name] = np.concatenate([np.broadcast_to(part, (len(x),)) for part, x in sized])
    return columns


def _of_runs(ask: Ask | None, queries: Sequence[Query], points: Sequence[Array]) -> list[Array]:
    """Run the simulator at all points in one campaign, and take the numbers of each experiment; NaN where it failed.

    Single runs that give another count of numbers than observed have failed; where all do, the study is wrong.
    """
    simulator = queries[0].simulator
    if ask is None:
        raise StudyError(
            f"simulator {simulator.name} has no batch interface; give a run store to sample it directly"
        )
    at = [(query, row) for query, x in zip(queries, points, strict=True) for row in x]
    needs = {id(query): sorted(query.experiment.needs) for query in queries}
    runs = ask(simulator, [query.inputs(row) for query, row in at], [needs[id(query)] for query, _ in at])
    ran = iter(runs)
    answers = []
    for query, x in zip(queries, points, strict=True):
        rows = np.full((len(x), query.experiment.parts()[-1].stop), np.nan)
        wrong: WrongCount | None = None
        for i, read in enumerate(islice(ran, len(x))):
            if read is None:
                continue
            outputs = read()
            try:
                rows[i] = query.experiment.numbers(outputs)
            except WrongCount as error:
                wrong = wrong or error
            except SimulationError:  # a run that does not span the data is a failed row
                continue
        if wrong is not None and np.isnan(rows).all():
            raise wrong
        answers.append(rows)
    return answers


@dataclass(frozen=True)
class Likelihood:
    """The log density of all measurements at each of n points of a space.

    A failed run, which has no answer to an experiment, has likelihood zero; where surrogates answer, ``success`` may
    say how probable an answer is. Where some of the numbers of an answer are
    missing the likelihood is not a number, for the sampler to tell.
    """

    space: Space
    terms: tuple[tuple[Experiment, Forward], ...]
    success: LogDensity | None = None  # log probability that runs succeed, where a surrogate answers for them

    def __call__(self, x: Array) -> Array:
        """Map (n, d) points to (n,) log-likelihoods."""
        theta = self._named(x)
        total, failed, partly = np.zeros(len(x)), np.zeros(len(x), dtype=bool), np.zeros(len(x), dtype=bool)
        forwards = [forward for _, forward in self.terms]
        models = respond(forwards, places(self.space, forwards, x))
        sharing: dict[int, list[Witness]] = {}
        for (experiment, _), model, source in zip(self.terms, models, sources(forwards), strict=True):
            missing = np.isnan(model.mean)
            failed |= missing.all(axis=1)
            partly |= missing.any(axis=1)
            for observation, part in zip(experiment.observations, experiment.parts(), strict=True):
                mine, y = part_of(model, part), np.atleast_2d(observation.y)
                if mine.common is None:
                    total += observation.noise.loglike(y, mine, theta, observation.coord)
                else:
                    witness = observation.noise.witness(y, mine, theta, observation.coord)
                    sharing.setdefault(source, []).append(witness)
        for witnesses in sharing.values():
            total += joint_log_density(witnesses)
        if self.success is not None:
            total += self.success(x)
        return np.where(failed, -np.inf, np.where(partly, np.nan, total))

    def _named(self, x: Array) -> dict[str, Array]:
        return {name: x[:, i] for i, name in enumerate(self.space.names)}

    def informed(
        self, x: Array, forwards: Sequence[Forward], models: Sequence[Gauss], space: Space
    ) -> list[Gauss]:
        """Return answers at points x (n, d) of a space with what the data tell of errors shared with them.

        Where a surrogate misses the tests, it misses other answers that share its errors: these are shifted and
        their common errors are those that the data leave open.
        """
        mine = [forward for _, forward in self.terms]
        theta = {name: x[:, space.index(name)] for name in self.space.names}
        own = np.column_stack(list(theta.values()))
        told = respond(mine, places(self.space, mine, own))
        sharing: dict[int, list[Witness]] = {}
        keys = sources([*mine, *forwards])
        for (experiment, _), model, key in zip(self.terms, told, keys[: len(mine)], strict=True):
            for observation, part in zip(experiment.observations, experiment.parts(), strict=True):
                answer = part_of(model, part)
                if answer.common is not None:
                    y = np.atleast_2d(observation.y)
                    witness = observation.noise.witness(y, answer, theta, observation.coord)
                    sharing.setdefault(key, []).append(witness)
        given = {key: common_given(witnesses) for key, witnesses in sharing.items()}
        answers = []
        for model, key in zip(models, keys[len(mine) :], strict=True):
            if model.common is None or key not in given:
                answers.append(model)
                continue
            centre, root = given[key]
            mean = model.mean + np.einsum("nf,nfm->nm", centre, model.common)
            answers.append(model._replace(mean=mean, common=root.swapaxes(1, 2) @ model.common))
        return answers


def means(space: Space, forwards: Sequence[Forward], x: Array) -> Array:
    """Return the means of several forward models side by side, (n, m); NaN rows where one failed."""
    return np.hstack([found.mean for found in answers(space, forwards, x)])


def answers(space: Space, forwards: Sequence[Forward], x: Array) -> list[Gauss]:
    """Ask several forward models at points (n, d) of a space, together where they can be."""
    return respond(forwards, places(space, forwards, x))


def places(space: Space, forwards: Sequence[Forward], x: Array) -> list[Array]:
    """Return the coordinates that each forward model takes of points (n, d) of a space."""
    return [x[:, [space.index(name) for name in forward.reads]] for forward in forwards]


def respond(forwards: Sequence[Forward], points: Sequence[Array]) -> list[Gauss]:
    """Ask each forward model at its points: all runs in one batch or campaign, and a shared surrogate once."""
    simulated = [(i, f) for i, f in enumerate(forwards) if isinstance(f, Simulated)]
    found: dict[int, Gauss] = {}
    if simulated:
        queries, at = [f.query for _, f in simulated], [points[i] for i, _ in simulated]
        batch = batched(queries[0].simulator, {name for query in queries for name in query.experiment.needs})
        if batch is None:
            rows = _of_runs(simulated[0][1].ask, queries, at)
        else:
            outputs = batch.batch(_joined_columns(queries, at))
            edges = np.cumsum([0, *map(len, at)])
            rows = [
                query.experiment.rows({name: outputs[name][a:b] for name in query.experiment.needs})
                for query, a, b in zip(queries, edges[:-1], edges[1:], strict=True)
            ]
        found = {i: Gauss(mean, np.zeros_like(mean)) for (i, _), mean in zip(simulated, rows, strict=True)}
    shared: dict[tuple[int, int], Gauss] = {}
    for i, forward in enumerate(forwards):
        if isinstance(forward, Emulated):
            key = id(forward.surrogate), id(forward.space)
            if key not in shared:
                shared[key] = forward.surrogate.predict(forward.space.to_unit(points[i]))
            found[i] = part_of(shared[key], forward.columns)
        elif i not in found:
            found[i] = forward(points[i])
    return [found[i] for i in range(len(forwards))]
