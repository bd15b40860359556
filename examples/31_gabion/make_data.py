"""Make the numerical experiment of this example: a packing that no run of the study has, at known constants.

Its constants are the printed ones of the sand and the net; k_n and k_t are printed as 5e-4 and 3e-4 kg.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
from observe import displacements, durations, forces

from tamis.simulation import find

HERE = Path(__file__).parent
TRUTH = {"k_ww": 3e4, "k_net": 1e11, "k_n": 5e-4, "k_t": 3e-4}
SEED = 20_130_900


def main() -> None:
    """Write the measured numbers."""
    inputs = tomllib.loads((HERE / "study.toml").read_text())["model"]["inputs"]
    found = find("tamis:acd2.gabion_wall")(**inputs, **TRUTH, seed=SEED)
    columns = np.column_stack([[1, 2], forces(found), displacements(found), durations(found)])
    head = "# A numerical experiment, not a measurement: make_data.py.\nimpact,force [N],displacement [m],duration"
    np.savetxt(
        HERE / "data" / "measured.csv", columns, ["%d", "%.1f", "%.5f", "%.5f"], ",", header=head, comments=""
    )


if __name__ == "__main__":
    main()
