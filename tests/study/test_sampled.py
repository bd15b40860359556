"""Runs that sampling asks for are data too: counted, explained, and repeated on request."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.cli.main import main
from tamis.runs.keys import append_keys, digest, read_keys

MODEL = """
import pathlib, tamis
LICENCE = pathlib.Path(__file__).parent / "licence"

@tamis.simulator(outputs={"y": "m"})
def line(*, a=1.0):
    if a > 0.5 and not LICENCE.exists():
        raise tamis.SimulationError(f"no licence for {a}")
    return {"y": a}
"""
STUDY = """
tamis = 1
[model]
simulator = "model.py:line"
[parameters]
a = { prior = "uniform", low = 0.0, high = 1.0 }
[[experiment]]
name = "one"
observe = [ { output = "y", data = "y.csv", y = "y", noise = { kind = "known", sd = 0.1 } } ]
[design]
n = 8
[inference]
n = 16
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "y.csv").write_text("y\n0.5\n")
    (tmp_path / "licence").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def largest(folder):
    with np.load(folder / "results" / "study" / "posterior.npz") as posterior:
        return float(posterior["x"].max())


def test_failures_of_the_sampler_are_shown_and_retried(folder, capsys):
    assert main(["run", "study.toml", "-j", "2", "--to", "observables"]) == 0
    (folder / "licence").unlink()
    main(["run", "study.toml", "-j", "2"])
    said = capsys.readouterr().out
    assert largest(folder) <= 0.5
    assert "runs of the sampler failed" in said and "No run of the design failed so" in said
    assert "no licence for" in (folder / "results" / "study" / "report.html").read_text()
    main(["status", "study.toml"])
    said = capsys.readouterr().out
    assert "runs: 8 done, 0 failed" in said and "runs of the sampler:" in said and "no licence for" in said

    (folder / "licence").write_text("")
    main(["run", "study.toml", "-j", "2", "--retry-failed"])
    assert largest(folder) > 0.5
    assert "runs of the sampler failed" not in capsys.readouterr().out
    main(["status", "study.toml"])
    assert "failed: no licence" not in capsys.readouterr().out
    stamp = (folder / "results" / "study" / "posterior.npz").stat().st_mtime_ns
    main(["run", "study.toml", "-j", "2", "--retry-failed"])  # nothing is left to retry
    assert (folder / "results" / "study" / "posterior.npz").stat().st_mtime_ns == stamp


def test_a_design_that_fails_altogether_says_why(folder, capsys):
    (folder / "licence").unlink()
    (folder / "study.toml").write_text(STUDY.replace("low = 0.0", "low = 0.6"))
    assert main(["run", "study.toml", "-j", "2"]) == 1
    said = capsys.readouterr().err
    assert (
        "one: all 8 runs of the design failed" in said
        and "no licence for" in said
        and "--retry-failed" in said
    )


def test_a_crash_of_the_sampler_names_its_log_and_the_way_on(folder, capsys):
    (folder / "model.py").write_text(MODEL.replace("tamis.SimulationError", "RuntimeError"))
    assert main(["run", "study.toml", "-j", "2", "--to", "observables"]) == 0
    (folder / "licence").unlink()
    assert main(["run", "study.toml", "-j", "2"]) == 1
    said = capsys.readouterr().err
    assert "crashed at a = 0." in said and ".log)" in said and "--retry-failed" in said


def test_half_a_key_left_by_a_kill_is_no_key(tmp_path):
    whole = [digest(i) for i in range(3)]
    append_keys(tmp_path / "keys.txt", whole[:2])
    with (tmp_path / "keys.txt").open("a") as file:
        file.write("\n" + whole[2][:10])
    append_keys(tmp_path / "keys.txt", whole[1:])
    assert read_keys(tmp_path / "keys.txt") == sorted(whole)
