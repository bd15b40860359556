"""Walls that stop falling rocks."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

from tamis.interfaces import port
from tamis.sim.common.shapes import Box, Convex
from tamis.sim.nscd.scene import Body, Law, Part, Scene
from tamis.sim.nscd.scenes.case import (
    GROUND,
    Played,
    duration_input,
    friction_input,
    restitution_input,
    step_input,
)

BLOCK = (1.56, 0.76, 0.80)
PITCH = 1.565


def projectile_points(half: float = 0.55, cut: float = 0.30) -> tuple[tuple[float, float, float], ...]:
    """Return the 24 corners of a cube of side ``2 half`` whose corners are cut."""
    corners = {
        point
        for signs in itertools.product((-1.0, 1.0), repeat=3)
        for point in itertools.permutations((half * signs[0], half * signs[1], cut * signs[2]))
    }
    return tuple(sorted((a, b, c) for a, b, c in corners))


@dataclass(frozen=True)
class Wall(Played):
    """A dry wall of four rows of concrete blocks in running bond, struck in its middle by a heavy block.

    Rows 0 and 2 have ten blocks, rows 1 and 3 nine and a half-block (``h0``, ``h1``) at each end; blocks are named
    ``r<row>_b<index>`` from left (-x) to right. The projectile flies along +y and starts 53 mm from the face.
    """

    mu: float = friction_input(0.4)
    e: float = restitution_input(0.15)
    mu_ground: float = friction_input(0.45, "coefficient of friction with the ground")
    mass: float = port(2600.0, unit="kg", bounds=(1.0, 1e6), doc="of the projectile")
    speed: float = port(20.0, unit="m/s", bounds=(0.0, 100.0), doc="of the projectile, along +y")
    height: float = port(1.7, unit="m", bounds=(0.56, 10.0), doc="of the projectile's centre")
    h: float = step_input()
    duration: float = duration_input(0.1)
    tol: ClassVar[float] = 1e-6

    def scene(self) -> Scene:
        """Return the bodies and the laws between them."""
        length, thickness, course = BLOCK
        bodies = [GROUND]
        for row in range(4):
            z = (row + 0.5) * course
            count = 10 - row % 2
            for i in range(count):
                x = (i - 0.5 * (count - 1)) * PITCH
                bodies.append(
                    Body(f"r{row}_b{i}", [Part(Box(BLOCK), group="block")], mass=1800.0, position=(x, 0.0, z))
                )
            if row % 2:
                for i, side in enumerate((-1.0, 1.0)):
                    x = side * (4.0 * PITCH + 0.5 * length + (PITCH - length) + 0.25 * length)
                    half = Part(Box((0.5 * length, thickness, course)), group="block")
                    bodies.append(Body(f"r{row}_h{i}", [half], mass=900.0, position=(x, 0.0, z)))
        bodies.append(
            Body(
                "projectile",
                [Part(Convex(projectile_points()), group="projectile")],
                mass=self.mass,
                position=(0.0, -(0.5 * thickness + 0.053 + 0.55), self.height),
                velocity=(0.0, self.speed, 0.0),
            )
        )
        return Scene(
            bodies,
            [
                Law("block", "block", self.mu, self.e),
                Law("block", "ground", self.mu_ground, self.e),
                Law("block", "projectile", self.mu, self.e),
                Law("ground", "projectile", self.mu_ground, self.e),
            ],
        )
