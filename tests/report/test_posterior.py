"""What the report says and draws of chains and of trajectories."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tamis.inference.posterior import Posterior
from tamis.report.blocks import Facts, Grid, Picture
from tamis.report.posterior import rank_curves, sampler_blocks, strip, worst_mixed
from tests.report import samples


def chains(n: int = 12, steps: int = 300, apart: float = 0.0, groups: int = 1, d: int = 3) -> Posterior:
    """Independent draws in chains; the first chain may stand apart in its first parameter."""
    rng = np.random.default_rng(1)
    space = samples.space()
    x = np.array([0.8, 1e8, 0.01]) * (1 + 0.02 * rng.standard_normal((n, steps, 3)))
    x[0, :, 0] += apart
    found = {
        "rhat": np.array([1.2 if apart else 1.0, 1.0, 1.0]),
        "ess": np.full(3, float(n * steps // groups)),
        "burn_in": np.array(100.0),
        "likelihood_calls": np.array(1e5),
    }
    if groups > 1:
        found |= {
            "group_rhat": np.ones((groups, 3)),
            "surrogate_share": np.array([0.5, 0.1, 0.02]),
            "predictor_sd": np.array([0.01, 1e6, 1e-4]),
        }
    flat = np.zeros((n, steps))
    return Posterior(space, x, flat, flat, None, found)


def test_chains_are_drawn_with_their_ranks():
    blocks = sampler_blocks(chains())
    facts = next(b for b in blocks if isinstance(b, Facts))
    assert dict(facts.items) == {"draws": "3\u202f600", "likelihood calls": "100\u202f000", "chains": "12"}
    picture = next(b for b in blocks if isinstance(b, Picture))
    assert picture.name == "chains" and len(picture.figure.axes) == 6
    assert "k_t" in picture.figure.axes[2].get_ylabel() and "N/m" in picture.figure.axes[2].get_ylabel()
    table = picture.files["chains"]
    assert table.columns[:4] == ("step", "e 5 %", "e 50 %", "e 95 %") and len(table.rows) == 150
    grids = {b.name: b for b in blocks if isinstance(b, Grid)}
    assert set(grids) == {"effective", "diagnostics"}
    assert "rhat" in grids["effective"].caption


def test_even_chains_stay_in_the_strip_and_one_apart_leaves_it():
    for apart, out in ((0.0, 0), (0.06, 1)):
        posterior = chains(apart=apart)
        places, stray = rank_curves(posterior)
        assert stray.shape == (12, 3, len(places))
        beyond = np.abs(stray[:, 0]).max(axis=1) > strip(posterior, 0)
        assert beyond.sum() == out
        assert beyond[0] == bool(out)


def test_ranks_are_those_within_a_trajectory():
    posterior = chains(groups=6)
    shifted = replace(posterior, x=posterior.x + np.repeat(np.arange(6.0), 2)[:, None, None])
    # trajectories far apart: among all draws each chain would be at one end, among its own it is even
    _, stray = rank_curves(shifted)
    assert np.abs(stray).max() < strip(shifted, 0)
    names = [b.name for b in sampler_blocks(posterior) if isinstance(b, Grid)]
    assert names == ["trajectories", "effective", "diagnostics"]


@pytest.mark.parametrize(("carried", "shown"), [(0.93, 0.93), (1.04, 1.0)])
def test_a_share_is_not_more_than_all(carried, shown):
    """The variance of some trajectories may exceed the process's by chance."""
    posterior = chains()
    posterior = replace(posterior, diagnostics={**posterior.diagnostics, "carried": np.array(carried)})
    table = next(b for b in sampler_blocks(posterior) if isinstance(b, Grid) and b.name == "diagnostics")
    assert dict(table.numbers.rows)["carried"] == shown
    assert any(
        row[0].text.startswith("share of the surrogate's") and row[1].key == shown for row in table.rows
    )


def test_of_many_parameters_those_that_mixed_worst():
    posterior = chains()
    many = Posterior(
        samples.space(), np.tile(posterior.x, 3), posterior.log_likelihood, posterior.log_prior, None, {}
    )
    rhat = np.ones(9)
    rhat[[8, 2]] = 1.3, np.nan  # what has not moved at all is worst of all
    found = worst_mixed(replace(many, diagnostics={"rhat": rhat}))
    assert len(found) == 6 and {2, 8} <= set(found) and found == sorted(found)


@pytest.mark.parametrize("steps", [1, 7, 1000])
def test_few_and_many_steps(steps):
    blocks = sampler_blocks(chains(n=3, steps=steps))
    assert any(isinstance(b, Picture) for b in blocks)
