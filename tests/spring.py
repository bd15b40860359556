"""A spring in a study's folder, and a store filled with its runs: shared by the tests of run stores."""

from __future__ import annotations

from pathlib import Path

from tamis.runs.keys import run_key
from tamis.runs.store import Run, RunStore

STUDY = """
tamis = 1
[model]
simulator = "model.py:spring"
inputs = { law = "soft" }
[parameters]
k = { prior = "uniform", low = 1.0, high = 9.0 }
[[experiment]]
name = "pull"
conditions = { force = 2.0 }
observe = [ { output = "peak", how = "value", data = "pull.csv", y = "peak", noise = { kind = "known", sd = 0.1 } } ]
[design]
method = "lhs"
n = 8
[inference]
n = 50
"""
MODEL = """
import numpy as np
import tamis

@tamis.simulator(
    outputs={"peak": "m", "t": "s", "x": "m"}, inputs={"k": tamis.Port("k", bounds=(0.0, 10.0)),
    "law": tamis.Port("law", choices=("soft", "hard"))},
)
def spring(*, k, force=1.0, n=3, law="hard"):
    if k > 8.0:
        raise tamis.SimulationError(f"stiffness {k} breaks at {force} N")
    t = np.linspace(0.0, 1.0, n)
    return {"peak": force / k, "t": t, "x": force / k * np.sin(t)}
"""


def write_study(folder: Path) -> None:
    """Write the spring, a measurement and a study of it."""
    (folder / "model.py").write_text(MODEL)
    (folder / "study.toml").write_text(STUDY)
    (folder / "pull.csv").write_text("peak\n0.5\n")


POINTS = [{"k": k, "force": f, "n": n} for k in (0.1, 1 / 3, 8.5) for f in (1e-300, 2.0) for n in (1, 4)]


def run_all(simulator, points, root: Path) -> RunStore:
    """Fill a store as a campaign does, without one."""
    store = RunStore(root)
    with store.lock():
        for point in points:
            full = {name: point.get(name, port.default) for name, port in simulator.inputs.items()}
            run = Run(
                run_key(simulator, full), simulator.name, simulator.version, full, "done", 0.1, "", "abc"
            )
            try:
                store.add(run, simulator.run(point, root))
            except Exception as error:
                store.add(Run(**{**vars(run), "status": "failed", "error": str(error)}), None)
    return store


def write(path: Path, *rows: str) -> Path:
    """Write lines to a file in a folder that may be new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(rows) + "\n")
    return path
