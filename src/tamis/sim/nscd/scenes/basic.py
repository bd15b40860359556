"""One block that slides, one ball that bounces, cubes one upon the other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tamis.interfaces import port
from tamis.sim.common.rotations import hamilton
from tamis.sim.common.shapes import Box, HalfSpace, Sphere
from tamis.sim.nscd.scene import Body, Law, Part, Scene, about
from tamis.sim.nscd.scenes.case import (
    GROUND,
    Played,
    duration_input,
    friction_input,
    restitution_input,
    step_input,
)

BALL = 0.1  # m, radius of the ball that bounces


@dataclass(frozen=True)
class Slide(Played):
    """A flat block at rest on a plane that falls off by ``angle`` towards ``azimuth`` (degrees)."""

    angle: float = port(30.0, unit="deg", bounds=(0.0, 80.0), doc="of the plane with the horizontal")
    azimuth: float = port(
        0.0, unit="deg", bounds=(-360.0, 360.0), doc="direction in which the plane falls off"
    )
    mu: float = friction_input(0.3)
    h: float = step_input()
    duration: float = duration_input(1.0)
    tol: ClassVar[float] = 1e-12
    side: ClassVar[float] = 0.4
    thickness: ClassVar[float] = 0.1

    def scene(self) -> Scene:
        """Return the bodies and the laws between them."""
        slope = hamilton(about((0, 0, 1), self.azimuth), about((0, 1, 0), self.angle))
        tilt, turn = math.radians(self.angle), math.radians(self.azimuth)
        normal = np.array([math.sin(tilt) * math.cos(turn), math.sin(tilt) * math.sin(turn), math.cos(tilt)])
        x, y, z = (0.5 * self.thickness * normal).tolist()
        return Scene(
            [
                Body("plane", [Part(HalfSpace(), group="ground")], fixed=True, orientation=slope),
                Body(
                    "block",
                    [Part(Box((self.side, self.side, self.thickness)))],
                    mass=10.0,
                    position=(x, y, z),
                    orientation=slope,
                ),
            ],
            [Law("ground", "default", self.mu)],
        )


@dataclass(frozen=True)
class Bounce(Played):
    """A ball let go with its lowest point at ``height`` above the ground."""

    e: float = restitution_input(0.8)
    height: float = port(1.0, unit="m", bounds=(1e-3, 1e3), doc="of the ball's lowest point at the start")
    h: float = step_input()
    duration: float = duration_input(3.0)

    def scene(self) -> Scene:
        """Return the bodies and the laws between them."""
        ball = Body("ball", [Part(Sphere(BALL))], mass=1.0, position=(0.0, 0.0, self.height + BALL))
        return Scene([GROUND, ball], [Law("ground", "default", 0.0, self.e)])


@dataclass(frozen=True)
class Stack(Played):
    """Cubes one upon the other, touching; each is ``ratio`` times as heavy as the one below."""

    boxes: int = port(10, bounds=(1, 200), doc="cubes one upon the other")
    mu: float = friction_input(0.5)
    e: float = restitution_input(0.0)
    ratio: float = port(1.0, bounds=(0.1, 10.0), doc="mass of a cube over that of the one below")
    h: float = step_input()
    duration: float = duration_input(10.0)
    side: ClassVar[float] = 0.5

    def scene(self) -> Scene:
        """Return the bodies and the laws between them."""
        cubes = [
            Body(
                f"box{i:03d}",
                [Part(Box((self.side,) * 3))],
                mass=100.0 * self.ratio**i,
                position=(0.0, 0.0, (i + 0.5) * self.side),
            )
            for i in range(self.boxes)
        ]
        laws = [Law("ground", "default", self.mu, self.e), Law("default", "default", self.mu, self.e)]
        return Scene([GROUND, *cubes], laws)
