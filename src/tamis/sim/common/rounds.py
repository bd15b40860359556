"""Spheres and capsules: what is near a point or a segment is near them, less a radius.

A sphere touches anything convex in one point, found by the signed distance from its centre: to a point, a segment,
a solid cylinder or a hull, inside as well as outside. Inside a hull the nearest face is the one whose plane is
nearest; outside, a face whose prism holds the point is nearest, or else the nearest edge is.

A capsule is a segment with a radius. The nearest points of segment and hull are an end of the segment over a face,
or lie on an edge (a corner is an end of three edges), so the least over these is the distance. A segment that runs
through the hull is pushed out along the best of the face normals and the directions across an edge and itself:
together they are the normals of the difference of the two sets, so the depth is exact too.

One point does not hold a log on a table. Where the segment is nearly parallel to what it touches, the contact is the
interval in which one lies over the other, and both its ends are reported. The nearest pair takes the place of the
end where it is; in between, it is a third point, unless the two are parallel to 1e-6, when its place is noise and
the ends are good to 1e-12 of a length.

Where two axes meet, and where a centre lies on an axis, the normal is a fixed one of the directions that are left.
"""

from __future__ import annotations

import math

from tamis.jit import apart, inner
from tamis.sim.common.geometry import (
    BOX,
    CAPSULE,
    CONVEX,
    CYLINDER,
    HIGH,
    LOW,
    NEAREST,
    SPHERE,
    Geometry,
    Manifolds,
    World,
    put,
)
from tamis.sim.common.vectors import FLAT, Vector, X, Z, along, axis, cross, dot, minus, norm, row, scaled

SLANT = 0.2  # sine of the angle up to which an interval, not a point, is in contact
PARALLEL = 1e-6  # sine of the angle below which the nearest pair inside an interval is noise
SHORT = 1e-6  # of the length of a segment: a shorter interval is a point
TIE = 1e-11  # of the reach of a hull: of edges as near as that, the one along the segment is taken
TINY = 1e-12  # of a size: a distance too short to give a direction


@inner
def put_either(
    out: Manifolds, n: int, a: int, b: int, swap: bool, feature: int, on: Vector, normal: Vector, gap: float
) -> int:
    """Write a contact seen from ``a``, or, if swapped, seen from ``b``: ``on`` it, the normal away from it."""
    if swap:
        return put(out, n, a, b, feature, along(on, gap, normal), scaled(-1.0, normal), gap)
    return put(out, n, a, b, feature, on, normal, gap)


@inner
def clamp(s: float, limit: float) -> float:
    """Return the nearest number to ``s`` between ``-limit`` and ``limit``."""
    return min(max(s, -limit), limit)


@inner
def near_segments(
    p: Vector, u: Vector, length: float, q: Vector, v: Vector, height: float
) -> tuple[float, float]:
    """Return ``s, t`` of the nearest points ``p + s u`` and ``q + t v`` of two segments of given half lengths.

    Lumelsky 1985 (10.1016/0020-0190(85)90032-8), with the sine from the vector product: it keeps its
    digits where the axes are nearly parallel.
    """
    w = minus(p, q)
    b, d, e = dot(u, v), dot(u, w), dot(v, w)
    across = cross(u, v)
    square = dot(across, across)
    if square > FLAT * FLAT:
        s = clamp((b * e - d) / square, length)
    else:
        s = clamp(-d, length)
    t = b * s + e
    if abs(t) > height:
        t = clamp(t, height)
        s = clamp(b * t - d, length)
    return s, t


@inner
def sideways(u: Vector) -> Vector:
    """Return a fixed unit vector across a unit vector."""
    if abs(u[0]) < 0.6:
        side = cross(u, (1.0, 0.0, 0.0))
    else:
        side = cross(u, (0.0, 1.0, 0.0))
    return scaled(1.0 / norm(side), side)


@inner
def from_cylinder(
    x: Vector, c: Vector, w: Vector, side: Vector, radius: float, half: float
) -> tuple[float, Vector]:
    """Return the signed distance of a point from a solid cylinder and its gradient, a unit vector outward."""
    v = minus(x, c)
    z = dot(v, w)
    out = along(v, -z, w)
    rho = norm(out)
    radial = scaled(1.0 / rho, out) if rho > TINY * radius else side
    up = 1.0 if z >= 0.0 else -1.0
    dr, dz = rho - radius, abs(z) - half
    if dr > 0.0 and dz > 0.0:
        d = math.sqrt(dr * dr + dz * dz)
        if d > TINY * radius:
            return d, along(scaled(dr / d, radial), up * dz / d, w)
    if dz > dr:
        return dz, scaled(up, w)
    return dr, radial


