"""A train on an irregular track: multibody dynamics with nonlinear suspensions and wheel-rail creep forces.

The equations
-------------
``M q'' + f(q, q', d; w) = f_wr(q, q', x(s))``, ``s = v t``, small angles about a straight line. A car has 23 degrees of
freedom: its body and two bogie frames (y, z, roll, pitch, yaw: y to the left, z up, x forward, angles right-handed) and
four wheelsets (y, yaw), whose height and roll the rails impose, each with its delay. A point at (dx, dy, dz) from the
centre of a body moves by::

    along x  -dy yaw      along y  y + dx yaw - dz roll      along z  z + dy roll - dx pitch

The pitch of a body stretches nothing along x: bogies and wheelsets, which roll freely, follow each other. Every damper
is a spring in series with a dashpot, and its force ``F`` is a state of its own (a Maxwell element)::

    F'/k = v - phi(F),   phi(F) = F/c + (ratio - 1)/c * m(F),   m = F + (|F - F0| - |F + F0|)/2, rounded

so that the dashpot is ``c`` below its blow-off force and ``c/ratio`` above. Wheels and rails, left (+) and right (-),
with ``e = y + r_0 roll - y_rail`` (y is at the height of the axle) and clearance ``g`` = half of the play between
flanges and rails, which the gauge changes::

    conicity        lambda = lambda_0 g_0 / g            a narrow gauge steers more
    rolling radius  r = r_0 +- lambda e
    creepages       nu_x = -(r - r_0)/r_0 -+ b yaw'/v,   nu_y = (y' + r_0 roll')/v - yaw,   spin = yaw'/v -+ lambda/r_0
    Kalker          F_x = -f_11 nu_x,   F_y = -f_22 nu_y - f_23 spin
    saturation      F (1 - t/3 + t^2/27),  t = |F|/(mu N) <= 3;  mu N beyond          Vermeulen & Johnson 1964
    normal forces   -N (contact angles: +-lambda + roll + lambda e/b), and the flange  k p^2/(p + p_0), p = |e| - g > 0

``N`` follows from the equilibrium of the wheelset, whose height and roll move as the rails do. A wheelset spins at
``v/r_0``, and its axle turns: the rate of its angular momentum ``I_y v/r_0 (-yaw', 0, roll')`` joins roll and yaw.

Why Runge-Kutta of order four, and why the data lie so
------------------------------------------------------
All laws are smooth but for the end of the play, and the fastest rates (a blown-off damper, creep damping) are some
1000/s: a step of a millisecond is stable, needs no factorisation, and its cost is that of four evaluations of the
forces, half a microsecond each. Implicit steps of the same accuracy would solve 62 equations a step. Forces are
written out bogie by bogie instead of as matrices: two dense products of 23 x 23 alone took longer. The state is one
vector, all displacements, all velocities, all damper forces; numbers that differ between bogies are arrays over bogies.
The track is cubic in pieces, its coefficients side by side, so that a wheelset finds its four signals in one place.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner, kernel

BODIES = 23  # degrees of freedom of a car: body 0-4, bogies 5-9 and 10-14, wheelsets 15-22
DAMPERS = 16  # of a car, eight a bogie: lateral, yaw, vertical left and right, primary of each wheel
SIGNALS = 4  # lateral, gauge, vertical, cross-level
DONE, DERAILED, DIVERGED = 0, 1, 2
CLIMBED = 0.008  # m, of the flange into the rail: its force is then twice the wheel's static load
LEAST_PLAY = 0.001  # m, of clearance, however narrow the gauge
ROUND = 0.1  # of the blow-off force: how round the corner of a damper's law is
LEVEL = 1.0 / math.sqrt(1.0 + ROUND * ROUND)  # takes the slope that rounding leaves at zero off

Vector = NDArray[np.float64]
Table = NDArray[np.float64]


class Car(NamedTuple):
    """Masses, lengths and forces that all cars share; SI."""

    mass: float
    roll: float
    pitch: float
    yaw: float
    bogie_mass: float
    bogie_roll: float
    bogie_pitch: float
    bogie_yaw: float
    wheelset_mass: float
    wheelset_roll: float
    wheelset_spin: float
    wheelset_yaw: float
    pivot: float  # half the distance of the bogies
    axle: float  # half the wheel base of a bogie
    end: float  # half the length between couplings
    car_height: float
    bogie_height: float
    radius: float
    secondary_height: float
    stop_height: float
    secondary_side: float
    yaw_side: float
    primary_side: float
    contact_side: float
    primary_vertical: float
    primary_lateral: float
    primary_lateral_damping: float
    primary_longitudinal_damping: float
    primary_series: float
    secondary_shear: float
    roll_bar: float
    secondary_series: float
    yaw_series: float
    lateral_ratio: float
    yaw_ratio: float
    vertical_ratio: float
    stop_play: float
    stop_rate: float
    stop_end: float
    stop_end_rate: float
    coupling: float
    coupling_damping: float
    load: float  # static, of a wheel
    f11: float
    f22: float
    f23: float
    friction: float
    conicity: float
    clearance: float
    flange: float
    flange_onset: float
    gravity_scale: float  # 1; 0 leaves out what the weight does to a displaced wheelset


class Bogies(NamedTuple):
    """What differs between bogies, one number a bogie."""

    yaw_rate: Vector
    yaw_force: Vector
    lateral_rate: Vector
    lateral_force: Vector
    vertical_stiffness: Vector
    vertical_rate: Vector
    vertical_force: Vector
    primary_rate: Vector
    longitudinal: Vector


@inner
def leak(force: float, rate: float, limit: float, ratio: float) -> float:
    """Return the velocity of a dashpot that carries a force: slope ``rate`` below the blow-off force."""
    soft = ROUND * limit
    over = LEVEL * force + 0.5 * (math.hypot(force - limit, soft) - math.hypot(force + limit, soft))
    return (force + (ratio - 1.0) * over) / rate


@inner
def stop_force(stretch: float, car: Car) -> float:
    """Return the force of the lateral bump stop: nothing within its play, progressive, then nearly rigid."""
    deep = abs(stretch) - car.stop_play
    if deep <= 0.0:
        return 0.0
    force = car.stop_rate * deep * deep
    beyond = deep - car.stop_end
    if beyond > 0.0:
        force += car.stop_end_rate * beyond * beyond
    return math.copysign(force, stretch)


@inner
def saturated(fx: float, fy: float, limit: float) -> tuple[float, float]:
    """Return Kalker's linear creep forces within the friction circle (Vermeulen & Johnson)."""
    total = math.sqrt(fx * fx + fy * fy)
    if total >= 3.0 * limit:
        if total == 0.0:
            return 0.0, 0.0
        return fx * limit / total, fy * limit / total
    t = total / limit
    scale = 1.0 - t / 3.0 + t * t / 27.0
    return fx * scale, fy * scale


