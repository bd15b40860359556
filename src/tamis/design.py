"""Designs of experiments: points of the unit cube, thin over `scipy.stats.qmc`."""

from __future__ import annotations

import itertools

import numpy as np

from tamis.errors import StudyError, nearest
from tamis.types import Array, Generator


def sobol(n: int, d: int, rng: Generator) -> Array:
    """Scrambled Sobol' points; n need not be a power of two, though balance is best when it is."""
    from scipy.stats import qmc

    m = max(0, (n - 1).bit_length())
    points: Array = qmc.Sobol(d, scramble=True, rng=rng).random_base2(m)[:n]
    return points


def halton(n: int, d: int, rng: Generator) -> Array:
    """Scrambled Halton points."""
    from scipy.stats import qmc

    points: Array = qmc.Halton(d, scramble=True, rng=rng).random(n)
    return points


def lhs(n: int, d: int, rng: Generator) -> Array:
    """Latin hypercube."""
    from scipy.stats import qmc

    points: Array = qmc.LatinHypercube(d, rng=rng).random(n)
    return points


def maximin(n: int, d: int, rng: Generator, tries: int = 100) -> Array:
    """Best of many Latin hypercubes by the smallest distance between two points."""
    from scipy.spatial.distance import pdist

    if n < 2:
        return lhs(n, d, rng)
    return max((lhs(n, d, rng) for _ in range(tries)), key=lambda u: float(pdist(u).min()))


def grid(levels: int, d: int) -> Array:
    """Centres of a regular grid, levels to the power d points."""
    centres = (np.arange(levels) + 0.5) / levels
    return np.array(list(itertools.product(centres, repeat=d)))


METHODS = {"sobol": sobol, "halton": halton, "lhs": lhs, "maximin": maximin}


def design(method: str, n: int, d: int, rng: Generator) -> Array:
    """Points of the unit cube by the method's name, as a study file gives it."""
    if method == "grid":
        levels = max(1, round(n ** (1 / d)))
        return grid(levels, d)
    if method not in METHODS:
        raise StudyError(f'no design method "{method}"{nearest(method, [*METHODS, "grid"])}')
    return METHODS[method](n, d, rng)
