"""Studies that draw their parameters from the posteriors of others.

Such a study has no prior. Its unknowns are what the studies it names have sampled, as far as its own simulator takes
them as inputs or its error models read them. What one of them held fixed in `[model.inputs]` comes along with its
draws: where another one sampled it, or held another number, as a column that does not vary within its draws, else as an
input held fixed here too, unless this study says otherwise. A column is carried over as a number only, so units must
agree; the sources' experiments, and the seed, stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tamis.errors import StudyError
from tamis.inference.posterior import Posterior
from tamis.results.records import Source
from tamis.simulation import Simulator
from tamis.study.definition import Origin, Study
from tamis.study.reader import Raw, noise_parameters
from tamis.study.schema import FromTable, ParameterTable, StudyFile
from tamis.study.series import Series
from tamis.types import Array, Inputs, Value

Fault = Callable[[str, str], StudyError]
FEWEST = 2  # draws from a source that has any: one has no variance


def check_chain(fail: Fault, file: StudyFile, table: FromTable) -> None:
    """Refuse what a study without priors cannot do."""
    for i, test in enumerate(file.experiment):
        if test.use == "calibrate":
            message = (
                "a study that draws its parameters `from` posteriors cannot calibrate: these data would need"
            )
            message += ' a prior, and posterior draws have no density to multiply; use = "validate" compares'
            raise fail(f"experiment[{i}].use", message)
    if file.surrogate.method == "pce":
        message = "polynomial chaos needs independent inputs of known laws; posterior draws are neither"
        raise fail("surrogate.method", f'{message}: run the simulator itself (method = "none")')
    emulates = [(f"experiment[{i}]", test.emulate) for i, test in enumerate(file.experiment)]
    emulates += [(f"predict[{i}]", ahead.emulate) for i, ahead in enumerate(file.predict)]
    for where, asked in emulates:
        if asked:
            message = (
                "there is no surrogate: it would need a prior to lay its design over, and posterior draws"
            )
            raise fail(f"{where}.emulate", f"{message} are none; remove it, and the simulator itself answers")
    nothing = {
        "surrogate": "there is no prior over which a design for a surrogate could be laid",
        "design": "there is no prior to lay a design over: [parameters] draws says how many points are run",
        "correlation": "draws of a posterior bring their own dependence along",
        "sensitivity": "there is no design to read it from; sensitivities belong to the studies that are drawn from",
        "next": "there are no data here; ask the studies that are drawn from what to measure next",
    }
    for key, message in nothing.items():
        if key in file.model_fields_set:
            raise fail(key, f"{message}; remove it")
    if more := sorted(file.inference.model_fields_set - {"on_crash"}):
        raise fail(f"inference.{more[0]}", "nothing is sampled here; remove it")
    if table.draws < FEWEST * len(table.studies):
        message = f"expected at least {FEWEST} for each of {len(table.studies)} studies, found {table.draws}"
        raise fail("parameters.draws", message)
    draws = [(f"experiment[{i}]", test.draws) for i, test in enumerate(file.experiment)]
    draws += [(f"predict[{i}]", table.draws) for i, table in enumerate(file.predict)]
    for where, n in draws:
        if n is not None:
            raise fail(f"{where}.draws", "[parameters] draws says how many there are; remove it")


def check_replicates(
    fail: Fault, file: StudyFile, simulator: Simulator, fixed: Inputs, series: Sequence[Series]
) -> None:
    """Refuse several runs at a draw that would all be the same."""
    assert isinstance(file.parameters, FromTable)
    imposed = any("seed" in e.conditions for s in series for e in s.experiments)
    if file.parameters.replicates > 1 and ("seed" not in simulator.inputs or "seed" in fixed or imposed):
        what = "has no input called seed" if "seed" not in simulator.inputs else "is given its seed"
        raise fail(
            "parameters.replicates", f"{simulator.name} {what}, so that all runs at a draw would be the same"
        )


def adopted(
    fail: Fault, raw: Raw, file: StudyFile, simulator: Simulator, studies: Sequence[Study]
) -> tuple[dict[str, ParameterTable], dict[str, Value], tuple[Origin, ...]]:
    """Return the laws of the unknowns, the inputs that are held fixed, and what each study held of the unknowns.

    The laws are the priors of the first study that has them: nothing is drawn from them, they are told.
    """
    noisy = set(noise_parameters(raw, {name for study in studies for name in study.space.names}))
    assert isinstance(file.parameters, FromTable)
    names = _names(raw, studies, file.parameters.studies)
    laws: dict[str, ParameterTable] = {}
    for name, study in zip(names, studies, strict=True):
        for parameter in study.space.parameters:
            if parameter.name in simulator.inputs or parameter.name in noisy:
                _same_unit(fail, name, study, parameter.name, simulator, laws)
                known = study.laws[parameter.name].model_copy(update={"unit": parameter.unit})
                laws.setdefault(parameter.name, known)
    if not any(name in simulator.inputs for name in laws):
        sampled = ", ".join(dict.fromkeys(p for study in studies for p in study.space.names))
        raise fail("parameters.from", f"none of their parameters ({sampled}) is an input of {simulator.name}")
    carried = _constants(fail, file, simulator, studies, names, laws)
    origins = tuple(
        Origin(
            name,
            study,
            {p: _held(fail, name, study, p, simulator) for p in laws if p not in study.space.names},
        )
        for name, study in zip(names, studies, strict=True)
    )
    return laws, carried, origins


def _names(raw: Raw, studies: Sequence[Study], given: Sequence[str]) -> list[str]:
    """Name studies by their files; by folder and file, or as they are given, where files are called alike.

    Alike with each other, or with the study that draws from them.
    """
    stems = [study.path.stem for study in studies]
    if len({raw.path.stem, *stems}) > len(stems):
        return stems
    longer = [f"{study.path.parent.name}/{study.path.stem}" for study in studies]
    return longer if len(set(longer)) == len(longer) else list(given)


def _same_unit(
    fail: Fault,
    name: str,
    study: Study,
    parameter: str,
    simulator: Simulator,
    laws: Mapping[str, ParameterTable],
) -> None:
    """Refuse a number that would mean something else here."""
    own = study.space.parameters[study.space.index(parameter)].unit if parameter in study.space.names else ""
    port = study.simulator.inputs.get(parameter)
    theirs = own or (port.unit if port else "")
    here = simulator.inputs.get(parameter)
    for ours, whose in (
        (here.unit if here else "", f"{simulator.name} takes"),
        (laws[parameter].unit if parameter in laws else "", "another of these studies gives"),
    ):
        if theirs and ours and theirs != ours:
            message = (
                f'{name} gives {parameter} in "{theirs}", but {whose} it in "{ours}"; convert one of them'
            )
            raise fail("parameters.from", message)
    if here is not None and port is not None and here.kind != port.kind:
        message = (
            f"{parameter} is a {port.kind} of {study.simulator.name}, but a {here.kind} of {simulator.name}"
        )
        raise fail("parameters.from", message)


def _constants(
    fail: Fault,
    file: StudyFile,
    simulator: Simulator,
    studies: Sequence[Study],
    names: Sequence[str],
    laws: dict[str, ParameterTable],
) -> dict[str, Value]:
    """Return what all studies hold fixed alike; numbers in which they differ become unknowns that vary between them."""
    here = {"seed", *laws, *file.model.inputs, *_imposed_everywhere(file)}
    fixed: dict[str, Value] = {}
    for key in dict.fromkeys(key for study in studies for key in study.fixed if key in simulator.inputs):
        if key in here:
            continue
        for name, study in zip(names, studies, strict=True):
            if key in study.simulator.inputs:
                _same_unit(fail, name, study, key, simulator, {})
        values = [_value(study, key, simulator) for study in studies]
        if all(value == values[0] for value in values):
            if values[0] is not None:
                fixed[key] = values[0]
        elif len(numbers := [float(v) for v in values if isinstance(v, int | float)]) == len(values):
            ends: dict[str, Any] = {"low": min(numbers), "high": max(numbers)}
            laws[key] = ParameterTable(prior="uniform", unit=simulator.inputs[key].unit, **ends)
        else:
            told = ", ".join(f"{name}: {value}" for name, value in zip(names, values, strict=True))
            message = f"the studies differ in {key} ({told}), which is no number: set it in [model.inputs]"
            raise fail("parameters.from", f"{message}, or propagate each in a study of its own")
    return fixed


def _imposed_everywhere(file: StudyFile) -> set[str]:
    """Return the inputs that every test and prediction imposes, so that what the sources held does not matter."""
    each = [set(test.conditions) for test in file.experiment]
    each += [{*table.conditions, *([table.sweep.input] if table.sweep else [])} for table in file.predict]
    return set.intersection(*each) if each else set()


def _value(study: Study, name: str, simulator: Simulator) -> Value | None:
    """Return what a study used for an input that it did not sample; what is used here where it has none."""
    port = study.simulator.inputs.get(name) or simulator.inputs[name]
    found: Value | None = study.fixed.get(name, port.default)
    return found


def _held(fail: Fault, name: str, study: Study, parameter: str, simulator: Simulator) -> float:
    """Return the number that stands for a parameter in all draws of a study that did not sample it."""
    if parameter not in simulator.inputs:
        raise fail("parameters.from", f"{name} has no parameter {parameter}, which an error model reads here")
    value = _value(study, parameter, simulator)
    if not isinstance(value, int | float):
        message = f"{name} neither samples {parameter} nor holds it at a number, as the other studies do"
        raise fail("parameters.from", f"{message}; give it in its [model.inputs]")
    if parameter in study.simulator.inputs:
        _same_unit(fail, name, study, parameter, simulator, {})
    return float(value)


def joint_draws(study: Study, sources: Sequence[Source]) -> Posterior:
    """Return the draws from all sources as one sample of this study's unknowns, with the source of each.

    Errors of sources are independent, and each counts with the square of its share.
    """
    parts, n = [], sum(len(source.x) for source in sources)
    spread = 0.0
    for origin, source in zip(study.origins, sources, strict=True):
        columns = [
            source.x[:, source.names.index(p)]
            if p in source.names
            else np.full(len(source.x), origin.held[p])
            for p in study.space.names
        ]
        parts.append(np.column_stack(columns))
        if len(source.x):
            spread += (len(source.x) / n) ** 2 / source.worth
    which = np.repeat(np.arange(len(sources)), [len(part) for part in parts])
    logs = [np.concatenate([getattr(s, key) for s in sources]) for key in ("log_likelihood", "log_prior")]
    found = {
        "ess": np.full(study.space.dim, 1 / spread),
        "source": which,
        "worth": np.array([source.worth for source in sources]),
    }
    return Posterior(study.space, np.concatenate(parts)[None], logs[0][None], logs[1][None], None, found)


def best_points(study: Study, sources: Sequence[Source]) -> tuple[tuple[str, ...], Array]:
    """Return the point of highest density of every source that was drawn from, (k, d), and their names."""
    names, rows = [], []
    for origin, source in zip(study.origins, sources, strict=True):
        if len(source.x):
            names.append(source.name)
            rows.append(
                [
                    source.best[source.names.index(p)] if p in source.names else origin.held[p]
                    for p in study.space.names
                ]
            )
    return tuple(names), np.array(rows, dtype=float)
