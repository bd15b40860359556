"""What the table [replay] of a study asks to see: which test or prediction, at which of its conditions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tamis.errors import nearest
from tamis.interfaces import Simulator, replayable
from tamis.replays import without_replay
from tamis.study.schema import ReplayTable
from tamis.study.series import Fault, Series


def asked_replay(
    fail: Fault, table: ReplayTable, simulator: Simulator, series: Sequence[Series]
) -> tuple[Series, int]:
    """Return the series that is replayed, and which of its experiments: the one in the middle unless it is named."""
    if replayable(simulator) is None:
        raise fail("replay", str(without_replay(simulator.name)))
    known = {one.name: one for one in series if one.use != "next"}
    if table.of is not None and table.of not in known:
        raise fail("replay.of", f'no test or prediction "{table.of}"{nearest(table.of, known)}')
    one = known[table.of] if table.of is not None else next(reversed(known.values()))
    if table.at is None:
        return one, len(one.experiments) // 2
    if not one.values:
        raise fail("replay.at", f'nothing is swept in "{one.name}"; leave it out')
    away = np.abs(np.array(one.values) - float(table.at))
    if not away.min() <= 1e-9 * max(1.0, abs(float(table.at))):
        swept = ", ".join(f"{value:g}" for value in one.values)
        raise fail("replay.at", f"{one.along} is swept over {swept}; found {float(table.at):g}")
    return one, int(away.argmin())
