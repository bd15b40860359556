"""The table [fragility] of a study: curve, surface, split of the band; what it refuses; its page and its files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tamis import Study, TamisError
from tamis.analysis.fragility import FragilityRecord
from tamis.cli.main import main

MODEL = """
import numpy as np
import tamis

@tamis.simulator(outputs={"drift": "m", "pga": "m/s2"})
def frame(*, scale=1.0, k=1.0, seed=0):
    "The drift of a frame under a motion of random strength and effect."
    strength, effect = np.random.default_rng(seed).standard_normal(2)
    pga = scale * np.exp(0.3 * strength)
    return {"drift": pga * np.exp(0.3 * effect) / k, "pga": pga}
"""
STUDY = """
tamis = 1
seed = 5
[model]
simulator = "model.py:frame"
[parameters]
k = { prior = "lognormal", median = 1.0, cov = 0.2 }
[[predict]]
name = "frame"
draws = 60
sweep = { input = "scale", values = [0.3, 0.6, 0.9, 1.2, 1.5, 2.0, 3.0] }
observe = [ { output = "drift", label = "drift" }, { output = "pga", label = "pga" } ]
[fragility]
intensity = "scale"
demand = "drift"
limit = 1.0
"""
DATA = """
[[experiment]]
name = "test"
conditions = { scale = 1.0, seed = 7 }
observe = [ { output = "drift", data = "test.csv", y = "drift", noise = { kind = "gaussian", sd = 0.2 } } ]
[inference]
n = 64
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "test.csv").write_text("drift [m]\n1.0\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def edit(folder: Path, *changes: tuple[str, str], more: str = "") -> None:
    text = (folder / "study.toml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "study.toml").write_text(text + more)


def fragile(**options: object) -> FragilityRecord:
    found = Study.load("study.toml").run(executor=0)
    records = found.records("fragility", FragilityRecord)
    assert records
    return records[0]


def test_over_the_prior_the_curve_is_that_of_all_that_is_random(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "study.toml"]) == 0
    assert "fragility of frame: no more runs than its prediction" in capsys.readouterr().out
    assert main(["run", "study.toml", "-j", "0"]) == 0
    said = capsys.readouterr().out
    assert "fragility of frame, drift [m] above 1 m: median" in said
    record = fragile()
    exact = np.sqrt(2 * 0.3**2 + np.log1p(0.04))
    # 60 draws, the same at all levels: the log median is known to 0.47 / sqrt(60)
    assert np.log(record.median) == pytest.approx(0.0, abs=3 * exact / np.sqrt(60))
    assert record.dispersion == pytest.approx(exact, rel=0.35)  # 3 standard errors of 60 draws
    assert np.ptp(np.log(record.median_interval)) == pytest.approx(2 * 1.645 * exact / np.sqrt(60), rel=0.35)
    assert record.seen.shape == (7, 5)
    assert record.seen[:, 4].tolist() == [60.0] * 7
    assert record.split.size == 0
    report = (folder / "results" / "study" / "report.html").read_text()
    assert "Fragility" in report
    assert "credible band" in report
    tables = folder / "results" / "study" / "tables"
    assert (tables / "fragility.csv").read_text().startswith("scale,probability,low,high,beside")
    assert (tables / "fragility-runs.csv").is_file()


@pytest.mark.slow  # 10 s
def test_over_the_posterior_the_band_is_split(folder: Path) -> None:
    edit(folder, ("limit = 1.0\n", "limit = 1.0\nrepeats = 8\n"), more=DATA)
    record = fragile()
    assert record.source == "posterior"
    assert (record.draws, record.repeats) == (60, 8)
    assert record.split.shape == (7, 5)
    level, share, parameters, surrogate, runs = record.split.T
    middle = np.argmin(np.abs(share - 0.5))
    assert 0.002 < parameters.max() < 0.05  # about (0.14 x 0.4 / 0.42)^2 = 0.018 at the middle, known to half
    assert not surrogate.any()
    assert (runs > 0)[middle]
    assert (record.split_band[0] <= share).all()
    assert (record.split_band[1] >= share).all()
    assert level.tolist() == [0.3, 0.6, 0.9, 1.2, 1.5, 2.0, 3.0]


def test_by_a_surrogate_its_error_is_part_of_the_band(folder: Path) -> None:
    more = DATA.replace(
        "[inference]", '[design]\nn = 24\n[surrogate]\nmethod = "kriging"\nmin_q2 = -9.0\n[inference]'
    )
    edit(
        folder,
        ('label = "pga" } ]', 'label = "pga" } ]\nemulate = true'),
        ("draws = 60", "draws = 300"),
        more=more,
    )
    record = fragile()
    assert record.emulated
    assert record.repeats == 10
    assert record.split[:, 3].max() > 0  # the noise that no surrogate follows is in its error


@pytest.mark.slow  # 5 s
def test_intensities_may_be_parameters_and_what_the_run_says(folder: Path) -> None:
    edit(
        folder,
        ('sweep = { input = "scale", values = [0.3, 0.6, 0.9, 1.2, 1.5, 2.0, 3.0] }\n', ""),
        ("[[predict]]", 'scale = { prior = "loguniform", low = 0.3, high = 4.0 }\n[[predict]]'),
        ("draws = 60", "draws = 300"),
        ('intensity = "scale"', 'intensity = "pga"'),
    )
    record = fragile()
    # given the motion's own strength its scatter is no longer part of the dispersion
    exact = np.sqrt(0.3**2 + np.log1p(0.04))
    assert record.intensity == ("pga [m/s2]",)
    assert record.dispersion == pytest.approx(exact, rel=0.3)
    assert record.seen.shape == (20, 5)
    edit(folder, ('intensity = "pga"', 'intensity = ["pga", "k"]'))
    record = fragile()
    assert record.intensity == ("pga [m/s2]", "k")
    assert record.at.shape == (1600, 2)
    assert np.isnan(record.median)
    assert "level lines" in (folder / "results" / "study" / "report.html").read_text()


def test_an_uncertain_capacity_and_a_limit_of_the_prediction(folder: Path) -> None:
    edit(folder, ("limit = 1.0", 'limit = { law = "lognormal", median = 1.0, cov = 0.5 }'))
    wide = fragile()
    assert wide.limit == "above lognormal (median 1, cov 0.5) m"
    edit(
        folder,
        ('limit = { law = "lognormal", median = 1.0, cov = 0.5 }\n', ""),
        ('{ output = "drift", label = "drift" }', '{ output = "drift", label = "drift", limit = 1.0 }'),
    )
    narrow = fragile()
    assert narrow.limit == "above 1 m"
    assert wide.dispersion > 1.2 * narrow.dispersion


def test_a_number_that_a_function_of_ones_own_makes_is_a_demand(folder: Path) -> None:
    """Twice the drift against twice the limit is the same curve."""
    sweep = 'sweep = { input = "scale", values = [0.3, 0.6, 0.9, 1.2, 1.5, 2.0, 3.0] }\n'
    prior = 'k = { prior = "lognormal", median = 1.0, cov = 0.2 }\n'
    edit(
        folder,
        (sweep, ""),
        (prior, prior + 'scale = { prior = "uniform", low = 0.3, high = 3.0 }\n'),
    )
    plain = fragile()
    (folder / "model.py").write_text(MODEL + "\ndef twice(outputs):\n    return 2.0 * outputs['drift']\n")
    observed = '{ output = "drift", label = "drift" }'
    own = '{ output = "drift", how = "model.py:twice", times = [1], label = "drift" }'
    edit(folder, (observed, own), ("limit = 1.0", "limit = 2.0"))
    assert fragile().median == pytest.approx(plain.median, rel=1e-12)


def test_where_nothing_exceeds_there_is_a_statement_and_no_number(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(folder, ("limit = 1.0", "limit = 100.0"))
    assert main(["run", "study.toml", "-j", "0"]) == 0
    assert "none of 420 runs exceeded the limit" in capsys.readouterr().out
    record = fragile()
    assert record.kind == "none"
    assert np.isnan(record.median)
    assert "There is no number" in (folder / "results" / "study" / "report.html").read_text()


def test_the_same_bytes_by_one_process_and_by_two(folder: Path) -> None:
    edit(folder, ("draws = 60", "draws = 20"))
    assert main(["run", "study.toml", "-j", "1"]) == 0
    path = folder / "results" / "study" / "fragility.npz"
    first = path.read_bytes()
    for made in (folder / "results", folder / "runs"):
        made.rename(made.with_name(made.name + "-first"))
    assert main(["run", "study.toml", "-j", "2"]) == 0
    assert path.read_bytes() == first
    manifest = json.loads((folder / "results" / "study" / "manifest.json").read_text())
    assert "fragility" in manifest["stages"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            'demand = "drift"',
            'demand = "drif"',
            'fragility.demand: nothing observed is called "drif"; did you mean',
        ),
        ('intensity = "scale"', 'intensity = "scal"', "neither the swept input"),
        ('intensity = "scale"', 'intensity = ["scale", "k", "pga"]', "one or two different ones"),
        ("limit = 1.0", "", "fragility.limit: missing"),
        ("limit = 1.0", 'limit = { law = "lognormal", median = 1.0 }', "law lognormal needs cov"),
        ("limit = 1.0", 'limit = { law = "lognorm" }', 'fragility.limit.law: no law "lognorm"'),
        ("limit = 1.0", 'limit = 1.0\npredict = "framee"', 'no prediction "framee"'),
        ("limit = 1.0", 'limit = 1.0\nrandom = ["k"]', "all parameters are random already"),
        ("limit = 1.0", 'limit = 1.0\nrandom = ["q"]', 'no parameter "q"'),
        ('demand = "drift"', "", "fragility.demand: missing; name one of what is observed: drift, pga"),
    ],
)
def test_what_cannot_be_meant_is_refused(folder: Path, old: str, new: str, words: str) -> None:
    edit(folder, (old, new))
    with pytest.raises(TamisError) as error:
        Study.load("study.toml")
    assert words in str(error.value)
