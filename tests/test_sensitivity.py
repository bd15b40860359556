"""Sobol indices with intervals, and by sampling."""

from __future__ import annotations

import json
import tracemalloc
from functools import cache

import numpy as np
import pytest
from scipy import stats

from tamis.analysis import sensitivity as module
from tamis.analysis.sensitivity import Intervals, bootstrap, sampled
from tamis.design import sobol
from tamis.errors import SimulationError, StudyError, TamisWarning
from tamis.surrogates.pce import PCE, fit_pce, sobol_indices
from tamis.surrogates.polynomials import Family, evaluate, hyperbolic
from tamis.surrogates.reduced import fit_reduced
from tamis.types import Array
from tests.battery import FUNCTION
from tests.reference import borehole_sobol, tails_sobol
from tests.surrogates import functions


def design(n: int, d: int, seed: int = 7) -> Array:
    return sobol(n, d, np.random.default_rng(seed))


def intervals(model: PCE, u: Array, y: Array, seed: int = 0) -> Intervals:
    rng = np.random.default_rng(seed)
    return bootstrap(u, y, model.families, *model.expansion(), mse=model.mse, rng=rng)


def inside(found: Intervals, first: Array, total: Array, slack: float = 0.0) -> np.ndarray:
    """Tell which indices of the first output lie in their intervals, (2, d)."""
    bands = np.stack([found.first_band[..., 0], found.total_band[..., 0]])
    truth = np.stack([first, total])
    answer: np.ndarray = (truth >= bands[:, 0] - slack) & (truth <= bands[:, 1] + slack)
    return answer


def reference() -> tuple[Array, Array]:
    record = json.loads(borehole_sobol.FILE.read_text())
    assert max(record["first_error"] + record["total_error"]) < 2e-5  # far below what is asserted with it
    return np.array(record["first"]), np.array(record["total"])


@cache
def borehole(n: int) -> tuple[Array, Array, PCE]:
    u = design(n, 8)
    y = functions.borehole(u)
    return u, y, fit_pce(u, y)


@pytest.mark.slow
def test_indices_of_ishigami_from_500_runs() -> None:
    u = design(500, 3)
    y = functions.ishigami(u)
    model = fit_pce(u, y)
    found, (first, total, _, _) = intervals(model, u, y), functions.ishigami_sobol()
    # the target is 1e-3; a fit with 500 runs is exact to rounding, and so are the indices
    np.testing.assert_allclose(found.first[:, 0], first, atol=1e-8)
    np.testing.assert_allclose(found.total[:, 0], total, atol=1e-8)
    assert np.max(found.first_band[1] - found.first_band[0]) < 1e-8


# the target is 1e-3 with 500 runs; a fit with relative error e of n runs shifts an index by some 2 sqrt(e / n): 4e-5
# for e = 2e-7 and 500 runs, 1e-3 for e = 3e-5 and 120 runs. The reference is known to 2e-5; three of these are not
# the fault of the interval
@pytest.mark.parametrize(("n", "most"), [(120, 1e-3), pytest.param(500, 1e-4, marks=pytest.mark.slow)])
def test_indices_of_the_borehole(n: int, most: float) -> None:
    u, y, model = borehole(n)
    found, (first, total) = intervals(model, u, y), reference()
    np.testing.assert_allclose(found.first[:, 0], first, atol=most)
    np.testing.assert_allclose(found.total[:, 0], total, atol=most)
    assert inside(found, first, total, slack=6e-5).all()


def test_sampling_agrees_with_the_expansion() -> None:
    _, _, model = borehole(120)
    rng = np.random.default_rng(3)
    found = sampled(lambda u: model.predict(u).mean, 8, n=2048, rng=rng)
    exact = model.sobol()
    # 16 intervals of 90 %, measured to hold 94 to 99 %: more than three misses are seen once in 500
    assert inside(found, exact.first[:, 0], exact.total[:, 0]).sum() >= 13


