"""Convergence diagnostics: on chains whose mixing is known."""

import numpy as np
import pytest

from tamis.inference.diagnostics import ess, rhat


def chains(phi, shape=(20, 2000), seed=0):
    """Autoregressive chains with the given correlation from one draw to the next, standard normal at all times."""
    rng = np.random.default_rng(seed)
    x = np.empty((*shape, 1))
    x[:, 0, 0] = rng.standard_normal(shape[0])
    for k in range(1, shape[1]):
        x[:, k, 0] = phi * x[:, k - 1, 0] + np.sqrt(1 - phi**2) * rng.standard_normal(shape[0])
    return x


@pytest.mark.statistical  # its sum of correlations ends where noise begins: 0.87 to 1.01 of the exact value
@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_ess_of_autoregressive_chains(phi):
    x = chains(phi)
    exact = x.size * (1 - phi) / (1 + phi)
    assert ess(x)[0] == pytest.approx(exact, rel=0.2)


def test_every_parameter_has_its_own():
    x = np.concatenate([chains(0.0), chains(0.9)], axis=2)
    assert ess(x).shape == rhat(x).shape == (2,)
    assert ess(x)[0] > 10 * ess(x)[1]


@pytest.mark.statistical  # 40 half chains of 1000 draws: 1 + 1/2000 or so, and ten times that is the bound
def test_rhat_of_chains_that_agree():
    assert rhat(chains(0.0))[0] == pytest.approx(1.0, abs=0.005)


@pytest.mark.parametrize(
    ("spoil", "least"),
    [
        # a share of half the chains lies off by s sd: variance 1 + s^2/4 instead of 1 within, before ranks
        (lambda x: x + 2.0 * (np.arange(20) % 2)[:, None, None], 1.2),
        # all chains drift together: only their halves disagree
        (lambda x: x + np.linspace(0, 4, 2000)[None, :, None], 1.2),
        # same centre, other spreads: seen by the folded ranks
        (lambda x: x * np.where(np.arange(20) % 2, 5.0, 1.0)[:, None, None], 1.2),
    ],
)
def test_rhat_sees_disagreement(spoil, least):
    assert rhat(spoil(chains(0.0)))[0] > least


def test_a_single_chain_is_compared_with_itself():
    still, drifting = chains(0.0, (1, 4000)), chains(0.0, (1, 4000)) + np.linspace(0, 4, 4000)[None, :, None]
    assert rhat(still)[0] < 1.01 and rhat(drifting)[0] > 1.2


def test_nothing_that_moved_is_no_agreement():
    same = np.ones((4, 100, 1))
    assert np.isnan(rhat(same)[0]) and ess(same)[0] == 1.0
    apart = same * np.arange(4)[:, None, None]
    # the variance within is zero but for rounding; 8 half chains, each of one value
    assert rhat(apart)[0] > 1e6 and ess(apart)[0] <= 10
