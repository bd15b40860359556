"""Contacts of boxes and convex polyhedra by separating axes.

Two convex polyhedra are apart, by at least ``g`` along ``n``, if all of ``b`` lies ``g`` beyond all of ``a`` along
``n``. If they overlap, the shortest way apart is along a face normal of one of them or across an edge of each, so
the greatest ``g`` over these axes is the gap, negative with overlap (Gottschalk, Lin & Manocha 1996,
10.1145/237170.237244). A search that ends with whole faces suits blocks better than one that ends with two
points: the points come from `tamis.sim.common.clipping`. Any axis with a gap above the margin ends the work, and
most pairs that the broad phase lets through end so.

*Boxes* have three face axes each and nine pairs of edge directions; products of the two frames give all fifteen
gaps without touching a corner.

*Polyhedra* of twelve faces and thirty edges would have 24 face axes, each with a search for the lowest corner, and
900 pairs of edges. Little of it is needed:

- the line through the middles, though no candidate for the gap, shows most separate pairs to be apart;
- a face whose plane is farther below the middle of the other polyhedron than the best gap so far cannot be
  better, as the lowest corner is below the middle. That leaves two or three faces of each side;
- an edge axis with gap ``s`` between the best face's ``s0`` and the margin has its points on edges that come within
  ``max(margin, |s0|) - s0`` of the ends of the two polyhedra along that face's normal: a handful;
- of those pairs, only the ones whose arcs cross on the sphere of normals support a common plane: the normals of
  the two faces at each edge lie on different sides of the other edge's plane. Four products tell, and no
  corner is looked at.

Edges less than 1e-4 radians from parallel have no axis of their own; the faces beside them, or `nearest` if the
polyhedra are apart, serve instead.

Choice is biased so that noise does not change it: a face of ``a`` before one of ``b``, a face before an edge, a lower
number before a higher one, unless the later is better by `TIE` of the size.
"""

from __future__ import annotations

import math

import numpy as np

from tamis.jit import apart, inner
from tamis.sim.common.clipping import (
    FLAT,
    PARALLEL,
    SLACK,
    TIE,
    Hulls,
    closest,
    cut,
    edge_contacts,
    incident_face,
    nearest,
)
from tamis.sim.common.geometry import BOX, Floats, Geometry, Ints, Manifolds, World

# best gaps over the faces of a, of b and the pairs of edges; the two faces; the ends of the edges; their normal
Axes = tuple[float, float, float, int, int, tuple[int, int, int, int], tuple[float, float, float]]


