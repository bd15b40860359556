"""Matrices of assembled problems in the block LU of bodies (``..linear``): two contacts make a row of 6x6 blocks.

A matrix with the pattern of W has 3x3 blocks. Contacts between the same two bodies have the same neighbours: taken in
twos they make a quarter as many blocks without filling any in vain, which are ordered four times as fast and
multiplied at the speed of vectors. So each contact is paired with the neighbour that has most neighbours in common with
it and fewest others; one that finds none has an identity beside it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner, kernel
from tamis.sim.contact.assembled.gauss_seidel import Problem
from tamis.sim.contact.linear import BlockLU, analyse, factorise, reset, solve

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
FILL = 64  # pairs that are coupled with each other one, where they are many


class PairedLU(NamedTuple):
    """A matrix whose rows of blocks are pairs of contacts."""

    lu: BlockLU
    slot: Ints  # (contacts,) place of each: pair ``slot // 2``, first or second of it
    n_blocks: int
    work: Array  # (pairs, 6) scratch


@kernel
def pair_up(ptr: Ints, col: Ints, slot: Ints) -> int:
    """Give every contact its place; return the number of pairs."""
    n, pairs = len(slot), 0
    near = np.full(n, -1, np.int64)
    for i in range(n):
        slot[i] = -1
    for i in range(n):
        if slot[i] >= 0:
            continue
        for k in range(ptr[i], ptr[i + 1]):
            near[col[k]] = i
        partner, most = -1, 0
        for k in range(ptr[i], ptr[i + 1]):
            j = col[k]
            if slot[j] < 0 and j != i:
                alike = 0
                for c in range(ptr[j], ptr[j + 1]):
                    alike += 1 if near[col[c]] == i else -1
                if partner < 0 or alike > most:
                    partner, most = j, alike
        slot[i] = 2 * pairs
        if partner >= 0:
            slot[partner] = 2 * pairs + 1
        pairs += 1
    return pairs


@kernel
def order_pairs(ptr: Ints, col: Ints, slot: Ints, pairs: int, lu: BlockLU, most: int) -> tuple[int, int]:
    """Order the pairs for elimination; return the numbers of blocks and products, 0 if there are too many."""
    a, b = np.empty(len(col), np.int64), np.empty(len(col), np.int64)
    for i in range(len(slot)):
        for k in range(ptr[i], ptr[i + 1]):
            a[k], b[k] = slot[i] // 2, slot[col[k]] // 2
    return analyse(pairs, a, b, lu, most)


@inner
def fill_row(
    p: Problem, i: int, f: PairedLU, D: tuple[float, float, float, float, float, float, float, float, float]
) -> None:
    """Write the row of contact ``i`` of ``I + D W``, D by rows."""
    blocks, place, x, o = f.lu.blocks, f.lu.place, f.slot[i] // 2, 3 * (f.slot[i] % 2)
    d00, d01, d02, d10, d11, d12, d20, d21, d22 = D
    for k in range(p.ptr[i], p.ptr[i + 1]):
        s = f.slot[p.col[k]]
        z, c = place[x, s // 2], 3 * (s % 2)
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
def clear(f: PairedLU) -> None:
    """Set the matrix to the identity."""
    reset(len(f.work), f.n_blocks, f.lu)


@inner
def factorise_pairs(f: PairedLU) -> bool:
    """Eliminate in place; False if a pivot block cannot be inverted."""
    return factorise(len(f.work), f.lu)


@inner
def solve_pairs(f: PairedLU, b: Array) -> None:
    """Replace the right-hand side ``b``, (contacts, 3), by the solution."""
    work = f.work
    for k in range(len(work)):
        for c in range(6):
            work[k, c] = 0.0
    for i in range(len(b)):
        for c in range(3):
            work[f.slot[i] // 2, 3 * (f.slot[i] % 2) + c] = b[i, c]
    solve(len(work), f.lu, work)
    for i in range(len(b)):
        for c in range(3):
            b[i, c] = work[f.slot[i] // 2, 3 * (f.slot[i] % 2) + c]
