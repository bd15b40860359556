"""Two fidelities in a study: cheap runs beside expensive ones, used where they help and told where they do not."""

import contextlib
import shutil

import numpy as np
import pytest

import tamis
from tamis import Study, load_results
from tamis.cli.main import main
from tamis.files import load_arrays
from tamis.study.reader import read
from tamis.study.stages.table import up_to_date

MODEL = """
import numpy as np
import tamis

T = np.linspace(0.0, 1.0, 30)

def curve(x, y):
    return np.sin(9 * x * T) + y * T

@tamis.simulator(outputs={"f": "m", "t": "s", "z": "m"})
def fine(*, x=0.5, y=0.5, blur=0.0, force=1.0):
    f = (6 * x - 2) ** 2 * np.sin(12 * x - 4) + y
    bias = blur * (10 * (x - 0.5) - 5)
    z = curve(x, y) * (1 - 0.3 * (blur > 0)) + 0.3 * blur * x
    return {"f": force * ((1 - 0.5 * (blur > 0)) * f + bias), "t": T, "z": z}

@tamis.simulator(outputs={"f": "m", "t": "s", "z": "m"})
def other(*, x=0.5, y=0.5, force=1.0):
    return {"f": np.cos(20 * x) * force, "t": T, "z": np.cos(11 * x + T)}

@tamis.simulator(outputs={"f": "mm", "t": "s", "z": "m"})
def millimetres(*, x=0.5, y=0.5, force=1.0):
    return {"f": 1000.0, "t": T, "z": T}

@tamis.simulator(outputs={"z": "m"})
def short(*, x=0.5, y=0.5, force=1.0):
    return {"z": x}
"""
STUDY = """
tamis = 1
[model]
simulator = "model.py:fine"
[[model.cheap]]
inputs = { blur = 1.0 }
n = 40
[parameters]
x = { prior = "uniform", low = 0.0, high = 1.0 }
y = { prior = "uniform", low = 0.0, high = 1.0 }
[[experiment]]
name = "pull"
observe = [ { output = "f", data = "pull.csv", y = "f", noise = { kind = "known", sd = 0.1 } } ]
[design]
method = "sobol"
n = 12
[surrogate]
method = "kriging"
min_q2 = 0.5
[inference]
n = 200
"""

