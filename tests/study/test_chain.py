"""Studies that draw their parameters from the posteriors of others."""

import json
import shutil

import numpy as np
import pytest

import tamis
from tamis import Study, load_results
from tamis.cli.main import main
from tamis.results.shapes import worth_of
from tamis.runs.locks import released, seized
from tamis.study.reader import read
from tamis.study.stages.table import reasons, up_to_date
from tests.chained import exact, write_chain


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = write_chain(tmp_path_factory.mktemp("chain"))
    Study.load(folder / "study.toml").run(executor=0)
    return folder


def test_more_draws_begin_with_those_of_fewer(ran, tmp_path):
    """So that raising their number keeps the runs that are in the store."""
    folder = shutil.copytree(ran, tmp_path / "more", dirs_exist_ok=True)
    shutil.copytree(ran.parent / "line", tmp_path / "line", dirs_exist_ok=True)
    few = {s.name: s.x for s in load_results(folder / "results/study").sources}
    edit(folder / "study.toml", "draws = 4000", "draws = 4100")
    Study.load(folder / "study.toml").run("sources", executor=0)
    for source in load_results(folder / "results/study").sources:
        x = few[source.name]
        # counts grow with the evidences, which are the same; a source of 4000 samples is then asked for all of them
        assert len(source.x) > len(x)
        np.testing.assert_array_equal(source.x[: len(x)], x)


@pytest.fixture
def chain(tmp_path):
    return write_chain(tmp_path)


def edit(path, old, new):
    text = path.read_text()
    assert old in text, old
    path.write_text(text.replace(old, new, 1))


def stale(folder):
    return [stage for stage, good in up_to_date(read(folder / "study.toml")).items() if not good]


def test_mixed_prediction_equals_the_closed_form(ran):
    found = load_results(ran / "results/study")
    sources = {s.name: s for s in found.sources}
    slopes = {"one": 1.0, "half": 0.5}
    post = {name: exact(slope) for name, slope in slopes.items()}
    odds = np.exp([post[name][2] for name in slopes])
    p = dict(zip(slopes, odds / odds.sum(), strict=True))
    for name, source in sources.items():
        # the evidence is known to 0.002
        assert source.weight == pytest.approx(p[name], abs=5 * 0.002 * p["one"] * p["half"] * 2)
        assert len(source.x) == round(4000 * source.weight)
        assert source.best[0] == pytest.approx(post[name][0], abs=1e-3)  # the mode of a Gaussian is its mean
    panel = next(panel for panel in found.panels if panel.series == "far")
    mean = {name: 3.0 * slopes[name] + 2.0 * post[name][0] for name in slopes}
    whole = sum(p[n] * mean[n] for n in slopes)
    parts = np.array(
        [
            sum(p[n] * 4.0 * post[n][1] for n in slopes),
            sum(p[n] * (mean[n] - whole) ** 2 for n in slopes),
            0.7**2,
        ]
    )
    # standard errors of 4000 draws from samples worth 4000: a false alarm in 3 of 1000 seeds each
    error = np.sqrt(parts.sum() / panel.worth)
    assert abs(panel.mean[0] - whole) < 3 * error
    assert abs(panel.sd_model[0] ** 2 - parts.sum()) < 3 * np.sqrt((panel.split_error**2).sum())
    assert np.all(np.abs(panel.split[:, 0] - parts) < 3 * panel.split_error[:, 0])
    assert np.all(np.abs(panel.shares[:, 0] - parts / parts.sum()) < 3 * panel.share_error[:, 0])
    # at a gain of five, twice that of the means' distance: the models agree to 0.2 % of the variance
    sweep = next(panel for panel in found.panels if panel.series == "gains")
    apart = [sum(p[n] * (g * slopes[n] + 2 * post[n][0]) for n in slopes) for g in sweep.x]
    model = [
        sum(p[n] * (g * slopes[n] + 2 * post[n][0] - a) ** 2 for n in slopes)
        for g, a in zip(sweep.x, apart, strict=True)
    ]
    assert np.all(np.abs(sweep.split[1] - model) < 3 * sweep.split_error[1])
    # the best fits stand beside: runs at both modes, seeds averaged
    assert panel.best_of == ("one", "half") and panel.best.shape == (2, 1)
    assert np.all(np.abs(panel.best[:, 0] - [mean["one"], mean["half"]]) < 3 * 0.7 / np.sqrt(2))
    # a mixture of normals passes its limit with a probability that is known
    from scipy.stats import norm

    passing = sum(p[n] * norm.sf(8.0, mean[n], np.sqrt(4 * post[n][1] + 0.49)) for n in slopes)
    assert abs(panel.exceedance[0, 0] - passing) < 3 * panel.exceedance_error[0, 0]


