"""A study whose surrogate errs alike in all tests: what these tell of the error counts wherever it answers."""

import numpy as np
import pytest

from tamis import Study
from tamis.inference.likelihood import Likelihood

MODEL = """
import numpy as np
import tamis

@tamis.simulator(outputs={"y": "m"})
def rippled(*, a=0.5, t=0.0):
    return {"y": a * (1.0 + t) + 0.3 * np.sin(60.0 * a)}  # ripples that no polynomial of second degree follows
"""
STUDY = """
tamis = 1
[model]
simulator = "model.py:rippled"
[parameters]
a = { prior = "uniform", low = 0.0, high = 1.0 }
[[experiment]]
name = "tests"
table = "y.csv"
conditions = { t = "t" }
observe = [ { output = "y", y = "y", noise = { kind = "known", sd = 0.1 } } ]
[[predict]]
name = "more"
conditions = { t = 0.4 }
observe = [ { output = "y" } ]
emulate = true
draws = 2000
[propagate]
tolerance = 0.02
batch = 500
most = 4000
[design]
n = 40
[surrogate]
method = "pce"
degree = 2
min_q2 = 0.1
[inference]
n = 2000
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    (folder / "model.py").write_text(MODEL)
    (folder / "study.toml").write_text(STUDY)
    t = np.arange(8) * 0.05
    # measurements above the line by 0.3, the height of a ripple: all of them tell of the surrogate's error
    rows = "\n".join(f"{a:.2f},{0.5 * (1 + a) + 0.3:.4f}" for a in t)
    (folder / "y.csv").write_text(f"t,y\n{rows}\n")
    return folder


def test_propagation_knows_what_the_tests_told_of_a_shared_error(folder, monkeypatch):
    found = Study.load(folder / "study.toml").run("propagation", executor=0)
    assert found.emulations[0].shared > 0.9
    panel = next(p for p in found.panels if p.series == "more")
    (told,) = found.propagations
    mean, sd = told.moments[:2]
    # prediction and propagation each draw from 2000 rows: 4 standard errors of their difference
    assert mean == pytest.approx(panel.mean[0], abs=4 * sd * np.sqrt(2 / 500))
    assert sd == pytest.approx(panel.sd_total[0], rel=4 * np.sqrt(1 / 500))
    monkeypatch.setattr(Likelihood, "informed", lambda self, x, forwards, models, space: list(models))
    text = (folder / "study.toml").read_text()
    (folder / "study.toml").write_text(text.replace("batch = 500", "batch = 501"))
    blind = Study.load(folder / "study.toml").run("propagation", executor=0).propagations[0]
    assert blind.moments[1] > 1.3 * sd
