"""Split studies: each part of the data calibrated alone, on the same runs."""

from __future__ import annotations

import json
import shutil
import warnings

import numpy as np
import pytest

from tamis import Study
from tamis.cli.main import main
from tamis.errors import StudyError
from tamis.inference.likelihood import Likelihood
from tamis.study.parts import parts
from tamis.study.reader import read
from tamis.study.stages.table import up_to_date
from tests.shelf import spots
from tests.study.beam import edit, few_draws, split, write


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


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
    few_draws(folder)
    Study.load("study.toml").run("posterior", executor=0)
    edit(folder, "draws = 40", "draws = 400")  # for the intervals of the parts
    before = sorted(spots(folder / "runs"))
    split(folder, "experiment")
    (folder / "other.toml").write_text((folder / "study.toml").read_text())
    found = Study.load("other.toml").run("posterior", executor=0)
    assert sorted(spots(folder / "runs")) == before
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
    few_draws(folder)
    split(folder, "experiment")
    from tamis.study.stages import posterior

    study = Study.load("study.toml")
    done = []
    real = posterior.run

    def once(context):
        done.append(context.study.part)
        if context.study.part == "heavy" and done.count("heavy") == 1:
            raise KeyboardInterrupt
        real(context)

    monkeypatch.setattr(posterior, "run", once)
    with pytest.raises(KeyboardInterrupt):
        study.run("posterior", executor=0)
    study.run("posterior", executor=0)
    assert done == ["light", "heavy", "heavy"]
    assert "begun" not in json.loads((folder / "results/study/manifest.json").read_text())


def test_nothing_to_split(folder):
    text = (folder / "study.toml").read_text()
    start = text.index('[[experiment]]\nname = "heavy"')
    (folder / "study.toml").write_text(text[:start] + text[text.index("[[predict]]") :])
    split(folder, "experiment")
    with pytest.raises(StudyError, match="only one experiment to calibrate with"):
        Study.load("study.toml")


def test_stale_parts(folder):
    few_draws(folder)
    split(folder, "group")
    Study.load("study.toml").run("prediction", executor=0)
    assert all(up_to_date(read(folder / "study.toml"), "prediction").values())
    edit(folder, 'output = "near",', 'group = "x", output = "near",')
    states = up_to_date(read(folder / "study.toml"))
    assert not states["posterior"] and states["design"]
    found = Study.load("study.toml").run("posterior", executor=0)
    assert [part.study.part for part in found.parts] == ["x", "light far", "heavy near", "heavy far"]


def test_a_test_taken_out_of_a_group_split_shifts_nothing(folder):
    """Which series there are, and in which order, follows from the uses as well: stages that stand on it run again."""
    few_draws(folder)
    split(folder, "group")
    Study.load("study.toml").run("prediction", executor=0)
    edit(folder, "draws = 40", "draws = 400")  # the figures are those of the second run
    edit(folder, 'name = "light"', 'name = "light"\nuse = "validate"')
    found = Study.load("study.toml").run("prediction", executor=0)
    assert [part.study.part for part in found.parts] == ["heavy near", "heavy far"]
    a = found.parts[0].posterior.flat[:, 0]
    mean, sd = near_alone(2.0, 1.3)
    assert abs(a.mean() - mean) < 4 * sd / np.sqrt(found.parts[0].posterior.diagnostics["ess"][0])
    # parts of the old splitting are gone
    assert not (folder / "results/study/light-near").exists()


def test_renamed_parts_are_sampled_again(folder):
    few_draws(folder)
    split(folder, "group")
    Study.load("study.toml").run("posterior", executor=0)
    edit(folder, 'output = "near",', 'label = "close", output = "near",')
    found = Study.load("study.toml").run("posterior", executor=0)
    assert found.parts[0].study.part == "light close"


def test_known_errors_reopen_no_runs(folder):
    few_draws(folder)
    split(folder, "group")
    Study.load("study.toml").run("posterior", executor=0)
    edit(folder, "sd = 0.1", "sd = 0.2")
    states = up_to_date(read(folder / "study.toml"), "posterior")
    assert states == {"design": True, "runs": True, "observables": True, "posterior": False}


def test_a_lost_part_is_sampled_again(folder):
    few_draws(folder)
    split(folder, "experiment")
    Study.load("study.toml").run("posterior", executor=0)
    shutil.rmtree(folder / "results/study/heavy")
    assert not up_to_date(read(folder / "study.toml"), "posterior")["posterior"]
    Study.load("study.toml").run("posterior", executor=0)
    assert (folder / "results/study/heavy/posterior.npz").is_file()


def test_correlated_priors_and_idle_errors(folder):
    """The size of an error that a part cannot tell is drawn from its prior, also beside correlated parameters."""
    few_draws(folder)
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
    few_draws(folder)
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
    few_draws(folder)
    from tamis.errors import TamisWarning
    from tamis.study.stages import posterior

    split(folder, "experiment")
    real, done = posterior.run, []

    def warning(context):
        done.append(context.study.part)
        if context.study.part == "light":
            warnings.warn("look at this", TamisWarning, stacklevel=2)
        elif done.count("heavy") == 1:
            raise KeyboardInterrupt
        real(context)

    monkeypatch.setattr(posterior, "run", warning)
    study = Study.load("study.toml")
    with pytest.raises(KeyboardInterrupt):
        study.run("posterior", executor=0)
    found = study.run("posterior", executor=0)
    light, heavy = ([w.text for w in part.worries] for part in found.parts)
    assert "look at this" in light and "look at this" not in heavy


def test_what_stages_of_the_whole_say_of_a_test_is_no_warning_of_a_part(folder, monkeypatch):
    """Runs that cannot be compared are told by the test's name, which is also that of a part."""
    few_draws(folder)
    from tamis.errors import TamisWarning
    from tamis.study.stages import observables

    split(folder, "experiment")
    real = observables.run

    def warning(context):
        warnings.warn("light: 3 runs cannot be compared with the data", TamisWarning, stacklevel=2)
        real(context)

    monkeypatch.setattr(observables, "run", warning)
    found = Study.load("study.toml").run("posterior", executor=0)
    told = [w.text for w in found.worries if "cannot be compared" in w.text]
    assert told == ["light: 3 runs cannot be compared with the data"]
    assert not any("cannot be compared" in w.text for part in found.parts for w in part.worries)


def test_a_manifest_of_former_form_is_stale(folder, capsys):
    """It listed the parts' folders, and their warnings among the study's."""
    few_draws(folder)
    split(folder, "experiment")
    study = Study.load("study.toml")
    study.run("posterior", executor=0)
    wanted = (folder / "results/study/light/posterior.npz").read_bytes()
    path = folder / "results/study/manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["checksum"]
    for stage in manifest["stages"].values():
        del stage["content"]
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


def test_the_plan_counts_runs_once(folder, capsys):
    split(folder, "group")
    assert main(["check", "study.toml"]) == 0
    said = capsys.readouterr().out
    assert "design: 32 runs" in said and "for each of 4 parts of the data" in said