SIGNAL = """
[[experiment]]
name = "curve"
observe = [ { output = "z", how = "at", data = "signal.csv", x = "t", y = "z", noise = { kind = "known", sd = 0.1 } } ]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "study.toml").write_text(STUDY)
    t = np.linspace(0, 1, 30)
    (tmp_path / "pull.csv").write_text("f\n-4.0\n")
    rows = "\n".join(f"{a:.4f},{b:.4f}" for a, b in zip(t, np.sin(9 * 0.7 * t) + 0.4 * t, strict=True))
    (tmp_path / "signal.csv").write_text(f"t,z\n{rows}\n")
    return tmp_path


def edit(folder, old, new):
    path = folder / "study.toml"
    text = path.read_text()
    assert old in text, old
    path.write_text(text.replace(old, new, 1))


def held_out(folder, surrogate):
    """Root mean squared errors of each observation on 200 new expensive runs."""
    study = Study.load(folder / "study.toml")
    u = np.random.default_rng(7).random((200, 2))
    outputs = [study.simulator.run({"x": x, "y": y}, folder) for x, y in u]
    truth = np.array([[float(o["f"]), *o["z"]] for o in outputs])
    found = surrogate.predict(u).mean
    square = (found - truth[:, : found.shape[1]]) ** 2
    return np.sqrt([part.mean() for part in (square[:, 0], square[:, 1:]) if part.size])


def surrogate_of(folder):
    from tamis.surrogates.joined import Joined

    return Joined.load(folder / "results/study/surrogate.npz")


def test_cheap_runs_help_and_the_page_says_by_how_much(folder):
    (folder / "study.toml").write_text((folder / "study.toml").read_text() + SIGNAL)
    found = Study.load(folder / "study.toml").run(executor=0)
    with_cheap = held_out(folder, surrogate_of(folder))
    points = load_arrays(folder / "results/study/cheap.npz")["0.u"]
    assert len(points) == 40 and np.array_equal(
        points[:12], load_arrays(folder / "results/study/design.npz")["u"]
    )
    number, signal = found.emulations
    assert number.levels == ("blur = 1",) and number.level_runs == (40,)
    assert number.used == signal.used == 1.0 and number.joint > number.alone and signal.joint > signal.alone
    assert "multifidelity" in number.method and "multifidelity" in signal.method
    page = (folder / "results/study/report.html").read_text()
    assert "What cheaper runs bought" in page and "used for 2 of 2 observations" in page
    assert [(name, len(runs)) for name, runs in found.design.cheaper] == [("blur = 1", 40)]  # of both tests
    assert "cheaper: blur = 1" in page
    assert (folder / "results/study/tables/fidelity.csv").is_file()
    text = (folder / "study.toml").read_text()
    cheap = text[text.index("[[model.cheap]]") : text.index("[parameters]")]
    (folder / "study.toml").write_text(text.replace(cheap, ""))
    Study.load(folder / "study.toml").run("surrogate", executor=0)
    # the levels are a multiple of each other and a line: asked for is 0.7
    assert np.all(with_cheap < 0.7 * held_out(folder, surrogate_of(folder)))


def test_an_unrelated_cheap_simulator_does_no_harm_and_is_told(folder):
    edit(folder, "inputs = { blur = 1.0 }", 'simulator = "model.py:other"')
    found = Study.load(folder / "study.toml").run(executor=0)
    mine = surrogate_of(folder)
    assert all(e.used == 0.0 and e.levels == ("model.py:other",) for e in found.emulations)
    assert any("The cheaper runs (model.py:other) bought nothing" in w.text for w in found.worries)
    assert "They bought nothing" in (folder / "results/study/report.html").read_text()
    text = (folder / "study.toml").read_text()
    cheap = text[text.index("[[model.cheap]]") : text.index("[parameters]")]
    (folder / "study.toml").write_text(text.replace(cheap, ""))
    Study.load(folder / "study.toml").run("surrogate", executor=0)
    # the surrogate of the expensive runs alone, up to the starts of its search
    assert np.allclose(held_out(folder, mine), held_out(folder, surrogate_of(folder)), rtol=1e-6)


def test_what_makes_the_levels_stale(folder):
    Study.load(folder / "study.toml").run(executor=0)

    def stale():
        return [s for s, good in up_to_date(read(folder / "study.toml")).items() if not good]

    assert stale() == []
    edit(folder, "n = 40", "n = 50")
    assert stale()[0] == "cheap" and "runs" not in stale() and "surrogate" in stale()
    edit(folder, "n = 50", "n = 40")
    edit(folder, "n = 40", "n = 40\ncost = 0.1")  # only an enrichment asks for it
    assert stale() == ["report"]


def test_any_number_of_levels_and_observed_numbers_only(folder):
    edit(folder, "n = 40", "n = 40\n[[model.cheap]]\ninputs = { blur = 0.1 }\nn = 20")
    edit(folder, 'simulator = "model.py:fine"', 'simulator = "model.py:fine"\nkeep = "observed"')
    found = Study.load(folder / "study.toml").run("surrogate", executor=0)
    assert found.emulations[0].level_runs == (40, 20) and found.emulations[0].levels == (
        "blur = 1",
        "blur = 0.1",
    )


def test_enrichment_chooses_the_level_by_error_removed_per_second(folder):
    edit(folder, "n = 40", "n = 16\ncost = 0.02")
    edit(folder, "min_q2 = 0.5", "min_q2 = 0.5\nenrich = { budget = 4, batch = 2, q2 = 0.9999 }")
    found = Study.load(folder / "study.toml").run("surrogate", executor=0)
    arrays = load_arrays(folder / "results/study/surrogate.npz")
    assert len(arrays["cheap.0.u"]) > 16  # runs of a fiftieth of the time are worth more than expensive ones
    assert len(found.design.cheaper[0][1]) == len(arrays["cheap.0.u"])  # those of the enrichment too
    growth = found.emulations[0].growth
    spent = growth[-1, 0] - growth[0, 0]
    added, expensive = len(arrays["cheap.0.u"]) - 16, len(arrays["u"]) - 12
    # cheap runs at the expensive points come with these
    assert spent == pytest.approx(expensive + 0.02 * (added - expensive)) and spent <= 4 + 1e-9
    # an unrelated cheap simulator takes no error away, however cheap it is
    edit(folder, "inputs = { blur = 1.0 }", 'simulator = "model.py:other"')
    Study.load(folder / "study.toml").run("surrogate", executor=0)
    arrays = load_arrays(folder / "results/study/surrogate.npz")
    assert len(arrays["u"]) == 16 and len(arrays["cheap.0.u"]) == 16 + 4
    below = {row.tobytes() for row in arrays["cheap.0.u"]}
    assert all(row.tobytes() in below for row in arrays["u"])  # levels stay nested


def test_levels_do_not_depend_on_the_number_of_processes(folder, tmp_path_factory):
    edit(folder, "n = 40", "n = 20\ncost = 0.05")
    edit(folder, "min_q2 = 0.5", "min_q2 = 0.5\nenrich = { budget = 2, batch = 1, q2 = 0.9999 }")
    twin = tmp_path_factory.mktemp("twin") / "study"
    shutil.copytree(folder, twin)
    for each, executor in ((folder, 1), (twin, 2)):
        Study.load(each / "study.toml").run("surrogate", executor=executor)
    for path in sorted((folder / "results/study").glob("*.npz")):
        assert path.read_bytes() == (twin / "results/study" / path.name).read_bytes(), path.name


class Interrupted(Exception):
    pass


def test_interrupted_anywhere_and_resumed_is_byte_identical(folder, tmp_path_factory):
    edit(folder, "n = 40", "n = 20\ncost = 0.05")
    edit(folder, "min_q2 = 0.5", "min_q2 = 0.5\nenrich = { budget = 1, batch = 1, q2 = 0.9999 }")
    twin = tmp_path_factory.mktemp("interrupted") / "study"
    shutil.copytree(folder, twin)
    told = []
    Study.load(folder / "study.toml").run("surrogate", executor=0, progress=told.append)
    for stop in np.linspace(0, len(told) - 1, 6).astype(int):
        heard = []

        def stopping(event, heard=heard, stop=stop):
            heard.append(event)
            if len(heard) > stop:
                raise Interrupted

        with contextlib.suppress(Interrupted):
            Study.load(twin / "study.toml").run("surrogate", executor=0, progress=stopping)
    Study.load(twin / "study.toml").run("surrogate", executor=0)
    for path in sorted((folder / "results/study").glob("*.npz")):
        assert path.read_bytes() == (twin / "results/study" / path.name).read_bytes(), path.name


def test_check_prices_both_levels(folder, capsys):
    assert main(["check", str(folder / "study.toml")]) == 0
    said = capsys.readouterr().out
    assert (
        "design: 12 runs" in said and "cheaper blur = 1: 40 runs of" in said and "of an expensive one" in said
    )


REFUSED = [
    (
        'method = "kriging"',
        'method = "pce"',
        "model.cheap: cheap runs are joined with the others by hierarchical Kriging",
    ),
    ("n = 40", "n = 12", "model.cheap[0].n: expected more points than the 12 of [design], found 12"),
    (
        "n = 40",
        "n = 40\n[[model.cheap]]\ninputs = { blur = 0.1 }\nn = 60",
        "expected more points than the 60 of the next",
    ),
    ("blur = 1.0", "blur = 0.0", "model.cheap[0]: is the study's own simulator with the same inputs"),
    (
        "blur = 1.0",
        "blunt = 1.0",
        'model.cheap[0].inputs.blunt: simulator model.py:fine has no input "blunt"',
    ),
    ("blur = 1.0", "x = 1.0", "model.cheap[0].inputs.x: is also a parameter"),
    ("inputs = { blur = 1.0 }", 'simulator = "model.py:millimetres"', 'has f in "mm", model.py:fine in "m"'),
    (
        "inputs = { blur = 1.0 }",
        'simulator = "model.py:short"',
        'model.py:short has no output "f", as the study needs',
    ),
    (
        "min_q2 = 0.5",
        "enrich = { budget = 4 }",
        "model.cheap[0].cost: enrichment chooses the level by error removed",
    ),
    ("n = 40", "n = 40\ncots = 0.1", 'model.cheap[0].cots: unknown key "cots"; did you mean "cost"?'),
]


@pytest.mark.parametrize(("old", "new", "said"), REFUSED, ids=[case[2][:30] for case in REFUSED])
def test_what_is_refused(folder, old, new, said):
    edit(folder, old, new)
    with pytest.raises(tamis.StudyError) as refused:
        Study.load(folder / "study.toml")
    assert said in str(refused.value)


def test_results_are_read_without_the_model(folder):
    Study.load(folder / "study.toml").run(executor=0)
    (folder / "model.py").unlink()
    assert load_results(folder / "results/study").emulations[0].levels == ("blur = 1",)
