"""Bodies, what they are made of and where they are: what a person writes down.

A body is one or several shapes fixed to each other. Its mass is given, or follows from a density; its inertia is
given, or follows exactly from the shapes. Each shape belongs to a *group* (by default one named ``default``), and a
law, friction and restitution, holds between two groups. Groups without a law do not see each other. ::

    ground = Body("ground", [Part(HalfSpace(), group="ground")], fixed=True)
    block = Body("block", [Part(Box((0.2, 0.2, 0.1)))], density=2400.0, position=(0.0, 0.0, 0.05))
    scene = Scene([ground, block], laws=[Law("ground", "default", mu=0.5, e=0.1)])

Units are SI. A position is that of the body's own frame, in which its shapes are placed; the centre of mass is
wherever the shapes put it. An orientation is a quaternion ``(w, x, y, z)``; `about` makes one from an axis and an
angle.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from tamis.errors import StudyError, nearest
from tamis.sim.common.rotations import hamilton, rotation
from tamis.sim.common.shapes import Bore, HalfSpace, Mass, Ring, Shape, hull_of, mass_of
from tamis.sim.common.unions import OVERLAPPING, Placed, may_overlap, union_mass
from tamis.types import Array

Triple = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

_ORIGIN = (0.0, 0.0, 0.0)
_UPRIGHT = (1.0, 0.0, 0.0, 0.0)
_ROUND_OFF = 1e-9


def about(axis: Sequence[float], degrees: float) -> Quaternion:
    """Return the quaternion that turns by an angle about an axis."""
    direction = np.asarray(axis, dtype=np.float64)
    length = float(np.linalg.norm(direction))
    if not (length > 0.0 and math.isfinite(length) and math.isfinite(degrees)):
        raise StudyError(
            f"about needs an axis other than zero and a finite angle; found {axis} and {degrees}"
        )
    half = 0.5 * math.radians(degrees)
    x, y, z = (math.sin(half) / length * direction).tolist()
    return (math.cos(half), x, y, z)


def _numbers(where: str, what: str, value: Any, size: int) -> tuple[float, ...]:
    """Return so many finite numbers, or say what is there instead."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise StudyError(f"{where}: {what} must be {size} finite numbers, found {value!r}")
    return tuple(array.tolist())


def _number(where: str, what: str, value: Any) -> float:
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        return float(value)
    raise StudyError(f"{where}: {what} must be a number, found {value!r}")


def _listed(where: str, what: str, values: Any, kind: type) -> tuple[Any, ...]:
    """Return the entries of a list whose entries are all of one kind."""
    entries = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else (values,)
    for entry in entries:
        if not isinstance(entry, kind) or entries == (values,):
            raise StudyError(f"{where}: {what} must be a list of {kind.__name__}(...), found {entry!r}")
    return entries


def _pair_of_groups(entry: Any) -> tuple[str, str]:
    if isinstance(entry, str) or not isinstance(entry, Sequence) or len(entry) != 2:
        raise StudyError(
            f'scene: ignore must be a list of pairs of groups, such as ("a", "b"), found {entry!r}'
        )
    return (entry[0], entry[1])


@dataclass(frozen=True)
class Part:
    """One shape of a body: the group whose laws it obeys, and its place in the body's frame."""

    shape: Shape
    group: str = "default"
    centre: Triple = _ORIGIN
    turn: Quaternion = _UPRIGHT

    def __post_init__(self) -> None:
        if not isinstance(self.group, str):
            raise StudyError(f"a group is a name, found {self.group!r}")
        where = f"part of group {self.group}"
        if not isinstance(self.shape, Shape):
            raise StudyError(f"{where}: expected a shape, such as Box((1.0, 1.0, 1.0)), found {self.shape!r}")
        hull_of(self.shape)  # refuses points without a volume here, where they are given
        object.__setattr__(self, "centre", _numbers(where, "centre", self.centre, 3))
        object.__setattr__(self, "turn", _numbers(where, "turn", self.turn, 4))
        if not any(self.turn):
            raise StudyError(f"{where}: turn is a quaternion other than zero")


