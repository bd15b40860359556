"""What a study has computed so far, read from its files, judged and put into words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tamis.errors import TamisError
from tamis.files import load_arrays
from tamis.noise import LowRank, Sum
from tamis.runs.store import Run, RunStore
from tamis.study.artifacts import (
    Candidate,
    DesignRuns,
    IdentifiedError,
    Panel,
    Propagation,
    Record,
    Results,
    Worry,
    load_records,
)
from tamis.study.build import Study
from tamis.study.checks import worries
from tamis.study.context import load_posterior
from tamis.study.emulation import load_emulations, load_runs
from tamis.study.influence import doubted, load_influences
from tamis.study.manifest import Stage, read_manifest
from tamis.study.parts import is_split, parts
from tamis.study.reader import up_to_date
from tamis.study.remedy import remedy
from tamis.study.series import Series
from tamis.study.verdict import decisions, split_verdict, verdict
from tamis.types import Array

PER_PART: tuple[Stage, ...] = ("posterior", "prediction", "propagation", "next")  # what parts do alone


def outcome(found: Results) -> dict[str, Any]:
    """Return what a run says when it ends, as plain words and numbers."""
    evidence = found.posterior.log_evidence if found.posterior else None
    scored = found.emulations or ()
    return {
        "verdict": found.verdict,
        "log_evidence": evidence,
        "q2": min((e.q2 for e in scored), default=None) if all(e.judged for e in scored) else None,
        "decisions": [
            {**({"part": each.study.part} if each.study.part else {}), **decision.record()}
            for each in (found, *found.parts)
            for decision in decisions(each.panels or ())
        ],
        "worries": [vars(worry) for worry in found.worries],
    }


def results(study: Study, manifest: dict[str, Any] | None = None) -> Results:
    """Gather the artifacts that are up to date."""
    current = up_to_date(study.raw, "report")
    manifest = read_manifest(study.results) if manifest is None else manifest
    fresh = {stage for stage, good in current.items() if good}
    entries = [manifest.get("stages", {}).get(stage, {}) for stage in fresh]
    heard = sorted(text for entry in entries for text in entry.get("warnings", []))
    if not is_split(study):
        return _gathered(study, manifest, fresh, heard)
    shared = _gathered(study, manifest, fresh - set(PER_PART), heard)
    each = tuple(
        _gathered(part, manifest, fresh & set(PER_PART), _heard_in(part.part, entries))
        for part in parts(study)
    )
    found = (*shared.worries, *_of_parts(each))
    said = split_verdict(each, found) if "posterior" in fresh else shared.verdict
    if any(emulation.poor for emulation in shared.emulations or ()):
        poor = Worry("The surrogate is below its threshold; the report of the whole study tells where.", True)
        each = tuple(replace(part, worries=(poor, *part.worries)) for part in each)
    return replace(shared, parts=each if "posterior" in fresh else (), worries=found, verdict=said)


def _heard_in(part: str, entries: list[dict[str, Any]]) -> list[str]:
    """Return what the stages of one part warned of."""
    mine = [entry.get("parts", {}).get(part, {}) for entry in entries]
    return sorted(text for each in mine for text in each.get("warnings", []))


def _of_parts(each: tuple[Results, ...]) -> list[Worry]:
    """Return the serious worries of all parts, and how many lesser ones their own reports tell."""
    told = [(part.study.part, worry) for part in each for worry in part.worries]
    found = [replace(worry, text=f"{name}: {worry.text}") for name, worry in told if worry.serious]
    lesser = len(told) - len(found)
    if lesser:
        found.append(Worry(f"{lesser} lesser worries are told in the reports of the parts."))
    return found


def _gathered(study: Study, manifest: dict[str, Any], fresh: set[Stage], heard: list[str]) -> Results:
    """Gather the artifacts of some stages."""
    found_design = _design_runs(study, "surrogate" in fresh) if "runs" in fresh else None
    emulations = load_emulations(study) if "surrogate" in fresh else None
    influences = load_influences(study) if "sensitivity" in fresh else None
    if influences and emulations:
        influences = doubted(study, influences, emulations)
    posterior = load_posterior(study) if "posterior" in fresh else None
    panels = _loaded(study, "prediction", Panel) if "prediction" in fresh else None
    propagations = _loaded(study, "propagation", Propagation) if "propagation" in fresh else None
    candidates = _loaded(study, "next", Candidate) if "next" in fresh else None
    with RunStore(study.runs) as store:
        sampled = _sampled(study, store) if posterior else ()
        others = [key for stage in fresh for key in artifact_keys(study, f"{stage}-runs", "keys")]
        asked = tuple(store.get_many(others).values())
    told = (found_design, sampled, asked, emulations, posterior, panels, propagations, heard)
    found = tuple(worries(*told, study.model_space.names, remedy(study, emulations or ())))
    return Results(
        study,
        study.folder,
        found_design,
        sampled,
        emulations,
        influences,
        posterior,
        panels,
        propagations,
        candidates,
        found,
        verdict(emulations, posterior, panels, found),
        manifest,
        errors=identified(study.series),
    )


def identified(series: Sequence[Series]) -> tuple[IdentifiedError, ...]:
    """Return the errors of all observations that were found from reference tests."""
    found = []
    for one in series:
        for observation in one.experiments[0].observations:
            noise = observation.noise
            for part in noise.parts if isinstance(noise, Sum) else (noise,):
                if isinstance(part, LowRank):
                    modes = sorted((_rms(mode) for mode in np.asarray(part.modes)), reverse=True)
                    sizes = _rms(part.mean), tuple(modes), _rms(np.sqrt(part.residual))
                    unit = observation.observable.unit
                    found.append(IdentifiedError(one.name, observation.label, unit, *sizes))
    return tuple(found)


def _rms(values: ArrayLike) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _loaded(study: Study, name: str, kind: type[Record]) -> tuple[Record, ...]:
    return load_records(study.folder / f"{name}.npz", kind)


def _design_runs(study: Study, enriched: bool) -> DesignRuns:
    arrays = load_arrays(study.results / "design.npz")
    keys = load_arrays(study.results / "runs.npz")["keys"]
    x = np.repeat(arrays["x"], study.settings.replicates, axis=0)
    if enriched:
        added = load_arrays(study.results / "surrogate.npz")["added"]
        x, keys = study.model_space.from_unit(load_runs(study).u), np.hstack([keys, added])
    with RunStore(study.runs) as store:
        runs = tuple(tuple(stored(store, row)) for row in keys)
    return DesignRuns(tuple(map(str, arrays["names"])), x, tuple(e.name for e in study.experiments), runs)


def _sampled(study: Study, store: RunStore) -> tuple[Run, ...]:
    """Return the runs that sampling asked for, none where the simulator has a batch door or a surrogate."""
    return tuple(store.get_many(artifact_keys(study, "sampled", "keys")).values())


def artifact_keys(study: Study, artifact: str, name: str) -> list[str]:
    """Return the keys of runs that an artifact stands on, that of every part; none where it is not there."""
    folders = dict.fromkeys((study.results, *(part.folder for part in parts(study))))
    found = [folder / f"{artifact}.npz" for folder in folders]
    keys = (key for path in found if path.is_file() for key in load_arrays(path)[name].ravel())
    return list(dict.fromkeys(map(str, keys)))


def stored(store: RunStore, keys: Array) -> list[Run]:
    """Return the runs of some keys, all of which must be there."""
    runs = store.get_many([str(key) for key in keys])
    missing = [str(key) for key in keys if str(key) not in runs]
    if missing:
        raise TamisError(f"run {missing[0][:12]} is no longer in {store.root}; `tamis run` runs it again")
    return [runs[str(key)] for key in keys]
