"""A run's state in its working folder, from which it goes on after a kill, bit for bit.

A run of a silo may take an hour; a campaign that is interrupted runs the point again in the same folder. What is kept
is for the same inputs and the same code only, and is removed at the end.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tamis.errors import StudyError
from tamis.families import code_hash
from tamis.files import load_arrays, save_arrays

EVERY = 30.0  # s between two of them: writing 16 000 grains takes 20 ms
_NAME = "checkpoint.npz"


class Checkpoint:
    """The file of one run; without a folder nothing is kept."""

    def __init__(self, folder: Path | None, case: object) -> None:
        self._path = None if folder is None else folder / _NAME
        self._of = f"{case!r} {code_hash(Path(__file__).parent.parent / 'simulators.py')}"
        self._last = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """Return what was kept for this run, if anything."""
        if self._path is None or not self._path.is_file():
            return None
        try:
            kept = load_arrays(self._path)
        except StudyError:
            return None  # damaged: begin again rather than fail
        return kept if str(kept.pop("of", "")) == self._of else None

    def keep(self, arrays: Mapping[str, Any]) -> None:
        """Write the state."""
        if self._path is not None:
            save_arrays(self._path, {"of": np.array(self._of), **arrays})
            self._last = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether it is time to write again."""
        return self._path is not None and time.monotonic() - self._last >= EVERY

    def remove(self) -> None:
        """Forget the state of a run that is done."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
