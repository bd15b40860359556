"""A heated structure from its loads to its failure, or to the end of the fire, recorded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tamis.errors import SimulationError
from tamis.sim.fire.path import Limit, Path
from tamis.types import Array


@dataclass(frozen=True)
class History:
    """Recorded states, the last of them the failure where there is one.

    ``limit`` is the limit point of time that arc length went through; None where the fire ended before, and where the
    path was lost (``failed`` without ``limit``).
    """

    path: Path
    times: Array
    u: Array  # (instants, degrees of freedom)
    force: Array  # (instants, degrees of freedom), of supports among others
    failed: bool
    limit: Limit | None
    newton_end: float  # last time that Newton's method reached by itself

    def temperatures(self) -> Array:
        """Return temperatures (instants, groups, bottom and top)."""
        loading = self.path.loading
        if len(loading.times) == 1:
            return np.broadcast_to(loading.table[0], (len(self.times), *loading.table.shape[1:]))
        flat = loading.table.reshape(len(loading.times), -1)
        columns = [np.interp(self.times, loading.times, column) for column in flat.T]
        return np.stack(columns, axis=1).reshape(len(self.times), *loading.table.shape[1:])


def follow(path: Path, instants: Array, *, settled: bool = False) -> History:
    """Load a structure cold, unless it is, and take it through these instants, until it fails."""
    if not settled:
        path.settle()
    times, states, forces = [float(instants[0])], [path.state.u.copy()], [path.force.copy()]
    failed, limit, ended = False, None, float(instants[-1])
    for aim in instants[1:]:
        if aim <= path.state.s:  # arc length has been there
            continue
        longest = float(aim) - times[-1]
        while not path.to(float(aim)):
            ended = path.state.s
            limit = path.limit(longest)
            if limit is not None or path.state.s <= ended:
                failed = True
                break
            if path.state.s > aim:  # arc length went past this instant: go on from there
                break
        if failed:
            s, u = (limit.s, limit.u) if limit is not None else (path.state.s, path.state.u)
            if s > times[-1]:
                times.append(s)
                states.append(u.copy())
                forces.append(path.force.copy())
            break
        times.append(path.state.s)
        states.append(path.state.u.copy())
        forces.append(path.force.copy())
    return History(path, np.array(times), np.array(states), np.array(forces), failed, limit, ended)


def results(history: History, looked: dict[str, int]) -> dict[str, Array]:
    """Return the outputs that a member and a frame have in common."""
    if len(history.times) < 2:
        raise SimulationError(
            f"the structure fails {history.times[-1]:.3g} s after the fire began, before a state was recorded"
        )
    hottest = history.temperatures().max(axis=(1, 2))
    return {
        "time": history.times,
        "temperature": hottest,
        **{name: history.u[:, place] for name, place in looked.items()},
        "failed": np.array(float(history.failed)),
        "limit_point": np.array(float(history.limit is not None)),
        "failure_time": np.array(history.times[-1]),
        "failure_temperature": np.array(hottest[-1]),
    }
