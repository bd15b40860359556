"""Words shared by every layer: arrays, inputs and outputs of a simulator, model answers, progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Indices: TypeAlias = NDArray[np.int64]
Generator: TypeAlias = np.random.Generator
Value: TypeAlias = float | int | str
Inputs: TypeAlias = Mapping[str, Value]
Outputs: TypeAlias = Mapping[str, np.ndarray[Any, Any]]
BatchInputs: TypeAlias = Mapping[str, np.ndarray[Any, Any] | str]
LogDensity: TypeAlias = Callable[[Array], Array]


class Gauss(NamedTuple):
    """What a forward model answers: independent means and variances, plus correlated modes where a surrogate has them.

    Row ``i`` has mean ``mean[i]`` and covariance ``diag(var[i]) + modes.T @ diag(weight[i]) @ modes + common[i].T @
    common[i]``. The last are errors that observations and tests share: the same standard normal numbers, in the same
    order, stand behind ``common`` of everything that one surrogate answers at one point.
    """

    mean: Array  # (n, m)
    var: Array  # (n, m)
    modes: Array | None = None  # (k, m), along one signal
    weight: Array | None = None  # (n, k)
    common: Array | None = None  # (n, f, m), across signals and tests

    @property
    def total(self) -> Array:
        """Variance of each number by itself, (n, m)."""
        total = self.var
        if self.modes is not None and self.weight is not None:
            total = total + self.weight @ self.modes**2
        return total if self.common is None else total + np.sum(self.common**2, axis=1)


@dataclass(frozen=True)
class Table:
    """Rows of a printed table; ``columns`` names them, numbers stay numbers until they are shown."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def column(self, name: str) -> list[Any]:
        """Return one column by name."""
        index = self.columns.index(name)
        return [row[index] for row in self.rows]


@dataclass(frozen=True)
class Event:
    """One piece of news about long work.

    ``done`` of ``total`` units of ``task``, with counts to show beside the bar.
    """

    task: str
    done: int
    total: int | None
    info: Mapping[str, float | int | str] = field(default_factory=dict)


Progress: TypeAlias = Callable[[Event], None]


def silent(event: Event) -> None:
    """Ignore progress."""
