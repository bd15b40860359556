"""From a scene to the arrays of the kernels, and room for a run."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tamis.jit import Address
from tamis.sim.common import broad
from tamis.sim.common.collide import narrow
from tamis.sim.common.geometry import Geometry, manifolds, world
from tamis.sim.common.rotations import hamilton, quaternion_of, rotation
from tamis.sim.common.shapes import (
    Bore,
    Box,
    Capsule,
    Contactor,
    Convex,
    Cylinder,
    HalfSpace,
    Ring,
    Shape,
    Sphere,
    geometry_of,
    hull_of,
    reach_of,
)
from tamis.sim.contact import solve
from tamis.sim.nscd import kernels
from tamis.sim.nscd.arrays import (
    Active,
    Bodies,
    Books,
    Detection,
    Impulses,
    Islands,
    Laws,
    Listed,
    Model,
    Motion,
    Record,
    Scratch,
    State,
    Steps,
    Stops,
    Track,
)
from tamis.sim.nscd.scene import Scene
from tamis.types import Array


class Frames(NamedTuple):
    """Where the frames that a person gave lie in those of the kernels: centre of mass and principal axes."""

    centre: Array  # (b, 3) of mass, in the body's frame
    axes: Array  # (b, 3, 3) principal axes as columns, in the body's frame


def lay_out(scene: Scene, h: float, steps: int) -> tuple[Model, State, Frames]:
    """Return the constant arrays, the state at the start, and the frames of the bodies."""
    n = len(scene.bodies)
    mass, x, q, v, force = (np.zeros((n, k)) for k in (6, 3, 4, 6, 6))
    frames = Frames(np.zeros((n, 3)), np.zeros((n, 3, 3)))
    contactors: list[Contactor] = []
    driven = []
    for i, body in enumerate(scene.bodies):
        if body.responds:
            own, centre, moments, axes = body.inertial()
        else:
            own, centre, moments, axes = 1.0, np.zeros(3), np.ones(3), np.eye(3)
        R = rotation(body.orientation)
        mass[i] = [own, own, own, *moments]
        frames.centre[i], frames.axes[i] = centre, axes
        x[i] = np.asarray(body.position) + R @ centre
        q[i] = hamilton(body.orientation, quaternion_of(axes))
        v[i] = [*body.velocity, *((R @ axes).T @ np.asarray(body.spin))]
        force[i] = [*body.force, *body.torque]
        if body.responds:
            force[i, :3] += own * np.asarray(scene.gravity)
        if body.motion is not None:
            driven.append(body.motion.at(h * np.arange(steps + 1, dtype=np.float64)))
            v[i] = driven[-1][0]
        away = quaternion_of(axes.T)
        for part in body.parts:
            at = axes.T @ (np.asarray(part.centre) - centre)
            turn = hamilton(away, part.turn)
            contactors.append(
                Contactor(part.shape, i, scene.groups.index(part.group), (at[0], at[1], at[2]), turn)
            )
    q /= np.linalg.norm(q, axis=1)[:, None]
    responds = np.array([body.responds for body in scene.bodies])
    moves = responds | np.array([body.motion is not None for body in scene.bodies])
    meet, law, mu, e = _laws(scene)
    thickness = {shape: half_thickness(shape) for shape in dict.fromkeys(c.shape for c in contactors)}
    root = np.sqrt(mass)
    geometry = geometry_of(contactors)
    model = Model(
        geometry,
        Bodies(
            mass=mass,
            root=root,
            inverse=np.where(responds[:, None], 1.0 / root, 0.0),
            force=force,
            number=np.where(responds, np.cumsum(responds) - 1, -1),
            responds=responds,
            moves=moves,
            motion=np.where(moves & ~responds, np.cumsum(moves & ~responds) - 1, -1),
            driven=np.array(driven) if driven else np.zeros((0, 1, 6)),
            stride=_strides(contactors, thickness, meet, moves),
            extent=_extents(contactors, len(x)),
            arm=_arms(contactors, thickness, meet, len(x)),
        ),
        Laws(meet=meet, number=law, mu=mu, e=e),
        _stops(scene, frames, geometry),
    )
    return model, start(x, q, v, len(model.laws.mu)), frames


def _laws(scene: Scene) -> tuple[Any, Any, Array, Array]:
    """Return which groups meet, the numbers of their laws, mu and e; each kind of stop is a group more, and a law.

    Its anchors have no shape to be found by: no two groups of stops meet, and only their law is read.
    """
    kinds = scene.stop_kinds()
    k, laws = len(scene.groups), len(scene.laws)
    meet = np.zeros((k + len(kinds), k + len(kinds)), dtype=bool)
    number = np.zeros(meet.shape, dtype=np.int64)
    for i, law in enumerate(scene.laws):
        one, other = scene.groups.index(law.one), scene.groups.index(law.other)
        meet[one, other] = meet[other, one] = True
        number[one, other] = number[other, one] = i
    for i in range(len(kinds)):
        number[k + i, k + i] = laws + i
    mu = [law.mu for law in scene.laws] + [mu for _, _, mu in kinds]
    e = [law.e for law in scene.laws] + [e for _, e, _ in kinds]
    return meet, number, np.array(mu or [0.0], dtype=float), np.array(e or [0.0], dtype=float)


def unlawful(scene: Scene, groups: int) -> Any:
    """Return (groups, groups) which pairs of groups have neither a law nor leave to touch without one."""
    pairs = np.zeros((groups, groups), dtype=bool)
    pairs[: len(scene.groups), : len(scene.groups)] = True
    for one, other in (*((law.one, law.other) for law in scene.laws), *scene.ignore):
        i, j = scene.groups.index(one), scene.groups.index(other)
        pairs[i, j] = pairs[j, i] = False
    return pairs


def _stops(scene: Scene, frames: Frames, geometry: Geometry) -> Stops:
    kinds, count = scene.stop_kinds(), len(scene.stops)
    number = {name: i for i, name in enumerate(scene.names())}
    point, axis, limits = np.zeros((count, 2, 3)), np.zeros((count, 3)), np.zeros((count, 2))
    owner, group = [geometry.body], [geometry.group]
    for k, stop in enumerate(scene.stops):
        ends = [number[stop.one], number[stop.other]]
        for side, at in enumerate((stop.at_one, stop.at_other)):
            i = ends[side]
            point[k, side] = frames.axes[i].T @ (np.asarray(at) - frames.centre[i])
        if stop.axis is not None:
            axis[k] = frames.axes[ends[0]].T @ np.asarray(stop.axis) / np.linalg.norm(stop.axis)
        limits[k] = [
            -math.inf if stop.shortest is None else stop.shortest,
            math.inf if stop.longest is None else stop.longest,
        ]
        owner.append(np.array(ends))
        group.append(np.full(2, len(scene.groups) + kinds.index((stop.name, stop.e, stop.mu))))
    return Stops(point, axis, limits, np.concatenate(owner), np.concatenate(group))


def _extents(contactors: list[Contactor], n: int) -> Array:
    """Return how far each body reaches from its centre of mass; half-spaces do not count."""
    extent = np.zeros(n)
    for contactor in contactors:
        if not isinstance(contactor.shape, HalfSpace):
            reach = float(np.linalg.norm(contactor.centre)) + reach_of(contactor.shape)
            extent[contactor.body] = max(extent[contactor.body], reach)
    return extent


def _strides(contactors: list[Contactor], thickness: dict[Shape, float], meet: Any, moves: Any) -> Array:
    """Return how far each body may move in a step: half the thickness of its thinnest part and of what it may meet.

    Half as far where that may come to meet it.
    """
    thinnest = np.full(len(meet), math.inf)
    for contactor in contactors:
        thinnest[contactor.group] = min(thinnest[contactor.group], thickness[contactor.shape])
    coming = np.zeros(len(meet), dtype=bool)
    for contactor in contactors:
        coming[contactor.group] |= moves[contactor.body]
    stride = np.full(len(moves), math.inf)
    for contactor in contactors:
        met = meet[contactor.group]
        if met.any():
            own = thickness[contactor.shape]
            both = np.where(coming[met], 0.5, 1.0) * (own + thinnest[met])
            stride[contactor.body] = min(stride[contactor.body], float(both.min()))
    return stride


def _arms(contactors: list[Contactor], thickness: dict[Shape, float], meet: Any, n: int) -> Array:
    """Return by how much turning about each axis moves the ends of a body beyond half their thickness.

    Only what may meet something counts, and nothing that is round about the axis.
    """
    arm = np.zeros((n, 3))
    for contactor in contactors:
        shape, centre = contactor.shape, np.asarray(contactor.centre)
        hull, R = hull_of(shape), rotation(contactor.turn)
        if not meet[contactor.group].any() or isinstance(shape, HalfSpace):
            continue
        if hull is not None:
            end = float(np.linalg.norm(centre + hull.vertices @ R.T, axis=1).max())
        else:
            end = float(np.linalg.norm(centre)) + reach_of(shape)
        about = np.full(3, end - thickness[shape])
        if not isinstance(shape, Box | Convex):
            along = np.eye(3) if isinstance(shape, Sphere) else np.outer(R[:, 2], R[:, 2])
            off = np.linalg.norm(centre) ** 2 - centre**2  # squared distance of the centre from each axis
            about[(np.diag(along) > 1.0 - 1e-9) & (off < 1e-12 * end * end)] = 0.0
        arm[contactor.body] = np.maximum(arm[contactor.body], about)
    return arm


def half_thickness(shape: Shape) -> float:
    """Return half the least width of a shape: nothing for the rim or wall of a hole, infinite for a half-space."""
    match shape:
        case Sphere(radius) | Capsule(radius, _):
            return radius
        case Cylinder(radius, length):
            return min(radius, 0.5 * length)
        case Box() | Convex():
            hull = hull_of(shape)
            assert hull is not None
            heights = hull.vertices @ hull.normals.T
            return 0.5 * float((heights.max(axis=0) - heights.min(axis=0)).min())
        case Ring() | Bore():
            return 0.0
        case HalfSpace():
            return math.inf


def start(x: Array, q: Array, v: Array, laws: int) -> State:
    """Return a state at the start: nothing touched, nothing lost."""
    return State(
        x,
        q,
        v,
        Impulses(_ints(1), _ints(0), _ints(0), _ints(0), np.zeros((0, 3))),
        Books(np.zeros((laws, 3)), np.zeros(2), _ints(2), np.zeros(2)),
    )


def room(model: Model, pairs: int, contacts: int) -> Scratch:
    """Make room for the steps: so many pairs, so many contacts."""
    n, responding = len(model.bodies.mass), int((model.bodies.number >= 0).sum())
    bodies, geometry, found = model.bodies, model.geometry, manifolds(contacts)
    solver, at = solve.workspace(responding, contacts), world(geometry)
    detection = Detection(at, broad.sweep(len(geometry.kind)), _ints(pairs, 2), narrow(geometry, at, found))
    detect = Address.of(
        kernels.detect,
        *(0, np.zeros((n, 3)), np.zeros((n, 4)), geometry, model.laws.meet, bodies.responds),
        *(model.stops, 0.0, detection, found),
    )
    return Scratch(
        motion=Motion(
            x=np.zeros((n, 3)),
            q=np.zeros((n, 4)),
            before=np.zeros((n, 6)),
            free=np.zeros((n, 6)),
            w=np.zeros((responding, 6)),
        ),
        islands=Islands(_ints(responding), *(np.zeros(responding) for _ in range(4))),
        detection=detection,
        found=found,
        active=Active(
            row=_ints(contacts),
            bodies=_ints(contacts, 2),
            law=_ints(contacts),
            row_a=_ints(contacts),
            row_b=_ints(contacts),
            G=np.zeros((contacts, 3, 12)),
            bias=np.zeros((contacts, 3)),
            mu=np.zeros(contacts),
            frame=np.zeros((contacts, 3, 3)),
            apart=np.zeros((contacts, 3)),
            r=np.zeros((contacts, 3)),
        ),
        solver=solver,
        detect=detect.compile(),
        solve=solve.address(solver),
    )


def grown(state: State, contacts: int) -> State:
    """Return the state with room for so many impulses."""
    held, *arrays = state.impulses
    return state._replace(impulses=Impulses(held, *(_longer(array, contacts) for array in arrays)))


def record(model: Model, steps: int, every: int, contacts: int) -> Record:
    """Make room for a record of so many steps, one instant of ``every`` and the last, and so many contacts in all."""
    n, laws, instants = len(model.bodies.mass), len(model.laws.mu), -(-steps // every) + 1
    return Record(
        Track(
            every=np.array([every]),
            x=np.zeros((instants, n, 3)),
            q=np.zeros((instants, n, 4)),
            v=np.zeros((instants, n, 6)),
            energy=np.zeros((instants, 2)),
            work=np.zeros((instants, laws, 3)),
            driver=np.zeros((instants, 2)),
        ),
        Steps(
            _ints(steps, solve.STRATEGY + 1),
            _ints(steps),
            _ints(steps),
            np.zeros(steps),
            np.full((steps, 2), -1),
        ),
        Listed(
            used=_ints(2),
            instant=_ints(contacts),
            bodies=_ints(contacts, 2),
            law=_ints(contacts),
            point=np.zeros((contacts, 3)),
            impulse=np.zeros((contacts, 3)),
            gap=np.zeros(contacts),
        ),
    )


def ended(record: Record, steps: int) -> Record:
    """Return the record of a run that ended after so many steps."""
    instants = -(-steps // int(record.track.every[0])) + 1
    every, *arrays = record.track
    return Record(
        Track(every, *(array[:instants] for array in arrays)),
        Steps._make(array[:steps] for array in record.steps),
        record.listed,
    )


def roomier(record: Record, contacts: int) -> Record:
    """Return the record with room for so many contacts."""
    used, *arrays = record.listed
    return record._replace(listed=Listed(used, *(_longer(array, contacts) for array in arrays)))


def _ints(*shape: int) -> Any:
    return np.zeros(shape, dtype=np.int64)


def _longer(array: Any, rows: int) -> Any:
    more = np.zeros((rows, *array.shape[1:]), dtype=array.dtype)
    more[: len(array)] = array
    return more
