"""Small patches of stubborn contacts, solved on their own between sweeps.

After some hundred sweeps over thousands of grains most contacts are settled, and those that are not lie in twos and
threes: a grain wedged between others, whose impulses must travel far while hardly a velocity changes. Sweeps would
need hundreds of visits to take them there, each to all contacts. Newton's method and the path do it at once, for the
price of factorising a dozen bodies.

A patch is a set of at most `CORE` bodies, or more where the caller asks for it, that unsettled contacts join (found by
merging, smaller number first, so that the same problem gives the same patches), with all contacts of these bodies;
the bodies beyond move with them, their other contacts hold still. It is a contact problem like the whole, with the
free velocities ``w - G^T r`` of its own contacts, and it is solved as such. Patches are solved one after another,
each seeing the results of those before: Gauss-Seidel with larger blocks, where they pay.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import apart, inner
from tamis.sim.contact.gauss_seidel import Local
from tamis.sim.contact.linear import BlockLU, analyse, block_lu
from tamis.sim.contact.problem import Contacts, push

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

CORE = 12  # bodies that unsettled contacts join, ordinarily
LARGE = 192  # and at most, where small patches come to nothing
BODIES, CONTACTS = 400, 1600  # a patch with its surroundings; larger ones are left to the sweeps


class Patch(NamedTuple):
    """One patch, gathered, and what is needed to find and to solve it."""

    parent: Indices  # (bodies,) number of the patch of each body, or -1
    size: Indices  # (bodies,)
    number: Indices  # (bodies,) place in the patch, or -1
    first: Indices  # (bodies,) first entry of a patch in `following`, or -1
    following: Indices  # (2 contacts,) entry after this one; entry 2 i + side is contact i
    rows: Indices
    bodies: Indices
    contacts: Contacts
    W: Array
    weight: Array
    w: Array
    free: Array
    r: Array
    lu: BlockLU


@inner
def patch_arrays(n_bodies: int, n_contacts: int) -> Patch:
    """Allocate for patches of a problem of so many bodies and contacts."""
    m, n = min(BODIES, n_bodies), min(CONTACTS, n_contacts)
    contacts = Contacts(
        np.empty(n, np.int64), np.empty(n, np.int64), np.empty((n, 3, 12)), np.empty((n, 3)), np.empty(n)
    )
    return Patch(
        np.empty(n_bodies, np.int64),
        np.empty(n_bodies, np.int64),
        np.full(n_bodies, -1),
        np.empty(n_bodies, np.int64),
        np.empty(2 * n_contacts, np.int64),
        np.empty(n, np.int64),
        np.empty(m, np.int64),
        contacts,
        np.empty((n, 3, 3)),
        np.empty(n),
        np.empty((m, 6)),
        np.empty((m, 6)),
        np.empty((n, 3)),
        block_lu(m),
    )


@inner
def root(parent: Indices, body: int) -> int:
    """Follow ``parent`` to the body that names the patch."""
    while parent[body] != body:
        body = int(parent[body])
    return body


@inner
def find_patches(contacts: Contacts, errors: Array, threshold: float, core: int, m: int, p: Patch) -> None:
    """Merge the bodies of contacts above the threshold, up to ``core``; list the contacts of each patch."""
    parent, size = p.parent, p.size
    for k in range(m):
        parent[k], size[k], p.first[k] = -1, 1, -1
    for i in range(contacts.row_a.size):
        if errors[i] > threshold:
            a, b = contacts.row_a[i], contacts.row_b[i]
            for k in (a, b):
                if k >= 0 and parent[k] < 0:
                    parent[k] = k
            if a >= 0 and b >= 0:
                x, y = root(parent, a), root(parent, b)
                if x != y and size[x] + size[y] <= core:
                    low, high = min(x, y), max(x, y)
                    parent[high] = low
                    size[low] += size[high]
    for i in range(contacts.row_a.size - 1, -1, -1):  # backwards, so that the lists are in order
        for side in range(2):
            body = contacts.row_a[i] if side == 0 else contacts.row_b[i]
            if body >= 0 and parent[body] >= 0:
                x = root(parent, body)
                if (
                    side == 0
                    or contacts.row_a[i] < 0
                    or parent[contacts.row_a[i]] < 0
                    or root(parent, contacts.row_a[i]) != x
                ):
                    p.following[2 * i + side] = p.first[x]
                    p.first[x] = 2 * i + side


@inner
def place_of(body: int, count: int, p: Patch) -> int:
    """Return the number of a body in the patch, the next one if it is new."""
    if body < 0:
        return -1
    if p.number[body] < 0:
        p.number[body] = count
        p.bodies[count] = body
    return int(p.number[body])


@inner
def gather(contacts: Contacts, w: Array, r: Array, local: Local, entry: int, p: Patch) -> tuple[int, int]:
    """Copy the contacts listed from ``entry`` and their bodies; return how many, no contacts if they do not fit."""
    n = m = 0
    while entry >= 0:
        if n == CONTACTS or m + 2 > BODIES:
            n = 0
            break
        i = entry // 2
        p.rows[n] = i
        p.contacts.row_a[n] = place_of(contacts.row_a[i], m, p)
        m = max(m, p.contacts.row_a[n] + 1)
        p.contacts.row_b[n] = place_of(contacts.row_b[i], m, p)
        m = max(m, p.contacts.row_b[n] + 1)
        p.contacts.mu[n] = contacts.mu[i]
        p.weight[n] = local.weight[i]
        for j in range(3):
            p.contacts.bias[n, j] = contacts.bias[i, j]
            p.r[n, j] = r[i, j]
            for k in range(12):
                p.contacts.G[n, j, k] = contacts.G[i, j, k]
            for k in range(3):
                p.W[n, j, k] = local.W[i, j, k]
        n += 1
        entry = p.following[entry]
    for k in range(m):
        p.number[p.bodies[k]] = -1
        for j in range(6):
            p.w[k, j] = p.free[k, j] = w[p.bodies[k], j]
    for i in range(n):
        push(i, p.contacts, p.free, -p.r[i, 0], -p.r[i, 1], -p.r[i, 2])
    return n, m


@apart
def solve_patches(
    contacts: Contacts,
    w: Array,
    r: Array,
    local: Local,
    errors: Array,
    goal: float,
    scale: float,
    core: int,
    ready: Indices,
    interior_point: Any,
    direct: Any,
) -> int:
    """Solve patches of contacts above ``goal``, each to half of it; return how many were, or -1 as `direct` does."""
    p = patch_arrays(w.shape[0], contacts.mu.size)
    find_patches(contacts, errors, goal, core, w.shape[0], p)
    report = np.empty(6, np.int64)  # of the direct methods; not asked for
    solved = 0
    for x in range(w.shape[0]):
        if p.parent[x] != x:
            continue
        n, m = gather(contacts, w, r, local, p.first[x], p)
        if n == 0:
            continue
        c = p.contacts
        own = Contacts(c.row_a[:n], c.row_b[:n], c.G[:n], c.bias[:n], c.mu[:n])
        count, _ = analyse(m, own.row_a, own.row_b, p.lu)
        if count == 0:
            continue
        w_own, r_own, free = p.w[:m], p.r[:n], p.free[:m]
        error = direct(
            *(own, w_own, r_own, p.W[:n], p.weight[:n], free, 0.5 * goal, scale, 0, count, p.lu, report),
            *(ready, interior_point),
        )
        if error < 0.0:
            return -1
        if error <= goal:
            solved += 1
            for i in range(n):
                for j in range(3):
                    r[p.rows[i], j] = p.r[i, j]
            for k in range(m):
                for j in range(6):
                    w[p.bodies[k], j] = p.w[k, j]
    return solved
