"""Steps taken in parts for a while, as after a blow."""

import math

import numpy as np
import pytest

from tamis.errors import StudyError
from tamis.sim.common.shapes import Box, HalfSpace
from tamis.sim.nscd.drive import Finer, Rest, run
from tamis.sim.nscd.scene import Body, Law, Motion, Part, Scene
from tests.sim.nscd.scenes import thrown

CUBE = Part(Box((0.2, 0.2, 0.2)))


def test_steps_taken_in_parts_are_those_of_a_smaller_step():
    """In halves all along they are the run of half the step to the bit, recorded at every other of its instants."""
    scene = thrown(np.random.default_rng(3), ((0.4, 0.2), (0.3, 0.1)))
    h = 2.0**-9
    whole = run(scene, 0.25, h=h / 2, contacts=True)
    parts = run(scene, 0.25, h=h, finer=Finer(1.0, 2), contacts=True)
    assert parts.digest == whole.digest and (parts.times == whole.times[::2]).all()
    assert (parts.x == whole.x[::2]).all() and (parts.ledger.impact == whole.ledger.impact[::2]).all()
    assert (parts.solver.residual == whole.solver.residual.reshape(-1, 2).max(axis=1)).all()
    assert (parts.contacts.impulse == whole.contacts.impulse).all()  # of all parts of a step
    assert (parts.contacts.instant == (whole.contacts.instant + 1) // 2).all()


def test_steps_are_taken_in_parts_until_they_are_not():
    scene = thrown(np.random.default_rng(3), ((0.4, 0.2), (0.3, 0.1)))
    h = 2.0**-9
    coarse, fine = run(scene, 0.25, h=h), run(scene, 0.25, h=h, finer=Finer(0.125, 4), record=7 * h)
    quarters = run(scene, 0.125, h=h / 4)
    first = int(0.125 / h)
    calls = [
        fine.solver.iterations[first:].sum(),
        run(scene, 0.25, h=h / 4).solver.iterations[4 * first :].sum(),
    ]
    assert 0 < calls[0] < 0.5 * calls[1]  # one problem a step after it, and not four
    assert len(coarse.solver.residual) == len(fine.solver.residual) == 2 * first
    assert (run(scene, 0.125, h=h, finer=Finer(0.125, 4)).x[-1] == quarters.x[-1]).all()
    assert fine.times[-1] == 0.25 and (fine.x[-1] != coarse.x[-1]).any()
    assert (run(scene, 0.25, h=h, finer=Finer(0.0, 4)).x == coarse.x).all()


def test_a_step_in_parts_that_wants_more_room_goes_on_where_it_was():
    """Some hundred cubes that slide list more contacts in the first step than there is room for at the start."""
    cubes = [
        Body(
            f"cube{i}",
            [CUBE],
            mass=1.0,
            position=(0.3 * (i % 18), 0.3 * (i // 18), 0.1),
            velocity=(4.0, 0, 0),
        )
        for i in range(300)
    ]
    floor = Body("floor", [Part(HalfSpace(), group="soil")], fixed=True)
    scene = Scene([floor, *cubes], [Law("default", "soil", 0.5)])
    listed = run(scene, 2e-3, finer=Finer(1.0, 4), contacts=True)
    assert (listed.contacts.instant == 1).sum() == 4 * 4 * 300  # four parts, four corners
    plain = run(scene, 2e-3, finer=Finer(1.0, 4))
    assert (listed.x == plain.x).all() and (listed.ledger.kinetic == plain.ledger.kinetic).all()
    assert listed.ledger.kinetic[0] == pytest.approx(300 * 8.0, rel=1e-12)


@pytest.mark.parametrize("record", [None, 0.03])
def test_contacts_of_a_run_that_ends_in_a_step_in_parts_carry_all_of_it(record):
    """A cube at rest: the impulse of the last instant is m g h, of whatever parts."""
    floor = Body("floor", [Part(HalfSpace(), group="soil")], fixed=True)
    cube = Body("cube", [CUBE], mass=2.0, position=(0.0, 0.0, 0.1))
    scene = Scene([floor, cube], [Law("default", "soil", 0.5)])
    found = run(scene, 1.0, rest=Rest(0.01, 0.05), finer=Finer(1.0, 4), contacts=True, record=record)
    assert found.times[-1] == pytest.approx(0.05)
    last = found.contacts.instant == len(found.times) - 1
    weight = found.contacts.of("cube")[1][last].sum(axis=0)
    assert weight == pytest.approx([0.0, 0.0, 2.0 * 9.81 * 1e-3], abs=1e-9)


def test_what_is_driven_keeps_to_its_motion_in_parts_of_a_step():
    """A velocity that is a line within steps is followed exactly: the plate is where the integral of it is."""
    times = np.array([0.0, 0.1, 0.2])
    plate = Body(
        "plate",
        [Part(Box((0.2, 0.2, 0.02)))],
        motion=Motion(times, velocity=np.array([[0.0, 0, 0], [1.0, 0, 0], [0.0, 0, 0]])),
    )
    found = run(Scene([plate], []), 0.2, h=0.01, finer=Finer(0.15, 3))
    assert found.path("plate")[10, 0] == pytest.approx(
        0.05, abs=1e-14
    )  # sums of 30 and 35 parts, to round-off
    assert found.path("plate")[-1, 0] == pytest.approx(0.1, abs=1e-14)


def test_finer_steps_want_a_time_and_whole_parts():
    for until, parts in ((-1.0, 2), (math.nan, 2), (0.1, 0)):
        with pytest.raises(StudyError, match="finer steps need a time"):
            Finer(until, parts)
