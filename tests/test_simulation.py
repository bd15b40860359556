"""Functions as simulators: ports, checks, both interfaces, names."""

import os
import pickle
import pty
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import tamis
from tamis.cli.main import main
from tamis.families import builtins
from tamis.simulation import batched, complete, source_version

MODEL = """
    import numpy as np
    import tamis

    @tamis.simulator(
        outputs={"t": "s", "z": "m"},
        units={"h": "m"},
        inputs={"e": tamis.Port("e", bounds=(0.0, 1.0)), "kind": tamis.Port("kind", choices=("fast", "slow"))},
    )
    def ball(*, e=0.8, h=1.0, n=3, kind="fast"):
        '''A ball.'''
        return {"t": np.arange(n) / n, "z": np.full(n, h * e)}

    @ball.batch
    def many(e, h, n, kind):
        return {"t": np.broadcast_to(np.arange(3) / 3, (len(e), 3)), "z": np.repeat((h * e)[:, None], 3, axis=1)}

    @tamis.simulator(outputs={"y": ""})
    def sick(*, what=0.0):
        if what == 1:
            return {"y": np.nan}
        if what == 2:
            return {"q": 1.0}
        if what == 3:
            return {}
        if what == 4:
            return 1.0
        return {"y": 1.0}

    def plain(x):
        return x
"""


@pytest.fixture
def model(tmp_path):
    (tmp_path / "model.py").write_text(textwrap.dedent(MODEL))
    return tmp_path


def test_ports_come_from_the_signature(model):
    ball = tamis.find("model.py:ball", model)
    assert ball.name == "model.py:ball" and ball.doc == "A ball."
    assert ball.inputs["h"].unit == "m" and ball.inputs["h"].default == 1.0
    assert ball.inputs["kind"].kind == "choice" and ball.outputs["z"].unit == "m"


def test_contract(model):
    tamis.check_simulator(tamis.find("model.py:ball", model), {"e": 0.5})


def test_contract_notices_a_batch_that_disagrees(model):
    ball = tamis.find("model.py:ball", model)
    try:
        ball.batch(lambda e, h, n, kind: {"t": np.zeros((len(e), 3)), "z": np.zeros((len(e), 3))})
        with pytest.raises(AssertionError, match="batch and run disagree"):
            tamis.check_simulator(ball)
    finally:
        ball.batch(ball._batch)


def test_inputs_are_completed_and_typed(model):
    full = complete(tamis.find("model.py:ball", model), {"h": 2})
    assert full == {"e": 0.8, "h": 2.0, "n": 3, "kind": "fast"}
    assert isinstance(full["h"], float) and isinstance(full["n"], int)


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ({"hh": 1.0}, tamis.StudyError, 'no input "hh"; did you mean "h"'),
        ({"kind": "fats"}, tamis.StudyError, 'cannot be "fats"; did you mean "fast"'),
        ({"h": "tall"}, tamis.StudyError, "must be a number"),
        ({"e": 1.5}, tamis.SimulationError, "outside"),
        ({"h": float("nan")}, tamis.SimulationError, "outside"),
    ],
)
def test_bad_inputs(model, inputs, error, message):
    with pytest.raises(error, match=message):
        tamis.find("model.py:ball", model).run(inputs, Path())


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        (1, tamis.SimulationError, "1 of 1 values are not finite"),
        (2, tamis.StudyError, 'returned "q", which is not declared'),
        (3, tamis.StudyError, "did not return its declared output y"),
        (4, tamis.StudyError, "must return a dict"),
    ],
)
def test_bad_outputs(model, what, error, message):
    with pytest.raises(error, match=message):
        tamis.find("model.py:sick", model).run({"what": what}, Path())


def test_rows_of_a_batch_out_of_bounds_are_nan(model):
    ball = tamis.find("model.py:ball", model)
    z = ball.batch({"e": np.array([0.5, 2.0, np.nan])})["z"]
    assert np.isfinite(z[0]).all() and np.isnan(z[1:]).all()


def test_batch_is_offered_only_for_its_outputs(model):
    ball = tamis.find("model.py:ball", model)
    assert batched(ball, ("t", "z")) is ball and batched(ball, ("other",)) is None
    assert batched(tamis.find("model.py:sick", model), ("y",)) is None


def test_travels_by_address(model):
    ball = tamis.find("model.py:ball", model)
    assert pickle.loads(pickle.dumps(ball)) is ball


