"""Axis titles, tick labels and SVG: what a figure looks like as text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

from tamis.report.style import (
    Scaled,
    canvas,
    fit,
    folded,
    inline,
    label_axis,
    limits,
    place,
    power,
    scaled_title,
    shortened,
    styled,
    superscript,
    to_svg,
)


@pytest.mark.parametrize(
    ("low", "high", "exponent"),
    [(0, 1.5e8, 8), (0, 9000, 0), (0, 2e4, 4), (0, 0.05, 0), (0, 0.0102, -3), (-3e-5, 1e-5, -5), (0, 0, 0)],
)
def test_power_taken_out_of_an_axis(low: float, high: float, exponent: int) -> None:
    assert power(low, high) == exponent


def test_power_goes_into_the_title() -> None:
    assert scaled_title("k_t [N/m]", 8) == "k_t [10⁸ N/m]"
    assert scaled_title("variance", -3) == "variance [10⁻³]"
    assert scaled_title("k_t [N/m]", 0) == "k_t [N/m]"
    assert superscript(-12) == "⁻¹²"


def test_ticks_have_the_decimals_they_need() -> None:
    assert Scaled(8).format_ticks([0.5e8, 1.0e8, 1.5e8]) == ["0.5", "1.0", "1.5"]
    assert Scaled(0).format_ticks([-2.0, 0.0, 2.0]) == ["−2", "0", "2"]
    assert Scaled(0).format_ticks([0.25, 0.5]) == ["0.25", "0.50"]
    assert Scaled(0)(3.0) == "3"


def test_axis_is_titled_with_unit_and_power() -> None:
    ax = place(canvas(3, 2), 0.5, 0.2, 2, 1.5)
    ax.set_xlim(0, 1.4e8)
    label_axis(ax.xaxis, "k_t [N/m]")
    assert ax.get_xlabel() == "k_t [10⁸ N/m]"


def test_text_is_cut_or_folded_to_its_room() -> None:
    assert fit("short", 2.0, 8.0) == "short"
    cut = fit("a very long title indeed, longer than anything", 1.0, 8.0)
    assert cut.endswith("…") and len(cut) <= 1.0 * 72 / (0.58 * 8)
    assert folded("gamma_n [10⁵ kg/(m s)]", 1.1) == "gamma_n\n[10⁵ kg/(m s)]"


def test_limits_ignore_gaps() -> None:
    low, high = limits([np.array([1.0, np.nan, 3.0]), np.array([np.inf])], margin=0.1)
    assert (low, high) == pytest.approx((0.8, 3.2))
    assert limits([np.array([np.nan])]) == (0.0, 1.0)
    low, high = limits([np.array([5.0])])
    assert low < 5.0 < high


def _figure() -> Figure:
    figure = canvas(3, 2)
    ax = place(figure, 0.4, 0.2, 2.4, 1.4)
    ax.plot([0, 1], [0, 1.23456789], marker="o")
    ax.fill_between([0, 1], [0, 1], color="red", alpha=0.5)
    ax.set_xlabel("price [$] of 1.23456 & <more> $")
    return figure


def test_placed_in_inches_from_the_top_left() -> None:
    box = place(canvas(4, 5), 1, 2, 2, 1).get_position()
    assert (box.x0, box.y0, box.width, box.height) == pytest.approx((0.25, 0.4, 0.5, 0.2))


def test_svg_is_well_formed_deterministic_and_undated() -> None:
    svg = to_svg(_figure(), "one")
    ElementTree.fromstring(svg)
    assert svg == to_svg(_figure(), "one")
    assert "metadata" not in svg and "Matplotlib" not in svg
    assert "price [$] of 1.23456 &amp; &lt;more&gt; $" in svg  # text stays text, untouched by rounding


def test_ids_carry_the_figure_s_name_and_resolve() -> None:
    svg = to_svg(_figure(), "one")
    ids = re.findall(r' id="([^"]+)"', svg)
    used = re.findall(r'(?:url\(#|href="#)([^)"]+)', svg)
    assert ids and len(ids) == len(set(ids)) and set(used) == set(ids)
    assert all(name.startswith("one-") for name in ids)


def test_inline_svg_needs_no_namespace_and_describes_itself() -> None:
    text = inline(to_svg(_figure(), "one"), 'a "caption" <b>')
    assert "http" not in text
    assert 'aria-label="a &quot;caption&quot; &lt;b>"' in text
    assert ' width="' not in text[: text.index(">")]


def test_caller_s_settings_do_not_leak_in() -> None:
    import matplotlib

    make = styled(_figure)
    calm = to_svg(make(), "one")
    with matplotlib.rc_context({"lines.linewidth": 7.0, "axes.grid": True, "font.size": 20}):
        loud = to_svg(make(), "one")
    assert calm == loud


def test_names_are_cut_in_their_middle() -> None:
    names = [shortened(f"stiffness_of_the_left_bedding_{i}", 1.2, 8.0) for i in range(3)]
    assert len(set(names)) == 3 and all("…" in name for name in names)
    assert {len(name) for name in names} == {len(fit("x" * 40, 1.2, 8.0))}
    assert shortened("short", 1.2, 8.0) == "short"


def test_abscissae_in_a_constant_ratio_stand_on_a_logarithmic_axis():
    from matplotlib.figure import Figure

    from tamis.report.style import is_geometric, label_axis, set_abscissa

    periods = np.geomspace(0.04, 4.0, 30)
    assert is_geometric(periods) and is_geometric(np.round(periods, 3)) and is_geometric(periods[::-1])
    for x in (
        np.linspace(0.05, 4.0, 30),
        np.geomspace(1.0, 5.0, 30),
        -periods,
        np.append(0.0, periods),
        periods[:3],
    ):
        assert not is_geometric(x)
    ax = Figure().subplots()
    set_abscissa(ax, [periods, np.array([0.0, 8.0])], 0.0)
    label_axis(ax.xaxis, "period [s]", ticks=6)
    assert ax.get_xscale() == "log" and ax.get_xlim() == pytest.approx((0.04, 8.0))
    low, high = ax.get_xlim()
    shown = [
        t.get_text() for t, at in zip(ax.get_xticklabels(), ax.get_xticks(), strict=True) if low <= at <= high
    ]
    assert shown == ["0.05", "0.1", "0.2", "0.5", "1", "2", "5"]
    plain = Figure().subplots()
    set_abscissa(plain, [np.linspace(0.0, 1.0, 5)], 0.1)
    assert plain.get_xscale() == "linear" and plain.get_xlim() == pytest.approx((-0.1, 1.1))