def test_each_draw_carries_what_its_study_held_fixed(ran):
    study = Study.load(ran / "study.toml")
    assert study.space.names == ("theta", "slope")
    assert [dict(o.held) for o in study.origins] == [{"slope": 1.0}, {"slope": 0.5}]


def test_posteriors_are_named_in_the_manifest_and_the_report(ran):
    manifest = json.loads((ran / "results/study/manifest.json").read_text())
    sources = load_results(ran / "results/study").sources
    assert manifest["posteriors"] == {s.file: s.content for s in sources}
    assert all(len(s.content) == 32 for s in sources)
    page = (ran / "results/study/report.html").read_text()
    for words in (
        "Sources",
        "Robust prediction and best fit",
        "Where the variance comes from",
        "best fit, half",
    ):
        assert words in page
    verdict = manifest["result"]["verdict"]
    assert "4000 draws of posteriors (54 % one, 46 % half) were propagated" in verdict
    for name in ("robust", "variance", "sources", "sources-parameters"):
        assert (ran / "results/study/tables" / f"{name}.csv").is_file()


def test_what_makes_a_chain_stale(ran, tmp_path):
    shutil.copytree(ran.parent, tmp_path / "all")
    folder = tmp_path / "all" / ran.name
    line = folder.parent / "line"
    assert stale(folder) == []
    before = (folder / "results/study/sources.npz").read_bytes()
    edit(line / "common.toml", "sd = 0.5", "sd = 0.6")  # a source that changed
    assert stale(folder) == ["sources", "prediction", "report"]
    changed = "the posterior of ../line/one.toml and of ../line/half.toml has changed"
    assert reasons(read(folder / "study.toml"))["sources"] == changed
    edit(line / "common.toml", "sd = 0.6", "sd = 0.5")
    assert stale(folder) == []
    shutil.rmtree(line / "results/half")  # a source that was lost is made again, and nothing else is
    assert stale(folder) == ["sources", "prediction", "report"]
    seconds = json.loads((folder / "results/study/manifest.json").read_text())["stages"]
    Study.load(folder / "study.toml").run(executor=0)
    assert stale(folder) == [] and (folder / "results/study/sources.npz").read_bytes() == before
    after = json.loads((folder / "results/study/manifest.json").read_text())["stages"]
    assert after["prediction"] == seconds["prediction"]
    posterior = line / "results/one/posterior.npz"
    posterior.write_bytes(posterior.read_bytes()[:-1] + b"x")  # damaged
    assert stale(folder)[0] == "sources"
    edit(folder / "study.toml", "draws = 4000", "draws = 300")
    Study.load(folder / "study.toml").run(executor=0)
    assert sum(len(s.x) for s in load_results(folder / "results/study").sources) == 300


@pytest.mark.statistical
@pytest.mark.parametrize(("drawn", "replaced"), [(120, False), (40, False), (40, True)])
def test_draws_of_a_sample_are_worth_what_their_mean_scatters_by(drawn, replaced):
    # 120 rows that are 60 independent ones, each twice; the variance of 4000 means is known to 2.2 %
    rng = np.random.default_rng(3)
    rows = [np.repeat(rng.standard_normal(60), 2) for _ in range(4000)]
    means = [rng.choice(each, drawn, replace=replaced).mean() for each in rows]
    assert 1 / np.var(means) == pytest.approx(worth_of(drawn, 120, 60.0, replaced=replaced), rel=0.07)


