"""A mixture of Student laws fitted to points, and two ways to propose new points that leave it invariant.

Why a mixture: posteriors of mechanical models are bent and often have several modes, and a random walk scaled
to the whole cloud suits no part of it. A dozen components follow the bends and the modes, are fitted in
milliseconds by expectation-maximisation (Peel & McLachlan 2000, 10.1023/A:1008981510081), and their heavy
tails keep the ratio of target to mixture moderate where the cloud has few points. One more component, as wide as
the whole cloud and of fixed weight, lets points leave it where the next posterior reaches further than the
last (Hesterberg's defensive mixture, 1995, 10.1080/00401706.1995.10484303); without it small components pave
the cloud and go no further.

Why these proposals: both `independent` and `local` are reversible with respect to the mixture q itself, so
each becomes a Metropolis-Hastings kernel of any target p with one and the same acceptance ratio,
p(z') q(z) / (p(z) q(z')). `independent` jumps between modes. `local` draws a component and a scale from their
law given the present point, then makes an autoregressive step in the Gaussian they name: that step is
reversible given component and scale, hence also when they are averaged out. The angle of the step is drawn
anew each time, from standing still to forgetting the present point, so that no step size needs tuning; with
one Gaussian component this is the preconditioned Crank-Nicolson proposal (Cotter, Roberts, Stuart & White 2013,
10.1214/13-STS421).

Points are whitened by the covariance of the whole cloud. Squared distances to all components are then one
product of a matrix with the monomials of degree two, and so are the moments that the fit needs: both cost
little beside any likelihood. Products are taken over blocks of points small enough that no BLAS splits them
among threads: threads gain nothing on matrices this thin, wait for each other on a busy machine, and would make
the last bits of a posterior depend on their number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from tamis.types import Array, Generator

_FREEDOM = 8.0  # degrees of freedom of every component
_COMPONENTS = 16  # at most
_POINTS_PER_COEFFICIENT = 3  # at least, to fit a component
_POINTS = 4096  # at most, to fit all
_ITERATIONS = 12
_GUARD = 0.1  # weight of the component that covers the whole cloud
_GUARD_SCALE = 2.0  # its scale matrix, that of the cloud being 1
_FLOOR = 1e-8  # least variance of a component, that of the cloud being 1
_BLOCK = 2**17  # multiplications in one matrix product; OpenBLAS starts its threads beyond 2**18


@dataclass(frozen=True)
class Mixture:
    """Components in coordinates y, with z = centre + root y."""

    centre: Array  # (d,)
    root: Array  # (d, d), lower triangular
    unroot: Array  # (d, d), its inverse
    weight: Array  # (K,)
    mean: Array  # (K, d)
    factor: Array  # (K, d, d), lower triangular roots of the scale matrices
    form: Array  # (K, monomials), the squared distances as polynomials of y

    def whiten(self, z: Array) -> Array:
        """Return the coordinates y of points z, (n, d)."""
        return _each(self.unroot, z - self.centre).T


def fit(z: Array, rng: Generator) -> Mixture:
    """Fit a mixture to points (n, d); more components the more points there are per coefficient."""
    z = z[:: -(-len(z) // _POINTS)]
    n, d = z.shape
    centre, root = z.mean(axis=0), _root(z)
    unroot = np.asarray(np.linalg.inv(root), dtype=np.float64)
    y = _each(unroot, z - centre).T
    coefficients = (d + 1) * (d + 2) // 2
    components = int(np.clip(n // (_POINTS_PER_COEFFICIENT * coefficients), 1, _COMPONENTS))
    features = _monomials(y)
    share = _first_shares(y, components, rng)
    pull = share
    for _ in range(_ITERATIONS):
        mixture = _maximised(centre, root, unroot, share, _sums(pull, features))
        share, distance = (part[:-1] for part in _shares(mixture, features)[1:])
        pull = share * (_FREEDOM + d) / (_FREEDOM + distance)
    return mixture


def joined(mixture: Mixture, mean: Array, scale: Array, share: float) -> Mixture:
    """Return the mixture with more components, of means (K, d) and scale matrices of z, and this weight together."""
    count = len(mean)
    if count == 0:
        return mixture
    mean = mixture.whiten(mean)
    scale = mixture.unroot @ scale @ mixture.unroot.T
    return Mixture(
        mixture.centre,
        mixture.root,
        mixture.unroot,
        np.append((1 - share) * mixture.weight, np.full(count, share / count)),
        np.vstack([mixture.mean, mean]),
        np.concatenate([mixture.factor, np.linalg.cholesky(scale)]),
        np.vstack([mixture.form, _form(mean, scale)]),
    )


def log_density(mixture: Mixture, z: Array) -> Array:
    """Return the log density at points (n, d)."""
    return _shares(mixture, _monomials(mixture.whiten(z)))[0]


def independent(mixture: Mixture, z: Array, rng: Generator) -> Array:
    """Propose as many draws of the mixture as there are points."""
    n, d = z.shape
    k = rng.choice(len(mixture.weight), size=n, p=mixture.weight)
    precision = rng.gamma(_FREEDOM / 2, 2 / _FREEDOM, size=n)
    return _point(mixture, mixture.mean[k] + _noise(mixture, k, precision, rng.standard_normal((n, d))))


def local(mixture: Mixture, z: Array, rng: Generator) -> Array:
    """Propose an autoregressive step from each point within one of the components it may belong to."""
    n, d = z.shape
    y = mixture.whiten(z)
    _, share, distance = _shares(mixture, _monomials(y))
    k = (np.cumsum(share, axis=0) < rng.random(n)).sum(axis=0).clip(max=len(share) - 1)
    precision = rng.gamma((_FREEDOM + d) / 2, 2 / (_FREEDOM + distance[k, np.arange(n)]))
    angle = rng.uniform(0, math.pi / 2, size=(n, 1))
    mean = mixture.mean[k]
    noise = _noise(mixture, k, precision, rng.standard_normal((n, d)))
    return _point(mixture, mean + np.cos(angle) * (y - mean) + np.sin(angle) * noise)


def _root(z: Array) -> Array:
    """Triangular root of the covariance, pulled to its diagonal where points are few."""
    n, d = z.shape
    covariance = np.cov(z, rowvar=False).reshape(d, d)
    variance = np.maximum(np.diag(covariance), 1e-24)
    trust = 1 / (1 + (d / n) ** 2)
    root: Array = np.linalg.cholesky(trust * covariance + np.diag((1 - trust) * variance + 1e-12 * variance))
    return root


def _monomials(y: Array) -> Array:
    """Return 1, y_i and y_i y_j (i <= j) of each point."""
    i, j = np.triu_indices(y.shape[1])
    return np.hstack([np.ones((len(y), 1)), y, y[:, i] * y[:, j]])


def _first_shares(y: Array, components: int, rng: Generator) -> Array:
    """Give each point to the nearest of a few of them, picked far apart.

    The seeding of Arthur & Vassilvitskii (2007), k-means++.
    """
    picked = [int(rng.integers(len(y)))]
    distance = ((y - y[picked]) ** 2).sum(axis=1)[None]
    while len(picked) < components:
        chance = distance.min(axis=0) + 1e-300
        picked.append(int(rng.choice(len(y), p=chance / chance.sum())))
        distance = np.vstack([distance, ((y - y[picked[-1]]) ** 2).sum(axis=1)])
    nearest = distance.argmin(axis=0)
    return np.array([nearest == k for k in range(components)], dtype=np.float64)


def _maximised(centre: Array, root: Array, unroot: Array, share: Array, moments: Array) -> Mixture:
    """Return the mixture with the given moments (K, monomials) of its components.

    A prior worth d + 2 points, the scale matrix common to all components, keeps each of them regular
    (as Fraley & Raftery 2007, 10.1007/s00357-007-0004-5). One more component guards the outskirts.
    """
    d, components = len(centre), len(share)
    count = share.sum(axis=1)
    pulled = moments[:, 0] + 1e-3
    mean = moments[:, 1 : d + 1] / pulled[:, None]
    i, j = np.triu_indices(d)
    second = np.empty((components, d, d))
    second[:, i, j] = second[:, j, i] = moments[:, d + 1 :]
    spread = second - pulled[:, None, None] * mean[:, :, None] * mean[:, None, :]
    common = spread.sum(axis=0) / count.sum() + _FLOOR * np.eye(d)
    scale = (spread + (d + 2) * common) / (count + d + 2)[:, None, None]
    weight = np.append((1 - _GUARD) * (count + 1) / (count + 1).sum(), _GUARD)
    mean, scale = np.vstack([mean, np.zeros(d)]), np.vstack([scale, _GUARD_SCALE * np.eye(d)[None]])
    return Mixture(centre, root, unroot, weight, mean, np.linalg.cholesky(scale), _form(mean, scale))


def _form(mean: Array, scale: Array) -> Array:
    """Return the squared distances to components as polynomials, (K, monomials)."""
    i, j = np.triu_indices(mean.shape[1])
    precision = np.linalg.inv(scale)
    slope = np.einsum("kij,kj->ki", precision, mean)
    square = np.where(i == j, 1.0, 2.0) * precision[:, i, j]
    return np.hstack([(slope * mean).sum(axis=1, keepdims=True), -2 * slope, square])


def _shares(mixture: Mixture, features: Array) -> tuple[Array, Array, Array]:
    """Return log density of z (n,), share of each component (K, n), squared distance to each (K, n)."""
    d = len(mixture.centre)
    distance = np.maximum(_each(mixture.form, features), 0.0)
    volume = np.log(np.einsum("kii->ki", mixture.factor)).sum(axis=1) + np.log(np.diag(mixture.root)).sum()
    constant = gammaln((_FREEDOM + d) / 2) - gammaln(_FREEDOM / 2) - d / 2 * math.log(_FREEDOM * math.pi)
    level = np.log(mixture.weight) - volume + constant
    each = level[:, None] - (_FREEDOM + d) / 2 * np.log1p(distance / _FREEDOM)
    top = each.max(axis=0)
    share = np.exp(each - top)
    total = share.sum(axis=0)
    return top + np.log(total), share / total, distance


def _noise(mixture: Mixture, k: Any, precision: Any, normal: Array) -> Array:
    noise: Array = np.einsum("nij,nj->ni", mixture.factor[k], normal) / np.sqrt(precision)[:, None]
    return noise


def _point(mixture: Mixture, y: Array) -> Array:
    return mixture.centre + _each(mixture.root, y).T


def _each(matrix: Array, points: Array) -> Array:
    """Return the matrix (k, m) times each of the points (n, m), as columns (k, n)."""
    product = np.empty((len(matrix), len(points)))
    step = max(1, _BLOCK // matrix.size)
    for first in range(0, len(points), step):
        block = slice(first, first + step)
        np.matmul(matrix, points[block].T, out=product[:, block])
    return product


def _sums(weights: Array, points: Array) -> Array:
    """Return the sums of the points (n, m) with each row of weights (k, n)."""
    step = max(1, _BLOCK // (len(weights) * points.shape[1]))
    blocks = (slice(first, first + step) for first in range(0, len(points), step))
    return np.asarray(sum(weights[:, block] @ points[block] for block in blocks))
