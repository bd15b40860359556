"""Shapes, their masses and hulls, and the flat arrays that detection reads.

A shape is a small frozen record in its own frame (see `tamis.sim.common.geometry` for the frames). Everything dear to
compute, the hull of points above all, hangs on the record itself, so that twenty thousand equal grains cost one
hull.

Boxes and convex polyhedra share one description, the `Hull`: whole faces, not triangles. A triangulated face would
give a resting block contacts along lines that are no edges, and those lines would differ from machine to
machine. So triangles of the hull are gathered into faces, each grown from its largest triangle and held to that
triangle's plane: a sliver that noise in the points put along an edge joins one face or the other and cannot join
both. A point where fewer than three faces meet is no corner and is dropped.

Mass properties are integrals over tetrahedra from a point inside to the faces, exact for a polyhedron.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tamis.errors import StudyError
from tamis.sim.common.geometry import (
    BORE,
    BOX,
    CAPSULE,
    CONVEX,
    CYLINDER,
    HALFSPACE,
    RING,
    SPHERE,
    Floats,
    Geometry,
    Ints,
)

Triple = tuple[float, float, float]

_FLAT = 1e-9  # of the extent of the points: thinner than that is flat
_COPLANAR = 1e-8  # of the extent of the points: nearer to a face's plane than that is in the face


@dataclass(frozen=True)
class _Round:
    radius: float

    def __post_init__(self) -> None:
        _positive(self, "radius", self.radius)


@dataclass(frozen=True)
class _Bar(_Round):
    length: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _positive(self, "length", self.length)


@dataclass(frozen=True)
class Sphere(_Round):
    """A ball about the origin."""


@dataclass(frozen=True)
class Box:
    """A box about the origin, given by the full lengths of its sides."""

    sides: Triple

    def __post_init__(self) -> None:
        object.__setattr__(self, "sides", _row(self, "sides", self.sides, 3))
        for side in self.sides:
            _positive(self, "sides", side)


@dataclass(frozen=True)
class Cylinder(_Bar):
    """A cylinder with flat ends about the origin, its axis along z."""


@dataclass(frozen=True)
class Capsule(_Bar):
    """A cylinder along z with half-spheres on its ends; ``length`` is that of the straight part."""


@dataclass(frozen=True)
class Convex:
    """The convex hull of points."""

    points: tuple[Triple, ...]

    def __post_init__(self) -> None:
        points: Any = np.asarray(self.points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
            raise StudyError(
                f"the points of a convex shape must be finite triples of coordinates, one row each; found an array "
                f"of shape {points.shape}" + ("" if np.isfinite(points).all() else " that holds nan or inf")
            )
        object.__setattr__(self, "points", tuple(tuple(row) for row in points.tolist()))


@dataclass(frozen=True)
class HalfSpace:
    """The solid ``z <= 0``, without end."""


@dataclass(frozen=True)
class Ring(_Round):
    """The rim of a round hole in the plane ``z = 0``; only bars that pass through it feel it."""


@dataclass(frozen=True)
class Bore(_Bar):
    """The wall of a round hole about the origin, its axis along z; only bars that are in it feel it."""


Shape = Sphere | Box | Cylinder | Capsule | Convex | HalfSpace | Ring | Bore

_KINDS: dict[type, int] = {
    Sphere: SPHERE,
    Box: BOX,
    Cylinder: CYLINDER,
    Capsule: CAPSULE,
    Convex: CONVEX,
    HalfSpace: HALFSPACE,
    Ring: RING,
    Bore: BORE,
}


@dataclass(frozen=True, eq=False)
class Mass:
    """Volume, centre of mass and inertia about it, for unit density, in the shape's frame."""

    volume: float
    centre: Floats  # (3,)
    inertia: Floats  # (3, 3)


@dataclass(frozen=True, eq=False)
class Hull:
    """A convex polyhedron with whole faces."""

    vertices: Floats  # (v, 3)
    loops: tuple[tuple[int, ...], ...]  # per face, counter-clockwise from outside
    normals: Floats  # (f, 3) outward
    edges: Ints  # (e, 2), the lower number first, sorted
    edge_faces: Ints  # (e, 2): the face whose loop runs along the edge, then the one that runs against it


