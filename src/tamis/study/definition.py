"""What a study file defines: one model, its unknowns, the tests it is held against, and what is asked of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from tamis.experiment import Experiment, draws_seed
from tamis.inference.likelihood import Query
from tamis.results.study import Reference
from tamis.simulation import Simulator, batched
from tamis.space import Space
from tamis.study.noises import Place
from tamis.study.reader import Raw
from tamis.study.schema import FromTable, ParameterTable, StudyFile
from tamis.study.series import Series
from tamis.types import Inputs

CALLS_A_POINT = 110  # likelihood calls that a point of tmcmc costs, roughly: 90 to 130 on the examples


@dataclass(frozen=True)
class Sampler:
    """How the posterior is sampled; each method reads some of the numbers."""

    method: Literal["tmcmc", "metropolis", "mct"]
    n: int = 2000  # points of tmcmc
    sweeps: int = 40  # of each of its stages, at most
    chains: int = 100  # of metropolis
    draws: int = 1000  # steps of each chain, or draws of each trajectory
    trajectories: int = 100  # of mct

    @property
    def calls(self) -> int:
        """About how many points the likelihood is asked for."""
        return CALLS_A_POINT * self.n if self.method == "tmcmc" else self.chains * self.draws

    @property
    def described(self) -> str:
        """The method and its numbers, in words."""
        return {
            "tmcmc": f"{self.n} samples (tmcmc)",
            "metropolis": f"{self.chains} chains of {self.draws} steps, at most 4 times that to agree (metropolis)",
            "mct": f"{self.draws} draws of each of {self.trajectories} trajectories (mct)",
        }[self.method]


@dataclass(frozen=True)
class Settings:
    """How the simulator is run, and the posterior sampled."""

    sampler: Sampler
    on_crash: Literal["stop", "reject"]
    timeout: float | None
    max_output: float
    memory: float | None  # bytes


@dataclass(frozen=True)
class Fidelity:
    """A cheaper simulator of what the study observes, and how often it is run."""

    name: str
    simulator: Simulator
    fixed: Inputs
    series: tuple[Series, ...]  # what is observed of it
    n: int  # points
    cost: float | None = None  # time of a run over that of the study's own simulator


@dataclass(frozen=True)
class Origin:
    """A study whose posterior draws are the parameters of another one."""

    name: str
    study: Study
    held: Mapping[str, float]  # what it held fixed of the parameters that others of the origins sampled


@dataclass(frozen=True)
class Study:
    """One model, its unknowns, the tests it is held against, and what is asked of it."""

    path: Path
    title: str
    seed: int
    simulator: Simulator
    space: Space
    series: tuple[Series, ...]
    fixed: Inputs
    settings: Settings
    tables: StudyFile  # settings of the stages
    references: tuple[Reference, ...]
    raw: Raw
    folder: Path  # of what is sampled and predicted: that of the results, or of a part of them
    part: str = ""  # the part of the data it is calibrated with, where a study is split
    idle: Space | None = None  # sizes of errors that this part cannot tell
    open: tuple[Place, ...] = ()  # what waits for the numbers of the stage `synthetic`
    origins: tuple[Origin, ...] = ()  # the studies it draws its parameters from; none where it has priors
    cheap: tuple[Fidelity, ...] = ()  # cheaper simulators, cheapest first
    laws: Mapping[str, ParameterTable] = field(
        default_factory=dict
    )  # priors, its own or those of its origins

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """All that is run at the design: tests, calibrated and held out, and predictions by a surrogate."""
        return tuple(e for s in self.series if s.designed for e in s.experiments)

    @cached_property
    def model_space(self) -> Space:
        """The unknowns that are inputs of the simulator."""
        return self.space.subset([name for name in self.space.names if name in self.simulator.inputs])

    @property
    def results(self) -> Path:
        """Folder of this study's results."""
        return self.raw.results.resolve()

    @property
    def runs(self) -> Path:
        """Folder of the run store, shared by all studies of the directory."""
        return self.path.parent / "runs"

    def batched(self, experiments: Iterable[Experiment]) -> bool:
        """Return whether the simulator answers whole batches of points with all that these experiments observe."""
        return batched(self.simulator, {name for e in experiments for name in e.needs}) is not None

    @property
    def calibrated(self) -> list[Experiment]:
        """The tests that it is calibrated with."""
        return [e for s in self.series if s.use == "calibrate" for e in s.experiments]

    @property
    def chain(self) -> FromTable | None:
        """How its parameters are drawn from the posteriors of other studies; None where it has priors."""
        table = self.tables.parameters
        return table if isinstance(table, FromTable) else None

    def stochastic(self, experiments: Iterable[Experiment]) -> bool:
        """Return whether the simulator draws random numbers in any of these, whose seed nothing gives."""
        reads = self.model_space.names
        return any(draws_seed(self.simulator.inputs, self.fixed, e.conditions, reads) for e in experiments)

    def query(self, experiment: Experiment, *, vary: bool = False, replicate: int = 0) -> Query:
        """Return what one experiment asks of the simulator.

        A stochastic one is given the study's seed, the same at every point, so that it is a function; with ``vary`` it
        draws new random numbers at every point, as nature does, and others for each ``replicate``.
        """
        reads = self.model_space.names
        drawn = draws_seed(self.simulator.inputs, self.fixed, experiment.conditions, reads)
        fixed = {**self.fixed, "seed": self.seed} if drawn else self.fixed
        return Query(self.simulator, experiment, reads, fixed, vary and "seed" not in self.fixed, replicate)
