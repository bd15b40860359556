"""The error identified from reference tests: known answers, honest spread, and a calibration that rests on it."""

from dataclasses import dataclass

import numpy as np
import pytest

import tamis
from tamis.inference import error_model
from tamis.inference.error_model import identify
from tamis.noise import Covariance, Known, LowRank, check_noise
from tamis.types import Gauss

M = 40
T = np.linspace(0.0, 1.0, M)
FADE = np.abs(T[:, None] - T)
BIAS = 0.5 * np.cos(2 * T)
SHAPES = np.array([1.5 * np.sin(np.pi * T), T**2])
TRUTHS = {
    "low rank": SHAPES.T @ SHAPES + 0.05 * np.eye(M),
    "rough": np.exp(-FADE / 0.1) + 0.05 * np.eye(M),
    "smooth": np.exp(-0.5 * (FADE / 0.08) ** 2) + 0.02 * np.eye(M),
    "growing": np.outer(0.3 + 1.5 * T, 0.3 + 1.5 * T) * np.exp(-FADE / 0.15) + 0.05 * np.eye(M),
    "white": np.eye(M),
}


def realisations(truth, v, seed):
    rng = np.random.default_rng(seed)
    return BIAS + rng.normal(size=(v, M)) @ np.linalg.cholesky(TRUTHS[truth]).T


def covariance(noise):
    return noise.modes.T @ noise.modes + np.diag(np.broadcast_to(noise.residual, noise.mean.shape))


def chosen(errors):
    most = min(errors.shape[1] - 1, 3 * len(errors))
    return error_model._choose(errors / errors.std(), 1, range(most + 1), most)


@pytest.mark.statistical  # fixed seed; 40 means and 820 covariances at 5.5 standard errors: false alarm 4e-5
def test_known_modes_and_residual_are_recovered_from_many_realisations():
    v, truth = 60, TRUTHS["low rank"]
    found = identify(realisations("low rank", v, 0))
    size = np.diag(truth)
    assert np.all(np.abs(found.mean - BIAS) < 5.5 * np.sqrt(size / v))
    # the standard error of an empirical covariance, normal numbers
    error = np.sqrt((size[:, None] * size + truth**2) / v)
    assert np.all(np.abs(covariance(found) - truth) < 5.5 * error)
    # 60 times 38 squares; the estimated mean and the basis of each fold add 1/v and less than 2/v
    assert found.residual == pytest.approx(np.full(M, 0.05), rel=5.5 * np.sqrt(2 / (60 * 38)) + 3 / v)


def test_averages_along_diagonals_are_those_of_the_paper():
    rng = np.random.default_rng(0)
    v, n, mu = 5, 3, 6
    errors = rng.normal(size=(v, n * mu))
    matrix = errors.T @ errors / (v - 1)
    expected = np.empty_like(matrix)
    for a in range(n):
        for b in range(n):
            block = matrix[a * mu : (a + 1) * mu, b * mu : (b + 1) * mu]
            for i in range(mu):
                for j in range(mu):  # B.10
                    expected[a * mu + i, b * mu + j] = np.trace(block, offset=j - i) / mu
    found = error_model._stationary(errors, n)
    assert found == pytest.approx(expected, abs=1e-13)  # round-off of a transform of 12 numbers
    assert np.linalg.eigvalsh(found).min() > -1e-12  # a covariance


def test_few_realisations_of_a_stationary_error_are_made_stationary():
    choice = chosen(realisations("smooth", 10, 1))
    assert choice.alpha == 0.0 and choice.rho >= 0.75
    assert (
        choice.modes > 10
    )  # more than the paper's v, which would take the rest of the waves for white noise


def test_many_realisations_of_an_error_that_is_not_stationary_speak_for_themselves():
    errors = np.random.default_rng(0).normal(size=(60, 2)) @ SHAPES
    errors = errors + 0.1 * np.random.default_rng(1).normal(size=errors.shape)
    choice = chosen(errors)
    assert (choice.modes, choice.alpha) == (2, 1.0)


