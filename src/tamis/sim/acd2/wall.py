"""A wall of gabions from its packings to its signals."""

from __future__ import annotations

import itertools
import math

import numpy as np

from tamis.errors import SimulationError
from tamis.sim.acd2 import struck
from tamis.sim.acd2.drive import TOUCH
from tamis.sim.acd2.scene import GabionWall
from tamis.sim.acd2.stored import packed
from tamis.sim.acd2.striking import BOOKS, CLEAR, Built, Laws, Run, around, bodies, stand, start
from tamis.sim.common.rotations import hamilton, matrices, quaternion_of
from tamis.sim.common.shapes import Convex
from tamis.types import Array, Indices

SENSORS = ("f1", "f2", "f3", "f4")
QUARTERS = ("upper left", "upper right", "lower left", "lower right")  # seen from the front
NETS_AND_SAND = {
    "weight_energy": struck.WEIGHT,
    "sand_energy": struck.SAND,
    "net_energy": struck.NET,
    "sand_work": struck.BY_SAND,
    "net_work": struck.BY_NET,
}


def turns() -> Array:
    """Return the 24 rotations (24, 3, 3) of a cube."""
    found = []
    for order in itertools.permutations(range(3)):
        for signs in itertools.product((1.0, -1.0), repeat=3):
            R = np.zeros((3, 3))
            R[range(3), order] = signs
            if np.linalg.det(R) > 0:
                found.append(R)
    return np.array(found)


