"""One sphere against one wall, in about two microseconds.

The equations (Hadjidoukas et al. 2014, 10.1016/j.cma.2014.07.017, eqs 1-3 and Table 1)
---------------------------------------------------------------------------------------
Overlap ``xi``; normal force ``F_n = k_n xi^(3/2) + gamma xi^alpha dxi/dt``, never attractive; tangential
spring ``k_t`` whose force is cut back to ``mu F_n`` whenever it exceeds that (Cundall & Strack 1979,
10.1680/geot.1979.29.1.47); solid sphere, inertia ``2/5 m R^2``. With the normal speed ``v``, the length
``L = (m v^2/k_n)^(2/5)`` and the time ``L/v`` as units, five numbers are left::

    x'' = -F,   F = x^(3/2) + g x^alpha x',        g = gamma L^(1+alpha)/(m v)
    q'  = kappa u,  u' = -7/2 q,  |q| <= mu F,     kappa = k_t L^2/(m v^2)

``q`` is the tangential force against the motion, ``u`` the slip speed of the contact point, and
7/2 = 1 + m R^2/(2/5 m R^2). Contact ends when ``F`` comes back to zero: from there on the law without the
clip would only pull, so the sphere leaves with the velocity it has although ``xi`` is still positive (its
surface recovers later; Schwager & Poeschel 2007, 10.1007/s10035-007-0065-z).

Why not small steps in time
---------------------------
A calibration asks for 1e7 to 1e8 impacts, each good to 1e-4. But ``x^alpha`` has an unbounded slope at the
first instant (and at the last, when there is little damping), and transitions between stick and slip fall
inside steps: both ruin the order of any scheme in time. Largest errors over the prior box of the steel
calibration (10 000 random points, angles 1 to 80 degrees, speeds 0.5 to 8 m/s) and microseconds on one
2.8 GHz core:

    ===================================  =======================  ========================
    scheme, steps a contact              alpha = 1/2: cnr ctr us  alpha free: cnr ctr us
    ===================================  =======================  ========================
    velocity Verlet in time, 1000        8e-6   4e-4    19        1e-4   2e-3    46
    velocity Verlet in time, 10 000      1e-6   4e-5   190        2e-5   2e-4   470
    Runge-Kutta 4 in time, 160           2e-5   2e-3     6        4e-4   1e-3    26
    Runge-Kutta 4 in time, 1000          9e-7   3e-5    36        5e-5   1e-4   160
    this file, about 40                  1e-5   3e-5     1.7      1e-5   3e-5     3.6
    ===================================  =======================  ========================

What is done instead
--------------------
*Another clock.* With ``x = w^4`` and ``dt = w^3 ds`` the motion reads ``w' = p/4``, ``p' = -w^3 F``,
``t' = w^3``. Its terms, ``w^9`` and ``w^(3 + 4 alpha) p``, are smooth at both ends and plain products for
alpha = 1/4 and 1/2, and the classical Runge-Kutta scheme keeps its fourth order. (``x = w^2`` or ``w^3`` need
fewer steps without damping, but are ten times less accurate at alpha = 0.15.) The step shrinks where ``w`` is
large, the damper strong or the tangential spring fast, so a contact takes 28 to 65 steps in that box.

*Free exponent.* Of the five powers in a step three are taken less than 3 % away from one of the other two,
where a short binomial series does (error 1e-8, a quarter of the time saved).

*Friction by events.* The normal motion ignores the tangential one, and between transitions the latter is
known exactly: a sticking spring rotates the pair ``(q, u)``; a slipping contact has ``q = +-mu F`` and,
since ``F = -p'``, ``u`` changes by ``+-7/2 mu`` times the change of ``p``. So a step costs one rotation or
one product. Only a step that holds a transition, one to five of them in a contact, looks inside, through
cubic interpolants of ``t``, ``w``, ``p`` and a bracketed root. Sticking ends where ``mu F - |q|``
vanishes, even if it is positive again at the end of the step (one impact in a thousand; overlooking it
costs up to 2e-3 in ctr). Slipping ends where the spring would no longer stretch faster than its cap grows.

Everything is a scalar, nothing is allocated and points are independent, so a batch is a plain loop.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner, kernel

DONE, TOO_LONG, NO_RATIO = 0, 1, 2
MAX_STEPS = 20_000
STEP = 0.42
EARLY = 3  # steps within which a peak is the damper's alone


@inner
def power(w: float, alpha: float) -> float:
    """Return ``x^alpha = w^(4 alpha)``, by products for the two exponents that have a name."""
    if alpha == 0.5:
        return w * w
    if alpha == 0.25:
        return w
    if w <= 0.0:
        return 1.0 if alpha == 0.0 else 0.0
    return math.exp(4.0 * alpha * math.log(w))


@inner
def power_near(known: float, at: float, w: float, alpha: float) -> float:
    """Return `power` at ``w`` from its known value at a neighbour."""
    if alpha == 0.5 or alpha == 0.25 or at <= 0.0 or abs(w - at) > 0.03 * at:
        return power(w, alpha)
    a = 4.0 * alpha
    e = (w - at) / at
    series = 1.0 + (a - 2.0) * (1.0 / 3.0) * e * (1.0 + (a - 3.0) * 0.25 * e)
    return known * (1.0 + a * e * (1.0 + (a - 1.0) * 0.5 * e * series))


@inner
def advance(
    w: float, p: float, F: float, h: float, g: float, alpha: float
) -> tuple[float, float, float, float]:
    """Advance the normal motion by ``h`` of its clock: ``w``, ``p``, ``w^(4 alpha)`` and the time elapsed."""
    w3 = w * w * w
    k1 = -w3 * F
    pb = p + 0.5 * h * k1
    wb = w + 0.125 * h * p
    wb3 = wb * wb * wb
    zb = power(wb, alpha)
    wa = w + 0.25 * h * p
    za = power(wa, alpha)
    k2 = -(wb3 * wb3 * wb3 + g * zb * wb3 * pb)
    pc = p + 0.5 * h * k2
    wc = w + 0.125 * h * pb
    wc3 = wc * wc * wc
    k3 = -(wc3 * wc3 * wc3 + g * power_near(zb, wb, wc, alpha) * wc3 * pc)
    pd = p + h * k3
    wd = w + 0.25 * h * pc
    wd3 = wd * wd * wd
    k4 = -(wd3 * wd3 * wd3 + g * power_near(za, wa, wd, alpha) * wd3 * pd)
    sixth = h * (1.0 / 6.0)
    w1 = w + 0.25 * sixth * (p + 2.0 * (pb + pc) + pd)
    p1 = p + sixth * (k1 + 2.0 * (k2 + k3) + k4)
    return w1, p1, power_near(za, wa, w1, alpha), sixth * (w3 + 2.0 * (wb3 + wc3) + wd3)


@inner
def force_rate(w: float, p: float, z: float, F: float, g: float, alpha: float) -> float:
    """Return the rate of ``F`` on the clock of `advance`; 0 at the first instant, as a convention."""
    if w <= 0.0:
        return 0.0
    w3 = w * w * w
    return 1.5 * w3 * w * w * p + g * z * (alpha * p * p / w - w3 * F)


@inner
def hermite(s: float, a: float, da: float, b: float, db: float) -> float:
    """Interpolate between ``a`` and ``b`` of slopes ``da`` and ``db`` at ``0 <= s <= 1``."""
    r = 1.0 - s
    return r * r * (a * (1.0 + 2.0 * s) + da * s) + s * s * (b * (1.0 + 2.0 * r) - db * r)


@inner
def hermite_slope(s: float, a: float, da: float, b: float, db: float) -> float:
    """Differentiate `hermite`."""
    r = 1.0 - s
    return 6.0 * s * r * (b - a) + da * r * (1.0 - 3.0 * s) + db * s * (3.0 * s - 2.0)


@inner
def stick(q: float, u: float, t: float, kappa: float) -> tuple[float, float]:
    """Let a sticking spring swing for a time ``t``: ``q' = kappa u``, ``u' = -7/2 q``.

    A step turns it by 1.1 radians at most; up to 1.3 the series below are good to 1e-8.
    """
    y = 3.5 * kappa * t * t
    cos = 1.0 - y * (1 / 2 - y * (1 / 24 - y * (1 / 720 - y * (1 / 40320 - y * (1 / 3628800)))))
    sin = t * (1.0 - y * (1 / 6 - y * (1 / 120 - y * (1 / 5040 - y * (1 / 362880 - y * (1 / 39916800))))))
    return q * cos + kappa * u * sin, u * cos - 3.5 * q * sin


@inner
def force(s: float, span: tuple[float, ...]) -> float:
    """Interpolate ``F`` inside a step: its spring from ``w``, which is nearly straight, its damper by itself."""
    D0, dD0, D1, dD1, w0, dw0, w1, dw1 = span[:8]
    w = hermite(s, w0, dw0, w1, dw1)
    w3 = w * w * w
    return w3 * w3 + hermite(s, D0, dD0, D1, dD1)


@inner
def force_slope(s: float, span: tuple[float, ...]) -> float:
    """Differentiate `force`."""
    D0, dD0, D1, dD1, w0, dw0, w1, dw1 = span[:8]
    w = hermite(s, w0, dw0, w1, dw1)
    w2 = w * w
    return 6.0 * w2 * w2 * w * hermite_slope(s, w0, dw0, w1, dw1) + hermite_slope(s, D0, dD0, D1, dD1)


@inner
def margin(
    s: float,
    side: float,
    slips: bool,
    here: tuple[float, ...],
    span: tuple[float, ...],
    mu: float,
    kappa: float,
) -> float:
    """Return what is positive at ``s`` while the regime that began at ``here = (q, u, t, p)`` lasts."""
    p0, dp0, p1, dp1, dt0, t1, dt1 = span[8:]
    q, u, t, p = here
    if slips:  # the spring would stretch faster than the cap grows
        u += 3.5 * side * mu * (hermite(s, p0, dp0, p1, dp1) - p)
        return side * kappa * u * hermite_slope(s, 0.0, dt0, t1, dt1) - mu * force_slope(s, span)
    q, u = stick(q, u, hermite(s, 0.0, dt0, t1, dt1) - t, kappa)
    return mu * force(s, span) - side * q


@inner
def locate(
    low: float,
    high: float,
    at_low: float,
    at_high: float,
    side: float,
    slips: bool,
    here: tuple[float, ...],
    span: tuple[float, ...],
    mu: float,
    kappa: float,
) -> float:
    """Find where `margin` vanishes from ``low`` (positive) to ``high`` (negative), by the Illinois rule."""
    if at_low <= 0.0:
        return low
    enough = 1e-5 * (at_low - at_high)
    s = low
    last = 0
    for _ in range(20):
        s = low + (high - low) * at_low / (at_low - at_high)
        value = margin(s, side, slips, here, span, mu, kappa)
        if abs(value) <= enough:
            break
        if value > 0.0:
            low, at_low = s, value
            if last == 1:
                at_high *= 0.5
            last = 1
        else:
            high, at_high = s, value
            if last == -1:
                at_low *= 0.5
            last = -1
    return s


@inner
def switch(
    q: float,
    u: float,
    side: float,
    span: tuple[float, ...],
    mu: float,
    kappa: float,
) -> tuple[float, float, float]:
    """Carry ``q``, ``u`` and the side of slip (0: sticks) across a step that may let go, then catch again."""
    p0, dp0, p1, dp1, dt0, t1, dt1 = span[8:]
    cap0, cap1 = mu * force(0.0, span), mu * force(1.0, span)
    t, p, s = 0.0, p0, 0.0
    if side == 0.0:
        here = (q, u, 0.0, p0)
        q1, u1 = stick(q, u, t1, kappa)
        side = math.copysign(1.0, q1)
        gap0, gap1 = cap0 - side * q, cap1 - side * q1
        s = 1.0
        if gap1 >= 0.0:  # positive at both ends: is it so at the least value of its interpolant?
            slope0 = mu * force_slope(0.0, span) - side * kappa * u * dt0
            slope1 = mu * force_slope(1.0, span) - side * kappa * u1 * dt1
            a = 3.0 * (slope0 + slope1 - 2.0 * (gap1 - gap0))
            b = 6.0 * (gap1 - gap0) - 4.0 * slope0 - 2.0 * slope1
            square = b * b - 4.0 * a * slope0
            if slope0 >= 0.0 or slope1 <= 0.0 or square <= 0.0:
                return q1, u1, 0.0
            s = -2.0 * slope0 / (b + math.sqrt(square))
            gap1 = margin(s, side, False, here, span, mu, kappa)
            if gap1 >= 0.0:
                return q1, u1, 0.0
        s = locate(0.0, s, gap0, gap1, side, False, here, span, mu, kappa)
        t, p = hermite(s, 0.0, dt0, t1, dt1), hermite(s, p0, dp0, p1, dp1)
        q, u = stick(q, u, t, kappa)
    here = (q, u, t, p)
    urge1 = margin(1.0, side, True, here, span, mu, kappa)
    if urge1 >= 0.0:
        return side * cap1, u + 3.5 * side * mu * (p1 - p), side
    urge0 = margin(s, side, True, here, span, mu, kappa)
    s = locate(s, 1.0, urge0, urge1, side, True, here, span, mu, kappa)
    u += 3.5 * side * mu * (hermite(s, p0, dp0, p1, dp1) - p)
    q, u = stick(side * mu * force(s, span), u, t1 - hermite(s, 0.0, dt0, t1, dt1), kappa)
    if abs(q) <= cap1:
        return q, u, 0.0
    side = math.copysign(1.0, q)
    return side * cap1, u, side


@inner
def first_peak(g: float, alpha: float) -> float:
    """Return the greatest ``F`` of a damper so strong that it comes before the spring counts, in the first steps.

    Without the spring ``p = 1 - g x^(1 + alpha)/(1 + alpha)``, and ``x^alpha p`` is greatest where that is
    ``(1 + alpha)/(1 + 2 alpha)``. No interpolant shows it: the slope is unbounded at the first instant.
    """
    p = (1.0 + alpha) / (1.0 + 2.0 * alpha)
    if alpha * p / g <= 0.0:  # at the first instant
        return g
    w = math.exp(0.25 / (1.0 + alpha) * math.log(alpha * p / g))
    return g * power(w, alpha) * p + w**6


@inner
def end_of_contact(w0: float, p0: float, w1: float, p1: float, h: float, g: float, alpha: float) -> float:
    """Return the fraction of the step at which ``F`` vanishes.

    As ``p`` is stationary there, ``w^(6 - 4 alpha) = -g p`` gives the ``w`` to look for at once.
    """
    target = math.exp(math.log(-g * p1) / (6.0 - 4.0 * alpha)) if g > 0.0 else 0.0
    if w0 <= target:
        return 0.0
    if w1 >= target:
        return 1.0
    s = (w0 - target) / (w0 - w1)
    for _ in range(2):
        value = hermite(s, w0, 0.25 * h * p0, w1, 0.25 * h * p1) - target
        s -= value / min(hermite_slope(s, w0, 0.25 * h * p0, w1, 0.25 * h * p1), 0.5 * (w1 - w0))
    return min(max(s, 0.0), 1.0)


@inner
def collide(
    g: float, alpha: float, mu: float, kappa: float, u: float, step: float, record: NDArray[np.float64]
) -> tuple[int, float, float, float, float]:
    """Carry one contact from touch to parting, in the units of the essay.

    Returns the number of steps (0: still in contact after `MAX_STEPS`), the normal speed of parting, the
    duration, the tangential speed lost and the greatest normal force. Rows of ``record``, if it has any,
    receive ``t``, ``F``, ``q``, ``x`` at the start and after every step.
    """
    w, p, t, z = 0.0, 1.0, 0.0, power(0.0, alpha)
    F, dF, q, side = g * z, 0.0, 0.0, 0.0
    u0, peak = u, F
    stiff = 1.0 + 0.4 * math.sqrt(3.5 * kappa)
    if record.shape[0] > 0:
        record[0, 0], record[0, 1], record[0, 2], record[0, 3] = 0.0, F, 0.0, 0.0
    ahead = 0.25 * step
    h_next = step / (1.0 + ahead * ahead * (stiff + g * power(ahead, alpha)))
    for n in range(1, MAX_STEPS):
        h = h_next
        ahead = w + 0.25 * h * p  # the next step is chosen early, for the processor to divide meanwhile
        h_next = min(step / (1.0 + ahead * ahead * (stiff + g * z)), 2.0 * h)
        w1, p1, z1, dt = advance(w, p, F, h, g, alpha)
        w13 = w1 * w1 * w1
        F1 = w13 * w13 + g * z1 * p1
        parted = F1 <= 0.0 or w1 <= 0.0
        if parted:
            h *= end_of_contact(w, p, w1, p1, h, g, alpha)
            w1, p1, z1, dt = advance(w, p, F, h, g, alpha)
            w1 = max(w1, 0.0)
            w13 = w1 * w1 * w1
            F1 = 0.0
        dF1 = force_rate(w1, p1, z1, F1, g, alpha)
        w03 = w * w * w
        if side == 0.0:
            q1, u1 = stick(q, u, dt, kappa)
            way = math.copysign(1.0, q1)
            let_go = way * q1 > mu * F1
            bent = mu * dF < way * kappa * u * w03 and mu * dF1 > way * kappa * u1 * w13
            inside = let_go or bent
        else:
            q1, u1 = side * mu * F1, u + 3.5 * side * mu * (p1 - p)
            inside = side * kappa * u1 * w13 < mu * dF1
        if inside:
            damper0, damper1 = F - w03 * w03, F1 - w13 * w13
            rate0, rate1 = dF - 1.5 * w03 * w * w * p, dF1 - 1.5 * w13 * w1 * w1 * p1
            quarter = 0.25 * h
            span = (
                *(damper0, h * rate0, damper1, h * rate1),
                *(w, quarter * p, w1, quarter * p1),
                *(p, -h * w03 * F, p1, -h * w13 * F1),
                *(h * w03, dt, h * w13),
            )
            q1, u1, side = switch(q, u, side, span, mu, kappa)
        if dF >= 0.0 and dF1 < 0.0:
            top = first_peak(g, alpha) if n <= EARLY else hermite(dF / (dF - dF1), F, h * dF, F1, h * dF1)
            peak = max(peak, top, F1)
        w, p, z, F, dF, q, u = w1, p1, z1, F1, dF1, q1, u1
        t += dt
        if parted and dF1 < 0.0:  # what is left of F, over its rate
            t = max(t - w13 * (w13 * w13 + g * z1 * p1) / dF1, t - dt)
        if record.shape[0] > 0:
            record[n, 0], record[n, 1], record[n, 2], record[n, 3] = t, F, q, w * w13
        if parted:
            return n, -p, t, (u0 - u) / 3.5, peak
    return 0, np.nan, np.nan, np.nan, np.nan


@kernel
def rebound(
    step: float,
    record: NDArray[np.float64],
    out: NDArray[np.float64],
    speed: float,
    angle: float,
    spin: float,
    radius: float,
    mass: float,
    young: float,
    poisson: float,
    mu: float,
    gamma: float,
    alpha: float,
    k_t: float,
) -> tuple[int, int]:
    """Solve one impact in SI units, angle in degrees; return a status and the number of rows recorded.

    ``out`` receives cnr, ctr, spin_out, contact_time, peak_force; ``record`` the history: t, F_n, F_t, xi.
    """
    theta = math.radians(angle)
    v, v_t = speed * math.cos(theta), speed * math.sin(theta)
    k_n = 4.0 / 3.0 * young / (2.0 * (1.0 - poisson * poisson)) * math.sqrt(radius)
    length = math.exp(0.4 * math.log(mass * v * v / k_n))
    g = gamma * length * math.exp(alpha * math.log(length)) / (mass * v)
    kappa = k_t * length * length / (mass * v * v)
    steps, e, duration, lost, peak = collide(g, alpha, mu, kappa, (v_t + radius * spin) / v, step, record)
    force = mass * v * v / length
    out[0] = e
    out[2] = spin - 2.5 * lost * v / radius
    out[3] = duration * length / v
    out[4] = peak * force
    for row in range(min(record.shape[0], steps + 1)):
        record[row, 0] *= length / v
        record[row, 1] *= force
        record[row, 2] *= -force
        record[row, 3] *= length
    if steps == 0:
        out[:] = np.nan
        return TOO_LONG, 0
    if v_t != 0.0:
        out[1] = 1.0 - lost * v / v_t
    elif (
        spin == 0.0
    ):  # the limit of a vanishing angle: the spring sticks all along, if there is friction at all
        out[1] = 1.0 if mu == 0.0 else 1.0 - 2.0 / 7.0 * (1.0 - math.cos(math.sqrt(3.5 * kappa) * duration))
    else:
        out[:] = np.nan
        return NO_RATIO, 0
    return DONE, steps + 1


@kernel
def rebounds(
    start: int,
    stop: int,
    out: NDArray[np.float64],
    speed: NDArray[np.float64],
    angle: NDArray[np.float64],
    spin: NDArray[np.float64],
    radius: NDArray[np.float64],
    mass: NDArray[np.float64],
    young: NDArray[np.float64],
    poisson: NDArray[np.float64],
    mu: NDArray[np.float64],
    gamma: NDArray[np.float64],
    alpha: NDArray[np.float64],
    k_t: NDArray[np.float64],
) -> None:
    """Solve the impacts ``start`` to ``stop`` of a batch; failed rows of ``out`` are NaN."""
    nothing = np.empty((0, 4))
    for i in range(start, stop):
        rebound(
            STEP,
            nothing,
            out[i],
            speed[i],
            angle[i],
            spin[i],
            radius[i],
            mass[i],
            young[i],
            poisson[i],
            mu[i],
            gamma[i],
            alpha[i],
            k_t[i],
        )
