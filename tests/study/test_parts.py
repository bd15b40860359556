"""Split studies: each part of the data calibrated alone, on the same runs; and what a likelihood of groups says."""

from __future__ import annotations

import json
import shutil
import warnings

import numpy as np
import pytest

from tamis.cli import main
from tamis.errors import StudyError
from tamis.inference.likelihood import Likelihood
from tamis.study.build import Study
from tamis.study.parts import parts
from tamis.study.reader import read, up_to_date

MODEL = """
import numpy as np
import tamis

@tamis.simulator(outputs={"t": "s", "near": "m", "far": "m"})
def beam(*, a=1.0, b=0.5, load=1.0):
    t = np.array([1.0, 2.0, 3.0])
    return {"t": t, "near": load * a * t, "far": load * (a + b * t)}

@beam.batch
def _(*, a, b, load):
    t = np.array([1.0, 2.0, 3.0])
    a, b, load = a[:, None], b[:, None], load[:, None]
    return {"t": np.broadcast_to(t, (len(a), 3)), "near": load * a * t, "far": load * (a + b * t)}
"""
OBSERVE = """observe = [
  { output = "near", how = "at", data = "%s.csv", x = "t", y = "near", noise = { kind = "known", sd = 0.1 } },
  { output = "far",  how = "at", data = "%s.csv", x = "t", y = "far",  noise = { kind = "gaussian", sd = "s" } },
]
"""
STUDY = f"""
tamis = 1
seed = 3
[model]
simulator = "model.py:beam"
[parameters]
a = {{ prior = "normal", mean = 1.0, sd = 1.0 }}
b = {{ prior = "normal", mean = 0.0, sd = 1.0 }}
s = {{ prior = "lognormal", median = 0.1, cov = 0.3, unit = "m" }}
[[experiment]]
name = "light"
conditions = {{ load = 1.0 }}
{OBSERVE % ("light", "light")}
[[experiment]]
name = "heavy"
conditions = {{ load = 2.0 }}
{OBSERVE % ("heavy", "heavy")}
[[predict]]
name = "twice"
conditions = {{ load = 4.0 }}
observe = [ {{ output = "near", how = "final", label = "near at the end", limit = 12.5 }} ]
[design]
method = "sobol"
n = 16
[inference]
method = "metropolis"
chains = 40
draws = 400
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "study.toml").write_text(STUDY)
    t = np.array([1.0, 2.0, 3.0])
    for name, load, a in (("light", 1.0, 1.0), ("heavy", 2.0, 1.3)):  # the heavy one is another beam
        rows = np.column_stack([t, load * a * t, load * (a + 0.4 * t)])
        text = "\n".join(",".join(f"{v:.6g}" for v in row) for row in rows)
        (tmp_path / f"{name}.csv").write_text(f"t [s],near [m],far [m]\n{text}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def edit(folder, old, new):
    path = folder / "study.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def split(folder, by):
    edit(folder, "[inference]", f'[inference]\nsplit = "{by}"')


def near_alone(load, a):
    """Return mean and sd of parameter a from the near points of one test: a conjugate posterior."""
    t = np.array([1.0, 2.0, 3.0])
    precision = 1.0 + load**2 * (t @ t) / 0.1**2
    return (1.0 + load**2 * a * (t @ t) / 0.1**2) / precision, precision**-0.5


def test_groups_are_parts_with_the_posterior_of_their_data_alone(folder):
    split(folder, "group")
    found = Study.load("study.toml").run("prediction", executor=0)
    assert [part.study.part for part in found.parts] == ["light near", "light far", "heavy near", "heavy far"]
    for part, load, a in ((found.parts[0], 1.0, 1.0), (found.parts[2], 2.0, 1.3)):
        mean, sd = near_alone(load, a)
        draws = part.posterior.flat[:, part.posterior.space.index("a")]
        ess = part.posterior.diagnostics["ess"][part.posterior.space.index("a")]
        # four standard errors of a mean, and of a standard deviation (half of that over the square root of two)
        assert abs(draws.mean() - mean) < 4 * sd / np.sqrt(ess)
        assert abs(draws.std() / sd - 1) < 4 / np.sqrt(2 * ess)
        # b is told by nothing in this part, s by no error model of it
        assert "s" not in part.posterior.space.names
        b = part.posterior.flat[:, part.posterior.space.index("b")]
        assert abs(b.mean()) < 4 / np.sqrt(part.posterior.diagnostics["ess"][1])
    # each part predicts all series; those of the others are held out
    uses = {p.series: p.use for p in found.parts[0].panels}
    assert uses == {
        "light near": "calibrate",
        "light far": "validate",
        "heavy near": "validate",
        "heavy far": "validate",
        "twice": "predict",
    }
    assert found.posterior is None and found.panels is None


def test_parts_share_runs_with_the_whole(folder):
    Study.load("study.toml").run("posterior", executor=0)
    before = sorted(p.name for p in (folder / "runs").glob("*/*.npz"))
    split(folder, "experiment")
    (folder / "other.toml").write_text((folder / "study.toml").read_text())
    found = Study.load("other.toml").run("posterior", executor=0)
    assert sorted(p.name for p in (folder / "runs").glob("*/*.npz")) == before
    assert [part.folder.name for part in found.parts] == ["light", "heavy"]
    # the two beams differ by a, and the verdict says so
    assert "90 % intervals of 2 of 3 parameters overlap" in found.verdict
    a = [np.quantile(p.posterior.flat[:, 0], (0.05, 0.95)) for p in found.parts]
    assert a[0][1] < a[1][0]


def test_the_reports_say_it(folder, capsys):
    split(folder, "experiment")
    assert main(["run", "study.toml", "-j", "0"]) == 0
    said = capsys.readouterr().out
    assert "calibrated on" in said and "light" in said and "heavy" in said
    page = (folder / "results/study/report.html").read_text()
    assert "Parts of the data" in page and 'href="light/report.html"' in page
    mine = (folder / "results/study/light/report.html").read_text()
    assert "Held-out tests" in mine and "heavy" in mine
    assert main(["run", "study.toml", "-j", "0"]) == 0
    assert "is up to date" in capsys.readouterr().out
    assert main(["compare", "study.toml", "study.toml"]) == 2
    (folder / "other.toml").write_text((folder / "study.toml").read_text())
    assert main(["compare", "study.toml", "other.toml"]) == 2
    assert 'compare needs split = "none"' in capsys.readouterr().err


def test_named_groups_join_what_was_measured_in_different_tests(folder):
    text = (folder / "study.toml").read_text()
    text = text.replace('{ output = "near", how = "at"', '{ group = "close", output = "near", how = "at"')
    (folder / "study.toml").write_text(text)
    split(folder, "group")
    study = Study.load("study.toml")
    assert [part.part for part in parts(study)] == ["close", "light far", "heavy far"]
    close = parts(study)[0]
    assert [s.name for s in close.series if s.use == "calibrate"] == ["light, close", "heavy, close"]


@pytest.mark.parametrize("how", ["none", "group"])
def test_interrupted_anywhere_ends_with_the_same_bytes(folder, monkeypatch, how):
    """Interrupted while chains run, metropolis goes on where it was, in the part where it was."""
    if how != "none":
        split(folder, how)
    study = Study.load("study.toml")
    study.run("prediction", executor=0)
    wanted = {p: p.read_bytes() for p in (folder / "results").rglob("*.npz")}
    shutil.rmtree(folder / "results")
    calls = []
    real = Likelihood.__call__

    def counted(self, x):
        calls.append(len(x))
        if len(calls) in (130, 390, 800):
            raise KeyboardInterrupt
        return real(self, x)

    monkeypatch.setattr(Likelihood, "__call__", counted)
    cut = 0
    while True:
        try:
            study.run("prediction", executor=0)
            break
        except KeyboardInterrupt:
            cut += 1
            assert list((folder / "results").glob("**/checkpoint-*.npz"))
    assert cut == (3 if how == "group" else 2)
    found = {p: p.read_bytes() for p in (folder / "results").rglob("*.npz")}
    assert found == wanted


def test_parts_that_are_done_stay(folder, monkeypatch):
    split(folder, "experiment")
    from tamis.study import stages

    study = Study.load("study.toml")
    done = []
    real = stages.WORK["posterior"]

    def once(context):
        done.append(context.study.part)
        if context.study.part == "heavy" and done.count("heavy") == 1:
            raise KeyboardInterrupt
        real(context)

    monkeypatch.setitem(stages.WORK, "posterior", once)
    with pytest.raises(KeyboardInterrupt):
        study.run("posterior", executor=0)
    study.run("posterior", executor=0)
    assert done == ["light", "heavy", "heavy"]
    assert "begun" not in json.loads((folder / "results/study/manifest.json").read_text())


def test_exceedance_of_a_limit(folder):
    found = Study.load("study.toml").run("prediction", executor=0)
    panel = next(p for p in found.panels if p.series == "twice")
    # 12 a > 12.5: the share of the draws of the model; no error model is named, so the total is the same
    assert panel.limit == 12.5
    np.testing.assert_allclose(panel.exceedance[0], (panel.model > 12.5).mean(axis=0))
    np.testing.assert_allclose(panel.exceedance[1], panel.exceedance[0])


def test_point_estimates_are_those_of_the_posterior(folder):
    """With known errors the posterior is Gaussian: mean, median and point of highest density coincide."""
    text = (
        (folder / "study.toml").read_text().replace('kind = "gaussian", sd = "s"', 'kind = "known", sd = 0.1')
    )
    text = "\n".join(line for line in text.splitlines() if not line.startswith("s ="))
    (folder / "study.toml").write_text(text)
    found = Study.load("study.toml").run("posterior", executor=0)
    posterior = found.posterior
    sd = posterior.flat.std(axis=0)
    error = sd / np.sqrt(posterior.diagnostics["ess"])
    assert np.all(np.abs(posterior.best() - posterior.flat.mean(axis=0)) < 4 * error)
    # a median of Gaussian draws scatters sqrt(pi / 2) times as much as their mean
    assert np.all(
        np.abs(posterior.best() - np.median(posterior.flat, axis=0)) < 4 * np.sqrt(np.pi / 2) * error
    )
    heights = (posterior.log_likelihood + posterior.log_prior).max()
    assert posterior.diagnostics["mode_log_density"] >= heights


def test_an_error_of_nothing_is_objected_to(folder):
    """A variance of 1e-20, as if data and model were exact: the report and the verdict object."""
    text = (
        (folder / "study.toml").read_text().replace('kind = "known", sd = 0.1', 'kind = "known", sd = 1e-10')
    )
    (folder / "study.toml").write_text(text)
    found = Study.load("study.toml").run(executor=0)
    told = [w for w in found.worries if "less than a millionth of what was measured" in w.text]
    assert told and all(w.serious for w in told)
    assert any(w.unsound for w in found.worries)  # chains that stand still: the command's exit code is 1
    assert "less than a millionth" in (folder / "results/study/report.html").read_text()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("chains = 40", "n = 40", 'inference.n: only method = "tmcmc" has it'),
        ('method = "metropolis"\nchains = 40\ndraws = 400', 'method = "mct"', 'target = "loglike"'),
        ("chains = 40", "chain = 40", 'unknown key "chain"; did you mean "chains"?'),
        ("chains = 40", "chains = 2", "inference.chains"),
        ("draws = 400", 'split = "point"', 'inference.split: expected "none", "experiment" or "group"'),
        ('sd = "s"', 'scale = "s"', "gaussian noise takes no scale"),
        (
            'how = "final", label',
            'how = "final", group = "x", label',
            "predict[0].observe[0].group: groups are parts of the data to calibrate with",
        ),
        ('kind = "known", sd = 0.1', 'kind = "covariance"', "needs a matrix"),
        (
            'kind = "known", sd = 0.1',
            'kind = "covariance", matrix = [[1, 0], [0, 1]]',
            "expected a matrix of 3 by 3 for 3 measurements, found (2, 2)",
        ),
        ('kind = "known", sd = 0.1', 'kind = "covariance", matrix = "none.csv"', "none.csv"),
        ('kind = "known", sd = 0.1', 'kind = "lowrank"', "lowrank noise needs reference"),
        (
            'kind = "known", sd = 0.1',
            'kind = "known", sd = -0.1',
            "noise.sd: expected a positive number, found -0.1",
        ),
        (
            'kind = "known", sd = 0.1',
            'kind = "gaussian", variance = 0.0',
            "expected a positive number, found 0",
        ),
        ('sd = "s"', 'sd = "a"', 'the prior of "a" reaches down to -inf, but it is the size of an error'),
        ('kind = "known", sd = 0.1', 'kind = "lowrank", reference = "refs.csv"', "no data file"),
    ],
)
def test_refusals(folder, old, new, message):
    edit(folder, old, new)
    with pytest.raises(StudyError) as caught:
        Study.load("study.toml")
    assert message in str(caught.value)


def test_nothing_to_split(folder):
    text = (folder / "study.toml").read_text()
    start = text.index('[[experiment]]\nname = "heavy"')
    (folder / "study.toml").write_text(text[:start] + text[text.index("[[predict]]") :])
    split(folder, "experiment")
    with pytest.raises(StudyError, match="only one experiment to calibrate with"):
        Study.load("study.toml")


def test_a_full_covariance_in_the_file(folder):
    """Errors of one test that are all the same shift the level: the sum of the matrix is what counts."""
    matrix = (0.04 * np.ones((3, 3)) + 0.01 * np.eye(3)).tolist()
    text = (folder / "study.toml").read_text()
    (folder / "study.toml").write_text(
        text.replace('kind = "known", sd = 0.1', f'kind = "covariance", matrix = {matrix}')
    )
    split(folder, "group")
    found = Study.load("study.toml").run("posterior", executor=0)
    t = np.array([1.0, 2.0, 3.0])
    precision = 1.0 + t @ np.linalg.solve(np.array(matrix), t)
    part = found.parts[0].posterior
    assert abs(part.flat[:, 0].std() * precision**0.5 - 1) < 4 / np.sqrt(2 * part.diagnostics["ess"][0])


def test_stale_parts(folder):
    split(folder, "group")
    Study.load("study.toml").run("prediction", executor=0)
    assert all(up_to_date(read(folder / "study.toml"), "prediction").values())
    edit(folder, 'output = "near",', 'group = "x", output = "near",')
    states = up_to_date(read(folder / "study.toml"))
    assert not states["posterior"] and states["design"]
    found = Study.load("study.toml").run("posterior", executor=0)
    assert [part.study.part for part in found.parts] == ["x", "light far", "heavy near", "heavy far"]


def reference(folder, name, add=0.0):
    """Write eight reference tests of the near points: errors, plus what is added."""
    rng = np.random.default_rng(4)
    errors = 0.05 * rng.standard_normal((8, 1)) + 0.02 * rng.standard_normal((8, 3)) + 0.03
    rows = np.column_stack([[1.0, 2.0, 3.0], (errors + add).T])
    head = ",".join(["t [s]", *(f"run{i} [m]" for i in range(8))])
    text = "\n".join(",".join(f"{v:.12g}" for v in row) for row in rows)
    (folder / name).write_text(f"{head}\n{text}\n")


def test_an_error_identified_from_reference_tests(folder):
    """Errors, or measurements at known inputs, from which a run there is subtracted: the same error model."""
    reference(folder, "errors.csv")
    reference(folder, "measured.csv", add=1.5 * np.array([1.0, 2.0, 3.0]))
    text = (folder / "study.toml").read_text()
    found = []
    for noise in (
        'kind = "lowrank", reference = "errors.csv"',
        'kind = "lowrank", reference = "measured.csv", nominal = { a = 1.5 }',
    ):
        (folder / "study.toml").write_text(text.replace('kind = "known", sd = 0.1', noise, 1))
        found.append(Study.load("study.toml").series[0].experiments[0].observations[0].noise)
    np.testing.assert_allclose(found[0].mean, found[1].mean, atol=1e-9)
    np.testing.assert_allclose(
        found[0].error_variance(np.zeros((1, 3)), {}, None),
        found[1].error_variance(np.zeros((1, 3)), {}, None),
        rtol=1e-6,
    )
    # the mean of eight errors of 0.03, each of variance 0.05^2 + 0.02^2: five standard errors
    assert np.all(np.abs(np.asarray(found[0].mean) - 0.03) < 5 * np.sqrt(0.05**2 + 0.02**2) / np.sqrt(8))
    states = up_to_date(read(folder / "study.toml"))
    assert not states["posterior"]


def test_the_report_shows_errors_found_from_reference_tests(folder):
    reference(folder, "errors.csv")
    noise = 'noise = [ { kind = "lowrank", reference = "errors.csv" }, { kind = "known", sd = 0.01 } ]'
    edit(folder, 'noise = { kind = "known", sd = 0.1 }', noise)
    projected = 'kind = "lowrank", reference = "errors.csv", residual = false'
    edit(folder, 'kind = "known", sd = 0.1', projected)
    found = Study.load("study.toml").run(executor=0)
    with_residual, without = found.errors
    assert (with_residual.series, with_residual.label, with_residual.unit) == ("light", "near", "m")
    part = found.study.series[0].experiments[0].observations[0].noise.parts[0]
    # squares add up to the variance, averaged over the test
    squares = sum(sd**2 for sd in with_residual.modes) + with_residual.residual**2
    assert squares == pytest.approx(part.error_variance(np.zeros((1, 3)), {}, None).mean())
    assert with_residual.mean == pytest.approx(np.sqrt(np.mean(part.mean**2)))
    assert without.series == "heavy" and without.residual == 0 and len(without.modes) >= 1
    assert list(without.modes) == sorted(without.modes, reverse=True)
    assert "Identified errors" in (folder / "results/study/report.html").read_text()
    rows = (folder / "results/study/tables/errors.csv").read_text().splitlines()
    assert len(rows) == 1 + sum(2 + len(e.modes) for e in found.errors)


def test_a_sum_of_errors_that_has_no_density_is_refused(folder):
    reference(folder, "errors.csv")
    one = '{ kind = "lowrank", reference = "errors.csv", residual = false }'
    edit(folder, 'noise = { kind = "known", sd = 0.1 }', f"noise = [ {one}, {one} ]")
    with pytest.raises(
        StudyError, match=r"experiment\[0\].observe\[0\].noise: a sum of low-rank errors without"
    ):
        Study.load("study.toml")


def test_a_changed_reference_file_makes_the_posterior_stale(folder):
    reference(folder, "errors.csv")
    edit(folder, 'kind = "known", sd = 0.1', 'kind = "lowrank", reference = "errors.csv"')
    Study.load("study.toml").run("posterior", executor=0)
    assert up_to_date(read(folder / "study.toml"), "posterior")["posterior"]
    reference(folder, "errors.csv", add=0.1)
    states = up_to_date(read(folder / "study.toml"), "posterior")
    assert not states["posterior"] and states["observables"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\n2,", "\n2.5,", "must be the abscissa of the measurements"),
        ("\n3,", "\n3,\n4,", "errors.csv"),
        ("run7 [m]", "run6 [m]", "appears twice"),
        ("run7 [m]", "run7 [mm]", 'column "run7" is in "mm", the measurements in "m"'),
        (
            None,
            "t [s],a,b\n1,1,1\n2,1,1\n3,1,1\n",
            "has 2 reference tests, one a column; at least 5 are needed",
        ),
        (None, "t [s],a\n1,x\n2,1\n3,1\n", "expected a number"),
    ],
)
def test_bad_references(folder, old, new, message):
    reference(folder, "errors.csv")
    path = folder / "errors.csv"
    path.write_text(new if old is None else path.read_text().replace(old, new))
    edit(folder, 'kind = "known", sd = 0.1', 'kind = "lowrank", reference = "errors.csv"')
    with pytest.raises(StudyError) as caught:
        Study.load("study.toml")
    assert message in str(caught.value) and "study.toml: experiment[0].observe[0].noise" in str(caught.value)


def test_numerical_experiments_with_errors_of_reference_tests(folder):
    reference(folder, "errors.csv")
    text = (folder / "study.toml").read_text()
    head = text.index("[[experiment]]")
    tests = "".join(
        f"""[[experiment]]
