"""A store that several people write, one after the other, and others may read."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tamis.errors import StudyError
from tamis.runs.store import INDEX, Run, RunStore
from tests.shelf import spots
from tests.test_store_faults import open_folder  # noqa: F401, a fixture

ROOT = os.geteuid() == 0
ADD = """
import os, sys
import numpy as np
from tamis.runs.store import Run, RunStore
os.umask(int(sys.argv[3], 8))
os.setgid(4321)
os.setuid(int(sys.argv[2]))
with RunStore(sys.argv[1]) as store:
    key = f"{int(sys.argv[4]):032x}"
    n = int(sys.argv[5])
    store.add(Run(key, "s", "1", {"law": "x"}, "done", 1.0), {"z": np.zeros(n)})
    print(sorted(run.key[-1] for run in store.runs()))
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o077])
def test_files_are_shared_with_those_who_may_write_the_folder(tmp_path, umask):
    root = tmp_path / "runs"
    root.mkdir()
    root.chmod(0o2775)
    before = os.umask(umask)
    try:
        with RunStore(root) as store:
            store.add(Run("a" * 32, "s", "1", {"law": "x"}, "done", 1.0), {"z": np.zeros(3)})
            store.add(Run("b" * 32, "s", "1", {"law": "x"}, "done", 1.0), {"z": np.zeros(20_000)})
    finally:
        os.umask(before)
    for path in (
        root / INDEX,
        root / ".lock",
        *root.glob("segments/*"),
        *(spot.path for spot in spots(root).values()),
    ):
        assert mode(path) & 0o060 == 0o060, path
    for folder in root.glob("*/"):
        assert mode(folder) & 0o020, folder
    assert mode(root / ".lock") & 0o007 == 0  # whoever can open it could lock the others out


@pytest.mark.skipif(not ROOT, reason="only root can be two people")
@pytest.mark.parametrize("umask", ["002", "022"])
def test_a_second_member_of_a_team_goes_on(open_folder, umask):  # noqa: F811
    root = open_folder / "runs"
    root.mkdir()
    os.chown(root, -1, 4321)
    root.chmod(0o2775)
    for number, uid in enumerate(("5001", "5002", "5001")):
        for n in (3, 20_000):
            command = [sys.executable, "-c", ADD, str(root), uid, umask, str(2 * number + (n > 3)), str(n)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([f"{i}" for i in range(6)])


def test_the_message_names_a_holder_only_if_it_lives(tmp_path):
    RunStore(tmp_path).add(Run("a" * 32, "s", "1", {"law": "x"}, "done", 1.0), {"z": np.zeros(3)})
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    lock = tmp_path / ".lock"
    with lock.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        lock.write_text(f"{child.pid} on {os.uname().nodename}\n")
        with pytest.raises(StudyError, match="is being written by another process; wait"):
            RunStore(tmp_path).add(Run("b" * 32, "s", "1", {"law": "x"}, "done", 1.0), None)
