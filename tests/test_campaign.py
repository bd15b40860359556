"""The campaign: every run counted once, kept whatever happens to the disk, the same bytes whoever computed it."""

from __future__ import annotations

import math
import os
import time
import zipfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tamis.errors import SimulationError, StudyError, TamisWarning
from tamis.experiment import Experiment, Observation
from tamis.noise import Known
from tamis.runs.campaign import evaluate, failures, observe, points
from tamis.runs.store import RunStore
from tamis.simulation import Port, find
from tests.shelf import contents, spots

MODELS = Path(__file__).parent / "models"
LINE = find("plain.py:line", MODELS)
TROUBLE = find("trouble.py:trouble", MODELS)
POINTS = [{"a": float(a)} for a in (3, 1, 2, 1, 5)]


def calls(path: Path) -> list[float]:
    return [float(line) for line in path.read_text().split()] if path.exists() else []


@pytest.fixture
def counter(tmp_path, monkeypatch):
    monkeypatch.setenv("TAMIS_TEST_COUNT", str(tmp_path / "calls"))
    return tmp_path / "calls"


# --- what is run, and in which order


@pytest.mark.parametrize("executor", [0, 2])
def test_order_is_kept_duplicates_and_stored_runs_are_not_run(tmp_path, counter, executor):
    store = RunStore(tmp_path / "runs")
    evaluate(LINE, [{"a": 2.0}], store, executor=0)
    runs = evaluate(LINE, POINTS, store, executor=executor)
    assert [run.inputs["a"] for run in runs] == [3.0, 1.0, 2.0, 1.0, 5.0]
    assert calls(counter)[0] == 2.0 and sorted(calls(counter)) == [1.0, 2.0, 3.0, 5.0]
    for run in runs:
        np.testing.assert_array_equal(store.outputs(run.key)["z"], run.inputs["a"] * np.arange(3.0))
        assert (
            run.status == "done"
            and run.seconds >= 0
            and run.inputs == {"a": run.inputs["a"], "n": 3, "wait": 0.0}
        )
    assert evaluate(LINE, POINTS, store, executor=executor) == runs
    assert len(calls(counter)) == 4


def test_the_store_is_the_same_to_the_byte_whoever_computed_it(tmp_path):
    wanted = [*POINTS, {"a": 0.1, "n": 1000}]
    stores = {}
    with (
        ThreadPoolExecutor(2) as threads,
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes,
    ):
        executors = {"0": 0, "1": 1, "2": 2, "threads": threads, "processes": processes}
        for name, executor in executors.items():
            store = RunStore(tmp_path / name)
            runs = evaluate(LINE, wanted, store, executor=executor)
            assert [run.status for run in runs] == ["done"] * 6
            stores[name] = contents(tmp_path / name)
    assert len(stores["0"]) == 5
    for name in executors:
        assert stores[name] == stores["0"], name


def test_nothing_to_do(tmp_path):
    assert evaluate(LINE, [], RunStore(tmp_path / "runs")) == []
    assert not (tmp_path / "runs").exists()


def test_the_request_is_checked_before_anything_runs(tmp_path, counter):
    store = RunStore(tmp_path / "runs")
    with pytest.raises(StudyError, match='no input "aa"'):
        evaluate(LINE, [{"a": 1.0}, {"aa": 1.0}], store, executor=0)
    with pytest.raises(StudyError, match="positive number of seconds"):
        evaluate(LINE, POINTS, store, timeout=0.0)
    with pytest.raises(StudyError, match="0 or more"):
        evaluate(LINE, POINTS, store, executor=-1)
    assert calls(counter) == []


def test_progress_is_told_at_the_start_and_at_the_end(tmp_path):
    events = []
    store = RunStore(tmp_path)
    evaluate(TROUBLE, [{"how": "physics"}, {"a": 7.0}], store, executor=0)
    wanted = [{"how": "physics"}, {"how": "nan"}, {"a": 2.0}, {"a": 2.0}, {"a": 3.0}]
    evaluate(TROUBLE, wanted, store, executor=0, progress=events.append)
    first, last = events[0], events[-1]
    assert (first.task, first.done, first.total) == ("runs", 1, 4)
    assert first.info == {"failed": 1, "left": 3, "stored": 1}
    assert (last.done, last.total) == (4, 4)
    assert last.info == {"failed": 2, "left": 0, "stored": 1, "seconds_left": 0.0}
    assert [event.done for event in events] == sorted(event.done for event in events)


def test_progress_is_throttled_and_foresees_the_end(tmp_path):
    events = []
    wanted = [{"a": float(i), "wait": 0.02} for i in range(30)]
    start = time.monotonic()
    evaluate(LINE, wanted, RunStore(tmp_path), executor=0, progress=events.append)
    seconds = time.monotonic() - start
    assert 4 <= len(events) <= 3 + seconds / 0.1  # ten times a second, the start and the end
    assert 0 < events[1].info["seconds_left"] < 3 * seconds  # equal runs: the estimate is off by noise only


