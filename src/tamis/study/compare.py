"""Comparing studies of the same measurements.

Evidences weighed, predictions mixed, nested models checked against each other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tamis.analysis.prediction import Predictive, mix
from tamis.errors import StudyError
from tamis.files import replacing
from tamis.inference.compare import compare, nested_check
from tamis.inference.posterior import Posterior
from tamis.results.records import Comparison, NestedCheck, Panel, Results, Worry, save_records
from tamis.runs.pool import Executors
from tamis.space import Space
from tamis.study.build import build
from tamis.study.definition import Study
from tamis.study.parts import is_split
from tamis.study.reader import Raw, study_names
from tamis.study.run import completed, run
from tamis.study.stages.prediction import make_panel
from tamis.study.stages.table import COMPARE, comparison_folder, comparison_hash
from tamis.study.weighing import same_measurements
from tamis.types import Progress


def compare_studies(
    raws: Sequence[Raw], *, executor: Executors = 1, progress: Progress | None = None
) -> Comparison:
    """Bring every study up to date, weigh them and write the comparison's own report."""
    if len({raw.path.resolve() for raw in raws}) < max(2, len(raws)):
        raise StudyError(
            f"compare needs two or more different studies, found {', '.join(str(r.path) for r in raws)}"
        )
    stems = study_names(raws)
    studies = [build(raw) for raw in raws]
    for study in studies:
        if is_split(study):
            raise StudyError(
                f'{study.path.name}: [inference] split calibrates parts of the data alone; compare needs split = "none"'
            )
        if study.settings.sampler.method != "tmcmc":
            method = study.settings.sampler.method
            raise StudyError(
                f'{study.path.name}: [inference] method = "{method}" gives no evidence; use "tmcmc" to compare models'
            )
    studies = [completed(study, executor=executor, progress=progress) for study in studies]
    same_measurements(studies, stems)
    results = [
        run(study, executor=executor, progress=_named(stem, progress))
        for stem, study in zip(stems, studies, strict=True)
    ]
    posteriors: dict[str, Posterior] = {}
    for stem, found in zip(stems, results, strict=True):
        if found.posterior is None:
            raise StudyError(f"{stem}: has no [[experiment]] to calibrate with, so no evidence to compare")
        posteriors[stem] = found.posterior
    table = compare(posteriors)
    evidence = np.array(table.column("log evidence"))
    nested = _nested(stems, studies, list(posteriors.values()))
    rng = np.random.default_rng([studies[0].seed, COMPARE])
    panels = _mixed(results, table.column("probability"), rng)
    folder = comparison_folder(raws)
    comparison = Comparison(
        tuple(stems),
        tuple(results),
        table,
        evidence[:, None] - evidence[None, :],
        tuple(nested),
        tuple(panels),
        tuple(_worries(results, stems, nested)),
        folder,
    )
    folder.mkdir(parents=True, exist_ok=True)
    save_records(folder / "prediction.npz", panels)
    from tamis.report.compare import write_comparison

    write_comparison(comparison, folder / "report.html")
    record = {
        "hash": comparison_hash(raws),
        "columns": table.columns,
        "rows": table.rows,
        "nested": [vars(c) | ({"by_density": None} if c.agrees is None else {}) for c in nested],
        "worries": [vars(worry) for worry in comparison.worries],
    }
    with replacing(folder / "comparison.json") as stream:
        stream.write(json.dumps(record, indent=1).encode())
    return comparison


def _named(stem: str, progress: Progress | None) -> Progress | None:
    """Say in the news whose they are."""
    return progress and (lambda event: progress(replace(event, task=f"{stem} {event.task}")))


def _nested(
    stems: Sequence[str], studies: Sequence[Study], posteriors: Sequence[Posterior]
) -> list[NestedCheck]:
    found = []
    for i, inner in enumerate(studies):
        for j, outer in enumerate(studies):
            held = held_parameter(inner, outer)
            if held is None:
                continue
            name, value = held
            by_z, by_z_error, by_p, by_p_error = nested_check(posteriors[i], posteriors[j], name, value)
            agrees = None if math.isnan(by_p) else abs(by_z - by_p) <= 2 * math.hypot(by_z_error, by_p_error)
            sides = (by_z, by_z_error), (by_p, by_p_error)
            found.append(NestedCheck(stems[i], stems[j], name, value, *sides, agrees))
    return found


