"""Probit regression: a probability that rises with a linear form, P = Phi(z c), from how often something happened.

Each row has a share s in [0, 1] of t trials: counts over trials, one run that did or did not (0 or 1), or the
probability that one run did, where part of the chance was integrated. The log-likelihood, t [s log P + (1 - s)
log(1 - P)] summed over rows, is concave, and Newton's method climbs it.

What the coefficients may be besides is drawn from the posterior with the prior of Jeffreys. It does not depend on how
the curve is written (median and dispersion, intercept and slope), its intervals hold the truth about as often as they
say even for few runs, and for the probit it is a proper law (Chen, Ibrahim & Kim 2008, 10.1198/016214508000000779), so
that there is a posterior where the likelihood has no top: nothing happened, everything did, or one threshold separates
the two. Draws are by importance from a Student's t that is fitted twice to its own weighted draws.

Rows that are not independent trials (shares between 0 and 1, several rows of one cluster) know more or less than
their likelihood says. Then the draws are stretched about the top until their covariance is that of the sandwich, H^-1
J H^-1 with the curvature H and the scores' squares J summed by cluster (Ribatet, Cooley & Davison 2012,
10.5705/ss.2009.249).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr

from tamis.types import Array, Generator, Indices

_LOG_ROOT = 0.5 * math.log(2 * math.pi)
_CLIMB = 60  # steps of Newton's method
_FREEDOM = 5  # of the Student's t
_ROUNDS = 3  # of importance sampling, the last of which is kept
_CHUNK = 2**22  # numbers held at once
_OPEN = 1e-6  # of the scores: a direction of which clusters tell less is open; the climb ends at some 1e-10


@dataclass(frozen=True)
class Rows:
    """What was seen: forms (n, p), shares (n,) and trials (n,), rows of equal form put together."""

    z: Array
    share: Array
    trials: Array

    @classmethod
    def of(cls, z: Array, share: Array, trials: Array) -> Rows:
        """Put rows of equal form together."""
        each, where = np.unique(z, axis=0, return_inverse=True)
        where = where.reshape(-1)
        total, seen = (np.bincount(where, weights=w).astype(float) for w in (trials, trials * share))
        return cls(each, seen / total, total)

    def log_likelihood(self, coefficients: Array) -> Array:
        """Return the log-likelihood (N,) of coefficients (N, p)."""
        at = coefficients @ self.z.T
        yes, no = self.trials * self.share, self.trials * (1 - self.share)
        return np.asarray(log_ndtr(at) @ yes + log_ndtr(-at) @ no)

    def information(self, coefficients: Array) -> Array:
        """Return Fisher's information (N, p, p) at coefficients (N, p)."""
        at = coefficients @ self.z.T
        weight = self.trials * np.exp(-(at**2) - 2 * _LOG_ROOT - log_ndtr(at) - log_ndtr(-at))
        p = self.z.shape[1]
        return np.asarray(
            (weight @ (self.z[:, :, None] * self.z[:, None, :]).reshape(len(self.z), -1)).reshape(-1, p, p)
        )

    def scores(self, c: Array) -> Array:
        """Return the slope (n, p) of each row's log-likelihood at coefficients (p,)."""
        at = self.z @ c
        log_density = -0.5 * at**2 - _LOG_ROOT
        yes, no = np.exp(log_density - log_ndtr(at)), np.exp(log_density - log_ndtr(-at))
        return np.asarray((self.trials * (self.share * yes - (1 - self.share) * no))[:, None] * self.z)

    def curvature(self, c: Array) -> Array:
        """Return minus the second derivatives (p, p) of the log-likelihood at coefficients (p,)."""
        at = self.z @ c
        log_density = -0.5 * at**2 - _LOG_ROOT
        yes, no = np.exp(log_density - log_ndtr(at)), np.exp(log_density - log_ndtr(-at))
        weight = self.trials * (self.share * yes * (yes + at) + (1 - self.share) * no * (no - at))
        return np.asarray((self.z * weight[:, None]).T @ self.z)


