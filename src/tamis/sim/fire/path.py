"""Equilibrium paths: steps of load or time that fit, and arc length where Newton's method at given time ends.

At a limit point of time no equilibrium is near at any later time: that is the failure that a fire engineer means.
Newton's method also ends for poorer reasons, and only the path tells them apart. So where its steps have shrunk to
nothing the path is followed by arc length: through a limit point the parameter turns back and a pivot of the tangent
becomes negative."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tamis.errors import SimulationError
from tamis.sim.fire import kernels
from tamis.sim.fire.kernels import CONVERGED, SINGULAR, Elements, Loading
from tamis.sim.fire.structure import Structure, half_band
from tamis.types import Array

TOLERANCE = 1e-9  # residual, of the greatest force of an element
_MOST = 25  # iterations of a step
_FEW = 6  # iterations after which the next step may be larger
_SHORTEST = 1e-4  # of the longest step: where Newton's method gives up and arc length begins
_NEAR = 2e-3  # of the structure's size: by so much a step may differ from the last one anyway
_TURNED = 1e-3  # of the longest step: the parameter has fallen by so much, so the limit is behind


@dataclass
class State:
    """Where a structure is: displacements, parameter, plastic strains; the step that led there."""

    u: Array
    s: float
    plastic: Array  # (3, elements, 2, fibres)
    before: Array  # plastic strains a step earlier
    step_u: Array
    step_s: float = 0.0
    negative: int = 0


@dataclass(frozen=True)
class Limit:
    """A limit point: the greatest parameter, the state there, and negative pivots before and after."""

    s: float
    u: Array
    before: int
    after: int


class Path:
    """A structure with its loading, and steps from one equilibrium to the next."""

    def __init__(self, structure: Structure, loading: Loading, frame: Elements | None = None) -> None:
        self.structure = structure
        self.frame = structure.frame() if frame is None else frame
        self.loading = loading
        free, n = len(self.frame.spring), len(structure.owners)
        self.force = np.zeros(n)
        self._band = np.zeros((free, half_band(self.frame)))
        self._nothing = np.zeros(free)
        shape = (3, len(self.frame.length), 2, self.frame.level.shape[1])
        self.trial = np.zeros(shape)
        self.state = State(np.zeros(n), 0.0, np.zeros(shape), np.zeros(shape), np.zeros(n))
        self.iterations = 0
        self._size = float(np.ptp(np.array(structure.places), axis=0).max())
        turns = np.array([direction == 2 for _, direction in structure.owners])[np.argsort(structure.order)]
        self._weight = np.where(turns[:free], self.frame.length.mean() ** 2, 1.0)

    def _solve(
        self, u: Array, s: float, step_u: Array, step_s: float, radius: float
    ) -> tuple[int, int, float, float, int, int]:
        answer = kernels.equilibrium(
            self.frame, self.loading, u, s, self.state.plastic, self.trial, self.force, self._band, step_u,
            step_s, radius, TOLERANCE, _MOST,
        )  # fmt: skip
        self.iterations += answer[1]
        return answer

    def accept(self, u: Array, s: float, negative: int) -> None:
        """Make an equilibrium that was found the state, its plastic strains those of the last assembly."""
        now = self.state
        spare = now.before
        spare[:] = self.trial
        self.state = State(
            u, s, spare, now.plastic, u - now.u, s - now.s, negative if negative >= 0 else now.negative
        )

    def tangent(self, s: float) -> Array:
        """Return the tangent of the free degrees of freedom at the present state and a parameter, as a band."""
        state = self.state
        kernels.tangent_of(
            self.frame, self.loading, state.u, s, state.plastic, self.trial, self.force, self._band
        )
        return self._band

    def rest(
        self,
        u: Array,
        s: float,
        tolerance: float,
        frame: Elements | None = None,
        loading: Loading | None = None,
        most: int = _MOST,
    ) -> tuple[int, int, float]:
        """Find the equilibrium near ``u``, supports as they stand there; return status, iterations and residual.

        With another loading, or with the same elements on other springs, where these are given.
        """
        answer = kernels.equilibrium(
            frame or self.frame, loading or self.loading, u, s, self.state.plastic, self.trial, self.force,
            self._band, self._nothing, 0.0, 0.0, tolerance, most,
        )  # fmt: skip
        self.iterations += answer[1]
        return answer[0], answer[1], answer[3]

    def to(self, s: float, *, steps: int = 1) -> bool:
        """Go to a parameter by Newton's method in steps that fit; False where they have shrunk to nothing."""
        whole = s - self.state.s
        step, least = whole / steps, abs(whole) * _SHORTEST
        while self.state.s != s:
            state = self.state
            left = s - state.s
            step = math.copysign(min(abs(step), abs(left)), left)
            aim = s if abs(left - step) < 1e-9 * abs(whole) else state.s + step
            goes_on = state.step_s * step > 0.0
            expected = state.step_u * ((aim - state.s) / state.step_s) if goes_on else 0.0 * state.u
            u = state.u + expected
            status, took, _, _, negative, row = self._solve(u, aim, self._nothing, 0.0, 0.0)
            leapt = goes_on and self._leapt(u - state.u, expected)
            if status == CONVERGED and not leapt and (negative > 0) == (state.negative > 0):
                self.accept(u, aim, negative)
                step *= 1.5 if took <= _FEW else 1.0
                continue
            if status == SINGULAR and took == 0 and not state.u.any():
                raise SimulationError(f"a mechanism: nothing holds {self.structure.called(row)}")
            step *= 0.25
            if abs(step) < least:
                return False
        return True

    def _leapt(self, step: Array, expected: Array) -> bool:
        """Say whether a step went elsewhere than the last one led: onto another branch, past a limit point."""
        free = len(self.frame.spring)
        off, usual = (
            math.sqrt(float(x[:free] @ (self._weight * x[:free]))) for x in (step - expected, expected)
        )
        return off > 2.0 * usual + _NEAR * self._size

    def settle(self) -> None:
        """Take the loads up at the present parameter, in parts where they are large."""
        full = self.loading
        part, share = 0.0, 1.0
        while part < 1.0:
            aim = min(1.0, part + share)
            self.loading = full._replace(load0=aim * full.load0)
            u = self.state.u.copy()
            status, took, _, _, negative, row = self._solve(u, self.state.s, self._nothing, 0.0, 0.0)
            if status == CONVERGED and negative <= 0:
                self.accept(u, self.state.s, negative)
                part = aim
                continue
            if status == SINGULAR and took == 0 and not self.state.u.any():
                self.loading = full
                raise SimulationError(f"a mechanism: nothing holds {self.structure.called(row)}")
            share *= 0.5
            if share < 1e-3:
                self.loading = full
                raise SimulationError(
                    f"the frame does not carry its loads cold: no equilibrium beyond {100 * part:.3g} % of them"
                )
        self.loading = full

    def arc(self, radius: float, forward: float = 1.0) -> bool:
        """Make one step of arc length; False where none converges. Its direction is that of the last step."""
        state, free = self.state, len(self.frame.spring)
        along = np.empty(free)
        _, row = kernels.direction(
            self.frame, self.loading, state.u, state.s, state.before, self.trial, self.force, self._band, along
        )  # fmt: skip
        if row >= 0:
            return False
        size = math.sqrt(float(along @ (self._weight * along)))
        last = state.step_u[:free] * self._weight
        side = float(last @ along) if last.any() else forward
        ds = math.copysign(radius / size, side)
        u, step = state.u.copy(), ds * along
        u[:free] += step
        status, _, s, _, negative, _ = self._solve(u, state.s + ds, self._weight * step, 0.0, radius)
        if status != CONVERGED:
            return False
        self.accept(u, s, negative)
        return True

    def limit(self, longest: float, steps: int = 400) -> Limit | None:
        """Follow the path by arc length to the greatest parameter and beyond; None where it is lost before.

        ``longest`` is the step of the parameter that Newton's method was given. A path that goes on rising by more than
        that is handed back: the state is then where Newton's method may go on.
        """
        free = len(self.frame.spring)
        start, before = self.state.s, self.state.negative
        size = math.sqrt(float(self.state.step_u[:free] @ (self._weight * self.state.step_u[:free])))
        radius = max(size, 1e-6)
        best = (self.state.s, self.state.u.copy())
        for _ in range(steps):
            took = self.iterations
            if not self.arc(radius):
                radius *= 0.25
                if radius < 1e-6 * max(size, 1e-6):
                    return None
                continue
            if self.state.s > best[0]:
                best = (self.state.s, self.state.u.copy())
            if best[0] - self.state.s > _TURNED * longest:
                return Limit(*best, before, self.state.negative)
            if self.state.s > start + longest:
                return None
            radius *= 1.5 if self.iterations - took <= _FEW else 1.0
        return None