@dataclass(frozen=True)
class Contactor:
    """One shape fixed to one body: the group that says what it meets, and its pose in the body's frame."""

    shape: Shape
    body: int
    group: int
    centre: Triple = (0.0, 0.0, 0.0)
    turn: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)


def reach_of(shape: Shape) -> float:
    """Return the radius about the origin that holds the shape."""
    match shape:
        case Sphere() | Ring():
            return shape.radius
        case Box():
            return 0.5 * math.hypot(*shape.sides)
        case Cylinder() | Bore():
            return math.hypot(shape.radius, 0.5 * shape.length)
        case Capsule():
            return shape.radius + 0.5 * shape.length
        case Convex():
            return float(np.linalg.norm(np.asarray(shape.points), axis=1).max())
        case HalfSpace():
            return math.inf


@lru_cache(maxsize=65536)
def mass_of(shape: Shape) -> Mass:
    """Return volume, centre and inertia for unit density; a half-space and the rim or wall of a hole have none."""
    match shape:
        case Sphere(r):
            volume = 4.0 / 3.0 * math.pi * r**3
            return _mass(volume, 0.4 * volume * np.array([r * r, r * r, r * r]))
        case Box(sides):
            volume = math.prod(sides)
            a, b, c = (side * side / 12.0 for side in sides)
            return _mass(volume, volume * np.array([b + c, c + a, a + b]))
        case Cylinder(r, length):
            volume = math.pi * r * r * length
            across = volume * (r * r / 4.0 + length * length / 12.0)
            return _mass(volume, np.array([across, across, volume * r * r / 2.0]))
        case Capsule(r, length):
            bar, ball = math.pi * r * r * length, 4.0 / 3.0 * math.pi * r**3
            across = bar * (r * r / 4.0 + length * length / 12.0)
            across += ball * (0.4 * r * r + length * length / 4.0 + 0.375 * r * length)
            return _mass(bar + ball, np.array([across, across, (0.5 * bar + 0.4 * ball) * r * r]))
        case Convex():
            return _mass_of_hull(shape)
        case HalfSpace() | Ring() | Bore():
            return _mass(0.0, np.zeros(3))


@lru_cache(maxsize=65536)
def hull_of(shape: Shape) -> Hull | None:
    """Return the polyhedron of a box or of points; None for other shapes.

    Corner ``i + 2 j + 4 k`` of a box lies at the low (0) or high (1) end of x, y, z; its faces are -x, +x, -y, +y,
    -z, +z.
    """
    if isinstance(shape, Box):
        low = np.array([[i & 1, i >> 1 & 1, i >> 2 & 1] for i in range(8)])
        loops = ((0, 4, 6, 2), (1, 3, 7, 5), (0, 1, 5, 4), (2, 6, 7, 3), (0, 2, 3, 1), (4, 5, 7, 6))
        return _hull((low - 0.5) * np.array(shape.sides), loops)
    if isinstance(shape, Convex):
        return _hull_of_points(np.asarray(shape.points))
    return None


