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
from typing import Any

import numpy as np

from tamis.errors import StudyError, nearest
from tamis.sim.common.rotations import hamilton, rotation
from tamis.sim.common.shapes import HalfSpace, Ring, Shape, hull_of, mass_of
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

    ``inertia`` (3, 3) is about the centre of mass in the body's axes and replaces that of the shapes; ``force`` and
    ``torque`` are constant, in space axes, and act at the centre of mass besides gravity; ``velocity`` is that of the
    centre of mass, ``spin`` the angular velocity, both in space axes.
    """

    name: str
    parts: Sequence[Part]
    mass: float | None = None
    density: float | None = None
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
        solid = any(not isinstance(part.shape, Ring) for part in self.parts)
        if not solid and (self.mass is None or self.inertia is None):
            raise StudyError(f'body "{self.name}" has no shape with a volume; give its mass and its inertia')

    @property
    def responds(self) -> bool:
        """Whether forces move it."""
        return not self.fixed and self.motion is None

    def inertial(self) -> tuple[float, Array, Array, Array]:
        """Return mass, centre of mass, principal moments and the principal axes (columns), in the body's frame."""
        volumes, centres, inertias = [], [], []
        for part in self.parts:
            own = mass_of(part.shape)
            if own.volume > 0.0:
                R = rotation(part.turn)
                volumes.append(own.volume)
                centres.append(np.asarray(part.centre) + R @ own.centre)
                inertias.append(R @ own.inertia @ R.T)
        volume = sum(volumes)
        if volume == 0.0:
            mass, centre, tensor = self.mass or 0.0, np.zeros(3), np.eye(3)
        else:
            centre = np.einsum("i,ij->j", volumes, centres) / volume
            tensor = np.zeros((3, 3))
            for own_volume, at, inertia in zip(volumes, centres, inertias, strict=True):
                arm = at - centre
                tensor += inertia + own_volume * (arm @ arm * np.eye(3) - np.outer(arm, arm))
            density = self.density if self.mass is None else self.mass / volume
            mass, tensor = volume * (density or 1.0), tensor * (density or 1.0)
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
class Scene:
    """Bodies, laws between their groups, and gravity (m/s2)."""

    bodies: Sequence[Body]
    laws: Sequence[Law] = ()
    gravity: Triple = (0.0, 0.0, -9.81)
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
            for group in (law.one, law.other):
                if group not in groups:
                    raise StudyError(
                        f'a law names the group "{group}", which no body has{nearest(group, groups)}'
                    )
            pair = frozenset((law.one, law.other))
            if pair in seen:
                raise StudyError(f"two laws for {law.one} and {law.other}; keep one")
            seen.add(pair)
            self._check_rings(law)

    def _check_rings(self, law: Law) -> None:
        """Refuse a law by which a ring would hold something that it does not feel."""
        shapes: dict[str, set[str]] = {law.one: set(), law.other: set()}
        for body in self.bodies:
            for part in body.parts:
                if part.group in shapes:
                    shapes[part.group].add(type(part.shape).__name__)
        for ring, bar in ((law.one, law.other), (law.other, law.one)):
            if shapes[ring] == {"Ring"} and not shapes[bar] & {"Cylinder", "Capsule"}:
                found = ", ".join(sorted(shapes[bar]))
                raise StudyError(
                    f"law of {law.one} and {law.other}: a ring holds a Cylinder or a Capsule that passes "
                    f'through it, and the group "{bar}" has neither, but {found}'
                )

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
        )


def principal(tensor: Array) -> tuple[Array, Array]:
    """Return principal moments and axes, a right-handed frame; the given axes where they are principal already."""
    off = np.abs(tensor - np.diag(np.diag(tensor))).max()
    if off <= 1e-12 * np.abs(tensor).max():
        return np.diag(tensor).copy(), np.eye(3)
    moments, axes = np.linalg.eigh(0.5 * (tensor + tensor.T))
    if np.linalg.det(axes) < 0.0:
        axes[:, 0] = -axes[:, 0]
    return moments, axes
