"""What is kept of a run: instants, contacts of these instants, what the solver did in each step.

An instant is the end of a step. Where a step is taken in parts, its contacts are listed once a part, each with the
impulse of that part, so that their sum over an instant is the change of momentum in its step.
"""

from __future__ import annotations

from tamis.jit import inner
from tamis.sim.common.geometry import Manifolds
from tamis.sim.contact.solve import ERROR, STRATEGY, WORST, Workspace
from tamis.sim.nscd.arrays import Active, Bodies, Impulses, Listed, State, Steps, Track


@inner
def keep(bodies: Bodies, state: State, instant: int, track: Track) -> None:
    """Write one instant into the record: places, velocities, energies and sums."""
    kinetic, potential = 0.0, 0.0
    for i in range(len(state.x)):
        for j in range(3):
            track.x[instant, i, j] = state.x[i, j]
        for j in range(4):
            track.q[instant, i, j] = state.q[i, j]
        for j in range(6):
            track.v[instant, i, j] = state.v[i, j]
        if bodies.number[i] >= 0:
            for j in range(6):
                kinetic += 0.5 * bodies.mass[i, j] * state.v[i, j] ** 2
            for j in range(3):
                potential -= bodies.force[i, j] * state.x[i, j]
    track.energy[instant, 0], track.energy[instant, 1] = kinetic, potential
    for law in range(len(state.books.work)):
        for j in range(3):
            track.work[instant, law, j] = state.books.work[law, j]
    track.driver[instant, 0], track.driver[instant, 1] = state.books.driver[0], state.books.driver[1]


@inner
def enlist(instant: int, found: Manifolds, active: Active, kept: Impulses, listed: Listed) -> None:
    """Append the contacts of an instant to the list."""
    for i in range(kept.held[0]):
        k, at = active.row[i], listed.used[0]
        listed.instant[at], listed.gap[at], listed.law[at] = instant, found.gap[k], active.law[i]
        for j in range(2):
            listed.bodies[at, j] = active.bodies[i, j]
        for j in range(3):
            listed.point[at, j] = found.point[k, j]
            listed.impulse[at, j] = kept.value[i, j]
        listed.used[0] += 1


@inner
def tell(solver: Workspace, status: int, active: Active, step: int, steps: Steps) -> None:
    """Write what the solver did in a step, or add it where a step is taken in parts: the worst of them counts."""
    done, worst = solver.report, solver.report[WORST]
    for k in range(STRATEGY):
        steps.report[step, k] += done[k]
    steps.report[step, STRATEGY] = done[STRATEGY]
    steps.status[step] = max(status, steps.status[step])
    if solver.reached[ERROR] >= steps.residual[step]:
        steps.residual[step] = solver.reached[ERROR]
        steps.worst[step, 0], steps.worst[step, 1] = active.bodies[worst, 0], active.bodies[worst, 1]
