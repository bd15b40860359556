"""The fragility of a study: the runs of a prediction, over the posterior or the prior, held against a limit.

The draws of the parameters are those of the prediction itself, so that its runs count; each is repeated where
something is random in an event (a seed, parameters that are named so), with other random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tamis.analysis.exceedance import Split, exceedance, split
from tamis.analysis.fragility import FragilityRecord, fragility, seen
from tamis.errors import SimulationError
from tamis.inference.likelihood import places, respond
from tamis.results.records import save_records
from tamis.study.build import fault
from tamis.study.context import Context, behind, load_posterior, load_surrogate
from tamis.study.definition import Study
from tamis.study.fragilities import Asked, asked_fragility
from tamis.study.parts import IDLE, with_idle
from tamis.study.stages.prediction import SLOW, series_draws, series_worth
from tamis.types import Array

_QUICK, _SLOW = 10, 2  # repeats where a surrogate or a batch interface answers, and where each is a run


def asked(study: Study) -> Asked:
    """Return what the study asks for."""
    assert study.tables.fragility is not None
    chained = study.chain is not None
    return asked_fragility(
        fault(study), study.tables.fragility, study.simulator, study.space, study.series, drawn=chained
    )


def repeats(study: Study, found: Asked) -> int:
    """Return how often each draw of the parameters is repeated: once where there is nothing random, or no data."""
    table = study.tables.fragility
    assert table is not None
    known = bool(study.origins) or bool(study.calibrated)
    if not known or not (table.random or study.stochastic(found.series.experiments)):
        return table.repeats or 1
    return table.repeats or (_QUICK if _quick(study, found) else _SLOW)


def _quick(study: Study, found: Asked) -> bool:
    return found.series.emulate or study.batched(found.series.experiments)


def cost(study: Study, seconds: float, duration: Callable[[float], str]) -> Iterator[str]:
    """Say how many runs more the fragility asks for than the prediction it is of."""
    found = asked(study)
    if _quick(study, found):
        return
    n = (found.series.draws or SLOW) * len(found.series.experiments) * (repeats(study, found) - 1)
    told = f"{n} runs more, about {duration(n * seconds)} on one core" if n else "no more runs"
    yield f"fragility of {found.series.name}: {told} than its prediction"


def run(context: Context) -> None:
    """Leave one record: curve or surface, band, what runs show, and where the band comes from."""
    study, found = context.study, asked(context.study)
    table = study.tables.fragility
    assert table is not None
    x, names, mean, sd, worth = _answers(context, found)  # (R, J, d), (R, G, J, k)
    demand, wide = mean[..., found.demand], sd[..., found.demand]
    many = len(x)
    intensity = np.stack([found.intensity(x[r], names, mean[r]) for r in range(many)])  # (R, G, J, q)
    draw = np.broadcast_to(np.arange(demand.shape[2]), demand.shape).ravel()
    chance = exceedance(demand.ravel(), found.limit, sd=wide.ravel(), below=table.below)
    if not np.isfinite(chance).any():
        raise SimulationError(f"{found.series.name}: the simulator failed at all draws, no fragility")
    curve = fragility(
        intensity.reshape(-1, intensity.shape[-1]),
        demand.ravel(),
        found.limit,
        sd=wide.ravel(),
        below=table.below,
        cluster=draw,
        level=float(table.level),
        rng=context.rng("fragility", 1),
    )
    source = "posterior" if study.origins or study.calibrated else "prior"
    parts, levels = _split(study, found, demand, wide, source, worth)
    record = FragilityRecord(
        series=found.series.name,
        demand=found.title,
        limit=("below " if table.below else "above ") + found.words,
        intensity=tuple(one.title for one in found.intensities),
        source=source,
        emulated=found.series.emulate,
        draws=demand.shape[2],
        repeats=many,
        failed=curve.failed,
        kind=curve.kind,
        statement=curve.statement,
        median=curve.median,
        dispersion=curve.dispersion,
        median_interval=curve.median_interval,
        dispersion_interval=curve.dispersion_interval,
        level=curve.level,
        misfit=curve.misfit,
        at=curve.at,
        curve=curve.curve,
        band=curve.band,
        beside=curve.beside,
        seen=seen(intensity.reshape(-1, intensity.shape[-1]), chance),
        split=levels,
        split_band=np.empty((2, 0)) if parts is None else parts.band(float(table.level)),
    )
    save_records(study.folder / "fragility.npz", [record])


def _answers(context: Context, found: Asked) -> tuple[Array, tuple[str, ...], Array, Array, float]:
    """Return parameters (R, J, d), names, numbers observed, (R, G, J, k), their sds, and what J draws are worth."""
    study, series = context.study, found.series
    table = study.tables.fragility
    assert table is not None
    posterior, model = load_posterior(study), load_surrogate(study)
    if posterior is not None:
        posterior = with_idle(study, posterior, context.rng("prediction", IDLE))
    space = study.space if posterior is None else posterior.space
    first = series_draws(study, series, posterior, context.rng("prediction", found.number))
    rng, many = context.rng("fragility"), repeats(study, found)
    columns = [space.index(name) for name in table.random]
    points = [first]
    for _ in range(1, many):
        again = first.copy() if posterior is not None else space.sample(len(first), rng)
        again[:, columns] = first[rng.permutation(len(first))][:, columns]
        points.append(again)
    forwards, at, given = [], [], behind(study, model)
    for r, x in enumerate(points):
        mine = [forward for _, forward in context.terms(series, model, vary=True, replicate=r)]
        forwards += mine
        at += places(space, mine, x)
    answers = respond(forwards, at)
    if given is not None and series.emulate:
        each = len(series.experiments)
        answers = [
            one
            for r, x in enumerate(points)
            for one in given.informed(
                x, forwards[r * each : (r + 1) * each], answers[r * each : (r + 1) * each], space
            )
        ]
    shape = many, len(series.experiments), len(first), -1
    mean = np.stack([one.mean for one in answers]).reshape(shape)
    sd = np.sqrt(np.stack([one.total for one in answers])).reshape(shape)
    worth = math.inf if posterior is None else series_worth(study, series, posterior, len(first))
    return np.stack(points), space.names, mean, sd, worth


def _split(
    study: Study, found: Asked, demand: Array, sd: Array, source: str, worth: float
) -> tuple[Split | None, Array]:
    """Return where the height at each level comes from, (G, 5), where levels are swept and parameters are unknown."""
    swept = len(found.intensities) == 1 and found.intensities[0].swept
    table = study.tables.fragility
    assert table is not None
    if not swept or source == "prior":
        return None, np.empty((0, 5))
    random = bool(table.random) or study.stochastic(found.series.experiments)
    order = np.argsort(found.series.values, kind="stable")
    by_level = np.moveaxis(demand, 0, 2)[order], np.moveaxis(sd, 0, 2)[order]
    options: Any = {"below": table.below, "random": random, "worth": worth}
    parts = split(by_level[0], found.limit, sd=by_level[1], **options)
    level = np.array(found.series.values)[order]
    return parts, np.column_stack([level, parts.share, parts.parameters, parts.surrogate, parts.runs])
