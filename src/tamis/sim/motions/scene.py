"""What an accelerogram is to be like: how strong, how long, how fast its waves are, and which noise it is made of."""

from __future__ import annotations

from dataclasses import dataclass

from tamis.interfaces import Case, port


@dataclass(frozen=True)
class Motion(Case):
    """A ground motion of the model of Rezaeian and Der Kiureghian (2010, 10.1002/eqe.997).

    The default is the middle of the ranges that the SERA deliverable D27.1 (2019), Table D.3, fitted to records of
    Northridge, with its rate of change.
    """

    arias: float = port(
        2.0,
        unit="m/s",
        bounds=(1e-9, 1e3),
        doc="Arias intensity that motions of these parameters have on average",
    )
    d5_95: float = port(
        10.9,
        unit="s",
        bounds=(0.1, 300.0),
        doc="time from 5 to 95 % of the energy of the modulating function",
    )
    t45: float = port(3.6, unit="s", bounds=(0.05, 300.0), doc="time until 45 % of that energy")
    omega_mid: float = port(22.8, unit="rad/s", bounds=(0.5, 600.0), doc="frequency of the filter at t45")
    omega_rate: float = port(
        -0.568, unit="rad/s2", bounds=(-50.0, 50.0), doc="rate of change of that frequency"
    )
    zeta: float = port(
        0.3, bounds=(0.01, 0.99), doc="damping ratio of the filter: how broad the band of frequencies is"
    )
    seed: int = port(
        1, bounds=(0, 2**63 - 1), doc="of the noise; the first seconds do not depend on the duration"
    )
    duration: float = port(40.0, unit="s", bounds=(0.1, 1000.0), doc="time from the first to the last sample")
    dt: float = port(
        0.01, unit="s", bounds=(1e-4, 0.1), doc="time between samples, and between pulses of the noise"
    )
    floor: float = port(
        0.3, unit="Hz", bounds=(0.01, 10.0), doc="least frequency of the filter, wherever its rate leads"
    )
    corner: float = port(
        0.0,
        unit="Hz",
        bounds=(0.0, 5.0),
        doc="of a filter that takes residual velocity and displacement off, and some intensity with them; 0: none",
    )
