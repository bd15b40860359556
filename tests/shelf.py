"""What lies in a run store, read from its files alone: shared by the tests of all that writes to one."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from tamis.runs.segments import segment_path, sizes, walk
from tamis.runs.store import INDEX, RunStore, paths


class Spot(NamedTuple):
    """Where the bytes of an array file are."""

    path: Path
    offset: int
    size: int

    def read(self) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.size)

    def flip(self, byte: int, mask: int = 1) -> None:
        """Change bits of one byte, counted from where the array file begins."""
        with self.path.open("r+b") as file:
            file.seek(self.offset + byte)
            (old,) = file.read(1)
            file.seek(self.offset + byte)
            file.write(bytes([old ^ mask]))


def spots(root: Path) -> dict[str, Spot]:
    """Return where the array file of each run is: a file of its own, else where it comes last in the segments."""
    found = {}
    for number in sizes(root):
        path = segment_path(root, number)
        found |= {m.key: Spot(path, m.offset, m.size) for m in walk(path)[0] if m.key}
    return found | {path.stem: Spot(path, 0, path.stat().st_size) for path in root.glob("??/*.npz")}


def contents(root: Path) -> dict[str, bytes]:
    """Return the bytes of every array file, by key."""
    return {key: spot.read() for key, spot in sorted(spots(root).items())}


def first_format(root: Path, columns: str = ", warnings TEXT NOT NULL DEFAULT '[]'") -> None:
    """Make a store one of the first format: a file for each run, and the index as it was, with a column or without."""
    rows = []
    with RunStore(root) as store:
        for run in store.runs():
            path = paths(root, run.key)[0]
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(store.content(run.key))
            asked = run.key, run.simulator, run.version, json.dumps(run.inputs)
            rows.append((*asked, run.status, run.seconds, run.error, run.code, path.stat().st_size))
            if log := store.log(run.key):
                path.with_suffix(".log").write_text(log)
    for path in (*root.glob(f"{INDEX}*"), *root.glob("segments/*")):
        path.unlink()
    (root / "segments").rmdir()
    with closing(sqlite3.connect(root / INDEX)) as db, db:
        db.executescript(f"""
            CREATE TABLE runs (key TEXT PRIMARY KEY, simulator TEXT NOT NULL, version TEXT NOT NULL,
                inputs TEXT NOT NULL, status TEXT NOT NULL, seconds REAL, error TEXT NOT NULL, code TEXT NOT NULL,
                bytes INTEGER NOT NULL{columns});
            CREATE INDEX runs_by_status ON runs (simulator, status);
            PRAGMA user_version = 1;""")
        names = "key, simulator, version, inputs, status, seconds, error, code, bytes"
        db.executemany(f"INSERT INTO runs ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
