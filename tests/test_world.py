"""What one run leaves behind is gone before the next; what it takes is limited; what it returns are numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.campaign import evaluate
from tamis.errors import StudyError
from tamis.pool import Workers
from tamis.simulation import find, numbers
from tamis.store import RunStore

MODELS = Path(__file__).parent / "models"
POISON = find("poison.py:poison", MODELS)
GREEDY = find("greedy.py:greedy", MODELS)
HOWS = [how for how in POISON.inputs["how"].choices if how != "nothing"]


def test_no_run_leaves_a_trace_in_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # forty-seven ways to spoil a process, each followed by a run that looks around; one worker does them all
    said = tmp_path / "said"
    monkeypatch.setenv("POISON_LOG", str(said))
    asked: list[dict[str, Any]] = [{"how": "nothing", "number": -1.0}]
    for i, how in enumerate(HOWS):
        asked += [{"how": how, "number": float(i)}, {"how": "nothing", "number": float(i)}]
    runs = evaluate(POISON, asked, RunStore(tmp_path / "runs"), executor=1)
    assert [(run.inputs["how"], run.error) for run in runs if run.status != "done"] == []
    worlds = [json.loads("{" + line.split(" {", 1)[1]) for line in said.read_text().splitlines()]
    assert len(worlds) == len(asked)
    traces = {
        asked[i]["how"]: [name for name in worlds[0] if worlds[0][name] != worlds[i + 1][name]]
        for i in range(len(worlds) - 1)
    }
    assert {how: found for how, found in traces.items() if found} == {}


def test_a_poisoned_worker_gives_the_bytes_of_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POISON_LOG", raising=False)
    asked = [
        {"how": how, "number": 1.0}
        for how in ("seed", "drawn", "seterr", "python drawn", "nothing", "folder")
    ]
    found = []
    for n in (1, 2):
        store = RunStore(tmp_path / str(n))
        evaluate(POISON, asked, store, executor=n)
        found.append([store.outputs(run.key)["world"].tobytes() for run in store.runs()])
    assert found[0] == found[1] and len(set(found[0])) == 1


@pytest.mark.parametrize("how", ["array", "python", "program"])
def test_a_run_that_takes_too_much_memory_is_ended_and_recorded_as_such(how: str, tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    asked = [{"how": how, "megabytes": 2000.0}, {"how": how, "megabytes": 1.0}]
    with Workers(1) as workers:
        greedy, modest = evaluate(GREEDY, asked, store, executor=workers, memory=600e6)
    assert (greedy.status, greedy.error) == ("memory", "it took more than the 0.6 GB of memory allowed")
    assert modest.status == "done"
    assert RunStore(tmp_path).counts() == {"done": 1, "memory": 1}


def test_memory_is_a_positive_number() -> None:
    with pytest.raises(StudyError, match="positive number of bytes, found -1"):
        evaluate(GREEDY, [], RunStore("unused"), memory=-1)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.array([1 + 2j]), "complex numbers: return two outputs"),
        (1j, "complex"),
        (np.ma.array([1.0, 2.0], mask=[False, True]), "masked values"),
        (np.array(["1.5"]), "found text"),
        ("1.5", "found text"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "dates: return seconds"),
        (np.zeros(2, dtype=[("a", float), ("b", float)]), "records"),
        ([{}], "Python objects"),
        ([[1.0], [1.0, 2.0]], "output F is no array"),
    ],
)
def test_outputs_that_are_no_numbers_are_refused_by_name(value: Any, words: str) -> None:
    with pytest.raises(StudyError, match=f"output F.*{words}|{words}"):
        numbers("F", value)


def test_outputs_that_are_numbers_are_taken() -> None:
    for value in (True, 3, np.float32(2.5), [1, 2], np.ma.array([1.0, 2.0])):
        assert np.array_equal(numbers("F", value), np.asarray(value))


@pytest.mark.parametrize("how", ["surrogate", "unprintable", "unprintable physics", "complex"])
def test_an_error_that_cannot_be_written_costs_its_run_only(how: str, tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    bad, good = evaluate(GREEDY, [{"how": how}, {"how": "array", "megabytes": 1.0}], store, executor=1)
    wanted = {
        "surrogate": ("crashed", r"RuntimeError: cannot read caf\udce9"),
        "unprintable": ("crashed", "Unprintable: (its text cannot be had: ZeroDivisionError)"),
        "unprintable physics": ("failed", "(its text cannot be had: ZeroDivisionError)"),
        "complex": (
            "crashed",
            "StudyError: output held must be an array of numbers, found complex numbers: ",
        ),
    }[how]
    assert bad.status == wanted[0] and bad.error.startswith(wanted[1]) and good.status == "done"
    again = RunStore(tmp_path)
    (again.root / "runs.sqlite").unlink()
    with pytest.warns(UserWarning, match="rebuilt"):
        assert {run.error for run in again.runs()} == {bad.error, ""}
