"""Slack cables and bars that slide in bars: nothing until the play is used up, then what a rigid limit must do."""

import math

import numpy as np
import pytest

from tamis import StudyError
from tamis.sim.common.rotations import matrices
from tamis.sim.nscd import AxialStop, Body, Box, Part, Rest, Scene, Sphere, about, run

G = 9.81
HOOK = Body("hook", [Part(Sphere(0.05), "hook")], fixed=True)


def ball(name="ball", **given):
    return Body(name, [Part(Sphere(0.1), name)], **{"mass": 2.0, **given})


def hung(e=0.0, **given):
    cable = AxialStop("hook", "ball", longest=1.0, e=e, name="cable")
    return Scene([HOOK, ball(**given)], stops=[cable], ignore=[("hook", "ball")])


@pytest.mark.parametrize("e", [0.0, 0.4, 1.0])
def test_a_falling_body_is_caught_by_its_cable(e):
    """It falls by sqrt(1 - 0.3^2) - 0.1, then loses the velocity along the cable, or has it back e-fold."""
    h = 1e-4
    history = run(hung(e, position=(0.3, 0.0, -0.1)), 0.6, h=h, contacts=True)
    taut = math.sqrt(2.0 * (math.sqrt(1.0 - 0.09) - 0.1) / G)
    first = int(history.contacts.instant[0])
    assert abs(history.times[first] - taut) <= h  # within the step in which it closes
    free = history.velocity("ball")[first - 1]
    along = history.path("ball")[first] / np.linalg.norm(history.path("ball")[first])
    np.testing.assert_allclose(free, [0.0, 0.0, -G * history.times[first - 1]], atol=1e-12)
    # the step's own weight and the turn of the cable within it: 2 h g
    np.testing.assert_allclose(
        history.velocity("ball")[first], free - (1.0 + e) * (free @ along) * along, atol=2 * h * G
    )
    lost = 0.5 * 2.0 * (1.0 - e**2) * (free @ along) ** 2
    assert -history.ledger.impact[first, 0] == pytest.approx(lost, abs=2 * 2.0 * G * h * 4.0)  # m g h v
    assert history.ledger.laws == ("cable",)
    assert history.ledger.closure < 1e-12
    length = np.linalg.norm(history.path("ball"), axis=1)
    assert length.max() < 1.0 + 4.1 * h  # what it covers in one step


def test_a_body_at_rest_on_a_cable_hangs_by_its_weight():
    history = run(hung(position=(0.0, 0.0, -1.0)), 0.5, contacts=True)
    assert np.abs(history.path("ball") - [0.0, 0.0, -1.0]).max() < 1e-12
    force = history.contacts.impulse / 1e-3
    np.testing.assert_allclose(force, np.broadcast_to([0.0, 0.0, 2.0 * G], force.shape), atol=1e-9)


@pytest.mark.parametrize("e", [0.0, 0.5])
def test_two_free_bodies_share_their_momentum(e):
    """Off-centre anchors: momentum and moment of momentum are kept, the rate of the length is reversed e-fold."""
    bodies = [
        Body("a", [Part(Box((0.2, 0.4, 0.3)))], mass=3.0, spin=(0.3, -0.2, 0.5)),
        Body("b", [Part(Box((0.5, 0.2, 0.2)))], mass=1.0, position=(0.8, 0, 0), velocity=(2.0, 0.4, -0.3)),
    ]
    cable = AxialStop("a", "b", (0.1, 0.2, 0.15), (-0.25, 0.1, -0.1), longest=0.7, e=e)
    history = run(Scene(bodies, gravity=(0, 0, 0), stops=[cable]), 0.5, h=1e-4, contacts=True)
    masses = np.array([3.0, 1.0])
    momentum = np.einsum("b,tbi->ti", masses, history.v[:, :, :3])
    np.testing.assert_allclose(momentum, np.broadcast_to([2.0, 0.4, -0.3], momentum.shape), atol=1e-12)
    moment = np.cross(history.x, masses[:, None] * history.v[:, :, :3]).sum(axis=1)
    for i, body in enumerate(history.scene.bodies):
        inertia = body.inertial()[2]
        moment += np.einsum("tij,tj->ti", history.rotations(i), inertia * history.v[:, i, 3:])
    first = int(history.contacts.instant[0])
    # the impulse acts at the predicted end of the step, the bodies move by the mean: 0.54 h at 4e-4, 2e-4 and 1e-4
    np.testing.assert_allclose(moment, np.broadcast_to(moment[0], moment.shape), atol=1e-4)
    ends = [history.path("a", cable.at_one), history.path("b", cable.at_other)]
    speeds = [history.velocity("a", cable.at_one), history.velocity("b", cable.at_other)]
    line = ends[1] - ends[0]
    rate = np.einsum("ti,ti->t", line, speeds[1] - speeds[0]) / np.linalg.norm(line, axis=1)
    assert rate[first] == pytest.approx(-e * rate[first - 1], abs=1e-3)  # the line turns by h times the speed
    assert history.ledger.closure < 1e-12


