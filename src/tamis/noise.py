"""Error models: what may lie between a measurement and the model's answer.

Every model here is Gaussian with zero mean. It says what it adds to the covariance of one test, as a diagonal
(`variances`) or as errors that fade along the abscissa (`colours`); the density is written once, in `loglike`.
The error of a surrogate is common to all replicates of a test while the noise is new in each, so with r
replicates of noise covariance S and surrogate covariance K

    log p(y_1 .. y_r) = log N(ybar; mean, K + S/r) - (m/2) log r + sum over r - 1 contrasts of log N(0, S);

r = 1 is the usual case, where only the first term is left.

The error of an emulated signal runs along k modes, so that K = diag(var) + modes' weight modes. No m by m matrix is
needed for it: dividing the noise out of the residual and out of the modes leaves a problem of k unknowns. White noise
is divided out instant by instant; an error that fades exponentially, by a filter along the abscissa. Only several
fading errors at once take full matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from tamis.errors import StudyError
from tamis.types import Array, Gauss, Generator

Theta = Mapping[str, Array]
Colour = tuple[Array, Array]  # variance and length of an exponentially fading error
Density = Callable[[Array, float, float], Array]
_CHUNK = 200_000  # numbers of a stack of matrices held at once
_KEPT = 1e-8  # of a number that must be left after subtractions: half of its digits


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

    def draw(self, mean: Array, theta: Theta, coord: Array | None, rng: Generator) -> Array:
        """Model answers (n, m) plus one error each."""

    def error_variance(self, mean: Array, theta: Theta, coord: Array | None) -> Array:
        """Variance of the error at each model answer, (n, m)."""


class _Gaussian:
    """A zero-mean Gaussian error known by its covariance; subclasses say what they add to it."""

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

    def loglike(self, y: Array, model: Gauss, theta: Theta, coord: Array | None) -> Array:
        """Log density of measurements (r, m) under n model answers."""
        y = np.atleast_2d(np.asarray(y, dtype=float))
        there = np.isfinite(y)
        keep = there.any(axis=0)
        if not there[:, keep].all():
            raise StudyError("a value missing in one replicate must be missing in all")
        white = np.broadcast_to(self.variances(y.mean(axis=0), model.mean, theta), model.mean.shape)
        y, mean, var, white = y[:, keep], model.mean[:, keep], model.var[:, keep], white[:, keep]
        colours = self.colours(theta)
        if not colours and model.modes is None:
            return _diagonal(y, mean, white, var)
        at = _abscissa(coord)[keep] if colours else np.zeros(y.shape[1])
        modes = np.empty((0, len(at))) if model.modes is None else model.modes[:, keep]
        weight = np.empty((len(mean), 0)) if model.weight is None else model.weight
        density = _dense if len(colours) > 1 else _low_rank

        def shared(residual: Array, share: float, own: float) -> Array:
            parts = tuple((share * variance, length) for variance, length in colours)
            along, size = (modes, own * weight) if own else (modes[:0], weight[:, :0])
            return density(residual, at, parts, share * white + own * var, along, size)

        return _replicated(y, mean, shared)

    def draw(self, mean: Array, theta: Theta, coord: Array | None, rng: Generator) -> Array:
        """Model answers (n, m) plus one error each."""
        white = np.broadcast_to(self.variances(None, mean, theta), mean.shape)
        drawn: Array = mean + np.sqrt(white) * rng.standard_normal(mean.shape)
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
        return drawn

    def error_variance(self, mean: Array, theta: Theta, coord: Array | None) -> Array:
        """Variance of the error at each model answer, (n, m)."""
        total = np.broadcast_to(self.variances(None, mean, theta), mean.shape)
        return np.asarray(total + sum(variance for variance, _ in self.colours(theta)))


def _abscissa(coord: Array | None) -> Array:
    if coord is None:
        raise StudyError("correlated noise needs an abscissa; this observation has none")
    return coord


def _diagonal(y: Array, mean: Array, white: Array, var: Array) -> Array:
    r = len(y)
    average = y.mean(axis=0)
    common = white + r * var
    with np.errstate(divide="ignore", invalid="ignore"):
        total = np.log(common) + r * (average - mean) ** 2 / common
        if r > 1:
            total = total + (r - 1) * np.log(white) + ((y - average) ** 2).sum(axis=0) / white
        answer = -0.5 * (total + r * math.log(2 * math.pi)).sum(axis=1)
    return np.where(np.isnan(answer), -np.inf, answer)


def _replicated(y: Array, mean: Array, density: Density) -> Array:
    """Apply the formula at the head of this file; ``density(residual, share, own)`` is log N(0, share S + own K)."""
    r, m = y.shape
    total = density(y.mean(axis=0) - mean, 1 / r, 1.0)
    for i in range(1, r):  # orthonormal contrasts between replicates: independent of their mean, covariance S
        contrast = (y[:i].sum(axis=0) - i * y[i]) / math.sqrt(i * (i + 1))
        total = total + density(np.broadcast_to(contrast, mean.shape), 1.0, 0.0)
    total = total - 0.5 * m * math.log(r)
    return np.where(np.isnan(total), -np.inf, total)


def _low_rank(
    residual: Array, at: Array, colours: tuple[Colour, ...], diagonal: Array, modes: Array, weight: Array
) -> Array:
    """Log density with the covariance of the noise plus modes' weight modes, by k by k matrices (Woodbury 1950).

    Whitening divides the noise out of the residual, which becomes z, and out of the weighted modes, which become the
    columns of A. Then z has covariance 1 + AA', whose determinant is that of C = 1 + A'A, and its square is the least
    of |z - A w|^2 + |w|^2 over w, at w = C^-1 A'z. Nothing cancels in it, as does z'z - z'A C^-1 A'z where the modes
    explain all but a millionth of the residual.
    """
    (n, m), k = residual.shape, len(modes)
    answer = np.empty(n)
    rows = max(1, _CHUNK // (m * (k + 1)))
    for start in range(0, n, rows):
        part = slice(start, min(start + rows, n))
        stack = np.empty((len(residual[part]), k + 1, m))
        np.multiply(modes, np.sqrt(weight[part])[:, :, None], out=stack[:, :k])
        stack[:, k] = residual[part]
        with np.errstate(all="ignore"):
            if colours:
                variance, length = (np.broadcast_to(c, (n, 1))[part, 0] for c in colours[0])
                logdet = _filter(stack, at, variance, length, diagonal[part])
            else:
                logdet = _divide(stack, diagonal[part])
            square, more = _ridge(stack) if k else (np.sum(stack[:, 0] ** 2, axis=1), 0.0)
        answer[part] = -0.5 * (square + logdet + more + m * math.log(2 * math.pi))
    return answer


def _divide(stack: Array, variance: Array) -> Array:
    """Whiten the rows (n, k + 1, m) in place, the noise being independent; return the log of its determinant."""
    variance = np.where(variance > 0, variance, np.nan)
    stack *= 1 / np.sqrt(variance)[:, None]
    return np.asarray(np.log(variance).sum(axis=1))


def _filter(stack: Array, at: Array, variance: Array, length: Array, diagonal: Array) -> Array:
    """Whiten as `_divide` does, the noise being an exponentially fading error plus an independent one.

    Such an error is a Markov process along the abscissa (Ornstein & Uhlenbeck), so that the filter of Kalman (1960)
    predicts each instant from those before: m steps, each over all points and rows at once, instead of
    n factorisations of m by m. What it misses, in units of its standard deviation, is white.
    """
    order = np.argsort(at, kind="stable")
    centre, spread = np.zeros(stack.shape[:2]), variance
    logdet = np.zeros(len(stack))
    for k, j in enumerate(order):
        if k:
            fade = np.exp(-(at[j] - at[order[k - 1]]) / length)
            centre, spread = fade[:, None] * centre, fade**2 * spread + variance * (1 - fade**2)
        predicted = spread + diagonal[:, j]
        predicted = np.where(predicted > 0, predicted, np.nan)
        miss = stack[:, :, j] - centre
        stack[:, :, j] = miss / np.sqrt(predicted)[:, None]
        logdet += np.log(predicted)
        gain = spread / predicted
        centre, spread = centre + gain[:, None] * miss, spread - gain * spread
    return logdet


def _ridge(stack: Array) -> tuple[Array, Array]:
    """Return the square and the log determinant of `_low_rank`; the rows (n, k + 1, m) are A' and z.

    Cholesky's factor of C is fast, but C has the squares of A. Where a pivot keeps less than `_KEPT` of its number,
    or there is no factor, both are read off the triangular factor of A over 1 bordered by z over 0.
    """
    k = stack.shape[1] - 1
    inner = stack @ stack[:, :k].swapaxes(1, 2)  # A'A over z'A
    matrix = inner[:, :k] + np.eye(k)
    factor = _cholesky(matrix)
    pivot = np.diagonal(factor, axis1=1, axis2=2) ** 2
    fine = np.min(pivot / np.diagonal(matrix, axis1=1, axis2=2), axis=1) > _KEPT
    w = _substitute(factor, inner[:, k])
    miss = stack[:, k] - (w[:, None] @ stack[:, :k])[:, 0]
    square = np.sum(miss**2, axis=1) + np.sum(w**2, axis=1)
    logdet = np.log(pivot).sum(axis=1)
    if not fine.all():
        hard = stack[~fine].swapaxes(1, 2)
        under = np.broadcast_to(np.eye(k, k + 1), (len(hard), k, k + 1))
        triangle = np.asarray(np.linalg.qr(np.concatenate([hard, under], axis=1), mode="r"))
        pivot = np.diagonal(triangle, axis1=1, axis2=2) ** 2
        square[~fine], logdet[~fine] = pivot[:, k], np.log(pivot[:, :k]).sum(axis=1)
    return square, logdet


def _dense(
    residual: Array, at: Array, colours: tuple[Colour, ...], diagonal: Array, modes: Array, weight: Array
) -> Array:
    """Log density as in `_low_rank`, with full covariance matrices, a stack of them at a time."""
    n, m = residual.shape
    distance = np.abs(at[:, None] - at[None, :])
    answer = np.empty(n)
    rows = max(1, _CHUNK // (m * m))
    for start in range(0, n, rows):
        part = slice(start, min(start + rows, n))
        covariance = diagonal[part, :, None] * np.eye(m) + (modes.T * weight[part, None, :]) @ modes
        for variance, length in colours:
            v, scale = (np.broadcast_to(c, (n, 1))[part, :, None] for c in (variance, length))
            covariance = covariance + v * np.exp(-distance / scale)
        factor = _cholesky(covariance)
        white = np.linalg.solve(factor, residual[part, :, None])[:, :, 0]
        logdet = 2.0 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        answer[part] = -0.5 * ((white**2).sum(axis=1) + logdet + m * math.log(2 * math.pi))
    return answer


def _cholesky(stack: Array) -> Array:
    """Return the lower factors of a stack of matrices; NaN for those that are not positive definite."""
    try:
        return np.asarray(np.linalg.cholesky(stack), dtype=np.float64)
    except np.linalg.LinAlgError:
        if len(stack) == 1:
            return np.full_like(stack, np.nan)
        half = len(stack) // 2
        return np.concatenate([_cholesky(stack[:half]), _cholesky(stack[half:])])


def _substitute(factor: Array, right: Array) -> Array:
    """Solve L L' w = right (n, k), a row of all n at a time: NumPy would factorise L L' again."""
    w, k = right.copy(), right.shape[1]
    for i in range(k):
        w[:, i] -= np.einsum("nj,nj->n", factor[:, i, :i], w[:, :i])
        w[:, i] /= factor[:, i, i]
    for i in reversed(range(k)):
        w[:, i] -= np.einsum("nj,nj->n", factor[:, i + 1 :, i], w[:, i + 1 :])
        w[:, i] /= factor[:, i, i]
    return w


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


@dataclass(frozen=True)
class Sum(_Gaussian):
    """Several independent sources of error at once."""

    parts: tuple[_Gaussian, ...]

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


def check_noise(noise: Noise, theta: Theta, coord: Array | None = None, m: int = 4) -> None:
    """Assert the contract of an error model: it reads what it says, and its draws have the density it claims.

    For errors drawn from the model itself, minus twice the log density less its constant is a chi-square with
    m degrees of freedom.
    """
    n = len(next(iter(theta.values()))) if theta else 20_000
    rng = np.random.default_rng(0)
    mean = np.broadcast_to(np.linspace(1.0, 2.0, m), (n, m))
    drawn = noise.draw(mean, theta, coord, rng)
    missing = {name: value for name, value in theta.items() if name not in noise.reads}
    assert not missing, f"reads {noise.reads} but was given {sorted(missing)}"
    assert drawn.shape == (n, m)
    one = {name: value[:1] for name, value in theta.items()}
    zero = Gauss(mean[:1], np.zeros((1, m)))
    peak = noise.loglike(mean[:1], zero, one, coord)[0]
    same = np.array([noise.loglike(y[None], zero, one, coord)[0] for y in drawn[:2000]])
    distance = 2.0 * (peak - same)
    # mean of 2000 chi-squares with m degrees of freedom: m, standard error sqrt(2 m / 2000); five of them
    assert abs(distance.mean() - m) < 5 * math.sqrt(2 * m / 2000), (
        f"draws and density disagree: {distance.mean()} for {m}"
    )
