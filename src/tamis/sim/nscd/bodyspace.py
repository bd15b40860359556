"""The contact problem of one time step, solved in the space of the bodies' velocities.

Two methods behind one door
---------------------------
*Sweeps* (``sweep.py``) cost 0.15 us a contact, never fail outright, and a warm start mostly leaves them little
to do. But an error that spans many bodies, a wall that leans or a heavy block on light ones, goes down by a few
per cent a sweep, and where the impulses are not unique a sweep hardly moves them. *Newton's method*
(``newton.py``) does not see that difficulty, and costs about three sweeps an iteration where the bodies are few
enough to factorise their coupling.

So every call begins with sweeps, at least one even if the warm start is good enough already, and if that one
changes next to nothing Newton's method moves its centre once: bodies at rest then settle to round-off over the
steps and do not creep, however slowly sweeps would get them there. If ten are not enough and the factorisation is
cheap, Newton's method goes on from there; otherwise sweeps do. Hundreds of blocks in a wall take the first
way, thousands of grains the second. Two seconds of the dry wall (43 bodies, 220 contacts in the mean, an impact at
20 m/s) to a residual of 1e-6 took 1238 sweeps and 35 ms a step by plain sweeps, 3 % of the steps ending at a cap of
20 000; both methods together take 19 iterations and 1.8 ms, and solve every step.

What is returned is what was reached: the residual is computed from the velocities that belong to the impulses
returned, ``w = w_free + G^T r``, and if the iterations ran out the impulses are the best ones met.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import kernel
from tamis.sim.common.blocklu import BlockLU, analyse, block_lu
from tamis.sim.nscd.newton import FIRST, Trial, proximal_newton
from tamis.sim.nscd.sweep import Contacts, Local, copy, impose, prepare, relax, residual

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

CONVERGED, CAPPED, NOT_FINITE = 0, 1, 2
MAX_ITERATIONS = 2000
FIRST_SWEEPS = 10  # before the factorisation is considered, and between two attempts of Newton's method
MAX_NEWTON = 60  # iterations of one attempt
ROUND_OFF = 1e-12  # a residual that is as good as zero
REST = 1e4  # stiffness of the one centre at rest
MAX_BODIES = 400  # above, the table of blocks gets too large
MAX_PRODUCTS = 20  # of 6x6 blocks a contact: there a Newton iteration costs about fifteen sweeps


class Workspace(NamedTuple):
    """Scratch arrays of `solve_contacts`, for up to the sizes they were made for."""

    local: Local
    trial: Trial
    lu: BlockLU
    best: Array  # (contacts, 3) impulses of the smallest residual met


def workspace(n_bodies: int, n_contacts: int) -> Workspace:
    """Allocate what `solve_contacts` needs for so many bodies and contacts."""
    local = Local(np.zeros((n_contacts, 3, 3)), np.zeros((n_contacts, 3, 3)), np.zeros(n_contacts))
    bodies, impulses = (n_bodies, 6), (n_contacts, 3)
    trial = Trial(np.zeros(bodies), np.zeros(bodies), np.zeros(bodies), np.zeros(bodies), np.zeros(impulses))
    lu = block_lu(n_bodies if n_bodies <= MAX_BODIES else 0)
    return Workspace(local, trial, lu, np.zeros(impulses))


@kernel
def solve_contacts(
    a: Indices,
    b: Indices,
    G: Array,
    bias: Array,
    mu: Array,
    w: Array,
    r: Array,
    tol: float,
    work: Workspace,
) -> tuple[int, int, float, int]:
    """Solve the contacts of a step; return status, iterations, residual and the worst contact.

    ``w`` holds the free velocities and receives the final ones; ``r`` holds the warm start and receives the
    impulses. Contact i acts on the bodies a[i] and b[i] (-1: none) through G[i] (see `Contacts`).
    """
    if a.size == 0:
        return CONVERGED, 0, 0.0, -1
    contacts = Contacts(a, b, G, bias, mu)
    local, trial = work.local, work.trial
    best, free = work.best, trial.free
    copy(w, free)
    scale = prepare(contacts, w, local)
    goal = tol * scale
    impose(contacts, r, free, w)
    limit, aim, count = FIRST_SWEEPS, goal, -1
    iterations, least = 0, math.inf
    while True:
        iterations += relax(contacts, w, r, local, aim, limit, trial.w, trial.r)
        impose(contacts, r, free, w)
        found, worst = residual(contacts, w, r, local.weight)
        rest = iterations == 1 and ROUND_OFF * scale < found <= goal
        if not found > goal and not rest:
            break
        if found < least:
            least = found
            copy(r, best)
        if count < 0:
            count, products = analyse(w.shape[0], a, b, work.lu)
            if products > MAX_PRODUCTS * a.size:
                count = 0
        if rest:
            if count > 0:
                steps, found, worst = proximal_newton(
                    contacts, w, r, local.weight, 1e-3 * found, 1, REST, count, work.lu, trial
                )
                iterations += steps
            break
        if count > 0:
            steps, found, worst = proximal_newton(
                contacts, w, r, local.weight, goal, MAX_NEWTON, FIRST, count, work.lu, trial
            )
            iterations += steps
            if found <= goal:
                break
            if found < least:
                least = found
                copy(r, best)
        if iterations >= MAX_ITERATIONS:
            break
        if count == 0 or math.isnan(found):
            limit, count = MAX_ITERATIONS - iterations, 0
            if math.isnan(found):
                copy(best, r)
                impose(contacts, r, free, w)
        aim *= 0.5  # the sweep's change was below it and the residual was not
    if not found <= least:
        copy(best, r)
        impose(contacts, r, free, w)
        found, worst = residual(contacts, w, r, local.weight)
    found /= scale
    if math.isnan(found):
        return NOT_FINITE, iterations, found, worst
    return (CONVERGED if found <= tol else CAPPED), iterations, found, worst
