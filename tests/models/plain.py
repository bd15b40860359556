"""A quick model, and one line in a file for each time it runs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

import tamis


@tamis.simulator(outputs={"t": "s", "z": "m"}, units={"a": "m"})
def line(*, a=1.0, n=3, wait=0.0):
    if count := os.environ.get("TAMIS_TEST_COUNT"):
        with Path(count).open("a") as file:
            file.write(f"{a!r}\n")
    time.sleep(wait)
    t = np.arange(float(n))
    return {"t": t, "z": a * t}
