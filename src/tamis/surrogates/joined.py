"""Several surrogates side by side, as one.

A study observes single numbers and signals, in tests that may fail at different points. Numbers whose runs ended
well at the same points are fitted together and share what they can; each signal has principal components of
its own. Whoever evaluates the whole sees one surrogate of all observed numbers and asks it once.

Their errors may be shared (`tamis.surrogates.shared`): factors common to numbers of several parts and tests, and to
components of signals, come with the prediction, and what is left to each is its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tamis.surrogates.base import Score, Surrogate, distinct, read
from tamis.surrogates.reduced import Reduced, from_arrays, kind_of
from tamis.surrogates.shared import factors
from tamis.types import Array, Gauss, Indices


@dataclass(frozen=True)
class Part:
    """A surrogate of some of the outputs, fitted to some of the runs."""

    surrogate: Surrogate
    columns: Indices  # its outputs among all
    rows: Indices  # its runs among all
    loadings: Array | None = (
        None  # (outputs or components, f), of its standardised errors on factors common to all
    )

    @property
    def residuals(self) -> Array:
        """Those of its runs left out, of its outputs or, where it is reduced, of its components."""
        inner = self.surrogate.inner if isinstance(self.surrogate, Reduced) else self.surrogate
        return inner.score.residuals

    def predict(self, u: Array) -> Gauss:
        """Return what its surrogate does, its errors divided into common ones and its own."""
        found = self.surrogate.predict(u)
        if self.loadings is None:
            return found
        own = np.maximum(1 - np.sum(self.loadings**2, axis=1), 0.0)  # of outputs that err alike, round-off
        if isinstance(self.surrogate, Reduced) and found.modes is not None and found.weight is not None:
            k = len(own)  # components; then come patterns of what is left out
            common = np.einsum("nk,kf,km->nfm", np.sqrt(found.weight[:, :k]), self.loadings, found.modes[:k])
            weight = np.hstack([found.weight[:, :k] * own, found.weight[:, k:]])
            return found._replace(weight=weight, common=common)
        common = np.sqrt(found.var)[:, None, :] * self.loadings.T
        return found._replace(var=found.var * own, common=common)


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

    @property
    def factors(self) -> int:
        """How many factors of its errors are shared."""
        return max((p.loadings.shape[1] for p in self.parts if p.loadings is not None), default=0)

    @cached_property
    def shared(self) -> Array:
        """Part of the error variance of each output that is shared, (m,)."""
        answer = np.zeros(self.m)
        for part in self.parts:
            if part.loadings is None:
                continue
            held = np.sum(part.loadings**2, axis=1)
            if isinstance(part.surrogate, Reduced):
                size = part.surrogate.modes**2 * np.mean(part.residuals**2, axis=0)[:, None]  # (k, m)
                whole = size.sum(axis=0) + np.sum(part.surrogate.tail**2, axis=0) + part.surrogate.rest
                held = held @ size / np.maximum(whole, 1e-300)
            answer[part.columns] = held
        return answer

    def sharing(self, u: Array) -> Joined:
        """Return the same with the errors shared that runs left out, at points u (n, d), show to be.

        Replicates of a point have what lies between points in common: their mean is one witness.
        """
        first, point = distinct(u)
        residuals = []
        for part in self.parts:
            mine = np.full((len(first), part.residuals.shape[1]), np.nan)
            there = np.bincount(point[part.rows], minlength=len(first))
            sums = np.zeros_like(mine)
            np.add.at(sums, point[part.rows], part.residuals)
            mine[there > 0] = sums[there > 0] / there[there > 0, None]
            residuals.append(mine)
        found = factors(np.hstack(residuals))
        if not found.any():
            return self
        edges = np.cumsum([r.shape[1] for r in residuals])[:-1]
        loadings = np.split(found, edges)
        return replace(
            self, parts=tuple(replace(p, loadings=own) for p, own in zip(self.parts, loadings, strict=True))
        )

    def subset(self, columns: Indices) -> Joined:
        """Return what is needed for some outputs; of the others it knows nothing."""
        return Joined(tuple(p for p in self.parts if np.isin(p.columns, columns).any()), self.n, self.m)

    def predict(self, u: Array) -> Gauss:
        """Return means and variances, (n, m) each, with the modes of all signals."""
        mean, var = np.zeros((2, len(u), self.m))
        modes, weights = [], []
        common = np.zeros((len(u), self.factors, self.m))
        for part in self.parts:
            found = part.predict(u)
            mean[:, part.columns], var[:, part.columns] = found.mean, found.var
            if found.modes is not None and found.weight is not None:
                own = np.zeros((len(found.modes), self.m))
                own[:, part.columns] = found.modes
                modes.append(own)
                weights.append(found.weight)
            if found.common is not None:
                common[:, :, part.columns] = found.common
        answer = Gauss(mean, var, np.vstack(modes), np.hstack(weights)) if modes else Gauss(mean, var)
        return answer._replace(common=common) if self.factors else answer

    def arrays(self) -> dict[str, Any]:
        """Return all there is as arrays, for a file."""
        kinds = [kind_of(part.surrogate) for part in self.parts]
        arrays: dict[str, Any] = {"kinds": np.array(kinds), "n": np.array(self.n), "m": np.array(self.m)}
        for i, part in enumerate(self.parts):
            arrays |= {f"{i}.columns": part.columns, f"{i}.rows": part.rows}
            arrays |= {f"{i}.of.{name}": array for name, array in part.surrogate.arrays().items()}
            if part.loadings is not None:
                arrays[f"{i}.loadings"] = part.loadings
        return arrays

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> Joined:
        """Make it again from what `arrays` returned."""
        parts = []
        for i, kind in enumerate(map(str, arrays["kinds"])):
            head = f"{i}.of."
            mine = {name.removeprefix(head): a for name, a in arrays.items() if name.startswith(head)}
            where = arrays[f"{i}.columns"], arrays[f"{i}.rows"]
            parts.append(Part(from_arrays(kind, mine), *where, arrays.get(f"{i}.loadings")))
        return cls(tuple(parts), int(arrays["n"]), int(arrays["m"]))

    @classmethod
    def load(cls, path: Path) -> Joined:
        """Read a file that holds `arrays`, perhaps among others."""
        return read(path, cls.of, "surrogate")


def share_errors(surrogate: Surrogate, u: Array) -> Joined:
    """Let the outputs of a surrogate fitted to runs at points u share the errors that these, left out, show to be."""
    n, m = surrogate.score.residuals.shape
    return Joined((Part(surrogate, np.arange(m), np.arange(n)),), n, m).sharing(u)
