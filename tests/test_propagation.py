"""First-order second moments, Monte Carlo to a stated error, response surfaces, fitted laws."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from tamis import marginals
from tamis.analysis.propagation import (
    LAWS,
    fit_laws,
    fosm,
    fosm_conditions,
    moments,
    monte_carlo,
    response_surface,
)
from tamis.errors import SimulationError, StudyError
from tamis.space import Parameter, Space
from tamis.types import Array, Event, Generator

B = np.array([[2.0, 0.0, 1.0], [-1.0, 0.0, 3.0], [0.5, 0.0, -2.0]])


def linear(x: Array) -> Array:
    y: Array = 7 + x @ B
    return y


def test_fosm_of_a_linear_model_is_exact() -> None:
    mean, sd = np.array([1.0, -2.0, 1e3]), np.array([0.3, 2.0, 10.0])
    found = fosm(linear, mean, np.diag(sd**2))
    np.testing.assert_allclose(found.mean, linear(mean[None])[0], rtol=1e-14)
    np.testing.assert_allclose(found.gradient, B, rtol=1e-9, atol=1e-12)  # rounding of 1e3 over a step of 0.5
    np.testing.assert_allclose(found.variance, (sd**2) @ B**2, rtol=1e-9)
    sure = [0, 2]
    np.testing.assert_allclose(
        found.importance[:, sure], (sd[:, None] * B / np.sqrt((sd**2) @ B**2 + 1e-300))[:, sure], rtol=1e-9
    )
    np.testing.assert_allclose(np.sum(found.importance[:, sure] ** 2, axis=0), 1.0, rtol=1e-12)
    assert np.isnan(found.importance[:, 1]).all()  # nothing to share


def test_fosm_with_correlation() -> None:
    sd = np.array([0.3, 2.0, 1.0])
    r = np.array([[1.0, 0.6, 0.1], [0.6, 1.0, -0.3], [0.1, -0.3, 1.0]])
    covariance = r * np.outer(sd, sd)
    found = fosm(linear, np.zeros(3), covariance)
    np.testing.assert_allclose(found.variance, np.diag(B.T @ covariance @ B), rtol=1e-10, atol=1e-20)
    for i in (0, 2):
        assert np.sum(found.importance[:, i] ** 2) == pytest.approx(1.0, rel=1e-12)
    # whatever the order of the inputs
    order = [2, 0, 1]
    turned = fosm(lambda x: linear(x[:, np.argsort(order)]), np.zeros(3), covariance[np.ix_(order, order)])
    np.testing.assert_allclose(turned.importance, found.importance[order], rtol=1e-9)


def test_fosm_of_two_correlated_inputs_by_hand() -> None:
    # the root of [[1, r], [r, 1]] is [[a, b], [b, a]] with a, b = (sqrt(1 + r) +- sqrt(1 - r)) / 2
    r = 0.6
    a, b = (math.sqrt(1 + r) + math.sqrt(1 - r)) / 2, (math.sqrt(1 + r) - math.sqrt(1 - r)) / 2
    found = fosm(lambda x: x[:, 0], np.zeros(2), np.array([[1, r], [r, 1]]))
    np.testing.assert_allclose(found.importance[:, 0], [a, b], rtol=1e-12)
    assert found.variance[0] == pytest.approx(1.0)


def test_fosm_asks_once_and_stays_inside() -> None:
    asked: list[Array] = []

    def square(x: Array) -> Array:
        asked.append(x)
        return x[:, :1] ** 2 + x[:, 1:]

    bounds = np.array([[1.0, 5.0], [-np.inf, np.inf]])
    found = fosm(square, np.array([1.0, 0.0]), np.diag([0.04, 1.0]), bounds=bounds)
    assert len(asked) == 1 and asked[0].shape == (5, 2)
    assert asked[0][:, 0].min() == 1.0
    assert found.gradient[0, 0] == pytest.approx(2.01, rel=1e-12)  # one-sided: 2 x + h, h = 0.05 x 0.2
    above = fosm(square, np.array([5.0, 0.0]), np.diag([0.04, 1.0]), bounds=bounds)
    assert asked[1][:, 0].max() == 5.0
    assert above.gradient[0, 0] == pytest.approx(9.99, rel=1e-12)
    central = fosm(square, np.array([1.0, 0.0]), np.diag([0.04, 1.0]))
    assert central.gradient[0, 0] == pytest.approx(2.0, rel=1e-12)  # central: exact for a parabola


def test_fosm_error_is_of_second_order_in_the_step() -> None:
    errors = []
    for step in (0.4, 0.2, 0.1):
        found = fosm(np.exp, np.zeros(1), np.eye(1), step=step)
        errors.append(found.gradient[0, 0] - 1)
    slopes = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    np.testing.assert_allclose(slopes, 2.0, atol=0.02)  # sinh(h)/h - 1 = h^2/6 + h^4/120
    assert fosm(np.exp, np.zeros(1), np.eye(1)).gradient[0, 0] - 1 == pytest.approx(0.05**2 / 6, rel=1e-3)


# SERA D27.1, section 5.1.3.1: importance factors and moments as printed
SD = np.array([0.2, 0.0072, 0.1442, 0.1442, 0.1079, 0.0568, 0.0568])
ALPHA = {
    "HF 1 Hz": ([0.3455, -0.0242, 0.6046, 0.5873, 0.3973, 0.0311, 0.1036], 62.24, 57.89, 3351.20),
    "HF 5 Hz": ([0.4616, -0.1440, -0.0339, -0.6817, 0.5293, 0.0423, 0.1355], 66.94, 47.23, 2230.84),
    "GBF 1 Hz": ([0.0619, -0.0039, 0.5900, 0.8009, 0.0774, 0.0058, 0.0232], 21.50, 103.38, 10688.08),
    "GBF 5 Hz": ([0.3060, -0.0947, -0.8160, -0.2841, 0.3716, 0.0291, 0.1093], 27.57, 27.45, 753.60),
}


@pytest.mark.parametrize("case", ALPHA)
def test_published_importance_factors(case: str) -> None:
    """The sensitivities that the printed factors mean give back factors and variance."""
    alpha, mean, deviation, variance = ALPHA[case]
    slopes = np.array(alpha) * deviation / SD
    found = fosm(lambda x: mean + x @ slopes, np.zeros(7), np.diag(SD**2))
    # factors printed to 1e-4, so their squares add up to 1 within 2 x 1e-4 x the sum of factors
    np.testing.assert_allclose(found.importance[:, 0], alpha, atol=2e-4)
    assert found.variance[0] == pytest.approx(variance, rel=1e-3)
    assert found.mean[0] == mean


def test_fosm_against_the_exact_moments_of_a_product() -> None:
    # of independent inputs: mean m1 m2 exactly, variance without the term s1^2 s2^2 of second order
    found = fosm(lambda x: x[:, 0] * x[:, 1], np.array([2.0, 3.0]), np.diag([0.01, 0.04]))
    assert found.mean[0] == pytest.approx(6.0)
    assert found.variance[0] == pytest.approx(9 * 0.01 + 4 * 0.04, rel=1e-9)


def test_fosm_names_the_input_that_failed() -> None:
    def fails(x: Array) -> Array:
        return np.where(x[:, 1] < -0.01, np.nan, x[:, 0])

    with pytest.raises(SimulationError, match=r"input 2 of 2 = -0\.05, others at their means"):
        fosm(fails, np.zeros(2), np.eye(2))
    with pytest.raises(SimulationError, match=r"failed at mu = -0\.05"):
        fosm(fails, np.zeros(2), np.eye(2), names=("e", "mu"))
    with pytest.raises(SimulationError, match="failed at the mean"):
        fosm(lambda x: np.full(len(x), np.nan), np.zeros(2), np.eye(2))


@pytest.mark.parametrize(
    ("covariance", "bounds", "message"),
    [
        (np.eye(3), None, r"must be \(2, 2\)"),
        (np.diag([1.0, 0.0]), None, "input 2 of 2 does not vary"),
        (np.eye(2), np.array([[1.0, 2.0], [-1.0, 1.0]]), "mean 0 lies outside the bounds 1 to 2"),
        (np.eye(2), np.array([[0.0, 0.0], [-1.0, 1.0]]), "input 1 of 2 does not vary"),
    ],
)
def test_fosm_refusals(covariance: Array, bounds: Array | None, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        fosm(lambda x: x, np.zeros(2), covariance, bounds=bounds)


def test_conditions_of_fosm() -> None:
    space = Space(
        (
            Parameter("a", marginals.normal(10.0, 1.0)),
            Parameter("b", marginals.uniform(9.0, 11.0)),
            Parameter("c", marginals.normal(1.0, 0.4)),
            Parameter("d", marginals.lognormal(1.0, 0.3)),
            Parameter("z", marginals.truncnormal(0.0, 1.0, -8.0, 8.0)),
        )
    )
    mean, covariance = np.array([10.0, 10.0, 1.0, 1.0, 0.0]), np.diag([1.0, 0.3, 0.16, 0.04, 1.0])
    wide, laws = fosm_conditions(space, mean, covariance, prior=True)
    assert "below 0.3" in wide and wide.endswith("not so: c (0.4), z (mean zero).")
    assert laws.endswith("Gaussian inputs; not so: b, d.")
    assert fosm_conditions(space, mean, covariance, prior=False) == [wide]
    assert fosm_conditions(space.subset(("a",)), mean[:1], covariance[:1, :1], prior=True) == []


def rng(seed: int) -> Generator:
    return np.random.default_rng(seed)


def lognormal(n: int, rng: Generator) -> Array:
    """Draws with the mean 68.84 and deviation 40.29 of SERA D27.1, HF 1 Hz."""
    variance = math.log1p((40.29 / 68.84) ** 2)
    return np.asarray(68.84 * np.exp(math.sqrt(variance) * rng.standard_normal((n, 1)) - variance / 2))


@pytest.mark.statistical
def test_stopping_rule() -> None:
    # n = (1.96 x 40.29 / 68.84 / 0.05)^2 = 526, and half a batch more for looking every 50; the report says that 500
    # do, and looked at 50, 500 and 1000
    stopped, covered = [], []
    for seed in range(600):
        found = monte_carlo(lognormal, lambda x: x, batch=50, rng=np.random.default_rng(seed))
        assert found.converged.all() and len(found.y) == found.steps[-1]
        assert found.errors[-1, 0] <= 0.05 * found.means[-1, 0]
        assert (found.errors[1:-1] > 0.05 * found.means[1:-1]).all()
        stopped.append(found.steps[-1])
        covered.append(abs(found.means[-1, 0] - 68.84) <= found.errors[-1, 0])
    # n scatters by 58 (measured): the mean of 600 is known to 2.4
    assert np.mean(stopped) == pytest.approx(526 + 25, abs=10)
    # nominal 0.95, less what stopping at lucky deviations costs: 0.94 in 2000 repetitions; 600 know it to 0.01
    assert np.mean(covered) == pytest.approx(0.94, abs=0.03)


def test_draws_do_not_depend_on_the_tolerance() -> None:
    coarse, fine = (
        monte_carlo(lognormal, lambda x: x**2, tolerance=t, rng=np.random.default_rng(1)) for t in (0.2, 0.05)
    )
    n = len(coarse.x)
    assert n < len(fine.x)
    np.testing.assert_array_equal(coarse.x, fine.x[:n])
    np.testing.assert_array_equal(coarse.means, fine.means[: len(coarse.means)])


def test_records_of_monte_carlo() -> None:
    events: list[Event] = []

    def model(x: Array) -> Array:
        return np.column_stack([x[:, 0], np.full(len(x), 3.0)])

    def draw(n: int, rng: Generator) -> Array:
        return 10 + rng.standard_normal((n, 1))

    found = monte_carlo(draw, model, batch=30, rng=np.random.default_rng(0), progress=events.append)
    assert found.steps.tolist() == [
        30,
        60,
    ]  # 1.96 x 0.1 / sqrt(30) is below 0.05 at once, but two batches at least
    for step, mean, error in zip(found.steps, found.means, found.errors, strict=True):
        head = found.y[:step]
        np.testing.assert_allclose(mean, head.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(error, 1.96 * head.std(axis=0, ddof=1) / math.sqrt(step), atol=1e-12)
    assert found.converged.tolist() == [True, True]  # a constant too
    assert [event.done for event in events] == [30, 60]


def test_mean_near_zero_is_measured_by_the_scatter() -> None:
    def draw(n: int, rng: Generator) -> Array:
        return rng.standard_normal((n, 1))

    found = monte_carlo(draw, lambda x: x, rng=np.random.default_rng(0))
    assert found.steps[-1] == 1600 and found.converged.all()  # (1.96 / 0.05)^2 = 1537, in hundreds
    short = monte_carlo(draw, lambda x: x, most=250, rng=np.random.default_rng(0))
    assert short.steps.tolist() == [100, 200, 250] and not short.converged.any()
    np.testing.assert_array_equal(short.x[:200], found.x[:200])


def test_failed_draws_are_counted_and_not_averaged() -> None:
    def draw(n: int, rng: Generator) -> Array:
        return rng.random((n, 2)) + 1

    def model(x: Array) -> Array:
        y = x.copy()
        y[x[:, 0] > 1.9, 0] = np.nan
        return y

    found = monte_carlo(draw, model, rng=np.random.default_rng(0))
    bad = found.x[:, 0] > 1.9
    assert found.failed == bad.sum() > 0 and len(found.y) == len(found.x) == 200
    np.testing.assert_allclose(found.means[-1], [found.x[~bad, 0].mean(), found.x[:, 1].mean()], rtol=1e-12)
    wanted = 1.96 * found.x[~bad, 0].std(ddof=1) / math.sqrt((~bad).sum())
    assert found.errors[-1, 0] == pytest.approx(wanted, rel=1e-12)
    with pytest.raises(SimulationError, match="0 answers at 200 draws"):
        monte_carlo(draw, lambda x: np.full(len(x), np.nan), rng=np.random.default_rng(0))


def redrawn(rows: Array) -> Callable[[int, Generator], Array]:
    return lambda n, rng: np.asarray(rows[rng.integers(len(rows), size=n)])


def test_rows_drawn_again_do_not_claim_what_they_do_not_know() -> None:
    rows = np.random.default_rng(0).standard_normal((200, 1))
    naive = monte_carlo(redrawn(rows), lambda x: x, tolerance=0.004, most=300_000, batch=5000, rng=rng(1))
    assert naive.converged.all() and naive.errors[-1, 0] < 0.005  # of 200 rows, which know 0.14
    found = monte_carlo(redrawn(rows), lambda x: x, tolerance=0.004, effective=200, rng=rng(1))
    assert not found.converged.any() and found.steps.tolist() == [100, 200]
    np.testing.assert_allclose(
        found.errors[:, 0],
        [1.96 * found.y[:n].std(ddof=1) * math.sqrt(1 / n + 1 / 200) for n in (100, 200)],
        rtol=1e-12,
    )


def test_hopeless_outputs_wait_for_the_others_and_no_longer() -> None:
    # beside 0.14 of its sd, an output of mean 20 sd knows its mean to 0.007 and one of mean 4 sd to 0.035
    rows = rng(0).standard_normal((200, 1))

    def model(x: Array) -> Array:
        return np.asarray(x + np.array([0.0, 20.0, 4.0]))

    found = monte_carlo(redrawn(rows), model, tolerance=0.04, effective=200, batch=50, rng=rng(1))
    assert found.converged.tolist() == [False, True, True]
    # 1 / ((0.04 x 4 / 1.96)^2 - 1/200) = 600 for a deviation of 1; 500 measured
    assert 300 <= found.steps[-1] <= 1000
    last = 1.96 * found.y[:, 2].std(ddof=1) * math.sqrt(1 / found.steps[-1] + 1 / 200)
    assert last <= 0.04 * found.means[-1, 2]
    without = monte_carlo(redrawn(rows), lambda x: model(x)[:, :2], effective=200, batch=50, rng=rng(1))
    assert without.converged.tolist() == [False, True] and without.steps[-1] == 200
    few = monte_carlo(redrawn(rows), model, tolerance=0.04, effective=3, batch=50, rng=rng(1))
    assert few.steps.tolist() == [50, 100] and not few.converged.any()


def test_failed_rows_know_nothing() -> None:
    rows = rng(0).standard_normal((200, 1))

    def half(x: Array) -> Array:
        return np.where(x > 0, x, np.nan)

    found = monte_carlo(redrawn(rows), half, effective=200, rng=rng(1))
    answers = found.y[np.isfinite(found.y)]
    know = 200 * len(answers) / len(found.y)
    wanted = 1.96 * answers.std(ddof=1) * math.sqrt(1 / len(answers) + 1 / know)
    assert found.errors[-1, 0] == pytest.approx(wanted, rel=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize(("tolerance", "known"), [(0.05, False), (0.15, True)])
def test_coverage_of_a_mean_by_rows_drawn_again(tolerance: float, known: bool) -> None:
    # 200 rows know the mean to 0.139 sd: 0.05 is hopeless and ends at 200 draws, 0.15 takes 1200 or so
    covered, naive = [], []
    for seed in range(600):
        draw, more = redrawn(rng(seed).standard_normal((200, 1))), rng(10_000 + seed)
        found = monte_carlo(draw, lambda x: x, tolerance=tolerance, effective=200, rng=more)
        assert found.converged.all() == known
        covered.append(abs(found.means[-1, 0]) <= found.errors[-1, 0])
        naive.append(abs(found.means[-1, 0]) <= 1.96 * found.y.std() / math.sqrt(len(found.y)))
    assert np.mean(covered) == pytest.approx(0.95, abs=0.03)  # 600 know a share of 0.95 to 0.009
    # without the second part: +-1.96 sqrt(1/n) of an error of sqrt(1/n + 1/200), 0.83 for 200 and 0.54 for 1200
    assert np.mean(naive) < 0.88


@pytest.mark.parametrize(
    "options",
    [
        {"tolerance": 0.0},
        {"batch": 0},
        {"batch": 60, "most": 100},
        {"effective": 0.0},
        {"effective": math.nan},
    ],
)
def test_monte_carlo_refusals(options: dict[str, float]) -> None:
    with pytest.raises(StudyError, match="room for two batches"):
        monte_carlo(lognormal, lambda x: x, rng=np.random.default_rng(0), **options)  # type: ignore[arg-type]


def sample(n: int, d: int = 3) -> Array:
    return 5 + np.array([1.0, 1e-3, 1e5])[:d] * np.random.default_rng(0).standard_normal((n, d))


def test_response_surface_recovers_a_polynomial() -> None:
    x = sample(40)
    z = (x - 5) / [1, 1e-3, 1e5]
    plain = 1 + z[:, 0] - 2 * z[:, 1] ** 2
    crossed = plain + 0.5 * z[:, 0] * z[:, 2]
    y = np.column_stack([plain, crossed, np.full(40, 2.0)])
    full = response_surface(x, y, interactions=True)
    assert full.coefficients.shape == (10, 3)
    np.testing.assert_allclose(full.predict(x), y, atol=1e-9)  # rounding of 5 over a spread of 1e-3, squared
    np.testing.assert_allclose(full.r2[:2], 1.0, rtol=1e-12)
    assert np.isnan(full.r2[2]) and np.isnan(full.adjusted[2])
    partly = response_surface(x, y, interactions=False)
    assert partly.coefficients.shape == (7, 3)
    assert partly.r2[0] == pytest.approx(1.0) and partly.r2[1] < 0.99
    assert partly.adjusted[1] == pytest.approx(1 - (1 - partly.r2[1]) * 39 / 33, rel=1e-12)


def test_response_surface_of_seven_inputs_has_the_published_number_of_terms() -> None:
    # SERA D27.1, 5.1.3.4: n = 100, p = 15 and 36; HF 1 Hz SS_R 193820.69 and SS_E 22229.37 give R2 0.897, and adjusted
    # 0.880 (printed 0.75, which follows from no n and p of the table)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((100, 7))
    surface = response_surface(x, x[:, 0] + rng.standard_normal(100), interactions=False)
    assert len(surface.coefficients) == 15
    error = x[:, 0] + rng.standard_normal(100)
    error -= response_surface(x, error, interactions=False).predict(x)[:, 0]  # what no surface explains
    signal = x[:, 0] - x[:, 0].mean()
    y = signal * math.sqrt(193820.69 / np.sum(signal**2)) + error * math.sqrt(22229.37 / np.sum(error**2))
    found = response_surface(x, y, interactions=False)
    assert found.r2[0] == pytest.approx(0.897, abs=5e-4) and found.adjusted[0] == pytest.approx(
        0.880, abs=5e-4
    )
    assert len(response_surface(x, y, interactions=True).coefficients) == 36


def test_response_surface_leaves_failed_runs_out_and_wants_more_runs_than_terms() -> None:
    x = sample(12)
    y = x[:, 0].copy()
    y[4] = np.nan
    np.testing.assert_allclose(response_surface(x, y, interactions=True).predict(x)[:, 0], x[:, 0], rtol=1e-9)
    y[5] = np.nan
    with pytest.raises(
        StudyError, match="with products has 10 terms and needs more runs than that; found 10"
    ):
        response_surface(x, y, interactions=True)
    stuck = np.column_stack([x, np.full(12, 2.0)])
    assert response_surface(stuck, x[:, 0], interactions=False).r2[0] == pytest.approx(1.0)


MADE = {
    "normal": (stats.norm(-3e4, 2e2), {"mean": -3e4, "sd": 2e2}),
    "lognormal": (marginals.lognormal(2e-6, 0.5), {"median": 2e-6, "cov": 0.5}),
    "gamma": (marginals.gamma(40.0, 0.9), {"mean": 40.0, "cov": 0.9}),
    "weibull": (stats.weibull_min(1.7, scale=3e8), {"shape": 1.7, "scale": 3e8}),
    "gumbel": (stats.gumbel_r(-50.0, 20.0), {"location": -50.0, "scale": 20.0}),
}


@pytest.mark.parametrize("law", MADE)
def test_fitted_law_is_the_one_drawn_from(law: str) -> None:
    assert MADE.keys() == LAWS.keys()
    made, parameters = MADE[law]
    y = made.ppf((np.arange(2000) + 0.5) / 2000)[np.random.default_rng(0).permutation(2000)]
    found = fit_laws(y)
    best = found[0]
    assert best.law == law
    for name, value in parameters.items():
        # an even sample instead of a random one: what is missing are the tails beyond 1/4000
        assert best.parameters[name] == pytest.approx(value, rel=0.01)
    assert best.distance < 2e-3  # 1/4000 by construction, and the fit
    np.testing.assert_allclose(np.sort(y), best.quantiles, rtol=0.05, atol=0.05 * np.std(y))
    assert [fit.log_likelihood for fit in found] == sorted((f.log_likelihood for f in found), reverse=True)
    assert len(found) == (5 if y.min() > 0 else 2)


@pytest.mark.parametrize("law", MADE)
def test_likelihood_is_the_largest(law: str) -> None:
    """Against a small change of either parameter; the distance against SciPy's."""
    y = MADE[law][0].rvs(size=300, random_state=np.random.default_rng(3))
    (best,) = fit_laws(y, [law])

    def likelihood(p: dict[str, float]) -> float:
        return float(np.sum(_law(law, p).logpdf(y)))

    assert likelihood(best.parameters) == pytest.approx(best.log_likelihood, rel=1e-12)
    for name in best.parameters:
        for factor in (0.999, 1.001):
            changed = best.parameters | {name: best.parameters[name] * factor}
            assert likelihood(changed) < best.log_likelihood
    ks = stats.kstest(np.asarray(y), _law(law, best.parameters).cdf)
    assert best.distance == pytest.approx(ks.statistic, abs=1e-12)


