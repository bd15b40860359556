"""What runs again and what does not, and that results do not depend on workers or interruptions."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tamis import Study
from tamis.cli.main import main
from tamis.report import page
from tamis.simulation import source_version
from tamis.study.reader import read
from tamis.study.stages.table import COMPARE, STAGES, stage_hashes, up_to_date
from tests.shelf import spots

BALL = Path(__file__).parents[2] / "examples" / "01_ball"
TAMIS = [sys.executable, "-m", "tamis"]


def test_stages_have_generators_and_screens_of_their_own():
    numbers = [COMPARE, *(stage.number for stage in STAGES.values())]
    assert len(set(numbers)) == len(numbers)
    files = Path(page.__file__).parent.glob("*.py")
    shown = [f.stem for f in files if re.search(r"^SCREEN\b", f.read_text(), re.M)]
    assert set(shown) <= set(STAGES)  # a screen of another name would never be shown
    assert {screen.key for screen in page.stage_screens(STAGES)} == set(shown)


@pytest.fixture
def ball(tmp_path):
    folder = tmp_path / "ball"
    prepare(folder)
    return folder


def prepare(folder):
    shutil.copytree(BALL, folder, ignore=shutil.ignore_patterns("runs", "results", "__pycache__"))
    edit(folder, "n = 2000", "n = 120")  # below 100 effective draws the command fails
    edit(folder, "n = 128", "n = 12")
    edit(folder, 'method = "pce"', 'method = "none"')


def edit(folder, old, new):
    path = folder / "study.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def stale(folder):
    return [stage for stage, current in up_to_date(read(folder / "study.toml")).items() if not current]


def artifacts(folder):
    return {p.name: p.read_bytes() for p in (folder / "results" / "study").glob("*.npz")}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The bytes of a study that two workers ran without an interruption; each batch of it can be made to last."""
    folder = tmp_path_factory.mktemp("undisturbed") / "ball"
    prepare(folder)
    slowed(folder)
    assert run(folder, "-j", "2", "--to", "prediction").returncode == 0
    return artifacts(folder)


def run(folder, *options):
    return subprocess.run([*TAMIS, "run", "study.toml", *options], cwd=folder, capture_output=True, text=True)


def test_what_each_change_makes_stale(ball):
    Study.load(ball / "study.toml").run(executor=0)
    assert stale(ball) == []
    before = artifacts(ball)
    runs = sorted(spots(ball / "runs"))

    edit(ball, "low = 0.60", "low = 0.65")  # a model parameter: all from the design on
    assert stale(ball) == ["design", "runs", "observables", "posterior", "prediction", "report"]
    edit(ball, "low = 0.65", "low = 0.60")

    edit(ball, 'name = "drop-5.0"', 'name = "drop-6.0"')
    assert stale(ball) == ["prediction", "report"]
    edit(ball, 'name = "drop-6.0"', 'name = "drop-5.0"')

    edit(ball, 'output = "z", how', 'output = "z", label = "height", how')
    assert stale(ball) == ["prediction", "report"]
    edit(ball, 'output = "z", label = "height", how', 'output = "z", how')

    edit(ball, 'title = "Dropped ball"', 'title = "Fallen ball"')
    assert stale(ball) == ["report"]
    edit(ball, 'title = "Fallen ball"', 'title = "Dropped ball"')

    data = ball / "data" / "drop-1.0.csv"
    text = data.read_text()
    data.write_text(text + "1.49,0.1\n")
    assert stale(ball) == ["observables", "posterior", "prediction", "report"]
    data.write_text(text)
    held_out = ball / "data" / "drop-2.0.csv"
    text = held_out.read_text()
    held_out.write_text(text + "1.49,0.1\n")
    assert "posterior" not in stale(ball) and "prediction" in stale(ball)
    held_out.write_text(text)

    edit(ball, "median = 0.01", "median = 0.02")  # an error parameter: no simulation
    assert stale(ball) == ["posterior", "prediction", "report"]
    Study.load(ball / "study.toml").run("prediction", executor=0)
    assert stale(ball) == ["report"] and sorted(spots(ball / "runs")) == runs
    after = artifacts(ball)
    assert after["posterior.npz"] != before["posterior.npz"] and after["runs.npz"] == before["runs.npz"]


