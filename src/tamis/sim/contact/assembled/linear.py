"""Matrices of assembled problems in the block LU of bodies (``..linear``): two contacts make a row of 6x6 blocks.

A matrix with the pattern of W has 3x3 blocks. Contacts that follow each other mostly act on the same bodies, and then
have the same neighbours: taken in twos they make a quarter as many blocks without filling any in vain, which are
ordered four times as fast and multiplied at the speed of vectors. Where two have not all bodies in common, as in piles
of spheres, some zeros are multiplied too. An odd contact has an identity beside it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner, kernel
from tamis.sim.contact.assembled.gauss_seidel import Problem
from tamis.sim.contact.linear import BlockLU, analyse, solve

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
FILL = 64  # pairs that are coupled with each other one, where they are many


@kernel
def order_pairs(ptr: Ints, col: Ints, lu: BlockLU, most: int) -> tuple[int, int]:
    """Order pairs of contacts for elimination; return the numbers of blocks and products, 0 if there are too many."""
    n = len(ptr) - 1
    a, b = np.empty(len(col), np.int64), np.empty(len(col), np.int64)
    for i in range(n):
        for k in range(ptr[i], ptr[i + 1]):
            a[k], b[k] = i // 2, col[k] // 2
    return analyse((n + 1) // 2, a, b, lu, most)


@inner
def fill_row(
    p: Problem,
    i: int,
    lu: BlockLU,
    D: tuple[float, float, float, float, float, float, float, float, float],
) -> None:
    """Write the row of contact ``i`` of ``I + D W``, D by rows."""
    blocks, place, x, o = lu.blocks, lu.place, i // 2, 3 * (i % 2)
    d00, d01, d02, d10, d11, d12, d20, d21, d22 = D
    for k in range(p.ptr[i], p.ptr[i + 1]):
        j = p.col[k]
        z, c = place[x, j // 2], 3 * (j % 2)
        for b in range(3):
            m0, m1, m2 = p.block[k, 3 * b], p.block[k, 3 * b + 1], p.block[k, 3 * b + 2]
            blocks[z, o, c + b] = d00 * m0 + d01 * m1 + d02 * m2
            blocks[z, o + 1, c + b] = d10 * m0 + d11 * m1 + d12 * m2
            blocks[z, o + 2, c + b] = d20 * m0 + d21 * m1 + d22 * m2
    z = place[x, x]
    for b in range(3):
        m0, m1, m2 = p.diagonal[i, 0, b], p.diagonal[i, 1, b], p.diagonal[i, 2, b]
        blocks[z, o, o + b] = d00 * m0 + d01 * m1 + d02 * m2
        blocks[z, o + 1, o + b] = d10 * m0 + d11 * m1 + d12 * m2
        blocks[z, o + 2, o + b] = d20 * m0 + d21 * m1 + d22 * m2
        blocks[z, o + b, o + b] += 1.0


@inner
def solve_pairs(lu: BlockLU, b: Array, work: Array) -> None:
    """Replace the right-hand side ``b``, (contacts, 3), by the solution; ``work`` is (pairs, 6)."""
    work[len(work) - 1, 3] = work[len(work) - 1, 4] = work[len(work) - 1, 5] = 0.0
    for i in range(len(b)):
        for c in range(3):
            work[i // 2, 3 * (i % 2) + c] = b[i, c]
    solve(len(work), lu, work)
    for i in range(len(b)):
        for c in range(3):
            b[i, c] = work[i // 2, 3 * (i % 2) + c]
