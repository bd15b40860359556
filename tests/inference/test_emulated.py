"""A Gaussian process of the log-likelihood: its functions, its region, and posteriors against exact ones."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

import tamis
from tamis.errors import StudyError, TamisWarning
from tamis.inference import emulated as module
from tamis.inference.emulated import EmulatedLikelihood, explore, farthest, fit_loglike, mct
from tamis.inference.posterior import Posterior
from tamis.surrogates.kriging import coordinates, functions
from tamis.types import Array

few = pytest.mark.filterwarnings("ignore:the sampler did not mix")  # too short chains to convince rhat


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def box(d: int) -> tamis.Space:
    return tamis.Space(tuple(tamis.Parameter(f"x{k}", tamis.uniform(0.0, 1.0)) for k in range(d)))


def bent(u: Array) -> Array:
    """Return a log-likelihood of two parameters along a bent ridge."""
    value: Array = -20 * (u[:, 1] - 0.2 - u[:, 0] ** 2) ** 2 - 4 * (u[:, 0] - 0.5) ** 2
    return value


@cache
def rough() -> EmulatedLikelihood:
    """Return a surrogate from few runs, which does not know where its top is."""
    u = tamis.sobol(10, 2, rng(1))
    return fit_loglike(box(2), u, bent(u), rng=rng(2))


# the process


def test_each_function_at_its_own_points() -> None:
    drawn = rough().surrogate.draw(7, rng(3), rng(4).random((30, 2)))
    u = rng(5).random((7 * 3, 2))
    everywhere = drawn(u).reshape(7, 7, 3)
    expected = [everywhere[i, i] for i in range(7)]
    # sums of 40 products in another order
    np.testing.assert_allclose(drawn.each(u), np.ravel(expected), rtol=1e-9, atol=1e-9)


def test_rows_by_blocks_are_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = rough().surrogate.draw(7, rng(3), rng(4).random((30, 2)))
    u = rng(5).random((7 * 3, 2))
    whole = drawn.each(u)
    monkeypatch.setattr("tamis.surrogates.process._BLOCK", 250)  # two functions at a time
    np.testing.assert_allclose(drawn.each(u), whole, rtol=1e-12, atol=1e-12)  # products of other shapes


def test_rise_has_the_variance_of_a_difference() -> None:
    surrogate, u, top = rough().surrogate, rng(6).random((20, 2)), np.array([0.4, 0.6])
    x = coordinates(np.vstack([top, u]), surrogate.families)
    process, basis = surrogate.processes[0], functions(surrogate.trend, x)
    cov, mean = process.covariance(x, basis), process.mean(x, basis)
    rise, var = surrogate.rise(u, top)
    np.testing.assert_allclose(rise, mean[1:] - mean[0], atol=1e-10)
    expected = np.diag(cov)[1:] + cov[0, 0] - 2 * cov[0, 1:]
    np.testing.assert_allclose(var, expected, rtol=1e-6, atol=1e-9 * process.hyper.variance)  # differences
    assert surrogate.rise(top[None], top)[1] == pytest.approx(0.0, abs=1e-12 * process.hyper.variance)
    assert surrogate.mean(u)[:, 0] == pytest.approx(mean[1:], abs=1e-10)


# the fit


def test_the_trend_follows_the_number_of_runs() -> None:
    for n, trend in ((11, "constant"), (12, "quadratic")):
        u = tamis.sobol(n, 2, rng(1))
        assert fit_loglike(box(2), u, bent(u), rng=rng()).surrogate.trend == trend
    assert fit_loglike(box(2), u, bent(u), trend="linear", rng=rng()).surrogate.trend == "linear"


def test_runs_without_likelihood_are_left_out_and_counted() -> None:
    u = tamis.sobol(20, 2, rng(1))
    values, nugget = bent(u), np.linspace(1e-4, 1e-3, 20)
    values[[3, 8]] = -np.inf, np.nan
    with pytest.warns(TamisWarning, match="2 of 20 runs have no likelihood"):
        found = fit_loglike(box(2), u, values, nugget=nugget, rng=rng()).surrogate
    good = np.isfinite(values)
    assert np.array_equal(found.u, u[good]) and np.array_equal(found.noise[:, 0], nugget[good])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.full(20, -np.inf), "none of the 20 log-likelihoods is finite"),
        (np.append(np.zeros(19), np.inf), "infinite"),
        (np.zeros((20, 2)), r"a log-likelihood for each; found \(20, 2\) and \(20, 2\)"),
    ],
)
def test_values_that_are_refused(values: Array, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        fit_loglike(box(2), tamis.sobol(20, 2, rng()), values, rng=rng())


def test_requests_that_are_refused() -> None:
    u = tamis.sobol(20, 2, rng())
    both = tamis.fit_kriging(u, np.column_stack([bent(u), u[:, 0]]), rng=rng())
    with pytest.raises(StudyError, match=r"expected a surrogate of one output of 2.*found 2 outputs of 2"):
        EmulatedLikelihood(box(2), both)
    wide = tamis.Space(tuple(tamis.Parameter(name, tamis.uniform(0.0, 2.0)) for name in ("x0", "x1")))
    for space in (box(3), wide):
        with pytest.raises(
            StudyError, match=r"space in which the surrogate was fitted.*other parameters or priors"
        ):
            mct(space, rough(), rng=rng())
    for trajectories, draws in ((1, 100), (10, 7)):
        with pytest.raises(
            StudyError, match=f"at least 2 trajectories and 8 draws.*{trajectories} and {draws}"
        ):
            mct(box(2), rough(), trajectories=trajectories, draws=draws, rng=rng())


def test_unbounded_and_correlated_priors() -> None:
    law = tamis.normal(2.0, 3.0)
    space = tamis.Space(
        (tamis.Parameter("a", law), tamis.Parameter("b", law)), np.array([[1.0, 0.7], [0.7, 1.0]])
    )
    u = tamis.sobol(64, 2, rng(1))
    x = space.from_unit(u)
    found = fit_loglike(space, u, -0.5 * (x.sum(axis=1) - 5.0) ** 2, rng=rng())
    new = space.sample(50, rng(2))
    # a quadratic of normal scores, which the trend has exactly
    np.testing.assert_allclose(found(new), -0.5 * (new.sum(axis=1) - 5.0) ** 2, atol=1e-4)


# the region


def test_points_are_far_apart() -> None:
    line = np.array([[0.0], [0.1], [0.45], [1.0], [1.0]])
    assert farthest(line, 3).tolist() == [4, 0, 2]
    assert sorted(farthest(line, 10).tolist()) == [0, 1, 2, 4]  # one of two that coincide


def test_the_region_is_where_the_top_may_be() -> None:
    emulated = rough()
    found = explore(emulated, rng(3))
    many = tamis.sobol(4096, 2, rng(4))
    surrogate = emulated.surrogate
    # the top of the predictor on a fine grid is no higher
    assert surrogate.mean(many).max() <= surrogate.mean(found.top[None])[0, 0] + 1e-6
    mean, var = surrogate.rise(many, found.top)
    inside = ndtr(mean / np.sqrt(var)) >= module._RHO
    # 4096 even points; the estimate has 1024 draws of weights up to exp(2.3): 0.05 is three of its standard errors
    assert 0.05 < inside.mean() < 0.95 and found.size == pytest.approx(inside.mean(), abs=0.05)
    mean, var = surrogate.rise(found.points[1:], found.top)
    assert np.all(ndtr(mean / np.sqrt(var)) >= module._RHO)
    assert len(found.points) == module._POINTS and np.array_equal(found.points[0], found.top)
    # every part of the region is near a point, and no two points are nearer than that
    apart = np.linalg.norm((found.points[:, None] - found.points) / surrogate.length[0], axis=2)
    off = np.linalg.norm((many[inside][:, None] - found.points) / surrogate.length[0], axis=2).min(axis=1)
    nearest = apart[np.triu_indices(len(apart), 1)].min()
    assert np.mean(off < 2 * nearest) > 0.98  # the walkers that are thinned are 1024 of a continuum


# posteriors


@few
@pytest.mark.statistical  # means and deviations of two parameters, five standard errors: false alarm 1e-6
def test_a_surrogate_without_error_gives_the_exact_posterior() -> None:
    # a quadratic log-likelihood under a normal prior is conjugate, and the trend has it exactly
    space = tamis.Space(tuple(tamis.Parameter(name, tamis.normal(0.0, 1.0)) for name in "ab"))
    precision, centre = np.array([[6.0, 2.0], [2.0, 3.0]]), np.array([0.5, -0.3])
    u = tamis.sobol(40, 2, rng(1))
    off = space.from_unit(u) - centre
    emulated = fit_loglike(space, u, -0.5 * np.einsum("ni,ij,nj->n", off, precision, off), rng=rng())
    found = mct(space, emulated, trajectories=10, draws=200, rng=rng(2))
    cov = np.linalg.inv(precision + np.eye(2))
    mean, sd = cov @ precision @ centre, np.sqrt(np.diag(cov))
    error = 5 / np.sqrt(10 * found.diagnostics["ess"])
    assert np.all(np.abs(found.flat.mean(axis=0) - mean) < error * sd)
    assert np.all(np.abs(found.flat.std(axis=0) / sd - 1) < error)
    # 1024 draws, a handful of which share an ancestor
    assert found.diagnostics["predictor_mean"] == pytest.approx(mean, abs=0.25 * sd.min())
    assert found.diagnostics["predictor_sd"] == pytest.approx(sd, rel=0.15)
    assert np.all(found.diagnostics["surrogate_share"] < 0.1)  # nothing but Monte Carlo error
    assert found.x.shape == (10 * 4, 50, 2) and found.log_likelihood.shape == found.log_prior.shape == (
        40,
        50,
    )


@few
@pytest.mark.statistical
def test_trajectories_give_the_mixture_of_their_posteriors() -> None:
    # one parameter, where every trajectory's posterior can be summed up on a grid
    u = np.array([[0.05], [0.3], [0.45], [0.8], [0.95]])
    emulated = fit_loglike(box(1), u, -200 * (u[:, 0] - 0.6) ** 2, nugget=0.0, rng=rng())
    surrogate = replace(emulated.surrogate, length=np.array([[0.3]]), variance=np.array([400.0]))
    emulated = EmulatedLikelihood(box(1), surrogate)
    found = mct(box(1), emulated, trajectories=40, draws=400, rng=rng(2))
    root = int(rng(2).integers(2**63))  # the same functions again
    region = explore(emulated, np.random.default_rng([root, 1]))
    drawn = surrogate.draw(40, np.random.default_rng([root, 2]), region.points)
    grid = (np.arange(400)[:, None] + 0.5) / 400
    means, sds = moments(drawn(grid), grid[:, 0])
    each = found.x.reshape(40, 400)
    # 40 means and deviations; ess of the worst trajectory, 5 standard errors and the grid's 1 / 400: 1e-5
    error = 5 / np.sqrt(found.diagnostics["ess"][0])
    assert found.diagnostics["ess"][0] > 25
    assert np.all(np.abs(each.mean(axis=1) - means) < error * sds + 1 / 400)
    assert found.flat.mean() == pytest.approx(means.mean(), abs=5 * sds.mean() / np.sqrt(40 * 50) + 1 / 400)
    share = means.var() / (means.var() + np.mean(sds**2))
    assert 0.2 < share < 0.8 and found.diagnostics["surrogate_share"][0] == pytest.approx(share, abs=0.1)
    # and the functions are those of the process: its variance at the draws, from 40 of them
    assert found.diagnostics["carried"] == pytest.approx(1.0, abs=5 * np.sqrt(2 / 40))
    (alone,), (alone_sd,) = moments(surrogate.mean(grid).T, grid[:, 0])
    assert found.diagnostics["predictor_mean"][0] == pytest.approx(
        alone, abs=0.2 * alone_sd
    )  # 5 / sqrt(1024)
    assert found.diagnostics["predictor_sd"][0] == pytest.approx(alone_sd, rel=0.15)
    assert found.flat.std() > 1.2 * alone_sd


def moments(log_likelihood: Array, at: Array) -> tuple[Array, Array]:
    """Return means and standard deviations of posteriors on a grid, under a uniform prior."""
    weight = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    mean = weight @ at
    return mean, np.sqrt(weight @ at**2 - mean**2)


def test_the_share_of_the_surrogate_is_free_of_the_sampler_s_noise() -> None:
    # means of variance 0.04 under noise of unit variance, 28 draws each: the plain variance of the means is 0.076
    means = np.repeat(0.2 * rng(1).standard_normal((4000, 1, 1)), 4, axis=0)
    found = module._share(means + rng(2).standard_normal((16000, 7, 1)), 4000)
    # a covariance of 4000 pairs has a standard error of (0.04 + 1 / 14) / sqrt(4000)
    assert found[0] == pytest.approx(0.04 / 1.04, abs=5 * 0.0018)


def test_trajectories_that_carry_too_little_say_so() -> None:
    emulated = rough()
    drawn = emulated.surrogate.draw(20, rng(1), np.array([[0.5, 0.45]]))
    with pytest.warns(TamisWarning, match=r"have \d+% of the surrogate's variance.*add runs"):
        assert module._carried(emulated, drawn, rng(2).random((100, 2))) < 0.5


def test_only_chains_that_do_not_mix_are_said_not_to(tmp_path: Any) -> None:
    """What else is said while they walk reaches the user in its own words."""
    (tmp_path / "checkpoint.npz").write_text("torn")

    def tell(event: Any) -> None:
        warnings.warn("the disk is almost full", UserWarning, stacklevel=1)

    def sample(draws: int) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            mct(
                box(2),
                rough(),
                trajectories=3,
                draws=draws,
                rng=rng(7),
                checkpoint=tmp_path / "checkpoint.npz",
                progress=tell,
            )
        return list(dict.fromkeys(str(w.message) for w in caught))

    torn, full = sample(600)
    assert "cannot be read" in torn and full == "the disk is almost full"
    told = sample(20)  # far too few
    assert [text for text in told if "did not mix" in text] == [told[-1]]
    assert told[-1].startswith("the sampler did not mix on all trajectories of the log-likelihood (rhat")


# interruptions


def same(a: Posterior, b: Posterior) -> bool:
    pairs = [(a.x, b.x), (a.log_likelihood, b.log_likelihood), (a.log_prior, b.log_prior)]
    pairs += [(a.diagnostics[k], b.diagnostics[k]) for k in a.diagnostics]
    return set(a.diagnostics) == set(b.diagnostics) and all(p.tobytes() == q.tobytes() for p, q in pairs)


@few
def test_interrupted_ends_with_the_same_bytes(tmp_path: Any) -> None:
    path = tmp_path / "checkpoint.npz"

    def sample(**more: Any) -> Posterior:
        return mct(box(2), rough(), trajectories=4, draws=60, rng=rng(7), **more)

    straight = sample()
    events = itertools.count()

    def stop(event: Any) -> None:
        if next(events) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sample(checkpoint=path, progress=stop)
    assert path.exists()
    seen: list[int] = []
    assert same(straight, sample(checkpoint=path, progress=lambda event: seen.append(event.done)))
    assert seen[0] > 0  # it went on where it was


# coverage: a decaying oscillation at 40 instants, known noise, truths drawn from the prior

SD = 0.15
TIMES = np.linspace(0, 12, 40)
OSCILLATOR = tamis.Space(
    (
        tamis.Parameter("frequency", tamis.uniform(0.7, 1.3)),
        tamis.Parameter("damping", tamis.uniform(0.02, 0.2)),
        tamis.Parameter("amplitude", tamis.uniform(0.6, 1.4)),
    )
)
LEVELS = (96, 40, 40)  # the frequency is known best


def signal(x: Array) -> Array:
    frequency, damping, amplitude = (x[:, [k]] for k in range(3))
    decay = amplitude * np.exp(-damping * frequency * TIMES)
    return np.asarray(decay * np.cos(frequency * np.sqrt(1 - damping**2) * TIMES))


@cache
def lattice() -> tuple[Array, Array]:
    """Return the middles of the cells on which posteriors are integrated, and the signals there."""
    axes = [(np.arange(n) + 0.5) / n for n in LEVELS]
    u = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    return u, signal(OSCILLATOR.from_unit(u))


def interval(log_likelihood: Array) -> Array:
    """Return the 5 and 95 % quantiles of all parameters in the unit cube, (3, 2), by quadrature."""
    weight = np.exp(log_likelihood - log_likelihood.max()).reshape(LEVELS)
    found = []
    for k, n in enumerate(LEVELS):
        below = np.append(0.0, np.cumsum(weight.sum(axis=tuple({0, 1, 2} - {k}))))
        found.append(np.interp([0.05, 0.95], below / below[-1], np.linspace(0, 1, n + 1)))
    return np.array(found)


def covered(repetition: int, runs: int, trajectories: int, draws: int) -> tuple[Array, Array]:
    """Return whether exact, predictor's and trajectories' intervals hold the truth, and their widths, (3, 3) each."""
    generator = np.random.default_rng([5, repetition])
    truth = OSCILLATOR.sample(1, generator)
    y = signal(truth)[0] + SD * generator.standard_normal(len(TIMES))
    u = tamis.sobol(runs, 3, generator)
    values = -0.5 * np.sum((signal(OSCILLATOR.from_unit(u)) - y) ** 2, axis=1) / SD**2
    emulated = fit_loglike(OSCILLATOR, u, values, rng=generator)
    points, signals = lattice()
    exact = interval(-0.5 * np.sum((signals - y) ** 2, axis=1) / SD**2)
    predictor = interval(emulated.surrogate.mean(points)[:, 0])
    posterior = mct(OSCILLATOR, emulated, trajectories=trajectories, draws=draws, rng=generator)
    drawn = np.quantile(OSCILLATOR.to_unit(posterior.flat), (0.05, 0.95), axis=0).T
    low, high = np.moveaxis([exact, predictor, drawn], 2, 0)
    place = OSCILLATOR.to_unit(truth)
    return (low <= place) & (place <= high), high - low


@few
@pytest.mark.statistical
def test_trajectories_cover_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_POOL", 256)  # for speed
    monkeypatch.setattr(module, "_WALKERS", 512)
    inside, widths = map(np.array, zip(*(covered(k, 40, 20, 40) for k in range(3)), strict=True))
    # 9 intervals that hold the truth with probability 0.9 each: 4 or fewer do so with probability 0.001
    assert inside[:, 2].sum() >= 5
    assert np.all(widths[:, 2].mean(axis=0) > widths[:, 1].mean(axis=0))


@few
@pytest.mark.slow
@pytest.mark.statistical
def test_trajectories_cover_the_truth_where_the_predictor_does_not() -> None:
    # 100 data sets, 40 runs each; figures are means over the three parameters, out of 100
    inside, widths = map(np.array, zip(*(covered(k, 40, 30, 80) for k in range(100)), strict=True))
    exact, predictor, trajectories = inside.sum(axis=0).mean(axis=1)
    assert 82 <= exact <= 97  # 99 % band of 100 honest intervals
    assert 82 <= trajectories <= 97
    assert predictor < 82
    narrow, wide = np.median(widths[:, 1:] / widths[:, :1], axis=0)
    assert narrow.min() < 0.95 and np.all((wide > 1) & (wide < 2.5))
