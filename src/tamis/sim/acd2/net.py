"""The net of a gabion: a force on each grain by the volume that pokes out of its box, and its stiffness.

A side of the box pushes a grain back by ``k V`` at the centroid of the part outside, as water pushes a hull: the force
has the potential ``k`` times the integral of the depth over that part. Its stiffness is therefore ``k`` times the
integral of ``c c'`` over the section of the grain with the side, ``c`` being the row that turns the velocities of
the grain into that of a point along the normal; the part that turning adds is left out, which keeps it positive.

With ``k`` = 1e11 N/m3 a corner is soft and a face is hard: 30 cm2 are 3e8 N/m, and a grain of 0.9 kg on such a spring
would need steps below 1.1e-4 s by an explicit rule. So the force at the end of the *next* step is taken, to first
order, ``f - h H U+``: ``(2M + 2h^2 H) X = 2M U- + h f + h^2 H U- + G' r``. For a spring that is stable at any step.
As the force grows at least in proportion to the depth, ``f <= H d``: a grain that has come ``d`` too far is sent back
by ``d/h`` at most, no faster than it came. With the force in the middle of the next step, stable as well for a spring
that lasts, a face that meets the net would come back with twice its speed.

A grain may rub on the net. The threshold ``mu k V`` is known before the jump. Against the slip of the centroid, and
against spin on the radius of gyration of the section, the percussion is ``-D U+`` with ``D = h mu k V/|slip before|``:
one more block a grain, of the parabola that touches the pseudo-potential ``h mu k V |slip|`` from above at the slip
before the jump. Slip that nothing drives dies out quadratically and never turns round; driven below the threshold it
dies out geometrically. Driven above it it also grows no faster than that, which is for rest, not for impacts.

Volume, centroid and section come from one pass over the faces, each cut by the side (Sutherland & Hodgman 1974,
10.1145/360767.360802). Tetrahedra from a point of the side to the cut faces add up to the volume, as those of the
section are flat; the section's moments are sums over the cuts, by Green's formula.
"""

from __future__ import annotations

import math

import numpy as np

from tamis.jit import inner
from tamis.sim.common.geometry import Floats, Geometry, World
from tamis.sim.common.rotations import matrix
from tamis.sim.common.vectors import Vector, along, cross, dot, minus, row

SLOWEST = 1e-7  # m/s: slip below which a grain is at rest on the net


@inner
def outside(
    geometry: Geometry, world: World, grain: int, axis: int, sign: float, limit: float, out: Floats
) -> float:
    """Return the volume of a grain beyond ``sign x[axis] = limit``.

    ``out`` receives the first moments of that volume (3), then of the section the area, the first moments and the
    second moments ss, st, tt: coordinates s and t follow ``axis`` in turn, all from the centre of the grain, whose
    coordinate along the axis is replaced by that of the side.
    """
    j, k = (axis + 1) % 3, (axis + 2) % 3
    base = np.empty(3)
    for i in range(3):
        base[i] = world.centre[grain, i]
    base[axis] = sign * limit
    foot: Vector = (base[0], base[1], base[2])
    out[:] = 0.0
    volume = 0.0
    for f in range(geometry.face_start[grain], geometry.face_start[grain + 1]):
        first, last = geometry.loop_start[f], geometry.loop_start[f + 1]
        here = minus(row(world.vertices, geometry.loops[last - 1]), foot)
        depth = sign * here[axis]
        count, cuts = 0, 0
        apex, before, entry, leave = here, here, here, here
        for m in range(first, last):
            there = minus(row(world.vertices, geometry.loops[m]), foot)
            deep = sign * there[axis]
            for part in range(2):  # the cut of the edge, then its end
                if part == 0:
                    if (depth > 0.0) == (deep > 0.0):
                        continue
                    point = along(here, depth / (depth - deep), minus(there, here))
                    cuts += 1
                    if deep > 0.0:
                        entry = point
                    else:
                        leave = point
                else:
                    if deep <= 0.0:
                        continue
                    point = there
                count += 1
                if count == 1:
                    apex = point
                elif count > 2:
                    share = dot(apex, cross(before, point)) / 6.0
                    volume += share
                    for i in range(3):
                        out[i] += 0.25 * share * (apex[i] + before[i] + point[i])
                before = point
            here, depth = there, deep
        if cuts == 2:
            s1, t1, s2, t2 = leave[j], leave[k], entry[j], entry[k]
            twice = sign * (s1 * t2 - s2 * t1)
            out[3] += twice / 2.0
            out[4] += twice * (s1 + s2) / 6.0
            out[5] += twice * (t1 + t2) / 6.0
            out[6] += twice * (s1 * s1 + s1 * s2 + s2 * s2) / 12.0
            out[7] += twice * (s1 * t2 + 2.0 * s1 * t1 + 2.0 * s2 * t2 + s2 * t1) / 24.0
            out[8] += twice * (t1 * t1 + t1 * t2 + t2 * t2) / 12.0
    return volume


