"""Run stores joined and cleaned up: what is copied, what is kept, what is said."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import tamis.files
from tamis.cli.main import main
from tamis.cli.stores import merge
from tamis.quantities import size
from tamis.runs.keys import run_key
from tamis.runs.segments import sizes
from tamis.runs.store import INDEX, Files, Run, RunStore, paths
from tamis.simulation import Port, find
from tests.shelf import contents, first_format
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


def test_merge_refuses_a_run_whose_record_contradicts_its_key(folder, spring):
    class Plain:
        name, version = "plain", "1"
        inputs: ClassVar = {"k": Port("k", default=1.0)}

    theirs = RunStore(folder / "theirs")
    for key, k in ((run_key(Plain, {"k": 2.0}), 2.0), ("d" * 32, 3.0)):
        theirs.add(Run(key, "plain", "1", {"k": k}, "done", 1.0), {"x": np.zeros(3)})
    theirs.close()
    ours = RunStore(folder / "ours")
    done = merge(ours, folder / "theirs")
    assert done.copied == 1 and len(done.damaged) == 1 and "contradicts its key" in done.damaged[0]
    assert [run.inputs["k"] for run in ours.runs()] == [2.0]


def test_merging_a_store_of_single_files_packs_them(folder, spring):
    run_all(spring, POINTS, folder / "theirs").close()
    before = contents(folder / "theirs")
    first_format(folder / "theirs")
    assert merge(RunStore(folder / "ours"), folder / "theirs").copied == 12
    assert contents(folder / "ours") == before and not list((folder / "ours").glob("??/*"))
    assert {run.seconds for run in RunStore(folder / "ours").runs()} == {0.1}


# --- cleaning up


def test_gc_rewrites_segments_without_what_no_longer_counts(folder, spring, capsys):
    store = run_all(spring, POINTS, folder / "runs")
    victim, again = store.runs(status="done")[0], store.runs(status="done")[1]
    with store.lock():
        store.record(again, store.put(again.key, store.content(again.key), b"said again"))
    before = contents(store.root)
    store.forget([victim.key])
    store.close()
    assert list(sizes(store.root)) == [2] and victim.key not in contents(store.root)
    assert contents(store.root) == {key: c for key, c in before.items() if key != victim.key}
    with RunStore(store.root) as store:
        assert len(store.recover(list(before))) == 11 and store.log(again.key) == "said again"
        store.add(again, {"peak": np.array(1.0)})
    assert main(["gc", "study.toml"]) == 0
    assert "array files in segments that were replaced since" in capsys.readouterr().out
    assert main(["gc", "study.toml", "--yes"]) == 0 and main(["gc", "study.toml"]) == 0
    assert "nothing to remove" in capsys.readouterr().out
    assert list(sizes(store.root)) == [3] and len(RunStore(store.root).recover(list(before))) == 11


def test_a_kill_while_a_segment_is_rewritten_costs_nothing(folder, spring, monkeypatch):
    store = run_all(spring, POINTS, folder / "runs")
    victim = store.runs(status="done")[0]
    rest = {key: c for key, c in contents(store.root).items() if key != victim.key}

    remove = tamis.files.remove

    def killed(*arguments):
        if isinstance(arguments[0], Path) and arguments[0].suffix != ".tar":
            return remove(arguments[0])
        raise KeyboardInterrupt

    # before the copy is synced, before the index knows of it, before the old segment is removed
    for function in ("tamis.runs.segments.Tail.sync", "tamis.runs.index.Index.write", "tamis.files.remove"):
        with monkeypatch.context() as patch:
            patch.setattr(function, killed)
            with pytest.raises(KeyboardInterrupt):
                store.forget([victim.key])
        with RunStore(store.root) as other:
            assert (
                set(rest) <= set(other.recover([*rest, victim.key]))
                and rest.items() <= contents(store.root).items()
            )
    store.forget([victim.key])
    assert contents(store.root) == rest and set(store.recover(list(rest))) == set(rest)


def test_gc_lists_what_dead_processes_left_among_the_results(folder, spring, capsys):
    run_all(spring, POINTS[:1], folder / "runs").close()
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    dead = write(folder / "results" / "study" / f".posterior.npz.{child.pid}.tmp", "half")
    mine = write(folder / "results" / "study" / f".posterior.npz.{os.getpid()}.tmp", "half")
    assert main(["gc", "study.toml", "--yes"]) == 0
    assert "5 B freed" in capsys.readouterr().out and not dead.exists() and mine.exists()


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
