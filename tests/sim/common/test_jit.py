"""Inner functions: compiled into kernels, plain Python outside. Kernels: compiled once, whoever asks and with what."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tamis import jit
from tamis.families import code_hash
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


WATCHED = """
import fcntl
from pathlib import Path
from tamis import jit

@jit.kernel
def half(x):
    return 0.5 * x

@jit.kernel
def quarter(x):
    return half(half(x))

lock = open(jit._folder(Path(__file__)) / ".lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)

def hear(what):
    print(what)
    if what.startswith("waiting"):
        fcntl.flock(lock, fcntl.LOCK_UN)

jit.watch(hear)
print(quarter(1.0), quarter(2.0))
"""


def test_what_is_compiled_and_waited_for_is_said(tmp_path) -> None:
    (tmp_path / "watched.py").write_text(WATCHED)
    environment = os.environ | {"TAMIS_CACHE": str(tmp_path / "cache")}
    run = [sys.executable, tmp_path / "watched.py"]
    said = [subprocess.run(run, env=environment, capture_output=True, text=True).stdout for _ in range(2)]
    waits = f"waiting for another process that compiles {tmp_path.name}.watched\n"
    assert said == [
        f"{waits}compiling __main__.quarter, once on this machine\n0.25 0.5\n",
        f"{waits}0.25 0.5\n",
    ]


def test_kernels_are_compiled_anew_when_what_compiles_them_changes(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(jit, "_root", lambda: tmp_path)
    folder = jit._folder.__wrapped__
    before = folder(Path(__file__))
    assert folder(Path(__file__)) == before
    for part in ("jit.py", "simd.py"):
        with monkeypatch.context() as edited:
            edited.setattr(
                jit, "code_hash", lambda file, part=part: "new" if file.name == part else code_hash(file)
            )
            assert folder(Path(__file__)) != before


def test_only_folders_of_compiled_files_are_removed_when_they_are_old(tmp_path) -> None:
    kept = [tmp_path / "my-project", tmp_path / "kernels" / "my-notes"]
    old = tmp_path / "kernels" / f"dem.kernels-{'0' * 16}"
    for folder in (*kept, old):
        folder.mkdir(parents=True)
        os.utime(folder, (0, 0))
    environment = os.environ | {"TAMIS_CACHE": str(tmp_path)}
    subprocess.run([sys.executable, "-c", "import tamis.surrogates.kernels"], env=environment, check=True)
    assert all(folder.is_dir() for folder in kept) and not old.exists()


BOTH = """
import threading, numba
from tamis.jit import kernel

@kernel
def one(x):
    return x + 1.0

@kernel
def two(x):
    return x + 2.0

@numba.njit
def users(x):
    return one(x) + two(x)

threads = [threading.Thread(target=f, args=(1.0,)) for f in (users, one, two)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(users(1.0))
"""


def test_threads_that_compile_kernels_and_what_calls_them_end(tmp_path) -> None:
    (tmp_path / "both.py").write_text(BOTH)
    environment = os.environ | {"TAMIS_CACHE": str(tmp_path / "cache")}
    ran = subprocess.run(
        [sys.executable, "both.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ran.stdout == "5.0\n", ran.stderr
