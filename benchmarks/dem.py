"""Cost of soft disks: a dense silo and a box of 73, beside LAMMPS and LIGGGHTS, and how it scales.

``python benchmarks/dem.py [--large] [--plot FILE]`` prints Markdown tables. LAMMPS (``lmp``) and LIGGGHTS
(``liggghts``) are measured if they are on the PATH (Debian packages of these names); one that is missing is named and
left out. All get the same grains at the same places, the same walls, time step, skin and law: Hertz, damping with the
root of the overlap (M2), a tangential spring with history. Times are CPU times of one thread, after compilation and
without setting up (two lengths of a run are subtracted); compare them within one run only. ``--large`` adds 100 000
and a million grains.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import numpy as np

from tamis.sim.dem.disks import cells
from tamis.sim.dem.disks.drive import Disks
from tamis.sim.dem.disks.laws import Kind, Law
from tamis.sim.dem.disks.nut import BrazilNut
from tamis.sim.dem.disks.scene import Scene, Wall

M2 = Law(0.1039, 9.03e4, 0.5, 1.234e8, softening=1000.0)
M3 = Law(0.1038, 7.53e4, 0.46, 1.232e8, softening=1000.0)
GRAIN = Kind(0.001)
STEPS = {16_000: 2000, 73: 200_000}
SETTLING = 60_000  # steps of the silo
ROUNDS = 3
PRESSED = 24  # steps of grains that are pressed together, before they fly apart


def packed(columns: int, rows: int, law: Law, d: float = 2 * GRAIN.radius) -> Scene:
    """Return grains that nearly touch, on a triangular lattice between three walls."""
    number = np.arange(columns * rows)
    row, column = number // columns, number % columns
    shift = np.random.default_rng(0).uniform(-4e-4, 4e-4, len(number))
    x = (column + 0.52 + 0.5 * (row % 2)) * 1.002 * d + shift * d
    y = d * (0.505 + row * 1.003 * math.sqrt(3) / 2)
    width, height = (columns + 0.55) * 1.002 * d, 1.2 * rows * d
    walls = (
        Wall((0.0, 0.0), (width, 0.0)),
        Wall((0.0, 0.0), (0.0, height)),
        Wall((width, 0.0), (width, height)),
    )
    return Scene(
        law,
        (Kind(0.5 * d),),
        np.zeros(len(number), dtype=np.int32),
        np.stack([x, y], axis=1),
        walls=walls,
        domain=(-width, 2 * width, -height, 2 * height),
        speed=0.5,
    )


def speed(disks: Disks, steps: int) -> float:
    """Particle-steps in a second of CPU, the best of a few rounds."""
    best = 0.0
    for _ in range(ROUNDS):
        before, start = disks.particle_steps, time.process_time()
        disks.advance(steps // ROUNDS)
        best = max(best, (disks.particle_steps - before) / (time.process_time() - start))
    return best


def settled(scene: Scene, steps: int) -> Disks:
    """Let grains come to rest."""
    disks = Disks(scene)
    disks.advance(steps, drag=200.0)
    return disks


def child_seconds(command: list[str], folder: Path) -> float:
    """CPU seconds of a program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{command[0]} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-1500:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def data_file(disks: Disks, path: Path) -> None:
    """Write grains for LAMMPS or LIGGGHTS: number, type, diameter, density, place."""
    width = disks.scene.walls[0].end[0]
    high = float(disks.places()[:, 1].max()) + 0.1
    rows = [
        f"{i + 1} 1 {2 * r:.17g} {GRAIN.density:.17g} {x:.17g} {y:.17g} 0.0"
        for i, ((x, y), r) in enumerate(zip(disks.places(), disks.scene.radii, strict=True))
    ]
    pad = 0.01 * width
    head = [
        "grains",
        "",
        f"{len(rows)} atoms",
        "1 atom types",
        "",
        f"{-pad:.17g} {width + pad:.17g} xlo xhi",
        f"{-pad:.17g} {high:.17g} ylo yhi",
        "-0.001 0.001 zlo zhi",
    ]
    path.write_text("\n".join([*head, "", "Atoms", "", *rows, ""]))


