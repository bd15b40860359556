"""The same scene and the same problems in Siconos; run by a python3 that has it, which needs no tamis.

``python3 benchmarks/contact_siconos.py wall seconds step tolerance block instant < scene.json`` prints one JSON line:
CPU ms a step, contacts a step, the largest residual as Siconos defines it, and how far the block went along y by the
instant. ``python3 benchmarks/contact_siconos.py problem file.npz tolerance repeats`` prints one for each solver: CPU
ms (the least of the repeats, cold starts), whether it was solved, and the impulses.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import siconos.numerics as sn
from scipy.sparse import bsr_matrix, csr_matrix

MOST = {"NSGS": 10_000, "NSN_AC": 100, "ADMM": 3000}  # iterations
FORMS = ("ALARTCURNIER_STD", "ALARTCURNIER_GENERATED", "JEANMOREAU_STD", "JEANMOREAU_GENERATED")
LONG = 0.1  # s, not repeated
SMALL = 100  # contacts up to which dense matrices are tried too: often faster there, hopeless beyond
SLAB = (100.0, 100.0, 2.0)  # m, stands for the half-space


def options_of(make, name: str, tolerance: float):
    options = make(getattr(sn, f"SICONOS_FRICTION_3D_{name}"))
    options.dparam[sn.SICONOS_DPARAM_TOL] = tolerance
    options.iparam[sn.SICONOS_IPARAM_MAX_ITER] = MOST[name]
    if name == "NSGS":
        full = sn.SICONOS_FRICTION_3D_NSGS_ERROR_EVALUATION_FULL
        options.iparam[sn.SICONOS_FRICTION_3D_IPARAM_ERROR_EVALUATION] = full
    return options


class Clock:
    """Called by Siconos before and after each step."""

    def __init__(self, look: int) -> None:
        self.block, self.look = None, look
        self.steps, self.contacts, self.residual = 0, 0, 0.0
        self.seconds, self.origin, self.moved = 0.0, 0.0, 0.0

    def before(self, runner) -> None:
        if self.steps == 0:
            self.origin = self.position()
        self.started = time.process_time()

    def after(self, runner) -> None:
        self.seconds += time.process_time() - self.started
        self.steps += 1
        problem = runner._simulation.oneStepNSProblem(0)
        self.contacts += problem.getSizeOutput() // 3
        self.residual = max(self.residual, problem.numericsSolverOptions().dparam[sn.SICONOS_DPARAM_RESIDU])
        if self.steps == self.look:
            self.moved = self.position() - self.origin

    def position(self) -> float:
        return float(self.block.q()[1])


def wall(duration: float, step: float, tolerance: float, block: str, instant: float) -> None:
    from siconos.io.mechanics_run import MechanicsHdf5Runner
    from siconos.kernel import solver_options_create
    from siconos.mechanics.collision.tools import Contactor

    scene = json.load(sys.stdin)
    groups = sorted({entry["group"] for entry in scene["bodies"]})
    clock = Clock(round(instant / step))
    place = next(entry["position"] for entry in scene["bodies"] if entry["name"] == block)

    def weigh(body) -> None:
        if np.allclose(body.q()[:3], place):
            clock.block = body
        body.setFExtPtr([body.scalarMass() * g for g in scene["gravity"]])

    with tempfile.TemporaryDirectory() as folder:
        with MechanicsHdf5Runner(str(Path(folder) / "wall.hdf5"), verbose=False) as io:
            for entry in scene["bodies"]:
                name, position = entry["name"], list(entry["position"])
                if "points" in entry:
                    io.add_convex_shape(name, entry["points"], insideMargin=0.0)
                else:
                    io.add_primitive_shape(name, "Box", entry.get("box", SLAB))
                if "mass" not in entry:
                    position[2] -= 0.5 * SLAB[2]
                contactor = Contactor(name, collision_group=groups.index(entry["group"]))
                io.add_object(
                    name,
                    [contactor],
                    position,
                    velocity=[*entry.get("velocity", (0, 0, 0)), 0, 0, 0],
                    mass=entry.get("mass"),
                    inertia=entry.get("inertia"),
                )
            for one, other, mu, e in scene["laws"]:
                io.add_Newton_impact_friction_nsl(
                    f"{one}-{other}",
                    mu=mu,
                    e=e,
                    collision_group1=groups.index(one),
                    collision_group2=groups.index(other),
                )
        with MechanicsHdf5Runner(str(Path(folder) / "wall.hdf5"), mode="r+", verbose=False) as io:
            io.run(
                t0=0,
                T=duration,
                h=step,
                theta=0.5,
                Newton_max_iter=1,
                set_external_forces=weigh,
                solver_options=options_of(solver_options_create, "NSGS", tolerance),
                verbose=False,
                verbose_progress=False,
                output_frequency=10**9,
                start_run_iteration_hook=clock.before,
                end_run_iteration_hook=clock.after,
            )
    told = {
        "name": "Siconos",
        "ms": 1e3 * clock.seconds / clock.steps,
        "contacts": clock.contacts / clock.steps,
    }
    print(
        json.dumps(told | {"residual": f"{clock.residual:.1g}", "moved": clock.moved, "steps": clock.steps})
    )


def written(W: csr_matrix, q: np.ndarray, mu: np.ndarray, folder: str) -> str:
    """Write a problem as Siconos reads it, in sparse blocks, which are column-major; return the file."""
    W = bsr_matrix(W, blocksize=(3, 3))
    W.sort_indices()
    n, size, count = len(mu), len(q), len(W.indices)
    ends = 3 * np.arange(1, n + 1)
    head = [3, n, 1, size, size, count, n, n, *ends, *ends, n + 1, count, *W.indptr, *W.indices]
    lines = [" ".join(map(str, head))]
    for k, block in enumerate(W.data):
        lines.append(f"{k} " + " ".join(map(repr, block.T.ravel().tolist())))
    lines += [" ".join(map(repr, values.tolist())) for values in (q, mu)]
    file = Path(folder) / "problem.dat"
    file.write_text("\n".join(lines) + "\n")
    return str(file)


def variants(contacts: int) -> list[tuple[str, str, bool]]:
    """Return solver, formulation of Newton's function, and whether the matrix is dense."""
    tried = [("NSGS", "", False)]
    for dense in (False, True)[: 2 if contacts <= SMALL else 1]:
        tried += [("ADMM", "", dense), *(("NSN_AC", form, dense) for form in FORMS)]
    return tried


