"""Scenes with known answers, shared by the simulators, the tests and the benchmarks."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np

from tamis.errors import SimulationError
from tamis.sim.common.shapes import Box, Convex, HalfSpace, Sphere
from tamis.sim.nscd.scene import Body, Law, Part, Scene, about, product
from tamis.types import Array

BALL = 0.1  # m, radius of the ball that bounces
GROUND = Body("ground", [Part(HalfSpace(), group="ground")], fixed=True)


def slide(*, angle: float, azimuth: float, mu: float, side: float = 0.4, height: float = 0.1) -> Scene:
    """A flat block at rest on a plane that falls off by ``angle`` towards ``azimuth`` (degrees)."""
    slope = product(about((0, 0, 1), azimuth), about((0, 1, 0), angle))
    tilt, turn = math.radians(angle), math.radians(azimuth)
    normal = np.array([math.sin(tilt) * math.cos(turn), math.sin(tilt) * math.sin(turn), math.cos(tilt)])
    x, y, z = (0.5 * height * normal).tolist()
    return Scene(
        [
            Body("plane", [Part(HalfSpace(), group="ground")], fixed=True, orientation=slope),
            Body(
                "block", [Part(Box((side, side, height)))], mass=10.0, position=(x, y, z), orientation=slope
            ),
        ],
        [Law("ground", "default", mu)],
    )


def bounce(*, e: float, height: float = 1.0) -> Scene:
    """A ball let go with its lowest point at ``height`` above the ground."""
    ball = Body("ball", [Part(Sphere(BALL))], mass=1.0, position=(0.0, 0.0, height + BALL))
    return Scene([GROUND, ball], [Law("ground", "default", 0.0, e)])


def stack(
    *, boxes: int = 10, side: float = 0.5, mu: float = 0.5, e: float = 0.0, ratio: float = 1.0
) -> Scene:
    """Cubes one upon the other, touching; each is ``ratio`` times as heavy as the one below."""
    cubes = [
        Body(
            f"box{i:03d}",
            [Part(Box((side,) * 3))],
            mass=100.0 * ratio**i,
            position=(0.0, 0.0, (i + 0.5) * side),
        )
        for i in range(boxes)
    ]
    laws = [Law("ground", "default", mu, e), Law("default", "default", mu, e)]
    return Scene([GROUND, *cubes], laws)


def rocking(*, width: float, height: float, tilt: float, mu: float = 2.0, depth: float = 0.5) -> Scene:
    """A block on its corner, tilted by ``tilt`` degrees about the y axis and let go (Housner 1963)."""
    angle = math.radians(tilt)
    if not 0.0 < angle < math.atan2(width, height):
        raise SimulationError(
            f"the block rocks if tilted by 0 to {math.degrees(math.atan2(width, height)):.3g} degrees; found {tilt:g}"
        )
    # the corner (width/2, -height/2) of the section rests at the origin
    x = -0.5 * width * math.cos(angle) + 0.5 * height * math.sin(angle)
    z = 0.5 * width * math.sin(angle) + 0.5 * height * math.cos(angle)
    block = Body(
        "block",
        [Part(Box((width, depth, height)))],
        density=2400.0,
        position=(x, 0.0, z),
        orientation=about((0, 1, 0), tilt),
    )
    return Scene([GROUND, block], [Law("ground", "default", mu)])


def arch(
    *, thickness: float, voussoirs: int = 27, radius: float = 1.0, mu: float = 1.5, depth: float = 0.5
) -> Scene:
    """A semicircular arch of equal voussoirs under its own weight, on two fixed springings.

    ``thickness`` is that over the mean radius. Voussoirs are numbered from the right springing (+x) to the left one.
    """
    inner, outer = radius * (1.0 - 0.5 * thickness), radius * (1.0 + 0.5 * thickness)
    bodies = []
    for i in range(voussoirs):
        ends = (math.pi * i / voussoirs, math.pi * (i + 1) / voussoirs)
        middle = 0.5 * (ends[0] + ends[1])
        at = np.array([radius * math.cos(middle), 0.0, radius * math.sin(middle)])
        corners = [
            (r * math.cos(angle) - at[0], y, r * math.sin(angle) - at[2])
            for angle in ends
            for r in (inner, outer)
            for y in (-0.5 * depth, 0.5 * depth)
        ]
        bodies.append(
            Body(f"v{i:03d}", [Part(Convex(tuple(corners)))], density=2400.0, position=(at[0], at[1], at[2]))
        )
    low = 0.3 * radius
    for name, side in (("springing-right", 1.0), ("springing-left", -1.0)):
        block = Part(Box((4.0 * thickness * radius, 2.0 * depth, low)), group="ground")
        bodies.append(Body(name, [block], fixed=True, position=(side * radius, 0.0, -0.5 * low)))
    bodies.append(replace(GROUND, position=(0.0, 0.0, -low)))
    return Scene(bodies, [Law("ground", "default", mu), Law("default", "default", mu)])


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


def wall(
    *,
    mu: float = 0.4,
    e: float = 0.15,
    mu_ground: float = 0.45,
    mass: float = 2600.0,
    speed: float = 20.0,
    height: float = 1.7,
) -> Scene:
    """A dry wall of four rows of concrete blocks in running bond, struck in its middle by a heavy block.

    Rows 0 and 2 have ten blocks, rows 1 and 3 nine and a half-block (``h0``, ``h1``) at each end; blocks are named
    ``r<row>_b<index>`` from left (-x) to right. The projectile flies along +y and starts 53 mm from the face.
    """
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
            mass=mass,
            position=(0.0, -(0.5 * thickness + 0.053 + 0.55), height),
            velocity=(0.0, speed, 0.0),
        )
    )
    return Scene(
        bodies,
        [
            Law("block", "block", mu, e),
            Law("block", "ground", mu_ground, e),
            Law("block", "projectile", mu, e),
            Law("ground", "projectile", mu_ground, e),
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
