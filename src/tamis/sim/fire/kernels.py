"""Plane frames of steel fibres in large rotations: assembly, factorisation, equilibrium by Newton and by arc length.

The element (Crisfield 1991, Non-linear Finite Element Analysis of Solids and Structures 1, chapter 7)
------------------------------------------------------------------------------------------------------
A chord that turns with the element takes the rigid motion off; what is left, stretch and two end rotations, is small
and obeys Bernoulli's beam: axial strain constant, curvature linear. Stresses are summed over fibres at two Gauss
points along the element. So rotations may be as large as they like and strains may not. Whatever is exact in the small
beam stays so: a cantilever rolled up by its end moment closes with five elements.

Why a banded factorisation of our own
-------------------------------------
The tangent is symmetric, its half-band some 30 where nodes are numbered across the frame, and it is factored a
thousand times a run. LAPACK factors symmetric bands only where they are positive definite, and an equilibrium path
through a limit point is where they are not; its general band solver hides the signs. ``L D L'`` without exchange of
rows keeps them: as many eigenvalues are negative as pivots (Sylvester), which is how a stable state is known from an
unstable one, and a pivot of nothing names the degree of freedom that no stiffness holds. Columns lie one after the
other, so that the elimination of a column is a sum of multiples of neighbours in memory.

One unknown more
----------------
Loads and temperatures follow a parameter ``s``: loads are ``load0 + s load1``, temperatures those of a table at the
time ``s``. At given ``s`` this is Newton's method. With a step ``(step_u, step_s)`` whose radius is positive, ``s`` is
an unknown and the correction stays normal to that step (Riks 1979, 10.1016/0020-7683(79)90081-7): limit points of
loads and of temperatures are passed in the same way. Fibres remember what they had at the last state that was
accepted, so that iterations leave no trace."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner, kernel
from tamis.sim.fire.steel import LINEAR, properties, stress

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]

CONVERGED, TOO_MANY, SINGULAR, WILD = 0, 1, 2, 3
_NOTHING = 1e-11  # of a diagonal: a pivot below is a degree of freedom that nothing holds
_ROUND = 1e-3  # of the force that would undo the deformation: what residuals are judged by where it is more
_ROOT = 0.5 / math.sqrt(3.0)


class Elements(NamedTuple):
    """Elements and what they are made of; numbers of degrees of freedom from ``len(spring)`` on are supports."""

    dof: Numbers  # (m, 6): x, y, rotation at both ends
    x: Vector  # (m,) from the first end to the second, unloaded
    y: Vector
    length: Vector
    section: Numbers  # (m,)
    heat: Numbers  # (m,) row of the temperatures
    level: Matrix  # (sections, fibres): height above the axis
    area: Matrix  # (sections, fibres)
    depth: Vector  # (sections,)
    steel: Matrix  # (sections, 5), see `steel.properties`
    spring: Vector  # (free,) to the ground


class Loading(NamedTuple):
    """What follows the parameter: load0 + s load1, and temperatures (times, groups, bottom and top)."""

    load0: Vector
    load1: Vector
    times: Vector
    table: NDArray[np.float64]


@inner
def interpolate(loading: Loading, s: float, out: Matrix) -> None:
    """Write the temperatures at a time; before the first and after the last of the table those."""
    times, table = loading.times, loading.table
    if len(times) == 1 or s <= times[0]:
        out[:] = table[0]
        return
    if s >= times[-1]:
        out[:] = table[-1]
        return
    i = np.searchsorted(times, s, side="right") - 1
    x = (s - times[i]) / (times[i + 1] - times[i])
    for g in range(out.shape[0]):
        for k in range(2):
            out[g, k] = table[i, g, k] + x * (table[i + 1, g, k] - table[i, g, k])


@inner
def wrapped(angle: float) -> float:
    """Return an angle within half a turn of zero."""
    return angle - 2.0 * math.pi * round(angle / (2.0 * math.pi))


@inner
def deformation(frame: Elements, e: int, u: Vector) -> tuple[float, float, float, float, float, float]:
    """Return stretch and end rotations of an element against its chord, and the chord with its length."""
    dof = frame.dof[e]
    x0, y0, length = frame.x[e], frame.y[e], frame.length[e]
    dx, dy = u[dof[3]] - u[dof[0]], u[dof[4]] - u[dof[1]]
    if frame.steel[frame.section[e], 0] == LINEAR:
        turn = (x0 * dy - y0 * dx) / (length * length)
        return (x0 * dx + y0 * dy) / length, u[dof[2]] - turn, u[dof[5]] - turn, x0, y0, length
    x, y = x0 + dx, y0 + dy
    now = math.sqrt(x * x + y * y)
    stretch = ((x0 + x) * dx + (y0 + y) * dy) / (now + length)
    chord = math.atan2(x0 * y - y0 * x, x0 * x + y0 * y)
    return stretch, wrapped(u[dof[2]] - chord), wrapped(u[dof[5]] - chord), x, y, now


@inner
def basic(
    frame: Elements,
    e: int,
    stretch: float,
    turn1: float,
    turn2: float,
    temperatures: Matrix,
    plastic: NDArray[np.float64],
    trial: NDArray[np.float64],
    q: Vector,
    k: Matrix,
) -> None:
    """Write forces and tangent of stretch and end rotations; plastic strains that follow go to ``trial``."""
    section, length = frame.section[e], frame.length[e]
    bottom, top = temperatures[frame.heat[e], 0], temperatures[frame.heat[e], 1]
    level, area, steel = frame.level[section], frame.area[section], frame.steel[section]
    even = top == bottom
    modulus, limit, strength, slope, thermal = properties(steel, 0.5 * (bottom + top))
    q[:] = 0.0
    k[:] = 0.0
    for g in range(2):
        xi = 0.5 - _ROOT if g == 0 else 0.5 + _ROOT
        c1, c2 = (6.0 * xi - 4.0) / length, (6.0 * xi - 2.0) / length
        curvature = c1 * turn1 + c2 * turn2
        axial, moment, ea, es, ei = 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(len(level)):
            a, y = area[i], level[i]
            if a == 0.0:
                continue
            if not even:
                here = bottom + (top - bottom) * (0.5 + y / frame.depth[section])
                modulus, limit, strength, slope, thermal = properties(steel, here)
            strain = stretch / length - y * curvature - thermal
            p, low, high = plastic[0, e, g, i], plastic[1, e, g, i], plastic[2, e, g, i]
            s, tangent = stress(strain, p, low, high, modulus, limit, strength, slope)
            if tangent != modulus:
                p = strain - s / modulus
                low, high = min(low, p), max(high, p)
            trial[0, e, g, i], trial[1, e, g, i], trial[2, e, g, i] = p, low, high
            axial += a * s
            moment -= a * y * s
            ea += a * tangent
            es -= a * y * tangent
            ei += a * y * y * tangent
        q[0] += 0.5 * axial
        q[1] += 0.5 * length * c1 * moment
        q[2] += 0.5 * length * c2 * moment
        k[0, 0] += 0.5 * ea / length
        k[0, 1] += 0.5 * c1 * es
        k[0, 2] += 0.5 * c2 * es
        k[1, 1] += 0.5 * length * c1 * c1 * ei
        k[1, 2] += 0.5 * length * c1 * c2 * ei
        k[2, 2] += 0.5 * length * c2 * c2 * ei
    k[1, 0], k[2, 0], k[2, 1] = k[0, 1], k[0, 2], k[1, 2]


@inner
def assemble(
    frame: Elements,
    u: Vector,
    temperatures: Matrix,
    plastic: NDArray[np.float64],
    trial: NDArray[np.float64],
    force: Vector,
    band: Matrix,
) -> float:
    """Write internal forces of all degrees of freedom and, where the band has room, the tangent of the free ones.

    ``band[j, i - j]`` is row ``i`` of column ``j``. Returns the greatest force of an element, by which residuals are
    judged.
    """
    free = len(frame.spring)
    tangent = band.shape[0] > 0
    force[:] = 0.0
    if tangent:
        band[:] = 0.0
    for j in range(free):
        force[j] = frame.spring[j] * u[j]
        if tangent:
            band[j, 0] = frame.spring[j]
    q, k = np.empty(3), np.empty((3, 3))
    b, z, w = np.zeros((3, 6)), np.zeros(6), np.zeros((3, 6))
    largest = 0.0
    for e in range(len(frame.length)):
        dof = frame.dof[e]
        stretch, turn1, turn2, x, y, now = deformation(frame, e, u)
        linear = frame.steel[frame.section[e], 0] == LINEAR
        basic(frame, e, stretch, turn1, turn2, temperatures, plastic, trial, q, k)
        # where nothing resists, forces are round-off of this
        gross = k[0, 0] * (abs(stretch) + frame.depth[frame.section[e]] * (abs(turn1) + abs(turn2)))
        largest = max(largest, _ROUND * gross)
        c, s = x / now, y / now
        b[0, 0], b[0, 1], b[0, 3], b[0, 4] = -c, -s, c, s
        z[0], z[1], z[3], z[4] = s, -c, -s, c
        for i in range(6):
            b[1, i] = b[2, i] = -z[i] / now
        b[1, 2] += 1.0
        b[2, 5] += 1.0
        for i in range(6):
            part = b[0, i] * q[0] + b[1, i] * q[1] + b[2, i] * q[2]
            force[dof[i]] += part
            largest = max(largest, abs(part))
        if not tangent:
            continue
        for r in range(3):
            for i in range(6):
                w[r, i] = k[r, 0] * b[0, i] + k[r, 1] * b[1, i] + k[r, 2] * b[2, i]
        pull, shear = q[0] / now, (q[1] + q[2]) / (now * now)
        if linear:
            pull = shear = 0.0
        for i in range(6):
            for j in range(6):
                if dof[i] >= free or dof[j] > dof[i]:
                    continue
                value = b[0, i] * w[0, j] + b[1, i] * w[1, j] + b[2, i] * w[2, j]
                value += pull * z[i] * z[j] + shear * (b[0, i] * z[j] + z[i] * b[0, j])
                band[dof[j], dof[i] - dof[j]] += value
    return largest


@inner
def factor(band: Matrix) -> tuple[int, int]:
    """Turn a band into L D L'; return the number of negative pivots and the row of one that is nothing, or -1."""
    n, width = band.shape
    negative = 0
    before = band[:, 0].copy()
    for k in range(n):
        d = band[k, 0]
        if not abs(d) > _NOTHING * abs(before[k]):
            return negative, k
        negative += d < 0.0
        last = min(width, n - k)
        for j in range(1, last):
            share = band[k, j] / d
            if share != 0.0:
                column = band[k + j]
                for i in range(j, last):
                    column[i - j] -= share * band[k, i]
        for j in range(1, last):
            band[k, j] /= d
    return negative, -1


