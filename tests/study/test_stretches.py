"""Tables whose rows name a track and a file of signals: bands, filters, reference tests with their own files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tamis import Study
from tamis.bands import Filtered, bands
from tamis.errors import SimulationError, StudyError
from tamis.inference.error_model import identify
from tamis.noise import LowRank
from tamis.observables import at, peak_abs
from tamis.results.records import Panel, load_records
from tamis.study.stages.table import stage_hashes

MODEL = '''
"""A filter for a road: the file holds white noise, the model colours it."""
import numpy as np
import tamis


@tamis.simulator(
    version="1",
    inputs={"road": tamis.Port("road", kind="file")},
    outputs={"t": "s", "y": "m/s2", "z": "m/s2"},
)
def ride(road, a=0.5, gain=1.0):
    u = np.loadtxt(road)
    y, last = np.empty(len(u)), 0.0
    for i, each in enumerate(u):
        last = a * last + each
        y[i] = last
    return {"t": 0.01 * np.arange(len(u)), "y": gain * y, "z": np.cumsum(u) * 0.1}
'''
STUDY = """
tamis = 1
title = "roads"
[model]
simulator = "model.py:ride"
[parameters]
a = { prior = "uniform", low = 0.0, high = 0.95 }
gain = { prior = "uniform", low = 0.5, high = 2.0 }
[design]
n = 12
[[experiment]]
name = "roads"
table = "stretches.csv"
conditions = { road = "road" }
draws = 3
[[experiment.observe]]
output = "y"
also = ["z"]
how = "bands"
bands = [1.0, 5.0, 15.0, 40.0]
data = "signals"
noise = NOISE
[surrogate]
method = "kriging"
target = "loglike"
[inference]
method = "mct"
trajectories = 4
draws = 100
"""
KNOWN = '{ kind = "gaussian", sd = 1.0 }'
LOWRANK = (
    '{ kind = "lowrank", reference = "reference.csv", nominal = { a = 0.5, gain = 1.0 }, residual = true }'
)


def ride(road: np.ndarray, a: float, gain: float) -> dict[str, np.ndarray]:
    y, last = np.empty(len(road)), 0.0
    for i, each in enumerate(road):
        last = a * last + each
        y[i] = last
    return {"t": 0.01 * np.arange(len(road)), "y": gain * y, "z": 0.1 * np.cumsum(road)}


def written(
    folder: Path, noise: str = KNOWN, *, count: int = 6, references: int = 0, samples: int = 400
) -> Path:
    """Write a study of roads whose signals have errors, and the tables that name them."""
    rng = np.random.default_rng(0)
    (folder / "model.py").write_text(MODEL)
    for kind, number, a, gain in (("stretches", count, 0.8, 1.4), ("reference", references, 0.5, 1.0)):
        rows = ["road,signals"]
        for k in range(number):
            road = rng.standard_normal(samples).round(6)
            np.savetxt(folder / f"{kind}{k}.txt", road, "%.6f")
            run = ride(road, a, gain)
            levels, white = 1.0 + 0.3 * rng.standard_normal(2), 0.1 * rng.standard_normal((2, samples))
            noisy = [levels[j] * run[name] + white[j] for j, name in enumerate("yz")]
            table = np.column_stack([run["t"], *noisy])
            np.savetxt(
                folder / f"{kind}{k}.csv", table, "%.9g", ",", header="t [s],y [m/s2],z [m/s2]", comments=""
            )
            rows.append(f"{kind}{k}.txt,{kind}{k}.csv")
        if number:
            (folder / f"{kind}.csv").write_text("\n".join(rows) + "\n")
    path = folder / "study.toml"
    path.write_text(STUDY.replace("NOISE", noise))
    return path


# --- the observables --------------------------------------------------------------------------------------------------


def test_levels_in_bands_are_equation_14() -> None:
    """Of a sine in the middle of a line: A sqrt(T)/2 in its line, and the mean of dB over the lines of a band."""
    dt, n = 0.01, 1000
    t = dt * np.arange(n)
    x = 0.3 * np.cos(2 * np.pi * 7.0 * t)
    rng = np.random.default_rng(1)
    noise = rng.standard_normal(n)
    found = bands("x", [6.95, 7.05])({"x": x, "t": t})
    assert found == pytest.approx([20.0 * np.log10(0.15 * np.sqrt(n * dt))], abs=1e-9)
    outputs = {"x": x + noise, "z": 2.0 * noise, "t": t}
    two = bands("x", [1.0, 10.0, 30.0], ["z"])(outputs)
    f = np.fft.rfftfreq(n, dt)
    by_hand = []
    for name in ("x", "z"):
        for low, high in ((1.0, 10.0), (10.0, 30.0)):
            signal = outputs[name] - outputs[name].mean()
            levels = [
                20 * np.log10(abs(np.sum(signal * np.exp(-2j * np.pi * each * t)) * dt) / np.sqrt(n * dt))
                for each in f[(f >= low - 1e-9) & (f < high - 1e-9)]
            ]
            by_hand.append(np.mean(levels))
    assert two == pytest.approx(by_hand, abs=1e-9)
    twice = bands("x", [1.0, 10.0, 30.0]).many({"x": np.array([noise, 10 * noise]), "t": np.array([t, t])})
    assert twice[1] - twice[0] == pytest.approx([20.0, 20.0])  # ten times the amplitude


@pytest.mark.parametrize(
    ("edges", "samples", "dt", "said"),
    [
        ([0.1, 0.2, 5.0], 100, 0.01, r"1 s are too short for the band from 0.1 to 0.2 Hz"),
        ([1.0, 60.0], 1000, 0.01, r"nothing above 50 Hz, and the bands end at 60 Hz"),
    ],
)
def test_signals_that_have_no_such_bands(edges: list[float], samples: int, dt: float, said: str) -> None:
    with pytest.raises(SimulationError, match=said):
        bands("x", edges)({"x": np.ones(samples), "t": dt * np.arange(samples)})
    for bad in ([5.0], [5.0, 5.0], [-1.0, 5.0]):
        with pytest.raises(StudyError, match="two increasing frequencies or more"):
            bands("x", bad)


def test_a_low_pass_filter_leaves_what_is_slow_where_it_was() -> None:
    t = 0.001 * np.arange(4000)
    slow, fast = np.sin(2 * np.pi * 2.0 * t), np.sin(2 * np.pi * 100.0 * t)
    outputs = {"x": slow + fast, "t": t}
    times = (1.0, 2.0, 2.125)
    found = Filtered(at("x", times), 20.0)(outputs)
    assert found == pytest.approx(np.sin(4 * np.pi * np.array(times)), abs=2e-4)  # (20/100)^8 and (2/20)^8
    assert Filtered(peak_abs("x"), 20.0)(outputs) == pytest.approx([1.0], abs=2e-3)
    assert Filtered(peak_abs("x"), 20.0).needs == ("x", "t")
    half = Filtered(bands("x", [99.9, 100.1]), 100.0)(outputs) - bands("x", [99.9, 100.1])(outputs)
    assert half == pytest.approx([-6.0], abs=0.3)
    with pytest.raises(SimulationError, match="low-pass filter at 600 Hz"):
        Filtered(peak_abs("x"), 600.0)(outputs)


# --- studies ----------------------------------------------------------------------------------------------------------


def test_rows_that_name_files_are_tests_with_the_levels_of_their_signals(tmp_path: Path) -> None:
    study = Study.load(written(tmp_path))
    tests = study.series[0].experiments
    assert len(tests) == 6
    assert [e.name for e in tests][1] == "roads: road = stretches1.txt"
    table = np.loadtxt(tmp_path / "stretches1.csv", delimiter=",", skiprows=1)
    outputs = {"t": 0.01 * np.arange(len(table)), "y": table[:, 1], "z": table[:, 2]}
    expected = bands("y", [1.0, 5.0, 15.0, 40.0], ["z"])(outputs)
    assert tests[1].observations[0].y[0] == pytest.approx(expected)
    assert tests[1].conditions["road"] == str(tmp_path / "stretches1.txt")
    before = stage_hashes(study.raw)
    (tmp_path / "stretches3.txt").write_text((tmp_path / "stretches3.txt").read_text().replace("0.", "1.", 1))
    after = stage_hashes(Study.load(tmp_path / "study.toml").raw)
    assert before["runs"] != after["runs"]  # files count by their content


def _blank(folder: Path) -> None:
    (folder / "stretches2.csv").unlink()


def _no_road(folder: Path) -> None:
    (folder / "stretches4.txt").unlink()


def _other_rate(folder: Path) -> None:
    table = np.loadtxt(folder / "stretches3.csv", delimiter=",", skiprows=1)
    table[:, 0] *= 0.5
    np.savetxt(folder / "stretches3.csv", table, "%.9g", ",", header="t,y,z", comments="")


def _short(folder: Path) -> None:
    lines = (folder / "stretches1.csv").read_text().splitlines()
    (folder / "stretches1.csv").write_text("\n".join(lines[:21]) + "\n")


def _unit(folder: Path) -> None:
    file = folder / "stretches0.csv"
    file.write_text(file.read_text().replace("[m/s2]", "[g]", 1))


def _not_a_number(folder: Path) -> None:
    file = folder / "stretches5.csv"
    lines = file.read_text().splitlines()
    lines[7] = "0.06,what,1"
    file.write_text("\n".join(lines))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_blank, r'stretches.csv, row 3 \(line 4\): no file "stretches2.csv"'),
        (_no_road, r'conditions.road: stretches.csv, row 5 \(line 6\): no file "stretches4.txt"'),
        (
            _other_rate,
            r"row 4: stretches3.csv has samples every 0.005 s, and stretches.csv, row 1 every 0.01 s",
        ),
        (_short, r"row 2: stretches1.csv: 0.2 s are too short for the band from 1 to 5 Hz"),
        (_unit, r'row 1: stretches0.csv gives "y" in "g", but output y is in "m/s2"'),
        (_not_a_number, r'row 6: stretches5.csv, line 8, column "y"'),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, damage: object, said: str) -> None:
    path = written(tmp_path)
    damage(tmp_path)  # type: ignore[operator]
    with pytest.raises(StudyError, match=said):
        Study.load(path)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('data = "signals"', "", "observe.0..data: missing; name the column of stretches.csv"),
        (
            'data = "signals"',
            'data = "signal"',
            'data: stretches.csv has no column "signal"; did you mean "signals"',
        ),
        ('how = "bands"', 'how = "at"', "holds one number a test, or names a file of signals a test"),
        ('how = "bands"', 'how = "peak"', "y: missing; name the column of stretches.csv"),
        ("bands = [1.0, 5.0, 15.0, 40.0]", "", "bands: missing; how = .bands. needs bands"),
        ('also = ["z"]', 'also = ["zz"]', 'no output "zz"'),
        ('also = ["z"]', 'also = ["y"]', "expected different signals, found y and y"),
        ('also = ["z"]', 'also = ["z"]\nfilter = -3.0', "filter"),
        (
            KNOWN,
            LOWRANK.replace("nominal = { a = 0.5, gain = 1.0 }, ", ""),
            "at which parameters they were measured",
        ),
        (KNOWN, LOWRANK.replace("gain = 1.0", "gian = 1.0"), 'no input "gian".*gain'),
        (
            KNOWN,
            LOWRANK.replace(" }, ", " }, components = 4, "),
            "components = 4, but 6 numbers are not so many equally long signals: y, z",
        ),
    ],
)
def test_refusals(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = written(tmp_path, references=6)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(StudyError, match=said):
        Study.load(path)


def test_reference_tests_with_their_own_files_give_the_errors_computed_by_hand(tmp_path: Path) -> None:
    """Equation B.3, row by row, and the error identified from it; shown in the report with mean, modes and residual."""
    path = written(tmp_path, LOWRANK, references=8)
    study = Study.load(path)
    assert isinstance(study.series[0].experiments[0].observations[0].noise, LowRank)
    study.run(force=True)  # twelve points are few
    errors = []
    observable = bands("y", [1.0, 5.0, 15.0, 40.0], ["z"])
    for k in range(8):
        table = np.loadtxt(tmp_path / f"reference{k}.csv", delimiter=",", skiprows=1)
        measured = observable({"t": 0.01 * np.arange(len(table)), "y": table[:, 1], "z": table[:, 2]})
        errors.append(measured - observable(ride(np.loadtxt(tmp_path / f"reference{k}.txt"), 0.5, 1.0)))
    expected = identify(np.array(errors), components=2, tests=6)
    done = Study.load(path)
    noises = [e.observations[0].noise for e in done.series[0].experiments]
    assert all(noise is noises[0] for noise in noises)  # identified once, not row by row
    found = noises[0]
    assert isinstance(found, LowRank)
    for name in ("mean", "modes", "residual"):
        assert np.asarray(getattr(found, name)) == pytest.approx(
            np.asarray(getattr(expected, name)), abs=1e-9
        )
    assert found.alpha == expected.alpha is not None
    record = json.loads((tmp_path / "results" / "study" / "study.json").read_text())["errors"][0]
    assert record["mean_curve"] == pytest.approx(expected.mean.tolist())
    assert record["alpha"] == expected.alpha
    page = (tmp_path / "results" / "study" / "report.html").read_text()
    assert "Identified errors" in page and "alpha" in page
    folder = tmp_path / "results" / "study"
    assert (folder / "figures" / "errors-1.svg").exists()
    worst = (folder / "tables" / "data-roads-levels-of-y-z-worst.csv").read_text().splitlines()
    assert len(worst) == 6 and "road = stretches" in worst[1]
    assert all(row.endswith((' to 5 Hz"', ' to 15 Hz"', ' to 40 Hz"')) for row in worst[1:])  # "y, 1 to 5 Hz"
    (panel,) = load_records(folder / "prediction.npz", Panel)
    assert len(panel.tests) == 6 and len(panel.coord) == 6 and panel.mean.shape == (36,)
    assert panel.names[:1] + panel.names[-1:] == ("y, 1 to 5 Hz", "z, 15 to 40 Hz") and len(panel.names) == 6
    assert record["names"] == list(panel.names)


def test_observed_numbers_alone_give_the_same(tmp_path: Path) -> None:
    """`keep = "observed"` keeps the levels and not the signals, filtered ones too."""
    found = []
    for keep in ("all", "observed"):
        folder = tmp_path / keep
        folder.mkdir()
        path = written(folder)
        text = path.read_text().replace('data = "signals"', 'data = "signals"\nfilter = 30.0')
        path.write_text(text.replace('ride"\n', f'ride"\nkeep = "{keep}"\n', 1))
        Study.load(path).run("observables")
        with np.load(folder / "results" / "study" / "observables.npz") as file:
            found.append({name: file[name] for name in file.files if name.endswith(".y")})
    assert found[0].keys() == found[1].keys()
    for name, values in found[0].items():
        assert np.array_equal(values, found[1][name])
