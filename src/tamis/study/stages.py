"""The stage table: what each stage computes and leaves, brought up to date in order.

Every stage draws from ``default_rng([seed, number of the stage])`` and writes one artifact without times, so
the same study and seed give the same bytes, whatever the number of workers and however often it was
interrupted.
"""

from __future__ import annotations

import platform
import shutil
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tamis._version import __version__
from tamis.design import design
from tamis.errors import SetAside, StudyError, SurrogateError, TamisError, TamisWarning
from tamis.experiment import Experiment
from tamis.files import load_arrays, save_arrays
from tamis.results.gather import artifact_keys, gather, load_emulations, outcome, stored
from tamis.results.manifest import contents, damaged, read_manifest, write_manifest
from tamis.results.records import Emulation, Results, Worry, save_records
from tamis.results.study import save_study
from tamis.runs.campaign import check_repeatable, failures, observe
from tamis.runs.keys import run_key
from tamis.runs.pool import Executors, Workers
from tamis.runs.store import Run, RunStore
from tamis.study import emulation
from tamis.study.build import filled
from tamis.study.candidates import run_next
from tamis.study.context import Context, design_points, load_posterior, recorded
from tamis.study.definition import Study
from tamis.study.emulation import load_surrogate, terms
from tamis.study.influence import run_sensitivity
from tamis.study.loglike import run_loglike
from tamis.study.panels import series_panels
from tamis.study.parts import IDLE, is_split, parts, with_idle
from tamis.study.propagate import run_propagation
from tamis.study.reader import applies, emulates_loglike, stage_hashes, up_to_date
from tamis.study.record import record
from tamis.study.remedy import check_good_enough, remedy
from tamis.study.sampling import run_posterior
from tamis.study.table import ARTIFACTS, BESIDE, NUMBERS, PER_PART, STAGES, Stage
from tamis.types import Array, Event, Inputs, Progress, silent


