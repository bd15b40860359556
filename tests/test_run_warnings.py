"""Warnings of a run are part of its record: each run's own, whoever did it, and old stores have none."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tamis.cli.stores import merge
from tamis.errors import TamisWarning
from tamis.runs.campaign import evaluate
from tamis.runs.store import INDEX, RunStore, paths, read_record
from tamis.simulation import find
from tests.shelf import contents, first_format

WARNS = find("warns.py:warns", Path(__file__).parent / "models")
POINTS = [{"a": 0.25}, {"a": 0.75}, {"a": 1.0, "times": 1000}, {"a": 1.5, "fails": 1}]
SAID = [(), ("step 0 is long: 0.75 m",), ("step 0 is long: 1 m",), ("step 0 is long: 1.5 m",)]


@pytest.mark.filterwarnings("ignore:not ours")
def test_every_run_keeps_its_warnings_whoever_did_it(tmp_path):
    with ThreadPoolExecutor(1) as threads:
        for name, executor in {"here": 0, "one": 1, "two": 2, "elsewhere": threads}.items():
            store = RunStore(tmp_path / name)
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                runs = evaluate(WARNS, POINTS, store, executor=executor)
            assert [run.warnings for run in runs] == SAID, name
            assert [read_record(store.content(run.key), run.key).warnings for run in runs] == SAID
            logs = [store.log(run.key) for run in runs]
            assert logs[0] == "" and all(log.count("TamisWarning: step 0 is long") == 1 for log in logs[1:])
            assert {w.category for w in heard} == ({RuntimeWarning} if name == "here" else set())
            again = RunStore(store.root)
            assert [run.warnings for run in evaluate(WARNS, POINTS, again, executor=0)] == SAID
            assert contents(store.root) == contents(tmp_path / "here")


@pytest.mark.filterwarnings("ignore:not ours")
def test_warnings_outlive_the_index_and_are_merged(tmp_path):
    with RunStore(tmp_path / "a") as store:
        keys = [run.key for run in evaluate(WARNS, POINTS, store, executor=0)]
    (tmp_path / "a" / INDEX).unlink()
    with pytest.warns(TamisWarning, match="rebuilt"), RunStore(tmp_path / "a") as store:
        assert [store.get(key).warnings for key in keys] == SAID
    with RunStore(tmp_path / "b") as store:
        merge(store, tmp_path / "a")
        assert [store.get(key).warnings for key in keys] == SAID


@pytest.mark.filterwarnings("ignore:not ours")
def test_a_store_of_an_earlier_version_is_read_and_written(tmp_path):
    with RunStore(tmp_path) as store:
        (quiet,) = evaluate(WARNS, POINTS[:1], store, executor=0)
    first_format(tmp_path, "")
    before = contents(tmp_path)
    with RunStore(tmp_path) as store:
        assert store.runs() == [quiet] and store.get(quiet.key) == quiet  # with its seconds
        assert contents(tmp_path) == before and paths(tmp_path, quiet.key)[0].exists()
        assert [run.warnings for run in evaluate(WARNS, POINTS, store, executor=0)] == SAID
    with RunStore(tmp_path) as store:
        assert store.get(quiet.key) == quiet and len(store) == 4
        assert sorted(run.warnings for run in store.runs()) == sorted(SAID)
