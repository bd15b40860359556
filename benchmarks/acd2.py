"""Grains by the A-CD2 method: solvers of the jump beside each other, and what a step costs as grains become many.

``python benchmarks/acd2.py`` prints Markdown: sweeps and CPU time of nine solvers on steps of a gabion that is packed
and comes to rest (the jumps of two seeds, each from the impulses of the step before), and the time of a step and of
its parts for 216 to 21 600 grains, packed gabions side by side in one box, drawn in docs/images/acd2-growth.svg.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Any

os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
)

import numpy as np
from matplotlib.figure import Figure
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array, identity
from scipy.sparse.linalg import splu

from tamis.jit import kernel
from tamis.sim.acd2 import drive, kernels, solver
from tamis.sim.acd2.kernels import Grains, Room, State
from tamis.sim.acd2.packing import grains_of, lattice, scatter
from tamis.sim.acd2.scene import Gabion
from tamis.sim.acd2.stored import packed
from tamis.sim.common.broad import find_pairs
from tamis.sim.common.collide import collide
from tamis.sim.common.geometry import place
from tamis.sim.contact import solve as library
from tamis.sim.contact.assembled.solve import assemble, solve_scaled
from tamis.sim.contact.gauss_seidel import extrapolate, restart_momentum, visit_all
from tamis.sim.contact.problem import Contacts, impose

LIMIT, TOLERANCE = 3000, 1e-4
IMAGE = Path(__file__).parents[1] / "docs" / "images" / "acd2-growth.svg"
PLAIN, OVER, MOMENTUM, CONJUGATE = range(4)
BY_SWEEPS = {
    "Gauss-Seidel": (PLAIN, 0.0),
    "over-relaxation 1.5": (OVER, 1.5),
    "over-relaxation 1.8": (OVER, 1.8),
    "momentum": (MOMENTUM, 0.0),
    "nonlinear conjugate gradients": (CONJUGATE, 0.0),
}
TILES = ((1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4), (5, 5, 4))


@kernel
def by_sweeps(
    contacts: Contacts, free: Any, w: Any, r: Any, k: Any, goal: float, local: Any, last: Any, method: int,
    factor: float, way_r: Any, way_w: Any,
) -> tuple[int, float]:  # fmt: skip
    """Sweep without waiting, what follows a sweep being that of a method; the residual is looked at every 10 sweeps."""
    solver.prepare(contacts, k[0], k[1], local)
    impose(contacts, r, free, w)
    restart_momentum(w, r, last)
    visit_all(local, contacts.mu.size)
    pairs = (
        (r.reshape(-1), last.r.reshape(-1), way_r.reshape(-1)),
        (w.reshape(-1), last.w.reshape(-1), way_w.reshape(-1)),
    )
    momentum, before, count = 0.0, math.inf, 0
    error = solver.residual(contacts, w, r, k[0], k[1], local)
    while not error <= goal and count < LIMIT:
        for _ in range(10):
            count += 1
            if method == MOMENTUM:
                following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
                beta = min(max(momentum - 1.0, 0.0) / following, 0.9)
                momentum = following
                extrapolate(w, last.w, beta)
                extrapolate(r, last.r, beta)
            elif method != PLAIN:
                for now, old, _ in pairs:
                    old[: now.size] = now
            total = solver.sweep(contacts, w, r, k[0], k[1], local, 0.0)[1]
            if method == MOMENTUM and total > 1.1 * before:
                momentum = 1.0
            if method == OVER:
                for now, old, _ in pairs:
                    for i in range(now.size):
                        now[i] = old[i] + factor * (now[i] - old[i])
            if method == CONJUGATE:  # Fletcher & Reeves with restarts (Silcowitz, Niebe & Erleben 2010)
                beta = total / before if before > 0.0 else 0.0
                for now, old, way in pairs:
                    for i in range(now.size):
                        down = now[i] - old[i]
                        if beta <= 1.0:
                            now[i] += beta * way[i]
                            way[i] = beta * way[i] + down
                        else:
                            way[i] = 0.0
                before = total if beta <= 1.0 else math.inf
            else:
                before = total
        impose(contacts, r, free, w)
        error = solver.residual(contacts, w, r, k[0], k[1], local)
    return count, error


def delassus(step: dict[str, Any], rows: int) -> tuple[Any, Any, Any]:
    """Return W = B (2M+K)^-1 B' of ``rows`` a contact, dense, u without impulses, and what makes velocities of p."""
    contacts, free, k = step["contacts"], step["free"], step["k"]
    n, b = len(contacts.mu), len(free)
    body = np.stack([contacts.row_a, contacts.row_b], axis=1)
    columns = 6 * np.repeat(body, 6, axis=1) + np.tile(np.arange(6), 2)
    pointer = 12 * np.arange(3 * n + 1)
    B = csr_array((contacts.G.ravel(), np.repeat(columns, 3, axis=0).ravel(), pointer), shape=(3 * n, 6 * b))
    K = np.tile([k[0], k[1], k[1]], n)
    inverse = splu((identity(6 * b) + B.T @ (B * K[:, None])).tocsc())
    u = (B @ inverse.solve(free.ravel())).reshape(n, 3) + contacts.bias
    some = B if rows == 3 else B[::3]
    return some @ inverse.solve(some.T.toarray()), u[:, :rows].ravel(), (B, inverse, K)


