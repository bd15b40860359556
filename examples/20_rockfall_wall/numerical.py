"""The numerical experiment that stands in for the measured curves: made once, its files are in data/.

The wall of the studies, at the parameters of Table 5 'all', in half their time step and to a tenth of their residual;
each displacement gets an error of its own, 0.01 m on the impact axis and 0.005 m on the distant one. A second one, of
the same wall whose struck blocks break, is what `breaking.py` weighs the two by (files broken-*.csv).
"""

import tempfile
import warnings
from pathlib import Path

import numpy as np
from instants import POINTS, written
from observe import INSTANTS

import tamis
from tamis.simulation import find

DATA = Path(__file__).parent / "data"
TRUTH = {"d_z": 0.068, "v_p": 0.071, "mu_cc": 0.316, "mu_cs": 0.307, "e": 0.222}
FINE = {"h": 5e-4, "residual": 1e-5}
SD = {"top": 0.01, "base": 0.01, "c": 0.005, "d": 0.005}


def experiment(stem, seed, **more):
    """Run both tests, and write what was measured of them."""
    rng = np.random.default_rng(seed)
    for energy, speed in ((520, 20.0), (1020, 28.0)):
        with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
            warnings.simplefilter("ignore", tamis.TamisWarning)
            run = find("tamis:nscd.rockfall_wall").run(
                {**TRUTH, **FINE, **more, "speed": speed}, Path(scratch)
            )
        noisy = {
            name: read(run) + SD[name] * rng.standard_normal(len(INSTANTS)) for name, read in POINTS.items()
        }
        written(
            noisy,
            DATA / f"{stem}{energy}.csv",
            "A numerical experiment, not a measurement: see ORIGIN.md.\ninstant 1: init, 2: largest, 3: at rest",
        )
        if not more:
            curves = np.column_stack([run["t"], *(run[name] for name in POINTS)])[::5]
            head = "# The same numerical experiment against time, without errors: see ORIGIN.md.\n"
            head += ",".join(["t [s]", *(f"{name} [m]" for name in POINTS)]) + "\n"
            rows = "\n".join(",".join(f"{x:.5f}" for x in row) for row in curves)
            (DATA / f"curves-{energy}.csv").write_text(head + rows + "\n")


def main():
    experiment("", 20)
    experiment("broken-", 21, strength=1e4)


if __name__ == "__main__":
    main()