def test_resampled_indices_are_those_of_resampled_coefficients() -> None:
    """Two orthogonal terms and known residuals: every step by hand."""
    one, two = np.meshgrid([0.1, 0.3, 0.5, 0.7, 0.9], [0.2, 0.4, 0.6, 0.8])
    u = np.column_stack([one.ravel(), two.ravel()])
    terms = np.array([[0, 0], [1, 0], [0, 1]])
    phi = evaluate(u, (Family(),) * 2, terms).T
    rng = np.random.default_rng(0)
    noise = 0.1 * rng.standard_normal(20)
    noise -= phi @ np.linalg.lstsq(phi, noise, rcond=None)[0]
    c = np.array([[2.0], [1.0], [0.5]])
    found = bootstrap(u, phi @ c[:, 0] + noise, (Family(),) * 2, terms, c, n=4000, rng=rng)
    gram = np.linalg.inv(phi.T @ phi)
    left_out = noise / (1 - np.sum((phi @ gram) * phi, axis=1))
    signs = np.random.default_rng(1).choice([-1.0, 1.0], (20, 4000))
    scaled = left_out * np.sqrt(20 / 17 * np.sqrt(1 + np.trace(gram)))
    error = gram @ phi.T @ (scaled[:, None] * signs)
    keep = np.maximum(1 - np.mean(error**2, axis=1, keepdims=True) / c**2, 0)
    power, missed = (keep * c + np.sqrt(keep) * error)[1:] ** 2, np.mean(scaled**2) / 2
    astray = missed * np.random.default_rng(2).uniform(-1, 1, (2, 4000))
    low, high = np.quantile((power + astray) / (power.sum(axis=0) + missed), [0.05, 0.95], axis=1)
    # quantiles of 4000 resamples: 0.0034 in probability, some 0.02 of the width each, twice
    wanted = np.clip(np.stack([low, high]), 0, 1)
    np.testing.assert_allclose(found.first_band[..., 0], wanted, atol=0.06 * np.max(high - low))
    np.testing.assert_allclose(
        found.total_band[..., 0], wanted, atol=0.06 * np.max(high - low)
    )  # no interactions
    np.testing.assert_allclose(found.first[:, 0], [0.8, 0.2], rtol=1e-12)


def test_squares_of_resampled_coefficients_are_unbiased() -> None:
    c, sd = np.array([1.0, 0.2, 0.2, 0.0]), np.array([0.5, 0.1, 0.3, 0.1])
    error = sd[:, None] * np.random.default_rng(0).choice([-1.0, 1.0], (4, 2000))
    error -= error.mean(axis=1, keepdims=True)
    drawn = module._unbiased(c, error)
    noise = np.mean(error**2, axis=1)
    np.testing.assert_allclose(np.mean(drawn**2, axis=1), np.maximum(c**2 - noise, 0), rtol=1e-12)
    np.testing.assert_array_equal(drawn[2:], 0.0)  # within its own noise


def test_an_exact_fit_has_intervals_of_no_width() -> None:
    u = design(64, 2)
    y = np.column_stack([u[:, 0] + 2 * u[:, 1], np.full(64, 3.0)])
    found = intervals(fit_pce(u, y), u, y)
    np.testing.assert_allclose(found.first[:, 0], [0.2, 0.8], atol=1e-12)
    np.testing.assert_allclose(found.first_band[..., 0], [[0.2, 0.8]] * 2, atol=1e-10)  # rounding
    for array in (found.first, found.total, *found.first_band, *found.total_band):
        assert np.isnan(array[:, 1]).all()  # a constant has no indices


LINE = np.array([1.0, 0.5, 0.2])
G3 = np.array([1.0, 2.0, 5.0])
TAILED = ("heavy tails", "mixed laws")


def known(name: str) -> tuple[Array, Array]:
    """Return the first-order and total indices of a case of `test_coverage`."""
    if name in TAILED:
        return tails_sobol.indices(FUNCTION[name])
    weights = {"four kinks": 0.25 ** np.arange(4), "line": LINE**2}
    if name in weights:
        return (weights[name] / weights[name].sum(),) * 2
    found = {
        "Ishigami": functions.ishigami_sobol,
        "G": functions.sobol_g_sobol,
        "G3": lambda: functions.sobol_g_sobol(G3),
    }
    return reference() if name == "borehole" else found[name]()[:2]


