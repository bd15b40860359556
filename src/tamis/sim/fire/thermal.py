"""Gas temperatures of EN 1991-1-2 and the steel that follows them, EN 1993-1-2, 4.2.5: one temperature a section.

Both increments of the code are explicit in time. The code allows steps of 5 s for bare and of 30 s for protected
steel; with the step of 1 s used here a refinement changes temperatures by less than 0.2 C."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner, kernel

DENSITY = 7850.0  # kg/m3, of steel at all temperatures
BOLTZMANN = 5.67e-8  # W/(m2 K4), as printed in EN 1991-1-2
STEP = 1.0  # s
ISO834, HYDROCARBON, PARAMETRIC = 0, 1, 2

Vector = NDArray[np.float64]


@inner
def specific_heat(t: float) -> float:
    """Return the specific heat of steel in J/(kg K) (3.4.1.2)."""
    if t < 600.0:
        return 425.0 + 7.73e-1 * t - 1.69e-3 * t * t + 2.22e-6 * t * t * t
    if t < 735.0:
        return 666.0 + 13002.0 / (738.0 - t)
    if t < 900.0:
        return 545.0 + 17820.0 / (t - 731.0)
    return 650.0


@kernel
def gas(
    curve: int, times: Vector, fire_load: float, opening: float, inertia: float, limit: float, out: Vector
) -> int:
    """Write gas temperatures in C (EN 1991-1-2, 3.2 and annex A).

    The last four are of the parametric fire only: MJ/m2 of enclosing surface, m^(1/2), J/(m2 s^(1/2) K), and the
    shortest time of burning in s. The part of slow heating by a small fire of annex A.2b and the factor k of openings
    that are small for their load are left out.
    """
    hours = limit / 3600.0
    longest = max(2e-4 * fire_load / opening, hours)  # A.7
    by_fuel = longest == hours
    used = 1e-4 * fire_load / hours if by_fuel else opening  # A.9
    rate = (used / inertia / (0.04 / 1160.0)) ** 2
    air = (opening / inertia / (0.04 / 1160.0)) ** 2
    star = 2e-4 * fire_load / opening * air  # A.12
    end = longest * rate
    hottest = 20.0 + 1325.0 * (
        1.0 - 0.324 * math.exp(-0.2 * end) - 0.204 * math.exp(-1.7 * end) - 0.472 * math.exp(-19.0 * end)
    )
    for i in range(len(times)):
        minutes = times[i] / 60.0
        if curve == ISO834:
            out[i] = 20.0 + 345.0 * math.log10(8.0 * minutes + 1.0)
        elif curve == HYDROCARBON:
            out[i] = 20.0 + 1080.0 * (
                1.0 - 0.325 * math.exp(-0.167 * minutes) - 0.675 * math.exp(-2.5 * minutes)
            )
        elif times[i] / 3600.0 <= longest:
            t = times[i] / 3600.0 * rate
            out[i] = 20.0 + 1325.0 * (
                1.0 - 0.324 * math.exp(-0.2 * t) - 0.204 * math.exp(-1.7 * t) - 0.472 * math.exp(-19.0 * t)
            )
        else:  # A.11
            t = times[i] / 3600.0 * air
            begin = hours * air if by_fuel else star
            slope = 625.0 if star <= 0.5 else (250.0 * (3.0 - star) if star < 2.0 else 250.0)
            out[i] = max(20.0, hottest - slope * (t - begin))
    return 0


@kernel
def bare(step: float, gas: Vector, factor: float, emissivity: float, convection: float, out: Vector) -> int:
    """Write steel temperatures of an unprotected member (4.25), ``factor`` being k_sh Am/V in 1/m."""
    t = 20.0
    for i in range(len(out)):
        out[i] = t
        around = gas[i]
        flux = convection * (around - t) + emissivity * BOLTZMANN * ((around + 273.0) ** 4 - (t + 273.0) ** 4)
        t += factor / (specific_heat(t) * DENSITY) * flux * step
    return 0


@kernel
def protected(
    step: float,
    gas: Vector,
    factor: float,
    thickness: float,
    conductivity: float,
    density: float,
    heat: float,
    out: Vector,
) -> int:
    """Write steel temperatures under protection (4.27), ``factor`` being Ap/V in 1/m."""
    t = 20.0
    for i in range(len(out)):
        out[i] = t
        if i + 1 == len(out):
            break
        stored = specific_heat(t) * DENSITY
        phi = heat * density / stored * thickness * factor
        change = conductivity * factor / thickness / stored * (gas[i + 1] - t) / (1.0 + phi / 3.0) * step
        rise = gas[i + 1] - gas[i]
        change -= (math.exp(phi / 10.0) - 1.0) * rise
        t += max(change, 0.0) if rise > 0.0 else change
    return 0
