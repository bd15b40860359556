"""A structure shaken before it burns: inertia, the trapezoidal rule, and books of energy.

The step is that of Newmark with (1/2, 1/4) on displacements relative to the ground. Inertia and damping are diagonal,
so that a step is a static problem with a spring ``4M/dt^2 + 2C/dt`` on each degree of freedom and a load, and the
kernel of static equilibrium solves it. What does not converge is tried again in halves, and steps grow again after
two that do.

With this rule the books of work close to round-off: kinetic energy changes by exactly the mean of forces times the
displacement. What fibres store and dissipate is counted apart, from their stresses and plastic strains, and agrees
with the work of the internal forces to the square of the step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from tamis.errors import SimulationError
from tamis.sim.fire import kernels
from tamis.sim.fire.kernels import CONVERGED
from tamis.sim.fire.path import TOLERANCE, Path
from tamis.sim.fire.relaxation import dense
from tamis.sim.fire.steel import COLDEST
from tamis.types import Array, Mask

_HALVES = 6  # times that a step is halved before the structure is said to collapse
_MOST = 12  # iterations of a step; what takes more is done sooner in halves
_CALMING = 0.7  # damping ratio while it comes to rest


@dataclass(frozen=True)
class Shaken:
    """What an earthquake did: instants, displacements of all degrees of freedom, and energies at the end."""

    times: Array
    u: Array
    energies: dict[
        str, float
    ]  # input, loads, kinetic, damping, stored, dissipated, and what is missing, in J


class Shaking:
    """A structure in motion, from rest under its loads."""

    def __init__(self, path: Path, mass: Array, horizontal: Mask, ratio: float) -> None:
        self.path, self.mass, self.horizontal = path, mass, horizontal
        heavy = mass > 0.0
        if not heavy.any():
            raise SimulationError("an earthquake needs mass: no degree of freedom that is free has any")
        self.omega = _lowest(dense(path.tangent(0.0)), mass)
        self.damping = 2.0 * ratio * self.omega * mass
        free = len(mass)
        self.v, self.a = np.zeros(free), np.zeros(free)
        self.load = path.loading.load0.copy()
        self.internal = path.force[:free].copy()
        self.stress = self._stresses()
        names = ("input", "loads", "damping", "dissipated", "internal")
        self.books = dict.fromkeys(names, 0.0)
        self.stored = self._stored()
        self._halved = 0  # how often the present steps are halved

    def run(self, ground: Array, dt: float, calm: float, every: int) -> Shaken:
        """Shake with a ground acceleration, then let the structure come to rest, strongly damped, and stand still."""
        times, kept = [0.0], [self.path.state.u.copy()]
        steps = len(ground) - 1
        begin = self.stored
        for k in range(steps + max(1, round(calm / dt))):
            now, then = (float(ground[k]), float(ground[k + 1])) if k < steps else (0.0, 0.0)
            if k == steps:
                self.damping = 2.0 * _CALMING * self.omega * self.mass
            self._advance(now, then, dt, k * dt)
            if (k + 1) % every == 0 or k == steps - 1:
                times.append((k + 1) * dt)
                kept.append(self.path.state.u.copy())
        kinetic = 0.5 * float(self.mass @ self.v**2)
        books = {**self.books, "kinetic": kinetic, "stored": self.stored - begin}
        spent = kinetic + books["damping"] + books["stored"] + books["dissipated"]
        books["missing"] = books["input"] + books["loads"] - spent
        self._stand()
        return Shaken(np.array(times), np.array(kept), books)

    def _advance(self, now: float, then: float, dt: float, t: float) -> None:
        """Take one step, in pieces as short as the last steps needed."""
        done = 0.0  # of the step
        while done < 1.0:
            share = 0.5**self._halved
            here, there = (now + part * (then - now) for part in (done, done + share))
            if self._step(here, there, share * dt):
                done += share
                if self._halved and done % (2.0 * share) == 0.0:
                    self._halved -= 1
            elif self._halved == _HALVES:
                raise SimulationError(
                    f"the frame collapses in the earthquake: no equilibrium {t + (done + share) * dt:.4g} s after it "
                    f"began, with steps of {share * dt:.3g} s"
                )
            else:
                self._halved += 1

    def _step(self, now: float, then: float, dt: float) -> bool:
        """Step by the trapezoidal rule and keep the books; False, and nothing changed, where it does not converge."""
        path, mass, damping = self.path, self.mass, self.damping
        free = len(mass)
        state = path.state
        u0 = state.u[:free]
        effective = 4.0 / dt**2 * mass + 2.0 / dt * damping
        shaken = np.where(self.horizontal, mass, 0.0)
        carried = effective * u0 + mass * (4.0 / dt * self.v + self.a) + damping * self.v
        moving = path.frame._replace(spring=path.frame.spring + effective)
        loading = path.loading._replace(load0=self.load - then * shaken + carried)
        u = state.u.copy()
        u[:free] += dt * self.v + 0.5 * dt**2 * self.a
        status = path.rest(u, 0.0, TOLERANCE, moving, loading, _MOST)[0]
        if status != CONVERGED:
            return False
        du = u[:free] - u0
        v = 2.0 / dt * du - self.v
        a = 4.0 / dt**2 * du - 4.0 / dt * self.v - self.a
        internal = path.force[:free] - effective * u[:free]
        before = state.plastic[0].copy()
        path.accept(u, 0.0, 0)
        stress = self._stresses()
        books = self.books
        books["input"] -= 0.5 * (now + then) * float(shaken @ du)
        books["loads"] += float(self.load @ du)
        books["damping"] += 0.5 * float((damping * (self.v + v)) @ du)
        books["internal"] += 0.5 * float((self.internal + internal) @ du)
        grown = path.state.plastic[0] - before
        books["dissipated"] += float(np.sum(self._volumes() * 0.5 * (self.stress + stress) * grown))
        self.v, self.a, self.internal, self.stress = v, a, internal, stress
        self.stored = self._stored()
        return True

    def _stand(self) -> None:
        """Find the static equilibrium where the structure has come to rest."""
        path = self.path
        u = path.state.u.copy()
        status, _, relative = path.rest(u, 0.0, TOLERANCE)
        if status != CONVERGED:
            raise SimulationError(
                f"the frame does not stand after the earthquake: residual {relative:.3g} of the greatest force"
            )
        path.accept(u, 0.0, 0)
        path.state.step_s = 0.0

    def _volumes(self) -> Array:
        frame = self.path.frame
        return np.asarray(0.5 * frame.length[:, None, None] * frame.area[frame.section][:, None, :])

    def _stresses(self) -> Array:
        path = self.path
        out = np.zeros(path.state.plastic.shape[1:])
        kernels.stresses(path.frame, path.state.u, COLDEST, path.state.plastic, out)
        return out

    def _stored(self) -> float:
        frame = self.path.frame
        modulus = frame.steel[frame.section, 1][:, None, None]
        return float(np.sum(self._volumes() * self.stress**2 / (2.0 * modulus)))


def _lowest(stiffness: Array, mass: Array) -> float:
    """Return the lowest frequency, with massless degrees of freedom following statically."""
    flexibility = np.linalg.inv(stiffness)
    root = np.sqrt(mass)
    highest = float(
        eigh(root[:, None] * flexibility * root, eigvals_only=True, subset_by_index=[len(mass) - 1] * 2)[0]
    )
    return float(1.0 / np.sqrt(highest))
