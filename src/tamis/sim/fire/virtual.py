"""The virtual hybrid fire test of the SERA deliverable D27.1 (2019), 3.1.2: a frame cut at mid-height of storey 2."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tamis.errors import StudyError
from tamis.interfaces import port
from tamis.replays import Replay
from tamis.sim.fire import heating, hybrid, scene
from tamis.sim.fire.drawing import replay_of
from tamis.sim.fire.drive import History, follow
from tamis.sim.fire.kernels import Loading
from tamis.sim.fire.path import Path
from tamis.sim.fire.scene import BEAMS, COLD, COLUMNS
from tamis.sim.fire.sections import section
from tamis.sim.fire.steel import COLDEST, HOTTEST
from tamis.sim.fire.structure import Structure
from tamis.types import Array

LOOKED = ("corner_ux", "corner_uy", "joint_uy", "mid_beam_uy", "roof_ux")


class Cut(NamedTuple):
    """A part of the frame: what is looked at in it, and its nodes at the cut, from left to right."""

    structure: Structure
    looked: dict[str, tuple[int, int]]
    cut: list[int]


@dataclass(frozen=True)
class Hybrid(scene.Heated):
    """A frame in two parts: ground storey and half of the next as a specimen, heated; the rest linear and condensed."""

    bays: int = port(3, bounds=(1, 10), doc="bays side by side")
    storeys: int = port(3, bounds=(2, 10), doc="storeys")
    span: float = port(5.0, unit="m", bounds=(0.5, 50.0), doc="of a beam, between axes of columns")
    height: float = port(3.5, unit="m", bounds=(0.5, 20.0), doc="of a storey")
    load: float = port(15e3, unit="N/m", bounds=(-1e7, 1e7), doc="on all beams, downwards")
    lateral: float = port(2e3, unit="N", bounds=(-1e7, 1e7), doc="on the left joint of each floor, along x")
    base: str = port("fixed", choices=("fixed", "pinned"), doc="feet of the columns")
    columns: str = scene.section_port("HEB180", "columns")
    beams: str = scene.section_port("IPE270", "beams")
    coupling: str = port(
        "rotations",
        choices=("rotations", "translations"),
        doc="what is equal at the cut: all, or displacements only, as if there were hinges",
    )
    modes: int = port(
        0, bounds=(0, 50), doc="eigenmodes of the cold part kept besides the motions of its interface"
    )
    dt: float = port(0.01, unit="s", bounds=(1e-4, 1.0), doc="time step of the test")
    settling: float = port(60.0, unit="s", bounds=(0.0, 1e4), doc="time under the loads before the fire")
    rate: float = heating.rate()
    until: float = port(875.0, unit="s", bounds=(1.0, 1e5), doc="time of heating")
    hold: float = port(
        0.0,
        unit="s",
        bounds=(0.0, 1e5),
        doc="time at the last temperature; the corner of the ramp is then rounded over a third of it, 20 s at most",
    )
    memory: float = port(
        0.0,
        unit="s",
        bounds=(0.0, 100.0),
        doc="dampers leave the mean velocity over this time alone, so that a ramp is followed without lag; 0 as in "
        "the deliverable, with it",
    )
    law: str = scene.law_port()
    modulus: float = scene.modulus_port()
    strength: float = scene.strength_port()
    hardening: float = scene.hardening_port()
    fibres: str = scene.fibres_port()
    elements: int = scene.elements_port()
    record: float = heating.record()

    def __post_init__(self) -> None:
        super().__post_init__()
        if COLDEST + self.rate * self.until > HOTTEST:
            raise StudyError(
                f"hybrid: {self.until:g} s at {self.rate:g} K/s lead to {COLDEST + self.rate * self.until:g} C; steel "
                f"is known to {HOTTEST:g} C"
            )

    def part(self, which: str) -> Cut:
        """Put together the hot part, the cold part, or the whole with the cold part linear."""
        out = Structure()
        strong = [self.profile(section(name)) for name in (self.columns, self.beams)]
        near = [out.profile(profile) for profile in strong]
        far = [out.profile(replace(profile, law="linear")) for profile in strong]
        hot, cold = which in ("hot", "whole"), which in ("cold", "whole")
        floors = [j for j in range(self.storeys + 1) if (hot if j < 2 else cold)]
        bays = range(self.bays + 1)
        joint = {
            (i, j): out.node(i * self.span, j * self.height, f"joint {i}, floor {j}")
            for j in floors
            for i in bays
        }
        cut = [out.node(i * self.span, 1.5 * self.height, f"column {i}, cut in storey 2") for i in bays]
        half = self.elements // 2
        for i in bays:
            name = f"column {i}, storey"
            if hot:
                out.member(joint[i, 0], joint[i, 1], self.elements, near[0], COLUMNS, f"{name} 1")
                out.member(joint[i, 1], cut[i], half, near[0], COLD, f"{name} 2 below")
                out.fix(joint[i, 0], (0, 1, 2) if self.base == "fixed" else (0, 1))
            if cold:
                out.member(cut[i], joint[i, 2], half, far[0], COLD, f"{name} 2 above")
                for j in range(2, self.storeys):
                    out.member(joint[i, j], joint[i, j + 1], self.elements, far[0], COLD, f"{name} {j + 1}")
        middle = None
        for j in floors[1:] if hot else floors:
            for i in range(self.bays):
                heat, profile = (BEAMS, near[1]) if j == 1 else (COLD, far[1])
                ends = joint[i, j], joint[i + 1, j]
                nodes = out.member(*ends, self.elements, profile, heat, f"beam {i + 1}, floor {j}")
                middle = nodes[half] if (i, j) == (0, 1) else middle
                scene.spread(out, nodes, self.load * self.span)
            out.load(joint[0, j], 0, self.lateral)
        looked = {}
        if hot and middle is not None:
            corner = joint[0, 1]
            looked = {"corner_ux": (corner, 0), "corner_uy": (corner, 1), "joint_uy": (joint[1, 1], 1)}
            looked["mid_beam_uy"] = (middle, 1)
        if cold:
            looked["roof_ux"] = (joint[0, self.storeys], 0)
        return Cut(out, looked, cut)

    def temperatures(self) -> tuple[Array, Array]:
        """Return instants and temperatures of the hot members: a ramp, and held where asked for."""
        if self.hold == 0.0:
            times = np.array([0.0, self.until])
            return times, COLDEST + self.rate * times
        corner = min(20.0, self.hold / 3.0, self.until)
        part = np.linspace(0.0, 1.0, 41)
        times = self.until + corner * (part - 0.5)  # while the rate falls evenly to nothing
        hot = self.rate * (times[0] + corner * (part - 0.5 * part**2))
        ends = np.array([0.0, self.until + self.hold])
        return np.insert(ends, 1, times), COLDEST + np.insert(self.rate * np.array([0.0, self.until]), 1, hot)

    def _loading(self, structure: Structure) -> Loading:
        """Return loads and temperatures."""
        load = structure.load_vector()
        times, hot = self.temperatures()
        table = np.full((len(times), 3, 2), COLDEST)
        table[:, COLUMNS] = table[:, BEAMS] = hot[:, None]
        return Loading(load, np.zeros_like(load), times, table)

    def monolithic(self) -> tuple[Path, dict[str, int]]:
        """Return the frame in one piece, its cold part linear, with continuous columns."""
        whole = self.part("whole")
        elements = whole.structure.frame()
        path = Path(whole.structure, self._loading(whole.structure), elements)
        return path, {name: whole.structure.number(*place) for name, place in whole.looked.items()}

    def parts(self) -> hybrid.Parts:
        """Cut the frame."""
        lower, upper = self.part("hot"), self.part("cold")
        directions = (0, 1, 2) if self.coupling == "rotations" else (0, 1)
        for node in lower.cut:
            lower.structure.fix(node, directions)
        elements = lower.structure.frame()
        path = Path(lower.structure, self._loading(lower.structure), elements)
        imposed = np.array(
            [lower.structure.number(n, d) for n in lower.cut for d in directions], dtype=np.int64
        )
        stiffness, places, condensed = hybrid.condensed_cold(
            upper.structure, [(n, d) for n in upper.cut for d in directions], self.modes
        )
        return hybrid.Parts(path, imposed, upper.structure, stiffness, places, condensed)

    def test(self) -> tuple[hybrid.Test, dict[str, Array], Array]:
        """Run the test; return it with the displacements that are looked at, and the lag of the roof to first order."""
        lower, upper = self.part("hot"), self.part("cold")
        parts = self.parts()
        end = self.until + self.hold
        done = hybrid.run(parts, self.dt, self.settling, end, self.record / self.rate, self.memory)
        seen = {name: done.hot[:, parts.hot.structure.number(*place)] for name, place in lower.looked.items()}
        seen |= {name: done.cold[:, parts.cold.number(*place)] for name, place in upper.looked.items()}
        return done, seen, parts.lag(done)[:, parts.cold.number(*upper.looked["roof_ux"])]

    def reference(self, instants: Array) -> tuple[History, dict[str, Array]]:
        """Follow the frame in one piece through these instants."""
        path, looked = self.monolithic()
        history = follow(path, instants)
        return history, {name: history.u[:, place] for name, place in looked.items()}

    def replay(self, fps: float) -> Replay:
        """Show the frame in one piece, as the test should find it."""
        end = self.until + self.hold
        instants = np.linspace(0.0, end, max(2, round(end * self.rate / self.record) + 1))
        history, _ = self.reference(instants)
        return replay_of(history, {COLD: "cold", COLUMNS: "hot columns", BEAMS: "hot beams"}, fps)


def results(case: Hybrid) -> dict[str, Array]:
    """Run the test and the frame in one piece; return both, and how far they are apart."""
    done, seen, lag = case.test()
    history, whole = case.reference(done.times)
    _, mine, other = np.intersect1d(done.times, history.times, return_indices=True)  # until one of them fails
    times = done.times[mine]
    out = {"time": times, "temperature": np.interp(times, *case.temperatures())}
    apart = np.zeros(len(times))
    for name in LOOKED:
        out[name], out[f"monolithic_{name}"] = seen[name][mine], whole[name][other]
        apart = np.maximum(apart, np.abs(out[name] - out[f"monolithic_{name}"]))
    largest = np.max([np.abs(whole[name][other]) for name in LOOKED], axis=0)
    out["deviation"] = apart / np.maximum(largest, 1e-12)
    out["lag"] = out["monolithic_roof_ux"] - out["roof_ux"]
    out["lag_estimate"] = lag[mine]
    out["omega"] = np.array(done.omega)
    out["failed"] = np.array(float(bool(done.reason) or history.failed))
    return out
