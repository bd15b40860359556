"""Chains that mix by default: a tempered warm-up, an extension where it was not enough, and what is told of both."""

import numpy as np
import pytest

import tamis
from tamis.inference import warmup
from tamis.inference.metropolis import metropolis
from tests import problems
from tests.inference.test_metropolis import conjugate, same, sample, uniform


def test_weights_are_those_of_each_group():
    height = np.array([[0.0, -1.0, -np.inf, -1000.0], [5.0, 5.0, 5.0, 5.0]])
    weight = warmup.weights(height, 2.0)
    assert weight[0] == pytest.approx(np.array([1, np.exp(-2), 0, 0]) / (1 + np.exp(-2)))
    assert weight[1] == pytest.approx(np.full(4, 0.25))
    assert np.array_equal(warmup.weights(height, 0.0)[0] > 0, [True, True, False, True])
    chosen = warmup.chosen(weight, 4, np.random.default_rng(0))
    assert set(chosen[0]) <= {0, 1} and list(chosen[1]) == [0, 1, 2, 3]
    steps = np.arange(12.0).reshape(2, 6)  # two steps of six chains, three groups
    assert warmup.by_group(steps, 3).tolist() == [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]]


def test_exponents_leave_a_fifth_of_the_points():
    height = -0.5 * (np.random.default_rng(0).normal(size=(1, 5000)) / 0.01) ** 2
    exponent = warmup.next_exponent(height, 0.0)
    weight = warmup.weights(height, exponent)
    assert 0 < exponent < 1e-2 and 1 / (weight**2).sum() == pytest.approx(1000, rel=1e-6)
    assert warmup.next_exponent(1e-3 * height, 0.999) == 1.0


def sharp(d, m, sd, seed, **more):
    """Sample a conjugate problem; return rhat and the found standard deviations over the exact ones."""
    problem = problems.linear(d, m, sd)
    posterior = sample(problem, seed, **more)
    exact = np.sqrt(np.diag(conjugate(problem.loglike)[1]))
    return posterior.diagnostics["rhat"].max(), posterior.flat.std(axis=0) / exact


def test_many_parameters_that_the_data_know_well():
    """Chains from the prior were still on their way at half of the steps: rhat 1.7, deviations 2.5 times too large."""
    rhat, ratio = sharp(15, 40, 0.01, 0, draws=500)
    assert rhat < 1.05 and np.abs(ratio - 1).max() < 0.1


@pytest.mark.slow
@pytest.mark.statistical  # the worst of 15 deviations, worth 3000 draws or more, is off by 4 % with probability 2e-2
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "case", [(15, 40, 0.3), (15, 40, 0.03), (15, 40, 0.01), (15, 60, 0.003), (30, 60, 0.1)]
)
def test_conjugate_problems_mix_with_the_defaults(case, seed):
    rhat, ratio = sharp(*case, seed)
    assert rhat < 1.05 and np.abs(ratio - 1).max() < 0.1


@pytest.mark.slow
@pytest.mark.statistical  # eight variances scatter by 0.04 each: 0.05 are 3.5 standard errors of their mean
def test_the_warm_up_leaves_no_narrow_cloud():
    """Chains that begin where weights are largest agree early, on a variance of 0.89 instead of 1."""
    found = [sample(problems.banana(), seed, chains=50, draws=800).flat[:, 0].var() for seed in range(8)]
    assert np.mean(found) == pytest.approx(1.0, abs=0.05)


def test_chains_that_have_not_mixed_go_on():
    """Shells take longer than asked: twice or four times, told in the diagnostics; or not at all, if so asked."""
    size = {"chains": 50, "draws": 200}
    with pytest.warns(tamis.TamisWarning, match="did not mix: .* after 200 steps; raise draws"):
        short = sample(problems.shells(2), extend=1, **size).diagnostics
    posterior = sample(problems.shells(2), **size)
    found = posterior.diagnostics
    assert short["steps"] == 200 and short["rhat"].max() > 1.05 >= found["rhat"].max()
    assert found["steps"] in (400, 800) and found["burn_in"] == found["steps"] / 2
    assert posterior.x.shape[1] == found["steps"] / 2


def test_chains_that_have_mixed_take_what_was_asked_for():
    assert sample(problems.linear(), draws=400).diagnostics["steps"] == 400


def test_likelihoods_that_are_no_numbers_are_counted_and_told(tmp_path):
    """The same count of a run that was interrupted."""
    seen = []

    def loglike(x, stop_at=None):
        if len(seen) == stop_at:
            raise KeyboardInterrupt
        values = np.where(x[:, 0] < 0.3, np.nan, -5 * x[:, 1])
        seen.append(int(np.isnan(values).sum()))
        return values

    settings = {"chains": 20, "draws": 200}
    with pytest.warns(
        tamis.TamisWarning, match=r"not a number \(NaN\) at \d+ of 4000 points.*likelihood zero"
    ) as told:
        found = metropolis(uniform(0, 1, 2), loglike, rng=np.random.default_rng(0), **settings)
    assert sum("not a number" in str(one.message) for one in told) == 1
    assert found.diagnostics["nan"] == sum(seen) > 0
    assert f"at {sum(seen)} of" in str(told[0].message)
    path = tmp_path / "checkpoint.npz"
    seen.clear()
    with pytest.raises(KeyboardInterrupt):
        metropolis(
            uniform(0, 1, 2),
            lambda x: loglike(x, 120),
            rng=np.random.default_rng(0),
            checkpoint=path,
            **settings,
        )
    with pytest.warns(tamis.TamisWarning, match="not a number"):
        resumed = metropolis(
            uniform(0, 1, 2), loglike, rng=np.random.default_rng(0), checkpoint=path, **settings
        )
    assert same(found, resumed)
