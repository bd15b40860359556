"""Error models against SciPy's multivariate normal."""

import tracemalloc

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import tamis
from tamis.noise import Correlated, Covariance, Gaussian, Known, LowRank, Relative, Sum, check_noise
from tamis.types import Gauss

COORD = np.linspace(0.0, 1.0, 4)
N = 20_000
HALF = np.array([[0.3, 0.1, 0.0, 0.2], [0.0, 0.4, 0.1, 0.0], [0.1, 0.0, 0.2, 0.1], [0.0, 0.1, 0.1, 0.3]])
MATRIX = HALF @ HALF.T
BIAS = np.array([0.5, -0.2, 0.0, 0.1])
MODES = np.array([[0.4, 0.3, 0.2, 0.1], [0.0, 0.2, -0.3, 0.1]])
LOWRANK = LowRank(BIAS, MODES, 0.05)
MODELS = [
    (Known(0.1), {}),
    (Known((0.1, 0.2, 0.3, 0.4)), {}),
    (Gaussian(sd="s"), {"s": 0.2}),
    (Gaussian(variance="s"), {"s": 0.2}),
    (Relative(sd=0.1, of="model"), {}),
    (Relative(variance="v", of="model"), {"v": 0.01}),
    (Correlated(length="l", sd="s"), {"l": 0.5, "s": 0.3}),
    (Sum((Known(0.1), Relative(sd=0.2, of="model"), Correlated(length=0.5, variance="v"))), {"v": 0.2}),
    (Covariance(MATRIX), {}),
    (Covariance(MATRIX, scale="s"), {"s": 1.7}),
    (LOWRANK, {}),
    (LowRank(BIAS, MODES, (0.05, 0.1, 0.02, 0.3)), {}),
    (Sum((LOWRANK, Covariance(MATRIX, scale="s"), Gaussian(sd="t"))), {"s": 1.7, "t": 0.1}),
]


@pytest.mark.statistical  # fixed seed; five standard errors of a chi-square mean: false alarm 6e-7
@pytest.mark.parametrize(("noise", "theta"), MODELS, ids=lambda v: type(v).__name__)
def test_contract(noise, theta):
    check_noise(noise, {name: np.full(N, value) for name, value in theta.items()}, COORD)


@pytest.mark.statistical  # as above
def test_contract_of_a_projection():
    check_noise(LowRank(BIAS, MODES, 0.0), {}, None, freedom=2)


def brute(y, mean, var, noise_covariance):
    r = len(y)
    full = np.kron(np.eye(r), noise_covariance) + np.kron(np.ones((r, r)), np.diag(var))
    return multivariate_normal(np.tile(mean, r), full).logpdf(y.ravel())


@pytest.mark.parametrize("r", [1, 2, 5])
@pytest.mark.parametrize("correlated", [False, True])
def test_replicates_share_the_surrogates_error(r, correlated):
    rng = np.random.default_rng(r)
    y, mean, var = rng.normal(size=(r, 4)), rng.normal(size=4), rng.uniform(0.1, 0.5, size=4)
    covariance = 0.25 * np.eye(4)
    noise = Known(0.5)
    if correlated:
        covariance = covariance + 0.49 * np.exp(-np.abs(COORD[:, None] - COORD) / 0.5)
        noise = Sum((Known(0.5), Correlated(length=0.5, sd=0.7)))
    found = noise.loglike(y, Gauss(mean[None], var[None]), {}, COORD)
    assert found[0] == pytest.approx(
        brute(y, mean, var, covariance), abs=1e-10
    )  # round-off of a Cholesky factor


@pytest.mark.parametrize("r", [1, 3])
def test_two_fading_errors_at_once(r):
    rng = np.random.default_rng(r)
    y, mean, var = rng.normal(size=(r, 4)), rng.normal(size=4), rng.uniform(0.1, 0.5, size=4)
    distance = np.abs(COORD[:, None] - COORD)
    covariance = 0.04 * np.eye(4) + 0.49 * np.exp(-distance / 0.5) + 0.09 * np.exp(-distance / 0.05)
    noise = Sum((Known(0.2), Correlated(length=0.5, sd=0.7), Correlated(length=0.05, sd="s")))
    found = noise.loglike(y, Gauss(mean[None], var[None]), {"s": np.array([0.3])}, COORD)
    assert found[0] == pytest.approx(brute(y, mean, var, covariance), abs=1e-10)


