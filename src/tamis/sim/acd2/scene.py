"""What collides by the A-CD2 method: one grain on a plane, the grains of a gabion."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tamis.errors import StudyError
from tamis.interfaces import Case, port


def _refuse_ball(name: str, diameter: float, energy: float, mass: float, volume: float, dt: float) -> None:
    """Refuse a ball that could strike between the corners of a grain, or pass one within a step."""
    size, speed = volume ** (1.0 / 3.0), math.sqrt(2.0 * energy / mass)
    if diameter < size * (1.0 - 1e-9):
        raise StudyError(
            f"{name}: a ball of {diameter:g} m is smaller than a grain, of {size:.3g} m; take a larger ball or "
            "smaller grains"
        )
    if speed * dt > 0.5 * size:
        raise StudyError(
            f"{name}: a ball of {speed:.3g} m/s goes {speed * dt:.2g} m in a step of {dt:g} s, more than half a grain "
            f"of {size:.3g} m: take dt below {0.5 * size / speed:.2g} s"
        )


@dataclass(frozen=True)
class Impact(Case):
    """A grain without rotation that meets a plane; by default one of a kilogram with the constants of a grain's mass.

    Dimnet et al. (2013, 10.1007/s00707-013-0900-8) print k_n = 5e-4 kg and k_t = 3e-4 kg for grains of 0.9 kg: with
    these nothing rebounds and next to nothing rubs.
    """

    mass: float = port(1.0, unit="kg", bounds=(1e-9, 1e9), doc="mass of the grain")
    k_n: float = port(
        4.0,
        unit="kg",
        bounds=(0.0, 1e12),
        doc="normal constant of the pseudo-potential; rebound above 2 mass",
    )
    k_t: float = port(1.0, unit="kg", bounds=(0.0, 1e12), doc="tangential constant of the pseudo-potential")
    v_n: float = port(1.0, unit="m/s", bounds=(0.0, 1e4), doc="normal speed of approach")
    v_t: float = port(1.0, unit="m/s", bounds=(-1e4, 1e4), doc="tangential velocity before the impact")


@dataclass(frozen=True)
class Gabion(Case):
    """Grains packed into a box of wire net, and what they do there.

    By default one gabion of Dimnet et al. (2013, 10.1007/s00707-013-0900-8): 216 grains, a net of 1e11 N/m3, a box of
    0.5 m. Their volume, and the speed and force of compaction, are not printed.
    """

    grains: int = port(216, bounds=(1, 20_000), doc="number of grains")
    a: float = port(
        0.078, unit="m", bounds=(1e-3, 10.0), doc="mean length of a grain, before scaling to its volume"
    )
    b: float = port(0.053, unit="m", bounds=(1e-3, 10.0), doc="mean height")
    c: float = port(0.065, unit="m", bounds=(1e-3, 10.0), doc="mean width")
    d: float = port(0.038, unit="m", bounds=(1e-3, 10.0), doc="mean length of its ridges")
    dispersion: float = port(0.23, bounds=(0.0, 0.5), doc="largest relative deviation of each of these")
    vertices: str = port(
        "",
        kind="file",
        doc="CSV with columns x, y, z: corners of another shape, scaled to the volume; empty: a, b, c, d",
    )
    volume: float = port(3.47e-4, unit="m3", bounds=(1e-9, 1e3), doc="volume of a grain of mean dimensions")
    density: float = port(2600.0, unit="kg/m3", bounds=(100.0, 2e4), doc="density of the grains")
    side: float = port(0.5, unit="m", bounds=(1e-3, 100.0), doc="side of the box")
    k_net: float = port(
        1e11,
        unit="N/m3",
        bounds=(1e6, 1e13),
        doc="force of the net over the volume of a grain outside the box",
    )
    k_n: float = port(5e-4, unit="kg", bounds=(0.0, 1e6), doc="normal constant of the pseudo-potential")
    k_t: float = port(3e-4, unit="kg", bounds=(0.0, 1e6), doc="tangential constant of the pseudo-potential")
    mu: float = port(
        0.5, bounds=(0.0, 10.0), doc="dry friction of grains on each other; 0: none, as in the paper"
    )
    gravity: float = port(9.81, unit="m/s2", bounds=(0.0, 1e3), doc="downwards, along -z")
    speed: float = port(
        0.2, unit="m/s", bounds=(1e-3, 10.0), doc="at which each side of the box closes, without gravity"
    )
    shake: float = port(
        0.05,
        unit="m/s",
        bounds=(0.0, 1.0),
        doc="standard deviation of the velocities that percussions give to each grain every 0.02 s meanwhile",
    )
    hardest: float = port(
        2e4, unit="N", bounds=(1.0, 1e9), doc="push of the grains at which a side stops closing"
    )
    patience: float = port(
        4.0, unit="s", bounds=(1e-3, 100.0), doc="time after which a box that has not closed is given up"
    )
    settling: float = port(0.6, unit="s", bounds=(1e-3, 100.0), doc="time to come to rest once it has closed")
    hold: float = port(
        1.0, unit="s", bounds=(1e-3, 100.0), doc="time over which drift is measured after that"
    )
    dt: float = port(1e-3, unit="s", bounds=(1e-6, 1e-2), doc="step")
    tolerance: float = port(1e-4, bounds=(1e-12, 0.1), doc="residual of a jump, of its largest velocity")
    sweeps: int = port(500, bounds=(10, 1_000_000), doc="after which a jump is left as it is")
    seed: int = port(1, bounds=(0, 2**63 - 1), doc="of dimensions, places and orientations")

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction = self.grains * self.volume / self.side**3
        if fraction > 0.8:
            raise StudyError(
                f"gabion: {self.grains} grains of {1e3 * self.volume:g} litres would fill {fraction:.2g} of a box of "
                f"{self.side:g} m; packings hold 0.55 to 0.65, none above 0.8: take a larger box or fewer grains"
            )


@dataclass(frozen=True)
class GabionWall(Case):
    """Gabions side by side and on each other, struck by a ball several times, before a bed of springs.

    By default the wall of Dimnet et al. (2013, 10.1007/s00707-013-0900-8): 3 x 3 gabions of 216 grains, a ball of
    260 kg from 4 m, 20, 40, 80 and 100 % of that energy. x runs along the wall, y as the impacts go, z up;
    the ball hangs, its weight is carried. They print a ball of 254 mm, which would weigh 67 kg in steel.
    """

    across: int = port(
        3,
        bounds=(1, 21),
        doc="gabions side by side; the middle one (of two the left, the lower) is the central one",
    )
    high: int = port(3, bounds=(1, 21), doc="gabions on each other")
    packings: int = port(
        9, bounds=(1, 441), doc="different ones, laid in turn, each turned by one of the rotations of a cube"
    )
    grains: int = port(216, bounds=(1, 2000), doc="number of grains of a gabion")
    a: float = port(
        0.078, unit="m", bounds=(1e-3, 10.0), doc="mean length of a grain, before scaling to its volume"
    )
    b: float = port(0.053, unit="m", bounds=(1e-3, 10.0), doc="mean height")
    c: float = port(0.065, unit="m", bounds=(1e-3, 10.0), doc="mean width")
    d: float = port(0.038, unit="m", bounds=(1e-3, 10.0), doc="mean length of its ridges")
    dispersion: float = port(0.23, bounds=(0.0, 0.5), doc="largest relative deviation of each of these")
    vertices: str = port(
        "",
        kind="file",
        doc="CSV with columns x, y, z: corners of another shape, scaled to the volume; empty: a, b, c, d",
    )
    volume: float = port(3.47e-4, unit="m3", bounds=(1e-9, 1e3), doc="volume of a grain of mean dimensions")
    density: float = port(2600.0, unit="kg/m3", bounds=(100.0, 2e4), doc="density of the grains")
    side: float = port(0.5, unit="m", bounds=(1e-3, 100.0), doc="side of the box of a gabion")
    gap: float = port(
        0.003, unit="m", bounds=(0.0, 1.0), doc="between the boxes of neighbours at first; corners poke out"
    )
    k_net: float = port(
        1e11,
        unit="N/m3",
        bounds=(1e6, 1e13),
        doc="force of the net over the volume of a grain outside its box",
    )
    k_ww: float = port(
        3e4, unit="N/m", bounds=(0.0, 1e9), doc="stiffness of the sand behind each grain of the back"
    )
    rebound: float = port(
        1.0,
        bounds=(0.01, 1.0),
        doc="share of the work done on the sand that it gives back; 1: elastic, as printed",
    )
    k_n: float = port(5e-4, unit="kg", bounds=(0.0, 1e6), doc="normal constant of the pseudo-potential")
    k_t: float = port(3e-4, unit="kg", bounds=(0.0, 1e6), doc="tangential constant of the pseudo-potential")
    mu: float = port(
        0.0, bounds=(0.0, 10.0), doc="dry friction between grains and on planes; 0: none, as printed"
    )
    gravity: float = port(9.81, unit="m/s2", bounds=(0.0, 1e3), doc="downwards, along -z")
    ball_mass: float = port(260.0, unit="kg", bounds=(1e-3, 1e6), doc="mass of the ball")
    ball_diameter: float = port(0.54, unit="m", bounds=(1e-2, 100.0), doc="diameter of the ball")
    energy_1: float = port(2040.48, unit="J", bounds=(0.0, 1e9), doc="of the first impact")
    energy_2: float = port(
        4080.96, unit="J", bounds=(0.0, 1e9), doc="of the second; 0: none, nor any after it"
    )
    energy_3: float = port(8161.92, unit="J", bounds=(0.0, 1e9), doc="of the third")
    energy_4: float = port(10202.4, unit="J", bounds=(0.0, 1e9), doc="of the fourth")
    hit_x: float = port(
        0.0, unit="m", bounds=(-100.0, 100.0), doc="where the ball strikes, from the middle of the wall"
    )
    hit_z: float = port(0.0, unit="m", bounds=(-100.0, 100.0), doc="and above that middle")
    duration: float = port(
        0.1, unit="s", bounds=(1e-4, 10.0), doc="of each impact; the next ball follows at once"
    )
    settling: float = port(0.1, unit="s", bounds=(1e-4, 10.0), doc="of the wall before the first")
    dt: float = port(2.5e-4, unit="s", bounds=(1e-6, 1e-2), doc="step")
    tolerance: float = port(1e-3, bounds=(1e-12, 0.1), doc="residual of a jump, of its largest velocity")
    sweeps: int = port(500, bounds=(10, 1_000_000), doc="after which a jump is left as it is")
    seed: int = port(1, bounds=(0, 2**63 - 1), doc="of the packings and of how each lies in its box")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.energies:
            raise StudyError(
                "gabion_wall: energy_1 is 0: there is no impact; give the energies in their order"
            )
        if self.ball_diameter > 2.0 * self.side * min(self.across, self.high):
            raise StudyError(
                f"gabion_wall: a ball of {self.ball_diameter:g} m does not strike a wall of "
                f"{self.across * self.side:g} x {self.high * self.side:g} m; take a smaller one"
            )
        if abs(self.hit_x) > 0.5 * self.across * self.side or abs(self.hit_z) > 0.5 * self.high * self.side:
            raise StudyError(
                f"gabion_wall: the ball would strike at ({self.hit_x:g}, {self.hit_z:g}) m from the middle, beside a "
                f"wall of {self.across * self.side:g} x {self.high * self.side:g} m"
            )
        _refuse_ball(
            "gabion_wall", self.ball_diameter, max(self.energies), self.ball_mass, self.volume, self.dt
        )
        lightest = self.density * self.volume * (1.0 - self.dispersion) ** 3
        # at dt sqrt(k/m) = 1 a grain leaves a spring with 1.05 of its energy at most, at 1.25 with 1.55, at 2 with 9
        if self.k_ww * self.dt**2 > self.rebound * lightest:
            raise StudyError(
                f"gabion_wall: springs of k_ww/rebound = {self.k_ww / self.rebound:g} N/m behind grains of "
                f"{lightest:.2g} kg would give energy at steps of {self.dt:g} s: take dt below "
                f"{math.sqrt(self.rebound * lightest / self.k_ww):.2g} s, or softer sand"
            )
        self.packing()  # refuses what cannot be packed

    @property
    def energies(self) -> tuple[float, ...]:
        """Of the impacts, up to the first that is zero."""
        given = (self.energy_1, self.energy_2, self.energy_3, self.energy_4)
        return given[: given.index(0.0)] if 0.0 in given else given

    def packing(self, number: int = 0) -> Gabion:
        """Return the scene that packs one of its gabions, with constants of its own: those of the wall do not count.

        A grain that still falls comes to rest as the wall settles.
        """
        seed = np.random.SeedSequence((self.seed, number)).generate_state(1, np.uint64) >> np.uint64(1)
        return Gabion(
            grains=self.grains, a=self.a, b=self.b, c=self.c, d=self.d, dispersion=self.dispersion,
            vertices=self.vertices, volume=self.volume, density=self.density, side=self.side, settling=0.3, hold=1e-3,
            seed=int(seed[0]),
        )  # fmt: skip


@dataclass(frozen=True)
class Layer(Case):
    """Grains in a pit with a rigid floor and rigid sides, struck from above by a ball.

    By default rocks of 0.3 m, some 1.4 m deep, and a ball of 10 t: the order of the vertical drops of 500 to
    3000 kJ that Dimnet et al. (2013, 10.1007/s00707-013-0900-8) announce; nothing more of these tests is printed.
    """

    grains: int = port(500, bounds=(1, 20_000), doc="number of grains")
    a: float = port(
        0.078, unit="m", bounds=(1e-3, 10.0), doc="mean length of a grain, before scaling to its volume"
    )
    b: float = port(0.053, unit="m", bounds=(1e-3, 10.0), doc="mean height")
    c: float = port(0.065, unit="m", bounds=(1e-3, 10.0), doc="mean width")
    d: float = port(0.038, unit="m", bounds=(1e-3, 10.0), doc="mean length of its ridges")
    dispersion: float = port(0.23, bounds=(0.0, 0.5), doc="largest relative deviation of each of these")
    vertices: str = port(
        "",
        kind="file",
        doc="CSV with columns x, y, z: corners of another shape, scaled to the volume; empty: a, b, c, d",
    )
    volume: float = port(0.027, unit="m3", bounds=(1e-9, 1e3), doc="volume of a grain of mean dimensions")
    density: float = port(2600.0, unit="kg/m3", bounds=(100.0, 2e4), doc="density of the grains")
    width: float = port(4.0, unit="m", bounds=(1e-2, 1e3), doc="side of the square pit")
    k_n: float = port(5e-4, unit="kg", bounds=(0.0, 1e6), doc="normal constant of the pseudo-potential")
    k_t: float = port(3e-4, unit="kg", bounds=(0.0, 1e6), doc="tangential constant of the pseudo-potential")
    mu: float = port(0.5, bounds=(0.0, 10.0), doc="dry friction between grains and on planes; 0: none")
    gravity: float = port(9.81, unit="m/s2", bounds=(0.1, 1e3), doc="downwards, along -z")
    ball_mass: float = port(1e4, unit="kg", bounds=(1e-3, 1e7), doc="mass of the ball")
    ball_diameter: float = port(1.94, unit="m", bounds=(1e-2, 100.0), doc="diameter of the ball")
    energy: float = port(5e5, unit="J", bounds=(0.0, 1e9), doc="of the ball when it meets the layer")
    duration: float = port(0.5, unit="s", bounds=(1e-4, 10.0), doc="of the impact")
    settling: float = port(
        2.0, unit="s", bounds=(1e-4, 100.0), doc="of the grains before it, from a loose lattice"
    )
    dt: float = port(1e-3, unit="s", bounds=(1e-6, 1e-2), doc="step")
    tolerance: float = port(1e-4, bounds=(1e-12, 0.1), doc="residual of a jump, of its largest velocity")
    sweeps: int = port(500, bounds=(10, 1_000_000), doc="after which a jump is left as it is")
    seed: int = port(1, bounds=(0, 2**63 - 1), doc="of dimensions, places and orientations")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ball_diameter > self.width:
            raise StudyError(
                f"layer: a ball of {self.ball_diameter:g} m does not go into a pit of {self.width:g} m"
            )
        _refuse_ball("layer", self.ball_diameter, self.energy, self.ball_mass, self.volume, self.dt)
