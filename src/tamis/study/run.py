"""Bringing a study up to date: every stage in its turn, what it left recorded in the manifest and reported."""

from __future__ import annotations

import platform
import shutil
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tamis._version import __version__
from tamis.errors import SetAside, StudyError, SurrogateError, TamisError, TamisWarning
from tamis.files import load_arrays, save_arrays
from tamis.interfaces import documentation
from tamis.results.gather import artifact_keys, gather, load_emulations, outcome
from tamis.results.manifest import contents, damaged, read_manifest, write_manifest
from tamis.results.records import Emulation, Results, Worry
from tamis.results.study import save_study
from tamis.runs.locks import released, seized
from tamis.runs.pool import Executors, Workers
from tamis.runs.store import RunStore
from tamis.study.build import build, with_numbers
from tamis.study.context import Context
from tamis.study.definition import Study
from tamis.study.events import noted
from tamis.study.parts import is_split, parts
from tamis.study.reader import Raw, hash_of
from tamis.study.record import record
from tamis.study.remedy import check_good_enough, remedy
from tamis.study.stages.report import write_report
from tamis.study.stages.table import (
    STAGES,
    Stage,
    applies,
    code_of_now,
    posterior_content,
    stage_hashes,
    up_to_date,
)
from tamis.types import Progress, silent


def run(
    study: Study,
    upto: str = "report",
    *,
    executor: Executors = 1,
    progress: Progress | None = None,
    retry_failed: bool = False,
    force: bool = False,
) -> Results:
    """Bring every stage up to ``upto`` up to date and return what there is.

    A surrogate that is too poor stops it before anything is built on it, unless forced. Where reading runs shows that
    array files are damaged, all such have been set aside, and one more time makes them anew.
    """
    with _alone(study), noted(study.results, progress or silent) as news:
        if list(STAGES).index(upto) >= list(STAGES).index("sources"):
            study = _after_sources(study, executor, news, force)
        for last_try in (False, True):
            try:
                with RunStore(study.runs) as store, _kept(executor) as kept:
                    hashes = stage_hashes(study.raw)
                    context = Context(study, store, kept, news, retry_failed, hashes)
                    manifest = read_manifest(study.results)
                    context, current, early = _prepared(context, manifest, upto)
                    for name, is_current in current.items():
                        stage = STAGES[name]
                        if name != "synthetic" and context.study.open:
                            context = _with_numbers(context)
                        if is_current and not (retry_failed and name in ("runs", "cheap")):
                            continue
                        if stage.per_part and not force and applies(study.raw, "surrogate"):
                            _stop_if_poor(context.study, manifest)
                        with _recorded(context, stage, manifest, current, early) as entry:
                            if name == "report":
                                found = results(context.study, manifest)
                                write_report(found)
                                manifest |= {"result": outcome(found)}
                            elif stage.per_part and is_split(context.study):
                                entry["parts"] = _each_part(context, stage, manifest)
                            else:
                                with context.recording(name) as inside:
                                    stage.module.run(inside)
                return results(context.study, manifest)
            except SetAside:
                if last_try:
                    raise
        raise AssertionError("the second try returns or raises")


def _after_sources(study: Study, executor: Executors, progress: Progress, force: bool) -> Study:
    """Bring the posteriors up to date that a study draws from, each in its own folder, and return the study.

    Those that are up to date are only read, whatever else goes on in their folders. A source that was built before its
    numerical experiments had been run is built again.
    """
    if not study.origins:
        return study
    for origin in study.origins:
        if _sampled(origin.study.raw):
            continue
        news = _of_source(progress, origin.name)
        try:
            run(origin.study, "posterior", executor=executor, progress=news, force=force)
        except TamisError as error:
            error.args = (f"{study.path.name}: parameters.from: {origin.name}: {error}",)
            raise
    return build(study.raw)


def _sampled(raw: Raw) -> bool:
    """Return whether a study has a posterior that is up to date, and the surrogate it stands on, if any."""
    return all(good for name, good in up_to_date(raw, "posterior").items() if name != "sensitivity")


