"""Errors that outputs of a surrogate share, found in the residuals of runs left out.

Why: ten tests that differ little are ten outputs that a surrogate misses alike. Taken as independent their errors
average out, and a posterior comes out narrower than the surrogate allows, by up to the square root of ten. Runs left
out show which outputs err together: at each run there is a residual of each.

How many factors they share is asked of the residuals' signs. Whatever the sizes (a run at the edge of the design, far
from all others, has residuals many times as large in all outputs at once), signs of independent symmetric errors are
coins, so what their correlations show by chance depends on nothing but the number of runs and outputs (Horn 1965,
10.1007/BF02289447). Nothing is shared unless the largest eigenvalue is one that coins show less than once in a hundred;
then further ones count from once in ten on, since a factor too many costs nothing and one too few is an error that is
averaged away.

How large their shares are is told by sin(pi/2 tau), with Kendall's rank correlation tau of two outputs: for every law
with elliptical contours, whatever its tails, that is the correlation (Lindskog, McNeil & Schmock 2003,
10.1007/978-3-642-59365-9_8). What the factors do not hold stays each output's own.
"""

from __future__ import annotations

import numpy as np

from tamis.types import Array

_MOST = 10  # factors
_FIRST, _MORE = 0.99, 0.9  # quantiles of coins that the first eigenvalue passes, and further ones
_DRAWN = 400  # sets of coins
_FEWEST = 8  # runs, for a rank correlation to tell anything
_PAIRS = 20_000  # of runs compared at once


def factors(residuals: Array) -> Array:
    """Return loadings (m, k) of standardised errors on k common factors, from residuals (n, m), NaN where none.

    An output's error is its standard deviation times (loadings @ factors + own), factors standard normal, the squares
    of its loadings at most 1 in sum.
    """
    m = residuals.shape[1]
    there = np.isfinite(residuals)
    varies = there.sum(axis=0) >= _FEWEST
    varies &= np.nanmax(np.where(there, residuals, np.nan), axis=0, initial=-np.inf) > np.nanmin(
        np.where(there, residuals, np.nan), axis=0, initial=np.inf
    )
    loadings = np.zeros((m, 0))
    if varies.sum() < 2:
        return loadings
    k = min(_standing_out(residuals[:, varies]), _MOST, int(varies.sum()) - 1)
    if k == 0:
        return loadings
    values, vectors = np.linalg.eigh(_rank_correlations(residuals[:, varies]))
    values, vectors = values[::-1], vectors[:, ::-1]
    rest = max(float(np.mean(np.maximum(values[k:], 0.0))), 0.0)
    found = vectors[:, :k] * np.sqrt(np.maximum(values[:k] - rest, 0.0))
    found *= np.where(found.sum(axis=0) < 0, -1.0, 1.0)
    held = np.sum(found**2, axis=1, keepdims=True)
    loadings = np.zeros((m, k))
    loadings[varies] = found / np.sqrt(np.maximum(held, 1.0))
    return loadings


def _rank_correlations(residuals: Array) -> Array:
    """Return correlations (m, m) by Kendall's tau; zero where two outputs have too few runs in common."""
    n, m = residuals.shape
    first, second = np.triu_indices(n, 1)
    agree, counted = np.zeros((2, m, m))
    for start in range(0, len(first), _PAIRS):
        part = slice(start, start + _PAIRS)
        sign = np.sign(residuals[first[part]] - residuals[second[part]])
        there = np.isfinite(sign)
        sign = np.where(there, sign, 0.0)
        agree += sign.T @ sign
        counted += there.T.astype(float) @ there
    tau = np.where(counted >= _FEWEST * (_FEWEST - 1) / 2, agree / np.maximum(counted, 1.0), 0.0)
    found = np.sin(np.pi / 2 * tau)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def _standing_out(residuals: Array) -> int:
    """Return how many eigenvalues of the signs' correlations are larger than those of coins, each than its like."""
    there = np.isfinite(residuals)
    runs = np.sqrt(np.maximum(there.sum(axis=0), 1))

    def eigenvalues(sign: Array) -> Array:
        return np.asarray(np.linalg.svd(sign / runs, compute_uv=False) ** 2)

    rng = np.random.default_rng(1938)
    coins = np.array([eigenvalues(there * rng.choice([-1.0, 1.0], size=there.shape)) for _ in range(_DRAWN)])
    found = eigenvalues(np.where(there, np.where(residuals > 0, 1.0, -1.0), 0.0))
    if found[0] <= np.quantile(coins[:, 0], _FIRST):
        return 0
    return int(np.argmin(np.append(found > np.quantile(coins, _MORE, axis=0), False)))
