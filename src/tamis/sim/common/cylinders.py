"""Flat-ended cylinders against hulls and capsules, and the door to all that cylinders meet.

The normal is found as for two cylinders (see `tamis.sim.common.cylinder_pairs`): the best of a list of directions
that holds the true one. Here it has the normals of faces and ends, the directions across the side and an edge or
through a corner, and, where the rim meets an edge, the best on the arc of directions across that edge. Only edges
within the margin of the cylinder are asked, and none where the middle of what the cylinder has lowest lies over the
best face. An edge is first cut down to its nearest point: the signed distance from a cylinder is convex, so halving
by the sign of its slope along the edge cannot go wrong (55 halvings, 1e-16 of the length). The same search, with a
radius, is all that a capsule needs.

Then the normal says what touches. An end on a face: marked rim points within the face, corners within the disc,
crossings of the outline. An end on an edge, a side on a face, along an edge or along a capsule: the two ends of the
common interval, of which the lower is the exact nearest pair, as for capsules. Anything else: a point.
"""

from __future__ import annotations

import math

from tamis.jit import apart, inner
from tamis.sim.common.cylinder_pairs import (
    DEEP,
    MATCH,
    RIM,
    TIE,
    across,
    best_on_arc,
    extent,
    lowest,
    onto,
    pair,
    rim_point,
    within_disc,
)
from tamis.sim.common.geometry import CAPSULE, CYLINDER, HIGH, LOW, NEAREST, Geometry, Manifolds, World
from tamis.sim.common.rounds import (
    PARALLEL,
    SHORT,
    SLANT,
    edge_of,
    from_cylinder,
    near_segments,
    put_either,
    supports,
    under,
)
from tamis.sim.common.vectors import FLAT, Vector, X, Z, along, axis, cross, dot, minus, norm, row, scaled

CHORD = 2.0 * math.sqrt(
    2.0 * RIM
)  # of a radius: an outline that cuts no deeper than that only touches the rim


@inner
def near_cylinder(
    p: Vector, v: Vector, length: float, c: Vector, w: Vector, side: Vector, r: float, half: float
) -> float:
    """Return the place on the segment ``p, v`` that is nearest to, or deepest in, a cylinder."""
    low, high = -length, length
    if dot(from_cylinder(along(p, low, v), c, w, side, r, half)[1], v) >= 0.0:
        return low
    if dot(from_cylinder(along(p, high, v), c, w, side, r, half)[1], v) <= 0.0:
        return high
    for _ in range(55):
        t = 0.5 * (low + high)
        if dot(from_cylinder(along(p, t, v), c, w, side, r, half)[1], v) < 0.0:
            low = t
        else:
            high = t
    return 0.5 * (low + high)


@inner
def bar(
    i: int,
    j: int,
    swap: bool,
    p: Vector,
    v: Vector,
    length: float,
    s: float,
    c: Vector,
    w: Vector,
    side: Vector,
    r: float,
    half: float,
    margin: float,
    out: Manifolds,
    n: int,
) -> int:
    """Report the contacts of a cylinder with a segment of radius ``s``; swapped, the segment comes first."""
    t = near_cylinder(p, v, length, c, w, side, r, half)
    d, away = from_cylinder(along(p, t, v), c, w, side, r, half)
    if d - s > margin:
        return n
    low, high, sine = 1.0, -1.0, 1.0
    if abs(dot(away, w)) < SLANT:
        sine = norm(cross(v, w))
        rate = dot(v, w)
        if sine < SLANT:
            middle, spread = dot(minus(c, p), w) / rate, half / abs(rate)
            low, high = middle - spread, middle + spread
    elif abs(dot(away, w)) > MATCH:
        sine = abs(dot(v, w))
        if sine < SLANT:
            low, high = within_disc(p, v, c, w, r)
    low, high = max(low, -length), min(high, length)
    short = SHORT * length
    whole = high - low > short
    if whole:
        for feature in (LOW, HIGH):
            end = low if feature == LOW else high
            if (feature == LOW and t <= low + short) or (feature == HIGH and t >= high - short):
                end = t
            x = along(p, end, v)
            gap, toward = from_cylinder(x, c, w, side, r, half)
            if gap - s <= margin:
                n = put_either(out, n, i, j, swap, feature, along(x, -gap, toward), toward, gap - s)
    if not whole or (sine > PARALLEL and low + short < t < high - short):
        x = along(p, t, v)
        n = put_either(out, n, i, j, swap, NEAREST, along(x, -d, away), away, d - s)
    return n


