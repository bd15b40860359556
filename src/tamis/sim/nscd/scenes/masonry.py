"""Stones that stand by their weight: a block that rocks, an arch."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tamis.errors import SimulationError
from tamis.interfaces import port
from tamis.sim.common.shapes import Box, Convex
from tamis.sim.nscd.scene import Body, Law, Motion, Part, Scene, about
from tamis.sim.nscd.scenes.case import GROUND, Played, duration_input, friction_input, step_input


@dataclass(frozen=True)
class Rocking(Played):
    """A block on its corner, tilted by ``tilt`` degrees about the y axis and let go (Housner 1963), or upright.

    The ground may move along x with one full sine of acceleration, ``pulse`` at most, that begins at once.
    """

    width: float = port(0.5, unit="m", bounds=(1e-3, 100.0), doc="of the block")
    height: float = port(2.0, unit="m", bounds=(1e-3, 100.0), doc="of the block")
    tilt: float = port(5.0, unit="deg", bounds=(0.0, 45.0), doc="at the start; 0 is upright")
    pulse: float = port(
        0.0, unit="m/s2", bounds=(0.0, 1e3), doc="peak acceleration of the ground along x; 0 is none"
    )
    period: float = port(0.5, unit="s", bounds=(1e-3, 1e2), doc="of the pulse, one full sine")
    mu: float = friction_input(2.0)
    h: float = step_input()
    duration: float = duration_input(4.0)
    depth: ClassVar[float] = 0.5

    def scene(self) -> Scene:
        """Return the bodies and the laws between them."""
        angle, most = math.radians(self.tilt), math.atan2(self.width, self.height)
        if not 0.0 <= angle < most:
            raise SimulationError(
                f"the block rocks if tilted by 0 to {math.degrees(most):.3g} degrees; found {self.tilt:g}"
            )
        # the corner (width/2, -height/2) of the section rests at the origin
        x = -0.5 * self.width * math.cos(angle) + 0.5 * self.height * math.sin(angle)
        z = 0.5 * self.width * math.sin(angle) + 0.5 * self.height * math.cos(angle)
        block = Body(
            "block",
            [Part(Box((self.width, self.depth, self.height)))],
            density=2400.0,
            position=(x, 0.0, z),
            orientation=about((0, 1, 0), self.tilt),
        )
        return Scene([self._ground(), block], [Law("ground", "default", self.mu)])

    @property
    def slenderness(self) -> float:
        """Tilt in degrees beyond which it falls on ground at rest."""
        return math.degrees(math.atan2(self.width, self.height))

    def _ground(self) -> Body:
        """Return the ground, whose velocity is the integral of the pulse: zero again when it ends."""
        if self.pulse == 0.0:
            return GROUND
        t = self.period * np.linspace(0.0, 1.0, 2 + math.ceil(4 * self.period / self.h))
        turn = 2 * math.pi / self.period
        v = self.pulse / turn * (1.0 - np.cos(turn * t))
        v[-1] = 0.0
        motion = Motion(t.tolist(), np.column_stack([v, np.zeros((len(t), 2))]))
        return replace(GROUND, fixed=False, motion=motion)


@dataclass(frozen=True)
class Arch(Played):
    """A semicircular arch of equal voussoirs under its own weight, on two fixed springings.

    ``thickness`` is that over the mean radius. Voussoirs are numbered from the right springing (+x) to the left one.
    """

    thickness: float = port(0.115, bounds=(0.02, 0.5), doc="of the arch over its mean radius")
    voussoirs: int = port(27, bounds=(5, 201), doc="equal stones from springing to springing")
    mu: float = friction_input(1.5)
    h: float = step_input()
    duration: float = duration_input(2.0)
    tol: ClassVar[float] = 1e-6
    radius: ClassVar[float] = 1.0
    depth: ClassVar[float] = 0.5

    def scene(self) -> Scene:
        """Return the bodies and the laws between them."""
        inner, outer = self.radius * (1.0 - 0.5 * self.thickness), self.radius * (1.0 + 0.5 * self.thickness)
        bodies = []
        for i in range(self.voussoirs):
            ends = (math.pi * i / self.voussoirs, math.pi * (i + 1) / self.voussoirs)
            middle = 0.5 * (ends[0] + ends[1])
            at = np.array([self.radius * math.cos(middle), 0.0, self.radius * math.sin(middle)])
            corners = [
                (r * math.cos(angle) - at[0], y, r * math.sin(angle) - at[2])
                for angle in ends
                for r in (inner, outer)
                for y in (-0.5 * self.depth, 0.5 * self.depth)
            ]
            bodies.append(
                Body(
                    f"v{i:03d}",
                    [Part(Convex(tuple(corners)))],
                    density=2400.0,
                    position=(at[0], at[1], at[2]),
                )
            )
        low = 0.3 * self.radius
        for name, side in (("springing-right", 1.0), ("springing-left", -1.0)):
            block = Part(Box((4.0 * self.thickness * self.radius, 2.0 * self.depth, low)), group="ground")
            bodies.append(Body(name, [block], fixed=True, position=(side * self.radius, 0.0, -0.5 * low)))
        bodies.append(replace(GROUND, position=(0.0, 0.0, -low)))
        return Scene(bodies, [Law("ground", "default", self.mu), Law("default", "default", self.mu)])
