"""What a study has computed so far, read from its files, judged and put into words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from tamis.errors import TamisError
from tamis.files import load_arrays
from tamis.inference.posterior import Posterior
from tamis.results.manifest import current, read_manifest
from tamis.results.records import DesignRuns, Emulation, Influence, Labelled, Results, Worry, load_records
from tamis.results.study import StudyRecord, load_study
from tamis.results.verdict import decisions, split_verdict, verdict
from tamis.results.worries import worries
from tamis.runs.store import Run, RunStore
from tamis.types import Array

_USABLE = 0.5  # of the variance explained, below which indices of a surrogate tell nothing of the simulator


def load_results(folder: Path | str) -> Results:
    """Read the results that a study's last run left in a folder, as far as they are up to date and undamaged.

    Neither the model nor the study file is needed. Where the run store is not beside the results, in ``../../runs``,
    the runs themselves are left out (``design``, ``sampled``), and a worry says so.
    """
    folder = Path(folder)
    record, manifest = load_study(folder), read_manifest(folder)
    entries = manifest.get("stages", {})
    fresh = [
        stage for stage, depends in record.hashes.items() if current(folder, entries.get(stage, {}), depends)
    ]
    return gather(folder, record, fresh, manifest)


def gather(folder: Path, record: StudyRecord, fresh: Collection[str], manifest: dict[str, Any]) -> Results:
    """Gather the artifacts of the stages that are up to date."""
    entries = {stage: manifest.get("stages", {}).get(stage, {}) for stage in fresh}
    warned = sorted(text for entry in entries.values() for text in entry.get("warnings", []))
    by_parts = {stage for stage, entry in entries.items() if "parts" in entry}
    folders = [folder, *(folder / part.folder for part in record.parts)]
    shared = _gathered(folder, record, manifest, set(fresh) - by_parts, warned, folders)
    if not record.parts:
        return shared
    each = tuple(
        _gathered(
            folder / part.folder,
            record.alone(part),
            manifest,
            by_parts,
            _warnings_of(part.name, entries.values()),
            [folder, folder / part.folder],
        )
        for part in record.parts
    )
    found = (*shared.worries, *_of_parts(each))
    said = split_verdict(each, found) if "posterior" in fresh else shared.verdict
    if any(emulation.poor for emulation in shared.emulations or ()):
        poor = Worry("The surrogate is below its threshold; the report of the whole study tells where.", True)
        each = tuple(replace(part, worries=(poor, *part.worries)) for part in each)
    return replace(shared, parts=each if "posterior" in fresh else (), worries=found, verdict=said)


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


def _warnings_of(part: str, entries: Iterable[dict[str, Any]]) -> list[str]:
    """Return what the stages of one part warned of."""
    mine = [entry.get("parts", {}).get(part, {}) for entry in entries]
    return sorted(text for each in mine for text in each.get("warnings", []))


def _of_parts(each: tuple[Results, ...]) -> list[Worry]:
    """Return the serious worries of all parts, and how many lesser ones their own reports tell."""
    told = [(part.study.part, worry) for part in each for worry in part.worries]
    found = [replace(worry, text=f"{name}: {worry.text}") for name, worry in told if worry.serious]
    lesser = len(told) - len(found)
    if lesser:
        found.append(Worry(f"{lesser} lesser worries are listed in the reports of the parts."))
    return found


def _gathered(
    folder: Path,
    record: StudyRecord,
    manifest: dict[str, Any],
    fresh: set[str],
    warned: list[str],
    folders: Sequence[Path],
) -> Results:
    """Gather what a study, or one part of it, has in its own folder; runs are those of all ``folders``."""
    known = {f.name: (f.metadata["stage"], f.metadata["kind"]) for f in fields(Results) if f.metadata}
    found: dict[str, Any] = {
        name: load_records(folder / f"{stage}.npz", kind) if stage in fresh else None
        for name, (stage, kind) in known.items()
    }
    emulations = load_emulations(folder, record) if "surrogate" in fresh else None
    if found["influences"] is not None:
        found["influences"] = doubted(record, relabelled(record, found["influences"]), emulations or ())
    sampled = "posterior" in fresh and any(s.use == "calibrate" for s in record.series)
    posterior = Posterior.load(folder / "posterior.npz", record.space) if sampled else None
    drawn = artifact_keys(folders, "sampled", "keys") if posterior else []
    others = [key for stage in fresh for key in artifact_keys(folders, f"{stage}-runs", "keys")]
    design: DesignRuns | None = None
    by_sampler: tuple[Run, ...] = ()
    by_others: tuple[Run, ...] = ()
    root = folders[0].parent.parent / "runs"
    if root.is_dir():
        with RunStore(root) as store:
            design = _design_runs(folder, record, store, fresh) if "runs" in fresh else None
            by_sampler, by_others = (tuple(store.get_many(keys).values()) for keys in (drawn, others))
    elif "runs" in fresh or drawn or others:
        warned = [
            *warned,
            "The run store is not beside these results: runs, and failures among them, are not shown.",
        ]
    remedy = manifest.get("stages", {}).get("surrogate", {}).get("remedy", {}).get("text", "")
    told = (
        design,
        by_sampler,
        by_others,
        emulations,
        posterior,
        found["panels"],
        found["propagations"],
        warned,
    )
    worry = tuple(worries(*told, record.model_space.names, remedy, found["sources"]))
    said = verdict(emulations, posterior, found["panels"], worry, found["sources"])
    mine = design, by_sampler, posterior, emulations
    return Results(record, folder, worry, said, manifest, *mine, **found, fresh=frozenset(fresh))


def load_emulations(folder: Path, record: StudyRecord) -> tuple[Emulation, ...]:
    """Read the scores of the surrogate, judged by the study's threshold and under its labels of now."""
    records = load_records(folder / "emulation.npz", Emulation)
    if record.surrogate.target != "loglike":
        records = relabelled(record, records)
    return tuple(replace(r, poor=not r.judged or not r.q2 >= record.surrogate.min_q2) for r in records)