def geometry_of(contactors: Sequence[Contactor]) -> Geometry:
    """Lay contactors out as the flat arrays of detection.

    Loops, edges and faces of edges hold numbers into the flat arrays, not within their contactor.
    """
    n = len(contactors)
    shapes = [contactor.shape for contactor in contactors]
    known = {shape: (_size_of(shape), reach_of(shape), hull_of(shape)) for shape in dict.fromkeys(shapes)}
    found = [known[shape] for shape in shapes]
    held = [(k, hull) for k, (_, _, hull) in enumerate(found) if hull is not None]
    starts = np.zeros((3, n + 1), dtype=np.int64)  # of vertices, faces, edges
    for k, hull in held:
        starts[:, k + 1] = len(hull.vertices), len(hull.loops), len(hull.edges)
    starts = starts.cumsum(axis=1)
    turn = np.array([c.turn for c in contactors], dtype=np.float64).reshape(n, 4)
    centre = np.array([c.centre for c in contactors], dtype=np.float64).reshape(n, 3)
    length = np.linalg.norm(turn, axis=1)
    bad = ~(np.isfinite(length) & (length > 0.0) & np.isfinite(centre).all(axis=1))
    if bad.any():
        k = int(bad.argmax())
        raise StudyError(
            f"contactor {k}: expected a finite centre and a quaternion other than zero; found centre "
            f"{contactors[k].centre} and turn {contactors[k].turn}"
        )
    lengths = [len(loop) for _, hull in held for loop in hull.loops]
    return Geometry(
        kind=np.array([_KINDS[type(shape)] for shape in shapes], dtype=np.int64),
        body=np.array([c.body for c in contactors], dtype=np.int64),
        group=np.array([c.group for c in contactors], dtype=np.int64),
        size=np.array([size for size, _, _ in found]).reshape(n, 3),
        centre=centre,
        turn=turn / length[:, None],
        reach=np.array([reach for _, reach, _ in found]),
        vertex_start=starts[0],
        vertices=np.concatenate([np.zeros((0, 3)), *(hull.vertices for _, hull in held)]),
        face_start=starts[1],
        normals=np.concatenate([np.zeros((0, 3)), *(hull.normals for _, hull in held)]),
        loop_start=np.cumsum([0, *lengths], dtype=np.int64),
        loops=_numbers([np.concatenate(hull.loops) + starts[0, k] for k, hull in held], (0,)),
        edge_start=starts[2],
        edges=_numbers([hull.edges + starts[0, k] for k, hull in held], (0, 2)),
        edge_faces=_numbers([hull.edge_faces + starts[1, k] for k, hull in held], (0, 2)),
    )


def _numbers(parts: list[Any], empty: tuple[int, ...]) -> Ints:
    return np.concatenate([np.zeros(empty, dtype=np.int64), *parts])


def _size_of(shape: Shape) -> tuple[float, float, float]:
    match shape:
        case Sphere() | Ring():
            return (shape.radius, 0.0, 0.0)
        case Box((a, b, c)):
            return (0.5 * a, 0.5 * b, 0.5 * c)
        case Cylinder() | Capsule() | Bore():
            return (shape.radius, 0.5 * shape.length, 0.0)
        case Convex() | HalfSpace():
            return (0.0, 0.0, 0.0)


def _positive(shape: object, name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0.0):
        raise StudyError(f"{type(shape).__name__}: {name} must be positive and finite; found {value}")


def _row(shape: object, name: str, values: Sequence[float], n: int) -> tuple[float, ...]:
    if not isinstance(values, Sequence | np.ndarray) or len(values) != n:
        raise StudyError(f"{type(shape).__name__}: {name} must be {n} numbers; found {values}")
    return tuple(float(value) for value in values)


def _frozen(array: Any) -> Any:
    array.setflags(write=False)
    return array


def _mass(volume: float, principal: Floats) -> Mass:
    return Mass(volume, _frozen(np.zeros(3)), _frozen(np.diag(principal)))


def _mass_of_hull(shape: Convex) -> Mass:
    """Integrate 1, x and x x^T over tetrahedra from the mean vertex to a fan of each face."""
    hull = hull_of(shape)
    assert hull is not None
    origin = hull.vertices.mean(axis=0)
    at = hull.vertices - origin
    fans = np.array([(f[0], f[i], f[i + 1]) for f in hull.loops for i in range(1, len(f) - 1)])
    a, b, c = at[fans[:, 0]], at[fans[:, 1]], at[fans[:, 2]]
    volumes = np.einsum("ti,ti->t", a, np.cross(b, c)) / 6.0
    total = a + b + c
    volume = float(volumes.sum())
    centre = volumes @ total / (4.0 * volume)
    second = sum(np.einsum("t,ti,tj->ij", volumes, v, v) for v in (a, b, c, total)) / 20.0
    second = second - volume * np.outer(centre, centre)
    inertia = np.trace(second) * np.eye(3) - second
    return Mass(volume, _frozen(centre + origin), _frozen(0.5 * (inertia + inertia.T)))


