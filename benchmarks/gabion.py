"""Gabions of the default size: nine packings, what an impact costs, and what half the step changes.

``python benchmarks/gabion.py`` prints Markdown; ``packings``, ``impact``, ``step``, ``scatter`` or ``uzawa`` after it
asks for one part. ``uzawa`` solves the random steps of the tests by sweeps and by the paper's iteration. Some twelve
minutes of one core in all; the four impacts in a row are `examples/31_gabion/figures.py`.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
)

import warnings
from pathlib import Path

import numpy as np

from tamis.sim.acd2 import wall
from tamis.sim.acd2.jump import largest_rho, solve_jump, solve_jump_uzawa
from tamis.sim.acd2.scene import GabionWall
from tamis.simulation import find

ONE = {"energy_1": 10202.4, "energy_2": 0.0}
LAWS: dict[str, dict[str, float]] = {
    "elastic sand, no friction, as printed": {"rebound": 1.0},
    "sand that gives back a tenth": {"rebound": 0.1},
    "sand that gives back a tenth, friction 0.5": {"rebound": 0.1, "mu": 0.5},
}


def timed(inputs: dict[str, Any], name: str = "gabion_wall") -> tuple[dict[str, Any], float]:
    """Run a simulator; return what it found and the CPU time in s."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jumps at their limit are counted below
        found = find(f"tamis:acd2.{name}")(**inputs)
    return found, time.process_time() - start


def packings() -> None:
    """Pack nine gabions and hold them for a second."""
    print(
        "| seed | side | closed after | solid fraction | deepest overlap | drift in 1 s | contacts | ", end=""
    )
    print("jumps at the limit, in closing, after | largest residual | gap of the books | CPU |")
    print(f"|{'---|' * 11}")
    for seed in range(1, 10):
        found, spent = timed({"seed": seed}, "gabion")
        slow = found["residual"] > 1e-4
        late = found["t"] > found["closed"]
        print(
            f"| {seed} | {found['side'][-1].max():.4f} m | {found['closed']:.2f} s | {found['solid_fraction']:.3f} | "
            f"{1e3 * found['overlap']:.2f} mm | {1e3 * found['drift']:.2g} mm | {found['contacts'][-1]:.0f} | "
            f"{(slow & ~late).sum()}, {(slow & late).sum()} of {slow.size} | {found['residual'].max():.2g} | "
            f"{found['closure']:.0e} | {spent:.1f} s |",
            flush=True,
        )


def impact() -> None:
    """Strike the wall once at 100 %, by three laws; the packings are made before."""
    wall.build(GabionWall(**ONE))
    timed(ONE | {"duration": 1e-3, "settling": 1e-3})  # compiled
    print(
        "\n| law | CPU of settling and impact | central back | force behind it | ball after 10 ms, at the end | ",
        end="",
    )
    print("contacts | jumps at the limit |")
    print(f"|{'---|' * 7}")
    for law, inputs in LAWS.items():
        found, spent = timed(ONE | inputs)
        at = np.searchsorted(found["t"], 0.01)
        low, high = np.percentile(found["contacts"], [5, 95])
        slow = int((found["residual"] > 1e-3).sum())
        back, force = 100 * found["back_peak"][0], found["central_peak"][0] / 1e3
        print(
            f"| {law} | {spent:.0f} s | {back:.1f} cm | {force:.1f} kN | "
            f"{found['ball_speed'][at]:.2f}, {found['ball_left'][0]:.2f} m/s | {low:.0f} to {high:.0f} | "
            f"{slow} of {len(found['t'])} |",
            flush=True,
        )


SMALL = ONE | {
    "grains": 27, "side": 0.27, "ball_mass": 32.5, "ball_diameter": 0.27, "energy_1": 1275.0,
}  # fmt: skip


