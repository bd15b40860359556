"""Where runs failed, a surrogate's posterior is weighed by the probability that they succeed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tamis import Study
from tamis.cli.main import main

MODEL = """
import tamis

@tamis.simulator(outputs={"y": "m"})
def beam(*, a=0.5, b=0.5):
    "Buckles where both are large."
    if a + b > 1.3:
        raise tamis.SimulationError("buckled")
    return {"y": a + 0.5 * b}
"""
STUDY = """
tamis = 1
seed = 3
[model]
simulator = "model.py:beam"
[parameters]
a = { prior = "uniform", low = 0.0, high = HIGH }
b = { prior = "uniform", low = 0.0, high = HIGH }
[[experiment]]
name = "test"
observe = [ { output = "y", data = "test.csv", y = "y", noise = { kind = "gaussian", sd = 0.05 } } ]
[design]
n = 64
[surrogate]
method = "pce"
[inference]
n = 1000
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "test.csv").write_text("y [m]\n0.95\n")
    for name, high in (("failing", "1.0"), ("well", "0.64")):
        (tmp_path / f"{name}.toml").write_text(STUDY.replace("HIGH", high))
        ignored = STUDY.replace("HIGH", high).replace('"pce"', '"pce"\nfailures = "ignore"')
        (tmp_path / f"{name}_ignored.toml").write_text(ignored)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_posterior_leaves_the_region_where_runs_fail(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Study.load("failing.toml").run(executor=0)
    ignored = Study.load("failing_ignored.toml").run("posterior", executor=0)
    assert found.posterior is not None
    assert ignored.posterior is not None
    inside = [(p.flat.sum(axis=1) > 1.3).mean() for p in (ignored.posterior, found.posterior)]
    assert inside[0] > 0.25
    assert inside[1] < 0.2 * inside[0]
    assert found.posterior.diagnostics["success_map"].shape == (1, 21, 21)
    assert "success_map" not in ignored.posterior.diagnostics
    assert any("probability that a run succeeds" in worry.text for worry in found.worries)
    assert "probability that a run succeeds" in (folder / "results" / "failing" / "report.html").read_text()
    assert "is blind there." in "".join(worry.text for worry in ignored.worries)


def test_without_failures_nothing_changes_to_the_byte(folder: Path) -> None:
    for name in ("well", "well_ignored"):
        assert main(["run", f"{name}.toml", "-j", "0"]) == 0
    results = folder / "results"
    names = {path.name for path in (results / "well").glob("*.npz")}
    assert "posterior.npz" in names
    for name in names:
        assert (results / "well" / name).read_bytes() == (results / "well_ignored" / name).read_bytes()
    posterior = np.load(results / "well" / "posterior.npz")
    assert not [key for key in posterior.files if re.search("success", key)]
