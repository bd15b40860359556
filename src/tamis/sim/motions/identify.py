"""The parameters of the model from a record: what its energy and its zero crossings say.

The record gives its Arias intensity, d5_95 and t45 directly, and with them the modulating function. What is left of it
when divided by that function is taken for filtered noise of unit variance, and three numbers of it are compared with
what the model expects: zero up-crossings, whose rate is the frequency; their mean time, which moves with its rate of
change; negative maxima and positive minima, of which a broad band of frequencies has many (Rezaeian & Der Kiureghian
2008, 10.1002/eqe.831, section 5).

Rezaeian and Der Kiureghian take these expectations from a formula for slow changes and from simulated motions. Here
they are exact. The samples are jointly Gaussian, with covariances that `kernels.correlations` sums, and the probability
that two or three Gaussian numbers are all positive is known in closed form (Sheppard 1898; for three, the sum of their
three pairs). Negative maxima of sampled noise depend on the step: what is identified is the filter for pulses at the
record's own step.

What a single motion measures scatters about the modulating function's own times, and not evenly: d5_95 comes out short
and t45 long, by up to three per cent. `identify` therefore makes motions with what it has found, measures these, and
divides by the mean of what they were off.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields

import numpy as np
from scipy.optimize import least_squares

from tamis.errors import StudyError
from tamis.signals import arias, arias_times
from tamis.sim.motions import drive, kernels
from tamis.types import Array

WINDOW = (0.01, 0.99)  # shares of the Arias intensity between which crossings are counted
ZETA = (0.01, 0.99)  # the bounds of the simulator
LEAST = 100  # samples of a record


@dataclass(frozen=True)
class Identified:
    """Parameters of one record, under the names of the simulator's inputs."""

    arias: float
    d5_95: float
    t45: float
    omega_mid: float
    omega_rate: float
    zeta: float


NAMES = tuple(field.name for field in fields(Identified))


@dataclass(frozen=True)
class Fitted:
    """Parameters of a set of records, a row each: what priors of a study are made of."""

    values: Array  # (n, 6), columns as in NAMES

    @property
    def bounds(self) -> Array:
        """Least and largest value of each parameter, (6, 2): those of uniform priors that hold all records."""
        return np.column_stack([self.values.min(axis=0), self.values.max(axis=0)])

    @property
    def correlation(self) -> Array:
        """Linear correlation of the parameters over the records, (6, 6); NaN for fewer than three of them."""
        if len(self.values) < 3:
            return np.full((len(NAMES), len(NAMES)), np.nan)
        return np.asarray(np.corrcoef(self.values, rowvar=False))


def identify(a: Array, dt: float, *, floor: float = 0.3, motions: int = 200) -> Identified:
    """Return the parameters of the model that belong to a recorded acceleration, in m/s2 at a step in s.

    ``motions`` is how many are made to correct for what single ones are off on average; 0 corrects nothing.
    """
    a = np.asarray(a, dtype=float)
    if a.ndim != 1 or len(a) < LEAST or not np.isfinite(a).all():
        raise StudyError(
            f"expected a record of at least {LEAST} finite accelerations in a row, found an array {a.shape}"
        )
    if dt <= 0:
        raise StudyError(f"the step of a record must be positive, found {dt:g} s")
    raw = _measured(a, dt, floor)
    if motions == 0:
        return Identified(*raw.tolist())
    given = dict(zip(NAMES, np.repeat(raw[:, None], motions, axis=1), strict=True))
    # noise of the record's own: the same for all would leave its error, a tenth of the scatter, in the mean of a set
    own = [len(a), round(1000.0 * raw[1]), round(1000.0 * raw[2])]
    noise = drive.noise(np.random.SeedSequence(own).generate_state(motions).astype(np.int64), len(a))
    made = drive.modulated({**given, "floor": np.full(motions, floor)}, noise, dt)["a"]
    again = np.mean([_times(row, dt) for row in made], axis=0)
    raw[1:3] *= (
        raw[1:3] / again[1:]
    )  # the times only: the mean square of a is that of q, so the intensity has no bias
    return Identified(*raw.tolist())


def fit(records: Iterable[tuple[Array, float]], *, floor: float = 0.3, motions: int = 200) -> Fitted:
    """Identify a set of records, pairs of accelerations and step."""
    found = [astuple(identify(a, dt, floor=floor, motions=motions)) for a, dt in records]
    if not found:
        raise StudyError("no records to fit")
    return Fitted(np.array(found))


def _times(a: Array, dt: float) -> tuple[float, float, float]:
    """Return Arias intensity, d5_95 and t45 of a motion."""
    early, middle, late = arias_times(a, dt, (0.05, 0.45, 0.95))
    return float(arias(a, dt)), late - early, middle


