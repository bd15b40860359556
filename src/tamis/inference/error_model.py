"""The error between model and measurement, identified from tests at which the parameters were known.

Lebel et al. 2019 (10.1016/j.jsv.2019.06.024), appendix B: the differences between measured and simulated responses of
v reference tests are realisations of one Gaussian vector B. Its mean and covariance give the likelihood of every
later test, as `LowRank` noise. There are fewer realisations than measured numbers, often ten against hundreds, so the
empirical covariance is singular and what it says of directions is largely chance. Four remedies are combined:

- the basis is that of a covariance made partly stationary, alpha C + (1 - alpha) C_stat (Perrin et al. 2014,
  10.1137/130905095), each block of components by itself;
- before that, errors that grow or shrink along a signal may be divided by their trend, a parabola in the logarithm:
  such errors are far from stationary, though their correlations need not be;
- the covariance of the coefficients in that basis (B.12) is drawn towards the diagonal of the basis's own
  eigenvalues, by a share rho. Without it (rho = 0, as in the paper) their inverse is far too sure of itself;
- what lies outside the basis is independent noise (Tipping & Bishop 1999, 10.1111/1467-9868.00196), not ignored.

Everything that the realisations cannot say about themselves is asked of realisations left out. Projection error
chooses alpha, as in the papers. Predictive log density chooses trend, number of modes and rho, and is maximal where the
variance in the basis is multiplied by the mean square of the held-out coefficients, and where the residual variance is
that of the held-out residuals. So both contain the error of the estimated mean and of the basis: residuals of the
realisations that made the basis are too small, and a factor of v realisations alone (Hartlap et al. 2007,
10.1051/0004-6361:20066170) would suit a basis chosen beforehand.

The paper keeps m <= v modes for the sake of a regular matrix in B.12; being centred it is regular for m < v only, and
in a fold for m < v - 1. With rho > 0 it is regular for any m, and errors with many short waves need more: up to 3 v
are tried.

The mean is as uncertain as v tests leave it, and wrong by the same amount in all later tests. Where T of them judge the
same parameters together, their average errs by S/T + S/v, S being the covariance of one error; so each is given the
covariance (1 + T/v) S, which is right if they all respond alike and on the safe side if not.

Cost: two eigenproblems of the measured numbers a realisation and a value of alpha below one, the stationary covariance
having full rank: seconds for 500 numbers and 20 realisations, minutes for 2000. For alpha = 1 the realisations suffice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh, toeplitz

from tamis.errors import StudyError
from tamis.noise import LowRank
from tamis.types import Array

_TRENDS = (0, 2)  # degrees of the logarithm of the errors' size along a signal
_ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
_RHOS = np.array([0.0, 0.1, 0.25, 0.5, 0.75, 1.0])
_LEAST = 5  # realisations
_MODES_PER_TEST = 3
_FOR_A_TREND = 12  # numbers of a signal; fewer cannot tell it from chance
_QUIET = 1e-3  # of the mean square of a signal, below which an instant says nothing about its trend
_TINY = 1e-10  # variance that every direction has at least, the measurements having variance one


@dataclass(frozen=True)
class _HeldOut:
    """Sums over left-out realisations, for 0 to K modes."""

    outside: Array  # (K + 1, components), squares of what the basis leaves
    freedom: Array  # (K + 1, components), how many numbers those are
    square: Array  # (rhos, K + 1), squares of the whitened coefficients
    logdet: Array  # (rhos, K + 1), of the coefficients' covariance


class _Choice(NamedTuple):
    """What the left-out realisations prefer."""

    score: float  # twice their log density, less constants
    modes: int
    alpha: float
    rho: float
    inflation: float  # factor of the variance in the basis
    left: Array  # (components,), variances outside


def identify(
    errors: Array,
    *,
    components: int = 1,
    residual: bool = True,
    modes: int | None = None,
    tests: int = 1,
) -> LowRank:
    """Identify the error model of which realisations (v, m), measured minus simulated, are given.

    Parameters
    ----------
    errors
        One row a reference test, at which the model's parameters were known.
    components
        Number of signals of equal length, sampled evenly, that stand one after the other in a row; they may have
        different units.
    residual
        Whether what lies outside the modes is independent noise (the default), or counts for nothing, as B.7 has it.
    modes
        Their number; chosen from the realisations if not given.
    tests
        How many later tests, replicates included, are calibrated together with this error.
    """
    errors = _checked(errors, components)
    v, m = errors.shape
    mean = errors.mean(axis=0)  # B.4
    most = min(m - 1, _MODES_PER_TEST * v)
    if modes is not None and not (0 if residual else 1) <= modes <= most:
        raise StudyError(
            f"{v} realisations of {m} numbers allow 1 to {most} modes (none with a residual), found {modes}"
        )
    if tests < 1:
        raise StudyError(f"expected one later test or more to judge by this error, found {tests}")
    counts = range(0 if residual else 1, most + 1) if modes is None else range(modes, modes + 1)
    scales = [_trend(errors - mean, components, degree) for degree in _TRENDS]
    choices = [_choose(errors / scale, components, counts, most) for scale in scales]
    scores = [c.score - 2 * v * np.log(scale).sum() for c, scale in zip(choices, scales, strict=True)]
    best = int(np.argmax(scores))
    choice, scale = choices[best], scales[best]

    basis, values, coefficients = _basis((errors - mean) / scale, components, choice.alpha, choice.modes)
    mean_error = (v + tests) / (v + 1)  # of T tests over that of one, which held-out realisations had
    covariance = mean_error * choice.inflation * _drawn(coefficients, values, np.array([choice.rho]))[0]
    white = mean_error * np.repeat(choice.left, m // components)
    if residual:  # the noise acts along the modes as well, which add what is missing
        covariance = covariance - (basis.T * white) @ basis
    size, turn = np.linalg.eigh(covariance)
    shapes = ((basis @ turn) * np.sqrt(np.maximum(size, 0.0))).T[size > 0]
    return LowRank(mean, shapes * scale, white * scale**2 if residual else 0.0, choice.alpha)


def _checked(errors: Array, components: int) -> Array:
    errors = np.asarray(errors, dtype=float)
    if errors.ndim != 2 or len(errors) < _LEAST or errors.shape[1] < 2 * components:
        raise StudyError(
            f"expected at least {_LEAST} realisations of an error, one a row, of two numbers or more a component; "
            f"found an array of shape {errors.shape} and {components} component(s)"
        )
    if components < 1 or errors.shape[1] % components:
        raise StudyError(
            f"{errors.shape[1]} numbers a realisation are not {components} components of equal length"
        )
    if not np.isfinite(errors).all():
        rows = np.flatnonzero(~np.isfinite(errors).all(axis=1))
        raise StudyError(f"realisation {rows[0] + 1} has missing numbers; leave it out, or fill them in")
    return errors


def _trend(centred: Array, components: int, degree: int) -> Array:
    """Return the size (m,) of the errors along each component: a polynomial in its logarithm, right on the average."""
    v, m = centred.shape
    at = np.linspace(-1.0, 1.0, m // components)
    answer = np.empty((components, len(at)))
    for i, squares in enumerate((centred**2).mean(axis=0).reshape(components, -1)):
        if not squares.any():
            raise StudyError(
                f"component {i + 1} of {components} has the same error in all {v} realisations; its spread cannot be "
                "identified"
            )
        level = np.log(np.maximum(squares, _QUIET * squares.mean()))
        curve = np.polynomial.Polynomial.fit(at, level, degree if len(at) >= _FOR_A_TREND else 0)
        sizes = np.exp(curve(at))
        answer[i] = np.sqrt(sizes * np.mean(squares / sizes))
    return answer.ravel()


def _leave_one_out(errors: Array, components: int, alpha: float, most: int) -> _HeldOut:
    """Predict every realisation from the others."""
    total: list[list[Array]] = []
    for i, one in enumerate(errors):
        others = np.delete(errors, i, axis=0)
        mean = others.mean(axis=0)
        basis, values, coefficients = _basis(others - mean, components, alpha, most)
        own = (one - mean) @ basis
        left = np.column_stack([one - mean, (one - mean)[:, None] - np.cumsum(basis * own, axis=1)])
        taken = np.column_stack([np.zeros(len(one)), np.cumsum(basis**2, axis=1)])
        factor = np.linalg.cholesky(_drawn(coefficients, values, _RHOS))
        # a leading block of the factor is the factor of the leading block: all numbers of modes at once
        white = np.linalg.solve(factor, np.broadcast_to(own[:, None], (len(_RHOS), len(own), 1)))[:, :, 0]
        pivots = 2 * np.log(np.diagonal(factor, axis1=1, axis2=2))
        total.append(
            [
                _blocks(left**2, components),
                _blocks(1 - taken, components),
                np.pad(np.cumsum(white**2, axis=1), ((0, 0), (1, 0))),
                np.pad(np.cumsum(pivots, axis=1), ((0, 0), (1, 0))),
            ]
        )
    outside, freedom, square, logdet = (sum(parts) for parts in zip(*total, strict=True))
    return _HeldOut(outside, freedom, square, logdet)


def _blocks(rows: Array, components: int) -> Array:
    """Sum (m, K + 1) over the numbers of each component, (K + 1, components)."""
    return np.asarray(rows.reshape(components, -1, rows.shape[1]).sum(axis=1).T)


def _choose(errors: Array, components: int, counts: range, most: int) -> _Choice:
    """Choose alpha by the projection error of every number of modes, then their number and rho by log density."""
    v = len(errors)
    held = [_leave_one_out(errors, components, alpha, most) for alpha in _ALPHAS]
    best = _Choice(-np.inf, 0, 0.0, 0.0, 1.0, np.empty(0))
    for k in counts:
        able = [i for i, h in enumerate(held) if len(h.outside) > k]
        i = min(able, key=lambda i: float(held[i].outside[k].sum()))
        freedom = held[i].freedom[k]
        left = np.maximum(held[i].outside[k] / freedom, _TINY)
        inflation = np.maximum(held[i].square[:, k] / (v * k), _TINY) if k else np.ones(len(_RHOS))
        # at the inflation and the residual variance that maximise it
        score = -(v * k * np.log(inflation) + held[i].logdet[:, k]) - (freedom * np.log(left)).sum()
        j = int(np.argmax(score))
        if score[j] > best.score:
            best = _Choice(float(score[j]), k, _ALPHAS[i], float(_RHOS[j]), float(inflation[j]), left)
    return best


def _basis(centred: Array, components: int, alpha: float, k: int) -> tuple[Array, Array, Array]:
    """Return k eigenvectors (m, k) of the partly stationary covariance, its eigenvalues, and coefficients (v, k)."""
    v, m = centred.shape
    if alpha == 1.0:  # the realisations span them; centred ones are v - 1
        _, singular, rows = np.linalg.svd(centred, full_matrices=False)
        k = min(k, v - 1)
        vectors, values = rows[:k].T, singular[:k] ** 2 / (v - 1)
    else:
        covariance = alpha * centred.T @ centred / (v - 1) + (1 - alpha) * _stationary(
            centred, components
        )  # B.5, B.9
        ascending, columns = eigh(covariance, subset_by_index=(m - max(k, 1), m - 1))
        vectors, values = columns[:, ::-1][:, :k], ascending[::-1][:k]
    return vectors, values, centred @ vectors


def _drawn(coefficients: Array, values: Array, rhos: Array) -> Array:
    """Return the coefficients' covariance (B.12) drawn towards diag(values) by each share, (rhos, k, k)."""
    own = coefficients.T @ coefficients / (len(coefficients) - 1)
    share = rhos[:, None, None]
    return np.asarray((1 - share) * own + share * np.diag(values) + _TINY * np.eye(len(values)))


def _stationary(centred: Array, components: int) -> Array:
    """Average the empirical covariance along the diagonals of every block (B.10), by way of the spectrum."""
    v, m = centred.shape
    mu = m // components
    spectrum = np.fft.rfft(centred.reshape(v, components, mu), 2 * mu)
    answer = np.empty((components, mu, components, mu))
    for a in range(components):
        for b in range(components):
            lag = np.fft.irfft((spectrum[:, a].conj() * spectrum[:, b]).sum(axis=0), 2 * mu)
            lag /= mu * (v - 1)  # lag[l] = sum over k of a[k] b[k + l]; negative lags stand at the end
            answer[a, :, b] = toeplitz(np.r_[lag[0], lag[:mu:-1]], lag[:mu])
    return answer.reshape(m, m)
