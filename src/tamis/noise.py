"""Error models: what may lie between a measurement and the model's answer.

Every model here is Gaussian. It says what it adds to the covariance of one test: a diagonal (`variances`), errors that
fade along the abscissa (`colours`), a full matrix (`matrices`), or a few shapes of random size (`shapes`); and its mean
(`bias`), which is zero but for `LowRank`. The density is written once, in `loglike`.

The error of a surrogate is common to all replicates of a test while the noise is new in each, so with r
replicates of noise covariance S and surrogate covariance K

    log p(y_1 .. y_r) = log N(ybar; mean, K + S/r) - (m/2) log r + sum over r - 1 contrasts of log N(0, S);

r = 1 is the usual case, where only the first term is left.

How such densities are computed is described in `tamis.gaussians`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from tamis.errors import StudyError
from tamis.gaussians import (
    Colour,
    Density,
    Matrix,
    Spread,
    Witness,
    between,
    independent,
    joint_log_density,
    log_density,
    replicated,
)
from tamis.types import Array, Gauss, Generator, Mask

Theta = Mapping[str, Array]
Shares = Callable[[float, float], Spread]  # of the noise, of the surrogate's own errors


class Noise(Protocol):
    """An error model of one observation."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the parameters it takes from the sample."""

    @property
    def white(self) -> bool:
        """Whether the errors of one test are independent of each other."""

    def loglike(self, y: Array, model: Gauss, theta: Theta, coord: Array | None) -> Array:
        """Log density of measurements (r, m) under n model answers, (n,).

        NaN measurements are missing data.
        """

    def witness(self, y: Array, model: Gauss, theta: Theta, coord: Array | None) -> Witness:
        """Return the same observation as one of several that share errors of a surrogate."""

    def draw(self, mean: Array, theta: Theta, coord: Array | None, rng: Generator) -> Array:
        """Model answers (n, m) plus one error each."""

    def bias(self, m: int) -> Array:
        """Mean of the errors of one test, (m,)."""

    def error_variance(self, mean: Array, theta: Theta, coord: Array | None) -> Array:
        """Variance of the error at each model answer, (n, m)."""


