"""Every fault of a study file gets a message that names the file, the field and the remedy."""

import shutil
from pathlib import Path

import pytest

import tamis
from tamis import Study
from tamis.cli.main import main

BALL = Path(__file__).parents[2] / "examples" / "01_ball"


@pytest.fixture
def ball(tmp_path):
    shutil.copytree(BALL, tmp_path / "ball", ignore=shutil.ignore_patterns("runs", "results", "__pycache__"))
    return tmp_path / "ball"


def edited(folder, old, new):
    path = folder / "study.toml"
    text = path.read_text()
    assert text.count(old) >= 1, old
    path.write_text(text.replace(old, new, 1))
    return path


CASES = [
    # unknown keys and names, with the nearest valid one
    (
        'title = "Dropped ball"',
        'titel = "x"',
        'study.toml: titel: unknown key "titel"; did you mean "title"?',
    ),
    ("how = ", "hwo = ", 'experiment[0].observe[0].hwo: unknown key "hwo"; did you mean "how"?'),
    ('method = "sobol"', 'metod = "sobol"', 'design.metod: unknown key "metod"; did you mean "method"?'),
    ('kind = "gaussian", sd', 'kind = "gaussian", sdd', 'noise.sdd: unknown key "sdd"; did you mean "sd"?'),
    ('kind = "gaussian"', 'kind = "gausian"', "observe[0].noise.kind: expected"),
    ('kind = "gaussian"', 'kind = "gausian"', 'did you mean "gaussian"?'),
    (
        'sd = "sigma"',
        'sd = "sgima"',
        'experiment[0].observe[0].noise.sd: no parameter "sgima"; did you mean "sigma"?',
    ),
    (
        'prior = "uniform"',
        'prior = "unifrom"',
        'parameters.e.prior: no law "unifrom"; did you mean "uniform"?',
    ),
    ("low = 0.60", "lwo = 0.60", 'parameters.e: law uniform has no "lwo"; did you mean "low"?'),
    (
        'output = "z"',
        'output = "zz"',
        'observe[0].output: simulator model.py:ball has no output "zz"; did you mean "z"?',
    ),
    (
        "h0 = 1.0",
        "ho = 1.0",
        'experiment[0].conditions.ho: simulator model.py:ball has no input "ho"; did you mean "h0"?',
    ),
    (
        '"model.py:ball"',
        '"model.py:bal"',
        'model.simulator: model.py: "bal" does not exist; did you mean "ball"?',
    ),
    ('"model.py:ball"', '"modle.py:ball"', "model.simulator: no file"),
    ('how = "at"', 'how = "att"', 'observe[0].how: no observable "att"; did you mean "at"?'),
    ('x = "t"', 'x = "tt"', 'observe[0].x: drop-1.0.csv has no column "tt"; did you mean "t"?'),
    # roles
    (
        "sigma = { prior",
        'sigm = { prior = "uniform", low = 0, high = 1 }\nsigma = { prior',
        "parameters.sigm: read by nobody",
    ),
    (
        "conditions = { h0 = 1.0 }",
        "conditions = { h0 = 1.0, e = 0.5 }",
        "conditions.e: is a condition and a parameter at once",
    ),
    (
        'simulator = "model.py:ball"',
        'simulator = "model.py:ball"\ninputs = { e = 0.5 }',
        "model.inputs.e: is also a parameter",
    ),
    # missing things
    ("seed  = 1", "seed = 1\n[modell]", 'modell: unknown key "modell"; did you mean "model"?'),
    ('name = "drop-1.0"\n', "", "experiment[0].name: missing; name the test"),
    (
        ', noise = { kind = "gaussian", sd = "sigma" } } ]',
        " } ]",
        "observe[0].noise: missing; say what error",
    ),
    ('data = "data/drop-1.0.csv", ', "", "observe[0].data: missing; name the CSV file"),
    ("high = 0.95, ", "", "parameters.e: law uniform needs high"),
    ("times = { start = 0.0, stop = 1.5, n = 100 }, ", "", "predict[0].observe[0].times: missing"),
    # wrong kinds and values
    ("low = 0.60", 'low = "small"', "parameters.e.low: expected a number, found 'small'"),
    ("low = 0.60", "low = 0.99", "parameters.e: uniform law needs low < high"),
    ("seed  = 1", 'seed = "one"', "seed: input should be a valid integer, found 'one'"),
    ("n = 128", "n = 0", "design.n: input should be greater than or equal to 1, found 0"),
    ("tamis = 1 ", "tamis = 2 ", "tamis: expected 1, found 2"),
    (
        'use  = "validate"',
        'use  = "validation"',
        'use: expected "calibrate" or "validate", found \'validation\'; did you mean "validate"?',
    ),
    (
        'method = "pce"',
        'method = "krigging"',
        'surrogate.method: expected "none", "pce" or "kriging", found \'krigging\'; did you mean "kriging"?',
    ),
    ('method = "pce"', 'method = "kriging"\ndegree = 3', 'surrogate.degree: only method = "pce" has it'),
    (
        'method = "pce"',
        'method = "pce"\nkernel = "matern32"',
        'surrogate.kernel: only method = "kriging" has it',
    ),
    ('method = "pce"', 'method = "pce"\nmin_q2 = 1.5', "surrogate.min_q2: input should be less than 1"),
    ('method = "pce"', 'method = "none"\nenrich = { budget = 5 }', "surrogate.enrich: there is no surrogate"),
    ('method = "pce"', 'method = "pce"\nenrich = { buget = 5 }', 'did you mean "budget"?'),
    (
        'method = "pce"',
        'method = "pce"\nenrich = { budget = 5, q2 = 0.5 }',
        "enrich.q2: 0.5 is below min_q2 = 0.95",
    ),
    (
        'method = "pce"',
        'method = "pce"\nenrich = { budget = 5, batch = 500 }',
        "enrich.batch: expected at most 250",
    ),
    (
        'method = "pce"',
        'method = "pce"\n[sensitivity]\nn = 1000',
        "sensitivity.n: expected a power of two, found 1000",
    ),
    ('method = "pce"', 'method = "pce"\n[sensitivity]\nmethods = ["sobo"]', 'did you mean "sobol"?'),
    (
        'method = "pce"',
        'method = "pce"\n[propagate]',
        "propagate: needs a [[predict]] that observes single numbers",
    ),
    (
        'method = "pce"                               # pce | kriging | none: sample the simulator itself',
        'method = "none"\n[[predict]]\nname = "p"\nemulate = true\nobserve = [ { output = "z", how = "final" } ]',
        'predict[0].emulate: needs a surrogate: [surrogate] method = "pce" or "kriging"',
    ),
    ("[[predict]] ", "[predict] ", "predict: input should be a valid list"),
    ('name = "drop-2.0"', 'name = "drop-1.0"', 'two experiments or predictions are called "drop-1.0"'),
    ('how = "at", data', 'how = "peak_ab", data', 'no observable "peak_ab"; did you mean "peak_abs"?'),
    # units
    ('unit = "1/m"', 'unit = "1/km"', 'parameters.drag.unit: unit "1/km", but model.py:ball takes "1/m"'),
    # files
    ("data/drop-1.0.csv", "data/drop-1.csv", "observe[0].data: no data file"),
    ("data/drop-1.0.csv", "data/drop-1.csv", "did you mean"),
    # TOML itself
    ("[design]", "[design", "study.toml is not valid TOML"),
    ("tamis = 1 ", 'extends = "commn.toml"\ntamis = 1 ', "no study file"),
]


