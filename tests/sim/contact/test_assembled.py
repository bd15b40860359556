"""The direct methods for assembled problems: where the path begins, and Newton's method after it."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.sim.contact.assembled import mixing
from tamis.sim.contact.assembled.gauss_seidel import relax, residual, velocities
from tamis.sim.contact.assembled.interior_point import interior_point
from tamis.sim.contact.assembled.linear import factorise_pairs, pair_up, solve_pairs
from tamis.sim.contact.assembled.newton import fill_matrix, imbalance, proximal_newton
from tamis.sim.contact.assembled.solve import STIFF, _Direct, assemble
from tamis.sim.contact.lorentz import Interior
from tests.sim.contact.problems import stubborn_pile, tower
from tests.sim.contact.test_assembled_solve import read

TOL = 1e-6


class Prepared:
    """A published problem with its elimination order and what the methods need beside it."""

    def __init__(self, name: str, sweeps: int = 0) -> None:
        self.p = assemble(*read(name))
        self.n = len(self.p.mu)
        path = _Direct(self.p)
        assert path.pays(np.inf)
        self.matrix = path.matrix
        self.x, self.u = np.zeros((self.n, 3)), np.empty((self.n, 3))
        if sweeps:
            relax(self.p, mixing.memory(self.n), self.x, self.u, TOL, sweeps, True)

    def follow(self, start: float, tol: float = TOL) -> tuple[int, float, int]:
        blocks = int(self.p.ptr[-1])
        scaled = self.p._replace(
            block=np.empty((blocks, 9)), diagonal=np.empty((self.n, 3, 3)), q=np.empty((self.n, 3))
        )
        work = Interior(*np.empty((len(Interior._fields), self.n, 3)))
        return interior_point(self.p, scaled, self.matrix, work, self.x, self.u, start, tol, 50)

    def residual(self) -> float:
        velocities(self.p, self.x, self.u)
        return residual(self.p, self.x, self.u)[0]


@pytest.mark.parametrize("name", ["own_wall_1", "boxes_stack", "capsules"])
def test_from_what_sweeps_have_found_the_path_is_shorter(name: str) -> None:
    steps = {}
    for start in (1.0, 0.03):
        case = Prepared(name, sweeps=56)
        steps[start], found, _ = case.follow(start)
        assert found <= TOL and case.residual() == pytest.approx(found, rel=1e-6)
    assert steps[0.03] <= 0.8 * steps[1.0]


def test_where_contacts_are_open_and_without_load_the_limit_is_found_not_approached_by_halves() -> None:
    steps, found, _ = Prepared("own_wall_1").follow(1.0, 1e-10)
    assert found <= 1e-10 and steps <= 20  # 32 by halves


def test_from_the_axes_it_does_not_matter_what_was_found_before() -> None:
    clean, spoilt = Prepared("own_wall_1"), Prepared("own_wall_1")
    spoilt.x[3] = np.nan
    assert spoilt.follow(1.0) == clean.follow(1.0)


def test_newton_ends_what_the_path_leaves_and_sweeps_do_not() -> None:
    case = Prepared("own_wall_1000", sweeps=48)
    _, stands, _ = case.follow(1.0)
    assert stands > 10 * TOL
    swept = case.x.copy()
    done, left, _ = relax(case.p, mixing.memory(case.n), swept, case.u, TOL, 200, True)
    assert done == 200 and left > TOL
    steps, found, _ = proximal_newton(
        case.p, case.matrix, case.x, case.u, np.empty((5, case.n, 3)), TOL, 30, STIFF
    )
    assert steps < 30 and found <= TOL and case.residual() == pytest.approx(found, rel=1e-6)


def test_what_newton_makes_worse_it_does_not_keep() -> None:
    case = Prepared("own_wall_1", sweeps=16)
    before = case.residual()
    proximal_newton(case.p, case.matrix, case.x, case.u, np.empty((5, case.n, 3)), TOL, 1, 1e8)
    assert case.residual() <= before


def test_its_matrix_is_the_derivative_of_the_imbalance() -> None:
    case = Prepared("own_wall_1", sweeps=8)
    p, n, c = case.p, case.n, 30.0
    rng = np.random.default_rng(2)
    x, centre = case.x + 1e-2 * p.speed * rng.normal(size=(2, n, 3))  # away from corners, and no slip is zero
    force, step = np.empty((2, n, 3))
    size = imbalance(p, x, centre, c, case.u, force)
    step[:] = rng.normal(size=(n, 3))
    fill_matrix(p, centre, c, case.u, case.matrix)
    assert n % 2 and factorise_pairs(case.matrix)
    way = step.copy()
    solve_pairs(case.matrix, way)  # J way = step
    h, ends = 1e-7 * p.speed / np.abs(way).max(), []
    for sign in (1.0, -1.0):
        imbalance(p, x + sign * h * way, centre, c, case.u, force)
        ends.append(force.copy())
    assert size > 0.0
    # round-off over 1e-7 of the scale; a contact that changed its state in between would show
    np.testing.assert_allclose((ends[0] - ends[1]) / (2 * h), step, atol=1e-4)


def test_friction_that_is_brought_up_by_and_by_ends_what_nothing_else_does() -> None:
    p = assemble(*stubborn_pile(33))
    path, x, u = _Direct(p), np.zeros((len(p.mu), 3)), np.empty((len(p.mu), 3))
    assert path.pays(np.inf)
    _, found, _ = path.approach(x, u, TOL)
    velocities(p, x, u)
    assert found <= TOL and residual(p, x, u)[0] == pytest.approx(found, rel=1e-6)


def test_contacts_of_the_same_bodies_make_pairs() -> None:
    """Four contacts a joint of a tower, in any order: two pairs each, and nobody is left alone."""
    rng = np.random.default_rng(3)
    W, q = tower(rng, 6)
    order = rng.permutation(len(q) // 3)
    rows = (3 * order[:, None] + np.arange(3)).ravel()
    p = assemble(W[rows][:, rows], q[rows], np.full(len(order), 0.5))
    slot = np.empty(len(order), np.int64)
    assert pair_up(p.ptr, p.col, slot) == len(order) // 2
    joint = order[np.argsort(slot)] // 4
    assert (joint[::2] == joint[1::2]).all()
