"""Two flat-ended cylinders, and what else needs the separation of a cylinder along a direction.

A normal first
--------------
Along a direction ``n`` two convex shapes are apart by what lies between their supporting planes; the largest such
separation over all directions is their distance, or minus their depth. It is a sum of support functions, and that of
a cylinder, ``r |n x u| + l |n . u|``, is closed. So the normal is the best of a short list that holds the true one:
the two axes (an end decides), the direction across both axes and those across one towards the other (two sides), and
the best on the circle across one axis (a rim on a side). The last is a maximum in one angle, bracketed by
eight samples and halved 45 times, which leaves 1e-14 of the angle and nothing visible of the gap.

Two leaning rims need two angles. Where the nearest points of the two supporting sets are not opposite each other
the best of the list is not yet the answer, and their offset is the direction of steepest ascent: a step along it and
a few Newton steps, each only as long as the separation grows, end at 1e-12 of the sizes. For shapes apart the
maximum is the only one. Overlapping ones have several; where the overlap is deep, every direction of the list is
climbed from.

Then the points
---------------
End on end: the piece common to two discs is held by four rim points marked on each body, where they lie within
the other disc, and by the crossings of the circles. The lowest rim point joins once the ends lean by more than 1e-7;
below, its direction is noise. On the outline itself the choice goes one way by 1e-6 of the radius, so equal discs one
upon the other, the common case, keep the marks of the first alone. Side on end and side along side: the two ends of
the common interval, of which the nearer is the exact nearest pair. Anything else: a point.
"""

from __future__ import annotations

import math

from tamis.jit import inner
from tamis.sim.common.geometry import HIGH, LOW, NEAREST, Geometry, Manifolds, World, put
from tamis.sim.common.rounds import PARALLEL, SHORT, SLANT, clamp, near_segments, put_either, sideways
from tamis.sim.common.vectors import FLAT, Vector, Z, along, axis, cross, dot, minus, norm, row, scaled

TIE = 1e-10  # of a size: separations as equal as that are told apart by rank, not by value
RIM = 1e-6  # of a radius: as near to an outline as that is on it
DEEP = 0.001  # of a size: overlaps deeper than that may have several best directions, so all are climbed from
MATCH = 0.98  # cosine of the angle up to which a flat end lies on a face


@inner
def extent(n: Vector, u: Vector, r: float, half: float) -> float:
    """Return how far a cylinder reaches along a direction: its support function."""
    return r * norm(cross(n, u)) + half * abs(dot(n, u))


@inner
def slope_on_arc(w: Vector, u: Vector, r: float, half: float, n: Vector, ahead: Vector) -> float:
    """Return the rate of ``w . n - extent(n)`` as ``n`` turns towards ``ahead``."""
    c, dc = dot(n, u), dot(ahead, u)
    return dot(w, ahead) + r * c * dc / max(norm(cross(n, u)), 1e-300) - math.copysign(half, c) * dc


@inner
def best_on_arc(w: Vector, u: Vector, r: float, half: float, a: Vector, b: Vector, angle: float) -> Vector:
    """Return the direction between ``a`` and ``angle`` from it towards ``b`` that is best for ``w . n - extent``."""
    best, at = -math.inf, 0.0
    for k in range(9):
        t = angle * k / 8.0
        n = along(scaled(math.cos(t), a), math.sin(t), b)
        value = dot(w, n) - extent(n, u, r, half)
        if value > best:
            best, at = value, t
    low, high = max(0.0, at - angle / 8.0), min(angle, at + angle / 8.0)
    for _ in range(45):
        t = 0.5 * (low + high)
        c, s = math.cos(t), math.sin(t)
        n = along(scaled(c, a), s, b)
        if slope_on_arc(w, u, r, half, n, along(scaled(-s, a), c, b)) > 0.0:
            low = t
        else:
            high = t
    t = 0.5 * (low + high)
    return along(scaled(math.cos(t), a), math.sin(t), b)