@pytest.mark.parametrize(("old", "new", "message"), CASES, ids=lambda v: str(v)[:40])
def test_message(ball, old, new, message, capsys):
    path = edited(ball, old, new)
    with pytest.raises(tamis.StudyError) as caught:
        Study.load(path)
    assert message in str(caught.value)
    assert "study.toml" in str(caught.value) or "toml" in message or "no study file" in message
    assert main(["run", str(path)]) == 2
    assert "Traceback" not in capsys.readouterr().err


DATA = [
    (
        "t [s],z [m]",
        "t [ms],z [m]",
        'observe[0].x: drop-1.0.csv gives "t" in "ms", but output t is in "s"; convert the column',
    ),
    ("t [s],z [m]", "t [s],z [mm]", 'observe[0].y: drop-1.0.csv gives "z" in "mm", but output z is in "m"'),
    ("0.050,", "0.050,x", 'observe[0].y: drop-1.0.csv, line 3, column "z": expected a number'),
    ("0.050,", "", "drop-1.0.csv, line 3: expected 2 cells as in the header, found 1"),
    ("0.050,", ",", 'observe[0].x: drop-1.0.csv, line 3, column "t": expected a number, found an empty cell'),
]


@pytest.mark.parametrize(("old", "new", "message"), DATA, ids=[d[2][:40] for d in DATA])
def test_data_file(ball, old, new, message):
    path = ball / "data" / "drop-1.0.csv"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(tamis.StudyError) as caught:
        Study.load(ball / "study.toml")
    assert message in str(caught.value) and str(caught.value).startswith("study.toml: ")


def test_data_outside_the_runs_span_is_found_by_check(ball, capsys):
    path = ball / "data" / "drop-1.0.csv"
    path.write_text(path.read_text() + "9.0,0.1\n")
    assert main(["check", str(ball / "study.toml")]) == 2
    assert (
        "z is asked for at t from 0.05 to 9, outside its span in the run, 0 to 1.5" in capsys.readouterr().err
    )


def test_a_simulator_that_fails_everywhere_is_found_by_check(ball, capsys):
    model = ball / "model.py"
    model.write_text(
        model.read_text().replace(
            '    return {"t": T,', "    raise tamis.SimulationError('stuck')\n    return {\"t\": T,"
        )
    )
    assert main(["check", str(ball / "study.toml")]) == 2
    assert "fails in the middle of the prior, at h0=1, e=" in capsys.readouterr().err


def test_check_tells_each_warning_of_the_simulator_once_and_plainly(ball, capsys):
    model = ball / "model.py"
    model.write_text(
        "import warnings\n"
        + model.read_text().replace(
            '    return {"t": T,', "    warnings.warn('coarse', tamis.TamisWarning)\n    return {\"t\": T,"
        )
    )
    assert main(["check", str(ball / "study.toml")]) == 0
    assert capsys.readouterr().err == "warning: coarse\n"


