"""A replay in a process of its own: whatever a simulator does there, it cannot take down the one that asked."""

from __future__ import annotations

import re
from pathlib import Path

from tamis.errors import SimulationError, StudyError
from tamis.interfaces import Simulator, check_present, replayable
from tamis.replays import Replay, without_replay
from tamis.runs.keys import run_key
from tamis.runs.pool import Workers, run_in_child
from tamis.runs.records import read_arrays
from tamis.runs.store import Run
from tamis.runs.worker import Job, given
from tamis.simulation import complete
from tamis.types import Inputs

_FPS = 100.0
_FEWEST, _SLOW = 11, 50.0  # instants below which a replay is asked for again, with so many
_LINE = re.compile(r'File "([^"]+)", line (\d+)')
_PACKAGE = str(Path(__file__).parent.parent)


def replay(
    simulator: Simulator,
    inputs: Inputs,
    fps: float,
    workers: Workers,
    timeout: float | None = None,
    warned: list[str] | None = None,
) -> Replay:
    """Replay one point in a child process, which sends the replay back in an array file; ``warned`` of is put there.

    `SimulationError` where the physics fails, `StudyError` where the simulator crashes, is late or ends its process.
    """
    if replayable(simulator) is None:
        raise without_replay(simulator.name)
    check_present(simulator)
    full = complete(simulator, inputs)
    run = Run(run_key(simulator, full), simulator.name, simulator.version, full, "done", 0.0)
    job = Job(simulator.address, Path(), run, given(simulator, full), fps=fps)
    run, content, log = run_in_child(job, timeout, workers)
    if run.status == "failed":
        raise SimulationError(run.error)
    if run.status != "done":
        places = [
            found
            for found in _LINE.findall(log.decode(errors="replace"))
            if not found[0].startswith(_PACKAGE)
        ]
        where = f" ({Path(places[-1][0]).name}, line {places[-1][1]})" if places else ""
        raise StudyError(f"replay of {simulator.name}: {run.error.removeprefix('StudyError: ')}{where}")
    if warned is not None:
        warned[:] = run.warnings
    return Replay.from_bytes(read_arrays(content)["replay"].tobytes())


def to_look_at(
    simulator: Simulator,
    inputs: Inputs,
    workers: Workers,
    timeout: float | None = None,
    warned: list[str] | None = None,
) -> Replay:
    """Replay one point with instants enough for a picture: what is over in a moment is made again in slow motion."""
    seen = replay(simulator, inputs, _FPS, workers, timeout, warned)
    span = float(seen.times[-1] - seen.times[0])
    if span > 0 and len(seen.times) < _FEWEST:
        seen = replay(simulator, inputs, _SLOW / span, workers, timeout, warned)
    return seen
