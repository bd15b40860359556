"""Priors and the way to the unit cube."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import tamis
from tamis.marginals import LAWS

EXAMPLES = {
    "uniform": {"low": 1.0, "high": 2.0},
    "loguniform": {"low": 0.1, "high": 10.0},
    "normal": {"mean": 1.0, "sd": 2.0},
    "lognormal": {"median": 2.0, "cov": 0.5},
    "gamma": {"mean": 3.0, "cov": 0.7},
    "beta": {"a": 2.0, "b": 3.0, "low": -1.0, "high": 4.0},
    "exponential": {"mean": 2.0},
    "triangular": {"low": 0.0, "mode": 0.3, "high": 1.0},
    "truncnormal": {"mean": 0.0, "sd": 1.0, "low": -1.0, "high": 2.0},
}


@pytest.mark.parametrize("law", LAWS)
def test_every_law_keeps_the_contract(law):
    tamis.check_marginal(LAWS[law](**EXAMPLES[law]))


def test_engineers_parameters_mean_what_they_say():
    law = tamis.lognormal(median=2.0, cov=0.5)
    assert law.median() == pytest.approx(2.0) and law.std() / law.mean() == pytest.approx(0.5)
    law = tamis.gamma(mean=3.0, cov=0.7)
    assert law.mean() == pytest.approx(3.0) and law.std() / law.mean() == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("law", "bad"),
    [
        ("uniform", {"low": 2.0, "high": 1.0}),
        ("loguniform", {"low": 0.0, "high": 1.0}),
        ("normal", {"mean": 0.0, "sd": 0.0}),
        ("lognormal", {"median": -1.0, "cov": 0.1}),
        ("triangular", {"low": 0.0, "mode": 2.0, "high": 1.0}),
    ],
)
def test_impossible_laws_are_refused(law, bad):
    with pytest.raises(tamis.StudyError, match=f"{law} law needs"):
        LAWS[law](**bad)


def space(rho=None):
    correlation = None if rho is None else np.array([[1, rho], [rho, 1]])
    return tamis.Space(
        (tamis.Parameter("a", tamis.uniform(0, 2)), tamis.Parameter("b", tamis.lognormal(1.0, 0.3))),
        correlation,
    )


@given(st.floats(-0.95, 0.95), st.integers(0, 2**32 - 1))
def test_unit_cube_round_trip(rho, seed):
    x = space(rho).sample(20, np.random.default_rng(seed))
    np.testing.assert_allclose(space(rho).from_unit(space(rho).to_unit(x)), x, rtol=1e-6)


def test_copula_density_is_the_jacobian_of_the_map_to_the_cube():
    s = space(0.7)
    x = s.sample(5, np.random.default_rng(0))
    h = 1e-6
    for point, expected in zip(x, s.logpdf(x), strict=True):
        columns = [
            (s.to_unit((point + step)[None]) - s.to_unit((point - step)[None]))[0] / (2 * h)
            for step in h * np.eye(2)
        ]
        # density of x = |du/dx|; central differences of step 1e-6
        assert np.log(abs(np.linalg.det(np.array(columns)))) == pytest.approx(expected, abs=1e-6)


def test_outside_the_support_the_density_is_zero():
    assert space().logpdf(np.array([[3.0, 1.0], [1.0, -1.0]])).tolist() == [-np.inf, -np.inf]
    assert np.isneginf(space(0.5).logpdf(np.array([[3.0, 1.0]]))[0])


def test_subset_keeps_order_and_correlation():
    s = space(0.6).subset(("b", "a"))
    assert s.names == ("b", "a") and s.correlation[0, 1] == 0.6
    with pytest.raises(tamis.StudyError, match='no parameter "aa"; did you mean "a"'):
        space().subset(("aa",))


def test_bad_spaces_are_refused():
    one = tamis.Parameter("a", tamis.uniform(0, 1))
    with pytest.raises(tamis.StudyError, match="defined twice"):
        tamis.Space((one, one))
    with pytest.raises(tamis.StudyError, match="positive definite"):
        space(1.0)


@pytest.mark.parametrize("method", ["sobol", "halton", "lhs", "maximin"])
@pytest.mark.filterwarnings("ignore:The balance properties")
def test_designs_fill_the_cube_evenly(method):
    u = getattr(tamis, method)(50, 3, np.random.default_rng(0))
    assert u.shape == (50, 3) and u.min() >= 0 and u.max() <= 1
    # one-dimensional evenness: the mean of 50 stratified points is within 3 sd of a *random* sample's mean
    assert np.all(np.abs(u.mean(axis=0) - 0.5) < 3 / np.sqrt(12 * 50))


def test_latin_hypercube_has_one_point_a_row_and_column():
    u = tamis.lhs(20, 4, np.random.default_rng(1))
    assert all(sorted((u[:, j] * 20).astype(int)) == list(range(20)) for j in range(4))


def test_maximin_beats_a_single_hypercube():
    from scipy.spatial.distance import pdist

    rng = np.random.default_rng(2)
    assert pdist(tamis.maximin(20, 2, rng)).min() > pdist(tamis.lhs(20, 2, rng)).min()


def test_grid_is_the_centres():
    assert tamis.grid(2, 2).tolist() == [[0.25, 0.25], [0.25, 0.75], [0.75, 0.25], [0.75, 0.75]]


@pytest.mark.parametrize(
    "law",
    [
        tamis.uniform(-2.0, 3.5),
        tamis.normal(0.3, 2.0),
        tamis.lognormal(median=0.01, cov=1.0),
        stats.uniform(loc=1.0, scale=2.0),
        stats.lognorm(s=0.4, loc=1.0, scale=3.0),
        stats.norm(scale=2.0),
    ],
)
def test_short_cuts_give_the_bits_of_scipy(law):
    """Samplers and files stand on these numbers: a short cut may be faster, not different."""
    space = tamis.Space((tamis.Parameter("p", law),))
    rng = np.random.default_rng(0)
    u = np.concatenate([rng.random(20_000), [0.0, 1.0, 2.0**-53, 1e-300, 1 - 2.0**-53, np.nan]])
    x = space.from_unit(u[:, None])[:, 0]
    np.testing.assert_array_equal(x, law.ppf(u))
    y = np.concatenate([x, [-np.inf, np.inf, np.nan, -5.0, 0.0, 1.0, 7.0]])
    np.testing.assert_array_equal(space.to_unit(y[:, None])[:, 0], law.cdf(y))
    np.testing.assert_array_equal(space.from_unit(np.array([[-0.1], [1.1]]))[:, 0], [np.nan, np.nan])
