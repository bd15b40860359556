"""Compound bodies: mass, centre of mass and inertia, and how they turn about it."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

from tamis.errors import StudyError
from tamis.sim.common.shapes import Box, Cylinder, HalfSpace, Sphere
from tamis.sim.nscd.drive import run
from tamis.sim.nscd.scene import Body, Law, Part, Scene, about

CUBE = Part(Box((0.2, 0.2, 0.2)))


def test_mass_and_inertia_of_a_compound_body_are_those_of_its_shapes():
    """Two half boxes make a box; a dumb-bell by Steiner."""
    half = Part(Box((0.5, 0.4, 0.3)), centre=(0.25, 0.0, 0.0))
    other = Part(Box((0.5, 0.4, 0.3)), centre=(-0.25, 0.0, 0.0), turn=about((1, 0, 0), 180.0))
    whole = Body("whole", [Part(Box((1.0, 0.4, 0.3)))], density=700.0).inertial()
    halves = Body("halves", [half, other], density=700.0).inertial()
    for one, two_ in zip(whole[:3], halves[:3], strict=True):
        np.testing.assert_allclose(two_, one, atol=1e-12)
    bell = Body(
        "bell",
        [Part(Sphere(0.1), centre=(0.0, 0.0, z)) for z in (-0.5, 0.5)],
        mass=4.0,
        position=(1.0, 0.0, 0.0),
    ).inertial()
    ball = 0.4 * 2.0 * 0.01
    np.testing.assert_allclose(bell[2], [2 * (ball + 2.0 * 0.25)] * 2 + [2 * ball], rtol=1e-12)


def test_a_body_off_its_centre_of_mass_turns_about_it():
    part = Part(Sphere(0.1), centre=(0.3, 0.0, 0.0))
    body = Body(
        "ball", [part], mass=1.0, position=(1.0, 2.0, 3.0), spin=(0.0, 0.0, 2.0), velocity=(1.0, 0.0, 0.0)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        history = run(Scene([body], gravity=(0.0, 0.0, 0.0)), 0.1)
    np.testing.assert_allclose(history.x[0, 0], [1.3, 2.0, 3.0], atol=1e-15)
    np.testing.assert_allclose(history.velocity("ball")[0], [1.0, -0.6, 0.0], atol=1e-12)
    path = history.path("ball")
    assert np.linalg.norm(path - history.x[:, 0], axis=1) == pytest.approx(0.3, rel=1e-12)


def test_overlapping_parts_are_counted_once_and_others_exactly():
    block = Part(Box((0.8, 0.76, 0.8)))
    ends = [Part(Cylinder(0.38, 0.8), centre=(x, 0.0, 0.0)) for x in (-0.4, 0.4)]
    mass, centre, moments, _ = Body("block", [block, *ends], density=1000.0).inertial()
    assert mass == pytest.approx(1000.0 * 0.8 * (0.8 * 0.76 + math.pi * 0.38**2), rel=1e-6)  # see unions
    assert np.abs(centre).max() < 1e-12
    given = Body("block", [block, *ends], mass=1800.0).inertial()
    np.testing.assert_allclose(given[2] / 1800.0, moments / mass, rtol=1e-12)
    beside = [CUBE, Part(CUBE.shape, centre=(0.2, 0.0, 0.0))]  # touching: the sum, to the last digit
    mass, centre, moments, _ = Body("two", beside, density=1000.0).inertial()
    assert mass == 1000.0 * 2 * 0.2**3 and centre.tolist() == [0.1, 0.0, 0.0]
    np.testing.assert_allclose(moments, mass * np.array([0.08, 0.2, 0.2]) / 12.0, rtol=1e-14)


def test_a_centre_of_mass_may_be_given_with_its_inertia():
    with pytest.raises(StudyError, match="needs the inertia about it"):
        Body("top-heavy", [CUBE], mass=1.0, centre=(0.0, 0.0, 0.05))
    with pytest.raises(StudyError, match="centre must be 3 finite numbers"):
        Body("top-heavy", [CUBE], mass=1.0, centre=(0.0, 0.05), inertia=np.eye(3))
    body = Body("top-heavy", [CUBE], mass=2.0, centre=(0.0, 0.0, 0.05), inertia=0.01 * np.eye(3))
    assert body.inertial()[1].tolist() == [0.0, 0.0, 0.05]
    thrown = replace(body, spin=(0.0, 3.0, 0.0))
    history = run(Scene([thrown], gravity=(0.0, 0.0, 0.0)), 0.5)
    assert np.abs(history.x[:, 0] - [0.0, 0.0, 0.05]).max() < 1e-14  # it turns about its centre of mass
    middle = history.path("top-heavy")
    np.testing.assert_allclose(np.linalg.norm(middle - history.x[:, 0], axis=1), 0.05, rtol=1e-12)
    assert np.ptp(middle[:, 0]) > 0.04


def test_a_body_tips_where_its_centre_of_mass_leaves_its_base():
    """On a slope of 20 degrees a cube of 0.2 m stands up to a height 0.1/tan(20) = 0.275 m of its centre of mass."""
    slope = about((0, 1, 0), 20.0)
    floor = Body("floor", [Part(HalfSpace(), group="soil")], fixed=True, orientation=slope)
    up = np.array([math.sin(math.radians(20.0)), 0.0, math.cos(math.radians(20.0))])
    for height, falls in ((0.265, False), (0.285, True)):
        cube = Body(
            "cube",
            [CUBE],
            mass=1.0,
            centre=(0.0, 0.0, height - 0.1),
            inertia=0.01 * np.eye(3),
            position=tuple((0.1 * up).tolist()),
            orientation=slope,
        )
        history = run(Scene([floor, cube], [Law("default", "soil", 2.0)]), 0.3)
        moved = np.linalg.norm(history.path("cube")[-1] - history.path("cube")[0])
        assert moved > 1e-3 if falls else moved < 1e-9
