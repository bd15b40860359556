"""Subdomains of a structure: matrices, where their restoring force comes from, what ties them to others.

The force of a `Subdomain` comes in one of four ways: by its stiffness, by a function, by a specimen that is reached by
two calls (impose a displacement, read the force), or by impulse responses that were measured before. `integrate` of
`partitioned` steps them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy.linalg import eigh

from tamis.errors import StudyError
from tamis.sim.common.impulses import Impulses
from tamis.types import Array

Restoring: TypeAlias = Callable[[Array, Array, float], Array]

SCHEMES = {
    "implicit": (0.5, 0.25),
    "explicit": (0.5, 0.0),
}  # gamma, beta: trapezoidal rule, central differences
_none = partial(np.zeros, 0)
_SYMMETRIC = 1e-9  # of the largest entry


class Specimen(Protocol):
    """What is reached by two calls a step, so that all of them move before any is read."""

    def impose(self, u: Array, v: Array, t: float) -> None:
        """Move to a displacement, with a velocity, by the time t."""

    def read(self) -> Array:
        """Return the restoring force, measured once all specimens have moved."""


@dataclass(frozen=True)
class Subdomain:
    """A part of a structure: matrices (n, n), masses possibly (n,), and what ties it to others.

    Parameters
    ----------
    interface
        Degrees of freedom by the name of the node that they are tied to.
    stiffness
        Of a subdomain with a restoring function or a specimen: its tangent at the start, which only an implicit scheme
        and the limit of an explicit one read.
    damping, rayleigh
        The damping matrix, or the two factors of mass and stiffness that make one; it acts besides a restoring force.
    restoring
        ``restoring(u, v, t)`` returns the force (n,), without that of ``damping``.
    load, pattern
        Constant load (n,), and the load for a unit of the signal that `integrate` is given.
    scheme
        ``"implicit"`` (trapezoidal), ``"explicit"`` (central differences), or (gamma, beta). Impulse responses are
        summed with trapezoidal weights whatever is said here, and refuse a gamma other than 1/2.
    fine
        Whether it takes the sub-cycled steps.
    """

    name: str
    mass: Array
    stiffness: Array
    interface: Mapping[str, int] = field(default_factory=dict)
    damping: Array | None = None
    rayleigh: tuple[float, float] = (0.0, 0.0)
    restoring: Restoring | None = None
    specimen: Specimen | None = None
    convolution: Impulses | None = None
    load: Array = field(default_factory=_none)
    pattern: Array = field(default_factory=_none)
    scheme: str | tuple[float, float] = "implicit"
    fine: bool = False

    def __post_init__(self) -> None:
        mass = np.asarray(self.mass, dtype=float)
        mass = np.diag(mass) if mass.ndim == 1 else mass
        object.__setattr__(self, "mass", mass)
        n = len(mass)
        for name in ("mass", "stiffness", "damping"):
            given = getattr(self, name)
            if given is None:
                continue
            matrix = np.atleast_2d(np.asarray(given, dtype=float))
            if matrix.shape != (n, n) or not np.isfinite(matrix).all():
                raise StudyError(
                    f"{self.name}: {name} must be ({n}, {n}) finite numbers, found {matrix.shape}"
                )
            if np.abs(matrix - matrix.T).max() > _SYMMETRIC * max(np.abs(matrix).max(), 1e-300):
                raise StudyError(f"{self.name}: {name} must be symmetric")
            object.__setattr__(self, name, matrix)
        least = float(np.linalg.eigvalsh(mass)[0]) if n else 0.0
        if not least > 0:
            bare = [str(i) for i in np.flatnonzero(np.diag(mass) <= 0)]
            where = f"degrees of freedom {', '.join(bare)}" if bare else "some combination of its motions"
            raise StudyError(
                f"{self.name} has no mass at {where}: every subdomain steps by itself and needs one; "
                "condense these out, or move a fraction of the neighbour's mass there (share_mass)"
            )
        for name in ("load", "pattern"):
            vector = np.asarray(getattr(self, name), dtype=float)
            vector = vector if vector.size else np.zeros(n)
            if vector.shape != (n,):
                raise StudyError(f"{self.name}: {name} must be ({n},), found {vector.shape}")
            object.__setattr__(self, name, vector)
        for node, dof in self.interface.items():
            if not 0 <= dof < n:
                raise StudyError(
                    f'{self.name}: node "{node}" is tied to degree of freedom {dof}, of {n} (0 to {n - 1})'
                )
        if len(set(self.interface.values())) < len(self.interface):
            raise StudyError(f"{self.name}: one degree of freedom is tied to two nodes of the interface")
        if sum(force is not None for force in (self.restoring, self.specimen, self.convolution)) > 1:
            raise StudyError(
                f"{self.name}: give one of restoring, specimen and convolution; their forces are not added"
            )
        if isinstance(self.scheme, str) and self.scheme not in SCHEMES:
            raise StudyError(
                f'{self.name}: scheme must be implicit, explicit or (gamma, beta), found "{self.scheme}"'
            )
        if self.parameters[0] < 0.5 or self.parameters[1] < 0:
            raise StudyError(
                f"{self.name}: a Newmark scheme needs gamma >= 1/2 and beta >= 0, found {self.scheme}"
            )
        if self.convolution is not None and self.parameters[0] != 0.5:
            raise StudyError(
                f"{self.name}: impulse responses are summed with trapezoidal weights, which is gamma = 1/2; found "
                f"gamma = {self.parameters[0]:g}; leave scheme out"
            )

    @property
    def parameters(self) -> tuple[float, float]:
        """Gamma and beta of its Newmark scheme; beta is 0 for impulse responses, since H_d(0) = 0."""
        gamma, beta = SCHEMES[self.scheme] if isinstance(self.scheme, str) else self.scheme
        return (gamma, beta) if self.convolution is None else (gamma, 0.0)

    @property
    def linear(self) -> bool:
        """Whether its restoring force is that of its stiffness."""
        return self.restoring is None and self.specimen is None and self.convolution is None

    @property
    def dissipation(self) -> Array:
        """The damping matrix, given or proportional."""
        alpha, beta = self.rayleigh
        proportional = alpha * self.mass + beta * self.stiffness
        return proportional if self.damping is None else self.damping + proportional

    def longest_step(self) -> float:
        """Return the step beyond which its scheme is unstable, infinite where none is.

        Newmark's limit without damping (Hughes 2000, 9.1): omega dt <= (gamma/2 - beta)^(-1/2), for the highest
        frequency of the subdomain standing alone. Damping, which this scheme takes implicitly, does not lower it.
        """
        gamma, beta = self.parameters
        if self.convolution is not None or beta >= 0.5 * gamma:
            return np.inf
        highest = float(eigh(self.stiffness, self.mass, eigvals_only=True)[-1])
        return float(1.0 / np.sqrt((0.5 * gamma - beta) * highest)) if highest > 0 else np.inf


def share_mass(giver: Subdomain, taker: Subdomain, node: str, fraction: float) -> tuple[Subdomain, Subdomain]:
    """Move interface mass so that the taker has this fraction of the node's (m_f, eq. 2.27).

    Its share of the load pattern goes with it, so that the structure is the same; the taker's link accelerations fall
    as its mass grows.
    """
    if not 0 < fraction <= 1:
        raise StudyError(f"the fraction of mass must be above 0 and at most 1, found {fraction:g}")
    i, j = giver.interface[node], taker.interface[node]
    moved = fraction * (giver.mass[i, i] + taker.mass[j, j]) - taker.mass[j, j]
    per_mass = giver.pattern[i] / giver.mass[i, i]
    return _heavier(giver, i, -moved, per_mass), _heavier(taker, j, moved, per_mass)


def assembled(subdomains: Sequence[Subdomain], name: str = "whole", **changes: Any) -> Subdomain:
    """Return all subdomains as one, with shared degrees of freedom taken once: the monolithic problem.

    Restoring functions are kept; specimens and impulse responses cannot be assembled.
    """
    for part in subdomains:
        if part.specimen is not None or part.convolution is not None:
            raise StudyError(
                f"{part.name} has no matrices to assemble: it is a specimen or known by its responses"
            )
    places: dict[str, int] = {}
    maps: list[Array] = []
    count = 0
    for part in subdomains:
        nodes = {dof: node for node, dof in part.interface.items()}
        mine = []
        for i in range(len(part.mass)):
            here = places.get(nodes.get(i, ""), count)
            if here == count:
                count += 1
                if i in nodes:
                    places[nodes[i]] = here
            mine.append(here)
        maps.append(np.eye(1 + max(mine))[mine])
    maps = [np.pad(each, ((0, 0), (0, count - each.shape[1]))) for each in maps]
    pairs = list(zip(maps, subdomains, strict=True))

    def total(of: Callable[[Subdomain], Array]) -> Array:
        return np.asarray(np.sum([b.T @ of(part) @ b for b, part in pairs], axis=0))

    def restoring(u: Array, v: Array, t: float) -> Array:
        forces = [
            b.T @ (part.restoring(b @ u, b @ v, t) if part.restoring else part.stiffness @ (b @ u))
            for b, part in pairs
        ]
        return np.asarray(np.sum(forces, axis=0))

    return Subdomain(
        name, total(lambda part: part.mass), total(lambda part: part.stiffness),
        damping=total(lambda part: part.dissipation),
        restoring=None if all(part.linear for part in subdomains) else restoring,
        load=np.sum([b.T @ part.load for b, part in pairs], axis=0),
        pattern=np.sum([b.T @ part.pattern for b, part in pairs], axis=0),
        **changes,
    )  # fmt: skip


def _heavier(part: Subdomain, dof: int, mass: float, per_mass: float) -> Subdomain:
    masses, pattern = part.mass.copy(), np.array(part.pattern)
    masses[dof, dof] += mass
    pattern[dof] += mass * per_mass
    return replace(part, mass=masses, pattern=pattern)