def test_the_abscissa_need_not_be_sorted():
    rng = np.random.default_rng(0)
    y, mean, shuffled = rng.normal(size=(1, 4)), rng.normal(size=(1, 4)), np.array([2, 0, 3, 1])
    noise = Correlated(length=0.3, sd=0.7)
    sorted_ = noise.loglike(y, Gauss(mean, np.zeros((1, 4))), {}, COORD)
    again = noise.loglike(y[:, shuffled], Gauss(mean[:, shuffled], np.zeros((1, 4))), {}, COORD[shuffled])
    assert sorted_ == pytest.approx(again)


def test_modes_of_a_surrogate_are_correlated_errors():
    rng = np.random.default_rng(0)
    y, mean, modes, weight = (
        rng.normal(size=(1, 4)),
        rng.normal(size=4),
        rng.normal(size=(2, 4)),
        np.array([0.3, 0.6]),
    )
    full = np.diag(np.full(4, 0.25 + 0.1)) + modes.T @ np.diag(weight) @ modes
    found = Known(0.5).loglike(y, Gauss(mean[None], np.full((1, 4), 0.1), modes, weight[None]), {}, None)
    assert found[0] == pytest.approx(multivariate_normal(mean, full).logpdf(y[0]), abs=1e-10)


def test_parameters_vary_over_the_points():
    y, mean = np.array([[1.0, 2.0]]), np.zeros((3, 2))
    sd = np.array([0.5, 1.0, 2.0])
    found = Gaussian(sd="s").loglike(y, Gauss(mean, np.zeros((3, 2))), {"s": sd}, None)
    expected = [multivariate_normal(np.zeros(2), s**2 * np.eye(2)).logpdf(y[0]) for s in sd]
    assert found == pytest.approx(expected)


def test_relative_errors_scale_with_the_data_or_the_model():
    y, mean = np.array([[2.0]]), np.array([[1.0]])
    zero = np.zeros((1, 1))
    of_data = Relative(sd=0.1).loglike(y, Gauss(mean, zero), {}, None)[0]
    of_model = Relative(sd=0.1, of="model").loglike(y, Gauss(mean, zero), {}, None)[0]
    assert of_data == pytest.approx(multivariate_normal(1.0, 0.04).logpdf(2.0))
    assert of_model == pytest.approx(multivariate_normal(1.0, 0.01).logpdf(2.0))


def test_missing_data_do_not_count():
    y = np.array([[1.0, np.nan, 2.0, np.nan]])
    model = Gauss(np.zeros((1, 4)), np.zeros((1, 4)))
    keep = Gauss(np.zeros((1, 2)), np.zeros((1, 2)))
    for noise, short in [
        (Known((0.5, 9.0, 0.7, 9.0)), Known((0.5, 0.7))),
        (Correlated(length=0.5, sd=1.0), Correlated(length=0.5, sd=1.0)),
    ]:
        expected = short.loglike(y[:, [0, 2]], keep, {}, COORD[[0, 2]])
        assert noise.loglike(y, model, {}, COORD) == pytest.approx(expected)


def test_a_failed_row_or_a_zero_variance_has_likelihood_zero():
    model = Gauss(np.array([[np.nan], [0.0]]), np.zeros((2, 1)))
    assert np.isneginf(Known(1.0).loglike(np.array([[1.0]]), model, {}, None)[0])
    zero = Gaussian(variance="v").loglike(
        np.array([[1.0]]), Gauss(np.zeros((1, 1)), np.zeros((1, 1))), {"v": np.zeros(1)}, None
    )
    assert np.isneginf(zero[0])


@pytest.mark.parametrize(
    "make", [lambda: Gaussian(), lambda: Gaussian(sd=1.0, variance=1.0), lambda: Relative()]
)
def test_sd_or_variance_not_both(make):
    with pytest.raises(tamis.StudyError, match="either sd or variance"):
        make()