def held_parameter(inner: Study, outer: Study) -> tuple[str, float] | None:
    """Return the one parameter of the outer model that the inner one holds fixed, if all else is the same."""
    extra = [name for name in outer.space.names if name not in inner.space.names]
    same_code = (inner.simulator.name, inner.simulator.version) == (
        outer.simulator.name,
        outer.simulator.version,
    )
    if len(extra) != 1 or not same_code or len(inner.space.names) != len(outer.space.names) - 1:
        return None
    name = extra[0]
    if name not in inner.simulator.inputs:
        return None
    tests = [
        [e for x in study.series if x.use == "calibrate" for e in x.experiments] for study in (inner, outer)
    ]
    default = inner.fixed.get(name, inner.simulator.inputs[name].default)
    values = {e.conditions.get(name, default) for e in tests[0]}
    value = values.pop()
    others = {key: v for key, v in inner.fixed.items() if key != name}
    imposed = [{key: v for key, v in e.conditions.items() if key != name} for e in tests[0]]
    errors = [[[o.noise for o in e.observations] for e in each] for each in tests]
    alike = (
        not values
        and others == dict(outer.fixed)
        and imposed == [dict(e.conditions) for e in tests[1]]
        and errors[0] == errors[1]
        and inner.space.correlation is None
        and outer.space.correlation is None
        and _priors(outer.space.subset(inner.space.names)) == _priors(inner.space)
    )
    return (name, float(value)) if alike and isinstance(value, (int, float)) else None


def _priors(space: Space) -> list[tuple[float, ...]]:
    at = np.linspace(0.05, 0.95, 19)
    return [tuple(np.asarray(p.prior.ppf(at)).tolist()) for p in space.parameters]


def _mixed(results: Sequence[Results], weights: Sequence[float], rng: np.random.Generator) -> list[Panel]:
    """Mix the panels that all studies have, over the same abscissa and without a restriction to part of a posterior."""
    by_name = [{(p.series, p.label): p for p in found.panels or () if not p.condition} for found in results]
    mixed = []
    for key, first in by_name[0].items():
        panels = [mine.get(key) for mine in by_name]
        same = [p for p in panels if p is not None and np.array_equal(p.x, first.x)]
        if len(same) < len(results):
            continue
        parts = [Predictive(p.x, p.model, p.draws, p.error_var, p.failed, p.bias) for p in same]
        words: dict[str, Any] = {
            "series": first.series,
            "label": first.label,
            "use": first.use,
            "synthetic": first.synthetic,
            "xlabel": first.xlabel,
            "ylabel": first.ylabel,
            "share": 1.0,
            "condition": "",
            "y_sd": first.y_sd,
            "overlay": first.overlay,
            "limit": first.limit,
            "how": first.how,
            "worth": min(p.worth for p in same),
        }
        nothing = np.empty((0, len(first.x)))
        mixed.append(
            make_panel(mix(parts, weights, rng), y=first.y, white=False, signal=False, prior=nothing, **words)
        )
    return mixed


def _worries(results: Sequence[Results], stems: Sequence[str], nested: Sequence[NestedCheck]) -> list[Worry]:
    found = [
        Worry(f"{stem}: {w.text}", w.serious, w.unsound)
        for stem, each in zip(stems, results, strict=True)
        for w in each.worries
    ]
    found += _other_rankings(results, stems)
    for check in nested:
        if check.agrees is False:
            text = (
                f"{check.inner} is {check.outer} with {check.parameter} = {check.value:g}, but the evidences differ by "
                f"{check.by_evidence[0]:.2f} ± {check.by_evidence[1]:.2f} where the posterior density asks for "
                f"{check.by_density[0]:.2f} ± {check.by_density[1]:.2f}."
            )
            found.append(Worry(text, serious=True))
    return found


def _other_rankings(results: Sequence[Results], stems: Sequence[str]) -> list[Worry]:
    """Tell where published evidences put another model first."""
    ours = [
        each.posterior.log_evidence[0] if each.posterior and each.posterior.log_evidence else 0.0
        for each in results
    ]
    found = []
    for source in dict.fromkeys(r.source for each in results for r in each.study.references):
        theirs = [
            next((r.log_evidence for r in e.study.references if r.source == source), None) for e in results
        ]
        if any(value is None for value in theirs):
            continue
        first, best = int(np.argmax(np.array(theirs, dtype=float))), int(np.argmax(ours))
        if first != best:
            text = f"{source} puts {stems[first]} first, here {stems[best]} is first; see Published figures."
            found.append(Worry(text))
    return found
