"""What is heated: a member by itself, or a frame of bays and storeys; their fields are the ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.errors import StudyError
from tamis.interfaces import Case, port
from tamis.replays import Replay
from tamis.sim.fire import heating
from tamis.sim.fire.drawing import replay_of
from tamis.sim.fire.drive import History, follow
from tamis.sim.fire.heating import Heating, checked
from tamis.sim.fire.kernels import Loading
from tamis.sim.fire.path import Path
from tamis.sim.fire.sections import FIBRES, SECTIONS, Section, section
from tamis.sim.fire.steel import COLDEST
from tamis.sim.fire.structure import Profile, Structure
from tamis.types import Array

COLD, COLUMNS, BEAMS = 0, 1, 2  # rows of the temperatures of a frame


def section_port(default: str, what: str) -> Any:
    """Declare a section."""
    return port(default, choices=tuple(SECTIONS), doc=f"section of the {what}, bent about its strong axis")


def law_port() -> Any:
    """Declare the law of steel."""
    return port(
        "en",
        choices=("en", "bilinear", "elastic"),
        doc="steel: the curves of EN 1993-1-2, two straight lines with its reduction factors, or elastic at all "
        "temperatures with constant expansion",
    )


def modulus_port() -> Any:
    """Declare the modulus."""
    return port(210e9, unit="Pa", bounds=(1e9, 1e12), doc="modulus of elasticity at 20 C")


def strength_port() -> Any:
    """Declare the strength."""
    return port(235e6, unit="Pa", bounds=(1e6, 2e9), doc="yield strength at 20 C")


def hardening_port() -> Any:
    """Declare the hardening."""
    return port(0.0, bounds=(0.0, 0.5), doc="slope after yielding over the modulus, of bilinear steel")


def fibres_port(default: str = "15") -> Any:
    """Declare the fibres of sections."""
    return port(
        default,
        choices=tuple(FIBRES),
        doc="where stresses are summed over a section: 7 or 15 Gauss points (2 or 4 in a flange, 3 or 7 in the web), "
        "or 20 equal layers (4 in each flange, 12 in the web), those of the frames that this one was compared with",
    )


def elements_port() -> Any:
    """Declare the elements of members."""
    return port(6, bounds=(2, 100), doc="elements of a member, an even number")


class Heated(Case):
    """A case with steel and a fire; each declares these as inputs."""

    law: str
    modulus: float
    strength: float
    hardening: float
    fibres: str
    elements: int
    record: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.elements % 2:
            raise StudyError(
                f"{type(self).__name__.lower()}: elements must be an even number, so that a node is at mid-span, "
                f"found {self.elements}"
            )

    def profile(self, of: Section, expansion: float = 1.2e-5) -> Profile:
        """Return fibres and steel of a section."""
        level, area = of.fibres(self.fibres)
        return Profile(
            level, area, of.depth, self.law, self.modulus, self.strength, self.hardening, expansion
        )


@dataclass(frozen=True)
class Member(Heated):
    """A member on two supports, heated; the second support may move along the member."""

    section: str = section_port("IPE270", "member")
    length: float = port(5.0, unit="m", bounds=(0.1, 50.0), doc="distance of the supports")
    ends: str = port("pinned", choices=("pinned", "fixed"), doc="whether the ends are free to rotate")
    axial: str = port(
        "free",
        choices=("free", "spring", "held"),
        doc="what holds the second end along the member: nothing, a spring, all",
    )
    spring: float = port(1e7, unit="N/m", bounds=(1e-3, 1e13), doc="stiffness of that spring")
    load: float = port(15e3, unit="N/m", bounds=(-1e7, 1e7), doc="across the member, downwards")
    compression: float = port(
        0.0, unit="N", bounds=(-1e8, 1e8), doc="force on the second end towards the first"
    )
    bow: float = port(
        0.0, unit="m", bounds=(-1.0, 1.0), doc="height of a half sine that the unloaded member has"
    )
    gradient: float = port(
        0.0,
        unit="K",
        bounds=(-1000.0, 1000.0),
        doc="temperature of the bottom less that of the top, linear in the depth, when it is fully there; it grows "
        "with the temperature at the axis in the same proportion",
    )
    reached: float = port(
        1200.0, unit="C", bounds=(20.0, 1200.0), doc="temperature at the axis at which a ramp ends"
    )
    law: str = law_port()
    modulus: float = modulus_port()
    strength: float = strength_port()
    hardening: float = hardening_port()
    expansion: float = port(1.2e-5, unit="1/K", bounds=(0.0, 1e-3), doc="thermal expansion of elastic steel")
    fibres: str = fibres_port()
    elements: int = elements_port()
    fire: str = heating.fire()
    rate: float = heating.rate()
    emissivity: float = heating.emissivity()
    sides: int = port(
        4, bounds=(3, 4), doc="sides exposed to a gas: all, or all but the top of the upper flange"
    )
    section_factor: float = heating.section_factor()
    protection: float = heating.protection()
    conductivity: float = heating.conductivity()
    density: float = heating.density()
    heat: float = heating.heat()
    fire_load: float = heating.fire_load()
    opening: float = heating.opening()
    inertia: float = heating.inertia()
    until: float = heating.until()
    record: float = heating.record()

    def history(self) -> tuple[History, dict[str, int]]:
        """Heat the member; return its states and the numbers of the degrees of freedom to look at."""
        structure = Structure()
        here = section(self.section)
        profile = structure.profile(self.profile(here, self.expansion))
        first, last = structure.node(0.0, 0.0, "first end"), structure.node(self.length, 0.0, "second end")
        nodes = structure.member(first, last, self.elements, profile, 0, "member", bow=self.bow)
        turns = (2,) if self.ends == "fixed" else ()
        structure.fix(first, (0, 1, *turns))
        structure.fix(last, (1, *turns, *((0,) if self.axial == "held" else ())))
        if self.axial == "spring":
            structure.spring(last, 0, self.spring)
        spread(structure, nodes, self.load * self.length)
        structure.load(last, 0, -self.compression)
        frame = structure.frame()
        fire = Heating.of(self)
        times = fire.times()
        axis = fire.steel(here, self.sides)
        if self.fire == "ramp":
            times = np.array([0.0, max(1e-6, min(times[-1], (self.reached - COLDEST) / self.rate))])
            axis = COLDEST + self.rate * times
        top = max(float(axis.max()) - COLDEST, 1e-12)
        half = 0.5 * self.gradient * (axis - COLDEST) / top
        if self.law == "elastic":
            table = np.stack([axis + half, axis - half], axis=1)[:, None]
        else:
            table = checked(np.stack([axis + half, axis - half], axis=1), "the member")[:, None]
        load = structure.load_vector()
        path = Path(structure, Loading(load, np.zeros_like(load), times, np.ascontiguousarray(table)), frame)
        middle = nodes[self.elements // 2]
        places = {
            "middle": structure.number(middle, 1),
            "end": structure.number(last, 0),
            "support": structure.number(first, 0),
            "clamp": structure.number(first, 2),
        }
        return follow(path, heating.instants(times, axis, self.record)), places

    def replay(self, fps: float) -> Replay:
        """Run again and show the deformed member by its temperatures."""
        return replay_of(self.history()[0], {0: "member"}, fps)


@dataclass(frozen=True)
class Frame(Heated):
    """A regular frame whose ground columns and first-storey beams are heated; the rest stays at 20 C.

    The default is the 3 x 3 frame of the virtual hybrid fire test of the SERA deliverable D27.1 (2019), section 3.1.2,
    whose sections, loads and heating curve are not printed.
    """

    bays: int = port(3, bounds=(1, 20), doc="bays side by side")
    storeys: int = port(3, bounds=(1, 20), doc="storeys")
    span: float = port(5.0, unit="m", bounds=(0.5, 50.0), doc="of a beam, between axes of columns")
    height: float = port(3.5, unit="m", bounds=(0.5, 20.0), doc="of a storey")
    load: float = port(
        15e3, unit="N/m", bounds=(-1e7, 1e7), doc="on all beams, downwards; lumped at the nodes of elements"
    )
    lateral: float = port(2e3, unit="N", bounds=(-1e7, 1e7), doc="on the left joint of each floor, along x")
    base: str = port("fixed", choices=("fixed", "pinned"), doc="feet of the columns")
    columns: str = section_port("HEB180", "columns")
    beams: str = section_port("IPE270", "beams")
    law: str = law_port()
    modulus: float = modulus_port()
    strength: float = strength_port()
    hardening: float = hardening_port()
    fibres: str = fibres_port("20")
    elements: int = elements_port()
    fire: str = heating.fire()
    rate: float = heating.rate()
    emissivity: float = heating.emissivity()
    section_factor: float = heating.section_factor()
    protection: float = heating.protection()
    protected: str = port(
        "all",
        choices=("all", "columns", "beams"),
        doc="heated members that have the protection; the others are bare",
    )
    conductivity: float = heating.conductivity()
    density: float = heating.density()
    heat: float = heating.heat()
    fire_load: float = heating.fire_load()
    opening: float = heating.opening()
    inertia: float = heating.inertia()
    until: float = heating.until()
    record: float = heating.record()

    def structure(self) -> tuple[Structure, dict[str, tuple[int, int]]]:
        """Put the frame together; return it with the node and direction of what is looked at."""
        out = Structure()
        profiles = [out.profile(self.profile(section(name))) for name in (self.columns, self.beams)]
        joints = [
            [out.node(i * self.span, j * self.height, f"joint {i}, floor {j}") for i in range(self.bays + 1)]
            for j in range(self.storeys + 1)
        ]
        for i in range(self.bays + 1):
            for j in range(self.storeys):
                heat = COLUMNS if j == 0 else COLD
                ends, name = (joints[j][i], joints[j + 1][i]), f"column {i}, storey {j + 1}"
                out.member(*ends, self.elements, profiles[0], heat, name)
            out.fix(joints[0][i], (0, 1, 2) if self.base == "fixed" else (0, 1))
        middles = {}
        for j in range(1, self.storeys + 1):
            for i in range(self.bays):
                heat = BEAMS if j == 1 else COLD
                ends, name = (joints[j][i], joints[j][i + 1]), f"beam {i + 1}, floor {j}"
                nodes = out.member(*ends, self.elements, profiles[1], heat, name)
                middles[i, j] = nodes[self.elements // 2]
                spread(out, nodes, self.load * self.span)
            out.load(joints[j][0], 0, self.lateral)
        corner = joints[1][0]
        return out, {
            "corner_ux": (corner, 0),
            "corner_uy": (corner, 1),
            "joint_uy": (joints[1][1], 1),
            "mid_beam_uy": (middles[0, 1], 1),
            "roof_ux": (joints[-1][0], 0),
        }

    def temperatures(self) -> tuple[Array, Array]:
        """Return instants and temperatures (instants, groups, bottom and top): cold, columns, beams."""
        fire = Heating.of(self)
        times = fire.times()
        rows = [
            np.full(len(times), COLDEST),
            fire.steel(section(self.columns), 4, 0.0 if self.protected == "beams" else None),
            fire.steel(section(self.beams), 3, 0.0 if self.protected == "columns" else None),
        ]
        return times, np.repeat(np.stack(rows, axis=1)[:, :, None], 2, axis=2)

    def path(self) -> tuple[Path, dict[str, int]]:
        """Return the frame before anything acts on it, and where in its displacements stands what is looked at."""
        structure, looked = self.structure()
        frame = structure.frame()
        load = structure.load_vector()
        path = Path(structure, Loading(load, np.zeros_like(load), *self.temperatures()), frame)
        return path, {name: structure.number(*place) for name, place in looked.items()}

    def history(self) -> tuple[History, dict[str, int]]:
        """Load and heat the frame until it fails."""
        path, looked = self.path()
        hottest = path.loading.table.max(axis=(1, 2))
        return follow(path, heating.instants(path.loading.times, hottest, self.record)), looked

    def replay(self, fps: float) -> Replay:
        """Run again and show the deformed frame by its temperatures."""
        return replay_of(self.history()[0], {COLD: "cold", COLUMNS: "hot columns", BEAMS: "hot beams"}, fps)


def spread(structure: Structure, nodes: list[int], load: float) -> None:
    """Lump a load, downwards, at the nodes of a member."""
    n = len(nodes) - 1
    for k, node in enumerate(nodes):
        structure.load(node, 1, -load / n * (0.5 if k in (0, n) else 1.0))
