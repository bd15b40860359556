"""Kriging: a smooth random function of the parameters, conditioned on the runs.

Why this surrogate: it interpolates where runs are exact and smooths where they are not, its error bar grows away
from the runs, and its random functions can stand in for the simulator in a sampler. It is the choice for
responses that bend too much for polynomials, for noisy ones such as a log-likelihood, and for few runs.

Inputs lie in the unit cube. Where the prior is unbounded, the cube's edges are its tails, infinitely far
away, and a response that is smooth in x is not smooth in u; such inputs are taken back to standard normal ones
(divided by the square root of 12, so that all inputs have the same spread and one pair of bounds for the
lengths serves them all). So it is, nearly, where a bounded law thins out at its ends: cut normal, beta and triangular
inputs have the coordinate of their law. (The borehole function of a radius cut at three standard deviations, 64 runs:
the error falls from 3e-3 to 1e-6 of the variance, and is no longer reported at a third.)

Noise is what runs at one point differ by, or what a smooth function cannot follow. Either way a run that was not made
will differ from the smooth function by it, so it is part of the surrogate's error; whoever looks for the smooth
function behind noisy runs leaves it out (``of_runs``). A process that predicts runs worse than their mean is not
used: its output becomes that mean, of variance zero, with the runs' variance as noise, and its Q2 is at most zero. (Not
so for the function behind the runs: that it is flat is more than a failure to predict it tells.) How its errors are
judged is described in `tamis.surrogates.honesty`.

Each output has its own lengths, variance and noise: two observed numbers seldom depend on the same parameters,
and a common length would suit neither. Inputs, trend and starts of the search are shared. Long signals are
better reduced to a few principal components first.

Only runs and estimates are stored; factorisations are made again on loading, from the same numbers by the
same operations.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from tamis.blas import one_thread
from tamis.errors import StudyError, TamisWarning, nearest
from tamis.files import save_arrays
from tamis.marginals import Marginal
from tamis.surrogates.base import Score, distinct, judged, read, score
from tamis.surrogates.covariances import check_kernel
from tamis.surrogates.honesty import away_from_runs, distance_factor, refitted
from tamis.surrogates.polynomials import HERMITE, LEGENDRE, Family, family, recurrence, standard
from tamis.surrogates.process import Functions, Hyper, Process, condition, estimate
from tamis.surrogates.replicates import apart
from tamis.surrogates.tails import Tail, over_law, second_story, taken_in
from tamis.types import Array, Gauss, Generator, Indices, Mask

Trend = Literal["constant", "linear", "quadratic"]
_BEYOND, _MATTERS = 0.67, 0.01  # share of an error that is guessed, and error over the variance, to warn of
_TOLD = 10  # points from which on a process is compared with the mean, and with another story


@dataclass(frozen=True)
class Kriging:
    """Universal Kriging of several outputs."""

    kernel: str
    trend: str
    families: tuple[Family, ...]  # of the inputs' coordinates
    u: Array  # (n, d)
    y: Array  # (n, m)
    length: Array  # (m, d)
    variance: Array  # (m,)
    noise: Array  # (n, m), variances
    optimism: Array  # (m,), by how much left-out errors are too small for lengths fitted to the same runs
    tails: Array  # (m, 5 + d), the second story of each output; (m, 0) where all inputs are bounded
    of_runs: bool = True  # predict another run, its noise included, instead of the mean of many

    @cached_property
    def processes(self) -> tuple[Process, ...]:
        """One process an output, in coordinates `coordinates`."""
        x = coordinates(self.u, self.families)
        basis = functions(self.trend, x)
        return tuple(
            condition(self.kernel, x, basis, self.y[:, j], Hyper(self.length[j], float(v), self.noise[:, j]))
            for j, v in enumerate(self.variance)
        )

    @cached_property
    def _tails(self) -> tuple[Tail | None, ...]:
        x = coordinates(self.u, self.families)
        basis = functions(self.trend, x)
        return tuple(
            taken_in(self.kernel, x, basis, self.y[:, j], told, float(self.noise[:, j].mean()))
            for j, told in enumerate(self.tails)
        )

    @cached_property
    def _larger(self) -> Array:
        """By how much squared errors are larger than the processes expect, (m,)."""
        return np.asarray(self.optimism * [process.surprise for process in self.processes])

    @cached_property
    def score(self) -> Score:
        """Each run against the prediction without its point, made the error of a run anywhere."""
        mse = self.of_left_out + self.of_tails
        residuals = np.column_stack([process.residuals for process in self.processes])
        size = np.sqrt(mse / np.maximum(np.mean(residuals**2, axis=0), 1e-300))
        enough = judged(len(distinct(self.u)[0]), self.u.shape[1])
        return score(self.y, size * residuals, enough)

    @cached_property
    def of_left_out(self) -> Array:
        """Mean squared errors that runs left out tell of, (m,), for the share in which they are believed."""
        x = coordinates(away_from_runs(self.u.shape[1]), self.families)
        basis = functions(self.trend, x)
        told = [np.mean(p.residuals**2) * distance_factor(p, x, basis) for p in self.processes]
        return np.asarray(self.optimism * told * [1 - (tail.share if tail else 0.0) for tail in self._tails])

    @cached_property
    def of_tails(self) -> Array:
        """Mean squared errors beyond the runs as the second story has them, (m,), for its share."""
        answer = np.zeros(len(self.processes))
        if any(self._tails):
            u, weight = over_law(unbounded(self.families))
            x = coordinates(u, self.families)
            basis = functions(self.trend, x)
            for j, (process, tail) in enumerate(zip(self.processes, self._tails, strict=True)):
                if tail:
                    expected = tail.expected(x, basis, process.mean(x, basis))
                    answer[j] = tail.share * np.mean(weight * expected)
        return answer

    @one_thread
    def predict(self, u: Array) -> Gauss:
        """Return means and variances, (N, m) each: of another run's outputs, or of the function behind them.

        The former are widened where runs left out miss by more than the processes expect, the latter are the processes'
        own, as trajectories have them.
        """
        x = coordinates(checked(u, self.families), self.families)
        basis = functions(self.trend, x)
        mean, var = zip(*(process.predict(x, basis) for process in self.processes), strict=True)
        if not self.of_runs:
            return Gauss(np.column_stack(mean), np.column_stack(var))
        expected = (np.column_stack(var) + self.noise.mean(axis=0)) * np.maximum(self._larger, 1.0)
        for j, tail in enumerate(self._tails):
            if tail:
                beyond = tail.expected(x, basis, mean[j])
                expected[:, j] += tail.share * (beyond - expected[:, j])
        return Gauss(np.column_stack(mean), expected)

    @one_thread
    def mean(self, u: Array) -> Array:
        """Return the means alone, (N, m), at a fraction of the cost."""
        x = coordinates(checked(u, self.families), self.families)
        basis = functions(self.trend, x)
        return np.column_stack([process.mean(x, basis) for process in self.processes])

    def outputs(self, columns: Indices) -> Kriging:
        """Return the model of some of the outputs."""
        rows = {name: getattr(self, name)[columns] for name in ("length", "variance", "optimism", "tails")}
        return replace(self, y=self.y[:, columns], noise=self.noise[:, columns], **rows)

    def rise(self, u: Array, top: Array) -> tuple[Array, Array]:
        """Return mean and variance of the output at points u (N, d) less that at one point (d,), (N,) each."""
        x = coordinates(checked(np.vstack([top, u]), self.families), self.families)
        mean, var = single_output(self.processes).rise(x, functions(self.trend, x))
        return mean[1:], var[1:]

    def draw(self, n: int, rng: Generator, at: Array) -> Trajectories:
        """Draw n fixed functions given the runs and values simulated at some points.

        Away from runs and points they return to the mean: give points where it matters.
        """
        process = single_output(self.processes)
        x = coordinates(checked(at, self.families), self.families)
        return Trajectories(self.trend, self.families, process.draw(n, rng, x, functions(self.trend, x)))

    def arrays(self) -> dict[str, Any]:
        """Return runs and estimates as arrays, for a file."""
        return {name: np.asarray(getattr(self, name)) for name in self.__dataclass_fields__}

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> Kriging:
        """Make it again from what `arrays` returned."""
        m = len(arrays["variance"])
        parts: dict[str, Any] = {
            "optimism": np.ones(m),
            "tails": np.empty((m, 0)),
        }  # files from before they were
        parts |= {name: arrays[name] for name in cls.__dataclass_fields__ if name in arrays}
        parts["families"] = families_of(arrays)
        kernel, trend, of_runs = str(parts.pop("kernel")), str(parts.pop("trend")), bool(parts.pop("of_runs"))
        return cls(kernel, trend, **parts, of_runs=of_runs)

    def save(self, path: Path) -> None:
        """Write runs and estimates."""
        save_arrays(path, self.arrays())

    @classmethod
    def load(cls, path: Path) -> Kriging:
        """Read what `save` wrote."""
        return read(path, cls.of, "Kriging model")


@dataclass(frozen=True)
class Trajectories:
    """Fixed functions of the unit cube drawn of a Kriging model, n of them."""

    trend: str
    families: tuple[Family, ...]
    functions: Functions

    def __call__(self, u: Array) -> Array:
        """Return every function at points (N, d), (n, N)."""
        x = coordinates(checked(u, self.families), self.families)
        return self.functions(x, functions(self.trend, x))

    def each(self, u: Array) -> Array:
        """Return the i-th function at the i-th of n equal blocks of points, (N,)."""
        x = coordinates(checked(u, self.families), self.families)
        return self.functions.each(x, functions(self.trend, x))


@one_thread
def fit_kriging(
    u: Array,
    y: Array,
    *,
    marginals: Sequence[Marginal] | None = None,
    kernel: str = "matern52",
    trend: str = "constant",
    nugget: float | Array | None = None,
    of_runs: bool = True,
    rng: Generator,
) -> Kriging:
    """Fit to runs at points u (n, d) of the unit cube with outputs y (n,) or (n, m).

    ``nugget`` is the variance of the runs' noise in units of y squared: estimated for each output if None, one
    number, one per run (n,), or anything that broadcasts to (n, m). Repeated rows of u are replicates.
    Variances predicted are of another run, or, unless ``of_runs``, of the smooth function behind noisy ones.
    """
    check_kernel(kernel)
    u, y, families = checked_runs(u, y, marginals)
    x = coordinates(u, families)
    basis = functions(trend, x)
    check_trend(basis, trend)
    noise = None if nugget is None else checked_noise(u, y, nugget)
    seed = int(rng.integers(2**63))
    found, beyond = [], []
    for j in range(y.shape[1]):
        given = None if noise is None else noise[:, j]
        found.append(estimate(kernel, x, basis, y[:, j], given, np.random.default_rng(seed)))
        beyond.append(refitted(kernel, x, basis, y[:, j], given))
    fitted = Kriging(
        kernel,
        trend,
        families,
        u,
        y,
        np.array([hyper.length for hyper in found]),
        np.array([hyper.variance for hyper in found]),
        np.column_stack([hyper.noise for hyper in found]),
        np.array([ratio for ratio, _ in beyond]),
        np.empty((y.shape[1], 0)),
        of_runs,
    )
    useless = (fitted.score.q2 <= 0) | [worse for _, worse in beyond]
    points = len(distinct(u)[0])
    if of_runs and useless.any() and points >= _TOLD:
        fitted = replace(
            fitted,
            variance=np.where(useless, 0.0, fitted.variance),
            noise=np.where(useless, y.var(axis=0), fitted.noise),
            optimism=np.where(useless, 1.0, fitted.optimism),
        )
    if not (of_runs and unbounded(families).any() and points >= _TOLD and judged(points, u.shape[1])):
        return fitted
    told = [second_story(kernel, x, basis, y[:, j], p.hyper) for j, p in enumerate(fitted.processes)]
    fitted = replace(fitted, tails=np.array(told))
    _warn_of_tails(fitted)
    return fitted


def _warn_of_tails(fitted: Kriging) -> None:
    whole = fitted.score.rmse**2
    far = (fitted.of_tails > _BEYOND * whole) & (whole > _MATTERS * fitted.y.var(axis=0))
    if far.any():
        names = ", ".join(str(j + 1) for j in np.flatnonzero(far))
        text = (
            f"Kriging of output {names} (of {len(far)}): most of its error lies in the tails of the inputs, where "
            "there are no runs, and is a guess from another model of the same runs. Runs there, or an output that "
            "varies less, such as its logarithm, would tell."
        )
        warnings.warn(text, TamisWarning, stacklevel=3)


def coordinates(u: Array, families: tuple[Family, ...]) -> Array:
    """Return the points in the coordinates where the process is stationary: centred, of equal spread."""
    x = u - 0.5
    for i, law in enumerate(families):
        if law.kind != LEGENDRE:
            alpha, beta = recurrence(law, 1)
            x[:, i] = (standard(u[:, i], law) - alpha[0]) / np.sqrt(12 * beta[1])
    return x


def unbounded(families: tuple[Family, ...]) -> Mask:
    """Mark the inputs that have tails."""
    return np.array([law.unbounded for law in families], dtype=bool)


def families_of(arrays: Mapping[str, Any]) -> tuple[Family, ...]:
    """Return the families that a file holds; one from before there were any says which are normal."""
    if "families" in arrays:
        return tuple(Family(int(kind), float(a), float(b)) for kind, a, b in arrays["families"])
    return tuple(Family(HERMITE if normal else LEGENDRE) for normal in arrays["normal"])


def functions(trend: str, x: Array) -> Array:
    """Return the trend's functions at points x, (n, p)."""
    if trend not in get_args(Trend):
        raise StudyError(f'no trend "{trend}"{nearest(trend, get_args(Trend))}')
    columns = [np.ones((len(x), 1))]
    if trend != "constant":
        columns.append(x)
    if trend == "quadratic":
        i, j = np.triu_indices(x.shape[1])
        columns.append(x[:, i] * x[:, j])
    return np.hstack(columns)