def test_what_cannot_be_said_is_refused():
    with pytest.raises(tamis.StudyError, match="needs an abscissa"):
        Correlated(length=1.0, sd=1.0).loglike(
            np.zeros((1, 2)), Gauss(np.zeros((1, 2)), np.zeros((1, 2))), {}, None
        )
    ragged = np.array([[1.0, np.nan], [1.0, 2.0]])
    with pytest.raises(tamis.StudyError, match="missing in one replicate"):
        Known(1.0).loglike(ragged, Gauss(np.zeros((1, 2)), np.zeros((1, 2))), {}, None)


def test_modes_without_any_other_error_are_no_density():
    modes, weight = np.ones((1, 3)), np.ones((1, 1))
    found = Known(0.0).loglike(
        np.ones((1, 3)), Gauss(np.zeros((1, 3)), np.zeros((1, 3)), modes, weight), {}, None
    )
    assert found[0] == -np.inf


ABSCISSA = np.array([0.0, 0.1, 0.35, 0.2, 0.9, 1.0, 0.6])  # neither sorted nor even


@pytest.mark.parametrize("r", [1, 3])
@pytest.mark.parametrize("k", [0, 2, 9])  # none, few, and more than there are measurements
@pytest.mark.parametrize("lengths", [(), (0.3,), (0.3, 0.05)])
@pytest.mark.parametrize("missing", [(), (2, 5)])
def test_all_errors_at_once(r, k, lengths, missing, monkeypatch):
    monkeypatch.setattr("tamis.gaussians._CHUNK", 2 * 7 * (k + 1))  # two points at a time
    rng = np.random.default_rng(r)
    n, m = 5, len(ABSCISSA)
    y, mean, modes = rng.normal(size=(r, m)), rng.normal(size=(n, m)), rng.normal(size=(k, m))
    var, weight = rng.uniform(0.1, 0.2, (n, m)), rng.uniform(0.0, 2.0, (n, k))
    weight[2] = 0.0  # a point where the surrogate has no error along them
    sd, keep = rng.uniform(0.3, 0.6, n), np.setdiff1d(np.arange(m), missing)
    y[:, missing] = np.nan
    noise = Sum((Gaussian(sd="s"), *(Correlated(length=length, sd="s") for length in lengths)))
    model = Gauss(mean, var, modes, weight) if k else Gauss(mean, var)
    found = noise.loglike(y, model, {"s": sd}, ABSCISSA)
    for i in range(n):
        distance = np.abs(ABSCISSA[:, None] - ABSCISSA)
        one = sd[i] ** 2 * (np.eye(m) + sum(np.exp(-distance / length) for length in lengths))
        common = np.diag(var[i]) + modes.T @ np.diag(weight[i]) @ modes
        full = np.kron(np.ones((r, r)), common[np.ix_(keep, keep)]) + np.kron(
            np.eye(r), one[np.ix_(keep, keep)]
        )
        exact = multivariate_normal(np.tile(mean[i, keep], r), full).logpdf(y[:, keep].ravel())
        assert found[i] == pytest.approx(
            exact, rel=1e-10
        )  # round-off of factors of well-conditioned matrices


@pytest.mark.parametrize("sd", [1e-3, 1e-6, 1e-8, 1e-9])
@pytest.mark.parametrize("coloured", [False, True])
def test_a_residual_along_a_mode_is_judged_by_the_mode_however_small_the_noise(sd, coloured):
    # residual = mode = shape, noise of covariance sd^2 R: with g = shape' R^-1 shape / sd^2 the square is g / (1 + g)
    # and the determinant that of the noise times 1 + g
    shape = 1 + ABSCISSA
    correlation = np.exp(-np.abs(ABSCISSA[:, None] - ABSCISSA) / 0.3) if coloured else np.eye(7)
    g = shape @ np.linalg.solve(correlation, shape) / sd**2
    logdet = np.linalg.slogdet(correlation)[1] + 7 * np.log(sd**2) + np.log1p(g)
    exact = -0.5 * (g / (1 + g) + logdet + 7 * np.log(2 * np.pi))
    noise = Correlated(length=0.3, sd=sd) if coloured else Known(sd)
    for mode in ([shape], [shape / 2, shape / 2, shape / 2, shape / 2]):  # the same, and a singular A'A
        model = Gauss(np.zeros((1, 7)), np.zeros((1, 7)), np.array(mode), np.ones((1, len(mode))))
        found = noise.loglike(shape[None], model, {}, ABSCISSA)
        # at 1e-3 the pivots keep 1e-6 of their numbers, so that 1e-10 is right; below, the residual's 1e-16 is 1e-7 of
        # the noise, and enters squared
        assert found[0] == pytest.approx(exact, abs=1e-9)


