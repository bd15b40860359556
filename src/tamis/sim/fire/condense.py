"""Component modes: a linear substructure seen from its interface (Craig & Bampton 1968, 10.2514/3.4741).

Motions are those that unit displacements of the interface cause statically, and the lowest eigenmodes of the rest with
the interface held. Stiffness then has no terms between the two, and its part at the interface is the statically
condensed one, exactly: of a substructure without inertia of its own nothing else is felt at the interface.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from tamis.errors import SimulationError
from tamis.types import Array, Indices


class Condensed(NamedTuple):
    """Matrices of the interface and of modes after it, and how displacements follow from both."""

    stiffness: Array
    mass: Array
    load: Array
    shape: Array  # (all, interface and modes)
    held: Array  # (all,) displacements under the loads with the interface and the modes at zero


def craig_bampton(
    stiffness: Array, mass: Array, load: Array, interface: Indices, modes: int = 0
) -> Condensed:
    """Condense a linear substructure to its interface and some eigenmodes of the rest.

    Displacements are ``held + shape @ q``; what ``held`` keeps of the loads is the part that no mode takes.
    """
    n = len(stiffness)
    inside = np.setdiff1d(np.arange(n), interface)
    modes = min(modes, len(inside))
    inner = stiffness[np.ix_(inside, inside)]
    try:
        factor = cho_factor(inner)
    except np.linalg.LinAlgError:
        raise SimulationError(
            "a mechanism: with its interface held the numerical substructure is not held in all its motions"
        ) from None
    shape = np.zeros((n, len(interface) + modes))
    shape[interface, np.arange(len(interface))] = 1.0
    shape[inside, : len(interface)] = -cho_solve(factor, stiffness[np.ix_(inside, interface)])
    if modes:
        _, vectors = eigh(inner, mass[np.ix_(inside, inside)], subset_by_index=[0, modes - 1])
        shape[inside, len(interface) :] = vectors
    held = np.zeros(n)
    held[inside] = cho_solve(factor, load[inside])
    reduced = shape.T @ stiffness @ shape
    forces = shape.T @ load
    if modes:
        own = slice(len(interface), None)
        held -= shape[:, own] @ np.linalg.solve(reduced[own, own], forces[own])
        reduced[: len(interface), own] = 0.0
        reduced[own, : len(interface)] = 0.0
    reduced = 0.5 * (reduced + reduced.T)
    return Condensed(reduced, shape.T @ mass @ shape, forces, shape, held)
