"""The search for modes that tempering passes by: starts, climbs, and what becomes of them."""

import numpy as np
import pytest
from scipy.stats import multivariate_t

import tamis
from tamis.inference import mixture, scores, scouting
from tests import problems


def peak(z):
    """Return the log density of a Gaussian of sd 0.1 about (1, -1) in scores, and of one of sd 0.5 about (-1, 1)."""
    near = [
        -0.5 * (((z - c) / s) ** 2).sum(axis=1) - 2 * np.log(s)
        for c, s in (([1.0, -1.0], 0.1), ([-1.0, 1.0], 0.5))
    ]
    return np.logaddexp(*near)


def test_the_best_points_are_remembered_and_no_failures():
    z = np.arange(12.0).reshape(6, 2)
    value = np.array([3.0, -np.inf, 1.0, 5.0, np.nan, 2.0])
    points = scouting.remember(np.array([[9.0, 9.0, 4.0]]), z, value, 3)
    assert points[:, -1].tolist() == [5.0, 4.0, 3.0] and points[0, :2].tolist() == [6.0, 7.0]


def test_starts_are_the_tops_of_hills():
    z = np.random.default_rng(0).normal(size=(3000, 2))
    points = scouting.remember(np.empty((0, 3)), z, peak(z), 2048)
    mean, scale = scouting.starts(points, 3000, 100)
    assert mean.shape == (8, 2) and scale.shape == (8, 2, 2)
    first = mean[:2]  # the furthest from anything better
    assert np.abs(first - [1.0, -1.0]).max(axis=1).min() < 0.1
    assert np.abs(first - [-1.0, 1.0]).max(axis=1).min() < 0.3


@pytest.mark.statistical  # 250 draws a cloud know a sd to 10 % or so; fixed seed
def test_clouds_climb_and_take_the_shape_of_their_mode():
    rng = np.random.default_rng(1)
    mean, scale = np.array([[1.3, -0.8], [-0.2, 0.3]]), np.array([0.04 * np.eye(2)] * 2)
    for k in range(scouting.CLIMBS + scouting.WEIGHS):
        batch = scouting.draw(mean, scale, 500, rng)
        mean, scale, draws = scouting.advance(mean, scale, batch, peak(batch.z), k < scouting.CLIMBS)
    # times the prior, a Gaussian of variance 1: precisions add up, means are pulled to zero
    for k, (centre, sd) in enumerate((((1.0, -1.0), 0.1), ((-1.0, 1.0), 0.5))):
        precision = 1 + sd**-2
        assert mean[k] == pytest.approx(np.array(centre) * sd**-2 / precision, abs=0.2 * sd)
        assert np.sqrt(np.diag(scale[k])) == pytest.approx(precision**-0.5, rel=0.35)
    mass = [np.exp(draws[draws[:, 2] == k, :2].sum(axis=1)).sum() for k in range(2)]
    # the integral of the peaks is 2 pi, the prior there exp(-centre^2 / 2(1 + sd^2)) / (2 pi (1 + sd^2))
    exact = [np.exp(-1 / (1 + sd**2)) / (1 + sd**2) for sd in (0.1, 0.5)]
    assert mass == pytest.approx(exact, rel=0.25)


def test_duplicates_and_negligible_clouds_are_dropped():
    mean = np.array([[0.0, 0.0], [0.5, 0.0], [5.0, 0.0], [-5.0, 0.0], [0.0, 9.0], [1.0, 0.0]])
    scale = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.01])[:, None, None] * np.eye(2)
    draws = np.column_stack([[0.0, -1.0, -2.0, -20.0, -np.inf, -3.0], np.zeros(6), np.arange(6.0)])
    elsewhere = np.full((100, 2), 50.0)
    kept, widths, rare = scouting.distinct(mean, scale, draws, elsewhere)
    assert (
        kept.tolist() == [[0.0, 0.0], [5.0, 0.0], [1.0, 0.0]] and len(widths) == 3
    )  # a narrow one within a wide one
    assert rare.tolist() == [[0.0, 0.0], [-2.0, 0.0], [-3.0, 0.0]]


def test_a_cloud_in_which_the_population_lies_is_dropped():
    mean, scale = np.array([[0.0, 0.0], [0.1, 0.0]]), np.array([1.0, 0.001])[:, None, None] * np.eye(2)
    draws = np.column_stack([[0.0, 0.0], np.zeros(2), np.arange(2.0)])
    population = np.random.default_rng(0).standard_normal((200, 2))
    kept, widths, rare = scouting.distinct(mean, scale, draws, population)
    assert kept.tolist() == [[0.1, 0.0]] and len(widths) == len(rare) == 1
    none, _, rare = scouting.distinct(mean[:1], scale[:1], draws[:1], population)
    assert none.shape == (0, 2) and rare.shape == (0, 2)


def test_joined_components_are_student_laws_in_scores():
    rng = np.random.default_rng(2)
    q = mixture.fit(rng.normal(size=(500, 2)) * [1.0, 3.0], rng)
    mean, scale = np.array([[4.0, 1.0]]), np.array([[[0.02, 0.01], [0.01, 0.03]]])
    z = rng.normal(size=(50, 2)) * 0.3 + mean[0]
    more = mixture.joined(q, mean, scale, 0.1)
    part = multivariate_t.logpdf(z, mean[0], scale[0], df=mixture._FREEDOM)
    expected = np.logaddexp(np.log(0.9) + mixture.log_density(q, z), np.log(0.1) + part)
    assert mixture.log_density(more, z) == pytest.approx(expected, abs=1e-9)
    assert more.weight.sum() == pytest.approx(1.0)
    assert mixture.joined(q, np.empty((0, 2)), np.empty((0, 2, 2)), 0.1) is q


@pytest.mark.statistical  # found with probability 0.9 or more; fixed seed
@pytest.mark.parametrize("wide", [0.15, 0.3])  # many stages; only one, were it not for the narrow mode
def test_a_narrow_mode_with_most_of_the_mass_is_found(wide):
    problem = problems.narrow(wide=wide)
    posterior = tamis.tmcmc(problem.space, problem.loglike, n=2000, rng=np.random.default_rng(7))
    value, error = posterior.log_evidence
    assert abs(value) < 4 * error < 0.1
    assert problem.found(posterior.flat) == pytest.approx(
        [1.0, 1.0], abs=0.35
    )  # 200 draws are due in the wide one
    assert posterior.diagnostics["disagreement"] < 4


def test_the_search_costs_seven_calls_a_point():
    sizes = []
    problem = problems.linear()
    target = scores.Target(problem.space, problem.loglike)

    class Counted(scores.Target):
        def __call__(self, z):
            sizes.append(len(z))
            return super().__call__(z)

    counted = Counted(problem.space, problem.loglike)

    from tamis.inference import tmcmc as module

    state = module.init(target, 200, 5, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    while not (state.mixed and len(state.exponents) == 1):
        state = module.step(state, rng, target=target, fraction=0.5, sweeps=40)
    while state.searched < scouting.BATCHES:
        state = module.step(state, rng, target=counted, fraction=0.5, sweeps=40)
    assert sizes == [200] * scouting.LOOKS + [100] * (scouting.CLIMBS + scouting.WEIGHS)
    assert sum(sizes) == 7 * 200 and 1 <= len(state.mode) <= 8 and len(state.rare) > 0
