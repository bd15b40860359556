"""Axial stops as contacts: slack cables and slings, bars that slide in bars.

The length of a stop is the distance of its two anchors, or how far the second lies along an axis of the first body.
With ``d`` the direction in which it grows, the gap to the longest is ``longest - length`` along ``-d`` and that to the
shortest ``length - shortest`` along ``d``: what the solver, the ledger and the warm start already know as a contact.
One point of action is enough for both bodies and exact: on the line of the anchors, along which forces may be moved;
or the second anchor where the axis turns with the first body, since the rate of the length is then the velocity of
the second anchor as the first body sees it, which is also what friction across the axis goes by.
"""

from __future__ import annotations

import numpy as np

from tamis.jit import inner
from tamis.sim.common.geometry import HIGH, LOW, Floats, Manifolds, put
from tamis.sim.common.rotations import matrix
from tamis.sim.common.vectors import Vector, along, dot, minus, norm, scaled
from tamis.sim.nscd.arrays import Stops


@inner
def turn(axes: Floats, vector: Floats) -> Vector:
    """Return a vector given in a body's axes in those of space."""
    return (
        axes[0, 0] * vector[0] + axes[0, 1] * vector[1] + axes[0, 2] * vector[2],
        axes[1, 0] * vector[0] + axes[1, 1] * vector[1] + axes[1, 2] * vector[2],
        axes[2, 0] * vector[0] + axes[2, 1] * vector[1] + axes[2, 2] * vector[2],
    )


@inner
def taut(stops: Stops, x: Floats, q: Floats, margin: float, out: Manifolds, n: int) -> int:
    """Append the stops that come within the margin of a limit; return the number of contacts, as `collide` does."""
    axes_a, axes_b = np.empty((3, 3)), np.empty((3, 3))
    first = len(stops.owner) - 2 * len(stops.axis)
    for k in range(len(stops.axis)):
        a, b = first + 2 * k, first + 2 * k + 1
        i, j = stops.owner[a], stops.owner[b]
        matrix(q[i], axes_a)
        matrix(q[j], axes_b)
        start = along((x[i, 0], x[i, 1], x[i, 2]), 1.0, turn(axes_a, stops.point[k, 0]))
        end = along((x[j, 0], x[j, 1], x[j, 2]), 1.0, turn(axes_b, stops.point[k, 1]))
        line = minus(end, start)
        way = turn(axes_a, stops.axis[k])
        length = dot(line, way)
        if dot(way, way) == 0.0:
            length = norm(line)
            way = scaled(1.0 / length, line) if length > 0.0 else (0.0, 0.0, 1.0)
        if stops.limits[k, 1] - length <= margin:
            n = put(out, n, a, b, HIGH, end, scaled(-1.0, way), stops.limits[k, 1] - length)
        if length - stops.limits[k, 0] <= margin:
            n = put(out, n, a, b, LOW, end, way, length - stops.limits[k, 0])
    return n
