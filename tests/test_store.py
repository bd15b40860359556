"""The run store: what it keeps, what it survives, what it refuses."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import shutil
import sqlite3
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.errors import StudyError, TamisWarning
from tamis.runs.keys import run_key
from tamis.runs.store import INDEX, Run, RunStore, array_file, paths
from tamis.simulation import Port, find
from tests.shelf import contents, spots

MODELS = Path(__file__).parent / "models"
LINE = find("plain.py:line", MODELS)
Z = np.linspace(0.0, 1.0, 7)
LONG = np.linspace(0.0, 1.0, 20_000)  # too large to be packed


def make(i: int, status="done") -> Run:
    key = f"{i * 2654435761 % 2**32:08x}" * 4
    error = "" if status == "done" else "no luck"
    return Run(key, "model.py:ball", "1", {"a": 0.1 * i, "n": i, "law": "hertz"}, status, 1.5, error)


def fill(root: Path, n: int = 5, z=Z) -> list[Run]:
    runs = [make(i) for i in range(n)] + [make(n, "failed"), make(n + 1, "crashed"), make(n + 2, "timeout")]
    with RunStore(root) as store, store.lock():
        for run in runs:
            store.add(run, {"z": z * run.inputs["n"], "t": Z} if run.status == "done" else None)
    return sorted(runs, key=lambda run: run.key)


def without_seconds(runs: list[Run]) -> list[Run]:
    return [Run(**{**vars(run), "seconds": 0.0}) for run in runs]


def test_what_was_added_is_read_back_exactly(tmp_path):
    runs = fill(tmp_path / "runs")
    store = RunStore(tmp_path / "runs")
    assert store.runs() == runs and len(store) == 8
    assert store.counts() == {"crashed": 1, "done": 5, "failed": 1, "timeout": 1}
    assert store.get(make(3).key) == make(3)
    assert store.get("0" * 31 + "x") is None
    assert store.get_many([make(2).key, "nobody", make(4).key]) == {make(i).key: make(i) for i in (2, 4)}
    assert [run.status for run in store.runs(status="failed")] == ["failed"]
    assert store.runs(simulator="other") == [] and len(store.runs(simulator="model.py:ball")) == 8
    outputs = store.outputs(make(3).key)
    assert set(outputs) == {"z", "t"} and outputs["z"].tobytes() == (3 * Z).tobytes()


def test_outputs_reads_what_is_asked_and_names_what_is_not_there(tmp_path):
    fill(tmp_path)
    store = RunStore(tmp_path)
    assert list(store.outputs(make(1).key, ["t"])) == ["t"]
    with pytest.raises(StudyError, match='no output "zz"; did you mean "z"'):
        store.outputs(make(1).key, ["zz"])
    with pytest.raises(StudyError, match="has no outputs; failed: no luck"):
        store.outputs(make(5, "failed").key)
    with pytest.raises(StudyError, match="no array file"):
        store.outputs("f" * 32)


@pytest.mark.parametrize(
    "array",
    [np.float64(3.0), np.zeros((2, 3)).T, np.zeros(0), np.arange(4, dtype=np.int32), np.array(["a", "bc"])],
    ids=["number", "transposed", "empty", "integers", "words"],
)
def test_arrays_keep_shape_type_and_values(tmp_path, array):
    store = RunStore(tmp_path)
    store.add(make(1), {"x": array})
    back = store.outputs(make(1).key)["x"]
    assert back.shape == np.shape(array) and back.dtype == np.asarray(array).dtype
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize("z", [Z, LONG], ids=["packed", "own file"])
def test_an_array_file_is_a_plain_npz_with_its_record(tmp_path, z):
    fill(tmp_path, z=z)
    key = make(2).key
    path = paths(tmp_path, key)[0]
    assert path.parent.name == key[:2] and path.exists() == (z is LONG)
    if z is Z:
        subprocess.run(["tar", "xf", "segments/000001.tar", f"{key}.npz"], cwd=tmp_path, check=True)
        path = tmp_path / f"{key}.npz"
    with np.load(path) as archive:
        np.testing.assert_array_equal(archive["z"], 2 * z)
        record = json.loads(archive["run.json"])
    assert "seconds" not in record and record["inputs"] == make(2).inputs


def test_the_same_run_gives_the_same_bytes_whatever_it_took():
    runs = [Run(**{**vars(make(1)), "seconds": seconds}) for seconds in (1.0, 99.0)]
    a, b = (array_file(run, {"z": Z}) for run in runs)
    assert a == b
    with zipfile.ZipFile(io.BytesIO(a)) as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_an_interrupt_inside_a_member_is_not_hidden_by_the_archive(monkeypatch):
    archives = []

    def interrupted(archive, info, content):
        archive._writing = True  # as zipfile has it while a member is open
        archives.append(archive)
        raise KeyboardInterrupt

    monkeypatch.setattr(zipfile.ZipFile, "writestr", interrupted)
    with pytest.raises(KeyboardInterrupt):
        array_file(make(1), {"z": Z})
    archives[0]._writing = False
    archives[0].close()


def test_adding_twice_replaces(tmp_path):
    store = RunStore(tmp_path)
    store.add(make(1, "crashed"), None)
    store.add(make(1), {"z": Z})
    store.add(make(1), {"z": Z})
    assert store.counts() == {"done": 1} and store.get(make(1).key) == make(1)
    np.testing.assert_array_equal(store.outputs(make(1).key)["z"], Z)


def test_reading_an_absent_store_creates_nothing(tmp_path):
    store = RunStore(tmp_path / "runs")
    assert (
        len(store) == 0 and store.runs() == [] and store.get("a" * 32) is None and store.log("a" * 32) == ""
    )
    assert store.recover(["a" * 32]) == {}
    assert not (tmp_path / "runs").exists()


def test_a_store_may_be_moved_and_copied(tmp_path):
    runs = fill(tmp_path / "here")
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    shutil.rmtree(tmp_path / "here")
    assert RunStore(tmp_path / "there").runs() == runs


# --- the key


def test_a_key_depends_on_everything_that_matters_and_nothing_else():
    base = run_key(LINE, {"a": 0.1})
    assert len(base) == 32 and base == run_key(LINE, {"n": 3, "a": 0.1, "wait": 0})
    assert base == run_key(LINE, {"a": np.float64(0.1)})
    assert base != run_key(LINE, {"a": np.nextafter(0.1, 1)}) != run_key(LINE, {"a": 0.1, "n": 4})


def test_a_key_does_not_change_between_versions_of_tamis():
    """Stores are kept for years: what is hashed may only change with the format of the store."""
    stub = Stub(inputs={"n": Port("n", default=2), "a": Port("a", default=1.0)})
    text = b'["stub", "1", [["a", "float 0x1.999999999999ap-4"], ["n", "int 2"]]]'
    assert run_key(stub, {"a": 0.1}) == hashlib.sha256(text).hexdigest()[:32]


class Stub:
    """As much of a simulator as a key needs."""

    def __init__(self, inputs, name="stub", version="1"):
        self.inputs, self.name, self.version = inputs, name, version


def test_name_version_and_type_are_part_of_the_key():
    one, whole = {"a": Port("a", default=1.0)}, {"a": Port("a", default=1)}
    keys = {
        run_key(Stub(one), {}),
        run_key(Stub(one, name="other"), {}),
        run_key(Stub(one, version="2"), {}),
        run_key(Stub(whole), {}),
    }
    assert len(keys) == 4


def test_files_count_by_content(tmp_path):
    stub = Stub({"f": Port("f", kind="file")})
    for name, text in (("a", "one"), ("b", "one"), ("c", "two")):
        (tmp_path / name).write_text(text)
    a, b, c = (run_key(stub, {"f": str(tmp_path / name)}) for name in "abc")
    assert a == b != c
    (tmp_path / "a").write_text("another")
    assert run_key(stub, {"f": str(tmp_path / "a")}) != a


def test_a_point_out_of_bounds_has_a_key_too_but_a_missing_input_is_refused():
    stub = Stub({"a": Port("a", default=1.0, bounds=(0, 2)), "n": Port("n", default=1), "b": Port("b")})
    wild = [{"a": a, "n": n, "b": 0.0} for a in (3.0, 4.0, math.nan, math.inf) for n in (1, 2, math.inf)]
    assert len({run_key(stub, point) for point in wild}) == len(wild)
    with pytest.raises(StudyError, match='"b" was not given'):
        run_key(stub, {"a": 3.0})


@given(st.floats(0, 1), st.floats(0, 1))
@settings(derandomize=True, max_examples=50)
def test_keys_are_equal_exactly_when_numbers_are(a, b):
    assert (run_key(LINE, {"a": a}) == run_key(LINE, {"a": b})) == (a.hex() == b.hex())


# --- damage


def damage_index(kind: str, root: Path) -> None:
    index = root / INDEX
    match kind:
        case "missing":
            index.unlink()
        case "empty":
            index.write_bytes(b"")
        case "garbage":
            index.write_bytes(b"not a database " * 1000)
        case "truncated":
            os.truncate(index, index.stat().st_size // 2)
        case "pages":
            content = bytearray(index.read_bytes())
            content[4096:] = b"\xff" * (len(content) - 4096)
            index.write_bytes(content)
        case "stale journal":
            index.write_bytes(b"not a database " * 1000)
            (root / f"{INDEX}-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"x" * 2000)


@pytest.mark.parametrize("kind", ["missing", "empty", "garbage", "truncated", "pages", "stale journal"])
def test_a_lost_index_is_rebuilt_from_the_array_files(tmp_path, kind):
    runs = fill(tmp_path, 60)
    damage_index(kind, tmp_path)
    store = RunStore(tmp_path)
    with pytest.warns(TamisWarning, match="63 runs were read from their array files"):
        found = store.runs()
    assert without_seconds(found) == without_seconds(runs)
    assert all(math.isnan(run.seconds) for run in found)
    store.add(make(200), {"z": Z})
    store.close()
    assert len(RunStore(tmp_path)) == 64


def test_an_index_damaged_under_the_writer_is_rebuilt_too(tmp_path):
    fill(tmp_path, 60)
    store = RunStore(tmp_path)
    assert len(store) == 63
    damage_index("pages", tmp_path)
    with pytest.warns(TamisWarning, match="rebuilt"):
        store.add(make(200), {"z": Z})
    assert store.get(make(200).key) == make(200) and len(store) == 64


def test_an_index_of_a_later_format_is_refused(tmp_path):
    fill(tmp_path)
    with sqlite3.connect(tmp_path / INDEX) as db:
        db.execute("PRAGMA user_version = 7")
    db.close()
    with pytest.raises(StudyError, match="format 7"):
        len(RunStore(tmp_path))


def damage_file(kind: str, path: Path) -> None:
    content = bytearray(path.read_bytes())
    match kind:
        case "truncated":
            del content[len(content) // 2 :]
        case "empty":
            content.clear()
        case "garbage":
            content = bytearray(b"garbage" * 100)
        case "other run":
            content = bytearray(paths(path.parent.parent, make(2).key)[0].read_bytes() + b" ")
    path.write_bytes(content)


@pytest.mark.parametrize("kind", ["truncated", "empty", "garbage", "other run"])
def test_a_damaged_array_file_counts_as_absent_and_is_reported(tmp_path, kind):
    fill(tmp_path, z=LONG)
    path = paths(tmp_path, make(1).key)[0]
    damage_file(kind, path)
    store = RunStore(tmp_path)
    with pytest.warns(TamisWarning, match=f"1 array files.*{path.name}"):
        found = store.recover([make(i).key for i in range(5)])
    assert set(found) == {make(i).key for i in (0, 2, 3, 4)}
    assert not path.exists() and path.with_suffix(".npz.bad").exists()


def test_a_missing_array_file_is_reported(tmp_path):
    fill(tmp_path, z=LONG)
    paths(tmp_path, make(1).key)[0].unlink()
    with pytest.warns(TamisWarning, match="missing"):
        assert make(1).key not in RunStore(tmp_path).recover([make(1).key])


def test_a_file_the_index_does_not_know_is_adopted(tmp_path):
    store = RunStore(tmp_path)
    store.add(make(1), {"z": Z})
    path = paths(tmp_path, make(2).key)[0]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(array_file(make(2), {"z": Z}))
    found = store.recover([make(1).key, make(2).key, make(3).key])
    assert without_seconds(list(found.values())) == without_seconds([make(1), make(2)])
    assert math.isnan(found[make(2).key].seconds)
    store.close()
    assert len(RunStore(tmp_path)) == 2


@pytest.mark.parametrize("z", [Z, LONG], ids=["packed", "own file"])
def test_every_flipped_byte_is_harmless_or_noticed(tmp_path, z):
    store = RunStore(tmp_path)
    store.add(make(1), {"z": z})
    spot = spots(tmp_path)[make(1).key]
    rng = np.random.default_rng(1)
    sound = spot.path.read_bytes()
    places = range(0, spot.size, 3) if z is Z else rng.integers(spot.size - 800, spot.size, 200)
    noticed = 0
    for place in places:
        spot.path.write_bytes(sound)
        spot.flip(int(place), int(rng.integers(1, 256)))
        try:
            outputs = store.outputs(make(1).key, ["z"])
        except StudyError as error:
            noticed += "is damaged" in str(error)
        else:
            assert outputs["z"].tobytes() == z.tobytes()
    # the sum covers all that is packed; of a large file only what is read is looked at
    assert noticed == len(places) if z is Z else noticed > 40


@pytest.mark.parametrize("z", [Z, LONG], ids=["packed", "own file"])
def test_reading_damaged_files_names_all_of_them_and_says_what_to_do(tmp_path, z):
    with RunStore(tmp_path) as store, store.lock():
        for i in range(5):
            store.add(make(i), {"z": z + i})
    for i in (1, 3):  # one bit of one number: only the check sum can tell
        spot = spots(tmp_path)[make(i).key]
        spot.flip(spot.read().index((z + i).tobytes()) + 20)
    with pytest.raises(StudyError, match=rf"damaged \(.*those of 1 other runs: {make(3).key}; run again"):
        store.outputs(make(1).key)
    with pytest.warns(TamisWarning, match="2 array files of the run store are missing or damaged"):
        assert set(store.recover([make(i).key for i in range(5)])) == {make(i).key for i in (0, 2, 4)}


# --- refusals


def test_a_file_in_place_of_the_folder_is_explained(tmp_path):
    (tmp_path / "runs").write_text("")
    with pytest.raises(StudyError, match=r'found a file: ".*runs"'):
        RunStore(tmp_path / "runs").runs()
    with pytest.raises(StudyError, match="cannot write to the run store"):
        RunStore(tmp_path / "runs").add(make(1), None)
    with pytest.raises(StudyError, match="cannot write to the run store"):
        RunStore(tmp_path / "runs" / "below").add(make(1), None)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_can_be_read_and_is_not_written(tmp_path):
    runs = fill(tmp_path / "runs")
    for folder in (tmp_path / "runs", *(tmp_path / "runs").glob("*/")):
        folder.chmod(0o500)
    try:
        assert RunStore(tmp_path / "runs").runs() == runs
        with pytest.raises(StudyError, match="cannot write to the run store"):
            RunStore(tmp_path / "runs").add(make(50), {"z": Z})
    finally:
        for folder in (tmp_path / "runs", *(tmp_path / "runs").glob("*/")):
            folder.chmod(0o700)


@pytest.mark.parametrize("z", [Z, LONG], ids=["packed", "own file"])
def test_a_full_disk_leaves_the_store_as_it_was(tmp_path, monkeypatch, z):
    runs = fill(tmp_path)
    before = contents(tmp_path)

    def full(handle, content, offset):
        os.pwrite(handle, content[:700], offset)
        raise OSError(errno.ENOSPC, "No space left on device")

    store = RunStore(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("tamis.files.write", full)
        with pytest.raises(StudyError, match="No space left on device"):
            store.add(make(1), {"z": z})
    assert contents(tmp_path) == before and not list((tmp_path / ".work").glob("*"))
    assert store.runs() == runs


def full(store: RunStore) -> None:
    """Let the index have no more pages than it has."""
    db = store._index._db
    db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0]}")


def test_a_full_index_keeps_the_array_files_for_later(tmp_path):
    runs = fill(tmp_path)
    store = RunStore(tmp_path)
    assert len(store) == 8
    full(store)
    long = {f"{i}": "x" * 1000 for i in range(20)}
    big = Run(**{**vars(make(50)), "inputs": long})
    with pytest.raises(StudyError, match="database or disk is full"):
        store.add(big, {"z": Z})
    later = RunStore(tmp_path)
    assert without_seconds(later.runs()) == without_seconds(sorted([*runs, big], key=lambda run: run.key))
    assert without_seconds(list(later.recover([big.key]).values())) == without_seconds([big])


def test_two_writers_are_told_of_each_other(tmp_path):
    first, second = RunStore(tmp_path), RunStore(tmp_path)
    with first.lock():
        with pytest.raises(StudyError, match=rf"being written by process {os.getpid()} on"):
            second.add(make(1), None)
        first.add(make(2), {"z": Z})
        assert without_seconds(second.runs()) == without_seconds([make(2)])  # found in its segment
    second.add(make(1), None)
    assert len(second) == 2


def test_notes_reach_the_index_although_the_campaign_breaks_off(tmp_path):
    store = RunStore(tmp_path)

    def broken_off():
        with store.lock():
            store.record(make(1), store.put(make(1).key, array_file(make(1), {"z": Z})))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert RunStore(tmp_path).runs() == [make(1)]
