"""Error models: what may lie between a measurement and the model's answer.

Every model here is Gaussian with zero mean. It says what it adds to the covariance of one test, as a diagonal
(`variances`) or as errors that fade along the abscissa (`colours`); the density is written once, in `loglike`.
The error of a surrogate is common to all replicates of a test while the noise is new in each, so with r
replicates of noise covariance S and surrogate covariance K

    log p(y_1 .. y_r) = log N(ybar; mean, K + S/r) - (m/2) log r + sum over r - 1 contrasts of log N(0, S);

r = 1 is the usual case, where only the first term is left.
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
_CHUNK = 2_000_000  # numbers of a stack of covariance matrices held at once


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
        if model.modes is None and len(colours) == 1:
            return _replicated(
                y, mean, lambda r, share, own: _markov(r, at, colours[0], share * white + own * var, share)
            )
        modes = np.empty((0, len(at))) if model.modes is None else model.modes[:, keep]
        weight = np.empty((len(mean), 0)) if model.weight is None else model.weight
        if not colours:
            return _replicated(
                y, mean, lambda r, share, own: _modal(r, share * white + own * var, modes, own * weight)
            )
        return _replicated(
            y, mean, lambda r, share, own: _dense(r, at, colours, white, var, modes, weight, share, own)
        )

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


def _markov(residual: Array, at: Array, colour: Colour, diagonal: Array, share: float) -> Array:
    """Log density of an exponentially fading error plus an independent one, by the filter of Kalman (1960).

    Such an error is a Markov process along the abscissa (Ornstein & Uhlenbeck), so the density is a product
    of one-step predictions: m steps, each over all n points at once, instead of n factorisations of m by m.
    """
    order = np.argsort(at, kind="stable")
    variance, length = share * colour[0][:, 0], colour[1][:, 0]
    centre, spread = np.zeros(len(residual)), np.broadcast_to(variance, len(residual))
    total = np.zeros(len(residual))
    with np.errstate(divide="ignore", invalid="ignore"):
        for k, j in enumerate(order):
            if k:
                fade = np.exp(-(at[j] - at[order[k - 1]]) / length)
                centre, spread = fade * centre, fade**2 * spread + variance * (1 - fade**2)
            predicted = spread + diagonal[:, j]
            miss = residual[:, j] - centre
            total -= 0.5 * (np.log(2 * math.pi * predicted) + miss**2 / predicted)
            gain = spread / predicted
            centre, spread = centre + gain * miss, spread - gain * spread
    return total


def _modal(residual: Array, diagonal: Array, modes: Array, weight: Array) -> Array:
    """Log density with covariance diag + modes' weight modes: k by k matrices instead of m by m (Woodbury 1950).

    With A = diag^-1/2 modes' weight^1/2 and z = diag^-1/2 residual, the determinant is that of diag times that of
    C = 1 + A'A, and the square of the residual is z'z - z'A C^-1 A'z. Both are read off the Cholesky factor of C
    bordered by A'z and 1 + z'z: its last pivot squared is that square plus one.
    """
    (n, m), k = residual.shape, len(modes)
    usable = np.min(diagonal, axis=1) > 0
    diagonal = np.where(usable[:, None], diagonal, 1.0)
    products = (modes[:, None] * modes[None]).reshape(k * k, m)
    answer = np.empty(n)
    rows = max(1, _CHUNK // max(m, (k + 1) ** 2))
    for start in range(0, n, rows):
        part = slice(start, min(start + rows, n))
        root = np.sqrt(weight[part])
        scaled = residual[part] / diagonal[part]
        bordered = np.zeros((len(scaled), k + 1, k + 1))  # its lower half is what counts
        bordered[:, :k, :k] = ((1 / diagonal[part]) @ products.T).reshape(-1, k, k)
        bordered[:, :k, :k] *= root[:, :, None] * root[:, None, :]
        bordered[:, k, :k] = (scaled @ modes.T) * root
        bordered[:, k, k] = np.einsum("nm,nm->n", scaled, residual[part])
        bordered += np.eye(k + 1)
        pivots = np.diagonal(np.linalg.cholesky(bordered), axis1=1, axis2=2)
        square = pivots[:, k] ** 2 - 1
        logdet = np.log(diagonal[part]).sum(axis=1) + 2 * np.log(pivots[:, :k]).sum(axis=1)
        answer[part] = -0.5 * (square + logdet + m * math.log(2 * math.pi))
    return np.where(usable, answer, -np.inf)


def _dense(
    residual: Array,
    at: Array,
    colours: tuple[Colour, ...],
    white: Array,
    var: Array,
    modes: Array,
    weight: Array,
    share: float,
    own: float,
) -> Array:
    """Log density with full covariance matrices, a stack of them at a time."""
    n, m = residual.shape
    distance = np.abs(at[:, None] - at[None, :])
    answer = np.empty(n)
    rows = max(1, _CHUNK // (m * m))
    for start in range(0, n, rows):
        part = slice(start, min(start + rows, n))
        covariance = (share * white[part] + own * var[part])[:, :, None] * np.eye(m)
        covariance = covariance + own * np.einsum("ka,nk,kb->nab", modes, weight[part], modes)
        for variance, length in colours:
            v, scale = (np.broadcast_to(c, (n, 1))[part, :, None] for c in (variance, length))
            covariance = covariance + share * v * np.exp(-distance / scale)
        answer[part] = _normal(residual[part], covariance)
    return answer


def _normal(residual: Array, covariance: Array) -> Array:
    """Log density of N(0, covariance) at each row.

    Minus infinity where the covariance is not positive definite.
    """
    m = residual.shape[1]
    try:
        factor = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        if len(residual) == 1:
            return np.array([-np.inf])
        half = len(residual) // 2
        return np.concatenate(
            [_normal(residual[:half], covariance[:half]), _normal(residual[half:], covariance[half:])]
        )
    white = np.linalg.solve(factor, residual[:, :, None])[:, :, 0]
    logdet = 2.0 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
    return np.asarray(-0.5 * ((white**2).sum(axis=1) + logdet + m * math.log(2 * math.pi)))


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