def test_weighting_again_targets_the_posterior_squared(chain):
    edit(chain / "study.toml", "replicates = 2", 'reweight = "posterior"')
    edit(chain / "study.toml", ', "../line/half.toml"', "")
    found = Study.load(chain / "study.toml").run(executor=0)
    (source,) = found.sources
    mean, variance, _ = exact(1.0)
    # the square of a Gaussian has half its variance; 4000 draws of 4000 rows, worth 0.87 of them (3/4 to the 1/2)
    worth = source.worth
    assert worth == pytest.approx(1 / (1 / 4000 + 1 / source.effective), rel=1e-12)
    assert 0.8 * 4000 < source.effective < 0.95 * 4000
    assert abs(source.x.mean() - mean) < 3 * np.sqrt(variance / 2 / worth)
    assert abs(source.x.var() - variance / 2) < 3 * variance / 2 * np.sqrt(2 / worth)
    assert source.moments[1, 0] ** 2 == pytest.approx(variance, rel=3 * np.sqrt(2 / 4000))
    assert source.drawn_moments[1, 0] == pytest.approx(source.moments[1, 0] / np.sqrt(2), rel=0.03)
    panel = found.panels[0]
    assert abs(panel.sd_model[0] ** 2 - (4 * variance / 2 + 0.49)) < 3 * panel.split_error[0, 0]
    assert np.isnan(panel.split[2, 0])  # one run a draw: the noise is unknown
    told = f"fall to {source.drawn_moments[1, 0] / source.moments[1, 0]:.2f} of"
    assert any(w.serious and "posterior squared" in w.text and told in w.text for w in found.worries)
    page = (chain / "results/study/report.html").read_text()
    assert "What weighting again does" in page and "posterior squared" in page
    assert "cannot be told from the parameters" in page


def test_a_source_without_weight_is_told_and_left_out(chain):
    edit(chain.parent / "line/half.toml", "slope = 0.5", "slope = 0.02")
    edit(chain / "study.toml", "draws = 4000", "draws = 40")
    found = Study.load(chain / "study.toml").run(executor=0)
    assert [len(s.x) for s in found.sources] == [40, 0]
    assert any("Too little weight for two draws, hence none: half" in w.text for w in found.worries)
    assert found.panels[0].best_of == ("one",) and found.panels[0].split[1, 0] == 0


def test_equal_weights_need_no_evidence(chain):
    edit(chain.parent / "line/common.toml", "n = 4000", 'method = "metropolis"\nchains = 8\ndraws = 400')
    with pytest.raises(
        tamis.StudyError, match=r'parameters.weights: one is sampled by "metropolis".*weights = "equal"'
    ):
        Study.load(chain / "study.toml").run(executor=0)
    edit(chain / "study.toml", "draws = 4000", 'draws = 50\nweights = "equal"')
    found = Study.load(chain / "study.toml").run(executor=0)
    assert [len(s.x) for s in found.sources] == [25, 25]


def test_evidences_of_other_measurements_do_not_weigh(chain):
    (chain.parent / "line/other.csv").write_text("y\n2.5\n")
    observe = (
        '[[experiment]]\nname = "pull"\nobserve = [ { output = "y", data = "other.csv", y = "y", noise = '
    )
    (chain.parent / "line/half.toml").write_text(
        f'extends = "common.toml"\n{observe}{{ kind = "known", sd = 0.5 }} }} ]\n'
    )
    with pytest.raises(tamis.StudyError, match=r'not held against the same measurements.*weights = "equal"'):
        Study.load(chain / "study.toml").run(executor=0)


def test_a_seed_that_is_imposed_is_no_chance(chain):
    edit(chain / "study.toml", "replicates = 2\n", "")
    edit(chain / "study.toml", 'name = "far"', 'name = "far"\nconditions = { seed = 3 }')
    edit(chain / "study.toml", "draws = 4000", "draws = 200")
    far, gains = Study.load(chain / "study.toml").run("prediction", executor=0).panels
    assert far.split[2, 0] == 0  # known, and none
    assert np.isnan(gains.split[2]).all()  # one run a draw does not tell it


def test_a_source_that_is_up_to_date_is_only_read(chain):
    edit(chain / "study.toml", "draws = 4000", "draws = 200")
    line = chain.parent / "line"
    for name in ("one", "half"):
        Study.load(line / f"{name}.toml").run("posterior", executor=0)
    held = seized(line / "results/one")  # whatever goes on there: its report, predictions
    try:
        Study.load(chain / "study.toml").run("prediction", executor=0)
        edit(line / "common.toml", "sd = 2.0", "sd = 2.1")
        with pytest.raises(tamis.StudyError, match=r"one\.toml: its results are being written by"):
            Study.load(chain / "study.toml").run("prediction", executor=0)
    finally:
        released(held)


