"""A hybrid fire test, rehearsed: a hot specimen and a cold computed rest, tied at mid-height of the second storey.

The rest is linear and condensed to its interface. Both parts are moved by dynamic relaxation with the partitioned
integration of `sim.common` (C.1-C.15 of the SERA deliverable D27.1, 2019, corrected): fictitious masses and dampers,
one evaluation of the restoring forces a step, velocities made equal by localized Lagrange multipliers. The specimen is
reached by two calls, impose a displacement and read the force, as a laboratory would offer it; here it is a fibre
model that finds its own equilibrium at each step and remembers its plastic strains.

A ramp of temperature is followed with a lag. Where the rest position moves at a velocity ``v``, dampers hold the parts
back by ``K^-1 C v``: of the cold frame that is ``2/omega_0 v``, and more as its stiffness falls. Steel that yields
remembers the lag after it is gone. Dampers that leave the mean motion of the last moments alone (`Following`) do not
cause it: at ``C (v - w)``, ``w' = (v - w)/tau``, only the change of velocity is left, ``K^-1 C tau v'``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tamis.errors import SimulationError
from tamis.sim.common.partitioned import integrate
from tamis.sim.common.subdomains import Subdomain
from tamis.sim.fire.condense import Condensed, craig_bampton
from tamis.sim.fire.kernels import CONVERGED, Loading
from tamis.sim.fire.path import Path
from tamis.sim.fire.relaxation import dense, lowest, masses
from tamis.sim.fire.structure import Structure, lumped_masses
from tamis.types import Array, Indices

_TOLERANCE = 1e-9  # residual of the specimen's own equilibrium, of its greatest force


@dataclass
class HotSpecimen:
    """The heated part: its interface is imposed, the rest of it finds its equilibrium, and the forces are read."""

    path: Path
    interface: Indices  # numbers of its supports that are imposed
    shape: Array  # (free, interface): what the rest of it does when the interface moves, cold: where the search begins
    settling: float  # s before the fire
    every: float  # s between kept states
    times: list[float] = field(default_factory=list)
    states: list[Array] = field(default_factory=list)
    tangents: list[Array] = field(default_factory=list)  # condensed to the interface

    def impose(self, u: Array, v: Array, t: float) -> None:
        """Move the interface, at a time of the test."""
        now = t - self.settling
        path = self.path
        state = path.state
        free, edge = len(path.frame.spring), self.interface
        moved = state.u + state.step_u
        moved[:free] += self.shape @ (u - moved[edge])
        moved[edge] = u
        status, _, relative = path.rest(moved, max(now, 0.0), _TOLERANCE)
        if status != CONVERGED:
            raise SimulationError(
                f"the specimen has no equilibrium {now:.6g} s after the fire began: residual {relative:.3g} of its "
                "greatest force; states until then are kept"
            )
        path.accept(moved, max(now, 0.0), 0)
        if (not self.times and now >= -1e-9) or (self.times and now >= self.times[-1] + self.every - 1e-9):
            self.times.append(max(0.0, now))
            self.states.append(moved)
            self.tangents.append(condensed_tangent(path, edge, max(0.0, now))[0])

    def read(self) -> Array:
        """Return the forces on the interface."""
        return self.path.force[self.interface].copy()


@dataclass
class Following:
    """A specimen whose dampers, and those of the rest, leave the mean motion of the last moments alone."""

    specimen: HotSpecimen
    damping: Array  # of both parts, at the interface
    share: float  # of a step in the time over which the mean is taken
    mean: Array

    def impose(self, u: Array, v: Array, t: float) -> None:
        """Move the interface, at a time of the test."""
        self.specimen.impose(u, v, t)
        if t > self.specimen.settling:
            self.mean += self.share * (v - self.mean)

    def read(self) -> Array:
        """Return the forces on the interface, less what the dampers would do against the mean motion."""
        return self.specimen.read() - self.damping * self.mean


@dataclass(frozen=True)
class Parts:
    """A frame cut in two: the hot part with its interface as supports, the cold part condensed."""

    hot: Path
    imposed: Indices  # interface among the numbers of the hot part
    cold: Structure
    stiffness: Array  # of the cold part, its free degrees of freedom
    interface: Indices  # among those
    condensed: Condensed

    def hot_stiffness(self) -> tuple[Array, Array]:
        """Return the stiffness of the cold specimen condensed to its interface, and how the rest of it follows."""
        return condensed_tangent(self.hot, self.imposed, 0.0)

    def lag(self, test: Test) -> Array:
        """Return by how much a test is behind its ramp, to first order: (instants, free degrees of the rest)."""
        count = len(self.imposed)
        stiffness = test.tangents + self.condensed.stiffness[:count, :count]
        velocity = np.gradient(test.hot[:, self.imposed], test.times, axis=0)
        edge = np.linalg.solve(stiffness, (test.damping * velocity)[:, :, None])[:, :, 0]
        return np.asarray(edge @ self.condensed.shape[:, :count].T)


def condensed_tangent(path: Path, interface: Indices, s: float) -> tuple[Array, Array]:
    """Return the tangent of a specimen condensed to its interface, and how the rest of it follows.

    It is that of going on, from plastic strains a step earlier: from those of the state itself all fibres unload.
    """
    frame, n = path.frame, len(path.structure.owners)
    free = len(frame.spring)
    everything = frame._replace(spring=np.concatenate([frame.spring, np.zeros(n - free)]))
    open_ = Path(path.structure, path.loading._replace(load0=np.zeros(n), load1=np.zeros(n)), everything)
    open_.state = replace(open_.state, u=path.state.u, plastic=path.state.before)
    whole = dense(open_.tangent(s))
    side = whole[np.ix_(interface, np.arange(free))]
    shape = -np.linalg.solve(whole[:free, :free], side.T)
    out = whole[np.ix_(interface, interface)] + side @ shape
    return np.asarray(0.5 * (out + out.T)), np.asarray(shape)


@dataclass(frozen=True)
class Test:
    """What a hybrid test gave: kept instants, displacements of specimen and rest, and how it was relaxed."""

    times: Array
    hot: Array  # (instants, degrees of freedom of the specimen)
    cold: Array  # (instants, free degrees of freedom of the rest)
    tangents: Array  # (instants, interface, interface), of the specimen
    damping: Array  # (interface,), of both parts
    omega: float  # lowest frequency, cold
    reason: str  # why it ended early, or empty


def run(parts: Parts, dt: float, settling: float, until: float, every: float, memory: float = 0.0) -> Test:
    """Run a hybrid test: load cold for a while, then follow the temperatures.

    With a ``memory``, in s, dampers leave the mean motion over that time alone.
    """
    (k_hot, shape), k_cold = parts.hot_stiffness(), parts.condensed.stiffness
    m_hot, m_cold = masses(k_hot, dt), masses(k_cold, dt)
    count = len(parts.imposed)
    together, mass = k_cold.copy(), m_cold.copy()
    together[:count, :count] += k_hot
    mass[:count] += m_hot
    omega = lowest(together, mass)
    if omega == 0.0:
        raise SimulationError(
            "a mechanism: the two parts together are not held; fix the base, or couple rotations"
        )
    specimen = HotSpecimen(parts.hot, parts.imposed, shape, settling, every)
    damping = 2.0 * omega * mass[:count]
    followed = Following(specimen, damping, dt / memory, np.zeros(count)) if memory > 0.0 else specimen
    nodes = {f"{i}": i for i in range(count)}
    subdomains = [
        Subdomain(
            "cold", m_cold, k_cold, nodes, damping=np.diag(2.0 * omega * m_cold), load=parts.condensed.load,
            scheme="explicit",
        ),
        Subdomain(
            "hot", m_hot, k_hot, nodes, damping=np.diag(2.0 * omega * m_hot), specimen=followed, scheme="explicit"
        ),
    ]  # fmt: skip
    steps = round((settling + until) / dt)
    reason = ""
    try:
        integrate(subdomains, np.zeros(steps + 1), dt, every=steps)
    except SimulationError as error:
        if len(specimen.times) < 2:
            raise
        reason = str(error)
    hot = np.array(specimen.states)
    # modes beyond the interface are at rest where their own load is: they only feel that
    q = np.zeros((len(hot), k_cold.shape[0]))
    q[:, :count] = hot[:, parts.imposed]
    if k_cold.shape[0] > count:
        own = slice(count, None)
        q[:, own] = np.linalg.solve(k_cold[own, own], parts.condensed.load[own])
    cold = parts.condensed.held + q @ parts.condensed.shape.T
    tangents = np.array(specimen.tangents)
    return Test(np.array(specimen.times), hot, cold, tangents, damping, omega, reason)


def condensed_cold(
    structure: Structure, interface: list[tuple[int, int]], modes: int
) -> tuple[Array, Indices, Condensed]:
    """Return stiffness, interface and condensed matrices of a linear structure."""
    frame, load = structure.frame(), structure.load_vector()
    path = Path(
        structure, Loading(load, np.zeros_like(load), np.array([0.0]), np.full((1, 1, 2), 20.0)), frame
    )
    stiffness = dense(path.tangent(0.0))
    places = np.array([structure.number(*place) for place in interface], dtype=np.int64)
    return stiffness, places, craig_bampton(stiffness, np.diag(lumped_masses(frame)), load, places, modes)
