"""Hierarchical Kriging: many cheap runs draw the shape, a few expensive ones put it in place.

Why recursive: the expensive simulator is taken to be a multiple of the cheap one's process plus a trend plus an
independent process of its own (Kennedy & O'Hagan 2000, 10.1093/biomet/87.1.1). Fitted level by level instead of all
at once, each step is ordinary Kriging whose trend has one more function, the mean of the level below (Han &
Goertz 2012, 10.2514/1.J051354; Le Gratiet & Garnier 2014, 10.1615/Int.J.UncertaintyQuantification.2014006914): the
factor between levels is one of the trend's coefficients, found by generalised least squares with its error, and
s levels cost the sum of their Krigings, not the cube of all runs. Where the expensive points are among the cheap ones
and runs are exact, the two are the same; where they are not, the mean of the level below stands for its value.

The factor is one number, or a linear function of the inputs (as Le Gratiet & Garnier allow) where that predicts the
expensive runs left out better. It is tried only where there are two runs for each coefficient: with 10 expensive runs
of Park's function it doubles the error, with 20 it takes a third off.

The variance is that of the level's own process, error of the factor included, plus the second moment of the factor
times the variance of the level below (Le Gratiet & Garnier's recursion for the variance). A level whose lower
mean is constant over the runs (such as a position at time zero) has no factor to estimate and is Kriged alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tamis.blas import one_thread
from tamis.errors import StudyError
from tamis.files import save_arrays
from tamis.marginals import Marginal
from tamis.surrogates.base import Score, distinct, judged, read, score
from tamis.surrogates.covariances import check_kernel
from tamis.surrogates.kriging import (
    check_trend,
    checked,
    checked_noise,
    checked_runs,
    coordinates,
    families_of,
    functions,
    single_output,
)
from tamis.surrogates.polynomials import Family
from tamis.surrogates.process import Hyper, Process, condition, estimate
from tamis.types import Array, Gauss, Generator, Indices

_ARRAYS = ("u", "y", "length", "variance", "noise", "terms")


@dataclass(frozen=True)
class Level:
    """Runs and estimates of one simulator; ``terms`` is 1 or 1 + d where the level below has a factor, else 0."""

    u: Array  # (n, d)
    y: Array  # (n, m)
    length: Array  # (m, d)
    variance: Array  # (m,)
    noise: Array  # (n, m)
    terms: Indices  # (m,)


@dataclass(frozen=True)
class MultiFidelity:
    """Hierarchical Kriging of several outputs, cheapest level first."""

    kernel: str
    trend: str
    families: tuple[Family, ...]  # of the inputs' coordinates
    levels: tuple[Level, ...]

    @cached_property
    def processes(self) -> tuple[tuple[Process, ...], ...]:
        """The processes of each level, one an output."""
        done: tuple[tuple[Process, ...], ...] = ()
        for level in self.levels:
            x = coordinates(level.u, self.families)
            done = (*done, _conditioned(self.kernel, x, level, self._bases(done, level.terms, x)))
        return done

    @cached_property
    def score(self) -> Score:
        """Each dearest run against the prediction of the others; the levels below and all estimates kept."""
        top = self.levels[-1]
        enough = judged(len(distinct(top.u)[0]), top.u.shape[1])
        return score(top.y, np.column_stack([p.residuals for p in self.processes[-1]]), enough)

    def factors(self, u: Array) -> Array:
        """Return the factors between successive levels at points u, (levels - 1, N, m)."""
        x = coordinates(checked(u, self.families), self.families)
        pairs = zip(self.levels[1:], self.processes[1:], strict=True)
        return np.array([_factors(level, row, x)[0] for level, row in pairs])

    def predict(self, u: Array) -> Gauss:
        """Return means and variances of another run's outputs at the dearest level, (N, m) each."""
        x = coordinates(checked(u, self.families), self.families)
        found = _predicted(self.trend, self.levels, self.processes, x)
        return Gauss(found.mean, found.var + self.levels[-1].noise.mean(axis=0))

    def draw(self, n: int, rng: Generator, at: Array) -> Callable[[Array], Array]:
        """Draw n fixed functions of the dearest level given all runs and values at some points; (N, d) -> (n, N).

        They are sums of trajectories of all levels, each conditioned at the points.
        """
        x = coordinates(checked(at, self.families), self.families)
        rows = tuple(zip(self.levels, self.processes, strict=True))
        drawn = [
            single_output(row).draw(n, rng, x, self._bases(self.processes[:i], level.terms, x)[0])
            for i, (level, row) in enumerate(rows)
        ]

        def call(u: Array) -> Array:
            x = coordinates(checked(u, self.families), self.families)
            first = functions(self.trend, x)
            total, mean = drawn[0](x, first), rows[0][1][0].mean(x, first)[:, None]
            for i, (level, row) in enumerate(rows[1:], start=1):
                basis = _bases(self.trend, x, mean, level.terms)
                # the level below enters as its own trajectory instead of its mean
                total = drawn[i](x, basis[0]) + _factors(level, row, x)[0][:, 0] * (total - mean[:, 0])
                mean = row[0].mean(x, basis[0])[:, None]
            return total

        return call

    def arrays(self) -> dict[str, Any]:
        """Return runs and estimates as arrays, for a file."""
        arrays = {name: np.asarray(getattr(self, name)) for name in ("kernel", "trend", "families")}
        for i, level in enumerate(self.levels):
            arrays |= {f"{name}_{i}": getattr(level, name) for name in _ARRAYS}
        return arrays

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> MultiFidelity:
        """Make it again from what `arrays` returned."""
        count = sum(name.startswith("terms_") for name in arrays)
        levels = tuple(Level(*(arrays[f"{name}_{i}"] for name in _ARRAYS)) for i in range(count))
        return cls(str(arrays["kernel"]), str(arrays["trend"]), families_of(arrays), levels)

    def save(self, path: Path) -> None:
        """Write runs and estimates."""
        save_arrays(path, self.arrays())

    @classmethod
    def load(cls, path: Path) -> MultiFidelity:
        """Read what `save` wrote."""
        return read(path, cls.of, "multi-fidelity model")

    def _bases(self, below: tuple[tuple[Process, ...], ...], terms: Iterable[int], x: Array) -> list[Array]:
        lower = _means(self.trend, self.levels[: len(below)], below, x)
        return _bases(self.trend, x, lower, terms)