def test_prior_outside_the_bounds_of_a_port(ball):
    model = ball / "model.py"
    text = model.read_text().replace(
        'units={"h0"', 'inputs={"e": tamis.Port("e", bounds=(0.0, 0.9))}, units={"h0"'
    )
    model.write_text(text)
    with pytest.raises(
        tamis.StudyError, match=r"parameters\.e: the prior reaches from 0\.6 to 0\.95, outside"
    ):
        Study.load(ball / "study.toml")


def test_extends_merges_tables_and_replaces_the_rest(ball):
    (ball / "other.toml").write_text('extends = "study.toml"\ntitle = "Other"\n[parameters.e]\nlow = 0.7\n')
    study = Study.load(ball / "other.toml")
    assert study.title == "Other" and study.space.parameters[0].prior.ppf(0.0) == 0.7
    assert study.space.parameters[0].prior.ppf(1.0) == pytest.approx(0.95)
    (ball / "third.toml").write_text('extends = "other.toml"\n')
    with pytest.raises(tamis.StudyError, match="may not extend another"):
        Study.load(ball / "third.toml")


def test_missing_study_offers_the_nearest(ball):
    with pytest.raises(tamis.StudyError, match=r'did you mean "study\.toml"'):
        Study.load(ball / "studdy.toml")


def test_sampling_a_slow_simulator_directly_is_priced_and_refused(ball, capsys):
    model = ball / "model.py"
    model.write_text(model.read_text().partition("@ball.batch")[0])
    edited(ball, 'method = "pce"', 'method = "none"')
    for verb in (["check"], ["run", "-j", "0"]):
        assert main([verb[0], str(ball / "study.toml"), *verb[1:]]) == 2
        assert "would store about 220,000 runs, more than 100,000" in capsys.readouterr().err
    path = edited(ball, "n = 2000", "n = 20")
    assert main(["check", str(path)]) == 0
    assert "about 1,100 to 2,200 runs, every one stored" in capsys.readouterr().out


def test_one_typo_one_line(ball):
    path = edited(ball, 'kind = "gaussian"', 'kind = "gausian"')
    with pytest.raises(tamis.StudyError) as caught:
        Study.load(path)
    assert len(str(caught.value).splitlines()) == 1


def test_a_prior_on_a_whole_number_is_refused(ball):
    model = ball / "model.py"
    model.write_text(model.read_text().replace("e=0.8,", "e=1,"))
    said = r"parameters\.e: input e .* takes whole numbers, as its default 1 is one, .* set it in \[model\.inputs\]"
    with pytest.raises(tamis.StudyError, match=said):
        Study.load(ball / "study.toml")


def test_a_bug_in_the_model_is_one_sentence_with_its_line(ball, capsys):
    model = ball / "model.py"
    model.write_text(model.read_text().replace('    return {"t": T,', '    1 / 0\n    return {"t": T,'))
    assert main(["check", str(ball / "study.toml")]) == 2
    err = capsys.readouterr().err
    assert (
        "model.py:ball raised ZeroDivisionError: division by zero (model.py, line" in err
        and "Traceback" not in err
    )
    assert main(["sim", f"{model}:ball", "e=0.5"]) == 2


def test_a_signal_where_one_number_is_expected(ball, capsys):
    new = 'observe = [ { output = "z" }, { output = "t", how = "final" } ]\n#'
    edited(ball, 'method = "pce"', 'method = "none"')
    edited(ball, "n = 128", "n = 12")
    edited(ball, "n = 2000", "n = 100")  # the model is asked after the posterior, whatever that is
    path = edited(ball, 'observe = [ { output = "z", how = "at", times', new + "times")
    assert main(["run", str(path), "-j", "0"]) == 2
    assert "drop-5.0, z: the model gives 151 numbers where 1 are expected" in capsys.readouterr().err


def test_replicates_with_holes_are_refused_at_load(ball):
    data = ball / "data" / "drop-1.0.csv"
    lines = data.read_text().splitlines()
    rows = [f"{line},{'' if i == 4 else line.split(',')[1]}" for i, line in enumerate(lines[2:])]
    data.write_text("\n".join(["t [s],z [m],z2 [m]", *rows]))
    path = edited(ball, 'y = "z"', 'y = ["z", "z2"]')
    with pytest.raises(
        tamis.StudyError, match=r"experiment\[0\]\.observe\[0\]\.y: .*missing in one replicate"
    ):
        Study.load(path)


def test_results_that_are_a_file(ball, capsys):
    (ball / "results").write_text("")
    assert main(["run", str(ball / "study.toml"), "-j", "0"]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_status_lists_studies_and_not_what_they_extend(ball, monkeypatch, capsys):
    (ball / "a.toml").write_text('extends = "study.toml"\ntitle = "A"\n')
    monkeypatch.chdir(ball)
    assert main(["status"]) == 0
    out = capsys.readouterr().out
    assert "a.toml" in out and "study.toml" not in out