@inner
def farthest(n: Vector, k: int, geometry: Geometry, world: World) -> tuple[float, Vector]:
    """Return how far a hull reaches along a direction, and the corner that does."""
    best, at = -math.inf, n
    for v in range(geometry.vertex_start[k], geometry.vertex_start[k + 1]):
        corner = row(world.vertices, v)
        value = dot(corner, n)
        if value > best:
            best, at = value, corner
    return best, at


@inner
def inside_face(x: Vector, f: int, slack: float, geometry: Geometry, world: World) -> bool:
    """Say whether a point lies in the prism over a face, or outside by no more than ``slack``."""
    first, last = geometry.loop_start[f], geometry.loop_start[f + 1]
    normal = row(world.normals, f)
    before = row(world.vertices, geometry.loops[last - 1])
    for k in range(first, last):
        corner = row(world.vertices, geometry.loops[k])
        inward = cross(normal, minus(corner, before))
        if dot(inward, minus(x, before)) < -slack * norm(inward):
            return False
        before = corner
    return True


@inner
def apart_from_hull(
    k: int,
    c: Vector,
    u: Vector,
    side: Vector,
    r: float,
    half: float,
    margin: float,
    geometry: Geometry,
    world: World,
) -> tuple[float, Vector, Vector, int]:
    """Return the separation of hull and cylinder, its normal towards the cylinder, the point on the hull and the edge.

    The edge is -1 where a face or an end decides. Beyond the margin the separation is only a lower bound.
    """
    tie = TIE * (r + half)
    best, rank, normal, hook, edge = -math.inf, -math.inf, u, c, -1
    met, face, top, outside = False, True, geometry.face_start[k], -math.inf
    for f in range(geometry.face_start[k], geometry.face_start[k + 1]):
        n = row(world.normals, f)
        corner = row(world.vertices, geometry.loops[geometry.loop_start[f]])
        height = dot(minus(c, corner), n)
        outside = max(outside, height)
        value = height - extent(n, u, r, half)
        if value + 2.0 * tie > rank + 0.1 * tie:
            best, rank, normal, top = value, value + 2.0 * tie, n, f
            hook = along(lowest(n, c, u, r, half), -value, n)
    if best > margin:
        return best, normal, hook, edge
    for sign in (1.0, -1.0):
        n = scaled(sign, u)
        height, corner = farthest(n, k, geometry, world)
        value = dot(c, n) - half - height
        if value + tie > rank + 0.1 * tie:
            best, rank, normal, hook, face = value, value + tie, n, corner, False
    if best > margin:
        return best, normal, hook, edge
    if face and best > -DEEP * min(r, half) and inside_face(hook, top, 0.0, geometry, world):
        return best, normal, hook, edge
    for e in range(geometry.edge_start[k], geometry.edge_start[k + 1]):
        q, v, length = edge_of(e, geometry, world)
        if from_cylinder(q, c, u, side, r, half)[0] - length > margin:
            continue
        at = near_cylinder(q, v, length, c, u, side, r, half)
        x = along(q, at, v)
        d, away = from_cylinder(x, c, u, side, r, half)
        if d > margin:
            continue
        met = True
        bonus = 0.5 * tie * abs(dot(u, v))
        for kind in range(5):
            if kind == 1 and d > RIM * r:
                break
            n, y = scaled(-1.0, away), x
            if kind == 1:
                n = across(u, v, minus(c, q))
                if not supports(n, v, e, geometry, world):
                    continue
                y = along(q, near_segments(q, v, length, c, u, half)[0], v)
            elif kind == 2:
                first = row(world.normals, geometry.edge_faces[e, 0])
                second = row(world.normals, geometry.edge_faces[e, 1])
                ahead = along(second, -dot(first, second), first)
                turn = norm(ahead)
                angle = math.atan2(turn, dot(first, second))
                n = best_on_arc(minus(c, q), u, r, half, first, scaled(1.0 / turn, ahead), angle)
            elif kind > 2:
                y = row(world.vertices, geometry.edges[e, kind - 3])
                n = across(u, cross(minus(c, y), u), minus(c, y))
            height = farthest(n, k, geometry, world)[0]
            if dot(q if kind == 2 else y, n) < height - RIM * (r + length):
                continue  # another edge is what touches along this direction, and has its own turn
            value = dot(c, n) - extent(n, u, r, half) - height
            if value + bonus > rank + 0.1 * tie:
                best, rank, normal, edge = value, value + bonus, n, e
                hook = y
                if kind == 2:  # under the rim, but on the edge: along it all points are as high
                    reach = dot(minus(along(lowest(n, c, u, r, half), -value, n), q), v)
                    hook = along(q, min(max(reach, -length), length), v)
    if not met and outside > 0.0 and not (face and inside_face(hook, top, RIM * r, geometry, world)):
        best = math.inf
    return best, normal, hook, edge


