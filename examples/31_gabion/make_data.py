"""Make the numerical experiment of this example: a packing that no run of the study has, at known constants.

Its constants are the printed ones of the sand and the net; k_n and k_t are printed as 5e-4 and 3e-4 kg. Beside it are
printed the same numbers of ten more packings, with the same constants: what nobody can know of a gabion. So are
the accelerations of ball and grains, of which only such numbers can be compared.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from observe import displacements, durations, forces, statistics

from tamis.simulation import find

HERE = Path(__file__).parent
TRUTH = {"k_ww": 3e4, "k_net": 1e11, "k_n": 5e-4, "k_t": 3e-4}
SEED, OTHERS = 20_130_900, 10


def beside(found: dict[str, np.ndarray], others: list[dict[str, np.ndarray]]) -> None:
    """Print the numbers of the experiment and those of other packings."""

    def row(name: str, unit: float, read: Callable[[dict[str, np.ndarray]], np.ndarray]) -> None:
        own, rest = read(found) / unit, np.array([read(each) for each in others]) / unit
        cells = [
            f"{a:.3g}; {m:.3g} +- {sd:.2g}"
            for a, m, sd in zip(own, rest.mean(axis=0), rest.std(axis=0, ddof=1), strict=True)
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")

    print("| experiment; mean and sd of other packings | first impact | second |\n|---|---|---|")
    row("force [kN]", 1e3, forces)
    row("displacement [cm]", 1e-2, displacements)
    row("duration of the force [ms]", 1e-3, durations)
    for name in ("a1", "a2", "a3", "a4"):
        for k, (what, unit) in enumerate(
            (("largest [m/s2]", 1.0), ("mean frequency [Hz]", 1.0), ("5 to 95 % [ms]", 1e-3))
        ):
            row(f"{name}, {what}", unit, lambda run, name=name, k=k: statistics(run["t"], run[name])[:, k])


def main() -> None:
    """Write the measured numbers, and print them beside those of other packings."""
    inputs = tomllib.loads((HERE / "study.toml").read_text())["model"]["inputs"]
    strike = find("tamis:acd2.gabion_wall")
    found, *others = (strike(**inputs, **TRUTH, seed=SEED + i) for i in range(1 + OTHERS))
    beside(found, others)
    columns = np.column_stack([[1, 2], forces(found), displacements(found), durations(found)])
    head = "# A numerical experiment, not a measurement: make_data.py.\nimpact,force [N],displacement [m],duration [s]"
    np.savetxt(
        HERE / "data" / "measured.csv", columns, ["%d", "%.1f", "%.5f", "%.5f"], ",", header=head, comments=""
    )


if __name__ == "__main__":
    main()
