"""A reader who stays while others write: what he found meanwhile never counts more than what came after it."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import sqlite3

import numpy as np
import pytest

from tamis.errors import StudyError, TamisWarning
from tamis.runs.index import SUM
from tamis.runs.locks import LOCK, held, released, seized
from tamis.runs.segments import segment_path
from tamis.runs.store import INDEX, Run, RunStore, array_file, paths

Z = np.linspace(0.0, 1.0, 7)
LONG = np.linspace(0.0, 1.0, 20_000)  # too large to be packed


def make(i: int, status="done") -> Run:
    key = f"{i * 2654435761 % 2**32:08x}" * 4
    error = "" if status == "done" else "no luck"
    return Run(key, "model.py:ball", "1", {"a": 0.1 * i, "law": "hertz"}, status, 1.5, error)


def reader_of_a_failure(root) -> RunStore:
    """Return a reader who found a run that failed while its writer had not yet written it to the index."""
    with RunStore(root) as writer:
        writer.add(make(1), {"z": Z})
        with writer.lock():
            writer.record(make(9, "failed"), writer.put(make(9).key, array_file(make(9, "failed"), {})))
            reader = RunStore(root)
            assert reader.get(make(9).key).status == "failed"
    return reader


def test_a_failure_found_by_a_reader_does_not_replace_its_repetition(tmp_path):
    reader = reader_of_a_failure(tmp_path)
    with RunStore(tmp_path) as writer:
        writer.add(make(9), {"z": Z})
    assert reader.get(make(9).key) == make(9) and reader.counts() == {"done": 2}
    reader.close()
    with RunStore(tmp_path) as store:
        assert store.get(make(9).key) == make(9) and store.counts() == {"done": 2}
        np.testing.assert_array_equal(store.outputs(make(9).key)["z"], Z)


def test_a_reader_may_count_while_the_repetition_is_being_written(tmp_path):
    reader = reader_of_a_failure(tmp_path)
    with RunStore(tmp_path) as writer, writer.lock():
        writer.add(make(9), {"z": Z})
        writer.flush()
        assert reader.counts() == {"done": 2} and reader.runs(status="failed") == []
    reader.close()


def test_a_reader_closes_although_the_segment_he_looked_at_is_gone(tmp_path):
    reader = reader_of_a_failure(tmp_path)
    with RunStore(tmp_path) as writer:
        writer.forget([make(1).key])
        assert not segment_path(tmp_path, 1).exists()
    assert reader.counts() == {"failed": 1}
    reader.close()
    with RunStore(tmp_path) as store:
        assert store.runs() == [make(9, "failed")]


def test_a_file_of_its_own_that_a_reader_found_is_looked_at_again(tmp_path):
    with RunStore(tmp_path) as writer, writer.lock():
        for i in (7, 8):
            writer.put(make(i).key, array_file(make(i), {"z": LONG}))  # not yet noted
        reader = RunStore(tmp_path)
        assert list(reader.recover([make(7).key, make(8).key])) == [make(7).key, make(8).key]
    with RunStore(tmp_path) as writer:
        writer.add(make(7), {"z": Z})  # packed now, its own file removed
        assert not paths(tmp_path, make(7).key)[0].exists()
    assert reader.counts() == {"done": 2}
    reader.close()
    with RunStore(tmp_path) as store:
        assert store.get(make(7).key) == make(7)
        assert [len(store.outputs(make(i).key)["z"]) for i in (7, 8)] == [7, 20_000]


def test_what_a_full_disk_kept_from_the_index_does_not_replace_what_came_after(tmp_path):
    first = RunStore(tmp_path)
    first.add(make(1), {"z": Z})
    db = first._index._db
    db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0]}")

    def fail_twice():
        with first.lock():
            for i in (2, 3):
                run = Run(**{**vars(make(i, "failed")), "error": "x" * 3000})
                first.record(run, first.put(run.key, array_file(run, {})))

    with pytest.raises(StudyError, match="full"):
        fail_twice()
    with RunStore(tmp_path) as second:
        second.add(make(2), {"z": Z})
    db.execute("PRAGMA max_page_count = 1000")
    first.close()
    with RunStore(tmp_path) as store:
        assert store.get(make(2).key) == make(2) and store.counts() == {"done": 2, "failed": 1}


# --- is there a writer?


def damaged_row(root) -> None:
    """Let a row be wrong in a way that only looking at all rows finds, with no sum of the file to find it."""
    with RunStore(root) as store:
        for i in range(3):
            store.add(make(i), {"z": Z})
    (root / SUM).unlink()
    with sqlite3.connect(root / INDEX) as db:
        db.execute("UPDATE runs SET status = 'fone' WHERE key = ?", (make(1).key,))
    db.close()


@pytest.mark.parametrize(
    "who", ["12345 on a-node-that-is-no-more", f"{os.getppid()} on {socket.gethostname()}"]
)
def test_the_name_a_dead_writer_left_keeps_nobody_from_looking(tmp_path, who):
    damaged_row(tmp_path)
    (tmp_path / LOCK).write_text(f"{who}\n")
    with RunStore(tmp_path) as store, pytest.warns(TamisWarning, match="2 of its rows are sound"):
        assert store.counts() == {"done": 3}


def test_a_reader_who_trusted_a_writer_looks_when_he_is_gone(tmp_path):
    damaged_row(tmp_path)
    with RunStore(tmp_path) as reader:
        handle = seized(tmp_path)
        assert held(tmp_path) and reader.counts() == {"done": 2, "fone": 1}
        released(handle)
        assert not held(tmp_path)
        with pytest.warns(TamisWarning, match="2 of its rows are sound"):
            assert reader.counts() == {"done": 3}


def test_where_the_disk_knows_no_locks_the_name_is_believed(tmp_path, monkeypatch):
    def none(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    assert not held(tmp_path)
    monkeypatch.setattr("tamis.runs.locks.fcntl.flock", none)
    (tmp_path / LOCK).write_text(f"{os.getpid()} on {socket.gethostname()}\n")
    assert held(tmp_path)
    (tmp_path / LOCK).write_text("")
    assert not held(tmp_path)


def test_a_reader_who_asks_for_the_writer_at_that_instant_keeps_none_out(tmp_path, monkeypatch):
    released(seized(tmp_path))
    asking = os.open(tmp_path / LOCK, os.O_RDONLY)
    fcntl.flock(asking, fcntl.LOCK_SH)
    monkeypatch.setattr("tamis.runs.locks.time.sleep", lambda _: fcntl.flock(asking, fcntl.LOCK_UN))
    try:
        released(seized(tmp_path))
    finally:
        os.close(asking)
