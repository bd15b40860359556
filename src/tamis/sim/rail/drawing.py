"""What a train on its track looks like, seen from a place that runs along with it at its speed.

Irregularities are millimetres and cars are metres: all displacements and turns from the perfect line are drawn twenty
times as large as they are. Rails are short pieces, each where the rails are at that place at that instant.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from tamis.replays import Replay, Shape
from tamis.sim.rail.drive import travel
from tamis.sim.rail.kernels import BODIES
from tamis.sim.rail.scene import Vehicle
from tamis.types import Array

_ENLARGED = 20.0
_PIECE = 1.5  # m, of rail
_WHEEL_WIDTH = 0.13


def _pose(base: tuple[float, float, float], moved: Array, turned: Array, own: Array | None = None) -> Array:
    """Return (T, 7): a place and small turns, drawn as large as they are to be; ``own`` turns the shape before."""
    vector = 0.5 * _ENLARGED * turned
    quaternion = np.column_stack([np.ones(len(vector)), vector])
    quaternion /= np.linalg.norm(quaternion, axis=1)[:, None]
    if own is not None:
        w, x = quaternion[:, 0], quaternion[:, 1:]
        quaternion = np.column_stack(
            [w * own[0] - x @ own[1:], np.outer(w, own[1:]) + own[0] * x + np.cross(x, own[1:])]
        )
    return np.hstack([np.asarray(base) + _ENLARGED * moved, quaternion])


def replay(case: Vehicle, fps: float) -> Replay:
    """Return the train and the rails beneath it at about ``fps`` instants a second."""
    train, journey, _ = travel(case)
    every = max(1, round(case.rate / fps))
    rows = np.unique(np.append(np.arange(0, len(journey.t), every), len(journey.t) - 1))
    states, zero = journey.states[rows], np.zeros(len(rows))
    car, spline = train.car, CubicSpline(journey.line.s, journey.line.signals)
    s = journey.start + case.speed * journey.t[rows]
    shapes: list[Shape] = []
    poses: list[Array] = []
    loads: list[Array] = []
    aside = np.array(
        [math.cos(0.25 * math.pi), math.sin(0.25 * math.pi), 0.0, 0.0]
    )  # a cylinder's axis along y

    def add(shape: Shape, pose: Array, load: Array | None = None) -> None:
        shapes.append(shape)
        poses.append(pose)
        loads.append(np.full(len(rows), np.nan) if load is None else load)

    for c in range(case.cars):
        q = states[:, c * BODIES : (c + 1) * BODIES]
        centre = -float(train.lead[4 * c]) - car.pivot - car.axle
        for group, o, x, z, size in (
            ("car", 0, centre, car.car_height + 0.5, (2.0 * car.end - 1.0, 2.8, 2.4)),
            ("bogie", 5, centre + car.pivot, car.bogie_height, (3.4, 2.2, 0.25)),
            ("bogie", 10, centre - car.pivot, car.bogie_height, (3.4, 2.2, 0.25)),
        ):
            moved = np.column_stack([zero, q[:, o], q[:, o + 1]])
            add(Shape("box", size, group), _pose((x, 0.0, z), moved, q[:, o + 2 : o + 5]))
        for j in range(4):
            at = 4 * c + j
            rails = spline(s - train.lead[at])
            turned = np.column_stack([rails[:, 3] / (2.0 * car.contact_side), zero, q[:, 16 + 2 * j]])
            moved = np.column_stack([zero, q[:, 15 + 2 * j], rails[:, 2]])
            for k, side in enumerate((1.0, -1.0)):
                arm = side * car.contact_side
                # a wheel is on the axle: it goes along with the turns of its wheelset
                along = moved + np.column_stack([-arm * turned[:, 2], zero, arm * turned[:, 0]])
                pose = _pose((-float(train.lead[at]), arm, car.radius), along, turned, aside)
                add(Shape("cylinder", (car.radius, _WHEEL_WIDTH), "wheels"), pose, journey.loads[rows, at, k])
    back = float(train.lead[-1]) + 3.0
    for x in np.arange(-back, 3.0, _PIECE):
        rails = spline(np.clip(s + x, 0.0, journey.line.s[-1]))
        for side in (1.0, -1.0):
            moved = np.column_stack(
                [zero, rails[:, 0] + 0.5 * side * rails[:, 1], rails[:, 2] + 0.5 * side * rails[:, 3]]
            )
            pose = _pose((float(x), side * car.contact_side, -0.08), moved, np.zeros((len(rows), 3)))
            add(Shape("box", (_PIECE, 0.07, 0.16), "rails"), pose)
    field: NDArray[np.float64] = np.column_stack(loads)
    return Replay(
        tuple(shapes), journey.t[rows], np.stack(poses, axis=1), {"wheel load [N]": field}, _ENLARGED
    )
