"""The code that made a run: recorded with it, compared when it is asked for again, and reported where it has changed.

The key of a run holds the simulator's version, which for a function without a version of its own is a hash of all its
sources: edited code is another version, and its runs are made anew. Built-in simulators and functions with a version of
their own keep their version while their code changes. So each run also carries a hash of the code that made it. Runs of
a built-in simulator whose code is another now are made again; for a function whose author gives versions, that author
decides, and is warned.

Beside the runs lies a small file for each code, which lists its sources with their hashes: what has changed since the
last runs can then be said by name.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from tamis import observables
from tamis.errors import StudyError
from tamis.families import code_files, code_hash, file_of
from tamis.files import replacing
from tamis.interfaces import function_of, whole_of
from tamis.runs.store import Run
from tamis.simulation import Simulator
from tamis.sources import source_hash, sources

FOLDER = "code"
IMPORTED = "imported"  # stands for the code of runs that were made elsewhere
OBSERVED = "+observed."  # in the version of a simulator of which the observed numbers are kept only
OTHER_CODE = "were made before its code changed"  # of runs that are used all the same


def code_of(simulator: Simulator) -> str:
    """Hash the sources behind a simulator; empty where there are none to read."""
    path, whole = _file_of(simulator), whole_of(simulator)
    code = _hashed(path, function_of(simulator), whole.address) if path else ""
    if not code or whole is simulator:
        return code
    return _of_observed(code)


def _of_observed(code: str) -> str:
    """Return the code of runs of which the observed numbers are kept only: how they are observed belongs to it."""
    return hashlib.sha256(f"{code} {code_hash(Path(observables.__file__))}".encode()).hexdigest()[:16]


def built_in(simulator: Simulator) -> bool:
    """Return whether a simulator is one of tamis' own, whatever is kept of its outputs."""
    return file_of(whole_of(simulator).address) is not None


def outdated(simulator: Simulator, runs: Iterable[Run]) -> list[Run]:
    """Return the runs that another code of the simulator made, of the same version."""
    code = code_of(simulator)
    return [run for run in runs if code and run.code not in ("", IMPORTED, code)]


def code_warning(runs: Iterable[Run], simulator: Simulator | None = None) -> str:
    """Say in a sentence which of these runs were made by other code of the same version; empty if none were.

    Runs of a built-in simulator, and of ``simulator``, are compared with its code as it is now, others with each other.
    """
    groups: dict[tuple[str, str], Counter[str]] = {}
    for run in runs:
        if run.code not in ("", IMPORTED):
            groups.setdefault((run.simulator, run.version), Counter())[run.code] += 1
    said = []
    for (name, version), codes in sorted(groups.items()):
        file, count = file_of(name), codes.total()
        if file or (simulator is not None and name == simulator.name):
            now = _hashed(file, None, name) if file else code_of(simulator)  # type: ignore[arg-type]
            if OBSERVED in version and file:
                now = _of_observed(now)
            old, what = count - codes[now], "other code than it has now"
        else:
            old, what = count if len(codes) > 1 else 0, f"{len(codes)} different codes"
        if old:
            remedy = (
                "`tamis run` makes them again"
                if file
                else "they are used as they are: raise the version if results changed with the code"
            )
            said.append(f"{old} of {count} runs of {name}, version {version}, were made by {what}; {remedy}")
    return "; ".join(said)


def note(root: Path, simulator: Simulator) -> None:
    """Leave beside the runs what their code consists of."""
    path = _file_of(simulator)
    if path is None:
        return
    kept = root / FOLDER / f"{code_of(simulator)}.json"
    if not kept.exists():
        said = {"simulator": simulator.name, "version": simulator.version, "files": _files(simulator, path)}
        with replacing(kept) as stream:
            stream.write(json.dumps(said, indent=1).encode())


def changes(root: Path, simulator: Simulator) -> list[str]:
    """Name the sources that have changed since the last runs of a simulator that were made by other code."""
    path = _file_of(simulator)
    if path is None:
        return []
    mine = code_of(simulator)
    others = sorted((root / FOLDER).glob("*.json"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in others:
        try:
            said = json.loads(file.read_text(encoding="utf-8"))
            files, name = dict(said["files"]), said["simulator"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if _module(name) == _module(simulator.name) and file.stem != mine:
            now = _files(simulator, path)
            return sorted(one for one in {*files, *now} if files.get(one) != now.get(one))
    return []


def _module(name: str) -> str:
    """Return the file of a function of the user's: its functions have one code, recorded under one of their names."""
    return name.rpartition(":")[0] or name


def _files(simulator: Simulator, path: Path) -> dict[str, str]:
    return code_files(path) if built_in(simulator) else sources(path)


def _file_of(simulator: Simulator) -> Path | None:
    if shipped := file_of(whole_of(simulator).address):
        return shipped
    code = getattr(function_of(simulator), "__code__", None)
    path = Path(code.co_filename) if code is not None else None
    return path if path and path.is_file() else None


@lru_cache(maxsize=64)
def _hashed(path: Path, function: object, address: str) -> str:
    """Hash once in the life of a function, which was imported from these sources as they were."""
    try:
        return code_hash(path) if file_of(address) else source_hash(path)[:16]
    except (OSError, StudyError):
        return ""
