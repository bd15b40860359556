"""Bodies to look at: what a simulator shows of one run when it is asked to.

Ordinary runs stay light: a replay is asked for separately, by running a point again.
It holds shapes and where they are, nothing of the mechanics, so that whoever draws it needs no simulator.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tamis.errors import StudyError, nearest
from tamis.files import replacing
from tamis.types import Array, Inputs

Kind: TypeAlias = Literal[
    "sphere", "box", "cylinder", "capsule", "convex", "halfspace", "ring", "disk", "line"
]

_SIZES: dict[str, tuple[str, ...]] = {
    "sphere": ("radius",),
    "box": ("edge along x", "edge along y", "edge along z"),
    "cylinder": ("radius", "length"),
    "capsule": ("radius", "length of the straight part"),
    "convex": (),
    "halfspace": (),
    "ring": ("radius",),
    "disk": ("radius",),
    "line": (),
}
_LEAST = {"convex": (4, 3, 4), "line": (2, 2, 0)}  # points, points of a face or strand, faces
_NUMBERS = {2: "two", 3: "three", 4: "four"}
_MAY_BE_ZERO = ("length of the straight part",)
_MAGIC, _FORM = b"tamisrpl", 1
_UNIT = 1e-4  # how far the norm of a quaternion may be from one; single precision leaves some 1e-7


@dataclass(frozen=True)
class Shape:
    """One shape in its own axes, centred at the origin; lengths in m.

    ``size`` is the radius of a sphere, of a ring (the rim of a hole) or of a thin disk, both in the plane z = 0, the
    three edges of a box, the radius and length along z of a cylinder or a capsule (its straight part). A half-space is
    solid where z < 0. A convex polyhedron has ``points`` and ``faces``, tuples of point numbers around each face. A
    line (a rail, a frame, a net) runs through its ``points``, or along each of its ``faces`` where it has several
    strands. Shapes of one ``group`` share a colour.
    """

    kind: Kind
    size: tuple[float, ...] = ()
    group: str = ""
    points: Array | None = None
    faces: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise StudyError(f'no shape "{self.kind}"{nearest(self.kind, get_args(Kind))}')
        names = _SIZES[self.kind]
        if len(self.size) != len(names):
            wanted = f"({', '.join(names)})" if names else "()"
            raise StudyError(f"{self.kind}: expected size {wanted}, found {self.size}")
        for name, value in zip(names, self.size, strict=True):
            if not (np.isfinite(value) and (value > 0 or (value == 0 and name in _MAY_BE_ZERO))):
                raise StudyError(f"{self.kind}: {name} must be positive, found {value:g}")
        if self.kind not in _LEAST:
            if self.points is not None or self.faces:
                raise StudyError(f"{self.kind}: only a convex shape or a line has points and faces")
            return
        corners, around, count = _LEAST[self.kind]
        points = np.asarray([] if self.points is None else self.points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != 3 or len(points) < corners or not np.isfinite(points).all():
            raise StudyError(
                f"{self.kind}: expected at least {_NUMBERS[corners]} finite points (n, 3), found shape {points.shape}"
            )
        if len(self.faces) < count or any(
            len(face) < around or not 0 <= min(face) <= max(face) < len(points) for face in self.faces
        ):
            many = f"at least {_NUMBERS[count]} faces" if count else "strands"
            raise StudyError(
                f"{self.kind}: expected {many}, each of {_NUMBERS[around]} or more numbers below {len(points)}, "
                f"found {self.faces}"
            )
        object.__setattr__(self, "points", points)


@dataclass(frozen=True)
class Replay:
    """Shapes in motion: T instants, B shapes.

    B counts shapes, not bodies: a compound body is several shapes, each with the pose of its own row, so that whoever
    draws them need not know which belong together. The first and the last instant of the motion are always there.

    Parameters
    ----------
    shapes
        What is drawn, in the order of the rows of ``poses``.
    times
        (T,), increasing, in s.
    poses
        (T, B, 7), kept in single precision: position in m, then the unit quaternion (w, x, y, z) that turns the
        shape's axes into the world's.
    fields
        Numbers to colour by, each (T, B), NaN where a shape has none; the key may carry a unit, ``speed [m/s]``.
    enlarged
        How many times as large as they are displacements are drawn; pictures say it where it is not 1.
    """

    shapes: tuple[Shape, ...]
    times: Array
    poses: NDArray[np.float32]
    fields: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    enlarged: float = 1.0

    def __post_init__(self) -> None:
        times = np.asarray(self.times, dtype=np.float64)
        poses = np.asarray(self.poses, dtype=np.float32)
        if not self.shapes:
            raise StudyError("a replay needs at least one shape, found none")
        if times.ndim != 1 or not len(times) or not np.isfinite(times).all() or (np.diff(times) <= 0).any():
            raise StudyError("times of a replay: expected (T,) finite increasing numbers")
        wanted = (len(times), len(self.shapes))
        if poses.shape != (*wanted, 7):
            raise StudyError(
                f"poses of a replay: expected {(*wanted, 7)}, instants by shapes by position and quaternion, "
                f"found {poses.shape}"
            )
        norm = np.linalg.norm(poses[..., 3:], axis=-1)
        bad = ~(np.isfinite(poses).all(axis=-1) & (np.abs(norm - 1.0) < _UNIT))
        if bad.any():
            t, b = np.argwhere(bad)[0]
            raise StudyError(
                f"poses of a replay: expected finite positions and unit quaternions (w, x, y, z), found "
                f"{poses[t, b].tolist()} at instant {t}, shape {b}"
            )
        for name, values in self.fields.items():
            if np.shape(values) != wanted:
                raise StudyError(
                    f'field "{name}" of a replay: expected {wanted}, instants by shapes, found {np.shape(values)}'
                )
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "poses", poses)

    def to_bytes(self) -> bytes:
        """Write a replay in a form that a browser can read as well, see `load`."""
        kinds: dict[str, int] = {}
        numbers = [kinds.setdefault(_spelled(shape), len(kinds)) for shape in self.shapes]
        head = json.dumps(
            {
                "instants": len(self.times),
                "shapes": [json.loads(kind) for kind in kinds],
                "bodies": numbers,
                "fields": list(self.fields),
                "enlarged": self.enlarged,
            }
        ).encode()
        head += b" " * (-(len(head) + 16) % 8)
        fields = [np.asarray(values, dtype="<f4").tobytes() for values in self.fields.values()]
        arrays = [self.times.astype("<f8").tobytes(), self.poses.astype("<f4").tobytes(), *fields]
        return b"".join([_MAGIC, struct.pack("<II", _FORM, len(head)), head, *arrays])

    @classmethod
    def from_bytes(cls, content: bytes) -> Replay:
        """Read what `to_bytes` wrote."""
        try:
            form, length = struct.unpack("<II", content[8:16])
            if content[:8] != _MAGIC or form != _FORM:
                raise ValueError(f"it begins with {content[:8]!r}, form {form}")
            head, start = json.loads(content[16 : 16 + length]), 16 + length
            kinds = [_shape(kind) for kind in head["shapes"]]
            t, b = head["instants"], len(head["bodies"])
            times = np.frombuffer(content, "<f8", t, start)
            poses = np.frombuffer(content, "<f4", t * b * 7, start + 8 * t).reshape(t, b, 7)
            start += 8 * t + 28 * t * b
            fields = {
                name: np.frombuffer(content, "<f4", t * b, start + 4 * t * b * k).reshape(t, b)
                for k, name in enumerate(head["fields"])
            }
            shapes = tuple(kinds[i] for i in head["bodies"])
            return cls(shapes, times, poses, fields, head.get("enlarged", 1.0))
        except (ValueError, KeyError, IndexError, TypeError, struct.error) as error:
            raise StudyError(f"this is no replay, or a damaged one ({error}); make it again") from error

    def save(self, path: Path) -> None:
        """Write a replay to a file."""
        with replacing(path) as stream:
            stream.write(self.to_bytes())

    @classmethod
    def load(cls, path: Path) -> Replay:
        """Read a replay from a file.

        Eight bytes ``tamisrpl``, form and length of a head as little-endian 32-bit numbers, the head as JSON padded by
        blanks to a multiple of eight bytes, then times (T) in double and poses (T, B, 7) and fields (T, B) in single
        precision, little-endian. The head has the number of ``instants``, the different ``shapes``, which of them each
        of the ``bodies`` is, the names of the ``fields``, and how many times displacements are ``enlarged``.
        """
        try:
            return cls.from_bytes(path.read_bytes())
        except OSError as error:
            raise StudyError(f'replay "{path}" cannot be read: {error}') from error


def _spelled(shape: Shape) -> str:
    points = None if shape.points is None else shape.points.tolist()
    return json.dumps([shape.kind, shape.size, shape.group, points, shape.faces])


def _shape(spelled: list[Any]) -> Shape:
    kind, size, group, points, faces = spelled
    found = None if points is None else np.array(points)
    return Shape(kind, tuple(size), group, found, tuple(map(tuple, faces)))


@runtime_checkable
class Replayable(Protocol):
    """A simulator that can show one run to look at, never stored."""

    def replay(self, inputs: Inputs, /, fps: float) -> Replay:
        """Run one point again and return it at about ``fps`` instants a second of the motion, both ends included."""


def without_replay(name: str) -> StudyError:
    """Return the error of a simulator that has no replay."""
    return StudyError(
        f"simulator {name} has no replay to look at; a Python function offers one with @NAME.replay, a function "
        "of the same inputs and fps that returns tamis.replays.Replay"
    )


def replayed(name: str, show: Callable[..., Any], fps: float) -> Replay:
    """Ask the simulator called ``name`` for a replay and make sure that it is one."""
    if not fps > 0:
        raise StudyError(f"replay of {name}: fps must be positive, found {fps:g}")
    answer = show(fps=fps)
    if not isinstance(answer, Replay):
        raise StudyError(f"replay of {name}: expected a tamis.replays.Replay, found {type(answer).__name__}")
    return answer