name = "made {k}"
synthetic = {{ inputs = {{ a = 1.0 }}, noise = {{ kind = "lowrank", reference = "errors.csv" }}, seed = {k} }}
observe = [ {{ output = "near", how = "at", times = [1, 2, 3], noise = {{ kind = "gaussian", sd = "s" }} }} ]
"""
        for k in range(60)
    )
    (folder / "study.toml").write_text(text[:head] + tests + text[text.index("[[predict]]") :])
    study = Study.load("study.toml")
    errors = np.array([s.experiments[0].observations[0].y[0] for s in study.series[:60]]) - [1.0, 2.0, 3.0]
    # independent from test to test, common along a test: mean 0.03, sd about 0.054, five standard errors of 60
    assert np.all(np.abs(errors.mean(axis=0) - 0.03) < 0.02 + 5 * 0.07 / np.sqrt(60))
    assert np.corrcoef(errors.T)[0, 2] > 0.4


def test_a_test_taken_out_of_a_group_split_shifts_nothing(folder):
    """Which series there are, and in which order, follows from the uses as well: stages that stand on it run again."""
    split(folder, "group")
    Study.load("study.toml").run("prediction", executor=0)
    edit(folder, 'name = "light"', 'name = "light"\nuse = "validate"')
    found = Study.load("study.toml").run("prediction", executor=0)
    assert [part.study.part for part in found.parts] == ["heavy near", "heavy far"]
    a = found.parts[0].posterior.flat[:, 0]
    mean, sd = near_alone(2.0, 1.3)
    assert abs(a.mean() - mean) < 4 * sd / np.sqrt(found.parts[0].posterior.diagnostics["ess"][0])
    # parts of the old splitting are gone
    assert not (folder / "results/study/light-near").exists()


def test_renamed_parts_are_sampled_again(folder):
    split(folder, "group")
    Study.load("study.toml").run("posterior", executor=0)
    edit(folder, 'output = "near",', 'label = "close", output = "near",')
    found = Study.load("study.toml").run("posterior", executor=0)
    assert found.parts[0].study.part == "light close"


def test_known_errors_reopen_no_runs(folder):
    split(folder, "group")
    Study.load("study.toml").run("posterior", executor=0)
    edit(folder, "sd = 0.1", "sd = 0.2")
    states = up_to_date(read(folder / "study.toml"), "posterior")
    assert states == {"design": True, "runs": True, "observables": True, "posterior": False}


def test_a_lost_part_is_sampled_again(folder):
    split(folder, "experiment")
    Study.load("study.toml").run("posterior", executor=0)
    shutil.rmtree(folder / "results/study/heavy")
    assert not up_to_date(read(folder / "study.toml"), "posterior")["posterior"]
    Study.load("study.toml").run("posterior", executor=0)
    assert (folder / "results/study/heavy/posterior.npz").is_file()


def test_correlated_priors_and_idle_errors(folder):
    """The size of an error that a part cannot tell is drawn from its prior, also beside correlated parameters."""
    edit(folder, "[[experiment]]", '[[correlation]]\nbetween = ["a", "b"]\nvalue = 0.5\n\n[[experiment]]')
    edit(folder, "limit = 12.5 }", 'limit = 12.5, noise = { kind = "gaussian", sd = "s" } }')
    edit(folder, "[design]", "[propagate]\nbatch = 50\nmost = 200\n\n[design]")
    split(folder, "group")
    found = Study.load("study.toml").run("propagation", executor=0)
    part = found.parts[0]
    assert part.posterior.space.names == ("a", "b") and part.propagations
    panel = next(p for p in part.panels if p.series == "twice")
    # the error's variance is that of its prior: lognormal, median 0.1, cov 0.3; four standard errors of 400 draws
    wanted = 0.1**2 * (1 + 0.3**2) ** 2
    assert abs(panel.error_var.mean() / wanted - 1) < 4 * np.sqrt((1 + 0.3**2) ** 4 - 1) / np.sqrt(
        len(panel.model)
    )


def test_next_and_a_fresh_run_agree_to_the_byte(folder):
    """A table of possible experiments changes no prediction, whether it was there from the start or not."""
    split(folder, "group")
    Study.load("study.toml").run("prediction", executor=0)
    path = folder / "results/study/light-near/prediction.npz"
    before = path.read_bytes()
    more = '\n[[next]]\nname = "n"\nobserve = [ { output = "far", how = "final", sd = 0.1 } ]\n'
    (folder / "study.toml").write_text((folder / "study.toml").read_text() + more)
    shutil.rmtree(folder / "results")
    Study.load("study.toml").run("next", executor=0)
    Study.load("study.toml").run("prediction", executor=0)
    assert path.read_bytes() == before
    assert (folder / "results/study/light-near/next.npz").is_file()


def test_warnings_of_parts_keep_their_names_through_an_interruption(folder, monkeypatch):
    from tamis.errors import TamisWarning
    from tamis.study import stages

    split(folder, "experiment")
    real, done = stages.WORK["posterior"], []

    def warning(context):
        done.append(context.study.part)
        if context.study.part == "light":
            warnings.warn("look at this", TamisWarning, stacklevel=2)
        elif done.count("heavy") == 1:
            raise KeyboardInterrupt
        real(context)

    monkeypatch.setitem(stages.WORK, "posterior", warning)
    study = Study.load("study.toml")
    with pytest.raises(KeyboardInterrupt):
        study.run("posterior", executor=0)
    found = study.run("posterior", executor=0)
    light, heavy = ([w.text for w in part.worries] for part in found.parts)
    assert "look at this" in light and "look at this" not in heavy


def test_what_stages_of_the_whole_say_of_a_test_is_no_warning_of_a_part(folder, monkeypatch):
    """Runs that cannot be compared are told by the test's name, which is also that of a part."""
    from tamis.errors import TamisWarning
    from tamis.study import stages

    split(folder, "experiment")
    real = stages.WORK["observables"]

    def warning(context):
        warnings.warn("light: 3 runs cannot be compared with the data", TamisWarning, stacklevel=2)
        real(context)

    monkeypatch.setitem(stages.WORK, "observables", warning)
    found = Study.load("study.toml").run("posterior", executor=0)
    told = [w.text for w in found.worries if "cannot be compared" in w.text]
    assert told == ["light: 3 runs cannot be compared with the data"]
    assert not any("cannot be compared" in w.text for part in found.parts for w in part.worries)


