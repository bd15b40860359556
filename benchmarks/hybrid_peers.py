"""The plant by OpenSees for ``hybrid.py``; run by its own interpreter, which needs no tamis.

``python benchmarks/hybrid_peers.py file`` reads the ground acceleration from an ``.npz`` and prints a JSON line: the
displacement of the base at kept instants, and the CPU time of the steps.
"""

from __future__ import annotations

import itertools
import json
import sys
import time

import numpy as np
import openseespy.opensees as ops

M_S, M_I, M_C = 33430.0, 451776.0, 85794.0
K_I, K_C, C_I, C_C = 8.77158e8, 386575.0, 1990680.0, 1821.15
LINKS, MASS, K = 30, 166.267, 5757090.0
K_B, YIELD, ALPHA = 8.704e8, 435.2e3, 1.25e-3


def build(a: np.ndarray, dt: float) -> None:
    ops.wipe()
    ops.model("basic", "-ndm", 1, "-ndf", 1)
    for node, mass in ((0, 0.0), (1, M_S), (2, M_I), (3, M_C)):
        ops.node(node, 0.0)
        if mass:
            ops.mass(node, mass)
    ops.fix(0, 1)
    for i in range(LINKS):
        ops.node(10 + i, 0.0)
        ops.mass(10 + i, MASS)
    omega = 2.0 * np.sqrt(K / MASS) * np.sin(np.pi / (2 * (LINKS + 1)))
    ops.uniaxialMaterial("Steel01", 1, YIELD, K_B, ALPHA)
    for tag, k, c in ((2, K_I, C_I), (3, K_C, C_C), (4, K, 0.04 / omega * K)):
        ops.uniaxialMaterial("Elastic", tag, k, c)
    ends = [1, *range(10, 10 + LINKS), 0]
    springs = [(0, 1, 1), (1, 2, 2), (1, 3, 3)] + [(i, j, 4) for i, j in itertools.pairwise(ends)]
    for number, (i, j, material) in enumerate(springs):
        ops.element("zeroLength", number, i, j, "-mat", material, "-dir", 1, "-doRayleigh", 0)
    ops.timeSeries("Path", 1, "-dt", dt, "-values", *a.tolist())
    ops.pattern("UniformExcitation", 1, 1, "-accel", 1)
    ops.constraints("Plain")
    ops.numberer("RCM")
    ops.system("BandGeneral")
    ops.test("NormDispIncr", 1e-12, 20)
    ops.algorithm("Newton")
    ops.integrator("Newmark", 0.5, 0.25)
    ops.analysis("Transient")


def main() -> None:
    with np.load(sys.argv[1]) as case:
        a, dt, every = case["a"], float(case["dt"]), int(case["every"])
    build(a, dt)
    u = [0.0]
    start = time.process_time()
    for _ in range((len(a) - 1) // every):
        if ops.analyze(every, dt):
            raise SystemExit("OpenSees did not converge")
        u.append(ops.nodeDisp(1, 1))
    print(json.dumps({"u": u, "seconds": time.process_time() - start}))


if __name__ == "__main__":
    main()
