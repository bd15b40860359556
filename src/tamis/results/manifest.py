"""What the last run of a study left: its manifest, and whether the artifacts are still what was written.

Each stage's entry holds a hash of what the stage depends on and one of every artifact's content, so that a file that
was damaged or changed by hand is not mistaken for a result; the manifest carries a checksum of its own. What is found
damaged is reported, and made anew from what it was made of. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

_FILE = "manifest.json"


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read what the last run left, empty if there is none or if it is not as it was written."""
    try:
        text = (folder / _FILE).read_text(encoding="utf-8")
        found = json.loads(text)
        if not isinstance(found, dict):
            return {}
        sound = _written(found) == text  # 1e-05 and 1E-05 are one number and one bit apart
        given, stages = found.pop("checksum", None), found.get("stages", {})
        if not (isinstance(stages, dict) and all(isinstance(entry, dict) for entry in stages.values())):
            return {}
        old = given is None and not any("content" in entry for entry in stages.values())
        return (
            found if old or (sound and given == _checksum(found)) else {}
        )  # old: from before there were sums
    except (OSError, ValueError, RecursionError):
        return {}


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest with its checksum."""
    from tamis.files import replacing  # which brings NumPy along

    with replacing(folder / _FILE) as stream:
        stream.write(_written({**manifest, "checksum": _checksum(manifest)}).encode())


def _written(manifest: Mapping[str, Any]) -> str:
    return json.dumps(manifest, indent=1)


def _checksum(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest).encode()).hexdigest()[:16]


def contents(folder: Path, names: Sequence[str], parts: Mapping[str, Any]) -> dict[str, str]:
    """Hash those of the files called so that are there, in every part of a split study too."""
    below = ("", *(f"{part['folder']}/" for part in parts.values()))
    left = [f"{part}{name}" for name in names for part in below]
    return {name: _content(folder / name) for name in left if (folder / name).is_file()}


def current(folder: Path, entry: Mapping[str, Any], depends: str, artifacts: Sequence[str] = ()) -> bool:
    """Say whether a stage was done with what it depends on now, and its artifacts are there, as they were written."""
    parts = entry.get("parts", {})
    if entry.get("hash") != depends or not isinstance(parts, dict):  # a list in former manifests
        return False
    folders = ("", *(f"{part['folder']}/" for part in parts.values()))
    names = [f"{one}{name}" for one in folders for name in artifacts] or entry.get("content", {})
    return all((folder / name).is_file() for name in names) and not damaged(folder, entry)


def damaged(folder: Path, entry: Mapping[str, Any]) -> list[str]:
    """Name the artifacts of a stage that are not what was written."""
    known = entry.get("content", {})  # none in former manifests
    if not isinstance(known, dict):
        return []
    return [
        name for name, said in known.items() if (folder / name).is_file() and _content(folder / name) != said
    ]


def _content(path: Path) -> str:
    state = os.stat(path)
    return _hashed(str(path), state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)


@lru_cache(maxsize=256)
def _hashed(path: str, *state: int) -> str:
    """Hash a file once in the life of a process."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