def outputs(name: str, u: Array, rng: np.random.Generator) -> Array:
    """Return what runs of a case of `test_coverage` give."""
    if name in TAILED:
        return FUNCTION[name](u)
    if name == "line":
        y: Array = (2 * u - 1) @ LINE + 0.2 * rng.standard_normal(len(u))
        return y
    if name == "G3":
        return functions.sobol_g(u, G3)
    return {"Ishigami": functions.ishigami, "G": functions.sobol_g, "four kinks": functions.kinks}.get(
        name, functions.borehole
    )(u)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore:Polynomial chaos of output")
@pytest.mark.parametrize(
    ("name", "n"),
    [
        ("Ishigami", 60),
        ("G3", 100),
        ("G", 200),
        ("four kinks", 100),
        ("borehole", 100),
        ("line", 80),
        ("heavy tails", 100),
        ("mixed laws", 100),
    ],
)
def test_coverage(name: str, n: int) -> None:
    """The 90 % intervals of indices above 0.01, over 20 Sobol' designs and 20 Latin hypercubes.

    Indices of one design err together: 40 designs are known to about sqrt(0.1 x 0.9 / 40) = 0.05.
    """
    first, total = known(name)
    large = np.stack([first, total]) > 0.01
    laws = FUNCTION[name].laws if name in TAILED else None
    held = []
    for seed in range(500, 540):
        rng, d = np.random.default_rng(seed), len(first)
        u = sobol(n, d, rng) if seed < 520 else stats.qmc.LatinHypercube(d, rng=rng).random(n)
        y = outputs(name, u, rng)
        found = intervals(fit_pce(u, y, marginals=laws), u, y, seed)
        held.append(inside(found, first, total, slack=2e-5 if name == "borehole" else 1e-9)[large].mean())
    assert 0.86 - 0.05 < np.mean(held) < 0.97 + 0.02  # above, the scatter is smaller


def test_intervals_of_copies_are_those_of_the_runs() -> None:
    u = design(40, 2)
    y = functions.kinks(u)
    model = fit_pce(u, y)
    once = intervals(model, u, y)
    thrice = intervals(model, np.repeat(u, 3, axis=0), np.repeat(y, 3))
    np.testing.assert_allclose(thrice.total_band, once.total_band, rtol=1e-9, atol=1e-12)


def test_a_larger_error_has_wider_intervals() -> None:
    """What the runs left out do not show, as in the tails of a law, counts if the model reports it."""
    u = design(60, 2)
    y = functions.kinks(u)
    model = fit_pce(u, y)
    small, large = (
        bootstrap(u, y, model.families, *model.expansion(), mse=k * model.mse, rng=np.random.default_rng(0))
        for k in (1, 9)
    )
    ratio = np.ptp(large.total_band, axis=0) / np.ptp(small.total_band, axis=0)
    assert (ratio > 2).all() and (
        ratio < 9
    ).all()  # the noise of coefficients thrice, what is missed nine times


def test_an_offset_is_no_constant() -> None:
    def far(u: Array) -> Array:
        return 1e12 + 100 * functions.ishigami(u)[:, None]

    found = sampled(far, 3, n=1024, rng=np.random.default_rng(0))
    plain = sampled(lambda u: functions.ishigami(u)[:, None], 3, n=1024, rng=np.random.default_rng(0))
    np.testing.assert_allclose(found.total, plain.total, atol=1e-5)  # values are rounded to 1.2e-4 of 370


@pytest.mark.statistical
def test_coverage_of_one_function_in_few_designs() -> None:
    a = np.array([1.0, 2.0])
    first, total = functions.sobol_g_sobol(a)[:2]
    held, width = [], []
    for seed in range(10):
        u = design(50, 2, seed)
        y = functions.sobol_g(u, a)
        found = intervals(fit_pce(u, y), u, y, seed)
        held.append(inside(found, first, total).mean())
        width.append(np.ptp(found.total_band[..., 0], axis=0))
    assert np.mean(held) >= 0.75  # ten designs whose indices err together: 0.9 is known to 0.1
    assert np.max(width) < 0.2  # and not by saying nothing