@inner
def _end_on_face(
    i: int,
    j: int,
    swap: bool,
    k: int,
    cylinder: int,
    f: int,
    normal: Vector,
    least: float,
    geometry: Geometry,
    world: World,
    margin: float,
    out: Manifolds,
    n: int,
) -> tuple[int, float]:
    """Report the points of a flat end on face ``f`` of hull ``k``, and the least of their gaps."""
    r, half = geometry.size[cylinder, 0], geometry.size[cylinder, 1]
    u, face = axis(world.axes, cylinder, Z), row(world.normals, f)
    end = 0 if dot(normal, u) > 0.0 else 1
    middle = along(row(world.centre, cylinder), (2 * end - 1) * half, u)
    first, last = geometry.loop_start[f], geometry.loop_start[f + 1]
    corner = row(world.vertices, geometry.loops[first])
    fall = along(scaled(-1.0, face), dot(face, u), u)
    for m in range(5):
        if m == 4 and norm(fall) <= FLAT:
            break
        x = rim_point(cylinder, middle, m, r, fall, world)
        on = onto(x, normal, corner, face)
        gap = dot(minus(x, on), normal)
        if gap <= margin and inside_face(on, f, RIM * r, geometry, world):
            n = put_either(out, n, i, j, swap, 2 * (8 + m) + end, on, normal, gap)
            least = min(least, gap)
    base = geometry.loop_start[geometry.face_start[k]]
    before = row(world.vertices, geometry.loops[last - 1])
    for place in range(first, last):
        corner = row(world.vertices, geometry.loops[place])
        code = 16 + 4 * (place - base)
        run = minus(corner, before)
        length = norm(run)
        start = onto(before, normal, middle, u)
        low, high = within_disc(start, minus(onto(corner, normal, middle, u), start), middle, u, r)
        for which in range(3):
            t = 1.0 if which == 0 else (low if which == 1 else high)
            if which == 0:
                if not low - RIM * r / length <= 1.0 <= high + RIM * r / length:
                    continue
            elif not RIM * r / length < t < 1.0 - RIM * r / length or (high - low) * length <= CHORD * r:
                continue
            on = along(before, t, run)
            gap = dot(minus(onto(on, normal, middle, u), on), normal)
            if gap <= margin:
                n = put_either(out, n, i, j, swap, 2 * (code + which) + end, on, normal, gap)
                least = min(least, gap)
        before = corner
    return n, least


@inner
def _end_on_edge(
    i: int,
    j: int,
    swap: bool,
    k: int,
    cylinder: int,
    hook: Vector,
    normal: Vector,
    gap: float,
    geometry: Geometry,
    world: World,
    margin: float,
    out: Manifolds,
    n: int,
) -> int:
    """Report the part of the edge of hull ``k`` that lies under a flat end, or the nearest pair alone."""
    best, top = -math.inf, geometry.edge_start[k]
    for e in range(geometry.edge_start[k], geometry.edge_start[k + 1]):
        height = dot(edge_of(e, geometry, world)[0], normal)
        if height > best + TIE * geometry.reach[k]:
            best, top = height, e
    q, v, length = edge_of(top, geometry, world)
    r, half = geometry.size[cylinder, 0], geometry.size[cylinder, 1]
    u = axis(world.axes, cylinder, Z)
    up = scaled(math.copysign(1.0, dot(normal, u)), u)
    middle = along(row(world.centre, cylinder), -half, up)
    start, slope = onto(q, normal, middle, u), dot(v, up)
    low, high = within_disc(start, minus(onto(along(q, 1.0, v), normal, middle, u), start), middle, u, r)
    low, high = max(low, -length), min(high, length)
    if abs(slope) >= SLANT or high - low <= SHORT * length:
        return put_either(out, n, i, j, swap, NEAREST, hook, normal, gap)
    for feature in (LOW, HIGH):
        x = along(q, low if feature == LOW else high, v)
        height = dot(minus(onto(x, normal, middle, u), x), normal)
        if abs(slope) > FLAT and (feature == HIGH) == (slope > 0.0):
            n = put_either(out, n, i, j, swap, feature, hook, normal, gap)
        elif height <= margin:
            n = put_either(out, n, i, j, swap, feature, x, normal, max(height, gap))
    return n


