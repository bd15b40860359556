"""A batch of independent points, shared among threads.

Kernels release the interpreter lock, so plain Python threads keep every core busy without a second copy of
the data and without the compiler's own threading, which does not survive a fork. Points are handed out in
small blocks, first come first served, because their costs differ; each point writes its own row and reads
nothing of its neighbours, so neither the number of threads nor the order in which blocks finish can change a
result.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def available() -> int:
    """Return how many threads a batch may use: ``NUMBA_NUM_THREADS`` if set, else the cores allowed to us."""
    asked = os.environ.get("NUMBA_NUM_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def over_threads(
    work: Callable[..., object], n: int, *given: Any, threads: int | None = None, block: int = 512
) -> None:
    """Call ``work(start, stop, *given)`` over ``range(n)`` cut into blocks; an exception in one is raised here."""
    workers = min(threads or available(), -(-n // block))
    if workers <= 1:
        work(0, n, *given)
        return
    with ThreadPoolExecutor(workers) as pool:
        for begun in [pool.submit(work, i, min(i + block, n), *given) for i in range(0, n, block)]:
            begun.result()
