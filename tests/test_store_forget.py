"""Runs are removed from a store that is damaged: nothing else goes with them, or it is told."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from tamis.cli.stores import print_gc
from tamis.errors import TamisWarning
from tamis.runs.index import SUM
from tamis.runs.segments import segment_path, sizes
from tamis.runs.store import INDEX, Run, RunStore
from tests.shelf import spots

Z = np.linspace(0.0, 1.0, 7)


def make(i: int) -> Run:
    key = f"{i * 2654435761 % 2**32:08x}" * 4
    return Run(key, "model.py:ball", "1", {"a": 0.1 * i, "law": "hertz"}, "done", 1.5)


KEYS = [make(i).key for i in range(6)]


@pytest.fixture
def root(tmp_path) -> Path:
    """A store of six runs in two segments, four and two."""
    with RunStore(tmp_path / "runs") as store, store.lock():
        for i in range(6):
            if i == 4:
                store._tail.sync()
                store._tail.new_segment()
            store.add(make(i), {"z": Z * i})
    return tmp_path / "runs"


def left(root: Path) -> list[int]:
    """Return which of the runs a store has, and can read."""
    with RunStore(root) as store:
        there = [i for i, key in enumerate(KEYS) if store.get(key) is not None]
        for i in there:
            np.testing.assert_array_equal(store.outputs(KEYS[i])["z"], Z * i)
        assert len(store) == len(there)
    return there


@pytest.mark.parametrize("change", ["segment = 7", "offset = offset + 512", "key = 'f' || substr(key, 2)"])
@pytest.mark.parametrize("sealed", [True, False])
def test_a_run_whose_row_is_damaged_stays_when_its_neighbour_goes(root, change, sealed):
    with sqlite3.connect(root / INDEX) as db:
        db.execute(f"UPDATE runs SET {change} WHERE key = ?", (KEYS[3],))
    db.close()
    if not sealed:
        (root / SUM).unlink()
    with (
        RunStore(root) as store,
        pytest.warns(TamisWarning, match="5 of its rows are sound, 1 runs were read"),
    ):
        store.forget([KEYS[0]])
    assert left(root) == [1, 2, 3, 4, 5]


def test_a_damaged_neighbour_that_goes_too_is_told(root):
    spots(root)[KEYS[2]].flip(60)
    with RunStore(root) as store, pytest.warns(TamisWarning) as told:
        store.forget([KEYS[0]])
    (text,) = [str(one.message) for one in told]
    assert "1 array files" in text and f"{KEYS[2]} in " in text and "damaged" in text
    assert left(root) == [1, 3, 4, 5]


def test_a_damaged_run_that_is_to_go_needs_no_word(root):
    spots(root)[KEYS[2]].flip(60)
    with RunStore(root) as store:
        store.forget([KEYS[2]])
    assert left(root) == [0, 1, 3, 4, 5]


@pytest.mark.parametrize(("lost", "stay"), [(1, [4, 5]), (2, [0, 1, 2, 3])])
def test_the_rows_of_a_lost_segment_can_be_removed(root, lost, stay, capsys):
    segment_path(root, lost).unlink()
    assert print_gc(root, yes=True, failed_folders=False, orphans=False) == 0
    assert "rows of the index without a file" in capsys.readouterr().out
    assert left(root) == stay
    with RunStore(root) as store:
        store.add(make(9), {"z": Z})
        assert store.without_file() == [] and len(store) == len(stay) + 1


def test_the_rows_are_removed_when_all_segments_are_lost(root):
    shutil.rmtree(root / "segments")
    assert print_gc(root, yes=True, failed_folders=False, orphans=False) == 0
    assert left(root) == []


def test_the_number_of_a_lost_segment_is_not_given_again_while_rows_speak_of_it(root):
    segment_path(root, 2).unlink()
    with (
        RunStore(root) as store,
        pytest.warns(TamisWarning, match=f"1 array files .*{KEYS[5]} in .*: missing"),
    ):
        store.forget([KEYS[0], KEYS[4]])  # the rest of the first moves, into a third
    assert left(root) == [1, 2, 3] and list(sizes(root)) == [3]
