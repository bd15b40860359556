"""Sobol indices of the borehole function by brute force, without a surrogate.

Two independent points a and b of the inputs, and a with one coordinate taken from b, give the share of that coordinate
alone, E[f(b) (f(ab) - f(a))] (Saltelli et al. 2010, 10.1016/j.cpc.2009.09.018, table 2 b), and with all its
interactions, E[(f(a) - f(ab))^2] / 2 (Jansen 1999, 10.1016/S0010-4655(98)00154-4). Pairs are scrambled Sobol' points of
16 dimensions: 16 independent scramblings of 2^16 points, 2^20 pairs in all. The value is the mean over the
scramblings, the standard error their scatter over the root of 16.

Run as ``python -m tests.reference.borehole_sobol``, it writes ``tests/data/borehole_sobol.json``.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tamis.design import sobol
from tamis.types import Array, Generator
from tests.surrogates.functions import borehole

FILE = Path(__file__).parent.parent / "data" / "borehole_sobol.json"
SEED, SCRAMBLINGS, POINTS, D = 20, 16, 2**16, 8


def once(n: int, rng: Generator) -> Array:
    """Return first-order and total indices, (2, 8), from n pairs of points."""
    pairs = sobol(n, 2 * D, rng)
    a, b = pairs[:, :D], pairs[:, D:]
    ya, yb = borehole(a), borehole(b)
    both = np.concatenate([ya, yb])
    found = np.empty((2, D))
    for i in range(D):
        mixed = a.copy()
        mixed[:, i] = b[:, i]
        y = borehole(mixed)
        found[:, i] = np.mean((yb - both.mean()) * (y - ya)), np.mean((ya - y) ** 2) / 2
    return np.asarray(found / both.var())


def main() -> None:
    """Compute and write."""
    rng = np.random.default_rng(SEED)
    found = np.array([once(POINTS, rng) for _ in range(SCRAMBLINGS)])
    value, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(SCRAMBLINGS)
    record = {
        "made": "python -m tests.reference.borehole_sobol",
        "points": SCRAMBLINGS * POINTS,
        "first": value[0].tolist(),
        "first_error": error[0].tolist(),
        "total": value[1].tolist(),
        "total_error": error[1].tolist(),
    }
    FILE.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
