"""No stale numbers: the outputs of every built-in simulator are those that its version has always given.

Runs are stored under the simulator's name and version. Numbers that change under the same version would be mixed with
those of before in every store.
"""

from __future__ import annotations

import numpy as np
import pytest

from tamis.families import builtins
from tests.sim.pin import FOLDER, LOOSE, POINTS, TOLERANCES, file_of, outputs

PIN = "run `python -m tests.sim.pin` to pin the new numbers, and say in changes/ what changed"


def test_every_simulator_is_in_the_table_and_no_other() -> None:
    assert set(POINTS) == set(builtins()), "give each built-in simulator short points in tests/sim/pin.py"
    files = {file.name for file in FOLDER.iterdir()}
    assert files <= {file_of(name).name for name in builtins()}, f"left of former versions: {PIN}"


@pytest.mark.filterwarnings("ignore:grains of the packing overlap")  # it is left before they come to rest
@pytest.mark.filterwarnings("ignore:the wall is not at rest")  # a hundredth of a second of it is pinned
@pytest.mark.filterwarnings("ignore:no heap is left")  # nor is a column so soon
@pytest.mark.parametrize("name", builtins())
def test_numbers_change_with_the_version_only(name: str) -> None:
    assert file_of(name).exists(), f"tamis:{name} has another version than the one pinned: {PIN}"
    found, pinned = outputs(name), np.load(file_of(name))
    remedy = f"raise the version of tamis:{name} and {PIN}; if no number was to change, mend the code"
    assert set(found) == set(pinned), f"other outputs or points than those pinned: {remedy}"
    for key, array in found.items():
        point, output = int(key.partition(".")[0]), key.partition(".")[2]
        peak = float(np.abs(pinned[key]).max(initial=0.0))
        # NumPy and the C library differ in the last digits; of a signal that passes zero, in those of its peak
        rtol, atol = 1e-9, 1e-14 * peak
        if (name, point) in TOLERANCES:
            rtol, atol = 0.0, TOLERANCES[name, point] * peak
        if output in LOOSE:
            rtol, atol = 0.0, LOOSE[output]
        said = f"tamis:{name}, {output} at {POINTS[name][point]}: {remedy}"
        np.testing.assert_allclose(array, pinned[key], rtol=rtol, atol=atol, err_msg=said)
