"""Parameters that a prior spreads evenly over decades are drawn along their logarithm.

On an axis of the parameter itself, a log-uniform law over four decades is a spike at its lower end, and all that the
data say below the last decade lies within the width of a line. `seen` and `along` turn a parameter and its values into
what is drawn, once, before densities are estimated; whatever draws them need not know. Ticks print the parameter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from tamis.marginals import Marginal
from tamis.report.style import fit, label_axis, power, scaled_title, superscript
from tamis.space import Parameter, Space
from tamis.types import Array

if TYPE_CHECKING:
    from tamis.inference.posterior import Posterior

_MANTISSAS = ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))
_MANY = 2.5  # decades beyond which only powers of ten are ticked
_PLAIN = 3  # decades beyond which ticks are powers of ten


@dataclass(frozen=True)
class Decades:
    """Law of the common logarithm of a positive number."""

    law: Marginal

    def logpdf(self, x: Array) -> Array:
        """Log density; minus infinity outside the support."""
        x = np.asarray(x, dtype=float)
        return np.asarray(self.law.logpdf(10.0**x) + math.log(10.0) * x + math.log(math.log(10.0)))

    def cdf(self, x: Array) -> Array:
        """Distribution function."""
        return np.asarray(self.law.cdf(10.0 ** np.asarray(x, dtype=float)))

    def ppf(self, q: Array) -> Array:
        """Inverse of the distribution function."""
        return np.asarray(np.log10(self.law.ppf(q)))


def seen(parameter: Parameter) -> Parameter:
    """Return a parameter as it is drawn: its logarithm, if the prior is even in that."""
    return replace(parameter, prior=Decades(parameter.prior)) if parameter.in_decades else parameter


def along(parameter: Parameter, x: Array) -> Array:
    """Return values of a parameter on the axis that it is drawn along; ``parameter`` is as it is seen."""
    x = np.asarray(x, dtype=float)
    return np.log10(x) if isinstance(parameter.prior, Decades) else x


def physical(parameter: Parameter, x: Array, height: Array) -> tuple[Array, Array]:
    """Return a drawn density over the parameter itself: abscissae, density."""
    if not isinstance(parameter.prior, Decades):
        return x, height
    return 10.0**x, height / (10.0**x * math.log(10.0))


def seen_posterior(posterior: Posterior) -> Posterior:
    """Return a posterior whose parameters and draws are as they are drawn."""
    parameters = tuple(seen(p) for p in posterior.space.parameters)
    x = np.stack([along(p, posterior.x[..., i]) for i, p in enumerate(parameters)], axis=-1)
    return replace(posterior, space=Space(parameters, posterior.space.correlation), x=x)


def exponent(parameter: Parameter, low: float, high: float) -> int:
    """Return the power of ten to take out of the ticks of a parameter as it is seen, 0 for none."""
    if not isinstance(parameter.prior, Decades):
        return power(low, high)
    return 0 if high - low > _MANY else power(10.0**low, 10.0**high)


def label_parameter(axis: Axis, parameter: Parameter, *, ticks: int = 5, room: float | None = None) -> None:
    """Title and tick an axis whose limits are set, of a parameter as it is seen."""
    low, high = sorted(axis.get_view_interval())
    if not isinstance(parameter.prior, Decades):
        label_axis(axis, parameter.title, ticks=ticks, room=room)
        return
    out = exponent(parameter, low, high)
    values = _values(low, high, ticks)
    far = high - low > _MANY and bool(np.any(np.abs(np.log10(values)) > _PLAIN))
    axis.set_major_locator(FixedLocator(np.log10(values).tolist()))
    axis.set_major_formatter(
        FuncFormatter(lambda z, _: f"10{superscript(round(z))}" if far else f"{10.0 ** (z - out):.3g}")
    )
    text = scaled_title(parameter.title, out)
    axis.set_label_text(text if room is None else fit(text, room, 8.0))


def _values(low: float, high: float, most: int) -> Array:
    """Return values to tick between two logarithms: decades, or round numbers where there are too few of them."""
    powers = np.arange(math.floor(low), math.ceil(high) + 1, dtype=float)
    if high - low > _MANY:
        powers = powers[(powers >= low - 1e-9) & (powers <= high + 1e-9)]
        return np.asarray(10.0 ** powers[:: -(-len(powers) // most)])
    choices = [np.sort(np.outer(10.0**powers, mantissas).ravel()) for mantissas in _MANTISSAS]
    even = MaxNLocator(nbins=most, steps=[1, 2, 2.5, 5, 10]).tick_values(10.0**low, 10.0**high)
    inside: list[Array] = [
        v[(v > 0.999 * 10.0**low) & (v < 1.001 * 10.0**high)] for v in (*choices, np.asarray(even))
    ]
    return next((v for v in inside if 2 < len(v) <= most + 1), inside[-1])
