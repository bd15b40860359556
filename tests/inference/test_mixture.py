"""The Student mixture and its two proposals."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_t

from tamis.inference import mixture


@pytest.fixture(scope="module")
def bent():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 2))
    points = np.column_stack([x[:, 0], x[:, 0] ** 2 + 0.2 * x[:, 1]])
    return mixture.fit(points, rng)


def test_density_is_that_of_student_laws(bent):
    z = np.random.default_rng(1).normal(size=(50, 2)) * 3
    parts = [
        np.log(w)
        + multivariate_t.logpdf(
            z,
            bent.centre + bent.root @ mean,
            bent.root @ factor @ factor.T @ bent.root.T,
            df=mixture._FREEDOM,
        )
        for w, mean, factor in zip(bent.weight, bent.mean, bent.factor, strict=True)
    ]
    # the quadratic forms are expanded: rounding of 1e-16 times the largest distance, about 1e4
    assert mixture.log_density(bent, z) == pytest.approx(logsumexp(parts, axis=0), abs=1e-9)


def test_bent_cloud_takes_many_components_and_a_guard(bent):
    assert len(bent.weight) == 17 and bent.weight.sum() == pytest.approx(1.0)
    assert bent.weight[-1] == mixture._GUARD and np.all(bent.mean[-1] == 0)


@pytest.mark.statistical  # 12 means against 5 standard errors: false alarm 7e-6, fixed seed
def test_local_proposal_is_reversible_with_respect_to_the_mixture(bent):
    rng = np.random.default_rng(2)
    here = mixture.independent(bent, np.empty((200_000, 2)), rng)
    there = mixture.local(bent, here, rng)
    assert np.mean((here == there).all(axis=1)) == 0
    for f in (lambda z: np.tanh(z[:, 0]), lambda z: np.tanh(z[:, 1] - 1), lambda z: (z[:, 0] > 0.5) * 1.0):
        for g in (lambda z: np.cos(z[:, 1]), lambda z: np.tanh(z[:, 0] + z[:, 1])):
            skew = f(here) * g(there) - f(there) * g(here)
            assert abs(skew.mean()) < 5 * skew.std() / np.sqrt(len(skew))
        drift = f(there) - f(here)
        assert abs(drift.mean()) < 5 * drift.std() / np.sqrt(len(drift))
        assert np.corrcoef(f(here), f(there))[0, 1] > 0.2  # it is local


@pytest.mark.statistical  # 2 means against 5 standard errors: false alarm 1e-6
def test_independent_proposal_has_the_density_of_the_mixture(bent):
    # importance weights p/q of a normal law p, whose tails are lighter, have mean 1
    z = mixture.independent(bent, np.empty((100_000, 2)), np.random.default_rng(3))
    for centre in ([0.0, 0.5], [1.0, 1.5]):
        log_p = -0.5 * ((z - centre) ** 2).sum(axis=1) / 0.3**2 - np.log(2 * np.pi * 0.3**2)
        weight = np.exp(log_p - mixture.log_density(bent, z))
        assert abs(weight.mean() - 1) < 5 * weight.std() / np.sqrt(len(weight))


def test_two_clusters_are_found():
    rng = np.random.default_rng(4)
    points = np.concatenate([rng.normal(size=(700, 3)) * 0.01, 5 + rng.normal(size=(300, 3)) * 0.02])
    draws = mixture.independent(mixture.fit(points, rng), np.empty((2000, 3)), rng)
    near, far = np.abs(draws).max(axis=1) < 0.5, np.abs(draws - 5).max(axis=1) < 0.5
    # all but the guard's draws, of which 4 % happen to fall there; 5 standard errors of 2000 draws
    assert (near | far).mean() == pytest.approx(1 - mixture._GUARD, abs=0.035)
    assert near[near | far].mean() == pytest.approx(0.7, abs=0.055)


@pytest.mark.parametrize(("n", "d"), [(8, 1), (8, 5), (8, 12), (100, 30), (5000, 1)])
def test_few_points_and_many_dimensions(n, d):
    rng = np.random.default_rng(5)
    points = rng.normal(size=(n, d))
    q = mixture.fit(points, rng)
    assert np.isfinite(mixture.log_density(q, points)).all()
    assert np.isfinite(mixture.local(q, points, rng)).all()


def test_repeated_points_do_not_break_the_fit():
    rng = np.random.default_rng(6)
    points = np.repeat(rng.normal(size=(20, 3)), 50, axis=0)
    same = np.zeros((100, 2))
    for cloud in (points, same):
        assert np.isfinite(mixture.log_density(mixture.fit(cloud, rng), cloud)).all()


def test_coordinates_do_not_matter():
    # an affine map of the points maps the fit: same shares of components, density divided by the Jacobian
    points = np.random.default_rng(7).normal(size=(2000, 2)) ** 3
    a, b = np.array([[1e-6, 0.0], [2e3, 1e4]]), np.array([5.0, -1e6])
    one = mixture.fit(points, np.random.default_rng(8))
    two = mixture.fit(points @ a.T + b, np.random.default_rng(8))
    expected = mixture.log_density(one, points) - np.log(np.linalg.det(a))
    # a is ill-conditioned by 1e10 and whitening uses the covariance, its square root's square: 1e-16 * 1e10
    assert mixture.log_density(two, points @ a.T + b) == pytest.approx(expected, abs=1e-4)
