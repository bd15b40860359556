"""Impacts from scene to outputs: scratch arrays, sampled histories, status codes turned into errors."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from tamis.errors import SimulationError
from tamis.sim.common.threads import over_threads
from tamis.sim.dem.impact import kernels
from tamis.sim.dem.impact.scene import Impact
from tamis.types import Array

RESULTS = ("cnr", "ctr", "spin_out", "contact_time", "peak_force")
HISTORY = 201
_FINER = 16  # recorded steps are so much shorter: interpolating them linearly costs 1e-4 of the peak at most


def simulate(scene: Impact) -> dict[str, Array]:
    """Run one impact: results, bit for bit those of `simulate_many`, and histories at `HISTORY` instants."""
    values = scene.values()
    results = np.empty(5)
    nothing = np.empty((0, 4))
    status, rows = kernels.rebound(kernels.STEP, nothing, results, *values)
    _check(status, scene)
    finer = min(_FINER, max(1, kernels.MAX_STEPS // (2 * rows)))
    nodes = np.empty((kernels.MAX_STEPS, 4))
    _, rows = kernels.rebound(kernels.STEP / finer, nodes, np.empty(5), *values)
    t, normal, tangential, overlap = nodes[:rows].T
    phase = np.linspace(0.0, 1.0, HISTORY)
    answer = {name: np.array(value) for name, value in zip(RESULTS, results, strict=True)}
    answer["t"] = phase * answer["contact_time"]
    for name, signal in (("F_n", normal), ("F_t", tangential), ("xi", overlap)):
        answer[name] = np.interp(phase, t / t[-1], signal)
    return answer


def simulate_many(threads: int | None = None, /, **columns: Array) -> dict[str, Array]:
    """Run a batch without histories, one column of values per field of `Impact`; failed rows are NaN."""
    out, given = np.empty((len(columns["radius"]), 5)), [columns[field.name] for field in fields(Impact)]
    over_threads(kernels.rebounds, len(out), out, *given, threads=threads)
    return dict(zip(RESULTS, out.T, strict=True))


def warm() -> None:
    """Compile every kernel of the family, once, before several processes or threads need them."""
    simulate(Impact())
    simulate_many(**{name: np.array([value]) for name, value in vars(Impact()).items()})


def _check(status: int, scene: Impact) -> None:
    if status == kernels.TOO_LONG:
        raise SimulationError(
            f"the sphere is still in contact after {kernels.MAX_STEPS} steps (a contact takes about 40): "
            f"gamma = {scene.gamma:g} or k_t = {scene.k_t:g} N/m is out of proportion to the stiffness of "
            "the contact; lower it"
        )
    if status == kernels.NO_RATIO:
        raise SimulationError(
            f"ctr is undefined at angle = 0 with spin = {scene.spin:g} rad/s: there is no tangential "
            "velocity before impact to compare with; give a non-zero angle, or no spin"
        )
