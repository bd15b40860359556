"""Hybrid tests step by step: actuators under mixed control, and structures with bearings and delayed specimens.

A rig (`drive_cycle`)
---------------------
Pistons move with the velocity of their valves, v' = (command - v)/lag, against springs. With the frame's rigid motions
y_s and G = C^T C::

    f = k_a (y - C y_s),   C^T f = r(y_s),   k_a G (y_c - y_s) = r(y_s)

r_m is bilinear in y_s,m alone, so that the place of one motion, others given, is one division or another. Where columns
of C are orthogonal that is all; where they are not, Gauss-Seidel over the motions: G is positive definite and r rises,
so that it converges to the one solution. The loop is continuous, not sampled:
classical Runge-Kutta, whose stages all see the slip of the step's start. What is measured comes late, by a straight
line between stored samples. Ten million steps are a test of 5050 cycles.

A structure (`march`)
---------------------
The steps of `tamis.sim.common.newmark` with bearings between prediction and free solution. A bearing's force is that of
its first stiffness, which is linear and belongs to its subdomain, and what it departs from that. A specimen that an
actuator moves late answers for the displacement of an earlier step, on a straight line between two of them. Held, it
answers for the last one commanded: the force of a step stands for half a step before and after it, so that the place is
the mean of the held command over these. A hold of h steps that begins at a step has its mean of old and new there, and
is late by h/2, 1, 2, ..., h - 1: by h/2 on average. So it is for any h >= 1 and any delay; a hold of less than a step
is a delay of h/2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner, kernel
from tamis.sim.common.newmark import (
    Links,
    Parts,
    State,
    add_linear_forces,
    close,
    couple,
    largest_gaps,
    predict,
    solve_free,
    store_free,
)

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]

SWEEPS = 10000  # over rigid motions that are not orthogonal, at most
SETTLED = 1e-15  # move of a sweep that ends them, of the largest displacement
MIXED, MODAL, DISPLACEMENT = 0, 1, 2  # what the controller closes its loops on


@inner
def slip_of(slip: float, step: float, limit: float) -> float:
    """Return the elastic part of a displacement after a step: B.74, with absolute values and an unloading branch."""
    return min(max(slip + step, -limit), limit)


class Rig(NamedTuple):
    """Actuators and specimen: modes, stiffness, lag and delay in s, the bilinear specimen of each rigid motion."""

    C: Matrix
    P: Matrix
    D: Matrix
    Q: Matrix
    weight: Vector  # diagonal of C^T C
    coupled: bool  # whether C^T C has more than that
    k_a: float
    lag: float
    delay: float
    k_s: Vector
    hardening: float
    limit: Vector  # displacement at yield


class Gains(NamedTuple):
    """Proportional and integral gains of the modes, and the weight of force in a mixed feedback."""

    p_c: Vector
    i_c: Vector
    p_d: Vector
    i_d: Vector
    p: float
    w: float


class Motion(NamedTuple):
    """State of a rig; integrals of errors by mode; a ring of what was measured."""

    y: Vector
    v: Vector
    integral: Vector  # of displacement errors, then of force errors
    y_s: Vector
    slip: Vector
    ring: Matrix  # (samples, actuators displacement and force)
    stored: Numbers  # samples so far


@inner
def specimen(rig: Rig, motion: Motion, y: Vector, f: Vector, y_s: Vector) -> None:
    """Find where the specimen is and the force of each actuator, for the slip of the step's start."""
    for m in range(len(rig.weight)):
        y_c = 0.0
        for i in range(len(y)):
            y_c += rig.P[m, i] * y[i]
        k, limit = rig.k_s[m], rig.limit[m]
        pull, soft = rig.k_a * rig.weight[m], (1.0 - rig.hardening) * k
        back = motion.slip[m] - motion.y_s[m]
        place = (pull * y_c - soft * back) / (pull + k)
        slip = slip_of(back, place, limit)
        if slip != back + place:
            place = (pull * y_c - soft * slip) / (pull + rig.hardening * k)
        y_s[m] = place
    for i in range(len(y)):
        rigid = 0.0
        for m in range(len(rig.weight)):
            rigid += rig.C[i, m] * y_s[m]
        f[i] = rig.k_a * (y[i] - rigid)