@inner
def rails_at(s: float, lead: Vector, v: float, spacing: float, track: Table, rails: Table) -> None:
    """Write what the rails do under each wheelset: lateral, gauge, height and its two rates, roll and its two rates.

    ``track[i, k]`` are the coefficients of signal ``k`` from sample ``i`` to the next, by ascending powers; the first
    wheelset is at ``s``, the others behind it by ``lead``.
    """
    last = track.shape[0] - 1
    for a in range(len(lead)):
        x = (s - lead[a]) / spacing
        i = min(max(int(x), 0), last)
        x = (x - i) * spacing
        c = track[i]
        rails[a, 0] = c[0, 0] + x * (c[0, 1] + x * (c[0, 2] + x * c[0, 3]))
        rails[a, 1] = c[1, 0] + x * (c[1, 1] + x * (c[1, 2] + x * c[1, 3]))
        for k in range(2):
            p, q, r, w = c[2 + k, 0], c[2 + k, 1], c[2 + k, 2], c[2 + k, 3]
            rails[a, 2 + 3 * k] = p + x * (q + x * (r + x * w))
            rails[a, 3 + 3 * k] = v * (q + x * (2.0 * r + x * 3.0 * w))
            rails[a, 4 + 3 * k] = v * v * (2.0 * r + x * 6.0 * w)


