"""The loop of samplers: numbered generators, checkpoints, resuming; on a toy that adds random numbers up."""

from dataclasses import dataclass

import numpy as np
import pytest

import tamis
from tamis.inference import loop


@dataclass(frozen=True)
class Sum:
    steps: int
    mixed: bool
    total: np.ndarray


class Stop(Exception):
    pass


def add_up(n=20, checkpoint=None, seed=3, tag=None, stop_at=None, calls=None, error=Stop):
    def step(state, rng):
        if calls is not None:
            calls.append(state.steps)
        if state.steps == stop_at:
            raise error
        return Sum(state.steps + 1, state.steps % 2 == 0, state.total + rng.random(3))

    return loop.run(
        Sum,
        lambda rng: Sum(0, False, rng.random(3)),
        step,
        lambda state: state.steps == n,
        rng=np.random.default_rng(seed),
        tag=tag or {"n": n},
        report=lambda state: None,
        checkpoint=checkpoint,
    )


@pytest.mark.parametrize("stop_at", [0, 1, 7, 19])
@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt])
def test_resumed_equals_uninterrupted(tmp_path, stop_at, error):
    path = tmp_path / "checkpoint.npz"
    with pytest.raises(error):
        add_up(checkpoint=path, stop_at=stop_at, error=error)
    calls = []
    resumed = add_up(checkpoint=path, calls=calls)
    assert calls[0] == stop_at  # nothing finished is done again
    assert resumed.total.tobytes() == add_up().total.tobytes()
    assert (resumed.steps, resumed.mixed) == (20, False) and type(resumed.mixed) is bool


def test_each_step_has_its_own_generator():
    root = int(np.random.default_rng(3).integers(2**63))
    expected = sum(np.random.default_rng([root, k]).random(3) for k in range(21))
    assert add_up().total == pytest.approx(expected, rel=1e-15)  # 21 additions in another order


@pytest.mark.parametrize("other", [{"seed": 4}, {"tag": {"n": 21}}, {"tag": {"n": 20, "more": 1}}])
def test_a_checkpoint_of_another_problem_is_ignored(tmp_path, other):
    path = tmp_path / "checkpoint.npz"
    with pytest.raises(Stop):
        add_up(checkpoint=path, stop_at=10, **other)
    calls = []
    assert add_up(checkpoint=path, calls=calls).total.tobytes() == add_up().total.tobytes()
    assert calls[0] == 0


def test_a_broken_checkpoint_is_told_and_ignored(tmp_path):
    path = tmp_path / "checkpoint.npz"
    with pytest.raises(Stop):
        add_up(checkpoint=path, stop_at=10)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.warns(tamis.TamisWarning, match="cannot be read"):
        assert add_up(checkpoint=path).total.tobytes() == add_up().total.tobytes()


def test_saves_are_spaced_in_time(tmp_path, monkeypatch):
    saves = []
    clock = iter(np.arange(1000) * 0.3)  # a step every 0.3 s
    monkeypatch.setattr(loop.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(loop, "save_arrays", lambda path, arrays: saves.append(int(arrays["loop.step"])))
    add_up(checkpoint=tmp_path / "checkpoint.npz")
    assert (
        len(saves) >= 3 and min(np.diff(saves)) >= 3
    )  # at least 1 s apart: 4 readings of the clock, or 3 and a save's


def test_without_a_checkpoint_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    add_up()
    assert list(tmp_path.iterdir()) == []


def test_the_finished_run_leaves_the_checkpoint_to_the_caller(tmp_path):
    path = tmp_path / "checkpoint.npz"
    with pytest.raises(Stop):
        add_up(checkpoint=path, stop_at=10)
    add_up(checkpoint=path)
    assert path.exists()
