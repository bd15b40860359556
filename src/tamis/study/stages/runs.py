"""The campaign: the simulator run at every point of the design, for every test."""

from __future__ import annotations

import numpy as np

from tamis.errors import StudyError
from tamis.files import save_arrays
from tamis.runs.campaign import check_repeatable
from tamis.runs.keys import run_key
from tamis.runs.store import Run
from tamis.study.context import Context
from tamis.study.keeping import adopt
from tamis.study.stages.design import design_inputs

_QUICK = 2.0  # seconds of a run that is made twice without asking


def run(context: Context) -> None:
    """Run the simulator at every design point of every test."""
    study = context.study
    asked = design_inputs(study)
    known = study.results / f"asked-{context.hashes['runs'][:12]}.npz"  # for `tamis status` meanwhile
    save_arrays(known, {"keys": np.array([run_key(study.simulator, inputs) for inputs in asked])})
    adopt(study.simulator, asked, context.store)
    known_before = context.store.get_many(run_key(study.simulator, inputs) for inputs in asked)
    runs = context.evaluate(asked)
    _check_repeatable(context, [run for run in runs if run.key not in known_before])
    shape = (len(study.experiments), -1)
    keys = np.array([r.key for r in runs]).reshape(shape)
    status = np.array([r.status for r in runs]).reshape(shape)
    save_arrays(study.results / "runs.npz", {"keys": keys, "status": status})
    for passing in study.results.glob("asked-*.npz"):
        passing.unlink()


def _check_repeatable(context: Context, made: list[Run]) -> None:
    """Make the first and the last run once more, where that takes no time to speak of."""
    quick = [run for run in (*made[:1], *made[1:][-1:]) if run.status == "done" and run.seconds < _QUICK]
    if not quick:
        return
    settings = context.study.settings
    try:
        check_repeatable(
            context.study.simulator,
            quick,
            context.store,
            executor=context.executor,
            timeout=settings.timeout if context.executor else None,
            max_output=settings.max_output,
            memory=settings.memory if context.executor else None,
        )
    except StudyError:
        context.store.forget([run.key for run in made])  # or the next campaign would find and believe them
        raise
