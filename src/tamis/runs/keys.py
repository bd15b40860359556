"""The key of a run: a hash of the simulator's name and version and of all its inputs.

Stores are kept for years, so what is hashed may only change with the format of the store. Numbers are spelled
exactly, files by their content: a moved file is the same input, an edited one is another.

Hashing a large file for each of 10 000 points would be slow, so contents are remembered, by what the system
says of the file. A time of modification can be set back, by a copy or by a clock; the time of change cannot,
but it moves in ticks. So a content is remembered only for a file that has not changed for two seconds, and
a file from the future is read each time.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from tamis.errors import SimulationError, StudyError
from tamis.simulation import Simulator, complete
from tamis.types import Inputs, Value

LENGTH = 32  # digits of a key
_SETTLED = 2_000_000_000  # nanoseconds; the coarsest file systems count in steps of two seconds


def with_defaults(simulator: Simulator, inputs: Inputs) -> dict[str, Value]:
    """Return all inputs like `complete`, but keep a number outside its bounds: the run itself will fail."""
    try:
        return complete(simulator, inputs)
    except SimulationError:
        full: dict[str, Value] = {}
        for name, port in simulator.inputs.items():
            value = inputs.get(name, port.default)
            if value is None:
                raise StudyError(f'simulator {simulator.name}: input "{name}" was not given') from None
            if not isinstance(value, str):
                value = int(value) if isinstance(port.default, int) and math.isfinite(value) else float(value)
            full[name] = value
        return full


def run_key(simulator: Simulator, inputs: Inputs) -> str:
    """Identify a run by a hash of the simulator's name and version and of all inputs, files by content."""
    return digest(simulator.name, simulator.version, spelled(simulator, with_defaults(simulator, inputs)))


def digest(*parts: Any) -> str:
    """Hash words, numbers and lists of them."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:LENGTH]


def contradicts(key: str, simulator: str, version: str, inputs: Inputs) -> bool:
    """Say whether a key is not that of these inputs; a text may stand for a file's content, which is not known here."""
    if "\\" in simulator or any(isinstance(value, str) for value in inputs.values()):
        return False
    return key != digest(
        simulator, version, [[name, _spelled(v, "number")] for name, v in sorted(inputs.items())]
    )


def spelled(simulator: Simulator, full: Inputs) -> list[list[str]]:
    """Write complete inputs as text without loss: numbers exactly, files by content."""
    return [[name, _spelled(value, simulator.inputs[name].kind)] for name, value in sorted(full.items())]


def _spelled(value: Value, kind: str) -> str:
    if kind == "file":
        return f"file {_content(os.path.abspath(str(value)))}" if value else "file"
    return f"float {value.hex()}" if isinstance(value, float) else f"{type(value).__name__} {value}"


def _content(path: str) -> str:
    state = os.stat(path)
    if time.time_ns() - state.st_ctime_ns < _SETTLED:
        return _hashed(path)
    return _remembered(path, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)


@lru_cache(maxsize=8192)
def _remembered(path: str, *state: int) -> str:
    return _hashed(path)


def _hashed(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def append_keys(path: Path, keys: Iterable[str]) -> None:
    """Add keys to a file; begins a new line, since a kill may have left half a key at its end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write("\n" + "\n".join(keys))


def read_keys(path: Path) -> list[str]:
    """Return the different keys of such a file, sorted, without halves."""
    return sorted({key for key in path.read_text().split() if len(key) == LENGTH})