# --- the store under a campaign


def test_a_damaged_array_file_is_run_again(tmp_path, counter):
    store = RunStore(tmp_path / "runs")
    runs = evaluate(LINE, POINTS, store, executor=0)
    before = contents(store.root)
    spots(store.root)[runs[0].key].flip(100)
    with pytest.warns(TamisWarning, match="1 array files"):
        evaluate(LINE, POINTS, store, executor=0)
    assert calls(counter) == [3.0, 1.0, 2.0, 5.0, 3.0] and contents(store.root) == before


def test_a_lost_index_costs_no_run(tmp_path, counter):
    evaluate(LINE, POINTS, RunStore(tmp_path / "runs"), executor=0)
    (tmp_path / "runs" / "runs.sqlite").write_bytes(b"garbage" * 1000)
    with pytest.warns(TamisWarning, match="rebuilt"):
        runs = evaluate(LINE, POINTS, RunStore(tmp_path / "runs"), executor=0)
    assert len(calls(counter)) == 4 and [run.inputs["a"] for run in runs] == [3.0, 1.0, 2.0, 1.0, 5.0]


@pytest.mark.parametrize("how", ["full", "full_work"])
@pytest.mark.parametrize("executor", [0, 1])
def test_a_full_disk_stops_the_campaign_and_keeps_what_was_done(tmp_path, executor, how, monkeypatch):
    monkeypatch.setattr(zipfile.ZipFile, "writestr", zipfile.ZipFile.writestr)  # undone afterwards
    store = RunStore(tmp_path / "runs")
    wanted = [{"a": 1.0}, {"a": 2.0}, {"how": how}, {"a": 3.0}]
    with pytest.raises(StudyError, match=r"cannot write.*No space left on device.*finished is kept"):
        evaluate(TROUBLE, wanted, store, executor=executor)
    monkeypatch.undo()
    assert {run.inputs["a"] for run in store.runs(status="done")} >= {1.0, 2.0}
    assert len(contents(store.root)) == len(store)
    assert [run.status for run in evaluate(TROUBLE, [wanted[i] for i in (0, 1, 3)], store)] == ["done"] * 3
    assert not list((store.root / ".work").glob("*.part"))


def test_an_index_that_cannot_be_written_stops_the_campaign_and_costs_no_run(tmp_path, counter):
    store = RunStore(tmp_path / "runs")
    evaluate(LINE, POINTS[:1], store, executor=0)
    pages = store._index._db.execute("PRAGMA page_count").fetchone()[0]
    store._index._db.execute(f"PRAGMA max_page_count = {pages}")
    many = [{"a": 0.5 * i} for i in range(200)]  # more rows than fit on the pages there are
    with pytest.raises(StudyError, match="database or disk is full"):
        evaluate(LINE, many, store, executor=0)
    ran = len(calls(counter))
    evaluate(LINE, many, RunStore(tmp_path / "runs"), executor=0)
    assert len(calls(counter)) == len(set(calls(counter))) and ran > 1


def test_a_store_that_cannot_be_made_is_explained(tmp_path, counter):
    (tmp_path / "runs").write_text("")
    with pytest.raises(StudyError, match="expected a folder of runs"):
        evaluate(LINE, POINTS, RunStore(tmp_path / "runs"), executor=0)
    assert calls(counter) == []


def test_a_second_campaign_on_one_store_is_refused_but_may_read(tmp_path, counter):
    first, second = RunStore(tmp_path / "runs"), RunStore(tmp_path / "runs")
    runs = evaluate(LINE, POINTS, first, executor=0)
    with first.lock():
        with pytest.raises(StudyError, match=rf"written by process {os.getpid()}"):
            evaluate(LINE, [{"a": 99.0}], second, executor=0)
        assert evaluate(LINE, POINTS, second, executor=0) == runs
    assert 99.0 not in calls(counter)


def test_what_a_killed_campaign_left_is_tidied(tmp_path):
    store = RunStore(tmp_path)
    (run,) = evaluate(LINE, POINTS[:1], store, executor=0)
    work = tmp_path / ".work"
    (work / f"{run.key}.part").write_bytes(b"half")
    (work / run.key).mkdir()  # killed after the array file took its name
    (work / ("e" * 32)).mkdir()  # in flight: may hold a check point
    evaluate(LINE, POINTS, store, executor=0)
    assert [path.name for path in work.iterdir()] == ["e" * 32]


# --- points and observed numbers


def space(*names: str):
    """A space whose priors are uniform on [0, 10]."""
    return SimpleNamespace(names=names, dim=len(names), from_unit=lambda u: 10 * np.asarray(u))


def experiment(conditions=None, observations=()):
    return Experiment("drop", conditions or {}, observations)


def stochastic():
    ports = {name: Port(name, default=0.0) for name in "abc"} | {"seed": Port("seed", default=0)}
    return SimpleNamespace(name="s", version="1", inputs=ports)


