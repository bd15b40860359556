"""The contact problem of one time step, solved in the space of the bodies' velocities.

Four methods behind one door
----------------------------
*Sweeps* (``gauss_seidel.py``) cost 0.06 us a contact, never fail outright, and a warm start mostly leaves them little
to do. But an error that spans many bodies, a wall that leans or a heavy block on light ones, goes down by a few
per cent a sweep, and where the impulses are not unique a sweep hardly moves them. *Newton's method*
(``newton.py``) does not see that difficulty, and costs about ten sweeps an iteration where the bodies are few
enough to factorise their coupling; where it wanders, the *path* through the interior of the cones (interior_point) does
not. ``direct.py`` puts the two together.

So every call begins with sweeps, at least one even if the warm start is good enough already, and if that one
changes next to nothing Newton's method moves its centre once: bodies at rest then settle to round-off over the
steps and do not creep, however slowly sweeps would get them there. If thirty are not enough and the factorisation is
cheap, the direct methods go on from there: walls, arches, stacks. If it is not, sweeps do: heaps of grains. How
cheap is told by the products of blocks that the elimination takes; a wall has one or two a contact, two hundred
grains ten, and there what follows is several times as fast as factorising the whole.

In a heap, once few contacts are left unsettled, sweeps keep to their surroundings; where that does not settle them,
they are solved in *patches* (``patches.py``). Both push errors outwards, which a few sweeps over all contacts take
up. One step in some hundreds goes round in circles so: friction is not the gradient of anything, and neither sweeps
(with momentum or without) nor small patches need to end. The patches then take in contacts that are settled but not
well, and twice as many bodies as the last time. That ended all of fourteen such steps of heaps of 200 to 2000 grains;
long bouts of plain sweeps ended half of them.

What is returned is what was reached: the residual is computed from the velocities that belong to the impulses
returned, ``w = w_free + G^T r``, and if the iterations ran out the impulses are the best ones met.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner, kernel
from tamis.sim.contact.direct import solve_direct
from tamis.sim.contact.gauss_seidel import (
    Last,
    Local,
    begin,
    confine,
    local_arrays,
    prepare,
    relax,
    wake,
    wake_near,
)
from tamis.sim.contact.interior_point import Path, path_arrays
from tamis.sim.contact.linear import BlockLU, analyse, block_lu
from tamis.sim.contact.newton import Trial, proximal_newton, trial_arrays
from tamis.sim.contact.patches import CORE, LARGE, Patch, mend, patch_arrays
from tamis.sim.contact.problem import Contacts, copy, impose, residual, scale_of

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

CONVERGED, CAPPED, NOT_FINITE = 0, 1, 2
MAX_ITERATIONS = 4000
FIRST_SWEEPS = 30  # before the factorisation is considered
ROUND = 25  # sweeps between two looks at the residual
BETWEEN = 40  # sweeps between attempts at all bodies together: another start for Newton's method
STUCK = 5  # attempts, at all bodies or at those of unsettled contacts, after which something else is tried:
LONG = 150  # so many sweeps, or larger patches
FEW, SOME = 0.02, 5  # share and number of unsettled contacts from which on sweeps keep to their surroundings;
MANY, SLOW = 0.05, 0.9  # share from which on they are solved in patches if so much of them was left as before
NEARBY = 40  # sweeps there
SHORT = 16  # sweeps after either, from rest: with momentum a few contacts can swing on and on
QUIET = 0.05  # of the goal: change after which a contact waits
SETTLED = 0.2  # of the goal: changes at which sweeps end
UNSETTLED = 0.5  # of the goal: residual of a contact that is taken into a patch,
WELL = 0.2  # and into a larger one
ROUND_OFF = 1e-13  # a residual that is as good as zero
REST = 1e4  # stiffness of the one centre at rest
MAX_BODIES, MAX_CONTACTS = 400, 6000  # above, the direct methods need too much room
MAX_PRODUCTS = 3  # of 6x6 blocks a contact: walls and arches have fewer, piles of grains more


class Workspace(NamedTuple):
    """Scratch arrays of `solve_contacts`, for up to the sizes they were made for."""

    local: Local
    last: Last
    trial: Trial
    lu: BlockLU
    path: Path
    patch: Patch
    best: Array  # (contacts, 3) impulses of the smallest residual met
    a: Indices  # (contacts,) bodies among those that touch
    b: Indices
    number: Indices  # (bodies,) number among those that touch, or -1
    bodies: Indices  # (bodies,) those that touch
    ring: Indices  # (bodies,) how far they are from unsettled contacts
    w: Array  # (bodies, 6) their velocities


def workspace(n_bodies: int, n_contacts: int) -> Workspace:
    """Allocate what `solve_contacts` needs for so many bodies and contacts."""
    few = min(n_bodies, MAX_BODIES)
    a, b = np.zeros((2, n_contacts), np.int64)
    number, bodies, ring = np.zeros((3, n_bodies), np.int64)
    return Workspace(
        local_arrays(n_contacts),
        Last(np.zeros((n_bodies, 6)), np.zeros((n_contacts, 3)), np.zeros(2)),
        trial_arrays(n_bodies, n_contacts),
        block_lu(few),
        path_arrays(min(n_contacts, MAX_CONTACTS)),
        patch_arrays(n_bodies, n_contacts),
        np.zeros((n_contacts, 3)),
        a,
        b,
        number,
        bodies,
        ring,
        np.zeros((n_bodies, 6)),
    )


@inner
def unsettled(errors: Array, goal: float, n: int) -> int:
    """Count the contacts among the first ``n`` that are above the goal."""
    count = 0
    for i in range(n):
        if errors[i] > goal:
            count += 1
    return count


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
    impulses. Contact i acts on the bodies a[i] and b[i] (-1: none) through G[i] (see `Contacts`). Bodies without a
    contact are left out: they must not decide how the others are solved.
    """
    if a.size == 0:
        return CONVERGED, 0, 0.0, -1
    number, bodies = work.number, work.bodies
    for k in range(w.shape[0]):
        number[k] = -1
    m = 0
    for i in range(a.size):
        for side in range(2):
            k = a[i] if side == 0 else b[i]
            if k >= 0 and number[k] < 0:
                number[k] = m
                bodies[m] = k
                m += 1
        work.a[i] = number[a[i]] if a[i] >= 0 else -1
        work.b[i] = number[b[i]] if b[i] >= 0 else -1
    own = work.w[:m]
    for k in range(m):
        for j in range(6):
            own[k, j] = w[bodies[k], j]
    contacts = Contacts(work.a[: a.size], work.b[: a.size], G, bias, mu)
    status, iterations, found, worst = solve_touching(contacts, own, r, tol, work)
    for k in range(m):
        for j in range(6):
            w[bodies[k], j] = own[k, j]
    return status, iterations, found, worst


