"""What a scene looks like: its shapes and its stops, each with its place at every instant.

A cable is two straight halves of its true length that meet where a slack one would sag to; a stop along an axis that
can pull is a line in each of its bodies, along the axis to the anchor.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tamis.replays import Shape
from tamis.sim.common.rotations import hamilton, matrices, rotation
from tamis.sim.common.shapes import Bore, Box, Capsule, Convex, Cylinder, HalfSpace, Ring, Sphere, hull_of
from tamis.sim.nscd.scene import AxialStop, Part, Scene
from tamis.types import Array

Poses = Sequence[tuple[Array, Array]]


def drawn_scene(
    scene: Scene, poses: Poses
) -> tuple[tuple[Shape, ...], NDArray[np.float32], NDArray[np.int64]]:
    """Return the shapes, their poses (t, shapes, 7) and the numbers of their bodies, from the frames of the bodies."""
    shapes, places, owners = [], [], []
    for i, body in enumerate(scene.bodies):
        at, turn = poses[i]
        for part in body.parts:
            for shape, z in _drawn(part):
                centre = np.asarray(part.centre) + z * rotation(part.turn)[:, 2]
                shapes.append(shape)
                places.append(_placed(at, turn, centre, part.turn))
                owners.append(i)
    number = {name: i for i, name in enumerate(scene.names())}
    for stop in scene.stops:
        ends = number[stop.one], number[stop.other]
        if stop.longest is None and stop.axis is not None:
            continue  # it only pushes: there is nothing to see between the bodies
        lines = _cable(scene, stop, poses, ends) if stop.axis is None else _arms(stop, poses, ends)
        for shape, place, owner in lines:
            shapes.append(shape)
            places.append(place)
            owners.append(owner)
    return tuple(shapes), np.stack(places, axis=1).astype(np.float32), np.array(owners)


def _placed(at: Array, turn: Array, centre: Array, own: Sequence[float]) -> Array:
    """Return (t, 7): the pose of what lies at a place of a body."""
    quaternion = np.column_stack(hamilton(turn.T, own))
    quaternion /= np.linalg.norm(quaternion, axis=1)[:, None]
    return np.hstack([at + matrices(turn) @ centre, quaternion])


def _drawn(part: Part) -> list[tuple[Shape, float]]:
    """Return what is drawn of a part, and where along its z axis."""
    if isinstance(part.shape, Bore):
        half = 0.5 * part.shape.length
        return [(Shape("ring", (part.shape.radius,), part.group), z) for z in (-half, half)]
    return [(_solid(part.shape, part.group), 0.0)]


def _solid(shape: Sphere | Box | Cylinder | Capsule | Convex | HalfSpace | Ring, group: str) -> Shape:
    match shape:
        case Sphere(radius):
            return Shape("sphere", (radius,), group)
        case Box(sides):
            return Shape("box", sides, group)
        case Cylinder(radius, length):
            return Shape("cylinder", (radius, length), group)
        case Capsule(radius, length):
            return Shape("capsule", (radius, length), group)
        case HalfSpace():
            return Shape("halfspace", (), group)
        case Ring(radius):
            return Shape("ring", (radius,), group)
        case Convex():
            hull = hull_of(shape)
            assert hull is not None
            return Shape("convex", (), group, hull.vertices, hull.loops)


def _line(start: Array, end: Array, name: str) -> Shape:
    return Shape("line", (), name, np.array([start, end]))


def _arms(stop: AxialStop, poses: Poses, ends: tuple[int, int]) -> list[tuple[Shape, Array, int]]:
    """Return the line to its anchor in each body, along the axis from where it is nearest to the body's origin."""
    space = rotation(poses[ends[0]][1][0]) @ (np.asarray(stop.axis) / np.linalg.norm(np.asarray(stop.axis)))
    lines = []
    for i, anchor in zip(ends, (stop.at_one, stop.at_other), strict=True):
        axis, end = rotation(poses[i][1][0]).T @ space, np.asarray(anchor)
        start = end - (end @ axis) * axis
        if np.linalg.norm(end - start) > 0.0:
            lines.append((_line(start, end, stop.name), np.hstack(poses[i]), i))
    return lines


def _cable(
    scene: Scene, stop: AxialStop, poses: Poses, ends: tuple[int, int]
) -> list[tuple[Shape, Array, int]]:
    """Return the two halves of a cable, which sags in the direction of gravity as far as its length allows."""
    length = stop.longest if stop.longest is not None else stop.shortest
    assert length is not None
    half = 0.5 * length
    start, end = (
        poses[i][0] + matrices(poses[i][1]) @ np.asarray(anchor)
        for i, anchor in zip(ends, (stop.at_one, stop.at_other), strict=True)
    )
    line = end - start
    down = np.asarray(scene.gravity) if any(scene.gravity) else np.array([0.0, 0.0, -1.0])
    square = np.maximum(np.einsum("ti,ti->t", line, line), 1e-300)[:, None]
    across = down - np.einsum("ti,i->t", line, down)[:, None] / square * line
    steep = np.linalg.norm(across, axis=1) < 1e-9 * np.linalg.norm(down)  # it hangs straight down: aside
    across[steep] = np.cross(line, [1.0, 0.0, 0.0])[steep] + 1e-300
    across /= np.linalg.norm(across, axis=1)[:, None]
    knee = 0.5 * (start + end) + np.sqrt(np.maximum(half**2 - 0.25 * square, 0.0)) * across
    shape = _line(np.zeros(3), np.array([0.0, 0.0, half]), stop.name)
    return [
        (shape, np.hstack([anchor, _towards(knee - anchor)]), i)
        for i, anchor in zip(ends, (start, end), strict=True)
    ]


def _towards(ways: Array) -> Array:
    """Return (t, 4) quaternions that turn the z axis to directions."""
    unit = ways / np.maximum(np.linalg.norm(ways, axis=1), 1e-300)[:, None]
    found = np.column_stack([1.0 + unit[:, 2], -unit[:, 1], unit[:, 0], np.zeros(len(unit))])
    found[unit[:, 2] < -1.0 + 1e-12] = (0.0, 1.0, 0.0, 0.0)  # straight down
    return np.asarray(found / np.linalg.norm(found, axis=1)[:, None])
