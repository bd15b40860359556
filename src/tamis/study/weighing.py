"""Whether models may be weighed by their evidences: only against the same measurements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tamis.errors import StudyError
from tamis.study.definition import Study


def same_measurements(studies: Sequence[Study], names: Sequence[str]) -> None:
    """Refuse to weigh models, called by these names, against different data."""
    first = _measurements(studies[0])
    for name, study in zip(names[1:], studies[1:], strict=True):
        other = _measurements(study)
        if other != first:
            odd = sorted(set(first) ^ set(other)) or [key for key in first if first[key] != other[key]]
            raise StudyError(
                f"{name} and {names[0]} are not held against the same measurements "
                f"(they differ in {odd[0]}); put the experiments in one file that both extend"
            )


def _measurements(study: Study) -> dict[str, bytes]:
    tests = [e for s in study.series if s.use == "calibrate" for e in s.experiments]
    return {
        f"{e.name}/{o.label}": np.asarray(o.y).tobytes() + (b"" if o.coord is None else o.coord.tobytes())
        for e in tests
        for o in e.observations
    }
