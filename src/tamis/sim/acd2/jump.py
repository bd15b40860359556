"""One velocity jump from arrays to arrays, by the method of choice or by the paper's, and its energies.

`solve_jump` sweeps over the contacts (`tamis.sim.acd2.solver`); `solve_jump_uzawa` is the iteration (a)-(d) of Dimnet
et al. (2013, 10.1007/s00707-013-0900-8) with conjugate gradients on their eq 25. Both have the same fixed point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.linalg import cg

from tamis.errors import StudyError
from tamis.sim.acd2.solver import last_arrays, local_arrays, relax
from tamis.sim.contact.problem import Contacts
from tamis.types import Array, Indices

TOLERANCE = 2e-13  # of the largest velocity at a contact
MOST_SWEEPS = 100_000


@dataclass(frozen=True, eq=False)
class Step:
    """Bodies and contacts at the instant of a jump; six velocities a body, so that the mass is a diagonal."""

    mass: Array  # (b, 6) three times the mass, then the principal moments of inertia
    before: Array  # (b, 6) U-: velocities before the jump
    impulse: Array  # (b, 6) M T: percussions that do not depend on velocities
    a: Indices  # (n,) bodies of each contact; -1: one that does not move
    b: Indices  # (n,)
    rows: Array  # (n, 3, 12) relative velocity of b against a from the velocities of both, normal first
    k_n: float  # kg
    k_t: float  # kg
    mu: float = 0.0  # dry friction

    def __post_init__(self) -> None:
        bodies, n = len(self.mass), len(self.a)
        for name, shape in (
            ("mass", (bodies, 6)), ("before", (bodies, 6)), ("impulse", (bodies, 6)), ("rows", (n, 3, 12)),
        ):  # fmt: skip
            _refuse_array(name, getattr(self, name), shape, f"{bodies} bodies and {n} contacts")
        if not (self.mass > 0.0).all():
            raise StudyError(f"masses and moments of inertia must be positive, found {self.mass.min():g}")
        for name in ("k_n", "k_t", "mu"):
            if not np.isfinite(getattr(self, name)):
                raise StudyError(f"{name} must be a finite number, found {getattr(self, name)}")
        if not (self.k_n >= 0.0 and self.k_t >= 0.0):
            raise StudyError(f"k_n and k_t must not be negative, found {self.k_n:g} and {self.k_t:g}")
        if not self.mu >= 0.0:
            raise StudyError(f"mu must not be negative, found {self.mu:g}")
        for name in ("a", "b"):
            named = np.asarray(getattr(self, name))
            if named.shape != (n,) or (n and named.dtype.kind not in "iu"):
                raise StudyError(
                    f"{name} names a body for each of {n} contacts, by its number: expected {n} whole numbers, found "
                    f"{named.dtype} of shape {named.shape}"
                )
            if n and named.max() >= bodies:
                raise StudyError(f"contacts name bodies up to {named.max()}, but there are {bodies}")
            if n and named.min() < -1:
                raise StudyError(
                    f"contacts name bodies from 0 on, or -1 for one that does not move; found {named.min()} in {name}"
                )


def _refuse_array(name: str, values: Array, shape: tuple[int, ...], what: str) -> None:
    """Refuse numbers of another shape than bodies or contacts ask for, and such as are none."""
    array = np.asarray(values)
    if array.shape != shape:
        raise StudyError(f"{name} of {what} has the shape {shape}, found {array.shape}")
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        raise StudyError(
            f"{name} must be finite numbers, found {array[tuple(wrong[0])]} at {wrong[0].tolist()}"
        )


@dataclass(frozen=True, eq=False)
class Jump:
    """Mean and final velocities, the multipliers of non-penetration, and what it took."""

    mean: Array  # (b, 6) X
    after: Array  # (b, 6) U+
    multiplier: Array  # (n,) lambda
    friction: Array  # (n, 2) dry part of the tangential percussions
    velocity: Array  # (n, 3) of the contacts, by X
    iterations: int
    residual: float  # of the largest velocity at a contact
    converged: bool

    def dissipated(self, step: Step) -> Array:
        """Return (n,): what each contact dissipates, by its pseudo-potentials and by not being passed."""
        v = self.velocity
        viscous = step.k_n * v[:, 0] ** 2 + step.k_t * (v[:, 1] ** 2 + v[:, 2] ** 2)
        return np.asarray(viscous - self.multiplier * v[:, 0] - (self.friction * v[:, 1:]).sum(axis=1))


def solve_jump(
    step: Step, tolerance: float = TOLERANCE, limit: int = MOST_SWEEPS, start: Array | None = None
) -> Jump:
    """Solve a jump by sweeps over its contacts, from nothing or from the impulses ``start`` (n, 3)."""
    n, count = len(step.a), len(step.mass)
    _refuse_tolerance(tolerance)
    if start is not None:
        _refuse_array("start", start, (n, 3), f"{n} contacts")
    root = np.sqrt(2.0 * step.mass)
    G = np.ascontiguousarray(step.rows, dtype=np.float64).reshape(n, 3, 2, 6).copy()
    for side, body in enumerate((step.a, step.b)):
        G[:, :, side] *= np.where(body[:, None] >= 0, 1.0 / root[body], 0.0)[:, None]
    rows = _rows(step)
    floor = 0.5 * (rows @ step.before.ravel()).reshape(n, 3)
    contacts = Contacts(
        np.asarray(step.a, np.int64), np.asarray(step.b, np.int64), G.reshape(n, 3, 12), -floor,
        np.full(n, float(step.mu)),
    )  # fmt: skip
    free = (2.0 * step.mass * step.before + step.impulse) / root
    speed = _speed(step, rows)
    w, r = free.copy(), np.zeros((n, 3)) if start is None else start.copy()
    sweeps, error = relax(
        contacts, free, w, r, step.k_n, step.k_t, tolerance * speed, limit, local_arrays(count, n),
        last_arrays(count, n),
    )  # fmt: skip
    mean = w / root
    v = (rows @ mean.ravel()).reshape(n, 3)
    closed = v[:, 0] - floor[:, 0] <= 1e-9 * speed  # else what is left of r + k v is of the residual
    multiplier = np.where(closed, np.maximum(r[:, 0] + step.k_n * v[:, 0], 0.0), 0.0)
    rubs = closed if step.mu > 0.0 else np.zeros(n, dtype=bool)
    friction = np.where(rubs[:, None], r[:, 1:] + step.k_t * v[:, 1:], 0.0)
    finite = np.isfinite(speed) and np.isfinite(mean).all()  # what overflows has a residual of nothing
    done = bool(finite and error <= tolerance * speed)
    return Jump(mean, 2.0 * mean - step.before, multiplier, friction, v, sweeps, error / speed, done)


def solve_jump_uzawa(
    step: Step, rho: float | None = None, tolerance: float = TOLERANCE, limit: int = 20_000
) -> Jump:
    """Solve a jump by the paper's iteration; ``rho`` is the mean mass unless it is given."""
    if step.mu > 0.0:
        raise StudyError(
            f"Uzawa's iteration of the paper has no friction, found mu = {step.mu:g}; use solve_jump"
        )
    _refuse_tolerance(tolerance)
    if rho is not None and not 0.0 < rho < np.inf:
        raise StudyError(
            f"Uzawa's iteration goes up by rho, a mass: it must be positive and finite, found {rho:g}"
        )
    n = len(step.a)
    rows = _rows(step)
    normal = csr_array(rows[::3])
    weight = np.tile([step.k_n, step.k_t, step.k_t], n)
    A = csr_array(diags_array(2.0 * step.mass.ravel()) + rows.T @ diags_array(weight) @ rows)
    b = (2.0 * step.mass * step.before + step.impulse).ravel()
    floor = 0.5 * (normal @ step.before.ravel())
    speed = _speed(step, rows)
    rho = float(step.mass[:, 0].mean()) if rho is None else rho
    preconditioner = diags_array(1.0 / A.diagonal())
    multiplier, x, error = np.zeros(n), step.before.ravel().copy(), np.inf  # (a)
    count = 0
    while count < limit:
        count += 1
        x, _ = cg(
            A, b + normal.T @ multiplier, x, rtol=1e-14, atol=0.0, maxiter=len(b), M=preconditioner
        )  # (b)
        following = np.maximum(0.0, multiplier + rho * (floor - normal @ x))  # (c)
        error = float(np.abs(following - multiplier).max(initial=0.0)) / rho / speed
        multiplier = following
        if error <= tolerance or not np.isfinite(error):  # (d)
            break
    mean = x.reshape(step.mass.shape)
    v = (rows @ x).reshape(n, 3)
    return Jump(
        mean, 2.0 * mean - step.before, multiplier, np.zeros((n, 2)), v, count, error, error <= tolerance
    )


