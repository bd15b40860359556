"""Walls that stop falling rocks: one of dry blocks, and one of blocks joined by bars through rings.

The articulated wall is that of Gupta et al. (2023, 10.1016/j.engstruct.2023.116936), whose text leaves some of the
geometry to its figures; `ArticulatedWall` says which reading of it is built.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from tamis.errors import SimulationError
from tamis.interfaces import port, ports_of
from tamis.replays import Replay
from tamis.sim.common.shapes import Box, Convex
from tamis.sim.nscd import drive
from tamis.sim.nscd.drive import Finer, Rest
from tamis.sim.nscd.scene import Body, Law, Part, Scene, Triple
from tamis.sim.nscd.scenes.case import (
    GROUND,
    Played,
    duration_input,
    friction_input,
    restitution_input,
    step_input,
)
from tamis.sim.nscd.scenes.hinged import ENDS, Hinged
from tamis.types import Array

BLOCK = (1.56, 0.76, 0.80)
PITCH = 1.565
BLOW = 0.01  # s, in which the rock gives two thirds of its momentum; a second blow follows 30 ms later
BLOWS = 0.06  # s, which both last: bars are driven through the rings' play of some millimetres
STILL = Rest(0.1, 0.1)  # of blocks: from there friction lets one slide 2 mm further
ROLLS = 4.0  # m/s, of the fastest point of a rock that rolls at 1.6 m/s: it may when the wall is at rest
SAME = 0.02  # of a speed: so far may a speed and an energy that are both given differ, as numbers rounded in a table do
_CUT = 0.30 / 0.55  # where the edges of the rock are cut, of half its side


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


@dataclass(frozen=True)
class ArticulatedWall(Played):
    """A wall of rows of concrete blocks that turn about bars through their ends, struck by a rock that flies along +x.

    The wall runs along y, with its middle at y = 0. Hinge lines follow a zigzag, ``angle`` degrees from y on either
    side, or rows 0 and 2 are straight and the blocks between them at the angle. Rings hold the bars, ``d_z`` from the
    face of the block and ``d_z`` from the end of the bar, or near the faces only, or the whole wall of the hole does.
    Ends of blocks are round about the holes, so that neighbours never meet, or have flat faces that do as they turn.
    The sling through the bars ends in the lowest and in the topmost block; its vertical play ``v_p`` is shared by
    axial stops: one where bar meets bar and one at each end. A bar stands on the one below with three feet: on a
    point, five bars would be a column that falls over within its play, tenfold further every 0.14 s.

    Pattern, ends and holes are not printed by Gupta et al. (2023); the defaults are *fitted* to what is
    (docs/theory/rockfall.md). The law of the rock on the ground, that of blocks there, is an addition.
    """

    d_z: float = port(
        0.068, unit="m", bounds=(0.01, 0.5), doc="of the rings from block faces and ends of bars"
    )
    v_p: float = port(0.071, unit="m", bounds=(1e-4, 1.0), doc="vertical play of the slings of a hinge line")
    mu_cc: float = friction_input(0.316, "friction of concrete on concrete")
    mu_cs: float = friction_input(0.307, "friction of concrete on the ground")
    e: float = restitution_input(0.222)
    speed: float = port(
        20.0,
        unit="m/s",
        bounds=(0.0, 100.0),
        doc="of the rock where it meets the wall, unless its energy is given",
    )
    energy: float = port(
        0.0,
        unit="J",
        bounds=(0.0, 1e8),
        doc="kinetic energy of the rock, instead of its speed, which is then left at its default or must agree; "
        "0: as its speed has it",
    )
    mass: float = port(2600.0, unit="kg", bounds=(1.0, 1e6), doc="of the rock")
    size: float = port(
        1.1, unit="m", bounds=(0.1, 5.0), doc="side of the rock, a cube with edges and corners cut"
    )
    height: float = port(
        1.7, unit="m", bounds=(0.05, 20.0), doc="of the rock's centre where it meets the wall"
    )
    impact: float = port(
        0.0, unit="m", bounds=(-50.0, 50.0), doc="where along the wall it hits, from the middle"
    )
    incidence: float = port(0.0, unit="deg", bounds=(-60.0, 80.0), doc="of its path, below the horizontal")
    clear: float = port(
        0.053,
        unit="m",
        bounds=(-5.0, 50.0),
        doc="between the rock and the wall at the start, on the parabola that brings it there; less for a slow rock",
    )
    rows: int = port(4, bounds=(1, 20), doc="of blocks")
    columns: int = port(
        10, bounds=(1, 50), doc="blocks of the lowest row; there are twice as many hinge lines"
    )
    pattern: str = port(
        "zigzag", choices=("zigzag", "rows"), doc="in plan: a zigzag, or every other row straight"
    )
    angle: float = port(22.5, unit="deg", bounds=(0.0, 60.0), doc="of the blocks with the axis of the wall")
    ends: str = port("flat", choices=("flat", "round"), doc="of the blocks where they face a neighbour")
    flat: float = port(0.76, unit="m", bounds=(0.02, 2.0), doc="width of flat ends")
    gap: float = port(0.04, unit="m", bounds=(0.0, 1.0), doc="between flat ends of neighbours")
    holes: str = port(
        "rings",
        choices=("rings", "faces", "bores"),
        doc="what holds the bars: rings near the faces and the ends of bars, near the faces only, or the whole hole",
    )
    pitch: float = port(0.80, unit="m", bounds=(0.1, 5.0), doc="between the hinge lines of a block")
    width: float = port(0.76, unit="m", bounds=(0.05, 5.0), doc="of a block, twice the radius of round ends")
    course: float = port(0.80, unit="m", bounds=(0.1, 5.0), doc="height of a block")
    block: float = port(
        1800.0, unit="kg", bounds=(1.0, 1e6), doc="mass of a block; half-blocks have half of it"
    )
    hole: float = port(0.154, unit="m", bounds=(0.02, 1.0), doc="diameter of the holes")
    tube: float = port(0.1397, unit="m", bounds=(0.02, 1.0), doc="diameter of the bars")
    strength: float = port(
        0.0, unit="N s", bounds=(0.0, 1e9), doc="impulse of the rock at which a block breaks; 0: none does"
    )
    mu_bar: float = friction_input(0.2, "friction of bars in holes, on the ground and on each other")
    distant: float = port(
        3.5,
        unit="m",
        bounds=(-50.0, 50.0),
        doc="along y from the impact to the axis of c and d; taken on the other side where the wall ends before",
    )
    h: float = step_input()
    parts: int = port(
        4,
        bounds=(1, 100),
        doc="in which steps are taken for 0.06 s from when the rock reaches the foremost face",
    )
    residual: float = port(1e-4, bounds=(1e-12, 0.1), doc="allowed in the contact problem of a step")
    duration: float = duration_input(3.0)

    @cached_property
    def plan(self) -> Hinged:
        """The wall without the rock."""
        same = {field.name: getattr(self, field.name) for field in fields(Hinged) if field.name != "mass"}
        return Hinged(**same, mass=self.block)

    @property
    def pace(self) -> float:
        """Speed of the rock, from its energy if that is given."""
        return math.sqrt(2.0 * self.energy / self.mass) if self.energy > 0.0 else self.speed

    def scene(self) -> Scene:
        """Return the bodies and the laws between them; blocks that the rock breaks hold no bar."""
        self._aim()
        return self._scene(self.broken)

    @cached_property
    def broken(self) -> tuple[str, ...]:
        """The blocks that take more than ``strength`` of the rock's impulse while it strikes.

        The first blow is over in a few steps, in which a wall that no bar held would move by centimetres: whoever
        breaks in it may as well be broken from the beginning. What the second blow would break is left whole.
        """
        if self.strength == 0.0 or self.pace == 0.0:
            return ()
        recess = float(
            np.ptp(self.plan.hinges[:, 0])
        )  # of the zigzag, which a narrow rock may have to cross first
        end = min(self._flight + recess / self.pace + BLOW, self.duration)
        history = drive.run(
            self._scene(()),
            end,
            h=min(self.h, end),
            tol=self.allowed,
            contacts=True,
            finer=Finer(end, self.parts),
        )
        touch = history.contacts
        rows, impulses = touch.of("rock")
        struck = [next(name for name in touch.bodies[row] if name != "rock") for row in rows]
        times = history.times[touch.instant[rows]]
        first = min((t for t, other in zip(times, struck, strict=True) if other != "ground"), default=0.0)
        taken: dict[str, Array] = {}
        for t, other, impulse in zip(times, struck, impulses, strict=True):
            if t <= first + BLOW:
                taken[other] = taken.get(other, np.zeros(3)) + impulse
        return tuple(
            sorted(
                name
                for name, total in taken.items()
                if name != "ground" and float(np.linalg.norm(total)) > self.strength
            )
        )

    def _scene(self, broken: Sequence[str]) -> Scene:
        plan = self.plan
        laws = [
            Law("round", "round", self.mu_cc, self.e),
            Law("round", "ground", self.mu_cs, self.e),
            Law("round", "rock", self.mu_cc, self.e),
            Law("core", "rock", self.mu_cc, self.e),
            Law("ground", "rock", self.mu_cs, self.e),
            Law("bar", "ground", self.mu_bar),
            Law("bar", "ring", self.mu_bar),
        ]
        ignore = [
            *(("core", other) for other in ("core", "round", "ground", "bar", "ring")),
            *(("bar", other) for other in ("bar", "round", "rock")),
            *(("ring", other) for other in ("ring", "round", "rock", "ground")),
        ]
        blocks = plan.blocks(broken)
        faces = sorted({part.group for block in blocks for part in block.parts if part.group in ENDS})
        for end in faces:
            laws.append(Law(end, end, self.mu_cc, self.e))
            ignore += [(end, other) for other in ("core", "round", "ground", "bar", "ring", "rock")]
        if len(faces) == len(ENDS):
            ignore.append(ENDS)
        return Scene(
            [GROUND, *blocks, *plan.columns_of_bars(), self._rock(plan)],
            laws,
            stops=plan.slings(broken),
            ignore=ignore,
        )

    @property
    def still(self) -> Rest:
        """When it may end: nothing moves; a rock that meets the wall below its crest may roll on, at half its speed."""
        below = self.height + 0.5 * self.size < self.plan.height
        return (
            replace(STILL, but=(("rock", max(STILL.speed, min(ROLLS, 0.5 * self.pace))),)) if below else STILL
        )

    @property
    def finer(self) -> Finer:
        """How long steps are taken in parts: while the rock strikes."""
        return Finer(self._flight + BLOWS, self.parts)

    @property
    def aside(self) -> float:
        """Where along y the distant axis is: ``distant`` from the impact, or as far on its other side if that ends."""
        ends = self.plan.hinges[1:-1, 1]
        for y in (self.impact + self.distant, self.impact - self.distant):
            if ends[0] <= y <= ends[-1]:
                return y
        raise SimulationError(
            f"the distant axis, {self.distant:g} m from an impact at {self.impact:g} m, is not on the wall, whose "
            f"outermost hinge lines are at {ends[0]:.3g} and {ends[-1]:.3g} m; give another `distant`"
        )

    def replay(self, fps: float) -> Replay:
        """Let the scene go once more and return it to look at; the parts of a block are one."""
        seen = super().replay(fps)
        blocks = dict.fromkeys(("core", "round", *ENDS), "blocks")
        shapes = (replace(shape, group=blocks.get(shape.group, shape.group)) for shape in seen.shapes)
        return replace(seen, shapes=tuple(shapes))

    @property
    def allowed(self) -> float:
        """Bound of the residual of the contact problem in a step."""
        return self.residual

    def _aim(self) -> None:
        """Refuse, before anything runs, a rock that passes beside the wall and a distant axis that is not on it."""
        edge = 0.5 * (self.plan.length + self.size)
        if abs(self.impact) > edge:
            raise SimulationError(
                f"a rock {self.impact:g} m from the middle passes beside the wall, which it meets within {edge:.3g} m"
            )
        given = self.speed != ports_of(type(self))["speed"].default  # a default cannot be told from one given
        if given and abs(self.speed - self.pace) > SAME * self.pace:
            raise SimulationError(
                f"energy = {self.energy:g} J is {self.pace:.4g} m/s of a rock of {self.mass:g} kg, and speed = "
                f"{self.speed:g} m/s is given with it; leave one of them out"
            )
        _ = self.aside

    @property
    def _flight(self) -> float:
        """Time from the start to the wall, in s; a rock without speed is let go before it."""
        return self.clear / self.pace if self.pace > 0.0 else 0.0

    def _rock(self, plan: Hinged) -> Body:
        """Return the rock, ``clear`` before the wall on the parabola that brings it there as asked."""
        dip, half = math.radians(self.incidence), 0.5 * self.size
        way, fall = np.array([math.cos(dip), 0.0, -math.sin(dip)]), np.array([0.0, 0.0, 9.81 * self._flight])
        face = float(plan.hinges[1:-1, 0].min()) - plan.round_end
        at = np.array([face - half, self.impact, self.height]) - self.clear * way - 0.5 * fall * self._flight
        if self.clear < 0.0:
            raise SimulationError(
                f"a rock {-self.clear:g} m beyond the foremost face starts inside the wall; expected clear >= 0"
            )
        if at[2] < half:
            raise SimulationError(self._buried(at[2], half, math.sin(dip)))
        return Body(
            "rock",
            [Part(Convex(rock_points(half, half * _CUT)), "rock")],
            mass=self.mass,
            position=tuple(at.tolist()),
            velocity=tuple((self.pace * way + fall).tolist()),
        )

    def _buried(self, z: float, half: float, dip: float) -> str:
        """Say why a rock starts in the ground, and from how near it would not: z + dip c - g (c/v)^2/2 = half."""
        start = f"a rock of {self.size:g} m whose centre starts {z:.3g} m above the ground lies in it"
        rise, v = self.height - half, self.pace
        if rise <= 0.0 or v == 0.0:
            return f"{start}; raise height, or lower size"
        nearest = 2.0 * rise / (math.sqrt(dip**2 + 2.0 * 9.81 * rise / v**2) - dip)
        digits = 10.0 ** (2 - math.floor(math.log10(nearest)))
        clear = math.floor(nearest * digits) / digits  # rounded down
        return (
            f"{start}: at {v:g} m/s it takes {self._flight:.3g} s over the last {self.clear:g} m, and falls by "
            f"{0.5 * 9.81 * self._flight**2:.3g} m; let it start nearer, clear = {clear:.3g}, or raise height"
        )
