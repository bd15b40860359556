"""One bit of an index, a segment or an array file changes: nothing wrong is read, all is told and mended at once."""

from __future__ import annotations

import os
import shutil
import sqlite3
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tamis.cli.stores import merge
from tamis.errors import StudyError, TamisWarning
from tamis.runs.index import SUM
from tamis.runs.keys import digest
from tamis.runs.segments import segment_path, sizes, walk
from tamis.runs.store import INDEX, Run, RunStore, array_file, paths
from tests.shelf import first_format, spots

SEGMENT = "segments/000001.tar"
LONG = np.linspace(0.0, 1.0, 10_000)


def make(i: int, status="done") -> Run:
    inputs = {"e": 0.77 + i, "n": i}
    key = digest("model.py:ball", "1", [["e", f"float {inputs['e'].hex()}"], ["n", f"int {i}"]])
    error = "" if status == "done" else f"no luck with {i}"
    return Run(key, "model.py:ball", "1", inputs, status, 1.5 + i, error)


RUNS = [make(i) for i in range(40)] + [
    make(i, ("failed", "crashed", "timeout")[i % 3]) for i in range(40, 50)
]
KEYS = [run.key for run in RUNS]


def outputs(run: Run) -> dict[str, np.ndarray]:
    return {"z": np.arange(3.0) + run.inputs["e"]} if run.status == "done" else {}


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """A store whose runs are packed, but for two that are too large, closed as a campaign does it."""
    root = tmp_path_factory.mktemp("sound") / "runs"
    with RunStore(root) as store, store.lock():
        for run in RUNS:
            store.record(run, store.put(run.key, array_file(run, outputs(run)), f"log of {run.key}".encode()))
        for i in (100, 101):
            store.add(make(i), {"z": LONG * i})
    return root


ALL = {run.key: run for run in (*RUNS, make(100), make(101))}
COUNTS = Counter(run.status for run in ALL.values())


