"""Adaptive Metropolis: against posteriors known exactly, on data it cannot sample, and after interruptions."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tamis
from tamis.inference import metropolis as module
from tamis.inference.diagnostics import ess
from tamis.inference.metropolis import metropolis
from tamis.inference.posterior import Posterior
from tests import problems

ROOT = Path(__file__).parents[2]
QUIET = pytest.mark.filterwarnings("ignore:the sampler did not mix")  # too short to mix, for speed


def sample(problem, seed=0, **more):
    return metropolis(problem.space, problem.loglike, rng=np.random.default_rng(seed), **more)


def same(a: Posterior, b: Posterior) -> bool:
    pairs = [(a.x, b.x), (a.log_likelihood, b.log_likelihood), (a.log_prior, b.log_prior)]
    pairs += [(a.diagnostics[k], b.diagnostics[k]) for k in a.diagnostics]
    return all(p.tobytes() == q.tobytes() for p, q in pairs)


def conjugate(peaks):
    """Return mean and covariance of the posterior of a linear problem with a standard normal prior."""
    covariance = np.linalg.inv(peaks.precision[0] + np.eye(peaks.mean.shape[1]))
    return covariance @ peaks.precision[0] @ peaks.mean[0], covariance


def uniform(low, high, d=1):
    return tamis.Space(tuple(tamis.Parameter(f"p{i}", tamis.uniform(low, high)) for i in range(d)))


# posteriors


@pytest.mark.statistical  # 4.5 standard errors of d means and d(d+1)/2 moments: false alarm below 2e-3, fixed seed
@pytest.mark.parametrize(("d", "draws"), [(2, 400), (5, 400), pytest.param(20, 1500, marks=pytest.mark.slow)])
def test_conjugate_gaussian(d, draws):
    problem = problems.linear(d, 30)
    mean, covariance = conjugate(problem.loglike)
    posterior = sample(problem, draws=draws)
    ess = posterior.diagnostics["ess"].min()
    white = (posterior.flat - mean) @ np.linalg.inv(np.linalg.cholesky(covariance)).T
    assert posterior.diagnostics["rhat"].max() < 1.02 and ess > 1000
    assert np.abs(white.mean(axis=0)).max() < 4.5 / np.sqrt(ess)
    # the variance of n normal draws scatters by sqrt(2 / n), products of two of them by less
    assert np.abs(white.T @ white / len(white) - np.eye(d)).max() < 4.5 * np.sqrt(2 / ess)
    flat = posterior.flat
    assert posterior.log_likelihood.ravel() == pytest.approx(problem.loglike(flat), abs=1e-8)
    assert posterior.log_prior.ravel() == pytest.approx(problem.space.logpdf(flat))


@pytest.mark.statistical  # 5 standard errors of the difference, 10 comparisons: false alarm 6e-6
def test_metropolis_and_tmcmc_agree():
    problem = problems.linear()
    one = sample(problem, draws=400)
    two = tamis.tmcmc(problem.space, problem.loglike, n=512, rng=np.random.default_rng(1))
    ess = [p.diagnostics["ess"] for p in (one, two)]
    scatter = np.sqrt(1 / ess[0] + 1 / ess[1])
    sd = two.flat.std(axis=0)
    assert np.all(np.abs(one.flat.mean(axis=0) - two.flat.mean(axis=0)) < 5 * sd * scatter)
    assert np.all(np.abs(np.log(one.flat.std(axis=0) / sd)) < 5 * scatter / np.sqrt(2))


@pytest.mark.statistical  # 5 standard errors each: false alarm 6e-7
def test_modes_keep_their_weights():
    posterior = sample(problems.two_modes(), chains=50, draws=400)
    assert np.mean(posterior.flat[:, 0] < 0) == pytest.approx(
        0.3, abs=5 * np.sqrt(0.21 / posterior.diagnostics["ess"].min())
    )


@pytest.mark.statistical  # 5 standard errors each: false alarm 2e-6 in all
def test_banana():
    posterior = sample(problems.banana(), chains=50, draws=800)
    x, y = posterior.flat.T
    ess = posterior.diagnostics["ess"].min()
    assert x.mean() == pytest.approx(0.0, abs=5 / np.sqrt(ess))
    assert x.var() == pytest.approx(1.0, abs=5 * np.sqrt(2 / ess))
    assert y.mean() == pytest.approx(1.0, abs=5 * np.sqrt(2 / ess))  # the mean of x^2, whose variance is 2
    assert (y - x**2).std() == pytest.approx(0.1, abs=0.1 * 5 * np.sqrt(0.5 / ess))


@pytest.mark.statistical  # 5 standard errors each: false alarm 1e-6
def test_draws_crowd_at_the_bounds_of_the_prior():
    # exponential laws of rates 8 and -3 cut to (0, 1): all the mass leans on walls
    posterior = metropolis(
        uniform(0.0, 1.0, 2),
        lambda x: -8 * x[:, 0] + 3 * x[:, 1],
        draws=400,
        rng=np.random.default_rng(3),
    )
    ess, flat = posterior.diagnostics["ess"].min(), posterior.flat
    assert flat.min() >= 0 and flat.max() <= 1
    for column, rate in ((flat[:, 0], 8.0), (1 - flat[:, 1], 3.0)):
        exact = 1 / rate - 1 / np.expm1(rate)
        assert column.mean() == pytest.approx(exact, abs=5 * column.std() / np.sqrt(ess))


def test_correlated_priors():
    # two normal parameters of correlation 0.8, their sum s measured as 5 +- 0.1: s is normal with the prior
    # variance 4 + 4 + 6.4, and a - b, of variance 1.6, learns nothing
    law = tamis.normal(1.0, 2.0)
    space = tamis.Space(
        (tamis.Parameter("a", law), tamis.Parameter("b", law)), np.array([[1.0, 0.8], [0.8, 1.0]])
    )
    posterior = metropolis(
        space, lambda x: -0.5 * ((x.sum(axis=1) - 5) / 0.1) ** 2, draws=400, rng=np.random.default_rng(1)
    )
    total, apart = posterior.flat.sum(axis=1), posterior.flat[:, 0] - posterior.flat[:, 1]
    five = 5 / np.sqrt(posterior.diagnostics["ess"].min())  # standard errors
    assert total.mean() == pytest.approx((2 / 14.4 + 500) / (1 / 14.4 + 100), abs=0.1 * five)
    assert apart.mean() == pytest.approx(0.0, abs=np.sqrt(1.6) * five)
    assert apart.var() == pytest.approx(1.6, abs=1.6 * np.sqrt(2) * five)


@pytest.mark.slow
@pytest.mark.statistical  # bounds of the study's acceptance, several standard errors wide at 10000 effective draws
@pytest.mark.parametrize("model", ["M1", "M2", "M3"])
def test_steel_contact_has_both_modes_of_k_t(model):
    space, loglike, exact = problems.steel(model)
    posterior = metropolis(space, loglike, draws=2000, rng=np.random.default_rng(0))
    k_t = posterior.flat[:, space.index("k_t")]
    assert posterior.diagnostics["rhat"].max() < 1.05  # 1.04 in M3, whose exponent mixes slowest
    assert np.mean(k_t < exact["k_t_antimode"]) == pytest.approx(exact["k_t_lower_mass"], rel=0.15)
    near = posterior.flat[k_t < 8e8]  # a mode of 5e-6 of the mass would weigh on the variance
    for name in ("mu", "gamma", "k_t"):
        x = near[:, space.index(name)]
        assert x.mean() == pytest.approx(exact["mean"][name], rel=0.03)
        assert x.std() / x.mean() == pytest.approx(exact["cov"][name], rel=0.1)


# groups and starts


@pytest.mark.statistical  # 5 standard errors of 8 means: false alarm 5e-6
def test_groups_sample_their_own_posteriors():
    centres = np.array([-1.0, -0.5, 0.5, 2.0])

    def loglike(x):
        return -0.5 * ((x - np.repeat(centres, 10)[:, None]) ** 2).sum(axis=1) / 0.25

    posterior = metropolis(
        uniform(-10, 10, 2), loglike, chains=40, draws=600, groups=4, rng=np.random.default_rng(4)
    )
    found = posterior.diagnostics
    blocks = posterior.x.reshape(4, -1, 2)
    assert np.abs(blocks.mean(axis=1) - centres[:, None]).max() < 5 * 0.5 / np.sqrt(found["ess"].min())
    assert np.abs(blocks.std(axis=1) - 0.5).max() < 5 * 0.5 * np.sqrt(0.5 / found["ess"].min())
    assert found["group_rhat"].shape == (4, 2) and np.array_equal(
        found["rhat"], found["group_rhat"].max(axis=0)
    )
    assert found["rhat"].max() < 1.05  # within blocks; across them it would be 2 or more
    from tamis.inference.diagnostics import rhat

    assert rhat(posterior.x).max() > 1.5


@QUIET
def test_a_group_may_be_one_chain():
    posterior = metropolis(
        uniform(0, 1), lambda x: np.zeros(len(x)), chains=3, draws=100, groups=3, rng=np.random.default_rng(0)
    )
    assert np.isfinite(posterior.diagnostics["group_rhat"]).all()


@QUIET
def test_chains_start_where_they_are_told_and_stay_in_their_rows():
    start = np.linspace(-0.9, 0.9, 8)[:, None]
    seen = []

    def loglike(x):
        seen.append(x.copy())
        return np.where(np.sign(x[:, 0]) == np.sign(start[:, 0]), 0.0, -np.inf)

    posterior = metropolis(
        uniform(-1, 1), loglike, chains=8, draws=60, start=start, rng=np.random.default_rng(0)
    )
    assert seen[0] == pytest.approx(start, abs=1e-12)
    assert {x.shape for x in seen} == {(8, 1)}
    assert np.all(np.sign(posterior.x[:, :, 0]) == np.sign(start))


def test_half_the_prior_has_no_likelihood():
    posterior = metropolis(
        uniform(0, 1, 2),
        lambda x: np.where(x[:, 0] < 0.5, -np.inf, 3.0),
        draws=200,
        rng=np.random.default_rng(2),
    )
    assert posterior.flat[:, 0].min() >= 0.5 and np.all(posterior.log_likelihood == 3.0)


@QUIET
def test_a_likelihood_that_is_almost_everywhere_zero_is_found():
    # a hundredth of the prior; none of the first ten points, likely, but some of the next thousands
    posterior = metropolis(
        uniform(0, 1), lambda x: np.where(x[:, 0] > 0.99, 0.0, -np.inf), chains=10, draws=100,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert posterior.flat.min() > 0.99
    assert posterior.diagnostics["likelihood_calls"] > 10 * 101


# telling


def test_diagnostics_tell_how_it_went():
    sizes = []
    problem = problems.linear()

    def loglike(x):
        sizes.append(len(x))
        return problem.loglike(x)

    posterior = metropolis(problem.space, loglike, chains=50, draws=330, rng=np.random.default_rng(0))
    found = posterior.diagnostics
    assert set(found) == {"rhat", "ess", "acceptance", "scale", "burn_in", "steps", "likelihood_calls", "nan"}
    assert found["rhat"].shape == found["ess"].shape == (5,)
    assert found["acceptance"].shape == found["scale"].shape
    assert 0.5 < found["acceptance"][-1] < 0.9 and set(sizes) == {50}
    assert sum(sizes) == found["likelihood_calls"] == 50 * 330 and found["steps"] == 330
    assert posterior.x.shape == (50, 180, 5) and found["burn_in"] == 150  # half of the steps, in whole blocks
    assert posterior.log_evidence is None
    assert len(set(found["scale"][-4:])) == 1 < len(set(found["scale"][:-4]))  # 180 steps without adaptation


def test_steps_on_the_way_are_dropped():
    problem = problems.peaked()  # a fiftieth of the prior in 7 dimensions: a way of a hundred steps and more
    posterior = sample(problem, chains=40, draws=600)
    assert posterior.diagnostics["burn_in"] >= 100
    # half the sum of squares of 7 normal numbers: one of 1e4 exceeds 14.7, one of 1e9 exceeds 28
    assert problem.loglike(posterior.flat).min() > problem.loglike.height[0] - 28


@pytest.mark.parametrize("sd", [1e-4, 1e-3])
@pytest.mark.parametrize("seed", range(4))
def test_draws_on_the_way_do_not_spoil_a_variance(sd, seed):
    """Chains that were fetched late leave a few draws far off, which neither rhat nor effective sizes feel."""
    space = tamis.Space((tamis.Parameter("p", tamis.uniform(0.0, 1.0)),))

    def loglike(x):
        return -0.5 * ((x[:, 0] - 0.4) / sd) ** 2

    posterior = metropolis(space, loglike, chains=100, draws=400, rng=np.random.default_rng(seed))
    # a standard deviation of n independent draws is known to 1 / sqrt(2 n); five of these
    assert abs(posterior.flat.std() / sd - 1) < 5 / np.sqrt(2 * posterior.diagnostics["ess"][0])


def test_groups_of_unequal_width_each_keep_their_own():
    """Wide groups do not decide for narrow ones."""
    groups, chains = 12, 4
    sd = np.repeat(np.geomspace(0.003, 0.16, groups), chains)
    space = tamis.Space((tamis.Parameter("p", tamis.normal(0.0, 1.0)),))

    def loglike(x):
        return -0.5 * ((x[:, 0] - 0.5) / sd) ** 2

    size = {"chains": groups * chains, "draws": 2000, "groups": groups}
    found = metropolis(space, loglike, **size, rng=np.random.default_rng(0))
    for block, width in zip(np.split(found.x, groups), sd[::chains], strict=True):
        exact = 1 / np.sqrt(1 + 1 / width**2)
        assert abs(block.std() / exact - 1) < 5 / np.sqrt(2 * float(ess(block)[0]))


def test_correlated_priors_are_another_problem(tmp_path):
    """A checkpoint of another prior is not resumed, also where the two agree on the diagonal of the cube."""
    path, laws = tmp_path / "checkpoint.npz", (tamis.normal(0.0, 1.0), tamis.normal(0.0, 1.0))

    def space(r):
        parameters = tuple(tamis.Parameter(f"p{i}", law) for i, law in enumerate(laws))
        return tamis.Space(parameters, np.array([[1.0, r], [r, 1.0]]))

    def run(r, cut=None, **more):
        calls = []

        def loglike(x):
            calls.append(1)
            if len(calls) == cut:
                raise KeyboardInterrupt
            return -0.5 * (x**2).sum(axis=1)

        return metropolis(space(r), loglike, chains=20, draws=200, rng=np.random.default_rng(0), **more)

    with pytest.raises(KeyboardInterrupt):
        run(0.6, cut=120, checkpoint=path)
    assert np.array_equal(run(0.8, checkpoint=path).x, run(0.8).x)


def test_progress_counts_steps():
    events = []
    with pytest.warns(tamis.TamisWarning, match="did not mix"):
        sample(problems.linear(), chains=4, draws=120, progress=events.append)
    done, total = ([getattr(event, name) for event in events] for name in ("done", "total"))
    assert done == sorted(set(done)) and done[-1] == total[-1] == 4 * 120
    assert {event.task for event in events} == {"posterior"} and total == sorted(total)
    assert all(d <= t for d, t in zip(done, total, strict=True))
    assert {"acceptance", "likelihood calls"} == set(events[-1].info)


def test_a_hand_set_discrepancy_is_said_not_to_work():
    # Gupta et al. (2023) give the discrepancy a variance of 1e-20 beside signals of order 1. The posterior is then a
    # needle of 1e-10; the log-likelihood at a misfit of 0.1 is 1e19, of which double precision keeps 1e3: the warm-up
    # finds the needle, and there every chain stands on a plateau of rounding.
    rng = np.random.default_rng(1)
    design = rng.normal(size=(24, 5))
    y = design @ rng.normal(size=5) * 0.5 + 0.1 * rng.normal(size=24)

    def loglike(x, variance):
        return -0.5 * ((y - x @ design.T) ** 2).sum(axis=1) / variance

    space = uniform(-3, 3, 5)
    with pytest.warns(tamis.TamisWarning, match=r"chains disagree \(rhat .*look at the noise"):
        narrow = metropolis(space, lambda x: loglike(x, 1e-20), draws=300, rng=np.random.default_rng(0))
    assert narrow.diagnostics["acceptance"][-1] < 0.04  # an ordinary posterior is left at 0.5 or more
    assert narrow.diagnostics["rhat"].max() > 1.5
    claimed = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * 1e-20)
    assert np.all(narrow.flat.std(axis=0) > 3 * claimed)  # where the chains stopped, no posterior at all
    # the variance of the misfit itself is what the same data can bear
    fine = metropolis(space, lambda x: loglike(x, 1e-2), draws=400, rng=np.random.default_rng(0))
    assert fine.diagnostics["rhat"].max() < 1.05 and fine.diagnostics["acceptance"][-1] > 0.4


def test_a_likelihood_that_nobody_can_move_in():
    points = np.linspace(0.1, 0.9, 5)[:, None]
    with pytest.warns(tamis.TamisWarning, match="did not mix"):
        posterior = metropolis(
            uniform(0, 1),
            lambda x: np.where(np.isclose(x, points, rtol=0, atol=1e-9)[:, 0], 0.0, -np.inf),
            chains=5,
            draws=100,
            start=points,
            rng=np.random.default_rng(0),
        )
    assert np.all(posterior.diagnostics["acceptance"] == 0)


@pytest.mark.parametrize(
    ("loglike", "more", "message"),
    [
        (lambda x: np.full(len(x), -np.inf), {}, "zero at all 4000 points"),
        (lambda x: np.zeros((len(x), 1)), {}, r"must have shape \(100,\), found \(100, 1\)"),
        (lambda x: np.where(x[:, 0] > 0, np.inf, 0.0), {}, r"infinite at x1 = [\d.]+, x2 = "),
        (None, {"chains": 1}, "at least 2 chains.*found chains = 1"),
        (None, {"draws": 10}, "at least 20 steps a chain; found draws = 10"),
        (None, {"extend": 0}, "a multiple of themselves, 1 or more; found extend = 0"),
        (None, {"groups": 3}, "100 chains cannot be 3 equal groups"),
        (None, {"groups": 0}, "100 chains cannot be 0 equal groups"),
        (None, {"start": np.zeros((10, 5))}, r"shape \(100, 5\); found \(10, 5\)"),
        (None, {"start": np.full((100, 5), np.nan)}, "start of chain 0 lies outside the prior"),
    ],
)
def test_refusals(loglike, more, message):
    problem = problems.linear()
    with pytest.raises(tamis.StudyError, match=message):
        metropolis(problem.space, loglike or problem.loglike, rng=np.random.default_rng(0), **more)


# interruptions


@QUIET
def test_same_seed_same_bytes():
    one, two = (sample(problems.linear(), seed=5, chains=4, draws=100) for _ in range(2))
    assert same(one, two)
    assert not same(one, sample(problems.linear(), seed=6, chains=4, draws=100))


@QUIET
@pytest.mark.parametrize("part", [0.03, 0.1, 0.35, 0.7, 0.99])
def test_interrupted_anywhere_ends_with_the_same_bytes(tmp_path, part):
    problem = problems.linear()
    calls = 0

    def loglike(x, stop_at=None):
        nonlocal calls
        calls += 1
        if calls == stop_at:
            raise KeyboardInterrupt
        return problem.loglike(x)

    settings = {"chains": 10, "draws": 160}
    straight = metropolis(problem.space, loglike, rng=np.random.default_rng(1), **settings)
    total, calls = calls, 0
    path = tmp_path / "checkpoint.npz"
    with pytest.raises(KeyboardInterrupt):
        metropolis(
            problem.space,
            lambda x: loglike(x, int(part * total)),
            rng=np.random.default_rng(1),
            checkpoint=path,
            **settings,
        )
    assert path.exists()
    before, calls = calls, 0
    resumed = metropolis(problem.space, loglike, rng=np.random.default_rng(1), checkpoint=path, **settings)
    assert same(straight, resumed)
    assert calls <= total - before + module._BLOCK  # one block at most is done again


@QUIET
@pytest.mark.parametrize("change", ["prior", "start"])
def test_another_problem_does_not_resume(tmp_path, change):
    path = tmp_path / "checkpoint.npz"
    problem = problems.linear()
    budget = iter(range(200))

    def stop(x):
        if next(budget) == 80:
            raise KeyboardInterrupt
        return problem.loglike(x)

    with pytest.raises(KeyboardInterrupt):
        metropolis(problem.space, stop, chains=4, draws=100, rng=np.random.default_rng(1), checkpoint=path)
    law = tamis.normal(0.0, 2.0 if change == "prior" else 1.0)
    space = tamis.Space(tuple(tamis.Parameter(p.name, law) for p in problem.space.parameters))
    start = np.zeros((4, 5)) if change == "start" else None
    straight, resumed = (
        metropolis(
            space,
            problem.loglike,
            chains=4,
            draws=100,
            rng=np.random.default_rng(1),
            start=start,
            checkpoint=c,
        )
        for c in (None, path)
    )
    assert same(straight, resumed)


SCRIPT = """
import sys, time, warnings
from pathlib import Path
import numpy as np
from tamis.inference import loop
from tamis.inference.metropolis import metropolis
from tests.problems import linear

warnings.simplefilter("ignore")
loop._SECONDS_BETWEEN_SAVES = 0.0
folder = Path(sys.argv[1])
problem = linear()

def loglike(x):
    time.sleep(0.004)
    return problem.loglike(x)

(folder / "started").touch()
metropolis(
    problem.space, loglike, chains=4, draws=100, rng=np.random.default_rng(2),
    checkpoint=folder / "checkpoint.npz",
).save(folder / "posterior.npz")
"""


@QUIET
def test_killed_and_resumed_ends_with_the_same_bytes(tmp_path):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}

    def start():
        (tmp_path / "started").unlink(missing_ok=True)
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path)], env=env)
        while not (tmp_path / "started").exists():
            assert process.poll() is None
            time.sleep(0.01)
        return process

    rng = np.random.default_rng(11)
    process = start()
    for _ in range(2):
        time.sleep(float(rng.uniform(0.1, 0.35)))  # a run that is not killed takes a second at least
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        process = start()
    assert process.wait() == 0
    sample(problems.linear(), chains=4, draws=100, seed=2).save(tmp_path / "straight.npz")
    assert (tmp_path / "posterior.npz").read_bytes() == (tmp_path / "straight.npz").read_bytes()
