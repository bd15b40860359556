"""Steel frames in fire: CPU time to failure, hybrid tests in real time, failure times by the thousand; beside OpenSees.

``python benchmarks/fire.py [--peers PYTHON] [--large]`` prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
)

import numpy as np

from tamis.sim.fire.scene import Frame
from tamis.sim.fire.simulators import frame, hybrid, warm
from tamis.sim.fire.virtual import Hybrid

HERE = Path(__file__).parent


def cpu(work: Callable[[], object]) -> tuple[float, object]:
    start = time.process_time()
    out = work()
    return time.process_time() - start, out


def frames(peers: str | None) -> None:
    print("| frame | tamis, CPU s | fails at | OpenSeesPy, CPU s | ends at | largest difference to 650 C |")
    print("|---|---|---|---|---|---|")
    for size in (1, 3):
        took, out = cpu(lambda size=size: frame(Frame(bays=size, storeys=size)))
        line = f"| {size} x {size} | {took:.3f} | {float(out['failure_temperature']):.1f} C |"
        if peers is None:
            print(line + " | | |")
            continue
        done = subprocess.run(
            [peers, str(HERE / "fire_peers.py"), str(size), str(size)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            print(line + f" {done.stderr.strip().splitlines()[-1]} | | |")
            continue
        other = json.loads(done.stdout.strip().splitlines()[-1])
        apart = 0.0
        t = np.maximum(20.0, other["temperature"])
        for name in ("corner_ux", "mid_beam_uy", "roof_ux"):
            mine = np.interp(t[t <= 650.0], out["temperature"], out[name])
            apart = max(apart, float(np.abs(mine - np.array(other[name])[t <= 650.0]).max()))
        print(line + f" {other['seconds']:.1f} | {other['failure']:.1f} C | {1e3 * apart:.2f} mm |")


def hybrids() -> None:
    for coupling in ("rotations", "translations"):
        case = Hybrid(coupling=coupling)
        took, out = cpu(lambda case=case: hybrid(case))
        steps = round((case.settling + case.until) / case.dt)
        below = out["temperature"] <= 400.0
        print(
            f"- hybrid test, 3 x 3, {case.until:g} s at {case.dt * 1e3:g} ms ({steps} steps), {coupling} coupled: "
            f"{took:.1f} CPU s, {case.until / took:.0f} times real time; largest deviation from the frame in one piece "
            f"{100 * out['deviation'][below].max():.2g} % up to 400 C, {100 * out['deviation'].max():.2g} % at "
            f"{out['temperature'][out['deviation'].argmax()]:.0f} C; lag of the roof {1e3 * out['lag'][-1]:.3g} mm at "
            f"the end, estimated {1e3 * out['lag_estimate'][-1]:.3g} mm"
        )


def many(n: int) -> None:
    rng = np.random.default_rng(1)
    cases = [
        Frame(bays=1, storeys=1, fire="iso834", strength=s, load=q)
        for s, q in zip(235e6 * rng.uniform(0.9, 1.3, n), 15e3 * rng.uniform(0.7, 1.3, n), strict=True)
    ]
    took, _ = cpu(lambda: [frame(case) for case in cases])
    print(f"- {n} failure times of the portal under ISO 834: {took:.1f} CPU s, {1e3 * took / n:.0f} ms each")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers")
    parser.add_argument("--large", action="store_true", help="1000 failure times instead of 100")
    options = parser.parse_args()
    warm()
    frames(options.peers)
    print()
    hybrids()
    many(1000 if options.large else 100)


if __name__ == "__main__":
    main()
