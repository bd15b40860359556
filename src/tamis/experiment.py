"""What was done in the laboratory and what was measured."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tamis.errors import SimulationError, StudyError
from tamis.noise import Noise
from tamis.observables import Observable
from tamis.types import Array, Inputs, Outputs


class WrongCount(StudyError):
    """The model gives another count of numbers than was measured."""


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

    @property
    def needs(self) -> set[str]:
        """The outputs its observables read."""
        return {name for o in self.observations for name in o.observable.needs}

    def numbers(self, outputs: Outputs) -> Array:
        """Return all that is observed in one run, (m,); an error says which observation cannot be taken from it."""
        row = []
        for i, o in enumerate(self.observations):
            try:
                found = np.atleast_1d(np.asarray(o.observable(outputs), dtype=float))
            except (SimulationError, StudyError) as error:
                raise type(error)(f"{self._where(i)}: {error}") from error
            except ValueError as error:
                shapes = ", ".join(f"{name} {np.shape(outputs[name])}" for name in o.observable.needs)
                what = f"the outputs do not fit each other ({shapes})"
                raise StudyError(f"{self._where(i)}: {what}: {error}") from error
            row.append(self._fitting(i, found[None]))
        numbers: Array = np.hstack(row)[0]
        return numbers

    def rows(self, outputs: Outputs) -> Array:
        """Return all that is observed in each of n runs stacked along the first axis, (n, m)."""
        each = [o.observable.many(outputs) for o in self.observations]
        return np.hstack([self._fitting(i, block) for i, block in enumerate(each)])

    def _fitting(self, i: int, block: Array) -> Array:
        m = self.observations[i].size
        if block.shape[1:] != (m,):
            raise WrongCount(
                f"{self._where(i)}: the model gives {np.prod(block.shape[1:])} numbers where "
                f'{m} are expected; a signal is observed with how = "at"'
            )
        return block

    def _where(self, i: int) -> str:
        return f"{self.name}, {self.observations[i].label or f'observation {i + 1}'}"

    def parts(self) -> list[slice]:
        """Return the columns of each observation in the vector of all observed numbers."""
        edges = np.cumsum([0, *(o.size for o in self.observations)])
        return [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]


def imposed(
    fixed: Inputs, conditions: Inputs, parameters: Mapping[str, Any], seed: Any = None
) -> dict[str, Any]:
    """Return what a simulator is given: parameters win over conditions, conditions over a drawn seed and what is fixed.

    Values may be columns, one number a point.
    """
    drawn = {} if seed is None else {"seed": seed}
    return {**fixed, **drawn, **conditions, **parameters}


def draws_seed(inputs: Iterable[str], *given: Iterable[str]) -> bool:
    """Return whether a seed is to be drawn: a simulator with these inputs has one, and nothing gives its value."""
    return "seed" in inputs and not any("seed" in names for names in given)
