"""Scenes, laws and motions of soft disks that cannot be, and grains that leave."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tamis.errors import SimulationError, StudyError
from tamis.sim.dem.disks import cells
from tamis.sim.dem.disks.drive import Disks
from tamis.sim.dem.disks.laws import Kind
from tamis.sim.dem.disks.scene import Sine, Wall
from tests.sim.dem.test_disks import CALIBRATED, FREE_LAW, R, scene_of


def test_an_overlapping_start_is_refused():
    with pytest.raises(StudyError, match=r"grains 1 and 2 overlap by 0\.0005 m"):
        Disks(scene_of([(0.0, 0.5), (0.0, 0.0), (2 * R - 5e-4, 0.0)]))
    with pytest.raises(StudyError, match="a grain overlaps a wall"):
        Disks(scene_of([(0.0, 0.9 * R)], walls=(Wall((-1.0, 0.0), (1.0, 0.0)),)))


def test_a_box_full_of_nan_is_refused():
    with pytest.raises(StudyError, match="grain 1 is nowhere"):
        Disks(scene_of([(0.0, 0.0), (math.nan, 0.0)]))
    with pytest.raises(StudyError, match="at least one grain"):
        Disks(scene_of(np.empty((0, 2))))
    with pytest.raises(StudyError, match="outside the domain"):
        Disks(scene_of([(0.0, 0.0), (3.0, 0.0)], domain=(-1.0, 1.0, -1.0, 1.0)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": [0]}, r"expected kind of shape \(2,\) for 2 grains, found \(1,\)"),
        ({"kind": [0, 3]}, "kinds are numbered 0 to 0, found 0 to 3"),
        ({"velocities": np.zeros((2, 2))}, r"expected velocities of shape \(2, 3\)"),
        ({"velocities": np.full((2, 3), math.nan)}, "grain 0 has the velocity"),
        ({"scheme": "leepfrog"}, 'did you mean "leapfrog"'),
        ({"step": -1e-6}, "must be positive"),
        ({"step": math.nan}, "a time step must be positive"),
        ({"speed": 0.0}, "the speed of a scene must be positive"),
        ({"kind": [0.0, 0.0]}, "kinds are whole numbers"),
        ({"kinds": (replace(CALIBRATED, fixed=True),)}, "none of the grains can move"),
        ({"kinds": (CALIBRATED, Kind(math.inf))}, "grains have a finite radius"),
        ({"walls": (Wall((-1.0, 0.0), (1.0, 0.0)), Wall((1.0, 0.0), (1.0, 0.0)))}, "wall 1 has no length"),
        ({"walls": (Wall((-1.0, math.nan), (1.0, 0.0)),)}, "wall 0 has no length"),
        ({"gravity": (0.0, math.nan)}, "gravity, centre and motion must be numbers"),
        ({"motion": (Sine(rate=math.nan), Sine(), Sine())}, "gravity, centre and motion must be numbers"),
    ],
)
def test_scenes_that_cannot_be_are_refused(change, said):
    scene = scene_of([(0.0, 0.0), (0.1, 0.0)])
    change = {name: np.array(v) if name == "kind" else v for name, v in change.items()}
    with pytest.raises(StudyError, match=said):
        Disks(replace(scene, **change))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: replace(FREE_LAW, scaling="restitutoin"), 'did you mean "restitution"'),
        (lambda: replace(FREE_LAW, mu=-0.1), "mu must be a number that is not negative, found -0.1"),
        (lambda: replace(FREE_LAW, gamma=math.nan), "gamma must be"),
        (lambda: replace(FREE_LAW, k_n=1e4, k_t=1e8), "10000 times as stiff as the linear law's"),
        (lambda: replace(FREE_LAW, softening=0.0), "the softening of a law must be positive"),
        (lambda: replace(FREE_LAW, mass=-1.0), "the mass of a law must be positive"),
        (lambda: replace(FREE_LAW, poisson=1.0), "Poisson's ratio must lie"),
        (lambda: Kind(0.0), "the radius of a grain must be positive"),
        (lambda: Kind(0.01, body="hollow"), 'body "hollow" is unknown'),
    ],
)
def test_laws_and_grains_that_cannot_be_are_refused(make, said):
    with pytest.raises(StudyError, match=said):
        make()


@pytest.mark.parametrize("over_step", [-0.1, 1.0, math.nan])
def test_a_drag_that_a_step_cannot_follow_is_refused(over_step):
    disks = Disks(scene_of([(0.0, 0.0)]))
    with pytest.raises(StudyError, match="a drag must be from 0 to below"):
        disks.advance(10, drag=over_step / disks.h)


def test_a_motion_that_explodes_is_a_failure():
    disks = Disks(scene_of([(0.0, 0.0)]))
    disks._rows[0, cells.VX] = math.inf
    with pytest.raises(SimulationError, match="no longer finite"):
        disks.advance(10)


def test_a_grain_that_leaves_the_domain_is_counted_and_simulated_no_more():
    start = np.array([[0.0, 0.0, 0.0], [5.0, 0.0, 1.0]])
    disks = Disks(scene_of([(0.0, 0.0), (0.5, 0.0)], start, domain=(-1.0, 1.0, -1.0, 1.0)))
    disks.advance(round(0.2 / disks.h))
    assert disks.here.tolist() == [0]
    assert 1.0 < disks.places()[1, 0] < 1.1  # where it was seen to be gone
    disks.put(1, (0.2, 0.0), (0.0, 0.0, 0.0))
    disks.renew()
    assert disks.here.tolist() == [0, 1]
