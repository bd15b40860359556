"""What a study will do and cost before it runs, and where it stands while it does.

`tamis status` is asked often, also of large campaigns, so it builds the study only where it must, and what
that needs is imported inside functions.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tamis.cli import terminal
from tamis.cli.terminal import say, table
from tamis.contract import check_simulator
from tamis.errors import SimulationError, StudyError
from tamis.experiment import Experiment, WrongCount
from tamis.files import load_arrays
from tamis.interfaces import check_present, estimated, whole_of
from tamis.quantities import duration, size
from tamis.results.manifest import read_manifest
from tamis.runs.keys import read_keys, run_key
from tamis.runs.provenance import built_in, changes, code_warning, outdated
from tamis.runs.segments import SMALL, padded
from tamis.runs.store import Run, RunStore, failure_groups, paths
from tamis.simulation import explained
from tamis.study.events import under_way
from tamis.study.reader import Raw, read
from tamis.study.stages.table import STAGES, Facts, posterior_content, reasons, stage_hashes, up_to_date
from tamis.types import Array, Inputs, Outputs, Value, silent

if TYPE_CHECKING:
    from tamis.marginals import Marginal
    from tamis.study.definition import Fidelity, Study
    from tamis.study.series import Series

_GROUPS = 5  # kinds of failure that are shown
_DEPTH = 4  # levels of folders in which studies are looked for
_RECORD = 1500  # bytes of a run's record and of its row in the index
_BLOCK = 4096  # in which disks count
_FEW = 5000  # runs whose keys are made to find equal ones, where there is no store to look them up in
_WAITED = 8  # runs that data wait for, made aside for a plan
_PATIENCE = 20.0  # seconds, for asking a simulator whether it keeps its contract
_TOO_LONG = 30.0  # seconds of a run that is foreseen, not made to be timed


def print_plan(path: Path) -> int:
    """Validate a study, run one point, time it, and say what the whole will take."""
    from tamis.study.build import build

    raw = read(path)
    study = _with_numbers(build(raw))
    say(f"{raw.path.name}: {study.title}")
    if study.origins:
        drawn = [
            (p.name, p.unit, _role(study, p.name), _drawn(study, p.name)) for p in study.space.parameters
        ]
        table(("parameter", "unit", "role", "drawn from"), drawn)
    else:
        roles = [(p.name, p.unit, _role(study, p.name), *_range(p.prior)) for p in study.space.parameters]
        table(("parameter", "unit", "role", "5 % of prior", "95 %"), roles)
    tests = [(s.name, s.use, len(s.experiments), _numbers(s)) for s in study.series]
    table(("series", "use", "conditions", "numbers observed"), tests)
    for origin in study.origins:
        if posterior_content(origin.study.raw):
            say(f"{origin.name}: its posterior is up to date")
        else:
            say(f"{origin.name}: its posterior is made first")
            with terminal.told_plainly():
                _print_costs(_with_numbers(origin.study), "posterior", indent="  ")
    with terminal.told_plainly():
        _print_costs(study, "report")
    _print_states(raw)
    return 0


def _print_costs(study: Study, upto: str, indent: str = "") -> None:
    """Run one point, and say what the stages up to one will take."""
    from tamis.study.stages.design import design_inputs

    def say(text: str) -> None:
        terminal.say(f"{indent}{text}")

    facts = Facts(study.raw)
    long = _foreseen(study)
    seconds, each, otherwise = (long, 0, 0) if long else _one_point(study)
    asked = design_inputs(study) if facts.designed else []
    keys: set[str] = set()
    if len(asked) <= _FEW or study.runs.exists():
        keys = {run_key(study.simulator, inputs) for inputs in asked}
    n = len(keys or {tuple(sorted(inputs.items())) for inputs in asked})
    other = "observed" if whole_of(study.simulator) is study.simulator else "all"
    less = f' ({size(otherwise)} with [model] keep = "{other}")' if otherwise != each else ""
    if long:
        say(
            f"one run would take about {duration(seconds)}, by a short stretch of it; what it leaves is not known"
        )
    else:
        say(f"one run takes {duration(seconds)} and leaves {size(each)}{less}")
    if n:
        stored = "" if long else f", {size(n * each)} stored"
        say(f"design: {n} runs, about {duration(n * seconds)} on one core{stored}")
        if keys:
            _print_stored(study, keys, say)
    for level in study.cheap if facts.emulated else ():
        each_takes = _one_cheap(study, level)
        n = level.n * study.tables.design.replicates * len(study.experiments)
        share = f"{each_takes / seconds:.2g} of an expensive one"
        say(
            f"cheaper {level.name}: {n} runs of {duration(each_takes)} ({share}), about {duration(n * each_takes)}"
        )
    for stage in islice(STAGES.values(), list(STAGES).index(upto) + 1):
        if stage.applies(facts) and hasattr(stage.module, "cost"):
            for line in stage.module.cost(study, seconds, duration):
                say(line)


def _one_cheap(study: Study, level: Fidelity) -> float:
    """Return how long a run of a cheaper simulator takes, in the middle of the prior."""
    from tamis.study.stages.design import level_inputs

    inputs = level_inputs(study, level, np.full((1, study.model_space.dim), 0.5))[0]
    with tempfile.TemporaryDirectory() as scratch:
        try:
            with explained(level.simulator):
                outputs = level.simulator.run(inputs, Path(scratch))
                start = time.perf_counter()
                whole_of(level.simulator).run(inputs, Path(scratch))
                seconds = time.perf_counter() - start
        except SimulationError as error:
            raise StudyError(f"the cheaper {level.name} fails in the middle of the prior: {error}") from error
    _check_observed(level.series[0].experiments[0], outputs)
    return seconds


def _with_numbers(study: Study) -> Study:
    """Return the study with the numbers of its numerical experiments, run aside where they are not there yet.

    Where dozens are waited for (reference tests with their own files), a plan does without.
    """
    from tamis.study.build import with_numbers
    from tamis.study.context import Context
    from tamis.study.stages.synthetic import numbers

    if not study.open or len(study.open) > _WAITED:
        return study
    with tempfile.TemporaryDirectory() as scratch, RunStore(Path(scratch)) as store:
        return with_numbers(study, numbers(Context(study, store, 1, silent, False, {})))


def _drawn(study: Study, name: str) -> str:
    """Say which studies sampled a parameter, and at which number others held it."""
    each = [f"{o.name} ({o.held[name]:g})" if name in o.held else o.name for o in study.origins]
    return ", ".join(each)


def _print_stored(study: Study, keys: set[str], say: Callable[[str], None]) -> None:
    """Say how many runs of the design are there already, and why the others have to be made."""
    with RunStore(study.runs) as store:
        have = store.get_many(keys)
    old = outdated(study.simulator, have.values()) if built_in(study.simulator) else []
    said = f"{len(have) - len(old)} of them are in the store"
    if len(have) == len(old) and (edited := changes(study.runs, study.simulator)):
        said += f"; the others are made anew because {_listed(edited)} changed since the last runs"
    if have or old or "because" in said:
        say(said)
    if warning := code_warning(have.values(), study.simulator):
        say(warning)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more files" if len(names) > 4 else "")
    return f"{shown} {'has' if len(names) == 1 else 'have'}"


def _role(study: Study, name: str) -> str:
    return "input of the simulator" if name in study.simulator.inputs else "error model"


def _range(prior: Marginal) -> tuple[float, float]:
    low, high = prior.ppf(np.array([0.05, 0.95]))
    return float(low), float(high)


def _numbers(series: Series) -> int:
    return sum(o.size for e in series.experiments for o in e.observations)


def _middle(study: Study) -> tuple[Experiment, Array, Inputs]:
    """Return the first test or prediction, the middle of the prior and the inputs there."""
    space = study.model_space
    middle = space.from_unit(np.full((1, space.dim), 0.5))[0]
    experiment = study.series[0].experiments[0]
    return experiment, middle, study.query(experiment).inputs(middle)


def _foreseen(study: Study) -> float:
    """Return how long a run will take by what its simulator says, where that is too long to try; 0 elsewhere."""
    seconds = estimated(whole_of(study.simulator), _middle(study)[2])
    return seconds if seconds is not None and seconds > _TOO_LONG else 0.0


def _one_point(study: Study) -> tuple[float, int, int]:
    """Return how long a run takes, the bytes it leaves, and those that it would leave if more or less were kept."""
    from tamis.adapters.observed import ObservedOnly
    from tamis.study.keeping import reduced

    simulator = study.simulator
    whole = whole_of(simulator)
    check_present(simulator)
    experiment, middle, inputs = _middle(study)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            with explained(simulator):
                seen = simulator.run(inputs, Path(scratch))
                start = time.perf_counter()
                outputs = whole.run(inputs, Path(scratch))
                seconds = time.perf_counter() - start
                _check_contract(study, inputs, seconds)
        except SimulationError as error:
            raise StudyError(
                f"the simulator fails in the middle of the prior, at {_written(inputs)}: {error}"
            ) from error
    _check_observed(experiment, seen)
    _check_others(study, middle, seconds)
    lean = (simulator if isinstance(simulator, ObservedOnly) else reduced(whole, study.series)).reduced(
        outputs
    )
    each, otherwise = (outputs, lean) if whole is simulator else (lean, outputs)
    return seconds, _stored(each), _stored(otherwise)


def _written(inputs: Inputs) -> str:
    """Write inputs as they are given on the command line."""
    return ", ".join(
        f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in inputs.items()
    )


def _stored(outputs: Outputs) -> int:
    """Return the bytes that a run takes on a disk."""
    whole = _RECORD + sum(np.asarray(array).nbytes for array in outputs.values())
    return padded(whole) if whole <= SMALL else -(-whole // _BLOCK) * _BLOCK


def _check_observed(experiment: Experiment, outputs: Outputs) -> None:
    """Refuse what cannot be observed in a run."""
    try:
        experiment.numbers(outputs)
    except WrongCount:
        raise
    except (SimulationError, StudyError) as error:
        raise StudyError(f'{error}; check the abscissa, or extend = "hold"') from error


def _check_others(study: Study, middle: Array, seconds: float) -> None:
    """Ask whether every other test and prediction can be observed, as many of them as some seconds allow."""
    ends = [e for s in study.series for e in (*s.experiments[:1], *s.experiments[1:][-1:])]
    with tempfile.TemporaryDirectory() as scratch:
        for experiment in ends[1 : 1 + int(_PATIENCE / max(seconds, 1e-3))]:
            with suppress(SimulationError), explained(study.simulator):
                inputs = study.query(experiment).inputs(middle)
                _check_observed(experiment, study.simulator.run(inputs, Path(scratch)))


def _check_contract(study: Study, inputs: Inputs, seconds: float) -> None:
    """Ask the simulator what every simulator must answer, as much of it as some seconds allow."""
    space, experiment = study.model_space, study.series[0].experiments[0]
    query = study.query(experiment)
    corners = space.from_unit(np.array([[0.3], [0.7]]) * np.ones(space.dim))
    others = [query.inputs(corner) for corner in corners] if 7 * seconds < _PATIENCE else []
    if 4 * seconds > _PATIENCE:
        say("its contract (same inputs, same outputs) is not checked: a run takes too long to be repeated")
        return
    try:
        check_simulator(study.simulator, inputs, *others)
    except AssertionError as error:
        clause = " ".join(str(error).split("\n\n")[0].split())
        raise StudyError(f"the simulator breaks its contract: {clause}") from error


def _print_states(raw: Raw) -> None:
    states, why = up_to_date(raw), reasons(raw)
    seconds = read_manifest(raw.results).get("stages", {})
    rows = [
        (s, "up to date" if good else "to do", seconds.get(s, {}).get("seconds"), why[s])
        for s, good in states.items()
    ]
    shown = 4 if any(why.values()) else 3
    table(("stage", "state", "seconds last time", "because")[:shown], [row[:shown] for row in rows])


def print_status(path: Path | None) -> int:
    """Show stages, runs and time left of one study, or of all below this folder."""
    if path is not None:
        _print_one(read(path))
        return 0
    found = _studies(Path())
    if not found:
        raise StudyError("no study file below this folder; `tamis new ball` makes one")
    for raw in found:
        try:
            _print_one(raw)
        except StudyError as error:
            say(f"error: {error}")
    return 0


def _studies(folder: Path) -> list[Raw]:
    """Return every study below a folder: what names a simulator, and is not merely extended by others."""
    read_in: list[Raw] = []
    for path in sorted(path for depth in range(_DEPTH) for path in folder.glob("*/" * depth + "*.toml")):
        if not any(part.startswith(".") for part in path.parts):
            with suppress(StudyError):
                raw = read(path)
                if "tamis" in raw.tables and {"simulator", "command", "http"} & set(raw.table("model")):
                    read_in.append(raw)
    extended = {(raw.base / name).resolve() for raw in read_in for name, _ in raw.parents}
    return [raw for raw in read_in if raw.path.resolve() not in extended]


def _print_one(raw: Raw) -> None:
    say(f"{raw.path}")
    _print_states(raw)
    now = under_way(raw.results)
    if now is not None:
        left = now.info.get("seconds_left")
        rest = f", about {duration(left)} left" if isinstance(left, (int, float)) else ""
        say(f"under way: {now.task}, {now.done} of {now.total or 'as many as it takes'}{rest}")
    root = raw.base / "runs"
    if not root.is_dir():
        return
    asked, sampled = [*_asked(raw), *_added(raw)], _sampled(raw)
    with RunStore(root) as store:
        stored, drawn, more = store.get_many(asked), store.get_many(sampled), store.get_many(_further(raw))
        groups = failure_groups({**stored, **drawn, **more}.values())
        logs = {group[0].key: store.log_place(group[0].key) for group in groups[:_GROUPS]}
    done = [run for run in stored.values() if run.status == "done"]
    left = len(asked) - len(stored)
    spent = [run.seconds for run in done if run.seconds == run.seconds]
    rest = f", about {duration(left * sum(spent) / len(spent))} of one core left" if left and spent else ""
    if asked:
        say(f"runs: {len(done)} done, {len(stored) - len(done)} failed, {left} left{rest}")
    _print_enrichment(raw)
    for who, runs in (("the sampler", drawn), ("predictions and other stages", more)):
        if runs:
            failed = sum(run.status != "done" for run in runs.values())
            say(f"runs of {who}: {len(runs) - failed} done, {failed} failed")
    if warning := code_warning([*stored.values(), *drawn.values(), *more.values()]):
        say(warning)
    for group in groups[:_GROUPS]:
        _print_failures(root, group, logs[group[0].key])
    if len(groups) > _GROUPS:
        say(f"  and {sum(map(len, groups[_GROUPS:]))} failures of {len(groups) - _GROUPS} other kinds")
    if groups:
        say(f"once the cause is removed: tamis run {raw.path} --retry-failed")


def _sampled(raw: Raw) -> list[str]:
    """Return the keys of the runs that sampling has asked for so far."""
    passing = f"sampled-{stage_hashes(raw)['posterior'][:12]}.txt"
    keys = [key for path in _result_files(raw, "sampled.npz") for key in load_arrays(path)["keys"]]
    keys += [key for path in _result_files(raw, passing) for key in read_keys(path)]
    return list(dict.fromkeys(map(str, keys)))


def _further(raw: Raw) -> list[str]:
    """Return the keys of the runs that stages after the posterior have asked for, each when all of them were made."""
    keys = [key for path in _result_files(raw, "*-runs.npz") for key in load_arrays(path)["keys"]]
    keys += [key for path in _result_files(raw, "*-runs.txt") for key in read_keys(path)]
    return list(dict.fromkeys(map(str, keys)))


def _result_files(raw: Raw, name: str) -> list[Path]:
    """Return the files of a name among the results: the study's, or those of its parts."""
    return [*raw.results.glob(name), *raw.results.glob(f"*/{name}")]


