"""Log densities of Gaussian errors of n points at once, without m by m matrices where there is a way around them.

The error of an emulated signal, and that of a model whose misfit was analysed into principal components, run along
k modes, so that the covariance is that of some noise plus modes' weight modes. Dividing the noise out of the residual
and out of the modes leaves a problem of k unknowns. White noise is divided out instant by instant; an error that fades
exponentially, by a filter along the abscissa; a full covariance by one factor for all points, as long as what is added
to its diagonal has the same shape everywhere. Only several coloured errors at once, or a full covariance beside
a variance of another shape at each point, take one m by m factor a point. A covariance that is the same at all points,
whatever it is made of, is factorised once.

Errors that several observations share run along modes across all of them. The noise of each observation is divided out
by itself, the way that suits it, and what is left stands side by side: the problem of k unknowns is one for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from tamis.errors import StudyError
from tamis.types import Array, Mask

Colour = tuple[Array, Array]  # variance and length, (n or 1, 1) each, of an exponentially fading error
Matrix = tuple[Array, Array]  # a covariance (m, m) and the factor (n or 1, 1) it is multiplied by
Whitener = Callable[[Array, slice], Array]
Density = Callable[[Array, float, float], Array]
_CHUNK = 200_000  # numbers of a stack of matrices held at once
_KEPT = 1e-8  # of a number that must be left after subtractions: half of its digits


@dataclass(frozen=True)
class Spread:
    """The covariance of the errors of one test at n points: the sum of all that is given."""

    white: Array  # (n, m), variances of independent errors
    at: Array  # (m,), abscissa of the fading ones
    colours: tuple[Colour, ...]
    matrices: tuple[Matrix, ...]
    modes: Array  # (k, m)
    weight: Array  # (n, k), variances along the modes

    def of(self, part: slice | Mask) -> Spread:
        """Return the covariance at some of the points."""

        def selected(each: Array) -> Array:
            return np.broadcast_to(each, (len(self.white), 1))[part]

        return Spread(
            self.white[part],
            self.at,
            tuple((selected(variance), selected(length)) for variance, length in self.colours),
            tuple((matrix, selected(factor)) for matrix, factor in self.matrices),
            self.modes,
            self.weight[part],
        )

    def valid(self) -> Mask:
        """Mark the points, (n,), where no part of it has a negative variance."""
        good = (self.white >= 0).all(axis=1, keepdims=True)
        for variance, _ in self.colours:
            good = good & (variance >= 0)
        for _, factor in self.matrices:
            good = good & (factor >= 0)
        return np.asarray(np.broadcast_to(good, (len(self.white), 1))[:, 0])

    def alike(self) -> bool:
        """Whether it is the same at all points."""
        parts = (self.white, self.weight, *(a for colour in self.colours for a in colour))
        return all((a == a[:1]).all() for a in (*parts, *(factor for _, factor in self.matrices)))


def log_density(residual: Array, spread: Spread) -> Array:
    """Return log N(residual; 0, spread), (n,); NaN where there is no density."""
    n, m = residual.shape
    good = spread.valid()
    if not good.all():
        answer = np.full(n, np.nan)
        if good.any():
            answer[good] = log_density(residual[good], spread.of(good))
        return answer
    if n > 1 and spread.alike():  # one covariance and n residuals, instead of one residual a covariance
        spread, groups = spread.of(slice(0, 1)), residual[None]
    else:
        groups = residual[:, None]
    k = len(spread.modes)
    whiten = _whitener(spread) if k <= m else None
    rows = max(1, _CHUNK // (m * (m if whiten is None else k + 1)))
    answer = np.empty(groups.shape[:2])
    for start in range(0, len(groups), rows):
        part = slice(start, start + rows)
        with np.errstate(all="ignore"):
            if whiten is None:
                square, logdet = _dense(groups[part], spread.of(part))
            else:
                size = np.sqrt(spread.weight[part])[:, :, None]
                stack = np.concatenate([spread.modes * size, groups[part]], axis=1)
                logdet = whiten(stack, part)
                square, more = _ridge(stack, k)
                logdet = logdet + more
        answer[part] = -0.5 * (square + logdet[:, None] + m * math.log(2 * math.pi))
    return answer.reshape(n)


@dataclass(frozen=True)
class Witness:
    """One observation beside others that share errors with it."""

    residual: Array  # (n, m)
    spread: Spread  # of the errors that are its own
    common: Array  # (n, f, m), modes of those that are shared
    rest: Array  # (n,), log density of what the shared errors have no part in


def joint_log_density(witnesses: Sequence[Witness]) -> Array:
    """Return the log density of several observations, (n,), along modes that run across them; -inf where none.

    The same f standard normal numbers stand behind the common modes of all.
    """
    answer = np.sum([witness.rest for witness in witnesses], axis=0)
    for part, stack, logdet in _side_by_side(witnesses):
        with np.errstate(all="ignore"):
            square, more = _ridge(stack, stack.shape[1] - 1)
        answer[part] -= 0.5 * (square[:, 0] + logdet + more + stack.shape[2] * math.log(2 * math.pi))
    good = np.all([witness.spread.valid() for witness in witnesses], axis=0) & ~np.isnan(answer)
    return np.where(good, answer, -np.inf)


def common_given(witnesses: Sequence[Witness]) -> tuple[Array, Array]:
    """Return means (n, f) and roots (n, f, f) of the covariance of the numbers behind common modes, given the data."""
    n, f, _ = witnesses[0].common.shape
    mean, root = np.empty((n, f)), np.empty((n, f, f))
    for part, stack, _ in _side_by_side(witnesses):
        modes = stack[:, :-1]
        covariance = np.linalg.inv(modes @ modes.swapaxes(1, 2) + np.eye(modes.shape[1]))
        mean[part] = (covariance @ (modes @ stack[:, -1, :, None]))[:, -f:, 0]
        root[part] = np.linalg.cholesky(covariance[:, -f:, -f:])
    return mean, root


def _side_by_side(witnesses: Sequence[Witness]) -> Iterator[tuple[slice, Array, Array]]:
    """Divide the noise out of each observation, some points at a time.

    Yields the points, the rows (n, k + f + 1, m): modes of each observation of its own, common ones, the residual; and
    the log of the noise's determinant.
    """
    n, f, _ = witnesses[0].common.shape
    sizes = [witness.residual.shape[1] for witness in witnesses]
    ways = [_whitener(witness.spread) for witness in witnesses]
    # without a way to divide out the noise alone, an observation's own modes go with it
    own = [len(witness.spread.modes) if way else 0 for witness, way in zip(witnesses, ways, strict=True)]
    edges, starts, k = np.cumsum([0, *sizes]), np.cumsum([0, *own]), sum(own)
    dense = sum(m * m for m, way in zip(sizes, ways, strict=True) if way is None)
    each = edges[-1] * (k + f + 1) + dense  # numbers; none where nothing was measured
    rows = max(1, _CHUNK // max(1, each))
    for start in range(0, n, rows):
        part = slice(start, min(start + rows, n))
        stack = np.zeros((part.stop - start, k + f + 1, edges[-1]))
        logdet = np.zeros(len(stack))
        for i, (witness, way) in enumerate(zip(witnesses, ways, strict=True)):
            spread = witness.spread
            modes = spread.modes[: own[i]] * np.sqrt(spread.weight[part, : own[i]])[:, :, None]
            white = np.concatenate([modes, witness.common[part], witness.residual[part, None]], axis=1)
            with np.errstate(all="ignore"):
                logdet += way(white, part) if way else _factorised(white, spread.of(part))
            columns = slice(edges[i], edges[i + 1])
            stack[:, starts[i] : starts[i + 1], columns] = white[:, : own[i]]
            stack[:, k:, columns] = white[:, own[i] :]
        yield part, stack, logdet


def _whitener(spread: Spread) -> Whitener | None:
    """Return what divides the noise out of a stack of rows, if one way serves all points."""
    if len(spread.colours) + len(spread.matrices) > 1:
        return None
    if spread.matrices:
        return _full(spread)
    if spread.colours:
        variance, length = (np.broadcast_to(c, (len(spread.white), 1))[:, 0] for c in spread.colours[0])
        return lambda stack, part: _filter(stack, spread.at, variance[part], length[part], spread.white[part])
    return lambda stack, part: _divide(stack, spread.white[part])


def _full(spread: Spread) -> Whitener | None:
    """Return what divides out factor C + diag(white), by one decomposition for all points; None if it takes more."""
    matrix, factor = spread.matrices[0]
    factor = np.broadcast_to(factor, (len(spread.white), 1))
    shape = spread.white[0]
    if not spread.white.any():
        return _by_cholesky(matrix, factor)
    if (spread.white == shape).all() and (factor == factor[0]).all():
        return _by_cholesky(factor[0] * matrix + np.diag(shape), np.ones_like(factor))
    if (shape > 0).all():
        size = spread.white.mean(axis=1, keepdims=True) / shape.mean()
        # the same shape at all points, but for the rounding of a product
        if np.allclose(spread.white, size * shape, rtol=1e-12, atol=0):
            return _by_eigenvectors(matrix, factor, shape, size)
    return None


def _by_cholesky(matrix: Array, factor: Array) -> Whitener:
    root = _cholesky(matrix[None])[0]
    if np.isnan(root).any():
        raise StudyError(
            "the covariance of the errors is not positive definite, so that they have no density; add independent "
            "errors, or leave out measurements that follow from others"
        )
    logdet = 2 * np.log(np.diagonal(root)).sum()
    scale = np.where(factor > 0, factor, np.nan)

    def whiten(stack: Array, part: slice) -> Array:
        rows = solve_triangular(root, stack.reshape(-1, len(root)).T, lower=True, check_finite=False)
        stack[:] = rows.T.reshape(stack.shape)
        stack /= np.sqrt(scale[part])[:, None]
        return np.asarray(logdet + len(root) * np.log(scale[part, 0]))

    return whiten


def _by_eigenvectors(matrix: Array, factor: Array, shape: Array, size: Array) -> Whitener:
    """Whiten by factor C + size P = P^1/2 U (factor L + size) U' P^1/2, P = diag(shape), U L U' = P^-1/2 C P^-1/2."""
    sd = np.sqrt(shape)
    values, vectors = np.linalg.eigh(matrix / sd / sd[:, None])
    into = vectors / sd[:, None]

    def whiten(stack: Array, part: slice) -> Array:
        own = factor[part] * np.maximum(values, 0.0) + size[part]
        own = np.where((own > 0) & (factor[part] >= 0), own, np.nan)
        stack[:] = stack @ into
        stack /= np.sqrt(own)[:, None]
        return np.asarray(np.log(own).sum(axis=1) + np.log(shape).sum())

    return whiten


def independent(y: Array, mean: Array, white: Array, var: Array) -> Array:
    """Log density of replicates y (r, m) whose errors, and those of the surrogate, are all independent."""
    r = len(y)
    average = y.mean(axis=0)
    common = white + r * var
    with np.errstate(divide="ignore", invalid="ignore"):
        total = np.log(common) + r * (average - mean) ** 2 / common
        if r > 1:
            total = total + (r - 1) * np.log(white) + ((y - average) ** 2).sum(axis=0) / white
        answer = -0.5 * (total + r * math.log(2 * math.pi)).sum(axis=1)
    return np.where(np.isnan(answer), -np.inf, answer)


def replicated(y: Array, mean: Array, density: Density) -> Array:
    """Return the log density of r replicates: the noise, of covariance S, is new in each, the surrogate's error is one.

    ``density(residual, share, own)`` is log N(0, share S + own K); the formula is at the head of `tamis.noise`.
    """
    total = density(y.mean(axis=0) - mean, 1 / len(y), 1.0)
    total = between(y, mean, density, total)
    return np.where(np.isnan(total), -np.inf, total)


def between(y: Array, mean: Array, density: Density, total: Array) -> Array:
    """Add to a log density what differences between r replicates tell, which errors common to them have no part in."""
    r, m = y.shape
    for i in range(1, r):  # orthonormal contrasts between replicates: independent of their mean, covariance S
        contrast = (y[:i].sum(axis=0) - i * y[i]) / math.sqrt(i * (i + 1))
        total = total + density(np.broadcast_to(contrast, mean.shape), 1.0, 0.0)
    return np.asarray(total - 0.5 * m * math.log(r))


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


def _ridge(stack: Array, k: int) -> tuple[Array, Array]:
    """Return the squares (n, q) and the log determinants (n,) of residuals z, by k by k matrices (Woodbury 1950).

    The rows (n, k + q, m) are A', the weighted modes, and q residuals z, after the noise was divided out of all.
    Then z has covariance 1 + AA', whose determinant is that of C = 1 + A'A, and its square is the least
    of |z - A w|^2 + |w|^2 over w, at w = C^-1 A'z. Nothing cancels in it, as does z'z - z'A C^-1 A'z where the modes
    explain all but a millionth of the residual.

    Cholesky's factor of C is fast, but C has the squares of A. Where a pivot keeps less than `_KEPT` of its number,
    or there is no factor, both are read off the orthogonal and triangular factors of A over 1.
    """
    modes, z = stack[:, :k], stack[:, k:]
    inner = stack @ modes.swapaxes(1, 2)  # A'A over z'A
    matrix = inner[:, :k] + np.eye(k)
    factor = _cholesky(matrix)
    pivot = np.diagonal(factor, axis1=1, axis2=2) ** 2
    fine = np.min(pivot / np.diagonal(matrix, axis1=1, axis2=2), axis=1, initial=1.0) > _KEPT
    w = _substitute(factor, inner[:, k:])
    square = np.sum((z - w @ modes) ** 2, axis=2) + np.sum(w**2, axis=2)
    logdet = np.log(pivot).sum(axis=1)
    if not fine.all():
        one = np.broadcast_to(np.eye(k), (int((~fine).sum()), k, k))
        turn, triangle = np.linalg.qr(np.concatenate([modes[~fine].swapaxes(1, 2), one], axis=1))
        long = np.pad(z[~fine], ((0, 0), (0, 0), (0, k)))
        square[~fine] = np.sum((long - long @ turn @ turn.swapaxes(1, 2)) ** 2, axis=2)
        logdet[~fine] = np.log(np.diagonal(triangle, axis1=1, axis2=2) ** 2).sum(axis=1)
    return square, logdet


def _dense(residual: Array, spread: Spread) -> tuple[Array, Array]:
    """Return the squares (n, q) and the log determinants (n,) of residuals (n, q, m), with full matrices."""
    white = residual.copy()
    logdet = _factorised(white, spread)
    return np.sum(white**2, axis=2), logdet


def _factorised(stack: Array, spread: Spread) -> Array:
    """Whiten the rows (n, q, m) in place by one m by m factor a point; return the log of its determinant."""
    m = stack.shape[2]
    distance = np.abs(spread.at[:, None] - spread.at[None, :])
    covariance = spread.white[:, :, None] * np.eye(m)
    covariance += (spread.modes.T * spread.weight[:, None, :]) @ spread.modes
    for variance, length in spread.colours:
        covariance += variance[:, :, None] * np.exp(-distance / length[:, :, None])
    for matrix, factor in spread.matrices:
        covariance += factor[:, :, None] * matrix
    root = _cholesky(covariance)
    stack[:] = np.linalg.solve(root, stack.swapaxes(1, 2)).swapaxes(1, 2)
    return np.asarray(2.0 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1))


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
    """Solve L L' w = right (n, q, k), a row of all n at a time: NumPy would factorise L L' again."""
    if len(factor) == 1:
        return np.asarray(cho_solve((factor[0], True), right[0].T, check_finite=False)).T[None]
    w, k = right.copy(), right.shape[2]
    for i in range(k):
        w[:, :, i] -= np.einsum("nj,nqj->nq", factor[:, i, :i], w[:, :, :i])
        w[:, :, i] /= factor[:, i, i, None]
    for i in reversed(range(k)):
        w[:, :, i] -= np.einsum("nj,nqj->nq", factor[:, i + 1 :, i], w[:, :, i + 1 :])
        w[:, :, i] /= factor[:, i, i, None]
    return w
