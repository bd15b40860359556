"""A campaign on MPI: `mpi4py.futures` is an executor like any other."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tamis.runs.campaign import evaluate
from tamis.runs.store import RunStore
from tamis.simulation import find
from tests.shelf import contents

MPIEXEC = shutil.which("mpiexec")
MODELS = Path(__file__).parent / "models"
SCRIPT = f"""
from pathlib import Path
from mpi4py.futures import MPIPoolExecutor
from tamis.runs.campaign import evaluate
from tamis.simulation import find
from tamis.runs.store import RunStore

if __name__ == "__main__":
    models = Path({str(MODELS)!r})
    store = RunStore("runs")
    with MPIPoolExecutor() as pool:
        evaluate(find("plain.py:line", models), [{{"a": float(a)}} for a in range(20)], store, executor=pool)
        wanted = [{{"how": how}} for how in ("fine", "segfault", "hang")]
        runs = evaluate(find("trouble.py:trouble", models), wanted, store, executor=pool, timeout=2.0)
    print([run.status for run in runs])
"""


@pytest.mark.skipif(MPIEXEC is None, reason="mpiexec is not installed")
def test_mpi_gives_the_same_bytes(tmp_path):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    (tmp_path / "campaign.py").write_text(SCRIPT)
    command = [MPIEXEC, "-n", "3", sys.executable, "-m", "mpi4py.futures", "campaign.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "['done', 'crashed', 'timeout']", done.stderr
    line, here = find("plain.py:line", MODELS), RunStore(tmp_path / "here")
    evaluate(line, [{"a": float(a)} for a in range(20)], here, executor=2)
    assert contents(here.root).items() <= contents(tmp_path / "runs").items()
