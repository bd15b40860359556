"""The same scene in MuJoCo; run by its own interpreter, which needs no tamis.

``python benchmarks/contact_mujoco.py seconds step block instant < scene.json`` prints one JSON line: CPU ms a step,
contacts a step, how far the block went along y by the instant, and the deepest overlap. Contacts are soft as they
come, friction is that of the laws, restitution is left out because MuJoCo has none.
"""

from __future__ import annotations

import json
import sys
import time

import mujoco
import numpy as np


def model_of(scene: dict, step: float) -> mujoco.MjModel:
    """Of two surfaces MuJoCo takes the rougher: each group gets the least friction of its laws."""
    rough: dict[str, float] = {}
    for one, other, mu, _ in scene["laws"]:
        for group in (one, other):
            rough[group] = min(mu, rough.get(group, mu))
    for one, other, mu, _ in scene["laws"]:
        assert max(rough[one], rough[other]) == mu, "MuJoCo cannot have these frictions"
    spec = mujoco.MjSpec()
    spec.option.timestep = step
    spec.option.gravity = scene["gravity"]
    spec.option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    for entry in scene["bodies"]:
        friction = [rough[entry["group"]], 0.0, 0.0]
        if "mass" not in entry:
            spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], friction=friction)
            continue
        body = spec.worldbody.add_body(name=entry["name"], pos=entry["position"])
        body.add_freejoint()
        body.explicitinertial, body.ipos = True, [0.0, 0.0, 0.0]  # else the centre of mass is taken from pos
        body.mass, body.inertia = entry["mass"], entry["inertia"]
        if "box" in entry:
            half = [0.5 * side for side in entry["box"]]
            body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=half, friction=friction, condim=3)
        else:
            spec.add_mesh(name=entry["name"], uservert=np.ravel(entry["points"]))
            body.add_geom(
                type=mujoco.mjtGeom.mjGEOM_MESH, meshname=entry["name"], friction=friction, condim=3
            )
    return spec.compile()


def main() -> None:
    duration, step, block, instant = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3], float(sys.argv[4])
    scene = json.load(sys.stdin)
    model = model_of(scene, step)
    data = mujoco.MjData(model)
    for entry in scene["bodies"]:
        if "mass" in entry:
            at = model.joint(model.body(entry["name"]).jntadr[0]).dofadr[0]
            data.qvel[at : at + 3] = entry["velocity"]
    mujoco.mj_forward(model, data)
    origin, moved, contacts, seconds, deepest = float(data.body(block).xpos[1]), 0.0, 0, 0.0, 0.0
    steps, look = round(duration / step), round(instant / step)
    for k in range(steps):
        start = time.process_time()
        mujoco.mj_step(model, data)
        seconds += time.process_time() - start
        contacts += data.ncon
        deepest = max(deepest, float(-data.contact.dist.min(initial=0.0)))
        if k + 1 == look:
            moved = float(data.body(block).xpos[1]) - origin
    told = {"name": f"MuJoCo {mujoco.__version__}", "ms": 1e3 * seconds / steps, "contacts": contacts / steps}
    print(json.dumps(told | {"moved": moved, "residual": "-", "overlap": deepest}))


if __name__ == "__main__":
    main()
