"""A layer of grains from a loose lattice to rest, and its impact."""

from __future__ import annotations

import math

import numpy as np

from tamis.errors import StudyError
from tamis.sim.acd2.drive import TOUCH
from tamis.sim.acd2.packing import read_vertices, scatter
from tamis.sim.acd2.scene import Layer
from tamis.sim.acd2.striking import BOOKS, CLEAR, Built, Laws, Run, around, bodies, stand, start
from tamis.sim.common.shapes import reach_of
from tamis.types import Array


def build(scene: Layer) -> Built:
    """Lay grains on a jittered lattice as wide as the pit."""
    rng = np.random.default_rng(scene.seed)
    mean = np.array([scene.a, scene.b, scene.c, scene.d])
    shapes = scatter(scene.grains, mean, scene.dispersion, scene.volume, rng, read_vertices(scene.vertices))
    reach = np.array([reach_of(shape) for shape in shapes])
    across = int(scene.width / (2.0 * reach.max()))
    if across < 2:
        raise StudyError(
            f"layer: a pit of {scene.width:g} m holds no two grains of {2 * reach.max():.3g} m side by side; "
            "take a wider pit or smaller grains"
        )
    pitch, low = scene.width / across, 2.0 * float(reach.max())
    number = np.arange(scene.grains)
    cells = np.stack([number % across, number // across % across, number // across**2], axis=1)
    x = (cells + 0.5) * [pitch, pitch, low] - [0.5 * scene.width, 0.5 * scene.width, 0.0]
    x += (0.5 * low - reach)[:, None] * rng.uniform(-1.0, 1.0, x.shape) / np.sqrt(3.0)
    falling = math.sqrt(2.0 * float(x[:, 2].max()) / scene.gravity)
    if scene.settling <= falling:
        raise StudyError(
            f"layer: the highest of its grains fall for {falling:.2g} s: let it settle for longer than that, found "
            f"{scene.settling:g} s"
        )
    q = rng.standard_normal((scene.grains, 4))
    half = 0.5 * scene.width
    planes = [((0.0, 0.0, 0.0), (0.0, 0.0, 1.0))]  # the floor, then the sides: a point and the normal
    for axis, sign in ((0, 1.0), (0, -1.0), (1, 1.0), (1, -1.0)):
        normal = tuple(sign * np.eye(3)[axis])
        planes.append(((-half * normal[0], -half * normal[1], 0.0), normal))
    grains = bodies(shapes, scene.density, scene.ball_mass, scene.ball_diameter, len(planes), inside=True)
    none = np.full(scene.grains, -1)
    wall = around(grains, 1 + scene.grains, none, none, [0], np.zeros((0, 3)), 1.0)
    state = start(x, q / np.linalg.norm(q, axis=1)[:, None], planes)
    state.x[0] = 0.0, 0.0, float(x[:, 2].max()) + 2.0 * scene.ball_diameter
    return Built(shapes, grains, wall, state)


def strike(scene: Layer, every: int = 0) -> Run:
    """Let the grains come to rest and drop the ball; places are kept every so many steps, 0: at the end only."""
    touch = TOUCH * scene.volume ** (1.0 / 3.0)
    laws = Laws(
        scene.k_n,
        scene.k_t,
        scene.mu,
        scene.gravity,
        0.0,
        (0.0, 1.0),
        scene.dt,
        touch,
        scene.tolerance,
        scene.sweeps,
    )
    run = Run(build(scene), laws, (scene.settling, scene.duration), 1, every)
    run.settle()
    run.wall.weighs[0] = 1.0  # that of the ball, from now on
    place = stand(run.corners(), np.zeros(3), 2, -1.0, 0.5 * scene.ball_diameter)
    run.strike(0, place, np.array([0.0, 0.0, -math.sqrt(2.0 * scene.energy / scene.ball_mass)]))
    run.warn()
    return run


def thickness_of(x: Array, width: float, size: float) -> float:
    """Return the height of a layer: the mean over columns a grain wide of their highest centre, and half a grain."""
    columns = max(1, int(width / (1.5 * size)))
    cell = np.clip(((x[:, :2] / width + 0.5) * columns).astype(int), 0, columns - 1) @ [columns, 1]
    top = np.full(columns**2, -np.inf)
    np.maximum.at(top, cell, x[:, 2])
    return float(top[np.isfinite(top)].mean()) + 0.5 * size


def simulate_layer(scene: Layer) -> dict[str, Array]:
    """Strike a layer and read the floor and the ball."""
    run = strike(scene)
    size = scene.volume ** (1.0 / 3.0)
    thickness = thickness_of(run.settled_at, scene.width, size)
    signals, first = run.signals, run.settled
    books, way = signals.books[first:], -run.way()[:, 2]
    found: dict[str, Array] = {
        "t": np.asarray(scene.dt * np.arange(1, len(way) + 1)),
        "floor": signals.planes[first:, 0, 2] / scene.dt,
        "ball_speed": -signals.v[first:, 0, 2],
        "a1": -run.rates()[:, 0, 2],
        "penetration": way - CLEAR * scene.ball_diameter,
        "contacts": signals.counts[first:, 0].astype(np.float64),
        "sweeps": signals.counts[first:, 1].astype(np.float64),
        "residual": signals.residual[first:],
        "deepest": signals.overlap[first:],
        **{name: books[:, column] for name, column in BOOKS.items()},
        "depth": np.asarray(way.max() - CLEAR * scene.ball_diameter),
        "thickness": np.asarray(thickness),
        "closure": np.asarray(run.closure()),
        "momentum_closure": np.asarray(run.momentum_closure()),
        "x": run.state.x[1 : run.wall.moving],
        "q": run.state.q[1 : run.wall.moving],
    }
    return found
