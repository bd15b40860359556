"""Hybrid simulation: CPU time and difference of a plant in parts, beside OpenSees on the whole of it.

``python benchmarks/hybrid.py [--peers PYTHON]`` prints Markdown. The plant is that of `tamis:hybrid.plant`, 40 s of
Corralitos 000 at steps of 1e-4 s: 33 masses and a bilinear bearing; OpenSees solves it as one system, by Newmark's
average acceleration and Newton's method.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
)

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from tests.test_signals import CORRALITOS  # noqa: E402

import tamis  # noqa: E402
from tamis.sim.hybrid import drive  # noqa: E402
from tamis.sim.hybrid.rig import two_actuators  # noqa: E402
from tamis.sim.hybrid.scene import Plant, Rig  # noqa: E402

STEP = 1e-4


def ours(method: str) -> tuple[dict[str, np.ndarray], float]:
    case = Plant(record=str(CORRALITOS), method=method, dt=STEP)
    drive.plant(Plant(record=str(CORRALITOS), method=method, duration=0.01))
    start = time.process_time()
    found = drive.plant(case)
    return found, time.process_time() - start


def theirs(python: str) -> tuple[np.ndarray, float]:
    case = Plant(record=str(CORRALITOS))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.npz"
        signal = drive.ground(case, STEP * np.arange(round(case.duration / STEP) + 1, dtype=np.float64))
        np.savez(path, a=signal, dt=STEP, every=50)
        command = [python, str(HERE / "hybrid_peers.py"), str(path)]
        out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        answer = json.loads(out.splitlines()[-1])
    return np.array(answer["u"]), answer["seconds"]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", help="interpreter of an environment with openseespy")
    options = parser.parse_args()
    rows = [(f"tamis {tamis.__version__}, {method}", *ours(method)) for method in ("gc", "pm", "monolithic")]
    table = [(name, found["u"], seconds) for name, found, seconds in rows]
    reference = table[0][1]
    if (
        options.peers
        and subprocess.run([options.peers, "-c", "import openseespy"], check=False).returncode == 0
    ):
        u, seconds = theirs(options.peers)
        table.append(("OpenSees (openseespy)", u, seconds))
        reference = u
    print("| code | peak, m | at 40 s, m | largest difference from the last row, of peak | CPU s |")
    print("|---|---|---|---|---|")
    for name, u, seconds in table:
        off = np.abs(u - reference).max() / np.abs(reference).max()
        print(f"| {name} | {np.abs(u).max():.6f} | {u[-1]:.6f} | {off:.1e} | {seconds:.2f} |")
    start = time.process_time()
    two_actuators(Rig(cycles=5050))
    print(
        f"\n- 5050 cycles of `hybrid.two_actuators`, ten million steps: {time.process_time() - start:.1f} CPU s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
