"""Texts that no encoding takes, errors that cannot say what they are, letters that a terminal obeys."""

from __future__ import annotations

import io
import json
import os
import subprocess
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tamis.cli.main import main
from tamis.errors import TamisWarning, visible
from tamis.runs.campaign import evaluate
from tamis.runs.records import array_file, read_record
from tamis.runs.store import INDEX, Damaged, Run, RunStore
from tamis.simulation import find
from tests.shelf import spots
from tests.spring import write_study

MODEL = """
import os
import numpy as np
import tamis

class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")

class MutePhysics(tamis.SimulationError):
    def __str__(self):
        return None

@tamis.simulator(outputs={"z": "m"}, inputs={"how": tamis.Port("how", choices=("fine", "bytes", "mute", "physics"))})
def speaks(*, how="fine", a=1.0):
    if how == "bytes":
        raise RuntimeError("cannot read " + os.fsdecode(b"caf\\xe9"))
    if how == "mute":
        raise Mute
    if how == "physics":
        raise MutePhysics
    return {"z": np.array([a])}
"""


@pytest.fixture
def speaks(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    return find("model.py:speaks", tmp_path)


@pytest.mark.parametrize("executor", [0, 1, "threads"])
def test_no_text_of_an_error_stops_a_campaign_or_wedges_its_store(tmp_path, speaks, executor):
    wanted = [{"how": how} for how in ("bytes", "mute", "physics", "fine")]
    root = tmp_path / "runs"
    with ThreadPoolExecutor(1) as threads, RunStore(root) as store:
        runs = evaluate(speaks, wanted, store, executor=threads if executor == "threads" else executor)
    assert [run.status for run in runs] == ["crashed", "crashed", "failed", "done"]
    assert runs[0].error == "RuntimeError: cannot read caf\\udce9"
    assert runs[1].error == "Mute: (its text cannot be had: RuntimeError)"
    assert runs[2].error == "(its text cannot be had: TypeError)"
    with RunStore(root) as store:
        assert {run.key: run for run in store.runs()} == {run.key: run for run in runs}
    (root / INDEX).unlink()
    with pytest.warns(TamisWarning, match="rebuilt"):
        again = evaluate(speaks, wanted, RunStore(root), executor=0, retry_failed=True)
    assert [run.error for run in again] == [run.error for run in runs]


def test_a_record_that_is_already_bad_on_disk_is_read(tmp_path):
    """Stores of before hold the half character itself."""
    run = Run("a" * 32, "s", "1", {"law": "x"}, "crashed", 0.0, "?")
    old = array_file(run, {})
    bad = old.replace(b'"error": "?"', b'"error": "\\udce9"')
    record = json.loads(bad[bad.index(b"{") : bad.rindex(b"}") + 1])
    assert record["error"] == "\udce9"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("run.json", json.dumps(record))
    assert read_record(buffer.getvalue(), run.key).error == "\\udce9"
    path = tmp_path / "runs" / "aa" / f"{run.key}.npz"
    path.parent.mkdir(parents=True)
    path.write_bytes(buffer.getvalue())
    with pytest.warns(TamisWarning, match="1 runs were read"), RunStore(tmp_path / "runs") as store:
        assert store.runs()[0].error == "\\udce9"


@pytest.mark.parametrize(
    "record",
    [
        {"simulator": 3},
        {"status": "fine"},
        {"inputs": [1]},
        {"inputs": {"a": [1]}},
        {"inputs": {"a": True}},
        {"error": None},
        {"more": 1},
        {"key": "b" * 32},
        {"inputs": {"a": 1.0}},
    ],
    ids=str,
)
def test_a_record_that_is_none_is_damaged_and_no_traceback(record):
    whole = {"key": "a" * 32, "simulator": "s", "version": "1", "status": "done", "error": "", "code": ""}
    whole |= {"inputs": {"law": "x"}}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("run.json", json.dumps(whole | record))
    with pytest.raises(Damaged):
        read_record(buffer.getvalue(), "a" * 32)


def test_what_a_terminal_would_obey_is_spelled_out(tmp_path, monkeypatch, capsys):
    assert visible("a\x1b]0;evil\x07b\x9b31m\udce9é\n") == "a\\x1b]0;evil\\x07b\\x9b31m\\udce9é\n"
    write_study(tmp_path)
    model = (tmp_path / "model.py").read_text()
    (tmp_path / "model.py").write_text(
        model.replace("breaks at", "breaks\\x1b[31m at").replace("k > 8.0", "k > 0")
    )
    monkeypatch.chdir(tmp_path)
    assert main(["run", "study.toml", "--to", "runs", "-j", "0"]) == 0
    assert main(["status", "study.toml"]) == 0
    said = capsys.readouterr().out
    assert "breaks\\x1b[31m at" in said and "\x1b" not in said


def test_a_packed_log_is_found_by_the_command_that_status_names(tmp_path, speaks):
    store = RunStore(tmp_path / "runs")
    (run,) = evaluate(speaks, [{"how": "mute"}], store, executor=1)
    assert spots(store.root)[run.key].path.suffix == ".tar"
    said = subprocess.run(store.log_place(run.key).split(), capture_output=True, text=True, check=True).stdout
    assert "Traceback" in said and said == store.log(run.key)


def test_a_warning_with_half_a_character_is_kept(tmp_path):
    run = Run("a" * 32, "s\udce9", "1", {"file": os.fsdecode(b"caf\xe9")}, "done", 0.0, warnings=("\udce9",))
    with RunStore(tmp_path) as store:
        store.add(run, {})
    assert RunStore(tmp_path).runs() == [run] and run.warnings == ("\\udce9",)
    assert Path(tmp_path / INDEX).exists()
