"""Cyclic tests on a rig: the loop of a controller cycle by cycle, and a reference that learns from cycle to cycle.

The controller closes its loops within a cycle (`kernels.drive_cycle`). Between cycles the ends of the reference are
corrected, so that the specimen meets constraints that no loop sees (SERA deliverable D27.1, 2019, A.32, A.33): its
least displacement is zero and its largest force + slope x displacement a given force. How much a constraint moves with
the reference is learnt by secants from the cycles before. Extremes are those of means over 25 samples: the
extreme of noise would be several of its standard deviations. A cycle begins in the middle, rising: the specimen is
late, and both of its extremes lie within the cycle whose reference caused them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import uniform_filter1d

from tamis.errors import SimulationError, StudyError
from tamis.sim.hybrid import kernels
from tamis.sim.hybrid.modes import Modes, modes
from tamis.sim.hybrid.scene import Rig
from tamis.types import Array

LOOPS = {"mixed": kernels.MIXED, "modal": kernels.MODAL, "displacement": kernels.DISPLACEMENT}
WITHIN = 0.005  # of a constraint, to count as met
_NOMINAL = 4e8  # N/m, what the controller takes the specimen for before its first cycle
_SMOOTH = 0.025  # s
_LEARNT = 1e-5  # m, the least change of a reference that says something about its effect
_ORTHOGONAL = 1e-12


@dataclass
class Bench:
    """A rig of any number of actuators under control: call `cycle` again and again.

    Parameters
    ----------
    C
        (actuators, rigid motions); two actuators in line have [[1], [1]]. The specimen is a bilinear spring ``k_s`` for
        each rigid motion: columns of C are the motions in which it has no coupling of its own.
    D_scale
        Factor of the deforming motions, so that their forces are meaningful: 1/2 for two actuators (A.24).
    p, w
        Gain in displacement and weight of force in a mixed feedback; modal loops have gains p and p w and the integral
        ones ``i_c``, ``i_d``, a number for all modes or one for each.
    """

    C: Array
    k_a: float
    k_s: Array
    limit: Array
    hardening: float = 0.0
    lag: float = 0.0
    delay: float = 0.0
    p: float = 20.0
    w: float = 4e-9
    i_c: float | Array = 0.0
    i_d: float | Array = 0.0
    D_scale: float = 1.0
    control: str = "mixed"
    period: float = 2.0
    dt: float = 1e-3

    def __post_init__(self) -> None:
        c = np.asarray(self.C, dtype=float)
        found = modes(c)
        weights = c.T @ c
        size = np.sqrt(np.diag(weights))
        weights[np.abs(weights) < _ORTHOGONAL * np.outer(size, size)] = 0.0
        coupled = bool(np.count_nonzero(weights) > len(weights))
        stiffness = self.k_a * weights + np.diag(self.hardening * np.asarray(self.k_s, dtype=float))
        rate = np.abs(np.linalg.eigvals(np.linalg.solve(np.tril(stiffness), np.triu(stiffness, 1)))).max()
        if rate**kernels.SWEEPS > kernels.SETTLED:
            least = -math.log(kernels.SETTLED) / kernels.SWEEPS
            raise StudyError(
                "rig: two rigid motions move the actuators nearly alike (Gauss-Seidel over them converges by "
                f"{1.0 - rate:.1g} a sweep, {least:.1g} is needed); choose an origin nearer to the actuators, or leave "
                "one motion out"
            )
        self.modes = Modes(found.P, self.D_scale * found.D, self.D_scale * found.Q)
        longest = min(self.dt, self.lag) if self.lag > 0 else self.dt
        self.steps = math.ceil(self.period / longest - 1e-9)
        self._h = self.period / self.steps
        n, rigid = c.shape
        p, d, q = (np.ascontiguousarray(each) for each in self.modes)
        self._rig = kernels.Rig(
            np.ascontiguousarray(c), p, d, q, np.diag(weights).copy(), coupled, float(self.k_a), float(self.lag),
            float(self.delay), np.array(self.k_s, dtype=float), float(self.hardening),
            np.array(self.limit, dtype=float),
        )  # fmt: skip
        inside = n - rigid
        i_c, i_d = (
            np.full(count, gain, dtype=float) for count, gain in ((rigid, self.i_c), (inside, self.i_d))
        )
        self._gains = kernels.Gains(
            np.full(rigid, float(self.p)),
            i_c,
            np.full(inside, self.p * self.w),
            i_d,
            float(self.p),
            float(self.w),
        )
        samples = math.ceil(self.delay / self._h) + 3
        self._motion = kernels.Motion(
            np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(rigid), np.zeros(rigid), np.zeros((samples, 2 * n)),
            np.zeros(1, dtype=np.int64),
        )  # fmt: skip

    def damage(self, share: float) -> None:
        """Take a share of its stiffness, and of its strength, from the specimen."""
        self._rig.k_s[:] *= 1.0 - share

    def cycle(
        self,
        low: Array,
        high: Array,
        f_ref: Array,
        *,
        offset: Array | None = None,
        noise: Array | None = None,
    ) -> tuple[Array, Array, Array, Array]:
        """Drive rigid motions from the middle over high and low; return y, f, y_s and the reference at each step."""
        n, rigid = self._rig.C.shape
        out = (
            np.empty((self.steps, n)), np.empty((self.steps, n)), np.empty((self.steps, rigid)),
            np.empty((self.steps, rigid)),
        )  # fmt: skip
        # plain displacement control stretches the beam by what its nominal stiffness asks for
        stretch = np.linalg.solve(self.modes.Q @ self.modes.D, np.asarray(f_ref, dtype=float)) / self.k_a
        failed = kernels.drive_cycle(
            self._rig, self._gains, LOOPS[self.control], self._motion, np.asarray(low, dtype=float),
            np.asarray(high, dtype=float), np.asarray(f_ref, dtype=float), self.modes.D @ stretch,
            np.zeros(n) if offset is None else np.asarray(offset, dtype=float),
            np.zeros((self.steps, 2 * n)) if noise is None else np.ascontiguousarray(noise), self._h, *out,
        )  # fmt: skip
        if failed:
            raise SimulationError(
                f"the actuators run away {failed * self._h:g} s into a cycle: the loop is unstable; lower p, the delay "
                f"or the lag (without lag p x delay may reach pi/2, found {self.p * self.delay:.3g})"
            )
        return out


class Reference:
    """The ends of a reference, low and high, corrected after each cycle by what it did to both constraints.

    Secants of two unknowns (Broyden 1965): the least displacement moves with both ends, since a specimen that was
    pulled further comes back with another force; the upper constraint with the high end only. Changes too small to be
    told from noise teach nothing.
    """

    def __init__(self, case: Rig) -> None:
        bend = _NOMINAL / (2.0 * case.k_a)
        give = 1.0 / (1.0 + bend)  # displacement of the specimen for one of the actuators, elastic
        self.ends = np.array([0.0, case.target / (case.slope + _NOMINAL) / give])
        self._target, self._elastic = case.target, (case.slope + _NOMINAL) * give
        self._effect = np.array([[give, bend * give], [0.0, self._elastic]])
        self._least = np.array([[0.3, 0.0], [0.0, case.slope]])
        self._most = np.array([[1.2, 0.6], [0.0, case.slope + 2.0 * case.k_a]])
        self._before: tuple[Array, Array] | None = None

    def learn(self, miss: Array, share: float) -> None:
        """Correct the ends after a cycle that missed the two constraints by so much."""
        if self._before is not None:
            moved, changed = self.ends - self._before[0], miss - self._before[1]
            if np.abs(moved).max() > _LEARNT:
                secant = np.outer(changed - self._effect @ moved, moved) / (moved @ moved)
                secant[1] = 0.0, (changed[1] / moved[1] if abs(moved[1]) > _LEARNT else self._effect[1, 1])
                secant[1, 1] -= self._effect[1, 1]
                self._effect = np.clip(self._effect + secant, self._least, self._most)
        self._before = (self.ends.copy(), miss)
        effect = self._effect.copy()
        if miss[1] > -WITHIN * self._target:  # on its way back, or within what it yielded by, it is elastic
            effect[1, 1] = max(effect[1, 1], self._elastic)
        self.ends = self.ends - share * np.linalg.solve(effect, miss)


def two_actuators(case: Rig) -> dict[str, Array]:
    """Run the cyclic test; outputs by cycle, and the last cycle in time."""
    bench = Bench(
        np.ones((2, 1)), case.k_a, np.array([case.k_s]), np.array([case.strength / case.k_s]), case.hardening,
        case.lag, case.delay, case.p, case.w, case.i_c, case.i_d, 0.5, case.control, case.period, case.dt,
    )  # fmt: skip
    f_ref, offset = np.array([case.f0]), np.array([0.0, case.offset])
    rng = np.random.default_rng(case.seed)
    scales = np.repeat([case.noise_y, case.noise_f, case.noise_y], [2, 2, 1])
    width = max(1, round(_SMOOTH * bench.steps / case.period))
    reference = Reference(case)
    middle = reference.ends[:1] + 0.5 * np.diff(reference.ends)
    bench.cycle(middle, middle, f_ref, offset=offset)  # the beam is stretched before the first cycle
    kept = np.empty((case.cycles, 4))
    for cycle in range(case.cycles):
        bench.damage(case.loss)
        if case.drop and cycle + 1 == case.drop_cycle:
            bench.damage(case.drop)
        noise = scales * rng.standard_normal((bench.steps, 5))
        y, f, y_s, ref = bench.cycle(
            reference.ends[:1], reference.ends[1:], f_ref, offset=offset, noise=noise[:, :4]
        )
        combined = f.sum(axis=1) + case.slope * y_s[:, 0]
        tensions = np.array([-f[:, 0], f[:, 1]])
        kept[cycle] = y_s.min(), np.ptp(y_s), combined.max(), tensions.min()
        seen = y_s[:, 0] + noise[:, 4]
        pulled = (f + noise[:, 2:4]).sum(axis=1) + case.slope * seen
        extremes = uniform_filter1d(seen, width).min(), uniform_filter1d(pulled, width).max() - case.target
        reference.learn(np.array(extremes), case.learning)
    error_low, error_high = kept[:, 0] / kept[:, 1], kept[:, 2] / case.target - 1.0
    error = np.maximum(np.abs(error_low), np.abs(error_high))
    met = np.flatnonzero(error > WITHIN)
    return {
        "cycle": np.arange(1.0, case.cycles + 1.0),
        "least": kept[:, 0],
        "largest": kept[:, 2],
        "error_low": error_low,
        "error_high": error_high,
        "error": error,
        "tension": kept[:, 3],
        "unmet": np.array(float(met[-1] + 1) if len(met) else 0.0),
        "t": case.period / bench.steps * np.arange(1.0, bench.steps + 1.0),
        "y_1": y[:, 0],
        "y_2": y[:, 1],
        "y_s": y_s[:, 0],
        "y_ref": ref[:, 0],
        "f_1": f[:, 0],
        "f_2": f[:, 1],
        "f_d": f @ bench.modes.Q[0],
    }
