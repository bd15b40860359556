"""Runs that keep the observed numbers only: the same results, and never a number that was not kept."""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tamis
from tamis.adapters.observed import ObservedOnly, observed
from tamis.cli.main import main
from tamis.errors import SimulationError, StudyError
from tamis.observables import SCALARS, SIGNALS, Custom
from tamis.runs.campaign import evaluate
from tamis.runs.provenance import code_of, code_warning, outdated
from tamis.runs.store import RunStore
from tamis.simulation import batched, find
from tamis.study.api import Study
from tests.shelf import contents

MODEL = """
import os
import numpy as np
import tamis

@tamis.simulator(outputs={"t": "s", "x": "m", "peak": "m", "field": ""}, units={"k": "N/m"})
def swing(*, k=4.0, span=2.0):
    with open(os.environ.get("SWING_RUNS", os.devnull), "a") as file:
        file.write("run\\n")
    t = np.linspace(0.0, span, 2001)
    x = np.cos(np.sqrt(k) * t)
    return {"t": t, "x": x, "peak": x.max(), "field": np.zeros((50, 50))}
"""
STUDY = """
tamis = 1

[model]
simulator = "model.py:swing"
keep = "observed"

[parameters]
k = { prior = "uniform", low = 1.0, high = 9.0, unit = "N/m" }

[[experiment]]
name = "short"
observe = [ { output = "x", how = "at", times = [0.5, 1.0, 1.5], noise = { kind = "gaussian", sd = 0.01 } } ]
synthetic = { inputs = { k = 4.0 }, noise = { kind = "gaussian", sd = 0.01 }, seed = 7 }

[[predict]]
name = "long"
conditions = { span = 4.0 }
observe = [ { output = "x", how = "final" }, { output = "x", how = "at", times = [3.5] }, { output = "peak" } ]
draws = 5

[design]
n = 12

[surrogate]
method = "kriging"
min_q2 = 0.1

[inference]
n = 50
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "study.toml").write_text(STUDY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWING_RUNS", str(tmp_path / "made.txt"))
    return tmp_path


def made(folder: Path) -> int:
    """Return how many runs were made since the last time it was asked."""
    path = folder / "made.txt"
    n = len(path.read_text().split()) if path.exists() else 0
    path.unlink(missing_ok=True)
    return n


def edited(folder: Path, old: str, new: str) -> None:
    path = folder / "study.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def artifacts(folder: Path) -> dict[str, bytes]:
    return {
        p.name: p.read_bytes() for p in (folder / "results" / "study").glob("*.npz") if "runs" not in p.name
    }


def test_results_are_the_same_bytes_and_runs_are_small(folder):
    Study.load("study.toml").run("prediction", executor=0)
    lean = artifacts(folder)
    reduced = sum(map(len, contents(folder / "runs").values()))
    n = made(folder)
    edited(folder, 'keep = "observed"\n', "")
    Study.load("study.toml").run("prediction", executor=0)
    assert artifacts(folder) == lean and made(folder) == n - 1  # the synthetic test is one whole run
    whole = sum(map(len, contents(folder / "runs").values())) - reduced
    assert reduced - 53_000 < 0.06 * whole  # that whole run takes 52.5 kB; a record is some 1.5 kB


def test_every_kind_of_observable_of_a_signal_is_reduced():
    """All but an output as it is, which is kept: also measures of accelerations, whose signals are the long ones."""
    t = np.arange(0.0, 20.0, 0.01)
    outputs = {"t": t, "x": np.sin(5 * t) * np.exp(-0.1 * t), "y": np.ones(1)}

    @tamis.simulator(outputs={"t": "s", "x": "m/s2", "y": ""})
    def shaken(*, k=1.0):
        return outputs

    made = [make("x") for name, make in SCALARS.items() if name != "value"]
    made += [make("x", [0.5, 1.0]) for make in SIGNALS.values()]
    lean = observed(shaken, made)
    assert lean.plain == [] and len(lean.kept) == len(made)
    kept = lean.reduced(outputs)
    assert sum(array.nbytes for array in kept.values()) < 1000
    for observable in made:
        np.testing.assert_array_equal(lean.observable(observable)(kept), observable(outputs))
    again = json.loads(lean.address.removeprefix("observed:"))[1]
    assert len(again[0]) == len(made)


def test_workers_and_a_batch_door_reduce_too(folder, tmp_path):
    whole = find("model.py:swing", folder)
    lean = observed(whole, [tamis.at("x", [0.5, 1.0]), tamis.peak("x"), tamis.value("peak")])
    with RunStore(tmp_path / "other") as store:
        (run,) = tamis.evaluate(lean, [{"k": 2.0}], store, executor=1)
        outputs = store.outputs(run.key)
    assert run.version == lean.version != whole.version and set(outputs) == set(lean.outputs)
    raw = whole.run({"k": 2.0}, tmp_path)
    for observable in (tamis.at("x", [0.5, 1.0]), tamis.peak("x"), tamis.value("peak")):
        kept = lean.observable(observable)
        assert kept(outputs).tobytes() == observable(raw).tobytes() and set(kept.needs) <= set(outputs)
    ball = find(str(Path(__file__).parents[2] / "examples" / "01_ball" / "model.py") + ":ball")
    short = observed(ball, [tamis.at("z", [0.1, 0.2])])
    (name,) = short.outputs
    short_batch = batched(short, [name])
    assert short_batch is not None and not batched(lean, lean.outputs)
    e = np.array([0.7, 0.8])
    wanted = [tamis.at("z", [0.1, 0.2])(ball.run({"e": v}, tmp_path)) for v in e]
    assert short_batch.batch({"e": e, "drag": np.full(2, 0.0), "h0": np.full(2, 1.0)})[
        name
    ].shape == np.shape(wanted)


def test_its_version_says_what_is_kept(folder):
    whole = find("model.py:swing", folder)
    one = observed(whole, [tamis.at("x", [0.5], unit="m")])
    assert one.version == observed(whole, [tamis.at("x", [0.5], unit="mm")] * 2).version  # a unit is a label
    others = (
        [tamis.at("x", [0.6])],
        [tamis.at("x", [0.5], extend="hold")],
        [tamis.final("x")],
        [tamis.value("x")],
    )
    assert len({one.version, *(observed(whole, other).version for other in others)}) == 5
    again = pickle.loads(pickle.dumps(one))
    assert (again.version, list(again.outputs), again.doc) == (one.version, list(one.outputs), whole.doc)
    mine = Custom(lambda outputs: outputs["x"][0], ("x",), name="observe.py:first")
    assert list(observed(whole, [mine]).outputs) == ["x"]  # no code travels: what it reads is kept
    tamis.check_simulator(one, {"k": 2.0}, {"k": 3.0})
    built_in = find("tamis:dem.impact")  # whose code is compared with that of stored runs
    lean = code_of(observed(built_in, [tamis.peak("F_n")]))
    assert lean not in ("", code_of(built_in))  # how numbers are observed is a part of it


def test_another_observable_runs_again_and_whole_runs_are_used_where_they_are(folder):
    Study.load("study.toml").run("observables", executor=0)
    assert made(folder) == 12 + 3  # the synthetic one, and the two repeated at the end
    edited(folder, "times = [0.5, 1.0, 1.5]", "times = [0.5, 1.0, 1.6]")
    Study.load("study.toml").run("observables", executor=0)
    assert made(folder) == 12 + 2
    edited(folder, 'keep = "observed"', 'keep = "all"')
    Study.load("study.toml").run("observables", executor=0)
    assert made(folder) == 12 + 2
    edited(folder, 'keep = "all"', 'keep = "observed"')
    edited(folder, "times = [0.5, 1.0, 1.6]", "times = [0.25]")
    Study.load("study.toml").run("observables", executor=0)
    assert made(folder) == 0
    edited(folder, "[0.25], noise", '[0.25], label = "other", noise')  # only a label
    Study.load("study.toml").run("observables", executor=0)
    assert made(folder) == 0


def test_what_cannot_be_observed_says_why(folder, tmp_path):
    lean = observed(find("model.py:swing", folder), [tamis.at("x", [3.0]), tamis.final("x")])
    outputs = lean.run({"span": 2.0}, tmp_path)
    with pytest.raises(
        SimulationError, match="x is asked for at t from 3 to 3, outside its span in the run, 0 to 2"
    ):
        lean.observable(tamis.at("x", [3.0]))(outputs)
    assert lean.observable(tamis.final("x"))(outputs).shape == (1,)


def test_an_unknown_definition_is_refused(folder):
    whole = find("model.py:swing", folder)
    for wrong in (["Exec", {"output": "x"}], ["Final", {"out": "x"}]):
        with pytest.raises(StudyError, match="cannot be made"):
            find(f"observed:{json.dumps([whole.address, [[json.dumps(wrong)], []]])}")


def test_export_import_merge_and_gc(folder, capsys):
    study = Study.load("study.toml")
    assert isinstance(study.simulator, ObservedOnly)
    study.run("observables", executor=0)
    assert main(["export", "study.toml", "plain"]) == 0
    assert main(["merge", "joined", "runs"]) == 0
    assert contents(folder / "joined") == contents(folder / "runs")
    assert main(["gc", "study.toml", "--orphans"]) == 0
    said = capsys.readouterr().out
    assert "orphans" not in said and "without any run" not in said
    made(folder)
    before = contents(folder / "runs")
    (folder / "runs").rename(folder / "gone")
    shutil.rmtree(folder / "results")
    Study.load("study.toml").run("synthetic", executor=0)  # which an export of reduced runs does not take
    lines = (folder / "plain" / "runs.csv").read_text().splitlines()
    mine = [line for line in lines if "+observed." in line]
    (folder / "plain" / "runs.csv").write_text("\n".join([lines[0], *mine]) + "\n")
    assert main(["import", "study.toml", "plain"]) == 0
    assert "the study's design asks for 12 runs; the table has 12" in capsys.readouterr().out
    assert set(contents(folder / "runs")) == set(before)
    made(folder)
    Study.load("study.toml").run("observables", executor=0)
    assert made(folder) == 0


def test_whole_runs_from_elsewhere_are_taken(folder, capsys):
    edited(folder, 'keep = "observed"', 'keep = "all"')
    Study.load("study.toml").run("runs", executor=0)
    assert main(["export", "study.toml", "plain"]) == 0
    (folder / "runs").rename(folder / "gone")
    edited(folder, 'keep = "all"', 'keep = "observed"')
    assert main(["import", "study.toml", "plain"]) == 0
    made(folder)
    Study.load("study.toml").run("observables", executor=0)
    assert made(folder) == 0


def test_check_says_the_size_both_ways(folder, capsys):
    assert main(["check", "study.toml"]) == 0
    assert 'leaves 2.05 kB (53.8 kB with [model] keep = "all")' in capsys.readouterr().out
    edited(folder, 'keep = "observed"\n', "")
    assert main(["check", "study.toml"]) == 0
    assert 'leaves 53.8 kB (2.05 kB with [model] keep = "observed")' in capsys.readouterr().out


def test_runs_of_a_built_in_simulator_that_other_code_made_are_made_again(tmp_path):
    lean = observed(find("tamis:dem.impact"), [tamis.peak("F_n")])
    with RunStore(tmp_path / "runs") as store:
        (run,) = evaluate(lean, [{}], store, executor=0)
        store.add(replace(run, code="another", seconds=77.0), store.outputs(run.key))
        assert outdated(lean, [store.get(run.key)]) and not code_warning([run])
        (again,) = evaluate(lean, [{}], store, executor=0)
        assert again.code == run.code == code_of(lean) and again.seconds != 77.0
