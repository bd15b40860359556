"""What a simulator warns of in its runs is told in the report, with how many runs did."""

from __future__ import annotations

import html
import json
import re

import pytest

from tamis.cli.main import main
from tamis.results.records import DesignRuns
from tamis.results.worries import worries
from tamis.runs.provenance import OTHER_CODE
from tamis.runs.store import Run

MODEL = """
import warnings
import tamis

@tamis.simulator(outputs={"y": "m"})
def line(*, a=1.0, limit=0.5):
    if a > limit:
        warnings.warn(f"body moves by {a} m in a step", tamis.TamisWarning, stacklevel=2)
    return {"y": a}
"""
STUDY = """
tamis = 1
[model]
simulator = "model.py:line"
[parameters]
a = { prior = "uniform", low = 0.0, high = 1.0 }
[[experiment]]
name = "one"
observe = [ { output = "y", data = "y.csv", y = "y", noise = { kind = "known", sd = 0.1 } } ]
[design]
method = "sobol"
n = 16
[inference]
n = 16
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "y.csv").write_text("y\n0.5\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(text):
    return re.findall(r"(\d+) of (\d+) runs warned: body moves by 0\.\d+ m in a step", text)


def outcome(folder):
    return json.loads((folder / "results" / "study" / "manifest.json").read_text())["result"]["worries"]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_warned_runs_are_told_and_told_again(folder, capsys, workers):
    main(["run", "study.toml", "-j", workers, "--to", "observables"])
    assert told(capsys.readouterr().out) == [("8", "16")]
    main(["run", "study.toml", "-j", workers])
    said = told(capsys.readouterr().out)
    assert len(said) == 1 and int(said[0][1]) > 16  # the sampler's runs are runs of the study
    assert told(html.unescape((folder / "results" / "study" / "report.html").read_text())) == said
    before = outcome(folder)
    main(["run", "study.toml", "-j", workers])
    assert told(capsys.readouterr().out) == said
    (folder / "results" / "study" / "manifest.json").unlink()  # all stages again, all runs from the store
    main(["run", "study.toml", "-j", workers])
    assert told(capsys.readouterr().out) == said and outcome(folder) == before


def test_runs_of_a_prediction_are_told_too(folder, capsys):
    head = STUDY.partition("[[experiment]]")[0]
    predict = '[[predict]]\nname = "next"\ndraws = 20\nobserve = [ { output = "y", how = "final" } ]\n'
    (folder / "study.toml").write_text(head + predict)
    main(["run", "study.toml", "-j", "2"])
    said = capsys.readouterr().out
    ((warned, runs),) = told(said)
    assert int(runs) == 20 and 0 < int(warned) < 20
    main(["run", "study.toml", "-j", "2"])
    assert told(capsys.readouterr().out) == [(warned, runs)]


def test_runs_that_do_not_warn_are_not_told(folder, capsys):
    (folder / "study.toml").write_text(
        STUDY.replace("[parameters]", "[model.inputs]\nlimit = 2.0\n[parameters]")
    )
    main(["run", "study.toml", "-j", "0", "--to", "observables"])
    assert "warned" not in capsys.readouterr().out


def test_the_most_frequent_kinds_are_told_and_the_others_counted():
    kinds = ["gap {} m", "speed {} m/s", "mass {} kg", "heat {} J", "noise {} V"]
    runs = tuple(
        Run(str(i), "m", "1", {}, "done", 0.0, warnings=tuple(k.format(i / 7) for k in kinds[i:]))
        for i in range(5)
    )
    design = DesignRuns((), None, ("one", "two"), (runs, runs[:2]))
    texts = [w.text for w in worries(design, runs[:1], runs[1:2], None, None, None, None, [], [])]
    assert texts == [
        "5 of 5 runs warned: noise 0.0 V",
        "4 of 5 runs warned: heat 0.0 J",
        "3 of 5 runs warned: mass 0.0 kg",
        "And 2 more kinds of warnings, told in the logs of the runs.",
    ]


def test_runs_of_one_version_made_by_different_code_are_told() -> None:
    runs = [Run(str(i), "model.py:line", "1", {}, "done", 0.1, code=code) for i, code in enumerate("aab")]
    told = [worry.text for worry in worries(None, runs, (), None, None, None, None, (), ())]
    assert [text for text in told if "3 of 3 runs of model.py:line, version 1, were made by 2" in text]
    campaign = f"2 runs of model.py:line {OTHER_CODE}, and its version did not"  # which tells it better
    told = [worry.text for worry in worries(None, runs, (), None, None, None, None, (campaign,), ())]
    assert told == [campaign]