def test_few_realisations_say_more_than_their_empirical_covariance():
    for truth in ("smooth", "rough"):
        errors = realisations(truth, 10, 2)
        wrong = np.linalg.norm(np.cov(errors.T) - TRUTHS[truth])
        # 0.4 of it in the mean of 20 sets, 0.82 at worst
        assert np.linalg.norm(covariance(identify(errors)) - TRUTHS[truth]) < 0.75 * wrong


def test_errors_that_grow_along_the_signal_are_told_to_grow():
    size = np.sqrt(np.diag(TRUTHS["growing"]))
    found = [np.sqrt(np.diag(covariance(identify(realisations("growing", 10, seed))))) for seed in range(4)]
    # 10 realisations of a correlation of a seventh know a standard deviation to about a fifth, the mean of four to a
    # tenth; one size for all instants would be wrong by a factor of 3 at the beginning
    assert np.mean(found, axis=0) == pytest.approx(size, rel=0.3)


def test_short_signals_have_no_trend():
    found = identify(np.random.default_rng(0).normal(size=(6, 6)), components=3, modes=0)
    assert np.array_equal(found.residual[::2], found.residual[1::2])


def test_an_instant_that_never_errs_does_no_harm():
    errors = realisations("smooth", 10, 0)
    errors[:, 0] = 0.0
    found = identify(errors)
    # ten realisations know a standard deviation to about a fifth; 0.69 to 1.43 over 12 other sets
    assert np.sqrt(np.diag(covariance(found)))[1:] == pytest.approx(np.ones(M - 1), rel=0.6)
    assert found.mean[0] == 0


def test_units_of_components_do_not_matter():
    errors = np.hstack([realisations("smooth", 8, 1), realisations("low rank", 8, 2)])
    units = np.repeat([1.0, 1e-6], M)
    one, other = identify(errors, components=2), identify(errors * units, components=2)
    assert other.mean == pytest.approx(one.mean * units, rel=1e-12)
    scale = np.sqrt(np.diag(covariance(one)))
    wrong = covariance(other) / (units[:, None] * units) - covariance(one)
    # round-off of eigenvectors, magnified where eigenvalues are close
    assert np.abs(wrong / scale / scale[:, None]).max() < 1e-6


def test_each_component_has_a_residual_of_its_own():
    rng = np.random.default_rng(0)
    wave = rng.normal(size=(20, 1)) * np.sin(np.pi * T)
    quiet, loud = (wave + sd * rng.normal(size=(20, M)) for sd in (0.05, 0.5))
    found = identify(np.hstack([quiet, loud]), components=2)
    # 20 times 40 squares, five standard errors; means and bases of the folds add a tenth
    assert found.residual[-1] == pytest.approx(0.5**2, rel=5 * np.sqrt(2 / 800) + 0.1)
    # the coefficients carry noise of the loud signal into the quiet one, less than another 0.05^2; one variance
    # for both would be 50 times too much
    assert 0.75 * 0.05**2 < found.residual[0] < 2.5 * 0.05**2


@pytest.mark.statistical
@pytest.mark.parametrize("truth", TRUTHS)
def test_new_errors_are_as_large_as_they_are_said_to_be(truth):
    # Mean square of whitened new errors: 1 if the spread is honest. From one set of 10 realisations to the next it
    # scatters by 0.08 (24 sets of every kind, means 1.00 to 1.03); four standard errors of the mean of four, and 0.03.
    # Principal components that are believed, with the residual of the realisations that made them, give 19 to 51.
    honest, naive = [], []
    for seed in range(4):
        errors, new = realisations(truth, 10, seed), realisations(truth, 200, 1000 + seed)
        for found, model in ((honest, identify(errors)), (naive, trusting(errors))):
            away = new - model.mean
            found.append(np.mean(away * np.linalg.solve(covariance(model), away.T).T))
    assert np.mean(honest) == pytest.approx(1.0, abs=0.19)
    assert np.mean(naive) > 10


