"""Grains of a gabion: their shape, how they scatter about it, and where they begin.

A grain is a block of plan a x c and height b, upright over the middle half of its height, with a hip roof above and
below whose ridge has the length d: 12 faces and 12 corners. The figure that showed the paper's grains is not available;
this is a choice, scaled so that the mean dimensions have a given volume. Any other shape may be given by its vertices.
"""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path

import numpy as np

from tamis.errors import StudyError
from tamis.sheets import read_csv
from tamis.sim.acd2.kernels import Grains
from tamis.sim.common.shapes import Contactor, Convex, geometry_of, mass_of, reach_of
from tamis.types import Array


def corners(a: float, b: float, c: float, d: float) -> Array:
    """Return the twelve corners of a grain."""
    upright = [(x * a / 2, y * c / 2, z * b / 4) for x, y, z in itertools.product((-1, 1), repeat=3)]
    ridges = [(x * d / 2, 0.0, z * b / 2) for x, z in itertools.product((-1, 1), repeat=2)]
    return np.array(upright + ridges)


def scatter(
    n: int,
    mean: Array,
    dispersion: float,
    volume: float,
    rng: np.random.Generator,
    given: Array | None = None,
) -> list[Convex]:
    """Draw grains: each dimension within its dispersion, all scaled as grains of mean dimensions have the volume.

    Where vertices are ``given``, the dimensions are the factors along their three axes.
    """
    nominal = mass_of(Convex(tuple(map(tuple, corners(*mean) if given is None else given)))).volume
    scale = (volume / nominal) ** (1.0 / 3.0)
    if given is not None:
        factors = scale * (1.0 + dispersion * rng.uniform(-1.0, 1.0, (n, 3)))
        return [_centred(given * factor) for factor in factors]
    sizes = scale * mean * (1.0 + dispersion * rng.uniform(-1.0, 1.0, (n, 4)))
    return [_centred(corners(*size)) for size in sizes]


def read_vertices(path: str) -> Array | None:
    """Read the vertices of a grain from a CSV file with columns x, y, z: those of its convex hull, in any unit.

    No file is named where grains have the shape of `corners`.
    """
    if not path:
        return None
    sheet = read_csv(path)
    points = np.column_stack([sheet.numbers(name) for name in "xyz"])
    spread: Array = points - points.mean(axis=0)
    if len(points) < 4 or np.linalg.svd(spread, compute_uv=False)[2] <= 1e-6 * np.abs(spread).max():
        raise StudyError(
            f"{sheet.path.name}: the vertices of a grain are at least 4 points that do not lie in a plane, found "
            f"{len(points)}" + (" in a plane" if len(points) > 3 else "")
        )
    return spread


def content_of(path: str) -> str:
    """Return a hash of what a file of vertices says; empty if none is named."""
    if read_vertices(path) is None:
        return ""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _centred(points: Array) -> Convex:
    """Return the shape about its centre of mass, in its principal axes."""
    about = mass_of(Convex(tuple(map(tuple, points))))
    _, axes = np.linalg.eigh(about.inertia)
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    return Convex(tuple(map(tuple, (points - about.centre) @ axes)))


def grains_of(shapes: list[Convex], density: float) -> Grains:
    """Lay grains out as the arrays of a run."""
    mass = np.empty((len(shapes), 6))
    for row, shape in zip(mass, shapes, strict=True):
        about = mass_of(shape)
        row[:3], row[3:] = density * about.volume, density * np.diag(about.inertia)
    geometry = geometry_of([Contactor(shape, i, 0) for i, shape in enumerate(shapes)])
    return Grains(geometry, mass, np.ones((1, 1), dtype=np.bool_), np.ones(len(shapes), dtype=np.bool_))


def lattice(shapes: list[Convex], rng: np.random.Generator) -> tuple[Array, Array, float]:
    """Return places on a jittered lattice, random quaternions and the side of the cube that holds them."""
    reach = np.array([reach_of(shape) for shape in shapes])
    across, pitch = int(np.ceil(len(shapes) ** (1.0 / 3.0) - 1e-9)), 2.0 * float(reach.max())
    cells = np.array(list(itertools.product(range(across), repeat=3)))[: len(shapes)]
    x = (cells + 0.5 - 0.5 * across) * pitch
    x += (0.5 * pitch - reach)[:, None] * rng.uniform(-1.0, 1.0, x.shape) / np.sqrt(3.0)
    q = rng.standard_normal((len(shapes), 4))
    return x, q / np.linalg.norm(q, axis=1)[:, None], across * pitch
