"""Stubborn contacts among many settled ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tamis.sim.contact.gauss_seidel import begin, prepare, relax
from tamis.sim.contact.patches import CORE, find_patches, mend
from tamis.sim.contact.problem import Contacts, impose, residual, scale_of
from tamis.sim.contact.solve import CONVERGED, MAX_BODIES, MAX_ITERATIONS, workspace
from tests.sim.contact.bodies import Problem, residuals, solved, stack

CIRCLING = Path(__file__).parents[2] / "data" / "heap" / "circling.npz"


def side_by_side(problems):
    """One problem of several that do not touch."""
    shift = np.cumsum([0, *(len(p.free) for p in problems)])
    joined = {
        name: np.concatenate([getattr(p, name) for p in problems])
        for name in ("G", "bias", "mu", "free", "scale")
    }
    for side in ("a", "b"):
        joined[side] = np.concatenate(
            [
                np.where(getattr(p, side) >= 0, getattr(p, side) + k, -1)
                for p, k in zip(problems, shift, strict=False)
            ]
        )
    return problems[0]._replace(**joined)


EASY = stack(np.array([2.0, 2.0]))
STUBBORN = stack(10.0 ** np.arange(5))  # each block ten times as heavy as the one below


@pytest.fixture
def field():
    """Two stubborn stacks among more easy ones than are factorised as a whole."""
    many = [EASY] * (MAX_BODIES // 4)
    return side_by_side([*many, STUBBORN, *many, STUBBORN, EASY])


def swept(problem, sweeps, start=None):
    contacts, work = Contacts(*problem[:5]), workspace(len(problem.free), len(problem.a))
    w, r = problem.free.copy(), np.zeros((len(problem.a), 3)) if start is None else start.copy()
    scale = prepare(contacts, w, work.local)
    impose(contacts, r, problem.free, w)
    begin(w, r, work.last)
    relax(contacts, w, r, work.local, 0.0, 0.0, sweeps, work.last)
    impose(contacts, r, problem.free, w)
    found, _ = residual(contacts, w, r, work.local.weight, work.trial.errors)
    return contacts, work, w, r, found, scale_of(scale, r, work.local.weight)


def test_patches_end_what_sweeps_would_not(field):
    found = solved(field, 1e-6)
    assert found.status == CONVERGED and found.iterations < 200
    *_, left, scale = swept(field, 400)
    assert left > 1e-5 * scale  # twice the sweeps, and ten times the tolerance


@pytest.fixture
def circling():
    with np.load(CIRCLING) as f:
        return Problem(f["a"], f["b"], f["G"], f["bias"], f["mu"], f["w"], None), f["r"]


def test_a_workspace_used_before_changes_nothing(circling, field):
    problem, start = circling
    work = workspace(len(field.free), len(field.a))
    first = solved(problem, 1e-4, start, work)
    solved(field, 1e-6, None, work)
    solved(field, 1e-4, None, work)
    again = solved(problem, 1e-4, start, work)
    np.testing.assert_array_equal(again.r, first.r)
    np.testing.assert_array_equal(again.w, first.w)
    np.testing.assert_array_equal(
        solved(problem, 1e-4, start).r, first.r
    )  # and so with one of the right size


@pytest.mark.parametrize("tol", [1e-3, 1e-4])
def test_no_impulse_leaves_its_cone(circling, tol):
    problem, start = circling
    r = solved(problem, tol, start).r
    size = np.abs(r).max()
    assert r[:, 0].min() >= 0.0
    assert (np.hypot(r[:, 1], r[:, 2]) - problem.mu * r[:, 0]).max() <= 1e-15 * size  # round-off


def test_patches_grow_until_a_step_that_goes_round_in_circles_ends(circling):
    problem, start = circling
    found = solved(problem, 1e-4, start)
    assert found.status == CONVERGED and found.iterations < MAX_ITERATIONS / 4
    assert residuals(problem, found.r)[0].max() <= 1e-4
    *_, left, scale = swept(problem, MAX_ITERATIONS, start)
    assert left > 1e-4 * scale  # sweeps alone do not end


def test_mending_leaves_velocities_that_belong_to_the_impulses(field):
    contacts, work, w, r, found, scale = swept(field, 40)
    errors = work.trial.errors
    assert found > 1e-3 * scale
    before = r.copy()
    assert mend(contacts, w, r, work.local, errors, 1e-4 * scale, scale, CORE, work.patch) > 0
    own, velocities = residuals(field, r)
    round_off = 1e-13 * np.abs(field.free).max()  # of some hundred impulses that cancel the free velocities
    np.testing.assert_allclose(w, velocities, atol=round_off)
    assert own.max() <= 1e-4  # the stacks do not touch, so their patches are whole problems
    touched = np.unique(np.flatnonzero((r != before).any(axis=1)))
    assert 0 < len(touched) <= 2 * len(STUBBORN.a)


@pytest.mark.parametrize("core", [CORE, 2 * CORE])
def test_patches_hold_all_unsettled_contacts_and_few_bodies(core):
    chain = stack(np.ones(40))
    contacts, work = Contacts(*chain[:5]), workspace(len(chain.free), len(chain.a))
    errors = np.zeros(len(chain.a))
    errors[10:150] = 1.0
    find_patches(contacts, errors, 0.5, core, len(chain.free), work.patch)
    parent = work.patch.parent
    for i in np.flatnonzero(errors):
        assert all(parent[k] >= 0 for k in (contacts.a[i], contacts.b[i]) if k >= 0)
    roots = np.flatnonzero(parent == np.arange(len(parent)))
    sizes = []
    for x in roots:
        entry, rows = work.patch.first[x], []
        while entry >= 0:
            rows.append(entry // 2)
            entry = work.patch.following[entry]
        members = {k for k in range(len(parent)) if parent[k] >= 0 and root_of(parent, k) == x}
        sizes.append(len(members))
        assert rows == sorted(set(rows))
        assert rows == [i for i in range(len(chain.a)) if {contacts.a[i], contacts.b[i]} & members]
    assert core / 2 < max(sizes) <= core and sum(sizes) == (parent >= 0).sum()


def root_of(parent, k):
    while parent[k] != k:
        k = parent[k]
    return k