@inner
def over_face(x: Vector, f: int, geometry: Geometry, world: World) -> bool:
    """Say whether a point lies in the prism over a face."""
    first, last = geometry.loop_start[f], geometry.loop_start[f + 1]
    normal = row(world.normals, f)
    before = row(world.vertices, geometry.loops[last - 1])
    for k in range(first, last):
        corner = row(world.vertices, geometry.loops[k])
        if dot(cross(normal, minus(corner, before)), minus(x, before)) < 0.0:
            return False
        before = corner
    return True


@inner
def from_hull(x: Vector, k: int, far: float, geometry: Geometry, world: World) -> tuple[float, Vector]:
    """Return the signed distance of a point from a hull and its gradient; beyond ``far``, a lower bound."""
    best, top = -math.inf, geometry.face_start[k]
    for f in range(geometry.face_start[k], geometry.face_start[k + 1]):
        corner = row(world.vertices, geometry.loops[geometry.loop_start[f]])
        height = dot(minus(x, corner), row(world.normals, f))
        if height > best:
            best, top = height, f
    normal = row(world.normals, top)
    if best <= 0.0 or best > far or over_face(x, top, geometry, world):
        return best, normal
    for f in range(geometry.face_start[k], geometry.face_start[k + 1]):
        corner = row(world.vertices, geometry.loops[geometry.loop_start[f]])
        height = dot(minus(x, corner), row(world.normals, f))
        if height > 0.0 and over_face(x, f, geometry, world):
            return height, row(world.normals, f)
    least, gradient = math.inf, normal
    for e in range(geometry.edge_start[k], geometry.edge_start[k + 1]):
        start = row(world.vertices, geometry.edges[e, 0])
        run = minus(row(world.vertices, geometry.edges[e, 1]), start)
        t = min(max(dot(minus(x, start), run) / dot(run, run), 0.0), 1.0)
        away = minus(x, along(start, t, run))
        d = norm(away)
        if d < least:
            least, gradient = d, away
    if least > TINY * geometry.reach[k]:
        return least, scaled(1.0 / least, gradient)
    return least, normal


@apart
def rounds(i: int, j: int, geometry: Geometry, world: World, margin: float, out: Manifolds, n: int) -> int:
    """Report the contacts of sphere ``i`` with any solid, or of two shapes of which one is a capsule.

    Not for a capsule with a cylinder, nor for half-spaces and rings.
    """
    a, b = geometry.kind[i], geometry.kind[j]
    if a == SPHERE:
        return _sphere(i, j, b, geometry, world, margin, out, n)
    if a == CAPSULE and b == CAPSULE:
        p, u, length, r = (
            row(world.centre, i),
            axis(world.axes, i, Z),
            geometry.size[i, 1],
            geometry.size[i, 0],
        )
        q, v, height, s = (
            row(world.centre, j),
            axis(world.axes, j, Z),
            geometry.size[j, 1],
            geometry.size[j, 0],
        )
        return segments(i, j, a != b, p, u, length, r, q, v, height, s, margin, out, n)
    swap = b == CAPSULE
    if swap:
        i, j = j, i
    return _capsule(i, j, swap, geometry, world, margin, out, n)


@inner
def _sphere(
    i: int, j: int, kind: int, geometry: Geometry, world: World, margin: float, out: Manifolds, n: int
) -> int:
    x, radius = row(world.centre, i), geometry.size[i, 0]
    c = row(world.centre, j)
    if kind in (BOX, CONVEX):
        d, away = from_hull(x, j, radius + margin, geometry, world)
    elif kind == CYLINDER:
        side = axis(world.axes, j, X)
        d, away = from_cylinder(x, c, axis(world.axes, j, Z), side, geometry.size[j, 0], geometry.size[j, 1])
    else:
        w = axis(world.axes, j, Z)
        if kind == CAPSULE:
            c = along(c, clamp(dot(minus(x, c), w), geometry.size[j, 1]), w)
        v = minus(x, c)
        d = norm(v)
        away = scaled(1.0 / d, v) if d > TINY * radius else axis(world.axes, j, X)
        d -= geometry.size[j, 0]
    if d - radius <= margin:
        n = put(out, n, i, j, NEAREST, along(x, -radius, away), scaled(-1.0, away), d - radius)
    return n


