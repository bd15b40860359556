"""Asking for runs: where they are kept, who makes them, within which limits, and what a crash means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tamis.errors import TamisError
from tamis.runs.campaign import evaluate
from tamis.runs.keys import append_keys
from tamis.runs.pool import Executors
from tamis.runs.store import Run, RunStore
from tamis.simulation import Simulator
from tamis.types import Inputs, Outputs, Progress


@dataclass(frozen=True)
class Asking:
    """A store and the workers behind it, as a function from inputs to outputs; every run stays in the store."""

    store: RunStore
    executor: Executors = 1
    timeout: float | None = None
    on_crash: Literal["stop", "reject"] = "stop"
    retry_failed: bool = False
    max_output: float = 256.0
    record: Path | None = None  # file to which the keys of all runs asked for are added
    memory: float | None = None  # bytes that one run may take
    progress: Progress | None = None  # who is told of runs that a forward model asks for

    def runs(
        self, simulator: Simulator, points: Sequence[Inputs], progress: Progress | None = None
    ) -> list[Run]:
        """Run the simulator where the store has no run yet."""
        limits: Any = {"timeout": self.timeout, "max_output": self.max_output, "memory": self.memory}
        who: Any = {"executor": self.executor, "retry_failed": self.retry_failed, "progress": progress}
        return evaluate(simulator, points, self.store, **limits, **who)

    def __call__(
        self, simulator: Simulator, points: Sequence[Inputs], needs: Sequence[Sequence[str]]
    ) -> list[Callable[[], Outputs] | None]:
        """Run the simulator where the store has no run yet; give what reads each point's outputs, None if it failed.

        ``needs`` names the outputs that are read at each point.
        """
        runs = self.runs(simulator, points, self.progress)
        if self.record:
            append_keys(self.record, [run.key for run in runs])
        for run in runs:
            if run.status in ("crashed", "timeout", "memory") and self.on_crash == "stop":
                values = (
                    f"{k} = {v:.6g}" if isinstance(v, float) else f"{k} = {v}" for k, v in run.inputs.items()
                )
                log = self.store.log_place(run.key) or "none"
                raise TamisError(
                    f"{simulator.name}: {run.status} at {', '.join(values)}: {run.error} (log: {log}); "
                    'repair it and go on with --retry-failed, or set [inference] on_crash = "reject" to leave such '
                    "points out (a likelihood is zero there)"
                )
        return [
            partial(self.store.outputs, run.key, tuple(names)) if run.status == "done" else None
            for run, names in zip(runs, needs, strict=True)
        ]