@inner
def wheelset(
    y: float,
    yaw: float,
    vy: float,
    vyaw: float,
    push: float,
    down: float,
    turn: float,
    v: float,
    rail: Vector,
    car: Car,
    load: Vector,
) -> tuple[float, float, float]:
    """Return lateral force and yawing moment of the rails on a wheelset, and how far a flange has climbed.

    ``push``, ``down`` and ``turn`` are what the suspension does to the wheelset: lateral force, dynamic force downwards
    and rolling moment. For the creep forces the rolling moment of the lateral forces, at the height of the axle and on
    the rails, is that of ``push``, as if the wheelset had no lateral inertia: else loads and forces had to be iterated.
    The loads that are told have that moment too (`rates`).
    ``load`` is filled in: wheel loads left and right, lateral forces of the wheels on the rails left and right.
    """
    b = car.contact_side
    spun = car.wheelset_spin * v / car.radius
    # m z'' = N_l + N_r - weight - down,  I_x roll'' - I_y v/r_0 yaw' = (N_l - N_r) b + turn - r_0 push
    half = car.load + 0.5 * (down + car.wheelset_mass * rail[4])
    lever = 0.5 * (car.wheelset_roll * rail[7] - spun * vyaw - turn + car.radius * push) / b
    n_left, n_right = max(half + lever, 0.0), max(half - lever, 0.0)
    e = y + car.radius * rail[5] - rail[0]
    play = max(car.clearance + 0.5 * rail[1], LEAST_PLAY)
    cone = car.conicity * car.clearance / play
    deep = abs(e) - play
    flange = 0.0
    if deep > 0.0:
        flange = math.copysign(car.flange * deep * deep / (deep + car.flange_onset), e)
    slip = -cone * e / car.radius - b * vyaw / v  # longitudinal, left; right has the other sign
    side = (vy + car.radius * rail[6]) / v - yaw
    spin, lean = vyaw / v, cone / car.radius
    xl, yl = saturated(-car.f11 * slip, -car.f22 * side - car.f23 * (spin - lean), car.friction * n_left)
    xr, yr = saturated(car.f11 * slip, -car.f22 * side - car.f23 * (spin + lean), car.friction * n_right)
    tilt = rail[5] + cone * e / b
    left = yl - car.gravity_scale * n_left * (cone + tilt)
    right = yr + car.gravity_scale * n_right * (cone - tilt)
    if flange > 0.0:
        left -= flange
    else:
        right -= flange
    load[0], load[1], load[2], load[3] = n_left, n_right, -left, -right
    moment = b * (xr - xl) + car.gravity_scale * (n_left + n_right) * cone * b * yaw - spun * rail[6]
    return left + right, moment, deep


