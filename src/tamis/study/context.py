"""What every stage of a study is given: the study, who answers for it, and how runs are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tamis.experiment import Experiment
from tamis.files import save_arrays
from tamis.inference.likelihood import Emulated, Forward, Likelihood, Simulated
from tamis.inference.posterior import Posterior
from tamis.results.records import Source, load_records
from tamis.runs.asking import Asking
from tamis.runs.keys import read_keys
from tamis.runs.pool import Executors
from tamis.runs.store import Run, RunStore
from tamis.study.definition import Study
from tamis.study.layout import places
from tamis.study.origins import joint_draws
from tamis.study.reader import emulates_observables
from tamis.study.series import Series
from tamis.study.stages.table import STAGES, applies
from tamis.surrogates.joined import Joined
from tamis.types import Generator, Inputs, Progress


@dataclass(frozen=True)
class Context:
    """The study, where its runs are kept, who makes them, and who is informed."""

    study: Study
    store: RunStore
    executor: Executors
    progress: Progress
    retry_failed: bool
    hashes: dict[str, str]
    record: Path | None = None  # for the keys of runs that neither the design nor the sampler asks for

    def rng(self, stage: str, *more: int) -> Generator:
        """Return the stage's own generator."""
        return np.random.default_rng([self.study.seed, STAGES[stage].number, *more])

    def asking(self, record: Path | None = None) -> Asking:
        """Return who makes runs and keeps them, within the limits of the study."""
        settings = self.study.settings
        limits = settings.max_output, record or self.record, settings.memory
        return Asking(
            self.store, self.executor, settings.timeout, settings.on_crash, self.retry_failed, *limits
        )

    def evaluate(self, asked: Sequence[Inputs]) -> list[Run]:
        """Run the simulator where the store has no run yet."""
        return self.asking().runs(self.study.simulator, asked, self.progress)

    def forward(
        self, experiment: Experiment, *, record: Path | None = None, vary: bool = False, replicate: int = 0
    ) -> Simulated:
        """Return the simulator as a forward model whose runs are stored.

        Those of a sampler are recorded, and told of by the sampler; of any others the user is told as they are made.
        """
        ask = self.asking(record) if record else replace(self.asking(), progress=self.progress)
        return Simulated(self.study.query(experiment, vary=vary, replicate=replicate), ask)

    def terms(
        self,
        series: Series,
        model: Joined | None,
        *,
        record: Path | None = None,
        vary: bool = False,
        replicate: int = 0,
    ) -> list[tuple[Experiment, Forward]]:
        """Return who answers for each experiment of a series: the surrogate, or the simulator."""
        if series.emulate:
            assert model is not None
            return [*emulated(self.study, series, model)]
        options: Any = {"record": record, "vary": vary, "replicate": replicate}
        return [(e, self.forward(e, **options)) for e in series.experiments]

    @contextmanager
    def recording(self, stage: str) -> Iterator[Context]:
        """Give a stage what it needs, and leave the keys of the runs that it asks for beside its artifact."""
        folder = self.study.folder
        passing, kept = folder / f"{stage}-runs.txt", folder / f"{stage}-runs.npz"
        passing.unlink(missing_ok=True)
        yield replace(self, record=passing)
        kept.unlink(missing_ok=True)
        if passing.exists():
            save_arrays(kept, {"keys": np.array(read_keys(passing))})
            passing.unlink()


def designed(study: Study) -> list[Series]:
    """Return the series that are run at the design, whose numbers stand side by side in the surrogate."""
    return [series for series in study.series if series.designed]


def emulated(study: Study, series: Series, model: Joined) -> list[tuple[Experiment, Emulated]]:
    """Return the surrogate as the forward model of each experiment of a series."""
    return [
        (experiment, Emulated(study.model_space, model, columns))
        for one, experiment, columns in places(designed(study))
        if one is series
    ]


def behind(study: Study, model: Joined | None) -> Likelihood | None:
    """Return the likelihood of the calibrated tests, where the data tell of errors that the surrogate shares."""
    if model is None or not model.factors:
        return None
    tests = [series for series in study.series if series.use == "calibrate" and series.emulate]
    terms = tuple(term for series in tests for term in emulated(study, series, model))
    return Likelihood(study.space, terms) if terms else None


def load_surrogate(study: Study) -> Joined | None:
    """Read the surrogate of the observables; None where there is none."""
    there = applies(study.raw, "surrogate") and emulates_observables(study.raw)
    return Joined.load(study.results / "surrogate.npz") if there else None


def load_posterior(study: Study) -> Posterior | None:
    """Read the posterior, or the draws from those of other studies; None where there are neither data nor such."""
    if study.origins:
        return joint_draws(study, load_records(study.folder / "sources.npz", Source))
    calibrated = any(s.use == "calibrate" for s in study.series)
    return Posterior.load(study.folder / "posterior.npz", study.space) if calibrated else None