@inner
def substitute(band: Matrix, x: Vector) -> None:
    """Solve with a factored band, in place."""
    n, width = band.shape
    for k in range(n):
        value = x[k]
        if value != 0.0:
            for j in range(1, min(width, n - k)):
                x[k + j] -= band[k, j] * value
    for k in range(n - 1, -1, -1):
        value = x[k] / band[k, 0]
        for j in range(1, min(width, n - k)):
            value -= band[k, j] * x[k + j]
        x[k] = value


@kernel
def equilibrium(
    frame: Elements,
    loading: Loading,
    u: Vector,
    s: float,
    plastic: NDArray[np.float64],
    trial: NDArray[np.float64],
    force: Vector,
    band: Matrix,
    step_u: Vector,
    step_s: float,
    radius: float,
    tolerance: float,
    most: int,
) -> tuple[int, int, float, float, int, int]:
    """Bring ``u`` into equilibrium at ``s``, or, with a radius, ``u`` and ``s`` normal to a step.

    Returns status, iterations, ``s``, the residual as a part of the greatest force, negative pivots at the last
    factorisation, and the row that has no stiffness, or -1. Internal forces, those of supports included, stand in
    ``force``; the tangent is left unfactored.
    """
    free = len(frame.spring)
    temperatures = np.empty(loading.table.shape[1:])
    warmer = np.empty(loading.table.shape[1:])
    other, none = np.empty(len(force)), np.empty((0, 0))
    heats = len(loading.times) > 1
    residual, along = np.empty(free), np.zeros(free)
    negative, relative = -1, math.inf
    scale = 0.0
    for i in range(free):
        scale = max(scale, abs(loading.load0[i] + s * loading.load1[i]))
    for iteration in range(most):
        interpolate(loading, s, temperatures)
        largest = assemble(frame, u, temperatures, plastic, trial, force, band)
        worst = 0.0
        for i in range(free):
            residual[i] = loading.load0[i] + s * loading.load1[i] - force[i]
            if not abs(residual[i]) < 1e30:
                return WILD, iteration, s, math.inf, negative, -1
            worst = max(worst, abs(residual[i]))
        relative = worst / max(largest, scale, 1e-30)
        if worst == 0.0 or relative <= tolerance:
            return CONVERGED, iteration, s, relative, negative, -1
        if iteration == most - 1:
            break
        if radius > 0.0:
            for i in range(free):
                along[i] = loading.load1[i]
            if heats:
                ds = 1e-6 * (loading.times[-1] - loading.times[0])
                interpolate(loading, s + ds, warmer)
                assemble(frame, u, warmer, plastic, trial, other, none)
                for i in range(free):
                    along[i] -= (other[i] - force[i]) / ds
        negative, nothing = factor(band)
        if nothing >= 0:
            return SINGULAR, iteration, s, relative, negative, nothing
        substitute(band, residual)
        change = 0.0
        if radius > 0.0:
            substitute(band, along)
            top, below = 0.0, step_s
            for i in range(free):
                top += step_u[i] * residual[i]
                below += step_u[i] * along[i]
            change = -top / below
        for i in range(free):
            u[i] += residual[i] + change * along[i]
        s += change
    return TOO_MANY, most, s, relative, negative, -1