@inner
def rates(x: Vector, v: float, rails: Table, car: Car, bogies: Bogies, dx: Vector, loads: Table) -> float:
    """Write the rates of the state; return how far the deepest flange has climbed, and fill in the wheel loads."""
    cars = len(x) // (2 * BODIES + DAMPERS)
    n = cars * BODIES
    deepest = -1.0
    up, low, stop = (
        car.secondary_height - car.car_height,
        car.secondary_height - car.bogie_height,
        (car.stop_height - car.car_height, car.stop_height - car.bogie_height),
    )
    down = car.radius - car.bogie_height
    b1, b2, by = car.primary_side, car.secondary_side, car.yaw_side
    for i in range(n):
        dx[i] = x[n + i]
    for c in range(cars):
        q, u, a = (
            x[c * BODIES : (c + 1) * BODIES],
            x[n + c * BODIES : n + (c + 1) * BODIES],
            dx[n + c * BODIES :],
        )
        cy, cz, croll, cpitch, cyaw = 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(2):
            at, arm, o, d = 2 * c + k, car.pivot * (1.0 - 2.0 * k), 5 + 5 * k, 2 * n + DAMPERS * c + 8 * k
            # secondary suspension: stretches of the car against the bogie
            side = q[0] + arm * q[4] - up * q[2] - q[o] + low * q[o + 2]
            vside = u[0] + arm * u[4] - up * u[2] - u[o] + low * u[o + 2]
            lift = q[1] - arm * q[3] - q[o + 1]
            vlift = u[1] - arm * u[3] - u[o + 1]
            roll, vroll = q[2] - q[o + 2], u[2] - u[o + 2]
            yaw, vyaw = q[4] - q[o + 4], u[4] - u[o + 4]
            lateral, turning = x[d], x[d + 1]
            left, right = x[d + 2], x[d + 3]
            dx[d] = car.secondary_series * (
                vside - leak(lateral, bogies.lateral_rate[at], bogies.lateral_force[at], car.lateral_ratio)
            )
            dx[d + 1] = car.yaw_series * (
                by * vyaw - leak(turning, bogies.yaw_rate[at], bogies.yaw_force[at], car.yaw_ratio)
            )
            rate, limit = bogies.vertical_rate[at], bogies.vertical_force[at]
            dx[d + 2] = car.secondary_series * (
                vlift + b2 * vroll - leak(left, rate, limit, car.vertical_ratio)
            )
            dx[d + 3] = car.secondary_series * (
                vlift - b2 * vroll - leak(right, rate, limit, car.vertical_ratio)
            )
            fy = 2.0 * car.secondary_shear * side + 2.0 * lateral  # two springs and two dampers a bogie
            reach = q[0] + arm * q[4] - stop[0] * q[2] - q[o] + stop[1] * q[o + 2]
            fs = stop_force(reach, car)
            fz = 2.0 * bogies.vertical_stiffness[at] * lift + left + right
            mroll = (2.0 * bogies.vertical_stiffness[at] * b2 * b2 + car.roll_bar) * roll + b2 * (
                left - right
            )
            myaw = 2.0 * car.secondary_shear * b2 * b2 * yaw + 2.0 * by * turning
            cy -= fy + fs
            cz -= fz
            croll += up * fy + stop[0] * fs - mroll
            cpitch += arm * fz
            cyaw -= arm * (fy + fs) + myaw
            hy, hz = fy + fs, fz
            hroll = -low * fy - stop[1] * fs + mroll
            hpitch, hyaw = 0.0, myaw
            for j in range(2):
                w, reach, p = 15 + 4 * k + 2 * j, car.axle * (1.0 - 2.0 * j), d + 4 + 2 * j
                rail = rails[4 * c + 2 * k + j]
                # primary suspension: stretches of the bogie against the wheelset
                side = q[o] + reach * q[o + 4] - down * q[o + 2] - q[w]
                vside = u[o] + reach * u[o + 4] - down * u[o + 2] - u[w]
                lift = q[o + 1] - reach * q[o + 3] - rail[2]
                vlift = u[o + 1] - reach * u[o + 3] - rail[3]
                roll, vroll = q[o + 2] - rail[5], u[o + 2] - rail[6]
                yaw, vyaw = q[o + 4] - q[w + 1], u[o + 4] - u[w + 1]
                left, right = x[p], x[p + 1]
                dx[p] = car.primary_series * (vlift + b1 * vroll - left / bogies.primary_rate[at])
                dx[p + 1] = car.primary_series * (vlift - b1 * vroll - right / bogies.primary_rate[at])
                fy = 2.0 * (car.primary_lateral * side + car.primary_lateral_damping * vside)
                fz = 2.0 * car.primary_vertical * lift + left + right
                mroll = 2.0 * car.primary_vertical * b1 * b1 * roll + b1 * (left - right)
                myaw = (
                    2.0 * b1 * b1 * (bogies.longitudinal[at] * yaw + car.primary_longitudinal_damping * vyaw)
                )
                hy -= fy
                hz -= fz
                hroll += down * fy - mroll
                hpitch += reach * fz
                hyaw -= reach * fy + myaw
                load = loads[4 * c + 2 * k + j]
                force, moment, deep = wheelset(
                    q[w], q[w + 1], u[w], u[w + 1], fy, -fz, mroll, v, rail, car, load
                )
                a[w] = (fy + force) / car.wheelset_mass
                lever = 0.5 * car.radius * (fy + force) / car.contact_side
                load[0], load[1] = max(load[0] - lever, 0.0), max(load[1] + lever, 0.0)
                a[w + 1] = (myaw + moment) / car.wheelset_yaw
                deepest = max(deepest, deep)
            a[o] = hy / car.bogie_mass
            a[o + 1] = hz / car.bogie_mass
            a[o + 2] = hroll / car.bogie_roll
            a[o + 3] = hpitch / car.bogie_pitch
            a[o + 4] = hyaw / car.bogie_yaw
        for end in range(2):  # couplings to the cars in front and behind
            other = c - 1 + 2 * end
            if 0 <= other < cars:
                reach = car.end * (1.0 - 2.0 * end)
                m, w = other * BODIES, n + other * BODIES
                fy = car.coupling * (x[m] - reach * x[m + 4] - q[0] - reach * q[4]) + car.coupling_damping * (
                    x[w] - reach * x[w + 4] - u[0] - reach * u[4]
                )
                fz = car.coupling * (
                    x[m + 1] + reach * x[m + 3] - q[1] + reach * q[3]
                ) + car.coupling_damping * (x[w + 1] + reach * x[w + 3] - u[1] + reach * u[3])
                cy += fy
                cz += fz
                cyaw += reach * fy
                cpitch -= reach * fz
        a[0], a[1], a[2], a[3], a[4] = (
            cy / car.mass,
            cz / car.mass,
            croll / car.roll,
            cpitch / car.pitch,
            cyaw / car.yaw,
        )
    return deepest


