"""Whether chains have mixed, and how many independent draws they are worth.

Both figures are those of Vehtari, Gelman, Simpson, Carpenter & Buerkner (2021, 10.1214/20-BA1221), computed by
arviz-stats: chains are cut in two, draws are replaced by the normal scores of their ranks, so that neither heavy
tails nor a drift that all chains share go unseen. What arviz-stats leaves to its callers is said here: draws that are
all the same are worth one draw, and chains that stand still in different places never mix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tamis.types import Array


def rhat(x: Array) -> Array:
    """Return the rank-normalised split rhat of every parameter, (d,), from draws (chains, draws, d).

    It is 1 when all chains tell the same, huge or infinite when they stand still in different places, and NaN
    when nothing has moved at all. A single chain is first cut in two.
    """
    if len(x) == 1:
        half = x.shape[1] // 2
        x = np.concatenate([x[:, :half], x[:, -half:]])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(arviz().rhat(x, chain_axis=0, draw_axis=1), dtype=np.float64)


def ess(x: Array) -> Array:
    """Return the effective number of draws of the bulk of every parameter, (d,), from draws (chains, draws, d)."""
    found = np.asarray(arviz().ess(x, chain_axis=0, draw_axis=1), dtype=np.float64)
    return np.where(np.ptp(x, axis=(0, 1)) == 0, 1.0, found)


def arviz() -> Any:
    """Return the array functions of arviz-stats: no labelled arrays; its import takes a third of a second."""
    from arviz_stats.base.array import array_stats

    return array_stats
