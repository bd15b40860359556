"""What collides by the A-CD2 method: one grain on a plane, the grains of a gabion."""

from __future__ import annotations

from dataclasses import dataclass

from tamis.errors import StudyError
from tamis.interfaces import Case, port


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
    settling: float = port(0.3, unit="s", bounds=(1e-3, 100.0), doc="time to come to rest once it has closed")
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
