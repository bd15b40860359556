"""What can touch, as plain arrays: contactors, where they are now, and the contacts found between them.

A *contactor* is one shape fixed to one body. Everything about it that never changes is a row of `Geometry`; where it
is at the moment is a row of `World`, written once a step by `place`, so that the narrow phase reads world
coordinates and never transforms a vertex twice. Vertices, faces and edges of boxes and convex polyhedra lie in
flat arrays, each contactor owning a consecutive part::

    contactor k    vertices[vertex_start[k] : vertex_start[k + 1]]
                   faces    face_start[k] ... face_start[k + 1] - 1
                   edges[edge_start[k] : edge_start[k + 1]]
    face f         loops[loop_start[f] : loop_start[f + 1]], numbers of vertices, counter-clockwise from outside

Shapes in their own frame, and what `size` holds:

    ===========  ==========================================================  ==========================
    sphere       about the origin                                            radius
    box          about the origin, faces across the axes                     three half sides
    cylinder     about the origin, flat ends, axis z                         radius, half length
    capsule      a cylinder with half-spheres beyond its ends, axis z        radius, half length of axis
    convex       the hull of points                                          (none)
    half-space   the solid ``z <= 0``                                        (none)
    ring         the rim ``x^2 + y^2 = radius^2, z = 0`` of a hole           radius
    bore         the wall ``x^2 + y^2 = radius^2`` of a hole, axis z         radius, half length
    ===========  ==========================================================  ==========================

A contact has the normal from ``a`` towards ``b``, the gap along it (negative: overlap), the point midway between
the two surfaces, and a *feature*: a number that stays the same from step to step while the same parts of the two
shapes touch, by which impulses find their contact again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner, kernel
from tamis.sim.common.rotations import matrix, times
from tamis.sim.common.vectors import Vector

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SPHERE, BOX, CYLINDER, CAPSULE, CONVEX, HALFSPACE, RING, BORE = range(8)
NEAREST, LOW, HIGH = range(3)  # features: the nearest pair, and the ends of an interval


class Geometry(NamedTuple):
    """Contactors and all that is fixed about them."""

    kind: Ints  # (k,)
    body: Ints  # (k,)
    group: Ints  # (k,)
    size: Floats  # (k, 3)
    centre: Floats  # (k, 3) of the shape's frame in the body's
    turn: Floats  # (k, 4) of the shape's frame in the body's
    reach: Floats  # (k,) radius about the centre that holds the shape; infinite for a half-space
    vertex_start: Ints  # (k + 1,)
    vertices: Floats  # (v, 3) in the shape's frame
    face_start: Ints  # (k + 1,)
    normals: Floats  # (f, 3) outward, in the shape's frame
    loop_start: Ints  # (f + 1,)
    loops: Ints  # (l,)
    edge_start: Ints  # (k + 1,)
    edges: Ints  # (e, 2) numbers of vertices
    edge_faces: Ints  # (e, 2) numbers of the two faces that meet there


class World(NamedTuple):
    """Where the contactors are: written by `place`."""

    centre: Floats  # (k, 3)
    axes: Floats  # (k, 3, 3) columns are the shape's axes
    vertices: Floats  # (v, 3)
    normals: Floats  # (f, 3)
    low: Floats  # (k, 3) corners of the bounding box
    high: Floats  # (k, 3)


class Manifolds(NamedTuple):
    """Contacts, in the order of the sorted pairs they belong to."""

    a: Ints  # (n,) contactor
    b: Ints  # (n,) contactor
    feature: Ints  # (n,)
    point: Floats  # (n, 3)
    normal: Floats  # (n, 3) from a towards b
    gap: Floats  # (n,)


def world(geometry: Geometry) -> World:
    """Make room for the places of all contactors."""
    n = len(geometry.kind)
    return World(
        np.zeros((n, 3)),
        np.zeros((n, 3, 3)),
        np.zeros_like(geometry.vertices),
        np.zeros_like(geometry.normals),
        np.zeros((n, 3)),
        np.zeros((n, 3)),
    )


def manifolds(capacity: int) -> Manifolds:
    """Make room for so many contacts."""
    return Manifolds(
        np.zeros(capacity, dtype=np.int64),
        np.zeros(capacity, dtype=np.int64),
        np.zeros(capacity, dtype=np.int64),
        np.zeros((capacity, 3)),
        np.zeros((capacity, 3)),
        np.zeros(capacity),
    )


@kernel
def place(x: Floats, q: Floats, geometry: Geometry, out: World) -> None:
    """Write where every contactor is, from the positions and the quaternions of the bodies."""
    turn = np.empty(4)
    frame = np.empty((3, 3))
    for k in range(len(geometry.kind)):
        body = geometry.body[k]
        matrix(q[body], frame)
        for i in range(3):
            out.centre[k, i] = x[body, i] + (
                frame[i, 0] * geometry.centre[k, 0]
                + frame[i, 1] * geometry.centre[k, 1]
                + frame[i, 2] * geometry.centre[k, 2]
            )
        times(q[body], geometry.turn[k], turn)
        axes = out.axes[k]
        matrix(turn, axes)
        first, last = geometry.vertex_start[k], geometry.vertex_start[k + 1]
        if last > first:
            for i in range(3):
                out.low[k, i] = np.inf
                out.high[k, i] = -np.inf
            for v in range(first, last):
                for i in range(3):
                    at = out.centre[k, i] + (
                        axes[i, 0] * geometry.vertices[v, 0]
                        + axes[i, 1] * geometry.vertices[v, 1]
                        + axes[i, 2] * geometry.vertices[v, 2]
                    )
                    out.vertices[v, i] = at
                    out.low[k, i] = min(out.low[k, i], at)
                    out.high[k, i] = max(out.high[k, i], at)
            for f in range(geometry.face_start[k], geometry.face_start[k + 1]):
                for i in range(3):
                    out.normals[f, i] = (
                        axes[i, 0] * geometry.normals[f, 0]
                        + axes[i, 1] * geometry.normals[f, 1]
                        + axes[i, 2] * geometry.normals[f, 2]
                    )
        else:
            for i in range(3):
                out.low[k, i] = out.centre[k, i] - geometry.reach[k]
                out.high[k, i] = out.centre[k, i] + geometry.reach[k]


@inner
def put(
    out: Manifolds, n: int, a: int, b: int, feature: int, on_a: Vector, normal: Vector, gap: float
) -> int:
    """Write contact ``n`` if there is room, from the point on the surface of ``a``; count it in any case."""
    if n < len(out.gap):
        out.a[n], out.b[n], out.feature[n], out.gap[n] = a, b, feature, gap
        for i in range(3):
            out.point[n, i] = on_a[i] + 0.5 * gap * normal[i]
            out.normal[n, i] = normal[i]
    return n + 1
