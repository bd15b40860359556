"""Results are files: read without the model, and no simulation runs because a study file is read."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import tamis
from tamis import Study
from tamis.cli.main import main
from tamis.errors import StudyError, TamisError
from tamis.report.page import write_report
from tamis.results.gather import load_results
from tamis.results.manifest import read_manifest, write_manifest
from tamis.results.study import load_study, save_study
from tamis.runs.locks import released, seized
from tamis.study.reader import noise_parameters, read
from tamis.study.stages import table
from tamis.study.stages.table import up_to_date
from tests.study.beam import edit, few_draws, split, write

SYNTHETIC = """[[experiment]]
name = "made"
synthetic = { inputs = { a = 1.2, b = 0.4 }, noise = { kind = "gaussian", sd = 0.05 }, seed = 7 }
observe = [ { output = "near", how = "at", times = [1, 2, 3], noise = { kind = "known", sd = 0.1 } } ]
[[predict]]"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write(tmp_path)
    few_draws(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("by", ["none", "group"])
def test_results_are_read_without_the_model(folder, by):
    split(folder, by)
    edit(folder, "[design]", '[[correlation]]\nbetween = ["a", "b"]\nvalue = 0.3\n[design]')
    found = Study.load("study.toml").run(executor=0)
    report = folder / "results" / "study" / "report.html"
    before = report.read_text()
    for name in ("model.py", "study.toml", "light.csv", "heavy.csv"):
        (folder / name).unlink()
    again = load_results(folder / "results" / "study")
    assert again.study == found.study and again.verdict == found.verdict and again.worries == found.worries
    assert [part.study for part in again.parts] == [part.study for part in found.parts]
    for one, other in zip((found, *found.parts), (again, *again.parts), strict=True):
        assert (one.posterior is None) == (other.posterior is None) and one.folder == other.folder
        if one.posterior is not None:
            np.testing.assert_array_equal(one.posterior.x, other.posterior.x)
    write_report(again, folder / "again" / "report.html")
    # the first was written before the manifest told of the report itself
    lines = [set(text.splitlines()) for text in (before, (folder / "again" / "report.html").read_text())]
    assert len(lines[0] ^ lines[1]) <= 2


def test_the_space_is_made_again_to_the_bit(folder):
    edit(folder, "[design]", '[[correlation]]\nbetween = ["a", "b"]\nvalue = 0.3\n[design]')
    edit(folder, "mean = 0.0, sd = 1.0", "mean = 0.0, sd = 1.0, low = -inf, high = 2.0")
    edit(folder, 'b = { prior = "normal"', 'b = { prior = "truncnormal"')
    study = Study.load("study.toml")
    save_study(folder, study.record())
    record = load_study(folder)
    assert record == study.record() and record.stem == "study"
    u = np.random.default_rng(0).random((50, 3))
    np.testing.assert_array_equal(record.space.from_unit(u), study.space.from_unit(u))
    assert record.model_space.names == study.model_space.names == ("a", "b")


def test_labels_and_thresholds_of_now_are_told(folder):
    Study.load("study.toml").run("observables", executor=0)
    edit(folder, 'name = "twice"', 'name = "four times"')
    edit(folder, 'y = "near", noise', 'y = "near", label = "tip", noise')
    assert up_to_date(read(folder / "study.toml"))["runs"]
    Study.load("study.toml").run("observables", executor=0)
    series = load_study(folder / "results" / "study").series
    assert series[0].observations[0].ylabel == "tip [m]" and series[-1].name == "four times"


def test_the_report_alone_tells_labels_of_now(folder, capsys):
    Study.load("study.toml").run(executor=0)
    (folder / "study.toml").write_text(
        (folder / "study.toml").read_text().replace("seed = 3", 'title = "New"\nseed = 3')
    )
    assert main(["report", "study.toml"]) == 0
    assert load_study(folder / "results" / "study").title == "New"
    assert "New" in (folder / "results" / "study" / "report.html").read_text()


def test_the_report_alone_needs_neither_model_nor_study_nor_runs(folder, capsys):
    Study.load("study.toml").run(executor=0)
    report = folder / "results" / "study" / "report.html"
    (folder / "model.py").unlink()
    report.unlink()
    assert main(["report", "study.toml"]) == 0 and "design runs" in report.read_text()
    shutil.rmtree(folder / "runs")
    (folder / "study.toml").unlink()
    assert main(["report", "results/study"]) == 0
    assert "run store is not beside these results" in report.read_text()
    moved = folder / "moved"
    shutil.copytree(folder / "results" / "study", moved)
    found = load_results(moved)
    assert found.design is None and found.panels and found.posterior is not None
    assert any("run store" in worry.text for worry in found.worries)
    (moved / "prediction.npz").unlink()
    assert main(["report", str(moved)]) == 2 and "prediction is not up to date" in capsys.readouterr().err


def test_the_report_of_a_split_study_needs_no_model(folder, capsys):
    split(folder, "experiment")
    Study.load("study.toml").run("prediction", executor=0)
    (folder / "model.py").unlink()
    assert main(["report", "study.toml"]) == 0
    assert "Parts of the data" in (folder / "results" / "study" / "report.html").read_text()


def test_the_report_alone_is_refused_where_the_model_has_changed(folder, capsys):
    Study.load("study.toml").run(executor=0)
    model = folder / "model.py"
    text = model.read_text()
    model.write_text(text.replace("load * a * t", "load * a * t * 1.0"))
    assert main(["report", "study.toml"]) == 2 and "runs is not up to date" in capsys.readouterr().err
    assert main(["status", "study.toml"]) == 0
    said = capsys.readouterr().out
    assert "the simulator's code has changed" in said and "tamis itself" not in said
    model.write_text(text)
    edit(folder, "seed = 3", "seed = 4")
    main(["status", "study.toml"])
    said = capsys.readouterr().out
    assert "the study file, its data or an earlier stage has changed" in said and "code" not in said
    edit(folder, "seed = 4", "seed = 3")
    (folder / "results" / "study" / "prediction.npz").unlink()
    main(["status", "study.toml"])
    assert "its files are missing, or not as they were written" in capsys.readouterr().out


def test_a_changed_core_is_told(folder, capsys, monkeypatch):
    Study.load("study.toml").run("design", executor=0)
    monkeypatch.setattr(table, "core_code", lambda: "other")
    main(["status", "study.toml"])
    assert "tamis itself has changed" in capsys.readouterr().out
    manifest = read_manifest(folder / "results" / "study")
    del manifest["stages"]["design"]["code"]  # as former versions left it
    write_manifest(folder / "results" / "study", manifest)
    main(["status", "study.toml"])
    assert "some code" in capsys.readouterr().out


def test_parameters_of_error_models_are_found_under_any_key(folder):
    edit(folder, 'kind = "gaussian", sd = "s"', 'kind = "new", rate = "s", of = "model", matrix = "b.csv"')
    assert set(noise_parameters(read(folder / "study.toml"), {"s", "e"})) == {"s"}


def test_check_writes_nothing(folder, capsys):
    edit(folder, "[[predict]]", SYNTHETIC)
    before = {p for p in folder.rglob("*") if "__pycache__" not in p.parts}
    assert main(["check", "study.toml"]) == 0 and "made" in capsys.readouterr().out
    assert {p for p in folder.rglob("*") if "__pycache__" not in p.parts} == before


def test_a_stage_that_another_file_asked_for_does_not_count(folder):
    Study.load("study.toml").run("posterior", executor=0)
    assert load_results(folder / "results" / "study").posterior is not None
    edit(folder, "sd = 0.1 }", "sd = 0.2 }")
    Study.load("study.toml").run("observables", executor=0)
    found = load_results(folder / "results" / "study")
    assert found.posterior is None and found.design is not None


def test_a_record_that_cannot_be_read_is_told(folder):
    with pytest.raises(TamisError, match="tamis run"):
        load_study(folder)
    (folder / "study.json").write_text("{}")
    with pytest.raises(TamisError, match="tamis run"):
        load_study(folder)


def test_reading_a_file_runs_nothing(folder, capsys):
    edit(folder, "[[predict]]", SYNTHETIC)
    study = Study.load("study.toml")
    assert [place.name for place in study.open] == ["experiment[2].observe[0]"]
    assert not (folder / "runs").exists() and np.isnan(study.series[2].experiments[0].observations[0].y).all()
    study.run("synthetic", executor=0)
    assert (folder / "results/study/synthetic.npz").is_file()
    y = Study.load("study.toml").series[2].experiments[0].observations[0].y
    # the model and the drawn error, in this order since the first version
    exact = 1.2 * np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(
        y[0], exact + 0.05 * np.random.default_rng([7, 977]).standard_normal((1, 3))[0]
    )
    # what is drawn is no result of a run: another error needs none
    edit(folder, "sd = 0.05", "sd = 0.06")
    assert not up_to_date(read(folder / "study.toml"))["synthetic"]
    runs = sorted(p.name for p in (folder / "runs").rglob("*") if p.is_file())
    assert main(["run", "study.toml", "--to", "synthetic", "-j", "0"]) == 0
    assert sorted(p.name for p in (folder / "runs").rglob("*") if p.is_file()) == runs


def test_a_study_loaded_before_its_numbers_were_lost_makes_them_again(folder):
    edit(folder, "[[predict]]", SYNTHETIC)
    Study.load("study.toml").run("synthetic", executor=0)
    study = Study.load("study.toml")
    path = folder / "results/study/synthetic.npz"
    before = path.read_bytes()
    path.unlink()
    study.run("design", executor=0)
    assert path.read_bytes() == before


def test_a_numerical_experiment_that_fails(folder):
    edit(folder, "[[predict]]", SYNTHETIC)
    model = folder / "model.py"
    model.write_text(model.read_text().replace("    t = np", "    assert a != 1.2\n    t = np", 1))
    with pytest.raises(
        StudyError, match=r"experiment\[2\].synthetic: the numerical experiment itself crashed"
    ):
        Study.load("study.toml").run("synthetic", executor=0)


def test_what_helps_a_poor_surrogate_is_found_out_once(folder, monkeypatch):
    from tamis.study import remedy

    edit(folder, "[inference]", '[surrogate]\nmethod = "kriging"\nmin_q2 = 0.999999999999\n[inference]')
    edit(folder, "n = 16", "n = 8")
    times = []
    monkeypatch.setattr(remedy, "likelihood_seconds", lambda study: times.append(study) or 1e-6)
    found = Study.load("study.toml").run("surrogate", executor=0)
    assert any(e.poor for e in found.emulations)
    assert any("Leave [surrogate] out" in worry.text for worry in found.worries)
    again = load_results(folder / "results" / "study")
    assert again.worries == found.worries and len(times) == 1
    edit(folder, "draws = 40", "draws = 60")  # another sampler costs another time
    Study.load("study.toml").run("surrogate", executor=0)
    Study.load("study.toml").run("surrogate", executor=0)
    assert len(times) == 2


def test_numbers_of_a_numerical_experiment_stay_with_it_when_tables_move(folder):
    """Kept under its place in the file, they are made again where another table comes before it."""
    edit(folder, "[[predict]]", SYNTHETIC)
    other = SYNTHETIC.replace('"made"', '"other"').replace("a = 1.2", "a = 2.4")
    edit(folder, "[[predict]]", other)
    measured = {}
    for moved in (False, True):
        if moved:  # the two change places
            text = (folder / "study.toml").read_text()
            first, second = (each.removesuffix("[[predict]]") for each in (SYNTHETIC, other))
            assert first + second in text
            (folder / "study.toml").write_text(text.replace(first + second, second + first))
        Study.load("study.toml").run("synthetic", executor=0)
        study = Study.load("study.toml")
        assert not study.open
        measured[moved] = {s.name: s.experiments[0].observations[0].y.tolist() for s in study.series}
    assert measured[True]["made"] == measured[False]["made"]
    assert measured[True]["other"] == measured[False]["other"] != measured[True]["made"]


def test_two_runs_of_a_study_do_not_mix(folder, capsys):
    results = folder / "results" / "study"
    results.mkdir(parents=True)
    handle = seized(results)
    try:
        assert main(["run", "study.toml", "-j", "0"]) == 2
        assert "study.toml: its results are being written by process" in capsys.readouterr().err
        assert not list(results.glob("*.npz"))
    finally:
        released(handle)
    assert main(["run", "study.toml", "-j", "0", "--to", "design"]) == 0


def test_results_are_read_by_the_name_of_their_folder(folder):
    Study.load("study.toml").run("observables", executor=0)
    assert tamis.load_results("results/study").design is not None
