"""The contact problem of a step against closed forms, its own definition and an independent minimiser."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from tamis.sim.contact.solve import (
    CAPPED,
    CONVERGED,
    FEW_BODIES,
    MANY_BODIES,
    NOT_FINITE,
    STRATEGY,
    workspace,
)
from tamis.sim.contact.tuning import MAX_BODIES
from tests.sim.contact.bodies import G0, boxes, corners, dense, residuals, solved, stack, wall

H = 1e-3


def incline(angle, azimuth, mu):
    """A block on a slope that descends towards ``azimuth``; axes turn with the slope."""
    tilt, way = np.radians(angle), np.array([np.cos(azimuth), np.sin(azimuth), 0.0])
    gravity = G0 * (np.sin(tilt) * way - np.cos(tilt) * np.array([0, 0, 1]))
    face = corners(-0.5, 0.5, -0.5, 0.5, -0.1)
    return boxes([(1, 1, 0.2)], [7.0], [(-1, 0, face, face, (0, 0, 1))], mu, h=H, gravity=gravity), way


@pytest.mark.parametrize("azimuth", [0.0, 0.3, 0.785, 2.1, 4.4])
def test_a_block_slides_as_coulomb_says_whatever_the_direction(azimuth):
    problem, way = incline(30.0, azimuth, 0.3)
    found = solved(problem, 1e-12)
    velocity = found.w[0] / problem.scale[0]
    exact = H * G0 * (np.sin(np.pi / 6) - 0.3 * np.cos(np.pi / 6))
    assert found.status == CONVERGED
    np.testing.assert_allclose(
        velocity[:3], exact * way, atol=1e-11 * H * G0
    )  # tol 1e-12 and a lever of a few


def test_a_block_sticks_below_the_friction_angle_and_carries_its_weight():
    problem, _ = incline(30.0, 1.0, 0.7)
    found = solved(problem, 1e-12)
    assert found.status == CONVERGED and np.abs(found.w / problem.scale).max() < 1e-11 * H * G0
    weight = 7.0 * G0 * H
    assert found.r[:, 0].sum() == pytest.approx(weight * np.cos(np.pi / 6), rel=1e-10)
    assert np.linalg.norm(found.r[:, 1:].sum(0)) == pytest.approx(weight * np.sin(np.pi / 6), rel=1e-10)


@pytest.mark.parametrize("tol", [1e-6, 1e-10])
def test_the_interfaces_of_a_stack_carry_what_is_above(tol):
    masses = np.full(10, 1000.0)
    found = solved(stack(masses), tol)
    assert found.status == CONVERGED and found.residual <= tol
    carried = found.r[:, 0].reshape(10, 4).sum(1)
    above = np.cumsum(masses[::-1])[::-1] * G0 * H
    # the residual is a velocity of tol * h g at one contact; ten boxes add up to a hundred times as much
    np.testing.assert_allclose(carried, above, rtol=100 * tol)


@pytest.mark.parametrize("masses", [10.0 ** (np.arange(10) / 2), np.where(np.arange(10) % 2, 1.0, 1e4)])
def test_heavy_blocks_on_light_ones(masses):
    problem = stack(masses)
    found = solved(problem, 1e-8)
    assert found.status == CONVERGED
    assert (
        np.abs(found.w / problem.scale).max() < 1e-5 * G0 * H
    )  # tol, a load of thirty, ten blocks whose errors add up


def test_a_resting_stack_settles_to_round_off_over_the_steps():
    problem = stack(np.full(10, 1000.0))
    found = solved(problem, 1e-6)
    for _ in range(10):
        found = solved(problem, 1e-6, found.r)
        assert found.status == CONVERGED and found.iterations < 5
    assert (
        np.abs(found.w / problem.scale).max() < 1e-10 * G0 * H
    )  # 1e-16 of a speed times the stiffness 1e4, ten boxes


def test_the_residual_is_that_of_the_impulses_returned():
    problem = wall(4, 6)
    found = solved(problem, 1e-6)
    own, w = residuals(problem, found.r)
    assert found.status == CONVERGED and own.max() <= 1e-6
    assert found.residual == pytest.approx(
        own.max(), rel=1e-6
    )  # round-off of 1e-16 in 1e-6 or less, amplified
    assert own[found.worst] == pytest.approx(own.max(), rel=1e-6)
    np.testing.assert_allclose(found.w, w, atol=1e-12 * np.abs(w).max() + 1e-13)


def struck(problem, speed):
    """Let the middle block of the top row be pushed sideways, across the wall."""
    free = problem.free.copy()
    free[-2, 1] += speed * problem.scale[-2, 1]
    return problem._replace(free=free)


def test_a_struck_wall_converges_and_loses_energy():
    problem = struck(wall(4, 10), 5.0)
    found = solved(problem, 1e-6)
    assert found.status == CONVERGED and found.iterations < 200
    before = 0.5 * (problem.free**2).sum()
    assert 0.5 * (found.w**2).sum() < before
    assert residuals(problem, found.r)[0].max() <= 1e-6


def test_frictionless_velocities_are_those_of_an_independent_minimiser():
    problem = struck(wall(2, 3, mu=0.0), 1.0)
    problem.free[0, 3] += 0.05 * problem.scale[0, 3]
    found = solved(problem, 1e-12)
    normal = dense(problem)[::3]

    def energy(r):
        w = problem.free.ravel() + normal.T @ r
        return 0.5 * w @ w, normal @ w

    best = minimize(
        energy, np.zeros(len(normal)), jac=True, bounds=[(0, None)] * len(normal), method="L-BFGS-B",
        options={"ftol": 1e-16, "gtol": 1e-10, "maxiter": 20_000, "maxfun": 40_000},
    )  # fmt: skip
    w = problem.free.ravel() + normal.T @ best.x
    # the minimiser stops at an energy of 1e-16 of the whole, hence at 1e-8 of the velocities; a margin of ten
    np.testing.assert_allclose(found.w.ravel(), w, atol=1e-7 * np.abs(w).max())


def test_turned_tangents_turn_the_impulses_and_change_no_velocity():
    problem = struck(wall(3, 4), 2.0)
    found = solved(problem, 1e-10)
    turn = np.eye(3)
    turn[1:, 1:] = [[np.cos(0.7), np.sin(0.7)], [-np.sin(0.7), np.cos(0.7)]]
    turned = problem._replace(G=np.ascontiguousarray(turn @ problem.G))
    other = solved(turned, 1e-10)
    assert other.status == found.status == CONVERGED
    np.testing.assert_allclose(other.w, found.w, atol=1e-8 * np.abs(found.w).max())  # a hundred times tol


def test_the_same_bytes_twice_and_with_a_larger_workspace():
    problem = struck(wall(4, 6), 3.0)
    one, two = solved(problem), solved(problem, work=workspace(60, 900))
    assert one.w.tobytes() == two.w.tobytes() and one.r.tobytes() == two.r.tobytes()


def test_prescribed_motion_in_the_bias_drags_the_block():
    face = corners(-0.5, 0.5, -0.5, 0.5, -0.1)
    problem = boxes([(1, 1, 0.2)], [2.0], [(-1, 0, face, face, (0, 0, 1))], 0.5, axes=np.eye(3)[[2, 0, 1]])
    problem.bias[:, 1] = -1.0  # the ground goes at 1 m/s along x
    found = solved(problem, 1e-12)
    velocity = found.w[0] / problem.scale[0]
    assert velocity[0] == pytest.approx(0.5 * G0 * H, rel=1e-9)


def chain(masses):
    """Boxes on each other and on the ground, one contact a pair, at the middle of the face."""
    middle = np.array([[0.0, 0.0, 0.25]])
    joints = [(k - 1, k, middle, -middle, (0, 0, 1)) for k in range(len(masses))]
    return boxes([(1.0, 0.8, 0.5)] * len(masses), masses, joints, 0.6)


@pytest.mark.parametrize("masses", [2.0 ** np.arange(10), np.array([*[1.0] * 7, 1000.0])])
def test_a_chain_with_one_contact_a_pair_is_solved_as_few_bodies(masses):
    """4 m - 3 products of blocks to m contacts: many for each contact, but a microsecond in all."""
    found = solved(chain(masses), 1e-8)
    assert found.status == CONVERGED and found.report[STRATEGY] == FEW_BODIES
    above = np.cumsum(masses[::-1])[::-1] * G0 * H
    # the residual is a velocity of tol * h g, times a load of thirty; ten boxes add up
    np.testing.assert_allclose(found.r[:, 0], above, rtol=1e-5)


@pytest.mark.parametrize("size", [(9, 40), (10, 39)])
def test_a_workspace_that_is_too_small_is_refused(size):
    with pytest.raises(ValueError, match=r"the problem has 10 and 40; make one with workspace\(10, 40\)"):
        solved(stack(np.ones(10)), work=workspace(*size))


def test_many_bodies_are_left_to_the_sweeps():
    """A loose pile of small stacks, above the size for which the coupling is factorised."""
    one = stack(np.full(3, 5.0))
    n, m = 160, 3
    tiles = [np.tile(x, (n,) + (1,) * (x.ndim - 1)) for x in (one.G, one.bias, one.mu, one.free, one.scale)]
    shift = np.repeat(np.arange(n) * m, len(one.a))
    a = np.where(np.tile(one.a, n) >= 0, np.tile(one.a, n) + shift, -1)
    problem = one._replace(a=a, b=np.tile(one.b, n) + shift)._replace(
        **dict(zip(("G", "bias", "mu", "free", "scale"), tiles, strict=True))
    )
    found = solved(problem, 1e-6)
    assert found.status == CONVERGED and residuals_of_one(found, one) <= 1e-6
    assert found.report[STRATEGY] == MANY_BODIES


def residuals_of_one(found, one):
    n = len(one.a)
    return max(residuals(one, found.r[k : k + n])[0].max() for k in range(0, len(found.r), n))


def test_bodies_in_flight_do_not_decide_how_the_others_are_solved():
    """Heavy blocks on light ones, which sweeps alone do not solve, beside more free bodies than are factorised."""
    alone = stack(3.0 ** np.arange(10))
    many = 2 * MAX_BODIES
    flying = alone._replace(
        free=np.concatenate([alone.free, np.ones((many, 6))]),
        scale=np.concatenate([alone.scale, np.ones((many, 6))]),
    )
    one, other = solved(alone, 1e-8), solved(flying, 1e-8)
    assert one.status == other.status == CONVERGED and one.iterations == other.iterations
    np.testing.assert_array_equal(one.w, other.w[:10])
    np.testing.assert_array_equal(other.w[10:], 1.0)


def test_what_cannot_be_reached_is_said():
    problem = stack(10.0 ** np.arange(10))  # a ratio of 1e9: round-off alone is above the tolerance
    found = solved(problem, 1e-12)
    assert found.status == CAPPED and found.residual > 1e-12
    assert found.residual == pytest.approx(residuals(problem, found.r)[0].max(), rel=0.5)


def test_a_number_that_is_none_is_reported():
    problem = stack(np.ones(3))
    problem.free[1, 2] = np.nan
    assert solved(problem).status == NOT_FINITE


def test_no_contact_leaves_the_velocities():
    problem = stack(np.ones(2))
    nothing = problem._replace(**{name: getattr(problem, name)[:0] for name in ("a", "b", "G", "bias", "mu")})
    found = solved(nothing)
    assert (found.status, found.iterations, found.residual) == (CONVERGED, 0, 0.0)
    np.testing.assert_array_equal(found.w, problem.free)