@inner
def touch(
    i: int,
    j: int,
    swap: bool,
    feature: int,
    x: Vector,
    r: float,
    y: Vector,
    s: float,
    spare: Vector,
    margin: float,
    out: Manifolds,
    n: int,
) -> int:
    """Report the contact of two balls at ``x`` and ``y``; the spare normal serves where they are one point."""
    v = minus(y, x)
    d = norm(v)
    normal = scaled(1.0 / d, v) if d > TINY * (r + s) else spare
    if d - r - s <= margin:
        n = put_either(out, n, i, j, swap, feature, along(x, r, normal), normal, d - r - s)
    return n


@inner
def segments(
    i: int,
    j: int,
    swap: bool,
    p: Vector,
    u: Vector,
    length: float,
    r: float,
    q: Vector,
    v: Vector,
    height: float,
    s: float,
    margin: float,
    out: Manifolds,
    n: int,
) -> int:
    """Report the contacts of the segments ``p, u`` and ``q, v`` of given half lengths and radii ``r``, ``s``."""
    at, over = near_segments(p, u, length, q, v, height)
    x, y = along(p, at, u), along(q, over, v)
    if norm(minus(y, x)) - r - s > margin:
        return n
    across = cross(u, v)
    sine = norm(across)
    spare = scaled(1.0 / sine, across) if sine > FLAT else sideways(u)
    lean = dot(u, v)
    middle, spread = dot(minus(q, p), u), height * abs(lean)
    low, high = max(-length, middle - spread), min(length, middle + spread)
    short = SHORT * (length + height)
    if sine >= SLANT or high - low <= short:
        return touch(i, j, swap, NEAREST, x, r, y, s, spare, margin, out, n)
    for feature in (LOW, HIGH):
        end = low if feature == LOW else high
        if abs(at - end) <= short:
            n = touch(i, j, swap, feature, x, r, y, s, spare, margin, out, n)
        else:
            tip = along(p, end, u)
            foot = along(q, clamp(dot(minus(tip, q), v), height), v)
            n = touch(i, j, swap, feature, tip, r, foot, s, spare, margin, out, n)
    if sine > PARALLEL and low + short < at < high - short:
        n = touch(i, j, swap, NEAREST, x, r, y, s, spare, margin, out, n)
    return n


@inner
def edge_of(e: int, geometry: Geometry, world: World) -> tuple[Vector, Vector, float]:
    """Return middle, direction and half length of an edge."""
    start, end = row(world.vertices, geometry.edges[e, 0]), row(world.vertices, geometry.edges[e, 1])
    run = minus(end, start)
    size = norm(run)
    return along(start, 0.5, run), scaled(1.0 / size, run), 0.5 * size


@inner
def supports(m: Vector, v: Vector, e: int, geometry: Geometry, world: World) -> bool:
    """Say whether the whole hull lies behind the plane through edge ``e`` of direction ``v`` and normal ``m``."""
    ahead = cross(row(world.normals, geometry.edge_faces[e, 0]), v)
    behind = cross(v, row(world.normals, geometry.edge_faces[e, 1]))
    return dot(m, ahead) <= 0.0 and dot(m, behind) <= 0.0


@inner
def near_hull(
    p: Vector, u: Vector, length: float, k: int, far: float, geometry: Geometry, world: World
) -> tuple[float, Vector, float, int]:
    """Return distance (minus depth), normal out of the hull, place on the segment and edge (or -1) of the contact.

    Beyond ``far`` the distance is only a lower bound.
    """
    best, normal, at, enter, leave = -math.inf, u, 0.0, -length, length
    for f in range(geometry.face_start[k], geometry.face_start[k + 1]):
        face = row(world.normals, f)
        height = dot(minus(p, row(world.vertices, geometry.loops[geometry.loop_start[f]])), face)
        slope = dot(u, face)
        low = height - length * abs(slope)
        if low > best:
            best, normal, at = low, face, -math.copysign(length, slope)
        if slope > 0.0:
            leave = min(leave, -height / slope)
        elif slope < 0.0:
            enter = max(enter, -height / slope)
        elif height > 0.0:
            leave = -math.inf
    if best > far:
        return best, normal, at, -1
    if enter <= leave:
        return _depth(p, u, length, k, best, normal, at, geometry, world)
    edge, least, away = -1, math.inf, normal
    for end in range(2):
        s = (2 * end - 1) * length
        x = along(p, s, u)
        for f in range(geometry.face_start[k], geometry.face_start[k + 1]):
            face = row(world.normals, f)
            height = dot(minus(x, row(world.vertices, geometry.loops[geometry.loop_start[f]])), face)
            if 0.0 < height < least and over_face(x, f, geometry, world):
                least, away, at = height, face, s
    rival = least
    for e in range(geometry.edge_start[k], geometry.edge_start[k + 1]):
        q, v, half = edge_of(e, geometry, world)
        s, t = near_segments(p, u, length, q, v, half)
        apart = minus(along(p, s, u), along(q, t, v))
        d = norm(apart)
        rank = d - TIE * geometry.reach[k] * abs(dot(u, v))
        if rank < rival:
            least, rival, away, at, edge = d, rank, apart, s, e
    if edge >= 0:
        away = scaled(1.0 / least, away) if least > TINY * geometry.reach[k] else normal
    return least, away, at, edge


