"""Places of a study file that wait for a run: numerical experiments, and reference tests less a nominal run.

Reading a file runs nothing. What needs numbers of the simulator is left open, and filled in from the artifact of the
stage `synthetic`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tamis.observables import Observable
from tamis.types import Array, Inputs


@dataclass(frozen=True)
class Place:
    """One place of the file, and the run whose numbers belong there."""

    name: str  # under which the numbers are kept
    field: str  # of the file, for messages
    what: str  # "the numerical experiment itself", "the run at the nominal parameters"
    inputs: Inputs
    observable: Observable
    size: int


@dataclass(frozen=True)
class Places:
    """The numbers that are there, and the places that are still open."""

    known: Mapping[str, Array]
    open: list[Place] = field(default_factory=list)

    def numbers(self, place: Place) -> Array | None:
        """Return the numbers of a place; where there are none, take note of it."""
        if place.name not in self.known:
            self.open.append(place)
            return None
        return self.known[place.name]
