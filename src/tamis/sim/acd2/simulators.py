"""The simulators of the family and their ports."""

from __future__ import annotations

from tamis.interfaces import Port
from tamis.replays import Replay
from tamis.sim.acd2 import drawing, drive
from tamis.sim.acd2.scene import Gabion, Impact
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


@simulator(
    name="tamis:acd2.gabion",
    version="2",
    inputs=Gabion,
    outputs={
        "t": Port("t", unit="s", doc="ends of the steps"),
        "side": Port("side", unit="m", doc="sides of the box along x, y, z at t"),
        "contacts": Port("contacts", doc="contacts of the jump at t"),
        "sweeps": Port("sweeps", doc="sweeps over the contacts that it took"),
        "residual": Port("residual", doc="of the jump at t, of its largest velocity"),
        "deepest": Port("deepest", unit="m", doc="deepest overlap of two grains at t"),
        "kinetic": Port("kinetic", unit="J", doc="kinetic energy after the jump at t"),
        "net_energy": Port("net_energy", unit="J", doc="energy stored in the net at t"),
        "friction": Port("friction", unit="J", doc="energy lost to dry friction until t"),
        "outside": Port("outside", unit="m3", doc="volume of the grains outside the box at t, side by side"),
        "closed": Port("closed", unit="s", doc="time at which the box had its size"),
        "extent": Port(
            "extent", unit="m", doc="of all grains along x, y, z at the end, what pokes out included"
        ),
        "solid_fraction": Port(
            "solid_fraction", doc="volume of the grains inside the box over that of the box"
        ),
        "overlap": Port("overlap", unit="m", doc="deepest overlap of two grains after settling"),
        "drift": Port("drift", unit="m", doc="largest distance that a grain has moved during hold"),
        "closure": Port(
            "closure", doc="gap in the energy books over the largest entry; round-off if all is well"
        ),
        "x": Port("x", unit="m", doc="centres of the grains at the end"),
        "q": Port("q", doc="unit quaternions of their principal axes at the end"),
    },
    references=(*_REFERENCES, "Sutherland & Hodgman 1974, doi:10.1145/360767.360802"),
)
def gabion(case: Gabion) -> dict[str, Array]:
    """Pack grains into a box of wire net: from a lattice, by sides that close in, until they are at rest.

    A grain is pushed back by k_net times its volume outside the box. The box closes without gravity and friction, and
    fails to close where the grains push harder than `hardest` all the time; then both act, on the net as well.
    """
    return drive.simulate_gabion(case)


@gabion.replay
def _show_gabion(case: Gabion, fps: float) -> Replay:
    return drawing.show_gabion(case, fps)
