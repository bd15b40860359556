"""The direct methods together, each where the others come to nothing: for as many bodies as can be factorised.

*Newton's method with an active set* (``active_set.py``) is the first choice, in bouts of `BOUT` iterations: it ends
most problems in one, and where it has not ended then it mostly goes round in circles, which some sweeps of Gauss-Seidel
end. *Newton's method with a proximal centre* (``newton.py``) is slower and steadier: what it has gained it does not
lose. It takes every other bout: of 100 steps of an articulated wall all are solved so in 8 ms in the mean, with the
active set alone 5 are not in 15 bouts, with the proximal centre alone it takes 14 ms. The *path* through the interior of
the cones (``interior_point.py``) begins from nothing and does not see what stops the others; it ends some digits early
and is taken once, for from the same problem it would end in the same place.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tamis.jit import inner, kernel
from tamis.sim.contact.active_set import active_set_newton
from tamis.sim.contact.interior_point import Path, follow
from tamis.sim.contact.linear import BlockLU
from tamis.sim.contact.newton import FIRST, Trial, proximal_newton
from tamis.sim.contact.problem import Contacts, copy, impose, residual

Array = NDArray[np.float64]

BOUT = 20  # iterations of Newton's method with an active set,
STEADY = 40  # and of the one with a proximal centre
CYCLE = 2  # bouts of which the last is the steady one
PATH = 7  # the bout in whose place the path is taken
STEPS = 40  # of the path
POLISH = 30  # iterations from where the path ends
STIFF = 1e3  # stiffness to begin these with: who carries is decided


@kernel
def solve_direct(
    contacts: Contacts,
    w: Array,
    r: Array,
    W: Array,
    weight: Array,
    goal: float,
    scale: float,
    bout: int,
    count: int,
    lu: BlockLU,
    trial: Trial,
    scratch: Path,
) -> tuple[int, float, int]:
    """Improve w and r in the bout of that number, towards a residual, a velocity, of ``goal``.

    Returns iterations, residual and worst contact.
    """
    if bout == PATH:
        return polish_path(contacts, w, r, W, weight, goal, scale, count, lu, trial, scratch)
    if bout % CYCLE == CYCLE - 1:
        return proximal_newton(contacts, w, r, weight, goal, STEADY, FIRST, count, lu, trial)
    return active_set_newton(contacts, w, r, weight, goal, BOUT, count, lu, trial, scratch.active)


@kernel
def solve_outright(
    contacts: Contacts,
    w: Array,
    r: Array,
    W: Array,
    weight: Array,
    goal: float,
    scale: float,
    count: int,
    lu: BlockLU,
    trial: Trial,
    scratch: Path,
) -> tuple[int, float, int]:
    """Improve w and r by one method after the other, as `solve_direct` does, but without sweeps between them."""
    iterations, found, worst = active_set_newton(
        contacts, w, r, weight, goal, BOUT, count, lu, trial, scratch.active
    )
    if found > goal:
        steps, found, worst = proximal_newton(contacts, w, r, weight, goal, STEADY, FIRST, count, lu, trial)
        iterations += steps
    if found <= goal:
        return iterations, found, worst
    steps, found, worst = polish_path(contacts, w, r, W, weight, goal, scale, count, lu, trial, scratch)
    return iterations + steps, found, worst


@inner
def polish_path(
    contacts: Contacts,
    w: Array,
    r: Array,
    W: Array,
    weight: Array,
    goal: float,
    scale: float,
    count: int,
    lu: BlockLU,
    trial: Trial,
    scratch: Path,
) -> tuple[int, float, int]:
    """Follow the path, let Newton's method supply the last digits; where that is worse, leave w and r as they were."""
    least, where = residual(contacts, w, r, weight, trial.errors)
    copy(r, scratch.kept)
    iterations, found, worst = follow(
        contacts, w, r, W, weight, goal, scale, STEPS, count, lu, trial, scratch
    )
    if goal < found < scale:
        steps, found, worst = proximal_newton(contacts, w, r, weight, goal, POLISH, STIFF, count, lu, trial)
        iterations += steps
    if not found <= least and not math.isnan(least):
        copy(scratch.kept, r)
        impose(contacts, r, trial.free, w)
        return iterations, least, where
    return iterations, found, worst
