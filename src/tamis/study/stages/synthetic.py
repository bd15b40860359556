"""What the data of a study themselves need of the simulator: numerical experiments, models of reference tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tamis.errors import StudyError
from tamis.files import save_arrays
from tamis.interfaces import whole_of
from tamis.study.context import Context
from tamis.study.definition import Study
from tamis.types import Array


def run(context: Context) -> None:
    """Run what the data of the study themselves are made of: numerical experiments, and models of reference tests."""
    save_arrays(context.study.results / "synthetic.npz", numbers(context))


def cost(study: Study, seconds: float, duration: Callable[[float], str]) -> Iterator[str]:
    """Say how many runs the data wait for."""
    if study.open:
        n = len(study.open)
        yield f"data: {n} runs of their own first, about {duration(n * seconds)} on one core"


def numbers(context: Context) -> dict[str, Array]:
    """Return the numbers that the data wait for, by their places."""
    study = context.study
    whole = whole_of(study.simulator)
    runs = context.asking().runs(whole, [place.inputs for place in study.open], context.progress)
    found = {}
    for place, run in zip(study.open, runs, strict=True):
        where = f"{study.path.name}: {place.field}"
        if run.status != "done":
            raise StudyError(f"{where}: {place.what} {run.status}: {run.error}")
        observed = np.asarray(place.observable(context.store.outputs(run.key)), dtype=float)
        if observed.shape != (place.size,):
            raise StudyError(
                f"{where}: {place.what} gives {observed.size} numbers, {place.size} are expected"
            )
        found[place.name] = observed
    return found
