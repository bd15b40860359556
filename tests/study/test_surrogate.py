"""Studies that let a surrogate answer: what is fitted, what stops them, what they cost, and that they resume."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tamis import Study
from tamis.cli.main import main
from tamis.errors import SurrogateError
from tamis.inference.tmcmc import tmcmc
from tamis.runs.store import RunStore
from tamis.study.context import load_surrogate
from tamis.study.reader import read
from tamis.study.stages.table import up_to_date
from tests.shelf import spots

MODEL = """
import math, os, pathlib, time
import tamis

@tamis.simulator(outputs={"y": "m", "t": "s", "z": "m"})
def plate(*, a=0.5, b=0.5, load=1.0):
    "A number and a signal, smooth in a and b; fails in a corner."
    time.sleep(float(os.environ.get("SLOW", "0")))
    if a > 0.9 and b > 0.9:
        raise tamis.SimulationError("buckled")
    t = [i / 40 for i in range(41)]
    y = load * (1 + a) * math.exp(b) / 2
    return {"y": y, "t": t, "z": [load * math.sin(3 * a * s) + b * s * s for s in t]}

@tamis.simulator(outputs={"y": "m"})
def step(*, a=0.5, b=0.5, load=1.0):
    return {"y": load * float(a + b > 1.0) + a}
"""
STUDY = """
tamis = 1
seed = 3
[model]
simulator = "model.py:plate"
[parameters]
a = { prior = "uniform", low = 0.0, high = 1.0 }
b = { prior = "normal", mean = 0.5, sd = 0.15 }
s = { prior = "lognormal", median = 0.02, cov = 0.5, unit = "m" }
[[experiment]]
table = "tests.csv"
name = "tests"
conditions = { load = "load" }
observe = [ { output = "y", y = "y", noise = { kind = "gaussian", sd = "s" } } ]
[[experiment]]
name = "signal"
use = "validate"
emulate = true
observe = [ { output = "z", how = "at", data = "z.csv", x = "t", y = "z", noise = { kind = "gaussian", sd = "s" } } ]
[design]
method = "sobol"
n = 40
[surrogate]
method = "pce"
[inference]
n = 600
[[predict]]
name = "twice"
emulate = true
conditions = { load = 2.0 }
observe = [ { output = "y" } ]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "tests.csv").write_text(
        "load,y [m]\n1.0,1.22\n1.5,1.84\n"
    )  # a = 0.5, b = 0.5 gives 1.2365, 1.8548
    t = np.linspace(0, 1, 25)
    rows = "".join(f"{x},{np.sin(1.5 * x) + 0.5 * x * x}\n" for x in t)
    (tmp_path / "z.csv").write_text("t [s],z [m]\n" + rows)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def edit(folder, old, new):
    text = (folder / "study.toml").read_text()
    assert old in text
    (folder / "study.toml").write_text(text.replace(old, new, 1))


def runs(folder):
    return sorted(spots(folder / "runs"))


def artifacts(folder):
    return {p.name: p.read_bytes() for p in (folder / "results" / "study").glob("*.npz")}


def stale(folder):
    return [stage for stage, current in up_to_date(read(folder / "study.toml")).items() if not current]


def test_the_posterior_is_the_simulators_and_costs_the_design_only(folder, capsys):
    found = Study.load("study.toml").run("prediction", executor=0)
    # loads 1, 1.5 and 2, the first shared by a test and the signal; none of the predictions ran the simulator
    assert len(runs(folder)) == 3 * 40 - sum(r.status != "done" for row in found.design.runs[:2] for r in row)
    # the numbers are exponentials and parabolas: the surrogate's error is far below the noise
    assert all(emulation.q2 > 0.999 for emulation in found.emulations)
    study = Study.load("study.toml")
    tests = [e for s in study.series if s.use == "calibrate" for e in s.experiments]

    def exact(x):
        a, b, sd = x.T
        y = (1 + a) * np.exp(b) / 2
        data = np.array([[1.22, 1.0], [1.84, 1.5]])
        return sum(-0.5 * ((d - load * y) / sd) ** 2 - np.log(sd * np.sqrt(2 * np.pi)) for d, load in data)

    assert len(tests) == 2
    reference = tmcmc(study.space, exact, n=4000, rng=np.random.default_rng(0))
    mean, sd = reference.flat.mean(axis=0), reference.flat.std(axis=0)
    # Monte Carlo error of 600 draws with an effective size above 200: five standard errors are a third of sd
    assert np.all(np.abs(found.posterior.flat.mean(axis=0) - mean) < 0.35 * sd)
    # five standard errors of both evidences
    gap = abs(found.posterior.log_evidence[0] - reference.log_evidence[0])
    assert gap < 5 * np.hypot(found.posterior.log_evidence[1], reference.log_evidence[1]) + 0.02