def test_part_of_the_draws_and_held_out_tests(chain):
    (chain / "seen.csv").write_text("z [m]\n7.0\n")
    edit(chain / "study.toml", 'name = "far"', 'name = "far"\nwhere = { theta = [2.5, 9.0] }')
    more = '[[experiment]]\nname = "seen"\nuse = "validate"\nobserve = [ { output = "z", data = "seen.csv", noise = '
    text = (chain / "study.toml").read_text()
    (chain / "study.toml").write_text(f'{text}{more}{{ kind = "known", sd = 0.1 }} }} ]\n')
    edit(chain / "study.toml", "draws = 4000", "draws = 400")
    found = Study.load(chain / "study.toml").run(executor=0)
    seen, far, _ = found.panels
    assert seen.use == "validate" and seen.coverage == 1.0 and seen.share == 1.0
    assert far.best_of == () and 0.4 < far.share < 0.7 and far.condition
    assert far.model.min() > 2 * 2.5 + 1.5 - 4 * 0.7


def test_monte_carlo_of_a_chain_draws_from_its_draws(chain):
    edit(chain / "study.toml", "draws = 4000", "draws = 200")
    edit(chain / "study.toml", "[[predict]]", "[propagate]\nmost = 400\n[[predict]]")
    found = Study.load(chain / "study.toml").run(executor=0)
    (first, *_) = found.propagations
    assert first.source == "posterior" and len(first.values) >= 200
    assert set(first.values) <= set(found.panels[0].model[:200, 0])  # the runs there were


def test_check_prices_the_chain_and_what_it_draws_from(chain, capsys):
    edit(chain / "study.toml", "model.py:throw", "model.py:slowly")
    assert main(["check", str(chain / "study.toml")]) == 0
    said = capsys.readouterr().out
    assert "one: its posterior is made first" in said and "  posterior: 4000 samples (tmcmc)" in said
    assert "prediction of far: 8004 runs" in said and "prediction of gains: 40020 runs" in said
    assert "one (1), half (0.5)" in said
    assert not (chain / "results/study/sources.npz").exists()
    Study.load(chain.parent / "line/one.toml").run("posterior", executor=0)
    assert main(["check", str(chain / "study.toml")]) == 0
    assert "one: its posterior is up to date" in capsys.readouterr().out


REFUSED = [
    # what a chain cannot do
    (
        '[[predict]]\nname = "far"',
        '[[experiment]]\nname = "far"',
        "experiment[0].use: a study that draws its parameters `from` posteriors cannot calibrate",
    ),
    (
        "[[predict]]",
        '[surrogate]\nmethod = "pce"\n[[predict]]',
        "surrogate.method: polynomial chaos needs independent",
    ),
    (
        "[[predict]]",
        '[surrogate]\nmethod = "kriging"\n[[predict]]',
        "surrogate: there is no prior over which a design",
    ),
    ("[[predict]]", "[design]\nn = 9\n[[predict]]", "design: there is no prior to lay a design over"),
    ("[[predict]]", "[sensitivity]\n[[predict]]", "sensitivity: there is no design to read it from"),
    ("[[predict]]", "[inference]\nn = 99\n[[predict]]", "inference.n: nothing is sampled here"),
    ('name = "far"', 'name = "far"\ndraws = 9', "predict[0].draws: [parameters] draws says how many"),
    ("draws = 4000", "draws = 3", "parameters.draws: expected at least 2 for each of 2 studies, found 3"),
    ("draws = 4000", "theta = { prior = 'normal', mean = 0.0, sd = 1.0 }", "has no priors of its own"),
    ("from = [", "form = [", "parameters.form: expected a table, as in"),
    ("from = [", "form = [", 'did you mean "from"?'),
    ("replicates = 2", "replicate = 2", 'unknown key "replicate"; did you mean "replicates"?'),
    ("replicates = 2", 'weights = "evidenc"', 'parameters.weights: expected "evidence" or "equal"'),
    (
        'throw"\n',
        'throw"\ninputs = { seed = 3 }\n',
        "parameters.replicates: model.py:throw is given its seed",
    ),
    ('throw"\n', 'throw"\ninputs = { theta = 3.0 }\n', "model.inputs.theta: is drawn from the posteriors"),
    ('name = "far"', 'name = "far"\nconditions = { theta = 1.0 }', "is a condition and a parameter at once"),
    # what it cannot draw from
    ("one.toml", "none.toml", 'no study file "'),
    ("one.toml", "half.toml", "parameters.from[1]: ../line/half.toml is named twice"),
    ("../line/one.toml", "study.toml", "parameters.from[0]: study.toml is this study itself"),
]