def _of_source(progress: Progress, name: str) -> Progress:
    """Say in the news which study they are about."""
    return lambda event: progress(replace(event, task=f"{name} {event.task}"))


@contextmanager
def _alone(study: Study) -> Iterator[None]:
    """Be the only one who writes a study's results, or be refused: two runs would mix what they leave."""
    handle = None
    try:
        study.results.mkdir(parents=True, exist_ok=True)
        handle = seized(study.results)
    except BlockingIOError as error:
        raise StudyError(
            f"{study.path.name}: its results are being written by {error}; wait until it ends or stop it"
        ) from None
    except OSError:  # a folder that cannot be written: whoever has to will say so
        pass
    try:
        yield
    finally:
        if handle is not None:
            released(handle)


def _prepared(
    context: Context, manifest: dict[str, Any], upto: str
) -> tuple[Context, dict[str, bool], list[warnings.WarningMessage]]:
    """Return the context with the numbers there are, which stages are up to date, and warnings met meanwhile."""
    study = context.study
    current = up_to_date(study.raw, upto)
    there = current.get("synthetic", not study.open)
    if there == bool(study.open):  # its numbers were made, or were lost, since it was built
        study = with_numbers(study, load_arrays(study.results / "synthetic.npz") if there else {})
    save_study(study.results, record(study))
    if upto == "next":
        current = {stage: good for stage, good in current.items() if STAGES[stage].for_next}
    context = replace(context, study=study)
    return context, current, _lost_runs(context, manifest, current)


def _with_numbers(context: Context) -> Context:
    """Return the context with what the stage `synthetic` has just made."""
    study = with_numbers(context.study, load_arrays(context.study.results / "synthetic.npz"))
    save_study(study.results, record(study))
    return replace(context, study=study)


@contextmanager
def _recorded(
    context: Context,
    stage: Stage,
    manifest: dict[str, Any],
    current: dict[str, bool],
    early: list[warnings.WarningMessage],
) -> Iterator[dict[str, Any]]:
    """Write into the manifest what a stage left, how long it took and what it warned of; give its entry to fill in."""
    folder, name = context.study.results, stage.name
    before = _content(folder, stage)
    start = time.perf_counter()
    entry: dict[str, Any] = {"hash": context.hashes[name]}
    was = damaged(folder, manifest.get("stages", {}).get(name, {}))
    with warnings.catch_warnings(record=True) as caught, _reported(context.study, manifest, name):
        warnings.simplefilter("always", TamisWarning)
        yield entry
    entry["seconds"] = round(time.perf_counter() - start, 3)
    entry["warnings"] = _own_warnings([*early, *caught] if name == "runs" else caught) + _remade(was)
    entry["code"] = code_of_now(context.study.raw)
    entry["content"] = contents(folder, (*stage.artifacts, *stage.beside), entry.get("parts", {}))
    manifest |= _provenance(context.study)
    manifest["stages"] = {**manifest.get("stages", {}), name: entry}
    if name in ("runs", "cheap") and before and before != _content(folder, stage):  # another outcome
        _reopen(context.study, manifest, current, "observables" if name == "runs" else "surrogate")
    write_manifest(folder, manifest)


def _lost_runs(
    context: Context, manifest: dict[str, Any], current: dict[str, bool]
) -> list[warnings.WarningMessage]:
    """Have stages done again whose runs are gone, or are to be retried; return what was warned of meanwhile."""
    study, store, folder = context.study, context.store, context.study.results
    with warnings.catch_warnings(record=True) as early:
        warnings.simplefilter("always", TamisWarning)
        if current.get("runs") and _lost(store, artifact_keys([folder], "runs", "keys")):
            current["runs"] = False
        if current.get("surrogate"):
            added = artifact_keys([folder], "surrogate", "added")
            if _lost(store, added) or (context.retry_failed and _any_failed(store, added)):
                _reopen(study, manifest, current, "surrogate")
    sampled = artifact_keys(folders(study), "sampled", "keys") if current.get("posterior") else []
    if context.retry_failed and _any_failed(store, sampled):
        _reopen(study, manifest, current, "posterior")
    return early