@one_thread
def fit_multifidelity(
    levels: Sequence[tuple[Array, Array]],
    *,
    marginals: Sequence[Marginal] | None = None,
    kernel: str = "matern52",
    trend: str = "constant",
    nugget: float | Sequence[float | Array | None] | None = None,
    rng: Generator,
) -> MultiFidelity:
    """Fit to levels (u, y), cheapest first; each has points u (n, d) of the unit cube and outputs y (n,) or (n, m).

    ``nugget`` is as for `fit_kriging`, the same for all levels or a sequence of one per level.
    """
    check_kernel(kernel)
    if not levels:
        raise StudyError("multi-fidelity Kriging needs at least one level of runs, cheapest first")
    nuggets = list(nugget) if isinstance(nugget, Sequence) else [nugget] * len(levels)
    if len(nuggets) != len(levels):
        raise StudyError(f"found {len(nuggets)} nuggets for {len(levels)} levels; give one per level")
    done: tuple[Level, ...] = ()
    processes: tuple[tuple[Process, ...], ...] = ()
    for (points, outputs), given in zip(levels, nuggets, strict=True):
        u, y, families = checked_runs(points, outputs, marginals)
        if done and (u.shape[1] != done[0].u.shape[1] or y.shape[1] != done[0].y.shape[1]):
            raise StudyError(
                f"level {len(done)} has {u.shape[1]} inputs and {y.shape[1]} outputs, level 0 has "
                f"{done[0].u.shape[1]} and {done[0].y.shape[1]}; all levels need the same"
            )
        x = coordinates(u, families)
        lower = _means(trend, done, processes, x)
        noise = None if given is None else checked_noise(u, y, given)
        seed = int(rng.integers(2**63))
        row, terms = [], []
        for j in range(y.shape[1]):
            known = None if noise is None else noise[:, j]
            tried = []
            for count in _possible(functions(trend, x), None if lower is None else lower[:, j], x):
                basis = _bases(trend, x, lower, [count] * y.shape[1])[j]
                check_trend(basis, trend)
                hyper = estimate(kernel, x, basis, y[:, j], known, np.random.default_rng(seed))
                tried.append((count, condition(kernel, x, basis, y[:, j], hyper)))
            best = min(tried, key=lambda pair: float(np.sum(pair[1].residuals ** 2)))
            terms.append(best[0])
            row.append(best[1])
        level = Level(
            u,
            y,
            np.array([process.hyper.length for process in row]),
            np.array([process.hyper.variance for process in row]),
            np.column_stack([process.hyper.noise for process in row]),
            np.array(terms),
        )
        done, processes = (*done, level), (*processes, tuple(row))
    return MultiFidelity(kernel, trend, families, done)