class _Gaussian:
    """A Gaussian error known by its covariance and mean; subclasses say what they add to them."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the parameters it takes from the sample."""
        return tuple(value for value in vars(self).values() if isinstance(value, str) and value not in _WORDS)

    @property
    def white(self) -> bool:
        """Whether the errors of one test are independent of each other."""
        return True

    def variances(self, y: Array | None, mean: Array, theta: Theta) -> Array:
        """Return the white part, broadcastable to (n, m).

        ``y`` is the measurements' average, if there are any.
        """
        return np.zeros((1, 1))

    def colours(self, theta: Theta) -> tuple[Colour, ...]:
        """Return the variance and the length, (n or 1, 1), of every part correlated along the abscissa."""
        return ()

    def matrices(self, theta: Theta) -> tuple[Matrix, ...]:
        """Return every full covariance (m, m) with the factor, (n or 1, 1), it is multiplied by."""
        return ()

    def shapes(self, m: int) -> Array:
        """Return the modes (k, m) that are added, each times a standard normal number of its own."""
        return np.empty((0, m))

    def bias(self, m: int) -> Array:
        """Mean of the errors of one test, (m,)."""
        return np.zeros(m)

    def loglike(self, y: Array, model: Gauss, theta: Theta, coord: Array | None) -> Array:
        """Log density of measurements (r, m) under n model answers."""
        if model.common is not None:
            return joint_log_density([self.witness(y, model, theta, coord)])
        y, mean, keep, spread = self._kept(y, model, theta, coord)
        alone = spread(1.0, 0.0)
        if keep.any() and (alone.colours or alone.matrices or len(alone.modes) or model.modes is not None):
            return replicated(y, mean, _density(spread))
        return independent(y, mean, alone.white, model.var[:, keep])

    def witness(self, y: Array, model: Gauss, theta: Theta, coord: Array | None) -> Witness:
        """Return the same observation as one of several that share errors of a surrogate."""
        y, mean, keep, spread = self._kept(y, model, theta, coord)
        common = np.empty((len(mean), 0, mean.shape[1])) if model.common is None else model.common[:, :, keep]
        rest = between(y, mean, _density(spread), np.zeros(len(mean)))
        return Witness(y.mean(axis=0) - mean, spread(1 / len(y), 1.0), common, rest)

    def _kept(
        self, y: Array, model: Gauss, theta: Theta, coord: Array | None
    ) -> tuple[Array, Array, Mask, Shares]:
        """Return measurements less bias, answers, where there are both, the covariance of shares of noise and error."""
        y, keep = _present(y)
        n, m = model.mean.shape
        white = np.broadcast_to(self.variances(y.mean(axis=0), model.mean, theta), (n, m))[:, keep]
        y, mean, var = (y - self.bias(m))[:, keep], model.mean[:, keep], model.var[:, keep]
        colours, modes = self.colours(theta), self.shapes(m)[:, keep]
        matrices = tuple((_of_size(c, m)[np.ix_(keep, keep)], factor) for c, factor in self.matrices(theta))
        at = _abscissa(coord)[keep] if colours else np.zeros(y.shape[1])
        along = np.empty((0, len(at))) if model.modes is None else model.modes[:, keep]
        weight = np.empty((n, 0)) if model.weight is None else model.weight

        def spread(share: float, own: float) -> Spread:
            rows, size = modes, np.full((n, len(modes)), share)
            if own:
                rows, size = np.vstack([modes, along]), np.hstack([size, own * weight])
            fading = tuple((share * variance, length) for variance, length in colours)
            full = tuple((matrix, share * factor) for matrix, factor in matrices)
            alone = white if share == 1 else share * white
            return Spread(alone + own * var if own else alone, at, fading, full, rows, size)

        return y, mean, keep, spread

    def draw(self, mean: Array, theta: Theta, coord: Array | None, rng: Generator) -> Array:
        """Model answers (n, m) plus one error each."""
        white = np.broadcast_to(self.variances(None, mean, theta), mean.shape)
        drawn: Array = mean + self.bias(mean.shape[1]) + np.sqrt(white) * rng.standard_normal(mean.shape)
        for variance, length in self.colours(theta):
            at = _abscissa(coord)
            order = np.argsort(at, kind="stable")
            fresh = np.sqrt(variance) * rng.standard_normal(mean.shape)
            kept = np.exp(-np.diff(at[order]) / length)  # (n or 1, m - 1)
            error = np.empty_like(mean)
            error[:, order[0]] = fresh[:, 0]
            for j in range(1, len(order)):
                a = kept[:, j - 1]
                error[:, order[j]] = a * error[:, order[j - 1]] + np.sqrt(1 - a**2) * fresh[:, j]
            drawn = drawn + error
        for matrix, factor in self.matrices(theta):
            values, vectors = np.linalg.eigh(_of_size(matrix, mean.shape[1]))
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            drawn = drawn + np.sqrt(factor) * (rng.standard_normal(mean.shape) @ root.T)
        modes = self.shapes(mean.shape[1])
        return drawn + rng.standard_normal((len(mean), len(modes))) @ modes

    def error_variance(self, mean: Array, theta: Theta, coord: Array | None) -> Array:
        """Variance of the error at each model answer, (n, m)."""
        total = np.broadcast_to(self.variances(None, mean, theta), mean.shape)
        total = total + sum(variance for variance, _ in self.colours(theta))
        total = total + sum(factor * np.diagonal(matrix) for matrix, factor in self.matrices(theta))
        return np.asarray(total + (self.shapes(mean.shape[1]) ** 2).sum(axis=0))


def _density(spread: Shares) -> Density:
    return lambda residual, share, own: log_density(residual, spread(share, own))


def _present(y: Array) -> tuple[Array, Mask]:
    """Return the measurements as rows, and which columns have them."""
    y = np.atleast_2d(np.asarray(y, dtype=float))
    there = np.isfinite(y)
    keep: Mask = np.asarray(there.any(axis=0))
    if not there[:, keep].all():
        raise StudyError("a value missing in one replicate must be missing in all")
    return y, keep


def _abscissa(coord: Array | None) -> Array:
    if coord is None:
        raise StudyError("correlated noise needs an abscissa; this observation has none")
    return coord