def test_failed_runs_are_left_out_counted_and_shown(folder, capsys):
    edit(folder, 'prior = "normal", mean = 0.5, sd = 0.15', 'prior = "uniform", low = 0.0, high = 1.0')
    edit(folder, "n = 40", "n = 256")
    assert main(["run", "study.toml", "-j", "0"]) == 0
    said = capsys.readouterr().out
    blind = re.search(r"fitted without (\d+) runs that failed", said)
    assert blind and 1 <= int(blind[1]) <= 8  # a hundredth of 256 points
    found = Study.load("study.toml").run(executor=0)
    assert all(e.failed == int(blind[1]) and len(e.points) == 256 - e.failed for e in found.emulations)
    assert "buckled" in (folder / "results" / "study" / "report.html").read_text()


def test_a_poor_surrogate_stops_the_study_unless_forced(folder, capsys):
    edit(folder, "model.py:plate", "model.py:step")
    text = (folder / "study.toml").read_text()
    held, ahead = text.index("[[experiment]]\nname"), text.index("[design]")
    (folder / "study.toml").write_text(text[:held] + text[ahead:])
    assert main(["run", "study.toml", "-j", "0"]) == 1
    said = capsys.readouterr()
    assert (
        "the surrogate is too poor: Q2 of" in said.err
        and "--force" in said.err
        and "worst at a = " in said.err
    )
    assert stale(folder) == ["posterior", "prediction", "report"]
    report = folder / "results" / "study" / "report.html"
    assert "too poor" in report.read_text()  # it shows where
    with pytest.raises(SurrogateError):
        Study.load("study.toml").run(executor=0)
    assert main(["run", "study.toml", "-j", "0", "--force"]) == 0
    assert "!! The surrogate is too poor" in capsys.readouterr().out
    assert stale(folder) == []
    assert main(["run", "study.toml"]) == 0


LAST = ["posterior", "prediction", "report"]
CHANGES = [
    ("median = 0.02", "median = 0.03", LAST),  # an error's size
    ('y = "y", noise = { kind = "gaussian"', 'y = "y", noise = { kind = "relative"', LAST),
    (
        '[surrogate]\nmethod = "pce"',
        '[surrogate]\nmethod = "pce"\ndegree = 3',
        ["surrogate", "sensitivity", *LAST],
    ),
    ("[inference]", "[sensitivity]\nmethods = ['fosm']\n[inference]", ["sensitivity", "report"]),
    ('method = "pce"', 'method = "pce"\nmin_q2 = 0.9', ["report"]),  # judges, and changes nothing
    ("conditions = { load = 2.0 }", "conditions = { load = 2.0 }\ndraws = 50", ["prediction", "report"]),
    ('output = "y", y', 'output = "y", label = "deflection", y', ["prediction", "report"]),
    ("n = 40", "n = 48", ["design", "runs", "observables", "surrogate", "sensitivity", *LAST]),
]


def test_what_each_change_makes_stale(folder):
    Study.load("study.toml").run(executor=0)
    text = (folder / "study.toml").read_text()
    for old, new, expected in CHANGES:
        edit(folder, old, new)
        assert stale(folder) == expected, new
        (folder / "study.toml").write_text(text)


def test_a_sobol_design_grows_and_fosm_asks_for_its_own_runs(folder):
    Study.load("study.toml").run("observables", executor=0)
    before = runs(folder)
    edit(folder, "[inference]", "[sensitivity]\nmethods = ['fosm']\n[inference]")
    Study.load("study.toml").run("sensitivity", executor=0)
    assert len(runs(folder)) == len(before) + 3 * 5  # 2 d + 1 runs for each load
    edit(folder, "n = 40", "n = 48")
    Study.load("study.toml").run("runs", executor=0)
    assert set(before) < set(runs(folder))


def test_results_do_not_depend_on_the_workers(folder, tmp_path_factory):
    edit(folder, 'method = "pce"', 'method = "kriging"\nenrich = { budget = 3, batch = 3, q2 = 0.9999999 }')
    edit(folder, "n = 40", "n = 16")
    Study.load("study.toml").run("prediction", executor=0)
    before = artifacts(folder)
    for path in (folder / "results").rglob("*"):
        if path.is_file():
            path.unlink()
    for path in (folder / "runs").rglob("*"):
        if path.is_file():
            path.unlink()
    Study.load("study.toml").run("prediction", executor=2)
    assert artifacts(folder) == before
    with np.load("results/study/surrogate.npz") as file:
        assert len(file["u"]) == 16 + 3 and file["added"].shape == (4, 3)


