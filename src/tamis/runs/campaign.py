"""The campaign: from points to runs, skipping what the store has, and from runs to observed numbers.

`evaluate` is the only way a simulator is run in earnest. It answers in the order asked whatever the number of
workers, because a run is known by its key and not by when it was done. It records how each run ended, never
raises for one, and leaves the store such that being stopped at any instant costs only the runs in flight.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import closing
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Literal

import numpy as np

from tamis.contract import STATEFUL
from tamis.errors import SimulationError, StudyError, TamisWarning, Unavailable
from tamis.experiment import Experiment, draws_seed, imposed
from tamis.interfaces import Partial, check_present, module_of, warm
from tamis.runs import worker
from tamis.runs.keys import digest, spelled, with_defaults
from tamis.runs.pool import Executors, Workers, run_in_child
from tamis.runs.provenance import OTHER_CODE, built_in, code_of, note, outdated
from tamis.runs.segments import Files
from tamis.runs.store import Run, RunStore, paths, writing
from tamis.runs.worker import Job, given, run_job
from tamis.simulation import Simulator, find
from tamis.types import Array, Event, Inputs, Mask, Progress, silent

if TYPE_CHECKING:
    from tamis.space import Space

_GROUP_SECONDS = 0.25  # within which runs that end share one sync
_SYNC_SHARE = 0.1  # of the time that syncing may take, on a slow disk
_NEWS_SECONDS = 0.1
_AHEAD = 1000  # jobs handed to a foreign executor before the first is back


def evaluate(
    simulator: Simulator,
    points: Sequence[Inputs],
    store: RunStore,
    *,
    executor: Executors = 1,
    timeout: float | None = None,
    max_output: float = 256.0,
    memory: float | None = None,
    retry_failed: bool = False,
    progress: Progress | None = None,
    salt: int = 0,
) -> list[Run]:
    """Return one run per point, in the order asked, running only those the store lacks.

    Parameters
    ----------
    executor
        Number of worker processes; 0 runs in this process, for debugging, with prints on the terminal and no
        time-out. `Workers` that are kept for the next campaign. Or any `concurrent.futures.Executor`, to which
        the runs are handed over; the working folder of a failed run then stays on the machine that ran it.
    timeout
        Seconds after which a run is killed and recorded as such.
    max_output
        Megabytes that one run may return; more is recorded as a crash.
    memory
        Bytes that one run may take, with all it starts; one that takes more is killed and recorded as such.
    retry_failed
        Run again what failed, crashed or was late; a late run finds its working folder as it left it.
    progress
        Called at the start, at the end, and as runs finish: how many of the different points are done, with
        counts ``failed``, ``left``, ``stored`` and, once known, ``seconds_left``.
    salt
        Where the global random generators begin in worker processes; no run may depend on it.
    """
    if worker.importing:
        raise Unavailable(
            "a script starts a campaign while a worker process imports it; start it below "
            '`if __name__ == "__main__":`'
        )
    if timeout is not None and not timeout > 0:
        raise StudyError(f"the time-out of a run must be a positive number of seconds, found {timeout}")
    if memory is not None and not memory > 0:
        raise StudyError(f"the memory of a run must be a positive number of bytes, found {memory}")
    if isinstance(executor, int) and executor < 0:
        raise StudyError(f"the number of worker processes must be 0 or more, found {executor}")
    wanted = {}
    keys = []
    for point in points:
        full = with_defaults(simulator, point)
        key = digest(simulator.name, simulator.version, spelled(simulator, full))
        keys.append(key)
        wanted[key] = full
    runs = store.recover(list(wanted))
    if isinstance(simulator, Partial):
        runs |= simulator.adopt(store, {key: full for key, full in wanted.items() if key not in runs})
    old = {key: run for key, run in runs.items() if retry_failed and run.status != "done"}
    old |= _made_otherwise(simulator, runs.values())
    left = [key for key in wanted if key not in runs or key in old]
    news = _News(progress or silent, len(wanted), [run for key, run in runs.items() if key not in old])
    news.report()
    if left:
        code = code_of(simulator)
        limits = max_output, math.inf if memory is None else memory, salt
        jobs = (_job(simulator, store, key, wanted[key], code, limits) for key in left)
        with store.lock():
            _tidy(store, old)
            note(store.root, simulator)
            keeper = _Keeper(store, news)
            try:
                with closing(_performed(simulator, jobs, keeper, executor, timeout, memory)) as performed:
                    for run in performed:
                        runs[run.key] = run
                keeper.commit()
            except BaseException:
                store.recover(left)  # adopts what workers finished after the last word we had from them
                raise
    store.flush()
    news.report()
    return [runs[key] for key in keys]


class _Keeper:
    """Puts runs into the store as they end, and tells of them once they are on the disk; several share one sync."""

    def __init__(self, store: RunStore, news: _News) -> None:
        self.store = store
        self._news = news
        self._group: list[Run] = []
        self._due = time.monotonic() + _GROUP_SECONDS
        news.start_clock()

    def take(self, run: Run, left: Files) -> None:
        """Keep a run: nothing but a power cut takes it from here on."""
        self.store.record(run, left)
        self._group.append(run)
        if run.seconds > _GROUP_SECONDS:
            self.commit()  # nothing is gained by waiting for others

    def idle(self) -> None:
        """Sync if it is time to."""
        if self._group and time.monotonic() > self._due:
            self.commit()

    def commit(self) -> None:
        """Sync what was taken since the last time, and tell of it."""
        start = time.monotonic()
        self.store.flush()
        end = time.monotonic()
        self._due = end + max(_GROUP_SECONDS, (end - start) / _SYNC_SHARE)
        for run in self._group:
            work = paths(self.store.root, run.key)[2]
            if run.status == "done" and work.exists():
                shutil.rmtree(work, ignore_errors=True)
        self._news.add(self._group)
        self._group.clear()


def _made_otherwise(simulator: Simulator, runs: Iterable[Run]) -> dict[str, Run]:
    """Return the runs to be made again because another code made them; tell of those of which the author decides."""
    found = outdated(simulator, runs)
    if found and not built_in(simulator):
        warnings.warn(
            f"{len(found)} runs of {simulator.name} {OTHER_CODE}, and its version "
            f'"{simulator.version}" did not: they are used as they are; raise the version if results have changed',
            TamisWarning,
            stacklevel=3,
        )
        return {}
    return {run.key: run for run in found}


def check_repeatable(
    simulator: Simulator,
    runs: Sequence[Run],
    store: RunStore,
    *,
    executor: Executors = 1,
    timeout: float | None = None,
    max_output: float = 256.0,
    memory: float | None = None,
) -> None:
    """Make some runs once more, after all the others, and refuse a simulator that answers otherwise.

    Which runs came before a run in its process depends on the number of workers: a result that depends on them, or on
    random numbers that nobody seeded, is another one each time.
    """
    with tempfile.TemporaryDirectory() as folder, RunStore(folder) as other:
        made = evaluate(
            simulator,
            [run.inputs for run in runs],
            other,
            executor=executor,
            timeout=timeout,
            max_output=max_output,
            memory=memory,
            salt=1,
        )
        for run, again in zip(runs, made, strict=True):
            at = ", ".join(f"{key} = {value}" for key, value in run.inputs.items())
            if again.status != "done":
                raise StudyError(
                    f"{simulator.name} ended well at {at}, and not when it was run there once more "
                    f"({again.status}: {again.error}); {STATEFUL}. The runs made so are of no use: repair it, which "
                    "makes them anew"
                )
            before, after = store.outputs(run.key), other.outputs(again.key)
            for name, array in before.items():
                if name in after and array.tobytes() == after[name].tobytes():
                    continue
                raise StudyError(
                    f"{simulator.name} gives another {name} when it is run once more at {at}; {STATEFUL}. "
                    "The runs made so are of no use: repair it, which makes them anew"
                )


class _News:
    """Counts of a campaign, reported ten times a second at most."""

    def __init__(self, progress: Progress, total: int, stored: Sequence[Run]) -> None:
        self._progress = progress
        self._total = total
        self._stored = self._done = len(stored)
        self._failed = sum(run.status != "done" for run in stored)
        self._start = time.monotonic()
        self._reported = 0.0

    def start_clock(self) -> None:
        """Count the time per run from now on."""
        self._start = time.monotonic()

    def add(self, runs: Sequence[Run]) -> None:
        self._done += len(runs)
        self._failed += sum(run.status != "done" for run in runs)
        if time.monotonic() - self._reported > _NEWS_SECONDS:
            self.report()

    def report(self) -> None:
        self._reported = time.monotonic()
        left = self._total - self._done
        info: dict[str, float | int | str] = {"failed": self._failed, "left": left, "stored": self._stored}
        if self._done > self._stored or not left:
            each = (self._reported - self._start) / max(self._done - self._stored, 1)
            info["seconds_left"] = each * left
        self._progress(Event("runs", self._done, self._total, info))


def _job(
    simulator: Simulator, store: RunStore, key: str, full: Inputs, code: str, limits: tuple[float, float, int]
) -> Job:
    run = Run(key, simulator.name, simulator.version, full, "done", 0.0, code=code)
    return Job(simulator.address, store.root.absolute(), run, given(simulator, full), *limits, pack=True)


def _tidy(store: RunStore, again: Mapping[str, Run]) -> None:
    """Remove what a killed campaign left half written, and folders of runs to repeat from the start."""
    work = store.root / ".work"
    with writing(store.root):
        for part in work.glob("*.part"):
            part.unlink()
    folders = [folder.name for folder in work.iterdir() if folder.is_dir()] if work.is_dir() else []
    ended = store.get_many(folders)
    for key in folders:
        run = again.get(key) or ended.get(key)
        if run and (run.status == "done" or (key in again and run.status != "timeout")):
            shutil.rmtree(work / key, ignore_errors=True)


def _performed(
    simulator: Simulator,
    jobs: Iterable[Job],
    keeper: _Keeper,
    executor: Executors,
    timeout: float | None,
    memory: float | None,
) -> Generator[Run, None, None]:
    if executor == 0:
        if timeout is not None:
            warnings.warn(
                "the time-out of runs is not enforced without worker processes", TamisWarning, stacklevel=4
            )
        if memory is not None:
            warnings.warn(
                "the memory of runs is not limited without worker processes", TamisWarning, stacklevel=4
            )
        for job in jobs:
            with writing(keeper.store.root):
                run, left = run_job(job, simulator)
            keeper.take(run, left)
            keeper.idle()
            yield run
        return
    _check_address(simulator)
    check_present(simulator)
    warm(simulator)
    if prepare := getattr(executor, "prepare", None):
        prepare(simulator)
    if isinstance(executor, int):
        with Workers(executor) as workers:
            yield from (run for run, _ in workers.perform(jobs, timeout, keeper.take, keeper.idle))
    elif isinstance(executor, Workers):
        yield from (run for run, _ in executor.perform(jobs, timeout, keeper.take, keeper.idle))
    else:
        yield from _handed_over(jobs, keeper, executor, timeout)


def _check_address(simulator: Simulator) -> None:
    if module_of(simulator) == "__main__":
        return  # importing it here would run the script a second time; the workers will
    try:
        twin = find(simulator.address)
    except StudyError as error:
        raise StudyError(
            f"{error}; worker processes import a simulator by its address: define it at the top of a .py "
            "file, or run in this process with executor = 0"
        ) from error
    if twin.version != simulator.version:
        raise StudyError(
            f'simulator {simulator.name}: "{simulator.address}" is version {twin.version}, this process uses '
            f"version {simulator.version}; the file has changed, start again"
        )


def _handed_over(
    jobs: Iterable[Job], keeper: _Keeper, executor: Executor, timeout: float | None
) -> Iterator[Run]:
    source = iter(jobs)
    pending: dict[Future[tuple[Run, bytes, bytes]], Job] = {}
    ended: SimpleQueue[Future[tuple[Run, bytes, bytes]]] = SimpleQueue()
    try:
        while True:
            while len(pending) < _AHEAD and (job := next(source, None)):
                future = executor.submit(run_in_child, job, timeout)
                pending[future] = job
                future.add_done_callback(ended.put)
            if not pending:
                return
            try:
                future = ended.get(timeout=_GROUP_SECONDS)
            except Empty:
                keeper.idle()
                continue
            del pending[future]
            try:
                run, array, log = future.result()
            except (BrokenExecutor, CancelledError, OSError) as error:
                raise StudyError(
                    f"the executor lost a run ({type(error).__name__}: {error}); what was finished is kept, "
                    "the same call goes on"
                ) from error
            keeper.take(run, keeper.store.put(run.key, array, log))
            keeper.idle()
            yield run
    finally:
        for future in pending:
            future.cancel()


def points(
    space: Space,
    u: Array,
    experiment: Experiment,
    *,
    simulator: Simulator | None = None,
    fixed: Inputs | None = None,
    replicates: int = 1,
    seed: int | None = None,
    seeds: Literal["independent", "common"] = "independent",
) -> list[Inputs]:
    """Return the inputs of every design point at one experiment, point by point, replicates side by side.

    A value comes from the parameters, else the experiment's conditions, else ``fixed``, else the port's
    default. If the simulator has an input ``seed`` that none of them gives, each run gets its own: a hash of
    the study's seed, the replicate's number and all other inputs, or of the first two if ``common``.
    """
    for name in space.names:
        if name in experiment.conditions:
            raise StudyError(
                f'experiment {experiment.name}: "{name}" is both a condition and a parameter; remove one'
            )
    u = np.asarray(u, dtype=float)
    if u.ndim != 2 or u.shape[1] != space.dim:
        raise StudyError(f"expected design points of shape (n, {space.dim}), found {u.shape}")
    fixed = fixed or {}
    drawn = simulator is not None and draws_seed(simulator.inputs, fixed, experiment.conditions, space.names)
    if replicates > 1 and not drawn:
        raise StudyError(
            f"{replicates} replicates would be the same run: the simulator must have an input `seed`, "
            "and nothing may fix its value"
        )
    rows: list[Inputs] = []
    for x in space.from_unit(u):
        row = imposed(fixed, experiment.conditions, dict(zip(space.names, map(float, x), strict=True)))
        for replicate in range(replicates):
            if simulator is not None and drawn:
                rows.append({**row, "seed": _seed(simulator, row, seed or 0, replicate, seeds)})
            else:
                rows.append(row)
    return rows


def _seed(simulator: Simulator, row: Inputs, seed: int, replicate: int, seeds: str) -> int:
    others = [] if seeds == "common" else spelled(simulator, with_defaults(simulator, {**row, "seed": 0}))
    return int(digest(seed, replicate, others)[:8], 16) >> 1  # 31 bits suit every generator


def observe(experiment: Experiment, runs: Sequence[Run], store: RunStore) -> tuple[Array, Mask]:
    """Return what the experiment observes in each run, (n, m), and which rows are good; others are NaN."""
    y = np.full((len(runs), sum(observation.size for observation in experiment.observations)), np.nan)
    good = np.zeros(len(runs), dtype=bool)
    for i, run in enumerate(runs):
        row = _observed(experiment, run, store)
        if not isinstance(row, str):
            y[i] = row
            good[i] = True
    return y, good


def failures(experiment: Experiment, runs: Sequence[Run], store: RunStore) -> dict[int, str]:
    """Say why rows of `observe` are not good: the run failed, or an observable cannot be taken from it."""
    rows = (_observed(experiment, run, store) for run in runs)
    return {i: row for i, row in enumerate(rows) if isinstance(row, str)}


def _observed(experiment: Experiment, run: Run, store: RunStore) -> Array | str:
    if run.status != "done":
        return f"{run.status}: {run.error}"
    outputs = store.outputs(run.key, sorted(experiment.needs))
    try:
        row = experiment.numbers(outputs)
    except (SimulationError, StudyError) as error:
        return str(error)
    return row if np.isfinite(row).all() else f"{experiment.name}: not a finite number"