def _of_size(array: Array, m: int) -> Array:
    if array.shape[-1] != m:
        raise StudyError(f"the error model was made for {array.shape[-1]} measurements, found {m}")
    return array


def _number(value: float | str, theta: Theta) -> Array:
    return np.asarray(theta[value])[:, None] if isinstance(value, str) else np.array([[float(value)]])


def _variance(sd: float | str | None, variance: float | str | None, theta: Theta) -> Array:
    return _number(sd, theta) ** 2 if sd is not None else _number(variance or 0.0, theta)


def _one_of(kind: str, sd: object, variance: object) -> None:
    if (sd is None) == (variance is None):
        raise StudyError(f"{kind} noise needs either sd or variance, a number or the name of a parameter")


_WORDS = ("data", "model")


@dataclass(frozen=True)
class Known(_Gaussian):
    """Independent errors of known standard deviation, one number or one per measurement."""

    sd: tuple[float, ...] | float

    def variances(self, y: Array | None, mean: Array, theta: Theta) -> Array:
        """Return the squared standard deviations."""
        sd = np.atleast_1d(np.asarray(self.sd, dtype=float))
        if sd.size not in (1, mean.shape[1]):
            raise StudyError(
                f"known noise gives {sd.size} standard deviations for {mean.shape[1]} measurements"
            )
        return np.asarray(sd[None] ** 2)


@dataclass(frozen=True)
class Gaussian(_Gaussian):
    """Independent errors of one standard deviation (or variance), a number or the name of a parameter."""

    sd: float | str | None = None
    variance: float | str | None = None

    def __post_init__(self) -> None:
        _one_of("gaussian", self.sd, self.variance)

    def variances(self, y: Array | None, mean: Array, theta: Theta) -> Array:
        """Return the variance."""
        return _variance(self.sd, self.variance, theta)


@dataclass(frozen=True)
class Relative(_Gaussian):
    """Independent errors proportional to the measurement (``of="data"``) or to the model's answer.

    Where there is no measurement, as in a prediction, they are proportional to the model's answer.
    """

    sd: float | str | None = None
    variance: float | str | None = None
    of: Literal["data", "model"] = "data"

    def __post_init__(self) -> None:
        _one_of("relative", self.sd, self.variance)

    def variances(self, y: Array | None, mean: Array, theta: Theta) -> Array:
        """Return the relative variance times the squared magnitude."""
        size = mean if y is None or self.of == "model" else y[None]
        return np.asarray(_variance(self.sd, self.variance, theta) * size**2)


@dataclass(frozen=True)
class Correlated(_Gaussian):
    """Errors that fade exponentially along the abscissa.

    Sd^2 exp(-|s - t| / length), as a slow misfit does.
    """

    length: float | str
    sd: float | str | None = None
    variance: float | str | None = None

    def __post_init__(self) -> None:
        _one_of("correlated", self.sd, self.variance)

    @property
    def white(self) -> bool:
        """Whether the errors of one test are independent of each other: they are not."""
        return False

    def colours(self, theta: Theta) -> tuple[Colour, ...]:
        """Return its variance and length."""
        return ((_variance(self.sd, self.variance, theta), _number(self.length, theta)),)


