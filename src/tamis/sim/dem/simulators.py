"""The simulators of the family and their ports."""

from __future__ import annotations

from tamis.interfaces import Port
from tamis.sim.dem import drive
from tamis.sim.dem.scene import Impact
from tamis.simulation import simulator
from tamis.types import Array

warm = drive.warm

_OUTPUTS = {
    "cnr": Port("cnr", doc="coefficient of normal restitution: normal speed after over before"),
    "ctr": Port(
        "ctr",
        doc="coefficient of tangential restitution: tangential velocity of the centre after over before; at "
        "angle 0 without spin, its limit",
    ),
    "spin_out": Port("spin_out", unit="rad/s", doc="angular velocity after impact, signed as spin"),
    "contact_time": Port(
        "contact_time", unit="s", doc="from touch until the normal force has come back to zero"
    ),
    "peak_force": Port("peak_force", unit="N", doc="greatest normal force"),
    "t": Port("t", unit="s", doc="201 equally spaced instants of the contact"),
    "F_n": Port("F_n", unit="N", doc="normal force on the sphere at t, away from the wall"),
    "F_t": Port("F_t", unit="N", doc="tangential force on the sphere at t, along its tangential velocity"),
    "xi": Port("xi", unit="m", doc="overlap of sphere and wall at t"),
}


@simulator(
    name="tamis:dem.impact",
    version="2",
    inputs=Impact,
    outputs=_OUTPUTS,
    references=(
        "Hadjidoukas et al. 2014, doi:10.1016/j.cma.2014.07.017",
        "Cundall & Strack 1979, doi:10.1680/geot.1979.29.1.47",
        "Tsuji, Tanaka & Ishida 1992, doi:10.1016/0032-5910(92)88030-L",
        "Kuwabara & Kono 1987, doi:10.1143/JJAP.26.1230",
        "Schwager & Poeschel 2007, doi:10.1007/s10035-007-0065-z",
    ),
)
def impact(case: Impact) -> dict[str, Array]:
    """Throw a sphere at a wall of its own material; return restitution coefficients and contact forces.

    Hertz spring and power-law dashpot along the normal, never attractive; tangential spring capped by
    friction. Contact ends when the normal force vanishes. The defaults are the steel sphere calibrated by
    Hadjidoukas et al. (2014), near its posterior mean.
    """
    return drive.simulate(case)


impact.batch(outputs=drive.RESULTS)(drive.simulate_many)
