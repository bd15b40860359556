"""Grains that are poured into a box."""

from __future__ import annotations

import itertools
import math

import numpy as np

from tamis.sim.common.shapes import Convex, HalfSpace
from tamis.sim.nscd.scene import Body, Law, Part, Scene, about
from tamis.sim.nscd.scenes.case import GROUND
from tamis.types import Array


def pour(*, grains: int, seed: int = 0, radius: float = 0.05, mu: float = 0.5, e: float = 0.0) -> Scene:
    """Twelve-faced grains of irregular shape above an open box, let fall.

    The grains are dodecahedra stretched at random, on a loose grid a few grains wide; the box is as wide as the grid.
    """
    rng = np.random.default_rng(seed)
    across = max(3, round((grains / 2.5) ** (1.0 / 3.0)))
    pitch = 2.3 * radius
    width = across * pitch
    kinds = [_grain(rng, radius) for _ in range(16)]
    bodies = []
    for i in range(grains):
        layer, place = divmod(i, across * across)
        row, column = divmod(place, across)
        x = (column + 0.5) * pitch - 0.5 * width
        y = (row + 0.5) * pitch - 0.5 * width
        turn = rng.normal(size=4)
        w, a, b, c = (turn / np.linalg.norm(turn)).tolist()
        bodies.append(
            Body(
                f"grain{i:06d}",
                [Part(kinds[int(rng.integers(len(kinds)))])],
                density=2600.0,
                position=(x, y, (layer + 0.5) * pitch + 0.02 * radius),
                orientation=(w, a, b, c),
                velocity=(0.0, 0.0, -1.0),
            )
        )
    bodies.append(GROUND)
    for name, axis, degrees, at in (
        ("wall-east", (0, 1, 0), -90.0, (0.5 * width, 0.0, 0.0)),
        ("wall-west", (0, 1, 0), 90.0, (-0.5 * width, 0.0, 0.0)),
        ("wall-north", (1, 0, 0), 90.0, (0.0, 0.5 * width, 0.0)),
        ("wall-south", (1, 0, 0), -90.0, (0.0, -0.5 * width, 0.0)),
    ):
        side = Part(HalfSpace(), group="ground")
        bodies.append(Body(name, [side], fixed=True, orientation=about(axis, degrees), position=at))
    return Scene(bodies, [Law("ground", "default", mu, e), Law("default", "default", mu, e)])


def _grain(rng: np.random.Generator, radius: float) -> Convex:
    """A regular dodecahedron stretched by up to 15 % along its axes, within ``radius``."""
    golden = 0.5 * (1.0 + math.sqrt(5.0))
    corners = [np.array(c) for c in itertools.product((-1.0, 1.0), repeat=3)]
    for s, t in itertools.product((-1.0, 1.0), repeat=2):
        corners += [np.roll(np.array([0.0, s / golden, t * golden]), k) for k in range(3)]
    points: Array = np.array(corners) * rng.uniform(0.85, 1.0, 3)
    points *= radius / np.linalg.norm(points, axis=1).max()
    return Convex(tuple((x, y, z) for x, y, z in points.tolist()))
