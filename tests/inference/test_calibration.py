"""Simulation-based calibration, of samplers right and wrong; the battery that every sampler passes."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import chisquare

import tamis
from tamis.inference import calibration
from tamis.inference.emulated import fit_loglike, mct
from tamis.inference.metropolis import metropolis
from tamis.inference.posterior import Posterior
from tests import problems

REPLICATIONS, DRAWS = 500, 99
SPACE = tamis.Space(
    (tamis.Parameter("a", tamis.normal(0.0, 1.0)), tamis.Parameter("b", tamis.normal(0.0, 1.0)))
)


def simulate(x, rng):
    return x + rng.standard_normal(x.shape)


def loglike(x, y):
    return -0.5 * ((y - x) ** 2).sum(axis=1)


def posterior(space, x, like):
    """Independent draws, and said to be so."""
    worth = {"ess": np.full(space.dim, float(len(x)))}
    return Posterior(space, x[None], like(x)[None], space.logpdf(x)[None], diagnostics=worth)


def exact(space, like, rng, shift=0.0, width=1.0):
    """Independent draws of the conjugate posterior, whose mean is half the data; the likelihood tells the data."""
    data = like.args[1]
    drawn = data / 2 + shift + width * np.sqrt(0.5) * rng.standard_normal((DRAWS, 2))
    return posterior(space, drawn, like)


def prior(space, like, rng):
    return posterior(space, space.sample(DRAWS, rng), like)


def pvalues(sample):
    found = calibration.ranks(SPACE, simulate, loglike, sample, rng=np.random.default_rng(1))
    return calibration.uniformity(found, DRAWS)


# a sampler that is right, and four that are not


@pytest.mark.statistical  # three p-values above 0.01 / 3: false alarm 0.01, fixed seed
def test_independent_draws_are_calibrated():
    assert pvalues(exact).min() > 0.01 / 3


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("wrong", "seen"),
    [
        (partial(exact, shift=0.2), (True, True, False)),  # 0.3 standard deviations
        (partial(exact, width=0.7), (True, True, True)),
        (partial(exact, width=1.4), (True, True, True)),
        (prior, (False, False, True)),  # what only the log-likelihood sees
    ],
    ids=["shifted", "narrow", "wide", "prior"],
)
def test_wrong_draws_are_not(wrong, seen):
    found = pvalues(wrong)
    assert all(p < 1e-4 for p, expected in zip(found, seen, strict=True) if expected)


def test_posteriors_in_one_call():
    """Blocks of chains belong to the replications in order, and so do the points that the sampler asks for."""

    def sample(space, like, rng):
        x = np.zeros((2 * 50, 2))  # two points of each replication
        step = 1e-4 * np.eye(2)
        data = np.column_stack([(like(x + e) - like(x - e)) / 2e-4 for e in step])  # the slope at zero
        assert np.array_equal(data[0], data[1]) and not np.array_equal(data[1], data[2])
        drawn = data[:, None] / 2 + np.sqrt(0.5) * rng.standard_normal((100, DRAWS, 2))
        return Posterior(space, drawn, np.zeros((100, DRAWS)), np.zeros((100, DRAWS)))

    found = calibration.ranks(
        SPACE, simulate, loglike, sample, rng=np.random.default_rng(1), replications=50, together=True
    )
    assert found.shape == (50, 3)
    assert (
        calibration.uniformity(found, DRAWS, 10).min() > 0.01 / 3
    )  # wrong data would leave nothing: see below


# pieces


def test_uniformity_is_the_chi_square_test():
    ranks = np.random.default_rng(2).integers(0, 100, size=(400, 2))
    counts = calibration.histogram(ranks, 99, 20)
    assert counts.shape == (2, 20) and np.all(counts.sum(axis=1) == 400)
    assert counts[0, 3] == np.sum((ranks[:, 0] >= 15) & (ranks[:, 0] < 20))
    assert calibration.uniformity(ranks, 99) == pytest.approx([chisquare(row).pvalue for row in counts])


def test_ranks_count_the_draws_below_the_truth_and_put_equal_ones_in_random_order():
    space = tamis.Space((tamis.Parameter("a", tamis.uniform(0.0, 1.0)),))
    spaced = (np.arange(10) + 0.5) / 10

    def sample(space, like, rng):
        return posterior(space, spaced[:, None], like)

    truth = []

    def flat(x, y):
        return np.zeros(len(x))

    def remember(x, rng):
        truth.append(x[:, 0])
        return x

    found = calibration.ranks(
        space, remember, flat, sample, rng=np.random.default_rng(3), replications=200, draws=10
    )
    assert np.array_equal(found[:, 0], np.searchsorted(spaced, truth[0]))
    assert set(found[:, 1]) == set(range(11))  # a flat likelihood ranks nothing


def test_draws_are_spaced_evenly():
    x = np.arange(600.0).reshape(3, 200, 1)
    assert np.array_equal(calibration._thinned(x, 3)[:, 0], [100, 300, 500])


def test_few_effective_draws_are_told():
    def sticky(space, like, rng):
        repeated = np.repeat(like.args[1] / 2 + rng.standard_normal((10, 2)), 10, axis=0)
        return replace(posterior(space, repeated, like), diagnostics={})

    with pytest.warns(tamis.TamisWarning, match="20 of 20 posteriors have far fewer than 99 effective draws"):
        calibration.ranks(SPACE, simulate, loglike, sticky, rng=np.random.default_rng(4), replications=20)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"simulate": lambda x, rng: x[:3]}, r"each of 100 points, found shape \(3, 2\)"),
        ({"simulate": lambda x, rng: x[:, 0]}, r"found shape \(100,\)"),
        ({"draws": 120}, "99 draws, fewer than the 120"),
        (
            {"together": True, "sample": lambda space, like, rng: like(np.zeros((7, 2)))},
            "7 points.*blocks of 100",
        ),
    ],
)
def test_refusals(change, message):
    given = {"space": SPACE, "simulate": simulate, "loglike": loglike, "sample": exact, **change}
    with pytest.raises(tamis.StudyError, match=message):
        calibration.ranks(**given, rng=np.random.default_rng(0), replications=100)


def test_bins_must_share_the_ranks():
    with pytest.raises(tamis.StudyError, match="7 bins cannot share the 100 ranks"):
        calibration.uniformity(np.zeros((100, 1), dtype=int), 99, 7)
    with pytest.raises(tamis.StudyError, match="40 ranks are too few for 20 bins"):
        calibration.uniformity(np.zeros((40, 1), dtype=int), 99)


# the battery

SAMPLERS = {"tmcmc": partial(tamis.tmcmc, n=512), "metropolis": partial(metropolis, chains=50, draws=200)}


@pytest.mark.statistical  # a dozen figures at five standard errors: false alarm 1e-5
@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_pass_the_battery(name):
    calibration.check_sampler(SAMPLERS[name])


def spoilt(change):
    def sample(space, like, *, rng, checkpoint=None):
        return change(tamis.tmcmc(space, like, n=192, rng=rng, checkpoint=checkpoint), like, rng)

    return sample


def narrowed(found, like, rng):
    x = found.flat.mean(axis=0) + 0.5 * (found.flat - found.flat.mean(axis=0))
    return replace(found, x=x[None], log_likelihood=like(x)[None], log_prior=found.space.logpdf(x)[None])


def one_mode(found, like, rng):
    right = found.flat[found.flat[:, 0] > np.quantile(found.flat[:, 0], 0.3)]
    x = right[rng.integers(len(right), size=len(found.flat))]
    apart = found.flat[:, 0].min() < -2.5  # leave the other posteriors alone
    return posterior(found.space, x, like) if apart else found


def one_by_one(space, like, *, rng, checkpoint=None):
    def single(x):
        return np.concatenate([like(x[i : i + 1]) for i in range(len(x))])

    return tamis.tmcmc(space, single, n=192, rng=rng, checkpoint=checkpoint)


def not_refusing(space, like, *, rng, checkpoint=None):
    return tamis.tmcmc(space, lambda x: np.ravel(like(x)), n=192, rng=rng, checkpoint=checkpoint)


def forgetful(space, like, *, rng, checkpoint=None):
    try:
        return tamis.tmcmc(space, like, n=192, rng=rng)
    except KeyboardInterrupt:
        checkpoint.touch()
        raise


def restarting(space, like, *, rng, checkpoint=None):
    return tamis.tmcmc(space, like, n=192, rng=np.random.default_rng())


WRONG = [
    (spoilt(lambda found, like, rng: replace(found, x=found.flat)), "shape"),
    (spoilt(lambda found, like, rng: replace(found, x=found.x + 0.5)), "log_likelihood is not that"),
    (spoilt(lambda found, like, rng: replace(found, log_prior=found.log_prior + 1)), "log_prior is not that"),
    (spoilt(narrowed), "covariances"),
    (spoilt(lambda found, like, rng: replace(found, log_evidence=(0.0, 0.01))), "log evidence"),
    (spoilt(one_mode), "two modes"),
    (spoilt(lambda found, like, rng: replace(found, diagnostics={"ess": np.array([9.0, 9.0])})), "effective"),
    (one_by_one, "1.0 points at a time"),
    (not_refusing, r"of shape \(n, 1\) must be refused"),
    (restarting, "same seed gives other draws"),
    (forgetful, "as a whole one does"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=[message for _, message in WRONG])
def test_the_battery_finds(wrong, message):
    with pytest.raises(AssertionError, match=message):
        calibration.check_sampler(wrong)


# every sampler on a bent, skewed posterior


def mct_sample(space, like, rng):
    """Take a log-likelihood that its surrogate has exactly, so that only the sampler is tried."""
    u = tamis.sobol(16, space.dim, rng)
    emulated = fit_loglike(space, u, like(space.from_unit(u)), rng=rng)
    found = mct(space, emulated, trajectories=4, draws=100, rng=rng)
    return replace(found, diagnostics={})  # its effective draws are those of one trajectory


CALIBRATED = {
    "tmcmc": (problems.decay, lambda space, like, rng: tamis.tmcmc(space, like, n=256, rng=rng), False),
    "metropolis": (
        problems.decay,
        lambda space, like, rng: metropolis(space, like, chains=20, draws=400, rng=rng),
        False,
    ),
    "metropolis in groups": (
        problems.decay,
        lambda space, like, rng: metropolis(
            space, like, chains=8 * REPLICATIONS, draws=3000, rng=rng, groups=REPLICATIONS
        ),
        True,
    ),
    "mct": (problems.line, mct_sample, False),
}


def calibrated(name):
    problem, sample, together = CALIBRATED[name]
    space, simulate, loglike = problem()
    return calibration.ranks(
        space,
        simulate,
        loglike,
        sample,
        rng=np.random.default_rng(0),
        replications=REPLICATIONS,
        draws=DRAWS,
        together=together,
    )


@pytest.mark.slow
@pytest.mark.statistical  # 15 p-values in all: false alarm 0.01, seed fixed
@pytest.mark.filterwarnings(
    "ignore:the sampler did not mix"
)  # of 500 short runs some have rhat just above 1.05
@pytest.mark.filterwarnings("ignore:.* of 500 posteriors have far fewer")  # as do 2 % of the groups
@pytest.mark.parametrize("name", CALIBRATED)
def test_samplers_are_calibrated(name):
    assert calibration.uniformity(calibrated(name), DRAWS).min() > 0.01 / 15