@kernel
def direction(
    frame: Elements,
    loading: Loading,
    u: Vector,
    s: float,
    plastic: NDArray[np.float64],
    trial: NDArray[np.float64],
    force: Vector,
    band: Matrix,
    along: Vector,
) -> tuple[int, int]:
    """Write the change of ``u`` with ``s``; return negative pivots and the row that has no stiffness, or -1."""
    free = len(frame.spring)
    temperatures = np.empty(loading.table.shape[1:])
    interpolate(loading, s, temperatures)
    other, none = np.empty(len(force)), np.empty((0, 0))
    assemble(frame, u, temperatures, plastic, trial, force, band)
    for i in range(free):
        along[i] = loading.load1[i]
    if len(loading.times) > 1:
        ds = 1e-6 * (loading.times[-1] - loading.times[0])
        interpolate(loading, s + ds, temperatures)
        assemble(frame, u, temperatures, plastic, trial, other, none)
        for i in range(free):
            along[i] -= (other[i] - force[i]) / ds
    negative, nothing = factor(band)
    if nothing < 0:
        substitute(band, along)
    return negative, nothing


@kernel
def tangent_of(
    frame: Elements,
    loading: Loading,
    u: Vector,
    s: float,
    plastic: NDArray[np.float64],
    trial: NDArray[np.float64],
    force: Vector,
    band: Matrix,
) -> int:
    """Write internal forces and the tangent at ``s``."""
    temperatures = np.empty(loading.table.shape[1:])
    interpolate(loading, s, temperatures)
    assemble(frame, u, temperatures, plastic, trial, force, band)
    return 0