def single_output(processes: tuple[Process, ...]) -> Process:
    """Return the process of a surrogate of one output."""
    if len(processes) != 1:
        raise StudyError(f"trajectories are drawn of one output; this surrogate has {len(processes)}")
    return processes[0]


def checked(u: Array, families: tuple[Family, ...]) -> Array:
    """Refuse points of another dimension."""
    u = np.asarray(u, dtype=float)
    if u.ndim != 2 or u.shape[1] != len(families):
        raise ValueError(f"expected points of shape (n, {len(families)}), found {u.shape}")
    return u


def checked_runs(
    u: Array, y: Array, marginals: Sequence[Marginal] | None
) -> tuple[Array, Array, tuple[Family, ...]]:
    """Return points (n, d), outputs (n, m) and the families of the inputs."""
    u, y = np.array(u, dtype=float), np.array(y, dtype=float)
    y = y[:, None] if y.ndim == 1 else y
    if u.ndim != 2 or y.ndim != 2 or len(u) != len(y) or not u.shape[1] or not y.shape[1]:
        raise StudyError(f"Kriging needs points (n, d) and outputs (n, m); found {u.shape} and {y.shape}")
    bad = np.flatnonzero(~(np.isfinite(u).all(axis=1) & np.isfinite(y).all(axis=1)))
    if len(bad):
        raise StudyError(f"run {bad[0]} ({len(bad)} in all) is not finite; leave failed runs out of the fit")
    if u.min(initial=0.5) < 0 or u.max(initial=0.5) > 1:
        raise StudyError("Kriging takes points of the unit cube; use Space.to_unit")
    if marginals is None:
        return u, y, (Family(),) * u.shape[1]
    if len(marginals) != u.shape[1]:
        raise StudyError(f"found {len(marginals)} marginals for {u.shape[1]} inputs; give one per input")
    ends = np.array([np.ravel(marginal.ppf(np.array([0.0, 1.0]))) for marginal in marginals])
    bounded = np.isfinite(ends).all(axis=1)
    laws = [
        family(law) if inside else Family(HERMITE) for law, inside in zip(marginals, bounded, strict=True)
    ]
    return u, y, tuple(laws)


