"""Sweeps: which contacts wait, and that waiting changes nothing but the work."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.jit import kernel
from tamis.sim.contact import gauss_seidel
from tamis.sim.contact.gauss_seidel import restart_momentum, visit_all, visit_near
from tamis.sim.contact.tuning import DEPTH, LONGEST
from tests.sim.contact.bodies import ready, relax, residuals, stack

sweep = kernel(gauss_seidel.sweep)


@pytest.fixture
def tower():
    """Twenty boxes, of which only the topmost weighs anything to speak of: the load travels down."""
    problem = stack(np.full(20, 3.0))
    problem.free[:-1] = 0.0
    contacts, work, scale = ready(problem)
    visit_all(work.local, len(problem.a))
    return problem, contacts, work, problem.free.copy(), np.zeros((len(problem.a), 3)), scale


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

    def swept(w, r, quiet):
        restart_momentum(w, r, work.last)
        for _ in range(40):
            visit_all(work.local, len(problem.a))
            relax(contacts, w, r, work.local, 0.0, quiet, 25, work.last)
        own, velocities = residuals(problem, r)
        np.testing.assert_allclose(w, velocities, atol=1e-13 * np.abs(problem.free).max())
        return own.max()

    without, waiting = swept(w.copy(), r.copy(), 0.0), swept(w, r, 1e-6 * scale)
    assert 1e-5 < without < 1e-3  # still at work, so that there is something to compare
    # changes of a hundredth of it were put off for eight sweeps
    assert waiting == pytest.approx(without, rel=0.05)


def test_only_contacts_near_unsettled_ones_are_visited(tower):
    _, contacts, work, w, _, _ = tower
    errors = np.zeros(len(contacts.mu))
    errors[4 * 10] = 1.0  # one of the four contacts of boxes 9 and 10
    visit_near(contacts, errors, 0.5, work.ring[: len(w)], work.local)
    awake = np.flatnonzero(work.local.wait == 0)
    lowest, highest = 9 - DEPTH, 10 + DEPTH  # boxes; joint k lies below box k
    np.testing.assert_array_equal(awake, np.arange(4 * lowest, 4 * (highest + 2)))
