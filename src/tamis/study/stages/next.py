"""The experiments that might be done next, ranked by what each is expected to teach."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from tamis.inference.information import expected_gain
from tamis.results.records import Candidate, save_records
from tamis.study.context import Context, behind, load_posterior, load_surrogate
from tamis.study.definition import Study
from tamis.study.layout import titled
from tamis.study.parts import IDLE, with_idle
from tamis.study.series import Series
from tamis.study.stages.prediction import by_runs
from tamis.types import Event, Value

_QUICK, _SLOW = (
    2000,
    200,
)  # draws where a batch interface or a surrogate answers, and where every draw is a run
_LONG = 500  # draws of correlated errors or of emulated signals, whose densities are expensive
_SIGNAL = 20  # numbers of an observation above which its surrogate's error runs along modes


def run(context: Context) -> None:
    """Leave one record for each possible experiment, in the order of the file."""
    study = context.study
    posterior = load_posterior(study)
    assert posterior is not None
    posterior = with_idle(study, posterior, context.rng("next", IDLE))
    model = load_surrogate(study)
    given = behind(study, model)
    asked = [(series, i) for series in candidates(study) for i in range(len(series.experiments))]
    records = []
    for k, (series, i) in enumerate(asked):
        context.progress(Event("next", k, len(asked), {"candidate": described(study, series, i)}))
        mine = context.terms(series, model, vary=True)[i]
        # the same generator for all: common draws and errors, so that differences are known better than gains
        found = expected_gain(posterior, [mine], n=draws(study, series), rng=context.rng("next"), given=given)
        along = study.simulator.inputs[series.along] if series.along else None
        records.append(
            Candidate(
                name=series.name,
                label=described(study, series, i),
                xlabel=titled(series.along, along.unit) if along else "",
                x=series.values[i] if along else math.nan,
                gain=found.gain,
                error=found.error,
                failed=found.failed,
                narrowing=found.narrowing[: study.space.dim],
                at_least=found.at_least,
            )
        )
    context.progress(Event("next", len(asked), len(asked)))
    save_records(study.folder / "next.npz", records)


def cost(study: Study, seconds: float, duration: Callable[[float], str]) -> Iterator[str]:
    """Say how many runs the ranking asks for."""
    for series, _ in by_runs(study, "next"):
        n = draws(study, series) * len(series.experiments)
        yield f"next experiments of {series.name}: {n} runs, about {duration(n * seconds)} on one core"


def candidates(study: Study) -> list[Series]:
    """Return the series of possible experiments."""
    return [series for series in study.series if series.use == "next"]


def draws(study: Study, series: Series) -> int:
    """Return how many draws a candidate is judged by: as many as the simulator's speed allows."""
    quick = series.emulate or study.batched(series.experiments)
    observed = series.experiments[0].observations
    expensive = any(not o.noise.white or (series.emulate and o.size > _SIGNAL) for o in observed)
    return series.draws or (_SLOW if not quick else _LONG if expensive else _QUICK)


def described(study: Study, series: Series, i: int) -> str:
    """Say a candidate's conditions in words."""
    conditions = series.experiments[i].conditions
    shown = {series.along: conditions[series.along]} if series.along else conditions
    words = [_condition(study, name, value) for name, value in shown.items()]
    return ", ".join(words) or series.name


def _condition(study: Study, name: str, value: Value) -> str:
    unit = study.simulator.inputs[name].unit
    text = f"{value:g}" if isinstance(value, float | int) else str(value)
    return f"{name} = {text} {unit}".strip()
