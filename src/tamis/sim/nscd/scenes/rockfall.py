"""Walls that stop falling rocks: one of dry blocks, and one of blocks joined by bars through rings.

The articulated wall is that of Gupta et al. (2023, 10.1016/j.engstruct.2023.116936), whose text leaves some of the
geometry to its figures; `ArticulatedWall` says which reading of it is built.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tamis.interfaces import port
from tamis.sim.common.shapes import Bore, Box, Convex, Cylinder, Ring
from tamis.sim.nscd.drive import Rest
from tamis.sim.nscd.scene import AxialStop, Body, Law, Part, Scene, Triple, about
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


def _corners(sides: Triple) -> tuple[Triple, ...]:
    """Return the points whose coordinates are these lengths, in any order and of any sign."""
    found = {
        (x * a, y * b, z * c)
        for x, y, z in itertools.product((-1.0, 1.0), repeat=3)
        for a, b, c in itertools.permutations(sides)
    }
    return tuple(sorted(found))


def projectile_points(half: float = 0.55, cut: float = 0.30) -> tuple[Triple, ...]:
    """Return the 24 corners of a cube of side ``2 half`` whose corners are cut."""
    return _corners((half, half, cut))


def rock_points(half: float = 0.55, cut: float = 0.30) -> tuple[Triple, ...]:
    """Return the 24 corners of a cube of side ``2 half`` with its edges and corners cut: 1.002 m3 as it stands."""
    return _corners((half, cut, cut))


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


ROUND_END = 0.38  # m, radius of the ends of a block, half its width
HINGES = 0.80  # m between the hinge lines of a block
COURSE = 0.80  # m, height of a block
HOLE, TUBE, INSIDE = 0.077, 0.06985, 0.06185  # m, radii of the holes, and of the bars outside and inside
STEEL = 7850.0  # kg/m3
BARS = ((0.0, 0.4), (0.4, 1.2), (1.2, 2.0), (2.0, 2.8), (2.8, 3.2))  # m, ends of the bars of a hinge line
LINES = 20  # hinge lines
FEET = tuple(
    (TUBE * math.cos(a), TUBE * math.sin(a)) for a in (0.0, 2.0 * math.pi / 3.0, -2.0 * math.pi / 3.0)
)


@dataclass(frozen=True)
class ArticulatedWall(Played):
    """A wall of four rows of concrete blocks that turn about bars through their round ends, struck by a rock.

    Hinge lines follow a zigzag along y, ``angle`` degrees from it on either side. Rows 0 and 2 have ten blocks between
    the hinge lines 0-1, 2-3, ..., rows 1 and 3 nine between 1-2, 3-4, ... and a half-block at each end: ``r<row>_<nn>``
    from -y to +y. Each hinge line carries five bars, ``bar<nn>_<k>`` from below, half in a block and half in the one
    above. Rings hold them, ``d_z`` from the face of the block and ``d_z`` from the end of the bar, or the whole wall of
    the hole. The sling through the bars ends in the lowest and in the topmost block; its vertical play ``v_p`` is
    shared by six axial stops: one where bar meets bar and one at each end. A bar stands on the one below with three
    feet: on a point, five bars would be a column that falls over within its play, tenfold further every 0.14 s. The
    rock flies along +x.
    """

    d_z: float = port(
        0.068, unit="m", bounds=(0.01, 0.19), doc="of the rings from block faces and ends of bars"
    )
    v_p: float = port(0.071, unit="m", bounds=(1e-4, 0.3), doc="vertical play of the slings of a hinge line")
    mu_cc: float = friction_input(0.316, "friction of concrete on concrete")
    mu_cs: float = friction_input(0.307, "friction of concrete on the ground")
    e: float = restitution_input(0.222)
    speed: float = port(20.0, unit="m/s", bounds=(0.0, 100.0), doc="of the rock, along +x")
    mass: float = port(2600.0, unit="kg", bounds=(1.0, 1e6), doc="of the rock")
    height: float = port(1.7, unit="m", bounds=(0.56, 10.0), doc="of the rock's centre")
    angle: float = port(22.5, unit="deg", bounds=(0.0, 60.0), doc="of the blocks with the axis of the wall")
    holes: str = port(
        "rings", choices=("rings", "bores"), doc="what holds the bars: rings, or the wall of the hole"
    )
    h: float = step_input()
    duration: float = duration_input(1.0)
    tol: ClassVar[float] = 1e-6
    still: ClassVar[Rest | None] = Rest(0.1, 0.1)  # from there friction lets a block slide 2 mm further
    mu_bar: ClassVar[float] = 0.2
    clear: ClassVar[float] = 0.053  # m between the rock and the wall at the start

    def scene(self) -> Scene:
        """Return the bodies and the laws between them."""
        return Scene(
            [GROUND, *self._blocks(), *self._bars(), self._rock()],
            [
                Law("round", "round", self.mu_cc, self.e),
                Law("round", "ground", self.mu_cs, self.e),
                Law("round", "rock", self.mu_cc, self.e),
                Law("core", "rock", self.mu_cc, self.e),
                Law("ground", "rock", self.mu_cs, self.e),
                Law("bar", "ground", self.mu_bar),
                Law("bar", "ring", self.mu_bar),
            ],
            stops=self._slings(),
            ignore=[
                *(("core", other) for other in ("core", "round", "ground", "bar", "ring")),
                *(("bar", other) for other in ("bar", "round", "rock")),
                *(("ring", other) for other in ("ring", "round", "rock", "ground")),
            ],
        )

    def hinge(self, line: int) -> tuple[float, float]:
        """Return x and y of a hinge line."""
        tilt = math.radians(self.angle)
        side = 1.0 if line % 2 else -1.0
        return 0.5 * HINGES * math.sin(tilt) * side, (line - 0.5 * (LINES - 1)) * HINGES * math.cos(tilt)

    def _blocks(self) -> list[Body]:
        bodies = []
        for row in range(4):
            first = row % 2
            for k, low in enumerate(range(-first, LINES, 2)):
                ends = np.array([self.hinge(low), self.hinge(low + 1)])
                half = low < 0 or low + 1 == LINES
                own = ends[1] if low < 0 else ends[0] if half else ends.mean(axis=0)
                along = (ends[0] - ends[1] if low < 0 else ends[1] - ends[0]) / HINGES
                bodies.append(
                    Body(
                        f"r{row}_{k:02d}",
                        self._parts(half),
                        mass=900.0 if half else 1800.0,
                        position=(float(own[0]), float(own[1]), (row + 0.5) * COURSE),
                        orientation=about((0, 0, 1), math.degrees(math.atan2(along[1], along[0]))),
                    )
                )
        return bodies

    def _parts(self, half: bool) -> list[Part]:
        """Return the shapes of a block, along x; a half-block has its one hinge line at the origin."""
        width, length = 2.0 * ROUND_END, 0.5 * HINGES if half else HINGES
        parts = [Part(Box((length, width, COURSE)), "core", (0.5 * length if half else 0.0, 0.0, 0.0))]
        for x in (0.0,) if half else (-0.5 * HINGES, 0.5 * HINGES):
            parts.append(Part(Cylinder(ROUND_END, COURSE), "round", (x, 0.0, 0.0)))
            if self.holes == "bores":
                parts.append(Part(Bore(HOLE, COURSE), "ring", (x, 0.0, 0.0)))
                continue
            for z in (0.5 * COURSE - self.d_z, self.d_z):
                parts += [Part(Ring(HOLE), "ring", (x, 0.0, side * z)) for side in (-1.0, 1.0)]
        return parts

    def _bars(self) -> list[Body]:
        bodies = []
        for line in range(LINES):
            x, y = self.hinge(line)
            for k, (low, high) in enumerate(BARS):
                length = high - low
                mass = math.pi * (TUBE**2 - INSIDE**2) * length * STEEL if k < 4 else 1.0
                across = mass * (3 * (TUBE**2 + INSIDE**2) + length**2) / 12.0
                bodies.append(
                    Body(
                        f"bar{line:02d}_{k}",
                        [Part(Cylinder(TUBE, length), "bar")],
                        mass=mass,
                        inertia=np.diag([across, across, 0.5 * mass * (TUBE**2 + INSIDE**2)]),
                        position=(x, y, 0.5 * (low + high)),
                    )
                )
        return bodies

    def _slings(self) -> list[AxialStop]:
        """Return the stops of each hinge line: lowest bar in its block, bars on bars and their feet, topmost block."""
        up, play, top = (0.0, 0.0, 1.0), self.v_p / 6.0, len(BARS) - 1
        half = [0.5 * (high - low) for low, high in BARS]
        stops = []
        for line in range(LINES):
            bars = [f"bar{line:02d}_{k}" for k in range(len(BARS))]
            block, x = self.block(0, line)
            at = ((x, 0.0, -0.5 * COURSE), (0.0, 0.0, -half[0]))
            stops.append(AxialStop(block, bars[0], *at, longest=play, axis=up, name="sling"))
            for k in range(top):
                at = ((0.0, 0.0, half[k]), (0.0, 0.0, -half[k + 1]))
                stops.append(AxialStop(bars[k], bars[k + 1], *at, longest=play, axis=up, name="sling"))
                for x, y in FEET:
                    at = ((x, y, half[k]), (x, y, -half[k + 1]))
                    stops.append(
                        AxialStop(
                            bars[k], bars[k + 1], *at, shortest=0.0, axis=up, mu=self.mu_bar, name="foot"
                        )
                    )
            block, x = self.block(3, line)
            at = ((0.0, 0.0, half[top]), (x, 0.0, 0.5 * COURSE))
            stops.append(AxialStop(bars[top], block, *at, longest=play, axis=up, name="sling"))
        return stops

    def block(self, row: int, line: int) -> tuple[str, float]:
        """Return the block of a row that a hinge line passes through, and where along its own x axis it does."""
        k = (line + row % 2) // 2
        half = row % 2 == 1 and line in (0, LINES - 1)
        side = -0.5 if (line + row) % 2 == 0 else 0.5
        return f"r{row}_{k:02d}", 0.0 if half else side * HINGES

    def _rock(self) -> Body:
        face = -(0.5 * HINGES * math.sin(math.radians(self.angle)) + ROUND_END)
        return Body(
            "rock",
            [Part(Convex(rock_points()), "rock")],
            mass=self.mass,
            position=(face - self.clear - 0.55, 0.0, self.height),
            velocity=(self.speed, 0.0, 0.0),
        )
