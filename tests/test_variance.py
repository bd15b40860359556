"""The split of a prediction's variance: unbiased parts, honest standard errors, and what cannot be known."""

import numpy as np

from tamis.analysis.variance import shares, variance_split

SD = ((1.0, 0.5), (2.0, 0.5))  # of each model: between its draws, and between the seeds of one draw
MEAN = (0.0, 1.5)
COUNTS = (60, 30)


def answers(rng, replicates):
    parts = [
        mean + between * rng.standard_normal((1, n)) + within * rng.standard_normal((replicates, n))
        for mean, (between, within), n in zip(MEAN, SD, COUNTS, strict=True)
    ]
    return np.hstack(parts)[:, :, None], np.repeat([0, 1], COUNTS)


def truth():
    p = np.array(COUNTS) / sum(COUNTS)
    mean, sd = np.array(MEAN), np.array(SD)
    return np.array([p @ sd[:, 0] ** 2, p @ (mean - p @ mean) ** 2, p @ sd[:, 1] ** 2])


def test_parts_are_unbiased_and_their_errors_honest():
    rng = np.random.default_rng(4)
    found = [
        variance_split(*answers(rng, 2), stochastic=True, rng=np.random.default_rng(k)) for k in range(300)
    ]
    estimates = np.array([f.variance[:, 0] for f in found])
    error = estimates.std(axis=0) / np.sqrt(300)
    # three parts, each within three standard errors: a false alarm in 0.8 % of seeds
    assert np.all(np.abs(estimates.mean(axis=0) - truth()) < 3 * error)
    told = np.array([f.error[:, 0] for f in found]).mean(axis=0)
    # 300 sets know a standard deviation to 4 %, the bootstrap of 30 draws is low by a few per cent
    assert np.all(np.abs(told / estimates.std(axis=0) - 1) < 0.15)
    whole = truth().sum()
    drawn = np.array([shares(f.variance)[:, 0] for f in found])
    # a ratio of unbiased estimates is biased by about a squared relative error, here 2 % of the share
    assert np.all(np.abs(drawn.mean(axis=0) - truth() / whole) < 0.03)
    told = np.array([f.share_error[:, 0] for f in found]).mean(axis=0)
    assert np.all(np.abs(told / drawn.std(axis=0) - 1) < 0.15)


def test_one_replicate_cannot_tell_the_seed_from_the_parameters():
    y, model = answers(np.random.default_rng(1), 1)
    found = variance_split(y, model, stochastic=True, rng=np.random.default_rng(0))
    assert np.isnan(found.variance[2, 0]) and np.isnan(found.share_error[2, 0])
    assert np.nansum(shares(found.variance)) == 1.0
    same = variance_split(y, model, stochastic=False, rng=np.random.default_rng(0))
    assert same.variance[2, 0] == 0 and np.array_equal(same.variance[:2], found.variance[:2])


def test_one_model_has_no_choice():
    y, model = answers(np.random.default_rng(1), 3)
    found = variance_split(y, 0 * model, stochastic=True, rng=np.random.default_rng(0))
    assert found.variance[1, 0] == 0 and found.error[1, 0] == 0
    alone = np.where(np.arange(len(model)) == 5, 7, 0 * model)  # one draw has no variance: left out
    left = variance_split(y, alone, stochastic=True, rng=np.random.default_rng(0))
    rest = variance_split(
        np.delete(y, 5, axis=1), 0 * model[1:], stochastic=True, rng=np.random.default_rng(0)
    )
    assert np.array_equal(left.variance, rest.variance)
    assert np.isnan(
        variance_split(y[:, :1], model[:1], stochastic=True, rng=np.random.default_rng(0)).variance
    ).all()


def test_rows_that_repeat_themselves_widen_the_errors():
    y, model = answers(np.random.default_rng(1), 2)
    plain, as_many, fewer = (
        variance_split(y, model, stochastic=True, rng=np.random.default_rng(0), worth=worth)
        for worth in (None, np.array(COUNTS, float), np.array(COUNTS) / 4)
    )
    assert np.array_equal(as_many.error, plain.error) and np.array_equal(as_many.variance, plain.variance)
    # parameters and seed are sums over the models: twice as wide, but for what estimates of fewer draws are larger by
    assert np.allclose(fewer.error[2], 2 * plain.error[2])
    assert np.all((fewer.error > 1.9 * plain.error) & (fewer.error < 2.6 * plain.error))


def test_samples_that_repeat_themselves_are_no_choice_of_model():
    # two models that are the same, each draw of them written down three times: what their means differ by is chance
    rng, found = np.random.default_rng(5), []
    for k in range(400):
        once, model = answers(rng, 2)
        once[:, :60] = 0.5 * once[:, :60] + 1.0  # both models alike: mean 1, 0.5 between and 0.25 within
        once[:, 60:] = 1.0 + (once[:, 60:] - MEAN[1]) * 0.25
        thrice = np.repeat(once, 3, axis=1)
        options = {"stochastic": True, "rng": np.random.default_rng(k)}
        ours = variance_split(thrice, np.repeat(model, 3), worth=np.array(COUNTS, float), **options)
        naive = variance_split(thrice, np.repeat(model, 3), **options)
        found.append((ours.variance[:2, 0], naive.variance[:2, 0]))
    ours, naive = np.moveaxis(np.array(found), 1, 0)
    error = ours.std(axis=0) / np.sqrt(400)
    # 3 standard errors of the means over 400 sets: a false alarm in 0.5 % of seeds
    assert abs(ours[:, 1].mean()) < 3 * error[1]
    assert (
        naive[:, 1].mean() > 6 * error[1]
    )  # what it was: a third of the draws' own scatter is not subtracted


def test_answers_that_differ_by_round_off_have_no_shares():
    """A number that no draw changes, interpolated: 1 here, 1 - 1e-16 there."""
    rng = np.random.default_rng(1)
    y = 1.0 - 1e-16 * rng.integers(0, 3, (2, 40, 1))
    found = variance_split(y, np.repeat([0, 1], 20), stochastic=True, rng=rng)
    assert not found.variance.any() and np.isnan(shares(found.variance)).all()


def test_few_draws_still_have_errors_of_their_shares():
    """Resamplings whose parts sum to nothing positive are left out, and do not make all of them unknown."""
    rng = np.random.default_rng(3)
    found = variance_split(
        rng.standard_normal((2, 3, 20)), np.zeros(3, dtype=np.int64), stochastic=True, rng=rng
    )
    assert np.isfinite(found.share_error).all()