def looked_at(root: Path) -> tuple[dict, list[str]]:
    """Return what status, a campaign and an export find in a store, and what they were told."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TamisWarning)
        with RunStore(root) as store:
            got = store.get_many(KEYS[::-1])
            counts = store.counts()
        with RunStore(root) as store:
            there = store.recover(list(ALL))
            listed = {run.key: run for run in store.runs()}
            arrays = {}
            for key, run in there.items():
                if run.status == "done":
                    try:
                        arrays[key] = store.outputs(key)["z"].tobytes()
                    except StudyError as error:
                        caught.append(warnings.WarningMessage(error, TamisWarning, "", 0))
    return {"got": got, "counts": counts, "there": there, "listed": listed, "arrays": arrays}, [
        str(warning.message) for warning in caught
    ]


def usable(found: dict) -> set[str]:
    """Return the runs that a campaign need not repeat."""
    return {key for key, run in found["there"].items() if run.status != "done"} | set(found["arrays"])


def as_it_was(found: dict, told: list[str]) -> None:
    """Assert that what was found is right, but for durations that are told to be lost and runs told to be damaged."""

    def same(a: Run, b: Run) -> bool:
        return vars(a) | {"seconds": 0} == vars(b) | {"seconds": 0} and (a.seconds == b.seconds or bool(told))

    for runs in (found["got"], found["there"], found["listed"]):
        assert all(same(run, ALL[key]) for key, run in runs.items())
    for key, array in found["arrays"].items():
        wanted = outputs(ALL[key])["z"] if key in KEYS else LONG * ALL[key].inputs["n"]
        assert array == wanted.tobytes()
    missing = set(ALL) - usable(found)
    assert not missing or told
    assert all(any(key in text for text in told) for key in missing), (missing, told)
    if not missing:
        assert set(found["got"]) == set(KEYS) and set(found["listed"]) == set(found["there"]) == set(ALL)
        assert found["counts"] == COUNTS or told


def flips(path: Path, number: int, seed: int) -> list[tuple[int, int]]:
    rng = np.random.default_rng(seed)
    return [(int(rng.integers(path.stat().st_size)), 1 << int(rng.integers(8))) for _ in range(number)]


def flip(path: Path, place: int, mask: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        (old,) = file.read(1)
        file.seek(place)
        file.write(bytes([old ^ mask]))


def trial(sound: Path, folder: Path, name: str, place: int, mask: int) -> None:
    root = folder / "runs"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(sound, root)
    flip(root / name, place, mask)
    found, told = looked_at(root)
    as_it_was(found, told)
    lost = set(ALL) - usable(found)
    with RunStore(root) as store, store.lock():  # a campaign repeats what is damaged
        for key in lost:
            store.add(ALL[key], outputs(ALL[key]) if key in KEYS else {"z": LONG * ALL[key].inputs["n"]})
    found, told = looked_at(root)
    assert told == [], (name, place, mask, told)
    assert set(found["there"]) == set(ALL) and len(found["arrays"]) == COUNTS["done"]
    as_it_was(found, ["durations may be lost"])


def named(sound: Path, name: str) -> str:
    return str(paths(sound, make(100).key)[0].relative_to(sound)) if name == "own file" else name


@pytest.mark.parametrize("name", [INDEX, SUM, SEGMENT, "own file"])
def test_a_flipped_bit_is_told_and_mended_or_harmless(sound, tmp_path, name):
    for place, mask in flips(sound / named(sound, name), 8, 1):
        trial(sound, tmp_path, named(sound, name), place, mask)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number"), [(INDEX, 680), (SUM, 20), (SEGMENT, 800), ("own file", 200)])
def test_1700_flipped_bits_are_told_and_mended_or_harmless(sound, tmp_path, name, number):
    """700 of the index and its sum, 1000 of segments and array files, other places than in the short test."""
    for place, mask in flips(sound / named(sound, name), number, 2):
        trial(sound, tmp_path, named(sound, name), place, mask)


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        "status = 'failed'",
        'inputs = \'{"e": 4.77, "n": 3}\'',
        "inputs = '{'",
        "seconds = 1e9",
        "error = CAST(x'ff' AS TEXT)",
        "key = 'f' || substr(key, 2)",
        "offset = offset + 512",
        "segment = 7",
        "crc = 0",
        "bytes = 'many'",
        "sum = 0",
    ],
)
def test_a_changed_row_is_told_and_read_from_its_file(sound, tmp_path, change, sealed):
    """What one bit can do, and more, whether or not the file's own sum is up to date."""
    root = tmp_path / "runs"
    shutil.copytree(sound, root)
    statement = f"UPDATE OR IGNORE runs SET {change} WHERE key = '{make(3).key}'"
    try:
        with sqlite3.connect(root / INDEX) as db:
            db.execute(statement)
    except sqlite3.IntegrityError:
        pytest.skip("SQLite itself refuses that")
    finally:
        db.close()
    if sealed:
        (root / SUM).unlink()
    found, told = looked_at(root)
    assert len(told) == 1 and "51 of its rows are sound, 1 runs were read from their array files" in told[0]
    as_it_was(found, told)
    assert looked_at(root)[1] == []


def test_several_damages_are_mended_in_one_pass(sound, tmp_path):
    root = tmp_path / "runs"
    shutil.copytree(sound, root)
    with sqlite3.connect(root / INDEX) as db:
        db.execute("UPDATE runs SET status = 'failed' WHERE key IN (?, ?)", (make(3).key, make(4).key))
    db.close()
    for i in (10, 11, 12):
        spots(root)[make(i).key].flip(200)
    path = paths(root, make(100).key)[0]
    path.write_bytes(path.read_bytes()[:-1])
    with RunStore(root) as store, pytest.warns(TamisWarning) as told:
        there = store.recover(list(ALL))
    assert set(ALL) - set(there) == {make(i).key for i in (10, 11, 12, 100)}
    texts = [str(one.message) for one in told]
    assert len(texts) == 2 and path.name in texts[0] and "3 array files" in texts[1]
    assert "49 of its rows are sound, 2 runs were read from their array files" in texts[0]


