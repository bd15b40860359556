"""Modes that a tempered population walks past: found in what its first stage has evaluated anyway, and climbed.

A mode much narrower than the others has no mass worth the name until the exponent is near 1; a population of a
few thousand points then has none there, and nothing leads the others to it. Yet the first stage evaluates the
likelihood at six points or more for every point of the population, spread almost as widely as the prior, and a
few of them lie where the narrow mode shows. They are forgotten: at that exponent the place has no weight. Here
they are remembered, together with four points of the prior for every point of the population.

- Of all points evaluated the best are kept. Those furthest, in the unit cube of the prior, from any better one
  are the starts: the top of every hill that the points can tell apart, without a threshold (nearest better
  neighbours, Preuss 2010, 10.1145/1830761.1830793).
- Each start climbs by cross-entropy steps (Rubinstein 1999, 10.1023/A:1010091220143): a cloud is drawn about it,
  and the best eighth of the cloud gives the next. Ranks need no derivative and bear kinks. Then the cloud takes
  the shape of the posterior there, by weighted moments (population Monte Carlo: Cappé, Guillin, Marin & Robert
  2004, 10.1198/106186004X12803), the weights tempered where they would leave few points.
- What the starts arrive at joins every mixture that moves the population from then on, as components of small
  weight, and slows the exponent where a mode gains its mass within one step of it.

Nothing is lost of exactness. The components are fixed before the stages that use them begin; given them, every
move is a Metropolis-Hastings step for the stage's own law, as with any other proposal, and the evidence is a bridge
to a mixture whose density is known. What a stage takes from earlier ones is as harmless here as in every adaptive
sequence (Beskos, Jasra, Kantas & Thiery 2016, 10.1214/15-AAP1113). Components at a wrong place cost their share of
the proposals, no more.

What this cannot find: a mode whose slope no point evaluated so far has seen. If it shows in a share p of the prior's
mass, N points miss it with probability exp(-N p).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp, ndtr

from tamis.inference import scores
from tamis.types import Array, Generator, Indices

LOOKS = 4  # batches of points of the prior
CLIMBS = 3  # batches by which starts climb, half as large
WEIGHS = 3  # and by which they take the posterior's shape
BATCHES = LOOKS + CLIMBS + WEIGHS
SHARE = 0.1  # of a mixture's weight, for the components found
_STARTS = 8  # at most
_POINTS = 2048  # remembered, at most
_FREEDOM = 8.0  # degrees of freedom of the clouds
_ELITE = 8  # one point in so many shapes the next cloud of a climb
_EFFECTIVE = 5  # and in weighing, an effective one in so many
_FIRST = 0.3  # first width of a cloud, the distance between points being 1
_KNOWN = 0.02  # share of the first stage's population that a cloud holds, above which it is dropped
_FEWEST = 4  # and points that it holds, in a small population
_NEGLIGIBLE = 1e-4  # mass of a mode that is dropped, the largest being 1


def remember(points: Array, z: Array, log_likelihood: Array, most: int) -> Array:
    """Return the best of the remembered points and new ones, rows of scores and log-likelihood, (m, d + 1)."""
    known = np.isfinite(log_likelihood)
    points = np.vstack([points, np.column_stack([z, log_likelihood])[known]])
    best = np.argsort(-points[:, -1], kind="stable")[: min(most, _POINTS)]
    return points[best]


def least(d: int) -> int:
    """Return the smallest batch: four draws a coefficient of two centres, one cloud being the population's own."""
    return 8 * (d + 1)


