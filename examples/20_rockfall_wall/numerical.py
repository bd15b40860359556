"""The numerical experiment that stands in for the measured curves: made once, its files are in data/.

The wall of the studies, at the parameters of Table 5 'all', in half their time step and to a tenth of their residual;
each displacement gets an error of its own, 0.01 m on the impact axis and 0.005 m on the distant one. A second one, of
the same wall whose struck blocks break, is what `breaking.py` weighs the two by (files broken-*.csv).
"""

import numpy as np
from impacts import ALL, HERE, plainly, run
from instants import POINTS, written, written_curves
from observe import INSTANTS

DATA = HERE / "data"
FINE = {"h": 5e-4, "residual": 1e-5}
SD = {"top": 0.01, "base": 0.01, "c": 0.005, "d": 0.005}


def experiment(stem, seed, **more):
    """Run both tests, and write what was measured of them."""
    rng = np.random.default_rng(seed)
    for energy, speed in ((520, 20.0), (1020, 28.0)):
        found = run({**ALL, **FINE, **more, "speed": speed})
        noisy = {
            name: read(found) + SD[name] * rng.standard_normal(len(INSTANTS)) for name, read in POINTS.items()
        }
        written(
            noisy,
            DATA / f"{stem}{energy}.csv",
            "A numerical experiment, not a measurement: see ORIGIN.md.\ninstant 1: init, 2: largest, 3: at rest",
        )
        if not more:
            curves = {name: found[name][::5] for name in ("t", *POINTS)}
            comment = "The same numerical experiment against time, without errors: see ORIGIN.md."
            written_curves(curves, DATA / f"curves-{energy}.csv", comment)


def main():
    experiment("", 20)
    experiment("broken-", 21, strength=1e4)


if __name__ == "__main__":
    plainly(main)
