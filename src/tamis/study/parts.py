"""The parts of a split study: each group of data calibrated alone, on the same runs and the same surrogate.

A part is a study like any other, whose data of other parts are held out: it is sampled, predicts them, and is reported
by the same code. What it leaves lies in a folder of its own below the study's; runs, observables, surrogate and
sensitivity are the study's and are read from there. An error's size that only other parts can tell is no unknown of
this one: its posterior is its prior, from which predictions of those parts draw.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from tamis.inference.posterior import Posterior
from tamis.space import Space
from tamis.study.definition import Study
from tamis.types import Generator

IDLE = 2**31  # number of the generator that draws idle parameters: more than there are series
_TAKEN = ("figures", "tables")  # folders of the report


def parts(study: Study) -> tuple[Study, ...]:
    """Return the studies that are sampled: one for each part of the data, or the study itself."""
    names = list(dict.fromkeys(series.part for series in study.series if series.part))
    folders = _folders(names)
    return tuple(_alone(study, name, folders[name]) for name in names) or (study,)


def is_split(study: Study) -> bool:
    """Return whether each part of the data is calibrated alone."""
    return any(series.part for series in study.series)


def _alone(study: Study, name: str, folder: str) -> Study:
    series = tuple(
        replace(one, part="", use="validate" if one.part not in ("", name) else one.use)
        for one in study.series
    )
    told = {
        parameter
        for one in series
        if one.use == "calibrate"
        for experiment in one.experiments
        for observation in experiment.observations
        for parameter in observation.noise.reads
    }
    known = [p for p in study.space.names if p in study.simulator.inputs or p in told or _tied(study, p)]
    idle = [p for p in study.space.names if p not in known]
    return replace(
        study,
        title=f"{study.title}: {name}",
        series=series,
        space=study.space.subset(known),
        idle=study.space.subset(idle) if idle else None,
        part=name,
        folder=study.results / folder,
        references=(),
    )


def _tied(study: Study, name: str) -> bool:
    """Return whether the prior correlates a parameter with others, so that it learns from them."""
    matrix, i = study.space.correlation, study.space.index(name)
    return matrix is not None and int(np.count_nonzero(matrix[i])) > 1


def _folders(names: list[str]) -> dict[str, str]:
    """Return a folder's name for each part: its letters and digits, numbered where they would be the same."""
    found: dict[str, str] = {}
    for i, name in enumerate(names):
        plain = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "part"
        taken = plain in found.values() or plain in _TAKEN
        found[name] = f"{plain}-{i + 1}" if taken else plain
    return found


def with_idle(study: Study, posterior: Posterior, rng: Generator) -> Posterior:
    """Add to the draws those of the parameters that this part of the data cannot tell, from their prior."""
    if study.idle is None:
        return posterior
    chains, draws, _ = posterior.x.shape
    more = study.idle.sample(chains * draws, rng).reshape(chains, draws, -1)
    known, d = posterior.space, posterior.space.dim
    correlation = None
    if known.correlation is not None:  # what is idle is tied to nothing
        correlation = np.eye(d + study.idle.dim)
        correlation[:d, :d] = known.correlation
    space = Space((*known.parameters, *study.idle.parameters), correlation)
    return replace(posterior, space=space, x=np.concatenate([posterior.x, more], axis=2))