def starts(points: Array, evaluated: int, size: int) -> tuple[Array, Array]:
    """Return centres (K, d) and scale matrices (K, d, d) of the first clouds.

    Parameters
    ----------
    points
        What was remembered, the best first.
    evaluated
        Number of points they are the best of; the more, the closer together they lie.
    size
        Points in a batch, shared by the clouds.
    """
    d = points.shape[1] - 1
    count = min(_STARTS, 2 * size // least(d), len(points))
    u = ndtr(points[:, :-1])
    apart = np.array([np.inf, *(((u[:i] - u[i]) ** 2).sum(axis=1).min() for i in range(1, len(u)))])
    mean = points[np.argsort(-apart, kind="stable")[:count], :-1]
    # from a distance in the unit cube to one in scores: divided by the normal density
    sd = _FIRST * evaluated ** (-1 / d) * math.sqrt(2 * math.pi) * np.exp(0.5 * mean**2)
    return mean, np.minimum(sd, 1.0)[:, :, None] ** 2 * np.eye(d)


@dataclass(frozen=True)
class Batch:
    """Draws of all clouds."""

    z: Array  # (size, d)
    cloud: Indices  # (size,), which cloud each was drawn from
    log_prior: Array  # (size,)
    base: Array  # (size,), log of prior / (cloud's density x its draws)


def draw(mean: Array, scale: Array, size: int, rng: Generator) -> Batch:
    """Draw a batch from all clouds, in turn."""
    count, d = mean.shape
    cloud = np.arange(size) % count
    factor = np.linalg.cholesky(scale)
    precision = rng.gamma(_FREEDOM / 2, 2 / _FREEDOM, size=(size, 1))
    step = rng.standard_normal((size, d)) / np.sqrt(precision)
    z = mean[cloud] + np.einsum("nij,nj->ni", factor[cloud], step)
    log_prior = scores.log_prior(z)
    log_q = gammaln((_FREEDOM + d) / 2) - gammaln(_FREEDOM / 2) - d / 2 * math.log(_FREEDOM * math.pi)
    log_q = log_q - (_FREEDOM + d) / 2 * np.log1p((step**2).sum(axis=1) / _FREEDOM)
    log_q -= np.log(np.einsum("kii->ki", factor)).sum(axis=1)[cloud]
    return Batch(z, cloud, log_prior, log_prior - log_q - np.log(np.bincount(cloud))[cloud])


def advance(
    mean: Array, scale: Array, batch: Batch, log_likelihood: Array, climb: bool
) -> tuple[Array, Array, Array]:
    """Move and shape each cloud by its own draws.

    Return the clouds, and for every draw the log-likelihood, the log of prior / (cloud's density x its draws), and the
    cloud's number, (size, 3): the sum of exp(log-likelihood + the second) over a cloud is the mass that it covers.
    """
    count, d = mean.shape
    mean, scale = mean.copy(), scale.copy()
    z, cloud, log_prior, base = batch.z, batch.cloud, batch.log_prior, batch.base
    for k in range(count):
        known = (cloud == k) & np.isfinite(log_likelihood)
        here = z[known]
        if len(here) <= d:
            continue
        if climb:
            few = max(2, len(here) // _ELITE)
            best = np.argsort(-(log_likelihood + log_prior)[known])[:few]
            here, weight, centre = here[best], np.full(few, 1 / few), mean[k].copy()
        else:
            few = min(max(d + 2, len(here) // _EFFECTIVE), len(here) - 1)
            weight = _tempered((log_likelihood + base)[known], few)
            centre = weight @ here
        mean[k] = weight @ here
        off = here - centre  # of a climb, from where it was: the cloud grows in the direction of progress
        spread = (weight[:, None] * off).T @ off
        trust = 1 / (1 + (d / few) ** 2)
        scale[k] = trust * spread + np.diag((1 - trust) * np.diag(spread) + 1e-12)
    return mean, scale, np.column_stack([log_likelihood, base, cloud])


def distinct(mean: Array, scale: Array, draws: Array, population: Array) -> tuple[Array, Array, Array]:
    """Return the clouds that are neither negligible nor one with another of greater mass, and their draws, (m, 2).

    Two are one if each has the other's centre within twice its radius; a narrow one within a wide one is kept. A cloud
    that holds a fair share of the population (n, d) within twice its radius is dropped: nothing need lead there, and
    its proposals would have the bulk of a funnel mixed, and the stage over, before the neck is filled.
    """
    radius = 4 * mean.shape[1]  # twice the radius, squared
    mass = np.array([logsumexp(draws[draws[:, 2] == k, :2].sum(axis=1)) for k in range(len(mean))])
    kept: list[int] = []
    for k in np.argsort(-mass, kind="stable"):
        if not mass[k] > mass.max() + math.log(_NEGLIGIBLE):
            break
        off = mean[k] - mean[kept]
        theirs = np.einsum("ki,kij,kj->k", off, np.linalg.inv(scale[kept]), off)
        mine = _distance(off, scale[k])
        if not np.any(np.maximum(mine, theirs) < radius):
            kept.append(int(k))
    inside = [np.mean(_distance(population - mean[k], scale[k]) < radius) for k in kept]
    known = max(_KNOWN, _FEWEST / len(population))
    kept = [k for k, share in zip(kept, inside, strict=True) if share < known]
    possible = np.isin(draws[:, 2], kept) & np.isfinite(draws[:, 0])
    return mean[kept], scale[kept], draws[possible, :2]


def _distance(off: Array, scale: Array) -> Array:
    """Return squared distances (n,) of points (n, d) from a cloud, the radius being the root of d."""
    return np.asarray(np.einsum("ni,ij,nj->n", off, np.linalg.inv(scale), off))


def _tempered(log_weight: Array, least: float) -> Array:
    """Return weights whose logarithms are scaled down until they leave that effective number of points."""

    def weights(exponent: float) -> Array:
        return np.asarray(np.exp(exponent * (log_weight - log_weight.max())))

    def excess(exponent: float) -> float:
        weight = weights(exponent)
        return float(weight.sum() ** 2 / (weight**2).sum()) - least

    weight = weights(1.0 if excess(1.0) >= 0 else brentq(excess, 0.0, 1.0, xtol=1e-6))
    return np.asarray(weight / weight.sum())
