"""The simulators of the family and their ports."""

from __future__ import annotations

from tamis.interfaces import Port
from tamis.sim.acd2 import drive
from tamis.sim.acd2.scene import Impact
from tamis.simulation import simulator
from tamis.types import Array

warm = drive.warm

_REFERENCES = (
    "Dimnet et al. 2013, doi:10.1007/s00707-013-0900-8",
    "Fremond 2007, doi:10.1007/978-3-540-37334-4",
)


@simulator(
    name="tamis:acd2.impact",
    version="1",
    inputs=Impact,
    outputs={
        "u_n": Port("u_n", unit="m/s", doc="normal velocity after the impact, positive when leaving"),
        "u_t": Port("u_t", unit="m/s", doc="tangential velocity after the impact"),
        "multiplier": Port(
            "multiplier", unit="N s", doc="percussion that keeps the grain from passing the plane"
        ),
        "dissipated": Port("dissipated", unit="J", doc="kinetic energy lost"),
    },
    references=_REFERENCES,
)
def impact(case: Impact) -> dict[str, Array]:
    """Drop a grain on a plane, by the A-CD2 method: percussions from a pseudo-potential of dissipation.

    It leaves with max(0, (k_n - 2m)/(k_n + 2m)) of its normal speed and keeps (2m - k_t)/(2m + k_t) of its tangential
    one, which a k_t above 2m turns round.
    """
    return drive.simulate_impact(case)
