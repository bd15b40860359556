"""The contact problem of one time step, solved in the space of the bodies' velocities.

Which method runs when
----------------------
`solve_contacts` begins with *Gauss-Seidel* sweeps (``gauss_seidel.py``): 0.06 us a contact, never failing outright, and
a warm start mostly leaves them little to do. At least one is made even if the warm start is good enough already. If
that one changes next to nothing, bodies are at rest, and if they are few one centre of *Newton's method*
(``newton.py``), up to twelve factorisations, follows: so they settle to round-off over the steps and do not creep,
however slowly sweeps would get them there.

Where thirty sweeps are not enough, an error spans many bodies: a wall that leans, a heavy block on light ones. It goes
down by a few per cent a sweep, and where the impulses are not unique a sweep hardly moves them. What follows depends
on the price of factorising the coupling of the bodies, the products of blocks that the elimination takes. A wall has
one or two a contact, two hundred grains ten; up to `CHEAP` of them are few however few the contacts.

*Few bodies* (walls, arches, stacks, bars through rings; `solve_few`): the `direct` methods, all bodies together.
*Newton's method with an active set* (``active_set.py``) ends most problems in one attempt; where it has not ended then
it mostly goes round in circles, which some sweeps end. *Newton's method with a proximal centre* (``newton.py``) is
slower and steadier: its centre moves only to impulses that balance. It takes every other attempt. Of a hundred steps of
an articulated wall all are solved so, in 36 iterations in the mean; with the active set alone seven are not in fifteen
attempts, with the proximal centre alone it takes 91. The *interior-point method* (``interior_point.py``) begins from
nothing and does not see what stops the others; it ends some digits early and is used once, for from the same problem it
would end in the same place.

*Many bodies* (heaps of grains; `solve_many`): sweeps. Once few contacts are left unsettled, they keep to their
surroundings; where that does not settle them, the direct methods solve them in *patches* (``patches.py``). Both push
errors outwards, which a few sweeps over all contacts take up. One step in some hundreds goes round in circles so:
friction is not the gradient of anything, and neither sweeps (with momentum or without) nor small patches need to end.
The patches then take in contacts that are settled but not well, and twice as many bodies as the last time. That ended
all of fourteen such steps of heaps of 200 to 2000 grains; long bouts of plain sweeps ended half of them.

What is returned is what was reached: the residual is computed from the velocities that belong to the impulses
returned, ``w = w_free + G^T r``, and if the iterations ran out the impulses are the best ones met.

Direct methods and patches are most of the code and most runs need one of them or none, so they are called by address
and compiled on demand: without them a problem ends with a status `NEEDS_...`, and is solved anew once `provide` has
compiled what it needs.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import Address, apart, inner
from tamis.sim.contact.active_set import active_set_arrays, active_set_newton
from tamis.sim.contact.gauss_seidel import (
    Last,
    Local,
    local_arrays,
    prepare,
    project_impulses,
    relax,
    restart_momentum,
    visit_all,
    visit_near,
)
from tamis.sim.contact.interior_point import interior_point
from tamis.sim.contact.linear import BlockLU, analyse, block_lu
from tamis.sim.contact.newton import FIRST, proximal_newton, trial_arrays
from tamis.sim.contact.patches import CORE, LARGE, solve_patches
from tamis.sim.contact.problem import Contacts, copy, impose, residual, scale_of
from tamis.sim.contact.tuning import (
    BETWEEN,
    BOUT,
    CHEAP,
    FEW,
    FIRST_SWEEPS,
    LONG,
    MANY,
    MAX_BODIES,
    MAX_CONTACTS,
    MAX_ITERATIONS,
    MAX_PRODUCTS,
    NEARBY,
    PATH_ATTEMPT,
    POLISH,
    POLISH_STIFFNESS,
    QUIET,
    REST_STIFFNESS,
    ROUND,
    ROUND_OFF,
    SETTLED,
    SHORT,
    SLOW,
    SOME,
    STEADY,
    STUCK,
    UNSETTLED,
    WELL,
)

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

CONVERGED, CAPPED, NOT_FINITE, NEEDS_DIRECT, NEEDS_INTERIOR_POINT, NEEDS_PATCHES = range(6)  # status
BY_SWEEPS, AT_REST, FEW_BODIES, MANY_BODIES, GONE_ASTRAY = range(5)  # strategy, after the first sweeps
SWEEPS, NEWTON, INTERIOR_POINT, PATCHES, STRATEGY, WORST = range(6)  # entries of a report
ERROR, SCALE, LEAST = range(3)  # entries of what was reached
OUTRIGHT, SETTLE, ATTEMPT = range(3)  # what is asked of `direct`; attempts are numbered from the last


class Methods(NamedTuple):
    """What is compiled on demand."""

    ready: Indices  # (3,) whether they may be called, in this order
    direct: Any
    interior_point: Any
    patches: Any


class Workspace(NamedTuple):
    """Scratch arrays of `solve_contacts`, for up to the sizes they were made for."""

    local: Local
    last: Last
    lu: BlockLU
    free: Array  # (bodies, 6) free velocities
    w: Array  # (bodies, 6) velocities of bodies that touch
    row_a: Indices  # (contacts,) rows of `w`
    row_b: Indices
    row: Indices  # (bodies,) of a body in `w`, or -1
    bodies: Indices  # (bodies,) those that touch
    ring: Indices  # (bodies,) how far they are from unsettled contacts
    errors: Array  # (contacts,) residuals
    best: Array  # (contacts, 3) impulses of the smallest residual met
    report: Indices  # (6,) iterations of each method, strategy, worst contact
    reached: Array  # (3,) residual, a velocity but for the answer; its scale; smallest met, over its scale
    methods: Methods


def workspace(n_bodies: int, n_contacts: int) -> Workspace:
    """Allocate what `solve_contacts` needs for so many bodies and contacts."""
    free, w, last_w = np.zeros((3, n_bodies, 6))
    best, last_r = np.zeros((2, n_contacts, 3))
    row_a, row_b = np.zeros((2, n_contacts), np.int64)
    row, bodies, ring = np.zeros((3, n_bodies), np.int64)
    local, lu, report = local_arrays(n_contacts), block_lu(min(n_bodies, MAX_BODIES)), np.zeros(6, np.int64)
    errors = np.zeros(n_contacts)
    some = Contacts(row_a, row_b, np.zeros((0, 3, 12)), np.zeros((0, 3)), np.zeros(0))
    ready = np.zeros(3, np.int64)
    system = (some, w, best, local.W, local.weight, free, 0.0, 0.0)
    path = Address.of(interior_point, (0, 0.0), *system, 0, lu)
    newton = Address.of(direct, 0.0, *system, OUTRIGHT, 0, lu, report, ready, path)
    patches = Address.of(solve_patches, 0, some, w, best, local, errors, 0.0, 0.0, CORE, ready, path, newton)
    ready[:] = newton.ready, path.ready, patches.ready
    return Workspace(
        local=local,
        last=Last(last_w, last_r, np.zeros(2)),
        lu=lu,
        free=free,
        w=w,
        row_a=row_a,
        row_b=row_b,
        row=row,
        bodies=bodies,
        ring=ring,
        errors=errors,
        best=best,
        report=report,
        reached=np.zeros(3),
        methods=Methods(ready, newton, path, patches),
    )


def provide(status: int, methods: Methods) -> None:
    """Compile what a problem was found to need."""
    needed = {NEEDS_DIRECT: (0,), NEEDS_INTERIOR_POINT: (1,), NEEDS_PATCHES: (0, 2)}[status]
    for number in needed:
        (methods.direct, methods.interior_point, methods.patches)[number].compile()
        methods.ready[number] = 1


def address(work: Workspace) -> Address:
    """Return where `solve_contacts` is, for kernels that call it with such a workspace."""
    contacts = Contacts(work.row_a, work.row_b, np.zeros((0, 3, 12)), np.zeros((0, 3)), np.zeros(0))
    return Address.of(solve_contacts, CONVERGED, contacts, work.w, work.best, 0.0, work).compile()


def solve(contacts: Contacts, w: Array, r: Array, tol: float, work: Workspace) -> int:
    """Solve one problem as `solve_contacts` does, and compile what it needs."""
    have, need = (work.row.size, work.row_a.size), (len(w), len(contacts.mu))
    if have[0] < need[0] or have[1] < need[1]:
        raise ValueError(
            f"the workspace is for {have[0]} bodies and {have[1]} contacts, the problem has {need[0]} and {need[1]}; "
            f"make one with workspace({need[0]}, {need[1]})"
        )
    start = w.copy(), r.copy()
    while True:
        status = int(solve_contacts(contacts, w, r, tol, work))
        if status < NEEDS_DIRECT:
            return status
        provide(status, work.methods)
        w[:], r[:] = start


@apart
def solve_contacts(contacts: Contacts, w: Array, r: Array, tol: float, work: Workspace) -> int:
    """Solve the contacts of a step; return the status, and in ``work`` what was reached and what was done for it.

    The Delassus operator ``W = G G^T`` acts through the velocities of the bodies and is not formed. ``w`` holds the
    free velocities and receives the final ones; ``r`` holds the warm start and receives the impulses. Bodies without a
    contact are left out: they must not decide how the others are solved.
    """
    row_a, row_b = contacts.row_a, contacts.row_b
    for k in range(work.report.size):
        work.report[k] = 0
    work.report[WORST], work.reached[ERROR], work.reached[LEAST] = -1, 0.0, math.inf
    if row_a.size == 0:
        return CONVERGED
    row, bodies = work.row, work.bodies
    for k in range(w.shape[0]):
        row[k] = -1
    m = 0
    for i in range(row_a.size):
        for side in range(2):
            k = row_a[i] if side == 0 else row_b[i]
            if k >= 0 and row[k] < 0:
                row[k] = m
                bodies[m] = k
                m += 1
        work.row_a[i] = row[row_a[i]] if row_a[i] >= 0 else -1
        work.row_b[i] = row[row_b[i]] if row_b[i] >= 0 else -1
    touching = work.w[:m]
    for k in range(m):
        for j in range(6):
            touching[k, j] = w[bodies[k], j]
    n = row_a.size
    among = Contacts(work.row_a[:n], work.row_b[:n], contacts.G, contacts.bias, contacts.mu)
    status = solve_touching(among, touching, r, tol, work)
    for k in range(m):
        for j in range(6):
            w[bodies[k], j] = touching[k, j]
    return status


@inner
def solve_touching(contacts: Contacts, w: Array, r: Array, tol: float, work: Workspace) -> int:
    """Solve the contacts of bodies that all have one; see `solve_contacts`."""
    report, reached, local = work.report, work.reached, work.local
    n = contacts.mu.size
    copy(w, work.free)
    speed = prepare(contacts, w, local)
    impose(contacts, r, work.free, w)
    restart_momentum(w, r, work.last)
    goal = tol * scale_of(speed, r, local.weight)
    visit_all(local, n)
    gauss_seidel(contacts, w, r, goal, QUIET * goal, FIRST_SWEEPS, work)
    error, scale = judge(contacts, w, r, speed, work)
    rests = report[SWEEPS] == 1 and ROUND_OFF * scale < error <= tol * scale
    if error > tol * scale or rests:
        most = max(MAX_PRODUCTS * n, CHEAP)
        count, _ = analyse(w.shape[0], contacts.row_a, contacts.row_b, work.lu, most)
        few = count > 0 and n <= MAX_CONTACTS
        if few and work.methods.ready[0] == 0:
            return NEEDS_DIRECT
        if rests and few:
            report[STRATEGY] = AT_REST
            call_direct(contacts, w, r, 1e-3 * error, scale, SETTLE, count, work)
            judge(contacts, w, r, speed, work)
        elif few:
            report[STRATEGY] = FEW_BODIES
            needed = solve_few(contacts, w, r, tol, speed, count, work)
            if needed > 0:
                return needed
        elif not rests:
            report[STRATEGY] = MANY_BODIES
        if report[STRATEGY] >= MANY_BODIES:
            needed = solve_many(contacts, w, r, tol, speed, work)
            if needed > 0:
                return needed
    if not reached[ERROR] <= reached[LEAST] * reached[SCALE]:
        restore_best(contacts, w, r, work)
        judge(contacts, w, r, speed, work)
    reached[ERROR] /= reached[SCALE]
    if math.isnan(reached[ERROR]):
        return NOT_FINITE
    return CONVERGED if reached[ERROR] <= tol else CAPPED


@inner
def solve_few(
    contacts: Contacts, w: Array, r: Array, tol: float, speed: float, count: int, work: Workspace
) -> int:
    """Direct methods for all bodies, from another start where they have not ended; return what is to be compiled."""
    report, errors, n = work.report, work.errors, contacts.mu.size
    error, scale = work.reached[ERROR], work.reached[SCALE]
    start, attempts = ATTEMPT, 0
    while error > tol * scale and iterations(report) < MAX_ITERATIONS:
        if call_direct(contacts, w, r, tol * scale, scale, start, count, work) < 0.0:
            return NEEDS_INTERIOR_POINT
        restart_momentum(w, r, work.last)
        start += 1
        attempts += 1
        error, scale = judge(contacts, w, r, speed, work)
        if error > tol * scale and iterations(report) < MAX_ITERATIONS:
            limit = BETWEEN
            if attempts >= STUCK:
                attempts, limit = 0, LONG
            elif unsettled(errors, tol * scale, n) <= max(MANY * n, SOME):
                if work.methods.ready[2] == 0:
                    return NEEDS_PATCHES
                solved = call_patches(contacts, w, r, UNSETTLED * tol * scale, scale, CORE, work)
                if solved < 0:
                    return NEEDS_INTERIOR_POINT
                if solved > 0:
                    limit = SHORT
            visit_all(work.local, n)
            gauss_seidel(contacts, w, r, SETTLED * tol * scale, 0.0, limit, work)
            error, scale = judge(contacts, w, r, speed, work)
        if math.isnan(error):  # the direct methods went astray
            restore_best(contacts, w, r, work)
            judge(contacts, w, r, speed, work)
            report[STRATEGY] = GONE_ASTRAY
    return 0


@inner
def solve_many(contacts: Contacts, w: Array, r: Array, tol: float, speed: float, work: Workspace) -> int:
    """Sweeps, of unsettled contacts or of all, and patches; return what is to be compiled."""
    report, errors, local, n = work.report, work.errors, work.local, contacts.mu.size
    error, scale = work.reached[ERROR], work.reached[SCALE]
    before, attempts, core = n, 0, CORE
    while error > tol * scale and iterations(report) < MAX_ITERATIONS:
        goal, limit = tol * scale, ROUND
        left = unsettled(errors, goal, n)
        slow, before = left > SLOW * before, left
        if attempts >= STUCK or (slow and left <= max(MANY * n, SOME)):
            if work.methods.ready[2] == 0:
                return NEEDS_PATCHES
            size, level = CORE, UNSETTLED
            if attempts >= STUCK:  # it goes round in circles: larger patches
                core = min(2 * core, LARGE)
                size, level, attempts = core, WELL, 0
            solved = call_patches(contacts, w, r, level * goal, scale, size, work)
            if solved < 0:
                return NEEDS_INTERIOR_POINT
            if solved > 0:
                limit = SHORT
            attempts += 1
        elif left <= max(FEW * n, SOME):
            visit_near(contacts, errors, goal, work.ring[: w.shape[0]], local)
            restart_momentum(w, r, work.last)
            report[SWEEPS] += relax(contacts, w, r, local, SETTLED * goal, QUIET * goal, NEARBY, work.last)
            restart_momentum(w, r, work.last)
            limit = SHORT
            attempts += 1
        visit_all(local, n)
        gauss_seidel(contacts, w, r, SETTLED * goal, QUIET * goal, limit, work)
        error, scale = judge(contacts, w, r, speed, work)
        if math.isnan(error):
            restore_best(contacts, w, r, work)
            error, scale = judge(contacts, w, r, speed, work)
    return 0


@apart
def direct(
    contacts: Contacts,
    w: Array,
    r: Array,
    W: Array,
    weight: Array,
    free: Array,
    goal: float,
    scale: float,
    start: int,
    count: int,
    lu: BlockLU,
    report: Indices,
    ready: Indices,
    path: Any,
) -> float:
    """Improve w and r by the direct methods; return the residual, -1 if the interior-point method is to be compiled.

    Residual and ``goal`` are velocities. ``start`` says what is asked for: one method after the other (`OUTRIGHT`), one
    centre of bodies at rest (`SETTLE`), or the method whose turn it is in the attempt ``start - ATTEMPT``.
    """
    n, attempt = contacts.mu.size, start - ATTEMPT
    trial = trial_arrays(free, n)
    if start == SETTLE:
        spent, error, _ = proximal_newton(contacts, w, r, weight, goal, 1, REST_STIFFNESS, count, lu, trial)
        report[NEWTON] += spent
        return error
    if start == OUTRIGHT or attempt % 2 == 0:
        spent, error, _ = active_set_newton(
            contacts, w, r, weight, goal, BOUT, count, lu, trial, active_set_arrays(n)
        )
        report[NEWTON] += spent
        if error <= goal or start != OUTRIGHT:
            return error
    if attempt != PATH_ATTEMPT:
        spent, error, _ = proximal_newton(contacts, w, r, weight, goal, STEADY, FIRST, count, lu, trial)
        report[NEWTON] += spent
        if error <= goal or start != OUTRIGHT:
            return error
    if ready[1] == 0:
        return -1.0
    least, _ = residual(contacts, w, r, weight, trial.errors)
    before = np.empty((n, 3))
    copy(r, before)
    spent, error = path(contacts, w, r, W, weight, free, goal, scale, count, lu)
    report[INTERIOR_POINT] += spent
    if goal < error < scale:
        spent, error, _ = proximal_newton(
            contacts, w, r, weight, goal, POLISH, POLISH_STIFFNESS, count, lu, trial
        )
        report[NEWTON] += spent
    if not error <= least and not math.isnan(least):
        copy(before, r)
        impose(contacts, r, free, w)
        return least
    return error


@inner
def call_direct(
    contacts: Contacts, w: Array, r: Array, goal: float, scale: float, start: int, count: int, work: Workspace
) -> float:
    """Improve w and r by the direct methods; return the residual, or -1."""
    W, weight, at = work.local.W, work.local.weight, work.methods
    error: float = at.direct(
        *(contacts, w, r, W, weight, work.free, goal, scale, start, count, work.lu, work.report),
        *(at.ready, at.interior_point),
    )
    return error


@inner
def call_patches(
    contacts: Contacts, w: Array, r: Array, goal: float, scale: float, core: int, work: Workspace
) -> int:
    """Solve the patches of contacts above the goal; return how many could be."""
    solved: int = work.methods.patches(
        *(contacts, w, r, work.local, work.errors, goal, scale, core),
        *(work.methods.ready, work.methods.interior_point, work.methods.direct),
    )
    work.report[PATCHES] += 1
    if solved > 0:
        restart_momentum(w, r, work.last)
    return solved


@inner
def gauss_seidel(
    contacts: Contacts, w: Array, r: Array, goal: float, quiet: float, limit: int, work: Workspace
) -> None:
    """Sweep until changes are below the goal; leave impulses in their cones and velocities that belong to them."""
    work.report[SWEEPS] += relax(contacts, w, r, work.local, goal, quiet, limit, work.last)
    project_impulses(contacts, r)
    impose(contacts, r, work.free, w)


@inner
def judge(contacts: Contacts, w: Array, r: Array, speed: float, work: Workspace) -> tuple[float, float]:
    """Return the largest residual, a velocity, and the scale to see it by; keep the impulses if they are the best."""
    reached, weight = work.reached, work.local.weight
    error, work.report[WORST] = residual(contacts, w, r, weight, work.errors)
    scale = scale_of(speed, r, weight)
    if error < reached[LEAST] * scale:
        reached[LEAST] = error / scale
        copy(r, work.best)
    reached[ERROR], reached[SCALE] = error, scale
    return error, scale


@inner
def restore_best(contacts: Contacts, w: Array, r: Array, work: Workspace) -> None:
    """Return to the best impulses met, if any had a finite residual: before, `best` is that of another problem."""
    if work.reached[LEAST] < math.inf:
        copy(work.best, r)
        impose(contacts, r, work.free, w)
        restart_momentum(w, r, work.last)


@inner
def iterations(report: Indices) -> int:
    """Return the iterations of all methods."""
    return int(report[SWEEPS] + report[NEWTON] + report[INTERIOR_POINT] + report[PATCHES])


@inner
def unsettled(errors: Array, goal: float, n: int) -> int:
    """Count the contacts among the first ``n`` that are above the goal."""
    count = 0
    for i in range(n):
        if errors[i] > goal:
            count += 1
    return count
