"""Sparse block LU of a matrix with the pattern of W, in an order found once.

Contacts of one body see each other, others do not: W is a set of overlapping cliques, and eliminating the
contact with the fewest neighbours first (minimum degree; George & Liu 1989, 10.1137/1031001) leaves little
fill: 25 contacts at most at once in a wall of 233, 7 in a stack of boxes. The degrees are exact and the graph
is a plain table of bytes, which for the few thousand contacts where a factorisation pays at all is faster than
anything clever.

The symbolic part also writes down, for every product of the elimination, the block it lands on. The numerical
part is then three nested loops over 3x3 blocks without a search. There is no pivoting but inside the diagonal
blocks: the caller's matrix is positive definite but for the friction terms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner, kernel

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


class Pattern(NamedTuple):
    """Elimination order and, by step, the later neighbours; where W's blocks and the products go."""

    order: Ints
    ptr: Ints
    later: Ints
    source: Ints
    target: NDArray[np.int32]


class Factor(NamedTuple):
    """The blocks (upper, lower, diagonal one after the other, each 9 numbers by rows) and inverse diagonal."""

    block: Array
    inverse: Array


@kernel
def eliminate(ptr: Ints, col: Ints, table: NDArray[np.uint8], order: Ints, degrees: Ints, most: int) -> int:
    """Order by minimum degree, growing ``table``; return the number of block products, or -1 beyond ``most``."""
    n = len(order)
    degree = np.zeros(n, np.int64)
    near = np.empty(n, np.int64)
    for i in range(n):
        for k in range(ptr[i], ptr[i + 1]):
            table[i, col[k]] = 1
            table[col[k], i] = 1
    for i in range(n):
        for j in range(n):
            degree[i] += table[i, j]
    products = 0
    for step in range(n):
        v = -1
        for i in range(n):
            if degree[i] >= 0 and (v < 0 or degree[i] < degree[v]):
                v = i
        order[step] = v
        found = 0
        for j in range(n):
            if table[v, j] and degree[j] >= 0:
                near[found] = j
                found += 1
        products += found * found
        if products > most:
            return -1
        degrees[step] = found
        degree[v] = -1
        for a in range(found):
            i = near[a]
            degree[i] -= 1
            for b in range(a):
                j = near[b]
                if not table[i, j]:
                    table[i, j] = 1
                    table[j, i] = 1
                    degree[i] += 1
                    degree[j] += 1
    return products


@kernel
def locate(table: NDArray[np.uint8], ptr: Ints, col: Ints, pattern: Pattern) -> None:
    """Write the neighbours of each step, the place of each block of W, and the target of each product.

    With m blocks above the diagonal, place k is the k-th of them, m + k the lower one opposite to it, and 2 m + i
    the diagonal block of step i.
    """
    n, m = len(pattern.order), len(pattern.later)
    rank, place = np.empty(n, np.int64), np.empty(n, np.int64)
    begin, cursor = np.zeros(n + 1, np.int64), np.zeros(n, np.int64)
    for step in range(n):
        rank[pattern.order[step]] = step
    for step in range(n):
        k = pattern.ptr[step]
        for after in range(step + 1, n):
            if table[pattern.order[step], pattern.order[after]]:
                pattern.later[k] = after
                k += 1
        d = k - pattern.ptr[step]
        begin[step + 1] = begin[step] + d * d
    for i in range(n):  # what lands in row or column i, found while the places of i are at hand
        v = pattern.order[i]
        for k in range(pattern.ptr[i], pattern.ptr[i + 1]):
            j = pattern.later[k]
            place[j] = k
            w = pattern.order[j]
            for c in range(ptr[w], ptr[w + 1]):
                if col[c] == v:
                    pattern.source[c] = m + k
        for k in range(ptr[v], ptr[v + 1]):
            if rank[col[k]] > i:
                pattern.source[k] = place[rank[col[k]]]
        for s in range(i):
            if not table[v, pattern.order[s]]:
                continue
            first, d, a = pattern.ptr[s], pattern.ptr[s + 1] - pattern.ptr[s], cursor[s]
            cursor[s] += 1
            pattern.target[begin[s] + a * d + a] = 2 * m + i
            for b in range(a + 1, d):
                k = place[pattern.later[first + b]]
                pattern.target[begin[s] + a * d + b] = k
                pattern.target[begin[s] + b * d + a] = m + k