@inner
def lowest(n: Vector, c: Vector, u: Vector, r: float, half: float) -> Vector:
    """Return the middle of what a cylinder has lowest along ``n``: a rim point, a line or an end."""
    rise = dot(n, u)
    x = along(c, -math.copysign(half, rise), u) if abs(rise) > FLAT else c
    across = along(n, -rise, u)
    lean = norm(across)
    return along(x, -r / lean, across) if lean > FLAT else x


@inner
def across(u: Vector, v: Vector, toward: Vector) -> Vector:
    """Return the unit vector across two directions on the side of a third; any across ``u`` if they are parallel."""
    n = cross(u, v)
    size = norm(n)
    if size <= FLAT * norm(v):
        return sideways(u)
    return scaled(math.copysign(1.0 / size, dot(toward, n)), n)


@inner
def onto(x: Vector, n: Vector, a: Vector, u: Vector) -> Vector:
    """Return where the line through ``x`` along ``n`` meets the plane through ``a`` across ``u``."""
    return along(x, dot(minus(a, x), u) / dot(n, u), n)


@inner
def crossing(x: Vector, n: Vector, p: Vector, u: Vector, r: float, q: Vector, v: Vector, s: float) -> Vector:
    """Return the point near ``x`` of the rim ``p, u, r`` that lies over the rim ``q, v, s`` along ``n``: Newton."""
    for _ in range(6):
        ray = minus(x, p)
        ahead = cross(u, ray)
        y = minus(onto(x, n, q, v), q)
        rate = dot(y, along(ahead, -dot(ahead, v) / dot(n, v), n))
        miss = 0.5 * (dot(y, y) - s * s)
        if abs(miss) <= 1e-16 * s * s or abs(miss) > 0.5 * abs(rate):
            break
        t = -miss / rate
        x = along(along(p, math.cos(t), ray), math.sin(t), ahead)
    return x


