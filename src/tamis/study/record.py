"""The record of a study that lies beside its results, for those who read them without building it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tamis.experiment import Observation
from tamis.interfaces import documentation, references
from tamis.noise import LowRank, Sum
from tamis.results.study import (
    IdentifiedError,
    ObservationRecord,
    ParameterRecord,
    PartRecord,
    SeriesRecord,
    SimulatorRecord,
    StudyRecord,
    SurrogateRecord,
)
from tamis.study.definition import Study
from tamis.study.layout import layout
from tamis.study.parts import is_split, parts
from tamis.study.series import Series
from tamis.study.stages.table import applies, stage_hashes

_DRAWN = 3  # modes of an identified error, the largest


def record(study: Study) -> StudyRecord:
    """Return what a reader of the results must know of a study, or of the part of it that this one is."""
    surrogate = study.tables.surrogate
    correlation = study.space.correlation
    each = parts(study) if is_split(study) else ()
    return StudyRecord(
        file=study.path.name,
        title=study.title,
        seed=study.seed,
        simulator=_simulator(study),
        parameters=tuple(_parameter(study, i) for i in range(study.space.dim)),
        correlation=None if correlation is None else tuple(tuple(row) for row in correlation.tolist()),
        series=tuple(_series(study, one) for one in study.series),
        surrogate=SurrogateRecord(
            surrogate.method,
            surrogate.target,
            float(surrogate.min_q2),
            float(surrogate.enrich.q2) if surrogate.enrich else None,
        ),
        sampler=study.settings.sampler.described,
        replicates=study.tables.design.replicates,
        references=study.references,
        errors=identified(study.series),
        text=study.raw.text,
        parents=study.raw.parents,
        parts=tuple(PartRecord(part.part, part.folder.name, part.space.names) for part in each),
        part=study.part,
        hashes={stage: h for stage, h in stage_hashes(study.raw).items() if applies(study.raw, stage)},
    )


def _simulator(study: Study) -> SimulatorRecord:
    simulator = study.simulator
    quick = study.batched(study.experiments)
    told = documentation(simulator), references(simulator)
    return SimulatorRecord(simulator.name, simulator.version, *told, quick)


def _parameter(study: Study, i: int) -> ParameterRecord:
    parameter = study.space.parameters[i]
    table = study.laws[parameter.name]
    numbers = {key: float(v) for key, v in (table.model_extra or {}).items()}
    is_input = parameter.name in study.simulator.inputs
    return ParameterRecord(parameter.name, table.prior, numbers, parameter.unit, parameter.label, is_input)


def _series(study: Study, one: Series) -> SeriesRecord:
    blocks = layout([one], study.simulator)
    return SeriesRecord(
        one.name,
        one.use,
        tuple(experiment.name for experiment in one.experiments),
        tuple(ObservationRecord(block.label, block.xlabel, block.ylabel) for block in blocks),
        one.designed,
        one.where or None,
        one.part,
    )


def identified(series: Sequence[Series]) -> tuple[IdentifiedError, ...]:
    """Return the errors of all observations that were found from reference tests."""
    observed = [(one.name, o) for one in series for o in one.experiments[0].observations]
    return tuple(
        _identified(name, o, part)
        for name, o in observed
        for part in (o.noise.parts if isinstance(o.noise, Sum) else (o.noise,))
        if isinstance(part, LowRank)
    )


def _identified(series: str, observation: Observation, part: LowRank) -> IdentifiedError:
    """Return the sizes of an error, and its curves where there is an abscissa."""
    modes = sorted(np.asarray(part.modes), key=_rms, reverse=True)
    sizes = _rms(part.mean), tuple(map(_rms, modes)), _rms(np.sqrt(part.residual))
    names = series, observation.label, observation.observable.unit
    if observation.coord is None:
        return IdentifiedError(*names, *sizes, part.alpha)
    curves = np.array(
        [part.mean, *modes[:_DRAWN], np.broadcast_to(np.sqrt(part.residual), np.shape(part.mean))]
    )
    mean, *drawn, left = (tuple(curve) for curve in curves.tolist())
    x = tuple(np.asarray(observation.coord, dtype=float).tolist())
    axis, told = observation.observable.axis, tuple(getattr(observation.observable, "names", ()))
    return IdentifiedError(*names, *sizes, part.alpha, axis, x, mean, tuple(drawn), left, told)


def _rms(values: ArrayLike) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
