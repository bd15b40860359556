"""Linear algebra keeps to one thread inside fits and samplers, and results do not depend on how many there are."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import tamis
from tamis.blas import held, one_thread
from tamis.surrogates.kriging import fit_kriging


def threads() -> list[int]:
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


def test_one_thread_inside_and_as_before_outside() -> None:
    with threadpool_limits(2, user_api="blas"):
        with held():
            assert set(threads()) == {1}
            with held():
                assert set(threads()) == {1}
            assert set(threads()) == {1}
        assert set(threads()) == {2}
        with pytest.raises(ZeroDivisionError):
            one_thread(lambda: 1 / 0)()
        assert set(threads()) == {2}


def test_two_callers_at_once_leave_things_as_they_were() -> None:
    before = threads()
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with held():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait(10)
    with held():
        assert set(threads()) == {1}
        leave.set()
        thread.join(10)
    assert threads() == before


def test_a_sampler_and_a_fit_are_held() -> None:
    seen = set()

    def loglike(x):
        seen.update(threads())
        return -0.5 * (x**2).sum(axis=1)

    space = tamis.Space((tamis.Parameter("a", tamis.normal(0.0, 1.0)),))
    with threadpool_limits(2, user_api="blas"):
        tamis.tmcmc(space, loglike, n=32, rng=np.random.default_rng(0))
        assert seen == {1}
        assert set(threads()) == {2}


CODE = """
import hashlib, sys
import numpy as np
from threadpoolctl import threadpool_limits
import tamis
from tamis.surrogates.kriging import fit_kriging
from tamis.surrogates.pce import fit_pce
u = tamis.sobol(150, 5, np.random.default_rng(0))
y = np.sin(3 * u[:, :1]) + u[:, 1:3] ** 2
threadpool_limits(int(sys.argv[1]), user_api="blas")
one, two = fit_kriging(u, y[:, 0], rng=np.random.default_rng(1)), fit_pce(u, y)
new = np.random.default_rng(2).random((3000, 5))
parts = [*one.arrays().values(), *two.arrays().values(), *one.predict(new)[:2], *two.predict(new)[:2]]
print(hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest())
"""


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    command = [sys.executable, "-c", CODE]
    found = [
        subprocess.run([*command, n], capture_output=True, text=True, check=True).stdout for n in ("1", "4")
    ]
    assert found[0] == found[1] and len(found[0]) > 60


def test_a_fit_leaves_the_threads_as_they_were() -> None:
    with threadpool_limits(2, user_api="blas"):
        fit_kriging(tamis.lhs(20, 1, np.random.default_rng(0)), np.arange(20.0), rng=np.random.default_rng(0))
        assert set(threads()) == {2}
