"""Fire after an earthquake (EQUFIRE, SERA deliverable D27.1, 2019, section 6.3): a braced frame with pinned joints.

The earthquake buckles and yields braces; drifts that remain and protection that has come off go into the fire. A piece
of a member loses its protection where a fibre has been strained plastically by more than a limit. The ground storey
burns: one column, or its brace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path as File
from typing import NamedTuple

import numpy as np

from tamis.errors import SimulationError
from tamis.interfaces import port
from tamis.replays import Replay
from tamis.sim.common.records import GENERATED, read_record
from tamis.sim.fire import heating, scene
from tamis.sim.fire.drawing import replay_of
from tamis.sim.fire.drive import History, follow, results
from tamis.sim.fire.heating import Heating
from tamis.sim.fire.kernels import Loading
from tamis.sim.fire.path import Path
from tamis.sim.fire.quake import Shaken, Shaking
from tamis.sim.fire.sections import section
from tamis.sim.fire.steel import COLDEST
from tamis.sim.fire.structure import Structure, lumped_masses
from tamis.types import Array, Indices, Mask

GRAVITY = 9.81
COLD, HEATED, BARE = 0, 1, 2  # rows of the temperatures


class Built(NamedTuple):
    """The frame, its floors at the left column, the elements that burn, and masses on beams by node."""

    structure: Structure
    floors: list[int]
    burning: Indices
    masses: dict[int, float]


@dataclass(frozen=True)
class Braced(scene.Heated):
    """One bay with a brace a storey, all connections pinned; shaken, then a column or the brace of the ground burns."""

    storeys: int = port(3, bounds=(1, 10), doc="storeys")
    span: float = port(5.0, unit="m", bounds=(0.5, 50.0), doc="between axes of columns")
    height: float = port(3.5, unit="m", bounds=(0.5, 20.0), doc="of a storey")
    load: float = port(
        30e3, unit="N/m", bounds=(0.0, 1e7), doc="on all beams, downwards; its mass is shaken too"
    )
    lateral: float = port(
        15e3,
        unit="N",
        bounds=(-1e7, 1e7),
        doc="on the left joint of each floor, along x: braces are in tension",
    )
    columns: str = scene.section_port("HEB160", "columns")
    beams: str = scene.section_port("IPE330", "beams")
    braces: str = scene.section_port("HEA100", "braces")
    bow: float = port(0.004, bounds=(0.0, 0.05), doc="of unloaded braces, half sine, over their length")
    motion: str = port(
        str(GENERATED),
        kind="file",
        doc="ground acceleration, AT2 or CSV; by default a generated motion of 40 s",
    )
    pga: float = port(
        0.0, unit="m/s2", bounds=(0.0, 50.0), doc="peak to which it is scaled; 0 is no earthquake"
    )
    damping: float = port(0.03, bounds=(0.0, 0.5), doc="ratio of the first mode, proportional to mass")
    dt: float = port(
        0.01, unit="s", bounds=(1e-4, 0.1), doc="step of the earthquake, to which the motion is resampled"
    )
    calm: float = port(
        10.0, unit="s", bounds=(0.1, 1e3), doc="after the motion, strongly damped, to come to rest"
    )
    heated: str = port(
        "column",
        choices=("column", "brace"),
        doc="what burns in the ground storey: the left column, or the brace",
    )
    spalling: float = port(
        0.005,
        bounds=(0.0, 1.0),
        doc="plastic strain of a fibre beyond which an element has lost its protection",
    )
    law: str = scene.law_port()
    modulus: float = scene.modulus_port()
    strength: float = scene.strength_port()
    hardening: float = scene.hardening_port()
    fibres: str = scene.fibres_port("7")
    elements: int = scene.elements_port()
    fire: str = heating.fire("iso834")
    rate: float = heating.rate()
    emissivity: float = heating.emissivity()
    section_factor: float = heating.section_factor()
    protection: float = heating.protection(0.015)
    conductivity: float = heating.conductivity()
    density: float = heating.density()
    heat: float = heating.heat()
    fire_load: float = heating.fire_load()
    opening: float = heating.opening()
    inertia: float = heating.inertia()
    until: float = heating.until(14400.0)
    record: float = heating.record()

    def build(self) -> Built:
        """Put the frame together."""
        out = Structure()
        names = (self.columns, self.beams, self.braces)
        column, beam, brace = (out.profile(self.profile(section(name))) for name in names)
        left, right = (
            [out.node(x, j * self.height, f"{side} joint, floor {j}") for j in range(self.storeys + 1)]
            for x, side in ((0.0, "left"), (self.span, "right"))
        )
        pinned = (True, True)
        burning: list[int] = []
        for j in range(self.storeys):
            for k, (a, b, profile, name) in enumerate(
                (
                    (left[j], left[j + 1], column, "left column"),
                    (right[j], right[j + 1], column, "right column"),
                    (left[j], right[j + 1], brace, "brace"),
                )
            ):
                length = float(np.hypot(*np.subtract(out.places[b], out.places[a])))
                bow = self.bow * length if k == 2 else 0.0
                first = len(out.ends)
                out.member(a, b, self.elements, profile, COLD, f"{name}, storey {j + 1}", pinned, bow)
                if j == 0 and k == (2 if self.heated == "brace" else 0):
                    burning += range(first, len(out.ends))
        weights: dict[int, float] = {}
        for j in range(1, self.storeys + 1):
            nodes = out.member(left[j], right[j], self.elements, beam, COLD, f"beam, floor {j}", pinned)
            scene.spread(out, nodes, self.load * self.span)
            for i, node in enumerate(nodes):
                part = 0.5 if i in (0, len(nodes) - 1) else 1.0
                weights[node] = self.load * self.span / self.elements * part / GRAVITY
            out.load(left[j], 0, self.lateral)
        for node in (left[0], right[0]):
            out.fix(node, (0, 1))
        return Built(out, left[1:], np.array(burning, dtype=np.int64), weights)

    def path(self, built: Built) -> Path:
        """Return the frame with the temperatures of burning members, protected and bare."""
        fire = Heating.of(self)
        times = fire.times()
        here = section(self.columns if self.heated == "column" else self.braces)
        rows = [np.full(len(times), COLDEST), fire.steel(here, 4), fire.steel(here, 4, 0.0)]
        table = np.repeat(np.stack(rows, axis=1)[:, :, None], 2, axis=2)
        elements = built.structure.frame()
        elements.heat[built.burning] = HEATED
        load = built.structure.load_vector()
        return Path(built.structure, Loading(load, np.zeros_like(load), times, table), elements)

    def shake(self, path: Path, built: Built) -> Shaken:
        """Shake the loaded frame and let it come to rest."""
        motion = read_record(self.motion).at_step(self.dt)
        peak = float(np.abs(motion.a).max())
        if not peak > 0.0:
            raise SimulationError(
                f"{File(self.motion).name}: the ground does not move, so there is no peak to scale"
            )
        mass, horizontal = self.masses(path, built)
        shaking = Shaking(path, mass, horizontal, self.damping)
        return shaking.run(motion.a * (self.pga / peak), self.dt, self.calm, max(1, round(0.05 / self.dt)))

    def masses(self, path: Path, built: Built) -> tuple[Array, Mask]:
        """Return masses of free degrees of freedom, of the loads and of the steel, and which of them are horizontal."""
        frame, structure = path.frame, built.structure
        mass, horizontal = lumped_masses(frame), np.zeros(len(frame.spring), dtype=bool)
        along = frame.dof[:, [0, 3]].ravel()
        horizontal[along[along < len(mass)]] = True
        for node, weight in built.masses.items():
            for direction in (0, 1):
                mass[structure.number(node, direction)] += weight
        return mass, horizontal

    def history(self) -> tuple[History, Built, Shaken | None, float]:
        """Load, shake and burn; return also the part of the burning length that has lost its protection."""
        built = self.build()
        path = self.path(built)
        path.settle()
        shaken = self.shake(path, built) if self.pga > 0.0 else None
        plastic = np.abs(path.state.plastic[:, built.burning]).max(axis=(0, 2, 3))
        lost = built.burning[plastic > self.spalling]
        path.frame.heat[lost] = BARE
        share = float(path.frame.length[lost].sum() / path.frame.length[built.burning].sum())
        rows = np.unique(path.frame.heat[built.burning])
        hottest = path.loading.table[:, rows].max(axis=(1, 2))
        instants = heating.instants(path.loading.times, hottest, self.record)
        return follow(path, instants, settled=True), built, shaken, share

    def replay(self, fps: float) -> Replay:
        """Run again and show the frame in the fire, as the earthquake left it."""
        groups = {COLD: "cold", HEATED: "burning", BARE: "bare"}
        return replay_of(self.history()[0], groups, fps)


def after_earthquake(case: Braced) -> dict[str, Array]:
    """Run a case and return its outputs."""
    history, built, shaken, share = case.history()
    ground = built.structure.number(built.floors[0], 0)
    roof = built.structure.number(built.floors[-1], 0)
    # the hottest of all temperatures would be that of bare members, of which there may be none
    out = results(history, {"storey_ux": ground, "roof_ux": roof})
    rows = np.unique(history.path.frame.heat[built.burning])
    out["temperature"] = history.temperatures()[:, rows].max(axis=(1, 2))
    out["failure_temperature"] = np.array(out["temperature"][-1])
    drift = np.zeros(1) if shaken is None else shaken.u[:, ground] / case.height
    out["quake_time"] = np.zeros(1) if shaken is None else shaken.times
    out["quake_drift"] = drift
    out["drift_peak"] = np.array(np.abs(drift - drift[0]).max())
    out["drift_residual"] = np.array(
        abs(out["storey_ux"][0] / case.height - drift[0]) if shaken is not None else 0.0
    )
    out["lost_protection"] = np.array(share)
    for name in ("input", "dissipated", "damping", "missing"):
        out[f"energy_{name}"] = np.array(0.0 if shaken is None else shaken.energies[name])
    return out
