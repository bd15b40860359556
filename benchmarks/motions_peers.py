"""Response spectra of other packages for ``motions.py``; run by their own interpreter, which needs no tamis.

``python benchmarks/motions_peers.py package file`` reads a motion and periods from an ``.npz`` and prints a JSON line:
pseudo-accelerations at 5 % damping, and the least CPU time of five.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np


def with_pyrotd(a, dt, periods):
    import pyrotd

    followed = np.append(a, np.zeros(int(80.0 / dt)))
    found = pyrotd.calc_spec_accels(dt, followed, 1.0 / periods, 0.05, osc_type="psa")
    return found.spec_accel


def with_eqsig(a, dt, periods):
    from eqsig import sdof

    return sdof.pseudo_response_spectra(a, dt, periods, 0.05)[2]


PACKAGES = {"pyrotd": with_pyrotd, "eqsig": with_eqsig}


def main() -> None:
    package, path = sys.argv[1:3]
    warnings.simplefilter("ignore")
    with np.load(path) as case:
        a, dt, periods = case["a"], float(case["dt"]), case["periods"]
    took = []
    for _ in range(5):
        start = time.process_time()
        spectrum = PACKAGES[package](a, dt, periods)
        took.append(time.process_time() - start)
    print(json.dumps({"spectrum": np.asarray(spectrum).tolist(), "seconds": min(took)}))


if __name__ == "__main__":
    main()