def test_modes_that_span_the_signal_leave_no_room_for_the_noise():
    # more modes than measurements: the covariance is that of the modes but for 1e-16, A'A is singular
    rng = np.random.default_rng(0)
    modes, weight = rng.normal(size=(9, 5)), rng.uniform(0.5, 2.0, (3, 9))
    y, mean = rng.normal(size=(1, 5)), rng.normal(size=(3, 5))
    found = Known(1e-8).loglike(y, Gauss(mean, np.zeros((3, 5)), modes, weight), {}, None)
    for i in range(3):
        exact = multivariate_normal(mean[i], modes.T @ np.diag(weight[i]) @ modes).logpdf(y[0])
        assert found[i] == pytest.approx(exact, rel=1e-6)  # 1e-16 * 1e8 for the noise against the modes


@pytest.mark.parametrize("noise", [Gaussian(variance="v"), Correlated(length=0.3, variance="v")])
def test_a_point_that_has_no_density_leaves_the_others_theirs(noise):
    rng = np.random.default_rng(0)
    mean, modes = rng.normal(size=(4, 7)), rng.normal(size=(2, 7))
    mean[1, 3] = np.nan  # a failed run
    theta = {"v": np.array([0.1, 0.2, 0.0, 0.3])}  # the third has no noise
    y, zero = rng.normal(size=(1, 7)), np.zeros((4, 7))
    found = noise.loglike(y, Gauss(mean, zero, modes, np.ones((4, 2))), theta, ABSCISSA)
    assert np.array_equal(np.isneginf(found), [False, True, True, False])
    for i in (0, 3):
        alone = Gauss(mean[i : i + 1], zero[:1], modes, np.ones((1, 2)))
        again = noise.loglike(y, alone, {"v": theta["v"][i : i + 1]}, ABSCISSA)
        assert found[i] == pytest.approx(again[0], rel=1e-13)  # the same sums, in other blocks


def test_two_fading_errors_without_a_density():
    # the second point's errors are all one: a matrix that has no factor, beside one that has
    noise = Sum((Correlated(length="l", sd=1.0), Correlated(length="l", sd=1.0)))
    model = Gauss(np.zeros((2, 7)), np.zeros((2, 7)))
    found = noise.loglike(np.zeros((1, 7)), model, {"l": np.array([0.3, 1e30])}, ABSCISSA)
    assert np.isfinite(found[0]) and np.isneginf(found[1])


