"""One run to look at: a test or prediction replayed at the best point that is known, for the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tamis.errors import SimulationError, nearest
from tamis.replays import Replay
from tamis.results.records import Replayed, Source, load_records, save_records
from tamis.runs.pool import Workers
from tamis.runs.replaying import to_look_at
from tamis.study.build import fault
from tamis.study.context import Context, load_posterior
from tamis.study.definition import Study
from tamis.study.origins import best_points
from tamis.study.replayed import asked_replay
from tamis.study.series import Series
from tamis.types import Array

_MOST = 60  # instants that are kept: enough for a motion, and few enough for a page


def shown(study: Study) -> tuple[Series, int]:
    """Return the series that is replayed, and which of its experiments."""
    assert study.tables.replay is not None
    return asked_replay(fault(study), study.tables.replay, study.simulator, study.series)


def cost(study: Study, seconds: float, duration: Callable[[float], str]) -> Iterator[str]:
    """Say that a run is made to look at."""
    yield f"replay of {shown(study)[0].name}: one run more, about {duration(seconds)}"


def run(context: Context) -> None:
    """Leave one record: the replay, thinned, or why there is none."""
    study = context.study
    table = study.tables.replay
    assert table is not None
    series, i = shown(study)
    point, source = _point(study)
    row = point[[study.space.index(name) for name in study.model_space.names]]
    inputs = study.query(series.experiments[i]).inputs(row)
    seen, failed = np.zeros(0, dtype=np.uint8), ""
    try:
        with Workers(1) as workers:
            replay = to_look_at(study.simulator, inputs, workers, study.settings.timeout)
        known = [key.partition(" [")[0] for key in replay.fields]
        if table.field is not None and table.field not in known:
            raise fault(study)(
                "replay.field", f'the replay has no "{table.field}"{nearest(table.field, known)}'
            )
        groups = sorted({shape.group for shape in replay.shapes if shape.kind != "halfspace"})
        for group in table.through:
            if group not in groups:
                raise fault(study)(
                    "replay.through", f'the replay has no group "{group}"{nearest(group, groups)}'
                )
        if set(groups) <= set(table.through):
            raise fault(study)("replay.through", "are all groups of the replay; leave one to look at")
        seen = np.frombuffer(_thinned(replay).to_bytes(), dtype=np.uint8)
    except SimulationError as error:
        failed = str(error)
    ports = study.simulator.inputs
    asked = {
        **series.experiments[i].conditions,
        **dict(zip(study.model_space.names, row.tolist(), strict=True)),
    }
    given = tuple(
        (name, f"{value:.4g}" if isinstance(value, float) else str(value), ports[name].unit)
        for name, value in asked.items()
    )
    record = Replayed(series.name, source, given, table.field or "", failed, seen, tuple(table.through))
    save_records(study.folder / "replay.npz", [record])


def _point(study: Study) -> tuple[Array, str]:
    """Return the point of highest posterior density, or the prior's medians, and what it is called."""
    if study.origins:
        names, points = best_points(study, load_records(study.folder / "sources.npz", Source))
        return points[0], f"the best point of {names[0]}"
    posterior = load_posterior(study)
    if posterior is None:
        return study.space.from_unit(np.full((1, study.space.dim), 0.5))[0], "the medians of the prior"
    return posterior.best()[: study.space.dim], "the point of highest posterior density"


def _thinned(replay: Replay) -> Replay:
    """Return some instants of a replay, evenly spaced in time, the first and the last among them."""
    times = replay.times
    wanted = np.linspace(times[0], times[-1], _MOST)
    kept = np.unique([int(np.argmin(np.abs(times - t))) for t in wanted])
    fields = {name: values[kept] for name, values in replay.fields.items()}
    return Replay(replay.shapes, times[kept], replay.poses[kept], fields, replay.enlarged)
