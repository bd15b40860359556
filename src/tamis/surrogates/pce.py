"""Sparse polynomial chaos: a few orthonormal polynomials of the inputs, fitted by least squares.

Why: it is cheap to fit and to evaluate, needs no iteration that may fail, and its mean, variance and Sobol indices of
every order are sums of squares of coefficients (Sudret 2008, 10.1016/j.ress.2007.04.002). It suits smooth outputs;
the score says when it does not.

How wrong it is: the mean squared error s2 comes from a choice of terms repeated without some of the runs (see
`tamis.surrogates.honest`); an output that the mean predicts as well has the mean for its model. What the truncation
leaves out acts like a noise, larger where runs say less about the coefficients; so the variance at a point is
s2 (1 + h(u)) / (1 + mean h), with the leverage h of the point, as in least squares with noise, and its mean over the
inputs' law, which is a trace. Averaged over that law the variance is s2 by construction. The leverage is squared and
summed in single precision: it is the error of an error, and costs more than all the rest of an evaluation.

Runs of one point count once, by their mean: they would tell of each other when one is left out. What they scatter
about it is added to the error of a run.

Outputs have their own terms but share the evaluation of the union of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tamis.blas import one_thread
from tamis.errors import StudyError, TamisWarning
from tamis.files import save_arrays
from tamis.marginals import Marginal
from tamis.surrogates import base
from tamis.surrogates.honest import Error, of_mean, reported
from tamis.surrogates.polynomials import DEGREE, Family, evaluate, family
from tamis.surrogates.polynomials import hyperbolic as hyperbolic_set
from tamis.surrogates.sparse import NORMS, Choice, hyperbolic_sets, search
from tamis.types import Array, Gauss, Indices

_BLOCK = 1024  # points whose polynomials stay in cache
_MOST = 20_000  # candidates, when the degree is given
_BEYOND, _MATTERS = 3.0, 0.01  # error over the law over that at the runs, and over the variance, to warn of


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
    loo: Array  # (m,), corrected leave-one-out error over the variance, by which the terms were chosen
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


@one_thread
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
    first, point = base.distinct(u)
    points, centre = u[first], y.mean(axis=0)
    means = at_points(y - centre, point)
    (n, d), m = points.shape, y.shape[1]
    sets = _sets(n, d, degree, hyperbolic)
    spread = means.std(axis=0)
    varies = np.flatnonzero(base.varies(at_points(y, point)) & (n > 2))
    shifted = np.ascontiguousarray(((means - means.mean(axis=0))[:, varies] / spread[varies]).T)
    constant = np.zeros((1, d), dtype=np.int64)
    mean = Choice(of_mean(n), constant, constant, constant)
    choices, errors = [mean] * m, [Error(of_mean(n), 1.0, False)] * m
    found = search(points, shifted, families, sets, degree is None and hyperbolic is None)
    for i, output, choice in zip(varies, shifted, found, strict=True):
        errors[i] = reported(points, output, families, choice)
        choices[i] = choice if errors[i].useful else mean
    if any(law.unbounded for law in families):
        _warn_of_tails(errors)
    expected = np.zeros(m)
    expected[varies] = spread[varies] ** 2 * [
        e.mse if e.useful else of_mean(n) for e in (errors[i] for i in varies)
    ]
    return _fitted(points, point, y - centre, centre, families, choices, expected)


def at_points(y: Array, point: Indices) -> Array:
    """Return the means (k, m) over the runs (n, m) of each point, given the point of each run (n,)."""
    sums = np.zeros((int(point.max()) + 1, y.shape[1]))
    np.add.at(sums, point, y)
    return np.asarray(sums / np.bincount(point)[:, None])


def _warn_of_tails(errors: list[Error]) -> None:
    far = [i for i, e in enumerate(errors) if e.useful and e.beyond > _BEYOND and e.mse > _MATTERS]
    if far:
        names = ", ".join(str(i + 1) for i in far)
        text = (
            f"Polynomial chaos of output {names} (of {len(errors)}): most of its error lies in the tails of the "
            "inputs, where there are no runs, and is a guess from how the output grows. Runs there, or an output "
            "that varies less, such as its logarithm, would tell."
        )
        warnings.warn(text, TamisWarning, stacklevel=3)


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


def _fitted(
    points: Array,
    point: Indices,
    y: Array,
    centre: Array,
    families: tuple[Family, ...],
    choices: list[Choice],
    expected: Array,
) -> PCE:
    """Fit the chosen terms of every output by least squares, through one orthogonal factorisation each.

    Runs y (n, m), about their centre (m,), are at the given rows of points (k, d); ``expected`` (m,) is the mean
    squared error of the model, zero for a constant.
    """
    means, count = at_points(y, point), np.bincount(point)
    scatter = y - means[point]
    union = np.unique(np.concatenate([c.terms for c in choices]), axis=0)
    place = {tuple(row): i for i, row in enumerate(union.tolist())}
    phi = evaluate(points, families, union)
    terms, coefficients, roots = [], [], []
    residuals = np.empty_like(y)
    for i, choice in enumerate(choices):
        rows = np.array([place[tuple(row)] for row in choice.terms.tolist()])
        q, r = np.linalg.qr(phi[rows].T)
        root = np.linalg.solve(r, np.eye(len(r)))
        c = root @ (q.T @ means[:, i])
        left_out = (means[:, i] - phi[rows].T @ c) / np.maximum(1 - np.sum(q**2, axis=1), 1e-10)
        left_out *= np.sqrt(expected[i] / max(np.average(left_out**2, weights=count), 1e-300))
        residuals[:, i] = left_out[point] + scatter[:, i]
        order = np.argsort(rows)
        terms.append(rows[order])
        coefficients.append(c[order])
        coefficients[-1][0] += centre[i]
        roots.append(root[order])
    loo = np.array([c.loo for c in choices])
    judged = base.judged(*points.shape)
    scored = base.score(np.where(expected > 0, y, y + centre), residuals, judged)
    mse = expected + np.mean(scatter**2, axis=0)
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
