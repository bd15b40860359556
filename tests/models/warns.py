"""A model that warns where its input is large, as often as it is told to."""

from __future__ import annotations

import warnings

import numpy as np

import tamis


@tamis.simulator(outputs={"z": "m"})
def warns(*, a=1.0, times=1, fails=0):
    for i in range(times if a > 0.5 else 0):
        warnings.warn(f"step {i} is long: {a:g} m", tamis.TamisWarning, stacklevel=1)
        warnings.warn("not ours", RuntimeWarning, stacklevel=1)
    if fails:
        raise tamis.SimulationError("as asked")
    return {"z": np.array([a, 2 * a])}
