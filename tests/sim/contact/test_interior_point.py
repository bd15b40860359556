"""The path through the interior of the cones, in body space, and Newton's method with it."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.sim.contact.direct import PATH, solve_direct, solve_outright
from tamis.sim.contact.gauss_seidel import prepare
from tamis.sim.contact.interior_point import fill, follow, lorentz
from tamis.sim.contact.linear import analyse, factorise, solve
from tamis.sim.contact.lorentz import quadratic, scale_points
from tamis.sim.contact.problem import Contacts, impose
from tamis.sim.contact.solve import CONVERGED, workspace
from tests.sim.contact.bodies import dense, residuals, solved, stack, wall


def ready(problem):
    """The problem as the kernels take it, with its scale and the order of elimination."""
    contacts, work = Contacts(*problem[:5]), workspace(len(problem.free), len(problem.a))
    work.trial.free[:] = problem.free
    scale = prepare(contacts, problem.free, work.local)
    count, _ = analyse(len(problem.free), contacts.a, contacts.b, work.lu)
    return contacts, work, scale, count


def shaken(problem, size=0.05, seed=3):
    draw = np.random.default_rng(seed)
    problem.free[:] += size * draw.normal(size=problem.free.shape) * problem.scale
    return problem


def followed(problem, tol, most=40):
    contacts, work, scale, count = ready(problem)
    w, r = problem.free.copy(), np.zeros((len(problem.a), 3))
    local = work.local
    steps, found, worst = follow(
        *(contacts, w, r, local.W, local.weight, tol * scale, scale, most),
        *(count, work.lu, work.trial, work.path),
    )
    return steps, found / scale, worst, w, r


def test_the_path_solves_a_shaken_wall_from_nothing():
    problem = shaken(wall(3, 4))
    steps, found, worst, w, r = followed(problem, 1e-4)
    own, velocities = residuals(problem, r)
    assert found <= 1e-4 and steps < 40
    assert own.argmax() == worst
    np.testing.assert_allclose(w, velocities, atol=1e-12 * np.abs(w).max() + 1e-13)
    exact = solved(problem, 1e-10, r)  # from there: with friction there may be other solutions
    assert exact.status == CONVERGED
    # residuals of 1e-4 add up over three courses and their levers
    np.testing.assert_allclose(w, exact.w, atol=1e-2 * np.abs(exact.w).max())


@pytest.mark.parametrize("mu", [0.0, 0.3, 1.5])
def test_whatever_the_friction(mu):
    assert followed(shaken(wall(2, 3, mu=mu)), 1e-4)[1] <= 1e-4


def test_its_system_is_that_of_the_impulses():
    """Sherman, Morrison and Woodbury: the step in velocities is that of ``E W + Q^-1`` in impulses."""
    problem = shaken(stack(np.array([3.0, 5.0, 2.0])))
    contacts, work, _, count = ready(problem)
    n, m, v = len(problem.a), len(problem.free), work.path.vectors
    draw = np.random.default_rng(8)
    lorentz(contacts, work.local.W, problem.free, v.scale)
    for x in (v.x, v.y):
        x[:, 1:] = draw.normal(size=(n, 2))
        x[:, 0] = np.hypot(x[:, 1], x[:, 2]) + draw.uniform(0.2, 1.0, n)
    v.velocity[:] = draw.normal(size=(n, 3))
    Q, E, L = (np.zeros((3 * n, 3 * n)) for _ in range(3))
    scale_points(n, v, work.path.eta)
    for i in range(n):
        place = slice(3 * i, 3 * i + 3)
        for j in range(3):
            Q[place, 3 * i + j] = quadratic(*v.centre[i], work.path.eta[i], *np.eye(3)[j])
        np.testing.assert_allclose(Q[place, place] @ v.y[i], v.x[i], rtol=1e-12)  # what makes it the scaling
        E[place, place] = np.eye(3)
        E[3 * i, 3 * i + 1 : 3 * i + 3] = v.velocity[i, 1:] / np.hypot(*v.velocity[i, 1:])
        L[place, place] = np.diag(v.scale[i])
    G, c = np.linalg.inv(L) @ dense(problem), draw.normal(size=3 * n)
    expected = np.linalg.solve(E @ G @ G.T + np.linalg.inv(Q), c)
    fill(contacts, m, count, work.path, work.lu)
    assert factorise(m, work.lu)
    dw = (G.T @ Q @ c).reshape(m, 6)
    solve(m, work.lu, dw)
    # both systems lose the digits of the condition number, some thousands
    np.testing.assert_allclose(Q @ (c - E @ G @ dw.ravel()), expected, rtol=1e-9, atol=1e-9)


def test_one_method_after_the_other_solves_a_shaken_wall_from_nothing():
    problem = shaken(wall(4, 6), 3.0)
    contacts, work, scale, count = ready(problem)
    w, r = problem.free.copy(), np.zeros((len(problem.a), 3))
    found = solve_outright(
        *(contacts, w, r, work.local.W, work.local.weight, 1e-8 * scale, scale),
        *(count, work.lu, work.trial, work.path),
    )[1]
    assert found <= 1e-8 * scale and residuals(problem, r)[0].max() <= 1e-8


def test_what_was_better_before_the_path_stays():
    problem = shaken(wall(3, 4))
    contacts, work, scale, count = ready(problem)
    w, r = problem.free.copy(), solved(problem, 1e-10).r
    impose(contacts, r, problem.free, w)
    spent, found, _ = solve_direct(
        *(contacts, w, r, work.local.W, work.local.weight, 0.0, scale),
        *(PATH, count, work.lu, work.trial, work.path),
    )  # a goal of nothing is not reached, so the path and what polishes it run to their ends
    own, velocities = residuals(problem, r)
    assert spent > 5 and found <= 1e-10 * scale and own.max() <= 1e-10
    np.testing.assert_allclose(w, velocities, atol=1e-12 * np.abs(w).max())