def test_a_manifest_of_former_form_is_stale(folder, capsys):
    """It listed the parts' folders, and their warnings among the study's."""
    split(folder, "experiment")
    study = Study.load("study.toml")
    study.run("posterior", executor=0)
    wanted = (folder / "results/study/light/posterior.npz").read_bytes()
    path = folder / "results/study/manifest.json"
    manifest = json.loads(path.read_text())
    entry = manifest["stages"]["posterior"]
    assert {name: part["folder"] for name, part in entry["parts"].items()} == {
        "light": "light",
        "heavy": "heavy",
    }
    former = {**entry, "parts": ["light", "heavy"], "warnings": ["light: look at this"]}
    path.write_text(json.dumps({**manifest, "stages": {**manifest["stages"], "posterior": former}}))
    states = up_to_date(read(folder / "study.toml"), "posterior")
    assert states == {"design": True, "runs": True, "observables": True, "posterior": False}
    assert main(["status", "study.toml"]) == 0
    found = study.run("posterior", executor=0)
    assert [part.study.part for part in found.parts] == ["light", "heavy"]
    assert (folder / "results/study/light/posterior.npz").read_bytes() == wanted


def test_bounds_at_zero_are_told_in_parts_too(folder):
    """A simulator's input that leans against zero is a worry, the size of an error is not."""
    edit(
        folder,
        'a = { prior = "normal", mean = 1.0, sd = 1.0 }',
        'a = { prior = "uniform", low = 0.0, high = 50.0 }',
    )
    split(folder, "experiment")
    found = Study.load("study.toml").run("posterior", executor=0)
    assert any("a leans against the lower bound" in w.text for part in found.parts for w in part.worries)


