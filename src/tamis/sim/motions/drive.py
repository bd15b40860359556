"""Motions from scene to outputs: the modulating function of intensity and times, the noise of a seed, batches."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import NamedTuple

import numpy as np
from scipy.optimize import elementwise
from scipy.special import gammainc, gammaincinv, gammaln

from tamis.errors import SimulationError, StudyError
from tamis.signals import GRAVITY, high_passed
from tamis.sim.common.threads import over_threads
from tamis.sim.motions import kernels
from tamis.sim.motions.scene import Motion
from tamis.types import Array, Indices

LEAST, MOST = 0.5, 1e4  # exponent k of the modulating function's square; below 1 it is infinite at the start
_BLOCK = 16  # motions, of a thread at a time


class Shape(NamedTuple):
    """The square of a modulating function is a gamma density: exponent k = 2 alpha2 - 1 and rate r = 2 alpha3."""

    k: Array
    r: Array


def ratio(k: Array) -> Array:
    """Return d5_95 over t45 of an exponent; the larger k, the smaller."""
    return np.asarray((gammaincinv(k, 0.95) - gammaincinv(k, 0.05)) / gammaincinv(k, 0.45))


WIDEST = float(ratio(np.array(LEAST)))  # 10.74
NARROWEST = float(ratio(np.array(MOST)))


def shape(d5_95: Array, t45: Array) -> Shape:
    """Return the modulating function that has these times; NaN where none has."""
    wanted = np.asarray(d5_95, dtype=float) / np.asarray(t45, dtype=float)
    inside = (wanted <= WIDEST) & (wanted >= NARROWEST)
    safe = np.where(inside, wanted, 3.0)

    def excess(log_k: Array, wanted: Array) -> Array:
        return np.log(ratio(np.exp(log_k)) / wanted)

    ends = (math.log(LEAST) - 1e-6, math.log(MOST) + 1e-6)
    found = elementwise.find_root(excess, ends, args=(safe,), tolerances={"xatol": 1e-13, "xrtol": 0.0})
    k = np.where(inside, np.exp(found.x), np.nan)
    return Shape(k, gammaincinv(k, 0.45) / t45)


def samples(duration: float, dt: float) -> int:
    """Return the number of samples from 0 to the last one within the duration."""
    return int(duration / dt * (1.0 + 1e-12) + 1e-9) + 1


def noise(seeds: Array | Indices, n: int) -> Array:
    """Return rows of standard normal numbers, each from its own seed."""
    out = np.empty((len(seeds), n))
    for row, seed in zip(out, seeds, strict=True):
        np.random.default_rng(int(seed)).standard_normal(out=row)
    return out


def simulate(scene: Motion) -> dict[str, Array]:
    """Run one motion: a batch of one, with the reason where there is none."""
    given = {field.name: np.array([getattr(scene, field.name)]) for field in fields(Motion)}
    widest = scene.d5_95 / scene.t45
    if not NARROWEST <= widest <= WIDEST:
        raise SimulationError(
            f"no modulating function has d5_95 = {scene.d5_95:g} s with t45 = {scene.t45:g} s: their ratio must be "
            f"from {NARROWEST:.3g} to {WIDEST:.4g}, found {widest:.4g}"
        )
    fastest = float(_fastest(given, scene.duration)[0])
    if fastest * scene.dt >= math.pi:
        raise SimulationError(
            f"the frequency of the filter reaches {fastest / (2 * math.pi):.3g} Hz within {scene.duration:g} s, beyond "
            f"what samples every {scene.dt:g} s can show, {0.5 / scene.dt:.3g} Hz; lower omega_mid, omega_rate, "
            "floor or dt"
        )
    return {name: array[0] for name, array in simulate_many(1, **given).items()}


def _fastest(columns: dict[str, Array], duration: float) -> Array:
    """Return the highest frequency of the filter while it rings, its floor included."""
    middle, rate, t45 = (columns[name] for name in ("omega_mid", "omega_rate", "t45"))
    highest = np.maximum(middle - rate * t45, middle + rate * (duration - t45))
    return np.asarray(np.maximum(highest, 2.0 * math.pi * columns["floor"]))


def simulate_many(threads: int | None = None, /, **columns: Array) -> dict[str, Array]:
    """Run a batch, one column of values per field of `Motion`; failed rows are NaN."""
    duration, dt = _common("duration", columns["duration"]), _common("dt", columns["dt"])
    n = samples(duration, dt)
    answer = modulated(columns, noise(columns["seed"], n), dt, threads)
    for row in np.flatnonzero(columns["corner"] > 0):
        answer["a"][row] = high_passed(answer["a"][row], dt, float(columns["corner"][row]))
    return {"t": np.broadcast_to(dt * np.arange(n), answer["a"].shape), **answer}


def modulated(columns: dict[str, Array], u: Array, dt: float, threads: int | None = None) -> dict[str, Array]:
    """Return modulating functions and motions made of given noise, a row a point."""
    k, r = shape(columns["d5_95"], columns["t45"])
    parts = [
        2.0 * GRAVITY / math.pi * columns["arias"], k, r, k * np.log(r) - gammaln(k), gammainc(k, 1.5 * dt * r),
        columns["omega_mid"], columns["omega_rate"], columns["t45"], columns["zeta"], 2.0 * math.pi * columns["floor"],
    ]  # fmt: skip
    points = np.column_stack([np.asarray(part, dtype=float) for part in parts])
    fastest = _fastest(columns, dt * (u.shape[1] - 1))
    points[fastest * dt >= math.pi, 1] = np.nan
    good = np.isfinite(points).all(axis=1)
    q, a = np.full_like(u, np.nan), np.full_like(u, np.nan)
    if good.all():
        over_threads(kernels.motions, len(u), dt, points, u, q, a, threads=threads, block=_BLOCK)
    elif good.any():
        some = modulated({name: column[good] for name, column in columns.items()}, u[good], dt, threads)
        q[good], a[good] = some["q"], some["a"]
    return {"q": q, "a": a}


def _common(name: str, column: Array) -> float:
    """Return the value that all motions of a batch share: their samples stand in one array."""
    if (column != column[0]).any():
        raise StudyError(
            f"motions of one batch have the same {name}, found {column.min():g} and {column.max():g} s; run them "
            "one by one"
        )
    return float(column[0])


def warm() -> None:
    """Compile every kernel of the family, once, before several processes or threads need them."""
    simulate(Motion(duration=0.5))
    kernels.correlations(0.01, 20.0, -0.5, 4.0, 0.3, 2.0, np.empty((3, 8)))
