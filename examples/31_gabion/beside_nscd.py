"""Strike the same wall by the A-CD2 method and by `nscd`: what the law of contact changes, and what the code does not.

`python beside_nscd.py` strikes once, at 100 % of the energy, the wall of nine gabions of the defaults, from the same
packings in the same places, and draws beside_nscd.png: by the printed law (next to no friction), by the A-CD2 method
with friction of 0.5 and no viscosity, whose jump is that of nscd, and by nscd with friction of 0.5, restitution 0.

nscd knows no nets and no sand. They are forces here, taken at the start of each step: the boxes go to where their
forces balance (Newton's method along each axis). That is explicit, and steps are 5e-5 s for that reason: a face on a
net of 1e11 N/m3 is stable below 1.1e-4 s. `python beside_nscd.py across=1 high=1 packings=1` takes other inputs.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tamis.jit import kernel
from tamis.sim.acd2 import wall
from tamis.sim.acd2.net import hold
from tamis.sim.acd2.scene import GabionWall
from tamis.sim.acd2.striking import stand
from tamis.sim.common.geometry import place
from tamis.sim.common.rotations import matrices
from tamis.sim.common.shapes import HalfSpace, Sphere
from tamis.sim.contact import solve
from tamis.sim.nscd import Body, Law, Part, Scene, kernels, layout
from tamis.sim.nscd.drive import MARGIN, TOUCH, smallest

HERE = Path(__file__).parent
H, MU, TOLERANCE = 5e-5, 0.5, 1e-3
LAWS = {
    "A-CD2, printed law": {"mu": 0.0},
    "A-CD2, friction 0.5": {"mu": MU, "k_n": 0.0, "k_t": 0.0, "dt": 1e-4},
}


@kernel
def nets(geometry, world, x, q, gabion, box, half, k_net, force, stiff, pull):
    """Write the nets' forces on the grains, and the sums and stiffnesses of each net."""
    H, push = np.zeros((6, 6)), np.zeros(6)
    place(x, q, geometry, world)
    force[:], stiff[:], pull[:] = 0.0, 0.0, 0.0
    for i in range(len(x)):
        g = gabion[i]
        if g >= 0:
            H[:] = 0.0
            hold(geometry, world, i, q[i], box[g], half, k_net, force[i], H, push)
            for axis in range(3):
                stiff[g, axis] += H[axis, axis]
                pull[g, axis] += force[i, axis]


class Nscd:
    """The wall as a scene of nscd, and the nets and the sand that act on it from step to step."""

    def __init__(self, case: GabionWall, steps: int) -> None:
        self.case, self.built = case, wall.build(case)
        start, grains = self.built.state, range(len(self.built.shapes))
        bodies = [
            Body("ball", [Part(Sphere(0.5 * case.ball_diameter))], mass=case.ball_mass, position=(0, -3, 3))
        ]
        for i in grains:
            at, q = start.x[1 + i].tolist(), start.q[1 + i].tolist()
            shape = [Part(self.built.shapes[i])]
            bodies.append(Body(f"grain {i:06d}", shape, density=case.density, position=at, orientation=q))
        for k in range(len(grains) + 1, len(start.x)):
            plane = [Part(HalfSpace(), group="ground")]
            at, q = start.x[k].tolist(), start.q[k].tolist()
            bodies.append(Body(f"plane {k}", plane, fixed=True, position=at, orientation=q))
        laws = [Law("ground", "default", MU, 0.0), Law("default", "default", MU, 0.0)]
        scene = Scene(bodies, laws, gravity=(0.0, 0.0, -case.gravity))
        self.model, self.state, _ = layout.lay_out(scene, H, steps)
        self.weight = self.model.bodies.force.copy()
        self.weight[0] = 0.0
        self.room = layout.room(self.model, 40_000, 20_000)
        self.state = layout.grown(self.state, 20_000)
        self.kept, self.done = layout.record(self.model, steps, steps, 0), 0
        w = self.built.wall
        self.box, self.rest = w.box.copy(), self.state.x[:, 1].copy()
        self.stiff, self.pull, self.force = w.stiff.copy(), w.pull.copy(), np.zeros_like(self.weight)
        self.signals = np.zeros(
            (steps, 4)
        )  # central force, force, mean way of the central back, speed of the ball

    def load(self) -> None:
        """Write the forces of nets and sand."""
        w, x, q = self.built.wall, self.state.x, self.state.q
        geometry, world = self.model.geometry, self.room.detection.world
        for _ in range(20):
            nets(
                geometry,
                world,
                x,
                q,
                w.gabion,
                self.box,
                w.half,
                self.case.k_net,
                self.force,
                self.stiff,
                self.pull,
            )
            if np.abs(self.pull).max() < 1.0:  # N, of some 1e5
                break
            self.box -= np.where(self.stiff > 0.0, self.pull / np.maximum(self.stiff, 1.0), 0.0)
        self.force[:, 3:] = np.einsum("bij,bj->bi", matrices(q), self.force[:, 3:])  # to space axes
        sand = -self.case.k_ww * np.maximum(x[:, 1] - self.rest, 0.0) * (w.sensor >= 0)
        self.force[:, 1] += sand
        self.model.bodies.force[:] = self.weight + self.force
        central = (w.sensor >= 0) & (w.sensor < 4)
        way = (x[:, 1] - self.rest)[central].mean()
        self.signals[self.done] = -sand[central].sum(), -sand.sum(), way, self.state.v[0, 1]

    def go(self, steps: int) -> None:
        size, limit = smallest(self.model), np.zeros(len(self.weight))
        for _ in range(steps):
            self.load()
            while True:
                status, _, need = kernels.advance(
                    self.model, self.state, self.room, self.kept, H, 0.5, TOLERANCE, MARGIN * size, TOUCH * size,
                    limit, 10**9, 1, 0, self.done, self.done + 1,
                )  # fmt: skip
                if status == kernels.DONE:
                    break
                if status == kernels.MORE_METHODS:
                    solve.provide(need, self.room.solver.methods)
                else:
                    raise RuntimeError(f"step {self.done}: status {status}, {need}")
            self.done += 1


