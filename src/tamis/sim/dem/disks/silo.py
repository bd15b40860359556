"""A silo that discharges through an outlet narrow enough to clog (Hadjidoukas et al. 2014, section 5.3).

Grains settle on a closed floor, the outlet is opened, and they run out until an arch blocks it. One grain of the arch
is then moved to the top, and the next avalanche begins. Grains that are out come back at the top, so that the silo
stays as full as it was.

When is it blocked? When no grain came out for one second, as the paper has it. That is nearly all of the cost: an
avalanche takes some tenths of a second. With ``blocked = "rest"`` it is over as soon as all grains of the silo have
been at rest for a while. It takes all of them, and a rest far below the speed of falling: of arches that were called
blocked when the grains near the outlet were slow, one in twenty opened within the second, struck by a grain that was
still on its way from above, or because one rolled slowly along the floor, which nothing brakes. And a grain in a corner
may bounce for ever where damping fades with the overlap: a second without a grain out ends an avalanche by either rule.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tamis.errors import SimulationError, StudyError, TamisWarning
from tamis.interfaces import port
from tamis.replays import Replay
from tamis.sim.dem.disks import cases
from tamis.sim.dem.disks.checkpoint import Checkpoint
from tamis.sim.dem.disks.drive import Disks
from tamis.sim.dem.disks.scene import Numbers, Scene, Wall
from tamis.types import Array, Mask

PLUG = 2  # number of the wall that closes the outlet
LOOK = 2e-3  # s between two looks at the outlet
QUIET = 1.0  # s without a grain out: blocked, as the paper has it
REST, SLOW = 0.02, 0.002  # s in which all grains are slower than so much of sqrt(g d): blocked, as they rest
FLOWING, CALMING = 0.15, 0.5  # s that ten grains take to come out, and some hundreds to come to rest
_FILLED = 0.625  # of the width that the columns of the lattice take, 40 of 64 diameters in the paper
_BREAKS = 20  # grains taken from arches in a row without one coming out: it is not an arch that blocks
COUNTS = np.arange(201.0)  # grains, of which avalanches have more or not
_BELOW = 30.0  # diameters under the floor at which a grain is out of sight


@dataclass(frozen=True)
class Silo(cases.OfGrains):
    """Grains of one size in a rectangle with an outlet in the middle of its floor."""

    mu: float = cases.friction()
    gamma: float = cases.damping()
    alpha: float = cases.exponent()
    k_t: float = cases.tangential_stiffness()
    grains: int = port(300, bounds=(1, 2_000_000), doc="number of grains")
    width: float = port(0.032, unit="m", bounds=(1e-4, 100.0), doc="width of the silo")
    outlet: float = port(
        0.0042,
        unit="m",
        bounds=(0.0, 100.0),
        doc="width of the outlet, of a grain at least; 0 is a silo that stays closed, and ends as if it were blocked",
    )
    avalanches: int = port(
        10, bounds=(0, 1_000_000), doc="avalanches to wait for; 0 follows the flow for the whole duration"
    )
    duration: float = port(
        60.0, unit="s", bounds=(1e-3, 1e6), doc="longest time from the opening; what runs then is unfinished"
    )
    seed: int = cases.seed()
    diameter: float = port(0.002, unit="m", bounds=(1e-5, 1.0), doc="of the grains")
    height: float = port(8.0, bounds=(0.1, 1e3), doc="of the silo, over its width")
    gap: float = port(0.05, bounds=(1e-3, 1.0), doc="between grains at the start, over the diameter")
    jitter: float = port(
        0.01, bounds=(0.0, 0.5), doc="largest random displacement at the start, over the diameter"
    )
    settling: float = port(
        0.5, unit="s", bounds=(0.0, 1e3), doc="time to come to rest before the outlet opens"
    )
    refill: str = port("top", choices=("top", "none"), doc="whether grains that are out come back at the top")
    blocked: str = port(
        "second",
        choices=("second", "rest"),
        doc="when an avalanche has ended: no grain was out for a second, or (rest) all grains came to rest before, "
        "which takes some half of the time",
    )
    scaling: str = cases.scaling()
    softening: float = cases.softening(1000.0)
    body: str = cases.body()
    k_n: float = cases.linear_stiffness()
    step: float = cases.time_step()
    scheme: str = cases.scheme()

    def places(self) -> Array:
        """Return a lattice, one diameter above the floor, displaced at random."""
        d, pitch = self.diameter, (1.0 + self.gap) * self.diameter
        columns = max(1, int(_FILLED * self.width / d))
        left = 0.5 * (self.width - (columns - 1) * pitch)
        if 2.0 * self.jitter > self.gap:
            raise StudyError(
                f"jitter {self.jitter:g} lets grains overlap: at most half of the gap, {0.5 * self.gap:g}"
            )
        if left < (0.5 + self.jitter) * d:
            raise StudyError(self._no_room(columns))
        number = np.arange(self.grains)
        sites = np.stack([left + pitch * (number % columns), 1.5 * d + pitch * (number // columns)], axis=1)
        if sites[-1, 1] > self.height * self.width:
            raise StudyError(
                f"{self.grains} grains reach up to {sites[-1, 1]:.3g} m, above the silo's "
                f"{self.height * self.width:.3g} m; give a greater height (in widths), or fewer grains"
            )
        shifts = np.random.default_rng(self.seed).uniform(-1.0, 1.0, (self.grains, 2))
        places: Array = sites + self.jitter * d * shifts
        return places

    def _no_room(self, columns: int) -> str:
        """Say why the lattice is wider than the silo: the gap between its columns, or the grains themselves."""
        d = self.diameter
        if columns > 1 and (room := (self.width / d - 1.0 - 2.0 * self.jitter) / (columns - 1) - 1.0) > 0.0:
            return (
                f"{columns} columns of grains with a gap of {self.gap:g} diameters between them do not fit into a silo "
                f"{self.width:g} m wide; give a gap of at most {math.floor(1e3 * room) / 1e3:g}"
            )
        return f"a silo {self.width:g} m wide has no room for a column of grains of {d:g} m; widen it"

    def scene(self) -> Scene:
        """Return the silo, closed."""
        w, h, half = self.width, self.height * self.width, 0.5 * self.outlet
        if self.outlet >= w:
            raise StudyError(f"the outlet, {self.outlet:g} m, must be narrower than the silo, {w:g} m")
        floor = [Wall((0.0, 0.0), (0.5 * w - half, 0.0)), Wall((0.5 * w + half, 0.0), (w, 0.0))]
        plug = (
            Wall((0.5 * w - half, 0.0), (0.5 * w + half, 0.0)) if half else Wall((0.0, 0.0), (w, 0.0), False)
        )
        places = self.places()
        if 0.0 < self.outlet < self.diameter:
            raise StudyError(
                f"no grain of {self.diameter:g} m comes out of an outlet of {self.outlet:g} m; widen it, or give 0 for "
                "a silo that stays closed"
            )
        top = max(h, float(places[:, 1].max()) + h)
        return Scene(
            self.law(),
            (self.kind(0.5 * self.diameter),),
            np.zeros(self.grains, dtype=np.int32),
            places,
            walls=(*floor, plug, Wall((0.0, 0.0), (0.0, 2 * top)), Wall((w, 0.0), (w, 2 * top))),
            domain=(-w, 2 * w, -_BELOW * self.diameter, 2 * top),
            speed=math.sqrt(2 * cases.GRAVITY * 20 * self.diameter),
            step=self.step,
            scheme=self.scheme,
        )

    def play(self, folder: Path | None = None, fps: float = 0.0) -> tuple[dict[str, Any], cases.Film]:
        """Settle, open, and wait for avalanches; return their sizes, and frames to look at if asked."""
        return Discharge(self, folder, fps).run()

    def estimate(self) -> float:
        """Return the seconds of a core that a run will take, about: how long avalanches will be is not known before."""
        each = FLOWING + (QUIET if self.blocked == "second" else CALMING)
        ends = (self.avalanches or math.inf) if self.outlet else 1
        span = min(self.duration, ends * each)
        return cases.foreseen(self.scene(), self.settling + span)

    def replay(self, fps: float) -> Replay:
        """Run the silo once more and return it to look at."""
        return self.play(fps=fps)[1].replay()


class Discharge:
    """A silo under way: what has come out, and since when nothing does."""

    def __init__(self, case: Silo, folder: Path | None, fps: float) -> None:
        self.case = case
        scene, self.steps = cases.fitted(case.scene(), LOOK)
        self.disks, self.checkpoint = Disks(scene), Checkpoint(folder, case)
        self.film = cases.Film(self.disks, ["grains"] * case.grains)
        self.every = max(1, round(1.0 / (fps * LOOK))) if fps else 0
        self.looks = 0  # since the opening
        self.quiet = 0  # looks since a grain came out, or since the arch was broken
        self.still = 0  # looks at rest
        self.breaks, self.events = 0, 0  # in a row, and in all
        self.out = 0  # grains out in this avalanche
        self.sizes: list[int] = []
        self.ends: list[float] = []
        self.exits: list[float] = []
        self.flowing = 0.0
        self.emptied = False
        self.fallen = np.zeros(case.grains, dtype=np.bool_)  # counted as out
        self.arch: Array = np.empty((0, 2))

    @property
    def _wanted(self) -> bool:
        """Whether more avalanches are."""
        return self.case.avalanches == 0 or len(self.sizes) < self.case.avalanches

    @property
    def t(self) -> float:
        """Time since the opening."""
        return self.looks * LOOK

    def run(self) -> tuple[dict[str, Any], cases.Film]:
        """Go until all avalanches are done, the silo is empty or time is over."""
        case = self.case
        kept = self.checkpoint.load()
        if kept and "settling" not in kept:
            self._restore(kept)
        else:
            cases.settle(self.disks, case.settling, self.checkpoint, kept)
            self.disks.open(PLUG)
        while self._wanted and self.t < case.duration - 0.5 * LOOK and not self.emptied:
            if self.every and self.looks % self.every == 0:
                self.film.take(self.t)
            self.disks.advance(self.steps)
            self.looks += 1
            self._look()
            if self.checkpoint.due:
                self.checkpoint.keep(self._arrays())
        self.checkpoint.remove()
        cases.warn_of_overlaps(self.disks)
        if self.every:
            self.film.take(self.t)
        return self._outputs(), self.film

    def _look(self) -> None:
        """Count who is out, bring them back, and see whether the outlet is blocked."""
        case, d = self.case, self.case.diameter
        x, y = self.disks.places().T
        beside = ~self.fallen & ((x < 0.0) | (x > case.width))
        under = beside & self._passed_under_the_floor() if beside.any() else beside
        astray = beside & ~under
        if self.disks.here.size < case.grains - int(self.fallen.sum()) or astray.any():
            raise SimulationError("; ".join(filter(None, (self._gone(), cases.overlaps(self.disks)))))
        new = ((y < -d) | under) & ~self.fallen
        if new.any():
            self.exits += [self.t] * int(new.sum())
            self.out += int(new.sum())
            self.flowing += self.quiet * LOOK + LOOK
            self.quiet = self.still = self.breaks = 0
            if case.refill == "top":
                for grain in np.flatnonzero(new):
                    self._drop(int(grain))
                self.disks.renew()
            else:
                self.fallen |= new
            return
        self.quiet += 1
        if self._blocked():
            self._next()

    def _passed_under_the_floor(self) -> Mask:
        """Return which grains beside the silo were under its floor already when they passed a side of it.

        They have come through the outlet, an edge of which is nearly at the side, and fall freely.
        """
        x, y = self.disks.places().T
        vx, vy, _ = self.disks.velocities().T
        beside = np.maximum(-x, x - self.case.width)
        outwards = np.where(x < 0.0, -vx, vx)
        passed = (beside > 0.0) & (outwards > 0.0) & (y < 0.0)
        since = np.where(passed, beside, 0.0) / np.where(passed, outwards, 1.0)
        under: Mask = passed & (y - (vy + 0.5 * cases.GRAVITY * since) * since < 0.0)
        return under

    def _gone(self) -> str:
        """Say where a grain has left the silo other than through its outlet."""
        case, top = self.case, self.disks.scene.domain[3]
        missing = np.setdiff1d(np.flatnonzero(~self.fallen), self.disks.here)
        if np.any(self.disks.places()[missing, 1] > top):
            return (
                f"grains that are brought back no longer find room below {top:.3g} m, the top of the walls, at t = "
                f"{self.t:g} s: they fall out faster than they come to lie on the others, with an outlet of "
                f"{case.outlet:g} m in a silo {case.width:g} m wide; narrow it, take more grains, or give "
                'refill = "none"'
            )
        return f"a grain has left the silo elsewhere than through its outlet at t = {self.t:g} s"

    def _blocked(self) -> bool:
        if self.case.blocked == "second" or self.quiet * LOOK >= QUIET:
            return self.quiet * LOOK >= QUIET
        vx, vy, _ = self.disks.velocities()[~self.fallen].T
        slow = np.hypot(vx, vy).max(initial=0.0) < SLOW * math.sqrt(cases.GRAVITY * self.case.diameter)
        self.still = self.still + 1 if slow else 0
        return self.still * LOOK >= REST

    def _next(self) -> None:
        """End an avalanche and break the arch; or only break it again, if nothing had come out.

        In a closed silo there is none to break.
        """
        arch = self.over_outlet()
        self.emptied = not self.case.outlet or len(arch) == 0 or self.breaks >= _BREAKS
        if self.out:
            self.sizes.append(self.out)
            self.ends.append(self.t)
            self.arch = self.disks.places()[arch]
        self.out = self.quiet = self.still = 0
        if not self.emptied and self._wanted:
            self.breaks += 1
            self._drop(int(self._chance().choice(arch)))
            self.disks.renew()

    def over_outlet(self) -> Numbers:
        """Return the numbers of the grains that form the lower face of what lies over the outlet."""
        case, r = self.case, 0.5 * self.case.diameter
        x, y = self.disks.places().T
        grains = np.flatnonzero(~self.fallen & (np.abs(x - 0.5 * case.width) < 0.5 * case.outlet + r))
        if not len(grains):
            return grains
        across = np.linspace(0.5 * (case.width - case.outlet), 0.5 * (case.width + case.outlet), 65)
        aside = across[:, None] - x[grains]
        under = np.where(
            np.abs(aside) < r, y[grains] - np.sqrt(np.maximum(r * r - aside * aside, 0.0)), np.inf
        )
        lowest = np.argmin(under, axis=1)
        return np.unique(grains[lowest[np.isfinite(under[np.arange(len(across)), lowest])]])

    def _drop(self, grain: int) -> None:
        """Lay a grain onto the others, at random."""
        case, d = self.case, self.case.diameter
        x, y = self.disks.places().T
        at = float(self._chance().uniform(d, case.width - d)) if case.width > 2 * d else 0.5 * case.width
        others = (np.abs(x - at) < d) & (np.arange(case.grains) != grain) & ~self.fallen
        top = (y + np.sqrt(np.maximum(d * d - (x - at) ** 2, 0.0)))[others].max(initial=d)
        self.disks.put(grain, (at, float(top) + 0.01 * d), (0.0, 0.0, 0.0))

    def _chance(self) -> np.random.Generator:
        """Return random numbers for the next thing that happens: known by its number, so that nothing is to be kept."""
        self.events += 1
        return np.random.default_rng([self.case.seed, self.events])

    def _outputs(self) -> dict[str, Any]:
        if why := self._cut_short():
            done = f"{len(self.sizes)} of {self.case.avalanches or 'any number of'} avalanches"
            warnings.warn(f"{why} after {done}", TamisWarning, stacklevel=2)
        return {
            "sizes": np.array(self.sizes, dtype=np.float64),
            "t": np.array(self.ends),
            "exits": np.array(self.exits),
            "unfinished": self.out,
            **exceedance(self.sizes),
            "flow": len(self.exits) / self.flowing if self.flowing else 0.0,
            "arch": self.arch,
            "emptied": float(self.emptied),
            "floor": 0.0 - self.disks.loads()[: PLUG + 1, 1].sum(),
            "deepest": self.disks.deepest,
            "dt": self.disks.h,
        }

    def _cut_short(self) -> str:
        """Say why there are fewer avalanches than asked for, if so."""
        case = self.case
        if not self._wanted or (case.avalanches == 0 and not self.emptied):
            return ""
        if not self.emptied:
            return f"duration = {case.duration:g} s is over, with {self.out} grains out in the avalanche under way,"
        if not case.outlet:
            return "the outlet is closed, so that nothing comes out," if case.avalanches else ""
        if case.refill == "none":
            left = case.grains - int(self.fallen.sum())
            return f"the silo has run empty, with {left} grains at rest beside the outlet,"
        return f"nothing is over the outlet, or comes out although {self.breaks} grains in a row were taken from there,"

    def _arrays(self) -> dict[str, Any]:
        numbers = [self.looks, self.quiet, self.still, self.breaks, self.events, self.out]
        lists = {"sizes": self.sizes, "ends": self.ends, "exits": self.exits, "fallen": self.fallen}
        more = {"numbers": numbers, "flowing": self.flowing, "arch": self.arch}
        return {**lists, **more, **self.disks.arrays()}

    def _restore(self, kept: dict[str, Any]) -> None:
        self.looks, self.quiet, self.still, self.breaks, self.events, self.out = map(int, kept.pop("numbers"))
        self.sizes, self.ends, self.exits = (kept.pop(name).tolist() for name in ("sizes", "ends", "exits"))
        self.fallen, self.arch, self.flowing = (
            kept.pop("fallen"),
            kept.pop("arch"),
            float(kept.pop("flowing")),
        )
        self.disks.restore(kept)


def exceedance(sizes: Sequence[int]) -> dict[str, Array]:
    """Return the size that a share p of the avalanches exceeds, and the share that has more than n grains.

    The k-th largest of N sizes stands for p = (k - 1/2) / N: nothing is said beyond the first and the last. Without any
    there is no share either, and not the share 0.
    """
    largest = np.sort(np.asarray(sizes, dtype=np.float64))[::-1]
    beyond = (largest[:, None] > COUNTS).mean(axis=0) if len(largest) else np.empty(0)
    return {
        "p": (np.arange(len(largest)) + 0.5) / max(len(largest), 1),
        "size_p": largest,
        "n": COUNTS,
        "beyond": beyond,
    }
