"""Fragility: published figures, laws with exact answers, and what a fit must not claim."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import ndtr

import tamis
from tamis.analysis.exceedance import exceedance, split
from tamis.analysis.fragility import isotonic
from tamis.types import Array

LEVELS = np.linspace(0.2, 1.4, 8)


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng([19, *seed])


def demands(im: Array, spread: float, *seed: int) -> Array:
    """Demands proportional to the intensity, lognormal: the fragility has the limit for median, this dispersion."""
    return np.asarray(im * np.exp(spread * rng(*seed).standard_normal(len(im))))


def test_the_fit_of_forty_runs_a_level_is_that_of_the_literature() -> None:
    # data and figures of the worked example of Baker (2015, 10.1193/021113EQS025M), to the digits printed
    im, exceeded = np.array([0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0]), np.array([0, 0, 0, 4, 6, 13, 12, 16])
    found = tamis.fragility_of_counts(im, exceeded, 40, rng=rng())
    assert (found.median, found.dispersion) == (
        pytest.approx(1.0761, abs=5e-5),
        pytest.approx(0.4292, abs=5e-5),
    )
    # the same as single runs
    one_by_one = np.concatenate([np.arange(40) < k for k in exceeded]).astype(float)
    runs = tamis.fragility(np.repeat(im, 40), one_by_one, 0.5, rng=rng())
    assert runs.median == pytest.approx(found.median, rel=1e-9)
    assert runs.dispersion == pytest.approx(found.dispersion, rel=1e-9)
    assert found.misfit > 0.05
    assert found.probability(found.median) == pytest.approx(0.5, abs=1e-12)


def repeated(sets: int, of_law: bool) -> tuple[Array, Array, Array]:
    """Fit many data sets of 320 runs: medians and dispersions over the truth, and how often 90 % intervals hold it."""
    median, dispersion = 0.7, 0.4
    part = dispersion * np.sqrt(0.5)
    limit = tamis.lognormal(median, np.sqrt(np.expm1(part**2))) if of_law else median
    im, ratio, held = np.repeat(LEVELS, 40), [], np.zeros(3)
    truth = ndtr(np.log(0.5 / median) / dispersion)
    for k in range(sets):
        demand = demands(im, part if of_law else dispersion, k)
        found = tamis.fragility(im, demand, limit, at=np.array([0.5]), rng=rng(k, 1))
        ratio.append((found.median / median, found.dispersion / dispersion))
        (low, high), (least, most) = found.median_interval, found.dispersion_interval
        band = found.band[:, 0]
        held += [low <= median <= high, least <= dispersion <= most, band[0] <= truth <= band[1]]
    one, two = np.array(ratio).T
    return one, two, held


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("of_law", [False, True], ids=["number", "law"])
def test_a_hundred_data_sets_give_the_curve_back_and_bands_that_hold_it(of_law: bool) -> None:
    median, dispersion, held = repeated(100, of_law)
    for found, allowed in ((median, 0.05), (dispersion, 0.10)):
        assert np.sqrt(np.mean((found - 1) ** 2)) < 1.1 * allowed  # of one data set
        assert (
            abs(found.mean() - 1) < 3 * found.std() / 10 + 0.01
        )  # no bias beyond the error of the mean, and 1 %
    assert ((held >= 83) & (held <= 97)).all()  # an honest band leaves these once in 60


@pytest.mark.statistical
def test_ten_data_sets_give_the_curve_back() -> None:
    median, dispersion, held = repeated(10, False)
    # 3 standard errors of the mean of ten; one data set scatters by 0.036 and 0.10
    assert abs(median.mean() - 1) < 0.034
    assert abs(dispersion.mean() - 1) < 0.10
    assert (held >= 6).all()  # honest 90 % intervals hold fewer than 6 of 10 once in 600


def test_an_uncertain_capacity_is_integrated_by_its_law() -> None:
    # demand and capacity lognormal: their ratio is lognormal, variances of logarithms add
    law, demand = tamis.lognormal(2.0, 0.3), np.array([0.5, 1.5, 2.0, 4.0])
    assert exceedance(demand, law) == pytest.approx(law.cdf(demand), rel=1e-12)
    for sd in (0.02, 0.3, 5.0):  # narrower and wider than the capacity
        for x, found in zip(demand, exceedance(demand, law, sd=np.full(4, sd)), strict=True):

            def joint(z: float, x: float = x, sd: float = sd) -> float:
                return float(stats.norm.pdf(z) * law.cdf(x + sd * z))

            exact = integrate.quad(joint, -9, 9, epsabs=1e-12, limit=400)[0]
            assert found == pytest.approx(exact, abs=1e-5)  # 64 nodes, tails of the capacity between them
    im = np.repeat(np.linspace(0.3, 6.0, 12), 300)
    both = tamis.fragility(im, demands(im, 0.3), law, rng=rng())
    expected = np.hypot(0.3, np.sqrt(np.log1p(0.3**2)))
    assert both.median == pytest.approx(2.0, rel=0.02)  # 3 standard errors
    assert both.dispersion == pytest.approx(expected, rel=0.05)


def test_the_error_of_a_surrogate_is_integrated() -> None:
    assert exceedance(np.array([1.0, 2.0]), 1.5, sd=np.array([0.5, 0.0])) == pytest.approx([ndtr(-1.0), 1.0])
    assert exceedance(np.array([1.0, np.nan]), 1.5, below=True) == pytest.approx([1.0, np.nan], nan_ok=True)


@pytest.mark.parametrize(
    ("exceeded", "kind", "words"),
    [
        (np.zeros(8), "none", "the median is above 1.4"),
        (np.full(8, 10), "all", "the median is below 0.2"),
        (np.array([0, 0, 0, 0, 10, 10, 10, 10]), "separable", "the dispersion is below"),
        (np.array([0, 0, 0, 3, 10, 10, 10, 10]), "separable", "the dispersion is below"),
        (np.array([9, 7, 6, 5, 4, 3, 2, 1]), "flat", "does not rise"),
    ],
)
def test_without_a_best_curve_there_is_no_number_but_a_statement(
    exceeded: Array, kind: str, words: str
) -> None:
    with pytest.warns(tamis.TamisWarning, match=words):
        found = tamis.fragility_of_counts(LEVELS, exceeded, 10, rng=rng())
    assert found.kind == kind
    assert np.isnan([found.median, found.dispersion, found.misfit]).all()
    assert np.isfinite(found.band).all()
    assert np.isfinite(found.curve).all()


def test_one_sided_statements_are_those_of_the_binomial_law() -> None:
    # 59 runs without an exceedance are the least that tell 5 % with 95 % confidence
    with pytest.warns(tamis.TamisWarning, match=r"probability is below 0\.05"):
        tamis.fragility(np.linspace(1, 2, 59), np.zeros(59), 1.0, rng=rng())
    with pytest.warns(tamis.TamisWarning, match="the median is above 1.2"):
        tamis.fragility(np.array([1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6]), np.zeros(7), 1.0, rng=rng())


def test_a_curve_that_is_not_lognormal_shows() -> None:
    # two kinds of events: a fragility with a step, flat between
    im = np.repeat(LEVELS, 80)
    chance = np.where(im < 0.3, 0.02, np.where(im < 1.2, 0.45, 0.98))
    demand = (rng(3).random(len(im)) < chance).astype(float)
    found = tamis.fragility(im, demand, 0.5, rng=rng())
    assert found.misfit < 0.02
    assert isotonic(im, demand, np.ones(len(im)), np.array([0.7])) == pytest.approx(0.45, abs=0.1)
    honest = tamis.fragility(im, demands(im, 0.4, 4), 0.7, rng=rng())
    assert honest.misfit > 0.02


def test_two_intensities_are_a_surface() -> None:
    im = np.exp(rng(5).uniform(-1, 1, (400, 2)))
    demand = im[:, 0] * im[:, 1] ** 0.5 * np.exp(0.4 * rng(6).standard_normal(len(im)))
    found = tamis.fragility(im, demand, 1.2, rng=rng())
    exact = np.array([-np.log(1.2), 1.0, 0.5]) / 0.4
    spread = found.draws.std(axis=0)
    assert (np.abs(found.coefficients - exact) < 3.5 * spread).all()
    assert found.at.shape == (1600, 2)
    assert found.misfit > 0.02
    truth = ndtr(np.column_stack([np.ones(1600), np.log(found.at)]) @ exact)
    assert np.abs(found.beside - truth).max() < 0.25  # at a corner; six coefficients of 400 runs
    turned = im[:, 0] > np.exp(np.log(im[:, 1]) ** 2)  # a bent boundary, not a line
    noisy = np.where(rng(7).random(len(im)) < 0.1, ~turned, turned).astype(float)
    assert tamis.fragility(im, noisy, 0.5, rng=rng()).misfit < 0.02
    with pytest.warns(tamis.TamisWarning, match="one line separates"):
        tamis.fragility(im, (im[:, 0] > im[:, 1]).astype(float), 0.5, rng=rng())


def test_draws_of_two_kinds_leave_a_band_in_which_each_counts_once() -> None:
    """Nine draws fail between the same two levels and one never does: their scores lie on a line."""
    level = np.array([50.0, 70.0, 100.0, 150.0, 200.0])
    failed = np.zeros((10, 5))
    failed[1:, 2:] = 1.0
    cluster = np.repeat(np.arange(10), 5)
    found = tamis.fragility(np.tile(level, 10), failed.ravel(), 0.5, cluster=cluster, rng=rng())
    alone = tamis.fragility(np.tile(level, 10), failed.ravel(), 0.5, rng=rng())
    wide, narrow = (np.ptp(np.log(f.median_interval)) for f in (found, alone))
    assert narrow < wide < 5.0 * narrow  # the root of five runs a draw, on curves that are not symmetric


def test_runs_of_one_draw_are_one_witness() -> None:
    # 40 draws of an unknown median, ten runs of each at random intensities: 400 runs that know less than 400 would
    generator = rng(8)
    cluster = np.repeat(np.arange(40), 10)
    im = np.exp(generator.uniform(-1, 1, 400))
    demand = im * np.exp(0.5 * generator.standard_normal(40)[cluster] + 0.2 * generator.standard_normal(400))
    alone, together = (tamis.fragility(im, demand, 1.0, cluster=c, rng=rng()) for c in (None, cluster))
    assert together.median == alone.median
    narrow, wide = (np.ptp(np.log(f.median_interval)) for f in (alone, together))
    # the log-median of 40 draws is known to 0.5 / sqrt(40) = 0.08, 90 % interval 0.26
    assert wide == pytest.approx(0.26, rel=0.35)
    assert wide > 1.4 * narrow


def test_the_variance_is_split_as_it_was_made() -> None:
    # height of the curve at one level: Phi(a + s t), t of the draws, an error common to all, repeats within
    generator, (levels, draws, repeats) = rng(9), (3, 400, 50)
    t, level = generator.standard_normal((1, draws, 1)), np.array([-1.0, 0.0, 1.0])[:, None, None]
    event = generator.standard_normal((levels, draws, repeats))
    found = split(level + 0.5 * t + event, 0.0, sd=None)
    nodes = stats.norm.ppf((np.arange(2000) + 0.5) / 2000)
    height = ndtr(level[:, 0] + 0.5 * nodes)
    assert found.share == pytest.approx(ndtr(level[:, 0, 0] / np.sqrt(1.25)), abs=0.05)  # 400 draws
    assert found.parameters == pytest.approx(
        height.var(axis=1), rel=0.25
    )  # a variance of 400 draws: 7 %, and tails
    assert not found.surrogate.any()
    unsure = split(level + 0.5 * t + event, 0.0, sd=np.full((levels, draws, repeats), 0.5))
    assert unsure.parameters == pytest.approx(
        ndtr((level[:, 0] + 0.5 * nodes) / np.sqrt(1.25)).var(axis=1), rel=0.25
    )
    whole = ndtr(level[:, 0] + np.sqrt(0.5) * nodes).var(axis=1)  # draws and error together
    assert unsure.parameters + unsure.surrogate == pytest.approx(whole, rel=0.2)
    assert (unsure.band()[0] < unsure.share).all()
    assert (unsure.band()[1] > unsure.share).all()
    assert np.isnan(split(level + t + event[:, :, :1], 0.0).parameters).all()  # one repeat: not told apart
    fewer = split(level + 0.5 * t + event, 0.0, worth=100.0)  # draws of a chain that repeats itself
    assert fewer.runs == pytest.approx(4 * found.runs, rel=1e-12)
    step = split(level + t, 0.0, random=False)  # a draw exceeds or not
    assert step.parameters == pytest.approx(step.share * (1 - step.share), rel=0.01)


@pytest.mark.statistical
@pytest.mark.parametrize("repeats", [1, 4])
def test_few_draws_split_the_variance_without_bias(repeats: int) -> None:
    # height Phi(s t + e z) of draws t and an error z common to all: five draws at a time, 400 times
    found = []
    for k in range(400):
        t, event = rng(30, k).standard_normal((1, 5, 1)), rng(31, k).standard_normal((1, 5, repeats))
        found.append(split(0.5 * t + event, 0.0, sd=np.full((1, 5, repeats), 1.0)))
    nodes = stats.norm.ppf((np.arange(400) + 0.5) / 400)
    height = ndtr(0.5 * nodes[:, None] + nodes)
    # what the error adds to the variance between draws; with one repeat, what it moves the mean of all draws by
    exact = height.var() - height.mean(axis=1).var() if repeats > 1 else height.mean(axis=0).var()
    each = np.array([one.surrogate[0] for one in found])
    # 3 standard errors, 41 values of z instead of all (1 %); no estimate of these is cut off at zero
    assert abs(each.mean() - exact) < 3 * each.std() / 20 + 0.01 * exact
    assert each.min() > 0


def test_a_handful_of_groups_tells_no_band() -> None:
    im = np.repeat(LEVELS, 20)
    demand = demands(im, 0.4, 11)
    with pytest.raises(
        tamis.StudyError, match=r"runs in 2 groups do not tell .* found \[80, 80\] runs in each"
    ):
        tamis.fragility(im, demand, 0.7, cluster=np.arange(160) % 2, rng=rng())


def test_limits_of_numpy_are_numbers() -> None:
    im = np.repeat(LEVELS, 20)
    demand = 10 * demands(im, 0.4, 11)
    one, two = (tamis.fragility(im, demand, limit, rng=rng()).median for limit in (7, np.int64(7)))
    assert one == two


def test_failed_runs_are_counted_and_left_out() -> None:
    im = np.repeat(LEVELS, 20)
    demand = demands(im, 0.4, 11)
    gone = rng(12).random(len(im)) < 0.1
    found = tamis.fragility(im, np.where(gone, np.nan, demand), 0.7, rng=rng())
    assert found.failed == gone.sum()
    assert found.median == tamis.fragility(im[~gone], demand[~gone], 0.7, rng=rng()).median


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"intensity": -LEVELS}, "above zero"),
        ({"intensity": LEVELS[:3]}, "an intensity for each demand"),
        ({"intensity": np.ones((8, 3))}, "one or two intensities"),
        ({"intensity": np.ones(8)}, "2 different ones"),
        ({"limit": np.nan}, "finite limit"),
        ({"limit": "high"}, "a number or a law"),
        ({"level": 90}, "between 0 and 1"),
        ({"cluster": np.zeros(3, dtype=int)}, "a group for each of 8 runs"),
        ({"sd": np.full(8, -1.0)}, "must not be negative"),
    ],
)
def test_what_cannot_be_meant_is_refused(change: dict[str, object], words: str) -> None:
    asked = {"intensity": LEVELS, "demand": np.arange(8.0), "limit": 4.0, "rng": rng(), **change}
    with pytest.raises(tamis.StudyError, match=words):
        tamis.fragility(**asked)
    with pytest.raises(tamis.StudyError, match="counts between 0"):
        tamis.fragility_of_counts(LEVELS, np.full(8, 11), 10, rng=rng())
