"""Linear algebra on one thread, whoever calls.

Fits and samplers work on matrices so small that the threads of a BLAS library gain nothing, wait for each other where
the machine is busy (the fit of 24 outputs took 14 times the processor time), and change the last bits of a result with
their number. So everything of that kind is marked `one_thread`: whatever the environment says, linear algebra inside
it keeps to the calling thread, and afterwards the library is as it was. A log-likelihood that a sampler calls is
inside; parallelism is across runs.

The libraries are looked up once (threadpoolctl reads the list of those loaded, some milliseconds); a call within a call
costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from threading import local
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_here = local()  # of each Python thread


@contextmanager
def held() -> Iterator[None]:
    """Hold the BLAS libraries of this process to one thread.

    Where several Python threads are inside at once, the first of them holds.
    """
    if getattr(_here, "inside", False):
        yield
        return
    _here.inside = True
    try:
        with _libraries().limit(limits=1, user_api="blas"):
            yield
    finally:
        _here.inside = False


def one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function do its linear algebra on the thread that calls it."""

    @wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> R:
        with held():
            return function(*args, **kwargs)

    return alone


@lru_cache(maxsize=1)
def _libraries() -> Any:
    import scipy.linalg  # noqa: F401  # NumPy and SciPy each bring a library of their own
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
