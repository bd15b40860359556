"""The simulator as a forward model whose runs are kept, for Python code that has no study file."""

from __future__ import annotations

from typing import Any

from tamis.experiment import Experiment
from tamis.inference.likelihood import Query, Simulated
from tamis.runs.asking import Asking
from tamis.runs.store import RunStore
from tamis.simulation import Simulator
from tamis.types import Inputs


class Direct(Simulated):
    """The simulator itself as a forward model of one experiment."""

    def __init__(
        self,
        simulator: Simulator,
        experiment: Experiment,
        reads: tuple[str, ...],
        fixed: Inputs,
        store: RunStore | None = None,
        *,
        vary_seed: bool = False,
        **options: Any,
    ) -> None:
        """Take the simulator, what is asked of it, and the store of its runs.

        ``options`` are those of `tamis.runs.asking.Asking`: executor, timeout, on_crash, retry_failed, max_output,
        record, memory.
        """
        ask = None if store is None else Asking(store, **options)
        super().__init__(Query(simulator, experiment, reads, fixed, vary_seed), ask)

    def inputs(self, row: Any) -> dict[str, Any]:
        """Return the simulator's inputs at one point."""
        return self.query.inputs(row)
