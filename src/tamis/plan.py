"""What a study will do and cost before it runs, and where it stands while it does."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np

from tamis.errors import SimulationError, StudyError
from tamis.marginals import Marginal
from tamis.simulation import explained
from tamis.store import RunStore, run_key
from tamis.study.build import Study, build
from tamis.study.reader import Raw, read, read_manifest, up_to_date
from tamis.study.series import Series
from tamis.study.stages import CALLS_A_SAMPLE, check_affordable, design_inputs, sampled_runs
from tamis.terminal import duration, say, table


def print_plan(path: Path) -> int:
    """Validate a study, run one point, time it, and say what the whole will take."""
    raw = read(path)
    study = build(raw)
    say(f"{raw.path.name}: {study.title}")
    roles = [(p.name, p.unit, _role(study, p.name), *_range(p.prior)) for p in study.space.parameters]
    table(("parameter", "unit", "role", "5 % of prior", "95 %"), roles)
    tests = [(s.name, s.use, len(s.experiments), _numbers(s)) for s in study.series]
    table(("series", "use", "conditions", "numbers observed"), tests)
    seconds, size = _one_point(study)
    n = study.settings.n_design * study.settings.replicates * len(study.experiments)
    say(f"one run takes {duration(seconds)} and leaves {size / 1024:.0f} kB")
    if n:
        say(f"design: {n} runs, about {duration(n * seconds)} on one core, {n * size / 1e6:.1f} MB stored")
    _print_sampling(study, seconds)
    _print_states(raw)
    return 0


def _role(study: Study, name: str) -> str:
    return "input of the simulator" if name in study.simulator.inputs else "error model"


def _range(prior: Marginal) -> tuple[float, float]:
    low, high = prior.ppf(np.array([0.05, 0.95]))
    return float(low), float(high)


def _numbers(series: Series) -> int:
    return sum(o.size for e in series.experiments for o in e.observations)


def _one_point(study: Study) -> tuple[float, int]:
    space = study.model_space
    middle = space.from_unit(np.full((1, space.dim), 0.5))[0]
    experiment = study.series[0].experiments[0]
    inputs = study.forward(experiment).inputs(middle)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            with explained(study.simulator):
                study.simulator.run(inputs, Path(scratch))
                start = time.perf_counter()
                outputs = study.simulator.run(inputs, Path(scratch))
        except SimulationError as error:
            raise StudyError(
                f"the simulator fails in the middle of the prior, at {inputs}: {error}"
            ) from error
    seconds = time.perf_counter() - start
    for observation in experiment.observations:
        try:
            found = observation.observable(outputs)
        except SimulationError as error:
            raise StudyError(
                f'{experiment.name}, {observation.label}: {error}; check the data\'s abscissa, or extend = "hold"'
            ) from error
        if len(found) != observation.size:
            raise StudyError(
                f"{experiment.name}, {observation.label}: the model gives {len(found)} numbers, "
                f"the data {observation.size}"
            )
    return seconds, sum(array.nbytes for array in outputs.values())


def _print_sampling(study: Study, seconds: float) -> None:
    tests = [e for s in study.series if s.use == "calibrate" for e in s.experiments]
    if not tests:
        return
    runs = sampled_runs(study)
    if runs is not None:
        check_affordable(study)
        say(f"posterior: about {runs:,} runs, every one stored: {duration(runs * seconds)} on one core")
        return
    forwards = [study.forward(e) for e in tests]
    calls = CALLS_A_SAMPLE * study.settings.n_samples
    from tamis.inference.likelihood import Likelihood

    likelihood = Likelihood(study.space, tuple((f.experiment, f) for f in forwards))
    x = study.space.sample(1000, np.random.default_rng(0))
    likelihood(x)
    start = time.perf_counter()
    likelihood(x)
    each = (time.perf_counter() - start) / len(x)
    say(
        f"posterior: {study.settings.n_samples} samples, about {calls:,} likelihoods of {duration(each)}: "
        f"{duration(calls * each)}"
    )


def _print_states(raw: Raw) -> None:
    states = up_to_date(raw)
    seconds = read_manifest(raw.results).get("stages", {})
    rows = [
        (s, "up to date" if good else "to do", seconds.get(s, {}).get("seconds"))
        for s, good in states.items()
    ]
    table(("stage", "state", "seconds last time"), rows)


def print_status(path: Path | None) -> int:
    """Show stages, runs and time left of one study, or of all below this folder."""
    if path is not None:
        return _print_one(read(path))
    found = _studies(Path())
    if not found:
        raise StudyError("no study file below this folder; `tamis new ball` makes one")
    for raw in found:
        _print_one(raw)
    return 0


def _studies(folder: Path) -> list[Raw]:
    """Return every study below a folder: what names a simulator, and is not merely extended by others."""
    read_in: list[Raw] = []
    for path in sorted(folder.rglob("*.toml")):
        if not any(part.startswith(".") for part in path.parts):
            with suppress(StudyError):
                raw = read(path)
                if "tamis" in raw.tables and "simulator" in raw.table("model"):
                    read_in.append(raw)
    extended = {(raw.base / name).resolve() for raw in read_in for name, _ in raw.parents}
    return [raw for raw in read_in if raw.path.resolve() not in extended]


def _print_one(raw: Raw) -> int:
    say(f"{raw.path}")
    _print_states(raw)
    study = build(raw)
    if not study.runs.is_dir() or not study.experiments:
        return 0
    with RunStore(study.runs) as store:
        asked = {run_key(study.simulator, point) for point in design_inputs(study)}
        stored = store.get_many(list(asked))
    states = Counter(run.status for run in stored.values())
    left = len(asked) - len(stored)
    spent = [run.seconds for run in stored.values() if run.status == "done" and run.seconds == run.seconds]
    rest = f", about {duration(left * sum(spent) / len(spent))} of one core left" if left and spent else ""
    failed = len(stored) - states["done"]
    say(f"runs: {states['done']} done, {failed} failed, {left} left{rest}")
    for reason, times in Counter(run.error for run in stored.values() if run.status != "done").most_common(5):
        say(f"  {times} x {reason}")
    return 0