@contextmanager
def _reported(study: Study, manifest: dict[str, Any], stage: str) -> Iterator[None]:
    """Where a stage fails after runs were made, still write the report of what there is, with the failure on top."""
    try:
        yield
    except TamisError as error:
        order = list(STAGES)
        after_runs = order[order.index("surrogate") : -1]
        if stage not in after_runs or isinstance(error, SetAside):
            raise
        found = results(study, manifest)
        worry = Worry(f"The stage {stage} failed, and nothing after it was done: {error}", True, True)
        verdict = f"The study stopped: its {stage} failed. {found.verdict}".strip()
        write_report(replace(found, worries=(worry, *found.worries), verdict=verdict))
        error.args = (f"{error}; what there is up to then: {study.results / 'report.html'}",)
        raise


def _remade(names: list[str]) -> list[str]:
    """Say which artifacts were made anew because they were not what had been written."""
    if not names:
        return []
    what = f"{', '.join(names)} was damaged, or changed by hand, since it was written; it was made anew."
    return [what]


def _each_part(context: Context, stage: Stage, manifest: dict[str, Any]) -> dict[str, Any]:
    """Do a stage for every part of a split study, going on after the parts that were done when it was cut short.

    The study's own artifact of that stage lists the parts. Return each part's folder and what it warned of.
    """
    study, mine = context.study, parts(context.study)
    begun = manifest.get("begun", {})
    if begun.get("hash") != context.hashes[stage.name]:
        begun = {"hash": context.hashes[stage.name], "heard": {}}
    if stage.name == "posterior":
        _clear_away(study, [part.folder for part in mine])
    for i, part in enumerate(mine):
        if part.part not in begun["heard"]:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", TamisWarning)
                inside = replace(context, study=part, progress=_named(context.progress, i, mine))
                with inside.recording(stage.name) as mine_alone:
                    stage.module.run(mine_alone)
            begun["heard"][part.part] = _own_warnings(caught)
        manifest["begun"] = begun
        write_manifest(study.results, manifest)
    save_arrays(study.results / stage.artifacts[0], {"folders": np.array([p.folder.name for p in mine])})
    del manifest["begun"]
    return {p.part: {"folder": p.folder.name, "warnings": begun["heard"][p.part]} for p in mine}


def _clear_away(study: Study, folders: list[Path]) -> None:
    """Remove what an earlier splitting left: parts that are called otherwise now, and the unsplit study's runs."""
    path = study.results / "posterior.npz"
    arrays = load_arrays(path) if path.is_file() else {}
    for name in map(str, arrays.get("folders", ())):
        if study.results / name not in folders:
            shutil.rmtree(study.results / name, ignore_errors=True)
    for name in (name for stage in STAGES.values() if stage.per_part for name in stage.beside):
        (study.results / name).unlink(missing_ok=True)


def _named(progress: Progress, i: int, among: tuple[Study, ...]) -> Progress:
    """Say in the news which part they are about."""
    which = f"{among[i].part} ({i + 1} of {len(among)})"
    return lambda event: progress(replace(event, info={**event.info, "part": which}))


def _stop_if_poor(study: Study, manifest: dict[str, Any]) -> None:
    """Write the report there is, which shows where the surrogate errs, and stop."""
    try:
        found = load_emulations(study.results, record(study))
        check_good_enough(study, found, _advice(study, manifest, found))
    except SurrogateError:
        write_report(results(study, manifest))
        raise


def _kept(executor: Executors) -> AbstractContextManager[Executors]:
    """Keep worker processes from one campaign, or one batch of a sampler, to the next."""
    return Workers(executor) if isinstance(executor, int) and executor else nullcontext(executor)