@inner
def box_axes(
    centre: Floats,
    axes: Floats,
    size: Floats,
    vertex_start: Ints,
    face_start: Ints,
    i: int,
    j: int,
    tie: float,
    margin: float,
) -> Axes:
    """Return the best axes of two boxes, or any with a gap above the margin."""
    p, q = axes[i], axes[j]
    sa, sb = size[i], size[j]
    dx = centre[j, 0] - centre[i, 0]
    dy = centre[j, 1] - centre[i, 1]
    dz = centre[j, 2] - centre[i, 2]
    # the axes of a along those of b; below them, the way from a to b along the axes of a, and along those of b
    r = np.empty((5, 3))
    for k in range(3):
        for m in range(3):
            r[k, m] = p[0, k] * q[0, m] + p[1, k] * q[1, m] + p[2, k] * q[2, m]
        r[3, k] = dx * p[0, k] + dy * p[1, k] + dz * p[2, k]
        r[4, k] = dx * q[0, k] + dy * q[1, k] + dz * q[2, k]
    gap_a, axis_a, gap_b, axis_b = -np.inf, 0, -np.inf, 0
    for k in range(3):
        half = sb[0] * abs(r[k, 0]) + sb[1] * abs(r[k, 1]) + sb[2] * abs(r[k, 2])
        gap = abs(r[3, k]) - sa[k] - half
        if gap > gap_a + tie:
            gap_a, axis_a = gap, k
    ends, normal = (i, i, j, j), (0.0, 0.0, 0.0)
    if gap_a > margin:
        return gap_a, gap_b, gap_b, i, j, ends, normal
    for k in range(3):
        half = sa[0] * abs(r[0, k]) + sa[1] * abs(r[1, k]) + sa[2] * abs(r[2, k])
        gap = abs(r[4, k]) - sb[k] - half
        if gap > gap_b + tie:
            gap_b, axis_b = gap, k
    if gap_b > margin:
        return gap_a, gap_b, gap_a, i, j, ends, normal

    gap_e, best = -np.inf, -1
    for k in range(3):
        k1, k2 = (k + 1) % 3, (k + 2) % 3
        for m in range(3):
            square = r[k1, m] * r[k1, m] + r[k2, m] * r[k2, m]
            if square > PARALLEL:
                m1, m2 = (m + 1) % 3, (m + 2) % 3
                half = sa[k1] * abs(r[k2, m]) + sa[k2] * abs(r[k1, m])
                half += sb[m1] * abs(r[k, m2]) + sb[m2] * abs(r[k, m1])
                gap = (abs(r[3, k2] * r[k1, m] - r[3, k1] * r[k2, m]) - half) / math.sqrt(square)
                if gap > gap_e + tie:
                    gap_e, best = gap, 3 * k + m
    if best >= 0:
        k, m = best // 3, best % 3
        ex = p[1, k] * q[2, m] - p[2, k] * q[1, m]
        ey = p[2, k] * q[0, m] - p[0, k] * q[2, m]
        ez = p[0, k] * q[1, m] - p[1, k] * q[0, m]
        scale = 1.0 / math.sqrt(ex * ex + ey * ey + ez * ez)
        if ex * dx + ey * dy + ez * dz < 0.0:
            scale = -scale
        ex, ey, ez = scale * ex, scale * ey, scale * ez
        ua, ub = vertex_start[i], vertex_start[j]
        for axis in range(3):
            if axis != k and ex * p[0, axis] + ey * p[1, axis] + ez * p[2, axis] > 0.0:
                ua += 1 << axis
            if axis != m and ex * q[0, axis] + ey * q[1, axis] + ez * q[2, axis] < 0.0:
                ub += 1 << axis
        ends, normal = (ua, ua + (1 << k), ub, ub + (1 << m)), (ex, ey, ez)
    face_a = face_start[i] + 2 * axis_a + (1 if r[3, axis_a] >= 0.0 else 0)
    face_b = face_start[j] + 2 * axis_b + (1 if r[4, axis_b] < 0.0 else 0)
    return gap_a, gap_b, gap_e, face_a, face_b, ends, normal


@inner
def middle(at: Floats, first: int, last: int) -> tuple[float, float, float]:
    """Return the mean of the corners from ``first`` to ``last``, which is inside."""
    x = y = z = 0.0
    for v in range(first, last):
        x, y, z = x + at[v, 0], y + at[v, 1], z + at[v, 2]
    scale = 1.0 / (last - first)
    return scale * x, scale * y, scale * z


@inner
def lowest(at: Floats, first: int, last: int, x: float, y: float, z: float) -> float:
    """Return the height along (x, y, z) of the lowest of the corners from ``first`` to ``last``."""
    low = np.inf
    for v in range(first, last):
        height = x * at[v, 0] + y * at[v, 1] + z * at[v, 2]
        if height < low:
            low = height
    return low


