"""The heated frame by OpenSeesPy for ``fire.py``; run by its own interpreter, which needs no tamis.

``python benchmarks/fire_peers.py bays storeys`` prints a JSON line: temperatures, displacements of the first-floor
corner, of the middle of the first beam and of the roof, where it ended, and CPU seconds. Corotational beams,
six a member, two Gauss points, 20 fibres, steel of EN 1993-1-2, steps of 5 C halved where they do not converge.
"""

from __future__ import annotations

import itertools
import json
import sys
import time

import openseespy.opensees as ops

SPAN, HEIGHT, LOAD, LATERAL, N = 5.0, 3.5, 15e3, 2e3, 6
SECTIONS = {1: (0.180, 0.180, 0.014, 0.0085), 2: (0.270, 0.135, 0.0102, 0.0066)}


def build(bays: int, storeys: int) -> tuple[list[tuple[int, int]], dict[str, tuple[int, int]]]:
    ops.wipe()
    ops.model("basic", "-ndm", 2, "-ndf", 3)
    ops.uniaxialMaterial("Steel01Thermal", 1, 235e6, 210e9, 0.0)
    for tag, (depth, width, flange, web) in SECTIONS.items():
        ops.section("FiberThermal", tag)
        half, inside = 0.5 * depth, 0.5 * depth - flange
        ops.patch("rect", 1, 4, 1, -half, -0.5 * width, -inside, 0.5 * width)
        ops.patch("rect", 1, 12, 1, -inside, -0.5 * web, inside, 0.5 * web)
        ops.patch("rect", 1, 4, 1, inside, -0.5 * width, half, 0.5 * width)
        ops.beamIntegration("Legendre", tag, tag, 2)
    ops.geomTransf("Corotational", 1)
    count = [0, 0]
    joints = {}

    def node(x: float, y: float) -> int:
        count[0] += 1
        ops.node(count[0], x, y)
        return count[0]

    def member(a: int, b: int, section: int) -> tuple[list[int], list[int]]:
        (xa, ya), (xb, yb) = ops.nodeCoord(a), ops.nodeCoord(b)
        nodes = [a, *(node(xa + k / N * (xb - xa), ya + k / N * (yb - ya)) for k in range(1, N)), b]
        elements = []
        for i, j in itertools.pairwise(nodes):
            count[1] += 1
            ops.element("dispBeamColumnThermal", count[1], i, j, 1, section)
            elements.append(count[1])
        return nodes, elements

    for j in range(storeys + 1):
        for i in range(bays + 1):
            joints[i, j] = node(i * SPAN, j * HEIGHT)
            if j == 0:
                ops.fix(joints[i, j], 1, 1, 1)
    heated, middle = [], 0
    ops.timeSeries("Linear", 1)
    ops.pattern("Plain", 1, 1)
    for i in range(bays + 1):
        for j in range(storeys):
            _, elements = member(joints[i, j], joints[i, j + 1], 1)
            heated += [(e, 1) for e in elements] if j == 0 else []
    for j in range(1, storeys + 1):
        for i in range(bays):
            nodes, elements = member(joints[i, j], joints[i + 1, j], 2)
            heated += [(e, 2) for e in elements] if j == 1 else []
            middle = nodes[N // 2] if (i, j) == (0, 1) else middle
            for k, n in enumerate(nodes):
                ops.load(n, 0.0, -LOAD * SPAN / N * (0.5 if k in (0, N) else 1.0), 0.0)
        ops.load(joints[0, j], LATERAL, 0.0, 0.0)
    looked = {"corner_ux": (joints[0, 1], 1), "mid_beam_uy": (middle, 2), "roof_ux": (joints[0, storeys], 1)}
    return heated, looked


def analysis(step: float) -> None:
    ops.constraints("Plain")
    ops.numberer("RCM")
    ops.system("BandGeneral")
    ops.test("NormUnbalance", 1e-3, 60)
    ops.algorithm("Newton")
    ops.integrator("LoadControl", step)
    ops.analysis("Static")


def main() -> None:
    bays, storeys = map(int, sys.argv[1:3])
    heated, looked = build(bays, storeys)
    start = time.process_time()
    analysis(0.1)
    assert ops.analyze(10) == 0
    ops.loadConst("-time", 0.0)
    ops.timeSeries("Linear", 2)
    ops.pattern("Plain", 2, 2)
    for element, section in heated:
        half = 0.5 * SECTIONS[section][0]
        ops.eleLoad("-ele", element, "-type", "-beamThermal", 1000.0, -half, 1000.0, half)
    rows, rise, step = [], 0.0, 5.0  # what it is given is the temperature; below 20 C nothing happens
    while rise < 1000.0:
        analysis(step / 1000.0)
        if ops.analyze(1) != 0:
            step *= 0.5
            if step < 0.02:
                break
            continue
        rise += step
        rows.append([rise, *(ops.nodeDisp(*place) for place in looked.values())])
    columns = list(map(list, zip(*rows, strict=True)))
    names = ["temperature", *looked]
    out = dict(zip(names, columns, strict=True))
    print(json.dumps({**out, "failure": rise, "seconds": time.process_time() - start}))


if __name__ == "__main__":
    main()
