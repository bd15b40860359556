"""Orthonormal families and index sets, against quadrature and counting."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tamis import marginals
from tamis.surrogates.polynomials import (
    CUT_NORMAL,
    HERMITE,
    JACOBI,
    LAGUERRE,
    LEGENDRE,
    TRIANGLE,
    Family,
    anisotropic,
    evaluate,
    family,
    hyperbolic,
    recurrence,
    standard,
    univariate,
)

FAMILIES = [
    Family(LEGENDRE),
    Family(HERMITE),
    Family(LAGUERRE, 1.0),
    Family(LAGUERRE, 6.25),
    Family(JACOBI, 2.0, 3.0),
    Family(JACOBI, 0.5, 0.5),
    Family(CUT_NORMAL, -3.0, 2.0),
    Family(CUT_NORMAL, -np.inf, -1.0),
    Family(CUT_NORMAL, 5.0, np.inf),
    Family(TRIANGLE, 0.3),
    Family(TRIANGLE, 0.0),
]


@pytest.mark.parametrize("law", FAMILIES, ids=str)
def test_orthonormal(law: Family) -> None:
    # Gauss nodes from the recurrence (Golub & Welsch 1969, 10.1090/S0025-5718-69-99647-1), Christoffel weights: exact
    # for degree 2 x 20, so that only the rounding of the nodes is left, amplified by steep polynomials
    alpha, beta = recurrence(law, 30)
    matrix = np.diag(alpha) + np.diag(np.sqrt(beta[1:]), 1) + np.diag(np.sqrt(beta[1:]), -1)
    values = univariate(np.linalg.eigvalsh(matrix), law, 30)
    weights = 1 / (values**2).sum(axis=0)
    np.testing.assert_allclose((values[:21] * weights) @ values[:21].T, np.eye(21), atol=1e-9)


@pytest.mark.parametrize("law", FAMILIES, ids=str)
def test_orthonormal_in_the_law_of_the_points(law: Family) -> None:
    # midpoints of 2e5 equal cells of the unit interval: error from the unbounded ends, largest for Laguerre
    u = (np.arange(200_000) + 0.5) / 200_000
    values = univariate(standard(u, law), law, 2)
    np.testing.assert_allclose(values @ values.T / len(u), np.eye(3), atol=0.01)


def test_families_of_laws() -> None:
    assert family(None) == family(marginals.uniform(3, 4)) == Family(LEGENDRE)
    assert family(marginals.normal(3, 4)) == family(marginals.lognormal(2, 0.3)) == Family(HERMITE)
    assert family(marginals.gamma(2.0, 0.5)) == Family(LAGUERRE, 4.0)
    assert family(marginals.exponential(2.0)) == Family(LAGUERRE, 1.0)
    assert family(marginals.beta(2.0, 3.0, 10, 20)) == Family(JACOBI, 2.0, 3.0)
    assert family(marginals.beta(1.0, 1.0)) == Family(LEGENDRE)
    assert family(marginals.truncnormal(1.0, 0.5, 0.0, 3.0)) == Family(CUT_NORMAL, -2.0, 4.0)
    assert family(marginals.triangular(0, 1, 4)) == Family(TRIANGLE, 0.25)
    assert family(marginals.loguniform(1, 2)) == Family(LEGENDRE)
    tails = (marginals.normal(3, 4), marginals.truncnormal(1.0, 0.5, 0.0), marginals.exponential(1.0))
    assert all(family(law).unbounded for law in tails)
    bounded = (marginals.truncnormal(1.0, 0.5, 0.0, 3.0), marginals.uniform(0, 1), marginals.beta(2.0, 3.0))
    assert not any(family(law).unbounded for law in bounded)


@pytest.mark.parametrize(
    "law",
    [
        marginals.normal(3, 4),
        marginals.gamma(2, 0.5),
        marginals.beta(2, 3, 10, 20),
        marginals.uniform(1, 4),
        marginals.truncnormal(3, 4, 0, 8),
        marginals.truncnormal(3, 1, 8),
        marginals.triangular(2, 3, 8),
    ],
)
def test_standard_is_the_law_up_to_scale(law: marginals.Marginal) -> None:
    u = np.linspace(0.01, 0.99, 99)
    x, z = law.ppf(u), standard(u, family(law))
    np.testing.assert_allclose(np.polyval(np.polyfit(z, x, 1), z), x, rtol=1e-9)  # inversions of scipy


def test_edges_of_the_cube_are_finite() -> None:
    for law in FAMILIES:
        assert np.isfinite(univariate(standard(np.array([0.0, 1.0]), law), law, 20)).all()


@pytest.mark.parametrize(("d", "degree", "q"), [(1, 5, 0.5), (3, 4, 1.0), (3, 6, 0.5), (4, 5, 0.75)])
def test_hyperbolic_sets(d: int, degree: int, q: float) -> None:
    found = hyperbolic(d, degree, q, 10_000)
    assert found is not None
    every = itertools.product(range(degree + 1), repeat=d)
    wanted = {a for a in every if sum(k**q for k in a) ** (1 / q) <= degree + 1e-6}
    assert {tuple(row) for row in found.tolist()} == wanted
    assert len(found) == len(wanted) and not found[0].any()


def test_total_degree_count_and_limit() -> None:
    found = hyperbolic(5, 6, 1.0, 10_000)
    assert found is not None and len(found) == math.comb(11, 5)
    assert hyperbolic(5, 6, 1.0, 461) is None


def test_sets_of_rising_degree_are_heads_of_each_other() -> None:
    small, large = hyperbolic(4, 5, 0.75, 10_000), hyperbolic(4, 8, 0.75, 10_000)
    assert small is not None and large is not None
    np.testing.assert_array_equal(large[: len(small)], small)


def test_anisotropic_sets_go_further_along_slow_inputs() -> None:
    found = anisotropic(np.array([[0.2], [2.0], [1.0]]) * np.arange(21), 100)
    assert 90 <= len(found) <= 100 and not found[0].any()
    highest = found.max(axis=0)
    assert highest[0] > highest[2] > highest[1]


def test_evaluate_is_the_product() -> None:
    rng = np.random.default_rng(1)
    laws = (Family(LEGENDRE), Family(HERMITE), Family(LAGUERRE, 2.0), Family(JACOBI, 2.0, 3.0))
    u, indices = rng.random((50, 4)), rng.integers(0, 6, (40, 4))
    wanted = np.ones((40, 50))
    for i, law in enumerate(laws):
        wanted *= univariate(standard(u[:, i], law), law, 5)[indices[:, i]]
    np.testing.assert_allclose(evaluate(u, laws, indices), wanted, rtol=1e-13)  # order of products


def test_cut_where_nothing_is_lost_is_hermite() -> None:
    alpha, beta = recurrence(Family(CUT_NORMAL, -np.inf, np.inf), 20)
    np.testing.assert_allclose(alpha, 0.0, atol=1e-10)  # rounding, amplified by the steepness of degree 20
    np.testing.assert_allclose(beta[1:], np.arange(1, 21), rtol=1e-10)
