"""The arrays of a run, in small tuples.

Small, because the compiler passes every array of a tuple by itself: a stage that takes only what it reads
compiles in a fraction of the time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.sim.common.broad import Sweep
from tamis.sim.common.collide import Narrow
from tamis.sim.common.geometry import Geometry, Manifolds, World
from tamis.sim.contact.solve import Workspace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Bodies(NamedTuple):
    """What does not change about the bodies."""

    mass: Floats  # (b, 6) three times the mass, then the principal moments of inertia
    root: Floats  # (b, 6) its square root
    inverse: Floats  # (b, 6) one over the root; zero for bodies that do not respond
    force: Floats  # (b, 6) weight and other constant forces and torques, in space axes
    number: Ints  # (b,) of the body among those that respond; -1 for the others
    responds: Bools  # (b,) to forces
    moves: Bools  # (b,) responds, or has a prescribed motion
    motion: Ints  # (b,) row of `driven`; -1 for none
    driven: Floats  # (m, steps + 1, 6) prescribed velocities, angular ones in the body's axes
    stride: Floats  # (b,) what a point of a body may cover in a step so that it does not pass through another
    extent: Floats  # (b,) of the farthest point from the centre of mass
    arm: Floats  # (b, 3) how far turning about each axis moves what is not round about it, beyond half its thickness


class Laws(NamedTuple):
    """Which groups meet, and how."""

    meet: Bools  # (g, g)
    number: Ints  # (g, g) of the law of two groups
    mu: Floats  # (l,)
    e: Floats  # (l,)


class Stops(NamedTuple):
    """Axial stops, each with an anchor in both bodies; anchors are numbered after the contactors."""

    point: Floats  # (s, 2, 3) of the anchors, from the centre of mass in principal axes
    axis: Floats  # (s, 3) in the principal axes of the first body; zero: along the line of the anchors
    limits: Floats  # (s, 2) shortest and longest
    owner: Ints  # (contactors + 2 s,) bodies
    group: Ints  # (contactors + 2 s,) groups, by which the law is found


class Model(NamedTuple):
    """All that does not change in a run."""

    geometry: Geometry
    bodies: Bodies
    laws: Laws
    stops: Stops


class Impulses(NamedTuple):
    """Impulses of the last step, in the order of their pairs."""

    held: Ints  # (1,) how many
    a: Ints  # (n,) contactors
    b: Ints  # (n,)
    feature: Ints  # (n,)
    value: Floats  # (n, 3) in space axes, on b


class Books(NamedTuple):
    """The energy ledger: sums since the start."""

    work: Floats  # (l, 3) of each law: impact, friction, gain
    driver: Floats  # (2,) of prescribed motions, of constant torques
    quiet: Ints  # (2,) steps in a row in which nothing moved faster than the limit of rest, parts done of the next one
    passed: Floats  # (2,) largest share of its stride that a point of a body has covered in a step, and which body


class State(NamedTuple):
    """What a step changes."""

    x: Floats  # (b, 3) centres of mass
    q: Floats  # (b, 4) of the principal axes
    v: Floats  # (b, 6) linear in space axes, angular in principal axes
    impulses: Impulses
    books: Books


class Motion(NamedTuple):
    """Between the start and the end of a step."""

    x: Floats  # (b, 3) predicted
    q: Floats  # (b, 4)
    before: Floats  # (b, 6) velocities before any force
    free: Floats  # (b, 6) velocities before contact forces
    w: Floats  # (responding, 6) those of bodies that respond, times the root of the mass; the solver's unknown


class Active(NamedTuple):
    """Contacts that may carry an impulse in this step."""

    row: Ints  # (n,) in the list of contacts found
    bodies: Ints  # (n, 2)
    law: Ints  # (n,)
    row_a: Ints  # (n,) of `Motion.w`, -1 for a body that does not respond
    row_b: Ints  # (n,)
    G: Floats  # (n, 3, 12)
    bias: Floats  # (n, 3)
    mu: Floats  # (n,)
    frame: Floats  # (n, 3, 3)
    apart: Floats  # (n, 3) mean relative velocity due to bodies that do not respond
    r: Floats  # (n, 3)


class Islands(NamedTuple):
    """Bodies that act on each other in this step, directly or through others; by number among those that respond."""

    root: Ints  # (responding,) the lowest body of the island
    work: Floats  # (responding,) of the contacts of the island named by its root, with beta = 0
    late: Floats  # (responding,) by how much beta lowers it
    gained: Floats  # (responding,) positive works alone, with the beta chosen
    beta: Floats  # (responding,) the centre of action


class Detection(NamedTuple):
    """What finds contacts."""

    world: World
    sweep: Sweep
    pairs: Ints
    narrow: Narrow


class Scratch(NamedTuple):
    """Room for one step."""

    motion: Motion
    islands: Islands
    detection: Detection
    found: Manifolds
    active: Active
    solver: Workspace
    detect: Any  # address of `kernels.detect`
    solve: Any  # and of `solve_contacts`


class Track(NamedTuple):
    """What is kept of the instants recorded, the last step always among them."""

    every: Ints  # (1,)
    x: Floats  # (t, b, 3)
    q: Floats  # (t, b, 4)
    v: Floats  # (t, b, 6)
    energy: Floats  # (t, 2) kinetic, potential
    work: Floats  # (t, l, 3)
    driver: Floats  # (t, 2)


class Steps(NamedTuple):
    """What is kept of every step."""

    report: Ints  # (steps, 5) iterations of each method of the solver, and its strategy
    status: Ints  # (steps,)
    active: Ints  # (steps,)
    residual: Floats  # (steps,)
    worst: Ints  # (steps, 2) bodies of the contact with the largest residual


class Listed(NamedTuple):
    """The contacts of the instants recorded."""

    used: Ints  # (2,) rows in use, and at the end of the last instant recorded
    instant: Ints  # (c,)
    bodies: Ints  # (c, 2)
    law: Ints  # (c,)
    point: Floats  # (c, 3)
    impulse: Floats  # (c, 3) on the second body, in space axes
    gap: Floats  # (c,)


class Record(NamedTuple):
    """All that is kept."""

    track: Track
    steps: Steps
    listed: Listed
