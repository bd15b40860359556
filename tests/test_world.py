"""What one run leaves behind is gone before the next; what it takes is limited; what it returns are numbers."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tamis.contract import check_simulator
from tamis.errors import StudyError
from tamis.runs import world
from tamis.runs.campaign import check_repeatable, evaluate
from tamis.runs.pool import Workers
from tamis.runs.store import RunStore
from tamis.simulation import find, numbers

MODELS = Path(__file__).parent / "models"
POISON = find("poison.py:poison", MODELS)
GREEDY = find("greedy.py:greedy", MODELS)
HOWS = [how for how in POISON.inputs["how"].choices if how != "nothing"]


def test_no_run_leaves_a_trace_in_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # eighty-eight ways to spoil a process, each followed by a run that looks around; one worker does them all
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


@pytest.mark.parametrize("counts", [True, False])
def test_names_are_put_back_whether_or_not_python_counts_changes(
    counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not counts:
        monkeypatch.setattr(world, "_counts_changes", lambda _: False)
    module: Any = ModuleType("watched")
    module.f, module.limit, module.cache = len, 3, None
    table = world._Table(vars(module), partial(setattr, module))
    assert not table.restore()
    module.cache, module.more = {}, 1  # filled in and added: let be
    assert not table.restore() and module.cache == {} and module.more == 1
    module.f, module.limit = max, 4
    assert table.restore() and (module.f, module.limit) == (len, 3) and not table.restore()
    del module.f
    assert table.restore() and module.f is len


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


MODELS_WITH_MEMORY = {
    "counts": "N = 0\n",
    "remembers": "LAST = [0.0]\n",
    "draws": "import random\n",
    "draws with numpy": "import numpy as np\n",
    "draws anew": "import numpy as np\n",
}
BODIES = {
    "counts": "    global N\n    N += 1\n    return {'z': x + N}\n",
    "remembers": "    z = x + LAST[0]\n    LAST[0] = x\n    return {'z': z}\n",
    "draws": "    return {'z': x + random.random()}\n",
    "draws with numpy": "    return {'z': x + np.random.random()}\n",
    "draws anew": "    return {'z': x + np.random.default_rng().random()}\n",
}


def stateful(folder: Path, how: str) -> Any:
    (folder / "model.py").write_text(
        f"import tamis\n{MODELS_WITH_MEMORY[how]}\n\n@tamis.simulator(outputs={{'z': ''}})\n"
        f"def f(*, x: float = 1.0):\n{BODIES[how]}"
    )
    return find("model.py:f", folder)


@pytest.mark.parametrize("how", list(BODIES))
def test_a_model_that_depends_on_more_than_its_inputs_is_refused(how: str, tmp_path: Path) -> None:
    simulator = stateful(tmp_path, how)
    with pytest.raises(
        AssertionError, match=r"output z differs between two runs of the same inputs.*inputs alone"
    ):
        check_simulator(simulator, {"x": 2.0}, {"x": 3.0})
    store = RunStore(tmp_path / "runs")
    with Workers(1) as workers:
        runs = evaluate(simulator, [{"x": 1.0}, {"x": 2.0}, {"x": 3.0}], store, executor=workers)
        with pytest.raises(
            StudyError, match=r"gives another z when it is run once more at x = 1.0; a run may depend"
        ):
            check_repeatable(simulator, [runs[0], runs[-1]], store, executor=workers)


def test_a_second_door_that_gives_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "import tamis\n\n@tamis.simulator(outputs={'z': ''})\ndef f(*, x: float = 1.0):\n    return {'z': x}\n\n"
        "@f.batch\ndef many(*, x):\n    return {'z': x + (x > 2.5)}\n"
    )
    simulator = find("model.py:f", tmp_path)
    check_simulator(simulator, {"x": 2.0})  # one point does not tell
    with pytest.raises(AssertionError, match="batch and run disagree on z"):
        check_simulator(simulator, {"x": 2.0}, {"x": 3.0})