def _hull(vertices: Floats, loops: tuple[tuple[int, ...], ...]) -> Hull:
    """Complete a polyhedron: normals by Newell's sum over a loop, edges from pairs of opposite runs."""
    middle = vertices.mean(axis=0)
    normals = np.zeros((len(loops), 3))
    runs: dict[tuple[int, int], int] = {}
    for f, loop in enumerate(loops):
        corners = vertices[list(loop)] - middle
        normals[f] = np.cross(corners, np.roll(corners, -1, axis=0)).sum(axis=0)
        runs.update({(loop[i - 1], loop[i]): f for i in range(len(loop))})
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    edges = sorted(run for run in runs if run[0] < run[1])
    faces = [(runs[u, v], runs[v, u]) for u, v in edges]
    return Hull(
        _frozen(vertices + 0.0),
        loops,
        _frozen(normals + 0.0),
        _frozen(np.array(edges, dtype=np.int64)),
        _frozen(np.array(faces, dtype=np.int64)),
    )


def _hull_of_points(points: Floats) -> Hull:
    extent = _check_solid(points)
    from scipy.spatial import ConvexHull

    found = ConvexHull(points)
    triangles, across = _oriented(points, found.simplices, found.equations, found.neighbors)
    face = _grown(points, triangles, across, _COPLANAR * extent)
    meeting: dict[int, set[int]] = {}
    for t, triangle in enumerate(triangles):
        for v in triangle:
            meeting.setdefault(int(v), set()).add(int(face[t]))
    corners = sorted(v for v, faces in meeting.items() if len(faces) >= 3)
    number = {v: i for i, v in enumerate(corners)}
    loops = []
    for f in range(face.max() + 1):
        after = {
            int(triangles[t, i]): int(triangles[t, (i + 1) % 3])
            for t in np.flatnonzero(face == f)
            for i in range(3)
            if face[across[t, (i + 2) % 3]] != f
        }
        at = min(after)
        walk = [at]
        while (at := after[at]) != walk[0]:
            walk.append(at)
        loops.append(tuple(number[v] for v in walk if v in number))
    return _hull(points[corners], tuple(sorted(loops)))


def _check_solid(points: Floats) -> float:
    """Return the extent of the points, or say why they have no volume."""
    distinct = np.unique(points, axis=0)
    if len(distinct) < 4:
        raise StudyError(
            f"a convex shape needs at least four different points; found too few points, {len(distinct)}"
        )
    spread = np.linalg.svd(distinct - distinct.mean(axis=0), compute_uv=False)
    what = "on one line" if spread[1] <= _FLAT * spread[0] else "flat, in one plane"
    if spread[2] <= _FLAT * spread[0]:
        raise StudyError(
            f"a convex shape needs points that span a volume; the {len(distinct)} found are {what} "
            f"(spreads {spread[0]:.3g}, {spread[1]:.3g}, {spread[2]:.3g}): add points or take another shape"
        )
    return float(np.linalg.norm(np.ptp(distinct, axis=0)))


def _oriented(points: Floats, triangles: Any, planes: Any, across: Any) -> tuple[Any, Any]:
    """Turn triangles counter-clockwise from outside; neighbour ``i`` stays opposite to corner ``i``."""
    a, b, c = (points[triangles[:, i]] for i in range(3))
    inward = np.einsum("ti,ti->t", np.cross(b - a, c - a), planes[:, :3]) < 0.0
    triangles, across = triangles.copy(), across.copy()
    triangles[inward] = triangles[inward][:, [0, 2, 1]]
    across[inward] = across[inward][:, [0, 2, 1]]
    return triangles, across


def _grown(points: Floats, triangles: Any, across: Any, near: float) -> Any:
    """Number the face of each triangle: grow faces over neighbours that lie in the plane of the largest one."""
    corners = points[triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    areas = np.linalg.norm(normals, axis=1)
    face = np.full(len(triangles), -1)
    count = 0
    for seed in np.lexsort((np.arange(len(areas)), -areas)):
        if face[seed] >= 0:
            continue
        normal = normals[seed] / areas[seed]
        off = np.abs((corners - corners[seed, 0]) @ normal).max(axis=1)
        front = [int(seed)]
        face[seed] = count
        while front:
            for t in across[front.pop()]:
                if face[t] < 0 and off[t] <= near:
                    face[t] = count
                    front.append(int(t))
        count += 1
    return face
