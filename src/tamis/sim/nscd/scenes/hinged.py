"""Blocks that turn about bars through their holes: where the hinge lines stand, and the bodies and slings between them.

Hinge lines are vertical, one a hole, and stand at one distance from each other in plan; successive blocks share one.
Rows with an even number (the lowest is 0) have blocks between the lines 0-1, 2-3, ..., rows with an odd number between
1-2, 3-4, ... and a half-block at each end. Bars stand in each line, half in a block and half in the one above; the
lowest and the topmost have half a length. What holds a bar in a hole, and what ends of neighbours do when they meet,
is left to the figures by Gupta et al. (2023, 10.1016/j.engstruct.2023.116936), so both are choices here.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from tamis.errors import SimulationError
from tamis.sim.common.shapes import Bore, Box, Cylinder, Ring
from tamis.sim.nscd.scene import AxialStop, Body, Part, about
from tamis.types import Array

STEEL = 7850.0  # kg/m3
WALL = 0.008  # m, thickness of a tube
TOP_BAR = 1.0  # kg, of the bar in the topmost block, which only ends the chain: negligible beside a block
PLATE = 0.2  # m, depth of what has the flat face of an end; more than a block covers in a step
ENDS = ("end0", "end1")  # groups of flat faces, by row: only those of one row meet
FEET = tuple((math.cos(a), math.sin(a)) for a in (0.0, 2.0 * math.pi / 3.0, -2.0 * math.pi / 3.0))


@dataclass(frozen=True)
class Hinged:
    """A wall of blocks on hinge lines: its sizes in m and kg, and the choices that were made."""

    rows: int
    columns: int  # blocks of the lowest row; there are twice as many hinge lines
    pattern: str  # zigzag, or rows
    angle: float  # deg
    pitch: float  # between neighbouring hinge lines
    width: float  # of a block, twice the radius of its ends
    course: float  # height of a block
    mass: float  # of a block
    hole: float  # diameter
    tube: float  # diameter
    d_z: float
    v_p: float
    holes: str  # rings, faces, or bores
    ends: str  # round, or flat
    flat: float  # width of the flat faces
    gap: float  # between flat faces
    mu_bar: float

    def __post_init__(self) -> None:
        play = 0.5 * (self.hole - self.tube)
        free = self.pitch - self.width
        if play <= 0.0 or self.tube <= 2.0 * WALL:
            raise SimulationError(
                f"a bar of {self.tube:g} m does not fit into a hole of {self.hole:g} m; expected "
                f"{2 * WALL:g} < tube < hole"
            )
        if free <= 0.0:
            raise SimulationError(
                f"blocks {self.width:g} m wide on hinge lines {self.pitch:g} m apart overlap: their round ends need "
                "width < pitch"
            )
        gap = self.gap if self.ends == "flat" else free
        if play >= gap:
            raise SimulationError(
                f"the play of a bar in its hole, {play:g} m, is larger than the gap of {gap:g} m between neighbours: "
                "they would lean on each other and never on their bars; expected (hole - tube) / 2 < gap"
            )
        if self.ends == "flat" and self.gap > free + 1e-9:
            raise SimulationError(
                f"flat faces {self.gap:g} m apart lie inside the round ends, which are {free:g} m apart; expected at "
                f"most that gap, or round ends"
            )
        if self.ends == "flat" and self.flat > self.width:
            raise SimulationError(
                f"flat ends {self.flat:g} m wide stand out of blocks of {self.width:g} m; expected at most that"
            )
        if self.holes != "bores" and not self.d_z < 0.25 * self.course:
            raise SimulationError(
                f"rings {self.d_z:g} m from the faces and from the ends of the bars miss the bars, which reach "
                f"{0.5 * self.course:g} m into a block: hinge lines without a bar; expected d_z < "
                f"{0.25 * self.course:g} m"
            )
        if not self.v_p < 0.5 * self.course:
            raise SimulationError(
                f"slings with a play of {self.v_p:g} m let bars leave their blocks, into which they reach by "
                f"{0.5 * self.course:g} m: hinge lines without a bar; expected a smaller v_p"
            )

    @property
    def lines(self) -> int:
        """Number of hinge lines."""
        return 2 * self.columns

    @property
    def round_end(self) -> float:
        """Radius of the ends of a block."""
        return 0.5 * self.width

    @property
    def height(self) -> float:
        """Height of the wall."""
        return self.rows * self.course

    @property
    def length(self) -> float:
        """Length of the wall from edge to edge, along y: half-blocks end midway to the line they point to."""
        reach = [self.hinges[1:-1, 1] + side * self.round_end for side in (-1.0, 1.0)]
        if self.rows > 1:
            for line, beyond in ((1, 0), (-2, -1)):
                along = 0.5 * (self.hinges[beyond] - self.hinges[line])
                cut = (self.hinges[line] + along)[1]
                reach.append(cut + np.array([-1.0, 1.0]) * self.width * abs(along[0]) / self.pitch)
        return float(np.ptp(np.concatenate(reach)))

    @property
    def bars(self) -> tuple[tuple[float, float], ...]:
        """Heights of the lower and upper end of each bar of a hinge line."""
        cuts = [0.0, *((k + 0.5) * self.course for k in range(self.rows)), self.height]
        return tuple(pairwise(cuts))

    @cached_property
    def hinges(self) -> Array:
        """Return (lines + 2, 2): x and y of the hinge lines, with those that half-blocks point to at either end."""
        turn = math.radians(self.angle)
        ways = {"zigzag": (turn, -turn), "rows": (0.0, turn, 0.0, -turn)}[self.pattern]
        tilts = np.array([ways[k % len(ways)] for k in range(-1, self.lines)])
        steps = self.pitch * np.column_stack([np.sin(tilts), np.cos(tilts)])
        at = np.vstack([np.zeros(2), np.cumsum(steps, axis=0)])
        own = at[1:-1]
        placed: Array = at - 0.5 * (own.min(axis=0) + own.max(axis=0))
        return placed

    def hinge(self, line: int) -> Array:
        """Return x and y of a hinge line."""
        at: Array = self.hinges[line + 1]
        return at

    def block(self, row: int, line: int) -> tuple[str, float]:
        """Return the block of a row that a hinge line passes through, and where along its own x axis it does."""
        k = (line + row % 2) // 2
        half = row % 2 == 1 and line in (0, self.lines - 1)
        side = -0.5 if (line + row) % 2 == 0 else 0.5
        return f"r{row}_{k:02d}", 0.0 if half else side * self.pitch

    def blocks(self, broken: Collection[str] = ()) -> list[Body]:
        """Return the blocks, ``r<row>_<nn>`` from -y to +y, and the half-blocks, whose one hole is at their origin.

        Those that are broken keep their shape and hold no bar.
        """
        bodies = []
        for row in range(self.rows):
            for k, low in enumerate(range(-(row % 2), self.lines, 2)):
                one, other = self.hinge(low), self.hinge(low + 1)
                half = low < 0 or low + 1 == self.lines
                own = other if low < 0 else one if half else 0.5 * (one + other)
                along = (one - other if low < 0 else other - one) / self.pitch
                yaw = math.atan2(along[1], along[0])
                name = f"r{row}_{k:02d}"
                parts = [part for part in self._parts(half) if name not in broken or part.group != "ring"]
                if self.ends == "flat":
                    ends = (low + 1,) if low < 0 else (low,) if half else (low, low + 1)
                    parts += [face for line in ends for face in self._face(line, row, own, yaw)]
                bodies.append(
                    Body(
                        name,
                        parts,
                        mass=0.5 * self.mass if half else self.mass,
                        centre=self._centre(half),
                        inertia=self._inertia(half),
                        position=(float(own[0]), float(own[1]), (row + 0.5) * self.course),
                        orientation=about((0, 0, 1), math.degrees(yaw)),
                    )
                )
        return bodies

    def _parts(self, half: bool) -> list[Part]:
        """Return the shapes of a block, along x; a half-block has its one hinge line at the origin."""
        length = 0.5 * self.pitch if half else self.pitch
        parts = [
            Part(Box((length, self.width, self.course)), "core", (0.5 * length if half else 0.0, 0.0, 0.0))
        ]
        for x in (0.0,) if half else (-0.5 * self.pitch, 0.5 * self.pitch):
            parts.append(Part(Cylinder(self.round_end, self.course), "round", (x, 0.0, 0.0)))
            if self.holes == "bores":
                parts.append(Part(Bore(0.5 * self.hole, self.course), "ring", (x, 0.0, 0.0)))
                continue
            heights = (0.5 * self.course - self.d_z, self.d_z)[: 2 if self.holes == "rings" else 1]
            for z in heights:
                parts += [Part(Ring(0.5 * self.hole), "ring", (x, 0.0, side * z)) for side in (-1.0, 1.0)]
        return parts

    def _face(self, line: int, row: int, own: Array, yaw: float) -> list[Part]:
        """Return the flat face of the end at a hinge line, square to the line to its neighbour's; none at the edge."""
        other = line + 1 if (line + row) % 2 else line - 1
        if not 0 <= other < self.lines:
            return []
        way = self.hinge(other) - self.hinge(line)
        way = way / np.linalg.norm(way)
        far = 0.5 * (self.pitch - self.gap - PLATE)
        at = self.hinge(line) + far * way - own
        cos, sin = math.cos(yaw), math.sin(yaw)
        place = (float(cos * at[0] + sin * at[1]), float(cos * at[1] - sin * at[0]), 0.0)
        turn = math.degrees(math.atan2(way[1], way[0]) - yaw)
        group = ENDS[row % 2]
        return [Part(Box((PLATE, self.flat, self.course)), group, place, about((0, 0, 1), turn))]

    def _sections(self, half: bool) -> list[tuple[float, float, float, float]]:
        """Return area, centre along x, and second moments along x and y about it of the pieces of a block's plan."""
        length, r = 0.5 * self.pitch if half else self.pitch, self.round_end
        middle = 0.5 * length if half else 0.0
        pieces = [(length * self.width, middle, length**2 / 12.0, self.width**2 / 12.0)]
        off = 4.0 * r / (3.0 * math.pi)
        for x, side in ((0.0, -1.0),) if half else ((-0.5 * length, -1.0), (0.5 * length, 1.0)):
            pieces.append((0.5 * math.pi * r**2, x + side * off, 0.25 * r**2 - off**2, 0.25 * r**2))
        return pieces

    def _centre(self, half: bool) -> tuple[float, float, float]:
        """Return the centre of mass of a block: that of its rectangle and half-circles."""
        pieces = self._sections(half)
        return sum(a * x for a, x, *_ in pieces) / sum(a for a, *_ in pieces), 0.0, 0.0

    def _inertia(self, half: bool) -> Array:
        """Return the inertia of a block about its centre of mass."""
        pieces, mass = self._sections(half), 0.5 * self.mass if half else self.mass
        area, centre = sum(a for a, *_ in pieces), self._centre(half)[0]
        xx = sum(a * (own + (x - centre) ** 2) for a, x, own, _ in pieces) / area
        yy, zz = sum(a * own for a, _, _, own in pieces) / area, self.course**2 / 12.0
        return mass * np.diag([yy + zz, xx + zz, xx + yy])

    def columns_of_bars(self) -> list[Body]:
        """Return the bars, ``bar<line>_<k>`` from below."""
        outside, inside = 0.5 * self.tube, 0.5 * self.tube - WALL
        bodies = []
        for line in range(self.lines):
            x, y = self.hinge(line).tolist()
            for k, (low, high) in enumerate(self.bars):
                length = high - low
                mass = math.pi * (outside**2 - inside**2) * length * STEEL if k < self.rows else TOP_BAR
                across = mass * (3.0 * (outside**2 + inside**2) + length**2) / 12.0
                bodies.append(
                    Body(
                        f"bar{line:02d}_{k}",
                        [Part(Cylinder(outside, length), "bar")],
                        mass=mass,
                        inertia=np.diag([across, across, 0.5 * mass * (outside**2 + inside**2)]),
                        position=(x, y, 0.5 * (low + high)),
                    )
                )
        return bodies

    def slings(self, broken: Collection[str] = ()) -> list[AxialStop]:
        """Return the stops of each hinge line: lowest bar in its block, bars on bars and their feet, topmost block.

        A sling whose block is broken has lost that end.
        """
        up, top = (0.0, 0.0, 1.0), self.rows
        play = self.v_p / (top + 2.0)
        half = [0.5 * (high - low) for low, high in self.bars]
        stops = []
        for line in range(self.lines):
            bars = [f"bar{line:02d}_{k}" for k in range(top + 1)]
            block, x = self.block(0, line)
            at = ((x, 0.0, -0.5 * self.course), (0.0, 0.0, -half[0]))
            if block not in broken:
                stops.append(AxialStop(block, bars[0], *at, longest=play, axis=up, name="sling"))
            for k in range(top):
                at = ((0.0, 0.0, half[k]), (0.0, 0.0, -half[k + 1]))
                stops.append(AxialStop(bars[k], bars[k + 1], *at, longest=play, axis=up, name="sling"))
                for x, y in FEET:
                    foot = (0.5 * self.tube * x, 0.5 * self.tube * y)
                    at = ((*foot, half[k]), (*foot, -half[k + 1]))
                    stops.append(
                        AxialStop(
                            bars[k], bars[k + 1], *at, shortest=0.0, axis=up, mu=self.mu_bar, name="foot"
                        )
                    )
            block, x = self.block(top - 1, line)
            at = ((0.0, 0.0, half[top]), (x, 0.0, 0.5 * self.course))
            if block not in broken:
                stops.append(AxialStop(bars[top], block, *at, longest=play, axis=up, name="sling"))
        return stops
