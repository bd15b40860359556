"""The parts of Newton's method: the sparse elimination, the derivative, and what it is for."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.sim.contact.linear import analyse, block_lu, factorise, solve
from tamis.sim.contact.newton import fill_matrix, imbalance, trial_arrays
from tamis.sim.contact.solve import CONVERGED, NEWTON
from tamis.sim.contact.tuning import BOUT
from tests.sim.contact.bodies import residuals, solved, stack, swept, wall


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
    count, products = analyse(60, a, b, block_lu(60, 60))
    assert count == 60 * 60 and analyse(60, a, b, block_lu(60, 60), products - 1) == (0, 0)


def test_a_singular_pivot_is_reported():
    lu, _, _, _, _ = random_system(2, [(0, 1)], 2)
    lu.blocks[lu.place[lu.order[0], lu.order[0]]] = 0.0
    assert not factorise(2, lu)


def test_the_matrix_is_the_derivative_of_the_imbalance():
    """In a wall in which contacts stick, slip and open."""
    problem = wall(3, 4)
    problem.free[:] += 0.02 * np.random.default_rng(5).normal(size=problem.free.shape) * problem.scale
    contacts, work, w, r = swept(problem, 3)
    m, lu, weight, trial = len(w), work.lu, work.local.weight, trial_arrays(work.free, len(problem.a))
    count, _ = analyse(m, contacts.row_a, contacts.row_b, lu)

    def F(at):
        imbalance(contacts, at, r, weight, 10.0, trial)
        return trial.force.copy()

    fill_matrix(contacts, w, r, weight, 10.0, count, lu)
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


def test_newton_ends_where_sweeps_hardly_move():
    problem = stack(2.0 ** np.arange(8))  # heavy blocks on light ones
    found = solved(problem, 1e-8)
    assert found.status == CONVERGED and 0 < found.report[NEWTON] < BOUT
    assert residuals(problem, found.r)[0].max() <= 2e-8
    assert residuals(problem, swept(problem, 1000)[3])[0].max() > 1e-4