@inner
def settle(rig: Rig, motion: Motion, y: Vector, f: Vector, y_s: Vector) -> None:
    """Correct place and forces of a specimen whose rigid motions are not orthogonal, by Gauss-Seidel over them.

    It stands apart so that rigs of orthogonal motions, which have `specimen` only, keep a short inner loop.
    """
    largest = 0.0
    for i in range(len(y)):
        largest = max(largest, abs(y[i]))
    for _ in range(SWEEPS):
        moved = 0.0
        for m in range(len(rig.weight)):
            k, pull = rig.k_s[m], rig.k_a * rig.weight[m]
            soft = (1.0 - rig.hardening) * k
            back = motion.slip[m] - motion.y_s[m]
            pulled = pull * y_s[m]
            for i in range(len(y)):
                pulled += rig.C[i, m] * f[i]
            place = (pulled - soft * back) / (pull + k)
            slip = slip_of(back, place, rig.limit[m])
            if slip != back + place:
                place = (pulled - soft * slip) / (pull + rig.hardening * k)
            for i in range(len(y)):
                f[i] -= rig.k_a * rig.C[i, m] * (place - y_s[m])
            moved = max(moved, math.sqrt(rig.weight[m]) * abs(place - y_s[m]))
            y_s[m] = place
        if moved <= SETTLED * largest:
            break


@inner
def measured(motion: Motion, late: float, y: Vector, f: Vector) -> None:
    """Replace displacements and forces by those of ``late`` steps before the last stored sample."""
    n, size = len(y), len(motion.ring)
    back = min(max(int(math.ceil(late)), 1), size - 1)
    share = (
        back - late
    )  # from the sample ``back`` before the last towards the next; beyond one it extrapolates
    a = (motion.stored[0] - 1 - back) % size
    b = (a + 1) % size
    for i in range(n):
        y[i] = (1.0 - share) * motion.ring[a, i] + share * motion.ring[b, i]
        f[i] = (1.0 - share) * motion.ring[a, n + i] + share * motion.ring[b, n + i]


@inner
def modal_command(
    rig: Rig, gains: Gains, y: Vector, f: Vector, y_ref: Vector, f_ref: Vector,
    integral: Vector, u: Vector, rate: Vector,
) -> None:  # fmt: skip
    """Set the velocities that valves are told, mode by mode, and the rates of the integrals."""
    rigid, internal = len(rig.weight), rig.D.shape[1]
    for i in range(len(u)):
        u[i] = 0.0
    for m in range(rigid):
        y_c = 0.0
        for i in range(len(y)):
            y_c += rig.P[m, i] * y[i]
        error = y_ref[m] - y_c  # A.28
        rate[m] = error
        drive = gains.p_c[m] * error + gains.i_c[m] * integral[m]
        for i in range(len(u)):
            u[i] += rig.C[i, m] * drive
    for m in range(internal):
        f_d = 0.0
        for i in range(len(f)):
            f_d += rig.Q[m, i] * f[i]
        error = f_ref[m] - f_d  # A.29
        rate[rigid + m] = error
        drive = gains.p_d[m] * error + gains.i_d[m] * integral[rigid + m]
        for i in range(len(u)):
            u[i] += rig.D[i, m] * drive  # A.27


@inner
def mixed_command(
    rig: Rig, gains: Gains, y: Vector, f: Vector, y_ref: Vector, f_ref: Vector, u: Vector
) -> None:
    """Set the same in actuator coordinates: a reference and a feedback that mix displacement and force (A.8-A.11)."""
    for i in range(len(u)):
        reference = feedback = 0.0
        for m in range(len(rig.weight)):
            y_c = 0.0
            for j in range(len(y)):
                y_c += rig.P[m, j] * y[j]
            reference += rig.C[i, m] * y_ref[m]
            feedback += rig.C[i, m] * y_c
        for m in range(rig.D.shape[1]):
            f_d = 0.0
            for j in range(len(f)):
                f_d += rig.Q[m, j] * f[j]
            reference += gains.w * rig.D[i, m] * f_ref[m]
            feedback += gains.w * rig.D[i, m] * f_d
        u[i] = gains.p * (reference - feedback)