def trusting(errors, k=8):
    """Return what principal components give if their residual and covariance are believed."""
    mean = errors.mean(axis=0)
    _, size, rows = np.linalg.svd(errors - mean, full_matrices=False)
    variance = size**2 / (len(errors) - 1)
    left = variance[k:].sum() / (errors.shape[1] - k)
    return LowRank(mean, rows[:k] * np.sqrt(variance[:k] - left)[:, None], left)


def test_two_different_misfits_score_alike_without_the_residual():
    # L B.7 sees the projection only
    errors = realisations("low rank", 12, 0)
    projected, whole = identify(errors, residual=False, modes=3), identify(errors, modes=3)
    assert projected.modes.shape == (3, M) and not np.any(projected.residual)
    outside = np.sin(25 * T)
    outside = outside - np.linalg.pinv(projected.modes) @ (projected.modes @ outside)
    outside = outside - outside @ np.linalg.pinv(projected.modes) @ projected.modes
    model = Gauss(np.array([np.zeros(M), 5 * outside]), np.zeros((2, M)))
    alike = projected.loglike(errors[:1], model, {}, None)
    assert alike[0] == pytest.approx(alike[1], abs=1e-9)  # round-off of a misfit of a few standard deviations
    told = whole.loglike(errors[:1], model, {}, None)
    assert told[0] > told[1] + 100


@pytest.mark.statistical  # five standard errors of a chi-square mean: false alarm 6e-7
def test_realisations_are_generated_from_what_was_identified():
    check_noise(identify(realisations("low rank", 10, 0)), {}, None, m=M)


def test_errors_without_any_noise_are_identified():
    weights = np.random.default_rng(0).normal(size=(8, 2))
    found = identify(BIAS + weights @ SHAPES)
    # the two shapes span everything: the rest is the least variance, 1e-10 of the mean square
    assert np.all(found.residual < 1e-9)
    assert np.linalg.matrix_rank(np.vstack([found.modes, SHAPES]), tol=1e-3) == 2


def test_white_errors_need_no_modes():
    found = identify(realisations("white", 20, 3), modes=0)
    assert found.modes.shape == (0, M)
    assert found.residual == pytest.approx(
        np.full(M, 1.05), rel=5 * np.sqrt(2 / 800)
    )  # 1 + 1/v with its error


def test_the_uncertain_mean_of_many_tests_counts_once_for_all():
    errors = realisations("low rank", 10, 0)
    one, many = identify(errors), identify(errors, tests=12)
    assert covariance(many) == pytest.approx(covariance(one) * 22 / 11, rel=1e-10)
    assert many.mean == pytest.approx(one.mean, rel=0)


@pytest.mark.parametrize(
    ("errors", "options", "words"),
    [
        (np.zeros((4, 10)), {}, r"at least 5 realisations .* shape \(4, 10\)"),
        (np.zeros(10), {}, "one a row"),
        (np.full((6, 10), np.nan), {}, "realisation 1 has missing numbers"),
        (np.ones((6, 10)), {"components": 3}, "not 3 components of equal length"),
        (np.ones((6, 10)), {}, "component 1 of 1 has the same error in all 6"),
        (realisations("white", 6, 0), {"modes": 19}, "allow 1 to 18 modes .* found 19"),
        (realisations("white", 6, 0), {"modes": 0, "residual": False}, "found 0"),
        (realisations("white", 6, 0), {"tests": 0}, "one later test or more"),
    ],
)
def test_what_cannot_be_identified_is_refused(errors, options, words):
    with pytest.raises(tamis.StudyError, match=words):
        identify(errors, **options)


