"""Direct solution of a sparse system of 6x6 blocks, one row of blocks a rigid body.

The matrices of contact problems couple the bodies that touch: their blocks follow the contact graph, which is
symmetric though the numbers are not. A few dozen bodies in a wall give three to six blocks a row after
elimination in the order of least degree (Tinney & Walker 1967, 10.1109/PROC.1967.6011), ten times less work
than a band. The order is found anew at each step: with a table of the blocks it costs a few microseconds, less
than checking whether the graph has changed. The table is square in the bodies, so this is for hundreds of
them, not thousands. Assembled problems, which have no bodies, use it with two contacts a row (``assembled/linear.py``).

Elimination goes pivot by pivot: the pivot block is inverted with row exchanges, its row is multiplied by the
inverse, and the clique of its neighbours receives the products. There is no exchange between blocks; a pivot
block that cannot be inverted is reported and the caller gives way. A product of two blocks takes 17 ns: its rows are
six numbers at once (``simd.py``), without which it takes 50.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner
from tamis.simd import put, six, total

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


FILL = 12
UNBOUNDED = 1 << 60


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
def block_lu(n_bodies: int, fill: int = FILL) -> BlockLU:
    """Allocate for so many bodies and, if they are many, ``fill`` coupled pairs for each."""
    m = n_bodies
    coupled = min(m * (m - 1) // 2, fill * m)
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
def analyse(m: int, a: Indices, b: Indices, lu: BlockLU, most: int = UNBOUNDED) -> tuple[int, int]:
    """Order the bodies and number the blocks; return their number and that of products of blocks.

    Both are 0 if the blocks do not fit, or if there are more than ``most`` products.
    """
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
        if products > most:
            return 0, 0
    lu.start[m] = filled
    return count, products


@inner
def reset(m: int, count: int, lu: BlockLU) -> None:
    """Set the matrix of ``count`` blocks to the identity."""
    blocks = lu.blocks
    for k in range(count):
        for i in range(6):
            for j in range(6):
                blocks[k, i, j] = 1.0 if i == j and k < m else 0.0


@inner
def invert(blocks: Array, k: int, work: Array) -> bool:
    """Replace block ``k`` by its inverse (Gauss-Jordan with row exchanges); False if it has none."""
    for i in range(6):
        for j in range(6):
            work[i, j] = 1.0 if i == j else 0.0
    for c in range(6):
        best = c
        for i in range(c + 1, 6):
            if abs(blocks[k, i, c]) > abs(blocks[k, best, c]):
                best = i
        pivot = blocks[k, best, c]
        if not abs(pivot) > 0.0:
            return False
        row, own = six(blocks, k, best), six(work, best)
        if best != c:
            put(six(blocks, k, c), blocks, k, best)
            put(six(work, c), work, best)
        row, own = (1.0 / pivot) * row, (1.0 / pivot) * own
        put(row, blocks, k, c)
        put(own, work, c)
        for i in range(6):
            factor = blocks[k, i, c]
            if i != c and factor != 0.0:
                put(six(blocks, k, i) - factor * row, blocks, k, i)
                put(six(work, i) - factor * own, work, i)
    for i in range(6):
        put(six(work, i), blocks, k, i)
    return True


@inner
def multiply(blocks: Array, x: int, z: int) -> None:
    """Replace block ``z`` by the product of block ``x`` and itself."""
    b0, b1, b2 = six(blocks, z, 0), six(blocks, z, 1), six(blocks, z, 2)
    b3, b4, b5 = six(blocks, z, 3), six(blocks, z, 4), six(blocks, z, 5)
    for i in range(6):
        c = blocks[x, i, 0] * b0 + blocks[x, i, 1] * b1 + blocks[x, i, 2] * b2
        put(c + blocks[x, i, 3] * b3 + blocks[x, i, 4] * b4 + blocks[x, i, 5] * b5, blocks, z, i)


@inner
def subtract_product(blocks: Array, x: int, y: int, z: int) -> None:
    """Subtract the product of the blocks ``x`` and ``y`` from block ``z``."""
    b0, b1, b2 = six(blocks, y, 0), six(blocks, y, 1), six(blocks, y, 2)
    b3, b4, b5 = six(blocks, y, 3), six(blocks, y, 4), six(blocks, y, 5)
    for i in range(6):
        c = six(blocks, z, i) - blocks[x, i, 0] * b0 - blocks[x, i, 1] * b1 - blocks[x, i, 2] * b2
        put(c - blocks[x, i, 3] * b3 - blocks[x, i, 4] * b4 - blocks[x, i, 5] * b5, blocks, z, i)


@inner
def factorise(m: int, lu: BlockLU) -> bool:
    """Eliminate in place; False if a pivot block cannot be inverted."""
    blocks, place, work = lu.blocks, lu.place, lu.inverse
    for k in range(m):
        if not invert(blocks, k, work):
            return False
        pivot = lu.order[k]
        for s in range(lu.start[k], lu.start[k + 1]):
            z = place[pivot, lu.after[s]]
            multiply(blocks, k, z)
        for s in range(lu.start[k], lu.start[k + 1]):
            row = lu.after[s]
            x = place[row, pivot]
            for t in range(lu.start[k], lu.start[k + 1]):
                subtract_product(blocks, x, place[pivot, lu.after[t]], place[row, lu.after[t]])
    return True


@inner
def solve(m: int, lu: BlockLU, x: Array) -> None:
    """Replace the right-hand side ``x`` (m, 6) by the solution."""
    blocks, place, y = lu.blocks, lu.place, lu.inverse[0]
    for k in range(m):
        pivot = lu.order[k]
        b = six(x, pivot)
        for i in range(6):
            y[i] = total(0.0, six(blocks, k, i) * b)
        b = six(y, 0)
        put(b, x, pivot)
        b = -1.0 * b
        for s in range(lu.start[k], lu.start[k + 1]):
            row = lu.after[s]
            z = place[row, pivot]
            for i in range(6):
                x[row, i] = total(x[row, i], six(blocks, z, i) * b)
    for k in range(m - 1, -1, -1):
        pivot = lu.order[k]
        for s in range(lu.start[k], lu.start[k + 1]):
            other = lu.after[s]
            z = place[pivot, other]
            b = -1.0 * six(x, other)
            for i in range(6):
                x[pivot, i] = total(x[pivot, i], six(blocks, z, i) * b)
