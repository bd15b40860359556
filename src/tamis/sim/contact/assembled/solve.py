"""Assembled frictional contact problems: which method runs when.

No single method solves them all in good time. Sweeps with mixing (`gauss_seidel`) settle most problems in 20 to 100
sweeps and never need help with bad scaling; the path through the interior of the cones (`interior_point`) settles
the hyperstatic ones on which sweeps crawl, and Newton's method (`newton`) supplies the last digits where the
path stands still. So sweeps begin, in bouts; after each bout their own rate predicts what is left to do. Where that is
more than the path would cost, counted in products of blocks from the elimination order, the path is followed and
sweeps go on from where it ends.

The problem is not monotone, and any of this may fail. The path then begins elsewhere: first near what the
sweeps have found, then from the axes of the cones, then nearer and nearer again; then both forms of Newton's method
take turns, with sweeps between them; now and then friction is brought up from a tenth by and by instead, each problem
begun where the last one ended. All of 52 problems, 13 published and 39 of walls, arches, stacks and grains, are solved
to 1e-6 so, and 38 of 40 piles with much friction and masses far apart, seven of them by the last resort. Nothing is
left to the caller to choose.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.errors import StudyError, TamisWarning
from tamis.sim.contact.assembled import mixing
from tamis.sim.contact.assembled.active_set import active_set_newton
from tamis.sim.contact.assembled.gauss_seidel import (
    Problem,
    fill_blocks,
    invert_all,
    relax,
    residual,
    velocities,
)
from tamis.sim.contact.assembled.interior_point import interior_point
from tamis.sim.contact.assembled.linear import FILL, PairedLU, order_pairs, pair_up
from tamis.sim.contact.assembled.newton import proximal_newton
from tamis.sim.contact.linear import block_lu
from tamis.sim.contact.lorentz import Interior
from tamis.sim.contact.newton import FIRST

Array = NDArray[np.float64]

FIRST_BOUT, BOUT = 16, 8  # sweeps before the residual is looked at, and between two looks
LEAST = 24  # before the path is considered
SETTLED = 64  # sweeps before a bout without progress is held against mixing
AFTER = 64  # sweeps in a bout once the path has been followed
NEARNESS = 8.0  # times the root of the residual: how far from what sweeps have found the first path begins,
FARTHEST = 0.5  # at most
STARTS = (1.0, 1e3, 0.3, 0.1, 0.03, 0.01)  # of further ones; 1e3 for light bodies under heavy ones
PATH_STEPS = 50
ACTIVE = 20  # iterations of Newton's method with an active set, before the path and from where it ends
USUAL_STEPS = 16
DECIDED = 0.01  # residual of a path from which on Newton's method can go on,
AGAIN = 60  # attempts of Newton's method, with sweeps between them, once all starts of the path are spent
APPROACH = 20  # every which attempt begins with little friction, which
RISE, LEAST_RISE = (
    0.1,
    0.005,
)  # rises by so much from one problem to the next; half as much each time that it fails
ATTEMPTS = 4  # at each of these problems
POLISH = 30  # iterations of Newton's method with a proximal centre where a path ends,
CLOSE, STIFF = 1e-4, 1e3  # and below this residual from such a stiffness
MOST_CONTACTS = 4000  # beyond, the table of the elimination costs more than the sweeps it could save
MOST_PRODUCTS = 1_000_000  # of 6x6 blocks,
PRODUCT = 5.0  # each of which takes as long as so many products of a 3x3 block and a vector in a sweep
MOST_SWEEPS = 20_000
MOST_WORK = 1e9  # products of blocks in all sweeps: some seconds


@dataclass(frozen=True)
class Outcome:
    """Scaled impulses, the larger residual and its contact, and what it took: sweeps, steps of path and Newton."""

    x: Array
    residual: float
    worst: int
    sweeps: int
    steps: int


def solve_problem(W: Any, q: ArrayLike, mu: ArrayLike, tol: float = 1e-6) -> Array:
    """Return the impulses r of ``u = W r + q`` under unilateral contact and Coulomb friction.

    W is sparse (scipy) or dense, 3 rows a contact, normal first, as in fclib; it must be
    positive semi-definite and may be singular. ``tol`` bounds the dimensionless residual of every contact and
    the residual relative to ``max(|q|, |u|, |r|)``. Where it is not reached a warning says what was.
    """
    p = assemble(W, q, mu)
    if not 0.0 < tol < 1.0:
        raise StudyError(f"tol must lie between 0 and 1, got {tol!r}")
    if len(p.mu) == 0:
        return np.zeros(0)
    found = solve_scaled(p, tol)
    if not found.residual <= tol:
        warnings.warn(
            f"contact problem of {len(p.mu)} contacts not solved: residual {found.residual:.2g} instead of "
            f"{tol:g}, worst at contact {found.worst}, after {found.sweeps} sweeps and {found.steps} direct steps",
            TamisWarning,
            stacklevel=2,
        )
    return (found.x / p.root[:, None]).ravel()


def solve_scaled(p: Problem, tol: float) -> Outcome:
    """Sweep, follow the path where that is predicted to be cheaper, sweep again."""
    n = len(p.mu)
    x, u, memory = np.zeros((n, 3)), np.empty((n, 3)), mixing.memory(n)
    cost = float(p.ptr[-1] + 10 * n)
    most = int(min(MOST_SWEEPS, max(2000.0, MOST_WORK / cost)))
    direct = _Direct(p) if n <= MOST_CONTACTS else None
    starts = [0.0, *STARTS]
    sweeps, steps, bout, before, mixed = 0, 0, FIRST_BOUT, math.inf, True
    best, least, where = np.zeros((n, 3)), math.inf, 0
    while sweeps < most:
        done, e, worst = relax(p, memory, x, u, tol, min(bout, most - sweeps), mixed)
        sweeps += done
        if e <= least:
            best[:] = x if e <= tol else memory.result.reshape(n, 3)
            least, where = e, worst
        if e <= tol:
            break
        if math.isnan(e):
            x[:], memory.state[:] = best, 0.0
        left = _sweeps_left(before, e, done, tol)
        if steps == 0 and before == math.inf:
            bout = BOUT
        if e > 0.7 * before and sweeps > SETTLED:
            mixed = not mixed
            bout = min(2 * bout, AFTER)
        before = e
        if direct is not None and sweeps >= LEAST and left > BOUT and direct.pays(left * cost):
            if starts:
                start = starts.pop(0) or min(FARTHEST, NEARNESS * math.sqrt(e))
                taken, e, worst = direct.follow(x, u, start, tol)
            elif direct.again < AGAIN:
                taken, e, worst = direct.retry(x, u, tol)
            else:
                continue
            steps += taken
            if e < least:
                best[:] = x
                least, where = e, worst
            if e <= tol:
                break
            if not e < math.inf:
                x[:] = best
            memory.state[:] = 0.0
            before, bout, mixed = math.inf, AFTER, True
    return Outcome(best, least, where, sweeps, steps)


def _sweeps_left(before: float, e: float, done: int, tol: float) -> float:
    if not 0.0 < e < before < math.inf:
        return math.inf
    return math.log(e / tol) * done / math.log(before / e)


class _Direct:
    """The direct methods with their elimination order, found when first asked for."""

    def __init__(self, p: Problem) -> None:
        self.p = p
        self.matrix: PairedLU | None = None
        self.products = self.tried = self.again = 0
        self.followed = False

    def pays(self, rival: float) -> bool:
        """Say whether the path costs less than ``rival`` products of a 3x3 block and a vector."""
        n, blocks = len(self.p.mu), int(self.p.ptr[-1])
        overhead = 3.0 * blocks + 60.0 * n
        most = int(min(MOST_PRODUCTS, max(rival / USUAL_STEPS - overhead, 0.0) / PRODUCT))
        if self.matrix is not None:
            return self.products <= most
        if most < max(2 * self.tried, blocks):  # the elimination is not free either
            return False
        self.tried = most
        slot = np.empty(n, np.int64)
        pairs = pair_up(self.p.ptr, self.p.col, slot)
        lu = block_lu(pairs, FILL)
        count, self.products = order_pairs(self.p.ptr, self.p.col, slot, pairs, lu, most)
        if count:
            self.matrix = PairedLU(lu, slot, count, np.empty((pairs, 6)))
        return count > 0

    def retry(self, x: Array, u: Array, tol: float) -> tuple[int, float, int]:
        """Improve what sweeps have made of x, by the two forms of Newton's method in turn, or begin elsewhere."""
        assert self.matrix is not None
        self.again += 1
        if self.again % APPROACH == 0:
            return self.approach(x, u, tol)
        scratch = np.empty((5, len(self.p.mu), 3))
        if self.again % 2:
            return active_set_newton(self.p, self.matrix, x, u, scratch, tol, ACTIVE)
        return proximal_newton(self.p, self.matrix, x, u, scratch, tol, POLISH, FIRST)

    def approach(self, x: Array, u: Array, tol: float) -> tuple[int, float, int]:
        """Solve with little friction and then with more and more of it, each time from the last solution."""
        assert self.matrix is not None
        most = RISE * 0.5 ** (self.again // APPROACH - 1)
        n, steps, reached, rise = len(self.p.mu), 0, 0.0, most
        kept, scratch = np.zeros((n, 3)), np.empty((5, n, 3))
        while reached < 1.0 and rise >= LEAST_RISE:
            share = min(reached + rise, 1.0)
            p = self.p._replace(mu=share * self.p.mu)
            x[:] = kept
            for attempt in range(ATTEMPTS):
                taken, e, worst = proximal_newton(p, self.matrix, x, u, scratch, tol, 2 * POLISH, FIRST)
                if e > tol:
                    more, e, worst = active_set_newton(p, self.matrix, x, u, scratch, tol, ACTIVE)
                    taken += more
                if not e <= tol:
                    _, e, worst = relax(p, mixing.memory(n), x, u, tol, AFTER, attempt % 2 == 0)
                steps += taken
                if e <= tol:
                    break
            if e <= tol:
                reached, rise, kept[:] = share, min(2.0 * rise, most), x
            else:
                rise *= 0.5
        if reached < 1.0:
            x[:] = kept
            velocities(self.p, x, u)
            e, worst = residual(self.p, x, u)
        return steps, e, worst

    def follow(self, x: Array, u: Array, start: float, tol: float) -> tuple[int, float, int]:
        """Follow the path into x and polish where it ends; return steps, residual and worst contact."""
        assert self.matrix is not None
        p, f, n = self.p, self.matrix, len(self.p.mu)
        scaled = p._replace(
            block=np.empty((int(p.ptr[-1]), 9)), diagonal=np.empty((n, 3, 3)), q=np.empty((n, 3))
        )
        work, scratch = Interior(*np.empty((len(Interior._fields), n, 3))), np.empty((5, n, 3))
        steps = 0
        if self.followed:  # from nothing it wanders, and the first path is soon at its end
            steps, e, worst = active_set_newton(p, f, x, u, scratch, tol, ACTIVE)
            if e <= tol:
                return steps, e, worst
        self.followed = True
        more, e, worst = interior_point(p, scaled, f, work, x, u, start, tol, PATH_STEPS)
        steps += more
        if tol < e < DECIDED:
            more, e, worst = proximal_newton(p, f, x, u, scratch, tol, POLISH, STIFF if e < CLOSE else FIRST)
            steps += more
        if tol < e < DECIDED:
            more, e, worst = active_set_newton(p, f, x, u, scratch, tol, ACTIVE)
            steps += more
        return steps, e, worst


def assemble(W: Any, q: ArrayLike, mu: ArrayLike) -> Problem:
    """Check a problem and bring it into scaled blocks."""
    from scipy.sparse import csr_matrix

    friction = np.ascontiguousarray(mu, dtype=np.float64)
    free = np.ascontiguousarray(q, dtype=np.float64)
    n = friction.size
    matrix = W if isinstance(W, csr_matrix) else csr_matrix(W)
    if friction.ndim != 1:
        raise StudyError(
            f"mu must be a list of one friction coefficient a contact, got shape {friction.shape}"
        )
    if free.shape != (3 * n,):
        raise StudyError(
            f"q must hold 3 velocities for each of the {n} contacts of mu, got shape {free.shape}"
        )
    if matrix.shape != (3 * n, 3 * n):
        raise StudyError(
            f"W must be {3 * n} x {3 * n} for {n} contacts, got {matrix.shape[0]} x {matrix.shape[1]}"
        )
    for name, values in (("W", matrix.data), ("q", free), ("mu", friction)):
        if not np.isfinite(values).all():
            raise StudyError(f"{name} holds a value that is not finite; check masses and the time step")
    if n and friction.min() < 0.0:
        i = int(friction.argmin())
        raise StudyError(f"mu must not be negative, got {friction[i]} at contact {i}")
    nnz = len(matrix.data)
    ptr, col = np.zeros(n + 1, np.int64), np.empty(nnz, np.int64)
    block, diagonal, inverse, root = np.empty((nnz, 9)), np.zeros((n, 3, 3)), np.empty((n, 3, 3)), np.empty(n)
    indptr = matrix.indptr.astype(np.int32, copy=False)
    indices = matrix.indices.astype(np.int32, copy=False)
    data = matrix.data.astype(np.float64, copy=False)
    fill_blocks(indptr, indices, data, np.full(n, -1, np.int64), ptr, col, block, diagonal, root)
    if n and diagonal[:, (0, 1, 2), (0, 1, 2)].min() < 0.0:
        i = int(diagonal[:, (0, 1, 2), (0, 1, 2)].min(axis=1).argmin())
        raise StudyError(f"W must be positive semi-definite, but has a negative diagonal at contact {i}")
    invert_all(diagonal, inverse)
    scaled = free.reshape(-1, 3)
    speed = math.sqrt(float((scaled * scaled).sum(axis=1).max(initial=0.0))) or 1.0
    size = math.sqrt(float(free @ free))
    stride = max(1, round(0.618034 * n))
    while math.gcd(stride, n) > 1:
        stride += 1
    end = int(ptr[-1])
    unit = scaled / root[:, None]
    return Problem(
        ptr, col[:end], block[:end], diagonal, inverse, unit, friction, root, speed, size, stride % max(n, 1)
    )