def by_nscd(case: GabionWall) -> dict[str, np.ndarray]:
    """Settle and strike the wall by nscd."""
    before, each = round(case.settling / H), round(case.duration / H)
    run = Nscd(case, before + each)
    run.go(before)
    x, q = run.state.x[1:], run.state.q[1:]
    shapes = run.built.shapes
    places = zip(x, matrices(q), shapes, strict=False)
    corners = np.concatenate([at + np.asarray(shape.points) @ R.T for at, R, shape in places])
    middle = np.array([0.0, 0.0, 0.5 * case.high * (case.side + case.gap)])
    run.state.x[0] = stand(corners, middle, 1, 1.0, 0.5 * case.ball_diameter)
    run.state.v[0] = 0.0
    run.state.v[0, 1] = np.sqrt(2.0 * case.energy_1 / case.ball_mass)
    run.rest[:] = run.state.x[:, 1]
    run.go(each)
    central, force, back, speed = run.signals[before:].T
    steps = run.kept.steps
    return {
        "t": H * np.arange(each), "central": central, "force": force, "back": back, "ball_speed": speed,
        "contacts": steps.active[before:], "residual": steps.residual[before:],
    }  # fmt: skip


def by_acd2(case: GabionWall) -> dict[str, np.ndarray]:
    found = wall.simulate_wall(case)
    central = sum(found[name] for name in wall.SENSORS)
    names = ("t", "force", "back", "ball_speed", "contacts", "residual")
    return {"central": central, **{name: found[name] for name in names}}


def main() -> None:
    """Run what is not kept in beside_nscd.npz yet, print the peaks, draw the figure."""
    given = {k: float(v) if "." in v or "e" in v else int(v) for k, v in (a.split("=") for a in sys.argv[1:])}
    inputs = {"energy_1": 10202.4, "energy_2": 0.0, "settling": 0.05, **given}
    runs = {}
    for name, law in LAWS.items():
        start = time.process_time()
        runs[name] = by_acd2(GabionWall(**inputs, **law))
        print(f"{name}: {time.process_time() - start:.0f} CPU s", flush=True)
    start = time.process_time()
    runs["nscd, friction 0.5"] = by_nscd(GabionWall(**inputs))
    print(f"nscd, friction 0.5: {time.process_time() - start:.0f} CPU s", flush=True)
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    axes = figure.subplots(1, 3)
    panels = (("central", 1e3, "force behind the central gabion [kN]"), ("back", 1e-2, "its back, mean way [cm]"),
              ("ball_speed", 1.0, "velocity of the ball [m/s]"))  # fmt: skip
    print(
        "| | force behind the central gabion | behind the wall | back | ball after 10 ms, at the end | contacts |"
    )
    print("|---|---|---|---|---|---|")
    for name, run in runs.items():
        for ax, (key, unit, label) in zip(axes, panels, strict=True):
            ax.plot(1e3 * run["t"], run[key] / unit, lw=1.0, label=name)
            ax.set(xlabel="ms", ylabel=label)
        at = np.searchsorted(run["t"], 0.01)
        low, high = np.percentile(run["contacts"][len(run["t"]) // 10 :], [5, 95])
        print(
            f"| {name} | {run['central'].max() / 1e3:.1f} kN | {run['force'].max() / 1e3:.1f} kN | "
            f"{100 * run['back'].max():.1f} cm | {run['ball_speed'][at]:.2f}, {run['ball_speed'][-1]:.2f} m/s | "
            f"{low:.0f} to {high:.0f} |"
        )
    axes[2].legend(fontsize=8)
    figure.savefig(HERE / "beside_nscd.png", dpi=130)


if __name__ == "__main__":
    main()
