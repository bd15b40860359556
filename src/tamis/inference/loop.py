"""The loop shared by samplers: numbered steps, each with its own generator, and a checkpoint between them.

A sampler is a frozen dataclass of arrays and numbers, its state, and pure functions over it. Step ``k`` draws
from ``default_rng([root, k])``, where ``root`` is one integer taken from the caller's generator. No generator
is ever saved: the state and the number of steps made are all there is to know, so a run that is killed and
resumed repeats the interrupted step exactly and ends with the same bytes.
"""

from __future__ import annotations

import time
import warnings
import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tamis.errors import StudyError, TamisWarning
from tamis.files import load_arrays, save_arrays
from tamis.space import Space
from tamis.types import Generator

State = TypeVar("State")

_SECONDS_BETWEEN_SAVES = 1.0
_SUM = "loop.sum"


def run(
    kind: type[State],
    init: Callable[[Generator], State],
    step: Callable[[State, Generator], State],
    finished: Callable[[State], bool],
    *,
    rng: Generator,
    tag: Mapping[str, Any],
    report: Callable[[State], None],
    checkpoint: Path | None = None,
) -> State:
    """Step from the initial state until it is finished; return the last state.

    Parameters
    ----------
    kind
        The state's class, a dataclass of arrays and numbers.
    init, step
        Make the first state, and the next one from the last.
    finished
        Say whether a state is the last.
    rng
        Gives one integer, from which every step's generator is made.
    tag
        Arrays or numbers that name the problem; a checkpoint with another tag is ignored.
    report
        Called with every new state.
    checkpoint
        Where the state is kept while the run lasts and found when it is resumed. The caller removes it.
    """
    root = int(rng.integers(2**63))
    tags = {f"tag.{name}": np.asarray(value) for name, value in {**tag, "root": root}.items()}
    found = None if checkpoint is None else _load(kind, checkpoint, tags)
    k, state = found or (0, init(np.random.default_rng([root, 0])))
    saved = k if found else -1
    clock = time.monotonic()
    try:
        report(state)
        while not finished(state):
            k, state = k + 1, step(state, np.random.default_rng([root, k + 1]))
            if checkpoint is not None and time.monotonic() - clock > _SECONDS_BETWEEN_SAVES:
                _save(state, k, checkpoint, tags)
                saved, clock = k, time.monotonic()
            report(state)
    except BaseException:
        if checkpoint is not None and saved != k:
            _save(state, k, checkpoint, tags)
        raise
    return state


def problem(sampler: str, space: Space) -> dict[str, Any]:
    """Name a problem for the tag of its checkpoints, as far as sampler and prior go."""
    return {
        "sampler": sampler,
        "names": space.names,
        "prior": space.from_unit(np.array([[0.1], [0.5], [0.9]]) * np.ones(space.dim)),
        "correlation": np.empty(0) if space.correlation is None else space.correlation,
    }


def _save(state: Any, k: int, path: Path, tags: Mapping[str, Any]) -> None:
    arrays = {field.name: np.asarray(getattr(state, field.name)) for field in fields(state)}
    arrays |= {**tags, "loop.step": np.asarray(k)}
    save_arrays(path, {**arrays, _SUM: _sum(arrays)})


def _sum(arrays: Mapping[str, Any]) -> int:
    """Return a checksum of named arrays."""
    found = 0
    for name, array in sorted(arrays.items()):
        for part in (name.encode(), str(array.dtype).encode(), str(array.shape).encode(), array.tobytes()):
            found = zlib.crc32(part, found)
    return found


def _load(kind: type[State], path: Path, tags: Mapping[str, Any]) -> tuple[int, State] | None:
    """Read a checkpoint of the same problem and the same kind of state; None if there is none."""
    if not path.exists():
        return None
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    try:
        arrays = load_arrays(path)
        if _SUM in arrays and arrays.pop(_SUM) != _sum(arrays):
            raise StudyError("it is not what was written")
    except StudyError as error:
        warnings.warn(
            f"checkpoint {path.name} cannot be read ({error}); starting anew", TamisWarning, stacklevel=3
        )
        return None
    if set(arrays) != {*tags, "loop.step", *names}:
        return None
    if not all(np.array_equal(arrays[name], value) for name, value in tags.items()):
        return None
    values = {name: arrays[name].item() if arrays[name].ndim == 0 else arrays[name] for name in names}
    return int(arrays["loop.step"]), kind(**values)