@kernel
def evaluate(
    x: Vector,
    s: float,
    v: float,
    lead: Vector,
    spacing: float,
    track: Table,
    car: Car,
    bogies: Bogies,
    dx: Vector,
    loads: Table,
) -> float:
    """Write the rates of one state and the wheel loads with the first wheelset at ``s``; see `rates`."""
    rails = np.empty((len(lead), 8))
    rails_at(s, lead, v, spacing, track, rails)
    return rates(x, v, rails, car, bogies, dx, loads)


@kernel
def run(
    x: Vector,
    start: float,
    v: float,
    h: float,
    between: int,
    lead: Vector,
    spacing: float,
    track: Table,
    car: Car,
    bogies: Bogies,
    states: Table,
    accelerations: Table,
    loads: NDArray[np.float64],
) -> tuple[int, float]:
    """Roll from the state ``x`` with the first wheelset at ``start``; return a status and where the train then is.

    A sample is written every ``between`` steps of ``h``: displacements, accelerations, wheel loads.
    """
    n = states.shape[1]
    axles = len(lead)
    k1, k2, k3, k4, trial = (
        np.empty(len(x)),
        np.empty(len(x)),
        np.empty(len(x)),
        np.empty(len(x)),
        np.empty(len(x)),
    )
    now, middle, then = np.empty((axles, 8)), np.empty((axles, 8)), np.empty((axles, 8))
    scratch = np.empty((axles, 4))
    s = start
    rails_at(s, lead, v, spacing, track, now)
    for sample in range(len(states)):
        for step in range(between):
            deep = rates(x, v, now, car, bogies, k1, scratch)
            if step == 0:
                states[sample] = x[:n]
                accelerations[sample] = k1[n : 2 * n]
                loads[sample] = scratch
                if not math.isfinite(k1[n]):
                    return DIVERGED, s
                if sample == len(states) - 1:
                    return DONE, s
            if deep > CLIMBED:
                return DERAILED, s
            count = sample * between + step
            rails_at(start + v * h * (count + 0.5), lead, v, spacing, track, middle)
            s = start + v * h * (count + 1.0)
            rails_at(s, lead, v, spacing, track, then)
            for i in range(len(x)):
                trial[i] = x[i] + 0.5 * h * k1[i]
            rates(trial, v, middle, car, bogies, k2, scratch)
            for i in range(len(x)):
                trial[i] = x[i] + 0.5 * h * k2[i]
            rates(trial, v, middle, car, bogies, k3, scratch)
            for i in range(len(x)):
                trial[i] = x[i] + h * k3[i]
            rates(trial, v, then, car, bogies, k4, scratch)
            for i in range(len(x)):
                x[i] += h / 6.0 * (k1[i] + 2.0 * (k2[i] + k3[i]) + k4[i])
            now, then = then, now
    return DONE, s
