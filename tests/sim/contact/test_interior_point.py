"""The path through the interior of the cones, in body space, and Newton's method with it."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.sim.contact.interior_point import fill_matrix, interior_point, lorentz, path_arrays
from tamis.sim.contact.linear import analyse, factorise, solve
from tamis.sim.contact.lorentz import quadratic, scale_points
from tamis.sim.contact.solve import ATTEMPT, CAPPED, CONVERGED, INTERIOR_POINT, direct
from tamis.sim.contact.tuning import PATH_ATTEMPT
from tests.sim.contact.bodies import dense, ready, residuals, solved, stack, wall


def shaken(problem, size=0.05, seed=3):
    draw = np.random.default_rng(seed)
    problem.free[:] += size * draw.normal(size=problem.free.shape) * problem.scale
    return problem


def followed(problem, tol):
    contacts, work, scale = ready(problem)
    count, _ = analyse(len(problem.free), contacts.row_a, contacts.row_b, work.lu)
    w, r, local = problem.free.copy(), np.zeros((len(problem.a), 3)), work.local
    steps, error = interior_point(
        contacts, w, r, local.W, local.weight, work.free, tol * scale, scale, count, work.lu
    )
    return steps, error / scale, w, r


@pytest.mark.parametrize("mu", [0.0, 0.4, 1.5])
def test_it_solves_a_shaken_wall_from_nothing(mu):
    problem = shaken(wall(2, 2, mu=mu))
    steps, error, w, r = followed(problem, 1e-4)
    own, velocities = residuals(problem, r)
    assert error <= 1e-4 and steps < 40 and own.max() <= 1e-4
    np.testing.assert_allclose(w, velocities, atol=1e-12 * np.abs(w).max() + 1e-13)
    exact = solved(problem, 1e-10, r)  # from there: with friction there may be other solutions
    assert exact.status == CONVERGED
    # residuals of 1e-4 add up over the courses and their levers
    np.testing.assert_allclose(w, exact.w, atol=1e-2 * np.abs(exact.w).max())


def test_its_system_is_that_of_the_impulses():
    """Sherman, Morrison and Woodbury: the step in velocities is that of ``E W + Q^-1`` in impulses."""
    problem = shaken(stack(np.array([3.0, 5.0, 2.0])))
    contacts, work, _ = ready(problem)
    n, m = len(problem.a), len(problem.free)
    count, _ = analyse(m, contacts.row_a, contacts.row_b, work.lu)
    path = path_arrays(n)
    v = path.vectors
    draw = np.random.default_rng(8)
    lorentz(contacts, work.local.W, problem.free, v.scale)
    for x in (v.x, v.y):
        x[:, 1:] = draw.normal(size=(n, 2))
        x[:, 0] = np.hypot(x[:, 1], x[:, 2]) + draw.uniform(0.2, 1.0, n)
    v.velocity[:] = draw.normal(size=(n, 3))
    Q, E, L = (np.zeros((3 * n, 3 * n)) for _ in range(3))
    scale_points(n, v, path.eta)
    for i in range(n):
        place = slice(3 * i, 3 * i + 3)
        for j in range(3):
            Q[place, 3 * i + j] = quadratic(*v.centre[i], path.eta[i], *np.eye(3)[j])
        np.testing.assert_allclose(Q[place, place] @ v.y[i], v.x[i], rtol=1e-12)  # what makes it the scaling
        E[place, place] = np.eye(3)
        E[3 * i, 3 * i + 1 : 3 * i + 3] = v.velocity[i, 1:] / np.hypot(*v.velocity[i, 1:])
        L[place, place] = np.diag(v.scale[i])
    G, c = np.linalg.inv(L) @ dense(problem), draw.normal(size=3 * n)
    expected = np.linalg.solve(E @ G @ G.T + np.linalg.inv(Q), c)
    fill_matrix(contacts, m, count, path, work.lu)
    assert factorise(m, work.lu)
    dw = (G.T @ Q @ c).reshape(m, 6)
    solve(m, work.lu, dw)
    # both systems lose the digits of the condition number, some thousands
    np.testing.assert_allclose(Q @ (c - E @ G @ dw.ravel()), expected, rtol=1e-9, atol=1e-9)


def test_it_takes_its_turn_and_newton_supplies_the_digits():
    """In the attempt that is its own, from nothing: further than its own end."""
    problem = shaken(wall(3, 4))
    contacts, work, scale = ready(problem)
    count, _ = analyse(len(problem.free), problem.a, problem.b, work.lu)
    w, r = problem.free.copy(), np.zeros((len(problem.a), 3))
    error = direct(
        *(contacts, w, r, work.local.W, work.local.weight, work.free, 1e-8 * scale, scale),
        *(ATTEMPT + PATH_ATTEMPT, count, work.lu, work.report),
        *(np.ones(3, np.int64), work.methods.interior_point.compile()),
    )
    assert work.report[INTERIOR_POINT] > 0 and error <= 1e-8 * scale
    assert residuals(problem, r)[0].max() <= 1e-8


def test_its_attempt_is_one_that_the_active_set_does_not_take():
    assert PATH_ATTEMPT % 2 == 1  # even attempts end with the active set, before its turn would come


def test_what_was_better_before_stays():
    problem = shaken(wall(3, 4))
    start = solved(problem, 1e-10)
    found = solved(problem, 1e-18, start.r)  # not to be reached, so that all methods run to their ends
    assert found.status == CAPPED and found.report[INTERIOR_POINT] > 0
    assert found.residual <= start.residual
    own, velocities = residuals(problem, found.r)
    assert own.max() <= 1e-10
    np.testing.assert_allclose(found.w, velocities, atol=1e-12 * np.abs(found.w).max())