def test_reference_tests_serve_the_later_tests_of_a_part(folder):
    """The error of a mean is common to the tests that are calibrated together: two here, one where they are split."""
    reference(folder, "errors.csv")
    text = (folder / "study.toml").read_text()
    text = text.replace('kind = "known", sd = 0.1', 'kind = "lowrank", reference = "errors.csv"')
    sizes = []
    for by in ("none", "experiment"):
        (folder / "study.toml").write_text(text.replace("[inference]", f'[inference]\nsplit = "{by}"'))
        noise = Study.load("study.toml").series[0].experiments[0].observations[0].noise
        sizes.append(noise.error_variance(np.zeros((1, 3)), {}, None))
    np.testing.assert_allclose(sizes[0] / sizes[1], (8 + 2) / (8 + 1), rtol=1e-9)


def test_the_plan_counts_runs_once(folder, capsys):
    split(folder, "group")
    assert main(["check", "study.toml"]) == 0
    said = capsys.readouterr().out
    assert "design: 32 runs" in said and "for each of 4 parts of the data" in said


@pytest.mark.parametrize(
    ("observe", "message"),
    [
        ('{ output = "far", how = "final", sd = -0.1 }', "next[0].observe[0].sd: expected a positive number"),
        ('{ output = "far", how = "final", sd = "s" }', "next[0].observe[0].sd: expected a positive number"),
        ('{ output = "far", how = "final", sd = 0.1, data = "no.csv" }', "has no measurements yet"),
        ('{ output = "far", how = "final", sd = 0.1, limit = 2 }', "has no measurements yet"),
        ('{ output = "far", how = "final" }', "next[0].observe[0].noise: missing"),
    ],
)
def test_candidates_refused(folder, observe, message):
    more = f'\n[[next]]\nname = "n"\nobserve = [ {observe} ]\n'
    (folder / "study.toml").write_text((folder / "study.toml").read_text() + more)
    with pytest.raises(StudyError) as caught:
        Study.load("study.toml")
    assert message in str(caught.value)