# A numerical experiment as in 4.5.1 of the paper: two sensors on an oscillator of known excitation, amplitudes in dB
FREQUENCY = np.linspace(0.4, 2.0, 30)
NOMINAL = np.array([1.0, 0.08, 0.0])  # resonance, damping, gain in dB
SPACE = tamis.Space(
    (
        tamis.Parameter("resonance", tamis.uniform(0.8, 1.25)),
        tamis.Parameter("damping", tamis.uniform(0.02, 0.25)),
        tamis.Parameter("gain", tamis.uniform(-5.0, 5.0)),
    )
)
GAP = np.abs(FREQUENCY[:, None] - FREQUENCY)
ERROR = np.kron([[1.0, 0.5], [0.5, 1.0]], 0.6 * np.exp(-0.5 * (GAP / 0.15) ** 2)) + 0.05 * np.eye(60)
MISFIT = np.r_[0.8 * np.sin(3 * FREQUENCY), 0.5 * np.cos(2 * FREQUENCY)]  # what the model always gets wrong


@dataclass(frozen=True)
class Spectra:
    reads: tuple[str, ...] = SPACE.names

    def __call__(self, x):
        resonance, damping, gain = (column[:, None] for column in x.T)
        ratio = FREQUENCY / resonance
        moved = gain - 10 * np.log10((1 - ratio**2) ** 2 + (2 * damping * ratio) ** 2)
        passed = moved + 10 * np.log10(1 + (2 * damping * ratio) ** 2)
        mean = np.hstack([moved, passed])
        return Gauss(mean, np.zeros_like(mean))


def calibrate(seed, v, tests, *, n):
    """Return whether the 90 % intervals of all parameters hold those that made the tests, and the posterior."""
    rng = np.random.default_rng([7, seed])
    errors = Covariance(ERROR).draw(np.tile(MISFIT, (v + tests, 1)), {}, None, rng)
    truth = np.array([rng.uniform(0.9, 1.1), rng.uniform(0.05, 0.12), rng.uniform(-2, 2)])
    y = Spectra()(truth[None]).mean + errors[v:]
    noise = identify(errors[:v], components=2, tests=tests)
    observation = tamis.Observation(tamis.value("amplitude"), y, noise)
    experiment = tamis.Experiment("degraded", {}, (observation,))
    posterior = tamis.tmcmc(SPACE, tamis.Likelihood(SPACE, ((experiment, Spectra()),)), n=n, rng=rng)
    x = posterior.x.reshape(-1, 3)
    low, high = np.quantile(x, (0.05, 0.95), axis=0)
    return (low <= truth) & (truth <= high), x, truth


def test_parameters_of_a_numerical_experiment_are_found():
    _, x, truth = calibrate(0, v=12, tests=3, n=200)
    assert np.all(np.abs(x.mean(axis=0) - truth) < 4 * x.std(axis=0))
    assert np.all(x.std(axis=0) < [0.01, 0.01, 0.5])  # a twentieth of the prior


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("v", "tests"), [(12, 1), (12, 6), (30, 10)])
def test_intervals_of_a_numerical_experiment_hold_the_truth(v, tests):
    # 100 repetitions; 82 to 97 of 100 is the 99 % band of a binomial at 90 %, for each of three parameters
    held = np.mean([calibrate(seed, v, tests, n=300)[0] for seed in range(100)], axis=0)
    assert np.all((held >= 0.82) & (held <= 0.97)), held


def test_taking_all_errors_as_independent_would_be_absurdly_sure():
    # the same errors as white noise of their own size: how much too narrow an interval would be
    step = 1e-6 * np.eye(3)
    slope = (Spectra()(NOMINAL + step).mean - Spectra()(NOMINAL - step).mean) / 2e-6
    claimed = np.linalg.inv(slope @ slope.T / ERROR[0, 0])
    weights = np.linalg.solve(slope @ slope.T, slope)
    real = weights @ ERROR @ weights.T
    assert np.all(np.sqrt(np.diag(real) / np.diag(claimed)) > 1.5)
    model = Spectra()(NOMINAL[None])
    draw = Covariance(ERROR).draw(model.mean, {}, None, np.random.default_rng(0))
    white = Known(float(np.sqrt(ERROR[0, 0]))).loglike(draw, model, {}, None)
    assert Covariance(ERROR).loglike(draw, model, {}, None)[0] > white[0] + 20
