"""Hierarchical Kriging: many cheap runs draw the shape, a few expensive ones put it in place.

Why recursive: the expensive simulator is taken to be a multiple of the cheap one's process plus a trend plus an
independent process of its own (Kennedy & O'Hagan 2000, 10.1093/biomet/87.1.1). Fitted level by level instead of all
at once, each step is ordinary Kriging whose trend has one more function, the mean of the level below (Han &
Goertz 2012, 10.2514/1.J051354; Le Gratiet & Garnier 2014, 10.1615/Int.J.UncertaintyQuantification.2014006914): the
factor between levels is one of the trend's coefficients, found by generalised least squares with its error, and
s levels cost the sum of their Krigings, not the cube of all runs. Where the expensive points are among the cheap ones
and runs are exact, the two are the same; where they are not, the mean of the level below stands for its value.

The factor is one number, or a linear function of the inputs (as Le Gratiet & Garnier allow) where that predicts
expensive runs held out better, lengths found again without them; it is tried only where there are three runs for each
coefficient. On Park's function (20 designs) it makes the error of 12 expensive runs larger by 70 %, of 16 by 7 %, that
of 20 smaller by 45 %.

The variance is that of the level's own process, error of the factor included, plus the second moment of the factor
times the variance of the level below (Le Gratiet & Garnier's recursion for the variance), widened as Kriging's is
where runs left out miss by more than that. A level whose lower mean is constant over the runs (such as a position
at time zero) has no factor to estimate and is Kriged alone.

A run is left out at all levels: where the cheap simulator was run at the same point, that run would not be there
either at a new point. Leaving out the expensive one only, an unrelated but exactly known cheap value explains more of a
few runs than it ever will between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from tamis.surrogates.honesty import away_from_runs, filled, held_out, refitted
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

_A_TERM = 3  # runs for each coefficient, below which a factor that varies is not tried
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
    optimism: Array  # (m,), by how much left-out errors are too small for lengths fitted to the same runs
    of_runs: bool = True  # predict another run, its noise included, instead of the mean of many
    noise_given: bool = False  # instead of estimated, that of the highest level

    @cached_property
    def processes(self) -> tuple[tuple[Process, ...], ...]:
        """The processes of each level, one an output."""
        done: tuple[tuple[Process, ...], ...] = ()
        for level in self.levels:
            x = coordinates(level.u, self.families)
            done = (*done, _conditioned(self.kernel, x, level, self._bases(done, level.terms, x)))
        return done

    @cached_property
    def left_out(self) -> tuple[tuple[Array, Array], ...]:
        """Errors of runs of each level predicted without the runs of their point at this level and all below.

        With the variances that the processes expect of them, (n, m) each.
        """
        found: list[tuple[Array, Array]] = []
        for i, (level, row) in enumerate(zip(self.levels, self.processes, strict=True)):
            error = np.column_stack([process.residuals for process in row])
            spread = np.column_stack([process.spread for process in row])
            if i:
                x = coordinates(level.u, self.families)
                factor, _ = _factors(level, row, x)
                lower = self.levels[i - 1]
                mine, theirs = _shared(level.u, lower.u)
                mean = _means(self.trend, self.levels[:i], self.processes[:i], x)
                assert mean is not None
                without = lower.y[theirs] - found[i - 1][0][theirs]
                error[mine] += factor[mine] * (mean[mine] - without)
                spread[mine] += factor[mine] ** 2 * found[i - 1][1][theirs]
            found.append((error, spread))
        return tuple(found)

    @cached_property
    def score(self) -> Score:
        """Each run of the highest level against the prediction without its point, made the error of a run anywhere."""
        top = self.levels[-1]
        enough = judged(len(distinct(top.u)[0]), top.u.shape[1])
        x = coordinates(away_from_runs(top.u.shape[1]), self.families)
        expected = _predicted(self.trend, self.levels, self.processes, x).var.mean(axis=0)
        spread = self.left_out[-1][1].mean(axis=0)
        hole = [
            filled(*each)
            for each in zip(expected + top.noise.mean(axis=0), spread, self._surprise, strict=True)
        ]
        return score(top.y, self.left_out[-1][0] * np.sqrt(self.optimism * hole), enough)

    @cached_property
    def _surprise(self) -> Array:
        """Squared left-out errors over what the processes expect of them, (m,)."""
        error, spread = (np.mean(a, axis=0) for a in (self.left_out[-1][0] ** 2, self.left_out[-1][1]))
        return np.where(spread > 0, error / np.where(spread > 0, spread, 1.0), 1.0)

    @cached_property
    def _larger(self) -> Array:
        """By how much squared errors are larger than the processes expect, (m,)."""
        return self.optimism * self._surprise

    def unseen(self) -> list[Array]:
        """Return each output's functions at the runs of the highest level, (n, p), as they are at a point not run."""
        x = coordinates(self.levels[-1].u, self.families)
        lower = _means(self.trend, self.levels[:-1], self.processes[:-1], x)
        if lower is not None:
            mine, theirs = _shared(self.levels[-1].u, self.levels[-2].u)
            lower[mine] = self.levels[-2].y[theirs] - self.left_out[-2][0][theirs]
        return _bases(self.trend, x, lower, self.levels[-1].terms)

    def outputs(self, columns: Indices) -> MultiFidelity:
        """Return the model of some of the outputs."""
        levels = tuple(
            Level(
                a.u,
                a.y[:, columns],
                a.length[columns],
                a.variance[columns],
                a.noise[:, columns],
                a.terms[columns],
            )
            for a in self.levels
        )
        return replace(self, levels=levels, optimism=self.optimism[columns])

    def factors(self, u: Array) -> Array:
        """Return the factors between successive levels at points u, (levels - 1, N, m)."""
        x = coordinates(checked(u, self.families), self.families)
        pairs = zip(self.levels[1:], self.processes[1:], strict=True)
        return np.array([_factors(level, row, x)[0] for level, row in pairs])

    def predict(self, u: Array) -> Gauss:
        """Return means and variances at the highest level, (N, m) each: of another run, or of the function behind.

        As with Kriging the former are widened where runs left out miss by more than expected, the latter are the
        processes' own, as trajectories have them.
        """
        x = coordinates(checked(u, self.families), self.families)
        found = _predicted(self.trend, self.levels, self.processes, x)
        if not self.of_runs:
            return found
        return Gauss(
            found.mean, (found.var + self.levels[-1].noise.mean(axis=0)) * np.maximum(self._larger, 1.0)
        )

    def draw(self, n: int, rng: Generator, at: Array) -> Callable[[Array], Array]:
        """Draw n fixed functions of the highest level given all runs and values at some points; (N, d) -> (n, N).

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
        words = ("kernel", "trend", "families", "optimism", "of_runs", "noise_given")
        arrays = {name: np.asarray(getattr(self, name)) for name in words}
        for i, level in enumerate(self.levels):
            arrays |= {f"{name}_{i}": getattr(level, name) for name in _ARRAYS}
        return arrays

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> MultiFidelity:
        """Make it again from what `arrays` returned."""
        count = sum(name.startswith("terms_") for name in arrays)
        levels = tuple(Level(*(arrays[f"{name}_{i}"] for name in _ARRAYS)) for i in range(count))
        optimism = arrays.get("optimism", np.ones(len(arrays["variance_0"])))  # not in files from before
        words = str(arrays["kernel"]), str(arrays["trend"]), families_of(arrays)
        switches = bool(arrays.get("of_runs", True)), bool(arrays.get("noise_given", False))
        return cls(*words, levels, optimism, *switches)

    def save(self, path: Path) -> None:
        """Write runs and estimates."""
        save_arrays(path, self.arrays())

    @classmethod
    def load(cls, path: Path) -> MultiFidelity:
        """Read what `save` wrote."""
        return read(path, cls.of, "multi-fidelity model")

    def bases(self, level: int, x: Array) -> list[Array]:
        """Return each output's functions of one level's process at points in coordinates, (N, p)."""
        return self._bases(self.processes[:level], self.levels[level].terms, x)

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
        row, terms, optimism = [], [], []
        for j in range(y.shape[1]):
            known = None if noise is None else noise[:, j]
            counts = _possible(functions(trend, x), None if lower is None else lower[:, j], x)
            tried = [_bases(trend, x, lower, [count] * y.shape[1])[j] for count in counts]
            for basis in tried:
                check_trend(basis, trend)
            best = 0
            if len(counts) > 1:
                errors = [held_out(kernel, x, basis, basis, y[:, j], known) for basis in tried]
                best = int(np.argmin(np.nan_to_num([np.sum(e**2) for e in errors], nan=np.inf)))
            basis = tried[best]
            hyper = estimate(kernel, x, basis, y[:, j], known, np.random.default_rng(seed))
            terms.append(counts[best])
            row.append(condition(kernel, x, basis, y[:, j], hyper))
            optimism.append(
                refitted(kernel, x, basis, y[:, j], known)[0] if len(done) == len(levels) - 1 else 1.0
            )
        level = Level(
            u,
            y,
            np.array([process.hyper.length for process in row]),
            np.array([process.hyper.variance for process in row]),
            np.column_stack([process.hyper.noise for process in row]),
            np.array(terms),
        )
        done, processes = (*done, level), (*processes, tuple(row))
    return MultiFidelity(kernel, trend, families, done, np.array(optimism), noise_given=noise is not None)


def held_out_squares(model: MultiFidelity) -> tuple[Array, Array]:
    """Return mean squared errors of expensive runs held out, with the levels below and without them, (m,) each.

    A tenth of the points at a time, lengths found again, points held out at all levels. NaN where there are too few.
    """
    top = model.levels[-1]
    x = coordinates(top.u, model.families)
    plain = functions(model.trend, x)
    seen = model.bases(len(model.levels) - 1, x)
    found = []
    for j, (basis, unseen) in enumerate(zip(seen, model.unseen(), strict=True)):
        both = (basis, unseen), (plain, plain)
        noise = top.noise[:, j] if model.noise_given else None
        found.append([held_out(model.kernel, x, *pair, top.y[:, j], noise) for pair in both])
    squares = np.mean(np.square(found), axis=2)
    return squares[:, 0], squares[:, 1]


def _shared(u: Array, lower: Array) -> tuple[Indices, Indices]:
    """Return which points are also among those of another level, and where there: the first run at each."""
    known = {row.tobytes(): k for k, row in reversed(list(enumerate(lower)))}
    pairs = [(i, known[row.tobytes()]) for i, row in enumerate(u) if row.tobytes() in known]
    mine, theirs = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return mine, theirs


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
    return [1, 1 + d] if n >= _A_TERM * more.shape[1] and rank == more.shape[1] else [1]


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
