"""One step of fifty poured grains by nscd for the A-CD2 method to repeat; `python -m` this module writes it.

To make it takes half a minute, to compile the other family; so its numbers are kept in ``tests/data/acd2``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tamis.files import save_arrays
from tamis.sim.acd2.jump import Step
from tamis.sim.nscd import kernels, layout
from tamis.sim.nscd.drive import MARGIN, TOUCH, smallest
from tamis.sim.nscd.scenes.grains import pour

FOLDER = Path(__file__).parents[2] / "data" / "acd2"
FRICTIONS = (0.0, 0.3)


def path_of(mu: float) -> Path:
    """Return where the step with a friction is kept."""
    return FOLDER / f"nscd-{mu:g}.npz"


def step_of(kept: dict[str, np.ndarray], mu: float) -> Step:
    """Return a step that was kept as one of the A-CD2 method without dissipation but friction."""
    of = {name: kept[name] for name in ("mass", "before", "impulse", "a", "b", "rows")}
    return Step(**of, k_n=0.0, k_t=0.0, mu=mu)


def make(mu: float, h: float = 2e-3, last: int = 60) -> dict[str, np.ndarray]:
    """Pour grains for some steps; return bodies and contacts of the last one and its velocities after."""
    model, state, _ = layout.lay_out(pour(grains=50, mu=mu), h, last)
    room, kept = layout.room(model, 4096, 4096), layout.record(model, last, 1, 0)
    state, size, done = layout.grown(state, 4096), smallest(model), 0
    rest = np.zeros(len(state.x))
    while done < last:
        status, done, need = kernels.advance(
            model,
            state,
            room,
            kept,
            h,
            0.5,
            1e-10,
            MARGIN * size,
            TOUCH * size,
            rest,
            last + 1,
            1,
            0,
            done,
            last,
        )
        assert status in (kernels.DONE, kernels.MORE_METHODS)
        if status == kernels.MORE_METHODS:
            layout.solve.provide(need, room.solver.methods)
    n, bodies, active = int(kept.steps.active[-1]), model.bodies, room.active
    grains = np.flatnonzero(bodies.number >= 0)
    assert (bodies.number[grains] == np.arange(50)).all()
    mass, before, free = bodies.mass[grains], room.motion.before[grains], room.motion.free[grains]
    a, b = active.row_a[:n], active.row_b[:n]
    rows = active.G[:n].copy()
    for side, body in enumerate((a, b)):
        rows[:, :, 6 * side : 6 * side + 6] *= np.where(body[:, None] >= 0, np.sqrt(mass[body]), 0.0)[:, None]
    after = bodies.inverse[grains] * room.motion.w
    return {
        "mass": mass, "before": before, "impulse": mass * (free - before), "a": a, "b": b, "rows": rows,
        "after": after, "r": active.r[:n],
    }  # fmt: skip


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for friction in FRICTIONS:
        save_arrays(path_of(friction), make(friction))
