"""Anderson's mixing of sweeps: what several of them have in common is taken at once.

A sweep of Gauss-Seidel is a map of the impulses to better ones. Once the sets of open, sticking and slipping contacts
are nearly settled it is smooth, and the combination of the last few results whose changes cancel best (Walker & Ni
2011, 10.1137/10078356X) gives it the rate of a Krylov method for a few vector operations: 660 sweeps become 108 in a
tower of 570 contacts, 170 become 27 in a pile of spheres. Three sweeps of memory do as well as ten. The mixed point
is put back into the cones; if the change of a sweep doubles, the memory is dropped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner
from tamis.sim.contact.cone import project

Array = NDArray[np.float64]
DEPTH = 3


class Mixing(NamedTuple):
    """Memory of the last sweeps, for up to the number of contacts it was made for.

    ``state`` is (sweeps kept, next slot, size of the last change), so that a bout may go on where one ended; all zero
    to begin.
    """

    steps: Array  # (DEPTH, 3 contacts) differences of changes from sweep to sweep
    results: Array  # (DEPTH, 3 contacts) differences of results
    step: Array  # (3 contacts,) last change
    result: Array  # last result
    start: Array  # where the last sweep began
    gram: Array  # (DEPTH, DEPTH)
    system: Array  # (DEPTH, DEPTH)
    weights: Array  # (DEPTH,)
    state: Array  # (3,)


def memory(n: int) -> Mixing:
    """Make an empty memory for up to ``n`` contacts."""
    vectors = np.zeros((2 * DEPTH + 3, 3 * n))
    return Mixing(
        vectors[:DEPTH],
        vectors[DEPTH : 2 * DEPTH],
        vectors[-1],
        vectors[-2],
        vectors[-3],
        np.zeros((DEPTH, DEPTH)),
        np.zeros((DEPTH, DEPTH)),
        np.zeros(DEPTH),
        np.zeros(3),
    )


@inner
def dot(a: Array, b: Array, size: int) -> float:
    """Return the scalar product, in four partial sums (a single one waits for each addition)."""
    n = size // 4 * 4
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for i in range(0, n, 4):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
    for i in range(n, size):
        s0 += a[i] * b[i]
    return (s0 + s1) + (s2 + s3)


@inner
def begin(old: Mixing, x: Array) -> None:
    """Note the impulses with which a sweep begins."""
    for i in range(len(x)):
        for j in range(3):
            old.start[3 * i + j] = x[i, j]


@inner
def combine(old: Mixing, mu: Array, x: Array, mixing: bool) -> bool:
    """Note the result x of a sweep, and replace it by the combination if ``mixing``; say whether it was replaced."""
    kept, slot, before = int(old.state[0]), int(old.state[1]), old.state[2]
    size, total = 3 * len(mu), 0.0
    steps, results = old.steps[slot], old.results[slot]
    for i in range(len(mu)):
        for j in range(3):
            k = 3 * i + j
            change = x[i, j] - old.start[k]
            steps[k] = change - old.step[k]
            results[k] = x[i, j] - old.result[k]
            old.step[k] = change
            old.result[k] = x[i, j]
            total += change * change
    fresh = not mixing or before == 0.0 or total > 4.0 * before
    old.state[2] = total
    if fresh:
        old.state[0], old.state[1] = 0.0, 0.0
        return False
    kept = min(kept + 1, DEPTH)
    old.state[0], old.state[1] = kept, (slot + 1) % DEPTH
    m, g = old.system, old.weights
    trace = 0.0
    for a in range(kept):
        g[a] = dot(old.steps[a], old.step, size)
        product = dot(old.steps[a], old.steps[slot], size)
        old.gram[a, slot] = product
        old.gram[slot, a] = product
        trace += old.gram[a, a]
    for a in range(kept):
        for b in range(kept):
            m[a, b] = old.gram[a, b]
        m[a, a] += 1e-10 * trace + 1e-300
    for a in range(kept):  # elimination without pivoting: the matrix is positive definite
        for b in range(a + 1, kept):
            f = m[b, a] / m[a, a]
            for c in range(a, kept):
                m[b, c] -= f * m[a, c]
            g[b] -= f * g[a]
    for a in range(kept - 1, -1, -1):
        for b in range(a + 1, kept):
            g[a] -= m[a, b] * g[b]
        g[a] /= m[a, a]
    for i in range(len(mu)):
        for j in range(3):
            for a in range(kept):
                x[i, j] -= g[a] * old.results[a, 3 * i + j]
        x[i, 0], x[i, 1], x[i, 2] = project(x[i, 0], x[i, 1], x[i, 2], mu[i])
    return True