def peer_script(name: str, disks: Disks, steps: int) -> str:
    """Return what LAMMPS or LIGGGHTS is asked for."""
    scene, width = disks.scene, disks.scene.walls[0].end[0]
    kind = scene.kinds[0]
    pair = scene.law.between(kind, kind)
    root = math.sqrt(0.5 * kind.radius)
    k_n, gamma, k_t = pair.k_n / root, pair.gamma / (pair.mass * root), 0.8 * pair.k_n / root
    planes = [("xplane", 0.0), ("xplane", width), ("yplane", 0.0)]
    lines = ["units si", "dimension 2", "newton off", "boundary f f p", "atom_modify map array"]
    if name == "LAMMPS":
        law = f"hertz/history {k_n:.10g} {k_t:.10g} {gamma:.10g} 0.0 {scene.law.mu} 0"
        lines += [
            "atom_style sphere",
            "comm_modify vel yes",
            "read_data grains.data",
            f"pair_style gran/{law}",
        ]
        ends = {"xplane": ["{:.17g} NULL", "NULL {:.17g}"], "yplane": ["{:.17g} NULL"]}
        walls = [
            f"fix w{i} all wall/gran {law} {plane} {ends[plane][i % 2 if plane == 'xplane' else 0].format(at)}"
            for i, (plane, at) in enumerate(planes)
        ]
    else:
        lines.append("hard_particles yes")
        young = scene.kinds[0].young / scene.law.softening
        lines += [
            "atom_style granular",
            "communicate single vel yes",
            "read_data grains.data",
            f"fix m1 all property/global youngsModulus peratomtype {young:.6g}",
            "fix m2 all property/global poissonsRatio peratomtype 0.3",
            "fix m3 all property/global coefficientRestitution peratomtypepair 1 0.9",
            f"fix m4 all property/global coefficientFriction peratomtypepair 1 {scene.law.mu}",
            "pair_style gran model hertz tangential history",
        ]
        walls = [
            f"fix w{i} all wall/gran model hertz tangential history primitive type 1 {plane} {at:.17g}"
            for i, (plane, at) in enumerate(planes)
        ]
    lines += ["pair_coeff * *", f"neighbor {disks.skin:.6g} bin", "neigh_modify delay 0"]
    lines += [
        f"timestep {disks.h:.10g}",
        "fix g all gravity 9.81 vector 0 -1 0",
        "fix i all nve/sphere",
        *walls,
    ]
    return "\n".join([*lines, "fix flat all enforce2d", "thermo 1000000", f"run {steps}", ""])


