"""Cost of rigid bodies in contact: a struck wall, published problems and poured grains, beside MuJoCo and Siconos.

``python benchmarks/contact.py [--peers PYTHON] [--large] [--plot FILE]`` prints Markdown tables. PYTHON is the
interpreter of an environment with MuJoCo. Siconos is not on PyPI: it is measured if a ``python3`` of the PATH can
import it (Debian: python3-siconos, python3-scipy, python3-h5py). A peer that is missing is named and left out. All
times are CPU times of one thread, after compilation; compare them within one run only.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
os.environ.update(dict.fromkeys(THREADS, "1"))  # before numpy is imported; peers inherit it

import numpy as np  # noqa: E402
from scipy.sparse import csr_matrix  # noqa: E402

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from tests.sim.contact.problems import pile, residuals, stubborn_pile, tower, wall  # noqa: E402

from tamis.sim.common.shapes import Box, Convex  # noqa: E402
from tamis.sim.contact.assembled.solve import assemble, solve_problem, solve_scaled  # noqa: E402
from tamis.sim.contact.solve import provide  # noqa: E402
from tamis.sim.nscd import drive, kernels, layout  # noqa: E402
from tamis.sim.nscd.scene import Scene  # noqa: E402
from tamis.sim.nscd.scenes import rockfall  # noqa: E402
from tamis.sim.nscd.scenes.grains import pour  # noqa: E402

PROBLEMS = ROOT / "tests" / "data" / "contact"
STEP = 1e-3
WHOLE, FIRST = 2.0, 0.2  # s of the wall; only the first for Siconos
WATCHED, INSTANT = "r1_b4", 0.1  # a struck block, and when it is looked at
TOLERANCE = 1e-6
ROUNDS, REPEATS = 3, 5
PILES = 40
SMALL, FEWEST, MOST, QUICK = 60, 4, 60, 0.1  # problems, contacts of them, ms
GRAINS = (200, 600, 2000)
MANY = (20_000,)
POUR_TOLERANCE, RUN_IN_TOLERANCE = 1e-4, 1e-3
FULL = 2.5  # contacts a grain at which the measurement begins
REST, LONGEST = 1.0, 3.0  # s: how much later they lie still, and at most until they have come down
MEASURED, ENOUGH = 30, 25.0  # steps, or fewer once they have taken so many s


def failure(python: str, modules: str) -> str:
    """Return the last line of what goes wrong when an interpreter imports the modules; nothing if all is well."""
    command = [python, "-c", f"import {modules}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip() or f"exit {done.returncode}").splitlines()[-1]


def find_siconos() -> str | None:
    """Return a python3 of the PATH that can import Siconos and what it needs; else say why there is none."""
    reason = "no python3 of the PATH has it (Debian: python3-siconos, python3-scipy, python3-h5py)"
    for folder in os.get_exec_path():
        python = shutil.which("python3", path=folder)
        if python and not failure(python, "siconos"):
            fault = failure(python, "siconos.io.mechanics_run, siconos.numerics, scipy")
            if not fault:
                return python
            reason = f"{python} has it, but {fault}"
    print(f"Siconos: skipped, {reason}.\n")
    return None


def ask(python: str, script: str, *arguments: object, said: str = "") -> list[dict[str, Any]]:
    """Run a peer's script and return the JSON lines it prints, also if it dies halfway."""
    command = [python, str(ROOT / "benchmarks" / script), *map(str, arguments)]
    done = subprocess.run(command, input=said, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{script} ended with {done.returncode}:\n{done.stderr[-2000:]}", file=sys.stderr)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def described(scene: Scene) -> str:
    """Return a scene of boxes, hulls and a horizontal ground as JSON, for programs without tamis."""
    bodies = []
    for body in scene.bodies:
        part = body.parts[0]
        entry: dict[str, Any] = {"name": body.name, "group": part.group, "position": body.position}
        if isinstance(part.shape, Box):
            entry["box"] = part.shape.sides
        elif isinstance(part.shape, Convex):
            entry["points"] = part.shape.points
        if body.responds:
            mass, _, moments, _ = body.inertial()
            entry |= {"mass": mass, "inertia": moments.tolist(), "velocity": body.velocity}
        bodies.append(entry)
    laws = [[law.one, law.other, law.mu, law.e] for law in scene.laws]
    return json.dumps({"bodies": bodies, "laws": laws, "gravity": scene.gravity})


def tamis_wall(duration: float) -> dict[str, Any]:
    """Return CPU ms a step, contacts a step, the largest residual, and how far the watched block went along y."""
    start = time.process_time()
    history = drive.run(rockfall.Wall().scene(), duration, h=STEP, tol=TOLERANCE)
    seconds = time.process_time() - start
    path, solver = history.path(WATCHED)[:, 1], history.solver
    return {
        "name": "tamis",
        "ms": 1e3 * seconds / len(solver.residual),
        "contacts": solver.contacts.mean(),
        "residual": f"{solver.residual.max():.1g}",
        "moved": path[round(INSTANT / STEP)] - path[0],
    }


def struck_wall(mujoco: str | None, siconos: str | None) -> None:
    """Print the cost of the wall, each peer beside tamis over the same time."""
    scene = described(rockfall.Wall().scene())
    tamis_wall(INSTANT)  # compiles
    print(
        f"The dry wall (43 bodies) struck at 20 m/s, h = {1e3 * STEP:g} ms; the least of {ROUNDS} runs taken in turn, "
        "of one run for Siconos.\n"
    )
    print(
        f"| package | s | CPU ms a step | over tamis | contacts | residual | {WATCHED} after {INSTANT:g} s, m |"
    )
    print("|---|---|---|---|---|---|---|")
    overlap = 0.0
    for duration in (WHOLE, FIRST):
        runs: dict[str, list[dict[str, Any]]] = {}
        for turn in range(ROUNDS):
            found = [tamis_wall(duration)]
            if mujoco:
                found += ask(mujoco, "contact_mujoco.py", duration, STEP, WATCHED, INSTANT, said=scene)
            if siconos and duration == FIRST and turn == 0:
                asked = ("wall", duration, STEP, TOLERANCE, WATCHED, INSTANT)
                found += ask(siconos, "contact_siconos.py", *asked, said=scene)
            for run in found:
                runs.setdefault(run["name"], []).append(run)
        own = min(run["ms"] for run in runs["tamis"])
        for name, alike in runs.items():
            run = min(alike, key=lambda run: float(run["ms"]))
            overlap = max(overlap, run.get("overlap", 0.0))
            print(
                f"| {name} | {duration:g} | {run['ms']:.2f} | {run['ms'] / own:.2f} | {run['contacts']:.0f} "
                f"| {run['residual']} | {run['moved']:.3f} |",
                flush=True,
            )
    if mujoco:
        print(
            "\nMuJoCo: Newton's solver, elliptic cones, its other settings as they come. Its contacts are soft and it "
            f"has no law of restitution: bodies overlap by up to {overlap:.2f} m here. It has no such residual."
        )
    if siconos:
        print(
            "\nSiconos: Moreau-Jean with Bullet and NSGS, one Newton iteration a step, as distributed; the first "
            f"{FIRST:g} s only, because it is slow. Its residual is relative to max(|q|, |u|, |r|)."
        )


def read(path: Path) -> tuple[csr_matrix, Any, Any]:
    with np.load(path) as f:
        n = len(f["q"])
        return csr_matrix((f["data"], f["indices"], f["indptr"]), (n, n)), f["q"], f["mu"]


def published(siconos: str | None) -> None:
    """Print cost and residuals of the published problems, beside the fastest solver of Siconos."""
    print(f"\nPublished frictional contact problems from a cold start, tolerance {TOLERANCE:g}.\n")
    print(
        "| problem | contacts | CPU ms | sweeps + direct steps | residuals "
        "| fastest of Siconos | CPU ms | residuals | over tamis |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    paths = sorted(PROBLEMS.glob("*.npz"))
    solve_problem(*read(paths[0]))  # compiles
    solve_problem(*read(PROBLEMS / "boxes_stack.npz"))  # the path too
    ratios = []
    for path in paths:
        W, q, mu = read(path)
        times = []
        for _ in range(REPEATS):
            start = time.process_time()
            r = solve_problem(W, q, mu, TOLERANCE)
            times.append(time.process_time() - start)
        own = 1e3 * min(times)
        told = solve_scaled(assemble(W, q, mu), TOLERANCE)
        local, relative = residuals(W, q, mu, r)
        row = f"| {path.stem} | {len(mu)} | {own:.3g} | {told.sweeps} + {told.steps} | {local:.1g}, {relative:.1g} |"
        tried = ask(siconos, "contact_siconos.py", "problem", path, TOLERANCE, REPEATS) if siconos else []
        solved = [peer for peer in tried if peer["solved"]]
        if solved:
            best = min(solved, key=lambda peer: float(peer["ms"]))
            ratios.append(best["ms"] / own)
            local, relative = residuals(W, q, mu, np.array(best["r"]))
            row += f" {best['name']} | {best['ms']:.3g} | {local:.1g}, {relative:.1g} | {ratios[-1]:.2f} |"
        else:
            row += f" {'none' if siconos else '-'} | - | - | - |"
        print(row, flush=True)
    print("\nResiduals: the dimensionless one of the worst contact; the one relative to max(|q|, |u|, |r|).")
    if ratios:
        print(
            "tamis bounds both and its times include bringing W into blocks; Siconos bounds the second only, is given "
            "its own format, and the fastest of NSGS, ADMM and four forms of NSN_AC is chosen afterwards. "
            f"Over tamis: median {np.median(ratios):.2f}; tamis is the slower on {sum(r < 1.0 for r in ratios)} of "
            f"{len(ratios)}."
        )


def small_problems() -> list[tuple[csr_matrix, Any, Any]]:
    """Return random towers, walls and piles of 4 to 60 contacts."""
    found: list[tuple[csr_matrix, Any, Any]] = []
    seed = 5000
    while len(found) < SMALL:
        rng = np.random.default_rng(seed)
        if seed % 3 == 0:
            W, q = wall(rng, int(rng.integers(2, 4)), int(rng.integers(2, 5)), 10.0 ** rng.uniform(0.0, 2.0))
        elif seed % 3 == 1:
            W, q = pile(rng, int(rng.integers(4, 20)), 10.0 ** rng.uniform(0.0, 2.0))
        else:
            W, q = tower(rng, int(rng.integers(1, 16)), 10.0 ** rng.uniform(0.0, 2.0))
        seed += 1
        n = len(q) // 3
        if FEWEST <= n <= MOST:
            found.append((W, q, np.full(n, rng.uniform(0.2, 0.9))))
    return found


def small(siconos: str | None) -> None:
    """Print what small problems cost, setup and Python included, the slower ones beside the fastest of Siconos."""
    times, slower = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for W, q, mu in small_problems():
            best = math.inf
            for _ in range(3 * REPEATS):
                start = time.process_time()
                solve_problem(W, q, mu, TOLERANCE)
                best = min(best, 1e3 * (time.process_time() - start))
            times.append(best)
            if siconos and best > QUICK:
                file = Path(folder) / "problem.npz"
                np.savez(file, data=W.data, indices=W.indices, indptr=W.indptr, q=q, mu=mu)
                tried = ask(siconos, "contact_siconos.py", "problem", file, TOLERANCE, REPEATS)
                slower += best > min((peer["ms"] for peer in tried if peer["solved"]), default=math.inf)
    print(
        f"\n{SMALL} random problems of {FEWEST} to {MOST} contacts: {np.median(times):.2g} ms in the median, "
        f"{max(times):.2g} at most; {sum(ms <= QUICK for ms in times)} take at most {QUICK:g} ms"
        + (f", of the others {slower} take longer than the fastest of Siconos." if siconos else ".")
    )


def stubborn() -> None:
    """Print how many random piles with much friction and masses far apart are solved, and what they cost."""
    times, left = [], []
    for seed in range(PILES):
        problem = assemble(*stubborn_pile(seed))
        start = time.process_time()
        left.append(solve_scaled(problem, TOLERANCE).residual)
        times.append(1e3 * (time.process_time() - start))
    unsolved = sorted(f"{e:.1g}" for e in left if not e <= TOLERANCE)
    print(
        f"\nRandom piles of 80 to 200 bodies, friction 0.7 to 1.5, masses 1e3 to 1e4 apart: {PILES - len(unsolved)} of "
        f"{PILES} solved to {TOLERANCE:g}, in {np.median(times):.3g} ms in the median. Residuals of the others: "
        f"{', '.join(unsolved) or 'none'}."
    )


class Pile:
    """Grains on the way into their box, stepped with tolerances that change."""

    def __init__(self, grains: int) -> None:
        self.model, state, _ = layout.lay_out(pour(grains=grains), STEP, 1)
        self.size = drive.smallest(self.model)
        self.room = layout.room(self.model, 16 * grains, 16 * grains)
        self.state = layout.grown(state, 16 * grains)

    def run_in(self) -> None:
        """Let the grains fall until they touch as often as in a heap that is still coming down."""
        enough = FULL * len(self.state.x)
        for _ in range(round(LONGEST / (MEASURED * STEP))):
            if self.advance(MEASURED, STEP, RUN_IN_TOLERANCE).active[-1] > enough:
                return
        raise RuntimeError(f"the grains have not come down within {LONGEST:g} s")

    def advance(self, steps: int, h: float, tol: float) -> Any:
        """Take some steps; return what is known of each."""
        kept = layout.record(self.model, steps, steps, 0)
        step, near, touch = 0, drive.MARGIN * self.size, drive.TOUCH * self.size
        rest = np.zeros(len(self.state.x))
        while step < steps:
            status, step, need = kernels.advance(
                self.model,
                self.state,
                self.room,
                kept,
                h,
                0.5,
                tol,
                near,
                touch,
                rest,
                steps + 1,
                1,
                0,
                step,
                steps,
            )
            if status in (kernels.MORE_PAIRS, kernels.MORE_CONTACTS):
                self.room = layout.room(self.model, 2 * need, 2 * need)
                self.state = layout.grown(self.state, 2 * need)
            elif status == kernels.MORE_METHODS:
                provide(need, self.room.solver.methods)
            elif status == kernels.NOT_FINITE:
                raise RuntimeError("the grains' motion is no longer finite")
        return kept.steps


def measured(pile: Pile) -> tuple[float, float, float, int, int, float]:
    """Return CPU ms, contacts and iterations of a step in the mean, steps taken and solved, largest residual."""
    taken: list[tuple[float, ...]] = []
    start, seconds = time.process_time(), 0.0
    while len(taken) < MEASURED and seconds < ENOUGH:
        step = pile.advance(1, STEP, POUR_TOLERANCE)
        taken.append((step.active[0], step.report[0, :4].sum(), step.status[0] == 0, step.residual[0]))
        seconds = time.process_time() - start
    contacts, iterations, solved, residual = np.array(taken).T
    n = len(taken)
    return 1e3 * seconds / n, contacts.mean(), iterations.mean(), n, int(solved.sum()), residual.max()


def draw(rows: list[tuple[int, str, float, float]], exponent: float, path: Path) -> None:
    """Draw CPU time against contacts, one point a heap and state, with the fit of those coming down."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    figure, ax = plt.subplots(figsize=(5.6, 3.6), layout="constrained")
    for state, colour, marker, offset, side in (
        ("coming down", "#8e3b80", "o", (-5, 5), "right"),
        ("at rest", "#00856a", "s", (6, -10), "left"),
    ):
        points = [(contacts, ms, grains) for grains, now, contacts, ms in rows if now == state]
        if not points:
            continue
        x, y, names = zip(*points, strict=True)
        ax.loglog(x, y, marker, color=colour, label=state)
        for at, height, grains in zip(x, y, names, strict=True):
            ax.annotate(
                f"{grains} grains",
                (at, height),
                offset,
                textcoords="offset points",
                ha=side,
                fontsize=8,
            )
        if state == "coming down":
            ends = np.array([min(x), max(x)])
            fit = math.exp(np.mean(np.log(y)) - exponent * np.mean(np.log(x))) * ends**exponent
            ax.loglog(ends, fit, color=colour, lw=1, label=f"contacts to the power {exponent:.2f}")
    ax.set_xlabel("contacts that may carry")
    ax.set_ylabel("CPU time a step, ms")
    ax.margins(0.25, 0.2)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(10))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def poured(sizes: tuple[int, ...], plot: Path | None = None) -> None:
    """Print the cost of a step of grains while they come to rest and afterwards, against the contacts."""
    Pile(20).advance(2, STEP, POUR_TOLERANCE)  # compiles
    print(
        f"\nGrains of twelve faces poured into a box: steps of {1e3 * STEP:g} ms at tolerance {POUR_TOLERANCE:g}; "
        f"coming down: from {FULL:g} contacts a grain on; at rest: {REST:g} s later.\n"
    )
    print("| grains | state | contacts | CPU ms a step | CPU us a contact | iterations | solved | residual |")
    print("|---|---|---|---|---|---|---|---|")
    rows: list[tuple[int, str, float, float]] = []
    for grains in sizes:
        pile = Pile(grains)
        pile.run_in()
        for state in ("coming down", "at rest")[: 1 if grains in MANY else 2]:
            if state == "at rest":
                pile.advance(round(REST / STEP), STEP, RUN_IN_TOLERANCE)
            ms, contacts, iterations, n, solved, residual = measured(pile)
            rows.append((grains, state, contacts, ms))
            print(
                f"| {grains} | {state} | {contacts:.0f} | {ms:.1f} | {1e3 * ms / contacts:.0f} | {iterations:.0f} "
                f"| {solved} of {n} | {residual:.1g} |",
                flush=True,
            )
    costs = [(contacts, ms) for _, state, contacts, ms in rows if state == "coming down"]
    x, y = np.log(np.array(costs)).T
    exponent = np.polyfit(x, y, 1)[0]
    print(
        f"\nThe cost of a step while they come down grows as the contacts to the power {exponent:.2f} "
        f"(fit of {len(costs)} heaps)."
    )
    if plot is not None:
        draw(rows, exponent, plot)


def articulated() -> None:
    """Print the cost of a step of the wall of blocks on bars, struck at two speeds."""
    drive.run(rockfall.ArticulatedWall().scene(), 2 * STEP, h=STEP)  # compiles
    print(
        f"\nThe articulated wall (144 bodies), 1 s, h = {1e3 * STEP:g} ms, residual {TOLERANCE:g}; one run each.\n"
    )
    print("| m/s | holes | CPU ms a step | contacts | steps unsolved | closure of the books | top moved, m |")
    print("|---|---|---|---|---|---|---|")
    for speed in (20.0, 28.0):
        for holes in ("rings", "bores"):
            scene = rockfall.ArticulatedWall(speed=speed, holes=holes).scene()
            start = time.process_time()
            history = drive.run(scene, 1.0, h=STEP, tol=TOLERANCE, record=0.01)
            ms, solver = 1e3 * (time.process_time() - start) / round(1.0 / STEP), history.solver
            top = history.path("r3_05")[:, 0]
            print(
                f"| {speed:g} | {holes} | {ms:.1f} | {solver.contacts.mean():.0f} | {(~solver.converged).sum()} "
                f"| {history.ledger.closure:.1g} | {top[-1] - top[0]:.2f} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", help="interpreter of an environment with MuJoCo")
    parser.add_argument("--large", action="store_true", help="20 000 grains too")
    parser.add_argument("--plot", type=Path, help="draw the cost of grains to this file")
    options = parser.parse_args()
    warnings.simplefilter(
        "ignore"
    )  # energy gained by restitution with friction; unsolved steps are in the tables
    siconos = find_siconos()
    mujoco = options.peers if options.peers and not failure(options.peers, "mujoco") else None
    if mujoco is None:
        print("MuJoCo: skipped, not imported by the interpreter of --peers.\n")
    struck_wall(mujoco, siconos)
    articulated()
    published(siconos)
    small(siconos)
    stubborn()
    poured(GRAINS + (MANY if options.large else ()), options.plot)


if __name__ == "__main__":
    main()