@pytest.mark.parametrize("noise", [Known(1.0), Sum((Known(1.0), Correlated(length=0.1, sd=1.0)))])
def test_many_modes_of_a_long_signal_take_little_memory(noise):
    # 200 modes of 2000 instants: products of all pairs of modes would be 640 MB, a covariance matrix 32 MB
    rng = np.random.default_rng(0)
    model = Gauss(np.zeros((2, 2000)), np.ones((2, 2000)), rng.normal(size=(200, 2000)), np.ones((2, 200)))
    tracemalloc.start()
    noise.loglike(rng.normal(size=(1, 2000)), model, {}, np.linspace(0.0, 1.0, 2000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # 3.2 MB each: the modes, those whitened for one point, and a copy of these for a product
    assert peak < 20e6


FULL = [
    (Covariance(MATRIX), np.zeros(4), MATRIX),
    (Covariance(MATRIX.tolist(), scale=2.5), np.zeros(4), 2.5 * MATRIX),
    (LOWRANK, BIAS, MODES.T @ MODES + 0.05 * np.eye(4)),
    (Sum((Covariance(MATRIX), Known(0.3))), np.zeros(4), MATRIX + 0.09 * np.eye(4)),
    (Sum((LOWRANK, Covariance(MATRIX))), BIAS, MODES.T @ MODES + 0.05 * np.eye(4) + MATRIX),
    (Sum((LowRank(BIAS, MODES, 0.0), Known(0.3))), BIAS, MODES.T @ MODES + 0.09 * np.eye(4)),
    (
        Sum((LOWRANK, LOWRANK, Correlated(length=0.5, sd=0.3))),
        2 * BIAS,
        2 * (MODES.T @ MODES + 0.05 * np.eye(4)) + 0.09 * np.exp(-np.abs(COORD[:, None] - COORD) / 0.5),
    ),
]


@pytest.mark.parametrize("r", [1, 3])
@pytest.mark.parametrize("missing", [(), (1,)])
@pytest.mark.parametrize("surrogate", ["none", "var", "modes"])
@pytest.mark.parametrize(("noise", "bias", "covariance"), FULL, ids=lambda v: type(v).__name__)
def test_given_covariances_and_modes(noise, bias, covariance, surrogate, missing, r):
    rng = np.random.default_rng(r)
    n = 3
    y, mean, keep = rng.normal(size=(r, 4)), rng.normal(size=(n, 4)), np.setdiff1d(np.arange(4), missing)
    y[:, missing] = np.nan
    var = rng.uniform(0.1, 0.5, (n, 4)) if surrogate != "none" else np.zeros((n, 4))
    modes, weight = rng.normal(size=(2, 4)), rng.uniform(0.1, 0.5, (n, 2)) * (surrogate == "modes")
    model = Gauss(mean, var, modes, weight) if surrogate == "modes" else Gauss(mean, var)
    found = noise.loglike(y, model, {}, COORD)
    part = np.ix_(keep, keep)
    for i in range(n):
        common = np.diag(var[i]) + modes.T @ np.diag(weight[i]) @ modes
        full = np.kron(np.ones((r, r)), common[part]) + np.kron(np.eye(r), covariance[part])
        exact = multivariate_normal(np.tile((mean[i] + bias)[keep], r), full).logpdf(y[:, keep].ravel())
        assert found[i] == pytest.approx(exact, rel=1e-10)  # round-off of well-conditioned factors


@pytest.mark.parametrize("r", [1, 3])
@pytest.mark.parametrize("missing", [(), (1,)])
@pytest.mark.parametrize("surrogate", ["none", "var", "modes"])
def test_without_a_residual_the_coefficients_are_judged(surrogate, missing, r):
    # B.7: xi = A+ (y - mean) is standard normal; the surrogate's covariance K becomes A+ K A+'
    rng = np.random.default_rng(r)
    y, mean, keep = rng.normal(size=(r, 4)), rng.normal(size=(2, 4)), np.setdiff1d(np.arange(4), missing)
    y[:, missing] = np.nan
    var = rng.uniform(0.1, 0.5, (2, 4)) if surrogate == "var" else np.zeros((2, 4))
    modes, weight = rng.normal(size=(3, 4)), rng.uniform(0.1, 0.5, (2, 3)) * (surrogate == "modes")
    model = Gauss(mean, var, modes, weight) if surrogate == "modes" else Gauss(mean, var)
    found = LowRank(BIAS, MODES, 0.0).loglike(y, model, {}, None)
    onto = np.linalg.pinv(MODES[:, keep].T)  # (k, m)
    for i in range(2):
        common = onto @ (np.diag(var[i]) + modes.T @ np.diag(weight[i]) @ modes)[np.ix_(keep, keep)] @ onto.T
        full = np.kron(np.ones((r, r)), common) + np.eye(2 * r)
        xi = (y - BIAS - mean[i])[:, keep] @ onto.T
        exact = multivariate_normal(np.zeros(2 * r), full).logpdf(xi.ravel())
        assert found[i] == pytest.approx(exact, rel=1e-10)


def test_only_a_residual_tells_misfits_outside_the_modes_apart():
    outside = np.linalg.svd(MODES)[2][2]  # orthogonal to both modes
    y = np.tile(BIAS + MODES[0], (1, 1))
    model = Gauss(np.array([np.zeros(4), 10 * outside]), np.zeros((2, 4)))
    projected = LowRank(BIAS, MODES, 0.0).loglike(y, model, {}, None)
    assert projected[0] == pytest.approx(projected[1], rel=1e-12)  # round-off
    whole = LOWRANK.loglike(y, model, {}, None)
    assert whole[0] - whole[1] == pytest.approx(0.5 * 10**2 / 0.05, rel=1e-12)


def test_errors_given_by_arrays_can_be_compared():
    assert Covariance(MATRIX) == Covariance(MATRIX.tolist())
    assert Covariance(MATRIX) != Covariance(MATRIX, scale="s")
    assert LowRank(BIAS, MODES, 0.05) == LOWRANK
    assert LowRank(BIAS, 2 * MODES, 0.05) != LOWRANK
    assert Known(0.1) != LOWRANK and LOWRANK != 3
    assert Sum((LOWRANK, Known(0.1))) == Sum((LowRank(BIAS, MODES, 0.05), Known(0.1)))
    assert not LOWRANK.white and not Covariance(MATRIX).white and not Sum((Known(0.1), LOWRANK)).white


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Covariance(np.ones((2, 3))), r"square .* found shape \(2, 3\)"),
        (lambda: Covariance([[1.0, np.nan], [np.nan, 1.0]]), "of numbers"),
        (lambda: Covariance([[1.0, 0.5], [0.4, 1.0]]), "symmetric"),
        (lambda: Covariance([[1.0, 2.0], [2.0, 1.0]]), "eigenvalue -1"),
        (lambda: Covariance([[-1.0, 0.0], [0.0, 1.0]]), "eigenvalue -1"),
        (lambda: LowRank(BIAS, MODES[:, :3], 0.1), r"found mean \(4,\), modes \(2, 3\)"),
        (lambda: LowRank(BIAS, MODES, (0.1, 0.1)), r"residual \(2,\)"),
        (lambda: LowRank(BIAS * np.nan, MODES, 0.1), "NaN"),
        (lambda: LowRank(BIAS, MODES, -0.1), "above zero"),
        (lambda: LowRank(BIAS, MODES, (0.1, 0.1, 0.0, 0.1)), "above zero"),
        (lambda: LowRank(BIAS, np.empty((0, 4)), 0.0), "at least one"),
        (lambda: LowRank(BIAS, np.ones((2, 4)), 0.0), "independent of each other"),
        (lambda: Sum((LowRank(BIAS, MODES, 0.0),)), "without a residual has no density"),
        (lambda: Sum((LowRank(BIAS, MODES, 0.0), LowRank(BIAS, MODES, 0.0))), "add another source of error"),
    ],
)
def test_arrays_that_are_no_errors_are_refused(make, words):
    with pytest.raises(tamis.StudyError, match=words):
        make()


