"""A wall of blocks hit by a boulder, reduced to formulas: where four of its points are at three instants.

It stands in for a rigid-body simulation of twenty minutes, so that four ways to use the same 256 runs can be tried in
a minute. The real thing is the articulated wall of Gupta et al. (2023, 10.1016/j.engstruct.2023.116936).
"""

import numpy as np

import tamis


@tamis.simulator(
    outputs={"instant": "", "top": "m", "base": "m", "c": "m", "d": "m"},
    units={"d_z": "m", "v_p": "m", "energy": "kJ"},
)
def wall(*, d_z=0.07, v_p=0.065, mu_cc=0.35, mu_cs=0.32, e=0.2, energy=520.0, crack=0.0):
    """Displacement of four points of a wall, shortly after the impact, at its largest and at rest.

    d_z and v_p are the plays of the connections, mu_cc and mu_cs the friction between blocks and on the ground, e the
    restitution. A crack opens at high energy and loosens the top.
    """
    hit = np.sqrt(energy / 520.0)
    hold = 1 + 2.2 * (mu_cs - 0.3) + 0.9 * (mu_cc - 0.35)
    play = v_p / 0.065
    loose = 1 + crack * max(0.0, energy / 520.0 - 1)
    back = 0.06 + 0.5 * e**1.5
    reach = {
        "top": 0.95 * hit**1.1 * (0.55 + 0.45 * play) * (1 + 0.5 * (d_z - 0.07) / 0.07) / hold**1.2 * loose,
        "base": 0.80 * hit**1.2 * (0.85 + 0.15 * play) / hold**1.8,
        "c": 0.42 * hit * (0.7 + 0.3 * play**2) * (1 - 0.3 * (d_z - 0.07) / 0.07) / hold**1.4,
        "d": 0.36 * hit**0.9 * (0.8 + 0.2 * play) / hold**2.2 * (1 + 0.8 * (mu_cc - 0.35)),
    }
    early = {"top": 0.28, "base": 0.22, "c": 0.33, "d": 0.3}
    points = {
        name: np.array(
            [early[name] * most * (0.8 + 0.2 * play), most, most * (1 - back * (1.1 if name in "cd" else 1))]
        )
        for name, most in reach.items()
    }
    return {"instant": np.array([1.0, 2.0, 3.0]), **points}