def projected_newton(W: Any, q: Any, x: Any, goal: float) -> tuple[Any, int]:
    """Minimise x'Wx/2 + q'x over x >= 0 (Bertsekas 1982, 10.1137/0320018), to changes of visits below a goal."""
    size, count = np.diag(W), 0
    x, g = np.maximum(x, 0.0), None
    while count < 100:
        g = W @ x + q
        if np.abs(x - np.maximum(x - g / size, 0.0)).max() * size.max() <= goal:
            break
        count += 1
        moves = ~((x <= 1e-12 * x.max(initial=0.0)) & (g > 0.0))
        part = W[np.ix_(moves, moves)] + np.diag(1e-10 * size[moves])  # contacts may be redundant
        way = np.where(moves, 0.0, -g / size)
        way[moves] = -cho_solve(cho_factor(part), g[moves])
        value, pace = 0.5 * x @ (g + q), 1.0
        while pace > 1e-6:
            new = np.maximum(x + pace * way, 0.0)
            if 0.5 * new @ (W @ new) + q @ new <= value + 1e-4 * g @ (new - x):
                break
            pace *= 0.5
        x = new
    return x, count


def by_matrix(method: str, step: dict[str, Any]) -> tuple[int, bool, float] | None:
    """Solve one jump with its matrix; nothing where a method does not know friction."""
    contacts, free, k = step["contacts"], step["free"], step["k"]
    n, b, mu = len(contacts.mu), len(free), contacts.mu
    goal = TOLERANCE * step["speed"]
    rough = bool(mu.max() > 0.0)
    if method == "projected Newton" and rough:
        return None
    start = time.process_time()
    W, q, (B, inverse, K) = delassus(step, 3 if rough else 1)
    p = np.zeros((n, 3))
    if method == "projected Newton":
        p[:, 0], count = projected_newton(W, q, step["start"][:, 0].copy(), goal)
    else:
        if not rough:  # the library's contacts have three rows: tangential ones that nothing couples
            size = np.diag(W)[:, None] * [0.0, 1.0, 1.0]
            W, q = np.kron(W, np.diag([1.0, 0.0, 0.0])) + np.diag(size.ravel()), np.kron(q, [1.0, 0.0, 0.0])
        problem = assemble(csr_array(W), q, mu)
        found = solve_scaled(problem, 0.1 * TOLERANCE)  # its own residual
        p, count = found.x / problem.root[:, None], found.sweeps
    X = inverse.solve(free.ravel() + B.T @ p.ravel())
    r = p - (K * (B @ X)).reshape(n, 3)
    spent = 1e3 * (time.process_time() - start)
    local, last, w = solver.local_arrays(b, n), solver.last_arrays(b, n), free.copy()
    _, error = solver.relax(contacts, free, w, np.ascontiguousarray(r), *k, goal, 0, local, last)
    return count, error <= goal, spent


