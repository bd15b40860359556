"""The simulators of the family and their ports."""

from __future__ import annotations

from tamis.interfaces import Port
from tamis.sim.motions import drive
from tamis.sim.motions.scene import Motion
from tamis.simulation import simulator
from tamis.types import Array

warm = drive.warm

_OUTPUTS = {
    "t": Port("t", unit="s", doc="instants of the samples, the first at 0"),
    "a": Port("a", unit="m/s2", doc="ground acceleration at t"),
    "q": Port("q", unit="m/s2", doc="modulating function at t: the standard deviation of a over all seeds"),
}


@simulator(
    name="tamis:motions.filtered_noise",
    version="1",
    inputs=Motion,
    outputs=_OUTPUTS,
    references=(
        "Rezaeian & Der Kiureghian 2010, doi:10.1002/eqe.997",
        "Rezaeian & Der Kiureghian 2008, doi:10.1002/eqe.831",
    ),
)
def filtered_noise(case: Motion) -> dict[str, Array]:
    """Make an accelerogram: white noise through a filter of changing frequency, modulated in time.

    The modulating function has the Arias intensity and the times asked for; a single motion has them on average. The
    frequency of the filter changes linearly, not below a floor.
    """
    return drive.simulate(case)


filtered_noise.batch(drive.simulate_many)
