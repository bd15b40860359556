"""Newmark steps of subdomains that share degrees of freedom: free solution, interface problem, link solution.

The equations (GC: Gravouil & Combescure 2001; PM: Bonelli et al. 2008; B.n: SERA deliverable D27.1, 2019, corrected)
----------------------------------------------------------------------------------------------------------------------
What is misprinted in the deliverable is listed in docs/theory/hybrid.md.
Each subdomain takes a Newmark step by itself, then forces at the interface make all velocities there equal::

    u~ = u_n + dt v_n + (1/2 - beta) dt^2 a_n,   v~ = v_n + (1 - gamma) dt a_n              B.8, B.9, B.14, B.15
    D a_free = F - r(u~) - C v~,   D = M + gamma dt C + beta dt^2 K                         B.4, B.7, B.10, B.13
    sum over subdomains: H_l Lambda_l - u_g' = -v_l,free,  sum Lambda_l = 0                 B.17, B.18
    a = a_free + D^-1 L^T Lambda,  v = v_free + gamma dt (..),  u = u_free + beta dt^2 (..)  B.19-B.26

with H_l = gamma dt L D^-1 L^T. K is the stiffness at the start and r is evaluated at the predictor, once a step
(operator splitting): nothing iterates, so that a specimen in the laboratory is never loaded back and forth.

Coarse subdomains take one step of dt_N while fine ones take ss of dt_P. In between, the *free* velocity of the coarse
ones is interpolated from the one that was stored at the step before (B.16; with the total velocity there the scheme
does not converge). PM predicts coarse subdomains over two steps, from the state before the last: its operators are
those of 2 dt_N, everything else is the same.

Why the data lie so
-------------------
Subdomains have 1 to some 30 degrees of freedom, where a call of LAPACK costs more than the product: matrices are small,
dense and inverted once, and lie row by row in one flat array, those of subdomain l at ``block[l]``; its degrees of
freedom are ``first[l]`` to ``first[l+1]`` of all. A link is one of them tied to one node of the interface; its column
of D^-1 L^T lies at ``at[k]``. The interface problem is condensed to one matrix by which the free velocities of all
links are multiplied.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import kernel

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Parts(NamedTuple):
    """Subdomains one after the other: degrees of freedom, matrices, Newmark parameters and step of each."""

    first: Numbers
    block: Numbers
    damping: Vector
    stiffness: Vector  # of linear ones; the others' force comes from outside
    inverse: Vector  # of D
    gamma: Vector
    beta: Vector
    dt: Vector
    fine: Flags
    linear: Flags


class Links(NamedTuple):
    """Degrees of freedom tied to nodes of the interface."""

    part: Numbers
    dof: Numbers
    first: Numbers  # the first link of the same node
    at: Numbers
    unit: Vector  # columns of D^-1 L^T
    solve: Matrix  # free velocities of all links -> multipliers


class State(NamedTuple):
    """Motion, the motion a coarse step before, predictors, forces, and what links keep from step to step."""

    u: Vector
    v: Vector
    a: Vector
    u_before: Vector
    v_before: Vector
    a_before: Vector
    u_predicted: Vector
    v_predicted: Vector
    force: Vector
    multiplier: Vector
    stored: Vector  # free velocity of coarse links at the end of the last coarse step
    multiplier_before: Vector  # at the last step of the link's own subdomain
    velocity_before: Vector


@kernel
def predict(parts: Parts, state: State, fine: bool, twice: bool) -> None:
    """Predict fine or coarse subdomains; coarse ones from the state before the last where steps are taken twice."""
    for part in range(len(parts.dt)):
        if parts.fine[part] != fine:
            continue
        dt, gamma, beta = parts.dt[part], parts.gamma[part], parts.beta[part]
        for i in range(parts.first[part], parts.first[part + 1]):
            u, v, a = state.u[i], state.v[i], state.a[i]
            if twice and not fine:
                u, v, a = state.u_before[i], state.v_before[i], state.a_before[i]
            state.u_predicted[i] = u + dt * v + (0.5 - beta) * dt * dt * a  # B.8, B.14
            state.v_predicted[i] = v + (1.0 - gamma) * dt * a  # B.9, B.15


@kernel
def add_linear_forces(parts: Parts, state: State, fine: bool) -> None:
    """Set forces at the predictor: damping, and stiffness of linear subdomains."""
    for part in range(len(parts.dt)):
        if parts.fine[part] != fine:
            continue
        begin, end, at = parts.first[part], parts.first[part + 1], parts.block[part]
        linear = parts.linear[part]
        for i in range(begin, end):
            total = 0.0
            for j in range(begin, end):
                total += parts.damping[at] * state.v_predicted[j]
                if linear:
                    total += parts.stiffness[at] * state.u_predicted[j]
                at += 1
            state.force[i] = total


@kernel
def solve_free(parts: Parts, state: State, fine: bool, load: Vector, pattern: Vector, signal: float) -> None:
    """Step fine or coarse subdomains as if nothing were linked to them (B.4-B.6, B.10-B.12)."""
    for part in range(len(parts.dt)):
        if parts.fine[part] != fine:
            continue
        begin, end, at = parts.first[part], parts.first[part + 1], parts.block[part]
        dt, gamma, beta = parts.dt[part], parts.gamma[part], parts.beta[part]
        for i in range(begin, end):
            state.u_before[i], state.v_before[i], state.a_before[i] = state.u[i], state.v[i], state.a[i]
            state.force[i] = load[i] + pattern[i] * signal - state.force[i]
        for i in range(begin, end):
            a = 0.0
            for j in range(begin, end):
                a += parts.inverse[at] * state.force[j]
                at += 1
            state.a[i] = a
            state.v[i] = state.v_predicted[i] + gamma * dt * a
            state.u[i] = state.u_predicted[i] + beta * dt * dt * a


@kernel
def apply_links(parts: Parts, links: Links, state: State, fine: bool) -> float:
    """Add the link solution to fine or coarse subdomains (B.19-B.26); return the interface's pseudo-energy.

    That is the sum of (v - v_before) (Lambda - Lambda_before) / dt over their links (Gravouil & Combescure 2001): over
    all subdomains and fine steps of a coarse step of GC it is never positive, and zero without sub-cycling.
    """
    for k in range(len(links.part)):
        part = links.part[k]
        if parts.fine[part] != fine:
            continue
        dt, gamma, beta = parts.dt[part], parts.gamma[part], parts.beta[part]
        at = links.at[k]
        for i in range(parts.first[part], parts.first[part + 1]):
            a = links.unit[at] * state.multiplier[k]
            at += 1
            state.a[i] += a
            state.v[i] += gamma * dt * a
            state.u[i] += beta * dt * dt * a
    energy = 0.0
    for k in range(len(links.part)):
        part = links.part[k]
        if parts.fine[part] == fine:
            v, force = state.v[links.dof[k]], state.multiplier[k]
            energy += (v - state.velocity_before[k]) * (force - state.multiplier_before[k]) / parts.dt[part]
            state.velocity_before[k], state.multiplier_before[k] = v, force
    return energy


@kernel
def couple(parts: Parts, links: Links, state: State, share: float) -> float:
    """Solve the interface problem at a share of the coarse step, and link the fine subdomains (B.16-B.22).

    A coarse subdomain stands at its free solution of the end of the step; its velocity is interpolated from the stored
    free one. Return the pseudo-energy of fine links.
    """
    count = len(links.part)
    for k in range(count):
        state.multiplier[k] = 0.0
    for k in range(count):
        v = state.v[links.dof[k]]
        if not parts.fine[links.part[k]]:
            v = (1.0 - share) * state.stored[k] + share * v  # B.16
        for i in range(count):
            state.multiplier[i] += links.solve[i, k] * v
    return apply_links(parts, links, state, True)


@kernel
def close(parts: Parts, links: Links, state: State) -> float:
    """End a coarse step: store the free velocities, link the coarse subdomains with the last multipliers."""
    for k in range(len(links.part)):
        state.stored[k] = state.v[links.dof[k]]
    return apply_links(parts, links, state, False)


@kernel
def store_free(parts: Parts, links: Links, state: State) -> None:
    """Store the free velocities to which these operators and the present multipliers add up to the present ones."""
    for i in range(len(links.part)):
        part = links.part[i]
        state.stored[i] = state.v[links.dof[i]]
        for k in range(len(links.part)):
            if links.part[k] == part:
                a = links.unit[links.at[k] + links.dof[i] - parts.first[part]] * state.multiplier[k]
                state.stored[i] -= parts.gamma[part] * parts.dt[part] * a


@kernel
def largest_gaps(links: Links, state: State) -> tuple[float, float]:
    """Return the largest differences of velocity and of displacement between links of one node."""
    velocity = displacement = 0.0
    for k in range(len(links.part)):
        i, j = links.dof[k], links.dof[links.first[k]]
        velocity = max(velocity, abs(state.v[i] - state.v[j]))
        displacement = max(displacement, abs(state.u[i] - state.u[j]))
    return velocity, displacement
