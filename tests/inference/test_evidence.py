"""Bridge and stepping estimates, and errors that count families."""

import numpy as np
import pytest

from tamis.inference import evidence


def one_by_one(n):
    return np.arange(n)


def test_bridge_is_exact_when_q_is_the_posterior():
    flat = np.full((4, 10), -3.5)  # prior x likelihood / q is then the evidence everywhere
    assert evidence.bridge(flat, flat, 5, one_by_one(10)) == (pytest.approx(-3.5, abs=1e-8), 0.0)


@pytest.mark.statistical  # 40 errors against 4 reported ones: false alarm 0.3 %, fixed seed
@pytest.mark.parametrize("scale", [0.7, 1.0, 1.5])
def test_bridge_between_normal_laws(scale):
    # posterior N(0, 1) times exp(2), q = N(0.3, scale): r is known at every point
    rng = np.random.default_rng(0)
    errors, reported = [], []
    for _ in range(40):
        z, y = rng.normal(size=(3, 500)), 0.3 + scale * rng.normal(size=(3, 500))
        r = [2.0 - 0.5 * v**2 + 0.5 * ((v - 0.3) / scale) ** 2 + np.log(scale) for v in (z, y)]
        value, error = evidence.bridge(*r, 250, one_by_one(500))
        errors.append(value - 2.0)
        reported.append(error)
    assert np.all(np.abs(errors) < 4 * np.array(reported))
    ratio = np.sqrt(np.mean(np.square(errors))) / np.mean(reported)
    # rms over 40 runs is known to 11 %; half the difference of two halves as a floor makes it 1/1.17
    assert 0.55 < ratio < 1.2


def test_bridge_bears_proposals_of_likelihood_zero_and_no_overlap():
    rng = np.random.default_rng(1)
    here, there = rng.normal(size=(2, 100)), rng.normal(size=(2, 100))
    there[:, ::2] = -np.inf
    assert np.isfinite(evidence.bridge(here, there, 50, one_by_one(100))).all()
    value, error = evidence.bridge(here + 900, there - 900, 50, one_by_one(100))
    assert np.isfinite(value) and error > 0.1  # hopeless, and it says so
    assert evidence.bridge(here, np.full_like(here, -np.inf), 50, one_by_one(100))[1] == np.inf


def test_half_the_difference_of_the_halves_is_the_least_error():
    flat = np.repeat([[0.0, 1.0]], 5, axis=1)
    assert evidence.bridge(flat, flat, 5, one_by_one(10))[1] == pytest.approx(0.5)


def test_stepping_adds_up_and_counts_families():
    family = np.repeat([3, 8, 11, 12], 25)
    assert evidence.stepping(np.array([-1.0, 0.25]), family) == pytest.approx((-0.75, 0.5))  # 1/sqrt(4)
    assert evidence.family_count(family) == pytest.approx(4.0)


def test_few_families_give_the_error_of_a_student_law():
    # one point in each of six families deviates, in both halves alike: the sums over families are those over points
    drawn = np.zeros((1, 1200))
    drawn[0, 100::200] = [0.01, -0.02, 0.01] * 2
    family = np.repeat(np.arange(6), 200)
    few, many = (evidence.bridge(np.zeros((1, 1200)), drawn, 600, f)[1] for f in (family, one_by_one(1200)))
    assert few / many == pytest.approx(
        np.sqrt(5 / 3), rel=0.01
    )  # five degrees of freedom; deviations are small


def test_a_contradiction_and_a_drift_are_part_of_the_error():
    sound, disagreement = evidence.reported((-3.0, 0.01), (-3.2, 0.1), 0.0)
    assert sound == (-3.0, 0.01) and disagreement == pytest.approx(0.2 / np.hypot(0.1, 0.01))
    apart, disagreement = evidence.reported((-3.0, 0.01), (-4.2, 0.1), 0.0)
    assert apart == (-3.0, pytest.approx(1.2, rel=1e-3)) and disagreement > 5
    assert evidence.reported((-3.0, 0.01), (-3.0, 0.1), 0.4)[0][1] == pytest.approx(0.4, rel=1e-3)
    assert evidence.reported((np.nan, np.inf), (-4.2, 0.1), 0.0)[0] == (-4.2, 0.1)  # no mixture resembles it


def test_singles_give_the_usual_variance_of_a_mean():
    x = np.random.default_rng(2).normal(size=100)
    assert evidence.variance_of_mean(x, one_by_one(100)) == pytest.approx(x.var() / 100, rel=1e-12)
    assert evidence.effective_size(x, one_by_one(100)) == pytest.approx(100)


def test_copies_are_worth_one_draw():
    x = np.repeat(np.random.default_rng(3).normal(size=100), 7)
    family = np.repeat(one_by_one(100), 7)
    assert evidence.effective_size(x, family) == pytest.approx(100)
    assert evidence.effective_size(np.ones(700), family) == 700  # a constant is known exactly
