"""Cylinders that spin on their flat ends, and bars that slide and lean in bores, against closed forms."""

import math

import numpy as np
import pytest

from tamis.sim.nscd import Body, Bore, Box, Cylinder, HalfSpace, Law, Part, Scene, about, run

G = 9.81
R, MASS, MU, SPIN = 0.38, 900.0, 0.3, 2.0
FLOOR = Body("floor", [Part(HalfSpace(), "floor")], fixed=True)


def spinning(under, height, turn=0.0, aside=0.0):
    top = Body(
        "top",
        [Part(Cylinder(R, 0.8), "top")],
        mass=MASS,
        position=(aside, 0.0, height + 0.4),
        orientation=about((0, 0, 1), turn),
        spin=(0.0, 0.0, SPIN),
    )
    return Scene([under, top], [Law(under.parts[0].group, "top", MU)])


def torque(scene, axis=(0.0, 0.0, 1.0)):
    """The torque that slows the top down over mu N R, the largest that friction under its end can have."""
    duration = 0.05
    history = run(scene, duration)
    i = history.scene.number("top")
    left = history.rotations(i)[-1] @ history.v[-1, i, 3:] @ np.asarray(axis)
    return (SPIN - left) / duration * 0.5 * MASS * R**2 / (MU * MASS * G * R)


def post(shape, turn=0.0):
    return Body(
        "post", [Part(shape, "post")], fixed=True, position=(0, 0, 0.4), orientation=about((0, 0, 1), turn)
    )


@pytest.mark.parametrize("turn", [0.0, 10.0, 33.0, 45.0])
def test_an_end_on_the_ground_is_slowed_down_by_the_friction_of_its_rim(turn):
    """Contacts carry a flat end at its rim: mu N R, where an even pressure would have 2/3 of it.

    The rim's points turn by h times the spin within a step, which takes (h SPIN)^2/12 of the lever: 1e-9 with mu N.
    """
    assert torque(spinning(FLOOR, 0.0, turn)) == pytest.approx(1.0, abs=2e-9)


def test_whichever_way_is_down():
    turn = about((1, 2, -1), 70.0)
    scene = spinning(FLOOR, 0.0, 20.0)
    down = np.asarray(scene.turned(turn).gravity) / G
    assert torque(scene.turned(turn), -down) == pytest.approx(1.0, abs=2e-9)


@pytest.mark.parametrize(("turn", "other"), [(0.0, 0.0), (20.0, 17.0), (45.0, 0.0)])
def test_on_another_cylinder_it_is_the_same(turn, other):
    assert torque(spinning(post(Cylinder(R, 0.8), other), 0.8, turn)) == pytest.approx(1.0, abs=2e-9)
    # a smaller end carries it at its own rim, a larger one at this one's
    assert torque(spinning(post(Cylinder(0.2, 0.8), other), 0.8, turn)) == pytest.approx(0.2 / R, abs=2e-9)
    assert torque(spinning(post(Cylinder(0.5, 0.8), other), 0.8, turn)) == pytest.approx(1.0, abs=2e-9)
    assert torque(spinning(post(Box((1.0, 1.0, 0.8)), other), 0.8, turn)) == pytest.approx(1.0, abs=2e-9)


@pytest.mark.parametrize(("aside", "spread"), [(0.007, 0.002), (0.1, 0.02)])
def test_off_its_middle_it_depends_little_on_how_the_cylinders_are_turned(aside, spread):
    """The common area is a lens; which points of its outline carry it depends on the turn, by so much."""
    found = [
        torque(spinning(post(Cylinder(R, 0.8), other), 0.8, turn, aside))
        for turn, other in ((0.0, 0.0), (20.0, 17.0), (45.0, 0.0), (45.0, 17.0))
    ]
    assert min(found) > 2.0 / 3.0 and max(found) <= 1.0
    assert max(found) - min(found) < 2 * spread


def test_it_comes_to_rest_when_theory_says_and_stays():
    history = run(spinning(FLOOR, 0.0), 0.2)
    i = history.scene.number("top")
    stop = SPIN * 0.5 * R / (MU * G)
    spin = history.v[:, i, 5]
    assert spin[history.times < stop - 2e-3].min() > 0.0
    assert np.abs(spin[history.times > stop + 1e-3]).max() < 1e-12


r, HOLE, DEEP, LENGTH = 0.06985, 0.077, 0.6, 1.0
SIDEWAYS = about((0, 1, 0), 90.0)


def in_bore(**given):
    """A bar in a horizontal bore along x, lying on its wall."""
    hole = Body("hole", [Part(Bore(HOLE, DEEP), "hole")], fixed=True, orientation=SIDEWAYS)
    bar = Body("bar", [Part(Cylinder(r, LENGTH), "bar")], mass=20.0, orientation=SIDEWAYS, **given)
    return Scene([hole, bar], [Law("bar", "hole", MU)])


def test_a_bar_slides_in_a_bore_as_on_a_plane():
    history = run(in_bore(position=(-0.1, 0.0, r - HOLE), velocity=(0.5, 0.0, 0.0)), 0.1, contacts=True)
    np.testing.assert_allclose(history.velocity("bar")[:, 0], 0.5 - MU * G * history.times, atol=1e-9)
    np.testing.assert_allclose(history.path("bar")[:, 1:], [[0.0, r - HOLE]] * 101, atol=1e-9)
    assert (np.unique(history.contacts.instant, return_counts=True)[1] == 2).all()  # a line has two ends


def test_a_bar_that_overhangs_leans_as_far_as_its_play_and_is_held_by_its_ends():
    """With its middle 0.2 m outside the hole the inner end presses up and the rim down: a lever at rest."""
    out = 0.5 * DEEP + 0.2
    scene = in_bore(position=(out, 0.0, r - HOLE))
    history = run(scene, 1.0, h=2e-4, record=0.1, contacts=True)
    assert np.abs(history.v[-1, history.scene.number("bar")]).max() < 1e-6
    axis = history.rotations(history.scene.number("bar"))[-1][:, 2]
    tilt = math.asin(abs(axis[2]))
    inside = LENGTH / 2 - 0.2  # what of the bar is in the hole
    # across the bar: r under its axis at the rim of the hole, at its own end r beside the wall above
    assert tilt == pytest.approx(2 * (HOLE - r) / inside, rel=0.05)  # to first order
    middle = history.path("bar")[-1]
    end = middle - 0.5 * LENGTH * axis * math.copysign(1.0, axis[0])
    highest = end[2] + r * math.cos(tilt)
    assert highest == pytest.approx(HOLE, abs=2e-4 * 0.6)  # closes within a step, h times the end's speed
    last = history.contacts.instant == len(history.times) - 1
    force = history.contacts.impulse[last] / history.h
    point, onto_bar = (
        history.contacts.point[last],
        np.array([b == "bar" for _, b in history.contacts.bodies])[last],
    )
    force = np.where(onto_bar[:, None], force, -force)
    assert force.sum(axis=0) == pytest.approx([0.0, 0.0, 20.0 * G], abs=1e-4)
    moment = np.cross(point - middle, force).sum(axis=0)
    assert np.abs(moment).max() < 1e-4 * 20.0 * G
    up = force[point[:, 0] > 0.15, 2].sum()  # at the rim of the hole
    assert up == pytest.approx(
        20.0 * G * (1.0 + 0.2 / inside), rel=0.05
    )  # lever arms to first order in the tilt
