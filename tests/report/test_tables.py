"""Numbers as text: exact strings."""

from __future__ import annotations

import csv
import io
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.report.tables import (
    columns_table,
    count,
    decimals,
    logarithm,
    number,
    percent,
    plain,
    position,
    readable,
    record_title,
    row_power,
    scaled,
    to_csv,
    unit_of,
    variation,
    with_error,
    with_interval,
)
from tamis.types import Table
from tests.report import samples


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.10362, "0.104"),
        (-0.10362, "−0.104"),
        (1234.5, "1230"),
        (99999.0, "1.00 × 10⁵"),
        (1.226e8, "1.23 × 10⁸"),
        (9.4e-4, "9.40 × 10⁻⁴"),
        (0.00215, "0.00215"),
        (0.0, "0.00"),
        (math.nan, "–"),
        (-math.inf, "−∞"),
    ],
)
def test_plain_numbers(value: float, text: str) -> None:
    assert plain(value) == text


@pytest.mark.parametrize(
    ("value", "low", "high", "median", "interval"),
    [
        (0.1036, 0.0891, 0.1184, "0.104", "0.089 to 0.118"),
        (1.28e8, 0.40e8, 1.51e8, "1.28 × 10⁸", "(0.40 to 1.51) × 10⁸"),
        (7.0e4, 3.1e4, 13.4e4, "7.0 × 10⁴", "(3.1 to 13.4) × 10⁴"),
        (0.00098, 0.0003, 0.0025, "9.8 × 10⁻⁴", "(3.0 to 25.0) × 10⁻⁴"),
        (4e-4, 2e-5, 3.2e-3, "4.0 × 10⁻⁴", "(0.2 to 32.0) × 10⁻⁴"),
        (2617.0, 153.1, 34860.0, "2620", "153 to 34900"),
        (12345.0, 12300.0, 12390.0, "12345", "12300 to 12390"),
        (310.0, 150.0, 640.0, "310", "150 to 640"),
        (-0.5, -1.0, 0.25, "−0.50", "−1.00 to 0.25"),
        (2.0, 2.0, 2.0, "2.00", "2.00 to 2.00"),
        (1e-3, 1e-6, 50.0, "0.00100", "1.00 × 10⁻⁶ to 50.0"),  # decades apart: each its own digits
    ],
)
def test_interval_sets_the_digits(value: float, low: float, high: float, median: str, interval: str) -> None:
    assert with_interval(value, low, high) == (median, interval)


def test_error_sets_the_digits() -> None:
    assert with_error(17.0804, 0.0531) == "17.080 ± 0.053"
    assert with_error(-3.14159, 0.2) == "−3.14 ± 0.20"
    assert with_error(12345.0, 678.0) == "12340 ± 680"
    assert with_error(1.5, math.nan) == "1.500"
    assert with_error(math.nan, 0.1) == "–"


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.9, "90 %"), (1.0, "100 %"), (0.0, "0 %"), (0.996, "99.6 %"), (0.004, "0.4 %"), (math.nan, "–")],
)
def test_percent(share: float, text: str) -> None:
    assert percent(share) == text.replace(" ", "\u00a0")  # never broken over two lines


def test_rows_share_their_power() -> None:
    assert row_power(1.28e8) == 8 and scaled(9.9e7, 1.28e8) == "0.99"
    assert row_power(8.04e-4) == -4 and scaled(0.0016, 8.04e-4) == "16.00"
    assert row_power(0.1036) == 0 and scaled(0.109, 0.1036) == "0.109"


def test_cells_sort_by_their_number() -> None:
    assert number(0.25).text == "0.250" and number(0.25).key == 0.25 and number(0.25).number
    assert number(4.0).text == "4"
    assert count(131072).text == "131\u202f072"
    assert logarithm(0.69, sign=True).text == "+0.69" and logarithm(-2.5).text == "−2.50"
    assert variation(0.338).text == "33.8 %"


def test_exponents_become_powers() -> None:
    assert readable("k_t between 1e+07 and 8.5e+07") == "k_t between 1 × 10⁷ and 8.5 × 10⁷"
    assert readable("case 1e of the 3rd") == "case 1e of the 3rd"


def test_csv_keeps_full_precision_and_leaves_gaps_empty() -> None:
    table = Table(("a, b", "c"), ((1.0 / 3.0, "x"), (math.nan, None), (7, 'say "so"')))
    rows = list(csv.reader(io.StringIO(to_csv(table).decode())))
    assert rows == [["a, b", "c"], ["0.3333333333", "x"], ["", ""], ["7", 'say "so"']]


def test_columns_become_rows() -> None:
    assert columns_table(("n", "s"), ([1, 2], ["a", "b"])).rows == ((1, "a"), (2, "b"))


@given(st.floats(1e-12, 1e12))
def test_two_digits_of_the_spread_remain(spread: float) -> None:
    kept = round(spread, decimals(spread))
    assert abs(kept - spread) <= 0.051 * spread  # half a unit of the second digit of a number from 1.0 on


@pytest.mark.parametrize(
    ("series", "label", "title"),
    [
        ("peak of drop", "peak", "peak of drop"),
        ("drop of peaks", "peak", "drop of peaks: peak"),
        ("peak of drop", "peak force", "peak of drop: peak force"),
        ("force, at its peak", "peak force", "force, at its peak"),
        ("drop", "F(t)", "drop: F(t)"),
        ("drop", "", "drop"),
    ],
)
def test_title_says_what_is_observed_once(series: str, label: str, title: str) -> None:
    for record in (samples.emulation, samples.influence):
        assert record_title(record(np.zeros(1), series=series, label=label)) == title
    assert record_title(samples.table_panel(series=series, label=label)) == title


def test_words_of_axes() -> None:
    assert position("t [s]", 0.25) == "t = 0.25 s"
    assert position("", 100.0) == "index = 100"
    assert position("t [s]", 1.5e-6) == "t = 1.5 × 10⁻⁶ s"
    assert unit_of("force [kN]") == "[kN]" and unit_of("ctr") == ""
