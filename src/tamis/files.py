"""Writing that is never half done: a temporary neighbour, then a rename."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from tamis.errors import StudyError


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary neighbour of ``path`` for writing and rename it when all went well."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise StudyError(
                f'cannot write "{path}": {reason}; make room or give a writable folder, then run again: '
                "what was finished is kept"
            ) from error
        raise


def save_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write named arrays as ``.npz``; the same arrays give the same bytes."""
    with replacing(path) as stream:
        np.savez(stream, **{name: np.asarray(array) for name, array in arrays.items()})  # type: ignore[arg-type]


def load_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Read what `save_arrays` wrote; pickled objects are refused."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            return dict(archive)
    except OSError as error:
        raise StudyError(f'"{path}" cannot be read ({error}); delete it and run again') from error
    except Exception as error:  # a damaged zip file raises nearly anything
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise StudyError(f'"{path}" is damaged ({what}); delete it and run again') from error
