"""Rigs under mixed control: transformations, loops against closed forms, the cyclic test."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from tamis.errors import SimulationError, StudyError
from tamis.sim.hybrid.modes import modes
from tamis.sim.hybrid.rig import WITHIN, Bench, two_actuators
from tamis.sim.hybrid.scene import Rig

K_A, P, W = 5e8, 20.0, 4e-9


def pair(**changes: object) -> Bench:
    """Return two actuators in line on an elastic specimen, without lag and delay."""
    given = {"k_a": K_A, "k_s": np.array([4e8]), "limit": np.array([np.inf]), "p": P, "w": W, "D_scale": 0.5}
    return Bench(np.ones((2, 1)), **{**given, **changes})  # type: ignore[arg-type]


def test_modes_of_random_rigs() -> None:
    rng = np.random.default_rng(3)
    for _ in range(1000):
        actuators = int(rng.integers(2, 9))
        rigid = int(rng.integers(1, actuators + 1))
        c = rng.standard_normal((actuators, rigid))
        p, d, q = modes(c)
        # the product alone has a round-off of 1e-16 times the condition, 7e4 for the worst of these
        assert np.abs(p @ c - np.eye(rigid)).max() < max(1e-12, 1e-16 * np.linalg.cond(c))
        assert np.abs(p @ d).max(initial=0.0) < 1e-12
        assert d.shape == (actuators, actuators - rigid)
        np.testing.assert_array_equal(q, d.T)
        assert np.linalg.matrix_rank(np.hstack([c, d])) == actuators


def test_modes_of_two_actuators_are_exact() -> None:
    p, d, q = modes(np.ones((2, 1)))
    np.testing.assert_array_equal(p, [[0.5, 0.5]])
    np.testing.assert_array_equal(d, [[-1.0], [1.0]])
    np.testing.assert_array_equal(q, [[-1.0, 1.0]])


@pytest.mark.parametrize(
    ("c", "said"),
    [
        (np.ones((3, 2)), "only see 1 of them apart"),
        (np.ones((1, 2)), "at least as many actuators"),
        (np.array([[np.nan], [1.0]]), "at least as many actuators"),
    ],
)
def test_rigs_that_cannot_be_told_apart_are_refused(c: np.ndarray, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        modes(c)


def test_mixed_and_modal_loops_are_one() -> None:
    real = {"lag": 5e-3, "delay": 0.012, "k_s": np.array([4e8]), "limit": np.array([5e-4]), "hardening": 0.01}
    runs = []
    for control in ("mixed", "modal"):
        bench = pair(control=control, **real)
        runs.append([bench.cycle(np.zeros(1), np.array([8e-4]), np.array([1.5e5])) for _ in range(2)][1])
    for mixed, modal in zip(*runs, strict=True):
        assert np.abs(mixed - modal).max() <= 1e-12 * np.abs(mixed).max()


def test_without_lag_modes_are_exponentials_and_do_not_disturb_each_other() -> None:
    bench = pair(control="modal")
    y, f, _, _ = bench.cycle(np.array([1e-3]), np.array([1e-3]), np.zeros(1))
    t = bench.period / bench.steps * np.arange(1, bench.steps + 1)
    np.testing.assert_allclose(y.mean(axis=1), 1e-3 * -np.expm1(-P * t), rtol=1e-6)
    assert np.abs(f @ bench.modes.Q[0]).max() < 1e-12 * np.abs(f).max()
    bench = pair(control="modal")
    y, f, _, _ = bench.cycle(np.zeros(1), np.zeros(1), np.array([1.5e5]))
    np.testing.assert_allclose(f @ bench.modes.Q[0], 1.5e5 * -np.expm1(-0.5 * K_A * P * W * t), rtol=1e-6)
    assert np.abs(y.mean(axis=1)).max() < 1e-12 * np.abs(y).max()


@pytest.mark.parametrize(("share", "grows"), [(0.98, False), (1.02, True)])
def test_a_late_loop_is_unstable_beyond_a_quarter_turn(share: float, grows: bool) -> None:
    # y' = -p y(t - delay): the first root crosses at p delay = pi/2
    bench = pair(control="modal", delay=0.05, p=share * math.pi / 2 / 0.05)
    cycles = [bench.cycle(np.array([1e-3]), np.array([1e-3]), np.zeros(1)) for _ in range(10)]
    early, late = (np.ptp(cycles[i][0].mean(axis=1)[-500:]) for i in (4, 9))
    assert (late > early) == grows


def test_offset_of_a_transducer_strains_the_beam_under_displacement_control_only() -> None:
    """An offset of 0.1 mm is k_a/2 times that: 25 kN."""
    f_d = {}
    for control in ("mixed", "displacement"):
        bench = pair(control=control)
        for _ in range(3):
            _, f, _, _ = bench.cycle(
                np.zeros(1), np.zeros(1), np.array([1.5e5]), offset=np.array([0.0, 1e-4])
            )
        f_d[control] = float(f[-1] @ bench.modes.Q[0])
    assert f_d["displacement"] == pytest.approx(1.5e5 - 25e3, rel=1e-9)
    assert f_d["mixed"] == pytest.approx(1.5e5, rel=1e-9)


def test_integral_gain_of_one_mode_leaves_the_other() -> None:
    late = {"lag": 5e-3, "delay": 0.01, "control": "modal"}
    plain, of_c, of_d = pair(**late), pair(i_c=40.0, **late), pair(i_d=2e-7, **late)
    runs = [bench.cycle(np.zeros(1), np.array([5e-4]), np.array([1.5e5])) for bench in (plain, of_c, of_d)]
    tension = [f @ plain.modes.Q[0] for _, f, _, _ in runs]
    place = [y.mean(axis=1) for y, _, _, _ in runs]
    for mode, changed, kept in ((place, 1, 2), (tension, 2, 1)):
        size = np.abs(mode[0]).max()
        assert np.abs(mode[kept] - mode[0]).max() < 1e-12 * size
        assert np.abs(mode[changed] - mode[0]).max() > 1e-2 * size


def test_four_actuators_on_a_plate() -> None:
    """Heave, roll and pitch in displacement, the warping of the plate in force: the second rig, same functions."""
    x, y = np.array([1.0, -1.0, -1.0, 1.0]), np.array([0.8, 0.8, -0.8, -0.8])
    c = np.column_stack([np.ones(4), y, -x])
    p, d, _ = modes(c)
    np.testing.assert_allclose(d.ravel() / d[0, 0], [1.0, -1.0, 1.0, -1.0], atol=1e-15)
    springs = {"k_s": np.array([4e8, 1e8, 2e8]), "limit": np.full(3, np.inf)}
    bench = Bench(c, k_a=K_A, p=P, w=W, D_scale=0.5, control="modal", **springs)  # type: ignore[arg-type]
    target = np.array([0.0, 0.0, 1e-3])
    for _ in range(2):
        moved, f, _, _ = bench.cycle(target, target, np.array([3e4]))
    np.testing.assert_allclose(p @ moved[-1], target, atol=1e-15)
    assert f[-1] @ bench.modes.Q[0] == pytest.approx(3e4, rel=1e-9)
    firm = Bench(
        c, k_a=K_A, p=P, w=W, D_scale=0.5, control="modal", i_c=np.array([0.0, 0.0, 60.0]), **springs
    )  # type: ignore[arg-type]
    soft = Bench(c, k_a=K_A, p=P, w=W, D_scale=0.5, control="modal", **springs)  # type: ignore[arg-type]
    both = [
        b.cycle(np.zeros(3), np.array([1e-3, 1e-3, 1e-3]), np.array([3e4]))[0] @ p.T for b in (soft, firm)
    ]
    assert np.abs(both[1] - both[0]).max(axis=0) == pytest.approx([0.0, 0.0, 2e-4], rel=0.9, abs=1e-14)


@pytest.mark.parametrize("limit", [np.inf, 2e-4])
def test_a_rig_whose_motions_are_not_orthogonal(limit: float) -> None:
    """Three actuators about an origin that is not in their middle: forces balance the specimen's at every step."""
    c = np.column_stack([np.ones(3), np.array([-0.2, 0.5, 1.4])])
    k_s = np.array([4e8, 1e8])
    bench = Bench(c, k_a=K_A, k_s=k_s, limit=np.full(2, limit), hardening=0.1, lag=5e-3, control="modal")
    slip, before, yielded = np.zeros(2), np.zeros(2), False
    for low, high in (([0.0, 0.0], [1e-3, -5e-4]), ([-1e-3, 0.0], [1e-3, 5e-4])):
        y, f, y_s, _ = bench.cycle(np.array(low), np.array(high), np.array([3e4]))
        for row in range(len(y)):
            slip, before = np.clip(slip + y_s[row] - before, -limit, limit), y_s[row]
            yielded |= bool(np.abs(y_s[row]).max() > 2e-4)
            # a sweep that moves less than 1e-15 leaves some 1e-14 where it converges slowly
            np.testing.assert_allclose(
                c.T @ f[row], k_s * (0.1 * y_s[row] + 0.9 * slip), rtol=0, atol=1e-11 * K_A * np.abs(y).max()
            )
    assert yielded
    if limit == np.inf:
        direct = np.linalg.solve(K_A * c.T @ c + np.diag(k_s), K_A * c.T @ y.T).T
        np.testing.assert_allclose(y_s, direct, rtol=0, atol=1e-12 * np.abs(direct).max())


