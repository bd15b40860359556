"""Dynamic relaxation: a static problem as the motion of fictitious masses, critically damped (SERA D27.1, C.1-C.8).

Masses are the smallest that the explicit scheme bears, ``M_ii = (1.1 dt)^2/4 sum_j |K_ij|`` (Gershgorin), so that the
highest frequency is at most ``2/(1.1 dt)``; damping is critical for the lowest. An error then falls as
``(1 + omega_0 t) exp(-omega_0 t)``, to 1e-6 after ``omega_0 t = 16.7``: some 9.2 omega_max/omega_0 steps, whatever dt.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import brentq

from tamis.errors import SimulationError
from tamis.sim.fire import kernels
from tamis.sim.fire.path import Path
from tamis.types import Array

FINENESS = 1.1  # by which the step is shorter than the limit of the scheme


def masses(stiffness: Array, dt: float) -> Array:
    """Return fictitious masses of a stiffness matrix (C.2)."""
    return np.asarray((FINENESS * dt) ** 2 / 4.0 * np.abs(stiffness).sum(axis=1))


def lowest(stiffness: Array, mass: Array) -> float:
    """Return the lowest circular frequency of a stiffness on diagonal masses; 0 where it is not positive definite."""
    least = float(eigh(stiffness, np.diag(mass), eigvals_only=True, subset_by_index=[0, 0])[0])
    return math.sqrt(max(0.0, least))


def steps_needed(omega: float, dt: float, error: float = 1e-6) -> float:
    """Return after how many steps the slowest error has fallen to ``error``, critically damped."""
    decay = float(brentq(lambda x: (1.0 + x) * math.exp(-x) - error, 0.0, 200.0))
    return decay / (omega * dt)


def dense(band: Array) -> Array:
    """Return the whole matrix of a symmetric band."""
    n, width = band.shape
    out = np.zeros((n, n))
    for k in range(width):
        rows = np.arange(n - k)
        out[rows + k, rows] = out[rows, rows + k] = band[: n - k, k]
    return out


def relax(path: Path, s: float, dt: float = 0.01, tolerance: float = 1e-10, most: int = 2_000_000) -> int:
    """Bring a structure to equilibrium at the parameter ``s`` by dynamic relaxation; return the number of steps.

    Masses and damping are those of the tangent where it stands. One that does not converge leaves the state as it was.
    """
    state = path.state
    tangent = dense(path.tangent(s))
    mass = masses(tangent, dt)
    omega = lowest(tangent, mass)
    if omega == 0.0:
        raise SimulationError(
            f"dynamic relaxation at {s:.6g} s: the tangent is not positive definite, so nothing comes to rest; the "
            f"state at {state.s:.6g} s is kept"
        )
    u = state.u.copy()
    status, took, relative = kernels.relax(
        path.frame, path.loading, u, s, state.plastic, path.trial, path.force, mass, dt, omega, tolerance, most
    )  # fmt: skip
    if status != kernels.CONVERGED:
        raise SimulationError(
            f"dynamic relaxation does not converge at {s:.6g} s: residual {relative:.3g} of the greatest force after "
            f"{took} steps, {tolerance:g} wanted; the state at {state.s:.6g} s is kept. A structure beyond its limit "
            "point has no rest to come to"
        )
    path.accept(u, s, 0)
    path.iterations += took
    return took