@inner
def best_face(
    hulls: Hulls,
    k: int,
    first: int,
    last: int,
    x: float,
    y: float,
    z: float,
    beat: float,
    tie: float,
    margin: float,
) -> tuple[float, int]:
    """Return the best gap from a face of contactor ``k`` to corners ``first`` to ``last``, and that face.

    (x, y, z) is the middle of those corners. If no gap beats the one given, that is returned with face -1.
    """
    at, m, loop_start, loops = hulls.at, hulls.normals, hulls.loop_start, hulls.loops
    start, end = hulls.face_start[k], hulls.face_start[k + 1]
    ahead, facing = -np.inf, -1
    for f in range(start, end):
        v = loops[loop_start[f]]
        far = m[f, 0] * (x - at[v, 0]) + m[f, 1] * (y - at[v, 1]) + m[f, 2] * (z - at[v, 2])
        if far > ahead + tie:
            ahead, facing = far, f
    gap, face = beat, -1
    for f in range(start - 1, end):
        g = facing if f < start else f  # first the one most ahead: it rules most others out
        v = loops[loop_start[g]]
        far = m[g, 0] * (x - at[v, 0]) + m[g, 1] * (y - at[v, 1]) + m[g, 2] * (z - at[v, 2])
        if far <= gap + tie:
            continue
        level = m[g, 0] * at[v, 0] + m[g, 1] * at[v, 1] + m[g, 2] * at[v, 2]
        found = lowest(at, first, last, m[g, 0], m[g, 1], m[g, 2]) - level
        if found > gap + tie:
            gap, face = found, g
            if gap > margin:
                break
    return gap, face


@inner
def hull_axes(hulls: Hulls, i: int, j: int, tie: float, margin: float) -> Axes:
    """Return the best axes of two polyhedra, or any with a gap above the margin."""
    at, m, edges, edge_faces = hulls.at, hulls.normals, hulls.edges, hulls.edge_faces
    ends, normal = (i, i, j, j), (0.0, 0.0, 0.0)
    a0, a1 = hulls.vertex_start[i], hulls.vertex_start[i + 1]
    b0, b1 = hulls.vertex_start[j], hulls.vertex_start[j + 1]
    x, y, z = middle(at, a0, a1)
    u, v, w = middle(at, b0, b1)
    dx, dy, dz = u - x, v - y, w - z
    apart = lowest(at, b0, b1, dx, dy, dz) + lowest(at, a0, a1, -dx, -dy, -dz)
    if apart > 0.0 and apart * apart > margin * margin * (dx * dx + dy * dy + dz * dz):
        return np.inf, apart, apart, i, j, ends, normal
    gap_a, face_a = best_face(hulls, i, b0, b1, u, v, w, -np.inf, tie, margin)
    if gap_a > margin:
        return gap_a, gap_a, gap_a, i, j, ends, normal
    gap_b, face_b = best_face(hulls, j, a0, a1, x, y, z, gap_a, tie, margin)
    if gap_b > margin:
        return gap_b, gap_b, gap_b, i, j, ends, normal
    if face_b >= 0:
        nx, ny, nz, gap = -m[face_b, 0], -m[face_b, 1], -m[face_b, 2], gap_b
    else:
        nx, ny, nz, gap = m[face_a, 0], m[face_a, 1], m[face_a, 2], gap_a

    depth = max(margin, -gap) - gap
    floor = lowest(at, b0, b1, nx, ny, nz) - gap - depth
    roof = -lowest(at, a0, a1, -nx, -ny, -nz) + gap + depth
    first, last = hulls.edge_start[j], hulls.edge_start[j + 1]
    near = np.empty(last - first, np.int64)
    count = 0
    for e in range(first, last):
        ub, wb = edges[e, 0], edges[e, 1]
        down = nx * at[ub, 0] + ny * at[ub, 1] + nz * at[ub, 2]
        if min(down, nx * at[wb, 0] + ny * at[wb, 1] + nz * at[wb, 2]) <= roof:
            near[count] = e
            count += 1
    gap_e = -np.inf
    for e in range(hulls.edge_start[i], hulls.edge_start[i + 1]):
        ua, wa = edges[e, 0], edges[e, 1]
        up = nx * at[ua, 0] + ny * at[ua, 1] + nz * at[ua, 2]
        if max(up, nx * at[wa, 0] + ny * at[wa, 1] + nz * at[wa, 2]) < floor:
            continue
        f, g = edge_faces[e, 0], edge_faces[e, 1]
        ax, ay, az = at[wa, 0] - at[ua, 0], at[wa, 1] - at[ua, 1], at[wa, 2] - at[ua, 2]
        for k in range(count):
            h, o = edge_faces[near[k], 0], edge_faces[near[k], 1]
            one = ax * m[h, 0] + ay * m[h, 1] + az * m[h, 2]
            two = ax * m[o, 0] + ay * m[o, 1] + az * m[o, 2]
            if one * two >= 0.0:
                continue
            ub, wb = edges[near[k], 0], edges[near[k], 1]
            bx, by, bz = at[wb, 0] - at[ub, 0], at[wb, 1] - at[ub, 1], at[wb, 2] - at[ub, 2]
            one = bx * m[f, 0] + by * m[f, 1] + bz * m[f, 2]
            two = bx * m[g, 0] + by * m[g, 1] + bz * m[g, 2]
            if one * two >= 0.0:
                continue
            cx, cy, cz = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
            of_a = cx * (m[f, 0] + m[g, 0]) + cy * (m[f, 1] + m[g, 1]) + cz * (m[f, 2] + m[g, 2])
            of_b = cx * (m[h, 0] + m[o, 0]) + cy * (m[h, 1] + m[o, 1]) + cz * (m[h, 2] + m[o, 2])
            if of_a * of_b >= 0.0:
                continue
            square = cx * cx + cy * cy + cz * cz
            if square <= PARALLEL * (ax * ax + ay * ay + az * az) * (bx * bx + by * by + bz * bz):
                continue
            scale = math.copysign(1.0 / math.sqrt(square), of_a)
            cx, cy, cz = scale * cx, scale * cy, scale * cz
            found = cx * (at[ub, 0] - at[ua, 0]) + cy * (at[ub, 1] - at[ua, 1]) + cz * (at[ub, 2] - at[ua, 2])
            if found > gap_e + tie:
                gap_e, ends, normal = found, (ua, wa, ub, wb), (cx, cy, cz)
                if gap_e > margin:
                    return gap_a, gap_b, gap_e, face_a, face_b, ends, normal
    return gap_a, gap_b, gap_e, face_a, face_b, ends, normal


