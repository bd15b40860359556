"""A structure in parts from case to outputs: the plant under a record, a specimen that answers late."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tamis.errors import SimulationError, StudyError
from tamis.sim.common import partitioned
from tamis.sim.common.records import read_record
from tamis.sim.common.subdomains import Subdomain, assembled, share_mass
from tamis.sim.hybrid import kernels, structures
from tamis.sim.hybrid.scene import Late, Plant
from tamis.types import Array


class Spring(NamedTuple):
    """A bilinear spring of a fine subdomain: its first stiffness is part of the subdomain's."""

    part: str
    dof: int
    k: float
    alpha: float = 1.0
    limit: float = math.inf
    late: float = 0.0  # steps from command to motion
    held: float = 0.0  # steps for which a command is held


class Run(NamedTuple):
    """What a run kept: instants, motions by subdomain, spring and link forces, largest values."""

    t: Array
    u: dict[str, Array]
    v: dict[str, Array]
    force: Array
    multipliers: dict[str, Array]
    gap: float
    drift: float
    energy: float
    peak: float
    t_peak: float
    force_peak: float


def march(
    subdomains: Sequence[Subdomain],
    springs: Sequence[Spring],
    signal: Array,
    dt: float,
    *,
    watched: tuple[str, int],
    subcycling: int = 1,
    method: partitioned.Method = "gc",
    every: int = 1,
    bound: float = 1e6,
) -> Run:
    """Step linear subdomains with springs through a signal, compiled; as `partitioned.integrate`.

    A watched displacement beyond ``bound`` (m) is a failure.
    """
    stages = partitioned.prepare(subdomains, dt, subcycling, method)
    load, pattern = partitioned.loads(subdomains)
    state = partitioned.start(subdomains, stages[0], load + pattern * signal[0])
    first = dict(zip((part.name for part in subdomains), stages[0].parts.first.tolist(), strict=False))
    held = np.array([spring.held for spring in springs])
    late = np.array([spring.late for spring in springs]) + np.where(held < 1.0, 0.5 * held, 0.0)
    held[held < 1.0] = 0.0  # within a step, a hold is a delay
    samples = math.ceil((late + held).max(initial=0.0)) + 4
    k, alpha, limit = np.array([(s.k, s.alpha, s.limit) for s in springs]).T.copy()
    bearings = kernels.Bearings(
        np.array([first[spring.part] + spring.dof for spring in springs], dtype=np.int64), k, alpha, limit,
        np.zeros(len(springs)), np.zeros(len(springs)), np.zeros(len(springs)), late, held,
        np.zeros((len(springs), samples)),
    )  # fmt: skip
    steps = (len(signal) - 1) // subcycling
    rows, dofs = steps // every + 1, len(load)
    book = kernels.Book(
        np.empty((rows, dofs)), np.empty((rows, dofs)), np.empty((rows, len(springs))),
        np.empty((rows, len(state.multiplier))), np.zeros(3), np.zeros(3),
    )  # fmt: skip
    failed = kernels.march(
        *stages[0], *stages[-1], state, bearings, load, pattern, np.ascontiguousarray(signal, dtype=float), dt,
        subcycling, method == "pm", first[watched[0]] + watched[1], bound, every, book,
    )  # fmt: skip
    if failed:
        raise SimulationError(f"the motion has diverged at t = {failed * dt:g} s: it is beyond {bound:g} m")
    spans = {part.name: slice(first[part.name], first[part.name] + len(part.mass)) for part in subdomains}
    owner = stages[0].links.part
    return Run(
        every * dt * np.arange(rows, dtype=np.float64),
        {name: book.u[:, span] for name, span in spans.items()},
        {name: book.v[:, span] for name, span in spans.items()},
        book.force,
        {name: book.multiplier[:, owner == number] for number, name in enumerate(spans)},
        *book.gap.tolist(), *book.peak.tolist(),
    )  # fmt: skip


def steps_of(duration: float, dt: float) -> int:
    """Return the number of steps in a duration, the nearest one."""
    steps = round(duration / dt)
    if steps < 1:
        raise StudyError(f"the duration, {duration:g} s, is shorter than a step of {dt:g} s")
    return steps


def ground(case: Plant, instants: Array) -> Array:
    """Return the record at these instants, straight between samples, scaled to its peak, zero after its end."""
    record = read_record(Path(case.record))
    peak = float(np.abs(record.a).max())
    if case.pga > 0 and peak == 0:
        raise StudyError(f"{Path(case.record).name} is zero throughout: it cannot be scaled to a peak")
    scale = case.pga / peak if case.pga > 0 else 1.0
    return np.asarray(scale * np.interp(instants, record.t, record.a, right=0.0))


def plant_run(case: Plant) -> Run:
    """Run the plant and keep all of its motion."""
    steps = steps_of(case.duration, case.dt)
    fine = case.dt / case.subcycling
    signal = ground(case, fine * np.arange(steps * case.subcycling + 1, dtype=np.float64))
    k, alpha, limit = structures.bearing_law(case)
    parts = structures.parts(case)
    method: partitioned.Method = "pm" if case.method == "pm" else "gc"
    place = "bearings"
    if case.method == "monolithic":
        parts, place = [assembled(parts, fine=True)], "whole"
    bearing = Spring(place, 0, 4.0 * k, alpha, limit, case.delay / case.scale / fine)
    return march(
        parts, [bearing], signal, case.dt, watched=(place, 0),
        subcycling=case.subcycling, method=method, every=max(1, round(case.interval / case.dt)),
    )  # fmt: skip