@inner
def rub(R: Floats, axis: int, arm: Vector, radius: float, v: Floats, most: float, D: Floats) -> None:
    """Add the friction of a grain, at most ``most``, on a plane across an axis: a percussion ``-D U+``.

    It acts at a point, and against spin about the axis on ``radius``, the radius of gyration of the section.
    """
    rows = np.zeros((3, 6))
    square = 0.0
    for side in range(3):
        j, k = (axis + 1 + side) % 3, (axis + 2 + side) % 3  # arm x e_j has arm_i along k and -arm_k along i
        i = (axis + 3 + side) % 3
        if side < 2:
            rows[side, j] = 1.0
        for m in range(3):
            rows[side, 3 + m] = arm[i] * R[k, m] - arm[k] * R[i, m] if side < 2 else radius * R[axis, m]
        slip = 0.0
        for m in range(6):
            slip += rows[side, m] * v[m]
        square += slip * slip
    c = most / max(math.sqrt(square), SLOWEST)
    for m in range(6):
        for n in range(6):
            for side in range(3):
                D[m, n] += c * rows[side, m] * rows[side, n]


@inner
def hold(
    geometry: Geometry,
    world: World,
    grain: int,
    q: Floats,
    centre: Floats,
    half: Floats,
    stiffness: float,
    force: Floats,
    H: Floats,
    push: Floats,
) -> tuple[float, float]:
    """Add the net's force and stiffness on one grain, without friction; see `hold_rough`."""
    return hold_rough(geometry, world, grain, q, centre, half, stiffness, force, H, push, force, 0.0, H)


@inner
def hold_rough(
    geometry: Geometry,
    world: World,
    grain: int,
    q: Floats,
    centre: Floats,
    half: Floats,
    stiffness: float,
    force: Floats,
    H: Floats,
    push: Floats,
    v: Floats,
    drag: float,
    D: Floats,
) -> tuple[float, float]:
    """Add the net's force and stiffness on one grain, angular parts in its principal axes; return volume and energy.

    ``centre`` and ``half`` are those of the box; ``push`` receives the forces on the sides: low and high x, y, z.
    ``D`` receives the friction of a grain of velocity ``v``: ``drag``, the step times mu, times the force of each side.
    """
    moments, rows = np.empty(9), np.empty((3, 6))
    R = np.empty((3, 3))
    total = energy = 0.0
    for axis in range(3):
        for way in range(2):
            sign = 2.0 * way - 1.0
            limit = half[axis] + sign * centre[axis]
            reached = world.high[grain, axis] if way == 1 else -world.low[grain, axis]
            if reached <= limit:
                continue
            volume = outside(geometry, world, grain, axis, sign, limit, moments)
            if volume <= 0.0:
                continue
            total += volume
            energy += stiffness * sign * moments[axis]
            matrix(q, R)
            j, k = (axis + 1) % 3, (axis + 2) % 3
            load = -sign * stiffness * volume
            push[2 * axis + way] += stiffness * volume
            rows[:] = 0.0
            rows[0, axis] = 1.0
            for i in range(3):  # moving the point (s, t) along the axis: 1, s, t times these rows
                rows[1, 3 + i] = -R[k, i]
                rows[2, 3 + i] = R[j, i]
            s, t = moments[j] / volume, moments[k] / volume
            area = (
                (moments[3], moments[4], moments[5]),
                (moments[4], moments[6], moments[7]),
                (moments[5], moments[7], moments[8]),
            )
            for m in range(6):
                force[m] += load * (rows[0, m] + s * rows[1, m] + t * rows[2, m])
                for n in range(6):
                    entry = 0.0
                    for a in range(3):
                        for b in range(3):
                            entry += area[a][b] * rows[a, m] * rows[b, n]
                    H[m, n] += stiffness * entry
            if drag > 0.0:
                arm = np.empty(3)
                arm[axis] = sign * limit + moments[axis] / volume - world.centre[grain, axis]
                arm[j], arm[k] = s, t
                a = max(moments[3], 1e-300)
                gyration = (moments[6] + moments[8]) / a - (moments[4] / a) ** 2 - (moments[5] / a) ** 2
                radius = math.sqrt(max(gyration, 0.0))
                rub(R, axis, (arm[0], arm[1], arm[2]), radius, v, drag * abs(load), D)
    return total, energy