@inner
def solve_touching(
    contacts: Contacts, w: Array, r: Array, tol: float, work: Workspace
) -> tuple[int, int, float, int]:
    """Solve the contacts of bodies that all have one; see `solve_contacts`."""
    n = contacts.a.size
    local, trial, last, errors = work.local, work.trial, work.last, work.trial.errors
    free, weight = trial.free, work.local.weight
    copy(w, free)
    speed = prepare(contacts, w, local)
    impose(contacts, r, free, w)
    begin(w, r, last)
    goal = tol * scale_of(speed, r, weight)
    wake(local, n)
    iterations = relax(contacts, w, r, local, goal, QUIET * goal, FIRST_SWEEPS, last)
    confine(contacts, r)
    impose(contacts, r, free, w)
    count, least, swept, bout, before, tries, large = -1, math.inf, True, 0, n, 0, CORE
    while True:
        found, worst = residual(contacts, w, r, weight, errors)
        scale = scale_of(speed, r, weight)
        goal = tol * scale
        if found < least * scale:
            least = found / scale
            copy(r, work.best)
        elif math.isnan(found) and least < math.inf:  # a direct method went astray
            copy(work.best, r)
            impose(contacts, r, free, w)
            begin(w, r, last)
            count, swept = 0, True
            continue
        rest = iterations == 1 and ROUND_OFF * scale < found <= goal
        if (not found > goal and not rest) or iterations >= MAX_ITERATIONS:
            break
        if count < 0:
            count, products = analyse(w.shape[0], contacts.a, contacts.b, work.lu)
            if products > MAX_PRODUCTS * n or n > work.path.eta.size:
                count = 0
        if rest:
            if count > 0:
                iterations += proximal_newton(
                    contacts, w, r, weight, 1e-3 * found, 1, REST, count, work.lu, trial
                )[0]
                found, worst = residual(contacts, w, r, weight, errors)
            break
        if count > 0 and swept:
            iterations += solve_direct(
                contacts, w, r, local.W, weight, goal, scale, bout, count, work.lu, trial, work.path
            )[0]
            begin(w, r, last)
            swept = False
            bout += 1
            tries += 1
            continue
        left, limit = unsettled(errors, goal, n), ROUND if count == 0 else BETWEEN
        slow = count > 0 or left > SLOW * before
        before = left
        stuck = tries >= STUCK
        tries = 0 if stuck else tries
        if stuck and count > 0:
            limit = LONG
        elif stuck or (slow and left <= max(MANY * n, SOME)):
            core, level = CORE, UNSETTLED
            if stuck:
                core = large = min(2 * large, LARGE)
                level = WELL
            if mend(contacts, w, r, local, errors, level * goal, scale, core, work.patch) > 0:
                begin(w, r, last)
                limit = SHORT
            iterations += 1
            tries += 1 if count == 0 else 0
        elif left <= max(FEW * n, SOME):
            wake_near(contacts, errors, goal, work.ring[: w.shape[0]], local)
            begin(w, r, last)
            iterations += relax(contacts, w, r, local, SETTLED * goal, QUIET * goal, NEARBY, last)
            begin(w, r, last)
            limit = SHORT
            tries += 1
        wake(local, n)
        quiet = QUIET * goal if count == 0 else 0.0
        iterations += relax(contacts, w, r, local, SETTLED * goal, quiet, limit, last)
        confine(contacts, r)
        impose(contacts, r, free, w)
        swept = True
    if least < math.inf and not found <= least * scale:
        copy(work.best, r)
        impose(contacts, r, free, w)
        found, worst = residual(contacts, w, r, weight, errors)
    found /= scale_of(speed, r, weight)
    if math.isnan(found):
        return NOT_FINITE, iterations, found, worst
    return (CONVERGED if found <= tol else CAPPED), iterations, found, worst
