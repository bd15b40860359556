"""A simulator reduced to the numbers that a study observes, for signals too large to be kept of every run.

It is a simulator of its own: its outputs are the observed numbers, and its version is that of the whole one with a hash
of what is observed. So a run says what was kept of it by its version, another observable is another version whose
runs the store lacks, and store, export, merge and clusters need to know nothing of it. That is the price as well:
what is compared with the data cannot be changed without running again, except where the store has the whole run
(made before, or imported), from which the numbers are taken.

The reduction happens where the run does, so that a signal never travels. Observables go there as their definitions,
never as code: what a function of the user's own reads is kept as it is, and so is an output observed as it is. Where
something cannot be observed in a run, the bytes of the reason stand in place of its numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from tamis.bands import Bands, Filtered
from tamis.errors import SimulationError, StudyError, error_text
from tamis.observables import (
    At,
    Envelope,
    Extreme,
    Final,
    Measure,
    Observable,
    Peak,
    ResponseSpectrum,
    Spectrum,
    Value,
)
from tamis.runs.keys import digest, spelled
from tamis.runs.provenance import IMPORTED, OBSERVED, code_of, outdated
from tamis.runs.store import Run, RunStore
from tamis.simulation import Batched, Port, Simulator, find
from tamis.types import Array, BatchInputs, Inputs, Outputs

_KINDS: Mapping[str, Any] = {
    kind.__name__: kind
    for kind in (Final, Peak, Extreme, At, Spectrum, Envelope, Bands, Measure, ResponseSpectrum)
}


@dataclass(frozen=True)
class Kept:
    """An observable whose numbers are an output of the reduced simulator."""

    of: Observable
    name: str
    axis: str = ""

    @property
    def unit(self) -> str:
        """Unit of the numbers."""
        return self.of.unit

    @property
    def how(self) -> str:
        """What a study file calls it."""
        return str(getattr(self.of, "how", ""))

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the outputs it reads."""
        return (self.name,)

    def __call__(self, outputs: Outputs) -> Array:
        """Return (m,) numbers of one run."""
        found = np.asarray(outputs[self.name])
        if found.dtype == np.uint8:
            raise SimulationError(found.tobytes().decode(errors="replace"))
        return np.asarray(found, dtype=float)

    def many(self, outputs: Outputs) -> Array:
        """Return (n, m) numbers of n runs."""
        return np.asarray(outputs[self.name], dtype=float)


