"""Rolled sections as three plates, without root fillets, and the points at which their stresses are summed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tamis.errors import StudyError, nearest
from tamis.types import Array

FIBRES = {  # through the thickness of a flange, along the web, and whether they are Gauss points or equal layers
    "7": (2, 3, True),
    "15": (4, 7, True),
    "20": (4, 12, False),
}


@dataclass(frozen=True)
class Section:
    """An I-section bent about its strong axis: depth, width, thickness of flanges and web, in m."""

    name: str
    depth: float
    width: float
    flange: float
    web: float

    @property
    def area(self) -> float:
        """Area of the three plates."""
        return 2.0 * self.width * self.flange + (self.depth - 2.0 * self.flange) * self.web

    def section_factor(self, sides: int) -> float:
        """Heated perimeter over area, in 1/m: all around (4), or without the top face of the upper flange (3)."""
        around = 4.0 * self.width - 2.0 * self.web + 2.0 * self.depth
        return (around - (4 - sides) * self.width) / self.area

    def box_factor(self, sides: int) -> float:
        """Perimeter of the box around the section over its area, in 1/m."""
        return (2.0 * self.depth + (sides - 2) * self.width) / self.area

    def fibres(self, points: str) -> tuple[Array, Array]:
        """Return heights above the axis and areas of `FIBRES`; Gauss points are exact for linear stresses."""
        flange, web, gauss = FIBRES[points]
        half, inside = 0.5 * self.depth, 0.5 * self.depth - self.flange
        levels, areas = [], []
        for low, high, width, n in (
            (-half, -inside, self.width, flange),
            (-inside, inside, self.web, web),
            (inside, half, self.width, flange),
        ):
            layers = (2.0 * np.arange(n) + 1.0) / n - 1.0, np.full(n, 2.0 / n)
            x, w = np.polynomial.legendre.leggauss(n) if gauss else layers
            levels.append(0.5 * (low + high) + 0.5 * (high - low) * x)
            areas.append(0.5 * (high - low) * width * w)
        return np.concatenate(levels), np.concatenate(areas)


def bar(area: float, inertia: float) -> tuple[Array, Array, float]:
    """Return two fibres of given area and second moment of area, and their distance."""
    half = float(np.sqrt(inertia / area))
    return np.array([-half, half]), np.array([0.5 * area, 0.5 * area]), 2.0 * half


_ROLLED = {  # mm: depth, width, flange, web (EN 10365)
    "HEA100": (96, 100, 8.0, 5.0),
    "HEA120": (114, 120, 8.0, 5.0),
    "HEA140": (133, 140, 8.5, 5.5),
    "HEA160": (152, 160, 9.0, 6.0),
    "HEA180": (171, 180, 9.5, 6.0),
    "HEA200": (190, 200, 10.0, 6.5),
    "HEB100": (100, 100, 10.0, 6.0),
    "HEB120": (120, 120, 11.0, 6.5),
    "HEB140": (140, 140, 12.0, 7.0),
    "HEB160": (160, 160, 13.0, 8.0),
    "HEB180": (180, 180, 14.0, 8.5),
    "HEB200": (200, 200, 15.0, 9.0),
    "HEB220": (220, 220, 16.0, 9.5),
    "HEB240": (240, 240, 17.0, 10.0),
    "IPE200": (200, 100, 8.5, 5.6),
    "IPE220": (220, 110, 9.2, 5.9),
    "IPE240": (240, 120, 9.8, 6.2),
    "IPE270": (270, 135, 10.2, 6.6),
    "IPE300": (300, 150, 10.7, 7.1),
    "IPE330": (330, 160, 11.5, 7.5),
    "IPE360": (360, 170, 12.7, 8.0),
}
SECTIONS = {name: Section(name, *(0.001 * size for size in sizes)) for name, sizes in _ROLLED.items()}


def section(name: str) -> Section:
    """Return a section by name."""
    if name not in SECTIONS:
        raise StudyError(f'no section "{name}"{nearest(name, SECTIONS)}')
    return SECTIONS[name]