class _Arrays(_Gaussian):
    """What errors that are given by arrays have in common: two of them are equal if their numbers are."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        return all(np.array_equal(value, vars(other)[name]) for name, value in vars(self).items())

    __hash__ = None  # type: ignore[assignment]

    @property
    def white(self) -> bool:
        """Whether the errors of one test are independent of each other: they are not."""
        return False


@dataclass(frozen=True, eq=False)
class Covariance(_Arrays):
    """Errors of known covariance (m, m), times a variance factor: a number or the name of a parameter."""

    matrix: Array | Sequence[Sequence[float]]
    scale: float | str = 1.0

    def __post_init__(self) -> None:
        matrix = np.array(self.matrix, dtype=float)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
            raise StudyError(f"expected a square covariance matrix of numbers, found shape {matrix.shape}")
        sd = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
        correlation = matrix / np.where(sd > 0, sd, 1.0) / np.where(sd > 0, sd, 1.0)[:, None]
        if not np.allclose(correlation, correlation.T, rtol=0, atol=1e-9):
            raise StudyError("expected a symmetric covariance matrix; [i, j] and [j, i] differ")
        least = np.linalg.eigvalsh(correlation).min(initial=0.0)
        if least < -1e-9 * len(matrix):  # what rounding of written numbers leaves of zero
            raise StudyError(
                f"no errors have this covariance: its correlations have the eigenvalue {least:.3g}, and none may be "
                "negative"
            )
        object.__setattr__(self, "matrix", matrix)

    def matrices(self, theta: Theta) -> tuple[Matrix, ...]:
        """Return the matrix and its factor."""
        return ((np.asarray(self.matrix), _number(self.scale, theta)),)


@dataclass(frozen=True, eq=False)
class LowRank(_Arrays):
    """Errors with a mean and k shapes of their own, plus independent ones: mean + xi @ modes + residual.

    Xi is standard normal: Lebel et al. 2019 (10.1016/j.jsv.2019.06.024), B.6, with the residual of probabilistic
    principal components (Tipping & Bishop 1999, 10.1111/1467-9868.00196); `tamis.identify` finds them. With
    ``residual`` zero the density is that of xi alone, their B.7: what lies outside the modes counts for nothing.
    """

    mean: Array | Sequence[float]  # (m,)
    modes: Array | Sequence[Sequence[float]]  # (k, m)
    residual: Array | Sequence[float] | float  # variance, one number or one per measurement
    alpha: float | None = None  # of B.9, where it was identified

    def __post_init__(self) -> None:
        mean, modes, residual = (np.array(a, dtype=float) for a in (self.mean, self.modes, self.residual))
        sizes = f"mean {mean.shape}, modes {modes.shape}, residual {residual.shape}"
        if mean.ndim != 1 or modes.shape[1:] != mean.shape or residual.shape not in ((), mean.shape):
            raise StudyError(
                f"expected a mean (m,), modes (k, m) and a residual variance () or (m,), found {sizes}"
            )
        if not all(np.isfinite(a).all() for a in (mean, modes, residual)):
            raise StudyError(f"expected numbers for a low-rank error, found NaN or infinity in {sizes}")
        if not ((residual > 0).all() or (residual == 0).all()):
            raise StudyError("expected residual variances above zero, or zero for all measurements")
        if not residual.any() and np.linalg.matrix_rank(modes) < max(1, len(modes)):
            raise StudyError(
                "without a residual the modes must be independent of each other, and at least one"
            )
        for name, value in (("mean", mean), ("modes", modes), ("residual", residual)):
            object.__setattr__(self, name, value)

    def variances(self, y: Array | None, mean: Array, theta: Theta) -> Array:
        """Return the residual variance."""
        return np.atleast_2d(self.residual)

    def shapes(self, m: int) -> Array:
        """Return the modes."""
        return _of_size(np.asarray(self.modes), m)

    def bias(self, m: int) -> Array:
        """Mean of the errors of one test, (m,)."""
        return _of_size(np.asarray(self.mean), m)

    def loglike(self, y: Array, model: Gauss, theta: Theta, coord: Array | None) -> Array:
        """Log density of measurements (r, m) under n model answers, or of their coefficients along the modes."""
        if np.any(self.residual):
            return super().loglike(y, model, theta, coord)
        return Known(1.0).loglike(*self._projected(y, model), {}, None)

    def witness(self, y: Array, model: Gauss, theta: Theta, coord: Array | None) -> Witness:
        """Return the same observation, or its coefficients along the modes, as one of several that share errors."""
        mine = (y, model, theta, coord) if np.any(self.residual) else (*self._projected(y, model), {}, None)
        return super().witness(*mine) if np.any(self.residual) else Known(1.0).witness(*mine)

    def _projected(self, y: Array, model: Gauss) -> tuple[Array, Gauss]:
        """Return what B.7 has the density of: xi = (error - mean) A+, a surrogate's errors projected as well."""
        y, keep = _present(y)
        m = y.shape[1]
        modes = self.shapes(m)[:, keep]
        if np.linalg.matrix_rank(modes) < len(modes):
            raise StudyError(
                f"{keep.sum()} measurements do not determine {len(modes)} modes; give a residual variance"
            )
        onto = np.linalg.pinv(modes)  # (m, k)
        parts = [(onto, model.var[:, keep])] if model.var.any() else []
        if model.modes is not None and model.weight is not None:
            parts.append((model.modes[:, keep] @ onto, model.weight))
        mean = model.mean[:, keep] @ onto
        known = Gauss(mean, np.zeros_like(mean))
        if parts:
            along, weight = zip(*parts, strict=True)
            known = known._replace(modes=np.vstack(along), weight=np.hstack(weight))
        if model.common is not None:
            known = known._replace(common=model.common[:, :, keep] @ onto)
        return (y - self.bias(m))[:, keep] @ onto, known