def solved(method: str, step: dict[str, Any]) -> tuple[int, bool, float] | None:
    """Solve one jump; return the sweeps, whether it converged, and the CPU time in ms."""
    if method in ("assembled", "projected Newton"):
        return by_matrix(method, step)
    contacts, free, r = step["contacts"], step["free"], step["start"].copy()
    n, b, k = len(r), len(free), step["k"]
    w, local, last = free.copy(), solver.local_arrays(b, n), solver.last_arrays(b, n)
    goal = TOLERANCE * step["speed"]
    start = time.process_time()
    if method in BY_SWEEPS:
        how, factor = BY_SWEEPS[method]
        ways = np.zeros_like(r), np.zeros_like(w)
        sweeps, error = by_sweeps(contacts, free, w, r, k, goal, local, last, how, factor, *ways)
    elif method == "solver.py":
        sweeps, error = solver.relax(contacts, free, w, r, *k, goal, LIMIT, local, last)
    else:
        work = library.workspace(b, n)
        start = time.process_time()
        library.solve(contacts, w, r, TOLERANCE, work)
        sweeps = int(work.report[library.SWEEPS])
        spent = time.process_time() - start
        _, error = solver.relax(contacts, free, w, r, 0.0, 0.0, goal, 0, local, last)
        return sweeps, error <= goal, 1e3 * spent
    return sweeps, error <= goal, 1e3 * (time.process_time() - start)


class Scene:
    """Grains in a box of net, step by step."""

    def __init__(self, case: Gabion, shapes: list[Any], x: Any, q: Any, half: Any) -> None:
        self.case, self.b = case, len(shapes)
        n = 64 + 8 * self.b
        self.run = drive._Run(case, grains_of(shapes, case.density), case.volume ** (1.0 / 3.0))
        self.state, self.room = drive.state_of(x, q, 1.0, n), drive.room_of(self.run.grains, 4 * n, n)
        self.state.half[:] = half

    def go(self, steps: int, gravity: float, mu: float, closing: bool = False) -> Any:
        """Take some steps; return their record."""
        record = drive.record_of(self.b, steps, steps)
        half = self.state.half.copy()
        self.state, self.room, _ = self.run.advance(self.state, self.room, record, 0, steps, gravity, mu)
        if not closing:
            self.state.half[:] = half
        return record

    def next_jump(self, gravity: float, mu: float) -> dict[str, Any]:
        """Return the jump of the next step as it begins, the state being left alone."""
        state = State(*(array.copy() for array in self.state))
        record = drive.record_of(self.b, 1, 1)
        case = type(
            "Unsolved", (), {name: getattr(self.case, name) for name in self.case.__dataclass_fields__}
        )
        case.sweeps = 0  # type: ignore[attr-defined]
        run: Any = drive._Run(case, self.run.grains, self.run.size)  # type: ignore[arg-type]
        _, room, _ = run.advance(state, self.room, record, 0, 1, gravity, mu)
        n, c = int(record.counts[0, 0]), room.contacts
        contacts = Contacts(*(array[:n].copy() for array in c))
        free = room.free.copy()
        return {
            "contacts": contacts, "free": free, "start": room.start[:n].copy(),
            "k": np.array([self.case.k_n, self.case.k_t]), "speed": kernels.speed_of(contacts, free),
        }  # fmt: skip


def jumps_of(seed: int) -> dict[str, list[dict[str, Any]]]:
    """Pack a gabion and let it come to rest with and without friction; return jumps of the three stages."""
    case = Gabion(seed=seed)
    rng = np.random.default_rng(seed)
    mean = np.array([case.a, case.b, case.c, case.d])
    shapes = scatter(case.grains, mean, case.dispersion, case.volume, rng)
    x, q, side = lattice(shapes, rng)
    scene = Scene(case, shapes, x, q, 0.5 * side)
    found: dict[str, list[dict[str, Any]]] = {"closing": [], "settling, mu 0.5": [], "settling, mu 0": []}
    count = 0
    while scene.state.half.max() > 0.5 * case.side * (1.0 + 1e-12) and count < 200:
        count += 1
        scene.state.v[:, :3] += case.shake * rng.standard_normal((case.grains, 3))
        if count % 5 == 0 and count > 30:
            found["closing"].append(scene.next_jump(0.0, 0.0))
        scene.go(20, 0.0, 0.0, closing=True)
    closed = State(*(array.copy() for array in scene.state))
    for mu in (0.5, 0.0):
        scene.state = State(*(array.copy() for array in closed))
        for _ in range(8):
            scene.go(40, case.gravity, mu)
            found[f"settling, mu {mu:g}"].append(scene.next_jump(case.gravity, mu))
    return found


