"""Random step problems: bodies with contacts at random points and directions, some of them on what does not move."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from tamis.sim.acd2.jump import Step


def random_step(
    seed: int, most: int = 200, k: tuple[float, float] | None = None, closing: bool = False
) -> Step:
    """Up to ``most`` bodies and three contacts a body; grains of a kilogram and a tenth of a metre.

    Half of the contacts separate before the jump, unless all are to be ``closing``, as those of bodies that have come
    together are.
    """
    rng = np.random.default_rng(seed)
    bodies = int(rng.integers(1, most + 1))
    n = int(rng.integers(1, 3 * bodies + 1))
    mass = rng.uniform(0.4, 1.6, bodies)
    inertia = mass[:, None] * 0.03**2 * rng.uniform(0.5, 1.5, (bodies, 3))
    b = rng.integers(0, bodies, n)
    a = (b + rng.integers(1, max(bodies, 2), n)) % bodies
    a[(rng.random(n) < 0.1) | (a == b)] = -1
    rows = np.zeros((n, 3, 12))
    for i in range(n):
        frame = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        for side, sign in ((0, -1.0), (1, 1.0)):
            arm = rng.uniform(-0.05, 0.05, 3)
            rows[i, :, 6 * side : 6 * side + 3] = sign * frame
            rows[i, :, 6 * side + 3 : 6 * side + 6] = sign * np.cross(arm, frame)
    rows[a < 0, :, :6] = 0.0
    before = np.concatenate(
        [rng.standard_normal((bodies, 3)), 10.0 * rng.standard_normal((bodies, 3))], axis=1
    )
    full = np.concatenate([np.repeat(mass[:, None], 3, axis=1), inertia], axis=1)
    impulse = full * rng.standard_normal((bodies, 6)) * 0.1
    if k is None:
        k = ((5e-4, 3e-4), (0.0, 0.0), (0.5, 0.2), (5.0, 3.0))[seed % 4]
    step = Step(full, before, impulse, a, b, rows, *k)
    if closing:
        rows[:, 0] *= -np.sign(dense(step)[0][::3] @ before.ravel())[:, None]
    return step


def dense(step: Step) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of all contacts, and 2M + K."""
    n = len(step.a)
    rows = np.zeros((3 * n, step.mass.size))
    for i in range(n):
        for side, body in enumerate((step.a[i], step.b[i])):
            if body >= 0:
                rows[3 * i : 3 * i + 3, 6 * body : 6 * body + 6] += step.rows[i, :, 6 * side : 6 * side + 6]
    weight = np.tile([step.k_n, step.k_t, step.k_t], n)
    return rows, np.diag(2.0 * step.mass.ravel()) + (rows.T * weight) @ rows


def by_nnls(step: Step) -> np.ndarray:
    """Return X from the dual problem: with A = L L', least squares of L^-1 B' lambda under lambda >= 0."""
    rows, A = dense(step)
    normal = rows[::3]
    L = np.linalg.cholesky(A)
    C = solve_triangular(L, normal.T, lower=True)
    free = solve_triangular(L, (2.0 * step.mass * step.before + step.impulse).ravel(), lower=True)
    multiplier, _ = nnls(C, 0.5 * L.T @ step.before.ravel() - free, maxiter=30 * len(step.a))
    return solve_triangular(L.T, free + C @ multiplier).reshape(step.mass.shape)