@kernel
def drive_cycle(
    rig: Rig, gains: Gains, loop: int, motion: Motion, low: Vector, high: Vector, f_ref: Vector, plain: Vector,
    offset: Vector, noise: Matrix, dt: float, y_out: Matrix, f_out: Matrix, s_out: Matrix, ref_out: Matrix,
) -> int:  # fmt: skip
    """Run one cycle of the reference, from the middle over ``high`` and ``low`` back; a row of the outputs a step.

    ``plain`` are the actuators' own references of plain displacement control; ``noise`` is added to what is measured in
    each step. Return 0, or the number of the step at which the motion is no longer finite.
    """
    n, rigid, steps = len(motion.y), len(rig.weight), len(y_out)
    modes = rigid + rig.D.shape[1]
    y, v, f, y_s = np.empty(n), np.empty(n), np.empty(n), np.empty(rigid)
    seen, felt, u, rate = np.empty(n), np.empty(n), np.empty(n), np.zeros(modes)
    y_ref, integral = np.empty(rigid), np.empty(modes)
    dy, dv, de = np.empty(n), np.empty(n), np.empty(modes)
    sum_y, sum_v, sum_e = np.empty(n), np.empty(n), np.empty(modes)
    late = rig.delay / dt
    specimen(rig, motion, motion.y, f, y_s)
    if rig.coupled:
        settle(rig, motion, motion.y, f, y_s)
    if motion.stored[0] == 0:  # all that was measured before is as now
        for row in range(len(motion.ring)):
            for i in range(n):
                motion.ring[row, i], motion.ring[row, n + i] = motion.y[i], f[i]
        motion.stored[0] = len(motion.ring)
    for step in range(steps):
        for i in range(n):
            sum_y[i] = sum_v[i] = dy[i] = dv[i] = 0.0
        for m in range(modes):
            sum_e[m] = de[m] = 0.0
        for stage in range(4):
            part = 0.0 if stage == 0 else (1.0 if stage == 3 else 0.5)
            weight = (1.0 if stage == 0 or stage == 3 else 2.0) / 6.0
            phase = 0.5 * (1.0 + math.sin(2.0 * math.pi * (step + part) / steps))
            for m in range(rigid):
                y_ref[m] = low[m] + (high[m] - low[m]) * phase
            for i in range(n):
                y[i] = motion.y[i] + part * dt * dy[i]
                v[i] = motion.v[i] + part * dt * dv[i]
            for m in range(modes):
                integral[m] = motion.integral[m] + part * dt * de[m]
            specimen(rig, motion, y, f, y_s)
            if rig.coupled:
                settle(rig, motion, y, f, y_s)
            for i in range(n):
                seen[i], felt[i] = y[i], f[i]
            if late > 0.0:
                measured(motion, late - part, seen, felt)
            for i in range(n):
                seen[i] += offset[i] + noise[step, i]
                felt[i] += noise[step, n + i]
            if loop == DISPLACEMENT:
                for i in range(n):
                    wanted = plain[i]
                    for m in range(rigid):
                        wanted += rig.C[i, m] * y_ref[m]
                    u[i] = gains.p * (wanted - seen[i])
            elif loop == MIXED:
                mixed_command(rig, gains, seen, felt, y_ref, f_ref, u)
            else:
                modal_command(rig, gains, seen, felt, y_ref, f_ref, integral, u, rate)
            for i in range(n):
                if rig.lag > 0.0:
                    dy[i], dv[i] = v[i], (u[i] - v[i]) / rig.lag
                else:
                    dy[i], dv[i] = u[i], 0.0
                sum_y[i] += weight * dy[i]
                sum_v[i] += weight * dv[i]
            for m in range(modes):
                de[m] = rate[m]
                sum_e[m] += weight * de[m]
        for i in range(n):
            motion.y[i] += dt * sum_y[i]
            motion.v[i] += dt * sum_v[i]
        for m in range(modes):
            motion.integral[m] += dt * sum_e[m]
        specimen(rig, motion, motion.y, f, y_s)
        if rig.coupled:
            settle(rig, motion, motion.y, f, y_s)
        for m in range(rigid):
            motion.slip[m] = slip_of(motion.slip[m], y_s[m] - motion.y_s[m], rig.limit[m])
            motion.y_s[m] = s_out[step, m] = y_s[m]
            ref_out[step, m] = y_ref[m]
        row = motion.stored[0] % len(motion.ring)
        motion.stored[0] += 1
        for i in range(n):
            motion.ring[row, i] = y_out[step, i] = motion.y[i]
            motion.ring[row, n + i] = f_out[step, i] = f[i]
            if not abs(motion.y[i]) < 1e3:  # m
                return step + 1
    return 0


class Bearings(NamedTuple):
    """Bilinear springs of fine subdomains, whose first stiffness is in the subdomain's; how late they are moved."""

    dof: Numbers
    k: Vector
    alpha: Vector
    limit: Vector  # displacement at yield
    slip: Vector
    place: Vector  # displacement last imposed
    force: Vector
    late: Vector  # steps from a command to the motion
    held: Vector  # steps for which a command is held, one or more; 0: continuous
    ring: Matrix  # (bearings, samples) of commands