def _content(folder: Path, stage: Stage) -> list[bytes]:
    return [(folder / name).read_bytes() for name in stage.artifacts if (folder / name).is_file()]


def _own_warnings(caught: list[warnings.WarningMessage]) -> list[str]:
    """Return our own warnings for the report; let the others through."""
    shown: dict[Any, Any] = {}  # each place once, as Python would without us
    for warning in caught:
        if not issubclass(warning.category, TamisWarning):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno, registry=shown
            )
    return list(dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, TamisWarning)))


def results(study: Study, manifest: dict[str, Any] | None = None) -> Results:
    """Gather the artifacts that are up to date."""
    fresh = [stage for stage, good in up_to_date(study.raw, "report").items() if good]
    manifest = read_manifest(study.results) if manifest is None else manifest
    mine = record(study)
    if "surrogate" in fresh:
        _advice(study, manifest, load_emulations(study.results, mine))
    return gather(study.results, mine, fresh, manifest)


def _advice(study: Study, manifest: dict[str, Any], found: Sequence[Emulation]) -> str:
    """Say what will help a poor surrogate, and keep it: finding out may take running the simulator."""
    entry = manifest.get("stages", {}).get("surrogate", {})
    hashes = stage_hashes(
        study.raw
    )  # what it would cost to sample and predict without a surrogate counts too
    asked = hash_of(float(study.tables.surrogate.min_q2), hashes["posterior"], hashes["prediction"])
    known = entry.get("remedy", {})
    if known.get("of") != asked:
        known = {"of": asked, "text": remedy(study, found)}
        entry["remedy"] = known
        write_manifest(study.results, manifest)
    return str(known["text"])


def folders(study: Study) -> list[Path]:
    """Return the folder of the results and those of the parts of a split study."""
    return list(dict.fromkeys((study.results, *(part.folder for part in parts(study)))))


def completed(study: Study, *, executor: Executors = 1, progress: Progress | None = None) -> Study:
    """Return a study with the numbers of its numerical experiments and nominal runs, run where they are not there."""
    if not study.open:
        return study
    run(study, "synthetic", executor=executor, progress=progress)
    return with_numbers(study, load_arrays(study.results / "synthetic.npz"))


def _reopen(study: Study, manifest: dict[str, Any], current: dict[str, bool], first: str) -> None:
    """Have a stage and all after it done again, by a later run if this one is cut short.

    What a sampler has begun stood on the old outcome.
    """
    names = list(STAGES)
    for stage in names[names.index(first) :]:
        manifest.get("stages", {}).pop(stage, None)
        if stage in current:
            current[stage] = False
    manifest.pop("begun", None)
    for folder in folders(study):
        for passing in (*folder.glob("checkpoint-*.npz"), *folder.glob("sampled-*.txt")):
            passing.unlink()


def _lost(store: RunStore, keys: list[str]) -> bool:
    """Return whether a run that the results stand on has gone from the store, or is damaged there."""
    return len(store.recover(keys)) < len(keys)


def _any_failed(store: RunStore, keys: list[str]) -> bool:
    return any(run.status != "done" for run in store.get_many(keys).values())


@cache
def _libraries() -> dict[str, str]:
    """Return the versions of what computes; looked up once, as each look goes through all that is installed."""
    from importlib.metadata import version

    return {name: version(name) for name in ("numpy", "scipy", "numba")}


def _provenance(study: Study) -> dict[str, Any]:
    drawn = {}
    if study.chain is not None:
        each = zip(study.chain.studies, study.origins, strict=True)
        drawn = {"posteriors": {name: posterior_content(origin.study.raw) for name, origin in each}}
    return {
        **drawn,
        "tamis": __version__,
        "schema": 1,
        "study": study.path.name,
        "seed": study.seed,
        "simulator": {
            "name": study.simulator.name,
            "version": study.simulator.version,
            "what": documentation(study.simulator).split("\n")[0],
        },
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "libraries": dict(_libraries()),
    }
