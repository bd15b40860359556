"""Parameters that are known only together, and several modes: what is found, how it is worded, what is let alone."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.special import ndtri

from tamis.inference.posterior import Posterior
from tamis.marginals import uniform
from tamis.results.shapes import digits, modes, several, span, together
from tamis.space import Parameter, Space


def posterior(columns, units=None, ess=None):
    """A posterior of named columns of draws."""
    units = units or {}
    space = Space(tuple(Parameter(name, uniform(-1e9, 1e9), units.get(name, "")) for name in columns))
    x = np.column_stack(list(columns.values()))[None]
    flat = np.zeros(x.shape[:2])
    worth = np.full(x.shape[2], float(x.shape[1] if ess is None else ess))
    return Posterior(space, x, flat, flat, None, {"ess": worth})


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def normal(rng, n):
    """Normal draws whose quantiles are exact, in random order: the numbers told do not depend on luck."""
    return rng.permutation(ndtri((np.arange(n) + 0.5) / n))


def test_a_pair_known_only_together_is_told_with_what_is_known(rng):
    drag = 0.075 + 0.018 * normal(rng, 4000)
    e = 0.783 + 0.6 * drag + 0.0013 * normal(rng, 4000)  # 90 %: 1.645 x 0.0013 = 0.0021
    sigma = 0.01 + 0.001 * normal(rng, 4000)
    # 8.4: the root of 1 + (0.6 x 0.018 / 0.0013)^2
    assert together(posterior({"e": e, "drag": drag, "sigma": sigma}, {"drag": "1/m"})) == [
        "e and drag are known only together: e − 0.6 drag (drag in 1/m) is known to ±0.0021, "
        "8 times better than e alone."
    ]


def test_a_ratio_where_logarithms_are_straighter(rng):
    m = np.exp(0.8 * normal(rng, 4000))
    k = 40 * m * np.exp(0.02 * normal(rng, 4000))
    assert together(posterior({"k": k, "m": m})) == [
        "k and m are known only together: k / m is known to ±3.3 %, 40 times better than k alone."
    ]
    area = 5 / m**2 * np.exp(0.02 * normal(rng, 4000))
    (told,) = together(posterior({"area": area, "m": m}))
    assert "area × m^2 is known to ±3.3 %" in told


def test_a_sum_of_three_is_known_without_any_pair(rng):
    a, b = rng.standard_normal((2, 4000))
    c = 3 - a - b + 0.05 * normal(rng, 4000)
    (told,) = together(posterior({"a": a, "b": b, "c": c, "d": normal(rng, 4000)}))
    assert told.startswith("c, a and b are known only together: c + a + b is known to ±0.08")


def test_what_the_others_explain_best_comes_first(rng):
    """The first of the file is the least part of the sum: alone it is known nearly as well."""
    weak, b = rng.standard_normal((2, 4000))
    c = -b - 0.45 * weak + 0.1 * normal(rng, 4000)
    (told,) = together(posterior({"weak": weak, "b": b, "c": c}))
    better = re.search(r"(\d+) times better than [bc] alone", told)
    assert "and weak are known only together" in told and int(better[1]) >= 5  # spreads of 1.1 and 0.1


def test_ordinary_correlation_and_few_draws_are_no_worry(rng):
    a = normal(rng, 3000)
    near = 0.93 * a + np.sqrt(1 - 0.93**2) * normal(rng, 3000)
    assert together(posterior({"a": a, "b": near})) == []
    assert together(posterior({"a": a, "b": a + 1e-3 * near}, ess=20)) == []
    assert together(posterior({"a": a, "b": np.full(3000, 2.0)})) == []


def test_two_modes_are_told_with_an_interval_and_a_share_each(rng):
    k = np.concatenate([4.5e7 + 5e6 * normal(rng, 880), 1.32e8 + 1.2e7 * normal(rng, 7120)])
    (told,) = several(posterior({"k_t": k, "mu": rng.random(8000)}, {"k_t": "N/m"}))
    assert told == (
        "k_t has two modes: it lies in 3.7e7 to 5.3e7 N/m (11 %) or in 1.12e8 to 1.52e8 N/m (89 %); "
        "its median and 90 % interval describe neither."
    )


def test_three_equal_modes_are_parted_between_them(rng):
    x = rng.integers(3, size=3000) * 10.0 + normal(rng, 3000)
    found = modes(x)
    assert [round((m.low + m.high) / 2, 0) for m in found] == [0.0, 10.0, 20.0]
    assert all(abs(m.share - 1 / 3) < 0.05 for m in found)  # 0.05 is six binomial standard errors


LAWS = {
    "uniform": lambda rng, n: rng.random(n),
    "normal": lambda rng, n: rng.standard_normal(n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "lognormal": lambda rng, n: np.exp(1.2 * rng.standard_normal(n)),
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
    "at a bound": lambda rng, n: rng.beta(0.5, 4, n),
}


@pytest.mark.parametrize("law", LAWS)
def test_laws_with_one_peak_raise_no_alarm(law):
    """None of 120 samples a law; the rate measured over 39600 samples of eight laws is below 1e-4."""
    rng = np.random.default_rng(11)
    assert all(len(modes(LAWS[law](rng, n))) == 1 for n in (60, 300, 1000) for _ in range(40))


def test_draws_count_as_many_as_they_are_worth(rng):
    """A chain that visited either mode a few times has seen a gap that noise may explain."""
    x = rng.standard_normal(1000) + 12 * (np.arange(1000) % 2)
    assert len(modes(x, 40.0)) == 1 and len(modes(x, 400.0)) == 2
    assert len(modes(np.repeat(x[:40], 50), 2000.0)) == 1  # repeats are no draws, whatever is claimed


def test_numbers_have_the_digits_of_their_spread():
    assert span(3.62e7, 5.41e7) == "3.6e7 to 5.4e7" and span(0.8123, 0.8214) == "0.8123 to 0.8214"
    assert span(101325.02, 101325.31) == "101325.02 to 101325.31"
    assert digits(0.0, 1.0) == "0" and digits(-25.13, 2.0) == "-25.1"
