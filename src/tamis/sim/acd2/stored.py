"""Packings that are made once: the grains of a packed gabion in a file of the cache, found again by what made it.

A packing takes half a minute and a wall needs several, the same for every run that does not change their grains. A file
is named by a hash of the scene and of the code that packs (`tamis.families.code_hash`), so another seed, net or line of
code is another file; one that is damaged or cannot be written costs the time to pack, and nothing else. It holds the
places ``x`` and quaternions ``q`` of the grains about the middle of the box, and the vertices of all grains in one
row, with where those of each begin.
"""

from __future__ import annotations

import hashlib
import itertools
from contextlib import suppress
from pathlib import Path

import numpy as np

from tamis.errors import StudyError
from tamis.families import cache_folder, code_hash
from tamis.files import load_arrays, save_arrays
from tamis.sim.acd2.drive import pack
from tamis.sim.acd2.packing import content_of
from tamis.sim.acd2.scene import Gabion
from tamis.sim.common.shapes import Convex
from tamis.types import Array

Packed = tuple[list[Convex], Array, Array]  # shapes, places (b, 3), quaternions (b, 4)


def packed(scene: Gabion) -> Packed:
    """Return the grains of a gabion at rest, from the cache or packed now."""
    path = path_of(scene)
    with suppress(StudyError, KeyError):
        kept = load_arrays(path)
        start, points = kept["start"], kept["vertices"]
        shapes = [Convex(tuple(map(tuple, points[i:j]))) for i, j in itertools.pairwise(start)]
        return shapes, kept["x"], kept["q"]
    packing = pack(scene)
    shapes, x, q = packing.shapes, packing.state.x, packing.state.q
    start = np.concatenate([[0], np.cumsum([len(shape.points) for shape in shapes])])
    points = np.concatenate([np.asarray(shape.points) for shape in shapes])
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        save_arrays(path, {"x": x, "q": q, "start": start, "vertices": points})
    return shapes, x, q


def path_of(scene: Gabion) -> Path:
    """Return where the packing of a scene is kept."""
    made_by = f"{scene!r} {content_of(scene.vertices)} {code_hash(Path(__file__).with_name('drive.py'))}"
    return cache_folder() / "packings" / f"{hashlib.sha256(made_by.encode()).hexdigest()[:32]}.npz"