class ObservedOnly:
    """A simulator whose outputs are observed numbers; all else is that of the ``whole`` one."""

    def __init__(self, whole: Simulator, observables: Iterable[Observable]) -> None:
        every = tuple(observables)
        self.whole = whole
        self.kept: dict[str, Observable] = {}  # by definition
        for observable in every:
            if definition := _definition(observable):
                self.kept.setdefault(definition, observable)
        self.plain = sorted({name for o in every if not _definition(o) for name in o.needs})
        defined = [*sorted(self.kept), *self.plain]
        self.name = whole.name
        self.version = f"{whole.version}{OBSERVED}{digest(defined)[:16]}"
        self.address = f"observed:{json.dumps([whole.address, [sorted(self.kept), self.plain]])}"
        self.inputs = whole.inputs
        self.outputs = {name: whole.outputs[name] for name in self.plain}
        self.outputs |= {_name(d): Port(_name(d), unit=o.unit) for d, o in self.kept.items()}

    def __getattr__(self, name: str) -> Any:
        if name == "whole" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.whole, name)  # doc, references, function, missing: what not every simulator has

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the address alone."""
        return find, (self.address,)

    def observable(self, observable: Observable) -> Observable:
        """Return an observable of the whole simulator as one of this one."""
        definition = _definition(observable)
        if not definition:
            return observable
        port = self.whole.outputs.get(observable.axis)
        unit = f" [{port.unit}]" if port and port.unit else ""
        return Kept(observable, _name(definition), observable.axis + unit)

    def run(self, inputs: Inputs, workdir: Path) -> Outputs:
        """Run one point and keep what is observed."""
        return self.reduced(self.whole.run(inputs, workdir))

    def reduced(self, outputs: Outputs) -> Outputs:
        """Return what is kept of the outputs of a whole run."""
        found = {name: np.asarray(outputs[name]) for name in self.plain}
        for definition, observable in self.kept.items():
            try:
                found[_name(definition)] = observable(outputs)
            except (SimulationError, ValueError) as error:
                found[_name(definition)] = np.frombuffer(
                    error_text(error).encode(errors="replace"), dtype=np.uint8
                )
        return found

    def adopt(self, store: RunStore, wanted: Mapping[str, Inputs]) -> dict[str, Run]:
        """Take the numbers of runs that the store lacks from whole runs that it has, and return these runs by key."""
        whole = self.whole
        keys = {digest(whole.name, whole.version, spelled(whole, full)): key for key, full in wanted.items()}
        have = {key: run for key, run in store.recover(list(keys)).items() if run.status == "done"}
        for run in outdated(whole, have.values()):
            del have[run.key]
        made: dict[str, Run] = {}
        with store.lock() if have else nullcontext():
            for key, run in have.items():
                code = run.code if run.code in ("", IMPORTED) else code_of(self)
                made[keys[key]] = replace(run, key=keys[key], version=self.version, code=code)
                store.add(made[keys[key]], self.reduced(store.outputs(key)))
        return made


class ObservedOnlyBatched(ObservedOnly):
    """The same of a simulator with a batch interface."""

    @property
    def batch_outputs(self) -> tuple[str, ...]:
        """What is kept that can be taken from what the batch interface of the whole simulator offers."""
        assert isinstance(self.whole, Batched)
        have = set(self.whole.batch_outputs)
        kept = [_name(d) for d, o in self.kept.items() if have.issuperset(o.needs)]
        return (*(name for name in self.plain if name in have), *kept)

    def batch(self, inputs: BatchInputs) -> Outputs:
        """Answer for many points at once; a failed row is all NaN."""
        assert isinstance(self.whole, Batched)
        outputs, mine = self.whole.batch(inputs), set(self.batch_outputs)
        kept = {_name(d): o.many(outputs) for d, o in self.kept.items() if _name(d) in mine}
        return {**{name: outputs[name] for name in self.plain if name in mine}, **kept}


def observed(whole: Simulator, observables: Iterable[Observable]) -> ObservedOnly:
    """Reduce a simulator to what some observables take from it."""
    return (ObservedOnlyBatched if isinstance(whole, Batched) else ObservedOnly)(whole, observables)


def from_table(where: str, what: Any) -> ObservedOnly:
    """Make the simulator of an address: that of the whole one, definitions, and names of outputs kept as they are."""
    definitions, plain = what
    try:
        made = [_made(definition) for definition in definitions]
    except (KeyError, TypeError, ValueError) as error:
        raise StudyError(f"these observables cannot be made: {error}") from error
    return observed(find(where), [*made, *map(Value, plain)])


def _made(definition: str) -> Observable:
    kind, said = json.loads(definition)
    if kind == Filtered.__name__:
        return Filtered(_made(said["of"]), said["cutoff"], said["along"])
    return _KINDS[kind](**{**said, **_tuples(said)})  # type: ignore[no-any-return]


def _tuples(said: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) for key, value in said.items() if isinstance(value, list)}


def _definition(observable: Any) -> str:
    """Write down what an observable takes from a run, whatever its unit; nothing for one that is not reduced."""
    if isinstance(observable, Filtered):
        of = _definition(observable.of)
        said = {"of": of, "cutoff": observable.cutoff, "along": observable.along}
        return json.dumps([Filtered.__name__, said]) if of else ""
    if type(observable) not in _KINDS.values():
        return ""
    said = {f.name: getattr(observable, f.name) for f in fields(observable) if f.name != "unit"}
    return json.dumps([type(observable).__name__, said])


def _name(definition: str) -> str:
    kind, said = json.loads(definition)
    if kind == Filtered.__name__:
        return f"filtered.{_name(said['of'])}.{digest(definition)[:8]}"
    return f"{said['output']}.{said.get('how', kind.lower())}.{digest(definition)[:8]}"