def test_a_foot_rubs_on_its_plate():
    """A block on three feet, which are stops along the plate's axis: it slides and stops as a block on a plane."""
    plate = Body("plate", [Part(Box((4.0, 4.0, 0.1)), "plate")], fixed=True, position=(0.0, 0.0, -0.05))
    block = ball("block", position=(0.0, 0.0, 0.5), velocity=(1.0, 0.0, 0.0))
    feet = [(0.3, 0.0, -0.5), (-0.2, 0.25, -0.5), (-0.2, -0.25, -0.5)]
    up = (0.0, 0.0, 1.0)
    stops = [AxialStop("plate", "block", (0.0, 0.0, 0.05), at, shortest=0.0, axis=up, mu=0.2) for at in feet]
    history = run(Scene([plate, block], stops=stops, ignore=[("plate", "block")]), 0.7)
    rub = np.maximum(1.0 - 0.2 * G * history.times, 0.0)
    np.testing.assert_allclose(history.velocity("block")[:, 0], rub, atol=0.2 * G * 1e-3)  # of the last step
    assert np.abs(history.path("block")[:, 2] - 0.5).max() < 1e-9
    assert history.ledger.friction[-1, 0] == pytest.approx(-1.0, rel=1e-9)  # m v^2/2


def sliding(e=0.0, turn=(1.0, 0.0, 0.0, 0.0), spin=(0.0, 0.0, 0.0), aside=0.0):
    """A bead along the x axis of a heavy bar, between 0.2 and 0.5 m from its middle."""
    bar = Body("bar", [Part(Box((2.0, 0.1, 0.1)), "bar")], mass=1e6, spin=spin)
    bead = ball("bead", mass=1.0, position=(0.3, 0.5, 0.0), velocity=(1.0, aside, 0.0))
    stop = AxialStop("bar", "bead", axis=(2.0, 0.0, 0.0), shortest=0.2, longest=0.5, e=e)
    scene = Scene([bar, bead], gravity=(0, 0, 0), stops=[stop], ignore=[("bar", "bead")])
    return scene.turned(turn)


@pytest.mark.parametrize("turn", [(1.0, 0.0, 0.0, 0.0), about((1, 2, 3), 70.0)])
def test_a_bead_runs_to_and_fro_between_its_limits(turn):
    """At unit speed and e = 1 the play of 0.3 m is a period of 0.6 s, away from the axis as well as on it."""
    history = run(sliding(1.0, turn), 3.0)
    way = about((1, 2, 3), 70.0) if turn[0] != 1.0 else turn
    axis = run(sliding(1.0, way), 1e-3).rotations(0)[0][:, 0] if turn[0] != 1.0 else np.array([1.0, 0.0, 0.0])
    place = history.path("bead") @ axis
    assert place.min() > 0.2 - 1e-3 and place.max() < 0.5 + 1e-3  # within a step of the limits
    turns = np.flatnonzero(np.diff(np.sign(np.diff(place))))
    np.testing.assert_allclose(np.diff(history.times[turns]), 0.3, atol=2.1e-3)  # each within a step, twice


def test_the_axis_turns_with_its_body():
    """A bead held against the limit of a bar that spins: along the bar it has the velocity of the bar at its place."""
    drift = []
    for h in (2e-3, 1e-3):
        history = run(sliding(spin=(0.0, 0.0, 1.0), aside=1.0), 0.5, h=h, contacts=True)
        assert (
            len(np.unique(history.contacts.instant)) > 0.3 / h
        )  # centrifugal and Coriolis forces hold it there
        axis = history.rotations(0)[:, :, 0]
        place = np.einsum("ti,ti->t", history.path("bead") - history.path("bar"), axis)
        held = slice(history.contacts.instant[0] + 1, history.contacts.instant[-1])
        drift.append(np.ptp(place[held]))
        carried = np.cross([0.0, 0.0, 1.0], history.path("bead"))
        rate = np.einsum("ti,ti->t", history.velocity("bead") - carried, axis)
        assert np.abs(rate[held]).max() < 1e-5  # the bar of 1e6 kg is slowed down by 5e-6
    assert (
        drift[0] < 1e-6 and drift[1] < 0.3 * drift[0]
    )  # the limit drifts by the trapezoidal rule: second order


