"""Log densities against SciPy's multivariate normal, and how many factorisations they take."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import tamis
from tamis import gaussians
from tamis.gaussians import Spread, log_density
from tamis.noise import Covariance, Known, Sum
from tamis.types import Gauss

N, M = 6, 5
RNG = np.random.default_rng(3)
HALF = RNG.normal(size=(M, M))
MATRIX = HALF @ HALF.T + np.eye(M)
AT = np.array([0.0, 0.4, 0.1, 0.9, 0.5])
SHAPE = RNG.uniform(0.5, 2.0, M)
EACH = RNG.uniform(0.5, 2.0, (N, 1))  # a number a point
NONE, ONE = np.zeros((N, M)), np.ones((1, 1))

# white variances, matrices, colours, and how many m by m matrices are factorised: one, or one a point
CASES = {
    "alone": (NONE, ((MATRIX, ONE),), (), 1),
    "scaled": (NONE, ((MATRIX, EACH),), (), 1),
    "fixed": (np.tile(SHAPE, (N, 1)), ((MATRIX, ONE),), (), 1),
    "proportional": (EACH * SHAPE, ((MATRIX, ONE),), (), 0),
    "both": (EACH**2 * SHAPE, ((MATRIX, EACH),), (), 0),
    "fixed-scaled": (np.tile(SHAPE, (N, 1)), ((MATRIX, EACH),), (), 0),
    "any": (RNG.uniform(0.5, 2.0, (N, M)), ((MATRIX, EACH),), (), N),
    "two": (NONE, ((MATRIX, ONE), (np.diag(SHAPE), EACH)), (), N),
    "fading": (NONE, ((MATRIX, ONE),), ((EACH, 0.3 * ONE),), N),
}


@pytest.mark.parametrize("k", [0, 2, 7])  # none, few, and more than there are measurements
@pytest.mark.parametrize("name", CASES)
def test_full_covariances(name, k, monkeypatch):
    white, matrices, colours, factors = CASES[name]
    rng = np.random.default_rng(k)
    residual, modes, weight = rng.normal(size=(N, M)), rng.normal(size=(k, M)), rng.uniform(0, 2, (N, k))
    counted = []
    plain = gaussians._cholesky

    def counting(stack):
        counted.append(len(stack) if stack.shape[1] == M else 0)
        return plain(stack)

    monkeypatch.setattr(gaussians, "_cholesky", counting)
    found = log_density(residual, Spread(white, AT, colours, matrices, modes, weight))
    fade = np.abs(AT[:, None] - AT)
    for i in range(N):
        full = np.diag(white[i]) + modes.T @ np.diag(weight[i]) @ modes
        full = full + sum(np.broadcast_to(factor, (N, 1))[i] * matrix for matrix, factor in matrices)
        full = full + sum(variance[i] * np.exp(-fade / length[0]) for variance, length in colours)
        exact = multivariate_normal(np.zeros(M), full).logpdf(residual[i])
        assert found[i] == pytest.approx(exact, rel=1e-11)  # round-off of well-conditioned factors
    if k <= M:
        assert sum(counted) == factors


def test_one_decomposition_serves_thousands_of_points():
    # 2000 factors of 200 by 200 would be 5e9 multiplications, one is 3e6 and its use at 2000 points 8e7
    m, n = 200, 2000
    rng = np.random.default_rng(0)
    at = np.linspace(0, 1, m)
    matrix = np.exp(-np.abs(at[:, None] - at) / 0.2)
    residual = rng.normal(size=(n, m))
    size = rng.uniform(0.5, 2.0, (n, 1))
    found = log_density(
        residual,
        Spread(
            np.broadcast_to(size, (n, m)),
            at,
            (),
            ((matrix, np.ones((1, 1))),),
            np.empty((0, m)),
            np.empty((n, 0)),
        ),
    )
    for i in (0, n - 1):
        exact = multivariate_normal(np.zeros(m), matrix + size[i] * np.eye(m)).logpdf(residual[i])
        assert found[i] == pytest.approx(exact, rel=1e-11)


def test_points_without_a_density_leave_the_others_theirs():
    residual = np.ones((4, M))
    residual[1, 2] = np.nan
    factor = np.array([[1.0], [1.0], [0.0], [-1.0]])
    empty = (np.empty((0, M)), np.empty((4, 0)))
    for white in (np.zeros((4, M)), np.array([[0.3], [0.3], [0.0], [0.4]]) * np.ones(M)):
        found = log_density(residual, Spread(white, AT, (), ((MATRIX, factor),), *empty))
        assert np.array_equal(np.isfinite(found), [True, False, False, False])
        exact = multivariate_normal(np.zeros(M), MATRIX + np.diag(white[0])).logpdf(residual[0])
        assert found[0] == pytest.approx(exact, rel=1e-11)


def test_a_singular_covariance_is_refused_in_words():
    spread = Spread(
        np.zeros((1, 2)), np.zeros(2), (), ((np.ones((2, 2)), ONE),), np.empty((0, 2)), np.empty((1, 0))
    )
    with pytest.raises(tamis.StudyError, match="not positive definite"):
        log_density(np.zeros((1, 2)), spread)


def test_a_negative_scale_has_no_density_in_any_batch():
    """What a point is worth does not depend on the points beside it."""
    matrix = np.array([[1.0, 0.3], [0.3, 2.0]])
    noise = Sum((Covariance(matrix, "s"), Known(0.3)))
    y, mean = np.zeros((1, 2)), np.zeros((3, 2))
    scale = np.array([-0.01, 0.5, -1.0])
    together = noise.loglike(y, Gauss(mean, np.zeros((3, 2))), {"s": scale}, None)
    alone = [
        noise.loglike(y, Gauss(mean[:1], np.zeros((1, 2))), {"s": scale[i : i + 1]}, None)[0]
        for i in range(3)
    ]
    assert np.isneginf(together[[0, 2]]).all() and np.isfinite(together[1])
    np.testing.assert_allclose(together, alone)


def test_a_point_without_surrogate_variance_beside_one_with():
    matrix = np.array([[1.0, 0.3], [0.3, 2.0]])
    var = np.array([[0.0, 0.0], [0.1, 0.2]])
    found = Covariance(matrix).loglike(np.ones((1, 2)), Gauss(np.zeros((2, 2)), var), {}, None)
    wanted = [multivariate_normal(np.zeros(2), matrix + np.diag(extra)).logpdf(np.ones(2)) for extra in var]
    np.testing.assert_allclose(found, wanted)


def test_nothing_measured_tells_nothing():
    """A test that was not measured, among others that share the surrogate's errors: its density is 1 everywhere."""
    model = Gauss(np.zeros((3, 2)), np.ones((3, 2)), common=np.ones((3, 1, 2)))
    y = np.full((1, 2), np.nan)
    np.testing.assert_array_equal(Known(0.1).loglike(y, model, {}, None), np.zeros(3))
    mean, root = gaussians.common_given([Known(0.1).witness(y, model, {}, None)])
    np.testing.assert_array_equal(mean, np.zeros((3, 1)))
    np.testing.assert_array_equal(root, np.ones((3, 1, 1)))