def compare() -> None:
    """Print the table of solvers."""
    stages: dict[str, list[dict[str, Any]]] = {}
    for seed in (1, 2):
        for name, jumps in jumps_of(seed).items():
            stages.setdefault(name, []).extend(jumps)
    names = " | ".join(f"{name}: {len(jumps)} jumps" for name, jumps in stages.items())
    print(f"| solver | {names} |\n|---|{'---|' * len(stages)}")
    first = next(iter(stages.values()))[0]
    for method in (*BY_SWEEPS, "solver.py", "sim.contact, no viscosity", "assembled", "projected Newton"):
        solved(method, first)  # compiled
        row = []
        for jumps in stages.values():
            results = [found for jump in jumps if (found := solved(method, jump))]
            if not results:
                row.append("")
                continue
            sweeps, done, spent = (np.array(each) for each in zip(*results, strict=True))
            failed = int((~done).sum())
            row.append(
                f"{np.median(sweeps):.0f}, {sweeps.max()} sweeps; {spent.mean():.1f} ms"
                + (f"; {failed} not converged" if failed else "")
            )
        print(f"| {method} | " + " | ".join(row) + " |", flush=True)


@kernel
def broad(grains: Grains, state: State, room: Room, touch: float) -> int:
    """Place the grains and find their pairs."""
    place(state.x, state.q, grains.geometry, room.world)
    return find_pairs(
        grains.geometry, room.world, grains.meet, grains.responds, touch, room.pairs, room.sweep
    )


@kernel
def narrow(grains: Grains, room: Room, pairs: int, touch: float) -> int:
    """Find the contacts of pairs."""
    return collide(room.pairs, pairs, grains.geometry, room.world, touch, room.found, room.narrow)


@kernel
def net(grains: Grains, state: State, room: Room, mu: float, gravity: float, k: float, h: float) -> float:
    """Clip the grains by the sides of the box."""
    return kernels.load(grains, state, room, mu, gravity, k, h)


def timed(function: Any, *arguments: Any) -> tuple[Any, float]:
    """Return what a compiled function returns and its CPU time in ms, the least of three."""
    times = []
    for _ in range(4):
        start = time.process_time()
        found = function(*arguments)
        times.append(time.process_time() - start)
    return found, 1e3 * min(times[1:])


def grow() -> None:
    """Print what a step costs, as grains become many, and draw it."""
    costs: list[tuple[float, ...]] = []
    case = Gabion(seed=1)
    shapes, x, q = packed(case)
    print(
        "\n| grains | contacts | ms a step | sweeps | broad phase | narrow phase | net | jump | us a contact |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for tiles in TILES:
        at = np.stack(np.meshgrid(*map(np.arange, tiles), indexing="ij"), axis=-1).reshape(-1, 3)
        at = (at - 0.5 * (np.array(tiles) - 1)) * (case.side + 0.003)
        many = np.concatenate([x + centre for centre in at])
        scene = Scene(
            case,
            shapes * len(at),
            many,
            np.tile(q, (len(at), 1)),
            0.5 * np.array(tiles) * (case.side + 0.003),
        )
        rng = np.random.default_rng(0)
        scene.go(20, case.gravity, case.mu)
        scene.state.v[:, :3] += 0.05 * rng.standard_normal((scene.b, 3))
        start = time.process_time()
        record = scene.go(20, case.gravity, case.mu)
        spent = 1e3 * (time.process_time() - start) / 20
        grains, touch = scene.run.grains, drive.TOUCH * scene.run.size
        pairs, first = timed(broad, grains, scene.state, scene.room, touch)
        _, second = timed(narrow, grains, scene.room, pairs, touch)
        _, third = timed(net, grains, scene.state, scene.room, case.mu, case.gravity, case.k_net, case.dt)
        contacts, sweeps = record.counts.mean(axis=0)
        rest = spent - first - second - third
        costs.append((scene.b, spent, first, second, third, rest))
        print(
            f"| {scene.b} | {contacts:.0f} | {spent:.1f} | {sweeps:.0f} | {first:.2f} | {second:.2f} | {third:.2f} | "
            f"{rest:.1f} | {1e3 * spent / contacts:.1f} |",
            flush=True,
        )
    grains, *parts = np.array(costs).T
    figure = Figure(figsize=(5.5, 4.0), layout="constrained")
    ax = figure.subplots()
    names = ("a step", "broad phase", "narrow phase", "net", "jump")
    for name, part in zip(names, parts, strict=True):
        ax.loglog(grains, part, "o-", lw=2.0 if name == "a step" else 1.0, ms=4, label=name)
    ax.loglog(grains, parts[0][0] * grains / grains[0], ":", color="0.5", label="in proportion to the grains")
    ax.set(xlabel="grains", ylabel="CPU time of a step [ms]")
    ax.legend(fontsize=8)
    figure.savefig(IMAGE)


if __name__ == "__main__":
    compare()
    grow()
