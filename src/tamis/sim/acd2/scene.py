"""What collides by the A-CD2 method: one grain on a plane."""

from __future__ import annotations

from dataclasses import dataclass

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