def _refuse_tolerance(tolerance: float) -> None:
    if not 0.0 <= tolerance < np.inf:
        raise StudyError(
            f"the tolerance of a jump must be a finite number, not negative; found {tolerance:g}"
        )


def largest_rho(step: Step) -> float:
    """Return the bound below which Uzawa's iteration converges: 2/lambda_max(B (2M+K)^-1 B')."""
    if not len(step.a):
        return np.inf
    rows = _rows(step).toarray()
    weight = np.tile([step.k_n, step.k_t, step.k_t], len(step.a))
    A = np.diag(2.0 * step.mass.ravel()) + (rows.T * weight) @ rows
    normal = rows[::3]
    return float(2.0 / np.linalg.eigvalsh(normal @ np.linalg.solve(A, normal.T))[-1])


def _rows(step: Step) -> csr_array:
    """Return B: velocities of the contacts from those of the bodies."""
    n = len(step.a)
    body = np.stack([step.a, step.b], axis=1)  # (n, 2)
    blocks = np.asarray(step.rows, dtype=np.float64).reshape(n, 3, 2, 6)
    held = np.broadcast_to((body >= 0)[:, None, :, None], blocks.shape)
    row = np.broadcast_to(3 * np.arange(n)[:, None, None, None] + np.arange(3)[:, None, None], blocks.shape)
    column = np.broadcast_to(6 * body[:, None, :, None] + np.arange(6), blocks.shape)
    shape = (3 * n, step.mass.size)
    return csr_array(coo_array((blocks[held], (row[held], column[held])), shape=shape))


def _speed(step: Step, rows: csr_array) -> float:
    """Return the largest velocity at a contact that the bodies would have without contacts, which errors are of."""
    free = (2.0 * step.before + step.impulse / step.mass).ravel()
    return max(float(np.abs(rows @ free).max(initial=0.0)), 1e-300)