@inner
def commanded(ring: Vector, at: float, count: int) -> float:
    """Return the command at a step, or between two; beyond the last, by half a step at most, it goes straight on."""
    if at <= 0.0:
        return 0.0
    before = min(int(at), count - 1)
    share = at - before
    return float((1.0 - share) * ring[before % len(ring)] + share * ring[(before + 1) % len(ring)])


@inner
def push_bearings(bearings: Bearings, state: State, count: int) -> None:
    """Add to the linear forces what bearings depart from their first stiffness by, at the displacement imposed."""
    size = bearings.ring.shape[1]
    for b in range(len(bearings.dof)):
        i, k, alpha = bearings.dof[b], bearings.k[b], bearings.alpha[b]
        wanted = state.u_predicted[i]
        bearings.ring[b, count % size] = wanted
        at, held = count - bearings.late[b], bearings.held[b]
        if held > 0.0:
            begun = math.floor((at + 0.5) / held) * held
            place = commanded(bearings.ring[b], begun, count)
            share = at + 0.5 - begun  # of the step, since the command changed
            if share < 1.0:
                place = share * place + (1.0 - share) * commanded(bearings.ring[b], begun - held, count)
        else:
            place = commanded(bearings.ring[b], at, count)
        slip = slip_of(bearings.slip[b], place - bearings.place[b], bearings.limit[b])
        bearings.slip[b], bearings.place[b] = slip, place
        bearings.force[b] = alpha * k * place + (1.0 - alpha) * k * slip  # B.72-B.74
        state.force[i] += bearings.force[b] - k * wanted


class Book(NamedTuple):
    """What a run writes down: motions and forces at kept instants, largest values over all steps."""

    u: Matrix
    v: Matrix
    force: Matrix
    multiplier: Matrix
    gap: Vector  # largest difference of velocity, of displacement, largest pseudo-energy of a step
    peak: (
        Vector  # largest displacement of the watched degree of freedom, its time, largest total bearing force
    )


@inner
def write_down(book: Book, row: int, state: State, bearings: Bearings) -> None:
    """Keep one instant."""
    book.u[row] = state.u
    book.v[row] = state.v
    book.force[row] = bearings.force
    book.multiplier[row] = state.multiplier


@kernel
def march(
    first: Parts, first_links: Links, parts: Parts, links: Links, state: State, bearings: Bearings, load: Vector,
    pattern: Vector, signal: Vector, dt: float, subcycling: int, twice: bool, watched: int, bound: float, every: int,
    book: Book,
) -> int:  # fmt: skip
    """Step subdomains with bearings through a signal: `partitioned.integrate` in one call, for 1e5 steps and more.

    PM takes its first step with operators of its own, and predicts over two steps from then on. Return 0, or the number
    of the step at which the watched displacement is beyond a bound.
    """
    steps = (len(signal) - 1) // subcycling
    write_down(book, 0, state, bearings)
    for n in range(steps):
        now, tied = parts, links
        if twice and n == 0:
            now, tied = first, first_links
        elif twice and n == 1:
            store_free(parts, links, state)
        again = twice and n > 0
        predict(now, state, False, again)
        add_linear_forces(now, state, False)
        solve_free(now, state, False, load, pattern, signal[(n + 1) * subcycling])
        energy = 0.0
        for j in range(1, subcycling + 1):
            at = n * subcycling + j
            predict(now, state, True, False)
            add_linear_forces(now, state, True)
            push_bearings(bearings, state, at)
            solve_free(now, state, True, load, pattern, signal[at])
            energy += couple(now, tied, state, j / subcycling)
        energy += close(now, tied, state)
        velocity, displacement = largest_gaps(tied, state)
        book.gap[0] = max(book.gap[0], velocity)
        book.gap[1] = max(book.gap[1], displacement)
        book.gap[2] = max(book.gap[2], energy) if n else energy
        if abs(state.u[watched]) > book.peak[0]:
            book.peak[0], book.peak[1] = abs(state.u[watched]), (n + 1) * dt
        book.peak[2] = max(book.peak[2], abs(bearings.force.sum()))
        if not abs(state.u[watched]) < bound:
            return n + 1
        if (n + 1) % every == 0:
            write_down(book, (n + 1) // every, state, bearings)
    return 0