def test_rigid_motions_that_are_nearly_one_are_refused() -> None:
    c = np.column_stack([np.ones(3), 1000.0 + np.array([-0.2, 0.5, 1.4])])
    with pytest.raises(StudyError, match=r"nearly alike .* origin nearer to the actuators"):
        Bench(c, k_a=K_A, k_s=np.full(2, 1e8), limit=np.full(2, np.inf))


def test_constraints_are_met_within_five_cycles_of_the_start_and_of_a_loss() -> None:
    out = two_actuators(Rig(cycles=22, drop=0.2, drop_cycle=12))
    error = out["error"]
    assert error[0] > 2 * WITHIN  # the first cycle knows nothing
    assert error[4:11].max() < WITHIN
    assert error[11] > 2 * WITHIN
    assert error[15:].max() < WITHIN
    assert out["tension"].min() > 0


def test_what_is_measured_has_no_bias_of_noise() -> None:
    quiet = two_actuators(Rig(cycles=8, noise_y=0.0, noise_f=0.0))
    assert quiet["error"][7] < 5e-4  # the extreme of a mean over 25 ms of 2 s
    assert two_actuators(Rig(cycles=8, seed=5))["error"][7] < WITHIN


@pytest.mark.slow
def test_the_whole_test() -> None:
    two_actuators(Rig(cycles=1))
    start = time.process_time()
    out = two_actuators(Rig(cycles=5050))
    assert time.process_time() - start < 10.0  # some 4 s here
    assert out["error"][4:].max() < WITHIN
    assert out["tension"].min() > 0


def test_a_loop_that_runs_away_says_so() -> None:
    with pytest.raises(SimulationError, match="run away"):
        two_actuators(Rig(p=200.0, delay=0.02))
