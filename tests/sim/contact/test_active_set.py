"""Newton's method with an active set: its step is what it says, and it ends hard steps of walls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tamis.sim.contact.active_set import active_set_arrays, active_set_newton, newton_step
from tamis.sim.contact.linear import analyse
from tamis.sim.contact.newton import trial_arrays
from tamis.sim.contact.problem import impose
from tamis.sim.contact.solve import CONVERGED, FEW_BODIES, STRATEGY
from tamis.sim.contact.tuning import BOUT, DECIDE, STIFF
from tests.sim.contact.bodies import Problem, dense, ready, residuals, solved, stack, wall

STEPS = Path(__file__).parents[2] / "data" / "contact_steps"


def dumped(name):
    """A step and its warm start."""
    with np.load(STEPS / f"{name}.npz") as f:
        a, b = f["a"].astype(np.int64), f["b"].astype(np.int64)
        return Problem(a, b, f["G"], f["bias"], f["mu"], f["free"], np.ones_like(f["free"])), f["r"]


def test_a_step_fulfils_the_law_of_the_set_it_guesses():
    """Every equation of the essay, contact by contact, and momentum; all three states occur."""
    draw = np.random.default_rng(5)
    problem = wall(3, 4)
    problem.free[:] += 0.3 * draw.normal(size=problem.free.shape) * problem.scale
    contacts, work, _ = ready(problem)
    count, _ = analyse(len(problem.free), problem.a, problem.b, work.lu)
    n, weight = len(problem.a), work.local.weight
    step, scratch = np.zeros_like(problem.free), active_set_arrays(n)
    r = draw.normal(size=(n, 3)) / weight[:, None] * [0.5, 0.3, 0.3] + [[0.2 / weight.mean(), 0.0, 0.0]]
    w = problem.free.copy()
    impose(contacts, r, problem.free, w)
    assert newton_step(contacts, w, r, weight, DECIDE, STIFF, count, work.lu, step, scratch)
    dr, G = scratch.change, dense(problem)
    np.testing.assert_allclose(step.ravel(), G.T @ dr.ravel(), atol=1e-9 * np.abs(dr).max())
    u, du = (G @ w.ravel()).reshape(n, 3), (G @ G.T @ dr.ravel()).reshape(n, 3)
    rho = DECIDE / weight
    z, seen = r - rho[:, None] * u, set()
    for i in range(n):
        t, mu, soft = np.hypot(*z[i, 1:]), problem.mu[i], weight[i] / STIFF
        new, left = r[i] + dr[i], u[i] + du[i] + soft * dr[i]
        # in units of the terms that cancel; the matrix costs some digits
        close = 1e-8 * (np.abs(u[i]).max() + np.abs(du[i]).max())
        if z[i, 0] <= 0.0:
            seen.add("open")
            np.testing.assert_allclose(new, 0.0, atol=1e-12 * np.abs(r[i]).max())
        elif t <= mu * z[i, 0]:
            seen.add("sticks")
            np.testing.assert_allclose(left, 0.0, atol=close)
        else:
            seen.add("slips")
            d, k = z[i, 1:] / t, mu * z[i, 0] / t
            side = np.array([-d[1], d[0]])
            across = (
                (1.0 - k + rho[i] * soft) * (dr[i, 1:] @ side)
                + r[i, 1:] @ side
                + k * rho[i] * du[i, 1:] @ side
            )
            assert abs(left[0]) <= close
            assert abs(new[1:] @ d - mu * new[0]) <= close / soft
            assert abs(across) <= close * rho[i] / min(1.0 - k + rho[i] * soft, 1.0)
    assert seen == {"open", "sticks", "slips"}


@pytest.mark.parametrize("masses", [[1000.0] * 6, [1800.0, 10.0, 1800.0, 10.0, 1800.0]])
def test_light_bodies_between_heavy_ones_take_few_iterations(masses):
    """From nothing; sweeps alone need some multiple of the ratio of masses."""
    problem = stack(np.array(masses))
    contacts, work, scale = ready(problem)
    count, _ = analyse(len(problem.free), problem.a, problem.b, work.lu)
    w, r, n = problem.free.copy(), np.zeros((len(problem.a), 3)), len(problem.a)
    spent, found, worst = active_set_newton(
        *(contacts, w, r, work.local.weight, 1e-9 * scale, 20, count),
        *(work.lu, trial_arrays(work.free, n), active_set_arrays(n)),
    )
    own, velocities = residuals(problem, r)
    assert spent <= 12 and found <= 1e-9 * scale and own[worst] == own.max()
    np.testing.assert_allclose(w, velocities, atol=1e-12 * np.abs(problem.free).max())


@pytest.mark.parametrize(("seed", "tol"), [(19, 1e-9), (202, 1e-5)])
def test_one_more_step_does_not_lose_what_is_settled(seed, tol):
    """Two of 229 shaken stacks and walls: the last step made errors of the law smaller, the residual larger."""
    draw = np.random.default_rng(seed)
    if seed % 2:
        problem = wall(
            int(draw.integers(2, 4)), int(draw.integers(2, 5)), mu=float(draw.choice([0.1, 0.4, 0.9]))
        )
    else:
        masses = 10.0 ** draw.uniform(0, 3, int(draw.integers(2, 8)))
        problem = stack(masses, mu=float(draw.choice([0.1, 0.4, 0.9])))
    problem.free[:] += 10.0 ** draw.uniform(-4, 0) * draw.normal(size=problem.free.shape) * problem.scale
    contacts, work, scale = ready(problem)
    count, _ = analyse(len(problem.free), problem.a, problem.b, work.lu)
    w, r, n = problem.free.copy(), np.zeros((len(problem.a), 3)), len(problem.a)
    spent, found, _ = active_set_newton(
        *(contacts, w, r, work.local.weight, tol * scale, BOUT, count),
        *(work.lu, trial_arrays(work.free, n), active_set_arrays(n)),
    )
    assert spent < BOUT and found <= tol * scale


LONGEST = {  # sweeps and iterations: one and a half to three times those counted when this was written
    "articulated_20_45ms": 100,
    "articulated_20_135ms": 150,
    "articulated_28_125ms": 100,
    "wall_a": 100,
    "wall_b": 60,
}


@pytest.mark.parametrize("name", LONGEST)
def test_hard_steps_of_walls_are_solved(name):
    problem, r = dumped(name)
    found = solved(problem, 1e-6, r)
    assert found.status == CONVERGED and residuals(problem, found.r)[0].max() <= 1e-6
    assert found.report[STRATEGY] == FEW_BODIES and found.iterations <= LONGEST[name]
    again = solved(problem, 1e-6, r)
    np.testing.assert_array_equal(again.r, found.r)