def build(scene: GabionWall) -> Built:
    """Lay gabions next to each other, each turned by one of the 24 rotations of a cube."""
    rng = np.random.default_rng(scene.seed)
    pitch, count = scene.side + scene.gap, scene.across * scene.high
    shapes, places, quaternions, boxes = [], [], [], []
    for number, (row, column) in enumerate(itertools.product(range(scene.high), range(scene.across))):
        own, x, q = packed(scene.packing(number % scene.packings))
        R = turns()[rng.integers(24)]
        middle = np.array([(column - 0.5 * (scene.across - 1)) * pitch, 0.0, (row + 0.5) * pitch])
        shapes += own
        places.append(x @ R.T + middle)
        quaternions.append(np.transpose(hamilton(quaternion_of(R), q.T)))
        boxes.append(middle)
    x, q, box = np.concatenate(places), np.concatenate(quaternions), np.array(boxes)
    gabion = np.repeat(np.arange(count), scene.grains)
    central = scene.across * ((scene.high - 1) // 2) + (scene.across - 1) // 2
    wide = 0.5 * scene.across * pitch
    planes = [  # the floor and both sides: a point and the normal
        ((0.0, 0.0, 0.0), (0.0, 0.0, 1.0)),
        ((-wide, 0.0, 0.0), (1.0, 0.0, 0.0)),
        ((wide, 0.0, 0.0), (-1.0, 0.0, 0.0)),
    ]
    grains = bodies(shapes, scene.density, scene.ball_mass, scene.ball_diameter, len(planes), inside=False)
    state = start(x, q, planes)
    sensor = sensors(scene, shapes, x, q, box, gabion, central)
    inside = np.flatnonzero(gabion == central)
    follow = [0]
    for wanted, among in (
        (box[central] + [0.0, 0.5 * scene.side, 0.0], inside[sensor[inside] >= 0]),
        (box[central] - [0.25 * scene.side, 0.0, 0.0], inside),
        (box[central] + [0.25 * scene.side, 0.0, 0.0], inside),
    ):
        follow.append(1 + int(among[np.linalg.norm(x[among] - wanted, axis=1).argmin()]))
    wall = around(grains, 1 + len(x), gabion, sensor, follow, box, scene.side)
    return Built(shapes, grains, wall, state)


def sensors(
    scene: GabionWall, shapes: list[Convex], x: Array, q: Array, box: Array, gabion: Indices, central: int
) -> Indices:
    """Return where the force of each grain's spring is added: -1 off the back, 0 to 3 the quarters of the central one.

    The back of a gabion of n grains are the n^(2/3) that reach farthest, as a cube of n cells has that many on a side.
    """
    reach = np.array(
        [
            (at + np.asarray(shape.points) @ R.T)[:, 1].max()
            for at, R, shape in zip(x, matrices(q), shapes, strict=True)
        ]
    )
    found = np.full(len(x), -1)
    behind = round(scene.grains ** (2.0 / 3.0))
    for g in range(len(box)):
        inside = np.flatnonzero(gabion == g)
        last = inside[np.argsort(reach[inside], kind="stable")[-behind:]]
        found[last] = 4
        if g == central:
            right, below = x[last, 0] > box[g, 0], x[last, 2] < box[g, 2]
            found[last] = right + 2 * below
    for number, name in enumerate(SENSORS):
        if not (found == number).any():
            raise SimulationError(
                f"sensor {name}: no grain of the back lies in the {QUARTERS[number]} quarter of the central gabion; "
                "take more grains, or another seed"
            )
    return found


def strike(scene: GabionWall, every: int = 0) -> Run:
    """Settle a wall and strike it; places are kept every so many steps, 0: at the end only."""
    laws = Laws(
        scene.k_n, scene.k_t, scene.mu, scene.gravity, scene.k_net, (scene.k_ww, scene.rebound), scene.dt,
        TOUCH * scene.volume ** (1.0 / 3.0), scene.tolerance, scene.sweeps,
    )  # fmt: skip
    run = Run(build(scene), laws, (scene.settling, scene.duration), len(scene.energies), every)
    run.settle()
    at = np.array([scene.hit_x, 0.0, 0.5 * scene.high * (scene.side + scene.gap) + scene.hit_z])
    for number, energy in enumerate(scene.energies):
        place = stand(run.corners(), at, 1, 1.0, 0.5 * scene.ball_diameter)
        run.strike(number, place, np.array([0.0, math.sqrt(2.0 * energy / scene.ball_mass), 0.0]))
    run.warn()
    return run


def simulate_wall(scene: GabionWall) -> dict[str, Array]:
    """Strike a wall and read its sensors."""
    run = strike(scene)
    signals, rates, each = run.signals, run.rates(), run.each
    books, force, back = (a[run.settled :] for a in (signals.books, signals.force, signals.back))
    speed = signals.v[run.settled :, 0, 1]

    def largest(signal: Array) -> Array:
        return np.asarray(signal.reshape(-1, each).max(axis=1))

    return {
        "t": scene.dt * np.arange(1, len(force) + 1),
        **{name: force[:, k] for k, name in enumerate(SENSORS)},
        "force": force.sum(axis=1),
        "a1": rates[:, 0, 1],
        "a2": rates[:, 1, 1],
        "a3": -rates[:, 2, 0],
        "a4": rates[:, 3, 0],
        "ball_speed": speed,
        "penetration": run.way()[:, 1] - CLEAR * scene.ball_diameter,
        "back": back[:, 0],
        "back_largest": back[:, 1],
        "contacts": signals.counts[run.settled :, 0],
        "sweeps": signals.counts[run.settled :, 1],
        "residual": signals.residual[run.settled :],
        "deepest": signals.overlap[run.settled :],
        **{name: books[:, column] for name, column in (BOOKS | NETS_AND_SAND).items()},
        "net_imbalance": run.imbalance(),
        "displacement": largest(back[:, 1]),
        "back_peak": largest(back[:, 0]),
        "back_left": back[each - 1 :: each, 0],
        "force_peak": largest(force.sum(axis=1)),
        "central_peak": largest(force[:, :4].sum(axis=1)),
        "ball_left": speed[each - 1 :: each],
        "closure": np.float64(run.closure()),
        "momentum_closure": np.float64(run.momentum_closure()),
        "x": run.state.x[1 : run.wall.moving],
        "q": run.state.q[1 : run.wall.moving],
        "box": run.wall.box,
    }
