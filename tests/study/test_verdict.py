"""The verdict: what is decided and with what error, what a poor surrogate is called, and what is advised then."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from tamis import Study
from tamis.analysis.prediction import Predictive
from tamis.cli.main import main
from tamis.errors import SurrogateError
from tamis.inference.posterior import Posterior
from tamis.marginals import uniform
from tamis.results.gather import doubted, load_results
from tamis.results.records import Emulation
from tamis.results.verdict import Probability, decisions, verdict
from tamis.results.worries import worries
from tamis.space import Parameter, Space
from tamis.study import remedy
from tamis.study.stages.prediction import make_panel
from tests.report import samples
from tests.study import beam

NORMAL = ndtri((np.arange(1000) + 0.5) / 1000)  # exact quantiles: what is told does not depend on luck


def panel(model, *, limit, sd=0.5, how="", series="twice", label="near at the end", **words):
    """A prediction of one number, or of several along an abscissa."""
    model = model[:, None] if model.ndim == 1 else model
    variance = np.full(model.shape, sd**2)
    found = Predictive(np.arange(model.shape[1], dtype=float), model, model, variance, 0, 0.0)
    several = {"xlabel": "t [s]"} if model.shape[1] > 1 else {"xlabel": ""}
    fixed = {"use": "predict", "synthetic": False, "share": 1.0, "condition": "", "ylabel": f"{label} [m]"}
    empty = {"y": np.empty((0, model.shape[1])), "y_sd": np.empty(0), "overlay": np.empty((0, 3))}
    shape = {"white": True, "signal": False, "prior": np.empty((0, model.shape[1]))}
    options = {**fixed, **empty, **shape, **several, **words}
    return make_panel(found, limit=limit, how=how, series=series, label=label, **options)


def told(*panels):
    """The lines of the verdict of a prior's propagation."""
    return verdict(None, None, panels, ()).split("\n")


def fears(*panels):
    return worries(None, (), (), None, None, panels, None, (), ())


def test_a_limit_is_told_in_both_readings_with_the_error_of_the_draws():
    # P(12 + z/2 > 12.5) = 15.9 %, binomial error 1.2 %; with as much error again P = 24.0 %, whose summands vary less
    assert told(panel(12 + 0.5 * NORMAL, limit=12.5)) == [
        "The prior was propagated through 1 prediction; there are no data.",
        "twice, near at the end: 12 m, 90 % within 11.2 to 12.8 by the model alone, 10.8 to 13.2 with errors; above "
        "its limit of 12.5 m with probability 16 ± 1 % by the model alone, 24.0 ± 0.7 % with errors.",
    ]
    (found,) = decisions([panel(12 + 0.5 * NORMAL, limit=12.5)])
    assert found.model.value == pytest.approx(ndtr(-1.0), abs=1e-3)
    assert found.model.error == pytest.approx(math.sqrt(ndtr(-1.0) * ndtr(1.0) / 1000), rel=0.01)
    assert found.total.value == pytest.approx(ndtr(-0.5 / math.sqrt(0.5)), abs=1e-3)


def test_the_likeliest_to_be_passed_comes_first_and_no_case_is_a_bound():
    low = panel(8 + 0.5 * NORMAL, limit=12.5, series="once")
    lines = told(
        low,
        panel(12 + 0.5 * NORMAL, limit=12.5),
        panel(1 + 0.1 * NORMAL, limit=math.nan, sd=0, series="half"),
    )
    assert [line.partition(",")[0] for line in lines] == [lines[0], "twice", "once", "half"]
    assert lines[2].endswith(
        "above its limit of 12.5 m with probability below 0.3 % (none of 1000 draws) by the model alone, "
        "below 0.3 % with errors."
    )
    assert lines[3] == "half, near at the end: 1 m, 90 % within 0.84 to 1.16 by the model alone."


def test_draws_of_chains_count_as_many_as_they_are_worth():
    whole = panel(12 + 0.5 * NORMAL, limit=12.5)
    fewer = panel(12 + 0.5 * NORMAL, limit=12.5, worth=100.0)
    np.testing.assert_allclose(fewer.exceedance_error, math.sqrt(10) * whole.exceedance_error)
    none = panel(8 + 0.5 * NORMAL, limit=12.5, worth=100.0)
    assert "below 3 % (none of 1000 draws)" in told(none)[1]


def test_along_an_abscissa_where_it_is_likeliest():
    rising = 10 + 0.5 * NORMAL[:, None] + np.array([0.0, 1.0, 2.0])
    assert told(panel(rising, limit=12.5))[1] == (
        "twice, near at the end: above its limit of 12.5 m with probability 16 ± 1 % by the model alone, "
        "24.0 ± 0.7 % with errors, at t = 2 s, where it is likeliest."
    )