@dataclass(frozen=True)
class Motion:
    """Velocities prescribed to a body, linear in time between the instants given, constant after the last.

    ``velocity`` is that of the origin of the body's frame (m/s) and ``spin`` the angular velocity in the body's own
    axes (rad/s), one row an instant.
    """

    times: Sequence[float]
    velocity: Any
    spin: Any = None

    def at(self, times: Array) -> Array:
        """Return (instants, 6): velocity and spin at the times asked for."""
        known = np.asarray(self.times, dtype=np.float64)
        velocity = np.asarray(self.velocity, dtype=np.float64)
        spin = np.zeros_like(velocity) if self.spin is None else np.asarray(self.spin, dtype=np.float64)
        if (
            velocity.shape != (len(known), 3)
            or spin.shape != velocity.shape
            or not np.all(np.diff(known) > 0.0)
        ):
            raise StudyError(
                "a prescribed motion needs rising times and three numbers of velocity (and of spin) for each; found "
                f"times {known.tolist()}, velocity of shape {velocity.shape}, spin of shape {spin.shape}"
            )
        table = np.hstack([velocity, spin])
        if not (np.isfinite(table).all() and np.isfinite(known).all()):
            raise StudyError("a prescribed motion holds nan or inf")
        return np.column_stack([np.interp(times, known, column) for column in table.T])


@dataclass(frozen=True)
class Body:
    """A rigid body. Give ``mass`` or ``density``, or make it ``fixed`` or move it by a prescribed ``motion``.

    ``centre`` is the centre of mass in the body's frame and ``inertia`` (3, 3) that about it, in the body's axes. They
    replace those of the shapes, which fill the body evenly, what overlaps counted once; a centre wants an inertia.
    ``force`` and ``torque`` are constant, in space axes, and act at the centre of mass besides gravity; ``velocity`` is
    that of the centre of mass, ``spin`` the angular velocity, both in space axes.
    """

    name: str
    parts: Sequence[Part]
    mass: float | None = None
    density: float | None = None
    centre: Triple | None = None
    inertia: Any = None
    position: Triple = _ORIGIN
    orientation: Quaternion = _UPRIGHT
    velocity: Triple = _ORIGIN
    spin: Triple = _ORIGIN
    force: Triple = _ORIGIN
    torque: Triple = _ORIGIN
    fixed: bool = False
    motion: Motion | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise StudyError(f"a body needs a name, found {self.name!r}")
        where = f'body "{self.name}"'
        object.__setattr__(self, "parts", _listed(where, "parts", self.parts, Part))
        for what in ("position", "velocity", "spin", "force", "torque", "orientation"):
            size = 4 if what == "orientation" else 3
            object.__setattr__(self, what, _numbers(where, what, getattr(self, what), size))
        if math.hypot(*self.orientation) == 0.0:
            raise StudyError(f'body "{self.name}": the orientation is a quaternion other than zero')
        if self.fixed and (self.motion is not None or any((*self.velocity, *self.spin))):
            what = "a velocity" if self.motion is None else "a motion"
            raise StudyError(f'body "{self.name}" is fixed and yet has {what}; leave out one of the two')
        if self.motion is not None and any((*self.velocity, *self.spin)):
            raise StudyError(f'body "{self.name}" has a motion and yet a velocity; leave out one of the two')
        if self.centre is not None:
            object.__setattr__(self, "centre", _numbers(where, "centre", self.centre, 3))
            if self.inertia is None:
                raise StudyError(
                    f"{where}: a centre of mass that is not that of its shapes needs the inertia about it; give both"
                )
        if self.responds:
            self._check_mass()

    def _check_mass(self) -> None:
        for what in ("mass", "density"):
            value = getattr(self, what)
            if value is not None and not 0.0 < _number(f'body "{self.name}"', what, value) < math.inf:
                raise StudyError(f'body "{self.name}": {what} must be positive and finite, found {value}')
        if (self.mass is None) == (self.density is None):
            given = "neither" if self.mass is None else "both"
            raise StudyError(
                f'body "{self.name}" needs a mass or a density, found {given}; or fixed=True, or a motion'
            )
        for part in self.parts:
            if isinstance(part.shape, HalfSpace):
                raise StudyError(
                    f'body "{self.name}" holds a half-space, which has no mass; make it fixed=True'
                )
        solid = any(not isinstance(part.shape, Ring | Bore) for part in self.parts)
        if not solid and (self.mass is None or self.inertia is None):
            raise StudyError(f'body "{self.name}" has no shape with a volume; give its mass and its inertia')

    @property
    def responds(self) -> bool:
        """Whether forces move it."""
        return not self.fixed and self.motion is None

    def inertial(self) -> tuple[float, Array, Array, Array]:
        """Return mass, centre of mass, principal moments and the principal axes (columns), in the body's frame."""
        shapes = _even(tuple((part.shape, part.centre, part.turn) for part in self.parts))
        if shapes.volume == 0.0:
            mass, centre, tensor = self.mass or 0.0, np.zeros(3), np.eye(3)
        else:
            density = self.density if self.mass is None else self.mass / shapes.volume
            mass, centre = shapes.volume * (density or 1.0), shapes.centre
            tensor = shapes.inertia * (density or 1.0)
        if self.centre is not None:
            centre = np.asarray(self.centre)
        if self.inertia is not None:
            tensor = np.asarray(self.inertia, dtype=np.float64)
            if tensor.shape != (3, 3) or not np.isfinite(tensor).all() or not np.allclose(tensor, tensor.T):
                raise StudyError(f'body "{self.name}": inertia must be a symmetric, finite matrix of 3 x 3')
        moments, axes = principal(tensor)
        largest = moments.max()
        if not (moments.min() > 0.0 and 2.0 * largest <= moments.sum() * (1.0 + _ROUND_OFF)):
            raise StudyError(
                f'body "{self.name}": principal moments of inertia {moments} kg m2 belong to no body; each must be '
                "positive and none may exceed the sum of the other two"
            )
        return mass, centre, moments, axes


