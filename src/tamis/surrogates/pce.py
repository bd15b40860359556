"""Sparse polynomial chaos: a few orthonormal polynomials of the inputs, fitted by least squares.

Why: it is cheap to fit and to evaluate, needs no iteration that may fail, and its mean, variance and Sobol indices of
every order are sums of squares of coefficients (Sudret 2008, 10.1016/j.ress.2007.04.002). It suits smooth outputs;
the score says when it does not.

How wrong it is: the mean squared error s2 is the corrected leave-one-out error times the optimism of the
selection (see `tamis.surrogates.sparse`). What the truncation leaves out acts like a noise, larger where runs
say less about the coefficients; so the variance at a point is s2 (1 + h(u)) / (1 + mean h), with the leverage h of
the point, as in least squares with noise, and its mean over the inputs' law, which is a trace. Averaged over that
law the variance is s2 by construction. The leverage is squared and summed in single precision: it is the
error of an error, and costs more than all the rest of an evaluation.

Outputs have their own terms but share the evaluation of the union of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tamis.errors import StudyError
from tamis.files import save_arrays
from tamis.marginals import Marginal
from tamis.surrogates import base
from tamis.surrogates.polynomials import Family, Indices, evaluate, family
from tamis.surrogates.polynomials import hyperbolic as hyperbolic_set
from tamis.surrogates.sparse import DEGREE, NORMS, Choice, hyperbolic_sets, optimism, search
from tamis.types import Array, Gauss

_BLOCK = 1024  # points whose polynomials stay in cache
_MOST = 20_000  # candidates, when the degree is given


@dataclass(frozen=True)
class Sobol:
    """Shares of the variance, output by output; NaN for a constant output."""

    first: Array  # (d, m), one input alone
    total: Array  # (d, m), one input and all its interactions
    subsets: tuple[tuple[int, ...], ...]  # sets of inputs that act together, by size
    shares: Array  # (len(subsets), m), of exactly these inputs together

    def of(self, *inputs: int) -> Array:
        """Return the share of exactly these inputs together, (m,)."""
        key = tuple(sorted(inputs))
        if key not in self.subsets:
            return np.zeros(self.shares.shape[1])
        share: Array = self.shares[self.subsets.index(key)]
        return share


@dataclass(frozen=True)
class PCE:
    """A fitted polynomial chaos of m outputs over d inputs of the unit cube."""

    families: tuple[Family, ...]
    indices: Indices  # (P, d), the constant first: union of the terms of all outputs
    terms: tuple[Indices, ...]  # of each output: its rows of ``indices``
    coefficients: tuple[Array, ...]  # of each output
    roots: tuple[Array, ...]  # of each output: (k, k), root of the inverse information matrix
    mse: Array  # (m,), mean squared error expected at new points
    loo: Array  # (m,), corrected leave-one-out error over the variance, before the optimism of the search
    score: base.Score

    def predict(self, u: Array) -> Gauss:
        """Return means and variances, (n, m), at points (n, d) of the unit cube."""
        u = _points(u, len(self.families))
        mean, var = np.empty((2, len(u), len(self.terms)))
        for first in range(0, len(u), _BLOCK):
            block = slice(first, first + _BLOCK)
            phi = evaluate(u[block], self.families, self.indices)
            single = phi.astype(np.float32)
            for i, (rows, root) in enumerate(zip(self.terms, self._leverage_roots, strict=True)):
                whole = len(rows) == len(phi)
                mean[block, i] = self.coefficients[i] @ (phi if whole else phi.take(rows, axis=0))
                part = root @ (single if whole else single.take(rows, axis=0))
                var[block, i] = np.einsum("kn,kn->n", part, part)
        return Gauss(mean, self.mse * (1 + var) / (1 + self._mean_leverage))

    @cached_property
    def _mean_leverage(self) -> Array:
        return np.array([np.sum(root**2) for root in self.roots])

    @cached_property
    def _leverage_roots(self) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float32]], ...]:
        return tuple(np.ascontiguousarray(root.T, dtype=np.float32) for root in self.roots)

    @property
    def mean(self) -> Array:
        """Mean of each output over the law of the inputs."""
        return np.array([c[0] for c in self.coefficients])

    @property
    def variance(self) -> Array:
        """Variance of each output over the law of the inputs."""
        return np.array([np.sum(c[1:] ** 2) for c in self.coefficients])

    def expansion(self) -> tuple[Indices, Array]:
        """Return the terms (P, d), the constant first, and the coefficients of every output (P, m)."""
        coefficients = np.zeros((len(self.indices), len(self.terms)))
        for i, (rows, c) in enumerate(zip(self.terms, self.coefficients, strict=True)):
            coefficients[rows, i] = c
        return self.indices, coefficients

    def sobol(self) -> Sobol:
        """Return Sobol indices of every order."""
        return sobol_indices(*self.expansion())

    def arrays(self) -> dict[str, Any]:
        """Return all there is as arrays, for a file."""
        return {
            "families": np.array(self.families, dtype=np.float64),
            "indices": self.indices,
            "sizes": np.array([len(t) for t in self.terms]),
            "terms": np.concatenate(self.terms),
            "coefficients": np.concatenate(self.coefficients),
            "roots": np.concatenate([root.ravel() for root in self.roots]),
            "mse": self.mse,
            "loo": self.loo,
            **base.score_arrays(self.score),
        }

    @classmethod
    def of(cls, a: Mapping[str, Any]) -> PCE:
        """Make it again from what `arrays` returned."""
        sizes = a["sizes"]
        cuts, squares = np.cumsum(sizes)[:-1], np.cumsum(sizes**2)[:-1]
        roots = [r.reshape(k, k) for r, k in zip(np.split(a["roots"], squares), sizes, strict=True)]
        return cls(
            tuple(Family(int(kind), float(p), float(q)) for kind, p, q in a["families"]),
            a["indices"],
            tuple(np.split(a["terms"], cuts)),
            tuple(np.split(a["coefficients"], cuts)),
            tuple(roots),
            a["mse"],
            a["loo"],
            base.score_of(a),
        )

    def save(self, path: Path) -> None:
        """Write to one ``.npz`` file."""
        save_arrays(path, self.arrays())

    @classmethod
    def load(cls, path: Path) -> PCE:
        """Read what `save` wrote."""
        return base.read(path, cls.of, "polynomial chaos")


def sobol_indices(indices: Indices, coefficients: Array) -> Sobol:
    """Return the Sobol indices of an expansion (Sudret 2008, 10.1016/j.ress.2007.04.002, eqs 36-38).

    Terms are (P, d), the constant first, coefficients (P, m).
    """
    (d, m) = indices.shape[1], coefficients.shape[1]
    power = coefficients**2
    power[0] = 0.0
    variance = power.sum(axis=0)
    power /= np.where(variance > 0, variance, np.nan)
    acts = indices > 0
    alone = acts & (acts.sum(axis=1, keepdims=True) == 1)
    names = [tuple(np.flatnonzero(row).tolist()) for row in acts]
    subsets = sorted(set(names) - {()}, key=lambda s: (len(s), s))
    place = {s: i for i, s in enumerate(subsets)}
    shares = np.zeros((len(subsets), m))
    for name, row in zip(names, power, strict=True):
        if name:
            shares[place[name]] += row
    first, total = alone.T.astype(float) @ power, acts.T.astype(float) @ power
    return Sobol(first.reshape(d, m), total.reshape(d, m), tuple(subsets), shares)


def fit_pce(
    u: Array,
    y: Array,
    *,
    marginals: Sequence[Marginal] | None = None,
    degree: int | None = None,
    hyperbolic: float | None = None,
) -> PCE:
    """Fit a sparse polynomial chaos to outputs y, (n,) or (n, m), of runs at points u (n, d) of the unit cube.

    ``marginals`` are the laws of the inputs (None: uniform), which decide their polynomials. Degree and q-norm of the
    candidates are searched for unless given.
    """
    u, y, families = _checked(u, y, marginals)
    n, d = u.shape
    sets = _sets(n, d, degree, hyperbolic)
    spread = y.std(axis=0)
    varies = np.flatnonzero(spread > 1e-12 * np.maximum(np.abs(y).max(axis=0), 1e-300))
    shifted = ((y[:, varies] - y[:, varies].mean(axis=0)) / spread[varies]).T
    constant = np.zeros((1, d), dtype=np.int64)
    choices = [Choice(0.0, constant, None, constant)] * y.shape[1]
    factor = np.ones(y.shape[1])
    found = search(u, np.ascontiguousarray(shifted), families, sets, degree is None and hyperbolic is None)
    for i, output, choice in zip(varies, shifted, found, strict=True):
        choices[i], factor[i] = choice, optimism(u, output, families, choice)
    return _fitted(u, y, families, choices, factor)


def _sets(n: int, d: int, degree: int | None, q: float | None) -> list[list[Indices]]:
    if degree is not None and not 1 <= degree <= DEGREE:
        raise StudyError(f"the degree must lie between 1 and {DEGREE}; found {degree}")
    if q is not None and not 0.1 <= q <= 1:
        raise StudyError(f"the q-norm of hyperbolic sets must lie between 0.1 and 1; found {q:g}")
    norms = NORMS if q is None else (q,)
    if degree is None:
        return hyperbolic_sets(n, d, range(1, DEGREE + 1), norms)
    sets = [[found] for norm in norms if (found := hyperbolic_set(d, degree, norm, _MOST)) is not None]
    if not sets:
        raise StudyError(
            f"degree {degree} of {d} inputs has more than {_MOST} terms; lower the degree, give a smaller "
            "hyperbolic norm, or leave both out"
        )
    return sets


def _fitted(u: Array, y: Array, families: tuple[Family, ...], choices: list[Choice], factor: Array) -> PCE:
    """Fit the chosen terms of every output by least squares, through one orthogonal factorisation each."""
    union = np.unique(np.concatenate([c.terms for c in choices]), axis=0)
    place = {tuple(row): i for i, row in enumerate(union.tolist())}
    phi = evaluate(u, families, union)
    terms, coefficients, roots = [], [], []
    residuals, mse = np.empty_like(y), np.zeros(y.shape[1])
    for i, choice in enumerate(choices):
        rows = np.array([place[tuple(row)] for row in choice.terms.tolist()])
        q, r = np.linalg.qr(phi[rows].T)
        root = np.linalg.solve(r, np.eye(len(r)))
        c = root @ (q.T @ y[:, i])
        left_out = (y[:, i] - phi[rows].T @ c) / np.maximum(1 - np.sum(q**2, axis=1), 1e-10)
        mse[i] = factor[i] * choice.loo * y[:, i].var()
        residuals[:, i] = left_out * np.sqrt(mse[i] / max(np.mean(left_out**2), 1e-300))
        order = np.argsort(rows)
        terms.append(rows[order])
        coefficients.append(c[order])
        roots.append(root[order])
    loo = np.array([c.loo for c in choices])
    scored = base.score(y, residuals)
    return PCE(families, union, tuple(terms), tuple(coefficients), tuple(roots), mse, loo, scored)


def _checked(
    u: Array, y: Array, marginals: Sequence[Marginal] | None
) -> tuple[Array, Array, tuple[Family, ...]]:
    u, y = np.asarray(u, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if u.ndim != 2:
        raise StudyError(f"the points of a surrogate must be (n, d); found an array of shape {u.shape}")
    u = _points(u, u.shape[1])
    n, d = u.shape
    y = y[:, None] if y.ndim == 1 else y
    if y.ndim != 2 or len(y) != n:
        raise StudyError(
            f"outputs must be (n,) or (n, m) with one row for each of the {n} points; found {y.shape}"
        )
    if n < 3:
        raise StudyError(f"a polynomial chaos needs at least 3 runs; found {n}")
    if not np.isfinite(y).all():
        row = int(np.flatnonzero(~np.isfinite(y).all(axis=1))[0])
        raise StudyError(f"outputs must be finite; row {row} is not: leave failed runs out")
    if marginals is None:
        return u, y, (Family(),) * d
    if len(marginals) != d:
        raise StudyError(f"expected {d} marginals, one for each input; found {len(marginals)}")
    return u, y, tuple(family(marginal) for marginal in marginals)


def _points(u: Array, d: int) -> Array:
    u = np.asarray(u, dtype=np.float64)
    if u.ndim != 2 or u.shape[1] != d:
        raise StudyError(f"expected points of shape (n, {d}), found {u.shape}")
    if not (np.min(u, initial=0.0) >= 0 and np.max(u, initial=1.0) <= 1):
        raise StudyError("points of a surrogate must lie in the unit cube; map them with Space.to_unit")
    return u