def test_a_least_value_has_a_floor():
    (line,) = told(panel(-12 + 0.5 * NORMAL, limit=-12.5, how="min"))[1:]
    assert "below its limit of -12.5 m with probability 16 ± 1 % by the model alone" in line
    assert not fears(panel(-12 + 0.5 * NORMAL, limit=-12.5, how="min"))


def test_a_signed_peak_that_passes_its_limit_on_the_other_side_is_objected_to():
    hidden = panel(-20 + NORMAL, limit=12.5, how="peak")
    assert "below 0.3 % with errors (its other sign not counted)." in told(hidden)[1]
    (worry,) = fears(hidden)
    assert worry.serious and worry.text == (
        "twice, near at the end: in 100 % of the draws the peak is below -12.5, which does not count as passing the "
        'limit of 12.5: a peak keeps its sign. Observe how = "peak_abs", or "max" if only that side matters.'
    )
    (worry,) = fears(panel(-20 + NORMAL, limit=-12.5, how="peak"))
    assert worry.serious and 'Observe how = "min"' in worry.text and "a limit of 12.5" in worry.text
    assert not fears(panel(12 + 0.5 * NORMAL, limit=12.5, how="peak"))
    assert not fears(panel(20 + NORMAL, limit=12.5, how="peak_abs"))


def test_a_predicted_number_with_two_modes():
    x = np.concatenate([4 + 0.2 * NORMAL[::4], 9 + 0.2 * NORMAL])
    (worry,) = fears(panel(x, limit=math.nan))
    assert worry.text == (
        "twice, near at the end has 2 modes: by the model alone it lies in 3.67 to 4.32 m (20 %) "
        "or in 8.67 to 9.33 m (80 %)."
    )


def posterior(**diagnostics):
    space = Space((Parameter("a", uniform(0, 10)),))
    x = (5 + NORMAL).reshape(1, -1, 1)
    flat = np.arange(1000.0)[None]
    return Posterior(space, x, flat, 0 * flat, None, {"ess": np.array([1000.0]), **diagnostics})


def test_likelihoods_that_are_no_numbers_are_told():
    found = worries(None, (), (), None, posterior(nan=np.array(12)), None, None, (), ())
    assert [w.text for w in found if w.serious] == [
        "The log-likelihood was not a number at 12 points asked for, each of which counted as impossible; find out why "
        "before trusting the posterior near them."
    ]
    assert not worries(None, (), (), None, posterior(nan=np.array(0)), None, None, (), ())


