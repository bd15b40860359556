"""Transitional MCMC on the shapes that samplers are usually tried on: evidence, and every mode found.

The prior boxes are those of the problems: two Gaussian shells in (-6, 6)^d, the eggbox in (0, 10 pi)^2, the banana in
(-25, 25)^2, the ring in (-10, 10)^2, Neal's funnel in (-30, 30)^d.
"""

from dataclasses import replace

import numpy as np
import pytest

import tamis
from tamis.inference import tmcmc as module
from tests import battery, problems

# The evidence is asked for within 0.15, with 8192 samples and 2e6 calls of the likelihood at most.
TOLERANCE, CALLS = 0.15, 2e6
SHAPES = {
    "shells, 2-D": (problems.shells(2), 1024),  # and the number of points
    "shells, 5-D": (problems.shells(5), 1024),
    "shells, 10-D": (problems.shells(10), 2048),
    "eggbox": (problems.eggbox(), 2048),
    "banana": (problems.banana(), 1024),
    "donut": (problems.donut(), 1024),
}


def sample(problem, n, seed, **more):
    return tamis.tmcmc(problem.space, problem.loglike, n=n, rng=np.random.default_rng(seed), **more)


def check(problem, posterior, tolerance):
    assert abs(posterior.log_evidence[0] - problem.log_evidence) < tolerance
    assert posterior.diagnostics["likelihood_calls"] <= CALLS
    return problem.found(posterior.flat)


def test_evidences_are_those_of_the_literature():
    # Feroz, Hobson & Bridges (2009), table 1 and section 6.1; the digits they print
    for problem, published, digits in (
        (problems.shells(2), -1.75, 2),
        (problems.shells(5), -5.67, 2),
        (problems.shells(10), -14.59, 2),
        (problems.eggbox(), 235.86, 2),
    ):
        assert round(problem.log_evidence, digits) == published


@pytest.mark.parametrize("name", ["shells, 2-D", "eggbox", "banana", "donut"])
def test_evidences_and_shares_are_those_of_a_grid(name):
    """The midpoint rule with three points or more in a standard deviation; parts end between two columns of it."""
    problem, _ = SHAPES[name]
    low, high = problem.box
    side = low + (np.arange(1500) + 0.5) / 1500 * (high - low)
    x = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    value = problem.loglike(x)
    weight = np.exp(value - value.max())
    assert value.max() + np.log(weight.mean()) == pytest.approx(problem.log_evidence, abs=1e-5)
    cell = problem.cell(x)
    share = np.bincount(cell[cell >= 0], weights=weight[cell >= 0], minlength=len(problem.shares))
    assert share / weight.sum() == pytest.approx(problem.shares, abs=0.01)


@pytest.mark.statistical  # the evidence scatters by 0.01 to 0.05, so that the bound is three of that or more
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", ["shells, 2-D", "shells, 5-D", "eggbox", "banana", "donut"])
def test_shape(name, seed):
    problem, n = SHAPES[name]
    share = check(problem, sample(problem, n // 2, seed), TOLERANCE)
    assert share.min() > 0.3  # a corner of the eggbox should have 20 points


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", SHAPES)
def test_shape_in_every_run(name):
    problem, n = SHAPES[name]
    for seed in range(20):
        share = check(problem, sample(problem, n, seed), TOLERANCE)
        assert share.min() > 0.5 and share.max() < 1.6, seed


@pytest.mark.slow
@pytest.mark.statistical  # 220 runs in all, 97 % inside on other seeds; these are fixed
@pytest.mark.filterwarnings("ignore:the sampler did not mix")  # the funnel, the eggbox with few points
@pytest.mark.parametrize("n", [100, 500])
def test_three_reported_errors_hold_the_truth_over_the_battery(n):
    reachable = [p for p in battery.DENSITIES if p.name != "narrow mode, 5-D"]  # so few points do not see it
    runs = [
        (*sample(p, n, 1000 + seed).log_evidence, p.log_evidence) for p in reachable for seed in range(10)
    ]
    value, reported, exact = np.array(runs).T
    assert np.mean(np.abs(value - exact) <= 3 * reported) >= 0.95


@pytest.mark.slow
@pytest.mark.statistical  # found with probability 0.7: fewer than 9 of 20 with probability 5e-3; fixed seeds
def test_a_narrow_mode_is_found_in_most_runs():
    problem = problems.narrow()
    runs = np.array([sample(problem, 2000, 1000 + seed).log_evidence for seed in range(20)])
    found = np.abs(runs[:, 0]) < 1  # without it -2.3
    assert found.sum() >= 9
    assert np.all(np.abs(runs[found, 0]) < 4 * runs[found, 1])


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.filterwarnings(
    "ignore:the sampler did not mix"
)  # the stages before the last, and so stepping, are off
def test_funnel_in_every_run():
    problem = problems.funnel(5)
    for seed in range(20):
        share = check(problem, sample(problem, 2048, seed, sweeps=300), TOLERANCE)
        assert share.min() > 0.3, seed  # the neck is the last to be filled


def test_a_funnel_too_narrow_for_the_effort_is_told():
    # as in four of six runs; the error of the evidence bears it in others
    with pytest.warns(tamis.TamisWarning, match="did not mix"):
        sample(problems.funnel(10), 256, 2, sweeps=6)


@pytest.mark.statistical  # the neck, 40 % of the mass, is missed in every run: the error is 10 of the bridge's own
def test_an_evidence_without_the_neck_of_the_funnel_is_reported_as_uncertain():
    problem = problems.funnel(10)
    with pytest.warns(tamis.TamisWarning, match="did not mix.*error of the log evidence"):
        posterior = sample(problem, 300, 0)
    value, error = posterior.log_evidence
    assert abs(value - problem.log_evidence) < 3 * error
    assert error > 5 * posterior.diagnostics["log_evidence_bridge"][1]


def test_a_stage_goes_on_while_the_population_moves():
    """The same number of points reaches further into the neck when stages may last."""
    problem = problems.funnel(5)
    with pytest.warns(tamis.TamisWarning, match="did not mix"):
        short, long = (sample(problem, 256, 0, sweeps=sweeps) for sweeps in (6, 60))
    error = [posterior.log_evidence[0] - problem.log_evidence for posterior in (short, long)]
    assert error[0] < error[1] < 0.1
    assert short.diagnostics["drift"].shape == short.diagnostics["exponents"][1:].shape


def test_drift_is_the_shift_of_a_mean_in_standard_errors_of_resampled_points():
    problem = problems.donut()
    state = module.init(problem.loglike, 400, 2, np.random.default_rng(0))
    state = module.temper(state, 0.5, np.random.default_rng(1))
    assert module._drift(state, 0.5) == 0
    moved = replace(state, z=state.z + np.array([0.0, 0.1]))
    # half the points' effective size is left by the weights: variances 1 / n and 2 / n
    assert module._drift(moved, 0.5) == pytest.approx(0.1 / state.z[:, 1].std() / np.sqrt(3 / 400))