def test_a_model_parameter_read_by_noise_too_is_a_model_parameter(ball):
    edit(
        ball, 'sd = "sigma" } } ]', 'sd = "drag" } } ]'
    )  # the first test's error is now sized by an input of the ball
    before = stage_hashes(read(ball / "study.toml"))
    edit(ball, "high = 0.2", "high = 0.3")
    after = stage_hashes(read(ball / "study.toml"))
    assert before["design"] != after["design"]


def test_the_order_of_parameters_is_part_of_the_study(ball):
    Study.load(ball / "study.toml").run("posterior", executor=0)
    text = (ball / "study.toml").read_text()
    e, drag = (next(line for line in text.splitlines() if line.startswith(name)) for name in ("e ", "drag"))
    (ball / "study.toml").write_text(text.replace(e, "HERE").replace(drag, e).replace("HERE", drag))
    assert "design" in stale(ball) and "posterior" in stale(ball)
    assert Study.load(ball / "study.toml").run("posterior", executor=0).posterior.space.names[0] == "drag"


def test_what_the_model_imports_from_beside_it_is_its_code(ball):
    (ball / "physics.py").write_text("G = 9.81\n")
    model = ball / "model.py"
    model.write_text(model.read_text().replace("G = 9.81\n", "from physics import G\n"))
    before, version = (
        stage_hashes(read(ball / "study.toml")),
        Study.load(ball / "study.toml").simulator.version,
    )
    (ball / "physics.py").write_text("G = 1.62  # on the moon\n")
    assert stage_hashes(read(ball / "study.toml"))["runs"] != before["runs"]
    assert source_version(model) != version


def test_files_named_in_any_table_are_watched(ball):
    (ball / "a.track").write_text("1")
    (ball / "tests.tsv").write_text("h0;track\n1.0;a.track\n")
    edit(ball, "conditions = { h0 = 1.0 }", 'conditions = { h0 = 1.0 }\ntable = "tests.tsv"')
    before = stage_hashes(read(ball / "study.toml"))["runs"]
    (ball / "a.track").write_text("2")
    assert stage_hashes(read(ball / "study.toml"))["runs"] != before
    (ball / "my.obs.py").write_text("def f(o): return 1")
    edit(ball, 'how = "at"', 'how = "my.obs.py:f"')
    before = stage_hashes(read(ball / "study.toml"))["observables"]
    (ball / "my.obs.py").write_text("def f(o): return 2")
    assert stage_hashes(read(ball / "study.toml"))["observables"] != before


def test_a_study_runs_the_file_it_was_built_from(ball):
    study = Study.load(ball / "study.toml")
    edit(ball, "low = 0.60", "low = 0.90")
    study.run("design", executor=0)
    assert "design" in stale(ball)  # what ran is not what the file says now


def test_comments_in_the_model_change_nothing_code_does(ball):
    before = stage_hashes(read(ball / "study.toml"))
    model = ball / "model.py"
    model.write_text("# a comment\n" + model.read_text())
    assert stage_hashes(read(ball / "study.toml")) == before
    model.write_text(model.read_text().replace("G = 9.81", "G = 9.80"))
    changed = stage_hashes(read(ball / "study.toml"))
    assert changed["design"] == before["design"]
    assert all(changed[s] != before[s] for s in STAGES if s not in ("design", "sources"))


def test_a_second_run_does_nothing_quickly(ball):
    assert main(["run", str(ball / "study.toml"), "-j", "0"]) == 0
    before = artifacts(ball)
    times = []
    while len(times) < 3 and min(times, default=1.0) >= 1.0:  # three tries, for a machine with other work
        start = time.perf_counter()
        again = run(ball)
        times.append(time.perf_counter() - start)
    assert again.returncode == 0 and "up to date" in again.stdout and "report:" in again.stdout
    assert artifacts(ball) == before
    assert min(times) < 1.0  # the target itself: 1 s


def test_a_run_that_left_the_store_is_run_again(ball):
    study = Study.load(ball / "study.toml")
    study.run("prediction", executor=0)
    before = artifacts(ball)
    shutil.rmtree(ball / "runs")
    Study.load(ball / "study.toml").run(executor=0)
    assert artifacts(ball) == before and len(spots(ball / "runs")) == 24


