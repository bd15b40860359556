"""The velocity jump of the A-CD2 method against exact answers, an independent solver, its energy, and nscd."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tamis.errors import StudyError
from tamis.files import load_arrays
from tamis.sim.acd2.jump import largest_rho, solve_jump, solve_jump_uzawa
from tamis.simulation import find
from tests.sim.acd2 import nscd_step
from tests.sim.acd2.steps import by_nnls, dense, random_step


@pytest.mark.parametrize("ratio", [0.0, 1.0, 2.0, 4.0, 10.0, 100.0])
def test_one_grain_on_a_plane(ratio: float) -> None:
    impact, mass = find("tamis:acd2.impact"), 0.7
    found = impact(mass=mass, k_n=ratio * mass, k_t=ratio * mass, v_n=3.0, v_t=-2.0)
    rebound, kept = max(0.0, (ratio - 2.0) / (ratio + 2.0)), (2.0 - ratio) / (2.0 + ratio)
    assert found["u_n"] == pytest.approx(3.0 * rebound, abs=1e-12)  # round-off: one contact is solved exactly
    assert found["u_t"] == pytest.approx(-2.0 * kept, abs=1e-12)
    lost = 0.5 * mass * (9.0 * (1.0 - rebound**2) + 4.0 * (1.0 - kept**2))
    assert found["dissipated"] == pytest.approx(lost, abs=1e-12)
    assert found["multiplier"] == pytest.approx(max(0.0, mass * 3.0 - 0.5 * ratio * mass * 3.0), abs=1e-12)


def check(seed: int) -> int:
    """Hold one random step to all that is exact about it; return its number of sweeps."""
    step = random_step(seed)
    jump = solve_jump(step)
    assert jump.converged
    assert np.abs(jump.mean - by_nnls(step)).max() < 1e-8  # of velocities of some m/s
    rows, _ = dense(step)
    after = rows[::3] @ jump.after.ravel()
    assert jump.multiplier.min(initial=0.0) >= 0.0 and after.min(initial=0.0) > -1e-9
    assert np.abs(jump.multiplier * after).max(initial=0.0) <= 1e-9
    kinetic = 0.5 * float((step.mass * step.before**2).sum())
    change = 0.5 * float((step.mass * (jump.after**2 - step.before**2)).sum())
    given = float((step.impulse * jump.mean).sum())
    lost = jump.dissipated(step).sum()
    assert change == pytest.approx(given - lost, abs=1e-12 * kinetic)
    return jump.iterations


@pytest.mark.parametrize("seed", range(6))
def test_random_steps_against_nnls_and_the_energy_identity(seed: int) -> None:
    check(seed)


@pytest.mark.slow
def test_two_hundred_random_steps() -> None:
    sweeps = [check(seed) for seed in range(200)]
    assert np.median(sweeps) < 100 and max(sweeps) < 3000  # measured: 60 and 1524


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:divide by zero")
def test_the_printed_step_of_uzawa_solves_only_what_is_viscous() -> None:
    """A fifth of the table of the theory page, which `benchmarks/gabion.py uzawa` prints in full."""
    for seed in range(40):
        step = random_step(seed)
        printed_or_none = seed % 4 < 2
        assert (step.mass[:, 0].mean() > largest_rho(step)) == printed_or_none
        assert solve_jump_uzawa(step, limit=3000).converged != printed_or_none


def test_uzawa_has_the_same_fixed_point_and_converges_below_its_bound_only() -> None:
    step = random_step(8, most=30)
    bound, jump = largest_rho(step), solve_jump(step)
    slow = solve_jump_uzawa(step, rho=0.9 * bound, tolerance=1e-10)
    assert (
        slow.converged and np.abs(slow.mean - jump.mean).max() < 1e-7
    )  # its changes are below 1e-10, errors above
    assert step.mass[:, 0].mean() > bound
    assert not solve_jump_uzawa(step, limit=1000).converged  # by default the printed rho, the mean mass


@pytest.mark.parametrize("mu", nscd_step.FRICTIONS)
def test_without_viscosity_it_is_nscd_without_restitution(mu: float) -> None:
    kept = load_arrays(nscd_step.path_of(mu))
    assert len(kept["a"]) > 60
    step = nscd_step.step_of(kept, mu)
    if (
        mu > 0.0
    ):  # faces that slide on each other share their load in many ways, and friction depends on which
        jump = solve_jump(step, tolerance=1e-8, start=kept["r"])
        assert jump.converged and jump.iterations == 0
    else:
        jump = solve_jump(step, tolerance=1e-10)
        assert jump.converged and jump.iterations > 0
    assert np.abs(jump.after - kept["after"]).max() < 1e-6  # nscd is solved to 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("mu", nscd_step.FRICTIONS)
def test_the_step_kept_of_nscd_is_that_of_nscd(mu: float) -> None:
    kept, made = load_arrays(nscd_step.path_of(mu)), nscd_step.make(mu)
    for name, array in kept.items():
        assert made[name] == pytest.approx(array, abs=1e-6)  # sixty steps after round-off


def test_bad_steps_are_refused() -> None:
    step = random_step(3, most=4)
    with pytest.raises(StudyError, match="masses and moments of inertia must be positive"):
        replace(step, mass=0.0 * step.mass)
    with pytest.raises(StudyError, match="k_n and k_t must not be negative"):
        replace(step, k_n=-1.0)
    with pytest.raises(StudyError, match=r"contacts name bodies up to \d+, but there are"):
        replace(step, b=step.b + 9)
    with pytest.raises(StudyError, match=r"or -1 for one that does not move; found -7 in a"):
        replace(step, a=np.full_like(step.a, -7))
    with pytest.raises(StudyError, match=r"expected \d+ whole numbers, found float64"):
        replace(step, b=step.b.astype(float))
    with pytest.raises(StudyError, match=r"b names a body for each of \d+ contacts"):
        replace(step, b=step.b[:-1])
    for name in ("k_n", "k_t", "mu"):
        with pytest.raises(StudyError, match=f"{name} must be a finite number, found inf"):
            replace(step, **{name: np.inf})


@pytest.mark.parametrize("name", ["mass", "before", "impulse", "rows"])
def test_what_is_no_number_or_too_short_is_refused(name: str) -> None:
    """The sweeps would end at once, since no number is larger than what is none, and say that all is well."""
    step = random_step(3, most=5)
    for bad in (np.inf, np.nan):
        wrong = getattr(step, name).copy()
        wrong.flat[0] = bad
        with pytest.raises(StudyError, match=rf"{name} must be finite numbers, found {bad} at \[0, 0"):
            replace(step, **{name: wrong})
    short = {"mass": "before"}.get(name, name)  # how many bodies there are is said by the masses
    with pytest.raises(StudyError, match=rf"{short} of \d+ bodies and \d+ contacts has the shape .*, found"):
        replace(step, **{name: getattr(step, name)[:-1]})


def test_solvers_refuse_what_they_cannot_start_from() -> None:
    step = random_step(3, most=5)
    for rho in (-1.0, 0.0, np.inf, np.nan):
        with pytest.raises(StudyError, match=rf"rho, a mass: it must be positive and finite, found {rho:g}"):
            solve_jump_uzawa(step, rho=rho)
    for solver in (solve_jump, solve_jump_uzawa):
        with pytest.raises(StudyError, match="tolerance of a jump must be a finite number"):
            solver(step, tolerance=np.nan)
    with pytest.raises(StudyError, match=r"start of \d+ contacts has the shape"):
        solve_jump(step, start=np.zeros((1, 3)))
    with pytest.raises(StudyError, match=r"start must be finite numbers, found nan at \[0, 0\]"):
        solve_jump(step, start=np.full((len(step.a), 3), np.nan))


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_what_overflows_has_not_converged() -> None:
    step = random_step(3, most=5)
    jump = solve_jump(replace(step, impulse=np.full_like(step.impulse, 1e308)))
    assert not jump.converged