@dataclass(frozen=True)
class Sum(_Gaussian):
    """Several independent sources of error at once."""

    parts: tuple[_Gaussian, ...]

    def __post_init__(self) -> None:
        if self.parts and all(isinstance(p, LowRank) and not np.any(p.residual) for p in self.parts):
            raise StudyError(
                "a sum of low-rank errors without a residual has no density: nothing lies outside their modes. Give "
                "one of them a residual, add another source of error, or use a single one without a sum"
            )

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the parameters it takes from the sample."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.reads))

    @property
    def white(self) -> bool:
        """Whether the errors of one test are independent of each other."""
        return all(part.white for part in self.parts)

    def variances(self, y: Array | None, mean: Array, theta: Theta) -> Array:
        """Return the sum of the white parts."""
        return np.asarray(sum(part.variances(y, mean, theta) for part in self.parts))

    def colours(self, theta: Theta) -> tuple[Colour, ...]:
        """Return the correlated parts of all sources."""
        return tuple(colour for part in self.parts for colour in part.colours(theta))

    def matrices(self, theta: Theta) -> tuple[Matrix, ...]:
        """Return the full covariances of all sources."""
        return tuple(matrix for part in self.parts for matrix in part.matrices(theta))

    def shapes(self, m: int) -> Array:
        """Return the modes of all sources."""
        return np.vstack([part.shapes(m) for part in self.parts])

    def bias(self, m: int) -> Array:
        """Mean of the errors of one test, (m,): the sum of all."""
        return np.asarray(sum(part.bias(m) for part in self.parts))


def check_noise(
    noise: Noise, theta: Theta, coord: Array | None = None, m: int = 4, freedom: int | None = None
) -> None:
    """Assert the contract of an error model: it reads what it says, and its draws have the density it claims.

    For errors drawn from the model itself, minus twice the log density less its constant is a chi-square with
    m degrees of freedom, or with ``freedom`` of them where the density is that of so many coefficients.
    """
    n = len(next(iter(theta.values()))) if theta else 20_000
    rng = np.random.default_rng(0)
    mean = np.broadcast_to(np.linspace(1.0, 2.0, m), (n, m))
    drawn = noise.draw(mean, theta, coord, rng)
    missing = {name: value for name, value in theta.items() if name not in noise.reads}
    assert not missing, f"reads {noise.reads} but was given {sorted(missing)}"
    assert drawn.shape == (n, m)
    variance = noise.error_variance(mean, theta, coord)
    assert variance.shape == (n, m)
    # a mean and a variance of n normal numbers, six standard errors each
    error, centre = drawn - mean, noise.bias(m)
    assert np.allclose(error.mean(axis=0), centre, rtol=0, atol=6 * math.sqrt(variance.max() / n)), (
        f"draws have the mean {error.mean(axis=0)}, not {centre}"
    )
    assert np.allclose(error.var(axis=0), variance.mean(axis=0), rtol=6 * math.sqrt(2 / n)), (
        f"draws have the variance {error.var(axis=0)}, not {variance.mean(axis=0)}"
    )
    one = {name: value[:1] for name, value in theta.items()}
    zero = Gauss(mean[:1], np.zeros((1, m)))
    peak = noise.loglike(mean[:1] + centre, zero, one, coord)[0]
    same = np.array([noise.loglike(y[None], zero, one, coord)[0] for y in drawn[:2000]])
    distance = 2.0 * (peak - same)
    free = m if freedom is None else freedom
    # mean of 2000 chi-squares: their degrees of freedom, standard error sqrt(2 free / 2000); five of them
    assert abs(distance.mean() - free) < 5 * math.sqrt(2 * free / 2000), (
        f"draws and density disagree: {distance.mean()} for {free}"
    )
