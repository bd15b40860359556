"""Packings that are made once: the grains of a packed gabion in a file of the cache, found again by what made it.

A packing takes half a minute and a wall needs several, the same for every run that does not change their grains. A file
is named by a hash of the scene and of the code that packs (`tamis.families.code_hash`), so another seed, net or line of
code is another file; one that is damaged, or holds other than it should, costs a word and the time to pack, one that
cannot be written the time. It holds the
places ``x`` and quaternions ``q`` of the grains about the middle of the box, and the vertices of all grains in one
row, with where those of each begin.
"""

from __future__ import annotations

import hashlib
import itertools
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np

from tamis.errors import StudyError, TamisWarning
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
    if path.exists():
        try:
            return _read(path, scene.grains)
        except StudyError as error:
            warnings.warn(
                f"a kept packing cannot be used, grains are packed again: {error}", TamisWarning, stacklevel=2
            )
    with warnings.catch_warnings():  # of jumps that end at their limit: the scene it is for looks at overlaps
        warnings.simplefilter("ignore", TamisWarning)
        packing = pack(scene)
    shapes, x, q = packing.shapes, packing.state.x, packing.state.q
    start = np.concatenate([[0], np.cumsum([len(shape.points) for shape in shapes])])
    points = np.concatenate([np.asarray(shape.points) for shape in shapes])
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        save_arrays(path, {"x": x, "q": q, "start": start, "vertices": points})
    return shapes, x, q


def _read(path: Path, grains: int) -> Packed:
    """Return a packing from its file; refuse one that is damaged, is of other grains or holds what is no number."""
    kept = load_arrays(path)
    for name, shape in (
        ("x", (grains, 3)),
        ("q", (grains, 4)),
        ("start", (grains + 1,)),
        ("vertices", (-1, 3)),
    ):
        if name not in kept:
            raise StudyError(f"{path.name} has no {name}")
        found = kept[name].shape
        if len(found) != len(shape) or any(n not in (m, -1) for n, m in zip(shape, found, strict=True)):
            expected = str(shape).replace("-1", "n")
            raise StudyError(
                f"{path.name}: {name} of {grains} grains has the shape {expected}, found {found}"
            )
        if (
            kept[name].dtype.kind not in ("i" if name == "start" else "f")
            or not np.isfinite(kept[name]).all()
        ):
            raise StudyError(f"{path.name}: {name} holds what is no number")
    start, points, q = kept["start"], kept["vertices"], kept["q"]
    if start[0] != 0 or start[-1] != len(points) or np.diff(start).min() < 4:
        raise StudyError(f"{path.name}: its vertices are not those of {grains} grains")
    if np.abs(np.linalg.norm(q, axis=1) - 1.0).max() > 1e-9:  # they are made of length one, to round-off
        raise StudyError(f"{path.name}: its quaternions are not of length one")
    shapes = [Convex(tuple(map(tuple, points[i:j]))) for i, j in itertools.pairwise(start)]
    return shapes, kept["x"], q


def path_of(scene: Gabion) -> Path:
    """Return where the packing of a scene is kept."""
    made_by = f"{scene!r} {content_of(scene.vertices)} {code_hash(Path(__file__).with_name('drive.py'))}"
    return cache_folder() / "packings" / f"{hashlib.sha256(made_by.encode()).hexdigest()[:32]}.npz"
