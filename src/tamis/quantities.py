"""Quantities as people say them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Write a duration with two or three digits, in the unit in which it reads well."""
    if seconds != seconds:
        return "–"
    for unit, most, length in (
        ("µs", 1e-3, 1e-6),
        ("ms", 1.0, 1e-3),
        ("s", 90.0, 1.0),
        ("min", 5400.0, 60.0),
    ):
        if seconds < most:
            return _short(seconds / length, unit)
    return _short(seconds / 3600.0, "h")


def size(number: float) -> str:
    """Write a number of bytes."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


def _short(value: float, unit: str) -> str:
    return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"