@dataclass(frozen=True)
class Law:
    """Friction coefficient and coefficient of restitution between two groups, in either order."""

    one: str
    other: str
    mu: float
    e: float = 0.0

    def __post_init__(self) -> None:
        where = f"law of {self.one} and {self.other}"
        if not 0.0 <= _number(where, "mu", self.mu) < math.inf:
            raise StudyError(f"{where}: mu must be zero or positive and finite, found {self.mu}")
        if not 0.0 <= _number(where, "e", self.e) <= 1.0:
            raise StudyError(f"{where}: e must lie between 0 and 1, found {self.e}")


@dataclass(frozen=True)
class AxialStop:
    """A slack link between a point of one body and a point of another: no force until its play is used up.

    Its length is the distance of the two points (a cable, a sling), or, with an ``axis`` given in the frame of the
    first body, how far the second point lies along that axis from the first (a bar that slides in another). The
    length may not exceed ``longest`` nor fall below ``shortest``; at the limit the link pulls or pushes, with
    restitution ``e`` and, across an axis, with friction ``mu``, and it cannot slip off. ``name`` is what the ledger
    calls it, with all others of that name.
    """

    one: str
    other: str
    at_one: Triple = _ORIGIN
    at_other: Triple = _ORIGIN
    longest: float | None = None
    shortest: float | None = None
    axis: Triple | None = None
    e: float = 0.0
    mu: float = 0.0
    name: str = "stop"

    def __post_init__(self) -> None:
        where = f'stop "{self.name}" of {self.one} and {self.other}'
        for what in ("at_one", "at_other", "axis"):
            if what != "axis" or self.axis is not None:
                object.__setattr__(self, what, _numbers(where, what, getattr(self, what), 3))
        if self.axis is not None and not any(self.axis):
            raise StudyError(f"{where}: the axis is a direction other than zero; leave it out for a cable")
        if not 0.0 <= _number(where, "e", self.e) <= 1.0:
            raise StudyError(f"{where}: e must lie between 0 and 1, found {self.e}")
        if not 0.0 <= _number(where, "mu", self.mu) < math.inf or (self.mu and self.axis is None):
            only = "; only a stop with an axis has a plane to rub on" if self.axis is None else ""
            raise StudyError(f"{where}: mu must be zero or positive and finite, found {self.mu}{only}")
        limits = [what for what in ("shortest", "longest") if getattr(self, what) is not None]
        if not limits:
            raise StudyError(f"{where}: give longest, the length at which it is taut, or shortest, or both")
        for what in limits:
            value = _number(where, what, getattr(self, what))
            if not math.isfinite(value) or (self.axis is None and value <= 0.0):
                sign = "" if self.axis is not None else " and, without an axis, positive"
                raise StudyError(f"{where}: {what} must be finite{sign}, found {value}")
        if self.shortest is not None and self.longest is not None and not self.shortest < self.longest:
            raise StudyError(
                f"{where}: shortest must lie below longest, found {self.shortest} and {self.longest} m"
            )
        if self.one == self.other:
            raise StudyError(f"{where}: it joins two bodies, found one")