def relabelled(record: StudyRecord, records: Sequence[Labelled]) -> tuple[Labelled, ...]:
    """Return the records of all observations under the labels of the file, which make no stage stale."""
    named = [observed for series in record.designed for observed in series.observations]
    pairs = zip(records, named, strict=True)
    return tuple(replace(found, label=observed.label, ylabel=observed.ylabel) for found, observed in pairs)


def doubted(
    record: StudyRecord, influences: tuple[Influence, ...], emulations: Sequence[Emulation]
) -> tuple[Influence, ...]:
    """Leave out the Sobol indices of a surrogate that explains less than half of the variance, and doubt poor ones.

    They are the surrogate's own, to as many digits as one likes; what the simulator was asked for itself stays.
    """
    scores = {(e.series, e.label): e for e in emulations if e.poor}
    answer = []
    for one in influences:
        e = scores.get((one.series, one.label))
        if e is None or one.source.startswith("simulator"):
            answer.append(one)
            continue
        name = f"{one.series}, {one.label}"
        if e.judged and e.q2 >= _USABLE:
            text = f"Sobol indices of {name} are rough: those of a surrogate that explains {e.q2:.2f} of the variance."
            answer.append(replace(one, doubt=text))
            continue
        fault = (
            f"is no better than the mean of the runs (Q2 {e.q2:.2f})"
            if e.q2 <= 0
            else f"has a Q2 of {e.q2:.2f}"
        )
        text = f"Sobol indices of {name} are left out: the surrogate {fault if e.judged else 'cannot be judged'}."
        m = len(one.x)
        left_out: dict[str, Any] = dict.fromkeys(("first", "total", "shares"), np.empty((0, m)))
        left_out |= dict.fromkeys(("first_band", "total_band"), np.empty((2, 0, m)))
        if not record.simulator.batched:
            left_out |= dict.fromkeys(("sampled_first", "sampled_total"), np.empty((0, m)))
        answer.append(replace(one, doubt=text, subsets=(), **left_out))
    return tuple(answer)


def _design_runs(folder: Path, record: StudyRecord, store: RunStore, fresh: Collection[str]) -> DesignRuns:
    arrays = load_arrays(folder / "design.npz")
    keys = load_arrays(folder / "runs.npz")["keys"]
    x = np.repeat(arrays["x"], record.replicates, axis=0)
    found: dict[str, Any] = {}
    if "surrogate" in fresh:
        found = load_arrays(folder / "surrogate.npz")
        u = found["runs.u" if record.surrogate.target == "loglike" else "u"]
        keys = np.hstack([keys, found["added"]])
        each = keys.shape[1] // len(u)  # runs a row: several where a statistic was taken over replicates
        x = np.repeat(record.model_space.from_unit(u), each, axis=0)
    runs = tuple(tuple(stored(store, row)) for row in keys)
    tests = tuple(name for series in record.designed for name in series.experiments)
    below: dict[str, Any] = load_arrays(folder / "cheap.npz") if "cheap" in fresh else {"names": ()}
    cheaper = []
    for k, name in enumerate(map(str, below["names"])):
        every = [*below[f"{k}.keys"].ravel(), *np.ravel(found.get(f"added.{k}", ()))]
        cheaper.append((name, tuple(store.get_many(map(str, every)).values())))
    return DesignRuns(tuple(map(str, arrays["names"])), x, tests, runs, tuple(cheaper))


def artifact_keys(folders: Iterable[Path], artifact: str, name: str) -> list[str]:
    """Return the keys of runs that an artifact of these folders stands on; none where it is not there."""
    found = [folder / f"{artifact}.npz" for folder in folders]
    keys = (key for path in found if path.is_file() for key in load_arrays(path)[name].ravel())
    return list(dict.fromkeys(map(str, keys)))


def stored(store: RunStore, keys: Array) -> list[Run]:
    """Return the runs of these keys, all of which must be there."""
    runs = store.get_many([str(key) for key in keys])
    missing = [str(key) for key in keys if str(key) not in runs]
    if missing:
        raise TamisError(f"run {missing[0][:12]} is no longer in {store.root}; `tamis run` runs it again")
    return [runs[str(key)] for key in keys]