@inner
def _hull(
    i: int, j: int, swap: bool, geometry: Geometry, world: World, margin: float, out: Manifolds, n: int
) -> int:
    """Report the contacts of a hull with a cylinder; swapped, the cylinder comes first."""
    k, m = (j, i) if swap else (i, j)
    c, u, side = row(world.centre, m), axis(world.axes, m, Z), axis(world.axes, m, X)
    r, half = geometry.size[m, 0], geometry.size[m, 1]
    gap, normal, hook, edge = apart_from_hull(k, c, u, side, r, half, margin, geometry, world)
    if gap > margin:
        return n
    match, top = -1.0, geometry.face_start[k]
    for f in range(geometry.face_start[k], geometry.face_start[k + 1]):
        value = dot(normal, row(world.normals, f))
        if value > match + FLAT:
            match, top = value, f
    face, rise = row(world.normals, top), dot(normal, u)
    if match > MATCH and abs(rise) > MATCH:
        n, least = _end_on_face(i, j, swap, k, m, top, normal, math.inf, geometry, world, margin, out, n)
        if least <= gap + RIM * r:
            return n
    elif match > MATCH and abs(rise) < SLANT:
        across = along(face, -dot(face, u), u)
        line = along(c, -r / norm(across), across)
        slope = dot(u, face)
        low, high = under(line, u, -half, half, top, geometry, world)
        if high - low > SHORT * half:
            corner = row(world.vertices, geometry.loops[geometry.loop_start[top]])
            for feature in (LOW, HIGH):
                x = along(line, low if feature == LOW else high, u)
                height = dot(minus(x, corner), face)
                if abs(slope) > FLAT and (feature == LOW) == (slope > 0.0):
                    n = put_either(out, n, i, j, swap, feature, hook, normal, gap)
                elif height <= margin:
                    n = put_either(
                        out, n, i, j, swap, feature, along(x, -height, face), face, max(height, gap)
                    )
            return n
    elif abs(rise) > MATCH:
        return _end_on_edge(i, j, swap, k, m, hook, normal, gap, geometry, world, margin, out, n)
    if edge >= 0 and abs(rise) < SLANT:
        q, v, length = edge_of(edge, geometry, world)
        at, sine = dot(minus(hook, q), v), norm(cross(u, v))
        rate = math.copysign(max(abs(dot(u, v)), SLANT), dot(u, v))
        middle, spread = dot(minus(c, q), u) / rate, half / abs(rate)
        low, high, short = max(-length, middle - spread), min(length, middle + spread), SHORT * length
        if sine < SLANT and high - low > short:
            for feature in (LOW, HIGH):
                end = low if feature == LOW else high
                if (feature == LOW and at <= low + short) or (feature == HIGH and at >= high - short):
                    n = put_either(out, n, i, j, swap, feature, hook, normal, gap)
                    continue
                x = along(q, end, v)
                away = minus(c, x)
                away = along(away, -dot(away, u), u)
                d = norm(away)
                if dot(away, normal) > 0.0 and d - r <= margin:
                    n = put_either(out, n, i, j, swap, feature, x, scaled(1.0 / d, away), max(d - r, gap))
            if not (sine > PARALLEL and low + short < at < high - short):
                return n
    return put_either(out, n, i, j, swap, NEAREST, hook, normal, gap)


@apart
def cylinders(i: int, j: int, geometry: Geometry, world: World, margin: float, out: Manifolds, n: int) -> int:
    """Report the contacts of a cylinder with a box, cylinder, capsule or convex, the lower kind as ``i``."""
    a, b = geometry.kind[i], geometry.kind[j]
    if a == CYLINDER and b == CYLINDER:
        return pair(i, j, geometry, world, margin, out, n)
    if b == CAPSULE:
        c, w, side = row(world.centre, i), axis(world.axes, i, Z), axis(world.axes, i, X)
        p, v = row(world.centre, j), axis(world.axes, j, Z)
        r, half, s, length = (
            geometry.size[i, 0],
            geometry.size[i, 1],
            geometry.size[j, 0],
            geometry.size[j, 1],
        )
        return bar(i, j, b == CYLINDER, p, v, length, s, c, w, side, r, half, margin, out, n)
    return _hull(i, j, a == CYLINDER, geometry, world, margin, out, n)