def problem(path: str, tolerance: float, repeats: int) -> None:
    with np.load(path) as f:
        W, q, mu = csr_matrix((f["data"], f["indices"], f["indptr"])), f["q"], f["mu"]
    full = W.toarray()
    with tempfile.TemporaryDirectory() as folder:
        file = written(W, q, mu, folder)
        for solver, form, dense in variants(len(mu)):
            times = []
            while len(times) < repeats and max(times, default=0.0) < LONG:
                if dense:
                    given = sn.FrictionContactProblem(3, len(mu), full, q, mu)
                else:
                    given = sn.frictionContactProblemFromFile(file)
                options = options_of(sn.SolverOptions, solver, tolerance)
                if form:
                    chosen = getattr(sn, f"SICONOS_FRICTION_3D_NSN_FORMULATION_{form}")
                    options.iparam[sn.SICONOS_FRICTION_3D_NSN_FORMULATION] = chosen
                r, u = np.zeros(len(q)), np.zeros(len(q))
                start = time.process_time()
                sn.fc3d_driver(given, r, u, options)
                times.append(time.process_time() - start)
            solved = bool(options.dparam[sn.SICONOS_DPARAM_RESIDU] <= tolerance)
            name = " ".join(word for word in (solver, form, "dense" if dense else "") if word)
            told = {"name": name, "ms": 1e3 * min(times), "solved": solved, "r": r.tolist()}
            print(json.dumps(told), flush=True)


def main() -> None:
    if sys.argv[1] == "wall":
        duration, step, tolerance = map(float, sys.argv[2:5])
        wall(duration, step, tolerance, sys.argv[5], float(sys.argv[6]))
    else:
        problem(sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))


if __name__ == "__main__":
    main()
