"""What became of a scene: paths of points, the energy ledger, contacts and their impulses."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.errors import StudyError, nearest
from tamis.files import save_arrays
from tamis.replays import Replay
from tamis.sim.common.rotations import hamilton, matrices, quaternion_of
from tamis.sim.nscd.arrays import Model, Record, State
from tamis.sim.nscd.drawing import drawn_scene
from tamis.sim.nscd.layout import Frames
from tamis.sim.nscd.scene import Scene
from tamis.types import Array

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Contacts:
    """Contacts of the recorded instants, one row each; the impulse acts on the second body, minus it on the first.

    In a step that was taken in parts a contact has one row a part, with the impulse of that part: add them.
    """

    instant: Indices  # (c,) index into the times
    bodies: tuple[tuple[str, str], ...]
    law: Indices  # (c,) index into the laws of the ledger
    point: Array  # (c, 3) m
    impulse: Array  # (c, 3) N s over the step that ends at the instant, in space axes
    gap: Array  # (c,) m

    def of(self, body: str) -> tuple[Indices, Array]:
        """Return the rows in which a body takes part, and the impulses (rows, 3) that act on it."""
        one, other = np.array(self.bodies, dtype=object).reshape(-1, 2).T
        rows = np.flatnonzero((one == body) | (other == body))
        return rows, np.where((other == body)[rows, None], self.impulse[rows], -self.impulse[rows])


@dataclass(frozen=True, eq=False, repr=False)
class Ledger:
    """Where the energy is and where it went, in J; rows are instants, columns of the works are laws.

    The works are those of contact forces, negative where energy is lost. With theta = 1/2,
    ``kinetic + potential - impact - friction - driver`` summed over laws is constant to round-off.
    """

    laws: tuple[str, ...]
    kinetic: Array  # (t,)
    potential: Array  # (t,)
    impact: Array  # (t, laws)
    friction: Array  # (t, laws)
    gain: (
        Array  # (t, laws) what bodies in touch gained in a step, all contacts together, by the laws that gave
    )
    driver: Array  # (t,) work of prescribed motions and constant torques
    scale: float  # the energy by which changes are judged

    @property
    def energy(self) -> Array:
        """Kinetic and potential energy."""
        return self.kinetic + self.potential

    @property
    def closure(self) -> float:
        """Return the largest gap in the books, over `scale`."""
        rest = self.energy - self.impact.sum(axis=1) - self.friction.sum(axis=1) - self.driver
        return float(np.abs(rest - rest[0]).max()) / self.scale


@dataclass(frozen=True, eq=False, repr=False)
class Solver:
    """What the contact problem cost, one row a step."""

    iterations: Indices  # sweeps, also of few contacts, steps of direct methods, rounds of patches
    contacts: Indices  # at the end of the step
    residual: Array
    converged: Array
    worst: tuple[
        tuple[str, str], ...
    ]  # bodies of the contact with the largest residual, empty without contacts


@dataclass(frozen=True, eq=False, repr=False)
class History:
    """A run: instants, poses of all bodies, ledger, contacts and what the solver did."""

    scene: Scene
    times: Array  # (t,)
    x: Array  # (t, b, 3) centres of mass
    q: Array  # (t, b, 4) principal axes
    v: Array  # (t, b, 6) velocity in space axes, angular velocity in principal axes
    ledger: Ledger
    contacts: Contacts
    solver: Solver
    frames: Frames
    h: float  # s, the time step
    rest: float  # s, since when nothing moved faster than the limit of rest; nan if the run did not end by it
    digest: str  # hash of the final state

    def __repr__(self) -> str:
        bodies, steps = len(self.scene.bodies), len(self.solver.residual)
        return f"History({bodies} bodies, {self.times[-1]:g} s in {steps} steps, {len(self.times)} instants recorded)"

    @classmethod
    def of(
        cls,
        scene: Scene,
        model: Model,
        state: State,
        frames: Frames,
        kept: Record,
        h: float,
        size: float,
        rest: float,
    ) -> History:
        """Gather a record of the kernels."""
        names = scene.names()
        used = int(kept.listed.used[0])
        digest = hashlib.sha256(b"".join(part.tobytes() for part in (state.x, state.q, state.v))).hexdigest()
        return cls(
            scene=scene,
            times=h
            * np.minimum(
                int(kept.track.every[0]) * np.arange(len(kept.track.x)), len(kept.steps.status)
            ).astype(np.float64),
            x=kept.track.x,
            q=kept.track.q,
            v=kept.track.v,
            ledger=Ledger(
                laws=scene.law_names() or ("none",),
                kinetic=kept.track.energy[:, 0],
                potential=kept.track.energy[:, 1],
                impact=kept.track.work[:, :, 0],
                friction=kept.track.work[:, :, 1],
                gain=kept.track.work[:, :, 2],
                driver=kept.track.driver.sum(axis=1),
                scale=cls.energy_scale(model, kept, size),
            ),
            contacts=Contacts(
                instant=kept.listed.instant[:used].copy(),
                bodies=tuple((names[i], names[j]) for i, j in kept.listed.bodies[:used]),
                law=kept.listed.law[:used].copy(),
                point=kept.listed.point[:used],
                impulse=kept.listed.impulse[:used],
                gap=kept.listed.gap[:used],
            ),
            solver=Solver(
                iterations=kept.steps.report[:, :-1].sum(axis=1),
                contacts=kept.steps.active,
                residual=kept.steps.residual,
                converged=kept.steps.status == 0,
                worst=tuple((names[i], names[j]) if i >= 0 else ("", "") for i, j in kept.steps.worst),
            ),
            frames=frames,
            h=h,
            rest=rest,
            digest=digest,
        )

    @staticmethod
    def energy_scale(model: Model, kept: Record, size: float) -> float:
        """Return the initial energy above the lowest that was reached, and at least a fall by the smallest shape."""
        kinetic, potential = kept.track.energy[0]
        fall = float(potential - kept.track.energy[:, 1].min())
        weights = np.linalg.norm(model.bodies.force[model.bodies.number >= 0, :3], axis=1).sum()
        return float(kinetic) + max(fall, 0.0) + float(weights) * size or 1.0

    def path(self, body: str, point: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Array:
        """Return (t, 3): where a point of a body, given in the body's frame, was."""
        i = self._number(body)
        at: Array = self.x[:, i] + np.einsum("tij,j->ti", self.rotations(i), self._own(i, point))
        return at

    def velocity(self, body: str, point: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Array:
        """Return (t, 3): how fast that point moved, in space axes."""
        i = self._number(body)
        spin = np.cross(self.v[:, i, 3:], self._own(i, point)[None, :])
        speed: Array = self.v[:, i, :3] + np.einsum("tij,tj->ti", self.rotations(i), spin)
        return speed

    def poses(self, i: int) -> tuple[Array, Array]:
        """Return (t, 3), (t, 4): where the frame of a body was, and the quaternion of its axes."""
        at = self.x[:, i] + np.einsum("tij,j->ti", self.rotations(i), self._own(i, (0.0, 0.0, 0.0)))
        turn = np.column_stack(hamilton(self.q[:, i].T, quaternion_of(self.frames.axes[i].T)))
        return at, turn / np.linalg.norm(turn, axis=1)[:, None]

    def replay(self) -> Replay:
        """Return every shape and every stop at every recorded instant, with the speed of its body."""
        poses = [self.poses(i) for i in range(len(self.scene.bodies))]
        shapes, places, owners = drawn_scene(self.scene, poses)
        speed = np.linalg.norm(self.v[:, :, :3], axis=2)
        return Replay(shapes, self.times, places, {"speed [m/s]": speed[:, owners]})

    def arrays(self) -> dict[str, Any]:
        """Return the run as plain arrays: poses and velocities of all bodies, contact forces, the ledger, the solver.

        ``position`` and ``orientation`` are those of the bodies' frames, ``velocity`` that of their centres of mass and
        ``spin`` their angular velocity, all in space axes. Contacts are listed if the run recorded them: the force
        is the impulse over the step that ends at the instant, on the second body of the two; of a step in parts, each
        part gives its share.
        """
        names = self.scene.names()
        number = {name: i for i, name in enumerate(names)}
        poses = [self.poses(i) for i in range(len(names))]
        spin = [np.einsum("tij,tj->ti", self.rotations(i), self.v[:, i, 3:]) for i in range(len(names))]
        touch, books = self.contacts, self.ledger
        pairs = [(number[one], number[other]) for one, other in touch.bodies]
        return {
            "bodies": np.array(names),
            "times": self.times,
            "position": np.stack([at for at, _ in poses], axis=1),
            "orientation": np.stack([turn for _, turn in poses], axis=1),
            "velocity": self.v[:, :, :3],
            "spin": np.stack(spin, axis=1),
            "rest": np.array(self.rest),
            "contact_instant": touch.instant,
            "contact_bodies": np.array(pairs, dtype=np.int64).reshape(-1, 2),
            "contact_law": touch.law,
            "contact_point": touch.point,
            "contact_force": touch.impulse / self.h,
            "contact_gap": touch.gap,
            "laws": np.array(books.laws),
            "kinetic": books.kinetic,
            "potential": books.potential,
            "impact": books.impact,
            "friction": books.friction,
            "gain": books.gain,
            "driver": books.driver,
            "step_contacts": self.solver.contacts,
            "step_iterations": self.solver.iterations,
            "step_residual": self.solver.residual,
        }

    def save(self, path: str | Path) -> None:
        """Write the run to a file that ``numpy.load`` reads, as `arrays` names it."""
        if Path(path).suffix != ".npz":
            raise StudyError(f'a run is saved to a file that ends in .npz, found "{path}"')
        save_arrays(Path(path), self.arrays())

    def rotations(self, i: int) -> Array:
        """Return (t, 3, 3): the principal axes of a body as columns."""
        return matrices(self.q[:, i])

    def _own(self, i: int, point: tuple[float, float, float]) -> Array:
        at: Array = self.frames.axes[i].T @ (np.asarray(point, dtype=np.float64) - self.frames.centre[i])
        return at

    def _number(self, body: str) -> int:
        names = self.scene.names()
        if body not in names:
            raise StudyError(f'no body "{body}" in this history{nearest(body, names)}')
        return names.index(body)
