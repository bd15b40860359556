"""What every stage of a study is given, and how it asks for runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tamis.experiment import Experiment
from tamis.files import save_arrays
from tamis.inference.likelihood import Direct
from tamis.inference.posterior import Posterior
from tamis.runs.campaign import evaluate, points
from tamis.runs.keys import read_keys
from tamis.runs.pool import Executors
from tamis.runs.store import Run, RunStore
from tamis.study.definition import Study
from tamis.study.table import NUMBERS, Stage
from tamis.types import Array, Generator, Inputs, Progress


@dataclass(frozen=True)
class Context:
    """The study, where its runs are kept, who makes them, and who is told."""

    study: Study
    store: RunStore
    executor: Executors
    progress: Progress
    retry_failed: bool
    hashes: dict[Stage, str]
    record: Path | None = None  # for the keys of runs that neither the design nor the sampler asks for

    def rng(self, stage: Stage, *more: int) -> Generator:
        """Return the stage's own generator."""
        return np.random.default_rng([self.study.seed, NUMBERS[stage], *more])

    def evaluate(self, asked: Sequence[Inputs]) -> list[Run]:
        """Run the simulator where the store has no run yet."""
        settings = self.study.settings
        return evaluate(
            self.study.simulator,
            asked,
            self.store,
            executor=self.executor,
            timeout=settings.timeout,
            max_output=settings.max_output,
            memory=settings.memory,
            retry_failed=self.retry_failed,
            progress=self.progress,
        )

    def forward(self, experiment: Experiment, *, record: Path | None = None, vary: bool = False) -> Direct:
        """Return the simulator as a forward model whose runs are stored."""
        plain = self.study.forward(
            experiment, self.store, self.executor, self.retry_failed, record or self.record
        )
        return replace(plain, vary_seed=vary and "seed" not in self.study.fixed)


def recorded(context: Context, stage: Stage, work: Callable[[Context], None]) -> None:
    """Do a stage, and leave the keys of the runs that it asks for, where there are any, beside its artifact."""
    folder = context.study.folder
    passing, kept = folder / f"{stage}-runs.txt", folder / f"{stage}-runs.npz"
    if passing.exists():
        passing.unlink()
    work(replace(context, record=passing))
    kept.unlink(missing_ok=True)
    if passing.exists():
        save_arrays(kept, {"keys": np.array(read_keys(passing))})
        passing.unlink()


def design_points(study: Study, u: Array, i: int) -> list[Inputs]:
    """Return the inputs of experiment i at points of the unit cube, replicates included."""
    return points(
        study.model_space,
        u,
        study.experiments[i],
        simulator=study.simulator,
        fixed=study.fixed,
        replicates=study.settings.replicates,
        seed=study.seed,
    )


def load_posterior(study: Study) -> Posterior | None:
    """Read the posterior; None where there are no data."""
    calibrated = any(s.use == "calibrate" for s in study.series)
    return Posterior.load(study.folder / "posterior.npz", study.space) if calibrated else None
