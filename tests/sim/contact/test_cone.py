"""Coulomb's cone at one contact: exact answers first, then every regime against the law itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from tamis.sim.contact.cone import natural, project, solve_local


def test_sticking_sliding_and_opening_are_known_by_hand() -> None:
    W = np.diag([2.0, 1.0, 1.0])
    assert solve_local(W, 1.0, 5.0, -3.0, 0.5) == (0.0, 0.0, 0.0)
    # 1e-14: the guard of a singular W, 8e-15. r_N = 2/2; sticking needs r_T = -0.3 and the cone gives up to 0.5
    assert solve_local(W, -2.0, 0.3, 0.0, 0.5) == pytest.approx((1.0, -0.3, 0.0), abs=1e-14)
    # sliding along (3, 4)/5: r_T = -0.5 (3, 4)/5
    assert solve_local(W, -2.0, 3.0, 4.0, 0.5) == pytest.approx((1.0, -0.3, -0.4), abs=1e-14)
    assert solve_local(W, -2.0, 3.0, 4.0, 0.0) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize("mu", [0.0, 0.3, 1.0, 2.0])
def test_the_projection_is_the_nearest_point(mu: float) -> None:
    rng = np.random.default_rng(1)
    for z in rng.normal(size=(20, 3)):
        p = np.array(project(*z, mu))
        nearest = minimize(  # the cone as (n, direction, fraction): an independent parametrisation
            lambda s, z=z: (
                (s[0] ** 2 - z[0]) ** 2
                + (mu * s[0] ** 2 * np.sin(s[2]) * np.cos(s[1]) - z[1]) ** 2
                + (mu * s[0] ** 2 * np.sin(s[2]) * np.sin(s[1]) - z[2]) ** 2
            ),
            x0=(1.0, np.arctan2(z[2], z[1]), 0.5),
            method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 4000},
        )
        # the search stops at 1e-13 in the squared distance
        assert ((p - z) ** 2).sum() <= nearest.fun + 1e-9
        assert np.hypot(p[1], p[2]) <= mu * p[0] * (1 + 1e-12)


def test_every_regime_satisfies_the_law() -> None:
    rng = np.random.default_rng(0)
    seen = {"open": 0, "stick": 0, "slip": 0}
    for k in range(4000):
        A = rng.normal(size=(3, 3)) * np.array(((1, 1, 1), (1, 1e-3, 1e-3), (1e-3, 1, 1))[k % 3])[:, None]
        if k % 4 == 1:
            A[:, 2] *= 1e-5  # nearly singular
        W = A @ A.T * 10.0 ** rng.uniform(-8, 2)
        q = rng.normal(size=3) * 10.0 ** rng.uniform(-4, 4)
        mu = (0.0, 0.1, 0.5, 1.0, 2.0)[k % 5]
        r = np.array(solve_local(W, *q, mu))
        u = W @ r + q
        w = np.trace(W) / 3.0
        size = max(np.linalg.norm(q), np.linalg.norm(abs(W) @ abs(r)))
        # round-off, times the condition of the tangential part
        assert w * natural(*u, *r, mu, 1.0 / w) <= 1e-11 * size
        sticks = np.linalg.norm(u) < 1e-9 * size
        seen["open" if r[0] == 0.0 else "stick" if sticks else "slip"] += 1
    assert min(seen.values()) > 200


def test_no_tangential_direction_is_preferred() -> None:
    c, s = np.cos(0.7), np.sin(0.7)
    R = np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
    A = np.random.default_rng(2).normal(size=(3, 3))
    W, q = A @ A.T, np.array([-1.0, 2.0, 0.5])
    turned = np.array(solve_local(R @ W @ R.T, *(R @ q), 0.4))
    assert turned == pytest.approx(R @ np.array(solve_local(W, *q, 0.4)), abs=1e-13)  # round-off


def test_a_slightly_unsymmetric_matrix_is_solved_as_it_is() -> None:
    W = np.array([[2.0, 0.1, 0.0], [0.1 + 1e-3, 1.0, 0.2], [0.0, 0.2 - 1e-3, 1.5]])
    for q in ((-1.0, 0.1, 0.1), (-1.0, 3.0, -2.0)):
        r = solve_local(W, *q, 0.5)
        assert natural(*(W @ np.array(r) + np.array(q)), *r, 0.5, 1.0) < 1e-14  # round-off


def test_a_contact_that_cannot_move_carries_nothing() -> None:
    assert solve_local(np.zeros((3, 3)), -1.0, 0.5, 0.0, 0.5) == (0.0, 0.0, 0.0)


def test_a_contact_that_nothing_turns_sideways_slips_at_the_limit() -> None:
    assert solve_local(np.diag([1.0, 0.0, 0.0]), -1.0, 0.5, 0.0, 0.3) == pytest.approx(
        (1.0, -0.3, 0.0), abs=1e-12
    )


def test_without_friction_nothing_pulls():
    assert project(-1.0, 0.0, 0.0, 0.0) == (0.0, 0.0, 0.0)
    assert project(-1.0, 0.3, 0.0, 0.0) == (0.0, 0.0, 0.0)
    assert project(2.0, 0.3, -0.1, 0.0) == (2.0, 0.0, 0.0)
    assert natural(1.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0) == 1.0