def front(u: Array) -> Array:
    """A front of 60 points that moves and widens, with a kink."""
    s = np.linspace(0, 1, 60)
    arrival, width = 0.3 + 0.4 * u[:, :1], 0.05 + 0.1 * u[:, 1:2]
    y: Array = np.tanh((s - arrival) / width) + 0.3 * np.abs(u[:, 2:] - 0.4) * s
    return y


@pytest.mark.statistical
def test_signal_by_principal_components() -> None:
    u = design(80, 3)
    y = front(u)
    model = fit_reduced(u, y, fit_pce, energy=0.995)
    assert isinstance(model.inner, PCE)
    indices, coefficients = model.inner.expansion()
    found = bootstrap(
        u, y, model.inner.families, indices, coefficients, modes=model.modes, rng=np.random.default_rng(0)
    )
    whole = sobol_indices(indices, coefficients @ model.modes)
    np.testing.assert_allclose(found.first, whole.first, atol=1e-12)
    truth = sampled(front, 3, n=8192, rng=np.random.default_rng(1))
    assert np.max(truth.total_band[1] - truth.total_band[0]) < 0.05
    slack = (truth.total_band[1] - truth.total_band[0]) / 2
    held = (truth.total >= found.total_band[0] - slack) & (truth.total <= found.total_band[1] + slack)
    assert held.mean() >= 0.9  # nominal; the 180 indices of one design err together
    assert np.median(found.total_band[1] - found.total_band[0]) < 0.2  # and not by saying nothing
    # the truncation to 0.995 of the energy is most of the error; the estimate alone misses by up to a half
    assert np.max(np.abs(found.total - truth.total)) > 0.2


def test_what_the_components_leave_out_widens_by_its_variance() -> None:
    """A signal a f(u_1) + b f(u_2) of which only the first is kept, exactly."""
    levels = np.linspace(0.1, 0.9, 5)
    u = np.stack(np.meshgrid(levels, levels), axis=-1).reshape(-1, 2)
    terms, families = np.array([[0, 0], [1, 0]]), (Family(),) * 2
    both = evaluate(u, families, np.array([[1, 0], [0, 1]])).T
    patterns = np.array([[0.8, 0.6], [-0.6, 0.8]])
    y = both * [2.0, 1.0] @ patterns
    c, rng = np.array([[0.0], [2.0]]), np.random.default_rng(0)
    found = bootstrap(u, y, families, terms, c, modes=patterns[:1], n=4000, rng=rng)
    kept, rest = (2 * patterns[0]) ** 2, np.mean((both[:, [1]] * patterns[1]) ** 2, axis=0)
    # on the even grid kept and left out have no covariance; its error with random signs is a sum over 25 runs
    sd = 2 * 2 * np.abs(patterns[0] * patterns[1]) * np.mean(both[:, 0] ** 2) / 5
    low, high = found.first_band[:, 0]
    # 25 signs are nearly Gaussian, 4000 resamples know the quantile to 0.03 deviations: 0.1 of them in all
    np.testing.assert_allclose(low, (kept - rest - 1.645 * sd) / (kept + rest), atol=0.1 * sd.max() / 2)
    np.testing.assert_allclose(high, 1.0)
    np.testing.assert_allclose(found.first_band[0, 1], 0.0)
    np.testing.assert_allclose(found.first_band[1, 1], rest / (kept + rest), rtol=1e-9)