@pytest.mark.parametrize("where", ["error", "posterior"])
def test_enrichment_stops_at_its_score_or_budget(folder, where, capsys):
    edit(
        folder,
        'method = "pce"',
        f'method = "kriging"\nenrich = {{ where = "{where}", budget = 20, batch = 5, q2 = 0.9995 }}',
    )
    edit(folder, "n = 40", "n = 10")
    found = Study.load("study.toml").run("surrogate", executor=0)
    growth = found.emulations[0].growth
    assert growth[0, 0] == 10 and growth[-1, 0] <= 30 and np.all(np.diff(growth[:, 0]) == 5)
    lowest = np.min([e.growth[:, 1] for e in found.emulations], axis=0)
    assert np.all(lowest[:-1] < 0.9995)
    assert lowest[-1] >= 0.9995 or growth[-1, 0] == 30
    assert len(found.design.x) == growth[-1, 0]  # the report counts them, and so does the command line
    assert main(["status", "study.toml"]) == 0
    said = capsys.readouterr().out
    assert f"runs: {3 * growth[-1, 0]:.0f} done" in said
    rounds = len(growth) - 1
    assert f"enrichment: {rounds} round{'' if rounds == 1 else 's'} done, {15 * rounds} runs" in said


@pytest.mark.slow  # that stages go on is tested with runs and samplers
def test_an_interrupted_enrichment_goes_on(folder):
    edit(folder, 'method = "pce"', 'method = "kriging"\nenrich = { budget = 10, batch = 5, q2 = 0.9999999 }')
    edit(folder, "n = 40", "n = 10")
    command = ["run", "study.toml", "-j", "2", "--to", "surrogate"]
    slow = {**os.environ, "SLOW": "0.1"}
    process = subprocess.Popen([sys.executable, "-m", "tamis", *command], env=slow, stderr=subprocess.DEVNULL)
    while len(runs(folder)) < 45:  # 30 of the design, then one of two rounds of the enrichment
        time.sleep(0.02)
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = spots(folder / "runs")
    assert main(command) == 0
    assert kept.items() <= spots(folder / "runs").items()  # what was done again would lie elsewhere
    resumed = artifacts(folder)
    for path in [*(folder / "results").rglob("*.npz"), *(folder / "results").rglob("manifest.json")]:
        path.unlink()
    assert main(command) == 0
    assert artifacts(folder) == resumed


def test_a_study_without_data_propagates_by_its_surrogate(folder, capsys):
    text = (folder / "study.toml").read_text()
    tests, design = text.index("[[experiment]]"), text.index("[design]")
    kept = re.sub(r"s = \{.*\n", "", text[:tests]) + text[design:] + "[propagate]\ntolerance = 0.02\n"
    (folder / "study.toml").write_text(kept)
    assert main(["run", "study.toml", "-j", "0"]) == 0
    made = len(runs(folder))
    assert 39 <= made <= 40
    found = Study.load("study.toml").run(executor=0)
    (number,) = found.propagations
    assert number.converged and number.emulated and number.source == "prior"
    # y = 2 (1 + a) exp(b) / 2 with independent a and b: mean 1.5 exp(0.5 + 0.15^2 / 2)
    mean = 1.5 * np.exp(0.5 + 0.15**2 / 2)
    assert number.moments[0] == pytest.approx(mean, rel=0.02)  # the tolerance asked for
    assert number.fosm[0] == pytest.approx(1.5 * np.exp(0.5), rel=1e-3)  # the surrogate's error
    assert found.influences[0].total.sum() >= 0.99


def test_the_plan_says_what_the_surrogate_saves(folder, capsys):
    edit(folder, "emulate = true\nconditions", "conditions")
    assert main(["check", "study.toml"]) == 0
    said = capsys.readouterr().out
    assert "600 samples (tmcmc) of a surrogate (pce)" in said
    assert "prediction of twice: 200 runs" in said and "emulate = true asks the surrogate" in said


@pytest.mark.parametrize("method", ["pce", "kriging"])
def test_an_observation_that_does_not_vary(folder, method):
    model = (folder / "model.py").read_text()
    (folder / "model.py").write_text(model.replace("(1 + a) * math.exp(b) / 2", "1.25"))
    edit(folder, 'method = "pce"', f'method = "{method}"')
    edit(folder, "n = 40", "n = 12")
    found = Study.load("study.toml").run(executor=0, force=True)
    constant = next(e for e in found.emulations if e.series == "tests")
    assert constant.q2 == 1.0 and not constant.poor
    influence = next(i for i in found.influences if i.series == "tests")
    assert np.isnan(influence.total).all()
    panel = next(p for p in found.panels if p.series == "twice")
    assert panel.mean == pytest.approx(2.5)


