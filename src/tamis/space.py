"""The space of unknowns: named parameters, their priors, and the way to and from the unit cube.

`Space` is the only place that knows both the physical coordinates ``x`` and the unit-cube coordinates ``u``.
A Gaussian copula carries the correlation, so ``u`` is always independent and uniform.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr, ndtri

from tamis.errors import StudyError, nearest
from tamis.marginals import Marginal, Quantile, quick
from tamis.types import Array, Generator

_EDGE = 2.0**-53  # keeps normal scores finite at the edges of the cube


@dataclass(frozen=True)
class Parameter:
    """One unknown: its name, its prior law, the unit and label that plots print."""

    name: str
    prior: Marginal
    unit: str = ""
    label: str = ""

    @property
    def title(self) -> str:
        """Label and unit, as an axis prints them."""
        return f"{self.label or self.name} [{self.unit}]" if self.unit else self.label or self.name

    @property
    def in_decades(self) -> bool:
        """Whether the prior is even in the logarithm, along which the parameter is drawn and intervals compared."""
        return getattr(getattr(self.prior, "dist", None), "name", "") == "loguniform"


@dataclass(frozen=True)
class Space:
    """The joint prior: independent marginals, or a Gaussian copula over them."""

    parameters: tuple[Parameter, ...]
    correlation: Array | None = None

    def __post_init__(self) -> None:
        names = self.names
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise StudyError(f"parameter {sorted(twice)[0]} is defined twice")
        if self.correlation is not None:
            r = np.asarray(self.correlation, dtype=float)
            if r.shape != (self.dim, self.dim) or not np.allclose(r, r.T) or not np.allclose(np.diag(r), 1.0):
                raise StudyError(
                    f"the correlation must be a symmetric {self.dim} x {self.dim} matrix with a unit diagonal, "
                    f"in the order {', '.join(names)}"
                )
            if np.linalg.eigvalsh(r)[0] <= 1e-10:
                raise StudyError(
                    "the correlation matrix is not positive definite; lower its off-diagonal terms"
                )

    @property
    def dim(self) -> int:
        """Return the number of parameters."""
        return len(self.parameters)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the parameters' names, in order."""
        return tuple(p.name for p in self.parameters)

    def index(self, name: str) -> int:
        """Return the column of a parameter."""
        if name not in self.names:
            raise StudyError(f'no parameter "{name}"{nearest(name, self.names)}')
        return self.names.index(name)

    def subset(self, names: Sequence[str]) -> Space:
        """Return the marginal space of some parameters, in the order given."""
        columns = [self.index(name) for name in names]
        correlation = None if self.correlation is None else self.correlation[np.ix_(columns, columns)]
        return Space(tuple(self.parameters[i] for i in columns), correlation)

    def sample(self, n: int, rng: Generator) -> Array:
        """Draw n points of the prior, (n, d)."""
        return self.from_unit(rng.random((n, self.dim)))

    def from_unit(self, u: Array) -> Array:
        """Map points of the unit cube to physical ones."""
        u = np.asarray(u, dtype=float)
        if self._factor is not None:
            u = ndtr(ndtri(np.clip(u, _EDGE, 1 - _EDGE)) @ self._factor.T)
        return self._columns("ppf", u)

    def to_unit(self, x: Array) -> Array:
        """Map physical points to the unit cube."""
        u = self._columns("cdf", np.asarray(x, dtype=float))
        if self._factor is not None:
            u = ndtr(np.linalg.solve(self._factor, ndtri(np.clip(u, _EDGE, 1 - _EDGE)).T).T)
        return u

    def logpdf(self, x: Array) -> Array:
        """Log density of the prior at (n, d) points; minus infinity outside its support."""
        x = np.asarray(x, dtype=float)
        total = self._columns("logpdf", x).sum(axis=1)
        if self._factor is not None:
            z = ndtri(np.clip(self._columns("cdf", x), _EDGE, 1 - _EDGE))
            w = np.linalg.solve(self._factor, z.T).T
            total += 0.5 * (z**2 - w**2).sum(axis=1) - np.log(np.diag(self._factor)).sum()
        return np.where(np.isnan(total), -np.inf, total)

    @cached_property
    def _factor(self) -> Array | None:
        return (
            None
            if self.correlation is None
            else np.asarray(np.linalg.cholesky(self.correlation), dtype=float)
        )

    def _columns(self, method: str, points: Array) -> Array:
        if points.ndim != 2 or points.shape[1] != self.dim:
            raise ValueError(f"expected points of shape (n, {self.dim}), found {points.shape}")
        answer = np.empty_like(points)
        valid = method == "cdf" or (
            method == "ppf" and points.min(initial=0) >= 0 and points.max(initial=0) <= 1
        )
        for i, (parameter, fast) in enumerate(zip(self.parameters, self._quick, strict=True)):
            if fast is not None and valid:
                answer[:, i] = fast[method == "cdf"](points[:, i])
            else:
                answer[:, i] = getattr(parameter.prior, method)(points[:, i])
        return answer

    @cached_property
    def _quick(self) -> tuple[tuple[Quantile, Quantile] | None, ...]:
        return tuple(quick(parameter.prior) for parameter in self.parameters)