def climb(rows: Rows) -> Array:
    """Return the coefficients (p,) of the largest likelihood; whoever calls has seen that there is one."""
    c = np.zeros(rows.z.shape[1])
    height = float(rows.log_likelihood(c[None])[0])
    for _ in range(_CLIMB):
        slope = rows.scores(c).sum(axis=0)
        step = np.linalg.lstsq(rows.curvature(c), slope, rcond=None)[0]
        size = 1.0
        while size > 1e-8:
            higher = float(rows.log_likelihood((c + size * step)[None])[0])
            if higher >= height:
                break
            size /= 2
        else:
            break
        c, gained, height = c + size * step, higher - height, higher
        if gained <= 1e-13 * (1 + abs(height)) and size * np.abs(step).max() <= 1e-10 * (1 + np.abs(c).max()):
            break
    return np.asarray(c)


def log_posterior(rows: Rows, c: Array) -> Array:
    """Return the log density (N,) of coefficients (N, p), up to a constant, with the prior of Jeffreys."""
    found = np.empty(len(c))
    step = max(1, _CHUNK // len(rows.z))
    for start in range(0, len(c), step):
        part = c[start : start + step]
        sign, logdet = np.linalg.slogdet(rows.information(part))
        found[start : start + step] = rows.log_likelihood(part) + np.where(sign > 0, 0.5 * logdet, -np.inf)
    return found


def top(rows: Rows) -> Array:
    """Return the coefficients (p,) of the highest posterior density, which there always are."""
    found = minimize(
        lambda c: -float(log_posterior(rows, c[None])[0]), np.zeros(rows.z.shape[1]), method="Nelder-Mead"
    )
    return np.asarray(found.x)


def draw(rows: Rows, n: int, rng: Generator) -> Array:
    """Draw n coefficients (n, p) of the posterior with the prior of Jeffreys."""
    p = rows.z.shape[1]
    centre = top(rows)
    cover = 1.5 * np.linalg.inv(rows.information(centre[None])[0])
    for _ in range(_ROUNDS):
        root = np.linalg.cholesky(cover)
        length = np.sqrt(rng.chisquare(_FREEDOM, 2 * n) / _FREEDOM)[:, None]
        c = centre + (rng.standard_normal((2 * n, p)) @ root.T) / length
        far = np.sum(np.linalg.solve(root, (c - centre).T) ** 2, axis=0)
        log_weight = log_posterior(rows, c) + 0.5 * (_FREEDOM + p) * np.log1p(far / _FREEDOM)
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        centre = weight @ c
        cover = 1.2 * (weight * (c - centre).T) @ (c - centre)
    edges = np.cumsum(weight)
    picked = np.searchsorted(edges, (rng.random() + np.arange(n)) / n * edges[-1], side="right")
    return np.asarray(c[np.minimum(picked, len(c) - 1)])


def stretched(draws: Array, z: Array, share: Array, cluster: Indices, c: Array) -> Array:
    """Return draws (N, p) about the top c (p,), widened or narrowed to what clusters of rows tell.

    Where clusters are of so few kinds that they leave a direction open, each counts as a single run.
    """
    rows = Rows(z, share, np.ones(len(z)))
    bent = rows.curvature(c)
    each = np.zeros((int(cluster.max()) + 1, len(c)))
    np.add.at(each, cluster, rows.scores(c))
    groups = len(each)
    if np.linalg.matrix_rank(each, tol=_OPEN * float(np.linalg.norm(each))) < len(c):
        return np.asarray(c + (draws - c) * np.sqrt(len(z) / groups))
    squares = each.T @ each * groups / max(groups - len(c), 1)
    inverse = np.linalg.inv(bent)
    root = np.linalg.cholesky(inverse @ squares @ inverse)
    move = root @ np.linalg.cholesky(bent).T  # from covariance H^-1 to root root'
    return np.asarray(c + (draws - c) @ move.T)
