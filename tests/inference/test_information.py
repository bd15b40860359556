"""Expected information: closed forms of the linear Gaussian model, quadrature, and the angle to measure in paper H."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pytest

import tamis
from tamis.errors import SimulationError, StudyError, TamisWarning
from tamis.inference.information import Gain, expected_gain
from tamis.inference.posterior import Posterior
from tamis.types import Gauss
from tests.problems import steel

T = np.linspace(0.0, 1.0, 6)


@dataclass
class Linear:
    """Answers A x, with a surrogate's own variance and modes if any."""

    matrix: np.ndarray
    var: float = 0.0
    modes: np.ndarray | None = None
    offset: float = 0.0

    @property
    def reads(self):
        return tuple(f"x{k}" for k in range(self.matrix.shape[1]))

    def __call__(self, x):
        mean = x @ self.matrix.T + self.offset
        weight = None if self.modes is None else np.ones((len(x), len(self.modes)))
        return Gauss(mean, np.full_like(mean, self.var), self.modes, weight)


@dataclass
class Indirect:
    """An error model of a kind that nobody knows, to be asked measurement by measurement."""

    known: tamis.Gaussian

    def __getattr__(self, name):
        return getattr(self.known, name)


def normal_posterior(d, n, seed=0):
    space = tamis.Space(tuple(tamis.Parameter(f"x{k}", tamis.normal(0.0, 1.0)) for k in range(d)))
    x = np.random.default_rng(seed).standard_normal((1, n, d))
    return Posterior(space, x, np.zeros((1, n)), np.zeros((1, n)))


def experiment(m, noise, coord=None):
    return tamis.Experiment(
        "candidate", {}, (tamis.Observation(tamis.value("w"), np.full(m, np.nan), noise, coord=coord),)
    )


def design(d, m, seed):
    return np.random.default_rng(seed).standard_normal((m, d))


def exact(matrix, covariance):
    """Half the log ratio of determinants, and 1 - sd after / sd before, for a standard normal prior."""
    precision = np.eye(matrix.shape[1]) + matrix.T @ np.linalg.solve(covariance, matrix)
    return 0.5 * np.linalg.slogdet(precision).logabsdet, 1 - np.sqrt(np.diagonal(np.linalg.inv(precision)))


def fading(variance, length):
    return variance * np.exp(-np.abs(T[:, None] - T) / length)


SHAPE = np.sin(np.pi * T)[None]
CASES = {  # forward model, error model, covariance of what lies between the answer and the measurement
    "one number, poor": (Linear(np.array([[1.0]])), tamis.Gaussian(2.0), 4.0 * np.eye(1)),
    "one number, good": (Linear(np.array([[1.0]])), tamis.Gaussian(0.05), 0.0025 * np.eye(1)),
    "one of two parameters": (Linear(np.array([[1.0, 0.0]])), tamis.Known(0.3), 0.09 * np.eye(1)),
    "three numbers": (
        Linear(design(2, 3, 1)),
        tamis.Known((0.3, 0.6, 0.9)),
        np.diag([0.09, 0.36, 0.81]),
    ),
    "two sources": (
        Linear(design(3, 4, 2)),
        tamis.Sum((tamis.Gaussian(variance=0.5), tamis.Known(0.5))),
        0.75 * np.eye(4),
    ),
    "surrogate": (Linear(design(2, 3, 3), var=0.4), tamis.Gaussian(0.3), 0.49 * np.eye(3)),
    "surrogate of a signal": (
        Linear(design(2, 6, 4), modes=SHAPE),
        tamis.Gaussian(1.0),
        np.eye(6) + SHAPE.T @ SHAPE,
    ),
    "fading errors": (
        Linear(design(2, 6, 5)),
        tamis.Sum((tamis.Correlated(sd=1.0, length=0.3), tamis.Known(0.2))),
        fading(1.0, 0.3) + 0.04 * np.eye(6),
    ),
}


@pytest.mark.statistical  # four standard errors, 8 cases: a false alarm in 2000 seeds
@pytest.mark.parametrize("case", CASES)
def test_linear_gaussian_models_have_a_closed_form(case):
    forward, noise, covariance = CASES[case]
    m, d = forward.matrix.shape
    found = expected_gain(
        normal_posterior(d, 1000), [(experiment(m, noise, T), forward)], n=1000, rng=np.random.default_rng(1)
    )
    gain, narrowing = exact(forward.matrix, covariance)
    assert abs(found.gain - gain) < 4 * found.error
    assert found.error < 0.05
    # the standard deviation of 1000 draws is known to 2.2 %; four of these, of what is left of it
    assert np.all(np.abs(found.narrowing - narrowing) < 4 * 0.022 * (1 - narrowing) + 0.005)
    assert found.failed == 0 and found.effective > 10


