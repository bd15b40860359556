"""The articulated wall: its geometry, that it stands, and what its parts do when it is struck."""

import math
from itertools import pairwise

import numpy as np
import pytest

from tamis.sim.common.shapes import mass_of
from tamis.sim.nscd import Rest, run
from tamis.sim.nscd.scenes.rockfall import ArticulatedWall

HOLES = ("rings", "bores")
LINES = 20  # hinge lines


def drift(history):
    """How far each body but the rock is from where it began, at the end."""
    own = [i for i, body in enumerate(history.scene.bodies) if body.name != "rock"]
    return np.linalg.norm(history.x[-1, own] - history.x[0, own], axis=1)


def test_the_parts_are_those_of_the_paper():
    scene = ArticulatedWall().scene()
    names = scene.names()
    blocks = [name for name in names if name.startswith("r") and name != "rock"]
    masses = [scene.bodies[scene.number(name)].mass for name in blocks]
    assert len(names) == 144 and len(blocks) == 42 and masses.count(900.0) == 4
    assert sum(name.startswith("bar") for name in names) == 5 * LINES
    kinds = [stop.name for stop in scene.stops]
    assert kinds.count("sling") == 6 * LINES and kinds.count("foot") == 3 * 4 * LINES
    rock = scene.bodies[scene.number("rock")]
    assert rock.mass == 2600.0
    assert mass_of(rock.parts[0].shape).volume == pytest.approx(1.002, abs=5e-4)  # 2595 kg/m3
    bar = scene.bodies[scene.number("bar03_1")]
    assert bar.mass == pytest.approx(20.8, rel=0.01)  # tubes of 139.7 and 123.7 mm


@pytest.mark.parametrize(
    ("pattern", "angle", "length"), [("zigzag", 22.5, 15.07), ("zigzag", 29.4, 14.31), ("rows", 45.0, 14.19)]
)
def test_every_hole_is_on_its_hinge_line_and_neighbours_are_40_mm_apart(pattern, angle, length):
    wall = ArticulatedWall(pattern=pattern, angle=angle)
    plan, start = wall.plan, run(wall.scene(), 1e-3)
    for row in range(4):
        for line in range(LINES):
            name, x = plan.block(row, line)
            at = start.path(name, (x, 0.0, 0.0))[0]
            np.testing.assert_allclose(at[:2], plan.hinge(line), atol=1e-12)
            assert at[2] == pytest.approx((row + 0.5) * 0.8, abs=1e-9)  # a step under gravity
    ends = [plan.hinge(line) for line in range(LINES)]
    assert all(math.dist(a, b) == pytest.approx(0.8) for a, b in pairwise(ends))
    assert pytest.approx(0.04) == plan.pitch - 2 * plan.round_end
    corners = [
        start.path(body.name, np.add(part.centre, (x, y, 0.0)))[0, 1]
        for body in start.scene.bodies
        for part in body.parts
        if part.group == "core"
        for x in 0.5 * part.shape.sides[0] * np.array([-1.0, 1.0])
        for y in (-0.38, 0.38)
    ]
    assert plan.length == pytest.approx(np.ptp(corners), abs=1e-6) == pytest.approx(length, abs=0.005)
    np.testing.assert_allclose(plan.bars, [(0.0, 0.4), (0.4, 1.2), (1.2, 2.0), (2.0, 2.8), (2.8, 3.2)])


@pytest.mark.parametrize("holes", HOLES)
def test_it_stands_still(holes):
    """No warning is given: what overlaps without a law is declared. The rock stands beside the wall."""
    history = run(ArticulatedWall(speed=0.0, height=0.56, holes=holes).scene(), 0.03, tol=1e-6)
    assert drift(history).max() < 1e-7
    assert history.ledger.closure < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("holes", "v_p", "residual"),
    [("rings", 0.1, ArticulatedWall.residual), ("rings", 0.071, 1e-6), ("bores", 0.071, 1e-6)],
)
def test_it_stands_still_for_two_seconds(holes, v_p, residual):
    """At the residual of the studies with the largest play of their prior: below 0.1 mm, which 1e-3 passed fivefold."""
    wall = ArticulatedWall(speed=0.0, height=0.56, holes=holes, v_p=v_p, residual=residual)
    history = run(wall.scene(), 2.0, tol=wall.allowed, record=0.1)
    assert drift(history).max() < 1e-4
    assert history.ledger.closure < 1e-12 and history.solver.converged.all()


@pytest.mark.slow
@pytest.mark.parametrize("holes", HOLES)
def test_slings_and_holes_hold_when_it_is_struck(holes):
    """Bars stay in their holes and in their chain: beyond its play a stop goes by what is covered in one step."""
    wall = ArticulatedWall(holes=holes)
    history = run(wall.scene(), 0.3, tol=1e-6, record=5e-3)
    assert history.ledger.closure < 1e-12
    play = wall.v_p / 6.0
    fastest = 12.0 * 1e-3  # no block goes faster than 12 m/s, in one step
    for stop in history.scene.stops:
        i = history.scene.number(stop.one)
        way = history.path(stop.other, stop.at_other) - history.path(stop.one, stop.at_one)
        length = np.einsum("ti,ti->t", way, history.rotations(i)[:, :, 2])
        assert length.max() < play + fastest or stop.longest is None
        assert length.min() > -fastest or stop.shortest is None
    held = 0.4 - (
        2 * wall.d_z if holes == "rings" else 0.0
    )  # between the outer rings of a bar's end, or all of it
    most = (
        wall.hole - wall.tube
    ) / held + 2 * fastest / held  # the play, and what both ends cover in one step
    for line in range(LINES):
        for k in range(1, 4):
            pair = f"bar{line:02d}_{k}", wall.plan.block(k - 1, line)[0]
            ways = [history.rotations(history.scene.number(name))[:, :, 2] for name in pair]
            assert np.arccos(np.einsum("ti,ti->t", *ways)).max() < most
    assert history.path("r3_05")[-1, 0] - history.path("r3_05")[0, 0] > 0.3


def test_a_wall_that_is_not_struck_is_at_rest():
    wall = ArticulatedWall(speed=0.0, height=0.56)
    history = run(
        wall.scene(), 0.5, tol=1e-6, rest=Rest(0.5, 0.01), record=0.1
    )  # the rock falls by a centimetre
    assert history.rest < 0.1 and history.times[-1] == pytest.approx(history.rest + 0.01)
