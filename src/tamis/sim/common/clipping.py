"""From a separating axis of two polyhedra to their contact points.

Two blocks that rest on each other touch over an area, and the points that stand for it must not wander: a point
that jumps from step to step loses its impulse, and the block creeps. So the whole outline of the common area is
kept. The face whose plane separates best is the *reference*, the face of the other polyhedron that looks at it the
*incident* one; the incident polygon is cut by the planes through the sides of the reference face (Sutherland &
Hodgman 1974, 10.1145/360767.360802), and each corner of what is left is a contact, its gap the height over the
reference plane. All heights are measured where the faces really overlap, so the gaps are right even if another
axis separates a little better.

What keeps the points still
---------------------------
*Ties.* Blocks in a wall have flush sides, so corners lie exactly on cutting planes. A corner is outside only if it
is so by more than `TIE` of the size; noise cannot throw it out.

*Merging.* A cut nearer than `MERGE` of the size to a corner that stays is dropped, and so is a point that near to
its neighbour.

*Names.* A feature says which corner lies on which face, or which edge crosses which, whatever the role of the
faces: if reference and incident face change places, or the incident face becomes its neighbour, contacts keep
their names.

*The incident face* holds the lowest corner and the flattest edge that leaves it. The face that is most nearly
opposed need not even hold the lowest corner of a pointed grain.

Edges
-----
Where an edge axis separates best, and is not within `FLAT` of the normal of the reference face (there the cut
face tells the same with more points), one contact lies where the two edges come nearest.

Apart, but near
---------------
Axes of faces and pairs of edges separate touching polyhedra; of two that are apart, corner towards corner or corner
towards edge, they give only a lower bound of the distance. It shows: no point of the manifold is as near as the
bound. Then the nearest points of the edges are sought (`nearest`) among those that can be as near as the margin,
and a contact with the true distance is added. So wherever the distance is within the margin a contact is reported,
and no least gap exceeds the distance by more than the slack of the test, a tenth.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tamis.jit import inner
from tamis.sim.common.geometry import Floats, Ints, Manifolds

TIE = 1e-6  # of the smaller reach: differences below it are none
MERGE = 1e-5  # of the smaller reach: points as near as that are one
FLAT = 0.999  # cosine between normals that say the same
SLACK = 1.1  # what the least gap may exceed the best axis by before the nearest points are sought
PARALLEL = 1e-8  # squared sine


class Hulls(NamedTuple):
    """What there is to know about polyhedra, out of `Geometry` and `World`: handing over less is faster."""

    at: Floats  # corners
    normals: Floats
    vertex_start: Ints
    face_start: Ints
    loop_start: Ints
    loops: Ints
    edge_start: Ints
    edges: Ints
    edge_faces: Ints


@inner
def corner_on_face(of_b: bool, corner: int, face: int) -> int:
    """Name a corner of one polyhedron on a face of the other, both counted within their contactor."""
    return (1 << 60 if of_b else 0) + (corner << 30) + face


@inner
def edge_on_edge(ua: int, wa: int, ub: int, wb: int) -> int:
    """Name an edge of ``a`` across one of ``b`` by their corners; an edge of two equal corners is a corner."""
    a = (min(ua, wa) << 15) + max(ua, wa)
    b = (min(ub, wb) << 15) + max(ub, wb)
    return (2 << 60) + (a << 30) + b


@inner
def incident_face(hulls: Hulls, k: int, x: float, y: float, z: float) -> int:
    """Return the face of contactor ``k`` that holds its lowest corner along (x, y, z) and the flattest edge there."""
    at, normals, edges, edge_faces = hulls.at, hulls.normals, hulls.edges, hulls.edge_faces
    lowest, least = k, np.inf
    for v in range(hulls.vertex_start[k], hulls.vertex_start[k + 1]):
        height = x * at[v, 0] + y * at[v, 1] + z * at[v, 2]
        if height < least:
            lowest, least = v, height
    flattest, slope = k, np.inf
    for e in range(hulls.edge_start[k], hulls.edge_start[k + 1]):
        u, w = edges[e, 0], edges[e, 1]
        if u == lowest or w == lowest:
            dx, dy, dz = at[w, 0] - at[u, 0], at[w, 1] - at[u, 1], at[w, 2] - at[u, 2]
            rise = abs(x * dx + y * dy + z * dz) / math.sqrt(dx * dx + dy * dy + dz * dz)
            if rise < slope - TIE:
                flattest, slope = e, rise
    f, g = edge_faces[flattest, 0], edge_faces[flattest, 1]
    lower = x * normals[f, 0] + y * normals[f, 1] + z * normals[f, 2]
    lower -= x * normals[g, 0] + y * normals[g, 1] + z * normals[g, 2]
    face: int = f if lower <= TIE else g
    return face


@inner
def cut(
    hulls: Hulls,
    i: int,
    j: int,
    face: int,
    incident: int,
    of_a: bool,
    size: float,
    margin: float,
    out: Manifolds,
    n: int,
) -> tuple[int, float]:
    """Report the part of the incident face over the reference face; return the count and the least gap."""
    at, loop_start, loops = hulls.at, hulls.loop_start, hulls.loops
    r, c = (i, j) if of_a else (j, i)
    tie, merge = TIE * size, MERGE * size
    first, sides = loop_start[face], loop_start[face + 1] - loop_start[face]
    start, edges = loop_start[incident], loop_start[incident + 1] - loop_start[incident]
    corner_r, corner_c = hulls.vertex_start[r], hulls.vertex_start[c]
    mx, my, mz = hulls.normals[face, 0], hulls.normals[face, 1], hulls.normals[face, 2]

    # the polygon: its corners; what each is called; the line to the next, an incident edge or -1 - side where cut
    room = 2 * (sides + edges)  # a side cuts a convex polygon twice; round-off may make it four times
    corners, height = np.empty((2, room, 3)), np.empty(room)
    tag = np.empty((2, room, 2), np.int64)
    local = face - hulls.face_start[r]
    for k in range(edges):
        v = loops[start + k]
        corners[0, k, 0], corners[0, k, 1], corners[0, k, 2] = at[v, 0], at[v, 1], at[v, 2]
        tag[0, k, 0], tag[0, k, 1] = corner_on_face(of_a, v - corner_c, local), k
    now, count = 0, edges
    local = incident - hulls.face_start[c]
    for side in range(sides):
        u = loops[first + side]
        w = loops[first + (side + 1 if side + 1 < sides else 0)]
        dx, dy, dz = at[w, 0] - at[u, 0], at[w, 1] - at[u, 1], at[w, 2] - at[u, 2]
        sx, sy, sz = dy * mz - dz * my, dz * mx - dx * mz, dx * my - dy * mx  # outward
        scale = 1.0 / math.sqrt(sx * sx + sy * sy + sz * sz)
        outside = 0
        for q in range(count):
            x, y, z = (
                corners[now, q, 0] - at[u, 0],
                corners[now, q, 1] - at[u, 1],
                corners[now, q, 2] - at[u, 2],
            )
            height[q] = scale * (sx * x + sy * y + sz * z)
            outside += height[q] > tie
        if outside == 0:
            continue
        new, kept = 1 - now, 0
        p = count - 1
        for q in range(count):
            hp, hq = height[p], height[q]
            if (hp <= tie) != (hq <= tie):
                s = min(max(hp / (hp - hq), 0.0), 1.0)
                dx = corners[now, q, 0] - corners[now, p, 0]
                dy = corners[now, q, 1] - corners[now, p, 1]
                dz = corners[now, q, 2] - corners[now, p, 2]
                inside = s if hp <= tie else 1.0 - s
                if inside * inside * (dx * dx + dy * dy + dz * dz) > merge * merge:
                    line = tag[now, p, 1]
                    if line >= 0:
                        v = loops[start + line] - corner_c
                        o = loops[start + (line + 1 if line + 1 < edges else 0)] - corner_c
                        if of_a:
                            name = edge_on_edge(u - corner_r, w - corner_r, v, o)
                        else:
                            name = edge_on_edge(v, o, u - corner_r, w - corner_r)
                    else:
                        v = w if line == -1 and side == sides - 1 else u
                        name = corner_on_face(not of_a, v - corner_r, local)
                    corners[new, kept, 0] = corners[now, p, 0] + s * dx
                    corners[new, kept, 1] = corners[now, p, 1] + s * dy
                    corners[new, kept, 2] = corners[now, p, 2] + s * dz
                    tag[new, kept, 0], tag[new, kept, 1] = name, (line if hp > tie else -1 - side)
                    kept += 1
                elif hp <= tie and kept > 0:
                    tag[new, kept - 1, 1] = -1 - side
            if hq <= tie:
                for k in range(3):
                    corners[new, kept, k] = corners[now, q, k]
                tag[new, kept, 0], tag[new, kept, 1] = tag[now, q, 0], tag[now, q, 1]
                kept += 1
            p = q
        now, count = new, kept
        if count == 0:
            return n, np.inf

    v = loops[first]
    level = mx * at[v, 0] + my * at[v, 1] + mz * at[v, 2]
    sign = 1.0 if of_a else -1.0
    least = np.inf
    kept = 0
    for k in range(count):
        x, y, z = corners[now, k, 0], corners[now, k, 1], corners[now, k, 2]
        gap = mx * x + my * y + mz * z - level
        fresh = gap <= margin
        for o in range(kept):
            dx, dy, dz = corners[now, o, 0] - x, corners[now, o, 1] - y, corners[now, o, 2] - z
            fresh = fresh and dx * dx + dy * dy + dz * dz > merge * merge
        if not fresh:
            continue
        corners[now, kept, 0], corners[now, kept, 1], corners[now, kept, 2] = x, y, z
        kept += 1
        least = min(least, gap)
        if n < len(out.gap):
            out.a[n], out.b[n], out.feature[n], out.gap[n] = i, j, tag[now, k, 0], gap
            out.point[n, 0], out.normal[n, 0] = x - 0.5 * gap * mx, sign * mx
            out.point[n, 1], out.normal[n, 1] = y - 0.5 * gap * my, sign * my
            out.point[n, 2], out.normal[n, 2] = z - 0.5 * gap * mz, sign * mz
        n += 1
    return n, least


@inner
def closest(at: Floats, ua: int, wa: int, ub: int, wb: int) -> tuple[float, float, float]:
    """Return where two segments come nearest, as fractions of each, and their squared distance.

    Follows Ericson (2005), *Real-Time Collision Detection*, 5.1.9.
    """
    ax, ay, az = at[wa, 0] - at[ua, 0], at[wa, 1] - at[ua, 1], at[wa, 2] - at[ua, 2]
    bx, by, bz = at[wb, 0] - at[ub, 0], at[wb, 1] - at[ub, 1], at[wb, 2] - at[ub, 2]
    rx, ry, rz = at[ua, 0] - at[ub, 0], at[ua, 1] - at[ub, 1], at[ua, 2] - at[ub, 2]
    aa, bb, ab = ax * ax + ay * ay + az * az, bx * bx + by * by + bz * bz, ax * bx + ay * by + az * bz
    ar, br = ax * rx + ay * ry + az * rz, bx * rx + by * ry + bz * rz
    den = aa * bb - ab * ab
    s = min(max((ab * br - ar * bb) / den, 0.0), 1.0) if den > PARALLEL * aa * bb else 0.0
    t = (ab * s + br) / bb
    if t < 0.0:
        t, s = 0.0, min(max(-ar / aa, 0.0), 1.0)
    elif t > 1.0:
        t, s = 1.0, min(max((ab - ar) / aa, 0.0), 1.0)
    dx, dy, dz = rx + s * ax - t * bx, ry + s * ay - t * by, rz + s * az - t * bz
    return s, t, dx * dx + dy * dy + dz * dz


@inner
def parallel(at: Floats, ua: int, wa: int, ub: int, wb: int) -> bool:
    """Tell whether two segments have the same direction."""
    aa = ab = bb = 0.0
    for k in range(3):
        a, b = at[wa, k] - at[ua, k], at[wb, k] - at[ub, k]
        aa, ab, bb = aa + a * a, ab + a * b, bb + b * b
    return bool(aa * bb - ab * ab <= PARALLEL * aa * bb)


@inner
def nearest(
    hulls: Hulls, i: int, j: int, x: float, y: float, z: float, limit: float
) -> tuple[int, int, int, int]:
    """Return the corners of the two edges of ``i`` and ``j`` that come nearest, or -1 if none do within the limit.

    Of edges that come equally near, two that are parallel are taken: they share more than a point.
    The axis (x, y, z) leaves few edges to look at: a point of ``i`` within the limit of ``j`` is no more than the
    limit lower than all of ``j``.
    """
    at, edges = hulls.at, hulls.edges
    top, bottom = -np.inf, np.inf
    for v in range(hulls.vertex_start[i], hulls.vertex_start[i + 1]):
        top = max(top, x * at[v, 0] + y * at[v, 1] + z * at[v, 2])
    for v in range(hulls.vertex_start[j], hulls.vertex_start[j + 1]):
        bottom = min(bottom, x * at[v, 0] + y * at[v, 1] + z * at[v, 2])
    best, found = limit * limit, (-1, -1, -1, -1)
    for e in range(hulls.edge_start[i], hulls.edge_start[i + 1]):
        ua, wa = edges[e, 0], edges[e, 1]
        up = x * at[ua, 0] + y * at[ua, 1] + z * at[ua, 2]
        if max(up, x * at[wa, 0] + y * at[wa, 1] + z * at[wa, 2]) < bottom - limit:
            continue
        for g in range(hulls.edge_start[j], hulls.edge_start[j + 1]):
            ub, wb = edges[g, 0], edges[g, 1]
            down = x * at[ub, 0] + y * at[ub, 1] + z * at[ub, 2]
            if min(down, x * at[wb, 0] + y * at[wb, 1] + z * at[wb, 2]) <= top + limit:
                _, _, square = closest(at, ua, wa, ub, wb)
                tied = found[0] >= 0 and square <= best * (1.0 + TIE)
                if square < best * (1.0 - TIE) or (tied and parallel(at, ua, wa, ub, wb)):
                    best, found = square, (ua, wa, ub, wb)
    return found


@inner
def edge_contacts(
    hulls: Hulls,
    i: int,
    j: int,
    ends: tuple[int, int, int, int],
    along: bool,
    x: float,
    y: float,
    z: float,
    size: float,
    out: Manifolds,
    n: int,
) -> int:
    """Report where two edges come nearest, or both ends of the stretch that two parallel ones run side by side.

    The normal is (x, y, z) if it is to be ``along`` it or the edges meet, else it points from one edge to the other.
    """
    at = hulls.at
    ua, wa, ub, wb = ends
    s, t, _ = closest(at, ua, wa, ub, wb)
    other, points = (s, t), 1
    aa = ab = ra = 0.0
    for k in range(3):
        a = at[wa, k] - at[ua, k]
        aa, ab, ra = aa + a * a, ab + a * (at[wb, k] - at[ub, k]), ra + a * (at[ub, k] - at[ua, k])
    if parallel(at, ua, wa, ub, wb):
        s = min(max(min(ra, ra + ab) / aa, 0.0), 1.0)
        end = min(max(max(ra, ra + ab) / aa, 0.0), 1.0)
        t = min(max((s * aa - ra) / ab, 0.0), 1.0)
        other = (end, min(max((end * aa - ra) / ab, 0.0), 1.0))
        points = 2 if (end - s) * math.sqrt(aa) > MERGE * size else 1
    for _ in range(points):
        px, qx = at[ua, 0] + s * (at[wa, 0] - at[ua, 0]), at[ub, 0] + t * (at[wb, 0] - at[ub, 0])
        py, qy = at[ua, 1] + s * (at[wa, 1] - at[ua, 1]), at[ub, 1] + t * (at[wb, 1] - at[ub, 1])
        pz, qz = at[ua, 2] + s * (at[wa, 2] - at[ua, 2]), at[ub, 2] + t * (at[wb, 2] - at[ub, 2])
        gap = math.sqrt((qx - px) ** 2 + (qy - py) ** 2 + (qz - pz) ** 2)
        if along or gap <= TIE * size:
            gap = (qx - px) * x + (qy - py) * y + (qz - pz) * z
        else:
            x, y, z = (qx - px) / gap, (qy - py) / gap, (qz - pz) / gap
        if n < len(out.gap):
            out.a[n], out.b[n], out.gap[n] = i, j, gap
            out.feature[n] = edge_on_edge(
                (wa if s > 1.0 - TIE else ua) - hulls.vertex_start[i],
                (ua if s < TIE else wa) - hulls.vertex_start[i],
                (wb if t > 1.0 - TIE else ub) - hulls.vertex_start[j],
                (ub if t < TIE else wb) - hulls.vertex_start[j],
            )
            out.point[n, 0], out.normal[n, 0] = 0.5 * (px + qx), x
            out.point[n, 1], out.normal[n, 1] = 0.5 * (py + qy), y
            out.point[n, 2], out.normal[n, 2] = 0.5 * (pz + qz), z
        n += 1
        s, t = other
    return n
