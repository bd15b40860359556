"""Partitioned time integration: subdomains with their own schemes and steps, tied by localized Lagrange multipliers.

A `Subdomain` (`subdomains`) has some degrees of freedom tied to named nodes of the interface; each node may have any
number of subdomains, in any order. `integrate` steps them all: GC, where fine subdomains take ``subcycling`` steps
while coarse ones take one, or PM, where coarse ones are predicted two steps ahead so that a laboratory need not wait.

Velocities are equal at the interface, not displacements, which makes the coupled scheme stable wherever each subdomain
is by itself (Gravouil & Combescure 2001); displacements drift apart by some beta dt^2 a. The kernels are in `newmark`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.linalg import block_diag, cho_factor, cho_solve

from tamis.errors import SimulationError, StudyError
from tamis.sim.common import newmark
from tamis.sim.common.impulses import Duhamel
from tamis.sim.common.subdomains import Subdomain
from tamis.types import Array, Indices

Method: TypeAlias = Literal["gc", "pm"]


class History(NamedTuple):
    """What `integrate` keeps: instants, motions by subdomain, and how well the interface holds together."""

    t: Array
    u: dict[str, Array]  # (T, n)
    v: dict[str, Array]
    a: dict[str, Array]
    multipliers: dict[str, Array]  # (T, nodes of the subdomain)
    gap: float  # largest difference of velocity at a node, m/s
    drift: float  # largest difference of displacement at a node, m
    energy: Array  # pseudo-energy of the interface, per coarse step


class Operators(NamedTuple):
    """The arrays of a set of subdomains for one step."""

    parts: newmark.Parts
    links: newmark.Links


def integrate(
    subdomains: Sequence[Subdomain],
    signal: Array,
    dt: float,
    *,
    subcycling: int = 1,
    method: Method = "gc",
    every: int = 1,
) -> History:
    """Step subdomains from rest: one Python call a step and restoring function, kernels for the rest.

    Parameters
    ----------
    signal
        What multiplies the patterns of load, at fine instants: ``steps * subcycling + 1`` samples from 0 on.
    dt
        The coarse step; fine subdomains take ``dt / subcycling``.
    every
        Coarse steps from one kept instant to the next; the first is 0.
    """
    signal = np.ascontiguousarray(signal, dtype=float)
    steps = (len(signal) - 1) // subcycling
    stages = prepare(subdomains, dt, subcycling, method)
    load, pattern = loads(subdomains)
    state = start(subdomains, stages[0], load + pattern * signal[0])
    force = load + pattern * signal[0]
    force[stages[0].links.dof] += state.multiplier
    groups = {fine: _Group(subdomains, state, force, fine) for fine in (False, True)}
    kept = _Kept(subdomains, stages[0], state)
    gaps, energy = np.zeros(2), np.zeros(steps)
    with np.errstate(over="ignore", invalid="ignore"):  # divergence is said once, below
        for n in range(steps):
            parts, links = stages[min(n, len(stages) - 1)]
            twice = n > 0 and len(stages) > 1
            if n == 1 and twice:
                newmark.store_free(parts, links, state)
            if n % every == 0:
                kept.keep(n * dt)
            newmark.predict(parts, state, False, twice)
            groups[False].advance(parts, load, pattern, float(signal[(n + 1) * subcycling]), (n + 1) * dt)
            for j in range(1, subcycling + 1):
                newmark.predict(parts, state, True, False)
                at = n * subcycling + j
                groups[True].advance(parts, load, pattern, float(signal[at]), at * dt / subcycling)
                energy[n] += newmark.couple(parts, links, state, j / subcycling)
                groups[True].link()
            energy[n] += newmark.close(parts, links, state)
            groups[False].link()
            gaps = np.maximum(gaps, newmark.largest_gaps(links, state))
            if not np.isfinite(gaps).all() or not np.isfinite(state.u).all():
                raise SimulationError(
                    f"the motion is no longer finite at t = {(n + 1) * dt:g} s: it has diverged"
                )
    if steps % every == 0:
        kept.keep(steps * dt)
    return kept.history(float(gaps[0]), float(gaps[1]), energy)


def prepare(
    subdomains: Sequence[Subdomain], dt: float, subcycling: int, method: Method
) -> tuple[Operators, ...]:
    """Check subdomains and return their operators: one set, or for PM that of the first step and that of the others."""
    if not subdomains:
        raise StudyError("partitioned integration needs at least one subdomain, found none")
    names = [part.name for part in subdomains]
    if len(set(names)) < len(names):
        raise StudyError(f"subdomains need names of their own, found {', '.join(names)}")
    nodes = [node for part in subdomains for node in part.interface]
    for part in subdomains:
        for node in part.interface:
            if nodes.count(node) < 2:
                raise StudyError(
                    f'node "{node}" of {part.name} has no partner: no other subdomain is tied to it; '
                    f"nodes of the others: {', '.join(sorted(set(nodes) - {node})) or 'none'}"
                )
    if not dt > 0 or subcycling < 1:
        raise StudyError(f"expected a positive step and at least one sub-cycle, found {dt:g} s, {subcycling}")
    for part in subdomains:
        step = dt / subcycling if part.fine else (2.0 * dt if method == "pm" else dt)
        if step > part.longest_step():
            raise StudyError(
                f"{part.name}: a step of {step:g} s is beyond the limit of its explicit scheme, "
                f"{part.longest_step():.6g} s (gamma, beta = {part.parameters}); lower dt, sub-cycle more, "
                "or give it more mass"
            )
        if method == "pm" and part.convolution is not None and not part.fine:
            raise StudyError(
                f"{part.name}: impulse responses have one step, PM takes two; make it fine, or use gc"
            )
        if part.convolution is not None and abs(part.convolution.dt - step) > 1e-9 * step:
            raise StudyError(
                f"{part.name}: its impulse responses are sampled every {part.convolution.dt:g} s, but it takes steps "
                f"of {step:g} s; they must be the same"
            )
    first = operators(subdomains, dt, dt / subcycling)
    return (first,) if method == "gc" else (first, operators(subdomains, 2.0 * dt, dt / subcycling))


def operators(subdomains: Sequence[Subdomain], coarse: float, fine: float) -> Operators:
    """Return the arrays of subdomains for a coarse and a fine step."""
    sizes = [len(part.mass) for part in subdomains]
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    block = np.concatenate([[0], np.cumsum(np.square(sizes))]).astype(np.int64)
    dt = np.array([fine if part.fine else coarse for part in subdomains])
    gamma, beta = np.array([part.parameters for part in subdomains]).T.copy()
    inverses = []
    for part, step, g, b in zip(subdomains, dt, gamma, beta, strict=True):
        dynamic = part.mass + g * step * part.dissipation + b * step**2 * part.stiffness  # B.7, B.13
        inverses.append(np.linalg.inv(part.mass if part.convolution is not None else dynamic))
    linear = np.array([part.linear for part in subdomains])
    parts = newmark.Parts(
        first, block, _flat(part.dissipation for part in subdomains), _flat(part.stiffness for part in subdomains),
        _flat(inverses), gamma, beta, dt, np.array([part.fine for part in subdomains]), linear,
    )  # fmt: skip
    owner, dof, node = _ties(subdomains)
    blocks, units = [], []
    for number in range(len(subdomains)):
        local = [i - first[number] for i in dof[owner == number]]
        blocks.append(gamma[number] * dt[number] * inverses[number][np.ix_(local, local)])
        units += [inverses[number][:, i] for i in local]
    at = np.concatenate([[0], np.cumsum([len(unit) for unit in units])]).astype(np.int64)
    of_node = np.array([np.flatnonzero(node == each)[0] for each in node], dtype=np.int64)
    links = newmark.Links(owner, dof, of_node, at, _flat(units), multiplier_matrix(blocks, node))
    return Operators(parts, links)


def multiplier_matrix(compliances: Sequence[Array], node: Indices) -> Array:
    """Return the matrix from free velocities of links to multipliers that make velocities equal at each node.

    Localized multipliers (B.17, B.18) with the velocities of the nodes eliminated: with H the compliances of all
    subdomains and B the nodes of the links, Lambda = -(H^-1 - H^-1 B (B^T H^-1 B)^-1 B^T H^-1) v_free. H and
    B^T H^-1 B are positive definite however many subdomains share a node; the matrix of classical multipliers, one for
    each pair of subdomains, is singular from three on.
    """
    if not len(node):
        return np.zeros((0, 0))
    stiff = np.asarray(block_diag(*[np.linalg.inv(h) for h in compliances if len(h)]))
    ties = (node[:, None] == np.unique(node)[None, :]).astype(float)
    pulled = stiff @ ties
    return np.asarray(pulled @ cho_solve(cho_factor(ties.T @ pulled), pulled.T) - stiff)


def loads(subdomains: Sequence[Subdomain]) -> tuple[Array, Array]:
    """Return constant loads and patterns of all degrees of freedom."""
    return _flat(part.load for part in subdomains), _flat(part.pattern for part in subdomains)


def start(subdomains: Sequence[Subdomain], stage: Operators, load: Array) -> newmark.State:
    """Return the state at rest, its accelerations and multipliers those of the load at the start."""
    n, links = int(stage.parts.first[-1]), len(stage.links.part)
    state = newmark.State(*(np.zeros(n) for _ in range(9)), *(np.zeros(links) for _ in range(4)))
    force = load.copy()
    for part, begin, end in _spans(subdomains, stage):
        if part.restoring is not None:
            force[begin:end] -= part.restoring(np.zeros(end - begin), np.zeros(end - begin), 0.0)
    inverses = [np.asarray(np.linalg.inv(part.mass), dtype=float) for part in subdomains]
    state.a[:] = block_diag(*inverses) @ force
    if links:
        owner, dof, node = _ties(subdomains)
        at_links = [
            inverse[np.ix_(local, local)]
            for number, inverse in enumerate(inverses)
            for local in [dof[owner == number] - stage.parts.first[number]]
        ]
        state.multiplier[:] = multiplier_matrix(at_links, node) @ state.a[dof]
        force[dof] += state.multiplier
        state.a[:] = block_diag(*inverses) @ force
    state.multiplier_before[:] = state.multiplier
    newmark.store_free(stage.parts, stage.links, state)
    return state


def _flat(arrays: Iterable[Array]) -> Array:
    flat = [np.asarray(each, dtype=float).ravel() for each in arrays]
    return np.concatenate(flat) if flat else np.zeros(0)


def _ties(subdomains: Sequence[Subdomain]) -> tuple[newmark.Numbers, newmark.Numbers, newmark.Numbers]:
    """Return subdomain, degree of freedom among all, and node of each link."""
    names = {
        node: k
        for k, node in enumerate(dict.fromkeys(node for part in subdomains for node in part.interface))
    }
    owner, dof, node = [], [], []
    begin = 0
    for number, part in enumerate(subdomains):
        for name, i in part.interface.items():
            owner.append(number)
            dof.append(begin + i)
            node.append(names[name])
        begin += len(part.mass)
    return np.array(owner, dtype=np.int64), np.array(dof, dtype=np.int64), np.array(node, dtype=np.int64)


def _spans(subdomains: Sequence[Subdomain], stage: Operators) -> Iterator[tuple[Subdomain, int, int]]:
    first = stage.parts.first
    for number, part in enumerate(subdomains):
        yield part, int(first[number]), int(first[number + 1])


class _Group:
    """The fine or the coarse subdomains: kernels for all of them, calls for those whose force comes from outside."""

    def __init__(
        self, subdomains: Sequence[Subdomain], state: newmark.State, force: Array, fine: bool
    ) -> None:
        self._state, self._fine = state, fine
        self._outside: list[tuple[Subdomain, slice]] = []
        self._sums: list[tuple[Duhamel, Subdomain, slice, slice]] = []
        begin = link = 0
        for part in subdomains:
            end = begin + len(part.mass)
            span, links = slice(begin, end), slice(link, link + len(part.interface))
            if part.fine == fine and part.convolution is not None:
                self._sums.append((part.convolution.start(force[span]), part, span, links))
            elif part.fine == fine and not part.linear:
                self._outside.append((part, span))
            begin, link = end, link + len(part.interface)

    def advance(self, parts: newmark.Parts, load: Array, pattern: Array, signal: float, t: float) -> None:
        """Find the free solution of the group at t, its predictors being there."""
        state = self._state
        newmark.add_linear_forces(parts, state, self._fine)
        for part, span in self._outside:
            if part.specimen is not None:
                part.specimen.impose(state.u_predicted[span].copy(), state.v_predicted[span].copy(), t)
        for part, span in self._outside:
            if part.specimen is not None:
                state.force[span] += part.specimen.read()
            elif part.restoring is not None:
                state.force[span] += part.restoring(state.u_predicted[span], state.v_predicted[span], t)
        newmark.solve_free(parts, state, self._fine, load, pattern, signal)
        for running, _, span, _ in self._sums:
            state.u[span], state.v[span], state.a[span] = running.free(load[span] + pattern[span] * signal)

    def link(self) -> None:
        """Hand the multipliers to the sums that keep them."""
        for running, part, span, links in self._sums:
            force = np.zeros(span.stop - span.start)
            force[list(part.interface.values())] = self._state.multiplier[links]
            self._state.a[span] = running.link(force)


class _Kept:
    """Motions at the instants that are kept."""

    def __init__(self, subdomains: Sequence[Subdomain], stage: Operators, state: newmark.State) -> None:
        self._subdomains, self._stage, self._state = subdomains, stage, state
        self._t: list[float] = []
        self._rows: list[tuple[Array, ...]] = []

    def keep(self, t: float) -> None:
        self._t.append(t)
        state = self._state
        self._rows.append((state.u.copy(), state.v.copy(), state.a.copy(), state.multiplier.copy()))

    def history(self, gap: float, drift: float, energy: Array) -> History:
        u, v, a, multipliers = (np.array(column) for column in zip(*self._rows, strict=True))
        spans = [(part.name, slice(begin, end)) for part, begin, end in _spans(self._subdomains, self._stage)]
        owner = self._stage.links.part
        return History(
            np.array(self._t),
            {name: u[:, span] for name, span in spans},
            {name: v[:, span] for name, span in spans},
            {name: a[:, span] for name, span in spans},
            {name: multipliers[:, owner == number] for number, (name, _) in enumerate(spans)},
            gap, drift, energy,
        )  # fmt: skip
