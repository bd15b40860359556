"""How wrong a sparse polynomial chaos is over the law of the inputs: the error that is reported.

The least of many leave-one-out errors is too small, since it was chosen for being small; the correction by which it
was chosen makes it larger, for large models too much. So the choice is repeated in ten folds, on the way that led to
it: the terms of the first set, the decay that they show, the sets drawn along it. (With sets drawn from all runs the
folds found the robot arm's error at 0.8 of what a whole search in each of them found.) The error on the runs of a
fold, which played no part, is honest, up to two things.

It is that of a tenth fewer runs. Models of smooth functions gain a lot from the last tenth: the claim falls from the
folds to all runs, and the error with it, though less. Over the functions of `tests.battery` the root of the
fall of the claim is about right until the claim falls to a half, and from there on the error falls like the
claim (a fall by orders of magnitude is that of a fit that becomes exact).

It is that of runs, which do not lie like new points: those of an even design lie where the others leave a hole, and
runs that are few do not reach the tails of a law, where what is left out of a polynomial is largest. What is left out
is some combination g of further terms, whose size follows the decay of those that were found. With the coefficients
A g of the fit to it, its error over the law is |g|^2 + |A g|^2 by orthonormality, and its error on runs left out
follows from their leverages. Their ratio turns the one error into the other. For terms of random sign both are sums
over the terms. Over unbounded laws it is all the same sign, as in the series of an exponential, that makes what is left
out small at the runs and large beyond them, so there the signs continue those found as far as these agree with
a product of signs of the inputs. The ratio is 0.6 to 1 for uniform laws, and 2 to 20 for 100 runs of functions of
lognormal inputs.

A model is used only if this error is below 0.8 of the variance of the runs: it is known to a fifth or so, and a model
that is worse than the mean must not pass. Where the mean is all there is, the mean squared error of the mean itself
is reported, which is a Q2 below zero. (Robot arm, 100 runs, 20 designs: the models chosen err by 0.75 to 1.30 of
the variance, and those used by no more than 1.06.)

What this cannot see: a tail no run of which shows how the terms go on, and, in many dimensions, terms that
a design itself cannot tell apart, in or out of a fold (with 4 of 30 inputs that matter and 100 or 200 Sobol' runs
the error is reported at 0.6 of its size; with Latin hypercubes at between a fifth and twice).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis.surrogates.polynomials import Family, Indices, evaluate
from tamis.surrogates.sparse import Choice, again, along, exponential
from tamis.types import Array

_FOLDS = 10
_FALL = 0.5  # of a claim, down to which the error falls as its root
_USEFUL = 0.8  # error over the variance, above which the mean is as good a model, for all that is known
_CHOSEN = 1.1  # by which the choice of the way, which no fold repeats, makes the error too small


@dataclass(frozen=True)
class Error:
    """What the runs say about a model of one output."""

    mse: float  # mean squared error over the law of the inputs, over the variance of the runs
    beyond: float  # error over the law over that on left-out runs
    useful: bool  # better than the mean


def reported(u: Array, y: Array, families: tuple[Family, ...], choice: Choice) -> Error:
    """Return the error of a choice for an output (n,) of unit variance."""
    n = len(u)
    if len(choice.terms) < 2:
        return Error(of_mean(n), 1.0, False)
    folds = min(_FOLDS, n)
    fold = np.random.default_rng(0).permutation(n) % folds
    held, claim = np.array([_without(u, y, families, choice, fold == i) for i in range(folds)]).T
    fall = np.minimum(choice.loo / np.maximum(claim, 1e-300), 1.0)
    beyond = _law_over_runs(u, y, families, choice.terms)
    mse = float(_CHOSEN * beyond * np.mean(held * fall / np.sqrt(np.maximum(fall, _FALL))))
    return Error(mse, beyond, mse < _USEFUL)


def of_mean(n: int) -> float:
    """Return the mean squared error of the mean of n runs, left out one by one, over their variance."""
    return (n / max(n - 1, 1)) ** 2


def _without(
    u: Array, y: Array, families: tuple[Family, ...], choice: Choice, out: NDArray[np.bool_]
) -> tuple[float, float]:
    """Choose again without some runs; return the error on them, and the claim."""
    mean, spread = y[~out].mean(), max(float(y[~out].std()), 1e-300)
    inside = (y[~out] - mean) / spread
    found = again(u[~out], inside, families, choice)
    c = np.linalg.lstsq(evaluate(u[~out], families, found.terms).T, inside, rcond=None)[0]
    wrong = y[out] - mean - spread * (c @ evaluate(u[out], families, found.terms))
    return float(np.mean(wrong**2)), found.loo * spread**2


def _law_over_runs(u: Array, y: Array, families: tuple[Family, ...], terms: Indices) -> float:
    """Return the error over the law of what terms (k, d) leave out, over that on left-out runs."""
    if len(terms) < 3:
        return 1.0
    d = u.shape[1]
    q, r = np.linalg.qr(evaluate(u, families, terms).T)
    c = np.linalg.solve(r, q.T @ y)[1:]
    decay = exponential(terms[1:], np.abs(c))
    known = {tuple(row) for row in terms.tolist()}
    candidates = along(decay, len(u))
    further = candidates[[tuple(row) not in known for row in candidates.tolist()]]
    if len(further) == 0:
        return 1.0
    size = np.exp(-decay[np.arange(d), further].sum(axis=1))
    parts = evaluate(u, families, further).T * (size / np.sqrt(np.sum(size**2)))
    signs, agree = np.ones(d), 0.0
    if any(law.unbounded for law in families):
        signs, agree = _signs(terms[1:], c)
    whole = (parts @ _product(signs, further))[:, None]
    free = np.maximum(1 - np.sum(q**2, axis=1), 1e-10)[:, None]
    law, runs = 1.0, 0.0
    for share, g in ((agree**2, whole), (1 - agree**2, parts)):
        if share > 0:
            inside = q.T @ g
            law += share * np.sum(np.linalg.solve(r, inside) ** 2)
            runs += share * np.sum(np.mean(((g - q @ inside) / free) ** 2, axis=0))
    return float(law / max(runs, 1e-300))


def _signs(terms: Indices, c: Array) -> tuple[Array, float]:
    """Return signs of the inputs whose products are those of coefficients (k,) of terms (k, d), and how often they are.

    The second is 1 if always. Inputs in turn; coefficients count by the root of their size.
    """
    weight = np.sign(c) * np.sqrt(np.abs(c))
    signs = np.ones(terms.shape[1])
    best = abs(weight @ _product(signs, terms))
    for i in [*range(len(signs))] * 3:
        signs[i] *= -1
        found = abs(weight @ _product(signs, terms))
        if found > best:
            best = found
        else:
            signs[i] *= -1
    return signs, float(best / np.sum(np.abs(weight)))


def _product(signs: Array, terms: Indices) -> Array:
    return np.asarray(np.prod(np.where(terms % 2 == 1, signs, 1.0), axis=1))
