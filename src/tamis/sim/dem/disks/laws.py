"""Contact laws between grains of any size, from one calibrated on a sphere and a wall; and the time step they allow.

Hertz gives the spring of a pair, ``k = 4/3 E* sqrt(R*)``. Nothing gives its damping ``gamma`` and its tangential
stiffness ``k_t``, which were fitted to another pair: a sphere of radius ``R`` and mass ``m`` on a wall of its own
material. Three readings, with primes for the pair at hand::

    literal       gamma' = gamma                                               k_t' = k_t
    material      gamma' = gamma (R*'/R)^(1 - alpha)                           k_t' = k_t R*'/R
    restitution   gamma' = gamma (k'/k)^(0.4 (1+alpha)) (m*'/m)^(0.6-0.4 alpha)
                  k_t'   = k_t (k'/k)^0.8 (m*'/m)^0.2

*material*: force over E R^2 is a function of overlap over R and of its rate times a relaxation time of the material.
*restitution*: the two numbers that are left of an impact once it is free of units (the essay of
``dem/impact/kernels.py``), ``g`` and ``kappa``, are those of the calibration at the same speed, and so are both
coefficients of restitution. A modulus that is softened to afford longer steps goes by the last rule whatever the
scaling: contacts last longer, and grains bounce as before.

For the linear law, ``k d + gamma d'`` with one ``k`` for all pairs, 0.4 becomes 1/2 and alpha 0 in these formulas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from tamis.errors import StudyError, nearest
from tamis.sim.dem.disks import kernels
from tamis.types import Array

Scaling = Literal["literal", "material", "restitution"]
Body = Literal["sphere", "disk"]
INERTIA = {"sphere": 2 / 5, "disk": 1 / 2}  # over m R^2
STIFFEST = 10.0  # tangential stiffness over a linear normal one
STEPS_OF_CONTACT, STEPS_OF_PERIOD, STEPS_OF_DAMPER = 50.0, 20.0, 5.0


@dataclass(frozen=True)
class Kind:
    """Grains of one size and material. A wall is one of infinite radius; a fixed grain has no weight and is not pushed.

    Masses are those of spheres, or of disks as thick as they are wide.
    """

    radius: float
    density: float = 7668.0
    body: Body = "sphere"
    young: float = 2.1e11
    poisson: float = 0.3
    fixed: bool = False

    def __post_init__(self) -> None:
        if self.radius != math.inf:  # a wall
            only_positive(self, "grain", "radius")
        only_positive(self, "grain", "density", "young")
        _check_poisson(self.poisson)
        known_name("body", self.body, get_args(Body))

    @property
    def inertia(self) -> float:
        """Inertia over m R^2."""
        return INERTIA[self.body]

    @property
    def mass(self) -> float:
        """Mass of one of them, infinite if it does not move."""
        if self.fixed or math.isinf(self.radius):
            return math.inf
        return (4 / 3 if self.body == "sphere" else 2.0) * math.pi * self.density * self.radius**3

    def inverses(self) -> tuple[float, float, float]:
        """Return 1/mass, 1/inertia, and 1 if gravity acts."""
        if math.isinf(self.mass):
            return 0.0, 0.0, 0.0
        return 1.0 / self.mass, 1.0 / (self.inertia * self.mass * self.radius**2), 1.0


class Contact(NamedTuple):
    """The law of one pair, its masses along the normal and along the tangent."""

    k_n: float
    gamma: float
    k_t: float
    mass: float
    tangential_mass: float


@dataclass(frozen=True)
class Law:
    """A calibrated law, what it was calibrated on, and how it passes to other sizes.

    ``k_n`` is the stiffness of the linear law, over ``softening``; where it is 0 the law is that of Hertz.
    """

    mu: float
    gamma: float
    alpha: float
    k_t: float
    scaling: Scaling = "restitution"
    softening: float = 1.0
    radius: float = 0.02225
    mass: float = 0.3538
    young: float = 2.1e11
    poisson: float = 0.3
    k_n: float = 0.0

    def __post_init__(self) -> None:
        for name in ("mu", "gamma", "alpha", "k_t", "k_n"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise StudyError(f"{name} must be a number that is not negative, found {getattr(self, name)}")
        only_positive(self, "law", "softening", "radius", "mass", "young")
        _check_poisson(self.poisson)
        known_name("scaling", self.scaling, get_args(Scaling))
        if self.k_n > 0.0 and self.k_t > STIFFEST * self.k_n:
            raise StudyError(
                f"k_t = {self.k_t:g} N/m is {self.k_t / self.k_n:.0f} times as stiff as the linear law's k_n = "
                f"{self.k_n:g} N/m, and would make steps so much shorter; give one of about {2 / 7 * self.k_n:.2g}"
            )

    @property
    def linear(self) -> bool:
        """Whether force and overlap are proportional."""
        return self.k_n > 0.0

    @property
    def number(self) -> int:
        """Return the code that the kernels know it by."""
        if self.linear:
            return kernels.LINEAR
        return {0.25: kernels.QUARTER, 0.5: kernels.HALF}.get(self.alpha, kernels.FREE)

    def between(self, a: Kind, b: Kind) -> Contact:
        """Return the law of a pair of which at least one moves."""
        radius = 1.0 / (1.0 / a.radius + 1.0 / b.radius)
        mass = 1.0 / (1.0 / a.mass + 1.0 / b.mass)
        tangential = 1.0 / ((1.0 + 1.0 / a.inertia) / a.mass + (1.0 + 1.0 / b.inertia) / b.mass)
        calibrated = 4 / 3 * self.young / (2 * (1 - self.poisson**2)) * math.sqrt(self.radius)
        compliance = (1 - a.poisson**2) / a.young + (1 - b.poisson**2) / b.young
        k = 4 / 3 / compliance * math.sqrt(radius)
        if self.linear:
            k = calibrated = self.k_n
        gamma, k_t = self.gamma, self.k_t
        if self.scaling == "material":
            gamma *= (radius / self.radius) ** (1.0 - self._exponent)
            k_t *= radius / self.radius
        elif self.scaling == "restitution":
            gamma, k_t = self._same_bounce(gamma, k_t, k / calibrated, mass / self.mass)
        gamma, k_t = self._same_bounce(gamma, k_t, 1.0 / self.softening, 1.0)
        return Contact(k / self.softening, gamma, k_t, mass, tangential)

    @property
    def _exponent(self) -> float:
        return 0.0 if self.linear else self.alpha

    def _same_bounce(self, gamma: float, k_t: float, k: float, m: float) -> tuple[float, float]:
        """Return damping and tangential stiffness for a spring ``k`` and a mass ``m`` times as large."""
        power = 0.5 if self.linear else 0.4
        own = power * (1.0 + self._exponent)
        return gamma * k**own * m ** (1.0 - own), k_t * k ** (2.0 * power) * m ** (1.0 - 2.0 * power)

    def table(self, kinds: Sequence[Kind]) -> Array:
        """Return k_n, gamma, k_t and mu/k_t of every pair of kinds, as the kernels take them."""
        rows = np.zeros((len(kinds), len(kinds), 4))
        for i, a in enumerate(kinds):
            for j, b in enumerate(kinds):
                if math.isfinite(a.mass) or math.isfinite(b.mass):
                    pair = self.between(a, b)
                    rows[i, j] = pair.k_n, pair.gamma, pair.k_t, self.mu / pair.k_t if pair.k_t > 0.0 else 0.0
        return rows.ravel()

    def longest_step(self, kinds: Sequence[Kind], speed: float) -> float:
        """Return the longest time step for grains of these kinds that meet at up to ``speed``.

        The least of a fiftieth of a contact (Timoshenko's formula), a twentieth of the period of a sticking tangential
        spring, and a fifth of the time in which the dashpot at the deepest overlap would stop a pair, which counts
        only where grains hardly bounce at all.
        """
        steps = [
            self._step(self.between(a, b), speed)
            for i, a in enumerate(kinds)
            for b in kinds[i:]
            if math.isfinite(a.mass) or math.isfinite(b.mass)
        ]
        if not steps:
            raise StudyError("none of the grains can move: all are fixed")
        return min(steps)

    def _step(self, pair: Contact, speed: float) -> float:
        if self.linear:
            contact = math.pi * math.sqrt(pair.mass / pair.k_n)
            depth = 1.0
        else:
            depth = (1.25 * pair.mass * speed**2 / pair.k_n) ** 0.4
            contact = 2.9432 * depth / speed
        step = contact / STEPS_OF_CONTACT
        if pair.k_t > 0.0:
            step = min(step, 2 * math.pi * math.sqrt(pair.tangential_mass / pair.k_t) / STEPS_OF_PERIOD)
        if pair.gamma > 0.0:
            step = min(step, pair.mass / (pair.gamma * depth**self._exponent) / STEPS_OF_DAMPER)
        return step


def only_positive(record: object, what: str, *names: str) -> None:
    """Refuse numbers of a record that are not positive, or infinite."""
    for name in names:
        if not 0.0 < getattr(record, name) < math.inf:
            raise StudyError(f"the {name} of a {what} must be positive, found {getattr(record, name)}")


def _check_poisson(ratio: float) -> None:
    if not -1.0 < ratio <= 0.5:
        raise StudyError(f"Poisson's ratio must lie between -1 and 0.5, found {ratio}")


def known_name(what: str, name: str, valid: Sequence[str]) -> None:
    """Refuse a name that nobody knows."""
    if name not in valid:
        raise StudyError(f'{what} "{name}" is unknown{nearest(name, valid)}')
