"""The study of the rockfall wall: its observables, its scripts, and a calibration on a wall of eight blocks."""

import importlib
import sys
import warnings

import numpy as np
import pytest

import tamis
from tamis import Study
from tamis.errors import StudyError
from tamis.sheets import read_csv
from tamis.simulation import find
from tests.shelf import spots
from tests.test_examples import EXAMPLES, copied

FOLDER = EXAMPLES / "20_rockfall_wall"


@pytest.fixture
def scripts(monkeypatch):
    """The modules beside the study, which import each other by name."""
    monkeypatch.syspath_prepend(str(FOLDER))
    names = ("observe", "instants", "impacts", "checks", "reconstruction", "share_stopped")
    yield {name: importlib.import_module(name) for name in names}
    for name in names:
        sys.modules.pop(name, None)


def curves(path, until=2.0, drift=0.0):
    t = np.linspace(0.0, until, 201)
    rise = 1.0 - np.exp(-5.0 * t) + drift * t
    rows = np.column_stack([t, *(scale * rise for scale in (1.2, 1.0, 0.4, 0.5))])
    np.savetxt(path, rows, delimiter=",", header="t [s],top [m],base [m],c [m],d [m]", comments="")
    return path


def test_three_numbers_of_each_curve(scripts, tmp_path):
    read = scripts["instants"]
    found = read.instants(curves(tmp_path / "curves.csv", until=4.0))
    assert found["top"] == pytest.approx(
        [1.2 * (1.0 - np.exp(-0.5)), 1.2, 1.2], abs=1e-3
    )  # linear between 20 ms
    assert found["c"][0] == pytest.approx(0.4 * (1.0 - np.exp(-1.25)), abs=1e-3)
    read.written(found, tmp_path / "out.csv", "a note")
    sheet = read_csv(tmp_path / "out.csv")
    assert sheet.numbers("d") == pytest.approx(found["d"], abs=1e-5) and sheet.units["d"] == "m"


def test_curves_that_do_not_serve_are_refused(scripts, tmp_path):
    read = scripts["instants"].instants
    with pytest.raises(StudyError, match=r"covers 0 to 0\.2 s and not 0\.25 s"):
        read(curves(tmp_path / "short.csv", until=0.2))
    with pytest.raises(StudyError, match="column top: still moves by"):
        read(curves(tmp_path / "moving.csv", drift=0.5))
    (tmp_path / "names.csv").write_text("t,tip,base,c,d\n0,0,0,0,0\n1,1,1,1,1\n2,1,1,1,1\n")
    with pytest.raises(StudyError, match='has no column "top"'):
        read(tmp_path / "names.csv")


def test_impacts_of_a_trajectory_code(scripts, tmp_path):
    read = scripts["share_stopped"]
    found = read.impacts(FOLDER / "data" / "impacts.csv")
    assert len(found) == 6 and found[1] == {
        "mass": 2600.0,
        "speed": 28.0,
        "size": 1.1,
        "height": 1.2,
        "incidence": 10.0,
    }
    assert (
        read.share([True, True, False, True]) == "3 of 4: 0.75 (0.35 to 0.95)"
    )  # quantiles of Beta(3.5, 1.5)
    for text, words in (
        ("height [m]\n1.0\n", "neither energy nor speed"),
        ("energy [kJ]\n520\n", 'gives energy in "kJ"; convert it to J'),
        ("energy [J],colour\n520,1\n", 'no input "colour" of an impact'),
    ):
        (tmp_path / "bad.csv").write_text(text)
        with pytest.raises(StudyError, match=words):
            read.impacts(tmp_path / "bad.csv")


def test_the_three_strategies_ask_for_the_same_runs():
    studies = {name: Study.load(FOLDER / f"{name}.toml") for name in ("all", "energy", "point")}
    calibrated = {name: [s for s in study.series if s.use == "calibrate"] for name, study in studies.items()}
    for name, study in studies.items():
        assert tuple(study.space.names) == ("d_z", "v_p", "mu_cc", "mu_cs", "e")
        assert study.simulator.name == "tamis:nscd.rockfall_wall"
        assert {s.experiments[0].conditions["speed"] for s in calibrated[name]} == {20.0, 28.0}
        assert sum(o.size for s in calibrated[name] for o in s.experiments[0].observations) == 24
        assert study.tables.design.n == 300
    assert [len({s.part for s in calibrated[name]}) for name in studies] == [1, 2, 8]


def test_a_small_wall_is_calibrated(tmp_path, scripts):
    """Eight blocks, twelve points, two impacts: all stages up to the posterior."""
    folder = copied("20_rockfall_wall", tmp_path)
    inputs = {
        "rows": 2,
        "columns": 2,
        "size": 0.8,
        "mass": 1000.0,
        "height": 0.8,
        "distant": 1.0,
        "duration": 0.3,
    }
    small = ", ".join(f"{name} = {value}" for name, value in inputs.items())
    warnings.simplefilter("ignore", tamis.TamisWarning)
    for energy, speed in ((520, 4.0), (1020, 6.0)):
        truth = {**inputs, **scripts["impacts"].ALL, "speed": speed}
        run = find("tamis:nscd.rockfall_wall").run(truth, tmp_path)
        found = {name: read(run) for name, read in scripts["instants"].POINTS.items()}
        scripts["instants"].written(found, folder / "data" / f"{energy}.csv")
    common = (folder / "common.toml").read_text()
    common = common.replace("[parameters]", f"inputs = {{ {small} }}\n\n[parameters]").replace(
        "n = 300", "n = 12"
    )
    common = common.replace("speed = 20.0", "speed = 4.0").replace("speed = 28.0", "speed = 6.0")
    (folder / "common.toml").write_text(common + "chains = 20\ndraws = 200\n")
    (folder / "small.toml").write_text('extends = "common.toml"\n')
    results = Study.load(folder / "small.toml").run("posterior", executor=0, force=True)
    x = results.posterior.flat
    assert x.shape[1] == 5 and np.isfinite(x).all()
    assert len(spots(folder / "runs")) == 24