U = np.array([[0.1, 0.2], [0.3, 0.4]])


def test_parameters_win_over_conditions_over_fixed_values():
    rows = points(
        space("a", "b"), U, experiment({"c": 5.0, "n": 2}), fixed={"c": 7.0, "b": 8.0, "law": "hertz"}
    )
    assert rows == [
        {"a": 1.0, "b": 2.0, "c": 5.0, "n": 2, "law": "hertz"},
        {"a": 3.0, "b": 4.0, "c": 5.0, "n": 2, "law": "hertz"},
    ]
    assert all(type(value) is float for value in (rows[0]["a"], rows[0]["b"]))


def test_a_name_is_a_condition_or_a_parameter():
    with pytest.raises(StudyError, match='"b" is both a condition and a parameter'):
        points(space("a", "b"), U, experiment({"b": 1.0}))
    with pytest.raises(StudyError, match=r"shape \(n, 3\), found \(2, 2\)"):
        points(space("a", "b", "c"), U, experiment())


def test_seeds_depend_on_study_seed_point_and_replicate():
    model = stochastic()
    arguments = {"simulator": model, "replicates": 3, "seed": 1}
    rows = points(space("a", "b"), U, experiment(), **arguments)
    assert [row["a"] for row in rows] == [1.0, 1.0, 1.0, 3.0, 3.0, 3.0]
    seeds = [row["seed"] for row in rows]
    assert len(set(seeds)) == 6 and all(0 <= seed < 2**31 for seed in seeds)
    assert points(space("a", "b"), U[::-1], experiment(), **arguments) == rows[3:] + rows[:3]
    other = points(space("a", "b"), U, experiment(), **{**arguments, "seed": 2})
    assert not set(seeds) & {row["seed"] for row in other}
    model.version = "2"  # a corrected simulator is compared on the same noise
    assert points(space("a", "b"), U, experiment(), **arguments) == rows
    explicit = points(space("a", "b"), U, experiment({"c": 0.0}), **arguments)
    assert [row["seed"] for row in explicit] == seeds  # a default given in full is the same point


def test_common_seeds_are_shared_by_all_points():
    rows = points(
        space("a", "b"), U, experiment(), simulator=stochastic(), replicates=2, seed=1, seeds="common"
    )
    assert rows[0]["seed"] == rows[2]["seed"] != rows[1]["seed"] == rows[3]["seed"]


def test_a_fixed_seed_wins_and_forbids_replicates():
    rows = points(space("a", "b"), U, experiment(), simulator=stochastic(), fixed={"seed": 5}, seed=1)
    assert [row["seed"] for row in rows] == [5, 5]
    with pytest.raises(StudyError, match="2 replicates would be the same run"):
        points(space("a", "b"), U, experiment(), simulator=stochastic(), fixed={"seed": 5}, replicates=2)
    with pytest.raises(StudyError, match="2 replicates would be the same run"):
        points(space("a", "b"), U, experiment(), simulator=LINE, replicates=2)


class Take:
    """An observable: the first numbers of one output."""

    def __init__(self, output, size):
        self.needs, self.size = (output,), size

    def __call__(self, outputs):
        (name,) = self.needs
        if len(outputs[name]) < self.size:
            raise SimulationError("outside the run's span")
        return np.log(outputs[name][: self.size] + 1)


def observation(output, size, declared=None):
    return Observation(Take(output, size), np.zeros(declared or size), Known(1.0))


def test_observed_numbers_and_why_some_are_missing(tmp_path):
    store = RunStore(tmp_path)
    wanted = [
        {"a": 1.0, "n": 4},
        {"a": math.nan},
        {"a": 2.0, "n": 2},
        {"a": -1.0, "n": 4},
        {"a": 3.0, "n": 4},
    ]
    runs = evaluate(LINE, wanted, store, executor=0)
    test = experiment(observations=(observation("z", 3), observation("t", 1)))
    with np.errstate(divide="ignore", invalid="ignore"):
        y, good = observe(test, runs, store)
        why = failures(test, runs, store)
    assert y.shape == (5, 4) and good.tolist() == [True, False, False, False, True]
    np.testing.assert_array_equal(
        y[good], [[*np.log(np.array([0.0, a, 2 * a]) + 1), 0.0] for a in (1.0, 3.0)]
    )
    assert np.isnan(y[~good]).all()
    assert list(why) == [1, 2, 3] and why[1].startswith("failed: ")
    assert why[2] == "drop, observation 1: outside the run's span"
    assert why[3] == "drop: not a finite number"


def test_a_wrong_number_of_observed_values_is_a_failed_row(tmp_path):
    store = RunStore(tmp_path)
    runs = evaluate(LINE, [{"n": 4}], store, executor=0)
    test = experiment(observations=(observation("z", 2, declared=3),))
    y, good = observe(test, runs, store)
    assert np.isnan(y).all() and not good.any()
    assert "the model gives 2 numbers where 3 are expected" in failures(test, runs, store)[0]
