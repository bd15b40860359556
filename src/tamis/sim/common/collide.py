"""The narrow phase: which function finds the contacts of which pair of shapes.

Pairs come from bounding boxes; those whose bounding spheres are apart go no further.
"""

from __future__ import annotations

from tamis.jit import kernel
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


@kernel
def collide(
    pairs: Ints, n_pairs: int, geometry: Geometry, world: World, margin: float, out: Manifolds
) -> int:
    """Report the contacts of all pairs in their order; return their number, which may exceed the room.

    In a contact, ``a`` is the contactor of the lower kind, or the lower one of two of the same kind.
    """
    centre, reach = world.centre, geometry.reach
    n = 0 * n_pairs  # a literal 0 would have all that follows compiled twice
    for pair in range(n_pairs):
        i, j = pairs[pair, 0], pairs[pair, 1]
        square, near = 0.0, reach[i] + reach[j] + margin
        for axis in range(3):
            square += (centre[j, axis] - centre[i, axis]) ** 2
        if square > near * near:
            continue
        if geometry.kind[i] > geometry.kind[j]:
            i, j = j, i
        a, b = geometry.kind[i], geometry.kind[j]
        if b == RING:
            n = rings(i, j, geometry, world, margin, out, n)
        elif b == BORE:
            n = bores(i, j, geometry, world, margin, out, n)
        elif b == HALFSPACE:
            if a != HALFSPACE:
                n = planes(i, j, geometry, world, margin, out, n)
        elif a == SPHERE:
            n = rounds(i, j, geometry, world, margin, out, n)
        elif a == CYLINDER or b == CYLINDER:
            n = cylinders(i, j, geometry, world, margin, out, n)
        elif a == CAPSULE or b == CAPSULE:
            n = rounds(i, j, geometry, world, margin, out, n)
        else:
            n = polyhedra(i, j, geometry, world, margin, out, n)
    return n
