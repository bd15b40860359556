"""Replays: the rig with its actuators, the plant with its tank and piping; motions are drawn enlarged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tamis.replays import Replay, Shape
from tamis.sim.hybrid import drive
from tamis.sim.hybrid.scene import Plant, Rig
from tamis.types import Array

RIG_TIMES, PLANT_TIMES = 200.0, 5.0  # how many times motions are enlarged
_ALONG_X = (np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0)  # turns z into x
_UPRIGHT = (1.0, 0.0, 0.0, 0.0)


def show_rig(case: Rig, outputs: dict[str, Array], fps: float) -> Replay:
    """Return the last cycle: two actuators, the beam between them and the plate under it, enlarged 200 times."""
    count = max(2, int(case.period * fps) + 1)
    rows = np.unique(np.linspace(0, len(outputs["t"]) - 1, count).round().astype(int))
    y_1, y_2, y_s = (RIG_TIMES * outputs[name][rows] for name in ("y_1", "y_2", "y_s"))
    parts: list[tuple[Shape, Array, tuple[float, float, float], tuple[float, ...], Array]] = []
    still, none = np.zeros(len(rows)), np.full(len(rows), np.nan)
    pull_1, pull_2 = -outputs["f_1"][rows], outputs["f_2"][rows]
    for side, moved, pull in ((-1.0, y_1, pull_1), (1.0, y_2, pull_2)):
        cylinder, rod = Shape("cylinder", (0.16, 1.2), "actuator"), Shape("cylinder", (0.07, 1.0), "piston")
        parts.append((cylinder, still, (side * 2.4, 0.0, 0.45), _ALONG_X, pull))
        parts.append((rod, moved, (side * 1.42, 0.0, 0.45), _ALONG_X, pull))
    parts.append((Shape("box", (2.0, 0.3, 0.3), "beam"), y_s, (0.0, 0.0, 0.45), _UPRIGHT, none))
    parts.append((Shape("box", (0.6, 0.5, 0.1), "plate"), y_s, (0.0, 0.0, 0.25), _UPRIGHT, none))
    parts.append((Shape("box", (2.0, 1.2, 1.0), "concrete"), still, (0.0, 0.0, -0.3), _UPRIGHT, none))
    poses = np.zeros((len(rows), len(parts), 7))
    tension = np.empty((len(rows), len(parts)))
    for column, (_, x, centre, turn, pull) in enumerate(parts):
        poses[:, column, :3] = centre
        poses[:, column, 0] += x
        poses[:, column, 3:] = turn
        tension[:, column] = pull
    shapes = tuple(part[0] for part in parts)
    return Replay(shapes, outputs["t"][rows], poses.astype(np.float32), {"tension [N]": tension}, RIG_TIMES)


def show_plant(case: Plant, fps: float) -> Replay:
    """Return tank, base, bearings, sloshing liquid and piping, sideways motion enlarged five times."""
    steps = drive.steps_of(case.duration, case.dt)
    every = max(1, min(round(1.0 / (fps * case.dt)), steps))
    while steps % every:  # both ends are shown
        every -= 1
    run = drive.plant_run(replace(case, interval=every * case.dt))
    whole = case.method == "monolithic"
    tank = run.u["whole"][:, :3] if whole else run.u["tank"]
    pipe = run.u["whole"][:, 3:] if whole else run.u.get("piping", np.zeros((len(run.t), 1)))[:, 1:]
    pipe = pipe[:, 1::2] if case.piping == "beam" else pipe
    shapes = [Shape("box", (9.0, 9.0, 0.4), "base"), Shape("cylinder", (4.0, 9.0), "tank")]
    shapes.append(Shape("cylinder", (3.9, 1.0), "liquid"))
    shapes += [Shape("cylinder", (0.6, 0.5), "bearing")] * 4
    shapes += [Shape("sphere", (0.3,), "piping")] * pipe.shape[1]
    poses = np.zeros((len(run.t), len(shapes), 7))
    poses[..., 3] = 1.0
    poses[:, 0:3, 0] = PLANT_TIMES * tank
    poses[:, 0:3, 2] = 0.7, 5.5, 10.6
    poses[:, 3:7, :3] = [[x, y, 0.25] for x in (-3.5, 3.5) for y in (-3.5, 3.5)]
    poses[:, 7:, 0] = PLANT_TIMES * pipe
    poses[:, 7:, 1] = 4.8 + 0.7 * np.arange(1, pipe.shape[1] + 1)
    poses[:, 7:, 2] = 0.7
    moved = np.full((len(run.t), len(shapes)), np.nan)
    moved[:, 0:3], moved[:, 7:] = tank, pipe
    return Replay(tuple(shapes), run.t, poses.astype(np.float32), {"displacement [m]": moved}, PLANT_TIMES)
