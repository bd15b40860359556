"""Cheaper simulators of what a study observes: another model of it, or the same one with a coarser step.

A level takes the parameters and conditions of the study as inputs and gives the outputs that are observed, in the same
units; of `[model.inputs]` it takes what it knows, and its own `inputs` come first. Levels stand cheapest first, and
every point of a level is also run at all levels below it: the numbers of points fall from level to level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tamis.errors import StudyError, nearest
from tamis.simulation import Simulator, described, find
from tamis.space import Space
from tamis.study.definition import Fidelity
from tamis.study.reader import Raw, cheap_tables
from tamis.study.schema import StudyFile
from tamis.study.series import Series
from tamis.types import Value

Fault = Callable[[str, str], StudyError]


def fidelities(
    fail: Fault, raw: Raw, file: StudyFile, simulator: Simulator, space: Space, series: Sequence[Series]
) -> tuple[Fidelity, ...]:
    """Build the cheaper levels of a study, cheapest first."""
    if not file.model.cheap:
        return ()
    if file.surrogate.method != "kriging" or file.surrogate.target != "observables":
        message = (
            'cheap runs are joined with the others by hierarchical Kriging: [surrogate] method = "kriging"'
        )
        given = f'method = "{file.surrogate.method}", target = "{file.surrogate.target}"'
        raise fail("model.cheap", f"{message} of the observables, found {given}")
    designed = [s for s in series if s.designed]
    if not designed:
        raise fail(
            "model.cheap", "there is no surrogate to help: no [[experiment]], and no emulated [[predict]]"
        )
    found = []
    for i, table in enumerate(cheap_tables(raw)):
        where = f"model.cheap[{i}]"
        fewer = file.model.cheap[i + 1].n if i + 1 < len(file.model.cheap) else file.design.n
        if file.model.cheap[i].n <= fewer:
            what = "the next level" if i + 1 < len(file.model.cheap) else "[design]"
            message = f"expected more points than the {fewer} of {what}, found {file.model.cheap[i].n}"
            raise fail(f"{where}.n", f"{message}; levels stand cheapest first, and cheap runs are to be many")
        if file.surrogate.enrich is not None and file.model.cheap[i].cost is None:
            message = (
                "enrichment chooses the level by error removed per second: give the time of a cheap run over"
            )
            raise fail(f"{where}.cost", f"{message} that of an expensive one; `tamis check` measures it")
        kind = next(key for key in ("simulator", "command", "http") if key in table)
        try:
            mine: Simulator = find(described(kind, table[kind], raw.base), raw.base)
        except StudyError as error:
            raise fail(f"{where}.simulator", str(error)) from error
        fixed = _fixed(fail, where, raw, file, mine, file.model.cheap[i].inputs, space)
        _same_ports(fail, where, mine, simulator, fixed, space, designed)
        here = {k: file.model.inputs.get(k, port.default) for k, port in simulator.inputs.items()}
        if mine.name == simulator.name and all(
            here.get(k) == v for k, v in file.model.cheap[i].inputs.items()
        ):
            raise fail(
                where, "is the study's own simulator with the same inputs; give inputs that make it cheaper"
            )
        cost = file.model.cheap[i].cost
        name = mine.name if "simulator" in file.model.cheap[i].model_fields_set else _settings(fixed, file)
        level = Fidelity(
            name, mine, fixed, tuple(designed), file.model.cheap[i].n, None if cost is None else float(cost)
        )
        found.append(level)
    return tuple(found)


def _settings(fixed: dict[str, Value], file: StudyFile) -> str:
    own = {k: v for k, v in fixed.items() if file.model.inputs.get(k) != v}
    return ", ".join(
        f"{key} = {value:g}" if isinstance(value, float) else f"{key} = {value}" for key, value in own.items()
    )


def _fixed(
    fail: Fault,
    where: str,
    raw: Raw,
    file: StudyFile,
    simulator: Simulator,
    own: dict[str, Any],
    space: Space,
) -> dict[str, Value]:
    """Return what is held fixed of a level's inputs: its own, and the study's that it has."""
    fixed: dict[str, Value] = {}
    for name, value in {
        **{k: v for k, v in file.model.inputs.items() if k in simulator.inputs},
        **own,
    }.items():
        if name not in simulator.inputs:
            message = f'simulator {simulator.name} has no input "{name}"{nearest(name, simulator.inputs)}'
            raise fail(f"{where}.inputs.{name}", message)
        if name in space.names:
            raise fail(f"{where}.inputs.{name}", "is also a parameter; all levels take it from the design")
        fixed[name] = (
            str((raw.base / str(value)).resolve()) if simulator.inputs[name].kind == "file" else value
        )
    return fixed


def _same_ports(
    fail: Fault,
    where: str,
    cheap: Simulator,
    simulator: Simulator,
    fixed: dict[str, Value],
    space: Space,
    series: Sequence[Series],
) -> None:
    """Refuse a level that lacks an input or an output of the study, or gives it in another unit."""
    tests = [e for s in series for e in s.experiments]
    inputs = dict.fromkeys([p for p in space.names if p in simulator.inputs])
    inputs |= dict.fromkeys(name for e in tests for name in e.conditions)
    outputs = dict.fromkeys(name for e in tests for name in sorted(e.needs))
    for kind, names, mine, theirs in (
        ("input", inputs, cheap.inputs, simulator.inputs),
        ("output", outputs, cheap.outputs, simulator.outputs),
    ):
        for name in names:
            if name not in mine:
                raise fail(
                    where, f'{cheap.name} has no {kind} "{name}", as the study needs{nearest(name, mine)}'
                )
            if mine[name].unit and theirs[name].unit and mine[name].unit != theirs[name].unit:
                message = f'{cheap.name} has {name} in "{mine[name].unit}", {simulator.name} in "{theirs[name].unit}"'
                raise fail(where, f"{message}; levels are of the same quantities: convert one")
    for e in tests:
        for name in e.conditions:
            if name in fixed:
                raise fail(
                    f"{where}.inputs.{name}", f"is a condition of {e.name}; all levels take it from there"
                )