def test_workers_do_not_change_a_byte(ball, undisturbed):
    slowed(ball)
    assert run(ball, "-j", "1", "--to", "prediction").returncode == 0
    assert artifacts(ball) == undisturbed and len(undisturbed) == 5


def slowed(folder):
    """Make each run and each batch take a while, so that there is something to interrupt."""
    model = folder / "model.py"
    text = model.read_text().replace(
        "import numpy as np\n", "import os\nimport time\n\nimport numpy as np\n", 1
    )
    text = text.replace(
        '    """Heights', '    time.sleep(float(os.environ.get("BALL_DELAY", "0")))\n    """Heights', 1
    )
    model.write_text(text)


def interrupted(folder, sign, reached):
    """Run until ``reached()``, send the signal until the process has ended; what it said and its exit code."""
    process = subprocess.Popen(
        [*TAMIS, "run", "study.toml", "-j", "2"],
        cwd=folder,
        env={**os.environ, "BALL_DELAY": "0.06"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not reached() and process.poll() is None:
        time.sleep(0.02)
    while process.poll() is None:  # Python drops an interrupt that arrives in a destructor: send it again
        process.send_signal(sign)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            continue
    return process.communicate()[1], process.returncode


@pytest.mark.parametrize(
    ("sign", "stops"),
    [
        pytest.param(signal.SIGINT, (8, None), id="ctrl-c", marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, (1, 8, None, None), id="kill"),
    ],
)
def test_interrupted_anywhere_and_resumed_is_byte_identical(ball, undisturbed, sign, stops):
    slowed(ball)

    def runs():
        return len(spots(ball / "runs"))

    def checkpoint():
        return [path.stat().st_mtime_ns for path in (ball / "results").rglob("checkpoint*.npz")]

    left: list[int] = []
    for enough in stops:  # runs, then checkpoints of the sampler
        said, code = interrupted(
            ball, sign, lambda n=enough, old=left: checkpoint() not in ([], old) if n is None else runs() >= n
        )
        left = checkpoint()
        assert code == (130 if sign == signal.SIGINT else -signal.SIGKILL)
        assert "the same command goes on" in said or sign == signal.SIGKILL
    assert left  # the sampler, too, was among what was interrupted
    assert run(ball, "-j", "2", "--to", "prediction").returncode == 0
    assert artifacts(ball) == undisturbed
    assert not list((ball / "results").rglob("checkpoint*")) and not list((ball / "results").rglob("*.tmp"))


def test_a_changed_study_does_not_resume_a_stale_checkpoint(ball):
    folder = ball / "results" / "study"
    Study.load(ball / "study.toml").run("observables", executor=0)
    calls = []

    def stop(event):
        if event.task == "posterior":
            calls.append(event)
            if len(calls) == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Study.load(ball / "study.toml").run("posterior", executor=0, progress=stop)
    (left,) = folder.glob("checkpoint*")
    edit(ball, "median = 0.01", "median = 0.5")
    found = Study.load(ball / "study.toml").run("posterior", executor=0).posterior
    shutil.rmtree(folder)
    anew = Study.load(ball / "study.toml").run("posterior", executor=0).posterior
    assert not left.exists() and (found.x == anew.x).all()


def test_a_damaged_manifest_or_artifact_is_made_again(ball):
    study = Study.load(ball / "study.toml")
    study.run("posterior", executor=0)
    before = artifacts(ball)
    (ball / "results" / "study" / "manifest.json").write_text("{ half")
    (ball / "results" / "study" / "posterior.npz").unlink()
    study.run("posterior", executor=0)
    assert artifacts(ball) == before


def test_a_damaged_artifact_is_told_in_words(ball, capsys):
    Study.load(ball / "study.toml").run("prediction", executor=0)
    path = ball / "results" / "study" / "posterior.npz"
    path.write_bytes(path.read_bytes()[:200])
    assert main(["report", str(ball / "study.toml")]) == 2
    assert "posterior is not up to date, or not as it was written" in capsys.readouterr().err


def failing(ball):
    model = ball / "model.py"
    trap = '    if drag > 0.1 and not __import__("os").path.exists("air"):\n'
    trap += '        raise tamis.SimulationError("too much air")\n'
    model.write_text(
        model.read_text().replace(
            '    return {"t": T, "z": heights', trap + '    return {"t": T, "z": heights'
        )
    )


def test_failed_runs_are_worried_about_and_retried_on_request(ball, monkeypatch):
    failing(ball)
    monkeypatch.chdir(ball)
    results = Study.load(ball / "study.toml").run("prediction", executor=0)
    failed = [run for row in results.design.runs for run in row if run.status == "failed"]
    assert len(failed) == 12 and failed[0].error == "too much air"
    assert any("12 of 24 design runs failed" in worry.text and worry.serious for worry in results.worries)
    before = artifacts(ball)

    (ball / "air").touch()  # the cause goes away
    assert main(["run", "study.toml", "-j", "0", "--to", "prediction"]) == 0
    assert artifacts(ball) == before  # up to date, as far as tamis was told
    assert main(["run", "study.toml", "-j", "0", "--to", "prediction", "--retry-failed"]) == 0
    after = artifacts(ball)
    assert after["runs.npz"] != before["runs.npz"] and after["observables.npz"] != before["observables.npz"]
    assert after["prediction.npz"] != before["prediction.npz"]  # the prior band is another
    assert stale(ball)[:1] == ["report"]


def test_a_damaged_run_is_run_again(ball):
    study = Study.load(ball / "study.toml")
    study.run("observables", executor=0)
    before = artifacts(ball)
    next(iter(spots(ball / "runs").values())).flip(100)
    (ball / "results" / "study" / "observables.npz").unlink()
    study.run("observables", executor=0)
    assert artifacts(ball) == before


def test_a_study_without_data_propagates_the_prior(ball):
    text = (ball / "study.toml").read_text()
    start, end = text.index("[[experiment]]"), text.index("[design]")
    (ball / "study.toml").write_text(text[:start] + text[end:])
    results = Study.load(ball / "study.toml").run(executor=0)
    assert results.posterior is None and len(results.panels) == 1
    assert results.panels[0].sd_model.max() > 0.05 and stale(ball) == []


def test_a_numerical_experiment_instead_of_data(ball):
    old = 'data = "data/drop-1.0.csv", x = "t", y = "z", noise = { kind = "gaussian", sd = "sigma" } } ]'
    new = 'times = { start = 0.05, stop = 1.45, n = 36 }, noise = { kind = "gaussian", sd = "sigma" } } ]\n'
    new += 'synthetic = { inputs = { e = 0.7, drag = 0.15 }, noise = { kind = "gaussian", sd = 0.005 }, seed = 7 }'
    edit(ball, old, new)
    results = Study.load(ball / "study.toml").run("prediction", executor=0)
    assert results.panels[0].synthetic
    row = dict(
        zip(results.posterior.summary().column("parameter"), results.posterior.summary().rows, strict=True)
    )
    # the truth lies within four posterior standard deviations (false alarm 6e-5, seed fixed)
    assert abs(row["e"][2] - 0.7) < 4 * row["e"][3] and abs(row["drag"][2] - 0.15) < 4 * row["drag"][3]


def test_events_as_json(ball, capfd):
    command = ["run", str(ball / "study.toml"), "--json", "-j", "0", "--to", "posterior"]
    assert main(command) == 0
    events = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert main(command) == 0
    assert [json.loads(line)["task"] for line in capfd.readouterr().out.splitlines()] == ["up to date"]
    assert {"runs", "posterior"} <= {event["task"] for event in events} and events[-1]["task"] == "result"
    last = [event for event in events if event["task"] == "runs"][-1]
    assert last["done"] == last["total"] == 24


def test_a_simulator_that_remembers_is_refused_however_often_it_is_run(ball, capsys):
    """Its runs are forgotten: found in the store the second time, they would be believed."""
    model = (ball / "model.py").read_text()
    plain = "heights(*(np.array([v]) for v in (e, drag, h0)))[0]"
    assert plain in model
    counted = model.replace(plain, f"{plain} + 1e-6 * next(COUNT)").replace(
        "G = 9.81", "G = 9.81\nCOUNT = iter(range(9**9))"
    )
    (ball / "model.py").write_text(counted)
    for _ in range(2):
        assert main(["run", str(ball / "study.toml"), "-j", "1"]) == 2
        assert "gives another z when it is run once more at" in capsys.readouterr().err
        assert not spots(ball / "runs")
