"""A struck layer: its books, what reaches the floor, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tamis.errors import StudyError, TamisWarning
from tamis.sim.acd2 import layer, simulators, struck
from tamis.sim.acd2.scene import Layer

SMALL = {
    "grains": 24,
    "width": 1.7,
    "ball_mass": 500.0,
    "ball_diameter": 0.8,
    "energy": 1e4,
    "settling": 2.0,
    "duration": 0.15,
    "sweeps": 20_000,
}


def test_a_layer_stops_a_ball_and_its_books_close() -> None:
    found = layer.simulate_layer(Layer(**SMALL))
    assert found["closure"] < 1e-11 and found["momentum_closure"] < 1e-9  # round-off
    lost = sum(found[f"lost_{how}"] for how in ("normal", "tangential", "friction", "reactive"))
    change = np.diff(found["kinetic"])
    assert change == pytest.approx(np.diff(found["weight_work"] - lost), abs=1e-7)  # of 1e4 J
    assert abs(found["ball_speed"][-1]) < 0.1 * found["ball_speed"][0]
    assert 0.0 < found["depth"] < found["thickness"]
    assert found["x"][:, 2].min() > 0.0


def test_floor_and_sides_carry_the_weights_and_take_the_momentum() -> None:
    case = Layer(**SMALL)
    run = layer.strike(case)
    mass, planes = run.grains.mass[: run.wall.moving, 0], run.signals.planes[run.settled :]
    down = -(mass @ run.state.v[: run.wall.moving, 2]), -run.momentum[0, 2]
    assert down[1] == pytest.approx(
        np.sqrt(2 * 1e4 * 500.0), rel=0.03
    )  # the ball's; grains at rest to MOVING
    assert mass.sum() == pytest.approx(500.0 + 2600.0 * 0.027 * 24, rel=0.1)  # of scattered grains
    taken = 9.81 * mass.sum() * 0.15 + down[1] - down[0]
    assert planes[:, :, 2].sum() == pytest.approx(taken, rel=1e-11)  # round-off of 150 steps
    assert abs(planes[:, 1:, 2].sum()) < 0.1 * planes[:, 0, 2].sum()  # the sides give friction only


def test_rocks_may_be_given_by_their_vertices(tmp_path: Path) -> None:
    path = tmp_path / "wedge.csv"
    path.write_text("x,y,z\n0,0,0\n8,0,0\n0,6,0\n0,0,5\n8,0,5\n")
    built = layer.build(Layer(**SMALL | {"vertices": str(path), "width": 2.0}))
    assert {len(shape.points) for shape in built.shapes} == {5} and len(built.shapes) == 24


def test_a_layer_that_is_not_at_rest_says_so() -> None:
    with pytest.warns(
        TamisWarning, match=r"not at rest .* it has 1e\+04 J; let them settle for longer than 1 s"
    ):
        layer.strike(Layer(**SMALL | {"settling": 1.0, "duration": 1e-3}))


def test_grains_that_are_still_falling_are_not_struck() -> None:
    with pytest.raises(StudyError, match=r"fall for .* s: let it settle for longer than that, found 0.1 s"):
        layer.build(Layer(**SMALL | {"settling": 0.1}))


def test_what_does_not_go_into_a_pit_is_refused() -> None:
    with pytest.raises(StudyError, match=r"a ball of 1.94 m does not go into a pit of 1.5 m"):
        Layer(width=1.5)
    with pytest.raises(StudyError, match=r"holds no two grains of .* m side by side"):
        layer.build(Layer(width=0.5, ball_diameter=0.3))
    with pytest.raises(StudyError, match=r"a ball of 0.1 m is smaller than a grain, of 0.3 m"):
        Layer(ball_diameter=0.1)
    with pytest.raises(StudyError, match=r"447 m/s goes 0.45 m in a step .* take dt below 0.00034 s"):
        Layer(energy=1e9)


def test_warming_compiles_the_engine_of_struck_scenes() -> None:
    simulators.warm()
    before = len(struck.strike.signatures)
    layer.strike(Layer(**SMALL | {"settling": 0.9, "duration": 1e-3, "energy": 0.0}))
    assert len(struck.strike.signatures) == before > 0