def test_version_is_what_the_code_says(tmp_path):
    a, b, c = (tmp_path / name for name in "abc")
    a.write_text("x = 1\n")
    b.write_text("# a comment\nx  =  1\n")
    c.write_text("x = 2\n")
    assert source_version(a) == source_version(b) != source_version(c)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model.py:bal", 'did you mean "ball"'),
        ("model.py:plain", "not decorated with @tamis.simulator"),
        ("modle.py:ball", "no file"),
        ("tamis:dem.impct", 'did you mean "tamis:dem.impact"'),
        ("dem.impact", 'did you mean "tamis:dem.impact"'),
    ],
)
def test_names_that_are_not_found(model, name, message):
    with pytest.raises(tamis.StudyError, match=message):
        tamis.find(name, model)


def test_a_file_that_does_not_import(tmp_path):
    (tmp_path / "model.py").write_text("1 / 0\n")
    with pytest.raises(tamis.StudyError, match=r"model\.py cannot be imported: ZeroDivisionError"):
        tamis.find("model.py:ball", tmp_path)


def test_builtins_are_listed_without_importing_them():
    assert "dem.impact" in builtins() and builtins()["dem.impact"]


def test_tamis_sim_tells_warnings_plainly_and_refuses_what_is_out_of_bounds(tmp_path, monkeypatch, capsys):
    (tmp_path / "model.py").write_text(
        "import warnings\n"
        "import tamis\n"
        "@tamis.simulator(outputs={'y': 'm'}, inputs={'x': tamis.Port('x', bounds=(0, 2))})\n"
        "def f(*, x=1.0):\n"
        "    warnings.warn(f'x is {x:g}', tamis.TamisWarning)\n"
        "    return {'y': [x]}\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["sim", "model.py:f", "x=0.5"]) == 0
    assert "warning: x is 0.5\n" in capsys.readouterr().err
    assert main(["sim", "model.py:f"]) == 0
    said = capsys.readouterr().out
    assert "0 to 2" in said and "--run` runs it once" in said
    assert main(["sim", "model.py:f", "--run"]) == 0  # all inputs at their defaults
    assert "value" in capsys.readouterr().out
    assert main(["sim", "--run"]) == 2
    assert main(["sim", "model.py:f", "x=3"]) == 2
    assert main(["sim", "model.py:f", "x=1", "x=2"]) == 2
    assert '"x" is given twice' in capsys.readouterr().err


BROKEN = """
import tamis
from tamis.replays import Replay

@tamis.simulator(outputs={"z": ""}, inputs={"x": tamis.Port("x", bounds=(0.0, 1.0))})
def shows(*, x=0.5):
    return {"z": x}

@shows.replay
def show(*, x, fps):
    return 1 / 0

state = []

@tamis.simulator(outputs={"z": ""})
def remembers(*, x=0.5):
    if x > 1.0:
        state.append(x)
        raise tamis.SimulationError("no")
    return {"z": x + len(state)}

@tamis.simulator(outputs={"z": ""})
def trips(*, x=0.5):
    return {"z": 1.0 / x}
"""


def test_a_replay_or_a_failure_that_breaks_the_contract_is_found(tmp_path):
    (tmp_path / "broken.py").write_text(BROKEN)
    shows, remembers, trips = (
        tamis.find(f"broken.py:{n}", tmp_path) for n in ("shows", "remembers", "trips")
    )
    with pytest.raises(AssertionError, match="its replay raises ZeroDivisionError"):
        tamis.check_simulator(shows)
    with pytest.raises(AssertionError, match="output z differs"):
        tamis.check_simulator(remembers, failing={"x": 2.0})
    with pytest.raises(AssertionError, match=r"trips raises ZeroDivisionError .* expected SimulationError"):
        tamis.check_simulator(trips, failing={"x": 0.0})
    with pytest.raises(AssertionError, match=r"trips gives outputs at {'x': 2.0}, expected SimulationError"):
        tamis.check_simulator(trips, failing={"x": 2.0})


SLOW = """
import time

import tamis


@tamis.simulator(outputs={"x": "m"})
def slow(a: float = 1.0):
    "Wait a little."
    time.sleep(0.5)
    return {"x": a}
"""


def test_a_terminal_sees_that_a_single_run_goes_on_and_for_how_long(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(SLOW)
    monkeypatch.chdir(tmp_path)
    ours, theirs = pty.openpty()
    call = [sys.executable, "-m", "tamis", "sim", "model.py:slow", "--run"]
    done = subprocess.run(
        call, stdout=subprocess.PIPE, stderr=theirs, check=True, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    assert b"x" in done.stdout and b"running" not in done.stdout
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "running" in shown and "0:00:00" in shown
    quiet = subprocess.run(call, capture_output=True, check=True)
    assert b"running" not in quiet.stderr
