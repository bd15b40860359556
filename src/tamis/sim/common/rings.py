"""A bar that plays in a round hole: cylinder or capsule ``a``, ring ``b``.

The ring is the rim of the hole, a circle of radius ``R``. A bar through it touches where the rim is nearest to the
axis of the bar; there the gap is ``rho - r``, along the normal of the bar's surface. Seen in the plane of
the ring this is a circle around an ellipse of half axes ``r`` and ``r/cos t``, ``t`` being the tilt: a tilted bar has
less play along its tilt, and two rings one above the other bound the tilt itself.

With the axis crossing the plane at ``m`` from the centre, and angles counted from the direction of the tilt,

    rho^2 = |R e - m|^2 - sin^2 t (R cos phi - m_x)^2,   e = (cos phi, sin phi).

A trigonometric polynomial of second degree has at most two minima (and maxima, which `bores` asks for). Both are
reported, for a tilted bar may jam between two opposite points of one ring. Twelve samples bracket them, and Newton's
method, held in its bracket, ends at round-off in a few steps. Where bar and ring are concentric every point is nearest
and a fixed one is taken.

No contact where the axis does not pass through the hole, nor where the nearest point lies beyond the straight part
of the bar.
"""

from __future__ import annotations

import math

from tamis.jit import apart, inner
from tamis.sim.common.geometry import CAPSULE, CYLINDER, NEAREST, Geometry, Manifolds, World, put
from tamis.sim.common.vectors import FLAT, Vector, X, Z, along, axis, cross, dot, minus, norm, row, scaled

SAMPLES = 12
ROUND = 1e-12  # of the squared radius: variation of the distance that is no more than noise


@inner
def play(phi: float, big: float, x: float, y: float, tilt: float, sign: float) -> tuple[float, float, float]:
    """Return ``sign`` times half of ``rho^2``, less a constant, and its first two derivatives by the angle."""
    c, s = big * math.cos(phi), big * math.sin(phi)
    k, off = tilt * tilt, c - x
    value = -x * c - y * s - 0.5 * k * off * off
    return sign * value, sign * (x * s - y * c + k * off * s), sign * (x * c + y * s + k * (off * c - s * s))


@inner
def least_play(low: float, high: float, big: float, x: float, y: float, tilt: float, sign: float) -> float:
    """Return the angle of the minimum between two angles: Newton's method, halving where it would leave them."""
    phi = 0.5 * (low + high)
    for _ in range(60):
        _, slope, bend = play(phi, big, x, y, tilt, sign)
        if slope > 0.0:
            high = phi
        else:
            low = phi
        step = -slope / bend if bend > 0.0 else math.inf
        if not low < phi + step < high:
            step = 0.5 * (low + high) - phi
        phi += step
        if abs(step) <= 1e-15:
            break
    return phi


@inner
def extremes(big: float, x: float, y: float, tilt: float, sign: float) -> tuple[int, float, float]:
    """Return how many angles have the least distance (``sign`` 1) or the largest (-1) nearby, and these angles.

    Where all points of the circle are as far it is one, zero.
    """
    if big * math.hypot(x, y) + (tilt * big) * (tilt * big) <= ROUND * big * big:
        return 1, 0.0, 0.0
    turn = 2.0 * math.pi / SAMPLES
    before = play(-turn, big, x, y, tilt, sign)[0]
    here = play(0.0, big, x, y, tilt, sign)[0]
    count, one, other = 0, 0.0, 0.0
    for k in range(SAMPLES):
        after = play(turn * (k + 1), big, x, y, tilt, sign)[0]
        if here < before and here <= after and count < 2:
            phi = least_play(turn * (k - 1), turn * (k + 1), big, x, y, tilt, sign)
            one, other = (phi, other) if count == 0 else (one, phi)
            count += 1
        before, here = here, after
    return count, one, other


@inner
def rim_of_hole(
    i: int,
    j: int,
    o: Vector,
    feature: int,
    geometry: Geometry,
    world: World,
    margin: float,
    out: Manifolds,
    n: int,
) -> int:
    """Report the contacts of the bar ``i`` with the rim about ``o`` of the hole ``j`` that it passes through."""
    c, u, r, half = row(world.centre, i), axis(world.axes, i, Z), geometry.size[i, 0], geometry.size[i, 1]
    w, big = axis(world.axes, j, Z), geometry.size[j, 0]
    cosine = dot(u, w)
    if abs(cosine) <= FLAT:
        return n
    m = along(minus(c, o), dot(minus(o, c), w) / cosine, u)
    if dot(m, m) >= big * big:
        return n
    lean = along(u, -cosine, w)
    tilt = norm(lean)
    first = scaled(1.0 / tilt, lean) if tilt > FLAT else axis(world.axes, j, X)
    second = cross(w, first)
    count, one, other = extremes(big, dot(m, first), dot(m, second), tilt, 1.0)
    for k in range(count):
        phi = one if k == 0 else other
        outward = along(scaled(math.cos(phi), first), math.sin(phi), second)
        rim = along(o, big, outward)
        at = dot(minus(rim, c), u)
        away = minus(rim, along(c, at, u))
        rho = norm(away)
        normal = scaled(1.0 / rho, away) if rho > ROUND * r else outward
        if abs(at) <= half * (1.0 + ROUND) and rho - r <= margin:
            n = put(out, n, i, j, feature + k, along(rim, r - rho, normal), normal, rho - r)
    return n


@apart
def rings(i: int, j: int, geometry: Geometry, world: World, margin: float, out: Manifolds, n: int) -> int:
    """Report the contacts of the bar ``i``, a cylinder or a capsule, with the ring ``j`` around it."""
    if geometry.kind[i] != CYLINDER and geometry.kind[i] != CAPSULE:
        return n
    return rim_of_hole(i, j, row(world.centre, j), NEAREST, geometry, world, margin, out, n)