def checked_noise(u: Array, y: Array, nugget: float | Array) -> Array:
    """Return the given variances of the runs' noise as (n, m); refuse contradictions."""
    noise = np.asarray(nugget, dtype=float)
    noise = noise[:, None] if noise.ndim == 1 else noise
    try:
        noise = np.array(np.broadcast_to(noise, y.shape))
    except ValueError:
        raise StudyError(
            f"the nugget must be one number or one per run ({len(y)}); found shape {np.shape(nugget)}"
        ) from None
    if not np.all(noise >= 0):
        raise StudyError("the nugget is a variance: it cannot be negative")
    order = np.lexsort(u.T)
    same = np.all(u[order[1:]] == u[order[:-1]], axis=1)
    first, second = order[:-1][same], order[1:][same]
    differ = apart(y[first], y[second], y)
    clash = np.flatnonzero((differ & (noise[first] + noise[second] == 0)).any(axis=1))
    if len(clash):
        i, j = sorted((int(first[clash[0]]), int(second[clash[0]])))
        raise StudyError(
            f"runs {i} and {j} are at the same point with different outputs, but the nugget is zero; "
            "leave the nugget out to have it estimated"
        )
    return noise


def check_trend(basis: Array, trend: str) -> None:
    """Refuse a trend that the runs cannot tell."""
    n, p = basis.shape
    if n <= p:
        raise StudyError(f"{n} runs cannot tell the {p} coefficients of a {trend} trend; {_remedy(trend)}")
    sizes = np.linalg.svd(basis / np.linalg.norm(basis, axis=0).clip(1e-300), compute_uv=False)
    if sizes[-1] <= 1e-10 * sizes[0]:
        raise StudyError(
            f"some inputs do not vary, or vary together, in the {n} runs, so that a {trend} trend "
            f"cannot tell them apart; {_remedy(trend)}"
        )


def _remedy(trend: str) -> str:
    return "add runs" if trend == "constant" else 'use trend = "constant" or add runs'
