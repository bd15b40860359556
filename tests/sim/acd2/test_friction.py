"""Dry friction of the A-CD2 method: slopes and stopping ways, Coulomb's law at every contact, and its energies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tamis.errors import StudyError
from tamis.sim.acd2.jump import Jump, Step, solve_jump, solve_jump_uzawa
from tests.sim.acd2.steps import dense, random_step

G = 9.81


def block(before: np.ndarray, impulse: np.ndarray, mu: float, k: tuple[float, float] = (5e-4, 3e-4)) -> Step:
    """A flat block of 0.9 kg on its four corners; six velocities, the third one away from the plane."""
    mass, half = 0.9, np.array([0.05, 0.04, 0.01])
    inertia = mass / 3.0 * (half**2).sum() - mass / 3.0 * half**2
    rows = np.zeros((4, 3, 12))
    for row, (x, y) in zip(rows, itertools.product((-1.0, 1.0), repeat=2), strict=True):
        frame, arm = np.eye(3)[[2, 0, 1]], np.array([x, y, -1.0]) * half
        row[:, 6:9], row[:, 9:] = frame, np.cross(arm, frame)
    full = np.concatenate([np.full(3, mass), inertia])[None]
    return Step(full, before, full * impulse, np.full(4, -1), np.zeros(4, int), rows, *k, mu)


def slide(angle: float, speed: float, mu: float, h: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return velocities down the slope after each step, and the work of friction over that of gravity and start."""
    pull = h * G * np.array([[np.sin(angle), 0.0, -np.cos(angle), 0.0, 0.0, 0.0]])
    v, speeds, lost = np.array([[speed, 0.0, 0.0, 0.0, 0.0, 0.0]]), [], []
    for _ in range(steps):
        step = block(v, pull, mu, k=(0.0, 0.0))
        jump = solve_jump(step)
        assert jump.converged
        v = jump.after
        speeds.append(v[0].copy())
        lost.append(jump.dissipated(step).sum())
    return np.array(speeds), np.array(lost)


@pytest.mark.parametrize("degrees", [10.0, 26.0])
def test_a_block_sticks_below_the_angle_of_friction(degrees: float) -> None:
    speeds, lost = slide(np.radians(degrees), 0.0, 0.5, 1e-3, 20)  # 26.57 degrees
    assert np.abs(speeds).max() < 1e-12 and np.abs(lost).max() < 1e-12  # of solver and round-off


@pytest.mark.parametrize("degrees", [27.0, 40.0])
def test_a_block_slides_above_the_angle_of_friction(degrees: float) -> None:
    angle, h, mu = np.radians(degrees), 1e-3, 0.5
    speeds, lost = slide(angle, 0.0, mu, h, 20)
    exact = G * (np.sin(angle) - mu * np.cos(angle)) * h * np.arange(1, 21)
    assert speeds[:, 0] == pytest.approx(exact, rel=1e-9)  # the rule is exact for it: round-off of the solver
    assert np.abs(speeds[:, 1:]).max() < 1e-9
    means = 0.5 * (speeds[:, 0] + np.concatenate([[0.0], speeds[:-1, 0]]))
    assert lost == pytest.approx(mu * 0.9 * G * np.cos(angle) * h * means, rel=1e-9)


def test_a_sliding_block_stops_where_its_energy_is_spent() -> None:
    mu, speed, h = 0.5, 0.2, 1e-3
    speeds, lost = slide(0.0, speed, mu, h, 60)
    way = h * (speed + speeds[:-1, 0].sum())  # each step goes by the velocity of its start
    exact = speed**2 / (2.0 * mu * G)
    assert way == pytest.approx(exact + 0.5 * h * speed, abs=mu * G * h**2)  # of order h, known to h^2
    assert np.abs(speeds[-15:]).max() < 1e-12  # and there it stays
    assert lost.min() > -1e-15 and lost.sum() == pytest.approx(0.45 * speed**2, rel=1e-9)


def coulomb(step: Step, jump: Jump, speed: float) -> None:
    """Hold a jump to the law: no closing, the cone, and friction against the slip after the jump."""
    after = (dense(step)[0] @ jump.after.ravel()).reshape(-1, 3)
    normal, size = jump.multiplier, np.linalg.norm(jump.friction, axis=1)
    assert after[:, 0].min() > -1e-8 * speed and normal.min() >= 0.0
    assert (
        size <= step.mu * normal + 1e-8 * speed
    ).all()  # masses are about one: an impulse is as a velocity
    slip = np.linalg.norm(after[:, 1:], axis=1)
    slips = slip > 1e-7 * speed
    work = (jump.friction * after[:, 1:]).sum(axis=1)
    assert work[slips] == pytest.approx(-step.mu * (normal * slip)[slips], abs=1e-7 * speed**2)


def check(seed: int, most: int) -> int:
    """One random step with friction: the law, the identity of energy, and no energy from contacts by themselves.

    Return how many of its two jumps were not solved.
    """
    rng = np.random.default_rng(20_000 + seed)
    bare = random_step(seed, most=most, k=((5e-4, 3e-4), (0.0, 0.0), (0.5, 0.2))[seed % 3])
    mu = float(rng.uniform(0.1, 0.8))
    for impulse in (bare.impulse, 0.0 * bare.impulse):
        step = Step(bare.mass, bare.before, impulse, bare.a, bare.b, bare.rows, bare.k_n, bare.k_t, mu)
        jump = solve_jump(step, tolerance=1e-11)
        if not jump.converged:
            return 1
        kinetic = 0.5 * float((step.mass * step.before**2).sum())
        coulomb(step, jump, float(np.abs(step.before).max()))
        change = 0.5 * float((step.mass * (jump.after**2 - step.before**2)).sum())
        given, lost = float((step.impulse * jump.mean).sum()), jump.dissipated(step).sum()
        assert change == pytest.approx(given - lost, abs=1e-9 * kinetic)  # tolerance of the solver
    assert lost >= -1e-9 * kinetic
    return 0


@pytest.mark.parametrize("seed", range(6))
def test_random_steps_with_friction(seed: int) -> None:
    assert check(seed, 60) == 0


@pytest.mark.slow
def test_a_thousand_random_steps_with_friction() -> None:
    """One of them goes in circles: the threshold follows the normal percussion, and nothing says that it settles."""
    assert sum(check(seed, 8) for seed in range(6, 1000)) <= 1


def test_no_friction_is_no_law_at_all() -> None:
    step = random_step(4, most=20)
    parts = (step.mass, step.before, step.impulse, step.a, step.b, step.rows, step.k_n, step.k_t)
    tiny = solve_jump(Step(*parts, 1e-12))
    assert tiny.mean == pytest.approx(solve_jump(step).mean, abs=1e-9)
    with pytest.raises(StudyError, match="mu must not be negative, found -1"):
        Step(*parts, -1.0)
    with pytest.raises(StudyError, match=r"has no friction, found mu = 0\.3; use solve_jump"):
        solve_jump_uzawa(Step(*parts, 0.3))