@dataclass(frozen=True)
class Scene:
    """Bodies, laws between their groups, gravity (m/s2), and stops between bodies.

    ``ignore`` lists pairs of groups that may touch and overlap without a law; of others that do, a run warns.
    """

    bodies: Sequence[Body]
    laws: Sequence[Law] = ()
    gravity: Triple = (0.0, 0.0, -9.81)
    stops: Sequence[AxialStop] = ()
    ignore: Sequence[tuple[str, str]] = ()
    groups: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        listed = _listed("scene", "bodies", self.bodies, Body)
        bodies = tuple(sorted(listed, key=lambda body: str(body.name)))
        object.__setattr__(self, "bodies", bodies)  # so that the order of listing cannot change a result
        object.__setattr__(self, "laws", _listed("scene", "laws", self.laws, Law))
        if not bodies:
            raise StudyError("a scene needs at least one body")
        names = [body.name for body in bodies]
        twice = (
            sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
        )
        if twice:
            raise StudyError(f"two bodies have the same name: {', '.join(twice)}")
        object.__setattr__(self, "gravity", _numbers("scene", "gravity", self.gravity, 3))
        groups = tuple(sorted({part.group for body in bodies for part in body.parts}))
        object.__setattr__(self, "groups", groups)
        seen = set()
        for law in self.laws:
            self._check_groups("a law", (law.one, law.other))
            pair = frozenset((law.one, law.other))
            if pair in seen:
                raise StudyError(f"two laws for {law.one} and {law.other}; keep one")
            seen.add(pair)
            self._check_rings(law)
        object.__setattr__(self, "ignore", tuple(_pair_of_groups(entry) for entry in self.ignore))
        for one, other in self.ignore:
            self._check_groups("ignore", (one, other))
            if frozenset((one, other)) in seen:
                raise StudyError(f"{one} and {other} have a law and are to be ignored; keep one of the two")
        object.__setattr__(self, "stops", _listed("scene", "stops", self.stops, AxialStop))
        known = dict(zip(names, bodies, strict=True))
        for stop in self.stops:
            for name in (stop.one, stop.other):
                if name not in known:
                    raise StudyError(
                        f'a stop "{stop.name}" names the body "{name}", which is not there{nearest(name, names)}'
                    )
            if not (known[stop.one].responds or known[stop.other].responds):
                raise StudyError(f'stop "{stop.name}": neither {stop.one} nor {stop.other} can move')

    def _check_groups(self, what: str, pair: tuple[str, str]) -> None:
        for group in pair:
            if group not in self.groups:
                raise StudyError(
                    f'{what} names the group "{group}", which no body has{nearest(group, self.groups)}'
                )

    def _check_rings(self, law: Law) -> None:
        """Refuse a law by which a ring would hold something that it does not feel."""
        shapes: dict[str, set[str]] = {law.one: set(), law.other: set()}
        for body in self.bodies:
            for part in body.parts:
                if part.group in shapes:
                    shapes[part.group].add(type(part.shape).__name__)
        for ring, bar in ((law.one, law.other), (law.other, law.one)):
            if (
                shapes[ring]
                and shapes[ring] <= {"Ring", "Bore"}
                and not shapes[bar] & {"Cylinder", "Capsule"}
            ):
                found = ", ".join(sorted(shapes[bar]))
                raise StudyError(
                    f"law of {law.one} and {law.other}: a ring or bore holds a Cylinder or a Capsule that "
                    f'passes through it, and the group "{bar}" has neither, but {found}'
                )

    def law_names(self) -> tuple[str, ...]:
        """Return the names by which the ledger knows the laws, then the stops."""
        laws = tuple(f"{law.one}-{law.other}" for law in self.laws)
        return (*laws, *(name for name, _, _ in self.stop_kinds()))

    def stop_kinds(self) -> tuple[tuple[str, float, float], ...]:
        """Return the different names, restitutions and frictions of the stops: each is a law of its own."""
        return tuple(dict.fromkeys((stop.name, stop.e, stop.mu) for stop in self.stops))

    def names(self) -> tuple[str, ...]:
        """Return the names of the bodies, sorted."""
        return tuple(body.name for body in self.bodies)

    def number(self, name: str) -> int:
        """Return the number of a body."""
        names = self.names()
        if name not in names:
            raise StudyError(f'no body "{name}" in the scene{nearest(name, names)}')
        return names.index(name)

    def turned(self, quaternion: Quaternion) -> Scene:
        """Return the same scene, all of it, gravity too, turned about the origin."""
        from dataclasses import replace

        R = rotation(quaternion)

        def turn(vector: Iterable[float]) -> Any:
            return tuple((R @ np.asarray(tuple(vector))).tolist())

        return Scene(
            [
                replace(
                    body,
                    position=turn(body.position),
                    orientation=hamilton(quaternion, body.orientation),
                    velocity=turn(body.velocity),
                    spin=turn(body.spin),
                    force=turn(body.force),
                    torque=turn(body.torque),
                )
                for body in self.bodies
            ],
            self.laws,
            turn(self.gravity),
            self.stops,
            self.ignore,
        )


