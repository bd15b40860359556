"""Log-uniform parameters are drawn along their logarithm, ticked by themselves."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from tamis.inference.posterior import Posterior
from tamis.marginals import loguniform, uniform
from tamis.report import parameters
from tamis.report.decades import along, exponent, label_parameter, seen, seen_posterior
from tamis.space import Parameter, Space

WIDE = Parameter("k", loguniform(1e-4, 10.0), "kg")
NARROW = Parameter("k_ww", loguniform(1e4, 1e5), "N/m", "sand")


def test_only_even_decades_are_drawn_so() -> None:
    assert seen(Parameter("e", uniform(0.1, 0.9))).prior.ppf(np.array([1.0]))[0] == pytest.approx(0.9)
    law = seen(WIDE).prior
    assert np.allclose(law.ppf(np.array([0.0, 0.5, 1.0])), [-4.0, -1.5, 1.0])
    assert np.allclose(law.cdf(np.array([-4.0, -1.5, 1.0])), [0.0, 0.5, 1.0])
    assert np.allclose(np.exp(law.logpdf(np.array([-3.9, 0.0, 0.9]))), 0.2)  # even over five decades
    assert along(seen(WIDE), np.array([0.01])) == pytest.approx(-2.0)


@pytest.mark.parametrize(
    ("parameter", "span", "ticks", "title"),
    [
        (WIDE, (-4.0, 1.0), ["10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "10⁰", "10¹"], "k [kg]"),
        (WIDE, (-3.0, 0.0), ["0.001", "0.01", "0.1", "1"], "k [kg]"),
        (NARROW, (4.0, 5.0), ["1", "2", "5", "10"], "sand [10⁴ N/m]"),
        (NARROW, (4.3, 4.5), ["2", "2.2", "2.4", "2.6", "2.8", "3"], "sand [10⁴ N/m]"),
    ],
)
def test_ticks_print_the_parameter(
    parameter: Parameter, span: tuple[float, float], ticks: list[str], title: str
) -> None:
    ax = Figure().add_subplot()
    ax.set_xlim(*span)
    label_parameter(ax.xaxis, seen(parameter), ticks=6)
    at = ax.xaxis.get_majorticklocs()
    assert [ax.xaxis.get_major_formatter()(z) for z in at] == ticks
    assert ax.get_xlabel() == title
    for place, text in zip(at, ticks, strict=True):
        if not text.startswith("10") or text == "10":
            assert 10.0**place == pytest.approx(float(text) * 10.0 ** exponent(seen(parameter), *span))


def test_density_of_a_log_uniform_law_is_level_and_its_numbers_are_of_the_parameter() -> None:
    space = Space((WIDE, Parameter("e", uniform(0.0, 1.0))))
    x = space.from_unit(np.random.default_rng(1).random((4000, 2)))
    posterior = Posterior(space, x[None], np.zeros((1, 4000)), space.logpdf(x)[None])
    figure = parameters.marginals_figure(posterior)
    curve = next(line for line in figure.axes[0].lines if len(line.get_xdata()) > 50)
    height = np.asarray(curve.get_ydata(), dtype=float)
    assert height.max() < 1.5 * np.median(height)  # drawn along k itself it is a spike
    assert figure.axes[0].get_xlim() == pytest.approx((-4.0, 1.0), abs=0.1)
    table = parameters.marginal_numbers(posterior)
    rows = np.array([row[1:] for row in table.rows if row[0] == "k"], dtype=float)
    assert np.trapezoid(rows[:, 2], rows[:, 0]) == pytest.approx(1.0, abs=0.05)
    assert np.median(rows[:, 2] / rows[:, 1]) == pytest.approx(1.0, abs=0.1)
    assert abs(posterior.summary().column("narrowing")[0]) < 0.02  # along the logarithm too
    assert seen_posterior(posterior).flat[:, 1] == pytest.approx(x[:, 1])
    assert parameters.pairs_figure(posterior).axes
