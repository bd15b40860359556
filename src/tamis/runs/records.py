"""One run: what was asked, how it ended, and the array file that holds both the record and the outputs.

An array file is a plain ``.npz`` with one member more, ``run.json``, so it explains itself. It holds no times
(they live in the index) and its zip dates are fixed: same run, same bytes. Whoever reads one without a check
sum from elsewhere checks what it says of itself: the sums of the zip file, the types of the record, its key.

Texts come from anywhere, also from file names that are no text at all (`os.fsdecode`). They are made such that
every encoding takes them where they enter, in `Run`, and nowhere else.
"""

from __future__ import annotations

import errno
import io
import json
import math
import struct
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from tamis.errors import StudyError, nearest, without_figures
from tamis.runs.keys import contradicts
from tamis.types import Inputs, Outputs, Value

Status: TypeAlias = Literal["done", "failed", "crashed", "timeout", "memory"]
_LOCAL = struct.Struct("<HHHHIIIHH")  # what a zip file says before each member, from its flags on
STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True)
class Run:
    """One evaluation of a simulator: what was asked, how it ended, why it failed.

    ``failed`` means that the physics said no (`SimulationError`), ``crashed`` that the program broke; a
    likelihood treats them differently. ``error`` is one line; tracebacks and print-outs are in the run's log.
    ``seconds`` is NaN where nobody measured it. ``warnings`` holds one line of each kind of `TamisWarning`.
    """

    key: str
    simulator: str
    version: str
    inputs: Inputs
    status: Status
    seconds: float
    error: str = ""
    code: str = ""
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (self.simulator.isascii() and self.version.isascii() and self.error.isascii()):
            for name in ("simulator", "version", "error"):
                object.__setattr__(self, name, _encodable(getattr(self, name)))
        for value in self.inputs.values():
            if isinstance(value, str) and not value.isascii():
                inputs = {n: _encodable(v) if isinstance(v, str) else v for n, v in self.inputs.items()}
                object.__setattr__(self, "inputs", inputs)
                break
        if self.warnings:
            object.__setattr__(self, "warnings", tuple(map(_encodable, self.warnings)))


def _encodable(text: str) -> str:
    """Spell out what no encoding takes: lone surrogates, which stand for bytes that are no text."""
    return text.encode("utf-8", "backslashreplace").decode()


def failure_groups(runs: Iterable[Run]) -> list[list[Run]]:
    """Group the runs that failed by their reason, whatever the numbers in it; the largest group first."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        if run.status != "done":
            groups.setdefault(reason(run), []).append(run)
    return sorted(groups.values(), key=len, reverse=True)


def reason(run: Run) -> tuple[str, str]:
    """Return how a run ended and why, whatever the numbers in it."""
    return run.status, without_figures(run.error)


def array_file(run: Run, outputs: Outputs) -> bytes:
    """Return the content of a run's array file, the same bytes every time."""
    record = {**vars(run), "inputs": dict(run.inputs)}
    del record["seconds"], record["warnings"]
    content = io.BytesIO()
    try:
        with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
            for name, array in outputs.items():
                buffer = io.BytesIO()
                np.lib.format.write_array(buffer, np.asarray(array, order="C"), allow_pickle=False)
                _write_member(archive, f"{name}.npy", buffer.getvalue())
            _write_member(archive, "run.json", json.dumps(record, indent=1).encode())
            if run.warnings:  # beside the record, where earlier versions of tamis look past them
                _write_member(archive, "warnings.json", json.dumps(run.warnings).encode())
    except ValueError as error:  # closing an archive interrupted inside a member hides the interrupt
        raise error.__context__ or error from None
    return content.getvalue()


def _write_member(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.create_system = 3
    archive.writestr(info, content)


class Damaged(Exception):
    """An array file cannot be read, or is not what its name says."""


@contextmanager
def _reading(source: Path | bytes) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source) as archive:
            yield archive
    except (StudyError, Damaged):
        raise
    except Exception as error:
        # a broken zip file raises nearly anything; a true error of the system has a number
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise Damaged(f"{type(error).__name__}: {error}") from error


def read_record(source: Path | bytes, key: str | None) -> Run:
    """Return the run that an array file holds, its seconds unknown; `Damaged` if it is not that of its key."""
    with _reading(source) as archive:
        names = archive.namelist()
        if bad := archive.testzip():
            raise Damaged(f"Bad CRC-32 for {bad!r}")
        warned = json.loads(archive.read("warnings.json")) if "warnings.json" in names else []
        return _run(json.loads(archive.read("run.json")), warned, key)


def _run(record: Any, warned: Any, key: str | None) -> Run:
    """Make a run of what a file says, which may be anything."""
    run = Run(**record, seconds=math.nan, warnings=tuple(warned))
    texts = (run.key, run.simulator, run.version, run.status, run.error, run.code, *run.inputs, *run.warnings)
    values = run.inputs.values()
    if not all(isinstance(text, str) for text in texts) or run.status not in STATUSES:
        raise Damaged("its record is none of a run")
    if not all(isinstance(value, Value) and not isinstance(value, bool) for value in values):
        raise Damaged("its record has inputs that are neither numbers nor texts")
    if key is not None and run.key != key:
        raise Damaged(f"it holds run {run.key}")
    if contradicts(run.key, run.simulator, run.version, run.inputs):
        raise Damaged("its record contradicts its key")
    return run


def read_arrays(source: Path | bytes, names: Sequence[str] | None = None, most: float = math.inf) -> Outputs:
    """Read arrays of an array file, all or those named; `Damaged` if they cannot be read.

    Refused before they are read if they say to take more than ``most`` bytes. Content that is at hand has been compared
    with its sum and is not compared again.
    """
    if isinstance(source, bytes) and (members := _members(source)) is not None:
        found = {name.removesuffix(".npy"): at for name, at in members.items() if name.endswith(".npy")}
        if names is None or set(names) <= set(found):
            return {name: _array(source[slice(*found[name])]) for name in (found if names is None else names)}
    with _reading(source) as archive:
        have = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        for name in names or ():
            if name not in have:
                raise StudyError(f'no output "{name}"{nearest(name, have)}')
        wanted = have if names is None else names
        size = sum(archive.getinfo(f"{name}.npy").file_size for name in wanted)
        if size > most:
            raise StudyError(f"its arrays take {size / 1e6:.0f} MB, more than the {most / 1e6:g} MB allowed")
        return {name: _read_array(archive, name) for name in wanted}


def _members(content: bytes) -> dict[str, tuple[int, int]] | None:
    """Return where the members of a zip file begin and end; None if it is not as plain as those made here.

    Three times as fast as `zipfile`, which counts where a hundred thousand runs are read.
    """
    found = {}
    at = 0
    while content[at : at + 4] == b"PK\x03\x04":
        flags, method, _, _, _, packed, size, name, extra = _LOCAL.unpack_from(content, at + 6)
        start = at + 30 + name
        if flags or method or packed != size or extra:
            return None
        found[content[at + 30 : start].decode("ascii")] = (start, start + size)
        at = start + size
    return found if content[at : at + 4] == b"PK\x01\x02" else None


def _read_array(archive: zipfile.ZipFile, name: str) -> Any:
    return _array(archive.read(f"{name}.npy"))


def _array(content: bytes) -> Any:
    return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