def plant(case: Plant) -> dict[str, Array]:
    """Return the outputs of the plant."""
    run = plant_run(case)
    if case.method == "monolithic":
        base, tank = run.u["whole"], run.u["whole"]
        speed = run.v["whole"][:, 0]
        piping = run.u["whole"][:, 3:]
    else:
        base, tank, speed = run.u["bearings"], run.u["tank"], run.v["bearings"][:, 0]
        piping = run.u["piping"][:, 1:] if case.piping != "none" else np.zeros((len(run.t), 0))
    every = 2 if case.piping == "beam" else 1  # displacements alternate with rotations
    middle = piping[:, every - 1 :: every]
    return {
        "t": run.t,
        "u": base[:, 0],
        "v": speed,
        "force": run.force[:, 0],
        "force_tested": run.force[:, 0]
        * case.tested
        / 4.0,  # bearings move alike: what is measured is multiplied
        "u_impulsive": tank[:, 1],
        "u_convective": tank[:, 2],
        "u_pipe": middle[:, middle.shape[1] // 2] if middle.shape[1] else np.zeros(len(run.t)),
        "peak": np.array(run.peak),
        "t_peak": np.array(run.t_peak),
        "residual": base[-1, 0].copy(),
        "force_peak": np.array(run.force_peak),
        "gap": np.array(run.gap),
        "drift": np.array(run.drift),
    }


def late(case: Late) -> dict[str, Array]:
    """Return the outputs of a test whose specimen answers late, beside those of one that answers at once."""
    exact = _late_run(case, 0.0, 0.0)
    run = _late_run(case, case.delay / case.scale, case.hold / case.scale)
    omega = math.sqrt((case.k_n + case.k_p) / case.mass)
    u, v = run.u["specimen"][:, 0], run.v["specimen"][:, 0]
    return {
        "t": run.t,
        "u": u,
        "force": run.force[:, 0],
        "u_exact": exact.u["specimen"][:, 0],
        "growth": np.array(growth(run.t, u, v, omega, after=_PULSE)),
        "growth_expected": np.array(growth_expected(case)),
    }


_PULSE = 0.2  # s, of the half-sine
_BOUND = 1e200  # m: all is linear here, so that a motion that grows is told by its rate


def _late_run(case: Late, delay: float, hold: float) -> Run:
    mass = np.array([case.mass])
    computed = Subdomain(
        "computed", mass, np.array([[case.k_n]]), {"joint": 0}, damping=np.array([[case.c]]), pattern=-mass
    )
    specimen = Subdomain(
        "specimen", 1e-12 * mass, np.array([[case.k_p]]), {"joint": 0}, scheme="explicit", fine=True
    )
    parts = share_mass(computed, specimen, "joint", case.mass_fraction)
    t = case.dt * np.arange(steps_of(case.duration, case.dt) + 1)
    signal = np.where(t < _PULSE, case.pulse * np.sin(math.pi * t / _PULSE), 0.0)
    spring = Spring("specimen", 0, case.k_p, late=delay / case.dt, held=hold / case.dt)
    try:
        return march(parts, [spring], signal, case.dt, watched=("specimen", 0), bound=_BOUND)
    except SimulationError as error:
        raise SimulationError(f"{error}; a shorter duration lets you see at which rate it grows") from None


def growth_expected(case: Late) -> float:
    """Return the largest real part of the roots of m s^2 + c s + k_n + k_p exp(-s tau), by Newton's method, 1/s.

    Frequencies of what grows are at most that of the structure on both springs, and with tau there are more and more of
    them: as many beginnings. For short tau it is (k_p sin(omega tau)/omega - c)/2m, Horiuchi et al. 1999.
    """
    tau = (case.delay + 0.5 * case.hold) / case.scale  # a held command is late by half of its time
    omega = math.sqrt((case.k_n + case.k_p) / case.mass)
    s = 1j * np.linspace(0.0, omega, 8 + 2 * math.ceil(omega * tau))
    with np.errstate(all="ignore"):  # a beginning that leads nowhere is left out
        for _ in range(100):
            pushed = case.k_p * np.exp(-s * tau)
            rest = case.mass * s * s + case.c * s + case.k_n + pushed
            s = s - rest / (2.0 * case.mass * s + case.c - tau * pushed)
        reached = np.abs(rest) < 1e-9 * (case.k_n + case.k_p)
    return float(s[reached].real.max()) if reached.any() else math.nan


def growth(t: Array, u: Array, v: Array, omega: float, *, after: float) -> float:
    """Return the rate at which the amplitude of an oscillation grows, 1/s: the slope of its logarithm."""
    amplitude = np.hypot(u, v / omega)
    free = (t > after) & (amplitude > 1e-250)
    return float(np.polyfit(t[free], np.log(amplitude[free]), 1)[0]) if free.sum() > 2 else -math.inf