def test_errors_of_another_size_are_refused():
    model = Gauss(np.zeros((1, 3)), np.zeros((1, 3)))
    for noise in (Covariance(MATRIX), LOWRANK, LowRank(BIAS, MODES, 0.0), Sum((Known(0.1), LOWRANK))):
        with pytest.raises(tamis.StudyError, match="made for 4 measurements, found 3"):
            noise.loglike(np.zeros((1, 3)), model, {}, None)
        with pytest.raises(tamis.StudyError, match="made for 4 measurements, found 3"):
            noise.draw(np.zeros((1, 3)), {}, None, np.random.default_rng(0))
    few = np.array([[1.0, np.nan, np.nan, np.nan]])
    with pytest.raises(tamis.StudyError, match="1 measurements do not determine 2 modes"):
        LowRank(BIAS, MODES, 0.0).loglike(few, Gauss(np.zeros((1, 4)), np.zeros((1, 4))), {}, None)


def test_nothing_measured_says_nothing():
    model = Gauss(np.zeros((2, 4)), np.zeros((2, 4)))
    for noise in (Covariance(MATRIX), LOWRANK):
        assert noise.loglike(np.full((1, 4), np.nan), model, {}, None) == pytest.approx(0.0, abs=0)


def test_modes_of_the_noise_and_of_a_surrogate_take_no_matrices_of_the_signal():
    # 50 points, 2000 instants, 20 modes in all: full matrices would take 32 MB each
    rng = np.random.default_rng(0)
    noise = LowRank(np.zeros(2000), rng.normal(size=(10, 2000)), 0.1)
    model = Gauss(np.zeros((50, 2000)), np.ones((50, 2000)), rng.normal(size=(10, 2000)), np.ones((50, 10)))
    tracemalloc.start()
    noise.loglike(rng.normal(size=(1, 2000)), model, {}, None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16e6  # half of one
