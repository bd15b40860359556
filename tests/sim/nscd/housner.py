"""A rigid block that rocks in a plane, by Housner's equation (1963, 10.1785/BSSA0530020403): an independent answer.

    I theta'' = -m g R sin(a s - theta) - m a_g R cos(a s - theta),   s = sign of theta, I = 4/3 m R^2

with the half diagonal R at the angle a from the height. It turns about one corner, and at each impact, where theta
passes zero, goes on about the other with 1 - 3/2 sin(a)^2 of its angular velocity. It leaves the ground when the
acceleration passes g tan(a). Many blocks at once, by Runge's and Kutta's fourth order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

G = 9.81


def tilts(
    pulse: Any,
    period: Any,
    *,
    width: Any = 0.5,
    height: Any = 2.0,
    tilt: Any = 0.0,
    duration: float = 4.0,
    h: float = 2e-4,
) -> np.ndarray:
    """Return the tilts (steps + 1, n) in radians of blocks under one full sine of ground acceleration.

    Positive is towards +x, as the inertial force of a ground that moves to -x; those that pass a right angle lie.
    """
    pulse, period, width, height, tilt = np.broadcast_arrays(
        *np.atleast_1d(pulse, period, width, height, tilt)
    )
    a, radius = np.arctan2(width, height), 0.5 * np.hypot(width, height)
    p2, kept = 3 * G / (4 * radius), 1 - 1.5 * np.sin(a) ** 2
    theta, omega = np.radians(tilt).astype(float), np.zeros(len(a))
    side = np.where(theta < 0, -1.0, 1.0)
    rocks = theta != 0
    found = [theta]

    def ground(t: float) -> np.ndarray:
        return np.where(t < period, pulse * np.sin(2 * np.pi * t / period), 0.0)

    def slope(t: float, theta: np.ndarray) -> np.ndarray:
        return -p2 * (np.sin(a * side - theta) + ground(t) / G * np.cos(a * side - theta))

    for i in range(round(duration / h)):
        t = i * h
        starts = ~rocks & (np.abs(ground(t + h)) > G * np.tan(a))
        side = np.where(starts, -np.sign(ground(t + h)), side)
        rocks = rocks | starts
        k1, l1 = omega, slope(t, theta)
        k2, l2 = omega + 0.5 * h * l1, slope(t + 0.5 * h, theta + 0.5 * h * k1)
        k3, l3 = omega + 0.5 * h * l2, slope(t + 0.5 * h, theta + 0.5 * h * k2)
        k4, l4 = omega + h * l3, slope(t + h, theta + h * k3)
        new = theta + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        speed = omega + h / 6 * (l1 + 2 * l2 + 2 * l3 + l4)
        hit = rocks & (new * side < 0)
        share = np.where(
            hit, theta / np.where(theta == new, 1.0, theta - new), 0.0
        )  # of the step, before the impact
        side = np.where(hit, -side, side)
        speed = np.where(hit, kept * (omega + share * (speed - omega)), speed)
        new = np.where(hit, speed * (1 - share) * h, new)
        down = rocks & (np.abs(new) < 1e-7) & (np.abs(speed) < 1e-5)
        lies = np.abs(new) > np.pi / 2
        theta = np.where(lies, np.sign(new) * np.pi / 2, np.where(rocks & ~down, new, 0.0))
        omega = np.where(rocks & ~down & ~lies, speed, 0.0)
        rocks = rocks & ~down
        found.append(theta)
    return np.array(found)


def overturned(*args: Any, **options: Any) -> np.ndarray:
    """Return which blocks end lying."""
    return np.asarray(np.abs(tilts(*args, **options)[-1]) > np.radians(80))
