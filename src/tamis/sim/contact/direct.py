"""Newton's method, and the path where it comes to nothing: for as many bodies as can be factorised.

Newton's method (``newton.py``) uses the warm start and mostly ends within thirty iterations. Where it has not ended by
then it rarely does, and the path (interior_point), which begins from nothing, takes over; it decides who carries, and
Newton's method supplies the last digits. On the 181 hardest of 700 steps of the struck wall this takes two thirds of
the time of Newton's method alone; wedged grains (``patches.py``) often yield to the path only. It is taken
once: from the same problem it would end in the same place.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tamis.jit import kernel
from tamis.sim.contact.interior_point import Path, follow
from tamis.sim.contact.linear import BlockLU
from tamis.sim.contact.newton import FIRST, Trial, proximal_newton
from tamis.sim.contact.problem import Contacts, copy, impose

Array = NDArray[np.float64]

TRY = 30  # iterations of Newton's method before the path is taken
STEPS = 40  # of the path
POLISH = 30  # iterations from where the path ends
STIFF = 1e3  # stiffness to begin these with: who carries is decided
AGAIN = 20  # iterations where the path has been taken before; it would end where it did


@kernel
def solve_direct(
    contacts: Contacts,
    w: Array,
    r: Array,
    W: Array,
    weight: Array,
    goal: float,
    scale: float,
    first: bool,
    count: int,
    lu: BlockLU,
    trial: Trial,
    scratch: Path,
) -> tuple[int, float, int]:
    """Improve w and r to a residual, a velocity, of ``goal``; return iterations, residual, worst contact."""
    iterations, found, worst = proximal_newton(
        contacts, w, r, weight, goal, TRY if first else AGAIN, FIRST, count, lu, trial
    )
    if found <= goal or not first:
        return iterations, found, worst
    least, where = found, worst
    copy(r, scratch.kept)
    steps, found, worst = follow(contacts, w, r, W, weight, goal, scale, STEPS, count, lu, trial, scratch)
    iterations += steps
    if goal < found < scale:  # from there even if Newton's method had come further: it was stuck
        steps, found, worst = proximal_newton(contacts, w, r, weight, goal, POLISH, STIFF, count, lu, trial)
        iterations += steps
    if not found <= least and not math.isnan(least):
        copy(scratch.kept, r)
        impose(contacts, r, trial.free, w)
        return iterations, least, where
    return iterations, found, worst