@pytest.mark.statistical
@pytest.mark.parametrize("n", [200, 400])
def test_the_standard_error_is_that_of_repetitions_and_the_bias_is_gone(n):
    forward, noise, covariance = CASES["three numbers"]
    gain, _ = exact(forward.matrix, covariance)
    term = (experiment(3, noise), forward)
    found = []
    for seed in range(100):
        posterior = normal_posterior(2, n, [7, seed])
        found.append(expected_gain(posterior, [term], n=n, rng=np.random.default_rng(seed)))
    gains = np.array([each.gain for each in found])
    scatter = gains.std(ddof=1)
    # a standard deviation of 100 values is known to 7 %: four of these
    assert np.mean([each.error for each in found]) == pytest.approx(scatter, rel=0.28)
    # what is left is of order 1 / n^2; uncorrected the first case is off by 0.047, eight standard errors
    assert abs(gains.mean() - gain) < 4 * scatter / 10


@pytest.mark.statistical  # four standard errors
def test_a_nonlinear_model_agrees_with_quadrature():
    sd = 0.3
    theta = np.linspace(-6.0, 6.0, 1201)
    prior = np.exp(-0.5 * theta**2)
    prior /= prior.sum()
    y = np.linspace(-3.5, 3.5, 1401)
    density = np.exp(-0.5 * ((y[:, None] - np.sin(2 * theta)) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
    evidence = density @ prior
    with np.errstate(divide="ignore", invalid="ignore"):
        after = density * prior / evidence[:, None]
        integrand = np.where(density > 0, after * np.log(density / evidence[:, None]), 0.0).sum(axis=1)
    gain = np.trapezoid(evidence * integrand, y)
    spread = np.sqrt(after @ theta**2 - (after @ theta) ** 2)
    narrowing = 1 - np.trapezoid(evidence * spread, y)

    class Wave(Linear):
        def __call__(self, x):
            return Gauss(np.sin(2 * x), np.zeros_like(x))

    found = expected_gain(
        normal_posterior(1, 2000),
        [(experiment(1, tamis.Gaussian(sd)), Wave(np.eye(1)))],
        n=2000,
        rng=np.random.default_rng(2),
    )
    assert abs(found.gain - gain) < 4 * found.error
    # the ratio of two standard deviations of the same 2000 draws; 4 / sqrt(2000) is far above its error
    assert found.narrowing[0] == pytest.approx(narrowing, abs=4 / np.sqrt(2000) * (1 - narrowing))


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_the_matrix_product_is_the_density_asked_one_by_one(offset):
    forward = Linear(design(2, 3, 1), var=0.1, offset=offset)
    noise = tamis.Gaussian(0.5)

    def found(kind):
        term = (experiment(3, kind), forward)
        return expected_gain(normal_posterior(2, 300), [term], n=200, rng=np.random.default_rng(3))

    fast, slow = found(noise), found(Indirect(noise))
    # rounding: residuals of order 1 lose offset * 2e-16 before squares are divided by 0.35
    tolerance = 1e-12 + 1e-14 * offset
    assert fast.gain == pytest.approx(slow.gain, abs=tolerance)
    assert fast.error == pytest.approx(slow.error, abs=tolerance)
    assert fast.narrowing == pytest.approx(slow.narrowing, abs=tolerance)


@pytest.mark.parametrize("of", ["model", "data"])
def test_relative_errors_and_noise_parameters_teach_about_themselves(of):
    """One number y ~ N(1, s^2), s one of two: all that is learnt is s."""
    space = tamis.Space(
        (tamis.Parameter("x0", tamis.normal(0.0, 1.0)), tamis.Parameter("s", tamis.uniform(0.0, 1.0)))
    )
    s = np.tile([0.01, 0.1], 500)
    x = np.column_stack([np.full(1000, 0.1), s])[None]  # the mean of 1000 times 0.1 is not 0.1
    posterior = Posterior(space, x, np.zeros((1, 1000)), np.zeros((1, 1000)))
    one = Linear(np.array([[0.0]]), offset=1.0)
    term = (experiment(1, tamis.Relative("s", of=of)), one)
    found = expected_gain(posterior, [term], n=1000, rng=np.random.default_rng(4))
    y = np.linspace(-0.8, 0.8, 160_001)
    sd = np.array([0.01, 0.1])
    each = np.exp(-0.5 * (y[:, None] / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
    both = each.mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        integrand = 0.5 * np.where(each > 0, each * np.log(each / both[:, None]), 0.0).sum(axis=1)
    gain = np.trapezoid(integrand, y)
    # an error in proportion to the measurement instead of the model changes the density by a tenth at most
    assert abs(found.gain - gain) < 4 * found.error + (0.02 if of == "data" else 0.0)
    assert found.narrowing[0] == 0.0 and found.narrowing[1] > 0.3


def test_telling_two_equal_modes_apart_is_worth_log_two():
    x = np.repeat([-1.0, 1.0], 500)[None, :, None]
    posterior = Posterior(normal_posterior(1, 2).space, x, np.zeros((1, 1000)), np.zeros((1, 1000)))
    term = (experiment(1, tamis.Gaussian(0.01)), Linear(np.eye(1)))
    found = expected_gain(posterior, [term], n=1000, rng=np.random.default_rng(5))
    # 500 draws are left of 1000 each time: exact but for half of 1/500 - 1/1000, added against a bias
    assert found.gain == pytest.approx(np.log(2) + 0.0005, abs=1e-12)
    assert found.effective == pytest.approx(500) and found.narrowing == pytest.approx([1.0])


def test_what_depends_on_nothing_teaches_nothing():
    term = (experiment(2, tamis.Gaussian(1.0)), Linear(np.zeros((2, 3))))
    found = expected_gain(normal_posterior(3, 400), [term], n=400, rng=np.random.default_rng(6))
    # rounding of sums of 400 numbers
    assert found.gain == pytest.approx(0.0, abs=1e-12) and found.error == pytest.approx(0.0, abs=1e-12)
    assert found.narrowing == pytest.approx(np.zeros(3), abs=1e-12)
    assert found.effective == pytest.approx(400)


@pytest.mark.statistical  # four standard errors
def test_experiments_done_together_about_different_parameters_add_up():
    noise = tamis.Gaussian(0.5)
    terms = [(experiment(1, noise), Linear(np.eye(2)[[k]])) for k in range(2)]
    found = expected_gain(normal_posterior(2, 1000), terms, n=1000, rng=np.random.default_rng(7))
    assert abs(found.gain - np.log(5.0)) < 4 * found.error  # twice half of log(1 + 1 / 0.25)


def test_the_same_generator_gives_the_same_gain():
    term = (experiment(1, tamis.Gaussian(0.5)), Linear(np.eye(1)))
    posterior = normal_posterior(1, 500)
    first, again = (expected_gain(posterior, [term], n=100, rng=np.random.default_rng(8)) for _ in range(2))
    assert (first.gain, first.error) == (again.gain, again.error)


def test_no_more_draws_are_used_than_there_are():
    term = (experiment(1, tamis.Gaussian(0.5)), Linear(np.zeros((1, 1))))
    found = expected_gain(normal_posterior(1, 30), [term], n=2000, rng=np.random.default_rng(9))
    assert found.effective == pytest.approx(30)


def sick(share):
    class Sick(Linear):
        def __call__(self, x):
            mean = x.copy()
            mean[: int(share * len(x))] = np.nan
            return Gauss(mean, np.zeros_like(mean))

    return Sick(np.eye(1))


def test_failed_draws_are_counted_and_left_out():
    term = (experiment(1, tamis.Gaussian(0.5)), sick(0.25))
    found = expected_gain(normal_posterior(1, 400), [term], n=400, rng=np.random.default_rng(10))
    assert found.failed == 100 and np.isfinite(found.gain) and found.effective < 300
    with pytest.raises(SimulationError, match="candidate: the simulator failed at 400 of 400 draws"):
        expected_gain(normal_posterior(1, 400), [(term[0], sick(1.0))], n=400, rng=np.random.default_rng(10))


@pytest.mark.statistical  # four standard errors where a value is claimed, 18 cases; a bound is two below its mean
@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("sd", [3.0, 1.0, 0.3, 0.1, 0.01, 1e-4])
def test_a_gain_is_right_or_said_to_be_a_bound(d, sd):
    """From next to nothing to many times what as many draws can tell, against half the log of a determinant."""
    matrix, n = design(d, d + 1, 20 + d), 400
    information, _ = exact(matrix, sd**2 * np.eye(d + 1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = expected_gain(
            normal_posterior(d, n, 5),
            [(experiment(d + 1, tamis.Gaussian(sd)), Linear(matrix))],
            n=n,
            rng=np.random.default_rng(6),
        )
    assert found.at_least == (found.effective < 10) == bool(caught)
    if found.at_least:
        assert 0.5 * min(information, np.log(n)) < found.gain < information
    else:
        assert abs(found.gain - information) < 4 * found.error
        assert found.error < 0.1


def test_too_few_draws_for_a_sharp_experiment_are_said():
    term = (experiment(3, tamis.Gaussian(1e-4)), Linear(design(3, 3, 11)))
    with pytest.warns(
        TamisWarning, match="leaves 1.0 of 200 draws in play.*known to be at least 5.30 and may be far larger"
    ):
        found = expected_gain(normal_posterior(3, 200), [term], n=200, rng=np.random.default_rng(11))
    assert found.at_least and found.gain == pytest.approx(
        np.log(200), abs=1e-6
    )  # the most 200 draws can tell


@pytest.mark.parametrize("noise", [tamis.Known(0.0), Indirect(tamis.Gaussian(0.0))])
def test_an_experiment_without_errors_is_refused(noise):
    term = (experiment(1, noise), Linear(np.eye(1)))
    with pytest.raises(StudyError, match="expected an error model of positive variance"):
        expected_gain(normal_posterior(1, 50), [term], n=50, rng=np.random.default_rng(12))


@pytest.mark.parametrize("n", [1, -5])
def test_impossible_numbers_of_draws_are_refused(n):
    term = (experiment(1, tamis.Gaussian(0.5)), Linear(np.eye(1)))
    with pytest.raises(StudyError, match=f"found n = {n}"):
        expected_gain(normal_posterior(1, 200), [term], n=n, rng=np.random.default_rng(13))


@pytest.mark.statistical
def test_steel_contact_asks_for_angles_below_ten_degrees():
    """Hadjidoukas et al. (2014), section 4: data below 10 degrees would tell the two modes of k_t apart."""
    space, loglike, reference = steel("M2")
    posterior = tamis.tmcmc(space, loglike, n=1024, rng=np.random.default_rng(14))
    lower = posterior.flat[:, space.index("k_t")] < reference["k_t_antimode"]
    simulator = tamis.find("tamis:dem.impact")

    def ask(known: Posterior, angle: float) -> Gain:
        candidate = tamis.Experiment(
            f"angle {angle}",
            {"angle": angle},
            tuple(
                tamis.Observation(
                    tamis.value(name),
                    np.full(1, np.nan),
                    # the model error of the study and the mean measurement error of the paper's Table 2
                    tamis.Sum((tamis.Relative(variance=f"s_{name}", of="model"), tamis.Known(sd))),
                )
                for name, sd in (("ctr", 0.0245), ("cnr", 0.0167))
            ),
        )
        forward = tamis.Direct(simulator, candidate, ("mu", "gamma", "k_t"), {"speed": 2.2, "alpha": 0.5})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return expected_gain(known, [(candidate, forward)], n=1000, rng=np.random.default_rng(15))

    def part(mask: np.ndarray) -> Posterior:
        x = posterior.flat[mask][None]
        return Posterior(space, x, np.zeros(x.shape[:2]), np.zeros(x.shape[:2]))

    angles = (2.0, 5.0, 8.0, 11.0, 20.0, 30.0, 60.0)
    found = {angle: ask(posterior, angle) for angle in angles}
    ranked = sorted(angles, key=lambda angle: -found[angle].gain)
    assert ranked[:3] == [2.0, 5.0, 8.0]
    # the first by more than its error: 4 standard errors of a difference, were they independent
    assert found[2.0].gain - found[11.0].gain > 4 * np.hypot(found[2.0].error, found[11.0].error)
    k_t = space.index("k_t")
    assert max(angles, key=lambda angle: found[angle].narrowing[k_t]) == 2.0

    def about_the_mode(angle: float) -> float:
        """Chain rule: what is learnt in all, less what is learnt within each mode."""
        within = (float(m.mean()) * ask(part(m), angle).gain for m in (lower, ~lower))
        return found[angle].gain - sum(within)

    # of the 0.33 nats that knowing the mode is worth: at least half below, at most a fifth above ten degrees
    worth = -sum(p * np.log(p) for p in (lower.mean(), 1 - lower.mean()))
    assert about_the_mode(2.0) > 0.5 * worth and about_the_mode(20.0) < 0.2 * worth
