"""What every scene of disks has in common: the ports of the contact law, recorded instants, replays."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tamis.errors import TamisWarning
from tamis.interfaces import Case, port
from tamis.replays import Replay, Shape
from tamis.sim.dem.disks import cells
from tamis.sim.dem.disks.checkpoint import Checkpoint
from tamis.sim.dem.disks.drive import Disks
from tamis.sim.dem.disks.laws import Kind, Law
from tamis.sim.dem.disks.scene import Scene
from tamis.types import Array

GRAVITY = 9.81
DRAG = 20.0  # 1/s, while grains settle
TOO_DEEP = 0.2  # overlap over distance: at 0.35 the nut was 15 mm lower than at 0.05, at 0.15 it was 5 mm
THROUGH = 0.5  # overlap over distance beyond which grains move through one another
_PIECE = 2000  # steps of settling between two looks at the clock
_STRETCH = 0.2  # s of a core, to foresee what a run will take
DENSE = 2.2  # contacts a grain, settled
_UPRIGHT = math.sqrt(0.5)  # a disk's own axis is turned from z to -y, the line of sight


def friction() -> Any:
    """Declare the coefficient of friction."""
    return port(0.1038, bounds=(0.0, 2.0), doc="coefficient of friction, of grains and walls")


def damping() -> Any:
    """Declare the damping."""
    return port(
        7.53e4,
        bounds=(0.0, 1e12),
        doc="normal damping of the calibration, a steel sphere of 44.5 mm on a wall: F_n = k_n xi^(3/2) + gamma "
        "xi^alpha dxi/dt; its unit, N s/m^(1+alpha), changes with alpha, so none is given",
    )


def exponent() -> Any:
    """Declare the exponent of the damping."""
    return port(
        0.460,
        bounds=(0.0, 1.4),
        doc="exponent of the damping: 0.25 is the law of Tsuji et al. (M1), 0.5 that of Kuwabara and Kono (M2), any "
        "other one M3",
    )


def tangential_stiffness() -> Any:
    """Declare the tangential stiffness."""
    return port(
        1.232e8,
        unit="N/m",
        bounds=(0.0, 1e13),
        doc="stiffness of the tangential spring of the calibration",
    )


def scaling() -> Any:
    """Declare how the law passes to other sizes."""
    return port(
        "restitution",
        choices=("restitution", "material", "literal"),
        doc="how gamma and k_t pass from the sphere of the calibration to other grains: same restitution at the same "
        "speed, same material at the same relative overlap, or unchanged numbers",
    )


def softening(default: float) -> Any:
    """Declare by how much the modulus is lowered."""
    return port(
        default,
        bounds=(1.0, 1e6),
        doc="factor by which Young's modulus is lowered so that steps may be longer, at the same restitution",
    )


def body() -> Any:
    """Declare what grains are."""
    return port(
        "sphere",
        choices=("sphere", "disk"),
        doc="masses and inertias of grains: spheres, or disks as thick as wide",
    )


def linear_stiffness() -> Any:
    """Declare the stiffness of the linear law."""
    return port(
        0.0,
        unit="N/m",
        bounds=(0.0, 1e13),
        doc="normal stiffness of the linear law F_n = k_n xi + gamma dxi/dt, for all pairs, divided by softening "
        "like the modulus; 0 takes the law of Hertz",
    )


def time_step() -> Any:
    """Declare the time step."""
    return port(
        0.0,
        unit="s",
        bounds=(0.0, 1.0),
        doc="time step, refused if it is too long; 0 takes the longest one: the least of a fiftieth of a contact, a "
        "twentieth of the tangential period and a fifth of the dashpot's time",
    )


def scheme() -> Any:
    """Declare the scheme in time."""
    return port(
        "leapfrog",
        choices=("leapfrog", "gear"),
        doc="scheme in time; gear is the third-order one of Hadjidoukas et al.",
    )


def seed() -> Any:
    """Declare the seed."""
    return port(0, bounds=(0, 2**63 - 1), doc="of the displacements that grains begin with")


class OfGrains(Case):
    """A case whose grains touch by one calibrated law; each declares these as inputs."""

    mu: float
    gamma: float
    alpha: float
    k_t: float
    k_n: float
    scaling: str
    softening: float
    body: str
    step: float
    scheme: str
    seed: int

    def law(self) -> Law:
        """Return the contact law."""
        how: Any = self.scaling
        return Law(self.mu, self.gamma, self.alpha, self.k_t, how, self.softening, k_n=self.k_n)

    def kind(self, radius: float) -> Kind:
        """Return grains of a size, of the material of the calibration."""
        body: Any = self.body
        return Kind(radius, body=body)

    @classmethod
    def warm(cls) -> None:
        """Compile the engine."""
        law = Law(0.1, 1e4, 0.3, 1e8)
        Disks(Scene(law, (Kind(0.01),), np.array([0]), np.zeros((1, 2)))).advance(1)


def foreseen(scene: Scene, span: float, dense: float = DENSE) -> float:
    """Return the CPU seconds that ``span`` seconds of a scene will take, from a short stretch of it.

    A contact costs as much as a grain without any, and large scenes have none yet after so short a time: they will have
    ``dense`` a grain. Give 0 for a scene whose stretch is like the rest of it.
    """
    disks = Disks(scene)
    steps, taken, spent = 1, 1, 0.0
    while spent < _STRETCH:
        start = time.process_time()
        disks.advance(steps)
        spent, taken = time.process_time() - start, steps
        steps *= 2
    contacts = len(disks.contacts()[0]) / len(scene.places)
    crowded = (1.0 + max(dense, contacts)) / (1.0 + contacts)
    return crowded * spent / taken * span / disks.h


def fitted(scene: Scene, span: float) -> tuple[Scene, int]:
    """Shorten the time step so that a whole number of them makes ``span``; return it with that number."""
    steps = math.ceil(span / scene.time_step() - 1e-9)
    return replace(scene, step=span / steps), steps


def settle(disks: Disks, seconds: float, checkpoint: Checkpoint, kept: dict[str, Any] | None) -> None:
    """Let grains come to rest, or go on with what was kept of that; the state is kept from time to time."""
    if kept is not None:
        disks.restore(kept)
    steps = math.ceil(seconds / disks.h)
    while disks.step < steps:
        disks.advance(min(_PIECE, steps - disks.step), DRAG)
        if checkpoint.due:
            checkpoint.keep({"settling": np.array(True), **disks.arrays()})


def overlaps(disks: Disks) -> str:
    """Say that grains overlapped by so much that they no longer behave like hard ones, if so."""
    deepest, law = disks.deepest, disks.scene.law
    if deepest <= TOO_DEEP:
        return ""
    # in impacts overlaps grow with the power 0.4 of softening, or 1/2
    less = law.softening * (0.5 * TOO_DEEP / deepest) ** (2.0 if law.linear else 2.5)
    advice = (
        f"; softening = {less:.2g} would keep them to {50 * TOO_DEEP:.0f} %"
        if less >= 1.0
        else "; take a stiffer law"
    )
    depth = f"grains overlapped by up to {100 * deepest:.0f} % of their distance, more than"
    if deepest > THROUGH:
        return f"{depth} half: they move through one another, and what comes out means nothing{advice}"
    return f"{depth} {100 * TOO_DEEP:.0f} %: they are too soft for how they move{advice}"


def warn_of_overlaps(disks: Disks) -> None:
    """Warn of overlaps that are too deep."""
    if said := overlaps(disks):
        warnings.warn(said, TamisWarning, stacklevel=2)


class Film:
    """Instants of disks to look at; the plane of the disks is drawn upright."""

    def __init__(self, disks: Disks, groups: Sequence[str]) -> None:
        self.disks, self.groups = disks, groups
        self.frames: list[tuple[float, Array, tuple[float, float, float]]] = []

    def take(self, t: float) -> None:
        """Keep this instant."""
        state = np.stack(
            [self.disks.column(name) for name in (cells.X, cells.Y, cells.ANGLE, cells.VX, cells.VY)], axis=1
        )
        self.frames.append((t, state, self.disks.container()))

    def replay(self) -> Replay:
        """Return what was kept: disks, then the walls that are still there."""
        scene = self.disks.scene
        shapes = [
            Shape("disk", (float(r),), group) for r, group in zip(scene.radii, self.groups, strict=True)
        ]
        for wall, shut in zip(scene.walls, self.disks.shut, strict=True):
            if not shut:
                continue
            ends = np.array([(wall.start[0], 0.0, wall.start[1]), (wall.end[0], 0.0, wall.end[1])])
            shapes.append(Shape("line", (), "walls", ends))
        poses = np.zeros((len(self.frames), len(shapes), 7))
        speed = np.full((len(self.frames), len(shapes)), np.nan)
        n = len(scene.radii)
        for frame, (_, state, (x, y, angle)) in enumerate(self.frames):
            half = 0.5 * state[:, 2]
            turned = _UPRIGHT * np.stack([np.cos(half), np.cos(half), np.sin(half), np.sin(half)])
            poses[frame, :n, 0], poses[frame, :n, 2] = state[:, 0], state[:, 1]
            poses[frame, :n, 3:] = (turned * np.array([1, 1, -1, 1])[:, None]).T
            poses[frame, n:, 0], poses[frame, n:, 2] = x, y
            poses[frame, n:, 3], poses[frame, n:, 5] = math.cos(0.5 * angle), -math.sin(0.5 * angle)
            speed[frame, :n] = np.hypot(state[:, 3], state[:, 4])
        times = np.array([t for t, _, _ in self.frames])
        return Replay(tuple(shapes), times, poses.astype(np.float32), {"speed [m/s]": speed})
