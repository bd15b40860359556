"""The numbers that are compared with data, taken from the stored outputs of every run of the design."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

from tamis.errors import StudyError, TamisError, TamisWarning
from tamis.experiment import Experiment
from tamis.files import load_arrays, save_arrays
from tamis.results.gather import stored
from tamis.runs.campaign import failures, observe
from tamis.runs.store import Run, RunStore
from tamis.study.context import Context


def run(context: Context) -> None:
    """Take from every run the numbers that are compared with data."""
    study = context.study
    table = load_arrays(study.results / "runs.npz")["keys"]
    found: dict[str, Any] = {}
    for i, (experiment, keys) in enumerate(zip(study.experiments, table, strict=True)):
        runs = stored(context.store, keys)
        y, good = observe(experiment, runs, context.store)
        if not any(run.status == "done" for run in runs):
            reason, times = Counter(run.error for run in runs).most_common(1)[0]
            raise TamisError(
                f"{experiment.name}: all {len(runs)} runs of the design failed, {times} of them with: {reason}. "
                "`tamis status` shows where; once the cause is removed, --retry-failed runs them again"
            )
        found |= {f"{i}.y": y, f"{i}.good": good}
        done = [run for run, fine in zip(runs, good, strict=True) if run.status == "done" and not fine]
        _warn_unobserved(experiment, done, context.store, hopeless=not good.any())
    save_arrays(study.results / "observables.npz", found)


def _warn_unobserved(experiment: Experiment, runs: list[Run], store: RunStore, *, hopeless: bool) -> None:
    """Warn of runs that ended well but do not give the numbers observed, for instance because they are too short."""
    reasons = list(failures(experiment, runs, store).values())
    if reasons and hopeless:
        raise StudyError(f"{experiment.name}: no run can be compared with the data: {reasons[0]}")
    if reasons:
        text = f"{len(reasons)} runs cannot be compared with the data; for instance {reasons[0]}."
        warnings.warn(f"{experiment.name}: {text}", TamisWarning, stacklevel=2)
