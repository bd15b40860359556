"""The simulators of the family and their ports."""

from __future__ import annotations

from tamis.interfaces import Port
from tamis.replays import Replay
from tamis.sim.acd2 import drawing, drive, wall
from tamis.sim.acd2.layer import simulate_layer
from tamis.sim.acd2.scene import Gabion, GabionWall, Impact, Layer
from tamis.simulation import simulator
from tamis.types import Array

_REFERENCES = (
    "Dimnet et al. 2013, doi:10.1007/s00707-013-0900-8",
    "Fremond 2007, doi:10.1007/978-3-540-37334-4",
)


def warm() -> None:
    """Compile every kernel of the family, once, before several processes or threads need them."""
    drive.simulate_impact(Impact())
    drive.simulate_gabion(Gabion(grains=2, side=0.2, settling=2e-3, hold=2e-3))
    simulate_layer(  # as a wall, with which it shares its engine
        Layer(grains=8, width=1.4, ball_diameter=0.6, energy=0.0, duration=1e-3, settling=0.5, tolerance=0.1)
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
    version="3",
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
    fails to close where the grains push harder than `hardest` all the time; then both act, on the net as well, and
    overlaps that closing has left are undone before the grains are held.
    """
    return drive.simulate_gabion(case)


@gabion.replay
def _show_gabion(case: Gabion, fps: float) -> Replay:
    return drawing.show_gabion(case, fps)


_STEPS = {
    "contacts": Port("contacts", doc="contacts of the jump at t"),
    "sweeps": Port("sweeps", doc="sweeps over the contacts that it took"),
    "residual": Port("residual", doc="of the jump at t, of its largest velocity"),
    "deepest": Port("deepest", unit="m", doc="deepest overlap at t"),
    "kinetic": Port("kinetic", unit="J", doc="kinetic energy after the jump at t, the ball's included"),
    "weight_work": Port("weight_work", unit="J", doc="work done by the weights since the start"),
    "lost_normal": Port("lost_normal", unit="J", doc="by k_n since the start"),
    "lost_tangential": Port("lost_tangential", unit="J", doc="by k_t since the start"),
    "lost_friction": Port("lost_friction", unit="J", doc="by dry friction since the start"),
    "lost_reactive": Port(
        "lost_reactive", unit="J", doc="by contacts that close without rebound, since the start"
    ),
    "closure": Port(
        "closure", doc="gap in the energy books over the largest entry; round-off if all is well"
    ),
    "momentum_closure": Port(
        "momentum_closure",
        doc="gap in the momentum books of a step, imbalance of nets included, over that at the start of an impact",
    ),
    "q": Port("q", doc="unit quaternions of the grains' principal axes at the end"),
}


@simulator(
    name="tamis:acd2.gabion_wall",
    version="3",
    inputs=GabionWall,
    outputs={
        "t": Port("t", unit="s", doc="ends of the steps, from the start of the first impact on"),
        **{
            name: Port(
                name,
                unit="N",
                doc=f"force on the sand behind the {quarter} quarter of the central gabion at t",
            )
            for name, quarter in zip(wall.SENSORS, wall.QUARTERS, strict=True)
        },
        "force": Port("force", unit="N", doc="force on the sand behind the whole wall at t"),
        "a1": Port("a1", unit="m/s2", doc="acceleration of the ball along y in the jump at t"),
        "a2": Port(
            "a2", unit="m/s2", doc="along y, of the grain in the middle of the back of the central gabion"
        ),
        "a3": Port(
            "a3", unit="m/s2", doc="to the left (-x), of a grain left of the middle of the central gabion"
        ),
        "a4": Port(
            "a4", unit="m/s2", doc="to the right (x), of a grain right of the middle of the central gabion"
        ),
        "ball_speed": Port("ball_speed", unit="m/s", doc="velocity of the ball along y after the jump at t"),
        "penetration": Port(
            "penetration", unit="m", doc="way of the ball from where it can first touch the wall"
        ),
        "back": Port(
            "back",
            unit="m",
            doc="mean displacement along y of the back of the central gabion since before the first impact",
        ),
        "back_largest": Port("back_largest", unit="m", doc="largest of a grain of the back of the wall"),
        "weight_energy": Port(
            "weight_energy", unit="J", doc="energy of the grains' height over the floor at t"
        ),
        "sand_energy": Port("sand_energy", unit="J", doc="energy stored in the sand at t"),
        "sand_work": Port("sand_work", unit="J", doc="work done by the sand on the grains since the start"),
        "net_energy": Port("net_energy", unit="J", doc="energy stored in the nets at t"),
        "net_work": Port("net_work", unit="J", doc="work done by the nets on the grains since the start"),
        "net_imbalance": Port(
            "net_imbalance",
            doc="impulse of all nets in the jump at t over the largest momentum of the ball; 0 where they balance",
        ),
        "displacement": Port("displacement", unit="m", doc="largest back_largest in each impact"),
        "back_peak": Port("back_peak", unit="m", doc="largest back in each impact"),
        "back_left": Port("back_left", unit="m", doc="back at the end of each impact"),
        "force_peak": Port("force_peak", unit="N", doc="largest force in each impact"),
        "central_peak": Port("central_peak", unit="N", doc="largest f1 + f2 + f3 + f4 in each impact"),
        "ball_left": Port("ball_left", unit="m/s", doc="velocity of the ball at the end of each impact"),
        "x": Port(
            "x", unit="m", doc="centres of the grains at the end, gabion by gabion from the lower left on"
        ),
        **_STEPS,
        "box": Port("box", unit="m", doc="centres of the boxes of the nets at the end"),
    },
    references=_REFERENCES,
)
def gabion_wall(case: GabionWall) -> dict[str, Array]:
    """Strike a wall of gabions several times: grains in nets, on the floor, between two sides, before a bed of sand.

    The nets go with their grains. The sand is a bed of springs of k_ww, one behind each grain of the back, that push
    and do not pull.
    """
    return wall.simulate_wall(case)


@gabion_wall.replay
def _show_wall(case: GabionWall, fps: float) -> Replay:
    return drawing.show_wall(case, fps)


@simulator(
    name="tamis:acd2.layer",
    version="2",
    inputs=Layer,
    outputs={
        "t": Port("t", unit="s", doc="ends of the steps, from the start of the impact on"),
        "floor": Port("floor", unit="N", doc="percussions on the floor in the jump at t over the step"),
        "ball_speed": Port(
            "ball_speed", unit="m/s", doc="velocity of the ball downwards after the jump at t"
        ),
        "a1": Port("a1", unit="m/s2", doc="acceleration of the ball downwards in the jump at t"),
        "penetration": Port(
            "penetration", unit="m", doc="way of the ball from where it can first touch the layer"
        ),
        "depth": Port("depth", unit="m", doc="largest penetration"),
        "thickness": Port(
            "thickness", unit="m", doc="of the layer before the impact: mean of the top of each column"
        ),
        **_STEPS,
        "x": Port("x", unit="m", doc="centres of the grains at the end"),
    },
    references=_REFERENCES,
)
def layer(case: Layer) -> dict[str, Array]:
    """Drop a ball on a layer of grains between a rigid floor and rigid sides.

    Bodies are rigid: what reaches the floor in one step is a percussion, and the peak of its force depends on the
    step and on the filter that it is read through.
    """
    return simulate_layer(case)


@layer.replay
def _show_layer(case: Layer, fps: float) -> Replay:
    return drawing.show_layer(case, fps)
