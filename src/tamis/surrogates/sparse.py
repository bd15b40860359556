"""Which polynomials: the search over sets of candidates, and the error of the model it ends with.

First the usual search: hyperbolic sets of every degree and three q-norms, each ordered by least angles, the model of
least corrected leave-one-out error (Blatman & Sudret 2011, 10.1016/j.jcp.2010.12.021). These sets treat all
inputs alike, and few functions do. So the coefficients found say how they fall along each input (a regression of
log |c| on the exponents), and sets are drawn anew along that fall, their terms favoured by it or not. Two laws are
tried, one after the other. Smooth functions fall exponentially: on the borehole function with 200 runs the error
is divided by nine. Functions with kinks fall as a power of the degree, and many functions are even or odd in an
input: with this second law the error on the Sobol' G function with 200 runs falls from 0.010 to 0.0046, that on
sums of kinks with 100 runs by two to three, that on the Ishigami function with 100 runs from 5e-9 to 3e-12
(medians over 20 designs).

How wrong the model is that the search ends with, which chose it for claiming little, is found in
`tamis.surrogates.honest`: it goes the same way to it again (`again`) without some of the runs.

With fewer than ten runs an input nothing of that holds: among many candidates some fit by chance, and no correction
sees it. So there candidates and terms a run shrink with the number of runs. On sums of kinks and on two smooth
functions of four and five inputs with 8 and 12 runs, a Q2 above 0.95 is then claimed without being true by 13 of
180 designs instead of 55.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.surrogates.lars import least_angle
from tamis.surrogates.polynomials import DEGREE, Family, anisotropic, evaluate, hyperbolic
from tamis.types import Array, Indices

NORMS = (0.5, 0.75, 1.0)
_TERMS_PER_RUN = 10  # candidates, at most
_STEPS_PER_RUN = 0.8  # terms of a model, at most
_RUNS_PER_INPUT = 10  # below which there are fewer candidates and terms a run
_GROWTH = 1.2  # of a set, below which it is passed over
_STALE = 4  # degrees tried together; a q-norm is given up when none of them gains
_DECAY_NORMS, _DECAY_TERMS_PER_RUN = (0.5, 1.0), 4
_PRIOR = 0.3  # weight of a rate of 1, in terms
_PARITY = 3.0  # powers of e by which odd or even degrees fall behind, at most
_FLOOR = 1e-12  # of the largest coefficient: what is smaller says nothing of the decay
_BATCH = 24  # outputs in step


@dataclass(frozen=True)
class Choice:
    """A model of one output: candidates, the terms chosen among them, and how the candidates were come by."""

    loo: float  # corrected leave-one-out error, over the variance
    candidates: Indices  # (P, d), the constant first
    terms: Indices  # (k, d), the constant first
    head: Indices  # (P', d), set of the first search
    redrawn: tuple[
        tuple[int, float], ...
    ] = ()  # laws of decay along which sets were drawn since, with their norms


def most_candidates(n: int, d: int) -> int:
    """Return how many candidates n runs can tell apart, at least the linear ones."""
    return max(int(_TERMS_PER_RUN * n * _plenty(n, d)), d + 1)


def _longest(n: int, d: int) -> int:
    """Return how many terms beside the constant n runs can bear, a linear model's if that is possible at all."""
    return max(1, min(d, n - 2), min(int(_STEPS_PER_RUN * n * _plenty(n, d)), n - 2))


def _plenty(n: int, d: int) -> float:
    return min(1.0, n / (_RUNS_PER_INPUT * d))