@inner
def _depth(
    p: Vector,
    u: Vector,
    length: float,
    k: int,
    best: float,
    normal: Vector,
    at: float,
    geometry: Geometry,
    world: World,
) -> tuple[float, Vector, float, int]:
    """Return what `near_hull` does for a segment that runs through the hull, from the best face on."""
    edge = -1
    for e in range(geometry.edge_start[k], geometry.edge_start[k + 1]):
        q, v, half = edge_of(e, geometry, world)
        m = cross(u, v)
        sine = norm(m)
        if sine <= FLAT:
            continue
        for sign in (1.0, -1.0):
            across = scaled(sign / sine, m)
            depth = dot(minus(p, q), across)
            if depth > best + TINY * half and supports(across, v, e, geometry, world):
                best, normal, edge = depth, across, e
                at = near_segments(p, u, length, q, v, half)[0]
    return best, normal, at, edge


@inner
def under(
    p: Vector, u: Vector, low: float, high: float, f: int, geometry: Geometry, world: World
) -> tuple[float, float]:
    """Return the part of a segment, between ``low`` and ``high``, in the prism over a face; empty if reversed."""
    first, last = geometry.loop_start[f], geometry.loop_start[f + 1]
    normal = row(world.normals, f)
    before = row(world.vertices, geometry.loops[last - 1])
    for k in range(first, last):
        corner = row(world.vertices, geometry.loops[k])
        inward = cross(normal, minus(corner, before))
        inside, rate = dot(inward, minus(p, before)), dot(inward, u)
        if abs(rate) <= TINY * norm(inward):
            if inside < 0.0:
                return 1.0, -1.0
        elif rate > 0.0:
            low = max(low, -inside / rate)
        else:
            high = min(high, -inside / rate)
        before = corner
    return low, high


@inner
def _capsule(
    i: int, k: int, swap: bool, geometry: Geometry, world: World, margin: float, out: Manifolds, n: int
) -> int:
    """Report the contacts of capsule ``i`` with hull ``k``; swapped, the hull comes first."""
    a, b = (k, i) if swap else (i, k)
    p, u, length, r = row(world.centre, i), axis(world.axes, i, Z), geometry.size[i, 1], geometry.size[i, 0]
    d, away, at, edge = near_hull(p, u, length, k, r + margin, geometry, world)
    if d - r > margin:
        return n
    best, top = -1.0, geometry.face_start[k]
    for f in range(geometry.face_start[k], geometry.face_start[k + 1]):
        match = dot(away, row(world.normals, f))
        if match > best + FLAT:
            best, top = match, f
    face = row(world.normals, top)
    slope = dot(u, face)
    into = scaled(-1.0, away)
    on = along(along(p, at, u), r, into)
    if best > 0.9 and abs(slope) < SLANT:
        low, high = under(p, u, -length, length, top, geometry, world)
        if high - low > SHORT * length:
            corner = row(world.vertices, geometry.loops[geometry.loop_start[top]])
            for feature in (LOW, HIGH):
                if abs(slope) > FLAT and (feature == LOW) == (slope > 0.0):
                    n = put_either(out, n, a, b, swap, feature, on, into, d - r)
                    continue
                x = along(p, low if feature == LOW else high, u)
                gap = dot(minus(x, corner), face) - r
                if gap <= margin:
                    rim = along(x, -r, face)
                    n = put_either(out, n, a, b, swap, feature, rim, scaled(-1.0, face), gap)
            return n
    if edge >= 0 and d > 0.0:
        q, v, half = edge_of(edge, geometry, world)
        return segments(a, b, swap, p, u, length, r, q, v, half, 0.0, margin, out, n)
    return put_either(out, n, a, b, swap, NEAREST, on, into, d - r)