def test_components_lead_back_to_outputs() -> None:
    """Outputs with the same terms, as they are and as patterns of components: the same intervals."""
    u = design(60, 2)
    terms = hyperbolic(2, 3, 1.0, 100)
    assert terms is not None
    phi = evaluate(u, (Family(),) * 2, terms).T
    y = np.column_stack([functions.kinks(u), u[:, 0] ** 4])
    y -= y.mean(axis=0)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    c = np.linalg.lstsq(phi, y, rcond=None)[0]
    apart = bootstrap(u, y @ turn, (Family(),) * 2, terms, c @ turn, rng=np.random.default_rng(5))
    back = bootstrap(u, y @ turn, (Family(),) * 2, terms, c, modes=turn, rng=np.random.default_rng(5))
    np.testing.assert_allclose(back.first_band, apart.first_band, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(back.total_band, apart.total_band, rtol=1e-9, atol=1e-12)


def test_outputs_with_the_same_terms_are_as_apart() -> None:
    u = design(60, 2)
    terms = hyperbolic(2, 3, 1.0, 100)
    assert terms is not None
    phi = evaluate(u, (Family(),) * 2, terms).T
    y = np.column_stack([functions.kinks(u), u[:, 0] ** 4, functions.kinks(u) * 3])
    c = np.linalg.lstsq(phi, y, rcond=None)[0]
    together = bootstrap(u, y, (Family(),) * 2, terms, c, rng=np.random.default_rng(5))
    for i in range(3):
        alone = bootstrap(u, y[:, i], (Family(),) * 2, terms, c[:, [i]], rng=np.random.default_rng(5))
        np.testing.assert_allclose(together.total_band[..., i], alone.total_band[..., 0], rtol=1e-9)
    np.testing.assert_allclose(together.first_band[..., 0], together.first_band[..., 2], rtol=1e-9)  # scaled


def test_more_terms_than_runs_can_tell_apart() -> None:
    u = np.repeat(design(6, 2), 2, axis=0)
    terms = hyperbolic(2, 4, 1.0, 100)
    assert terms is not None and len(terms) > len(u)
    c = np.linspace(1, 0.1, len(terms))[:, None]
    y = evaluate(u, (Family(),) * 2, terms).T @ c + np.linspace(0, 0.1, 12)[:, None]
    found = bootstrap(u, y, (Family(),) * 2, terms, c, rng=np.random.default_rng(0))
    for band, index in ((found.first_band, found.first), (found.total_band, found.total)):
        assert (band[0] <= index).all() and (index <= band[1]).all()
        assert (band >= 0).all() and (band <= 1).all()


def test_sampling_is_that_of_scipy() -> None:
    def function(x: Array) -> Array:
        return np.column_stack([functions.ishigami(x), x[:, 0] + 5, np.full(len(x), 2.0)])

    points: list[Array] = []

    def seen(x: Array) -> Array:
        points.append(x)
        return function(x)

    found = sampled(seen, 3, n=256, rng=np.random.default_rng(0))
    assert [p.shape for p in points] == [(16 * 5, 3)] * 16
    y = np.concatenate([function(p)[:, :2].reshape(5, 16, 2) for p in points], axis=1)
    theirs = stats.sobol_indices(func={"f_A": y[0].T, "f_B": y[1].T, "f_AB": y[2:].transpose(0, 2, 1)}, n=256)
    np.testing.assert_allclose(found.first[:, :2], theirs.first_order.T, atol=1e-12)
    np.testing.assert_allclose(found.total[:, :2], theirs.total_order.T, atol=1e-12)
    assert np.isnan(found.first[:, 2]).all() and np.isnan(found.total_band[:, :, 2]).all()
    # the interval of the first total index, block by block: its ratio is that of two means
    y = y[..., 0] - y[:2, :, 0].mean()
    share, squares = (y[0] - y[2]) ** 2 / 2, (y[0] ** 2 + y[1] ** 2) / 2
    away = (share - found.total[0, 0] * squares).reshape(16, 16).mean(axis=1) / squares.mean()
    half = stats.t(15).ppf(0.95) * away.std(ddof=1) / 4
    np.testing.assert_allclose(found.total_band[:, 0, 0] - found.total[0, 0], [-half, half], rtol=1e-9)


def test_sampling_holds_one_block_at_a_time() -> None:
    """All values are 4096 x 6 x 50 numbers, 9.8 MB; a block 0.6 MB, and a few copies of it."""
    wave = np.linspace(0, 1, 50)
    tracemalloc.start()
    sampled(lambda u: np.outer(u.sum(axis=1), wave), 4, rng=np.random.default_rng(0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * 4096 * 6 * 50 * 8 / 16  # beside 0.3 MB of points


@pytest.mark.statistical
def test_coverage_of_sampling() -> None:
    first, total = functions.sobol_g_sobol()[:2]
    held, width = [], []
    for seed in range(20):
        found = sampled(lambda u: functions.sobol_g(u)[:, None], 8, n=1024, rng=np.random.default_rng(seed))
        held.append(inside(found, first, total))
        width.append(np.ptp(found.first_band, axis=0).max())
    # 0.95 measured over 60 scramblings; indices of one scrambling err together, so 20 may miss by 0.05 or so
    assert np.mean(held) >= 0.9
    assert np.mean(width) < 0.2


def test_sampling_leaves_failed_pairs_out() -> None:
    def fails(u: Array) -> Array:
        return np.where(u[:, :1] < 0.002, np.nan, functions.ishigami(u)[:, None])

    with pytest.warns(TamisWarning, match=r"failed in \d+ of 1024 pairs"):
        found = sampled(fails, 3, n=1024, rng=np.random.default_rng(0))
    first, total, _, _ = functions.ishigami_sobol()
    np.testing.assert_allclose(found.total[:, 0], total, atol=0.05)  # five of the errors measured, 0.01
    np.testing.assert_allclose(found.first[:, 0], first, atol=0.05)
    with pytest.raises(SimulationError, match="all 64 pairs"):
        sampled(lambda u: np.full((len(u), 1), np.nan), 3, n=64, rng=np.random.default_rng(0))


def test_sampling_where_the_first_points_fail() -> None:
    """Against the same estimators on what is left; the centre then comes from a later block."""
    values: list[Array] = []

    def late(u: Array) -> Array:
        y = 1e6 + functions.ishigami(u)[:, None]
        if len(values) < 2:
            y[:] = np.nan
        y[7] = np.nan
        values.append(y.reshape(5, 16))
        return y

    with pytest.warns(TamisWarning, match="failed in 46 of 256 pairs"):
        found = sampled(late, 3, n=256, rng=np.random.default_rng(0))
    y = np.concatenate(values, axis=1)
    y = y[:, np.isfinite(y).all(axis=0)]
    variance = y[:2].var()
    first = np.mean((y[1] - y[:2].mean()) * (y[2:] - y[0]), axis=1) / variance
    total = np.mean((y[2:] - y[0]) ** 2, axis=1) / 2 / variance
    # values are rounded at 1e6 x 1e-16 in both; what the sums add is of the order of 1e-15
    np.testing.assert_allclose(found.first[:, 0], first, atol=1e-9)
    np.testing.assert_allclose(found.total[:, 0], total, atol=1e-9)


def test_sampling_of_constants_whose_mean_is_rounded() -> None:
    constants = np.linspace(-1e5, 1e5, 2000) * np.pi

    def fails(u: Array) -> Array:
        y = np.tile(constants, (len(u), 1))
        y[0] = np.nan  # sums of 30 numbers are rounded, those of 32 equal ones are not
        return y

    with pytest.warns(TamisWarning, match="failed in 16 of 256"):
        found = sampled(fails, 2, n=256, rng=np.random.default_rng(0))
    assert np.isnan(found.first).all() and np.isnan(found.total_band).all()


@pytest.mark.parametrize("n", [0, 16, 100])
def test_sampling_refuses_odd_numbers_of_pairs(n: int) -> None:
    with pytest.raises(StudyError, match="power of two"):
        sampled(lambda u: u, 2, n=n, rng=np.random.default_rng(0))


def test_bootstrap_refusals() -> None:
    u, terms, c = design(8, 1), np.array([[0], [1]]), np.ones((2, 1))
    for y, modes in ((np.ones((8, 2)), None), (np.ones((7, 1)), None), (np.ones((8, 3)), np.eye(3)[:2])):
        with pytest.raises(StudyError, match="columns of coefficients; found"):
            bootstrap(u, y, (Family(),), terms, c, modes=modes, rng=np.random.default_rng(0))
    with pytest.raises(StudyError, match="leave failed runs out"):
        bootstrap(u, np.full(8, np.nan), (Family(),), terms, c, rng=np.random.default_rng(0))