@pytest.mark.parametrize(("old", "new", "said"), REFUSED, ids=[case[2][:40] for case in REFUSED])
def test_what_is_refused(chain, old, new, said):
    edit(chain / "study.toml", old, new)
    with pytest.raises(tamis.StudyError) as refused:
        Study.load(chain / "study.toml").run(executor=0)
    assert said in str(refused.value)


def test_studies_that_draw_from_each_other_are_refused(chain):
    text = (chain / "study.toml").read_text()
    (chain / "back.toml").write_text(text.replace("../line/one.toml", "study.toml"))
    edit(chain / "study.toml", "../line/one.toml", "back.toml")
    with pytest.raises(
        tamis.StudyError, match=r"back.toml draws from this study in turn and has no posterior"
    ):
        Study.load(chain / "study.toml")
    edit(chain / "back.toml", '"study.toml", ', "")
    with pytest.raises(
        tamis.StudyError, match=r"back.toml itself draws from .*half.*name the studies that have"
    ):
        Study.load(chain / "study.toml")


SOURCES = [
    (
        "common.toml",
        'name = "pull"',
        'name = "pull"\nuse = "validate"',
        "has no posterior: it has no [[experiment]]",
    ),
    ("common.toml", "n = 4000", 'n = 4000\nsplit = "experiment"', "calibrates each part of its data alone"),
    (
        "model.py",
        'unit="m")}, outputs',
        'unit="mm")}, outputs',
        'one gives theta in "mm", but model.py:throw takes it',
    ),
]


@pytest.mark.parametrize(("name", "old", "new", "said"), SOURCES, ids=["no-data", "split", "units"])
def test_sources_that_are_refused(chain, name, old, new, said):
    edit(chain.parent / "line" / name, old, new)
    if name == "model.py":
        (chain.parent / "line/pull.csv").write_text("y\n2.0\n")
    with pytest.raises(tamis.StudyError) as refused:
        Study.load(chain / "study.toml")
    assert said in str(refused.value)


def test_whole_numbers_in_which_studies_differ_come_along(chain):
    edit(chain.parent / "line/model.py", "kind=0.0", "kind=0")
    edit(chain.parent / "line/half.toml", "slope = 0.5", "slope = 0.5\nkind = 2")
    for old, new in (("tau=0.7, seed=0", "tau=0.7, kind=0, seed=0"), ("tau, seed", "tau, kind, seed")):
        edit(chain / "model.py", old, new)
    edit(chain / "study.toml", "draws = 4000", "draws = 100")
    Study.load(chain / "study.toml").run("prediction", executor=0)
    assert "kind" in load_results(chain / "results/study").study.space.names


def test_a_posterior_of_what_takes_whole_numbers_here_is_refused(chain):
    edit(chain / "model.py", "theta=0.0, slope=1.0, gain=3.0, tau", "theta=0, slope=1.0, gain=3.0, tau")
    with pytest.raises(tamis.StudyError, match=r"theta .* takes whole numbers.* posterior draws are others"):
        Study.load(chain / "study.toml")


def test_what_would_need_a_surrogate_is_refused_without_asking_for_one(chain):
    edit(chain / "study.toml", 'name = "far"', 'name = "far"\nemulate = true')
    with pytest.raises(tamis.StudyError) as refused:
        Study.load(chain / "study.toml")
    said = str(refused.value)
    assert "predict[0].emulate: there is no surrogate" in said and "the simulator itself answers" in said
    assert "[surrogate]" not in said  # which is refused as well


def test_a_source_that_is_not_there_is_told_with_its_place(chain):
    edit(chain / "study.toml", "../line/half.toml", "../line/hafl.toml")
    with pytest.raises(
        tamis.StudyError,
        match=r'parameters\.from\[1\]: no study file ".*hafl\.toml"; did you mean "half\.toml"',
    ):
        Study.load(chain / "study.toml")