@kernel
def relax(
    frame: Elements,
    loading: Loading,
    u: Vector,
    s: float,
    plastic: NDArray[np.float64],
    trial: NDArray[np.float64],
    force: Vector,
    mass: Vector,
    dt: float,
    omega: float,
    tolerance: float,
    most: int,
) -> tuple[int, int, float]:
    """Bring ``u`` to rest by dynamic relaxation at ``s``: Newmark (1/2, 0), damping 2 omega M (C.1-C.8).

    Returns status, iterations and the residual as a part of the greatest force.
    """
    free = len(frame.spring)
    temperatures, none = np.empty(loading.table.shape[1:]), np.empty((0, 0))
    interpolate(loading, s, temperatures)
    v, a = np.zeros(free), np.zeros(free)
    relative = math.inf
    for iteration in range(most):
        if iteration > 0:
            for i in range(free):
                u[i] += dt * v[i] + 0.5 * dt * dt * a[i]  # C.5
                v[i] += 0.5 * dt * a[i]
        largest = assemble(frame, u, temperatures, plastic, trial, force, none)
        worst = 0.0
        for i in range(free):
            residual = loading.load0[i] + s * loading.load1[i] - force[i]
            if not abs(residual) < 1e30:
                return WILD, iteration, math.inf
            worst = max(worst, abs(residual))
            a[i] = (residual / mass[i] - 2.0 * omega * v[i]) / (1.0 + omega * dt)  # C.6, C.8
            v[i] += 0.5 * dt * a[i]
        relative = worst / max(largest, 1e-30)
        if relative <= tolerance:
            return CONVERGED, iteration, relative
    return TOO_MANY, most, relative


@kernel
def stresses(
    frame: Elements, u: Vector, temperature: float, plastic: NDArray[np.float64], out: NDArray[np.float64]
) -> int:
    """Write the stresses of all fibres at one temperature, with plastic strains that are those of this state."""
    for e in range(len(frame.length)):
        stretch, turn1, turn2, _, _, _ = deformation(frame, e, u)
        section, length = frame.section[e], frame.length[e]
        modulus, _, _, _, thermal = properties(frame.steel[section], temperature)
        for g in range(2):
            xi = 0.5 - _ROOT if g == 0 else 0.5 + _ROOT
            curvature = ((6.0 * xi - 4.0) * turn1 + (6.0 * xi - 2.0) * turn2) / length
            for i in range(frame.level.shape[1]):
                strain = stretch / length - frame.level[section, i] * curvature - thermal
                out[e, g, i] = modulus * (strain - plastic[0, e, g, i])
    return 0