@inner
def invert_pivoted(m: Array, out: Array) -> None:
    """Invert a block (9 numbers, left spoilt) by elimination with pivots: near the end its numbers are far apart."""
    for i in range(3):
        for j in range(3):
            out[i, j] = 1.0 if i == j else 0.0
    for c in range(3):
        best = c
        for i in range(c + 1, 3):
            if abs(m[3 * i + c]) > abs(m[3 * best + c]):
                best = i
        if best != c:
            for j in range(3):
                m[3 * c + j], m[3 * best + j] = m[3 * best + j], m[3 * c + j]
                out[c, j], out[best, j] = out[best, j], out[c, j]
        f = 1.0 / m[3 * c + c]
        for j in range(3):
            m[3 * c + j] *= f
            out[c, j] *= f
        for i in range(3):
            if i != c:
                g = m[3 * i + c]
                for j in range(3):
                    m[3 * i + j] -= g * m[3 * c + j]
                    out[i, j] -= g * out[c, j]


@kernel
def factorise(pattern: Pattern, f: Factor) -> None:
    """Factorise in place."""
    p, m = 0, len(pattern.later)
    block, target = f.block, pattern.target
    for step in range(len(pattern.order)):
        start, end = pattern.ptr[step], pattern.ptr[step + 1]
        v = f.inverse[step]
        invert_pivoted(block[2 * m + step], v)
        for a in range(m + start, m + end):
            for i in range(0, 9, 3):
                a0, a1, a2 = block[a, i], block[a, i + 1], block[a, i + 2]
                block[a, i] = a0 * v[0, 0] + a1 * v[1, 0] + a2 * v[2, 0]
                block[a, i + 1] = a0 * v[0, 1] + a1 * v[1, 1] + a2 * v[2, 1]
                block[a, i + 2] = a0 * v[0, 2] + a1 * v[1, 2] + a2 * v[2, 2]
            a0, a1, a2 = block[a, 0], block[a, 1], block[a, 2]
            a3, a4, a5 = block[a, 3], block[a, 4], block[a, 5]
            a6, a7, a8 = block[a, 6], block[a, 7], block[a, 8]
            for b in range(start, end):
                to = target[p]
                p += 1
                for c in range(3):
                    b0, b1, b2 = block[b, c], block[b, 3 + c], block[b, 6 + c]
                    block[to, c] -= a0 * b0 + a1 * b1 + a2 * b2
                    block[to, 3 + c] -= a3 * b0 + a4 * b1 + a5 * b2
                    block[to, 6 + c] -= a6 * b0 + a7 * b1 + a8 * b2


@kernel
def solve(pattern: Pattern, f: Factor, b: Array, work: Array) -> None:
    """Replace b (n, 3) by the solution; ``work`` is (n, 3)."""
    n, m = len(pattern.order), f.block
    half = len(pattern.later)
    for step in range(n):
        for c in range(3):
            work[step, c] = b[pattern.order[step], c]
    for step in range(n):
        x0, x1, x2 = work[step, 0], work[step, 1], work[step, 2]
        for k in range(pattern.ptr[step], pattern.ptr[step + 1]):
            j, low = pattern.later[k], half + k
            work[j, 0] -= m[low, 0] * x0 + m[low, 1] * x1 + m[low, 2] * x2
            work[j, 1] -= m[low, 3] * x0 + m[low, 4] * x1 + m[low, 5] * x2
            work[j, 2] -= m[low, 6] * x0 + m[low, 7] * x1 + m[low, 8] * x2
    for step in range(n - 1, -1, -1):
        y0, y1, y2 = work[step, 0], work[step, 1], work[step, 2]
        for k in range(pattern.ptr[step], pattern.ptr[step + 1]):
            j = pattern.later[k]
            x0, x1, x2 = work[j, 0], work[j, 1], work[j, 2]
            y0 -= m[k, 0] * x0 + m[k, 1] * x1 + m[k, 2] * x2
            y1 -= m[k, 3] * x0 + m[k, 4] * x1 + m[k, 5] * x2
            y2 -= m[k, 6] * x0 + m[k, 7] * x1 + m[k, 8] * x2
        v = f.inverse[step]
        for c in range(3):
            work[step, c] = v[c, 0] * y0 + v[c, 1] * y1 + v[c, 2] * y2
            b[pattern.order[step], c] = work[step, c]
