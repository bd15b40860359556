"""A model that takes memory, or raises what cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np

import tamis


class Unprintable(Exception):
    def __str__(self):
        raise ZeroDivisionError


class UnprintablePhysics(tamis.SimulationError):
    def __str__(self):
        raise ZeroDivisionError


@tamis.simulator(
    outputs={"held": "MB"},
    inputs={
        "how": tamis.Port(
            "how",
            choices=(
                "array",
                "python",
                "program",
                "surrogate",
                "unprintable",
                "unprintable physics",
                "complex",
            ),
        )
    },
)
def greedy(*, how: str = "array", megabytes: float = 1.0):
    n = int(megabytes * 1e6)
    if how == "array":
        return {"held": np.ones(n, dtype=np.uint8)[-1] * megabytes}
    if how == "python":
        held = []
        while sum(map(len, held)) < n:
            held.append(bytes(50_000_000 if n > 50_000_000 else n))
        return {"held": megabytes}
    if how == "program":  # in pieces below the limit of each process, above it together
        code = f"import time; held = b'x' * {n // 4}; time.sleep(3 if {n} > 1e8 else 0)"
        for child in [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]:
            child.wait()
        return {"held": megabytes}
    if how == "surrogate":
        raise RuntimeError("cannot read " + os.fsdecode(b"caf\xe9"))
    if how == "complex":
        return {"held": 1 + 2j}
    time.sleep(0)
    raise Unprintable if how == "unprintable" else UnprintablePhysics