def test_cost_nothing_and_do_nothing_while_slack():
    free = run(Scene([ball(velocity=(0.5, 0.0, 0.0))]), 0.2)
    tied = run(hung(velocity=(0.5, 0.0, 0.0)), 0.2)
    assert tied.solver.contacts.max() == 0
    assert (tied.path("ball") == free.path("ball")).all()


def test_a_limit_that_is_passed_at_the_start_is_refused_or_restored():
    with pytest.raises(StudyError, match=r'"hook" and "ball" pass the limit of their stop by 0\.2 m') as said:
        run(hung(position=(0.0, 0.0, -1.2)), 0.1)
    assert "separate" in str(said.value)
    with pytest.warns(match=r"pass the limit .* by 0\.2 m"):
        history = run(hung(position=(0.0, 0.0, -1.2)), 0.1, overlap="separate")
    assert history.path("ball")[0, 2] == pytest.approx(-1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give longest, the length at which it is taut, or shortest"),
        ({"longest": -1.0}, r"longest must be finite and, without an axis, positive, found -1\.0"),
        ({"longest": 0.1, "shortest": 0.2}, "shortest must lie below longest"),
        ({"longest": 1.0, "axis": (0, 0, 0)}, "axis is a direction other than zero"),
        ({"longest": 1.0, "e": 1.5}, "e must lie between 0 and 1"),
        ({"longest": 1.0, "mu": 0.2}, "mu must be zero .* found 0.2; only a stop with an axis"),
        ({"longest": "1 m"}, "longest must be a number, found '1 m'"),
        ({"longest": 1.0, "at_one": (0, 0)}, "at_one must be 3 finite numbers"),
    ],
)
def test_a_stop_that_means_nothing_is_refused(given, message):
    with pytest.raises(StudyError, match=message):
        AxialStop("hook", "ball", **given)


def test_stops_join_two_bodies_of_the_scene_of_which_one_moves():
    with pytest.raises(StudyError, match="joins two bodies, found one"):
        AxialStop("ball", "ball", longest=1.0)
    with pytest.raises(StudyError, match='names the body "bal", which is not there; did you mean "ball"'):
        Scene([HOOK, ball()], stops=[AxialStop("hook", "bal", longest=1.0)])
    with pytest.raises(StudyError, match="neither hook nor ball can move"):
        Scene([HOOK, ball(mass=None, fixed=True)], stops=[AxialStop("hook", "ball", longest=1.0)])


def test_cables_are_drawn_at_their_length():
    history = run(hung(position=(0.3, 0.0, -0.1)), 0.6, record=0.1)
    drawn = history.replay()
    halves = [b for b, shape in enumerate(drawn.shapes) if shape.group == "cable"]
    assert len(halves) == 2
    ends = []
    for b in halves:
        points = drawn.shapes[b].points
        assert np.linalg.norm(points[1] - points[0]) == pytest.approx(0.5)
        turned = matrices(drawn.poses[:, b, 3:])
        ends.append(drawn.poses[:, b, :3, None].swapaxes(1, 2) + points @ turned.swapaxes(1, 2))
    np.testing.assert_allclose(ends[0][:, 0], np.zeros((7, 3)), atol=1e-6)  # single precision
    np.testing.assert_allclose(ends[1][:, 0], history.path("ball"), atol=1e-6)
    np.testing.assert_allclose(
        ends[0][:-1, 1], ends[1][:-1, 1], atol=2e-3
    )  # they meet; taut, within a step of it
    assert (ends[0][:3, 1, 2] < history.path("ball")[:3, 2]).all()  # and sag while slack


def test_a_pendulum_that_never_rests_runs_to_the_end():
    history = run(hung(position=(1.0, 0.0, 0.0)), 0.3, rest=Rest(1e-3, 0.05))
    assert math.isnan(history.rest) and history.times[-1] == pytest.approx(0.3)