def step() -> None:
    """Strike a small wall with four steps by two laws, and the wall with the default step and half of it."""
    print(
        "\n| wall | step | central back | largest of a grain | force behind the wall | ball at the end | CPU |"
    )
    print(f"|{'---|' * 7}")
    rough = {"rebound": 0.1, "mu": 0.5}
    cases = [
        *(("small, as printed", SMALL, dt) for dt in (5e-4, 2.5e-4, 1.25e-4, 6.25e-5)),
        *(
            ("small, friction 0.5, a tenth back", SMALL | rough, dt)
            for dt in (5e-4, 2.5e-4, 1.25e-4, 6.25e-5)
        ),
        *(("nine of 216, a tenth back", ONE | {"rebound": 0.1}, dt) for dt in (2.5e-4, 1.25e-4)),
    ]
    for title, inputs, dt in cases:
        found, spent = timed(inputs | {"dt": dt})
        print(
            f"| {title} | {1e3 * dt:g} ms | {100 * found['back_peak'][0]:.2f} cm | "
            f"{100 * found['displacement'][0]:.2f} cm | {found['force_peak'][0] / 1e3:.1f} kN | "
            f"{found['ball_left'][0]:.2f} m/s | {spent:.0f} s |",
            flush=True,
        )


def scatter() -> None:
    """Strike the small wall of eight seeds in half the step, and a micrometre aside: the step or chance?"""
    rough, half = {"rebound": 0.1, "mu": 0.5}, {"dt": 1.25e-4}
    print("\n| small wall, 8 seeds | changed | central back | largest of a grain | force behind the wall |")
    print(f"|{'---|' * 5}")
    for law, inputs in (("as printed", {}), ("friction 0.5, a tenth back", rough)):
        cases = ({}, {"hit_x": 1e-6}, half, half | {"k_n": 2.5e-4, "k_t": 1.5e-4})
        peaks = np.array(
            [
                [
                    [float(found[name][0]) for name in ("back_peak", "displacement", "force_peak")]
                    for found, _ in (timed(SMALL | inputs | case | {"seed": seed}) for seed in range(1, 9))
                ]
                for case in cases
            ]
        )
        for changed, found in zip(
            ("ball aside by 1e-6 m", "half the step", "and k_n, k_t"), peaks[1:], strict=True
        ):
            ratio = 100.0 * (found / peaks[0] - 1.0)
            error = ratio.std(axis=0, ddof=1) / np.sqrt(len(ratio))
            cells = [f"{m:+.1f} +- {e:.1f} % (rms {r:.1f} %)" for m, e, r in
                     zip(ratio.mean(axis=0), error, np.sqrt((ratio**2).mean(axis=0)), strict=True)]  # fmt: skip
            print(f"| {law} | {changed} | {' | '.join(cells)} |", flush=True)


def uzawa() -> None:
    """Solve 200 random steps by sweeps and by the paper's iteration with the mean mass as its step."""
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from tests.sim.acd2.steps import random_step

    print(
        "\n| k_n, k_t | steps | mean mass above the bound | Uzawa not converged in 3000 | sweeps not converged |"
    )
    print(f"|{'---|' * 5}")
    sweeps = []
    for kind in range(4):
        found = np.zeros(4, dtype=int)
        for seed in range(kind, 200, 4):
            one = random_step(seed)
            jump = solve_jump(one)
            sweeps.append((jump.iterations, seed))
            above = one.mass[:, 0].mean() > largest_rho(one)
            with np.errstate(all="ignore"), warnings.catch_warnings():  # where it diverges, it overflows
                warnings.simplefilter("ignore")
                printed = solve_jump_uzawa(one, limit=3000)
            found += 1, above, not printed.converged, not jump.converged
        print(f"| {one.k_n:g}, {one.k_t:g} | {' | '.join(map(str, found))} |", flush=True)
    most, seed = max(sweeps)
    print(f"\nsweeps: median {np.median([n for n, _ in sweeps]):.0f}, at most {most} (seed {seed})")


if __name__ == "__main__":
    PARTS = {"packings": packings, "impact": impact, "step": step, "scatter": scatter, "uzawa": uzawa}
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
