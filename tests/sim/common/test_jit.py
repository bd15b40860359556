"""Inner functions: compiled into kernels, plain Python outside. Kernels: compiled once, whoever asks and with what."""

from __future__ import annotations

import os
import subprocess
import sys

from tamis.jit import inner, kernel

COUNT = 3


@inner
def doubled(x: float) -> float:
    return 2.0 * x


@kernel
def doubled_twice(x: float) -> float:
    return doubled(doubled(x)) + doubled(1)


def test_inner_functions_run_in_kernels_and_in_python() -> None:
    assert doubled(1.5) == 3.0 and not hasattr(doubled, "py_func")
    assert doubled_twice(1.5) == 8.0


@kernel
def times(x: float, n: int) -> float:
    total = 0.0
    for _ in range(n):
        total += x
    return total


@kernel
def in_all(x: float, n: int) -> float:
    return times(x, 2) + times(x, COUNT) + times(x, n)


def test_a_number_that_is_written_out_is_a_number_to_the_compiler() -> None:
    assert in_all(1.0, 4) == 9.0
    assert len(times.signatures) <= 1  # none where `in_all` was found compiled


MODULE = """
import sys, time
from pathlib import Path
from tamis.jit import kernel

@kernel
def total(x):
    s = 0.0
    for i in range(x.size):
        s += x[i]
    return s

if __name__ == "__main__":
    import numpy as np
    print("ready", flush=True)
    sys.stdin.readline()
    total(np.ones(3))
    print(sum(total.stats.cache_misses.values()))
"""


def test_processes_that_want_a_kernel_at_once_compile_it_once(tmp_path) -> None:
    (tmp_path / "family.py").write_text(MODULE)
    environment = os.environ | {"TAMIS_CACHE": str(tmp_path / "cache")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    both = [subprocess.Popen([sys.executable, tmp_path / "family.py"], **pipes) for _ in range(2)]
    assert [process.stdout.readline() for process in both] == ["ready\n"] * 2
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert sorted(process.communicate(timeout=60)[0] for process in both) == ["0\n", "1\n"]