def test_a_header_in_a_segment_that_is_damaged_costs_nothing(sound, tmp_path):
    root = tmp_path / "runs"
    shutil.copytree(sound, root)
    spot = spots(root)[make(7).key]
    spot.flip(-512)  # the first letter of its name
    with RunStore(root) as store:
        assert set(store.recover(list(ALL))) == set(ALL)
    (root / INDEX).unlink()
    with (
        pytest.warns(TamisWarning, match="52 runs were read from their array files"),
        RunStore(root) as store,
    ):
        assert set(store.recover(list(ALL))) == set(ALL)


@pytest.mark.parametrize("those", [[49], [48, 49], [7, 8], [0, 20, 21, 22]])
@pytest.mark.parametrize("logs", [False, True])
def test_headers_that_are_damaged_side_by_side_or_at_the_end_cost_nothing_without_an_index(
    sound, tmp_path, those, logs
):
    """Whole array files are found, told by nobody, and not cut off by the next writer; at most logs are lost."""
    root = tmp_path / "runs"
    shutil.copytree(sound, root)
    for i in those:
        flip(root / SEGMENT, spots(sound)[KEYS[i]].offset - 512, 1)
        if logs:
            flip(root / SEGMENT, spots(sound)[KEYS[i]].offset - 3 * 512, 1)  # that of its log
    (root / INDEX).unlink()
    with pytest.warns(TamisWarning, match="52 runs were read from their array files") as told:
        assert RunStore(root).counts() == COUNTS
    assert (f"{SEGMENT}, byte" in str(told[0].message)) == logs
    with RunStore(root) as store:
        store.add(make(201), {"z": LONG[:10]})
    assert (root / SEGMENT).stat().st_size > (sound / SEGMENT).stat().st_size
    found, told = looked_at(root)
    as_it_was({**found, "listed": {key: found["listed"][key] for key in ALL}}, ["durations are lost"])
    assert set(found["there"]) == set(ALL) and len(found["arrays"]) == COUNTS["done"] and told == []


@pytest.mark.parametrize("i", [7, 49])
def test_a_sound_row_is_kept_whatever_became_of_the_header(sound, tmp_path, i):
    root = tmp_path / "runs"
    shutil.copytree(sound, root)
    spots(root)[KEYS[i]].flip(-512)
    with sqlite3.connect(root / INDEX) as db:
        db.execute("UPDATE runs SET status = 'failed' WHERE key = ?", (KEYS[3],))
    db.close()
    with RunStore(root) as store:
        with pytest.warns(TamisWarning, match="51 of its rows are sound, 1 runs were read"):
            assert store.counts() == COUNTS
        assert store.get(KEYS[i]) == RUNS[i] and store.log(KEYS[i]) == f"log of {KEYS[i]}"


def test_padding_that_is_cut_off_costs_nothing_while_there_is_a_row(sound, tmp_path):
    root = tmp_path / "runs"
    shutil.copytree(sound, root)
    end = walk(sound / SEGMENT)[0][-1]
    os.truncate(root / SEGMENT, end.offset + end.size)
    flip(root / INDEX, 5000, 1)
    with RunStore(root) as store:
        with pytest.warns(TamisWarning, match="was rebuilt"):
            assert store.counts() == COUNTS
        store.add(make(201), {"z": LONG[:10]})
    with RunStore(root) as store:
        assert set(store.recover([*ALL, make(201).key])) == {*ALL, make(201).key}