def test_sources_called_alike_are_told_apart_everywhere(chain, capsys):
    """Two files called study.toml, as this one is: by folder and file in messages, tables and news."""
    line = chain.parent / "line"
    other = chain.parent / "half"
    shutil.copytree(line, other)
    (line / "one.toml").rename(line / "study.toml")
    (other / "half.toml").rename(other / "study.toml")
    for old, new in (("one", "study"), ("../line/half", "../half/study"), ("draws = 4000", "draws = 100")):
        edit(chain / "study.toml", old, new)
    (other / "pull.csv").write_text("y\n2.5\n")
    with pytest.raises(tamis.StudyError, match="half/study and line/study are not held against the same"):
        Study.load(chain / "study.toml").run(executor=0)
    (other / "pull.csv").write_text("y\n2.0\n")
    told = []
    found = Study.load(chain / "study.toml").run(executor=0, progress=told.append)
    assert [source.name for source in found.sources] == ["line/study", "half/study"]
    assert any(event.task.startswith("half/study ") for event in told)
    edit(chain / "study.toml", '"../line/study.toml", ', "")  # one that is called like this study
    assert Study.load(chain / "study.toml").origins[0].name == "half/study"
    held = seized(other / "results/study")
    try:
        edit(other / "common.toml", "sd = 2.0", "sd = 2.1")
        with pytest.raises(tamis.StudyError, match=r"parameters\.from: half/study: .* being written"):
            Study.load(chain / "study.toml").run(executor=0)
    finally:
        released(held)


def test_choices_in_which_studies_differ_are_refused(chain):
    port = 'inputs={"theta": tamis.Port("theta", unit="m"), "law": tamis.Port("law", choices=("a", "b"))}'
    line = chain.parent / "line"
    edit(line / "model.py", 'inputs={"theta": tamis.Port("theta", unit="m")}', port)
    (line / "model.py").write_text(
        (line / "model.py").read_text().replace("kind=0.0", 'law="a"').replace("kind", "law")
    )
    edit(line / "half.toml", "slope = 0.5", 'slope = 0.5\nlaw = "b"')
    edit(
        chain / "model.py",
        'PORTS = {"theta"',
        'PORTS = {"law": tamis.Port("law", choices=("a", "b")), "theta"',
    )
    text = (
        (chain / "model.py")
        .read_text()
        .replace("seed=0)", 'seed=0, law="a")')
        .replace("seed):", "seed, law):")
    )
    (chain / "model.py").write_text(text)
    with pytest.raises(
        tamis.StudyError, match=r"the studies differ in law \(one: a, half: b\), which is no number"
    ):
        Study.load(chain / "study.toml")
    edit(chain / "study.toml", 'throw"\n', 'throw"\ninputs = { law = "b" }\n')
    assert Study.load(chain / "study.toml").fixed == {"law": "b"}


def test_what_only_an_error_model_reads_is_drawn_too(chain):
    """The error that was calibrated with the parameters is that of a prediction, draw by draw."""
    common = chain.parent / "line/common.toml"
    edit(common, "[[experiment]]", 'sigma = { prior = "uniform", low = 0.4, high = 0.6 }\n[[experiment]]')
    edit(common, '{ kind = "known", sd = 0.5 }', '{ kind = "gaussian", sd = "sigma" }')
    edit(common, "n = 4000", "n = 200")
    edit(chain / "study.toml", "draws = 4000\nreplicates = 2", "draws = 100")
    edit(chain / "study.toml", "limit = 8.0", 'limit = 8.0, noise = { kind = "gaussian", sd = "sigma" }')
    found = Study.load(chain / "study.toml").run(executor=0)
    panel = next(panel for panel in found.panels if panel.series == "far")
    source = found.sources[0]
    assert source.x.shape[1] == 2 and (source.x[:, 1] >= 0.4).all() and (source.x[:, 1] <= 0.6).all()
    squares = np.concatenate([s.x[:, list(s.names).index("sigma")] for s in found.sources]) ** 2
    added = panel.sd_total[0] ** 2 - panel.sd_model[0] ** 2
    assert added == pytest.approx(
        squares.mean(), rel=1e-6
    )  # the mean variance of the errors, by the same draws
