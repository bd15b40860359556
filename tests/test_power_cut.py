"""The power fails: all that was written since the last sync is gone, and no run that was told as done is.

A small disk in memory stands under the few functions through which the store writes. It knows what has been synced, of
every file and of every folder, and gives back the store as a power cut at that instant would leave it. The index
is SQLite's business, which syncs what it commits: it is tried as it was, as it was at any earlier commit, and gone.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tamis import files
from tamis.errors import StudyError
from tamis.runs.campaign import evaluate
from tamis.runs.keys import run_key
from tamis.runs.store import INDEX, RunStore
from tamis.simulation import find
from tests.shelf import contents

MODELS = Path(__file__).parent / "models"
LINE = find("plain.py:line", MODELS)


class Cut(Exception):
    """The power is gone."""


class Disk:
    """What is on a disk and what is only in memory: files by number, and the names that folders have for them."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, last: int | None = None) -> None:
        self.root = root
        self.last = last  # after so many calls the power fails
        self.calls = 0
        self.synced: dict[int, bytes] = {}  # inode -> content
        self.names: dict[Path, int] = {}  # as synced
        self.syncs = 0
        for name in ("opened", "write", "cut", "sync", "closed", "rename", "remove", "sync_folder"):
            monkeypatch.setattr(files, name, self._watched(name, getattr(files, name)))

    def _watched(self, name, real):
        def call(*arguments):
            self.calls += 1
            if self.last is not None and self.calls > self.last:
                raise Cut
            done = real(*arguments)
            if name == "sync":
                self.syncs += 1
                handle = arguments[0]
                self.synced[os.fstat(handle).st_ino] = os.pread(handle, os.fstat(handle).st_size, 0)
            elif name == "sync_folder":
                folder = arguments[0].resolve()
                self.names = {path: node for path, node in self.names.items() if path.parent != folder}
                self.names |= {path: path.stat().st_ino for path in folder.iterdir() if path.is_file()}
            return done

        return call

    def left(self, folder: Path) -> None:
        """Write what a power cut leaves."""
        for path, node in self.names.items():
            if path.is_relative_to(self.root) and path.name != INDEX and "work" not in path.parent.name:
                there = folder / path.relative_to(self.root)
                there.parent.mkdir(parents=True, exist_ok=True)
                there.write_bytes(self.synced.get(node, b""))  # named, but never synced: empty


def campaign(root: Path, points: list[dict]) -> tuple[int, list[bytes]]:
    """Run until the power fails; return how many runs were told as done, and the index at each telling."""
    told: list[int] = [0]
    indexes: list[bytes] = []

    def progress(event) -> None:
        told[0] = max(told[0], event.done)
        if (root / INDEX).exists():
            indexes.append((root / INDEX).read_bytes())

    with suppress(Cut, StudyError):
        evaluate(LINE, points, RunStore(root), executor=0, progress=progress)
    return told[0], indexes


POINTS = [
    {"a": float(i), "n": 9000 if i % 4 == 3 else 5, "wait": 0.03} for i in range(12)
]  # some too large to pack


@pytest.mark.filterwarnings("ignore:the index of the run store")
@pytest.mark.filterwarnings("ignore:.*array files of the run store")
def test_a_power_cut_costs_only_runs_that_were_not_told_as_done(tmp_path, monkeypatch):
    monkeypatch.setattr("tamis.runs.campaign._GROUP_SECONDS", 0.07)
    evaluate(LINE, POINTS, RunStore(tmp_path / "reference"), executor=0)
    reference = contents(tmp_path / "reference")
    keys = [run_key(LINE, point) for point in POINTS]
    lost = []
    for last in range(1, 400, 7):
        root = tmp_path / str(last)
        with monkeypatch.context() as patch:
            disk = Disk(root, patch, last)
            told, indexes = campaign(root, POINTS)
            ended = disk.calls <= last
        for i, index in enumerate((*indexes[-1:], *indexes[:1], None)):
            there = tmp_path / f"{last}-{i}"
            there.mkdir()
            disk.left(there)
            if index is not None:
                (there / INDEX).write_bytes(index)
            with RunStore(there) as store:
                found = store.recover(keys)
            assert len(found) >= told, (last, i)
            lost.append(len(found) - told)
            kept = contents(there)
            assert all(kept[key] == reference[key] for key in found)
            shutil.rmtree(there)
        if ended:
            break
    assert ended and told == len(POINTS)  # the power failed at one call after another, up to the last
    assert np.mean(lost) < len(POINTS) / 2  # nor is everything synced long before it is told


@pytest.mark.filterwarnings("ignore:the index of the run store")
def test_after_a_power_cut_the_campaign_goes_on(tmp_path, monkeypatch):
    root, there = tmp_path / "runs", tmp_path / "there"
    with monkeypatch.context() as patch:
        disk = Disk(root, patch, 60)
        campaign(root, POINTS)
    there.mkdir()
    disk.left(there)
    evaluate(LINE, POINTS, RunStore(there), executor=0)
    evaluate(LINE, POINTS, RunStore(tmp_path / "reference"), executor=0)
    assert contents(there) == contents(tmp_path / "reference")


def test_runs_that_end_together_share_a_sync(tmp_path, monkeypatch):
    disk = Disk(tmp_path / "runs", monkeypatch)
    evaluate(LINE, [{"a": float(i)} for i in range(200)], RunStore(tmp_path / "runs"), executor=0)
    assert 1 <= disk.syncs < 40  # a sync for each would be 200