def test_joining_takes_a_run_whose_header_is_damaged_and_tells_what_it_cannot_take(sound, tmp_path):
    root = tmp_path / "runs"
    shutil.copytree(sound, root)
    for i in (7, 20, 21, 49):
        flip(root / SEGMENT, spots(sound)[KEYS[i]].offset - 512, 1)
    with RunStore(tmp_path / "into") as store:
        done = merge(store, root)
        assert (done.copied, done.damaged) == (52, ()) and store.counts() == COUNTS
        np.testing.assert_array_equal(store.outputs(KEYS[7])["z"], outputs(RUNS[7])["z"])
        assert store.content(KEYS[7]) == RunStore(sound).content(KEYS[7])
    flip(root / SEGMENT, spots(sound)[KEYS[20]].offset + 60, 1)
    with RunStore(tmp_path / "other") as store:
        done = merge(store, root)
        assert done.copied == 51 and len(done.damaged) == 1
        assert f"{SEGMENT}, byte {spots(sound)[KEYS[20]].offset}" in done.damaged[0]


@pytest.mark.parametrize("kept", [0, 100, 511, 512, 1000, 1500, 4096])
def test_half_a_run_at_the_end_of_a_segment_is_cut_off(sound, tmp_path, kept):
    """A kill in the middle of an append."""
    root = tmp_path / "runs"
    shutil.copytree(sound, root)
    segment = segment_path(root, 1)
    size = segment.stat().st_size
    with RunStore(root) as store, store.lock():
        store.record(
            make(200), store.put(make(200).key, array_file(make(200), {"z": LONG[:600]}), b"its log")
        )
        store._noted.clear()  # killed before anything was written to the index
    os.truncate(segment, size + kept)
    with RunStore(root) as store:
        assert set(store.recover([*ALL, make(200).key])) == set(ALL)
        store.add(make(201), {"z": LONG[:10]})
        assert len(walk(segment)[0]) == 51 and walk(segment)[1] == segment.stat().st_size
        assert store.get(make(201).key) == make(201) and store.counts()["done"] == 43
    assert sizes(root) == {1: segment.stat().st_size}


def test_a_segment_that_was_cut_short_or_lost_is_told(sound, tmp_path):
    root = tmp_path / "runs"
    shutil.copytree(sound, root)
    os.truncate(segment_path(root, 1), 30_000)
    with pytest.warns(TamisWarning, match="array files of the run store are missing or damaged"):
        there = RunStore(root).recover(KEYS)
    assert 0 < len(there) < len(KEYS)
    with RunStore(root) as store, store.lock():
        for run in RUNS:
            if run.key not in there:
                store.add(run, outputs(run))
    assert sorted(sizes(root)) == [1, 2] and set(RunStore(root).recover(KEYS)) == set(KEYS)
    segment_path(root, 1).unlink()
    with pytest.warns(TamisWarning, match="missing or damaged"):
        assert set(RunStore(root).recover(KEYS)) == set(KEYS) - set(there)


def test_a_reader_who_may_not_write_mends_the_index_for_himself(sound, tmp_path):
    root = tmp_path / "runs"
    shutil.copytree(sound, root)
    flip(root / INDEX, 5000, 1)
    before = (root / INDEX).read_bytes()
    with RunStore(tmp_path / "runs") as writer, writer._locked(), RunStore(root) as reader:
        with pytest.warns(TamisWarning, match="was rebuilt"):
            assert reader.counts() == COUNTS
        assert (root / INDEX).read_bytes() == before
    assert looked_at(root)[1] != [] and looked_at(root)[1] == []


def test_a_store_of_the_first_format_goes_on_and_keeps_its_durations(sound, tmp_path):
    root = tmp_path / "runs"
    shutil.copytree(sound, root)
    first_format(root)
    with sqlite3.connect(root / INDEX) as db:  # what the first format could not notice
        db.execute("UPDATE runs SET status = 'failed' WHERE key = ?", (make(3).key,))
    db.close()
    found, told = looked_at(root)
    assert told == [] and found["listed"] == ALL
    as_it_was(found, told)
    with RunStore(root) as store:
        store.add(make(300), {"z": LONG[:5]})
        assert store.log(KEYS[0]) == f"log of {KEYS[0]}"
    assert sizes(root) and len(RunStore(root)) == 53
