"""Split studies: each part of the data calibrated alone, on the same runs; and what a likelihood of groups says."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from tamis.cli import main
from tamis.errors import StudyError
from tamis.inference.likelihood import Likelihood
from tamis.inference.posterior import Posterior
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
    assert "90 % intervals of 1 of 3 parameters overlap" not in found.verdict
    a = [np.quantile(p.posterior.flat[:, 0], (0.05, 0.95)) for p in found.parts]
    assert a[0][1] < a[1][0] and "of 3 parameters overlap" in found.verdict


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
    text = text.replace('{ output = "near",', '{ group = "close", output = "near",')
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
    assert np.all(np.abs(posterior.best() - np.median(posterior.flat, axis=0)) < 6 * error)
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
        ('kind = "known", sd = 0.1', 'kind = "covariance"', "needs a matrix"),
        (
            'kind = "known", sd = 0.1',
            'kind = "covariance", matrix = [[1, 0], [0, 1]]',
            "expected a matrix of 3 by 3 for 3 measurements, found (2, 2)",
        ),
        ('kind = "known", sd = 0.1', 'kind = "covariance", matrix = "none.csv"', "none.csv"),
        ('kind = "known", sd = 0.1', 'kind = "lowrank"', "lowrank noise needs reference"),
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
    posterior = Posterior.load(
        folder / "results/study/light-far/posterior.npz", parts(Study.load("study.toml"))[1].space
    )
    assert posterior.x.shape[0] == 40