@apart
def polyhedra(i: int, j: int, geometry: Geometry, world: World, margin: float, out: Manifolds, n: int) -> int:
    """Report the contacts of two polyhedra, boxes among them, from row ``n`` on; return the row after the last."""
    hulls = Hulls(
        world.vertices,
        world.normals,
        geometry.vertex_start,
        geometry.face_start,
        geometry.loop_start,
        geometry.loops,
        geometry.edge_start,
        geometry.edges,
        geometry.edge_faces,
    )
    size = min(geometry.reach[i], geometry.reach[j])
    tie = TIE * size
    if geometry.kind[i] == BOX and geometry.kind[j] == BOX:
        start, first = geometry.vertex_start, geometry.face_start
        axes = box_axes(world.centre, world.axes, geometry.size, start, first, i, j, tie, margin)
    else:
        axes = hull_axes(hulls, i, j, tie, margin)
    gap_a, gap_b, gap_e, face_a, face_b, ends, (ex, ey, ez) = axes
    if max(gap_a, gap_b, gap_e) > margin:
        return n
    of_a = gap_b <= gap_a + tie
    face, sign, gap = (face_a, 1.0, gap_a) if of_a else (face_b, -1.0, gap_b)
    mx, my, mz = world.normals[face, 0], world.normals[face, 1], world.normals[face, 2]
    crossed = gap_e > gap + tie
    bound = max(gap, gap_e)
    found, least = n, np.inf
    if not crossed or sign * (ex * mx + ey * my + ez * mz) >= FLAT:
        incident = incident_face(hulls, j if of_a else i, mx, my, mz)
        found, least = cut(hulls, i, j, face, incident, of_a, size, margin, out, n)
        if found > n and (bound <= 0.0 or least <= SLACK * bound + tie):
            return found
    along = False
    if crossed and found == n:
        s, t, _ = closest(hulls.at, ends[0], ends[1], ends[2], ends[3])
        along = gap_e <= 0.0 or (0.0 < s < 1.0 and 0.0 < t < 1.0)
    else:
        ex, ey, ez = sign * mx, sign * my, sign * mz
    if not along:
        ends = nearest(hulls, i, j, ex, ey, ez, min(margin, least / SLACK))
        if ends[0] < 0:
            return found
    return edge_contacts(hulls, i, j, ends, along, ex, ey, ez, size, out, found)