@lru_cache(maxsize=65536)
def _even(parts: tuple[Placed, ...]) -> Mass:
    """Return volume, centre and inertia of parts that fill a body evenly, what overlaps counted once."""
    solid = [(part, own) for part in parts if (own := mass_of(part[0])).volume > 0.0]
    volume = sum(own.volume for _, own in solid)
    if volume == 0.0:
        return Mass(0.0, np.zeros(3), np.zeros((3, 3)))
    placed = tuple(part for part, _ in solid)
    if may_overlap(placed):
        union = union_mass(placed)
        if union.volume < (1.0 - OVERLAPPING) * volume:
            return union
    turns = [rotation(turn) for _, _, turn in placed]
    centres = [np.asarray(part[1]) + R @ own.centre for (part, own), R in zip(solid, turns, strict=True)]
    centre = np.einsum("i,ij->j", [own.volume for _, own in solid], centres) / volume
    tensor = np.zeros((3, 3))
    for (_, own), R, at in zip(solid, turns, centres, strict=True):
        arm = at - centre
        tensor += R @ own.inertia @ R.T + own.volume * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    return Mass(volume, centre, tensor)


def principal(tensor: Array) -> tuple[Array, Array]:
    """Return principal moments and axes, a right-handed frame; the given axes where they are principal already."""
    off = np.abs(tensor - np.diag(np.diag(tensor))).max()
    if off <= 1e-12 * np.abs(tensor).max():
        return np.diag(tensor).copy(), np.eye(3)
    moments, axes = np.linalg.eigh(0.5 * (tensor + tensor.T))
    if np.linalg.det(axes) < 0.0:
        axes[:, 0] = -axes[:, 0]
    return moments, axes
