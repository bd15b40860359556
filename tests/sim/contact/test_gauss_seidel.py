"""Sweeps: which contacts wait, and that waiting changes nothing but the work."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.sim.contact.gauss_seidel import DEPTH, LONGEST, begin, prepare, relax, sweep, wake, wake_near
from tamis.sim.contact.problem import Contacts, impose, residual
from tamis.sim.contact.solve import workspace
from tests.sim.contact.bodies import residuals, stack


@pytest.fixture
def tower():
    """Twenty boxes, of which only the topmost weighs anything to speak of: the load travels down."""
    problem = stack(np.full(20, 3.0))
    problem.free[:-1] = 0.0
    contacts, work = Contacts(*problem[:5]), workspace(len(problem.free), len(problem.a))
    w, r = problem.free.copy(), np.zeros((len(problem.a), 3))
    scale = prepare(contacts, w, work.local)
    wake(work.local, len(problem.a))
    begin(w, r, work.last)
    return problem, contacts, work, w, r, scale


def test_contacts_that_change_nothing_wait_longer_and_longer(tower):
    problem, contacts, work, w, r, scale = tower
    wait, span = work.local.wait, work.local.span
    seen = []
    for _ in range(12):
        asleep, before = wait > 0, r.copy()
        sweep(contacts, w, r, work.local, 1e-3 * scale)
        changed = np.any(r != before, axis=1)
        assert not changed[asleep].any()
        seen.append(
            np.flatnonzero(changed).min() // 4
        )  # joints are numbered from the ground, four contacts each
        assert (span <= LONGEST).all() and (wait <= span).all()
    assert seen[0] == 19 and min(seen) < 19  # the load has come further down than one joint
    assert span[:4].max() == 4  # visited in sweeps 1, 3, 6 and 10
    own, velocities = residuals(problem, r)
    np.testing.assert_allclose(w, velocities, atol=1e-13 * np.abs(problem.free).max())
    assert own.max() > 0.0


def test_waiting_costs_no_sweeps(tower):
    problem, contacts, work, w, r, scale = tower
    plain = (w.copy(), r.copy())

    def swept(w, r, quiet):
        begin(w, r, work.last)
        for _ in range(40):
            wake(work.local, len(problem.a))
            relax(contacts, w, r, work.local, 0.0, quiet, 25, work.last)
        return residual(contacts, w, r, work.local.weight, work.trial.errors)[0]

    without, waiting = swept(*plain, 0.0), swept(w, r, 1e-6 * scale)
    assert 1e-5 * scale < without < 1e-3 * scale  # still at work, so that there is something to compare
    assert waiting == pytest.approx(
        without, rel=0.05
    )  # changes of a hundredth of it were put off for eight sweeps
    impose(contacts, r, problem.free, plain[0])
    np.testing.assert_allclose(w, plain[0], atol=1e-13 * np.abs(problem.free).max())


def test_only_contacts_near_unsettled_ones_are_awake(tower):
    _, contacts, work, w, _, _ = tower
    errors = np.zeros(len(contacts.a))
    errors[4 * 10] = 1.0  # one of the four contacts of boxes 9 and 10
    wake_near(contacts, errors, 0.5, work.ring[: len(w)], work.local)
    awake = np.flatnonzero(work.local.wait == 0)
    lowest, highest = 9 - DEPTH, 10 + DEPTH  # boxes; joint k lies below box k
    np.testing.assert_array_equal(awake, np.arange(4 * lowest, 4 * (highest + 2)))
