"""What a person describes: grains of a few kinds, walls that move together, a law, gravity."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.errors import StudyError
from tamis.sim.dem.disks.laws import Kind, Law, known_name, only_positive
from tamis.types import Array

Numbers = NDArray[np.integer[Any]]
SCHEMES = ("leapfrog", "gear")


@dataclass(frozen=True)
class Wall:
    """A straight wall between two points of the container's own axes, smooth and as hard as its kind."""

    start: tuple[float, float]
    end: tuple[float, float]
    shut: bool = True


@dataclass(frozen=True)
class Sine:
    """A coordinate of the container: ``rate t + amplitude sin(frequency t + phase)``."""

    rate: float = 0.0
    amplitude: float = 0.0
    frequency: float = 0.0
    phase: float = 0.0


@dataclass(frozen=True)
class Scene:
    """Grains in or on a container.

    Parameters
    ----------
    law
        The contact law, for all pairs.
    kinds
        Sizes and materials of grains.
    kind, places
        (n,) and (n, 2): which kind each grain is, and where.
    velocities
        (n, 3): velocity and spin at the start; at rest by default. Fixed grains keep it.
    walls, wall
        Walls, and what they are made of.
    centre, motion
        Where the container's axes begin, and how its centre (x, y) and its angle move.
    gravity
        (2,), in m/s^2.
    domain
        x from, to, y from, to: a grain that leaves it is counted and simulated no more.
    speed
        At which grains may meet, in m/s: the time step depends on it, by its fifth root.
    step
        Time step, in s; 0 takes the longest that the law allows.
    scheme
        ``leapfrog`` or ``gear``.
    """

    law: Law
    kinds: tuple[Kind, ...]
    kind: Numbers
    places: Array
    velocities: Array | None = None
    walls: tuple[Wall, ...] = ()
    wall: Kind = field(default_factory=lambda: Kind(math.inf))
    centre: tuple[float, float] = (0.0, 0.0)
    motion: tuple[Sine, Sine, Sine] = (Sine(), Sine(), Sine())
    gravity: tuple[float, float] = (0.0, -9.81)
    domain: tuple[float, float, float, float] = (-math.inf, math.inf, -math.inf, math.inf)
    speed: float = 1.0
    step: float = 0.0
    scheme: str = "leapfrog"

    @property
    def radii(self) -> Array:
        """Radius of each grain."""
        return np.array([kind.radius for kind in self.kinds])[self.kind]

    def time_step(self) -> float:
        """Return the time step: the longest that is sound, or the one given if it is no longer."""
        only_positive(self, "scene", "speed")
        everything = (*self.kinds, self.wall) if self.walls else self.kinds
        longest = self.law.longest_step(everything, self.speed)
        if not 0.0 <= self.step < math.inf:
            raise StudyError(f"a time step must be positive, or 0 to have it chosen, found {self.step:g} s")
        if self.step > longest:
            # rounded down, so that what is advised is accepted
            digits = 10.0 ** (2 - math.floor(math.log10(longest)))
            raise StudyError(
                f"time step {self.step:g} s is too long for these grains: at most "
                f"{math.floor(longest * digits) / digits:.3g} s (a fiftieth of the "
                "shortest contact, a twentieth of the tangential period, a fifth of the dashpot's time); give that, "
                "or 0 to have it chosen"
            )
        return self.step or longest

    def check(self) -> None:
        """Refuse what is nowhere, of no kind or outside the domain; overlaps are seen when grains are listed."""
        known_name("scheme", self.scheme, SCHEMES)
        n, kind = len(self.places), np.asarray(self.kind)
        for what, shape, wanted in (
            ("places", np.shape(self.places), (n, 2)),
            ("kind", kind.shape, (n,)),
            ("velocities", np.shape(self.velocities) if self.velocities is not None else (n, 3), (n, 3)),
        ):
            if shape != wanted:
                raise StudyError(f"expected {what} of shape {wanted} for {n} grains, found {shape}")
        if n and kind.dtype.kind not in "iu":
            raise StudyError(f"kinds are whole numbers, found them as {kind.dtype}")
        if n and not (kind.min() >= 0 and kind.max() < len(self.kinds)):
            raise StudyError(
                f"kinds are numbered 0 to {len(self.kinds) - 1}, found {kind.min()} to {kind.max()}"
            )
        if self.velocities is not None and not np.isfinite(self.velocities).all():
            i = int(np.argwhere(~np.isfinite(self.velocities))[0, 0])
            raise StudyError(f"grain {i} has the velocity {np.asarray(self.velocities)[i].tolist()}")
        if not np.isfinite(self.places).all():
            i = int(np.argwhere(~np.isfinite(self.places))[0, 0])
            raise StudyError(f"grain {i} is nowhere: its place is {np.asarray(self.places)[i].tolist()}")
        if len(self.places) == 0:
            raise StudyError("expected at least one grain, found none")
        if any(math.isinf(kind.radius) for kind in self.kinds) or not math.isinf(self.wall.radius):
            raise StudyError("grains have a finite radius, and what walls are made of an infinite one")
        for i, wall in enumerate(self.walls):
            if wall.start == wall.end or not np.isfinite([wall.start, wall.end]).all():
                raise StudyError(f"wall {i} has no length: it goes from {wall.start} to {wall.end}")
        sines = [number for sine in self.motion for number in vars(sine).values()]
        if not np.isfinite([*self.gravity, *self.centre, *sines]).all():
            raise StudyError(
                f"gravity, centre and motion must be numbers, found {self.gravity}, {self.centre} and {self.motion}"
            )
        left, right, low, high = self.domain
        x, y = np.asarray(self.places).T
        outside = ~((left <= x) & (x <= right) & (low <= y) & (y <= high))
        if outside.any():
            i = int(np.flatnonzero(outside)[0])
            raise StudyError(f"grain {i} at ({x[i]:g}, {y[i]:g}) m is outside the domain {self.domain}")
