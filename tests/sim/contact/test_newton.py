"""The parts of Newton's method: the sparse elimination, the derivative, and what it is for."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.sim.contact.gauss_seidel import begin, prepare, relax
from tamis.sim.contact.linear import analyse, block_lu, factorise, solve
from tamis.sim.contact.newton import assemble, imbalance, proximal_newton
from tamis.sim.contact.problem import Contacts, impose, residual
from tamis.sim.contact.solve import workspace
from tests.sim.contact.bodies import residuals, wall


def random_system(m, pairs, seed):
    """A matrix with blocks on the diagonal and at the pairs, and what `analyse` makes of the pairs."""
    draw = np.random.default_rng(seed)
    lu = block_lu(m)
    a, b = np.array(pairs, dtype=np.int64).reshape(-1, 2).T.copy()
    count, products = analyse(m, a, b, lu)
    matrix = np.zeros((m, 6, m, 6))
    coupled = [pair for pair in pairs if min(pair) >= 0]
    for x, y in [*((k, k) for k in range(m)), *coupled, *((y, x) for x, y in coupled)]:
        matrix[x, :, y] = draw.normal(size=(6, 6)) + (12.0 * np.eye(6) if x == y else 0.0)
        lu.blocks[lu.place[x, y]] = matrix[x, :, y]
    return lu, matrix.reshape(6 * m, 6 * m), count, products, draw


@pytest.mark.parametrize(
    "pairs",
    [
        [(0, 1), (1, 2), (2, 3), (3, 4)],
        [(0, 4), (1, 4), (2, 4), (3, 4), (-1, 2)],
        [(x, y) for x in range(5) for y in range(x)],
        [(0, 1), (0, 1), (2, 3)],
    ],
)
def test_block_elimination_solves_what_a_dense_solver_solves(pairs):
    lu, matrix, _, _, draw = random_system(5, pairs, 1)
    x = draw.normal(size=(5, 6))
    expected = np.linalg.solve(matrix, x.ravel())
    assert factorise(5, lu)
    solve(5, lu, x)
    np.testing.assert_allclose(
        x.ravel(), expected, rtol=1e-11, atol=1e-12
    )  # well conditioned: a few hundred eps


def test_a_chain_and_a_star_fill_nothing():
    m = 40
    for pairs in ([(k, k + 1) for k in range(m - 1)], [(0, k) for k in range(1, m)]):
        lu = block_lu(m)
        a, b = np.array(pairs).T.copy()
        assert analyse(m, a, b, lu)[0] == m + 2 * (m - 1)


def test_too_many_bodies_or_too_much_fill_is_declined():
    a, b = np.array([(x, y) for x in range(60) for y in range(x)]).T.copy()
    assert analyse(60, a, b, block_lu(60)) == (0, 0)
    assert analyse(61, a, b, block_lu(60)) == (0, 0)


def test_a_singular_pivot_is_reported():
    lu, _, _, _, _ = random_system(2, [(0, 1)], 2)
    lu.blocks[lu.place[lu.order[0], lu.order[0]]] = 0.0
    assert not factorise(2, lu)


@pytest.fixture
def moving():
    """A wall in which contacts stick, slip and open."""
    problem = wall(3, 4)
    draw = np.random.default_rng(5)
    problem.free[:] += 0.02 * draw.normal(size=problem.free.shape) * problem.scale
    contacts = Contacts(*problem[:5])
    work = workspace(len(problem.free), len(problem.a))
    work.trial.free[:] = problem.free
    scale = prepare(contacts, problem.free, work.local)
    w, r = problem.free.copy(), np.zeros((len(problem.a), 3))
    begin(w, r, work.last)
    relax(contacts, w, r, work.local, 0.0, 0.0, 3, work.last)
    impose(contacts, r, problem.free, w)
    return problem, contacts, work, scale, w, r


def test_the_matrix_is_the_derivative_of_the_imbalance(moving):
    _, contacts, work, _, w, r = moving
    m, lu = len(w), work.lu
    count, _ = analyse(m, contacts.a, contacts.b, lu)
    weight = work.local.weight

    def F(at):
        imbalance(contacts, at, r, weight, 10.0, work.trial)
        return work.trial.force.copy()

    assemble(contacts, w, r, weight, 10.0, count, lu)
    blocks = lu.blocks.copy()
    way = np.random.default_rng(6).normal(size=w.shape)
    step = 1e-7 * np.abs(w).max()
    slope = (F(w + step * way) - F(w - step * way)) / (2 * step)
    expected = np.zeros_like(w)
    for x in range(m):
        for y in range(m):
            if lu.place[x, y] >= 0:
                expected[x] += blocks[lu.place[x, y]] @ way[y]
    # central differences of a piecewise smooth function: 1e-7 squared, and round-off 1e-16 / 1e-7
    np.testing.assert_allclose(slope, expected, atol=1e-6 * np.abs(expected).max())


def test_newton_goes_on_where_sweeps_hardly_move(moving):
    problem, contacts, work, scale, w, r = moving
    weight = work.local.weight
    start, _ = residual(contacts, w, r, weight, work.trial.errors)
    count, _ = analyse(len(w), contacts.a, contacts.b, work.lu)
    iterations, found, worst = proximal_newton(
        contacts, w, r, weight, 1e-10 * scale, 60, 10.0, count, work.lu, work.trial
    )
    own = residuals(problem, r)[0]
    assert start > 1e-4 * scale and found <= 1e-10 * scale and iterations < 60
    assert own.max() <= 2e-10 and own[worst] == own.max()
