"""The narrow phase: which function finds the contacts of which pair of shapes.

Pairs come from bounding boxes; those whose bounding spheres are apart go no further. The functions are called by
address, so that only those are compiled whose shapes meet in a scene.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tamis.jit import Address, inner
from tamis.sim.common.bores import bores
from tamis.sim.common.cylinders import cylinders
from tamis.sim.common.geometry import (
    BORE,
    CAPSULE,
    CYLINDER,
    HALFSPACE,
    RING,
    SPHERE,
    Geometry,
    Ints,
    Manifolds,
    World,
)
from tamis.sim.common.planes import planes
from tamis.sim.common.polyhedra import polyhedra
from tamis.sim.common.rings import rings
from tamis.sim.common.rounds import rounds

RINGS, BORES, PLANES, ROUNDS, CYLINDERS, POLYHEDRA = range(6)


class Narrow(NamedTuple):
    """Where the functions are that find the contacts of a pair."""

    compiled: Ints  # (6,) whether they may be called
    rings: Any
    bores: Any
    planes: Any
    rounds: Any
    cylinders: Any
    polyhedra: Any


def narrow(geometry: Geometry, world: World, out: Manifolds) -> Narrow:
    """Compile the functions that the pairs of a scene need."""
    functions = (rings, bores, planes, rounds, cylinders, polyhedra)
    places = [Address.of(f, 0, 0, 0, geometry, world, 0.0, out, 0) for f in functions]
    kinds, times = np.unique(geometry.kind, return_counts=True)
    for a, several in zip(kinds, times > 1, strict=True):
        for b in kinds[kinds >= a + (not several)]:
            number = function_of(a, b)
            if number >= 0:
                places[number].compile()
    return Narrow(np.array([place.ready for place in places], dtype=np.int64), *places)


@inner
def function_of(a: int, b: int) -> int:
    """Return which function finds the contacts of two kinds of shapes, the lower kind first; -1 where none does."""
    if b == RING:
        return RINGS
    if b == BORE:
        return BORES
    if b == HALFSPACE:
        return -1 if a == HALFSPACE else PLANES
    if a == SPHERE:
        return ROUNDS
    if CYLINDER in (a, b):
        return CYLINDERS
    return ROUNDS if CAPSULE in (a, b) else POLYHEDRA


@inner
def collide(
    pairs: Ints, n_pairs: int, geometry: Geometry, world: World, margin: float, out: Manifolds, at: Narrow
) -> int:
    """Report the contacts of all pairs in their order; return their number, which may exceed the room.

    In a contact, ``a`` is the contactor of the lower kind, or the lower one of two of the same kind.
    """
    centre, reach = world.centre, geometry.reach
    n = 0 * n_pairs  # a literal 0 has a type of its own
    for pair in range(n_pairs):
        i, j = pairs[pair, 0], pairs[pair, 1]
        square, near = 0.0, reach[i] + reach[j] + margin
        for axis in range(3):
            square += (centre[j, axis] - centre[i, axis]) ** 2
        if square > near * near:
            continue
        if geometry.kind[i] > geometry.kind[j]:
            i, j = j, i
        number = function_of(geometry.kind[i], geometry.kind[j])
        if number == POLYHEDRA:
            n = at.polyhedra(i, j, geometry, world, margin, out, n)
        elif number == PLANES:
            n = at.planes(i, j, geometry, world, margin, out, n)
        elif number == ROUNDS:
            n = at.rounds(i, j, geometry, world, margin, out, n)
        elif number == CYLINDERS:
            n = at.cylinders(i, j, geometry, world, margin, out, n)
        elif number == BORES:
            n = at.bores(i, j, geometry, world, margin, out, n)
        elif number == RINGS:
            n = at.rings(i, j, geometry, world, margin, out, n)
    return n
