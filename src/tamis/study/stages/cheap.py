"""The runs of cheaper simulators, at the points of the design and many more, and what is observed of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tamis.errors import TamisError, TamisWarning
from tamis.files import save_arrays
from tamis.study.context import Context
from tamis.study.stages.design import cheap_points
from tamis.study.stages.enrichment import run_level


def run(context: Context) -> None:
    """Run every cheaper level, and leave its points and the numbers observed."""
    study = context.study
    u = cheap_points(study)
    found: dict[str, Any] = {"names": np.array([level.name for level in study.cheap])}
    for k, level in enumerate(study.cheap):
        keys, runs = run_level(context, level, u[: level.n])
        bad = int((~runs.good).any(axis=1).sum())
        if not runs.good.all(axis=1).any():
            message = f"{study.path.name}: model.cheap[{k}]: no run of {level.name} gives what is observed"
            raise TamisError(f"{message}; `tamis check` runs one and says why")
        if bad:
            text = f"{bad} of {len(runs.u)} points of the cheaper {level.name} have a failed run; they are left out."
            warnings.warn(text, TamisWarning, stacklevel=2)
        found |= {f"{k}.keys": keys} | {f"{k}.{name}": array for name, array in runs.arrays().items()}
    save_arrays(study.results / "cheap.npz", found)
