"""The probability of success: calibrated over designs, and a posterior that leaves the region where runs fail."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import ndtr

import tamis
from tamis.surrogates.success import _evidence
from tamis.types import Array

DESIGNS = 20
Chance = Callable[[Array], Array]

# success is certain or impossible, or a matter of chance
REGIONS: dict[str, Chance] = {
    "half": lambda u: (u.sum(axis=1) < 1.3).astype(float),
    "disc": lambda u: (np.sum((u - [0.6, 0.55]) ** 2, axis=1) > 0.08).astype(float),
    "corner": lambda u: 1.0 - (u > 0.6).all(axis=1),
    "chance": lambda u: ndtr(5 * (1.1 - u.sum(axis=1))),
    "anywhere": lambda u: np.full(len(u), 0.85),
}


def predicted(chance: Chance, n: int, design: int) -> tuple[Array, Array]:
    """Return probabilities at new points, and whether runs there succeed."""
    rng = np.random.default_rng([n, design])
    u, new = tamis.sobol(n, 2, rng), rng.random((500, 2))
    good = rng.random(n) < chance(u)
    if good.all() or not good.any():
        return np.empty(0), np.empty(0)
    return tamis.fit_success(u, good).predict(new), (rng.random(500) < chance(new)).astype(float)


def miscalibration(found: Array, happened: Array) -> float:
    """Return the mean distance of the reliability diagram from its diagonal, each of ten bins by its points."""
    place = np.minimum((10 * found).astype(int), 9)
    count = np.maximum(np.bincount(place, minlength=10), 1)
    apart = np.bincount(place, weights=found - happened, minlength=10) / count
    return float(np.sum(np.abs(apart) * count) / len(found))


@pytest.mark.statistical
@pytest.mark.parametrize("name", REGIONS)
@pytest.mark.parametrize("n", [40, pytest.param(100, marks=pytest.mark.slow)])
def test_the_probability_is_the_frequency_over_twenty_designs(name: str, n: int) -> None:
    each = [predicted(REGIONS[name], n, design) for design in range(DESIGNS)]
    found, happened = (np.concatenate(part) for part in zip(*each, strict=True))
    # frequencies of 20 designs of 40 runs scatter by a few hundredths; a classifier that says nothing is off by 0.2
    assert miscalibration(found, happened) < (0.05 if n == 40 else 0.03)
    # and it tells: the squared error is well below that of the mean
    told = np.mean((found - happened) ** 2) / np.var(happened)
    assert told < (1.05 if name == "anywhere" else 0.65)


def masses(chance: Chance, inside: Chance, design: int) -> Array:
    """Return a posterior's mass in a region: by the surrogate alone, with the classifier, and in truth."""
    rng = np.random.default_rng([64, design])
    u, grid = tamis.sobol(64, 2, rng), tamis.grid(60, 2)
    success = tamis.fit_success(u, rng.random(64) < chance(u))
    density = np.exp(-0.5 * ((grid.sum(axis=1) - 1.25) / 0.15) ** 2)  # of a measured sum
    return np.array(
        [
            np.sum(weight * density * inside(grid)) / np.sum(weight * density)
            for weight in (1.0, success.predict(grid), chance(grid))
        ]
    )


@pytest.mark.statistical
def test_posterior_mass_where_runs_fail_falls_to_the_truth() -> None:
    # half of the runs with a > 0.6 would fail by chance, more the farther
    fading = lambda u: ndtr(4 * (0.6 - u[:, 0]))  # noqa: E731
    alone, weighed, truth = np.mean([masses(fading, lambda u: u[:, 0] > 0.6, k) for k in range(20)], axis=0)
    assert alone > 1.5 * truth
    assert weighed == pytest.approx(truth, rel=0.2)
    # a region where all fail: what is left of the mass is what 64 runs do not tell of its edge
    disc = REGIONS["disc"]
    alone, weighed, truth = np.mean([masses(disc, lambda u: 1 - disc(u), k) for k in range(20)], axis=0)
    assert truth == 0
    assert weighed < 0.2 * alone


