"""Random scenes: a handful of bodies of all kinds, thrown above the ground so that they do not overlap."""

import numpy as np

from tamis.sim.common.shapes import Box, Capsule, Convex, Cylinder, Sphere
from tamis.sim.nscd.scene import Body, Law, Part, Scene
from tamis.sim.nscd.scenes.case import GROUND


def shape(rng):
    a, b, c = rng.uniform(0.05, 0.15, 3).tolist()
    kind = rng.integers(5)
    if kind == 0:
        return Sphere(a)
    if kind == 1:
        return Box((a, b, c))
    if kind == 2:
        return Capsule(0.5 * a, b)
    if kind == 3:
        return Cylinder(a, b)
    points = rng.normal(size=(12, 3))
    return Convex(tuple(map(tuple, (0.15 * points / np.linalg.norm(points, axis=1)[:, None]).tolist())))


def thrown(rng, laws, count=6):
    """Return a scene of ``count`` bodies on a small grid, with random places, velocities and spins."""
    bodies = [GROUND]
    for i in range(count):
        at = 0.36 * np.array([i % 2, i // 2 % 2, 0.55 + i // 4]) + rng.uniform(-0.015, 0.015, 3)
        turn = rng.normal(size=4)
        bodies.append(
            Body(
                f"body{i}",
                [Part(shape(rng))],
                density=float(rng.uniform(500.0, 5000.0)),
                position=tuple(at),
                orientation=tuple(turn / np.linalg.norm(turn)),
                velocity=tuple(rng.normal(scale=1.0, size=3)),
                spin=tuple(rng.normal(scale=5.0, size=3)),
            )
        )
    return Scene(bodies, [Law("ground", "default", *laws[0]), Law("default", "default", *laws[1])])