def test_the_prior_alone_decides_where_there_are_no_data(tmp_path, monkeypatch, capsys):
    """near = 12 a with a of mean 1 and sd 1: P(near > 12.5) is P(z > 1/24) = 48.3 %."""
    monkeypatch.chdir(tmp_path)
    beam.write(tmp_path)
    text = (tmp_path / "study.toml").read_text()
    start, stop = text.index("[[experiment]]"), text.index("[[predict]]")
    text = text[:start] + text[stop : text.index("[inference]")]
    (tmp_path / "study.toml").write_text(
        text.replace('s = { prior = "lognormal", median = 0.1, cov = 0.3, unit = "m" }', "")
    )
    assert main(["run", "study.toml", "-j", "0"]) == 0
    said = capsys.readouterr().out
    line = next(line for line in said.splitlines() if line.startswith("twice, near at the end: "))
    found = re.search(r"above its limit of 12.5 m with probability (\d+) ± 2 %\.$", line)
    assert found and abs(int(found[1]) - 48.3) < 8  # five standard errors
    page = (tmp_path / "results" / "study" / "report.html").read_text()
    assert f"<p>{line}</p>" in page.replace("\u00a0", " ")
    assert main(["run", "study.toml", "-j", "0", "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    (decision,) = result["decisions"]
    assert (decision["limit"], decision["side"], decision["text"]) == (12.5, "above", line)
    assert decision["model"][0] == pytest.approx(0.483, abs=0.08) and decision["total"] is None
    assert decision["draws"] == 1000
    assert result["verdict"].endswith(line)


CHIRP = """
import numpy as np
import tamis

@tamis.simulator(outputs={"t": "s", "z": "mm"})
def chirp(*, rate=20.0, f0=3.0):
    t = np.linspace(0.0, 2.0, 101)
    return {"t": t, "z": np.sin(2 * np.pi * (f0 * t + 0.5 * rate * t * t))}
"""
BATCH = """
@chirp.batch
def _(*, rate, f0):
    t = np.linspace(0.0, 2.0, 101)
    return {"t": np.tile(t, (len(rate), 1)), "z": np.sin(2 * np.pi * (f0[:, None] * t + 0.5 * rate[:, None] * t * t))}
"""
STUDY = """
tamis = 1
[model]
simulator = "model.py:chirp"
[parameters]
rate = { prior = "uniform", low = 5.0, high = 40.0, unit = "Hz/s" }
f0 = { prior = "uniform", low = 1.0, high = 6.0, unit = "Hz" }
[[experiment]]
name = "run-1"
observe = [ { output = "z", how = "at", data = "z.csv", x = "t", y = "z", noise = { kind = "known", sd = 0.05 } } ]
[design]
method = "sobol"
n = 32
[surrogate]
method = "pce"
"""


@pytest.fixture
def chirp(tmp_path, monkeypatch):
    """A signal whose phase runs away with its rate, which no surrogate of 32 runs follows."""
    t = np.linspace(0.1, 1.9, 25)
    z = np.sin(2 * np.pi * (3 * t + 10 * t * t))
    (tmp_path / "z.csv").write_text(
        "t [s],z [mm]\n" + "".join(f"{a},{b}\n" for a, b in zip(t, z, strict=True))
    )
    (tmp_path / "model.py").write_text(CHIRP + BATCH)
    (tmp_path / "study.toml").write_text(STUDY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_surrogate_no_better_than_the_mean_is_called_so_and_the_way_out_is_timed(chirp, capsys):
    assert main(["run", "study.toml", "-j", "0"]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("error: the surrogate is no better than the mean of the runs: Q2 of run-1 z -")
    out = re.search(
        r"Leave \[surrogate\] out: sampling the simulator itself by its batch interface takes about "
        r"([\d.]+) (ms|s|min)\.",
        said,
    )
    assert out and 0 < float(out[1]) * {"ms": 1e-3, "s": 1, "min": 60}[out[2]] < 600  # 220,000 of some 10 us
    assert "kriging" not in said and "enrich" not in said
    page = (chirp / "results" / "study" / "report.html").read_text()
    lead = re.search(r'<p class="lead">(.*?)</p>', page)
    assert lead and re.fullmatch(
        r"The surrogate of run-1, z is no better than the mean of the runs \(Q2 -\d+\.\d\d\); nothing is built on it\.",
        lead[1],
    )
    assert re.search(
        r"Sobol indices of run-1, z are left out: the surrogate is no better than the mean", page
    )
    assert "influence-signals" not in page and "where 0 is no better than the mean of the runs" in page


def test_a_simulator_without_a_batch_door_is_priced_by_its_runs(chirp, monkeypatch):
    (chirp / "model.py").write_text(CHIRP)
    study = Study.load("study.toml")
    monkeypatch.setattr(remedy, "_run_seconds", lambda _: 0.01)
    # 110 likelihoods a draw and a store of 100,000 runs: 900 draws of 110 runs of 10 ms are 990 s
    assert remedy.remedy(study, [emulation(0.1)]) == (
        "Leave [surrogate] out: sampling the simulator itself takes about 16 min on one core "
        "(99,000 runs, with [inference] n = 900)."
    )
    monkeypatch.setattr(remedy, "_run_seconds", lambda _: 1.0)
    assert "Leave [surrogate] out" not in remedy.remedy(study, [emulation(0.1)])


def test_of_a_slow_simulator_something_smoother_is_asked_for(chirp, monkeypatch):
    (chirp / "model.py").write_text(CHIRP)
    monkeypatch.setattr(remedy, "_run_seconds", lambda _: 60.0)
    with pytest.raises(SurrogateError, match="More runs alone will hardly help: observe something smoother"):
        Study.load("study.toml").run(executor=0)


def emulation(q2, **changes):
    """The record of a surrogate of 40 runs of two inputs."""
    u = np.random.default_rng(0).random((40, 2))
    y = u.sum(axis=1, keepdims=True)
    names = {
        "series": "run-1",
        "label": "z",
        "xlabel": "",
        "ylabel": "z [mm]",
        "failed": 0,
        "worst": 3,
        "method": "pce",
    }
    arrays = {"x": np.zeros(1), "points": u, "simulated": y, "predicted": y, "q2_points": np.array([q2])}
    return replace(Emulation(q2=q2, growth=np.array([[40.0, q2]]), **names, **arrays, poor=True), **changes)


def test_more_runs_are_extrapolated_from_the_growth_of_the_score(chirp, monkeypatch):
    (chirp / "model.py").write_text(CHIRP)
    monkeypatch.setattr(remedy, "_run_seconds", lambda _: 60.0)
    study = Study.load("study.toml")
    grown = np.array([[20.0, 0.6], [40.0, 0.8]])  # what is missing halves with twice the runs: 0.05 at 160
    assert remedy.remedy(study, [emulation(0.8, growth=grown)]) == (
        "Its score grew with the runs: about 160 of them ([design] n) would reach 0.95."
    )
    assert 'twice the 40 runs of now ([design] n), or try method = "kriging"' in remedy.remedy(
        study, [emulation(0.8)]
    )
    assert remedy.remedy(study, [replace(emulation(0.99), poor=False)]) == ""


def test_what_cannot_be_judged_has_no_number_and_stops_the_study(chirp, monkeypatch):
    (chirp / "model.py").write_text(CHIRP)
    monkeypatch.setattr(remedy, "_run_seconds", lambda _: 60.0)
    study = Study.load("study.toml")
    u = np.random.default_rng(0).random((5, 2))
    few = emulation(math.nan, judged=False, points=u)
    with pytest.raises(SurrogateError) as caught:
        remedy.check_good_enough(study, [few], remedy.remedy(study, [few]))
    assert str(caught.value).startswith(
        "the surrogate of run-1 z cannot be judged. 2 parameters need at least 6 runs ([design] n); there are 5. Go on"
    )
    assert "nan" not in str(caught.value)
    lead = verdict([few], None, None, ())
    assert (
        lead
        == "The surrogate of run-1, z cannot be judged by 5 points for 2 parameters; nothing is built on it."
    )
    forced = verdict([few], posterior(), [], ())
    assert forced.startswith(
        "All this stands on a surrogate that may not be relied on (the surrogate of run-1, z cannot"
    )


def test_what_the_fit_cannot_judge_reaches_the_record(chirp, monkeypatch):
    """The score of the surrogate says so; the record, the news and the outcome have no number then."""
    from tamis.study.stages import surrogate as stage

    (chirp / "study.toml").write_text(STUDY.replace("n = 32", "n = 12"))
    fit = stage.fit_reduced

    def unjudged(*args, **options):
        found = fit(*args, **options)
        return replace(found, score=replace(found.score, judged=False))

    monkeypatch.setattr(stage, "fit_reduced", unjudged)
    found = Study.load("study.toml").run("surrogate", executor=0)
    (record,) = load_results(chirp / "results" / "study").emulations
    assert not record.judged and record.poor and math.isnan(record.q2) and np.isnan(record.q2_points).all()
    assert found.verdict.startswith(
        "The surrogate of run-1, z cannot be judged by 12 points for 2 parameters"
    )


def test_indices_of_a_poor_surrogate_are_rough_and_of_a_useless_one_left_out(chirp):
    study = Study.load("study.toml")
    known = replace(samples.influences()[0], series="run-1", label="z", source="polynomial chaos")

    def read(record, judge):
        (found,) = doubted(study.record(), (record,), (judge,))
        return found

    rough = read(known, emulation(0.8))
    assert rough.doubt == (
        "Sobol indices of run-1, z are rough: those of a surrogate that explains 0.80 of the variance."
    )
    assert rough.total is known.total
    gone = read(known, emulation(0.3))
    assert gone.doubt == "Sobol indices of run-1, z are left out: the surrogate has a Q2 of 0.30."
    assert not gone.total.size and not gone.shares.size and gone.src is known.src
    assert "the surrogate cannot be judged." in read(known, emulation(math.nan, judged=False)).doubt
    assert read(known, replace(emulation(0.99), poor=False)) is known
    asked = replace(known, source="simulator, by sampling")
    assert read(asked, emulation(0.3)) is asked  # the simulator's own


def test_few_independent_draws_tell_no_probability():
    assert Probability(1.0, 0.0, 2.0).text == "unknown (too few independent draws to tell)"
    assert Probability(1.0, 0.0, 2.0).record() == [None, None]
    assert Probability(1.0, 0.0, 1000.0).record() == [
        1.0,
        0.003,
    ]  # three in the number of draws, as the text says
    assert Probability(0.5, 0.02, 1000.0).record() == [0.5, 0.02]


def test_what_is_taken_of_an_output_is_in_its_name_and_unit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    beam.write(tmp_path)
    text = (tmp_path / "study.toml").read_text()
    observe = ", ".join(
        f'{{ output = "far", how = "{how}" }}' for how in ("max", "min", "peak_abs", "peak_time")
    )
    start = text.index('observe = [ { output = "near", how = "final"')
    stop = text.index("\n", start)
    (tmp_path / "study.toml").write_text(f"{text[:start]}observe = [ {observe} ]{text[stop:]}")
    (prediction,) = (s for s in Study.load(tmp_path / "study.toml").series if s.name == "twice")
    found = [(o.label, o.observable.unit) for o in prediction.experiments[0].observations]
    assert found == [
        ("largest far", "m"),
        ("least far", "m"),
        ("largest |far|", "m"),
        ("time of the peak of far", "s"),
    ]