def _conditioned(kernel: str, x: Array, level: Level, bases: list[Array]) -> tuple[Process, ...]:
    hypers = [Hyper(level.length[j], float(v), level.noise[:, j]) for j, v in enumerate(level.variance)]
    return tuple(
        condition(kernel, x, basis, level.y[:, j], hyper)
        for j, (basis, hyper) in enumerate(zip(bases, hypers, strict=True))
    )


def _bases(trend: str, x: Array, lower: Array | None, terms: Iterable[int]) -> list[Array]:
    """Return each output's functions: the mean below times the factor's terms, then the trend's."""
    basis = functions(trend, x)
    if lower is None:
        return [basis for _ in terms]
    linear = functions("linear", x)
    return [np.hstack([lower[:, [j]] * linear[:, :count], basis]) for j, count in enumerate(terms)]


def _possible(basis: Array, lower: Array | None, x: Array) -> list[int]:
    """Return the numbers of terms that the factor of the level below may have, given the runs."""
    if lower is None:
        return [0]
    rest = lower - basis @ np.linalg.lstsq(basis, lower, rcond=None)[0]
    if np.abs(rest).max() <= 1e-8 * np.abs(lower).max():
        return [0]
    n, d = x.shape
    more = np.hstack([lower[:, None] * functions("linear", x), basis])
    rank = np.linalg.matrix_rank(more / np.linalg.norm(more, axis=0).clip(1e-300), tol=1e-6)
    return [1, 1 + d] if n >= 2 * more.shape[1] and rank == more.shape[1] else [1]


def _factors(level: Level, row: tuple[Process, ...], x: Array) -> tuple[Array, Array]:
    """Return the factors of the level below at points x and their variances, (N, m) each."""
    linear = functions("linear", x)
    pairs = list(zip(row, level.terms, strict=True))
    value = [linear[:, :count] @ process.coefficient[:count] for process, count in pairs]
    error = [
        process.hyper.variance * ((linear[:, :count] @ process.root[:count]) ** 2).sum(axis=1)
        for process, count in pairs
    ]
    return np.column_stack(value), np.column_stack(error)


def _means(
    trend: str, levels: tuple[Level, ...], processes: tuple[tuple[Process, ...], ...], x: Array
) -> Array | None:
    mean = None
    for level, row in zip(levels, processes, strict=True):
        bases = _bases(trend, x, mean, level.terms)
        mean = np.column_stack([process.mean(x, basis) for process, basis in zip(row, bases, strict=True)])
    return mean


def _predicted(
    trend: str, levels: tuple[Level, ...], processes: tuple[tuple[Process, ...], ...], x: Array
) -> Gauss:
    mean = var = None
    for level, row in zip(levels, processes, strict=True):
        bases = _bases(trend, x, mean, level.terms)
        own = [process.predict(x, basis) for process, basis in zip(row, bases, strict=True)]
        value, error = _factors(level, row, x)
        carried = 0.0 if var is None else (value**2 + error) * var
        mean, var = np.column_stack([m for m, _ in own]), np.column_stack([v for _, v in own]) + carried
    assert mean is not None and var is not None
    return Gauss(mean, var)
