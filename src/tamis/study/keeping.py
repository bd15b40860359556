"""A study whose runs keep the observed numbers only: ``[model] keep = "observed"``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tamis.adapters.observed import ObservedOnly, observed
from tamis.runs.keys import run_key, with_defaults
from tamis.runs.store import RunStore
from tamis.simulation import Simulator
from tamis.study.series import Series
from tamis.types import Inputs


def reduced(simulator: Simulator, series: Sequence[Series]) -> ObservedOnly:
    """Return the simulator reduced to what some series observe."""
    tests = [e for s in series for e in s.experiments]
    return observed(simulator, [o.observable for e in tests for o in e.observations])


def observing(simulator: Simulator, series: Sequence[Series]) -> tuple[Series, ...]:
    """Return the series as they observe a simulator, which may be a reduced one."""
    if not isinstance(simulator, ObservedOnly):
        return tuple(series)
    return tuple(
        replace(
            one,
            experiments=tuple(
                replace(
                    test,
                    observations=tuple(
                        replace(o, observable=simulator.observable(o.observable)) for o in test.observations
                    ),
                )
                for test in one.experiments
            ),
        )
        for one in series
    )


def adopt(simulator: Simulator, asked: Sequence[Inputs], store: RunStore) -> None:
    """Take what the store has of these points as whole runs: they are not made now, and not to be repeated."""
    if isinstance(simulator, ObservedOnly):
        wanted = {run_key(simulator, inputs): with_defaults(simulator, inputs) for inputs in asked}
        have = store.get_many(wanted)
        simulator.adopt(store, {key: full for key, full in wanted.items() if key not in have})
