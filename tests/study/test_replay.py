"""The table [replay] of a study: one run in the report, at the best point that is known; what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis import Study, TamisError
from tamis.replays import Replay
from tamis.results.records import Replayed

MODEL = """
import numpy as np
import tamis
from tamis.replays import Replay, Shape

@tamis.simulator(outputs={"height": "m"})
def ball(*, drop=1.0, e=0.5):
    "The height that a ball comes back to."
    return {"height": e**2 * drop}

@ball.replay
def ball_seen(*, drop=1.0, e=0.5, fps):
    if drop > 8:
        raise tamis.SimulationError("the ball is lost")
    t = np.linspace(0.0, 1.0, 200)
    poses = np.zeros((200, 1, 7))
    poses[:, 0, 2], poses[:, 0, 3] = drop * (1 - t) + e * t, 1.0
    poses = np.repeat(poses, 2, axis=1)
    poses[:, 1, :3] = 0.0
    shapes = (Shape("sphere", (0.1,), "ball"), Shape("box", (1.0, 1.0, 0.1), "table"))
    return Replay(shapes, t, poses, {"speed [m/s]": poses[:, :, 2]}, 3.0)
"""
STUDY = """
tamis = 1
[model]
simulator = "model.py:ball"
[parameters]
e = { prior = "uniform", low = 0.2, high = 0.8 }
[[predict]]
name = "drops"
draws = 4
sweep = { input = "drop", values = [1.0, 2.0, 9.0] }
observe = [ { output = "height", label = "height" } ]
[replay]
field = "speed"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "test.csv").write_text("height [m]\n0.36\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def seen(folder: Path, change: tuple[str, str] = ("", ""), more: str = "") -> Replayed:
    (folder / "study.toml").write_text(STUDY.replace(*change, 1) + more)
    (record,) = Study.load("study.toml").run().records("replay", Replayed) or ()
    return record


def test_the_report_shows_a_run_at_the_medians_of_the_prior(folder: Path) -> None:
    record = seen(folder)
    assert (
        record.given == (("drop", "2", ""), ("e", "0.5", "")) and record.source == "the medians of the prior"
    )
    replay = Replay.from_bytes(record.seen.tobytes())
    assert len(replay.times) == 60 and replay.times[[0, -1]].tolist() == [0.0, 1.0]
    assert replay.poses[:, 0, 2] == pytest.approx(2.0 - 1.5 * replay.times, abs=1e-6)
    page = (folder / "results" / "study" / "report.html").read_text()
    assert "One run" in page and "drops, at the medians of the prior: drop = 2, e = 0.5." in page.replace(
        "Drops", "drops"
    )
    assert record.through == ()
    picture = (folder / "results" / "study" / "figures" / "replay.svg").read_text()
    assert "displacements drawn 3 times as large" in picture
    first = (folder / "results" / "study" / "replay.npz").read_bytes()
    (folder / "results" / "study" / "replay.npz").unlink()
    seen(folder)
    assert (folder / "results" / "study" / "replay.npz").read_bytes() == first


def test_groups_are_drawn_like_glass(folder: Path) -> None:
    def clear() -> int:
        return (folder / "results" / "study" / "figures" / "replay.svg").read_text().count("opacity")

    seen(folder)
    before = clear()
    assert seen(folder, ('field = "speed"', 'through = ["table"]')).through == ("table",)
    assert clear() > before


def test_a_calibrated_study_shows_its_best_point_and_a_run_that_fails_is_said(folder: Path) -> None:
    data = """
[[experiment]]
name = "test"
conditions = { drop = 1.0 }
observe = [ { output = "height", data = "test.csv", y = "height", noise = { kind = "gaussian", sd = 0.01 } } ]
[inference]
n = 64
"""
    record = seen(folder, ("[replay]", '[replay]\nof = "test"'), data)
    assert record.source == "the point of highest posterior density"
    assert float(record.given[1][1]) == pytest.approx(0.6, abs=0.02)
    record = seen(folder, ("[replay]", "[replay]\nat = 9"))
    assert record.failed == "the ball is lost" and not len(record.seen)
    page = (folder / "results" / "study" / "report.html").read_text()
    assert "The run has no replay: the ball is lost" in page


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("[replay]", '[replay]\nof = "drop"'),
            r'replay.of: no test or prediction "drop"; did you mean "drops"',
        ),
        (("[replay]", "[replay]\nat = 3"), r"replay.at: drop is swept over 1, 2, 9; found 3"),
        (
            ('field = "speed"', 'field = "sped"'),
            r'replay.field: the replay has no "sped"; did you mean "speed"',
        ),
        (
            ("[replay]", '[replay]\nthrough = ["tabel"]'),
            r'replay.through: the replay has no group "tabel"; did you mean "table"',
        ),
        (
            ("[replay]", '[replay]\nthrough = ["table", "ball"]'),
            r"replay.through: are all groups of the replay",
        ),
    ],
)
def test_what_it_refuses(folder: Path, change: tuple[str, str], said: str) -> None:
    with pytest.raises(TamisError, match=said):
        seen(folder, change)


def test_a_simulator_without_replay(folder: Path) -> None:
    (folder / "model.py").write_text(MODEL.split("@ball.replay")[0])
    with pytest.raises(TamisError, match=r"replay: .*has no replay to look at"):
        seen(folder)
