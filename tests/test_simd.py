"""Six numbers at once: the same bits as one after the other, compiled or not."""

from __future__ import annotations

from typing import Any

import numpy as np

from tamis.jit import kernel
from tamis.simd import put, six, total


def mixed(blocks: Any, rows: Any, f: float) -> float:
    """Use every operation, with one, two and three indices."""
    row = six(rows, 1)
    changed = six(blocks, 1, 2, 3) - f * six(blocks, 0, 1) + row * six(blocks[0, 0], 0)
    put(changed, blocks, 1, 2, 3)
    put(changed + row, rows, 0)
    for k in range(6):
        f += changed[k]
    return f + total(0.25, row)


def test_six_numbers_are_those_of_loops_to_the_bit() -> None:
    rng = np.random.default_rng(1)
    blocks, rows = rng.normal(size=(2, 3, 12)), rng.normal(size=(2, 6))
    expected, moved = blocks.copy(), rows.copy()
    f = 1.7
    for k in range(6):
        expected[1, 2, 3 + k] = (blocks[1, 2, 3 + k] - f * blocks[0, 1, k]) + rows[1, k] * blocks[0, 0, k]
        moved[0, k] = expected[1, 2, 3 + k] + rows[1, k]
    own = 0.25
    for k in range(6):
        f += expected[1, 2, 3 + k]
        own += rows[1, k]
    for function in (mixed, kernel(mixed)):
        b, r = blocks.copy(), rows.copy()
        assert function(b, r, 1.7) == f + own
        assert (b == expected).all() and (r == moved).all()