def peer_speed(name: str, program: str, disks: Disks, steps: int) -> float:
    """Particle-steps of a peer in a second of CPU: a long run less a short one."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        data_file(disks, folder / "grains.data")
        seconds = []
        for count in (steps // 10, steps):
            (folder / "in.script").write_text(peer_script(name, disks, count))
            seconds.append(min(child_seconds([program, "-in", "in.script"], folder) for _ in range(2)))
    return len(disks.scene.places) * (steps - steps // 10) / (seconds[1] - seconds[0])


def compare(peers: dict[str, str]) -> None:
    """Print particle-steps in a second of all codes, on two scenes."""
    print("| grains | scene | code | 1e6 particle-steps/s | tamis M2 is faster by |\n|---|---|---|---|---|")
    dense = packed(64, 250, M2)
    box = packed(8, 9, M2, BrazilNut.diameter)
    box = replace(box, law=replace(M2, softening=100.0), speed=2.0)
    for scene, title, settling in ((dense, "silo at rest", SETTLING), (box, "box at rest", 100_000)):
        n = len(scene.places)
        steps = STEPS[min(STEPS, key=lambda known: abs(known - n))]
        disks = settled(scene, settling)
        contacts = len(disks.contacts()[0]) / n
        ours = speed(disks, steps)
        print(
            f"| {n} | {title}, {contacts:.2f} contacts a grain | tamis, M2 | {ours / 1e6:.1f} | |", flush=True
        )
        other = settled(replace(scene, law=replace(M3, softening=scene.law.softening)), settling)
        print(f"| {n} | {title} | tamis, M3 | {speed(other, steps) / 1e6:.1f} | |", flush=True)
        for name, program in peers.items():
            theirs = peer_speed(name, program, disks, steps)
            print(f"| {n} | {title} | {name} | {theirs / 1e6:.2f} | {ours / theirs:.1f} |", flush=True)
    for alpha, gamma in ((0.5, 9.03e4), (0.46, 7.53e4)):
        case = BrazilNut(alpha=alpha, gamma=gamma, duration=3.0)
        start = time.process_time()
        answer, _ = case.play()
        seconds = time.process_time() - start
        rate = (case.duration + case.settling) / float(answer["dt"]) * (case.grains + 1) / seconds
        law = "M2" if alpha == 0.5 else "M3"
        print(f"| 73 | Brazil nut, shaken for 3 s | tamis, {law} | {rate / 1e6:.1f} | |", flush=True)
    print()


def scaling(sizes: list[int]) -> list[tuple[int, float, float]]:
    """Print and return speed and memory against the number of grains, all of them pressed together.

    They fly apart when they are let go, small scenes sooner: every round begins anew with the same contacts.
    """
    print(
        "| grains | contacts a grain | 1e6 particle-steps/s, M2 | ns a contact | bytes a grain |\n|---|---|---|---|---|"
    )
    rows = []
    for n in sizes:
        columns = round(math.sqrt(n / 4))
        disks = Disks(packed(columns, n // columns, M2))
        disks._rows[:, cells.R] *= 1.0035  # into each other
        disks.advance(6)
        kept = {name: np.copy(array) for name, array in disks.arrays().items()}
        times: list[float] = []
        while len(times) < ROUNDS or sum(times) < 0.3:
            disks.restore({name: array.copy() for name, array in kept.items()})
            start = time.process_time()
            disks.advance(PRESSED)
            times.append(time.process_time() - start)
        grains, rate = len(disks.scene.places), len(disks.scene.places) * PRESSED / min(times)
        touching = len(disks.contacts()[0]) / grains
        parts = (disks._grains, disks._lists, disks._room, disks._room.lists)
        arrays = [disks._force, *(a for part in parts for a in part if isinstance(a, np.ndarray))]
        size = sum(array.nbytes for array in arrays) / grains
        rows.append((grains, rate, size))
        print(
            f"| {grains} | {touching:.2f} | {rate / 1e6:.1f} | {1e9 / rate / touching:.1f} | {size:.0f} |",
            flush=True,
        )
    print()
    return rows


def plot(rows: list[tuple[int, float, float]], path: Path) -> None:
    """Draw the time of a step against the number of grains."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0, 3.4), layout="constrained")
    axes = figure.subplots()
    n, rate = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    axes.loglog(n, 1e3 * n / rate, "o-", color="#3b6ea5", label="measured")
    axes.loglog(n, 1e3 * n / rate[0], "--", color="#888888", label="linear")
    axes.set_xlabel("grains")
    axes.set_ylabel("CPU time of a step [ms]")
    axes.legend(frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--large", action="store_true", help="scale up to a million grains")
    parser.add_argument("--plot", type=Path, help="write the figure of the scaling to this file")
    options = parser.parse_args()
    BrazilNut.warm()
    programs = {"LAMMPS": shutil.which("lmp"), "LIGGGHTS": shutil.which("liggghts")}
    for name in (name for name, program in programs.items() if program is None):
        print(f"{name}: skipped, it is not on the PATH (Debian: {name.lower()}).\n")
    compare({name: program for name, program in programs.items() if program})
    rows = scaling([1000, 10_000, *([100_000, 1_000_000] if options.large else [])])
    if options.plot:
        plot(rows, options.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
