"""Comparing studies of the same measurements."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import tamis
from tamis import Study
from tamis.cli.main import main
from tamis.results.records import Panel, load_records
from tamis.study.compare import compare_studies, held_parameter
from tamis.study.reader import read

BALL = Path(__file__).parents[2] / "examples" / "01_ball"


@pytest.fixture
def ball(tmp_path):
    folder = tmp_path / "ball"
    shutil.copytree(BALL, folder, ignore=shutil.ignore_patterns("runs", "results", "__pycache__"))
    text = (folder / "study.toml").read_text().replace('method = "pce"', 'method = "none"')
    (folder / "study.toml").write_text(text.replace("n = 2000", "n = 1000").replace("n = 128", "n = 8"))
    vacuum = text[: text.index("[parameters]")] + text[text.index("[parameters]") :]
    drag = next(line for line in vacuum.splitlines() if line.startswith("drag"))
    vacuum = vacuum.replace(drag + "\n", "").replace(
        '"model.py:ball" ', '"model.py:ball"\ninputs = { drag = 0.06 } '
    )
    (folder / "held.toml").write_text(vacuum.replace("n = 2000", "n = 1000").replace("n = 128", "n = 8"))
    return folder


@pytest.mark.statistical  # two standard errors of a check that costs nothing; fixed seed
def test_nested_models_are_found_and_agree(ball, capsys):
    studies = [Study.load(ball / name) for name in ("held.toml", "study.toml")]
    assert held_parameter(*studies) == ("drag", 0.06) and held_parameter(*reversed(studies)) is None
    found = compare_studies([read(ball / name) for name in ("held.toml", "study.toml")], executor=0)
    assert [c.agrees for c in found.nested] == [True]
    assert found.factors[0, 1] == -found.factors[1, 0] != 0
    assert sum(found.table.column("probability")) == pytest.approx(1.0)
    # mixed prediction: between the two models' means, with at least the smaller spread
    mixed = {(p.series, p.label): p for p in load_records(found.folder / "prediction.npz", Panel)}
    for key, panel in mixed.items():
        means = [next(p.mean for p in r.panels if (p.series, p.label) == key) for r in found.results]
        assert np.all(panel.mean >= np.min(means, axis=0) - 0.01) and np.all(
            panel.mean <= np.max(means, axis=0) + 0.01
        )
    assert len(mixed) == 3 and (found.folder / "report.html").is_file()
    assert json.loads((found.folder / "comparison.json").read_text())["nested"][0]["parameter"] == "drag"
    capsys.readouterr()
    assert (
        main(["compare", str(ball / "held.toml"), str(ball / "study.toml")]) == 0
    )  # up to date: prints the record
    assert "held is study with drag = 0.06" in capsys.readouterr().out


def test_what_is_not_nested_is_not_called_so(ball):
    outer = Study.load(ball / "study.toml")
    text = (ball / "held.toml").read_text()
    imposed = text.replace("inputs = { drag = 0.06 }", "").replace("h0 = 1.0 }", "h0 = 1.0, drag = 0.15 }")
    (ball / "imposed.toml").write_text(imposed)
    assert held_parameter(Study.load(ball / "imposed.toml"), outer) == ("drag", 0.15)
    (ball / "noisy.toml").write_text(text.replace('sd = "sigma" } } ]', 'variance = "sigma" } } ]', 1))
    assert held_parameter(Study.load(ball / "noisy.toml"), outer) is None
    (ball / "wider.toml").write_text(text.replace("high = 0.95", "high = 0.96"))
    assert held_parameter(Study.load(ball / "wider.toml"), outer) is None


def test_different_measurements_are_refused(ball):
    data = ball / "data" / "other.csv"
    text = (ball / "data" / "drop-1.0.csv").read_text().splitlines()
    data.write_text("\n".join(text[:-1]) + "\n1.45,0.9\n")
    other = (ball / "held.toml").read_text().replace("data/drop-1.0.csv", "data/other.csv")
    (ball / "other.toml").write_text(other)
    with pytest.raises(tamis.StudyError, match="not held against the same measurements"):
        compare_studies([read(ball / "study.toml"), read(ball / "other.toml")])


def test_a_study_is_not_compared_with_itself(ball, capsys):
    assert main(["compare", str(ball / "study.toml"), str(ball / "study.toml")]) == 2
    assert "two or more different studies" in capsys.readouterr().err
