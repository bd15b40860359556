"""What a simulator is to the rest of tamis: named ports, one method to run it, and interfaces that it may have besides.

Inputs are declared once: by the arguments of a function, or as the fields of a case, a frozen dataclass that describes
one run. A field made by `port` is an input; its default, bounds, unit and meaning are written there and nowhere else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from tamis.errors import StudyError, Unavailable
from tamis.replays import Replayable
from tamis.types import BatchInputs, Inputs, Outputs, Value


@dataclass(frozen=True)
class Port:
    """One named input or output: its unit is a label, compared at the boundary and never converted."""

    name: str
    unit: str = ""
    default: Value | None = None
    bounds: tuple[float, float] | None = None
    kind: Literal["number", "choice", "file"] = "number"
    choices: tuple[str, ...] = ()
    doc: str = ""


def port(default: Value, **about: Any) -> Any:
    """Declare a field of a case as an input: its default, and what else a `Port` says of it."""
    kind = "choice" if about.get("choices") else "number"
    return field(default=default, metadata={"port": Port("", **{"default": default, "kind": kind, **about})})


def ports_of(case: type[Case]) -> dict[str, Port]:
    """Return the inputs that a case declares, in the order of its fields."""
    key: Any = case  # a class can be hashed, whatever its instances
    return _declared(key)


@cache
def _declared(case: Any) -> dict[str, Port]:
    return {
        each.name: replace(each.metadata["port"], name=each.name)
        for each in fields(case)
        if "port" in each.metadata
    }


@dataclass(frozen=True)
class Case:
    """One run of a simulator, described by the fields of a frozen dataclass; inputs are within their bounds."""

    def __post_init__(self) -> None:
        for name, declared in ports_of(type(self)).items():
            value = getattr(self, name)
            if declared.bounds and not declared.bounds[0] <= value <= declared.bounds[1]:
                span = "from {:g} to {:g}".format(*declared.bounds)
                raise StudyError(f"{type(self).__name__.lower()}: {name} must be {span}, found {value:g}")


class Simulator(Protocol):
    """A function from named inputs to named arrays, with a version that is part of every run's key."""

    @property
    def name(self) -> str:
        """Name used in studies and in the run key."""

    @property
    def version(self) -> str:
        """Raise it when results change."""

    @property
    def address(self) -> str:
        """What `find` resolves in a worker process."""

    @property
    def inputs(self) -> Mapping[str, Port]:
        """Input ports by name."""

    @property
    def outputs(self) -> Mapping[str, Port]:
        """Output ports by name."""

    def run(self, inputs: Inputs, workdir: Path) -> Outputs:
        """Run one point; `SimulationError` where the physics fails."""


# What a simulator may offer besides. Whoever wants one of these asks the function below it, and nobody looks for
# attributes: a class of the user's that has none of them is a simulator all the same.


@runtime_checkable
class Batched(Protocol):
    """A simulator that takes microseconds and runs many points at once, never stored."""

    batch_outputs: tuple[str, ...]

    def batch(self, inputs: BatchInputs) -> Outputs:
        """Map (n,) arrays to (n, ...) arrays; a failed row is all NaN."""


def batched(simulator: Simulator, outputs: Iterable[str] = ()) -> Batched | None:
    """Return the simulator as one that runs batches, if it does so for all of these outputs."""
    if isinstance(simulator, Batched) and simulator.batch_outputs:
        return simulator if set(outputs) <= set(simulator.batch_outputs) else None
    return None


def replayable(simulator: Simulator) -> Replayable | None:
    """Return the simulator as one that shows a run, if it does."""
    offered = getattr(
        simulator, "offers_replay", True
    )  # a function has the method whether it offers one or not
    return simulator if offered and isinstance(simulator, Replayable) else None


@runtime_checkable
class Recorded(Protocol):
    """A simulator that can return all that one run computed, far more than its outputs, never stored."""

    offers_record: bool

    def record(self, inputs: Inputs) -> Outputs:
        """Run one point again and return everything as named arrays."""


def recorded(simulator: Simulator) -> Recorded | None:
    """Return the simulator as one that returns whole runs, if it does."""
    return simulator if isinstance(simulator, Recorded) and simulator.offers_record else None


@runtime_checkable
class Foreseeing(Protocol):
    """A simulator that knows what a run will cost without making it."""

    def estimate(self, inputs: Inputs) -> float | None:
        """Return the seconds that a run will take, about; None if it is not known."""


def estimated(simulator: Simulator, inputs: Inputs) -> float | None:
    """Return the seconds that a run will take, if the simulator can say."""
    return simulator.estimate(inputs) if isinstance(simulator, Foreseeing) else None


@runtime_checkable
class Documented(Protocol):
    """A simulator that says what it is, its first line in short."""

    @property
    def doc(self) -> str:
        """A text about it."""


def documentation(simulator: Simulator) -> str:
    """Return what a simulator says about itself; empty if nothing."""
    return simulator.doc if isinstance(simulator, Documented) else ""


@runtime_checkable
class Cited(Protocol):
    """A simulator that says what to cite."""

    @property
    def references(self) -> Sequence[str]:
        """Papers behind it."""


def references(simulator: Simulator) -> tuple[str, ...]:
    """Return the papers behind a simulator."""
    return tuple(simulator.references) if isinstance(simulator, Cited) else ()


@runtime_checkable
class Dependent(Protocol):
    """A simulator that needs what a machine may lack, such as a program."""

    def missing(self) -> str:
        """Say what is missing; empty if nothing."""


def check_present(simulator: Simulator) -> None:
    """Say what a simulator needs and does not find on this machine."""
    if isinstance(simulator, Dependent) and (absent := simulator.missing()):
        raise Unavailable(absent)


@runtime_checkable
class Partial(Protocol):
    """A simulator of which a study keeps a part of the outputs."""

    @property
    def whole(self) -> Simulator:
        """The simulator that runs."""

    def adopt(self, store: Any, wanted: Mapping[str, Inputs]) -> Mapping[str, Any]:
        """Take what a store lacks of it from whole runs that are there; return these runs by key."""


def whole_of(simulator: Simulator) -> Simulator:
    """Return the simulator that runs, whatever is kept of its outputs."""
    return simulator.whole if isinstance(simulator, Partial) else simulator


def function_of(simulator: Simulator) -> Any:
    """Return the Python function that a simulator is; None if it is something else."""
    return getattr(simulator, "function", None)


def module_of(simulator: Simulator) -> str:
    """Return the name of the module that a simulator is defined in."""
    return str(getattr(function_of(simulator) or simulator, "__module__", ""))


def case_of(simulator: Simulator) -> Any:
    """Return the case that declares the inputs of a simulator; None if its arguments do."""
    return getattr(simulator, "case", None)


def warm(simulator: Simulator) -> None:
    """Fill the compiler's cache before several processes try.

    Its case or its module offers a function ``warm``, or there is nothing to compile. The case comes first: a family
    with several engines compiles the one that is needed.
    """
    module = sys.modules.get(module_of(simulator))
    compile_all = getattr(case_of(simulator), "warm", None) or getattr(module, "warm", None)
    if callable(compile_all):
        compile_all()
