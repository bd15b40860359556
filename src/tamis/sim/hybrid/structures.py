"""Subdomains of the plant: tank, bearings, and the piping in two ways."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import eigh

from tamis.sim.common.subdomains import Subdomain
from tamis.sim.hybrid.scene import Plant
from tamis.types import Array

BASE = "base"  # the node that slides
_CHAIN = (30, 166.267, 5757090.0)  # masses, kg each, N/m each
_ZETA = 0.02  # of the first mode of the piping, stiffness-proportional
_SHARE = 0.1  # of the sliding mass that the bearings leave, for the end of the chain
_STEEL, _WATER, _E = 7850.0, 1000.0, 2.1e11
_PIPES = ((0.21908, 8.18e-3), (0.16828, 7.11e-3))  # outer diameter and wall: 8 inches, 6 inches
_ELEMENTS, _LENGTH = 15, 2.0  # half of each pipe; metres each
_VALVE, _VALVES = 1000.0, (5, 10)  # kg, at these nodes


def parts(case: Plant) -> list[Subdomain]:
    """Return tank, bearings and piping; the mass that slides is shared among them, whatever the shares."""
    lent = case.mass_fraction * case.m_s
    end = _SHARE * (case.m_s - lent) if case.piping == "chain" else 0.0  # a pipe has mass of its own there
    both = [tank(case, case.m_s - lent - end), bearings(case, lent)]
    if case.piping == "none":
        return both
    return [*both, chain(end) if case.piping == "chain" else beam()]


def tank(case: Plant, base: float) -> Subdomain:
    """Return base, impulsive and convective mass (B.81), with this much mass at the base."""

    def between(i: float, c: float) -> Array:
        return np.array([[i + c, -i, -c], [-i, i, 0.0], [-c, 0.0, c]])

    mass = np.array([base, case.m_i, case.m_c])
    return Subdomain(
        "tank",
        mass,
        between(case.k_i, case.k_c),
        {BASE: 0},
        damping=between(case.c_i, case.c_c),
        pattern=-mass,
    )


def bearing_law(case: Plant) -> tuple[float, float, float]:
    """Return stiffness of one bearing, its share after sliding begins, and the displacement at which it does (B.76)."""
    return (
        case.friction * case.weight / case.elastic,
        case.elastic / (case.friction * case.radius),
        case.elastic,
    )


def bearings(case: Plant, base: float) -> Subdomain:
    """Return the four bearings, elastic, with this much mass of the base."""
    mass, stiffness = np.array([base]), np.array([[4.0 * bearing_law(case)[0]]])
    return Subdomain("bearings", mass, stiffness, {BASE: 0}, pattern=-mass, scheme="explicit", fine=True)


def chain(base: float) -> Subdomain:
    """Return a chain of masses between the base, with this much of its mass, and a fixed point: 3 Hz."""
    n, mass, k = _CHAIN
    stiffness = 2.0 * k * np.eye(n + 1) - k * np.eye(n + 1, k=1) - k * np.eye(n + 1, k=-1)
    stiffness[0, 0] = k
    masses = np.concatenate([[base], np.full(n, mass)])
    return _damped("piping", np.diag(masses), stiffness, masses)


def beam() -> Subdomain:
    """Return a pipe full of water, from the base to a fixed end, that bends: 8 inches, then 6, with two valves.

    Sections and valves are printed; lengths are not: fifteen elements of two metres are a choice.
    """
    n, h = _ELEMENTS, _LENGTH
    mass, stiffness = np.zeros((2 * n + 2, 2 * n + 2)), np.zeros((2 * n + 2, 2 * n + 2))
    for e in range(n):
        outer, wall = _PIPES[0] if e < (n + 1) // 2 else _PIPES[1]
        inner = outer - 2.0 * wall
        bending = _E * math.pi / 64.0 * (outer**4 - inner**4)
        line = math.pi / 4.0 * (_STEEL * (outer**2 - inner**2) + _WATER * inner**2)
        at = slice(2 * e, 2 * e + 4)
        stiffness[at, at] += bending / h**3 * np.array([
            [12, 6 * h, -12, 6 * h], [6 * h, 4 * h * h, -6 * h, 2 * h * h],
            [-12, -6 * h, 12, -6 * h], [6 * h, 2 * h * h, -6 * h, 4 * h * h],
        ])  # fmt: skip
        mass[at, at] += line * h / 420.0 * np.array([
            [156, 22 * h, 54, -13 * h], [22 * h, 4 * h * h, 13 * h, -3 * h * h],
            [54, 13 * h, 156, -22 * h], [-13 * h, -3 * h * h, -22 * h, 4 * h * h],
        ])  # fmt: skip
    for node in _VALVES:
        mass[2 * node, 2 * node] += _VALVE
    moved = np.tile([1.0, 0.0], n + 1)
    free = slice(0, 2 * n)  # the last node is clamped
    return _damped("piping", mass[free, free], stiffness[free, free], (mass @ moved)[free])


def _damped(name: str, mass: Array, stiffness: Array, dragged: Array) -> Subdomain:
    """Return piping whose first mode, both ends held, has its damping."""
    held = slice(1, None)
    omega = math.sqrt(float(eigh(stiffness[held, held], mass[held, held], eigvals_only=True)[0]))
    return Subdomain(name, mass, stiffness, {BASE: 0}, rayleigh=(0.0, 2.0 * _ZETA / omega), pattern=-dragged)