def _law(law: str, p: dict[str, float]) -> marginals.Marginal:
    if law == "weibull":
        return stats.weibull_min(p["shape"], scale=p["scale"])  # type: ignore[no-any-return]
    if law == "gumbel":
        return stats.gumbel_r(p["location"], p["scale"])  # type: ignore[no-any-return]
    return marginals.LAWS[law](**p)  # type: ignore[no-any-return]


def test_refusals_of_fits() -> None:
    with pytest.raises(StudyError, match='no law "gausian" to fit'):
        fit_laws(np.arange(5.0), ["gausian"])
    with pytest.raises(StudyError, match='did you mean "weibull"'):
        fit_laws(np.arange(5.0), ["weibul"])
    with pytest.raises(StudyError, match="all 5 numbers are 2"):
        fit_laws(np.full(5, 2.0))
    for bad in (np.ones(2), np.array([1.0, np.nan, 2.0]), np.ones((4, 2))):
        with pytest.raises(StudyError, match="three or more finite numbers"):
            fit_laws(bad)
    assert fit_laws(np.array([-1.0, 0.0, 2.0]), ["gamma"]) == ()


def test_laws_that_cannot_be_fitted_are_left_out() -> None:
    z = rng(0).standard_normal(500)
    # a coefficient of variation of 1e-9: the root of the gamma law has no bracket; the others are those of a z + b
    narrow = {fit.law: fit for fit in fit_laws(1e3 * (1 + 1e-9 * z))}
    assert narrow.keys() == LAWS.keys() - {"gamma"}
    # numbers are rounded at 1e-13 / 1e-6 of their spread
    assert narrow["normal"].parameters["sd"] == pytest.approx(1e-6 * z.std(), rel=1e-6)
    assert narrow["lognormal"].parameters["cov"] == pytest.approx(1e-9 * z.std(), rel=1e-6)
    assert fit_laws(1e3 * (1 + 1e-9 * z), ["gamma"]) == ()
    # tails as heavy as exp(60 z): the coefficient of variation exp(1800) of the lognormal law overflows
    heavy = fit_laws(np.exp(60 * z))
    assert {fit.law for fit in heavy} == LAWS.keys() - {"lognormal"} and heavy[0].law == "weibull"
    # beyond 1e154 squares overflow, and a likelihood that is not finite is no fit
    assert {fit.law for fit in fit_laws(1e200 * np.exp(z))} == {"lognormal", "gamma", "weibull"}


def test_laws_of_a_cauchy_sample_have_finite_scores() -> None:
    y = np.tan(np.pi * ((np.arange(2000) + 0.5) / 2000 - 0.5))
    for sample, laws in ((y, {"normal", "gumbel"}), (np.abs(y), set(LAWS))):
        found = fit_laws(sample)
        assert {fit.law for fit in found} == laws
        assert all(math.isfinite(fit.log_likelihood) and 0 < fit.distance < 1 for fit in found)
    assert found[0].law == "lognormal"  # the logarithm of |y| is symmetric, as only that law's is


def test_moments() -> None:
    y = np.column_stack([[1.0, 2.0, 3.0, 10.0], [5.0] * 4])
    found = moments(y)
    np.testing.assert_allclose(
        found[:, 0],
        [4.0, np.std(y[:, 0], ddof=1), stats.skew(y[:, 0]), stats.kurtosis(y[:, 0])],
        rtol=1e-12,
    )
    assert found[0, 1] == 5 and found[1, 1] == 0 and np.isnan(found[2:, 1]).all()
    np.testing.assert_allclose(moments(y[:, 0]), found[:, 0], rtol=1e-12)
