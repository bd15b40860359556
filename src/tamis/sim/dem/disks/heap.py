"""A heap: a column of grains between two walls that are taken away at once.

The heap that is left has an angle, by which users of discrete elements calibrate friction. The column is the better
known problem: how far it spreads depends on its aspect ratio ``a`` alone, height over half its width, as ``a`` where it
is flat and as its power 0.7 or so where it is tall (two-dimensional grains: Staron & Hinch 2005,
10.1017/S0022112005006415; experiments: Lube et al. 2005, 10.1103/PhysRevE.72.041301).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from tamis.errors import StudyError, TamisWarning
from tamis.interfaces import port
from tamis.replays import Replay
from tamis.sim.dem.disks import cases, cells
from tamis.sim.dem.disks.checkpoint import Checkpoint
from tamis.sim.dem.disks.drive import Disks
from tamis.sim.dem.disks.scene import Numbers, Scene, Wall
from tamis.types import Array

LEFT, RIGHT = 1, 2  # numbers of the walls that are taken away
SIZES = 5  # classes of diameters
LOOK = 5e-3  # s between two looks
REST, SLOW = 0.05, 0.02  # s at rest, slower than so much of sqrt(g d)
_AREA = 0.97  # d^2 a grain, as they lie
_TOUCH = 0.05  # of the diameter: grains nearer than that belong together
_PROFILE = 101
_MOST = 0.5  # of the grains: what holds fewer of them is no heap
_SIDE, _MORE = (
    3.0,
    4.0,
)  # half widths of plane to each side: so many, and so many more for each of the aspect ratio


@dataclass(frozen=True)
class Heap(cases.OfGrains):
    """Grains of several sizes in a column on a plane."""

    mu: float = port(0.5, bounds=(0.0, 2.0), doc="coefficient of friction, of grains and walls")
    gamma: float = cases.damping()
    alpha: float = cases.exponent()
    k_t: float = cases.tangential_stiffness()
    grains: int = port(500, bounds=(10, 2_000_000), doc="number of grains")
    aspect: float = port(2.0, bounds=(0.1, 50.0), doc="height of the column over half its width")
    duration: float = port(
        5.0, unit="s", bounds=(1e-2, 1e4), doc="longest time after the walls are taken away"
    )
    seed: int = cases.seed()
    diameter: float = port(0.002, unit="m", bounds=(1e-5, 1.0), doc="mean diameter of the grains")
    plane: str = port(
        "rough",
        choices=("rough", "smooth"),
        doc="what the grains fall on: grains that are glued side by side, or a wall, on which single ones roll away",
    )
    spread: float = port(
        0.2, bounds=(0.0, 0.6), doc="of diameters, largest difference from the mean over the mean"
    )
    settling: float = port(0.5, unit="s", bounds=(0.0, 1e3), doc="time to come to rest between the walls")
    scaling: str = cases.scaling()
    softening: float = cases.softening(1000.0)
    body: str = cases.body()
    k_n: float = cases.linear_stiffness()
    step: float = cases.time_step()
    scheme: str = cases.scheme()

    @property
    def half(self) -> float:
        """Half the width of the column."""
        return self.diameter * math.sqrt(_AREA * self.grains / (2.0 * self.aspect))

    def scene(self) -> Scene:
        """Return the column between its walls."""
        rng = np.random.default_rng(self.seed)
        kind = rng.integers(0, SIZES, self.grains)
        diameters = self.diameter * (1.0 + self.spread * np.linspace(-1.0, 1.0, SIZES))
        pitch = 1.02 * diameters.max()
        columns = int(2.0 * self.half / pitch)
        if columns < 1:
            raise StudyError(
                f"{self.grains} grains are too few for a column of aspect {self.aspect:g}; take more"
            )
        number = np.arange(self.grains)
        places = np.stack([number % columns - 0.5 * (columns - 1), number // columns + 0.5], axis=1) * pitch
        places += 0.005 * self.diameter * rng.uniform(-1.0, 1.0, places.shape)
        tall, reach = 2.0 * float(places[:, 1].max()), self.half * (_SIDE + _MORE * self.aspect)
        walls = (
            Wall((-reach, 0.0), (reach, 0.0), self.plane == "smooth"),
            Wall((-self.half, 0.0), (-self.half, tall)),
            Wall((self.half, 0.0), (self.half, tall)),
        )
        kinds = [self.kind(0.5 * d) for d in diameters.tolist()]
        if self.plane == "rough":
            d = self.diameter
            glued = np.arange(-reach + 0.5 * d, reach, (1.0 + 1e-6) * d)
            kinds.append(replace(self.kind(0.5 * d), fixed=True))
            kind = np.append(kind, np.full(len(glued), SIZES))
            places = np.vstack([places, np.stack([glued, np.full(len(glued), -0.5 * d)], axis=1)])
        return Scene(
            self.law(),
            tuple(kinds),
            kind,
            places,
            walls=walls,
            domain=(-reach, reach, -2.0 * self.diameter, 2.0 * tall),
            speed=math.sqrt(2.0 * cases.GRAVITY * self.aspect * self.half),
            step=self.step,
            scheme=self.scheme,
        )

    def play(self, folder: Path | None = None, fps: float = 0.0) -> tuple[dict[str, Any], cases.Film]:
        """Settle, take the walls away and wait until the heap rests; return its shape, and frames if asked."""
        scene, steps = cases.fitted(self.scene(), LOOK)
        disks, checkpoint = Disks(scene), Checkpoint(folder, self)
        film = cases.Film(disks, ["grains"] * self.grains + ["plane"] * (len(scene.kind) - self.grains))
        every = max(1, round(1.0 / (fps * LOOK))) if fps else 0
        looks, still, high = 0, 0, 0.0
        kept = checkpoint.load()
        if kept and "settling" not in kept:
            looks, still = map(int, kept.pop("looks"))
            high = float(kept.pop("high"))
            disks.restore(kept)
        else:
            cases.settle(disks, self.settling, checkpoint, kept)
            inside = np.linspace(-0.8, 0.8, _PROFILE) * self.half
            high = float(_profile(disks, np.arange(self.grains), inside).mean())
            disks.open(LEFT)
            disks.open(RIGHT)
            film.take(0.0)
        while looks * LOOK < self.duration - 0.5 * LOOK and still * LOOK < REST:
            disks.advance(steps)
            looks += 1
            if every and looks % every == 0:
                film.take(looks * LOOK)
            vx, vy, _ = disks.velocities()[_body(disks, self.grains)].T
            slow = np.hypot(vx, vy).max() < SLOW * math.sqrt(cases.GRAVITY * self.diameter)
            still = still + 1 if slow else 0
            if checkpoint.due:
                checkpoint.keep({"looks": [looks, still], "high": high, **disks.arrays()})
        checkpoint.remove()
        cases.warn_of_overlaps(disks)
        if every and looks % every:
            film.take(looks * LOOK)
        shape = self._shape(disks, high)
        if said := self._scattered(int(shape["escaped"]), int(shape["apart"])):
            warnings.warn(said, TamisWarning, stacklevel=2)
        return shape | {"t_rest": looks * LOOK, "rests": float(still * LOOK >= REST)}, film

    def replay(self, fps: float) -> Replay:
        """Let the column fall once more and return it to look at."""
        return self.play(fps=fps)[1].replay()

    def _scattered(self, escaped: int, apart: int) -> str:
        """Say that grains have left the plane, or that no heap is left of which angle and run-out could be."""
        left = self.grains - apart
        gone = f"{escaped} of {self.grains} grains have left the plane" if escaped else ""
        few = (
            f"no heap is left: angle, run-out and top are those of the {left} of {self.grains} grains that hang "
            "together; take a rough plane, more friction or more grains, or a longer settling if they were not at rest"
            if left < _MOST * self.grains
            else ""
        )
        return "; ".join(filter(None, (gone, few)))

    def _carried(self, disks: Disks) -> float:
        """Return the load on the plane: on the wall, or on the grains that are glued to it."""
        glued = disks.by_number(disks.forces())[self.grains :]
        return float(0.0 - disks.loads()[0, 1] - glued[:, 1].sum())

    def _shape(self, disks: Disks, high: float) -> dict[str, Any]:
        body = _body(disks, self.grains)
        x, r = disks.column(cells.X)[body], disks.column(cells.R)[body]
        left, right = float((x - r).min()), float((x + r).max())
        at = left + (np.arange(_PROFILE) + 0.5) / _PROFILE * (right - left)
        surface, kinds = _profile(disks, body, at), disks.scene.kind
        return {
            "a": high / self.half,
            "runout": (0.5 * (right - left) - self.half) / self.half,
            "top": float(surface.max()) / self.half,
            "angle": _angle(at, surface),
            "x": at,
            "y": surface,
            "apart": float(self.grains - len(body)),
            "escaped": float(self.grains - np.count_nonzero(disks.here < self.grains)),
            "floor": self._carried(disks),
            "weight": cases.GRAVITY
            * sum(disks.scene.kinds[kinds[i]].mass for i in disks.here if i < self.grains),
            "deepest": disks.deepest,
            "dt": disks.h,
        }


def _body(disks: Disks, grains: int) -> Numbers:
    """Return the grains of the heap: those that hang together with most of the others, the plane left out."""
    pairs = disks.contacts(_TOUCH * disks.scene.radii.mean() * 2)[0]
    pairs = pairs[(pairs < grains).all(axis=1)]
    n = grains
    links = coo_matrix((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    _, part = connected_components(links, directed=False)
    return np.flatnonzero(part == np.bincount(part).argmax())


def _profile(disks: Disks, body: Numbers, at: Array) -> Array:
    """Return the height of the surface at some places: the highest point of a grain of the heap there, or 0."""
    x, y, r = (disks.column(name)[body] for name in (cells.X, cells.Y, cells.R))
    order = np.argsort(x)
    x, y, r = x[order], y[order], r[order]
    height = np.zeros(len(at))
    reach = r.max()
    for k, place in enumerate(at):
        near = slice(*np.searchsorted(x, (place - reach, place + reach)))
        below = r[near] ** 2 - (x[near] - place) ** 2
        height[k] = (y[near] + np.sqrt(np.maximum(below, 0.0)))[below >= 0.0].max(initial=0.0)
    return height


def _angle(at: Array, surface: Array) -> float:
    """Return the mean slope of both flanks in degrees, fitted between a fifth and four fifths of the height."""
    peak = int(np.argmax(surface))
    flank = (surface > 0.2 * surface[peak]) & (surface < 0.8 * surface[peak])
    slopes = []
    for side in (np.arange(len(at)) < peak, np.arange(len(at)) > peak):
        chosen = flank & side
        if chosen.sum() >= 2:
            slopes.append(abs(np.polyfit(at[chosen], surface[chosen], 1)[0]))
    return math.degrees(math.atan(float(np.mean(slopes)))) if slopes else 0.0
