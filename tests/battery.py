"""What surrogates and samplers are measured on: functions with the laws of their inputs, densities with their evidence.

Tests and benchmarks take their problems from here. A new one is a line in `FUNCTIONS` or `DENSITIES`; its formula
stands in `tests.surrogates` or in `tests.problems`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

import tamis
from tamis.types import Array
from tests import problems
from tests.surrogates.functions import borehole, ishigami, kinks, sobol_g
from tests.surrogates.smooth import few_active, hundred, morris, otl, piston, robot, tailed, varying, wing


@dataclass(frozen=True)
class Function:
    """A function of the unit cube, or of physical inputs where these have laws."""

    name: str
    d: int
    formula: Callable[[Array], Array]
    laws: Sequence[Any] | None = None  # None: uniform in the cube

    def __call__(self, u: Array) -> Array:
        """Return its values at points (n, d) of the unit cube."""
        if self.laws is None:
            return self.formula(u)
        return self.formula(
            np.column_stack([law.ppf(column) for law, column in zip(self.laws, u.T, strict=True)])
        )

    def runs(self, n: int, seed: int, noise: float = 0.0) -> tuple[Array, Array]:
        """Return a Sobol' design and its outputs, with a noise given as a share of their spread."""
        rng = np.random.default_rng(seed)
        u = tamis.sobol(n, self.d, rng)
        y = self(u)
        return u, y + noise * y.std() * rng.standard_normal(n)

    def test(self, n: int = 20_000) -> tuple[Array, Array]:
        """Return points at random and the truth there."""
        u = np.random.default_rng(123).random((n, self.d))
        return u, self(u)

    def over_law(self, n: int = 40_000) -> tuple[Array, Array, Array]:
        """Return points, the truth there, and weights for means over the law of the inputs.

        Half of the points lie twice as far out in inputs without ends. Where these are lognormal, one point in 20 000
        may bear three quarters of a mean squared error, and the points of `test` happen to hold such a one: the mean
        over them is four times that over the law.
        """
        u, weight = tamis.sobol(n, self.d, np.random.default_rng(77)), np.ones(n)
        ends = [law.ppf(np.array([0.0, 1.0])) for law in self.laws or ()]
        far = [i for i, pair in enumerate(ends) if not np.isfinite(pair).all()]
        if far:
            z = ndtri(u[:, far])
            z[np.random.default_rng(78).permutation(n) % 2 == 0] *= (
                2  # every other Sobol' point lies on one side
            )
            u[:, far] = np.clip(ndtr(z), 2.0**-53, 1 - 2.0**-53)
            weight = 2 / (1 + np.exp(0.375 * np.sum(z**2, axis=1)) / 2 ** len(far))
        return u, self(u), weight


_TAILS = (tamis.lognormal(1.0, 0.6), tamis.lognormal(1.0, 0.6), tamis.uniform(0.0, 1.0))
_MIXED = (tamis.lognormal(1.0, 0.6), tamis.gamma(1.0, 0.5), tamis.normal(3.0, 0.5))

FUNCTIONS = (
    Function("Ishigami", 3, ishigami),
    Function("OTL", 6, otl),
    Function("piston", 7, piston),
    Function("borehole", 8, borehole),
    Function("wing", 10, wing),
    Function("Sobol G", 8, sobol_g),
    Function("four kinks", 4, kinks),
    Function("eight kinks", 8, kinks),
    Function("varying length", 3, varying),
    Function("robot arm", 8, robot),
    Function("Morris", 20, morris),
    Function("4 of 30", 30, few_active),
    Function("heavy tails", 3, tailed, _TAILS),
    Function("mixed laws", 3, tailed, _MIXED),
    Function("100-d", 100, hundred),
)
FUNCTION = {function.name: function for function in FUNCTIONS}

DENSITIES = (
    problems.linear(),
    problems.linear(15, 40),
    problems.two_modes(),
    problems.peaked(),
    problems.banana(),
    problems.shells(2),
    problems.shells(5),
    problems.eggbox(),
    problems.donut(),
    problems.funnel(2),
    problems.funnel(10),
    problems.narrow(),
)
DENSITY = {density.name: density for density in DENSITIES}