def test_runs_of_the_enrichment_are_watched_and_retried(folder):
    model = (folder / "model.py").read_text()
    gate = 'if a > 0.9 and b > 0.9 or not pathlib.Path("licence").exists() and a > 0.5:'
    (folder / "model.py").write_text(model.replace("if a > 0.9 and b > 0.9:", gate))
    (folder / "licence").write_text("")
    edit(folder, 'method = "pce"', 'method = "kriging"\nenrich = { budget = 5, batch = 5, q2 = 0.9999999 }')
    edit(folder, "n = 40", "n = 12")
    Study.load("study.toml").run("observables", executor=0)
    (folder / "licence").unlink()
    found = Study.load("study.toml").run(executor=0, force=True)
    failed = found.emulations[0].failed
    assert failed > 0 and stale(folder) == []
    (folder / "licence").write_text("")
    assert main(["run", "study.toml", "-j", "0", "--to", "surrogate", "--retry-failed"]) == 0
    assert stale(folder) == ["sensitivity", *LAST]  # cut short here, nothing that stood on the old one counts
    found = Study.load("study.toml").run("surrogate", executor=0)
    assert found.emulations[0].failed < failed
    with np.load("results/study/surrogate.npz") as file:
        gone = str(file["added"][0, 0])
    with RunStore(folder / "runs") as store:
        store.forget([gone])
    Study.load("study.toml").run("surrogate", executor=0)
    assert RunStore(folder / "runs").get(gone) is not None


def test_labels_are_those_of_the_file(folder):
    Study.load("study.toml").run("sensitivity", executor=0)
    edit(folder, 'output = "y", y', 'output = "y", label = "deflection", y')
    assert "surrogate" not in stale(folder) and "sensitivity" not in stale(folder)
    found = Study.load("study.toml").run("sensitivity", executor=0)
    assert found.emulations[0].label == found.influences[0].label == "deflection"


def only_numbers(folder):
    """Leave the table of tests and the prediction."""
    text = (folder / "study.toml").read_text()
    held, design = text.index("[[experiment]]\nname"), text.index("[design]")
    (folder / "study.toml").write_text(text[:held] + text[design:])


def replace_model(folder, body):
    (folder / "model.py").write_text(
        "import math, random\nimport tamis\n\n@tamis.simulator(outputs={'y': 'm'})\n"
        + f"def plate(*, a=0.5, b=0.5, load=1.0{', seed=0' if 'seed' in body else ''}):\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
    )


@pytest.mark.parametrize("method", ["pce", "kriging"])
def test_what_no_surrogate_can_follow_is_part_of_its_error(folder, method):
    """A simulator with chatter: whichever surrogate smooths it, the claimed variance is the error it makes."""
    only_numbers(folder)
    replace_model(folder, "return {'y': load * (a + 0.05 * math.sin(400 * a + 300 * b))}")
    edit(folder, 'method = "pce"', f'method = "{method}"')
    edit(folder, "n = 40", "n = 64")
    Study.load("study.toml").run("surrogate", executor=0)
    study = Study.load("study.toml")
    model = load_surrogate(study)
    u = np.random.default_rng(8).random((4000, 2))
    a, b = study.model_space.from_unit(u).T
    error = model.predict(u).mean[:, 0] - (a + 0.05 * np.sin(400 * a + 300 * b))
    # 64 runs say the variance of the chatter to a fifth (two standard errors: 2 sqrt(2 / 64) = 0.35); the fit adds some
    assert 0.6 < model.predict(u).total[:, 0].mean() / np.mean(error**2) < 1.6


def test_tests_whose_runs_fail_at_different_points(folder):
    only_numbers(folder)
    replace_model(
        folder,
        "if (a > 0.5) == (load == 1.0):\n    raise tamis.SimulationError('never both')\n"
        "return {'y': load * (1 + a * b)}",
    )
    found = Study.load("study.toml").run(executor=0)
    tests = found.emulations[0]
    assert tests.q2 > 0.99 and 15 <= tests.failed <= 25  # each test fails in half of the square
    assert np.isnan(tests.simulated).sum() == 40
    assert "never both" in (folder / "results" / "study" / "report.html").read_text()


