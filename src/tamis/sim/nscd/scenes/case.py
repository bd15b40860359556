"""A case: a scene with declared inputs that is let go, which a simulator reads its outputs from and a replay shows."""

from __future__ import annotations

from typing import Any, ClassVar

from tamis.interfaces import Case, port
from tamis.replays import Replay
from tamis.sim.common.shapes import HalfSpace
from tamis.sim.nscd import drive
from tamis.sim.nscd.history import History
from tamis.sim.nscd.scene import Body, Part, Scene

GROUND = Body("ground", [Part(HalfSpace(), group="ground")], fixed=True)


def step_input() -> Any:
    """Declare the time step."""
    return port(1e-3, unit="s", bounds=(1e-6, 0.1), doc="time step")


def duration_input(default: float) -> Any:
    """Declare the time simulated."""
    return port(default, unit="s", bounds=(1e-3, 1e3), doc="time simulated")


def friction_input(default: float, doc: str = "coefficient of friction") -> Any:
    """Declare a coefficient of friction."""
    return port(default, bounds=(0.0, 10.0), doc=doc)


def restitution_input(default: float) -> Any:
    """Declare a coefficient of restitution."""
    return port(default, bounds=(0.0, 1.0), doc="coefficient of restitution")


class Played(Case):
    """A scene that is let go for ``duration`` in steps of ``h``; each case declares both as its last inputs."""

    h: float
    duration: float
    tol: ClassVar[float] = 1e-8

    @property
    def allowed(self) -> float:
        """Bound of the residual of the contact problem in a step."""
        return self.tol

    @property
    def still(self) -> drive.Rest | None:
        """When it may end before the duration."""
        return None

    @property
    def finer(self) -> drive.Finer | None:
        """How long steps are taken in parts."""
        return None

    def scene(self) -> Scene:
        """Return the bodies, the laws between them and gravity."""
        raise NotImplementedError

    def history(self, record: float | None = None, *, contacts: bool = False) -> History:
        """Let the scene go; instants are recorded at every step, or so far apart."""
        return drive.run(
            self.scene(),
            self.duration,
            h=self.h,
            tol=self.allowed,
            record=record,
            contacts=contacts,
            rest=self.still,
            finer=self.finer,
        )

    def record(self) -> dict[str, Any]:
        """Let the scene go once more and return poses, contact forces and all else of every step."""
        return self.history(contacts=True).arrays()

    def replay(self, fps: float) -> Replay:
        """Let the scene go once more and return it to look at."""
        return self.history(1.0 / fps).replay()
