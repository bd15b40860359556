"""Scenes with known answers: the cases that the simulators run, which tests and benchmarks share.

A case declares its inputs, builds its scene and lets it go; its history is what a simulator reads its outputs from, and
what a replay shows.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from tamis.errors import SimulationError
from tamis.interfaces import Case, port
from tamis.replays import Replay
from tamis.sim.common.shapes import Box, Convex, HalfSpace, Sphere
from tamis.sim.nscd import drive
from tamis.sim.nscd.history import History
from tamis.sim.nscd.scene import Body, Law, Part, Scene, about, product
from tamis.types import Array

BALL = 0.1  # m, radius of the ball that bounces
GROUND = Body("ground", [Part(HalfSpace(), group="ground")], fixed=True)


def _step() -> Any:
    return port(1e-3, unit="s", bounds=(1e-6, 0.1), doc="time step")


def _duration(default: float) -> Any:
    return port(default, unit="s", bounds=(1e-3, 1e3), doc="time simulated")


def _friction(default: float, doc: str = "coefficient of friction") -> Any:
    return port(default, bounds=(0.0, 10.0), doc=doc)


def _restitution(default: float) -> Any:
    return port(default, bounds=(0.0, 1.0), doc="coefficient of restitution")


class Played(Case):
    """A scene that is let go for ``duration`` in steps of ``h``; each case declares both as its last inputs."""

    h: float
    duration: float
    tol: ClassVar[float] = 1e-8  # bound of the residual of the contact problem

    def scene(self) -> Scene:
        """Return the bodies, the laws between them and gravity."""
        raise NotImplementedError

    def history(self, record: float | None = None) -> History:
        """Let the scene go; instants are recorded at every step, or so far apart."""
        return drive.run(self.scene(), self.duration, h=self.h, tol=self.tol, record=record)

    def replay(self, fps: float) -> Replay:
        """Let the scene go once more and return it to look at."""
        return self.history(1.0 / fps).replay()


@dataclass(frozen=True)
class Slide(Played):
    """A flat block at rest on a plane that falls off by ``angle`` towards ``azimuth`` (degrees)."""

    angle: float = port(30.0, unit="deg", bounds=(0.0, 80.0), doc="of the plane with the horizontal")
    azimuth: float = port(
        0.0, unit="deg", bounds=(-360.0, 360.0), doc="direction in which the plane falls off"
    )
    mu: float = _friction(0.3)
    h: float = _step()
    duration: float = _duration(1.0)
    tol: ClassVar[float] = 1e-12
    side: ClassVar[float] = 0.4
    thickness: ClassVar[float] = 0.1

    def scene(self) -> Scene:
        """Return the bodies and the laws between them."""
        slope = product(about((0, 0, 1), self.azimuth), about((0, 1, 0), self.angle))
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

    e: float = _restitution(0.8)
    height: float = port(1.0, unit="m", bounds=(1e-3, 1e3), doc="of the ball's lowest point at the start")
    h: float = _step()
    duration: float = _duration(3.0)

    def scene(self) -> Scene:
        """Return the bodies and the laws between them."""
        ball = Body("ball", [Part(Sphere(BALL))], mass=1.0, position=(0.0, 0.0, self.height + BALL))
        return Scene([GROUND, ball], [Law("ground", "default", 0.0, self.e)])


@dataclass(frozen=True)
class Stack(Played):
    """Cubes one upon the other, touching; each is ``ratio`` times as heavy as the one below."""

    boxes: int = port(10, bounds=(1, 200), doc="cubes one upon the other")
    mu: float = _friction(0.5)
    e: float = _restitution(0.0)
    ratio: float = port(1.0, bounds=(0.1, 10.0), doc="mass of a cube over that of the one below")
    h: float = _step()
    duration: float = _duration(10.0)
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


@dataclass(frozen=True)
class Rocking(Played):
    """A block on its corner, tilted by ``tilt`` degrees about the y axis and let go (Housner 1963)."""

    width: float = port(0.5, unit="m", bounds=(1e-3, 100.0), doc="of the block")
    height: float = port(2.0, unit="m", bounds=(1e-3, 100.0), doc="of the block")
    tilt: float = port(5.0, unit="deg", bounds=(1e-3, 45.0), doc="at the start")
    mu: float = _friction(2.0)
    h: float = _step()
    duration: float = _duration(4.0)
    depth: ClassVar[float] = 0.5

    def scene(self) -> Scene:
        """Return the bodies and the laws between them."""
        angle, most = math.radians(self.tilt), math.atan2(self.width, self.height)
        if not 0.0 < angle < most:
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
        return Scene([GROUND, block], [Law("ground", "default", self.mu)])


@dataclass(frozen=True)
class Arch(Played):
    """A semicircular arch of equal voussoirs under its own weight, on two fixed springings.

    ``thickness`` is that over the mean radius. Voussoirs are numbered from the right springing (+x) to the left one.
    """

    thickness: float = port(0.115, bounds=(0.02, 0.5), doc="of the arch over its mean radius")
    voussoirs: int = port(27, bounds=(5, 201), doc="equal stones from springing to springing")
    mu: float = _friction(1.5)
    h: float = _step()
    duration: float = _duration(2.0)
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

    mu: float = _friction(0.4)
    e: float = _restitution(0.15)
    mu_ground: float = _friction(0.45, "coefficient of friction with the ground")
    mass: float = port(2600.0, unit="kg", bounds=(1.0, 1e6), doc="of the projectile")
    speed: float = port(20.0, unit="m/s", bounds=(0.0, 100.0), doc="of the projectile, along +y")
    height: float = port(1.7, unit="m", bounds=(0.56, 10.0), doc="of the projectile's centre")
    h: float = _step()
    duration: float = _duration(0.1)
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