def _patience(n: int) -> int:
    return max(24, n // 7)


def search(
    u: Array, y: Array, families: tuple[Family, ...], sets: list[list[Indices]], refine: bool
) -> list[Choice]:
    """Choose a model for each output (m, n): nested sets in rising order, family by family, then along rates."""
    constant = np.zeros((1, u.shape[1]), dtype=np.int64)
    chosen = [Choice(np.inf, constant, constant, constant)] * len(y)
    for nested in sets:
        if not nested:
            continue
        phi = evaluate(u, families, nested[-1])[1:]
        best, alive = np.full(len(y), np.inf), np.arange(len(y))
        for start in range(0, len(nested), _STALE):
            heads = nested[start : start + _STALE]
            before = best.copy()
            for first in range(0, len(alive), _BATCH):
                batch = alive[first : first + _BATCH]
                found = _paths(
                    phi[: len(heads[-1]) - 1],
                    y[batch],
                    heads,
                    [None] * len(heads),
                    _patience(len(u)) // 2,
                )
                for i, choice in zip(np.repeat(batch, len(heads)), found, strict=True):
                    best[i] = min(best[i], choice.loo)
                    chosen[i] = min(chosen[i], choice, key=_claim)
            alive = np.flatnonzero(best < before)
    if refine:
        for law in range(len(_LAWS)):
            chosen = [
                min(choice, *_redrawn(u, y[i], families, choice, law, _DECAY_NORMS), key=_claim)
                for i, choice in enumerate(chosen)
            ]
    return chosen


def again(u: Array, y: Array, families: tuple[Family, ...], choice: Choice) -> Choice:
    """Choose a model of an output (n,) the way that led to another: the same first set, the same laws of decay."""
    phi = evaluate(u, families, choice.head[1:])
    (found,) = _paths(phi, y[None], [choice.head], [None], _patience(len(u)) // 2)
    for law, q in choice.redrawn:
        found = min(found, *_redrawn(u, y, families, found, law, (q,)), key=_claim)
    return found


def _claim(choice: Choice) -> float:
    return choice.loo


def hyperbolic_sets(n: int, d: int, degrees: range, norms: tuple[float, ...]) -> list[list[Indices]]:
    """Return the sets of each q-norm, each a head of the next."""
    answer = []
    for q in norms:
        nested: list[Indices] = []
        for degree in degrees:
            found = hyperbolic(d, degree, q, most_candidates(n, d))
            if found is None:
                break
            if not nested or len(found) > _GROWTH * len(nested[-1]):
                nested.append(found)
        answer.append(nested)
    return answer


def _paths(
    phi: Array, y: Array, heads: list[Indices], favours: list[Array | None], patience: int
) -> list[Choice]:
    """Choose a step for each output and each head of the candidates with its favour, output by output."""
    (m, n), h = y.shape, len(heads)
    favour = None
    if any(f is not None for f in favours):
        favour = np.ones((h, len(phi)))
        for row, f in zip(favour, favours, strict=True):
            row[: len(phi) if f is None else len(f)] = 1.0 if f is None else f
        favour = np.tile(favour, (m, 1))
    paths = least_angle(
        phi,
        np.repeat(y, h, axis=0),
        _longest(n, heads[0].shape[1]),
        patience,
        sizes=np.tile([len(head) - 1 for head in heads], m),
        favour=favour,
    )
    answer = []
    for i, (order, loo) in enumerate(zip(paths.order, paths.loo, strict=True)):
        step = int(np.argmin(loo))
        entered = order[:step][order[:step] >= 0]
        head = heads[i % h]
        answer.append(Choice(float(loo[step]), head, head[np.append(0, entered + 1)], head))
    return answer


def _redrawn(
    u: Array, y: Array, families: tuple[Family, ...], choice: Choice, law: int, norms: tuple[float, ...]
) -> list[Choice]:
    """Choose in sets drawn along the decay of the coefficients found, as they come and with their terms favoured."""
    (n, d), found = u.shape, [choice]
    if len(choice.terms) < 3:
        return found
    coefficients = np.linalg.lstsq(evaluate(u, families, choice.terms).T, y, rcond=None)[0]
    decay = _LAWS[law](choice.terms[1:], np.abs(coefficients[1:]))
    for q in norms:
        candidates = along(decay, n, q)
        phi = evaluate(u, families, candidates[1:])
        fall = np.exp(-decay[np.arange(d), candidates[1:]].sum(axis=1))
        favours = [None, np.maximum(np.sqrt(fall), 1e-6)]
        way = (*choice.redrawn, (law, q))
        drawn = _paths(phi, y[None], [candidates] * 2, favours, _patience(n))
        found.extend(replace(each, head=choice.head, redrawn=way) for each in drawn)
    return found


def along(decay: Array, n: int, q: float = 1.0) -> Indices:
    """Return candidates for n runs along a decay (d, DEGREE + 1), the constant first."""
    return anisotropic(decay**q, min(_DECAY_TERMS_PER_RUN * n, most_candidates(n, len(decay))))


def exponential(terms: Indices, size: Array) -> Array:
    """Return by how many powers of e coefficients fall from degree 0, (d, DEGREE + 1): at a rate for each input.

    Terms are (k, d), without the constant, with the sizes of their coefficients (k,).
    """
    (rate,) = _regressed([terms], size / size.max() + _FLOOR)
    return np.asarray(rate[:, None] * np.arange(DEGREE + 1))


def _algebraic(terms: Indices, size: Array) -> Array:
    """Return the same for a fall at once and then as a power of the degree; odd or even degrees may be missing.

    Whether they are is told by the logarithms of the sums of squares of degrees 1 to 4, in the combination to which
    an exponential fall adds nothing.
    """
    degree, size = np.arange(DEGREE + 1), size / size.max() + _FLOOR
    entry, power = _regressed([terms > 0, np.log(np.maximum(terms, 1))], size)
    squares = [((terms == k) * size[:, None] ** 2).sum(axis=0) + size.min() ** 2 for k in (1, 2, 3, 4)]
    even = np.clip(np.array([-1, 3, -3, 1]) / 8 @ np.log(squares), -_PARITY, _PARITY)[:, None]
    missing = np.where(degree % 2 == 1, np.maximum(even, 0), np.maximum(-even, 0)) * (degree > 0)
    return np.asarray(
        entry[:, None] * (degree > 0) + power[:, None] * np.log(np.maximum(degree, 1)) + missing
    )


def _regressed(features: list[NDArray[Any]], size: Array) -> Array:
    """Regress the fall of log coefficients on features (k, d) of their terms, (len(features), d).

    A weak prior, 1, stands in for inputs that the terms say little about.
    """
    rows = np.hstack([np.ones((len(size), 1)), *(-feature.astype(np.float64) for feature in features)])
    prior = _PRIOR * np.eye(rows.shape[1])[1:]
    wanted = np.append(np.log(size), np.full(len(prior), _PRIOR))
    fitted = np.linalg.lstsq(np.vstack([rows, prior]), wanted, rcond=None)[0][1:]
    return np.asarray(np.maximum(fitted, 0.1).reshape(len(features), -1))


_LAWS = (exponential, _algebraic)