def run(
    study: Study,
    upto: Stage = "report",
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
    try:
        return _run(study, upto, executor, progress or silent, retry_failed, force)
    except SetAside:
        return _run(study, upto, executor, progress or silent, retry_failed, force)


def _run(
    study: Study, upto: Stage, executor: Executors, progress: Progress, retry_failed: bool, force: bool
) -> Results:
    folder = study.results
    manifest = read_manifest(folder)
    hashes = stage_hashes(study.raw)
    current = up_to_date(study.raw, upto)
    if current.get("synthetic") is not None:
        there = current["synthetic"]
        study = filled(study, load_arrays(folder / "synthetic.npz") if there else {})
    save_study(folder, record(study))
    if upto == "next":
        current = {stage: good for stage, good in current.items() if stage not in _ASIDE}
    with RunStore(study.runs) as store, _kept(executor) as kept:
        context = Context(study, store, kept, progress, retry_failed, hashes)
        with warnings.catch_warnings(record=True) as early:
            warnings.simplefilter("always", TamisWarning)
            if current.get("runs") and _lost(store, artifact_keys([folder], "runs", "keys")):
                current["runs"] = False
            if current.get("surrogate"):
                added = artifact_keys([folder], "surrogate", "added")
                if _lost(store, added) or (retry_failed and _any_failed(store, added)):
                    _reopen(study, manifest, current, "surrogate")
        if (
            retry_failed
            and current.get("posterior")
            and _any_failed(store, artifact_keys(folders(study), "sampled", "keys"))
        ):
            _reopen(study, manifest, current, "posterior")
        for stage, is_current in current.items():
            if stage != "synthetic" and study.open:
                study = filled(study, load_arrays(folder / "synthetic.npz"))
                save_study(folder, record(study))
                context = replace(context, study=study)
            if is_current and not (retry_failed and stage == "runs"):
                continue
            if stage in _BUILT_ON and not force and applies(study.raw, "surrogate"):
                _stop_if_poor(study, manifest)
            start = time.perf_counter()
            before = _content(folder, stage)
            entry: dict[str, Any] = {"hash": hashes[stage]}
            was = damaged(folder, manifest.get("stages", {}).get(stage, {}))
            with warnings.catch_warnings(record=True) as caught, _reported(study, manifest, stage):
                warnings.simplefilter("always", TamisWarning)
                if stage == "report":
                    found = results(study, manifest)
                    write_report(found)
                    manifest |= {"result": outcome(found)}
                elif stage in PER_PART and is_split(study):
                    entry["parts"] = _each_part(context, stage, manifest)
                else:
                    recorded(context, stage, WORK[stage])
            entry["seconds"] = round(time.perf_counter() - start, 3)
            entry["warnings"] = _heard([*early, *caught] if stage == "runs" else caught) + _mended(was)
            entry["content"] = contents(folder, (*ARTIFACTS[stage], *BESIDE[stage]), entry.get("parts", {}))
            manifest = _provenance(manifest, study)
            manifest["stages"] = {**manifest.get("stages", {}), stage: entry}
            if (
                stage == "runs" and before and before != _content(folder, stage)
            ):  # runs retried, another outcome
                _reopen(study, manifest, current, "observables")
            write_manifest(study.results, manifest)
    return results(study, manifest)


@contextmanager
def _reported(study: Study, manifest: dict[str, Any], stage: Stage) -> Iterator[None]:
    """Where a stage fails after runs were made, still write the report of what there is, with the failure on top."""
    try:
        yield
    except TamisError as error:
        if stage not in _AFTER_RUNS or isinstance(error, SetAside):
            raise
        found = results(study, manifest)
        worry = Worry(f"The stage {stage} failed, and nothing after it was done: {error}", True, True)
        verdict = f"The study stopped: its {stage} failed. {found.verdict}".strip()
        write_report(replace(found, worries=(worry, *found.worries), verdict=verdict))
        error.args = (f"{error}; what there is up to then: {study.results / 'report.html'}",)
        raise


_AFTER_RUNS: tuple[Stage, ...] = STAGES[STAGES.index("surrogate") : -1]


def _mended(names: list[str]) -> list[str]:
    """Say which artifacts were made anew because they were not what had been written."""
    if not names:
        return []
    what = f"{', '.join(names)} was damaged, or changed by hand, since it was written; it was made anew."
    return [what]


_QUICK = 2.0  # seconds of a run that is made twice without asking
_ASIDE: tuple[Stage, ...] = ("sensitivity", "prediction", "propagation")  # what no next experiment needs
_BUILT_ON: tuple[Stage, ...] = PER_PART  # what stands on the surrogate


def _each_part(context: Context, stage: Stage, manifest: dict[str, Any]) -> dict[str, Any]:
    """Do a stage for every part of a split study, going on after the parts that were done when it was cut short.

    The study's own artifact of that stage lists the parts. Return each part's folder and what it warned of.
    """
    study, mine = context.study, parts(context.study)
    begun = manifest.get("begun", {})
    if begun.get("hash") != context.hashes[stage]:
        begun = {"hash": context.hashes[stage], "heard": {}}
    if stage == "posterior":
        _clear_away(study, [part.folder for part in mine])
    for i, part in enumerate(mine):
        if part.part not in begun["heard"]:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", TamisWarning)
                inside = replace(context, study=part, progress=_named(context.progress, i, mine))
                recorded(inside, stage, WORK[stage])
            begun["heard"][part.part] = _heard(caught)
        manifest["begun"] = begun
        write_manifest(study.results, manifest)
    save_arrays(study.results / ARTIFACTS[stage][0], {"folders": np.array([p.folder.name for p in mine])})
    del manifest["begun"]
    return {p.part: {"folder": p.folder.name, "warnings": begun["heard"][p.part]} for p in mine}


def _clear_away(study: Study, folders: list[Path]) -> None:
    """Remove what an earlier splitting left: parts that are called otherwise now, and the unsplit study's runs."""
    path = study.results / "posterior.npz"
    arrays = load_arrays(path) if path.is_file() else {}
    for name in map(str, arrays.get("folders", ())):
        if study.results / name not in folders:
            shutil.rmtree(study.results / name, ignore_errors=True)
    for name in ("sampled", *(f"{stage}-runs" for stage in PER_PART)):
        (study.results / f"{name}.npz").unlink(missing_ok=True)


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
    return [(folder / name).read_bytes() for name in ARTIFACTS[stage] if (folder / name).is_file()]


def _heard(caught: list[warnings.WarningMessage]) -> list[str]:
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
    entry = manifest["stages"]["surrogate"]
    least = float(study.settings.surrogate.min_q2)
    known = entry.get("remedy", {})
    if known.get("min_q2") != least:
        known = {"min_q2": least, "text": remedy(study, found)}
        entry["remedy"] = known
        write_manifest(study.results, manifest)
    return str(known["text"])


def folders(study: Study) -> list[Path]:
    """Return the folder of the results and those of the parts of a split study."""
    return list(dict.fromkeys((study.results, *(part.folder for part in parts(study)))))


def completed(
    study: Study,
    *,
    executor: Executors = 1,
    progress: Progress | None = None,
) -> Study:
    """Return a study with the numbers of its numerical experiments and nominal runs, run where they are not there."""
    if not study.open:
        return study
    run(study, "synthetic", executor=executor, progress=progress)
    return filled(study, load_arrays(study.results / "synthetic.npz"))


def run_synthetic(context: Context) -> None:
    """Run what the data of the study themselves are made of: numerical experiments, and models of reference tests."""
    study = context.study
    runs = context.evaluate([place.inputs for place in study.open])
    found = {}
    for place, run in zip(study.open, runs, strict=True):
        where = f"{study.path.name}: {place.field}"
        if run.status != "done":
            raise StudyError(f"{where}: {place.what} {run.status}: {run.error}")
        numbers = np.asarray(place.observable(context.store.outputs(run.key)), dtype=float)
        if numbers.shape != (place.size,):
            raise StudyError(f"{where}: {place.what} gives {numbers.size} numbers, {place.size} are expected")
        found[place.name] = numbers
    save_arrays(study.results / "synthetic.npz", found)


def run_design(context: Context) -> None:
    """Choose the points at which the simulator is run to see what the prior implies."""
    study = context.study
    space = study.model_space
    if space.dim == 0:
        raise StudyError(f"{study.path.name}: parameters: none of them is an input of {study.simulator.name}")
    u = _unit_points(study)
    save_arrays(
        study.results / "design.npz", {"names": np.array(space.names), "u": u, "x": space.from_unit(u)}
    )


def _unit_points(study: Study) -> Array:
    rng = np.random.default_rng([study.seed, NUMBERS["design"]])
    return design(study.settings.design, study.settings.n_design, study.model_space.dim, rng)


def design_inputs(study: Study) -> list[Inputs]:
    """Return the inputs of every run of the campaign, test by test."""
    u = _unit_points(study)
    return [point for i in range(len(study.experiments)) for point in design_points(study, u, i)]


def run_runs(context: Context) -> None:
    """Run the simulator at every design point of every test."""
    study = context.study
    asked = design_inputs(study)
    known = study.results / f"asked-{context.hashes['runs'][:12]}.npz"  # for `tamis status` meanwhile
    save_arrays(known, {"keys": np.array([run_key(study.simulator, inputs) for inputs in asked])})
    known_before = context.store.get_many(run_key(study.simulator, inputs) for inputs in asked)
    runs = context.evaluate(asked)
    _check_repeatable(context, [run for run in runs if run.key not in known_before])
    shape = (len(study.experiments), -1)
    keys = np.array([r.key for r in runs]).reshape(shape)
    status = np.array([r.status for r in runs]).reshape(shape)
    save_arrays(study.results / "runs.npz", {"keys": keys, "status": status})
    for passing in study.results.glob("asked-*.npz"):
        passing.unlink()


def _check_repeatable(context: Context, made: list[Run]) -> None:
    """Make the first and the last run once more, where that takes no time to speak of."""
    quick = [run for run in (*made[:1], *made[1:][-1:]) if run.status == "done" and run.seconds < _QUICK]
    if not quick:
        return
    settings = context.study.settings
    try:
        check_repeatable(
            context.study.simulator,
            quick,
            context.store,
            executor=context.executor,
            timeout=settings.timeout if context.executor else None,
            max_output=settings.max_output,
            memory=settings.memory if context.executor else None,
        )
    except StudyError:
        context.store.forget([run.key for run in made])  # or the next campaign would find and believe them
        raise


def run_observables(context: Context) -> None:
    """Take from every run the numbers that are compared with data."""
    study = context.study
    table = load_arrays(study.results / "runs.npz")["keys"]
    found: dict[str, Any] = {}
    for i, (experiment, keys) in enumerate(zip(study.experiments, table, strict=True)):
        runs = stored(context.store, keys)
        y, good = observe(experiment, runs, context.store)
        if not any(run.status == "done" for run in runs):
            reason, times = Counter(run.error for run in runs).most_common(1)[0]
            raise TamisError(
                f"{experiment.name}: all {len(runs)} runs of the design failed, {times} of them with: {reason}. "
                "`tamis status` shows where; once the cause is removed, --retry-failed runs them again"
            )
        found |= {f"{i}.y": y, f"{i}.good": good}
        done = [run for run, fine in zip(runs, good, strict=True) if run.status == "done" and not fine]
        _warn_unobserved(experiment, done, context.store, hopeless=not good.any())
    save_arrays(study.results / "observables.npz", found)


def _warn_unobserved(experiment: Experiment, runs: list[Run], store: RunStore, *, hopeless: bool) -> None:
    """Warn of runs that ended well but do not give the numbers observed, for instance because they are too short."""
    reasons = list(failures(experiment, runs, store).values())
    if reasons and hopeless:
        raise StudyError(f"{experiment.name}: no run can be compared with the data: {reasons[0]}")
    if reasons:
        text = f"{len(reasons)} runs cannot be compared with the data; for instance {reasons[0]}."
        warnings.warn(f"{experiment.name}: {text}", TamisWarning, stacklevel=2)


def _reopen(study: Study, manifest: dict[str, Any], current: dict[Stage, bool], first: Stage) -> None:
    """Have a stage and all after it done again, by a later run if this one is cut short.

    What a sampler has begun stood on the old outcome.
    """
    for stage in STAGES[STAGES.index(first) :]:
        manifest.get("stages", {}).pop(stage, None)
        if stage in current:
            current[stage] = False
    manifest.pop("begun", None)
    for folder in folders(study):
        for passing in (*folder.glob("checkpoint-*.npz"), *folder.glob("sampled-*.txt")):
            passing.unlink()


def _lost(store: RunStore, keys: list[str]) -> bool:
    """Say whether a run that the results stand on has gone from the store, or is damaged there."""
    return len(store.recover(keys)) < len(keys)


def _any_failed(store: RunStore, keys: list[str]) -> bool:
    return any(run.status != "done" for run in store.get_many(keys).values())


def run_prediction(context: Context) -> None:
    """Predict every test, calibrated or held out, and every condition nobody measured."""
    study = context.study
    posterior = load_posterior(study)
    if posterior is not None:
        posterior = with_idle(study, posterior, context.rng("prediction", IDLE))
    observed = _observables(study)
    model = load_surrogate(study)
    panels = []
    index = 0
    for k, series in enumerate(study.series):
        if series.use == "next":
            continue
        context.progress(Event("prediction", k, len(study.series), {"series": series.name}))
        prior: list[Array] = []
        if series.designed and observed:
            prior = [observed[f"{index + i}.y"] for i in range(len(series.experiments))]
            index += len(series.experiments)
        rng = context.rng("prediction", k)
        panels += series_panels(
            study, series, posterior, prior, terms(context, series, model, vary=True), rng
        )
    context.progress(Event("prediction", len(study.series), len(study.series)))
    save_records(study.folder / "prediction.npz", panels)


def run_surrogate(context: Context) -> None:
    """Fit the surrogate that the study asks for: of its observables, or of its log-likelihood."""
    if emulates_loglike(context.study.raw):
        run_loglike(context)
    else:
        emulation.run_surrogate(context)


WORK: dict[Stage, Callable[[Context], None]] = {
    "synthetic": run_synthetic,
    "design": run_design,
    "runs": run_runs,
    "observables": run_observables,
    "surrogate": run_surrogate,
    "sensitivity": run_sensitivity,
    "posterior": run_posterior,
    "prediction": run_prediction,
    "propagation": run_propagation,
    "next": run_next,
}


def _observables(study: Study) -> dict[str, Any]:
    designed = applies(study.raw, "observables")
    return load_arrays(study.results / "observables.npz") if designed else {}


def write_report(found: Results) -> None:
    """Write the report, and one of its own for each part of a split study."""
    from tamis.report import page

    for each in (found, *found.parts):
        page.write_report(each, each.folder / "report.html")


def _provenance(manifest: dict[str, Any], study: Study) -> dict[str, Any]:
    from importlib.metadata import version

    libraries = ("numpy", "scipy", "numba")
    return {
        **manifest,
        "tamis": __version__,
        "schema": 1,
        "study": study.path.name,
        "seed": study.seed,
        "simulator": {
            "name": study.simulator.name,
            "version": study.simulator.version,
            "what": getattr(study.simulator, "doc", "").split("\n")[0],
        },
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "libraries": {name: version(name) for name in libraries},
    }
