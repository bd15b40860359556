"""The contract of a simulator: the battery that each of them, ours or a user's, must pass.

What the rest of tamis relies on is asked here at a few points: a run is known by its inputs and stored once, so the
same inputs must give the same bytes, in whatever order and company runs are made; workers import it anew; and where a
simulator runs batches, whoever asks for one must get what runs give. A failure has to be reported as such, and neither
a failure nor a replay may change what the next run gives.
"""

from __future__ import annotations

import math
import pickle
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any

import numpy as np

from tamis.errors import SimulationError, StudyError
from tamis.interfaces import Batched, Simulator, batched, replayable
from tamis.replays import Replay, Replayable
from tamis.simulation import complete
from tamis.types import Inputs, Outputs

_FPS = 100.0  # of a replay
STATEFUL = (
    "a run may depend on its inputs alone: not on a global variable that a run changes, and on random numbers only "
    "through an input `seed`"
)


def check_simulator(
    simulator: Simulator, inputs: Inputs | None = None, *others: Inputs, failing: Inputs | None = None
) -> None:
    """Assert the contract of a simulator at one point: the battery every simulator, ours or a user's, must pass.

    Declared outputs present and finite; same inputs same bytes, whatever ran before (``others``, or the same again, a
    failure, a replay), in whatever folder, and whatever the state of the global random generators; unknown input
    refused; an input outside its bounds, or where the physics fails (``failing``), reported by `SimulationError`;
    picklable; a batch, if it runs any, equal to the runs it stands for; a replay, if it offers one, is one.
    """
    here: Inputs = inputs or {}
    with tempfile.TemporaryDirectory() as scratch:
        first = simulator.run(here, Path(scratch))
        assert set(first) == set(simulator.outputs), (
            f"{simulator.name}: outputs {sorted(first)} are not those declared"
        )
        for name, array in first.items():
            assert np.isfinite(array).all(), f"{simulator.name}: output {name} is not finite"
        _same(simulator, first, simulator.run(here, Path(scratch)), "two runs of the same inputs", STATEFUL)
        runs = {0: first}
        for i, point in enumerate(others, 1):
            with suppress(SimulationError):
                runs[i] = simulator.run(point, Path(scratch))
        if others:
            again = simulator.run(here, Path(scratch))
            _same(simulator, first, again, "two runs of the same inputs with other inputs between", STATEFUL)
        for point in (*_beyond(simulator, here), *([failing] if failing is not None else [])):
            _check_failure(simulator, point, Path(scratch))
        if shown := replayable(simulator):
            _check_replay(shown, simulator.name, here)
        with chdir(scratch):
            copy = pickle.loads(pickle.dumps(simulator))
            in_copy = copy.run(here, Path(scratch))
        _same(simulator, first, in_copy, "two folders", "it reads or writes beside its working folder")
        try:
            simulator.run({**here, "no_such_input": 1.0}, Path(scratch))
        except StudyError:
            pass
        else:
            raise AssertionError(f"{simulator.name} accepts an unknown input")
    if many := batched(simulator):
        _check_batch(many, [here, *others], runs)


def _beyond(simulator: Simulator, here: Inputs) -> Iterator[Inputs]:
    """Yield the point with one of its inputs, if any has bounds, outside of them."""
    for name, port in simulator.inputs.items():
        if port.bounds and port.kind == "number" and math.isfinite(port.bounds[1]):
            beyond = port.bounds[1] + max(1.0, abs(port.bounds[1]))
            yield {**here, name: int(beyond) if isinstance(port.default, int) else beyond}
            return


def _check_failure(simulator: Simulator, point: Inputs, scratch: Path) -> None:
    try:
        simulator.run(point, scratch)
    except SimulationError:
        return
    except Exception as error:
        what = f"raises {type(error).__name__} ({error})"
    else:
        what = "gives outputs"
    raise AssertionError(f"{simulator.name} {what} at {dict(point)}, expected SimulationError")


def _check_replay(simulator: Replayable, name: str, here: Inputs) -> None:
    try:
        replay = simulator.replay(here, _FPS)
    except Exception as error:
        raise AssertionError(f"{name}: its replay raises {type(error).__name__}: {error}") from error
    assert isinstance(replay, Replay), f"{name}: its replay is a {type(replay).__name__}, not a Replay"


def _same(simulator: Simulator, a: Outputs, b: Outputs, between: str, why: str) -> None:
    for name, array in a.items():
        assert array.tobytes() == b[name].tobytes(), (
            f"{simulator.name}: output {name} differs between {between}; {why}"
        )


def _check_batch(simulator: Batched, points: Sequence[Inputs], runs: Mapping[int, Outputs]) -> None:
    """Assert that the rows of a batch are the runs, a row twice and all points among each other."""
    sound = [points[i] for i in runs] + [points[0]]
    found = [runs[i] for i in runs] + [runs[0]]
    full = [complete(simulator, point) for point in sound]  # type: ignore[arg-type]
    fixed = {name for name, value in full[0].items() if isinstance(value, str)}
    alike = [i for i, point in enumerate(full) if all(point[name] == full[0][name] for name in fixed)]
    columns: dict[str, Any] = {
        name: full[0][name] if name in fixed else np.array([full[i][name] for i in alike]) for name in full[0]
    }
    for name, rows in simulator.batch(columns).items():
        for i, row in zip(alike, rows, strict=True):
            np.testing.assert_allclose(
                row,
                found[i][name],
                rtol=1e-12,
                atol=0.0,
                err_msg=f"{simulator.name}: batch and run disagree on {name}",  # type: ignore[attr-defined]
            )
