"""Several signals one after the other on one axis."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from tamis.report.signals import apart, divide

NAMES = ("y, 1 to 5 Hz", "y, 5 to 9 Hz", "z, 1 to 5 Hz", "z, 5 to 9 Hz")


def test_nothing_joins_two_signals() -> None:
    values = np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    found = apart(values, NAMES)
    np.testing.assert_array_equal(found, [[1, 2, np.nan, 3, 4], [5, 6, np.nan, 7, 8]])
    np.testing.assert_array_equal(apart(values, ()), values)
    assert apart(np.empty((0, 4)), NAMES).shape == (0, 5)


def test_signals_are_named_and_parted_between_them() -> None:
    ax = Figure(figsize=(6, 2)).add_subplot()
    x = np.arange(1.0, 5.0)
    ax.set_xlim(1.0, 4.0)
    divide(ax, x, NAMES, room=6.0)
    assert [text.get_text() for text in ax.texts] == ["y", "z"]
    assert [line.get_xdata()[0] for line in ax.lines] == [2.5]
    divide(ax, x, ())  # an ordinary abscissa
    assert len(ax.texts) == 2 and len(ax.lines) == 1