def test_rounding_is_no_variance(folder):
    only_numbers(folder)
    replace_model(folder, "return {'y': load * 1.25 * math.sqrt(1 + a) * (1 / math.sqrt(1 + a))}")
    edit(folder, 'method = "pce"', 'method = "kriging"')
    found = Study.load("study.toml").run("surrogate", executor=0)
    assert found.emulations[0].q2 == 1.0


def test_a_failing_tangent_costs_its_figures_only(folder):
    only_numbers(folder)
    replace_model(
        folder,
        "if abs(a - 0.5) < 0.03 and a != 0.5:\n    raise tamis.SimulationError('slips')\n"
        "return {'y': load * (1 + a * b)}",
    )
    edit(folder, "emulate = true\n", "draws = 20\n")
    text = (folder / "study.toml").read_text()
    more = "[sensitivity]\nmethods = ['sobol', 'fosm']\n[propagate]\nmost = 40\nbatch = 20\n"
    (folder / "study.toml").write_text(text + more)
    found = Study.load("study.toml").run(executor=0)
    told = [w.text for w in found.worries]
    assert any("no FOSM importance factors" in text for text in told)
    assert np.isnan(found.influences[0].fosm).all() and np.isfinite(found.influences[0].total).all()


def test_a_stochastic_prediction_draws_anew(folder):
    """Spread of a plus that of the simulator's own noise, whatever the study's seed."""
    text = (folder / "study.toml").read_text()
    tests, design = text.index("[[experiment]]"), text.index("[design]")
    text = re.sub(r"s = \{.*\n", "", text[:tests]) + text[design:]
    text = (
        text.replace('method = "pce"', 'method = "none"')
        .replace("emulate = true\n", "")
        .replace("load = 2.0", "load = 1.0")
    )
    (folder / "study.toml").write_text(text + "[propagate]\nmost = 400\nfosm = false\ntolerance = 0.001\n")
    replace_model(folder, "return {'y': a + random.Random(seed).gauss(0, 0.5)}")
    found = Study.load("study.toml").run("propagation", executor=0)
    (number,) = found.propagations
    sd = np.sqrt(1 / 12 + 0.25)
    assert abs(number.moments[0] - 0.5) < 4 * sd / np.sqrt(400)  # four standard errors
    assert abs(number.moments[1] / sd - 1) < 4 / np.sqrt(800)
    assert found.panels[0].sd_model[0] == pytest.approx(sd, rel=4 / np.sqrt(400))


def test_a_retry_starts_the_sampler_anew(folder):
    """What was sampled of the old surrogate is not continued on the new one."""
    only_numbers(folder)
    replace_model(
        folder,
        "import pathlib\nif a > 0.8 and not pathlib.Path('licence').exists():\n"
        "    raise tamis.SimulationError('no licence')\nreturn {'y': load * (1 + a * b) / 1.1}",
    )
    Study.load("study.toml").run("surrogate", executor=0)
    stages = iter(range(3))

    def interrupt(event):
        if event.task == "posterior" and event.done and next(stages, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Study.load("study.toml").run("posterior", executor=0, progress=interrupt)
    assert list((folder / "results").rglob("checkpoint-*.npz"))
    (folder / "licence").write_text("")
    assert main(["run", "study.toml", "-j", "0", "--to", "posterior", "--retry-failed"]) == 0
    resumed = artifacts(folder)["posterior.npz"]
    (folder / "results" / "study" / "manifest.json").unlink()
    Study.load("study.toml").run("posterior", executor=0)
    assert artifacts(folder)["posterior.npz"] == resumed


def test_a_held_out_test_alone_may_be_emulated(folder):
    text = (folder / "study.toml").read_text()
    first, second = text.index("[[experiment]]"), text.index("[[experiment]]\nname")
    (folder / "study.toml").write_text(text[:first] + text[second:])
    found = Study.load("study.toml").run("prediction", executor=0)
    assert {e.series for e in found.emulations} == {"signal", "twice"}
    assert len(runs(folder)) == 2 * 40


def test_enriched_runs_do_not_bend_the_spread_over_the_prior(folder):
    only_numbers(folder)
    Study.load("study.toml").run("sensitivity", executor=0)
    before = Study.load("study.toml").run("sensitivity", executor=0).influences[0]
    edit(
        folder,
        'method = "pce"',
        'method = "pce"\nenrich = { where = "posterior", budget = 20, q2 = 0.9999999999 }',
    )
    after = Study.load("study.toml").run("sensitivity", executor=0).influences[0]
    np.testing.assert_array_equal(before.sd, after.sd)
    np.testing.assert_array_equal(before.src, after.src)
