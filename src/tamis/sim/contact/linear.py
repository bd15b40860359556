"""Direct solution of a sparse system of 6x6 blocks, one row of blocks a rigid body.

The matrices of contact problems couple the bodies that touch: their blocks follow the contact graph, which is
symmetric though the numbers are not. A few dozen bodies in a wall give three to six blocks a row after
elimination in the order of least degree (Tinney & Walker 1967, 10.1109/PROC.1967.6011), ten times less work
than a band. The order is found anew at each step: with a table of the blocks it costs a few microseconds, less
than checking whether the graph has changed. The table is square in the bodies, so this is for hundreds of
them, not thousands.

Elimination goes pivot by pivot: the pivot block is inverted with row exchanges, its row is multiplied by the
inverse, and the clique of its neighbours receives the products. There is no exchange between blocks; a pivot
block that cannot be inverted is reported and the caller gives way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


FILL = 12


class BlockLU(NamedTuple):
    """Pattern and blocks of a matrix; all numbers of bodies are those of the caller."""

    order: Indices  # (m,) bodies in the order of elimination
    start: Indices  # (m + 1,) ranges of `after`, by place in the order
    after: Indices  # (blocks,) bodies still coupled with the pivot when its turn comes
    place: NDArray[np.int32]  # (m, m) number of the block of a pair of bodies, or -1
    degree: Indices  # (m,) scratch
    blocks: Array  # (blocks, 6, 6)
    inverse: Array  # (6, 6) scratch


@inner
def block_lu(n_bodies: int) -> BlockLU:
    """Allocate for so many bodies and, if they are many, `FILL` coupled pairs for each."""
    m = n_bodies
    coupled = min(m * (m - 1) // 2, FILL * m)
    return BlockLU(
        np.empty(m, np.int64),
        np.empty(m + 1, np.int64),
        np.empty(coupled, np.int64),
        np.empty((m, m), np.int32),
        np.empty(m, np.int64),
        np.empty((m + 2 * coupled, 6, 6)),
        np.empty((6, 6)),
    )


@inner
def analyse(m: int, a: Indices, b: Indices, lu: BlockLU) -> tuple[int, int]:
    """Order the bodies and number the blocks; return their number (0 if they do not fit) and that of products."""
    if m > lu.order.size:
        return 0, 0
    place, degree = lu.place, lu.degree
    for x in range(m):
        degree[x] = 0
        for y in range(m):
            place[x, y] = -1
    for i in range(a.size):
        x, y = a[i], b[i]
        if x >= 0 and y >= 0 and x != y and place[x, y] < 0:
            place[x, y] = 0
            place[y, x] = 0
            degree[x] += 1
            degree[y] += 1
    count, products, filled = m, 0, 0
    for k in range(m):
        pivot, least = -1, m
        for x in range(m):
            if 0 <= degree[x] < least:
                pivot, least = x, degree[x]
        degree[pivot] = -1
        lu.order[k] = pivot
        lu.start[k] = filled
        place[pivot, pivot] = k
        for x in range(m):
            if degree[x] >= 0 and place[pivot, x] >= 0:
                if filled == lu.after.size:
                    return 0, 0
                lu.after[filled] = x
                filled += 1
        for s in range(lu.start[k], filled):
            x = lu.after[s]
            place[pivot, x] = count
            place[x, pivot] = count + 1
            count += 2
            degree[x] -= 1
            for t in range(lu.start[k], s):
                y = lu.after[t]
                if place[x, y] < 0:
                    place[x, y] = 0
                    place[y, x] = 0
                    degree[x] += 1
                    degree[y] += 1
        products += (filled - lu.start[k] + 1) ** 2
    lu.start[m] = filled
    return count, products


@inner
def invert(blocks: Array, k: int, work: Array) -> bool:
    """Replace block ``k`` by its inverse (Gauss-Jordan with row exchanges); False if it has none."""
    six = blocks.shape[1]  # not a constant, or the compiler unrolls every loop
    for i in range(six):
        for j in range(six):
            work[i, j] = 1.0 if i == j else 0.0
    for c in range(six):
        best = c
        for i in range(c + 1, six):
            if abs(blocks[k, i, c]) > abs(blocks[k, best, c]):
                best = i
        pivot = blocks[k, best, c]
        if not abs(pivot) > 1e-12:
            return False
        if best != c:
            for j in range(six):
                blocks[k, c, j], blocks[k, best, j] = blocks[k, best, j], blocks[k, c, j]
                work[c, j], work[best, j] = work[best, j], work[c, j]
        scale = 1.0 / pivot
        for j in range(six):
            blocks[k, c, j] *= scale
            work[c, j] *= scale
        for i in range(six):
            factor = blocks[k, i, c]
            if i != c and factor != 0.0:
                for j in range(six):
                    blocks[k, i, j] -= factor * blocks[k, c, j]
                    work[i, j] -= factor * work[c, j]
    for i in range(six):
        for j in range(six):
            blocks[k, i, j] = work[i, j]
    return True


@inner
def factorise(m: int, lu: BlockLU) -> bool:
    """Eliminate in place; False if a pivot block cannot be inverted."""
    blocks, place, work = lu.blocks, lu.place, lu.inverse
    six = blocks.shape[1]
    for k in range(m):
        if not invert(blocks, k, work):
            return False
        pivot = lu.order[k]
        for s in range(lu.start[k], lu.start[k + 1]):
            z = place[pivot, lu.after[s]]
            for i in range(six):
                for j in range(six):
                    work[i, j] = blocks[z, i, j]
            for i in range(six):
                c0 = c1 = c2 = c3 = c4 = c5 = 0.0
                for q in range(six):
                    f = blocks[k, i, q]
                    c0 += f * work[q, 0]
                    c1 += f * work[q, 1]
                    c2 += f * work[q, 2]
                    c3 += f * work[q, 3]
                    c4 += f * work[q, 4]
                    c5 += f * work[q, 5]
                blocks[z, i, 0], blocks[z, i, 1], blocks[z, i, 2] = c0, c1, c2
                blocks[z, i, 3], blocks[z, i, 4], blocks[z, i, 5] = c3, c4, c5
        for s in range(lu.start[k], lu.start[k + 1]):
            row = lu.after[s]
            x = place[row, pivot]
            for t in range(lu.start[k], lu.start[k + 1]):
                y, z = place[pivot, lu.after[t]], place[row, lu.after[t]]
                for i in range(six):
                    c0, c1, c2 = blocks[z, i, 0], blocks[z, i, 1], blocks[z, i, 2]
                    c3, c4, c5 = blocks[z, i, 3], blocks[z, i, 4], blocks[z, i, 5]
                    for q in range(six):
                        f = blocks[x, i, q]
                        c0 -= f * blocks[y, q, 0]
                        c1 -= f * blocks[y, q, 1]
                        c2 -= f * blocks[y, q, 2]
                        c3 -= f * blocks[y, q, 3]
                        c4 -= f * blocks[y, q, 4]
                        c5 -= f * blocks[y, q, 5]
                    blocks[z, i, 0], blocks[z, i, 1], blocks[z, i, 2] = c0, c1, c2
                    blocks[z, i, 3], blocks[z, i, 4], blocks[z, i, 5] = c3, c4, c5
    return True


@inner
def solve(m: int, lu: BlockLU, x: Array) -> None:
    """Replace the right-hand side ``x`` (m, 6) by the solution."""
    blocks, place, y = lu.blocks, lu.place, lu.inverse[0]
    six = blocks.shape[1]
    for k in range(m):
        pivot = lu.order[k]
        for i in range(six):
            total = 0.0
            for j in range(six):
                total += blocks[k, i, j] * x[pivot, j]
            y[i] = total
        for i in range(six):
            x[pivot, i] = y[i]
        for s in range(lu.start[k], lu.start[k + 1]):
            row = lu.after[s]
            z = place[row, pivot]
            for i in range(six):
                total = x[row, i]
                for j in range(six):
                    total -= blocks[z, i, j] * y[j]
                x[row, i] = total
    for k in range(m - 1, -1, -1):
        pivot = lu.order[k]
        for s in range(lu.start[k], lu.start[k + 1]):
            other = lu.after[s]
            z = place[pivot, other]
            for i in range(six):
                total = x[pivot, i]
                for j in range(six):
                    total -= blocks[z, i, j] * x[other, j]
                x[pivot, i] = total
