"""Frames put together: nodes, members cut into elements, supports, springs and loads, as the arrays of the kernels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import reverse_cuthill_mckee

from tamis.errors import StudyError
from tamis.sim.fire.kernels import Elements
from tamis.sim.fire.steel import BILINEAR, ELASTIC, EN, LINEAR
from tamis.types import Array, Indices

DIRECTIONS = ("x", "y", "rotation")
LAWS = {"elastic": ELASTIC, "bilinear": BILINEAR, "en": EN, "linear": LINEAR}


@dataclass(frozen=True)
class Profile:
    """Fibres and steel of a member: heights and areas, depth, and law, modulus, strength, hardening, expansion."""

    level: Array
    area: Array
    depth: float
    law: str = "en"
    modulus: float = 210e9
    strength: float = 235e6
    hardening: float = 0.0
    expansion: float = 1.2e-5


@dataclass
class Structure:
    """A frame while it is put together; `frame` makes the arrays of it."""

    profiles: list[Profile] = field(default_factory=list)
    places: list[tuple[float, float]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    ends: list[tuple[int, int, int, int, int, int]] = field(
        default_factory=list
    )  # nodes, rotations, profile, heat
    owners: list[tuple[int, int]] = field(
        default_factory=list
    )  # node and direction of each degree of freedom
    _own: dict[tuple[int, int], int] = field(default_factory=dict)
    fixed: set[int] = field(default_factory=set)
    springs: dict[int, float] = field(default_factory=dict)
    loads: dict[int, float] = field(default_factory=dict)
    order: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def profile(self, profile: Profile) -> int:
        """Add a profile; return its number."""
        self.profiles.append(profile)
        return len(self.profiles) - 1

    def node(self, x: float, y: float, name: str) -> int:
        """Add a node; return its number."""
        self.places.append((x, y))
        self.names.append(name)
        return len(self.places) - 1

    def dof(self, node: int, direction: int) -> int:
        """Return the degree of freedom of a node, made when it is first asked for."""
        key = (node, direction)
        if key not in self._own:
            self._own[key] = self._new(node, direction)
        return self._own[key]

    def _new(self, node: int, direction: int) -> int:
        self.owners.append((node, direction))
        return len(self.owners) - 1

    def member(
        self,
        first: int,
        last: int,
        elements: int,
        profile: int,
        heat: int,
        name: str,
        hinges: tuple[bool, bool] = (False, False),
        bow: float = 0.0,
    ) -> list[int]:
        """Cut a member into elements, hinged or not, with a half sine of a bow to its left; return its nodes."""
        if not 0 <= profile < len(self.profiles):
            raise StudyError(
                f"{name} has no section: give it one of the {len(self.profiles)} that were declared"
            )
        (x0, y0), (x1, y1) = self.places[first], self.places[last]
        length = math.hypot(x1 - x0, y1 - y0)
        if not length > 0.0:
            raise StudyError(f"{name} has no length: both ends are at ({x0:g}, {y0:g}) m")
        left = (-(y1 - y0) / length, (x1 - x0) / length)
        nodes = [first]
        for i in range(1, elements):
            part = i / elements
            side = bow * math.sin(math.pi * part)
            place = (x0 + part * (x1 - x0) + side * left[0], y0 + part * (y1 - y0) + side * left[1])
            nodes.append(self.node(*place, f"{name}, {i}/{elements} along"))
        nodes.append(last)
        for k, (a, b) in enumerate(itertools.pairwise(nodes)):
            start, end = k == 0 and hinges[0], k == elements - 1 and hinges[1]
            turn_a = self._new(a, 2) if start else self.dof(a, 2)
            turn_b = self._new(b, 2) if end else self.dof(b, 2)
            self.ends.append((a, b, turn_a, turn_b, profile, heat))
        return nodes

    def fix(self, node: int, directions: Sequence[int]) -> None:
        """Hold a node in some directions."""
        self.fixed.update(self.dof(node, direction) for direction in directions)

    def load(self, node: int, direction: int, value: float) -> None:
        """Add a force, or a moment, on a node."""
        dof = self.dof(node, direction)
        self.loads[dof] = self.loads.get(dof, 0.0) + value

    def spring(self, node: int, direction: int, stiffness: float) -> None:
        """Add a spring between a node and the ground."""
        dof = self.dof(node, direction)
        self.springs[dof] = self.springs.get(dof, 0.0) + stiffness

    def frame(self) -> Elements:
        """Number degrees of freedom across the frame, so that the band is narrow, and return the arrays."""
        own = np.array(
            [
                (self.dof(a, 0), self.dof(a, 1), ta, self.dof(b, 0), self.dof(b, 1), tb)
                for a, b, ta, tb, _, _ in self.ends
            ],
            dtype=np.int64,
        )
        n = len(self.owners)
        free = np.array([i for i in range(n) if i not in self.fixed], dtype=np.int64)
        rows, columns = np.repeat(own, 6, axis=1).ravel(), np.tile(own, (1, 6)).ravel()
        graph = coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(n, n)).tocsr()[free][:, free]
        across = np.asarray(reverse_cuthill_mckee(graph, symmetric_mode=True), dtype=np.int64)
        self.order = np.empty(n, dtype=np.int64)  # the number of each degree of freedom in the arrays
        self.order[free[across]] = np.arange(len(free))
        self.order[sorted(self.fixed)] = np.arange(len(free), n)
        places = np.array(self.places)
        along = np.array([places[b] - places[a] for a, b, *_ in self.ends])
        spring = np.zeros(len(free))
        for dof, stiffness in self.springs.items():
            if dof not in self.fixed:
                spring[self.order[dof]] = stiffness
        points = max(len(profile.level) for profile in self.profiles)
        pad = [points - len(profile.level) for profile in self.profiles]
        return Elements(
            self.order[own],
            along[:, 0].copy(),
            along[:, 1].copy(),
            np.hypot(*along.T),
            np.array([end[4] for end in self.ends], dtype=np.int64),
            np.array([end[5] for end in self.ends], dtype=np.int64),
            np.array([np.pad(p.level, (0, k)) for p, k in zip(self.profiles, pad, strict=True)]),
            np.array([np.pad(p.area, (0, k)) for p, k in zip(self.profiles, pad, strict=True)]),
            np.array([p.depth for p in self.profiles]),
            np.array([[LAWS[p.law], p.modulus, p.strength, p.hardening, p.expansion] for p in self.profiles]),
            spring,
        )

    def number(self, node: int, direction: int) -> int:
        """Return where a degree of freedom stands in the arrays."""
        return int(self.order[self._own[node, direction]])

    def load_vector(self) -> Array:
        """Return the loads on free degrees of freedom."""
        out = np.zeros(len(self.owners) - len(self.fixed))
        for dof, value in self.loads.items():
            if dof not in self.fixed:
                out[self.order[dof]] += value
        return out

    def called(self, number: int) -> str:
        """Return the name of a degree of freedom by its place in the arrays."""
        node, direction = self.owners[int(np.flatnonzero(self.order == number)[0])]
        x, y = self.places[node]
        return f"{DIRECTIONS[direction]} of node {self.names[node]} at ({x:g}, {y:g}) m"


def half_band(frame: Elements) -> int:
    """Return the width of the lower band, the diagonal included."""
    free = len(frame.spring)
    inside = np.where(frame.dof < free, frame.dof, -1)
    most = inside.max(axis=1)
    least = np.where(inside < 0, free, inside).min(axis=1)
    return int(max(1, (most - least + 1).max()))


def lumped_masses(frame: Elements, density: float = 7850.0) -> Array:
    """Return the masses of the elements at free degrees of freedom, with the rotary inertia of half an element."""
    out = np.zeros(len(frame.spring))
    half = 0.5 * density * frame.length * frame.area.sum(axis=1)[frame.section]
    for end in (0, 3):
        for direction, share in enumerate((half, half, half * frame.length**2 / 12.0)):
            at = frame.dof[:, end + direction]
            inside = at < len(out)
            np.add.at(out, at[inside], share[inside])
    return out
