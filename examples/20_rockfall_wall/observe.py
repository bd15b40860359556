"""The three instants of Gupta et al. (2023): shortly after the impact, at most, and at rest.

The same functions read the outputs of a run and a user's curves (`instants.py`), so that both are treated alike.
"""

import numpy as np

EARLY, LATE = 0.1, 0.25  # s after the impact has begun: on the impact axis, on the distant axis
INSTANTS = ("init", "max", "rest")
THROUGH = 100.0  # m, said of the way of a wall that did not stop its rock: beyond any limit


def three(t, displacement, when):
    """Return the displacement at an instant, the largest and the last one."""
    if not (t[0] <= when <= t[-1]):
        raise ValueError(
            f"the curve covers {t[0]:g} to {t[-1]:g} s and not {when:g} s, at which its first value is taken"
        )
    return np.array([np.interp(when, t, displacement), displacement.max(), displacement[-1]])


def top(outputs):
    return three(outputs["t"], outputs["top"], EARLY)


def base(outputs):
    return three(outputs["t"], outputs["base"], EARLY)


def c(outputs):
    return three(outputs["t"], outputs["c"], LATE)


def d(outputs):
    return three(outputs["t"], outputs["d"], LATE)


def way(outputs):
    """Return how far the base of a wall that held has gone at most."""
    return outputs["base"].max() if outputs["stopped"] > 0.5 else THROUGH
