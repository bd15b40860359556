"""What was done in the laboratory and what was measured."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tamis.noise import Noise
from tamis.observables import Observable
from tamis.types import Array, Inputs


@dataclass(frozen=True)
class Observation:
    """Measured numbers, how the model gives the same numbers, and what error may lie between them."""

    observable: Observable
    y: Array  # (m,) or (replicates, m); NaN is missing
    noise: Noise
    coord: Array | None = None
    label: str = ""
    group: str = ""  # which data it is calibrated with where a study is split; its label if empty

    @property
    def size(self) -> int:
        """Number of values observed in one test."""
        return int(np.asarray(self.y).shape[-1])


@dataclass(frozen=True)
class Experiment:
    """One test: what was imposed and what was observed; held-out tests are declared, not improvised."""

    name: str
    conditions: Inputs
    observations: tuple[Observation, ...]
    use: Literal["calibrate", "validate"] = "calibrate"

    def parts(self) -> list[slice]:
        """Return the columns of each observation in the vector of all observed numbers."""
        edges = np.cumsum([0, *(o.size for o in self.observations)])
        return [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]
