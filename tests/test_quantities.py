"""Durations and sizes: one rule for terminal, report and advice."""

import math

import pytest

from tamis.quantities import duration, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 µs"),
        (3e-6, "3.0 µs"),
        (0.045, "45 ms"),
        (2.0, "2.0 s"),
        (12.4, "12 s"),
        (89.0, "89 s"),
        (125.0, "2.1 min"),
        (990.0, "16 min"),
        (7260.0, "2.0 h"),
        (1e6, "278 h"),
        (math.nan, "–"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 B"), (1234, "1.23 kB"), (5e9, "5 GB"), (2e13, "20 TB")])
def test_size(number: float, text: str) -> None:
    assert size(number) == text
