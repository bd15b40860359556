"""Stubborn contacts among many settled ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tamis.sim.contact.patches import CORE, find_patches, patch_arrays
from tamis.sim.contact.problem import Contacts
from tamis.sim.contact.solve import CONVERGED, MANY_BODIES, PATCHES, STRATEGY, workspace
from tamis.sim.contact.tuning import MAX_BODIES, MAX_ITERATIONS
from tests.sim.contact.bodies import Problem, residuals, solved, stack, swept

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


def test_patches_end_what_sweeps_would_not(field):
    found = solved(field, 1e-6)
    assert found.status == CONVERGED and found.iterations < 200
    assert found.report[STRATEGY] == MANY_BODIES and found.report[PATCHES] > 0
    assert (
        residuals(field, swept(field, 400)[3])[0].max() > 1e-5
    )  # twice the sweeps, and ten times the tolerance


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
    assert (
        residuals(problem, swept(problem, MAX_ITERATIONS, start)[3])[0].max() > 1e-4
    )  # sweeps alone do not end


@pytest.mark.parametrize("core", [CORE, 2 * CORE])
def test_patches_hold_all_unsettled_contacts_and_few_bodies(core):
    chain = stack(np.ones(40))
    contacts, patch = Contacts(*chain[:5]), patch_arrays(len(chain.free), len(chain.a))
    errors = np.zeros(len(chain.a))
    errors[10:150] = 1.0
    find_patches(contacts, errors, 0.5, core, len(chain.free), patch)
    parent = patch.parent
    for i in np.flatnonzero(errors):
        assert all(parent[k] >= 0 for k in (contacts.row_a[i], contacts.row_b[i]) if k >= 0)
    roots = np.flatnonzero(parent == np.arange(len(parent)))
    sizes = []
    for x in roots:
        entry, rows = patch.first[x], []
        while entry >= 0:
            rows.append(entry // 2)
            entry = patch.following[entry]
        members = {k for k in range(len(parent)) if parent[k] >= 0 and root_of(parent, k) == x}
        sizes.append(len(members))
        assert rows == sorted(set(rows))
        assert rows == [i for i in range(len(chain.a)) if {contacts.row_a[i], contacts.row_b[i]} & members]
    assert core / 2 < max(sizes) <= core and sum(sizes) == (parent >= 0).sum()


def root_of(parent, k):
    while parent[k] != k:
        k = parent[k]
    return k
