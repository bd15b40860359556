"""Ground motions: CPU time of accelerograms and of response spectra, beside pyrotd and eqsig.

``python benchmarks/motions.py [--peers PYTHON]`` prints Markdown. Errors of spectra are largest relative differences
from Newmark's average-acceleration scheme with 400 steps a period and 16 a sample, over 100 periods from 0.02 to 5 s.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
)

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from tests.test_signals import CORRALITOS, EL_CENTRO, newmark  # noqa: E402

import tamis  # noqa: E402
from tamis.signals import response_spectrum  # noqa: E402
from tamis.sim.common.records import read_record  # noqa: E402
from tamis.sim.motions import drive  # noqa: E402
from tamis.sim.motions.identify import identify  # noqa: E402
from tamis.simulation import find  # noqa: E402

PERIODS = np.geomspace(0.02, 5.0, 100)
D3 = {
    "arias": (0.019, 3.992),
    "d5_95": (5.083, 16.81),
    "t45": (1.596, 5.664),
    "omega_mid": (14.62, 31.0),
    "zeta": (0.074, 0.557),
}


WHY = """\
eqsig looks for peaks at the samples only. pyrotd takes the motion for one that repeats itself, so that 80 s of zeros
were added here (without them it errs by up to 20 % at long periods), and that has no frequencies above Nyquist's; tamis
and eqsig take it for straight lines between samples."""


def cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def parameters(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {name: rng.uniform(low, high, n) for name, (low, high) in D3.items()}


def accelerograms() -> None:
    simulator = find("tamis:motions.filtered_noise")
    drive.warm()

    def ten_thousand() -> None:
        for i in range(10):  # a thousand at a time: all together are a gigabyte
            simulator.batch({**parameters(1000), "seed": np.arange(1000 * i, 1000 * (i + 1))})

    print(
        f"- 10 000 accelerograms of 40 s at 100 Hz, parameters over Table D.3: {cpu(ten_thousand):.1f} CPU s"
    )
    motions = simulator.batch({**parameters(1000), "seed": np.arange(1000)})["a"]
    periods = np.geomspace(0.05, 5.0, 100)
    response_spectrum(motions[:1], 0.01, periods)
    took = cpu(lambda: response_spectrum(motions, 0.01, periods))
    print(f"- response spectra of 1000 of them at 100 periods from 0.05 to 5 s: {took:.1f} CPU s")
    record = read_record(EL_CENTRO)
    identify(record.a, record.dt, motions=1)
    print(f"- parameters identified from El Centro: {cpu(lambda: identify(record.a, record.dt)):.2f} CPU s\n")


def cases() -> dict[str, tuple[np.ndarray, float]]:
    records = {"El Centro 1940": read_record(EL_CENTRO), "Corralitos 1989": read_record(CORRALITOS)}
    found = {name: (r.a, r.dt) for name, r in records.items()}
    made = find("tamis:motions.filtered_noise").run({}, Path())
    return found | {"generated, 40 s": (made["a"], 0.01)}


def with_peer(python: str, package: str, a: np.ndarray, dt: float) -> tuple[np.ndarray, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.npz"
        np.savez(path, a=a, dt=dt, periods=PERIODS)
        command = [python, str(HERE / "motions_peers.py"), package, str(path)]
        out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        answer = json.loads(out.splitlines()[-1])
    return np.array(answer["spectrum"]), answer["seconds"]


def version(python: str, package: str) -> str | None:
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", help="interpreter of an environment with pyrotd and eqsig")
    options = parser.parse_args()
    accelerograms()
    peers = {p: v for p in ("pyrotd", "eqsig") if options.peers and (v := version(options.peers, p))}
    print("| motion | package | largest error | above 0.2 s | CPU ms, 100 periods |\n|---|---|---|---|---|")
    for name, (a, dt) in cases().items():
        fine = [newmark(a, dt, period, 0.05) for period in PERIODS]
        response_spectrum(a[:10], dt, PERIODS)
        seconds = min(cpu(lambda a=a, dt=dt: response_spectrum(a, dt, PERIODS)) for _ in range(5))
        rows = [(f"tamis {tamis.__version__}", response_spectrum(a, dt, PERIODS), seconds)]
        rows += [(f"{p} {v}", *with_peer(options.peers, p, a, dt)) for p, v in peers.items()]
        for package, spectrum, took in rows:
            error = np.abs(spectrum / fine - 1)
            print(
                f"| {name} | {package} | {error.max():.1e} | {error[PERIODS > 0.2].max():.1e} | {1000 * took:.1f} |"
            )
    print("\n" + WHY)
    return 0


if __name__ == "__main__":
    sys.exit(main())
