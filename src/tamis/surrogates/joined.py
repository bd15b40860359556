"""Several surrogates side by side, as one.

A study observes single numbers and signals, in tests that may fail at different points. Numbers whose runs ended
well at the same points are fitted together and share what they can; each signal has principal components of
its own. Whoever evaluates the whole sees one surrogate of all observed numbers and asks it once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tamis.surrogates.base import Score, Surrogate, read
from tamis.surrogates.reduced import from_arrays, kind_of
from tamis.types import Array, Gauss, Indices


@dataclass(frozen=True)
class Part:
    """A surrogate of some of the outputs, fitted to some of the runs."""

    surrogate: Surrogate
    columns: Indices  # its outputs among all
    rows: Indices  # its runs among all


@dataclass(frozen=True)
class Joined:
    """A surrogate of ``m`` outputs over ``n`` runs, made of parts."""

    parts: tuple[Part, ...]
    n: int
    m: int

    @cached_property
    def score(self) -> Score:
        """The parts' scores; residuals of runs that a part did not use are NaN."""
        q2, rmse = np.full((2, self.m), np.nan)
        residuals = np.full((self.n, self.m), np.nan)
        for part in self.parts:
            mine = part.surrogate.score
            q2[part.columns], rmse[part.columns] = mine.q2, mine.rmse
            residuals[np.ix_(part.rows, part.columns)] = mine.residuals
        size = np.abs(residuals) / np.where(rmse > 0, rmse, 1.0)
        worst = int(np.argmax(np.nanmax(np.where(np.isnan(size), -1.0, size), axis=1)))
        return Score(q2, rmse, worst, residuals, all(part.surrogate.score.judged for part in self.parts))

    def subset(self, columns: Indices) -> Joined:
        """Return what is needed for some outputs; of the others it knows nothing."""
        return Joined(tuple(p for p in self.parts if np.isin(p.columns, columns).any()), self.n, self.m)

    def predict(self, u: Array) -> Gauss:
        """Return means and variances, (n, m) each, with the modes of all signals."""
        mean, var = np.zeros((2, len(u), self.m))
        modes, weights = [], []
        for part in self.parts:
            found = part.surrogate.predict(u)
            mean[:, part.columns], var[:, part.columns] = found.mean, found.var
            if found.modes is not None and found.weight is not None:
                own = np.zeros((len(found.modes), self.m))
                own[:, part.columns] = found.modes
                modes.append(own)
                weights.append(found.weight)
        return Gauss(mean, var, np.vstack(modes), np.hstack(weights)) if modes else Gauss(mean, var)

    def arrays(self) -> dict[str, Any]:
        """Return all there is as arrays, for a file."""
        kinds = [kind_of(part.surrogate) for part in self.parts]
        arrays: dict[str, Any] = {"kinds": np.array(kinds), "n": np.array(self.n), "m": np.array(self.m)}
        for i, part in enumerate(self.parts):
            arrays |= {f"{i}.columns": part.columns, f"{i}.rows": part.rows}
            arrays |= {f"{i}.of.{name}": array for name, array in part.surrogate.arrays().items()}
        return arrays

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> Joined:
        """Make it again from what `arrays` returned."""
        parts = []
        for i, kind in enumerate(map(str, arrays["kinds"])):
            head = f"{i}.of."
            mine = {name.removeprefix(head): a for name, a in arrays.items() if name.startswith(head)}
            parts.append(Part(from_arrays(kind, mine), arrays[f"{i}.columns"], arrays[f"{i}.rows"]))
        return cls(tuple(parts), int(arrays["n"]), int(arrays["m"]))

    @classmethod
    def load(cls, path: Path) -> Joined:
        """Read a file that holds `arrays`, perhaps among others."""
        return read(path, cls.of, "surrogate")
