"""Everything against a half-space.

The half-space is always ``b``: the normal of a contact points down into it, and the gap of a point is its height.
A hull touches with every corner within the margin, a sphere with one point, a capsule with one under each end.

A cylinder is the one that needs thought. Its lowest points are the lowest ones of its two rims: one if it leans, two
if it lies. Standing, every point of a rim is lowest and the direction of the lowest is noise. So an end that could
come down flat within this step (its whole disc is no higher than the margin above its lowest point) also
reports four rim points that are marked on the body, and the lowest one is left out below a tilt of 1e-7: the four
then miss the least gap by less than 3e-8 radii. Nothing moves or changes its number while the body rests; a rolling
or rocking cylinder keeps the exact point throughout.
"""

from __future__ import annotations

from tamis.jit import apart, inner
from tamis.sim.common.geometry import (
    BOX,
    CAPSULE,
    CONVEX,
    CYLINDER,
    NEAREST,
    SPHERE,
    Geometry,
    Manifolds,
    World,
    put,
)
from tamis.sim.common.vectors import FLAT, Vector, Z, along, axis, dot, minus, norm, row, scaled


@apart
def planes(i: int, j: int, geometry: Geometry, world: World, margin: float, out: Manifolds, n: int) -> int:
    """Report the contacts of sphere, box, cylinder, capsule or convex ``i`` with the half-space ``j``."""
    kind = geometry.kind[i]
    centre = row(world.centre, i)
    foot = row(world.centre, j)
    up = axis(world.axes, j, Z)
    down = scaled(-1.0, up)
    if kind in (BOX, CONVEX):
        first = geometry.vertex_start[i]
        for v in range(first, geometry.vertex_start[i + 1]):
            corner = row(world.vertices, v)
            gap = dot(minus(corner, foot), up)
            if gap <= margin:
                n = put(out, n, i, j, v - first, corner, down, gap)
        return n
    radius, half = geometry.size[i, 0], geometry.size[i, 1]
    if kind == SPHERE:
        gap = dot(minus(centre, foot), up) - radius
        if gap <= margin:
            n = put(out, n, i, j, NEAREST, along(centre, radius, down), down, gap)
    elif kind == CAPSULE:
        for end in range(2):
            tip = along(centre, (2 * end - 1) * half, axis(world.axes, i, Z))
            gap = dot(minus(tip, foot), up) - radius
            if gap <= margin:
                n = put(out, n, i, j, end, along(tip, radius, down), down, gap)
    elif kind == CYLINDER:
        n = _cylinder(i, j, radius, half, centre, foot, up, world, margin, out, n)
    return n


@inner
def _cylinder(
    i: int,
    j: int,
    radius: float,
    half: float,
    centre: Vector,
    foot: Vector,
    up: Vector,
    world: World,
    margin: float,
    out: Manifolds,
    n: int,
) -> int:
    """Report four marked rim points of an end that may come down flat, and the lowest point of each rim."""
    w = axis(world.axes, i, Z)
    down = scaled(-1.0, up)
    rise = dot(w, up)
    fall = along(down, rise, w)  # the part of "down" across the axis, made so twice to keep its digits
    fall = along(fall, -dot(fall, w), w)
    lean = norm(fall)
    for end in range(2):
        middle = along(centre, (2 * end - 1) * half, w)
        height = dot(minus(middle, foot), up)
        if (2 * end - 1) * rise < 0.0 and lean < 0.5 and 2.0 * radius * lean <= margin:
            for k in range(4):
                side = (1 - 2 * (k // 2)) * radius
                rim = along(middle, side, axis(world.axes, i, k % 2))
                gap = dot(minus(rim, foot), up)
                if gap <= margin:
                    n = put(out, n, i, j, 8 * end + k, rim, down, gap)
        gap = height - radius * lean
        if lean > FLAT and gap <= margin:
            n = put(out, n, i, j, 8 * end + 4, along(middle, radius / lean, fall), down, gap)
    return n