def _added(raw: Raw) -> list[str]:
    """Return the keys of the runs that the last enrichment of the surrogate asked for."""
    known = raw.results / "surrogate.npz"
    there = up_to_date(raw, "surrogate").get("surrogate", False)
    return list(dict.fromkeys(map(str, load_arrays(known)["added"].ravel()))) if there else []


def _print_enrichment(raw: Raw) -> None:
    """Say how many rounds the last enrichment took, once it has ended."""
    if "enrich" in raw.table("surrogate") and up_to_date(raw, "surrogate").get("surrogate"):
        growth = load_arrays(raw.results / "emulation.npz")["0.growth"]
        rounds = len(growth) - 1  # the first row is the design's
        say(f"enrichment: {rounds} round{'' if rounds == 1 else 's'} done, {len(_added(raw))} runs")


def _asked(raw: Raw) -> list[str]:
    """Return the keys of the runs that the design asks for.

    A campaign that began or ended has left them, which saves building the study: two thirds of the time.
    """
    known = raw.results / "runs.npz"
    if not up_to_date(raw, "runs").get("runs"):
        known = raw.results / f"asked-{stage_hashes(raw)['runs'][:12]}.npz"
    if known.is_file():
        return list(dict.fromkeys(map(str, load_arrays(known)["keys"].ravel())))
    from tamis.study.build import build
    from tamis.study.stages.design import design_inputs

    study = build(raw)
    points = design_inputs(study) if study.experiments else []
    return list(dict.fromkeys(run_key(study.simulator, point) for point in points))


def _print_failures(root: Path, group: list[Run], log: str) -> None:
    run = group[0]
    work = paths(root, run.key)[2]
    varied = "for instance " if len({other.error for other in group}) > 1 else ""
    say(f"  {len(group)} x {run.status}: {varied}{run.error}")
    say(f"      at {', '.join(f'{name} = {_short(value)}' for name, value in run.inputs.items())}")
    for what, place in (("log", log), ("working folder", str(work) if work.exists() else "")):
        if place:
            say(f"      {what}: {place}")


def _short(value: Value) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