def test_the_slope_of_the_evidence_is_its_derivative() -> None:
    rng = np.random.default_rng(0)
    u = tamis.sobol(40, 2, rng)
    good = (u.sum(axis=1) < 1.3).astype(float)
    failed = np.where(np.arange(40) % 4, 1 - good, 2.0)  # some points with runs of both kinds
    at, step = np.log([0.5, 0.8, 3.0]), 1e-5 * np.eye(3)

    def evidence(log: Array) -> float:
        return _evidence(u - 0.5, good, failed, np.exp(log[:2]), float(np.exp(log[2])))[0]

    slope = _evidence(u - 0.5, good, failed, np.exp(at[:2]), float(np.exp(at[2])))[1]
    differences = [(evidence(at + e) - evidence(at - e)) / 2e-5 for e in step]
    np.testing.assert_allclose(slope, differences, rtol=1e-6)  # of central differences


def test_replicates_are_gathered_into_counts() -> None:
    # the same evidence, but for the jitter of 1e-8, as that of all runs one by one, whose cost is cubic in their number
    rng = np.random.default_rng(3)
    u = tamis.sobol(30, 2, rng)
    rows, chance = np.repeat(u, 5, axis=0), ndtr(5 * (1.1 - u.sum(axis=1)))
    good = (rng.random((30, 5)) < chance[:, None]).astype(float)
    found = tamis.fit_success(rows, good.ravel())
    assert found.u.shape == (30, 2)
    np.testing.assert_array_equal(found.good, good.sum(axis=1))
    np.testing.assert_array_equal(found.good + found.failed, 5)
    length, size = np.array([0.4, 0.6]), 2.0
    together = _evidence(u, good.sum(axis=1), 5 - good.sum(axis=1), length, size)
    one_by_one = _evidence(rows, good.ravel(), 1 - good.ravel(), length, size)
    assert together[0] == pytest.approx(one_by_one[0], rel=1e-5)
    np.testing.assert_allclose(together[1], one_by_one[1], rtol=1e-4, atol=1e-4)
    at = rng.random((200, 2))
    told = found.predict(at) - ndtr(5 * (1.1 - at.sum(axis=1)))
    assert np.sqrt(np.mean(told**2)) < 0.12  # 150 runs; the standard error of five runs at a point is 0.2


def test_saved_loaded_and_in_a_likelihood() -> None:
    rng = np.random.default_rng(1)
    space = tamis.Space(
        (tamis.Parameter("a", tamis.normal(0.0, 1.0)), tamis.Parameter("b", tamis.uniform(0.0, 2.0)))
    )
    u = tamis.sobol(50, 2, rng)
    laws = [parameter.prior for parameter in space.parameters]
    found = tamis.fit_success(u, u[:, 0] < 0.8, marginals=laws)
    again = tamis.Success.of(found.arrays())
    at = rng.random((20, 2))
    np.testing.assert_array_equal(found.predict(at), again.predict(at))
    surrogate = tamis.fit_pce(u, u.sum(axis=1), marginals=laws)
    test = tamis.Experiment("test", {}, (tamis.Observation(tamis.value("y"), np.ones(1), tamis.Known(0.2)),))
    terms = ((test, tamis.Emulated(space, surrogate)),)
    x = space.from_unit(at)
    weighed = tamis.Likelihood(space, terms, lambda x: np.log(found.predict(space.to_unit(x))))
    np.testing.assert_allclose(weighed(x), tamis.Likelihood(space, terms)(x) + np.log(found.predict(at)))


def test_runs_of_one_kind_are_refused() -> None:
    u = tamis.sobol(16, 2, np.random.default_rng(2))
    with pytest.raises(tamis.StudyError, match="runs of both kinds; found 16 good ones of 16"):
        tamis.fit_success(u, np.ones(16))
    with pytest.raises(tamis.StudyError, match="whether each run was good"):
        tamis.fit_success(u, np.ones(3))
    with pytest.raises(tamis.StudyError, match="unit cube"):
        tamis.fit_success(u + 1, np.arange(16) % 2)
