"""A bar in a bore: cylinder or capsule ``a`` in the round hole ``b`` of some length.

The hole is bounded by a wall of radius ``R`` between two rims. What lies in it of a bar touches the wall at the ends of
the length that they share, never between them: the distance of the bar's axis from that of the hole is convex along it.
Each of these ends is either an end of the hole, where its rim meets the side of the bar as a ring does (`rings`), or an
end of the bar, where the bar's own rim meets the wall. The second is the first with the roles exchanged: points of
the bar's rim, a circle of radius ``r`` tilted by ``t`` against the hole, are at

    rho^2 = |r e - m|^2 - sin^2 t (r cos phi - m_x)^2,   e = (cos phi, sin phi),

from the hole's axis, which crosses their plane at ``m``. The gap is ``R`` less the largest ``rho``, along the normal of
the wall; the polynomial has at most two maxima, and both are reported. Of a capsule the ball at its end takes the place
of the rim.

So a bar that lies along the wall has two contacts, the ends of the line; one that is tilted as far as it can be has one
at each end, on opposite sides: with a play ``R - r`` on either side and a shared length ``l`` the tilt is
``2 (R - r)/l`` at most, to first order. No contact where the axes do not pass through each other's circles.
"""

from __future__ import annotations

import math

from tamis.jit import apart, inner
from tamis.sim.common.geometry import CAPSULE, CYLINDER, Geometry, Manifolds, World, put
from tamis.sim.common.rings import ROUND, extremes, rim_of_hole
from tamis.sim.common.vectors import FLAT, Vector, X, Z, along, axis, cross, dot, minus, norm, row, scaled


@inner
def _rim_of_bar(
    i: int,
    j: int,
    e: Vector,
    feature: int,
    geometry: Geometry,
    world: World,
    margin: float,
    out: Manifolds,
    n: int,
) -> int:
    """Report the contacts of the rim about ``e`` of the bar ``i`` with the wall of the bore ``j``."""
    u, r = axis(world.axes, i, Z), geometry.size[i, 0]
    o, w = row(world.centre, j), axis(world.axes, j, Z)
    big, deep = geometry.size[j, 0], geometry.size[j, 1] * (1.0 - ROUND)
    from_axis = minus(e, o)
    from_axis = along(from_axis, -dot(from_axis, w), w)
    cosine = dot(u, w)
    if dot(from_axis, from_axis) >= big * big or abs(cosine) <= FLAT:
        return n
    lean = along(w, -cosine, u)
    tilt = norm(lean)
    first = scaled(1.0 / tilt, lean) if tilt > FLAT else axis(world.axes, i, X)
    second = cross(u, first)
    m = along(minus(o, e), dot(minus(e, o), u) / cosine, w)
    ball = geometry.kind[i] == CAPSULE
    count, one, other = 1, 0.0, 0.0
    if not ball:
        count, one, other = extremes(r, dot(m, first), dot(m, second), tilt, -1.0)
    for k in range(count):
        phi = one if k == 0 else other
        x = e if ball else along(along(e, r * math.cos(phi), first), r * math.sin(phi), second)
        z = dot(minus(x, o), w)
        away = minus(x, along(o, z, w))
        rho = norm(away)
        normal = scaled(1.0 / rho, away) if rho > ROUND * big else axis(world.axes, j, X)
        inside = r if ball else 0.0
        if abs(z) < deep and big - rho - inside <= margin:
            n = put(out, n, i, j, feature + k, along(x, inside, normal), normal, big - rho - inside)
    return n


@apart
def bores(i: int, j: int, geometry: Geometry, world: World, margin: float, out: Manifolds, n: int) -> int:
    """Report the contacts of the bar ``i``, a cylinder or a capsule, with the bore ``j`` around it."""
    if geometry.kind[i] != CYLINDER and geometry.kind[i] != CAPSULE:
        return n
    c, u, half = row(world.centre, i), axis(world.axes, i, Z), geometry.size[i, 1]
    o, w, deep = row(world.centre, j), axis(world.axes, j, Z), geometry.size[j, 1]
    for end in range(2):
        side = 2.0 * end - 1.0
        n = rim_of_hole(i, j, along(o, side * deep, w), 2 * end, geometry, world, margin, out, n)
    for end in range(2):
        side = 2.0 * end - 1.0
        n = _rim_of_bar(i, j, along(c, side * half, u), 4 + 2 * end, geometry, world, margin, out, n)
    return n
