"""The numbers of every built-in simulator, pinned by version: what `test_versions` compares with, and what writes it.

`python -m tests.sim.pin` writes the outputs of each version that has no file yet, and removes files of former ones. It
never overwrites a file: numbers that change want another version, since runs are known by it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from tamis.families import builtins
from tamis.simulation import find

FOLDER = Path(__file__).parent / "versions"

# Short spans, long before round-off counts: inputs changed by 1e-13 of them move outputs by some 1e-10.
POINTS = {
    "acd2.gabion": [
        {"grains": 4, "side": 0.2, "settling": 0.01, "hold": 0.01, "tolerance": 1e-10},
        {"grains": 2, "side": 0.15, "settling": 0.01, "hold": 0.01, "seed": 5, "k_n": 1.0, "k_t": 0.5},
    ],
    "acd2.gabion_wall": [
        {
            "across": 1,
            "high": 1,
            "packings": 1,
            "grains": 14,
            "side": 0.22,
            "ball_mass": 10.0,
            "ball_diameter": 0.2,
            "energy_1": 100.0,
            "energy_2": 0.0,
            "settling": 2e-3,
            "duration": 4e-3,
            "rebound": 0.5,
        },
    ],
    "acd2.impact": [{}, {"mass": 0.9, "k_n": 5e-4, "k_t": 3e-4, "v_n": 4.0}],
    "acd2.layer": [
        {
            "grains": 12,
            "width": 1.4,
            "ball_mass": 500.0,
            "ball_diameter": 0.6,
            "energy": 1e4,
            "settling": 0.8,
            "duration": 0.02,
        },
    ],
    "dem.impact": [
        {},
        {"alpha": 0.31, "spin": -40.0, "angle": 55.0, "mu": 0.3},
        {"gamma": 0.0, "k_t": 0.0, "alpha": 0.25},
    ],
    "motions.filtered_noise": [
        {"duration": 8.0},
        {
            "duration": 8.0,
            "seed": 5,
            "d5_95": 8.0,
            "t45": 1.2,
            "omega_rate": -4.0,
            "zeta": 0.1,
            "corner": 0.2,
        },
        {"duration": 8.0, "seed": 2, "omega_rate": 0.0, "t45": 2.0},
    ],
    "dem.brazil_nut": [
        {"duration": 0.03, "settling": 0.02, "softening": 1e4},
        {
            "duration": 0.02,
            "settling": 0.01,
            "softening": 1e4,
            "z_init": 0.1,
            "alpha": 0.5,
            "body": "disk",
            "seed": 3,
        },
        {"duration": 0.02, "settling": 0.01, "softening": 1e3, "scheme": "gear", "scaling": "literal"},
    ],
    "dem.silo": [
        {
            "grains": 20,
            "avalanches": 0,
            "width": 0.012,
            "outlet": 0.0064,
            "softening": 1e4,
            "settling": 0.05,
            "duration": 0.04,
            "gamma": 5e5,
        },
        {
            "grains": 30,
            "avalanches": 0,
            "width": 0.012,
            "outlet": 0.0064,
            "softening": 1e4,
            "settling": 0.03,
            "duration": 0.04,
            "refill": "none",
        },
    ],
    "dem.heap": [
        {"grains": 40, "softening": 1e4, "settling": 0.015, "duration": 0.02, "gamma": 5e5},
        {
            "grains": 40,
            "softening": 1e4,
            "settling": 0.03,
            "duration": 0.03,
            "plane": "smooth",
            "scaling": "material",
        },
    ],
    "fire.member": [
        {"elements": 2, "reached": 500.0, "record": 50.0},
        {
            "elements": 4,
            "ends": "fixed",
            "axial": "spring",
            "gradient": 100.0,
            "reached": 900.0,
            "record": 50.0,
        },
        {
            "elements": 2,
            "fire": "iso834",
            "protection": 0.01,
            "until": 1200.0,
            "record": 50.0,
            "law": "bilinear",
        },
    ],
    "fire.frame": [
        {"bays": 1, "storeys": 1, "record": 20.0},
        {"bays": 2, "storeys": 2, "elements": 2, "fire": "parametric", "until": 1500.0, "record": 20.0},
    ],
    "fire.hybrid": [
        {"bays": 1, "storeys": 2, "elements": 2, "settling": 2.0, "until": 4.0, "dt": 0.05, "record": 1.0},
        {
            "bays": 1,
            "storeys": 2,
            "elements": 2,
            "settling": 2.0,
            "until": 4.0,
            "dt": 0.05,
            "record": 1.0,
            "coupling": "translations",
            "modes": 3,
        },
    ],
    "fire.after_earthquake": [
        {"storeys": 1, "elements": 2, "pga": 6.0, "dt": 0.02, "calm": 2.0, "until": 1200.0, "record": 20.0},
        {"storeys": 1, "elements": 2, "heated": "brace", "protection": 0.0, "until": 1200.0, "record": 20.0},
    ],
    "rail.track": [
        {"length": 60.0},
        {"length": 60.0, "seed": 4, "spectrum": "high", "variation": 0.4, "coherence": 0.6, "spacing": 0.5},
    ],
    "rail.vehicle": [
        {"duration": 0.5},
        {
            "duration": 0.4,
            "cars": 2,
            "sensors": "rear",
            "spectrum": "high",
            "amplitude": 1.2,
            "conicity": 0.3,
            "speed": 80.0,
            "w1": 0.1,
            "w2": 0.9,
            "w3": 0.2,
            "w4": 0.8,
            "w5": 0.3,
            "w6": 0.7,
            "w7": 0.4,
        },
    ],
    "hybrid.two_actuators": [
        {"cycles": 3, "period": 0.5, "drop": 0.2, "drop_cycle": 3},
        {"cycles": 2, "period": 0.5, "control": "modal", "i_c": 40.0, "i_d": 1e-7, "delay": 0.0, "seed": 4},
        {"cycles": 2, "period": 0.5, "control": "displacement", "offset": 1e-4, "lag": 0.0},
    ],
    "hybrid.plant": [
        {"duration": 1.0, "dt": 1e-3},
        {"duration": 1.0, "dt": 1e-3, "method": "pm", "piping": "beam", "subcycling": 4, "pga": 8.0},
        {"duration": 1.0, "dt": 1e-3, "method": "monolithic", "piping": "none", "radius": 2.0, "pga": 0.0},
    ],
    "hybrid.delay": [
        {"duration": 3.0, "dt": 5e-3},
        {"duration": 3.0, "dt": 5e-3, "hold": 0.03, "delay": 0.0, "scale": 2.0},
    ],
    "nscd.slide": [{"duration": 0.1}, {"duration": 0.1, "mu": 0.7, "azimuth": 33.0}],
    "nscd.bounce": [{"duration": 1.0, "h": 2e-3}],
    "nscd.stack": [{"duration": 0.05, "boxes": 3}, {"duration": 0.05, "boxes": 5, "ratio": 2.0}],
    "nscd.rocking": [{"duration": 0.5, "h": 2e-3}],
    "nscd.arch": [
        {"duration": 0.05, "voussoirs": 9, "thickness": 0.2},
        {"duration": 0.05, "voussoirs": 9, "thickness": 0.08},
    ],
    "nscd.rockfall_wall": [
        {"duration": 0.01, "rows": 2, "distant": 0.9, "columns": 2, "residual": 1e-9},
        {
            "duration": 0.01,
            "rows": 2,
            "distant": 0.9,
            "columns": 2,
            "residual": 1e-9,
            "pattern": "rows",
            "holes": "bores",
            "ends": "round",
            "energy": 5e5,
            "height": 0.9,
            "incidence": 20.0,
        },
    ],
    "nscd.wall": [{"duration": 0.004, "mu": 0.0, "mu_ground": 0.0}, {"duration": 0.006}],
}
# The impulses between the blocks of a wall with friction are not unique: inputs changed by 1e-13 of them, or round-off,
# choose others within the tolerance of the solver, 1e-6, and that moves outputs by up to 2.4e-5 of their largest value.
TOLERANCES = {("nscd.wall", 1): 2e-4}
# How well a step was solved is round-off, or as near to the tolerance as the last iteration came: absolute tolerances.
LOOSE = {
    "energy_gain": 1e-9,
    "closure": 1e-12,
    "momentum_closure": 1e-12,
    "residual": 1e-6,
    "iterations": 5.0,
    "drift": 1e-12,
    "u_n": 1e-14,  # zero but for round-off, of speeds of 1 m/s
}


def file_of(name: str) -> Path:
    return FOLDER / f"{name}-{find(f'tamis:{name}').version}.npz"


def outputs(name: str) -> dict[str, np.ndarray]:
    """Run a simulator at its points; arrays by the number of the point and the name of the output."""
    simulator = find(f"tamis:{name}")
    with tempfile.TemporaryDirectory() as scratch:
        return {
            f"{i}.{key}": array
            for i, point in enumerate(POINTS[name])
            for key, array in simulator.run(point, Path(scratch)).items()
        }


def main() -> int:
    wanted = {file_of(name): name for name in builtins()}
    for file, name in wanted.items():
        if not file.exists():
            np.savez_compressed(file, **outputs(name))
            print(f"{file.name}: pinned")
    for file in set(FOLDER.glob("*.npz")) - set(wanted):
        file.unlink()
        print(f"{file.name}: removed, no simulator has this version")
    return 0


if __name__ == "__main__":
    sys.exit(main())