def _measured(a: Array, dt: float, floor: float) -> Array:
    """Return the parameters in the order of their names, uncorrected."""
    intensity, d5_95, t45 = _times(a, dt)
    if not intensity > 0:
        raise StudyError("the record is zero everywhere: there is nothing to identify")
    found = drive.shape(np.array(d5_95), np.array(t45))
    if not np.isfinite(found.k):
        raise StudyError(
            f"no modulating function has the record's d5_95 = {d5_95:.4g} s with its t45 = {t45:.4g} s: their ratio "
            f"must be from {drive.NARROWEST:.3g} to {drive.WIDEST:.4g}; cut off what is before or after the motion"
        )
    begin, end = (arias_times(a, dt, WINDOW) / dt).astype(int)
    begin, end = max(int(begin), 2), min(int(end), len(a) - 3)
    t = dt * np.arange(end + 2, dtype=float)
    log_q = 0.5 * ((found.k - 1.0) * np.log(t[1:]) - found.r * t[1:])
    x = np.append(0.0, a[1 : end + 2] * np.exp(log_q.max() - log_q))  # unmodulated, but for a factor
    ups, reversals = _counted(x)
    inside = slice(begin, end)
    seen = _sums(ups[inside], reversals[inside], t[inside] - t45)
    if seen[0] < 5:
        raise StudyError(
            f"the record crosses zero upwards {seen[0]:.0f} times while it is strong: too few to identify"
        )
    return np.array([intensity, d5_95, t45, *_filter(seen, dt, end, inside, t45, floor)])


def _filter(
    seen: Array, dt: float, end: int, inside: slice, t45: float, floor: float
) -> tuple[float, float, float]:
    """Return middle frequency, rate and damping for which three sums are expected as they were seen."""
    t = dt * np.arange(end + 4, dtype=float) - t45
    span = float(t[inside][-1] - t[inside][0])

    def off(p: Array) -> Array:
        middle, rate, zeta = math.exp(p[0]), p[1] * math.exp(p[0]) / span, 1.0 / (1.0 + math.exp(-p[2]))
        ups, reversals = expected(dt, len(t), middle, rate, t45, zeta, floor)
        sums = _sums(ups[inside], reversals[inside], t[inside])
        return np.asarray((sums - seen) / scale)

    rate_of_crossings = seen[0] / span
    scale = np.array([seen[0], seen[0] * span, max(seen[2], 1.0)])
    start = np.array([math.log(2.0 * math.pi * rate_of_crossings), 0.0, -1.0])
    low, high = (math.log(z / (1.0 - z)) for z in ZETA)
    top = math.log(0.99 * math.pi / dt)
    bounds = ([start[0] - 2.0, -2.0, low], [min(start[0] + 2.0, top), 2.0, high])
    p = least_squares(
        off, np.clip(start, *np.add(bounds, [[1e-6], [-1e-6]])), bounds=bounds, xtol=1e-6, diff_step=1e-4
    ).x
    return math.exp(p[0]), p[1] * math.exp(p[0]) / span, 1.0 / (1.0 + math.exp(-p[2]))


def _sums(ups: Array, reversals: Array, t: Array) -> Array:
    return np.array([ups.sum(), (ups * t).sum(), reversals.sum()])


def _counted(x: Array) -> tuple[Array, Array]:
    """Return 1 at samples before an up-crossing, and at negative maxima and positive minima; else 0."""
    ups, reversals = np.zeros(len(x)), np.zeros(len(x))
    ups[:-1] = (x[:-1] < 0) & (x[1:] >= 0)
    before, here, after = x[:-2], x[1:-1], x[2:]
    reversals[1:-1] = (here * (here - before) < 0) & (here * (here - after) < 0)
    return ups, reversals


def expected(
    dt: float, n: int, middle: float, rate: float, t45: float, zeta: float, floor: float
) -> tuple[Array, Array]:
    """Return probabilities: of an up-crossing after each sample, of a negative maximum or positive minimum at it."""
    out = np.empty((3, n))
    kernels.correlations(dt, middle, rate, t45, zeta, 2.0 * math.pi * floor, out)
    sd = np.sqrt(out[0, 1:])  # the first sample is zero
    next_one = out[1, 1:-1] / (sd[:-1] * sd[1:])
    next_two = out[2, 1:-2] / (sd[:-2] * sd[2:])
    ups, reversals = np.zeros(n), np.zeros(n)
    ups[1:-1] = np.arccos(np.clip(next_one, -1.0, 1.0)) / (2.0 * math.pi)
    # all of -x, x - (sample before), x - (sample after) positive: a negative maximum; a positive minimum is as probable
    before, after = next_one[:-1], next_one[1:]
    rise, fall = np.sqrt(2.0 - 2.0 * before), np.sqrt(2.0 - 2.0 * after)
    both = np.clip((1.0 - before - after + next_two) / (rise * fall), -1.0, 1.0)
    pairs = np.arcsin(-0.5 * rise) + np.arcsin(-0.5 * fall) + np.arcsin(both)
    reversals[2:-1] = 2.0 * (1.0 / 8.0 + pairs / (4.0 * math.pi))
    return ups, reversals
