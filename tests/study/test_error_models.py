"""Errors as a study file states them: known, a covariance, found from reference tests; and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tamis import Study
from tamis.errors import StudyError
from tamis.study.reader import read
from tamis.study.stages.table import up_to_date
from tests.study.beam import edit, few_draws, split, write


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


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
        Study.load("study.toml").run("synthetic", executor=0)
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
    few_draws(folder)
    reference(folder, "errors.csv")
    noise = 'noise = [ { kind = "lowrank", reference = "errors.csv" }, { kind = "known", sd = 0.01 } ]'
    edit(folder, 'noise = { kind = "known", sd = 0.1 }', noise)
    projected = 'kind = "lowrank", reference = "errors.csv", residual = false'
    edit(folder, 'kind = "known", sd = 0.1', projected)
    study = Study.load("study.toml")
    found = study.run(executor=0)
    with_residual, without = found.study.errors
    assert (with_residual.series, with_residual.label, with_residual.unit) == ("light", "near", "m")
    part = study.series[0].experiments[0].observations[0].noise.parts[0]
    # squares add up to the variance, averaged over the test
    squares = sum(sd**2 for sd in with_residual.modes) + with_residual.residual**2
    assert squares == pytest.approx(part.error_variance(np.zeros((1, 3)), {}, None).mean())
    assert with_residual.mean == pytest.approx(np.sqrt(np.mean(part.mean**2)))
    assert without.series == "heavy" and without.residual == 0 and len(without.modes) >= 1
    assert list(without.modes) == sorted(without.modes, reverse=True)
    assert "Identified errors" in (folder / "results/study/report.html").read_text()
    rows = (folder / "results/study/tables/errors.csv").read_text().splitlines()
    assert len(rows) == 1 + sum(2 + len(e.modes) for e in found.study.errors)


def test_a_sum_of_errors_that_has_no_density_is_refused(folder):
    reference(folder, "errors.csv")
    one = '{ kind = "lowrank", reference = "errors.csv", residual = false }'
    edit(folder, 'noise = { kind = "known", sd = 0.1 }', f"noise = [ {one}, {one} ]")
    with pytest.raises(
        StudyError, match=r"experiment\[0\].observe\[0\].noise: a sum of low-rank errors without"
    ):
        Study.load("study.toml")


def test_a_changed_reference_file_makes_the_posterior_stale(folder):
    few_draws(folder)
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
    Study.load("study.toml").run("synthetic", executor=0)
    study = Study.load("study.toml")
    errors = np.array([s.experiments[0].observations[0].y[0] for s in study.series[:60]]) - [1.0, 2.0, 3.0]
    # independent from test to test, common along a test: mean 0.03, sd about 0.054, five standard errors of 60
    assert np.all(np.abs(errors.mean(axis=0) - 0.03) < 0.02 + 5 * 0.07 / np.sqrt(60))
    assert np.corrcoef(errors.T)[0, 2] > 0.4


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
