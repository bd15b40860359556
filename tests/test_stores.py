"""Run stores joined and cleaned up: what is copied, what is kept, what is said."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tamis.cli import main
from tamis.simulation import find
from tamis.store import INDEX, Files, Run, RunStore, paths
from tamis.stores import merge
from tamis.terminal import size
from tests.spring import POINTS, run_all, write, write_study


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_study(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def spring(folder):
    return find("model.py:spring", folder)


# --- one store into another


def tree(root: Path) -> dict[str, tuple]:
    return {
        str(p.relative_to(root)): (p.stat().st_mtime_ns, p.read_bytes())
        for p in root.rglob("*")
        if p.is_file() and p.name != ".lock"
    }


def test_merge_copies_what_is_lacking_and_prefers_what_is_done(folder, spring):
    ours = run_all(spring, POINTS[:6], folder / "ours")
    theirs = run_all(spring, POINTS, folder / "theirs")
    better = theirs.runs(status="done")[0]
    ours.add(Run(**{**vars(better), "status": "crashed", "error": "bad luck"}), None)
    theirs.add(Run(**{**vars(run_of(ours)), "status": "failed", "error": "bad luck"}), None)
    key = theirs.runs(status="failed")[-1].key
    with theirs.lock():
        theirs.record(theirs.get(key), theirs.put(key, theirs.content(key), b"what it said"))
    bad = paths(theirs.root, "f" * 32)[0]
    bad.parent.mkdir(exist_ok=True)
    bad.write_bytes(b"garbage")
    theirs.close()
    ours.close()
    before = tree(folder / "theirs")
    done = merge(ours, folder / "theirs")
    assert (done.copied + done.replaced, done.known, done.conflicts, len(done.damaged)) == (7, 5, (), 1)
    assert tree(folder / "theirs") == before
    assert len(ours.runs()) == 12 and ours.get(better.key) == better  # with its seconds
    assert run_of(ours).status == "done" and ours.log(key) == "what it said"
    again = merge(ours, folder / "theirs")
    assert (again.copied, again.known) == (0, 12)
    assert not list((folder / "ours").glob(".work/*"))


def run_of(store: RunStore) -> Run:
    return next(run for run in store.runs(status="done") if run.inputs == {**POINTS[0], "law": "hard"})


def test_merge_keeps_ours_and_says_so_where_outputs_differ(folder, spring, capsys):
    ours = run_all(spring, POINTS[:2], folder / "runs")
    theirs = run_all(spring, POINTS[:3], folder / "theirs")
    key = ours.runs()[0].key
    changed = {**ours.outputs(key), "peak": np.array(7.0)}
    theirs.add(theirs.get(key), changed)
    same = theirs.runs()[0] if theirs.runs()[0].key != key else theirs.runs()[1]
    theirs.add(
        Run(**{**vars(same), "code": "another"}), theirs.outputs(same.key)
    )  # other bytes, same outputs
    ours.close()
    theirs.close()
    assert main(["merge", "study.toml", "theirs"]) == 1
    said = capsys.readouterr().out
    assert said.count("conflict, ours kept") == 1 and key in said
    assert "1 run copied, 0 failed runs replaced, 1 already there" in said
    assert "1 run with the same inputs and different outputs" in said
    assert ours.outputs(key)["peak"] != 7.0 and len(ours) == 3


def test_merge_refuses_itself_what_is_no_store_and_a_store_in_use(folder, spring, capsys):
    store = run_all(spring, POINTS[:2], folder / "runs")
    shutil.copytree(folder / "runs", folder / "copy")
    assert main(["merge", "runs", "study.toml"]) == 2 and "into itself" in capsys.readouterr().err
    write(folder / "notes" / "other.toml", "[project]")
    for path, what in [
        ("nowhere", "does not exist"),
        ("notes", "is neither a study nor a run store"),
        ("notes/other.toml", "is neither a study nor a run store"),
        ("model.py", "is neither a study nor a run store"),
    ]:
        assert main(["merge", "runs", path]) == 2
        said = f'error: "{path}" {what}; name a study file, its folder, or a folder of runs\n'
        assert capsys.readouterr().err == said
    with store.lock():
        assert main(["merge", "study.toml", "copy"]) == 2
        assert f"being written by process {os.getpid()}" in capsys.readouterr().err
        assert main(["merge", "new", "study.toml"]) == 0  # the one that is read may be in use
    assert len(RunStore(folder / "new")) == 2


def test_merge_reads_a_store_without_index(folder, spring):
    run_all(spring, POINTS, folder / "theirs").close()
    (folder / "theirs" / INDEX).unlink()
    assert merge(RunStore(folder / "ours"), folder / "theirs").copied == 12
    assert not (folder / "theirs" / INDEX).exists()
    assert [p.name for p in (folder / "theirs").glob(".lock")] == [".lock"]  # as its own writer left it


# --- cleaning up


def litter(folder: Path, spring) -> RunStore:
    store = run_all(spring, POINTS, folder / "runs")
    old = Run("0" * 32, spring.name, "old", {"k": 1.0}, "done", 1.0)
    store.add(old, {"x": np.zeros(1000)})
    work = store.root / ".work"
    done, failed = store.runs(status="done")[1].key, store.runs(status="failed")[0].key
    for name in (done, failed, "e" * 32):
        write(work / name / "deep" / "scratch", "x" * 99)
    write(work / f"{done}.part", "half")
    write(store.root / "aa" / f"{'a' * 32}.log", "of no run")
    write(store.root / "aa" / f"{'a' * 32}.npz.bad", "bad")
    store.record(Run("b" * 32, spring.name, spring.version, {}, "done", 0.0), Files(1, 0))
    store.close()
    return store


def test_gc_lists_and_removes_only_when_told(folder, spring, capsys):
    store = litter(folder, spring)
    before = tree(folder / "runs")
    assert main(["gc", "study.toml"]) == 0
    said = capsys.readouterr().out
    assert "nothing was removed" in said and tree(folder / "runs") == before
    assert said.count("working folders of ") == 2 and "100 B" in said and "..." not in said
    assert main(["gc", "study.toml", "--yes"]) == 0
    # 5 "half\n", 100 of a working folder, 10 of a log, 4 of a bad file
    assert "119 B freed" in capsys.readouterr().out
    failed = store.runs(status="failed")[0].key
    assert sorted(p.name for p in (store.root / ".work").iterdir()) == sorted([failed, "e" * 32])
    assert store.get("b" * 32) is None and store.get("0" * 32) is not None and len(store) == 13
    assert main(["gc", "study.toml", "--yes", "--failed-folders", "--orphans"]) == 0
    said = capsys.readouterr().out
    assert "version old" in said and "8.7 kB" in said and "warning" not in said
    assert not list((store.root / ".work").iterdir())
    assert store.get("0" * 32) is None and len(store) == 12 and not paths(store.root, "0" * 32)[0].exists()
    assert main(["gc", "study.toml"]) == 0 and "nothing to remove" in capsys.readouterr().out


def test_gc_takes_no_run_for_an_orphan_while_a_study_cannot_be_read(folder, spring, capsys):
    store = litter(folder, spring)
    write(folder / "other.toml", "tamis = 1", "[model")
    assert main(["gc", "study.toml", "--orphans", "--yes"]) == 2
    assert "other.toml is not valid TOML" in capsys.readouterr().err
    (folder / "other.toml").unlink()
    (folder / "study.toml").unlink()
    assert main(["gc", "runs", "--orphans", "--yes"]) == 2
    assert store.get("0" * 32) is not None


def test_gc_warns_before_a_study_loses_all_its_runs(folder, spring, capsys):
    with RunStore(folder / "runs") as store:
        store.add(Run("0" * 32, spring.name, "old", {"k": 1.0}, "done", 1.0), {"x": np.zeros(3)})
        store.add(Run("1" * 32, "another.py:model", "1", {}, "done", 1.0), {"x": np.zeros(3)})
    assert main(["gc", "study.toml", "--orphans"]) == 0
    said = capsys.readouterr().out
    warning = "warning: this leaves study.toml without any run: its simulator model.py:spring is now version"
    assert said.count(warning) == said.count("warning") == 1
    run_all(spring, POINTS[:1], folder / "runs").close()
    assert main(["gc", "study.toml", "--orphans"]) == 0 and "warning" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("number", "words"),
    [(1, "1 B"), (999, "999 B"), (1000, "1 kB"), (2.5e6, "2.5 MB"), (3e12, "3 TB")],
)
def test_sizes_in_words(number, words):
    assert size(int(number)) == words


def test_gc_waits_for_no_campaign(folder, spring, capsys):
    store = litter(folder, spring)
    with store.lock():
        assert main(["gc", "study.toml", "--yes"]) == 2
    assert "being written by process" in capsys.readouterr().err
