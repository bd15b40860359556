"""The Brazil nut: a large disk among small ones in a box that is shaken (Hadjidoukas et al. 2014, section 5.2)."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tamis.errors import SimulationError, StudyError, TamisWarning
from tamis.interfaces import port
from tamis.replays import Replay
from tamis.sim.dem.disks import cases, cells
from tamis.sim.dem.disks.checkpoint import Checkpoint
from tamis.sim.dem.disks.drive import Disks
from tamis.sim.dem.disks.scene import Scene, Sine, Wall
from tamis.types import Array

NUT = 0  # number of the nut among the grains
LEVELS = np.linspace(0.02, 0.98, 49)  # fractions of time
HEIGHTS = np.linspace(0.03, 0.33, 31)  # m
_ROOM = 10.0  # widths around the box within which grains are still followed


@dataclass(frozen=True)
class BrazilNut(cases.OfGrains):
    """72 disks of 20 mm and one twice as large, at rest in a box that is then shaken by eq 16.

    The box begins with the velocity that eq 16 has at time zero, and the grains with it: they are thrown by the floor
    when it slows down by more than gravity, at 34 mm, and would rise 118 mm in all if the side walls let them.
    """

    mu: float = cases.friction()
    gamma: float = cases.damping()
    alpha: float = cases.exponent()
    k_t: float = cases.tangential_stiffness()
    z_init: float = port(
        0.02,
        unit="m",
        bounds=(0.02, 0.2),
        doc="height of the nut's centre above the floor, in the lattice that then settles, by up to 12 mm: see z(0)",
    )
    duration: float = port(30.0, unit="s", bounds=(1e-3, 1e4), doc="time of shaking")
    seed: int = cases.seed()
    scaling: str = cases.scaling()
    softening: float = cases.softening(100.0)
    body: str = cases.body()
    k_n: float = cases.linear_stiffness()
    r_1: float = port(0.05, unit="m", bounds=(0.0, 1.0), doc="amplitude of the box along x")
    r_2: float = port(0.083, unit="m", bounds=(0.0, 1.0), doc="amplitude of the box along z")
    a_1: float = port(17.0, unit="rad/s", bounds=(0.0, 1e3), doc="frequency of its centre")
    a_2: float = port(
        180.0,
        unit="deg/s",
        bounds=(0.0, 1e6),
        doc="frequency of its rocking; the paper prints 180 without a unit, and rad/s would not leave the first cycle "
        "free of collisions, as it is said to be",
    )
    tilt: float = port(2.0, unit="deg", bounds=(0.0, 45.0), doc="amplitude of its rocking")
    jitter: float = port(
        0.002, bounds=(0.0, 0.002), doc="largest random displacement at the start, over the diameter"
    )
    settling: float = port(0.5, unit="s", bounds=(0.0, 100.0), doc="time to come to rest before")
    record: float = port(0.005, unit="s", bounds=(1e-4, 10.0), doc="time between recorded instants")
    step: float = cases.time_step()
    scheme: str = cases.scheme()

    grains: ClassVar[int] = 72
    across: ClassVar[int] = 8
    diameter: ClassVar[float] = 0.02
    width: ClassVar[float] = 0.161
    height: ClassVar[float] = 0.32

    def motion(self, moving: bool = True) -> tuple[Sine, Sine, Sine]:
        """Return the motion of the box, eq 16, or the pose that it begins with."""
        a_1, a_2 = (self.a_1, self.a_2) if moving else (0.0, 0.0)
        return (
            Sine(0.0, self.r_1, a_1, 0.5 * math.pi),
            Sine(0.0, self.r_2, a_1, 0.0),
            Sine(0.0, math.radians(self.tilt), math.radians(a_2), 0.0),
        )

    def places(self) -> Array:
        """Return the nut, then the others on a square lattice around it, all displaced at random."""
        d, gap = self.diameter, (self.width - self.across * self.diameter) / (self.across + 1)
        nut = np.array([0.5 * self.width, self.z_init + gap])
        sites = [
            (gap + 0.5 * d + (d + gap) * column, gap + 0.5 * d + (d + gap) * row)
            for row in range(int((self.height - gap) / (d + gap)))
            for column in range(self.across)
        ]
        clear = np.hypot(*(np.array(sites) - nut).T) >= 1.5 * d + gap
        chosen = np.array(sites)[clear][: self.grains]
        if len(chosen) < self.grains:
            raise StudyError(
                f"the box has room for {len(chosen)} grains beside a nut at z_init = {self.z_init:g} m"
            )
        shifts = np.random.default_rng(self.seed).uniform(-1.0, 1.0, (self.grains + 1, 2))
        start: Array = np.vstack([nut, chosen]) + self.jitter * d * shifts
        start[:, 0] += self.r_1 - 0.5 * self.width
        return start

    def scene(self) -> Scene:
        """Return the box at rest."""
        w, h = 0.5 * self.width, 0.5 * self.height
        corners = [(-w, -h), (w, -h), (w, h), (-w, h)]
        walls = tuple(Wall(a, b) for a, b in zip(corners, corners[1:] + corners[:1], strict=True))
        rocking = math.radians(self.tilt) * math.radians(self.a_2) * math.hypot(w, h)
        shaken = math.hypot(self.r_1, self.r_2) * self.a_1 + rocking
        reach = _ROOM * self.height + self.r_1 + self.r_2
        return Scene(
            self.law(),
            (self.kind(self.diameter), self.kind(0.5 * self.diameter)),
            np.array([0] + [1] * self.grains),
            self.places(),
            walls=walls,
            centre=(0.0, h),
            motion=self.motion(False),
            domain=(-reach, reach, -reach, reach),
            speed=shaken + math.sqrt(2 * cases.GRAVITY * self.height),
            step=self.step,
            scheme=self.scheme,
        )

    def play(self, folder: Path | None = None, fps: float = 0.0) -> tuple[dict[str, Any], cases.Film]:
        """Let the grains settle, then shake the box; return heights of the nut, and frames to look at if asked.

        With a folder the state is kept there, and a run that was cut off goes on from it.
        """
        instants = math.ceil(self.duration / self.record - 1e-9)
        scene, steps = cases.fitted(self.scene(), self.duration / instants)
        disks, checkpoint = Disks(scene), Checkpoint(folder, self)
        film = cases.Film(disks, ["nut"] + ["grains"] * self.grains)
        every = max(1, round(instants / (fps * self.duration))) if fps else instants + 1
        z, done = np.zeros(instants + 1), 0
        kept = checkpoint.load()
        if kept and "settling" not in kept:
            z, done = kept.pop("z"), int(kept.pop("done"))
            disks.restore(kept)
        else:
            cases.settle(disks, self.settling, checkpoint, kept)
            disks.shake(self.motion())
            z[0] = disks.column(cells.Y)[NUT]
            film.take(0.0)
        while done < instants:
            disks.advance(steps)
            done += 1
            z[done] = disks.column(cells.Y)[NUT]
            if done % every == 0 or (fps and done == instants):
                film.take(done * self.duration / instants)
            if checkpoint.due:
                checkpoint.keep({"z": z, "done": done, **disks.arrays()})
        checkpoint.remove()
        here = disks.here
        if NUT not in here:
            gone = f"the nut has left the box, with {1 + self.grains - len(here)} grains in all"
            raise SimulationError("; ".join(filter(None, (gone, cases.overlaps(disks)))))
        escaped = 1 + self.grains - len(here)
        if escaped:
            warnings.warn(f"{escaped} of {self.grains} grains have left the box", TamisWarning, stacklevel=2)
        cases.warn_of_overlaps(disks)
        t = np.linspace(0.0, self.duration, instants + 1)
        answer = {"t": t, "z": z, "deepest": disks.deepest, "escaped": escaped, "dt": disks.h}
        return answer | fractions(z) | first_passages(t, z), film

    def estimate(self) -> float:
        """Return the seconds of a core that a run will take, about, from a box that is shaken at once."""
        shaken = replace(self.scene(), motion=self.motion())
        return cases.foreseen(shaken, self.settling + self.duration, dense=0.0)

    def replay(self, fps: float) -> Replay:
        """Shake the box once more and return it to look at."""
        return self.play(fps=fps)[1].replay()


def fractions(z: Array) -> dict[str, Array]:
    """Return fractions of time and the heights that the nut is above for so long."""
    return {"p": LEVELS, "z_p": np.quantile(z, 1.0 - LEVELS)}


def first_passages(t: Array, z: Array) -> dict[str, Array]:
    """Return the greatest height so far, and when the nut first reaches each height.

    That is the whole time, and ``reached`` 0, for one that it does not reach.
    """
    highest = np.maximum.accumulate(z)
    times, reached = np.full(len(HEIGHTS), t[-1]), np.zeros(len(HEIGHTS))
    for i, height in enumerate(HEIGHTS):
        k = int(np.searchsorted(highest, height))
        if k < len(z):
            share = (height - z[k - 1]) / (z[k] - z[k - 1]) if k else 1.0
            times[i], reached[i] = t[max(k - 1, 0)] + share * (t[k] - t[k - 1] if k else 0.0), 1.0
    return {"highest": highest, "height": HEIGHTS, "t_exit": times, "reached": reached}
