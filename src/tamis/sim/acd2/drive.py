"""From scenes to outputs: one jump of one grain."""

from __future__ import annotations

import numpy as np

from tamis.sim.acd2.jump import Step, solve_jump
from tamis.sim.acd2.scene import Impact
from tamis.types import Array


def simulate_impact(scene: Impact) -> dict[str, Array]:
    """Solve the one jump of a grain on a plane."""
    rows = np.zeros((1, 3, 12))
    rows[0, :, 6:9] = np.eye(3)[[2, 0, 1]]  # no entry for rotation: it is locked
    before = np.array([[scene.v_t, 0.0, -scene.v_n, 0.0, 0.0, 0.0]])
    none, grain = np.array([-1]), np.array([0])
    step = Step(
        np.full((1, 6), scene.mass), before, np.zeros((1, 6)), none, grain, rows, scene.k_n, scene.k_t
    )
    jump = solve_jump(step)
    return {
        "u_n": jump.after[0, 2],
        "u_t": jump.after[0, 0],
        "multiplier": jump.multiplier[0],
        "dissipated": jump.dissipated(step)[0],
    }


def warm() -> None:
    """Compile every kernel of the family, once, before several processes or threads need them."""
    simulate_impact(Impact())