@inner
def rim_point(k: int, middle: Vector, m: int, r: float, fall: Vector, world: World) -> Vector:
    """Return rim point ``m`` of the end of cylinder ``k`` about ``middle``: four marks, then the lowest."""
    if m == 4:
        return along(middle, r / norm(fall), fall)
    return along(middle, (1 - 2 * (m // 2)) * r, axis(world.axes, k, m % 2))


@inner
def within_disc(p: Vector, v: Vector, c: Vector, w: Vector, r: float) -> tuple[float, float]:
    """Return the part of the line ``p + t v`` inside the endless cylinder about ``c, w``; empty if reversed."""
    a, b = minus(p, c), along(v, -dot(v, w), w)
    a = along(a, -dot(a, w), w)
    square, half = dot(b, b), dot(a, b)
    inside = half * half - square * (dot(a, a) - r * r)
    if square <= FLAT * FLAT or inside <= 0.0:
        return 1.0, -1.0
    root = math.sqrt(inside)
    return (-half - root) / square, (-half + root) / square


@inner
def apart(d: Vector, n: Vector, u: Vector, r: float, half: float, v: Vector, s: float, tall: float) -> float:
    """Return the separation along ``n`` of two cylinders of axes ``u, v`` whose centres are ``d`` apart."""
    return dot(d, n) - extent(n, u, r, half) - extent(n, v, s, tall)


@inner
def toward(y: Vector, n: Vector, c: Vector, u: Vector, r: float, half: float) -> Vector:
    """Return the point nearest to ``y`` of what a cylinder has lowest along ``n``."""
    x = lowest(n, c, u, r, half)
    off = minus(y, x)
    rise = dot(n, u)
    if abs(rise) <= FLAT:
        return along(x, clamp(dot(off, u), half), u)
    if norm(cross(n, u)) <= FLAT:
        off = along(off, -dot(off, u), u)
        return along(x, min(1.0, r / max(norm(off), 1e-300)), off)
    return x


@inner
def facing(
    n: Vector, c: Vector, u: Vector, r: float, half: float, e: Vector, v: Vector, s: float, tall: float
) -> tuple[Vector, Vector]:
    """Return the points of two cylinders that face each other along ``n``: as nearly opposite as can be."""
    down = scaled(-1.0, n)
    if abs(dot(n, u)) <= FLAT and abs(dot(n, v)) <= FLAT:
        p, q = lowest(down, c, u, r, half), lowest(n, e, v, s, tall)
        at, over = near_segments(p, u, half, along(q, -dot(minus(q, p), n), n), v, tall)
        return along(p, at, u), along(q, over, v)
    y = lowest(n, e, v, s, tall)
    x = toward(y, down, c, u, r, half)
    for _ in range(8):
        y = toward(x, n, e, v, s, tall)
        x = toward(y, down, c, u, r, half)
    return x, y


@inner
def opposite(
    n: Vector,
    near: float,
    c: Vector,
    u: Vector,
    r: float,
    half: float,
    e: Vector,
    v: Vector,
    s: float,
    tall: float,
) -> bool:
    """Say whether two cylinders have points that face each other exactly along ``n``, which is then the best."""
    x, y = facing(n, c, u, r, half, e, v, s, tall)
    off = minus(y, x)
    return norm(along(off, -dot(off, n), n)) <= near


@inner
def climb(
    n: Vector, c: Vector, u: Vector, r: float, half: float, e: Vector, v: Vector, s: float, tall: float
) -> Vector:
    """Return the direction of largest separation next to ``n``: Newton's method on the sphere.

    At a leaning rim the support function has the curvature ``r/|n x u|`` along the tangent of the rim, and the
    sphere itself adds the separation.
    """
    d, size = minus(e, c), r + half + s + tall
    best = apart(d, n, u, r, half, v, s, tall)
    for _ in range(40):
        x, y = facing(n, c, u, r, half, e, v, s, tall)
        off = minus(y, x)
        off = along(off, -dot(off, n), n)
        if norm(off) <= 1e-13 * size:
            break
        a = scaled(1.0 / norm(off), off)
        b = cross(n, a)
        step_a, step_b, floor = norm(off) / size, 0.0, best
        t, w = cross(n, u), cross(n, v)
        lean, tilt = norm(t), norm(w)
        if min(lean, tilt, abs(dot(n, u)), abs(dot(n, v))) > FLAT:
            f, g = r / (lean * lean * lean), s / (tilt * tilt * tilt)
            ta, tb, wa, wb = dot(t, a), dot(t, b), dot(w, a), dot(w, b)
            aa, bb = f * ta * ta + g * wa * wa + best, f * tb * tb + g * wb * wb + best
            ab = f * ta * tb + g * wa * wb
            det = aa * bb - ab * ab
            if aa > 0.0 and det > 1e-12 * aa * aa:
                step_a, step_b = norm(off) * bb / det, -norm(off) * ab / det
                if norm(off) < 1e-6 * size:  # the gain is below round-off, the step is not
                    floor = best - 1e-15 * size
        scale = min(1.0, 0.5 / math.hypot(step_a, step_b))
        moved = False
        for _ in range(40):
            m = along(along(n, scale * step_a, a), scale * step_b, b)
            m = scaled(1.0 / norm(m), m)
            value = apart(d, m, u, r, half, v, s, tall)
            if value > floor:
                n, best, moved = m, value, True
                break
            scale *= 0.5
        if not moved:
            break
    return n


@inner
def listed(
    kind: int, d: Vector, u: Vector, r: float, half: float, v: Vector, s: float, tall: float
) -> Vector:
    """Return one of the seven directions that may be the normal, towards the second cylinder."""
    if kind == 0:
        return scaled(math.copysign(1.0, dot(d, u)), u)
    if kind == 1:
        return scaled(math.copysign(1.0, dot(d, v)), v)
    if kind == 4:
        return across(u, v, d)
    w = u if kind in (2, 5) else v
    a = across(w, cross(d, w), d)
    if kind == 5:
        return best_on_arc(d, v, s, tall, cross(a, w), a, math.pi)
    if kind == 6:
        return best_on_arc(d, u, r, half, cross(a, w), a, math.pi)
    return a


@inner
def best_normal(
    margin: float, c: Vector, u: Vector, r: float, half: float, e: Vector, v: Vector, s: float, tall: float
) -> tuple[float, Vector]:
    """Return the separation of two cylinders and its normal; beyond the margin only a lower bound."""
    d, size, deep = minus(e, c), r + half + s + tall, -DEEP * min(r, s, half, tall)
    best, rank, normal = -math.inf, -math.inf, u
    for kind in range(7):
        if kind == 5 and best > deep and opposite(normal, 1e-9 * size, c, u, r, half, e, v, s, tall):
            return best, normal
        n = listed(kind, d, u, r, half, v, s, tall)
        value = apart(d, n, u, r, half, v, s, tall)
        if value > margin:
            return value, n
        bonus = TIE * size * (1.0 - 0.1 * kind)
        if value + bonus > rank:
            best, rank, normal = value, value + bonus, n
    if not opposite(normal, 1e-9 * size, c, u, r, half, e, v, s, tall):
        normal = climb(normal, c, u, r, half, e, v, s, tall)
        best = apart(d, normal, u, r, half, v, s, tall)
    if best < deep:
        for kind in range(7):
            n = climb(listed(kind, d, u, r, half, v, s, tall), c, u, r, half, e, v, s, tall)
            value = apart(d, n, u, r, half, v, s, tall)
            if value > best + TIE * size:
                best, normal = value, n
    return best, normal


@inner
def _ends(
    i: int, j: int, normal: Vector, geometry: Geometry, world: World, margin: float, out: Manifolds, n: int
) -> tuple[int, float]:
    """Report the points of an end on an end, and the least of their gaps."""
    least = math.inf
    u, v = axis(world.axes, i, Z), axis(world.axes, j, Z)
    r, s = geometry.size[i, 0], geometry.size[j, 0]
    end, other = (1 if dot(normal, u) > 0.0 else 0), (0 if dot(normal, v) > 0.0 else 1)
    p = along(row(world.centre, i), (2 * end - 1) * geometry.size[i, 1], u)
    q = along(row(world.centre, j), (2 * other - 1) * geometry.size[j, 1], v)
    way = minus(q, p)
    way = along(way, -dot(way, u), u)
    offset = norm(way)
    crossed = abs(r - s) + RIM * (r + s) < offset < (1.0 - RIM) * (r + s)
    for code in range(12):
        second = code > 6
        if code < 5 or second:
            m = code - 7 if second else code
            k, middle, w, t = (j, q, v, s) if second else (i, p, u, r)
            fall = scaled(1.0 - 2.0 * (end if second else other), u if second else v)
            fall = along(fall, -dot(fall, w), w)
            if m == 4 and norm(fall) <= FLAT:
                continue
            x = rim_point(k, middle, m, t, fall, world)
        elif crossed:
            ahead = 0.5 * (offset + (r - s) * (r + s) / offset)
            sideward = math.copysign(math.sqrt(max(0.0, r * r - ahead * ahead)), code - 5.5)
            x = along(along(p, ahead / offset, way), sideward / offset, cross(u, way))
            x = crossing(x, normal, p, u, r, q, v, s)
        else:
            continue
        on, over = onto(x, normal, p, u), onto(x, normal, q, v)
        gap = dot(minus(over, on), normal)
        inside = norm(minus(on, p)) <= (1.0 - RIM if second else 1.0 + RIM) * r
        if gap <= margin and inside and norm(minus(over, q)) <= (1.0 + RIM) * s:
            n = put(out, n, i, j, 4 * (8 + code) + 2 * end + other, on, normal, gap)
            least = min(least, gap)
    return n, least


@inner
def _side_on_end(
    i: int,
    j: int,
    swap: bool,
    hook: Vector,
    normal: Vector,
    gap: float,
    geometry: Geometry,
    world: World,
    margin: float,
    out: Manifolds,
    n: int,
) -> int:
    """Report the side of one cylinder on the end of another, seen from the end; swapped, the side comes first."""
    a, b = (j, i) if swap else (i, j)
    u, v = axis(world.axes, a, Z), axis(world.axes, b, Z)
    c, half = row(world.centre, a), geometry.size[a, 1]
    end = scaled(math.copysign(1.0, dot(normal, u)), u)
    out_of = along(end, -dot(end, v), v)
    line = along(row(world.centre, b), -geometry.size[b, 0] / norm(out_of), out_of)
    low, high = within_disc(line, v, c, u, geometry.size[a, 0])
    tall, slope = geometry.size[b, 1], dot(v, end)
    low, high = max(low, -tall), min(high, tall)
    if high - low <= SHORT * tall:
        return put_either(out, n, i, j, swap, NEAREST, hook, normal, gap)
    for feature in (LOW, HIGH):
        x = along(line, low if feature == LOW else high, v)
        height = dot(minus(x, c), end) - half
        if abs(slope) > FLAT and (feature == LOW) == (slope > 0.0):
            n = put_either(out, n, i, j, swap, feature, hook, normal, gap)
        elif height <= margin:
            n = put_either(out, n, i, j, swap, feature, along(x, -height, end), end, max(height, gap))
    return n


@inner
def pair(i: int, j: int, geometry: Geometry, world: World, margin: float, out: Manifolds, n: int) -> int:
    """Report the contacts of two cylinders."""
    c, u, r, half = row(world.centre, i), axis(world.axes, i, Z), geometry.size[i, 0], geometry.size[i, 1]
    e, v, s, tall = row(world.centre, j), axis(world.axes, j, Z), geometry.size[j, 0], geometry.size[j, 1]
    gap, normal = best_normal(margin, c, u, r, half, e, v, s, tall)
    if gap > margin:
        return n
    rise, tilt = abs(dot(normal, u)), abs(dot(normal, v))
    if rise > MATCH and tilt > MATCH:
        n, least = _ends(i, j, normal, geometry, world, margin, out, n)
        if least <= gap + RIM * (r + s):
            return n
    x, y = facing(normal, c, u, r, half, e, v, s, tall)
    swap = tilt > rise
    if max(rise, tilt) > MATCH and min(rise, tilt) < SLANT:
        if swap:
            x, normal = y, scaled(-1.0, normal)
        return _side_on_end(i, j, swap, x, normal, gap, geometry, world, margin, out, n)
    sine, rate = norm(cross(u, v)), dot(u, v)
    if rise < SLANT and tilt < SLANT and sine < SLANT:
        middle, spread = dot(minus(e, c), u), tall * abs(rate)
        low, high, short = max(-half, middle - spread), min(half, middle + spread), SHORT * (half + tall)
        at = dot(minus(x, c), u)
        if high - low > short:
            for feature in (LOW, HIGH):
                end = low if feature == LOW else high
                if (feature == LOW and at <= low + short) or (feature == HIGH and at >= high - short):
                    n = put(out, n, i, j, feature, x, normal, gap)
                else:
                    tip = along(c, end, u)
                    way = minus(along(e, dot(minus(tip, e), v), v), tip)
                    way = along(way, -dot(way, u), u)
                    on = along(tip, r / max(norm(way), FLAT * r), way)
                    way = minus(e, tip)
                    way = along(way, -dot(way, v), v)
                    way = scaled(1.0 / max(norm(way), FLAT * r), way)
                    d = dot(minus(e, on), way) - s
                    if dot(way, normal) > 0.0 and d <= margin:
                        n = put(out, n, i, j, feature, on, way, max(d, gap))
            if not (sine > PARALLEL and low + short < at < high - short):
                return n
    return put(out, n, i, j, NEAREST, x, normal, gap)
