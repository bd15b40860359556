"""Sharing a batch among threads: every point once, whatever the cut."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.sim.common.threads import available, over_threads


@pytest.mark.parametrize("n", [0, 1, 7, 64, 65, 1000])
@pytest.mark.parametrize("threads", [None, 1, 2, 5])
def test_every_point_is_visited_once(n: int, threads: int | None) -> None:
    visits = np.zeros(n, dtype=int)

    def work(start: int, stop: int) -> None:
        visits[start:stop] += 1

    over_threads(work, n, threads=threads, block=32)
    assert (visits == 1).all()


def test_an_exception_reaches_the_caller() -> None:
    def work(start: int, stop: int) -> None:
        if start <= 70 < stop:
            raise ValueError("point 70")

    with pytest.raises(ValueError, match="point 70"):
        over_threads(work, 200, threads=3, block=16)


def test_the_environment_limits_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")
    assert available() == 3
    monkeypatch.delenv("NUMBA_NUM_THREADS")
    assert available() >= 1
